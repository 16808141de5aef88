"""Function generation: a linkage whose output follows a function of the angle of its crank."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.numerics.least_squares import levenberg_marquardt
from jaxmbs.programs.function import Straight
from jaxmbs.synthesis.builders import fit
from jaxmbs.synthesis.common import Ranked, count_of, finite, followed, limits, near_zero, times_with
from jaxmbs.synthesis.generators import FourBarGenerator, SliderCrankGenerator
from jaxmbs.synthesis.own import check_own, output_of, refuse_foreign
from jaxmbs.synthesis.stages import Report
from jaxmbs.system.mechanism import Mechanism

GENERATORS: dict[str, Any] = {x.name: x for x in (FourBarGenerator, SliderCrankGenerator)}
# Steps and samples for all starts; steps for the best of them.
FIRST, COARSE, FURTHER, BEST = 40, 12, 1000, 128
# No angle, and no logarithm of a length, changes by more in a step.
LONGEST = 0.5
# How hard bounds push, and how far inside they do.
PUSH, INSIDE = 10.0, 1e-3
# Without bounds lengths stay within this factor of the ground, or of the way of the slide.
FACTOR = 20.0
# Beyond these, in the same units, no bound can be.
LEAST_LENGTH, MOST_LENGTH = 1e-3, 1e3
# Smallest transmission angle, in degrees. Below it the links hardly reach each other.
MIN_TRANSMISSION_ANGLE_DEG = 1.0
# Numbers that differ by no more are the same solution.
SAME = 1e-3
# Points of the range at which the error of a result is measured.
FINE = 361
# Candidates that fail a check are replaced, until this many per result have been tried.
MAX_CANDIDATES_PER_RESULT = 4


class FunctionSolution(NamedTuple):
    """A linkage that generates a function.

    Attributes:
        design: its dimensions, all lengths positive. "crank_offset" and "rocker_offset" are π where the vector of that
            link is reversed, a negative length in Freudenstein's equation, else 0: the angle of the link is that of the
            dial plus the offset.
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


def function(
    f: Callable[[float], float],
    x_range: tuple[float, float],
    *,
    mechanism: str | Callable = "four-bar",
    input_span: float | tuple[float, float] | None = None,
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
    design: Any = None,
    output: str | Callable | None = None,
    guess: Any = None,
) -> Ranked:
    """Dimensions of a linkage whose output follows y = f(x) as the crank follows x.

    The angle φ of the crank is linear in x, and that of the rocker ψ, or the way of the slide, is linear in y. Angles
    count from the line of the pivots, or of the slide. Both are bound by Freudenstein's equation

        K₁ cos ψ − K₂ cos φ + K₃ = cos(φ − ψ),  K₁ = d/a,  K₂ = d/c,  K₃ = (a² − b² + c² + d²)/(2ac),

    for crank a, coupler b, rocker c and ground d = 1, and for crank a, coupler b and offset e of a slider-crank by s² =
    2a s cos φ + 2ae sin φ + b² − a² − e². With three precision points and given spans it is linear, and solved
    directly. Otherwise the least squares of the error are sought from many random starts and from least squares of that
    equation. Freudenstein, Approximate synthesis of four-bar linkages, Trans. ASME 77 (1955); Hartenberg and Denavit,
    Kinematic Synthesis of Linkages (1964), chapter 10.

    Args:
        f: a function of a number.
        x_range: (beginning, end), where it is wanted.
        mechanism: "four-bar" or "slider-crank". Or a function that builds any mechanism from a design, planar or
            spatial; its drivers take the input through its span, and the results are those of `fit`.
        input_span: of the crank in radians: (beginning, end), or its width alone, the beginning being free. A negative
            width turns backwards. For a mechanism of one's own the times of both ends, 0 and 1 by default.
        output_span: of the rocker in radians or of the slide in any unit of length; likewise.
        y_range: the values of f at the two ends of the output's span; by default f at the ends of the range if it rises
            or falls all the way, else its least and its largest value.
        precision_points: where the error is to vanish: three to five x, or their number for Chebyshev's spacing. More
            than three need a free beginning each. None: least squares over the range.
        transmission_angle: the least that is allowed, in degrees. It has no effect on the one linkage for three points
            and given spans.
        samples: of the range, for least squares.
        lower, upper: bounds of "crank", "coupler", "rocker" relative to the ground, or of "crank", "coupler", "offset",
            by name or one for all; 1/20 and 20 of the ground, or of the way of the slide, by default.
        starts: number of starts.
        seed: of the random numbers.
        keep: how many of the best to return.
        progress, resume: as of `path`, for a mechanism of one's own.
        design: for a mechanism of one's own, the design to begin with.
        output: for a mechanism of one's own, a coordinate by name such as "rocker.phi", or a function of (design,
            mechanism, q).
        guess: for a mechanism of one's own, the configuration at time 0, or a function of the design.

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
    if callable(mechanism):
        check_own("function", mechanism, {"design": design, "output": output}, {})
        wanted = (
            f,
            x_range,
            y_range,
            (0.0, 1.0) if input_span is None else input_span,
            output_span,
            precision_points,
            samples,
        )
        options = {"guess": guess, "lower": lower, "upper": upper, "starts": starts, "seed": seed, "keep": keep}
        return _own(mechanism, design, output, *wanted, **options, progress=progress, resume=resume)
    if progress is not None or resume is not None:
        raise ValueError("progress and resume are for a mechanism of one's own; linkages by name take a few seconds")
    refuse_foreign({"design": design, "output": output, "guess": guess})
    if mechanism not in GENERATORS:
        raise ValueError(f"mechanism must be one of {', '.join(map(repr, GENERATORS))}, got {mechanism!r}")
    if input_span is None:
        raise ValueError("input_span is needed: (beginning, end) of the crank, or its width")
    kind, spans = GENERATORS[mechanism], _spans(input_span, output_span, GENERATORS[mechanism].angular)
    ends, keep = _pair("x_range", x_range), count_of("keep", keep)
    if not 0 <= transmission_angle < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {transmission_angle!r}")
    at = _task(f, ends, y_range, spans)
    fine = at(np.linspace(ends[0], ends[1], FINE))
    points = None if precision_points is None else at(_precision_points(precision_points, ends, spans))
    if points is not None and len(points.x) == 3 and None not in spans.start:
        found = _exact(kind, points, spans)
    else:
        coarse, middle = (
            (points, points) if points else (at(np.linspace(ends[0], ends[1], COARSE)), at(_many(samples, ends)))
        )
        bounds = _bounds(kind, lower, upper, spans.unit)
        limit = np.cos(np.deg2rad(max(transmission_angle, MIN_TRANSMISSION_ANGLE_DEG)))
        found = _search(
            kind, coarse, middle, spans, bounds, limit, count_of("starts", starts), seed, exact=points is not None
        )
    return _ranked(kind, found, fine, points, spans, transmission_angle, keep)


def _own(build, design, output, f, x_range, y_range, input_span, output_span, precision_points, samples, **options):
    """By a mechanism of one's own: the output at times in place of angles."""
    spans, ends = _spans(input_span, output_span, angular=True), _pair("x_range", x_range)
    begin, free = spans.start[0], spans.start[1] is None
    if begin is None or begin < 0 or spans.width[0] < 0:
        raise ValueError(
            f"input_span of a mechanism of one's own must be times (beginning, end) from 0 on, got {input_span!r}"
        )
    x = _many(samples, ends) if precision_points is None else _precision_points(precision_points, ends, None)
    task = _task(f, ends, y_range, spans)(x)
    targets = (spans.start[1] or 0.0) + task.outputs
    options |= {"times": begin + task.angles, "period": begin + spans.width[0], "offset": free, "cyclic": False}
    return fit(build, design, targets, output_of(output), **options)


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


def _task(f, ends, y_range, spans: Spans) -> Callable[[np.ndarray], Task]:
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
        return Task(x, part * spans.width[0], (values(x) - low) / (high - low) * spans.width[1])

    return at


def _many(samples, ends) -> np.ndarray:
    if count_of("samples", samples) < 5:
        raise ValueError(f"samples must be at least 5, as many as there are unknowns, got {samples!r}")
    return np.linspace(ends[0], ends[1], samples)


def _precision_points(given, ends, spans: Spans | None) -> np.ndarray:
    """Where the error is to vanish: as many as there are unknowns, which a mechanism of one's own has for itself."""
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


class Found(NamedTuple):
    """Numbers (N, 5), offsets (N, 2) and branches (N,) of candidates, the best first."""

    numbers: np.ndarray
    offsets: np.ndarray
    branches: np.ndarray


def _exact(kind, points: Task, spans: Spans) -> Found:
    """Freudenstein's equation at three points."""
    angle, output = np.array(spans.start, float)
    rows, right = kind.equation(angle + points.angles, output + points.outputs)
    with np.errstate(all="ignore"):
        k = np.linalg.solve(rows, right) if np.linalg.cond(rows) < 1e14 else np.full(3, np.nan)
        numbers, offsets = kind.numbers(k, angle, output)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"no {kind.name} passes these precision_points; take other ones, or other spans")
    both = [_errors(kind, numbers, branch, points)[0] for branch in (1.0, -1.0)]
    branch = 1.0 if np.abs(both[0]).max() <= np.abs(both[1]).max() else -1.0
    return Found(numbers[None], offsets[None], np.array([branch]))


def _bounds(kind, lower, upper, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the logarithms of lengths and of the offset, in units of the unknowns."""
    positive = np.array(kind.positive)
    low = limits("lower", lower, kind.free, np.where(positive, 1 / FACTOR, -FACTOR) * unit) / unit
    high = limits("upper", upper, kind.free, np.full(3, FACTOR * unit)) / unit
    low, high = (
        np.where(positive, np.maximum(low, LEAST_LENGTH), np.maximum(low, -MOST_LENGTH)),
        np.minimum(high, MOST_LENGTH),
    )
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


@lru_cache(maxsize=64)
def _solver(kind, iterations: int):
    def of_one(x, branch, data, fixed, low, high, limit):
        given = x

        def residual(x, own, state, data):
            x, (angle, output) = jnp.where(fixed, given, x), data
            seen, cosine = kind.where(_lengths(kind, x, jnp), x[3] + angle, branch, jnp)
            open_by = PUSH * jnp.maximum(jnp.abs(cosine) - limit + INSIDE * (1 - limit), 0)
            return jnp.stack([*kind.missed(seen, x[4] + output, jnp), open_by]), state

        def prior(x):
            inside = jnp.minimum(INSIDE, (high - low) / 4)
            return PUSH * jnp.concatenate([jnp.maximum(x[:3] - high + inside, 0), jnp.maximum(low + inside - x[:3], 0)])

        own = jnp.zeros((data[0].shape[0], 0))
        found = levenberg_marquardt(residual, prior, x, own, (), data, iterations=iterations, longest=LONGEST)
        return jnp.where(fixed, given, found.shared), found.cost

    return jax.jit(jax.vmap(Straight(of_one), in_axes=(0, 0, None, None, None, None, None)))


def _search(kind, coarse: Task, middle: Task, spans: Spans, bounds, limit, starts, seed, exact: bool) -> Found:
    x, offsets, branches = _started(kind, coarse, spans, bounds, starts, np.random.default_rng(seed))
    fixed = np.array([False, False, False, *(start is not None for start in spans.start)])
    low, high = bounds
    for task, iterations in ((coarse, FIRST), (middle, FURTHER)):
        x, cost = _solver(kind, iterations)(x, branches, (task.angles, task.outputs), fixed, low, high, limit)
        best = np.argsort(finite(cost), kind="stable")[:BEST]
        x, cost, offsets, branches = np.asarray(x)[best], finite(cost)[best], offsets[best], branches[best]
    inside = np.isfinite(cost) & np.all((x[:, :3] >= low) & (x[:, :3] <= high), axis=1)
    if exact:
        inside &= np.abs(_errors(kind, x, branches, middle)[0]).max(axis=1) < near_zero()
    if not np.any(inside):
        passes = "passes these precision_points within" if exact else "keeps"
        raise ValueError(f"no {kind.name} was found that {passes} the bounds; allow more starts, or more room")
    return Found(x[inside], offsets[inside], branches[inside])


def _ranked(kind, found: Found, fine: Task, points: Task | None, spans: Spans, transmission, keep: int) -> Ranked:
    errors, cosines = _errors(kind, found.numbers, found.branches, fine)
    cost = np.sqrt((errors**2).mean(axis=1)) + 1e3 * np.any(np.abs(cosines) >= 1, axis=1)
    good: list[FunctionSolution] = []
    others: list[FunctionSolution] = []
    known: list[np.ndarray] = []
    for k in np.argsort(cost, kind="stable"):
        if len(good) == keep or len(known) == MAX_CANDIDATES_PER_RESULT * keep:
            break
        x, branch = found.numbers[k], found.branches[k]
        alike = np.append(x[:3], [np.cos(x[3]), np.sin(x[3])])
        if any(np.abs(alike - other).max() < SAME for other in known):
            continue
        known.append(alike)
        solution = _checked(kind, x, found.offsets[k], branch, fine, points, spans)
        checks = solution.checks
        kept = checks["assembled"] and checks["transmission_angle"] >= transmission
        passed = checks.get("precision_error", 0.0) < near_zero() * spans.unit
        (good if kept and passed else others).append(solution)
    return Ranked((good + others)[:keep])


def _checked(kind, x, offsets, branch, fine: Task, points: Task | None, spans: Spans) -> FunctionSolution:
    """A solution with its mechanism followed through the range."""
    errors, cosines = _errors(kind, x, branch, fine)
    errors, wanted = errors * spans.unit, (x[4] + fine.outputs) * spans.unit
    design, angles = kind.design(x, offsets, spans.unit), x[3] + fine.angles
    mech = kind.mechanism(design, angles[0], spans.width[0])
    guess = kind.guess(design, angles[0], branch)
    times = times_with([] if points is None else points.angles / spans.width[0])
    poses = followed(mech, times, guess)
    lengths = _lengths(kind, x, np)
    seen, cosine = kind.where(lengths, x[3] + times * spans.width[0], branch, np)
    same = False
    if poses is not None and np.all(np.abs(cosine) < 1):
        ratio = 1.0 if kind.angular else spans.unit
        gaps = [np.abs(a - ratio * b).max() for a, b in zip(kind.read(poses), seen, strict=True)]
        same = bool(max(gaps) < near_zero() * ratio)
    checks = {
        "assembled": bool(same and np.all(np.abs(cosines) < 1)),
        "largest_error": float(np.abs(errors).max()),
        "transmission_angle": float(np.rad2deg(np.arccos(min(np.abs(cosines).max(), 1.0)))),
    }
    if points is not None:
        checks["precision_error"] = float(np.abs(_errors(kind, x, branch, points)[0]).max() * spans.unit)
    error = float(np.sqrt((errors**2).mean()))
    return FunctionSolution(design, error, mech, guess, int(branch), fine.x, angles, wanted + errors, wanted, checks)
