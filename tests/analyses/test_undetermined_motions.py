"""Idle spins need no driver; bodies that can move are named; drivers are not blamed for a loop that cannot close."""

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial

Z = (0, 0, 1)
TIMES = np.linspace(0, 6, 13)
PLACE = spatial.coordinates


def hinge(i, j, point_i=(0, 0, 0), point_j=(0, 0, 0), axis=Z):
    return spatial.Revolute(i, j, point_i, point_j, axis_i=axis)


def motor(body, start=0.0):
    return spatial.RevoluteDriver("ground", body, mbs.motion.Ramp(1.0, start), axis_i=Z)


def crank_rod_rocker(drivers):
    """Two hinges, and between them a rod with a ball joint at each end."""
    return mbs.Mechanism(
        {name: spatial.Body() for name in ("crank", "rod", "rocker")},
        {
            "O": hinge("ground", "crank"),
            "A": spatial.Spherical("crank", "rod", (0.3, 0, 0), (0, 0, 0)),
            "B": spatial.Spherical("rod", "rocker", (3.4, 0, 0), (0, 2, 0)),
            "C": hinge("ground", "rocker", (3, 0.5, -2), axis=(1, 0, 0)),
        },
        drivers,
    )


ROUGH = {"rod": PLACE((0.3, 0, 0), (0, 0, 0.8)), "rocker": PLACE((3, 0.5, -2), (0.8, 0, 0))}


def test_rod_that_can_spin_needs_no_driver():
    mech = crank_rod_rocker({"motor": motor("crank")})
    run = mbs.kinematics(mech, TIMES, ROUGH, throw=True)
    pin = 0.3 * np.stack([np.cos(TIMES), np.sin(TIMES), 0 * TIMES], axis=1)
    np.testing.assert_allclose(run.point("rod"), pin, atol=1e-12)
    np.testing.assert_allclose(run.point("rod", (3.4, 0, 0)), run.point("rocker", (0, 2, 0)), atol=1e-12)
    reach = np.linalg.norm(np.asarray(run.point("rocker", (0, 2, 0))) - pin, axis=1)
    np.testing.assert_allclose(reach, 3.4, atol=1e-12)
    np.testing.assert_allclose(run.velocity("rod.wx"), 0, atol=1e-12)
    assert np.max(np.abs(run.velocity("rod.wy"))) > 0.1


def test_bodies_that_can_move_are_named():
    mech = crank_rod_rocker({})
    with pytest.raises(ValueError, match=r"1 driver\(s\) missing; these bodies can move: 'crank', 'rod', 'rocker'"):
        mbs.kinematics(mech, TIMES, ROUGH)
    with pytest.raises(ValueError, match=r"1 driver\(s\) missing(?!;)"):
        jax.jit(lambda t: mbs.kinematics(mech, t, ROUGH).q)(TIMES)


def test_door_on_two_balls_is_not_idle():
    ball = lambda x: spatial.Spherical("ground", "door", (x, 0, 0), (x, 0, 0))
    mech = mbs.Mechanism({"door": spatial.Body()}, {"upper": ball(0.0), "lower": ball(1.0)})
    with pytest.raises(ValueError, match=r"1 driver\(s\) missing; these bodies can move: 'door'"):
        mbs.kinematics(mech, TIMES)


@pytest.mark.slow
def test_loop_with_redundant_rows_that_cannot_close():
    """A slider-crank of hinges whose rod is too short for the angle of its motor, beside a fan with a motor."""
    mech = mbs.Mechanism(
        {name: spatial.Body() for name in ("crank", "rod", "slider", "fan")},
        {
            "O": hinge("ground", "crank"),
            "A": hinge("crank", "rod", (1, 0, 0)),
            "B": hinge("rod", "slider", (0.5, 0, 0)),
            "rail": spatial.Prismatic("ground", "slider", axis_i=(1, 0, 0)),
            "hub": hinge("ground", "fan", (0, 0, 3)),
        },
        {"drive": motor("crank", 1.3), "motor": motor("fan")},
    )
    guess = {
        "crank": PLACE((0, 0, 0), (0, 0, 1.3)),
        "rod": PLACE((0.3, 1, 0), (0, 0, -1)),
        "slider": PLACE((0.6, 0, 0)),
    }
    status = mbs.kinematics(mech, TIMES[:3], guess).status
    np.testing.assert_array_equal(status, mbs.Status.NOT_ASSEMBLED)
