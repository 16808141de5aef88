"""Synthesis with a mechanism of one's own: any function that builds one from a design, in the plane or in space."""

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
from jaxmbs.synthesis import common
from jaxmbs.synthesis.bounds import Variables
from jaxmbs.synthesis.builder_search import Question, searched
from jaxmbs.synthesis.closing import scaled
from jaxmbs.synthesis.measures import Output, Point, Pose
from jaxmbs.synthesis.multistart import Ranked, Search, State, best_first, ranked
from jaxmbs.synthesis.stages import Report, told
from jaxmbs.system.equations import residuals
from jaxmbs.system.marks import gears_without_marks, with_marks
from jaxmbs.system.mechanism import Mechanism

F = TypeVar("F", bound=Callable)
# A point of the mechanism at a time is where the search had it, within this part of the targets' spread.
AGREES = 1e-6
# So many times as many good designs are looked for as are shown, where some may be out of order.
SPARE = 3
# Arguments of old calls, see `forwards_builders`.
OWN = ("design", "point", "output", "body", "guess", "times", "cyclic")


class Fitted(NamedTuple):
    """A mechanism of one's own with the design that has been found.

    Attributes:
        design: a tree like the given one.
        error: the sum of squares of what the values miss of the targets.
        mechanism: built from the design.
        guess: the poses of its bodies at time 0, assembled.
        times: (T,), of the targets.
        values: (T, d), the measure at these times.
        targets: (T, d), what it should be.
        offset: the constant that was free; it is part of the values.
        checks: "assembled": the motion was followed through all times and has these values; "closed": it ends where it
            began; "ordered": the targets are met in their order, within a cycle; "least_singular_value" of Φ_q on the
            way, in units of the mechanism.
        point: where the measure is a point, its body and its coordinates (d,) on it.

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
    progress: Report | None = None,
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
        lower, upper: bounds, pytrees like `design`; None where there is no bound.
        require: a function of the design, written in jax.numpy; none of its values may be negative.
        least_singular_value: designs are pushed away from smaller singular values of Φ_q, in units of the mechanism.
        starts: number of starts.
        seed: the seed of the random numbers.
        keep: how many of the best results to return.
        progress, resume: as for `path`.

    Returns:
        `Ranked` `Fitted` mechanisms.

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
    if isinstance(measure, Pose):
        measure, targets = measure.aimed_at(targets)
    elif not isinstance(measure, Point):
        measure = Output(measure)
    targets = np.asarray(targets, float)
    targets = common.table("targets", targets[:, None] if targets.ndim == 1 else targets, "rows of finite numbers")
    since = None if times is None else common.one_each("times", times, len(targets))
    search, variables = Search.of(starts, seed, keep, progress, resume), Variables.of(design, lower, upper)
    if floating and since is None:
        raise ValueError("floating is for given times; without any, each target has a time of its own")
    if since is not None and not cyclic and not floating and not (since.min() >= 0 and since.max() <= period):
        raise ValueError(f"times must be from 0 to the period, {period:g}, of a motion that is not cyclic")
    build = _with_marks(build, variables.unravel(jnp.asarray(variables.start)), guess)
    shape, extent, given = _looked_at(build, variables.unravel(jnp.asarray(variables.start)), measure, guess)
    if shape != targets.shape[1:]:
        raise ValueError(f"measure must have shape {targets.shape[1:]}, as targets have in a row, got {shape}")
    question = Question(
        *(build, measure, variables, since, floating, common.positive("period", period), cyclic, offset),
        *(len(targets), common.spread_of(targets) or 1.0, extent),
        *(common.positive("least_singular_value", least_singular_value), require),
    )
    # Functions cannot be compared, but their values can.
    marks = (floating, period, cyclic, offset, least_singular_value, given, told(question.required(question.given)))
    task = targets, *variables[:3], since, marks
    state = searched(question, targets, guess, search, task)
    in_order = ordered and since is None
    found = ranked(
        _candidates(question, state, targets),
        search.keep,
        key=lambda x: (in_order and not x.checks["ordered"], x.error),
        enough=search.keep * (SPARE if ordered else 1),
        nothing="no design was found: at none of the starts were all numbers finite and what is required kept",
    )
    if not found.best.checks["assembled"]:
        warnings.warn("no design that was found assembles over the whole motion; see their checks", stacklevel=2)
    return found


def _with_marks(build, design, guess) -> Callable[[Any], Mechanism]:
    """Return a builder whose gears have the marks that touch in the guess; the same one if all marks are known."""
    mech = build(design)
    if not isinstance(mech, Mechanism):
        raise ValueError(f"build must be a function that gives a Mechanism, but it gives {type(mech).__name__}")
    if not gears_without_marks(mech):
        return build
    return lambda design: with_marks(build(design), guess(design) if callable(guess) else guess)


def _looked_at(build, design, measure, guess) -> tuple[tuple[int, ...], float, str]:
    """The shape of the measure, the size of the mechanism in the guess, and a key that identifies the mechanism."""
    mech = build(design)
    missing = mech.layout.m - len(mech.layout.row_owners)
    if missing > 0:
        raise ValueError(f"the motion is not determined: {missing} driver(s) missing")
    q = mech.coordinates(guess(design) if callable(guess) else guess)
    away = np.abs(np.asarray(mech.layout.extent(q)))[~mech.layout.angular]
    points = [np.abs(np.asarray(x)).max(initial=0) for x in jax.tree.leaves(mech.constraints) if np.ndim(x) == 1]
    extent = max(away.max(initial=0), *points) if points else away.max(initial=0)
    value = measure(design, mech, q)
    mark = told(np.concatenate([np.ravel(value), residuals(mech, q, 0.0), q]))
    return np.shape(value), float(extent) or 1.0, mark


def _candidates(question: Question, state: State, targets):
    """Designs that keep what is required, those with the least errors first: what tells each from others, its check."""
    for k in best_first(state.cost):
        u = state.shared[k, : question.numbers]
        if np.all(np.asarray(question.required(question.variables.result(u))) >= 0):

            def check(k=k):
                solution = _checked(question, jax.tree.map(lambda x: x[k], state), targets)
                return solution, solution.checks["assembled"]

            yield question.variables.mark(u), check


def _checked(question: Question, one: State, targets) -> Fitted:
    """A design with its whole motion looked at."""
    count, n, period = question.targets, question.numbers, question.period
    design = question.variables.result(one.shared[:n])
    mech = question.build(jax.tree.map(jnp.asarray, design))
    if question.since is None:
        times = one.own[:count, 0] * period
    else:
        times = one.data[:count] + (one.shared[-1] * period if question.floating else 0)
    if question.cyclic and question.floating:
        times = times - np.floor(times[0] / period) * period
    turns = np.floor(times / period) * period if question.cyclic else np.zeros(count)
    inside = times - turns
    # The first guard is at time 0.
    grid, at = _grid(inside, period)
    motion, jacobians = _followed(mech, jnp.asarray(grid), jnp.asarray(one.carried[count]), question.length)
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    offset = question.size * one.shared[n : n + targets.shape[1]] if question.offset else np.zeros(targets.shape[1])
    measure = jax.jit(jax.vmap(lambda q: question.measure(design, mech, q)))
    values, searched = (np.asarray(measure(jnp.asarray(q))) + offset for q in (motion.q[at], one.carried[:count]))
    near = max(AGREES, common.near_zero())
    agrees = np.abs(values - searched).max() <= near * max(question.size, np.abs(targets).max())
    q = np.asarray(motion.q)
    ends = np.asarray(mech.layout.difference(motion.q[-1], motion.q[0]))
    ends = np.where(mech.layout.angular, np.sin(ends / 2), ends / question.length)
    checks = {
        "assembled": followed and bool(agrees),
        "closed": followed and bool(np.abs(ends).max() < near),
        "ordered": passes_in_order(times / period, question.cyclic),
        "least_singular_value": float(np.linalg.svd(np.asarray(jacobians), compute_uv=False)[..., -1].min()),
    }
    values = values if followed else searched
    guess = {name: tuple(float(x) for x in q[0][where]) for name, where in mech.layout.body_slices.items()}
    guess |= {name: tuple(float(x) for x in q[0][where]) for name, where in mech.layout.extra_slices.items()}
    error = float(((values - targets) ** 2).sum())
    traced = question.measure
    point = (traced.body, np.asarray(traced.place(design), float)) if isinstance(traced, Point) else None
    return Fitted(design, error, mech, guess, times, values, targets, offset, checks, point)


def passes_in_order(times, cyclic: bool = True) -> bool:
    """Whether times go one way; in a cycle of 1 by no more than that."""
    steps = np.diff(np.asarray(times))
    if not cyclic:
        return bool(np.all(steps > 0) or np.all(steps < 0))
    return any(bool(np.all(way % 1 > 0) and (way % 1).sum() < 1) for way in (steps, -steps))


def _grid(inside, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Times of the whole motion, those of the targets among them, and where these are."""
    grid = common.times_with(inside / period) * period
    return grid, np.searchsorted(grid, inside / period * period)


@eqx.filter_jit
def _followed(mech, times, q, length):
    motion = kinematics(mech, times, q)
    units = Units(mech.layout.angular, jnp.asarray(length))
    phi_q = jax.vmap(lambda q, t: jacobian(lambda q, t: residuals(mech, q, t), mech.layout, q, t))(motion.q, times)
    return motion, jax.vmap(lambda phi_q: scaled(phi_q, units)[0])(phi_q)


def forwards_builders(by_fit: Callable, instead: str) -> Callable[[F], F]:
    """A search for linkages by name whose old call, with a builder as `mechanism`, goes to `by_fit(build, …)`."""

    def decorate(search: F) -> F:
        @wraps(search)
        def either(*args, mechanism="four-bar", **options):
            if callable(mechanism):
                old = f"a builder as mechanism of synthesis.{search.__name__}"
                warnings.warn(f"{old} is deprecated: write synthesis.{instead}", DeprecationWarning, stacklevel=2)
                return by_fit(mechanism, *args, **options)
            for name in OWN:
                if name in options:
                    raise ValueError(f"{name} is for a mechanism of one's own; see `fit`")
            return search(*args, mechanism=mechanism, **options)

        return cast(F, either)

    return decorate
