"""Haug 3.1 and 3.2: pendulums, a slider-crank, a slider whose constraints do not imply its geometry."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

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


def driven_pendulum(pivot, arm, motion):
    """A point of the pendulum's body is held at the pivot."""
    return mbs.Mechanism(
        bodies={"pendulum": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("pendulum", arm, pivot[0]),
            "pivot y": planar.AbsoluteY("pendulum", arm, pivot[1]),
        },
        drivers={"angle": planar.AbsoluteAngleDriver("pendulum", motion)},
    )
