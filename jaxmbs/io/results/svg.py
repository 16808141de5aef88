"""Technical drawings as SVG."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from jaxmbs.io.results.drawing import TechnicalDrawing
from jaxmbs.io.results.entities import Circle, Entity, Line, TextEntity
from jaxmbs.io.results.layout import HEIGHT, WIDTH
from jaxmbs.viz.planar.shapes import Style, svg_style
from jaxmbs.viz.style import INK, PAPER

# Millimetres in a typographic point, the unit of the widths of lines.
POINT = 25.4 / 72
# Font families of texts in SVG; the first that is installed is used.
FONTS = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def write_svg(drawing: TechnicalDrawing, path: Path) -> None:
    """Write a drawing on its sheet, with the millimetre as unit."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}mm" height="{HEIGHT:g}mm" '
    head += f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="{FONTS}">'
    sheet = f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="{PAPER}"/>'
    parts = [
        head,
        f"<title>{escape(drawing.title or 'linkage')}</title>",
        sheet,
        *map(_element, drawing.entities),
        "</svg>",
    ]
    path.write_text("\n".join(parts) + "\n", "utf-8")


def _element(entity: Entity) -> str:
    """Return the SVG element of an entity of a drawing."""
    match entity:
        case Line():
            places = " ".join(f"{x:.3f},{HEIGHT - y:.3f}" for x, y in entity.points)
            return f'<{"polygon" if entity.style.closed else "polyline"} points="{places}" {_style(entity.style)}/>'
        case Circle():
            (x, y), r = entity.centre, entity.radius
            return f'<circle cx="{x:.3f}" cy="{HEIGHT - y:.3f}" r="{r:.3f}" {_style(entity.style)}/>'
        case TextEntity():
            x, y, size = entity.at[0], HEIGHT - entity.at[1], entity.height
            turn = f' transform="rotate({-np.rad2deg(entity.angle):.3f} {x:.3f} {y:.3f})"' if entity.angle else ""
            font = f'fill="{INK}" font-size="{size:g}" text-anchor="{entity.anchor}"'
            font += ' font-weight="bold"' * entity.bold
            return f'<text x="{x:.3f}" y="{y + 0.36 * size:.3f}" {font}{turn}>{escape(entity.text)}</text>'
        case _:
            return "\n".join(map(_element, entity.entities))


def _style(style: Style) -> str:
    """Return the attributes of a style."""
    return " ".join(f"{name}={quoteattr(str(value))}" for name, value in svg_style(style, POINT).items())
