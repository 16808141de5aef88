"""Polylines with thickness, and the places where two of them are nearest: pins, slots, teeth, pawls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.element import check_positive, require
from jaxmbs.numerics.arrays import as_real, check_fields, is_concrete, real
from jaxmbs.planar.element import square

# Number of places at which two polylines can touch at the same time: both flanks of a slot, both ends of a flat face.
PLACES = 2
# Corners that turn by less, in radians, are part of a smooth curve. A second place at a corner that turns by γ begins with
# a positive depth, so that the force jumps, if the first one is deeper than 1 − cos γ of the sum of the radii: here 13 %.
SMOOTH_CORNER = np.pi / 6
# Two places are the same one of a smooth curve if it turns by less between them, in radians. The flanks of a slot with a
# round end are apart by twice as much.
SMOOTH_CURVE = np.pi / 2


def _as_pieces(points):
    """Return points (k, 2) of one polyline as (1, k, 2); those of several, (p, k, 2), unchanged."""
    points = as_real(points)
    dimension = getattr(points, "ndim", None)
    require(dimension in (2, 3), f"points must be an array of shape (k, 2) or (p, k, 2), got {points!r}")
    return points[None] if dimension == 2 else points


class RoundedPolyline(eqx.Module):
    """Polylines with thickness: all points within `radius` of a chain of segments. All ends and corners are rounded.

    A closed one is a polygon with rounded corners; two points make a bar with round ends, or a slot's edge; one point
    makes a disc. The shape may have hollows of any form. Points deeper inside than `radius` from the chain are not part
    of the solid, so penetrations must be smaller than that.

    Args:
        points: (k, 2), centres of the corners' arcs in the body frame, relative to the outline's centre; or (p, k, 2) for
            p polylines of one body, each of k points, all closed or all open.
        radius: half the thickness.
        closed: True if the last point is joined to the first one.

    Examples:
        >>> square = planar.RoundedPolyline([(-1, -1), (1, -1), (1, 1), (-1, 1)], radius=0.1, closed=True)
        >>> pin = planar.FunctionOutline(0.2)
        >>> touch = planar.OutlineContact("ground", "pin", (0, 0), (0, 0), square, pin, stiffness=1e6, exponent=1.0)
        >>> mech = mbs.Mechanism({"pin": planar.Body()}, forces={"touch": touch})
        >>> print(mbs.generalized_force(mech, {"pin": (1.299, 0.5, 0)}, jnp.zeros(3)).round(3))  # 1 mm deep
        [1000.    0.    0.]
    """

    points: Array = eqx.field(converter=_as_pieces, metadata={"shape": (None, None, 2), "optional": False})
    radius: Array = real()
    closed: bool = eqx.field(static=True, default=False)

    @property
    def segments(self) -> tuple[Array, Array]:
        """First and last points (m, 2) of all segments; a single point is a segment without length."""
        points = jnp.asarray(self.points)
        count = points.shape[1]
        first = np.arange(count if self.closed or count == 1 else count - 1)
        last = (first + 1) % count
        return points[:, first].reshape(-1, 2), points[:, last].reshape(-1, 2)

    @property
    def joins(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices (p·k,) of the points before and after each point, among all of them; its own at an end."""
        pieces, count = self.points.shape[:2]
        along = np.arange(count)
        before, after = (along - 1, along + 1)
        before, after = (x % count if self.closed else np.clip(x, 0, count - 1) for x in (before, after))
        starts = count * np.arange(pieces)[:, None]
        return (starts + before).ravel(), (starts + after).ravel()

    @property
    def turns(self) -> tuple[Array, Array]:
        """For each point (p·k, c) and segment (m, c): the angle by which the chain turns up to there, and in all if closed.

        Angles have no signs. Sharp corners and ends count as 4 `SMOOTH_CURVE`, half before the point and half behind it.
        """
        pieces, count = self.points.shape[:2]
        first, last = self.segments
        along = jax.lax.stop_gradient(last - first).reshape(pieces, -1, 2)
        following = jnp.roll(along, -1, axis=1)
        cross = along[..., 0] * following[..., 1] - along[..., 1] * following[..., 0]
        turn = jnp.abs(jnp.arctan2(cross, jnp.sum(along * following, axis=2)))
        turn = jnp.where(turn < SMOOTH_CORNER, turn, 4 * SMOOTH_CURVE)
        if not self.closed:
            turn = turn.at[:, -1].set(4 * SMOOTH_CURVE)
        behind = jnp.cumsum(turn, axis=1)
        total = behind[:, -1:]
        # All chains in a row, so far apart that none of them seems to follow another one.
        start = 3 * jnp.max(total) * np.arange(pieces)[:, None]
        at_points = start + jnp.concatenate([-turn[:, -1:] / 2, behind - turn / 2], axis=1)[:, :count]
        at_segments = at_points if count == 1 else start + behind - turn
        if not self.closed:
            return at_points.reshape(-1, 1), at_segments.reshape(-1, 1)
        at_points, at_segments = (
            jnp.stack(jnp.broadcast_arrays(x, total), axis=2).reshape(-1, 2) for x in (at_points, at_segments)
        )
        return at_points, at_segments

    def check(self) -> None:
        """Raise `ValueError` for points of a wrong shape or that follow each other at one place, or no thickness."""
        check_fields(self)
        require(self.points.shape[0] > 0, "points has no polyline")
        require(
            self.points.shape[1] >= (3 if self.closed else 1),
            "a polyline must have at least 1 point, a closed one at least 3 points",
        )
        check_positive(self, "radius")
        if is_concrete(self.points) and self.points.shape[1] > 1:
            first, last = map(np.asarray, self.segments)
            require(
                np.all(np.any(first != last, axis=1)),
                "points: two that follow each other are the same; a closed polyline must not repeat its first point",
            )


class Nearest(NamedTuple):
    """A place where two polylines are near each other.

    Attributes:
        first, second: (2,), the points of their chains, in common axes.
        exists: True if there is such a place.
    """

    first: Float[Array, "2"]
    second: Float[Array, "2"]
    exists: Bool[Array, ""]


def nearest_places(first: RoundedPolyline, second: RoundedPolyline, move: Callable[[Array], Array]) -> list[Nearest]:
    """Return the nearest places of two polylines, at most `PLACES`, nearest first, in the axes of the first.

    A place is a point of one chain and its foot on a segment of the other one, or two corners that are nearer to each other
    than all neighbouring points of their segments. Places on one smooth curve of both polylines count as one, the nearest
    of them, so that the depth stays continuous where it moves to the next segment. `move` takes points of the second
    outline to the axes of the first.
    """
    chain_i, chain_j = (jnp.asarray(line.points).reshape(-1, 2) for line in (first, second))
    chain_j = move(chain_j)
    segments_i, segments_j = first.segments, tuple(move(end) for end in second.segments)
    of_i = _feet(chain_i, first.joins, segments_j, second, ends=True)
    of_j = _feet(chain_j, second.joins, segments_i, first, ends=False)
    # Each candidate has a point and a segment. The point is on the first polyline for the first ones of them.
    points, starts, ends = (
        jnp.concatenate(pair) for pair in zip(_pairs(chain_i, segments_j), _pairs(chain_j, segments_i), strict=True)
    )
    distance = jnp.concatenate([of_i.ravel(), of_j.ravel()])
    (points_i, *turns_i), (points_j, *turns_j) = first.turns, second.turns
    (on_i, on_j), (on_j_too, on_i_too) = _pairs(points_i, turns_j), _pairs(points_j, turns_i)
    on_i, on_j = jnp.concatenate([on_i, on_i_too]), jnp.concatenate([on_j, on_j_too])
    found = []
    for _ in range(min(PLACES, len(distance))):
        k = jnp.argmin(distance)
        exists = jnp.isfinite(distance[k])
        distance = jnp.where(_on_same_curve(first, on_i, k) & _on_same_curve(second, on_j, k), jnp.inf, distance)
        point, foot = points[k], _foot(points[k], starts[k], ends[k])[0]
        swapped = k >= of_i.size
        found.append(Nearest(jnp.where(swapped, foot, point), jnp.where(swapped, point, foot), exists))
    return found


def _pairs(points, segments) -> list[Array]:
    """Return points, first and last points of segments, each (n m, 2), of all pairs of a point and a segment."""
    n, m = len(points), len(segments[0])
    return [jnp.repeat(points, m, axis=0), *(jnp.tile(end, (n, 1)) for end in segments)]


def _on_same_curve(line, turns, k) -> Array | np.ndarray:
    """Return True for the candidates (n,) that are on the same smooth curve of a polyline as candidate k.

    `turns` has the rows of `RoundedPolyline.turns` for all candidates.
    """
    if line.points.shape[:2] == (1, 1):
        return np.ones(len(turns), bool)
    between = jnp.abs(turns[:, 0] - turns[k, 0])
    if line.closed:
        between = jnp.minimum(between, jnp.abs(turns[k, 1] - between))
    return between < SMOOTH_CURVE


def _foot(point, start, end) -> tuple[Array, Array]:
    """Return the point of a segment that is nearest to a point, and its place: below 0 or above 1 beyond the ends."""
    along = end - start
    size = square(along)
    place = (point - start) @ along / jnp.where(size == 0, 1, size)
    return start + jnp.clip(place, 0, 1) * along, place


def _feet(points, joins, segments, line, *, ends) -> Array:
    """Return the squared distances (n, m) of points from segments; infinite for pairs that are no place to touch.

    `joins` are those of the points, `line` is the polyline of the segments. Feet at ends of segments are left out unless
    `ends` is True.
    """
    starts, stops = (jnp.asarray(x) for x in segments)
    along = (stops - starts)[None]
    size = jnp.sum(along**2, axis=2)
    from_start = points[:, None] - starts[None]
    place = jnp.sum(from_start * along, axis=2) / jnp.where(size == 0, 1, size)
    apart = jnp.clip(place, 0, 1)[..., None] * along - from_start
    within = (place > 0) & (place < 1)
    if ends:
        # A corner belongs to the segment before it, and is nearest if the point is before the segment after it.
        count = len(starts) // line.points.shape[0]
        column = np.arange(len(starts))[None] % count
        after = np.arange(len(starts)) + np.where(column == count - 1, 1 - count, 1)[0]
        is_last, is_first = (column == (-1 if line.closed else end) for end in (count - 1, 0))
        corner = ((place >= 1) & (is_last | (place[:, after] <= 0))) | ((place <= 0) & is_first)
        for other in joins:
            corner = corner & (jnp.sum(apart * (points[other] - points)[:, None], axis=2) <= 0)
        within = within | corner
    return jnp.where(within, jnp.sum(apart**2, axis=2), jnp.inf)
