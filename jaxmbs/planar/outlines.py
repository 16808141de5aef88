"""Outlines of cams, followers and slots in polar form, Haug 3.4.2."""

from __future__ import annotations

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.numerics.arrays import as_pytree, as_real, check_fields, check_function, is_concrete, row
from jaxmbs.numerics.curves import periodic_spline
from jaxmbs.numerics.plane import direction

# Places on an outline at which its shape is checked: a quarter of a degree apart.
CHECKED_ANGLES = 1440


class AbstractOutline(eqx.Module):
    """A closed curve ρ(α), α the angle from the body's x axis about the outline's centre."""

    @abc.abstractmethod
    def radius(self, alpha: Float[Array, ""]) -> Float[Array, ""]:
        """ρ(α)."""

    def point(self, alpha: Float[Array, ""]) -> Float[Array, "2"]:
        """a′ = ρ u′, from the outline's centre, in the body frame; Haug (3.4.16)."""
        return self.radius(alpha) * direction(alpha)

    def tangent(self, alpha: Float[Array, ""]) -> Float[Array, "2"]:
        """g′ = da′/dα; Haug (3.4.17)."""
        return jax.jvp(self.point, (alpha,), (jnp.ones_like(alpha),))[1]

    def curvature(self, alpha: Float[Array, ""]) -> Float[Array, ""]:
        """κ = (ρ² + 2ρ′² − ρρ″) / (ρ² + ρ′²)^(3/2), positive where the curve is convex."""
        one = jnp.ones_like(alpha)
        slope = lambda x: jax.jvp(self.radius, (x,), (one,))[1]
        rho, rho_1 = jax.jvp(self.radius, (alpha,), (one,))
        rho_2 = jax.jvp(slope, (alpha,), (one,))[1]
        return (rho**2 + 2 * rho_1**2 - rho * rho_2) / (rho**2 + rho_1**2) ** 1.5

    def check(self) -> None:
        """Raise `ValueError` unless ρ is positive all round, where that is known."""
        check_fields(self)
        radius, angle, _ = _smallest(self)
        got = f"got {radius:.4g} at {angle:.3f} rad"
        require(radius > 0, f"the outline's radius must be positive all round, for all angles from 0 to 2π, {got}")


def smallest_curvature(outline: AbstractOutline) -> float:
    """The smallest curvature all round; infinite where the outline is not known yet (inside a transformation)."""
    return _smallest(outline)[2]


def _smallest(outline: AbstractOutline) -> tuple[float, float, float]:
    """The smallest radius all round and its angle, of one that is not finite if there is any, and the smallest curvature;
    infinite where the outline is not known yet."""
    if all(is_concrete(leaf) for leaf in jax.tree.leaves(outline)):
        values = _smallest_known(outline)
        if is_concrete(values[0]):
            radius, angle, curvature = map(float, values)
            return radius, angle, curvature
    return np.inf, np.nan, np.inf


@eqx.filter_jit
def _smallest_known(outline: AbstractOutline):
    # Half a step off the round angles, where outlines given piecewise change their formula.
    angles = jnp.asarray((np.arange(CHECKED_ANGLES) + 0.5) * (2 * np.pi / CHECKED_ANGLES))
    radii = jax.vmap(outline.radius)(angles)
    least = jnp.argmin(jnp.where(jnp.isfinite(radii), radii, -jnp.inf))
    return radii[least], angles[least], jnp.min(jax.vmap(outline.curvature)(angles))


class FunctionOutline(AbstractOutline):
    """ρ(α) given by a function on [0, 2π), written in jax.numpy; other angles are brought into that range.

    A number stands for a circle.
    """

    rho: Callable | Array

    def __init__(self, rho):
        self.rho = as_pytree(rho) if callable(rho) else as_real(rho)

    def radius(self, alpha):
        if callable(self.rho):
            return jnp.asarray(self.rho(jnp.mod(alpha, 2 * jnp.pi)), jnp.result_type(alpha))
        return self.rho + 0 * alpha

    def check(self):
        if callable(self.rho):
            check_function(self.rho, "rho", ())
        super().check()


class SplineOutline(AbstractOutline):
    """ρ(α) through `radii` at equally spaced angles 0, 2π/n, …: a periodic cubic spline with continuous ρ″."""

    radii: Array = row()

    def radius(self, alpha):
        return periodic_spline(jnp.asarray(self.radii), 2 * np.pi, alpha)

    def check(self):
        require(np.ndim(self.radii) == 1 and np.shape(self.radii)[0] >= 3, "radii must be at least 3 numbers")
        super().check()
