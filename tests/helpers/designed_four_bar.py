"""A driven four-bar whose lengths, masses and centres are a design."""

import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

# Lengths of the four-bar (m).
LENGTHS = {"crank": 0.10, "coupler": 0.28, "rocker": 0.22, "ground": 0.30}
# Masses of the bars of the four-bar (kg).
MASSES = {"crank": 0.5, "coupler": 1.1, "rocker": 0.8}
# Moments of inertia of the bars about their centres of mass (kg m²).
INERTIAS = {"crank": 1e-3, "coupler": 9e-3, "rocker": 5e-3}
# Centres of mass in the frames of the bars (m). The coupler's is off its line, so that counterweights must be off
# theirs.
CENTRES = {"crank": (0.04, 0.01), "coupler": (0.13, 0.04), "rocker": (0.09, -0.02)}
# Design of the four-bar without counterweights.
PLAIN = {"length": LENGTHS, "mass": MASSES, "inertia": INERTIAS, "com": CENTRES}
# Rough configuration of the four-bar at time 0.
GUESS = {"coupler": (0.1, 0, 0.9), "rocker": (0.3, 0, 1.5)}
# Speed of the crank (rad/s).
SPEED = 2 * np.pi
# Acceleration of gravity (m/s²).
G = 9.81
# Times of a turn of the crank.
TIMES = np.linspace(0, 1, 37)


def four_bar(b, forces=(), drivers=None):
    """Return the four-bar of a design, with the frames of the bodies at their first pins, x axes along the links."""
    length = b["length"]
    motor = {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED))}
    return mbs.Mechanism(
        {name: planar.Body(b["mass"][name], b["inertia"][name], b["com"][name]) for name in MASSES},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (length["crank"], 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (length["coupler"], 0), (length["rocker"], 0)),
            "C": planar.Revolute("rocker", "ground", (0, 0), (length["ground"], 0)),
        },
        motor if drivers is None else drivers,
        forces,
    )


def near(found, expected, tolerance):
    """Fail unless arrays are equal within `tolerance` times the largest expected value."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# Gravity, as the forces of the four-bar.
WEIGHT = {"gravity": mbs.Gravity((0, -G))}
