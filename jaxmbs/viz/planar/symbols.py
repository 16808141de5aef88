"""The symbols of planar elements, one function per class.

A new element gets its symbol by a function registered with `symbol`. Without a symbol its points are drawn.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.planar.belts import AbstractPath
from jaxmbs.viz.attachments import attachments, numbers, sense
from jaxmbs.viz.planar.belts import belt
from jaxmbs.viz.planar.outlines import contact_outline, geneva, profile
from jaxmbs.viz.planar.shapes import (
    DRIVER_LAYER,
    GROUND_LAYER,
    JOINT_LAYER,
    TOOTH_HEIGHTS,
    TOOTH_PLACES,
    Shape,
    Span,
    Style,
    arc,
    perpendicular,
    place,
    rectangle,
    teeth,
    unit,
)
from jaxmbs.viz.style import ACCENT, GROUND_COLOUR, INK, PAPER

# Unit vector of the x axis.
X = np.array([1.0, 0.0])
# Unit vector of the y axis.
Y = np.array([0.0, 1.0])
# Lengths of dashes and gaps of pitch circles, in widths of the line.
PITCH_DASHES = (5, 2, 1, 2)


@attachments.register
def _(element: planar.AbsoluteDistance, dimension=2):
    """Return the points of an `AbsoluteDistance`: its centre on the ground, and its point on the body."""
    return [(GROUND, numbers(element.centre)), (element.body, numbers(element.point))]


@attachments.register
def _(element: AbstractPath, dimension=2):
    """Return the centres of the pulleys of a belt or rope, and its ends."""
    return [(body, numbers(element.points[k])) for k, body in enumerate(element.bodies)]


def pin(body: str, point, scene) -> Shape:
    """Return a pin, which is a white circle."""
    style = Style(face=PAPER, edge=INK, width=1.3, layer=JOINT_LAYER)
    return Shape(body, arc(point, 0.7 * scene.unit), style)


def hatched_line(start, end, scene) -> list[Shape]:
    """Return a line of the ground from `start` to `end`, hatched on its right."""
    start, end = np.asarray(start, float), np.asarray(end, float)
    e = unit(end - start)
    down = -perpendicular(e)
    style = Style(closed=False, edge=GROUND_COLOUR, width=1.3, layer=GROUND_LAYER)
    length, step = np.linalg.norm(end - start), 0.9 * scene.unit
    count = max(int(length / step), 1)
    tops = start + (np.arange(count) + 0.9)[:, None] * (length / count) * e
    thin = Style(closed=False, edge=GROUND_COLOUR, width=0.8, layer=GROUND_LAYER)
    strokes = [Shape(GROUND, np.array([top, top + step * (down - 0.9 * e)]), thin) for top in tops]
    return [Shape(GROUND, np.array([start, end]), style), *strokes]


def pivot(point, scene) -> list[Shape]:
    """Return a bearing fixed to the ground, or nothing if one is drawn there already."""
    u = scene.unit
    key = tuple(np.round(point / u, 3).tolist())
    if key in scene.pivots:
        return []
    scene.pivots.add(key)
    foot = point - 2.9 * u * Y
    style = Style(face=PAPER, edge=GROUND_COLOUR, width=1.3, layer=GROUND_LAYER)
    stand = Shape(GROUND, np.array([point, foot - 1.7 * u * X, foot + 1.7 * u * X]), style)
    return [stand, *hatched_line(foot - 2.6 * u * X, foot + 2.6 * u * X, scene)]


def anchors(element, scene) -> list[Shape]:
    """Return pins at the points of an element, with bearings below those on the ground."""
    shapes: list[Shape] = []
    for body, point in attachments(element):
        shapes += [*(pivot(point, scene) if body == GROUND else []), pin(body, point, scene)]
    return shapes


def rod(ends, scene, colour: str, *, half_width: float = 0.45, start: float = 0.0, stop: float = 1.0) -> Span:
    """Return the part from `start` to `stop` of a bar between two ends (body, point); `half_width` in symbol units."""
    w = half_width * scene.unit
    corners = np.array([[start, 0, -w], [stop, 0, -w], [stop, 0, w], [start, 0, w]])
    first, second = ends
    return Span((first, second), corners, Style(face=colour, edge=colour, opacity=0.6, width=1.0))


def arrow(body: str, line: np.ndarray, scene) -> list[Shape]:
    """Return an arrow along a line (k, 2) in the frame of a body, with its head at the last point."""
    tip = line[-1]
    e = unit(tip - line[-2])
    h, across = 1.3 * scene.unit, perpendicular(e)
    head = np.array([tip + 0.6 * h * e, tip - h * e + 0.6 * h * across, tip - h * e - 0.6 * h * across])
    return [
        Shape(body, line, Style(closed=False, edge=ACCENT, width=1.6, layer=DRIVER_LAYER)),
        Shape(body, head, Style(face=ACCENT, layer=DRIVER_LAYER)),
    ]


def travel(line: tuple, follower: tuple, scene, margin: float) -> tuple[float, float]:
    """Return the range of a follower (body, point) along a line (body, point, axis), with a margin at both ends.

    The bounds are lengths from the line's point.
    """
    body, point, axis = line
    along = (scene.local(body, scene.world(*follower)) - point) @ unit(axis)
    return along.min() - margin, along.max() + margin


def guide(line: tuple, follower: tuple, scene) -> list[Shape]:
    """Return a guide along a line (body, point, axis) for a slider at a point (body, point)."""
    body, point, axis = line
    e, u = unit(axis), scene.unit
    start, stop = travel(line, follower, scene, 5 * u)
    if body == GROUND:
        # The hatching is on the lower side.
        e, start, stop = (e, start, stop) if e[0] > 1e-9 or (abs(e[0]) <= 1e-9 and e[1] < 0) else (-e, -stop, -start)
        base = point - 1.75 * u * perpendicular(e)
        return hatched_line(base + start * e, base + stop * e, scene)
    # The rod extends back to the point of the body.
    start, stop = min(start, 0.0), max(stop, 0.0)
    colour = scene.colours[body]
    style = Style(face=colour, edge=colour, opacity=0.55, width=1.0)
    return [Shape(body, rectangle(point + (start + stop) / 2 * e, e, stop - start, 0.8 * u), style)]


def gear_shapes(gear: tuple, tooth: float, scene, *, inside: bool = False) -> list[Shape]:
    """Return a gear (body, centre, radius): its pitch circle and its teeth, one of them at the angle `tooth`.

    The teeth are a symbol, only the pitch circle is exact. `inside` is True for an internal gear.
    """
    body, centre, radius = gear
    count = teeth(radius, scene.tooth_pitch)
    height = 0.32 * scene.tooth_pitch
    angles = tooth + (np.arange(count)[:, None] + TOOTH_PLACES) * (2 * np.pi / count)
    radii = np.broadcast_to(radius + height * TOOTH_HEIGHTS * (-1 if inside else 1), angles.shape)
    profile = centre + (radii[..., None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)).reshape(-1, 2)
    colour = scene.colours[body]
    pitch = Shape(body, arc(centre, radius, count=72), Style(edge=colour, width=0.9, dashes=PITCH_DASHES))
    if inside:
        rim = arc(centre, radius + 3.2 * height, count=72)
        ring = np.concatenate([rim, rim[:1], profile[:1], profile[::-1]])
        edges = [Shape(body, line, Style(edge=colour)) for line in (rim, profile)]
        return [pitch, Shape(body, ring, Style(face=colour, opacity=0.2)), *edges]
    spoke = np.array([centre, centre + (radius - 1.1 * height) * np.array([np.cos(tooth), np.sin(tooth)])])
    return [
        pitch,
        Shape(body, profile, Style(face=colour, edge=colour, opacity=0.2)),
        Shape(body, spoke, Style(closed=False, edge=colour, width=0.9)),
    ]


@singledispatch
def symbol(element: Any, scene: Any) -> list[Shape | Span]:
    """Return the symbol of an element; by default its points.

    Args:
        element: a planar constraint, driver or force. A class registers its symbol by `symbol.register`.
        scene: the mechanism in some configurations, with the size of the symbols.

    Returns:
        the shapes of the symbol.

    Examples:
        >>> planar.Revolute in mbs.viz.symbol.registry
        True
    """
    return points_of(element, scene)


def points_of(element, scene) -> list[Shape | Span]:
    """Return the symbol of an element that has none of its own: its points, joined by a dotted line if they are two."""
    places = attachments(element)
    style = Style(closed=False, edge=INK, width=1.0, dashes=(1, 2), layer=JOINT_LAYER)
    lines = [Span((places[0], places[1]), np.array([[0.0, 0, 0], [1, 0, 0]]), style)] if len(places) == 2 else []
    dot = Style(face=INK, layer=JOINT_LAYER)
    return [*lines, *(Shape(body, arc(point, 0.45 * scene.unit), dot) for body, point in places)]


@symbol.register
def _(element: planar.Revolute, scene):
    """Return a revolute joint: a pin, with a bearing if it is on the ground; both pins if the joint is open."""
    (i, point_i), (j, point_j) = attachments(element)
    ground = {i: point_i, j: point_j}.get(GROUND)
    moving = (i, point_i) if j == GROUND else (j, point_j)
    # The two points of an open joint are drawn.
    gap = np.linalg.norm(scene.world(i, point_i) - scene.world(j, point_j), axis=-1).max()
    points = points_of(element, scene) if gap > 0.1 * scene.unit else []
    return [*([] if ground is None else pivot(ground, scene)), pin(*moving, scene), *points]


@symbol.register
def _(element: planar.Translational, scene):
    """Return a translational joint: a guide along the axis of one body, and a block on the other."""
    line, block = (
        (body, point, np.asarray(axis, float))
        for (body, point), axis in zip(attachments(element), (element.axis_i, element.axis_j), strict=True)
    )
    line, block = (block, line) if block[0] == GROUND else (line, block)
    body, point, axis = block
    style = Style(face=scene.colours[body], edge=scene.colours[body], opacity=0.55)
    slider = Shape(body, rectangle(point, axis, 6 * scene.unit, 3.5 * scene.unit), style)
    return [*guide(line, (body, point), scene), slider]


@symbol.register
def _(element: planar.RevoluteTranslational, scene):
    """Return a revolute-translational joint: a guide on body i, and a pinned block that moves along it."""
    (i, point_i), follower = attachments(element)
    axis, u = np.asarray(element.axis_i, float), scene.unit
    point = point_i + float(element.offset) * perpendicular(unit(axis))
    start, stop = travel((i, point, axis), follower, scene, 3 * u)
    colour = scene.colours[i]
    style = Style(face=PAPER, edge=colour, width=1.1, layer=JOINT_LAYER)
    slot = Shape(i, rectangle(point + (start + stop) / 2 * unit(axis), axis, stop - start, 1.9 * u), style)
    return [slot, pin(*follower, scene)]


@symbol.register(planar.Distance)
@symbol.register(planar.AbsoluteDistance)
def _(element, scene):
    """Return a bar between the two points of a distance constraint, with pins at its ends."""
    return [rod(attachments(element), scene, INK), *anchors(element, scene)]


def track(element, axis, scene) -> list[Shape | Span]:
    """Return a pin at an element's point, on a dashed line of the ground along `axis`, a unit vector."""
    ((body, point),) = attachments(element)
    middle = scene.world(body, point)[0]
    start, stop = travel((GROUND, middle, axis), (body, point), scene, 6 * scene.unit)
    style = Style(closed=False, edge=GROUND_COLOUR, width=1.0, dashes=(4, 2), layer=GROUND_LAYER)
    return [Shape(GROUND, np.array([middle + start * axis, middle + stop * axis]), style), pin(body, point, scene)]


@symbol.register
def _(element: planar.AbsoluteX, scene):
    """Return a pin that moves on a line of the ground along y, as x is held."""
    return track(element, Y, scene)


@symbol.register
def _(element: planar.AbsoluteY, scene):
    """Return a pin that moves on a line of the ground along x, as y is held."""
    return track(element, X, scene)


def contact_angle(gear: tuple, towards, scene) -> float:
    """Return the angle of the direction `towards`, in the ground frame, from the x axis of a gear's body at first."""
    return float(np.arctan2(towards[1], towards[0]) - scene.poses[gear[0]][1][0])


def gear_key(gear: tuple) -> tuple:
    """Return a key by which elements find the same gear (body, centre, radius)."""
    body, centre, radius = gear
    return (body, *np.round([*centre, radius], 9).tolist())


@symbol.register
def _(element: planar.Gear, scene):
    """Return a gear pair: two toothed wheels, one of them inside the other if its radius is negative."""
    places = attachments(element)
    signed = np.array([float(element.radius_i), float(element.radius_j)])
    gears = [(body, centre, abs(radius)) for (body, centre), radius in zip(places, signed, strict=True)]
    line = scene.world(*places[1])[0] - scene.world(*places[0])[0]
    # A ring and the gear inside it touch on the same side of both centres, beyond the gear's.
    towards = np.array([line, -line]) if signed.min() > 0 else np.array([line, line]) * (1 if signed[0] < 0 else -1)
    touch = [contact_angle(gear, direction, scene) for gear, direction in zip(gears, towards, strict=True)]
    counts = [teeth(radius, scene.tooth_pitch) for *_, radius in gears]
    new = [gear_key(gear) not in scene.teeth for gear in gears]
    first, second = (1, 0) if new[0] and not new[1] else (0, 1)
    mark = float(element.marks[first])
    tooth = scene.teeth.setdefault(gear_key(gears[first]), mark)
    # At the point of contact a gap faces a tooth. The teeth of an outer pair follow each other in opposite senses.
    ahead = np.sign(signed.prod()) * (tooth - touch[first]) * counts[first] / (2 * np.pi)
    scene.teeth.setdefault(gear_key(gears[second]), touch[second] + (0.5 - ahead) * 2 * np.pi / counts[second])
    return [
        shape
        for k in (0, 1)
        if new[k]
        for shape in gear_shapes(gears[k], scene.teeth[gear_key(gears[k])], scene, inside=signed[k] < 0)
    ]


symbol.register(AbstractPath)(belt)
symbol.register(planar.GenevaDrive)(geneva)


@symbol.register
def _(element: planar.RackPinion, scene):
    """Return a rack on body i and its pinion on body j."""
    (i, point_i), (j, point_j) = attachments(element)
    axis, radius = np.asarray(element.axis_i, float), float(element.radius_j)
    e, up = unit(axis), perpendicular(unit(axis)) * np.sign(radius)
    start, stop = travel((i, point_i, axis), (j, point_j), scene, 1.3 * abs(radius))
    held = [(point - point_i) @ e for point in scene.held.get(i, ())]
    start, stop = min([start, *held]), max([stop, *held])
    # A gap of the rack faces a tooth of the pinion.
    pinion = (j, point_j, abs(radius))
    new = gear_key(pinion) not in scene.teeth
    tooth = scene.teeth.setdefault(gear_key(pinion), float(element.marks[1]))
    foot = (scene.local(i, scene.world(j, point_j))[0] - point_i) @ e
    down = place(scene.poses, i, np.array([[0.0, 0.0], -up]))[0]
    gap = foot + radius * (tooth - contact_angle(pinion, down[1] - down[0], scene))
    pitch, height = scene.tooth_pitch, 0.32 * scene.tooth_pitch
    middles = gap + (np.arange(np.ceil((start - gap) / pitch), np.floor((stop - gap) / pitch)) + 0.5) * pitch
    along = np.concatenate([[start], (middles[:, None] + TOOTH_PLACES * pitch).ravel(), [stop]])
    heights = np.concatenate([[-1.1], np.tile(TOOTH_HEIGHTS, len(middles)), [-1.1]]) * height
    profile = point_i + along[:, None] * e + heights[:, None] * up
    back = point_i + np.array([[stop], [start]]) * e - 4 * height * up
    colour = scene.colours[i]
    return [
        Shape(i, point_i + np.array([[start], [stop]]) * e, Style(closed=False, edge=colour, dashes=PITCH_DASHES)),
        Shape(i, np.concatenate([profile, back]), Style(face=colour, edge=colour, opacity=0.2)),
        *(gear_shapes(pinion, tooth, scene) if new else []),
    ]


@symbol.register(planar.CamFollower)
@symbol.register(planar.OutlineContact)
def _(element, scene):
    """Return the outlines of a cam and of the follower that it touches."""
    (i, centre_i), (j, centre_j) = attachments(element)
    return [
        *contact_outline(i, centre_i, element.outline_i, scene),
        *contact_outline(j, centre_j, element.outline_j, scene),
    ]


@symbol.register(planar.CamFlatFollower)
@symbol.register(planar.FlatContact)
def _(element, scene):
    """Return the outline of a cam, and the flat face of its follower."""
    (i, centre), (j, point) = attachments(element)
    reach = np.linalg.norm(profile(element.outline_i), axis=1).max()
    axis = np.asarray(element.axis_j, float)
    start, stop = travel((j, point, axis), (i, centre), scene, 0.7 * reach)
    style = Style(closed=False, edge=scene.colours[j], width=3.2)
    face = point + np.array([[start], [stop]]) * unit(axis)
    return [*contact_outline(i, centre, element.outline_i, scene), Shape(j, face, style)]


@symbol.register
def _(element: planar.PointFollower, scene):
    """Return a slot along the outline on body j, and the pin of the follower in it."""
    follower, (j, centre) = attachments(element)
    colour = scene.colours[j]
    slot = centre + profile(element.outline_j)
    closed = element.outline_j.span is None
    wide = Style(closed=closed, face=colour if closed else None, edge=colour, opacity=0.15, width=7.0)
    narrow = Style(closed=closed, edge=PAPER, width=5.0)
    return [Shape(j, slot, wide), Shape(j, slot, narrow), pin(*follower, scene)]


def axle(element, scene) -> tuple[str, np.ndarray]:
    """Return the point (body i, point on it) about which two bodies turn: their revolute joint, else body j's origin."""
    for other in scene.mech.constraints.values():
        if type(other) is planar.Revolute and {other.i, other.j} == {element.i, element.j}:
            return next((body, point) for body, point in attachments(other) if body == element.i)
    return element.i, scene.local(element.i, scene.world(element.j, np.zeros(2)))[0]


@symbol.register(planar.RevoluteDriver)
@symbol.register(planar.RelativeAngleDriver)
@symbol.register(planar.AbsoluteAngleDriver)
def _(element, scene):
    """Return the symbol of a driver of an angle: a curved arrow in the sense of its motion at the first time."""
    body, centre = axle(element, scene)
    start, stop = np.deg2rad([-40, 200]) if sense(element, scene.t) > 0 else np.deg2rad([220, -20])
    return arrow(body, arc(centre, 3.1 * scene.unit, start, stop), scene)


def arrow_beside(body: str, point, axis, element, scene) -> list[Shape]:
    """Return a straight arrow of a driver beside a point, along an axis in the frame of a body."""
    e, u = unit(axis) * sense(element, scene.t), scene.unit
    across = perpendicular(unit(axis))
    side = across if across[1] >= 0 else -across
    start = np.asarray(point, float) + 2.9 * u * side
    return arrow(body, np.array([start - 2.5 * u * e, start + 2.5 * u * e]), scene)


@symbol.register
def _(element: planar.TranslationalDriver, scene):
    """Return the symbol of a `TranslationalDriver`: an arrow along its axis, in the sense of its motion."""
    (i, _), (j, point_j) = attachments(element)
    return arrow_beside(
        i, scene.local(i, scene.world(j, point_j))[0], np.asarray(element.axis_i, float), element, scene
    )


@symbol.register(planar.AbsoluteXDriver)
@symbol.register(planar.RelativeXDriver)
def _(element, scene):
    """Return the symbol of a driver of x: an arrow along the x axis of the ground, in the sense of its motion."""
    return arrow_beside(GROUND, scene.world(*attachments(element)[-1])[0], X, element, scene)


@symbol.register(planar.AbsoluteYDriver)
@symbol.register(planar.RelativeYDriver)
def _(element, scene):
    """Return the symbol of a driver of y: an arrow along the y axis of the ground, in the sense of its motion."""
    return arrow_beside(GROUND, scene.world(*attachments(element)[-1])[0], Y, element, scene)


@symbol.register
def _(element: planar.DistanceDriver, scene):
    """Return the symbol of a `DistanceDriver`: a hydraulic cylinder between two pins."""
    ends = attachments(element)
    cylinder = rod(ends, scene, ACCENT, half_width=1.0, start=0.12, stop=0.6)
    return [rod(ends, scene, INK, half_width=0.3), cylinder, *anchors(element, scene)]
