"""The search for the design of a mechanism of one's own: starts with their motions, least squares of all at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.function import Straight
from jaxmbs.search.bounds import Variables
from jaxmbs.search.multistart import PUSH, Problem, Search, State, descended, pushing_harder
from jaxmbs.synthesis import common
from jaxmbs.synthesis.closing import closed

# So many of the starts go on to the end.
BEST = 128
# Attempts, of three steps each, to bring the guess to a closed configuration.
MAX_SETTLING_ATTEMPTS = 10
# Times of the cycle at which starts are known, and at which a mechanism has to assemble while it changes.
GRID, GUARDS = 48, 16
# The measure of a motion that goes round comes back to within this part of the targets' spread.
RETURNS = 1e-6


@dataclass(frozen=True, eq=False)
class Question(Problem):
    """A question, as the search needs it. It is told apart by its functions and what shapes its program.

    Attributes:
        since: times of the targets (T,), or None where each has one of its own. floating: whether all of them may begin at
            any time, and go through the motion backwards as well.
        period: the length of the motion that is looked at, from time 0 on. cyclic: whether it goes on after that.
        targets: their number. size: the unit of the measure. length: that of the mechanism.
    """

    build: Callable
    measure: Callable
    variables: Variables
    since: np.ndarray | None
    floating: bool
    period: float
    cyclic: bool
    offset: bool
    targets: int
    size: float
    length: float
    least_singular_value: float
    require: Callable | None

    # No free number, and no part of a cycle, changes by more in a step.
    longest = 0.3

    @property
    def numbers(self) -> int:
        """How many free numbers the design has."""
        return len(self.variables.start)

    @property
    def given(self) -> Any:
        """The design with which the search begins, of arrays."""
        return self.variables.unravel(jnp.asarray(self.variables.start))

    def required(self, design):
        """The values that must not be negative, in a row."""
        return jnp.zeros(0) if self.require is None else jnp.reshape(jnp.asarray(self.require(design), float), -1)

    def _parts(self) -> tuple:
        numbers, rest = tuple(np.concatenate(self.variables[:3])), list(vars(self).values())[4:]
        return (self.build, self.measure, numbers, self.since is None, *rest)

    def __hash__(self):
        return hash(self._parts())

    def __eq__(self, other):
        return isinstance(other, Question) and self._parts() == other._parts()

    def rows(self, data, wanted):
        n, count, free = self.numbers, self.targets, self.since is None
        targets, push = wanted
        weight = jnp.concatenate([jnp.ones(count), jnp.zeros(GUARDS)])
        goal = jnp.concatenate([targets, jnp.zeros((GUARDS, targets.shape[1]))])

        def residual(shared, own, q, block):
            target, since, weight = block
            t = since
            if free:
                t = t + weight * own[0] * self.period
            elif self.floating:
                t = t + weight * shared[-1] * self.period
            design = self.variables.design(shared[:n])
            mech = self.build(design)
            q, gap, opening = closed(mech, q, t, self.length, self.least_singular_value)
            missed = self.measure(design, mech, q) - target
            if self.offset:
                missed = missed + self.size * shared[n : n + missed.shape[0]]
            rows = [weight * missed / self.size, PUSH * gap, opening]
            if free and not self.cyclic:
                outside = jnp.stack([-t, t - self.period]) / self.period
                rows.append(PUSH * jnp.maximum(outside, 0))
            return jnp.concatenate(rows), q

        def prior(shared):
            if self.require is None:
                return 0 * shared[:1]
            values = self.required(self.variables.design(shared[:n]))
            return push * jnp.maximum(common.INSIDE - values / scale, 0)

        # Values that are required to be positive count relative to what they are at the given design.
        size = jnp.abs(self.required(self.given))
        scale = jnp.where(size > 0, size, 1)
        return residual, prior, (goal, data, weight)


def _motions(question: Question, guess, times) -> Callable:
    """Free numbers u (S, n) ↦ the motions of designs: q (S, G, n), and the measure (S, G, d).

    Where a loop cannot close the configuration stays as near to it as it can be, and the motion goes on.
    """

    def of_one(u, times):
        design = question.variables.design(u)
        mech = question.build(design)
        start = mech.coordinates(guess(design) if callable(guess) else guess)

        def step(q, t):
            q = closed(mech, q, t, question.length, question.least_singular_value)[0]
            return q, q

        start, _ = jax.lax.scan(step, start, jnp.full(MAX_SETTLING_ATTEMPTS, times[0]))
        _, q = jax.lax.scan(step, start, times)
        return q, jax.lax.map(lambda q: question.measure(design, mech, q), q)

    program = Straight(of_one)
    return jax.jit(lambda u: jax.vmap(program, in_axes=(0, None))(u, jnp.asarray(times)))


def searched(question: Question, targets, guess, search: Search, task) -> State:
    """The state after the descent of all starts, and of the best of them to the end."""
    state = _started(question, targets, guess, search.starts, search.rng)
    return descended(question, state, pushing_harder((targets,), BEST), search, unit=question.size, task=task)


def _started(question: Question, targets, guess, starts: int, rng) -> State:
    """Random designs, each with the configurations of its own motion that suit the targets best."""
    u = np.asarray(question.variables.starts(rng, starts))
    grid = np.linspace(0, question.period, GRID + 1)
    q, seen = (np.asarray(x) for x in _motions(question, guess, grid)(u))
    bad = ~np.all(np.isfinite(seen), axis=(1, 2))
    seen = np.where(bad[:, None, None], 0, seen)
    away = np.abs(seen[:, -1] - seen[:, 0]).max(axis=1)
    if question.cyclic and not np.any(away < max(RETURNS, common.near_zero()) * question.size):
        warnings.warn("no start comes back to where it began after a period: is the motion cyclic?", stacklevel=4)
    begin, sense, at, turns = _best_times(question, seen, targets)
    shift = (targets[None] - np.take_along_axis(seen, at[:, :, None], axis=1)).mean(axis=1)
    guards = np.linspace(0, GRID, GUARDS, endpoint=False).astype(int)
    rows = np.concatenate([at, np.broadcast_to(guards, (starts, GUARDS))], axis=1)
    configurations = np.take_along_axis(q, rows[:, :, None], axis=1)
    if question.since is not None:
        whole = _whole_turns(question, q)[:, None] * turns[:, :, None]
        configurations[:, : question.targets] += whole
    own_times = np.concatenate([grid[at], np.broadcast_to(grid[guards], (starts, GUARDS))], axis=1)
    extra = [shift / question.size] if question.offset else []
    if question.since is None:
        parts = own_times[:, : question.targets] / question.period
        own = np.concatenate([parts, np.zeros((starts, GUARDS))], axis=1)[:, :, None]
        since = np.concatenate([np.zeros((starts, question.targets)), own_times[:, question.targets :]], axis=1)
    else:
        own = None
        since = np.concatenate([sense[:, None] * question.since, own_times[:, question.targets :]], axis=1)
        if question.floating:
            extra.append(begin[:, None] / question.period)
    shared = np.concatenate([u, *extra], axis=1)
    return State.begin(shared, since, own, configurations)


def _whole_turns(question: Question, q) -> np.ndarray:
    """By what configurations (S, n) of the plane are further after a period: angles, by whole turns."""
    layout = question.build(question.given).layout
    if layout.n != layout.m:  # Euler parameters count no turns
        return np.zeros_like(q[:, 0])
    return 2 * np.pi * np.round((q[:, -1] - q[:, 0]) / (2 * np.pi)) * layout.angular


def _best_times(question: Question, seen, targets) -> tuple[np.ndarray, ...]:
    """For each start the time at which it begins, the sense, the places (S, T) in the grid of the targets, and how many
    periods these are later."""
    count = question.targets
    step = question.period / GRID
    if question.since is not None:
        rows = [np.rint(question.since / step)]
        begins = range(GRID) if question.floating else [0]
        senses = (1, -1) if question.floating else (1,)
    else:
        # Evenly, over the whole motion or a part of it.
        last = GRID * (count - 1) / count if question.cyclic else GRID
        rows = [np.rint(np.linspace(0, part * last, count)) for part in (1, 0.75, 0.5, 0.25)]
        begins, senses = range(GRID), (1, -1)
    options = [(begin, sense, begin + sense * row) for row in rows for sense in senses for begin in begins]
    best = np.full(len(seen), np.inf)
    chosen = np.zeros(len(seen), int)
    places = []
    for k, (_, _, row) in enumerate(options):
        inside = np.mod(row, GRID) if question.cyclic else np.clip(row, 0, GRID)
        places.append(inside.astype(int))
        if not question.cyclic and np.any(inside != row):
            continue
        missed = seen[:, places[-1]] - targets
        if question.offset:
            missed = missed - missed.mean(axis=1, keepdims=True)
        cost = (missed**2).sum(axis=(1, 2))
        chosen, best = np.where(cost < best, k, chosen), np.minimum(cost, best)
    begin = np.array([options[k][0] * step for k in chosen])
    sense = np.array([options[k][1] for k in chosen], float)
    turns = np.array([np.floor_divide(option[2], GRID) if question.cyclic else 0 * option[2] for option in options])
    return begin, sense, np.array(places)[chosen], turns[chosen]
