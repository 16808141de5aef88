"""Path generation: search for a linkage with a point that passes given places."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.search import (
    MAX_CANDIDATES_PER_RESULT,
    ProgressCallback,
    Ranked,
    SearchOptions,
    rank_candidates,
    rounded_text,
)
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import fit, forwards_builders
from jaxmbs.synthesis.linkages import FourBar, Linkage, linkage_of
from jaxmbs.synthesis.path_search import PathRequest, points_and_cosines, ranking_error, search_linkages
from jaxmbs.synthesis.shapes import distances_from
from jaxmbs.system.mechanism import Mechanism

# Root-mean-square distances from the targets up to this fraction of their spread are ranked by transmission angle only.
EXACT_DISTANCE = 1e-9
# `path` may check at least this many candidates, however few are to be kept: many may stray or not turn fully.
MIN_MAX_CHECKED = 64
# Largest change of a crank angle, in radians, that makes targets passed in the wrong order pass at the same time.
SAME_TIME_ANGLE = 0.1
# Smallest transmission angle in `path`, in degrees, of linkages with a closed form, whatever the user allows.
MIN_TRANSMISSION_ANGLE_DEG = 0.5
# Smallest transmission angle in `path`, in degrees, of linkages without a closed form, whose turns are only sampled.
MIN_SAMPLED_ANGLE_DEG = 2.0
# Number of crank angles at which `path` checks the whole curve, and transmission angles without a closed form.
CURVE_SAMPLES = 361
# Relative tolerance within which a range of crank angles, or an interval between bounds, counts as a whole turn.
TURN_TOLERANCE = 1e-3
# Smallest range of crank angles, in radians, of linkages whose crank does not turn fully; others are left out.
MIN_CRANK_RANGE = 1e-3


class Solution(NamedTuple):
    """A linkage found by `path`.

    Attributes:
        design: its dimensions by name.
        error: the sum of squared distances of the points from the targets.
        mechanism: with a motor that turns the crank once in a unit of time, from the first target on. If the crank does
            not turn fully, the motor passes its range in a unit of time, from one end to the other.
        guess: the assembled poses of its bodies at time 0.
        crank_angles: (T,), at the targets.
        branch: a sign, or one for each pair of links that meet; see the linkage.
        points: (T, 2), the places of the point at these crank angles.
        targets: (T, 2), as they were given.
        point: body and coordinates of the point.
        checks: "turns": the crank turns fully; "assembled": all poses of the turn, or of the used part of it, were found;
            "closed": a whole turn ends where it began; "ordered": the targets are passed in their order, within a turn;
            "strays": the largest distance of the curve from the line through the targets, from the first to the last;
            "transmission_angle": the smallest, in degrees; "grashof": a link of the four-bar can turn fully, for
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


def _fit_builder(build, targets, *, design, point, crank_angles=None, ordered=True, starts=4096, keep=10, **options):
    """Answer a deprecated call, with a builder as mechanism, by `fit`."""
    angles = None if crank_angles is None else common.one_per_target("crank_angles", crank_angles, len(targets))
    timing = {} if angles is None else {"times": angles / (2 * np.pi), "floating": True}
    options |= timing | {"ordered": ordered, "starts": starts, "keep": keep}

    def solution(x) -> Solution:
        """Return a result of `fit` as a `Solution`, its times as crank angles in radians."""
        turned = 2 * np.pi * x.times
        return Solution(x.design, x.error, x.mechanism, x.guess, turned, 0, x.values, x.targets, x.point, x.checks)

    return Ranked([solution(x) for x in fit(build, design, targets, measures.point(*point), **options).all])


@forwards_builders(
    _fit_builder,
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
    progress: ProgressCallback | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[Solution]:
    """Find the dimensions of a linkage whose point passes through given places: minimise Σ‖P_k − target_k‖².

    The search starts from thousands of random linkages. Each is first scaled, moved and turned to fit the targets. Then
    all are improved by the method of Levenberg and Marquardt, in one program. The same seed gives the same answer.

    Args:
        targets: (T, 2), places in the order in which they are to be passed.
        mechanism: "four-bar", "slider-crank", "Watt I", "Watt II", "Stephenson I", "Stephenson III", "Klann", "Jansen",
            "geared five-bar", `GearedFiveBar(ratio=2)`, or any `Dyadic`. For a mechanism of your own see `fit`.
        crank_angles: (T,), the angle by which the crank has turned at each target, in radians from any zero. The angle at
            which it starts and the sense in which it turns are free. None: the search finds a crank angle for each
            target.
        closed: whether the targets follow a closed curve all the way around.
        ordered: whether targets without crank angles must be passed in their order within one turn. Two targets that
            are nearly in the same place may be passed at the same time.
        whole_turn: whether the crank must be able to turn fully. If not, the search also covers four-bars whose crank
            sweeps only part of a turn. Such a four-bar is ranked before the best linkage with a full turn only if the
            root-mean-square error of the latter exceeds both 1e-4 of the spread of the targets and ten times the error
            of the four-bar.
        lower: lower bounds of the design: a mapping of names of its entries to numbers, or one number for all entries
            except angles. Lengths are always positive. Angles come back between −π and π.
        upper: upper bounds, likewise.
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
        Designs with their mechanisms and errors, the best first; see `Ranked` and `Solution`.

    Raises:
        ValueError: targets or crank angles of a wrong shape, or not finite; an unknown mechanism or entry of the
            design; nothing found within the bounds; a file of another search.

    Examples:
        >>> corners = jnp.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
        >>> found = mbs.synthesis.path(corners, starts=64)
        >>> found.best.error < 1e-12  # four points are passed exactly
        True
    """
    targets = common.rows_of_numbers("targets", targets, "points, shape (T, 2)", (2,))
    linkage, options = linkage_of(mechanism), SearchOptions.from_arguments(starts, seed, keep, progress, resume)
    common.check_transmission_angle(transmission_angle)
    centre, spread = targets.mean(axis=0), common.spread_of(targets) or 1.0
    angles = None if crank_angles is None else common.one_per_target("crank_angles", crank_angles, len(targets))
    lower_bounds, upper_bounds = _bounds(linkage, lower, upper, centre, spread)
    if np.any(lower_bounds >= upper_bounds):
        raise ValueError("a lower bound is not below the upper one; leave some room between them")
    min_angle = MIN_TRANSMISSION_ANGLE_DEG if linkage.has_closed_form else MIN_SAMPLED_ANGLE_DEG
    over_a_turn = angles is not None and np.ptp(angles) >= 2 * np.pi
    request = PathRequest(
        targets=(targets - centre) / spread,
        crank_angles=angles,
        closed=closed,
        part_turns=linkage.can_swing and not (closed or whole_turn or over_a_turn),
        lower=lower_bounds,
        upper=upper_bounds,
        region=None if pivots is None else common.box_corners("pivots", pivots, centre, spread),
        max_cosine=float(np.cos(np.deg2rad(max(transmission_angle, min_angle)))),
        require=require,
        unit=(centre, spread),
    )
    # Values of `require` for one design identify the function.
    sample = linkage.from_search_units(linkage.design(jnp.zeros(linkage.size)), centre, spread)
    required = None if require is None else rounded_text(np.asarray(require(sample)))
    bounds = request.lower, request.upper, request.region, request.max_cosine
    task = targets, repr(linkage), angles, closed, request.part_turns, *bounds, required
    in_order = angles is None and ordered
    max_stray = _max_stray(stray, targets, closed, in_order)
    linkages = search_linkages(linkage, request, options, task)
    exact_error = len(targets) * (EXACT_DISTANCE * spread) ** 2

    def sort_key(x: Solution) -> tuple[float, float]:
        """Return the error by which a solution is ranked, then its transmission angle with a minus."""
        error = ranking_error(x.error, x.checks["turns"], len(targets), spread)
        return max(error, exact_error), -x.checks["transmission_angle"]

    return rank_candidates(
        _candidates(linkage, request, linkages, targets, in_order, transmission_angle, max_stray),
        options.keep,
        key=sort_key,
        max_checked=max(MIN_MAX_CHECKED, MAX_CANDIDATES_PER_RESULT * options.keep),
        message="no linkage was found that keeps the bounds and the order; allow more starts, or more room",
    )


def _max_stray(stray: float | None, targets: np.ndarray, closed: bool, in_order: bool) -> float:
    """Return the largest distance that curves may have from the line through the targets; `stray` as for `path`."""
    if stray is not None:
        return np.inf if stray == np.inf else common.positive_number("stray", stray)
    if not in_order:
        return np.inf
    line = np.concatenate([targets, targets[:1]]) if closed else targets
    return float(np.linalg.norm(np.diff(line, axis=0), axis=1).max())


def _bounds(linkage: Linkage, lower, upper, centre, spread) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds (n,) of a flat design, in units of the targets' spread about their centre."""
    shapes, is_angle = linkage.shapes(), linkage.is_kind("angle")
    low, high = (
        linkage.to_search_units(common.flat_bounds(name, bounds, shapes, sign * np.inf, linkage.angles), centre, spread)
        for name, bounds, sign in (("lower", lower, -1), ("upper", upper, 1))
    )
    # An interval of a whole turn does not bound an angle.
    free = is_angle & (high - low > 2 * np.pi * (1 - TURN_TOLERANCE))
    low[free], high[free] = -np.inf, np.inf
    return low, high


def _candidates(linkage, request: PathRequest, linkages, targets, in_order: bool, min_angle: float, max_stray: float):
    """Yield the candidates of `rank_candidates` that keep bounds and order, the best first.

    linkages: as from `search_linkages`. targets: in the user's units. min_angle: transmission angle in degrees.
    """
    is_angle, (centre, spread) = linkage.is_kind("angle"), request.unit
    for u, angles, branch in zip(*linkages, strict=True):
        angles = angles - 2 * np.pi * np.round(angles[0] / (2 * np.pi))
        design = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(u)).items()}
        flat = np.asarray(linkage.flat(design))
        turns = bool(linkage.has_full_turn(u)) or common.transmission_angle_deg(linkage.extreme_cosines(design)) > 0
        crank_range = 2 * np.pi if turns else np.ptp(angles)
        if not MIN_CRANK_RANGE <= crank_range <= 2 * np.pi * (1 + TURN_TOLERANCE):
            continue
        smallest = _transmission_angle_deg(linkage, design, u, branch, None if turns else angles)
        if not _keeps_bounds(linkage, request, design, flat) or (min_angle and smallest < min_angle):
            continue
        if in_order:
            searched_angles, angles = angles, _monotone(angles)
            if not _in_order(angles) or np.abs(angles - searched_angles).max() > SAME_TIME_ANGLE:
                continue

        def check(u=u, design=design, angles=angles, branch=branch, smallest=smallest, turns=turns):
            """Return the solution, and True if it assembles, closes, and stays near the line through the targets."""
            points = np.asarray(points_and_cosines(linkage, u, angles, branch)[0]) * spread + centre
            in_user_units = linkage.result_in_user_units(design, centre, spread)
            solution = _solution(linkage, in_user_units, angles, branch, points, targets, smallest, turns)
            end = angles[-1] if not request.closed else angles[0] + np.copysign(2 * np.pi, angles[-1] - angles[0])
            samples = np.linspace(angles[0], end, CURVE_SAMPLES)
            drawn = np.asarray(points_and_cosines(linkage, u, samples, branch)[0]) * spread + centre
            solution.checks["strays"] = strays = float(distances_from(drawn, targets, request.closed).max())
            return solution, solution.checks["assembled"] and solution.checks["closed"] and strays <= max_stray

        yield np.concatenate([flat[~is_angle], np.cos(flat[is_angle]), np.sin(flat[is_angle])]), check


def _keeps_bounds(linkage, request: PathRequest, design, flat) -> bool:
    """Return True if a design, and its numbers `flat`, keep bounds, box of pivots, and `require`; search units."""
    inside = np.all(flat >= request.lower) and np.all(flat <= request.upper)
    if request.region is not None:
        places = np.array(linkage.pivots(design))
        inside &= np.all(places >= request.region[0]) and np.all(places <= request.region[1])
    if request.require is not None:
        inside &= np.all(np.asarray(request.require(linkage.from_search_units(design, *request.unit))) >= 0)
    return bool(inside)


def _transmission_angle_deg(linkage, design, u, branch, angles=None) -> float:
    """Return the smallest transmission angle in degrees over a turn, or over the range of the crank angles if given."""
    cosines = linkage.extreme_cosines(design) if angles is None else None
    if cosines is None:
        first, last = (0.0, 2 * np.pi) if angles is None else (float(angles.min()), float(angles.max()))
        cosines = points_and_cosines(linkage, u, np.linspace(first, last, CURVE_SAMPLES), branch)[1]
    return common.transmission_angle_deg(cosines)


def _in_order(angles) -> bool:
    """Return True if angles change in one sense, by at most a turn in all; neighbours may be equal."""
    steps, in_all = np.diff(angles), abs(angles[-1] - angles[0])
    one_sense = np.all(steps >= 0) or np.all(steps <= 0)
    return bool(one_sense and in_all <= 2 * np.pi * (1 + TURN_TOLERANCE))


def _monotone(angles) -> np.ndarray:
    """Return the monotone angles with the least squared distance, by pooling neighbours; Ayer et al. 1955."""
    sense = 1 if angles[-1] >= angles[0] else -1
    pools: list[tuple[float, int]] = []
    for angle in sense * angles:
        mean, count = float(angle), 1
        while pools and pools[-1][0] > mean:
            other_mean, other_count = pools.pop()
            mean = (mean * count + other_mean * other_count) / (count + other_count)
            count += other_count
        pools.append((mean, count))
    return sense * np.concatenate([np.full(count, mean) for mean, count in pools])


def _solution(linkage, design, angles, branch, points, targets, smallest_angle: float, turns: bool) -> Solution:
    """Return a solution with its mechanism followed over a turn, or over the used part of it.

    design, points and targets are in the user's units; angles (T,) of the crank are at the targets, `smallest_angle` is
    the transmission angle in degrees, and `turns` says that the crank turns fully.
    """
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
    # Angles before the first target, or beyond a turn, repeat the same curve.
    moments = np.where((moments >= 0) & (moments <= 1), moments, moments % 1) if turns else np.clip(moments, 0, 1)
    times = common.times_including(moments)
    poses = common.follow_motion(mech, times, guess)
    missed, gap = np.inf, np.inf
    if poses is not None:
        away = poses[-1] - poses[0]
        size = max(np.abs(points - points.mean(axis=0)).max(), *(abs(x) for x in design.values() if np.ndim(x) == 0))
        gap = np.abs(np.column_stack([away[:, :2] / size, np.sin(away[:, 2] / 2)])).max()
        # Compare places, since a linkage that does not assemble on its branch may do so on another one.
        body = poses[np.searchsorted(times, moments), list(mech.bodies).index(linkage.output)]
        missed = np.abs(common.point_positions(body, point[1]) - points).max() / size
    checks = {
        "turns": turns,
        "assembled": bool(missed < common.zero_tolerance()),
        "closed": bool(gap < common.zero_tolerance()) or not turns,
        "ordered": _in_order(angles),
        "transmission_angle": smallest_angle,
    }
    if "rocker" in design:
        checks["grashof"] = common.is_grashof(design[name] for name in FourBar.lengths)
    error = float(((points - targets) ** 2).sum())
    return Solution(design, error, mech, guess, angles, branch, points, targets, point, checks)
