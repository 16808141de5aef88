"""Web pages that play planar animations as SVG, without libraries."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from jaxmbs.viz.page import AbstractPlayer
from jaxmbs.viz.planar.shapes import Shape, svg_style

# Pixels in a typographic point, the unit of the widths of lines.
PIXELS_PER_POINT = 1.2


class Player(AbstractPlayer):
    """The web page of a planar mechanism. Lengths are in pixels."""

    template: ClassVar[str] = "planar/player.html"

    @cached_property
    def _frame(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Corners of the picture in the ground frame, and pixels per unit of length."""
        lower, upper = self.scene.limits()
        return lower, upper, self.width / (upper - lower)[0]

    @property
    def height(self):
        """Return the height of the picture in pixels."""
        lower, upper, scale = self._frame
        return (upper - lower)[1] * scale

    def film(self):
        """Return all that the page draws, in pixels, with y downwards."""
        lower, upper, scale = self._frame
        corner = np.array([lower[0], upper[1]])
        pixels = lambda points: _round((points - corner) * [scale, -scale])
        bodies = list(self.scene.poses)
        poses = [
            np.column_stack([(place - corner) * [scale, -scale], -angle]) for place, angle in self.scene.poses.values()
        ]
        step = 10 ** np.round(np.log10((upper - lower).max() / 8))
        return {
            "title": self.title,
            "fps": self.fps,
            "width": round(self.width, 1),
            "height": round(self.height, 1),
            "origin": _round(corner, 9),
            "scale": scale,
            "grid": {"x": _first(lower[0], step, scale), "y": _first(-upper[1], step, scale), "step": step * scale},
            "times": _round(self.times, 9),
            "bodies": bodies,
            "poses": _round(np.stack(poses, axis=1), 5),
            "curves": [
                {"colour": self.scene.colours[body], "points": pixels(points[np.isfinite(points).all(axis=1)])}
                for body, points in self.curves
            ],
            "shapes": [_shape(shape, bodies, scale) for shape in self.scene.shapes],
        }


def _shape(shape, bodies: list[str], scale: float) -> dict:
    """Return a shape as the page takes it; `scale` in pixels per unit of length."""
    entry = {"closed": shape.style.closed, "style": svg_style(shape.style, PIXELS_PER_POINT)}
    if isinstance(shape, Shape):
        return entry | {"body": bodies.index(shape.body), "points": _round(shape.points * [scale, -scale])}
    ends = [(bodies.index(body), _round(np.asarray(point) * [scale, -scale])) for body, point in shape.ends]
    return entry | {"ends": ends, "points": _round(shape.points * [1, scale, scale], 4)}


def _first(start: float, step: float, scale: float) -> float:
    """Return the distance in pixels from `start` to the first line of the grid, the next multiple of `step`."""
    return float(np.mod(-start, step) * scale)


def _round(values, digits: int = 2) -> list:
    """Return rounded numbers as lists."""
    return np.round(np.asarray(values, float), digits).tolist()
