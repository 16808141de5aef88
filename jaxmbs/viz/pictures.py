"""Still pictures: a mechanism in a configuration, coupler curves, coordinates over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from jaxmbs.numerics.results import Status
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory
from jaxmbs.viz.attachments import Marked
from jaxmbs.viz.dimension import kit, scene_of
from jaxmbs.viz.style import INK, colour_of, tidy

# `zorder` of the curves of points in matplotlib: over bodies.
CURVE_ORDER = 5


def draw(
    mech: Mechanism,
    q: Coordinates,
    t: float = 0.0,
    *,
    ax: Axes | None = None,
    points: Marked = (),
    labels: bool = False,
    size: float = 1.0,
    view: tuple[float, float] | None = None,
) -> Axes:
    """Draw a mechanism in a configuration.

    Args:
        mech: the mechanism.
        q: a configuration (n,), or names and coordinates; see `Mechanism.coordinates`.
        t: time, which sets the direction of the arrows of drivers.
        ax: axes to draw in, of `projection="3d"` for a spatial mechanism; new ones by default.
        points: ("coupler", (x, y)), …, in space (x, y, z): points of bodies to mark; the bodies extend to them.
        labels: write the names of the bodies.
        size: size of the symbols, 1 by default.
        view: for a spatial mechanism, elevation and azimuth of the camera in degrees, about the axis that is up:
            opposite to gravity, z without gravity. By default the view that shows most of the mechanism.

    Returns:
        the axes.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values; a `view` of a planar mechanism; flat axes for a
            spatial one.

    Examples:
        >>> ax = mbs.viz.draw(mech, guess, labels=True)
        >>> ax.figure.savefig("slider_crank.png")
    """
    scene = scene_of(mech, np.asarray(mech.coordinates(q))[None], t, marked=points, size=size, view=view)
    return kit(mech.layout).still(scene, ax, labels=labels)


def converged_times(trajectory: Trajectory) -> np.ndarray:
    """Return a mask (..., T) of the times at which a trajectory has converged."""
    return np.asarray(trajectory.status) == Status.CONVERGED


def curve(trajectory: Trajectory, body: str, point) -> np.ndarray:
    """Return the path of a point of a body in the ground frame, (..., T, d), NaN where the motion failed."""
    return np.where(converged_times(trajectory)[..., None], np.asarray(trajectory.point(body, point)), np.nan)


def trace(
    trajectory: Trajectory, body: str, point: Sequence[float] | None = None, *, ax: Axes | None = None, **line: Any
) -> Axes:
    """Draw the path of a point of a body, or the paths of a batch of motions.

    Args:
        trajectory: the motion, or a batch of motions.
        body: name of the body.
        point: its coordinates in the body frame; the origin by default.
        ax: axes to draw in; new ones by default.
        line: arguments of matplotlib, such as `color`, `linewidth`, `label`.

    Returns:
        the axes.

    Raises:
        ValueError: an unknown body, a point of a wrong shape, or flat axes for a spatial mechanism.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.linspace(0, 2 * jnp.pi, 9), guess)
        >>> ax = mbs.viz.trace(motion, "rod", (1.0, 0.0))
        >>> ax.lines[0].get_xydata().shape
        (9, 2)
    """
    ax = kit(trajectory.layout).axes(ax)
    bodies = [name for name, _ in trajectory.layout.bodies]
    paths = curve(trajectory, body, point)
    paths = paths.reshape(-1, *paths.shape[-2:])
    defaults = {
        "color": colour_of(bodies.index(body)),
        "linewidth": 1.6,
        "alpha": 1 if len(paths) == 1 else 0.4,
        "zorder": CURVE_ORDER,
    }
    label = line.pop("label", None)
    for k, path in enumerate(paths):
        ax.plot(*path.T, **{**defaults, **line}, label=label if k == 0 else None)
    kit(trajectory.layout).equal_scales(ax)
    return ax


def plot(
    trajectory: Trajectory, coordinates: Sequence[str] | None = None, *, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Draw coordinates, velocities and accelerations over time.

    Args:
        trajectory: the motion.
        coordinates: names such as "crank.phi", in space also of velocities such as "rod.wx"; all by default. Euler
            parameters appear among the positions only, angular velocities among velocities and accelerations only.
        axes: three axes to draw in; new ones by default.

    Returns:
        the three axes.

    Raises:
        ValueError: a batch of motions, or an unknown name.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.linspace(0, 2 * jnp.pi, 9), guess)
        >>> len(mbs.viz.plot(motion, ["slider.x"]))
        3
    """
    if np.ndim(trajectory.t) != 1:
        raise ValueError("plot shows one motion; pick one of the batch: jax.tree.map(lambda x: x[k], trajectory)")
    layout = trajectory.layout
    names = list(dict.fromkeys(layout.coordinates + layout.velocities)) if coordinates is None else coordinates
    for name in names:
        if name not in layout.velocities:
            layout.index(name)
    if axes is None:
        _, axes = plt.subplots(3, 1, sharex=True, figsize=(6.5, 6), layout="constrained")
    good = converged_times(trajectory)
    known = {"position": layout.coordinates, "velocity": layout.velocities, "acceleration": layout.velocities}
    for ax, kind in zip(axes, known, strict=True):
        values = getattr(trajectory, kind)
        tidy(ax, equal=False)
        for k, name in enumerate(names):
            if name in known[kind]:
                ax.plot(trajectory.t, np.where(good, values(name), np.nan), color=colour_of(k), label=name)
        ax.set_ylabel(kind, color=INK)
    shown = {
        str(line.get_label()): line for ax in axes for line in ax.lines if not str(line.get_label()).startswith("_")
    }
    axes[0].legend(
        list(shown.values()), list(shown), frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=4
    )
    axes[-1].set_xlabel("time", color=INK)
    return axes
