"""The shapes of bodies, by the points at which elements hold them, the centre of mass and the inertia."""

from __future__ import annotations

import numpy as np

from jaxmbs.viz.planar.shapes import unit
from jaxmbs.viz.spatial.meshes import Mesh, ball, box, cylinder, plate, rod

# Radius of the bars by which bodies are drawn, in units of the symbols.
BAR_RADIUS = 0.8
# Thickness of the plates by which bodies are drawn, in units of the symbols.
PLATE_THICKNESS = 1.1
# A body is drawn as a bar if its points are nearer to a line than this, in units of the symbols.
MAX_LINE_DISTANCE = 0.6
# A body is drawn as a plate if its points are nearer to a plane than this, in units of the symbols.
MAX_PLANE_DISTANCE = 1.0
# Bars are divided into pieces of this length, in units of the symbols, so that matplotlib sorts them by depth.
PIECE_LENGTH = 6.0


def body_meshes(body, held, marked, unit_length: float, extent: float, *, dressed: bool) -> list[Mesh]:
    """Return the surfaces of a body, in its frame.

    These are a bar along points in a line, a plate round points in a plane, or bars from the middle of other points,
    and a bar to the centre of mass if that lies apart. A body held at one point at most is a solid with its inertia.

    Args:
        body: the body.
        held: points at which elements hold it, (k, 3), k ≥ 0.
        marked: other points that it extends to, (k, 3), k ≥ 0.
        unit_length: unit of the symbols.
        extent: size of the mechanism.
        dressed: True if a symbol stands for the body already, such as that of a gear.

    Returns:
        the surfaces.
    """
    u, com = unit_length, np.asarray(body.com, float)
    bar = lambda start, end: rod(start, end, BAR_RADIUS * u, piece=PIECE_LENGTH * u)
    points = distinct(held, u / 10)
    if len(points) < 2:
        solid = [] if dressed else [inertia_mesh(body, 3 * u, 0.3 * extent)]
        start = points[0] if len(points) else com
        ends = distinct([*([] if dressed and len(marked) else [com]), *marked], u)
        return [*solid, *(bar(start, end) for end in ends if np.linalg.norm(end - start) > u)]
    points = distinct([*points, *marked], u / 10)
    middle = points.mean(axis=0)
    directions = np.linalg.svd(points - middle)[2]
    local = (points - middle) @ directions.T
    if np.abs(local[:, 1:]).max() < MAX_LINE_DISTANCE * u:
        start, end = points[local[:, 0].argmin()], points[local[:, 0].argmax()]
        along = unit(end - start)
        nearest = start + np.clip((com - start) @ along, 0, np.linalg.norm(end - start)) * along
        meshes = [bar(start, end)]
    elif np.abs(local[:, 2]).max() < MAX_PLANE_DISTANCE * u:
        across = directions[2] @ (com - middle) * directions[2]
        over = np.linalg.norm(com - across - middle) < np.linalg.norm(local, axis=1).max()
        nearest = com - across if over else middle
        meshes = [plate(points, 1.3 * u, PLATE_THICKNESS * u)]
    else:
        nearest = middle
        meshes = [ball(1.4 * BAR_RADIUS * u).at(middle), *(bar(middle, point) for point in points)]
    if np.linalg.norm(com - nearest) > 3 * u:
        meshes += [rod(nearest, com, 0.7 * BAR_RADIUS * u, piece=PIECE_LENGTH * u), ball(2 * BAR_RADIUS * u).at(com)]
    return meshes


def distinct(points, tolerance: float) -> np.ndarray:
    """Return the points (k, 3) without those nearer than `tolerance` to an earlier one."""
    kept: list[np.ndarray] = []
    for point in np.reshape(np.asarray(points, float), (-1, 3)):
        if all(np.linalg.norm(point - other) > tolerance for other in kept):
            kept.append(point)
    return np.reshape(kept, (-1, 3))


def inertia_mesh(body, least: float, most: float) -> Mesh:
    """Return a homogeneous ball, cylinder or box with the inertia of a body, about its centre of mass.

    It is scaled so that its longest side is between `least` and `most`.
    """
    inertia = np.asarray(body.inertia, float)
    # A body without mass is as large as the symbols.
    moments, axes = np.linalg.eigh(inertia / (float(body.mass) or np.trace(inertia) / least**2 or 1))
    moments, axes = np.maximum(moments, 0), axes * np.array([1, 1, np.linalg.det(axes)])
    com = np.asarray(body.com, float)
    equal = np.isclose(moments[[0, 1]], moments[[1, 2]], rtol=0.02, atol=1e-6 * moments[2])
    if moments[2] <= 0:
        return ball(least / 2).at(com)
    if equal.all():
        return ball(np.clip(2 * np.sqrt(2.5 * moments[1]), least, most) / 2, count=24).at(com)
    if equal.any():
        lone = 2 if equal[0] else 0
        radius = np.sqrt(2 * moments[lone])
        height = np.sqrt(max(12 * moments[1] - 3 * radius**2, 0))
        diameter, height = _fit_to_bounds(np.array([2 * radius, height]), least, most)
        turned = np.roll(axes, 2 - lone, axis=1)
        return cylinder(diameter / 2, height, count=28, pieces=3).at(com, turned)
    sides = np.sqrt(np.maximum(6 * (moments.sum() - 2 * moments), 0))
    return box(_fit_to_bounds(sides, least, most)).at(com, axes)


def _fit_to_bounds(sides: np.ndarray, least: float, most: float) -> np.ndarray:
    """Return the sides of a solid scaled so that the longest is within bounds, and the others not too thin to see."""
    sides = sides * np.clip(sides.max(), least, max(most, least)) / sides.max()
    return np.maximum(sides, 0.3 * least)
