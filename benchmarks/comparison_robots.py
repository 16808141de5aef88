"""Tools of `comparison` made for robots: MuJoCo, MJX, Pinocchio, JaxSim. See `comparison_tools`."""

from typing import ClassVar

import comparison_problem as problem
import numpy as np
import peers
import timing
from comparison_measures import DOUBLED, LINKS, PLANS, WANTED, WELDS, accuracy_runs, chain, differences, slope_error
from comparison_problem import BATCH, CHECKED, END, NOMINAL, START
from timing import cpu_seconds


class MuJoCo:
    """MuJoCo in the comparison of tools: one thread, loops closed by soft constraints."""

    name, package = "MuJoCo", "mujoco"
    cannot: ClassVar = {"turn": PLANS}

    def __init__(self):
        import mujoco  # noqa: F401

    def prepare(self, steps, lengths):
        """Return a function that simulates the falls and returns the crank's angles, and the number of motions."""
        lengths = np.atleast_2d(lengths)
        starts = np.array([problem.joint_angles(each) for each in lengths])
        models = [peers.mujoco_four_bar(each, END / steps, peers.mjcf_softness(END / steps)) for each in lengths]
        run = peers.mujoco_final_positions(models, steps, starts)
        return (lambda: run()[:CHECKED, 0]), len(lengths)

    def fall(self):
        """Return accuracy runs of the fall of one four-bar by label."""
        return {"RK4, connect": accuracy_runs(lambda n: self.prepare(n, NOMINAL), WANTED["one"])}

    def chain(self):
        """Return nanoseconds per step of the chain, and the error of its final angles."""
        import chains

        model = chains.mujoco_model(2, LINKS)
        run = peers.mujoco_final_positions([model] * CHECKED, chains.STEPS, chains.angles_of(LINKS, BATCH)[:CHECKED])
        ns = timing.NS * cpu_seconds(run) / CHECKED / chains.STEPS
        return {
            "ns alone": ns,
            "error": float(np.abs(run() - WANTED["chain"]).max()),
            "how": "one system after another",
        }

    def slopes(self):
        """Measure the derivatives of the crank's final angle by the lengths, by differences."""
        return differences(lambda lengths: float(self.prepare(400, lengths)[0]()[0]))

    @staticmethod
    def first():
        """Return the crank's final angle of one fall with everything needed for it, for the time of a first result."""
        import mujoco

        model = peers.mujoco_four_bar(NOMINAL, END / 400, peers.mjcf_softness(END / 400))
        data = mujoco.MjData(model)
        data.qpos[:] = problem.joint_angles(NOMINAL)
        mujoco.mj_step(model, data, nstep=400)
        return float(data.qpos[0])


class MJX:
    """MJX, MuJoCo in JAX, in the comparison of tools."""

    name, package = "MJX", "mujoco-mjx"
    cannot: ClassVar = {"turn": PLANS}

    def __init__(self):
        import jax
        from mujoco import mjx

        jax.config.update("jax_enable_x64", True)
        self.jax, self.mjx = jax, mjx
        four_bar = peers.mujoco_four_bar(NOMINAL, END / 400, peers.mjcf_softness(END / 400))
        self.model = mjx.put_model(four_bar, impl="jax")
        self.blank = mjx.make_data(self.model)

    def with_lengths(self, lengths):
        """Return the model with other lengths. Numbers that MuJoCo's compiler derives for soft constraints are kept."""
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
        """Permutation of the principal moments of inertia that MuJoCo's compiler chose for the nominal model."""
        own = np.asarray(self.model.body_inertia)
        bars = np.array([0.0, *NOMINAL[:3]])[:, None] ** 3 / 12 * [1e-6, 1.0, 1.0]
        return np.array([np.argmin(abs(b[None, :] - o[:, None]), axis=1) for b, o in zip(bars, own, strict=True)])

    def end(self, lengths, angles, steps, scan=False):
        """Return the crank's final angle of a fall; `steps` may be traced unless `scan`, which has a reverse mode."""
        model = self.with_lengths(lengths)
        model = model.replace(
            opt=model.opt.replace(timestep=END / steps),
            eq_solref=model.eq_solref.at[:, 0].set(peers.CONNECT_TIME_CONSTANT * END / steps),
        )
        step = lambda data, _: (self.mjx.step(model, data), None)
        data = self.blank.replace(qpos=angles)
        if scan:
            return self.jax.lax.scan(step, data, length=steps)[0].qpos[0]
        return self.jax.lax.fori_loop(0, steps, lambda _, data: step(data, None)[0], data).qpos[0]

    def fall(self):
        """Return accuracy runs of the fall of one four-bar by label."""
        jnp = self.jax.numpy
        one = self.jax.jit(self.end)

        def single(steps):
            """Return a function that simulates one fall and returns the crank's angle, and the number of motions, 1."""
            return (lambda: np.asarray(one(jnp.array(NOMINAL), problem.joint_angles(NOMINAL), steps))), 1

        # Batches of MJX are for GPUs; on one core they take minutes.
        return {"RK4, connect": accuracy_runs(single, WANTED["one"], DOUBLED[:4])}

    def slopes(self):
        """Measure the derivatives of the crank's final angle by the lengths, by reverse or else forward mode."""
        run = lambda lengths: self.end(lengths, self.joint_angles(lengths), 400, scan=True)
        lengths = self.jax.numpy.array(NOMINAL)
        function, how = self.jax.grad(run), "reverse mode"
        try:
            self.jax.jit(function).lower(lengths)
        except ValueError:  # MJX's solver is a while loop, without reverse mode
            function, how = self.jax.jacfwd(run), "forward mode; its solver has no reverse mode"
        compiled, seconds = timing.compile_function(function, lengths)
        call = lambda: self.jax.block_until_ready(compiled(lengths))
        return {"error": slope_error(call()), "ms": 1e3 * cpu_seconds(call, 3), "compile s": seconds, "how": how}

    def joint_angles(self, lengths):
        """Return the joint angles at the start, as `comparison_problem.joint_angles` does, for traced lengths."""
        import models

        start = models.four_bar_guess(dict(zip(problem.LENGTHS, lengths, strict=True)), START)
        crank, coupler, rocker = (start[name][2] for name in problem.LENGTHS[:3])
        return self.jax.numpy.stack([crank, coupler - crank, rocker])

    def chain(self):
        """Return the measurement of one chain."""
        import chains

        return chain(self.jax, peers.mjx_final_positions(chains.mujoco_model(2, LINKS), chains.STEPS), 1)

    @staticmethod
    def first():
        """Return the crank's final angle of one fall with everything needed for it, for the time of a first result."""
        tool = MJX()
        run = tool.jax.jit(lambda lengths, angles: tool.end(lengths, angles, 400))
        return float(run(tool.jax.numpy.array(NOMINAL), problem.joint_angles(NOMINAL)))


class Pinocchio:
    """Pinocchio in the comparison of tools: all loops in C++."""

    name, package = "Pinocchio", "pin"
    cannot: ClassVar = {"turn": PLANS}

    def __init__(self):
        import pinocchio  # noqa: F401

    def rollout(self):
        """Return the compiled function that simulates four-bars, as `reference_kernel.rollout_of` does."""
        import reference_kernel

        return reference_kernel.rollout_of(peers.pinocchio_library("pinocchio_four_bar.cpp"))

    @staticmethod
    def prepare(call, steps, lengths):
        """Return a function that simulates the falls and returns the crank's angles, and the number of motions."""
        lengths = np.atleast_2d(lengths)
        angles = np.array([problem.joint_angles(each) for each in lengths])
        design = dict(zip(problem.LENGTHS, lengths.T, strict=True))
        run = lambda: call(design, angles, np.zeros_like(angles), END / steps, steps)[0]
        return (lambda: run()[:CHECKED, 0]), len(lengths)

    def fall(self):
        """Return accuracy runs of the fall of one four-bar by label."""
        call = self.rollout()
        return {"RK4, C++": accuracy_runs(lambda n: self.prepare(call, n, NOMINAL), WANTED["one"])}

    def chain(self):
        """Return nanoseconds per step of the chain, and the error of its final angles."""
        import chains

        ns = chains.pinocchio_chain_row(2, LINKS, BATCH)["ns"]
        return {"ns": ns, "error": 0.0, "how": "C++; reference of the others"}

    def slopes(self):
        """Measure the derivatives of the crank's final angle by the lengths, by differences."""
        call = self.rollout()
        return differences(lambda lengths: float(self.prepare(call, 400, lengths)[0]()[0]))

    @staticmethod
    def first():
        """Return the crank's final angle of one fall with everything needed for it, for the time of a first result."""
        angles = problem.joint_angles(NOMINAL)
        acceleration = peers.pinocchio_four_bar(NOMINAL)
        return float(peers.runge_kutta(acceleration, angles, np.zeros_like(angles), END / 400, 400)[0])


class JaxSim:
    """JaxSim in the comparison of tools: only the chain, as it has no loops."""

    name, package = "JaxSim", "jaxsim"
    cannot: ClassVar = {"turn": WELDS, "fall": WELDS, "slopes": WELDS, "first": WELDS}

    def __init__(self):
        import jax

        jax.config.update("jax_enable_x64", True)
        import jaxsim.api as js

        self.jax, self.js = jax, js

    @staticmethod
    def sdf(lengths):
        """Return the SDF of the chain of `chains`, in the plane of x and z."""
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
        """Return the measurement of a batch of chains."""
        import chains

        model = self.js.model.JaxSimModel.build_from_model_description(
            self.sdf(chains.lengths_of(LINKS)),
            time_step=chains.STEP,
            gravity=problem.GRAVITY,
            integrator=self.js.model.IntegratorType.RungeKutta4,
        )

        def run(angles):
            """Return the final joint angles of a chain from those at the start."""
            data = self.js.data.JaxSimModelData.build(model, joint_positions=angles)
            step = lambda data, _: (self.js.model.step(model, data), None)
            return self.jax.lax.scan(step, data, length=chains.STEPS)[0].joint_positions

        return chain(self.jax, run, 256)
