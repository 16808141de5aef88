"""Residuals and coordinates in units of the mechanism, so that they mean the same for a watch and for a bridge."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# A root counts as found when f, in units of q, is below this many roundings of the largest coordinate.
ROOT_ROUNDINGS = 1000


def norm(x):
    """The largest absolute value."""
    return jnp.max(jnp.abs(x))


class Units(NamedTuple):
    """A unit for each component of a displacement: 1 for angles, for lengths the largest position or lever arm.

    In these units residuals, steps and displacements mean the same for a watch and for a bridge, in any system of units.

    Attributes:
        angular: (m,) which components are angles.
        length: the unit of the others.
    """

    angular: np.ndarray
    length: Float[Array, ""]

    @property
    def vector(self) -> Float[Array, " m"]:
        """The unit of each component."""
        return jnp.where(self.angular, 1, self.length)

    def size(self, x: Float[Array, " m"]) -> Float[Array, ""]:
        """The largest absolute value of a displacement, or of the extent of a configuration, in these units."""
        angles, lengths = jnp.abs(x[self.angular]), jnp.abs(x[~self.angular])
        return jnp.maximum(jnp.abs(jnp.max(lengths, initial=0) / self.length), jnp.max(angles, initial=0))

    def rows(self, matrix: Float[Array, "rows m"]) -> Float[Array, " rows"]:
        """What a unit of the coordinate that matters most does to each row of f; 1 where nothing does anything."""
        largest = jnp.max(jnp.abs(matrix * self.vector[None, :]), axis=1, initial=0)
        return jnp.where(largest > 0, largest, 1)

    def residual(self, matrix, value, extent) -> Float[Array, ""]:
        """The largest gap of f, each row in units of what the coordinates can do to it, relative to the extent of the
        configuration."""
        return jnp.max(jnp.abs(value / self.rows(matrix)), initial=0) / jnp.maximum(1, self.size(extent))


def unit_of_length(matrix, extent, angular) -> Float[Array, ""]:
    """The largest position or lever arm: by how much more an angle changes a row of f than a length does.

    extent: `Manifold.extent` of the configuration.
    """
    size = jnp.abs(matrix)
    arms = jnp.max(jnp.where(angular[None, :], size, 0), axis=1, initial=0)
    slopes = jnp.max(jnp.where(angular[None, :], 0, size), axis=1, initial=0)
    levers = jnp.where(slopes > 0, arms / jnp.where(slopes > 0, slopes, 1), 0)
    longest = jnp.maximum(jnp.max(levers, initial=0), jnp.max(jnp.where(angular, 0, jnp.abs(extent)), initial=0))
    return jnp.where((longest > 0) & jnp.isfinite(longest), longest, 1).astype(matrix.dtype)


def tolerance(dtype) -> float:
    """The bound on `Units.residual` under which q is a root."""
    return ROOT_ROUNDINGS * float(jnp.finfo(dtype).eps)
