"""Quantities of a motion by name, such as "rocker.phi", "acceleration.slider.x", "motor.effort"."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

import jax.numpy as jnp

from jaxmbs.dynamics.reactions import Reactions, reactions
from jaxmbs.formulations.stateful import state_names
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

QUANTITIES = (
    "a coordinate such as piston.x, velocity.piston.x, acceleration.piston.x, point(rod,0.3,0).x, effort of a driver "
    "(motor.effort), force or torque of a joint (B.force), state of a force (motor.current), energy.total, energy.kinetic, "
    "energy.potential"
)
POINT = re.compile(r"point\(([^,()]+)((?:,[^,()]+)*)\)\.([xyz])")


class Seen:
    """A motion of a mechanism, with its reactions where they are asked for.

    Attributes:
        mech, motion: the mechanism and its motion.
    """

    def __init__(self, mech: Mechanism, motion: Trajectory):
        self.mech, self.motion = mech, motion

    @cached_property
    def reactions(self) -> Reactions:
        """Of all joints and drivers."""
        return reactions(self.mech, self.motion)


def determined(model: Mechanism) -> bool:
    """Whether drivers determine the motion."""
    return bool(model.drivers) and len(model.layout.row_owners) >= model.layout.m


def quantity(model: Mechanism, what: str) -> Callable[[Seen], jnp.ndarray]:
    """What a name stands for: a function of a motion that gives its values (T,).

    Raises:
        ValueError: a name that says nothing about this model.
    """
    point = POINT.fullmatch(what)
    if point:
        return _of_point(model, what, point[1], point[2], point[3])
    kind, _, rest = what.partition(".")
    if kind == "energy" and rest in ("total", "kinetic", "potential"):
        if determined(model):
            raise ValueError(f"{what!r}: drivers determine this motion; there is an energy where forces do")
        return lambda seen: getattr(seen.motion.energy, rest)
    owner, _, effect = what.rpartition(".")
    if effect == "effort" and owner in model.drivers:
        return lambda seen: _single(what, seen.reactions[owner].effort)
    if effect in ("force", "torque") and (owner in model.constraints or owner in model.drivers):
        return lambda seen: _size(getattr(seen.reactions[owner], effect))
    if kind in ("velocity", "acceleration") and rest in model.layout.velocities:
        return lambda seen: getattr(seen.motion, kind)(rest)
    if what in state_names(model):
        return lambda seen: seen.motion.state(what)
    if what in model.layout.coordinates:
        return lambda seen: seen.motion.position(what)
    names = [*model.layout.coordinates, *(f"{name}.effort" for name in model.drivers)]
    raise ValueError(f"{what!r} is not a quantity of this model: give {QUANTITIES}; here are {', '.join(names)}")


def _of_point(model, what: str, body: str, numbers: str, axis: str) -> Callable[[Seen], jnp.ndarray]:
    """A coordinate of a point of a body."""
    if body not in model.bodies:
        raise ValueError(f"{what!r}: there is no body {body!r}; there are {', '.join(model.bodies)}")
    dimension = model.bodies[body].dimension
    try:
        place = tuple(float(x) for x in numbers.split(",")[1:])
    except ValueError:
        place = ()
    if len(place) != dimension or "xyz".index(axis) >= dimension:
        raise ValueError(f"{what!r}: a point of {body!r} has {dimension} coordinates, as has what is recorded of it")
    return lambda seen: seen.motion.point(body, place)[:, "xyz".index(axis)]


def _single(what: str, effort):
    """An effort that is one number at each time."""
    if effort is None or effort.size != len(effort):
        raise ValueError(f"{what!r}: is none, or several; record the force or the torque")
    return effort.reshape(-1)


def _size(x):
    """The length of vectors, and the amount of numbers; where it is zero its derivative is zero."""
    if x.ndim == 1:
        return jnp.abs(x)
    square = jnp.sum(x * x, axis=-1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
