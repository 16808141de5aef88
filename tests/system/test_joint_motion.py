"""Angles and slides of joints by name: continuous over time, against motions that are known and joint coordinates."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from random_mechanisms import random_tree, random_velocity

X, Z = (1.0, 0, 0), (0.0, 0, 1)
TIMES = np.linspace(0, 2, 21)
# An angle that turns back, by up to 2.9 rad between two of the times.
TURNING = mbs.motion.Polynomial((0.5, 30.0, -12.0, -1.0))


def polynomial(motion, t, derivative=0):
    """Value or derivative of a polynomial motion."""
    return np.polynomial.Polynomial(np.asarray(motion.coefficients)).deriv(derivative)(t)


def on_a_hinge(motion, kind=spatial.Revolute, axis=(1.0, 2, -0.5)):
    """A body on a hinge that a driver turns, about an axis that is none of the frames'."""
    frames = {"point_i": (0.1, 0.2, 0.3), "point_j": (-0.2, 0.1, 0.4), "axis_i": axis, "axis_j": (0.3, -1, 0.2)}
    return mbs.Mechanism(
        {"arm": spatial.Body()},
        {"pin": kind("ground", "arm", **frames)},
        {"motor": spatial.RevoluteDriver("ground", "arm", motion=motion, axis_i=axis, axis_j=frames["axis_j"])},
    )


def windlass(length=0.3, start=0.0):
    """A pin that spins in space, with a slide across it: one body on the other."""
    return mbs.Mechanism(
        {"drum": spatial.Body(), "slide": spatial.Body()},
        {
            "pin": spatial.Revolute("ground", "drum", axis_i=X),
            "rail": spatial.Prismatic("drum", "slide", (0, 0, length)),
        },
        {
            "motor": spatial.RevoluteDriver("ground", "drum", motion=mbs.motion.Ramp(7.0, start), axis_i=X),
            "pull": spatial.TranslationalDriver("drum", "slide", (0, 0, length), motion=mbs.motion.Harmonic(0.1, 3.0)),
        },
    )


@pytest.fixture(scope="module")
def turning():
    return mbs.kinematics(on_a_hinge(TURNING), TIMES, max_steps=5000, throw=True)


def test_the_angle_of_a_hinge_in_space_is_continuous_between_sparse_times(turning):
    pin, expected = turning.joint("pin"), polynomial(TURNING, TIMES)
    assert np.abs(np.diff(expected)).max() > 2.8
    assert np.ptp(expected) > 4 * np.pi
    np.testing.assert_allclose(pin.angle, expected, atol=1e-9)
    np.testing.assert_allclose(pin.rate, polynomial(TURNING, TIMES, 1), atol=1e-9)
    np.testing.assert_allclose(pin.acceleration, polynomial(TURNING, TIMES, 2), atol=1e-8)


def test_bodies_in_the_other_order_turn_the_other_way():
    run = mbs.kinematics(windlass(), TIMES)
    mech = windlass()
    swapped = mbs.Mechanism(mech.bodies, {"pin": spatial.Revolute("drum", "ground", axis_i=X)})
    np.testing.assert_allclose(run.joint("pin").angle, 7 * TIMES, atol=1e-9)
    np.testing.assert_allclose(run.of(swapped).joint("pin").angle, -7 * TIMES, atol=1e-9)
    np.testing.assert_allclose(run.joint("rail").slide, 0.1 * np.sin(3 * TIMES), atol=1e-12)
    np.testing.assert_allclose(run.joint("rail").slide_rate, 0.3 * np.cos(3 * TIMES), atol=1e-12)
    np.testing.assert_allclose(run.joint("rail").slide_acceleration, -0.9 * np.sin(3 * TIMES), atol=1e-12)


def test_a_slider_crank_of_the_plane():
    mech = mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "rod", "piston")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (0.1, 0), (0, 0)),
            "B": planar.Revolute("rod", "piston", (0.3, 0), (0, 0)),
            "rail": planar.Translational("ground", "piston", (0.05, 0), (0, 0), (-2.0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(9.0))},
    )
    run = mbs.kinematics(mech, TIMES, {"rod": (0.1, 0, 0), "piston": (0.4, 0, 0)}, throw=True)
    crank = 9 * TIMES
    rod = -np.arcsin(0.1 * np.sin(crank) / 0.3)
    np.testing.assert_allclose(run.joint("A").angle, rod - crank, atol=1e-9)
    np.testing.assert_allclose(run.joint("B").angle, -rod, atol=1e-9)
    rod_rate = -0.1 * np.cos(crank) * 9 / (0.3 * np.cos(rod))
    np.testing.assert_allclose(run.joint("A").rate, rod_rate - 9, atol=1e-9)
    # Along the axis, which points to −x, from point_i.
    np.testing.assert_allclose(run.joint("rail").slide, 0.05 - 0.1 * np.cos(crank) - 0.3 * np.cos(rod), atol=1e-9)
    np.testing.assert_allclose(run.joint("A").acceleration, run.acceleration("rod.phi"), atol=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("dimension", "seed"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_angles_and_slides_are_the_joint_coordinates(dimension, seed):
    rng = np.random.default_rng(seed)
    mech, q = random_tree(rng, 6, dimension=dimension)
    v = random_velocity(rng, mech, q)
    layout, row = mech.layout, lambda x: jnp.asarray(x)[None]
    run = mbs.Trajectory(row(0.0), row(q), row(v), row(0 * v), jnp.zeros(1, int), layout).of(mech)
    joints = mbs.JointCoordinates().of(mech)
    theta = dict(zip(joints.names, joints.coordinates(q), strict=True))
    rates = dict(zip(joints.velocity_names, joints.velocities(q, v), strict=True))
    compared = 0
    for name, value in theta.items():
        joint, coordinate = name.split(".")
        if coordinate in ("e0", "e1", "e2", "e3"):
            continue
        found, slide = run.joint(joint, coordinate), coordinate in ("s", "x", "y", "z")
        np.testing.assert_allclose((found.slide if slide else found.angle)[0], value, atol=1e-12)
        np.testing.assert_allclose((found.slide_rate if slide else found.rate)[0], rates[name], atol=1e-9)
        compared += 1
    assert compared >= 4


def test_a_screw_counts_its_turns_by_its_advance():
    screw = lambda *ends, **more: spatial.Screw(*ends, pitch=0.05, **more)
    mech = on_a_hinge(mbs.motion.Ramp(40.0), kind=screw)
    # At θ = 0: the residual does not tell one thread from the next.
    guess = mbs.JointCoordinates().of(mbs.Mechanism(mech.bodies, mech.constraints)).configuration(jnp.zeros(1))
    run = mbs.kinematics(mech, TIMES, guess, max_steps=5000, throw=True)
    np.testing.assert_allclose(run.joint("pin").angle, 40 * TIMES, atol=1e-9)
    np.testing.assert_allclose(run.joint("pin").slide, 40 * TIMES * 0.05 / (2 * np.pi), atol=1e-12)


def test_both_angles_of_a_universal_joint():
    mech = mbs.Mechanism(
        {"shaft": spatial.Body(), "driven": spatial.Body()},
        {
            "bearing": spatial.Revolute("ground", "shaft", axis_i=X),
            "cross": spatial.Universal("shaft", "driven", (0.2, 0, 0), (0, 0, 0), (0, 1, 0), (0, 0, 1)),
            "other": spatial.Cylindrical("driven", "ground", (0.2, 0, 0), (0.2 + 0.2 * np.cos(0.6), 0.2 * np.sin(0.6), 0),
                                         X, (np.cos(0.6), np.sin(0.6), 0)),
        },
        {"motor": spatial.RevoluteDriver("ground", "shaft", motion=mbs.motion.Ramp(5.0), axis_i=X)},
    )  # fmt: skip
    guess = {"shaft": spatial.coordinates(), "driven": spatial.coordinates((0.2, 0, 0), (0, 0, 0.6))}
    run = mbs.kinematics(mech, TIMES, guess, throw=True)
    alpha, beta = (run.joint("cross", name).angle for name in ("alpha", "beta"))
    # The driven shaft in the frame of the other one: bent by 0.6, and that frame turned by 5 t.
    along = np.stack([np.full(21, np.cos(0.6)), np.sin(0.6) * np.cos(5 * TIMES), -np.sin(0.6) * np.sin(5 * TIMES)])
    np.testing.assert_allclose(np.stack([np.cos(alpha) * np.cos(beta), np.sin(beta)]), along[:2], atol=1e-9)
    with pytest.raises(
        ValueError, match=r"joint 'cross' \(Universal\) has the angles 'alpha', 'beta': name one of them"
    ):
        _ = run.joint("cross").angle


@pytest.mark.parametrize("kind", ["TotalJoint", "RelativeJoint"])
def test_prescribed_components_are_angles_and_slides_too(kind):
    held = ("fixed", "fixed", mbs.motion.Harmonic(0.2, 4.0)), ("fixed", "fixed", TURNING)
    mech = mbs.Mechanism({"arm": spatial.Body()}, {"mount": getattr(spatial, kind)("ground", "arm", X, Z, *held)})
    mount = mbs.kinematics(mech, TIMES, max_steps=5000, throw=True).joint("mount")
    np.testing.assert_allclose(mount.angle, polynomial(TURNING, TIMES), atol=1e-9)
    np.testing.assert_allclose(mount.slide, 0.2 * np.sin(4 * TIMES), atol=1e-12)


@pytest.mark.variant
def test_joints_of_batches_of_slices_and_under_transformations(turning):
    build = lambda length: windlass(length, 0.2 * length)
    lengths = jnp.array([0.3, 0.5, 0.9])
    runs = jax.jit(jax.vmap(lambda length: mbs.kinematics(build(length), TIMES)))(lengths)
    np.testing.assert_allclose(runs.joint("pin").angle, 7 * TIMES[None] + 0.2 * lengths[:, None], atol=1e-9)
    np.testing.assert_allclose(runs.joint("rail").slide, np.tile(0.1 * np.sin(3 * TIMES), (3, 1)), atol=1e-9)
    part = jax.tree.map(lambda x: x[1, 2:12:3], runs)
    np.testing.assert_allclose(part.joint("pin").rate, 7, atol=1e-9)
    inside = jax.jit(lambda length: mbs.kinematics(build(length), TIMES).joint("pin").angle[-1])
    np.testing.assert_allclose(jax.grad(inside)(0.3), 0.2, atol=1e-9)
    film = jax.tree.map(lambda x: x[::2], turning)
    np.testing.assert_allclose(film.joint("pin").rate, turning.joint("pin").rate[::2])
    np.testing.assert_allclose(jax.jit(lambda run: run.joint("pin").angle)(turning), turning.joint("pin").angle)


def test_a_motion_that_ends_keeps_its_last_angle(turning):
    """Not the turns that its last rates would go on to make."""
    ended = turning.status.at[5:].set(int(mbs.Status.LOCKED_UP)), turning.q.at[5:].set(turning.q[4])
    failed = eqx.tree_at(lambda run: (run.status, run.q), turning, ended)
    expected = polynomial(TURNING, np.minimum(TIMES, TIMES[4]))
    np.testing.assert_allclose(failed.joint("pin").angle, expected, atol=1e-9)


def test_a_mechanism_with_a_network_in_a_force_goes_through_transformations():
    network = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))
    torque = lambda state: network(jnp.stack([state.joint("pin").angle, state.joint("pin").rate]))[0]
    mech = mbs.Mechanism(
        {"bar": planar.Body(1.0, 0.1)},
        {"pin": planar.Revolute("ground", "bar", (0, 0), (-0.5, 0))},
        forces={"policy": mbs.Torque("bar", torque), "weight": mbs.Gravity((0, -9.81))},
    )
    go = lambda angle: mbs.simulate(mech, TIMES[:5], {"bar": (0.5, 0, 0)}, {"bar.phi": angle}, step=0.05)
    runs = jax.jit(jax.vmap(go))(jnp.array([0.1, 0.2]))
    np.testing.assert_allclose(runs.joint("pin").angle, runs.position("bar.phi"), atol=1e-12)


def test_tables_do_not_grow_with_the_times():
    knots = jnp.linspace(0, 2, 200)

    def go(scale):
        mech = windlass()
        spline = mbs.motion.Spline(knots, scale * jnp.sin(knots))
        motor = spatial.RevoluteDriver("ground", "drum", motion=spline, axis_i=X)
        return mbs.kinematics(mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers | {"motor": motor}), TIMES[:5])

    run = jax.jit(go)(2.0)
    np.testing.assert_allclose(run.joint("pin").angle, 2 * np.sin(TIMES[:5]), atol=1e-5)
    assert max(np.size(leaf) // 5 for leaf in jax.tree.leaves(run)) < 100


def test_trajectories_can_be_pickled(turning):
    again = pickle.loads(pickle.dumps(turning))
    np.testing.assert_array_equal(again.joint("pin").angle, turning.joint("pin").angle)
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), turning)
    again = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(again.joint("pin").angle[1], turning.joint("pin").angle)
    driven = on_a_hinge(mbs.motion.Function(lambda t: 2 * t))
    np.testing.assert_array_equal(copy.deepcopy(turning.of(driven)).joint("pin").rate, turning.joint("pin").rate)


def test_single_precision():
    mech = windlass().astype(jnp.float32)
    pin = mbs.kinematics(mech, TIMES.astype(np.float32)).joint("pin")
    assert pin.angle.dtype == pin.rate.dtype == jnp.float32
    np.testing.assert_allclose(pin.angle, 7 * TIMES, atol=1e-4)


def test_messages():
    run = mbs.kinematics(windlass(), TIMES[:3])
    messages = {
        r"unknown joint 'pinn'; did you mean 'pin'\?": lambda: run.joint("pinn"),
        r"joint 'pin' \(Revolute\) has no slide; it has the angle 'phi'": lambda: run.joint("pin").slide,
        r"joint 'rail' \(Prismatic\) has no angle; it has the slide 's'": lambda: run.joint("rail").rate,
        r"joint 'motor' \(RevoluteDriver\) has no angle or slide of its own; joints are 'pin', 'rail'": lambda: (
            run.joint("motor")
        ),
        r"joint 'pin' \(Revolute\): unknown angle or slide 'x'; there are 'phi'": lambda: run.joint("pin", "x"),
    }
    for message, ask in messages.items():
        with pytest.raises(ValueError, match=message):
            ask()
    bare = mbs.Trajectory(run.t, run.q, run.v, run.a, run.status, run.layout)
    with pytest.raises(ValueError, match=r"does not know its mechanism: use run.of\(mech\)"):
        bare.joint("pin")
