"""Least squares between the curve that a linkage of dyads draws and a wanted curve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.search import LeastSquaresProblem
from jaxmbs.synthesis import common
from jaxmbs.synthesis.drawing import TINY, Chains, RowLayout, point_cosines_and_pins
from jaxmbs.synthesis.linkages.dyads import RPR, RRP, RRR

# Smallest angle by which the crank turns while an open curve is drawn, in turns; the largest is 1.
MIN_CRANK_TURNS = 0.05


class LinkageLimits(NamedTuple):
    """Limits on linkages, in units of the curve.

    Attributes:
        cosine: largest absolute cosine of the angles between links that meet.
        ratio: largest ratio of the longest distance to the shortest link, see `curve`.
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
        """Return the residual of a block, that of the bounds, and the function row ↦ blocks."""
        layout, chain = self.layout, Chains(*data)
        curve, limits, penalty = inputs
        parts = np.arange(self.points) / (self.points if layout.closed else self.points - 1)

        def residual(u, own, carried, block):
            """Return the two gaps of a block and penalties for links that hardly reach or leave the box."""
            (part, nearest_wanted, weight), (nearest_part, wanted) = block
            drawn, cosines, pins = point_cosines_and_pins(layout, u, chain, layout.angle(u, part))
            nearest_drawn, *_ = point_cosines_and_pins(layout, u, chain, layout.angle(u, nearest_part))
            # The logarithm is steep where links are about to open, and flat where they are far apart.
            excess = jnp.sum(jnp.log1p(jnp.maximum(jnp.abs(cosines) - limits.cosine, 0) / (1 - limits.cosine)))
            if "workspace" in self.limited:
                places = _move_with_curve(layout, u, chain, limits, jnp.concatenate([pins, drawn[None]]))
                outside = _outside(limits.workspace, places)
                excess = excess + jnp.sum(jnp.maximum(outside + common.BOUND_MARGIN, 0))
            to_wanted = weight * _gap_length(drawn - nearest_wanted)
            to_drawn = _gap_length(nearest_drawn - wanted) / np.sqrt(self.points)
            return jnp.stack([to_wanted, to_drawn, penalty * excess / np.sqrt(self.points)]), carried

        prior = partial(self._bound_penalties, chain, limits, penalty)
        return residual, prior, partial(_blocks, layout, chain, parts, curve)

    def _bound_penalties(self, chain: Chains, limits: LinkageLimits, penalty, u):
        """Return the penalties of violated bounds on the whole linkage, which belong to no point of the curve."""
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
    """Return places (n, 2) of the linkage after it was moved with the wanted curve by the similarity of row u."""
    if not layout.moves:
        return places
    log_scale, turned, *shift = u[-4:] * limits.free
    x, y = places[:, 0], places[:, 1] * chain.mirrored
    c, s = jnp.exp(log_scale) * jnp.cos(turned), jnp.exp(log_scale) * jnp.sin(turned)
    return jnp.stack([c * x - s * y + shift[0], s * x + c * y + shift[1]], axis=1)


def _outside(box, places):
    """Return the distances (n, …) of places (n, 2) outside a box beyond each side, negative inside."""
    low, high = (jnp.broadcast_to(corner, places.shape) for corner in box)
    return jnp.maximum(places - high, low - places)


def _gap_length(gap):
    """Return the length of a gap vector; its derivative treats the direction of the gap as constant."""
    constant = jax.lax.stop_gradient(gap)
    return gap @ (constant / jnp.sqrt(constant @ constant + TINY))


def _blocks(layout: RowLayout, chain: Chains, parts, curve, u):
    """Return the data of the blocks, each of which pairs a point of the drawn curve with one of the wanted curve.

    The first half has, for each point of the drawn curve, its part of the crank's range, the nearest place on the wanted
    curve, and a weight: the root of the fraction of length before it. The second half has, for each point of the wanted
    curve, the part of the crank's range where the drawn curve is nearest, and the point itself.
    """
    drawn = jax.lax.map(lambda part: point_cosines_and_pins(layout, u, chain, layout.angle(u, part))[0], parts)

    def length(before, point):
        """Return the point, to be the next `before`, and the square root of its squared gap to the one before."""
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
        """Return the nearest place to p, its part of the polyline, and the vector of its segment."""

        def step(carry, b):
            """Compare the best place so far with the nearest one on the segment from a to b."""
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
        slides = 1.0 * (chain.kinds[k] == layout.kinds.index(RRP)) if RRP in layout.kinds else 0.0
        for side in (0, 1):
            places.append(pivot + numbers[k, 2 * side : 2 * side + 2])
            on_ground.append(1.0 * (chain.bodies[k, side] == 0) * (k < chain.active) * (1 - side * slides))
    return jnp.stack(places), jnp.stack(on_ground)
