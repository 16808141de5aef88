"""Closed surfaces of flat faces: cylinders, balls, boxes, plates, tubes, coils, toothed wheels.

All are lofts: rings of as many points each, joined by quadrilaterals. Their faces are anticlockwise from outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.viz.planar.shapes import plate as rounded
from jaxmbs.viz.planar.shapes import unit

# Points of a round section, and of one that is thin.
ROUND, THIN = 16, 6
X, Y, Z = np.eye(3)


class Mesh(NamedTuple):
    """A closed surface.

    Attributes:
        points: (k, 3).
        faces: (m, 4), the points of each quadrilateral; a triangle has its last one twice.
    """

    points: np.ndarray
    faces: np.ndarray

    @property
    def triangles(self) -> np.ndarray:
        """The faces as triangles (k, 3)."""
        first, second = self.faces[:, [0, 1, 2]], self.faces[:, [0, 2, 3]]
        return np.concatenate([first, second[second[:, 1] != second[:, 2]]])

    @property
    def volume(self) -> float:
        """What it encloses; negative if its faces are the wrong way round."""
        a, b, c = np.moveaxis(self.points[self.triangles], 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6

    def at(self, origin, axes=None) -> Mesh:
        """The same surface with its origin at a place, its axes those of the columns of a matrix."""
        points = self.points if axes is None else self.points @ np.asarray(axes).T
        return Mesh(np.asarray(origin, float) + points, self.faces)


def loft(rings, *, closed: bool = False) -> Mesh:
    """Rings (n, k, 3) joined one to the next, the last to the first if `closed`, else with flat ends.

    The ends are fans about the middles of their rings, which must see all of them.
    """
    rings = np.asarray(rings, float)
    n, k, _ = rings.shape
    points = rings.reshape(-1, 3)
    a, b = np.meshgrid(np.arange(n if closed else n - 1), np.arange(k), indexing="ij")
    place = lambda ring, point: ring % n * k + point % k
    sides = [place(a, b), place(a, b + 1), place(a + 1, b + 1), place(a + 1, b)]
    faces = [np.stack(sides, axis=-1).reshape(-1, 4)]
    if not closed:
        for ring, order in ((0, -1), (n - 1, 1)):
            points = np.concatenate([points, [rings[ring].mean(axis=0)]])
            first, second = place(ring, np.arange(k)), place(ring, np.arange(k) + 1)
            middle = np.full(k, len(points) - 1)
            faces.append(np.column_stack([*([first, second][::order]), middle, middle]))
    mesh = Mesh(points, np.concatenate(faces))
    return mesh if mesh.volume >= 0 else Mesh(points, mesh.faces[:, [1, 0, 3, 2]])


def frame(axis) -> np.ndarray:
    """Axes (3, 3), as columns, the last of them in a given direction; those of the space for z."""
    z = unit(axis)
    if z @ Z > 1 - 1e-12:
        return np.eye(3)
    x = unit(np.cross(Y if abs(z[1]) < 0.9 else X, z))
    return np.column_stack([x, np.cross(z, x), z])


def ring(count: int = ROUND) -> np.ndarray:
    """Points (count, 2) on the unit circle."""
    angles = np.arange(count) * (2 * np.pi / count)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def extruded(outline, heights, scales=None) -> Mesh:
    """An outline (k, 2) in the xy plane at some heights z, scaled there."""
    scales = np.ones(len(heights)) if scales is None else scales
    outline = np.asarray(outline, float)
    section = lambda z, scale: np.column_stack([scale * outline, np.full(len(outline), z)])
    return loft([section(z, scale) for z, scale in zip(heights, scales, strict=True)])


def revolved(profile, count: int = ROUND) -> Mesh:
    """A solid of revolution about z: the radii and heights (r, z) of its profile."""
    radii, heights = np.asarray(profile, float).T
    return extruded(ring(count), heights, radii)


def cylinder(radius: float, length: float, *, count: int = ROUND, pieces: int = 1) -> Mesh:
    """A cylinder along z about the origin, its edges a little rounded, in `pieces` along its length."""
    edge = min(0.15 * radius, 0.1 * length)
    heights = np.concatenate([[0], np.linspace(edge, length - edge, pieces + 1), [length]]) - length / 2
    radii = np.concatenate([[radius - edge], np.full(pieces + 1, radius), [radius - edge]])
    return revolved(np.column_stack([radii, heights]), count)


def cone(radius: float, length: float, *, count: int = ROUND) -> Mesh:
    """A cone about z: `radius` at z = 0, its tip at z = `length`."""
    return revolved([(radius, 0), (1e-3 * radius, length)], count)


def ball(radius: float, *, count: int = ROUND) -> Mesh:
    """A ball about the origin."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, count // 2 + 1)
    radii = np.maximum(np.cos(angles), 1e-3)
    return revolved(radius * np.column_stack([radii, np.sin(angles)]), count)


def washer(outer: float, inner: float, height: float) -> Mesh:
    """A flat ring about z, half of its height on either side of the origin."""
    return hollow(outer * ring(2 * ROUND), inner * ring(2 * ROUND), (-height / 2, height / 2))


def hollow(outer, inner, heights) -> Mesh:
    """What lies between two outlines (k, 2) of as many points, from one height to another."""
    low, high = heights
    corners = ((outer, low), (outer, high), (inner, high), (inner, low))
    return loft([np.column_stack([outline, np.full(len(outline), z)]) for outline, z in corners], closed=True)


def box(sides) -> Mesh:
    """A box with sides (3,) along the axes, about the origin."""
    a, b, c = np.asarray(sides, float) / 2
    return extruded([(a, b), (-a, b), (-a, -b), (a, -b)], (-c, c))


def plate(points, radius: float, thickness: float) -> Mesh:
    """A plate with a rounded outline at the distance `radius` round points (k, 3) that lie about in a plane."""
    points = np.asarray(points, float)
    middle = points.mean(axis=0)
    axes = np.linalg.svd(points - middle)[2].T
    axes = axes * np.array([1, 1, np.linalg.det(axes)])
    outline, edge = rounded((points - middle) @ axes[:, :2], radius), 0.2 * thickness
    middle_2d = outline.mean(axis=0)
    inner = middle_2d + (outline - middle_2d) * (1 - edge / np.linalg.norm(outline - middle_2d, axis=1).max())
    layers = ((inner, -0.5), (outline, -0.3), (outline, 0.3), (inner, 0.5))
    rings = [np.column_stack([line, np.full(len(line), z * thickness)]) for line, z in layers]
    return loft(rings).at(middle, axes)


def tube(line, radius: float, *, count: int = THIN) -> Mesh:
    """A tube about a line (k, 3); points that repeat the one before are left out."""
    line = np.asarray(line, float)
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    line = line[np.concatenate([[True], steps > 1e-9 * max(steps.sum(), 1e-300)])]
    if len(line) < 2:
        return ball(radius, count=count).at(line[0])
    tangents = np.gradient(line, axis=0)
    across, sections = frame(tangents[0] if np.any(tangents[0]) else Z)[:, 0], []
    for point, tangent in zip(line, tangents, strict=True):
        along = unit(tangent) if np.any(tangent) else frame(across)[:, 1]
        rest = across - (across @ along) * along
        across = unit(rest) if np.linalg.norm(rest) > 1e-6 else frame(along)[:, 0]
        sections.append(point + radius * ring(count) @ np.stack([across, np.cross(along, across)]))
    return loft(sections)


def helix(radius: float, turns: float, length: float, *, step: int = 14) -> np.ndarray:
    """Points on a helix about z, from z = 0 to `length`."""
    angles = np.linspace(0, 2 * np.pi * turns, max(round(step * abs(turns)), 2))
    return np.column_stack([radius * np.cos(angles), radius * np.sin(angles), length * angles / angles[-1]])


def rod(start, end, radius: float, *, piece: float) -> Mesh:
    """A bar with round ends between two points, in pieces of some length: pictures sort what lies behind what by them."""
    start, end = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(end - start))
    if length == 0:
        return ball(radius).at(start)
    bend = np.linspace(0, np.pi / 2, 4)
    low = np.column_stack([np.maximum(np.sin(bend), 0.02), -np.cos(bend)]) * radius
    high = low[::-1] * [1, -1] + [0, length]
    between = np.linspace(0, length, max(round(length / piece), 1) + 1)[1:-1]
    profile = np.concatenate([low, np.column_stack([np.full(len(between), radius), between]), high])
    return revolved(profile, 12).at(start, frame(end - start))
