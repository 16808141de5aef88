"""Motions in space with published numbers, or with those of models in minimal coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial
from linkages import reference
from spatial_problems import (
    RODS,
    MinimalModel,
    X,
    Y,
    Z,
    bricard,
    bricard_hexagon,
    bricard_model,
    double_cardan,
    frame,
    governor,
    governor_model,
    joint_case,
    on_a_joint,
    slider_crank,
    turned,
    two_shafts,
)


def gap(mech, run):
    """The largest |Φ| of a motion."""
    return float(jnp.max(jnp.abs(jax.vmap(lambda q, t: mbs.constraints(mech, q, t))(run.q, run.t))))


def in_ground(run, body, vectors):
    """Vectors in the frame of a body, by time, in the ground frame: ω, or ω̇, since ω × ω = 0."""
    return np.einsum("tij,tj->ti", run.rotation(body), vectors)


def spin(run, body):
    """The angular velocity of a body in the ground frame."""
    return in_ground(run, body, run.v[:, run.layout.velocity_slices[body]][:, 3:])


def angular_momentum(mech, run):
    """About the origin, in the ground frame, (T, 3)."""

    def at(q, v):
        total = jnp.zeros(3)
        for name, body in mech.bodies.items():
            pose = mech.layout.pose(name, q)
            momentum = body.mass_matrix(pose) @ v[mech.layout.velocity_slices[name]]
            total += jnp.cross(pose.r, momentum[:3]) + pose.direction(momentum[3:])
        return total

    return np.asarray(jax.jit(jax.vmap(at))(run.q, run.v))


@pytest.mark.parametrize("name", list(reference("single_body_joints")["cases"]))
def test_a_body_on_a_joint(name):
    """Six cases of Project Chrono's tests over 5 s: state to 1e-9, accelerations to 1e-8."""
    case = reference("single_body_joints")["cases"][name]
    mech, start, com = joint_case(name)
    run = mbs.simulate(mech, np.array(case["time"]), start, step=1e-3)
    assert not run.status.any()
    assert gap(mech, run) < 1e-13
    parameters = np.array(run.q[:, 3:])
    wanted = np.array(case["quaternion_wxyz"])
    parameters *= np.sign(np.sum(parameters * wanted, axis=1, keepdims=True))
    found = {
        "position": (run.point("body", com), 1e-9),
        "quaternion_wxyz": (parameters, 1e-9),
        "velocity": (run.point_velocity("body", com), 1e-9),
        "angular_velocity_world": (spin(run, "body"), 1e-9),
        "acceleration": (run.point_acceleration("body", com), 1e-8),
        "angular_acceleration_world": (in_ground(run, "body", run.a[:, 3:]), 1e-8),
    }
    for key, (values, tolerance) in found.items():
        np.testing.assert_allclose(values, case[key], rtol=0, atol=tolerance, err_msg=key)


# The body of the reference, its centre of mass as far from the joint, in an oblique place.
MASS, INERTIA, COM = 1.0, (0.04, 0.1, 0.1), np.array([1.6, 0.72, -0.96])
GRAVITY = np.array([0, 0, -9.80665])
PLACE, OBLIQUE = np.array([0.3, -0.2, 0.5]), frame(np.array([2.0, 1, -1]), np.array([0.5, 1, 2]))
TIMES = np.linspace(0, 5, 21)


def hanging(turn, advance=lambda x: np.zeros(3)):
    """A body on a joint as functions of minimal coordinates: its turn and advance in the joint's frame."""

    def placed(x):
        a = OBLIQUE @ turn(x)
        return [(PLACE + OBLIQUE @ advance(x) + a @ COM, a)]

    return MinimalModel(placed, [MASS], [INERTIA], lambda x: -MASS * GRAVITY @ placed(x)[0][0])


def euler_vector(x):
    """A bend without a twist: the rotation about (x₀, x₁, 0)."""
    angle = jnp.sqrt(x @ x)
    return turned(jnp.append(x / angle, 0.0), angle)


FRAMES = {"frame_i": OBLIQUE, "frame_j": np.eye(3)}
PITCH = 0.7
# Joint, minimal model, its coordinates and velocities at the start.
MODELS = {
    "universal": (
        spatial.Universal("ground", "body", PLACE, (0, 0, 0), OBLIQUE @ X, Y),
        hanging(lambda x: turned(X, x[0]) @ turned(Y, x[1])),
        ([0.2, -0.4], [0.3, 0.5]),
    ),
    "constant velocity": (
        spatial.ConstantVelocity("ground", "body", PLACE, (0, 0, 0), **FRAMES),
        hanging(euler_vector),
        ([0.3, 0.9], [0.4, -0.2]),
    ),
    "screw": (
        spatial.Screw("ground", "body", PLACE, (0, 0, 0), pitch=PITCH, **FRAMES),
        hanging(lambda x: turned(Z, x[0]), lambda x: Z * PITCH * x[0] / (2 * np.pi)),
        ([0.4], [1.0]),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_body_against_minimal_coordinates(name):
    """A universal joint, a homokinetic one and a screw over 5 s, against Lagrange's equations."""
    joint, model, (x, v) = MODELS[name]
    x_of_t, _ = model.motion(TIMES, x, v)
    wanted, turns = model.poses(x_of_t)
    mech = on_a_joint(joint, MASS, INERTIA, COM, GRAVITY)
    # The start of the model: origin, rotation, and their rates.
    body = lambda x: (lambda r, a: (r - a @ COM, a))(*model.placed(x)[0])
    (origin, a), (rate, a_rate) = jax.jvp(body, (jnp.array(x),), (jnp.array(v),))
    omega = (a.T @ a_rate)[np.array([2, 0, 1]), np.array([1, 2, 0])]
    start, rates = spatial.coordinates(origin, a), jnp.concatenate([rate, omega])
    run = mbs.simulate(mech, TIMES, start, rates, step=1e-3)
    assert not run.status.any()
    assert gap(mech, run) < 1e-13
    np.testing.assert_allclose(run.v[0], rates, rtol=0, atol=1e-14)
    np.testing.assert_allclose(run.point("body", COM), wanted, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.rotation("body"), turns, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.energy.total, run.energy.total[0], rtol=0, atol=1e-8)


def free_top(omega):
    """Torque-free rotation from parallel axes of a body with INERTIA, a top with the axis x: it turns about its angular
    momentum and about its own axis, both evenly."""
    j, k = INERTIA[:2]
    momentum = np.array(INERTIA) * omega
    size = np.linalg.norm(momentum)
    return lambda t: turned(momentum / size, size / k * t) @ turned(X, omega[0] * (1 - j / k) * t)


@pytest.mark.slow
def test_a_body_that_is_free_rigid_or_on_a_plane():
    """Closed forms over 5 s, three bodies at once: parabolas, even spins, rest and the force that it takes."""
    omega, drift, turning = np.array([3.0, 1.0, -2.0]), np.array([1.0, -2.0, 3.0]), 1.5
    body = spatial.Body(MASS, INERTIA, COM)
    mech = mbs.Mechanism(
        dict.fromkeys(("free", "held", "sliding"), body),
        {
            "free": spatial.Free("ground", "free"),
            "held": spatial.Rigid("ground", "held", PLACE, (0, 0, 0), **FRAMES),
            "sliding": spatial.Planar("ground", "sliding", PLACE, (0, 0, 0), **FRAMES),
        },
        forces={"gravity": mbs.Gravity(GRAVITY)},
    )
    there = spatial.coordinates(PLACE, OBLIQUE)
    along = drift - OBLIQUE[:, 2] * (OBLIQUE[:, 2] @ drift)
    rates = {
        "free": np.append(drift - np.cross(omega, COM), omega),
        "sliding": np.append(along - OBLIQUE @ np.cross(Z * turning, COM), Z * turning),
    }
    run = mbs.simulate(mech, TIMES, {"held": there, "sliding": there}, rates, step=1e-3)
    assert not run.status.any()
    t = TIMES[:, None]
    down = GRAVITY - OBLIQUE[:, 2] * (OBLIQUE[:, 2] @ GRAVITY)
    turns = {
        "free": [free_top(omega)(t) for t in TIMES],
        "held": [OBLIQUE] * len(TIMES),
        "sliding": [OBLIQUE @ turned(Z, turning * t) for t in TIMES],
    }
    centres = {
        "free": COM + drift * t + GRAVITY * t**2 / 2,
        "held": PLACE + OBLIQUE @ COM + 0 * t,
        "sliding": PLACE + OBLIQUE @ COM + along * t + down * t**2 / 2,
    }
    for name in mech.bodies:
        np.testing.assert_allclose(run.point(name, COM), centres[name], rtol=0, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(run.rotation(name), turns[name], rtol=0, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(run.a[:, mech.layout.velocity_slices["held"]], 0, atol=1e-12)
    # The multipliers of Rigid are the force on the body, in the ground, and the torque about the joint, in its frame.
    held = run.multipliers[:, mech.layout.row_slices["held"]]
    np.testing.assert_allclose(held[:, :3], np.tile(-MASS * GRAVITY, (len(TIMES), 1)), rtol=0, atol=1e-12)
    torque = np.cross(OBLIQUE @ COM, -MASS * GRAVITY) @ OBLIQUE
    np.testing.assert_allclose(held[:, 3:], np.tile(torque, (len(TIMES), 1)), rtol=0, atol=1e-12)


def test_torque_free_body():
    """A tumbling body: the reference to 1e-8 over 30 s, energy and angular momentum to 1e-10 over 100 s, sixteen turns."""
    problem = reference("torque_free_body")
    rows = np.array(problem["rows"])
    times = np.concatenate([np.linspace(0, 1, 11)[:-1], rows[:, 0], np.arange(31, 101)])
    body = spatial.Body(1.0, problem["principal_inertia_J"])
    start = np.append(np.zeros(3), problem["quaternion_initial_wxyz"])
    rates = np.append(np.zeros(3), problem["angular_velocity_initial_body"])
    mech = mbs.Mechanism({"body": body})
    run = mbs.simulate(mech, times, start, rates, step=4e-3)
    assert not run.status.any()
    found = np.array(run.q[10:16, 3:])
    found *= np.sign(np.sum(found * rows[:, 1:5], axis=1, keepdims=True))
    np.testing.assert_allclose(found, rows[:, 1:5], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.v[10:16, 3:], rows[:, 5:], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.energy.total, run.energy.total[0], rtol=1e-10)
    momentum = angular_momentum(mech, run)
    np.testing.assert_allclose(
        momentum, momentum[:1].repeat(len(times), 0), rtol=0, atol=1e-10 * np.linalg.norm(momentum[0])
    )
    # The rotation passes π whenever e₀ passes zero.
    assert np.sum(np.diff(np.sign(run.q[:, 3])) != 0) > 15


def turn_of(run, shaft, bearing):
    """Angle, speed and its rate of a shaft about the z axis of a frame in the ground, the angle without jumps."""
    turns = np.einsum("ij,tik->tjk", bearing, run.rotation(shaft))
    return (
        np.unwrap(np.arctan2(turns[:, 1, 0], turns[:, 0, 0])),
        run.velocity(f"{shaft}.wz"),
        run.acceleration(f"{shaft}.wz"),
    )


@pytest.mark.slow
def test_universal_joint():
    """Hooke's joint at four bends in one batch: angle and ratio of speeds to 1e-10, of accelerations to 1e-9."""
    problem = reference("universal_joint")
    rows = np.array(problem["rows"])
    bends = np.unique(rows[:, 0])
    angles, rate = np.deg2rad(rows[rows[:, 0] == bends[0], 1]), 2.0

    def turning(bend):
        guess = {"second": spatial.coordinates((0, 0, 0), turned(Y, bend))}
        return mbs.kinematics(two_shafts(spatial.Universal, bend, rate), angles / rate, guess)

    runs = jax.vmap(turning)(jnp.deg2rad(bends))
    assert not runs.status.any()
    for k, bend in enumerate(bends):
        run = jax.tree.map(lambda x, k=k: x[k], runs)
        angle, speed, acceleration = turn_of(run, "second", np.asarray(turned(Y, np.deg2rad(bend))))
        table = rows[rows[:, 0] == bend]
        np.testing.assert_allclose(turn_of(run, "first", np.eye(3))[0], angles, rtol=0, atol=1e-12)
        np.testing.assert_allclose(angle, table[:, 2], rtol=0, atol=1e-12)
        np.testing.assert_allclose(speed / rate, table[:, 3], rtol=0, atol=1e-12)
        np.testing.assert_allclose(acceleration / rate**2, table[:, 4], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_homokinetic_joint():
    """Bent by 45°, both shafts turn with the same speed, over three turns."""
    bend, rate = np.pi / 4, 2.0
    turn, times = np.asarray(turned(Y, bend)), np.linspace(0, 3 * np.pi, 61)
    guess = {"second": spatial.coordinates((0, 0, 0), turn)}
    run = mbs.kinematics(two_shafts(spatial.ConstantVelocity, bend, rate), times, guess)
    assert not run.status.any()
    angle, speed, acceleration = turn_of(run, "second", turn)
    np.testing.assert_allclose(angle, rate * times, rtol=0, atol=1e-12)
    np.testing.assert_allclose(speed, rate, rtol=1e-12)
    np.testing.assert_allclose(acceleration, 0, atol=1e-12)


@pytest.mark.slow
def test_double_cardan_joint():
    """Two universal joints with parallel yokes and equal bends: the last shaft turns as the first, the middle one not."""
    bend, rate, times = np.pi / 6, 2.0, np.linspace(0, 2 * np.pi, 41)
    mech, guess = double_cardan(bend, 0.4, rate)
    run = mbs.kinematics(mech, times, guess)
    assert not run.status.any()
    angle, speed, acceleration = turn_of(run, "last", np.asarray(turned(Y, 2 * bend)))
    np.testing.assert_allclose(angle, rate * times, rtol=0, atol=1e-11)
    np.testing.assert_allclose(speed, rate, rtol=1e-11)
    np.testing.assert_allclose(acceleration, 0, atol=1e-10)
    middle = turn_of(run, "middle", np.asarray(turned(Y, bend)))[1] / rate
    wanted = np.cos(bend) / (1 - (np.sin(bend) * np.cos(rate * times)) ** 2)
    np.testing.assert_allclose(middle, wanted, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_spatial_slider_crank():
    """Haug 12.2, all columns of the table over 1 s: positions to 1e-9, velocities to 2e-9, energy to 1e-10."""
    problem = reference("spatial_slider_crank")
    rows = np.array(problem["rows_centre_of_mass_at_pivot"])
    mech, start = slider_crank()
    p = problem["parameters"]
    run = mbs.simulate(mech, rows[:, 0], start, {"crank.wx": rows[0, 4]}, step=2e-4)
    assert not run.status.any()
    assert gap(mech, run) < 1e-14
    pin = run.point("crank", (0, 0, p["crank_length"])) - np.array(p["A"])
    positions = [run.position("slider.x"), np.arctan2(-pin[:, 1], pin[:, 2]), *run.point("rod").T]
    velocities = [run.velocity("slider.x"), run.velocity("crank.wx"), *spin(run, "rod").T]
    np.testing.assert_allclose(np.transpose(positions), rows[:, [1, 3, 5, 6, 7]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.transpose(velocities), rows[:, [2, 4, 8, 9, 10]], rtol=0, atol=2e-9)
    np.testing.assert_allclose(run.energy.total, rows[:, 11], rtol=0, atol=1e-10)


@pytest.mark.slow
def test_bricard():
    """IFToMM A04 over 10 s, 30 equations of rank 29: energy, gaps, and P3 against the symmetric motion in closed form."""
    mech, start = bricard()
    times = np.linspace(0, 10, 101)
    run = mbs.simulate(mech, times, start, step=2e-3)
    assert not run.status.any()
    for q in (start, run.q[-1]):
        report = mbs.diagnose(mech, q)
        assert (len(mech.layout.row_owners), report.rank, report.dof) == (30, 29, 1)
        assert report.redundant == ("P6",)
        assert report.consistent
    assert gap(mech, run) < 1e-14
    np.testing.assert_allclose(run.energy.total, run.energy.total[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.energy.total[0], 5 * 9.81 * -0.6, rtol=1e-12)
    psi, _ = bricard_model().motion(times, [3 * np.pi], [0.0])
    points = jax.vmap(lambda x: bricard_hexagon(x[0]))(psi)
    np.testing.assert_allclose(points[0], reference("bricard")["points_P1_to_P6_initial"], rtol=0, atol=1e-12)
    for k, name in enumerate(RODS):
        np.testing.assert_allclose(run.point(name, (0.5, 0, 0)), points[:, k + 1], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_stiff_flyball_governor():
    """IFToMM A05 at full stiffness over 10 s: s(t) against a model with three coordinates, angular momentum, energy."""
    times = np.linspace(0, 10, 101)
    model, x, v = governor_model()
    wanted, rates = model.motion(times, x, v, "Radau", rtol=1e-9, atol=1e-11)
    mech, start, spinning = governor()
    run = mbs.simulate(mech, times, start, spinning, step=1e-4, method=mbs.GeneralizedAlpha(0.8))
    assert not run.status.any()
    assert gap(mech, run) < 1e-14
    np.testing.assert_allclose(run.position("slider.z"), wanted[:, 2], rtol=0, atol=5e-7)
    np.testing.assert_allclose(run.velocity("shaft.wz"), rates[:, 0], rtol=1e-6)
    momentum = angular_momentum(mech, run)
    np.testing.assert_allclose(momentum[:, 2], momentum[0, 2], rtol=1e-8)
    np.testing.assert_allclose(momentum[:, :2], 0, atol=1e-10 * momentum[0, 2])
    assert np.all(np.diff(run.energy.total) < 0)
    lost = model.energy(wanted, rates) - model.energy(wanted, rates)[0]
    np.testing.assert_allclose(run.energy.total - run.energy.total[0], lost, rtol=0, atol=2e-6)
