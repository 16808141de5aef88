"""A drawing in true size for CAD, as DXF."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.results.linkage import Linkage
from jaxmbs.io.results.paper import ARROW, SIZE
from jaxmbs.io.results.plan import Plan, arms_of, ground_line, number, plan_of, point_name, way_of

# Names of layers, with their colours in AutoCAD's index.
LAYERS = {"LINKS": 7, "JOINTS": 5, "PATH": 1, "DIMENSIONS": 8}
# What DXF calls units, and which of them are metric.
CODES = {"mm": 4, "cm": 5, "m": 6, "in": 1, "ft": 2}
METRIC = ("mm", "cm", "m")
PIN = 1.2
DECIMALS = 4
# Millimetres on the sheet for a unit of a pattern of dashes.
DASH = 6.0


def write_dxf(linkage: Linkage, path: Path, title: str, unit: str) -> None:
    """Bars, pins, curve and dimensions on layers of their own.

    Raises:
        ImportError: ezdxf is not installed.
    """
    try:
        import ezdxf
    except ImportError as error:
        raise ImportError(".dxf is written with ezdxf: pip install ezdxf") from error
    plan = plan_of(linkage, unit)
    drawing = ezdxf.new("R2010", setup=True, units=CODES[unit])
    drawing.header["$MEASUREMENT"] = int(unit in METRIC)
    for name, colour in LAYERS.items():
        drawing.layers.add(name, color=colour)
    space = drawing.modelspace()
    # Letters, pins and dashes are as large as on the sheet.
    size = 1 / plan.paper.factor
    drawing.header["$LTSCALE"] = DASH * size
    for bar in linkage.bars:
        style = {"layer": "LINKS", "linetype": "CENTER" if bar.body == GROUND else "CONTINUOUS"}
        space.add_line(*bar.ends, dxfattribs=style)
    for arm in arms_of(linkage):
        space.add_line(*arm, dxfattribs={"layer": "LINKS"})
    for pin in linkage.pins:
        space.add_circle(pin.place, PIN * size, dxfattribs={"layer": "JOINTS"})
    for k in range(len(linkage.slides)):
        way = _in_true_size(way_of(linkage, plan.paper, k), plan)
        space.add_line(*way, dxfattribs={"layer": "JOINTS", "linetype": "CENTER"})
    for run in linkage.runs:
        space.add_lwpolyline(run, dxfattribs={"layer": "PATH"})
    for target in linkage.targets:
        space.add_point(target, dxfattribs={"layer": "PATH"})
    _dimensions(space, linkage, plan, size)
    _texts(space, linkage, plan, title, size)
    drawing.saveas(path)


def _in_true_size(places: np.ndarray, plan: Plan) -> np.ndarray:
    """Places on the sheet as places of the linkage."""
    return (places - plan.paper.at((0, 0))) / plan.paper.factor


def _dimensions(space, linkage: Linkage, plan: Plan, size: float) -> None:
    style = {
        "dimtxt": SIZE * size,
        "dimasz": ARROW * size,
        "dimexo": 1.8 * size,
        "dimexe": 1.2 * size,
        "dimgap": 0.6 * size,
        "dimtad": 1,
        "dimscale": 1.0,
        "dimlfac": 1.0,
        "dimdec": DECIMALS,
        "dimblk": "",  # filled arrows
        "dimtsz": 0,
        "dimzin": 8,
    }
    on_layer = {"layer": "DIMENSIONS"}
    for dimension in plan.dimensions:
        ends = _in_true_size(dimension.ends, plan)
        distance = dimension.offset * size
        # The text of a dimension from right to left would be upside down.
        if np.cos(dimension.angle - np.arctan2(*(ends[1] - ends[0])[::-1])) < 0:
            ends, distance = ends[::-1], -distance
        space.add_aligned_dim(*ends, distance=distance, override=style, dxfattribs=on_layer).render()
    if plan.angle is not None:
        centre, angle = ground_line(linkage)
        rays = [np.array([np.cos(x), np.sin(x)]) for x in sorted((0.0, angle))]
        middle = centre + plan.angle.radius * size * np.array([np.cos(angle / 2), np.sin(angle / 2)])
        space.add_angular_dim_3p(
            base=middle,
            center=centre,
            p1=centre + plan.angle.radius * size * rays[0],
            p2=centre + plan.angle.radius * size * rays[1],
            override={**style, "dimadec": DECIMALS, "dimaunit": 0},
            dxfattribs=on_layer,
        ).render()


def _texts(space, linkage: Linkage, plan: Plan, title: str, size: float) -> None:
    """Names beside the pins, and below it all coordinates that are not distances."""
    from ezdxf.enums import TextEntityAlignment

    def write(text, at, align=TextEntityAlignment.MIDDLE_CENTER):
        space.add_text(text, height=SIZE * size, dxfattribs={"layer": "DIMENSIONS"}).set_placement(at, align=align)

    for label in plan.labels:
        write(label.text, _in_true_size(label.at, plan))
    rows = [title] if title else []
    rows += [f"{wheel.name}  radius on {wheel.body} = {number(wheel.radius)}" for wheel in linkage.wheels]
    rows += [f"{pin.name}  x = {number(pin.place[0])}, y = {number(pin.place[1])}" for pin in linkage.pins_of(GROUND)]
    if linkage.point is not None:
        x, y = linkage.coordinates
        axes = f", in axes from {linkage.point_axes[0]} to {linkage.point_axes[1]}" if linkage.point_axes else ""
        rows.append(f"{point_name(linkage)} of {linkage.point_body}  x = {number(x)}, y = {number(y)}{axes}")
    low = linkage.extent.min(axis=0) - 30 * size
    for k, row in enumerate(rows):
        write(row, low - [0, 2 * SIZE * size * k], TextEntityAlignment.LEFT)
