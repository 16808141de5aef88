"""A mechanism as a drawing that a web page places: outlines relative to anchors, which move with bodies and lengths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs import planar, spatial
from jaxmbs.element import GROUND
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz.attachments import attachments, numbers
from jaxmbs.viz.dimension import scene_of
from jaxmbs.viz.planar.shapes import BODY_LAYER, GROUND_LAYER, JOINT_LAYER, Shape, Style, arc, svg_style
from jaxmbs.viz.planar.symbols import arrow, pin, pivot
from jaxmbs.viz.style import ACCENT, GROUND_COLOUR, INK, PALETTE, PAPER

# Pixels in a typographic point, the unit of the widths of lines.
PIXELS_PER_POINT = 1.2
# Size of the symbols, 1 for that of still pictures; pages are also read on phones.
SYMBOL_SCALE = 1.4
# Joints of the plane in which a point slides along a line, which is drawn as long as the motion needs it.
PLANAR_SLIDES = (planar.Translational, planar.RevoluteTranslational)
# Joints of space in which a body slides along the axis.
SPATIAL_SLIDES = (spatial.Prismatic, spatial.Cylindrical, spatial.Screw)
# Joints of space with an axis about which a body turns.
SPATIAL_HINGES = (spatial.Revolute,)


class Anchor(NamedTuple):
    """A place on a body, relative to which shapes are drawn.

    Attributes:
        owner: name of the element whose point it is; "" for centres of mass and origins.
        body: name of the body, or "ground".
        point: (d,), in the frame of the body.
        axis: (d,), a direction in the frame of the body.
        size: a length in proportion to which shapes are drawn, such as the radius of a gear.
    """

    owner: str
    body: str
    point: Any
    axis: Any
    size: Any


def anchors(mech: Mechanism) -> list[Anchor]:
    """Return the anchors of a mechanism, whose numbers may be traced: points of elements, centres of mass, the origin."""
    d = mech.layout.dimension
    found = []
    for name, element in {**mech.constraints, **mech.drivers, **mech.forces}.items():
        for body, point in attachments(element, d):
            side = "i" if body == getattr(element, "i", None) else "j"
            radius: Any = getattr(element, f"radius_{side}", None)
            found.append(Anchor(name, body, point, _axis(element, side, d), 1.0 if radius is None else jnp.abs(radius)))
    found += [Anchor("", name, numbers(body.com), np.eye(d)[0], 1.0) for name, body in mech.bodies.items()]
    return [*found, Anchor("", GROUND, np.zeros(d), np.eye(d)[0], 1.0)]


def _axis(element: Any, side: str, dimension: int) -> Any:
    """Return the axis of an element on one of its bodies: x in the plane and z in space if it has none."""
    if dimension == 3:
        axes = getattr(element, f"axes_{side}", None)
        return np.eye(3)[2] if axes is None else axes[:, 2]
    axis = getattr(element, f"axis_{side}", None)
    return np.eye(2)[0] if axis is None else numbers(axis)


def anchor_arrays(mech: Mechanism) -> tuple[Array, Array, Array]:
    """Return points (K, d), axes (K, d) and sizes (K,) of the anchors of a mechanism."""
    rows = zip(*((x.point, x.axis, x.size) for x in anchors(mech)), strict=True)
    points, axes, sizes = (jnp.stack([jnp.asarray(x) for x in row]) for row in rows)
    return points, axes, sizes


class Sketch:
    """The drawing of a mechanism, from its configurations q (F, n).

    Attributes:
        scene: the mechanism in these configurations.
        anchors: its anchors.
        unit: unit of length of the symbols.
        view: (2, d), directions to the right and up in the picture.
    """

    def __init__(self, mech: Mechanism, q, view: tuple[float, float] | None = None):
        self.scene = scene_of(mech, q, 0.0, marked=(), size=SYMBOL_SCALE, view=view)
        self.mech, self.unit = mech, self.scene.unit
        self.anchors = [anchor._replace(size=float(anchor.size)) for anchor in anchors(mech)]
        self.view = np.eye(2) if mech.layout.dimension == 2 else _view(self.scene.view)

    def drawing(self) -> dict[str, Any]:
        """Return all that the page draws, as dicts, lists, numbers and texts that JSON can hold."""
        flat = self.mech.layout.dimension == 2
        bodies = [*self.mech.bodies]
        shapes = self._planar_shapes() if flat else self._spatial_shapes()
        return {
            "bodies": [{"name": name, "colour": _colour(self.scene.colours[name])} for name in bodies],
            "anchors": [bodies.index(x.body) if x.body != GROUND else -1 for x in self.anchors],
            "plates": [self.plate(name) for name in bodies],
            "shapes": sorted(shapes, key=lambda shape: shape["layer"]),
            "transmissions": self._transmissions() if flat else [],
            "view": self.view.tolist(),
            "body_layer": BODY_LAYER,
            "unit": self.unit,
        }

    def plate(self, name: str) -> dict[str, Any]:
        """Return the plate of a body: the anchors round which it is drawn, also the centre of mass if there is only one."""
        held = [k for k, x in enumerate(self.anchors) if x.body == name and x.owner]
        points = np.array([self.anchors[k].point for k in held])
        if not held or np.ptp(points, axis=0).max() < self.unit / 100:
            held += [k for k, x in enumerate(self.anchors) if x.body == name and not x.owner]
        return {"anchors": held, "radius": 1.15 * self.unit}

    def _nearest(self, body: str, point, owner: str | None = None) -> int:
        """Return the index of the anchor on a body nearest to a point, among those of an element if it has any there."""
        known = [k for k, x in enumerate(self.anchors) if x.body == body]
        known = [k for k in known if self.anchors[k].owner == owner] or known
        return min(known, key=lambda k: float(np.linalg.norm(np.asarray(self.anchors[k].point) - point)))

    def _planar_shapes(self):
        """Yield the symbols of planar elements."""
        for name, symbols in self.scene.symbols.items():
            track = self._track(name)
            for shape in symbols:
                entry = {"layer": shape.style.layer, "closed": shape.style.closed, "style": _style(shape.style)}
                if isinstance(shape, Shape):
                    k = self._nearest(shape.body, shape.points.mean(axis=0), name)
                    point, axis = (np.asarray(x, float) for x in self.anchors[k][2:4])
                    e = axis / np.linalg.norm(axis)
                    local = (shape.points - point) @ np.array([e, [-e[1], e[0]]]).T
                    entry |= {"anchor": k, "points": _round(local / self.anchors[k].size, self.unit)}
                    # The line of a slide is as long as the motion needs it.
                    entry |= {"track": track} if track and k == track["line"] else {}
                else:
                    ends = [self._nearest(body, np.asarray(point), name) for body, point in shape.ends]
                    entry |= {"ends": ends, "points": np.round(shape.points, 9).tolist()}
                yield entry

    def _track(self, name: str) -> dict[str, Any]:
        """Return the anchors of the line and of the follower of a slide; {} for other elements."""
        element = self.scene.elements[name]
        if not isinstance(element, PLANAR_SLIDES + SPATIAL_SLIDES):
            return {}
        i, j = (
            next(k for k, x in enumerate(self.anchors) if (x.owner, x.body) == (name, body)) for body in _sides(element)
        )
        return {"line": i, "follower": j}

    def _spatial_shapes(self):
        """Yield the symbols of spatial elements: pins, short lines along axes, lines of slides, stands on the ground."""
        u, drawn = self.unit, SimpleNamespace(unit=self.unit, pivots=set(), colours=self.scene.colours)
        flat = lambda shape, k: {
            "layer": shape.style.layer, "closed": shape.style.closed, "style": _style(shape.style),
            "anchor": k, "points": _round(shape.points, u), "screen": True,
        }  # fmt: skip
        for name, element in self.scene.elements.items():
            held = [k for k, x in enumerate(self.anchors) if x.owner == name]
            if name in self.mech.drivers and not isinstance(element, spatial.DistanceDriver):
                k = self._nearest(element.i, self._joint_point(element), None)
                for shape in arrow(GROUND, arc(np.zeros(2), 3.1 * u, *np.deg2rad([-40, 200])), drawn):
                    yield flat(shape, k)
                continue
            if name in self.mech.forces:
                continue
            slides = isinstance(element, SPATIAL_SLIDES)
            for k in held:
                if self.anchors[k].body == GROUND and not slides:
                    drawn.pivots.clear()
                    for shape in pivot(np.zeros(2), drawn):
                        yield flat(shape, k)
            if slides:
                line = Style(closed=False, edge=GROUND_COLOUR, width=2.0, layer=GROUND_LAYER)
                track = self._track(name)
                yield _span(line, [0.0, 0.0], track=track, margin=5 * u)
                colour = self.scene.colours[self.anchors[track["follower"]].body]
                block = Style(face=colour, edge=colour, opacity=0.55)
                yield _span(block, [-1.75 * u, 1.75 * u], axis=track["follower"], reach=3 * u)
                continue
            if isinstance(element, SPATIAL_HINGES):
                axle = Style(face=PAPER, edge=INK, width=1.3, layer=JOINT_LAYER)
                yield _span(axle, [-0.55 * u, 0.55 * u], axis=held[0], reach=2.4 * u)
            if len(held) == 2 and isinstance(element, (spatial.Distance, spatial.DistanceDriver)):
                colour = ACCENT if name in self.mech.drivers else INK
                yield _span(Style(face=colour, edge=colour, opacity=0.6), [-0.45 * u, 0.45 * u], ends=held)
            for k in (
                held if len(held) != 2 or isinstance(element, (spatial.Distance, spatial.DistanceDriver)) else held[:1]
            ):
                yield flat(pin(GROUND, np.zeros(2), drawn), k)

    def _joint_point(self, driver) -> np.ndarray:
        """Return the point on body i of the joint between the bodies of a driver; the origin if there is none."""
        for x in self.anchors:
            joint = self.mech.constraints.get(x.owner)
            if x.body == driver.i and joint is not None and {joint.i, joint.j} == {driver.i, driver.j}:
                return np.asarray(x.point, float)
        return np.zeros(3)

    def _transmissions(self) -> list[dict[str, Any]]:
        """Return the anchors that make up each transmission angle.

        It is the angle between a link with two pins and the lever of the output on the ground that it pushes; for a slide,
        between the link and the normal of the slide.
        """
        joints = self.mech.constraints
        drivers = [*self.mech.drivers.values(), *(joint for joint in joints.values() if joint.motions)]
        driven = {body for x in drivers for body in (x.i, x.j)} - {GROUND}
        # Number of joints between each body and the nearest one that is driven.
        depth = dict.fromkeys(driven, 0)
        for level in range(len(self.mech.bodies)):
            for joint in joints.values():
                for a, b in ((joint.i, joint.j), (joint.j, joint.i)):
                    if depth.get(a) == level and b not in (GROUND, *depth):
                        depth[b] = level + 1
        find = lambda name, body: next(k for k, x in enumerate(self.anchors) if (x.owner, x.body) == (name, body))
        links = [
            [(name, joint.i), (name, joint.j)] for name, joint in joints.items() if isinstance(joint, planar.Distance)
        ]
        for body in set(self.mech.bodies) - driven:
            own = [(name, x) for name, x in joints.items() if body in (x.i, x.j)]
            if len(own) == 2 and all(isinstance(x, planar.Revolute) for _, x in own):
                links.append([(name, x.i if x.j == body else x.j) for name, x in own])
        found = []
        for ends in sorted(links):
            if GROUND in (ends[0][1], ends[1][1]) or not all(body in depth for _, body in ends):
                continue
            (_, first), (_, output) = ends = sorted(ends, key=lambda end: depth[end[1]])
            if depth[first] == depth[output]:
                continue
            for name, joint in joints.items():
                kinds = (planar.Revolute, planar.Translational)
                if {joint.i, joint.j} == {output, GROUND} and isinstance(joint, kinds):
                    slides = isinstance(joint, planar.Translational)
                    found.append({"link": [find(*end) for end in ends], "on": find(name, output), "slides": slides})
        return found


def _sides(element) -> tuple[str, str]:
    """Return the body of the line of a slide, and that of the follower."""
    swapped = isinstance(element, planar.Translational) and element.j == GROUND
    return (element.j, element.i) if swapped else (element.i, element.j)


def _view(camera) -> np.ndarray:
    """Return the directions to the right and up in the picture of a camera, (2, 3)."""
    right = np.cross(camera.up, camera.direction)
    right /= np.linalg.norm(right)
    return np.array([right, np.cross(camera.direction, right)])


def _span(style: Style, sides: list[float], **ends: Any) -> dict[str, Any]:
    """Return a line or a bar between two places, as wide as the distance of its `sides`."""
    low, high = sides
    points = [[0, 0, low], [1, 0, low], [1, 0, high], [0, 0, high]] if style.closed else [[0, 0, 0], [1, 0, 0]]
    return {"layer": style.layer, "closed": style.closed, "style": _style(style), "points": points, **ends}


def _style(style: Style) -> dict[str, str | float]:
    """Return a style as properties of SVG, with the colours of the page."""
    own = svg_style(style, PIXELS_PER_POINT)
    return own | {key: _colour(str(own[key])) for key in ("fill", "stroke")}


def _colour(colour: str) -> str:
    """Return a colour of the package as a variable of the page, which has a light and a dark scheme."""
    names = {PAPER: "paper", INK: "ink", GROUND_COLOUR: "ground", ACCENT: "accent"}
    names |= {each: f"body-{k}" for k, each in enumerate(PALETTE)}
    return f"var(--{names[colour]})" if colour in names else colour


def _round(points: np.ndarray, unit: float) -> list:
    """Return points as lists, rounded to thousandths of the unit of the symbols."""
    return np.round(points, max(int(np.ceil(3 - np.log10(unit))), 0)).tolist()
