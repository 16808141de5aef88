"""Kane's equations with joint coordinates eliminated: the same motion as with multipliers, loops, Euler parameters."""

import pytest

import jaxmbs as mbs
from jaxmbs import planar
from kane_problems import (
    CONVERGED,
    GROUND,
    KANE,
    OBLIQUE,
    SWING,
    TIMES,
    WEIGHT,
    check_driven,
    close,
    hinge,
    links,
)


def four_bar(drivers):
    rod = lambda length, k: planar.Body(1.0 + k, 0.1, (length / 2, 0.05))
    return mbs.Mechanism(
        {"crank": rod(0.4, 0), "coupler": rod(1.0, 1), "rocker": rod(0.8, 2)},
        {
            "O": planar.Revolute(GROUND, "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (0.4, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (1.0, 0), (0.8, 0)),
            "C": planar.Revolute(GROUND, "rocker", (1.1, 0), (0, 0)),
        },
        drivers,
        {"gravity": mbs.Gravity((0.5, -9.81))},
    ), {"crank": (0, 0, 0.6), "coupler": (0.33, 0.23, 0.5), "rocker": (1.1, 0, 1.8)}


@pytest.mark.parametrize("name", [pytest.param("open", marks=pytest.mark.slow), "driven"])
def test_loop(name):
    """A four-bar, its crank free or driven: accelerations, and all reactions, as in `Augmented`; (6) and (7)."""
    mech, guess = four_bar({"motor": planar.RevoluteDriver(GROUND, "crank", SWING)} if name == "driven" else {})
    start = mbs.assemble(mech, guess)
    assert start.status == CONVERGED
    v0 = None if name == "driven" else {"crank.phi": 3.0}
    runs = [
        mbs.simulate(mech, TIMES[:2] - TIMES[0], start, v0, step=0.01, formulation=f) for f in (KANE, mbs.Augmented())
    ]
    for part in ("q", "v", "a"):
        close(getattr(runs[0], part)[0], getattr(runs[1], part)[0], 1e-10)
        close(getattr(runs[0], part)[1], getattr(runs[1], part)[1], 1e-5)
    check_driven(mech, runs[0])


@pytest.mark.slow
def test_hinge_by_euler_parameters():
    """A hinge named in `euler_parameters` has six coordinates and five constraint rows: the same motion and reactions."""
    mech = mbs.Mechanism(links(1, 71), {"O": hinge(axis_i=OBLIQUE)}, forces=WEIGHT)
    other = mbs.Kane(euler_parameters="O")
    assert other.equations(mech).space.m == 6
    runs = [mbs.simulate(mech, [0, 0.1], v0={"a.wx": 1.0}, step=0.005, formulation=f) for f in (KANE, other)]
    again = mbs.simulate(mech, [0, 0.1], runs[0].q[0], runs[0].v[0], step=0.005, formulation=other)
    for part in ("q", "v", "a"):
        close(getattr(again, part), getattr(runs[0], part), 1e-8)
    found, expected = (mbs.reactions(mech, runs[0], formulation=f)["O"] for f in (other, None))
    close(found.force, expected.force, 1e-9)
    close(found.torque, expected.torque, 1e-9)
