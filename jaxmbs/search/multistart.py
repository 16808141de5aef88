"""Least squares from many starts at once, and the ranking of the results."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.programs import ProgramWithFallback, shard_over_devices
from jaxmbs.search.least_squares import START_DAMPING, LeastSquaresResult, levenberg_marquardt
from jaxmbs.search.phases import SearchOptions, SearchPhase, run_phases

S = TypeVar("S")
# Designs whose features differ by at most this count as the same, and only the better one is kept. The unit is that of
# the features.
SAME_DESIGN = 1e-3
# Largest number of candidates checked per result asked for; candidates that fail their checks are replaced by the next.
MAX_CANDIDATES_PER_RESULT = 4
# Default number of steps between two progress reports of `descend`.
STEPS_PER_REPORT = 25
# Factor on violations of bounds, residuals that are squared and added like the errors: in the first phase of
# `penalty_phases`, and in all phases of searches that do not raise it.
PENALTY_START = 10.0
# Factor on the penalty weight from each phase of the best starts to the next; the first has `PENALTY_START`.
PENALTY_GROWTH = 10.0
# Number of steps of all starts, in the first phase of `penalty_phases`, with `PENALTY_START`.
STEPS_ALL_STARTS = 100
# Number of steps of the best starts in each later phase of `penalty_phases`; the penalty begins at `PENALTY_START`
# again.
STEPS_BEST_STARTS = (300, 100, 100)


@dataclasses.dataclass(frozen=True)
class Ranked(Generic[S]):
    """Results of a search.

    Attributes:
        all: solutions, the best one first. Those that pass their checks come before others.

    Examples:
        >>> found = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20))
        >>> found.best is found.all[0]
        True
    """

    all: list[S]

    @property
    def best(self) -> S:
        """The first of `all`: the best solution."""
        return self.all[0]


class MultistartCarry(NamedTuple):
    """All that further steps depend on, a row for each start.

    Attributes:
        shared: as of `levenberg_marquardt`, like own, carried, cost and damping.
        own: unknowns of the blocks.
        carried: values that the blocks carry from step to step.
        cost: sums of squares.
        damping: Marquardt's damping.
        data: constants of the starts, such as branches.
    """

    shared: Any
    own: Any
    carried: Any
    cost: Any
    damping: Any
    data: Any

    @classmethod
    def at_start(
        cls, shared: np.ndarray, data: Any, own: np.ndarray | None = None, carried: Any = ()
    ) -> MultistartCarry:
        """Return the carry before the first step; without `own`, blocks have no unknowns of their own."""
        count = len(shared)
        own = np.zeros((count, 0, 0)) if own is None else own
        return cls(shared, own, carried, np.full(count, np.inf), np.full(count, START_DAMPING), data)


class LeastSquaresProblem(abc.ABC):
    """Least squares from one start. Equal problems must have the same hash, so that their programs are compiled once.

    Attributes:
        max_step: largest change of an unknown in one step.
        reverse: as of `levenberg_marquardt`.
    """

    max_step: ClassVar[float] = 0.5
    reverse: ClassVar[bool] = False

    @abc.abstractmethod
    def residual_functions(self, data: Any, inputs: Any) -> tuple[Callable[..., Any], Callable[..., Any], Any]:
        """Return residual, prior and the data of the blocks, or a function for these, as `levenberg_marquardt` takes them.

        Args:
            data: constants of the start, see `MultistartCarry`.
            inputs: of the phase, the same for all starts.
        """


class LeastSquaresPhase(NamedTuple):
    """Steps of the best starts, or of all of them if `best` is None; inputs as of `LeastSquaresProblem`."""

    steps: int
    inputs: Any
    best: int | None = None


def penalty_phases(inputs: tuple[Any, ...], best: int) -> list[LeastSquaresPhase]:
    """Return phases whose penalty weight, appended to the inputs, grows, so that bounds are kept at any cost in error."""
    further = [
        LeastSquaresPhase(steps, (*inputs, PENALTY_START * PENALTY_GROWTH**k), best)
        for k, steps in enumerate(STEPS_BEST_STARTS)
    ]
    return [LeastSquaresPhase(STEPS_ALL_STARTS, (*inputs, PENALTY_START)), *further]


def descend(
    problem: LeastSquaresProblem,
    carry: MultistartCarry,
    phases: Sequence[LeastSquaresPhase],
    options: SearchOptions,
    *,
    unit: float = 1.0,
    task: Sequence[Any] = (),
    steps_per_report: int = STEPS_PER_REPORT,
) -> MultistartCarry:
    """Minimise the least squares of all starts by the method of Levenberg and Marquardt, phase by phase.

    Args:
        problem: the least squares.
        carry: the starts.
        phases: the phases in their order.
        options: of the search; progress and resume are used here.
        unit: errors are reported in units of its square.
        task: identifies the search in the file from which it resumes.
        steps_per_report: number of steps between two reports.

    Returns:
        The carry after all phases; costs that are not finite are infinite.
    """
    parts = [
        SearchPhase(phase.steps, steps_per_report, step_function(problem, phase.inputs), _selection(phase.best))
        for phase in phases
    ]
    least_error = lambda carry: float(finite_costs(carry.cost).min() * unit**2)
    identity = (*task, options.starts, options.seed)
    marks = [np.asarray(x, float) if isinstance(x, np.ndarray) else str(x) for x in identity]
    carry = run_phases(parts, carry, options, least_error=least_error, task=marks)
    return carry._replace(cost=finite_costs(carry.cost))


def step_function(problem: LeastSquaresProblem, inputs: Any) -> Callable[[MultistartCarry, int], MultistartCarry]:
    """Return the function (carry, steps) ↦ carry of a problem, as `SearchPhase` takes it."""

    def advance(carry: MultistartCarry, steps: int) -> MultistartCarry:
        """Return the carry of all starts after these steps, computed on all devices."""
        shared, own, carried, _, damping, data = carry
        rows = shard_over_devices((shared, own, carried, damping, data), everywhere=True)
        result = _compiled_steps(problem, steps)(*rows, inputs)
        # Blocks without unknowns of their own keep the empty shape that says so: another shape would be traced again.
        own = result.own if own.shape[1] else own
        return MultistartCarry(result.shared, own, result.carried, result.cost, result.damping, data)

    return advance


def _selection(count: int | None) -> Callable[[MultistartCarry], MultistartCarry]:
    """Return a function that picks the starts with the least costs and resets their damping; None keeps all of them."""

    def select(carry: MultistartCarry) -> MultistartCarry:
        """Return the carry of the chosen starts, the least cost first, with the damping reset."""
        rows = slice(None) if count is None else np.argsort(finite_costs(carry.cost), kind="stable")[:count]
        carry = jax.tree.map(lambda x: x[rows], carry)
        return carry._replace(damping=np.full(len(carry.cost), START_DAMPING))

    return select


@lru_cache(maxsize=64)
def _compiled_steps(problem: LeastSquaresProblem, steps: int) -> Callable[..., LeastSquaresResult]:
    """Return the compiled function (shared, own, carried, damping, data, inputs) ↦ `LeastSquaresResult` of all starts."""

    def one_start(
        shared: Array, own: Array, carried: Any, damping: Array, data: Any, inputs: Any
    ) -> LeastSquaresResult:
        """Return the `LeastSquaresResult` of one start."""
        residual, prior, blocks = problem.residual_functions(data, inputs)
        block_shapes = jax.eval_shape(blocks, shared) if callable(blocks) else blocks
        own = own if own.shape[1] else jnp.zeros((len(jax.tree.leaves(block_shapes)[0]), 0))
        step, reverse = problem.max_step, problem.reverse
        unknowns = shared, own, carried
        return levenberg_marquardt(
            residual, prior, *unknowns, blocks, iterations=steps, max_step=step, damping=damping, reverse=reverse
        )

    return jax.jit(jax.vmap(ProgramWithFallback(one_start), in_axes=(0, 0, 0, 0, 0, None)))


def finite_costs(cost: ArrayLike) -> np.ndarray:
    """Return costs with infinity in place of those that are not finite."""
    cost = np.asarray(cost)
    return np.where(np.isfinite(cost), cost, np.inf)


def order_by_cost(cost: np.ndarray, *ties: np.ndarray) -> np.ndarray:
    """Return the indices of the finite costs, the least first; equal ones are ordered by `ties`."""
    return np.lexsort((*ties, cost))[: np.isfinite(cost).sum()]


class DistinctDesigns:
    """Feature vectors of the designs found so far that differ from each other."""

    def __init__(self) -> None:
        self.features: np.ndarray | None = None

    def __len__(self) -> int:
        return 0 if self.features is None else len(self.features)

    def add(self, features: np.ndarray) -> bool:
        """Add a design if it differs from all others; return True if it does."""
        if self.features is None:
            self.features = features[None]
            return True
        is_new = bool(np.abs(self.features - features).max(axis=1, initial=0).min() >= SAME_DESIGN)
        if is_new:
            self.features = np.vstack([self.features, features])
        return is_new


def rank_candidates(
    candidates: Iterable[tuple[np.ndarray, Callable[[], tuple[S, bool]]]],
    keep: int,
    *,
    key: Callable[[S], Any] = lambda solution: 0,
    enough: int | None = None,
    max_checked: int | None = None,
    message: str = "nothing was found",
) -> Ranked[S]:
    """Check candidates and rank the different ones.

    Args:
        candidates: the best first, each as (features that tell designs apart, check); check() returns the solution and
            True if it passes.
        keep: number of results.
        key: sort key of solutions; those that pass come first.
        enough: the search ends when this many have passed, `keep` unless given.
        max_checked: largest number of candidates that are checked.
        message: of the error if there is no candidate at all.

    Returns:
        The `keep` best solutions.

    Raises:
        ValueError: there is no candidate.
    """
    passed: list[S] = []
    failed: list[S] = []
    distinct, enough = DistinctDesigns(), keep if enough is None else enough
    max_checked = MAX_CANDIDATES_PER_RESULT * enough if max_checked is None else max_checked
    for features, check in candidates:
        if distinct.add(features):
            solution, passes = check()
            (passed if passes else failed).append(solution)
        if len(passed) == enough or len(distinct) == max_checked:
            break
    if not passed and not failed:
        raise ValueError(message)
    return Ranked([*sorted(passed, key=key), *sorted(failed, key=key)][:keep])
