"""One body on one joint: Project Chrono's tests, motions by Lagrange's equations in minimal coordinates, closed forms."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial
from linkages import reference
from spatial_problems import MinimalModel, X, Y, Z, frame, joint_case, on_a_joint, turned
from verification.case import Simulation, case, close
from verification.cases.common import compare_with_start, gap, in_ground, spin, up_to_sign

# Simulation by RK4 with steps of 1 ms, for all cases of this file.
ONE_MS_STEPS = Simulation(1e-3)


def chrono(name, description, *, quick=False):
    """Register a case of Project Chrono."""

    @case("Project Chrono", f"{name}: {description}", ONE_MS_STEPS, references=("single_body_joints",), quick=quick)
    def body_on_a_joint(by, problem):
        """Compare the motion and the reaction of a body on a joint with Project Chrono's tables."""
        wanted = problem["cases"][name]
        mech, start, com = joint_case(name)
        run = by.run(mech, np.array(wanted["time"]), start)
        parameters = up_to_sign(run.q[:, 3:], wanted["quaternion_wxyz"])
        turning = in_ground(run, "body", run.a[:, 3:])
        yield close("position", run.point("body", com), wanted["position"], 1e-9, "m")
        yield close("Euler parameters", parameters, wanted["quaternion_wxyz"], 1e-9)
        yield close("velocity", run.point_velocity("body", com), wanted["velocity"], 1e-9, "m/s")
        yield close("angular velocity", spin(run, "body"), wanted["angular_velocity_world"], 1e-9, "rad/s")
        yield close("acceleration", run.point_acceleration("body", com), wanted["acceleration"], 1e-8, "m/s²")
        yield close("angular acceleration", turning, wanted["angular_acceleration_world"], 1e-8, "rad/s²")
        yield gap(mech, run)


for _name, _case in reference("single_body_joints")["cases"].items():
    chrono(_name, _case["description"].split(" (")[0].lower(), quick=True)


# Mass of the body of Project Chrono's tests (kg).
MASS = 1.0
# Principal moments of inertia of the body of Project Chrono's tests (kg m²).
INERTIA = (0.04, 0.1, 0.1)
# Centre of mass of this body in an oblique direction, at the distance of Project Chrono's tests (m).
COM = np.array([1.6, 0.72, -0.96])
# Acceleration of gravity in m/s², of Project Chrono's tests.
GRAVITY = np.array([0, 0, -9.80665])
# Place of the joint to the ground on which the body hangs (m).
PLACE = np.array([0.3, -0.2, 0.5])
# Axes of this joint in the ground frame, as columns.
OBLIQUE = frame(np.array([2.0, 1, -1]), np.array([0.5, 1, 2]))
# Output times of the motions that are compared with Lagrange's equations (s).
TIMES = np.linspace(0, 5, 21)
# Frames of this joint on the ground and on the body.
FRAMES = {"frame_i": OBLIQUE, "frame_j": np.eye(3)}
# Pitch of the screw joint on which the body hangs, its advance per turn (m).
PITCH = 0.7


def hanging(turn, advance=lambda x: np.zeros(3)):
    """Return the model of a body on a joint, whose rotation and displacement in the frame of the joint are functions."""

    def placed(x):
        """Return place of the mass centre and rotation matrix of the body for minimal coordinates x."""
        a = OBLIQUE @ turn(x)
        return [(PLACE + OBLIQUE @ advance(x) + a @ COM, a)]

    return MinimalModel(placed, [MASS], [INERTIA], lambda x: -MASS * GRAVITY @ placed(x)[0][0])


def euler_vector(x):
    """Return a bend without a twist: the rotation about (x₀, x₁, 0)."""
    angle = jnp.sqrt(x @ x)
    return turned(jnp.append(x / angle, 0.0), angle)


def lagrange(source, name, make, turn, start, *, advance=lambda x: np.zeros(3)):
    """Register a motion of the body on a joint that starts with minimal coordinates and rates (x, ẋ)."""

    @case(source, f"body on a {name} joint, 5 s", ONE_MS_STEPS, quick=True)
    def body_on_a_joint(by):
        """Compare the motion of a body on a joint with Lagrange's equations in minimal coordinates."""
        model = hanging(turn, advance)
        wanted, turns = model.poses(model.motion(TIMES, *start)[0])
        # The start of the model: origin, rotation, and their rates.
        body = lambda x: (lambda r, a: (r - a @ COM, a))(*model.placed(x)[0])
        (origin, a), (rate, a_rate) = jax.jvp(body, *((jnp.array(part),) for part in start))
        rates = jnp.concatenate([rate, (a.T @ a_rate)[np.array([2, 0, 1]), np.array([1, 2, 0])]])
        mech = on_a_joint(make(), MASS, INERTIA, COM, GRAVITY)
        run = by.run(mech, TIMES, spatial.coordinates(origin, a), rates)
        yield close("velocities at the start", run.v[0], rates, 1e-14)
        yield close("position", run.point("body", COM), wanted, 1e-8, "m")
        yield close("rotation matrix", run.rotation("body"), turns, 1e-8)
        yield compare_with_start("energy", run.energy.total, 1e-8)
        yield gap(mech, run)


lagrange(
    "Lagrange",
    "universal",
    lambda: spatial.Universal("ground", "body", PLACE, (0, 0, 0), OBLIQUE @ X, Y),
    lambda x: turned(X, x[0]) @ turned(Y, x[1]),
    ([0.2, -0.4], [0.3, 0.5]),
)
lagrange(
    "Lagrange",
    "screw",
    lambda: spatial.Screw("ground", "body", PLACE, (0, 0, 0), pitch=PITCH, **FRAMES),
    lambda x: turned(Z, x[0]),
    ([0.4], [1.0]),
    advance=lambda x: Z * PITCH * x[0] / (2 * np.pi),
)
lagrange(
    "Masarati",
    "homokinetic",
    lambda: spatial.ConstantVelocity("ground", "body", PLACE, (0, 0, 0), **FRAMES),
    euler_vector,
    ([0.3, 0.9], [0.4, -0.2]),
)


def free_top(omega):
    """Return the torque-free rotation over time of a body with INERTIA, a symmetric top with the axis x."""
    # It turns uniformly about its angular momentum and about its axis.
    j, k = INERTIA[:2]
    momentum = np.array(INERTIA) * omega
    size = np.linalg.norm(momentum)
    return lambda t: turned(momentum / size, size / k * t) @ turned(X, omega[0] * (1 - j / k) * t)


@case("Textbooks", "bodies that are free, held and on a plane, 5 s", ONE_MS_STEPS)
def free_held_and_sliding(by):
    """Compare free, held and sliding bodies without forces with closed forms."""
    omega, drift, turning = np.array([3.0, 1.0, -2.0]), np.array([1.0, -2.0, 3.0]), 1.5
    mech = mbs.Mechanism(
        dict.fromkeys(("free", "held", "sliding"), spatial.Body(MASS, INERTIA, COM)),
        {
            "free": spatial.Free("ground", "free"),
            "held": spatial.Rigid("ground", "held", PLACE, (0, 0, 0), **FRAMES),
            "sliding": spatial.Planar("ground", "sliding", PLACE, (0, 0, 0), **FRAMES),
        },
        forces={"gravity": mbs.Gravity(GRAVITY)},
    )
    there, normal = spatial.coordinates(PLACE, OBLIQUE), OBLIQUE[:, 2]
    along, down = (vector - normal * (normal @ vector) for vector in (drift, GRAVITY))
    rates = {
        "free": np.append(drift - np.cross(omega, COM), omega),
        "sliding": np.append(along - OBLIQUE @ np.cross(Z * turning, COM), Z * turning),
    }
    run = by.run(mech, TIMES, {"held": there, "sliding": there}, rates)
    t = TIMES[:, None]
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
        yield close(f"centre of mass, {name}", run.point(name, COM), centres[name], 1e-9, "m")
        yield close(f"rotation matrix, {name}", run.rotation(name), turns[name], 1e-9)
    # The multipliers of Rigid are the force on the body, in the ground, and the torque about the joint, in its frame.
    held = run.multipliers[:, mech.layout.row_slices["held"]]
    torque = np.cross(OBLIQUE @ COM, -MASS * GRAVITY) @ OBLIQUE
    yield close("holding force", held[:, :3], -MASS * GRAVITY, 1e-12, "N")
    yield close("holding torque", held[:, 3:], torque, 1e-12, "N m")
