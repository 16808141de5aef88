"""Prescribed motions: value, rate and acceleration against formulas and SciPy, and derivatives by their parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.interpolate import CubicSpline

from jaxmbs import motion

TIMES = np.linspace(-0.7, 3.1, 23)
SPLINE_TIMES = (-0.5, 0.0, 0.4, 1.1, 1.9, 3.0)
SPLINE_VALUES = (0.2, 0.9, -0.3, 0.5, 1.4, 0.1)


def three(f, rate, acceleration):
    """C, Ċ and C̈ at all times."""
    return np.stack([f(TIMES) + 0 * TIMES, rate(TIMES) + 0 * TIMES, acceleration(TIMES) + 0 * TIMES])


def harmonic(amplitude, frequency, phase=0.0, offset=0.0):
    angle = lambda t: frequency * t + phase
    return three(
        lambda t: offset + amplitude * np.sin(angle(t)),
        lambda t: amplitude * frequency * np.cos(angle(t)),
        lambda t: -amplitude * frequency**2 * np.sin(angle(t)),
    )


def polynomial(*coefficients):
    C = np.polynomial.Polynomial(coefficients)
    return three(C, C.deriv(), C.deriv(2))


def spline(times, values):
    C = CubicSpline(times, values)
    return three(C, C.derivative(), C.derivative(2))


def exponential(rate, t):
    return jnp.exp(-rate * t)


CASES = {
    "Constant": (motion.Constant(0.7), polynomial(0.7)),
    "Ramp": (motion.Ramp(1.3, start=-0.2), polynomial(-0.2, 1.3)),
    "Ramp from zero": (motion.Ramp(1.3), polynomial(0, 1.3)),
    "Polynomial": (motion.Polynomial((0.3, -0.8, 0.5, 1.1)), polynomial(0.3, -0.8, 0.5, 1.1)),
    "Polynomial of one number": (motion.Polynomial((0.3,)), polynomial(0.3)),
    "Harmonic": (motion.Harmonic(0.6, 2.3, 0.4, -0.9), harmonic(0.6, 2.3, 0.4, -0.9)),
    "Harmonic without phase and offset": (motion.Harmonic(0.6, 2.3), harmonic(0.6, 2.3)),
    "Spline": (motion.Spline(SPLINE_TIMES, SPLINE_VALUES), spline(SPLINE_TIMES, SPLINE_VALUES)),
    "Spline of two": (motion.Spline((0.0, 2.0), (1.0, 0.0)), polynomial(1.0, -0.5)),
    "Spline of three": (motion.Spline((0.0, 1.0, 3.0), (1.0, 1.0, 7.0)), polynomial(1.0, -1.0, 1.0)),
    "Function": (
        motion.Function(lambda t: jnp.exp(-0.5 * t)),
        three(*(lambda t, k=k: (-0.5) ** k * np.exp(-0.5 * t) for k in range(3))),
    ),
    "Function with a parameter": (
        motion.Function(jax.tree_util.Partial(exponential, 0.5)),
        three(*(lambda t, k=k: (-0.5) ** k * np.exp(-0.5 * t) for k in range(3))),
    ),
    "a number": (motion.as_motion(0.7), polynomial(0.7)),
    "a function": (motion.as_motion(lambda t: t**3 - t), polynomial(0, -1, 0, 1)),
}


def value_rate_acceleration(C, t):
    one = jnp.ones_like(t)
    rate = lambda t: jax.jvp(C, (t,), (one,))[1]
    return jnp.stack([C(t), *jax.jvp(rate, (t,), (one,))])


@pytest.mark.parametrize("name", CASES)
def test_value_rate_and_acceleration(name):
    C, expected = CASES[name]
    got = jax.jit(jax.vmap(lambda t: value_rate_acceleration(C, t), out_axes=1))(TIMES)
    assert got.dtype == jnp.float64
    for order in range(3):
        atol = 1e-12 * max(1.0, np.max(np.abs(expected[order])))
        np.testing.assert_allclose(got[order], expected[order], rtol=0, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_value_is_a_scalar_of_the_times_type(name):
    C = CASES[name][0]
    for dtype in (jnp.float64, jnp.float32):
        converted = jax.tree.map(lambda x, dtype=dtype: jnp.asarray(x, dtype), C)
        value = jax.eval_shape(converted, jax.ShapeDtypeStruct((), dtype))
        assert (value.shape, value.dtype) == ((), dtype)


def parameter_derivatives(C, t):
    """∂/∂(every number) of value, rate and acceleration, forward and reverse, and by central differences."""
    leaves, treedef = jax.tree.flatten(C)
    x, unravel = ravel_pytree([jnp.asarray(leaf, float) for leaf in leaves])
    f = lambda x: value_rate_acceleration(jax.tree.unflatten(treedef, unravel(x)), t)
    h = 1e-3
    shifts = np.multiply.outer(np.array([-2, -1, 1, 2]), h * np.eye(x.size)).reshape(-1, x.size)

    @jax.jit
    def run(x):
        return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.lax.map(f, x[None, :] + shifts)

    forward, reverse, values = (np.asarray(y) for y in run(x))
    by_differences = np.tensordot([1, -8, 8, -1], values.reshape(4, x.size, 3), axes=1).T / (12 * h)
    return forward, reverse, by_differences


@pytest.mark.parametrize(
    "name", ["Constant", "Ramp", "Polynomial", "Harmonic", "Spline", "Spline of three", "Function with a parameter"]
)
def test_differentiable_in_all_parameters(name):
    forward, reverse, by_differences = parameter_derivatives(CASES[name][0], jnp.asarray(0.8))
    size = np.max(np.abs(forward))
    assert np.all(np.any(forward != 0, axis=0))
    np.testing.assert_allclose(forward, reverse, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(forward, by_differences, rtol=0, atol=1e-8 * size)


def test_batches_of_parameters():
    rates = jnp.array([0.5, -1.0, 2.0])
    got = jax.vmap(lambda rate: motion.Ramp(rate, start=1.0)(jnp.asarray(2.0)))(rates)
    np.testing.assert_array_equal(got, 1.0 + 2.0 * rates)
    values = jnp.stack([jnp.asarray(SPLINE_VALUES), 2 * jnp.asarray(SPLINE_VALUES)])
    got = jax.jit(jax.vmap(lambda values: motion.Spline(SPLINE_TIMES, values)(jnp.asarray(0.8))))(values)
    np.testing.assert_allclose(got[1], 2 * got[0], rtol=1e-14)


def test_integers_become_reals():
    assert motion.Ramp(2).rate.dtype == np.float64
    assert motion.Polynomial([1, 2])(jnp.asarray(0.5)) == 2.0


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: motion.Ramp(np.nan), "rate must be finite"),
        (lambda: motion.Ramp((1.0, 2.0)), "rate must be a number"),
        (lambda: motion.Ramp("fast"), "rate must be a number"),
        (lambda: motion.Polynomial(1.0), "coefficients must be an array"),
        (lambda: motion.Harmonic(1.0, np.inf), "frequency must be finite"),
        (lambda: motion.Spline((0, 1, 2), (0, 1)), "same length"),
        (lambda: motion.Spline((0,), (1,)), "at least 2"),
        (lambda: motion.Spline((0, 2, 1), (0, 1, 2)), "times must increase"),
        (lambda: motion.Spline((0, 1, 1), (0, 1, 2)), "times must increase"),
    ],
)
def test_unusable_parameters(make, reason):
    with pytest.raises(ValueError, match=reason):
        make().check()
