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
from jaxmbs.synthesis.curve_results import CHECK_STEPS, CurveSolution, similarity_parts
from jaxmbs.synthesis.shapes import curve_distances, distances_from, resample

# Number of places along the wanted curve that `fit` gets as targets.
TARGETS = 40
# Number of points of the wanted and of the drawn curve in the descent after `fit`, by the distance of the whole curves.
DESCENT_POINTS = 90
# Steps of the descent after `fit`, (of Adam, of BFGS), as of `minimise`.
DESCENT_STEPS = (60, 60)


def fit_curve(points: np.ndarray, closed: bool, build, design, point, options: dict[str, Any]) -> list[CurveSolution]:
    """Return solutions, sorted by nothing: the designs that `fit` finds, each after one more descent.

    `fit` passes places along the curve, but may go beyond them. So each of its designs descends once more, by the mean
    squared distances of the whole drawn curve from the wanted one and of the wanted one from the drawn one.
    """
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
    return solutions


def _descend(one: Fitted, build, traced: measures.PointMeasure, points, closed: bool, bounds) -> Fitted | None:
    """Return the design after a descent by the whole curve, or None if the motion cannot be followed."""
    times, wanted = (
        _times(one.times, closed)[:: CHECK_STEPS // DESCENT_POINTS],
        resample(points, DESCENT_POINTS, closed),
    )
    size = common.spread_of(wanted)
    start = _follow(one.mechanism, np.concatenate([_lead_in_times(times), times[:1]]), one.guess).q[-1]

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
    """Return times from 0, at which a mechanism is assembled, to the first of `times`, which is not included."""
    return np.linspace(0, times[0], max(int(np.ceil(CHECK_STEPS * abs(times[0]))), 1), endpoint=False)


def _follow(mech, times: np.ndarray, guess):
    """Return the motion of a mechanism at these times, which begin where it can be assembled."""
    return jax.jit(kinematics)(mech, jnp.asarray(times), guess)


def _measure(one: Fitted, points: np.ndarray, closed: bool) -> CurveSolution:
    """Return the `CurveSolution` of a fitted mechanism, with the whole curve that it draws."""
    assert one.point is not None
    times = _times(one.times, closed)
    before = _lead_in_times(times)
    motion = _follow(one.mechanism, np.concatenate([before, times]), one.guess)
    drawn = np.asarray(motion.point(*one.point))[len(before) :]
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    error, in_order = (np.inf, np.inf)
    if np.all(np.isfinite(drawn)):
        error, in_order = curve_distances(drawn[: -1 if closed else None], closed, points, closed)
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
        ordered_error=in_order,
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
    """Return increasing times from the first target to the last, or of a whole cycle; the first is in [0, 1)."""
    if closed:
        return np.linspace(0, 1, CHECK_STEPS + 1)
    steps = np.diff(times)
    forwards = passes_in_order(times) and (steps % 1).sum() < 1
    first, duration = (times[0], (steps % 1).sum()) if forwards else (times[-1], ((-steps) % 1).sum())
    return first % 1 + np.linspace(0, min(duration, 1.0), CHECK_STEPS + 1)
