"""Planar scenes in matplotlib: stills and the frames of animations."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from jaxmbs.viz.planar.scene import Scene
from jaxmbs.viz.planar.shapes import CURVE_LAYER, Style
from jaxmbs.viz.style import DOTS_PER_INCH, PAPER, tidy


def axes(ax=None):
    """Return `ax` or new axes, with one scale for both directions."""
    ax = plt.subplots(figsize=(6.0, 4.5), layout="constrained")[1] if ax is None else ax
    tidy(ax, equal=True)
    return ax


def equal_scales(ax) -> None:
    """Give both directions one scale."""
    ax.set_aspect("equal", adjustable="box")


def still(scene: Scene, ax, *, labels: bool = False):
    """Draw the first configuration of a scene, with the names of the bodies if `labels`, and return the axes."""
    ax = axes(ax)
    for artist, shape in add_artists(ax, scene):
        artist.set_xy(shape.world(scene.poses)[0])
    lower, upper = scene.limits()
    ax.update_datalim([lower, upper])
    ax.autoscale_view()
    for name in scene.mech.bodies if labels else ():
        ax.annotate(
            name,
            scene.middle(name)[0],
            (0, 10),
            textcoords="offset points",
            ha="center",
            color=scene.colours[name],
            path_effects=[withStroke(linewidth=2.5, foreground=PAPER)],
            zorder=9,
        )
    return ax


def add_artists(ax, scene: Scene) -> list[tuple]:
    """Add an artist for each shape of a scene, and return the pairs of artists and shapes. The places are not set."""
    artists = []
    for shape in scene.shapes:
        artist = Polygon(np.zeros((1, 2)), **_patch(shape.style))
        ax.add_patch(artist)
        artists.append((artist, shape))
    return artists


def _patch(style: Style) -> dict:
    """Return a style as arguments of `matplotlib.patches.Polygon`."""
    return {
        "closed": style.closed,
        "fill": style.face is not None,
        "facecolor": to_rgba(style.face, style.opacity) if style.face else "none",
        "edgecolor": style.edge or "none",
        "linewidth": style.width if style.edge else 0,
        "linestyle": (0, style.dashes) if style.dashes else "-",
        "capstyle": "round" if not style.dashes else "butt",
        "joinstyle": "round",
        "zorder": 2 + style.layer,
    }


class Film:
    """The frames of an animation in matplotlib. Artists that do not move are drawn once.

    Attributes:
        canvas: the canvas of the frames.
        palette_size: number of colours of a GIF. Flat faces and their edges need few.
        min_colour_distance: smallest distance of two colours of the palette, in steps of 256.
    """

    palette_size = 48
    min_colour_distance = 0.0

    def __init__(self, scene: Scene, curves, width: float, title: str | None):
        lower, upper = scene.limits()
        span = upper - lower
        height = float(np.clip(width * span[1] / span[0], width / 3, 1.5 * width)) + (0.3 if title else 0)
        self.figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")
        self.canvas = FigureCanvasAgg(self.figure)
        ax = self.figure.add_subplot()
        tidy(ax, equal=True)
        ax.set(xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]))
        if title:
            ax.set_title(title, fontsize=10)
        for body, points in curves:
            ax.plot(*points.T, color=scene.colours[body], linewidth=1.4, alpha=0.8, zorder=2 + CURVE_LAYER)
        self.ax = ax
        self.moving = []
        for artist, shape in add_artists(ax, scene):
            places = shape.world(scene.poses)
            artist.set_xy(places[0])
            if np.ptp(places, axis=0).any():
                self.moving.append((artist, places))
        self.count = len(next(iter(scene.poses.values()))[1])

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the frames as arrays (height, width, 4) of bytes; each is valid until the next."""
        for artist, _ in self.moving:
            artist.set_animated(True)
        self.canvas.draw()
        background = self.canvas.copy_from_bbox(self.figure.bbox)
        for k in range(self.count):
            self.canvas.restore_region(background)
            for artist, places in self.moving:
                artist.set_xy(places[k])
                self.ax.draw_artist(artist)
            yield np.asarray(self.canvas.buffer_rgba())
