"""Springs of joints in space: along an axis of a body, and about one in a chosen turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial

POINTS = {"point_i": (0.3, -0.1, 0.2), "point_j": (0.1, 0.4, -0.3), "axis_i": (1.0, 2.0, -0.5)}


def mechanism(force):
    body = spatial.Body(1.0, (1.0, 1.2, 1.5))
    return mbs.Mechanism({"a": body, "b": body}, forces={"spring": force})


def anywhere(mech, seed):
    rng = np.random.default_rng(seed)
    return np.asarray(mech.coordinates(rng.normal(size=mech.layout.n))), rng.normal(size=mech.layout.m)


@pytest.mark.parametrize("seed", range(3))
def test_the_force_of_an_axial_spring_is_the_slope_of_its_potential(seed):
    mech = mechanism(mbs.AxialSpring("a", "b", **POINTS, stiffness=7.0, free_length=0.4))
    q, v = anywhere(mech, seed)
    potential = lambda q: mbs.energy(mech, q, jnp.zeros(mech.layout.m)).potential
    power = jax.jvp(potential, (q,), (mech.layout.rate(q, v),))[1]
    np.testing.assert_allclose(mbs.generalized_force(mech, q, v) @ v, -power, rtol=1e-12)
    assert abs(power) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_action_of_an_axial_spring_is_reaction_and_its_damper_only_takes(seed):
    mech = mechanism(mbs.AxialSpring("a", "b", **POINTS, stiffness=7.0, damping=3.0))
    q, v = anywhere(mech, seed)
    force = np.asarray(mbs.generalized_force(mech, q, v))
    on = {}
    for name, where in mech.layout.velocity_slices.items():
        pose = mech.poses(q)[name]
        on[name] = (
            np.asarray(force[where][:3]),
            np.asarray(pose.a @ force[where][3:] + np.cross(pose.r, force[where][:3])),
        )
    for a, b in zip(on["a"], on["b"], strict=True):
        np.testing.assert_allclose(a, -b, atol=1e-12)
    along = np.asarray(mech.poses(q)["a"].axis(jnp.array(POINTS["axis_i"])))
    np.testing.assert_allclose(np.cross(on["b"][0], along), 0, atol=1e-12)
    damped = mechanism(mbs.AxialSpring("a", "b", **POINTS, damping=3.0))
    assert mbs.generalized_force(damped, q, v) @ v < 0


def test_a_mass_on_an_axial_spring_swings_as_it_should():
    mech = mbs.Mechanism(
        {"a": spatial.Body(2.0)},
        {"slide": spatial.Prismatic("ground", "a", axis_i=(0, 0, 1.0))},
        forces={"spring": mbs.AxialSpring("ground", "a", axis_i=(0, 0, 3.0), stiffness=50.0, free_length=-0.2)},
    )
    times = np.linspace(0, 1, 5)
    run = mbs.simulate(mech, times, {"a.z": 0.1}, step=1e-3)
    # Through s = 0, where the points meet and a spring between them has no direction.
    np.testing.assert_allclose(run.position("a.z"), -0.2 + 0.3 * np.cos(5 * times), atol=1e-9)


def test_a_torsion_spring_counts_in_the_turn_about_its_middle():
    axis = (0.0, 0.0, 1.0)
    for middle, angle, counted in ((None, 3.0, 3.0), (3.0, 4.0, 4.0), (3.0, -1.0, 2 * np.pi - 1.0), (6.0, 3.0, 3.0)):
        spring = mbs.TorsionSpring("ground", "a", 2.0, 0.5, axis_i=axis, middle=middle)
        mech = mbs.Mechanism({"a": spatial.Body()}, forces={"spring": spring})
        q = mech.coordinates({"a": spatial.coordinates((0, 0, 0), angle * np.array(axis))})
        torque = mbs.generalized_force(mech, q, jnp.zeros(6))
        np.testing.assert_allclose(torque, [0, 0, 0, 0, 0, -2.0 * (counted - 0.5)], atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"axis_i": (0, 0, 1)}, "stiffness, damping or force"),
        ({"stiffness": 1.0}, "axis_i is missing"),
        ({"stiffness": 1.0, "axis_i": (0, 0, 0)}, "axis_i has no length"),
        ({"stiffness": np.nan, "axis_i": (0, 0, 1)}, "stiffness must be finite"),
    ],
)
def test_bad_axial_springs_are_refused_by_name(arguments, words):
    with pytest.raises(ValueError, match=f"'spring'.*{words}"):
        mechanism(mbs.AxialSpring("a", "b", **arguments))
