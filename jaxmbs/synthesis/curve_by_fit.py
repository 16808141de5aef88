"""Curves that a mechanism of one's own is to draw, in the plane or in space: by `fit`, and the measure of `curve`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.search.descent import minimise
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import Fitted, fit, passes_in_order
from jaxmbs.synthesis.shapes import distances, distances_from, resampled

# Targets that stand for a curve, and times of a cycle at which what is drawn is looked at.
TARGETS, TIMES = 40, 720
# The same while the whole curve is brought nearer: points of both curves, and steps.
POINTS, STEPS = 90, (60, 60)


def fitted(points: np.ndarray, closed: bool, build, design, point, options: dict[str, Any]) -> list[dict[str, Any]]:
    """What `fit` finds for places along a curve, improved and measured as curves: the fields of solutions, in any order.

    `fit` passes the places, but may go on beyond them; so each of its designs descends again, by distances of the whole
    curve that is drawn from the wanted one, and back.
    """
    targets, traced = resampled(points, TARGETS, closed), measures.point(*point)
    found = fit(build, design, targets, traced, ordered=True, **options)
    bounds = {name: options.get(name) for name in ("lower", "upper")}
    out = []
    for one in found.all:
        first = _measured(one, points, closed)
        second = _nearer(one, build, traced, points, closed, bounds) if first["checks"]["assembled"] else None
        other = first if second is None else _measured(second, points, closed)
        keeps = options.get("require") is None or np.all(np.asarray(options["require"](other["design"])) >= 0)
        out.append(other if other["checks"]["assembled"] and other["error"] < first["error"] and keeps else first)
    return out


def _nearer(one: Fitted, build, traced: measures.Point, points: np.ndarray, closed: bool, bounds) -> Fitted | None:
    """The design after a descent by the whole curve; None where that cannot be followed."""
    times, wanted = _times(one.times, closed)[:: TIMES // POINTS], resampled(points, POINTS, closed)
    size = common.spread_of(wanted)
    start = _followed(one.mechanism, np.concatenate([_before(times), times[:1]]), one.guess).q[-1]

    def objective(design):
        mech = build(design)
        motion = kinematics(mech, times, start)
        drawn = jax.vmap(lambda q: traced(design, mech, q))(motion.q)
        squares = jnp.sum(((drawn[:, None, :] - jnp.asarray(wanted)[None, :, :]) / size) ** 2, axis=-1)
        return jnp.mean(jnp.min(squares, axis=1)) + jnp.mean(jnp.min(squares, axis=0))

    try:
        design = minimise(objective, one.design, **bounds, starts=1, steps=STEPS, keep=1).best.design
    except ValueError:  # nothing finite where it begins
        return None
    mech = build(jax.tree.map(jnp.asarray, design))
    place = np.asarray(traced.place(design), float)
    return one._replace(design=design, mechanism=mech, point=(traced.body, place))


def _before(times: np.ndarray) -> np.ndarray:
    """Times from 0, where a mechanism is assembled, to the first one."""
    return np.linspace(0, times[0], max(int(np.ceil(TIMES * abs(times[0]))), 1), endpoint=False)


def _followed(mech, times: np.ndarray, guess):
    return jax.jit(kinematics)(mech, jnp.asarray(times), guess)


def _measured(one: Fitted, points: np.ndarray, closed: bool) -> dict[str, Any]:
    """The whole curve that a mechanism draws from the first target to the last."""
    assert one.point is not None
    times = _times(one.times, closed)
    before = _before(times)
    motion = _followed(one.mechanism, np.concatenate([before, times]), one.guess)
    q = motion.q[0]
    drawn = np.asarray(motion.point(*one.point))[len(before) :]
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    error, in_order = (np.inf, np.inf)
    if np.all(np.isfinite(drawn)):
        error, in_order = distances(drawn[: -1 if closed else None], closed, points, closed)
    size = common.spread_of(resampled(points, TIMES, closed))
    checks = {
        **one.checks,
        "assembled": followed,
        "farthest": float(distances_from(drawn, points, closed).max() / size) if np.isfinite(error) else np.inf,
        "misses": (),
    }
    layout = one.mechanism.layout
    named = {**layout.body_slices, **layout.extra_slices}
    return {
        "design": one.design,
        "error": error,
        "ordered_error": in_order,
        "mechanism": one.mechanism,
        "guess": {name: tuple(float(x) for x in q[where]) for name, where in named.items()},
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
