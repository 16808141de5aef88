"""Rotors: inertia about one axis without mass, on the ground, on gear shafts, on turning carriers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.programs import ProgramWithFallback
from random_mechanisms import random_closed, random_velocity

FORMULATIONS = {
    "augmented": mbs.Augmented(),
    "joints": mbs.JointCoordinates(),
    "Kane": mbs.Kane(),
    "natural": mbs.Natural(),
}


def accelerations(mech, q, v, formulation):
    """Those of the bodies, in one state."""

    def at(mech, q, v):
        equations, t = formulation.equations(mech), jnp.zeros((), q.dtype)
        x, u = equations.from_bodies(q, v, t)
        return equations.to_bodies(x, u, equations.accelerations(x, u, t)[0], t)[2]

    return np.asarray(ProgramWithFallback(at)(mech, jnp.asarray(q), jnp.asarray(v)))


def snapshot(mech, q, v, a):
    """A motion of one instant."""
    row = lambda x: jnp.asarray(x)[None]
    return mbs.Trajectory(jnp.zeros(1), row(q), row(v), row(a), jnp.zeros(1, jnp.int32), mech.layout)


TORQUE = 2.0
J1 = 0.3
J2 = 0.05
RADII = (0.4, 0.1)


def gears(dimension):
    """Two rotors on the ground that roll on each other, a torque on the first."""
    rows = {"axis_i": (0, 0, 1)} if dimension == 3 else {}
    zero, far = np.zeros(dimension), 0.5 * np.eye(dimension)[0]
    space, torque = (spatial, (0, 0, TORQUE)) if dimension == 3 else (planar, TORQUE)
    return mbs.Mechanism(
        {"a": space.Rotor(J1), "b": space.Rotor(J2)},
        {
            "O": space.Revolute("ground", "a", zero, zero, **rows),
            "P": space.Revolute("ground", "b", far, zero, **rows),
            "gear": space.Gear("a", "b", zero, zero, radius_i=RADII[0], radius_j=RADII[1])
            if dimension == 3
            else planar.Gear("a", "b", zero, zero, *RADII, angle_j=np.pi),
        },
        forces={"torque": mbs.Torque("a", torque)},
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FORMULATIONS)
@pytest.mark.parametrize("dimension", [2, 3])
def test_inertia_behind_a_gear_counts_with_the_square_of_the_ratio(dimension, name):
    mech = mbs.with_marks(gears(dimension), {"b.x": 0.5})
    q = mbs.assemble(mech, {"b.x": 0.5}).q
    found = accelerations(mech, q, np.zeros(mech.layout.m), FORMULATIONS[name])
    ratio = -RADII[0] / RADII[1]
    expected = TORQUE / (J1 + ratio**2 * J2)
    # Coordinates of the gear itself come last.
    found = found[: 3 * (dimension - 1) * 2].reshape(2, -1)
    np.testing.assert_allclose(found[:, -1], [expected, ratio * expected], rtol=1e-10)
    np.testing.assert_allclose(found[:, :-1], 0, atol=1e-10)


def test_teeth_press_with_the_torque_of_the_driven_shaft():
    mech = gears(2)
    q, v = mbs.assemble(mech, {"b.x": 0.5}).q, np.zeros(6)
    a = accelerations(mech, q, v, mbs.Augmented())
    found = mbs.reactions(mech, snapshot(mech, q, v, a))
    np.testing.assert_allclose(found["gear"].about("ground", (0.5, 0)).torque, J2 * a[5], rtol=1e-10)
    # Rotors have no mass: their bearings bear what the teeth press with.
    for name in ("a", "b"):
        np.testing.assert_allclose(found.on(name).force, 0, atol=1e-10)


N, AT = np.array([1.0, 2.0, -1.0]), np.array([0.3, 0.1, -0.2])
AXIS = N / np.linalg.norm(N)
JOINTS = {
    "O": spatial.Spherical("ground", "arm", (0, 0, 0), (0, 0, 0)),
    "hinge": spatial.Revolute("arm", "rotor", AT, (0, 0, 0), N),
}
FORCES = {"gravity": mbs.Gravity((1.0, 2.0, -9.81)), "motor": mbs.TorsionSpring("arm", "rotor", actuator=0.7, axis_i=N)}
ARM = 1.3, np.diag([0.1, 0.2, 0.15]), np.array([0.2, 0.1, 0.05])


def turning(mech, spin=30.0):
    """The arm turned and turning, the rotor on it with an angle and a speed of its own."""
    rng = np.random.default_rng(2)
    arm = mech.layout.pose("arm", mech.coordinates({"arm": spatial.coordinates((0, 0, 0), rng.normal(size=3))}))
    omega = rng.normal(size=3)
    turned = np.asarray(mbs.rotation.exp_matrix(jnp.asarray(0.8 * AXIS)))
    rotor = spatial.coordinates(arm.a @ AT, np.asarray(arm.a) @ turned)
    q = mech.coordinates({"arm": jnp.concatenate([arm.r, arm.p]), "rotor": rotor})
    spinning = turned.T @ omega + spin * AXIS
    return q, np.concatenate([np.zeros(3), omega, arm.a @ np.cross(omega, AT), spinning])


@pytest.fixture(scope="module")
def carried():
    """A rotor on an arm on a ball joint, and what the augmented equations say of it."""
    mech = mbs.Mechanism({"arm": spatial.Body(*ARM), "rotor": spatial.Rotor(0.02, N)}, JOINTS, forces=FORCES)
    q, v = turning(mech)
    return mech, q, v, accelerations(mech, q, v, mbs.Augmented())


@pytest.mark.parametrize("name", ["joints", "Kane", "natural"])
def test_formulations_agree_on_a_rotor_on_a_turning_carrier(carried, name):
    mech, q, v, expected = carried
    found = accelerations(mech, q, v, FORMULATIONS[name])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_the_hinge_bears_the_gyroscopic_moment(carried):
    """Torque of the arm on the rotor: J n (φ̈ + nᵀω̇) + ω × J n (φ̇ + nᵀω), of which the motor gives its own."""
    mech, q, v, a = carried
    axes = np.asarray(mech.layout.pose("arm", q).a)
    n, omega, alpha = axes @ AXIS, axes @ v[3:6], axes @ a[3:6]
    own = mech.layout.pose("rotor", q).a
    relative, relative_rate = n @ (own @ v[9:] - omega), n @ (own @ a[9:] - alpha)
    expected = 0.02 * (n * (relative_rate + n @ alpha) + np.cross(omega, n) * (relative + n @ omega))
    hinge = mbs.reactions(mech, snapshot(mech, q, v, a))["hinge"].about("rotor", frame="ground")
    np.testing.assert_allclose(hinge.torque[0] + 0.7 * n, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(hinge.torque[0] @ n, 0, atol=1e-9)
    np.testing.assert_allclose(hinge.force[0], 0, atol=1e-9)
    # Half of its speed and more is not the arm's: the moment is not that of inertia alone.
    assert np.linalg.norm(np.cross(omega, n)) * 0.02 * relative > 0.1


def test_a_wheel_is_a_rotor_whose_mass_and_other_inertia_belong_to_its_carrier(carried):
    mass, across, along = 0.4, 0.03, 0.02
    wheel = spatial.Body(mass, across * np.eye(3) + (along - across) * np.outer(AXIS, AXIS))
    whole = mbs.Mechanism({"arm": spatial.Body(*ARM), "rotor": wheel}, JOINTS, forces=FORCES)
    # The arm with the wheel at rest on it, but for the inertia about the axis.
    m, inertia, com = ARM
    total = m + mass
    middle = (m * com + mass * AT) / total
    steiner = lambda m, s: m * (s @ s * np.eye(3) - np.outer(s, s))
    inertia = (
        inertia + steiner(m, com - middle) + across * (np.eye(3) - np.outer(AXIS, AXIS)) + steiner(mass, AT - middle)
    )
    parts = mbs.Mechanism(
        {"arm": spatial.Body(total, inertia, middle), "rotor": spatial.Rotor(along, N)}, JOINTS, forces=FORCES
    )
    q, v = turning(whole)
    found, expected = (accelerations(mech, q, v, mbs.Augmented()) for mech in (parts, whole))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    # Mass on the axis may also be left to the rotor.
    light = inertia - steiner(m, com - middle) - steiner(mass, AT - middle)
    heavy = {"arm": spatial.Body(m, light, com), "rotor": spatial.Rotor(along, N, mass)}
    found = accelerations(mbs.Mechanism(heavy, JOINTS, forces=FORCES), q, v, mbs.Augmented())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_a_fast_top_precesses_as_its_weight_over_its_moment_of_momentum():
    """With its axis horizontal Ω = m g l / h exactly, whatever the inertia of the carrier; h = J (φ̇ + nᵀω)."""
    m, g, lever, h = 1.2, 9.81, 0.3, 5.0
    mech = mbs.Mechanism(
        {"arm": spatial.Body(m, (0.01, 0.05, 0.05), (lever, 0, 0)), "top": spatial.Rotor(0.05, (1, 0, 0))},
        {
            "O": spatial.Spherical("ground", "arm", (0, 0, 0), (0, 0, 0)),
            "hinge": spatial.Revolute("arm", "top", (lever, 0, 0), (0, 0, 0), (1, 0, 0)),
        },
        forces={"gravity": mbs.Gravity((0, 0, -g))},
    )
    rate = m * g * lever / h
    start = {"arm": (0, 0, 0, 0, 0, rate), "top": (0, lever * rate, 0, h / 0.05, 0, rate)}
    times = np.linspace(0, 1.0, 5)
    run = mbs.simulate(mech, times, {"top.x": lever}, start, step=1e-3, formulation=mbs.JointCoordinates(), throw=True)
    place = np.stack([np.cos(rate * times), np.sin(rate * times), 0 * times], axis=1)
    np.testing.assert_allclose(run.point("arm", (1, 0, 0)), place, atol=1e-7)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("method", "formulation"), [(mbs.RK4(), mbs.Augmented()), (mbs.GeneralizedAlpha(0.9), mbs.JointCoordinates())]
)
def test_a_satellite_with_a_wheel_keeps_its_moment_of_momentum(method, formulation):
    inertia = np.array([0.5, 0.7, 0.9])
    mech = mbs.Mechanism(
        {"hull": spatial.Body(3.0, inertia), "wheel": spatial.Rotor(0.04, N)},
        {"hinge": spatial.Revolute("hull", "wheel", AT, (0, 0, 0), N)},
        forces={"motor": mbs.TorsionSpring("hull", "wheel", actuator=0.5, axis_i=N)},
    )
    omega = np.array([0.4, -0.3, 0.6])
    start = {"hull": (0, 0, 0, *omega), "wheel": (*np.cross(omega, AT), *(omega + 20 * AXIS))}
    options = {"step": 2e-3, "method": method, "formulation": formulation, "throw": True}
    run = mbs.simulate(mech, np.linspace(0, 0.5, 6), {"wheel": spatial.coordinates(AT)}, start, **options)
    turned = lambda body, x: np.einsum("tab,tb->ta", run.rotation(body), x)
    spin = np.asarray(run.v[:, 9:]) @ AXIS
    momentum = turned("hull", inertia * np.asarray(run.v[:, 3:6])) + turned("wheel", 0.04 * spin[:, None] * AXIS)
    np.testing.assert_allclose(momentum, momentum[:1] * np.ones((6, 1)), atol=2e-5)
    assert np.ptp(spin) > 3
    # The hull keeps its place: the wheel has no mass.
    np.testing.assert_allclose(run.point("hull"), 0, atol=1e-9)
    work = 0.5 * (run.joint("hinge").angle - run.joint("hinge").angle[0])
    np.testing.assert_allclose(run.energy.kinetic - run.energy.kinetic[0], work, atol=1e-4)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_a_rotor_in_the_plane_turns_against_its_arm(name):
    """The motor between them turns the rotor with τ and the arm with −τ, however the rotor's pin moves."""
    mech = mbs.Mechanism(
        {"arm": planar.Body(2.0, 0.1, (0.3, 0.0)), "rotor": planar.Rotor(0.05)},
        {"O": planar.Revolute("ground", "arm", (0, 0), (0, 0)), "P": planar.Revolute("arm", "rotor", (0.6, 0), (0, 0))},
        forces={"motor": mbs.Torque("rotor", 0.4, "arm")},
    )
    q, v = mech.coordinates({"rotor": (0.6, 0, 1.0)}), np.array([0, 0, 2.0, 0, 1.2, 70.0])
    found = accelerations(mech, q, v, FORMULATIONS[name])
    np.testing.assert_allclose(found[[2, 5]], [-0.4 / (0.1 + 2.0 * 0.3**2), 0.4 / 0.05], rtol=1e-10)


@pytest.mark.variant
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_formulations_agree_on_rotors_in_random_loops(dimension):
    rng = np.random.default_rng(1)
    mech, q = random_closed(rng, 3, dimension=dimension, structure_seed=2)
    bodies, constraints, places = dict(mech.bodies), dict(mech.constraints), [q]
    for name in mech.bodies:
        pose, s, n = mech.layout.pose(name, jnp.asarray(q)), rng.uniform(-0.5, 0.5, dimension), rng.normal(size=3)
        space, axis = (planar, ()) if dimension == 2 else (spatial, (n,))
        bodies[f"rotor of {name}"] = space.Rotor(0.3, *axis)
        hinge = space.Revolute(name, f"rotor of {name}", s, np.zeros(dimension), *axis)
        constraints[f"hinge of {name}"] = hinge
        places.append(mech.bodies[name].coordinates_of(pose.moved(pose.point(s) - pose.r)))
    mech = mbs.Mechanism(bodies, constraints, mech.drivers, mech.forces)
    q = np.concatenate(places)
    v = random_velocity(rng, mech, q)
    expected, *found = (accelerations(mech, q, v, formulation) for formulation in FORMULATIONS.values())
    for a in found:
        np.testing.assert_allclose(a, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_the_inertia_and_the_axis_of_a_rotor_are_design_variables():
    mech = mbs.Mechanism({"arm": spatial.Body(*ARM), "rotor": spatial.Rotor(0.02, N)}, JOINTS, forces=FORCES)
    q, v = turning(mech)

    def speed_up(inertia, axis):
        rotor = spatial.Rotor(inertia, axis)
        changed = mbs.Mechanism({"arm": spatial.Body(*ARM), "rotor": rotor}, JOINTS, forces=FORCES)
        return mbs.Augmented().equations(changed).accelerations(q, jnp.asarray(v), jnp.zeros(()))[0][3]

    slopes, h = jax.jit(jax.grad(speed_up, (0, 1)))(0.02, jnp.asarray(N)), 1e-6
    by_inertia = (speed_up(0.02 + h, N) - speed_up(0.02 - h, N)) / (2 * h)
    np.testing.assert_allclose(slopes[0], by_inertia, rtol=1e-6)
    # Of the axis only the direction counts.
    np.testing.assert_allclose(slopes[1] @ N, 0, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: spatial.Rotor(0.0), "inertia must be positive"),
        (lambda: spatial.Rotor((1, 2, 3)), "inertia must be a number"),
        (lambda: spatial.Rotor(0.1, (0, 0, 0)), "axis has no length"),
        (lambda: spatial.Rotor(0.1, (0, 1)), r"axis must be an array of shape \(3,\)"),
        (lambda: spatial.Rotor(0.1, mass=-1.0), "mass must not be negative"),
        (lambda: planar.Rotor(-0.1), "inertia must be positive"),
    ],
)
def test_bad_rotors_are_refused_by_name(make, words):
    with pytest.raises(ValueError, match=rf"body 'wheel' \(Rotor\): {words}"):
        mbs.Mechanism({"wheel": make()})
