"""Haug 3.6, position, velocity and acceleration analysis: Examples 3.6.1 and 3.6.2, Problem 3.6.2."""

import jax.numpy as jnp
import numpy as np
import pytest

from haug_analysis import ESTIMATE, UPPER_ANGLE, block, equations, pendulum_closed_form, printed_form
from jaxmbs import planar

# Example 3.6.1: redundant constraints.


def test_example_3_6_1_equations():
    """Φ¹ = (y₁ + sin φ₁, y₁ − sin φ₁), and the Jacobians of Φ¹ and Φ³."""
    x, y, phi = 0.3, 0.2, 0.5
    q = jnp.array([x, y, phi])
    Phi, matrix, _, _ = equations(block(angle=planar.AbsoluteAngle("block", 0.1)), q, q, jnp.zeros(()))
    np.testing.assert_allclose(Phi, [y + np.sin(phi), y - np.sin(phi), phi - 0.1], atol=1e-15)
    np.testing.assert_allclose(matrix, [[0, 1, np.cos(phi)], [0, 1, -np.cos(phi)], [0, 0, 1]], atol=1e-15)


# Example 3.6.2: the double pendulum.


def test_example_3_6_2_equations():
    """Φ, Φ_q and |Φ_q| = −cos φ₂ of any configuration; the last vanishes when the second rod is upright."""
    rng = np.random.default_rng(362)
    for _ in range(3):
        (x1, y1, phi1, x2, y2, phi2), t = rng.normal(size=6), rng.uniform()
        s1, c1, s2, c2 = np.sin(phi1), np.cos(phi1), np.sin(phi2), np.cos(phi2)
        Phi, matrix, _, _ = printed_form([x1, y1, phi1, x2, y2, phi2], t=t)
        expected = [x1 - c1, y1 - s1, x2 - c1 - c2, y2 - s1 - s2, y2 + 1, phi1 - np.pi / 6 * t - UPPER_ANGLE]
        np.testing.assert_allclose(Phi, expected, atol=1e-14)
        expected = [
            [1, 0, s1, 0, 0, 0],
            [0, 1, -c1, 0, 0, 0],
            [0, 0, s1, 1, 0, s2],
            [0, 0, -c1, 0, 1, -c2],
            [0, 0, 0, 0, 1, 0],
            [0, 0, 1, 0, 0, 0],
        ]
        np.testing.assert_allclose(matrix, expected, atol=1e-14)
        assert np.linalg.det(matrix) == pytest.approx(-c2, abs=1e-14)
    for k in (0, 1, 2):
        matrix = printed_form([0.5, -0.9, UPPER_ANGLE, 0.5, 0.1, np.pi / 2 + k * np.pi])[1]
        assert np.linalg.det(matrix) == pytest.approx(0, abs=1e-14)


def test_example_3_6_2_newton_unrounded():
    """Without rounding: quadratic convergence, an error e of φ₂ leaves one of e² / (2 cos φ₂) in x₂, to first order."""
    q = ESTIMATE
    solution = pendulum_closed_form(np.zeros(()))[0]
    for _ in range(2):
        expected = (q[5] - solution[5]) ** 2 / (2 * np.cos(solution[5]))
        Phi, matrix, _, _ = printed_form(q)
        q = q + np.linalg.solve(matrix, -Phi)
        assert q[3] - solution[3] == pytest.approx(expected, rel=1e-2)
        assert np.max(np.abs(q - solution)) == pytest.approx(expected, rel=1e-2)
    assert expected < 2e-11
