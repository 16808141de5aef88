"""The elements of a tree of links: bodies, joints, springs and stops."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from jaxmbs import spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import joint_inertias
from jaxmbs.io.models.links.joints import drag_of, joint_of, springs_of, stop_of
from jaxmbs.io.models.links.tree import HINGE, SLIDE, Link, LinkFrame, merge_massless
from jaxmbs.io.models.model import ModelError

# Hinges with a range of at least this many radians get no stops.
FULL_TURN = 2 * np.pi - 1e-6


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
        joints: the link of each joint that is the only one of its link, by name of the joint.
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
        """Return the name, with a number if an element has this name already."""
        used = {GROUND, *self.constraints, *self.drivers, *self.forces}
        if name not in used:
            return name
        return next(f"{name}{k}" for k in range(2, len(used) + 3) if f"{name}{k}" not in used)


def elements_of(
    links: Sequence[Link], *, range_tag: str, ignore: Collection[str] = (), keep_moving: bool = False
) -> Elements:
    """Return the bodies, joints, springs and stops of a tree of links, parents before their children.

    A link without mass that is fixed to another becomes a frame of it. The joint of a moving one becomes part of the
    joint of the only link that it carries; with `keep_moving` it becomes a body without mass. Ranges of joints are left
    out if `ignore` has their tag, `range_tag`.

    Raises:
        ModelError: a link or a row of joints that cannot be represented.
    """
    links, places = merge_massless(links, keep_moving)
    elements = Elements({}, {}, {}, {}, {}, places, {}, {}, {})
    for link in links:
        on_it = {name: place for name, place in places.items() if place.body == link.name and name != link.name}
        frames = {name: spatial.Frame(place.r, place.a) for name, place in on_it.items()}
        principal = {} if link.principal is None else {"inertia_frame": link.principal}
        com = link.com if np.any(link.com) else None
        inertia = 0 if link.massless else link.inertia
        elements.bodies[link.name] = spatial.Body(link.mass, inertia, com, frames=frames, **principal)
    for link in links:
        name = elements.unused_name(_joint_name(link))
        joint = joint_of(link)
        if joint is not None:
            elements.constraints[name] = joint
        if len(link.primitives) == 1:
            elements.joints[link.primitives[0].name] = link
            elements.constraint_of[link.primitives[0].name] = name
        for primitive in link.primitives:
            for suffix, force in (springs_of(link, primitive) | drag_of(link, primitive, name)).items():
                elements.forces[elements.unused_name(f"{primitive.name} {suffix}")] = force
            if primitive.limits is not None and joint is not None and range_tag not in ignore:
                if len(link.primitives) > 1:
                    raise ModelError(
                        f"joint {primitive.name!r}: {range_tag} of one of several joints of {link.name!r} cannot be kept; "
                        f"leave it out with ignore=({range_tag!r},)"
                    )
                elements.limits[name] = primitive.limits
    _add_stops(elements, links)
    return elements


def _add_stops(elements: Elements, links: Sequence[Link]) -> None:
    """Add stops at the limits of hinges and slides, but none for ranges of a turn and more: turns are not counted."""
    limited = {name: joint for joint, name in elements.constraint_of.items() if name in elements.limits}
    inertias = joint_inertias(links) if limited else {}
    without_stop = []
    for name, joint in limited.items():
        primitive = elements.joints[joint].primitives[0]
        lower, upper = elements.limits[name]
        if primitive.kind == HINGE and upper - lower >= FULL_TURN:
            without_stop.append(joint)
        elif primitive.kind in (HINGE, SLIDE) and lower < upper and np.isfinite(inertias[joint]):
            elements.forces[elements.unused_name(f"{joint} stop")] = stop_of(name, primitive, inertias[joint])
    if without_stop:
        joints = ", ".join(map(repr, without_stop))
        warnings.warn(f"joints {joints}: ranges of a turn and more are stored as limits without stops", stacklevel=5)


def _joint_name(link: Link) -> str:
    """Return the name of the joint of a link: "a" for primitives "a.x" and "a.y", else "a+b" for "a" and "b"."""
    if not link.primitives:
        return f"{link.name} on {link.parent}"
    names = [primitive.name for primitive in link.primitives]
    stems = {name.rpartition(".")[0] for name in names}
    return stems.pop() if len(stems) == 1 and len(names) > 1 and "" not in stems else "+".join(names)
