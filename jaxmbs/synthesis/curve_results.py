"""What a search for a curve has found: linkages in the user's units, their joints looked at on the whole way."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.search.multistart import Ranked, Seen, State
from jaxmbs.synthesis import common
from jaxmbs.synthesis.curve_search import Wanted
from jaxmbs.synthesis.drawing import Chains, Layout, design_of, drawn_by, mirrored, placed, tracks
from jaxmbs.synthesis.linkages import Dyadic
from jaxmbs.synthesis.linkages.dyads import RPR
from jaxmbs.synthesis.shapes import distances, distances_from
from jaxmbs.system.equations import constraints
from jaxmbs.system.mechanism import Mechanism

# A turn is looked at in steps of half a degree.
STEPS_PER_TURN = 720
# Bounds are kept if they are missed by no more than this part.
KEPT = 1e-6
# So many solutions with the same number of links are looked at that miss something.
MAX_MISSES = 12


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
        linkage: its topology, a `Dyadic`; None of a mechanism of one's own.
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
            is drawn; "ratio": of the longest distance to the shortest link, see `curve`; "farthest": the largest distance
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
    linkage: Dyadic | None
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
        >>> found = mbs.synthesis.curve(square, closed=True, links=5, starts=128)
        >>> [one.links for one in found.front]
        [3, 5]
    """

    front: list[CurveSolution]


class Asked(NamedTuple):
    """What was asked for: the points (T, 2) of the curve, their centre and spread, and the rest in units of these."""

    layout: Layout
    wanted: Wanted
    points: np.ndarray
    closed: bool
    centre: np.ndarray
    spread: float
    transmission_angle: float


def found_by(asked: Asked, state: State, keep: int) -> Front:
    """Solutions with less error first, and the front."""
    layout, closed = asked.layout, asked.closed
    parts = np.arange(STEPS_PER_TURN + 1) / STEPS_PER_TURN
    u, chains = np.asarray(state.shared), Chains(*(np.asarray(x) for x in state.data))
    drawn, worst = (np.asarray(x) for x in drawn_by(layout, u, chains, parts))
    closes = np.all(np.isfinite(drawn), axis=(1, 2)) & (worst < 1)
    if not closes.any():
        raise ValueError("no linkage was found that draws a curve without opening; allow more starts")
    errors = np.full(len(drawn), np.inf)
    for k in np.flatnonzero(closes):
        errors[k] = distances(drawn[k, : -1 if closed else None], closed, asked.wanted.points, closed)[0]
    seen = Seen()
    good: list[CurveSolution] = []
    others: list[CurveSolution] = []
    first: dict[int, CurveSolution] = {}
    for k in np.argsort(errors, kind="stable")[: closes.sum()]:
        links = 1 + 2 * int(chains.active[k])
        mark = np.concatenate([u[k], np.ravel(chains.bodies[k]), [links]])
        missed = sum(one.links == links for one in others)
        if (len(good) >= keep and links in first) or missed >= MAX_MISSES or not seen.is_new(mark):
            continue
        one = _solution(asked, u[k], Chains(*(x[k] for x in chains)))
        fine = one.checks["assembled"] and not one.checks["misses"]
        (good if fine else others).append(one)
        if fine:
            first.setdefault(links, one)
    if not good:
        what = ", ".join(others[0].checks["misses"]) or "its joints"
        warnings.warn(f"no linkage within the bounds was found; the best one misses {what}", stacklevel=3)
    by_error = lambda every: sorted(every, key=lambda x: x.error)
    front: list[CurveSolution] = []
    for _, one in sorted(first.items()):
        if not front or one.error < front[-1].error:
            front.append(one)
    return Front([*by_error(good), *by_error(others)][:keep], front)


def _solution(asked: Asked, u: np.ndarray, chain: Chains) -> CurveSolution:
    """A solution in the user's units, its joints looked at on the whole way."""
    layout, centre, spread = asked.layout, asked.centre, asked.spread
    u, chain, moved, targets = _moved(asked, u, chain)
    linkage, design, start, signs = design_of(layout, u, chain)
    turned = 2 * np.pi if layout.closed else float(u[layout.way][1])
    if layout.closed and moved["reflection"]:
        turned = -turned
    times = np.arange(STEPS_PER_TURN + 1) / STEPS_PER_TURN
    angles, way = start + turned * times, np.sign(turned) if layout.closed else 1.0
    q, pins, cosines = _poses(layout, u, chain, times * way)
    # As the motor counts it, which may be some turns more.
    q[:, 0, 2] = design["angle"] + angles
    # In units of the curve lengths are about as large as angles.
    small, mech = common.near_zero(), linkage.mechanism(design, start, turned / (2 * np.pi))
    gaps = jax.jit(jax.vmap(partial(constraints, mech)))(q.reshape(len(q), -1), times)
    fits = np.abs(gaps).max() < small * max(1.0, np.abs(q[:, :, :2]).max())
    design = linkage.in_units(design, centre, spread)
    mech = linkage.mechanism(design, start, turned / (2 * np.pi))
    q[:, :, :2], pins = q[:, :, :2] * spread + centre, pins * spread + centre
    drawn = common.on_body(q[:, list(mech.bodies).index(linkage.output)], design["point"])
    length = max(np.abs(np.asarray(design[name])).max() for name in linkage.entries if name not in linkage.angles)
    lengths = [design[name] for name, *_, kind in linkage.places() if kind == "log"]
    longest = max(np.linalg.norm(design[name]) for name in linkage.entries if name not in (*linkage.angles, "pivot"))
    *_, around = _poses(layout, u, chain, times * 2 * np.pi / abs(turned))
    checks: dict[str, Any] = {
        "assembled": bool(fits and np.abs(cosines).max() < 1),
        "closed": bool(np.abs(drawn[-1] - drawn[0]).max() < small * length),
        "turns": bool(np.abs(around).max() < 1),
        "transmission_angle": common.angle_of(cosines),
        "ratio": float(longest / min(lengths)),
        "farthest": float(distances_from(drawn, targets, asked.closed).max() / (spread * moved["scale"])),
    }
    pivots = np.array(linkage.pivots({name: jnp.asarray(x) for name, x in design.items()}))
    places = {"pivots": pivots, "workspace": np.concatenate([pins.reshape(-1, 2), drawn])}
    checks["misses"] = _missed(asked, places, checks)
    guess = {name: tuple(float(x) for x in pose) for name, pose in zip(mech.bodies, q[0], strict=True)}
    closed = asked.closed
    error, ordered_error = distances(drawn[: -1 if closed else None], closed, targets, closed)
    return CurveSolution(
        design=design,
        error=error,
        ordered_error=ordered_error,
        mechanism=mech,
        guess=guess,
        linkage=linkage,
        links=linkage.links,
        crank_angles=angles,
        branch=tuple(int(sign) for sign in signs),
        points=drawn,
        targets=targets,
        moved=moved,
        point=(linkage.output, np.asarray(design["point"])),
        checks=checks,
    )


def _missed(asked: Asked, places: dict[str, np.ndarray], checks: dict[str, Any]) -> tuple[str, ...]:
    """The names of the bounds that are not kept."""
    limits, scaled = asked.wanted.limits, lambda x: (x - asked.centre) / asked.spread
    outside = {name: _outside(getattr(limits, name), scaled(x)) for name, x in places.items()}
    outside["ratio"] = checks["ratio"] - limits.ratio * (1 + KEPT)
    outside["transmission_angle"] = asked.transmission_angle - checks["transmission_angle"] - KEPT
    asked_for = (*asked.wanted.limited, *(["transmission_angle"] if asked.transmission_angle else []))
    return tuple(name for name in asked_for if outside[name] > 0)


def _moved(asked: Asked, u: np.ndarray, chain: Chains):
    """The row of a linkage after the wanted curve was moved, how that was, and the points of the curve."""
    layout, centre, spread = asked.layout, complex(*asked.centre), asked.spread
    if not layout.moves:
        return u, chain, told(), asked.points
    z, reflected = asked.points @ [1, 1j], bool(chain.mirrored < 0)
    larger, turned, *shifts = u[-4:] * asked.wanted.limits.free
    factor, shift = np.exp(larger + 1j * turned), complex(*shifts)
    if reflected:
        u, chain = mirrored(layout, u, chain)
        z, about = z.conj(), centre.conjugate()
    else:
        about = centre
    u = placed(layout, u[None], chain.bodies[None], chain.kinds[None], np.array([factor]), np.array([shift]))[0]
    translation = centre + spread * shift - factor * about
    after = factor * z + translation
    return u, chain, told(factor, translation, reflected), np.column_stack([after.real, after.imag])


def told(factor=1.0, shift=0j, reflected: bool = False) -> dict[str, Any]:
    """A similarity of the plane by its parts."""
    return {
        "scale": float(np.abs(factor)),
        "rotation": float(np.angle(factor)),
        "translation": np.array([shift.real, shift.imag]),
        "reflection": reflected,
    }


def _poses(layout: Layout, u, chain: Chains, parts):
    """Poses (T, bodies, 3) of all links after parts of the way, pins (T, n, 2), and cosines (T, K)."""
    one = Chains(*(np.asarray(x)[None] for x in chain))
    (origins, ways), cosines = (
        jax.tree.map(lambda x: np.asarray(x)[0], found) for found in tracks(layout, u[None], one, parts)
    )
    active = int(chain.active)
    origins, ways = origins[:, 1 : 2 * active + 2], ways[:, 1 : 2 * active + 2]
    lengths = np.exp(u[2 : 2 + 6 * active].reshape(active, 6)[:, 4])
    block = np.array([layout.kinds[int(k)] == RPR for k in chain.kinds[:active]])
    ends = origins[:, 1::2] + np.where(block, 0.0, lengths)[:, None] * ways[:, 1::2]
    q = np.concatenate([origins, np.arctan2(ways[..., 1:], ways[..., :1])], axis=2)
    return q, np.concatenate([origins, ends], axis=1), cosines[:, :active]


def _outside(box: np.ndarray, places: np.ndarray) -> float:
    """By how much places are outside a box, in units of the curve."""
    return float(np.maximum(box[0] - places, places - box[1]).max() - KEPT)
