"""The outlines of cams, rollers and polylines that touch."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxmbs.planar.geneva import GenevaDrive
from jaxmbs.planar.polylines import RoundedPolyline
from jaxmbs.viz.planar.shapes import Shape, Style

# Number of points of an outline, or of a round end.
COUNT = 120
# Radii of the pin and of the corners in the symbol of a Geneva drive, as fractions of the crank.
GENEVA_RADII = (0.12, 0.04)


def contact_outline(body: str, centre, outline, scene) -> list[Shape]:
    """Return the outline of a cam, a roller or a polyline: filled, or a line if only a part of it touches."""
    colour, centre = scene.colours[body], np.asarray(centre, float)
    style = Style(face=colour, edge=colour, opacity=0.25, width=1.6)
    if isinstance(outline, RoundedPolyline):
        radius = float(outline.radius)
        pieces = np.asarray(outline.points, float)
        return [Shape(body, centre + offset(points, radius, outline.closed), style) for points in pieces]
    if outline.span is not None:
        style = Style(closed=False, edge=colour, width=1.6)
    return [Shape(body, centre + profile(outline), style)]


def profile(outline: Any) -> np.ndarray:
    """Return points (120, 2) of an outline, relative to its centre."""
    start, end = (0, 2 * np.pi) if outline.span is None else outline.span
    angles = np.linspace(float(start), float(end), COUNT, endpoint=outline.span is not None)
    radii = np.array([float(outline.radius(np.asarray(angle))) for angle in angles])
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def offset(points: np.ndarray, radius: float, closed: bool) -> np.ndarray:
    """Return the curve at a distance from a polyline: outside of a closed one, around an open one."""
    if closed:
        x, y = points.T
        turns = np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) > 0
        path = points if turns else points[::-1]
    else:
        path = np.concatenate([points, points[-2:0:-1]])
    curve = []
    for k, point in enumerate(path):
        before, after = point - path[k - 1], path[(k + 1) % len(path)] - point
        if len(path) == 1:
            first, turn = 0.0, 2 * np.pi
        else:
            # The path turns to the left around its outside, which is on the right.
            first = np.arctan2(before[1], before[0]) - np.pi / 2
            across = before[0] * after[1] - before[1] * after[0]
            turn = np.arctan2(across, before @ after)
            turn = np.pi if abs(turn) > np.pi - 1e-6 else turn
        if turn >= 0:
            angles = first + np.linspace(0, turn, 2 + int(COUNT * turn / (2 * np.pi)))
            curve.append(point + radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1))
        else:
            middle = first + turn / 2
            reach = radius / np.cos(turn / 2)
            curve.append(point[None] + reach * np.array([[np.cos(middle), np.sin(middle)]]))
    return np.concatenate(curve)


def geneva(element: GenevaDrive, scene) -> list[Shape]:
    """Return the wheel of a Geneva drive with its slots and hollows, and the disc and pin of its crank."""
    pin, corner = (fraction * float(element.crank) for fraction in GENEVA_RADII)
    touch = element.contact_forces(pin_radius=pin, corner_radius=corner, stiffness=1.0)
    lock, slots = touch["lock"].outline_i, np.asarray(touch["pin"].outline_j.points)
    distance, count, entry = float(element.distance), element.slots, element.entry
    wheel: list[np.ndarray] = []
    for k, slot in enumerate(slots):
        # The flanks of the slot are nearer to its axis than the points of its chain, by the radius of its corners.
        axis = np.mean(slot, axis=0)
        across = slot - axis * (slot @ axis / (axis @ axis))[:, None]
        wheel.append((slot - across * corner / np.linalg.norm(across, axis=1, keepdims=True))[::-1])
        middle = float(element.angle_j) + (2 * k + 1) * np.pi / count
        angles = middle + np.pi + np.linspace(entry, -entry, 30)
        centre = distance * np.array([np.cos(middle), np.sin(middle)])
        wheel.append(centre + float(lock.rho) * np.stack([np.cos(angles), np.sin(angles)], axis=-1))
    colour = scene.colours[element.j]
    style = Style(face=colour, edge=colour, opacity=0.25, width=1.6)
    return [
        Shape(element.j, np.asarray(element.point_j) + np.concatenate(wheel), style),
        *contact_outline(element.i, element.point_i, lock, scene),
        *contact_outline(element.i, touch["pin"].point_i, touch["pin"].outline_i, scene),
    ]
