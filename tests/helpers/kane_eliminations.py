"""Mechanisms whose known coordinates are taken out of Kane's equations."""

import numpy as np

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.motion import Harmonic, Polynomial
from kane_problems import GROUND, SWING, WEIGHT, X, Y, links
from random_mechanisms import random_body

# Prescribed displacement of the slide of the total joint.
PUSH = Polynomial((0.1, -0.4, 0.8))


def driven_hinge():
    """Return two bodies of space on hinges, the first one driven."""
    return mbs.Mechanism(
        links(2, 31),
        {
            "hinge": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), Y),
            "cross": spatial.Universal("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2)),
        },
        {"motor": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=SWING)},
        WEIGHT | {"load": mbs.Torque("b", (0.3, Harmonic(1.0, 4.0), 0.0), "a")},
    )


def driven_slide():
    """Return three bodies of space on a driven slide, a gantry and a total joint."""
    return mbs.Mechanism(
        links(3, 32),
        {
            "gantry": spatial.TotalJoint(
                GROUND, "a", (0.1, 0, 0), (0.1, 0.2, 0), (PUSH, "free", "fixed"), ("fixed", "fixed", "free")
            ),
            "rail": spatial.Prismatic("a", "b", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), -X),
            "ball": spatial.Spherical("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0)),
        },
        {"jack": spatial.TranslationalDriver("b", "a", (-0.2, 0.1, 0.1), (0.1, 0.2, 0.3), -X, motion=SWING)},
        WEIGHT,
    )


def driven_planar():
    """Return two bodies of the plane, with a driven hinge."""
    a, b = (random_body(np.random.default_rng(k), 2) for k in (33, 34))
    return mbs.Mechanism(
        {"b": b, "a": a},
        {
            "pin": planar.Revolute(GROUND, "a", (0.1, 0.2), (-0.3, 0.1)),
            "slide": planar.Translational("a", "b", (0.1, 0.2), (0.1, 0.1), (0, 2)),
        },
        {"motor": planar.RevoluteDriver(GROUND, "a", SWING, angle_i=0.5, angle_j=-0.2)},
        {"gravity": mbs.Gravity((1.0, -9.0))},
    )


# For each mechanism: its builder, names of the unknown coordinates, and known ones that move as (C, sign, offset): the
# value is sign · C + offset, and so are the rates without the offset.
ELIMINATIONS = {
    "hinge in space": (driven_hinge, {"b.theta_1", "b.theta_2"}, {"a.theta_2": (SWING, 1, 0)}),
    # Advance of a's end from b's along −x of b is that of b's end from a's along +x of a.
    "slide and total joint": (
        driven_slide,
        {"a.y", "a.theta_3", "c.theta_1", "c.theta_2", "c.theta_3"},
        {"a.x": (PUSH, 1, 0), "b.x": (SWING, 1, 0)},
    ),
    "hinge in the plane": (driven_planar, {"b.y"}, {"a.phi": (SWING, 1, 0.7)}),
}
