"""Haug 3.1, basic concepts: Examples 3.1.1 to 3.1.3, Problems 3.1.1 and 3.2.3."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.planar.element import AbsoluteConstraint

TENTHS = np.arange(11) / 10


@eqx.filter_jit
def equations(mech, q, v, t):
    """Φ, Φ_q, ν, γ; compiled once per mechanism."""
    return (
        mbs.constraints(mech, q, t),
        mbs.constraint_jacobian(mech, q, t),
        mbs.velocity_rhs(mech, q, t),
        mbs.acceleration_rhs(mech, q, v, t),
    )


# Example 3.1.1: the simple pendulum.


def pendulum(motion):
    """Its frame is at the centre, a unit below the pivot, so x₁ = sin φ₁ and y₁ = −cos φ₁: Haug (3.1.5)."""
    return mbs.Mechanism(
        bodies={"pendulum": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("pendulum", (0, 1), 0.0),
            "pivot y": planar.AbsoluteY("pendulum", (0, 1), 0.0),
        },
        drivers={"angle": planar.AbsoluteAngleDriver("pendulum", motion)},
    )


def test_pendulum_equations():
    """Φ of (3.1.7), Φ_q and its determinant of (3.1.8), ν and γ as printed after (3.1.10), at a place off the motion."""
    mech = pendulum(mbs.motion.Polynomial((0.1, 0.7, -0.4)))
    (x, y, phi), (vx, vy, w), t = (0.3, -0.8, 0.6), (0.2, -1.1, 1.7), 0.5
    f, f_dot, f_ddot = 0.1 + 0.7 * t - 0.4 * t**2, 0.7 - 0.8 * t, -0.8
    s, c = np.sin(phi), np.cos(phi)
    q, v = jnp.array([x, y, phi]), jnp.array([vx, vy, w])

    Phi, matrix, nu, gamma = equations(mech, q, v, jnp.asarray(t))
    np.testing.assert_allclose(Phi, [x - s, y + c, phi - f], atol=1e-15)
    np.testing.assert_allclose(matrix, [[1, 0, -c], [0, 1, -s], [0, 0, 1]], atol=1e-15)
    assert np.linalg.det(matrix) == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(nu, [0, 0, f_dot], atol=1e-15)
    np.testing.assert_allclose(gamma, [-(w**2) * s, w**2 * c, f_ddot], atol=1e-15)


def test_problem_3_1_1():
    """f(t) = sin 10t at tᵢ = i/10: the eleven rows q, q̇, q̈ of the table, from the closed form."""
    mech = pendulum(mbs.motion.Harmonic(1.0, 10.0))
    motion = mbs.kinematics(mech, TENTHS, {"pendulum": (0.1, -0.9, 0.1)}, throw=True)

    phi, w, w_dot = np.sin(10 * TENTHS), 10 * np.cos(10 * TENTHS), -100 * np.sin(10 * TENTHS)
    s, c = np.sin(phi), np.cos(phi)
    np.testing.assert_allclose(motion.q, np.stack([s, -c, phi], 1), atol=1e-12)
    np.testing.assert_allclose(motion.v, np.stack([c * w, s * w, w], 1), atol=1e-10)
    a = np.stack([c * w_dot - s * w**2, s * w_dot + c * w**2, w_dot], 1)
    np.testing.assert_allclose(motion.a, a, atol=1e-9)
    assert mbs.diagnose(mech, motion.q[3], TENTHS[3]).dof == 1


# Example 3.1.2: the two-body slider-crank.

LENGTH = 1.8


def slider_crank(omega):
    """Crank of unit length and coupler of length ℓ > 1 along its y′ axis, whose origin slides on the x axis."""
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "coupler": planar.Body()},
        constraints={
            "O1 x": planar.AbsoluteX("crank", (0, 0), 0.0),
            "O1 y": planar.AbsoluteY("crank", (0, 0), 0.0),
            "O2 y": planar.AbsoluteY("coupler", (0, 0), 0.0),
            "P": planar.Revolute("crank", "coupler", (1, 0), (0, LENGTH)),
        },
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(omega))},
    )


def test_slider_crank_equations():
    """Φ of (3.1.11), (3.1.12), Φ_q and ν of (3.1.14) with |Φ_q| = −ℓ sin φ₂, γ of (3.1.15)."""
    omega, t = 2.5, 0.3
    mech = slider_crank(omega)
    q, v = jnp.array([0.1, -0.2, 0.7, 2.1, 0.3, 1.2]), jnp.array([0.4, 0.3, -1.1, 0.2, 0.9, 1.6])
    x1, y1, phi1, x2, y2, phi2 = np.asarray(q)
    s1, c1, s2, c2 = np.sin(phi1), np.cos(phi1), LENGTH * np.sin(phi2), LENGTH * np.cos(phi2)

    Phi, matrix, nu, gamma = equations(mech, q, v, jnp.asarray(t))
    expected = [x1, y1, y2, x1 - x2 + c1 + s2, y1 - y2 + s1 - c2, phi1 - omega * t]
    np.testing.assert_allclose(Phi, expected, atol=1e-14)
    expected = [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [1, 0, -s1, -1, 0, c2],
        [0, 1, c1, 0, -1, s2],
        [0, 0, 1, 0, 0, 0],
    ]
    np.testing.assert_allclose(matrix, expected, atol=1e-14)
    assert np.linalg.det(matrix) == pytest.approx(-s2, abs=1e-14)
    np.testing.assert_allclose(nu, [0, 0, 0, 0, 0, omega], atol=1e-14)
    w1, w2 = v[2], v[5]
    expected = [0, 0, 0, w1**2 * c1 + w2**2 * s2, w1**2 * s1 - w2**2 * c2, 0]
    np.testing.assert_allclose(gamma, expected, atol=1e-14)


def test_slider_crank_motion():
    """One turn and more against ℓ cos φ₂ = sin φ₁, x₂ = cos φ₁ + ℓ sin φ₂, differentiated by hand."""
    omega = 8.0
    mech = slider_crank(omega)
    motion = mbs.kinematics(mech, TENTHS, {"coupler": (2.5, 0.1, 1.5)}, throw=True)

    phi1 = omega * TENTHS
    s1, c1 = np.sin(phi1), np.cos(phi1)
    phi2 = np.arccos(s1 / LENGTH)
    s2, c2 = LENGTH * np.sin(phi2), LENGTH * np.cos(phi2)
    w2 = -omega * c1 / s2
    w2_dot = (omega**2 * s1 - w2**2 * c2) / s2
    x2, vx2 = c1 + s2, -omega * s1 + w2 * c2
    ax2 = -(omega**2) * c1 + w2_dot * c2 - w2**2 * s2
    np.testing.assert_allclose(motion.position("coupler.x"), x2, atol=1e-12)
    np.testing.assert_allclose(motion.position("coupler.phi"), phi2, atol=1e-12)
    np.testing.assert_allclose(motion.velocity("coupler.x"), vx2, atol=1e-11)
    np.testing.assert_allclose(motion.velocity("coupler.phi"), w2, atol=1e-11)
    np.testing.assert_allclose(motion.acceleration("coupler.x"), ax2, atol=1e-10)
    np.testing.assert_allclose(motion.acceleration("coupler.phi"), w2_dot, atol=1e-10)
    np.testing.assert_allclose(motion.point("coupler", (0, LENGTH)), np.stack([c1, s1], 1), atol=1e-12)
    assert mbs.diagnose(mech, motion.q[4], TENTHS[4]).dof == 1


# Example 3.1.3: constraints that do not imply the geometry.


class SlideOrthogonal(AbsoluteConstraint):
    """A body slides along y = x, its y′ axis orthogonal to its own position vector: Haug (3.1.16), (3.1.17)."""

    body: str = eqx.field(static=True)
    rows: ClassVar[int] = 2

    def residual(self, i, j, t):
        return jnp.stack([j.r[1] - j.r[0], j.r @ j.direction(jnp.array([0.0, 1.0]))])


class Slide(AbsoluteConstraint):
    """A body slides along y = x with φ = π/4: Haug (3.1.16), Problem 3.2.3."""

    body: str = eqx.field(static=True)
    rows: ClassVar[int] = 2

    def residual(self, i, j, t):
        return jnp.stack([j.r[1] - j.r[0], j.phi - jnp.pi / 4])


def inclined_slider(element):
    return mbs.Mechanism(
        bodies={"block": planar.Body()},
        constraints={"slide": element("block")},
        drivers={"push": planar.AbsoluteXDriver("block", (0, 0), mbs.motion.Ramp(0.5))},
    )


def test_inclined_slider_determinant():
    """|Φ_q| = −(y₁ sin φ₁ + x₁ cos φ₁), which vanishes at r₁ = 0 for every φ₁; that of Problem 3.2.3 is 1 everywhere."""
    for x, y, phi in [(0.7, -0.4, 0.9), (-1.2, 0.3, 2.0), (0, 0, 0.4), (0, 0, -2.5)]:
        q = jnp.array([x, y, phi], float)
        orthogonal, fixed = (
            np.linalg.det(equations(inclined_slider(kind), q, q, jnp.zeros(()))[1]) for kind in (SlideOrthogonal, Slide)
        )
        assert orthogonal == pytest.approx(-(y * np.sin(phi) + x * np.cos(phi)), abs=1e-15)
        assert abs(fixed) == pytest.approx(1, abs=1e-15)


def test_inclined_slider_at_origin():
    """At the origin (3.1.16) to (3.1.18) hold for any angle and leave it free; those of Problem 3.2.3 do not."""
    for phi in (np.pi / 4, -0.8, 2.0):
        q = jnp.array([0.0, 0.0, phi])
        Phi = equations(inclined_slider(SlideOrthogonal), q, q, jnp.zeros(()))[0]
        np.testing.assert_allclose(Phi, 0, atol=1e-15)
    at_origin = [0.0, 0.0, np.pi / 4]
    bad = mbs.diagnose(inclined_slider(SlideOrthogonal), at_origin)
    assert (bad.rank, bad.free, bad.redundant) == (2, 1, ("slide",))
    good = mbs.diagnose(inclined_slider(Slide), at_origin)
    assert (good.rank, good.free, good.redundant) == (3, 0, ())


def test_inclined_slider_motion():
    """Both models slide along y = x; only that of Problem 3.2.3 is sure of it when the block passes the origin."""
    times = 4 * (TENTHS - 0.5)  # the sixth is exactly 0
    guess = {"block": (-1.0, -1.0, 0.8)}
    good = mbs.kinematics(inclined_slider(Slide), times, guess, throw=True)
    straight = np.stack([times / 2, times / 2, np.full(11, np.pi / 4)], 1)
    np.testing.assert_allclose(good.q, straight, atol=1e-12)
    np.testing.assert_allclose(good.v, np.tile([0.5, 0.5, 0], (11, 1)), atol=1e-12)
    np.testing.assert_allclose(good.a, 0, atol=1e-12)

    bad = mbs.kinematics(inclined_slider(SlideOrthogonal), times, guess)
    expected = np.where(times == 0, mbs.Status.SINGULAR, mbs.Status.CONVERGED)
    np.testing.assert_array_equal(bad.status, expected)
    np.testing.assert_allclose(bad.q, straight, atol=1e-12)
