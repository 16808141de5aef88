"""The search that all kinds of synthesis share: many starts descend at once, the best are checked and ranked."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.function import Straight
from jaxmbs.programs.sharding import over_devices
from jaxmbs.search.least_squares import START_DAMPING, levenberg_marquardt
from jaxmbs.search.stages import Part, Report, in_stages

S = TypeVar("S")
# Designs whose marks differ by no more than this are the same.
SAME = 1e-3
# Candidates that fail a check are replaced, until this many per result have been tried.
MAX_CANDIDATES_PER_RESULT = 4
# Steps between two reports.
AT_ONCE = 25
# How hard bounds push, in units of what is missed; what a search makes of them where they push more and more: steps of all
# starts, and of the best ones.
PUSH, HARDER, FIRST, FURTHER = 10.0, 10.0, 100, (300, 100, 100)


@dataclasses.dataclass(frozen=True)
class Ranked(Generic[S]):
    """What a search has found.

    Attributes:
        all: solutions, the best one first. Those whose mechanism does what is asked for come before others.

    Examples:
        >>> found = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20))
        >>> found.best is found.all[0]
        True
    """

    all: list[S]

    @property
    def best(self) -> S:
        """The first of all."""
        return self.all[0]


class Search(NamedTuple):
    """How to search: number of starts, seed of the random numbers, number of results, report and file as of `in_stages`."""

    starts: int
    seed: int
    keep: int
    progress: Report | None = None
    resume: str | os.PathLike | None = None

    @classmethod
    def of(cls, starts, seed, keep, progress=None, resume=None) -> Search:
        """Of what a user gives.

        Raises:
            ValueError: no positive number of starts, or of results; a negative seed.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"seed must be an integer that is not negative, got {seed!r}")
        return cls(count_of("starts", starts), int(seed), count_of("keep", keep), progress, resume)

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers, the same for the same seed."""
        return np.random.default_rng(self.seed)


class State(NamedTuple):
    """Everything on which further steps depend, a row for each start.

    Attributes:
        shared, own, carried, cost, damping: as of `levenberg_marquardt`. data: what else belongs to a start.
    """

    shared: Any
    own: Any
    carried: Any
    cost: Any
    damping: Any
    data: Any

    @classmethod
    def begin(cls, shared, data, own=None, carried: Any = ()) -> State:
        """Before the first step; without `own`, blocks have no unknowns of theirs."""
        count = len(shared)
        own = np.zeros((count, 0, 0)) if own is None else own
        return cls(shared, own, carried, np.full(count, np.inf), np.full(count, START_DAMPING), data)


class Problem(abc.ABC):
    """Least squares of one start. Equal problems have the same hash, so that their programs are compiled once.

    Attributes:
        longest: no unknown changes by more in a step. reverse: as of `levenberg_marquardt`.
    """

    longest: ClassVar[float] = 0.5
    reverse: ClassVar[bool] = False

    @abc.abstractmethod
    def rows(self, data: Any, wanted: Any) -> tuple[Callable, Callable, Any]:
        """Residual, prior, and the data of the blocks, or a function that gives them, as `levenberg_marquardt` takes
        them.

        data: of the start, without its axis of starts. wanted: of the stage, the same for all starts.
        """


class Stage(NamedTuple):
    """Steps of the best starts, or of all of them; `wanted` as of `Problem`."""

    steps: int
    wanted: Any
    best: int | None = None


def pushing_harder(wanted: tuple, best: int) -> list[Stage]:
    """Stages with a push at the end of `wanted` that grows: bounds that cost much error would not be kept otherwise."""
    further = [Stage(steps, (*wanted, PUSH * HARDER**k), best) for k, steps in enumerate(FURTHER)]
    return [Stage(FIRST, (*wanted, PUSH)), *further]


def descended(
    problem: Problem,
    state: State,
    stages: Sequence[Stage],
    search: Search,
    *,
    unit: float = 1.0,
    task: Sequence = (),
    at_once: int = AT_ONCE,
) -> State:
    """The state after all stages of a descent by the method of Levenberg and Marquardt; costs that are not numbers become
    infinite.

    Args:
        unit: errors are reported in units of its square. task: what tells this search from others, in a file.
        at_once: steps between two reports.
    """
    parts = [Part(stage.steps, at_once, advancing(problem, stage.wanted), _best(stage.best)) for stage in stages]
    least = lambda state: float(finite(state.cost).min() * unit**2)
    marks = [np.asarray(x, float) if isinstance(x, np.ndarray) else str(x) for x in (*task, *search[:2])]
    state = in_stages(parts, state, best=least, progress=search.progress, resume=search.resume, task=marks)
    return state._replace(cost=finite(state.cost))


def advancing(problem: Problem, wanted) -> Callable[[State, int], State]:
    """Steps of a problem, as a `Part` takes them."""

    def advance(state: State, steps: int) -> State:
        shared, own, carried, _, damping, data = state
        fit = _program(problem, steps)(*over_devices((shared, own, carried, damping, data), everywhere=True), wanted)
        # Blocks without unknowns of their own keep the shape that tells so: another one would be traced again.
        return State(fit.shared, fit.own if own.shape[1] else own, fit.state, fit.cost, fit.damping, data)

    return advance


def _best(count: int | None):
    """The best starts, with Marquardt's damping as at the beginning."""

    def select(state: State) -> State:
        rows = slice(None) if count is None else np.argsort(finite(state.cost), kind="stable")[:count]
        state = jax.tree.map(lambda x: x[rows], state)
        return state._replace(damping=np.full(len(state.cost), START_DAMPING))

    return select


@lru_cache(maxsize=64)
def _program(problem: Problem, steps: int):
    """Steps of all starts at once."""

    def of_one(shared, own, carried, damping, data, wanted):
        residual, prior, blocks = problem.rows(data, wanted)
        of_blocks = jax.eval_shape(blocks, shared) if callable(blocks) else blocks
        own = own if own.shape[1] else jnp.zeros((len(jax.tree.leaves(of_blocks)[0]), 0))
        options = {"iterations": steps, "longest": problem.longest, "damping": damping, "reverse": problem.reverse}
        return levenberg_marquardt(residual, prior, shared, own, carried, blocks, **options)

    return jax.jit(jax.vmap(Straight(of_one), in_axes=(0, 0, 0, 0, 0, None)))


def finite(cost) -> np.ndarray:
    """Costs, of which those that are not numbers count as infinite."""
    cost = np.asarray(cost)
    return np.where(np.isfinite(cost), cost, np.inf)


def best_first(cost, *then) -> np.ndarray:
    """Which have finite costs, the least first; where these are equal the least of `then`."""
    return np.lexsort((*then, cost))[: np.isfinite(cost).sum()]


class Seen:
    """Rows of numbers that tell designs apart."""

    def __init__(self) -> None:
        self.marks: np.ndarray | None = None

    def __len__(self) -> int:
        return 0 if self.marks is None else len(self.marks)

    def is_new(self, mark: np.ndarray) -> bool:
        """Whether no mark until now is the same; from now on this one is known."""
        if self.marks is None:
            self.marks = mark[None]
            return True
        new = bool(np.abs(self.marks - mark).max(axis=1, initial=0).min() >= SAME)
        if new:
            self.marks = np.vstack([self.marks, mark])
        return new


def ranked(
    candidates: Iterable[tuple[np.ndarray, Callable[[], tuple[S, bool]]]],
    keep: int,
    *,
    key: Callable[[S], Any] = lambda solution: 0,
    enough: int | None = None,
    tries: int | None = None,
    nothing: str = "nothing was found",
) -> Ranked[S]:
    """The best of different candidates.

    Args:
        candidates: the best first; what tells each from others, and the check that gives its solution and whether this
            does what is asked for.
        key: the order of solutions; those that do what is asked for come first.
        enough: the search ends with this number of good ones, `keep` unless given.
        tries: the largest number of candidates that are checked.
        nothing: the message where there is no candidate at all.

    Raises:
        ValueError: no candidate.
    """
    good: list[S] = []
    others: list[S] = []
    seen, enough = Seen(), keep if enough is None else enough
    tries = MAX_CANDIDATES_PER_RESULT * enough if tries is None else tries
    for mark, check in candidates:
        if seen.is_new(mark):
            solution, fine = check()
            (good if fine else others).append(solution)
        if len(good) == enough or len(seen) == tries:
            break
    if not good and not others:
        raise ValueError(nothing)
    return Ranked([*sorted(good, key=key), *sorted(others, key=key)][:keep])


def count_of(name: str, value) -> int:
    """A number of things, at least one."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)
