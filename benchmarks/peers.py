"""Other simulators as the benchmarks and the verification use them: MuJoCo, Pinocchio and Exudyn.

Each is imported by the functions that need it. MuJoCo and Pinocchio have joint coordinates and close loops by constraints:
MuJoCo's `connect` is soft, Pinocchio's constraints are solved in every evaluation without a correction of their drift.
Exudyn has redundant coordinates and its generalized-α method.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import reference_kernel

# Time constant of MuJoCo's `connect` in steps: the most accurate for the mechanisms of the benchmarks.
CONNECT_TIME_CONSTANT = 2.25
# Largest number of iterations by which Pinocchio solves for constraint forces, per evaluation.
MAX_PROXIMAL_ITERATIONS = 20
# Absolute and relative tolerance of the iteration by which Pinocchio solves for constraint forces.
PROXIMAL_TOLERANCE = 1e-12
# Relative and absolute tolerance of Exudyn's Newton iteration.
NEWTON_TOLERANCE = 1e-12

# MJCF of a four-bar in the plane x–y, with braces for its numbers.
FOUR_BAR_XML = """
<mujoco>
  <option timestep="{h}" integrator="RK4" gravity="0 -9.81 0"><flag contact="disable" refsafe="disable"/></option>
  <worldbody>
    <body name="crank">
      <joint axis="0 0 1"/> <inertial pos="{a2} 0 0" mass="{a}" diaginertia="{a_x} {a_j} {a_j}"/>
      <body name="coupler" pos="{a} 0 0">
        <joint axis="0 0 1"/> <inertial pos="{c2} 0 0" mass="{c}" diaginertia="{c_x} {c_j} {c_j}"/>
        <site name="coupler" pos="{c} 0 0"/>
      </body>
    </body>
    <body name="rocker" pos="{g} 0 0">
      <joint axis="0 0 1"/> <inertial pos="{r2} 0 0" mass="{r}" diaginertia="{r_x} {r_j} {r_j}"/>
      <site name="rocker" pos="{r} 0 0"/>
    </body>
  </worldbody>
  <equality><connect site1="coupler" site2="rocker" {softness}/></equality>
</mujoco>
"""


def runge_kutta_step(acceleration: Callable, q, v, h: float):
    """Return q and v after a step of the classical Runge–Kutta method for q̈ = acceleration(q, q̇)."""
    a_1 = acceleration(q, v)
    v_2 = v + h / 2 * a_1
    a_2 = acceleration(q + h / 2 * v, v_2)
    v_3 = v + h / 2 * a_2
    a_3 = acceleration(q + h / 2 * v_2, v_3)
    v_4 = v + h * a_3
    a_4 = acceleration(q + h * v_3, v_4)
    return q + h / 6 * (v + 2 * v_2 + 2 * v_3 + v_4), v + h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4)


def runge_kutta(acceleration: Callable, q, v, h: float, steps: int):
    """Return q after a number of steps of `runge_kutta_step`."""
    for _ in range(steps):
        q, v = runge_kutta_step(acceleration, q, v, h)
    return q


def mjcf_numbers(numbers) -> str:
    """Return numbers as an attribute of MJCF, with all digits."""
    return " ".join(repr(float(x)) for x in numbers)


def mjcf_inertial(com, mass: float, inertia) -> str:
    """Return the element `inertial` of MJCF for a centre of mass and principal moments of inertia."""
    return f'<inertial pos="{mjcf_numbers(com)}" mass="{mass}" diaginertia="{mjcf_numbers(inertia)}"/>'


def mjcf_softness(
    step: float, time_constant: float = CONNECT_TIME_CONSTANT, damping: float = 1.0, impedance: float = 0.9999
) -> str:
    """Return the attributes of a soft `connect`. Time constants below 2 steps need the flag `refsafe="disable"`."""
    return f'solref="{time_constant * step} {damping}" solimp="{impedance} {impedance} 0.001"'


def mujoco_states(model, batch: int, positions=0.0, velocities=0.0):
    """Return the states (batch, 1 + nq + nv) at time 0 for joint positions (batch, nq) and velocities (batch, nv)."""
    import mujoco

    states = np.zeros((batch, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    states[:, 1 : 1 + model.nq] = positions
    states[:, 1 + model.nq : 1 + model.nq + model.nv] = velocities
    return states


def mujoco_rollout(models, states, steps: int) -> Callable:
    """Return a function that simulates models of one structure in one thread and returns their final states.

    All actuators have the control 1.
    """
    import mujoco
    from mujoco import rollout

    data = mujoco.MjData(models[0])
    control = np.ones((len(models), steps, models[0].nu)) if models[0].nu else None
    return lambda: rollout.rollout(models, data, initial_state=states, control=control, nstep=steps)[0][:, -1]


def mujoco_final_positions(models, steps: int, positions=0.0, velocities=0.0) -> Callable:
    """Return a function that simulates models from their start in one thread and returns the positions (batch, nq)."""
    run = mujoco_rollout(models, mujoco_states(models[0], len(models), positions, velocities), steps)
    return lambda: run()[:, 1 : 1 + models[0].nq]


def mjx_final_positions(model, steps: int) -> Callable:
    """Return the JAX function from joint positions at rest to those after some steps of a MuJoCo model in MJX."""
    import jax
    from mujoco import mjx

    jax_model = mjx.put_model(model, impl="jax")
    blank = mjx.make_data(jax_model)
    step = lambda data, _: (mjx.step(jax_model, data), None)
    return lambda positions: jax.lax.scan(step, blank.replace(qpos=positions), length=steps)[0].qpos


def mujoco_four_bar(lengths, h: float, softness: str = ""):
    """Return the MuJoCo model of a four-bar with lengths (crank, coupler, rocker, ground), and the step h."""
    import mujoco

    numbers = dict(zip("acrg", (float(x) for x in lengths), strict=True))
    for name in "acr":
        inertia = numbers[name] ** 3 / 12
        numbers |= {f"{name}2": numbers[name] / 2, f"{name}_j": inertia, f"{name}_x": 1e-6 * inertia}
    return mujoco.MjModel.from_xml_string(FOUR_BAR_XML.format(h=h, softness=softness, **numbers))


def pinocchio_placement(place):
    """Return the placement of a frame at a place with the same axes."""
    import pinocchio as pin

    return pin.SE3(np.eye(3), np.asarray(place, float))


def pinocchio_point_constraint(model, joint_a: int, place_a, joint_b: int, place_b):
    """Return the constraint that keeps two points of the bodies of two joints together."""
    import pinocchio as pin

    ends = joint_a, pinocchio_placement(place_a), joint_b, pinocchio_placement(place_b)
    return pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *ends, pin.ReferenceFrame.LOCAL)


def pinocchio_acceleration(model, constraints, torque: Callable) -> Callable:
    """Return the function (q, v) ↦ v̇ of a model with constraints and torques torque(q), by `constraintDynamics`."""
    import pinocchio as pin

    models, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for constraint in constraints:
        models.append(constraint)
        data.append(constraint.createData())
    state = model.createData()
    settings = pin.ProximalSettings(PROXIMAL_TOLERANCE, PROXIMAL_TOLERANCE, MAX_PROXIMAL_ITERATIONS)
    pin.initConstraintDynamics(model, state, models, data)
    return lambda q, v: pin.constraintDynamics(model, state, q, v, torque(q), models, data, settings).copy()


def pinocchio_four_bar(lengths) -> Callable:
    """Return the acceleration function of a four-bar with lengths (crank, coupler, rocker, ground) in its joint angles."""
    import pinocchio as pin

    crank, coupler, rocker, ground = (float(x) for x in lengths)
    model = pin.Model()
    model.gravity.linear = np.array([0.0, -9.81, 0.0])

    def add_bar(parent, x, length, name):
        """Add a hinge and a bar of 1 kg/m to Pinocchio's model, and return the index of the joint."""
        joint = model.addJoint(parent, pin.JointModelRZ(), pinocchio_placement((x, 0, 0)), name)
        inertia = length**3 / 12 * np.diag([1e-6, 1.0, 1.0])
        model.appendBodyToJoint(joint, pin.Inertia(length, np.array([length / 2, 0, 0]), inertia), pin.SE3.Identity())
        return joint

    coupler_joint = add_bar(add_bar(0, 0.0, crank, "crank"), crank, coupler, "coupler")
    rocker_joint = add_bar(0, ground, rocker, "rocker")
    loop = pinocchio_point_constraint(model, coupler_joint, (coupler, 0, 0), rocker_joint, (rocker, 0, 0))
    zero = np.zeros(3)
    return pinocchio_acceleration(model, [loop], lambda q: zero)


def pinocchio_library(source: str):
    """Compile a C++ file of this folder against Pinocchio and return the library."""
    import cmeel

    root = Path(next(iter(cmeel.__path__))).parent / "cmeel.prefix"
    # Boost's default lists are too short for Pinocchio's joints. Assertions of Eigen cost a third of the time.
    macros = ("-DNDEBUG", "-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS")
    include = (f"-I{root / 'include'}", f"-I{root / 'include' / 'eigen3'}")
    after = (f"-L{root / 'lib'}", "-lpinocchio_default", f"-Wl,-rpath,{root / 'lib'}")
    path = Path(__file__).with_name(source)
    return reference_kernel.shared_library(path, ("-O3", "-march=native", "-w", *macros, *include), after)


class ExudynSystem:
    """A planar system of Exudyn: bodies by their mass centres, revolute joints by points.

    Attributes:
        system: the system of Exudyn.
        nodes: node of each body by name. Its coordinates are changes since the start.
        objects: object of each body by name, and of "ground".
    """

    def __init__(self):
        import exudyn
        from exudyn import itemInterface

        self.exudyn, self.items = exudyn, itemInterface
        self.system = exudyn.SystemContainer().AddSystem()
        self.nodes: dict = {}
        self.objects = {"ground": self.system.AddObject(itemInterface.ObjectGround(referencePosition=[0, 0, 0]))}

    def add_body(self, name: str, pose, mass: float, inertia: float) -> None:
        """Add a body with the pose (x, y, φ) of its mass centre."""
        node = self.system.AddNode(self.items.NodeRigidBody2D(referenceCoordinates=[float(x) for x in pose]))
        body = self.items.ObjectRigidBody2D(physicsMass=mass, physicsInertia=inertia, nodeNumber=node)
        self.nodes[name], self.objects[name] = node, self.system.AddObject(body)

    def marker(self, body: str, place) -> int:
        """Add a marker at a point (x, y) of a body."""
        place = [*(float(x) for x in place), 0.0]
        return self.system.AddMarker(self.items.MarkerBodyPosition(bodyNumber=self.objects[body], localPosition=place))

    def add_revolute(self, i: str, place_i, j: str, place_j) -> None:
        """Add a revolute joint between points of two bodies."""
        markers = [self.marker(i, place_i), self.marker(j, place_j)]
        self.system.AddObject(self.items.ObjectJointRevolute2D(markerNumbers=markers))

    def angle_marker(self, body: str) -> int:
        """Add a marker for the angle of a body."""
        return self.system.AddMarker(self.items.MarkerNodeCoordinate(nodeNumber=self.nodes[body], coordinate=2))

    def angle_change(self, body: str) -> float:
        """Return the change of the angle of a body since the start."""
        kind = self.exudyn.OutputVariableType.Coordinates
        return self.system.GetNodeOutput(self.nodes[body], kind)[2]

    def settings(self, steps: int, end: float):
        """Return settings of generalized-α with ρ∞ = 0.9 for a number of steps until the time `end`."""
        settings = self.exudyn.SimulationSettings()
        integration = settings.timeIntegration
        integration.numberOfSteps, integration.endTime, integration.verboseMode = steps, end, 0
        integration.generalizedAlpha.spectralRadius = 0.9
        integration.newton.useModifiedNewton = True
        integration.newton.relativeTolerance = integration.newton.absoluteTolerance = NEWTON_TOLERANCE
        settings.solutionSettings.writeSolutionToFile = False
        return settings

    def simulate(self, settings) -> None:
        """Simulate the assembled system by generalized-α."""
        self.system.SolveDynamic(settings, solverType=self.exudyn.DynamicSolverType.GeneralizedAlpha)
