"""Identification of parameters of a mechanism from measured signals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.dynamics.methods.explicit import RK4
from jaxmbs.dynamics.methods.method import AbstractMethod
from jaxmbs.dynamics.quantities import is_driven, quantity
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.stateful import state_names
from jaxmbs.identification import statistics
from jaxmbs.identification.problem import GAP_WEIGHTS, IdentificationProblem
from jaxmbs.identification.records import Record
from jaxmbs.identification.segmented_record import SegmentedRecord
from jaxmbs.identification.shooting import SegmentModel
from jaxmbs.identification.statistics import Estimate, Tests
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.search import SearchOptions, Variables, order_by_cost, positive_integer
from jaxmbs.system.mechanism import Mechanism

# Largest gap between two segments of a converged result, relative to the size of the state; with a larger one
# `converged` is False.
MAX_GAP = 1e-5
# A parameter closer to a bound than this, in units of its guess, is reported in `at_bounds`.
BOUND_TOLERANCE = 1e-9
# Number of times that standard deviations of signals are estimated anew, each time with a new fit, if they are not
# given.
NOISE_ESTIMATES = 4
# First guess of a standard deviation that is not given, as a fraction of the standard deviation of the measured signal.
FIRST_NOISE_FRACTION = 0.05
# Times of a record count as evenly spaced if their steps differ by at most this, relative to the longest step.
SPACING_TOLERANCE = 1e-6
# Smallest component that `Identified.undetermined` reports of a direction; the largest component is 1.
MIN_REPORTED_COMPONENT = 1e-3


@dataclass(frozen=True)
class Identified:
    """Identified parameters and their uncertainty.

    Attributes:
        parameters: the identified parameters, a tree like the guess.
        names: names of its numbers, such as "spring.stiffness" or "masses.0".
        estimates: the numbers by name.
        deviations: their standard deviations by name, from the Gauss–Newton Hessian; infinite if the records do not
            determine the number, zero if equal bounds fix it.
        intervals: (low, high) by name, which contain the parameter with probability `confidence`.
        confidence: that probability.
        covariance: (n, n). Undetermined directions count as known in it.
        undetermined: directions in which the parameters can change without changing any signal: relative changes by name,
            the largest of which is 1.
        at_bounds: names of parameters that lie on a bound; their intervals are not reliable.
        noise: the standard deviation of each signal's noise, as given or as estimated.
        cost: the sum of squares in units of the noise, priors included.
        tests: tests of the residuals; see `Tests`.
        signals: for each record the signals of the model by name, (T,) each.
        residuals: likewise, signals of the model minus measured signals.
        mechanism: built from the parameters.
        gap: the largest gap between two segments, relative to the size of the state; 0 without segments.
        converged: True if the search has converged and all gaps are closed. If False, do not rely on the other results.
        others: parameters and costs of further local minima, the best first; costs are in units of the noise with which
            the search began.

    Examples:
        >>> build = lambda p: mbs.Mechanism(
        ...     bodies={"bob": planar.Body(mass=1.0, inertia=p["inertia"])},
        ...     constraints={"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        ...     forces={"gravity": mbs.Gravity((0, -9.81))},
        ... )
        >>> times, start = np.linspace(0, 1, 21), {"bob": (1, 0, jnp.pi / 2)}
        >>> angles = mbs.simulate(build({"inertia": 0.5}), times, start, step=0.01).position("bob.phi")
        >>> run = mbs.Record(times, {"bob.phi": angles}, 1e-3, start=start)
        >>> found = mbs.identify(build, {"inertia": 1.0}, run, lower=0.0, starts=1, step=0.01)
        >>> print(round(found.parameters["inertia"], 6), found.undetermined)
        0.5 []
    """

    parameters: Any
    names: tuple[str, ...]
    estimates: dict[str, float]
    deviations: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    confidence: float
    covariance: np.ndarray
    undetermined: list[dict[str, float]]
    at_bounds: list[str]
    noise: dict[str, float]
    cost: float
    tests: Tests
    signals: list[dict[str, np.ndarray]]
    residuals: list[dict[str, np.ndarray]]
    mechanism: Mechanism
    gap: float
    converged: bool
    others: list[tuple[Any, float]]

    @property
    def correlation(self) -> np.ndarray:
        """Correlation (n, n) of the estimates; zero for parameters with zero deviation."""
        size = np.sqrt(np.diagonal(self.covariance))
        return self.covariance / np.where(size > 0, size, 1.0)[:, None] / np.where(size > 0, size, 1.0)

    def explain(self) -> str:
        """Return the results as text: parameters with deviations and intervals, undetermined directions, tests."""
        lines = []
        if not self.converged:
            gaps = f", gaps of {self.gap:.1g} between segments" if self.gap > MAX_GAP else ""
            lines.append(f"not converged{gaps}: more steps, another guess, narrower bounds?")
        width = max(map(len, self.names))
        for name in self.names:
            low, high = self.intervals[name]
            where = " (at a bound)" if name in self.at_bounds else ""
            lines.append(
                f"{name:{width}}  {self.estimates[name]:.6g} ± {self.deviations[name]:.2g}, "
                f"{100 * self.confidence:g} % from {low:.6g} to {high:.6g}{where}"
            )
        for direction in self.undetermined:
            changes = ", ".join(f"{name} by {100 * part:+.3g} %" for name, part in direction.items())
            lines.append(f"no signal shows whether these change together: {changes}")
        return "\n".join([*lines, *self.tests.lines()])


def identify(
    build: Callable[[Any], Mechanism],
    guess: Any,
    records: Record | Sequence[Record],
    measure: Callable[[Any, Mechanism, Any], Mapping[str, Any]] | None = None,
    *,
    lower: Any = None,
    upper: Any = None,
    priors: Any = None,
    segments: int = 1,
    step: float | None = None,
    method: AbstractMethod | None = None,
    formulation: AbstractFormulation | None = None,
    starts: int = 8,
    steps: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
) -> Identified:
    """Find the parameters p that fit records best: min Σ ((y_j(t_k; p) − ŷ_jk)/σ_j)² + Σ ((p_i − μ_i)/s_i)².

    y are signals of the motion, ŷ the measured values and σ their standard deviations; μ and s are the means and
    standard deviations of the priors. The motion is that of `simulate`, or of `kinematics` where drivers determine it.
    A damped Gauss–Newton method (Levenberg–Marquardt) runs from several starts, with exact derivatives of the signals.
    Covariance and intervals are those of the linear model at the estimate, C = (JᵀJ)⁻¹, which holds where noise is
    normal and small.

    Long or chaotic runs are split into `segments` (multiple shooting). The initial state of each segment is unknown. It
    must equal the final state of the segment before; this condition is weak at first and exact at the end.

    Args:
        build: a function: parameters ↦ mechanism. It is traced only once: calls with the same function, records and
            sampling use the compiled programs again. So any other data that the function reads must not change.
        guess: a pytree of numbers, the first start; the other starts are random within the bounds.
        records: the measured signals, one `Record` or several. Start and velocities of a record may depend on the
            parameters, so that an unknown initial state can be identified, too.
        measure: a function of (parameters, mechanism, motion) that gives signals by name, (T,) each. None: names of
            signals are names of quantities, see `Record`.
        lower: lower bounds, a tree like `guess`; None where there is no bound.
        upper: upper bounds, likewise.
        priors: a tree like `guess` with pairs (mean, standard deviation), for some of its numbers.
        segments: number of segments into which each record is cut; its times must then be evenly spaced.
        step: as for `simulate`.
        method: as for `simulate`.
        formulation: as for `simulate`.
        starts: number of starts.
        steps: largest number of Levenberg–Marquardt steps from each start.
        seed: the seed of the random numbers.
        confidence: probability of the intervals.

    Returns:
        The parameters, a pytree like `guess`, with standard deviations, intervals, covariance (n, n), residuals and tests;
        see `Identified`.

    Raises:
        ValueError: an argument cannot be used, a signal is unknown, there are fewer values than parameters, or no start can
            be simulated.

    Examples:
        >>> build = lambda p: mbs.Mechanism(
        ...     bodies={"cart": planar.Body(mass=2.0, inertia=1.0)},
        ...     constraints={"rail": planar.Translational("ground", "cart", (0, 0), (0, 0), (1, 0))},
        ...     forces={"spring": mbs.JointSpring("rail", p["stiffness"])},
        ... )
        >>> times = np.linspace(0, 2, 41)
        >>> run = mbs.Record(times, {"cart.x": 0.1 * np.cos(3 * times)}, 1e-4, start={"cart": (0.1, 0, 0)})
        >>> found = mbs.identify(build, {"stiffness": 10.0}, run, lower=0.0, starts=2, step=0.01)
        >>> print(round(found.parameters["stiffness"], 4))  # ω² m
        18.0
    """
    variables = Variables.from_design(guess, lower, upper, "guess")
    names = _names(guess)
    options = SearchOptions.from_arguments(starts, seed, 1)
    records = [records] if isinstance(records, Record) else list(records)
    if not records:
        raise ValueError("records must not be empty: give at least one mbs.Record")
    for x in records:
        if not isinstance(x, Record):
            raise ValueError(f"records must be of the class mbs.Record, got {type(x).__name__}")
    if isinstance(confidence, str) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a probability between 0 and 1, got {confidence!r}")
    prior_list, steps = _priors(priors, guess, names), positive_integer("steps", steps)
    method = instance_of(AbstractMethod, "method", method, RK4())
    formulation = instance_of(AbstractFormulation, "formulation", formulation, Augmented())
    segments = positive_integer("segments", segments)
    simulation = None if step is None else float(step), method, formulation
    segmented = _segmented_records(build, guess, records, measure, segments, simulation)
    values = sum(record.values.size for record in records)
    if values + len(prior_list) < len(names):
        raise ValueError(
            f"{values} measured values and {len(prior_list)} priors are fewer than the {len(names)} parameters"
        )
    known = [record.deviations is not None for record in records]
    if any(known) and not all(known):
        raise ValueError("deviations are given for some records only")
    noise = _first_noise(records)
    problem = IdentificationProblem(variables, segmented, prior_list)
    u = problem.starts(options)
    problem.find_references(u, noise)
    u, residuals, converged = problem.descend(u, noise, steps)
    order = order_by_cost(residuals.cost)
    if not len(order):
        raise ValueError(f"at no start could all records be simulated: {problem.failure}")
    best = order[:1]
    others = problem.other_minima(u, residuals.cost, order[converged[order]] if converged[best[0]] else best)
    u, converged = u[best], converged[best]
    problem.keep_starts(best)
    residuals = problem.residuals(u, noise, GAP_WEIGHTS[-1])
    for _ in range(0 if all(known) else NOISE_ESTIMATES):
        noise = problem.estimate_noise(residuals, noise)
        u, residuals, converged = problem.descend(u, noise, steps, GAP_WEIGHTS[-1:])
    is_converged = bool(converged[0]) and problem.largest_gap(residuals) <= MAX_GAP
    if not is_converged:
        warnings.warn("the identification has not converged; see its `explain`", stacklevel=2)
    return _results(build, names, problem, u[0], residuals, noise, others, confidence, all(known), is_converged)


def _names(guess) -> tuple[str, ...]:
    """Return a name for each number of the tree of parameters, such as "spring.stiffness" or "masses.0"."""
    names = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(guess)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        indices = [".".join(map(str, index)) for index in np.ndindex(np.shape(leaf))]
        names += [".".join(part for part in (name, index) if part) or "parameter" for index in indices]
    return tuple(names)


def _priors(priors, guess, names) -> list[tuple[int, float, float]]:
    """Return each prior as (index of its parameter in `names`, mean, standard deviation)."""
    flat: list[tuple[int, float, float]] = []

    def walk(given, part, name: str) -> None:
        """Add the priors of a subtree `part` of the guess, whose name begins with `name`."""
        if given is None:
            return
        if isinstance(part, Mapping):
            if not isinstance(given, Mapping):
                raise ValueError(f"priors of {name or 'the guess'} must be a mapping like it, got {given!r}")
            for key in given:
                if key not in part:
                    raise ValueError(
                        f"priors name {key!r}, which is not a parameter; there are {', '.join(map(str, part))}"
                    )
                walk(given[key], part[key], f"{name}.{key}" if name else str(key))
        elif np.ndim(part) == 0 and jax.tree_util.treedef_is_leaf(jax.tree.structure(part)):
            name = name or "parameter"
            if np.shape(given) != (2,) or not np.all(np.isfinite(given)) or not given[1] > 0:
                raise ValueError(f"the prior of {name!r} must be (mean, positive standard deviation), got {given!r}")
            flat.append((names.index(name), float(given[0]), float(given[1])))
        else:
            if not isinstance(part, (tuple, list, np.ndarray, jax.Array)) or len(given) != len(part):
                raise ValueError(
                    f"priors of {name or 'the guess'} must be one for each of its numbers, or None, got {given!r}"
                )
            for k, (one, inner) in enumerate(zip(given, part, strict=True)):
                walk(one, inner, f"{name}.{k}" if name else str(k))

    walk(priors, guess, "")
    return flat


def _segmented_records(
    build, guess, records: list[Record], measure, segments: int, simulation: tuple
) -> list[SegmentedRecord]:
    """Return each record cut into `segments`, or fewer if it is short; `simulation` is (step, method, formulation)."""
    mech = build(jax.tree.map(jnp.asarray, guess))
    if not isinstance(mech, Mechanism):
        raise ValueError(f"build must be a function that returns a Mechanism, but it returns {type(mech).__name__}")
    if segments > 1 and is_driven(mech):
        raise ValueError("segments must be 1: drivers determine this motion, and segments are for motions under forces")
    if segments > 1 and state_names(mech):
        raise ValueError(
            f"segments must be 1: forces have states of their own, {', '.join(state_names(mech))}, which are not identified"
        )
    tree, shapes = jax.tree.structure(guess), tuple(np.shape(leaf) for leaf in jax.tree.leaves(guess))
    segmented = []
    for k, record in enumerate(records):
        if measure is None:
            for name in record.names:
                try:
                    quantity(mech, name)
                except ValueError as error:
                    raise ValueError(f"record {k}: {error}") from None
        steps, count = np.diff(record.times), min(segments, len(record.times) - 1)
        if count > 1 and np.ptp(steps) > SPACING_TOLERANCE * steps.max():
            raise ValueError(f"record {k}: segments need evenly spaced times")
        length = -(-len(steps) // count)
        count = -(-len(steps) // length)
        times = record.times - record.times[0] if count == 1 else np.mean(steps) * np.arange(length + 1)
        # Without rounding errors, records that start at different times but are sampled alike share a program.
        times = np.round(times / times[-1], 12) * float(f"{times[-1]:.12g}")
        start, velocities = (x if callable(x) else None for x in (record.start, record.velocities))
        own_times = tuple(times.tolist())
        model = SegmentModel(build, tree, shapes, record.names, measure, start, velocities, own_times, *simulation)
        try:
            hash(model)
        except TypeError as error:
            raise ValueError(f"build, measure, start and method must be hashable, as functions are: {error}") from None
        segmented.append(SegmentedRecord(record, model, count, mech.layout))
    return segmented


def _first_noise(records: list[Record]) -> dict[str, float]:
    """Return the standard deviation of each signal's noise: as given, or a guess from the changes of the signal."""
    noise: dict[str, float] = {}
    for record in records:
        for name, values in record.signals.items():
            spread = float(np.std(values)) or float(np.abs(values).max()) or 1.0
            given = FIRST_NOISE_FRACTION * spread if record.deviations is None else record.deviations[name]
            if record.deviations is not None and name in noise and noise[name] != given:
                raise ValueError(
                    f"signal {name!r} has different deviations in two records: give it two names, by `measure`"
                )
            noise[name] = max(noise.get(name, 0.0), given)
    return noise


def _results(
    build, names, problem: IdentificationProblem, u, residuals, noise, others, confidence, known: bool, converged: bool
) -> Identified:
    """Return the results for the unknowns u (unknowns,) of the best start and its residuals.

    `others` are those of `Identified`. `known` is True if all standard deviations of signals were given.
    """
    n = len(names)
    lower, upper = problem.variables.lower, problem.variables.upper
    x = u[:n] * problem.scale
    is_free = upper > lower
    estimate = Estimate.from_jacobian(residuals.jacobian[0], x, problem.scale, is_free)
    parameters = problem.parameters(u)
    low, high = lower / problem.scale, upper / problem.scale
    at_bound = is_free & ((u[:n] <= low + BOUND_TOLERANCE) | (u[:n] >= high - BOUND_TOLERANCE))
    signals = [
        dict(zip(record.model.names, values.T, strict=True))
        for record, values in zip(problem.records, problem.signals(residuals, noise), strict=True)
    ]
    differences = [
        {name: values - record.record.signals[name] for name, values in of_record.items()}
        for record, of_record in zip(problem.records, signals, strict=True)
    ]
    count = sum(record.record.values.size for record in problem.records) + len(problem.priors)
    squares = sum(float(np.sum((y / noise[name]) ** 2)) for of_record in differences for name, y in of_record.items())
    squares += sum(((x[number] - mean) / deviation) ** 2 for number, mean, deviation in problem.priors)
    freedom = count - estimate.rank
    size = statistics.chi_squared(squares, freedom) if known and freedom > 0 else None
    estimates = dict(zip(names, x.tolist(), strict=True))
    deviations = dict(zip(names, estimate.deviation.tolist(), strict=True))
    width = statistics.half_width(confidence)
    return Identified(
        parameters=parameters,
        names=names,
        estimates=estimates,
        deviations=deviations,
        intervals={
            name: (estimates[name] - width * deviations[name], estimates[name] + width * deviations[name])
            for name in names
        },
        confidence=confidence,
        covariance=estimate.covariance,
        undetermined=[
            {
                name: float(part)
                for name, part in zip(names, direction, strict=True)
                if abs(part) > MIN_REPORTED_COMPONENT
            }
            for direction in estimate.undetermined
        ],
        at_bounds=[name for name, is_at_bound in zip(names, at_bound, strict=True) if is_at_bound],
        noise=noise,
        cost=float(residuals.cost[0]),
        tests=statistics.residual_tests(differences, noise, size),
        signals=signals,
        residuals=differences,
        mechanism=build(jax.tree.map(jnp.asarray, parameters)),
        gap=problem.largest_gap(residuals),
        converged=converged,
        others=others,
    )
