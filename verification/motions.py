"""A sheet of verified mechanisms, each drawn at one time with the paths of some of its points."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import dynamic_problems
import haug_drivers
import haug_gears
import haug_singular
import jaxmbs as mbs
import spatial_problems
from jaxmbs import planar
from linkages import apex, four_bar, four_bar_guess, reference
from verification import ROOT
from verification.cases import linkages

# File of the picture with all motions.
SHEET = ROOT / "docs" / "images" / "verification_motions.png"
# Motions in a row of the picture.
COLUMNS = 4


class Panel(NamedTuple):
    """A mechanism, its motion, and traced points as (body, point in its frame)."""

    mech: mbs.Mechanism
    run: mbs.Trajectory
    points: tuple


def windows():
    """Return the motion of two four-bar windows."""
    mech = dynamic_problems.windows(2)
    run = mbs.simulate(mech, np.linspace(0, 0.8, 41), *dynamic_problems.windows_start(2, 1.0), step=5e-3)
    return Panel(mech, run, (("C0", (0.5, 0)), ("C2", (0.5, 0))))


def andrews():
    """Return the motion of Andrews' mechanism."""
    given = reference("andrews")
    length = given["parameters"]["lengths_m"]
    start = dynamic_problems.andrews_start(length, dynamic_problems.andrews_angles(given["q_initial"]))
    mech = dynamic_problems.andrews(length)
    points = dynamic_problems.andrews_points(length)
    run = mbs.simulate(mech, np.linspace(0, 0.015, 121), start, step=5e-5)
    return Panel(mech, run, (("BDE", points["BDE"]["D"]), ("FE", points["FE"]["E"])))


def bricard():
    """Return the motion of Bricard's mechanism."""
    mech, start = spatial_problems.bricard()
    run = mbs.simulate(mech, np.linspace(0, 3, 121), start, step=1e-2, formulation=mbs.JointCoordinates())
    return Panel(mech, run, (("rod2", (0.5, 0, 0)), ("rod3", (0.5, 0, 0))))


def spatial_slider_crank():
    """Return the motion of the spatial slider-crank."""
    mech, start = spatial_problems.slider_crank()
    run = mbs.simulate(mech, np.linspace(0, 1, 81), start, {"crank.wx": 6.0}, step=5e-3)
    return Panel(mech, run, (("rod", (0, 0, 0)), ("rod", (-0.15, 0, 0))))


def cam():
    """Return the motion of a cam with a roller follower."""
    mech = haug_gears.valve_gear(haug_gears.roller_contact(haug_gears.cosine_cam))
    times = np.linspace(0.06, 3.2, 61)
    phi = haug_gears.START + haug_gears.SPEED * times[0]
    guess = {
        "cam": (0, 0, phi),
        "lifter": (0, haug_gears.STEM + 1.6, 0),
        "contact": (np.pi / 2 - phi, -np.pi / 2),
    }
    return Panel(mech, mbs.kinematics(mech, times, guess), ())


def gear():
    """Return the motion of a gear that rolls on a fixed one."""
    drivers = {"turn": planar.AbsoluteAngleDriver("gear", mbs.motion.Ramp(-np.pi))}
    mech = mbs.Mechanism({"gear": planar.Body()}, haug_gears.GEARS, drivers)
    run = mbs.kinematics(mech, np.linspace(0, 1.9, 96), {"gear": (2.6, 1.5, 0.0)})
    return Panel(mech, run, (("gear", (2, 0)),))


def rack():
    """Return the motion of a rack and pinion."""
    mech = haug_gears.rack_and_pinion()
    run = mbs.kinematics(mech, haug_gears.TENTHS, {"rack": (0.8, 0, -0.3), "pinion": (0, 0, -0.6)})
    return Panel(mech, run, (("rack", (0, 0)), ("rack", (-0.7, 0))))


def excavator():
    """Return the motion of an excavator moved by a cylinder."""
    mech = haug_drivers.excavator(haug_drivers.CYLINDER)
    run = mbs.kinematics(mech, 1.5 * haug_drivers.DIGGING, {"boom": (0, 0, 0.7), "arm": (2.7, 2.2, 0.5)})
    return Panel(mech, run, (("arm", (0, 0)), ("arm", (1.5, 0))))


def slider_crank_that_locks_up():
    """Return the motion of a slider-crank up to its lock-up."""
    mech, times = haug_singular.slider_crank(0.6), np.linspace(-0.6, 0.6, 31)
    run = mbs.kinematics(mech, times, haug_singular.coupler_guess(0.6, times[0]))
    return Panel(mech, run, (("coupler", (0, 0)), ("coupler", (0, 0.3))))


def coupler_curve():
    """Return the motion of a four-bar with its coupler point."""
    p = reference("planar_four_bar_kinematics")["parameters"]
    b = linkages.lengths(p)
    mech = four_bar(b)
    run = mbs.kinematics(mech, np.linspace(0, 2 * np.pi, 121), four_bar_guess(b, 0.0))
    return Panel(mech, run, (("coupler", (p["px"] - p["coupler_b"] / 2, p["py"])),))


def straight_line():
    """Return the motion of Peaucellier's inversor."""
    numbers = reference("classic_linkages")["peaucellier"]["parameters"].values()
    b = dict(zip(("a", "arm", "side"), numbers, strict=True))
    mech, times = linkages.peaucellier({k: jnp.asarray(x) for k, x in b.items()}), np.linspace(-0.87, 0.87, 41)
    run = mbs.kinematics(mech, times, linkages.peaucellier_guess(b, times[0]))
    return Panel(mech, run, (("pr1", (0, 0)), ("crank", (b["a"], 0))))


def jansen():
    """Return the motion of Jansen's leg."""
    holy = reference("classic_linkages")["jansen"]["lengths"]
    mech = linkages.jansen(holy)
    run = mbs.kinematics(mech, np.linspace(0, 2 * np.pi, 73), linkages.jansen_guess(holy))
    return Panel(mech, run, (("lower", apex(holy["g"], holy["i"], holy["h"])),))


# Function that computes each motion of the picture, by title.
PANELS: dict[str, Callable[[], Panel]] = {
    "Haug 3.4.1: rolling gear": gear,
    "Haug 3.4.2: rack and pinion": rack,
    "Haug 3.4.3: cam and roller": cam,
    "Haug 3.5.3: excavator": excavator,
    "Haug 3.7.1: up to lock-up": slider_crank_that_locks_up,
    "Haug 12.2: slider-crank in space": spatial_slider_crank,
    "IFToMM A02: two windows": windows,
    "IFToMM A04: Bricard": bricard,
    "IVP Test Set: Andrews": andrews,
    "four-bar and coupler curve": coupler_curve,
    "Peaucellier and Lipkin": straight_line,
    "Jansen's leg": jansen,
}


def draw_sheet() -> None:
    """Write the picture with all motions, on white so that it can be read on a dark page too."""
    import matplotlib.pyplot as plt

    from jaxmbs.viz import style

    rows = -(-len(PANELS) // COLUMNS)
    figure = plt.figure(figsize=(3.1 * COLUMNS, 2.9 * rows), facecolor=style.PAPER, layout="constrained")
    for k, (title, make) in enumerate(PANELS.items()):
        mech, run, points = make()
        in_space = len(np.asarray(run.point(next(iter(mech.bodies))))[0]) == 3
        ax = figure.add_subplot(rows, COLUMNS, k + 1, **({"projection": "3d"} if in_space else {}))
        middle = 2 * len(run.t) // 5
        mbs.viz.draw(mech, run.q[middle], float(run.t[middle]), ax=ax, points=points)
        for body, place in points:
            mbs.viz.trace(run, body, place, ax=ax, color=style.ACCENT, linewidth=1.3)
        ax.set_axis_off()
        ax.set_title(title, fontsize=10, color=style.INK)
    figure.savefig(SHEET, dpi=110, facecolor=style.PAPER)
    plt.close(figure)
