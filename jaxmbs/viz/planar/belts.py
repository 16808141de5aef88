"""The symbol of belts and ropes."""

from __future__ import annotations

import numpy as np

from jaxmbs.planar.belts import AbstractPath
from jaxmbs.viz.attachments import attachments
from jaxmbs.viz.planar.shapes import JOINT_LAYER, Shape, Span, Style, arc
from jaxmbs.viz.style import INK

# Unit vector of the x axis.
X = np.array([1.0, 0.0])


def belt(element: AbstractPath, scene) -> list[Shape | Span]:
    """Return a belt or rope: the rims of its pulleys with a mark on each, and the straight parts between them."""
    places, radii = attachments(element), np.array([float(x) for x in element.radii])
    line = Style(closed=False, edge=INK, width=1.6, layer=JOINT_LAYER)
    shapes: list[Shape | Span] = []
    for (body, centre), radius in zip(places, abs(radii), strict=True):
        if radius:
            rim = Style(edge=INK, width=1.6, layer=JOINT_LAYER)
            shapes.append(Shape(body, arc(centre, radius, count=80), rim))
            mark = np.array([centre + 0.6 * radius * X, centre + radius * X])
            shapes.append(
                Shape(body, mark, Style(closed=False, edge=scene.colours[body], width=1.6, layer=JOINT_LAYER))
            )
    for a, b in element.pairs():
        d, step = scene.world(*places[b])[0] - scene.world(*places[a])[0], radii[b] - radii[a]
        distance = np.linalg.norm(d)
        # The directions from the centres to the ends of the span, along the line of the centres and across it.
        away = np.array([step, np.sqrt(max(distance**2 - step**2, 0.0))]) / distance
        ends = np.array([[0, *(-radii[a] * away)], [1, *(-radii[b] * away)]])
        shapes.append(Span((places[a], places[b]), ends, line))
    return shapes
