"""Planar mechanisms under forces with tables of their motion, an open chain at one state, a body that tumbles."""

import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
import spatial_problems
from dynamic_problems import four_bar, four_bar_design, four_bar_start, slider_crank, slider_crank_start
from jaxmbs import spatial
from verification.case import Analysis, Simulation, case, close, near
from verification.cases.common import FORMULATIONS, angular_momentum, compare_with_start, from_zero, gap, up_to_sign


@case(
    "Textbooks",
    "slider-crank released under gravity, a point mass for a slider",
    *(Simulation(5e-4, formulation=f) for f in FORMULATIONS),
    references=("slider_crank_dynamics",),
    quick=True,
)
def slider_crank_released(by, problem):
    """Compare a slider-crank released under gravity with the reference table."""
    p = problem["parameters"]
    rows = dict(zip(problem["columns"], np.array(problem["rows"]).T, strict=True))
    start = slider_crank_start(p, np.deg2rad(p["theta_initial_deg"]))
    run = by.run(slider_crank(p), from_zero(rows["time"]), start)
    both = lambda of: np.stack([of("crank.phi"), of("slider.x")])[:, 1:]
    for quantity, of, names, tolerance, unit in (
        ("crank angle and slider", run.position, ("theta", "slider_position"), 1e-8, "rad, m"),
        ("their velocities", run.velocity, ("omega", "slider_velocity"), 1e-8, "rad/s, m/s"),
        ("their accelerations", run.acceleration, ("alpha", "slider_acceleration"), 1e-7, "rad/s², m/s²"),
    ):
        yield close(quantity, both(of), [rows[name] for name in names], tolerance, unit)
    yield close("energy", run.energy.total[1:], rows["total_energy"], 1e-9, "J")


@case(
    "Textbooks",
    "four-bar under a constant torque, 1 s",
    *(Simulation(5e-5, formulation=f) for f in FORMULATIONS),
    references=("planar_four_bar_dynamics",),
    quick=True,
)
def four_bar_driven_by_a_torque(by, problem):
    """Compare a four-bar driven by a torque with the reference table."""
    start, b = problem["initial_state"], four_bar_design()
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    rows = dict(zip(problem["columns"], np.array(problem["rows"]).T, strict=True))
    mech = four_bar(b)
    run = by.run(mech, from_zero(rows["time"]), four_bar_start(b, angles), {"crank.phi": start["omega2"]})
    bodies, early = {"2": "crank", "3": "coupler", "4": "rocker"}, rows["time"] <= 0.5
    of = lambda get: np.stack([get(f"{body}.phi")[1:] for body in bodies.values()])
    table = lambda name: np.stack([rows[f"{name}{k}"] for k in bodies])
    at_start = [start[f"omega{k}"] for k in bodies]
    yield close("angular velocities at the start", run.v[0, 2::3], at_start, 1e-12, "rad/s")
    yield close("angles until 0.5 s", of(run.position)[:, early], table("theta")[:, early], 1e-8, "rad")
    yield close("angles until 1 s", of(run.position), table("theta"), 1e-7, "rad")
    yield near("angular velocities", of(run.velocity), table("omega"), 1e-7)
    yield near("angular acceleration of the crank", run.acceleration("crank.phi")[1:], rows["alpha2"], 1e-6)
    balance = run.energy.total - b["torque"] * run.position("crank.phi")
    yield close("energy minus work", balance[1:], rows["energy_minus_torque_times_theta2"], 1e-8, "J")
    yield gap(mech, run)


@case("Textbooks", "torque-free asymmetric body, 100 s", Simulation(4e-3), references=("torque_free_body",), quick=True)
def torque_free_body(by, problem):
    """Compare the torque-free motion of a rigid body with the reference."""
    rows = np.array(problem["rows"])
    times = np.concatenate([np.linspace(0, 1, 11)[:-1], rows[:, 0], np.arange(31, 101)])
    mech = mbs.Mechanism({"body": spatial.Body(1.0, problem["principal_inertia_J"])})
    start = np.append(np.zeros(3), problem["quaternion_initial_wxyz"])
    run = by.run(mech, times, start, np.append(np.zeros(3), problem["angular_velocity_initial_body"]))
    found = up_to_sign(run.q[10:16, 3:], rows[:, 1:5])
    yield close("Euler parameters over 30 s", found, rows[:, 1:5], 1e-8)
    yield close("angular velocity over 30 s", run.v[10:16, 3:], rows[:, 5:], 1e-8, "rad/s")
    yield compare_with_start("energy over 100 s", run.energy.total / run.energy.total[0], 1e-10, "relative")
    momentum = angular_momentum(mech, run)
    yield compare_with_start("angular momentum over 100 s", momentum / np.linalg.norm(momentum[0]), 1e-10, "relative")


def chain_of_seven(problem, inertias, tau=None):
    """Return the chain of the reference, with torques `tau` at the joints if given. Frames of bodies are at the joints."""
    bodies, joints, forces = {}, {}, {"gravity": mbs.Gravity(problem["gravity_vector"])}
    for k, given in enumerate(problem["bodies"]):
        parent = "ground" if given["parent"] < 0 else f"b{given['parent']}"
        bodies[f"b{k}"] = spatial.Body(given["mass"], inertias[k], given["com"])
        axis = np.array(given["axis"])
        placed = Rotation.from_rotvec(given["placement_rotvec"]).as_matrix()
        # z of the joint's frame is the axis.
        frame = spatial_problems.frame(axis, np.eye(3)[np.argmin(np.abs(axis))])[:, [1, 2, 0]]
        ends = given["placement_p"], (0, 0, 0)
        joints[f"J{k}"] = spatial.Revolute(parent, f"b{k}", *ends, frame_i=placed @ frame, frame_j=frame)
        if tau is not None:
            forces[f"tau{k}"] = mbs.Torque(f"b{k}", tau[k] * axis, parent, follower=True)
    return mbs.Mechanism(bodies, joints, forces=forces)


@case(
    "Pinocchio",
    "chain of seven revolute joints at one state",
    Analysis("accelerations, RᵀMR, bias", "JointCoordinates"),
    references=("tree_dynamics",),
    quick=True,
)
def seven_revolutes(by, problem):
    """Compare the dynamics of a chain of seven hinges with the reference."""
    theta, rate = jnp.asarray(problem["q"]), jnp.asarray(problem["qd"])
    # Some inertia matrices of the reference belong to no possible body. As arguments of the program they are traced, and
    # so not checked.
    inertias = jnp.asarray([body["I_com"] for body in problem["bodies"]])

    @mbs.program
    def everything(inertias, theta, rate):
        """Return the compared quantities of the chain for given inertias, angles and rates."""
        t, torques = jnp.zeros(()), np.array(problem["tau"])
        free, pulled = (mbs.JointCoordinates().equations(chain_of_seven(problem, inertias, x)) for x in (None, torques))
        q, v, _ = free.to_bodies(theta, rate, rate, t)
        joints = mbs.JointCoordinates().of(free.mech)
        last = free.mech.layout.pose("b6", q)
        return {
            "qdd": pulled.accelerations(theta, rate, t)[0],
            "qdd by the mass matrix": jnp.linalg.solve(free.mass(theta, t), pulled.force(theta, rate, t)),
            "mass_matrix": free.mass(theta, t),
            "bias": -free.force(theta, rate, t),
            "tau": pulled.force(theta, rate, t) - free.force(theta, rate, t),
            "kinetic_energy": mbs.energy(free.mech, q, v).kinetic,
            "potential_energy": mbs.energy(free.mech, q, v).potential,
            "q": joints.coordinates(q),
            "qd": joints.velocities(q, v),
            "last_joint_frame_position_world": last.r,
            "last_joint_frame_rotation_to_world": last.a,
        }

    found, problem = everything(inertias, theta, rate), {**problem, "qdd by the mass matrix": problem["qdd"]}
    for key in ("qdd", "qdd by the mass matrix"):
        yield near(f"accelerations{key[3:]}", found[key], problem[key], 1e-10)
    for quantity, key in {
        "mass matrix": "mass_matrix",
        "forces of gravity and velocity": "bias",
        "torques": "tau",
        "kinetic energy": "kinetic_energy",
        "potential energy": "potential_energy",
        "angles from poses": "q",
        "their rates": "qd",
    }.items():
        yield close(quantity, found[key], problem[key], 1e-10)
    for quantity, part in (("position", "position_world"), ("rotation", "rotation_to_world")):
        key = f"last_joint_frame_{part}"
        yield close(f"{quantity} of the last frame", found[key], problem[key], 1e-12)
