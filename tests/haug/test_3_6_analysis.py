"""Haug 3.6, position, velocity and acceleration analysis: Examples 3.6.1 and 3.6.2, Problem 3.6.2."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

TENTHS = np.arange(11) / 10

# Half a unit, and a unit, in the last of the book's four decimals.
PRINTED, LAST_PLACE = 5e-5, 1e-4


@eqx.filter_jit
def equations(mech, q, v, t):
    """Φ, Φ_q, ν, γ; compiled once per mechanism."""
    return (
        mbs.constraints(mech, q, t),
        mbs.constraint_jacobian(mech, q, t),
        mbs.velocity_rhs(mech, q, t),
        mbs.acceleration_rhs(mech, q, v, t),
    )


# Example 3.6.1: redundant constraints.


def block(**angle):
    """Two points of a block, a unit before and behind its origin, stay on the x axis."""
    return mbs.Mechanism(
        bodies={"block": planar.Body()},
        constraints={
            "front": planar.AbsoluteY("block", (1, 0), 0.0),
            "back": planar.AbsoluteY("block", (-1, 0), 0.0),
            **angle,
        },
    )


def test_example_3_6_1_equations():
    """Φ¹ = (y₁ + sin φ₁, y₁ − sin φ₁), and the Jacobians of Φ¹ and Φ³."""
    x, y, phi = 0.3, 0.2, 0.5
    q = jnp.array([x, y, phi])
    Phi, matrix, _, _ = equations(block(angle=planar.AbsoluteAngle("block", 0.1)), q, q, jnp.zeros(()))
    np.testing.assert_allclose(Phi, [y + np.sin(phi), y - np.sin(phi), phi - 0.1], atol=1e-15)
    np.testing.assert_allclose(matrix, [[0, 1, np.cos(phi)], [0, 1, -np.cos(phi)], [0, 0, 1]], atol=1e-15)


def test_example_3_6_1_independent():
    mech = block()
    start = mbs.assemble(mech, {"block": (0.7, 0.1, 0.2)}, throw=True)
    np.testing.assert_allclose(start.q, [0.7, 0, 0], atol=1e-10)
    report = mbs.diagnose(mech, start.q)
    assert (report.rank, report.redundant, report.consistent, report.dof) == (2, (), True, 1)


@pytest.mark.parametrize(("angle", "consistent"), [(0.0, True), (0.1, False)])
def test_example_3_6_1_redundant(angle, consistent):
    """φ₁ = 0 is redundant and holds; φ₁ = 0.1 is as redundant, and cannot be satisfied by any q."""
    mech = block(angle=planar.AbsoluteAngle("block", angle))
    start = mbs.assemble(mech, {"block": (0.7, 0.1, 0.2)})
    assert start.status == (mbs.Status.CONVERGED if consistent else mbs.Status.NOT_ASSEMBLED)
    for q in (start.q, [0.7, 0.0, 0.0]):
        report = mbs.diagnose(mech, q)
        assert (report.rank, report.redundant, report.dof) == (2, ("angle",), 1)
        assert report.consistent is consistent
    if consistent:
        np.testing.assert_allclose(start.q, [0.7, 0, 0], atol=1e-10)
    else:
        # |y₁ ± sin φ₁| ≤ g and |φ₁ − 0.1| ≤ g together need sin φ₁ ≤ g, and so g of about 0.05 at least.
        assert start.residual > 0.0499


# Example 3.6.2: the double pendulum.


def double_pendulum():
    """Two rods of unit length, their frames at the far ends; the end of the second slides on y = −1."""
    return mbs.Mechanism(
        bodies={"upper": planar.Body(), "lower": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("upper", (-1, 0), 0.0),
            "pivot y": planar.AbsoluteY("upper", (-1, 0), 0.0),
            "pin x": planar.RelativeX("upper", "lower", (0, 0), (-1, 0)),
            "pin y": planar.RelativeY("upper", "lower", (0, 0), (-1, 0)),
            "track": planar.AbsoluteY("lower", (0, 0), -1.0),
        },
        drivers={"motor": planar.AbsoluteAngleDriver("upper", mbs.motion.Ramp(np.pi / 6, 5 * np.pi / 3))},
    )


# The book writes the pin with x₁ and y₁ replaced by the first two equations: it adds those to the third and the fourth.
# That changes neither the determinant nor a solution.
AS_PRINTED = np.eye(6)
AS_PRINTED[2, 0] = AS_PRINTED[3, 1] = 1

UPPER_ANGLE = 5 * np.pi / 3
ESTIMATE = np.array([0.5, -0.8660, UPPER_ANGLE, 1.5, -1.0, 6.14])


def printed_form(q, v=(0.0,) * 6, t=0.0):
    """Φ, Φ_q, ν, γ in the form of the book."""
    q, v, t = (jnp.asarray(x, float) for x in (q, v, t))
    return [AS_PRINTED @ np.asarray(rows) for rows in equations(double_pendulum(), q, v, t)]


# The book's matrices at the estimate and at the solution.
PRINTED_AT_ESTIMATE = [
    [1, 0, -0.8660, 0, 0, 0],
    [0, 1, -0.5, 0, 0, 0],
    [0, 0, -0.8660, 1, 0, -0.1427],
    [0, 0, -0.5, 0, 1, -0.9898],
    [0, 0, 0, 0, 1, 0],
    [0, 0, 1, 0, 0, 0],
]
PRINTED_AT_START = [
    [1, 0, -0.8660, 0, 0, 0],
    [0, 1, -0.5, 0, 0, 0],
    [0, 0, -0.8660, 1, 0, -0.1340],
    [0, 0, -0.5, 0, 1, -0.9910],
    [0, 0, 0, 0, 1, 0],
    [0, 0, 1, 0, 0, 0],
]


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


def test_example_3_6_2_newton():
    """The Newton–Raphson iteration (3.6.7), (3.6.8) from the book's estimate.

    The book solves each step with the numbers as it prints them and goes on from the rounded result. Its corrections
    follow from its own equations to every digit, and are those of the exact equations to one unit of the last place.
    """
    Phi, matrix, _, _ = printed_form(ESTIMATE)
    printed_rhs = [0, 0, -0.0102, -0.0087, 0, 0]
    np.testing.assert_allclose(matrix, PRINTED_AT_ESTIMATE, atol=PRINTED)
    np.testing.assert_allclose(-Phi, printed_rhs, atol=PRINTED)
    printed_first = np.array([0, 0, 0, -0.0089, 0, 0.0088])
    np.testing.assert_allclose(np.linalg.solve(PRINTED_AT_ESTIMATE, printed_rhs), printed_first, atol=PRINTED)
    np.testing.assert_allclose(np.linalg.solve(matrix, -Phi), printed_first, atol=LAST_PLACE)

    second = np.array([0.5, -0.8660, UPPER_ANGLE, 1.4911, -1.0, 6.1488])
    np.testing.assert_allclose(ESTIMATE + printed_first, second, atol=1e-15)
    Phi, matrix, _, _ = printed_form(second)
    printed_second = np.array([0, 0, 0, -0.0001, 0, 0])
    np.testing.assert_allclose(np.linalg.solve(matrix, -Phi), printed_second, atol=PRINTED)
    third = [0.5, -0.8660, UPPER_ANGLE, 1.4910, -1.0, 6.1488]
    np.testing.assert_allclose(second + printed_second, third, atol=1e-15)
    # "The constraint violation is smaller than the prescribed error tolerance" of 10⁻⁴.
    assert np.max(np.abs(printed_form(third)[0])) < 1e-4


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


def pendulum_closed_form(t):
    """q, q̇, q̈ from sin φ₂ = −1 − sin φ₁, with the second rod to the right of its pin."""
    w = np.pi / 6
    phi1 = UPPER_ANGLE + w * t
    s1, c1 = np.sin(phi1), np.cos(phi1)
    phi2 = 2 * np.pi + np.arcsin(-1 - s1)
    s2, c2 = np.sin(phi2), np.cos(phi2)
    w2 = -c1 * w / c2
    w2_dot = (s1 * w**2 + s2 * w2**2) / c2
    zero = 0 * t
    q = [c1, s1, phi1, c1 + c2, zero - 1, phi2]
    v = [-s1 * w, c1 * w, w + zero, -s1 * w - s2 * w2, zero, w2]
    a = [-c1 * w**2, -s1 * w**2, zero, -c1 * w**2 - c2 * w2**2 - s2 * w2_dot, zero, w2_dot]
    return [np.stack(rows, -1) for rows in (q, v, a)]


def test_example_3_6_2_at_start():
    """Position, velocity and acceleration at t = 0 with their equations' matrices and right sides.

    Again the book computes with rounded numbers: its −0.2063, sum of −0.1371 and −0.0692, stands for −0.20624. The fourth
    right side of its acceleration equation has the wrong sign: its own φ̈₂ = −0.2490 needs +0.2468.
    """
    start = mbs.assemble(double_pendulum(), ESTIMATE, throw=True)
    q, v, a = pendulum_closed_form(np.zeros(()))
    np.testing.assert_allclose(start.q, q, atol=1e-12)
    np.testing.assert_allclose(start.q, [0.5, -0.8660, UPPER_ANGLE, 1.4910, -1.0, 6.1488], atol=PRINTED)

    _, matrix, nu, _ = printed_form(start.q)
    printed_nu = [0, 0, 0, 0, 0, 0.5236]
    printed_velocity = [0.4534, 0.2618, 0.5236, 0.4180, 0, -0.2642]
    np.testing.assert_allclose(matrix, PRINTED_AT_START, atol=PRINTED)
    np.testing.assert_allclose(nu, printed_nu, atol=PRINTED)
    np.testing.assert_allclose(np.linalg.solve(PRINTED_AT_START, printed_nu), printed_velocity, atol=PRINTED)
    velocity = np.linalg.solve(matrix, nu)
    np.testing.assert_allclose(velocity, printed_velocity, atol=LAST_PLACE)
    np.testing.assert_allclose(velocity, v, atol=1e-12)

    gamma = printed_form(start.q, velocity)[3]
    printed_gamma = [-0.1371, 0.2374, -0.2063, 0.2468, 0, 0]
    printed_acceleration = [-0.1371, 0.2374, 0, -0.2397, 0, -0.2490]
    others = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(gamma[others], np.take(printed_gamma, others), atol=PRINTED)
    np.testing.assert_allclose(gamma[2], -0.2063, atol=LAST_PLACE)
    np.testing.assert_allclose(np.linalg.solve(PRINTED_AT_START, printed_gamma), printed_acceleration, atol=PRINTED)
    acceleration = np.linalg.solve(matrix, gamma)
    np.testing.assert_allclose(acceleration, printed_acceleration, atol=LAST_PLACE)
    np.testing.assert_allclose(acceleration, a, atol=1e-12)


def test_example_3_6_2_motion():
    """The whole interval 0 ≤ t ≤ 3/2, from the book's estimate."""
    mech = double_pendulum()
    times = 1.5 * TENTHS
    motion = mbs.kinematics(mech, times, ESTIMATE, throw=True)
    for got, wanted in zip((motion.q, motion.v, motion.a), pendulum_closed_form(times), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-11)
    assert mbs.diagnose(mech, motion.q[0]).dof == 1


# Problem 3.6.2: a pendulum hung from a slider.


def test_problem_3_6_2():
    """Slider and pendulum, driven by x₁ = 0.2t and φ₁ − φ₂ + π/6 + t/10 = 0, for 0 ≤ t ≤ 5.

    The figure is missing. Read here: the slider keeps its angle 0 on the x axis (0.001 in the estimate), the pendulum of
    length 2 hangs from its origin, and the pendulum's frame is at the free end with y′ towards the pin, so that φ₂ = 0
    hangs straight down. At φ₂ = π/6 its end is at y₂ = −2 cos π/6 = −1.73, as estimated (x₂ = 0.45 is a poor estimate of
    2 sin π/6 = 1). Then x₂ = 0.2t + 2 sin φ₂, y₂ = −2 cos φ₂, φ₂ = π/6 + t/10.
    """
    mech = mbs.Mechanism(
        bodies={"slider": planar.Body(), "pendulum": planar.Body()},
        constraints={
            "on the axis": planar.AbsoluteY("slider", (0, 0), 0.0),
            "without turning": planar.AbsoluteAngle("slider", 0.0),
            "pin": planar.Revolute("slider", "pendulum", (0, 0), (0, 2)),
        },
        drivers={
            "push": planar.AbsoluteXDriver("slider", (0, 0), mbs.motion.Ramp(0.2)),
            "swing": planar.RevoluteDriver("slider", "pendulum", mbs.motion.Ramp(0.1), angle_i=np.pi / 6),
        },
    )
    # (3.5.11) gives the driver with the opposite sign of the problem's.
    q = jnp.array([0.3, 0.1, 0.2, 0.4, -1.0, 0.9])
    Phi = equations(mech, q, q, jnp.asarray(2.0))[0]
    np.testing.assert_allclose(Phi[-2:], [0.3 - 0.2 * 2, -(0.2 - 0.9 + np.pi / 6 + 0.1 * 2)], atol=1e-15)

    times = 5 * TENTHS
    estimate = {"slider": (0, 0, 0.001), "pendulum": (0.45, -1.73, np.pi / 6)}
    motion = mbs.kinematics(mech, times, estimate, throw=True)
    phi, zero = np.pi / 6 + times / 10, 0 * times
    s, c = np.sin(phi), np.cos(phi)
    q = [0.2 * times, zero, zero, 0.2 * times + 2 * s, -2 * c, phi]
    v = [zero + 0.2, zero, zero, 0.2 + 0.2 * c, 0.2 * s, zero + 0.1]
    a = [zero, zero, zero, -0.02 * s, 0.02 * c, zero]
    for got, wanted in zip((motion.q, motion.v, motion.a), (q, v, a), strict=True):
        np.testing.assert_allclose(got, np.stack(wanted, 1), atol=1e-12)
