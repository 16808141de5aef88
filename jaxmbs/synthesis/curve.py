"""Curves as shapes: linkages whose point draws one, of any dyadic topology."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxmbs.synthesis import common
from jaxmbs.synthesis.curve_search import Wanted, searched
from jaxmbs.synthesis.drawing import Chains, Layout, Limits, design_of, drawn_by, mirrored, placed, tracks
from jaxmbs.synthesis.linkages import Dyadic, Linkage, linkage_of
from jaxmbs.synthesis.linkages.dyads import KINDS, RPR, RRR
from jaxmbs.synthesis.linkages.topologies import linkage_of_wiring, random_wirings, topologies
from jaxmbs.synthesis.multistart import Ranked, Search, Seen
from jaxmbs.synthesis.shapes import COMPARED, curve_of, distances, distances_from, resampled
from jaxmbs.synthesis.stages import Report
from jaxmbs.system.equations import constraints
from jaxmbs.system.mechanism import Mechanism

# More dyads than can be listed in all topologies; so many random ones are taken then.
MAX_LISTED_DYADS, RANDOM_TOPOLOGIES = 3, 400
MAX_LINKS = 19
# Smallest angle between links, in degrees, as it is looked at between samples.
MIN_ANGLE_DEG = 2.0
# A turn is looked at in steps of half a degree.
STEPS_PER_TURN = 720
# Bounds are kept if they are missed by no more than this part.
KEPT = 1e-6
FREE = ("scale", "rotation", "translation", "reflection")


class CurveSolution(NamedTuple):
    """A linkage that draws a curve.

    Attributes:
        design: its dimensions by name, see `linkage`.
        error: the Chamfer distance: the mean distance of points of the drawn curve to the nearest of the wanted one, and
            the same the other way, added; both curves of 2,000 points by length, in units of the root mean square
            distance of the wanted ones from their centre.
        ordered_error: 2π times the mean square distance of points in their order, in the same units.
        mechanism: with a motor that draws the curve once in a unit of time.
        guess: the assembled poses of its bodies at time 0.
        linkage: its topology, a `Dyadic`.
        links: the number of links that move.
        crank_angles: (721,), at the points, from the line between the first two pivots; see the design.
        branch: a sign for each dyad.
        points: (721, 2), the drawn curve, at equal steps of the crank's angle: half degrees of a whole turn.
        targets: (T, 2), the wanted curve, where it was moved to.
        moved: "scale", "rotation" in radians, "translation" and "reflection" by which the targets were moved: mirrored
            at x if reflected, then turned and scaled about the origin, then shifted.
        point: the body and the coordinates on it of the point.
        checks: "assembled": the joints of the mechanism fit at all of the points, on one branch; "closed": the curve ends
            where it began; "turns": the crank turns all round; "transmission_angle": the least in degrees while the curve
            is drawn; "ratio": of the longest to the shortest length; "farthest": the largest distance of the drawn curve
            from the wanted one, in the units of the error; "misses": the bounds that are not kept.

    Examples:
        >>> half = jnp.linspace(0, jnp.pi, 30)
        >>> arc = jnp.stack([jnp.cos(half), jnp.sin(half)], axis=1)
        >>> best = mbs.synthesis.curve(arc, links=3, starts=128).best
        >>> best.links, best.error < 0.01, best.checks["assembled"]
        (3, True, True)
    """

    design: dict[str, Any]
    error: float
    ordered_error: float
    mechanism: Mechanism
    guess: dict[str, tuple]
    linkage: Dyadic
    links: int
    crank_angles: np.ndarray
    branch: tuple[int, ...]
    points: np.ndarray
    targets: np.ndarray
    moved: dict[str, Any]
    point: tuple[str, np.ndarray]
    checks: dict[str, Any]


@dataclass(frozen=True)
class Front(Ranked[CurveSolution]):
    """What a search for a curve has found.

    Attributes:
        all: solutions, the least error first. Those that keep all bounds come before others.
        front: the best one of each number of links, the fewest links first, as long as more links make less error.

    Examples:
        >>> square = jnp.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
        >>> found = mbs.synthesis.curve(square, links=5, starts=128)
        >>> [one.links for one in found.front]
        [3, 5]
    """

    front: list[CurveSolution]


def curve(
    targets: ArrayLike | Sequence[Sequence[float]],
    closed: bool | None = None,
    *,
    free: Iterable[str] = (),
    links: int = 7,
    mechanism: str | Linkage | Sequence[str | Linkage] | None = None,
    sliders: bool = False,
    ratio: float | None = None,
    transmission_angle: float = 0.0,
    pivots: tuple | None = None,
    workspace: tuple | None = None,
    starts: int = 4096,
    seed: int = 0,
    keep: int = 5,
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
) -> Front:
    """Find linkages that draw a shape, no matter when they are where.

    All of the drawn curve counts: its mean square distance from the wanted one, and that of the wanted one from it,
    along the shortest way. Thousands of random linkages of all topologies are compared with the shape after the best
    similarity each. The best descend by the method of Levenberg and Marquardt, at first with few points. Then a dyad is
    added to the best of each number of links, so that the new point begins near the old one, and the search goes on.
    The same seed gives the same answer.

    Args:
        targets: (T, 2), points of the curve in their order along it, with straight lines between.
        closed: whether the curve is closed: then it is drawn in a whole turn of the crank, an open one in a part of a
            turn. None: it is closed if its ends are about as near to each other as its points.
        free: by what the curve may be moved, of "scale", "rotation", "translation", "reflection". This matters only
            together with `pivots` or `workspace`, since linkages can be anywhere.
        links: the largest number of links that move: 3 of four-bars, 5 of six-bars, 7 of eight-bars, and so on.
        mechanism: names or `Dyadic`s, if only these are to be tried, such as "Stephenson III".
        sliders: whether dyads with sliders and blocks are tried as well.
        ratio: the largest ratio of two lengths: of links between their pins, and of the ground between its first two.
        transmission_angle: the smallest one that is allowed, in degrees.
        pivots: ((x, y), (x, y)), two corners of a box that must contain all pivots on the ground.
        workspace: two corners of a box that all pins and the point must not leave.
        starts: how many random linkages descend; 24 times as many are compared.
        seed: the seed of the random numbers.
        keep: how many of the best solutions to return.
        progress, resume: as for `path`.

    Returns:
        A `Front`: `.best`, `.all`, and `.front` with the best of each number of links.

    Raises:
        ValueError: an argument cannot be used; the message names it.

    Examples:
        >>> letter = jnp.array([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])  # an L
        >>> found = mbs.synthesis.curve(letter, links=5, starts=256)
        >>> found.best.error < 0.02, found.best.checks["assembled"]
        (True, True)
    """
    points, closed = curve_of(targets, closed)
    search = Search.of(starts, seed, keep, progress, resume)
    common.check_transmission_angle(transmission_angle)
    centre, spread = _centre(points, closed)
    free = _free(free)
    boxes = {name: _box(name, given, centre, spread) for name, given in (("pivots", pivots), ("workspace", workspace))}
    given = {"ratio": ratio, **boxes}
    limited = tuple(name for name, value in given.items() if value is not None)
    if ratio is not None and not common.positive("ratio", ratio) > 1:
        raise ValueError(f"ratio must be above 1, got {ratio!r}")
    shapes = _topologies(mechanism, links, KINDS if sliders else (RRR,), seed)
    kinds = tuple(kind for kind in KINDS if any(kind in names for of in shapes.values() for names in of))
    moves = bool({"pivots", "workspace"} & {*limited}) and bool({*free} - {"reflection"})
    layout = Layout(
        max(shapes), kinds, closed, moves or ("reflection" in free and any(b is not None for b in boxes.values()))
    )
    everywhere = np.zeros((2, 2))
    limits = Limits(
        np.cos(np.deg2rad(max(transmission_angle, MIN_ANGLE_DEG))),
        np.float64(ratio or 1.0),
        *(everywhere if box is None else box for box in boxes.values()),
        np.array([name in free for name in ("scale", "rotation", "translation", "translation")], float),
    )
    wanted = Wanted(
        (points - centre) / spread, limits, limited, shapes, mechanism is None, "reflection" in free and layout.moves
    )
    task = points, closed, repr(sorted(shapes)), repr(layout), *limits, repr(limited), repr(free)
    state = searched(layout, wanted, search, task)
    return _ranked(layout, state, points, closed, wanted, (centre, spread), transmission_angle, search.keep)


def _centre(points: np.ndarray, closed: bool) -> tuple[np.ndarray, float]:
    even = resampled(points, COMPARED, closed)
    return even.mean(axis=0), common.spread_of(even)


def _free(given: Iterable[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in FREE:
            raise ValueError(f"free must be of {', '.join(FREE)}, got {name!r}")
    return tuple(name for name in FREE if name in names)


def _box(name: str, given, centre, spread) -> np.ndarray | None:
    """Two corners, in units of the curve."""
    if given is None:
        return None
    corners = np.asarray(given, float)
    if corners.shape != (2, 2) or not np.all(np.isfinite(corners)) or np.any(corners[0] == corners[1]):
        raise ValueError(f"{name} must be two corners of a box with some room in it, ((x, y), (x, y)), got {given!r}")
    return (np.sort(corners, axis=0) - centre) / spread


def _topologies(mechanism, links: int, kinds: tuple[str, ...], seed: int):
    """By the number of dyads: by their kinds, the bodies (n, K, 2) of all topologies."""
    if isinstance(links, bool) or int(links) != links or not 3 <= links <= MAX_LINKS:
        raise ValueError(f"links must be a whole number from 3 to {MAX_LINKS}, got {links!r}")
    out: dict[int, dict[tuple[str, ...], list]] = {}
    if mechanism is None:
        rng, every = np.random.default_rng(seed), []
        for dyads in range(1, (int(links) - 1) // 2 + 1):
            if dyads <= MAX_LISTED_DYADS - (len(kinds) > 1):
                every += topologies(1 + 2 * dyads, kinds)
            else:
                every += map(linkage_of_wiring, random_wirings(dyads, kinds, RANDOM_TOPOLOGIES, rng))
    else:
        several = [mechanism] if isinstance(mechanism, str | Linkage) else list(mechanism)
        every = []
        for linkage in map(linkage_of, several):
            if not isinstance(linkage, Dyadic):
                raise ValueError(f"mechanism must be made of a crank and dyads, which {linkage.name!r} is not")
            every.append(linkage)
        if not every:
            raise ValueError("mechanism must name a linkage at least")
    for linkage in every:
        of_kinds = out.setdefault(len(linkage.dyads), {})
        of_kinds.setdefault(tuple(kind for *_, kind in linkage.dyads), []).append(linkage.bodies)
    return {n: {names: np.array(bodies) for names, bodies in of.items()} for n, of in sorted(out.items())}


# --- results ----------------------------------------------------------------------------------------------------------


def _ranked(layout, state, points, closed, wanted: Wanted, unit, transmission_angle, keep) -> Front:
    """Solutions with less error first, and the front."""
    parts = np.arange(STEPS_PER_TURN + 1) / STEPS_PER_TURN
    drawn, worst = (
        np.asarray(x) for x in drawn_by(layout, jnp.asarray(state.shared), Chains(*map(jnp.asarray, state.data)), parts)
    )
    finite = np.all(np.isfinite(drawn), axis=(1, 2)) & (worst < 1)
    if not finite.any():
        raise ValueError("no linkage was found that draws a curve without opening; allow more starts")
    errors = np.full(len(drawn), np.inf)
    for k in np.flatnonzero(finite):
        errors[k] = distances(drawn[k, : -1 if closed else None], closed, wanted.points, closed)[0]
    seen, active = Seen(), np.asarray(state.data.active)
    solved: dict[int, CurveSolution] = {}

    def solution(k) -> CurveSolution:
        if k not in solved:
            chain = Chains(*(np.asarray(x)[k] for x in state.data))
            solved[k] = _solution(
                layout, np.asarray(state.shared[k]), chain, points, closed, wanted, unit, transmission_angle
            )
        return solved[k]

    good, others, front = [], [], {}
    for k in np.argsort(errors, kind="stable")[: finite.sum()]:
        mark = np.concatenate([state.shared[k], np.ravel(state.data.bodies[k]), [active[k]]])
        first = active[k] not in front
        if (len(good) >= keep and not first) or not seen.is_new(mark):
            continue
        one = solution(k)
        fine = one.checks["assembled"] and not one.checks["misses"]
        (good if fine else others).append(one)
        if fine:
            front.setdefault(active[k], one)
    if not good:
        missed = others[0].checks["misses"]
        warnings.warn(
            f"no linkage within the bounds was found; the best one misses {', '.join(missed) or 'its joints'}",
            stacklevel=3,
        )
    least, steps = np.inf, []
    for _, one in sorted(front.items()):
        if one.error < least:
            steps.append(one)
            least = one.error
    ordered = [*sorted(good, key=lambda x: x.error), *sorted(others, key=lambda x: x.error)]
    return Front(ordered[:keep], steps)


def _solution(layout, u, chain: Chains, points, closed, wanted: Wanted, unit, transmission_angle) -> CurveSolution:
    """A solution in the user's units, its joints looked at on the whole way."""
    centre, spread = unit
    u, chain, moved, targets = _moved(layout, np.array(u), chain, wanted, unit, points)
    size = spread * moved["scale"]
    linkage, design, start, signs = design_of(layout, u, chain)
    turned = 2 * np.pi if layout.closed else float(u[layout.way][1])
    if layout.closed and moved["reflection"]:
        turned = -turned
    # In the user's units; angles stay.
    design = linkage.in_units(design, centre, spread)
    branch = tuple(int(sign) for sign in signs)
    mech = linkage.mechanism(design, start, turned / (2 * np.pi))
    times = np.arange(STEPS_PER_TURN + 1) / STEPS_PER_TURN
    angles = start + turned * times
    q, drawn, pins, cosines = _poses(layout, u, chain, times * (np.sign(turned) if layout.closed else 1))
    q, drawn, pins = (x * [spread, spread, 1][: x.shape[-1]] + [*centre, 0][: x.shape[-1]] for x in (q, drawn, pins))
    # As the motor counts it, which may be some turns more.
    q[:, 0, 2] = design["angle"] + angles
    gaps = jax.jit(jax.vmap(partial(constraints, mech)))(q.reshape(len(q), -1), times)
    length = max(np.abs(np.asarray(design[name])).max() for name in linkage.entries if name not in linkage.angles)
    ends = np.abs(drawn[-1] - drawn[0]).max()
    error, ordered_error = distances(drawn[: -1 if closed else None], closed, targets, closed)
    lengths = [design[name] for name, *_, kind in linkage.places() if kind == "log"]
    guess = {name: tuple(float(x) for x in pose) for name, pose in zip(mech.bodies, q[0], strict=True)}
    *_, around = _poses(layout, u, chain, times * 2 * np.pi / abs(turned))
    checks = {
        "assembled": bool(
            np.abs(gaps).max() < common.near_zero() * max(length, 1.0) ** 2 and np.abs(cosines).max() < 1
        ),
        "closed": bool(ends < common.near_zero() * length),
        "turns": bool(np.abs(around).max() < 1),
        "transmission_angle": common.angle_of(cosines),
        "ratio": float(max(lengths) / min(lengths)),
        "farthest": float(distances_from(drawn, targets, closed).max() / size),
    }
    pivots = np.array(linkage.pivots({name: jnp.asarray(x) for name, x in design.items()}))
    places = {"pivots": pivots, "workspace": np.concatenate([pins.reshape(-1, 2), drawn])}
    outside = {name: _outside(getattr(wanted.limits, name), (x - centre) / spread) for name, x in places.items()}
    outside["ratio"] = checks["ratio"] - wanted.limits.ratio * (1 + KEPT)
    outside["transmission_angle"] = transmission_angle - checks["transmission_angle"] - KEPT
    limits = (*wanted.limited, *(["transmission_angle"] if transmission_angle else []))
    checks["misses"] = tuple(name for name in limits if outside[name] > 0)
    return CurveSolution(
        *(design, error, ordered_error, mech, guess, linkage, linkage.links, angles, branch),
        *(drawn, targets, moved, (linkage.output, np.asarray(design["point"])), checks),
    )


def _moved(layout, u, chain: Chains, wanted: Wanted, unit, points):
    """The row of a linkage after the wanted curve was moved, how that was, and the points of the curve."""
    centre, spread = np.asarray(unit[0]) @ [1, 1j], unit[1]
    z = points @ [1, 1j]
    reflected = bool(layout.moves and chain.mirrored < 0)
    if not layout.moves:
        return u, chain, _told(1.0, 0j, False), points
    larger, turned, *shift = u[-4:] * wanted.limits.free
    factor, shift = np.exp(larger + 1j * turned), complex(*shift)
    if reflected:
        u, chain = mirrored(layout, u, chain)
        z, about = z.conj(), centre.conjugate()
    else:
        about = centre
    u = placed(layout, u[None], chain.bodies[None], chain.kinds[None], np.array([factor]), np.array([shift]))[0]
    translation = centre + spread * shift - factor * about
    after = factor * z + translation
    return u, chain, _told(factor, translation, reflected), np.column_stack([after.real, after.imag])


def _told(factor, shift, reflected: bool) -> dict[str, Any]:
    return {
        "scale": float(np.abs(factor)),
        "rotation": float(np.angle(factor)),
        "translation": np.array([shift.real, shift.imag]),
        "reflection": reflected,
    }


def _poses(layout, u, chain: Chains, parts):
    """Poses (T, bodies, 3) of all links after parts of the way, the point (T, 2), pins (T, n, 2), and cosines (T, K)."""
    one = Chains(*(jnp.asarray(x)[None] for x in chain))
    (origins, ways), cosines = (
        jax.tree.map(lambda x: np.asarray(x)[0], found) for found in tracks(layout, jnp.asarray(u)[None], one, parts)
    )
    active = int(chain.active)
    origins, ways = origins[:, 1 : 2 * active + 2], ways[:, 1 : 2 * active + 2]
    q = np.concatenate([origins, np.arctan2(ways[..., 1:], ways[..., :1])], axis=2)
    x, y = u[layout.point]
    last, way = origins[:, -2], ways[:, -2]
    drawn = last + x * way + y * np.column_stack([-way[:, 1], way[:, 0]])
    lengths = np.exp(u[2 : 2 + 6 * active].reshape(active, 6)[:, 4])
    block = np.array([layout.kinds[int(k)] == RPR for k in chain.kinds[:active]])
    ends = origins[:, 1::2] + np.where(block, 0.0, lengths)[:, None] * ways[:, 1::2]
    return q, drawn, np.concatenate([origins, ends], axis=1), cosines[:, :active]


def _outside(box: np.ndarray, places: np.ndarray) -> float:
    """By how much places are outside a box, in units of the curve."""
    return float(np.maximum(box[0] - places, places - box[1]).max() - KEPT)
