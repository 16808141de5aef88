"""Curves of MuJoCo, Pinocchio and Exudyn on the problems of `precision`, if installed. See `benchmarks/peers.py`.

The Runge–Kutta steps of Pinocchio are a loop in Python.
"""

from collections.abc import Callable

import numpy as np
import peers
from peers import mjcf_inertial, mjcf_numbers
from timing import AccuracyRun, cpu_seconds

from dynamic_problems import ANDREWS_JOINTS, ANDREWS_PLACED, andrews_angles, andrews_points, andrews_start
from linkages import reference
from verification.curves import Curve, MotionProblem


def peer_curve(tool: str, label: str, prepare: Callable, problem: MotionProblem) -> Curve:
    """Measure the curve of a tool. `prepare(steps)` returns a run, and the function of its result that is the error."""
    points, failed = [], []
    try:
        for steps in problem.steps:
            run, error = prepare(steps)
            found = float(error(run()))
            if np.isfinite(found):
                points.append(AccuracyRun(steps, found, cpu_seconds(run, repeats=3)))
            else:
                failed.append(f"{steps} steps: NON_FINITE")
    except ImportError as missing:
        return Curve(tool, label, [], f"not installed: {missing}")
    return Curve(tool, label, points, failed=tuple(failed))


class Andrews:
    """The data of Andrews' mechanism as a tree of joints with three cut joints, at E.

    Attributes:
        tree: for each body its parent, and the places of their joint on the parent and on itself, in frames at mass
            centres.
        cut: pairs of (body, place) that the cut joints join.
    """

    def __init__(self):
        given = reference("andrews")
        p = given["parameters"]
        self.points = {
            name: {k: np.array(s) for k, s in at.items()} for name, at in andrews_points(p["lengths_m"]).items()
        }
        self.points["ground"] = {k: np.array(s) for k, s in p["ground_points_m"].items()} | {"O": np.zeros(2)}
        self.mass = dict(zip(p["body_order"], p["masses_kg"], strict=True))
        self.inertia = dict(zip(p["body_order"], p["moments_of_inertia_about_centre_of_mass_kg_m2"], strict=True))
        self.torque, self.stiffness = p["motor_torque_on_OF_Nm"], p["spring_constant_c0_N_per_m"]
        self.free_length = p["spring_free_length_l0_m"]
        placed = {tuple(pair.split()) for pair in ANDREWS_PLACED}
        self.tree, self.cut = {"ground": (None, np.zeros(2), np.zeros(2))}, []
        for name, i, j in ANDREWS_JOINTS:
            ends = self.points[i][name], self.points[j][name]
            if (name, j) in placed:
                self.tree[j] = (i, *ends)
            else:
                self.cut.append(((i, ends[0]), (j, ends[1])))
        absolute = lambda q: {name: float(x) for name, x in andrews_angles(q).items()} | {"ground": 0.0}
        self.start, self.wanted = (absolute(q) for q in (given["q_initial"], given["reference_at_t_0.03"]["q"]))
        self.poses = andrews_start(p["lengths_m"], andrews_angles(given["q_initial"]))
        self.bodies = [name for name in self._depth_first("ground") if name != "ground"]

    def _depth_first(self, body):
        """Yield a body and all bodies that it carries."""
        yield body
        for child, (parent, _, _) in self.tree.items():
            if parent == body:
                yield from self._depth_first(child)

    def at(self, body, place):
        """Return a place of a body, given from its mass centre, from the joint that carries the body, (3,)."""
        return np.append(place - self.tree[body][2], 0.0)

    @property
    def joint_angles(self):
        """Angle of each joint at the start, of a body from the one that carries it (rad)."""
        return np.array([self.start[name] - self.start[self.tree[name][0]] for name in self.bodies])

    def error(self, relative):
        """Return the largest error (rad) of a body's angle at t = 0.03 s; whole turns count as errors.

        relative: angle of each joint (rad) then, of a body from the one that carries it, in the order of `bodies`.
        """
        angles = {"ground": 0.0}
        for name, angle in zip(self.bodies, relative, strict=True):
            angles[name] = angles[self.tree[name][0]] + angle
        return max(abs(angles[name] - self.wanted[name]) for name in self.bodies)


def nested_bodies(model: Andrews, carrier: str = "ground") -> str:
    """Return the MJCF of all bodies that a body carries, nested."""
    text = ""
    for child, (parent, there, _) in model.tree.items():
        if parent != carrier:
            continue
        place = np.append(there, 0.0) if carrier == "ground" else model.at(carrier, there)
        centre, mass, inertia = model.at(child, np.zeros(2)), model.mass[child], [model.inertia[child]] * 3
        text += f'<body name="{child}" pos="{mjcf_numbers(place)}"><joint name="{child}" axis="0 0 1"/>'
        text += mjcf_inertial(centre, mass, inertia)
        sites = {
            f"{letter}{k}": end for k, ends in enumerate(model.cut) for letter, end in zip("ab", ends, strict=True)
        }
        sites["D"] = "BDE", model.points["BDE"]["D"]
        for name, (body, at) in sites.items():
            text += f'<site name="{name}" pos="{mjcf_numbers(model.at(body, at))}"/>' if body == child else ""
        text += nested_bodies(model, child) + "</body>"
    return text


def andrews_xml(model: Andrews, step: float, soft: str) -> str:
    """Return the MJCF of Andrews' mechanism: hinges, three `connect`, a tendon for the spring, a motor."""
    ties = "".join(f'<connect site1="a{k}" site2="b{k}" {soft}/>' for k in range(len(model.cut)))
    spring_end = mjcf_numbers(np.append(model.points["ground"]["C"], 0))
    return (
        f'<mujoco><option timestep="{step}" integrator="RK4" gravity="0 0 0"><flag contact="disable" refsafe="disable"/>'
        f'</option><worldbody><site name="C" pos="{spring_end}"/>{nested_bodies(model)}'
        f'</worldbody><equality>{ties}</equality><actuator><motor joint="OF" gear="{model.torque}"/></actuator><tendon>'
        f'<spatial stiffness="{model.stiffness}" springlength="{model.free_length}"><site site="C"/><site site="D"/>'
        "</spatial></tendon></mujoco>"
    )


def mujoco_andrews(steps: int):
    """Prepare MuJoCo on Andrews' mechanism."""
    import mujoco

    model, step = Andrews(), 0.03 / steps
    compiled = mujoco.MjModel.from_xml_string(andrews_xml(model, step, peers.mjcf_softness(step)))
    names = [mujoco.mj_id2name(compiled, mujoco.mjtObj.mjOBJ_JOINT, k) for k in range(compiled.njnt)]
    order = [names.index(name) for name in model.bodies]
    qpos = np.zeros(len(names))
    qpos[order] = model.joint_angles
    return peers.mujoco_final_positions([compiled], steps, qpos), lambda end: model.error(end[0, order])


def mujoco_slider_crank(steps: int):
    """Prepare MuJoCo on the spatial slider-crank: the slider carries the rod, whose end is tied to the crank."""
    import mujoco
    import spatial  # of the benchmarks

    case = next(case for case in spatial.CASES if "slider-crank" in case.name)
    wanted = reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"][-1][1]
    # The first joint is that of the slider, and is 0 at the start.
    start = float(case.start()[0]["slider"][0])
    error = lambda end: abs(start + end[0, 0] - wanted)
    model = mujoco.MjModel.from_xml_string(spatial.xml_of(case, 1 / steps))
    return peers.mujoco_final_positions([model], steps, velocities=case.rates), error


def pinocchio_andrews(steps: int):
    """Prepare Pinocchio on Andrews' mechanism: seven revolute joints, three point constraints."""
    import pinocchio as pin

    given, model = Andrews(), pin.Model()
    model.gravity.linear = np.zeros(3)
    ids = {"ground": 0}
    for name in given.bodies:
        parent, there, _ = given.tree[name]
        place = np.append(there, 0.0) if parent == "ground" else given.at(parent, there)
        ids[name] = model.addJoint(ids[parent], pin.JointModelRZ(), peers.pinocchio_placement(place), name)
        own = pin.Inertia(given.mass[name], given.at(name, np.zeros(2)), given.inertia[name] * np.eye(3))
        model.appendBodyToJoint(ids[name], own, pin.SE3.Identity())
    ties = [
        peers.pinocchio_point_constraint(model, ids[a], given.at(a, s), ids[b], given.at(b, r))
        for (a, s), (b, r) in given.cut
    ]
    lever, pivot = given.at("BDE", given.points["BDE"]["D"]), given.points["ground"]["B"]
    motor, bde = given.bodies.index("OF"), given.bodies.index("BDE")

    def torque(q):
        """Return the joint torques of motor and spring at joint angles q."""
        c, s = np.cos(q[bde]), np.sin(q[bde])
        x, y = c * lever[0] - s * lever[1], s * lever[0] + c * lever[1]
        dx, dy = given.points["ground"]["C"] - pivot - (x, y)
        length = np.hypot(dx, dy)
        pull = given.stiffness * (length - given.free_length) / length
        out = np.zeros(len(given.bodies))
        out[motor], out[bde] = given.torque, pull * (x * dy - y * dx)
        return out

    acceleration, start = peers.pinocchio_acceleration(model, ties, torque), given.joint_angles
    return lambda: peers.runge_kutta(acceleration, start, 0 * start, 0.03 / steps, steps), given.error


def pinocchio_slider_crank(steps: int):
    """Prepare Pinocchio on the spatial slider-crank: two revolute joints, the arms of the cross, carry the rod."""
    import models  # of the benchmarks
    import pinocchio as pin

    model, turn = pin.Model(), models.rod_axes()
    model.gravity.linear = np.array([0.0, 0.0, -models.GRAVITY])
    length = np.linalg.norm(models.SLIDER_START - models.CRANK_PIN)
    add = lambda parent, joint, place, name: model.addJoint(parent, joint, place, name)
    identity = pin.SE3.Identity()
    at = peers.pinocchio_placement
    own = lambda mass, com, inertia: pin.Inertia(mass, np.asarray(com, float), np.diag(inertia))
    slider = add(0, pin.JointModelPX(), at(models.SLIDER_START), "slider")
    model.appendBodyToJoint(slider, own(models.SLIDER_MASS, (0, 0, 0), models.SLIDER_INERTIA), identity)
    cross = add(slider, pin.JointModelRX(), identity, "cross")
    rod = add(cross, pin.JointModelRY(), pin.SE3(turn, np.zeros(3)), "rod")
    model.appendBodyToJoint(rod, own(models.ROD_MASS, (-length / 2, 0, 0), models.ROD_INERTIA), identity)
    crank = add(0, pin.JointModelRX(), at(models.CRANK_PIVOT), "crank")
    model.appendBodyToJoint(crank, own(models.CRANK_MASS, (0, 0, 0), models.CRANK_INERTIA), identity)
    ties = [peers.pinocchio_point_constraint(model, rod, (-length, 0, 0), crank, models.CRANK_PIN - models.CRANK_PIVOT)]
    zero = np.zeros(4)
    acceleration = peers.pinocchio_acceleration(model, ties, lambda q: zero)
    speeds = np.array([models.SLIDER_SPEED, models.ROD_SPIN[0], models.ROD_SPIN @ turn[:, 1], models.CRANK_SPEED])
    wanted = reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"][-1][1]
    error = lambda end: abs(models.SLIDER_START[0] + end[0] - wanted)
    return lambda: peers.runge_kutta(acceleration, zero, speeds, 1 / steps, steps), error


def exudyn_andrews(steps: int):
    """Prepare Exudyn: seven bodies of the plane, ten revolute joints, a spring; generalized-α with ρ∞ = 0.9, index 2."""
    given, exudyn = Andrews(), peers.ExudynSystem()
    system, items = exudyn.system, exudyn.items
    for name in given.bodies:
        exudyn.add_body(name, given.poses[name], given.mass[name], given.inertia[name])
    for name, i, j in ANDREWS_JOINTS:
        exudyn.add_revolute(i, given.points[i][name], j, given.points[j][name])
    markers = [exudyn.marker("ground", given.points["ground"]["C"]), exudyn.marker("BDE", given.points["BDE"]["D"])]
    law = {"referenceLength": given.free_length, "stiffness": given.stiffness, "damping": 0}
    system.AddObject(items.ObjectConnectorSpringDamper(markerNumbers=markers, **law))
    system.AddLoad(items.LoadCoordinate(markerNumber=exudyn.angle_marker("OF"), load=given.torque))
    system.Assemble()
    settings = exudyn.settings(steps, 0.03)

    def run():
        """Simulate Andrews' mechanism and return the change of each body's angle."""
        exudyn.simulate(settings)
        return {name: exudyn.angle_change(name) for name in given.bodies}

    return run, lambda changes: max(
        abs(given.start[name] + changes[name] - given.wanted[name]) for name in given.bodies
    )


# For each problem and tool: label of its curve, and the function that prepares a run with a number of steps.
PEERS = {
    "andrews": {
        "MuJoCo": ("RK4, soft connect", mujoco_andrews),
        "Pinocchio": ("RK4 in Python, constraintDynamics", pinocchio_andrews),
        "Exudyn": ("generalized-α", exudyn_andrews),
    },
    "slider_crank": {
        "MuJoCo": ("RK4, soft connect", mujoco_slider_crank),
        "Pinocchio": ("RK4 in Python, constraintDynamics", pinocchio_slider_crank),
    },
}
