"""Haug 3.1 and 3.2: pendulums, a slider-crank, a slider whose constraints do not imply its geometry."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.planar.element import AbsoluteConstraint

# Times 0, 0.1, …, 1.
TENTHS = np.arange(11) / 10


@eqx.filter_jit
def equations(mech, q, v, t):
    """Return Φ, Φ_q, ν and γ; compiled once per mechanism."""
    return (
        mbs.constraints(mech, q, t),
        mbs.constraint_jacobian(mech, q, t),
        mbs.velocity_rhs(mech, q, t),
        mbs.acceleration_rhs(mech, q, v, t),
    )


def pendulum(motion):
    """Return a driven pendulum with its frame a unit below the pivot: x₁ = sin φ₁, y₁ = −cos φ₁, Haug (3.1.5)."""
    return mbs.Mechanism(
        bodies={"pendulum": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("pendulum", (0, 1), 0.0),
            "pivot y": planar.AbsoluteY("pendulum", (0, 1), 0.0),
        },
        drivers={"angle": planar.AbsoluteAngleDriver("pendulum", motion)},
    )


# Length ℓ of the coupler; the crank has length 1.
LENGTH = 1.8


def slider_crank(omega):
    """Return a crank of length 1 and a coupler of length ℓ along its y′ axis, whose origin slides on the x axis."""
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
        """Return y − x, and the product of the position vector and the y′ axis."""
        return jnp.stack([j.r[1] - j.r[0], j.r @ j.direction(jnp.array([0.0, 1.0]))])


class Slide(AbsoluteConstraint):
    """A body slides along y = x with φ = π/4: Haug (3.1.16), Problem 3.2.3."""

    body: str = eqx.field(static=True)
    rows: ClassVar[int] = 2

    def residual(self, i, j, t):
        """Return y − x and φ − π/4."""
        return jnp.stack([j.r[1] - j.r[0], j.phi - jnp.pi / 4])


def inclined_slider(element):
    """Return a block on the line y = x, held by `element` and driven along x."""
    return mbs.Mechanism(
        bodies={"block": planar.Body()},
        constraints={"slide": element("block")},
        drivers={"push": planar.AbsoluteXDriver("block", (0, 0), mbs.motion.Ramp(0.5))},
    )


def driven_pendulum(pivot, arm, motion):
    """Return a pendulum with its point `arm` held at `pivot`, and a driven angle."""
    return mbs.Mechanism(
        bodies={"pendulum": planar.Body()},
        constraints={
            "pivot x": planar.AbsoluteX("pendulum", arm, pivot[0]),
            "pivot y": planar.AbsoluteY("pendulum", arm, pivot[1]),
        },
        drivers={"angle": planar.AbsoluteAngleDriver("pendulum", motion)},
    )
