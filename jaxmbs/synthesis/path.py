"""Path generation: a linkage with a point that passes given places."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxmbs.numerics.least_squares import levenberg_marquardt
from jaxmbs.programs.function import Straight
from jaxmbs.synthesis.common import TIMES, Ranked, count_of, finite, followed, near_zero, wrapped
from jaxmbs.synthesis.four_bar import FourBar
from jaxmbs.system.mechanism import Mechanism

LINKAGES: dict[str, type] = {FourBar.name: FourBar}
# Steps for all starts, and further ones for the best of them.
FIRST, FURTHER, BEST = 100, 500, 256
# No angle, and no logarithm of a length, changes by more in a step.
LONGEST = 0.5
# How hard bounds push, in units of the targets' spread, and how far inside they do, as a part of the width.
PUSH, INSIDE = 10.0, 1e-3
# Designs whose entries differ by no more than this part of the targets' spread are the same.
SAME = 1e-3
# A candidate that does not pass the checks is replaced, as long as no more are looked at than so many times those that are
# to be shown.
LOOKED_AT = 4
# Distances that are no more than this part of the spread are none: among such solutions the one with the best transmission
# angle is the first.
EXACT = 1e-9
# Targets out of order are passed at once if their crank angles are no further apart than this.
AT_ONCE = 0.1


class Solution(NamedTuple):
    """A linkage that has been found.

    Attributes:
        design: its dimensions by name. error: the sum of squared distances of the points from the targets.
        mechanism: with a motor that turns the crank once in a unit of time, from the first target on.
        guess: the assembled poses of its bodies at time 0.
        crank_angles (T,): at the targets. branch: see the linkage. points (T, 2): where the point is then.
        checks: "assembled": all poses of a full turn were found; "closed": they end where they began; "ordered": the
            targets are passed in their order, within a turn; "grashof"; "transmission_angle": its least in degrees.
    """

    design: dict[str, Any]
    error: float
    mechanism: Mechanism
    guess: dict[str, tuple]
    crank_angles: np.ndarray
    branch: int
    points: np.ndarray
    checks: dict[str, Any]


def path(
    targets: Float[np.ndarray, "T 2"],
    *,
    mechanism: str = "four-bar",
    crank_angles: Float[np.ndarray, " T"] | None = None,
    closed: bool = False,
    ordered: bool = True,
    lower: Mapping[str, Any] | float | None = None,
    upper: Mapping[str, Any] | float | None = None,
    transmission_angle: float = 0.0,
    starts: int = 4096,
    seed: int = 0,
    keep: int = 10,
) -> Ranked[Solution]:
    """Dimensions of a linkage with a point that passes given places: least Σ‖P_k − target_k‖².

    Thousands of random linkages, each fitted to the targets by size, place and direction first, descend by the method of
    Levenberg and Marquardt, all in one program; every one of them can be assembled and turns all round. The same seed
    gives the same answer.

    Args:
        targets: places, in the order in which they are to be passed.
        mechanism: "four-bar".
        crank_angles: by how much the crank has turned at each target, in radians from any zero; where it starts, and in
            which sense it turns, is free. None: every target has a crank angle of its own.
        closed: whether the targets go all round a closed curve.
        ordered: whether targets without crank angles must be passed in their order within one turn; two that are nearly in
            the same place may be passed at once.
        lower, upper: bounds of entries of the design by name; a number bounds all but the angle. Lengths are positive in
            any case. The angle comes back between −π and π.
        transmission_angle: the least that is allowed, in degrees.
        starts: their number. seed: of the random numbers. keep: so many of the best are shown.

    Raises:
        ValueError: targets or crank angles of a wrong shape, or not finite; an unknown mechanism or entry of the design;
            nothing found within the bounds.
    """
    targets = _targets(targets)
    if mechanism not in LINKAGES:
        raise ValueError(f"mechanism must be one of {', '.join(map(repr, LINKAGES))}, got {mechanism!r}")
    if not 0 <= transmission_angle < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {transmission_angle!r}")
    linkage, count, rng = LINKAGES[mechanism], len(targets), np.random.default_rng(seed)
    starts, keep, limit = count_of("starts", starts), count_of("keep", keep), np.cos(np.deg2rad(transmission_angle))
    timing = None if crank_angles is None else _timing(crank_angles, count)
    centre = targets.mean(axis=0)
    spread = float(np.sqrt(((targets - centre) ** 2).sum(axis=1).mean())) or 1.0
    goal = (targets - centre) / spread
    bounds = _bounds(linkage, lower, upper, centre, spread)

    task = _started(linkage, goal, timing, closed, starts, rng)
    found = _solver(linkage, timing is None, FIRST)(*task, goal, bounds, limit)
    best = np.argsort(finite(found.cost), kind="stable")[:BEST]
    task = (np.asarray(found.shared)[best], np.asarray(found.own)[best], *(x[best] for x in task[2:]))
    found = _solver(linkage, timing is None, FURTHER)(*task, goal, bounds, limit)
    return _ranked(
        linkage, found, task, goal, bounds, (centre, spread), timing is None and ordered, transmission_angle, keep
    )


def _targets(targets) -> np.ndarray:
    targets = np.asarray(targets, float)
    if targets.ndim != 2 or targets.shape[1] != 2 or len(targets) < 2:
        raise ValueError(f"targets must be at least two points of the plane, shape (T, 2), got shape {targets.shape}")
    if not np.all(np.isfinite(targets)):
        raise ValueError("targets must be finite")
    return targets


def _timing(crank_angles, count: int) -> np.ndarray:
    angles = np.asarray(crank_angles, float)
    if angles.shape != (count,) or not np.all(np.isfinite(angles)):
        raise ValueError(f"crank_angles must be {count} finite numbers, one for each target, got {crank_angles!r}")
    return angles


class Bounds(NamedTuple):
    """Of the entries of a design, flat, in units of the targets' spread."""

    lower: np.ndarray
    upper: np.ndarray


def _bounds(linkage, lower, upper, centre, spread) -> Bounds:
    design = jax.eval_shape(linkage.design, jax.ShapeDtypeStruct((linkage.size,), float))
    everything = [name for name in linkage.entries if name != "angle"]

    def flat(given, sign):
        names = given if isinstance(given, Mapping) else {} if given is None else dict.fromkeys(everything, given)
        for name in names:
            if name not in linkage.entries:
                raise ValueError(f"the design of a {linkage.name} has no {name!r}: {', '.join(linkage.entries)}")
        parts = []
        for name in linkage.entries:
            value = np.broadcast_to(np.asarray(names.get(name, sign * np.inf), float), design[name].shape)
            if name != "angle":
                value = (value - (centre if name == "pivot" else 0)) / spread
            parts.append(value.reshape(-1))
        return np.concatenate(parts)

    lowest, highest = flat(lower, -1), flat(upper, 1)
    if np.any(lowest > highest):
        raise ValueError("a lower bound is above the upper one")
    # A whole turn is no bound.
    angle = _place(linkage, "angle")
    if highest[angle] - lowest[angle] > 2 * np.pi * (1 - SAME):
        lowest[angle], highest[angle] = -np.inf, np.inf
    return Bounds(lowest, highest)


def _flat(linkage, design) -> jax.Array:
    return jnp.concatenate([jnp.reshape(design[name], -1) for name in linkage.entries])


def _started(linkage, goal, timing, closed, starts, rng):
    """Free numbers and crank angles of random linkages, brought to the targets by a similarity of the plane each."""
    count = len(goal)
    u = linkage.sample(rng, starts)
    branch, turn = rng.choice([-1.0, 1.0], (2, starts))
    start = rng.uniform(0, 2 * np.pi, starts)
    if timing is None:
        whole = 2 * np.pi * (count - 1) / count
        span = (
            np.full(starts, whole)
            if closed
            else np.where(rng.random(starts) < 0.5, whole, rng.uniform(0.5, whole, starts))
        )
        # Targets that lie far apart are far apart in time as well.
        steps = np.linalg.norm(np.diff(goal, axis=0), axis=1)
        even, by_length = np.linspace(0, 1, count), np.append(0, np.cumsum(steps)) / (steps.sum() or 1)
        part = rng.random(starts)[:, None]
        angles = start[:, None] + (turn * span)[:, None] * (part * even + (1 - part) * by_length)
    else:
        angles = start[:, None] + turn[:, None] * timing
    points = jax.jit(jax.vmap(lambda u, angles, branch: _points(linkage, u, angles, branch)))(u, angles, branch)
    z, w = np.asarray(points) @ [1, 1j], goal @ [1, 1j]
    about = z - z.mean(axis=1, keepdims=True)
    factor = (about.conj() @ w) / np.maximum((np.abs(about) ** 2).sum(axis=1), 1e-300)
    factor = np.where(np.abs(factor) > 1e-6, factor, 1.0)
    shift = w.mean() - factor * z.mean(axis=1)
    u = linkage.placed(u, np.abs(factor), np.angle(factor), np.column_stack([shift.real, shift.imag]))
    if timing is None:
        return u, angles[:, :, None], branch, turn[:, None] * np.zeros(count)
    return np.column_stack([u, start]), np.zeros((starts, count, 0)), branch, turn[:, None] * timing


@partial(jax.jit, static_argnums=0)
def _all_points(linkage, u, angles, branch):
    return _points(linkage, u, angles, branch)


def _points(linkage, u, angles, branch):
    design = linkage.design(u)
    return jax.vmap(lambda angle: linkage.point(design, angle, branch))(angles)


@lru_cache(maxsize=64)
def _solver(linkage, free: bool, iterations: int):
    """The search of all starts at once, in so many steps."""

    def of_one(u, own, branch, timing, goal, bounds, limit):
        def residual(u, own, state, data):
            target, since = data
            angle = own[0] if free else u[linkage.size] + since
            return linkage.point(linkage.design(u), angle, branch) - target, state

        def prior(u):
            flat, width = _flat(linkage, linkage.design(u)), jnp.minimum(bounds.upper - bounds.lower, 1)
            inside = INSIDE * width
            cosines = jnp.abs(linkage.transmission(linkage.design(u)))
            beyond = [
                flat - bounds.upper + inside,
                bounds.lower + inside - flat,
                cosines - limit + INSIDE * (1 - limit),
            ]
            return PUSH * jnp.maximum(jnp.concatenate(beyond), 0)

        return levenberg_marquardt(residual, prior, u, own, (), (goal, timing), iterations=iterations, longest=LONGEST)

    return jax.jit(jax.vmap(Straight(of_one), in_axes=(0, 0, 0, 0, None, None, None)))


def _place(linkage, entry: str) -> int:
    """Where a number stands in a flat design."""
    design = jax.eval_shape(linkage.design, jax.ShapeDtypeStruct((linkage.size,), float))
    return sum(design[name].size for name in linkage.entries[: linkage.entries.index(entry)])


def _ranked(linkage, found, task, goal, bounds, unit, in_order: bool, least: float, keep: int) -> Ranked[Solution]:
    """The best of different solutions, checked."""
    shared, own, cost = np.asarray(found.shared), np.asarray(found.own), finite(found.cost)
    centre, spread = unit
    free = own.shape[2] == 1
    good: list[Solution] = []
    others: list[Solution] = []
    known: list[np.ndarray] = []
    for k in np.argsort(cost, kind="stable"):
        if not np.isfinite(cost[k]) or len(good) == keep or len(known) == LOOKED_AT * keep:
            break
        u, branch = shared[k, : linkage.size], task[2][k]
        angles = own[k, :, 0] if free else shared[k, linkage.size] + task[3][k]
        design = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(u)).items()}
        flat = np.asarray(_flat(linkage, design))
        narrow = np.abs(linkage.transmission(design)).max() > np.cos(np.deg2rad(least))
        if np.any(flat < bounds.lower) or np.any(flat > bounds.upper) or (least and narrow):
            continue
        if in_order:
            given, angles = angles, _monotone(angles)
            if not _in_order(angles) or np.abs(angles - given).max() > AT_ONCE:
                continue
        mark = np.concatenate([flat, np.cos(design["angle"])[None], np.sin(design["angle"])[None]])
        mark = np.delete(mark, _place(linkage, "angle"))
        if any(np.abs(mark - other).max() < SAME for other in known):
            continue
        known.append(mark)
        points = np.asarray(_all_points(linkage, u, angles, branch))
        error = float(((points - goal) ** 2).sum() * spread**2)
        true = _unscaled(design, centre, spread)
        solution = _checked(linkage, true, error, angles, int(branch), points * spread + centre)
        (good if solution.checks["assembled"] and solution.checks["closed"] else others).append(solution)
    if not good and not others:
        raise ValueError("no linkage was found that keeps the bounds and the order; allow more starts, or more room")
    exact = len(goal) * (EXACT * spread) ** 2
    by_error = lambda solution: (max(solution.error, exact), -solution.checks["transmission_angle"])
    return Ranked([*sorted(good, key=by_error), *sorted(others, key=by_error)][:keep])


def _unscaled(design, centre, spread) -> dict[str, Any]:
    out = {}
    for name, value in design.items():
        if name == "angle":
            out[name] = float(wrapped(value))
        elif name == "pivot":
            out[name] = value * spread + centre
        else:
            out[name] = value * spread if value.ndim else float(value * spread)
    return out


def _in_order(angles) -> bool:
    """Whether angles go one way, by no more than a turn in all; two targets may have the same."""
    steps = np.diff(angles)
    return bool((np.all(steps >= 0) or np.all(steps <= 0)) and abs(angles[-1] - angles[0]) <= 2 * np.pi * (1 + SAME))


def _monotone(angles) -> np.ndarray:
    """The nearest angles in order, of least squares: neighbours in the wrong order get their mean; Ayer et al. 1955."""
    sense = 1 if angles[-1] >= angles[0] else -1
    pools: list[tuple[float, int]] = []
    for angle in sense * angles:
        mean, count = float(angle), 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean, count = (mean * count + before * many) / (count + many), count + many
        pools.append((mean, count))
    return sense * np.concatenate([np.full(count, mean) for mean, count in pools])


def _checked(linkage, design, error, angles, branch, points) -> Solution:
    """A solution with a full turn of its mechanism looked at."""
    turn = 1.0 if angles[-1] >= angles[0] else -1.0
    mech = linkage.mechanism(design, angles[0], turn)
    guess = linkage.guess(design, angles[0], branch)
    poses = followed(mech, np.linspace(0, 1, TIMES), guess)
    gap = np.inf
    if poses is not None:
        away = poses[-1] - poses[0]
        size = max(design[name] for name in linkage.lengths)
        gap = np.abs(np.column_stack([away[:, :2] / size, np.sin(away[:, 2] / 2)])).max()
    sorted_lengths = sorted(design[name] for name in linkage.lengths)
    checks = {
        "assembled": poses is not None,
        "closed": bool(gap < near_zero()),
        "ordered": _in_order(angles),
        "grashof": bool(sorted_lengths[0] + sorted_lengths[3] <= sorted_lengths[1] + sorted_lengths[2]),
        "transmission_angle": float(np.rad2deg(np.arccos(np.minimum(np.abs(linkage.transmission(design)), 1).max()))),
    }
    return Solution(design, error, mech, guess, angles, branch, points, checks)
