"""Residuals and coordinates in units of the mechanism, so that they mean the same for a watch and for a bridge."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

# A root counts as found when f, in units of q, is below this many roundings of the largest coordinate.
ROOT_ROUNDINGS = 1000


def norm(x):
    """The largest absolute value."""
    return jnp.max(jnp.abs(x))


def units(matrix, q, angular) -> Float[Array, " n"]:
    """A unit for each coordinate: 1 for angles, for lengths the largest position or lever arm of the mechanism.

    In these units residuals, steps and displacements mean the same for a watch and for a bridge, in any system of units.
    """
    size = jnp.abs(matrix)
    arms = jnp.max(jnp.where(angular, size, 0), axis=1, initial=0)
    slopes = jnp.max(jnp.where(angular, 0, size), axis=1, initial=0)
    levers = jnp.where(slopes > 0, arms / jnp.where(slopes > 0, slopes, 1), 0)
    longest = jnp.maximum(jnp.max(levers, initial=0), jnp.max(jnp.where(angular, 0, jnp.abs(q)), initial=0))
    longest = jnp.where((longest > 0) & jnp.isfinite(longest), longest, 1)
    return jnp.where(angular, 1, longest).astype(q.dtype)


def row_sizes(matrix, unit) -> Float[Array, " m"]:
    """What a unit of the coordinate that matters most does to each row of f; 1 where nothing does anything."""
    largest = jnp.max(jnp.abs(matrix) * unit, axis=1)
    return jnp.where(largest > 0, largest, 1)


def scaled_residual(matrix, value, q, unit) -> Float[Array, ""]:
    """The largest gap of f, each row in units of what the coordinates can do to it, relative to the largest coordinate."""
    return jnp.max(jnp.abs(value) / row_sizes(matrix, unit)) / jnp.maximum(1, norm(q / unit))


def tolerance(dtype) -> float:
    """The bound on `scaled_residual` under which q is a root."""
    return ROOT_ROUNDINGS * float(jnp.finfo(dtype).eps)
