"""Curve generation with any mechanism, in the plane or in space: by `fit`, measured as `curve` measures curves."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.search import minimise
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import Fitted, fit, passes_in_order
from jaxmbs.synthesis.curve_results import CHECK_STEPS, CurveSolution, Front, similarity_parts
from jaxmbs.synthesis.shapes import curve_distances, curve_points, distances_from, resample
from jaxmbs.system.trajectory import Trajectory

# Number of places along the wanted curve that `fit` gets as targets.
TARGETS = 40
# Number of points of the wanted and of the drawn curve in the descent after `fit`, by the distance of the whole curves.
DESCENT_POINTS = 90
# Numbers of steps of the descent after `fit`, (of Adam, of BFGS), see `minimise`.
DESCENT_STEPS = (60, 60)


def fit_curve(targets, closed: bool | None, build, design, point, options: dict[str, Any]) -> Front:
    """Return the results of `curve` for a mechanism of the user's own; `options` are those of `fit`.

    `fit` passes places along the curve, but may go beyond them. So each of its designs descends once more, by the mean
    squared distances of the whole drawn curve from the wanted one and of the wanted one from the drawn one.

    Raises:
        ValueError: no design or point; a curve that cannot be used.
    """
    if point is None or design is None:
        raise ValueError("a mechanism of your own needs a design to begin with, and a point: (body, coordinates)")
    points, closed = curve_points(targets, closed, (2, 3))
    targets, traced = resample(points, TARGETS, closed), measures.point(*point)
    found = fit(build, design, targets, traced, ordered=True, **options)
    bounds = {name: options.get(name) for name in ("lower", "upper")}
    solutions = []
    for one in found.all:
        first = _measure(one, points, closed)
        second = _descend(one, build, traced, points, closed, bounds) if first.checks["assembled"] else None
        other = first if second is None else _measure(second, points, closed)
        keeps = options.get("require") is None or np.all(np.asarray(options["require"](other.design)) >= 0)
        better = other.checks["assembled"] and other.error < first.error and keeps
        solutions.append(other if better else first)
    solutions.sort(key=lambda x: (not x.checks["assembled"], x.error))
    return Front(solutions, [one for one in solutions if one.checks["assembled"]][:1])


def _descend(one: Fitted, build, traced: measures.PointMeasure, points, closed: bool, bounds) -> Fitted | None:
    """Return `one` after a descent by the whole curve, or None if the motion cannot be followed.

    traced: the point. points: (T, d) of the wanted curve. bounds: the arguments lower and upper of `minimise`.
    """
    times = _times(one.times, closed)[:: CHECK_STEPS // DESCENT_POINTS]
    wanted = resample(points, DESCENT_POINTS, closed)
    size = common.spread_of(wanted)
    start = _follow(one, np.append(_lead_in_times(times), times[0])).q[-1]

    def objective(design):
        """Return the mean squared distances drawn to wanted and wanted to drawn, in units of the curve's size."""
        mech = build(design)
        motion = kinematics(mech, times, start)
        drawn = jax.vmap(lambda q: traced(design, mech, q))(motion.q)
        squares = jnp.sum(((drawn[:, None, :] - jnp.asarray(wanted)[None, :, :]) / size) ** 2, axis=-1)
        return jnp.mean(jnp.min(squares, axis=1)) + jnp.mean(jnp.min(squares, axis=0))

    try:
        design = minimise(objective, one.design, **bounds, starts=1, steps=DESCENT_STEPS, keep=1).best.design
    except ValueError:  # the objective is not finite at the start
        return None
    mech = build(jax.tree.map(jnp.asarray, design))
    coordinates = np.asarray(traced.coordinates(design), float)
    return one._replace(design=design, mechanism=mech, point=(traced.body, coordinates))


def _lead_in_times(times: np.ndarray) -> np.ndarray:
    """Return times from 0, for which there is a guess, to the first of `times`, which is not included."""
    return np.linspace(0, times[0], max(int(np.ceil(CHECK_STEPS * abs(times[0]))), 1), endpoint=False)


def _follow(one: Fitted, times: np.ndarray) -> Trajectory:
    """Return the motion of a fitted mechanism at these times; at the first one it must assemble from its guess."""
    return jax.jit(kinematics)(one.mechanism, jnp.asarray(times), one.guess)


def _measure(one: Fitted, points: np.ndarray, closed: bool) -> CurveSolution:
    """Return a fitted mechanism as a `CurveSolution`, with the whole curve that it draws; points: (T, d) wanted."""
    assert one.point is not None
    times = _times(one.times, closed)
    before = _lead_in_times(times)
    motion = _follow(one, np.concatenate([before, times]))
    drawn = np.asarray(motion.point(*one.point))[len(before) :]
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    error, ordered_error = np.inf, np.inf
    if np.all(np.isfinite(drawn)):
        error, ordered_error = curve_distances(drawn[: -1 if closed else None], closed, points, closed)
    size = common.spread_of(resample(points, CHECK_STEPS, closed))
    checks = {
        **one.checks,
        "assembled": followed,
        "farthest": float(distances_from(drawn, points, closed).max() / size) if np.isfinite(error) else np.inf,
        "misses": (),
    }
    return CurveSolution(
        design=one.design,
        error=error,
        ordered_error=ordered_error,
        mechanism=one.mechanism,
        guess=common.guess_of(one.mechanism, motion.q[0]),
        linkage=None,
        links=len(one.mechanism.bodies),
        crank_angles=2 * np.pi * times,
        branch=(),
        points=drawn,
        targets=points,
        moved=similarity_parts(),
        point=one.point,
        checks=checks,
    )


def _times(times: np.ndarray, closed: bool) -> np.ndarray:
    """Return `CHECK_STEPS` + 1 increasing times over a cycle, or between the ends of `times` (T,) if open."""
    if closed:
        return np.linspace(0, 1, CHECK_STEPS + 1)
    steps = np.diff(times)
    forwards = passes_in_order(times) and (steps % 1).sum() < 1
    first, duration = (times[0], (steps % 1).sum()) if forwards else (times[-1], ((-steps) % 1).sum())
    return first % 1 + np.linspace(0, min(duration, 1.0), CHECK_STEPS + 1)
