"""Tools of the benchmark of closed loops that are made for GPUs: MuJoCo Warp and Newton; see `tools`.

Written from the interfaces of these packages and never run by the authors.
"""

import numpy as np

from benchmarks.loops import export
from benchmarks.loops.tools import (
    ANY_BATCH,
    MUJOCO_TIME_CONSTANT_STEPS,
    doubled,
    factors,
    joint_turns,
    rotation_matrix,
    stiff_model,
)


class Warp:
    """MuJoCo Warp: the model of MuJoCo on a GPU, in float32."""

    tool, package, largest_batch = "MuJoCo Warp", "mujoco-warp", ANY_BATCH
    platform = "gpu"
    settings = f"RK4, equalities with a time constant of {MUJOCO_TIME_CONSTANT_STEPS} steps, float32"
    step_counts = doubled(25, 8)

    def __init__(self, name: str):
        import mujoco_warp
        import warp

        self.warp, self.mujoco_warp, self.name, self.facts = warp, mujoco_warp, name, export.facts(name)

    def prepare(self, steps, batch):
        """Return a function that simulates a batch and returns the poses of the first sample at the end."""
        import mujoco

        model = stiff_model(self.name, steps, "RK4")
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        ids = [model.body(body).id for body in self.facts["bodies"]]
        on_device, worlds = self.mujoco_warp.put_model(model), self.mujoco_warp.put_data(model, data, nworld=batch)
        qpos, qvel = np.tile(model.key_qpos[0], (batch, 1)), model.key_qvel[0] * factors(batch)
        self.mujoco_warp.step(on_device, worlds)  # compiles the kernels
        graph = None
        if self.warp.get_device().is_cuda:
            with self.warp.ScopedCapture() as capture:
                self.mujoco_warp.step(on_device, worlds)
            graph = capture.graph

        def run():
            """Return the poses of the first sample at the end."""
            worlds.qpos.assign(qpos.astype(np.float32))
            worlds.qvel.assign(qvel.astype(np.float32))
            worlds.qacc_warmstart.zero_()
            for _ in range(steps):
                if graph is None:
                    self.mujoco_warp.step(on_device, worlds)
                else:
                    self.warp.capture_launch(graph)
            self.mujoco_warp.kinematics(on_device, worlds)
            return np.hstack([worlds.xpos.numpy()[0][ids], worlds.xquat.numpy()[0][ids]])

        return run


class Kamino:
    """Newton with its solver Kamino: bodies with constraints of all joints, in float32."""

    tool, package, largest_batch = "Newton", "newton", ANY_BATCH
    platform = "gpu"
    settings = "Kamino with its default settings, float32"
    step_counts = doubled(50, 8)

    def __init__(self, name: str):
        import newton
        import warp

        self.newton, self.warp, self.facts = newton, warp, export.facts(name)

    def prepare(self, steps, batch):
        """Return a function that simulates a batch and returns the poses of the first sample at the end."""
        facts, builder = self.facts, self.newton.ModelBuilder()
        one = self._builder()
        for _ in range(batch):
            builder.add_world(one)
        model = builder.finalize(skip_validation_joints=True)
        solver, dt = self.newton.solvers.SolverKamino(model), facts["end"] / steps
        poses, velocities = np.array(facts["poses"]), np.array(facts["velocities"])
        spins = [rotation_matrix(pose[3:]) @ v[3:] for pose, v in zip(poses, velocities, strict=True)]
        rates = np.hstack([velocities[:, :3], spins])
        body_q = np.tile(poses[:, [0, 1, 2, 4, 5, 6, 3]], (batch, 1)).astype(np.float32)
        body_qd = np.concatenate([factor * rates for factor in factors(batch)[:, 0]]).astype(np.float32)
        control = model.control()

        def run():
            """Return the poses of the first sample at the end."""
            now, after = model.state(), model.state()
            now.body_q.assign(body_q)
            now.body_qd.assign(body_qd)
            for _ in range(steps):
                now.clear_forces()
                solver.step(now, after, control, None, dt)
                now, after = after, now
            return now.body_q.numpy()[: len(facts["bodies"])][:, [0, 1, 2, 6, 3, 4, 5]]

        return run

    def _builder(self):
        """Return the builder of one mechanism, with a joint for each joint."""
        wp, facts = self.warp, self.facts
        builder, links = self.newton.ModelBuilder(up_axis=self.newton.Axis.Z), {"ground": -1}
        for (body, numbers), pose in zip(facts["bodies"].items(), facts["poses"], strict=True):
            place = wp.transform(wp.vec3(*pose[:3]), wp.quat(*pose[4:], pose[3]))
            inertia = wp.mat33(*np.diag(numbers["inertia"]).ravel().tolist())
            links[body] = builder.add_link(xform=place, mass=numbers["mass"], inertia=inertia, label=body)
        config = self.newton.ModelBuilder.JointDofConfig
        for name, joint in facts["joints"].items():
            turns = [np.eye(3)] * 2 if joint["kind"] == "Spherical" else joint_turns(facts, joint)
            ends = [
                wp.transform(wp.vec3(*joint[f"point_{end}"]), wp.quat_from_matrix(wp.mat33(*turn.ravel().tolist())))
                for end, turn in zip("ij", turns, strict=True)
            ]
            where = {"parent_xform": ends[0], "child_xform": ends[1], "label": name}
            pair = links[joint["i"]], links[joint["j"]]
            if joint["kind"] == "Spherical":
                builder.add_joint_ball(*pair, **where)
            elif joint["kind"] == "Revolute":
                builder.add_joint_revolute(*pair, axis=(0.0, 0.0, 1.0), **where)
            elif joint["kind"] == "Prismatic":
                builder.add_joint_prismatic(*pair, axis=(0.0, 0.0, 1.0), **where)
            else:
                arms = [config(axis=(1.0, 0.0, 0.0)), config(axis=(0.0, 1.0, 0.0))]
                builder.add_joint_d6(*pair, angular_axes=arms, **where)
        return builder
