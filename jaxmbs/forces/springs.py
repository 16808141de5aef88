"""Springs, dampers and actuators between two points, or along an axis."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import opposite
from jaxmbs.forces.values import check_value, evaluate, value_field
from jaxmbs.numerics.arrays import is_concrete, real


def line_of_action(i, j, point_i, point_j) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """The distance of two points, and the unit vector from the first to the second.

    Where the points coincide the direction is zero, and so are all derivatives.
    """
    d = j.point(point_j) - i.point(point_i)
    square = d @ d
    apart = square > 0
    length = jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1)), 0)
    return length, d / jnp.where(apart, length, 1)


class SpringDamper(AbstractForce):
    """A spring, a damper and an actuator in parallel between two points: f = k (ℓ − ℓ₀) + c ℓ̇ + f_a pulls them together.

    V = ½ k (ℓ − ℓ₀)². Where the points coincide there is no direction, and no force.

    Args:
        i, j: names of the bodies.
        point_i, point_j: its ends in the body frames; the origins unless given.
        stiffness: k. damping: c. free_length: ℓ₀.
        actuator: f_a, a number, a motion or f(t, q, v); positive pulls.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    stiffness: Array | None = real(optional=True, default=None)
    damping: Array | None = real(optional=True, default=None)
    free_length: Array = real(default=0.0)
    actuator: Any = value_field(default=None, kw_only=True)

    def generalized(self, state):
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = self._ends(state)
        length, along = line_of_action(i, j, point_i, point_j)
        pull = jnp.zeros_like(length)
        if self.stiffness is not None:
            pull = pull + self.stiffness * (length - self.free_length)
        if self.damping is not None:
            v_i, v_j = state.velocities[self.i], state.velocities[self.j]
            rate = along @ (j.velocity(point_j, v_j) - i.velocity(point_i, v_i))
            pull = pull + self.damping * rate
        if self.actuator is not None:
            pull = pull + evaluate(self.actuator, state, (), "actuator")
        force = pull * along
        return opposite(state, self.i, i.force_at(point_i, force), self.j, j.force_at(point_j, -force))

    def _ends(self, state):
        origin = jnp.zeros_like(state.poses[self.i].r)
        return tuple(origin if point is None else point for point in (self.point_i, self.point_j))

    def potential(self, state):
        if self.stiffness is None:
            return super().potential(state)
        length, _ = line_of_action(state.poses[self.i], state.poses[self.j], *self._ends(state))
        return self.stiffness * (length - self.free_length) ** 2 / 2

    def check(self, dimension):
        super().check(dimension)
        if self.actuator is not None:
            check_value(self.actuator, (), "actuator")


class Spring(SpringDamper):
    """A spring between two points: f = k (ℓ − ℓ₀) pulls them together; V = ½ k (ℓ − ℓ₀)².

    Args:
        i, j: names of the bodies.
        point_i, point_j: its ends in the body frames.
        stiffness: k. free_length: ℓ₀.
    """

    def __init__(self, i, j, point_i=None, point_j=None, stiffness=None, free_length=0.0):
        super().__init__(i, j, point_i, point_j, stiffness, None, free_length)

    def check(self, dimension):
        require(self.stiffness is not None, "stiffness is missing")
        super().check(dimension)


class Damper(SpringDamper):
    """A damper between two points: f = c ℓ̇ pulls them together.

    Args:
        i, j: names of the bodies.
        point_i, point_j: its ends in the body frames.
        damping: c.
    """

    def __init__(self, i, j, point_i=None, point_j=None, damping=None):
        super().__init__(i, j, point_i, point_j, None, damping)

    def check(self, dimension):
        require(self.damping is not None, "damping is missing")
        super().check(dimension)


class AxialSpring(AbstractForce):
    """A spring and a damper along an axis of body i: F = −k (s − s₀) − c ṡ on body j, along the axis, at point_j.

    s = u_iᵀ A_iᵀ (r_j^P − r_i^P) with the unit vector u_i: the slide of a joint along the axis. V = ½ k (s − s₀)². The
    opposite force acts on body i where point_j is.

    Args:
        i, j: names of the bodies.
        point_i, point_j: in the body frames; the origins unless given.
        axis_i: the axis in the frame of body i.
        stiffness: k. free_length: s₀, of either sign. damping: c.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    axis_i: Array | None = real((3,), optional=True, default=None)
    stiffness: Array | None = real(optional=True, default=None)
    free_length: Array = real(default=0.0)
    damping: Array | None = real(optional=True, default=None)

    def generalized(self, state):
        i, j = state.poses[self.i], state.poses[self.j]
        _, point_j = self._ends(state)
        met = i.components(j.point(point_j) - i.r)
        push = jnp.zeros((), state.q.dtype)
        if self.stiffness is not None:
            push = push - self.stiffness * (self._slide(state) - self.free_length)
        if self.damping is not None:
            v_i, v_j = state.velocities[self.i], state.velocities[self.j]
            push = push - self.damping * i.axis(self.axis_i) @ (j.velocity(point_j, v_j) - i.velocity(met, v_i))
        force = push * i.axis(self.axis_i)
        return opposite(state, self.i, i.force_at(met, -force), self.j, j.force_at(point_j, force))

    def _ends(self, state):
        origin = jnp.zeros_like(state.poses[self.i].r)
        return tuple(origin if point is None else point for point in (self.point_i, self.point_j))

    def _slide(self, state):
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = self._ends(state)
        return i.axis(self.axis_i) @ (j.point(point_j) - i.point(point_i))

    def potential(self, state):
        if self.stiffness is None:
            return super().potential(state)
        return self.stiffness * (self._slide(state) - self.free_length) ** 2 / 2

    def check(self, dimension):
        require(self.stiffness is not None or self.damping is not None, "stiffness or damping is missing")
        super().check(dimension)
        require(dimension == 3, "it is of space only")
        require(self.axis_i is not None, "axis_i is missing")
        axis = np.asarray(self.axis_i) if is_concrete(self.axis_i) else None
        require(axis is None or np.any(axis != 0), "axis_i has no length")
