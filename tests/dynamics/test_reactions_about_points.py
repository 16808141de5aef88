"""Reactions about any point in any frame, of joints that consist of several elements, and on whole bodies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from random_mechanisms import random_closed, random_velocity

PLACES = {2: np.array([0.7, -1.2]), 3: np.array([0.7, -1.2, 0.4])}


def still_picture(mech, q, v):
    """A motion of one instant."""
    a = mbs.Augmented().equations(mech).accelerations(jnp.asarray(q), jnp.asarray(v), jnp.zeros(()))[0]
    status = jnp.zeros(1, jnp.int32)
    return mbs.Trajectory(jnp.zeros(1), jnp.asarray(q)[None], jnp.asarray(v)[None], a[None], status, mech.layout)


def cross(a, b):
    return np.cross(a, b) if len(a) == 3 else a[0] * b[1] - a[1] * b[0]


def momentum_rates(body, pose, v, a, place):
    """d/dt of momentum and of moment of momentum about a place of the ground, by hand."""
    d, axes, s = len(place), np.asarray(pose.a), np.asarray(body.com)
    inertia = np.asarray(body.inertia)
    if d == 2:
        across = np.array([-s[1], s[0]])
        centre = a[:2] + axes @ (a[2] * across - v[2] ** 2 * s)
        spin = inertia * a[2]
    else:
        w, alpha = v[3:], a[3:]
        centre = a[:3] + axes @ (np.cross(alpha, s) + np.cross(w, np.cross(w, s)))
        spin = axes @ (inertia @ alpha + np.cross(w, inertia @ w))
    force = body.mass * centre
    return force, spin + cross(np.asarray(pose.r) + axes @ s - place, force)


def applied_to(mech, q, v, name, place):
    """Applied force on a body, and its moment about a place of the ground."""
    load = np.asarray(mbs.generalized_force(mech, q, v))[mech.layout.velocity_slices[name]]
    pose, d = mech.layout.pose(name, jnp.asarray(q)), len(place)
    torque = np.asarray(pose.a) @ load[3:] if d == 3 else load[2]
    return load[:d], torque + cross(np.asarray(pose.r) - place, load[:d])


@pytest.mark.parametrize(("dimension", "seed"), [(2, 1), (3, 2)])
def test_reactions_and_applied_forces_change_the_momentum_of_every_body(dimension, seed):
    rng = np.random.default_rng(seed)
    mech, q = random_closed(rng, 4, dimension=dimension, structure_seed=seed, driver=True)
    v = random_velocity(rng, mech, q)
    run = still_picture(mech, q, v)
    found, place = mbs.reactions(mech, run), PLACES[dimension]
    for name, body in mech.bodies.items():
        where = mech.layout.velocity_slices[name]
        rates = momentum_rates(
            body, mech.layout.pose(name, jnp.asarray(q)), v[where], np.asarray(run.a[0])[where], place
        )
        applied = applied_to(mech, q, v, name, place)
        held = found.on(name).about("ground", place)
        np.testing.assert_allclose(held.force[0] + applied[0], rates[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(held.torque[0] + applied[1], rates[1], rtol=0, atol=1e-9)


def chain(joint, bodies=None):
    """A crank and a rod on a motor, the pin between them made by `joint`."""
    bodies = bodies or {"crank": planar.Body(1.0, 0.1, (0.2, 0.1)), "rod": planar.Body(0.7, 0.05, (0.1, -0.2))}
    pin = {"O": planar.Revolute("ground", "crank", (0, 0), (0, 0))}
    motor = {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Harmonic(0.3, 2.0, 0.4))}
    return mbs.Mechanism(bodies, pin | joint, motor, {"gravity": mbs.Gravity((0.0, -9.81))})


P, S = (0.5, 0.1), (-0.3, 0.2)
START = {"crank": (0, 0, 0.3 * np.sin(0.4)), "rod": (0.7, 0.3, 0.6)}


def moving(mech):
    start = mbs.assemble(mech, START, t=0.0)
    return mbs.simulate(mech, np.linspace(0, 0.1, 3), start, {"rod.phi": 2.0}, step=0.01, throw=True)


@pytest.fixture(scope="module")
def pinned():
    mech = chain({"A": planar.Revolute("crank", "rod", P, S)})
    run = moving(mech)
    return mech, run, mbs.reactions(mech, run)


def test_elements_of_one_joint_add_up_whichever_way_round_they_are(pinned):
    _, run, whole = pinned
    # x and y of the pin as two elements, one of them from rod to crank.
    parts = chain({"x": planar.RelativeX("crank", "rod", P, S), "y": planar.RelativeY("rod", "crank", S, P)})
    found = mbs.reactions(parts, run)
    for names, sign in ((("x", "y"), 1), (("y", "x"), -1)):
        np.testing.assert_allclose(found[names].force, sign * whole["A"].force, atol=1e-9)
        np.testing.assert_allclose(found[names].torque, 0 * whole["A"].torque, atol=1e-9)
    for body in ("crank", "rod"):
        ours, theirs = found.on(body).about("rod", (0.3, 0.4)), whole.on(body).about("rod", (0.3, 0.4))
        np.testing.assert_allclose(ours.force, theirs.force, atol=1e-9)
        np.testing.assert_allclose(ours.torque, theirs.torque, atol=1e-9)
    bearing = whole["O", "motor"]
    np.testing.assert_allclose(bearing.force, whole["O"].force, atol=1e-12)
    np.testing.assert_allclose(bearing.torque, whole["motor"].effort, atol=1e-9)


def test_what_pushes_along_the_ground_turns_the_bodies_at_two_places():
    """A rod that hangs on the crank by x only, below its pin: what acts on the crank acts at the crank's point."""
    bodies = {"crank": planar.Body(1.0, 0.1), "rod": planar.Body(1.0, 0.1)}
    mech = mbs.Mechanism(bodies, {"x": planar.RelativeX("crank", "rod", (0, 0.5), (0, 0.2))}, forces={})
    pushed = mbs.Mechanism(bodies, mech.constraints, forces={"push": mbs.PointForce("rod", (0, 0), (3.0, 0.0))})
    q = mech.coordinates({"rod": (0, -1, 0)})
    found = mbs.reactions(pushed, still_picture(pushed, q, np.zeros(6)))
    force = found["x"].force[0, 0]
    assert abs(force) > 0.5
    # About the origin of each body: lever 0.5 on the crank, 0.2 on the rod.
    np.testing.assert_allclose(found.on("crank").torque, [0.5 * force], atol=1e-12)
    np.testing.assert_allclose(found.on("rod").torque, [-0.2 * force], atol=1e-12)


def test_frames_and_points_of_a_reaction(pinned):
    mech, run, found = pinned
    pin = found["A"]
    # About the pin itself there is no torque, seen from the crank it is what `components` says, from the rod `body_force`.
    on_crank, on_rod = pin.about("crank", P), pin.about("crank", P, frame="rod")
    np.testing.assert_allclose(on_crank.force, pin.components[:, :2], atol=1e-12)
    np.testing.assert_allclose(on_rod.force, pin.body_force, atol=1e-12)
    np.testing.assert_allclose([on_crank.torque, on_rod.torque], 0, atol=1e-9)
    arm = np.asarray(run.point("rod", S)) - np.array([0.1, 0.0])
    torque = arm[:, 0] * pin.force[:, 1] - arm[:, 1] * pin.force[:, 0]
    np.testing.assert_allclose(pin.about("ground", (0.1, 0)).torque, torque, atol=1e-9)
    # One sample, a batch, and a gradient.
    last = jax.tree.map(lambda x: x[-1], pin)
    np.testing.assert_allclose(last.about("ground", (0.1, 0)).torque, torque[-1], atol=1e-9)
    twice = jax.tree.map(lambda x: jnp.stack([x, x]), run)
    np.testing.assert_allclose(
        mbs.reactions(mech, twice)["A"].about("ground", (0.1, 0)).torque, [torque] * 2, atol=1e-9
    )
    slope = jax.grad(lambda x: pin.about("ground", jnp.stack([x, jnp.zeros(())])).torque[0])(0.1)
    np.testing.assert_allclose(slope, -pin.force[0, 1], rtol=1e-12)


def test_gradient_of_a_moment_about_a_point_is_that_of_differences():
    def moment(x):
        mech = chain({"A": planar.Revolute("crank", "rod", jnp.stack([x, 0.1 * jnp.ones(())]), S)})
        q = jnp.array([0, 0, 0.1, x, 0.3, 0.4])
        v = jnp.zeros(6).at[2].set(1.0)
        run = mbs.Trajectory(jnp.zeros(1), q[None], v[None], v[None], jnp.zeros(1, jnp.int32), mech.layout)
        return mbs.reactions(mech, run)["A", "A"].about("ground", (0.2, 0.3)).torque[0]

    h = 1e-5
    differences = (moment(0.5 + h) - moment(0.5 - h)) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(moment))(0.5), differences, rtol=1e-7)


def test_a_total_joint_with_a_motion_is_a_hinge_and_its_motor():
    turn, ends = mbs.motion.Harmonic(0.5, 3.0, 0.2), ("ground", "arm", (0.1, 0.2, 0.0), (-0.3, 0.0, 0.1))
    bodies = {"arm": spatial.Body(1.3, (0.1, 0.2, 0.15), (0.2, 0.1, 0.0))}
    gravity = {"gravity": mbs.Gravity((1.0, -9.81, 2.0))}
    held = ("fixed", "fixed", "fixed")
    total = mbs.Mechanism(bodies, {"joint": spatial.TotalJoint(*ends, held, ("fixed", "fixed", turn))}, forces=gravity)
    hinge, motor = (
        spatial.Revolute(*ends, (0, 0, 1)),
        spatial.RevoluteDriver("arm", "ground", mbs.motion.Shifted(turn, -1)),
    )
    parts = mbs.Mechanism(bodies, {"hinge": hinge}, {"motor": motor}, gravity)
    run = mbs.kinematics(total, np.array([0.0, 0.3]), {}, throw=True)
    one, several = mbs.reactions(total, run), mbs.reactions(parts, run)
    # The motor is from the arm to the ground.
    at = {"body": "arm", "point": (0.3, 0.2, 0.1), "frame": "ground"}
    for ours, theirs in zip(several["hinge", "motor"].about(**at), one["joint"].about(**at), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    for ours, theirs in zip(several["motor", "hinge"].about(**at), one.on("ground").about(**at), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_what_cannot_be_added_or_placed_is_refused_by_name(pinned):
    *_, found = pinned
    with pytest.raises(ValueError, match=r"'O' is between 'ground' and 'crank', 'A' is between 'crank' and 'rod'"):
        found["O", "A"]
    with pytest.raises(ValueError, match="'O' does not act on 'rod'"):
        found.on("rod", "O")
    with pytest.raises(ValueError, match="unknown body 'rood'; did you mean 'rod'"):
        found.on("rood")
    with pytest.raises(ValueError, match="no constraint or driver acts on 'ground'"):
        mbs.Reactions({"A": found["A"]}).on("ground")
    with pytest.raises(ValueError, match="unknown body 'crnk'; did you mean 'crank'"):
        found["A"].about("crnk")
    with pytest.raises(ValueError, match=r"point must have shape \(2,\), got \(3,\)"):
        found["A"].about("crank", (0, 0, 0))
    with pytest.raises(KeyError, match="unknown constraint or driver 'B'"):
        found["A", "B"]
