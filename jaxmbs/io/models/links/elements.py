"""The elements of a tree of links: bodies, joints, springs and stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import joint_inertias
from jaxmbs.io.models.links.joints import (
    BallTorque,
    inertia_and_friction_of,
    is_one_joint,
    joint_of,
    springs_of,
    stop_of,
)
from jaxmbs.io.models.links.passed_over import PassedOver
from jaxmbs.io.models.links.tree import BALL, FREE, HINGE, SLIDE, Link, LinkFrame, merge_massless
from jaxmbs.io.models.model import ModelError

# Hinges with a range of at least this many radians, a whole turn, get no stops.
MIN_RANGE_WITHOUT_STOP = 2 * np.pi - 1e-6


@dataclasses.dataclass
class Elements:
    """Elements of a mechanism by name.

    Attributes:
        bodies: bodies.
        constraints: constraints.
        drivers: drivers.
        forces: forces.
        limits: ranges of joints, by name of the constraint.
        places: the frame of each link on its body.
        joints: by name of each hinge, slide, ball or free joint that was not merged with others: the link that it carries.
        constraint_of: name of the constraint of such a joint.
        guess: values of extra coordinates, by name of the constraint.
    """

    bodies: dict[str, spatial.Body]
    constraints: dict[str, Any]
    drivers: dict[str, Any]
    forces: dict[str, Any]
    limits: dict[str, tuple[float, float]]
    places: dict[str, LinkFrame]
    joints: dict[str, Link]
    constraint_of: dict[str, str]
    guess: dict[str, Any]

    def place(self, link: str, owner: str) -> LinkFrame:
        """Return the frame of a link on its body; raise `ModelError`, which names the owner, if there is none."""
        if link not in self.places:
            raise ModelError(f"{owner}: no body is called {link!r}, or it has no mass")
        return self.places[link]

    @property
    def ground_frames(self) -> dict[str, tuple[str, Any, Any]]:
        """The frames of links that are part of the ground: ("ground", origin, axes) by name."""
        on_it = {name: place for name, place in self.places.items() if place.body == GROUND and name != GROUND}
        return {name: (GROUND, place.r, place.a) for name, place in on_it.items()}

    def unused_name(self, name: str) -> str:
        """Return the name, with a number if an element has this name already; "arm x" for the coordinate "arm.x"."""
        owner, _, last = name.rpartition(".")
        if owner in self.bodies and last in (*spatial.Body.coordinates, *spatial.Body.velocities):
            name = f"{owner} {last}"
        used = {GROUND, *self.constraints, *self.drivers, *self.forces}
        if name not in used:
            return name
        return next(f"{name}{k}" for k in range(2, len(used) + 3) if f"{name}{k}" not in used)


def elements_of(
    links: Sequence[Link],
    *,
    range_tag: str,
    ignore: Collection[str] = (),
    single: Collection[str] = (),
    passed_over: PassedOver | None = None,
    keep_moving: bool = False,
) -> Elements:
    """Return the bodies, joints, springs and stops of a tree of links, parents before their children.

    A link without mass that is fixed to another becomes a frame of it. The joint of a moving one becomes part of the
    joint of the only link that it carries. Several joints of a link become one joint with their motions. If there is none
    such, or if one of them has a spring, a range or another property of its own, they become a chain with massless bodies
    between them.

    Args:
        links: the links.
        range_tag: tag of ranges of joints.
        ignore: tags to leave out; ranges are left out if it has their tag.
        single: names of joints that other elements refer to, which must not be part of another joint.
        passed_over: collects parts that cannot be represented.
        keep_moving: if True, links without mass that move become bodies without mass.

    Raises:
        ModelError: a link that cannot be represented.
    """
    passed_over = PassedOver(ignore=tuple(ignore)) if passed_over is None else passed_over
    links, places = merge_massless(links, passed_over, keep_moving)
    links = [part for link in links for part in _chain(link, single)]
    elements = Elements({}, {}, {}, {}, {}, places, {}, {}, {})
    on_it: dict[str, dict[str, LinkFrame]] = {}
    for name, place in places.items():
        if name != place.body:
            on_it.setdefault(place.body, {})[name] = place
    for link in links:
        frames = {name: spatial.Frame(place.r, place.a) for name, place in on_it.get(link.name, {}).items()}
        principal = {} if link.principal is None else {"inertia_frame": link.principal}
        com = link.com if np.any(link.com) else None
        inertia = None if link.massless else link.inertia
        elements.bodies[link.name] = spatial.Body(link.mass or 0, inertia, com, frames=frames, **principal)
    for link in links:
        _add_joint(elements, link, range_tag if range_tag not in ignore else None, passed_over)
    _add_stops(elements, links, range_tag, passed_over)
    return elements


def _chain(link: Link, single: Collection[str]) -> list[Link]:
    """Return a link, or a chain of massless links with its joints if they cannot be one joint."""
    plain = all(primitive.plain and primitive.name not in single for primitive in link.primitives)
    if len(link.primitives) < 2 or (plain and is_one_joint(link)):
        return [link]
    parent, place, chain = link.parent, (link.r, link.a), []
    for primitive in link.primitives[:-1]:
        name = f"{primitive.name} carrier"
        chain.append(Link(name, parent, *place, (primitive,), 0.0, np.zeros(3), np.zeros(3)))
        parent, place = name, (np.zeros(3), np.eye(3))
    last = dataclasses.replace(link, parent=parent, r=place[0], a=place[1], primitives=link.primitives[-1:])
    return [*chain, last]


def _add_joint(elements: Elements, link: Link, range_tag: str | None, passed_over: PassedOver) -> None:
    """Add the joint of a link with its springs, friction and inertia; its range if `range_tag` is not None."""
    name, joint = elements.unused_name(_joint_name(link)), joint_of(link)
    if joint is not None:
        elements.constraints[name] = joint
    if len(link.primitives) != 1:
        return
    [primitive] = link.primitives
    elements.joints[primitive.name] = link
    elements.constraint_of[primitive.name] = name
    for suffix, force in (springs_of(link, primitive) | inertia_and_friction_of(link, primitive, name)).items():
        elements.forces[elements.unused_name(f"{primitive.name} {suffix}")] = force
    where = f"joint {primitive.name!r}"
    if primitive.kind == FREE and primitive.friction:
        passed_over.add("frictionloss", where, "the friction of a free joint is not represented")
    if primitive.limits is not None and joint is not None and range_tag is not None:
        elements.limits[name] = primitive.limits


def _add_stops(elements: Elements, links: Sequence[Link], range_tag: str, passed_over: PassedOver) -> None:
    """Add stops at the limits of joints, but none for ranges of a turn and more: turns are not counted."""
    limited = {name: joint for joint, name in elements.constraint_of.items() if name in elements.limits}
    inertias = joint_inertias(links) if limited else {}
    for name, joint in limited.items():
        link, where = elements.joints[joint], f"joint {joint!r}"
        primitive, (lower, upper) = link.primitives[0], elements.limits[name]
        if primitive.kind == HINGE and upper - lower >= MIN_RANGE_WITHOUT_STOP:
            passed_over.add(range_tag, where, "a range of a turn and more is stored as a limit without a stop")
        elif primitive.kind == BALL and np.isfinite(upper):
            k, c = (inertias[joint] * x for x in primitive.softness)
            stop = BallTorque(link.parent, link.name, link.a, limit=upper, stop_stiffness=k, stop_damping=c)
            elements.forces[elements.unused_name(f"{joint} stop")] = forces.UserForce(stop)
        elif primitive.kind in (HINGE, SLIDE) and lower < upper and np.isfinite(inertias[joint]):
            elements.forces[elements.unused_name(f"{joint} stop")] = stop_of(name, primitive, inertias[joint])


def _joint_name(link: Link) -> str:
    """Return the name of the joint of a link: "a" for primitives "a.x" and "a.y", else "a+b" for "a" and "b"."""
    if not link.primitives:
        return f"{link.name} on {link.parent}"
    names = [primitive.name for primitive in link.primitives]
    stems = {name.rpartition(".")[0] for name in names}
    return stems.pop() if len(stems) == 1 and len(names) > 1 and "" not in stems else "+".join(names)
