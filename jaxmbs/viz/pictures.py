"""Still pictures: a mechanism in a configuration, coupler curves, coordinates over time."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory
from jaxmbs.viz.scene import Marked, Scene
from jaxmbs.viz.shapes import CURVE_LAYER, Style
from jaxmbs.viz.style import INK, PAPER, colour_of, new_axes, tidy


def draw(mech: Mechanism, q, t=0.0, *, ax=None, points: Marked = (), labels: bool = False, size: float = 1.0):
    """Draw a planar mechanism in the configuration `q`, and return the axes.

    Args:
        q: a configuration (n,), or names and coordinates; see `Mechanism.coordinates`.
        t: the time, which sets the direction of the drivers' arrows.
        ax: axes to draw in; new ones by default.
        points: ("coupler", (x, y)), …: points of bodies to be marked; the bodies reach out to them.
        labels: write the names of the bodies.
        size: of the symbols, 1 by default.
    """
    scene = Scene(mech, np.asarray(mech.coordinates(q))[None], t, marked=points, size=size)
    ax = new_axes(ax)
    tidy(ax, equal=True)
    for artist, shape in add_artists(ax, scene):
        artist.set_xy(shape.world(scene.poses)[0])
    lower, upper = scene.limits()
    ax.update_datalim([lower, upper])
    ax.autoscale_view()
    for name in mech.bodies if labels else ():
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
    """An artist for every shape of a scene, without a place as yet."""
    artists = []
    for shape in scene.shapes:
        artist = Polygon(np.zeros((1, 2)), **_patch(shape.style))
        ax.add_patch(artist)
        artists.append((artist, shape))
    return artists


def _patch(style: Style) -> dict:
    """A style in matplotlib's words."""
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


def good_rows(trajectory: Trajectory) -> np.ndarray:
    """Which rows of a trajectory are right, (..., T)."""
    return np.asarray(trajectory.status) == Status.CONVERGED


def curve(trajectory: Trajectory, body: str, point) -> np.ndarray:
    """The path of a point, (..., T, 2), with gaps (NaN) where the motion failed."""
    return np.where(good_rows(trajectory)[..., None], np.asarray(trajectory.point(body, point)), np.nan)


def trace(trajectory: Trajectory, body: str, point: Sequence[float] = (0.0, 0.0), *, ax=None, **line):
    """Draw the curve that a point of a body runs through, and return the axes; a batch of motions gives a sheaf.

    Args:
        line: passed on to matplotlib, such as `color`, `linewidth`, `label`.
    """
    ax = new_axes(ax)
    tidy(ax, equal=True)
    bodies = [name for name, _ in trajectory.layout.bodies]
    paths = curve(trajectory, body, point)
    paths = paths.reshape(-1, *paths.shape[-2:])
    defaults = {
        "color": colour_of(bodies.index(body)),
        "linewidth": 1.6,
        "alpha": 1 if len(paths) == 1 else 0.4,
        "zorder": 2 + CURVE_LAYER,
    }
    label = line.pop("label", None)
    for k, path in enumerate(paths):
        ax.plot(*path.T, **{**defaults, **line}, label=label if k == 0 else None)
    return ax


def plot(trajectory: Trajectory, coordinates: Sequence[str] | None = None, *, axes=None):
    """Draw coordinates, their rates and accelerations over time, and return the three axes.

    Args:
        coordinates: names such as "crank.phi"; all by default.
        axes: three axes to draw in; new ones by default.
    """
    if np.ndim(trajectory.t) != 1:
        raise ValueError("plot shows one motion; pick one of the batch: jax.tree.map(lambda x: x[k], trajectory)")
    names = trajectory.layout.coordinates if coordinates is None else coordinates
    if axes is None:
        _, axes = plt.subplots(3, 1, sharex=True, figsize=(6.5, 6), layout="constrained")
    good = good_rows(trajectory)
    kinds = ("position", "velocity", "acceleration")
    for ax, kind in zip(axes, kinds, strict=True):
        values = getattr(trajectory, kind)
        tidy(ax, equal=False)
        for k, name in enumerate(names):
            ax.plot(trajectory.t, np.where(good, values(name), np.nan), color=colour_of(k), label=name)
        ax.set_ylabel(kind, color=INK)
    axes[0].legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
    axes[-1].set_xlabel("time", color=INK)
    return axes
