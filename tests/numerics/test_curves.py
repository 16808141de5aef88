"""Splines against SciPy's, and their derivatives by the knots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from jaxmbs.numerics.curves import cubic_spline, periodic_spline

KNOTS = np.array([-0.4, 0.1, 0.25, 0.9, 1.3, 2.2])
VALUES = np.array([0.3, -0.8, 0.4, 1.1, 0.2, 0.6])
# Inside every interval, at every knot, and beyond both ends.
ABSCISSAS = np.concatenate([np.linspace(-0.9, 2.7, 29), KNOTS])


def with_two_derivatives(f):
    """x → f, f′, f″, for a row of x."""
    one = jnp.ones(())
    rate = lambda x: jax.jvp(f, (x,), (one,))[1]
    second = lambda x: jax.jvp(rate, (x,), (one,))[1]
    return jax.jit(jax.vmap(lambda x: jnp.stack([f(x), rate(x), second(x)]), out_axes=1))


def central_difference(f, x, h=1e-3):
    """∂f/∂x_k along the last axis, of the fourth order."""
    shift = lambda k: h * np.eye(x.size)[k]
    columns = [
        (8 * (f(x + shift(k)) - f(x - shift(k))) - (f(x + 2 * shift(k)) - f(x - 2 * shift(k)))) / (12 * h)
        for k in range(x.size)
    ]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("n", [4, 5, 6])
def test_cubic_spline_is_scipys(n):
    reference = CubicSpline(KNOTS[:n], VALUES[:n])
    knots, values = jnp.asarray(KNOTS[:n]), jnp.asarray(VALUES[:n])
    got = with_two_derivatives(lambda x: cubic_spline(knots, values, x))(ABSCISSAS)
    for order in range(3):
        expected = reference(ABSCISSAS, order)
        np.testing.assert_allclose(got[order], expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (3, 2), (4, 3), (6, 3)])
def test_cubic_spline_reproduces_polynomials(n, degree):
    # Not-a-knot ends: a cubic through its own values is that cubic, also beyond the ends.
    polynomial = np.polynomial.Polynomial([0.7, -1.2, 0.4, 0.9][: degree + 1])
    knots = jnp.asarray(KNOTS[:n])
    got = with_two_derivatives(lambda x: cubic_spline(knots, jnp.asarray(polynomial(KNOTS[:n])), x))(ABSCISSAS)
    for order in range(3):
        expected = polynomial.deriv(order)(ABSCISSAS)
        np.testing.assert_allclose(got[order], expected, rtol=0, atol=1e-12 * max(1, np.max(np.abs(expected))))


def test_cubic_spline_runs_through_its_values():
    got = jax.jit(jax.vmap(lambda x: cubic_spline(jnp.asarray(KNOTS), jnp.asarray(VALUES), x)))(KNOTS)
    np.testing.assert_allclose(got, VALUES, rtol=0, atol=1e-15)


def test_cubic_spline_is_differentiable_in_knots_and_values():
    x = np.linspace(-0.3, 2.1, 7)
    spline = jax.jit(
        lambda data: jax.vmap(lambda x: cubic_spline(data[: KNOTS.size], data[KNOTS.size :], x))(jnp.asarray(x))
    )
    data = np.concatenate([KNOTS, VALUES])
    forward, reverse = jax.jit(jax.jacfwd(spline))(data), jax.jit(jax.jacrev(spline))(data)
    np.testing.assert_allclose(forward, reverse, rtol=0, atol=1e-12 * np.max(np.abs(forward)))
    scipys = lambda data: CubicSpline(data[: KNOTS.size], data[KNOTS.size :])(x)
    expected = central_difference(scipys, data, h=1e-4)
    np.testing.assert_allclose(forward, expected, rtol=0, atol=1e-8 * np.max(np.abs(expected)))
    # Linear in the values: the derivative is the spline of the unit vectors.
    of_units = np.stack([CubicSpline(KNOTS, unit)(x) for unit in np.eye(KNOTS.size)], axis=-1)
    np.testing.assert_allclose(forward[:, KNOTS.size :], of_units, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [3, 4, 7])
def test_periodic_spline_is_scipys(n):
    period, values = 2 * np.pi, VALUES[np.arange(n) % VALUES.size] + 0.1 * np.arange(n)
    knots = period * np.arange(n + 1) / n
    reference = CubicSpline(knots, np.append(values, values[0]), bc_type="periodic")
    x = np.concatenate([np.linspace(-5.1, 12.3, 41), knots])
    got = with_two_derivatives(lambda x: periodic_spline(jnp.asarray(values), period, x))(x)
    for order in range(3):
        expected = reference(x % period, order)
        np.testing.assert_allclose(got[order], expected, rtol=0, atol=1e-12 * max(1, np.max(np.abs(expected))))


def test_periodic_spline_is_differentiable_in_its_values():
    period, x = 2.0, np.linspace(-0.7, 3.1, 9)
    spline = jax.jit(lambda values: jax.vmap(lambda x: periodic_spline(values, period, x))(jnp.asarray(x)))
    got = np.asarray(jax.jit(jax.jacrev(spline))(jnp.asarray(VALUES)))
    np.testing.assert_allclose(got, jax.jit(jax.jacfwd(spline))(jnp.asarray(VALUES)), rtol=0, atol=1e-14)
    knots = period * np.arange(VALUES.size + 1) / VALUES.size
    of_units = [CubicSpline(knots, np.append(e, e[0]), bc_type="periodic")(x % period) for e in np.eye(VALUES.size)]
    np.testing.assert_allclose(got, np.stack(of_units, axis=-1), rtol=0, atol=1e-12)


def test_periodic_spline_of_a_constant_is_constant():
    got = with_two_derivatives(lambda x: periodic_spline(jnp.full(5, 1.7), 1.0, x))(ABSCISSAS)
    np.testing.assert_allclose(got, np.array([1.7, 0, 0])[:, None] * np.ones(ABSCISSAS.size), rtol=0, atol=1e-13)


def test_splines_keep_float32():
    values = jnp.asarray(VALUES, jnp.float32)
    x = jnp.asarray(0.3, jnp.float32)
    assert periodic_spline(values, 1.0, x).dtype == jnp.float32
    assert jax.eval_shape(cubic_spline, jnp.asarray(KNOTS, jnp.float32), values, x).dtype == jnp.float32
