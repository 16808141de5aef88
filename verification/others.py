"""Other simulators on the problems of `precision`: MuJoCo, Pinocchio and Exudyn, where they are installed.

MuJoCo and Pinocchio have joint coordinates and close the loops by constraints: MuJoCo's are soft (`connect`, as stiff as
is most accurate for the step), Pinocchio's are solved in every evaluation, without a correction of their drift; its
Runge–Kutta steps are a loop in Python. Exudyn has redundant coordinates and its generalized-α method.
"""

from collections.abc import Callable

import numpy as np
from timing import cpu_seconds

from dynamic_problems import ANDREWS_JOINTS, ANDREWS_PLACED, andrews_angles, andrews_points, andrews_start
from linkages import reference
from verification.curves import Curve, Point, Problem


def curve(tool: str, label: str, prepare: Callable, problem: Problem) -> Curve:
    """The curve of a tool, or why there is none. prepare: steps ↦ (run, error of what `run` returns)."""
    points, failed = [], []
    try:
        for steps in problem.steps:
            run, error = prepare(steps)
            found = float(error(run()))
            if np.isfinite(found):
                points.append(Point(steps, found, cpu_seconds(run, repeats=3)))
            else:
                failed.append(f"{steps} steps: NON_FINITE")
    except ImportError as missing:
        return Curve(tool, label, [], f"not installed: {missing}")
    return Curve(tool, label, points, failed=tuple(failed))


class Andrews:
    """The numbers of Andrews' mechanism, as a tree of joints with three that are cut, at E.

    Attributes:
        tree: body ↦ (the body that carries it, place of the joint there, place on itself), in frames at mass centres.
        cut: pairs of (body, place) that are joined.
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
        yield body
        for child, (parent, _, _) in self.tree.items():
            if parent == body:
                yield from self._depth_first(child)

    def at(self, body, place):
        """A place in the frame of a body at the joint that carries it, three numbers."""
        return np.append(place - self.tree[body][2], 0.0)

    @property
    def relative(self):
        """The angles of the joints at the start."""
        return np.array([self.start[name] - self.start[self.tree[name][0]] for name in self.bodies])

    def error(self, relative):
        """The largest error of an absolute angle, from the joints' angles at the end."""
        angles = {"ground": 0.0}
        for name, angle in zip(self.bodies, relative, strict=True):
            angles[name] = angles[self.tree[name][0]] + angle
        return max(abs(angles[name] - self.wanted[name]) for name in self.bodies)


def words(numbers) -> str:
    return " ".join(repr(float(x)) for x in numbers)


def rolled_out(xml: str, steps: int, qpos=None, qvel=None, controls: int = 0):
    """A function that runs a MuJoCo model, and gives qpos at the end; in one thread."""
    import mujoco
    from mujoco import rollout

    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    for own, given in ((data.qpos, qpos), (data.qvel, qvel)):
        own[:] = 0 if given is None else given
    state = np.zeros((1, mujoco.mj_stateSize(model, kind)))
    mujoco.mj_getState(model, data, state[0], kind)
    control = np.ones((1, steps, controls)) if controls else None
    run = lambda: rollout.rollout(model, data, initial_state=state, control=control, nstep=steps)[0]
    return lambda: run()[0, -1, 1 : 1 + model.nq]


def nested(model: Andrews, carrier: str = "ground") -> str:
    """The bodies that a body carries, and all beyond them, in MuJoCo's format."""
    text = ""
    for child, (parent, there, _) in model.tree.items():
        if parent != carrier:
            continue
        place = np.append(there, 0.0) if carrier == "ground" else model.at(carrier, there)
        centre, mass, inertia = model.at(child, np.zeros(2)), model.mass[child], words([model.inertia[child]] * 3)
        text += f'<body name="{child}" pos="{words(place)}"><joint name="{child}" axis="0 0 1"/>'
        text += f'<inertial pos="{words(centre)}" mass="{mass}" diaginertia="{inertia}"/>'
        sites = {
            f"{letter}{k}": end for k, ends in enumerate(model.cut) for letter, end in zip("ab", ends, strict=True)
        }
        sites["D"] = "BDE", model.points["BDE"]["D"]
        for name, (body, at) in sites.items():
            text += f'<site name="{name}" pos="{words(model.at(body, at))}"/>' if body == child else ""
        text += nested(model, child) + "</body>"
    return text


def andrews_xml(model: Andrews, step: float, soft: str) -> str:
    """Hinges, three `connect`, a tendon for the spring, a motor."""
    ties = "".join(f'<connect site1="a{k}" site2="b{k}" {soft}/>' for k in range(len(model.cut)))
    return (
        f'<mujoco><option timestep="{step}" integrator="RK4" gravity="0 0 0"><flag contact="disable" refsafe="disable"/>'
        f'</option><worldbody><site name="C" pos="{words(np.append(model.points["ground"]["C"], 0))}"/>{nested(model)}'
        f'</worldbody><equality>{ties}</equality><actuator><motor joint="OF" gear="{model.torque}"/></actuator><tendon>'
        f'<spatial stiffness="{model.stiffness}" springlength="{model.free_length}"><site site="C"/><site site="D"/>'
        "</spatial></tendon></mujoco>"
    )


def mujoco_andrews(steps: int):
    """With the time constant of the ties that is most accurate in the benchmarks, in steps."""
    import mujoco
    import spatial  # of the benchmarks

    model, step = Andrews(), 0.03 / steps
    xml = andrews_xml(model, step, f'solref="{spatial.TIME_CONSTANT * step} 1" solimp="0.9999 0.9999 0.001"')
    compiled = mujoco.MjModel.from_xml_string(xml)
    names = [mujoco.mj_id2name(compiled, mujoco.mjtObj.mjOBJ_JOINT, k) for k in range(compiled.njnt)]
    order = [names.index(name) for name in model.bodies]
    qpos = np.zeros(len(names))
    qpos[order] = model.relative
    return rolled_out(xml, steps, qpos, controls=1), lambda end: model.error(end[order])


def mujoco_slider_crank(steps: int):
    """As in the benchmarks: the rod hangs on the slider, its end is tied to the crank."""
    import spatial  # of the benchmarks

    case = next(case for case in spatial.CASES if "slider-crank" in case.name)
    wanted = reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"][-1][1]
    # The slider's joint comes first, and is 0 where it starts.
    start = float(case.start()[0]["slider"][0])
    error = lambda end: abs(start + end[0] - wanted)
    return rolled_out(spatial.xml_of(case, 1 / steps), steps, qvel=case.rates), error


def runge_kutta(acceleration: Callable, q, v, h: float, steps: int):
    """q after a number of steps."""
    for _ in range(steps):
        a_1 = acceleration(q, v)
        v_2 = v + h / 2 * a_1
        a_2 = acceleration(q + h / 2 * v, v_2)
        v_3 = v + h / 2 * a_2
        a_3 = acceleration(q + h / 2 * v_2, v_3)
        v_4 = v + h * a_3
        a_4 = acceleration(q + h * v_3, v_4)
        q, v = q + h / 6 * (v + 2 * v_2 + 2 * v_3 + v_4), v + h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4)
    return q


def constrained(model, constraints, torque: Callable) -> Callable:
    """(q, v) ↦ accelerations of a Pinocchio model, by `constraintDynamics`."""
    import pinocchio as pin

    models, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for constraint in constraints:
        models.append(constraint)
        data.append(constraint.createData())
    state, settings = model.createData(), pin.ProximalSettings(1e-12, 1e-12, 20)
    pin.initConstraintDynamics(model, state, models, data)
    return lambda q, v: pin.constraintDynamics(model, state, q, v, torque(q), models, data, settings).copy()


def tied(model, a, at_a, b, at_b):
    """Two points of two joints' bodies that coincide."""
    import pinocchio as pin

    place = lambda s: pin.SE3(np.eye(3), np.asarray(s, float))
    ends = a, place(at_a), b, place(at_b)
    return pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *ends, pin.ReferenceFrame.LOCAL)


def pinocchio_andrews(steps: int):
    """Seven revolute joints, three point constraints."""
    import pinocchio as pin

    given, model = Andrews(), pin.Model()
    model.gravity.linear = np.zeros(3)
    ids = {"ground": 0}
    for name in given.bodies:
        parent, there, _ = given.tree[name]
        place = np.append(there, 0.0) if parent == "ground" else given.at(parent, there)
        ids[name] = model.addJoint(ids[parent], pin.JointModelRZ(), pin.SE3(np.eye(3), place), name)
        own = pin.Inertia(given.mass[name], given.at(name, np.zeros(2)), given.inertia[name] * np.eye(3))
        model.appendBodyToJoint(ids[name], own, pin.SE3.Identity())
    ties = [tied(model, ids[a], given.at(a, s), ids[b], given.at(b, r)) for (a, s), (b, r) in given.cut]
    lever, pivot = given.at("BDE", given.points["BDE"]["D"]), given.points["ground"]["B"]
    motor, bde = given.bodies.index("OF"), given.bodies.index("BDE")

    def torque(q):
        c, s = np.cos(q[bde]), np.sin(q[bde])
        x, y = c * lever[0] - s * lever[1], s * lever[0] + c * lever[1]
        dx, dy = given.points["ground"]["C"] - pivot - (x, y)
        length = np.hypot(dx, dy)
        pull = given.stiffness * (length - given.free_length) / length
        out = np.zeros(len(given.bodies))
        out[motor], out[bde] = given.torque, pull * (x * dy - y * dx)
        return out

    acceleration, start = constrained(model, ties, torque), given.relative
    return lambda: runge_kutta(acceleration, start, 0 * start, 0.03 / steps, steps), given.error


def pinocchio_slider_crank(steps: int):
    """The slider carries the rod by two revolute joints, the arms of the cross; its end is tied to the crank."""
    import models  # of the benchmarks
    import pinocchio as pin

    model, turn = pin.Model(), models.rod_axes()
    model.gravity.linear = np.array([0.0, 0.0, -models.GRAVITY])
    length = np.linalg.norm(models.SLIDER_START - models.CRANK_PIN)
    add = lambda parent, joint, place, name: model.addJoint(parent, joint, place, name)
    identity = pin.SE3.Identity()
    at = lambda s: pin.SE3(np.eye(3), np.asarray(s, float))
    own = lambda mass, com, inertia: pin.Inertia(mass, np.asarray(com, float), np.diag(inertia))
    slider = add(0, pin.JointModelPX(), at(models.SLIDER_START), "slider")
    model.appendBodyToJoint(slider, own(models.SLIDER, (0, 0, 0), models.SLIDER_INERTIA), identity)
    cross = add(slider, pin.JointModelRX(), identity, "cross")
    rod = add(cross, pin.JointModelRY(), pin.SE3(turn, np.zeros(3)), "rod")
    model.appendBodyToJoint(rod, own(models.ROD, (-length / 2, 0, 0), models.ROD_INERTIA), identity)
    crank = add(0, pin.JointModelRX(), at(models.CRANK_PIVOT), "crank")
    model.appendBodyToJoint(crank, own(models.CRANK, (0, 0, 0), models.CRANK_INERTIA), identity)
    ties = [tied(model, rod, (-length, 0, 0), crank, models.CRANK_PIN - models.CRANK_PIVOT)]
    zero = np.zeros(4)
    acceleration = constrained(model, ties, lambda q: zero)
    speeds = np.array([models.SLIDER_SPEED, models.ROD_SPIN[0], models.ROD_SPIN @ turn[:, 1], models.CRANK_SPEED])
    wanted = reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"][-1][1]
    error = lambda end: abs(models.SLIDER_START[0] + end[0] - wanted)
    return lambda: runge_kutta(acceleration, zero, speeds, 1 / steps, steps), error


def exudyn_andrews(steps: int):
    """Seven bodies of the plane, ten revolute joints, a spring; generalized-α with ρ∞ = 0.9, index 2."""
    import exudyn
    from exudyn import itemInterface as items

    given, system = Andrews(), exudyn.SystemContainer().AddSystem()
    objects = {"ground": system.AddObject(items.ObjectGround(referencePosition=[0, 0, 0]))}
    nodes = {}
    for name in given.bodies:
        pose = [float(x) for x in given.poses[name]]
        nodes[name] = system.AddNode(items.NodeRigidBody2D(referenceCoordinates=pose))
        own = {"physicsMass": given.mass[name], "physicsInertia": given.inertia[name], "nodeNumber": nodes[name]}
        objects[name] = system.AddObject(items.ObjectRigidBody2D(**own))
    marker = lambda body, place: system.AddMarker(
        items.MarkerBodyPosition(bodyNumber=objects[body], localPosition=[*(float(x) for x in place), 0.0])
    )
    for name, i, j in ANDREWS_JOINTS:
        pair = [marker(body, given.points[body][name]) for body in (i, j)]
        system.AddObject(items.ObjectJointRevolute2D(markerNumbers=pair))
    pair = [marker("ground", given.points["ground"]["C"]), marker("BDE", given.points["BDE"]["D"])]
    law = {"referenceLength": given.free_length, "stiffness": given.stiffness, "damping": 0}
    system.AddObject(items.ObjectConnectorSpringDamper(markerNumbers=pair, **law))
    turn = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=nodes["OF"], coordinate=2))
    system.AddLoad(items.LoadCoordinate(markerNumber=turn, load=given.torque))
    system.Assemble()
    settings = exudyn.SimulationSettings()
    integration = settings.timeIntegration
    integration.numberOfSteps, integration.endTime, integration.verboseMode = steps, 0.03, 0
    integration.generalizedAlpha.spectralRadius = 0.9
    integration.newton.useModifiedNewton = True
    integration.newton.relativeTolerance, integration.newton.absoluteTolerance = 1e-12, 1e-12
    settings.solutionSettings.writeSolutionToFile = False

    def run():
        system.SolveDynamic(settings, solverType=exudyn.DynamicSolverType.GeneralizedAlpha)
        return {
            name: system.GetNodeOutput(node, exudyn.OutputVariableType.Coordinates)[2] for name, node in nodes.items()
        }

    # Coordinates are changes since the start.
    return run, lambda turned: max(abs(given.start[name] + turned[name] - given.wanted[name]) for name in nodes)


# Problem ↦ tool ↦ what it does, and how its run is prepared.
RIVALS = {
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
