"""Motion generation: a linkage that carries a body through given poses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxmbs.numerics.least_squares import levenberg_marquardt
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.programs.function import Straight
from jaxmbs.synthesis.common import TINY, Ranked, count_of, finite, followed, in_order, near_zero, times_with, wrapped
from jaxmbs.synthesis.linkages.four_bar import FLAT, FourBar
from jaxmbs.synthesis.links import FACTOR, LONGEST, PUSH, SAME, SHORTEST, paired, single_links
from jaxmbs.synthesis.own import check_own, motion_of, refuse_foreign
from jaxmbs.synthesis.stages import Report
from jaxmbs.system.mechanism import Mechanism

# Steps of the search for linkages.
STEPS = 200
# Bounds push from this far inside.
INSIDE = 1e-3
# Candidates that fail a check are replaced, until this many per result have been tried.
MAX_CANDIDATES_PER_RESULT = 4


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


class Guided:
    """A four-bar by the circles on which two points of the body stay.

    Free numbers: the pivots; the points, in the body's axes; the logarithms of the radii. Ten in all.
    """

    name: ClassVar[str] = FourBar.name
    size: ClassVar[int] = 10
    lengths: ClassVar[tuple[str, ...]] = FourBar.lengths

    @staticmethod
    def design(u: Float[jax.Array, "10"]) -> dict[str, jax.Array]:
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

    @staticmethod
    def pose(u, angle, branch):
        """The origin of the body and the direction of its x axis at an angle of the crank, from the x axis."""
        crank, rocker = jnp.exp(u[8]), jnp.exp(u[9])
        pin = u[:2] + crank * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        d, rod = u[2:4] - pin, u[6:8] - u[4:6]
        square, coupler = d @ d + TINY, rod @ rod + TINY
        ratio = coupler / square
        along = (ratio + 1 - rocker**2 / square) / 2
        e = along * d + branch * jnp.sqrt(jnp.maximum(ratio - along**2, FLAT * ratio)) * perpendicular(d)
        # The body turns the rod, as it is drawn on it, to where it is.
        c, s = (rod @ e) / coupler, (rod[0] * e[1] - rod[1] * e[0]) / coupler
        origin = pin - jnp.stack([c * u[4] - s * u[5], s * u[4] + c * u[5]])
        return origin, jnp.stack([c, s])


def motion(
    poses: ArrayLike | Sequence[Sequence[float]],
    *,
    mechanism: str | Callable = "four-bar",
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
    design: Any = None,
    body: str | None = None,
    guess: Any = None,
    times: ArrayLike | Sequence[float] | None = None,
    cyclic: bool = True,
) -> Ranked:
    """Dimensions of a linkage that carries a body through given poses: least Σ ‖r_k − r*_k‖² + L² (φ_k − φ*_k)².

    Thousands of single links are fitted first: a point P of the body is to stay on a circle about O, |r_k + A(φ_k) P −
    O| = a. For up to five poses this has exact solutions (Burmester). Pairs of such links are four-bars, which go on to
    the least squares of the poses with free crank angles, by the method of Levenberg and Marquardt. Exact ones are
    ranked by transmission angle. Burmester, Lehrbuch der Kinematik (1888); McCarthy and Soh, Geometric Design of
    Linkages (2011), chapter 5.

    Args:
        poses: (K, 3), x, y of the body's origin and its angle in radians, in the order in which they are to be passed.
        mechanism: "four-bar". Or a function that builds any mechanism from a design; its drivers make one cycle in a
            unit of time. In space poses are the place of the origin and Euler parameters, (K, 7). The results are those
            of `fit`, whose values are x, y, L cos φ, L sin φ, in space x, y, z and the three axes times L/√2.
        angle_length: L, by which an angle is multiplied; by default the positions' root mean square distance from their
            centre.
        ordered: whether the poses must be passed in their order, as the crank goes one way by less than a turn.
        transmission_angle: linkages that keep at least this one, in degrees, come before others.
        lower, upper: bounds of entries of the design by name; a number bounds all but the angle.
        starts: number of single links.
        seed: of the random numbers.
        keep: how many of the best to return.
        progress, resume: as of `path`, for a mechanism of one's own.
        design: for a mechanism of one's own, the design to begin with.
        body: for a mechanism of one's own, the body that is guided.
        guess: for a mechanism of one's own, the configuration at time 0, or a function of the design.
        times: for a mechanism of one's own, the times of the poses; free unless given.
        cyclic: for a mechanism of one's own, whether the motion goes round.

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
    poses = _poses(poses)
    if callable(mechanism):
        needed, foreign = {"design": design, "body": body}, {"transmission_angle": transmission_angle}
        check_own("motion", mechanism, needed, foreign)
        places = poses[:, : 2 if poses.shape[1] == 3 else 3]
        length = angle_length or float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean())) or 1.0
        options = {"guess": guess, "lower": lower, "upper": upper, "starts": starts, "seed": seed, "keep": keep}
        options |= {"times": times, "cyclic": cyclic, "progress": progress, "resume": resume}
        return motion_of(mechanism, design, str(body), poses, length, ordered, **options)
    if progress is not None or resume is not None:
        raise ValueError("progress and resume are for a mechanism of one's own; linkages by name take a few seconds")
    refuse_foreign(
        {"design": design, "body": body, "guess": guess, "times": times, "cyclic": None if cyclic else False}
    )
    if poses.shape[1] != 3:
        raise ValueError(f"poses must be rows x, y, angle, shape (K, 3), got shape {poses.shape}")
    if mechanism != Guided.name:
        raise ValueError(f"mechanism must be {Guided.name!r}, got {mechanism!r}")
    if not 0 <= transmission_angle < 90:
        raise ValueError(f"transmission_angle must be from 0 to below 90 degrees, got {transmission_angle!r}")
    starts, keep, rng = count_of("starts", starts), count_of("keep", keep), np.random.default_rng(seed)
    centre = poses[:, :2].mean(axis=0)
    spread = float(np.sqrt(((poses[:, :2] - centre) ** 2).sum(axis=1).mean()))
    if angle_length is None:
        angle_length = spread or 1.0
    if not (np.isfinite(angle_length) and angle_length > 0):
        raise ValueError(f"angle_length must be positive, got {angle_length!r}")
    # Poses in one place have no spread: lengths are then as those that angles are multiplied with.
    spread = spread if spread > 1e-9 * angle_length else angle_length
    goal = np.column_stack([(poses[:, :2] - centre) / spread, np.cos(poses[:, 2]), np.sin(poses[:, 2])])
    bounds = _bounds(lower, upper, centre, spread)

    links = single_links(goal, starts, rng)
    u, angles, branch = paired(links, goal, ordered, rng)
    u, angles, cost = _solver()(u, angles[:, :, None], branch, goal, angle_length / spread, bounds)
    found = np.asarray(u), np.asarray(angles)[:, :, 0], branch, finite(cost)
    return _ranked(found, poses, bounds, (centre, spread), angle_length, ordered, transmission_angle, keep)


def _poses(poses) -> np.ndarray:
    poses = np.asarray(poses, float)
    if poses.ndim != 2 or poses.shape[1] not in (3, 7) or len(poses) < 2:
        raise ValueError(f"poses must be at least two rows x, y, angle, shape (K, 3), got shape {poses.shape}")
    if not np.all(np.isfinite(poses)):
        raise ValueError("poses must be finite")
    return poses


class Bounds(NamedTuple):
    """Of the entries of a design, flat, in units of the poses' spread."""

    lower: np.ndarray
    upper: np.ndarray


def _bounds(lower, upper, centre, spread: float) -> Bounds:
    def flat(name, given, length, place, sign):
        if given is not None and not isinstance(given, Mapping):
            given = {entry: given for entry in FourBar.entries if entry != "angle"}
        given = dict(given or {})
        parts = []
        for entry in FourBar.entries:
            # Where no bound is given sizes stay in proportion to the poses.
            default = length if entry in Guided.lengths else np.inf * sign if entry == "angle" else place
            shift, unit, size = 0.0, spread, 2 if entry in ("point", "pivot") else 1
            if entry == "pivot":
                shift = centre
            elif entry == "angle":
                unit = 1.0
            value = np.asarray(given.pop(entry, np.inf * sign), float)
            if value.shape not in ((), (size,)) or np.any(np.isnan(value)):
                raise ValueError(f"{name}: a bound of {entry!r} is {size} number(s), got {value}")
            value = np.broadcast_to((value - shift) / unit, size)
            parts.append(np.where(np.isinf(value), default, value))
        if given:
            raise ValueError(f"{name}: a four-bar has no {next(iter(given))!r}, but {', '.join(FourBar.entries)}")
        return np.concatenate(parts)

    lowest, highest = flat("lower", lower, SHORTEST, -FACTOR, -1), flat("upper", upper, FACTOR, FACTOR, 1)
    if np.any(lowest > highest):
        raise ValueError(
            f"a lower bound is above the upper one; without bounds sizes are within {FACTOR:g} times the poses' spread"
        )
    return Bounds(np.where(np.arange(9) < 4, np.maximum(lowest, 0), lowest), highest)


@lru_cache(maxsize=1)
def _solver():
    def of_one(u, own, branch, goal, weight, bounds):
        def residual(u, own, state, pose):
            origin, direction = Guided.pose(u, own[0], branch)
            return jnp.concatenate([origin - pose[:2], weight * (direction - pose[2:])]), state

        def prior(u):
            design = Guided.design(u)
            flat = jnp.concatenate([jnp.reshape(design[name], -1) for name in FourBar.entries])
            inside = INSIDE * jnp.minimum(bounds.upper - bounds.lower, 1)
            over, under = flat - bounds.upper + inside, bounds.lower + inside - flat
            return PUSH * jnp.concatenate([jnp.maximum(over, 0), jnp.maximum(under, 0)])

        found = levenberg_marquardt(residual, prior, u, own, (), goal, iterations=STEPS, longest=LONGEST)
        return found.shared, found.own, found.cost

    return jax.jit(jax.vmap(Straight(of_one), in_axes=(0, 0, 0, None, None, None)))


@jax.jit
def _body_poses(u, angles, branch):
    origin, direction = jax.vmap(lambda angle: Guided.pose(u, angle, branch))(angles)
    return jnp.column_stack([origin, jnp.arctan2(direction[:, 1], direction[:, 0])])


_design = jax.jit(Guided.design)


def _ranked(found, poses, bounds, unit, angle_length, ordered, transmission, keep: int) -> Ranked[MotionSolution]:
    good: list[MotionSolution] = []
    others: list[MotionSolution] = []
    known: list[np.ndarray] = []
    # Of exact solutions those with good transmission angles are looked at first.
    for k in np.lexsort((_flatness(*found[:2]), np.maximum(found[3], near_zero() ** 2))):
        if not np.isfinite(found[3][k]) or len(known) == MAX_CANDIDATES_PER_RESULT * keep:
            break
        u, angles, branch = found[0][k], found[1][k], found[2][k]
        design = {name: np.asarray(x) for name, x in _design(u).items()}
        flat = np.concatenate([design[name].reshape(-1) for name in FourBar.entries])
        if np.any(flat < bounds.lower) or np.any(flat > bounds.upper):
            continue
        if any(np.abs(flat - other).max() < SAME for other in known):
            continue
        known.append(flat)
        solution = _checked(u, design, angles, int(branch), poses, unit, angle_length)
        checks = solution.checks
        if ordered and not checks["ordered"]:
            others.append(solution)
            continue
        (good if checks["assembled"] and checks["transmission_angle"] >= transmission else others).append(solution)
    if not known:
        raise ValueError("no linkage was found that keeps the bounds; allow more starts, or more room")
    exact = (near_zero() * unit[1]) ** 2

    def rank(solution):
        return max(solution.error, exact), -solution.checks["transmission_angle"]

    return Ranked((sorted(good, key=rank) + sorted(others, key=rank))[:keep])


def _flatness(u, angles) -> np.ndarray:
    """The largest cosine of the transmission angle at the poses (N,)."""
    pin = u[:, :2].T[..., None] + np.exp(u[:, 8])[:, None] * np.stack([np.cos(angles), np.sin(angles)])
    square = ((u[:, 2:4].T[..., None] - pin) ** 2).sum(axis=0)
    b, c = np.linalg.norm(u[:, 6:8] - u[:, 4:6], axis=1)[:, None], np.exp(u[:, 9])[:, None]
    return np.abs((b**2 + c**2 - square) / (2 * b * c)).max(axis=1)


def _sweep(design, angles) -> tuple[np.ndarray, bool]:
    """Crank angles without jumps, the shorter way that keeps their order and on which the links reach if there is one;
    and whether there is."""
    ways = []
    for way in (1, -1):
        steps = way * np.mod(way * np.diff(angles), 2 * np.pi)
        ways.append(angles[0] + np.append(0, np.cumsum(steps)))
    kept = [x for x in ways if in_order(x)]
    reached = [x for x in kept if _transmission(design, np.linspace(x[0], x[-1], 361)) > 0]
    if reached or kept:
        return min(reached or kept, key=lambda x: abs(x[-1] - x[0])), True
    return np.unwrap(angles), False


def _transmission(design, angles) -> float:
    """The least angle in degrees, 0 where the links do not reach."""
    d, a, b, c = (design[name] for name in Guided.lengths)
    cosine = (b**2 + c**2 - a**2 - d**2 + 2 * a * d * np.cos(angles)) / (2 * b * c)
    return float(np.rad2deg(np.arccos(min(np.abs(cosine).max(), 1.0))))


def _checked(u, design, angles, branch, poses, unit, angle_length) -> MotionSolution:
    """A solution with its mechanism followed from pose to pose."""
    centre, spread = unit
    # From here on crank angles count from the line of the pivots.
    angles, is_ordered = _sweep(design, angles - design["angle"])
    line = design["angle"] + angles
    seen = np.array(_body_poses(u, line, float(branch)))
    seen[:, :2] = seen[:, :2] * spread + centre
    seen[:, 2] = poses[:, 2] + wrapped(seen[:, 2] - poses[:, 2])
    miss = seen - poses
    start, end = (angles[0], angles[-1]) if is_ordered else (angles.min(), angles.max())
    end = end if end != start else start + 1e-3
    true = {name: float(design[name] * spread) for name in Guided.lengths}
    rod = u[6:8] - u[4:6]
    frame = -np.arctan2(rod[1], rod[0])
    place = {
        "point": design["point"] * spread,
        "angle": float(design["angle"]),
        "pivot": design["pivot"] * spread + centre,
    }
    true = {**true, **place, "frame": float(frame)}
    mech = FourBar.mechanism(true, start, (end - start) / (2 * np.pi))
    guess = FourBar.guess(true, start, branch)
    moments = (angles - start) / (end - start)
    times = times_with(moments)
    path = followed(mech, times, guess)
    assembled = False
    if path is not None:
        coupler = path[np.searchsorted(times, moments), 1]
        c, s = np.cos(coupler[:, 2]), np.sin(coupler[:, 2])
        x, y = place["point"]
        gap = coupler[:, :2] + np.column_stack([c * x - s * y, s * x + c * y]) - seen[:, :2]
        turn = np.sin(coupler[:, 2] + frame - seen[:, 2])
        assembled = bool(np.abs(gap).max() < near_zero() * spread and np.abs(turn).max() < near_zero())
    lengths = sorted(true[name] for name in Guided.lengths)
    checks = {
        "assembled": assembled,
        "ordered": is_ordered,
        "grashof": bool(lengths[0] + lengths[3] <= lengths[1] + lengths[2]),
        "transmission_angle": _transmission(design, np.linspace(start, end, 361)),
        "position_error": float(np.sqrt((miss[:, :2] ** 2).sum(axis=1)).max()),
        "angle_error": float(np.abs(miss[:, 2]).max()),
    }
    error = float((miss[:, :2] ** 2).sum() + angle_length**2 * (miss[:, 2] ** 2).sum())
    return MotionSolution(true, error, mech, guess, angles, branch, seen, checks)
