"""Mechanisms of the page "Drag a linkage"."""

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.io.html_page import html_page

# Range and first value of the numbers of the slider-crank.
DESIGN = {"crank": (0.2, 3.0, 1.0), "rod": (0.5, 6.0, 2.8), "offset": (-1.5, 1.5, 0.0)}


def four_bar():
    """Return a four-bar, and a rough configuration."""
    bodies = {name: planar.Body() for name in ("crank", "coupler", "rocker")}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "coupler", (1.9, 0), (0, 0)),
        "B": planar.Revolute("coupler", "rocker", (3.5, 0), (3.1, 0)),
        "C": planar.Revolute("ground", "rocker", (4.5, 0), (0, 0)),
    }
    drivers = {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0, 1.0))}
    return mbs.Mechanism(bodies, joints, drivers), {"coupler": (1, 1.6, 0.4), "rocker": (4.5, 0, 1.7)}


def slider_crank(design):
    """Return a slider-crank."""
    return mbs.Mechanism(
        bodies={name: planar.Body() for name in ("crank", "rod", "slider")},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (design["crank"], 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (design["rod"], 0), (0, 0)),
            "slide": planar.Translational("ground", "slider", (0, design["offset"]), (0, 0), (1, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0, 1.0))},
    )


def spatial_slider_crank():
    """Return a slider-crank whose rod has two ball joints, and a rough configuration."""
    mech = mbs.Mechanism(
        bodies={name: spatial.Body() for name in ("crank", "rod", "slider")},
        constraints={
            "O": spatial.Revolute("ground", "crank", (0, 0.1, 0.12), (0, 0, 0), axis_i=(1, 0, 0)),
            "A": spatial.Spherical("crank", "rod", (0, 0, 0.08), (0, 0, 0)),
            "B": spatial.Spherical("rod", "slider", (0.3, 0, 0), (0, 0, 0)),
            "slide": spatial.Prismatic("ground", "slider", (0, 0, 0), (0, 0, 0), axis_i=(1, 0, 0)),
        },
        drivers={"motor": spatial.RevoluteDriver("ground", "crank", axis_i=(1, 0, 0), motion=mbs.motion.Ramp(1.0))},
    )
    return mech, {
        "crank": spatial.coordinates((0, 0.1, 0.12), (0, 0, 0)),
        "rod": spatial.coordinates((0, 0.1, 0.2), (0, 0, 0)),
        "slider": spatial.coordinates((0.2, 0, 0), (0, 0, 0)),
    }


def pages() -> dict[str, str]:
    """Return the pages by the names of their files."""
    flat, flat_guess = four_bar()
    space, space_guess = spatial_slider_crank()
    near = {"rod": (0.5, 0.8, -0.3), "slider": (3, 0, 0)}
    return {
        "four_bar": html_page(flat, guess=flat_guess, point=("coupler", (1.6, 1.3)), title="Four-bar"),
        "slider_crank": html_page(
            slider_crank, guess=near, design=DESIGN, point=("rod", (1.2, 0.5)), title="Slider-crank"
        ),
        "spatial_slider_crank": html_page(space, guess=space_guess, title="Slider-crank in space"),
    }
