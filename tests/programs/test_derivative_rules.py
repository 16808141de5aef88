"""Derivatives made on the graph of scalars: each operation's slope, rules of one's own, arrays in memory, and refusals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmbs as mbs
from jaxmbs.numerics.roots import implicit_solution
from jaxmbs.programs import OPERATIONS as TABLE_OF_OPERATIONS

X, Y = np.array([0.4, 0.7, 1.3]), np.array([0.9, 0.3, 0.2])
TABLE = np.linspace(-1.0, 2.0, 12)

OPERATIONS = {
    "products": lambda x, y: x * y + x / y - y / (1 + x) + 3 / x - x / 5,
    "square of itself": lambda x, y: x * x * x,
    "roots": lambda x, y: jnp.sqrt(x) + jnp.cbrt(y) + lax.rsqrt(x * y),
    "powers": lambda x, y: x**3 + x**-2 + x**y + y**2.5 + 2.0**x,
    "what is taken": lambda x, y: jnp.maximum(x, y) * jnp.minimum(x, 0.5) + jnp.abs(x - y) + jnp.clip(x, 0.5, 1.0),
    "equals": lambda x, y: jnp.maximum(x, x + 0 * y) + jnp.minimum(2 * x, x + x),
    "remainders": lambda x, y: (7 * x) % (2 * y) + jnp.fmod(-7 * x, y),
    "steps": lambda x, y: jnp.floor(x) + jnp.sign(y) + jnp.round(x) * x,
    "branches": lambda x, y: jnp.where(x > y, x * y, jnp.where(y > 0.25, jnp.sin(y), x)),
    "tables": lambda x, y: jnp.interp(x, TABLE, TABLE**2) * y,
    "sorting": lambda x, y: jnp.sort(x * y) * jnp.argmax(x) + x[jnp.argsort(y)],
    "systems": lambda x, y: jnp.linalg.solve(jnp.outer(x, y) + jnp.diag(2 + x), y) + jnp.linalg.inv(jnp.diag(y))[0],
    "factors": lambda x, y: jnp.linalg.cholesky(jnp.outer(x, x) + jnp.diag(y)) @ x,
    "calls": lambda x, y: jax.nn.softplus(x) * jnp.sinc(y) + jax.nn.relu(x - y) + jnp.linalg.norm(x),
    "stopped": lambda x, y: lax.stop_gradient(x * y) * x + lax.stop_gradient(jnp.sin(y)),
}


def compare(function, *args, twice=True, plain=None):
    """Both modes, and one over the other, as JAX derives the function itself, or the same written plainly."""
    program, function = mbs.program(function), plain or function
    for apply in (
        lambda f: jax.jacfwd(f, (0, 1)),
        lambda f: jax.jacrev(f, (0, 1)),
        *([lambda f: jax.hessian(lambda x, y: (f(x, y) ** 2).sum(), (0, 1))] if twice else []),
    ):
        got, wanted = jax.jit(apply(program))(*args), jax.jit(apply(function))(*args)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * (1 + np.max(np.abs(b))))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    """Derivatives of first and second order in both modes are JAX's."""
    compare(OPERATIONS[name], X, Y)


# Operations of the table on real numbers that take two of them.
BINARY = ("div", "rem", "min", "max", "pow", "atan2")
# Arguments of functions that are not defined, or have no finite slope, at X.
SHIFTED = {"acosh": lambda x: 1 + x, "asin": lambda x: x / 2, "acos": lambda x: x / 2, "atanh": lambda x: x / 2}


def test_slopes_of_the_table():
    """Derivatives of first and second order of all operations with a slope are JAX's."""
    slopes = {name: f.xla for name, f in TABLE_OF_OPERATIONS.items() if f.slope}
    shifted = lambda name, x: SHIFTED.get(name, lambda x: x)(x)
    of = lambda name, x, y: slopes[name](x, y) if name in BINARY else slopes[name](shifted(name, x)) * y
    compare(lambda x, y: jnp.stack([of(name, x, y) for name in slopes]), X, Y)


def test_values_of_the_table(emission):
    """All operations on real numbers have the values of JAX's, in float64 and float32; constants are folded to the same."""
    real = {name: f.xla for name, f in TABLE_OF_OPERATIONS.items() if f.primitives and not f.is_linear}
    x, y = np.array(list(itertools.product((-7.5, -1.0, -0.3, 0.0, 0.2, 0.999, 1.5, 5.9, 6.5), (-2.0, 0.4, 3.0)))).T
    function = lambda x, y: jnp.stack([f(x, y) if name in BINARY else f(x) for name, f in real.items()])
    for dtype, tolerance in ((np.float64, 2e-15), (np.float32, 1e-6)):
        args = x.astype(dtype), y.astype(dtype)
        found = jax.jit(jax.vmap(mbs.program(function), out_axes=1))(*args)
        np.testing.assert_allclose(found, function(*args), rtol=tolerance, atol=tolerance)
    folded = mbs.program(
        lambda: jnp.stack([function(jnp.float64(a), jnp.float64(b)) for a, b in zip(x, y, strict=True)])
    )()
    np.testing.assert_allclose(folded, function(x, y).T, rtol=2e-15, atol=2e-15)


@jax.custom_jvp
def product(x, y):
    """x y, computed in a way that has no derivative."""
    return lax.stop_gradient(x * y)


product.defjvp(lambda primals, tangents: (product(*primals), primals[1] * tangents[0] + primals[0] * tangents[1]))


@jax.custom_jvp
def sine(x):
    """sin x; what its rule is made of has a rule again."""
    return lax.stop_gradient(jnp.sin(x))


sine.defjvp(lambda primals, tangents: (sine(*primals), sine(primals[0] + jnp.pi / 2) * tangents[0]))


def quotient(x, y):
    """y / x, a root found by a solver that is a root again; neither has been computed with a derivative."""
    gap = lambda given, z: given[0] * z - given[1]
    inner = lambda x, y: implicit_solution(gap, lambda x, r: r / x, (x, y), x, y / x)
    return implicit_solution(gap, inner, (x, y), x, lax.stop_gradient(y / x))


@jax.custom_vjp
def clipped(x, y):
    """x y; the way back is clipped."""
    return x * y


clipped.defvjp(
    lambda x, y: (clipped(x, y), (x, y)),
    lambda kept, ct: (jnp.clip(ct, -0.5, 0.5) * kept[1], 3 * ct * kept[0]),
)


def test_a_rule_of_ones_own_in_both_modes_and_in_loops():
    """The rule of a custom_jvp is used, not the derivative of its function; also for a custom_jvp inside a rule."""
    compare(lambda x, y: product(x, sine(y)) * x, X, Y, plain=lambda x, y: x * jnp.sin(y) * x)
    loop = lambda step: lambda x, y: lax.fori_loop(0, 40, step, x) * y
    compare(loop(lambda k, s: s + 0.1 * product(s, sine(s))), X, Y, plain=loop(lambda k, s: s + 0.1 * s * jnp.sin(s)))


def test_a_root_whose_solver_is_a_root():
    """The rate of a root is a root again: its way back goes through the values, whatever has no derivative there."""
    # JAX's own second derivative of such a root, forward over reverse, is another number.
    chain = lambda divide: lambda x, y: lax.fori_loop(0, 3, lambda _, z: divide(2 + x * z, y), y)
    compare(chain(quotient), X, Y, plain=chain(lambda x, y: y / x))


def test_a_rule_for_reverse_mode_only():
    """A custom_vjp in reverse mode, in straight lines and in loops; forward mode is refused by name and place."""
    for function in (
        lambda x, y: clipped(jnp.sin(x), y) * x,
        lambda x, y: lax.fori_loop(0, 30, lambda k, s: s + 0.1 * clipped(s, y), x),
    ):
        loss = lambda f: lambda x, y: (f(x, y) ** 2).sum()
        got = jax.jit(jax.grad(loss(mbs.program(function)), (0, 1)))(X, Y)
        for a, b in zip(got, jax.jit(jax.grad(loss(function), (0, 1)))(X, Y), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    with pytest.raises(mbs.ProgramError, match=r"test_derivative_rules\.py:\d+.*forward mode"):
        jax.jit(jax.jacfwd(mbs.program(lambda x, y: clipped(x, y))))(X, Y)


def test_a_loop_that_ends_by_a_condition():
    """Its derivative goes forward; in reverse it is refused before anything runs."""

    def function(x, y):
        goes_on = lambda state: (state[0] < 60) & (jnp.max(jnp.abs(state[1])) < 3)
        return lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1] * (1 + 0.1 * jnp.cos(y))), (0, x))[1]

    program = mbs.program(function)
    for k in (0, 1):
        np.testing.assert_allclose(
            jax.jit(jax.jacfwd(program, k))(X, Y), jax.jit(jax.jacfwd(function, k))(X, Y), rtol=1e-12
        )
    with pytest.raises(mbs.ProgramError, match=r"reverse mode.*\[while, at .*test_derivative_rules\.py:\d+"):
        jax.jit(jax.grad(lambda x: program(x, Y).sum()))(X)


ROWS = np.random.default_rng(6).normal(size=(30, 3))
LOOPS = {
    "neighbours in a table": lambda x, u: lax.fori_loop(0, 29, lambda k, s: s * u[k] + jnp.sin(u[k + 1]), x),
    "a table that comes round": lambda x, u: lax.fori_loop(0, 50, lambda k, s: 0.9 * s + u[k % 7] * s, x),
    "rows of a loop read by another": lambda x, u: lax.scan(
        lambda s, r: (jnp.tanh(s * r + x), s * r),
        x,
        lax.scan(lambda s, r: (s + 0.1 * r, s * r), x, u, reverse=True)[1],
    )[0],
    "a table for every round": lambda x, u: lax.fori_loop(
        0, 20, lambda k, s: s + lax.fori_loop(0, 15, lambda j, a: a + 0.01 * u[j] * jnp.sin(s + k), 0 * x), x
    ),
    "an index that is computed": lambda x, u: lax.fori_loop(
        0, 25, lambda k, s: s + 0.1 * u[jnp.clip((4 * s[0]).astype(int), 0, 29)], x
    ),
    "one row for all rounds": lambda x, u: lax.scan(
        lambda s, r: (jnp.tanh(s * r + x), s * r),
        x,
        jnp.broadcast_to(lax.scan(lambda s, r: (s + 0.1 * r, s * r), x, u)[1][4], (20, 3)),
    )[0],
    "one row of a table for all rounds": lambda x, u: lax.scan(
        lambda s, r: (jnp.tanh(s * r + x), s * r), x, jnp.broadcast_to(u[4], (30, 3))
    )[1],
    "rows backwards": lambda x, u: lax.scan(
        lambda s, r: (jnp.tanh(s * r + x), s * r), x, lax.scan(lambda s, r: (s + 0.1 * r, s * r), x, u)[1][::-1]
    )[0],
    "a computed index into rows backwards": lambda x, u: lax.fori_loop(
        0, 25, lambda k, s: s + 0.1 * u[::-1][jnp.clip((4 * s[0]).astype(int), 0, 29)], x
    ),
    "some of the rows": lambda x, u: lax.scan(lambda s, r: (jnp.sin(s) + r, s * s), x, u)[1][jnp.array([2, 17, 29])],
    "many of the rows": lambda x, u: lax.scan(lambda s, r: (jnp.sin(s) + r, s * s), x, u)[1][5:27:2],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kept", [0, 10**6])
@pytest.mark.parametrize("name", LOOPS)
def test_arrays_in_memory(name, kept, monkeypatch):
    """Tables and rows that loops read, by whatever index, in segments and without."""
    monkeypatch.setattr("jaxmbs.programs.runtime.tuning.KEPT_STATE_BYTES", kept)
    compare(LOOPS[name], X, ROWS, twice=False)


def test_equal_parts_are_gone_back_through_once():
    """Two calls of one function cost one more addition, in the value and in its gradient."""
    waves = jax.jit(lambda x, k: jnp.sin(k * x) * jnp.exp(x))
    once, twice = (lambda x: waves(x, 2.0)), (lambda x: waves(x, 2.0) + waves(x, 2.0))
    count = lambda f: jax.make_jaxpr(jax.grad(mbs.program(f)))(0.1).eqns[-1].params["program"].size
    assert count(twice) <= count(once) + 2


def test_a_derivative_inside_of_a_program():
    """A program of a gradient that another program has: taken apart, and derived again."""
    energy = mbs.program(lambda x, y: jnp.sum(jnp.sin(x) * y) ** 2)
    function = lambda x, y: jax.grad(energy)(x, y) * x + jax.jvp(energy, (x, y), (y, x))[1]
    compare(mbs.program(function), X, Y)
    plain = lambda x, y: jnp.sum(jnp.sin(x) * y) ** 2
    wanted = jax.grad(plain)(X, Y) * X + jax.jvp(plain, (X, Y), (Y, X))[1]
    np.testing.assert_allclose(mbs.program(function)(X, Y), wanted, rtol=1e-13)
