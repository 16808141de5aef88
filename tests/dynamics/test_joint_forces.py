"""Springs, stops, clutches, motors and servos in joints, bushings and clearances: closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

import jaxmbs as mbs
from jaxmbs import planar, spatial
from ptxas import programs_of

FORMULATIONS = [mbs.Augmented(), mbs.JointCoordinates(), mbs.Kane(), mbs.Natural(own_vectors=("a",))]


def flywheel(inertia=0.3, **forces):
    pin = planar.Revolute("ground", "a", (0, 0), (0, 0))
    return mbs.Mechanism({"a": planar.Body(mass=2.0, inertia=inertia)}, {"pin": pin}, forces=forces)


def slider(**forces):
    guide = planar.Translational("ground", "a", (0, 0), (0, 0))
    return mbs.Mechanism({"a": planar.Body(mass=2.0, inertia=0.1)}, {"guide": guide}, forces=forces)


START = {"a": (0.0, 0.0, 0.0)}


def test_spring_and_damper():
    """x = e^(−δt) (cos ωt + (δ/ω) sin ωt) x₀ about the free length."""
    k, c, m, free = 80.0, 3.0, 2.0, 0.2
    mech = slider(spring=mbs.JointSpring("guide", k, free, c))
    run = mbs.simulate(mech, jnp.linspace(0, 1, 5), {"a": (0.5, 0, 0)}, step=1e-3)
    decay = c / (2 * m)
    omega = np.sqrt(k / m - decay**2)
    x = free + 0.3 * np.exp(-decay * run.t) * (np.cos(omega * run.t) + decay / omega * np.sin(omega * run.t))
    np.testing.assert_allclose(run.joint("guide").slide, x, atol=1e-9)
    np.testing.assert_allclose(run.energy.potential, k * (x - free) ** 2 / 2, atol=1e-8)


def test_spring_by_a_table():
    """A law through measured values, by a spline: at the measured values it gives the measured efforts."""
    x, torque = jnp.linspace(-1, 1, 9), -5 * jnp.linspace(-1, 1, 9) ** 3
    law = mbs.motion.Spline(x, torque)
    mech = flywheel(spring=mbs.JointSpring("pin", effort_law=lambda angle, rate: law(angle)))
    turned = lambda angle: mbs.generalized_force(mech, {"a": (0, 0, angle)}, jnp.zeros(3))[2]
    np.testing.assert_allclose([turned(angle) for angle in x[1:-1]], torque[1:-1], atol=1e-12)


@pytest.mark.parametrize("exponent", [1.0, 1.5])
def test_bounce_on_a_stop(exponent):
    """d v₀ − ln(1 + d v₀) = −d v₁ − ln(1 − d v₁), whatever the stiffness, the mass and the exponent are."""
    v_0, d = 0.8, 0.4
    stop = mbs.JointStop("guide", upper=0.1, stiffness=2e4, damping=d, exponent=exponent)
    run = mbs.simulate(
        slider(stop=stop), jnp.array([0.0, 0.3]), START, {"a.x": v_0, "a.y": 0.0, "a.phi": 0.0}, step=1e-5
    )
    left = d * v_0 - np.log(1 + d * v_0)
    v_1 = brentq(lambda v: -d * v - np.log(1 - d * v) - left, 1e-9, 1 / d - 1e-9)
    np.testing.assert_allclose(run.velocity("a.x")[-1], -v_1, rtol=1e-7)


def test_stops_of_an_angle_in_space():
    """Limits at −170° and 100°: an angle of −179° is 9° below the lower one, not above the upper."""
    limits = np.deg2rad([-170.0, 100.0])
    stop = mbs.JointStop("hinge", *limits, stiffness=10.0, exponent=1.0)
    hinge = spatial.Revolute("ground", "a", axis_i=(0, 0, 1))
    mech = mbs.Mechanism({"a": spatial.Body()}, {"hinge": hinge}, forces={"stop": stop})
    torque = lambda degrees: mbs.generalized_force(
        mech, {"a": spatial.coordinates(rotated=(0, 0, np.deg2rad(degrees)))}, jnp.zeros(6)
    )[5]
    wanted = {-179.0: 10 * np.deg2rad(9), 0.0: 0.0, 110.0: -10 * np.deg2rad(10)}
    for degrees, value in wanted.items():
        np.testing.assert_allclose(torque(degrees), value, atol=1e-9)


def test_one_way_clutch():
    """A torque back makes it creep with T / c; forth it turns freely."""
    back = flywheel(clutch=mbs.OneWayClutch("pin", damping=50.0), push=mbs.Torque("a", -2.0))
    forth = flywheel(clutch=mbs.OneWayClutch("pin", damping=50.0, capacity=1.0), push=mbs.Torque("a", 2.0))
    slips = flywheel(clutch=mbs.OneWayClutch("pin", damping=50.0, capacity=1.0), push=mbs.Torque("a", -2.0))
    at_end = lambda mech: mbs.simulate(mech, jnp.array([0.0, 1.0]), START, step=1e-3).velocity("a.phi")[-1]
    np.testing.assert_allclose(at_end(back), -2 / 50, rtol=1e-9)
    np.testing.assert_allclose(at_end(forth), 2 / 0.3, rtol=1e-9)
    assert at_end(slips) < -3


def test_servo():
    """Behind a ramp a servo with a velocity gain stays by T / k_p, for a torque T against it; and it is limited."""
    target = mbs.motion.Ramp(rate=0.7)
    servo = mbs.Servo("pin", target, 400.0, 20.0)
    mech = flywheel(servo=servo, load=mbs.Torque("a", -8.0))
    run = mbs.simulate(mech, jnp.array([0.0, 3.0]), START, step=1e-3)
    np.testing.assert_allclose(run.position("a.phi")[-1], 0.7 * 3 - 8 / 400, rtol=1e-8)
    weak = flywheel(servo=mbs.Servo("pin", 10.0, 400.0, limit=3.0))
    np.testing.assert_allclose(mbs.generalized_force(weak, START, jnp.zeros(3)), [0, 0, 3.0])


K, R, N, J, LOAD, L, U = 0.05, 2.0, 10.0, 1e-3, 0.3, 0.4, 12.0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
def test_inertia_of_a_drive(formulation):
    """(I + J) α = T, and the energy is ½ (I + J) ω²; a second drive adds to the first."""
    drives = {"one": mbs.JointInertia("pin", 0.2), "other": mbs.JointInertia("pin", 0.5)}
    mech = flywheel(LOAD, **drives, push=mbs.Torque("a", 3.0))
    run = mbs.simulate(mech, jnp.array([0.0, 0.5]), START, step=0.05, formulation=formulation)
    np.testing.assert_allclose(run.acceleration("a.phi"), 3 / (LOAD + 0.7), rtol=1e-10)
    np.testing.assert_allclose(run.energy.kinetic, (LOAD + 0.7) * run.velocity("a.phi") ** 2 / 2, rtol=1e-10)
    torque = mbs.force_elements(mech, run)["one"].torque
    np.testing.assert_allclose(torque, -0.2 * 3 / (LOAD + 0.7), rtol=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.JointCoordinates()], ids=lambda f: type(f).__name__)
def test_inertia_at_the_angular_velocity_of_a_ball(formulation):
    """Two bodies turn about one point: their angular momentum and ½ Σ ωᵀ I ω + ½ Σ J_k w_k² are conserved."""
    moments = {"a": np.array([1.0, 2.0, 2.5]), "b": np.array([0.8, 0.5, 0.9])}
    at_ball = np.array([0.3, 0.6, 0.2])
    bodies = {name: spatial.Body(1.0, np.diag(moment)) for name, moment in moments.items()}
    balls = {"O": spatial.Spherical("ground", "a"), "ball": spatial.Spherical("a", "b")}
    rotors = {x: mbs.JointInertia("ball", j, coordinate=x) for x, j in zip(("wx", "wy", "wz"), at_ball, strict=True)}
    mech = mbs.Mechanism(bodies, balls, forces=rotors)
    q = {"a": spatial.coordinates(rotated=(0.4, 0, 0.2)), "b": spatial.coordinates(rotated=(0, 0.3, 1.0))}
    speeds = {"a.wx": 1.0, "a.wy": -2.0, "a.wz": 0.5, "b.wx": -3.0, "b.wy": 1.0, "b.wz": 4.0}
    run = mbs.simulate(mech, np.linspace(0, 0.2, 3), q, speeds, step=1e-3, formulation=formulation, throw=True)
    omega = {name: np.stack([run.velocity(f"{name}.w{x}") for x in "xyz"], axis=1) for name in bodies}
    axes = {name: np.asarray(run.rotation(name)) for name in bodies}
    momentum = sum(np.einsum("tij,tj->ti", axes[name], moments[name] * omega[name]) for name in bodies)
    np.testing.assert_allclose(momentum, momentum[:1].repeat(3, axis=0), atol=1e-9)
    w = omega["b"] - np.einsum("tji,tjk,tk->ti", axes["b"], axes["a"], omega["a"])
    kinetic = (
        sum((moments[name] * omega[name] ** 2).sum(axis=1) for name in bodies) / 2 + (at_ball * w**2).sum(axis=1) / 2
    )
    np.testing.assert_allclose(run.energy.kinetic, kinetic, rtol=1e-12)
    np.testing.assert_allclose(kinetic, kinetic[0], rtol=1e-9)
    assert np.abs(omega["b"][-1] - omega["b"][0]).max() > 0.3


@pytest.mark.parametrize("closed", [False, True])
def test_semi_implicit_euler_with_drives_has_order_one(closed):
    """Half the step, half the distance from a run of RK4, for two bars with drives at both hinges, open and in a loop."""
    bodies = {"a": planar.Body(1.0, 0.05, (0.5, 0)), "b": planar.Body(0.7, 0.04, (0.5, 0))}
    joints = {"O": planar.Revolute("ground", "a", (0, 0), (0, 0)), "A": planar.Revolute("a", "b", (1, 0), (0, 0))}
    if closed:
        joints["slide"] = planar.RelativeY("ground", "b", (0, 0), (1.4, 0))
    drives = {"at O": mbs.JointInertia("O", 0.6), "at A": mbs.JointInertia("A", 0.3)}
    mech = mbs.Mechanism(bodies, joints, forces={"weight": mbs.Gravity((0, -9.81)), **drives})
    start = {"a": (0, 0, 0.8), "b": (np.cos(0.8), np.sin(0.8), -np.arcsin(np.sin(0.8) / 1.4))}

    def end(step, method):
        """Velocities after a quarter of a second."""
        options = {"step": step, "method": method, "formulation": mbs.JointCoordinates(), "throw": True}
        return np.asarray(mbs.simulate(mech, np.array([0, 0.25]), start, {"a.phi": 3.0}, **options).v[-1])

    exact = end(1e-3, mbs.RK4())
    errors = [np.abs(end(step, mbs.SemiImplicitEuler()) - exact).max() for step in (2e-3, 1e-3)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_drives_in_single_precision_beside_float64():
    """A mechanism in float32 stays so although JAX has float64: (I + J) α = T to single precision."""
    mech = flywheel(LOAD, drive=mbs.JointInertia("pin", 0.7), push=mbs.Torque("a", 3.0))
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), mech)
    times = np.array([0.0, 0.1], np.float32)
    run = mbs.simulate(single, times, START, step=0.05, formulation=mbs.JointCoordinates(), throw=True)
    assert run.a.dtype == jnp.float32
    np.testing.assert_allclose(run.acceleration("a.phi"), 3 / (LOAD + 0.7), rtol=1e-5)


def test_drives_at_joints_of_the_tree_cost_hardly_any_operations():
    """Their inertia is added to the diagonal of the mass matrix: in a chain of six hinges, to six of its entries."""
    names = [f"b{k}" for k in range(6)]
    bodies = {name: planar.Body(1.0, 0.1) for name in names}
    hinges = {
        name: planar.Revolute(carrier, name, (float(k > 0), 0), (0, 0))
        for k, (carrier, name) in enumerate(zip(["ground", *names], names, strict=False))
    }

    def operations(drives):
        """Operations of all steps of a simulation."""
        mech = mbs.Mechanism(bodies, hinges, forces={f"drive {x}": mbs.JointInertia(x, 0.2) for x in drives})
        start = {name: (float(k), 0, 0) for k, name in enumerate(names)}
        times = np.array([0.0, 1.0])
        run = lambda q: mbs.simulate(mech, times, q, step=0.1, formulation=mbs.JointCoordinates()).q
        return max(program.work for program in programs_of(run, mech.coordinates(start)))

    assert operations(names) < 1.1 * operations([])


@pytest.mark.parametrize("formulation", FORMULATIONS[:3], ids=lambda f: type(f).__name__)
def test_motor_runs_up(formulation):
    """First order: ω = U / (n K) (1 − e^(−t/τ)), τ = R (n² J + I) / (n K)²; the energy has that of the rotor."""
    mech = flywheel(LOAD, motor=mbs.Motor("pin", K, R, U, ratio=N, inertia=J))
    run = mbs.simulate(mech, jnp.linspace(0, 10, 3), START, step=0.01, formulation=formulation)
    inertia = LOAD + N**2 * J
    omega = U / (N * K) * (1 - np.exp(-run.t * (N * K) ** 2 / (R * inertia)))
    np.testing.assert_allclose(run.velocity("a.phi"), omega, atol=1e-9)
    np.testing.assert_allclose(run.energy.kinetic, inertia * omega**2 / 2, rtol=1e-9)
    motor = mbs.force_elements(mech, run)["motor"]
    np.testing.assert_allclose(motor.current, (U - N * K * omega) / R, rtol=1e-9)
    np.testing.assert_allclose(motor.power, N * K * motor.current * omega, rtol=1e-9, atol=1e-12)


METHODS = [
    (mbs.Augmented(), mbs.RK4(), 1e-9),
    (mbs.Augmented(), mbs.GeneralizedAlpha(), 2e-5),
    (mbs.Augmented(), mbs.Adaptive(), 1e-6),
    (mbs.JointCoordinates(), mbs.RK4(), 1e-9),
    (mbs.Augmented(), mbs.CoordinatePartitioning(), 1e-9),
    (mbs.Augmented(), mbs.RK4(mbs.Baumgarte()), 1e-8),
    (mbs.JointCoordinates(), mbs.SemiImplicitEuler(), 0.05),
    (mbs.Augmented(), mbs.SemiImplicitEuler(), 0.05),
    (mbs.JointCoordinates(), mbs.GeneralizedAlpha(), 2e-5),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("formulation", "method", "tolerance"), METHODS, ids=lambda x: type(x).__name__)
def test_current_is_a_state(formulation, method, tolerance):
    """L di/dt = U − R i − n K ω, (I + n² J) dω/dt = n K i, by the matrix exponential; with every method."""
    motor = mbs.Motor("pin", K, R, U, ratio=N, inertia=J, inductance=L)
    mech, times = flywheel(LOAD, motor=motor), jnp.linspace(0, 4, 3)
    step = None if isinstance(method, mbs.Adaptive) else 0.01
    rates = {"a.phi": 0.5, "a.x": 0.0, "a.y": 0.0}
    run = mbs.simulate(mech, times, START, rates, step=step, method=method, formulation=formulation)
    matrix = np.array([[-R / L, -N * K / L], [N * K / (LOAD + N**2 * J), 0]])
    steady = np.linalg.solve(-matrix, [U / L, 0])
    wanted = np.array([steady + expm(matrix * t) @ (np.array([0, 0.5]) - steady) for t in np.asarray(times)])
    np.testing.assert_allclose(run.state("motor.current"), wanted[:, 0], atol=tolerance)
    np.testing.assert_allclose(run.velocity("a.phi"), wanted[:, 1], atol=tolerance)
    np.testing.assert_allclose(mbs.force_elements(mech, run)["motor"].current, wanted[:, 0], atol=tolerance)


def test_gradient_by_the_numbers_of_a_motor():
    """Against differences, with a state of its own, a rotor, a limit and a gearbox that loses."""
    x = jnp.array([K, R, N, J, L, 0.8])

    def at_end(x):
        k, r, n, j, inductance, efficiency = x
        motor = mbs.Motor(
            "pin", k, r, U, ratio=n, inertia=j, inductance=inductance, efficiency=efficiency, current_limit=4.0
        )
        run = mbs.simulate(
            flywheel(LOAD, motor=motor, load=mbs.Torque("a", -0.3)), jnp.array([0.0, 1.0]), START, step=0.01
        )
        return run.velocity("a.phi")[-1] + run.state("motor.current")[-1]

    slopes, h = jax.grad(at_end)(x), 1e-6
    for k, slope in enumerate(slopes):
        d = h * x[k] * jnp.eye(6)[k]
        np.testing.assert_allclose(slope, (at_end(x + d) - at_end(x - d)) / (2 * h * x[k]), rtol=1e-6, atol=1e-9)


def test_limits_of_a_motor():
    """The current goes to its limit and no further, and the voltage counts up to its own."""
    limited = flywheel(1e9, motor=mbs.Motor("pin", K, R, 24.0, inductance=0.1, current_limit=2.0))
    run = mbs.simulate(limited, jnp.array([0.0, 0.005, 0.008, 0.1]), START, step=1e-4)
    current = run.state("motor.current")
    assert current.max() <= 2.0
    np.testing.assert_allclose(current[1:3], 12 * (1 - np.exp(-20 * run.t[1:3])), rtol=1e-9)
    np.testing.assert_allclose(current[-1], 2.0, rtol=1e-9)
    held = flywheel(LOAD, motor=mbs.Motor("pin", K, R, 100.0, voltage_limit=U))
    np.testing.assert_allclose(mbs.generalized_force(held, START, jnp.zeros(3))[2], K * U / R)


def test_bushing_is_its_matrix():
    """For small displacements the wrench is K x + C ẋ, with matrices that couple everything; both bodies bear it."""
    rng = np.random.default_rng(0)
    square = rng.normal(size=(6, 6))
    skew = rng.normal(size=(6, 6))
    stiffness, damping = 100 * (square @ square.T + np.eye(6)), square @ square.T + np.eye(6) + skew - skew.T
    mount = mbs.Bushing("a", "b", (0.1, 0, 0.2), (-0.3, 0.1, 0), stiffness, damping)
    mech = mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, forces={"mount": mount})
    offset = np.array([0.1, 0, 0.2]) - np.array([-0.3, 0.1, 0])
    at_rest = mech.coordinates({"a": spatial.coordinates(), "b": spatial.coordinates(offset)})
    force = lambda d, v: mbs.generalized_force(mech, mech.layout.retract(at_rest, d), v)
    still = jnp.zeros(12)
    # Displacements of the mount by velocities of b: its origin moves, and turns about it.
    arm = np.array([-0.3, 0.1, 0])
    cross = np.array([[0, -arm[2], arm[1]], [arm[2], 0, -arm[0]], [-arm[1], arm[0], 0]])
    map_b = np.block([[np.eye(3), -cross], [np.zeros((3, 3)), np.eye(3)]])
    by_place, by_speed = jax.jacfwd(force, (0, 1))(still, still)
    np.testing.assert_allclose(by_place[6:, 6:], -map_b.T @ stiffness @ map_b, atol=1e-9)
    np.testing.assert_allclose(by_speed[6:, 6:], -map_b.T @ damping @ map_b, atol=1e-9)
    # Forces are opposite, and so are the torques about any point.
    moved = 0.3 * rng.normal(size=12)
    q = mech.layout.retract(at_rest, moved)
    load = np.asarray(mbs.generalized_force(mech, q, rng.normal(size=12)))
    poses = mech.poses(q)
    wrenches = [np.asarray(poses[name].to_ground(load[k : k + 6])) for name, k in (("a", 0), ("b", 6))]
    np.testing.assert_allclose(wrenches[0][:3] + wrenches[1][:3], 0, atol=1e-9)
    about = [w[3:] + np.cross(poses[name].r, w[:3]) for name, w in zip("ab", wrenches, strict=True)]
    np.testing.assert_allclose(about[0] + about[1], 0, atol=1e-9)


def test_bushing_keeps_energy():
    """Without damping, at large displacements: the force is that of its potential."""
    mount = mbs.Bushing("ground", "a", stiffness=(50.0, 60.0, 70.0, 4.0, 5.0, 6.0))
    mech = mbs.Mechanism({"a": spatial.Body(mass=2.0, inertia=(0.3, 0.4, 0.5))}, forces={"mount": mount})
    start = {"a": spatial.coordinates((0.5, 0.2, -0.4), rotated=(0.5, -0.7, 0.3))}
    run = mbs.simulate(mech, jnp.linspace(0, 2, 5), start, jnp.array([0, 0, 0, 1.0, 2, 3]), step=2e-3)
    np.testing.assert_allclose(run.energy.total, run.energy.total[0], rtol=1e-9)


def test_pin_with_clearance_bounces():
    """Straight on, without gravity, it is a Hunt–Crossley contact; "flores" makes the loss of its restitution nearly."""
    v_0, c = 0.5, 1e-3

    def at_end(**options):
        pin = mbs.ClearanceRevolute("ground", "a", clearance=c, stiffness=1e7, impact_velocity=v_0, **options)
        mech = mbs.Mechanism({"a": planar.Body(mass=2.0)}, forces={"pin": pin})
        return mbs.simulate(mech, jnp.array([0.0, 0.0115]), START, jnp.array([v_0, 0, 0]), step=2e-6).velocity("a.x")[
            -1
        ]

    d = 3 * (1 - 0.9**2) / (4 * v_0)
    left = d * v_0 - np.log(1 + d * v_0)
    v_1 = brentq(lambda v: -d * v - np.log(1 - d * v) - left, 1e-9, 1 / d - 1e-9)
    np.testing.assert_allclose(at_end(restitution=0.9), -v_1, rtol=1e-6)
    assert abs(-at_end(restitution=0.5, law="flores") / v_0 - 0.5) < 0.06


def test_pin_with_clearance_and_friction_in_space():
    """A pin pressed into its hole by its weight, turning: both ends bear half, and friction brakes it with μ r m g."""
    m, mu, r = 2.0, 0.2, 0.01
    pin = mbs.ClearanceRevolute(
        "ground", "a", clearance=1e-4, stiffness=1e7, exponent=1.0, length=0.1, friction=mu, velocity=1e-3, radius=r
    )
    mech = mbs.Mechanism({"a": spatial.Body(mass=m)}, forces={"pin": pin, "gravity": mbs.Gravity((0, -9.81, 0))})
    depth = m * 9.81 / (2 * 1e7)
    # The sliding surface is below the axis; where the pin would roll up the wall there is a sideways push as well.
    q = {"a": spatial.coordinates((0, -(1e-4 + depth), 0))}
    load = mbs.generalized_force(mech, q, jnp.array([0, 0, 0, 0, 0, 10.0]))
    np.testing.assert_allclose(load, [-mu * m * 9.81, 0, 0, 0, 0, -mu * r * m * 9.81], atol=1e-6)


BAD = [
    (lambda: mbs.JointStop("pin", 1.0, 0.5, stiffness=1.0), "lower must be below upper"),
    (lambda: mbs.JointStop("pin", stiffness=1.0), "lower or upper is missing"),
    (lambda: mbs.JointStop("pin", 1.0), "stiffness is missing"),
    (lambda: mbs.JointStop("pin", 1.0, stiffness=-1.0), "stiffness must be positive"),
    (lambda: mbs.JointSpring("pin"), "stiffness, damping or effort_law is missing"),
    (lambda: mbs.JointSpring("pim", 1.0), "pim"),
    (lambda: mbs.JointSpring("pin", 1.0, coordinate="s"), "'s'"),
    (lambda: mbs.OneWayClutch("pin", -1.0), "damping must be positive"),
    (lambda: mbs.Motor("pin", K, 0.0, U), "resistance must be positive"),
    (lambda: mbs.Motor("pin", K, R, U, efficiency=1.2), "efficiency must not be above 1"),
    (lambda: mbs.Motor("pin", K, R, U, inertia=-1.0), "inertia must not be negative"),
    (lambda: mbs.Motor("pin", K, R, None), "voltage"),
    (lambda: mbs.JointInertia("pin", -1.0), "inertia must not be negative"),
    (lambda: mbs.Servo("pin", 1.0, -1.0), "position_gain must not be negative"),
    (lambda: mbs.Bushing("ground", "a"), "stiffness is missing"),
    (lambda: mbs.Bushing("ground", "a", stiffness=np.eye(6)), "3×3"),
    (lambda: mbs.Bushing("ground", "a", stiffness=np.diag([1.0, 1, -1])), "negative"),
    (
        lambda: mbs.ClearanceRevolute("ground", "a", clearance=1.0, stiffness=1.0, restitution=0, law="flores"),
        "positive",
    ),
    (lambda: mbs.ClearanceRevolute("ground", "a", stiffness=1.0), "clearance is missing"),
    (lambda: mbs.ClearanceRevolute("ground", "a", clearance=1.0, stiffness=1.0, law="hertz"), "hertz"),
    (lambda: mbs.ClearanceRevolute("ground", "a", clearance=1.0, stiffness=1.0, friction=0.1), "velocity is missing"),
]


@pytest.mark.parametrize(("force", "message"), BAD)
def test_bad_input(force, message):
    with pytest.raises(ValueError, match=f"force 'x' .*{message}"):
        flywheel(x=force())


def machine(space, x):
    """A pendulum of two bodies with one of each of these forces, by random numbers x between 0 and 1."""
    body = planar.Body if space == 2 else spatial.Body
    point = lambda *r: r if space == 2 else (*r, 0.1)
    pin = planar.Revolute if space == 2 else spatial.Revolute
    pins = {"O": pin("ground", "a", point(0, 0), point(0, 1)), "A": pin("a", "b", point(0, -1), point(0, 1))}
    forces = {
        "gravity": mbs.Gravity((0, -9.81) if space == 2 else (0.3, -9.81, 1.0)),
        "spring": mbs.JointSpring("A", 3 * x[0], 0.2, x[1]),
        "stop": mbs.JointStop("A", -0.1 * x[2], 0.1, stiffness=100.0, damping=0.3),
        "rub O": mbs.JointFriction("O", 0.3 * x[3], 0.4, velocity=0.05, radius=0.1, viscous=x[4]),
        "rub A": mbs.JointFriction("A", 0.2, velocity=0.05, radius=0.1 * x[5]),
        "motor": mbs.Motor("O", 0.1, 2.0, 5 * x[6], ratio=20.0, inertia=1e-3 * x[7], inductance=0.1, efficiency=0.8),
        "servo": mbs.Servo("A", mbs.motion.Ramp(rate=x[8]), 5.0, 1.0),
        "clutch": mbs.OneWayClutch("A", 5.0, 2.0),
        "mount": mbs.Bushing("ground", "b", stiffness=x[9] * jnp.ones(3 if space == 2 else 6)),
        "play": mbs.ClearanceRevolute(
            "ground", "b", clearance=1.9, stiffness=200.0, friction=0.1, velocity=0.1, radius=0.1,
            length=None if space == 2 else 0.3,
        ),
    }  # fmt: skip
    return mbs.Mechanism({"a": body(mass=1.0), "b": body(mass=2.0)}, pins, forces=forces)


@pytest.mark.slow
@pytest.mark.parametrize("space", [2, 3])
def test_all_at_once(space):
    """Random numbers in a batch: formulations agree, no NaN, and the power of all forces is the rate of the energy."""
    x = jax.random.uniform(jax.random.key(0), (6, 10))
    place = (lambda y: (0.0, y, 0.0)) if space == 2 else (lambda y: spatial.coordinates((0, y, 0)))
    start = {"a": place(-1.0), "b": place(-3.0)}
    runs = []
    for formulation in (mbs.Augmented(), mbs.JointCoordinates()):

        def run(x, formulation=formulation):
            mech = machine(space, x)
            run = mbs.simulate(mech, np.array([0.0, 0.05]), start, step=1e-3, formulation=formulation)
            power = sum(one.power for one in mbs.force_elements(mech, run).values())
            kinetic = lambda q, v: mbs.energy(mech, q, v).kinetic
            rate = lambda q, v, a: jax.jvp(kinetic, (q, v), (mech.layout.rate(q, v), a))[1]
            return run.q, run.v, run.a, run.states, run.status, power, jax.vmap(rate)(run.q, run.v, run.a)

        runs.append(jax.jit(jax.vmap(run))(x))
    for *motion, status, power, rate in runs:
        assert all(np.all(np.isfinite(part)) for part in motion)
        assert np.all(status == mbs.Status.CONVERGED)
        np.testing.assert_allclose(rate, power, atol=1e-9 * np.abs(power).max())
        for mine, first in zip(motion, runs[0][:4], strict=True):
            np.testing.assert_allclose(mine, first, atol=1e-8 * np.abs(first).max())
