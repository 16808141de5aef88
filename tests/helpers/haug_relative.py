"""Haug 3.3: models of a four-bar and of a slider-crank, and their motions in closed form."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

# Times 0, 0.1, …, 1.
TENTHS = np.arange(11) / 10


def with_rates(position):
    """Return a closed form t → (k,) as a function of times with its first and second derivatives, each (T, k)."""
    velocity = lambda t: jax.jvp(position, (t,), (jnp.ones_like(t),))[1]
    acceleration = lambda t: jax.jvp(velocity, (t,), (jnp.ones_like(t),))[1]
    return jax.jit(jax.vmap(lambda t: (position(t), velocity(t), acceleration(t))))(jnp.asarray(TENTHS))


@eqx.filter_jit
def points_in_motion(motion, points):
    """Return position, velocity and acceleration of points (body, s), those of all points side by side."""
    kinds = (motion.point, motion.point_velocity, motion.point_acceleration)
    return [jnp.concatenate([of(body, s) for body, s in points], axis=1) for of in kinds]


def pin(name, body, point, place):
    """Return the constraints of a pin of a body at a place of the ground, by its absolute x and y."""
    return {
        f"{name} x": planar.AbsoluteX(body, point, place[0]),
        f"{name} y": planar.AbsoluteY(body, point, place[1]),
    }


def common_pin(name, i, j, point_i, point_j):
    """Return the constraints of a pin that two bodies share, by their relative x and y."""
    return {
        f"{name} x": planar.RelativeX(i, j, point_i, point_j),
        f"{name} y": planar.RelativeY(i, j, point_i, point_j),
    }


def fixed_body(name):
    """Return constraints that keep the frame of a body on the ground frame, as in Example 3.3.3."""
    return {**pin(name, name, (0, 0), (0, 0)), f"{name} phi": planar.AbsoluteAngle(name, 0.0)}


# Point P₁ of the crank at its pivot on the ground. Centres of the bars are their origins: Example 3.3.3.
P1 = (-2, 0)
# Point Q₁ of the crank at the pin A, in the frame of the crank.
Q1 = (2, 0)
# Point Q₂ of the coupler at the pin A, in the frame of the coupler.
Q2 = (-3, 0)
# Point P₂ of the coupler at the pin B, in the frame of the coupler.
P2 = (3, 0)
# Point P₃ of the rocker at the pin B, in the frame of the rocker.
P3 = (3, 0)
# Point Q₃ of the rocker at its pivot on the ground.
Q3 = (-3, 0)
# Point Q₄ of the ground at the rocker's pivot.
Q4 = (4, 0)
# Angle of the crank at t = 0.
START = 0.6


def four_bar_points(t):
    """Return A and B at φ₁ = START + 2t: the linkage is a kite, B lies on its axis at the angle φ₁/2."""
    phi = START + 2 * t
    axis = 4 * jnp.cos(phi / 2) + jnp.sqrt(36 - 16 * jnp.sin(phi / 2) ** 2)
    return jnp.stack([4 * jnp.cos(phi), 4 * jnp.sin(phi), axis * jnp.cos(phi / 2), axis * jnp.sin(phi / 2)])


# Guess of the pose of the four-bar's crank.
CRANK = (1.7, 1.1, START)
# Guess of the pose of the four-bar's coupler.
COUPLER = (6.0, 2.7, 0.2)
# Guess of the pose of the four-bar's rocker.
ROCKER = (6.8, 1.6, 0.5)
# Driver of the four-bar's crank.
ANGLE = {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2.0, START))}


# Driver of the model of the coupler alone, which has no crank to turn: its point A is moved as by the crank, along x
# only.
ALONG_X = {"slot": planar.AbsoluteXDriver("coupler", Q2, mbs.motion.Harmonic(4.0, 2.0, START + np.pi / 2))}
# For each model of the four-bar: guess, constraints, drivers, and the points (body, s) of A and B.
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
    """Return positions, velocities and accelerations of A and B at `TENTHS`."""
    return with_rates(four_bar_points)


# Length r of the crank of the slider-cranks.
CRANK_LENGTH = 4.0
# Length ℓ of the rod of the slider-cranks.
ROD_LENGTH = 6.0


def two_body_slider_crank(joint_at_p):
    """Return Example 3.1.2 with any lengths: the crank's frame at O, the rod's at the sliding end, y′ along the rod."""
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "rod": planar.Body()},
        constraints=pin("O", "crank", (0, 0), (0, 0))
        | {"slide": planar.AbsoluteY("rod", (0, 0), 0.0)}
        | joint_at_p("crank", "rod", (CRANK_LENGTH, 0), (0, ROD_LENGTH)),
        drivers={"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(2 * np.pi))},
    )


def slider_crank_with_slider():
    """Return Example 3.3.4: crank, rod, slider and the ground as bodies, three revolute joints, a translational one."""
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
    """Return Example 3.3.5: slider, wrist pin and guide in one revolute-translational joint."""
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
    """Return P and the sliding end for φ₁ = 2πt, with rates: x = r cos φ₁ + √(ℓ² − r² sin² φ₁)."""

    def points(t):
        """Return P and the sliding end, (4,), at time t."""
        s, c = CRANK_LENGTH * jnp.sin(2 * jnp.pi * t), CRANK_LENGTH * jnp.cos(2 * jnp.pi * t)
        return jnp.stack([c, s, c + jnp.sqrt(ROD_LENGTH**2 - s**2), 0 * t])

    return with_rates(points)
