"""Batches: any size, samples that do not disturb each other, and no byte touched outside the buffers."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from c_library import needs_gcc
from jaxmbs.programs import backends
from jaxmbs.programs.backends.cpu import machine
from jaxmbs.programs.backends.llvm import ffi, layout


def function(x, matrix):
    """A solution, a loop with rows, a loop that ends early, a choice, elementary functions."""
    z = jnp.linalg.solve(matrix, jnp.sin(x))
    z, rows = lax.scan(lambda c, u: (0.9 * c + u * jnp.cos(c), c.sum()), z, jnp.arange(40, dtype=x.dtype) * 0.01)
    goes_on = lambda s: (s[0] < 20) & (s[1] > 0.1)
    count, size = lax.while_loop(goes_on, lambda s: (s[0] + 1, 0.7 * s[1]), (0, jnp.abs(z[0])))
    return jnp.where(z > x, z, x), rows[::13], count, size, jnp.argmax(z), z[0] > 0


def samples(count, dtype=np.float64):
    rng = np.random.default_rng(count)
    return rng.normal(size=(count, 3)).astype(dtype), rng.normal(size=(count, 3, 3)).astype(dtype) + 3 * np.eye(
        3, dtype=dtype
    )


PROGRAM = mbs.program(function)


@pytest.fixture(scope="module")
def one_by_one():
    """Every sample on its own."""
    single = jax.jit(PROGRAM)
    return lambda xs, ms: jax.tree.map(
        lambda *parts: np.stack(parts), *[single(x, m) for x, m in zip(xs, ms, strict=True)]
    )


@pytest.mark.parametrize("count", [1, 7, 1023])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_batch_is_its_samples(count, dtype, one_by_one, agree):
    """Whatever the size of the batch, and to the bit: what is rounded together is part of the program."""
    args = samples(count, dtype)
    agree(jax.jit(jax.vmap(PROGRAM))(*args), one_by_one(*args), 0)


def test_optimised_code_gives_the_same_bits(monkeypatch, agree):
    """Also where LLVM leaves out what takes it long."""
    found = []
    for effort in (0, 1):
        monkeypatch.setattr(machine, "optimisation_level", lambda program, total, effort=effort: effort)
        found.append(jax.jit(jax.vmap(PROGRAM))(*samples(23)))
    agree(*found, 0)


def test_short_runs_of_few_samples_are_compiled_quickly():
    """A loop of 40 rounds for one sample, not for a thousand; and what has no loop only if that is asked for."""
    loop, line = PROGRAM.trace(*(x[0] for x in samples(1))), mbs.program(lambda x: jnp.sin(x) @ x).trace(jnp.ones(3))
    assert [machine.optimisation_level(loop, total) for total in (1, 1000)] == [0, 1]
    assert [machine.optimisation_level(line, total) for total in (1, 1000)] == [1, 1]
    line.max_unoptimised_samples = 10
    assert [machine.optimisation_level(line, total) for total in (10, 11)] == [0, 1]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1)])
def test_empty_batches_and_batches_of_one(shape, emission):
    """They have the shapes and dtypes that they should have."""
    apply = lambda f: jax.vmap(f) if len(shape) == 1 else jax.vmap(jax.vmap(f))
    args = np.ones((*shape, 3)), np.ones((*shape, 3, 3)) + np.eye(3)
    found, expected = (jax.eval_shape(apply(f), *args) for f in (PROGRAM, function))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), found) == jax.tree.map(lambda x: (x.shape, x.dtype), expected)
    for x, like in zip(jax.tree.leaves(jax.jit(apply(PROGRAM))(*args)), jax.tree.leaves(expected), strict=True):
        assert (x.shape, x.dtype) == (like.shape, like.dtype)


@pytest.mark.parametrize("common", [None, "inner", "outer"])
def test_two_batch_axes(common, one_by_one, agree):
    """Both arguments along both axes, or one of them along one only."""
    xs, ms = samples(35)
    xs, ms = xs.reshape(5, 7, 3), ms.reshape(5, 7, 3, 3)
    if common is None:
        found = jax.jit(jax.vmap(jax.vmap(PROGRAM)))(xs, ms)
    elif common == "inner":
        ms = ms[:, :1]
        found = jax.jit(jax.vmap(jax.vmap(PROGRAM, (0, None))))(xs, ms[:, 0])
    else:
        ms = ms[:1]
        found = jax.jit(jax.vmap(jax.vmap(PROGRAM), (0, None)))(xs, ms[0])
    flat = np.broadcast_to(ms, (5, 7, 3, 3)).reshape(35, 3, 3)
    expected = one_by_one(xs.reshape(35, 3), flat)
    agree(jax.tree.map(lambda x: np.asarray(x).reshape(35, *x.shape[2:]), found), expected, 1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, 5e-324])
def test_bad_samples_stay_alone(bad):
    """The others are the same bit for bit, and the rest of the batch still ends its loops."""
    xs, ms = samples(37)
    batch = jax.jit(jax.vmap(PROGRAM))
    good = batch(xs, ms)
    spoilt_x, spoilt_m = xs.copy(), ms.copy()
    spoilt_x[5, 1] = bad
    spoilt_m[20] = bad
    others = np.delete(np.arange(37), [5, 20])
    for a, b in zip(jax.tree.leaves(good), jax.tree.leaves(batch(spoilt_x, spoilt_m)), strict=True):
        np.testing.assert_array_equal(np.asarray(a)[others].view(np.uint8), np.asarray(b)[others].view(np.uint8))


GUARDED = r'''
import ctypes, mmap, sys

import jax, jax.numpy as jnp, numpy as np

jax.config.update("jax_enable_x64", True)
from jax import lax
import jaxmbs as mbs
from jaxmbs.programs.backends.cpu import machine
from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.runtime import tuning

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE = mmap.PAGESIZE


def guarded(values, at_end):
    """A copy between two pages that nobody may touch, at the end or at the beginning of what lies between."""
    size = max(-(-values.nbytes // PAGE), 1) * PAGE
    start = libc.mmap(None, size + 2 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    for page in (start, start + PAGE + size):
        assert libc.mprotect(page, PAGE, 0) == 0
    address = start + PAGE + (size - values.nbytes if at_end else 0)
    view = np.frombuffer((ctypes.c_char * values.nbytes).from_address(address), values.dtype).reshape(values.shape)
    view[...] = values
    return view


class Buffer(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("dtype", ctypes.c_int),
                ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.c_void_p)]


class Args(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("count", ctypes.c_int64),
                ("types", ctypes.c_void_p), ("args", ctypes.c_void_p)]


class Attrs(ctypes.Structure):
    _fields_ = [*Args._fields_, ("attrs", ctypes.c_void_p)]


class CallFrame(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("api", ctypes.c_void_p),
                ("ctx", ctypes.c_void_p), ("stage", ctypes.c_int), ("args", Args), ("rets", Args),
                ("attrs", Attrs), ("future", ctypes.c_void_p)]


class Extension(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p), ("metadata", ctypes.c_void_p)]


class Metadata(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("version_size", ctypes.c_size_t), ("extension", ctypes.c_void_p),
                ("major", ctypes.c_int), ("minor", ctypes.c_int), ("traits", ctypes.c_uint32), ("state", ctypes.c_int64)]


def group(arrays, keep):
    buffers = [Buffer(ctypes.sizeof(Buffer), None, 0, a.ctypes.data, a.ndim, None) for a in arrays]
    pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    keep += [buffers, pointers]
    return Args(ctypes.sizeof(Args), None, len(buffers), None, ctypes.addressof(pointers))


def function(x, n, flag):
    rows = lax.scan(lambda c, u: (jnp.sin(c) + u, c), x, jnp.arange(30, dtype=x.dtype))[1]
    return jnp.where(flag, x[::-1], x[n % 3]), rows, n * 2, flag ^ (x[0] > 0)


def check(dtype, count, at_end, lanes):
    rng = np.random.default_rng(count)
    args = [rng.normal(size=(count, 3)).astype(dtype), rng.integers(0, 9, count).astype(np.int32), rng.random(count) > 0.5]
    expected = [np.asarray(y) for y in jax.jit(jax.vmap(function))(*args)]
    program = mbs.program(function).trace(*[a[0] for a in args])
    code = machine.MachineCode(program, lanes)
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(code.address)
    metadata = Metadata(ctypes.sizeof(Metadata), 32)
    extension = Extension(ctypes.sizeof(Extension), 1, None, ctypes.addressof(metadata))
    frame = CallFrame(ctypes.sizeof(CallFrame), ctypes.addressof(extension))
    assert call(ctypes.addressof(frame)) is None
    assert (metadata.major, metadata.minor) == ffi.api_version(), (metadata.major, metadata.minor)
    strides = []
    for shape in (*program.inputs, *program.outputs):
        strides += [0, shape.size]
    meta = np.array([count, count, *strides], np.int64)
    inputs = [guarded(a, at_end) for a in (meta, *args)]
    outputs = [guarded(np.zeros_like(y), at_end) for y in expected]
    keep = []
    frame = CallFrame(ctypes.sizeof(CallFrame), None, None, None, 3, group(inputs, keep), group(outputs, keep))
    machine_frame = call(ctypes.addressof(frame))
    assert machine_frame is None
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    for found, y in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, y, rtol=tolerance, atol=tolerance)


tuning.MIN_OPERATIONS_FOR_THREADS = 10**15  # there is no pool of threads here
for dtype in (np.float64, np.float32):
    for count in (1, 7, 1023):
        for at_end in (False, True):
            program = mbs.program(function).trace(jnp.ones(3, dtype), 1, True)
            lanes = 1 if count == 1 and at_end else machine.natural_lanes(program)
            check(dtype, count, at_end, lanes)
print("all is well")
'''

needs_machine = pytest.mark.skipif(machine.host()[2] < 16, reason="no machine code here")


@needs_machine
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory protection is called by its Linux name")
@pytest.mark.slow
def test_nothing_is_touched_outside_of_the_buffers(tmp_path):
    """Buffers between protected pages: reading or writing beyond them would end the process. The handler's answer to
    the question for its version is that of the header."""
    script = tmp_path / "guarded.py"
    script.write_text(GUARDED)
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(script)]
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "all is well" in result.stdout


@needs_gcc
def test_offsets_are_those_of_the_header(tmp_path):
    """Places of fields in XLA's structures, as a C compiler has them."""
    functions = [
        "XLA_FFI_ThreadPool_NumThreads",
        "XLA_FFI_ThreadPool_Schedule",
        "XLA_FFI_Error_Destroy",
        "XLA_FFI_Error_Create",
        "XLA_FFI_Stream_Get",
    ]
    # The name in the installed version.
    written = {new: old for old, new in layout.RENAMED.items() if old in layout.header()}
    places = {f"offsetof(XLA_FFI_Api, {name})": ffi.api_field(name) for name in functions}
    for struct, offsets in layout.KNOWN_OFFSETS.items():
        places |= {f"offsetof({written.get(struct, struct)}, {name})": at for name, at in offsets.items()}
    places |= {f"sizeof({struct})": size for struct, size in layout.KNOWN_SIZES.items()} | layout.KNOWN_VALUES
    lines = "\n".join(f'_Static_assert({what} == {at}, "{what}");' for what, at in places.items())
    source = tmp_path / "places.c"
    source.write_text(f'#include <stddef.h>\n#include "xla/ffi/api/c_api.h"\n{lines}\n')
    command = ["gcc", "-std=c11", "-fsyntax-only", "-I", jax.ffi.include_dir(), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not re.findall(r"static assertion failed: .*", result.stderr), result.stderr
    assert result.returncode == 0, result.stderr


CHANGES = {
    "a field before those that are read": (
        "XLA_FFI_ExecutionStage stage;",
        "int64_t id; XLA_FFI_ExecutionStage stage;",
    ),
    "a wider field": ("XLA_FFI_DataType dtype;", "XLA_FFI_Args dtype;"),
    "a longer list of arguments": ("XLA_FFI_Error_Code errc;", "XLA_FFI_Error_Code errc; int64_t line;"),
    "a field of a type without a known size": ("int64_t rank;", "XLA_FFI_Shape rank;"),
    "another stage": ("XLA_FFI_ExecutionStage_EXECUTE = 3", "XLA_FFI_ExecutionStage_EXECUTE = 4"),
    "a name that is gone": ("struct XLA_FFI_Buffer {", "struct XLA_FFI_Tensor {"),
    "another major version": ("#define XLA_FFI_API_MAJOR 0", "#define XLA_FFI_API_MAJOR 1"),
}


def test_another_layout_of_the_interface_is_left_to_xla(monkeypatch):
    """Whatever differs is found; programs are then compiled by XLA, and one warning says why."""
    header = layout.header()
    assert layout.differences(header) == []
    changed = {name: header.replace(old, new) for name, (old, new) in CHANGES.items()}
    assert [name for name, text in changed.items() if text == header or not layout.differences(text)] == []
    monkeypatch.setattr(layout, "header", lambda: changed["a field before those that are read"])
    for function in (ffi.is_known_interface, ffi.available):
        monkeypatch.setattr(ffi, function.__name__, functools.cache(function.__wrapped__))
    with pytest.warns(
        mbs.PerformanceWarning, match=r"stage is at byte 40 instead of 32 and \d+ more.*XLA compiles"
    ) as said:
        assert backends.backend_for("llvm", "cpu").explain() == "straight-line, XLA"
    assert backends.backend_for("llvm", "cuda").explain() == "straight-line, XLA"
    assert len(said) == 1


def test_batches_of_programs_inside_of_a_program(agree):
    """A program may call others, and batches of them."""
    inner = mbs.program(lambda y, z: jnp.sin(y) * z)
    function = lambda x: jax.vmap(jax.vmap(inner, (0, None)), (None, 0))(x, 2 * x) @ x
    plain = lambda x: (jnp.sin(x)[None, :] * (2 * x)[:, None]) @ x
    x = jnp.linspace(0.1, 1.0, 5)
    agree(mbs.program(function)(x), plain(x))
    agree(jax.grad(lambda x: mbs.program(function)(x).sum())(x), jax.grad(lambda x: plain(x).sum())(x))


def test_long_batches_inside_of_a_program_stay_loops():
    """The program of a long batch is as long as that of one that is longer still."""
    inner = mbs.program(lambda x: jnp.linalg.solve(jnp.eye(3) + jnp.outer(x, x), x))
    outer = mbs.program(lambda x: jax.vmap(inner)(x).sum())
    sizes = [outer.trace(np.ones((count, 3))).size for count in (100, 1000)]
    assert sizes[1] - sizes[0] <= 4 * 900  # the sum of three numbers of each row
    x = np.random.default_rng(0).random((100, 3))
    expected = sum(np.linalg.solve(np.eye(3) + np.outer(y, y), y).sum() for y in x)
    np.testing.assert_allclose(outer(x), expected, rtol=1e-12)


def test_without_llvmlite():
    """Without llvmlite, XLA gives the same values."""
    code = """
import sys
sys.modules["llvmlite"] = None
import jax, jax.numpy as jnp, jaxmbs as mbs
from jaxmbs.programs.backends import backend_for
jax.config.update("jax_enable_x64", True)
assert backend_for("llvm", "cpu") is backend_for("llvm", "cuda")
f = mbs.program(lambda x: jax.lax.fori_loop(0, 50, lambda k, y: jnp.cos(y) * x, x))
print(float(jax.vmap(f)(jnp.full(3, 0.7)).sum()), float(jax.grad(f)(0.7)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    f = mbs.program(lambda x: lax.fori_loop(0, 50, lambda k, y: jnp.cos(y) * x, x))
    expected = [float(jax.vmap(f)(jnp.full(3, 0.7)).sum()), float(jax.grad(f)(0.7))]
    np.testing.assert_allclose([float(x) for x in done.stdout.split()], expected, rtol=1e-13)


def test_arguments_by_name():
    """A program takes keyword arguments, as the function does."""
    f = mbs.program(lambda x, *, scale: scale["by"] * x)
    assert f(2.0, scale={"by": jnp.asarray(3.0)}) == 6.0


def test_python_numbers_take_the_type_of_the_arrays():
    """As in JAX, a Python number beside a float32 array is a float32."""
    f = mbs.program(lambda x, h: jnp.sin(x) * h)
    assert f(np.float32([0.5, 1.0]), 0.1).dtype == np.float32
    assert f(np.float64([0.5, 1.0]), 0.1).dtype == np.float64


def test_large_regions_are_compiled_in_parts(monkeypatch):
    """Functions of a few nodes each, with what goes from one to the other in memory, compute the same to rounding."""

    def in_one_piece(x, matrix):
        return function(x, matrix), jnp.cos(x) * 2

    def in_parts(x, matrix):
        return in_one_piece(x, matrix)

    results = lambda f: jax.tree.leaves(jax.jit(jax.vmap(mbs.program(f)))(*samples(13)))
    whole = results(in_one_piece)
    monkeypatch.setattr("jaxmbs.programs.runtime.tuning.MAX_FUNCTION_NODES", 9)
    for a, b in zip(whole, results(in_parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_what_no_result_depends_on_is_no_input(emission):
    """It is dropped where the function does not use it, not handed over where a zero makes it vanish; results and
    derivatives are those of all arguments."""

    def function(x, unused, vanishing):
        return x**2 + jnp.diag(np.array([0.0, 1.0])) @ vanishing, {"constant": jnp.ones(())}

    program = mbs.program(function)
    args = jnp.array([1.0, 2.0]), jnp.full(3, jnp.nan), jnp.array([5.0, 3.0])
    traced = program.trace(*args)
    assert [x.shape for x in traced.inputs] == [(2,), (2,)]
    assert program.trace(*args[:2], jnp.zeros(2)) is traced
    np.testing.assert_array_equal(program(*args)[0], [1.0, 7.0])
    jacobians = jax.jacrev(lambda *a: program(*a)[0], (0, 1, 2))(*args[:2], jnp.ones(2))
    for found, wanted in zip(jacobians, (np.diag([2.0, 4.0]), np.zeros((2, 3)), np.diag([0.0, 1.0])), strict=True):
        np.testing.assert_array_equal(found, wanted)
    batch = jax.vmap(program, (None, 0, None))(args[0], jnp.ones((5, 3)), jnp.ones(2))
    np.testing.assert_array_equal(batch[0], np.tile([1.0, 5.0], (5, 1)))
