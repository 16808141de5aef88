"""Linkages of dyads as rows of numbers, for all topologies: closed form, similarity, least squares to a curve.

The bodies on which a dyad begins are numbers as well, so all topologies share one program. A row has

- the crank's pivot (2);
- six numbers per dyad, see `linkages.dyads`, with lengths as logarithms;
- the point (2);
- for an open curve, the crank angle at which it begins, and the angle by which the crank turns;
- if the wanted curve may be moved, the logarithm of a scale factor, an angle, and a shift (2).

The ground's frame begins at the crank's pivot and is not turned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.function import Straight
from jaxmbs.search import LeastSquaresProblem
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages import Dyadic
from jaxmbs.synthesis.linkages.dyads import RPR, RRP, RRR, close_dyad
from jaxmbs.synthesis.linkages.linkage import placed_on, unit
from jaxmbs.synthesis.linkages.topologies import linkage_of_wiring

# Smallest rotation of the crank while an open curve is drawn, in turns; the largest is a whole turn.
MIN_CRANK_TURNS = 0.05
# Added to squared lengths in units of the curve, so that roots and quotients have derivatives where lengths vanish.
TINY = 1e-18


class Chains(NamedTuple):
    """The discrete part of linkages, one row each.

    Attributes:
        bodies: (…, K, 2) the bodies on which the links of each dyad begin, numbered as in `Dyadic.bodies`.
        kinds: (…, K) indices into `RowRowLayout.kinds`.
        signs: (…, K) branches, ±1.
        active: (…) number of dyads; further ones in the row are ignored.
        mirrored: (…) −1 if the wanted curve is mirrored at x before it is moved, else 1.
    """

    bodies: Any
    kinds: Any
    signs: Any
    active: Any
    mirrored: Any


class RowLayout(NamedTuple):
    """Layout of the rows, for which programs are compiled.

    Attributes:
        dyads: largest number of dyads.
        kinds: their kinds.
        closed: True if the curve is drawn in a whole turn.
        moves: True if the wanted curve may be moved.
    """

    dyads: int
    kinds: tuple[str, ...]
    closed: bool
    moves: bool = False

    @property
    def size(self) -> int:
        """Length of a row."""
        return 4 + 6 * self.dyads + 2 * (not self.closed) + 4 * self.moves

    @property
    def point(self) -> slice:
        """Columns of the point."""
        return slice(2 + 6 * self.dyads, 4 + 6 * self.dyads)

    @property
    def crank_range(self) -> slice:
        """Columns of the crank angle at which an open curve begins, and of the angle by which the crank turns."""
        return slice(4 + 6 * self.dyads, 6 + 6 * self.dyads)

    def parts(self, u):
        """Return the crank's pivot, the numbers of the dyads (K, 6), and the point of a row."""
        count = 2 + 6 * self.dyads
        return u[:2], jnp.reshape(u[2:count], (self.dyads, 6)), u[count : count + 2]

    def angle(self, u, part):
        """Return the crank angle after a part, from 0 to 1, of its range."""
        start, turned = (0.0, 2 * jnp.pi) if self.closed else u[self.crank_range]
        return start + turned * part


@partial(jax.jit, static_argnums=0)
def frames_of(layout: RowLayout, u, chain: Chains, angle):
    """Return the frames (origin, x axis) of ground, crank and all links at a crank angle, and each dyad's cosine (K,)."""
    pivot, numbers, _ = layout.parts(u)
    frames = [(pivot, jnp.array([1.0, 0.0])), (pivot, unit(angle))]
    cosines = []
    for k in range(layout.dyads):
        link_base, arm_base = (_select_frame(chain.bodies[k, side], frames) for side in (0, 1))
        of_kinds = [
            close_dyad(kind, link_base, arm_base, _with_lengths(kind, numbers[k]), chain.signs[k])
            for kind in layout.kinds
        ]
        frames += [_select_frame(chain.kinds[k], [closed[side] for closed in of_kinds]) for side in (0, 1)]
        cosine = sum((chain.kinds[k] == n) * closed[2] for n, closed in enumerate(of_kinds))
        cosines.append(cosine * (k < chain.active))
    return frames, jnp.stack(cosines)


@partial(jax.jit, static_argnums=0)
def point_cosines_and_pins(layout: RowLayout, u, chain: Chains, angle):
    """Return the point (2,), the cosine of each dyad (K,), and all pins (3 K + 1, 2) at a crank angle."""
    pivot, numbers, point = layout.parts(u)
    frames, cosines = frames_of(layout, u, chain, angle)
    drawn, pins = jnp.zeros(2), [pivot]
    for k, (link, arm) in enumerate(zip(frames[2::2], frames[3::2], strict=True)):
        drawn = drawn + (k == chain.active - 1) * placed_on(link[0], link[1], point)
        end = link[0] + jnp.exp(numbers[k, 4]) * link[1]
        if RPR in layout.kinds:
            end = jnp.where(chain.kinds[k] == layout.kinds.index(RPR), link[0], end)
        pins += [pivot + (k < chain.active) * (place - pivot) for place in (link[0], arm[0], end)]
    return drawn, cosines, jnp.stack(pins)


def _select_frame(index, frames):
    """Return the frame with this index, which may be traced."""
    if len(frames) == 1:
        return frames[0]
    pairs = [(1.0 * (index == n), frame) for n, frame in enumerate(frames)]
    return sum(w * origin for w, (origin, _) in pairs), sum(w * e for w, (_, e) in pairs)


def _with_lengths(kind: str, numbers):
    """Return the six numbers of a dyad with lengths in place of their logarithms."""
    fourth = numbers[4] if kind == RPR else jnp.exp(numbers[4])
    return jnp.concatenate([numbers[:4], jnp.stack([fourth, jnp.exp(numbers[5])])])


class LinkageLimits(NamedTuple):
    """LinkageLimits on linkages, in units of the curve.

    Attributes:
        cosine: largest cosine of the angles between links.
        ratio: largest ratio of the longest distance to the shortest link.
        pivots: (2, 2) corners of the box for pivots on the ground.
        workspace: (2, 2) corners of the box for all pins and the point.
        free: (4,) 1 where scale factor, angle and the two shifts of the wanted curve are free, else 0.
    """

    cosine: Any
    ratio: Any
    pivots: Any
    workspace: Any
    free: Any


@dataclass(frozen=True)
class CurveGeneration(LeastSquaresProblem):
    """Least distances of the curve that a linkage draws from the wanted one, and of the wanted one from the drawn one.

    The unknowns are a row, see the module. Each block has a point of the drawn curve with the nearest place on the wanted
    one, and a point of the wanted curve with the nearest place on the drawn one.

    Attributes:
        layout: of the rows.
        points: number of crank angles, and of points of the wanted curve.
        limited: names of the `LinkageLimits` that apply, besides the cosine.
    """

    layout: RowLayout
    points: int
    limited: tuple[str, ...] = ()

    reverse: ClassVar[bool] = True

    def residual_functions(self, data, inputs):
        layout, chain = self.layout, Chains(*data)
        curve, limits, penalty = inputs
        parts = np.arange(self.points) / (self.points if layout.closed else self.points - 1)

        def residual(u, own, carried, block):
            (part, nearest_wanted, weight), (nearest_part, wanted) = block
            drawn, cosines, pins = point_cosines_and_pins(layout, u, chain, layout.angle(u, part))
            nearest_drawn, *_ = point_cosines_and_pins(layout, u, chain, layout.angle(u, nearest_part))
            # The logarithm is steep where links are about to open, and flat where they are far apart.
            excess = jnp.sum(jnp.log1p(jnp.maximum(jnp.abs(cosines) - limits.cosine, 0) / (1 - limits.cosine)))
            if "workspace" in self.limited:
                places = _move_with_curve(layout, u, chain, limits, jnp.concatenate([pins, drawn[None]]))
                outside = _outside(limits.workspace, places)
                excess = excess + jnp.sum(jnp.maximum(outside + common.BOUND_MARGIN, 0))
            rows = [
                weight * _gap_length(drawn - nearest_wanted),
                _gap_length(nearest_drawn - wanted) / np.sqrt(self.points),
            ]
            return jnp.stack([*rows, penalty * excess / np.sqrt(self.points)]), carried

        prior = partial(self._bound_penalties, chain, limits, penalty)
        return residual, prior, partial(_blocks, layout, chain, parts, curve)

    def _bound_penalties(self, chain: Chains, limits: LinkageLimits, penalty, u):
        """Return the rows of violated bounds, which belong to no point."""
        layout = self.layout
        pivot, numbers, _ = layout.parts(u)
        rows = [jnp.zeros(1)]
        if not layout.closed:
            turns = u[layout.crank_range][1] / (2 * jnp.pi)
            rows.append(jnp.stack([MIN_CRANK_TURNS - turns, turns - 1]))
        if "ratio" in self.limited:
            lengths, distances = _log_lengths_and_distances(layout, u, chain)
            longest = jnp.maximum(jnp.max(lengths), jnp.log(jnp.max(distances) + TINY) / 2)
            rows.append((longest - jnp.min(lengths) - jnp.log(limits.ratio) + common.BOUND_MARGIN)[None])
        if "pivots" in self.limited:
            places, on_ground = _ground_pins(layout, pivot, numbers, chain)
            places = _move_with_curve(layout, u, chain, limits, places)
            outside = _outside(limits.pivots, places)
            rows.append(jnp.reshape(on_ground[:, None] * (outside + common.BOUND_MARGIN), -1))
        return penalty * jnp.maximum(jnp.concatenate(rows), 0)


def _move_with_curve(layout: RowLayout, u, chain: Chains, limits: LinkageLimits, places):
    """Return places (n, 2) of the linkage after it was moved together with the wanted curve."""
    if not layout.moves:
        return places
    log_scale, turned, *shift = u[-4:] * limits.free
    x, y = places[:, 0], places[:, 1] * chain.mirrored
    c, s = jnp.exp(log_scale) * jnp.cos(turned), jnp.exp(log_scale) * jnp.sin(turned)
    return jnp.stack([c * x - s * y + shift[0], s * x + c * y + shift[1]], axis=1)


def _outside(box, places):
    """Return by how much places (n, 2) are outside a box in each direction, negative inside."""
    low, high = (jnp.broadcast_to(corner, places.shape) for corner in box)
    return jnp.maximum(places - high, low - places)


def _gap_length(gap):
    """Return the length of a gap vector, whose direction counts as constant where it is differentiated."""
    constant = jax.lax.stop_gradient(gap)
    return gap @ (constant / jnp.sqrt(constant @ constant + TINY))


def _blocks(layout: RowLayout, chain: Chains, parts, curve, u):
    """Return the data of the blocks, each of which pairs a point of the drawn curve with one of the wanted curve.

    The first half has, for each point of the drawn curve, its part of the crank's range, the nearest place on the wanted
    curve, and a weight in proportion to the root of its length. The second half has, for each point of the wanted curve,
    the part of the crank's range where the drawn curve is nearest, and the point itself.
    """
    drawn = jax.lax.map(lambda part: point_cosines_and_pins(layout, u, chain, layout.angle(u, part))[0], parts)

    def length(before, point):
        gap = point - before
        return point, jnp.sqrt(gap @ gap + TINY)

    _, lengths = jax.lax.scan(length, drawn[-1 if layout.closed else 0], drawn)
    total = jax.lax.scan(lambda total, x: (total + x, None), jnp.zeros(()), lengths)[0]
    weights = jax.lax.map(lambda x: jnp.sqrt(x / total), lengths)
    nearest_wanted, _, _ = _nearest_on_polyline(drawn, curve, layout.closed)
    _, nearest_parts, segments = _nearest_on_polyline(curve, drawn, layout.closed)
    count = len(parts) - (not layout.closed)

    def refine(block):
        """Improve the nearest part by a Newton step if that shortens the gap: curves deviate from their polylines."""
        point, part, segment = block
        gap_at = lambda part: point - point_cosines_and_pins(layout, u, chain, layout.angle(u, part))[0]
        gap = gap_at(part)
        new_part = part + jnp.clip(gap @ segment / (segment @ segment + TINY), -0.5, 0.5) / count
        new_part = new_part if layout.closed else jnp.clip(new_part, 0, 1)
        new_gap = gap_at(new_part)
        return jnp.where(new_gap @ new_gap < gap @ gap, new_part, part)

    return (parts, nearest_wanted, weights), (jax.lax.map(refine, (curve, nearest_parts, segments)), curve)


def _nearest_on_polyline(points, line, closed: bool):
    """Return, for each point, the nearest place on a polyline, its part of the polyline from 0 to 1, and its segment."""
    count = len(line) - (not closed)

    def nearest(p):
        def step(carry, b):
            a, number, square, *best = carry
            v = b - a
            t = jnp.clip((p - a) @ v / (v @ v + TINY), 0, 1)
            x = a + t * v
            gap = p - x
            better = gap @ gap < square
            choose = lambda new, old: jnp.where(better, new, old)
            chosen = (choose(new, old) for new, old in zip((x, number + t, v), best, strict=True))
            return (b, number + 1, choose(gap @ gap, square), *chosen), None

        first = line[0]
        start = line[-1] if closed else first, jnp.asarray(-1.0), jnp.asarray(1e30), first, jnp.asarray(0.0), 0 * first
        (_, _, _, place, at, segment), _ = jax.lax.scan(step, start, line)
        return place, (at if closed else jnp.maximum(at, 0.0)) / count, segment

    return jax.lax.map(nearest, points)


def _log_lengths_and_distances(layout: RowLayout, u, chain: Chains):
    """Return the logarithms of the lengths of links, and the squared distances of pins from the origins of their links.

    The lengths include those of crank and ground between their first pins, the distances that of the point. Entries that
    do not exist repeat the crank's length, or are zero.
    """
    _, numbers, point = layout.parts(u)
    square = lambda x: x @ x + TINY
    crank = jnp.log(square(numbers[0, :2])) / 2
    lengths, distances = [crank], [square(point)]
    for k in range(layout.dyads):
        is_kind = {kind: (k < chain.active) * (chain.kinds[k] == n) for n, kind in enumerate(layout.kinds)}
        pinned, slides = is_kind.get(RRR, False), is_kind.get(RRP, False)
        lengths.append(jnp.where(pinned | slides, numbers[k, 4], crank))
        lengths.append(jnp.where(pinned, numbers[k, 5], crank))
        second = jnp.where(slides, numbers[k, 2] ** 2, square(numbers[k, 2:4]))
        if k == 0:
            lengths.append(jnp.where(slides, crank, jnp.log(square(numbers[k, 2:4])) / 2))
        distances += [(k < chain.active) * x for x in (square(numbers[k, :2]), second)]
        if RPR in layout.kinds:
            distances.append(is_kind[RPR] * numbers[k, 4] ** 2)
    return jnp.stack(lengths), jnp.stack(distances)


def _ground_pins(layout: RowLayout, pivot, numbers, chain: Chains):
    """Return places (2 K + 1, 2) of the first pins as if on the ground, and a mask of those that are: 1.0 or 0.0."""
    places, on_ground = [pivot], [jnp.ones(())]
    for k in range(layout.dyads):
        slides = 0.0
        if RRP in layout.kinds:
            slides = 1.0 * (chain.kinds[k] == layout.kinds.index(RRP))
        for side in (0, 1):
            places.append(pivot + numbers[k, 2 * side : 2 * side + 2])
            on_ground.append(1.0 * (chain.bodies[k, side] == 0) * (k < chain.active) * (1 - side * slides))
    return jnp.stack(places), jnp.stack(on_ground)


@partial(jax.jit, static_argnums=0)
def drawn_by(layout: RowLayout, u, chains: Chains, parts):
    """Return the points (S, T, 2) of linkages at parts (T,) of their crank's range, and the largest cosines (S,)."""

    def one_linkage(u, chain):
        def step(worst, part):
            drawn, cosines, _ = point_cosines_and_pins(layout, u, chain, layout.angle(u, part))
            return jnp.maximum(worst, jnp.max(jnp.abs(cosines))), drawn

        return jax.lax.scan(step, jnp.zeros(()), parts)[::-1]

    return jax.vmap(Straight(one_linkage))(u, chains)


@partial(jax.jit, static_argnums=0)
def frames_along(layout: RowLayout, u, chains: Chains, parts):
    """Return origins and x axes (S, T, 2 K + 2, 2) of all links at parts (T,) of the crank's range; cosines (S, T, K)."""

    def one_pose(u, chain, part):
        frames, cosines = frames_of(layout, u, chain, layout.angle(u, part))
        return (jnp.stack([origin for origin, _ in frames]), jnp.stack([e for _, e in frames])), cosines

    program = Straight(one_pose)
    return jax.vmap(jax.vmap(program, (None, None, 0)), (0, 0, None))(u, chains, parts)


def apply_similarity(layout: RowLayout, u: np.ndarray, bodies: np.ndarray, kinds: np.ndarray, factor, shift):
    """Return rows (S, size) of linkages after the similarity z ↦ factor z + shift in complex numbers, (S,) each."""
    u, log_scale, turned = u.copy(), np.log(np.abs(factor)), np.angle(factor)
    moved = (u[:, :2] @ [1, 1j]) * factor + shift
    u[:, :2] = np.column_stack([moved.real, moved.imag])
    for k in range(layout.dyads):
        dyad = u[:, 2 + 6 * k : 8 + 6 * k]
        slides, block = (
            np.isin(kinds[:, k], [n for n, x in enumerate(layout.kinds) if x == kind]) for kind in (RRP, RPR)
        )
        for side in (0, 1):
            pair = dyad[:, 2 * side : 2 * side + 2]
            z = (pair @ [1, 1j]) * np.where(bodies[:, k, side] == 0, factor, np.abs(factor))
            line = np.column_stack([pair[:, 0] * np.exp(log_scale), pair[:, 1] + turned * (bodies[:, k, side] == 0)])
            pair[:] = np.where((slides & (side == 1))[:, None], line, np.column_stack([z.real, z.imag]))
        dyad[:, 4] = np.where(block, dyad[:, 4] * np.exp(log_scale), dyad[:, 4] + log_scale)
        dyad[:, 5] += log_scale
    u[:, layout.point] *= np.exp(log_scale)[:, None]
    if not layout.closed:
        u[:, layout.crank_range.start] += turned
    return u


def mirror(layout: RowLayout, u: np.ndarray, chain: Chains) -> tuple[np.ndarray, Chains]:
    """Return the row of a linkage mirrored at x; its crank turns the other way."""
    u, kinds = u.copy(), [layout.kinds[int(k)] for k in chain.kinds]
    u[1] *= -1
    for k, kind in enumerate(kinds):
        dyad = u[2 + 6 * k : 8 + 6 * k]
        dyad[1] *= -1
        dyad[2:4] *= [-1, -1] if kind == RRP else [1, -1]
        dyad[4] *= -1 if kind == RPR else 1
    u[layout.point] *= [1, -1]
    if not layout.closed:
        u[layout.crank_range] *= -1
    # Sliders and blocks that are ahead stay ahead; pins change sides.
    return u, chain._replace(signs=np.where(np.isin(kinds, [RRR]), -1, 1) * chain.signs)


def design_of(layout: RowLayout, u: np.ndarray, chain: Chains) -> tuple[Dyadic, dict[str, Any], float, np.ndarray]:
    """Return the linkage of a row, its design, the crank angle at which it begins, and its signs (K,)."""
    active = int(chain.active)
    kinds = [layout.kinds[int(k)] for k in chain.kinds[:active]]
    bodies = np.asarray(chain.bodies[:active], int)
    linkage = linkage_of_wiring(tuple((int(i), int(j), kind) for (i, j), kind in zip(bodies, kinds, strict=True)))
    dyads = np.array(u[2 : 2 + 6 * active].reshape(active, 6))
    # In a design the x axes of crank and ground pass through the pins of the first dyad.
    turns = np.zeros(2 * active + 2)
    for side in (0, 1):
        slope = side == 1 and kinds[0] == RRP
        first = dyads[0, 2 * side : 2 * side + 2]
        turns[bodies[0, side]] = first[1] if slope else np.arctan2(first[1], first[0])
    for k, kind in enumerate(kinds):
        for side in (0, 1):
            turn, pair = turns[bodies[k, side]], dyads[k, 2 * side : 2 * side + 2]
            if side == 1 and kind == RRP:
                pair[1] -= turn
            else:
                z = (pair @ [1, 1j]) * np.exp(-1j * turn)
                pair[:] = z.real, z.imag
        dyads[k, 4] = dyads[k, 4] if kind == RPR else np.exp(dyads[k, 4])
        dyads[k, 5] = np.exp(dyads[k, 5])
    numbers = linkage.free_numbers(dyads[None], np.asarray(u[layout.point])[None])[0]
    design = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(numbers)).items()}
    design |= {"angle": np.asarray(common.wrap_angle(turns[0])), "pivot": np.array(u[:2])}
    start = (0.0 if layout.closed else float(u[layout.crank_range][0])) + turns[1] - turns[0]
    return linkage, design, float(start), np.asarray(chain.signs[:active])
