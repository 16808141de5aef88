"""The search for a linkage that draws a path: random starts, least squares of all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.least_squares import START, levenberg_marquardt
from jaxmbs.programs.function import Straight
from jaxmbs.synthesis.common import finite
from jaxmbs.synthesis.linkages import Linkage
from jaxmbs.synthesis.stages import Part, in_stages

# Steps for all starts, then further ones for the best of them; AT_ONCE steps lie between two reports.
FIRST, FURTHER, BEST = 100, (300, 100, 100), 256
AT_ONCE = 25
# No angle, and no logarithm of a length, changes by more in a step.
LONGEST = 0.5
# How hard bounds push, in units of the targets' spread, at first and then more and more: where they cost much error they
# would not be kept otherwise. How far inside they do, as a part of the width.
PUSH, HARDER, INSIDE = 10.0, 10.0, 1e-3
# Crank angles at which a linkage is checked that has no closed form for a whole turn.
GUARDS = 24
# Random linkages made for each start of such a linkage; those that assemble are taken first.
RANDOM_LINKAGES_PER_START = 4


class Question(NamedTuple):
    """What is asked for, in units of the targets' spread about their centre.

    Attributes:
        goal (T, 2): the targets. timing (T,): how far the crank has turned, None where that is free.
        closed: whether the targets go all round. lower, upper: bounds of the numbers of a flat design.
        region: two corners of the pivots' box, or None. limit: of the cosines.
        require: the design in the user's units ↦ values that must not be negative; unit: (centre, spread).
    """

    goal: np.ndarray
    timing: np.ndarray | None
    closed: bool
    lower: np.ndarray
    upper: np.ndarray
    region: np.ndarray | None
    limit: float
    require: Callable | None
    unit: tuple[np.ndarray, float]


class Found(NamedTuple):
    """Candidates: free numbers, crank angles at the targets, signs of the branch, costs.

    u (K, n), angles (K, T), signs (K, s), cost (K,).
    """

    u: np.ndarray
    angles: np.ndarray
    signs: np.ndarray
    cost: np.ndarray


class Starts(NamedTuple):
    """Everything on which further steps depend, with a leading axis of starts."""

    shared: Any
    own: Any
    damping: Any
    cost: Any
    signs: Any
    since: Any


def searched(linkage: Linkage, question: Question, starts: int, seed: int, **stages) -> Found:
    """Candidates after the descent of all starts, and of the best of them to the end."""
    free = question.timing is None
    start = _started(linkage, question, starts, np.random.default_rng(seed))
    scale = _scale_of_requirements(linkage, question, start.shared)

    def advance(push: float, state: Starts, count: int) -> Starts:
        solve = _solver(linkage, free, count, question.require, question.region is not None)
        region = np.zeros((2, 2)) if question.region is None else question.region
        wanted = question.goal, question.lower, question.upper, region, question.limit, scale, question.unit, push
        fit = solve(state.shared, state.own, state.damping, state.signs, state.since, wanted)
        return Starts(fit.shared, fit.own, fit.damping, fit.cost, state.signs, state.since)

    def best(state: Starts) -> Starts:
        rows = np.argsort(finite(state.cost), kind="stable")[:BEST]
        chosen = jax.tree.map(lambda x: x[rows], state)
        return again(chosen)

    def again(state: Starts) -> Starts:
        return state._replace(damping=np.full(len(state.cost), START))

    pushes = [PUSH * HARDER**k for k in range(len(FURTHER))]
    parts = [Part(FIRST, AT_ONCE, partial(advance, PUSH)), Part(FURTHER[0], AT_ONCE, partial(advance, PUSH), best)]
    for steps, push in zip(FURTHER[1:], pushes[1:], strict=True):
        parts.append(Part(steps, AT_ONCE, partial(advance, push), again))
    error = lambda state: float(finite(state.cost).min() * question.unit[1] ** 2)
    state = in_stages(parts, start, best=error, **stages)
    u = state.shared[:, : linkage.size]
    count = len(question.goal)
    angles = state.own[:, :count, 0] if free else state.shared[:, linkage.size, None] + state.since[:, :count]
    return Found(u, angles, state.signs, finite(state.cost))


@partial(jax.jit, static_argnums=0)
def points_of(linkage, u, angles, signs):
    """Where the point is (T, 2), and the cosines between the links (T, c)."""
    design = linkage.design(u)
    return jax.vmap(lambda angle: linkage.seen(design, angle, signs))(angles)


def _guards(linkage: Linkage) -> np.ndarray:
    """Crank angles at which a linkage has to assemble."""
    closed_form = linkage.everywhere(linkage.design(jnp.zeros(linkage.size))) is not None
    return np.zeros(0) if closed_form else np.linspace(0, 2 * np.pi, GUARDS, endpoint=False)


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


def _started(linkage: Linkage, question: Question, starts: int, rng) -> Starts:
    """Random linkages, brought to the targets by a similarity of the plane each."""
    goal, timing = question.goal, question.timing
    u, signs = _offered(linkage, starts, rng)
    turn = rng.choice([-1.0, 1.0], starts)
    start = rng.uniform(0, 2 * np.pi, starts)
    if timing is None:
        angles = start[:, None] + turn[:, None] * _spread_angles(goal, question.closed, starts, rng)
    else:
        angles = start[:, None] + turn[:, None] * timing
    points, _ = jax.vmap(partial(points_of, linkage))(u, angles, signs)
    z, w = np.asarray(points) @ [1, 1j], goal @ [1, 1j]
    about = z - z.mean(axis=1, keepdims=True)
    factor = (about.conj() @ w) / np.maximum((np.abs(about) ** 2).sum(axis=1), 1e-300)
    factor = np.where(np.abs(factor) > 1e-6, factor, 1.0)
    shift = w.mean() - factor * z.mean(axis=1)
    u = linkage.placed(u, np.abs(factor), np.angle(factor), np.column_stack([shift.real, shift.imag]))
    guards = np.broadcast_to(_guards(linkage), (starts, len(_guards(linkage))))
    nothing, inf = np.full(starts, START), np.full(starts, np.inf)
    if timing is None:
        own = np.concatenate([angles, 0 * guards], axis=1)[:, :, None]
        return Starts(u, own, nothing, inf, signs, np.concatenate([0 * angles, guards], axis=1))
    # Guards count from where the crank starts as well: their angles are spread over the turn in any case.
    since = np.concatenate([turn[:, None] * timing, guards], axis=1)
    return Starts(np.column_stack([u, start]), np.zeros((*since.shape, 0)), nothing, inf, signs, since)


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


@lru_cache(maxsize=64)
def _solver(linkage: Linkage, free: bool, iterations: int, require: Callable | None, in_region: bool):
    """The search of all starts at once, in `iterations` steps."""
    guards = len(_guards(linkage))

    def of_one(shared, own, damping, signs, since, wanted):
        goal, lower, upper, region, limit, scale, unit, push = wanted
        weight = jnp.concatenate([jnp.ones(len(goal)), jnp.zeros(guards)])
        targets = jnp.concatenate([goal, jnp.zeros((guards, 2))])

        def residual(shared, own, state, data):
            target, since, weight = data
            angle = since + (weight * own[0] if free else shared[linkage.size])
            point, cosines = linkage.seen(linkage.design(shared[: linkage.size]), angle, signs)
            missed = weight * (point - target)
            if guards:
                # Steep where links are about to open, and flat where they are far apart.
                open_by = jnp.maximum(jnp.abs(cosines) - limit, 0) / (1 - limit)
                missed = jnp.concatenate([missed, push / PUSH * jnp.log1p(open_by)])
            return missed, state

        def prior(shared):
            u = shared[: linkage.size]
            design = linkage.design(u)
            flat, width = linkage.flat(design), jnp.minimum(upper - lower, 1)
            beyond = [flat - upper + INSIDE * width, lower + INSIDE * width - flat]
            if not guards:
                beyond.append(jnp.abs(jnp.asarray(linkage.everywhere(design))) - limit + INSIDE * (1 - limit))
            if in_region:
                width = jnp.minimum(region[1] - region[0], 1)
                for pivot in linkage.pivots(design):
                    beyond += [pivot - region[1] + INSIDE * width, region[0] + INSIDE * width - pivot]
            if require is not None:
                beyond.append(INSIDE - _required(linkage, require, unit)(u) / scale)
            return push * jnp.maximum(jnp.concatenate(beyond), 0)

        data = (targets, since, weight)
        return levenberg_marquardt(
            *(residual, prior, shared, own, (), data), iterations=iterations, longest=LONGEST, damping=damping
        )

    return jax.jit(jax.vmap(Straight(of_one), in_axes=(0, 0, 0, 0, 0, None)))
