"""A spatial mechanism in one or more configurations, taken apart into solids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.system.marks import with_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz.attachments import Marked, attachments
from jaxmbs.viz.spatial.bodies import body_meshes, distinct, inertia_mesh
from jaxmbs.viz.spatial.camera import Camera
from jaxmbs.viz.spatial.gears import wheels
from jaxmbs.viz.spatial.meshes import ball
from jaxmbs.viz.spatial.shapes import Poses, Solid, Span, place
from jaxmbs.viz.spatial.symbols import symbol
from jaxmbs.viz.style import GROUND_COLOUR, colour_of

# Unit of length of the symbols of spatial pictures, divided by the size of the mechanism.
SYMBOL_SIZE = 0.015


class Scene:
    """A spatial mechanism in F configurations: places, colours and sizes for the symbols, and all shapes.

    Attributes:
        mech: the mechanism.
        poses: poses of all bodies and of the ground.
        t: time of the first configuration.
        elements: constraints, drivers and forces by name.
        colours: colours of the bodies and of the ground.
        view: the camera, and the direction that is up.
        extent: size of the mechanism.
        unit: unit of length of the symbols.
        marked: points (body, point) that are shown.
        held: for each body the points, in its frame, at which elements hold it.
        wheels: the gears.
        tooth_pitch: pitch of the teeth of all gears.
        feet: places of the stands drawn so far, which elements may share.
        teeth: angle of one tooth of each gear, which elements may share.
        dressed: bodies that have a symbol for the whole body, such as the block of a slider.
        bodies: the solids of each body by its name.
        symbols: the solids of each element by its name.
        marks: the solids of the marked points.
    """

    def __init__(
        self,
        mech: Mechanism,
        q,
        t: float = 0.0,
        *,
        marked: Marked = (),
        size: float = 1.0,
        view: tuple[float, float] | None = None,
    ):
        mech = with_marks(mech, q[0])
        self.mech, self.poses, self.t = mech, _poses(mech, q), float(t)
        self.elements = {**mech.constraints, **mech.drivers, **mech.forces}
        self.colours = {GROUND: GROUND_COLOUR} | {name: colour_of(k) for k, name in enumerate(mech.bodies)}
        places = [place for element in self.elements.values() for place in attachments(element, 3)]
        self.marked = [(body, np.asarray(point, float)) for body, point in marked]
        self.held = {name: [point for owner, point in places if owner == name] for name in mech.bodies}
        everywhere = self._places([*places, *self.marked])
        self.view = Camera(mech, everywhere, view)
        geared = [element for element in self.elements.values() if hasattr(element, "radius_i")]
        self.wheels = [wheel for element in geared for wheel in wheels(element, self.poses)]
        self.extent = self._extent(everywhere)
        self.unit = SYMBOL_SIZE * size * self.extent
        self.tooth_pitch = 2 * np.pi * min((abs(w.radius) for w in self.wheels), default=1.0) / 18
        self.feet: set[tuple] = set()
        self.teeth: dict[tuple, float] = {}
        self.dressed: set[str] = set()
        self.symbols: dict[str, list[Solid | Span]] = {
            name: symbol(element, self) for name, element in self.elements.items()
        }
        self.bodies: dict[str, list[Solid]] = {name: self._body(name, body) for name, body in mech.bodies.items()}
        self.marks = [Solid(body, ball(0.9 * self.unit).at(point), self.colours[body]) for body, point in self.marked]

    @property
    def shapes(self) -> list[Solid | Span]:
        """All shapes."""
        groups: list[Sequence[Solid | Span]] = [*self.bodies.values(), *self.symbols.values(), self.marks]
        return [shape for group in groups for shape in group]

    def world(self, body: str, point) -> np.ndarray:
        """Return a point of a body in the ground frame, (F, 3)."""
        return place(self.poses, body, np.reshape(point, (1, 3)))[:, 0]

    def local(self, body: str, places) -> np.ndarray:
        """Return places in the ground frame (F, 3), one per configuration, in the frame of a body."""
        origin, axes = self.poses[body]
        return np.einsum("fba,fb->fa", axes, places - origin)

    def middle(self, body: str) -> np.ndarray:
        """Return the middle of the points that hold a body, and of its centre of mass if there is only one, (F, 3)."""
        points = list(distinct(self.held[body], self.unit / 10))
        points += [] if len(points) > 1 else [np.asarray(self.mech.bodies[body].com, float)]
        return np.mean([self.world(body, point) for point in points], axis=0)

    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper corner of all shapes in all configurations."""
        boxes = [(places.min((0, 1)), places.max((0, 1))) for places in (s.world(self.poses) for s in self.shapes)]
        lower, upper = (np.array(corners) for corners in zip(*boxes, strict=True))
        return lower.min(0), upper.max(0)

    def _places(self, places) -> np.ndarray:
        """Return points (body, point), and the centres of mass of bodies held at one point at most, as places (k, 3)."""
        loose = [(name, body.com) for name, body in self.mech.bodies.items() if len(self.held[name]) < 2]
        return np.concatenate([self.world(body, point) for body, point in [*places, *loose]])

    def _extent(self, places: np.ndarray) -> float:
        """Return the size of the mechanism: that of places (k, 3) and gears, or of inertias if these have no size."""
        radii = [abs(wheel.radius) for wheel in self.wheels]
        extent = max(float(np.linalg.norm(np.ptp(places, axis=0))), 2 * max(radii, default=0.0))
        if extent > 0:
            return extent
        meshes = [inertia_mesh(body, 1e-9, np.inf) for body in self.mech.bodies.values()]
        return 2 * max(float(np.ptp(mesh.points, axis=0).max()) for mesh in meshes)

    def _body(self, name: str, body) -> list[Solid]:
        """Return the solids of a body. The symbols must be known."""
        marked = [point for owner, point in self.marked if owner == name]
        meshes = body_meshes(body, self.held[name], marked, self.unit, self.extent, dressed=name in self.dressed)
        return [Solid(name, mesh, self.colours[name]) for mesh in meshes]


def _poses(mech: Mechanism, q) -> Poses:
    """Return places and rotation matrices of all bodies and of the ground in configurations q (F, n)."""
    q = np.asarray(q, float)
    poses = {}
    for name in mech.layout.body_types:
        pose = mech.layout.pose(name, q.T)
        poses[name] = np.asarray(pose.r, float).T, np.moveaxis(np.asarray(pose.a, float), -1, 0)
    return poses | {GROUND: (np.zeros((len(q), 3)), np.broadcast_to(np.eye(3), (len(q), 3, 3)))}
