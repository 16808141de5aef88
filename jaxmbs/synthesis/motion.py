"""Motion generation: a linkage that carries a body through given poses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxmbs.numerics.plane import direction, perpendicular
from jaxmbs.search import (
    MAX_CANDIDATES_PER_RESULT,
    PENALTY_START,
    LeastSquaresPhase,
    LeastSquaresProblem,
    MultistartCarry,
    ProgressCallback,
    Ranked,
    SearchOptions,
    descend,
    order_by_cost,
    rank_candidates,
)
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import fit, forwards_builders
from jaxmbs.synthesis.linkages.four_bar import FourBar
from jaxmbs.synthesis.linkages.linkage import TINY, close_links, cosine_between
from jaxmbs.synthesis.links import MAX_SIZE, MIN_LENGTH, four_bars_of, single_links
from jaxmbs.system.mechanism import Mechanism

# Number of steps of the search for four-bars that begins from pairs of single links.
STEPS_FOUR_BARS = 200
# Number of crank angles from the first pose to the last at which `motion` checks the transmission angle of a result.
TRANSMISSION_SAMPLES = 361


class MotionSolution(NamedTuple):
    """A linkage that guides a body through poses.

    Attributes:
        design: its dimensions by name; "point" on the coupler is the origin of the body, and "frame" is the angle of the
            body's x axis from the line between the coupler's pins.
        error: Σ (distance² + (angle_length · angle)²) over the poses.
        mechanism: with a motor that takes the crank from the first pose to the last in a unit of time; if they are not in
            order, from the least of the crank angles to the largest.
        guess: the assembled poses of its bodies at time 0.
        crank_angles: (K,), at the poses.
        branch: see `FourBar`.
        poses: (K, 3), of the body at these angles.
        checks: "assembled": the mechanism was followed and passes through these poses; "ordered": it passes them in their
            order, within a turn; "grashof": a link can turn fully; "transmission_angle": the smallest on the way, in
            degrees; "position_error" and "angle_error": the largest ones.

    Examples:
        >>> poses = jnp.array([[0.0, 0, 0], [1, 0, 0.3], [1.5, 0.5, 0.6]])
        >>> best = mbs.synthesis.motion(poses, starts=64).best
        >>> best.poses.shape, bool(best.checks["position_error"] < 1e-6)
        ((3, 3), True)
    """

    design: dict[str, Any]
    error: float
    mechanism: Mechanism
    guess: dict[str, tuple]
    crank_angles: np.ndarray
    branch: int
    poses: np.ndarray
    checks: dict[str, Any]


def design_of(u: Float[jax.Array, "10"]) -> dict[str, jax.Array]:
    """Return the design of a four-bar that guides two points of a body on circles, in units of u.

    u are the two pivots (4), the two points in the body's axes (4), and the logarithms of the two radii.
    """
    line, rod = u[2:4] - u[:2], u[6:8] - u[4:6]
    length = jnp.sqrt(rod @ rod + TINY)
    e = rod / length
    return {
        "ground": jnp.sqrt(line @ line + TINY),
        "crank": jnp.exp(u[8]),
        "coupler": length,
        "rocker": jnp.exp(u[9]),
        "point": -jnp.stack([e @ u[4:6], perpendicular(e) @ u[4:6]]),
        "angle": jnp.arctan2(line[1], line[0]),
        "pivot": u[:2],
    }


def pose_of(u, angle, branch):
    """Return the body's origin (2,) and x axis (2,) at a crank angle from the plane's x axis; u as for `design_of`."""
    pin, rod = u[:2] + jnp.exp(u[8]) * direction(angle), u[6:8] - u[4:6]
    length = jnp.sqrt(rod @ rod + TINY)
    e, _ = close_links(u[2:4] - pin, length, jnp.exp(u[9]), branch)
    # The angle of the body is the angle from the rod in the body's axes to the rod in the plane.
    c, s = (rod @ e) / length, (rod[0] * e[1] - rod[1] * e[0]) / length
    origin = pin - jnp.stack([c * u[4] - s * u[5], s * u[4] + c * u[5]])
    return origin, jnp.stack([c, s])


def _fit_builder(build, poses, *, design, body, angle_length=None, ordered=True, keep=10, **options):
    """Answer a deprecated call, with a builder as mechanism, by `fit`."""
    return fit(build, design, poses, measures.pose(body, angle_length), ordered=ordered, keep=keep, **options)


@forwards_builders(_fit_builder, "fit(build, design, poses, synthesis.pose(body), ordered=True)")
def motion(
    poses: ArrayLike | Sequence[Sequence[float]],
    *,
    mechanism: str = "four-bar",
    angle_length: float | None = None,
    ordered: bool = True,
    transmission_angle: float = 0.0,
    lower: Mapping[str, Any] | float | None = None,
    upper: Mapping[str, Any] | float | None = None,
    starts: int = 2048,
    seed: int = 0,
    keep: int = 10,
    progress: ProgressCallback | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[MotionSolution]:
    """Find the dimensions of a linkage that guides a body through poses: minimise Σ ‖r_k − r*_k‖² + L² (φ_k − φ*_k)².

    Thousands of single links are fitted first: a point P of the body should stay on a circle about O, |r_k + A(φ_k) P −
    O| = a. For up to five poses this has exact solutions (Burmester). Pairs of such links form four-bars. Their sum of
    squares over the poses, with free crank angles, is then minimised by the method of Levenberg and Marquardt. Exact
    solutions are ranked by transmission angle. Burmester, Lehrbuch der Kinematik (1888); McCarthy and Soh, Geometric
    Design of Linkages (2011), chapter 5.

    Args:
        poses: (K, 3), x, y of the body's origin and its angle in radians, in the order in which they are to be passed.
        mechanism: "four-bar". For a mechanism of your own, also in space, see `fit` and `pose`.
        angle_length: L, the length by which angles are multiplied; None: the root mean square distance of the positions
            from their centre.
        ordered: whether the poses must be passed in their order while the crank turns one way by less than a turn.
        transmission_angle: linkages with at least this transmission angle, in degrees, are ranked before others.
        lower: lower bounds of the design: a mapping of names of its entries to numbers, or one number for all entries
            except the angle.
        upper: upper bounds, likewise.
        starts: number of single links.
        seed: the seed of the random numbers.
        keep: how many of the best solutions to return.
        progress: as for `path`.
        resume: as for `path`.

    Returns:
        Designs with their mechanisms and errors, the best first; see `Ranked` and `MotionSolution`.

    Raises:
        ValueError: an argument cannot be used; the message names it. Nothing was found.

    Examples:
        >>> poses = jnp.array([[0.0, 0, 0], [1, 0, 0.3], [1.5, 0.5, 0.6]])
        >>> found = mbs.synthesis.motion(poses, starts=64)
        >>> found.best.error < 1e-12  # three poses are met exactly
        True
    """
    poses = common.rows_of_numbers("poses", poses, "rows x, y, angle, shape (K, 3)", (3,))
    if mechanism != FourBar.name:
        raise ValueError(f"mechanism must be {FourBar.name!r}, got {mechanism!r}")
    common.check_transmission_angle(transmission_angle)
    options, spread = SearchOptions.from_arguments(starts, seed, keep, progress, resume), common.spread_of(poses[:, :2])
    angle_length = spread or 1.0 if angle_length is None else common.positive_number("angle_length", angle_length)
    # Poses in one place have no spread; lengths are then in units of angle_length.
    unit = poses[:, :2].mean(axis=0), spread if spread > 1e-9 * angle_length else angle_length
    goal = np.column_stack([(poses[:, :2] - unit[0]) / unit[1], np.cos(poses[:, 2]), np.sin(poses[:, 2])])
    bounds = _bounds(lower, upper, *unit)
    rng = options.rng
    links, costs = single_links(goal, options._replace(progress=None, resume=None), rng)
    u, angles, branch = four_bars_of(links, costs, goal, ordered, rng)
    carry = MultistartCarry.at_start(u, branch, own=angles[:, :, None])
    phase = LeastSquaresPhase(STEPS_FOUR_BARS, (goal, angle_length / unit[1], bounds))
    task = goal, angle_length, *bounds, ordered
    carry = descend(PoseGuidance(), carry, [phase], options, unit=unit[1], task=task)
    exact, max_checked = (common.zero_tolerance() * unit[1]) ** 2, MAX_CANDIDATES_PER_RESULT * options.keep
    return rank_candidates(
        _candidates(carry, poses, bounds, unit, angle_length, ordered, transmission_angle),
        options.keep,
        key=lambda x: (max(x.error, exact), -x.checks["transmission_angle"]),
        enough=max_checked,
        max_checked=max_checked,
        message="no linkage was found that keeps the bounds; allow more starts, or more room",
    )


def _bounds(lower, upper, centre, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds (9,) of a flat design, in units of the poses' spread about their centre."""
    four_bar, shapes = FourBar(), FourBar().shapes()
    # By default sizes are limited in proportion to the poses, and the angle is free.
    is_length = np.arange(9) < 4
    default = np.where(four_bar.is_kind("angle"), np.inf, MAX_SIZE)

    def bounds_in_units(name, bounds, default):
        """Return the bounds of a flat design in units of the poses' spread, with `default` where there are none."""
        flat = common.flat_bounds(name, bounds, shapes, np.inf, four_bar.angles)
        flat = four_bar.to_search_units(flat, centre, spread)
        return np.where(np.isinf(flat), default, flat)

    lowest = bounds_in_units("lower", lower, np.where(is_length, MIN_LENGTH, -default))
    highest = bounds_in_units("upper", upper, default)
    if np.any(lowest > highest):
        raise ValueError(
            f"a lower bound is above the upper one; without bounds sizes are within {MAX_SIZE:g} times the poses' spread"
        )
    return np.where(is_length, np.maximum(lowest, 0), lowest), highest


@dataclass(frozen=True)
class PoseGuidance(LeastSquaresProblem):
    """Least squares for a four-bar that guides a body through poses.

    The shared unknowns are those of `design_of`; each pose is a block, whose own unknown is its crank angle.
    """

    def residual_functions(self, data, inputs):
        """Return the residual of a pose, that of the bounds, and the poses as blocks."""
        goal, weight, bounds = inputs

        def residual(u, own, carried, pose):
            """Return position error and weighted x-axis error of the body at one pose."""
            origin, x_axis = pose_of(u, own[0], data)
            return jnp.concatenate([origin - pose[:2], weight * (x_axis - pose[2:])]), carried

        def prior(u):
            """Return the penalties of design entries near or beyond their bounds."""
            return PENALTY_START * jnp.maximum(common.bound_violation(FourBar().flat(design_of(u)), *bounds), 0)

        return residual, prior, goal


@jax.jit
def _body_poses(u, angles, branch):
    """Return the poses (K, 3) of the body at crank angles (K,), for u as in `design_of`."""
    origin, x_axis = jax.vmap(lambda angle: pose_of(u, angle, branch))(angles)
    return jnp.column_stack([origin, jnp.arctan2(x_axis[:, 1], x_axis[:, 0])])


def _candidates(carry: MultistartCarry, poses, bounds, unit, angle_length, ordered: bool, min_transmission_angle):
    """Yield the candidates of `rank_candidates` that keep their bounds, the best first.

    carry: the last one of the search. bounds: as from `_bounds`. unit: (centre, spread) of the poses.
    """
    u, angles = carry.shared, carry.own[:, :, 0]
    compiled_design = jax.jit(design_of)
    # Exact solutions are ordered by their transmission angles.
    for k in order_by_cost(np.maximum(carry.cost, common.zero_tolerance() ** 2), _transmission_cosines(u, angles)):
        design = {name: np.asarray(x) for name, x in compiled_design(u[k]).items()}
        flat = np.asarray(FourBar().flat(design))
        if np.any(flat < bounds[0]) or np.any(flat > bounds[1]):
            continue

        def check(k=k, design=design):
            """Return the solution of four-bar k, and True if it assembles, transmits and keeps the order asked for."""
            solution = _solution(u[k], design, angles[k], int(carry.data[k]), poses, unit, angle_length)
            checks = solution.checks
            passes = checks["assembled"] and checks["transmission_angle"] >= min_transmission_angle
            return solution, passes and (checks["ordered"] or not ordered)

        yield flat, check


def _transmission_cosines(u, angles) -> np.ndarray:
    """Return the largest |cosine| of the angle between coupler and rocker at the crank angles (N, K) of N four-bars."""
    pin = u[:, :2].T[..., None] + np.exp(u[:, 8])[:, None] * np.stack([np.cos(angles), np.sin(angles)])
    square = ((u[:, 2:4].T[..., None] - pin) ** 2).sum(axis=0)
    b, c = np.linalg.norm(u[:, 6:8] - u[:, 4:6], axis=1)[:, None], np.exp(u[:, 9])[:, None]
    return np.abs(cosine_between(b, c, square)).max(axis=1)


def _unwrapped_angles(design, angles) -> tuple[np.ndarray, bool]:
    """Return crank angles (K,) plus whole turns without jumps, and True if they pass the poses in order within a turn.

    Of the two senses of rotation the shorter one is chosen, if possible one in which the links reach all the way.
    """
    both_senses = []
    for sense in (1, -1):
        steps = sense * np.mod(sense * np.diff(angles), 2 * np.pi)
        both_senses.append(angles[0] + np.append(0, np.cumsum(steps)))
    ordered = [x for x in both_senses if abs(x[-1] - x[0]) < 2 * np.pi and np.all(np.diff(x) != 0)]
    samples = lambda x: np.linspace(x[0], x[-1], TRANSMISSION_SAMPLES)
    reached = [x for x in ordered if _transmission_angle_deg(design, samples(x)) > 0]
    if ordered:
        return min(reached or ordered, key=lambda x: abs(x[-1] - x[0])), True
    return np.unwrap(angles), False


def _transmission_angle_deg(design, angles) -> float:
    """Return the smallest transmission angle in degrees at crank angles (N,), 0 if the links do not reach at one."""
    d, a, b, c = (design[name] for name in FourBar.lengths)
    return common.transmission_angle_deg(cosine_between(b, c, a**2 + d**2 - 2 * a * d * np.cos(angles)))


def _solution(u, design, angles, branch, poses, unit, angle_length) -> MotionSolution:
    """Return the solution of u and `design`, both in search units, with its mechanism followed from pose to pose.

    angles: (K,) of the crank from the x axis. unit: (centre, spread) of the poses.
    """
    centre, spread = unit
    # The search counts crank angles from the x axis, a solution from the line of the pivots.
    angles, is_ordered = _unwrapped_angles(design, angles - design["angle"])
    passed = np.array(_body_poses(u, design["angle"] + angles, float(branch)))
    passed[:, :2] = passed[:, :2] * spread + centre
    passed[:, 2] = poses[:, 2] + common.wrap_angle(passed[:, 2] - poses[:, 2])
    miss = passed - poses
    start, end = (angles[0], angles[-1]) if is_ordered else (angles.min(), angles.max())
    end = end if end != start else start + 1e-3
    frame = -float(np.arctan2(u[7] - u[5], u[6] - u[4]))
    design_in_units = FourBar().result_in_user_units(design, centre, spread) | {"frame": frame}
    mech = FourBar.mechanism(design_in_units, start, (end - start) / (2 * np.pi))
    guess = FourBar.guess(design_in_units, start, branch)
    moments = (angles - start) / (end - start)
    times = common.times_including(moments)
    motion_poses = common.follow_motion(mech, times, guess)
    assembled = False
    if motion_poses is not None:
        coupler = motion_poses[np.searchsorted(times, moments), 1]
        gap = common.point_positions(coupler, design_in_units["point"]) - passed[:, :2]
        turn = np.sin(coupler[:, 2] + frame - passed[:, 2])
        assembled = bool(
            np.abs(gap).max() < common.zero_tolerance() * spread and np.abs(turn).max() < common.zero_tolerance()
        )
    checks = {
        "assembled": assembled,
        "ordered": is_ordered,
        "grashof": common.is_grashof(design_in_units[name] for name in FourBar.lengths),
        "transmission_angle": _transmission_angle_deg(design, np.linspace(start, end, TRANSMISSION_SAMPLES)),
        "position_error": float(np.sqrt((miss[:, :2] ** 2).sum(axis=1)).max()),
        "angle_error": float(np.abs(miss[:, 2]).max()),
    }
    error = float((miss[:, :2] ** 2).sum() + angle_length**2 * (miss[:, 2] ** 2).sum())
    return MotionSolution(design_in_units, error, mech, guess, angles, branch, passed, checks)
