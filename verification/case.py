"""Cases of the verification manual: registration, comparisons, results."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import jaxmbs as mbs
from linkages import reference


class Simulation(NamedTuple):
    """Options of a simulation.

    Attributes:
        step: largest inner step (s); None for `Adaptive`, which has a tolerance.
        method, formulation: as in `mbs.simulate`.
    """

    step: float | None
    method: Any = mbs.RK4()
    formulation: Any = mbs.Augmented()

    def run(self, mech, times, q0=None, v0=None):
        """Simulate with these options; raise an error if the motion fails."""
        given = {"step": self.step, "method": self.method, "formulation": self.formulation, "throw": True}
        return mbs.simulate(mech, times, q0, v0, **given)

    def reactions(self, mech, run):
        """Return `mbs.reactions` in the same formulation."""
        return mbs.reactions(mech, run, formulation=self.formulation)

    @property
    def coordinates(self) -> str:
        """Return the name of the formulation, for the name of a case."""
        return type(self.formulation).__name__

    @property
    def label(self) -> str:
        """Return the name of the method with its step in ms, or its tolerance."""
        name = type(self.method).__name__
        if self.step is None:
            return f"{name}, {float(self.method.rtol):g}"
        return f"{name}, {1e3 * self.step:g} ms"


class Analysis(NamedTuple):
    """Any other analysis, by the name of the function that is called."""

    label: str
    coordinates: str = "Cartesian"


# Analysis by `mbs.kinematics`.
KINEMATICS = Analysis("kinematics")
# Evaluation of Φ, Φ_q, ν and γ at given states.
EQUATIONS = Analysis("Φ, Φ_q, ν, γ")
# Analysis by `mbs.diagnose`.
DIAGNOSIS = Analysis("diagnose")
# Analysis by `mbs.find_singularities`.
SINGULARITIES = Analysis("find_singularities")
# Derivatives of `mbs.kinematics` by the design.
GRADIENT = Analysis("gradient of kinematics")


class Comparison(NamedTuple):
    """One line of the table: name of the quantity, deviation, tolerance, and unit (empty for numbers)."""

    quantity: str
    deviation: float
    tolerance: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Return True if the deviation is within the tolerance."""
        return bool(self.deviation <= self.tolerance)


def close(quantity: str, found, wanted, tolerance: float, unit: str = "") -> Comparison:
    """Compare arrays by the largest |found − wanted|, infinite if a value is not finite."""
    return Comparison(quantity, _largest(np.subtract(found, wanted)), tolerance, unit)


def near(quantity: str, found, wanted, tolerance: float) -> Comparison:
    """Compare arrays by the largest |found − wanted| / |wanted| of an entry."""
    return Comparison(quantity, _largest(np.subtract(found, wanted) / np.asarray(wanted)), tolerance, "relative")


def same(quantity: str, found, wanted) -> Comparison:
    """Compare words, names or whole numbers for equality."""
    return Comparison(quantity, 0.0 if found == wanted else np.inf, 0.0, "the same")


def below(quantity: str, found, limit: float, unit: str = "") -> Comparison:
    """Check that the size of numbers is below a limit, such as a published error."""
    return Comparison(quantity, _largest(found), limit, unit)


def _largest(values) -> float:
    """Return the largest absolute value, infinity if a value is not finite."""
    values = np.abs(np.asarray(values, float))
    return float(values.max(initial=0.0)) if np.isfinite(values).all() else np.inf


@dataclass(frozen=True)
class Case:
    """A problem computed by one analysis.

    Attributes:
        source: key of `sources.SOURCES`.
        problem: number and title of the problem in the source.
        by: the `Simulation` or `Analysis`.
        references: names of files in tests/references, whose contents are arguments of `compute`.
        quick: True if `make test` runs the case; others are run by `make test-slow` and `make verify`.
        compute: function (by, *references) that yields comparisons.
    """

    source: str
    problem: str
    by: Simulation | Analysis
    references: tuple[str, ...]
    quick: bool
    compute: Callable[..., Iterator[Comparison]] = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name of the case: source, problem, formulation and method."""
        return f"{self.source}: {self.problem}, {self.by.coordinates}, {self.by.label}"

    def comparisons(self) -> list[Comparison]:
        """Compute the case and return its comparisons."""
        return list(self.compute(self.by, *map(reference, self.references)))


# All cases by name.
CASES: dict[str, Case] = {}


def case(
    source: str, problem: str, *analyses: Simulation | Analysis, references: tuple[str, ...] = (), quick: bool = False
):
    """Decorate `compute`: register a case for each analysis; only the first of them may be quick."""

    def register(compute):
        """Register the function as the computation of a case for each analysis."""
        for k, by in enumerate(analyses):
            new = Case(source, problem, by, references, quick and k == 0, compute)
            if new.name in CASES:
                raise ValueError(f"two verification cases are called {new.name!r}")
            CASES[new.name] = new
        return compute

    return register


class Result(NamedTuple):
    """Comparisons of a case, with processor seconds; `error` is the text of an exception, else empty."""

    name: str
    comparisons: list[Comparison]
    seconds: float
    error: str = ""

    @property
    def holds(self) -> bool:
        """Return True if no exception was raised and all comparisons hold."""
        return not self.error and bool(self.comparisons) and all(line.holds for line in self.comparisons)


def run(name: str) -> Result:
    """Run a case by its name; an exception is a result too."""
    begin = time.process_time()
    try:
        comparisons, error = CASES[name].comparisons(), ""
    except Exception as failure:
        comparisons, error = [], f"{type(failure).__name__}: {failure}"
    return Result(name, comparisons, time.process_time() - begin, error)
