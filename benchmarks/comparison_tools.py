"""Tools of `comparison`: classes whose methods are their tasks; `cannot` has the reasons for missing ones.

Tasks return a dict of numbers or of `AccuracyRun`s:

- `turn`: positions of a driven four-bar at 360 angles of its crank.
- `fall`: the four-bar from rest for 1 s, one at a time and in a batch, with steps that are halved again and again.
- `chain`: an open chain of eight rods, 100 steps of 1 ms.
- `slopes`: the crank's angle after the fall, by the four lengths.
- `first`: one fall in a fresh process. It imports only what it needs.
"""

from typing import ClassVar

import comparison_problem as problem
import numpy as np
import peers
import timing
from comparison_measures import LINKS, WANTED, accuracy_runs, differences, slope_error, turn_error
from comparison_problem import BATCH, CHECKED, END, NOMINAL, START, TURN
from comparison_robots import MJX, JaxSim, MuJoCo, Pinocchio
from timing import cpu_seconds


class Jaxmbs:
    """jaxmbs in the comparison of tools."""

    name, package = "jaxmbs", "jaxmbs"
    cannot: ClassVar[dict] = {}

    def __init__(self):
        import jax
        import models

        import jaxmbs as mbs

        jax.config.update("jax_enable_x64", True)
        self.jax, self.mbs, self.models = jax, mbs, models

    def design(self, lengths):
        """Return lengths (4,) or (batch, 4) as a design by name."""
        return dict(zip(problem.LENGTHS, np.asarray(lengths, float).T, strict=True))

    def turn(self):
        """Return error and computing time of the places of the coupler's pin over a turn of the crank."""
        times = np.append(TURN, 2 * np.pi)[:-1]
        driven = lambda b: self.models.four_bar(b, motor=True)

        def run(b, start):
            """Return the places of the pin between coupler and rocker, NaN where the motion failed."""
            motion = self.mbs.kinematics(driven(b), times, start)
            path = motion.point("coupler", (b["coupler"] / 2, 0.0))
            return self.jax.numpy.where(motion.status[:, None] == 0, path, np.nan)

        one, many = self.design(NOMINAL), self.design(problem.designs(BATCH))
        starts = self.jax.jit(self.jax.vmap(lambda b: self.models.four_bar_guess(b, 0.0)))(many)
        single, _ = timing.compile_function(run, one, start := self.models.four_bar_guess(one, 0.0))
        batch, seconds = timing.compile_function(self.jax.vmap(run), many, starts)
        slope = lambda b, start: self.jax.numpy.sum(run(b, start) ** 2)
        gradient, _ = timing.compile_function(self.jax.vmap(self.jax.grad(slope)), many, starts)
        wait = self.jax.block_until_ready
        per = lambda seconds, count: 1e6 * seconds / count / len(times)
        return {
            "error": turn_error(np.asarray(single(one, start))),
            "µs": per(cpu_seconds(lambda: wait(single(one, start))), 1),
            "µs in a batch": per(cpu_seconds(lambda: wait(batch(many, starts))), BATCH),
            "µs with gradient": per(cpu_seconds(lambda: wait(gradient(many, starts)), 3), BATCH),
            "compile s": seconds,
            "how": "`kinematics`, with velocities, accelerations and a status for every pose",
        }

    def _fall(self, steps, **how):
        """Return the function from a design to the crank's final angle of a fall in `steps` steps."""

        def run(b):
            """Return the crank's final angle, NaN if the simulation fails."""
            times = np.array([0.0, END])
            mech, start = self.models.four_bar(b), self.models.four_bar_guess(b, START)
            motion = self.mbs.simulate(mech, times, start, step=END / steps, **how)
            # NaN for failed runs, which the page leaves out.
            return self.jax.numpy.where(motion.status[-1] == 0, motion.position("crank.phi")[-1], np.nan)

        return run

    def fall(self):
        """Return accuracy runs of the fall of one four-bar, and of a batch, by label."""

        def prepare(steps, lengths, **how):
            """Return a function that simulates the falls and returns the crank's angles, and the number of motions."""
            many = np.ndim(lengths) > 1
            run, b = self._fall(steps, **how), self.design(lengths)
            compiled, _ = timing.compile_function(self.jax.vmap(run) if many else run, b)
            call = lambda: np.asarray(compiled(b))
            return (lambda: call()[:CHECKED]) if many else call, len(lengths) if many else 1

        batch = problem.designs(BATCH)
        joints = self.mbs.JointCoordinates()
        return {
            "RK4": accuracy_runs(lambda n: prepare(n, NOMINAL), WANTED["one"]),
            "RK4, joint coordinates": accuracy_runs(lambda n: prepare(n, NOMINAL, formulation=joints), WANTED["one"]),
            "RK4, batch": accuracy_runs(lambda n: prepare(n, batch), WANTED["batch"]),
        }

    def chain(self):
        """Return nanoseconds per step of the chain, and the error of its final angles."""
        import chains

        row = chains.chain_row(2, LINKS, BATCH)
        found = {"ns": row["ns"], "error": row["difference rad"], "compile s": row["compile s"]}
        return found | {"how": "a batch of 1,024"}

    def slopes(self):
        """Measure the derivatives of the crank's final angle by the lengths, for one four-bar and a batch."""
        value = self.jax.value_and_grad(self._fall(400))
        one, many = self.design(NOMINAL), self.design(problem.designs(BATCH))
        single, seconds = timing.compile_function(value, one)
        batch, _ = timing.compile_function(self.jax.vmap(value), many)
        wait = self.jax.block_until_ready
        return {
            "error": slope_error([single(one)[1][name] for name in problem.LENGTHS]),
            "ms": 1e3 * cpu_seconds(lambda: wait(single(one))),
            "ms in a batch": 1e3 * cpu_seconds(lambda: wait(batch(many)), 3) / BATCH,
            "compile s": seconds,
            "how": "reverse mode, 400 steps of RK4",
        }

    @staticmethod
    def first():
        """Return the crank's final angle of one fall with everything needed for it, for the time of a first result."""
        import os

        import jax
        import models

        import jaxmbs as mbs

        jax.config.update("jax_enable_x64", True)
        if os.environ.get("JAXMBS_CACHE"):
            mbs.enable_cache()
        b = dict(zip(problem.LENGTHS, NOMINAL, strict=True))
        start = dict(zip(("crank", "coupler", "rocker"), problem.poses(NOMINAL), strict=True))
        motion = mbs.simulate(models.four_bar(b), np.array([0.0, END]), start, step=END / 400)
        return float(motion.position("crank.phi")[-1])


class Exudyn:
    """Exudyn in the comparison of tools: bodies with constraints, generalized-α."""

    name, package = "Exudyn", "exudyn"
    cannot: ClassVar = {"chain": "not measured, because it simulates open chains with the same solver as the four-bar"}

    def __init__(self):
        import exudyn  # noqa: F401

    @staticmethod
    def four_bar(lengths, crank=START):
        """Return an `ExudynSystem` of a four-bar whose crank starts at the angle `crank`."""
        system = peers.ExudynSystem()
        names = "crank", "coupler", "rocker"
        for name, length, pose in zip(names, lengths, problem.poses(lengths, crank), strict=False):
            system.add_body(name, pose, length, length**3 / 12)
            body = system.system.AddMarker(system.items.MarkerBodyMass(bodyNumber=system.objects[name]))
            down = [0, -problem.GRAVITY, 0]
            system.system.AddLoad(system.items.LoadMassProportional(markerNumber=body, loadVector=down))
        a, c, r, g = lengths
        system.add_revolute("ground", (0, 0), "crank", (-a / 2, 0))
        system.add_revolute("crank", (a / 2, 0), "coupler", (-c / 2, 0))
        system.add_revolute("coupler", (c / 2, 0), "rocker", (r / 2, 0))
        system.add_revolute("ground", (g, 0), "rocker", (-r / 2, 0))
        return system

    @classmethod
    def prepare(cls, steps, lengths):
        """Return a function that simulates the fall and returns the crank's angle; and the number of motions, 1."""
        system = cls.four_bar(lengths)
        system.system.Assemble()
        settings = system.settings(steps, END)

        def run():
            """Simulate the fall and return the crank's angle."""
            system.simulate(settings)
            return START + system.angle_change("crank")

        return run, 1

    def fall(self):
        """Return accuracy runs of the fall of one four-bar by label."""
        return {"generalized-α": accuracy_runs(lambda n: self.prepare(n, NOMINAL), WANTED["one"])}

    def slopes(self):
        """Measure the derivatives of the crank's final angle by the lengths, by differences."""
        return differences(lambda lengths: self.prepare(400, lengths)[0]())

    def turn(self):
        """Static steps, with the angle of the crank prescribed as a function of the load factor."""
        four_bar = self.four_bar(NOMINAL, 0.0)
        system, items = four_bar.system, four_bar.items
        fixed = system.AddNode(items.NodePointGround(referenceCoordinates=[0, 0, 0]))
        still = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=fixed, coordinate=0))
        last = float(TURN[-1])
        system.AddObject(items.ObjectConnectorCoordinate(
            markerNumbers=[still, four_bar.angle_marker("crank")],
            offset=1.0,
            offsetUserFunction=lambda system, t, number, offset: last * t,
        ))  # fmt: skip
        sensor = system.AddSensor(items.SensorBody(
            bodyNumber=four_bar.objects["coupler"],
            localPosition=[NOMINAL[1] / 2, 0, 0],
            storeInternal=True,
            outputVariableType=four_bar.exudyn.OutputVariableType.Position,
        ))  # fmt: skip
        system.Assemble()
        settings = four_bar.settings(1, 1.0)
        static = settings.staticSolver
        static.numberOfLoadSteps, static.loadStepDuration, static.verboseMode = len(TURN) - 1, 1.0, 0
        static.newton.relativeTolerance = static.newton.absoluteTolerance = peers.NEWTON_TOLERANCE
        settings.solutionSettings.sensorsWritePeriod = 0.5 / len(TURN)

        def run():
            """Return the places of the coupler's pin at all angles of the crank."""
            system.SolveStatic(settings)
            return system.GetSensorStoredData(sensor)[-len(TURN) + 1 :, 1:3]

        found = np.concatenate([[(z := problem.tips(NOMINAL, 0.0)[1]).real, z.imag], run().ravel()]).reshape(-1, 2)
        how = "static solver, with the angle prescribed by a Python function"
        return {"error": turn_error(found), "µs": 1e6 * cpu_seconds(run) / len(TURN), "how": how}

    @classmethod
    def first(cls):
        """Return the crank's final angle of one fall with everything needed for it, for the time of a first result."""
        return float(cls.prepare(400, NOMINAL)[0]())


class Pylinkage:
    """Pylinkage in the comparison of tools: kinematics only."""

    name, package = "pylinkage", "pylinkage"
    cannot: ClassVar = dict.fromkeys(("fall", "chain", "slopes"), "no dynamics")

    def __init__(self):
        import pylinkage  # noqa: F401

    @staticmethod
    def linkage(lengths):
        """Return the four-bar of these lengths as a linkage of pylinkage."""
        import pylinkage

        a, c, r, g = lengths
        first, second = pylinkage.Ground(0.0, 0.0), pylinkage.Ground(g, 0.0)
        crank = pylinkage.Crank(anchor=first, radius=a, angular_velocity=float(TURN[1]))
        rocker = pylinkage.RRRDyad(crank.output, second, c, r)
        return pylinkage.simulation.Linkage([first, second, crank, rocker])

    @staticmethod
    def starts(lengths):
        """Return the places of the moving pins one step of the crank before its first angle."""
        pin, tip = problem.tips(lengths, -TURN[1])
        return [(0.0, 0.0), (lengths[3], 0.0), (pin.real, pin.imag), (tip.real, tip.imag)]

    def turn(self):
        """Return error and computing time of the places of the coupler's pin over a turn of the crank."""
        from pylinkage.population import Ensemble

        linkage = self.linkage(NOMINAL)

        def run():
            """Return the places of all pins over the turn."""
            linkage.set_completely([*NOMINAL[:3]], self.starts(NOMINAL))
            return linkage.step_fast(iterations=len(TURN))

        lengths = problem.designs(BATCH)
        many = Ensemble(linkage, lengths[:, :3], np.array([self.starts(each) for each in lengths]))
        batch = cpu_seconds(lambda: many.simulate(iterations=len(TURN), store=False), 3)
        return {
            "error": turn_error(np.asarray(run())[:, -1]),
            "µs": 1e6 * cpu_seconds(run) / len(TURN),
            "µs in a batch": 1e6 * batch / BATCH / len(TURN),
            "how": "closed forms, compiled by Numba; positions only",
        }


# Classes of all tools of the comparison, by name.
TOOLS = {tool.name: tool for tool in (Jaxmbs, MuJoCo, MJX, Pinocchio, Exudyn, Pylinkage, JaxSim)}
