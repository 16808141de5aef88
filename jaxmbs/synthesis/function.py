"""Function generation: a linkage whose output follows a function of the angle of its crank."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.search import ProgressCallback, Ranked, SearchOptions, order_by_cost, positive_integer, rank_candidates
from jaxmbs.synthesis import common
from jaxmbs.synthesis.builders import fit, forwards_builders
from jaxmbs.synthesis.function_search import (
    Linkages,
    SampledFunction,
    Spans,
    errors_of,
    exact_linkage,
    lengths_of,
    search_linkages,
)
from jaxmbs.synthesis.generators import AT_ORIGIN, FourBarGenerator, SliderCrankGenerator
from jaxmbs.system.mechanism import Mechanism

# Linkages that `function` knows: name ↦ class with its equations.
GENERATORS: dict[str, Any] = {x.linkage.name: x for x in (FourBarGenerator, SliderCrankGenerator)}
# Number of samples of the range in the steps of all starts; the best starts then get the user's `samples`.
COARSE_SAMPLES = 12
# Default upper bound on lengths in `function`, in units of ground or travel of the slide; its inverse is the lower one.
MAX_LENGTH_RATIO = 20.0
# Lower limit on the bounds of lengths in `function`, in units of the ground or of the slide's travel.
MIN_LENGTH = 1e-3
# Upper limit on the bounds of lengths in `function`, in units of the ground or of the slide's travel.
MAX_LENGTH = 1e3
# Smallest transmission angle in `function`, in degrees, whatever the user allows: below it links hardly reach.
MIN_TRANSMISSION_ANGLE_DEG = 1.0
# Number of evenly spaced points of the range at which the error of a result of `function` is measured.
FINE_SAMPLES = 361
# Lower limit on the argument `samples` of `function`: five numbers describe a linkage.
MIN_SAMPLES = 5
# Added to the error, in radians, of a linkage in `function` whose links do not reach each other over the whole range.
OPEN_LINKAGE_COST = 1e3


class FunctionSolution(NamedTuple):
    """A linkage that generates a function.

    Attributes:
        design: its dimensions by name; all lengths are positive. "crank_offset" and "rocker_offset" are π if
            Freudenstein's equation gives that link a negative length, else 0: the angle of the link is that in the
            equation plus the offset.
        error: root mean square of output − f over the range, in radians, for a slide in units of the output.
        mechanism: with a motor that takes the crank through its span in a unit of time.
        guess: the assembled poses of its bodies at time 0.
        branch: four-bar: +1 if the coupler lies to the left of the line from the crank's pin to the rocker's pivot, −1 if
            to the right; slider-crank: +1 if the slide is ahead of the pin, −1 if behind.
        x: (N,), points of the function's range.
        crank_angles: (N,), at these points.
        output: (N,), rocker angle or displacement of the slide at these points.
        wanted: (N,), the output that f asks for.
        checks: "assembled": the mechanism was followed through the range, on one branch; "largest_error", in the units
            of `error`; "transmission_angle": the smallest, in degrees; "precision_error": the largest error at the
            precision points.

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


def _fit_builder(
    build, f, x_range, *, design, output, output_span, input_span=(0.0, 1.0), y_range=None, precision_points=None,
    samples=60, keep=10, **options,
):  # fmt: skip
    """Answer a deprecated call, with a builder as mechanism, by `fit`."""
    ends, (begin, end), span = _pair("x_range", x_range), _pair("input_span", input_span), np.atleast_1d(output_span)
    first, free = (span[0], False) if len(span) == 2 else (0.0, True)
    x = _even_samples(samples, ends) if precision_points is None else _precision_points(precision_points, ends)
    sampled = _sampler(f, ends, y_range, (end - begin, span[-1] - first))(x)
    timing: Any = {"times": begin + sampled.angles, "period": end, "cyclic": False}
    return fit(build, design, first + sampled.outputs, output, offset=free, keep=keep, **timing, **options)


@forwards_builders(_fit_builder, "fit(build, design, f(x), output, times=..., offset=True, cyclic=False)")
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
    progress: ProgressCallback | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[FunctionSolution]:
    """Find the dimensions of a linkage whose output follows y = f(x) as the crank follows x.

    The crank angle φ is linear in x; the rocker angle ψ, or the displacement s of the slider, is linear in y. Angles
    count from the line of the pivots, or of the slide. Freudenstein's equation relates φ and ψ:

        K₁ cos ψ − K₂ cos φ + K₃ = cos(φ − ψ),  K₁ = d/a,  K₂ = d/c,  K₃ = (a² − b² + c² + d²)/(2ac),

    for a four-bar with crank a, coupler b, rocker c and ground d = 1. In a slider-crank with crank a, coupler b and
    offset e, s² = 2a s cos φ + 2ae sin φ + b² − a² − e². With three precision points and given spans these equations
    are linear in the K, and solved directly. Otherwise the sum of squared errors is minimised from random designs and
    from least-squares solutions of these equations. Freudenstein, Approximate synthesis of four-bar linkages, Trans.
    ASME 77 (1955); Hartenberg and Denavit, Kinematic Synthesis of Linkages (1964), chapter 10.

    Args:
        f: a function of a number.
        x_range: (beginning, end) of the range of x.
        mechanism: "four-bar" or "slider-crank". For a mechanism of your own see `fit`.
        input_span: crank angles in radians: (beginning, end); or the width alone, if the beginning is free. A negative
            width turns backwards.
        output_span: likewise for the rocker in radians, or for the slide in any unit of length.
        y_range: values of f at the two ends of the output's span; None: f at the ends of the range if f is monotone there,
            else its smallest and its largest value.
        precision_points: three to five values of x at which the error must vanish; or their number, for Chebyshev
            spacing. Each one beyond the third needs a span whose beginning is free. None: least squares over the range.
        transmission_angle: the smallest one that is allowed, in degrees. It has no effect with three precision points and
            given spans, for which there is only one linkage.
        samples: number of samples of the range for least squares.
        lower: lower bounds of "crank", "coupler" and "rocker" relative to the ground, or of "crank", "coupler" and
            "offset": a mapping of these names to numbers, or one number for all; by default 1/20 of the ground, or of the
            slide's travel.
        upper: upper bounds, likewise; by default 20 times the ground, or the slide's travel.
        starts: number of starts.
        seed: the seed of the random numbers.
        keep: how many of the best solutions to return.
        progress: as for `path`.
        resume: as for `path`.

    Returns:
        Designs with their mechanisms and errors, the best first; see `Ranked` and `FunctionSolution`.

    Raises:
        ValueError: an argument cannot be used; the message names it. Nothing was found.

    Examples:
        >>> spans = dict(input_span=(-1.0, 0.0), output_span=(-1.5, -0.5))
        >>> best = mbs.synthesis.function(jnp.log10, (1, 2), precision_points=3, **spans).best
        >>> round(float(best.design["coupler"]), 4), round(float(best.error), 4)
        (1.6936, 0.0064)
    """
    if mechanism not in GENERATORS:
        raise ValueError(f"mechanism must be one of {', '.join(map(repr, GENERATORS))}, got {mechanism!r}")
    generator, options = GENERATORS[mechanism], SearchOptions.from_arguments(starts, seed, keep, progress, resume)
    spans, ends = _spans(input_span, output_span, generator.angular), _pair("x_range", x_range)
    common.check_transmission_angle(transmission_angle)
    sample_at = _sampler(f, ends, y_range, spans.width)
    fine = sample_at(np.linspace(ends[0], ends[1], FINE_SAMPLES))
    points = None if precision_points is None else sample_at(_precision_points(precision_points, ends, spans))
    if points is not None and len(points.x) == 3 and None not in spans.start:
        linkages = exact_linkage(generator, points, spans)
    else:
        coarse = points or sample_at(np.linspace(ends[0], ends[1], COARSE_SAMPLES))
        middle = points or sample_at(_even_samples(samples, ends))
        max_cosine = np.cos(np.deg2rad(max(transmission_angle, MIN_TRANSMISSION_ANGLE_DEG)))
        bounds = _bounds(generator, lower, upper, spans.unit)
        linkages = search_linkages(
            generator, coarse, middle, spans, bounds, max_cosine, options, exact=points is not None
        )
    return rank_candidates(_candidates(generator, linkages, fine, points, spans, transmission_angle), options.keep)


def _pair(name: str, value) -> tuple[float, float]:
    """Return the argument `name` as two different finite numbers, else raise ValueError."""
    pair = np.asarray(value, float)
    if pair.shape != (2,) or not np.all(np.isfinite(pair)) or pair[0] == pair[1]:
        raise ValueError(f"{name} must be two different finite numbers, got {value!r}")
    return float(pair[0]), float(pair[1])


def _spans(input_span, output_span, angular: bool) -> Spans:
    """Return the arguments `input_span` and `output_span` as `Spans`; `angular` says that the output is an angle."""

    def start_and_width(name, span):
        """Return the beginning of a span, None if it is free, and its width with a sign."""
        if np.ndim(span):
            start, end = _pair(name, span)
            return start, end - start
        if not np.isfinite(span) or span == 0:
            raise ValueError(f"{name} must be a width other than zero, or a pair (beginning, end), got {span!r}")
        return None, float(span)

    (phi, turn), (psi, swing) = start_and_width("input_span", input_span), start_and_width("output_span", output_span)
    unit = 1.0 if angular else abs(swing)
    return Spans((phi, None if psi is None else psi / unit), (turn, swing / unit), unit)


def _sampler(f, ends, y_range, width) -> Callable[[np.ndarray], SampledFunction]:
    """Return the function x (T,) ↦ `SampledFunction`; `ends` of the range of x, `width` as in `Spans`."""

    def values(x):
        """Return f at all x; raise ValueError if it is not finite somewhere."""
        y = np.array([float(f(float(value))) for value in x])
        if not np.all(np.isfinite(y)):
            raise ValueError(f"f is not finite at x = {x[~np.isfinite(y)][0]:g}")
        return y

    if y_range is None:
        y = values(np.linspace(ends[0], ends[1], FINE_SAMPLES))
        is_monotone = np.all(np.diff(y) > 0) or np.all(np.diff(y) < 0)
        y_range = (y[0], y[-1]) if is_monotone else (y.min(), y.max())
        if y_range[0] == y_range[1]:
            raise ValueError("f is constant over x_range: give y_range, the values of f at the ends of output_span")
    low, high = _pair("y_range", y_range)

    def sample_at(x):
        """Return the samples of f at x (T,)."""
        part = (x - ends[0]) / (ends[1] - ends[0])
        return SampledFunction(x, part * width[0], (values(x) - low) / (high - low) * width[1])

    return sample_at


def _even_samples(samples, ends) -> np.ndarray:
    """Return evenly spaced x (samples,) from end to end; raise ValueError if they are too few."""
    if positive_integer("samples", samples) < MIN_SAMPLES:
        raise ValueError(f"samples must be at least {MIN_SAMPLES}, the number of unknowns, got {samples!r}")
    return np.linspace(ends[0], ends[1], samples)


def _precision_points(points, ends, spans: Spans | None = None) -> np.ndarray:
    """Return the x (T,) at which the error must vanish; if spans are given, at most as many as there are unknowns."""
    if np.ndim(points) == 0:
        count = positive_integer("precision_points", points)
        x = np.mean(ends) - (ends[1] - ends[0]) / 2 * np.cos((2 * np.arange(count) + 1) * np.pi / (2 * count))
    else:
        x = np.asarray(points, float)
    low, high = sorted(ends)
    if x.ndim != 1 or len(np.unique(x)) != len(x) or not np.all((x >= low) & (x <= high)):
        raise ValueError(f"precision_points must be different numbers within x_range, got {points!r}")
    if spans is None:
        return x
    most = 3 + spans.start.count(None)
    if not 3 <= len(x) <= most:
        allowed = "3" if most == 3 else f"3 to {most}"
        raise ValueError(f"precision_points must be {allowed} points, one per unknown with these spans, got {len(x)}")
    return x


def _bounds(generator, lower, upper, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds (3,) of the first three numbers x, see `generators`; `unit` as in `Spans`."""
    positive, shapes = np.array(generator.positive), dict.fromkeys(generator.free, ())
    low = common.flat_bounds("lower", lower, shapes, -np.inf) / unit
    high = common.flat_bounds("upper", upper, shapes, np.inf) / unit
    low = np.where(np.isinf(low), np.where(positive, 1 / MAX_LENGTH_RATIO, -MAX_LENGTH_RATIO), low)
    low = np.maximum(low, np.where(positive, MIN_LENGTH, -MAX_LENGTH))
    high = np.minimum(np.where(np.isinf(high), MAX_LENGTH_RATIO, high), MAX_LENGTH)
    if np.any(low > high):
        name = generator.free[int(np.argmax(low > high))]
        default = f"the default bounds are 1/{MAX_LENGTH_RATIO:g} and {MAX_LENGTH_RATIO:g}"
        raise ValueError(f"the lower bound of {name!r} is above the upper one; {default}")
    logs = lambda x: np.where(positive, np.log(np.where(positive, x, 1)), x)
    return logs(low), logs(high)


def _candidates(generator, linkages: Linkages, fine: SampledFunction, points, spans: Spans, min_transmission_angle):
    """Yield the candidates of `rank_candidates`, the least error first.

    fine: samples at which the error counts. points: precision points as a `SampledFunction`, or None.
    """
    numbers, offsets, branches = linkages
    errors, cosines = errors_of(generator, numbers, branches, fine)
    cost = np.sqrt((errors**2).mean(axis=1)) + OPEN_LINKAGE_COST * np.any(np.abs(cosines) >= 1, axis=1)
    for k in order_by_cost(cost):

        def check(k=k):
            """Return the solution of linkage k, and True if it assembles, transmits and meets its precision points."""
            solution = _solution(generator, numbers[k], offsets[k], branches[k], fine, points, spans)
            checks = solution.checks
            passes = checks["assembled"] and checks["transmission_angle"] >= min_transmission_angle
            return solution, passes and checks.get("precision_error", 0.0) < common.zero_tolerance() * spans.unit

        yield np.append(numbers[k, :3], [np.cos(numbers[k, 3]), np.sin(numbers[k, 3])]), check


def _solution(generator, x, offsets, branch, fine: SampledFunction, points, spans: Spans) -> FunctionSolution:
    """Return the solution of numbers x (5,) in the user's units, with its mechanism followed through the range."""
    errors, cosines = errors_of(generator, x, branch, fine)
    errors, wanted = errors * spans.unit, (x[4] + fine.outputs) * spans.unit
    design, angles = generator.design(x, offsets, spans.unit), x[3] + fine.angles
    mech = generator.linkage.mechanism(design | AT_ORIGIN, angles[0], spans.width[0] / (2 * np.pi))
    guess = generator.linkage.guess(design | AT_ORIGIN, angles[0], branch)
    times = common.times_including([] if points is None else points.angles / spans.width[0])
    poses = common.follow_motion(mech, times, guess)
    lengths = lengths_of(generator, x, np)
    output, cosine = generator.output_and_cosine(lengths, x[3] + times * spans.width[0], branch, np)
    gap = np.inf if poses is None else np.abs(generator.output_of_poses(poses) - spans.unit * output).max()
    reached = max(np.abs(cosines).max(), np.abs(cosine).max()) < 1
    checks = {
        "assembled": bool(reached and gap < common.zero_tolerance() * spans.unit),
        "largest_error": float(np.abs(errors).max()),
        "transmission_angle": common.transmission_angle_deg(cosines),
    }
    if points is not None:
        checks["precision_error"] = float(np.abs(errors_of(generator, x, branch, points)[0]).max() * spans.unit)
    error = float(np.sqrt((errors**2).mean()))
    return FunctionSolution(design, error, mech, guess, int(branch), fine.x, angles, wanted + errors, wanted, checks)
