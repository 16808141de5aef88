"""Function generation: a linkage whose output follows a function of the angle of its crank."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.search.multistart import (
    PUSH,
    Problem,
    Ranked,
    Search,
    Stage,
    State,
    best_first,
    count_of,
    descended,
    ranked,
)
from jaxmbs.search.stages import Report
from jaxmbs.synthesis import common
from jaxmbs.synthesis.builders import fit, forwards_builders
from jaxmbs.synthesis.generators import PLACE, FourBarGenerator, SliderCrankGenerator
from jaxmbs.system.mechanism import Mechanism

GENERATORS: dict[str, Any] = {x.linkage.name: x for x in (FourBarGenerator, SliderCrankGenerator)}
# Steps and samples for all starts; steps for the best of them; how many lie between two reports.
FIRST, COARSE, FURTHER, BEST, AT_ONCE = 40, 12, 1000, 128, 20
# Without bounds lengths stay within this factor of the ground, or of the way of the slide.
FACTOR = 20.0
# Beyond these, in the same units, no bound can be.
MIN_LENGTH, MAX_LENGTH = 1e-3, 1e3
# Smallest transmission angle, in degrees. Below it the links hardly reach each other.
MIN_TRANSMISSION_ANGLE_DEG = 1.0
# Points of the range at which the error of a result is measured.
FINE = 361


class FunctionSolution(NamedTuple):
    """A linkage that generates a function.

    Attributes:
        design: its dimensions, all lengths positive. "crank_offset" and "rocker_offset" are π where
            Freudenstein's equation gives that link a negative length, else 0: the angle of the link is that in the
            equation plus the offset.
        error: root mean square over the range of output − f, in radians, for a slide in units of the output.
        mechanism: with a motor that takes the crank through its span in a unit of time.
        guess: the assembled poses of its bodies at time 0.
        branch: +1 or −1: the coupler lies to the left or right of the line from the crank's pin to the rocker's pivot;
            the slide is ahead of the pin or behind.
        x: (N,), over the range of the function.
        crank_angles: (N,), of the link.
        output: (N,), the output, without the dial's offset.
        wanted: (N,), what it should be.
        checks: "assembled": the mechanism was followed through the range, on one branch; "largest_error", in the units
            of `error`; "transmission_angle": its least in degrees; "precision_error": the largest at the precision
            points.

    Examples:
        >>> spans = dict(input_span=(-1.0, 0.0), output_span=(-1.5, -0.5))
        >>> best = mbs.synthesis.function(jnp.log10, (1, 2), precision_points=3, **spans).best
        >>> best.checks["assembled"], best.checks["precision_error"] < 1e-12
        (True, True)
    """

    design: dict[str, Any]
    error: float
    mechanism: Mechanism
    guess: dict[str, tuple]
    branch: int
    x: np.ndarray
    crank_angles: np.ndarray
    output: np.ndarray
    wanted: np.ndarray
    checks: dict[str, Any]


class Task(NamedTuple):
    """What is asked for: x and, from their beginnings, angles of the crank and of the output, in units of the
    unknowns."""

    x: np.ndarray
    angles: np.ndarray
    outputs: np.ndarray


class Spans(NamedTuple):
    """The beginnings of crank and output, None where they are free, and their widths; what one unit of the output is."""

    start: tuple[float | None, float | None]
    width: tuple[float, float]
    unit: float


def _by_fit(
    build, f, x_range, *, design, output, output_span, input_span=(0.0, 1.0), y_range=None, precision_points=None,
    samples=60, keep=10, **options,
):  # fmt: skip
    ends, (begin, end), span = _pair("x_range", x_range), _pair("input_span", input_span), np.atleast_1d(output_span)
    first, free = (span[0], False) if len(span) == 2 else (0.0, True)
    x = _many(samples, ends) if precision_points is None else _precision_points(precision_points, ends)
    task = _task(f, ends, y_range, (end - begin, span[-1] - first))(x)
    timing: Any = {"times": begin + task.angles, "period": end, "cyclic": False}
    return fit(build, design, first + task.outputs, output, offset=free, keep=keep, **timing, **options)


@forwards_builders(_by_fit, "fit(build, design, f(x), output, times=..., offset=True, cyclic=False)")
def function(
    f: Callable[[float], float],
    x_range: tuple[float, float],
    *,
    mechanism: str = "four-bar",
    input_span: float | tuple[float, float],
    output_span: float | tuple[float, float],
    y_range: tuple[float, float] | None = None,
    precision_points: int | ArrayLike | Sequence[float] | None = None,
    transmission_angle: float = 15.0,
    samples: int = 60,
    lower: Mapping[str, float] | float | None = None,
    upper: Mapping[str, float] | float | None = None,
    starts: int = 2048,
    seed: int = 0,
    keep: int = 10,
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[FunctionSolution]:
    """Dimensions of a linkage whose output follows y = f(x) as the crank follows x.

    The crank angle φ is linear in x; the rocker angle ψ, or the displacement s of the slider, is linear in y. Angles
    count from the line of the pivots, or of the slide. φ and ψ are related by Freudenstein's equation

        K₁ cos ψ − K₂ cos φ + K₃ = cos(φ − ψ),  K₁ = d/a,  K₂ = d/c,  K₃ = (a² − b² + c² + d²)/(2ac),

    for a four-bar with crank a, coupler b, rocker c and ground d = 1. In a slider-crank with crank a, coupler b and
    offset e, s² = 2a s cos φ + 2ae sin φ + b² − a² − e². With three precision points and given spans these equations
    are linear in the K, and solved directly. Otherwise the sum of squared errors is minimised from random designs and
    from least-squares solutions of these equations. Freudenstein, Approximate synthesis of four-bar linkages, Trans.
    ASME 77 (1955); Hartenberg and Denavit, Kinematic Synthesis of Linkages (1964), chapter 10.

    Args:
        f: a function of a number.
        x_range: (beginning, end), where it is wanted.
        mechanism: "four-bar" or "slider-crank". For a mechanism of your own see `fit`.
        input_span: of the crank in radians: (beginning, end), or its width alone, the beginning being free. A negative
            width turns backwards.
        output_span: of the rocker in radians or of the slide in any unit of length; likewise.
        y_range: the values of f at the two ends of the output's span; by default f at the ends of the range if it rises
            or falls all the way, else its least and its largest value.
        precision_points: values of x at which the error is to vanish, three to five of them; or their number, for
            Chebyshev spacing. Each one beyond the third needs one span whose beginning is free. None: least squares
            over the range.
        transmission_angle: the least that is allowed, in degrees. It has no effect on the one linkage for three points
            and given spans.
        samples: of the range, for least squares.
        lower, upper: bounds of "crank", "coupler", "rocker" relative to the ground, or of "crank", "coupler", "offset",
            by name or one for all; 1/20 and 20 of the ground, or of the slider's travel, by default.
        starts: number of starts.
        seed: of the random numbers.
        keep: how many of the best to return.
        progress, resume: as for `path`.

    Returns:
        `Ranked` `FunctionSolution`s.

    Raises:
        ValueError: an argument that is unusable, by name; nothing found.

    Examples:
        >>> spans = dict(input_span=(-1.0, 0.0), output_span=(-1.5, -0.5))
        >>> best = mbs.synthesis.function(jnp.log10, (1, 2), precision_points=3, **spans).best
        >>> round(float(best.design["coupler"]), 4), round(float(best.error), 4)
        (1.6936, 0.0064)
    """
    if mechanism not in GENERATORS:
        raise ValueError(f"mechanism must be one of {', '.join(map(repr, GENERATORS))}, got {mechanism!r}")
    kind, search = GENERATORS[mechanism], Search.of(starts, seed, keep, progress, resume)
    spans, ends = _spans(input_span, output_span, kind.angular), _pair("x_range", x_range)
    common.check_transmission_angle(transmission_angle)
    at = _task(f, ends, y_range, spans.width)
    fine = at(np.linspace(ends[0], ends[1], FINE))
    points = None if precision_points is None else at(_precision_points(precision_points, ends, spans))
    if points is not None and len(points.x) == 3 and None not in spans.start:
        found = _exact(kind, points, spans)
    else:
        coarse = points or at(np.linspace(ends[0], ends[1], COARSE))
        middle = points or at(_many(samples, ends))
        limit = np.cos(np.deg2rad(max(transmission_angle, MIN_TRANSMISSION_ANGLE_DEG)))
        bounds = _bounds(kind, lower, upper, spans.unit)
        found = _searched(kind, coarse, middle, spans, bounds, limit, search, exact=points is not None)
    return ranked(_candidates(kind, found, fine, points, spans, transmission_angle), search.keep)


def _pair(name: str, given) -> tuple[float, float]:
    pair = np.asarray(given, float)
    if pair.shape != (2,) or not np.all(np.isfinite(pair)) or pair[0] == pair[1]:
        raise ValueError(f"{name} must be two different finite numbers, got {given!r}")
    return float(pair[0]), float(pair[1])


def _spans(input_span, output_span, angular: bool) -> Spans:
    def of(name, given):
        if np.ndim(given):
            start, end = _pair(name, given)
            return start, end - start
        if not np.isfinite(given) or given == 0:
            raise ValueError(f"{name} must be a width other than zero, or a pair (beginning, end), got {given!r}")
        return None, float(given)

    (phi, turn), (psi, swing) = of("input_span", input_span), of("output_span", output_span)
    unit = 1.0 if angular else abs(swing)
    return Spans((phi, None if psi is None else psi / unit), (turn, swing / unit), unit)


def _task(f, ends, y_range, width) -> Callable[[np.ndarray], Task]:
    def values(x):
        y = np.array([float(f(float(value))) for value in x])
        if not np.all(np.isfinite(y)):
            raise ValueError(f"f is not finite at x = {x[~np.isfinite(y)][0]:g}")
        return y

    if y_range is None:
        y = values(np.linspace(ends[0], ends[1], FINE))
        one_way = np.all(np.diff(y) > 0) or np.all(np.diff(y) < 0)
        y_range = (y[0], y[-1]) if one_way else (y.min(), y.max())
        if y_range[0] == y_range[1]:
            raise ValueError("f does not change over x_range, y_range must say what the ends of output_span are")
    low, high = _pair("y_range", y_range)

    def at(x):
        part = (x - ends[0]) / (ends[1] - ends[0])
        return Task(x, part * width[0], (values(x) - low) / (high - low) * width[1])

    return at


def _many(samples, ends) -> np.ndarray:
    if count_of("samples", samples) < 5:
        raise ValueError(f"samples must be at least 5, as many as there are unknowns, got {samples!r}")
    return np.linspace(ends[0], ends[1], samples)


def _precision_points(given, ends, spans: Spans | None = None) -> np.ndarray:
    """Where the error is to vanish: with spans no more than there are unknowns."""
    if np.ndim(given) == 0:
        count = count_of("precision_points", given)
        x = np.mean(ends) - (ends[1] - ends[0]) / 2 * np.cos((2 * np.arange(count) + 1) * np.pi / (2 * count))
    else:
        x = np.asarray(given, float)
    low, high = sorted(ends)
    if x.ndim != 1 or len(np.unique(x)) != len(x) or not np.all((x >= low) & (x <= high)):
        raise ValueError(f"precision_points must be different numbers within x_range, got {given!r}")
    if spans is None:
        return x
    most = 3 + spans.start.count(None)
    if not 3 <= len(x) <= most:
        raise ValueError(
            f"precision_points: {len(x)} of them, but with these spans there are from 3 to {most} unknowns"
        )
    return x


# Numbers (N, 5), offsets (N, 2) and branches (N,) of candidates, the best first.
Found = tuple[np.ndarray, np.ndarray, np.ndarray]


def _exact(kind, points: Task, spans: Spans) -> Found:
    """Freudenstein's equation at three points."""
    angle, output = np.array(spans.start, float)
    rows, right = kind.equation(angle + points.angles, output + points.outputs)
    with np.errstate(all="ignore"):
        k = np.linalg.solve(rows, right) if np.linalg.cond(rows) < 1e14 else np.full(3, np.nan)
        numbers, offsets = kind.numbers(k, angle, output)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"no {kind.linkage.name} passes these precision_points; take other ones, or other spans")
    both = [_errors(kind, numbers, branch, points)[0] for branch in (1.0, -1.0)]
    branch = 1.0 if np.abs(both[0]).max() <= np.abs(both[1]).max() else -1.0
    return numbers[None], offsets[None], np.array([branch])


def _bounds(kind, lower, upper, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the logarithms of lengths and of the offset, in units of the unknowns."""
    positive = np.array(kind.positive)
    shapes = dict.fromkeys(kind.free, ())
    low, high = (
        common.limits("lower", lower, shapes, -np.inf) / unit,
        common.limits("upper", upper, shapes, np.inf) / unit,
    )
    low = np.where(np.isinf(low), np.where(positive, 1 / FACTOR, -FACTOR), low)
    low = np.maximum(low, np.where(positive, MIN_LENGTH, -MAX_LENGTH))
    high = np.minimum(np.where(np.isinf(high), FACTOR, high), MAX_LENGTH)
    if np.any(low > high):
        name = kind.free[int(np.argmax(low > high))]
        raise ValueError(
            f"the lower bound of {name!r} is above the upper one; without bounds: 1/{FACTOR:g} and {FACTOR:g}"
        )
    logs = lambda x: np.where(positive, np.log(np.where(positive, x, 1)), x)
    return logs(low), logs(high)


def _lengths(kind, x, xp):
    return [xp.exp(x[..., k]) if positive else x[..., k] for k, positive in enumerate(kind.positive)]


def _errors(kind, x, branch, task: Task):
    """Errors and transmission cosines (…, T) of numbers (…, 5)."""
    x, branch = np.asarray(x)[..., None, :], np.asarray(branch)[..., None]
    seen, cosine = kind.where(_lengths(kind, x, np), x[..., 3] + task.angles, branch, np)
    return kind.error(seen, x[..., 4] + task.outputs), cosine


def _started(kind, task: Task, spans: Spans, bounds, starts: int, rng):
    """Random numbers, half of them least squares of the linear equation for random beginnings; offsets, branches."""
    x = kind.sample(rng, starts)
    offsets = np.pi * rng.integers(0, 2, (starts, 2)) * [1, kind.angular]
    for k, start in enumerate(spans.start):
        if start is not None:
            x[:, 3 + k] = start + offsets[:, k]
        else:
            offsets[:, k] = 0
    half = starts // 2
    begin = [x[:half, 3 + k] if start is None else np.full(half, start) for k, start in enumerate(spans.start)]
    rows, right = kind.equation(begin[0][:, None] + task.angles, begin[1][:, None] + task.outputs)
    with np.errstate(all="ignore"):
        k = (np.linalg.pinv(rows) @ right[..., None])[..., 0]
        numbers, reversed_links = kind.numbers(k, *begin)
    good = np.all(np.isfinite(numbers), axis=1)
    x[:half][good] = numbers[good]
    fixed = [start is not None for start in spans.start]
    offsets[:half][good] = reversed_links[good] * fixed
    x[:, :3] = np.clip(x[:, :3], *bounds)
    cost = [(_errors(kind, x, np.full(starts, branch), task)[0] ** 2).sum(axis=1) for branch in (1.0, -1.0)]
    return x, offsets, np.where(cost[0] <= cost[1], 1.0, -1.0)


@dataclass(frozen=True)
class Following(Problem):
    """A linkage whose output follows that of a task; the first three numbers keep their bounds."""

    kind: Any

    def rows(self, data, wanted):
        kind, (branch, given, _) = self.kind, data
        angles, outputs, fixed, low, high, limit = wanted

        def residual(x, own, state, block):
            x, (angle, output) = jnp.where(fixed, given, x), block
            seen, cosine = kind.where(_lengths(kind, x, jnp), x[3] + angle, branch, jnp)
            open_by = PUSH * jnp.maximum(jnp.abs(cosine) - limit + common.INSIDE * (1 - limit), 0)
            return jnp.stack([*kind.missed(seen, x[4] + output), open_by]), state

        def prior(x):
            return PUSH * jnp.maximum(common.beyond(x[:3], low, high, jnp.minimum(common.INSIDE, (high - low) / 4)), 0)

        return residual, prior, (angles, outputs)


def _searched(kind, coarse: Task, middle: Task, spans: Spans, bounds, limit, search: Search, exact: bool) -> Found:
    x, offsets, branches = _started(kind, coarse, spans, bounds, search.starts, search.rng)
    fixed = np.array([False, False, False, *(start is not None for start in spans.start)])
    low, high = bounds
    tasks = [(task.angles, task.outputs, fixed, low, high, limit) for task in (coarse, middle)]
    stages = [Stage(FIRST, tasks[0]), Stage(FURTHER, tasks[1], BEST)]
    state = State.begin(x, (branches, x, offsets))
    state = descended(Following(kind), state, stages, search, task=(kind.linkage.name, *tasks[1], x), at_once=AT_ONCE)
    best = best_first(state.cost)
    branches, given, offsets = (y[best] for y in state.data)
    x = np.where(fixed, given, state.shared[best])
    inside = np.all((x[:, :3] >= low) & (x[:, :3] <= high), axis=1)
    if exact:
        inside &= np.abs(_errors(kind, x, branches, middle)[0]).max(axis=1) < common.near_zero()
    if not np.any(inside):
        passes = "passes these precision_points within" if exact else "keeps"
        raise ValueError(f"no {kind.linkage.name} was found that {passes} the bounds; allow more starts, or more room")
    return x[inside], offsets[inside], branches[inside]


def _candidates(kind, found: Found, fine: Task, points: Task | None, spans: Spans, transmission: float):
    """Linkages, those with the least errors first: what tells each from others, and its check."""
    numbers, offsets, branches = found
    errors, cosines = _errors(kind, numbers, branches, fine)
    cost = np.sqrt((errors**2).mean(axis=1)) + 1e3 * np.any(np.abs(cosines) >= 1, axis=1)
    for k in best_first(cost):

        def check(k=k):
            solution = _checked(kind, numbers[k], offsets[k], branches[k], fine, points, spans)
            checks = solution.checks
            kept = checks["assembled"] and checks["transmission_angle"] >= transmission
            return solution, kept and checks.get("precision_error", 0.0) < common.near_zero() * spans.unit

        yield np.append(numbers[k, :3], [np.cos(numbers[k, 3]), np.sin(numbers[k, 3])]), check


def _checked(kind, x, offsets, branch, fine: Task, points: Task | None, spans: Spans) -> FunctionSolution:
    """A solution with its mechanism followed through the range."""
    errors, cosines = _errors(kind, x, branch, fine)
    errors, wanted = errors * spans.unit, (x[4] + fine.outputs) * spans.unit
    design, angles = kind.design(x, offsets, spans.unit), x[3] + fine.angles
    mech = kind.linkage.mechanism(design | PLACE, angles[0], spans.width[0] / (2 * np.pi))
    guess = kind.linkage.guess(design | PLACE, angles[0], branch)
    times = common.times_with([] if points is None else points.angles / spans.width[0])
    poses = common.followed(mech, times, guess)
    lengths = _lengths(kind, x, np)
    seen, cosine = kind.where(lengths, x[3] + times * spans.width[0], branch, np)
    gap = np.inf if poses is None else np.abs(kind.read(poses) - spans.unit * seen).max()
    reached = max(np.abs(cosines).max(), np.abs(cosine).max()) < 1
    checks = {
        "assembled": bool(reached and gap < common.near_zero() * spans.unit),
        "largest_error": float(np.abs(errors).max()),
        "transmission_angle": common.angle_of(cosines),
    }
    if points is not None:
        checks["precision_error"] = float(np.abs(_errors(kind, x, branch, points)[0]).max() * spans.unit)
    error = float(np.sqrt((errors**2).mean()))
    return FunctionSolution(design, error, mech, guess, int(branch), fine.x, angles, wanted + errors, wanted, checks)
