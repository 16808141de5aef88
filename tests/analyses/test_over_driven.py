"""Drivers that prescribe more than a mechanism's degrees of freedom are named, wherever the search for an assembly ends."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

TIMES = np.linspace(0, 0.1, 3)
LINKS = (0.4, 1.2, 1.0, 1.1)
NEEDLESS = r"redundant driver\(s\): 'rocker motor'; they contradict each other"


def four_bar(links, second=0.0, drivers=("crank motor", "rocker motor")):
    """Crank, coupler, rocker, ground; motors on the crank, from angle 0, and on the rocker."""
    a, b, c, d = links
    motors = {
        "crank motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0)),
        "rocker motor": planar.RevoluteDriver("ground", "rocker", mbs.motion.Ramp(1.0, second)),
    }
    return mbs.Mechanism(
        {"crank": planar.Body(), "coupler": planar.Body(), "rocker": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (-a / 2, 0)),
            "A": planar.Revolute("crank", "coupler", (a / 2, 0), (-b / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (b / 2, 0), (c / 2, 0)),
            "C": planar.Revolute("ground", "rocker", (d, 0), (-c / 2, 0)),
        },
        {name: motors[name] for name in drivers},
    )


def spatial_four_bar(links, second):
    """The same in space, with a ball joint at one end of the coupler."""
    a, b, c, d = links
    hinge = lambda i, j, p, s: spatial.Revolute(i, j, (p, 0, 0), (s, 0, 0), axis_i=(0, 0, 1))
    return mbs.Mechanism(
        {"crank": spatial.Body(), "coupler": spatial.Body(), "rocker": spatial.Body()},
        {
            "O": hinge("ground", "crank", 0, -a / 2),
            "A": hinge("crank", "coupler", a / 2, -b / 2),
            "B": spatial.Spherical("coupler", "rocker", (b / 2, 0, 0), (c / 2, 0, 0)),
            "C": hinge("ground", "rocker", d, -c / 2),
        },
        {
            "crank motor": spatial.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0), axis_i=(0, 0, 1)),
            "rocker motor": spatial.RevoluteDriver("ground", "rocker", mbs.motion.Ramp(1.0, second), axis_i=(0, 0, 1)),
        },
    )


@pytest.mark.parametrize("second", [0.0, 0.5])
def test_over_driven_four_bars_whose_nearest_configuration_is_flat(second):
    links = [LINKS, *np.random.default_rng(0).uniform(0.3, 1.5, (8, 4))]  # closable or not
    guesses = [None, {"crank": (0.1, 0.2, 0.3), "coupler": (0.6, 0.5, 0.4), "rocker": (1.0, 0.5, 1.2)}]
    for each in links:
        for guess in guesses:
            with pytest.raises(ValueError, match=NEEDLESS):
                mbs.kinematics(four_bar([float(x) for x in each], second), TIMES, guess)


@pytest.mark.slow
@pytest.mark.parametrize("second", [0.0, 0.5])
def test_over_driven_four_bar_in_space(second):
    with pytest.raises(ValueError, match=r"redundant driver\(s\): 'rocker motor'"):
        mbs.kinematics(spatial_four_bar(LINKS, second), TIMES)


def test_one_motor_is_not_too_many_where_the_links_do_not_reach():
    mech = four_bar((0.4, 0.1, 0.1, 1.1), drivers=("crank motor",))
    run = mbs.kinematics(mech, TIMES)
    np.testing.assert_array_equal(run.status, mbs.Status.NOT_ASSEMBLED)
    assert jnp.all(jnp.isfinite(run.q))
