"""Every planar element in a small assembled mechanism whose design parameters are all the numbers of the element.

A new element is one entry of `CATALOGUE`, and one formula in `planar_formulas`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxmbs as mbs
from jaxmbs import planar

# Times at which elements are evaluated.
TIMES = (0.2, 0.3, 0.45)


def _usable(options):
    """Return `options` if the compiler knows them, else none."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(0.0)
    except Exception:
        return {}
    return options


# Options of the compiler: each element runs a few times only, and compiling without optimisation takes a third of the
# time.
QUICKLY = _usable({"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False})
quick_jit = functools.partial(jax.jit, compiler_options=QUICKLY)

# Motion of the first body: coefficients of rising powers of time, by coordinate.
FIRST = {"x": (0.1, 0.3), "y": (-0.2, 0.25, 0.1), "phi": (0.4, 0.9, 0.2)}
# Motion of those coordinates of the second body that are driven: coefficients of rising powers of time.
SECOND = {"x": (1.3, -0.4, 0.3), "y": (0.9, 0.2, -0.1), "phi": (-0.5, 0.7, 0.4)}


class Entry(NamedTuple):
    """An element, and what completes it to a mechanism of one body ("second") or two ("first" and "second").

    Attributes:
        element: design parameters → the element, a constraint or a driver.
        b: the design parameters.
        guess: rough pose of the second body.
        driven: coordinates of the second body that are driven besides.
        contact: rough values of the element's extra coordinates.
        also: design parameters → other constraints that the element needs.
    """

    element: Callable[[Any], Any]
    b: dict
    guess: tuple[float, float, float]
    driven: str = ""
    contact: tuple[float, ...] = ()
    also: Callable[[Any], dict] = lambda b: {}

    @property
    def two_bodies(self) -> bool:
        """Return True if the element connects two bodies; if not, it connects the second one to the ground."""
        return self.element(self.b).i != "ground"

    @property
    def is_driver(self) -> bool:
        """Return True if the element is a driver."""
        return type(self.element(self.b)).__name__.endswith("Driver")

    def build(self, b) -> mbs.Mechanism:
        """Return the mechanism for design parameters b; its element is called "element"."""
        constraints, drivers, bodies = self.also(b), {}, {"second": planar.Body(mass=1.3, inertia=0.4)}
        if self.two_bodies:
            bodies = {"first": planar.Body(), **bodies}
            drivers = {f"first {c}": drive("first", c, powers) for c, powers in FIRST.items()}
        drivers |= {f"second {c}": drive("second", c, SECOND[c]) for c in self.driven.split()}
        (drivers if self.is_driver else constraints)["element"] = self.element(b)
        return mbs.Mechanism(bodies, constraints, drivers)

    def start(self) -> dict:
        """Return a rough configuration of the mechanism."""
        first = {"first": tuple(powers[0] for powers in FIRST.values())} if self.two_bodies else {}
        return first | {"second": self.guess} | ({"element": self.contact} if self.contact else {})


def drive(body: str, coordinate: str, powers):
    """Return a driver of one coordinate of a body's frame by powers of time."""
    motion = mbs.motion.Polynomial(powers)
    if coordinate == "phi":
        return planar.AbsoluteAngleDriver(body, motion)
    return {"x": planar.AbsoluteXDriver, "y": planar.AbsoluteYDriver}[coordinate](body, (0, 0), motion)


def two_body(kind, *names):
    """Return the function b → kind("first", "second", b[name], …)."""
    return lambda b: kind("first", "second", *(b[name] for name in names))


def oval(c, alpha):
    """Return ρ = c₀ + c₁ cos(2α + c₂)."""
    return c[0] + c[1] * jnp.cos(2 * alpha + c[2])


def oval_outline(c):
    """Return an oval whose three numbers are parameters, as an outline."""
    return planar.FunctionOutline(jax.tree_util.Partial(oval, c))


def chirp(c, t):
    """Return c₀ + c₁ sin(c₂ t + t²)."""
    return c[0] + c[1] * jnp.sin(c[2] * t + t**2)


def chirp_motion(c):
    """Return `chirp` as a function of time whose three numbers c are parameters."""
    return mbs.motion.Function(jax.tree_util.Partial(chirp, c))


# Points of elements between two bodies.
PINS = {"point_i": (0.6, 0.3), "point_j": (-0.5, 0.2)}
# Axis of elements with a line on body i.
LINE = {"axis_i": (0.8, 0.5)}
# Rough pose (x, y, φ) of the second body, to the right of and above the first.
ABOVE = (1.2, 0.6, -0.5)
# Numbers of a spline as a function of time.
SPLINE = {"times": (-0.2, 0.1, 0.27, 0.38, 0.6), "values": (0.3, 0.5, 0.6, 0.55, 0.7)}
# Radii of a cam at equal angles, for a spline outline.
CAM = (0.52, 0.5, 0.48, 0.51, 0.53, 0.5)


def gear(b):
    """Return the gear pair of a design."""
    return planar.Gear(
        "first", "second", b["point_i"], b["point_j"], b["radius_i"], b["radius_j"], b["angle_i"], b["angle_j"]
    )


def centre_distance(b):
    """Return a bar that keeps the distance of two gears of a design."""
    # Haug 3.4.1: other constraints hold the centres of the gears apart.
    distance = jnp.abs(b["radius_i"] + b["radius_j"])
    return {"bar": planar.Distance("first", "second", b["point_i"], b["point_j"], distance)}


def rack_pinion(b):
    """Return the rack and pinion of a design."""
    names = ("point_i", "point_j", "axis_i", "radius_j", "angle_i", "angle_j")
    return planar.RackPinion("first", "second", *(b[name] for name in names))


# All planar elements by name.
CATALOGUE = {
    "AbsoluteX": Entry(
        lambda b: planar.AbsoluteX("second", b["point"], b["value"]),
        {"point": (0.4, 0.2), "value": 1.1},
        guess=(0.9, 0.9, -0.5),
        driven="y phi",
    ),
    "AbsoluteY": Entry(
        lambda b: planar.AbsoluteY("second", b["point"], b["value"]),
        {"point": (0.4, 0.2), "value": 1.1},
        guess=(1.3, 1.0, -0.5),
        driven="x phi",
    ),
    "AbsoluteAngle": Entry(
        lambda b: planar.AbsoluteAngle("second", b["value"]), {"value": 0.7}, guess=(1.3, 1.0, 0.5), driven="x y"
    ),
    "AbsoluteDistance": Entry(
        lambda b: planar.AbsoluteDistance("second", b["point"], b["centre"], b["distance"]),
        {"point": (0.4, 0.2), "centre": (0.2, -0.1), "distance": 2.1},
        guess=(1.3, 1.2, -0.5),
        driven="x phi",
    ),
    "RelativeX": Entry(
        two_body(planar.RelativeX, "point_i", "point_j", "offset"), PINS | {"offset": 0.4}, ABOVE, driven="y phi"
    ),
    "RelativeY": Entry(
        two_body(planar.RelativeY, "point_i", "point_j", "offset"), PINS | {"offset": 0.4}, ABOVE, driven="x phi"
    ),
    "RelativeAngle": Entry(two_body(planar.RelativeAngle, "offset"), {"offset": -0.8}, ABOVE, driven="x y"),
    "Distance": Entry(
        two_body(planar.Distance, "point_i", "point_j", "distance"), PINS | {"distance": 1.4}, ABOVE, driven="x phi"
    ),
    "Revolute": Entry(two_body(planar.Revolute, "point_i", "point_j"), PINS, ABOVE, driven="phi"),
    "Translational": Entry(
        two_body(planar.Translational, "point_i", "point_j", "axis_i", "axis_j"),
        PINS | LINE | {"axis_j": (0.9, -0.1)},
        guess=(1.3, 1.0, 1.1),
        driven="x",
    ),
    "RevoluteTranslational": Entry(
        two_body(planar.RevoluteTranslational, "point_i", "point_j", "axis_i", "offset"),
        PINS | LINE | {"offset": 0.3},
        ABOVE,
        driven="x phi",
    ),
    "Gear": Entry(
        gear,
        PINS | {"radius_i": 0.7, "radius_j": 0.5, "angle_i": 0.2, "angle_j": 2.5},
        ABOVE,
        driven="phi",
        also=centre_distance,
    ),
    "Gear, internal": Entry(
        gear,
        PINS | {"radius_i": -1.5, "radius_j": 0.6, "angle_i": 0.1, "angle_j": 2.6},
        ABOVE,
        driven="phi",
        also=centre_distance,
    ),
    "RackPinion": Entry(
        rack_pinion,
        PINS | LINE | {"radius_j": 0.4, "angle_i": 0.2, "angle_j": 5.1},
        ABOVE,
        driven="phi",
    ),
    "CamFollower": Entry(
        lambda b: planar.CamFollower(
            "first", "second", b["point_i"], b["point_j"], planar.SplineOutline(b["radii_i"]), oval_outline(b["oval_j"])
        ),
        {"point_i": (0.2, 0.1), "point_j": (-0.3, -0.2), "radii_i": CAM, "oval_j": (0.4, 0.03, 0.3)},
        guess=(1.2, 0.8, -0.5),
        driven="x phi",
        contact=(0.2, 4.4),
    ),
    "CamFlatFollower": Entry(
        lambda b: planar.CamFlatFollower(
            "first", "second", b["point_i"], b["point_j"], planar.SplineOutline(b["radii_i"]), b["axis_j"]
        ),
        {"point_i": (0.2, 0.1), "point_j": (0.1, -0.2), "radii_i": CAM, "axis_j": (0.9, 0.4)},
        guess=(1.2, 0.6, -0.5),
        driven="x phi",
        contact=(1.0,),
    ),
    "PointFollower": Entry(
        lambda b: planar.PointFollower(
            "first", "second", b["point_i"], b["point_j"], planar.SplineOutline(b["radii_j"])
        ),
        PINS | {"radii_j": CAM},
        guess=(1.2, 0.3, -0.5),
        driven="x phi",
        contact=(3.4,),
    ),
    "AbsoluteXDriver": Entry(
        lambda b: planar.AbsoluteXDriver("second", b["point"], mbs.motion.Harmonic(**b["motion"])),
        {"point": (0.4, 0.2), "motion": {"amplitude": 0.3, "frequency": 2.0, "phase": 0.3, "offset": 1.0}},
        guess=(0.8, 0.9, -0.5),
        driven="y phi",
    ),
    "AbsoluteYDriver": Entry(
        lambda b: planar.AbsoluteYDriver("second", b["point"], mbs.motion.Polynomial(b["motion"])),
        {"point": (0.4, 0.2), "motion": (0.9, -0.4, 0.6, 0.3)},
        guess=(1.3, 0.9, -0.5),
        driven="x phi",
    ),
    "AbsoluteAngleDriver": Entry(
        lambda b: planar.AbsoluteAngleDriver("second", mbs.motion.Spline(**b)),
        SPLINE,
        guess=(1.3, 0.9, 0.6),
        driven="x y",
    ),
    "RelativeXDriver": Entry(
        lambda b: planar.RelativeXDriver("first", "second", b["point_i"], b["point_j"], chirp_motion(b["motion"])),
        PINS | {"motion": (0.4, 0.2, 1.5)},
        ABOVE,
        driven="y phi",
    ),
    "RelativeYDriver": Entry(
        lambda b: planar.RelativeYDriver(
            "first", "second", b["point_i"], b["point_j"], mbs.motion.Harmonic(*b["motion"])
        ),
        PINS | {"motion": (0.3, 2.0, 0.3, 0.5)},
        ABOVE,
        driven="x phi",
    ),
    "RelativeAngleDriver": Entry(
        lambda b: planar.RelativeAngleDriver("first", "second", mbs.motion.Ramp(b["rate"], b["start"])),
        {"rate": 0.7, "start": -0.9},
        ABOVE,
        driven="x y",
    ),
    "DistanceDriver": Entry(
        lambda b: planar.DistanceDriver("first", "second", b["point_i"], b["point_j"], chirp_motion(b["motion"])),
        PINS | {"motion": (1.4, 0.2, 1.5)},
        ABOVE,
        driven="x phi",
    ),
    "RevoluteDriver": Entry(
        lambda b: planar.RevoluteDriver(
            "first", "second", mbs.motion.Harmonic(*b["motion"]), angle_i=b["angle_i"], angle_j=b["angle_j"]
        ),
        PINS | {"motion": (0.5, 1.3, 0.2, -0.7), "angle_i": 0.4, "angle_j": 0.1},
        ABOVE,
        also=lambda b: {"pin": planar.Revolute("first", "second", b["point_i"], b["point_j"])},
    ),
    "TranslationalDriver": Entry(
        lambda b: planar.TranslationalDriver(
            "first", "second", b["point_i"], b["point_j"], b["axis_i"], mbs.motion.Polynomial(b["motion"])
        ),
        PINS | LINE | {"motion": (0.7, 0.3, -0.2), "axis_j": (0.9, -0.1)},
        guess=(1.3, 1.0, 1.1),
        also=lambda b: {
            "slide": planar.Translational("first", "second", b["point_i"], b["point_j"], b["axis_i"], b["axis_j"])
        },
    ),
}
