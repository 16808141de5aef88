"""Forces on the bodies of a mechanism, in the plane and in space alike."""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.numerics.arrays import check_fields, real


class AbstractForce(eqx.Module):
    """A force on some of the bodies."""

    def potential(self, bodies: Mapping, poses: Mapping) -> Float[Array, ""]:
        """Potential energy, for the bodies and their poses by name; zero for a force that has none."""
        raise NotImplementedError

    def check(self, dimension: int) -> None:
        """Raise `ValueError` if the force cannot act in a space of `dimension`."""
        check_fields(self)


class Gravity(AbstractForce):
    """Weight of every body: V = −Σ m gᵀ r_c.

    Args:
        acceleration: g in the ground frame, (2,) in the plane or (3,) in space.
    """

    acceleration: Array = real((None,))

    def potential(self, bodies, poses):
        return sum(-body.mass * (self.acceleration @ body.centre_of_mass(poses[name])) for name, body in bodies.items())

    def check(self, dimension):
        check_fields(self)
        got = jnp.shape(self.acceleration)
        require(got == (dimension,), f"acceleration must have shape ({dimension},), got {got}")
