"""The parts of a planar linkage as solids of build123d: plates, pins, blocks and spacers."""

from __future__ import annotations

from typing import Any

import build123d as cad
import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.viz.part_sizes import PartSizes
from jaxmbs.viz.planar.parts import Parts, Piece, parts_of
from jaxmbs.viz.planar.scene import Scene
from jaxmbs.viz.planar.shapes import hull

# Colour of pins, blocks and spacers.
STEEL = "#c3c9d2"


def solids_of(scene: Scene, sizes: PartSizes, marked: tuple[tuple[str, Any], ...], factor: float) -> tuple[list, float]:
    """Return the parts in the first configuration, with `factor` millimetres for a unit of length, and their width."""
    parts = parts_of(scene, sizes, marked)
    found = [
        _plate(parts, body, factor, scene) for body in (GROUND, *scene.mech.bodies, *parts.rods) if body in parts.plates
    ]
    spacer = Piece(np.zeros((1, 2)), parts.sizes.washer / 2)
    hole = Piece(np.zeros((1, 2)), parts.sizes.hole / 2)
    for fastener in parts.fasteners:
        kind = "block" if fastener.block else "pin"
        solid = prism(fastener.piece, parts.heights_of(fastener), factor)
        found.append(_placed(solid, f"{fastener.name} {kind}", STEEL, fastener.body, factor, scene))
        for number, heights in enumerate(parts.spacers(fastener), 1):
            at = fastener.piece.points
            ring = prism(spacer._replace(points=at), heights, factor) - prism(hole._replace(points=at), heights, factor)
            found.append(_placed(ring, f"{fastener.name} spacer {number}", STEEL, fastener.body, factor, scene))
    return found, factor * parts.sizes.width


def _plate(parts: Parts, body: str, factor: float, scene: Scene):
    """Return the plate of a body, with its holes."""
    first, *others = (prism(piece, parts.heights(body), factor) for piece in parts.plates[body])
    solid = first
    for other in others:
        solid = solid + other
    for hole in parts.holes[body]:
        solid = solid - prism(hole, parts.heights(body), factor)
    return _placed(solid, body, parts.colours[body], body, factor, scene)


def prism(piece: Piece, heights: tuple[float, float], factor: float):
    """Return the solid above a convex area with rounded corners between two heights, in millimetres."""
    low, high = (factor * height for height in heights)
    corners, radius = factor * hull(piece.points), factor * piece.radius
    if len(corners) == 1:
        edges = [cad.Edge.make_circle(radius)]
        edges = [edge.moved(cad.Location((*corners[0], 0))) for edge in edges]
    else:
        edges = []
        for before, corner, after in zip(np.roll(corners, 1, 0), corners, np.roll(corners, -1, 0), strict=True):
            first, last = (radius * _outwards(ends) for ends in (corner - before, after - corner))
            middle = first + last
            # Two corners are the ends of a bar, whose rounded ends are half circles.
            middle = _along(corner - before) if np.linalg.norm(middle) < 1e-9 * radius else middle
            middle = radius * middle / np.linalg.norm(middle)
            edges.append(cad.Edge.make_three_point_arc(*((*(corner + x), 0) for x in (first, middle, last))))
            edges.append(cad.Edge.make_line((*(corner + last), 0), (*(after + last), 0)))
    face = cad.Face(cad.Wire(edges))
    return cad.extrude(face, amount=high - low, dir=(0, 0, 1)).moved(cad.Location((0, 0, low)))


def _along(vector: np.ndarray) -> np.ndarray:
    """Return a vector (2,) divided by its length."""
    return vector / np.linalg.norm(vector)


def _outwards(side: np.ndarray) -> np.ndarray:
    """Return the unit normal on the right of a side, which is outside of an anticlockwise outline."""
    return _along(np.array([side[1], -side[0]]))


def _placed(solid, label: str, colour: str, body: str, factor: float, scene: Scene):
    """Return a solid of a body, which is given in its frame, in the first configuration."""
    origin, angle = scene.poses[body]
    place = cad.Location((*(factor * origin[0]), 0), (0, 0, float(np.rad2deg(angle[0]))))
    found = solid.solid().moved(place)
    found.label, found.color = label, cad.Color(colour)
    return found
