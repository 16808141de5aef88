"""Web pages that play spatial animations, with the part of three.js that they need."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.numerics import rotation
from jaxmbs.viz.page import AbstractPlayer
from jaxmbs.viz.spatial.shapes import Solid, Span


class Player(AbstractPlayer):
    """The web page of a spatial mechanism. It fills the window."""

    template: ClassVar[str] = "spatial/player.html"
    library: ClassVar[str] = "data/three.min.js"

    @property
    def height(self):
        """Return the height of the picture in pixels."""
        return 0.75 * self.width

    def film(self):
        """Return all that the page draws. Lengths are rounded to thousandths of the symbols' unit."""
        scene = self.scene
        lower, upper = scene.limits()
        labels = {id(shape): name for name, shapes in scene.bodies.items() for shape in shapes}
        labels |= {
            id(s): f"{n} · {type(scene.elements[n]).__name__}" for n, shapes in scene.symbols.items() for s in shapes
        }
        digits = max(int(np.ceil(3 - np.log10(scene.unit))), 0)
        bodies = list(scene.poses)
        poses = [np.column_stack([origin, euler_parameters(axes)]) for origin, axes in scene.poses.values()]
        rounded = lambda values, digits=digits: np.round(np.asarray(values, float), digits).tolist()
        return {
            "title": self.title,
            "fps": self.fps,
            "times": rounded(self.times, 9),
            "bodies": [{"name": name, "colour": scene.colours[name]} for name in bodies],
            "ground": GROUND,
            "poses": rounded(np.stack(poses, axis=1), max(digits, 6)),
            "unit": scene.unit,
            "limits": rounded([lower, upper]),
            "up": rounded(scene.view.up, 9),
            "camera": rounded(scene.view.direction, 9),
            "curves": [
                {"body": bodies.index(body), "points": rounded(points[np.isfinite(points).all(axis=1)])}
                for body, points in self.curves
            ],
            "shapes": [self._shape(shape, bodies, labels, rounded) for shape in scene.shapes],
        }

    def _shape(self, shape: Solid | Span, bodies: list[str], labels: dict, rounded) -> dict:
        """Return a shape as the page takes it."""
        entry = {
            "label": labels.get(id(shape), ""),
            "colour": shape.colour,
            "opacity": shape.opacity,
            "faces": shape.mesh.triangles.ravel().tolist(),
        }
        if isinstance(shape, Solid):
            return entry | {"body": bodies.index(shape.body), "points": rounded(shape.mesh.points.ravel())}
        # The third coordinate of points of a span is a part of its length.
        scale = [1, 1, 1 / self.scene.unit]
        points = np.round(rounded(shape.mesh.points / scale) * np.array(scale), 9).ravel().tolist()
        return entry | {"ends": [[bodies.index(body), rounded(point)] for body, point in shape.ends], "points": points}


def euler_parameters(axes: np.ndarray) -> np.ndarray:
    """Return Euler parameters (F, 4), scalar first, of rotation matrices (F, 3, 3), with signs that change least."""
    p = np.array(jax.vmap(rotation.from_matrix)(jnp.asarray(axes)))
    p[0] *= -1 if p[0, 0] < 0 else 1
    p[1:] *= np.cumprod(np.where(np.sum(p[1:] * p[:-1], axis=1) < 0, -1, 1))[:, None]
    return p
