"""The tools that `comparison` compares: each a class whose methods are the tasks that it can do; `cannot` says why not.

Tasks, each a dict of numbers, or of `Point`s:

- `turn`: positions of a driven four-bar at 360 angles of its crank.
- `fall`: the four-bar from rest for 1 s, one at a time and in a batch, with steps that are halved again and again.
- `chain`: an open chain of eight rods, 100 steps of 1 ms.
- `slopes`: the crank's angle after the fall, by the four lengths.
- `first`: one fall, for the first result of a fresh process. It imports what it needs, and nothing else.
"""

import statistics
import time
from typing import ClassVar

import comparison_problem as problem
import numpy as np
import timing
from comparison_problem import BATCH, CHECKED, END, NOMINAL, START, TURN, Point

DOUBLED = tuple(50 * 2**k for k in range(8))
LINKS = 8
LOOPS = "has no constraints that close loops"
PLANS = "has no kinematic analysis of closed loops; one would write Newton's method oneself"
SLOPE_STEP = 1e-5
LONG = 5.0


def median(call, repeats=5, shortest=0.02) -> float:
    """Seconds of a call, the median of several measurements of `shortest` at least, after one that does not count; of a
    call that takes many seconds, those of one."""
    call()
    begin = time.perf_counter()
    call()
    once = time.perf_counter() - begin
    if once > LONG:
        return once
    count, measured = max(1, int(shortest / max(once, 1e-7))), []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        measured.append((time.perf_counter() - begin) / count)
    return statistics.median(measured)


def points(prepare, wanted, steps=DOUBLED) -> list[Point]:
    """prepare: number of steps ↦ (run, how many motions that is); run() gives a crank's angle for each of `wanted`."""
    found = []
    for count in steps:
        run, motions = prepare(count)
        error = float(np.max(np.abs(np.asarray(run()) - wanted)))
        found.append(Point(count, error if np.isfinite(error) else 1e9, median(run) / motions))
    return found


def differences(run, step=SLOPE_STEP) -> dict:
    """Slopes by central differences of run: lengths ↦ crank's angle."""

    def slopes():
        return np.array([run(NOMINAL + e) - run(NOMINAL - e) for e in step * np.eye(4)]) / (2 * step)

    return {"error": slope_error(slopes()), "ms": 1e3 * median(slopes, 3), "how": "central differences, 8 motions"}


def slope_error(found) -> float:
    """Relative to the largest."""
    wanted = np.array(WANTED["slopes"])
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


# Filled by `comparison`: angles at the end of the nominal four-bar and of the first of the batch, and slopes.
WANTED: dict = {}


class Jaxmbs:
    name, package = "jaxmbs", "jaxmbs"
    cannot: ClassVar[dict] = {}

    def __init__(self):
        import jax
        import models

        import jaxmbs as mbs

        jax.config.update("jax_enable_x64", True)
        self.jax, self.mbs, self.models = jax, mbs, models

    def design(self, lengths):
        return dict(zip(problem.LENGTHS, np.asarray(lengths, float).T, strict=True))

    def turn(self):
        times = np.append(TURN, 2 * np.pi)[:-1]
        driven = lambda b: self.models.four_bar(b, motor=True)

        def run(b, start):
            motion = self.mbs.kinematics(driven(b), times, start)
            return motion.point("coupler", (b["coupler"] / 2, 0.0))

        one, many = self.design(NOMINAL), self.design(problem.designs(BATCH))
        starts = self.jax.jit(self.jax.vmap(lambda b: self.models.four_bar_guess(b, 0.0)))(many)
        single, _ = timing.compiled(run, one, start := self.models.four_bar_guess(one, 0.0))
        batch, seconds = timing.compiled(self.jax.vmap(run), many, starts)
        slope = lambda b, start: self.jax.numpy.sum(run(b, start) ** 2)
        gradient, _ = timing.compiled(self.jax.vmap(self.jax.grad(slope)), many, starts)
        wait = self.jax.block_until_ready
        per = lambda seconds, count: 1e6 * seconds / count / len(times)
        return {
            "error": turn_error(np.asarray(single(one, start))),
            "µs": per(median(lambda: wait(single(one, start))), 1),
            "µs in a batch": per(median(lambda: wait(batch(many, starts))), BATCH),
            "µs with gradient": per(median(lambda: wait(gradient(many, starts)), 3), BATCH),
            "compile s": seconds,
            "how": "`kinematics`, with velocities, accelerations and a status for every pose",
        }

    def _fall(self, steps, **how):
        def run(b):
            times = np.array([0.0, END])
            mech, start = self.models.four_bar(b), self.models.four_bar_guess(b, START)
            return self.mbs.simulate(mech, times, start, step=END / steps, **how).position("crank.phi")[-1]

        return run

    def fall(self):
        def prepare(steps, lengths, **how):
            many = np.ndim(lengths) > 1
            run, b = self._fall(steps, **how), self.design(lengths)
            compiled, _ = timing.compiled(self.jax.vmap(run) if many else run, b)
            call = lambda: np.asarray(compiled(b))
            return (lambda: call()[:CHECKED]) if many else call, len(lengths) if many else 1

        all_of_them = problem.designs(BATCH)
        joints = self.mbs.JointCoordinates()
        return {
            "RK4": points(lambda n: prepare(n, NOMINAL), WANTED["one"]),
            "RK4, joint coordinates": points(lambda n: prepare(n, NOMINAL, formulation=joints), WANTED["one"]),
            "RK4, batch": points(lambda n: prepare(n, all_of_them), WANTED["batch"]),
        }

    def chain(self):
        import chains

        row = chains.chain_row(2, LINKS, BATCH)
        return {
            "ns": row["ns"],
            "error": row["difference rad"],
            "compile s": row["compile s"],
            "how": "a batch of 1,024",
        }

    def slopes(self):
        value = self.jax.value_and_grad(self._fall(400))
        one, many = self.design(NOMINAL), self.design(problem.designs(BATCH))
        single, seconds = timing.compiled(value, one)
        batch, _ = timing.compiled(self.jax.vmap(value), many)
        wait = self.jax.block_until_ready
        return {
            "error": slope_error([single(one)[1][name] for name in problem.LENGTHS]),
            "ms": 1e3 * median(lambda: wait(single(one))),
            "ms in a batch": 1e3 * median(lambda: wait(batch(many)), 3) / BATCH,
            "compile s": seconds,
            "how": "reverse mode, 400 steps of RK4",
        }

    @staticmethod
    def first():
        import os

        import jax
        import models

        import jaxmbs as mbs

        jax.config.update("jax_enable_x64", True)
        if os.environ.get("JAXMBS_CACHE"):
            mbs.enable_cache()
        b = dict(zip(problem.LENGTHS, NOMINAL, strict=True))
        start = dict(zip(("crank", "coupler", "rocker"), problem.poses(NOMINAL), strict=True))
        return float(
            mbs.simulate(models.four_bar(b), np.array([0.0, END]), start, step=END / 400).position("crank.phi")[-1]
        )


def turn_error(tips) -> float:
    """Of the pin between coupler and rocker, places (360, 2)."""
    return float(np.abs(tips[:, 0] + 1j * tips[:, 1] - problem.tips(NOMINAL, TURN)[1]).max())


class MuJoCo:
    name, package = "MuJoCo", "mujoco"
    cannot: ClassVar = {"turn": PLANS}

    def __init__(self):
        import mujoco  # noqa: F401
        import others

        self.others = others

    @staticmethod
    def softness(steps):
        """As stiff as is most accurate: a time constant of 2.25 steps."""
        return f'solref="{2.25 * END / steps} 1" solimp="0.9999 0.9999 0.001"'

    def prepare(self, steps, lengths):
        lengths = np.atleast_2d(lengths)
        starts = np.array([problem.relative(each) for each in lengths])
        models = [self.others.mujoco_model(each, END / steps, self.softness(steps)) for each in lengths]
        run = self.others.mujoco_rollout(models, starts, steps)
        return (lambda: run()[:CHECKED, 0]), len(lengths)

    def fall(self):
        return {
            "RK4, connect": points(lambda n: self.prepare(n, NOMINAL), WANTED["one"]),
        }

    def chain(self):
        import chains
        import mujoco

        model = mujoco.MjModel.from_xml_string(chains.xml(chains.lengths_of(LINKS), 2))
        run = self.others.mujoco_rollout([model] * CHECKED, chains.angles_of(LINKS, BATCH)[:CHECKED], chains.STEPS)
        ns = timing.NS * median(run) / CHECKED / chains.STEPS
        return {"ns": ns, "error": float(np.abs(run() - WANTED["chain"]).max()), "how": "one after another"}

    def slopes(self):
        return differences(lambda lengths: float(self.prepare(400, lengths)[0]()[0]))

    @staticmethod
    def first():
        import mujoco
        import others

        model = others.mujoco_model(NOMINAL, END / 400, MuJoCo.softness(400))
        data = mujoco.MjData(model)
        data.qpos[:] = problem.relative(NOMINAL)
        mujoco.mj_step(model, data, nstep=400)
        return float(data.qpos[0])


class MJX:
    name, package = "MJX", "mujoco-mjx"
    cannot: ClassVar = {"turn": PLANS}

    def __init__(self):
        import jax
        import others
        from mujoco import mjx

        jax.config.update("jax_enable_x64", True)
        self.jax, self.mjx = jax, mjx
        self.model = mjx.put_model(others.mujoco_model(NOMINAL, END / 400, MuJoCo.softness(400)), impl="jax")
        self.blank = mjx.make_data(self.model)

    def sized(self, lengths):
        """The model with other lengths; what MuJoCo's compiler derives of them for the softness of ties stays."""
        jnp = self.jax.numpy
        a, c, r, g = lengths
        bars = jnp.stack([0 * a, a, c, r])
        along = lambda xs: jnp.stack([jnp.stack([x, 0 * x, 0 * x]) for x in xs])
        inertia = bars[:, None] ** 3 / 12 * jnp.array([1e-6, 1.0, 1.0])
        return self.model.replace(
            body_pos=along([0 * a, 0 * a, a, g]),
            body_ipos=along([0 * a, a / 2, c / 2, r / 2]),
            body_mass=bars,
            body_inertia=jnp.take_along_axis(inertia, self.order, axis=1),
            site_pos=along([c, r]),
        )

    @property
    def order(self):
        """Principal moments in the order that the compiler gave them, by the nominal model."""
        own = np.asarray(self.model.body_inertia)
        bars = np.array([0.0, *NOMINAL[:3]])[:, None] ** 3 / 12 * [1e-6, 1.0, 1.0]
        return np.array([np.argmin(abs(b[None, :] - o[:, None]), axis=1) for b, o in zip(bars, own, strict=True)])

    def end(self, lengths, angles, steps, scan=False):
        """The crank's angle; `steps` may be traced where it is a loop without reverse mode."""
        model = self.sized(lengths)
        model = model.replace(
            opt=model.opt.replace(timestep=END / steps),
            eq_solref=model.eq_solref.at[:, 0].set(2.25 * END / steps),
        )
        step = lambda data, _: (self.mjx.step(model, data), None)
        data = self.blank.replace(qpos=angles)
        if scan:
            return self.jax.lax.scan(step, data, length=steps)[0].qpos[0]
        return self.jax.lax.fori_loop(0, steps, lambda _, data: step(data, None)[0], data).qpos[0]

    def fall(self):
        jnp = self.jax.numpy
        one = self.jax.jit(self.end)
        many = self.jax.jit(self.jax.vmap(self.end, (0, 0, None)))
        lengths = problem.designs(64)
        starts = np.array([problem.relative(each) for each in lengths])

        def single(steps):
            return (lambda: np.asarray(one(jnp.array(NOMINAL), problem.relative(NOMINAL), steps))), 1

        def batch(steps):
            return (lambda: np.asarray(many(lengths, starts, steps))[:CHECKED]), len(lengths)

        return {
            "RK4, connect": points(single, WANTED["one"], DOUBLED[:5]),
            "RK4, connect, batch of 64": points(batch, WANTED["batch"], DOUBLED[:4]),
        }

    def slopes(self):
        run = lambda lengths: self.end(lengths, self.relative(lengths), 400, scan=True)
        lengths = self.jax.numpy.array(NOMINAL)
        function, how = self.jax.grad(run), "reverse mode"
        try:
            self.jax.jit(function).lower(lengths)
        except ValueError:  # of a loop whose length is not known
            function, how = self.jax.jacfwd(run), "forward mode; its solver has no reverse mode"
        compiled, seconds = timing.compiled(function, lengths)
        call = lambda: self.jax.block_until_ready(compiled(lengths))
        return {"error": slope_error(call()), "ms": 1e3 * median(call, 3), "compile s": seconds, "how": how}

    def relative(self, lengths):
        jnp = self.jax.numpy
        a, c, r, g = lengths
        pin = a * jnp.array([np.cos(START), np.sin(START)])
        away = jnp.stack([g, 0 * g]) - pin
        far = jnp.sqrt(away @ away)
        along = (c**2 + far**2 - r**2) / (2 * far)
        x, y = away / far
        tip = pin + along * away / far + jnp.sqrt(c**2 - along**2) * jnp.stack([-y, x])
        coupler = jnp.arctan2(*(tip - pin)[::-1])
        return jnp.stack([START + 0 * a, coupler - START, jnp.arctan2(tip[1], tip[0] - g)])

    def chain(self):
        import chains
        import mujoco

        model = self.mjx.put_model(mujoco.MjModel.from_xml_string(chains.xml(chains.lengths_of(LINKS), 2)), impl="jax")
        blank = self.mjx.make_data(model)

        def run(angles):
            step = lambda data, _: (self.mjx.step(model, data), None)
            return self.jax.lax.scan(step, blank.replace(qpos=angles), length=chains.STEPS)[0].qpos

        return chain(self.jax, run, CHECKED)

    @staticmethod
    def first():
        tool = MJX()
        run = tool.jax.jit(lambda lengths, angles: tool.end(lengths, angles, 400))
        return float(run(tool.jax.numpy.array(NOMINAL), problem.relative(NOMINAL)))


def chain(jax, run, batch) -> dict:
    """Of a function of one sample: angles of the chain's joints at the start ↦ at the end."""
    import chains

    angles = chains.angles_of(LINKS, BATCH)[:batch]
    compiled, seconds = timing.compiled(jax.vmap(run), angles)
    ends = np.asarray(compiled(angles))[:CHECKED]
    ns = timing.NS * median(lambda: jax.block_until_ready(compiled(angles)), 3) / batch / chains.STEPS
    how = f"a batch of {batch:,}"
    return {"ns": ns, "error": float(np.abs(ends - WANTED["chain"]).max()), "compile s": seconds, "how": how}


class Pinocchio:
    name, package = "Pinocchio", "pin"
    cannot: ClassVar = {"turn": PLANS}

    def __init__(self):
        import pinocchio  # noqa: F401

    def rollout(self):
        import others
        import reference_kernel

        return reference_kernel.rollout_of(others.pinocchio_library("pinocchio_four_bar.cpp"))

    @staticmethod
    def prepare(call, steps, lengths):
        lengths = np.atleast_2d(lengths)
        angles = np.array([problem.relative(each) for each in lengths])
        design = dict(zip(problem.LENGTHS, lengths.T, strict=True))
        run = lambda: call(design, angles, np.zeros_like(angles), END / steps, steps)[0]
        return (lambda: run()[:CHECKED, 0]), len(lengths)

    def fall(self):
        call = self.rollout()
        return {
            "RK4, C++": points(lambda n: self.prepare(call, n, NOMINAL), WANTED["one"]),
        }

    def chain(self):
        import chains

        return {
            "ns": chains.pinocchio_chain_row(2, LINKS, BATCH)["ns"],
            "error": 0.0,
            "how": "C++; the others' reference",
        }

    def slopes(self):
        call = self.rollout()
        return differences(lambda lengths: float(self.prepare(call, 400, lengths)[0]()[0]))

    @staticmethod
    def first():
        import others
        import pinocchio as pin

        model, constraint = others.pinocchio_model(NOMINAL)
        models, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        models.append(constraint)
        data.append(constraint.createData())
        state, settings = model.createData(), pin.ProximalSettings(1e-12, 1e-12, 10)
        pin.initConstraintDynamics(model, state, models, data)
        zero = np.zeros(3)
        acceleration = lambda q, v: pin.constraintDynamics(model, state, q, v, zero, models, data, settings).copy()
        return float(others.rk4(acceleration, problem.relative(NOMINAL), END / 400, 400)[0])


class Exudyn:
    name, package = "Exudyn", "exudyn"
    cannot: ClassVar = {"chain": "not measured: its kinematic trees are stepped by the same solver as the four-bar"}

    def __init__(self):
        import exudyn  # noqa: F401

    @staticmethod
    def built(lengths, crank=START):
        """A system of three bars with its nodes; its crank's coordinate has a marker."""
        import exudyn
        from exudyn import itemInterface as items

        system = exudyn.SystemContainer().AddSystem()
        ground = system.AddObject(items.ObjectGround(referencePosition=[0, 0, 0]))
        bars, nodes = [], []
        for length, pose in zip(lengths, problem.poses(lengths, crank), strict=False):
            nodes.append(system.AddNode(items.NodeRigidBody2D(referenceCoordinates=[float(x) for x in pose])))
            own = {"physicsMass": length, "physicsInertia": length**3 / 12, "nodeNumber": nodes[-1]}
            bars.append(system.AddObject(items.ObjectRigidBody2D(**own)))
            middle = system.AddMarker(items.MarkerBodyMass(bodyNumber=bars[-1]))
            system.AddLoad(items.LoadMassProportional(markerNumber=middle, loadVector=[0, -problem.GRAVITY, 0]))
        at = lambda body, x: system.AddMarker(
            items.MarkerBodyPosition(bodyNumber=body, localPosition=[float(x), 0.0, 0.0])
        )
        a, c, r, g = lengths
        crank, coupler, rocker = bars
        pins = (
            ((ground, 0), (crank, -a / 2)),
            ((crank, a / 2), (coupler, -c / 2)),
            ((coupler, c / 2), (rocker, r / 2)),
            ((ground, g), (rocker, -r / 2)),
        )
        for i, j in pins:
            system.AddObject(items.ObjectJointRevolute2D(markerNumbers=[at(*i), at(*j)]))
        return system, bars, nodes, ground

    @staticmethod
    def settings(steps, end):
        import exudyn

        settings = exudyn.SimulationSettings()
        integration = settings.timeIntegration
        integration.numberOfSteps, integration.endTime, integration.verboseMode = steps, end, 0
        integration.generalizedAlpha.spectralRadius = 0.9
        integration.newton.useModifiedNewton = True
        integration.newton.relativeTolerance, integration.newton.absoluteTolerance = 1e-12, 1e-12
        settings.solutionSettings.writeSolutionToFile = False
        return settings

    @classmethod
    def prepare(cls, steps, lengths):
        import exudyn

        system, _, nodes, _ = cls.built(lengths)
        system.Assemble()
        settings = cls.settings(steps, END)

        def run():
            system.SolveDynamic(settings, solverType=exudyn.DynamicSolverType.GeneralizedAlpha)
            # Coordinates are changes since the start.
            return START + system.GetNodeOutput(nodes[0], exudyn.OutputVariableType.Coordinates)[2]

        return run, 1

    def fall(self):
        return {"generalized-α": points(lambda n: self.prepare(n, NOMINAL), WANTED["one"])}

    def slopes(self):
        return differences(lambda lengths: self.prepare(400, lengths)[0]())

    def turn(self):
        """Static steps, the crank's angle held to a function of the load factor."""
        import exudyn
        from exudyn import itemInterface as items

        system, bars, nodes, _ = self.built(NOMINAL, 0.0)
        turned = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=nodes[0], coordinate=2))
        fixed = system.AddNode(items.NodePointGround(referenceCoordinates=[0, 0, 0]))
        still = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=fixed, coordinate=0))
        last = float(TURN[-1])
        system.AddObject(items.ObjectConnectorCoordinate(
            markerNumbers=[still, turned],
            offset=1.0,
            offsetUserFunction=lambda system, t, number, offset: last * t,
        ))  # fmt: skip
        sensor = system.AddSensor(items.SensorBody(
            bodyNumber=bars[1],
            localPosition=[NOMINAL[1] / 2, 0, 0],
            storeInternal=True,
            outputVariableType=exudyn.OutputVariableType.Position,
        ))  # fmt: skip
        system.Assemble()
        settings = self.settings(1, 1.0)
        static = settings.staticSolver
        static.numberOfLoadSteps, static.loadStepDuration, static.verboseMode = len(TURN) - 1, 1.0, 0
        static.newton.relativeTolerance = static.newton.absoluteTolerance = 1e-12
        settings.solutionSettings.sensorsWritePeriod = 0.5 / len(TURN)

        def run():
            system.SolveStatic(settings)
            return system.GetSensorStoredData(sensor)[-len(TURN) + 1 :, 1:3]

        found = np.concatenate([[(z := problem.tips(NOMINAL, 0.0)[1]).real, z.imag], run().ravel()]).reshape(-1, 2)
        how = "static solver, the angle prescribed by a function in Python"
        return {"error": turn_error(found), "µs": 1e6 * median(run) / len(TURN), "how": how}

    @classmethod
    def first(cls):
        return float(cls.prepare(400, NOMINAL)[0]())


class Pylinkage:
    name, package = "pylinkage", "pylinkage"
    cannot: ClassVar = dict.fromkeys(("fall", "chain", "slopes"), "has no dynamics")

    def __init__(self):
        import pylinkage  # noqa: F401

    @staticmethod
    def linkage(lengths):
        import pylinkage

        a, c, r, g = lengths
        first, second = pylinkage.Ground(0.0, 0.0), pylinkage.Ground(g, 0.0)
        crank = pylinkage.Crank(anchor=first, radius=a, angular_velocity=float(TURN[1]))
        rocker = pylinkage.RRRDyad(crank.output, second, c, r)
        return pylinkage.simulation.Linkage([first, second, crank, rocker])

    @staticmethod
    def starts(lengths):
        """The places one step before the first."""
        pin, tip = problem.tips(lengths, -TURN[1])
        return [(0.0, 0.0), (lengths[3], 0.0), (pin.real, pin.imag), (tip.real, tip.imag)]

    def turn(self):
        from pylinkage.population import Ensemble

        linkage = self.linkage(NOMINAL)

        def run():
            linkage.set_completely([*NOMINAL[:3]], self.starts(NOMINAL))
            return linkage.step_fast(iterations=len(TURN))

        lengths = problem.designs(BATCH)
        many = Ensemble(linkage, lengths[:, :3], np.array([self.starts(each) for each in lengths]))
        batch = median(lambda: many.simulate(iterations=len(TURN), store=False), 3)
        return {
            "error": turn_error(np.asarray(run())[:, -1]),
            "µs": 1e6 * median(run) / len(TURN),
            "µs in a batch": 1e6 * batch / BATCH / len(TURN),
            "how": "closed forms, compiled by Numba; positions only",
        }


class JaxSim:
    name, package = "JaxSim", "jaxsim"
    cannot: ClassVar = {"turn": LOOPS, "fall": LOOPS, "slopes": LOOPS, "first": LOOPS}

    def __init__(self):
        import jax

        jax.config.update("jax_enable_x64", True)
        import jaxsim.api as js

        self.jax, self.js = jax, js

    @staticmethod
    def sdf(lengths):
        """The chain of `chains`, in the plane of x and z."""
        inertial = "<inertial><pose>{} 0 0 0 0 0</pose><mass>{}</mass><inertia>{}</inertia></inertial>"
        matrix = lambda a: "".join(f"<i{k}{k}>{a}</i{k}{k}>" for k in "xyz") + "<ixy>0</ixy><ixz>0</ixz><iyz>0</iyz>"
        text = f'<link name="base">{inertial.format(0, 1, matrix(1))}</link><joint name="fixed" type="fixed">'
        text += "<parent>world</parent><child>base</child></joint>"
        limits = "<limit><lower>-1e9</lower><upper>1e9</upper></limit>"
        place, parent = 0.0, "base"
        for k, length in enumerate(lengths):
            own = inertial.format(length / 2, length, matrix(length**3 / 12))
            text += f'<link name="L{k}"><pose>{place} 0 0 0 0 0</pose>{own}</link><joint name="J{k}" type="revolute">'
            text += f"<parent>{parent}</parent><child>L{k}</child><axis><xyz>0 -1 0</xyz>{limits}</axis></joint>"
            place, parent = place + length, f"L{k}"
        return f'<sdf version="1.10"><model name="chain">{text}</model></sdf>'

    def chain(self):
        import chains

        model = self.js.model.JaxSimModel.build_from_model_description(
            self.sdf(chains.lengths_of(LINKS)),
            time_step=chains.STEP,
            gravity=problem.GRAVITY,
            integrator=self.js.model.IntegratorType.RungeKutta4,
        )

        def run(angles):
            data = self.js.data.JaxSimModelData.build(model, joint_positions=angles)
            step = lambda data, _: (self.js.model.step(model, data), None)
            return self.jax.lax.scan(step, data, length=chains.STEPS)[0].joint_positions

        return chain(self.jax, run, 256)


TOOLS = {tool.name: tool for tool in (Jaxmbs, MuJoCo, MJX, Pinocchio, Exudyn, Pylinkage, JaxSim)}
