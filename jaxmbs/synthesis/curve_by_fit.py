"""Curves that a mechanism of one's own is to draw, in the plane or in space: by `fit`, and the measure of `curve`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import Fitted, fit, passes_in_order
from jaxmbs.synthesis.shapes import distances, distances_from, resampled

# Targets that stand for a curve, and times of a cycle at which what is drawn is looked at.
TARGETS, TIMES = 40, 720


def fitted(points: np.ndarray, closed: bool, build, design, point, options: dict[str, Any]) -> list[dict[str, Any]]:
    """What `fit` finds for places along a curve, measured as curves: the fields of solutions, in any order."""
    targets = resampled(points, TARGETS, closed)
    found = fit(build, design, targets, measures.point(*point), ordered=True, **options)
    return [_measured(one, points, closed) for one in found.all]


def _measured(one: Fitted, points: np.ndarray, closed: bool) -> dict[str, Any]:
    """The whole curve that a mechanism draws from the first target to the last."""
    assert one.point is not None
    times = _times(one.times, closed)
    # From time 0, where the mechanism is assembled.
    before = np.linspace(0, times[0], max(int(np.ceil(TIMES * abs(times[0]))), 1), endpoint=False)
    motion = jax.jit(kinematics)(one.mechanism, jnp.asarray(np.concatenate([before, times])), one.guess)
    drawn = np.asarray(motion.point(*one.point))[len(before) :]
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    error, in_order = (np.inf, np.inf)
    if np.all(np.isfinite(drawn)):
        error, in_order = distances(drawn[: -1 if closed else None], closed, points, closed)
    size = common.spread_of(resampled(points, TIMES, closed))
    checks = {
        **one.checks,
        "assembled": followed and one.checks["assembled"],
        "farthest": float(distances_from(drawn, points, closed).max() / size) if np.isfinite(error) else np.inf,
        "misses": (),
    }
    return {
        "design": one.design,
        "error": error,
        "ordered_error": in_order,
        "mechanism": one.mechanism,
        "guess": one.guess,
        "linkage": None,
        "links": len(one.mechanism.bodies),
        "crank_angles": 2 * np.pi * times,
        "branch": (),
        "points": drawn,
        "targets": points,
        "point": one.point,
        "checks": checks,
    }


def _times(times: np.ndarray, closed: bool) -> np.ndarray:
    """From the first target to the last, or a whole cycle on; forwards from a time in the first cycle."""
    if closed:
        return np.linspace(0, 1, TIMES + 1)
    steps = np.diff(times)
    forwards = passes_in_order(times) and (steps % 1).sum() < 1
    first, way = (times[0], (steps % 1).sum()) if forwards else (times[-1], ((-steps) % 1).sum())
    return first % 1 + np.linspace(0, min(way, 1.0), TIMES + 1)
