"""Haug 3.7: mechanisms with singular configurations."""

import numpy as np

import jaxmbs as mbs
from jaxmbs import planar


def slider_crank(rod, rate=1.0):
    """Return Example 3.1.2: crank of length 1 about O₁, coupler with P₂ at (0, ℓ) whose O₂ stays on the x axis."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "coupler": planar.Body()},
        {
            "O1x": planar.AbsoluteX("crank", (0, 0), 0.0),
            "O1y": planar.AbsoluteY("crank", (0, 0), 0.0),
            "O2": planar.AbsoluteY("coupler", (0, 0), 0.0),
            "P": planar.Revolute("crank", "coupler", (1, 0), (0, rod)),
        },
        {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(rate))},
    )


def coupler_guess(rod, angle, side=1):
    """Return (x₂, 0, φ₂) with sin φ₁ = ℓ cos φ₂; side +1 with O₂ to the right of P."""
    phi = side * np.arccos(np.sin(angle) / rod)
    return {"crank": (0, 0, angle), "coupler": (np.cos(angle) + rod * np.sin(phi), 0, phi)}


def one_coordinate(rod, rate=1.0):
    """Return Example 3.7.3: crank at the origin, slider with x₂ = q on the x axis, the coupler a distance."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "slider": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "y": planar.AbsoluteY("slider", (0, 0), 0.0),
            "phi": planar.AbsoluteAngle("slider", 0.0),
            "coupler": planar.Distance("crank", "slider", (1, 0), (0, 0), rod),
        },
        {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(rate))},
    )


# Times, and angles of the crank at them, at which singularities are looked for.
GRID = np.linspace(0.1, 3.0, 30)


def parallelogram(ground=2.0):
    """Return a four-bar with crank and rocker of length 1, a parallelogram if coupler and ground are equal."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "coupler": planar.Body(), "rocker": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (1, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (ground, 0), (1, 0)),
            "C": planar.Revolute("ground", "rocker", (ground, 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )


def five_bar_parallelogram():
    """Return Example 3.7.7: one bar held by three distance constraints to the ground, points 0, 1 and 2 along it."""
    distance = lambda k: planar.AbsoluteDistance("bar", (k, 0), (k, 0), 1.0)
    return mbs.Mechanism({"bar": planar.Body()}, {"first": distance(0), "second": distance(1), "third": distance(2)})
