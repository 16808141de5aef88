"""Rotations of the plane in relative coordinates."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from jaxmbs.mobility import AbstractTurning
from jaxmbs.numerics.space import Constants, Manifold


class Turn(AbstractTurning):
    """A rotation by an angle φ, with all turns."""

    coordinates: ClassVar[tuple[str, ...]] = ("phi",)
    velocities: ClassVar[tuple[str, ...]] = coordinates

    def rotation(self, rho):
        """Return the angle φ."""
        return rho[0]

    def axes(self, rho):
        """Return H = [[1]]: φ̇ is the relative angular velocity."""
        return jnp.ones((1, 1), rho.dtype)

    def drift(self, rho, w):
        """Return Ḣ w = 0."""
        return jnp.zeros_like(w)

    def coordinates_of(self, rotation):
        """Return (φ,) of a rotation by an angle."""
        return rotation[None]


class HalfTurns(AbstractTurning):
    """A rotation by a constant multiple of π: lines that slide on each other may point in opposite senses."""

    coordinates: ClassVar[tuple[str, ...]] = ("phi",)
    velocities: ClassVar[tuple[str, ...]] = ()
    manifold: ClassVar[type[Manifold]] = Constants

    def rotation(self, rho):
        """Return the angle, a multiple of π."""
        return rho[0]

    def axes(self, rho):
        """Return H without columns (1, 0): the rotation has no velocity."""
        return jnp.zeros((1, 0), rho.dtype)

    def drift(self, rho, w):
        """Return Ḣ w = 0."""
        return jnp.zeros(1, w.dtype)

    def coordinates_of(self, rotation):
        """Return the multiple of π that is nearest to an angle, (1,)."""
        return (jnp.pi * jnp.round(rotation / jnp.pi))[None]
