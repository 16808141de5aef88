"""Linkages of dyads as rows of numbers, whatever their topology: closed form, similarity, least squares to a curve.

One program does for all topologies, since which bodies a dyad is on are numbers as well. A row has the crank's pivot (2),
six numbers per dyad (see `linkages.dyads`, with the logarithms of lengths), the point (2), for an open curve the crank
angle at which it begins and by how much the crank turns, and where the wanted curve may be moved the logarithm of a factor,
an angle and a shift (2). The ground's frame begins at the pivot and is not turned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.function import Straight
from jaxmbs.search.multistart import Problem
from jaxmbs.synthesis import common
from jaxmbs.synthesis.linkages import Dyadic
from jaxmbs.synthesis.linkages.dyads import RPR, RRP, RRR, closed
from jaxmbs.synthesis.linkages.linkage import placed_on, unit
from jaxmbs.synthesis.linkages.topologies import linkage_of_wiring

# A crank turns by at least this part of a turn while an open curve is drawn, and by no more than a whole one.
MIN_PART_OF_TURN = 0.05
TINY = 1e-18


class Chains(NamedTuple):
    """The discrete part of linkages, one row each.

    Attributes:
        bodies: (…, K, 2), on which the links of each dyad begin. kinds: (…, K), as numbers of `Layout.kinds`.
        signs: (…, K), branches. active: (…), how many dyads there are; further ones count for nothing.
        mirrored: (…), −1 where the curve is to be mirrored at x, before it is moved.
    """

    bodies: Any
    kinds: Any
    signs: Any
    active: Any
    mirrored: Any


class Layout(NamedTuple):
    """What programs are made for: the largest number of dyads, their kinds, whether the whole turn counts, and whether the
    wanted curve may be moved."""

    dyads: int
    kinds: tuple[str, ...]
    closed: bool
    moves: bool = False

    @property
    def size(self) -> int:
        """Numbers in a row."""
        return 4 + 6 * self.dyads + 2 * (not self.closed) + 4 * self.moves

    @property
    def point(self) -> slice:
        """Where the point is."""
        return slice(2 + 6 * self.dyads, 4 + 6 * self.dyads)

    @property
    def way(self) -> slice:
        """Where an open curve begins, and by how much the crank turns."""
        return slice(4 + 6 * self.dyads, 6 + 6 * self.dyads)

    def parts(self, u):
        """The crank's pivot, the numbers of the dyads (K, 6), and the point."""
        count = 2 + 6 * self.dyads
        return u[:2], jnp.reshape(u[2:count], (self.dyads, 6)), u[count : count + 2]

    def angle(self, u, part):
        """The crank angle after a part, from 0 to 1, of the way."""
        start, turned = (0.0, 2 * jnp.pi) if self.closed else u[self.way]
        return start + turned * part


@partial(jax.jit, static_argnums=0)
def frames_of(layout: Layout, u, chain: Chains, angle):
    """Frames (origin, direction of x) of ground, crank and all links at a crank angle, and the cosine of each dyad (K,)."""
    pivot, numbers, _ = layout.parts(u)
    frames = [(pivot, jnp.array([1.0, 0.0])), (pivot, unit(angle))]
    cosines = []
    for k in range(layout.dyads):
        of_link, of_arm = (_chosen(chain.bodies[k, side], frames) for side in (0, 1))
        made = [closed(kind, of_link, of_arm, _lengths(kind, numbers[k]), chain.signs[k]) for kind in layout.kinds]
        frames += [_chosen(chain.kinds[k], [one[side] for one in made]) for side in (0, 1)]
        cosines.append(sum((chain.kinds[k] == n) * one[2] for n, one in enumerate(made)) * (k < chain.active))
    return frames, jnp.stack(cosines)


@partial(jax.jit, static_argnums=0)
def seen(layout: Layout, u, chain: Chains, angle):
    """The point at a crank angle, the cosine of each dyad (K,), and the places of all pins (3 K + 1, 2)."""
    pivot, numbers, point = layout.parts(u)
    frames, cosines = frames_of(layout, u, chain, angle)
    at, places = jnp.zeros(2), [pivot]
    for k, (link, arm) in enumerate(zip(frames[2::2], frames[3::2], strict=True)):
        at = at + (k == chain.active - 1) * placed_on(link[0], link[1], point)
        end = link[0] + jnp.exp(numbers[k, 4]) * link[1]
        if RPR in layout.kinds:
            end = jnp.where(chain.kinds[k] == layout.kinds.index(RPR), link[0], end)
        places += [pivot + (k < chain.active) * (place - pivot) for place in (link[0], arm[0], end)]
    return at, cosines, jnp.stack(places)


def _chosen(number, frames):
    """One of several frames."""
    if len(frames) == 1:
        return frames[0]
    pairs = [(1.0 * (number == n), frame) for n, frame in enumerate(frames)]
    return sum(w * origin for w, (origin, _) in pairs), sum(w * e for w, (_, e) in pairs)


def _lengths(kind: str, numbers):
    """The six numbers of a dyad, lengths instead of their logarithms."""
    fourth = numbers[4] if kind == RPR else jnp.exp(numbers[4])
    return jnp.concatenate([numbers[:4], jnp.stack([fourth, jnp.exp(numbers[5])])])


class Limits(NamedTuple):
    """What a linkage has to keep, in units of the curve.

    Attributes:
        cosine: of the angles between links. ratio: of the longest to the shortest length. pivots, workspace: boxes
            (2, 2), for pivots on the ground, and for all joints and the point. free: (4,), 1 where the factor, the
            angle and the shift are free.
    """

    cosine: Any
    ratio: Any
    pivots: Any
    workspace: Any
    free: Any


@dataclass(frozen=True)
class Drawing(Problem):
    """Linkages whose point draws a curve: distances of the whole drawn curve from the wanted one, and of the wanted one
    from the drawn one, both along the shortest way.

    Attributes:
        points: number of crank angles, and of points of the curve. limited: which of `Limits` there are but the first.
    """

    layout: Layout
    points: int
    limited: tuple[str, ...] = ()

    reverse: ClassVar[bool] = True

    def rows(self, data, wanted):
        layout, chain = self.layout, Chains(*data)
        curve, limits, push = wanted
        parts = np.arange(self.points) / (self.points if layout.closed else self.points - 1)

        def residual(u, own, state, block):
            (part, goal, weight), (place, point) = block
            drawn, cosines, places = seen(layout, u, chain, layout.angle(u, part))
            nearest, *_ = seen(layout, u, chain, layout.angle(u, place))
            # Steep where links are about to open, and flat where they are far apart.
            beyond = jnp.sum(jnp.log1p(jnp.maximum(jnp.abs(cosines) - limits.cosine, 0) / (1 - limits.cosine)))
            if "workspace" in self.limited:
                every = _moved(layout, u, chain, limits, jnp.concatenate([places, drawn[None]]))
                outside = _outside(limits.workspace, every)
                beyond = beyond + jnp.sum(jnp.maximum(outside + common.INSIDE, 0))
            rows = [weight * _apart(drawn - goal), _apart(nearest - point) / np.sqrt(self.points)]
            return jnp.stack([*rows, push * beyond / np.sqrt(self.points)]), state

        return residual, partial(self._prior, chain, limits, push), partial(_nearest, layout, chain, parts, curve)

    def _prior(self, chain: Chains, limits: Limits, push, u):
        """Rows that belong to no point: bounds."""
        layout = self.layout
        pivot, numbers, _ = layout.parts(u)
        rows = [jnp.zeros(1)]
        if not layout.closed:
            turns = u[layout.way][1] / (2 * jnp.pi)
            rows.append(jnp.stack([MIN_PART_OF_TURN - turns, turns - 1]))
        if "ratio" in self.limited:
            lengths, distances = _sizes(layout, u, chain)
            longest = jnp.maximum(jnp.max(lengths), jnp.log(jnp.max(distances) + TINY) / 2)
            rows.append((longest - jnp.min(lengths) - jnp.log(limits.ratio) + common.INSIDE)[None])
        if "pivots" in self.limited:
            places, on_ground = _grounded(layout, pivot, numbers, chain)
            places = _moved(layout, u, chain, limits, places)
            outside = _outside(limits.pivots, places)
            rows.append(jnp.reshape(on_ground[:, None] * (outside + common.INSIDE), -1))
        return push * jnp.maximum(jnp.concatenate(rows), 0)


def _moved(layout: Layout, u, chain: Chains, limits: Limits, places):
    """Places after the wanted curve was moved, and the linkage with it."""
    if not layout.moves:
        return places
    larger, turned, *shift = u[-4:] * limits.free
    x, y = places[:, 0], places[:, 1] * chain.mirrored
    c, s = jnp.exp(larger) * jnp.cos(turned), jnp.exp(larger) * jnp.sin(turned)
    return jnp.stack([c * x - s * y + shift[0], s * x + c * y + shift[1]], axis=1)


def _outside(box, places):
    """By how much places (n, 2) are outside a box, negative inside."""
    low, high = (jnp.broadcast_to(corner, places.shape) for corner in box)
    return jnp.maximum(places - high, low - places)


def _apart(gap):
    """The length of a gap, of which the direction counts as constant."""
    still = jax.lax.stop_gradient(gap)
    return gap @ (still / jnp.sqrt(still @ still + TINY))


def _nearest(layout: Layout, chain: Chains, parts, curve, u):
    """Blocks: for each point of the drawn curve its part of the way, the nearest place of the wanted curve, and a weight by
    length; for each point of the wanted curve the part of the way where the drawn one is nearest, and itself."""
    drawn = jax.lax.map(lambda part: seen(layout, u, chain, layout.angle(u, part))[0], parts)

    def length(before, point):
        gap = point - before
        return point, jnp.sqrt(gap @ gap + TINY)

    _, lengths = jax.lax.scan(length, drawn[-1 if layout.closed else 0], drawn)
    total = jax.lax.scan(lambda total, x: (total + x, None), jnp.zeros(()), lengths)[0]
    weights = jax.lax.map(lambda x: jnp.sqrt(x / total), lengths)
    goals, _, _ = _on_line(drawn, curve, layout.closed)
    _, places, ways = _on_line(curve, drawn, layout.closed)
    count = len(parts) - (not layout.closed)

    def sharper(block):
        """By a step of Newton's method, if it makes the gap smaller: curves leave the lines between their points."""
        point, place, way = block
        gap_at = lambda place: point - seen(layout, u, chain, layout.angle(u, place))[0]
        gap = gap_at(place)
        better = place + jnp.clip(gap @ way / (way @ way + TINY), -0.5, 0.5) / count
        better = better if layout.closed else jnp.clip(better, 0, 1)
        other = gap_at(better)
        return jnp.where(other @ other < gap @ gap, better, place)

    return (parts, goals, weights), (jax.lax.map(sharper, (curve, places, ways)), curve)


def _on_line(points, line, closed: bool):
    """The nearest place to each point on a line through others, what part of these comes before it, and the segment."""
    count = len(line) - (not closed)

    def of_one(p):
        def step(carry, b):
            a, number, square, *best = carry
            v = b - a
            t = jnp.clip((p - a) @ v / (v @ v + TINY), 0, 1)
            x = a + t * v
            gap = p - x
            better = gap @ gap < square
            choose = lambda new, old: jnp.where(better, new, old)
            found = (choose(new, old) for new, old in zip((x, number + t, v), best, strict=True))
            return (b, number + 1, choose(gap @ gap, square), *found), None

        first = line[0]
        start = line[-1] if closed else first, jnp.asarray(-1.0), jnp.asarray(1e30), first, jnp.asarray(0.0), 0 * first
        (_, _, _, place, at, segment), _ = jax.lax.scan(step, start, line)
        return place, (at if closed else jnp.maximum(at, 0.0)) / count, segment

    return jax.lax.map(of_one, points)


def _sizes(layout: Layout, u, chain: Chains):
    """Logarithms of the lengths of links, with those of crank and ground between their first pins, and squares of distances
    of pins and the point from the origins of their links; entries that do not exist repeat the crank's."""
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


def _grounded(layout: Layout, pivot, numbers, chain: Chains):
    """Places (2 K + 1, 2) where pins are on the ground, and which of them are."""
    places, there = [pivot], [jnp.ones(())]
    for k in range(layout.dyads):
        slides = 0.0
        if RRP in layout.kinds:
            slides = 1.0 * (chain.kinds[k] == layout.kinds.index(RRP))
        for side in (0, 1):
            places.append(pivot + numbers[k, 2 * side : 2 * side + 2])
            there.append(1.0 * (chain.bodies[k, side] == 0) * (k < chain.active) * (1 - side * slides))
    return jnp.stack(places), jnp.stack(there)


@partial(jax.jit, static_argnums=0)
def drawn_by(layout: Layout, u, chains: Chains, parts):
    """Points (S, T, 2) of linkages after parts of their way, and the largest cosine of each (S,)."""

    def of_one(u, chain):
        def step(worst, part):
            at, cosines, _ = seen(layout, u, chain, layout.angle(u, part))
            return jnp.maximum(worst, jnp.max(jnp.abs(cosines))), at

        return jax.lax.scan(step, jnp.zeros(()), parts)[::-1]

    return jax.vmap(Straight(of_one))(u, chains)


@partial(jax.jit, static_argnums=0)
def tracks(layout: Layout, u, chains: Chains, parts):
    """Origins and directions (S, T, 2 K + 2, 2) of the frames of all links after parts of the way; cosines (S, T, K)."""

    def of_one(u, chain, part):
        frames, cosines = frames_of(layout, u, chain, layout.angle(u, part))
        return (jnp.stack([origin for origin, _ in frames]), jnp.stack([e for _, e in frames])), cosines

    program = Straight(of_one)
    return jax.vmap(jax.vmap(program, (None, None, 0)), (0, 0, None))(u, chains, parts)


def placed(layout: Layout, u: np.ndarray, bodies: np.ndarray, kinds: np.ndarray, factor, shift) -> np.ndarray:
    """Rows of the same linkages after z ↦ factor z + shift, in complex numbers."""
    u, larger, turned = u.copy(), np.log(np.abs(factor)), np.angle(factor)
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
            line = np.column_stack([pair[:, 0] * np.exp(larger), pair[:, 1] + turned * (bodies[:, k, side] == 0)])
            pair[:] = np.where((slides & (side == 1))[:, None], line, np.column_stack([z.real, z.imag]))
        dyad[:, 4] = np.where(block, dyad[:, 4] * np.exp(larger), dyad[:, 4] + larger)
        dyad[:, 5] += larger
    u[:, layout.point] *= np.exp(larger)[:, None]
    if not layout.closed:
        u[:, layout.way.start] += turned
    return u


def mirrored(layout: Layout, u: np.ndarray, chain: Chains) -> tuple[np.ndarray, Chains]:
    """The row of a linkage mirrored at x; its crank turns the other way."""
    u, kinds = u.copy(), [layout.kinds[int(k)] for k in chain.kinds]
    u[1] *= -1
    for k, kind in enumerate(kinds):
        dyad = u[2 + 6 * k : 8 + 6 * k]
        dyad[1] *= -1
        dyad[2:4] *= [-1, -1] if kind == RRP else [1, -1]
        dyad[4] *= -1 if kind == RPR else 1
    u[layout.point] *= [1, -1]
    if not layout.closed:
        u[layout.way] *= -1
    # A slider that is ahead stays ahead, and so does a block.
    return u, chain._replace(signs=np.where(np.isin(kinds, [RRR]), -1, 1) * chain.signs)


def design_of(layout: Layout, u: np.ndarray, chain: Chains) -> tuple[Dyadic, dict[str, Any], float, np.ndarray]:
    """The linkage of a row, its design, the crank angle at which it begins, and its signs."""
    active = int(chain.active)
    kinds = [layout.kinds[int(k)] for k in chain.kinds[:active]]
    bodies = np.asarray(chain.bodies[:active], int)
    linkage = linkage_of_wiring(tuple((int(i), int(j), kind) for (i, j), kind in zip(bodies, kinds, strict=True)))
    dyads = np.array(u[2 : 2 + 6 * active].reshape(active, 6))
    # Frames of crank and ground whose x goes through the pins of the first dyad.
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
    design |= {"angle": np.asarray(common.wrapped(turns[0])), "pivot": np.array(u[:2])}
    start = (0.0 if layout.closed else float(u[layout.way][0])) + turns[1] - turns[0]
    return linkage, design, float(start), np.asarray(chain.signs[:active])
