"""Rotations of the plane."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.jit
def rotation_matrix(phi: Float[Array, "*batch"]) -> Float[Array, "2 2 *batch"]:
    """Return A(φ) = [[cos φ, −sin φ], [sin φ, cos φ]], from body to ground; Haug (2.4.4). φ in radians."""
    c, s = jnp.cos(phi), jnp.sin(phi)
    return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])


@jax.jit
def perpendicular(v: Float[Array, "2"]) -> Float[Array, "2"]:
    """Return v⊥ = R v = (−v_y, v_x): `v` turned by +90°; Haug (2.3.5)."""
    return jnp.stack([-v[1], v[0]])


def direction(angle: Float[Array, ""] | float) -> Float[Array, "2"]:
    """Return the unit vector u = (cos α, sin α) at the angle α from the x axis, in radians."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def bearing(d: Float[Array, "2"]) -> Float[Array, ""]:
    """Return the angle α of a vector d from the x axis, in radians in (−π, π]; zero if d = 0."""
    d = jnp.where(jnp.all(d == 0), jnp.array([1, 0], d.dtype), d)
    return jnp.arctan2(d[1], d[0])
