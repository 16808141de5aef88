"""A drawing to scale on a sheet A4, as SVG."""

from __future__ import annotations

import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.results.linkage import Linkage
from jaxmbs.io.results.paper import ARROW, FIELD, HEIGHT, SIZE, WIDE, WIDTH, Dimension, arc_of, base_of, lines_of
from jaxmbs.io.results.plan import CROSS, Plan, bars_of, blocks_of, number, plan_of, point_name, way_of

INK, LINE, CURVE, PLATE = "#1d2129", "#5b6472", "#b8243a", "#e9edf3"
LEFT, RIGHT = FIELD[2] + 6, WIDTH - 10.0
# Millimetres from one line of a table to the next.
ROW = 5.0
# More targets than these are drawn as a broad line, not as circles.
MAX_MARKS = 60
STYLE = f"""
text {{ font-family: Helvetica, Arial, 'Liberation Sans', sans-serif; font-size: {SIZE}px; fill: {INK}; }}
.middle {{ text-anchor: middle; }} .right {{ text-anchor: end; }} .head {{ font-weight: bold; }}
.small {{ font-size: 2.8px; fill: {LINE}; }} .title {{ font-size: 5px; font-weight: bold; }}
line, polyline, path, rect, circle {{ fill: none; stroke: {LINE}; stroke-width: 0.18; }}
.bar {{ stroke: {INK}; stroke-width: 0.7; stroke-linecap: round; }} .plate {{ fill: {PLATE}; stroke: none; }}
.ground {{ stroke: {INK}; stroke-width: 0.25; stroke-dasharray: 6 1.2 1 1.2; }}
.pin {{ fill: white; stroke: {INK}; stroke-width: 0.5; }} .symbol {{ stroke: {INK}; stroke-width: 0.35; fill: white; }}
.curve {{ stroke: {CURVE}; stroke-width: 0.35; stroke-linejoin: round; }} .target {{ stroke: {CURVE}; stroke-width: 0.3; }}
.wanted {{ stroke: {CURVE}; stroke-width: 1.6; stroke-opacity: 0.25; stroke-linejoin: round; }}
.point {{ fill: {CURVE}; stroke: none; }} .arrow {{ fill: {LINE}; stroke: none; }}
.frame {{ stroke: {INK}; stroke-width: 0.5; }}
"""


def write_svg(linkage: Linkage, path: Path, title: str, unit: str) -> None:
    """The linkage with its dimensions, beside it a table of them."""
    plan = plan_of(linkage, unit)
    parts = [
        f'<rect class="frame" x="6" y="6" width="{WIDTH - 12:g}" height="{HEIGHT - 12:g}"/>',
        *_bodies(linkage, plan),
        *_path(linkage, plan),
        *(part for dimension in plan.dimensions for part in _dimension(dimension)),
        *_angle(plan),
        *_joints(linkage, plan),
        *(part for label in plan.labels for part in _label(label)),
        *_table(linkage, plan, title, unit),
    ]
    size = f'width="{WIDTH:g}mm" height="{HEIGHT:g}mm" viewBox="0 0 {WIDTH:g} {HEIGHT:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    body = "\n".join(parts)
    name = escape(title or "linkage")
    path.write_text(
        f'{head}\n<title>{name}</title>\n<style>{STYLE}</style>\n<rect width="{WIDTH:g}" height="{HEIGHT:g}" '
        f'style="fill: white; stroke: none"/>\n{body}\n</svg>\n',
        "utf-8",
    )


def _xy(point) -> str:
    return f"{point[0]:.3f},{HEIGHT - point[1]:.3f}"


def _polyline(points, kind: str, tag: str = "polyline") -> str:
    return f'<{tag} class="{kind}" points="{" ".join(_xy(point) for point in points)}"/>'


def _circle(centre, radius: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{centre[0]:.3f}" cy="{HEIGHT - centre[1]:.3f}" r="{radius:g}"/>'


def _text(text: str, at, kind: str = "middle", angle: float = 0.0) -> str:
    """The middle of the letters' height is at the place."""
    x, y = at[0], HEIGHT - at[1]
    turn = f' transform="rotate({-np.rad2deg(angle):.3f} {x:.3f} {y:.3f})"' if angle else ""
    return f'<text class="{kind}" x="{x:.3f}" y="{y + 0.36 * SIZE:.3f}"{turn}>{escape(text)}</text>'


def _arrow(tip, direction) -> str:
    side = 0.17 * np.array([-direction[1], direction[0]])
    foot = tip - ARROW * direction
    return _polyline([tip, foot + ARROW * side, foot - ARROW * side], "arrow", "polygon")


def _bodies(linkage: Linkage, plan: Plan) -> list[str]:
    parts = []
    at = plan.paper.at
    if linkage.point is not None:
        places = [at(pin.place) for pin in linkage.pins_of(linkage.point_body)]
        parts.append(_polyline([*places, at(linkage.point)], "plate", "polygon"))
    count = len(linkage.bars)
    for k, line in enumerate(bars_of(linkage, plan.paper)):
        parts.append(_polyline(line, "ground" if k < count and linkage.bars[k].body == GROUND else "bar"))
    return parts + [_polyline(way_of(linkage, plan.paper, k), "ground") for k in range(len(linkage.slides))]


def _path(linkage: Linkage, plan: Plan) -> list[str]:
    at = plan.paper.at
    parts = [_polyline(at(run), "curve") for run in linkage.runs]
    if len(linkage.targets) > MAX_MARKS:
        return [_polyline(at(linkage.targets), "wanted"), *parts]
    return parts + [_circle(at(target), CROSS, "target") for target in linkage.targets]


def _dimension(dimension: Dimension) -> list[str]:
    line = dimension.line
    along = (line[1] - line[0]) / max(float(np.hypot(*(line[1] - line[0]))), 1e-12)
    way = -1 if dimension.outside else 1
    return [
        *(_polyline(part, "dimension") for part in lines_of(dimension)),
        _arrow(line[0], -way * along),
        _arrow(line[1], way * along),
        _text(dimension.text, dimension.text_at, "middle", dimension.angle),
    ]


def _angle(plan: Plan) -> list[str]:
    mark = plan.angle
    if mark is None:
        return []
    arc = arc_of(mark.centre, mark.radius, mark.angle)
    last = arc[-1] - arc[-2]
    parts = [_polyline(base_of(mark.centre, mark.radius), "dimension"), _polyline(arc, "dimension")]
    if mark.radius * abs(mark.angle) > ARROW:
        parts.append(_arrow(arc[-1], last / np.hypot(*last)))
    return [*parts, _text(mark.label.text, mark.label.at)]


def _joints(linkage: Linkage, plan: Plan) -> list[str]:
    parts = [_polyline(block, "symbol", "polygon") for block in blocks_of(linkage, plan.paper)]
    for pin in linkage.pins:
        place = plan.paper.at(pin.place)
        if pin.name in plan.supports:
            parts += _support(place, plan.supports[pin.name])
        parts.append(_circle(place, 1.2, "pin"))
    if linkage.point is not None:
        parts.append(_circle(plan.paper.at(linkage.point), 0.8, "point"))
    return parts


def _support(place, away) -> list[str]:
    """A triangle on hatched ground."""
    side = np.array([-away[1], away[0]])
    foot = place + 4.5 * away
    parts = [_polyline([place, foot + 2.6 * side, foot - 2.6 * side], "symbol", "polygon")]
    parts.append(_polyline([foot + 3.8 * side, foot - 3.8 * side], "symbol"))
    for k in np.linspace(-3.0, 3.6, 5):
        parts.append(_polyline([foot + k * side, foot + (k - 1.3) * side + 1.6 * away], "dimension"))
    return parts


def _label(label) -> list[str]:
    leader = [] if label.leader is None else [_polyline(label.leader, "dimension")]
    return [*leader, _text(label.text, label.at, "middle head")]


def _table(linkage: Linkage, plan: Plan, title: str, unit: str) -> list[str]:
    top = FIELD[3] - 4
    parts = [f'<line x1="{FIELD[2] + 2:g}" y1="6" x2="{FIELD[2] + 2:g}" y2="{HEIGHT - 6:g}"/>']
    letters = int((RIGHT - LEFT) / (WIDE * 5.0))
    for line in textwrap.wrap(title, letters, break_long_words=False, break_on_hyphens=False):
        parts.append(_text(line, (LEFT, top), "title"))
        top -= 6.5
    for kind, *cells in _rows(linkage, unit):
        top -= ROW * (1.6 if kind == "head" else 1.0)
        parts += _row(kind, cells, top)
        if kind == "head":
            parts.append(_polyline([(LEFT, top - 2.6), (RIGHT, top - 2.6)], "dimension"))
    return parts + _foot(linkage, plan)


def _rows(linkage: Linkage, unit: str) -> list[tuple[str, ...]]:
    """The kind of each row, and its cells: all that it takes to build the linkage."""
    rows: list[tuple[str, ...]] = [
        ("", f"lengths in {unit}, angles from x"),
        ("head", "body", "pins", "length", "angle"),
    ]
    rows += [("", bar.body, "–".join(bar.pins), _digits(bar.length), _degrees(bar.angle)) for bar in linkage.bars]
    if linkage.offsets:
        rows.append(("head", "slide", "from pin", "offset", "angle"))
    for slide, pin, ends in linkage.offsets:
        angle = float(np.arctan2(*slide.direction[::-1]))
        rows.append(("", slide.name, pin, _digits(float(np.hypot(*(ends[1] - ends[0])))), _degrees(angle)))
    if linkage.wheels:
        rows.append(("head", "gear", "on", "radius", ""))
    rows += [("", wheel.name, wheel.body, _digits(wheel.radius), "") for wheel in linkage.wheels]
    rows.append(("head", "fixed pin", "", "x", "y"))
    rows += [("", pin.name, "", *(_digits(x) for x in pin.place)) for pin in linkage.pins_of(GROUND)]
    if linkage.point is not None:
        rows.append(("head", f"point of {linkage.point_body}", "", "x", "y"))
        rows.append(("", point_name(linkage), "", *(_digits(x) for x in linkage.coordinates)))
        if linkage.point_axes:
            first, second = linkage.point_axes
            rows.append(("small", f"in axes from {first}, x towards {second}"))
    return rows


def _digits(value: float) -> str:
    return f"{value:.6g}"


def _degrees(angle: float) -> str:
    return f"{np.rad2deg(angle):.6g}°"


def _row(kind: str, cells, y: float) -> list[str]:
    """The first cell from the left, the others to the right ends of their columns."""
    ends = LEFT + (RIGHT - LEFT) * np.array([0.4, 0.69, 1.0])
    parts = [_text(cells[0], (LEFT, y), kind)]
    return parts + [_text(cell, (x, y), f"{kind} right") for cell, x in zip(cells[1:], ends, strict=False) if cell]


def _foot(linkage: Linkage, plan: Plan) -> list[str]:
    y = 40.0
    parts = [f'<line x1="{FIELD[2] + 2:g}" y1="{HEIGHT - y - 4:g}" x2="{WIDTH - 6:g}" y2="{HEIGHT - y - 4:g}"/>']
    notes = [("scale", plan.paper.scale)]
    if linkage.error is not None:
        notes.append(("error", number(linkage.error)))
    for name, value in notes:
        parts += [_text(name, (LEFT, y - 2), ""), _text(value, (RIGHT, y - 2), "right")]
        y -= ROW * 1.2
    if len(linkage.curve):
        parts += [
            _polyline([(LEFT, y - 2), (LEFT + 8, y - 2)], "curve"),
            _text("path of the point", (LEFT + 11, y - 2), ""),
        ]
        y -= ROW * 1.2
    if len(linkage.targets):
        line = _polyline([(LEFT, y - 2), (LEFT + 8, y - 2)], "wanted")
        mark = line if len(linkage.targets) > MAX_MARKS else _circle((LEFT + 4, y - 2), CROSS, "target")
        parts += [mark, _text("targets", (LEFT + 11, y - 2), "")]
    return parts
