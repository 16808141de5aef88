"""Continuation of a root of f(q, t) = 0 as t changes, with its velocity and acceleration.

One sample, with control flow that `vmap` turns into a batch: every sample takes its own decisions, and a sample that has
arrived at a time waits, unchanged, for the others. Nothing here is differentiated; see `implicit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.numerics.arrays import where_tree
from jaxmbs.numerics.implicit import jacobian, rates_at_root
from jaxmbs.numerics.linear_algebra import Factored, factor
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, gap_limit
from jaxmbs.numerics.space import Space
from jaxmbs.programs import as_variables

# f_q counts as singular if its reciprocal condition number is below the rounding unit to this power: a position that is
# known to rounding in f is known to half of the digits at most then.
SINGULAR_POWER = 0.5
# A step is resolved if predictor and corrector, forwards and backwards, differ by at most this fraction of the distance
# moved, or of `MAX_TEST_DISTANCE` if that is less. A step that is not accepted is tried again with a quarter of its
# length, away from singular positions.
MAX_PREDICTION_ERROR = 0.3
# Upper limit on the distance moved in the test with `MAX_PREDICTION_ERROR`, in radians and sizes of the mechanism. Near
# a fold, a step that is too long may predict a position many turns away, and relative to that distance every root would
# be near.
MAX_TEST_DISTANCE = 1.0
# Largest prediction error of a step across a change of sign of det f_q, in place of `MAX_PREDICTION_ERROR`: the
# rounding unit to this power (2e-5 in float64). If two branches pass each other at a distance w, a step h from one to
# the other has an error of (w/h)².
CROSSING_ERROR_POWER = 0.3
# Shortest step of the march, divided by the interval between two times: the rounding unit to this power (3e-7 in
# float64). The motion ends if a step would have to be shorter.
MIN_STEP_POWER = 0.42

# Longest step from a regular to a singular position, relative to the interval: this many times the fourth root of the
# rounding unit (3.7e-3 in float64). The singular position, its velocity and acceleration are extrapolated from the last
# regular position at a distance h. The velocity has errors of the order of h², and of eps / h² because of rounding.
SINGULAR_STEP_ROOTS = 30.0
# Fraction of the way to a singular position that one step takes if the whole way is longer than that.
SINGULAR_APPROACH = 0.875

# Fraction of the estimated way to a fold that one step takes. From 0.65 on the error of the backward prediction is too
# large.
FOLD_APPROACH = 0.55
# A step towards a fold is never shorter than the present upper limit on the step divided by this.
MAX_STEP_REDUCTION = 32
# Steps of up to this many times the shortest step count as tiny: they may cross a singular position or a kink.
TINY_STEPS = 16
# A fold is close, and the motion locks up there, if the velocity would grow by this factor within an interval between
# two times.
MAX_VELOCITY_GROWTH = 1e2
# Single precision: the factor of `MAX_VELOCITY_GROWTH` is at most this divided by the shortest step relative to the
# interval.
MAX_VELOCITY_GROWTH_BY_SHORTEST_STEP = 0.06


class Path(NamedTuple):
    """The result of `follow_root`, one row per time; rows after the end of the motion repeat the last good one.

    Attributes:
        q: (T, n), positions.
        v: (T, m), velocities.
        a: (T, m), accelerations.
        status: (T,), see `Status`.
        last_time: time of the last accepted step, which may lie between two times.
        last_q: (n,), position there.
    """

    q: Float[Array, "T n"]
    v: Float[Array, "T m"]
    a: Float[Array, "T m"]
    status: Int[Array, " T"]
    last_time: Float[Array, ""]
    last_q: Float[Array, " n"]


class _MotionState(NamedTuple):
    """The state of the motion.

    Attributes:
        side: sign of det f_q, or f_q itself if it has more rows than columns; zero if f_q is singular.
    """

    t: Float[Array, ""]
    q: Float[Array, " n"]
    v: Float[Array, " m"]
    a: Float[Array, " m"]
    side: Float[Array, "..."]


class _CorrectedPoint(NamedTuple):
    """A corrected position: the state there, and True if it has converged, if f_q is singular, if all is finite."""

    state: _MotionState
    converged: Bool[Array, ""]
    singular: Bool[Array, ""]
    finite: Bool[Array, ""]


class _MarchCarry(NamedTuple):
    """The carry of the loop over steps.

    Attributes:
        state: the present state of the motion.
        finite: True if the last rejected step had finite numbers only.
        fresh: True before the first step.
        branched: True once the motion has left a singular position along the requested branch.
        largest_step: upper limit on the next step.
        steps: number of trial steps.
        ended: status with which the motion has ended; CONVERGED while it goes on.
        recorded: q, v and a at the last time reached.
        code: status there.
        reached: True if the next time has been reached.
    """

    state: _MotionState
    finite: Bool[Array, ""]
    fresh: Bool[Array, ""]
    branched: Bool[Array, ""]
    largest_step: Float[Array, ""]
    steps: Int[Array, ""]
    ended: Int[Array, ""]
    recorded: tuple[Array, Array, Array]
    code: Int[Array, ""]
    reached: Bool[Array, ""]


def follow_root(
    f: Callable[[Array, Array], Array],
    space: Space,
    times: Float[Array, " T"],
    start: Float[Array, " n"],
    started: Bool[Array, ""],
    units: Units,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    start_time: Float[Array, ""] | None = None,
    branch: Callable[[Array, Array], Array] | None = None,
    corrections: int = 4,
    max_steps: int | None = None,
    scaled: bool = False,
) -> Path:
    """Follow the root `start` of f(q, start_time) = 0 through `times`, with its velocity and acceleration.

    Every step predicts by Haug (3.6.13), q ⊕ (h v + h²/2 a), and corrects by up to `corrections` Newton steps and a last
    one. A step is accepted only if it is resolved: converged, and close to its prediction forwards and backwards; very
    close if det f_q changes sign across it. An unresolved step is tried again shorter. So a motion never jumps across a
    gap or to another branch between two times; it locks up instead. If the steps become too short, the motion ends:
    NON_FINITE if f or its rates are not finite, LOCKED_UP if the velocity grows without bound, else NOT_CONVERGED. It goes
    straight on through a bifurcation, where the motion is smooth although the determinant changes sign. If f_q is singular
    at one of the times, although q is a root, the status is SINGULAR, with the velocity and acceleration extrapolated.

    Args:
        f: function of (q, t) that returns (rows,).
        space: the space of q.
        times: (T,), in any order.
        start: (n,), the root at start_time.
        started: False if `start` is not a root; all times then have the status NOT_ASSEMBLED.
        units: units of the coordinates.
        tolerance: largest gap of rows of f that contradict each other, relative to `units.length`.
        start_time: the first of the times unless given.
        branch: the function (q, t) ↦ (m,) of the velocity with which the motion leaves the first singular time.
        corrections: largest number of Newton steps before the last one.
        max_steps: largest number of trial steps, 200 + 8 T by default.
        scaled: True if the rows of f are in units of gaps already; otherwise gaps are scaled by its derivatives.

    Returns:
        A `Path`.
    """
    count, dtype = times.shape[0], start.dtype
    budget = 200 + 8 * count if max_steps is None else max_steps
    stepper = _Stepper(f, space, units, dtype, tolerance, corrections, scaled)
    start_time = times[0] if start_time is None else start_time

    def to_next_time(
        carry: tuple[Array, _MarchCarry], target: Array
    ) -> tuple[tuple[Array, _MarchCarry], tuple[Array, ...]]:
        """March from one time to the next; return (new time, carry) and the row of the result there."""
        before, march = carry
        interval = jnp.abs(target - before)
        march = march._replace(reached=as_variables(jnp.asarray(False)))

        def is_unfinished(carry: tuple[int, _MarchCarry]) -> Array:
            """Return True if the next time is not reached, the motion goes on, and steps are left."""
            tries, march = carry
            return (tries < budget + 1) & ~march.reached & (march.ended == Status.CONVERGED)

        def step(carry: tuple[int, _MarchCarry]) -> tuple[int, _MarchCarry]:
            """Take one trial step towards the next time, and count it."""
            tries, march = carry
            return tries + 1, stepper.advance(march, target, interval, budget)

        _, march = jax.lax.while_loop(is_unfinished, step, (0, march))
        code = jnp.where(march.reached, march.code, march.ended)
        if branch is not None:
            march = stepper.on_branch(march, branch)
        return (target, march), (*march.recorded, code)

    still, finite = as_variables(jnp.zeros(space.m, dtype)), jnp.all(jnp.isfinite(f(start, times[0])))
    unassembled = jnp.where(finite, int(Status.NOT_ASSEMBLED), int(Status.NON_FINITE))
    # The first step has no length: it polishes the start and gives it its velocity and acceleration.
    march = _MarchCarry(
        state=_MotionState(start_time, start, still, still, stepper.no_side(start, start_time)),
        finite=finite,
        fresh=as_variables(jnp.asarray(True)),
        branched=jnp.asarray(False),
        largest_step=as_variables(jnp.asarray(jnp.inf, dtype)),
        steps=as_variables(jnp.zeros((), int)),
        ended=jnp.where(started, int(Status.CONVERGED), unassembled),
        recorded=(start, still, still),
        code=as_variables(jnp.zeros((), int)),
        reached=as_variables(jnp.asarray(False)),
    )
    (_, march), (q, v, a, status) = jax.lax.scan(to_next_time, (start_time, march), times)
    return Path(q, v, a, status, march.state.t, march.state.q)


def correct_root(
    f: Callable[[Array, Array], Array],
    space: Space,
    t: Float[Array, ""],
    estimate: Float[Array, " n"],
    units: Units,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    corrections: int = 8,
    scaled: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Return a root of f(q, t) = 0 near an estimate, with velocity, acceleration and status, by a few Newton steps.

    The arguments are those of `follow_root`. The status is SINGULAR if f_q is singular; velocity and acceleration are then
    zero. It is NOT_ASSEMBLED if the steps do not converge, and NON_FINITE if a number is not finite.
    """
    stepper = _Stepper(f, space, units, estimate.dtype, tolerance, corrections, scaled)
    still = jnp.zeros(space.m, estimate.dtype)
    state, converged, singular, finite = stepper.correct(estimate, t, still, still)
    status = jnp.where(singular, int(Status.SINGULAR), int(Status.CONVERGED))
    status = jnp.where(converged, status, jnp.where(finite, int(Status.NOT_ASSEMBLED), int(Status.NON_FINITE)))
    return state.q, state.v, state.a, status


class _Stepper:
    """The trial steps of `follow_root`, whose arguments it takes: prediction, correction, acceptance test and step size.

    In its methods `interval` is the time between the two output times on both sides of the step, positive.
    """

    def __init__(
        self,
        f: Callable[[Array, Array], Array],
        space: Space,
        units: Units,
        dtype: DTypeLike,
        tolerance: float,
        corrections: int,
        scaled: bool,
    ) -> None:
        eps = float(jnp.finfo(dtype).eps)
        self.scaled = scaled
        self.f, self.space, self.units, self.dtype, self.corrections = f, space, units, dtype, corrections
        self.tolerance, self.rounding, self.crossing_error = tolerance, gap_limit(dtype, 0.0), eps**CROSSING_ERROR_POWER
        self.singular, self.shortest = eps**SINGULAR_POWER, eps**MIN_STEP_POWER
        self.longest_to_singular = SINGULAR_STEP_ROOTS * eps**0.25
        # A step smaller than this leaves an error beyond the last digit, because each one squares the error.
        self.corrected = eps**SINGULAR_POWER

    def factor(self, matrix: Array) -> Factored:
        """Return the factors of f_q."""
        return factor(matrix, determined=True, unit=self.units.vector if self.scaled else None)

    def newton(self, q: Array, t: Array) -> Array:
        """Return q after Newton steps at the time t, Haug (3.6.7), until one is so small that the next changes nothing."""
        size = self.units.size

        def is_unfinished(carry: tuple[int, Array, Array]) -> Array:
            """Return True if Newton steps are left and the last one was not yet negligible."""
            count, _, change = carry
            return (count < self.corrections) & ~(change <= self.corrected)

        def step(carry: tuple[int, Array, Array]) -> tuple[int, Array, Array]:
            """Take one Newton step; carry: (count, q, size of the last step)."""
            count, q, _ = carry
            factors = self.factor(jacobian(self.f, self.space, q, t))
            change = jnp.where(factors.rcond > self.singular, factors.solve(self.f(q, t)), 0)
            return count + 1, self.space.retract(q, -change), size(change)

        return jax.lax.while_loop(is_unfinished, step, (0, q, as_variables(jnp.asarray(jnp.inf, q.dtype))))[1]

    def correct(self, q: Array, t: Array, carried_v: Array, carried_a: Array) -> _CorrectedPoint:
        """Return the predicted position q at the time t after Newton steps, with its velocity and acceleration.

        If f_q is singular, these are the extrapolated `carried_v` and `carried_a`.
        """
        f, space = self.f, self.space
        q = self.newton(q, t)
        # The residual of the test also gives the last correction of q.
        value, matrix = f(q, t), jacobian(f, space, q, t)
        factors = self.factor(matrix)
        regular = factors.rcond > self.singular
        gap = jnp.max(jnp.abs(value), initial=0) if self.scaled else self.units.gap(matrix, value)
        # Redundant rows are left out here, not fitted in the sense of least squares. So one of the dependent rows has the
        # whole misfit.
        allowed = self.tolerance * value.shape[0]
        limit = jnp.maximum(allowed, self.rounding * jnp.maximum(1, self.units.size(space.extent(q))))
        last = jnp.where(regular, factors.solve(value), 0)
        closed = (gap <= limit) & (self.units.size(last) <= self.corrected)
        q = space.retract(q, -last)
        v, a = rates_at_root(f, space, factors, q, t)
        v, a = jnp.where(regular, v, carried_v), jnp.where(regular, a, carried_a)
        finite = jnp.isfinite(gap) & jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(v)) & jnp.all(jnp.isfinite(a))
        side = jnp.where(regular, matrix if matrix.shape[0] > matrix.shape[1] else factors.sign, 0)
        return _CorrectedPoint(_MotionState(t, q, v, a, side), finite & closed, ~regular, finite)

    def no_side(self, q: Array, t: Array) -> Array:
        """Return a `side` of zeros, which marks a position where f_q is singular."""
        rows = jax.eval_shape(self.f, q, t).shape[0]
        # Zeros of the matrix stay zeros.
        square = rows <= self.space.m
        return as_variables(jnp.zeros((), self.dtype)) if square else jnp.zeros((rows, self.space.m), self.dtype)

    @staticmethod
    def has_crossed(before: Array, after: Array) -> Array:
        """Return True if f_q was singular an odd number of times between two positions with these values of `side`."""
        if not after.ndim:
            return before * after < 0
        # det(AᵀB) is the sum of the products of all determinants of n rows of A and B (Cauchy and Binet): those of rows
        # that depend on others in the same way all change their sign together.
        return factor(before.T @ after).sign < 0

    def diverges(self, state: _MotionState, interval: Array) -> Array:
        """Return True if a fold is close: the velocity would grow a hundredfold within an interval, fiftyfold in float32.

        A march that ends at a fold has come to within a few of its shortest steps.
        """
        growth = min(MAX_VELOCITY_GROWTH, MAX_VELOCITY_GROWTH_BY_SHORTEST_STEP / self.shortest)
        return self.units.size(state.a) * interval > growth * self.units.size(state.v)

    def attempt(self, state: _MotionState, t: Array, interval: Array) -> tuple[_CorrectedPoint, Array]:
        """Return the corrected point one step from `state`, at time t, and True if the step there is resolved."""
        size, space = self.units.size, self.space
        h = t - state.t
        predicted = space.retract(state.q, h * state.v + h**2 / 2 * state.a)
        point = self.correct(predicted, t, state.v + h * state.a, state.a)
        new = point.state
        back = space.retract(new.q, -h * new.v + h**2 / 2 * new.a)
        moved_by_v = jnp.abs(h) * jnp.maximum(size(state.v), size(new.v))
        moved_by_a = h**2 / 2 * jnp.maximum(size(state.a), size(new.a))
        moved = jnp.maximum(moved_by_v, moved_by_a)
        error = jnp.maximum(size(space.difference(predicted, new.q)), size(space.difference(state.q, back)))
        error = error - self.rounding * (1 + size(space.extent(new.q)))
        resolved = point.converged & (error <= MAX_PREDICTION_ERROR * jnp.minimum(moved, MAX_TEST_DISTANCE))
        crossed = self.has_crossed(state.side, new.side)
        tiny = jnp.abs(h) <= TINY_STEPS * self.shortest * interval
        straight = (error <= self.crossing_error * moved) | tiny
        # At a kink of f (the curvature of an outline jumps), v jumps although q is continuous, in steps of any length. A
        # fold is similar, except that its velocity grows without bound.
        kink = point.converged & ~crossed & tiny & ~self.diverges(state, interval) & ~self.diverges(new, interval)
        kink = kink & (size(space.difference(state.q, new.q)) <= 2 * moved_by_v)
        return point, (resolved & (~crossed | straight)) | kink

    def step_size(self, state: _MotionState, largest_step: Array) -> Array:
        """Return the length of the next step; |v| grows as d^(−1/2) at a distance d from a fold: d = |v| / 2|a|."""
        fold = FOLD_APPROACH * self.units.size(state.v) / (2 * self.units.size(state.a) + jnp.finfo(self.dtype).tiny)
        size = jnp.minimum(jnp.maximum(fold, largest_step / MAX_STEP_REDUCTION), largest_step)
        return jnp.where(jnp.isfinite(largest_step), size, jnp.inf)

    @staticmethod
    def on_branch(march: _MarchCarry, branch: Callable[[Array, Array], Array]) -> _MarchCarry:
        """Return the march with `branch` as its velocity, if it has just reached its first singular time."""
        leaves = march.reached & (march.code == Status.SINGULAR) & ~march.branched
        state = march.state
        state = state._replace(v=jnp.where(leaves, branch(state.q, state.t), state.v), a=jnp.where(leaves, 0, state.a))
        return march._replace(state=state, branched=march.branched | leaves)

    def advance(self, march: _MarchCarry, target: Array, interval: Array, budget: int) -> _MarchCarry:
        """Return the march after one trial step towards the output time `target`; `budget` limits the number of steps."""
        state, largest_step = march.state, march.largest_step
        final, target = target, jnp.where(march.fresh, state.t, target)
        remaining = target - state.t
        size = self.step_size(state, largest_step)
        arrives = size >= jnp.abs(remaining)
        h = jnp.where(arrives, remaining, jnp.sign(remaining) * jnp.where(arrives, 0, size))
        point, resolved = self.attempt(state, jnp.where(arrives, target, state.t + h), interval)
        h = jnp.abs(h)
        approaching = point.singular & jnp.any(state.side != 0) & (h > self.longest_to_singular * interval)
        accepted = (resolved & ~approaching) | (point.converged & march.fresh)
        state = where_tree(accepted, point.state, state)
        reached = accepted & arrives & (target == final)

        whole = reached & (h >= 0.99 * interval)
        grown = jnp.where(whole, jnp.inf, jnp.maximum(largest_step, 4 * h))
        grown = jnp.where(jnp.isfinite(largest_step), grown, jnp.inf)
        largest_step = jnp.where(accepted, grown, jnp.where(approaching, SINGULAR_APPROACH * h, h / 4))

        vanished = ((h < self.shortest * interval) | (interval == 0)) & ~reached & ~(accepted & march.fresh)
        ended = jnp.where(self.diverges(state, interval), int(Status.LOCKED_UP), int(Status.NOT_CONVERGED))
        finite = jnp.where(accepted, march.finite, point.finite)
        ended = jnp.where(finite, ended, int(Status.NON_FINITE))
        ended = jnp.where(vanished, ended, int(Status.CONVERGED))
        steps = march.steps + 1
        ended = jnp.where((steps >= budget) & (ended == Status.CONVERGED), int(Status.NOT_CONVERGED), ended)
        return _MarchCarry(
            state=state,
            finite=finite,
            fresh=march.fresh & ~accepted,
            branched=march.branched,
            largest_step=largest_step,
            steps=steps,
            ended=ended,
            recorded=where_tree(reached, (point.state.q, point.state.v, point.state.a), march.recorded),
            code=jnp.where(point.singular, int(Status.SINGULAR), int(Status.CONVERGED)),
            reached=reached,
        )
