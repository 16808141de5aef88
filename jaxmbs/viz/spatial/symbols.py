"""The symbols of spatial elements, one function per class.

A new element gets its symbol by a function registered with `symbol`. Without a symbol its points are drawn, joined by
thin lines.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND
from jaxmbs.spatial.total import SixComponents
from jaxmbs.viz.attachments import attachments, sense
from jaxmbs.viz.planar.shapes import teeth, unit
from jaxmbs.viz.spatial.gears import wheel_mesh, wheels
from jaxmbs.viz.spatial.meshes import (
    Mesh,
    ball,
    box,
    cone,
    cylinder,
    extrusion,
    frame,
    helix,
    ring,
    solid_of_revolution,
    tube,
    washer,
)
from jaxmbs.viz.spatial.shapes import Solid, Span
from jaxmbs.viz.style import ACCENT, GROUND_COLOUR, INK

# Surfaces that make up the symbol of an element.
Shapes = list[Solid | Span]
# Colour of pins and of rails on the ground.
STEEL = "#c3c9d2"
# Colour of stands on the ground.
STONE = "#a3abb8"
# Colours of the arrows along the axes x, y and z.
AXIS_COLOURS = ("#c8403a", "#3f9a4d", "#3a6fc0")
# Turns of the coil by which a spring is drawn.
COIL_TURNS = 9
# Smallest and largest pitch at which the thread of a screw is drawn, in units of the symbols.
THREAD_PITCHES = (1.0, 8.0)


def joint_frames(element) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return for bodies i, j of a joint: (body, origin (3,), axes (3, 3) as columns), both in the body's frame."""
    axes = (np.asarray(element.axes_i, float), np.asarray(element.axes_j, float))
    return [(body, point, turned) for (body, point), turned in zip(attachments(element, 3), axes, strict=True)]


def foot(point, scene, others=()) -> Shapes:
    """Return a stand below a point of the ground, above if the bodies `others` hang from it, unless there is one."""
    u, up = scene.unit, scene.view.up
    key = tuple(np.round(np.asarray(point) / u, 2).tolist())
    if key in scene.feet:
        return []
    scene.feet.add(key)
    heights = [((scene.middle(body) - point) @ up).mean() for body in others if body != GROUND]
    down = -1 if np.mean(heights or [0]) > -2 * u else 1
    profile = [(0.9, 0.6), (1.1, 1.6), (1.7, 3.6), (2.9, 3.7), (2.9, 4.3)]
    return [Solid(GROUND, solid_of_revolution(np.array(profile) * u).at(point, frame(down * up)), STONE)]


def feet(element, scene) -> Shapes:
    """Return stands at the points of an element that are on the ground."""
    others = (element.i, element.j)
    return [shape for body, point in attachments(element, 3) if body == GROUND for shape in foot(point, scene, others)]


def points_of(element, scene) -> Shapes:
    """Return the symbol of an element that has none of its own: its points, joined by a thin line if they are two."""
    places = attachments(element, 3)
    dots: Shapes = [Solid(body, ball(0.5 * scene.unit, count=12).at(point), INK) for body, point in places]
    lines = [Span((places[0], places[1]), bar_of_span(0.22 * scene.unit), INK)] if len(places) == 2 else []
    return [*dots, *lines]


def bar_of_span(radius: float, start: float = 0.0, stop: float = 1.0) -> Mesh:
    """Return the mesh of a bar in a `Span`, from the part `start` of its length to the part `stop`."""
    return extrusion(radius * ring(10), np.linspace(start, stop, 7))


def points_if_apart(element, scene) -> Shapes:
    """Return the two points of a joint, joined by a line, if they do not coincide, as in a wrong assembly."""
    (i, point_i), (j, point_j) = attachments(element, 3)
    apart = np.linalg.norm(scene.world(i, point_i) - scene.world(j, point_j), axis=-1).max()
    return points_of(element, scene) if apart > 0.2 * scene.unit else []


def guide(element, scene, section: Mesh | None, overhang: float) -> Shapes:
    """Return a rail along the axis of a joint, on body i, or on the ground with stands if that is body j.

    `section` is the surface of the rail from z = −½ to ½, None for a round bar. The rail is longer than the range of the
    other body by `overhang` at both ends.
    """
    body, point, axes = carrier(element)[0]
    start, stop = travel(element, scene, overhang)
    if body != GROUND:
        # The rail extends back to the point of the body.
        start, stop = min(start, 0.0), max(stop, 0.0)
    u, length = scene.unit, stop - start
    if section is None:
        mesh = cylinder(0.6 * u, length, pieces=max(round(length / (6 * u)), 1), count=12)
    else:
        mesh = Mesh(section.points * [1, 1, length], section.faces)
    rail = Solid(body, mesh.at(point + (start + stop) / 2 * axes[:, 2], axes), rail_colour(body, scene))
    if body != GROUND:
        return [rail]
    ends = [point + s * axes[:, 2] for s in (start + 0.8 * u, stop - 0.8 * u)]
    upright = abs(axes[:, 2] @ scene.view.up) > 0.7
    lowest = [min(ends, key=lambda end: end @ scene.view.up)]
    return [rail, *(shape for end in (lowest if upright else ends) for shape in foot(end, scene))]


def colour_of_block(body: str, scene) -> str:
    """Return the colour of a body for a symbol that can stand for the whole body, and note that the body has one."""
    scene.dressed.add(body)
    return scene.colours[body]


def carrier(element) -> tuple[tuple, tuple]:
    """Return the joint frames on the body with the rail, and on the body that moves along it."""
    on_i, on_j = joint_frames(element)
    return (on_j, on_i) if on_j[0] == GROUND else (on_i, on_j)


def travel(element, scene, margin: float) -> tuple[float, float]:
    """Return the range of the other body along a joint's rail, as lengths from the rail's point, with a `margin`."""
    (body, point, axes), (other, follower, _) = carrier(element)
    along = (scene.local(body, scene.world(other, follower)) - point) @ axes[:, 2]
    return float(along.min() - margin), float(along.max() + margin)


def rail_colour(body: str, scene) -> str:
    """Return the colour of a rail: steel on the ground, else the colour of its body."""
    return STEEL if body == GROUND else scene.colours[body]


def arrow(body: str, path: np.ndarray, scene, colour: str = ACCENT, radius: float = 0.3) -> Shapes:
    """Return an arrow along a line (k, 3) in the frame of a body; `radius` is that of its shaft, in symbol units."""
    u, tip = scene.unit, path[-1]
    e = unit(path[-1] - path[-2])
    head = cone(3 * radius * u, 5.5 * radius * u, count=12).at(tip, frame(e))
    return [Solid(body, tube(path, radius * u), colour), Solid(body, head, colour)]


def hub(element, scene) -> tuple[str, np.ndarray]:
    """Return the point (body, point) of a joint between the bodies of an element, else the origin of body i."""
    for other in scene.mech.constraints.values():
        if {other.i, other.j} == {element.i, element.j} and attachments(other, 3):
            return next((body, point) for body, point in attachments(other, 3) if body == element.i)
    return element.i, np.zeros(3)


@singledispatch
def symbol(element: Any, scene: Any) -> Shapes:
    """Return the symbol of an element; by default its points."""
    return points_of(element, scene)


@symbol.register
def _(element: spatial.Revolute, scene):
    """Return a revolute joint: a pin on body j in a sleeve, with stands on the ground."""
    u, (body, point, axes) = scene.unit, carrier(element)[1]
    pin = Solid(body, cylinder(0.75 * u, 5 * u).at(point, axes), STEEL)
    sleeve = Solid(body, cylinder(1.35 * u, 2.8 * u).at(point, axes), scene.colours[body])
    return [*feet(element, scene), pin, sleeve, *points_if_apart(element, scene)]


@symbol.register
def _(element: spatial.Prismatic, scene):
    """Return a prismatic joint: a square rail and a block on it."""
    u, (body, point, axes) = scene.unit, carrier(element)[1]
    block = Solid(body, box((3 * u, 3 * u, 4.6 * u)).at(point, axes), colour_of_block(body, scene))
    section = extrusion(np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * 0.75 * u, np.linspace(-0.5, 0.5, 8))
    return [*guide(element, scene, section, 5 * u), block]


@symbol.register
def _(element: spatial.Cylindrical, scene):
    """Return a cylindrical joint: a round rail, and a sleeve with two collars on it."""
    u, (body, point, axes) = scene.unit, carrier(element)[1]
    sleeve = Solid(body, cylinder(1.5 * u, 4.6 * u).at(point, axes), colour_of_block(body, scene))
    collars = [
        Solid(body, washer(1.8 * u, 1.2 * u, 0.6 * u).at(point + s * u * axes[:, 2], axes), STEEL) for s in (-2, 2)
    ]
    return [*guide(element, scene, None, 5 * u), sleeve, *collars]


@symbol.register
def _(element: spatial.Screw, scene):
    """Return a screw joint: a rail with a thread of its pitch, and a nut on it."""
    return [*guide(element, scene, None, 5 * scene.unit), *thread_and_nut(element, scene)]


@symbol.register
def _(element: spatial.Thread, scene):
    """Return a thread of its pitch with a nut on it."""
    return thread_and_nut(element, scene)


def thread_and_nut(element, scene) -> Shapes:
    """Return a helix of an element's pitch on one body, and a nut on the other."""
    u, ((rail, origin, axes), (body, point, other)) = scene.unit, carrier(element)
    start, stop = travel(element, scene, 5 * u)
    start, stop = (start, stop) if rail == GROUND else (min(start, 0.0), max(stop, 0.0))
    pitch = float(element.pitch)
    rise = np.sign(pitch) * np.clip(abs(pitch), *(x * u for x in THREAD_PITCHES))
    thread = helix(0.62 * u, (stop - start) / rise, stop - start, points_per_turn=10)
    nut = cylinder(1.9 * u, 2.4 * u, count=6)
    return [
        Solid(rail, tube(thread, 0.26 * u, count=4).at(origin + start * axes[:, 2], axes), INK),
        Solid(body, nut.at(point, other), colour_of_block(body, scene)),
    ]


@symbol.register
def _(element: spatial.Spherical, scene):
    """Return a spherical joint: a ball at its point."""
    body, point, _ = carrier(element)[1]
    return [
        *feet(element, scene),
        Solid(body, ball(1.45 * scene.unit).at(point), STEEL),
        *points_if_apart(element, scene),
    ]


@symbol.register
def _(element: spatial.Universal, scene):
    """Return a universal joint: a cross along the axes on both bodies, with a cap of its body's colour at each end."""
    u = scene.unit
    shapes = [*feet(element, scene), *points_if_apart(element, scene)]
    for (body, point), axis in zip(attachments(element, 3), (element.axis_i, element.axis_j), strict=True):
        axes = frame(np.asarray(axis, float))
        shapes.append(Solid(body, cylinder(0.5 * u, 5.2 * u, count=12).at(point, axes), STEEL))
        caps = [cylinder(0.95 * u, 0.9 * u, count=12).at(point + s * u * axes[:, 2], axes) for s in (-2.4, 2.4)]
        shapes += [Solid(body, cap, scene.colours[body]) for cap in caps]
    return [*shapes, Solid(body, ball(0.85 * u).at(point), STEEL)]


@symbol.register
def _(element: spatial.ConstantVelocity, scene):
    """Return the symbol of a `ConstantVelocity` joint: a ball on body i in a ring on body j."""
    u = scene.unit
    shapes = [*feet(element, scene), *points_if_apart(element, scene)]
    for k, (body, point, axes) in enumerate(joint_frames(element)):
        # A bell on one shaft, a ring on the other.
        mesh = ball(1.5 * u) if k == 0 else washer(2.0 * u, 1.3 * u, 0.8 * u)
        shapes.append(Solid(body, mesh.at(point, axes), STEEL if k == 0 else rail_colour(body, scene)))
    return shapes


@symbol.register
def _(element: spatial.Planar, scene):
    """Return a planar joint: a plate on one body as large as the other's range, and a disc on it."""
    u, ((rail, origin, axes), (body, point, other)) = scene.unit, carrier(element)
    places = (scene.local(rail, scene.world(body, point)) - origin) @ axes
    lower, upper = places[:, :2].min(0) - 4 * u, places[:, :2].max(0) + 4 * u
    side = 0.5 * u
    table = box((*(upper - lower), 2 * side)).at(origin + axes @ [*((lower + upper) / 2), -side], axes)
    puck = cylinder(1.6 * u, u).at(point + 0.5 * u * other[:, 2], other)
    return [Solid(rail, table, rail_colour(rail, scene), 0.45), Solid(body, puck, colour_of_block(body, scene))]


@symbol.register
def _(element: spatial.Rigid, scene):
    """Return a rigid joint: a small block at its point."""
    u, (body, point, axes) = scene.unit, carrier(element)[1]
    block = Solid(body, box((2.4 * u,) * 3).at(point, axes), STEEL)
    return [*feet(element, scene), block, *points_if_apart(element, scene)]


@symbol.register
def _(element: spatial.Free, scene):
    """Return no shapes: a free joint holds nothing."""
    return []


@symbol.register
def _(element: SixComponents, scene):
    """Return a joint of six components: a ball, and arrows along the axes, thin if free, coloured if driven."""
    u, ((i, origin, axes), (j, point, _)) = scene.unit, joint_frames(element)
    shapes: Shapes = [Solid(j, ball(0.9 * u).at(point), STEEL)]
    # Free components are thin, prescribed ones have the colour of drivers.
    for k, colour in enumerate(AXIS_COLOURS):
        driven = element.position[k] is not None or element.orientation[k] is not None
        held = element.held[k] or element.held[3 + k]
        path = origin + np.outer([0, 2.2, 4.4], u * axes[:, k])
        shapes += arrow(i, path, scene, ACCENT if driven else colour, 0.3 if held else 0.14)
    return [*feet(element, scene), *shapes]


@symbol.register
def _(element: spatial.Distance, scene):
    """Return a distance constraint: a bar between two balls."""
    places = attachments(element, 3)
    body_ends = [Solid(body, ball(0.95 * scene.unit).at(point), STEEL) for body, point in places]
    start, end = places
    return [*feet(element, scene), Span((start, end), bar_of_span(0.42 * scene.unit), INK), *body_ends]


@symbol.register
def _(element: spatial.AxisDistance, scene):
    """Return a point at a distance from an axis: a transparent tube about the axis, and a ball at the point."""
    u, ((i, origin, axes), (j, point, _)) = scene.unit, joint_frames(element)
    along = (scene.local(i, scene.world(j, point)) - origin) @ axes[:, 2]
    lower, upper = min(along.min(), 0.0) - u, max(along.max(), 0.0) + u
    tube_of_points = cylinder(float(element.distance), upper - lower).at(
        origin + (lower + upper) / 2 * axes[:, 2], axes
    )
    return [Solid(i, tube_of_points, rail_colour(i, scene), 0.3), Solid(j, ball(0.95 * u).at(point), STEEL)]


@symbol.register
def _(element: spatial.RackPinion, scene):
    """Return a bar along the pitch line of a rack, and a disc as large as the pinion's pitch circle."""
    u, ((i, origin, axes), (j, point, other)) = scene.unit, joint_frames(element)
    radius = float(element.radius_j)
    along = (scene.local(i, scene.world(j, point)) - origin) @ axes[:, 0]
    lower, upper = min(along.min(), 0.0) - abs(radius), max(along.max(), 0.0) + abs(radius)
    bar = box((upper - lower, u, 2 * u)).at(origin + (lower + upper) / 2 * axes[:, 0], axes)
    pinion = cylinder(abs(radius), 1.5 * u).at(point, other)
    return [Solid(i, bar, rail_colour(i, scene)), Solid(j, pinion, colour_of_block(j, scene))]


@symbol.register
def _(element: spatial.Gear, scene):
    """Return a gear pair: two toothed wheels that mesh, one of them inside the other if its radius is negative."""
    pair = wheels(element, scene.poses)
    signs = [1 if wheel.radius > 0 else -1 for wheel in pair]
    marks = [float(angle) for angle in element.marks]
    # A gear inside a ring touches it on the same side of both centres, beyond its own centre.
    marks = [mark + (np.pi if signs[1 - k] < 0 else 0) for k, mark in enumerate(marks)]
    new = [wheel.key not in scene.teeth for wheel in pair]
    first, second = (1, 0) if new[0] and not new[1] else (0, 1)
    tooth = scene.teeth.setdefault(pair[first].key, marks[first])
    # At the point of contact a gap faces a tooth: R_i (α_i − θ_i) + R_j (α_j − θ_j) = 0 from tooth to gap.
    met = marks[second] - pair[first].radius / pair[second].radius * (tooth - marks[first])
    count = teeth(pair[second].radius, scene.tooth_pitch)
    scene.teeth.setdefault(pair[second].key, met + np.pi / count)
    width = max(2.2 * scene.unit, 0.8 * scene.tooth_pitch)
    return [
        Solid(wheel.body, mesh, colour_of_block(wheel.body, scene))
        for wheel, is_new in zip(pair, new, strict=True)
        if is_new
        for mesh in wheel_mesh(wheel, scene.teeth[wheel.key], scene.tooth_pitch, width)
    ]


@symbol.register
def _(element: spatial.WormGear, scene):
    """Return a worm, a cylinder with its thread as long as the wheel is wide, and a disc as large as the wheel."""
    u, ((i, origin, axes), (j, point, other)) = scene.unit, joint_frames(element)
    worm, wheel, pitch = float(element.radius_i), float(element.radius_j), float(element.pitch)
    length = abs(worm) + abs(wheel) / 2
    rise = np.sign(pitch) * np.clip(abs(pitch), *(x * u for x in THREAD_PITCHES))
    thread = tube(helix(abs(worm), length / rise, length, points_per_turn=10), 0.26 * u, count=4)
    return [
        Solid(i, cylinder(0.9 * abs(worm), length).at(origin, axes), STEEL),
        Solid(i, thread.at(origin - length / 2 * axes[:, 2], axes), INK),
        Solid(j, cylinder(abs(wheel), 1.5 * u).at(point, other), colour_of_block(j, scene)),
    ]


@attachments.register
def _(element: spatial.RevoluteDriver, dimension=3):
    """Return no points: a `RevoluteDriver` has none of its own."""
    return []


@symbol.register
def _(element: spatial.RevoluteDriver, scene):
    """Return the symbol of a `RevoluteDriver`: a curved arrow about its axis in the sense of its motion."""
    u, axes = scene.unit, np.asarray(element.axes_i, float)
    body, centre = hub(element, scene)
    start, stop = np.deg2rad([-40, 210]) if sense(element, scene.t) > 0 else np.deg2rad([220, -30])
    angles = np.linspace(start, stop, 22)
    circle = u * np.column_stack([3 * np.cos(angles), 3 * np.sin(angles), np.full(len(angles), 2.2)])
    return arrow(body, centre + circle @ axes.T, scene)


@symbol.register
def _(element: spatial.TranslationalDriver, scene):
    """Return the symbol of a `TranslationalDriver`: an arrow along its axis in the sense of its motion."""
    u, ((i, _, axes), (j, point, _)) = scene.unit, joint_frames(element)
    middle = scene.local(i, scene.world(j, point))[0] + 3 * u * axes[:, 0]
    reach = sense(element, scene.t) * 2.5 * u * axes[:, 2]
    return arrow(i, middle + np.outer([-1, 0, 1], reach), scene)


@symbol.register
def _(element: spatial.DistanceDriver, scene):
    """Return the symbol of a `DistanceDriver`: a hydraulic cylinder between its points."""
    start, end = places = attachments(element, 3)
    u = scene.unit
    pistons: Shapes = [
        Span((start, end), bar_of_span(0.45 * u, 0, 0.08), STEEL),
        Span((start, end), bar_of_span(0.95 * u, 0.08, 0.58), ACCENT),
        Span((start, end), bar_of_span(0.45 * u, 0.58, 1), STEEL),
    ]
    return [*feet(element, scene), *pistons, *(Solid(body, ball(0.95 * u).at(point), STEEL) for body, point in places)]


@symbol.register
def _(element: forces.AbstractSpringDamper, scene):
    """Return the symbol of a spring-damper: a coil if it has a stiffness or a force, a cylinder if it has a damper."""
    start, end = places = attachments(element, 3)
    u, parts = scene.unit, []
    if element.stiffness is not None or element.force is not None:
        # The wire is round at the mean length.
        length = float(np.mean(np.linalg.norm(scene.world(*end) - scene.world(*start), axis=-1))) or u
        coil = tube(helix(1.1 * u, COIL_TURNS, 0.76 * length), 0.2 * u, count=5).at((0, 0, 0.12 * length))
        parts.append((Mesh(coil.points / [1, 1, length], coil.faces), INK))
        parts += [(bar_of_span(0.25 * u, 0, 0.12), INK), (bar_of_span(0.25 * u, 0.88, 1), INK)]
    if element.damping is not None:
        parts += [(bar_of_span(0.3 * u, 0.5, 1), STEEL), (bar_of_span(0.65 * u, 0, 0.5), GROUND_COLOUR)]
    if element.stiffness is None and element.force is None and element.actuator is not None:
        parts += [(bar_of_span(0.45 * u, 0.55, 1), STEEL), (bar_of_span(0.8 * u, 0, 0.55), ACCENT)]
    dots = [Solid(body, ball(0.7 * u, count=12).at(point), INK) for body, point in places]
    return [*feet(element, scene), *(Span((start, end), mesh, colour) for mesh, colour in parts), *dots]


@symbol.register
def _(element: forces.AbstractTorsionSpring, scene):
    """Return the symbol of a torsion spring: a coil about its axis."""
    u, (body, centre) = scene.unit, hub(element, scene)
    axes = np.eye(3) if element.axis_i is None else frame(np.asarray(element.axis_i, float))
    coil = helix(1.75 * u, 3.5, 2.6 * u) - [0, 0, 1.3 * u]
    return [Solid(body, tube(coil, 0.22 * u, count=5).at(centre, axes), INK)]
