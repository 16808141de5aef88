"""Path generation: a linkage with a point that passes given places."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.search.multistart import MAX_CANDIDATES_PER_RESULT, SAME, Ranked, Search, ranked
from jaxmbs.search.stages import Report, told
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import fit, forwards_builders
from jaxmbs.synthesis.linkages import FourBar, Linkage, linkage_of
from jaxmbs.synthesis.path_search import Question, counted, points_of, searched
from jaxmbs.synthesis.shapes import distances_from
from jaxmbs.system.mechanism import Mechanism

# Distances that are no more than this part of the spread are none: among such solutions the one with the best transmission
# angle is the first.
EXACT = 1e-9
# So many candidates are looked at where those with the least errors stray, or do not turn all round.
MIN_TRIES = 64
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
        mechanism: with a motor that turns the crank once in a unit of time, from the first target on. A crank that does
            not turn all round passes its part of the turn in a unit of time, from one end to the other. A mechanism of
            one's own is as it is built, its crank angles are 2π times the time, and it has no branch.
        guess: the assembled poses of its bodies at time 0.
        crank_angles: (T,), at the targets.
        branch: see the linkage; a number, or one for each pair of links that meet.
        points: (T, 2), where the point is then.
        targets: (T, 2), as they were given.
        point: the body and the coordinates on it of the point.
        checks: "turns": the crank turns all round; "assembled": all poses of the turn, or of the part of it that is used,
            were found; "closed": those of a whole turn end where they began; "ordered": the targets are passed in their
            order, within a turn; "strays": the largest distance of the curve from the line through the targets, on the
            way from the first to the last; "transmission_angle": its least in degrees; "grashof", of linkages with a
            four-bar.

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


def _by_fit(build, targets, *, design, point, crank_angles=None, ordered=True, starts=4096, keep=10, **options):
    angles = None if crank_angles is None else common.one_each("crank_angles", crank_angles, len(targets))
    timing = {} if angles is None else {"times": angles / (2 * np.pi), "floating": True}
    options |= timing | {"ordered": ordered, "starts": starts, "keep": keep}
    found: Any = fit(build, design, targets, measures.point(*point), **options).all
    rest = lambda x: (*x[:4], 2 * np.pi * x.times, 0, x.values, x.targets, x.point, x.checks)
    return Ranked([Solution(*rest(x)) for x in found])


@forwards_builders(
    _by_fit,
    "fit(build, design, targets, synthesis.point(body, coordinates), ordered=True), with times=crank_angles / (2 * np.pi) "
    "and floating=True where there are crank angles",
)
def path(
    targets: ArrayLike | Sequence[Sequence[float]],
    *,
    mechanism: str | Linkage = "four-bar",
    crank_angles: ArrayLike | Sequence[float] | None = None,
    closed: bool = False,
    ordered: bool = True,
    whole_turn: bool = False,
    lower: Mapping[str, Any] | float | None = None,
    upper: Mapping[str, Any] | float | None = None,
    pivots: tuple | None = None,
    require: Callable[[dict], Any] | None = None,
    transmission_angle: float = 0.0,
    stray: float | None = None,
    starts: int = 4096,
    seed: int = 0,
    keep: int = 10,
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[Solution]:
    """Find the dimensions of a linkage whose point passes through given places: minimise Σ‖P_k − target_k‖².

    The search starts from thousands of random linkages. Each is first scaled, moved and turned to fit the targets. Then
    all are improved by the method of Levenberg and Marquardt, in one program. The same seed gives the same answer.

    Args:
        targets: (T, 2), places in the order in which they are to be passed.
        mechanism: "four-bar", "slider-crank", "Watt I", "Watt II", "Stephenson I", "Stephenson III", "Klann", "Jansen",
            "geared five-bar", `GearedFiveBar(ratio=2)`, or any `Dyadic`. For a mechanism of your own see `fit`.
        crank_angles: (T,), by how much the crank has turned at each target, in radians from any zero. The angle at
            which it starts and the sense in which it turns are free. None: the search finds a crank angle for each
            target.
        closed: whether the targets go all round a closed curve.
        ordered: whether targets without crank angles must be passed in their order within one turn. Two targets that
            are nearly in the same place may be passed at the same time.
        whole_turn: whether the crank must be able to turn fully. If not, the search also covers four-bars whose crank
            sweeps only part of a turn. Such a four-bar is ranked before the best linkage with a full turn only if the
            root-mean-square error of the latter exceeds both 1e-4 of the spread of the targets and ten times the error
            of the four-bar.
        lower, upper: bounds of the design: a mapping of names of its entries to numbers, or one number for all entries
            but angles. Lengths are always positive. Angles come back between −π and π.
        pivots: ((x, y), (x, y)), two corners of a box that must contain all pivots on the ground.
        require: a function of the design, written in jax.numpy; none of its values may be negative.
        transmission_angle: the smallest one that is allowed, in degrees.
        stray: the largest allowed distance of the curve from the line through the targets, from the first to the last.
            Linkages that exceed it are ranked last; `inf` allows any distance. None: the largest distance of two
            neighbouring targets, if they have no crank angles and are ordered; else any distance.
        starts: number of random linkages to start from. If the search also covers four-bars whose crank sweeps only
            part of a turn, a quarter of this number of them is added.
        seed: the seed of the random numbers.
        keep: how many of the best solutions to return.
        progress: a function that is called with the steps done, the steps in all, and the least error so far, such as
            `viz.progress_bar("path")`.
        resume: a file in which the state of the search is saved; if it exists, the search goes on from it.

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
    targets = common.table("targets", targets, "points, shape (T, 2)", (2,))
    linkage, search = linkage_of(mechanism), Search.of(starts, seed, keep, progress, resume)
    common.check_transmission_angle(transmission_angle)
    centre, spread = targets.mean(axis=0), common.spread_of(targets) or 1.0
    timing = None if crank_angles is None else common.one_each("crank_angles", crank_angles, len(targets))
    lowest, highest = _bounds(linkage, lower, upper, centre, spread)
    least = MIN_TRANSMISSION_ANGLE_DEG if linkage.has_closed_form else MIN_SAMPLED_ANGLE_DEG
    is_long = timing is not None and np.ptp(timing) >= 2 * np.pi
    question = Question(
        *((targets - centre) / spread, timing, closed, linkage.can_swing and not (closed or whole_turn or is_long)),
        *(lowest, highest, _region(pivots, centre, spread)),
        *(float(np.cos(np.deg2rad(max(transmission_angle, least)))), require, (centre, spread)),
    )
    # A function cannot be compared, but its values can.
    sample = linkage.unscaled(linkage.design(jnp.zeros(linkage.size)), centre, spread)
    required = None if require is None else told(np.asarray(require(sample)))
    task = targets, repr(linkage), *question[1:8], required
    in_order = timing is None and ordered
    farthest = _farthest(stray, targets, closed, in_order)
    found = searched(linkage, question, search, task)
    exact = len(targets) * (EXACT * spread) ** 2

    def order(x: Solution):
        error = counted(x.error, x.checks["turns"], len(targets), spread)
        return max(error, exact), -x.checks["transmission_angle"]

    return ranked(
        _candidates(linkage, question, found, targets, in_order, transmission_angle, farthest),
        search.keep,
        key=order,
        tries=max(MIN_TRIES, MAX_CANDIDATES_PER_RESULT * search.keep),
        nothing="no linkage was found that keeps the bounds and the order; allow more starts, or more room",
    )


def _farthest(stray: float | None, targets: np.ndarray, closed: bool, in_order: bool) -> float:
    """How far curves may be from the line through the targets."""
    if stray is not None:
        return np.inf if stray == np.inf else common.positive("stray", stray)
    if not in_order:
        return np.inf
    line = np.concatenate([targets, targets[:1]]) if closed else targets
    return float(np.linalg.norm(np.diff(line, axis=0), axis=1).max())


def _region(pivots, centre, spread) -> np.ndarray | None:
    if pivots is None:
        return None
    corners = np.asarray(pivots, float)
    if corners.shape != (2, 2) or not np.all(np.isfinite(corners)):
        raise ValueError(f"pivots must be two corners of a box, ((x, y), (x, y)), got {pivots!r}")
    if np.any(corners[0] == corners[1]):
        raise ValueError(f"pivots must be corners of a box with some room in it, got {pivots!r}")
    return (np.sort(corners, axis=0) - centre) / spread


def _bounds(linkage: Linkage, lower, upper, centre, spread) -> tuple[np.ndarray, np.ndarray]:
    """Of the numbers of a flat design, in units of the targets' spread."""
    shapes, turns = linkage.shapes(), linkage.of_kind("angle")
    lowest, highest = (
        linkage.scaled(common.limits(name, given, shapes, sign * np.inf, linkage.angles), centre, spread)
        for name, given, sign in (("lower", lower, -1), ("upper", upper, 1))
    )
    if np.any(lowest > highest):
        raise ValueError("a lower bound is above the upper one")
    if np.any(lowest == highest):
        raise ValueError("a lower bound is equal to the upper one; leave some room between them")
    # A whole turn is not a bound.
    free = turns & (highest - lowest > 2 * np.pi * (1 - SAME))
    lowest[free], highest[free] = -np.inf, np.inf
    return lowest, highest


def _candidates(linkage, question: Question, found, targets, in_order: bool, least: float, farthest: float):
    """Linkages that keep what is asked for, the best first: what tells each from others, and its check."""
    angular, (centre, spread) = linkage.of_kind("angle"), question.unit
    for u, angles, branch in zip(*found, strict=True):
        angles = angles - 2 * np.pi * np.round(angles[0] / (2 * np.pi))
        design = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(u)).items()}
        flat = np.asarray(linkage.flat(design))
        turns = bool(linkage.turns(u)) or common.angle_of(linkage.everywhere(design)) > 0
        part = 2 * np.pi if turns else np.ptp(angles)
        if not SAME <= part <= 2 * np.pi * (1 + SAME):
            continue
        opening = _opening(linkage, design, u, branch, None if turns else angles)
        if not _allowed(linkage, question, design, flat) or (least and opening < least):
            continue
        if in_order:
            given, angles = angles, _monotone(angles)
            if not _in_order(angles) or np.abs(angles - given).max() > AT_ONCE:
                continue

        def check(u=u, design=design, angles=angles, branch=branch, opening=opening, turns=turns):
            points = np.asarray(points_of(linkage, u, angles, branch)[0]) * spread + centre
            solution = _checked(
                linkage, linkage.in_units(design, centre, spread), angles, branch, points, targets, opening, turns
            )
            end = angles[-1] if not question.closed else angles[0] + np.copysign(2 * np.pi, angles[-1] - angles[0])
            way = np.asarray(points_of(linkage, u, np.linspace(angles[0], end, FINE), branch)[0]) * spread + centre
            solution.checks["strays"] = strays = float(distances_from(way, targets, question.closed).max())
            return solution, solution.checks["assembled"] and solution.checks["closed"] and strays <= farthest

        yield np.concatenate([flat[~angular], np.cos(flat[angular]), np.sin(flat[angular])]), check


def _allowed(linkage, question: Question, design, flat) -> bool:
    """Whether a design keeps its bounds, pivots their region, and what else is required."""
    inside = np.all(flat >= question.lower) and np.all(flat <= question.upper)
    if question.region is not None:
        places = np.array(linkage.pivots(design))
        inside &= np.all(places >= question.region[0]) and np.all(places <= question.region[1])
    if question.require is not None:
        inside &= np.all(np.asarray(question.require(linkage.unscaled(design, *question.unit))) >= 0)
    return bool(inside)


def _opening(linkage, design, u, branch, angles=None) -> float:
    """The least angle in degrees between links that meet, over a turn; or from the least to the largest of crank angles."""
    cosines = linkage.everywhere(design) if angles is None else None
    if cosines is None:
        first, last = (0.0, 2 * np.pi) if angles is None else (float(angles.min()), float(angles.max()))
        cosines = points_of(linkage, u, np.linspace(first, last, FINE), branch)[1]
    return common.angle_of(cosines)


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


def _checked(linkage, design, angles, branch, points, targets, opening: float, turns: bool) -> Solution:
    """A solution with a full turn of its mechanism looked at, or with the part that it passes."""
    turn = 1.0 if angles[-1] >= angles[0] else -1.0
    start = angles[0]
    if not turns:
        start = angles.min() if turn > 0 else angles.max()
        turn *= np.ptp(angles) / (2 * np.pi)
    branch = tuple(int(sign) for sign in branch) if linkage.signs > 1 else int(branch[0])
    mech = linkage.mechanism(design, start, turn)
    guess = linkage.guess(design, start, branch)
    point = (linkage.output, np.asarray(design["point"]))
    moments = (angles - start) / (2 * np.pi * turn)
    # What comes before the first target, or after a turn, is on the same curve.
    moments = np.where((moments >= 0) & (moments <= 1), moments, moments % 1) if turns else np.clip(moments, 0, 1)
    times = common.times_with(moments)
    poses = common.followed(mech, times, guess)
    missed, gap = np.inf, np.inf
    if poses is not None:
        away = poses[-1] - poses[0]
        size = max(np.abs(points - points.mean(axis=0)).max(), *(abs(x) for x in design.values() if np.ndim(x) == 0))
        gap = np.abs(np.column_stack([away[:, :2] / size, np.sin(away[:, 2] / 2)])).max()
        # A linkage that does not assemble on its branch may do so on another one.
        body = poses[np.searchsorted(times, moments), list(mech.bodies).index(linkage.output)]
        missed = np.abs(common.on_body(body, point[1]) - points).max() / size
    checks = {
        "turns": turns,
        "assembled": bool(missed < common.near_zero()),
        "closed": bool(gap < common.near_zero()) or not turns,
        "ordered": _in_order(angles),
        "transmission_angle": opening,
    }
    if "rocker" in design:
        checks["grashof"] = common.is_grashof(design[name] for name in FourBar.lengths)
    error = float(((points - targets) ** 2).sum())
    return Solution(design, error, mech, guess, angles, branch, points, targets, point, checks)
