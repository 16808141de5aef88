"""Kernels for TPUs, tested without one: JAX interprets them on this processor."""

import inspect
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from dynamic_problems import four_bar, four_bar_design
from jaxmbs import planar
from jaxmbs.programs import backends
from jaxmbs.programs.backends.tpu import kernel
from jaxmbs.programs.backends.tpu.backend import KernelInterpreted
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.runtime import primitive, tuning
from linkages import four_bar as driven_four_bar
from linkages import four_bar_guess
from looping_program import ROWS

# XLA computes shared values again in each fusion. Without optimisation it rounds them differently there, so that rows are
# exchanged in one place and not in another; in a kernel of a TPU each value is computed once.
OPTIMISED = {"xla_backend_optimization_level": 3}
# Rounding errors of float32 that results of short programs may have.
ROUNDINGS = 10
EPS = float(np.finfo(np.float32).eps)


def interpreted(f, *args):
    """Return the results of a function of a batch, by the kernel of a TPU."""
    with primitive.emission("tpu-on-host"):
        return jax.tree.map(np.array, jax.jit(f)(*args))


def single(tree):
    """Return a tree whose real numbers are float32."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if np.asarray(x).dtype.kind == "f" else x, tree)


def assert_near(found, expected, roundings=ROUNDINGS):
    """Real numbers agree to some roundings of the largest number of their array, all else exactly."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        b = np.asarray(b)
        if b.dtype.kind == "f":
            finite = np.isfinite(b)
            np.testing.assert_array_equal(np.isfinite(a), finite)
            largest = np.abs(b[finite]).max(initial=1e-30)
            np.testing.assert_allclose(a[finite], b[finite], rtol=0, atol=roundings * EPS * largest)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [1, 7, 1024, 1500])
def test_tiles_give_what_lanes_give(count):
    """For less than a tile and for more; one sample is NaN."""
    rng = np.random.default_rng(count)
    x, matrix = single((rng.normal(size=(count, 3)), rng.normal(size=(count, 3, 3)) + 4 * np.eye(3)))
    x = x.at[count // 2, 1].set(jnp.nan)
    assert_near(interpreted(jax.vmap(ROWS), x, matrix), jax.jit(jax.vmap(ROWS))(x, matrix), 100)


def test_operands_that_the_batch_shares():
    """Along both axes, along one of them, along none: these are numbers of the scalar memory."""
    rng = np.random.default_rng(0)
    table, x, y = single((rng.normal(size=(40,)), rng.normal(size=(3, 5)), rng.normal(size=(5,))))
    f = mbs.program(lambda table, x, y, k: jnp.cumsum(table)[k] * x + table[2] * y)
    k = np.arange(15, dtype=np.int32).reshape(3, 5) % 40
    both = jax.vmap(jax.vmap(f, (None, 0, 0, 0)), (None, 0, None, 0))
    assert_near(interpreted(both, table, x, y, k), jax.jit(both)(table, x, y, k))


# Ranges of the arguments in the test of functions, where it is not from −3 to 3.
DEFINED = {
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.99, 0.99)),
    **dict.fromkeys(("sqrt", "log"), (1e-3, 50.0)),
    "acosh": (1.0, 50.0),
    "log1p": (-0.9, 50.0),
    **dict.fromkeys(("sin", "cos"), (-1e4, 1e4)),
    **dict.fromkeys(("sinh", "cosh", "asinh"), (-80.0, 80.0)),
}


def call(name, *args):
    """Return the result of an operation of the table, by its JAX function."""
    return OPERATIONS[name].xla(*args)


FUNCTIONS = [
    name
    for name, entry in OPERATIONS.items()
    if entry.primitives and len(inspect.signature(getattr(jax.lax, name)).parameters) < 3 and entry.slope is not None
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """Within some roundings of float64, the argument's rounding included; formulas stand for those Mosaic lacks."""
    rng = np.random.default_rng(1)
    arity = 2 if name in ("div", "rem", "min", "max", "atan2", "pow") else 1
    low, high = DEFINED.get(name, (-3.0, 3.0))
    args = single([rng.uniform(low, high, 1024) for _ in range(arity)])
    f = mbs.program(lambda *x: call(name, *x))
    expected = jax.vmap(f)(*(np.asarray(x, np.float64) for x in args))
    found = interpreted(jax.vmap(f), *args)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=8 * EPS, atol=2 * EPS)


def test_integers_and_truths():
    """Exact operations: integer division and remainder, rounding, signs, logic, and conversions."""
    rng = np.random.default_rng(2)
    k, m = rng.integers(-50, 50, (2, 1024), np.int32)
    x = single(rng.uniform(-5, 5, 1024))

    def f(k, m, x):
        safe = jnp.where(m == 0, 1, m)
        parts = lax.div(k, safe), lax.rem(k, safe), jnp.sign(k), jnp.abs(m), jnp.minimum(k, m)
        reals = (
            jnp.sign(x),
            jnp.floor(x),
            jnp.ceil(x),
            jnp.round(x),
            jnp.trunc(x),
            x.astype(np.int32),
            k.astype(x.dtype),
        )
        return parts, reals, (x > 0) ^ (k > m), ~(x > 1) | ((m != k) & (x <= 2)), jnp.where(x > 0, k, m)

    program = mbs.program(f)
    assert_near(interpreted(jax.vmap(program), k, m, x), jax.jit(jax.vmap(program))(k, m, x))


@lru_cache
def designs(count):
    """Return lengths of four-bars, of which some cannot be assembled."""
    rng = np.random.default_rng(3)
    nominal = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}
    return single({name: length * rng.uniform(0.5, 1.6, count) for name, length in nominal.items()})


@pytest.mark.slow
def test_kinematics():
    """Positions, statuses and derivatives by lengths against float64; some designs lock up or cannot be assembled."""
    times = np.linspace(0, 6, 5, dtype=np.float32)

    def end(b, dtype):
        guess = four_bar_guess({k: lax.stop_gradient(x) for k, x in b.items()}, 0.0)
        run = mbs.kinematics(driven_four_bar(b).astype(dtype), times.astype(dtype), guess)
        return jnp.where(run.status[-1] == 0, run.q[-1, 3:6].sum(), 0), (run.q, run.status)

    batch = lambda dtype: jax.vmap(jax.value_and_grad(partial(end, dtype=dtype), has_aux=True))
    b = designs(1500)
    (value, (q, status)), slopes = interpreted(batch(jnp.float32), b)
    exact = jax.jit(batch(jnp.float64))(jax.tree.map(lambda x: x.astype(jnp.float64), b))
    (expected, (_, expected_status)), expected_slopes = jax.tree.map(np.asarray, exact)
    assert set(expected_status.ravel()) == {0, mbs.Status.NOT_ASSEMBLED, mbs.Status.LOCKED_UP}
    # Rounding decides near a lock-up.
    same = (status == expected_status).all(axis=1)
    assert same.mean() > 0.995
    good = same & (expected_status == 0).all(axis=1)
    # An error of a length by its rounding, and what it does to the result, and to the derivative in second order.
    condition = 1 + sum(np.abs(x) for x in jax.tree.leaves(expected_slopes))
    np.testing.assert_array_less(np.abs(value - expected)[good], ROUNDINGS * EPS * 5.0 * condition[good])
    for name in slopes:
        error = np.abs(slopes[name] - expected_slopes[name])[good]
        np.testing.assert_array_less(error, ROUNDINGS * EPS * 5.0 * condition[good] ** 3)
    assert np.isfinite(q).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("formulation", [mbs.JointCoordinates(), mbs.Augmented()])
def test_simulation_and_gradient(formulation):
    """40 steps of a pendulum, and their gradient by its length, through states that are kept in memory."""
    times = np.array([0, 0.2], np.float32)

    def end(length):
        pin = planar.Revolute("ground", "bob", (0, 0), (-length, 0))
        weight = mbs.Gravity((0, -9.81))
        mech = mbs.Mechanism({"bob": planar.Body(1.0, 0.1)}, {"pin": pin}, forces={"weight": weight})
        start = {"bob": (length, 0.0 * length, 0.0 * length)}
        run = mbs.simulate(mech.astype(jnp.float32), times, start, step=0.005, formulation=formulation)
        return run.q[-1].sum(), run.status

    lengths = jnp.linspace(0.8, 1.2, 8, dtype=jnp.float32)
    batch = jax.vmap(jax.value_and_grad(end, has_aux=True))
    # A rounding in each step.
    assert_near(interpreted(batch, lengths), jax.jit(batch)(lengths), 40)


def test_what_has_no_kernel(monkeypatch):
    """Double precision, too many operations, too much memory: XLA computes it, and `explain` says so."""
    backend = KernelInterpreted()
    double = mbs.program(jnp.sin).trace(np.float64(1.0))
    assert "float64" in backend.refusal(double)
    assert backend.refusal(mbs.program(jnp.sin).trace(np.float32(1.0))) is None
    long = mbs.program(lambda x: lax.scan(lambda c, _: (jnp.sin(c), c), x, length=100_000)[1])
    assert "vector memory" in backend.refusal(long.trace(np.float32(1.0)))

    monkeypatch.setattr(tuning, "MAX_OPERATIONS_TPU", 4)
    assert "operations" in backend.refusal(mbs.program(jnp.linalg.det).trace(np.eye(3, dtype=np.float32)))
    monkeypatch.undo()
    with primitive.emission("tpu-on-host"):
        np.testing.assert_allclose(jax.jit(mbs.program(jnp.sin))(0.5), np.sin(0.5), rtol=1e-12)
        text = str(mbs.explain(four_bar(four_bar_design()), four_bar_guess(four_bar_design(), 0.5)))
    assert "XLA" in text
    assert "float64" in text


def test_what_the_compiler_of_kernels_refuses(monkeypatch):
    """XLA computes it, with a warning that names the program and the reason. JAX lowers for TPUs without one."""
    monkeypatch.setattr(kernel.Tiles, "compute", lambda self, node, values: lax.lgamma(jnp.ones(kernel.TILE)))

    def text():
        f = jax.jit(jax.vmap(mbs.program(jnp.sin)))
        return f.trace(np.ones(5, np.float32)).lower(lowering_platforms=("tpu",)).as_text()

    with pytest.warns(mbs.PerformanceWarning, match="program sin has no kernel on this TPU.*lgamma"):
        by_xla = text()
    assert "tpu_custom_call" not in by_xla
    assert "stablehlo.sine" in by_xla
    monkeypatch.undo()
    assert "tpu_custom_call" in text()


def test_backends_of_a_tpu():
    assert backends.backend_for("llvm", "tpu").explain() == "straight-line, one kernel on the TPU"
