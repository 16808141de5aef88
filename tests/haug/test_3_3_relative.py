"""Haug 3.3, constraints between pairs of bodies: Examples 3.3.1 to 3.3.5, different models of the same two mechanisms."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar

TENTHS = np.arange(11) / 10


@eqx.filter_jit
def constraints(mech, q):
    return mbs.constraints(mech, q)


def with_rates(position):
    """A closed form t → (k,) and its first and second derivatives at all times, each (T, k)."""
    velocity = lambda t: jax.jvp(position, (t,), (jnp.ones_like(t),))[1]
    acceleration = lambda t: jax.jvp(velocity, (t,), (jnp.ones_like(t),))[1]
    return jax.jit(jax.vmap(lambda t: (position(t), velocity(t), acceleration(t))))(jnp.asarray(TENTHS))


@eqx.filter_jit
def points_in_motion(motion, points):
    """Position, velocity and acceleration of points (body, s), those of all points side by side."""
    kinds = (motion.point, motion.point_velocity, motion.point_acceleration)
    return [jnp.concatenate([of(body, s) for body, s in points], axis=1) for of in kinds]


def check_points(motion, points, expected):
    for got, wanted in zip(points_in_motion(motion, points), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-10)


def pin(name, body, point, place):
    """A pin of a body that is held at a place of the ground by its absolute x and y."""
    return {
        f"{name} x": planar.AbsoluteX(body, point, place[0]),
        f"{name} y": planar.AbsoluteY(body, point, place[1]),
    }


def common_pin(name, i, j, point_i, point_j):
    """A pin that two bodies share, by their relative x and y."""
    return {
        f"{name} x": planar.RelativeX(i, j, point_i, point_j),
        f"{name} y": planar.RelativeY(i, j, point_i, point_j),
    }


def fixed_body(name):
    """The frame of a body coincides with the ground frame, as in Example 3.3.3."""
    return {**pin(name, name, (0, 0), (0, 0)), f"{name} phi": planar.AbsoluteAngle(name, 0.0)}


def check_freedom(mech, q, coordinates, constraint_equations):
    """DOF = nc − nh = 1 as the book counts it, and as the rank of the Jacobian confirms."""
    layout = mech.layout
    assert (layout.n, layout.kinematic_rows) == (coordinates, constraint_equations)
    report = mbs.diagnose(mech, q)
    assert (report.dof, report.free, report.redundant) == (1, 0, ())


# The four-bar mechanism of Fig. 3.3.2: crank 4, coupler 6, rocker 6, ground 4.

# Centres of the bars are their origins: Example 3.3.3. Q₁ and Q₂ meet in A, P₂ and P₃ in B.
P1, Q1, Q2, P2, P3, Q3, Q4 = (-2, 0), (2, 0), (-3, 0), (3, 0), (3, 0), (-3, 0), (4, 0)
START = 0.6


def four_bar_points(t):
    """A and B for the crank angle φ₁ = START + 2t: the linkage is a kite, B lies on its axis at the angle φ₁/2."""
    phi = START + 2 * t
    axis = 4 * jnp.cos(phi / 2) + jnp.sqrt(36 - 16 * jnp.sin(phi / 2) ** 2)
    return jnp.stack([4 * jnp.cos(phi), 4 * jnp.sin(phi), axis * jnp.cos(phi / 2), axis * jnp.sin(phi / 2)])


CRANK, COUPLER, ROCKER = (1.7, 1.1, START), (6.0, 2.7, 0.2), (6.8, 1.6, 0.5)
ANGLE = {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2.0, START))}
# The coupler alone has no crank to turn; its point A is moved as the crank's would be, along x only.
ALONG_X = {"slot": planar.AbsoluteXDriver("coupler", Q2, mbs.motion.Harmonic(4.0, 2.0, START + np.pi / 2))}

FOUR_BARS = {
    "three bodies": (
        {"crank": CRANK, "coupler": COUPLER, "rocker": ROCKER},
        pin("O", "crank", P1, (0, 0))
        | pin("C", "rocker", Q3, Q4)
        | common_pin("A", "crank", "coupler", Q1, Q2)
        | common_pin("B", "coupler", "rocker", P2, P3),
        ANGLE,
        [("crank", Q1), ("rocker", P3)],
    ),
    "crank and rocker": (
        {"crank": CRANK, "rocker": ROCKER},
        pin("O", "crank", P1, (0, 0))
        | pin("C", "rocker", Q3, Q4)
        | {"coupler": planar.Distance("crank", "rocker", Q1, P3, 6.0)},
        ANGLE,
        [("crank", Q1), ("rocker", P3)],
    ),
    "crank and coupler": (
        {"crank": CRANK, "coupler": COUPLER},
        pin("O", "crank", P1, (0, 0))
        | {"rocker": planar.AbsoluteDistance("coupler", P2, Q4, 6.0)}
        | common_pin("A", "crank", "coupler", Q1, Q2),
        ANGLE,
        [("crank", Q1), ("coupler", P2)],
    ),
    "coupler": (
        {"coupler": COUPLER},
        {
            "crank": planar.AbsoluteDistance("coupler", Q2, (0, 0), 4.0),
            "rocker": planar.AbsoluteDistance("coupler", P2, Q4, 6.0),
        },
        ALONG_X,
        [("coupler", Q2), ("coupler", P2)],
    ),
    # Example 3.3.3: the ground is a body too, and the pins are revolute joints.
    "four bodies": (
        {"crank": CRANK, "coupler": COUPLER, "rocker": ROCKER, "frame": (0, 0, 0)},
        fixed_body("frame")
        | {
            "O": planar.Revolute("crank", "frame", P1, (0, 0)),
            "A": planar.Revolute("crank", "coupler", Q1, Q2),
            "B": planar.Revolute("coupler", "rocker", P2, P3),
            "C": planar.Revolute("rocker", "frame", Q3, Q4),
        },
        ANGLE,
        [("crank", Q1), ("rocker", P3)],
    ),
}


@cache
def four_bar_closed_form():
    return with_rates(four_bar_points)


@pytest.mark.parametrize(
    ("model", "nc", "nh"),
    [
        ("three bodies", 9, 8),
        ("crank and rocker", 6, 5),
        ("crank and coupler", 6, 5),
        ("coupler", 3, 2),
        ("four bodies", 12, 11),
    ],
)
def test_examples_3_3_2_and_3_3_3(model, nc, nh):
    """All models of the four-bar have one degree of freedom, and the same motion of the coupler's pins A and B."""
    guess, joints, drivers, points = FOUR_BARS[model]
    mech = mbs.Mechanism(bodies=dict.fromkeys(guess, planar.Body()), constraints=joints, drivers=drivers)
    motion = mbs.kinematics(mech, TENTHS, guess, throw=True)
    check_points(motion, points, four_bar_closed_form())
    check_freedom(mech, motion.q[0], nc, nh)


# The slider-crank: Examples 3.3.1, 3.3.4 and 3.3.5.

CRANK_LENGTH, ROD_LENGTH = 4.0, 6.0


def two_body_slider_crank(joint_at_p):
    """Example 3.1.2 with any lengths: the crank's frame is at O, the rod's at the sliding end with y′ along the rod."""
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "rod": planar.Body()},
        constraints=pin("O", "crank", (0, 0), (0, 0))
        | {"slide": planar.AbsoluteY("rod", (0, 0), 0.0)}
        | joint_at_p("crank", "rod", (CRANK_LENGTH, 0), (0, ROD_LENGTH)),
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2 * np.pi))},
    )


def slider_crank_with_slider():
    """Example 3.3.4: crank, rod, slider and the ground as bodies, three revolute joints and a translational one."""
    return mbs.Mechanism(
        bodies=dict.fromkeys(("crank", "rod", "slider", "frame"), planar.Body()),
        constraints=fixed_body("frame")
        | {
            "O": planar.Revolute("crank", "frame", (-2, 0), (0, 0)),
            "P": planar.Revolute("crank", "rod", (2, 0), (-3, 0)),
            "wrist": planar.Revolute("rod", "slider", (3, 0), (0, 0)),
            "guide": planar.Translational("slider", "frame", (0, 0), (2, 0), axis_i=(1, 0), axis_j=(1, 0)),
        },
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2 * np.pi))},
    )


def slider_crank_with_composite():
    """Example 3.3.5: slider, wrist pin and guide in one revolute-translational joint."""
    return mbs.Mechanism(
        bodies=dict.fromkeys(("crank", "rod", "frame"), planar.Body()),
        constraints=fixed_body("frame")
        | {
            "O": planar.Revolute("crank", "frame", (-2, 0), (0, 0)),
            "P": planar.Revolute("crank", "rod", (2, 0), (-3, 0)),
            "guide": planar.RevoluteTranslational("frame", "rod", (2, 0), (3, 0), axis_i=(1, 0), offset=0.0),
        },
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2 * np.pi))},
    )


@cache
def slider_crank_closed_form():
    """P and the sliding end for φ₁ = 2πt: x = r cos φ₁ + √(ℓ² − r² sin² φ₁)."""

    def points(t):
        s, c = CRANK_LENGTH * jnp.sin(2 * jnp.pi * t), CRANK_LENGTH * jnp.cos(2 * jnp.pi * t)
        return jnp.stack([c, s, c + jnp.sqrt(ROD_LENGTH**2 - s**2), 0 * t])

    return with_rates(points)


def test_example_3_3_1():
    """Absolute and relative x and y constraints: the equations of Example 3.1.2 (Problem 3.3.1), and its motion."""
    mech = two_body_slider_crank(lambda *ij: common_pin("P", *ij))
    q = jnp.array([0.1, -0.2, 0.7, 2.1, 0.3, 1.2])
    x1, y1, phi1, x2, y2, phi2 = np.asarray(q)
    # Example 3.1.2 writes r^P1 − r^P2, (3.3.1) and (3.3.3) the opposite.
    joint = [
        x1 - x2 + CRANK_LENGTH * np.cos(phi1) + ROD_LENGTH * np.sin(phi2),
        y1 - y2 + CRANK_LENGTH * np.sin(phi1) - ROD_LENGTH * np.cos(phi2),
    ]
    Phi = constraints(mech, q)
    np.testing.assert_allclose(Phi, [x1, y1, y2, -joint[0], -joint[1], phi1], atol=1e-14)
    revolute = two_body_slider_crank(lambda *ij: {"P": planar.Revolute(*ij)})
    np.testing.assert_allclose(constraints(revolute, q), [x1, y1, y2, *joint, phi1], atol=1e-14)

    motion = mbs.kinematics(mech, TENTHS, {"rod": (9.9, 0.1, np.pi / 2)}, throw=True)
    check_points(motion, [("crank", (CRANK_LENGTH, 0)), ("rod", (0, 0))], slider_crank_closed_form())
    check_freedom(mech, motion.q[0], 6, 5)


def test_example_3_3_4():
    """Four bodies with revolute and translational joints. At φ₁ = π the points P₃ and P₄ coincide, d = 0 in (3.3.13)."""
    mech = slider_crank_with_slider()
    guess = {"crank": (2, 0, 0), "rod": (7, 0.1, 0.1), "slider": (10, 0, 0.1)}
    motion = mbs.kinematics(mech, TENTHS, guess, throw=True)
    check_points(motion, [("crank", (2, 0)), ("slider", (0, 0))], slider_crank_closed_form())
    np.testing.assert_allclose(motion.position("slider.phi"), 0, atol=1e-12)
    assert motion.position("slider.x")[5] == pytest.approx(2, abs=1e-12)
    check_freedom(mech, motion.q[0], 12, 11)


def test_example_3_3_5():
    """Three bodies with a composite joint."""
    mech = slider_crank_with_composite()
    motion = mbs.kinematics(mech, TENTHS, {"crank": (2, 0, 0), "rod": (7, 0.1, 0.1)}, throw=True)
    check_points(motion, [("crank", (2, 0)), ("rod", (3, 0))], slider_crank_closed_form())
    check_freedom(mech, motion.q[0], 9, 8)
