"""A sheet of paper: the scale of the drawing, and free places for texts and dimension lines.

All places are in millimetres on the sheet, x to the right and y up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.io.results.entities import (
    ARROW_LENGTH,
    CAPITAL_HEIGHT,
    LETTER_HEIGHT,
    AngleDimension,
    Dimension,
    TextEntity,
    direction,
    distance,
    normal,
    unit_vector,
    width_of,
)

# Width of the sheet, A4, in millimetres.
WIDTH = 297.0
# Height of the sheet, A4, in millimetres.
HEIGHT = 210.0
# The part of the sheet for the linkage with its dimensions: left, bottom, right, top, in millimetres.
FIELD = (12.0, 12.0, 211.0, 198.0)
# Room in the field that is left for dimensions on each side, in millimetres.
DIMENSION_ROOM = 20.0
# Possible scales of a drawing between 1 and 10; powers of ten times these, and their inverses, are scales too.
SCALES = np.array([1.0, 2.0, 2.5, 4.0, 5.0])
# Room that a dimension line leaves to other lines, in millimetres.
LINE_MARGIN = 2.0
# Cost of placing a line of a dimension or name across a bar. A cost of 1 is as bad as 10 mm between a name and its
# point.
CROSSED_BAR_COST = 8.0
# Cost of placing a line of a dimension or name across the outline of a symbol.
CROSSED_SYMBOL_COST = 1.0
# Cost of placing a line of a dimension or name across the path of the traced point.
CROSSED_CURVE_COST = 2.0
# Cost of placing a line of a dimension or name across the line of another dimension.
CROSSED_DIMENSION_COST = 5.0
# Cost of placing a text across any line, or a line across a text.
CROSSED_TEXT_COST = 40.0
# Cost of placing a text or a dimension line outside the field of the drawing.
OUTSIDE_FIELD_COST = 1000.0
# Cost of a dimension whose text lies beyond its ends instead of between them.
TEXT_BEYOND_COST = 4.0
# Distances from the measured line at which a dimension line is tried, in millimetres.
DIMENSION_DISTANCES = (8.0, 10.5, 13.0, 15.5, 18.0, 21.0, 24.0, 28.0, 32.0, 38.0, 45.0)
# Distances from its point at which a name is tried, in millimetres.
NAME_DISTANCES = (4.0, 5.5, 8.0, 11.0, 15.0, 20.0, 26.0)
# Names further away than this from their point, in millimetres, have a line that leads to it.
MAX_DISTANCE_WITHOUT_LEADER = 6.0
# Radius of the arc that shows the dimension of an angle, in millimetres.
ANGLE_RADIUS = 18.0


class Label(NamedTuple):
    """A name beside a point, and the line (2, 2) that leads to the point, or None."""

    text: TextEntity
    leader: np.ndarray | None


class Sheet:
    """A sheet, with the lines and texts that new ones should not cross.

    Attributes:
        ratio: the scale, length on the sheet divided by true length.
        factor: millimetres on the sheet for a unit of length of the linkage.
        origin: where the origin of the linkage is on the sheet.
    """

    def __init__(self, extent: np.ndarray, millimetres: float):
        """Choose the largest scale at which places (N, 2) fit; their unit of length has this many millimetres."""
        low, high = extent.min(axis=0), extent.max(axis=0)
        corners = np.reshape(FIELD, (2, 2))
        room = corners[1] - corners[0] - 2 * DIMENSION_ROOM
        largest = float((room / np.maximum(high - low, 1e-300)).min()) / millimetres
        scales = np.outer(10.0 ** np.arange(-1, 1) * 10.0 ** np.floor(np.log10(largest)), SCALES).ravel()
        self.ratio = float(scales[scales <= largest * (1 + 1e-9)].max())
        self.factor = self.ratio * millimetres
        self.origin = corners.mean(axis=0) - self.factor * (low + high) / 2
        self._segments = np.zeros((0, 2, 2))
        self._costs = np.zeros(0)

    @property
    def scale(self) -> str:
        """The scale as drawings give it, such as "2 : 1"."""
        return f"{self.ratio:g} : 1" if self.ratio >= 1 else f"1 : {1 / self.ratio:g}"

    def at(self, places) -> np.ndarray:
        """Return the places on the sheet, in millimetres, of places of the linkage (..., 2)."""
        return self.factor * np.asarray(places, float) + self.origin

    def in_true_size(self, places) -> np.ndarray:
        """Return the places of the linkage, in its unit of length, of places on the sheet (..., 2)."""
        return (np.asarray(places, float) - self.origin) / self.factor

    def keep_clear(self, points: np.ndarray, cost: float) -> None:
        """Give each line that crosses the line through points (N, 2) this cost."""
        segments = np.stack([points[:-1], points[1:]], axis=1)
        self._segments = np.concatenate([self._segments, segments])
        self._costs = np.append(self._costs, np.full(len(segments), cost))

    def _keep_text_clear(self, text: TextEntity) -> None:
        """Make lines that cross a text costly, whichever way they cross it."""
        self.keep_clear(text.corners[[0, 1, 2, 3, 0, 2]], CROSSED_TEXT_COST)
        self.keep_clear(text.corners[[1, 3]], CROSSED_TEXT_COST)

    def _cost_of_text(self, text: TextEntity) -> float:
        """Return the cost of a text where it is, by the lines that it crosses."""
        return CROSSED_TEXT_COST * float(crosses(text.corners, self._segments).sum()) + _cost_outside(text.corners)

    def _cost_of_line(self, ends: np.ndarray) -> float:
        """Return the cost of a straight line (2, 2), by the lines and texts that it crosses."""
        return float(self._costs[crosses(_strip(ends, 0.3), self._segments)].sum())

    def _cost_of_neighbours(self, ends: np.ndarray) -> float:
        """Return the cost of a dimension line (2, 2) that lies closer than `LINE_MARGIN` to other lines or texts."""
        close = crosses(_strip(ends, LINE_MARGIN), self._segments)
        return float(self._costs[close & np.isin(self._costs, (CROSSED_DIMENSION_COST, CROSSED_TEXT_COST))].sum())

    def label(self, name: str, point: np.ndarray, *, bold: bool = True) -> Label:
        """Place a name beside a point (2,) where it costs least, and keep the place clear."""
        cheapest = (np.inf, Label(TextEntity(name, point), None))
        for away in NAME_DISTANCES:
            if cheapest[0] <= away / 10:  # places further away cost more
                break
            for towards in direction(np.arange(16) * np.pi / 8 + np.pi / 4):
                reach = np.abs(towards) @ [width_of(name) / 2, LETTER_HEIGHT * CAPITAL_HEIGHT / 2]
                text = TextEntity(name, point + towards * (away - 2 + reach), bold=bold)
                leader, cost = None, self._cost_of_text(text) + away / 10
                if away > MAX_DISTANCE_WITHOUT_LEADER:
                    leader = point + np.outer([1.8, away - 2.5], towards)
                    cost += 2 + self._cost_of_line(leader)
                if cost < cheapest[0]:
                    cheapest = (cost, Label(text, leader))
        label = cheapest[1]
        self._keep_text_clear(label.text)
        if label.leader is not None:
            self.keep_clear(label.leader, CROSSED_DIMENSION_COST)
        return label

    def dimension(self, ends: np.ndarray, text: str) -> Dimension:
        """Place the dimension of the length between two places (2, 2) where it crosses least, and keep it clear."""
        dimension = min(_possible_dimensions(ends, text), key=self._cost_of_dimension)
        self._keep_text_clear(dimension.text)
        for line in dimension.lines:
            self.keep_clear(line, CROSSED_DIMENSION_COST)
        return dimension

    def _cost_of_dimension(self, dimension: Dimension) -> float:
        """Return the cost of a dimension where it is now: of its lines, its text and all that is outside the field."""
        *extensions, line = dimension.lines
        cost = abs(dimension.offset) / 4 + self._cost_of_text(dimension.text) + self._cost_of_neighbours(line)
        cost += sum(self._cost_of_line(x) for x in (line, *extensions))
        cost += TEXT_BEYOND_COST * (distance(line) > distance(dimension.ends) + 1e-6)
        return cost + _cost_outside(dimension.ends_of_line)

    def angle(self, centre: np.ndarray, angle: float, text: str) -> AngleDimension:
        """Place the dimension of an angle from the direction of x, in radians, and keep it clear."""
        dimension = AngleDimension(centre, ANGLE_RADIUS, angle, TextEntity(text, centre))
        for line in dimension.lines:
            self.keep_clear(line, CROSSED_DIMENSION_COST)
        middle = centre + ANGLE_RADIUS * direction(angle / 2)
        return dimension._replace(text=self.label(text, middle, bold=False).text)


def _cost_outside(points: np.ndarray) -> float:
    """Return the cost of points (N, 2) that lie outside the field."""
    low, high = np.reshape(FIELD, (2, 2))
    return OUTSIDE_FIELD_COST * bool(np.any(points < low - 1) or np.any(points > high + 1))


def _possible_dimensions(ends: np.ndarray, text: str) -> list[Dimension]:
    """Return the dimensions of a length on both sides and at all distances, with the text on the line or beyond an end."""
    length, along, width = distance(ends), unit_vector(ends), width_of(text)
    angle = float(np.arctan2(along[1], along[0]))
    # Texts are read from below or from the right.
    upright = angle + np.pi if along[0] < -1e-9 or (abs(along[0]) <= 1e-9 and along[1] < 0) else angle
    up = direction(upright + np.pi / 2) * (LETTER_HEIGHT * CAPITAL_HEIGHT / 2 + 0.8)
    outside = length < 3 * ARROW_LENGTH
    beyond = width / 2 + (2 * ARROW_LENGTH if outside else 0) + 1.5
    places = np.array([length + beyond, -beyond])
    if length > width + 2 * ARROW_LENGTH + 1:
        shift = (length - width) / 2 - ARROW_LENGTH - 0.5
        places = np.append(length / 2 + shift * np.array([0, 0.5, -0.5, 1, -1]), places)
    return [
        Dimension(
            ends, offset, TextEntity(text, ends[0] + offset * normal(ends) + place * along + up, upright), outside
        )
        for offset in (*DIMENSION_DISTANCES, *(-x for x in DIMENSION_DISTANCES))
        for place in places
    ]


def _strip(ends: np.ndarray, half: float) -> np.ndarray:
    """Return the corners (4, 2) of the rectangle that reaches `half` to both sides of a line (2, 2)."""
    side = half * normal(ends)
    return np.array([ends[0] - side, ends[1] - side, ends[1] + side, ends[0] + side])


def crosses(corners: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Return True for each of the segments (N, 2, 2) that meets the rectangle with these corners (4, 2).

    They are apart if one of three directions separates them: the sides of the rectangle, and the normal of the segment.
    """
    apart = np.zeros(len(segments), bool)
    for axis in (corners[1] - corners[0], corners[3] - corners[0]):
        own, others = corners @ axis, segments @ axis
        apart |= (others.max(axis=1) < own.min()) | (others.min(axis=1) > own.max())
    span = segments[:, 1] - segments[:, 0]
    away = corners[None] - segments[:, :1]
    side = span[:, :1] * away[:, :, 1] - span[:, 1:] * away[:, :, 0]
    return ~(apart | (side.min(axis=1) > 0) | (side.max(axis=1) < 0))
