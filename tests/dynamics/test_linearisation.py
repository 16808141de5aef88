"""Linear equations of motion against closed forms, simulations, Pinocchio and MuJoCo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.signal import impulse

import jaxmbs as mbs
from designed_four_bar import GUESS, PLAIN, four_bar
from jaxmbs import planar, spatial

G = 9.81


def hanging(length=1.0, mass=2.0, **forces):
    """A point mass on a massless rod."""
    pin = {"pin": planar.Revolute("ground", "bob", (0, 0), (0, length))}
    weight = {"gravity": mbs.Gravity((0.0, -G))}
    mech = mbs.Mechanism({"bob": planar.Body(mass=mass, inertia=0)}, pin, forces={**weight, **forces})
    return mech, {"bob": (0, -length, 0)}


@pytest.mark.parametrize(
    "formulation", [mbs.JointCoordinates(), mbs.Augmented(), mbs.Kane(), mbs.Natural()], ids=lambda f: type(f).__name__
)
def test_pushed_pendulum(formulation):
    """m l² φ̈ = −m g l φ + F_x l; the pin holds the bob with −m g φ, and nothing of a push at a point mass."""
    length, mass = 0.5, 2.0
    mech, below = hanging(length, mass, push=mbs.PointForce("bob", (0, 0), (0, 0)))
    outputs = (
        "bob.x",
        ("bob", (0, length)),
        "pin.force.x",
        "velocity.pin.phi",
        "acceleration.bob.x",
        "energy.potential",
    )
    linear = mbs.linearise(mech, below, inputs=("push.x",), outputs=outputs, formulation=formulation)
    # A coordinate x = l φ may have been chosen; the unit vector of `Natural` has the component φ.
    scale = length if linear.coordinates == ("bob.x",) else 1.0
    arm = length / scale
    np.testing.assert_allclose(linear.A, [[0, 1], [-G / length, 0]], atol=1e-12)
    np.testing.assert_allclose(linear.B, [[0], [1 / (mass * arm)]], atol=1e-12)
    expected = [[arm, 0], [0, 0], [0, 0], [-mass * G / scale, 0], [0, 1 / scale], [-G * arm / length, 0], [0, 0]]
    np.testing.assert_allclose(linear.C, expected, atol=1e-12)
    np.testing.assert_allclose(linear.D.T, [[0, 0, 0, 0, 0, 1 / mass, 0]], atol=1e-12)
    np.testing.assert_allclose(linear.output, [0, 0, 0, 0, 0, 0, -mass * G * length], atol=1e-12)
    np.testing.assert_allclose(linear.rate, 0, atol=1e-12)
    assert linear.output_names[1:3] == ("point(bob,0,0.5).x", "point(bob,0,0.5).y")


def test_transfer_function_and_state_space_of_scipy():
    """x/F = 1 / (m (s² + g/l)) for any shape of s; the response to an impulse by SciPy."""
    mech, below = hanging(push=mbs.PointForce("bob", (0, 0), (0, 0)))
    linear = mbs.linearise(mech, below, inputs=("push.x",), outputs=("bob.x",))
    s = np.array([[1j, 2 + 1j, 0.5], [2j, -1.0, 10j]])
    np.testing.assert_allclose(linear.transfer(s)[..., 0, 0], 1 / (2 * (s**2 + G)), rtol=1e-12)
    times, response = impulse(linear.to_scipy(), T=np.linspace(0, 2, 5))
    np.testing.assert_allclose(np.ravel(response), np.sin(np.sqrt(G) * times) / (2 * np.sqrt(G)), atol=1e-10)


@pytest.mark.parametrize("formulation", [mbs.JointCoordinates(), mbs.Augmented()], ids=lambda f: type(f).__name__)
def test_driven_support(formulation):
    """φ̈ = −(g φ + ẍ₀)/l; the driver pushes with (M + m) ẍ₀ + m l φ̈; x = x₀ + l φ. The input is ẍ₀."""
    mass, length = 2.0, 0.8
    mech = mbs.Mechanism(
        {"cart": planar.Body(mass=3.0, inertia=1.0), "bob": planar.Body(mass=mass, inertia=0)},
        {
            "guide": planar.Translational("ground", "cart", (0, 0), (0, 0)),
            "pin": planar.Revolute("cart", "bob", (0, 0), (0, length)),
        },
        {"base": planar.TranslationalDriver("ground", "cart", (0, 0), (0, 0), (1, 0), mbs.motion.Ramp(2.0))},
        {"gravity": mbs.Gravity((0.0, -G))},
    )
    outputs = ("bob.x", "base.effort")
    linear = mbs.linearise(mech, {"bob": (0, -length, 0)}, inputs=("base",), outputs=outputs, formulation=formulation)
    assert linear.state_names[2:] == ("base", "velocity.base")
    s = 1.7j
    angle = -1 / (length * (s**2 + G / length))
    expected = [1 / s**2 + length * angle, 3 + mass + mass * length * s**2 * angle]
    np.testing.assert_allclose(linear.transfer(s)[:, 0], expected, rtol=1e-11)


def test_motor_with_a_state():
    """L di/dt = u − R i − K n φ̇ and (m l² + n² J) φ̈ = −m g l φ + n K i."""
    k, r, n, inductance, inertia = 0.05, 2.0, 50.0, 0.1, 1e-3
    motor = mbs.Motor(
        "pin", torque_constant=k, resistance=r, voltage=0.0, ratio=n, inductance=inductance, inertia=inertia
    )
    mech, below = hanging(motor=motor)
    linear = mbs.linearise(mech, below, inputs=("motor",), outputs=("motor.current",))
    total = 2.0 + n**2 * inertia
    expected = [[0, 1, 0], [-2 * G / total, 0, n * k / total], [0, -k * n / inductance, -r / inductance]]
    np.testing.assert_allclose(linear.A, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(linear.B, [[0], [0], [1 / inductance]], atol=1e-12)
    np.testing.assert_allclose(linear.C, [[0, 0, 1]], atol=0)
    assert linear.state_names == ("pin.phi", "velocity.pin.phi", "motor.current")
    run = mbs.simulate(mech, jnp.array([0.0, 0.3]), {"bob": (1, 0, np.pi / 2)}, step=0.01)
    later = mbs.linearise(mech, jax.tree.map(lambda x: x[1], run))
    np.testing.assert_allclose(later.rate[1], run.acceleration("bob.phi")[1], rtol=1e-9)
    current_rate = (-r * run.state("motor.current") - k * n * run.velocity("bob.phi"))[1] / inductance
    np.testing.assert_allclose(later.rate[2], current_rate, rtol=1e-9)


def test_servo_follows_its_target():
    """m l² φ̈ = k (u − φ) − d φ̇ − m g l φ, also if the target is a motion."""
    servo = mbs.Servo("pin", mbs.motion.Constant(0.0), position_gain=30.0, velocity_gain=3.0)
    mech, below = hanging(servo=servo)
    linear = mbs.linearise(mech, below, inputs=("servo",))
    np.testing.assert_allclose(linear.A[1], [-(30 + 2 * G) / 2, -3 / 2], rtol=1e-12)
    np.testing.assert_allclose(linear.B[1], [15.0], rtol=1e-12)


def test_four_bar_beside_simulations():
    """Small motions about an equilibrium: e^{At} against differences of simulations from neighbouring states."""
    springs = {
        "spring": mbs.Spring("ground", "coupler", (0.1, 0.4), (0.2, 0.05), stiffness=60.0, free_length=0.1),
        "damper": mbs.TorsionDamper("crank", "coupler", 0.03),
        "hinge": mbs.JointSpring("O", 5.0),
        "gravity": mbs.Gravity((0.0, -G)),
    }
    mech = four_bar(PLAIN, springs, drivers={})
    at = lambda phi: mbs.assemble(mech, {**GUESS, "crank": (0, 0, phi)}, hold=("crank.phi",)).q
    slope = jax.grad(lambda phi: mbs.energy(mech, at(phi), jnp.zeros(9)).potential)(0.7)
    mech = four_bar(PLAIN, {**springs, "torque": mbs.Torque("crank", slope)}, drivers={})
    linear = mbs.linearise(mech, at(0.7), coordinates=("O.phi",))
    duration, step = 0.1, 1e-4

    def end(change):
        run = mbs.simulate(
            mech, jnp.array([0.0, duration]), at(0.7 + change[0]), {"crank.phi": change[1]}, step=duration / 50
        )
        return np.array([run.position("crank.phi")[-1], run.velocity("crank.phi")[-1]])

    columns = [(end(d) - end(-d)) / (2 * step) for d in step * np.eye(2)]
    np.testing.assert_allclose(np.stack(columns, axis=1), expm(np.asarray(linear.A) * duration), rtol=1e-6, atol=1e-6)


@pytest.mark.variant
def test_spinning_top_in_general_motion():
    """ẋ = N(x) u with Euler parameters: the derivatives along δx = N y, whose frame turns with the top."""
    inertia = ((0.3, 0.02, 0.0), (0.02, 0.5, 0.05), (0.0, 0.05, 0.4))
    top = mbs.Mechanism(
        {"top": spatial.Body(mass=2.0, inertia=inertia)},
        {"ball": spatial.Spherical("ground", "top", (0, 0, 0), (0.1, 0.2, -0.7))},
        forces={"gravity": mbs.Gravity((0, 0, -G))},
    )
    view = mbs.JointCoordinates().of(top)
    x, u = jnp.array([0.9, 0.1, -0.3, 0.3]), jnp.array([1.0, 0.5, 7.0])
    x = x / jnp.linalg.norm(x)
    q, v, _ = view.to_bodies(x, u)
    linear = mbs.linearise(top, q, v)
    acceleration = lambda x, u: jnp.linalg.solve(view.mass_matrix(x), view.force(x, u))
    zero = jnp.zeros(3)
    for y, w in ((y, zero) for y in jnp.eye(3)):
        moved = view.rate(x, y)
        rate = jax.jvp(lambda x: view.rate(x, u), (x,), (moved,))[1] + view.rate(x, w)
        rate = rate - jax.jvp(lambda x, y=y: view.rate(x, y), (x,), (view.rate(x, u),))[1]
        np.testing.assert_allclose(view.rate(x, linear.A[:3, :3] @ y), rate, atol=1e-12)
        np.testing.assert_allclose(linear.A[3:, :3] @ y, jax.jvp(acceleration, (x, u), (moved, w))[1], atol=1e-11)
    np.testing.assert_allclose(linear.A[:3, 3:], np.eye(3), atol=1e-12)
    np.testing.assert_allclose(linear.A[3:, 3:], jax.jacfwd(acceleration, 1)(x, u), atol=1e-11)
    bodies = mbs.linearise(top, q, v, formulation=mbs.Augmented(), coordinates=("top.wx", "top.wy", "top.wz"))
    np.testing.assert_allclose(bodies.A, linear.A, atol=1e-10)


# Axes of the hinges of an arm, and of the next hinge in the frame of each link.
AXES = ((0, 0, 1), (0, 1, 0), (1, 0, 0))
# Offset of the next hinge along each link.
OFFSET = (0.3, -0.1, 0.5)
# Centre of mass of each link.
CENTRE = (0.1, 0.05, 0.2)
# Moments of inertia of each link about its centre of mass.
INERTIA = (0.02, 0.03, 0.04)
# Mass of each link.
MASS = 1.5
# Angles of the hinges.
ANGLES = np.array([0.3, -0.7, 1.1])
# Rates of the hinges.
RATES = np.array([1.5, -0.4, 2.0])


def arm():
    """Return A of an arm with three hinges about different axes, in the state of `ANGLES` and `RATES`."""
    names = [f"link{k}" for k in range(3)]
    points = [(0, 0, 0), OFFSET, OFFSET]
    hinges = {
        f"hinge{k}": spatial.Revolute(i, j, points[k], (0, 0, 0), AXES[k])
        for k, (i, j) in enumerate(zip(["ground", *names], names, strict=False))
    }
    bodies = {name: spatial.Body(MASS, INERTIA, CENTRE) for name in names}
    mech = mbs.Mechanism(bodies, hinges, forces={"gravity": mbs.Gravity((0, 0, -G))})
    q, v, _ = mbs.JointCoordinates().of(mech).to_bodies(ANGLES, RATES)
    return mbs.linearise(mech, q, v).A


def test_open_chain_beside_pinocchio():
    pin = pytest.importorskip("pinocchio")
    robot = pin.Model()
    for k, kind in enumerate([pin.JointModelRZ, pin.JointModelRY, pin.JointModelRX]):
        place = pin.SE3(np.eye(3), np.array(OFFSET if k else (0, 0, 0), float))
        joint = robot.addJoint(k, kind(), place, f"hinge{k}")
        robot.appendBodyToJoint(joint, pin.Inertia(MASS, np.array(CENTRE), np.diag(INERTIA)), pin.SE3.Identity())
    robot.gravity.linear[:] = 0, 0, -G
    data = robot.createData()
    by_angles, by_rates, _ = pin.computeABADerivatives(robot, data, ANGLES, RATES, np.zeros(3))
    expected = np.block([[np.zeros((3, 3)), np.eye(3)], [by_angles, by_rates]])
    np.testing.assert_allclose(arm(), expected, atol=1e-11)


def test_open_chain_beside_mujoco():
    """MuJoCo's transition over one step h of its semi-implicit Euler method: v + h a(q, v), then q + h v."""
    mujoco = pytest.importorskip("mujoco")
    text = lambda x: " ".join(map(str, x))
    inner = ""
    for k in reversed(range(3)):
        inner = (
            f'<body pos="{text(OFFSET if k else (0, 0, 0))}"><joint axis="{text(AXES[k])}"/>'
            f'<inertial pos="{text(CENTRE)}" mass="{MASS}" diaginertia="{text(INERTIA)}"/>{inner}</body>'
        )
    step = 1.0
    option = f'<option timestep="{step}" gravity="0 0 -{G}" integrator="Euler"/>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco>{option}<worldbody>{inner}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = ANGLES, RATES
    found = np.zeros((6, 6))
    mujoco.mjd_transitionFD(model, data, 1e-5, True, found, None, None, None)
    rates = (found[3:] - np.eye(6)[3:]) / step
    np.testing.assert_allclose(arm()[3:], rates, atol=1e-8)


def test_designs_in_a_batch_and_gradients():
    """dA/dl = g/l² for named coordinates; chosen ones need known numbers."""
    stiffness = lambda length: mbs.linearise(*hanging(length), coordinates=("pin.phi",)).A[1, 0]
    lengths = jnp.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(jax.vmap(jax.grad(stiffness))(lengths), G / lengths**2, rtol=1e-12)
    with pytest.raises(ValueError, match=r"give coordinates=.*pin.phi"):
        jax.vmap(lambda length: mbs.linearise(*hanging(length)).A)(lengths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": ("bob.phi",)}, "unknown coordinate 'bob.phi'"),
        (
            {"coordinates": ("bob.y",), "formulation": mbs.Augmented()},
            "bob.y are not independent.*for example, bob.phi",
        ),
        ({"inputs": ("gravity",)}, "Gravity has no argument that can be an input"),
        ({"inputs": ("wind",)}, "unknown input"),
        ({"outputs": ("bob.z",)}, "'bob.z' is not a quantity"),
        ({"formulation": mbs.Augmented}, "formulation"),
    ],
)
def test_messages(options, message):
    with pytest.raises(ValueError, match=message):
        mbs.linearise(*hanging(), **options)


def test_a_driven_mechanism_and_a_whole_motion():
    with pytest.raises(ValueError, match="no degree of freedom"):
        mbs.linearise(four_bar(PLAIN), GUESS)
    mech, below = hanging()
    run = mbs.simulate(mech, jnp.array([0.0, 0.1]), below, step=0.1)
    with pytest.raises(ValueError, match="pick one time"):
        mbs.linearise(mech, run)


def test_bad_samples_and_arguments():
    """A bad sample of a batch has no matrices; names that are given twice or as one string are refused."""
    pin = {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))}

    def matrix(stiffness):
        spring = mbs.JointSpring("pin", stiffness=stiffness)
        mech = mbs.Mechanism({"bob": planar.Body()}, pin, forces={"spring": spring})
        return mbs.linearise(mech, {"bob": (0, -1, 0)}, coordinates=("pin.phi",)).A

    found = jax.vmap(matrix)(jnp.array([1.0, jnp.nan]))
    assert np.all(np.isfinite(found[0]))
    assert np.all(np.isnan(found[1]))
    mech = mbs.Mechanism({"bob": planar.Body()}, pin, forces={"push": mbs.Torque("bob", 0.0)})
    below = {"bob": (0, -1, 0)}
    with pytest.raises(ValueError, match="'push' is given twice"):
        mbs.linearise(mech, below, inputs=("push", "push"))
    with pytest.raises(ValueError, match="tuple of names"):
        mbs.linearise(mech, below, inputs="push")
    with pytest.raises(ValueError, match="tuple of names"):
        mbs.linearise(mech, below, coordinates="pin.phi")
    place = lambda length: mbs.linearise(mech, below, coordinates=("pin.phi",), outputs=(("bob", (0, length)),)).C[0, 0]
    # x of the point is (1 − L) φ.
    np.testing.assert_allclose(jax.jacfwd(place)(0.3), -1.0, rtol=1e-12)
