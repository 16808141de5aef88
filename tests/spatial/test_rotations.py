"""Rotations of space against SciPy's, and against each other's derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import rotation

SIZES = (0.0, 1e-12, 1e-6, 1e-3, 0.4, 0.5, 1.0, 2.0, 3.0, np.pi - 1e-9, np.pi, 4.0, 6.0)


def vectors(size, count=4, seed=0):
    v = np.random.default_rng(seed).normal(size=(count, 3))
    return jnp.asarray(size * v / np.linalg.norm(v, axis=1, keepdims=True))


def scipy_parameters(r):
    """Scalar first."""
    return np.roll(r.as_quat(), 1, axis=-1)


def same_rotation(p, q, tolerance=1e-14):
    assert np.all(1 - np.abs(np.sum(np.asarray(p) * np.asarray(q), axis=-1)) < tolerance)


@pytest.mark.parametrize("size", SIZES)
def test_exponential_and_logarithm(size):
    theta = vectors(size)
    expected = Rotation.from_rotvec(np.array(theta))
    p, a = jax.vmap(rotation.exp)(theta), jax.vmap(rotation.exp_matrix)(theta)
    same_rotation(p, scipy_parameters(expected))
    np.testing.assert_allclose(a, expected.as_matrix(), rtol=0, atol=4e-15)
    np.testing.assert_allclose(jax.vmap(rotation.matrix)(p), expected.as_matrix(), rtol=0, atol=4e-15)
    found = jax.vmap(rotation.log)(p)
    np.testing.assert_allclose(Rotation.from_rotvec(np.array(found)).as_matrix(), a, rtol=0, atol=4e-15)
    assert np.all(np.linalg.norm(found, axis=1) <= np.pi + 1e-15)
    np.testing.assert_allclose(jax.vmap(rotation.log)(-p), found, rtol=0, atol=1e-14 if size < 3.1 else 10)
    if size < np.pi - 1e-6:
        np.testing.assert_allclose(found, theta, rtol=1e-14, atol=0)
        np.testing.assert_allclose(jax.vmap(rotation.log_matrix)(a), theta, rtol=0, atol=2e-15 if size < 3 else 1e-14)


@pytest.mark.parametrize("size", [size for size in SIZES if size < 6.2])
def test_gamma_is_what_turns_rates_into_angular_velocity(size):
    """Ṙ Rᵀ = (Γ θ̇)~ and Rᵀ Ṙ = (Γᵀ θ̇)~, with the derivative by AD; Γ Γ⁻¹ = I."""
    for theta, rate in zip(vectors(size), vectors(1.0, seed=1), strict=True):
        a, a_dot = jax.jvp(rotation.exp_matrix, (theta,), (rate,))
        gamma = rotation.gamma(theta)
        np.testing.assert_allclose(a_dot @ a.T, rotation.skew(gamma @ rate), rtol=0, atol=1e-14)
        np.testing.assert_allclose(a.T @ a_dot, rotation.skew(gamma.T @ rate), rtol=0, atol=1e-14)
        scale = np.linalg.cond(gamma)
        np.testing.assert_allclose(gamma @ rotation.gamma_inverse(theta), np.eye(3), rtol=0, atol=1e-14 * scale)
        p, p_dot = jax.jvp(rotation.exp, (theta,), (rate,))
        np.testing.assert_allclose(rotation.angular_velocity(p, p_dot), gamma.T @ rate, rtol=0, atol=1e-14)
        np.testing.assert_allclose(rotation.rate(p, gamma.T @ rate), p_dot, rtol=0, atol=1e-15)


@pytest.mark.parametrize("function", [rotation.exp, rotation.exp_matrix, rotation.gamma, rotation.gamma_inverse])
@pytest.mark.parametrize("size", [0.0, 0.499, 0.501])
def test_third_derivatives_through_zero_and_where_the_series_ends(function, size):
    """Finite, and as differences of the second ones."""
    theta, (u, w, x) = vectors(size, 1)[0], vectors(1.0, 3, seed=2)

    def second(s):
        f = lambda a, b: function(theta + a * u + b * w + s * x)
        return jax.jvp(lambda a: jax.jvp(lambda b: f(a, b), (0.0,), (1.0,))[1], (0.0,), (1.0,))[1]

    third = jax.jvp(second, (0.0,), (1.0,))[1]
    h = 1e-3
    difference = (8 * (second(h) - second(-h)) - (second(2 * h) - second(-2 * h))) / (12 * h)
    np.testing.assert_allclose(third, difference, rtol=0, atol=1e-9)


def test_logarithm_is_smooth_at_the_identity():
    p = lambda x: rotation.log(rotation.exp(x))
    np.testing.assert_allclose(jax.jacfwd(p)(jnp.zeros(3)), np.eye(3), rtol=0, atol=1e-15)
    assert np.all(np.isfinite(jax.jacfwd(jax.jacrev(p))(jnp.zeros(3))))


def test_products_and_matrices():
    rng = np.random.default_rng(3)
    one, two = Rotation.random(20, rng=rng), Rotation.random(20, rng=rng)
    p, q = scipy_parameters(one), scipy_parameters(two)
    same_rotation(jax.vmap(rotation.product)(p, q), scipy_parameters(one * two))
    same_rotation(jax.vmap(rotation.inverse)(p), scipy_parameters(one.inv()))
    same_rotation(jax.vmap(rotation.from_matrix)(one.as_matrix()), p)
    # Half turns, where the trace is −1.
    half = Rotation.from_rotvec(np.pi * np.vstack([np.eye(3), -np.eye(3), np.ones((1, 3)) / np.sqrt(3)]))
    same_rotation(jax.vmap(rotation.from_matrix)(half.as_matrix()), scipy_parameters(half))
    np.testing.assert_array_equal(rotation.normalised(jnp.zeros(4)), [1, 0, 0, 0])


def test_angles():
    """Body-fixed 1-2-3 is SciPy's intrinsic "XYZ"; ω = E θ̇ by AD."""
    rng = np.random.default_rng(4)
    angles = rng.uniform([-3, -1.5, -3], [3, 1.5, 3], (20, 3))
    p = jax.vmap(rotation.from_angles)(angles)
    same_rotation(p, scipy_parameters(Rotation.from_euler("XYZ", angles)))
    np.testing.assert_allclose(jax.vmap(rotation.to_angles)(p), angles, rtol=0, atol=1e-13)
    for theta, rate in zip(angles[:5], rng.normal(size=(5, 3)), strict=True):
        q, q_dot = jax.jvp(rotation.from_angles, (theta,), (rate,))
        omega = rotation.angular_velocity(q, q_dot)
        np.testing.assert_allclose(rotation.angles_to_velocity(theta) @ rate, omega, rtol=0, atol=1e-14)
        np.testing.assert_allclose(rotation.velocity_to_angles(theta) @ omega, rate, rtol=1e-12)


def test_shortest_rotation_between_directions():
    rng = np.random.default_rng(5)
    for _ in range(20):
        u, w = rng.normal(size=(2, 3))
        for target in (w, u, -u, -u + 1e-7 * w, 3 * u + 1e-7 * w):
            p = rotation.between(jnp.asarray(u), jnp.asarray(target))
            turned = rotation.matrix(p) @ (u / np.linalg.norm(u))
            np.testing.assert_allclose(turned, target / np.linalg.norm(target), rtol=0, atol=1e-14)
        angle = np.arccos(u @ w / np.linalg.norm(u) / np.linalg.norm(w))
        shortest = rotation.log(rotation.between(jnp.asarray(u), jnp.asarray(w)))
        np.testing.assert_allclose(np.linalg.norm(shortest), angle, rtol=1e-12)
    assert np.all(
        np.isfinite(jax.jacfwd(lambda w: rotation.between(jnp.array([0.0, 0, 1]), w))(jnp.array([0, 0, 1.0])))
    )


def test_step_of_a_chart():
    """p ∘ exp(θ) moves with ω where θ̇ = `chart_rate`: to the fourth order in θ."""
    u, omega = vectors(1.0, 2)
    errors = []
    for size in (0.2, 0.1):
        exact = jnp.linalg.solve(rotation.gamma(size * u).T, omega)
        errors.append(np.abs(rotation.chart_rate(size * u, omega) - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - 4) < 0.05


def test_coordinates_of_a_body():
    place = mbs.spatial.coordinates
    theta = np.array([0.3, -0.4, 0.5])
    r = (1.0, 2.0, 3.0)
    expected = place(r, Rotation.from_rotvec(theta).as_matrix())
    np.testing.assert_allclose(place(r, theta), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(place(r, 2 * expected[3:]), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(place(r), [1, 2, 3, 1, 0, 0, 0])
    with pytest.raises(ValueError, match="rotated"):
        place(r, np.zeros(5))
