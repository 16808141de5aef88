"""A page that plays a motion in space in any browser, without a server: it carries the part of three.js that it needs."""

from __future__ import annotations

import dataclasses
import html
import json
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.viz.spatial.scene import Scene
from jaxmbs.viz.spatial.shapes import Solid, Span


@dataclasses.dataclass(frozen=True)
class Player:
    """An animation as a page: `html` is its text, and notebooks show it.

    The page holds every solid once, in its body's frame, and the poses of the bodies in all frames.

    Attributes:
        curves: (body, points (F, 3)) to be drawn in the body's colour.
        width: of the picture in pixels, where there is no window to fill.
    """

    scene: Scene
    times: np.ndarray
    curves: list[tuple[str, np.ndarray]]
    fps: float
    width: float
    title: str | None = None

    @cached_property
    def html(self) -> str:
        """The page."""
        page = files("jaxmbs.viz.spatial").joinpath("player.html").read_text(encoding="utf-8")
        library = files("jaxmbs.viz").joinpath("data/three.min.js").read_text(encoding="utf-8")
        # "<" must not end the script element that holds the data.
        data = json.dumps(self._film(), separators=(",", ":")).replace("<", "\\u003c")
        # The library last: what stands in the data is not to be taken for its place.
        head, tail = page.split('<script id="library"></script>')
        tail = tail.replace("{}</script>", data + "</script>", 1)
        return f"{head}<script>{library}</script>{tail}"

    def write(self, path: Path) -> None:
        """Write the page to a file."""
        path.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{0.75 * self.width + 110:.0f}" '
            'style="border:0"></iframe>'
        )

    def _film(self) -> dict:
        """All that the page draws, in the ground frame; lengths in thousandths of the symbols' unit."""
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
        entry = {
            "label": labels.get(id(shape), ""),
            "colour": shape.colour,
            "opacity": shape.opacity,
            "faces": shape.mesh.triangles.ravel().tolist(),
        }
        if isinstance(shape, Solid):
            return entry | {"body": bodies.index(shape.body), "points": rounded(shape.mesh.points.ravel())}
        # Along a span the points are parts of it.
        scale = [1, 1, 1 / self.scene.unit]
        points = np.round(rounded(shape.mesh.points / scale) * np.array(scale), 9).ravel().tolist()
        return entry | {"ends": [[bodies.index(body), rounded(point)] for body, point in shape.ends], "points": points}


def euler_parameters(axes: np.ndarray) -> np.ndarray:
    """Euler parameters (F, 4), scalar first, of rotation matrices (F, 3, 3), each on the side of the one before it."""
    # The eigenvector of the largest eigenvalue of this symmetric matrix, which is 1.
    a = np.moveaxis(axes, 0, -1)
    trace = a[0, 0] + a[1, 1] + a[2, 2]
    b = np.zeros((len(axes), 4, 4))
    b[:, 0, 0] = trace
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        b[:, 0, 1 + k] = b[:, 1 + k, 0] = a[j, i] - a[i, j]
        b[:, 1 + i, 1 + j] = b[:, 1 + j, 1 + i] = a[i, j] + a[j, i]
        b[:, 1 + k, 1 + k] = 2 * a[k, k] - trace
    p = np.linalg.eigh(b)[1][:, :, -1]
    p[0] *= -1 if p[0, 0] < 0 else 1
    turns = np.where(np.sum(p[1:] * p[:-1], axis=1) < 0, -1, 1)
    p[1:] *= np.cumprod(turns)[:, None]
    return p
