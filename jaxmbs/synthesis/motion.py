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
from jaxmbs.search.multistart import (
    MAX_CANDIDATES_PER_RESULT,
    PUSH,
    Problem,
    Ranked,
    Search,
    Stage,
    State,
    best_first,
    descended,
    ranked,
)
from jaxmbs.search.stages import Report
from jaxmbs.synthesis import common, measures
from jaxmbs.synthesis.builders import fit, forwards_builders
from jaxmbs.synthesis.linkages.four_bar import FourBar
from jaxmbs.synthesis.linkages.linkage import TINY, cosine_between, dyad
from jaxmbs.synthesis.links import FACTOR, MIN_LENGTH, paired, single_links
from jaxmbs.system.mechanism import Mechanism

# Steps of the search for linkages.
STEPS = 200
# Points of the way at which transmission angles are looked at.
FINE = 361


class MotionSolution(NamedTuple):
    """A linkage that guides a body.

    Attributes:
        design: its dimensions; the coupler's "point" is the origin of the body, and "frame" is the angle of the body's
            x axis from the line between the coupler's pins.
        error: Σ (distance² + (angle_length · angle)²) over the poses.
        mechanism: with a motor that takes the crank from the first pose to the last in a unit of time; if they are out
            of order from the lowest of the crank angles to the highest.
        guess: the assembled poses of its bodies at time 0.
        crank_angles: (K,), at the poses.
        branch: see the linkage.
        poses: (K, 3), of the body at these angles.
        checks: "assembled": the mechanism was followed and passes these poses; "ordered": in their order, within a
            turn; "grashof"; "transmission_angle": its least on the way in degrees; "position_error", "angle_error": the
            largest.

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
    """The design of a four-bar by the circles on which two points of the body stay: u are the pivots; the points, in the
    body's axes; the logarithms of the radii."""
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
    """The origin of the body and the direction of its x axis at an angle of the crank, from the x axis."""
    pin, rod = u[:2] + jnp.exp(u[8]) * direction(angle), u[6:8] - u[4:6]
    length = jnp.sqrt(rod @ rod + TINY)
    e, _ = dyad(u[2:4] - pin, length, jnp.exp(u[9]), branch)
    # The body turns the rod, as it is drawn on it, to where it is.
    c, s = (rod @ e) / length, (rod[0] * e[1] - rod[1] * e[0]) / length
    origin = pin - jnp.stack([c * u[4] - s * u[5], s * u[4] + c * u[5]])
    return origin, jnp.stack([c, s])


def _by_fit(build, poses, *, design, body, angle_length=None, ordered=True, keep=10, **options):
    return fit(build, design, poses, measures.pose(body, angle_length), ordered=ordered, keep=keep, **options)


@forwards_builders(_by_fit, "fit(build, design, poses, synthesis.pose(body), ordered=True)")
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
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[MotionSolution]:
    """Dimensions of a linkage that carries a body through given poses: least Σ ‖r_k − r*_k‖² + L² (φ_k − φ*_k)².

    Thousands of single links are fitted first: a point P of the body is to stay on a circle about O, |r_k + A(φ_k) P −
    O| = a. For up to five poses this has exact solutions (Burmester). Pairs of such links form four-bars. Their sum of
    squares over the poses, with free crank angles, is then minimised by the method of Levenberg and Marquardt. Exact
    ones are ranked by transmission angle. Burmester, Lehrbuch der Kinematik (1888); McCarthy and Soh, Geometric Design
    of Linkages (2011), chapter 5.

    Args:
        poses: (K, 3), x, y of the body's origin and its angle in radians, in the order in which they are to be passed.
        mechanism: "four-bar". For a mechanism of your own, also in space, see `fit` and `pose`.
        angle_length: L, by which an angle is multiplied; by default the positions' root mean square distance from their
            centre.
        ordered: whether the poses must be passed in their order, as the crank goes one way by less than a turn.
        transmission_angle: linkages that keep at least this one, in degrees, come before others.
        lower, upper: bounds of entries of the design by name; a number bounds all but the angle.
        starts: number of single links.
        seed: of the random numbers.
        keep: how many of the best to return.
        progress, resume: as for `path`.

    Returns:
        `Ranked` `MotionSolution`s.

    Raises:
        ValueError: an argument that is unusable, by name; nothing found.

    Examples:
        >>> poses = jnp.array([[0.0, 0, 0], [1, 0, 0.3], [1.5, 0.5, 0.6]])
        >>> found = mbs.synthesis.motion(poses, starts=64)
        >>> found.best.error < 1e-12  # three poses are met exactly
        True
    """
    poses = common.table("poses", poses, "rows x, y, angle, shape (K, 3)", (3,))
    if mechanism != FourBar.name:
        raise ValueError(f"mechanism must be {FourBar.name!r}, got {mechanism!r}")
    common.check_transmission_angle(transmission_angle)
    search, spread = Search.of(starts, seed, keep, progress, resume), common.spread_of(poses[:, :2])
    angle_length = spread or 1.0 if angle_length is None else common.positive("angle_length", angle_length)
    # Poses in one place have no spread: lengths are then as those that angles are multiplied with.
    unit = poses[:, :2].mean(axis=0), spread if spread > 1e-9 * angle_length else angle_length
    goal = np.column_stack([(poses[:, :2] - unit[0]) / unit[1], np.cos(poses[:, 2]), np.sin(poses[:, 2])])
    bounds = _bounds(lower, upper, *unit)
    rng = search.rng
    links = single_links(goal, search._replace(progress=None, resume=None), rng)
    u, angles, branch = paired(links, goal, ordered, rng)
    state = State.begin(u, branch, own=angles[:, :, None])
    stage = Stage(STEPS, (goal, angle_length / unit[1], bounds))
    state = descended(Guiding(), state, [stage], search, unit=unit[1], task=(goal, angle_length, *bounds, ordered))
    exact, tries = (common.near_zero() * unit[1]) ** 2, MAX_CANDIDATES_PER_RESULT * search.keep
    return ranked(
        _candidates(state, poses, bounds, unit, angle_length, ordered, transmission_angle),
        search.keep,
        key=lambda x: (max(x.error, exact), -x.checks["transmission_angle"]),
        enough=tries,
        tries=tries,
        nothing="no linkage was found that keeps the bounds; allow more starts, or more room",
    )


def _bounds(lower, upper, centre, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the entries of a design, flat, in units of the poses' spread."""
    four_bar, shapes = FourBar(), FourBar().shapes()
    # Where no bound is given sizes stay in proportion to the poses, and an angle is free.
    is_length = np.arange(9) < 4
    default = np.where(four_bar.of_kind("angle"), np.inf, FACTOR)

    def flat(name, given, default):
        found = four_bar.scaled(common.limits(name, given, shapes, np.inf, four_bar.angles), centre, spread)
        return np.where(np.isinf(found), default, found)

    lowest = flat("lower", lower, np.where(is_length, MIN_LENGTH, -default))
    highest = flat("upper", upper, default)
    if np.any(lowest > highest):
        raise ValueError(
            f"a lower bound is above the upper one; without bounds sizes are within {FACTOR:g} times the poses' spread"
        )
    return np.where(is_length, np.maximum(lowest, 0), lowest), highest


@dataclass(frozen=True)
class Guiding(Problem):
    """A four-bar that carries a body through poses, each at a crank angle of its own."""

    def rows(self, branch, wanted):
        goal, weight, bounds = wanted

        def residual(u, own, state, pose):
            origin, x_axis = pose_of(u, own[0], branch)
            return jnp.concatenate([origin - pose[:2], weight * (x_axis - pose[2:])]), state

        def prior(u):
            return PUSH * jnp.maximum(common.beyond(FourBar().flat(design_of(u)), *bounds), 0)

        return residual, prior, goal


@jax.jit
def _body_poses(u, angles, branch):
    origin, x_axis = jax.vmap(lambda angle: pose_of(u, angle, branch))(angles)
    return jnp.column_stack([origin, jnp.arctan2(x_axis[:, 1], x_axis[:, 0])])


_design = jax.jit(design_of)


def _candidates(state: State, poses, bounds, unit, angle_length, ordered: bool, transmission: float):
    """Four-bars that keep their bounds, the best first: what tells each from others, and its check."""
    u, angles = state.shared, state.own[:, :, 0]
    # Of exact solutions those with good transmission angles are looked at first.
    for k in best_first(np.maximum(state.cost, common.near_zero() ** 2), _flatness(u, angles)):
        design = {name: np.asarray(x) for name, x in _design(u[k]).items()}
        flat = np.asarray(FourBar().flat(design))
        if np.any(flat < bounds[0]) or np.any(flat > bounds[1]):
            continue

        def check(k=k, design=design):
            solution = _checked(u[k], design, angles[k], int(state.data[k]), poses, unit, angle_length)
            checks = solution.checks
            kept = checks["assembled"] and checks["transmission_angle"] >= transmission
            return solution, kept and (checks["ordered"] or not ordered)

        yield flat, check


def _flatness(u, angles) -> np.ndarray:
    """The largest cosine of the transmission angle at the poses (N,)."""
    pin = u[:, :2].T[..., None] + np.exp(u[:, 8])[:, None] * np.stack([np.cos(angles), np.sin(angles)])
    square = ((u[:, 2:4].T[..., None] - pin) ** 2).sum(axis=0)
    b, c = np.linalg.norm(u[:, 6:8] - u[:, 4:6], axis=1)[:, None], np.exp(u[:, 9])[:, None]
    return np.abs(cosine_between(b, c, square)).max(axis=1)


def _sweep(design, angles) -> tuple[np.ndarray, bool]:
    """Crank angles without jumps, the shorter way that keeps their order and on which the links reach if there is one;
    and whether there is."""
    ways = []
    for way in (1, -1):
        steps = way * np.mod(way * np.diff(angles), 2 * np.pi)
        ways.append(angles[0] + np.append(0, np.cumsum(steps)))
    kept = [x for x in ways if abs(x[-1] - x[0]) < 2 * np.pi and np.all(np.diff(x) != 0)]
    reached = [x for x in kept if _transmission(design, np.linspace(x[0], x[-1], FINE)) > 0]
    if reached or kept:
        return min(reached or kept, key=lambda x: abs(x[-1] - x[0])), True
    return np.unwrap(angles), False


def _transmission(design, angles) -> float:
    """The least angle in degrees, 0 where the links do not reach."""
    d, a, b, c = (design[name] for name in FourBar.lengths)
    return common.angle_of(cosine_between(b, c, a**2 + d**2 - 2 * a * d * np.cos(angles)))


def _checked(u, design, angles, branch, poses, unit, angle_length) -> MotionSolution:
    """A solution with its mechanism followed from pose to pose."""
    centre, spread = unit
    # From here on crank angles count from the line of the pivots.
    angles, is_ordered = _sweep(design, angles - design["angle"])
    line = design["angle"] + angles
    seen = np.array(_body_poses(u, line, float(branch)))
    seen[:, :2] = seen[:, :2] * spread + centre
    seen[:, 2] = poses[:, 2] + common.wrapped(seen[:, 2] - poses[:, 2])
    miss = seen - poses
    start, end = (angles[0], angles[-1]) if is_ordered else (angles.min(), angles.max())
    end = end if end != start else start + 1e-3
    frame = -float(np.arctan2(u[7] - u[5], u[6] - u[4]))
    true = FourBar().in_units(design, centre, spread) | {"frame": frame}
    mech = FourBar.mechanism(true, start, (end - start) / (2 * np.pi))
    guess = FourBar.guess(true, start, branch)
    moments = (angles - start) / (end - start)
    times = common.times_with(moments)
    path = common.followed(mech, times, guess)
    assembled = False
    if path is not None:
        coupler = path[np.searchsorted(times, moments), 1]
        gap = common.on_body(coupler, true["point"]) - seen[:, :2]
        turn = np.sin(coupler[:, 2] + frame - seen[:, 2])
        assembled = bool(np.abs(gap).max() < common.near_zero() * spread and np.abs(turn).max() < common.near_zero())
    checks = {
        "assembled": assembled,
        "ordered": is_ordered,
        "grashof": common.is_grashof(true[name] for name in FourBar.lengths),
        "transmission_angle": _transmission(design, np.linspace(start, end, FINE)),
        "position_error": float(np.sqrt((miss[:, :2] ** 2).sum(axis=1)).max()),
        "angle_error": float(np.abs(miss[:, 2]).max()),
    }
    error = float((miss[:, :2] ** 2).sum() + angle_length**2 * (miss[:, 2] ** 2).sum())
    return MotionSolution(true, error, mech, guess, angles, branch, seen, checks)
