"""Where things go on a sheet of paper: the scale, and places for texts and dimension lines that are free.

All places are in millimetres on the sheet, x to the right and y up.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

# Millimetres in a unit of length.
UNITS = {"mm": 1.0, "cm": 10.0, "m": 1000.0, "in": 25.4, "ft": 304.8}
# Of the sheet, A4; of the part of it that the linkage may fill, left, bottom, right, top; what dimensions need around it.
WIDTH, HEIGHT = 297.0, 210.0
FIELD = (12.0, 12.0, 211.0, 198.0)
AROUND = 20.0
# Scales that drawings have, with their tens; whatever is among them its inverse is too.
SCALES = np.array([1.0, 2.0, 2.5, 4.0, 5.0])
# The size of letters, the mean width of one, and the height of a line, as parts of the size.
SIZE, WIDE, HIGH = 3.5, 0.58, 0.8
CLEAR = 0.8
# The room that dimension lines leave to other lines.
BESIDE = 2.0
# What it costs to cross a bar, a dimension line, a text, and to leave the field.
BAR_COST, DIMENSION_COST, TEXT_COST, FIELD_COST = 8.0, 5.0, 40.0, 1000.0
# What it costs to have the text of a dimension beyond its ends.
BEYOND = 4.0
ARROW = 2.6
DISTANCES = (8.0, 10.5, 13.0, 15.5, 18.0, 21.0, 24.0, 28.0, 32.0, 38.0, 45.0)
LABEL_DISTANCES = (4.0, 5.5, 8.0, 11.0, 15.0, 20.0, 26.0)
RADII = (10.0, 14.0, 18.0, 24.0, 30.0)


class Dimension(NamedTuple):
    """A length with its dimension line, `offset` to the left of the line between its ends, seen along it.

    Attributes:
        text_at, angle: the middle of the text, and its direction. outside: whether the arrows point inwards.
    """

    ends: np.ndarray
    offset: float
    text: str
    text_at: np.ndarray
    angle: float
    outside: bool

    @property
    def line(self) -> np.ndarray:
        """The ends of the dimension line."""
        return self.ends + self.offset * normal(self.ends)


class Label(NamedTuple):
    """A text with its middle, and the line that leads to what it means, or None."""

    text: str
    at: np.ndarray
    leader: np.ndarray | None


class AngleMark(NamedTuple):
    """An angle from the direction of x, by an arc about a place."""

    centre: np.ndarray
    radius: float
    angle: float
    label: Label


class Paper:
    """A sheet with what is on it already."""

    def __init__(self, extent: np.ndarray, millimetres: float):
        left, bottom, right, top = FIELD
        low, high = extent.min(axis=0), extent.max(axis=0)
        room = np.array([right - left, top - bottom]) - 2 * AROUND
        most = float((room / np.maximum(high - low, 1e-300)).min()) / millimetres
        steps = np.outer(10.0 ** np.arange(-1, 1) * 10.0 ** np.floor(np.log10(most)), SCALES).ravel()
        self.ratio = float(steps[steps <= most * (1 + 1e-9)].max())
        self.factor = self.ratio * millimetres
        self._shift = np.array([left + right, bottom + top]) / 2 - self.factor * (low + high) / 2
        self._segments = np.zeros((0, 2, 2))
        self._costs = np.zeros(0)

    @property
    def scale(self) -> str:
        """As drawings have it, such as "2 : 1"."""
        return f"{self.ratio:g} : 1" if self.ratio >= 1 else f"1 : {1 / self.ratio:g}"

    def at(self, places) -> np.ndarray:
        """Where places of the linkage are on the sheet."""
        return self.factor * np.asarray(places, float) + self._shift

    def add_line(self, points: np.ndarray, cost: float = BAR_COST) -> None:
        """A line through points (N, 2), and what it costs another one to cross it."""
        segments = np.stack([points[:-1], points[1:]], axis=1)
        self._segments = np.concatenate([self._segments, segments])
        self._costs = np.append(self._costs, np.full(len(segments), cost))

    def add_text(self, corners: np.ndarray) -> None:
        self.add_line(corners[[0, 1, 2, 3, 0, 2]], TEXT_COST)
        self.add_line(corners[[1, 3]], TEXT_COST)

    def cost_of_text(self, corners: np.ndarray) -> float:
        """What it costs to have a text there: it crosses nothing."""
        return TEXT_COST * float(crossed(corners, self._segments).sum()) + cost_outside(corners)

    def cost_of_line(self, points: np.ndarray) -> float:
        """What it costs to have a straight line from the one point to the other."""
        return float(self._costs[crossed(strip(points, 0.3), self._segments)].sum())

    def cost_of_neighbours(self, points: np.ndarray) -> float:
        """What it costs to have a dimension line close to others, or to texts."""
        close = crossed(strip(points, BESIDE), self._segments) & np.isin(self._costs, (DIMENSION_COST, TEXT_COST))
        return float(self._costs[close].sum())

    def label(self, text: str, place: np.ndarray) -> Label:
        """A text beside a place."""
        found = self._best_label(text, place)[1]
        self._add_label(found)
        return found

    def _best_label(self, text: str, place: np.ndarray) -> tuple[float, Label]:
        best = (np.inf, Label(text, place, None))
        for distance in LABEL_DISTANCES:
            if best[0] <= distance / 10:  # farther away costs more in any case
                break
            for angle in np.arange(16) * np.pi / 8 + np.pi / 4:
                away = np.array([np.cos(angle), np.sin(angle)])
                at = place + away * (distance - 2 + reach(text, away))
                leader = np.array([place + 1.8 * away, place + (distance - 2.5) * away]) if distance > 6 else None
                cost = self.cost_of_text(corners_of(text, at)) + distance / 10
                cost += 0 if leader is None else 2 + self.cost_of_line(leader)
                if cost < best[0]:
                    best = (cost, Label(text, at, leader))
        return best

    def _add_label(self, label: Label) -> None:
        self.add_text(corners_of(label.text, label.at))
        if label.leader is not None:
            self.add_line(label.leader, DIMENSION_COST)

    def dimension(self, ends: np.ndarray, text: str) -> Dimension:
        """A length with its dimension line, where it crosses least."""
        found = min(_dimensions(ends, text), key=self._cost_of_dimension)
        self.add_text(corners_of(text, found.text_at, found.angle))
        for line in lines_of(found):
            self.add_line(line, DIMENSION_COST)
        return found

    def _cost_of_dimension(self, dimension: Dimension) -> float:
        *extensions, line = lines_of(dimension)
        cost = abs(dimension.offset) / 4
        cost += self.cost_of_text(corners_of(dimension.text, dimension.text_at, dimension.angle))
        cost += self.cost_of_neighbours(line) + sum(self.cost_of_line(x) for x in (line, *extensions))
        cost += BEYOND * bool(
            np.hypot(*(line[1] - line[0])) > np.hypot(*(dimension.ends[1] - dimension.ends[0])) + 1e-6
        )
        return cost + cost_outside(dimension.line)

    def angle(self, centre: np.ndarray, angle: float, text: str) -> AngleMark:
        """An arc from the direction of x by an angle, with its text."""
        found, before = [], (self._segments, self._costs)
        for radius in RADII:
            lines = arc_of(centre, radius, angle), base_of(centre, radius)
            cost = radius / 10 + sum(self.cost_of_line(np.array(pair)) for line in lines for pair in pairwise(line))
            # The text keeps off its own arc.
            for line in lines:
                self.add_line(line)
            more, label = self._best_label(text, lines[0][len(lines[0]) // 2])
            found.append((cost + more, AngleMark(centre, radius, angle, label)))
            self._segments, self._costs = before
        best = min(found, key=lambda pair: pair[0])[1]
        self._add_label(best.label)
        self.add_line(arc_of(centre, best.radius, angle), DIMENSION_COST)
        self.add_line(base_of(centre, best.radius), DIMENSION_COST)
        return best

    def direction_of(self, place: np.ndarray, box: np.ndarray) -> np.ndarray:
        """Down, left, right or up: where a symbol of this width and height beside a place crosses least."""
        best = (np.inf, np.array([0.0, -1.0]))
        for k, away in enumerate(np.array([[0.0, -1.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])):
            side = np.array([-away[1], away[0]]) * box[0] / 2
            corners = place + np.array(
                [0.4 * away - side, 0.4 * away + side, box[1] * away + side, box[1] * away - side]
            )
            cost = float(crossed(corners, self._segments).sum()) + k / 8
            if cost < best[0]:
                best = (cost, away)
        return best[1]


def cost_outside(points: np.ndarray) -> float:
    """What it costs to leave the field."""
    return FIELD_COST * bool(np.any(points < np.array(FIELD[:2]) - 1) or np.any(points > np.array(FIELD[2:]) + 1))


def _dimensions(ends: np.ndarray, text: str) -> list[Dimension]:
    """Places of a dimension: on both sides, near and far, the text on the line or, of short ones, beyond an end."""
    span = ends[1] - ends[0]
    length = float(np.hypot(*span))
    along, left = span / max(length, 1e-12), normal(ends)
    angle = float(np.arctan2(span[1], span[0]))
    # Texts are read from below or from the right.
    upright = angle + np.pi if np.cos(angle) < -1e-9 or (abs(np.cos(angle)) <= 1e-9 and np.sin(angle) < 0) else angle
    up = np.array([-np.sin(upright), np.cos(upright)])
    wide = width_of(text)
    fits, outside = length > wide + 2 * ARROW + 1, length < 3 * ARROW
    out = []
    for side in (1.0, -1.0):
        for distance in DISTANCES:
            line = ends + side * distance * left
            beyond = wide / 2 + (2 * ARROW if outside else 0) + 1.5
            spots = [line[1] + beyond * along, line[0] - beyond * along]
            if fits:
                shift = (length - wide) / 2 - ARROW - 0.5
                spots = [line.mean(axis=0) + k * shift * along for k in (0, 0.5, -0.5, 1, -1)] + spots
            out += [
                Dimension(ends, side * distance, text, spot + up * (SIZE * HIGH / 2 + 0.8), upright, outside)
                for spot in spots
            ]
    return out


def lines_of(dimension: Dimension) -> list[np.ndarray]:
    """The lines that it consists of: extension lines, the dimension line as far as it goes under the text."""
    ends, line = dimension.ends, dimension.line
    away = np.sign(dimension.offset) * normal(ends)
    extensions = [np.array([end + 1.8 * away, stop + 1.2 * away]) for end, stop in zip(ends, line, strict=True)]
    length = float(np.hypot(*(line[1] - line[0])))
    along = (line[1] - line[0]) / max(length, 1e-12)
    begin, stop = (-2 * ARROW, length + 2 * ARROW) if dimension.outside else (0.0, length)
    place = float(along @ (dimension.text_at - line[0]))
    if not 0 <= place <= length:
        half = width_of(dimension.text) / 2
        begin, stop = min(begin, place - half), max(stop, place + half)
    return [*extensions, np.array([line[0] + begin * along, line[0] + stop * along])]


def normal(ends: np.ndarray) -> np.ndarray:
    """To the left of a line, of length 1."""
    span = ends[1] - ends[0]
    return np.array([-span[1], span[0]]) / max(float(np.hypot(*span)), 1e-12)


def arc_of(centre: np.ndarray, radius: float, angle: float) -> np.ndarray:
    """Points of an arc from the direction of x."""
    at = np.linspace(0, angle, 13)
    return centre + radius * np.column_stack([np.cos(at), np.sin(at)])


def base_of(centre: np.ndarray, radius: float) -> np.ndarray:
    """The line from which an arc begins."""
    return np.array([centre, centre + np.array([radius + 2, 0.0])])


def width_of(text: str) -> float:
    return WIDE * SIZE * len(text)


def reach(text: str, direction: np.ndarray) -> float:
    """How far a text reaches from its middle in a direction."""
    return float(np.abs(direction) @ [width_of(text) / 2, SIZE * HIGH / 2])


def corners_of(text: str, at: np.ndarray, angle: float = 0.0) -> np.ndarray:
    """The corners of a text (4, 2), with some room around it."""
    half = np.array([width_of(text) / 2 + CLEAR, SIZE * HIGH / 2 + CLEAR / 2])
    x, y = np.array([np.cos(angle), np.sin(angle)]) * half[0], np.array([-np.sin(angle), np.cos(angle)]) * half[1]
    return at + np.array([-x - y, x - y, x + y, -x + y])


def strip(points: np.ndarray, half: float) -> np.ndarray:
    """A line as a thin rectangle."""
    side = half * normal(np.asarray(points))
    return np.array([points[0] - side, points[1] - side, points[1] + side, points[0] + side])


def crossed(corners: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Which segments (N, 2, 2) a rectangle meets: those that none of three directions tells apart from it."""
    apart = np.zeros(len(segments), bool)
    for axis in (corners[1] - corners[0], corners[3] - corners[0]):
        own, others = corners @ axis, segments @ axis
        apart |= (others.max(axis=1) < own.min()) | (others.min(axis=1) > own.max())
    span = segments[:, 1] - segments[:, 0]
    away = corners[None] - segments[:, :1]
    side = span[:, :1] * away[:, :, 1] - span[:, 1:] * away[:, :, 0]
    return ~(apart | (side.min(axis=1) > 0) | (side.max(axis=1) < 0))
