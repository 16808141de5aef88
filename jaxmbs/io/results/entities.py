"""The list of shapes that a technical drawing consists of: lines, circles, texts and dimensions, each on a layer.

All places are in millimetres on the sheet, x to the right and y up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.viz.planar.shapes import Style, arc, perpendicular
from jaxmbs.viz.style import INK

# Default height of letters in a technical drawing, in millimetres.
LETTER_HEIGHT = 3.5
# Mean width of a letter, divided by the height of letters.
LETTER_WIDTH = 0.58
# Height of a capital, divided by the height of letters.
CAPITAL_HEIGHT = 0.8
# Room kept clear around a text, in millimetres.
TEXT_MARGIN = 0.8
# Length of an arrow head in millimetres.
ARROW_LENGTH = 2.6
# Half the width of an arrow head, divided by its length.
ARROW_SLOPE = 0.17
# Style of dimension lines and of thin lines of the table.
THIN = Style(closed=False, edge=INK, width=0.5)
# Style of arrow heads.
ARROW_HEAD = Style(face=INK)


class Line(NamedTuple):
    """A line through points (k, 2), or an area if its style is closed."""

    points: np.ndarray
    style: Style
    layer: str


class Circle(NamedTuple):
    """A circle with its centre (2,)."""

    centre: np.ndarray
    radius: float
    style: Style
    layer: str


class TextEntity(NamedTuple):
    """A text, turned by `angle` in radians; `at` is half way up its letters, at its start, middle or end (`anchor`)."""

    text: str
    at: np.ndarray
    angle: float = 0.0
    anchor: str = "middle"
    height: float = LETTER_HEIGHT
    bold: bool = False
    layer: str = "DIMENSIONS"

    @property
    def corners(self) -> np.ndarray:
        """The corners (4, 2) of a text that is anchored in its middle, with some room around it."""
        half = np.array([width_of(self.text) / 2 + TEXT_MARGIN, LETTER_HEIGHT * CAPITAL_HEIGHT / 2 + TEXT_MARGIN / 2])
        x, y = half[:, None] * np.array([direction(self.angle), direction(self.angle + np.pi / 2)])
        return self.at + np.array([-x - y, x - y, x + y, -x + y])


class Dimension(NamedTuple):
    """A length with its dimension line, `offset` to the left of the line between its ends.

    Attributes:
        ends: the two places (2, 2) whose distance it gives.
        outside: the arrows stand outside the dimension line and point inwards.
    """

    ends: np.ndarray
    offset: float
    text: TextEntity
    outside: bool

    @property
    def ends_of_line(self) -> np.ndarray:
        """The two places (2, 2) that the arrows point at."""
        return self.ends + self.offset * normal(self.ends)

    @property
    def lines(self) -> list[np.ndarray]:
        """Two extension lines, and the dimension line as far as it goes under its text."""
        ends = self.ends_of_line
        away = np.sign(self.offset) * normal(self.ends)
        extensions = [np.array([a + 1.8 * away, b + 1.2 * away]) for a, b in zip(self.ends, ends, strict=True)]
        length, along = distance(ends), unit_vector(ends)
        first, last = (-2 * ARROW_LENGTH, length + 2 * ARROW_LENGTH) if self.outside else (0.0, length)
        middle = float(along @ (self.text.at - ends[0]))
        if not 0 <= middle <= length:
            half = width_of(self.text.text) / 2
            first, last = min(first, middle - half), max(last, middle + half)
        return [*extensions, np.array([ends[0] + first * along, ends[0] + last * along])]

    @property
    def entities(self) -> list[Line | TextEntity]:
        """Lines, arrow heads and the text."""
        ends, along = self.ends_of_line, unit_vector(self.ends) * (-1 if self.outside else 1)
        heads = [_arrow_head(ends[0], -along), _arrow_head(ends[1], along)]
        return [*(Line(line, THIN, "DIMENSIONS") for line in self.lines), *heads, self.text]


class AngleDimension(NamedTuple):
    """An angle from the direction of x, in radians, by an arc about a place."""

    centre: np.ndarray
    radius: float
    angle: float
    text: TextEntity

    @property
    def lines(self) -> list[np.ndarray]:
        """The arc (13, 2), and the line (2, 2) that it begins at."""
        base = np.array([self.centre, self.centre + np.array([self.radius + 2, 0.0])])
        return [arc(self.centre, self.radius, 0, self.angle, 13), base]

    @property
    def entities(self) -> list[Line | TextEntity]:
        """Lines, an arrow head if there is room for it, and the text."""
        last = self.lines[0][-2:]
        head = [_arrow_head(last[1], unit_vector(last))] if self.radius * abs(self.angle) > ARROW_LENGTH else []
        return [*(Line(line, THIN, "DIMENSIONS") for line in self.lines), *head, self.text]


# All that a technical drawing is made of.
Entity = Line | Circle | TextEntity | Dimension | AngleDimension


def _arrow_head(tip: np.ndarray, towards: np.ndarray) -> Line:
    """Return an arrow head with its tip at a place and in a direction, both (2,)."""
    side = ARROW_SLOPE * perpendicular(towards)
    return Line(tip - ARROW_LENGTH * np.array([0 * side, towards - side, towards + side]), ARROW_HEAD, "DIMENSIONS")


def direction(angle) -> np.ndarray:
    """Return unit vectors (..., 2) at angles (...,) from the x axis."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def distance(ends: np.ndarray) -> float:
    """Return the distance between two places (2, 2)."""
    return float(np.hypot(*(ends[1] - ends[0])))


def unit_vector(ends: np.ndarray) -> np.ndarray:
    """Return the direction from the first place of a line (2, 2) to the second; 0 if they are one."""
    return (ends[1] - ends[0]) / max(distance(ends), 1e-12)


def normal(ends: np.ndarray) -> np.ndarray:
    """Return the direction of a line (2, 2) turned by +90°."""
    return perpendicular(unit_vector(ends))


def width_of(text: str) -> float:
    """Return the approximate width of a text in letters of the default height, in millimetres."""
    return LETTER_WIDTH * LETTER_HEIGHT * len(text)
