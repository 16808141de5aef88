"""The parts of a spatial linkage as solids of build123d: bars with eyes, balls and sockets, yokes and crosses, sleeves."""

from __future__ import annotations

import warnings
from functools import singledispatch
from typing import Any

import build123d as cad
import numpy as np

from jaxmbs import spatial
from jaxmbs.element import GROUND
from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.part_sizes import PartSizes, Sizes
from jaxmbs.viz.planar.shapes import unit
from jaxmbs.viz.spatial.bodies import distinct
from jaxmbs.viz.spatial.meshes import frame
from jaxmbs.viz.spatial.scene import Scene
from jaxmbs.viz.spatial.symbols import STEEL, carrier, joint_frames, travel

# Diameter of the balls of spherical joints, divided by the width of links.
BALL_DIAMETER_PER_WIDTH = 0.7
# Distance of the opening of a socket from the middle of its ball, divided by the radius of the ball. Positive values
# keep the ball in the socket.
SOCKET_OPENING = 0.35
# Distance of the eyes of a yoke from the middle of its cross, in widths of links.
YOKE_REACH_PER_WIDTH = 1.1
# Length of sleeves on rails, in widths of links.
SLEEVE_LENGTH_PER_WIDTH = 1.6
# Diameter of the balls in which bars meet or end, divided by that of the bars.
KNOB_DIAMETER_PER_BAR = 1.25


class Workpieces:
    """The parts of a linkage while its joints are made, in millimetres and in the frames of the bodies.

    Attributes:
        scene: the mechanism in some configurations, in its own unit of length.
        factor: millimetres in this unit.
        sizes: sizes of the parts.
        held: points at which elements hold each body, in its frame.
        arms: for each body the points that its bars connect.
        knobs: points that get a ball.
        added: solids that each body also has.
        cut: solids that are cut from each body.
        loose: further parts: name, body in whose frame they are, solid.
    """

    def __init__(self, scene: Scene, sizes: Sizes, factor: float):
        names = (GROUND, *scene.mech.bodies)
        self.scene, self.factor, self.sizes = scene, factor, Sizes(*(factor * size for size in sizes))
        places = [place for element in scene.elements.values() for place in attachments(element, 3)]
        self.held = {name: [factor * point for body, point in places if body == name] for name in names}
        self.arms: dict[str, list[np.ndarray]] = {name: [] for name in names}
        self.knobs: dict[str, list[np.ndarray]] = {name: [] for name in names}
        self.added: dict[str, list[Any]] = {name: [] for name in names}
        self.cut: dict[str, list[Any]] = {name: [] for name in names}
        self.loose: list[tuple[str, str, Any]] = []

    def com(self, body: str) -> np.ndarray:
        """Return the centre of mass of a body, the origin for the ground."""
        return np.zeros(3) if body == GROUND else self.factor * np.asarray(self.scene.mech.bodies[body].com, float)

    def joint_frames(self, element) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Return (body, origin, axes) of a joint on bodies i and j, each in the frame of the body."""
        return [(body, self.factor * point, axes) for body, point, axes in joint_frames(element)]

    def inwards(self, body: str, point: np.ndarray) -> np.ndarray:
        """Return the unit vector from a point of a body to the middle of the body, in its frame; z if they coincide."""
        found = np.mean(self.held[body], axis=0) - point
        if np.linalg.norm(found) < self.sizes.thickness:
            found = self.com(body) - point
        return unit(found) if np.linalg.norm(found) > self.sizes.thickness / 10 else np.array([0.0, 0.0, 1.0])

    def add_knob(self, body: str, point: np.ndarray) -> None:
        """Let a body extend to a point, with a ball there."""
        self.arms[body].append(point)
        self.knobs[body].append(point)

    def body(self, name: str):
        """Return the solid of a body, None if nothing holds it."""
        bar, points = self.sizes.thickness / 2, distinct(self.arms[name], self.sizes.thickness / 100)
        if name != GROUND and len(points) < 2:
            self.knobs[name].append(self.com(name))
            points = distinct([*points, self.com(name)], bar)
        pieces, middle = list(self.added[name]), points.mean(axis=0) if len(points) else np.zeros(3)
        if len(points) > 1:
            directions = np.linalg.svd(points - middle)[2]
            along = (points - middle) @ directions[0]
            if np.abs((points - middle) @ directions[1:].T).max() < bar / 10:
                pieces.append(rod(points[along.argmin()], points[along.argmax()], bar))
            else:
                pieces += [rod(middle, point, bar) for point in points]
                self.knobs[name].append(middle)
        pieces += [ball(point, KNOB_DIAMETER_PER_BAR * bar) for point in distinct(self.knobs[name], bar / 10)]
        if not pieces:
            return None
        solid = pieces[0] if len(pieces) == 1 else pieces[0].fuse(*pieces[1:])
        return solid.cut(*self.cut[name]) if self.cut[name] else solid


def solids_of(scene: Scene, sizes: PartSizes, marked: tuple[tuple[str, Any], ...], factor: float) -> tuple[list, float]:
    """Return the parts in the first configuration, with `factor` millimetres for a unit of length, and their width."""
    distances = [float(np.linalg.norm(a - b)) for held in scene.held.values() for a in held for b in held]
    shortest = min((x for x in distances if x > 1e-6 * scene.extent), default=float("inf"))
    work = Workpieces(scene, sizes.of(scene.extent, shortest), factor)
    for name, element in scene.elements.items():
        make_joint(element, work, name)
    others = [
        f"{name!r} ({type(element).__name__})"
        for name, element in scene.mech.constraints.items()
        if make_joint.dispatch(type(element)) is make_joint.dispatch(object)
    ]
    if others:
        warnings.warn(f"there are no parts for {', '.join(others)}", stacklevel=3)
    for body, point in marked:
        work.add_knob(body, factor * np.asarray(point, float))
    found = []
    for name in (GROUND, *scene.mech.bodies):
        solid = work.body(name)
        if solid is not None:
            if len(solid.solids()) > 1:
                warnings.warn(
                    f"the solid of {name!r} is in several pieces, because gaps of its joints go through its bars; make "
                    "the links narrower",
                    stacklevel=3,
                )
            found.append(_placed(solid, name, scene.colours[name], name, work))
    found += [_placed(solid, name, STEEL, body, work) for name, body, solid in work.loose]
    return found, work.sizes.width


@singledispatch
def make_joint(element: Any, work: Workpieces, name: str) -> None:
    """Let the bodies of an element that has no parts of its own extend to its points."""
    for body, point in attachments(element, 3):
        work.add_knob(body, work.factor * point)


@make_joint.register(spatial.RevoluteDriver)
@make_joint.register(spatial.TranslationalDriver)
@make_joint.register(spatial.Free)
def _(element, work, name):
    """Make no parts: the driver acts in a joint that has some, and a free joint holds nothing."""


@make_joint.register
def _(element: spatial.Revolute, work, name):
    """Make an eye on each body, side by side along the axis, a pin through both and a washer between them."""
    s, frames = work.sizes, work.joint_frames(element)
    # Each body has its eye on the side on which the rest of it lies.
    sides = [work.inwards(body, point) @ axes[:, 2] for body, point, axes in frames]
    sense = 1.0 if sides[0] > sides[1] else -1.0
    for (body, point, axes), side in zip(frames, (sense, -sense), strict=True):
        middle = point + side * s.pitch / 2 * axes[:, 2]
        work.arms[body].append(middle)
        work.added[body].append(cylinder(middle, axes[:, 2], s.width / 2, s.thickness))
        work.cut[body].append(cylinder(point, axes[:, 2], s.hole / 2, 4 * s.pitch))
        # The other eye and the washer stay free.
        away = point - side * s.pitch / 2 * axes[:, 2]
        work.cut[body].append(cylinder(away, axes[:, 2], s.width / 2 + s.gap, s.thickness + 2 * s.gap))
    body, point, axes = frames[0]
    work.loose.append((f"{name} pin", body, cylinder(point, axes[:, 2], s.pin / 2, 2 * s.thickness + s.gap)))
    if s.gap:
        washer = cylinder(point, axes[:, 2], s.washer / 2, s.gap).cut(
            cylinder(point, axes[:, 2], s.hole / 2, 2 * s.gap)
        )
        work.loose.append((f"{name} spacer 1", body, washer))


@make_joint.register
def _(element: spatial.Spherical, work, name):
    """Make a ball on body j, and a socket on body i that is open on the side of the bar of the ball."""
    s = work.sizes
    (i, on_i), (j, on_j) = ((body, work.factor * point) for body, point in attachments(element, 3))
    turns = np.swapaxes(work.scene.poses[i][1], 1, 2) @ work.scene.poses[j][1]
    mean = np.mean(turns @ work.inwards(j, on_j), axis=0)
    opening = unit(mean) if np.linalg.norm(mean) > 0.1 else -work.inwards(i, on_i)
    _add_socket(work, i, on_i, opening)
    work.arms[j].append(on_j)
    work.added[j].append(ball(on_j, BALL_DIAMETER_PER_WIDTH * s.width / 2))


def _add_socket(work: Workpieces, body: str, point: np.ndarray, opening: np.ndarray) -> None:
    """Add a socket for a ball to a body, open in a direction."""
    s = work.sizes
    radius = BALL_DIAMETER_PER_WIDTH * s.width / 2
    work.arms[body].append(point)
    work.added[body].append(ball(point, s.width / 2))
    work.cut[body].append(ball(point, radius + s.clearance / 2))
    middle = point + (SOCKET_OPENING * radius + s.width / 2) * opening
    work.cut[body].append(cylinder(middle, opening, s.width / 2, s.width))


@make_joint.register
def _(element: spatial.Distance, work, name):
    """Make a rod with a ball at each end, and a socket on each body."""
    s, ends = work.sizes, []
    for body, own in attachments(element, 3):
        ends.append((body, work.factor * own, work.factor * work.scene.world(body, own)))
    along = ends[1][2] - ends[0][2]
    for (body, point, _), line in zip(ends, (along, -along), strict=True):
        mean = np.mean(np.einsum("fba,fb->fa", work.scene.poses[body][1], line), axis=0)
        _add_socket(work, body, point, unit(mean))
    start, end = (places[0] for *_, places in ends)
    balls = [ball(place, BALL_DIAMETER_PER_WIDTH * s.width / 2) for place in (start, end)]
    work.loose.append((f"{name} rod", GROUND, rod(start, end, s.thickness / 2).fuse(*balls)))


@make_joint.register
def _(element: spatial.Universal, work, name):
    """Make a yoke with two eyes on each body, and a cross with an axle through each yoke."""
    s, axles = work.sizes, []
    ends = zip(attachments(element, 3), (element.axis_i, element.axis_j), strict=True)
    for (body, own), axis in ends:
        point, along = work.factor * own, unit(np.asarray(axis, float))
        back = work.inwards(body, point)
        back = back - (back @ along) * along
        back = unit(back) if np.linalg.norm(back) > 0.1 else frame(along)[:, 0]
        base, reach = point + 1.5 * YOKE_REACH_PER_WIDTH * s.width * back, YOKE_REACH_PER_WIDTH * s.width * along
        work.add_knob(body, base)
        for end in (point - reach, point + reach):
            corner = base + end - point
            work.added[body] += [rod(base, corner, s.thickness / 2), rod(corner, end, s.thickness / 2)]
            work.added[body] += [ball(corner, s.thickness / 2), cylinder(end, along, s.width / 2, s.thickness)]
        work.cut[body].append(cylinder(point, along, s.hole / 2, 4 * YOKE_REACH_PER_WIDTH * s.width))
        axles.append((body, point, along))
    (i, point, first), (j, _, second) = axles
    second = work.scene.poses[i][1][0].T @ work.scene.poses[j][1][0] @ second
    length = 2 * YOKE_REACH_PER_WIDTH * s.width + s.thickness
    cross = cylinder(point, first, s.pin / 2, length).fuse(cylinder(point, second, s.pin / 2, length))
    work.loose.append((f"{name} cross", i, cross))


@make_joint.register(spatial.Prismatic)
@make_joint.register(spatial.Cylindrical)
@make_joint.register(spatial.Screw)
def _(element, work, name):
    """Make a rail along the axis, as long as the travel, square if the sleeve on it does not turn."""
    s, (rail, follower) = work.sizes, carrier(element)
    section = square_bar if isinstance(element, spatial.Prismatic) else round_bar
    start, stop = (work.factor * x for x in travel(element, work.scene, 0.0))
    start, stop = start - SLEEVE_LENGTH_PER_WIDTH * s.width, stop + SLEEVE_LENGTH_PER_WIDTH * s.width
    body, point, axes = rail[0], work.factor * rail[1], rail[2]
    ends = [point + x * axes[:, 2] for x in (start, stop)]
    work.add_knob(body, min(ends, key=lambda end: np.linalg.norm(end - np.mean(work.held[body], axis=0))))
    work.added[body].append(section(np.mean(ends, axis=0), axes, s.pin, stop - start))
    body, point, axes = follower[0], work.factor * follower[1], follower[2]
    # The wall of a sleeve is as thick at the edges of a square rail.
    outer = s.width * (2**0.5 if section is square_bar else 1.0)
    work.arms[body].append(point)
    work.added[body].append(cylinder(point, axes[:, 2], outer / 2, SLEEVE_LENGTH_PER_WIDTH * s.width))
    work.cut[body].append(section(point, axes, s.hole, 2 * SLEEVE_LENGTH_PER_WIDTH * s.width))


def cylinder(middle, axis, radius: float, length: float):
    """Return a cylinder about its middle along an axis."""
    axis = unit(np.asarray(axis, float))
    plane = cad.Plane(origin=tuple(middle - length / 2 * axis), z_dir=tuple(axis))
    return cad.Solid.make_cylinder(radius, length, plane)


def round_bar(middle, axes, width: float, length: float):
    """Return a round bar about its middle along the last of the axes."""
    return cylinder(middle, axes[:, 2], width / 2, length)


def square_bar(middle, axes, width: float, length: float):
    """Return a square bar about its middle along the last of the axes."""
    corner = middle - axes @ np.array([width, width, length]) / 2
    plane = cad.Plane(origin=tuple(corner), x_dir=tuple(axes[:, 0]), z_dir=tuple(axes[:, 2]))
    return cad.Solid.make_box(width, width, length, plane)


def rod(start, end, radius: float):
    """Return a round bar between two points."""
    start, end = np.asarray(start, float), np.asarray(end, float)
    return cylinder((start + end) / 2, end - start, radius, float(np.linalg.norm(end - start)))


def ball(middle, radius: float):
    """Return a ball."""
    return cad.Solid.make_sphere(radius, cad.Plane(origin=tuple(middle)), -90, 90, 360)


def _placed(solid, label: str, colour: str, body: str, work: Workpieces):
    """Return a solid of a body, which is given in its frame, in the first configuration."""
    origin, axes = work.scene.poses[body]
    plane = cad.Plane(origin=tuple(work.factor * origin[0]), x_dir=tuple(axes[0][:, 0]), z_dir=tuple(axes[0][:, 2]))
    found = solid.moved(cad.Location(plane))
    found.label, found.color = label, cad.Color(colour)
    return found
