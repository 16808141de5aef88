"""The rigid body of the plane and its pose."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import AbstractBody, require
from jaxmbs.numerics.arrays import check_fields, is_concrete, real
from jaxmbs.numerics.rotation import rotation_matrix


class Pose(NamedTuple):
    """Where a body is: the position `r` of its origin in the ground frame, and its angle `phi` (rad)."""

    r: Float[Array, "2"]
    phi: Float[Array, ""]

    def point(self, s: Float[Array, "2"]) -> Float[Array, "2"]:
        """r + A s: the point with body coordinates `s`, in the ground frame; Haug (2.4.8)."""
        return self.r + self.direction(s)

    def direction(self, v: Float[Array, "2"]) -> Float[Array, "2"]:
        """A v: the vector with body components `v`, in the ground frame."""
        return rotation_matrix(self.phi) @ jnp.asarray(v)


class Body(AbstractBody):
    """A rigid body with coordinates (x, y, φ) of its body-fixed frame.

    Args:
        mass: positive.
        inertia: moment of inertia about the centre of mass, not negative.
        com: centre of mass in the body frame.
    """

    mass: Array = real(default=1.0)
    inertia: Array = real(default=1.0)
    com: Array = real((2,), default=(0.0, 0.0))

    dimension: ClassVar[int] = 2
    coordinates: ClassVar[tuple[str, ...]] = ("x", "y", "phi")
    angular: ClassVar[tuple[bool, ...]] = (False, False, True)

    @staticmethod
    def pose(q: Float[Array, "3"]) -> Pose:
        """The pose with coordinates q = (x, y, φ)."""
        return Pose(q[:2], q[2])

    @staticmethod
    def ground(dtype) -> Float[Array, "3"]:
        """The coordinates of the ground frame."""
        return jnp.zeros(3, dtype)

    def centre_of_mass(self, pose: Pose) -> Float[Array, "2"]:
        """The centre of mass in the ground frame."""
        return pose.point(self.com)

    def kinetic_energy(self, pose: Pose, v: Float[Array, "3"]) -> Float[Array, ""]:
        """½ m ṙ_cᵀṙ_c + ½ J φ̇² with v = (ẋ, ẏ, φ̇) and ṙ_c = ṙ + B s_c φ̇."""
        arm = pose.direction(self.com)
        velocity = v[:2] + v[2] * jnp.stack([-arm[1], arm[0]])
        return (self.mass * velocity @ velocity + self.inertia * v[2] ** 2) / 2

    def check(self) -> None:
        """Raise `ValueError` for wrong shapes, a mass that is not positive, a negative inertia."""
        check_fields(self)
        require(not is_concrete(self.mass) or self.mass > 0, f"mass must be positive, got {self.mass}")
        require(not is_concrete(self.inertia) or self.inertia >= 0, f"inertia must not be negative, got {self.inertia}")
