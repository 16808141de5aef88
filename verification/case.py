"""How a case of the verification manual is stated, and run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import jaxmbs as mbs
from linkages import reference


class Simulation(NamedTuple):
    """A way to simulate.

    Attributes:
        step: the largest inner step, in seconds; None for `Adaptive`, which has a tolerance.
        method, formulation: as `mbs.simulate` takes them.
    """

    step: float | None
    method: Any = mbs.RK4()
    formulation: Any = mbs.Augmented()

    def run(self, mech, times, q0=None, v0=None):
        """`mbs.simulate` in this way; a motion that fails raises an error."""
        given = {"step": self.step, "method": self.method, "formulation": self.formulation, "throw": True}
        return mbs.simulate(mech, times, q0, v0, **given)

    def reactions(self, mech, run):
        """`mbs.reactions` in the same formulation."""
        return mbs.reactions(mech, run, formulation=self.formulation)

    @property
    def coordinates(self) -> str:
        return type(self.formulation).__name__

    @property
    def label(self) -> str:
        name = type(self.method).__name__
        if self.step is None:
            return f"{name}, {float(self.method.rtol):g}"
        return f"{name}, {1e3 * self.step:g} ms"


class Analysis(NamedTuple):
    """What is not a simulation: the function that is called."""

    label: str
    coordinates: str = "Cartesian"


KINEMATICS = Analysis("kinematics")
EQUATIONS = Analysis("Φ, Φ_q, ν, γ")
DIAGNOSIS = Analysis("diagnose")
SINGULARITIES = Analysis("find_singularities")
GRADIENT = Analysis("gradient of kinematics")


class Comparison(NamedTuple):
    """One line of the table: what was compared, how far off it is, and how far it may be; `unit` is empty for numbers."""

    what: str
    deviation: float
    tolerance: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        return bool(self.deviation <= self.tolerance)


def close(what: str, found, wanted, tolerance: float, unit: str = "") -> Comparison:
    """The largest |found − wanted| of arrays that broadcast; what is not finite is infinitely far off."""
    return Comparison(what, _largest(np.subtract(found, wanted)), tolerance, unit)


def near(what: str, found, wanted, tolerance: float) -> Comparison:
    """The largest |found − wanted| / |wanted|, entry by entry."""
    return Comparison(what, _largest(np.subtract(found, wanted) / np.asarray(wanted)), tolerance, "relative")


def same(what: str, found, wanted) -> Comparison:
    """Whether words, names or whole numbers are the same."""
    return Comparison(what, 0.0 if found == wanted else np.inf, 0.0, "the same")


def below(what: str, found, limit: float, unit: str = "") -> Comparison:
    """A number that may be anything from 0 to a limit, such as an error that is to beat a published one."""
    return Comparison(what, _largest(found), limit, unit)


def _largest(values) -> float:
    values = np.abs(np.asarray(values, float))
    return float(values.max(initial=0.0)) if np.isfinite(values).all() else np.inf


@dataclass(frozen=True)
class Case:
    """A problem in one way of computing it.

    Attributes:
        source: key of `sources.SOURCES`.
        problem: which one of the source, and what it is.
        by: the `Simulation` or `Analysis`.
        references: names of files in tests/references whose contents `compute` is given.
        quick: whether `make test` runs it; other cases are run by `make verify` only.
        compute: (by, *references) ↦ comparisons.
    """

    source: str
    problem: str
    by: Simulation | Analysis
    references: tuple[str, ...]
    quick: bool
    compute: Callable[..., Iterator[Comparison]] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.source}: {self.problem}, {self.by.coordinates}, {self.by.label}"

    def comparisons(self) -> list[Comparison]:
        """Compute and compare."""
        return list(self.compute(self.by, *map(reference, self.references)))


CASES: dict[str, Case] = {}


def case(
    source: str, problem: str, *ways: Simulation | Analysis, references: tuple[str, ...] = (), quick: bool = False
):
    """Register (by, *references) ↦ comparisons as a case, once for each way; of these only the first may be quick."""

    def register(compute):
        for k, by in enumerate(ways):
            new = Case(source, problem, by, references, quick and k == 0, compute)
            if new.name in CASES:
                raise ValueError(f"two verification cases are called {new.name!r}")
            CASES[new.name] = new
        return compute

    return register


class Result(NamedTuple):
    """What a case gave; `error` is the text of an exception, else empty, and `seconds` are those of the processor."""

    name: str
    comparisons: list[Comparison]
    seconds: float
    error: str = ""

    @property
    def holds(self) -> bool:
        return not self.error and bool(self.comparisons) and all(line.holds for line in self.comparisons)


def run(name: str) -> Result:
    """A case by its name; an exception is a result, too."""
    begin = time.process_time()
    try:
        comparisons, error = CASES[name].comparisons(), ""
    except Exception as failure:
        comparisons, error = [], f"{type(failure).__name__}: {failure}"
    return Result(name, comparisons, time.process_time() - begin, error)
