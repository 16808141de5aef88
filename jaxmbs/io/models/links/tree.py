"""Trees of links, as robot formats have them.

A link hangs on its parent by a row of steps, each a hinge, a slide or a ball, the first one nearest to the parent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.model import ModelError

HINGE, SLIDE, BALL, FREE = "hinge", "slide", "ball", "free"
# Directions count as parallel or perpendicular, and lines as crossing, within this.
EXACT = 1e-9

# Shapes (3,) and (3, 3); fields of elements make JAX arrays of them.
Vector = Any
Matrix = Any


class Softness(NamedTuple):
    """How a stop gives way where the inertia J is at the joint: as a spring J k with a damper J c, in units of 1/time² and
    1/time. The usual one is critically damped and has a time constant of 20 ms."""

    stiffness: float = 2500.0
    damping: float = 100.0


USUAL = Softness()


@dataclasses.dataclass(frozen=True)
class Step:
    """A hinge, slide or ball on the way from a parent to a link.

    Attributes:
        kind: one of the four above.
        name: of the joint.
        point, axis: in the frame of the link; a unit vector.
        stiffness, damping: k, c of a spring and a damper in the joint. rest: where the spring has no force.
        armature, friction: inertia of a drive, and a force or torque of dry friction.
        limits: range. This and `rest` are counted from where the link stands at its `r` and `a`.
        softness: of the stops at the limits.
    """

    kind: str
    name: str
    point: Vector
    axis: Vector
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    limits: tuple[float, float] | None = None
    armature: float = 0.0
    friction: float = 0.0
    softness: Softness = USUAL


@dataclasses.dataclass(frozen=True)
class Link:
    """A body with the joints that carry it.

    Attributes:
        parent: name of the link that carries it.
        r, a: origin and axes (as columns) of its frame in that of its parent, with all steps at zero.
        steps: from the parent on.
        mass, com, inertia: inertia about the centre of mass, a matrix, or moments in the axes `principal`.
    """

    name: str
    parent: str
    r: Vector
    a: Matrix
    steps: tuple[Step, ...]
    mass: float
    com: Vector
    inertia: Any
    principal: Matrix | None = None

    @property
    def massless(self) -> bool:
        """Whether it has neither mass nor inertia."""
        return self.mass == 0 and not np.any(self.inertia)


@dataclasses.dataclass(frozen=True)
class Place:
    """A frame on a body: of a link that has become part of it, or of the body itself."""

    body: str
    r: Vector
    a: Matrix

    def point(self, s) -> Vector:
        """r + A s."""
        return self.r + self.a @ np.asarray(s, float)

    def seen(self, point) -> Vector:
        """A point of the ground in this frame."""
        return self.a.T @ (point - self.r)


def unit(v) -> Vector:
    """The vector at length 1."""
    return v / np.linalg.norm(v)


def along_z(axis) -> Matrix:
    """Right-handed orthonormal axes with the third one in a direction."""
    z = unit(np.asarray(axis, float))
    x = unit(np.cross(np.eye(3)[np.argmin(np.abs(z))], z))
    return np.stack([x, np.cross(z, x), z], axis=1)


def from_quaternion(quaternion) -> Matrix:
    """The rotation matrix of a quaternion (4,), scalar part first, of any length."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    v = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * v + 2 * v @ v


def merged(links: Sequence[Link]) -> tuple[list[Link], dict[str, Place]]:
    """The links with mass, on parents with mass; and where all of them are."""
    links = _swapped(links)
    children: dict[str, list[Link]] = {}
    for link in links:
        children.setdefault(link.parent, []).append(link)
    places = {GROUND: Place(GROUND, np.zeros(3), np.eye(3))}
    carried: dict[str, Link] = {}
    kept = []
    for link in links:
        if link.parent in carried:
            link = _behind(carried[link.parent], link)
        else:
            place = places[link.parent]
            link = dataclasses.replace(link, parent=place.body, r=place.point(link.r), a=place.a @ link.a)
        if link.massless and not link.steps:
            places[link.name] = Place(link.parent, link.r, link.a)
        elif link.massless:
            count = len(children.get(link.name, []))
            if count != 1 or any(step.kind == FREE for step in link.steps):
                carries = "nothing" if count == 0 else f"{count} links" if count > 1 else "another link"
                raise ModelError(f"link {link.name!r} has no mass, moves and carries {carries}: give it a mass")
            carried[link.name] = link
        else:
            places[link.name] = Place(link.name, np.zeros(3), np.eye(3))
            kept.append(link)
    for name in reversed(carried):
        child = children[name][0]
        if not child.steps and child.name in places:
            place = places[child.name]
            places[name] = Place(place.body, place.point(-child.a.T @ child.r), place.a @ child.a.T)
    return kept, places


def _swapped(links: Sequence[Link]) -> list[Link]:
    """The same tree, where a moving link without mass changes places with one with mass that is fixed to it."""
    found = {link.name: link for link in links}
    order, swapped = [link.name for link in links], False
    for name in order:
        link = found[name]
        if not (link.massless and link.steps):
            continue
        fixed = [other for other in found.values() if other.parent == name and not other.steps and not other.massless]
        if not fixed:
            continue
        first, swapped = fixed[0], True
        found[first.name] = dataclasses.replace(
            first,
            parent=link.parent,
            r=link.r + link.a @ first.r,
            a=link.a @ first.a,
            steps=tuple(_seen_from(step, first.r, first.a) for step in link.steps),
        )
        found[name] = dataclasses.replace(link, parent=first.name, r=-first.a.T @ first.r, a=first.a.T, steps=())
    return _parents_first(found, order) if swapped else list(links)


def _parents_first(found: Mapping[str, Link], order: Sequence[str]) -> list[Link]:
    done: dict[str, Link] = {}
    waiting = list(order)
    while waiting:
        ready = [name for name in waiting if found[name].parent == GROUND or found[name].parent in done]
        for name in ready:
            done[name] = found[name]
        waiting = [name for name in waiting if name not in done]
    return list(done.values())


def _behind(link: Link, child: Link) -> Link:
    """The child of a link without mass, with the steps of both."""
    steps = tuple(_seen_from(step, child.r, child.a) for step in link.steps)
    return dataclasses.replace(
        child, parent=link.parent, r=link.r + link.a @ child.r, a=link.a @ child.a, steps=steps + child.steps
    )


def _seen_from(step: Step, r: Vector, a: Matrix) -> Step:
    """A step in another frame, with this origin and these axes in its own."""
    return dataclasses.replace(step, point=a.T @ (step.point - r), axis=a.T @ step.axis)
