"""The least value of a differentiable function of a design, from many starts at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from jaxmbs.programs.sharding import gathered, over_devices
from jaxmbs.search import bfgs
from jaxmbs.search.bfgs import Point
from jaxmbs.search.bounds import Variables
from jaxmbs.search.multistart import Ranked, Search, best_first, ranked
from jaxmbs.search.stages import Part, Report, in_stages

# Adam's first step, in free numbers: a fortieth of the way between two bounds, or a twentieth of an entry without bounds.
RATE = 0.05
# So many steps between two reports.
ADAM_STAGE, BFGS_STAGE = 25, 10


class Design(NamedTuple):
    """A design that has been found.

    Attributes:
        design: a tree like the one that was given; single numbers as such, others as arrays.
        value: that of the objective.
        checks: what the objective gives beside its value, as numbers and arrays; and "slope", which tells how far from
            a minimum the search ended: the largest derivative of the objective by a free number, where 1 is the way
            from the middle between two bounds to one of them or, without bounds, the size of the entry.

    Examples:
        >>> best = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20)).best
        >>> round(best.design, 6), round(best.value, 6)
        (3.0, 0.0)
    """

    design: Any
    value: float
    checks: dict[str, Any]


class State(NamedTuple):
    """Where a search stands, all that it depends on; one row for each start.

    Attributes:
        point: free numbers u, value and slopes. best_u, best: where the value was least until now, and that.
        memory: the optimiser's state, as a row of numbers.
    """

    point: Point
    best_u: Float[np.ndarray, "starts n"]
    best: Float[np.ndarray, " starts"]
    memory: Float[np.ndarray, "starts k"]


def minimise(
    objective: Callable[[Any], Any],
    design: Any,
    *,
    lower: Any = None,
    upper: Any = None,
    starts: int = 64,
    seed: int = 0,
    keep: int = 10,
    steps: tuple[int, int] = (300, 60),
    samples: Any = None,
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[Design]:
    """The least values of objective(design), or of its mean over samples, from many starts at once.

    All starts descend together, in one program under `jax.vmap`: first by Adam's method, with steps that fall to
    nothing along a cosine, then from the best place of each by BFGS, which ends at a minimum. Bounds are kept exactly,
    by a change of variables with a sine, and can be reached. The first start is the given design. The others are
    random: between the bounds, evenly, or in the logarithm where the lower one is positive; without bounds up to half
    of the size of an entry away from it. A start at which value or slopes are not finite takes no part; a step that
    leads to such numbers is not taken. The same seed gives the same answer. D. P. Kingma & J. Ba, Adam, 2015; J.
    Nocedal & S. Wright, Numerical Optimization, 2006, section 6.1; the change of variables is that of F. James & M.
    Roos, Minuit, 1975.

    Under `jax.distributed` all processes make the same call, and get the same result: samples or starts are shared out
    over the devices of all of them, and gradients are summed.

    Args:
        objective: a differentiable function of a design; gives a number, or (number, dict of what is to be kept with
            it).
        design: any tree of real numbers and arrays: the first start.
        lower, upper: bounds; one number for all entries, or a tree like the design with a number, an array or None at
            each place. What a mapping leaves out is not bounded. Equal bounds keep an entry as it is.
        starts: number of starts.
        seed: of the random numbers.
        keep: how many of the best to return.
        steps: of Adam, and of BFGS.
        samples: a tree of arrays (N, …), such as tolerances, loads or measured cases: the objective is then the mean of
            objective(design, sample), and what it gives beside its value is averaged as well. They are shared out over
            all devices; starts are where there are no samples.
        progress: called after every stage with (steps done, steps in all, least value).
        resume: a file that keeps the search after every stage, and from which it goes on after a break.

    Returns:
        `Ranked` `Design`s.

    Raises:
        ValueError: entries that are not real numbers or not finite; bounds that do not fit the design, or that it
            breaks; an objective that gives no number, or is finite nowhere among the starts; a file of another search.

    Examples:
        >>> reach = lambda rod: mbs.assemble(slider_crank(rod), guess).q[6]
        >>> found = mbs.synthesis.minimise(lambda rod: (reach(rod) - 3.5) ** 2, 2.0, starts=4, steps=(50, 20))
        >>> round(found.best.design, 4)
        2.5
        >>> wear = np.linspace(-0.1, 0.1, 8)  # as much shorter, or longer
        >>> cost = lambda rod, wear: (reach(rod + wear) - 3.5) ** 2
        >>> found = mbs.synthesis.minimise(cost, 2.0, samples=wear, starts=2, steps=(50, 20))
        >>> round(found.best.design, 4), round(found.best.value, 4)
        (2.5, 0.0043)
    """
    variables = Variables.of(design, lower, upper)
    search, steps = Search.of(starts, seed, keep, progress, resume), _two("steps", steps)
    batch = _Batch(_with_checks(objective), variables, samples)
    point = batch(np.asarray(variables.starts(search.rng, search.starts)))
    if not np.any(np.isfinite(point.value)):
        raise ValueError("objective is finite, with its derivatives, at none of the starts")

    adam = _Adam(batch, steps[0])
    at_bottom = lambda state: _moved_to(state, batch(state.best_u), bfgs.begin(state.best_u))
    at_start = lambda state: state._replace(memory=adam.begin(state.point.u))
    bfgs_step = lambda state: _moved_to(state, *bfgs.step(batch, state.point, state.memory))
    parts = [
        Part(steps[0], ADAM_STAGE, _repeated(adam.step), at_start),
        Part(steps[1], BFGS_STAGE, _repeated(bfgs_step), at_bottom),
    ]
    state = State(point, point.u, point.value, np.zeros((search.starts, 0)))
    # The objective is known by some digits of its value and slopes, so that a search may go on on another machine.
    mark = " ".join(f"{x:.5g}" for x in (point.value[0], *point.slope[0]))
    task = (variables.start, variables.lower, variables.upper, *search[:3], *steps, mark)
    state = in_stages(parts, state, best=lambda s: s.best.min(), progress=progress, resume=resume, task=task)
    return ranked(_candidates(batch, variables, state), search.keep, tries=search.starts)


class _Batch:
    """u (starts, n) ↦ `Point`: values and slopes of all starts, compiled once for the whole search.

    Devices share the samples, or the starts where there are none.

    Attributes:
        checks: what the objective gave beside its values at the last call, a row for each start.
    """

    def __init__(self, function: Callable, variables: Variables, samples: Any = None):
        self._samples = _shared(samples)

        def of_one(u, given):
            if given is None:
                return function(variables.design(u))
            samples, weights = given
            results = jax.vmap(lambda sample: function(variables.design(u), sample))(samples)
            return jax.tree.map(lambda x: jnp.tensordot(weights.astype(x.dtype), x, 1), results)

        self._evaluate = jax.jit(jax.vmap(jax.value_and_grad(of_one, has_aux=True), in_axes=(0, None)))

    def __call__(self, u: Float[np.ndarray, "starts n"]) -> Point:
        given = over_devices(_filled(u), everywhere=True) if self._samples is None else u
        found = gathered(self._evaluate(given, self._samples))
        (value, self.checks), slope = jax.tree.map(lambda x: x[: len(u)], found)
        good = np.isfinite(value) & np.isfinite(slope).all(axis=1)
        return Point(u, np.where(good, value, np.inf), np.where(good[:, None], slope, 0))


class _Adam:
    """Adam's method for all starts; a step that leads where nothing is finite is not taken."""

    def __init__(self, batch: _Batch, steps: int):
        optimiser = optax.adam(optax.cosine_decay_schedule(RATE, max(steps, 1)))
        self.batch = batch

        def propose(u, slope, memory):
            # What of the optimiser's state is not a number is the same for all starts, and made anew.
            restored = ravel_pytree(optimiser.init(u))[1](memory)
            change, restored = optimiser.update(slope, restored, u)
            return u + change, ravel_pytree(restored)[0]

        self.propose = jax.jit(jax.vmap(propose))
        self.begin = jax.jit(jax.vmap(lambda u: ravel_pytree(optimiser.init(u))[0]))

    def step(self, state: State) -> State:
        """One step."""
        u, memory = self.propose(state.point.u, state.point.slope, state.memory)
        trial = self.batch(np.asarray(u))
        good = np.isfinite(trial.value)[:, None]
        point = Point(
            np.where(good, trial.u, state.point.u),
            np.where(good[:, 0], trial.value, state.point.value),
            np.where(good, trial.slope, state.point.slope),
        )
        return _moved_to(state, point, np.asarray(memory))


def _moved_to(state: State, point: Point, memory) -> State:
    """The state at other places."""
    better = point.value < state.best
    best_u = np.where(better[:, None], point.u, state.best_u)
    return State(point, best_u, np.where(better, point.value, state.best), memory)


def _repeated(step: Callable[[State], State]) -> Callable[[State, int], State]:
    """(state, count) ↦ the state `count` steps later."""

    def advance(state, count):
        for _ in range(count):
            state = step(state)
        return state

    return advance


def _shared(samples: Any) -> Any:
    """Samples over all devices, and the part that each has in the mean."""
    if samples is None:
        return None
    leaves = [np.shape(x) for x in jax.tree.leaves(samples)]
    if not leaves or any(not shape or not shape[0] for shape in leaves) or len({shape[0] for shape in leaves}) != 1:
        told = ", ".join(map(str, leaves)) or "none"
        raise ValueError(f"samples must be arrays with the same number of rows, got shapes {told}")
    samples, count = jax.tree.map(lambda x: _filled(np.asarray(x)), samples), leaves[0][0]
    rows = len(jax.tree.leaves(samples)[0])
    return over_devices((samples, (np.arange(rows) < count) / count), everywhere=True)


def _filled(rows: np.ndarray) -> np.ndarray:
    """As many rows as all devices share evenly: the last one again and again."""
    devices = jax.device_count()
    return rows[np.minimum(np.arange(-(-len(rows) // devices) * devices), len(rows) - 1)]


def _with_checks(objective: Callable) -> Callable:
    """(design, …) ↦ (value, checks)."""
    if not callable(objective):
        raise ValueError(f"objective must be a function of a design, got {objective!r}")

    def function(*given):
        given = objective(*given)
        value, checks = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
        if not isinstance(checks, dict):
            raise ValueError(f"objective must give a number, or (number, dict), got {type(checks).__name__} beside it")
        value = jnp.asarray(value)
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(f"objective must give a real number, got shape {value.shape} of {value.dtype}")
        return value, checks

    return function


def _two(name: str, given) -> tuple[int, int]:
    """Two numbers of steps, none of them negative."""
    counts = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(counts) != 2 or any(isinstance(x, bool) or int(x) != x or x < 0 for x in counts):
        raise ValueError(f"{name} must be two numbers of steps, of Adam and of BFGS, got {given!r}")
    return int(counts[0]), int(counts[1])


def _candidates(batch: _Batch, variables: Variables, state: State):
    """Designs, those with the least values first: what tells each from others, and how it becomes a result."""
    point = batch(state.best_u)
    checks = batch.checks
    for k in best_first(point.value):

        def check(k=k):
            own = jax.tree.map(lambda x: _plain(x[k]), checks)
            # Where the search ended, for the reader to judge.
            own["slope"] = float(np.abs(point.slope[k]).max(initial=0))
            return Design(variables.result(point.u[k]), float(point.value[k]), own), True

        yield variables.mark(point.u[k]), check


def _plain(x) -> Any:
    """A number as such, an array as one of numpy."""
    x = np.asarray(x)
    return x.item() if x.ndim == 0 else x
