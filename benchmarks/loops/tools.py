"""Tools of the benchmark of closed loops: classes that simulate a mechanism from its files, see `export`.

A class has the attributes `tool`, `package`, `settings`, `step_counts`, `largest_batch` (larger ones would not be quicker
per sample) and `platform`: "cpu", "gpu", or "jax" for the default device of JAX. `prepare(steps, batch)` returns a
function that simulates a batch to the end and returns the poses (bodies, 7) of the first sample. `gradient(steps)`, if a
tool has it, returns a function that computes derivatives by lengths. Only jaxmbs imports jaxmbs, so that the memory of a
process is that of its tool.
"""

import importlib.metadata
from typing import Any
from xml.etree import ElementTree

import numpy as np

from benchmarks.loops import export

# Time constant of MuJoCo's equalities, in steps.
MUJOCO_TIME_CONSTANT_STEPS = 2.25
# Impedance of MuJoCo's equalities.
MUJOCO_IMPEDANCE = 0.9999
# Tolerance of Pinocchio's proximal iteration for constraint forces.
PROXIMAL_TOLERANCE = 1e-12
# Regularisation of Pinocchio's proximal iteration, so that redundant constraints can be factorised.
PROXIMAL_REGULARISATION = 1e-8
# Largest number of proximal iterations in an evaluation.
MAX_PROXIMAL_ITERATIONS = 20
# Mechanisms with redundant equations, for which Exudyn needs a dense solver that accepts singular matrices.
REDUNDANT = ("wobble pump",)
# Tolerance of Exudyn's Newton iteration.
NEWTON_TOLERANCE = 1e-10
# `largest_batch` of tools that compute samples together.
ANY_BATCH = 2**31
# Factors of the initial velocities of the first and the last sample of a batch.
SPEED_FACTORS = (1.0, 1.1)


def factors(batch: int) -> np.ndarray:
    """Return the factors of the initial velocities of the samples, (batch, 1)."""
    return np.linspace(*SPEED_FACTORS, batch)[:, None]


def doubled(first: int, count: int) -> tuple[int, ...]:
    """Return numbers of steps, each the double of the one before."""
    return tuple(first * 2**k for k in range(count))


class Jaxmbs:
    """jaxmbs with one of its formulations."""

    tool, package, largest_batch = "jaxmbs", "jaxmbs", ANY_BATCH
    platform = "jax"
    formulation = ""
    step_counts = doubled(25, 5)

    def __init__(self, name: str):
        import jax

        import jaxmbs as mbs
        from benchmarks.loops import models

        jax.config.update("jax_enable_x64", True)
        self.jax, self.mbs, self.models, self.name = jax, mbs, models, name
        self.settings = f"{self.formulation}, RK4, projection onto the constraints, float64"
        self.facts = export.facts(name)
        self.q, self.v = (np.array(self.facts[key]).ravel() for key in ("poses", "velocities"))

    def motion(self, mech, v, steps):
        """Return the configuration at the end of a motion, NaN if it fails."""
        end = self.facts["end"]
        formulation = getattr(self.mbs, self.formulation)()
        times = np.array([0.0, end])
        run = self.mbs.simulate(mech, times, self.q, v, step=end / steps, formulation=formulation)
        return self.jax.numpy.where(run.status[-1] == 0, run.q[-1], np.nan)

    def prepare(self, steps, batch):
        """Return a function that simulates a batch and returns the poses of the first sample at the end."""
        mech = self.models.model(self.name)
        one = lambda v: self.motion(mech, v, steps)
        v = self.v if batch == 1 else self.v * factors(batch)
        call = self.jax.jit(one if batch == 1 else self.jax.vmap(one)).lower(v).compile()
        return lambda: np.asarray(call(v)).reshape(-1, len(self.facts["bodies"]), 7)[0]

    def gradient(self, steps):
        """Return a function of reverse mode: the sum of the final coordinates by all points of the joints."""
        points = self.models.lengths(self.models.CASES[self.name].plan())
        design = {joint: np.array(ends) for joint, ends in points.items()}

        def total(design):
            """Return the sum of the coordinates at the end."""
            return self.jax.numpy.sum(self.motion(self.models.mechanism(self.name, design), self.v, steps))

        call = self.jax.jit(self.jax.grad(total)).lower(design).compile()
        return lambda: self.jax.block_until_ready(call(design))


class JaxmbsAugmented(Jaxmbs):
    """jaxmbs in the coordinates of the bodies."""

    formulation = "Augmented"


class JaxmbsJoints(Jaxmbs):
    """jaxmbs in joint coordinates."""

    formulation = "JointCoordinates"


def stiff_model(name: str, steps: int, integrator: str):
    """Return MuJoCo's model of a mechanism with stiff equalities for a number of steps."""
    import mujoco

    model, end = mujoco.MjModel.from_xml_path(str(export.path_of(name, ".xml"))), export.facts(name)["end"]
    model.opt.timestep = end / steps
    model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    # Without automatic resets an unstable motion ends in NaN.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_REFSAFE | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    model.eq_solref[:] = MUJOCO_TIME_CONSTANT_STEPS * end / steps, 1.0
    model.eq_solimp[:, :3] = MUJOCO_IMPEDANCE, MUJOCO_IMPEDANCE, 0.001
    return model


class MuJoCo:
    """MuJoCo: joint coordinates, loops closed by soft equalities."""

    tool, package, largest_batch = "MuJoCo", "mujoco", 64
    platform = "cpu"
    integrator = ""
    step_counts = doubled(25, 11)

    def __init__(self, name: str):
        import mujoco

        self.mujoco, self.name, self.facts = mujoco, name, export.facts(name)
        softness = (
            f"equalities with a time constant of {MUJOCO_TIME_CONSTANT_STEPS} steps, impedance {MUJOCO_IMPEDANCE}"
        )
        self.settings = f"{self.integrator}, {softness}, one thread, float64"

    def prepare(self, steps, batch):
        """Return a function that simulates a batch in one thread and returns the poses of the first sample."""
        from mujoco import rollout

        mujoco, model = self.mujoco, stiff_model(self.name, steps, self.integrator)
        data, kind = mujoco.MjData(model), mujoco.mjtState.mjSTATE_FULLPHYSICS
        mujoco.mj_resetDataKeyframe(model, data, 0)
        states = np.zeros((batch, mujoco.mj_stateSize(model, kind)))
        mujoco.mj_getState(model, data, states[0], kind)
        states[:] = states[0]
        states[:, 1 + model.nq : 1 + model.nq + model.nv] *= factors(batch)
        ids = [model.body(body).id for body in self.facts["bodies"]]

        def run():
            """Return the poses of the first sample at the end."""
            if batch == 1:
                mujoco.mj_setState(model, data, states[0], kind)
                mujoco.mj_step(model, data, nstep=steps)
            else:
                ends = [rollout.rollout(model, data, initial_state=x, nstep=steps)[0][0, -1] for x in states]
                mujoco.mj_setState(model, data, ends[0], kind)
            mujoco.mj_kinematics(model, data)
            return np.hstack([data.xpos[ids], data.xquat[ids]])

        return run


class MuJoCoRK4(MuJoCo):
    """MuJoCo with its Runge–Kutta method."""

    integrator = "RK4"


class MuJoCoImplicit(MuJoCo):
    """MuJoCo with the implicit method that its manual recommends."""

    integrator = "IMPLICITFAST"


class MJX:
    """MJX, MuJoCo in JAX."""

    tool, package, largest_batch = "MJX", "mujoco-mjx", ANY_BATCH
    platform = "jax"
    step_counts = doubled(25, 8)

    def __init__(self, name: str):
        import jax
        from mujoco import mjx

        jax.config.update("jax_enable_x64", True)
        self.jax, self.mjx, self.name, self.facts = jax, mjx, name, export.facts(name)
        self.settings = f"RK4, equalities as for MuJoCo, float64, on {jax.default_backend()}"
        self.model = mjx.put_model(stiff_model(name, 100, "RK4"), impl="jax")
        self.key = stiff_model(name, 100, "RK4")
        self.calls: dict[int, Any] = {}

    def end(self, steps, qvel):
        """Return positions and quaternions of all bodies at the end; `steps` may be traced."""
        h, model = self.facts["end"] / steps, self.model
        solref = model.eq_solref.at[:, 0].set(MUJOCO_TIME_CONSTANT_STEPS * h)
        model = model.replace(opt=model.opt.replace(timestep=h), eq_solref=solref)
        data = self.mjx.make_data(model).replace(qpos=self.jax.numpy.asarray(self.key.key_qpos[0]), qvel=qvel)
        data = self.jax.lax.fori_loop(0, steps, lambda _, data: self.mjx.step(model, data), data)
        data = self.mjx.kinematics(model, data)
        return data.xpos, data.xquat

    def prepare(self, steps, batch):
        """Return a function that simulates a batch and returns the poses of the first sample at the end."""
        if batch not in self.calls:
            self.calls[batch] = self.jax.jit(self.jax.vmap(self.end, (None, 0)))
        qvel, ids = self.key.key_qvel[0] * factors(batch), [self.key.body(body).id for body in self.facts["bodies"]]

        def run():
            """Return the poses of the first sample at the end."""
            places, turns = self.calls[batch](steps, qvel)
            return np.hstack([np.asarray(places[0])[ids], np.asarray(turns[0])[ids]])

        return run


class Pinocchio:
    """Pinocchio: joint coordinates, loops closed by the constraints of `constraintDynamics`, without drift correction."""

    tool, package, largest_batch = "Pinocchio", "pin", 1
    platform = "cpu"
    settings = "RK4 in Python around `constraintDynamics`, tolerance 1e-12, μ = 1e-8, no drift correction, float64"
    step_counts = doubled(25, 8)

    def __init__(self, name: str):
        import pinocchio

        self.pin, self.facts = pinocchio, export.facts(name)
        root = ElementTree.parse(export.path_of(name, ".xml")).getroot()
        self.model, self.frames, self.sites = pinocchio.Model(), {}, {}
        self.model.gravity.linear = np.array(self.facts["gravity"])
        for body in root.findall("worldbody/body"):
            self._add_body(0, pinocchio.SE3.Identity(), body)
        self.constraints = pinocchio.StdVec_RigidConstraintModel()
        self.results = pinocchio.StdVec_RigidConstraintData()
        for tie in root.findall("equality/connect"):
            ends = *self.sites[tie.get("site1")], *self.sites[tie.get("site2")]
            kind, frame = pinocchio.ContactType.CONTACT_3D, pinocchio.ReferenceFrame.LOCAL
            self.constraints.append(pinocchio.RigidConstraintModel(kind, self.model, *ends, frame))
            self.results.append(self.constraints[len(self.constraints) - 1].createData())
        self.data = self.model.createData()
        self.v = _numbers(root.find("keyframe/key"), "qvel")
        pinocchio.initConstraintDynamics(self.model, self.data, self.constraints, self.results)

    def _add_body(self, parent, carrier, element):
        """Add a body with its joints to the parent joint; `carrier` is the frame of the parent body in that joint."""
        pin, model = self.pin, self.model
        x, y, z = _numbers(element, "pos")
        e0, e1, e2, e3 = _numbers(element, "quat")
        frame = carrier * pin.SE3(pin.Quaternion(e0, e1, e2, e3).normalized().matrix(), np.array([x, y, z]))
        for row in element.findall("joint"):
            point = pin.SE3(np.eye(3), _numbers(row, "pos"))
            kind, axis = row.get("type"), None if row.get("axis") is None else _numbers(row, "axis")
            if kind == "ball":
                joint = pin.JointModelSpherical()
            else:
                joint = (
                    pin.JointModelRevoluteUnaligned(axis) if kind == "hinge" else pin.JointModelPrismaticUnaligned(axis)
                )
            parent = model.addJoint(parent, joint, frame * point, row.get("name"))
            frame = point.inverse()
        inertial = element.find("inertial")
        xx, yy, zz, xy, xz, yz = _numbers(inertial, "fullinertia")
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        mass = pin.Inertia(float(inertial.get("mass")), _numbers(inertial, "pos"), inertia)
        model.appendBodyToJoint(parent, mass, frame)
        self.frames[element.get("name")] = parent, frame
        for site in element.findall("site"):
            self.sites[site.get("name")] = parent, frame * pin.SE3(np.eye(3), _numbers(site, "pos"))
        for child in element.findall("body"):
            self._add_body(parent, frame, child)

    def rates(self, q, d, v):
        """Return the rates of a displacement d from q and of v; balls need the derivative of their rotation."""
        pin, zero = self.pin, np.zeros(self.model.nv)
        at = pin.integrate(self.model, q, d)
        settings = pin.ProximalSettings(PROXIMAL_TOLERANCE, PROXIMAL_REGULARISATION, MAX_PROXIMAL_ITERATIONS)
        a = pin.constraintDynamics(self.model, self.data, at, v, zero, self.constraints, self.results, settings).copy()
        if self.model.nq == self.model.nv:
            return v, a
        return np.linalg.solve(pin.dIntegrate(self.model, q, d)[1], v), a

    def prepare(self, steps, batch):
        """Return a function that simulates one motion and returns its final poses."""
        h = self.facts["end"] / steps

        def run():
            """Return the poses at the end."""
            q, v, zero = self.pin.neutral(self.model), self.v, np.zeros(self.model.nv)
            for _ in range(steps):
                d_1, a_1 = self.rates(q, zero, v)
                d_2, a_2 = self.rates(q, h / 2 * d_1, v + h / 2 * a_1)
                d_3, a_3 = self.rates(q, h / 2 * d_2, v + h / 2 * a_2)
                d_4, a_4 = self.rates(q, h * d_3, v + h * a_3)
                q = self.pin.integrate(self.model, q, h / 6 * (d_1 + 2 * d_2 + 2 * d_3 + d_4))
                v = v + h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4)
            self.pin.forwardKinematics(self.model, self.data, q)
            return np.array([self._pose(*self.frames[body]) for body in self.facts["bodies"]])

        return run

    def _pose(self, joint, frame):
        """Return the pose of a body, given by its frame in a joint."""
        place = self.data.oMi[joint] * frame
        turn = self.pin.Quaternion(place.rotation)
        return [*place.translation, turn.w, turn.x, turn.y, turn.z]


def _numbers(element, name) -> np.ndarray:
    """Return an attribute of an XML element as numbers; zeros if it is missing, and no rotation for `quat`."""
    text = element.get(name, "1 0 0 0" if name == "quat" else "0 0 0")
    return np.array(text.split(), float)


def joint_frame(axis, along: int) -> np.ndarray:
    """Return a rotation matrix whose column `along` is a unit vector."""
    axis = np.asarray(axis) / np.linalg.norm(axis)
    other = np.cross(np.eye(3)[np.argmin(np.abs(axis))], axis)
    other /= np.linalg.norm(other)
    columns = [axis, other, np.cross(axis, other)]
    return np.stack(columns[-along:] + columns[:-along] if along else columns, axis=1)


class Exudyn:
    """Exudyn: bodies with Euler parameters and constraints of all joints, by its generalized-α method."""

    tool, package, largest_batch = "Exudyn", "exudyn", 1
    platform = "cpu"
    settings = "generalized-α with ρ = 0.9 and index 3, modified Newton with tolerance 1e-10, Euler parameters, float64"
    step_counts = doubled(50, 9)

    def __init__(self, name: str):
        import exudyn

        self.exudyn, self.name, self.facts = exudyn, name, export.facts(name)

    def prepare(self, steps, batch):
        """Return a function that simulates one motion and returns its final poses."""
        from exudyn import itemInterface as items

        container = self.exudyn.SystemContainer()
        system, facts = container.AddSystem(), self.facts
        objects, nodes = {"ground": system.AddObject(items.ObjectGround())}, {}
        states = zip(facts["bodies"].items(), facts["poses"], facts["velocities"], strict=True)
        for (body, numbers), pose, velocity in states:
            rates = euler_parameter_rates(pose[3:], velocity[3:])
            nodes[body] = system.AddNode(
                items.NodeRigidBodyEP(referenceCoordinates=pose, initialVelocities=[*velocity[:3], *rates])
            )
            inertia = [*numbers["inertia"], 0.0, 0.0, 0.0]
            rigid = items.ObjectRigidBody(physicsMass=numbers["mass"], physicsInertia=inertia, nodeNumber=nodes[body])
            objects[body] = system.AddObject(rigid)
            mass = system.AddMarker(items.MarkerBodyMass(bodyNumber=objects[body]))
            system.AddLoad(items.LoadMassProportional(markerNumber=mass, loadVector=facts["gravity"]))
        for joint in facts["joints"].values():
            self._add_joint(system, items, objects, joint)
        system.Assemble()
        settings = self._settings(steps)
        kind = self.exudyn.OutputVariableType.Coordinates

        def run():
            """Return the poses at the end."""
            system.SolveDynamic(settings, solverType=self.exudyn.DynamicSolverType.GeneralizedAlpha)
            changes = [system.GetNodeOutput(node, kind) for node in nodes.values()]
            return np.array(facts["poses"]) + np.array(changes)

        return run

    def _settings(self, steps):
        """Return the settings of the method for a number of steps."""
        settings = self.exudyn.SimulationSettings()
        integration = settings.timeIntegration
        integration.numberOfSteps, integration.endTime, integration.verboseMode = steps, self.facts["end"], 0
        integration.generalizedAlpha.spectralRadius = 0.9
        integration.newton.useModifiedNewton = True
        integration.newton.relativeTolerance = integration.newton.absoluteTolerance = NEWTON_TOLERANCE
        settings.solutionSettings.writeSolutionToFile = False
        # Redundant constraints make the Jacobian singular.
        linear = "EigenDense" if self.name in REDUNDANT else "EigenSparse"
        settings.linearSolverType = getattr(self.exudyn.LinearSolverType, linear)
        settings.linearSolverSettings.ignoreSingularJacobian = self.name in REDUNDANT
        return settings

    def _add_joint(self, system, items, objects, joint):
        """Add a joint between two bodies."""
        ends = ((joint["i"], joint["point_i"]), (joint["j"], joint["point_j"]))
        rigid = [items.MarkerBodyRigid(bodyNumber=objects[body], localPosition=point) for body, point in ends]
        markers = [system.AddMarker(marker) for marker in rigid]
        if joint["kind"] == "Spherical":
            system.AddObject(items.ObjectJointSpherical(markerNumbers=markers))
            return
        turns = joint_turns(self.facts, joint)
        free = {"Revolute": [1, 1, 1, 1, 1, 0], "Prismatic": [1, 1, 0, 1, 1, 1], "Universal": [1, 1, 1, 0, 0, 1]}
        axes = {"constrainedAxes": free[joint["kind"]], "rotationMarker0": turns[0], "rotationMarker1": turns[1]}
        system.AddObject(items.ObjectJointGeneric(markerNumbers=markers, **axes))


def joint_turns(facts, joint) -> list[np.ndarray]:
    """Return joint frames on both bodies that coincide at the start: z along the axis, or x and y along the arms."""
    poses = {"ground": [0.0, 0, 0, 1, 0, 0, 0]} | dict(zip(facts["bodies"], facts["poses"], strict=True))
    of_i, of_j = (rotation_matrix(poses[joint[end]][3:]) for end in "ij")
    if joint["kind"] == "Universal":
        first, second = of_i @ joint["axis_i"], of_j @ joint["axis_j"]
        frame = np.stack([first, second, np.cross(first, second)], axis=1)
    else:
        frame = of_i @ joint_frame(joint["axis_i"], 2)
    return [of_i.T @ frame, of_j.T @ frame]


def rotation_matrix(p) -> np.ndarray:
    """Return the rotation matrix of Euler parameters."""
    e0, e = p[0], np.asarray(p[1:])
    cross = np.array([[0.0, -e[2], e[1]], [e[2], 0.0, -e[0]], [-e[1], e[0], 0.0]])
    return np.eye(3) + 2 * e0 * cross + 2 * cross @ cross


def euler_parameter_rates(p, spin) -> np.ndarray:
    """Return the rates of Euler parameters for an angular velocity in the frame of the body."""
    e0, e, spin = p[0], np.asarray(p[1:]), np.asarray(spin)
    return 0.5 * np.array([-e @ spin, *(e0 * spin + np.cross(e, spin))])


def version(package: str) -> str:
    """Return the version of an installed package."""
    return importlib.metadata.version(package)
