"""Synthesis of any mechanism, in the plane or in space, from a function that builds it from a design."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import Units
from jaxmbs.search import (
    MultistartCarry,
    ProgressCallback,
    Ranked,
    SearchOptions,
    Variables,
    order_by_cost,
    rank_candidates,
    rounded_text,
)
from jaxmbs.synthesis import common
from jaxmbs.synthesis.builder_search import BuilderProblem, search_designs
from jaxmbs.synthesis.closing import scaled_jacobian
from jaxmbs.synthesis.measures import OutputMeasure, PointMeasure, PoseMeasure
from jaxmbs.system.equations import residuals
from jaxmbs.system.marks import elements_without_marks, with_marks
from jaxmbs.system.mechanism import Mechanism

F = TypeVar("F", bound=Callable)
# Largest difference of measures in the followed motion and in the search of `fit`, in units of the targets' spread.
MAX_MEASURE_DIFFERENCE = 1e-6
# Number of designs that must pass their checks per result of `fit` with `ordered`: some may not meet the order.
CANDIDATES_PER_ORDERED_RESULT = 3
# Arguments of `path`, `function` and `motion` for deprecated calls only, see `forwards_builders`.
DEPRECATED_BUILDER_ARGUMENTS = ("design", "point", "output", "body", "guess", "times", "cyclic")


class Fitted(NamedTuple):
    """A design found by `fit`, with its mechanism.

    Attributes:
        design: a tree like the given one.
        error: the sum of squared differences of values and targets.
        mechanism: built from the design.
        guess: the assembled poses of its bodies at time 0.
        times: (T,), of the targets.
        values: (T, d), the measure at these times.
        targets: (T, d), as they were given.
        offset: the free constant of the measure; it is included in the values.
        checks: "assembled": the motion was followed through all times and has these values; "closed": it ends where it
            began; "ordered": the targets are met in their order, within a cycle; "least_singular_value": the smallest
            of Φ_q on the way, in units of the mechanism.
        point: if the measure is a point, its body and its coordinates (d,).

    Examples:
        >>> times, targets = jnp.array([0.0, jnp.pi / 2]), jnp.array([[3.5], [jnp.sqrt(2.5**2 - 1)]])
        >>> best = mbs.synthesis.fit(
        ...     slider_crank, 2.0, targets, lambda rod, mech, q: q[6:7],
        ...     times=times, period=2 * jnp.pi, guess=guess, lower=1.5, upper=4.0, starts=4,
        ... ).best
        >>> print(best.values.round(4).ravel(), best.checks["assembled"])
        [3.5    2.2913] True
    """

    design: Any
    error: float
    mechanism: Mechanism
    guess: dict[str, tuple]
    times: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    offset: np.ndarray
    checks: dict[str, Any]
    point: tuple[str, np.ndarray] | None = None


def fit(
    build: Callable[[Any], Mechanism],
    design: Any,
    targets: ArrayLike | Sequence[Any],
    measure: Callable[[Any, Mechanism, Array], Array] | str,
    *,
    times: ArrayLike | Sequence[float] | None = None,
    floating: bool = False,
    offset: bool = False,
    period: float = 1.0,
    cyclic: bool = True,
    ordered: bool = False,
    guess: Mapping | Callable | None = None,
    lower: Any = None,
    upper: Any = None,
    require: Callable[[Any], Any] | None = None,
    least_singular_value: float = 0.01,
    starts: int = 2048,
    seed: int = 0,
    keep: int = 5,
    progress: ProgressCallback | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[Fitted]:
    """Minimise Σ ‖measure(b, mech, q(t_k)) − target_k‖² over designs b of a driven mechanism, planar or spatial.

    The search starts from random designs within the bounds and improves all of them by the method of Levenberg and
    Marquardt, in one program. The configuration at each target is kept from one step of the search to the next, and
    closed again by Newton's method. If a loop cannot close, its gap counts as an error, which pulls the design towards
    designs that assemble. A smallest singular value of Φ_q below `least_singular_value` counts as an error, too. At the
    end `kinematics` follows each result through its whole motion.

    If the measure does not tell designs apart (an angle is the same at any scale), fix an entry of the design: give it
    equal bounds.

    Args:
        build: a function: design ↦ mechanism. The drivers of the mechanism determine its motion in time.
        design: a pytree of numbers, the first start; the other starts are random designs within the bounds.
        targets: (T, d), what `measure(design, mechanism, q)` should be.
        measure: a function of (design, mechanism, q) that gives a number or (d,); a `point` or `pose` of a body; or the
            name of a coordinate, such as "rocker.phi".
        times: (T,), the times of the targets. None: the search finds a time for each target.
        floating: if `times` are given, whether the search may add a common time to all of them and reverse their sense.
        offset: whether the search may add a constant to the measure.
        period: duration of the motion that is considered; it starts at time 0.
        cyclic: whether the motion repeats after a period, as with a crank that turns fully.
        ordered: if `times` are not given, whether designs that meet the targets in their order, within a cycle, are
            ranked before others.
        guess: a guess of the configuration at time 0, or a function of the design that gives one.
        lower: lower bounds, a pytree like `design`; None where there is no bound.
        upper: upper bounds, likewise.
        require: a function of the design, written in jax.numpy; none of its values may be negative.
        least_singular_value: designs are pushed away from smaller singular values of Φ_q, in units of the mechanism.
        starts: number of starts.
        seed: the seed of the random numbers.
        keep: how many of the best results to return.
        progress: as for `path`.
        resume: as for `path`.

    Returns:
        Designs with their mechanisms and errors, the best first; see `Ranked` and `Fitted`.

    Raises:
        ValueError: an argument cannot be used; the message names it.

    Examples:
        >>> times, targets = jnp.array([0.0, jnp.pi / 2]), jnp.array([[3.5], [jnp.sqrt(2.5**2 - 1)]])
        >>> found = mbs.synthesis.fit(
        ...     slider_crank, 2.0, targets, lambda rod, mech, q: q[6:7],
        ...     times=times, period=2 * jnp.pi, guess=guess, lower=1.5, upper=4.0, starts=4,
        ... )
        >>> round(float(found.best.design), 6)  # the rod
        2.5
    """
    if isinstance(measure, PoseMeasure):
        measure, targets = measure.with_targets(targets)
    elif not isinstance(measure, PointMeasure):
        measure = OutputMeasure(measure)
    targets = np.asarray(targets, float)
    targets = targets[:, None] if targets.ndim == 1 else targets
    targets = common.rows_of_numbers("targets", targets, "rows of finite numbers")
    target_times = None if times is None else common.one_per_target("times", times, len(targets))
    options = SearchOptions.from_arguments(starts, seed, keep, progress, resume)
    variables = Variables.from_design(design, lower, upper)
    if floating and target_times is None:
        raise ValueError("floating is for given times; without times, each target has a time of its own")
    outside = target_times is not None and not (target_times.min() >= 0 and target_times.max() <= period)
    if outside and not cyclic and not floating:
        raise ValueError(f"times must be from 0 to the period, {period:g}, of a motion that is not cyclic")
    first_design = variables.unravel(jnp.asarray(variables.start))
    build = _with_marks(build, first_design, guess)
    shape, length, mechanism_text = _shape_size_and_text(build, first_design, measure, guess)
    if shape != targets.shape[1:]:
        raise ValueError(f"measure must have shape {targets.shape[1:]}, like a row of targets, got {shape}")
    problem = BuilderProblem(
        build=build,
        measure=measure,
        variables=variables,
        target_times=target_times,
        floating=floating,
        period=common.positive_number("period", period),
        cyclic=cyclic,
        offset=offset,
        target_count=len(targets),
        size=common.spread_of(targets) or 1.0,
        length=length,
        least_singular_value=common.positive_number("least_singular_value", least_singular_value),
        require=require,
    )
    # Values of the functions for one design identify them.
    required_text = rounded_text(problem.requirement_values(problem.given_design))
    marks = (floating, period, cyclic, offset, least_singular_value, mechanism_text, required_text)
    task = targets, variables.start, variables.lower, variables.upper, target_times, marks
    carry = search_designs(problem, targets, guess, options, task)
    in_order = ordered and target_times is None
    found = rank_candidates(
        _candidates(problem, carry, targets),
        options.keep,
        key=lambda x: (in_order and not x.checks["ordered"], x.error),
        enough=options.keep * (CANDIDATES_PER_ORDERED_RESULT if ordered else 1),
        message="no design was found: from no start were all numbers finite and all values of require not negative",
    )
    if not found.best.checks["assembled"]:
        warnings.warn("no design that was found assembles over the whole motion; see their checks", stacklevel=2)
    return found


def _with_marks(build, design, guess) -> Callable[[Any], Mechanism]:
    """Return a builder whose gears have the marks that touch in the guess; `build` itself if all marks are known."""
    mech = build(design)
    if not isinstance(mech, Mechanism):
        raise ValueError(f"build must be a function that returns a Mechanism, but it returns {type(mech).__name__}")
    if not elements_without_marks(mech):
        return build
    return lambda design: with_marks(build(design), guess(design) if callable(guess) else guess)


def _shape_size_and_text(build, design, measure, guess) -> tuple[tuple[int, ...], float, str]:
    """Return the shape of the measure, the size of the mechanism, and a text of its numbers, all at the guess."""
    mech = build(design)
    missing = mech.layout.m - len(mech.layout.row_owners)
    if missing > 0:
        raise ValueError(f"the drivers do not determine the motion: {missing} driver(s) missing")
    q = mech.coordinates(guess(design) if callable(guess) else guess)
    positions = np.abs(np.asarray(mech.layout.extent(q)))[~mech.layout.angular]
    points = [np.abs(np.asarray(x)).max(initial=0) for x in jax.tree.leaves(mech.constraints) if np.ndim(x) == 1]
    extent = max(positions.max(initial=0), *points) if points else positions.max(initial=0)
    value = measure(design, mech, q)
    text = rounded_text(np.concatenate([np.ravel(value), residuals(mech, q, 0.0), q]))
    return np.shape(value), float(extent) or 1.0, text


def _candidates(problem: BuilderProblem, carry: MultistartCarry, targets):
    """Yield the candidates of `rank_candidates` that satisfy `require`, the least cost first; targets: (T, d)."""
    for k in order_by_cost(carry.cost):
        u = carry.shared[k, : problem.design_size]
        if np.all(np.asarray(problem.requirement_values(problem.variables.result(u))) >= 0):

            def check(k=k):
                """Return the solution of start k, and True if it can be assembled at all times."""
                solution = _solution(problem, jax.tree.map(lambda x: x[k], carry), targets)
                return solution, solution.checks["assembled"]

            yield problem.variables.features(u), check


def _solution(problem: BuilderProblem, start: MultistartCarry, targets) -> Fitted:
    """Return the solution of one start, the carry without its first axis, with its motion followed through a period."""
    count, n, period = problem.target_count, problem.design_size, problem.period
    design = problem.variables.result(start.shared[:n])
    mech = problem.build(jax.tree.map(jnp.asarray, design))
    if problem.target_times is None:
        times = start.own[:count, 0] * period
    else:
        times = start.data[:count] + (start.shared[-1] * period if problem.floating else 0)
    if problem.cyclic and problem.floating:
        times = times - np.floor(times[0] / period) * period
    whole_periods = np.floor(times / period) * period if problem.cyclic else np.zeros(count)
    parts = (times - whole_periods) / period
    grid = common.times_including(parts) * period
    at = np.searchsorted(grid, parts * period)
    # The first time checked in the search is time 0.
    q_start = jnp.asarray(start.carried[count])
    motion, jacobians = _follow(mech, jnp.asarray(grid), q_start, problem.length)
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    offset = problem.size * start.shared[n : n + targets.shape[1]] if problem.offset else np.zeros(targets.shape[1])
    measure = jax.jit(jax.vmap(lambda q: problem.measure(design, mech, q)))
    configurations = motion.q[at], start.carried[:count]
    values, search_values = (np.asarray(measure(jnp.asarray(q))) + offset for q in configurations)
    tolerance = max(MAX_MEASURE_DIFFERENCE, common.zero_tolerance())
    agrees = np.abs(values - search_values).max() <= tolerance * max(problem.size, np.abs(targets).max())
    gap = np.asarray(mech.layout.difference(motion.q[-1], motion.q[0]))
    gap = np.where(mech.layout.angular, np.sin(gap / 2), gap / problem.length)
    checks = {
        "assembled": followed and bool(agrees),
        "closed": followed and bool(np.abs(gap).max() < tolerance),
        "ordered": passes_in_order(times / period, problem.cyclic),
        "least_singular_value": float(np.linalg.svd(np.asarray(jacobians), compute_uv=False)[..., -1].min()),
    }
    values = values if followed else search_values
    guess = common.guess_of(mech, motion.q[0])
    error = float(((values - targets) ** 2).sum())
    traced = problem.measure
    point = (traced.body, np.asarray(traced.coordinates(design), float)) if isinstance(traced, PointMeasure) else None
    return Fitted(design, error, mech, guess, times, values, targets, offset, checks, point)


def passes_in_order(times, cyclic: bool = True) -> bool:
    """Return True if times (T,), in periods, only grow or only fall; if cyclic, modulo 1 and by less than 1 in all."""
    steps = np.diff(np.asarray(times))
    if not cyclic:
        return bool(np.all(steps > 0) or np.all(steps < 0))
    return any(bool(np.all(forward % 1 > 0) and (forward % 1).sum() < 1) for forward in (steps, -steps))


@eqx.filter_jit
def _follow(mech, times, q, length):
    """Return the motion from q on over times (T,), and the scaled Φ_q at each time; `length` as in `BuilderProblem`."""
    motion = kinematics(mech, times, q)
    units = Units(mech.layout.angular, jnp.asarray(length))
    phi_q = jax.vmap(lambda q, t: jacobian(lambda q, t: residuals(mech, q, t), mech.layout, q, t))(motion.q, times)
    return motion, jax.vmap(lambda phi_q: scaled_jacobian(phi_q, units)[0])(phi_q)


def forwards_builders(fit_builder: Callable, instead: str) -> Callable[[F], F]:
    """Return a decorator that forwards deprecated calls, with a builder as `mechanism`, to `fit_builder(build, …)`.

    `fit_builder` takes the arguments of the old call; `instead` is the call to write now, for the warning.
    """

    def decorate(search: F) -> F:
        """Return the search function with the deprecated calls forwarded to `fit_builder`."""

        @wraps(search)
        def search_or_forward(*args, mechanism="four-bar", **options):
            """Forward a call with a builder as `mechanism`; pass any other call to the search."""
            if callable(mechanism):
                old = f"a builder as mechanism of synthesis.{search.__name__}"
                warnings.warn(f"{old} is deprecated: write synthesis.{instead}", DeprecationWarning, stacklevel=2)
                return fit_builder(mechanism, *args, **options)
            for name in DEPRECATED_BUILDER_ARGUMENTS:
                if name in options:
                    raise ValueError(f"{name} is for a mechanism of your own; see `fit`")
            return search(*args, mechanism=mechanism, **options)

        return cast(F, search_or_forward)

    return decorate
