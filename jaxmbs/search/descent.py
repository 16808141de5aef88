"""Minimisation of a differentiable function of a design, from many starts at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from jaxmbs.numerics.arrays import where_rows
from jaxmbs.programs import gather, shard_over_devices
from jaxmbs.search import bfgs
from jaxmbs.search.bfgs import EvaluatedStarts
from jaxmbs.search.bounds import Variables
from jaxmbs.search.multistart import Ranked, order_by_cost, rank_candidates
from jaxmbs.search.phases import ProgressCallback, SearchOptions, SearchPhase, run_phases

# Size of Adam's first step in free numbers (see `Variables`): a fortieth of the width between two bounds, or a
# twentieth of an entry's size.
ADAM_FIRST_STEP = 0.05
# Number of Adam's steps between two progress reports, at which the carry is also saved.
ADAM_STEPS_PER_REPORT = 25
# Number of BFGS's steps between two progress reports, at which the carry is also saved.
BFGS_STEPS_PER_REPORT = 10


class Design(NamedTuple):
    """A design found by `minimise`.

    Attributes:
        design: a tree like the given one, with floats in place of its single numbers, else arrays.
        value: of the objective.
        checks: the numbers and arrays that the objective returns with its value; and "slope", which is small at a
            minimum: the largest derivative of the objective by a free number, which changes by 1 from the middle between
            two bounds to one of them or, without bounds, by the size of the entry.

    Examples:
        >>> best = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20)).best
        >>> round(best.design, 6), round(best.value, 6)
        (3.0, 0.0)
    """

    design: Any
    value: float
    checks: dict[str, Any]


class DescentCarry(NamedTuple):
    """All that further steps depend on, one row for each start.

    Attributes:
        current: free numbers u with values and gradients.
        best_u: free numbers with the least value so far.
        best_value: that value.
        memory: of the method, as a row of numbers.
    """

    current: EvaluatedStarts
    best_u: Float[np.ndarray, "starts n"]
    best_value: Float[np.ndarray, " starts"]
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
    progress: ProgressCallback | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Ranked[Design]:
    """Minimise objective(design), or its mean over samples, from many starts at once.

    All starts descend together, in one program under `jax.vmap`: first by Adam's method, whose step size falls to zero
    along a cosine, then by BFGS from the best point of each. Bounds are kept exactly, by a change of variables with a
    sine, and can be reached. The first start is the given design. The others are random and uniform between the bounds,
    in the logarithm where the lower bound is positive; without bounds, they differ from the given entry by up to half of
    its size. A start at which the value or its gradient is not finite is ignored, and a step to such a point is
    rejected. The same seed gives the same result. D. P. Kingma & J. Ba, Adam, 2015; J. Nocedal & S. Wright, Numerical
    Optimization, 2006, section 6.1; the change of variables is that of F. James & M. Roos, Minuit, 1975.

    Under `jax.distributed` all processes make the same call and get the same result: the devices of all processes share
    the samples or the starts, and gradients are summed.

    Args:
        objective: a differentiable function of a design that returns a number, or (number, dict), where the dict is
            returned in `Design.checks`.
        design: a pytree of real numbers and arrays: the first start.
        lower: lower bounds: one number for all entries, or a tree like the design with a number, an array or None in each
            place. Entries that a mapping leaves out are not bounded.
        upper: upper bounds, likewise; an entry with equal bounds is fixed.
        starts: number of starts.
        seed: the seed of the random numbers.
        keep: how many of the best results to return.
        steps: numbers of steps, (of Adam, of BFGS).
        samples: a pytree of arrays (N, …), such as tolerances, loads or measured cases: the objective is then the mean of
            objective(design, sample), and so are the numbers in its dict. All devices share the samples; without
            samples they share the starts.
        progress: a function that is called every few steps with (steps done, steps in all, least value).
        resume: a file in which the search is saved every few steps; if it exists, the search goes on from it.

    Returns:
        Designs with their values, the best first; see `Ranked` and `Design`.

    Raises:
        ValueError: entries of the design are not real numbers, or not finite; bounds do not fit the design, or the design
            is outside of them; the objective returns no number, or is finite at none of the starts; the file belongs to
            another search.

    Examples:
        >>> reach = lambda rod: mbs.assemble(slider_crank(rod), guess).q[6]
        >>> found = mbs.synthesis.minimise(lambda rod: (reach(rod) - 3.5) ** 2, 2.0, starts=4, steps=(50, 20))
        >>> round(found.best.design, 4)
        2.5
        >>> wear = np.linspace(-0.1, 0.1, 8)  # change of the rod's length
        >>> cost = lambda rod, wear: (reach(rod + wear) - 3.5) ** 2
        >>> found = mbs.synthesis.minimise(cost, 2.0, samples=wear, starts=2, steps=(50, 20))
        >>> round(found.best.design, 4), round(found.best.value, 4)
        (2.5, 0.0043)
    """
    variables = Variables.from_design(design, lower, upper)
    options = SearchOptions.from_arguments(starts, seed, keep, progress, resume)
    adam_steps, bfgs_steps = _two_counts("steps", steps)
    batch = _BatchedObjective(_with_checks(objective), variables, samples)
    first = batch(np.asarray(variables.starts(options.rng, options.starts)))
    if not np.any(np.isfinite(first.value)):
        raise ValueError("objective is finite, with its derivatives, at none of the starts")

    adam = _Adam(batch, adam_steps)
    start_adam = lambda carry: carry._replace(memory=adam.initial_memory(carry.current.u))
    start_bfgs = lambda carry: _update(carry, batch(carry.best_u), bfgs.initial_memory(carry.best_u))
    bfgs_step = lambda carry: _update(carry, *bfgs.step(batch, carry.current, carry.memory))
    phases = [
        SearchPhase(adam_steps, ADAM_STEPS_PER_REPORT, _repeat(adam.step), start_adam),
        SearchPhase(bfgs_steps, BFGS_STEPS_PER_REPORT, _repeat(bfgs_step), start_bfgs),
    ]
    carry = DescentCarry(first, first.u, first.value, np.zeros((options.starts, 0)))
    # A few digits of value and gradient identify the objective, so that a search can resume on another machine.
    mark = " ".join(f"{x:.5g}" for x in (first.value[0], *first.gradient[0]))
    numbers = options.starts, options.seed, options.keep, adam_steps, bfgs_steps
    task = (variables.start, variables.lower, variables.upper, *numbers, mark)
    carry = run_phases(phases, carry, options, least_error=lambda carry: carry.best_value.min(), task=task)
    return rank_candidates(_candidates(batch, variables, carry), options.keep, max_checked=options.starts)


class _BatchedObjective:
    """u (starts, n) ↦ `EvaluatedStarts`: values and gradients of all starts, compiled once for the whole search.

    Devices share the samples, or the starts if there are none.

    Attributes:
        checks: the objective's dict at the last call, with a row for each start.
    """

    def __init__(self, function: Callable[..., Any], variables: Variables, samples: Any = None):
        self._samples = _over_devices(samples)

        def one_start(u: Array, weighted_samples: tuple[Any, Array] | None) -> tuple[Array, dict[str, Any]]:
            """Return (value, checks) at free numbers u, or their weighted mean over the samples."""
            if weighted_samples is None:
                return function(variables.design(u))
            samples, weights = weighted_samples
            results = jax.vmap(lambda sample: function(variables.design(u), sample))(samples)
            return jax.tree.map(lambda x: jnp.tensordot(weights.astype(x.dtype), x, 1), results)

        self._evaluate = jax.jit(jax.vmap(jax.value_and_grad(one_start, has_aux=True), in_axes=(0, None)))

    def __call__(self, u: Float[np.ndarray, "starts n"]) -> EvaluatedStarts:
        """Return values and gradients at u, and set `checks`."""
        rows = shard_over_devices(_pad_rows(u), everywhere=True) if self._samples is None else u
        results = gather(self._evaluate(rows, self._samples))
        (value, self.checks), gradient = jax.tree.map(lambda x: x[: len(u)], results)
        finite = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        return EvaluatedStarts(u, np.where(finite, value, np.inf), np.where(finite[:, None], gradient, 0))


class _Adam:
    """Adam's method for all starts; steps to points where the objective is not finite are rejected."""

    def __init__(self, batch: _BatchedObjective, steps: int):
        optimiser = optax.adam(optax.cosine_decay_schedule(ADAM_FIRST_STEP, max(steps, 1)))
        self.batch = batch

        def propose(u: Array, gradient: Array, memory: Array) -> tuple[Array, Array]:
            """Return the next point and memory of one start, without regard to its value."""
            # The arrays of the optimiser are kept as a row of numbers; the rest of its tree is the same for all starts.
            restored = ravel_pytree(optimiser.init(u))[1](memory)
            change, restored = optimiser.update(gradient, restored, u)
            return u + change, ravel_pytree(restored)[0]

        self.propose = jax.jit(jax.vmap(propose))
        self.initial_memory = jax.jit(jax.vmap(lambda u: ravel_pytree(optimiser.init(u))[0]))

    def step(self, carry: DescentCarry) -> DescentCarry:
        """Take one step of Adam from each start."""
        u, memory = self.propose(carry.current.u, carry.current.gradient, carry.memory)
        trial = self.batch(np.asarray(u))
        accepted = where_rows(np.isfinite(trial.value), trial, carry.current)
        return _update(carry, accepted, np.asarray(memory))


def _update(carry: DescentCarry, current: EvaluatedStarts, memory: np.ndarray) -> DescentCarry:
    """Return the carry with new current points and memory; best points are replaced where the value has fallen."""
    better = current.value < carry.best_value
    best_u, best_value = where_rows(better, (current.u, current.value), (carry.best_u, carry.best_value))
    return DescentCarry(current, best_u, best_value, memory)


def _repeat(step: Callable[[DescentCarry], DescentCarry]) -> Callable[[DescentCarry, int], DescentCarry]:
    """Return the function (carry, count) ↦ carry `count` steps later."""

    def advance(carry: DescentCarry, count: int) -> DescentCarry:
        """Return the carry after `count` steps."""
        for _ in range(count):
            carry = step(carry)
        return carry

    return advance


def _over_devices(samples: Any) -> Any:
    """Return (samples, weights) distributed over all devices, the weights being 1/N, or 0 for padding; or None."""
    if samples is None:
        return None
    shapes = [np.shape(x) for x in jax.tree.leaves(samples)]
    if not shapes or any(not shape or not shape[0] for shape in shapes) or len({shape[0] for shape in shapes}) != 1:
        text = ", ".join(map(str, shapes)) or "none"
        raise ValueError(f"samples must be arrays with the same number of rows, got shapes {text}")
    samples, count = jax.tree.map(lambda x: _pad_rows(np.asarray(x)), samples), shapes[0][0]
    rows = len(jax.tree.leaves(samples)[0])
    return shard_over_devices((samples, (np.arange(rows) < count) / count), everywhere=True)


def _pad_rows(rows: np.ndarray) -> np.ndarray:
    """Repeat the last row until all devices get the same number of rows."""
    devices = jax.device_count()
    return rows[np.minimum(np.arange(-(-len(rows) // devices) * devices), len(rows) - 1)]


def _with_checks(objective: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function (design, …) ↦ (value, checks) of an objective that may return its value alone."""
    if not callable(objective):
        raise ValueError(f"objective must be a function of a design, got {objective!r}")

    def function(*args: Any) -> tuple[Array, dict[str, Any]]:
        """Return (value, checks), with {} for an objective that returns its value alone."""
        result = objective(*args)
        value, checks = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if not isinstance(checks, dict):
            raise ValueError(
                f"objective must return a number, or (number, dict), got (number, {type(checks).__name__})"
            )
        value = jnp.asarray(value)
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(f"objective must return a real number, got shape {value.shape} of {value.dtype}")
        return value, checks

    return function


def _two_counts(name: str, given: Any) -> tuple[int, int]:
    """Return two numbers of steps, neither negative; `name` is that of the argument, for errors."""
    counts = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(counts) != 2 or any(isinstance(x, bool) or int(x) != x or x < 0 for x in counts):
        raise ValueError(f"{name} must be two numbers of steps, of Adam and of BFGS, got {given!r}")
    return int(counts[0]), int(counts[1])


def _candidates(
    batch: _BatchedObjective, variables: Variables, carry: DescentCarry
) -> Iterator[tuple[np.ndarray, Callable[[], tuple[Design, bool]]]]:
    """Yield the candidates of `rank_candidates`, the least value first."""
    last = batch(carry.best_u)
    checks = batch.checks
    for k in order_by_cost(last.value):

        def check(k: int = k) -> tuple[Design, bool]:
            """Return the `Design` of start k and True: every design passes."""
            own = jax.tree.map(lambda x: _plain(x[k]), checks)
            own["slope"] = float(np.abs(last.gradient[k]).max(initial=0))
            return Design(variables.result(last.u[k]), float(last.value[k]), own), True

        yield variables.features(last.u[k]), check


def _plain(x: Any) -> Any:
    """Return a float for a single number, else a numpy array."""
    x = np.asarray(x)
    return x.item() if x.ndim == 0 else x
