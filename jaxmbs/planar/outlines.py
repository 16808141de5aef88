"""Outlines of cams, followers and slots in polar form, Haug 3.4.2."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.element import require
from jaxmbs.numerics.arrays import as_pytree, as_real, check_fields, check_function, is_concrete, row
from jaxmbs.numerics.curves import periodic_spline
from jaxmbs.numerics.plane import direction

# Number of angles at which an outline's radius and curvature are checked: every quarter of a degree of a closed
# outline.
CHECKED_ANGLES = 1440
# A curvature, or a sum of two, counts as not negative if it is above minus this value, in 1 / length, because of the
# rounding errors of straight parts.
CURVATURE_ROUNDING = 1e-6


class AbstractOutline(eqx.Module):
    """A curve ρ(α), with α the angle from the body's x axis about the outline's centre, closed unless it has a `part`.

    A subclass defines `radius`. It has a field `part`, two angles, if only the curve between them is meant to touch.

    Examples:
        >>> class Ellipse(planar.AbstractOutline):
        ...     a: float
        ...     b: float
        ...     def radius(self, alpha):
        ...         return self.a * self.b / jnp.hypot(self.b * jnp.cos(alpha), self.a * jnp.sin(alpha))
        >>> print(Ellipse(2.0, 1.0).curvature(jnp.array(0.0)).round(6))  # a / b²
        2.0
    """

    @property
    def span(self) -> tuple[Array, Array] | None:
        """First and last angle of the `part` that is meant to touch, in radians; None for the whole curve."""
        part = getattr(self, "part", None)
        # `check` reports a part of a wrong shape.
        return None if part is None or np.shape(part) != (2,) else (jnp.asarray(part)[0], jnp.asarray(part)[1])

    @abc.abstractmethod
    def radius(self, alpha: Float[Array, ""]) -> Float[Array, ""]:
        """Return ρ(α), the distance of the curve from the outline's centre."""

    def point(self, alpha: Float[Array, ""]) -> Float[Array, "2"]:
        """Return a′ = ρ u′, from the outline's centre, in the body frame; Haug (3.4.16)."""
        return self.radius(alpha) * direction(alpha)

    def tangent(self, alpha: Float[Array, ""]) -> Float[Array, "2"]:
        """Return g′ = da′/dα, the tangent of the curve a′ at α, in the body frame; Haug (3.4.17)."""
        return jax.jvp(self.point, (alpha,), (jnp.ones_like(alpha),))[1]

    def curvature(self, alpha: Float[Array, ""]) -> Float[Array, ""]:
        """Return κ = (ρ² + 2ρ′² − ρρ″) / (ρ² + ρ′²)^(3/2), positive where the curve is convex."""
        one = jnp.ones_like(alpha)
        slope = lambda x: jax.jvp(self.radius, (x,), (one,))[1]
        rho, rho_1 = jax.jvp(self.radius, (alpha,), (one,))
        rho_2 = jax.jvp(slope, (alpha,), (one,))[1]
        return (rho**2 + 2 * rho_1**2 - rho * rho_2) / (rho**2 + rho_1**2) ** 1.5

    def within(self, alpha: Float[Array, ""]) -> Bool[Array, ""] | None:
        """Return True if α, up to full turns, is in the part that is meant to touch; None for the whole curve."""
        if self.span is None:
            return None
        start, end = self.span
        return jnp.mod(alpha - start, 2 * jnp.pi) <= end - start

    def check(self) -> None:
        """Raise `ValueError` unless ρ is positive all round, or all along its part. Traced outlines are not checked."""
        check_fields(self)
        if self.span is not None and all(map(is_concrete, self.span)):
            start, end = map(float, self.span)
            require(start < end <= start + 2 * np.pi, f"part must be two angles that increase, got {start}, {end}")
        radius, angle, *_ = _extremes(self)
        domain = (
            "all round, for all angles from 0 to 2π; or give the part that touches"
            if self.span is None
            else "along its part"
        )
        require(radius > 0, f"the outline's radius must be positive {domain}, got {radius:.4g} at {angle:.3f} rad")


def smallest_curvature(outline: AbstractOutline) -> float:
    """Return the smallest curvature all round, or along the part that touches; infinite for a traced outline."""
    return _extremes(outline)[2]


def largest_curvature(outline: AbstractOutline) -> float:
    """Return the largest curvature all round, or along the part that touches; minus infinity for a traced outline."""
    return _extremes(outline)[3]


def _extremes(outline: AbstractOutline) -> tuple[float, float, float, float]:
    """Return the smallest radius, or one that is not finite, its angle, and the smallest and largest curvatures.

    For a traced outline they are (∞, NaN, ∞, −∞).
    """
    if all(is_concrete(leaf) for leaf in jax.tree.leaves(outline)):
        values = _extremes_of_known(outline)
        if is_concrete(values[0]):
            radius, angle, smallest, largest = map(float, values)
            return radius, angle, smallest, largest
    return np.inf, np.nan, np.inf, -np.inf


@eqx.filter_jit
def _extremes_of_known(outline: AbstractOutline):
    """Return `_extremes` of a known outline, at `CHECKED_ANGLES` angles, as arrays."""
    start, end = (0.0, 2 * np.pi) if outline.span is None else outline.span
    # Half a step away from round angles, at which piecewise outlines often change their formula.
    angles = start + jnp.asarray((np.arange(CHECKED_ANGLES) + 0.5) / CHECKED_ANGLES) * (end - start)
    radii, curvatures = jax.vmap(outline.radius)(angles), jax.vmap(outline.curvature)(angles)
    least = jnp.argmin(jnp.where(jnp.isfinite(radii), radii, -jnp.inf))
    return radii[least], angles[least], jnp.min(curvatures), jnp.max(curvatures)


def _part() -> Any:
    """Return a dataclass field for the first and the last angle of a part, None unless given."""
    return eqx.field(converter=as_real, metadata={"shape": (2,), "optional": True}, default=None)


class FunctionOutline(AbstractOutline):
    """An outline given by a function ρ(α), with α the angle from the body's x axis about the outline's centre.

    Args:
        rho: a function of α, written in jax.numpy and called with angles in [0, 2π); or a number, the radius of a
            circle.
        part: first and last angle, in radians, of the part that touches, if the rest is not meant to touch. ρ must be
            positive, and the outline of a cam convex, only there. `Reaction.outside` is True if the contact has left it.

    Examples:
        >>> egg = planar.FunctionOutline(lambda alpha: 1 + 0.25 * jnp.cos(alpha))
        >>> print(egg.radius(jnp.pi).round(6))
        0.75
        >>> line = planar.FunctionOutline(lambda alpha: 1 / jnp.sin(alpha), part=(0.5, 2.5))  # y = 1
    """

    rho: Callable | Array
    part: Array | None = _part()

    def __init__(self, rho, part=None):
        self.rho = as_pytree(rho) if callable(rho) else as_real(rho)
        self.part = part

    def radius(self, alpha):
        """Return ρ(α), a length; the user's function is called with α modulo 2π."""
        if callable(self.rho):
            return jnp.asarray(self.rho(jnp.mod(alpha, 2 * jnp.pi)), jnp.result_type(alpha))
        return self.rho + 0 * alpha

    def check(self):
        """Raise `ValueError` unless ρ is a number or a function of one, positive where it is meant to touch."""
        if callable(self.rho):
            check_function(self.rho, "rho", ())
        super().check()


class SplineOutline(AbstractOutline):
    """An outline through given radii: a periodic cubic spline ρ(α) with continuous ρ″.

    Args:
        radii: (n,), ρ at the angles 0, 2π/n, …; at least three.
        part: as for `FunctionOutline`.

    Examples:
        >>> outline = planar.SplineOutline((1.25, 1.0, 0.75, 1.0))
        >>> print(outline.radius(jnp.pi).round(6))
        0.75
    """

    radii: Array = row()
    part: Array | None = _part()

    def radius(self, alpha):
        """Return ρ(α), a length, by the periodic spline through the radii."""
        return periodic_spline(jnp.asarray(self.radii), 2 * np.pi, alpha)

    def check(self):
        """Raise `ValueError` unless there are at least three radii and ρ is positive where it is meant to touch."""
        require(np.ndim(self.radii) == 1 and np.shape(self.radii)[0] >= 3, "radii must be at least 3 numbers")
        super().check()
