"""Springs, dampers and actuators between two points, or along an axis."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import opposite
from jaxmbs.forces.values import check_value, evaluate, law_field, value_field
from jaxmbs.numerics.arrays import real


def line_of_action(i: Any, j: Any, point_i: Any, point_j: Any) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """Return the distance of two points, and the unit vector from the first to the second.

    If the points coincide, the direction is zero, and so are all derivatives.

    Args:
        i: pose of the first body.
        j: pose of the second body.
        point_i: first point in the frame of i.
        point_j: second point in the frame of j.

    Returns:
        The distance, and the unit vector (d,) in the ground frame.

    Examples:
        >>> i, j = (planar.Body.pose(jnp.array([x, 0.0, 0.0])) for x in (0.0, 3.0))
        >>> length, direction = mbs.forces.line_of_action(i, j, jnp.zeros(2), jnp.array([0.0, 4.0]))
        >>> print(length, direction)
        5.0 [0.6 0.8]
    """
    return length_and_direction(j.point(point_j) - i.point(point_i))


def length_and_direction(vector: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """Return the length of a vector and the unit vector along it; at zero both, and their derivatives, are zero.

    Args:
        vector: (d,), of any dimension.

    Returns:
        The length, and the unit vector (d,).

    Examples:
        >>> length, direction = mbs.forces.length_and_direction(jnp.array([3.0, 4.0]))
        >>> print(length, direction)
        5.0 [0.6 0.8]
    """
    square = vector @ vector
    apart = square > 0
    length = jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1)), 0)
    return length, vector / jnp.where(apart, length, 1)


def points_of(force: Any, pose_i: Any) -> tuple[Array, ...]:
    """Return `point_i` and `point_j` of a force on bodies i and j in their frames; the origins unless given."""
    origin = jnp.zeros_like(pose_i.r)
    return tuple(origin if point is None else point for point in (force.point_i, force.point_j))


class AbstractSpringDamper(AbstractForce):
    """A force that pulls two points together: f = k (ℓ − ℓ₀) + c ℓ̇ + f_n(ℓ, ℓ̇) + f_a.

    Args:
        i, j, point_i, point_j, stiffness, damping, free_length, actuator, force: see `SpringDamper`.

    Examples:
        >>> issubclass(mbs.Spring, mbs.forces.AbstractSpringDamper)
        True
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    stiffness: Array | None = real(optional=True, default=None)
    damping: Array | None = real(optional=True, default=None)
    free_length: Array = real(default=0.0)
    actuator: Any = value_field(default=None, kw_only=True)
    force: Any = law_field("length", "rate")

    def generalized(self, state):
        """Return the generalized force (m,) of f on both bodies, along the line between the points."""
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = points_of(self, i)
        length, along = self._line(state)
        force = self._pull(state, length, along) * along
        return opposite(state, self.i, i.force_at(point_i, force), self.j, j.force_at(point_j, -force))

    def _line(self, state):
        """Return ℓ and the unit vector from point_i to point_j in the ground frame; zeros if they coincide."""
        return line_of_action(state.poses[self.i], state.poses[self.j], *points_of(self, state.poses[self.i]))

    def _rate(self, state, along):
        """Return ℓ̇; `along` is the unit vector from point_i to point_j."""
        points = zip((self.i, self.j), points_of(self, state.poses[self.i]), strict=True)
        v_i, v_j = (state.poses[body].velocity(point, state.velocities[body]) for body, point in points)
        return along @ (v_j - v_i)

    def _pull(self, state, length, along):
        """Return f, positive if it pulls the points together, for the length and the unit vector from i to j."""
        pull = jnp.zeros_like(length)
        if self.stiffness is not None:
            pull = pull + self.stiffness * (length - self.free_length)
        if self.damping is not None:
            pull = pull + self.damping * self._rate(state, along)
        if self.actuator is not None:
            pull = pull + evaluate(self.actuator, state, (), "actuator")
        if self.force is not None:
            # A law may have no derivative, or no value, at length zero, where there is no force.
            apart = length > 0
            value = self.force(jnp.where(apart, length, 1), self._rate(state, along))
            pull = pull + jnp.where(apart, value, 0)
        return pull

    def measures(self, state):
        """Return the force f, positive if it pulls, the length ℓ and its rate; no force if the points coincide."""
        length, along = self._line(state)
        pull = jnp.where(length > 0, self._pull(state, length, along), 0)
        return {"force": pull, "length": length, "rate": self._rate(state, along)}

    def potential(self, state):
        """Return the potential energy ½ k (ℓ − ℓ₀)²; zero without a stiffness."""
        if self.stiffness is None:
            return jnp.zeros((), state.q.dtype)
        length, _ = self._line(state)
        return self.stiffness * (length - self.free_length) ** 2 / 2

    def check(self, dimension):
        """Raise `ValueError` for wrong shapes, or an actuator that is not one number."""
        super().check(dimension)
        if self.actuator is not None:
            check_value(self.actuator, (), "actuator")


class SpringDamper(AbstractSpringDamper):
    """A spring, a damper and an actuator in parallel between two points.

    f = k (ℓ − ℓ₀) + c ℓ̇ + f_n(ℓ, ℓ̇) + f_a pulls them together. V = ½ k (ℓ − ℓ₀)²; f_n is not in it. If the points
    coincide there is no direction, and so no force.

    Args:
        i, j: names of the bodies.
        point_i, point_j: its ends in the body frames; the origins unless given.
        stiffness: k.
        damping: c.
        free_length: ℓ₀.
        actuator: f_a, a number, a motion or a function f(state) of a `State`; a function f(t, q, v) works too; positive
            pulls.
        force: f_n, any function of the length ℓ and the rate ℓ̇, such as `lambda length, rate: k * (length - l0) ** 3`.

    Examples:
        >>> strut = mbs.SpringDamper("ground", "a", stiffness=10.0, damping=2.0, free_length=1.0, actuator=4.0)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"strut": strut})
        >>> print(mbs.generalized_force(mech, {"a": (3, 0, 0)}, jnp.array([0.5, 0, 0])))  # −(20 + 1 + 4)
        [-25.   0.   0.]
    """


class Spring(AbstractSpringDamper):
    """A spring between two points: f = k (ℓ − ℓ₀) pulls them together, V = ½ k (ℓ − ℓ₀)².

    It may also have any other law f(ℓ, ℓ̇). The potential energy of such a law is not known and not in V.

    Args:
        i, j: names of the bodies.
        point_i, point_j: its ends in the body frames; the origins unless given.
        stiffness: k.
        free_length: ℓ₀.
        force: f(ℓ, ℓ̇), instead of the stiffness or in addition to it; positive pulls the points together.

    Examples:
        >>> spring = mbs.Spring("ground", "a", (0, 0), (0, 0), stiffness=10.0, free_length=1.0)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"spring": spring})
        >>> print(mbs.generalized_force(mech, {"a": (3, 0, 0)}, jnp.zeros(3)))
        [-20.   0.   0.]
        >>> stiffening = mbs.Spring("ground", "a", force=lambda length, rate: 50 * jnp.expm1(length) + 0.3 * rate)
    """

    needed: ClassVar[tuple[str, ...]] = ("stiffness", "force")

    def __init__(self, i, j, point_i=None, point_j=None, stiffness=None, free_length=0.0, *, force=None):
        super().__init__(i, j, point_i, point_j, stiffness, None, free_length, force=force)


class Damper(AbstractSpringDamper):
    """A damper between two points: f = c ℓ̇ pulls them together.

    Args:
        i, j: names of the bodies.
        point_i, point_j: its ends in the body frames; the origins unless given.
        damping: c.
        force: f(ℓ, ℓ̇), in place of the damping or beside it; positive pulls.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"damper": mbs.Damper("ground", "a", damping=2.0)})
        >>> print(mbs.generalized_force(mech, {"a": (3, 0, 0)}, jnp.array([0.5, 0, 0])))
        [-1.  0.  0.]
    """

    needed: ClassVar[tuple[str, ...]] = ("damping", "force")

    def __init__(self, i, j, point_i=None, point_j=None, damping=None, *, force=None):
        super().__init__(i, j, point_i, point_j, None, damping, force=force)


class AxialSpring(AbstractForce):
    """A spring and a damper along an axis of body i, in space.

    F = −k (s − s₀) − c ṡ + F_n(s, ṡ) acts on body j at point_j, along the axis; the opposite force acts on body i at the
    same place. s = u_iᵀ A_iᵀ (r_j^P − r_i^P), with the unit vector u_i, is the slide of a joint along the axis.
    V = ½ k (s − s₀)²; F_n is not in it.

    Args:
        i, j: names of the bodies.
        point_i, point_j: in the body frames; the origins unless given.
        axis_i: the axis in the frame of body i, of any length.
        stiffness: k.
        free_length: s₀, of either sign.
        damping: c.
        force: F_n, any function of the slide s and its rate; positive pushes body j along the axis.

    Examples:
        >>> spring = mbs.AxialSpring("ground", "a", axis_i=(0, 0, 1), stiffness=10.0, free_length=1.0)
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, forces={"spring": spring})
        >>> print(mbs.generalized_force(mech, {"a": spatial.coordinates((0, 0, 3))}, jnp.zeros(6)))
        [  0.   0. -20.   0.   0.   0.]
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array | None = real((None,), optional=True, default=None)
    point_j: Array | None = real((None,), optional=True, default=None)
    axis_i: Array | None = real((3,), optional=True, default=None)
    stiffness: Array | None = real(optional=True, default=None)
    free_length: Array = real(default=0.0)
    damping: Array | None = real(optional=True, default=None)
    force: Any = law_field("slide", "rate")
    needed: ClassVar[tuple[str, ...]] = ("stiffness", "damping", "force")

    def generalized(self, state):
        """Return the generalized force (m,) of F on body j and −F on body i, both at point_j along the axis."""
        i, j = state.poses[self.i], state.poses[self.j]
        point_on_i, point_j = self._place(state)
        force = self._push(state) * i.axis(self.axis_i)
        return opposite(state, self.i, i.force_at(point_on_i, -force), self.j, j.force_at(point_j, force))

    def _push(self, state):
        """Return F, the force on body j along the axis."""
        push = jnp.zeros((), state.q.dtype)
        if self.stiffness is not None:
            push = push - self.stiffness * (self._slide(state) - self.free_length)
        if self.damping is not None:
            push = push - self.damping * self._rate(state)
        if self.force is not None:
            push = push + self.force(self._slide(state), self._rate(state))
        return push

    def _place(self, state):
        """Return point_j in the frame of body i, and in the frame of body j."""
        i, j = state.poses[self.i], state.poses[self.j]
        _, point_j = points_of(self, i)
        return i.components(j.point(point_j) - i.r), point_j

    def _rate(self, state):
        """Return ṡ, the velocity of point_j relative to body i along the axis."""
        i, j = state.poses[self.i], state.poses[self.j]
        point_on_i, point_j = self._place(state)
        v_i, v_j = state.velocities[self.i], state.velocities[self.j]
        return i.axis(self.axis_i) @ (j.velocity(point_j, v_j) - i.velocity(point_on_i, v_i))

    def measures(self, state):
        """Return the force F on body j along the axis, the slide s as the length, and its rate."""
        return {"force": self._push(state), "length": self._slide(state), "rate": self._rate(state)}

    def _slide(self, state):
        """Return s, the distance of point_j from point_i along the axis."""
        i, j = state.poses[self.i], state.poses[self.j]
        point_i, point_j = points_of(self, i)
        return i.axis(self.axis_i) @ (j.point(point_j) - i.point(point_i))

    def potential(self, state):
        """Return the potential energy ½ k (s − s₀)²; zero without a stiffness."""
        if self.stiffness is None:
            return jnp.zeros((), state.q.dtype)
        return self.stiffness * (self._slide(state) - self.free_length) ** 2 / 2

    def check(self, dimension):
        """Raise `ValueError` in the plane, or without an axis."""
        super().check(dimension)
        require(dimension == 3, "it exists in space only")
        require(self.axis_i is not None, "axis_i is missing")
