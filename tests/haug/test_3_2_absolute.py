"""Haug 3.2, constraints between a body and the ground: Examples 3.2.1 and 3.2.2."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

TENTHS = np.arange(11) / 10


@eqx.filter_jit
def equations(mech, q, v):
    """Φ, Φ_q, γ; compiled once per mechanism."""
    return mbs.constraints(mech, q), mbs.constraint_jacobian(mech, q), mbs.acceleration_rhs(mech, q, v)


def driven_pendulum(pivot, arm, motion):
    return mbs.Mechanism(
        bodies={"pendulum": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("pendulum", arm, pivot[0]),
            "pivot y": planar.AbsoluteY("pendulum", arm, pivot[1]),
        },
        drivers={"angle": planar.AbsoluteAngleDriver("pendulum", motion)},
    )


def test_example_3_2_1():
    """A pendulum of length 2, its centre a unit from the pivot at (1, 1): (3.2.3) to (3.2.5), γ, and its motion."""
    mech = driven_pendulum((1, 1), (1, 0), mbs.motion.Harmonic(1.2, 3.0, offset=2.0))
    (x, y, phi), w = (0.4, -0.3, 0.9), 1.7
    s, c = np.sin(phi), np.cos(phi)
    Phi, matrix, gamma = equations(mech, jnp.array([x, y, phi]), jnp.array([0.3, 0.2, w]))
    np.testing.assert_allclose(Phi[:2], [x + c - 1, y + s - 1], atol=1e-15)
    np.testing.assert_allclose(matrix[:2], [[1, 0, -s], [0, 1, c]], atol=1e-15)
    np.testing.assert_allclose(gamma[:2], [c * w**2, s * w**2], atol=1e-14)

    motion = mbs.kinematics(mech, TENTHS, {"pendulum": (1.4, 0.1, 2.0)}, throw=True)
    phi = 2 + 1.2 * np.sin(3 * TENTHS)
    w, w_dot = 3.6 * np.cos(3 * TENTHS), -10.8 * np.sin(3 * TENTHS)
    s, c = np.sin(phi), np.cos(phi)
    np.testing.assert_allclose(motion.q, np.stack([1 - c, 1 - s, phi], 1), atol=1e-12)
    np.testing.assert_allclose(motion.v, np.stack([s * w, -c * w, w], 1), atol=1e-12)
    a = np.stack([s * w_dot + c * w**2, -c * w_dot + s * w**2, w_dot], 1)
    np.testing.assert_allclose(motion.a, a, atol=1e-11)
    np.testing.assert_allclose(motion.point("pendulum", (1, 0)), 1, atol=1e-12)
    assert mbs.diagnose(mech, motion.q[2], TENTHS[2]).dof == 1


def test_pendulum_of_example_3_1_1_by_absolute_constraints():
    """With the pivot at the origin, a unit along y′, they are equations (3.1.5)."""
    mech = driven_pendulum((0, 0), (0, 1), mbs.motion.Harmonic(1.0, 1.0))
    for x, y, phi in [(0.2, 0.5, 0.3), (-1.0, 0.7, 2.6)]:
        q = jnp.array([x, y, phi])
        np.testing.assert_allclose(equations(mech, q, q)[0][:2], [x - np.sin(phi), y + np.cos(phi)], atol=1e-15)


def test_example_3_2_2():
    """A slider whose x′ axis stays on the x axis, pushed along it."""
    mech = mbs.Mechanism(
        bodies={"slider": planar.Body()},
        constraints={
            "on the axis": planar.AbsoluteY("slider", (0, 0), 0.0),
            "without turning": planar.AbsoluteAngle("slider", 0.0),
        },
        drivers={"push": planar.AbsoluteXDriver("slider", (0, 0), mbs.motion.Polynomial((0.2, -1.0, 3.0)))},
    )
    q, v = jnp.array([0.3, -0.7, 0.4]), jnp.array([1.1, 0.5, -2.0])
    Phi, matrix, gamma = equations(mech, q, v)
    np.testing.assert_allclose(Phi[:2], [-0.7, 0.4], atol=1e-15)
    np.testing.assert_allclose(matrix[:2], [[0, 1, 0], [0, 0, 1]], atol=1e-15)
    np.testing.assert_allclose(gamma[:2], 0, atol=1e-15)

    motion = mbs.kinematics(mech, TENTHS, q, throw=True)
    zero = np.zeros_like(TENTHS)
    np.testing.assert_allclose(motion.q, np.stack([0.2 - TENTHS + 3 * TENTHS**2, zero, zero], 1), atol=1e-13)
    np.testing.assert_allclose(motion.v, np.stack([-1 + 6 * TENTHS, zero, zero], 1), atol=1e-13)
    np.testing.assert_allclose(motion.a, np.stack([6 + zero, zero, zero], 1), atol=1e-12)
    report = mbs.diagnose(mech, motion.q[0])
    assert (report.dof, report.rank, report.redundant) == (1, 3, ())
