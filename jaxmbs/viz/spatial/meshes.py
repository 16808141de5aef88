"""Closed surfaces of flat faces: cylinders, balls, boxes, plates, tubes, coils, gears.

All are lofts: rings of `count` points each, joined by quadrilaterals, anticlockwise from outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.viz.planar.shapes import plate as rounded_outline
from jaxmbs.viz.planar.shapes import unit

# Number of points round the section of cylinders and other round solids.
ROUND = 16
# Number of points round the section of thin tubes.
THIN = 6
# Unit vector of the x axis.
X = np.array([1.0, 0.0, 0.0])
# Unit vector of the y axis.
Y = np.array([0.0, 1.0, 0.0])
# Unit vector of the z axis.
Z = np.array([0.0, 0.0, 1.0])


class Mesh(NamedTuple):
    """A closed surface.

    Attributes:
        points: the corners, (k, 3).
        faces: indices of the points of each quadrilateral, (m, 4). Triangles repeat the last point.
    """

    points: np.ndarray
    faces: np.ndarray

    @property
    def triangles(self) -> np.ndarray:
        """The faces as triangles, (k, 3)."""
        first, second = self.faces[:, [0, 1, 2]], self.faces[:, [0, 2, 3]]
        return np.concatenate([first, second[second[:, 1] != second[:, 2]]])

    @property
    def volume(self) -> float:
        """The enclosed volume, negative if the faces are clockwise from outside."""
        a, b, c = np.moveaxis(self.points[self.triangles], 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6

    def at(self, origin, axes=None) -> Mesh:
        """Return the surface in a frame with this origin and with the columns of a matrix as axes."""
        points = self.points if axes is None else self.points @ np.asarray(axes).T
        return Mesh(np.asarray(origin, float) + points, self.faces)


def loft(rings, *, closed: bool = False) -> Mesh:
    """Return a surface through rings (n, k, 3), with the last joined to the first if `closed`, else with flat ends.

    The ends are fans about the middles of their rings. Rings must be star-shaped about them.
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
    """Return a rotation matrix (3, 3) whose last column is along `axis`; the identity for z."""
    z = unit(axis)
    if z @ Z > 1 - 1e-12:
        return np.eye(3)
    x = unit(np.cross(Y if abs(z[1]) < 0.9 else X, z))
    return np.column_stack([x, np.cross(z, x), z])


def ring(count: int = ROUND) -> np.ndarray:
    """Return points (count, 2) on the unit circle."""
    angles = np.arange(count) * (2 * np.pi / count)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def extrusion(outline, heights, scales=None) -> Mesh:
    """Return a surface through copies of the outline (k, 2) at some heights z, each scaled by one of `scales`."""
    scales = np.ones(len(heights)) if scales is None else scales
    outline = np.asarray(outline, float)
    section = lambda z, scale: np.column_stack([scale * outline, np.full(len(outline), z)])
    return loft([section(z, scale) for z, scale in zip(heights, scales, strict=True)])


def solid_of_revolution(profile, count: int = ROUND) -> Mesh:
    """Return a solid of revolution about z, with a profile of radii and heights (r, z)."""
    radii, heights = np.asarray(profile, float).T
    return extrusion(ring(count), heights, radii)


def cylinder(radius: float, length: float, *, count: int = ROUND, pieces: int = 1) -> Mesh:
    """Return a cylinder along z about the origin with rounded edges, in `pieces` along its length."""
    edge = min(0.15 * radius, 0.1 * length)
    heights = np.concatenate([[0], np.linspace(edge, length - edge, pieces + 1), [length]]) - length / 2
    radii = np.concatenate([[radius - edge], np.full(pieces + 1, radius), [radius - edge]])
    return solid_of_revolution(np.column_stack([radii, heights]), count)


def cone(radius: float, length: float, *, count: int = ROUND) -> Mesh:
    """Return a cone about z with `radius` at z = 0 and its tip at z = `length`."""
    return solid_of_revolution([(radius, 0), (1e-3 * radius, length)], count)


def ball(radius: float, *, count: int = ROUND) -> Mesh:
    """Return a ball about the origin."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, count // 2 + 1)
    radii = np.maximum(np.cos(angles), 1e-3)
    return solid_of_revolution(radius * np.column_stack([radii, np.sin(angles)]), count)


def washer(outer: float, inner: float, height: float) -> Mesh:
    """Return a flat ring about z with the origin in its middle."""
    return tube_between(outer * ring(2 * ROUND), inner * ring(2 * ROUND), (-height / 2, height / 2))


def tube_between(outer, inner, heights) -> Mesh:
    """Return the solid between two outlines (k, 2) with the same number of points, between two heights z."""
    low, high = heights
    corners = ((outer, low), (outer, high), (inner, high), (inner, low))
    return loft([np.column_stack([outline, np.full(len(outline), z)]) for outline, z in corners], closed=True)


def box(sides) -> Mesh:
    """Return a box with sides (3,) along the axes, about the origin."""
    a, b, c = np.asarray(sides, float) / 2
    return extrusion([(a, b), (-a, b), (-a, -b), (a, -b)], (-c, c))


def plate(points, radius: float, thickness: float) -> Mesh:
    """Return a plate with a rounded outline at the distance `radius` round points (k, 3) close to a plane."""
    points = np.asarray(points, float)
    middle = points.mean(axis=0)
    axes = np.linalg.svd(points - middle)[2].T
    axes = axes * np.array([1, 1, np.linalg.det(axes)])
    outline, edge = rounded_outline((points - middle) @ axes[:, :2], radius), 0.2 * thickness
    middle_2d = outline.mean(axis=0)
    inner = middle_2d + (outline - middle_2d) * (1 - edge / np.linalg.norm(outline - middle_2d, axis=1).max())
    layers = ((inner, -0.5), (outline, -0.3), (outline, 0.3), (inner, 0.5))
    rings = [np.column_stack([line, np.full(len(line), z * thickness)]) for line, z in layers]
    return loft(rings).at(middle, axes)


def tube(line, radius: float, *, count: int = THIN) -> Mesh:
    """Return a tube about a line (k, 3). Points that repeat the one before are left out."""
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


def helix(radius: float, turns: float, length: float, *, points_per_turn: int = 14) -> np.ndarray:
    """Return points on a helix about z, from z = 0 to `length`."""
    angles = np.linspace(0, 2 * np.pi * turns, max(round(points_per_turn * abs(turns)), 2))
    return np.column_stack([radius * np.cos(angles), radius * np.sin(angles), length * angles / angles[-1]])


def rod(start, end, radius: float, *, piece: float) -> Mesh:
    """Return a bar with round ends between two points.

    Its pieces of the length `piece` let matplotlib draw it in the right order among other shapes.
    """
    start, end = np.asarray(start, float), np.asarray(end, float)
    length = float(np.linalg.norm(end - start))
    if length == 0:
        return ball(radius).at(start)
    bend = np.linspace(0, np.pi / 2, 4)
    low = np.column_stack([np.maximum(np.sin(bend), 0.02), -np.cos(bend)]) * radius
    high = low[::-1] * [1, -1] + [0, length]
    between = np.linspace(0, length, max(round(length / piece), 1) + 1)[1:-1]
    profile = np.concatenate([low, np.column_stack([np.full(len(between), radius), between]), high])
    return solid_of_revolution(profile, 12).at(start, frame(end - start))
