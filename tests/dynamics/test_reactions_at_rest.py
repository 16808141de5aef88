"""Forces in joints by hand: statics."""

import numpy as np
import pytest

import jaxmbs as mbs
from balances import DOWN, G, unbalanced
from jaxmbs import planar


def standing(swapped=False):
    """A hanging body, a loaded beam on pin and roller, an eccentrically loaded block on a guide; all at rest."""

    def pair(kind, point_ground, body, point_body, *axis):
        ends = ("ground", body), (point_ground, point_body)
        (i, j), (point_i, point_j) = (x[::-1] if swapped else x for x in ends)
        return kind(i, j, point_i, point_j, *axis)

    mech = mbs.Mechanism(
        {
            "hanging": planar.Body(1.5, 0.2, (0.4 * np.sin(-0.5), -0.4 * np.cos(-0.5))),
            "beam": planar.Body(3.0, 1.0, (0.2, 0.0)),
            "block": planar.Body(2.0, 0.3),
        },
        {
            "hook": pair(planar.Revolute, (-2, 0), "hanging", (0, 0)),
            "pin": pair(planar.Revolute, (0, 0), "beam", (-1, 0)),
            "roller": planar.AbsoluteY("beam", (1, 0), 0.0),
            "guide": pair(planar.Translational, (0, -3), "block", (0.1, 0.05), (1, 0)),
        },
        forces={
            "gravity": DOWN,
            "on beam": mbs.PointForce("beam", (0.5, 0), (0.7, -10)),
            "on block": mbs.PointForce("block", (0.6, 0.3), (0, -5)),
        },
    )
    start = {"hanging": (-2, 0, 0.5), "beam": (1, 0, 0), "block": (0.5, -3.05, 0)}
    run = mbs.simulate(mech, np.array([0.0]), start, throw=True)
    np.testing.assert_allclose(run.a, 0, atol=1e-9)
    found = mbs.reactions(mech, run)
    assert np.all(unbalanced(mech, run, found) < 1e-9)
    return found


@pytest.fixture(scope="module")
def at_rest():
    return standing()


def test_hook_carries_the_weight(at_rest):
    hook = at_rest["hook"]
    np.testing.assert_allclose(hook.force, [[0, 1.5 * G]], atol=1e-9)
    np.testing.assert_allclose(hook.torque, [0], atol=1e-9)
    # Seen by the ground as it is; by the body, which is turned by 0.5 rad, from the other side.
    np.testing.assert_allclose(hook.components, [[0, 1.5 * G, 0]], atol=1e-9)
    np.testing.assert_allclose(hook.body_force, [[1.5 * G * np.sin(0.5), 1.5 * G * np.cos(0.5)]], rtol=1e-9)


def test_beam_on_pin_and_roller(at_rest):
    right = (10 * 1.5 + 3 * G * 1.2) / 2
    np.testing.assert_allclose(at_rest["roller"].force, [[0, right]], atol=1e-9)
    np.testing.assert_allclose(at_rest["roller"].torque, [0], atol=1e-9)
    np.testing.assert_allclose(at_rest["pin"].force, [[-0.7, 10 + 3 * G - right]], rtol=1e-9)


def test_guide_bears_an_eccentric_load(at_rest):
    guide = at_rest["guide"]
    np.testing.assert_allclose(guide.force, [[0, 5 + 2 * G]], atol=1e-9)
    # About the block's point (0.1, 0.05): the load is 0.5 to the right of it, the weight 0.1 to the left.
    np.testing.assert_allclose(guide.torque, [5 * 0.5 - 2 * G * 0.1], rtol=1e-9)
    np.testing.assert_allclose(guide.components, [[0, 5 + 2 * G, 5 * 0.5 - 2 * G * 0.1]], atol=1e-9)


def test_bodies_swapped_give_the_opposite_reaction(at_rest):
    swapped = standing(swapped=True)
    for name in ("hook", "pin", "guide"):
        np.testing.assert_allclose(swapped[name].force, -at_rest[name].force, atol=1e-9, err_msg=name)
    for name in ("hook", "pin"):
        np.testing.assert_allclose(swapped[name].torque, 0, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(swapped["roller"].force, at_rest["roller"].force, rtol=1e-9)
    # Now i is the body: components are what body_force was, with the other sign, and the reverse.
    np.testing.assert_allclose(swapped["hook"].components[:, :2], -at_rest["hook"].body_force, atol=1e-9)
    np.testing.assert_allclose(swapped["hook"].body_force, -at_rest["hook"].components[:, :2], atol=1e-9)
    # The torque of the guide is about the ground's point now: the weight is 0.5 to the right of it, the load 1.1.
    np.testing.assert_allclose(swapped["guide"].torque, [-(5 * 1.1 + 2 * G * 0.5)], rtol=1e-9)
