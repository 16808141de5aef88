"""Technical drawings in true size for CAD, as DXF."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxmbs.io.results.drawing import TechnicalDrawing
from jaxmbs.io.results.entities import (
    ARROW_LENGTH,
    LETTER_HEIGHT,
    AngleDimension,
    Circle,
    Dimension,
    Entity,
    Line,
    direction,
)
from jaxmbs.io.results.layout import Sheet

# Name and colour (AutoCAD's colour index) of each layer of a DXF file.
LAYERS = {"LINKS": 7, "JOINTS": 5, "PATH": 1, "DIMENSIONS": 8, "SYMBOLS": 9, "SHEET": 8}
# Code of each unit of length in the header of a DXF file.
UNIT_CODES = {"mm": 4, "cm": 5, "m": 6, "in": 1, "ft": 2}
# Units of length for which the header of a DXF file says that the drawing is metric.
METRIC_UNITS = ("mm", "cm", "m")
# Digits behind the point in the dimensions of a DXF file.
DECIMALS = 4
# Length on the sheet, in millimetres, of one unit of a pattern of dashes in DXF.
DASH_LENGTH = 6.0


def write_dxf(drawing: TechnicalDrawing, path: Path) -> None:
    """Write a drawing in true size, with letters and symbols as large as on the sheet."""
    try:
        import ezdxf
    except ImportError as error:
        raise ImportError(".dxf is written with ezdxf: pip install ezdxf") from error
    document = ezdxf.new("R2010", setup=True, units=UNIT_CODES[drawing.unit])
    document.header["$MEASUREMENT"] = int(drawing.unit in METRIC_UNITS)
    document.header["$LTSCALE"] = DASH_LENGTH / drawing.sheet.factor
    for name, colour in LAYERS.items():
        document.layers.add(name, color=colour)
    for entity in drawing.entities:
        _add(document.modelspace(), entity, drawing.sheet)
    document.saveas(path)


def _add(space, entity: Entity, sheet: Sheet) -> None:
    """Add an entity of a drawing to a model space of ezdxf, in true size."""
    size = 1 / sheet.factor
    of_dimension = {"override": _dimension_style(size), "dxfattribs": {"layer": "DIMENSIONS"}}
    match entity:
        case Line():
            points = sheet.in_true_size(entity.points)
            style = {"layer": entity.layer, "linetype": "CENTER" if entity.style.dashes else "CONTINUOUS"}
            if len(points) == 2:
                space.add_line(*points, dxfattribs=style)
            else:
                space.add_lwpolyline(points, close=entity.style.closed, dxfattribs=style)
        case Circle():
            centre = sheet.in_true_size(entity.centre)
            space.add_circle(centre, entity.radius * size, dxfattribs={"layer": entity.layer})
        case Dimension():
            ends, offset = sheet.in_true_size(entity.ends), entity.offset * size
            # The text of a dimension from right to left would be upside down.
            if direction(entity.text.angle) @ (ends[1] - ends[0]) < 0:
                ends, offset = ends[::-1], -offset
            space.add_aligned_dim(*ends, distance=offset, **of_dimension).render()
        case AngleDimension():
            centre, radius = sheet.in_true_size(entity.centre), entity.radius * size
            start, middle, end = centre + radius * direction(np.array(sorted((0.0, entity.angle / 2, entity.angle))))
            space.add_angular_dim_3p(base=middle, center=centre, p1=start, p2=end, **of_dimension).render()
        case _:
            from ezdxf.enums import TextEntityAlignment

            align = {"start": "MIDDLE_LEFT", "middle": "MIDDLE_CENTER", "end": "MIDDLE_RIGHT"}[entity.anchor]
            style = {"layer": entity.layer, "rotation": np.rad2deg(entity.angle)}
            text = space.add_text(entity.text, height=entity.height * size, dxfattribs=style)
            text.set_placement(sheet.in_true_size(entity.at), align=TextEntityAlignment[align])


def _dimension_style(size: float) -> dict:
    """Return the style of dimensions, by the variables of DXF; `size` is the true length of a millimetre on the sheet."""
    return {
        "dimtxt": LETTER_HEIGHT * size,
        "dimasz": ARROW_LENGTH * size,
        "dimexo": 1.8 * size,
        "dimexe": 1.2 * size,
        "dimgap": 0.6 * size,
        "dimtad": 1,
        "dimscale": 1.0,
        "dimlfac": 1.0,
        "dimdec": DECIMALS,
        "dimadec": DECIMALS,
        "dimaunit": 0,
        "dimblk": "",  # filled arrows
        "dimtsz": 0,
        "dimzin": 8,
    }
