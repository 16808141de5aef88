"""One-sided contacts that would have to pull, outlines with a part, driven distances that are not positive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

ORIGIN = (0.0, 0.0)
EGG = planar.FunctionOutline(lambda alpha: 1 - 0.3 * jnp.cos(alpha))
ROLLER = planar.FunctionOutline(0.2)


def valve(contact, speed, weight=10.0):
    """A cam at the origin that turns, and a lifter of mass 1 above it, whose weight holds it down."""
    return mbs.Mechanism(
        {"cam": planar.Body(), "lifter": planar.Body()},
        {
            "shaft": planar.Revolute("ground", "cam", ORIGIN, ORIGIN),
            "guide": planar.Translational("ground", "lifter", ORIGIN, ORIGIN, axis_i=(0, 1)),
            "contact": contact,
        },
        {"speed": planar.RevoluteDriver("ground", "cam", mbs.motion.Ramp(speed, 0.0))},
        {"gravity": mbs.Gravity((0, -weight))},
    )


# Each contact once with the cam as body i and once as body j where that is possible; a ring around a roller pulls down.
EGGS_ON = {
    "face": (planar.CamFlatFollower("cam", "lifter", ORIGIN, ORIGIN, EGG), np.pi / 2),
    "face, upside down": (planar.CamFlatFollower("cam", "lifter", ORIGIN, ORIGIN, EGG, axis_j=(-1, 0)), np.pi / 2),
    "roller": (planar.CamFollower("cam", "lifter", ORIGIN, ORIGIN, EGG, ROLLER), (np.pi / 2, -np.pi / 2)),
    "roller first": (planar.CamFollower("lifter", "cam", ORIGIN, ORIGIN, ROLLER, EGG), (-np.pi / 2, np.pi / 2)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", EGGS_ON)
def test_lifter_lifts_off_where_it_falls_faster_than_its_weight(kind):
    """The contact carries m (g + ÿ), which changes its sign where ÿ = −g."""
    contact, place = EGGS_ON[kind]
    times = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    guess = {"lifter": (0, 1.2, 0), "contact": place}
    for speed, some in ((1.0, False), (10.0, True)):
        mech = valve(contact, speed)
        motion = mbs.kinematics(mech, times / speed, guess, throw=True)
        found = mbs.reactions(mech, motion)
        carried = 10 + np.asarray(motion.acceleration("lifter.y"))
        np.testing.assert_array_equal(found["contact"].pulls, carried < 0)
        assert np.any(found["contact"].pulls) == some
        assert found["shaft"].pulls is None
        assert found["contact"].outside is None


@pytest.mark.parametrize("inner", ["cam", "lifter"])
def test_ring_and_roller(inner):
    """A ring hangs on a roller, or a roller lies in a ring, whichever is body i: a weight upwards pulls them apart."""
    outlines = {
        "cam": planar.FunctionOutline(1.0),
        "lifter": planar.FunctionOutline(1.0),
        inner: planar.FunctionOutline(0.3),
    }
    up = np.pi / 2 if inner == "cam" else -np.pi / 2
    for first, second in (("cam", "lifter"), ("lifter", "cam")):
        contact = planar.CamFollower(first, second, ORIGIN, ORIGIN, outlines[first], outlines[second])
        for weight in (10.0, -10.0):
            guess = {"lifter": (0, -0.7, 0), "contact": (up, up)}
            mech = valve(contact, 0.0, weight)
            motion = mbs.kinematics(mech, np.zeros(1), guess, throw=True)
            assert bool(mbs.reactions(mech, motion)["contact"].pulls[0]) == (weight < 0)


def test_explain_names_contacts_that_pull():
    """A lifter on top of the bulge of a cam has to follow it down."""
    guess = {"cam": (0, 0, 3 * np.pi / 2), "lifter": (0, 1.3, 0), "contact": -np.pi}
    contact = EGGS_ON["face"][0]
    still, fast = (mbs.explain(valve(contact, speed), guess, t=1.5 * np.pi / speed) for speed in (1.0, 10.0))
    assert still.pulling == ()
    assert "pull" not in str(still)
    assert fast.pulling == ("contact",)
    assert "would have to pull: 'contact'" in str(fast)


def actuated(space, motion):
    """A slide whose position is the length of an actuator."""
    if space is planar:
        guide, at = planar.Translational("ground", "a", ORIGIN, ORIGIN, (1, 0)), (1, 0, 0)
    else:
        guide, at = spatial.Prismatic("ground", "a", axis_i=(1, 0, 0)), spatial.coordinates((1, 0, 0))
    cylinder = space.DistanceDriver("ground", "a", *[(0,) * (2 if space is planar else 3)] * 2, motion=motion)
    return mbs.Mechanism({"a": space.Body()}, {"guide": guide}, {"cylinder": cylinder}), {"a": at}


@pytest.mark.parametrize("space", [planar, spatial])
def test_driven_distance_must_stay_positive(space):
    """An error where the value is known, a bad status where it is traced."""
    for value in (0.0, -1.0):
        with pytest.raises(ValueError, match=r"'cylinder'.*must stay positive"):
            actuated(space, value)
    mech, guess = actuated(space, mbs.motion.Ramp(-1.0, 1.0))
    times = np.linspace(0, 2, 5)
    for analysis in (mbs.kinematics, lambda mech, times, q: mbs.assemble(mech, q, times[-1]), mbs.simulate):
        with pytest.raises(ValueError, match=r"'cylinder' \(DistanceDriver\): the distance must stay positive, got"):
            analysis(mech, times, guess)

    @jax.jit
    def statuses(start):
        mech, guess = actuated(space, mbs.motion.Ramp(-1.0, start))
        return mbs.kinematics(mech, times, guess).status

    assert not np.any(statuses(3.0))
    good = statuses(1.0)
    assert not np.any(good[:2])
    assert np.all(good[3:] != 0)
    assert np.all(statuses(-1.0) != 0)


def test_inertia_about_one_axis_is_a_rotor():
    with pytest.raises(ValueError, match=r"inertia about one axis only.*spatial\.Rotor"):
        mbs.Mechanism({"wheel": spatial.Body(1.0, (0, 0, 0.02))})
