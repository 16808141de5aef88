"""The search for a linkage that draws a path: random starts, and the least squares of one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.search.multistart import PUSH, Problem, Search, State, best_first, descended, pushing_harder
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages import Linkage

# Starts that go on to the end.
BEST = 256
# Crank angles at which a linkage is checked that has no closed form for a whole turn.
GUARDS = 24
# Random linkages made for each start of such a linkage; those that assemble are taken first.
RANDOM_LINKAGES_PER_START = 4
# One further start for this many, whose crank need not turn all round; and how many ways of its crank are tried.
PART_EVERY, WAYS = 4, 8
# Distances of such a linkage are multiplied by this, and count at least as this part of the spread: a linkage that turns
# all round needs no reversing motor.
PART_COUNTS, PART_COUNTS_LEAST = 10.0, 1e-4


class Question(NamedTuple):
    """What is asked for, in units of the targets' spread about their centre.

    Attributes:
        goal (T, 2): the targets. timing (T,): how far the crank has turned, None where that is free.
        closed: whether the targets go all round. parts: whether the crank may pass only a part of a turn.
        lower, upper: bounds of the numbers of a flat design.
        region: two corners of the pivots' box, or None. limit: of the cosines.
        require: the design in the user's units ↦ values that must not be negative; unit: (centre, spread).
    """

    goal: np.ndarray
    timing: np.ndarray | None
    closed: bool
    parts: bool
    lower: np.ndarray
    upper: np.ndarray
    region: np.ndarray | None
    limit: float
    require: Callable | None
    unit: tuple[np.ndarray, float]


def searched(linkage: Linkage, question: Question, search: Search, task) -> tuple[np.ndarray, ...]:
    """Candidates after the descent of all starts, and of the best of them to the end, the best first: free numbers (K, n),
    crank angles at the targets (K, T), signs of the branch (K, s)."""
    free = question.timing is None
    start = _started(linkage, question, search.starts, search.rng)
    scale = _scale_of_requirements(linkage, question, start.shared)
    region = np.zeros((2, 2)) if question.region is None else question.region
    given = question.goal, question.lower, question.upper, region, question.limit, scale, question.unit
    problem = Passing(linkage, free, question.require, question.region is not None)
    state = descended(problem, start, pushing_harder(given, BEST), search, unit=question.unit[1], task=task)
    (signs, since), count = state.data, len(question.goal)
    angles = state.own[:, :count, 0] if free else state.shared[:, linkage.size, None] + since[:, :count]
    turns = linkage.turns(state.shared[:, : linkage.size])
    order = best_first(counted(state.cost, turns, count, 1.0))
    return tuple(x[order] for x in (state.shared[:, : linkage.size], angles, signs))


def counted(error, turns, count: int, spread: float):
    """Sums of squares as linkages are compared by them: more where the crank does not turn all round."""
    return np.where(turns, error, np.maximum(PART_COUNTS**2 * error, count * (PART_COUNTS_LEAST * spread) ** 2))


@dataclass(frozen=True)
class Passing(Problem):
    """A linkage that passes targets, each at a crank angle of its own where these are free."""

    linkage: Linkage
    free: bool
    require: Callable | None
    in_region: bool

    def rows(self, data, wanted):
        linkage, guards, (signs, since) = self.linkage, len(_guards(self.linkage)), data
        goal, lower, upper, region, limit, scale, unit, push = wanted
        weight = jnp.concatenate([jnp.ones(len(goal)), jnp.zeros(guards)])
        targets = jnp.concatenate([goal, jnp.zeros((guards, 2))])

        def residual(shared, own, state, block):
            target, since, weight = block
            angle = since + (weight * own[0] if self.free else shared[linkage.size])
            point, cosines = linkage.seen(linkage.design(shared[: linkage.size]), angle, signs)
            counts = 1 if guards else jnp.where(linkage.turns(shared[: linkage.size]), 0, 1)
            missed = weight * (point - target)
            if guards or linkage.can_swing:
                # Steep where links are about to open, and flat where they are far apart.
                open_by = jnp.maximum(jnp.abs(cosines) - limit, 0) / (1 - limit)
                missed = jnp.concatenate([missed, counts * push / PUSH * jnp.log1p(open_by)])
            return missed, state

        def prior(shared):
            u = shared[: linkage.size]
            design = linkage.design(u)
            rows = [common.beyond(linkage.flat(design), lower, upper)]
            if not guards:
                beyond = jnp.abs(jnp.asarray(linkage.everywhere(design))) - limit + common.INSIDE * (1 - limit)
                rows.append(jnp.where(linkage.turns(u), beyond, -1))
            if self.in_region:
                rows += [common.beyond(pivot, *region) for pivot in linkage.pivots(design)]
            if self.require is not None:
                rows.append(common.INSIDE - _required(linkage, self.require, unit)(u) / scale)
            return push * jnp.maximum(jnp.concatenate(rows), 0)

        return residual, prior, (targets, since, weight)


@partial(jax.jit, static_argnums=0)
def points_of(linkage, u, angles, signs):
    """Where the point is (T, 2), and the cosines between the links (T, c)."""
    design = linkage.design(u)
    return jax.vmap(lambda angle: linkage.seen(design, angle, signs))(angles)


def _guards(linkage: Linkage) -> np.ndarray:
    """Crank angles at which a linkage has to assemble."""
    return np.zeros(0) if linkage.has_closed_form else np.linspace(0, 2 * np.pi, GUARDS, endpoint=False)


def _offered(linkage: Linkage, starts: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Free numbers and branches of random linkages, those that assemble at every angle first."""
    guards = _guards(linkage)
    offered = starts * (RANDOM_LINKAGES_PER_START if len(guards) else 1)
    u = linkage.sample(rng, offered)
    signs = rng.choice([-1.0, 1.0], (offered, linkage.signs))
    if not len(guards):
        return u, signs
    _, cosines = jax.vmap(partial(points_of, linkage), (0, None, 0))(u, guards, signs)
    rows = np.argsort(np.maximum(np.abs(np.asarray(cosines)).max(axis=(1, 2)), 1), kind="stable")[:starts]
    return u[rows], signs[rows]


def _started(linkage: Linkage, question: Question, starts: int, rng) -> State:
    """Random linkages, brought to the targets by a similarity of the plane each."""
    goal, timing = question.goal, question.timing
    u, signs = _offered(linkage, starts, rng)
    if question.parts:
        further, more = _offered(linkage, max(starts // PART_EVERY, 1), rng)
        u, signs = np.concatenate([u, linkage.swinging(further)]), np.concatenate([signs, more])
    swings, starts = slice(starts, None), len(u)
    turn = rng.choice([-1.0, 1.0], starts)
    start = rng.uniform(0, 2 * np.pi, starts)
    if timing is None:
        angles = start[:, None] + turn[:, None] * _spread_angles(goal, question.closed, starts, rng)
    else:
        angles = start[:, None] + turn[:, None] * timing
    if question.parts:
        angles[swings] = _reached(linkage, question, u[swings], angles[swings], signs[swings], rng)
        start = angles[:, 0] if timing is None else angles[:, 0] - turn * timing[0]
    points, _ = jax.vmap(partial(points_of, linkage))(u, angles, signs)
    z, w = np.asarray(points) @ [1, 1j], goal @ [1, 1j]
    about = z - z.mean(axis=1, keepdims=True)
    factor = (about.conj() @ w) / np.maximum((np.abs(about) ** 2).sum(axis=1), 1e-300)
    factor = np.where(np.abs(factor) > 1e-6, factor, 1.0)
    shift = w.mean() - factor * z.mean(axis=1)
    u = linkage.placed(u, np.abs(factor), np.angle(factor), np.column_stack([shift.real, shift.imag]))
    guards = np.broadcast_to(_guards(linkage), (starts, len(_guards(linkage))))
    if timing is None:
        own = np.concatenate([angles, 0 * guards], axis=1)[:, :, None]
        return State.begin(u, (signs, np.concatenate([0 * angles, guards], axis=1)), own)
    # Guards count from where the crank starts as well: their angles are spread over the turn in any case.
    since = np.concatenate([turn[:, None] * timing, guards], axis=1)
    return State.begin(np.column_stack([u, start]), (signs, since))


def _reached(linkage: Linkage, question: Question, u, angles, signs, rng) -> np.ndarray:
    """Crank angles (starts, T) at which linkages assemble that need not turn all round, as far as they are found: the same
    ways of the crank from elsewhere, and without crank angles that are given also shorter ones."""
    away = rng.uniform(0, 2 * np.pi, (WAYS, len(u), 1))
    part = rng.uniform(0.1, 1, (WAYS, len(u), 1)) if question.timing is None else 1.0
    tried = angles[:, :1] + away + part * (angles - angles[:, :1])
    _, cosines = jax.vmap(jax.vmap(partial(points_of, linkage)), (None, 0, None))(u, tried, signs)
    opening = np.maximum(np.abs(np.asarray(cosines)).max(axis=(2, 3)), question.limit)
    return tried[np.argmin(opening, axis=0), np.arange(len(u))]


def _spread_angles(goal, closed: bool, starts: int, rng) -> np.ndarray:
    """Crank angles (starts, T) from the first target on: over a turn or a part of it."""
    count = len(goal)
    whole = 2 * np.pi * (count - 1) / count
    part_of_turn = np.where(rng.random(starts) < 0.5, whole, rng.uniform(0.5, whole, starts))
    span = np.full(starts, whole) if closed else part_of_turn
    # Targets that lie far apart are far apart in time as well.
    steps = np.linalg.norm(np.diff(goal, axis=0), axis=1)
    even, by_length = np.linspace(0, 1, count), np.append(0, np.cumsum(steps)) / (steps.sum() or 1)
    part = rng.random(starts)[:, None]
    return span[:, None] * (part * even + (1 - part) * by_length)


def _scale_of_requirements(linkage, question: Question, shared) -> np.ndarray:
    """How large the values of the user's requirements are."""
    if question.require is None:
        return np.zeros(0)
    values = _required(linkage, question.require, question.unit)
    each = np.asarray(jax.vmap(values)(shared[:, : linkage.size]))
    scale = np.median(np.where(np.isfinite(each), np.abs(each), np.inf), axis=0)
    return np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


def _required(linkage, require, unit):
    def values(u):
        return jnp.atleast_1d(jnp.asarray(require(linkage.unscaled(linkage.design(u), *unit)), float)).reshape(-1)

    return values
