"""Forces between bodies that touch: the law of Hunt and Crossley, and this law smoothed for a step length."""

from __future__ import annotations

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.numerics.arrays import is_concrete

# Number of steps over which a contact sets in: the order of the B-spline that smooths its law, an even number. With
# 6, derivatives have an error of 4e-3 for a contact of thirty steps with a viscous damper, with 4 of 3e-2. Higher
# orders change the motion more.
BLENDED_STEPS = 6


class AbstractContactForce(AbstractForce):
    """A force that acts only while bodies touch.

    In a simulation with steps of a fixed length h, the law of the force is smoothed over the distance that is travelled in
    a few steps. So the computed motion is a smooth function of all numbers, and its derivatives converge. Without this,
    derivatives would depend on where within a step the contact begins.

    Attributes:
        step: h, a `computed_field`; None if the law is not smoothed.
        touching: True if the force includes a contact; if not, it is an ordinary force.

    Examples:
        >>> issubclass(mbs.JointStop, mbs.forces.AbstractContactForce)
        True
    """

    step: eqx.AbstractVar[Array | None]

    @property
    @abc.abstractmethod
    def touching(self) -> bool:
        """True if the force includes a contact; False for one without, such as a motor without backlash."""


def positive_part(x: Float[Array, ""], width: Float[Array, ""]) -> Float[Array, ""]:
    """Return max(x, 0) averaged over x by the B-spline of order `BLENDED_STEPS` whose knots are `width` ≥ 0 apart.

    It equals max(x, 0) where |x| is more than half of the spline's support. If x grows by `width` in each step, the sum of
    this function, or of one of its derivatives, over the steps does not depend on where within a step x is zero, because
    shifted B-splines add up to one.

    Examples:
        >>> from jaxmbs.forces.joint.contact import positive_part
        >>> print(positive_part(jnp.array(-0.3), jnp.array(0.1)), positive_part(jnp.array(0.3), jnp.array(0.1)))
        0.0 0.3
    """
    reach, size = BLENDED_STEPS // 2, jnp.abs(x)
    near = size < reach * width
    u = jnp.where(near, size, 0) / jnp.where(near, width, 1)
    pieces = [
        (-1) ** k * math.comb(2 * reach, k) * jnp.maximum(reach - k - u, 0) ** (2 * reach + 1) for k in range(reach)
    ]
    excess = width * sum(pieces[1:], pieces[0]) / math.factorial(2 * reach + 1)
    # The kinks of both terms at x = 0 cancel, whatever derivative of |x| is used there.
    return (x + size) / 2 + jnp.where(near, excess, 0)


def contact_force(depth, rate, stiffness, exponent, damping, viscous=None, step=None):
    """Return the normal force k δⁿ (1 + d δ̇) + c δ̇ of a contact, or zero if this or the depth δ is negative.

    δ is `depth` and δ̇ its `rate`; k is `stiffness`, n `exponent`, d `damping`, c `viscous`. With a `step` h, δ is
    replaced by its positive part, averaged with a spline whose knots are |δ̇| h apart, and the rate in c δ̇ by the rate of
    this average. If c δ̇ ends a contact before δ does, the force goes to zero smoothly as well.
    """
    slope: Any = 1
    if step is not None:
        blend = lambda depth: positive_part(depth, jnp.abs(rate * step))
        depth, slope = jax.jvp(blend, (depth,), (jnp.ones_like(depth),))
    inside = depth > 0
    depth = jnp.where(inside, depth, 1)
    spring = stiffness * depth**exponent
    if viscous is None:
        return jnp.where(inside, spring * jnp.maximum(1 + damping * rate, 0), 0)
    if step is None:
        return jnp.where(inside, jnp.maximum(spring * (1 + damping * rate) + viscous * rate, 0), 0)
    # The change of the force in one step while the bodies separate, limited by the force of the damper: a wider smoothing
    # would add energy to a contact with a weak damper.
    by_spring = exponent * spring / depth * jnp.abs(step)
    change = slope * jnp.maximum(-rate, 0) * by_spring * viscous / (by_spring + viscous)
    return jnp.where(inside, positive_part(spring * (1 + damping * rate) + viscous * slope * rate, change), 0)


def contact_energy(depth, stiffness, exponent):
    """Return k δⁿ⁺¹ / (n + 1) for the depth δ, stiffness k and exponent n; zero if δ is negative."""
    inside = depth > 0
    return jnp.where(inside, stiffness * jnp.where(inside, depth, 1) ** (exponent + 1) / (exponent + 1), 0)


def check_contact(element) -> None:
    """Raise `ValueError` for a stiffness that is not positive, a negative damping, an exponent below one."""
    check_positive(element, "stiffness")
    check_not_negative(element, "damping")
    low = is_concrete(element.exponent) and element.exponent < 1
    require(not low, f"exponent must be at least 1, got {element.exponent}")
