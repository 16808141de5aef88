"""The shape of a body, inferred from the points at which elements hold it, its centre of mass and its inertia."""

from __future__ import annotations

import numpy as np

from jaxmbs.viz.planar.shapes import unit
from jaxmbs.viz.spatial.meshes import Mesh, ball, box, cylinder, plate, rod

# In units of the symbols: the radius of bars, the thickness of plates, what counts as in a line or in a plane.
BAR, THICK, LINE, PLANE = 0.8, 1.1, 0.6, 1.0
# Pieces of bars, in the same units.
PIECE = 6.0


def body_meshes(body, held, marked, unit_length: float, extent: float, *, dressed: bool) -> list[Mesh]:
    """The surfaces that stand for a body, in its frame.

    A bar between two points, or several in a line; a plate round points in a plane; else bars from their middle. A bar
    reaches out to a centre of mass that lies apart. What is held at a single point, or nowhere, shows a body with its
    inertia.

    Args:
        held, marked: points at which it is held, and others that it reaches out to, each (k, 3), k ≥ 0.
        unit_length, extent: of the symbols, and of the whole mechanism.
        dressed: whether a symbol stands for the body already, such as a gear's.
    """
    u, com = unit_length, np.asarray(body.com, float)
    bar = lambda start, end: rod(start, end, BAR * u, piece=PIECE * u)
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
    if np.abs(local[:, 1:]).max() < LINE * u:
        start, end = points[local[:, 0].argmin()], points[local[:, 0].argmax()]
        along = unit(end - start)
        nearest = start + np.clip((com - start) @ along, 0, np.linalg.norm(end - start)) * along
        meshes = [bar(start, end)]
    elif np.abs(local[:, 2]).max() < PLANE * u:
        across = directions[2] @ (com - middle) * directions[2]
        over = np.linalg.norm(com - across - middle) < np.linalg.norm(local, axis=1).max()
        nearest = com - across if over else middle
        meshes = [plate(points, 1.3 * u, THICK * u)]
    else:
        nearest = middle
        meshes = [ball(1.4 * BAR * u).at(middle), *(bar(middle, point) for point in points)]
    if np.linalg.norm(com - nearest) > 3 * u:
        meshes += [rod(nearest, com, 0.7 * BAR * u, piece=PIECE * u), ball(2 * BAR * u).at(com)]
    return meshes


def distinct(points, tolerance: float) -> np.ndarray:
    """The points (k, 3) without those that repeat an earlier one."""
    kept: list[np.ndarray] = []
    for point in np.reshape(np.asarray(points, float), (-1, 3)):
        if all(np.linalg.norm(point - other) > tolerance for other in kept):
            kept.append(point)
    return np.reshape(kept, (-1, 3))


def inertia_mesh(body, least: float, most: float) -> Mesh:
    """A homogeneous ball, cylinder or box with the inertia of a body, in its frame; scaled where it is too small or too
    large for the picture."""
    inertia = np.asarray(body.inertia, float)
    # What has no mass is drawn as large as the symbols.
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
        diameter, height = _fitted(np.array([2 * radius, height]), least, most)
        turned = np.roll(axes, 2 - lone, axis=1)
        return cylinder(diameter / 2, height, count=28, pieces=3).at(com, turned)
    sides = np.sqrt(np.maximum(6 * (moments.sum() - 2 * moments), 0))
    return box(_fitted(sides, least, most)).at(com, axes)


def _fitted(sides: np.ndarray, least: float, most: float) -> np.ndarray:
    """The sides scaled so that the longest is within bounds, and none is thinner than can be seen."""
    sides = sides * np.clip(sides.max(), least, max(most, least)) / sides.max()
    return np.maximum(sides, 0.3 * least)
