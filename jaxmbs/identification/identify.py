"""Parameters of a mechanism from measurements."""

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
from jaxmbs.identification.problem import WEIGHTS, Problem
from jaxmbs.identification.records import Record
from jaxmbs.identification.rows import Run
from jaxmbs.identification.shooting import Model
from jaxmbs.identification.statistics import Estimate, Tests
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.synthesis.bounds import Variables
from jaxmbs.synthesis.multistart import Search, best_first, count_of
from jaxmbs.system.mechanism import Mechanism

# Gaps that count as closed.
CLOSED = 1e-5
# A parameter that is nearer to a bound, in units of its guess, lies on it.
AT_BOUND = 1e-9
# How often deviations that are not given are estimated.
REESTIMATED = 4


@dataclass(frozen=True)
class Identified:
    """Parameters that were identified, and how well.

    Attributes:
        parameters: a tree like the given one.
        names: of its numbers, "spring.stiffness" or "masses.0", as they are called below.
        estimates: the numbers by name.
        deviations: their standard deviations by name, from the Hessian of Gauss and Newton; infinite where the records do
            not determine the number, zero where bounds leave no choice.
        intervals: (low, high) by name, in which the parameter lies with probability `confidence`.
        confidence: that probability.
        covariance: (n, n). Directions that are undetermined count as known in it.
        undetermined: directions in which the parameters can change without changing any signal: by name the relative
            changes, the largest of them 1.
        at_bounds: names of parameters that lie on a bound; their intervals mean little.
        noise: the standard deviation of each signal's noise, as given or as estimated.
        cost: the sum of squares in units of the noise, priors included.
        tests: of what is left over; see `Tests`.
        signals: for each record what the model gives, by name (T,).
        residuals: likewise, that minus what was measured.
        mechanism: built from the parameters.
        gap: the largest gap between two segments, relative to the size of the state; 0 in one piece.
        converged: whether the search has come to rest, with all gaps closed. If not, nothing else is worth much.
        others: parameters and costs of further local minima, the best first; costs in units of the noise with which the
            search began.

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
        """(n, n), of the estimates; zero where a deviation is."""
        size = np.sqrt(np.diagonal(self.covariance))
        return self.covariance / np.where(size > 0, size, 1.0)[:, None] / np.where(size > 0, size, 1.0)

    def explain(self) -> str:
        """All of it as text."""
        lines = []
        if not self.converged:
            gaps = f", gaps of {self.gap:.1g} between segments" if self.gap > CLOSED else ""
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
            lines.append(f"no signal tells whether these change together: {changes}")
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
    """Parameters p that fit records best: min Σ ((y_j(t_k; p) − ŷ_jk)/σ_j)² + Σ ((p_i − μ_i)/s_i)².

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
        records: what was measured, one `Record` or several. Start and velocities of a record may depend on the parameters,
            so that an unknown beginning is a parameter, too.
        measure: a function of (parameters, mechanism, motion) that gives signals by name, (T,) each. None: names of
            signals are names of quantities, see `Record`.
        lower, upper: bounds, trees like `guess`; None where there is no bound.
        priors: a tree like `guess` with pairs (mean, standard deviation), for some of its numbers.
        segments: number of segments into which each record is cut; its times must then be evenly spaced.
        step, method, formulation: as for `simulate`.
        starts: number of starts.
        steps: largest number of Levenberg–Marquardt steps from each start.
        seed: the seed of the random numbers.
        confidence: probability of the intervals.

    Returns:
        What was `Identified`. Where no start can be simulated, an error says so.

    Raises:
        ValueError: an argument cannot be used, a signal is unknown, or there are fewer values than parameters.

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
    variables = Variables.of(guess, lower, upper, "guess")
    names = _names(guess)
    search = Search.of(starts, seed, 1)
    records = [records] if isinstance(records, Record) else list(records)
    if not records:
        raise ValueError("records are missing: there is nothing to fit")
    for x in records:
        if not isinstance(x, Record):
            raise ValueError(f"records must be of the class mbs.Record, got {type(x).__name__}")
    if isinstance(confidence, str) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a probability between 0 and 1, got {confidence!r}")
    prior, steps = _priors(priors, guess, names), count_of("steps", steps)
    method = instance_of(AbstractMethod, "method", method, RK4())
    formulation = instance_of(AbstractFormulation, "formulation", formulation, Augmented())
    how = None if step is None else float(step), method, formulation
    runs = _runs(build, guess, records, measure, count_of("segments", segments), how)
    values = sum(record.values.size for record in records)
    if values + len(prior) < len(names):
        raise ValueError(f"{values} measured values and {len(prior)} priors are fewer than the {len(names)} parameters")
    known = [record.deviations is not None for record in records]
    if any(known) and not all(known):
        raise ValueError("deviations are given for some records only")
    noise = _noise(records)
    problem = Problem(variables, runs, prior)
    u = problem.starts(search)
    problem.track(u, noise)
    u, rows, settled = problem.descended(u, noise, steps)
    order = best_first(rows.cost)
    if not len(order):
        raise ValueError(f"at no start could all records be simulated: {problem.why}")
    others = problem.others(u, rows.cost, order[settled[order]] if settled[order[0]] else order[:1])
    u, settled = u[order[:1]], settled[order[:1]]
    problem.of(order[:1])
    rows = problem.rows(u, noise, WEIGHTS[-1])
    for _ in range(0 if all(known) else REESTIMATED):
        noise = problem.noise(rows, noise)
        u, rows, settled = problem.descended(u, noise, steps, WEIGHTS[-1:])
    gap = problem.gap(rows)
    converged = bool(settled[0]) and gap <= CLOSED
    if not converged:
        warnings.warn("the identification has not converged; see its `explain`", stacklevel=2)
    return _identified(build, variables, names, problem, u, rows, noise, others, confidence, all(known), converged)


def _names(guess) -> tuple[str, ...]:
    """A name for each number of a tree."""
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(guess)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        places = [".".join(map(str, place)) for place in np.ndindex(np.shape(leaf))]
        found += [".".join(part for part in (name, place) if part) or "parameter" for place in places]
    return tuple(found)


def _priors(priors, guess, names) -> list[tuple[int, float, float]]:
    """(place, mean, deviation) of those that are given."""
    found: list[tuple[int, float, float]] = []

    def walk(given, part, name: str) -> None:
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
            found.append((names.index(name), float(given[0]), float(given[1])))
        else:
            if not isinstance(part, (tuple, list, np.ndarray, jax.Array)) or len(given) != len(part):
                raise ValueError(
                    f"priors of {name or 'the guess'} must be one for each of its numbers, or None, got {given!r}"
                )
            for k, (one, inner) in enumerate(zip(given, part, strict=True)):
                walk(one, inner, f"{name}.{k}" if name else str(k))

    walk(priors, guess, "")
    return found


def _runs(build, guess, records: list[Record], measure, segments: int, how: tuple) -> list[Run]:
    mech = build(jax.tree.map(jnp.asarray, guess))
    if not isinstance(mech, Mechanism):
        raise ValueError(f"build must be a function that gives a Mechanism, but it gives {type(mech).__name__}")
    if segments > 1 and is_driven(mech):
        raise ValueError("drivers determine this motion; segments are for motions under forces")
    if segments > 1 and state_names(mech):
        raise ValueError(
            f"segments cannot begin with states of forces that are not known: {', '.join(state_names(mech))}"
        )
    tree, shapes = jax.tree.structure(guess), tuple(np.shape(leaf) for leaf in jax.tree.leaves(guess))
    found = []
    for k, record in enumerate(records):
        if measure is None:
            for name in record.names:
                try:
                    quantity(mech, name)
                except ValueError as error:
                    raise ValueError(f"record {k}: {error}") from None
        apart, count = np.diff(record.times), min(segments, len(record.times) - 1)
        if count > 1 and np.ptp(apart) > 1e-6 * apart.max():
            raise ValueError(f"record {k}: segments need evenly spaced times")
        length = -(-len(apart) // count)
        count = -(-len(apart) // length)
        after = record.times - record.times[0] if count == 1 else np.mean(apart) * np.arange(length + 1)
        # Runs that began at other times are sampled the same but for rounding, and then need the same program.
        after = np.round(after / after[-1], 12) * float(f"{after[-1]:.12g}")
        start, velocities = (x if callable(x) else None for x in (record.start, record.velocities))
        model = Model(build, tree, shapes, record.names, measure, start, velocities, tuple(after.tolist()), *how)
        try:
            hash(model)
        except TypeError as error:
            raise ValueError(f"build, measure, start and method must be hashable, as functions are: {error}") from None
        found.append(Run(record, model, count, mech.layout))
    return found


def _noise(records: list[Record]) -> dict[str, float]:
    """The deviation of each signal: as given, or to begin with a part of how much it changes."""
    found: dict[str, float] = {}
    for record in records:
        for name, values in record.signals.items():
            spread = float(np.std(values)) or float(np.abs(values).max()) or 1.0
            given = 0.05 * spread if record.deviations is None else record.deviations[name]
            if record.deviations is not None and name in found and found[name] != given:
                raise ValueError(
                    f"signal {name!r} has different deviations in two records: give it two names, by `measure`"
                )
            found[name] = max(found.get(name, 0.0), given)
    return found


def _identified(
    build, variables, names, problem: Problem, u, rows, noise, others, confidence, known: bool, converged: bool
) -> Identified:
    n = len(names)
    x = u[0, :n] * problem.scale
    can_change = variables.upper > variables.lower
    estimate = Estimate.of(rows.slopes[0], x, problem.scale, can_change)
    parameters = problem.parameters(u[0])
    low, high = (bound / problem.scale for bound in (variables.lower, variables.upper))
    near = can_change & ((u[0, :n] <= low + AT_BOUND) | (u[0, :n] >= high - AT_BOUND))
    signals = problem.signals(rows, noise)
    named = [dict(zip(run.model.names, given.T, strict=True)) for run, given in zip(problem.runs, signals, strict=True)]
    residuals = [
        {name: values - run.record.signals[name] for name, values in given.items()}
        for run, given in zip(problem.runs, named, strict=True)
    ]
    count = sum(run.record.values.size for run in problem.runs) + len(problem.prior)
    squares = sum(float(np.sum((x / noise[name]) ** 2)) for record in residuals for name, x in record.items())
    squares += sum(((x[place] - mean) / deviation) ** 2 for place, mean, deviation in problem.prior)
    freedom = count - estimate.rank
    size = statistics.chi_squared(squares, freedom) if known and freedom > 0 else None
    tests = statistics.tests(residuals, noise, size)
    quantile = statistics.quantile(confidence)
    deviation = estimate.deviation
    return Identified(
        parameters,
        names,
        dict(zip(names, x.tolist(), strict=True)),
        dict(zip(names, deviation.tolist(), strict=True)),
        {
            name: (a - quantile * s, a + quantile * s)
            for name, a, s in zip(names, x.tolist(), deviation.tolist(), strict=True)
        },
        confidence,
        estimate.covariance,
        [
            {name: float(part) for name, part in zip(names, direction, strict=True) if abs(part) > 1e-3}
            for direction in estimate.undetermined
        ],
        [name for name, is_near in zip(names, near, strict=True) if is_near],
        noise,
        float(rows.cost[0]),
        tests,
        named,
        residuals,
        build(jax.tree.map(jnp.asarray, parameters)),
        problem.gap(rows),
        converged,
        others,
    )
