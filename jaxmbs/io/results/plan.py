"""A linkage laid out on a sheet: which texts and dimensions there are, and where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.results.linkage import Linkage
from jaxmbs.io.results.paper import UNITS, AngleMark, Dimension, Label, Paper

# A smaller angle of the ground line is not drawn.
LEVEL = 1e-6
# A slide's offset below this part of the linkage's size is not drawn.
MIN_OFFSET = 1e-9
# Width and height of the symbol of a fixed pin, and of a block that slides.
SUPPORT = np.array([8.0, 7.5])
BLOCK = np.array([7.0, 4.0])
# Half the size of a target, and how far the way of a slide goes beyond the block.
CROSS, WAY = 1.0, 12.0
# As many pieces of the curve are looked at.
PIECES = 120


class Plan(NamedTuple):
    """All that is drawn besides the lines of the linkage.

    Attributes:
        supports: for each pin of the ground the direction in which its symbol stands.
    """

    paper: Paper
    supports: dict[str, np.ndarray]
    labels: list[Label]
    dimensions: list[Dimension]
    angle: AngleMark | None


def plan_of(linkage: Linkage, unit: str) -> Plan:
    paper = Paper(linkage.extent, UNITS[unit])
    for line in (*bars_of(linkage, paper), *(way_of(linkage, paper, k) for k in range(len(linkage.slides)))):
        paper.add_line(line)
    for run in linkage.runs:
        paper.add_line(paper.at(run)[:: max(len(run) // PIECES, 1)], 2.0)
    for target in paper.at(linkage.targets):
        paper.add_line(target + CROSS * np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]]), 1.0)
    base, angle = ground_line(linkage), None
    if base is not None and abs(base[1]) > LEVEL:
        angle = paper.angle(paper.at(base[0]), base[1], f"{number(np.rad2deg(base[1]))}°")
    for block in blocks_of(linkage, paper):
        paper.add_text(block)
    supports = {}
    for pin in linkage.pins_of(GROUND):
        place = paper.at(pin.place)
        supports[pin.name] = away = paper.direction_of(place, SUPPORT)
        side = np.array([-away[1], away[0]]) * SUPPORT[0] / 2
        paper.add_text(place + np.array([-side, side, side + SUPPORT[1] * away, SUPPORT[1] * away - side]))
    offsets = [offset.ends for offset in linkage.offsets if _length(offset.ends) > MIN_OFFSET * np.ptp(linkage.extent)]
    lengths = sorted([bar.ends for bar in linkage.bars] + offsets, key=_length)
    dimensions = [paper.dimension(paper.at(ends), number(_length(ends))) for ends in lengths]
    # Names go where there is room; dimension lines have less choice.
    labels = [paper.label(pin.name, paper.at(pin.place)) for pin in linkage.pins]
    if linkage.point is not None:
        labels.append(paper.label(point_name(linkage), paper.at(linkage.point)))
    return Plan(paper, supports, labels, dimensions, angle)


def bars_of(linkage: Linkage, paper: Paper) -> list[np.ndarray]:
    """The lines (2, 2) of all bodies, and those from the pins of its body to the traced point."""
    lines = [paper.at(bar.ends) for bar in linkage.bars]
    return lines + [paper.at(arm) for arm in arms_of(linkage)]


def arms_of(linkage: Linkage) -> list[np.ndarray]:
    """From the first two pins of its body to the traced point."""
    if linkage.point is None:
        return []
    arms = [np.array([pin.place, linkage.point]) for pin in linkage.pins_of(linkage.point_body)[:2]]
    return [arm for arm in arms if _length(arm) > 0]


def way_of(linkage: Linkage, paper: Paper, k: int) -> np.ndarray:
    """The line of a slide on the sheet, past the pins of the body that moves on it."""
    slide = linkage.slides[k]
    along, place = slide.direction, paper.at(slide.place)
    moving = [along @ (paper.at(pin.place) - place) for pin in linkage.pins_of(slide.bodies[1])]
    return place + np.outer([min([0.0, *moving]) - WAY, max([0.0, *moving]) + WAY], along)


def blocks_of(linkage: Linkage, paper: Paper) -> list[np.ndarray]:
    """The corners (4, 2) of a block at every pin of a body that slides."""
    out = []
    for slide in linkage.slides:
        x, y = slide.direction
        shape = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * BLOCK / 2 @ np.array([[x, y], [-y, x]])
        out += [paper.at(pin.place) + shape for pin in linkage.pins_of(slide.bodies[1])]
    return out


def ground_line(linkage: Linkage) -> tuple[np.ndarray, float] | None:
    """The first pin of the ground, and the direction of the second from there; None with less than two."""
    return next(((bar.ends[0], bar.angle) for bar in linkage.bars if bar.body == GROUND), None)


def point_name(linkage: Linkage) -> str:
    """P, unless that is the name of a pin."""
    taken = {pin.name for pin in linkage.pins}
    return next(name for name in ("P", "P′", "P″", "traced point") if name not in taken)


def number(value: float) -> str:
    """A dimension as a text, with five digits."""
    return f"{value:.5g}"


def _length(ends: np.ndarray) -> float:
    return float(np.hypot(*(ends[1] - ends[0])))
