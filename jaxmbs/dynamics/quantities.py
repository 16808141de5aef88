"""Quantities of a motion by name, such as "rocker.phi", "acceleration.slider.x", "motor.effort"."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

import jax.numpy as jnp

from jaxmbs.dynamics.reactions import Reactions, reactions
from jaxmbs.formulations.stateful import state_names
from jaxmbs.relative_motion import JointMotion, coordinates_of
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Kinds of names that `quantity` accepts, with examples, for its messages.
QUANTITIES = (
    "a coordinate such as piston.x, velocity.piston.x, acceleration.piston.x, point(rod,0.3,0).x, effort of a driver "
    "(motor.effort), force or torque of a joint (B.force, or B.force.x in the ground frame), angle or slide of a joint "
    "(pin.phi, velocity.pin.phi), state of a force (motor.current), energy.total, energy.kinetic, energy.potential"
)
# Name of a coordinate of a point, as in "point(rod,0.3,0).x": body, coordinates in its frame, axis of the ground frame.
POINT = re.compile(r"point\(([^,()]+)((?:,[^,()]+)*)\)\.([xyz])")

# Names of the axes of the ground frame.
AXES = "xyz"


class MotionWithReactions:
    """A motion of a mechanism, and its reactions, which are computed when they are first read."""

    def __init__(self, mech: Mechanism, motion: Trajectory):
        self.mech, self.motion = mech, motion

    @cached_property
    def reactions(self) -> Reactions:
        """Reactions of all joints and drivers along the motion."""
        return reactions(self.mech, self.motion)


def is_driven(model: Mechanism) -> bool:
    """Return True if the mechanism has drivers and at least as many equations as velocities."""
    return bool(model.drivers) and len(model.layout.row_owners) >= model.layout.m


def quantity(model: Mechanism, name: str) -> Callable[[MotionWithReactions], jnp.ndarray]:
    """Return the function of a motion that computes the values (T,) of the quantity with this name.

    Raises:
        ValueError: the model has no quantity of this name.
    """
    point = POINT.fullmatch(name)
    if point:
        return _point_coordinate(model, name, point[1], point[2], point[3])
    kind, _, rest = name.partition(".")
    if kind == "energy" and rest in ("total", "kinetic", "potential"):
        if is_driven(model):
            raise ValueError(
                f"{name!r}: energy is recorded only in simulations, and the drivers of this mechanism determine its motion"
            )
        return lambda run: getattr(run.motion.energy, rest)
    owner, _, effect = name.rpartition(".")
    elements = {**model.constraints, **model.drivers}

    def is_joint_coordinate(joint: str, coordinate: str) -> bool:
        """Return True if a joint has an angle or slide of this name."""
        if joint not in elements or elements[joint].freedom is None:
            return False
        of = coordinates_of(elements, joint, None)
        return coordinate in of.slides + of.angles

    if effect == "effort" and owner in model.drivers:
        return lambda run: _single_effort(name, run.reactions[owner].effort)
    if effect in ("force", "torque") and owner in elements:
        return lambda run: _magnitude(getattr(run.reactions[owner], effect))
    joint, _, part = owner.rpartition(".")
    if part in ("force", "torque") and effect in AXES[: model.layout.dimension] and joint in elements:
        return lambda run: _component(name, getattr(run.reactions[joint], part), AXES.index(effect))
    if kind in ("velocity", "acceleration") and rest in model.layout.velocities:
        return lambda run: getattr(run.motion, kind)(rest)
    if name in state_names(model):
        return lambda run: run.motion.state(name)
    if name in model.layout.coordinates:
        return lambda run: run.motion.position(name)
    if kind in ("velocity", "acceleration") and is_joint_coordinate(*rest.rpartition(".")[::2]):
        joint, _, effect = rest.rpartition(".")
        return lambda run: _joint_coordinate(
            run.motion.joint(joint, effect), {"velocity": "rates"}.get(kind, "accelerations")
        )
    if is_joint_coordinate(owner, effect):
        return lambda run: _joint_coordinate(run.motion.joint(owner, effect), "values")
    names = [*model.layout.coordinates, *(f"{driver}.effort" for driver in model.drivers)]
    raise ValueError(f"{name!r} is not a quantity of this model: give {QUANTITIES}; here are {', '.join(names)}")


def _point_coordinate(
    model, name: str, body: str, coordinates: str, axis: str
) -> Callable[[MotionWithReactions], jnp.ndarray]:
    """Return the function of a motion that gives one coordinate (T,) of a body's point in the ground frame."""
    if body not in model.bodies:
        raise ValueError(f"{name!r}: there is no body {body!r}; there are {', '.join(model.bodies)}")
    dimension = model.bodies[body].dimension
    try:
        s = tuple(float(x) for x in coordinates.split(",")[1:])
    except ValueError:
        s = ()
    if len(s) != dimension or "xyz".index(axis) >= dimension:
        axes = ", ".join("xyz"[:dimension])
        raise ValueError(f"{name!r}: points of {body!r} have {dimension} coordinates, {axes}, all of them numbers")
    return lambda run: run.motion.point(body, s)[:, "xyz".index(axis)]


def _single_effort(name: str, effort):
    """Return an effort of one number at each time, (T,), or raise `ValueError` if there is none, or several."""
    if effort is None or effort.size != len(effort):
        raise ValueError(f"{name!r}: this driver has no effort, or several; record its force or its torque")
    return effort.reshape(-1)


def _joint_coordinate(joint: JointMotion, kind: str):
    """Return one coordinate of a joint over time, (T,): its "values", "rates" or "accelerations"."""
    return getattr(joint, kind)[..., joint.of.single_index()]


def _component(name: str, x, axis: int):
    """Return a component (T,) of vectors (T, d); the torque of a planar joint, (T,), has none: `ValueError`."""
    if x.ndim == 1:
        raise ValueError(f"{name!r}: this torque is a number; leave out the axis")
    return x[:, axis]


def _magnitude(x):
    """Return the lengths of vectors (T, d), or absolute values of numbers (T,); at zero the derivative is zero."""
    if x.ndim == 1:
        return jnp.abs(x)
    square = jnp.sum(x * x, axis=-1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
