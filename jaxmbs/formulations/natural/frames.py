"""Frames of bodies from points and vectors that are fixed in them, in the plane and in space."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.numerics import rotation
from jaxmbs.numerics.plane import perpendicular

# Suffixes of the names of the components of points and vectors.
AXES = "xyz"


class PlaneFrames:
    """Bodies of the plane: A = [a, a⊥] with a = w̄* w / |w̄|², vectors as complex numbers."""

    two_points_suffice = True

    @staticmethod
    def own_vectors(shared) -> dict[str, Any]:
        """Return the unit vectors that complete a basis with shared ones, in the body frame, by suffix of their names."""
        return {} if shared else {"x": np.array([1.0, 0.0])}

    @staticmethod
    def matrix(basis, local):
        """Return the rotation matrix A from a basis given in the ground frame and, as `local`, in the body frame."""
        (w,), (w_bar,) = basis, local
        a = jnp.stack([w_bar @ w, perpendicular(w_bar) @ w]) / (w_bar @ w_bar)
        return jnp.stack([a, perpendicular(a)], axis=1)

    @staticmethod
    def upright(a, attitude):
        """Return −A if that is nearer to the attitude, else A: vectors shared at a translational joint may be opposite."""
        aligned = jnp.cos(attitude[0]) * a[0, 0] + jnp.sin(attitude[0]) * a[1, 0]
        return jnp.where(aligned < 0, -a, a)

    @staticmethod
    def across(v):
        """Return [w], a vector perpendicular to v, of the same length."""
        return [perpendicular(jnp.asarray(v))]

    @staticmethod
    def attitude(a):
        """Return the angle of A in (−π, π], (1,)."""
        return jnp.arctan2(a[1, 0], a[0, 0])[None]

    @staticmethod
    def nearest(attitude, a):
        """Return the angle (1,) of the matrix A with the turns that bring it nearest to `attitude`."""
        c, s = jnp.cos(attitude[0]), jnp.sin(attitude[0])
        return attitude + jnp.arctan2(c * a[1, 0] - s * a[0, 0], c * a[0, 0] + s * a[1, 0])

    @staticmethod
    def spin(a, a_dot):
        """Return the angular velocity φ̇ = a⊥ᵀȧ / aᵀa, (1,), from A and Ȧ with the first columns a and ȧ."""
        return (perpendicular(a[:, 0]) @ a_dot[:, 0] / (a[:, 0] @ a[:, 0]))[None]

    @staticmethod
    def pose(kind, r, a, attitude):
        """Return the pose of a body with origin r and the angle `attitude`."""
        return kind.pose(jnp.append(r, attitude))

    @staticmethod
    def moments(mass_matrix):
        """Return m s and ∫ s sᵀ dm, of which only the trace matters, from the mass matrix at the ground frame."""
        first = jnp.stack([mass_matrix[1, 2], -mass_matrix[0, 2]])
        return first, mass_matrix[2, 2] / 2 * jnp.eye(2, dtype=mass_matrix.dtype)


class SpaceFrames:
    """Bodies of space: A = X X̄ᵀ with three unit vectors that are orthogonal to each other in the body."""

    two_points_suffice = False

    @staticmethod
    def own_vectors(shared) -> dict[str, Any]:
        """Return the unit vectors that complete a basis with shared ones, in the body frame, by suffix of their names."""
        if not shared:
            return dict(zip(AXES, np.eye(3), strict=True))
        first, second = across(SpaceFrames, shared[0])
        return {"e1": first, "e2": second}

    @staticmethod
    def matrix(basis, local):
        """Return the rotation matrix A from a basis given in the ground frame and, as `local`, in the body frame."""
        return sum(w[:, None] * w_bar[None, :] for w, w_bar in zip(basis, local, strict=True))

    @staticmethod
    def upright(a, attitude):
        """Return A unchanged: frames of space are never opposite to the attitude."""
        return a

    @staticmethod
    def across(v):
        """Return two unit vectors perpendicular to a vector and to each other."""
        axes = rotation.matrix(rotation.along(v))
        return [axes[:, 0], axes[:, 1]]

    @staticmethod
    def attitude(a):
        """Return Euler parameters of A, (4,)."""
        return rotation.from_matrix(a)

    @staticmethod
    def nearest(attitude, a):
        """Return p ∘ Δ with Δ the rotation A(p)ᵀA, less than a half turn, for the attitude p."""
        w = rotation.matrix(attitude).T @ a
        half = jnp.stack([1 + w[0, 0] + w[1, 1] + w[2, 2], w[2, 1] - w[1, 2], w[0, 2] - w[2, 0], w[1, 0] - w[0, 1]])
        return rotation.product(attitude, rotation.normalised(half))

    @staticmethod
    def spin(a, a_dot):
        """Return ω in the frame of the body, from the skew-symmetric part of AᵀȦ."""
        w = a.T @ a_dot
        return jnp.stack([w[2, 1] - w[1, 2], w[0, 2] - w[2, 0], w[1, 0] - w[0, 1]]) / 2

    @staticmethod
    def pose(kind, r, a, attitude):
        """Return the pose of a body with origin r and Euler parameters `attitude`, but with A itself as its matrix."""
        return kind.pose(jnp.append(r, attitude))._replace(a=a)

    @staticmethod
    def moments(mass_matrix):
        """Return m s and the pseudo-inertia ∫ s sᵀ dm = ½ tr(J) I − J from the mass matrix at the ground frame."""
        coupling, inertia = mass_matrix[:3, 3:], mass_matrix[3:, 3:]
        first = jnp.stack([coupling[1, 2], coupling[2, 0], coupling[0, 1]])
        return first, jnp.trace(inertia) / 2 * jnp.eye(3, dtype=inertia.dtype) - inertia


# Traced once for all vectors.
@partial(jax.jit, static_argnums=0)
def across(geometry, v) -> list[Array]:
    """Return unit vectors perpendicular to the unit vector v, one in the plane, two in space; jit traces it once."""
    return geometry.across(v)


# Classes with the formulas for the frames of bodies, by the dimension of the mechanism, 2 or 3.
GEOMETRY = {2: PlaneFrames, 3: SpaceFrames}
