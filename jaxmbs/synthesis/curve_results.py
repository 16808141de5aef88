"""Results of a search for a curve: linkages in the user's units, with their joints checked along the whole curve."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.search import DistinctDesigns, MultistartCarry, Ranked
from jaxmbs.synthesis import common
from jaxmbs.synthesis.curve_search import CurveRequest
from jaxmbs.synthesis.drawing import Chains, RowLayout, apply_similarity, drawn_by, frames_along, linkage_of_row, mirror
from jaxmbs.synthesis.linkages import Dyadic
from jaxmbs.synthesis.linkages.dyads import RPR
from jaxmbs.synthesis.shapes import curve_distances, distances_from
from jaxmbs.system.equations import constraints
from jaxmbs.system.mechanism import Mechanism

# Number of equal steps of the crank's range, or of its turn, at whose ends a result of `curve` is checked.
CHECK_STEPS = 720
# Largest violation of a bound that counts as none: in units of the curve (boxes), degrees (angles), or relative.
BOUND_TOLERANCE = 1e-6
# Largest number of candidates with the same number of links that may fail their checks; more of them are left out.
MAX_FAILED_PER_SIZE = 12


class CurveSolution(NamedTuple):
    """A linkage that draws a curve.

    Attributes:
        design: its dimensions by name, see `linkage`.
        error: the Chamfer distance: the mean distance of points of the drawn curve to the nearest of the wanted one, plus
            the same in the other direction. Both curves have 2,000 points evenly spaced by length; the unit is the root
            mean square distance of the wanted points from their centre. A closed curve has no first point: the error is
            the largest one from several first points, and even an exact curve has the spacing of its points as error.
        ordered_error: 2π times the mean squared distance of points paired in their order, in the same unit squared, and
            also the largest one from several first points of a closed curve.
        mechanism: with a motor that draws the curve once in a unit of time.
        guess: the assembled poses of its bodies at time 0.
        linkage: its topology, a `Dyadic`; None for a mechanism of your own.
        links: the number of links that move.
        crank_angles: (721,), at the points, from the line between the first two pivots; see the design.
        branch: a sign for each dyad.
        points: (721, 2), the drawn curve at equal steps of the crank angle: half degrees in a whole turn.
        targets: (T, 2), the wanted curve after it was moved.
        moved: "scale", "rotation" in radians, "translation" and "reflection" that moved the targets: they are mirrored at
            x if "reflection" is True, then turned and scaled about the origin, then shifted.
        point: body and coordinates of the point.
        checks: "assembled": the joints of the mechanism fit at all points, on one branch; "closed": the curve ends where it
            began; "turns": the crank turns fully; "transmission_angle": the smallest while the curve is drawn, in degrees;
            "ratio": of the longest distance to the shortest link, see `curve`; "farthest": the largest distance from the
            wanted curve, in the units of the error; "misses": the names of the bounds that are not kept.

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
    """Results of a search for a curve.

    Attributes:
        all: solutions, the least error first. Those that keep all bounds come before others.
        front: the best solution of each number of links, the fewest links first, where more links reduce the error.

    Examples:
        >>> square = jnp.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
        >>> found = mbs.synthesis.curve(square, closed=True, links=5, starts=128)
        >>> [one.links for one in found.front]
        [3, 5]
    """

    front: list[CurveSolution]


def curve_solutions(request: CurveRequest, carry: MultistartCarry, keep: int) -> Front:
    """Return the `keep` best linkages of a finished search, checked, and the front.

    Raises:
        ValueError: no linkage draws a curve.
    """
    layout, closed = request.layout, request.layout.closed
    parts = np.arange(CHECK_STEPS + 1) / CHECK_STEPS
    u, chains = np.asarray(carry.shared), Chains(*(np.asarray(x) for x in carry.data))
    drawn, worst_cosines = (np.asarray(x) for x in drawn_by(layout, u, chains, parts))
    draws = np.all(np.isfinite(drawn), axis=(1, 2)) & (worst_cosines < 1)
    if not draws.any():
        raise ValueError("no linkage was found that draws a curve without opening; allow more starts")
    errors = np.full(len(drawn), np.inf)
    for k in np.flatnonzero(draws):
        errors[k] = curve_distances(drawn[k, : -1 if closed else None], closed, request.scaled_points, closed)[0]
    distinct = DistinctDesigns()
    passed: list[CurveSolution] = []
    failed: list[CurveSolution] = []
    best_of_size: dict[int, CurveSolution] = {}
    for k in np.argsort(errors, kind="stable")[: draws.sum()]:
        links = 1 + 2 * int(chains.active[k])
        features = np.concatenate([u[k], np.ravel(chains.bodies[k]), [links]])
        if len(passed) >= keep and links in best_of_size:
            continue
        if sum(one.links == links for one in failed) >= MAX_FAILED_PER_SIZE or not distinct.add(features):
            continue
        one = _solution(request, u[k], Chains(*(x[k] for x in chains)))
        passes = one.checks["assembled"] and not one.checks["misses"]
        (passed if passes else failed).append(one)
        if passes:
            best_of_size.setdefault(links, one)
    if not passed:
        missed = ", ".join(failed[0].checks["misses"]) or "its joints"
        warnings.warn(f"no linkage within the bounds was found; the best one misses {missed}", stacklevel=3)
    by_error = lambda solutions: sorted(solutions, key=lambda x: x.error)
    front: list[CurveSolution] = []
    for _, one in sorted(best_of_size.items()):
        if not front or one.error < front[-1].error:
            front.append(one)
    return Front([*by_error(passed), *by_error(failed)][:keep], front)


def _solution(request: CurveRequest, u: np.ndarray, chain: Chains) -> CurveSolution:
    """Return the solution of a row u, in the user's units, with its joints checked along the whole curve."""
    layout, centre, spread = request.layout, request.centre, request.spread
    u, chain, moved, targets = _move_to_targets(request, u, chain)
    linkage, design, start, signs = linkage_of_row(layout, u, chain)
    turned = 2 * np.pi if layout.closed else float(u[layout.crank_range][1])
    if layout.closed and moved["reflection"]:
        turned = -turned
    times = np.arange(CHECK_STEPS + 1) / CHECK_STEPS
    angles, sense = start + turned * times, np.sign(turned) if layout.closed else 1.0
    q, pins, cosines = _poses(layout, u, chain, times * sense)
    # The motor's angle may include whole turns.
    q[:, 0, 2] = design["angle"] + angles
    # In units of the curve, lengths are about as large as angles, so one tolerance is enough.
    small, mech = common.zero_tolerance(), linkage.mechanism(design, start, turned / (2 * np.pi))
    gaps = jax.jit(jax.vmap(partial(constraints, mech)))(q.reshape(len(q), -1), times)
    fits = np.abs(gaps).max() < small * max(1.0, np.abs(q[:, :, :2]).max())
    design = linkage.result_in_user_units(design, centre, spread)
    mech = linkage.mechanism(design, start, turned / (2 * np.pi))
    q[:, :, :2], pins = q[:, :, :2] * spread + centre, pins * spread + centre
    drawn = common.point_positions(q[:, list(mech.bodies).index(linkage.output)], design["point"])
    length = max(np.abs(np.asarray(design[name])).max() for name in linkage.entries if name not in linkage.angles)
    lengths = [design[name] for name, *_, kind in linkage.dyad_entries() if kind == "log"]
    longest = max(np.linalg.norm(design[name]) for name in linkage.entries if name not in (*linkage.angles, "pivot"))
    *_, cosines_of_turn = _poses(layout, u, chain, times * 2 * np.pi / abs(turned))
    checks: dict[str, Any] = {
        "assembled": bool(fits and np.abs(cosines).max() < 1),
        "closed": bool(np.abs(drawn[-1] - drawn[0]).max() < small * length),
        "turns": bool(np.abs(cosines_of_turn).max() < 1),
        "transmission_angle": common.transmission_angle_deg(cosines),
        "ratio": float(longest / min(lengths)),
        "farthest": float(distances_from(drawn, targets, layout.closed).max() / (spread * moved["scale"])),
    }
    pivots = np.array(linkage.pivots({name: jnp.asarray(x) for name, x in design.items()}))
    places = {"pivots": pivots, "workspace": np.concatenate([pins.reshape(-1, 2), drawn])}
    checks["misses"] = _missed_bounds(request, places, checks)
    guess = {name: tuple(float(x) for x in pose) for name, pose in zip(mech.bodies, q[0], strict=True)}
    drawn_once = drawn[:-1] if layout.closed else drawn
    error, ordered_error = curve_distances(drawn_once, layout.closed, targets, layout.closed)
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


def _missed_bounds(request: CurveRequest, places: dict[str, np.ndarray], checks: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the bounds that are not kept; `places`: name of a box ↦ places (n, 2) to be inside."""
    limits, outside = request.limits, {}
    for name, x in places.items():
        (low, high), x = getattr(limits, name), (x - request.centre) / request.spread
        outside[name] = np.maximum(low - x, x - high).max() - BOUND_TOLERANCE
    outside["ratio"] = checks["ratio"] - limits.ratio * (1 + BOUND_TOLERANCE)
    outside["transmission_angle"] = request.transmission_angle - checks["transmission_angle"] - BOUND_TOLERANCE
    required = (*request.limited, *(["transmission_angle"] if request.transmission_angle else []))
    return tuple(name for name in required if outside[name] > 0)


def _move_to_targets(request: CurveRequest, u: np.ndarray, chain: Chains):
    """Move a linkage with the wanted curve; return row, chain, the parts of the similarity, and the curve (T, 2)."""
    layout, centre, spread = request.layout, complex(*request.centre), request.spread
    if not layout.moves:
        return u, chain, similarity_parts(), request.points
    z, reflected = request.points @ [1, 1j], bool(chain.mirrored < 0)
    log_scale, turned, *shifts = u[-4:] * request.limits.free
    factor, shift = np.exp(log_scale + 1j * turned), complex(*shifts)
    z_centre = centre
    if reflected:
        u, chain = mirror(layout, u, chain)
        z, z_centre = z.conj(), centre.conjugate()
    one = u[None], chain.bodies[None], chain.kinds[None]
    u = apply_similarity(layout, *one, np.array([factor]), np.array([shift]))[0]
    translation = centre + spread * shift - factor * z_centre
    after = factor * z + translation
    return u, chain, similarity_parts(factor, translation, reflected), np.column_stack([after.real, after.imag])


def similarity_parts(factor=1.0, shift=0j, reflected: bool = False) -> dict[str, Any]:
    """Return `CurveSolution.moved` for the similarity z ↦ factor z + shift, after a reflection at x if `reflected`."""
    return {
        "scale": float(np.abs(factor)),
        "rotation": float(np.angle(factor)),
        "translation": np.array([shift.real, shift.imag]),
        "reflection": reflected,
    }


def _poses(layout: RowLayout, u, chain: Chains, parts):
    """Return poses (T, bodies, 3), pins (T, n, 2) and dyads' cosines (T, K) at parts (T,) of the crank's range."""
    one = Chains(*(np.asarray(x)[None] for x in chain))
    (origins, axes), cosines = (
        jax.tree.map(lambda x: np.asarray(x)[0], tree) for tree in frames_along(layout, u[None], one, parts)
    )
    active = int(chain.active)
    origins, axes = origins[:, 1 : 2 * active + 2], axes[:, 1 : 2 * active + 2]
    lengths = np.exp(u[2 : 2 + 6 * active].reshape(active, 6)[:, 4])
    block = np.array([layout.kinds[int(k)] == RPR for k in chain.kinds[:active]])
    ends = origins[:, 1::2] + np.where(block, 0.0, lengths)[:, None] * axes[:, 1::2]
    q = np.concatenate([origins, np.arctan2(axes[..., 1:], axes[..., :1])], axis=2)
    return q, np.concatenate([origins, ends], axis=1), cosines[:, :active]
