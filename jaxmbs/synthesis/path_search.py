"""The search for linkages with a point that passes targets: random starts and their least squares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import search
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages import Linkage

# Number of best starts of `path` that continue to the end of the search, after the first phase.
BEST_STARTS = 256
# Number of crank angles of a turn at which linkages without closed form must assemble during the search.
CHECK_ANGLES = 24
# Number of random linkages made for each start of a linkage without closed form; those that assemble are taken first.
RANDOM_LINKAGES_PER_START = 4
# One further start, whose crank may turn through a part of a turn only, is added for this many starts.
STARTS_PER_SWINGING_START = 4
# Number of crank ranges tried for each start whose crank may turn through a part of a turn only.
TRIED_RANGES = 8
# Factor on the root-mean-square distance from the targets, in the ranking, of linkages whose crank does not turn fully:
# a full turn needs no reversing motor.
PART_TURN_FACTOR = 10.0
# Lower limit on that distance in the ranking, of the same linkages, in units of the targets' spread.
PART_TURN_MIN_DISTANCE = 1e-4


class PathRequest(NamedTuple):
    """Targets and bounds of a linkage, in units of the targets' spread about their centre.

    Attributes:
        targets: (T, 2).
        crank_angles: (T,) angle by which the crank has turned at each target, in radians; None if free.
        closed: True if the targets go round a closed curve.
        part_turns: True if the crank may pass only a part of a turn.
        lower: lower bounds of a flat design.
        upper: upper bounds of a flat design.
        region: (2, 2) corners of the box for the pivots, or None.
        max_cosine: largest cosine of the angles between links.
        require: function design in the user's units ↦ values that must not be negative, or None.
        unit: (centre, spread) of the targets.
    """

    targets: np.ndarray
    crank_angles: np.ndarray | None
    closed: bool
    part_turns: bool
    lower: np.ndarray
    upper: np.ndarray
    region: np.ndarray | None
    max_cosine: float
    require: Callable | None
    unit: tuple[np.ndarray, float]


def search_linkages(
    linkage: Linkage, request: PathRequest, options: search.SearchOptions, task
) -> tuple[np.ndarray, ...]:
    """Return K linkages after all phases, the best first: free numbers (K, n), crank angles (K, T), branches (K, s)."""
    free_angles = request.crank_angles is None
    carry = _random_starts(linkage, request, options.starts, options.rng)
    scale = _scale_of_requirements(linkage, request, carry.shared)
    region = np.zeros((2, 2)) if request.region is None else request.region
    inputs = request.targets, request.lower, request.upper, region, request.max_cosine, scale, request.unit
    problem = PathGeneration(linkage, free_angles, request.require, request.region is not None)
    phases = search.penalty_phases(inputs, BEST_STARTS)
    carry = search.descend(problem, carry, phases, options, unit=request.unit[1], task=task)
    (signs, base_angles), count = carry.data, len(request.targets)
    u, start = carry.shared[:, : linkage.size], carry.shared[:, linkage.size :]
    angles = carry.own[:, :count, 0] if free_angles else start + base_angles[:, :count]
    order = search.order_by_cost(ranking_error(carry.cost, linkage.has_full_turn(u), count, 1.0))
    return tuple(x[order] for x in (u, angles, signs))


def ranking_error(error, turns, count: int, spread: float):
    """Return sums of squares for the ranking: `error`, or more where the crank does not turn fully (`turns` is False).

    count: number of targets. spread: of the targets, in the root of the unit of the error.
    """
    part_turn_error = np.maximum(PART_TURN_FACTOR**2 * error, count * (PART_TURN_MIN_DISTANCE * spread) ** 2)
    return np.where(turns, error, part_turn_error)


@dataclass(frozen=True)
class PathGeneration(search.LeastSquaresProblem):
    """Least squares for a linkage whose point passes targets.

    The shared unknowns are the free numbers of the linkage and, if crank angles are given, the angle at which the crank
    starts. There is a block for each target, whose own unknown is its crank angle if that is free, and for each checked
    angle.

    Attributes:
        linkage: the linkage.
        free_angles: True if the crank angles at the targets are free.
        require: as in `PathRequest`.
        in_region: True if there is a box for the pivots.
    """

    linkage: Linkage
    free_angles: bool
    require: Callable | None
    in_region: bool

    def residual_functions(self, data, inputs):
        """Return the residual of a target or checked angle, that of bounds and boxes, and the blocks' data."""
        linkage, checked, (signs, base_angles) = self.linkage, len(_check_angles(self.linkage)), data
        targets, lower, upper, region, max_cosine, scale, unit, penalty = inputs
        weight = jnp.concatenate([jnp.ones(len(targets)), jnp.zeros(checked)])
        all_targets = jnp.concatenate([targets, jnp.zeros((checked, 2))])

        def residual(shared, own, carried, block):
            """Return the missed distance of one target, and penalties for links that hardly reach."""
            target, base_angle, weight = block
            angle = base_angle + (weight * own[0] if self.free_angles else shared[linkage.size])
            point, cosines = linkage.point_and_cosines(linkage.design(shared[: linkage.size]), angle, signs)
            counts = 1 if checked else jnp.where(linkage.has_full_turn(shared[: linkage.size]), 0, 1)
            missed = weight * (point - target)
            if checked or linkage.can_swing:
                # The logarithm is steep where links are about to open, and flat where they are far apart.
                excess = jnp.maximum(jnp.abs(cosines) - max_cosine, 0) / (1 - max_cosine)
                missed = jnp.concatenate([missed, counts * penalty / search.PENALTY_START * jnp.log1p(excess)])
            return missed, carried

        def prior(shared):
            """Return penalties for violated bounds, extreme angles, pivots outside their box, and `require`."""
            u = shared[: linkage.size]
            design = linkage.design(u)
            rows = [common.bound_violation(linkage.flat(design), lower, upper)]
            if not checked:
                margin = common.BOUND_MARGIN * (1 - max_cosine)
                excess = jnp.abs(jnp.asarray(linkage.extreme_cosines(design))) - max_cosine + margin
                rows.append(jnp.where(linkage.has_full_turn(u), excess, -1))
            if self.in_region:
                rows += [common.bound_violation(pivot, *region) for pivot in linkage.pivots(design)]
            if self.require is not None:
                rows.append(common.BOUND_MARGIN - _requirement_values(linkage, self.require, unit)(u) / scale)
            return penalty * jnp.maximum(jnp.concatenate(rows), 0)

        return residual, prior, (all_targets, base_angles, weight)


@partial(jax.jit, static_argnums=0)
def points_and_cosines(linkage, u, angles, signs):
    """Return the places of the point (T, 2) and the cosines between the links (T, c) at crank angles (T,)."""
    design = linkage.design(u)
    return jax.vmap(lambda angle: linkage.point_and_cosines(design, angle, signs))(angles)


def _check_angles(linkage: Linkage) -> np.ndarray:
    """Return the crank angles (C,) at which a linkage must assemble; none if it has a closed form for the whole turn."""
    return np.zeros(0) if linkage.has_closed_form else np.linspace(0, 2 * np.pi, CHECK_ANGLES, endpoint=False)


def _random_linkages(linkage: Linkage, starts: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return free numbers (starts, n) and branches (starts, s), preferring linkages that assemble at every angle."""
    checked = _check_angles(linkage)
    count = starts * (RANDOM_LINKAGES_PER_START if len(checked) else 1)
    u = linkage.sample(rng, count)
    signs = rng.choice([-1.0, 1.0], (count, linkage.signs))
    if not len(checked):
        return u, signs
    _, cosines = jax.vmap(partial(points_and_cosines, linkage), (0, None, 0))(u, checked, signs)
    rows = np.argsort(np.maximum(np.abs(np.asarray(cosines)).max(axis=(1, 2)), 1), kind="stable")[:starts]
    return u[rows], signs[rows]


def _random_starts(linkage: Linkage, request: PathRequest, starts: int, rng) -> search.MultistartCarry:
    """Return random linkages, each scaled, turned and moved to fit the targets."""
    targets, given_angles = request.targets, request.crank_angles
    u, signs = _random_linkages(linkage, starts, rng)
    if request.part_turns:
        more_u, more_signs = _random_linkages(linkage, max(starts // STARTS_PER_SWINGING_START, 1), rng)
        u, signs = np.concatenate([u, linkage.without_full_turn(more_u)]), np.concatenate([signs, more_signs])
    swings, starts = slice(starts, None), len(u)
    turn = rng.choice([-1.0, 1.0], starts)
    start = rng.uniform(0, 2 * np.pi, starts)
    if given_angles is None:
        angles = start[:, None] + turn[:, None] * _random_angles(targets, request.closed, starts, rng)
    else:
        angles = start[:, None] + turn[:, None] * given_angles
    if request.part_turns:
        angles[swings] = _reachable_angles(linkage, request, u[swings], angles[swings], signs[swings], rng)
        start = angles[:, 0] if given_angles is None else angles[:, 0] - turn * given_angles[0]
    points, _ = jax.vmap(partial(points_and_cosines, linkage))(u, angles, signs)
    z, w = np.asarray(points) @ [1, 1j], targets @ [1, 1j]
    centred = z - z.mean(axis=1, keepdims=True)
    factor = (centred.conj() @ w) / np.maximum((np.abs(centred) ** 2).sum(axis=1), 1e-300)
    factor = np.where(np.abs(factor) > 1e-6, factor, 1.0)
    shift = w.mean() - factor * z.mean(axis=1)
    u = linkage.apply_similarity(u, np.abs(factor), np.angle(factor), np.column_stack([shift.real, shift.imag]))
    checked = np.broadcast_to(_check_angles(linkage), (starts, len(_check_angles(linkage))))
    if given_angles is None:
        own = np.concatenate([angles, 0 * checked], axis=1)[:, :, None]
        return search.MultistartCarry.at_start(u, (signs, np.concatenate([0 * angles, checked], axis=1)), own)
    # The checked angles count from the crank's start as well; they cover the turn in any case.
    base_angles = np.concatenate([turn[:, None] * given_angles, checked], axis=1)
    return search.MultistartCarry.at_start(np.column_stack([u, start]), (signs, base_angles))


def _reachable_angles(linkage: Linkage, request: PathRequest, u, angles, signs, rng) -> np.ndarray:
    """Return the given crank angles (starts, T), moved and perhaps shrunk so that linkages assemble if possible.

    Each linkage tries `TRIED_RANGES` random beginnings, with a random part of its range if the crank angles are free.
    """
    offset = rng.uniform(0, 2 * np.pi, (TRIED_RANGES, len(u), 1))
    part = rng.uniform(0.1, 1, (TRIED_RANGES, len(u), 1)) if request.crank_angles is None else 1.0
    tried = angles[:, :1] + offset + part * (angles - angles[:, :1])
    _, cosines = jax.vmap(jax.vmap(partial(points_and_cosines, linkage)), (None, 0, None))(u, tried, signs)
    worst_cosine = np.maximum(np.abs(np.asarray(cosines)).max(axis=(2, 3)), request.max_cosine)
    return tried[np.argmin(worst_cosine, axis=0), np.arange(len(u))]


def _random_angles(targets, closed: bool, starts: int, rng) -> np.ndarray:
    """Return increasing random crank angles (starts, T), 0 at the first target, over a turn or, if open, part of it."""
    count = len(targets)
    whole = 2 * np.pi * (count - 1) / count
    part_of_turn = np.where(rng.random(starts) < 0.5, whole, rng.uniform(0.5, whole, starts))
    span = np.full(starts, whole) if closed else part_of_turn
    # A mixture of equal steps and steps in proportion to the distances between targets.
    steps = np.linalg.norm(np.diff(targets, axis=0), axis=1)
    even, by_length = np.linspace(0, 1, count), np.append(0, np.cumsum(steps)) / (steps.sum() or 1)
    part = rng.random(starts)[:, None]
    return span[:, None] * (part * even + (1 - part) * by_length)


def _scale_of_requirements(linkage, request: PathRequest, shared) -> np.ndarray:
    """Return a typical size of each value of `require`: the median over all starts."""
    if request.require is None:
        return np.zeros(0)
    values = _requirement_values(linkage, request.require, request.unit)
    each = np.asarray(jax.vmap(values)(shared[:, : linkage.size]))
    scale = np.median(np.where(np.isfinite(each), np.abs(each), np.inf), axis=0)
    return np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


def _requirement_values(linkage, require, unit):
    """Return the function free numbers ↦ values of `require` in a row."""

    def values(u):
        """Return the values of `require` at free numbers u, in a row."""
        return jnp.ravel(jnp.asarray(require(linkage.from_search_units(linkage.design(u), *unit)), float))

    return values
