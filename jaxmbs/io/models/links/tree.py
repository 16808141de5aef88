"""Trees of links, as robot formats have them.

A link is connected to its parent by a row of primitive joints, each a hinge, a slide, a ball or a free joint, the first
one next to the parent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.passed_over import PassedOver

# Kind of a primitive joint that turns about one axis.
HINGE = "hinge"
# Kind of a primitive joint that moves along one axis.
SLIDE = "slide"
# Kind of a primitive joint that turns about a point.
BALL = "ball"
# Kind of a primitive joint that leaves all six motions free.
FREE = "free"
# Unit vectors count as parallel or perpendicular if their scalar product differs from ±1 or 0 by less than this.
MAX_AXIS_ERROR = 1e-9
# Axes count as meeting if no coordinate of their gap is larger than this times 1 + the largest coordinate of their common
# point, in units of length.
MAX_AXIS_GAP = 1e-9
# Ends of ranges from here on mean that there is none, in radians or units of length; written where a format wants an end.
NO_LIMIT = 1e6

# Array of shape (3,); typed as `Any` because fields of elements turn it into an array of JAX.
Vector = Any
# Array of shape (3, 3); typed as `Any` because fields of elements turn it into an array of JAX.
Matrix = Any


def open_range(lower: float, upper: float) -> tuple[float, float] | None:
    """Return a range with infinite ends in place of those that mean that there is none; None if both do."""
    ends = lower if lower > -NO_LIMIT else -np.inf, upper if upper < NO_LIMIT else np.inf
    return ends if np.any(np.isfinite(ends)) else None


def finite_range(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Return a range for formats that want two ends: `NO_LIMIT` in place of ends that are infinite or None."""
    ends = -np.inf if lower is None else float(lower), np.inf if upper is None else float(upper)
    return max(ends[0], -NO_LIMIT), min(ends[1], NO_LIMIT)


class Softness(NamedTuple):
    """Stiffness k in 1/time² and damping c in 1/time of a stop.

    The stop of a joint with the inertia J is a spring J k with a damper J c. By default it is critically damped and has a
    time constant of 20 ms.
    """

    stiffness: float = 2500.0
    damping: float = 100.0


# Stiffness and damping of stops read from formats that give none.
DEFAULT_SOFTNESS = Softness()


@dataclasses.dataclass(frozen=True)
class PrimitiveJoint:
    """A hinge, slide, ball or free joint between a parent and a link.

    Attributes:
        kind: `HINGE`, `SLIDE`, `BALL` or `FREE`.
        name: name of the joint.
        point: a point of the joint in the frame of the link, (3,).
        axis: unit vector along its axis in the frame of the link, (3,).
        stiffness: k of a spring in the joint; of a free joint for all six motions.
        damping: c of a damper in the joint.
        rest: coordinate at which the spring of a hinge or slide has no force; other springs rest at the pose of the link.
        limits: range of the coordinate, which is 0 at the pose `r` and `a` of the link; of a ball that of its angle. Open
            ends are infinite.
        armature: inertia of the drive.
        friction: force or torque of dry friction.
        softness: stiffness and damping of the stops at the limits.
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
    softness: Softness = DEFAULT_SOFTNESS

    @property
    def plain(self) -> bool:
        """True if it only moves: it has no spring, damper, range, armature or friction."""
        return self.limits is None and not (self.stiffness or self.damping or self.armature or self.friction)


@dataclasses.dataclass(frozen=True)
class Link:
    """A body with the joints between it and its parent.

    Attributes:
        name: its name.
        parent: name of its parent.
        r: origin of its frame in that of the parent, with all primitives at zero, (3,).
        a: axes of its frame in that of the parent, as columns, (3, 3).
        primitives: its joints, from the parent on.
        mass: its mass.
        com: its centre of mass in its frame, (3,).
        inertia: inertia about the centre of mass: a matrix, or moments about the axes `principal`.
        principal: axes of the moments, as columns in its frame, or None.
        driven: True if it has no joints and follows motions of its place, which stay at r unless they are replaced.
    """

    name: str
    parent: str
    r: Vector
    a: Matrix
    primitives: tuple[PrimitiveJoint, ...]
    mass: float
    com: Vector
    inertia: Any
    principal: Matrix | None = None
    driven: bool = False

    @property
    def massless(self) -> bool:
        """True if it has neither mass nor inertia."""
        return self.mass == 0 and not np.any(self.inertia)

    @property
    def slides(self) -> list[PrimitiveJoint]:
        """Its slides, from the parent on."""
        return [primitive for primitive in self.primitives if primitive.kind == SLIDE]

    @property
    def turns(self) -> list[PrimitiveJoint]:
        """Its hinges and balls, from the parent on."""
        return [primitive for primitive in self.primitives if primitive.kind in (HINGE, BALL)]


@dataclasses.dataclass(frozen=True)
class LinkFrame:
    """The frame of a link on its body: origin (3,) and axes (3, 3) in the frame of the body."""

    body: str
    r: Vector
    a: Matrix

    def point(self, s) -> Vector:
        """Return r + A s, a point of the link in the frame of the body."""
        return self.r + self.a @ np.asarray(s, float)

    def local(self, point) -> Vector:
        """Return Aᵀ (p − r), a point of the body in the frame of the link."""
        return self.a.T @ (point - self.r)


def unit(v) -> Vector:
    """Return a vector divided by its length."""
    return v / np.linalg.norm(v)


def along_z(axis) -> Matrix:
    """Return right-handed orthonormal axes, as columns, with the third one in a direction."""
    z = unit(np.asarray(axis, float))
    x = unit(np.cross(np.eye(3)[np.argmin(np.abs(z))], z))
    return np.stack([x, np.cross(z, x), z], axis=1)


def from_quaternion(quaternion) -> Matrix:
    """Return the rotation matrix of a quaternion (4,), scalar part first, of any length."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    v = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * v + 2 * v @ v


def frames_at_zero(links: Sequence[Link]) -> dict[str, LinkFrame]:
    """Return the frames of links in the ground frame, all joints at zero; parents come before their children."""
    frames = {GROUND: LinkFrame(GROUND, np.zeros(3), np.eye(3))}
    for link in links:
        parent = frames[link.parent]
        frames[link.name] = LinkFrame(GROUND, parent.point(link.r), parent.a @ link.a)
    return frames


def merge_massless(
    links: Sequence[Link], passed_over: PassedOver, keep_moving: bool = False
) -> tuple[list[Link], dict[str, LinkFrame]]:
    """Return the links that become bodies, and the frames of all links on them.

    A link without mass that is fixed to another becomes a frame of it, as does one that moves and carries nothing, which
    is held at zero. One that moves and carries one link gives its joints to that link; other links without mass are kept.
    With `keep_moving`, all links without mass that move are kept.
    """
    links = _swap_massless(links)
    if not keep_moving:
        links = _fix_idle(links, passed_over)
    children: dict[str, list[Link]] = {}
    for link in links:
        children.setdefault(link.parent, []).append(link)
    places = {GROUND: LinkFrame(GROUND, np.zeros(3), np.eye(3))}
    carried: dict[str, Link] = {}
    kept = []
    for link in links:
        if link.parent in carried:
            link = _with_joints_of(carried[link.parent], link)
        else:
            place = places[link.parent]
            link = dataclasses.replace(link, parent=place.body, r=place.point(link.r), a=place.a @ link.a)
        if link.massless and not link.primitives and not link.driven:
            places[link.name] = LinkFrame(link.parent, link.r, link.a)
        elif (
            link.massless
            and link.primitives
            and not keep_moving
            and len(children[link.name]) == 1
            and all(s.kind != FREE for s in link.primitives)
        ):
            carried[link.name] = link
        else:
            places[link.name] = LinkFrame(link.name, np.zeros(3), np.eye(3))
            kept.append(link)
    for name in reversed(carried):
        child = children[name][0]
        if not child.primitives and child.name in places:
            place = places[child.name]
            places[name] = LinkFrame(place.body, place.point(-child.a.T @ child.r), place.a @ child.a.T)
    return kept, places


def _fix_idle(links: Sequence[Link], passed_over: PassedOver) -> list[Link]:
    """Return the links without the joints of those that move although they and all that they carry have no mass."""
    heavy: set[str] = set()
    for link in reversed(links):
        if not link.massless or link.name in heavy:
            heavy |= {link.name, link.parent}
    held = [link for link in links if link.name not in heavy and link.primitives]
    for link in held:
        passed_over.add("joint", repr(link.primitives[0].name), "it moves nothing that has a mass, and is held at zero")
    return [link if link.name in heavy else dataclasses.replace(link, primitives=()) for link in links]


def _swap_massless(links: Sequence[Link]) -> list[Link]:
    """Return the tree in which a moving link without mass changes places with the first link with mass fixed to it.

    That link gets its joints, and the massless link is fixed to it.
    """
    found = {link.name: link for link in links}
    order, swapped = [link.name for link in links], False
    for name in order:
        link = found[name]
        if not (link.massless and link.primitives):
            continue
        fixed = [x for x in found.values() if x.parent == name and not x.primitives and not x.massless]
        if not fixed:
            continue
        first, swapped = fixed[0], True
        found[first.name] = _with_joints_of(link, first)
        found[name] = dataclasses.replace(link, parent=first.name, r=-first.a.T @ first.r, a=first.a.T, primitives=())
    return _parents_first(found, order) if swapped else list(links)


def _parents_first(found: Mapping[str, Link], order: Sequence[str]) -> list[Link]:
    """Return the links in an order in which parents come before their children."""
    done: dict[str, Link] = {}
    waiting = list(order)
    while waiting:
        ready = [name for name in waiting if found[name].parent == GROUND or found[name].parent in done]
        for name in ready:
            done[name] = found[name]
        waiting = [name for name in waiting if name not in done]
    return list(done.values())


def _with_joints_of(link: Link, child: Link) -> Link:
    """Return a child of a link as a child of the link's parent, with the primitive joints of both."""
    above = tuple(
        dataclasses.replace(s, point=child.a.T @ (s.point - child.r), axis=child.a.T @ s.axis) for s in link.primitives
    )
    place = LinkFrame(link.parent, link.r, link.a)
    return dataclasses.replace(
        child, parent=link.parent, r=place.point(child.r), a=link.a @ child.a, primitives=above + child.primitives
    )
