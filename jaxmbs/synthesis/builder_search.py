"""The search of `fit` for the design of any mechanism: starts with their motions, least squares of all at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs import search
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.synthesis import common
from jaxmbs.synthesis.closing import close_loops

# Number of best starts of `fit` that continue to the end of the search, after the first phase.
BEST_STARTS = 128
# Number of attempts to close a start's configuration at time 0, of `closing.NEWTON_STEPS` steps each.
CLOSING_ATTEMPTS = 10
# Number of equal intervals of the period at whose ends the motions of random designs are computed in `fit`.
GRID_INTERVALS = 48
# Number of times of a period, besides those of the targets, at which mechanisms must assemble in the search of `fit`.
ASSEMBLY_CHECKS = 16
# A motion is cyclic if the measure changes by at most this over a period, in units of the targets' spread.
MAX_CYCLE_GAP = 1e-6


@dataclass(frozen=True, eq=False)
class BuilderProblem(search.LeastSquaresProblem):
    """Least squares of `fit`. Equal problems, which share a compiled program, have equal functions and options.

    The shared unknowns are the free numbers of the design, then the offset and the common time if they are free. There
    is a block for each target, whose own unknown is its time in periods if that is free, and for each checked time.

    Attributes:
        build: design ↦ mechanism.
        measure: (design, mechanism, q) ↦ values (d,).
        variables: the design and its bounds.
        target_times: (T,) times of the targets, or None if each is free.
        floating: True if a common time may be added to all target times, and their sense reversed.
        period: duration of the motion, from time 0 on.
        cyclic: True if the motion repeats after a period.
        offset: True if a constant may be added to the measure.
        target_count: T.
        size: unit of the measure.
        length: size of the mechanism, the unit of its lengths.
        least_singular_value: smallest singular value of Φ_q without a penalty.
        require: design ↦ values that must not be negative, or None.
    """

    build: Callable
    measure: Callable
    variables: search.Variables
    target_times: np.ndarray | None
    floating: bool
    period: float
    cyclic: bool
    offset: bool
    target_count: int
    size: float
    length: float
    least_singular_value: float
    require: Callable | None

    # Largest change of an unknown in one step: of a free number; of a time, in periods.
    max_step = 0.3

    @property
    def design_size(self) -> int:
        """Number of free numbers of the design."""
        return len(self.variables.start)

    @property
    def given_design(self) -> Any:
        """The first start as a tree of arrays."""
        return self.variables.unravel(jnp.asarray(self.variables.start))

    def requirement_values(self, design):
        """Return the values of `require` in a row, which is empty without it."""
        return jnp.zeros(0) if self.require is None else jnp.reshape(jnp.asarray(self.require(design), float), -1)

    def _identity(self) -> tuple:
        """Return the values by which problems are compared."""
        variables = self.variables
        numbers = tuple(np.concatenate([variables.start, variables.lower, variables.upper]))
        options = self.floating, self.period, self.cyclic, self.offset, self.target_count, self.size, self.length
        functions = self.build, self.measure, self.require
        return *functions, numbers, self.target_times is None, *options, self.least_singular_value

    def __hash__(self):
        return hash(self._identity())

    def __eq__(self, other):
        return isinstance(other, BuilderProblem) and self._identity() == other._identity()

    def residual_functions(self, data, inputs):
        """Return the residual of a target or checked time, the residual of `require`, and the blocks' data."""
        n, count, free_times = self.design_size, self.target_count, self.target_times is None
        targets, penalty = inputs
        weight = jnp.concatenate([jnp.ones(count), jnp.zeros(ASSEMBLY_CHECKS)])
        all_targets = jnp.concatenate([targets, jnp.zeros((ASSEMBLY_CHECKS, targets.shape[1]))])

        def residual(shared, own, q, block):
            """Return measure − target, loop gap and singularity of one block, and its closed configuration."""
            target, t, weight = block
            if free_times:
                t = t + weight * own[0] * self.period
            elif self.floating:
                t = t + weight * shared[-1] * self.period
            design = self.variables.design(shared[:n])
            mech = self.build(design)
            q, gap, singularity = close_loops(mech, q, t, self.length, self.least_singular_value)
            missed = self.measure(design, mech, q) - target
            if self.offset:
                missed = missed + self.size * shared[n : n + missed.shape[0]]
            rows = [weight * missed / self.size, search.PENALTY_START * gap, singularity]
            if free_times and not self.cyclic:
                outside = jnp.stack([-t, t - self.period]) / self.period
                rows.append(search.PENALTY_START * jnp.maximum(outside, 0))
            return jnp.concatenate(rows), q

        def prior(shared):
            """Return the penalties of values of `require` that are negative or barely positive."""
            if self.require is None:
                return 0 * shared[:1]
            values = self.requirement_values(self.variables.design(shared[:n]))
            return penalty * jnp.maximum(common.BOUND_MARGIN - values / scale, 0)

        # Required values count relative to those of the given design.
        size = jnp.abs(self.requirement_values(self.given_design))
        scale = jnp.where(size > 0, size, 1)
        return residual, prior, (all_targets, data, weight)


def _motions(problem: BuilderProblem, guess, times) -> Callable:
    """Return the compiled function free numbers u (S, n) ↦ configurations (S, G, n) and measures (S, G, d) at G times.

    Where a loop cannot close, the configuration stays as near to closed as possible, and the motion goes on.
    """

    def one_start(u, times):
        """Return the configurations (G, n) and measures (G, d) of one design at the times."""
        design = problem.variables.design(u)
        mech = problem.build(design)
        start = mech.coordinates(guess(design) if callable(guess) else guess)

        def step(q, t):
            """Close the loops at time t near the configuration q of the time before; return the result twice."""
            q = close_loops(mech, q, t, problem.length, problem.least_singular_value)[0]
            return q, q

        start, _ = jax.lax.scan(step, start, jnp.full(CLOSING_ATTEMPTS, times[0]))
        _, q = jax.lax.scan(step, start, times)
        return q, jax.lax.map(lambda q: problem.measure(design, mech, q), q)

    program = ProgramWithFallback(one_start)
    return jax.jit(lambda u: jax.vmap(program, in_axes=(0, None))(u, jnp.asarray(times)))


def search_designs(
    problem: BuilderProblem, targets, guess, options: search.SearchOptions, task
) -> search.MultistartCarry:
    """Return the carry after all phases; targets: (T, d); `guess` as for `fit`; `task` as for `descend`."""
    carry = _random_starts(problem, targets, guess, options.starts, options.rng)
    return search.descend(
        problem, carry, search.penalty_phases((targets,), BEST_STARTS), options, unit=problem.size, task=task
    )


def _random_starts(problem: BuilderProblem, targets, guess, starts: int, rng) -> search.MultistartCarry:
    """Return random designs, each with the configurations of its own motion that are nearest to the targets."""
    count = problem.target_count
    u = np.asarray(problem.variables.starts(rng, starts))
    grid = np.linspace(0, problem.period, GRID_INTERVALS + 1)
    q, measured = (np.asarray(x) for x in _motions(problem, guess, grid)(u))
    failed = ~np.all(np.isfinite(measured), axis=(1, 2))
    measured = np.where(failed[:, None, None], 0, measured)
    cycle_gap = np.abs(measured[:, -1] - measured[:, 0]).max(axis=1)
    if problem.cyclic and not np.any(cycle_gap < max(MAX_CYCLE_GAP, common.zero_tolerance()) * problem.size):
        warnings.warn("no start comes back to where it began after a period: is the motion cyclic?", stacklevel=4)
    begin, sense, at, periods = _best_times(problem, measured, targets)
    shift = (targets[None] - np.take_along_axis(measured, at[:, :, None], axis=1)).mean(axis=1)
    checked = np.linspace(0, GRID_INTERVALS, ASSEMBLY_CHECKS, endpoint=False).astype(int)
    rows = np.concatenate([at, np.broadcast_to(checked, (starts, ASSEMBLY_CHECKS))], axis=1)
    configurations = np.take_along_axis(q, rows[:, :, None], axis=1)
    if problem.target_times is not None:
        configurations[:, :count] += _turns_per_period(problem, q)[:, None] * periods[:, :, None]
    own_times = np.concatenate([grid[at], np.broadcast_to(grid[checked], (starts, ASSEMBLY_CHECKS))], axis=1)
    extra = [shift / problem.size] if problem.offset else []
    if problem.target_times is None:
        parts = own_times[:, :count] / problem.period
        own = np.concatenate([parts, np.zeros((starts, ASSEMBLY_CHECKS))], axis=1)[:, :, None]
        base_times = np.concatenate([np.zeros((starts, count)), own_times[:, count:]], axis=1)
    else:
        own = None
        base_times = np.concatenate([sense[:, None] * problem.target_times, own_times[:, count:]], axis=1)
        if problem.floating:
            extra.append(begin[:, None] / problem.period)
    shared = np.concatenate([u, *extra], axis=1)
    return search.MultistartCarry.at_start(shared, base_times, own, configurations)


def _turns_per_period(problem: BuilderProblem, q) -> np.ndarray:
    """Return by how much planar coordinates (S, n) grow in a period: whole turns of angles, in radians, else zero."""
    layout = problem.build(problem.given_design).layout
    if layout.n != layout.m:  # Euler parameters count no turns
        return np.zeros_like(q[:, 0])
    return 2 * np.pi * np.round((q[:, -1] - q[:, 0]) / (2 * np.pi)) * layout.angular


def _best_times(problem: BuilderProblem, measured, targets) -> tuple[np.ndarray, ...]:
    """Choose the times of the targets (T, d) on the grid at which each of S starts, `measured` (S, G, d), fits best.

    Returns:
        For each start the time at which it begins (S,), the sense ±1 (S,), the rows of the targets in the grid (S, T), and
        the number of whole periods to add to them (S, T).
    """
    count, intervals = problem.target_count, GRID_INTERVALS
    step = problem.period / intervals
    if problem.target_times is not None:
        rows = [np.rint(problem.target_times / step)]
        begins = range(intervals) if problem.floating else [0]
        senses = (1, -1) if problem.floating else (1,)
    else:
        # Even times over the whole motion or a part of it.
        last = intervals * (count - 1) / count if problem.cyclic else intervals
        rows = [np.rint(np.linspace(0, part * last, count)) for part in (1, 0.75, 0.5, 0.25)]
        begins, senses = range(intervals), (1, -1)
    choices = [(begin, sense, begin + sense * row) for row in rows for sense in senses for begin in begins]
    best = np.full(len(measured), np.inf)
    chosen = np.zeros(len(measured), int)
    places = []
    for k, (_, _, row) in enumerate(choices):
        inside = np.mod(row, intervals) if problem.cyclic else np.clip(row, 0, intervals)
        places.append(inside.astype(int))
        if not problem.cyclic and np.any(inside != row):
            continue
        missed = measured[:, places[-1]] - targets
        if problem.offset:
            missed = missed - missed.mean(axis=1, keepdims=True)
        cost = (missed**2).sum(axis=(1, 2))
        chosen, best = np.where(cost < best, k, chosen), np.minimum(cost, best)
    begin = np.array([choices[k][0] * step for k in chosen])
    sense = np.array([choices[k][1] for k in chosen], float)
    periods = np.array([np.floor_divide(row, intervals) if problem.cyclic else 0 * row for _, _, row in choices])
    return begin, sense, np.array(places)[chosen], periods[chosen]
