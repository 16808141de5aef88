"""Planar linkages as lines: pins, bars between the pins of a body, slides, the traced point and its curve."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.results.case import Case
from jaxmbs.io.results.entities import distance, unit_vector

# Pins of a body count as one if their distance, divided by the size of the linkage, is smaller.
SAME_PIN = 1e-9


class Pin(NamedTuple):
    """A place about which bodies turn relative to each other."""

    name: str
    bodies: tuple[str, ...]
    place: np.ndarray


class Bar(NamedTuple):
    """The straight line between two pins of a body."""

    body: str
    pins: tuple[str, str]
    ends: np.ndarray

    @property
    def length(self) -> float:
        """Distance of its pins."""
        return distance(self.ends)

    @property
    def angle(self) -> float:
        """Angle from the x axis in radians."""
        return float(np.arctan2(*(self.ends[1] - self.ends[0])[::-1]))


class Slide(NamedTuple):
    """A line of the first body along which the second one moves; its direction has length 1."""

    name: str
    bodies: tuple[str, str]
    place: np.ndarray
    direction: np.ndarray


class Offset(NamedTuple):
    """The perpendicular from a pin of the first body of a slide to the line of the slide."""

    slide: Slide
    pin: str
    ends: np.ndarray


class GearRadius(NamedTuple):
    """A gear, or the pinion of a rack, on a body."""

    name: str
    body: str
    radius: float


class Skeleton(NamedTuple):
    """A planar linkage as lines, at the first time that it reaches.

    Attributes:
        pins: all pins.
        bars: lines between the pins of each body.
        slides: all slides.
        gears: all gears and pinions.
        point: place of the traced point, or None.
        point_body: name of its body.
        point_axes: names of two pins of this body, from the first to the second of which the x axis of `coordinates`
            points; () if it has fewer pins, and the axes are those of the body.
        coordinates: coordinates of the traced point in these axes, (2,).
        curve: its path, (T, 2), NaN where the motion failed.
        targets: places that it should pass, (K, 2).
        error: error of the solution, or None.
    """

    pins: list[Pin]
    bars: list[Bar]
    slides: list[Slide]
    gears: list[GearRadius]
    point: np.ndarray | None
    point_body: str
    point_axes: tuple[str, ...]
    coordinates: np.ndarray
    curve: np.ndarray
    targets: np.ndarray
    error: float | None

    def pins_of(self, body: str) -> list[Pin]:
        """Return the pins of a body."""
        return [pin for pin in self.pins if body in pin.bodies]

    @property
    def offsets(self) -> list[Offset]:
        """Perpendiculars from pins to the slides of their bodies."""
        out = []
        for slide in self.slides:
            for pin in self.pins_of(slide.bodies[0]):
                foot = slide.place + slide.direction * (slide.direction @ (pin.place - slide.place))
                out.append(Offset(slide, pin.name, np.array([pin.place, foot])))
        return out

    @property
    def extent(self) -> np.ndarray:
        """All places (N, 2) that a drawing must show."""
        places = [pin.place for pin in self.pins] + [slide.place for slide in self.slides]
        places += [] if self.point is None else [self.point]
        every = np.vstack([np.reshape(places, (-1, 2)), self.curve, self.targets])
        return every[np.all(np.isfinite(every), axis=1)]

    @property
    def arms(self) -> list[np.ndarray]:
        """The lines (2, 2) from the first two pins of its body to the traced point."""
        if self.point is None:
            return []
        pins = self.pins_of(self.point_body)[:2]
        return [np.array([pin.place, self.point]) for pin in pins if np.any(pin.place != self.point)]

    @property
    def point_name(self) -> str:
        """The name of the traced point: P, unless a pin has it."""
        taken = {pin.name for pin in self.pins}
        return next(name for name in ("P", "P′", "P″", "traced point") if name not in taken)

    @property
    def curve_parts(self) -> list[np.ndarray]:
        """The unbroken parts of the curve."""
        good = np.all(np.isfinite(self.curve), axis=1)
        cuts = np.flatnonzero(np.diff(good.astype(int))) + 1
        return [part for part in np.split(self.curve, cuts) if len(part) > 1 and np.all(np.isfinite(part))]


def skeleton_of(case: Case) -> Skeleton:
    """Return the skeleton of a planar solution; raise `ValueError` if no time is reached or no joint is a pin."""
    mech = case.mechanism
    if not case.good.any():
        raise ValueError("solution: there is nothing to draw: the motion failed at all times")
    row = int(np.argmax(case.good))
    poses = mech.poses(np.asarray(case.motion.q)[row])
    pins = _merge_pins(_pins(mech, poses))
    slides, gears = _slides(mech, poses), _gears(mech)
    if not pins:
        raise ValueError("solution: there is nothing to draw: no joint of the mechanism is a pin")
    bars = [bar for body in (GROUND, *mech.bodies) for bar in _bars(body, [p for p in pins if body in p.bodies])]
    empty = np.zeros((0, 2))
    targets = empty if case.targets is None else case.targets
    error = getattr(case.solution, "error", None)
    error = None if error is None else float(error)
    curve = case.curve
    if case.point is None or curve is None:
        return Skeleton(pins, bars, slides, gears, None, "", (), np.zeros(2), empty, targets, error)
    body, local = case.point
    place = np.asarray(poses[body].point(local))
    own = [pin for pin in pins if body in pin.bodies][:2]
    if len(own) == 2:
        along = unit_vector(np.array([own[0].place, own[1].place]))
        away = place - own[0].place
        local = np.array([along @ away, along[0] * away[1] - along[1] * away[0]])
    axes = tuple(pin.name for pin in own) if len(own) == 2 else ()
    return Skeleton(pins, bars, slides, gears, place, body, axes, local, curve, targets, error)


def _pins(mech, poses) -> list[Pin]:
    """Return a pin for each point that two bodies have in common."""
    out = []
    for name, joint in mech.constraints.items():
        for k, (point_i, _) in enumerate(joint.shared.points):
            label = name if len(joint.shared.points) == 1 else f"{name}{k + 1}"
            out.append(Pin(label, (joint.i, joint.j), np.asarray(poses[joint.i].point(point_i))))
    return out


def _merge_pins(pins: list[Pin]) -> list[Pin]:
    """Return the pins, with those of a common body in one place as one pin of all their bodies."""
    size = max((np.abs(a.place - b.place).max() for a in pins for b in pins), default=0.0)
    out: list[Pin] = []
    for pin in pins:
        for k, other in enumerate(out):
            if set(pin.bodies) & set(other.bodies) and np.abs(pin.place - other.place).max() <= SAME_PIN * size:
                out[k] = Pin(other.name, tuple(dict.fromkeys(other.bodies + pin.bodies)), other.place)
                break
        else:
            out.append(pin)
    return out


def _bars(body: str, pins: list[Pin]) -> list[Bar]:
    """Return as many bars as make the pins of a body rigid: between the first two, and from these to all others."""
    pairs = [(0, 1)] * (len(pins) > 1) + [(k, n) for n in range(2, len(pins)) for k in (0, 1)]
    return [Bar(body, (pins[k].name, pins[n].name), np.array([pins[k].place, pins[n].place])) for k, n in pairs]


def _slides(mech, poses) -> list[Slide]:
    """Return a slide for each joint with one translation."""
    out = []
    for name, joint in mech.constraints.items():
        mobility = None if joint.freedom is None else joint.mobility
        if mobility is not None and np.shape(mobility.slides) == (2, 1):
            place, along = poses[joint.i].point(mobility.point_i), poses[joint.i].direction(mobility.slides[:, 0])
            out.append(Slide(name, (joint.i, joint.j), np.asarray(place), np.asarray(along) / np.hypot(*along)))
    return out


def _gears(mech) -> list[GearRadius]:
    """Return all gears and pinions. Internal gears have a negative radius."""
    return [
        GearRadius(name, getattr(joint, side), float(getattr(joint, f"radius_{side}")))
        for name, joint in mech.constraints.items()
        for side in ("i", "j")
        if getattr(joint, f"radius_{side}", None) is not None
    ]
