"""Shapes of planar pictures: outlines fixed in a body, and outlines stretched between points of two bodies.

Their points are in body frames. Stills, animations and web pages apply the poses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

# Layer of symbols of the ground. Shapes of a higher layer are drawn over those of a lower one.
GROUND_LAYER = 1
# Layer of bodies, over the ground.
BODY_LAYER = 2
# Layer of curves of points, over bodies.
CURVE_LAYER = 3
# Layer of symbols of joints, over curves.
JOINT_LAYER = 4
# Layer of symbols of drivers, over joints.
DRIVER_LAYER = 5
# Positions of the four corners of a gear's tooth along the pitch circle, divided by the pitch.
TOOTH_PLACES = np.array([-0.32, -0.16, 0.16, 0.32])
# Heights of the four corners of a gear's tooth over the pitch circle, divided by the height of a tooth.
TOOTH_HEIGHTS = np.array([-1.1, 1.0, 1.0, -1.1])

# Origins (F, 2) and angles (F,) of bodies by name, in F configurations.
Poses = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Style:
    """Colours and lines of an outline.

    Attributes:
        closed: the last point is joined to the first.
        face: colour of the area, or None.
        edge: colour of the line, or None.
        width: width of the line in points.
        opacity: opacity of the area.
        dashes: lengths of dashes and gaps, divided by the width of the line.
        layer: order of drawing.
    """

    closed: bool = True
    face: str | None = None
    edge: str | None = None
    width: float = 1.2
    opacity: float = 1.0
    dashes: tuple[float, ...] = ()
    layer: int = BODY_LAYER


def svg_style(style: Style, point: float) -> dict[str, str | float]:
    """Return a style as attributes of SVG; `point` is the length of a typographic point in the drawing."""
    attributes: dict[str, str | float] = {
        "fill": style.face or "none",
        "fill-opacity": style.opacity,
        "stroke": style.edge or "none",
        "stroke-width": round(point * style.width, 2),
        "stroke-linejoin": "round",
        "stroke-linecap": "butt" if style.dashes else "round",
    }
    dashes = " ".join(f"{dash * style.width * point:g}" for dash in style.dashes)
    return attributes | ({"stroke-dasharray": dashes} if dashes else {})


@dataclasses.dataclass(frozen=True)
class Shape:
    """An outline through `points` (k, 2) in the frame of a body."""

    body: str
    points: np.ndarray
    style: Style

    def world(self, poses: Poses) -> np.ndarray:
        """Return the points in the ground frame, (F, k, 2)."""
        return place(poses, self.body, self.points)


@dataclasses.dataclass(frozen=True)
class Span:
    """An outline between two points P and Q of two bodies.

    Attributes:
        ends: (body, point) for P and for Q.
        points: rows (λ, a, b) for the places P + λ (Q − P) + a e + b n, where e is the direction from P to Q and n is e
            turned by +90°.
    """

    ends: tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]
    points: np.ndarray
    style: Style

    def world(self, poses: Poses) -> np.ndarray:
        """Return the points in the ground frame, (F, k, 2)."""
        start, end = (place(poses, body, np.reshape(point, (1, 2))) for body, point in self.ends)
        line = end - start
        length = np.linalg.norm(line, axis=-1, keepdims=True)
        along = np.where(length > 0, line / np.where(length > 0, length, 1), [1.0, 0.0])
        across = np.stack([-along[..., 1], along[..., 0]], axis=-1)
        part, a, b = (self.points[:, k, None] for k in range(3))
        return start + part * line + a * along + b * across


def place(poses: Poses, body: str, points) -> np.ndarray:
    """Return points (k, 2) of a body in the ground frame, (F, k, 2)."""
    origin, angle = poses[body]
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    x, y = np.asarray(points, float).T
    return origin[:, None] + np.stack([c * x - s * y, s * x + c * y], axis=-1)


def unit(vector) -> np.ndarray:
    """Return a vector divided by its length, which must not be 0."""
    vector = np.asarray(vector, float)
    return vector / np.linalg.norm(vector)


def perpendicular(vector: np.ndarray) -> np.ndarray:
    """Return vectors (..., 2) turned by +90°."""
    return np.stack([-vector[..., 1], vector[..., 0]], axis=-1)


def arc(centre, radius: float, start: float = 0.0, stop: float = 2 * np.pi, count: int = 40) -> np.ndarray:
    """Return `count` points on a circle from angle `start` to `stop` in radians, without the last one of a whole turn."""
    angles = np.linspace(start, stop, count, endpoint=abs(stop - start) < 2 * np.pi - 1e-9)
    return np.asarray(centre, float) + radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def rectangle(centre, axis, length: float, width: float) -> np.ndarray:
    """Return the corners (4, 2) of a rectangle about `centre`, with its length along `axis`."""
    e = unit(axis)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    return np.asarray(centre, float) + corners[:, :1] * length * e + corners[:, 1:] * width * perpendicular(e)


def teeth(radius: float, pitch: float) -> int:
    """Return the number of teeth of a gear with this pitch radius and about this pitch, at least 6."""
    return max(round(2 * np.pi * abs(radius) / pitch), 6)


def hull(points) -> np.ndarray:
    """Return the corners of the convex hull, anticlockwise; the two ends of points in a line; one of equal points."""
    points = np.unique(np.asarray(points, float), axis=0)
    if len(points) < 2:
        return points
    small = 1e-9 * np.ptp(points, axis=0).max() ** 2

    def half(ordered):
        """Return the corners of the lower half of the hull of points that are ordered by x."""
        chain: list[np.ndarray] = []
        for p in ordered:
            while len(chain) > 1 and perpendicular(chain[-1] - chain[-2]) @ (p - chain[-2]) <= small:
                chain.pop()
            chain.append(p)
        return chain[:-1]

    return np.array(half(points) + half(points[::-1]))


def plate(points, radius: float, count: int = 12) -> np.ndarray:
    """Return the outline at the distance `radius` round points (k, 2): a disc, a rounded bar or a rounded plate.

    Each corner has `count` points.
    """
    corners = hull(points)
    if len(corners) == 1:
        return arc(corners[0], radius)
    outline = []
    for before, corner, after in zip(np.roll(corners, 1, 0), corners, np.roll(corners, -1, 0), strict=True):
        # The outside is on the right of each side.
        start, stop = (np.arctan2(-d[0], d[1]) for d in (corner - before, after - corner))
        outline.append(arc(corner, radius, start, start + np.mod(stop - start, 2 * np.pi), count))
    return np.concatenate(outline)
