"""Parameters of a mechanism from measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.dynamics.methods.method import AbstractMethod
from jaxmbs.dynamics.quantities import determined, quantity
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.stateful import state_names
from jaxmbs.identification import statistics
from jaxmbs.identification.gauss_newton import Rows, minimised
from jaxmbs.identification.records import Record
from jaxmbs.identification.rows import Run
from jaxmbs.identification.shooting import Model
from jaxmbs.identification.statistics import Estimate, Tests
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.synthesis.bounds import Variables
from jaxmbs.synthesis.multistart import Search, best_first, count_of
from jaxmbs.system.mechanism import Mechanism

# Weights of the gaps between segments, one after the other; in units of the deviations of signals.
WEIGHTS = tuple(10.0**k for k in range(8))
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
            not tell, zero where bounds leave no choice.
        intervals: (low, high) by name, in which the parameter lies with probability `confidence`.
        confidence: that probability.
        covariance: (n, n). Directions that are undetermined count as known in it.
        undetermined: directions in which the parameters can change without any signal telling: by name the relative
            changes, the largest of them 1.
        at_bounds: names of parameters that lie on a bound; their intervals mean little.
        noise: the standard deviation of each signal's noise, as given or as estimated.
        cost: the sum of squares in units of the noise, priors included.
        tests: of what is left over; see `Tests`.
        signals: for each record what the model gives, by name (T,).
        residuals: likewise, that minus what was measured.
        mechanism: built from the parameters.
        gap: the largest gap between two segments, relative to the size of the state; 0 in one piece.
        others: parameters and costs of further local minima, the best first.

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
    others: list[tuple[Any, float]]

    @property
    def correlation(self) -> np.ndarray:
        """(n, n), of the estimates; zero where a deviation is."""
        size = np.sqrt(np.diagonal(self.covariance))
        return self.covariance / np.where(size > 0, size, 1.0)[:, None] / np.where(size > 0, size, 1.0)

    def explain(self) -> str:
        """All of it as text."""
        lines = []
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

    y are signals of the motion, ŷ what was measured with deviations σ, and μ, s priors. The motion is that of `simulate`,
    or of `kinematics` where drivers determine it. From several starts, the method of Gauss and Newton, damped after
    Levenberg and Marquardt, follows the exact derivatives of the signals. Covariance and intervals are those of the linear
    model at the estimate, C = (JᵀJ)⁻¹, which holds where noise is normal and small.

    Long or chaotic runs are fitted in `segments`: each begins at a state of its own, which is unknown, and that each
    begins where the one before ends is a condition, first a weak one and at last an exact one (multiple shooting).

    Args:
        build: a function: parameters ↦ mechanism.
        guess: a pytree of numbers, the first start; the other starts are random within the bounds.
        records: what was measured, one `Record` or several. Start and velocities of a record may depend on the parameters,
            so that an unknown beginning is a parameter, too.
        measure: a function of (parameters, mechanism, motion) that gives signals by name, (T,) each. None: names of
            signals are names of quantities, see `Record`.
        lower, upper: bounds, trees like `guess`; None where there is no bound.
        priors: a tree like `guess` with pairs (mean, standard deviation), for some of its numbers.
        segments: how many of them a record is cut into; its times must be evenly spaced then.
        step, method, formulation: as of `simulate`.
        starts: number of starts.
        steps: of the method, at most, from each start.
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
    records = [records] if isinstance(records, Record) else [instance_of(Record, "records", x, None) for x in records]
    if not records:
        raise ValueError("records are missing: there is nothing to fit")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be a probability between 0 and 1, got {confidence!r}")
    prior = _priors(priors, guess, names)
    runs = _runs(build, guess, variables, records, measure, count_of("segments", segments), (step, method, formulation))
    values = sum(record.values.size for record in records)
    if values + len(prior) < len(names):
        raise ValueError(f"{values} measured values and {len(prior)} priors are fewer than the {len(names)} parameters")
    known = [record.deviations is not None for record in records]
    if any(known) and not all(known):
        raise ValueError("deviations are given for some records only")
    noise = _noise(records)
    problem = _Problem(variables, runs, prior)
    u = problem.starts(search)
    problem.track(u, noise)
    u, rows = problem.descended(u, noise, steps)
    order = best_first(rows.cost)
    if not len(order):
        raise ValueError("at no start could all records be simulated: give a better guess, or narrower bounds")
    others = problem.others(u, rows.cost, order)
    u = u[order[:1]]
    problem.of(order[:1])
    if all(known):
        rows = problem.rows(u, noise, WEIGHTS[-1])
    else:
        for _ in range(REESTIMATED):
            rows = problem.rows(u, noise, WEIGHTS[-1])
            noise = problem.noise(rows, noise)
            u, rows = problem.descended(u, noise, steps, WEIGHTS[-1:])
    return _identified(build, variables, names, problem, u, noise, others, confidence, all(known))


class _Problem:
    """Rows of all records and of priors, by the parameters in units of their sizes and the states where segments begin."""

    def __init__(self, variables: Variables, runs: list[Run], prior: list[tuple[int, float, float]]):
        self.variables, self.runs, self.prior = variables, runs, prior
        self.n = len(variables.start)
        self.scale = np.where(variables.start != 0, np.abs(variables.start), variables.size)
        self.unknowns = self.n + sum(run.unknowns for run in runs)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of all unknowns."""
        more = np.full(self.unknowns - self.n, np.inf)
        low, high = self.variables.lower / self.scale, self.variables.upper / self.scale
        return np.concatenate([low, -more]), np.concatenate([high, more])

    def starts(self, search: Search) -> np.ndarray:
        """The guess and random ones."""
        free = self.variables.starts(search.rng, search.starts)
        return np.asarray(jax.vmap(self.variables.entries)(free)) / self.scale

    def parameters(self, u: np.ndarray) -> Any:
        """A tree like the guess, with single numbers as such where it has them so."""
        leaves = [
            float(x) if np.ndim(given) == 0 else np.asarray(x)
            for x, given in zip(
                jax.tree.leaves(self.variables.unravel(jnp.asarray(u[: self.n] * self.scale))),
                self.variables.leaves, strict=True,
            )
        ]  # fmt: skip
        return jax.tree.unflatten(jax.tree.structure(self.variables.unravel(jnp.asarray(self.variables.start))), leaves)

    def others(self, u: np.ndarray, cost: np.ndarray, order: np.ndarray) -> list[tuple[Any, float]]:
        """Other local minima than the first."""
        marks, found = [u[order[0], : self.n]], []
        for k in order[1:]:
            mark = u[k, : self.n]
            if min(np.abs(mark - other).max() for other in marks) > 1e-3:
                marks.append(mark)
                found.append((self.parameters(u[k]), float(cost[k])))
        return found

    def track(self, u: np.ndarray, noise: dict[str, float]) -> None:
        """Find where segments begin."""
        for run in self.runs:
            run.track(u * self.scale, _of(run, noise))
        self.unknowns = self.n + sum(run.unknowns for run in self.runs)

    def of(self, keep: np.ndarray) -> None:
        """Go on with some of the starts."""
        for run in self.runs:
            run.of(keep)

    def descended(
        self, u: np.ndarray, noise, steps: int, weights: Sequence[float] = WEIGHTS
    ) -> tuple[np.ndarray, Rows]:
        """Where the rows are least, with gaps that count more and more."""
        u = np.concatenate([u, np.zeros((len(u), self.unknowns - u.shape[1]))], axis=1)
        for weight in weights if self.unknowns > self.n else weights[-1:]:
            u, rows = minimised(lambda u, weight=weight: self.rows(u, noise, weight), u, steps, self.bounds)
        return u, rows

    def rows(self, u: np.ndarray, noise, weight: float) -> Rows:
        """Rows with their slopes by all unknowns; weight: of gaps between segments."""
        x = u[:, : self.n] * self.scale
        values, slopes, good, at = [], [], np.ones(len(u), bool), self.n
        for run in self.runs:
            rows = run.rows(x, u[:, at : at + run.unknowns], _of(run, noise), weight)
            wide = np.zeros((*rows.slopes.shape[:2], u.shape[1]))
            wide[..., : self.n] = rows.slopes[..., : self.n]
            wide[..., at : at + run.unknowns] = rows.slopes[..., self.n :]
            values.append(rows.values)
            slopes.append(wide)
            good &= rows.good
            at += run.unknowns
        for place, mean, deviation in self.prior:
            row = np.zeros((len(u), 1, u.shape[1]))
            row[:, 0, place] = 1 / deviation
            values.append((x[:, place : place + 1] - mean) / deviation)
            slopes.append(row)
        by = np.concatenate(slopes, axis=1)
        by[..., : self.n] *= self.scale
        return Rows(np.concatenate(values, axis=1), by, good)

    def signals(self, rows: Rows, noise) -> list[np.ndarray]:
        """What the model gives for each record, (T, s), from the rows of one start."""
        found, at = [], 0
        for run in self.runs:
            count = run.count * (run.length + 1) * len(run.model.names) + run.unknowns
            own = Rows(rows.values[:, at : at + count], rows.slopes, rows.good)
            found.append(run.predicted(own, _of(run, noise)))
            at += count
        return found

    def noise(self, rows: Rows, noise: dict[str, float]) -> dict[str, float]:
        """Deviations of the signals as what is left over has them."""
        squares, counts = dict.fromkeys(noise, 0.0), dict.fromkeys(noise, 0)
        for run, given in zip(self.runs, self.signals(rows, noise), strict=True):
            for k, name in enumerate(run.model.names):
                squares[name] += float(np.sum((given[:, k] - run.record.values[:, k]) ** 2))
                counts[name] += len(given)
        total = sum(counts.values())
        left = max(total - self.n, 1) / total
        least = {name: 1e-12 * max(np.abs(run.record.signals[name]).max() or 1.0 for run in self.runs
                                   if name in run.record.signals) for name in noise}  # fmt: skip
        return {name: max(math.sqrt(squares[name] / (counts[name] * left)), least[name]) for name in noise}


def _of(run: Run, noise: dict[str, float]) -> np.ndarray:
    return np.array([noise[name] for name in run.model.names])


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
    is_pair = lambda x: isinstance(x, tuple) and len(x) == 2
    given = {
        jax.tree_util.keystr(path, simple=True, separator="."): pair
        for path, pair in jax.tree_util.tree_flatten_with_path(priors, is_leaf=is_pair)[0]
    }
    found = []
    if isinstance(guess, (int, float)) and is_pair(priors):
        given = {"parameter": priors}
    for name, pair in given.items():
        if name not in names:
            raise ValueError(f"priors name {name!r}, which is no parameter; there are {', '.join(names)}")
        if not is_pair(pair) or not np.all(np.isfinite(pair)) or not pair[1] > 0:
            raise ValueError(f"the prior of {name!r} must be a pair (mean, positive standard deviation), got {pair!r}")
        found.append((names.index(name), float(pair[0]), float(pair[1])))
    return found


def _runs(build, guess, variables: Variables, records: list[Record], measure, segments: int, how: tuple) -> list[Run]:
    mech = build(jax.tree.map(jnp.asarray, guess))
    if not isinstance(mech, Mechanism):
        raise ValueError(f"build must be a function that gives a Mechanism, but it gives {type(mech).__name__}")
    if segments > 1 and determined(mech):
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
        start, velocities = (x if callable(x) else None for x in (record.start, record.velocities))
        model = Model(build, tree, shapes, record.names, measure, start, velocities, tuple(after.tolist()), *how)
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


def _identified(build, variables, names, problem: _Problem, u, noise, others, confidence, known: bool) -> Identified:
    n = len(names)
    rows = problem.rows(u, noise, WEIGHTS[-1])
    x = u[0, :n] * problem.scale
    can_change = variables.upper > variables.lower
    estimate = Estimate.of(rows.slopes[0], x, problem.scale, can_change)
    parameters = problem.parameters(u[0])
    width = np.where(np.isfinite(variables.upper - variables.lower), variables.upper - variables.lower, np.abs(x) + 1)
    near = can_change & ((x - variables.lower <= 1e-5 * width) | (variables.upper - x <= 1e-5 * width))
    signals = problem.signals(rows, noise)
    named = [dict(zip(run.model.names, given.T, strict=True)) for run, given in zip(problem.runs, signals, strict=True)]
    residuals = [
        {name: values - run.record.signals[name] for name, values in given.items()}
        for run, given in zip(problem.runs, named, strict=True)
    ]
    values = sum(run.record.values.size for run in problem.runs)
    tests = statistics.tests(residuals, noise, values - estimate.rank, known=known)
    quantile = statistics.quantile(confidence)
    deviation = estimate.deviation
    gaps = 0.0
    if any(run.unknowns for run in problem.runs):
        sized, at = [], 0
        for run in problem.runs:
            block = (run.length + 1) * len(run.model.names)
            own = rows.values[0, at : at + run.count * block + run.unknowns]
            sized += [own[(k + 2) * block + k * 2 * run.freedom :][: 2 * run.freedom] for k in range(run.count - 1)]
            at += run.count * block + run.unknowns
        gaps = float(np.abs(np.concatenate(sized)).max(initial=0) / WEIGHTS[-1])
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
        gaps,
        others,
    )
