"""Finding a root of f(q, t) = 0 from a rough guess, and following it as t moves.

Both work on one sample with control flow that `vmap` turns into a batch: every lane takes its own decisions, and a lane
that has ended waits, unchanged, for the others. Nothing here is differentiated; see `implicit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.numerics.arrays import where_tree
from jaxmbs.numerics.implicit import jacobian, rates_at_root
from jaxmbs.numerics.linear_algebra import Inverse, inverse, symmetric_solver
from jaxmbs.numerics.results import Status

# A root counts as found when f, in units of q, is below this many roundings of the largest coordinate.
ROOT_ROUNDINGS = 1000
# Below this power of the rounding unit the condition estimate says "singular": there a position that is known to
# rounding in f is known to no more than half of the digits.
SINGULAR_POWER = 0.5


# The weight r of the constraints with which the search from a rough guess begins.
FIRST_WEIGHT = 10.0
# Steps of the search after a root is found, which bring it to rounding.
POLISHING_STEPS = 2
# How far, in units of the mechanism, the k-th new start of a search lies from the guess: this times k.
DISPLACEMENT = 0.4
# The largest part of a step of the search from a rough guess that its second-order correction may have.
MOST_BEND = 0.75


def _norm(x):
    return jnp.max(jnp.abs(x))


def units(matrix, q, angular) -> Float[Array, " n"]:
    """A unit for each coordinate: 1 for angles, for lengths the largest position or lever arm of the mechanism.

    In these units residuals, steps and displacements mean the same for a watch and for a bridge, in any system of units.
    """
    size = jnp.abs(matrix)
    arms = jnp.max(jnp.where(angular, size, 0), axis=1, initial=0)
    slopes = jnp.max(jnp.where(angular, 0, size), axis=1, initial=0)
    levers = jnp.where(slopes > 0, arms / jnp.where(slopes > 0, slopes, 1), 0)
    longest = jnp.maximum(jnp.max(levers, initial=0), jnp.max(jnp.where(angular, 0, jnp.abs(q)), initial=0))
    longest = jnp.where((longest > 0) & jnp.isfinite(longest), longest, 1)
    return jnp.where(angular, 1, longest).astype(q.dtype)


def row_sizes(matrix, unit) -> Float[Array, " m"]:
    """What a unit of the coordinate that matters most does to each row of f; 1 where nothing does anything."""
    largest = jnp.max(jnp.abs(matrix) * unit, axis=1)
    return jnp.where(largest > 0, largest, 1)


def scaled_residual(matrix, value, q, unit) -> Float[Array, ""]:
    """The largest gap of f, each row in units of what the coordinates can do to it, relative to the largest coordinate."""
    return jnp.max(jnp.abs(value) / row_sizes(matrix, unit)) / jnp.maximum(1, _norm(q / unit))


def tolerance(dtype) -> float:
    """The bound on `scaled_residual` under which q is a root."""
    return ROOT_ROUNDINGS * float(jnp.finfo(dtype).eps)


# --- a root from a rough guess ------------------------------------------------------------------------------------


class Root(NamedTuple):
    """The outcome of `find_root`."""

    q: Float[Array, " n"]
    found: Bool[Array, ""]
    unit: Float[Array, " n"]


class _Search(NamedTuple):
    trial: Float[Array, " n"]
    fresh: Bool[Array, ""]
    q: Float[Array, " n"]
    value: Float[Array, " m"]
    matrix: Float[Array, "m n"]
    gap: Float[Array, ""]
    unit: Float[Array, " n"]
    rows: Float[Array, " m"]
    metric: Float[Array, " n"]
    weight: Float[Array, ""]
    damping: Float[Array, ""]
    iteration: Int[Array, ""]
    attempt: Int[Array, ""]
    best: Float[Array, " n"]
    best_gap: Float[Array, ""]
    polished: Int[Array, ""]


def find_root(f: Callable, guess: Float[Array, " n"], angular, *, iterations: int = 40, attempts: int = 5) -> Root:
    """A root of f(q) = 0 close to `guess`: minimise ‖q − guess‖² + r ‖f(q)‖² for growing r, Haug (3.6.9),
    with the rows of f and the coordinates scaled to the size of the mechanism; `angular` (n,) says which are angles.

    Levenberg–Marquardt on the two sums of squares; r grows tenfold with every accepted step, and faster near the root,
    so that the last steps are Newton's. f: (n,) → (m,), any m; redundant and missing rows are allowed. A search that
    stalls starts again from a displacement of the guess, the same in every run, `attempts` times in all: some guesses
    are saddle points (all bodies in one line, say). What comes back is the best point seen; `found` says whether it is
    a root.
    """
    dtype, n = guess.dtype, guess.shape[0]
    limit, tiny, eps = tolerance(dtype), jnp.finfo(dtype).tiny, jnp.finfo(dtype).eps
    index = jnp.arange(n)

    def merit(q, value, metric, weight):
        return value @ value + metric @ (q - guess) ** 2 / weight

    def unfinished(search: _Search):
        return jnp.where(search.best_gap > limit, search.attempt < attempts, search.polished < POLISHING_STEPS)

    def step(search: _Search) -> _Search:
        trial = search.trial
        value, matrix = f(trial), jax.jacfwd(f)(trial)
        unit = jnp.where(search.fresh, units(matrix, trial, angular), search.unit)
        gap = scaled_residual(matrix, value, trial, unit)
        rows = jnp.where(search.fresh, row_sizes(matrix, unit), search.rows)
        value, matrix = value / rows, matrix / rows[:, None]

        # What a unit of each coordinate does to f: it makes lengths and angles comparable, in any system of units.
        size = jnp.sum(matrix**2, axis=0)
        size = jnp.maximum(size, (1e-6 * jnp.max(size * unit**2) + tiny) / unit**2)
        metric = jnp.where(search.fresh & jnp.all(jnp.isfinite(size)), size, search.metric)

        # Judge the trial. Near the root a decrease of the merit is lost in rounding, and a smaller gap is as good.
        before = merit(search.q, search.value, metric, search.weight)
        better = merit(trial, value, metric, search.weight) <= before
        better = (better | (gap < jnp.minimum(search.gap, 1e-6))) & jnp.all(jnp.isfinite(matrix)) & jnp.isfinite(gap)
        better = better | search.fresh
        growth = jnp.where(gap < 1e-3, 1e4, 10)
        weight = jnp.where(better, jnp.minimum(growth * search.weight, 1e30), search.weight)
        weight = jnp.where(search.fresh, FIRST_WEIGHT, weight)
        damping = jnp.where(better, search.damping / 10, jnp.maximum(10 * search.damping, 1e-3))
        damping = jnp.where(search.fresh | (damping < 1e-6), 0, damping)
        q, value, matrix, gap = where_tree(
            better, (trial, value, matrix, gap), (search.q, search.value, search.matrix, search.gap)
        )
        closer = gap < search.best_gap

        # The next trial; the shift covers the rounding of the normal matrix, or a rank-deficient one has no factor.
        shift = (1 / weight + damping + 8 * n * eps) * metric
        gradient = matrix.T @ value + metric * (q - guess) / weight
        solve = symmetric_solver(matrix.T @ matrix + jnp.diag(shift))
        change = -solve(gradient)
        # Geodesic acceleration (Transtrum & Sethna 2012): the valleys of linkages are curved, because bodies turn.
        bend = jax.jvp(lambda x: jax.jvp(f, (x,), (change,))[1], (q,), (change,))[1]
        curve = -solve(matrix.T @ bend) / 2
        curve = jnp.where(_norm(curve) <= MOST_BEND * _norm(change), curve, 0)
        trial = q + change + curve

        stalled = search.iteration + 1 >= iterations
        attempt = search.attempt + stalled
        # Sines of multiples of the golden angle: displacements without symmetry, the same in every run.
        spread = jnp.sin(2.399963 * (index + 1) * (attempt + 1)).astype(dtype)
        displaced = guess + DISPLACEMENT * attempt * unit * spread
        return _Search(
            trial=jnp.where(stalled, displaced, trial),
            fresh=stalled,
            q=q,
            value=value,
            matrix=matrix,
            gap=gap,
            unit=unit,
            rows=rows,
            metric=metric,
            weight=weight,
            damping=damping,
            iteration=jnp.where(stalled, 0, search.iteration + 1),
            attempt=attempt,
            best=jnp.where(closer, q, search.best),
            best_gap=jnp.where(closer, gap, search.best_gap),
            polished=search.polished + (search.best_gap <= limit),
        )

    m = jax.eval_shape(f, guess).shape[0]
    infinite, zero = jnp.asarray(jnp.inf, dtype), jnp.zeros((), int)
    search = _Search(
        trial=guess,
        fresh=jnp.asarray(True),
        q=guess,
        value=jnp.zeros(m, dtype),
        matrix=jnp.zeros((m, n), dtype),
        gap=infinite,
        unit=jnp.ones(n, dtype),
        rows=jnp.ones(m, dtype),
        metric=jnp.ones(n, dtype),
        weight=jnp.ones((), dtype),
        damping=jnp.zeros((), dtype),
        iteration=zero,
        attempt=zero,
        best=guess,
        best_gap=infinite,
        polished=zero,
    )
    search = jax.lax.while_loop(unfinished, step, search)
    return Root(search.best, search.best_gap <= limit, search.unit)


# --- a root followed in time --------------------------------------------------------------------------------------


class Path(NamedTuple):
    """The outcome of `follow_root`, one row per time; rows after the end of the motion repeat the last good one.

    `last_q` and `last_time` are those of the last accepted step, which may lie between two times.
    """

    q: Float[Array, "T n"]
    v: Float[Array, "T n"]
    a: Float[Array, "T n"]
    status: Int[Array, " T"]
    last_time: Float[Array, ""]
    last_q: Float[Array, " n"]


class _State(NamedTuple):
    t: Float[Array, ""]
    q: Float[Array, " n"]
    v: Float[Array, " n"]
    a: Float[Array, " n"]
    sign: Float[Array, ""]


class _March(NamedTuple):
    state: _State
    row: Int[Array, ""]
    largest_step: Float[Array, ""]
    steps: Int[Array, ""]
    ended: Int[Array, ""]
    path: Path


class _Point(NamedTuple):
    state: _State
    converged: Bool[Array, ""]
    singular: Bool[Array, ""]


# A step is resolved when predictor and corrector, and the same backwards, agree to this part of the distance moved.
RESOLVED = 0.3
# A step across a change of sign of the determinant has to agree this well, as a power of the rounding unit (2e-5 in
# float64). Where two branches pass each other at a distance w, a step h from one to the other misses by (w/h)².
STRAIGHT_POWER = 0.3
# Steps shorter than this power of the rounding unit times the interval are not tried (3e-7 of it in float64).
SHORTEST_POWER = 0.42


def follow_root(
    f: Callable,
    times: Float[Array, " T"],
    start: Float[Array, " n"],
    started: Bool[Array, ""],
    unit: Float[Array, " n"],
    *,
    corrections: int = 2,
    max_steps: int | None = None,
) -> Path:
    """Follow the root `start` of f(q, times[0]) = 0 through `times`, with its velocity and acceleration.

    Every step predicts by (3.6.13), q + h v + h²/2 a, and corrects by `corrections` Newton steps, each with a second one
    with the same Jacobian. A step counts only if it is resolved: converged, and close to its prediction forwards and
    backwards; very close if det f_q changes sign across it. An unresolved step is tried again shorter. So a motion never
    slips across a gap or onto another branch between two times; it locks up instead. Steps that shrink to nothing end
    the motion: as LOCKED_UP where the velocity grows without bound, else as NOT_CONVERGED. A bifurcation, where the
    motion is smooth although the determinant changes sign, is passed straight on. A time at which f_q is singular
    although q is a root has the status SINGULAR, with the velocity and acceleration carried in.

    `times` may be in any order; `unit` is that of each coordinate, see `units`. `max_steps` bounds the trial steps,
    200 + 8 T of them by default.
    """
    dtype = start.dtype
    eps = float(jnp.finfo(dtype).eps)
    count = times.shape[0]
    n = start.shape[0]
    limit, singular_limit, shortest = tolerance(dtype), eps**SINGULAR_POWER, eps**SHORTEST_POWER
    budget = 200 + 8 * count if max_steps is None else max_steps
    unbounded, zero = jnp.asarray(jnp.inf, dtype), jnp.zeros((), dtype)
    rows = jax.eval_shape(f, start, times[0]).shape[0]

    def size_of(x):
        return _norm(x / unit)

    def correct(q, t, carried_v, carried_a) -> _Point:
        """Newton's steps from a predicted position, then velocity and acceleration with the last inverse."""

        def newton(_, carry):
            q, _ = carry
            matrix = jacobian(f, q, t)
            inverted = inverse(matrix)
            singular = ~(inverted.rcond > singular_limit)
            held = Inverse(
                jnp.where(singular, 0, inverted.matrix), jnp.where(singular, 0, inverted.sign), inverted.rcond
            )
            # Two corrections with one inverse: an error e becomes e³, for the price of one more residual.
            q = q - held.matrix @ f(q, t)
            return q - held.matrix @ f(q, t), (matrix, held)

        blank = (jnp.zeros((rows, n), dtype), Inverse(jnp.zeros((n, rows), dtype), zero, zero))
        q, (matrix, inverted) = jax.lax.fori_loop(0, corrections, newton, (q, blank))
        singular = inverted.sign == 0
        # The residual that judges q also corrects it once more.
        value = f(q, t)
        gap = scaled_residual(matrix, value, q, unit)
        q = q - inverted.matrix @ value
        v, a = rates_at_root(f, inverted.matrix, q, t)
        v, a = jnp.where(singular, carried_v, v), jnp.where(singular, carried_a, a)
        finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(v)) & jnp.all(jnp.isfinite(a))
        return _Point(_State(t, q, v, a, inverted.sign), finite & (gap <= limit), singular)

    def diverges(state: _State, interval):
        """Whether the velocity would change a hundredfold within an interval: a fold is close."""
        return size_of(state.a) * interval > 1e2 * size_of(state.v)

    def try_step(state: _State, t, interval):
        """The point at t, and whether the step to it is resolved."""
        h = t - state.t
        predicted = state.q + h * state.v + h**2 / 2 * state.a
        point = correct(predicted, t, state.v + h * state.a, state.a)
        new = point.state
        back = new.q - h * new.v + h**2 / 2 * new.a
        moved = jnp.maximum(
            jnp.maximum(size_of(h * state.v), size_of(h * new.v)),
            jnp.maximum(size_of(h**2 / 2 * state.a), size_of(h**2 / 2 * new.a)),
        )
        error = jnp.maximum(size_of(new.q - predicted), size_of(back - state.q)) - limit * (1 + size_of(new.q))
        resolved = point.converged & (error <= RESOLVED * moved)
        crossed = new.sign * state.sign < 0
        tiny = jnp.abs(h) <= 16 * shortest * interval
        straight = (error <= eps**STRAIGHT_POWER * moved) | tiny
        # Where f has a kink (an outline's curvature jumps), v jumps although q goes on: no step is too short to see it.
        # A fold looks alike but for its velocity, which grows without bound.
        kink = point.converged & ~crossed & tiny & ~diverges(state, interval) & ~diverges(new, interval)
        kink = kink & (size_of(new.q - state.q) <= 2 * size_of(h * jnp.stack([state.v, new.v])))
        return point, (resolved & (~crossed | straight)) | kink

    def record(path: Path, index, state: _State, code) -> Path:
        row = jnp.arange(count) == index
        put = lambda old, new: jnp.where(row[:, None], new, old)
        return path._replace(
            q=put(path.q, state.q),
            v=put(path.v, state.v),
            a=put(path.a, state.a),
            status=jnp.where(row, code, path.status),
        )

    def unfinished(march: _March):
        return (march.row < count) & (march.ended == Status.CONVERGED)

    def step(march: _March) -> _March:
        state, index = march.state, march.row
        target = times[index]
        interval = jnp.abs(target - times[jnp.maximum(index - 1, 0)])
        remaining = target - state.t
        # Near a fold at distance d the velocity goes as d^(−1/2): |v| / 2|a| is d, and a step of most of it is safe.
        fold = 0.8 * size_of(state.v) / (2 * size_of(state.a) + jnp.finfo(dtype).tiny)
        size = jnp.clip(fold, march.largest_step / 32, march.largest_step)
        size = jnp.where(jnp.isfinite(march.largest_step), size, unbounded)
        arrives = size >= jnp.abs(remaining)
        h = jnp.where(arrives, remaining, jnp.sign(remaining) * jnp.where(arrives, 0, size))
        point, resolved = try_step(state, jnp.where(arrives, target, state.t + h), interval)
        h = jnp.abs(h)
        accepted = resolved | (point.converged & (index == 0))
        # At a singular point the prediction is all there is, so it has to be good by itself.
        state = where_tree(accepted, point.state, state)
        reached = accepted & arrives

        code = jnp.where(point.singular, int(Status.SINGULAR), int(Status.CONVERGED))
        path = where_tree(reached, record(march.path, index, point.state, code), march.path)

        whole = reached & (h >= 0.99 * interval)
        grown = jnp.where(whole, unbounded, jnp.maximum(march.largest_step, 4 * h))
        grown = jnp.where(jnp.isfinite(march.largest_step), grown, unbounded)
        largest_step = jnp.where(accepted, grown, h / 4)

        vanished = ((h < shortest * interval) | (interval == 0)) & ~reached
        ended = jnp.where(diverges(state, interval), int(Status.LOCKED_UP), int(Status.NOT_CONVERGED))
        ended = jnp.where(vanished, ended, int(Status.CONVERGED))
        steps = march.steps + 1
        ended = jnp.where((steps >= budget) & (ended == Status.CONVERGED), int(Status.NOT_CONVERGED), ended)
        path = path._replace(last_time=state.t, last_q=state.q)
        return _March(state, index + reached, largest_step, steps, ended, path)

    still, table = jnp.zeros(n, dtype), jnp.zeros((count, n), dtype)
    # The first step has no length: it polishes the start and gives it its velocity and acceleration.
    march = _March(
        state=_State(times[0], start, still, still, zero),
        row=jnp.zeros((), int),
        largest_step=unbounded,
        steps=jnp.zeros((), int),
        ended=jnp.where(started, int(Status.CONVERGED), int(Status.NOT_ASSEMBLED)),
        path=Path(table.at[0].set(start), table, table, jnp.full(count, -1), times[0], start),
    )
    march = jax.lax.while_loop(unfinished, step, march)
    return _hold_last(march.path, march.ended)


def _hold_last(path: Path, ended) -> Path:
    """Rows that were never reached repeat the last one that was, under the status with which the motion ended."""
    missing = path.status < 0
    last = jnp.maximum(jnp.sum(~missing) - 1, 0)
    fill = lambda rows: jnp.where(missing[:, None], rows[last], rows)
    status = jnp.where(missing, ended, path.status)
    return path._replace(q=fill(path.q), v=fill(path.v), a=fill(path.a), status=status)
