"""Path generation: a linkage with a point that passes given places."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.synthesis.builders import Fitted
from jaxmbs.synthesis.common import Ranked, count_of, followed, near_zero, times_with, wrapped
from jaxmbs.synthesis.linkages import Linkage, linkage_of
from jaxmbs.synthesis.own import check_own, path_of, refuse_foreign
from jaxmbs.synthesis.path_search import Found, Question, points_of, searched
from jaxmbs.synthesis.stages import Report, told
from jaxmbs.system.mechanism import Mechanism

# Designs whose entries differ by no more than this part of the targets' spread are the same.
SAME = 1e-3
# Candidates that fail a check are replaced, until this many per result have been tried.
MAX_CANDIDATES_PER_RESULT = 4
# Distances that are no more than this part of the spread are none: among such solutions the one with the best transmission
# angle is the first.
EXACT = 1e-9
# Targets out of order are passed at once if their crank angles are no further apart than this.
AT_ONCE = 0.1
# Smallest transmission angle, in degrees. Linkages without a closed-form check get a wider margin, because they are only
# sampled.
MIN_TRANSMISSION_ANGLE_DEG, MIN_SAMPLED_ANGLE_DEG = 0.5, 2.0
# Crank angles of a turn at which a transmission angle without closed form is looked at.
FINE = 361


class Solution(NamedTuple):
    """A linkage that has been found.

    Attributes:
        design: its dimensions by name.
        error: the sum of squared distances of the points from the targets.
        mechanism: with a motor that turns the crank once in a unit of time, from the first target on. A mechanism of
            one's own is as it is built, its crank angles are 2π times the time, and it has no branch.
        guess: the assembled poses of its bodies at time 0.
        crank_angles: (T,), at the targets.
        branch: see the linkage; a number, or one for each pair of links that meet.
        points: (T, 2), where the point is then.
        targets: (T, 2), as they were given.
        point: the body and the coordinates on it of the point.
        checks: "assembled": all poses of a full turn were found; "closed": they end where they began; "ordered": the
            targets are passed in their order, within a turn; "transmission_angle": its least in degrees; "grashof", of
            linkages with a four-bar.

    Examples:
        >>> best = mbs.synthesis.path(jnp.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]), starts=64).best
        >>> best.checks["assembled"], best.points.round(3).tolist()[2]
        (True, [1.0, 1.0])
    """

    design: Any
    error: float
    mechanism: Mechanism
    guess: dict[str, tuple]
    crank_angles: np.ndarray
    branch: int | tuple[int, ...]
    points: np.ndarray
    targets: np.ndarray
    point: tuple[str, np.ndarray]
    checks: dict[str, Any]


def path(
    targets: ArrayLike | Sequence[Sequence[float]],
    *,
    mechanism: str | Linkage | Callable = "four-bar",
    crank_angles: ArrayLike | Sequence[float] | None = None,
    closed: bool = False,
    ordered: bool = True,
    lower: Mapping[str, Any] | float | None = None,
    upper: Mapping[str, Any] | float | None = None,
    pivots: tuple | None = None,
    require: Callable[[dict], Any] | None = None,
    transmission_angle: float = 0.0,
    starts: int = 4096,
    seed: int = 0,
    keep: int = 10,
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
    design: Any = None,
    point: tuple | None = None,
    guess: Any = None,
) -> Ranked[Solution]:
    """Dimensions of a linkage with a point that passes given places: least Σ‖P_k − target_k‖².

    Thousands of random linkages, each fitted to the targets by size, place and direction first, descend by the method
    of Levenberg and Marquardt, all in one program. The same seed gives the same answer.

    Args:
        targets: (T, 2), places in the order in which they are to be passed.
        mechanism: "four-bar", "slider-crank", "Watt I", "Watt II", "Stephenson I", "Stephenson III", "geared five-bar"
            or `GearedFiveBar(ratio=2)`. Or a function that builds any mechanism from a design, planar or spatial; its
            drivers make one cycle in a unit of time, which is the crank angle divided by 2π. See `fit`.
        crank_angles: (T,), by how much the crank has turned at each target, in radians from any zero. Where it starts,
            and in which sense it turns, is free. None: every target has a crank angle of its own.
        closed: whether the targets go all round a closed curve.
        ordered: whether targets without crank angles must be passed in their order within one turn. Two that are nearly
            in the same place may be passed at once.
        lower, upper: bounds of entries of the design by name; a number bounds all but angles. Lengths are always
            positive. Angles come back between −π and π.
        pivots: ((x, y), (x, y)), two corners of a box in which all pivots on the ground must be.
        require: a function of the design, written in jax.numpy, of which no value may be negative.
        transmission_angle: the least that is allowed, in degrees.
        starts: number of starts.
        seed: of the random numbers.
        keep: how many of the best to return.
        progress: is called with the steps done, the steps in all, and the least error so far;
            `viz.progress_bar("path")`.
        resume: a file in which the search is kept; if it is there, the search goes on from it.
        design: for a mechanism of one's own, the design to begin with, a tree like that of the bounds.
        point: for a mechanism of one's own, (body, coordinates); these may be an entry of the design by name or a
            function of it.
        guess: for a mechanism of one's own, the configuration at time 0, or a function of the design.

    Returns:
        `Ranked` `Solution`s.

    Raises:
        ValueError: targets or crank angles of a wrong shape, or not finite; an unknown mechanism or entry of the
            design; nothing found within the bounds; a file of another search.

    Examples:
        >>> corners = jnp.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
        >>> found = mbs.synthesis.path(corners, starts=64)
        >>> found.best.error < 1e-12  # four points are passed exactly
        True
    """
    targets = _targets(targets)
    if callable(mechanism) and not isinstance(mechanism, Linkage):
        timing = None if crank_angles is None else _timing(crank_angles, len(targets))
        check_own(
            *("path", mechanism, {"design": design, "point": point}),
            {"pivots": pivots, "transmission_angle": transmission_angle, "closed": closed},
        )
        options = {"design": design, "guess": guess, "lower": lower, "upper": upper, "require": require}
        options |= {"starts": starts, "seed": seed, "progress": progress, "resume": resume}
        return Ranked([_own(*found) for found in path_of(mechanism, targets, timing, point, ordered, keep, **options)])
    refuse_foreign({"design": design, "point": point, "guess": guess})
    if targets.shape[1] != 2:
        raise ValueError(f"targets must be points of the plane, shape (T, 2), got shape {targets.shape}")
    linkage = linkage_of(mechanism)
    if not 0 <= transmission_angle < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {transmission_angle!r}")
    starts, keep = count_of("starts", starts), count_of("keep", keep)
    centre = targets.mean(axis=0)
    spread = float(np.sqrt(((targets - centre) ** 2).sum(axis=1).mean())) or 1.0
    timing = None if crank_angles is None else _timing(crank_angles, len(targets))
    lowest, highest = _bounds(linkage, lower, upper, centre, spread)
    least = max(transmission_angle, MIN_TRANSMISSION_ANGLE_DEG if _has_closed_form(linkage) else MIN_SAMPLED_ANGLE_DEG)
    question = Question(
        *((targets - centre) / spread, timing, closed, lowest, highest, _region(pivots, centre, spread)),
        *(float(np.cos(np.deg2rad(least))), require, (centre, spread)),
    )
    task = (targets, timing, repr(linkage), closed, lowest, highest, question.region, least, starts, seed)
    # A function cannot be compared, but its values can.
    sample = linkage.unscaled(linkage.design(jnp.zeros(linkage.size)), centre, spread)
    required = None if require is None else told(np.asarray(require(sample)))
    stages = {"progress": progress, "resume": resume, "task": _plain((*task, required))}
    found = searched(linkage, question, starts, seed, **stages)
    return _ranked(linkage, question, found, targets, timing is None and ordered, transmission_angle, keep)


def _plain(task) -> list:
    """What can be compared after a file was read: numbers as arrays, the rest as text."""
    return [np.asarray(x, float) if isinstance(x, np.ndarray) else str(x) for x in task]


def _own(found: Fitted, point) -> Solution:
    """What `fit` has found, as a path's solution."""
    angles = 2 * np.pi * found.times
    rest = angles, 0, found.values, found.targets, point, found.checks
    return Solution(found.design, found.error, found.mechanism, found.guess, *rest)


def _has_closed_form(linkage: Linkage) -> bool:
    return linkage.everywhere(linkage.design(jnp.zeros(linkage.size))) is not None


def _region(pivots, centre, spread) -> np.ndarray | None:
    if pivots is None:
        return None
    corners = np.asarray(pivots, float)
    if corners.shape != (2, 2) or not np.all(np.isfinite(corners)):
        raise ValueError(f"pivots must be two corners of a box, ((x, y), (x, y)), got {pivots!r}")
    if np.any(corners[0] == corners[1]):
        raise ValueError(f"pivots must be corners of a box with some room in it, got {pivots!r}")
    return (np.sort(corners, axis=0) - centre) / spread


def _targets(targets) -> np.ndarray:
    targets = np.asarray(targets, float)
    if targets.ndim != 2 or targets.shape[1] not in (2, 3) or len(targets) < 2:
        raise ValueError(
            f"targets must be at least two points, shape (T, 2), in space (T, 3), got shape {targets.shape}"
        )
    if not np.all(np.isfinite(targets)):
        raise ValueError("targets must be finite")
    return targets


def _timing(crank_angles, count: int) -> np.ndarray:
    angles = np.asarray(crank_angles, float)
    if angles.shape != (count,) or not np.all(np.isfinite(angles)):
        raise ValueError(f"crank_angles must be {count} finite numbers, one for each target, got {crank_angles!r}")
    return angles


def _bounds(linkage: Linkage, lower, upper, centre, spread) -> tuple[np.ndarray, np.ndarray]:
    """Of the numbers of a flat design, in units of the targets' spread."""
    everything = [name for name in linkage.entries if name not in linkage.angles]

    def flat(given, sign):
        names = given if isinstance(given, Mapping) else {} if given is None else dict.fromkeys(everything, given)
        for name in names:
            if name not in linkage.entries:
                raise ValueError(f"the design of a {linkage.name} has no {name!r}: {', '.join(linkage.entries)}")
        parts = []
        for name, shape in linkage.shapes().items():
            value = np.broadcast_to(np.asarray(names.get(name, sign * np.inf), float), shape)
            if name not in linkage.angles:
                value = (value - (centre if name == "pivot" else 0)) / spread
            parts.append(value.reshape(-1))
        return np.concatenate(parts)

    lowest, highest = flat(lower, -1), flat(upper, 1)
    if np.any(lowest > highest):
        raise ValueError("a lower bound is above the upper one")
    if np.any(lowest == highest):
        raise ValueError("a lower bound is equal to the upper one; leave some room between them")
    # A whole turn is no bound.
    free = linkage.of_kind("angle") & (highest - lowest > 2 * np.pi * (1 - SAME))
    lowest[free], highest[free] = -np.inf, np.inf
    return lowest, highest


def _ranked(linkage, question: Question, found: Found, targets, in_order: bool, least: float, keep: int):
    """The best of different solutions, checked."""
    good: list[Solution] = []
    others: list[Solution] = []
    known: list[np.ndarray] = []
    angular, spread = linkage.of_kind("angle"), question.unit[1]
    for k in np.argsort(found.cost, kind="stable"):
        if not np.isfinite(found.cost[k]) or len(good) == keep or len(known) == MAX_CANDIDATES_PER_RESULT * keep:
            break
        angles, branch = found.angles[k], found.signs[k]
        angles = angles - 2 * np.pi * np.round(angles[0] / (2 * np.pi))
        design = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(found.u[k])).items()}
        flat = np.asarray(linkage.flat(design))
        opening = _opening(linkage, design, found.u[k], branch)
        if not _allowed(linkage, question, design, flat) or (least and opening < least):
            continue
        if in_order:
            given, angles = angles, _monotone(angles)
            if not _in_order(angles) or np.abs(angles - given).max() > AT_ONCE:
                continue
        mark = np.concatenate([flat[~angular], np.cos(flat[angular]), np.sin(flat[angular])])
        if any(np.abs(mark - other).max() < SAME for other in known):
            continue
        known.append(mark)
        points = np.asarray(points_of(linkage, found.u[k], angles, branch)[0])
        points = points * spread + question.unit[0]
        solution = _checked(
            linkage, _in_units(linkage, design, *question.unit), angles, branch, points, targets, opening
        )
        (good if solution.checks["assembled"] and solution.checks["closed"] else others).append(solution)
    if not good and not others:
        raise ValueError("no linkage was found that keeps the bounds and the order; allow more starts, or more room")
    exact = len(targets) * (EXACT * spread) ** 2
    by_error = lambda solution: (max(solution.error, exact), -solution.checks["transmission_angle"])
    return Ranked([*sorted(good, key=by_error), *sorted(others, key=by_error)][:keep])


def _allowed(linkage, question: Question, design, flat) -> bool:
    """Whether a design keeps its bounds, pivots their region, and what else is required."""
    inside = np.all(flat >= question.lower) and np.all(flat <= question.upper)
    if question.region is not None:
        places = np.array(linkage.pivots(design))
        inside &= np.all(places >= question.region[0]) and np.all(places <= question.region[1])
    if question.require is not None:
        inside &= np.all(np.asarray(question.require(linkage.unscaled(design, *question.unit))) >= 0)
    return bool(inside)


def _opening(linkage, design, u, branch) -> float:
    """The least angle in degrees between links that meet, over a turn."""
    cosines = linkage.everywhere(design)
    if cosines is None:
        cosines = points_of(linkage, u, np.linspace(0, 2 * np.pi, FINE), branch)[1]
    return float(np.rad2deg(np.arccos(np.minimum(np.abs(np.asarray(cosines)).max(), 1))))


def _in_units(linkage, design, centre, spread) -> dict[str, Any]:
    """A design in the units of the targets, numbers as numbers, angles between −π and π."""
    true = linkage.unscaled(design, centre, spread)
    true = {name: wrapped(x) if name in linkage.angles else x for name, x in true.items()}
    return {name: np.asarray(x) if np.ndim(x) else float(x) for name, x in true.items()}


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


def _checked(linkage, design, angles, branch, points, targets, opening: float) -> Solution:
    """A solution with a full turn of its mechanism looked at."""
    turn = 1.0 if angles[-1] >= angles[0] else -1.0
    branch = tuple(int(sign) for sign in branch) if linkage.signs > 1 else int(branch[0])
    mech = linkage.mechanism(design, angles[0], turn)
    guess = linkage.guess(design, angles[0], branch)
    point = (linkage.output, np.asarray(design["point"]))
    moments = turn * (angles - angles[0]) / (2 * np.pi)
    # What comes before the first target, or after a turn, is on the same curve.
    moments = np.where((moments >= 0) & (moments <= 1), moments, moments % 1)
    times = times_with(moments)
    poses = followed(mech, times, guess)
    missed, gap = np.inf, np.inf
    if poses is not None:
        away = poses[-1] - poses[0]
        size = max(np.abs(points - points.mean(axis=0)).max(), *(abs(x) for x in design.values() if np.ndim(x) == 0))
        gap = np.abs(np.column_stack([away[:, :2] / size, np.sin(away[:, 2] / 2)])).max()
        # A linkage that does not assemble on its branch may do so on another one.
        body = poses[np.searchsorted(times, moments), list(mech.bodies).index(linkage.output)]
        missed = np.abs(_on_body(body, point[1]) - points).max() / size
    checks = {
        "assembled": bool(missed < near_zero()),
        "closed": bool(gap < near_zero()),
        "ordered": _in_order(angles),
        "transmission_angle": opening,
    }
    if lengths := sorted(linkage.lengths_of(design)):
        checks["grashof"] = bool(lengths[0] + lengths[3] <= lengths[1] + lengths[2])
    error = float(((points - targets) ** 2).sum())
    return Solution(design, error, mech, guess, angles, branch, points, targets, point, checks)


def _on_body(poses, point) -> np.ndarray:
    """Where a point of a body is, for poses (T, 3)."""
    c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    return poses[:, :2] + np.column_stack([c * point[0] - s * point[1], s * point[0] + c * point[1]])
