"""Springs, dampers and actuators about the axis between two bodies."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import near_angle, opposite
from jaxmbs.forces.values import check_value, evaluate, law_field, value_field
from jaxmbs.numerics.arrays import is_scalar, real


class AbstractTorsionSpring(AbstractForce):
    """A torque between two bodies about their common axis: T = −k (θ − θ₀) − c θ̇ + T_n(θ, θ̇) + T_a on body j.

    Args:
        i, j, stiffness, free_angle, damping, actuator, axis_i, axis_j, middle, torque: see `TorsionSpring`.

    Examples:
        >>> issubclass(mbs.TorsionDamper, mbs.forces.AbstractTorsionSpring)
        True
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    stiffness: Array | None = real(optional=True, default=None)
    free_angle: Array = real(default=0.0)
    damping: Array | None = real(optional=True, default=None)
    actuator: Any = value_field(default=None)
    axis_i: Array | None = real((3,), optional=True, default=None)
    axis_j: Array | None = real((3,), optional=True, default=None)
    middle: Array | None = real(optional=True, default=None)
    torque: Any = law_field("angle", "rate")

    def generalized(self, state):
        """Return the generalized force (m,) of T on body j and −T on body i about the axis."""
        i, j = state.poses[self.i], state.poses[self.j]
        torque = self._torque(state) * i.axis(self._axes(state)[0])
        return opposite(state, self.i, i.torque(-torque), self.j, j.torque(torque))

    def _torque(self, state):
        """Return T, the torque on body j about the axis."""
        torque = jnp.zeros((), state.q.dtype)
        if self.stiffness is not None:
            torque = torque - self.stiffness * (self._angle(state) - self.free_angle)
        if self.damping is not None:
            torque = torque - self.damping * self._rate(state)
        if self.actuator is not None:
            torque = torque + evaluate(self.actuator, state, (), "actuator")
        if self.torque is not None:
            torque = torque + self.torque(self._angle(state), self._rate(state))
        return torque

    def _rate(self, state):
        """Return θ̇, the angular velocity of body j relative to body i about the axis."""
        i, j = state.poses[self.i], state.poses[self.j]
        return i.spin_to(j, state.velocities[self.i], state.velocities[self.j], self._axes(state)[0])

    def measures(self, state):
        """Return the torque T on body j, the angle θ of j relative to i in radians, and its rate."""
        return {"torque": self._torque(state), "angle": self._angle(state), "rate": self._rate(state)}

    def _axes(self, state):
        """Return the axis in both body frames, z unless given; None for the second if it is that of the first."""
        axis_i = jnp.array([0.0, 0, 1], state.q.dtype) if self.axis_i is None else self.axis_i
        return axis_i, self.axis_j

    def potential(self, state):
        """Return the potential energy ½ k (θ − θ₀)²; zero without a stiffness."""
        if self.stiffness is None:
            return jnp.zeros((), state.q.dtype)
        return self.stiffness * (self._angle(state) - self.free_angle) ** 2 / 2

    def _angle(self, state):
        """Return θ, the angle of body j relative to body i; within half a turn of `middle` if this is given."""
        angle = state.poses[self.i].angle_to(state.poses[self.j], *self._axes(state))
        return angle if self.middle is None else near_angle(angle, self.middle)

    def check(self, dimension):
        """Raise `ValueError` for axes or a middle in the plane, or an unusable actuator."""
        super().check(dimension)
        require(dimension == 3 or (self.axis_i is None and self.axis_j is None), "an axis has no place in the plane")
        require(dimension == 3 or self.middle is None, "middle has no place in the plane, where turns are counted")
        if self.actuator is not None:
            check_value(self.actuator, (), "actuator")


class TorsionSpring(AbstractTorsionSpring):
    """A spring, a damper and an actuator about the axis between two bodies.

    T = −k (θ − θ₀) − c θ̇ + T_n(θ, θ̇) + T_a acts on body j, the opposite torque on body i. θ is the angle of j relative to
    i. In the plane, full turns are counted. In space, θ is the angle about the common axis of both bodies, in (−π, π]; it
    is zero if body j is turned from body i by the shortest rotation that takes axis_j to axis_i: with equal axes, if the
    bodies are parallel. With `middle` m it is in (m − π, m + π]. V = ½ k (θ − θ₀)²; T_n is not in it.

    Args:
        i, j: names of the bodies. The numbers k, θ₀, c may follow without names, in this order. Points may stand
            before them, as in a `Spring`; this spring does not use them.
        stiffness: k.
        free_angle: θ₀ in radians.
        damping: c.
        actuator: T_a, a number, a motion or a function f(state) of a `State`; a function f(t, q, v) works too; positive
            turns j in the positive sense.
        torque: T_n, any function of the angle θ and the rate θ̇, such as `lambda angle, rate: -k * angle**3`.
        axis_i, axis_j: in space, the axis in the body frames; z unless given, `axis_j` as `axis_i` unless given.
        middle: m, in space: the middle of the turn in which θ is counted; zero unless given.

    Examples:
        >>> spring = mbs.TorsionSpring("ground", "a", stiffness=10.0, free_angle=0.5)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"spring": spring})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 2.0)}, jnp.zeros(3)))
        [  0.   0. -15.]
    """

    needed: ClassVar[tuple[str, ...]] = ("stiffness", "damping", "actuator", "torque")

    def __init__(self, i, j, *numbers, actuator=None, axis_i=None, axis_j=None, middle=None, torque=None, **named):
        # Vectors before the numbers are points, those after them axes.
        first = next((k for k, x in enumerate(numbers) if is_scalar(x)), len(numbers))
        vectors = [x for x in numbers[first:] if not is_scalar(x)]
        require(len(vectors) <= 2, "too many vectors: axis_i and axis_j are what it takes")
        axis_i, axis_j = (*vectors, axis_i, axis_j)[:2] if len(vectors) != 1 else (vectors[0], axis_j)
        numbers = tuple(x for x in numbers if is_scalar(x))
        names = ("stiffness", "free_angle", "damping")
        require(len(numbers) <= len(names), f"too many numbers: {', '.join(names)} are what it takes")
        given = dict(zip(names, numbers, strict=False))
        twice = [name for name in named if name in given or name not in (*names, "point_i", "point_j")]
        if twice:
            raise TypeError(f"unexpected argument {twice[0]!r}")
        given |= named
        stiffness, free_angle, damping = given.get("stiffness"), given.get("free_angle", 0.0), given.get("damping")
        super().__init__(i, j, stiffness, free_angle, damping, actuator, axis_i, axis_j, middle, torque=torque)


class TorsionDamper(AbstractTorsionSpring):
    """A damper about the axis between two bodies: T = −c θ̇ on body j.

    Args:
        i, j: names of the bodies.
        damping: c.
        axis_i, axis_j: in space, the axis in the body frames; z unless given, `axis_j` as `axis_i` unless given.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"damper": mbs.TorsionDamper("ground", "a", 2.0)})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.array([0.0, 0, 3])))
        [ 0.  0. -6.]
    """

    needed: ClassVar[tuple[str, ...]] = ("damping",)

    def __init__(self, i, j, damping=None, *, axis_i=None, axis_j=None):
        super().__init__(i, j, damping=damping, axis_i=axis_i, axis_j=axis_j)
