"""Joints of SDF: their primitives, and the choice of the joints that form a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from jaxmbs.io.models.links.tree import BALL, HINGE, SLIDE, PrimitiveJoint, open_range
from jaxmbs.io.models.model import ModelError
from jaxmbs.io.models.notes import Notes
from jaxmbs.io.models.sdf.poses import MODEL, WORLD, Frames, Place, number_of, text_of, vector_of

# Kinds of the primitives of each type of joint; a gearbox couples two other joints.
TYPES: dict[str, tuple[str, ...]] = {
    "fixed": (),
    "revolute": (HINGE,),
    "continuous": (HINGE,),
    "prismatic": (SLIDE,),
    "ball": (BALL,),
    "universal": (HINGE, HINGE),
    "revolute2": (HINGE, HINGE),
    "screw": (SLIDE, HINGE),
    "gearbox": (),
}
# Types of joints that close loops rather than carry a link, if there is a choice.
LOOP_CLOSING_TYPES = ("ball", "universal", "revolute2")
# Axes were given in the frame of the model up to this version of SDF, in the frame of the joint later.
LAST_WITH_MODEL_AXES = (1, 4)


class SdfJoint(NamedTuple):
    """A joint of SDF.

    Attributes:
        name: its name.
        kind: its type, a key of `TYPES`.
        parent: name of the parent link, "" for the world.
        child: name of the child link, "" for the world.
        primitives: its primitives in the frame of the child, from the parent on.
        pitch: advance of a screw in a turn; 0 for other joints.
        element: its element.
    """

    name: str
    kind: str
    parent: str
    child: str
    primitives: tuple[PrimitiveJoint, ...]
    pitch: float
    element: Element


def joint_of_element(
    element: Element, name: str, frames: Frames, version: tuple[int, ...], notes: Notes, ignore: Sequence[str]
) -> SdfJoint:
    """Return a joint; `name` is its name in the mechanism."""
    where, kind = f"joint {name!r}", element.get("type", "")
    if kind not in TYPES:
        raise ModelError(f"{where}: type {kind!r} is not known")
    ends = []
    for tag in ("parent", "child"):
        frame = text_of(element, tag) or text_of(element.find(tag), "link")
        if not frame:
            raise ModelError(f"{where}: {tag} is missing")
        ends.append(frames.link_of(frame, where))
    parent, child = ends
    at_joint = frames.of_element(element)
    base = frames.place(child, where) if child else Place(np.zeros(3), np.eye(3))
    at = at_joint.seen_from(base)
    primitives = []
    for kind_of_one, tag in zip(TYPES[kind], ("axis", "axis" if kind == "screw" else "axis2"), strict=False):
        axis = element.find(tag)
        if axis is None and kind_of_one != BALL:
            raise ModelError(f"{where}: {tag} is missing")
        direction = np.eye(3)[2]
        if axis is not None and kind_of_one != BALL:
            in_model = _model_axes(axis, at_joint, frames, version, where)
            direction = base.a.T @ in_model
        part = {"universal": ".x" if tag == "axis" else ".y", "revolute2": ".1" if tag == "axis" else ".2"}
        title = name + (".s" if kind_of_one == SLIDE else "") if kind == "screw" else name + part.get(kind, "")
        primitives.append(_primitive(kind_of_one, title, at.r, direction, axis, kind, notes, ignore, where))
    pitch = _pitch(element, where) if kind == "screw" else 0.0
    return SdfJoint(name, kind, parent, child, tuple(primitives), pitch, element)


def _model_axes(axis: Element, joint: Place, frames: Frames, version, where: str) -> np.ndarray:
    """Return the direction of an axis in the frame of the model."""
    xyz = vector_of(axis, "xyz", "0 0 1", where)
    if not np.any(xyz):
        raise ModelError(f"{where}: axis must not be zero")
    xyz = xyz / np.linalg.norm(xyz)
    expressed = axis.find("xyz")
    frame = "" if expressed is None else expressed.get("expressed_in", "")
    if frame == MODEL or text_of(axis, "use_parent_model_frame").lower() in ("1", "true"):
        return xyz
    if frame:
        return frames.place(frame, where).a @ xyz
    return xyz if version <= LAST_WITH_MODEL_AXES else joint.a @ xyz


def _primitive(
    kind: str, name: str, point, direction, axis: Element | None, joint: str, notes: Notes, ignore, where: str
) -> PrimitiveJoint:
    """Return a primitive with the dynamics and the limits of its axis."""
    dynamics, limit = (None if axis is None else axis.find(tag) for tag in ("dynamics", "limit"))
    values: dict[str, Any] = {
        "damping": number_of(dynamics, "damping", 0.0, where),
        "friction": number_of(dynamics, "friction", 0.0, where),
        "stiffness": number_of(dynamics, "spring_stiffness", 0.0, where),
    }
    for tag in ("damping", "friction"):
        values[tag] *= tag not in ignore
    if joint not in ("revolute", "continuous", "prismatic") and any(values.values()):
        notes.pass_over("dynamics", where, dynamics, f"it is not read for {joint} joints")
        values = {}
    limits = None
    if limit is not None and joint in ("revolute", "prismatic") and "limit" not in ignore:
        lower, upper = number_of(limit, "lower", -np.inf, where), number_of(limit, "upper", np.inf, where)
        if lower > upper:
            notes.pass_over("limit", where, limit, "lower is above upper")
        else:
            limits = open_range(lower, upper)
    rest = number_of(dynamics, "spring_reference", 0.0, where)
    return PrimitiveJoint(kind, name, point, direction, rest=rest, limits=limits, **values)


def _pitch(element: Element, where: str) -> float:
    """Return the advance of a screw in a turn, positive for a right-handed one."""
    pitch = number_of(element, "screw_thread_pitch", 0.0, where)
    if pitch == 0:
        # The older number is the turn per advance, with the opposite sign.
        old = number_of(element, "thread_pitch", 1.0, where)
        pitch = -2 * np.pi / old if old else 0.0
    if pitch == 0:
        raise ModelError(f"{where}: the pitch of a screw must not be zero")
    return pitch


def tree_of(links: Sequence[str], joints: Sequence[SdfJoint]) -> dict[str, SdfJoint | None]:
    """Return the joint that carries each link, None for roots, in an order with parents before their children.

    Joints that are not in it close loops. Of several joints that lead to a link the first one is taken that is neither a
    ball nor a joint with two axes.
    """
    leading: dict[str, list[SdfJoint]] = {name: [] for name in links}
    for joint in joints:
        if joint.child and joint.kind != "gearbox":
            leading[joint.child].append(joint)
    for name, found in leading.items():
        leading[name] = sorted(found, key=lambda joint: joint.kind in LOOP_CLOSING_TYPES)
    done: dict[str, SdfJoint | None] = {}
    while len(done) < len(links):
        ready = [
            name for name in links if name not in done and (found := leading[name]) and found[0].parent in ("", *done)
        ]
        roots = [name for name in links if name not in done and not leading[name]]
        if ready:
            done |= {name: leading[name][0] for name in ready}
        elif roots:
            done[roots[0]] = None
        else:
            # Every other link is carried by one that is not reached yet: one of them has another joint, or is a root.
            waiting = [name for name in links if name not in done]
            name = next((n for n in waiting if any(j.parent in ("", *done) for j in leading[n])), waiting[0])
            leading[name] = [joint for joint in leading[name] if joint.parent in ("", *done)]
            done[name] = leading[name][0] if leading[name] else None
    return done


def gear_of(joint: SdfJoint, joints: Mapping[str, SdfJoint], body: str, where: str) -> tuple[SdfJoint, SdfJoint]:
    """Return the hinges between the reference body of a gearbox and its parent, and its child.

    Raises:
        ModelError: there is no such hinge.
    """
    found = []
    for end in (joint.parent, joint.child):
        hinge = next((other for other in joints.values() if _is_hinge_between(other, body, end)), None)
        if hinge is None:
            raise ModelError(f"{where}: there is no hinge between {body or WORLD!r} and {end or WORLD!r}")
        found.append(hinge)
    return found[0], found[1]


def _is_hinge_between(joint: SdfJoint, one: str, other: str) -> bool:
    """Return True for a hinge between two links."""
    return {joint.parent, joint.child} == {one, other} and joint.kind in ("revolute", "continuous")
