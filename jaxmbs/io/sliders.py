"""Numbers that a page can change: lengths of a mechanism, and drivers for joints that nothing moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar, spatial
from jaxmbs.analyses.diagnosis import diagnose
from jaxmbs.element import GROUND, POINT_OWNERS, AbstractConstraint, require
from jaxmbs.io.models.changes import driver_of
from jaxmbs.motion import Constant
from jaxmbs.numerics.arrays import with_fields
from jaxmbs.system.idle import idle_spins
from jaxmbs.system.marks import with_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Lower bound of the slider of a length, divided by its first value.
MIN_LENGTH = 0.25
# Upper bound of the slider of a length, divided by its first value.
MAX_LENGTH = 2.5
# Two points of a body count as one if their distance, divided by the largest coordinate, is smaller.
SAME_POINT = 1e-9
# Groups of elements of a mechanism.
GROUPS = ("constraints", "drivers", "forces")


class Slider(NamedTuple):
    """A number with its range.

    Attributes:
        name: text beside the slider.
        low: smallest value.
        high: largest value.
        value: first value.
    """

    name: str
    low: float
    high: float
    value: float


class Length(NamedTuple):
    """The distance of two joints of a body, or a length that an element has.

    Attributes:
        slider: name, range and first value.
        places: the fields (group, element, field) that depend on it.
        base: value of these fields for the length 0.
        direction: their change with the length.
    """

    slider: Slider
    places: list[tuple[str, str, str]]
    base: Any
    direction: Any


def lengths_of(mech: Mechanism) -> list[Length]:
    """Return the lengths of a mechanism: on each body the distances of its joints from the first one, and rods."""
    found = []
    for body in (*mech.bodies, GROUND):
        clusters = _points_of_joints(mech, body)
        for places, point in clusters[1:]:
            arm = point - clusters[0][1]
            length = float(np.linalg.norm(arm))
            if _only_moves_a_line(mech, places, arm):
                continue
            ends = f"{clusters[0][0][0][1]}–{places[0][1]}"
            name = body if len(clusters) == 2 and body != GROUND else f"{body} {ends}"
            found.append(Length(_slider(name, length), places, clusters[0][1], arm / length))
    for name, element in mech.constraints.items():
        distance: Any = getattr(element, "distance", None)
        if distance is not None and np.ndim(distance) == 0:
            found.append(Length(_slider(name, float(distance)), [("constraints", name, "distance")], 0.0, 1.0))
    return found


def with_lengths(mech: Mechanism, lengths: Sequence[Length], values: Any) -> Mechanism:
    """Return the mechanism with other lengths, which may be traced."""
    changed: dict[tuple[str, str], dict[str, Any]] = {}
    for k, length in enumerate(lengths):
        for group, name, field in length.places:
            changed.setdefault((group, name), {})[field] = length.base + values[k] * jnp.asarray(length.direction)
    groups = {
        f"_{group}": tuple(
            with_fields(type(x), x, **changed[group, name]) if (group, name) in changed else x
            for name, x in getattr(mech, group).items()
        )
        for group in GROUPS
    }
    return with_fields(Mechanism, mech, **groups)


def _slider(name: str, length: float) -> Slider:
    """Return the slider of a length."""
    return Slider(name, MIN_LENGTH * length, MAX_LENGTH * length, length)


def _points_of_joints(mech: Mechanism, body: str) -> list[tuple[list[tuple[str, str, str]], np.ndarray]]:
    """Return the places where constraints hold a body: the fields of all elements with this point, and the point."""
    found: list[tuple[list[tuple[str, str, str]], np.ndarray]] = []
    for group in GROUPS:
        for name, element in getattr(mech, group).items():
            for field, point in _points_on(element, body):
                small = SAME_POINT * max((float(np.abs(p).max()) for _, p in [*found, ([], point)]), default=1.0)
                same = [places for places, p in found if np.abs(p - point).max() <= small]
                if same:
                    same[0].append((group, name, field))
                elif group == "constraints":
                    found.append(([(group, name, field)], point))
    return found


def _points_on(element: Any, body: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the fields of an element that are points of a body, with their values."""
    owners = {field: getattr(element, owner, None) for field, owner in POINT_OWNERS.items()} | {"centre": GROUND}
    for field, owner in owners.items():
        if owner == body and getattr(element, field, None) is not None:
            yield field, np.asarray(getattr(element, field), float)


def _only_moves_a_line(mech: Mechanism, places: Sequence[tuple[str, str, str]], arm: np.ndarray) -> bool:
    """Return True if moving a point along `arm` changes no constraint, because it only marks lines along `arm`."""
    joints = [(mech.constraints[name], field[-1]) for group, name, field in places if group == "constraints"]
    slides = (planar.Translational, planar.RevoluteTranslational, spatial.Prismatic, spatial.Cylindrical)
    if not all(isinstance(joint, slides) for joint, _ in joints):
        return False
    axes = [np.asarray(getattr(joint, f"axis_{side}", np.zeros(len(arm))), float) for joint, side in joints]
    return all(abs(axis @ arm) > (1 - 1e-9) * np.linalg.norm(axis) * np.linalg.norm(arm) for axis in axes)


def missing_drivers(mech: Mechanism, q: Any) -> dict[str, AbstractConstraint]:
    """Return drivers of joints, in their order, that determine the motion together with those of the mechanism.

    Raises:
        ValueError: no joints can be driven so that the motion is determined.
    """
    found: dict[str, AbstractConstraint] = {}
    idle = len(idle_spins(mech))
    moved = any(x.motions for x in (*mech.drivers.values(), *mech.constraints.values()))
    # With as many equations as velocities nothing is missing; `kinematics` names drivers that are redundant.
    if moved and mech.layout.m - idle <= len(mech.layout.row_owners):
        return found
    mech = with_marks(mech, q)
    left = diagnose(mech, q).free - idle
    for name, joint in mech.constraints.items():
        if left <= 0:
            break
        try:
            driver = driver_of(name, joint, Constant(jnp.asarray(_joint_coordinate(mech, q, name))))
        except ValueError:
            continue
        more = {**found, f"{name} drive": driver}
        free = diagnose(with_drivers(mech, more), q).free - idle
        if free < left:
            found, left = more, free
    require(left > 0 or moved or found, "the mechanism cannot move: it has no degree of freedom")
    if left > 0:
        raise ValueError("the motion is not determined, and no joint can be driven that determines it: add drivers")
    return found


def with_drivers(mech: Mechanism, drivers: dict[str, AbstractConstraint]) -> Mechanism:
    """Return the mechanism with more drivers."""
    return Mechanism(mech.bodies, mech.constraints, {**mech.drivers, **drivers}, mech.forces)


def _joint_coordinate(mech: Mechanism, q: Any, name: str) -> float:
    """Return the angle of a hinge, or the slide of a slide, in a configuration."""
    rest = jnp.zeros((1, mech.layout.m), q.dtype)
    motion = Trajectory(jnp.zeros(1, q.dtype), q[None], rest, rest, jnp.zeros(1, jnp.int32), mech.layout)
    return float(motion.of(mech).joint(name).values[0, 0])
