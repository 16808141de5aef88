"""A technical drawing: the linkage on a sheet with its dimensions, and a table of all that it takes to build it."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.results.case import MILLIMETRES, Case
from jaxmbs.io.results.entities import LETTER_WIDTH, THIN, Circle, Entity, Line, TextEntity, distance
from jaxmbs.io.results.layout import (
    CROSSED_BAR_COST,
    CROSSED_CURVE_COST,
    CROSSED_SYMBOL_COST,
    FIELD,
    HEIGHT,
    WIDTH,
    Sheet,
)
from jaxmbs.io.results.skeleton import Skeleton, skeleton_of
from jaxmbs.viz.planar.scene import Scene
from jaxmbs.viz.planar.shapes import Style
from jaxmbs.viz.style import ACCENT, INK, PAPER

# Size of the symbols in technical drawings, relative to that in pictures.
SYMBOL_SIZE = 0.6
# A ground line whose angle from the horizontal is smaller, in radians, gets no dimension of it.
MIN_ANGLE = 1e-6
# An offset of a slide that is smaller, divided by the size of the skeleton, gets no dimension.
MIN_OFFSET = 1e-9
# Radius of the circles that mark targets, in millimetres on the sheet.
TARGET_RADIUS = 1.0
# Radius of the pins and of the traced point, in units of the symbols.
PIN_RADIUS = 0.7
# Length of the centre line of a slide beyond the pins on it, in millimetres.
CENTRE_LINE_EXCESS = 12.0
# More targets than these are drawn as one broad line instead of circles.
MAX_TARGET_CIRCLES = 60
# Left edge of the table beside the drawing, in millimetres from the left of the sheet.
TABLE_LEFT = FIELD[2] + 6
# Right edge of the table beside the drawing, in millimetres from the left of the sheet.
TABLE_RIGHT = WIDTH - 10.0
# Distance of the rows of the table, in millimetres.
ROW_HEIGHT = 5.0
# Right ends of the columns of the table after the first, divided by the width of the table.
COLUMN_ENDS = (0.4, 0.69, 1.0)
# Height of letters in the title, in millimetres.
TITLE_HEIGHT = 5.0
# Height of letters in notes, in millimetres.
NOTE_HEIGHT = 2.8

# Style of the lines between the pins of a body.
BAR = Style(closed=False, edge=INK, width=1.0)
# Style of the centre lines of slides.
CENTRE_LINE = Style(closed=False, edge=INK, width=0.7, dashes=(24, 5, 4, 5))
# Style of the circles at pins.
PIN = Style(face=PAPER, edge=INK, width=1.3)
# Style of the path of the traced point.
CURVE = Style(closed=False, edge=ACCENT)
# Style of the circles at targets.
TARGET = Style(edge=ACCENT, width=0.9)
# Style of the broad line through many targets.
TARGET_BAND = Style(closed=False, edge="#f0c9cf", width=4.5)
# Style of the traced point.
TRACED_POINT = Style(face=ACCENT)
# Style of the frame of the sheet.
FRAME = Style(edge=INK, width=1.4)


class TechnicalDrawing(NamedTuple):
    """A sheet, and all that is drawn on it, what lies below first.

    Attributes:
        unit: name of the unit of length.
        title: the heading, or "".
    """

    sheet: Sheet
    entities: list[Entity]
    unit: str
    title: str


def drawing_of(case: Case, title: str, unit: str) -> TechnicalDrawing:
    """Return the drawing of a planar solution, with lengths in `unit`, at the first time that its mechanism reaches."""
    skeleton = skeleton_of(case)
    mech, good = case.mechanism, case.good
    marked = [] if case.point is None else [(case.point[0], case.point[1].tolist())]
    t = float(np.asarray(case.motion.t)[good][0])
    scene = Scene(mech, np.asarray(case.motion.q)[good], t, marked=marked, size=SYMBOL_SIZE)
    first = {body: (origin[:1], angle[:1]) for body, (origin, angle) in scene.poses.items()}
    shapes = [(shape.world(first)[0], shape.style) for shape in scene.shapes]
    sheet = Sheet(np.concatenate([skeleton.extent, *(points for points, _ in shapes)]), MILLIMETRES[unit])
    entities: list[Entity] = []
    for points, style in shapes:
        outline = sheet.at(points)
        sheet.keep_clear(np.concatenate([outline, outline[:1]]) if style.closed else outline, CROSSED_SYMBOL_COST)
        entities.append(Line(outline, style, "SYMBOLS"))
    entities += _skeleton_lines(skeleton, sheet, PIN_RADIUS * scene.unit * sheet.factor)
    entities += _dimensions(skeleton, sheet)
    entities += [*_table(skeleton, title, unit), *_legend(skeleton, sheet)]
    return TechnicalDrawing(sheet, entities, unit, title)


def _skeleton_lines(skeleton: Skeleton, sheet: Sheet, radius: float) -> list[Entity]:
    """Return bars, centre lines, curve, targets, pins and traced point; `radius` in mm is that of the last two."""
    lines = [Line(sheet.at(bar.ends), CENTRE_LINE if bar.body == GROUND else BAR, "LINKS") for bar in skeleton.bars]
    lines += [Line(sheet.at(arm), BAR, "LINKS") for arm in skeleton.arms]
    for slide in skeleton.slides:
        along = [0.0, *((pin.place - slide.place) @ slide.direction for pin in skeleton.pins_of(slide.bodies[1]))]
        ends = np.array([min(along), max(along)]) + CENTRE_LINE_EXCESS / sheet.factor * np.array([-1, 1])
        lines.append(Line(sheet.at(slide.place + np.outer(ends, slide.direction)), CENTRE_LINE, "JOINTS"))
    for line in lines:
        sheet.keep_clear(line.points, CROSSED_BAR_COST)
    entities: list[Entity] = [*lines]
    for part in skeleton.curve_parts:
        entities.append(Line(sheet.at(part), CURVE, "PATH"))
        sheet.keep_clear(sheet.at(part)[:: max(len(part) // 120, 1)], CROSSED_CURVE_COST)
    targets = sheet.at(skeleton.targets)
    for target in targets:
        sheet.keep_clear(target + TARGET_RADIUS * np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]]), CROSSED_SYMBOL_COST)
    if len(targets) > MAX_TARGET_CIRCLES:
        entities.insert(0, Line(targets, TARGET_BAND, "PATH"))
    else:
        entities += [Circle(target, TARGET_RADIUS, TARGET, "PATH") for target in targets]
    entities += [Circle(sheet.at(pin.place), radius, PIN, "JOINTS") for pin in skeleton.pins]
    if skeleton.point is not None:
        entities.append(Circle(sheet.at(skeleton.point), radius, TRACED_POINT, "PATH"))
    return entities


def _dimensions(skeleton: Skeleton, sheet: Sheet) -> list[Entity]:
    """Return the angle of the ground line, all lengths from short to long, and the names of pins and traced point."""
    entities: list[Entity] = []
    ground = next((bar for bar in skeleton.bars if bar.body == GROUND), None)
    if ground is not None and abs(ground.angle) > MIN_ANGLE:
        entities.append(sheet.angle(sheet.at(ground.ends[0]), ground.angle, f"{number(np.rad2deg(ground.angle))}°"))
    smallest = MIN_OFFSET * float(np.ptp(skeleton.extent))
    offsets = [offset.ends for offset in skeleton.offsets if distance(offset.ends) > smallest]
    lengths = sorted([bar.ends for bar in skeleton.bars] + offsets, key=distance)
    entities += [sheet.dimension(sheet.at(ends), number(distance(ends))) for ends in lengths]
    # Names come last: they find a free place more easily than dimension lines.
    names = [(pin.name, pin.place) for pin in skeleton.pins]
    names += [] if skeleton.point is None else [(skeleton.point_name, skeleton.point)]
    for name, place in names:
        label = sheet.label(name, sheet.at(place))
        entities += [label.text, *([] if label.leader is None else [Line(label.leader, THIN, "DIMENSIONS")])]
    return entities


def _table(skeleton: Skeleton, title: str, unit: str) -> list[Entity]:
    """Return the frame of the sheet, the title, and the table."""
    frame = np.array([[6, 6], [WIDTH - 6, 6], [WIDTH - 6, HEIGHT - 6], [6, HEIGHT - 6]])
    edge = FIELD[2] + 2
    entities: list[Entity] = [Line(frame, FRAME, "SHEET"), _rule((edge, 6), (edge, HEIGHT - 6))]
    y = FIELD[3] - 4
    letters = int((TABLE_RIGHT - TABLE_LEFT) / (LETTER_WIDTH * TITLE_HEIGHT))
    for line in textwrap.wrap(title, letters, break_long_words=False, break_on_hyphens=False):
        entities.append(_left(line, y)._replace(height=TITLE_HEIGHT, bold=True))
        y -= 6.5
    entities.append(_left(f"lengths in {unit}, angles from x", y := y - ROW_HEIGHT))
    for head, rows in _blocks(skeleton):
        y -= 0.6 * ROW_HEIGHT
        for row in (head, *rows):
            y -= ROW_HEIGHT
            places = TABLE_LEFT + (TABLE_RIGHT - TABLE_LEFT) * np.array(COLUMN_ENDS)
            texts = [_left(row[0], y), *(_right(cell, x, y) for cell, x in zip(row[1:], places, strict=False) if cell)]
            entities += [text._replace(bold=row is head) for text in texts]
            if row is head:
                entities.append(_rule((TABLE_LEFT, y - 2.6), (TABLE_RIGHT, y - 2.6)))
    if skeleton.point_axes:
        first, second = skeleton.point_axes
        entities.append(_left(f"in axes from {first}, x towards {second}", y - ROW_HEIGHT)._replace(height=NOTE_HEIGHT))
    return entities


def _blocks(skeleton: Skeleton) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the parts of the table as (texts of the head, rows), without parts that have no rows."""
    digits = "{:.6g}".format
    degrees = lambda angle: f"{digits(np.rad2deg(angle))}°"
    bars = [(bar.body, "–".join(bar.pins), digits(bar.length), degrees(bar.angle)) for bar in skeleton.bars]
    offsets = [
        (slide.name, pin, digits(distance(ends)), degrees(np.arctan2(*slide.direction[::-1])))
        for slide, pin, ends in skeleton.offsets
    ]
    gears = [(gear.name, gear.body, digits(gear.radius), "") for gear in skeleton.gears]
    pins = [(pin.name, "", *map(digits, pin.place)) for pin in skeleton.pins_of(GROUND)]
    point = [] if skeleton.point is None else [(skeleton.point_name, "", *map(digits, skeleton.coordinates))]
    blocks = [
        (("body", "pins", "length", "angle"), bars),
        (("slide", "from pin", "offset", "angle"), offsets),
        (("gear", "on", "radius", ""), gears),
        (("fixed pin", "", "x", "y"), pins),
        ((f"point of {skeleton.point_body}", "", "x", "y"), point),
    ]
    return [(head, rows) for head, rows in blocks if rows]


def _legend(skeleton: Skeleton, sheet: Sheet) -> list[Entity]:
    """Return scale, error, and the meaning of lines, below the table."""
    y = 38.0
    entities: list[Entity] = [_rule((FIELD[2] + 2, y + 6), (WIDTH - 6, y + 6))]
    notes = [("scale", sheet.scale), ("error", "" if skeleton.error is None else number(skeleton.error))]
    for name, value in notes:
        if value:
            entities += [_left(name, y), _right(value, TABLE_RIGHT, y)]
            y -= 1.2 * ROW_HEIGHT
    line = lambda style: Line(np.array([[TABLE_LEFT, y], [TABLE_LEFT + 8, y]]), style, "SHEET")
    if len(skeleton.curve):
        entities += [line(CURVE), _left("path of the point", y, 11)]
        y -= 1.2 * ROW_HEIGHT
    if len(skeleton.targets) > MAX_TARGET_CIRCLES:
        entities += [line(TARGET_BAND), _left("targets", y, 11)]
    elif len(skeleton.targets):
        entities += [Circle(np.array([TABLE_LEFT + 4, y]), TARGET_RADIUS, TARGET, "SHEET"), _left("targets", y, 11)]
    return entities


def _left(text: str, y: float, indent: float = 0.0) -> TextEntity:
    """Return a text from the left edge of the table."""
    return TextEntity(text, np.array([TABLE_LEFT + indent, y]), anchor="start", layer="SHEET")


def _right(text: str, x: float, y: float) -> TextEntity:
    """Return a text of the table that ends at x."""
    return TextEntity(text, np.array([x, y]), anchor="end", layer="SHEET")


def _rule(start: tuple[float, float], end: tuple[float, float]) -> Line:
    """Return a thin line of the table."""
    return Line(np.array([start, end]), THIN, "SHEET")


def number(value: float) -> str:
    """Return a length or an angle as a text, with five significant digits."""
    return f"{value:.5g}"
