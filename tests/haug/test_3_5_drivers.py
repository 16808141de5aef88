"""Haug 3.5, driving constraints: Examples 3.5.1 to 3.5.5 against their closed-form solutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

TENTHS = np.arange(11) / 10


@eqx.filter_jit
def equations(mech, q, t):
    """Φ, Φ_q, ν; compiled once per mechanism."""
    return mbs.constraints(mech, q, t), mbs.constraint_jacobian(mech, q, t), mbs.velocity_rhs(mech, q, t)


def with_rates(position, times):
    """A closed form t → (k,) and its first and second derivatives at all times, each (T, k)."""
    velocity = lambda t: jax.jvp(position, (t,), (jnp.ones_like(t),))[1]
    acceleration = lambda t: jax.jvp(velocity, (t,), (jnp.ones_like(t),))[1]
    return jax.jit(jax.vmap(lambda t: (position(t), velocity(t), acceleration(t))))(jnp.asarray(times))


def pick(motion, coordinates):
    """q, v, a of some coordinates, each (T, k)."""
    columns = [motion.layout.index(name) for name in coordinates]
    return motion.q[:, columns], motion.v[:, columns], motion.a[:, columns]


def check_motion(motion, coordinates, closed_form):
    for got, wanted in zip(pick(motion, coordinates), with_rates(closed_form, motion.t), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-10)


# Example 3.5.1: slider-crank with a driven slider.

LENGTH, OMEGA = 2.0, 6.0


def rocker_mechanism():
    """Crank of unit length at O, coupler of length ℓ along its y′ axis, x₂ = √(ℓ² − 1) + ½ sin ωt: Haug (3.5.4)."""
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "coupler": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "slide": planar.AbsoluteY("coupler", (0, 0), 0.0),
            "P": planar.Revolute("crank", "coupler", (1, 0), (0, LENGTH)),
        },
        drivers={
            "cylinder": planar.AbsoluteXDriver(
                "coupler", (0, 0), mbs.motion.Harmonic(0.5, OMEGA, offset=np.sqrt(LENGTH**2 - 1))
            )
        },
    )


def rocker_closed_form(t):
    """x₂, φ₁, φ₂: triangle with the sides 1, ℓ, x₂; P above the x axis."""
    x2 = jnp.sqrt(LENGTH**2 - 1.0) + jnp.sin(OMEGA * t) / 2
    phi1 = jnp.arccos((x2**2 + 1 - LENGTH**2) / (2 * x2))
    phi2 = jnp.arctan2(x2 - jnp.cos(phi1), jnp.sin(phi1))
    return jnp.stack([x2, phi1, phi2])


def test_example_3_5_1():
    """The motion, φ̇₁ = −ω sin φ₂ cos ωt / (2 cos(φ₁ − φ₂)), and a determinant that vanishes with cos(φ₁ − φ₂)."""
    mech = rocker_mechanism()
    guess = {"crank": (0, 0, 1.5), "coupler": (1.7, 0, 1.0)}
    motion = mbs.kinematics(mech, TENTHS, guess, throw=True)
    check_motion(motion, ("coupler.x", "crank.phi", "coupler.phi"), rocker_closed_form)

    phi1, phi2 = np.asarray(motion.position("crank.phi")), np.asarray(motion.position("coupler.phi"))
    printed = -OMEGA * np.sin(phi2) * np.cos(OMEGA * TENTHS) / (2 * np.cos(phi1 - phi2))
    np.testing.assert_allclose(motion.velocity("crank.phi"), printed, atol=1e-11)

    for q, a, b in zip(motion.q, phi1, phi2, strict=True):
        det = np.linalg.det(equations(mech, q, jnp.zeros(()))[1])
        assert abs(det) == pytest.approx(LENGTH * abs(np.cos(a - b)), abs=1e-12)
    stretched = jnp.array([0, 0, 0, 1 + LENGTH, 0, np.pi / 2])
    Phi, matrix, _ = equations(mech, stretched, jnp.zeros(()))
    np.testing.assert_allclose(Phi[:-1], 0, atol=1e-15)
    assert abs(np.linalg.det(matrix)) < 1e-15


# Example 3.5.2: four-bar with a driven crank.

CRANK_SPEED, CRANK_START = 2.0, 0.6


def four_bar():
    """Example 3.3.2 (1): crank 4, coupler 6, rocker 6, ground 4, the frames at the centres of the bars."""
    at = lambda body, point, place: (
        planar.AbsoluteX(body, point, place[0]),
        planar.AbsoluteY(body, point, place[1]),
    )
    between = lambda *ij: (planar.RelativeX(*ij), planar.RelativeY(*ij))
    pairs = {
        "O": at("crank", (-2, 0), (0, 0)),
        "C": at("rocker", (-3, 0), (4, 0)),
        "A": between("crank", "coupler", (2, 0), (-3, 0)),
        "B": between("coupler", "rocker", (3, 0), (3, 0)),
    }
    return mbs.Mechanism(
        bodies=dict.fromkeys(("crank", "coupler", "rocker"), planar.Body()),
        constraints={f"{name} {axis}": c for name, pair in pairs.items() for axis, c in zip("xy", pair, strict=True)},
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(CRANK_SPEED, CRANK_START))},
    )


def four_bar_closed_form(t):
    """φ₁, x₂, y₂, φ₂, φ₃. The linkage is a kite: B lies on its axis, at the angle φ₁/2 from O."""
    phi1 = CRANK_START + CRANK_SPEED * t
    a = 4 * jnp.stack([jnp.cos(phi1), jnp.sin(phi1)])
    reach = 4 * jnp.cos(phi1 / 2) + jnp.sqrt(36 - 16 * jnp.sin(phi1 / 2) ** 2)
    b = reach * jnp.stack([jnp.cos(phi1 / 2), jnp.sin(phi1 / 2)])
    phi2 = jnp.arctan2(b[1] - a[1], b[0] - a[0])
    phi3 = jnp.arctan2(b[1], b[0] - 4)
    return jnp.stack([phi1, *(a + b) / 2, phi2, phi3])


def test_example_3_5_2():
    """The five equations hold, the motion is the closed form's, and the velocities are the printed ones.

    The print lacks a 3 in the denominator of φ̇₃, which φ̇₂ has.
    """
    guess = {"crank": (1.7, 1.1, 0.6), "coupler": (6.0, 2.7, 0.2), "rocker": (6.8, 1.6, 0.5)}
    motion = mbs.kinematics(four_bar(), TENTHS, guess, throw=True)
    coordinates = ("crank.phi", "coupler.x", "coupler.y", "coupler.phi", "rocker.phi")
    check_motion(motion, coordinates, four_bar_closed_form)

    q, v, _ = pick(motion, coordinates)
    phi1, x2, y2, phi2, phi3 = np.asarray(q).T
    loop = [
        x2 - 4 * np.cos(phi1) - 3 * np.cos(phi2),
        y2 - 4 * np.sin(phi1) - 3 * np.sin(phi2),
        4 - 4 * np.cos(phi1) - 6 * np.cos(phi2) + 6 * np.cos(phi3),
        4 * np.sin(phi1) + 6 * np.sin(phi2) - 6 * np.sin(phi3),
    ]
    np.testing.assert_allclose(loop, 0, atol=1e-11)
    w = CRANK_SPEED
    ratio = np.sin(phi3 - phi1) / np.sin(phi2 - phi3)
    printed = [
        w + 0 * phi1,
        -4 * w * np.sin(phi1) - 2 * w * np.sin(phi2) * ratio,
        4 * w * np.cos(phi1) + 2 * w * np.cos(phi2) * ratio,
        2 * w / 3 * ratio,
        -2 * w * np.sin(phi1 - phi2) / (3 * np.sin(phi2 - phi3)),
    ]
    np.testing.assert_allclose(v.T, printed, atol=1e-10)


# Examples 3.5.3 and 3.5.4: an excavator's boom and arm.

ROOT3 = np.sqrt(3)
LIFT = mbs.motion.Ramp(1 / 5, 1.8)
CURL = mbs.motion.Ramp(1 / 10, 1.9)
DIGGING = 2 * TENTHS


def excavator(curl):
    """The boom's frame is at its pivot O, the arm's at its pivot on the boom, 2√3 from O."""
    return mbs.Mechanism(
        bodies={"boom": planar.Body(), "arm": planar.Body()},
        constraints={
            "O": planar.Revolute("boom", "ground", (0, 0), (0, 0)),
            "pivot": planar.Revolute("arm", "boom", (0, 0), (2 * ROOT3, 0)),
        },
        drivers={"lift": planar.DistanceDriver("ground", "boom", (0.5, -0.5), (ROOT3, 0), LIFT), "curl": curl},
    )


# The second cylinder's eye on the boom is 2 from O at 30°, that on the arm half a unit from the pivot.
CYLINDER = planar.DistanceDriver("boom", "arm", (ROOT3, 1), (0, 0.5), CURL)


def boom_angle(t):
    """From (3.5.9): √6 sin(φ₁ − π/4) = C₄₁² − 7/2."""
    return jnp.pi / 4 + jnp.arcsin(((1.8 + t / 5) ** 2 - 3.5) / jnp.sqrt(6.0))


def with_arm(phi1, phi2):
    return jnp.stack([phi1, 2 * ROOT3 * jnp.cos(phi1), 2 * ROOT3 * jnp.sin(phi1), phi2])


def printed_boom_speed(t, phi1):
    s, c = np.sin(phi1), np.cos(phi1)
    return (t + 9) / (-25 * ROOT3 * ((ROOT3 * c - 0.5) * s - (ROOT3 * s + 0.5) * c))


def test_example_3_5_3_equations():
    """Φ of (3.5.9), Φ_q and ν of (3.5.10)."""
    t, (phi1, x2, y2, phi2) = 0.7, (0.8, 2.1, 2.9, 0.3)
    Phi, matrix, nu = equations(excavator(CYLINDER), jnp.array([0, 0, phi1, x2, y2, phi2]), jnp.asarray(t))
    s, c = np.sin(phi1), np.cos(phi1)
    s30, c30 = np.sin(phi1 + np.pi / 6), np.cos(phi1 + np.pi / 6)
    u, v = 2 * c30 - (x2 - 0.5 * np.sin(phi2)), 2 * s30 - (y2 + 0.5 * np.cos(phi2))
    expected = [
        x2 - 2 * ROOT3 * c,
        y2 - 2 * ROOT3 * s,
        (ROOT3 * c - 0.5) ** 2 + (ROOT3 * s + 0.5) ** 2 - (t / 5 + 1.8) ** 2,
        u**2 + v**2 - (t / 10 + 1.9) ** 2,
    ]
    np.testing.assert_allclose(Phi[2:], expected, atol=1e-14)
    boom_row = -2 * ROOT3 * (ROOT3 * c - 0.5) * s + 2 * ROOT3 * (ROOT3 * s + 0.5) * c
    expected = [
        [2 * ROOT3 * s, 1, 0, 0],
        [-2 * ROOT3 * c, 0, 1, 0],
        [boom_row, 0, 0, 0],
        [-4 * u * s30 + 4 * v * c30, -2 * u, -2 * v, u * np.cos(phi2) + v * np.sin(phi2)],
    ]
    np.testing.assert_allclose(matrix[2:, 2:], expected, atol=1e-14)
    np.testing.assert_allclose(nu, [0, 0, 0, 0, 2 * (t / 5 + 1.8) / 5, (t / 10 + 1.9) / 5], atol=1e-15)


def test_example_3_5_3():
    """Both cylinders: the law of cosines for φ₂, and the printed φ̇₁ and φ̇₂.

    The print's brackets in φ̇₂ are misplaced: it is (C − (A + 4√3 u sin φ₁ − 4√3 v cos φ₁) φ̇₁) / B.
    """
    guess = {"boom": (0, 0, 0.7), "arm": (2.7, 2.2, 0.5)}
    motion = mbs.kinematics(excavator(CYLINDER), DIGGING, guess, throw=True)

    def closed_form(t):
        # The eye on the boom is 2 from the arm's pivot at φ₁ + 5π/6, that on the arm ½ from it at φ₂ + π/2.
        phi1 = boom_angle(t)
        between = jnp.arccos((4.25 - (1.9 + t / 10) ** 2) / 2)
        return with_arm(phi1, phi1 + jnp.pi / 3 - between)

    coordinates = ("boom.phi", "arm.x", "arm.y", "arm.phi")
    check_motion(motion, coordinates, closed_form)
    q, v, _ = pick(motion, coordinates)
    phi1, x2, y2, phi2 = np.asarray(q).T
    w1 = printed_boom_speed(DIGGING, phi1)
    np.testing.assert_allclose(v[:, 0], w1, atol=1e-11)
    s30, c30 = np.sin(phi1 + np.pi / 6), np.cos(phi1 + np.pi / 6)
    u, v_ = 2 * c30 - x2 + 0.5 * np.sin(phi2), 2 * s30 - y2 - 0.5 * np.cos(phi2)
    a = -4 * u * s30 + 4 * v_ * c30
    b = u * np.cos(phi2) + v_ * np.sin(phi2)
    c = (DIGGING + 19) / 50
    w2 = (c - (a + 4 * ROOT3 * (u * np.sin(phi1) - v_ * np.cos(phi1))) * w1) / b
    np.testing.assert_allclose(v[:, 3], w2, atol=1e-11)


def test_example_3_5_4():
    """A motor at the arm's pivot, φ₂ − φ₁ = t/10, in place of the second cylinder.

    The print's right side t/10 of its velocity equation is 1/10, as its solution for φ̇₂ has it.
    """
    mech = excavator(planar.RevoluteDriver("boom", "arm", mbs.motion.Ramp(1 / 10)))
    q = jnp.array([0, 0, 0.8, 2.1, 2.9, 0.3])
    Phi, matrix, nu = equations(mech, q, jnp.asarray(0.7))
    assert Phi[-1] == pytest.approx(0.3 - 0.8 - 0.07, abs=1e-15)
    np.testing.assert_allclose(matrix[-1], [0, 0, -1, 0, 0, 1], atol=1e-15)
    assert nu[-1] == pytest.approx(0.1, abs=1e-15)

    guess = {"boom": (0, 0, 0.7), "arm": (2.7, 2.2, 0.7)}
    motion = mbs.kinematics(mech, DIGGING, guess, throw=True)
    coordinates = ("boom.phi", "arm.x", "arm.y", "arm.phi")
    check_motion(motion, coordinates, lambda t: with_arm(boom_angle(t), boom_angle(t) + t / 10))
    speed = printed_boom_speed(DIGGING, np.asarray(motion.position("boom.phi")))
    np.testing.assert_allclose(motion.velocity("arm.phi"), speed + 1 / 10, atol=1e-11)


# Example 3.5.5: the boom of a crane.

AXIS_1, AXIS_2 = 2.0, 0.5


def wrecker():
    """The boom turns by 0.025 t while its telescope runs out by 0.1 t; the lengths of v₁ and v₂ do not matter."""
    return mbs.Mechanism(
        bodies={"boom": planar.Body(), "telescope": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "boom", (0, 0), (0, 0)),
            "guide": planar.Translational("boom", "telescope", (0, 0), (0, 0), (AXIS_1, 0), (AXIS_2, 0)),
        },
        drivers={
            "turn": planar.AbsoluteAngleDriver("boom", mbs.motion.Ramp(0.025)),
            "run out": planar.TranslationalDriver(
                "boom", "telescope", (0, 0), (0, 0), axis_i=(AXIS_1, 0), motion=mbs.motion.Ramp(0.1)
            ),
        },
    )


def test_example_3_5_5():
    """(3.5.16) and (3.5.17), ν, and the printed velocities; the motion starts with both origins in one point.

    ẋ₂ and ẏ₂ are −y₂ φ̇₁ + 0.1 cos φ₁ and x₂ φ̇₁ + 0.1 sin φ₁; the print's first members lack the second terms.
    """
    mech = wrecker()
    t, (phi1, x2, y2, phi2) = 3.0, (0.4, 1.1, 0.7, 0.6)
    Phi, _, nu = equations(mech, jnp.array([0, 0, phi1, x2, y2, phi2]), jnp.asarray(t))
    s, c = np.sin(phi1), np.cos(phi1)
    expected = [
        0,
        0,
        AXIS_1 * (-s * x2 + c * y2),
        AXIS_1 * AXIS_2 * (-s * np.cos(phi2) + c * np.sin(phi2)),
        phi1 - 0.025 * t,
        AXIS_1 * (c * x2 + s * y2 - 0.1 * t),
    ]
    np.testing.assert_allclose(Phi, expected, atol=1e-15)
    np.testing.assert_allclose(nu, [0, 0, 0, 0, 0.025, AXIS_1 * 0.1], atol=1e-15)

    motion = mbs.kinematics(mech, 40 * TENTHS, {"telescope": (0.1, 0.1, 0.1)}, throw=True)
    coordinates = ("boom.phi", "telescope.x", "telescope.y", "telescope.phi")

    def closed_form(t):
        phi = 0.025 * t
        return jnp.stack([phi, 0.1 * t * jnp.cos(phi), 0.1 * t * jnp.sin(phi), phi])

    check_motion(motion, coordinates, closed_form)
    q, v, _ = pick(motion, coordinates)
    phi1, x2, y2, _ = np.asarray(q).T
    printed = [0.025, -0.025 * y2 + 0.1 * np.cos(phi1), 0.025 * x2 + 0.1 * np.sin(phi1), 0.025]
    np.testing.assert_allclose(v.T, np.broadcast_arrays(*printed), atol=1e-12)
