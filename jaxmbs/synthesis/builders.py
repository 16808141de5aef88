"""Synthesis with a mechanism of one's own: any function that builds one from a design, in the plane or in space."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import Units
from jaxmbs.synthesis.bounds import Variables
from jaxmbs.synthesis.builder_search import Question, Schedule, State, required_of, searched
from jaxmbs.synthesis.common import Ranked, count_of, finite, near_zero, times_with
from jaxmbs.synthesis.stages import Report, told
from jaxmbs.system.equations import residuals
from jaxmbs.system.mechanism import Mechanism

# Designs of which the free numbers differ by no more are the same.
SAME = 1e-3
# A point of the mechanism at a time is where the search had it, within this part of the targets' spread.
AGREES = 1e-6
# Candidates are followed through their cycle, until this many per result have been tried.
MAX_CANDIDATES_PER_RESULT = 3


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
            began; "least_singular_value" of Φ_q on the way, in units of the mechanism.

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


def fit(
    build: Callable[[Any], Mechanism],
    design: Any,
    targets: ArrayLike | Sequence[Sequence[float]],
    measure: Callable[[Any, Mechanism, Array], Float[Array, " d"]],
    *,
    times: ArrayLike | Sequence[float] | None = None,
    floating: bool = False,
    offset: bool = False,
    period: float = 1.0,
    cyclic: bool = True,
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
    """Least Σ ‖measure(b, mech, q(t_k)) − target_k‖² over designs b of a driven mechanism, planar or spatial.

    Random designs within the bounds descend by the method of Levenberg and Marquardt, all in one program. The
    configuration at each target is carried from step to step and closed again by Newton's method. Where a loop cannot
    close, the gap counts as an error, so that the design is pulled towards those that assemble. So does a least
    singular value of Φ_q below the given one. The results are followed through the whole motion by `kinematics`. Where
    all designs give the same measure, such as at any scale if it is an angle, keep an entry by equal bounds.

    Args:
        build: a design ↦ a mechanism whose drivers determine the motion in time.
        design: a tree of numbers, where to begin; other starts are random ones within the bounds.
        targets: (T, d), what `measure(design, mechanism, q)` should be.
        measure: a function of (design, mechanism, q) that gives (d,).
        times: (T,), of the targets. None: each has a time of its own.
        floating: with times, whether a common time is added to all of them, and their sense reversed, as fits best.
        offset: whether a constant is added to the measure, as fits best.
        period: of the motion that is looked at.
        cyclic: whether the motion goes round.
        guess: of the configuration at time 0, or a function of the design that gives one.
        lower, upper: bounds, trees like `design`; None where there is none.
        require: a function of the design, written in jax.numpy, of which no value may be negative.
        least_singular_value: designs are pushed away from smaller ones of Φ_q, in units of the mechanism.
        starts: number of starts.
        seed: of the random numbers.
        keep: how many of the best to return.
        progress, resume: as of `path`.

    Returns:
        `Ranked` `Fitted` mechanisms.

    Raises:
        ValueError: an argument that is unusable, by name.

    Examples:
        >>> times, targets = jnp.array([0.0, jnp.pi / 2]), jnp.array([[3.5], [jnp.sqrt(2.5**2 - 1)]])
        >>> found = mbs.synthesis.fit(
        ...     slider_crank, 2.0, targets, lambda rod, mech, q: q[6:7],
        ...     times=times, period=2 * jnp.pi, guess=guess, lower=1.5, upper=4.0, starts=4,
        ... )
        >>> round(float(found.best.design), 6)  # the rod
        2.5
    """
    targets = np.asarray(targets, float)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or len(targets) < 2 or not np.all(np.isfinite(targets)):
        raise ValueError(f"targets must be at least two rows of finite numbers, got shape {targets.shape}")
    since = None if times is None else _times(times, len(targets))
    starts, keep = count_of("starts", starts), count_of("keep", keep)
    variables = Variables.of(design, lower, upper)
    if floating and since is None:
        raise ValueError("floating is for given times; without any, each target has a time of its own")
    schedule = Schedule(since, floating, _positive("period", period), cyclic)
    if since is not None and not cyclic and not floating and not (since.min() >= 0 and since.max() <= period):
        raise ValueError(f"times must be from 0 to the period, {period:g}, of a motion that is not cyclic")
    spread = float(np.sqrt(((targets - targets.mean(axis=0)) ** 2).sum(axis=1).mean())) or 1.0
    shape, extent, given = _looked_at(build, variables.unravel(jnp.asarray(variables.start)), measure, guess)
    if shape != targets.shape[1:]:
        raise ValueError(f"measure must have shape {targets.shape[1:]}, as targets have in a row, got {shape}")
    question = Question(
        *(build, measure, variables, schedule, offset, len(targets), spread, extent),
        *(_positive("least_singular_value", least_singular_value), require),
    )
    # Functions cannot be compared, but their values can.
    if require is not None:
        given += told(required_of(question, variables.unravel(jnp.asarray(variables.start))))
    numbers = targets, variables.start, variables.lower, variables.upper, np.zeros(0) if since is None else since
    rest = np.asarray(str((schedule[1:], since is None, offset, least_singular_value, starts, seed, given)))
    stages = {"progress": progress, "resume": resume, "task": [*numbers, rest]}
    state = searched(question, targets, guess, starts, seed, **stages)
    return _ranked(question, state, targets, keep)


def _times(times, count: int) -> np.ndarray:
    times = np.asarray(times, float)
    if times.shape != (count,) or not np.all(np.isfinite(times)):
        raise ValueError(f"times must be {count} finite numbers, one for each target, got shape {times.shape}")
    return times


def _positive(name: str, value) -> float:
    if not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, got {value!r}")
    return float(value)


def _looked_at(build, design, measure, guess) -> tuple[tuple[int, ...], float, str]:
    """The shape of the measure, the size of the mechanism as the guess has it, and what tells it from others."""
    mech = build(design)
    if not isinstance(mech, Mechanism):
        raise ValueError(f"mechanism must be a name, or a function that builds one, but it gives {type(mech).__name__}")
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


def _ranked(question: Question, state: State, targets, keep: int) -> Ranked[Fitted]:
    """Different designs by their errors, those that go all the way before others."""
    good: list[Fitted] = []
    others: list[Fitted] = []
    known: list[np.ndarray] = []
    for k in np.argsort(finite(state.cost), kind="stable"):
        if not np.isfinite(state.cost[k]) or len(good) == keep or len(known) == MAX_CANDIDATES_PER_RESULT * keep:
            break
        mark = question.variables.mark(state.shared[k, : question.numbers])
        if any(np.abs(mark - other).max() < SAME for other in known):
            continue
        known.append(mark)
        design = question.variables.result(state.shared[k, : question.numbers])
        if question.require is not None and np.any(np.asarray(required_of(question, design)) < 0):
            continue
        solution = _checked(question, jax.tree.map(lambda x, k=k: x[k], state), targets)
        (good if solution.checks["assembled"] else others).append(solution)
    if not good and not others:
        raise ValueError("no design was found: at none of the starts were all numbers finite and what is required kept")
    if not good:
        warnings.warn("no design that was found assembles over the whole motion; see their checks", stacklevel=3)
    by_error = lambda solution: solution.error
    return Ranked([*sorted(good, key=by_error), *sorted(others, key=by_error)][:keep])


def _checked(question: Question, one: State, targets) -> Fitted:
    """A design with its whole motion looked at."""
    schedule, count, n = question.schedule, question.targets, question.numbers
    design = question.variables.result(one.shared[:n])
    mech = question.build(jax.tree.map(jnp.asarray, design))
    if schedule.since is None:
        times = one.own[:count, 0] * schedule.period
    else:
        times = one.since[:count] + (one.shared[-1] * schedule.period if schedule.floating else 0)
    if schedule.cyclic and schedule.floating:
        times = times - np.floor(times[0] / schedule.period) * schedule.period
    turns = np.floor(times / schedule.period) * schedule.period if schedule.cyclic else np.zeros(count)
    inside = times - turns
    # The first guard is at time 0.
    grid, at = _grid(inside, schedule.period)
    motion, jacobians = _followed(mech, jnp.asarray(grid), jnp.asarray(one.q[count]), question.length)
    followed = bool(np.all(np.asarray(motion.status) == Status.CONVERGED))
    offset = question.size * one.shared[n : n + targets.shape[1]] if question.offset else np.zeros(targets.shape[1])
    measure = jax.jit(jax.vmap(lambda q: question.measure(design, mech, q)))
    values, searched = (np.asarray(measure(jnp.asarray(q))) + offset for q in (motion.q[at], one.q[:count]))
    near = max(AGREES, near_zero())
    agrees = np.abs(values - searched).max() <= near * max(question.size, np.abs(targets).max())
    q = np.asarray(motion.q)
    ends = np.asarray(mech.layout.difference(motion.q[-1], motion.q[0]))
    ends = np.where(mech.layout.angular, np.sin(ends / 2), ends / question.length)
    checks = {
        "assembled": followed and bool(agrees),
        "closed": followed and bool(np.abs(ends).max() < near),
        "least_singular_value": float(np.linalg.svd(np.asarray(jacobians), compute_uv=False)[..., -1].min()),
    }
    values = values if followed else searched
    guess = {name: tuple(float(x) for x in q[0][where]) for name, where in mech.layout.body_slices.items()}
    guess |= {name: tuple(float(x) for x in q[0][where]) for name, where in mech.layout.extra_slices.items()}
    error = float(((values - targets) ** 2).sum())
    return Fitted(design, error, mech, guess, times, values, targets, offset, checks)


def _grid(inside, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Times of the whole motion, those of the targets among them, and where these are."""
    grid = times_with(inside / period) * period
    return grid, np.searchsorted(grid, inside / period * period)


@eqx.filter_jit
def _followed(mech, times, q, length):
    motion = kinematics(mech, times, q)
    unit = Units(mech.layout.angular, jnp.asarray(length)).vector

    def scaled(q, t):
        matrix = jacobian(lambda q, t: residuals(mech, q, t), mech.layout, q, t) * unit[None, :]
        largest = jnp.max(jnp.abs(matrix), axis=1, initial=0)
        return matrix / jnp.where(largest > 0, largest, 1)[:, None]

    return motion, jax.vmap(scaled)(motion.q, times)
