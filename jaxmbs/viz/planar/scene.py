"""A mechanism in one or more configurations, taken apart into shapes."""

from __future__ import annotations

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.system.marks import with_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz.attachments import Marked, attachments, pitch_radii
from jaxmbs.viz.planar.shapes import CURVE_LAYER, Poses, Shape, Span, Style, arc, place, plate
from jaxmbs.viz.planar.symbols import symbol
from jaxmbs.viz.style import GROUND_COLOUR, PAPER, colour_of

# Unit of length of the symbols of planar pictures, divided by the size of the mechanism.
SYMBOL_SIZE = 0.013


class Scene:
    """A planar mechanism in F configurations: places, colours and sizes for the symbols, and all shapes.

    Attributes:
        mech: the mechanism.
        poses: poses of all bodies and of the ground.
        t: time of the first configuration.
        elements: constraints, drivers and forces by name.
        colours: colours of the bodies and of the ground.
        extent: size of the mechanism.
        unit: unit of length of the symbols.
        held: for each body the points, in its frame, at which elements hold it.
        tooth_pitch: pitch of all gears and racks.
        pivots: places of the bearings drawn so far, which elements may share.
        teeth: angle of one tooth of each gear, which elements may share.
        symbols: the shapes of each element by its name.
        shapes: all shapes, the lowest layer first.
    """

    def __init__(self, mech: Mechanism, q, t: float = 0.0, *, marked: Marked = (), size: float = 1.0):
        mech = with_marks(mech, q[0])
        self.mech, self.poses, self.t = mech, _poses(mech, q), float(t)
        self.elements = {**mech.constraints, **mech.drivers, **mech.forces}
        self.colours = {GROUND: GROUND_COLOUR} | {name: colour_of(k) for k, name in enumerate(mech.bodies)}
        self.pivots: set[tuple] = set()
        self.teeth: dict[tuple, float] = {}
        places = [attachment for element in self.elements.values() for attachment in attachments(element)]
        places += [(body, np.asarray(point, float)) for body, point in marked]
        self.held = {name: [point for owner, point in places if owner == name] for name in mech.bodies}
        for name, body in mech.bodies.items():
            if not self.held[name]:
                self.held[name].append(np.asarray(body.com, float))
        ground = [(body, point) for body, point in places if body == GROUND]
        held = ground + [(name, point) for name, points in self.held.items() for point in points]
        everywhere = np.concatenate([self.world(body, point) for body, point in held])
        radii = [radius for element in self.elements.values() for radius in pitch_radii(element)]
        self.extent = max(float(np.linalg.norm(np.ptp(everywhere, axis=0))), 2 * max(radii, default=0.0)) or 1.0
        self.unit = SYMBOL_SIZE * size * self.extent
        self.tooth_pitch = 2 * np.pi * min(radii, default=1.0) / 18
        shapes = [*self._bodies(), *self._marks(marked)]
        self.symbols = {name: symbol(element, self) for name, element in self.elements.items()}
        for symbols in self.symbols.values():
            shapes += symbols
        self.shapes: list[Shape | Span] = sorted(shapes, key=lambda shape: shape.style.layer)

    def world(self, body: str, point) -> np.ndarray:
        """Return a point of a body in the ground frame, (F, 2)."""
        return place(self.poses, body, np.reshape(point, (1, 2)))[:, 0]

    def local(self, body: str, places) -> np.ndarray:
        """Return places in the ground frame (F, 2), one per configuration, in the frame of a body."""
        origin, angle = self.poses[body]
        x, y = (places - origin).T
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([c * x + s * y, c * y - s * x], axis=-1)

    def middle(self, body: str) -> np.ndarray:
        """Return the middle of the points that hold a body, in the ground frame, (F, 2)."""
        return np.mean([self.world(body, point) for point in self.held[body]], axis=0)

    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper corner of all shapes in all configurations, with a margin."""
        everything = np.concatenate([shape.world(self.poses).reshape(-1, 2) for shape in self.shapes])
        margin = 3 * self.unit
        return everything.min(0) - margin, everything.max(0) + margin

    def _bodies(self):
        """Yield a plate round the held points of each body, and round its centre of mass if there is only one point."""
        for name, body in self.mech.bodies.items():
            points = np.array(self.held[name])
            if np.ptp(points, axis=0).max() < self.unit / 100:
                points = np.concatenate([points, np.reshape(body.com, (1, 2))])
            colour = self.colours[name]
            style = Style(face=colour, edge=colour, opacity=0.35, width=1.3)
            yield Shape(name, plate(points, 1.15 * self.unit), style)

    def _marks(self, marked):
        """Yield a disc for each marked point."""
        for body, point in marked:
            style = Style(face=self.colours[body], edge=PAPER, layer=CURVE_LAYER)
            yield Shape(body, arc(point, 0.8 * self.unit), style)


def _poses(mech: Mechanism, q) -> Poses:
    """Return the places and the angles of all bodies and of the ground in configurations q (F, n)."""
    kinds = mech.layout.body_types
    q = np.asarray(q, float)
    poses = {}
    for name in kinds:
        pose = mech.layout.pose(name, q.T)
        poses[name] = np.asarray(pose.r).T, np.asarray(pose.phi)
    return poses | {GROUND: (np.zeros((len(q), 2)), np.zeros(len(q)))}
