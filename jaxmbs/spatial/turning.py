"""Rotations of space as coordinates: about one axis, about two, of a homokinetic joint, of a ball."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.mobility import AbstractTurning
from jaxmbs.numerics import rotation
from jaxmbs.numerics.rotation import cross
from jaxmbs.numerics.space import Constants, Manifold


class Rotations(Manifold):
    """Coordinates p with velocities ω in the frame that turns: ṗ = ½ p ∘ (0, ω)."""

    @staticmethod
    def rate(q, v):
        return rotation.rate(q, v)

    @staticmethod
    def retract(q, d):
        return rotation.turned(q, d)

    @staticmethod
    def chart_rate(d, v):
        return rotation.chart_rate(d, v)

    @staticmethod
    def normalised(q):
        return rotation.normalised(q)

    @staticmethod
    def difference(q, other):
        return rotation.log(rotation.product(rotation.inverse(q), other))

    @staticmethod
    def extent(q):
        return jnp.zeros(3, q.dtype)


class Turn(AbstractTurning):
    """By an angle φ about a unit vector of body i.

    Args:
        axis: the vector.
    """

    axis: Array

    coordinates: ClassVar[tuple[str, ...]] = ("phi",)
    velocities: ClassVar[tuple[str, ...]] = coordinates

    def rotation(self, rho):
        return _about(self.axis, rho[0])

    def axes(self, rho):
        return self.axis[:, None]

    def drift(self, rho, w):
        return jnp.zeros(3, w.dtype)

    def measured(self, rotation):
        along = rotation[1:] @ self.axis
        return jnp.arctan2(2 * along * rotation[0], rotation[0] ** 2 - along**2)[None]

    def measured_twice(self, rotation):
        return 2 * jnp.arctan2(rotation[1:] @ self.axis, rotation[0])[None]


class TwoTurns(AbstractTurning):
    """By α about a unit vector of body i, then by β about another one, perpendicular to it, that has been turned along.

    Args:
        first, second: the vectors.
    """

    first: Array
    second: Array

    coordinates: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    velocities: ClassVar[tuple[str, ...]] = coordinates

    def rotation(self, rho):
        return rotation.product(_about(self.first, rho[0]), _about(self.second, rho[1]))

    def axes(self, rho):
        turned = jnp.cos(rho[0]) * self.second + jnp.sin(rho[0]) * cross(self.first, self.second)
        return jnp.stack([self.first, turned], axis=1)

    def measured(self, p):
        # The second axis as it is after both turns, and the first as it is seen after them.
        a, third = rotation.matrix(p), cross(self.first, self.second)
        second, first = a @ self.second, a.T @ self.first
        alpha = jnp.arctan2(third @ second, self.second @ second)
        return jnp.stack([alpha, jnp.arctan2(third @ first, self.first @ first)])

    def measured_twice(self, p):
        angles = self.measured(p)
        opposite = self.rotation(angles) @ p < 0
        return angles.at[0].add(jnp.where(opposite, jnp.where(angles[0] > 0, -2, 2) * jnp.pi, 0))


class Bend(AbstractTurning):
    """By an Euler vector across a unit vector: components a and b along two others of body i.

    Args:
        across: (3, 2), its columns are these two.
    """

    across: Array

    coordinates: ClassVar[tuple[str, ...]] = ("theta_x", "theta_y")
    velocities: ClassVar[tuple[str, ...]] = coordinates

    def rotation(self, rho):
        return rotation.exp(self.across @ rho)

    def axes(self, rho):
        return rotation.gamma(self.across @ rho) @ self.across

    def measured(self, p):
        return self.across.T @ rotation.log(p)


class Ball(AbstractTurning):
    """Any rotation: Euler parameters, with the relative angular velocity in the frame that turns."""

    coordinates: ClassVar[tuple[str, ...]] = ("e0", "e1", "e2", "e3")
    velocities: ClassVar[tuple[str, ...]] = ("wx", "wy", "wz")
    manifold: ClassVar[type[Manifold]] = Rotations

    def rotation(self, rho):
        return rho

    def axes(self, rho):
        return rotation.matrix(rho)

    def drift(self, rho, w):
        return jnp.zeros(3, w.dtype)

    def measured(self, p):
        return p

    @property
    def at_rest(self):
        return (1.0, 0.0, 0.0, 0.0)


class Sign(AbstractTurning):
    """None, but by Euler parameters of one sign or the other, which never changes."""

    coordinates: ClassVar[tuple[str, ...]] = ("e0",)
    velocities: ClassVar[tuple[str, ...]] = ()
    manifold: ClassVar[type[Manifold]] = Constants

    def rotation(self, rho):
        return jnp.append(rho, jnp.zeros(3, rho.dtype))

    def axes(self, rho):
        return jnp.zeros((3, 0), rho.dtype)

    def drift(self, rho, w):
        return jnp.zeros(3, rho.dtype)

    def measured(self, p):
        return jnp.where(p[:1] < 0, -1, 1).astype(p.dtype)

    @property
    def at_rest(self):
        return (1.0,)


def free_turning(axes, free: tuple[int, ...]) -> AbstractTurning | None:
    """The rotation by those components of an Euler vector along some axes that are free.

    axes: (3, 3), as columns.
    """
    if len(free) == 1:
        return Turn(axes[:, free[0]])
    if len(free) == 2:
        return Bend(jnp.stack([axes[:, k] for k in free], axis=1))
    return Ball() if free else None


def _about(axis, angle):
    return jnp.append(jnp.cos(angle / 2), jnp.sin(angle / 2) * axis)
