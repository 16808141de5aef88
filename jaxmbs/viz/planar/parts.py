"""Planar linkages as parts: a plate for each body, with holes and slots, pins and sliding blocks, in layers."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.part_sizes import PartSizes, Sizes
from jaxmbs.viz.planar.layers import Overlaps, best_layers
from jaxmbs.viz.planar.scene import Scene
from jaxmbs.viz.planar.shapes import Poses, place, plate
from jaxmbs.viz.style import colour_of

# Pins of a body count as one if their distance, divided by the size of the mechanism, is smaller.
SAME_PIN = 1e-9


# Ends (body, point) of a rod.
Ends = tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]


class Piece(NamedTuple):
    """A convex area: all places nearer than `radius` to the convex hull of points (k, 2), in the frame of a body."""

    points: np.ndarray
    radius: float


class Fastener(NamedTuple):
    """A pin, or a block that slides in a slot.

    Attributes:
        name: name of its joint.
        body: body to which it is fixed.
        bodies: bodies that it connects.
        piece: its section, in the frame of `body`.
        slides: True if it moves along a slot, and has no spacers.
        block: True if it lies under the plate of `body` instead of passing through it.
    """

    name: str
    body: str
    bodies: tuple[str, ...]
    piece: Piece
    slides: bool
    block: bool

    def layers(self, layers: dict[str, int]) -> tuple[int, int]:
        """Return the lowest and the highest layer that it occupies."""
        own = sorted(layers[body] for body in self.bodies)
        if not self.block:
            return own[0], own[-1]
        return (own[0], own[-1] - 1) if layers[self.body] == own[-1] else (own[0] + 1, own[-1])


class Parts(NamedTuple):
    """A planar linkage as parts.

    Attributes:
        plates: pieces that make up the plate of each body and rod, in its frame; the first one has its points.
        holes: holes and slots of each body and rod, in its frame.
        fasteners: pins and blocks.
        layers: layer of each body and rod; the ground has layer 0.
        sizes: sizes of the parts.
        rods: for each `Distance` the ends (body, point) of the rod that it is made as, by name.
        colours: colours of the bodies, of the rods and of the ground.
    """

    plates: dict[str, list[Piece]]
    holes: dict[str, list[Piece]]
    fasteners: list[Fastener]
    layers: dict[str, int]
    sizes: Sizes
    rods: dict[str, Ends]
    colours: dict[str, str]

    def heights(self, body: str) -> tuple[float, float]:
        """Return the heights z of the lower and the upper face of a plate."""
        low = self.layers[body] * self.sizes.pitch
        return low, low + self.sizes.thickness

    def heights_of(self, fastener: Fastener) -> tuple[float, float]:
        """Return the heights z of the ends of a pin or a block, which are faces of plates."""
        bodies = sorted(fastener.bodies, key=self.layers.__getitem__)
        low, high = self.heights(bodies[0])[0], self.heights(bodies[-1])[1]
        if fastener.block:
            own = self.heights(fastener.body)
            low, high = (low, own[0]) if fastener.body == bodies[-1] else (own[1], high)
        return low, high

    def spacers(self, fastener: Fastener) -> list[tuple[float, float]]:
        """Return the lower and upper heights z of the spacers on a pin, between the plates that it connects."""
        if fastener.slides:
            return []
        plates = sorted(self.heights(body) for body in fastener.bodies)
        pairs = [(below[1], above[0]) for below, above in pairwise(plates)]
        return [(low, high) for low, high in pairs if high - low > 1e-9 * self.sizes.thickness]


class Pin(NamedTuple):
    """A place about which bodies turn relative to each other: its point in the frame of each body."""

    name: str
    points: dict[str, np.ndarray]


def with_rods(poses: Poses, rods: dict[str, Ends]) -> Poses:
    """Return poses with those of rods, whose frames have their origin at the first end and x towards the second."""
    found = dict(poses)
    for name, ends in rods.items():
        start, end = (place(poses, body, point[None])[:, 0] for body, point in ends)
        found[name] = start, np.arctan2(*(end - start).T[::-1])
    return found


def parts_of(scene: Scene, sizes: PartSizes, marked: tuple[tuple[str, Any], ...] = ()) -> Parts:
    """Return the parts of the linkage of a scene, in layers in which nothing collides in any of its configurations.

    Args:
        scene: the mechanism in some configurations; its poses get those of rods.
        sizes: sizes of the parts.
        marked: points (body, point) that get a hole.

    Returns:
        the parts. Joints that have no parts are named in a warning, as are plates and pins that collide in any order of
        layers.
    """
    points = {body: list(held) for body, held in scene.held.items()}
    for name, held in points.items():
        if np.ptp(held, axis=0).max() < scene.unit / 100:
            held.append(np.asarray(scene.mech.bodies[name].com, float))
    points[GROUND] = [
        point for element in scene.elements.values() for body, point in attachments(element) if body == GROUND
    ]
    rods = {
        name: ((joint.i, np.asarray(joint.point_i, float)), (joint.j, np.asarray(joint.point_j, float)))
        for name, joint in scene.mech.constraints.items()
        if isinstance(joint, planar.Distance)
    }
    scene.poses = with_rods(scene.poses, rods)
    colours = scene.colours | {name: colour_of(k) for k, name in enumerate(rods, len(scene.mech.bodies))}
    pins, slides, gears = _pins(scene, rods), _slides(scene), _gears(scene)
    for name in rods:
        points[name] = [pin.points[name] for pin in pins if name in pin.points]
    chosen = sizes.of(scene.extent, _shortest(points, 1e-6 * scene.extent))
    holes: dict[str, list[Piece]] = {body: [] for body in points}
    fasteners = []
    hole = chosen.hole / 2
    for pin in pins:
        bodies = tuple(sorted(pin.points, key=lambda body: body != GROUND))
        own = Piece(pin.points[bodies[0]][None], chosen.pin / 2)
        fasteners.append(Fastener(pin.name, bodies[0], bodies, own, slides=False, block=False))
        for body, point in pin.points.items():
            holes[body].append(Piece(point[None], hole))
    for name, joint in slides.items():
        ends, slot = _slide_ends(joint, scene, 0.0 if _turns(joint) else chosen.width)
        points[joint.j] += list(ends)
        points[joint.i] += list(slot)
        holes[joint.i].append(Piece(slot, hole))
        block = not _turns(joint)
        if not block:
            holes[joint.j].append(Piece(ends[:1], hole))
        own = Piece(ends if block else ends[:1], chosen.pin / 2)
        fasteners.append(Fastener(name, joint.j, (joint.i, joint.j), own, slides=True, block=block))
    for body, point in marked:
        holes[body].append(Piece(np.reshape(np.asarray(point, float), (1, 2)), hole))
    plates = {body: [Piece(np.array(own), chosen.width / 2)] for body, own in points.items() if own}
    meshing = []
    for gear in gears:
        for body, centre, radius in ((gear.i, gear.point_i, gear.radius_i), (gear.j, gear.point_j, gear.radius_j)):
            disc = Piece(np.reshape(np.asarray(centre, float), (1, 2)), float(radius) - chosen.clearance / 2)
            plates[body].append(disc)
        meshing.append((gear.i, gear.j))
    _warn_of_others(scene, {*slides, *rods})
    layers, collisions = best_layers(_overlaps(scene, plates, fasteners, chosen, meshing))
    if collisions:
        warnings.warn(
            f"found no order of layers that keeps all parts apart: {'; '.join(collisions)} collide in this motion",
            stacklevel=2,
        )
    return Parts(plates, holes, fasteners, layers, chosen, rods, colours)


def _pins(scene: Scene, rods: dict[str, Ends]) -> list[Pin]:
    """Return the pins, with those of a common body in one place as one pin of all their bodies."""
    joints = {name: joint for name, joint in scene.mech.constraints.items() if isinstance(joint, planar.Revolute)}
    new = [
        Pin(name, {joint.i: np.asarray(joint.point_i, float), joint.j: np.asarray(joint.point_j, float)})
        for name, joint in joints.items()
    ]
    for name, ends in rods.items():
        start, end = (scene.world(body, point)[0] for body, point in ends)
        places = np.array([[0.0, 0.0], [np.linalg.norm(end - start), 0.0]])
        new += [Pin(f"{name} {k}", {ends[k - 1][0]: ends[k - 1][1], name: places[k - 1]}) for k in (1, 2)]
    found: list[Pin] = []
    for pin in new:
        same = [other for other in found if _coincide(pin, other, SAME_PIN * scene.extent)]
        points = {body: point for other in (*same, pin) for body, point in other.points.items()}
        found = [other for other in found if not any(other is x for x in same)]
        found.append(Pin((same or [pin])[0].name, points))
    return found


def _coincide(a: Pin, b: Pin, tolerance: float) -> bool:
    """Return True for pins in the same place of a common body."""
    return any(np.abs(a.points[body] - b.points[body]).max() < tolerance for body in set(a.points) & set(b.points))


def _slides(scene: Scene) -> dict[str, Any]:
    """Return the joints in which a pin or a block of body j slides along a line of body i."""
    kinds = (planar.Translational, planar.RevoluteTranslational)
    return {name: joint for name, joint in scene.mech.constraints.items() if isinstance(joint, kinds)}


def _turns(joint) -> bool:
    """Return True if body j turns as it slides."""
    return joint.mobility.turning is not None


def _gears(scene: Scene) -> list[Any]:
    """Return the pairs of external gears."""
    return [joint for joint in scene.mech.constraints.values() if _is_external_gear(joint)]


def _is_external_gear(joint) -> bool:
    """Return True for a pair of gears of which none is internal."""
    return isinstance(joint, planar.Gear) and float(joint.radius_i) > 0 and float(joint.radius_j) > 0


def _warn_of_others(scene: Scene, slides: set[str]) -> None:
    """Warn of constraints for which there are no parts."""
    others = [
        f"{name!r} ({type(joint).__name__})"
        for name, joint in scene.mech.constraints.items()
        if not (isinstance(joint, planar.Revolute) or name in slides or _is_external_gear(joint))
    ]
    if others:
        warnings.warn(f"there are no parts for {', '.join(others)}", stacklevel=3)


def _slide_ends(joint, scene: Scene, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (2, 2) of a block of this length in the frame of body j, and those of its slot on body i."""
    mobility = joint.mobility
    start, along = np.asarray(mobility.point_i, float), np.asarray(mobility.slides, float)[:, 0]
    follower = np.asarray(mobility.point_j, float)
    travel = (scene.local(joint.i, scene.world(joint.j, follower)) - start) @ along
    half = length / 2 * np.array([[-1.0], [1.0]])
    # The line in the frame of body j, in the first configuration.
    turn = scene.poses[joint.i][1][0] - scene.poses[joint.j][1][0]
    c, s = np.cos(turn), np.sin(turn)
    on_j = np.array([[c, -s], [s, c]]) @ along
    return follower + half * on_j, start + (np.array([[travel.min()], [travel.max()]]) + half) * along


def _shortest(points: dict[str, list[np.ndarray]], smallest: float) -> float:
    """Return the shortest distance between points of a moving body that do not coincide."""
    distances = [np.linalg.norm(a - b) for body, own in points.items() if body != GROUND for a in own for b in own]
    return min((float(x) for x in distances if x > smallest), default=float("inf"))


def _overlaps(scene: Scene, plates, fasteners: list[Fastener], sizes: Sizes, meshing) -> Overlaps:
    """Return the pairs of plates, and of fasteners and other parts, that overlap in any configuration, seen from above."""

    def outline(body, piece, more=0.0):
        """Return the outline of a piece in all configurations, wider by `more`."""
        return place(scene.poses, body, plate(piece.points, piece.radius + more))

    bodies = list(plates)
    areas = {body: [outline(body, piece) for piece in pieces] for body, pieces in plates.items()}
    mesh = {frozenset(pair) for pair in meshing}
    same = set()
    for k, a in enumerate(bodies):
        for b in bodies[:k]:
            pairs = [(x, y) for x in range(len(areas[a])) for y in range(len(areas[b]))]
            if frozenset((a, b)) in mesh:
                pairs = [(x, y) for x, y in pairs if not (x and y)]
            if any(_meet(areas[a][x], areas[b][y]) for x, y in pairs):
                same.add(frozenset((a, b)))
    collars = [outline(f.body, f.piece, 0.0 if f.slides else (sizes.washer - sizes.pin) / 2) for f in fasteners]
    hits = [
        {body for body in bodies if body not in f.bodies and any(_meet(collar, area) for area in areas[body])}
        for f, collar in zip(fasteners, collars, strict=True)
    ]
    clashes = [{g for g in range(k) if _meet(collars[k], collars[g])} for k in range(len(fasteners))]
    return Overlaps([body for body in bodies if body != GROUND], fasteners, same, hits, clashes, mesh)


def _meet(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if two convex outlines (F, k, 2) and (F, m, 2) overlap in any configuration.

    They are apart if the normal of one of their sides separates them.
    """
    apart = np.zeros(len(a), bool)
    for sides in (np.roll(a, -1, axis=1) - a, np.roll(b, -1, axis=1) - b):
        normals = np.stack([-sides[..., 1], sides[..., 0]], axis=-1)
        own, others = normals @ np.swapaxes(a, 1, 2), normals @ np.swapaxes(b, 1, 2)
        gap = np.maximum(own.min(2) - others.max(2), others.min(2) - own.max(2))
        apart |= gap.max(1) > 0
    return bool(np.any(~apart))
