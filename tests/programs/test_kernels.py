"""Kernels for GPUs, as far as a machine without one can prove them: their own text run thread by thread on the host, PTX
that NVIDIA's assembler accepts, and the calls of the driver."""

import ctypes
import itertools
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from dynamic_problems import four_bar, four_bar_design, four_bar_start
from jaxmbs.programs.backends.gpu import backend, driver, host, ptx
from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.runtime import primitive, tuning
from looping_program import ROWS, rows
from planar_catalogue import CATALOGUE
from ptxas import assembled, programs_of
from random_mechanisms import random_closed, random_tree


def samples(count, dtype=np.float64):
    rng = np.random.default_rng(count)
    return rng.normal(size=(count, 3)).astype(dtype), (rng.normal(size=(count, 3, 3)) + 3 * np.eye(3)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [1, 31, 33, 1000])
def test_threads_give_what_lanes_give(count, dtype, agree):
    """For fewer and for more samples than a block has threads, one of them without a number."""
    x, matrix = samples(count, dtype)
    x[count // 2, 1] = np.nan
    expected = jax.jit(jax.vmap(ROWS))(x, matrix)
    with primitive.emission("gpu-on-host"):
        found = jax.jit(jax.vmap(ROWS))(x, matrix)
    np.testing.assert_array_equal(found[4], expected[4])
    agree(found, expected, 1e-12 if dtype == np.float64 else 1e-5)


def test_operands_that_the_batch_shares(agree):
    """Along both axes, along one of them, along none; three axes, which are too many to be told apart."""
    x, matrix = samples(30)
    x, matrix = x.reshape(2, 3, 5, 3), matrix.reshape(2, 3, 5, 3, 3)
    both = jax.vmap(jax.vmap(ROWS, (0, None)), (None, 0))
    three = jax.vmap(jax.vmap(jax.vmap(ROWS, (0, None)), (None, 0)))
    for function, args in [
        (both, (x[0, 0], matrix[0, :, 0])),
        (jax.vmap(ROWS, (0, None)), (x[0, 0], matrix[0, 0, 0])),
        (three, (x[:, 0], matrix[:, :, 0])),
    ]:
        expected = jax.jit(function)(*args)
        with primitive.emission("gpu-on-host"):
            agree(jax.jit(function)(*args), expected)


def test_few_threads_for_many_samples(agree, monkeypatch):
    """If the workspace for all samples is too large, a thread takes one sample after the other."""
    x, matrix = samples(1000)
    program = ROWS.trace(x[0], matrix[0])
    kernel = ptx.kernel(program, (8, 0))
    assert kernel.scratch > 0
    monkeypatch.setattr(tuning, "MAX_WORKSPACE_BYTES", 70 * kernel.scratch)
    monkeypatch.setattr(tuning, "MIN_THREADS", 64)
    assert backend.grid(1000, kernel.scratch) == (2, 32)
    with primitive.emission("gpu-on-host"):
        found = jax.jit(lambda *args: jax.vmap(ROWS)(*args))(x, matrix)
    agree(found, jax.jit(jax.vmap(ROWS))(x, matrix))
    monkeypatch.setattr(tuning, "MAX_WORKSPACE_BYTES", kernel.scratch)
    assert "MB of workspace" in backend.KernelOnHost().refusal(program)


DESIGN = jax.tree.map(jnp.asarray, four_bar_design())
START = four_bar_start(DESIGN, (0.4, 0.3, 1.2))
TIMES = np.linspace(0.0, 0.2, 3)
SLOW = pytest.mark.slow


def swing(method, formulation):
    """The last configuration of a four-bar as a function of its lengths."""

    def last(b):
        return mbs.simulate(four_bar(b), TIMES, START, step=0.02, method=method, formulation=formulation).q[-1]

    return last


SWINGS = {
    "Augmented": swing(mbs.RK4(), None),
    "JointCoordinates": swing(mbs.RK4(), mbs.JointCoordinates()),
    "Natural": swing(mbs.RK4(), mbs.Natural()),
    "Kane": swing(mbs.RK4(), mbs.Kane()),
    "semi-implicit": swing(mbs.SemiImplicitEuler(), None),
    "generalized-alpha": swing(mbs.GeneralizedAlpha(0.9), None),
    "HHT": swing(mbs.HHT(), None),
    "partitioning": swing(mbs.CoordinatePartitioning(), None),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["JointCoordinates", *(pytest.param(x, marks=SLOW) for x in SWINGS if x[0] != "J")])
def test_simulations_and_gradients(name, agree):
    """In every formulation and by every method, of lengths that close and of some that do not."""
    slopes = jax.grad(lambda b: jnp.sum(SWINGS[name](b) ** 2))
    # Stacked, since some slopes are zero but for rounding.
    function = lambda b: (SWINGS[name](b), jnp.stack(jax.tree.leaves(slopes(b))))
    batch = jax.tree.map(lambda x: x * jnp.ones(5), DESIGN)
    batch["coupler"] = batch["coupler"] * jnp.array([0.98, 1.0, 0.01, 1.02, 1.01])
    expected = jax.jit(jax.vmap(function))(batch)
    with primitive.emission("gpu-on-host"):
        found = jax.jit(lambda b: jax.vmap(function)(b))(batch)
    np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(expected[0]))
    good = jnp.array([0, 1, 3, 4])
    agree(*(jax.tree.map(lambda x: x[good], y) for y in (found, expected)), 1e-9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("name", ["JointCoordinates", *(pytest.param(x, marks=SLOW) for x in SWINGS if x[0] != "J")])
def test_the_assembler_takes_kernels_and_their_derivatives(name, capability, tmp_path):
    """No kernel has more than 255 registers, or a frame that LLVM has not put into them."""
    function = SWINGS[name]
    for f in (function, jax.grad(lambda b: jnp.sum(function(b) ** 2))):
        for program in programs_of(f, DESIGN):
            kernel = ptx.kernel(program, capability)
            assert not kernel.refused
            assert f".target sm_{capability[0]}{capability[1]}" in kernel.text
            # LLVM has put the frame into registers: a thread has no memory of its own but for what the assembler spills.
            assert "__local_depot" not in kernel.text
            assert assembled(kernel.text, capability, tmp_path).registers <= 255


@SLOW
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_assembler_takes_every_planar_element(name, capability, tmp_path):
    """Kinematics of a mechanism with it, and its gradient by all numbers of the element."""
    entry = CATALOGUE[name]
    motion = lambda b: mbs.kinematics(entry.build(b), np.array([0.2, 0.3]), entry.start()).v
    for f in (motion, jax.grad(lambda b: jnp.sum(motion(b)[-1] ** 2))):
        for program in programs_of(f, jax.tree.map(jnp.asarray, entry.b)):
            assembled(ptx.kernel(program, capability).text, capability, tmp_path)


@SLOW
@pytest.mark.parametrize(
    "formulation", [mbs.Augmented(), mbs.JointCoordinates()], ids=["Augmented", "JointCoordinates"]
)
@pytest.mark.parametrize("kind", ["closed in the plane", "open in space"])
def test_the_assembler_takes_random_mechanisms(kind, formulation, tmp_path):
    """A simulation and its gradient by the start."""
    rng = np.random.default_rng(0)
    mech, q = random_closed(rng, 4, dimension=2) if kind == "closed in the plane" else random_tree(rng, 2)
    run = lambda q: mbs.simulate(mech, np.array([0.0, 0.02]), q, step=5e-3, formulation=formulation).q
    for f in (run, jax.grad(lambda q: jnp.sum(run(q)[-1] ** 2))):
        for program in programs_of(f, jnp.asarray(q)):
            kernel = ptx.kernel(program, (9, 0))
            assert not kernel.refused
            assembled(kernel.text, (9, 0), tmp_path)


@SLOW
def test_the_script_for_gpus_runs():
    """Its checks and its tables on a CPU, with small batches."""
    script = Path(__file__).parents[2] / "benchmarks/gpu.py"
    command = [sys.executable, script, "--host", "--only", "four-bar, joint"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("agrees") == 2
    assert "| float64 | kernel |" in done.stdout
    assert "failed" not in done.stdout


def test_a_simulation_in_single_precision_stays_in_registers(tmp_path):
    """The kernel that has the steps in it; the assembly before them may spill."""
    jax.config.update("jax_enable_x64", False)
    single = lambda x: jax.tree.map(lambda x: jnp.asarray(np.asarray(x), np.float32), x)
    start, times = single(START), TIMES.astype(np.float32)
    march = lambda b: mbs.simulate(four_bar(b), times, start, step=0.02, formulation=mbs.JointCoordinates()).q
    has_steps = lambda program: any(eqn.primitive.name == "scan" for eqn in program.source.eqns)
    (steps,) = (program for program in programs_of(march, single(DESIGN)) if has_steps(program))
    assert steps.dtype == np.float32
    assert assembled(ptx.kernel(steps, (9, 0)).text, (9, 0), tmp_path).spilled == 0


def lowered(function, *args) -> str:
    with primitive.emission("llvm"):
        return jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def test_the_text_for_cuda_has_kernels_and_no_loops():
    """Simulation and its gradient: XLA's `while` would ask the host after each round."""
    batch = jax.tree.map(lambda x: x * jnp.ones(64), DESIGN)
    gradient = jax.grad(lambda b: jnp.sum(jax.vmap(SWINGS["JointCoordinates"])(b) ** 2))
    text = lowered(gradient, batch)
    assert "while" not in text
    calls = re.findall(r"custom_call @(\w+)", text)
    assert calls
    assert all(re.match(r"jaxmbs_gpu_\d+_", name) for name in calls)


def test_neighbours_lie_side_by_side():
    """The states that reverse mode keeps: the batch is the last axis in memory."""
    text = lowered(jax.vmap(ROWS), *samples(64))
    layouts = text[text.index("result_layouts") :].splitlines()[0]
    assert "dense<[0, 2, 1]> : tensor<3xindex>" in layouts  # 64 × 40 × 3


def test_what_does_not_fit_into_a_thread_is_computed_by_xla(monkeypatch):
    x, matrix = samples(3)
    monkeypatch.setattr(tuning, "MAX_FRAME_BYTES", 64)
    program = mbs.program(lambda *args: rows(*args))
    traced = program.trace(x[0], matrix[0])
    assert re.search(r"\d+ bytes for each thread are more than .* \(64\)", backend.KernelOnGPU().refusal(traced))
    text = lowered(jax.vmap(program), x, matrix)
    assert "custom_call @jaxmbs" not in text
    assert "while" in text
    monkeypatch.setattr(tuning, "MAX_BUFFERS", 4)
    traced = mbs.program(lambda *args: rows(*args)).trace(x[0], matrix[0])
    assert "10 arrays are more than a kernel takes (4)" in backend.KernelOnGPU().refusal(traced)


class Frame(ctypes.Structure):
    """XLA's frame of a call."""

    _fields_ = (
        [(name, ctypes.c_void_p) for name in ("size", "extension", "api", "context")]
        + [("stage", ctypes.c_int64)]
        + [(f"{group}{k}", ctypes.c_void_p) for group in ("args", "rets", "attrs") for k in range(5)]
        + [("more", ctypes.c_void_p)]  # attributes have a name each, too
    )


class Driver:
    """A driver that counts, and a frame of XLA's to call a launcher with."""

    def __init__(self, code=0):
        self.launches, self.errors, self.keep = [], [], []
        integer, pointer = ctypes.c_int, ctypes.c_void_p
        launch = ctypes.CFUNCTYPE(integer, pointer, *[integer] * 7, *[pointer] * 3)
        explain = ctypes.CFUNCTYPE(integer, integer, ctypes.POINTER(ctypes.c_char_p))
        call = ctypes.CFUNCTYPE(pointer, ctypes.POINTER(pointer))

        def launched(function, *rest):
            addresses = ctypes.cast(rest[8], ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
            self.launches.append((function, rest[:7], rest[7], [addresses[k][0] for k in range(self.params)]))
            return code

        def explained(code, why):
            why[0] = b"no room"
            return 0

        def streams(args):
            args[3] = 0x57EA
            return None

        def failed(args):
            self.errors.append((ctypes.string_at(args[2]).decode(), args[3] & 0xFFFFFFFF))
            return 0xE44

        functions = launch(launched), explain(explained)
        self.keep.append(functions)
        self.loaded = driver.LoadedKernel(0xF00, *(ctypes.cast(function, pointer).value for function in functions))
        api = (pointer * 40)()
        for name, function in (("XLA_FFI_Stream_Get", call(streams)), ("XLA_FFI_Error_Create", call(failed))):
            self.keep.append(function)
            api[ffi.api_field(name) // 8] = ctypes.cast(function, pointer).value
        self.api = api

    def call(self, code, operands, results, grid):
        """Return the result of the launcher for addresses of buffers and a grid."""
        self.params = len(operands) + max(len(results), 1)
        words = lambda *values: (
            self.keep.append((ctypes.c_void_p * len(values))(*values)) or ctypes.addressof(self.keep[-1])
        )
        buffers = [words(*[words(0, 0, 0, at, 0, 0) for at in group]) for group in (operands, results)]
        numbers = (ctypes.c_int64 * 2)(*grid)
        attribute = words(words(0, 2, ctypes.addressof(numbers)))
        frame = Frame(api=ctypes.addressof(self.api), stage=3)
        frame.args4, frame.rets4, frame.more = buffers[0], buffers[1], attribute
        handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(code.address)
        return handler(ctypes.addressof(frame))


def test_the_driver_gets_the_grid_the_stream_and_all_addresses():
    x, matrix = samples(1)
    program = ROWS.trace(x[0], matrix[0])
    inputs, outputs = len(program.facts.loaded), len(program.outputs)
    fake = Driver()
    code = host.launcher(program, True, fake.loaded)
    operands = [0x1000 + k for k in range(1 + inputs)]
    results = [0x2000 + k for k in range(outputs + 1)]
    assert fake.call(code, operands, results, (7, 128)) is None
    meta, *loaded = operands
    *written, workspace = results
    assert fake.launches == [(0xF00, (7, 1, 1, 128, 1, 1, 0), 0x57EA, [meta, workspace, *loaded, *written])]
    assert fake.errors == []


@pytest.mark.parametrize(("code", "kind"), [(2, 8), (700, 13)])
def test_an_error_of_the_driver_is_an_error_of_xla(code, kind):
    """No memory is XLA's RESOURCE_EXHAUSTED, all else INTERNAL."""
    x, matrix = samples(1)
    program = ROWS.trace(x[0], matrix[0])
    fake = Driver(code)
    code = host.launcher(program, False, fake.loaded)
    count = len(program.facts.loaded), len(program.outputs)
    assert fake.call(code, [1] * (1 + count[0]), [2] * count[1], (7, 128)) == 0xE44
    assert fake.errors == [("CUDA cannot run 7 blocks of 128 threads of 'rows': no room", kind)]


class Device:
    compute_capability, local_hardware_id = "9.0", 0


class Loading:
    """A driver that takes PTX or not, and a GPU with this local memory for each thread of a kernel."""

    def __init__(self, code=0, local=0):
        self.code, self.local = code, local
        self.cuLaunchKernel = self.cuGetErrorString = Explaining

    def cuLibraryLoadData(self, module, text, options, values, count, *rest):
        assert text.startswith(b"//")
        if self.code:
            ctypes.memmove(values[0], b"ptxas: too new", 15)
        return self.code

    def cuLibraryGetKernel(self, kernel, module, name):
        kernel._obj.value = 0xF00
        return 0

    def cuKernelGetAttribute(self, value, *rest):
        value._obj.value = self.local
        return 0

    def cuDeviceGet(self, device, number):
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = {driver.MULTIPROCESSORS: 100, driver.THREADS_OF_ONE: 1000}[attribute]
        return 0

    def cuDeviceTotalMem_v2(self, total, device):
        total._obj.value = 10 * 2**30
        return 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
def Explaining(code, text):
    text[0] = b"the provided PTX was compiled with an unsupported toolchain."
    return 0


def lowered_with(fake, monkeypatch) -> str:
    """The text for CUDA of a program that no other test has, where JAX has a GPU with this driver."""
    monkeypatch.setattr(driver, "library", lambda: fake)
    monkeypatch.setattr(driver, "devices", lambda: [Device])
    monkeypatch.setattr(driver, "capability", lambda: (9, 0))
    number = next(NUMBERS)
    return lowered(jax.vmap(mbs.program(lambda x: jnp.sin(x) * number)), samples(3)[0])


NUMBERS = itertools.count(2)


def test_a_driver_that_takes_kernels(monkeypatch):
    assert "custom_call @jaxmbs_gpu_90" in lowered_with(Loading(), monkeypatch)


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (Loading(code=222), "XLA computes '.*' on the GPU .* unsupported toolchain. ptxas: too new"),
        (Loading(local=40_000), "40000 bytes for each of 100000 threads are 3.7 GB of 10.0"),
        (object(), "older than CUDA 12"),
    ],
)
def test_a_driver_that_takes_no_kernel(fake, message, monkeypatch):
    """A warning that says why, and XLA computes."""
    with pytest.warns(UserWarning, match=message):
        assert "custom_call @jaxmbs" not in lowered_with(fake, monkeypatch)


def test_a_gpu_without_its_driver(monkeypatch):
    assert "custom_call @jaxmbs" not in lowered_with(None, monkeypatch)


def test_names_in_greek_and_many_threads_at_once(agree):
    """A program that several threads compile at once is registered once."""

    def Φ(x):
        return jnp.sin(x) * x

    x = samples(5)[0]

    def run(function):
        with primitive.emission("gpu-on-host"):
            return function(x)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, [jax.jit(jax.vmap(mbs.program(Φ))) for _ in range(4)]))
    for value in found:
        agree(value, Φ(jnp.asarray(x)))


def test_numbers_are_not_compared_by_their_bits():
    """`abs` on a GPU keeps the sign of NaN, so the larger of two is not found by their bits."""
    function = mbs.program(lambda x, y: jnp.maximum(jnp.abs(x), jnp.abs(y)) + jnp.abs(x))
    assert "max.s64" not in ptx.kernel(function.trace(1.0, 2.0), (9, 0)).text


@pytest.mark.parametrize(
    ("capability", "chosen"),
    [((6, 1), (7, 0)), ((8, 0), (8, 0)), ((8, 7), (8, 6)), ((9, 0), (9, 0)), ((12, 1), (12, 0))],
)
def test_a_gpu_gets_the_newest_code_that_it_runs(capability, chosen):
    assert ptx.architecture(capability) == chosen
