"""Search for a root of f(q) = 0 from a rough guess.

One sample, with control flow that `vmap` turns into a batch: every sample takes its own decisions, and a sample that has
ended waits, unchanged, for the others. Nothing here is differentiated; see `implicit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.numerics.arrays import where_tree
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.scaling import Units, gap_limit, max_norm, unit_of_length
from jaxmbs.numerics.space import Space
from jaxmbs.programs import as_variables

# Number of trials of `find_root` in one attempt.
TRIALS_PER_ATTEMPT = 40
# Largest number of attempts of `find_root`: the first begins at the guess, each further one at a displacement of it.
MAX_ATTEMPTS = 5
# Weight r of ‖f‖² against ‖q − guess‖² in the first step of `find_root`.
FIRST_WEIGHT = 10.0
# Factor on the weight r of `find_root` after each accepted step.
WEIGHT_GROWTH = 10
# Factor on the weight r of `find_root` after each accepted step once the gap is below `SMALL_GAP`, so that the last
# steps are Newton's.
FINAL_WEIGHT_GROWTH = 1e4
# Largest gap, in units of the mechanism, at which the weight r of `find_root` grows by `FINAL_WEIGHT_GROWTH`.
SMALL_GAP = 1e-3
# Upper limit on the weight r of the squared residuals in `find_root`.
MAX_WEIGHT = 1e30
# Levenberg–Marquardt damping of `find_root` after the first rejected step, relative to the metric of displacements.
FIRST_DAMPING = 1e-3
# Damping of `find_root` below this, relative to the metric of displacements, is set to zero.
MIN_DAMPING = 1e-6
# A trial with a gap below this, in units of the mechanism, is better if its gap is smaller: its merit is lost in rounding.
MAX_ROUNDED_GAP = 1e-6
# Number of trials that `find_root` still makes after the gap is as small as rounding.
POLISHING_STEPS = 2
# Number of trials that `find_root` still makes after the gap has fallen below the tolerance. Gaps that these do not
# reduce to rounding belong to constraints that contradict each other.
FITTING_STEPS = 20
# Largest change of a coordinate in one step of `find_root`, in radians and sizes of the mechanism, times the scaled gap
# if that is larger than 1. Wheels may have to turn many times, but a step much longer than the gaps leads to a root far
# from the guess.
MAX_STEP = 10.0
# Distance of the k-th new attempt of `find_root` from the guess, divided by k, in radians and sizes of the mechanism.
DISPLACEMENT = 0.4
# Largest second-order correction of a step of `find_root`, relative to the step; with a larger one the step is not
# corrected.
MAX_BEND = 0.75


class Root(NamedTuple):
    """The result of `find_root`.

    Attributes:
        q: the configuration.
        found: True if it is a root.
        exact: True if the guess itself is a root to rounding; then `q` is the guess.
        units: the units in which gaps are measured.
    """

    q: Float[Array, " n"]
    found: Bool[Array, ""]
    exact: Bool[Array, ""]
    units: Units


class _SearchCarry(NamedTuple):
    """The carry of the loop over trials. Points are displacements from the guess.

    Attributes:
        trial: the next point.
        fresh: True if the trial begins a new attempt.
        x: the best point of the present attempt, with the scaled `value` and `matrix` of f and its `gap`.
        reach: unit of displacements from which an attempt begins.
        rows: units of the rows of f.
        metric: weights of the squared displacement.
        weight: r.
        damping: damping of the next trial.
        iteration: number of trials in this attempt.
        attempt: number of attempts before this one.
        best: the point with the smallest gap of all attempts, `best_gap`.
        polished: number of trials after the gap has fallen to rounding.
        fitted: number of trials after the gap has fallen below the tolerance.
        rounds: number of all trials.
    """

    trial: Float[Array, " m"]
    fresh: Bool[Array, ""]
    x: Float[Array, " m"]
    value: Float[Array, " rows"]
    matrix: Float[Array, "rows m"]
    gap: Float[Array, ""]
    reach: Float[Array, ""]
    rows: Float[Array, " rows"]
    metric: Float[Array, " m"]
    weight: Float[Array, ""]
    damping: Float[Array, ""]
    iteration: Int[Array, ""]
    attempt: Int[Array, ""]
    best: Float[Array, " m"]
    best_gap: Float[Array, ""]
    polished: Int[Array, ""]
    fitted: Int[Array, ""]
    rounds: Int[Array, ""]


def find_root(
    f: Callable[[Array], Array],
    space: Space,
    guess: Float[Array, " n"],
    length: Float[Array, ""],
    tolerance: float,
    *,
    scaled: bool = False,
) -> Root:
    """Find a root of f(q) = 0 close to a guess by minimising ‖q − guess‖² + r ‖f(q)‖² for growing r, Haug (3.6.9).

    Levenberg–Marquardt on the two sums of squares; r grows tenfold with every accepted step, and faster near the root,
    so that the last steps are Newton's. The unknowns are the displacement x from the guess, q = guess ⊕ x. A search that
    stalls starts again from a displacement of the guess, the same in every run: some guesses are saddle points (all bodies
    in one line, say).

    Args:
        f: function of q that returns any number of rows; redundant and missing rows are allowed.
        space: the space of q.
        guess: (n,).
        length: size of the mechanism, to which rows and coordinates are scaled.
        tolerance: largest gap of a root, relative to `length`; or the rounding error at the guess if that is larger.
        scaled: True if the rows of f are in units of gaps already; otherwise f is scaled by its derivatives.

    Returns:
        The point with the smallest gap; see `Root`.
    """
    finder = _Finder(f, space, guess, length, tolerance, scaled)
    search = jax.lax.while_loop(finder.is_unfinished, finder.step, finder.start())
    exact = finder.is_exact(search)
    q = jnp.where(exact, guess, space.retract(guess, search.best))
    return Root(q, search.best_gap <= finder.limit, exact, finder.units)


class _Finder:
    """The steps of `find_root`, whose arguments it takes. The unknowns are displacements from the guess."""

    def __init__(
        self, f: Callable[[Array], Array], space: Space, guess: Array, length: Array, tolerance: float, scaled: bool
    ) -> None:
        self.scaled = scaled
        self.n, self.dtype, self.units = space.m, guess.dtype, Units(space.angular, length)
        self.f = lambda x: f(space.retract(guess, x))
        self.origin = space.extent(guess)
        far = jnp.maximum(1, self.units.size(self.origin))
        self.rounding = gap_limit(self.dtype, 0.0) * far
        self.limit = jnp.maximum(tolerance, self.rounding)
        # Redundant constraints that contradict each other leave squared misfits in the normal matrix. The shift keeps them
        # from causing large steps.
        self.least_shift = max(8 * self.n * float(jnp.finfo(self.dtype).eps), 100 * tolerance**2)

    def start(self) -> _SearchCarry:
        """Return the carry before the first trial, which is the guess itself."""
        dtype, n, still = self.dtype, self.n, jnp.zeros(self.n, self.dtype)
        rows = jax.eval_shape(self.f, still).shape[0]
        infinite, zero = as_variables((jnp.asarray(jnp.inf, dtype), jnp.zeros((), int)))
        still, one, ones = as_variables((still, jnp.ones((), dtype), jnp.ones(n, dtype)))
        return _SearchCarry(
            trial=still,
            fresh=as_variables(jnp.asarray(True)),
            x=still,
            value=as_variables(jnp.zeros(rows, dtype)),
            matrix=jnp.zeros((rows, n), dtype),
            gap=infinite,
            reach=one,
            rows=jnp.ones(rows, dtype) if self.scaled else as_variables(jnp.ones(rows, dtype)),
            metric=ones,
            weight=one,
            damping=as_variables(jnp.zeros((), dtype)),
            iteration=zero,
            attempt=zero,
            best=still,
            best_gap=infinite,
            polished=zero,
            fitted=zero,
            rounds=jnp.zeros((), int),
        )

    def is_unfinished(self, search: _SearchCarry) -> Bool[Array, ""]:
        """Return True if another trial is needed: the root is not found or not polished, and trials are left."""
        polishing = (search.polished < POLISHING_STEPS) & (search.fitted < FITTING_STEPS)
        unfinished = jnp.where(search.best_gap > self.limit, search.attempt < MAX_ATTEMPTS, polishing)
        return (search.rounds < MAX_ATTEMPTS * TRIALS_PER_ATTEMPT + FITTING_STEPS) & unfinished & ~self.is_exact(search)

    def is_exact(self, search: _SearchCarry) -> Bool[Array, ""]:
        """Return True if the first point, the guess itself, is a root to rounding."""
        return (search.rounds == 1) & (search.best_gap <= self.rounding)

    def step(self, search: _SearchCarry) -> _SearchCarry:
        """Return the carry after the evaluation of a trial."""
        judged = self._better_point(search)
        closer = judged.gap < search.best_gap
        stalled = (search.iteration + 1 >= TRIALS_PER_ATTEMPT) & (search.best_gap > self.limit)
        attempt = search.attempt + stalled
        # Sines of multiples of the golden angle: displacements without symmetry, the same in every run.
        directions = jnp.sin(2.399963 * jnp.arange(1, self.n + 1, dtype=self.dtype) * (attempt + 1))
        displaced = DISPLACEMENT * (Units(self.units.angular, judged.reach).vector * directions * attempt)
        return judged._replace(
            trial=jnp.where(stalled, displaced, self._next_trial(judged)),
            fresh=stalled,
            iteration=jnp.where(stalled, 0, search.iteration + 1),
            attempt=attempt,
            best=jnp.where(closer, judged.x, search.best),
            best_gap=jnp.where(closer, judged.gap, search.best_gap),
            polished=search.polished + (search.best_gap <= self.rounding),
            fitted=search.fitted + (search.best_gap <= self.limit),
            rounds=search.rounds + 1,
        )

    def _better_point(self, search: _SearchCarry) -> _SearchCarry:
        """Return the better of the trial and the point before it, with weight and damping for the next trial."""
        trial, fresh, units = search.trial, search.fresh, self.units
        value, matrix = self.f(trial), jax.jacfwd(self.f)(trial)
        gap = jnp.max(jnp.abs(value), initial=0) if self.scaled else units.gap(matrix, value)
        extent = self.origin + trial
        reach = jnp.where(fresh, unit_of_length(matrix, extent, units.angular), search.reach)
        rows = search.rows if self.scaled else jnp.where(fresh, units.rows(matrix), search.rows)
        value, matrix = value / rows, matrix / rows[:, None]

        # The squared change of f by each coordinate makes lengths and angles comparable, in any system of units.
        size, unit = jnp.sum(matrix**2, axis=0), units.vector
        size = jnp.maximum(size, (1e-6 * jnp.max(size * unit**2) + jnp.finfo(self.dtype).tiny) / unit**2)
        metric = jnp.where(fresh & jnp.all(jnp.isfinite(size)), size, search.metric)

        # Near the root a decrease of the merit is lost in rounding, and a smaller gap is as good.
        merit = lambda x, value: value @ value + metric @ x**2 / search.weight
        better = merit(trial, value) <= merit(search.x, search.value)
        better = (
            (better | (gap < jnp.minimum(search.gap, MAX_ROUNDED_GAP)))
            & jnp.all(jnp.isfinite(matrix))
            & jnp.isfinite(gap)
        )
        better = better | fresh
        growth = jnp.where(gap < SMALL_GAP, jnp.asarray(FINAL_WEIGHT_GROWTH, self.dtype), WEIGHT_GROWTH)
        weight = jnp.where(better, jnp.minimum(growth * search.weight, MAX_WEIGHT), search.weight)
        damping = jnp.where(better, search.damping / 10, jnp.maximum(10 * search.damping, FIRST_DAMPING))
        x, value, matrix, gap = where_tree(
            better, (trial, value, matrix, gap), (search.x, search.value, search.matrix, search.gap)
        )
        return search._replace(
            x=x,
            value=value,
            matrix=matrix,
            gap=gap,
            reach=reach,
            rows=rows,
            metric=metric,
            weight=jnp.where(fresh, FIRST_WEIGHT, weight),
            damping=jnp.where(fresh | (damping < MIN_DAMPING), 0, damping),
        )

    def _next_trial(self, search: _SearchCarry) -> Float[Array, " m"]:
        """Return the next trial (m,) from the best point of the attempt."""
        matrix, metric, weight = search.matrix, search.metric, search.weight
        # The shift covers the rounding of the normal matrix, or a rank-deficient one has no factor.
        shift = (1 / weight + search.damping + self.least_shift) * metric
        gradient = matrix.T @ search.value + metric * search.x / weight
        solve = factor_symmetric_positive(matrix.T @ matrix + jnp.diag(shift)).solve
        change = -solve(gradient)
        # Geodesic acceleration (Transtrum & Sethna 2012): the valleys of linkages are curved, because bodies turn.
        bend = jax.jvp(lambda x: jax.jvp(self.f, (x,), (change,))[1], (search.x,), (change,))[1]
        curve = -solve(matrix.T @ bend) / 2
        change = change + jnp.where(max_norm(curve) <= MAX_BEND * max_norm(change), curve, 0)
        longest = MAX_STEP * jnp.maximum(1, search.gap)
        return search.x + change / jnp.maximum(1, self.units.size(change) / longest)
