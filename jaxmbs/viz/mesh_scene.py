"""Mechanisms as surfaces that move: for viewers in space and for files of such viewers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces
from jaxmbs.element import GROUND
from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory
from jaxmbs.viz.attachments import Marked, attachments
from jaxmbs.viz.dimension import scene_of
from jaxmbs.viz.part_sizes import PartSizes
from jaxmbs.viz.planar.parts import Parts, Piece, parts_of, with_rods
from jaxmbs.viz.planar.shapes import Poses, plate
from jaxmbs.viz.spatial.meshes import Mesh, extrusion, helix, tube
from jaxmbs.viz.spatial.shapes import Solid, Span
from jaxmbs.viz.spatial.symbols import COIL_TURNS, STEEL, bar_of_span
from jaxmbs.viz.style import GROUND_COLOUR, INK, colour_of

# Largest number of configurations of a motion by which the shapes of parts are chosen.
MAX_CONFIGURATIONS = 73
# Number of points on each rounded corner of a plate.
CORNER_POINTS = 16
# Height of the dark areas that stand for holes and slots over their plate, divided by the thickness of plates.
HOLE_HEIGHT = 0.02
# Height by which pins stand out of their plates, so that they are seen, divided by the thickness of plates.
PIN_HEIGHT = 0.08


class MeshScene(NamedTuple):
    """A mechanism in F configurations as surfaces that move with its bodies.

    Attributes:
        solids: surfaces in the frames of bodies.
        spans: surfaces between points of two bodies, by name of their element.
        places: origins of the bodies and of the ground, (F, 3) each.
        axes: rotation matrices of the bodies and of the ground, (F, 3, 3) each.
        up: direction that is up, (3,).
        camera: direction from the mechanism to the camera, (3,).
        extent: size of the mechanism.
    """

    solids: list[Solid]
    spans: list[tuple[str, Span]]
    places: dict[str, np.ndarray]
    axes: dict[str, np.ndarray]
    up: np.ndarray
    camera: np.ndarray
    extent: float

    @property
    def top(self) -> float:
        """Largest height z of all solids."""
        return float(self.corners()[1][2])

    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper corner of all solids in all configurations."""
        taken = spread(len(self.places[GROUND]))
        poses = {body: (self.places[body][taken], self.axes[body][taken]) for body in self.places}
        boxes = [(places.min((0, 1)), places.max((0, 1))) for places in (solid.world(poses) for solid in self.solids)]
        lower, upper = (np.array(corners) for corners in zip(*boxes, strict=True))
        return lower.min(0), upper.max(0)


def configurations(mech: Mechanism, motion: Trajectory | Coordinates) -> tuple[np.ndarray, np.ndarray]:
    """Return the times (F,) at which a motion is good, and the configurations (F, n); 0 and q of one configuration.

    Raises:
        ValueError: a batch of motions, or a motion that failed at all times.
    """
    if not isinstance(motion, Trajectory):
        return np.zeros(1), np.asarray(mech.coordinates(motion))[None]
    if np.ndim(motion.t) != 1:
        raise ValueError("motion: must be one motion; pick one of the batch: jax.tree.map(lambda x: x[k], motion)")
    good = np.asarray(motion.status) == Status.CONVERGED
    if not good.any():
        raise ValueError("motion: failed at all times, so there is nothing to show")
    return np.asarray(motion.t)[good], np.asarray(motion.q)[good]


def spread(count: int) -> np.ndarray:
    """Return indices of at most `MAX_CONFIGURATIONS` of `count` configurations, the first and the last included."""
    return np.unique(np.linspace(0, count - 1, MAX_CONFIGURATIONS).round().astype(int))


def mesh_scene(mech: Mechanism, q: np.ndarray, t: float = 0.0, *, marked: Marked = ()) -> MeshScene:
    """Return a mechanism in configurations q (F, n), the first of them at time t; points `marked` are shown."""
    scene = scene_of(mech, q[spread(len(q))], t, marked=marked, size=1.0, view=None)
    layout = mech.layout
    poses = {name: layout.pose(name, jnp.asarray(q.T)) for name in layout.body_types}
    if layout.dimension == 3:
        places = {name: np.asarray(pose.r, float).T for name, pose in poses.items()}
        axes = {name: np.moveaxis(np.asarray(pose.a, float), -1, 0) for name, pose in poses.items()}
        solids = [shape for shape in scene.shapes if isinstance(shape, Solid)]
        spans = [(name, shape) for name, own in scene.symbols.items() for shape in own if isinstance(shape, Span)]
        up, camera = scene.view.up, scene.view.direction
    else:
        parts = parts_of(scene, PartSizes(), tuple(marked))
        flat: Poses = {name: (np.asarray(pose.r, float).T, np.asarray(pose.phi, float)) for name, pose in poses.items()}
        flat = with_rods({**flat, GROUND: (np.zeros((len(q), 2)), np.zeros(len(q)))}, parts.rods)
        places = {name: np.column_stack([origin, np.zeros(len(q))]) for name, (origin, _) in flat.items()}
        axes = {name: _about_z(angle) for name, (_, angle) in flat.items()}
        solids, spans = _solids_of(parts), _springs(scene, parts)
        up, camera = np.array([0.0, 1.0, 0.0]), np.array([0.15, 0.35, 1.0])
    places[GROUND], axes[GROUND] = np.zeros((len(q), 3)), np.broadcast_to(np.eye(3), (len(q), 3, 3))
    return MeshScene(solids, spans, places, axes, up, camera, float(scene.extent))


def _about_z(angles: np.ndarray) -> np.ndarray:
    """Return the rotation matrices (F, 3, 3) of angles about z."""
    c, s, zero, one = np.cos(angles), np.sin(angles), np.zeros_like(angles), np.ones_like(angles)
    return np.stack([np.stack([c, -s, zero], 1), np.stack([s, c, zero], 1), np.stack([zero, zero, one], 1)], 1)


def _solids_of(parts: Parts) -> list[Solid]:
    """Return the surfaces of plates, pins, blocks and spacers, and dark areas in place of holes."""
    t, found = parts.sizes.thickness, []
    for body, pieces in parts.plates.items():
        low, high = parts.heights(body)
        found += [Solid(body, _prism(piece, low, high), parts.colours[body]) for piece in pieces]
        found += [Solid(body, _prism(hole, high, high + HOLE_HEIGHT * t), INK) for hole in parts.holes[body]]
    for fastener in parts.fasteners:
        low, high = parts.heights_of(fastener)
        more = 0.0 if fastener.block else PIN_HEIGHT * t
        found.append(Solid(fastener.body, _prism(fastener.piece, low - more, high + more), STEEL))
        collar = Piece(fastener.piece.points, parts.sizes.washer / 2)
        found += [Solid(fastener.body, _prism(collar, *heights), STEEL) for heights in parts.spacers(fastener)]
    return found


def _prism(piece: Piece, low: float, high: float) -> Mesh:
    """Return the surface of a prism between two heights z."""
    return extrusion(plate(piece.points, piece.radius, CORNER_POINTS), (low, high))


def _springs(scene, parts: Parts) -> list[tuple[str, Span]]:
    """Return a coil for each spring between two points, and a cylinder for each damper, above all plates."""
    u, found = scene.unit, []
    height = (max(parts.layers.values()) + 0.5) * parts.sizes.pitch + parts.sizes.thickness
    for name, force in scene.mech.forces.items():
        if isinstance(force, forces.AbstractSpringDamper):
            first, second = ((body, np.append(point, height)) for body, point in attachments(force))
            length = float(np.mean(np.linalg.norm(scene.world(*_flat(second)) - scene.world(*_flat(first)), axis=-1)))
            coil = tube(helix(1.1 * u, COIL_TURNS, length or u), 0.2 * u, count=6)
            meshes = [(Mesh(coil.points / [1, 1, length or u], coil.faces), INK)]
            meshes += [] if force.damping is None else [(bar_of_span(0.5 * u), STEEL)]
            found += [(name, Span((first, second), mesh, colour)) for mesh, colour in meshes]
    return found


def _flat(attachment: tuple[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return a body with a point of it without its height."""
    return attachment[0], attachment[1][:2]


def curves_of(scene: MeshScene, mech: Mechanism, q: np.ndarray, traces: Marked) -> list[tuple[str, np.ndarray, str]]:
    """Return (name, points (F, 3), colour) of the paths of points in configurations q (F, n).

    Paths of the plane lie above all plates.
    """
    bodies, found = list(mech.bodies), []
    for body, point in traces:
        line = np.asarray(
            jnp.vectorize(lambda q, b=body, s=point: mech.point(q, b, s), signature="(n)->(d)")(jnp.asarray(q))
        )
        heights = np.full((len(line), 3 - line.shape[1]), scene.top)
        colour = colour_of(bodies.index(body)) if body in bodies else GROUND_COLOUR
        found.append((f"path of {body}", np.column_stack([line, heights]), colour))
    return found


def span_frames(scene: MeshScene, span: Span) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places (F, 3), rotation matrices (F, 3, 3) and scales (F, 3) that carry the surface of a span along.

    The surface has the height 1 along z; see `Span`.
    """
    poses = {body: (scene.places[body], scene.axes[body]) for body in (end[0] for end in span.ends)}
    unit_axes = Mesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]), np.zeros((0, 4), int))
    corners = Span(span.ends, unit_axes, "").world(poses)
    origin, first, second, end = np.moveaxis(corners, 1, 0)
    length = np.linalg.norm(end - origin, axis=1)
    x, y = first - origin, second - origin
    axes = np.stack([x, y, np.cross(x, y)], axis=2)
    return origin, axes, np.column_stack([np.ones_like(length), np.ones_like(length), length])


def quaternions(axes: np.ndarray) -> np.ndarray:
    """Return unit quaternions (F, 4), scalar part first, of rotation matrices (F, 3, 3); neighbours have like signs."""
    trace = np.einsum("fii->f", axes)
    # Squares of the four parts, of which the largest is the divisor.
    squares = np.column_stack([1 + trace, *(1 + 2 * axes[:, k, k] - trace for k in range(3))])
    a = axes
    vector = np.column_stack([a[:, 2, 1] - a[:, 1, 2], a[:, 0, 2] - a[:, 2, 0], a[:, 1, 0] - a[:, 0, 1]])
    rows = np.empty((len(a), 4, 4))
    rows[:, 0, 0], rows[:, 0, 1:], rows[:, 1:, 0] = squares[:, 0], vector, vector
    rows[:, 1:, 1:] = a + np.swapaxes(a, 1, 2)
    rows[:, [1, 2, 3], [1, 2, 3]] = squares[:, 1:]
    best = rows[np.arange(len(a)), squares.argmax(1)]
    found = best / np.linalg.norm(best, axis=1, keepdims=True)
    flips = np.cumprod(np.where(np.einsum("fk,fk->f", found[1:], found[:-1]) < 0, -1.0, 1.0))
    found[1:] *= flips[:, None]
    return found


def merged(solids: Sequence[Solid]) -> dict[tuple[str, str, float], Mesh]:
    """Return the surfaces of each body with the same colour and opacity as one, by (body, colour, opacity)."""
    groups: dict[tuple[str, str, float], list[Mesh]] = {}
    for solid in solids:
        groups.setdefault((solid.body, solid.colour, solid.opacity), []).append(solid.mesh)
    found = {}
    for key, meshes in groups.items():
        starts = np.cumsum([0, *(len(mesh.points) for mesh in meshes)])
        faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]
        found[key] = Mesh(np.concatenate([mesh.points for mesh in meshes]), np.concatenate(faces))
    return found
