"""Forces on the bodies of a mechanism, in the plane and in space alike.

A force is a small class: `generalized` gives its part of Q, conjugate to the velocities v, and `potential` its potential
energy, if it has one. Elements between two bodies act on both, with opposite signs.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, require, unknown
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import as_pytree, as_real, check_fields, is_concrete, is_scalar, real
from jaxmbs.relative_motion import BodyMotion, JointMotion, coordinates_of, measured


class State(eqx.Module):
    """A mechanism in motion, as forces see it, with access by name for the functions of users.

    `state["rod"].point((0.1, 0))`, `.velocity((0.1, 0))`, `.angle` in the plane, `.rotation`, `.angular_velocity`: see
    `BodyMotion`. `state.joint("pin").angle`, `.rate`, `.slide`, `.slide_rate`: see `JointMotion`.

    Attributes:
        bodies, poses, velocities: by name; the poses and velocities with those of "ground".
        slices: entries of v for each body.
        t, q, v: time, coordinates and velocities of the whole mechanism.
        elements: its constraints and drivers by name.
    """

    bodies: Mapping[str, Any]
    poses: Mapping[str, Any]
    velocities: Mapping[str, Array]
    slices: Mapping[str, slice] = eqx.field(static=True)
    t: Float[Array, ""]
    q: Float[Array, " n"]
    v: Float[Array, " n"]
    elements: Mapping[str, AbstractConstraint]

    def __getitem__(self, body: str) -> BodyMotion:
        """A body in motion, or "ground".

        Raises:
            ValueError: an unknown name.
        """
        if body not in self.poses:
            raise ValueError(unknown("body", body, self.bodies))
        return BodyMotion(self.poses[body], self.velocities[body])

    def joint(self, name: str, coordinate: str | None = None) -> JointMotion:
        """Angle and slide of a joint, with their rates; arguments as in `Trajectory.joint`.

        Raises:
            ValueError: an unknown name; or, when it is asked for, an angle or a slide that the joint does not have.
        """
        of = coordinates_of(self.elements, name, coordinate)
        joint, kind = self.elements[name], type(next(iter(self.bodies.values())))
        ends = [(kind.coordinates_of(self.poses[body]), self.velocities[body]) for body in (joint.i, joint.j)]
        values, rates = measured(joint, kind, *ends)
        return JointMotion(of, values, rates)

    def generalized(self, loads: Mapping[str, Array]) -> Float[Array, " n"]:
        """Generalized forces of single bodies, by name, as one of the mechanism; what acts on the ground is left out."""
        total = jnp.zeros_like(self.v)
        for body, load in loads.items():
            if body != GROUND:
                total = total.at[self.slices[body]].add(load)
        return total


def opposite(state: State, i: str, on_i, j: str, on_j) -> Float[Array, " n"]:
    """The generalized force of loads on two bodies."""
    return state.generalized({i: on_i}) + state.generalized({j: on_j})


class AbstractForce(eqx.Module):
    """A force on some of the bodies."""

    @abc.abstractmethod
    def generalized(self, state: State) -> Float[Array, " n"]:
        """Its part of the generalized force Q, conjugate to v."""

    def potential(self, state: State) -> Float[Array, ""]:
        """Potential energy; zero for a force that has none."""
        return jnp.zeros((), state.q.dtype)

    @property
    def uniform(self) -> Array | None:
        """The acceleration that it gives to every mass, wherever it is, if that is all that it does."""
        return None

    @property
    def acts_on(self) -> tuple[str, ...]:
        """Names of the bodies that it refers to."""
        return tuple(getattr(self, name) for name in ("i", "j", "body") if hasattr(self, name))

    def check(self, dimension: int) -> None:
        """Raise `ValueError` if the force cannot act in a space of `dimension`."""
        check_fields(self)
        same = self.acts_on[:1] if len(set(self.acts_on)) < len(self.acts_on) else ()
        require(not same, f"connects {same[0]!r} with itself" if same else "")
        for name, value in vars(self).items():
            if name.startswith("point") and value is not None:
                require(jnp.shape(value) == (dimension,), f"{name} must have shape ({dimension},)")
            if isinstance(value, AbstractMotion):
                try:
                    value.check()
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None


class Gravity(AbstractForce):
    """Weight of every body: V = −Σ m gᵀ r_c.

    Args:
        acceleration: g in the ground frame, (2,) in the plane or (3,) in space.
    """

    acceleration: Array = real((None,))

    @property
    def uniform(self):
        return self.acceleration

    def generalized(self, state):
        weight = lambda name, body: state.poses[name].force_at(body.com, body.mass * self.acceleration)
        return state.generalized({name: weight(name, body) for name, body in state.bodies.items()})

    def potential(self, state):
        lifted = lambda name, body: -body.mass * (self.acceleration @ body.centre_of_mass(state.poses[name]))
        return sum(lifted(name, body) for name, body in state.bodies.items())

    def check(self, dimension):
        super().check(dimension)
        got = jnp.shape(self.acceleration)
        require(got == (dimension,), f"acceleration must have shape ({dimension},), got {got}")


# --- values that depend on the state ----------------------------------------------------------------------------------


class OfState(eqx.Module):
    """A function of the user that takes the whole `State`."""

    f: Callable

    def __call__(self, state: State):
        return self.f(state)


def as_function(f):
    """A function of the user: f(state) if it takes one argument, of several ones otherwise."""
    if not callable(f) or isinstance(f, OfState):
        return f
    try:
        taken = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # of C code, which does not say
        return as_pytree(f)
    several = any(p.kind is p.VAR_POSITIONAL for p in taken)
    needed = [p for p in taken if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return OfState(as_pytree(f)) if len(needed) == 1 and not several else as_pytree(f)


def as_value(x):
    """A number or vector, a motion, a function f(state) or f(t, q, v), or components of these."""
    if x is None or isinstance(x, AbstractMotion):
        return x
    if callable(x):
        return as_function(x)
    if isinstance(x, (tuple, list)) and any(callable(part) for part in x):
        return tuple(as_value(part) for part in x)
    return as_real(x)


def value_field(**kwargs):
    """A field for what `as_value` takes."""
    return eqx.field(converter=as_value, **kwargs)


def evaluate(value, state: State, shape: tuple[int, ...], name: str) -> Array:
    """The value of a field made by `value_field` in a state.

    Raises:
        ValueError: it has not the shape that it should have.
    """
    if isinstance(value, tuple):
        return jnp.stack([evaluate(part, state, (), name) for part in value])
    if isinstance(value, AbstractMotion):
        value = value(state.t)
    elif isinstance(value, OfState):
        value = value(state)
    elif callable(value):
        value = value(state.t, state.q, state.v)
    value = jnp.asarray(value, state.q.dtype)
    require(value.shape == shape, f"{name} must have shape {shape}, got {value.shape}")
    return value


def check_value(value, shape: tuple[int, ...], name: str) -> None:
    """Raise `ValueError` for a value that cannot be used, as far as it is known."""
    require(value is not None, f"{name} is missing")
    if isinstance(value, tuple):
        require(len(value) == sum(shape), f"{name} must have {sum(shape)} components, got {len(value)}")
        for part in value:
            check_value(part, (), name)
    elif isinstance(value, AbstractMotion):
        value.check()
    elif not callable(value):
        is_array = getattr(getattr(value, "dtype", None), "kind", "O") in "fV"
        require(is_array, f"{name} must be numbers, a motion or a function of the state, got {value!r}")
        require(jnp.shape(value) == shape, f"{name} must have shape {shape}, got {jnp.shape(value)}")
        if is_concrete(value):
            require(np.all(np.isfinite(np.asarray(value))), f"{name} must be finite, got {np.asarray(value)}")


# --- between two points -----------------------------------------------------------------------------------------------


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
        actuator: f_a, a number, a motion or f(state); positive pulls.
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


class TorsionSpring(AbstractForce):
    """A spring, a damper and an actuator about the axis between two bodies: T = −k (θ − θ₀) − c θ̇ + T_a on body j.

    θ is the angle of j relative to i: in the plane with full turns counted, in space about the axis that both bodies turn
    about, in (−π, π], zero where axis_j comes from axis_i by the shortest rotation. V = ½ k (θ − θ₀)². With `middle`
    m it is in (m − π, m + π].

    Args:
        i, j: names of the bodies.
        stiffness: k. free_angle: θ₀ in radians. damping: c. Points before them are accepted; they have no effect.
        actuator: T_a, a number, a motion or f(state); positive turns j forward.
        axis_i, axis_j: in space, the axis in the body frames; z unless given, `axis_j` as `axis_i` unless given.
        middle: m, in space, of the turn in which θ is counted; zero unless given.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    stiffness: Array | None = real(optional=True)
    free_angle: Array = real()
    damping: Array | None = real(optional=True)
    actuator: Any = value_field()
    axis_i: Array | None = real((3,), optional=True)
    axis_j: Array | None = real((3,), optional=True)
    middle: Array | None = real(optional=True)

    def __init__(self, i, j, *numbers, actuator=None, axis_i=None, axis_j=None, middle=None, **named):
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
        self.i, self.j, self.actuator = i, j, actuator
        self.axis_i, self.axis_j, self.middle = axis_i, axis_j, middle
        self.stiffness, self.damping = given.get("stiffness"), given.get("damping")
        self.free_angle = given.get("free_angle", 0.0)

    def generalized(self, state):
        i, j = state.poses[self.i], state.poses[self.j]
        torque = jnp.zeros((), state.q.dtype)
        if self.stiffness is not None:
            torque = torque - self.stiffness * (self._angle(state) - self.free_angle)
        if self.damping is not None:
            axis, _ = self._axes(state)
            torque = torque - self.damping * i.spin_to(j, state.velocities[self.i], state.velocities[self.j], axis)
        if self.actuator is not None:
            torque = torque + evaluate(self.actuator, state, (), "actuator")
        torque = torque * i.axis(self._axes(state)[0])
        return opposite(state, self.i, i.torque(-torque), self.j, j.torque(torque))

    def _axes(self, state):
        axis_i = jnp.array([0.0, 0, 1], state.q.dtype) if self.axis_i is None else self.axis_i
        return axis_i, self.axis_j

    def potential(self, state):
        if self.stiffness is None:
            return super().potential(state)
        return self.stiffness * (self._angle(state) - self.free_angle) ** 2 / 2

    def _angle(self, state):
        angle = state.poses[self.i].angle_to(state.poses[self.j], *self._axes(state))
        if self.middle is None:
            return angle
        beyond = angle - self.middle
        return self.middle + jnp.arctan2(jnp.sin(beyond), jnp.cos(beyond))

    def check(self, dimension):
        super().check(dimension)
        known = (self.stiffness, self.damping, self.actuator)
        require(any(x is not None for x in known), "stiffness, damping or actuator is missing")
        require(dimension == 3 or (self.axis_i is None and self.axis_j is None), "an axis has no place in the plane")
        require(dimension == 3 or self.middle is None, "middle has no place in the plane, where turns are counted")
        for name in ("axis_i", "axis_j"):
            axis = getattr(self, name)
            known_axis = axis is not None and is_concrete(axis)
            require(not known_axis or np.any(np.asarray(axis) != 0), f"{name} has no length")
        if self.actuator is not None:
            check_value(self.actuator, (), "actuator")


class TorsionDamper(TorsionSpring):
    """A damper about the axis between two bodies: T = −c θ̇ on body j.

    Args:
        i, j: names of the bodies.
        damping: c.
        axis_i, axis_j: see `TorsionSpring`.
    """

    def __init__(self, i, j, damping=None, *, axis_i=None, axis_j=None):
        super().__init__(i, j, damping=damping, axis_i=axis_i, axis_j=axis_j)


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


# --- given forces -----------------------------------------------------------------------------------------------------


class Torque(AbstractForce):
    """A torque on a body.

    Args:
        body: its name.
        value: a number in the plane, in space a vector in the ground frame; or a motion, or f(state).
        reaction: name of the body that bears the opposite torque; the ground unless given.
        follower: whether the vector turns with the body; in the ground frame otherwise.
    """

    body: str = eqx.field(static=True)
    value: Any = value_field()
    reaction: str = eqx.field(static=True, default=GROUND)
    follower: bool = eqx.field(static=True, default=False, kw_only=True)

    shapes: ClassVar[dict[int, tuple[int, ...]]] = {2: (), 3: (3,)}

    def generalized(self, state):
        on, other = state.poses[self.body], state.poses[self.reaction]
        torque = evaluate(self.value, state, self.shapes[state.bodies[self.body].dimension], "value")
        torque = on.direction(torque) if self.follower and torque.ndim else torque
        return opposite(state, self.reaction, other.torque(-torque), self.body, on.torque(torque))

    @property
    def acts_on(self):
        return (self.body, self.reaction)

    def check(self, dimension):
        require(self.body != GROUND, "a torque on the ground moves nothing")
        super().check(dimension)
        check_value(self.value, self.shapes[dimension], "value")


class PointForce(AbstractForce):
    """A force at a point of a body.

    Args:
        body: its name.
        point: in the body frame.
        value: a vector, constant or f(state), or components that are numbers, motions or such functions.
        follower: whether the vector turns with the body; in the ground frame otherwise.
    """

    body: str = eqx.field(static=True)
    point: Array = real((None,))
    value: Any = value_field()
    follower: bool = eqx.field(static=True, default=False, kw_only=True)

    def generalized(self, state):
        pose = state.poses[self.body]
        force = evaluate(self.value, state, self.point.shape, "value")
        force = pose.direction(force) if self.follower else force
        return state.generalized({self.body: pose.force_at(self.point, force)})

    def check(self, dimension):
        super().check(dimension)
        check_value(self.value, (dimension,), "value")


class UserForce(AbstractForce):
    """Any generalized force: `f(state)` gives Q (m,), conjugate to the velocities v. Numbers and arrays of JAX
    that `f` closes over may be traced, and are differentiated; arrays of NumPy are constants.

    Args:
        f: the function, of the `State` or of (q, v, t).
        potential_energy: V(q), if the force has a potential; it counts in the energy only.
    """

    f: Callable = eqx.field(converter=as_function)
    potential_energy: Callable | None = eqx.field(default=None, converter=lambda f: as_pytree(f) if callable(f) else f)

    def generalized(self, state):
        value = self.f(state) if isinstance(self.f, OfState) else self.f(state.q, state.v, state.t)
        value = jnp.asarray(value, state.q.dtype)
        require(value.shape == state.v.shape, f"f must give shape {state.v.shape}, got {value.shape}")
        return value

    def potential(self, state):
        if self.potential_energy is None:
            return super().potential(state)
        return jnp.asarray(self.potential_energy(state.q), state.q.dtype)

    def check(self, dimension):
        require(callable(self.f), f"f must be a function of the state, got {self.f!r}")
        super().check(dimension)
