"""Constraints that close loops in a tree of links: by the user, by frames that coincide, by joints outside the tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmbs import spatial
from jaxmbs.element import GROUND, AbstractConstraint
from jaxmbs.io.models.links.elements import Elements
from jaxmbs.io.models.links.joints import inertia_and_friction_of, joint_of, springs_of
from jaxmbs.io.models.links.tree import Link, LinkFrame
from jaxmbs.io.models.model import ModelError
from jaxmbs.spatial.element import Frames

# Joints that close a loop at two frames, by their word. Their axis is the z axis of the frames.
KINDS: dict[str, Any] = {
    "ball": spatial.Spherical,
    "hinge": spatial.Revolute,
    "slide": spatial.Prismatic,
    "rigid": spatial.Rigid,
}


def close_at_frames(elements: Elements, name: str, first: LinkFrame, second: LinkFrame, kind: str) -> None:
    """Connect two frames of bodies by a joint of `KINDS`.

    Raises:
        ModelError: the kind is not known, or both frames are on one body.
    """
    if kind not in KINDS:
        raise ModelError(f"loop {name!r}: {kind!r} is not known; kinds are {', '.join(KINDS)}")
    _check_apart(name, first, second)
    joint = KINDS[kind](first.body, second.body, first.r, second.r, frame_i=first.a, frame_j=second.a)
    elements.constraints[elements.unused_name(name)] = joint


def loop_pairs(loops) -> list[tuple[str, Any]]:
    """Return loops, given as a mapping or as pairs, as pairs of a name and a constraint or frames.

    Raises:
        ModelError: the loops are neither.
    """
    pairs = list(loops.items() if isinstance(loops, Mapping) else loops)
    if any(not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str) for pair in pairs):
        raise ModelError("loops must be a mapping, or pairs, of names and constraints or frames")
    return [(name, given) for name, given in pairs]


def add_loops(elements: Elements, loops, links_of: Mapping[str, str]) -> None:
    """Add the loops that the user gives.

    Args:
        elements: the elements of the tree.
        loops: a mapping, or pairs, of names and constraints, or of names and two frames, maybe with a word of `KINDS`:
            ("closing_1", "closing_2", "hinge"); a ball unless given. Names of links and of joints are frames, and points
            and axes of a constraint are in the frames of the links that it names.
        links_of: the link of each joint.

    Raises:
        ModelError: not such pairs, unknown frames, or a name that is used already.
    """
    for name, given in loop_pairs(loops):
        if elements.unused_name(name) != name:
            raise ModelError(f"loop {name!r}: another element has this name; choose another")
        if isinstance(given, AbstractConstraint):
            elements.constraints[name] = _on_bodies(elements, name, given)
            continue
        words = (given,) if isinstance(given, str) else given
        if not isinstance(words, tuple | list) or len(words) not in (2, 3) or any(type(w) is not str for w in words):
            raise ModelError(f"loop {name!r}: {given!r} is neither a constraint nor the names of two frames")
        ends = [elements.place(links_of.get(end, end), f"loop {name!r}") for end in words[:2]]
        close_at_frames(elements, name, ends[0], ends[1], words[2] if len(words) == 3 else "ball")


def add_loop_joint(elements: Elements, link: Link) -> str:
    """Add the joint of a link, which is not in the tree. Its ranges are left out.

    Args:
        elements: the elements of the tree.
        link: a link of the tree with another parent, its place on that parent, and the joint between them.

    Returns:
        the name of the constraint.
    """
    above, own = (elements.place(end, f"joint {link.primitives[0].name!r}") for end in (link.parent, link.name))
    name = elements.unused_name(link.primitives[0].name)
    _check_apart(name, above, own)
    a = above.a @ link.a @ own.a.T
    moved = dataclasses.replace(
        link,
        name=own.body,
        parent=above.body,
        r=above.point(link.r) - a @ own.r,
        a=a,
        primitives=tuple(
            dataclasses.replace(s, point=own.point(s.point), axis=own.a @ s.axis) for s in link.primitives
        ),
    )
    joint = joint_of(moved)
    if joint is not None:
        elements.constraints[name] = joint
    for primitive in moved.primitives:
        for suffix, force in (springs_of(moved, primitive) | inertia_and_friction_of(moved, primitive, name)).items():
            elements.forces[elements.unused_name(f"{primitive.name} {suffix}")] = force
    return name


def _check_apart(name: str, first: LinkFrame, second: LinkFrame) -> None:
    """Raise `ModelError` if two frames are on the same body."""
    if first.body == second.body:
        raise ModelError(f"loop {name!r}: both frames are on {first.body!r}")


def _on_bodies(elements: Elements, name: str, constraint: AbstractConstraint) -> AbstractConstraint:
    """Return a constraint between links as one between the bodies that they are part of."""
    changes: dict[str, Any] = {}
    for side in ("i", "j"):
        link = getattr(constraint, side)
        if link == GROUND or link in elements.bodies:
            continue
        place = elements.place(link, f"loop {name!r}")
        changes[side] = place.body
        if isinstance(constraint, Frames):
            changes["frame_i"] = changes.get("frame_i", np.asarray(constraint.axes_i))
            changes["frame_j"] = changes.get("frame_j", np.asarray(constraint.axes_j))
            changes |= {"axis_i": None, "axis_j": None}
            changes[f"frame_{side}"] = place.a @ changes[f"frame_{side}"]
        elif getattr(constraint, f"axis_{side}", None) is not None:
            changes[f"axis_{side}"] = place.a @ np.asarray(getattr(constraint, f"axis_{side}"))
        changes[f"point_{side}"] = place.point(getattr(constraint, f"point_{side}"))
    if not changes:
        return constraint
    fields = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}
    try:
        moved = type(constraint)(**fields | changes)
    except TypeError as error:
        bodies = ", ".join(repr(changes[side]) for side in ("i", "j") if side in changes)
        raise ModelError(f"loop {name!r}: {error}; name the bodies {bodies} in place of their links") from None
    if moved.i == moved.j:
        raise ModelError(f"loop {name!r}: both links are on {moved.i!r}")
    return moved
