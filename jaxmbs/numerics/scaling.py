"""Units of a mechanism for residuals and coordinates, so that limits mean the same for a watch and for a bridge."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

# Gaps smaller than this many rounding units, relative to the size of the mechanism, count as zero: a smaller tolerance
# is raised to this.
ROOT_ROUNDINGS = 1000
# Default upper bound on gaps, relative to the size of the mechanism. Independent constraints are closed to rounding; only
# redundant constraints that contradict others, because geometry is inexact, keep a gap.
DEFAULT_TOLERANCE = 1e-8


def max_norm(x: Array) -> Array:
    """Return the largest absolute value in x, which must not be empty."""
    return jnp.max(jnp.abs(x))


class Units(NamedTuple):
    """A unit for each component of a displacement: 1 for angles, for lengths the largest position or lever arm.

    In these units residuals, steps and displacements mean the same for a watch and for a bridge, in any system of units.

    Attributes:
        angular: (m,), True for components that are angles.
        length: the unit of the others.
    """

    angular: np.ndarray
    length: Float[Array, ""]

    @property
    def vector(self) -> Float[Array, " m"]:
        """Unit of each component of a displacement (m,): 1 for angles, `length` for the others."""
        return jnp.where(self.angular, 1, self.length)

    def size(self, x: Float[Array, " m"]) -> Float[Array, ""]:
        """Return the largest absolute value of a displacement, or of the extent of a configuration, in these units."""
        angles, lengths = jnp.abs(x[self.angular]), jnp.abs(x[~self.angular])
        return jnp.maximum(jnp.abs(jnp.max(lengths, initial=0) / self.length), jnp.max(angles, initial=0))

    def rows(self, matrix: Float[Array, "rows m"]) -> Float[Array, " rows"]:
        """Return the largest change of each row of f, with the Jacobian `matrix`, by one unit of a coordinate.

        1 for rows that are constant.
        """
        largest = jnp.max(jnp.abs(matrix * self.vector[None, :]), axis=1, initial=0)
        return jnp.where(largest > 0, largest, 1)

    def gap(self, matrix: Float[Array, "rows m"], value: Float[Array, " rows"]) -> Float[Array, ""]:
        """Return the largest |f_k| in `gap_units`, from f_q and f, `matrix` and `value`."""
        return jnp.max(jnp.abs(value / self.gap_units(matrix)), initial=0)

    def gap_units(self, matrix: Float[Array, "rows m"]) -> Float[Array, " rows"]:
        """Return the change of each row of f, with the Jacobian `matrix`, by a displacement of `length`.

        If a row depends on angles only, it is its change by an angle of 1. For other rows, derivatives by angles do not
        count: they grow with the distance of a body from its joint, and a gap must not look small because a body is far
        away. 1 for rows that are constant.
        """
        slopes = jnp.abs(matrix)
        by_length = self.length * jnp.max(jnp.where(self.angular[None, :], 0, slopes), axis=1, initial=0)
        by_angle = jnp.max(jnp.where(self.angular[None, :], slopes, 0), axis=1, initial=0)
        return jnp.where(by_length > 0, by_length, jnp.where(by_angle > 0, by_angle, 1))


def unit_of_length(matrix: Array, extent: Array, angular: np.ndarray) -> Float[Array, ""]:
    """Return the largest position or lever arm, the ratio of the changes of a row of f by an angle and by a length.

    `matrix` (rows, m) is the Jacobian, `extent` (m,) is `Manifold.extent` of the configuration, and `angular` (m,) the mask
    of the columns for angles.
    """
    size = jnp.abs(matrix)
    arms = jnp.max(jnp.where(angular[None, :], size, 0), axis=1, initial=0)
    slopes = jnp.max(jnp.where(angular[None, :], 0, size), axis=1, initial=0)
    levers = jnp.where(slopes > 0, arms / jnp.where(slopes > 0, slopes, 1), 0)
    longest = jnp.maximum(jnp.max(levers, initial=0), jnp.max(jnp.where(angular, 0, jnp.abs(extent)), initial=0))
    return jnp.where((longest > 0) & jnp.isfinite(longest), longest, 1).astype(matrix.dtype)


def gap_limit(dtype: DTypeLike, tolerance: float) -> float:
    """Return the upper bound of `Units.gap` for a root: the tolerance, or the rounding of `dtype` if that is larger."""
    return max(tolerance, ROOT_ROUNDINGS * float(jnp.finfo(dtype).eps))
