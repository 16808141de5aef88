"""The search for linkages that generate a function: exact solutions, random starts, and their least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmbs import search
from jaxmbs.synthesis import common

# Number of steps of all starts in the search of `function`, with coarse samples.
STEPS_ALL_STARTS = 40
# Number of steps of the best starts in the search of `function`, with the user's samples.
STEPS_BEST_STARTS = 1000
# Number of best starts that take `STEPS_BEST_STARTS` further steps.
BEST_STARTS = 128
# Number of steps between two progress reports of the search of `function`.
STEPS_PER_REPORT = 20
# From this condition number on, the three linear equations for three precision points count as singular.
MAX_CONDITION = 1e14


class SampledFunction(NamedTuple):
    """The wanted function at some points.

    Attributes:
        x: (T,) the points.
        angles: (T,) crank angles from the beginning of the range, in radians.
        outputs: (T,) outputs from the beginning of the range, in units of the unknowns.
    """

    x: np.ndarray
    angles: np.ndarray
    outputs: np.ndarray


class Spans(NamedTuple):
    """Spans of crank and output.

    Attributes:
        start: beginnings of crank angle and output, None where they are free.
        width: their widths, with a sign.
        unit: the unit of the output in the search: 1, or the travel of the slide.
    """

    start: tuple[float | None, float | None]
    width: tuple[float, float]
    unit: float


# Numbers x (N, 5), see `generators`, angle offsets of crank and rocker (N, 2) and branches (N,) of linkages.
Linkages = tuple[np.ndarray, np.ndarray, np.ndarray]


def exact_linkage(generator, points: SampledFunction, spans: Spans) -> Linkages:
    """Return the one linkage that Freudenstein's equation gives for three precision points and given spans."""
    angle, output = np.array(spans.start, float)
    rows, right = generator.equation(angle + points.angles, output + points.outputs)
    with np.errstate(all="ignore"):
        k = np.linalg.solve(rows, right) if np.linalg.cond(rows) < MAX_CONDITION else np.full(3, np.nan)
        numbers, offsets = generator.numbers(k, angle, output)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"no {generator.linkage.name} passes these precision_points; choose other points or spans")
    both = [errors_of(generator, numbers, branch, points)[0] for branch in (1.0, -1.0)]
    branch = 1.0 if np.abs(both[0]).max() <= np.abs(both[1]).max() else -1.0
    return numbers[None], offsets[None], np.array([branch])


def lengths_of(generator, x, xp):
    """Return crank, coupler, and rocker or offset of numbers x (…, 5) as three arrays (…); xp: numpy or jax.numpy."""
    return [xp.exp(x[..., k]) if positive else x[..., k] for k, positive in enumerate(generator.positive)]


def errors_of(generator, x, branch, sampled: SampledFunction):
    """Return errors of the output and transmission cosines, (…, T) each, of numbers x (…, 5) and branches (…)."""
    x, branch = np.asarray(x)[..., None, :], np.asarray(branch)[..., None]
    output, cosine = generator.output_and_cosine(lengths_of(generator, x, np), x[..., 3] + sampled.angles, branch, np)
    return generator.error(output, x[..., 4] + sampled.outputs), cosine


def _random_starts(generator, sampled: SampledFunction, spans: Spans, bounds, starts: int, rng):
    """Return `Linkages` at random; half of them solve `generator.equation` by least squares, with random free spans."""
    x = generator.sample(rng, starts)
    offsets = np.pi * rng.integers(0, 2, (starts, 2)) * [1, generator.angular]
    for k, start in enumerate(spans.start):
        if start is not None:
            x[:, 3 + k] = start + offsets[:, k]
        else:
            offsets[:, k] = 0
    half = starts // 2
    begin = [x[:half, 3 + k] if start is None else np.full(half, start) for k, start in enumerate(spans.start)]
    rows, right = generator.equation(begin[0][:, None] + sampled.angles, begin[1][:, None] + sampled.outputs)
    with np.errstate(all="ignore"):
        k = (np.linalg.pinv(rows) @ right[..., None])[..., 0]
        numbers, reversed_links = generator.numbers(k, *begin)
    finite = np.all(np.isfinite(numbers), axis=1)
    x[:half][finite] = numbers[finite]
    fixed = [start is not None for start in spans.start]
    offsets[:half][finite] = reversed_links[finite] * fixed
    x[:, :3] = np.clip(x[:, :3], *bounds)
    cost = [(errors_of(generator, x, np.full(starts, branch), sampled)[0] ** 2).sum(axis=1) for branch in (1.0, -1.0)]
    return x, offsets, np.where(cost[0] <= cost[1], 1.0, -1.0)


@dataclass(frozen=True)
class FunctionGeneration(search.LeastSquaresProblem):
    """Least squares for a linkage whose output follows a sampled function; the unknowns are x, see `generators`."""

    generator: Any

    def residual_functions(self, data, inputs):
        """Return the residual of a sample, that of the bounds, and the samples as blocks."""
        generator, (branch, start, _) = self.generator, data
        angles, outputs, fixed, low, high, max_cosine = inputs
        margin = jnp.minimum(common.BOUND_MARGIN, (high - low) / 4)

        def residual(x, own, carried, block):
            """Return the output's error and the penalty of the transmission angle at one sample."""
            x, (angle, wanted) = jnp.where(fixed, start, x), block
            output, cosine = generator.output_and_cosine(lengths_of(generator, x, jnp), x[3] + angle, branch, jnp)
            excess = jnp.abs(cosine) - max_cosine + common.BOUND_MARGIN * (1 - max_cosine)
            penalty = search.PENALTY_START * jnp.maximum(excess, 0)
            return jnp.stack([*generator.residual(output, x[4] + wanted), penalty]), carried

        def prior(x):
            """Return the penalties of lengths and offset near or beyond their bounds."""
            return search.PENALTY_START * jnp.maximum(common.bound_violation(x[:3], low, high, margin), 0)

        return residual, prior, (angles, outputs)


def search_linkages(
    generator, coarse: SampledFunction, middle: SampledFunction, spans: Spans, bounds, max_cosine, options, exact: bool
) -> Linkages:
    """Return the linkages within bounds after all phases of the search, the best first.

    coarse, middle: samples for all starts and for the best. exact: linkages with an error at `middle` are left out.

    Raises:
        ValueError: there are none.
    """
    x, offsets, branches = _random_starts(generator, coarse, spans, bounds, options.starts, options.rng)
    fixed = np.array([False, False, False, *(start is not None for start in spans.start)])
    low, high = bounds
    first, further = ((sampled.angles, sampled.outputs, fixed, low, high, max_cosine) for sampled in (coarse, middle))
    phases = [
        search.LeastSquaresPhase(STEPS_ALL_STARTS, first),
        search.LeastSquaresPhase(STEPS_BEST_STARTS, further, BEST_STARTS),
    ]
    carry = search.MultistartCarry.at_start(x, (branches, x, offsets))
    task, problem = (generator.linkage.name, *further, x), FunctionGeneration(generator)
    carry = search.descend(problem, carry, phases, options, task=task, steps_per_report=STEPS_PER_REPORT)
    best = search.order_by_cost(carry.cost)
    branches, start, offsets = (y[best] for y in carry.data)
    x = np.where(fixed, start, carry.shared[best])
    inside = np.all((x[:, :3] >= low) & (x[:, :3] <= high), axis=1)
    if exact:
        inside &= np.abs(errors_of(generator, x, branches, middle)[0]).max(axis=1) < common.zero_tolerance()
    if not np.any(inside):
        passes = "passes these precision_points within" if exact else "keeps"
        raise ValueError(
            f"no {generator.linkage.name} was found that {passes} the bounds; allow more starts, or more room"
        )
    return x[inside], offsets[inside], branches[inside]
