"""Factoring and solving, in programs and as array code, against dense linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs.numerics.linear_algebra import factor, factor_symmetric_positive, solve_saddle_point


def sparse(seed, n=7):
    """Which entries of a matrix are zero, ±1 or variable, with a full diagonal after a permutation of the rows."""
    rng = np.random.default_rng(seed)
    kind = rng.choice([0, 0, 0, 1, 2, 2], size=(n, n))
    kind[rng.permutation(n), np.arange(n)] = 2
    return np.where(kind == 1, rng.choice([-1.0, 1.0], size=(n, n)), 0.0), kind == 2, rng.normal(size=(5, n, n))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(12))
def test_general_systems(seed, emission, agree):
    """x = A⁻¹b, the sign of det A, and dx by forward and reverse mode; the constants and zeros of A are known."""
    constant, variable, values = sparse(seed)
    matrices = constant + np.where(variable, values, 0)
    matrices = matrices[np.linalg.cond(matrices) < 1e5]
    b = np.linspace(1.0, 2.0, matrices.shape[-1])

    def solve(values, b):
        factors = factor(constant + jnp.where(variable, values, 0.0))
        return factors.solve(b), factors.sign

    program = jax.vmap(mbs.program(solve), (0, None))
    x, sign = program(matrices, b)
    agree(x, np.linalg.solve(matrices, np.broadcast_to(b[:, None], (*matrices.shape[:2], 1)))[..., 0], 1e-10)
    np.testing.assert_array_equal(sign, np.sign(np.linalg.det(matrices)))

    plain = lambda values, b: jnp.linalg.solve(constant + jnp.where(variable, values, 0.0), b)
    for mode in (jax.jacfwd, jax.jacrev):
        found = jax.vmap(mode(lambda *args: mbs.program(solve)(*args)[0]), (0, None))(matrices, b)
        agree(found, jax.vmap(jax.jacfwd(plain), (0, None))(matrices, b), 1e-7)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(4))
def test_more_rows_than_unknowns(seed, emission, agree):
    """Rows that agree with each other, some of them combinations of others, one zero but for rounding: the x that solves
    all of them, and dx by both modes, as by the pseudo-inverse; a small pivot says that something is free."""
    rng = np.random.default_rng(seed)
    constant, variable, values = sparse(seed, 5)
    square = constant + np.where(variable, values, 0)
    values, square = (x[np.linalg.cond(square) < 1e4] for x in (values, square))
    mix = np.concatenate([np.eye(5), rng.normal(size=(2, 5)) * (rng.random((2, 5)) < 0.5), np.zeros((1, 5))])
    mix, wanted = mix[rng.permutation(8)], rng.normal(size=5)

    def solve(values, mix, b):
        factors = factor(mix @ (constant + jnp.where(variable, values, 0.0)), determined=True)
        return factors.solve(b), factors.sign, factors.rcond

    program = jax.vmap(mbs.program(solve), (0, None, 0))
    x, sign, rcond = program(values, mix, mix @ square @ wanted)
    agree(x, np.broadcast_to(wanted, x.shape), 1e-10)
    assert (np.asarray(sign) == 1).all()
    assert (np.asarray(rcond) > 1e-6).all()
    poorer = mix @ np.diag([1.0, 1, 1, 1, 0])
    assert (np.asarray(program(values, poorer, poorer @ square @ wanted)[2]) < 1e-12).all()

    # To right sides that agree for any values belong tangents that do not.
    truth = lambda values: jnp.linalg.solve(constant + jnp.where(variable, values, 0.0), jnp.sin(jnp.arange(1.0, 6.0)))
    found = lambda values: mbs.program(solve)(values, mix, mix @ np.sin(np.arange(1.0, 6.0)))[0]
    for mode in (jax.jacfwd, jax.jacrev):
        agree(jax.vmap(mode(found))(values), jax.vmap(jax.jacfwd(truth))(values), 1e-7)


def test_condition_of_singular_matrices(emission):
    """The estimate falls to rounding with the distance to singularity, and is zero where a column is."""

    def rcond(x):
        return factor(jnp.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 2]]).at[2, 2].add(x)).rcond

    found = jax.vmap(mbs.program(rcond))(jnp.array([1.0, 1e-6, 1e-12, 0.0]))
    assert (np.asarray(found)[:3] / np.array([1.0, 1e-6, 1e-12]) < 5).all()
    assert (np.asarray(found)[:3] / np.array([1.0, 1e-6, 1e-12]) > 0.05).all()
    assert found[3] < 1e-15
    assert mbs.program(lambda x: factor(jnp.array([[x, 0.0], [x, 0.0]])).rcond)(2.0) == 0


@pytest.mark.parametrize("matrix", [[[-2.0]], [[1.0, 0], [0, -1]], [[-1.0, 0], [0, 1]], [[1.0, 2], [2, 1]]])
def test_negative_pivots(matrix):
    """The estimate of an indefinite symmetric matrix is negative, also if a diagonal entry is."""
    assert mbs.program(lambda a: factor_symmetric_positive(a).rcond)(jnp.array(matrix)) < 0


def test_where_a_matrix_is_not_regular_solutions_and_gradients_vanish(emission):
    solve = mbs.program(lambda x, regular: factor(x * jnp.ones((3, 3)), regular).solve(jnp.arange(3.0)).sum())
    assert solve(2.0, False) == 0
    assert jax.grad(solve)(2.0, False) == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [1, 2, 9])
def test_symmetric_systems(n, emission, agree):
    """L D Lᵀ of tridiagonal matrices, and how little it takes: operations grow with n, not with n³."""
    rng = np.random.default_rng(n)
    diagonal, off = 3 + rng.random((4, n)), rng.random((4, max(n - 1, 0)))

    def matrix(diagonal, off):
        return jnp.diag(diagonal) + jnp.diag(off, 1) + jnp.diag(off, -1)

    program = mbs.program(lambda d, o, b: factor_symmetric_positive(matrix(d, o)).solve(b))
    b = rng.random(n)
    x = jax.vmap(program, (0, 0, None))(diagonal, off, b)
    agree(x, jax.vmap(lambda d, o: jnp.linalg.solve(matrix(d, o), b))(diagonal, off))
    assert program.trace(diagonal[0], off[0], b).size <= 11 * n


@pytest.mark.one_in(3)
def test_saddle_point(emission, agree):
    """Accelerations and multipliers as from the whole system, with first and second derivatives."""
    rng = np.random.default_rng(0)
    factor_of_mass = np.eye(5) + 0.1 * rng.normal(size=(5, 5))
    args = (factor_of_mass @ factor_of_mass.T, rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=3))

    def whole(mass, jacobian, force, right):
        system = jnp.block([[mass, -jacobian.T], [jacobian, jnp.zeros((3, 3))]])
        x = jnp.linalg.solve(system, jnp.concatenate([force, right]))
        return x[:5], x[5:]

    program = mbs.program(lambda *args: solve_saddle_point(*args)[:2])
    agree(program(*args), whole(*args), 1e-11)
    loss = lambda f: lambda jacobian: sum(jnp.sum(jnp.sin(x)) for x in f(args[0], jacobian, *args[2:]))
    found, expected = loss(program), loss(whole)
    agree(jax.grad(found)(args[1]), jax.grad(expected)(args[1]), 1e-10)
    agree(jax.hessian(found)(args[1]), jax.hessian(expected)(args[1]), 1e-9)
