"""Involute teeth: the gap between two flanks at any distance of the centres."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def flank_advance(total: Array, squared_distance: Float[Array, ""], pressure_angle: Array) -> Float[Array, ""]:
    """Return R (inv α_w − inv α), inv α = tan α − α: the gap between two involute flanks along the pitch circles.

    R is the sum of the pitch radii, α the pressure angle and α_w that at the distance d of the centres,
    d cos α_w = |R| cos α. At d = |R| the result is zero and its derivative by d is tan α, with the sign of R. If d is so
    small that there is no α_w, 0 is taken for it.

    Args:
        total: R, negative if one gear is internal.
        squared_distance: d².
        pressure_angle: α in radians, in the plane of rotation. Its sign chooses the flank: for d > |R| the result has the
            sign of α R.

    Examples:
        >>> from jaxmbs.numerics.involute import flank_advance
        >>> slope = jax.grad(lambda d: flank_advance(3.0, d**2, 0.3))(3.0)
        >>> print(slope.round(6), jnp.tan(0.3).round(6))
        0.309336 0.309336
    """
    base = jnp.abs(total) * jnp.cos(pressure_angle)
    square = squared_distance - base**2
    inside = square > 0
    tangent = jnp.sign(pressure_angle) * jnp.where(inside, jnp.sqrt(jnp.where(inside, square, 1)), 0)
    involute = tangent / base - jnp.arctan2(tangent, base)
    return total * (involute - jnp.tan(pressure_angle) + pressure_angle)
