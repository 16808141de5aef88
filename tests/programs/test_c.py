"""Programs as C99: compiled by gcc without a warning, they compute what JAX computes, without straight-line code."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from c_library import CHECKED, SAME_BITS, Compiled, needs_gcc, over_samples, struct_of
from jaxmbs.programs import OPERATIONS, emission
from jaxmbs.programs.backends.llvm.elementary_in_c import EXPRESSIONS
from source_samples import ANGLES, decisions, elementary, loops, turned


@needs_gcc
@pytest.mark.parametrize("function", [elementary, decisions, loops])
def test_c_computes_what_jax_computes(function, tmp_path):
    """10,000 random arguments of several sizes, NaN and infinity, with a check for undefined behaviour."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 10_000)) * 10.0 ** rng.integers(-3, 4, 10_000)
    x[:5], y[2:7] = (0, -0.0, np.nan, np.inf, 1), (-1, 0, 2.5, -np.inf, np.inf)
    if function is loops:
        x, y = np.clip(np.nan_to_num(x), -5, 5)[:500], np.clip(np.nan_to_num(y), -5, 5)[:500]
    program = mbs.program(function)
    found = over_samples(Compiled(program.c(x[0], y[0]), tmp_path, CHECKED), program, x, y)
    with emission("array"):
        expected = jax.jit(jax.vmap(function))(x, y)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        b = np.asarray(b)
        if b.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        # x ** y, remainders and trigonometric functions of large arguments multiply the rounding of what they are given.
        largest = np.abs(b[np.isfinite(b)]).max(initial=1.0) if function is loops else 1.0
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13 * largest)


@needs_gcc
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_own_functions_have_the_bits_of_the_cpu(dtype, tmp_path):
    """All elementary functions for 3,000 arguments of many sizes; JAX takes numbers below the normal ones for zero."""
    rng = np.random.default_rng(0)
    large = np.exp(rng.normal(size=1000) * 15) * rng.choice([-1, 1], 1000)
    x = np.concatenate(
        [rng.normal(size=1000), large, rng.uniform(-1, 1, 993), [0, -0.0, 1, -1, np.inf, -np.inf, np.nan]]
    )
    x = x.astype(dtype)
    y = rng.permutation(x)
    functions = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp log expm1 log1p cbrt erf sign sqrt"

    def results(x, y):
        of_both = {"pow": lax.pow(x, y), "atan2": lax.atan2(x, y), "rem": lax.rem(x, y), "sum": x * y - jnp.sin(x) * y}
        return {name: getattr(lax, name)(x) for name in functions.split()} | of_both

    program = mbs.program(results)
    compiled = Compiled(program.c(x[0], y[0], name="f", elementary="own"), tmp_path, SAME_BITS)
    found, expected = over_samples(compiled, program, x, y), jax.jit(jax.vmap(program))(x, y)
    for name, value in expected.items():
        value = np.asarray(value)
        normal = ~(np.abs(found[name]) < np.finfo(dtype).tiny)
        assert normal.mean() > 0.7
        np.testing.assert_array_equal(found[name][normal], value[normal], err_msg=name)
        known = normal & ~np.isnan(value)
        np.testing.assert_array_equal(np.signbit(found[name][known]), np.signbit(value[known]), err_msg=name)


def test_every_rounded_function_of_math_h_has_an_own_form():
    """Functions of math.h that C libraries round alike are those without rounding, and the square root."""
    exact = {"sqrt", "fabs", "floor", "ceil", "rint", "trunc", "isnan"}
    for name, operation in OPERATIONS.items():
        called = set(re.findall(r"([a-z0-9_]+)@?\(", operation.c or "")) - exact
        assert name in EXPRESSIONS or operation.formula or all(x.startswith(("op_", "int")) for x in called), name


@needs_gcc
def test_a_mechanism_in_c(tmp_path):
    """A slider-crank over a turn, also of lengths with which it locks up, against a closed form; and its Jacobian."""
    rng = np.random.default_rng(0)
    crank, rod, offset = rng.uniform(0.5, 1.5, 40), rng.uniform(1.0, 3.0, 40), rng.uniform(-0.3, 0.3, 40)
    program = mbs.program(turned)
    found = over_samples(
        Compiled(program.c(crank[0], rod[0], offset[0]), tmp_path, ["-O2"]), program, crank, rod, offset
    )
    expected = jax.jit(jax.vmap(program))(crank, rod, offset)
    np.testing.assert_array_equal(found["status"], expected["status"])
    whole = (found["status"] == 0).all(axis=1)
    assert 0.2 < whole.mean() < 0.95
    r, length, e = crank[whole, None], rod[whole, None], offset[whole, None]
    slider = r * np.cos(ANGLES) + np.sqrt(length**2 - (e - r * np.sin(ANGLES)) ** 2)
    np.testing.assert_allclose(found["q"][whole][:, :, 6], slider, rtol=1e-13)
    np.testing.assert_allclose(
        found["v"][whole], expected["v"][whole], rtol=0, atol=1e-13 * np.abs(expected["v"]).max()
    )


@needs_gcc
def test_names_shapes_and_single_precision(tmp_path):
    """Members have the names of parameters and of keys; arguments without use keep their place; values are float."""
    kept = jnp.array([[1.0, jnp.inf], [-2.5, 3.0]], jnp.float32)

    def outputs(new, lengths, count, x):
        return {
            "q": kept * lengths["b c"][None],
            "on": lengths["b c"] > 2,
            "n": count * 2,
            "x": (x[0], x[1] + kept[0, 0]),
        }

    one = np.float32(1.5)
    args = np.zeros(3, np.float32), {"a": one, "b c": np.array([2, 3], np.float32)}, np.int64(7), (one, one)
    code = mbs.program(outputs).c(*args, name="outputs")
    assert [name for name, _ in struct_of(code.header, "outputs_in")._fields_] == [
        *("new_", "lengths_a", "lengths_b_c", "count", "x_0", "x_1")
    ]
    assert [name for name, _ in struct_of(code.header, "outputs_out")._fields_] == ["n", "on", "q", "x_0", "x_1"]
    assert "2 × 2, row by row" in code.header
    assert "double" not in code.source
    n, on, q, x0, x1 = Compiled(code, tmp_path, CHECKED)(*args)
    np.testing.assert_array_equal(q, [2, np.inf, -5, 9])
    assert (n, on.tolist(), x0, x1) == (14, [False, True], 1.5, 2.5)


def test_errors_name_the_cause(monkeypatch):
    program = mbs.program(lambda x: jnp.sin(x))
    for name in (None, "while", "2", "a-b", "sin", "main", "op_min", "c0", "NAN", "math"):
        with pytest.raises(ValueError, match=r"name= must be an identifier of C: .* got"):
            program.c(1.0, name=name)
    with pytest.raises(ValueError, match="elementary must be"):
        program.c(1.0, name="f", elementary="fast")
    with pytest.raises(ValueError, match="make its C outside jit and grad"):
        jax.jit(lambda z: mbs.program(lambda x: x * z).c(1.0, name="f") and z)(2.0)
    monkeypatch.setitem(OPERATIONS, "sin", dataclasses.replace(OPERATIONS["sin"], c=None))
    with pytest.raises(mbs.ProgramError, match="the operation 'sin' cannot be written in C"):
        program.c(1.0, name="f")
