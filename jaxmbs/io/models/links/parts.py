"""What links make: bodies, joints, springs and stops."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from jaxmbs import spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import of_links
from jaxmbs.io.models.links.joints import drag_of, joint_of, springs_of, stop_of
from jaxmbs.io.models.links.tree import HINGE, SLIDE, Link, Place, merged
from jaxmbs.io.models.model import ModelError

# A range of this angle or more limits nothing.
FULL_TURN = 2 * np.pi - 1e-6


@dataclasses.dataclass
class Parts:
    """What links make: elements of a mechanism by name.

    Attributes:
        limits: ranges of joints, by name of the constraint.
        places: where each link has gone. joints: the link that a joint carries, of joints that are alone on theirs.
        constraint_of: what the constraint of such a joint is called. guess: of extra coordinates.
    """

    bodies: dict[str, spatial.Body]
    constraints: dict[str, Any]
    drivers: dict[str, Any]
    forces: dict[str, Any]
    limits: dict[str, tuple[float, float]]
    places: dict[str, Place]
    joints: dict[str, Link]
    constraint_of: dict[str, str]
    guess: dict[str, Any]

    def place(self, link: str, what: str) -> Place:
        """Where a link is.

        Raises:
            ModelError: there is no such link, or it is none of the bodies; `what` refers to it.
        """
        if link not in self.places:
            raise ModelError(f"{what}: there is no body {link!r}, or it has no mass")
        return self.places[link]

    def name(self, name: str) -> str:
        """The name, or the name with a number where something has it already."""
        used = {GROUND, *self.constraints, *self.drivers, *self.forces}
        if name not in used:
            return name
        return next(f"{name}{k}" for k in range(2, len(used) + 3) if f"{name}{k}" not in used)


def parts_of(links: Sequence[Link], *, range_tag: str, ignore: Collection[str] = ()) -> Parts:
    """Bodies, joints, springs and stops of a tree of links; parents come before their children.

    A link without mass that stands still on another becomes a frame of that one. One that moves, and carries one other
    link, is a step on the way to that.

    Args:
        range_tag: what the format calls the range of a joint, to be ignored where it cannot be kept.

    Raises:
        ModelError: a link or a row of joints that cannot be represented.
    """
    links, places = merged(links)
    parts = Parts({}, {}, {}, {}, {}, places, {}, {}, {})
    for link in links:
        on_it = {name: place for name, place in places.items() if place.body == link.name and name != link.name}
        frames = {name: spatial.Frame(place.r, place.a) for name, place in on_it.items()}
        principal = {} if link.principal is None else {"inertia_frame": link.principal}
        com = link.com if np.any(link.com) else None
        parts.bodies[link.name] = spatial.Body(link.mass, link.inertia, com, frames=frames, **principal)
    for link in links:
        name = parts.name(_joint_name(link))
        joint = joint_of(link)
        if joint is not None:
            parts.constraints[name] = joint
        if len(link.steps) == 1:
            parts.joints[link.steps[0].name] = link
            parts.constraint_of[link.steps[0].name] = name
        for step in link.steps:
            for suffix, force in (springs_of(link, step) | drag_of(link, step, name)).items():
                parts.forces[parts.name(f"{step.name} {suffix}")] = force
            if step.limits is not None and joint is not None and range_tag not in ignore:
                if len(link.steps) > 1:
                    raise ModelError(
                        f"joint {step.name!r}: {range_tag} of one of several joints of {link.name!r} cannot be kept; "
                        f"leave it out with ignore=({range_tag!r},)"
                    )
                parts.limits[name] = step.limits
    _add_stops(parts, links)
    return parts


def _add_stops(parts: Parts, links: Sequence[Link]) -> None:
    """Stops at the limits of hinges and slides; none for a range of more than a turn, since turns are not known."""
    limited = {name: joint for joint, name in parts.constraint_of.items() if name in parts.limits}
    seen = of_links(links) if limited else {}
    far = []
    for name, joint in limited.items():
        step = parts.joints[joint].steps[0]
        lower, upper = parts.limits[name]
        if step.kind == HINGE and upper - lower >= FULL_TURN:
            far.append(joint)
        elif step.kind in (HINGE, SLIDE) and lower < upper:
            parts.forces[parts.name(f"{joint} stop")] = stop_of(name, step, seen[joint])
    if far:
        joints = ", ".join(map(repr, far))
        warnings.warn(
            f"joints {joints}: ranges of a turn and more are kept as limits, and nothing stops there", stacklevel=5
        )


def _joint_name(link: Link) -> str:
    """The name of the joint; of several what stands before a common full stop, or all with plus signs."""
    if not link.steps:
        return f"{link.name} on {link.parent}"
    names = [step.name for step in link.steps]
    stems = {name.rpartition(".")[0] for name in names}
    return stems.pop() if len(stems) == 1 and len(names) > 1 and "" not in stems else "+".join(names)
