"""Robot files of installed packages, and comparisons of what `load` makes of them with MuJoCo."""

import importlib.util
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs.forces.joint.stateful import AbstractStatefulForce
from jaxmbs.io.models.links.elements import elements_of
from jaxmbs.io.models.links.joints import BallTorque
from jaxmbs.io.models.links.passed_over import PassedOver
from jaxmbs.io.models.links.tree import from_quaternion
from jaxmbs.io.models.mjcf import initial_motion, read
from jaxmbs.io.models.mjcf.source import compile_file
from jaxmbs.io.models.mjcf.tendons import SiteTendon, linear_tendon
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.system.equations import residuals, state_of, velocity_forces

# Packages with MJCF files.
PACKAGES = ("gymnasium", "dm_control", "brax", "robosuite")
# Kinds of sentences about what was passed over that change masses or forces of a model.
INEXACT = ("actuator", "armature", "stiffness", "damping", "tendon", "plugin", "joint")


def mjcf_files(package):
    """Return the MJCF files of a package, () if it is not installed; see `mjcf_files_in`."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return ()
    return tuple(path for folder in map(Path, spec.submodule_search_locations) for path in mjcf_files_in(folder))


def mjcf_files_in(folder):
    """Return the MJCF files of a folder; those that only other files include are left out."""
    texts = {path: path.read_text(errors="replace") for path in sorted(folder.rglob("*.xml"))}
    return tuple(path for path, text in texts.items() if "<worldbody" in text and "<mujocoinclude" not in text)


def compiled(path):
    """Return the file as an `MjModel` with at least one body, None if it is not valid or not complete."""
    import mujoco

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            m = mujoco.MjSpec.from_file(str(path)).compile()
        except (ValueError, RuntimeError, mujoco.FatalError):
            return None
    return m if m.nbody > 1 and np.any(m.body_mass > 0) else None


def source_of(path, seed, reach=0.6):
    """Return the compiled file in a random state near the start, and its tree of elements."""
    import mujoco

    source = compile_file(mujoco, path, ReadOptions(), PassedOver())
    m, d, rng = source.m, source.d, np.random.default_rng(seed)
    links = [read._link(source, k) for k in range(1, m.nbody)]
    elements = elements_of(links, range_tag="range", single=read._joints_in_use(source))
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    m.opt.density = m.opt.viscosity = 0
    mujoco.mj_integratePos(m, d.qpos, rng.uniform(-reach, reach, m.nv), 1.0)
    d.qvel[:] = rng.normal(size=m.nv)
    mujoco.mj_forward(m, d)
    return source, elements


class Comparison:
    """Masses, forces and constraints of a model in a state of MuJoCo, along MuJoCo's velocities.

    Attributes:
        source: the compiled file, with its state.
        model: the model.
        q, v: configuration and velocities.
        by_rates: R (m, nv), with v = R qvel.
    """

    def __init__(self, path, model, seed=0, reach=0.6):
        (self.source, self.elements), self.model = source_of(path, seed, reach), model
        guess, _ = initial_motion.initial_motion(self.source, self.elements)
        m, d = self.source.m, self.source.d
        self.by_rates = np.zeros((model.layout.m, m.nv))
        for name, coupling in model.constraints.items():
            if coupling.extra:
                turns = [k for k, kind in enumerate(coupling.kinds) if kind == "angle"]
                rows = model.layout.entries(name, velocities=True)[0]
                guess[name] = np.zeros(len(turns))
                for row, k in enumerate(turns):
                    j = self._joint_between((coupling.i, coupling.j, *coupling.others)[2 * k : 2 * k + 2])
                    guess[name][row] = initial_motion.joint_state(self.source, j)[0]
                    self.by_rates[rows.start + row, m.jnt_dofadr[j]] = 1
        for k in range(m.ntendon):
            tendon, body = linear_tendon(self.source, k), f"{self.source.name('tendon', k)} length"
            if tendon is not None and body in model.bodies:
                row = model.layout.velocity_slices[body].start + 2
                for joint, ratio in zip(tendon.joints, tendon.ratios, strict=True):
                    self.by_rates[row, m.jnt_dofadr[self.source.joints.index(joint)]] = ratio
                guess[body] = np.array([0, 0, np.dot(tendon.ratios, tendon.start), 1, 0, 0, 0])
        self._add_bodies()
        self.q, self.v = np.asarray(model.coordinates(guess)), self.by_rates @ d.qvel

    def _joint_between(self, bodies):
        """Return the index of the joint of MuJoCo between two bodies of the model, the parent first."""
        for joint, link in self.elements.joints.items():
            if (link.parent, link.name) == tuple(bodies):
                return self.source.joints.index(joint)
        raise AssertionError(bodies)

    def _add_bodies(self):
        """Set the rows of R of all bodies, by Jacobians of MuJoCo; carriers stop after their joint."""
        import mujoco

        m, d = self.source.m, self.source.d
        chain = {link.name: link for link in self.elements.joints.values()}
        for name in self.elements.bodies:
            turned, count = np.zeros((2, 3, m.nv)), m.nv
            if name in self.source.bodies:
                k = self.source.bodies.index(name)
                mujoco.mj_jacBody(m, d, *turned, k)
                a = d.xmat[k].reshape(3, 3)
            else:
                j = self.source.joints.index(chain[name].primitives[0].name)
                k, count = int(m.jnt_bodyid[j]), int(m.jnt_dofadr[j]) + 1
                pose = self._pose(name)
                mujoco.mj_jac(m, d, *turned, pose[0], k)
                a = pose[1]
                own = slice(count, m.body_dofadr[k] + m.body_dofnum[k])
                turned[:, :, own] = 0
            rows = self.model.layout.velocity_slices[name]
            self.by_rates[rows] = np.concatenate([turned[0], a.T @ turned[1]])

    def _pose(self, name):
        """Return place and axes of a body that MuJoCo does not have."""
        guess, _ = initial_motion.initial_motion(self.source, self.elements)
        return guess[name][:3], from_quaternion(guess[name][3:])

    def constraint_gaps(self):
        """Return the largest |Φ| of the tree's joints, and the largest rate of Φ; loops are left out."""
        model, q = self.model, jnp.asarray(self.q)
        rate = np.asarray(model.layout.rate(q, jnp.asarray(self.v)))
        phi, phi_rate = jax.jvp(lambda q: residuals(model, q, 0.0), (q,), (jnp.asarray(rate),))
        rows = [
            k
            for name in (*self.elements.constraints, *(n for n in model.constraints if n.endswith(" coupling")))
            for k in range(model.layout.row_slices[name].start, model.layout.row_slices[name].stop)
        ]
        return np.abs(np.asarray(phi)[rows]).max(initial=0), np.abs(np.asarray(phi_rate)[rows]).max(initial=0)

    def equations(self):
        """Return M, with armatures, and the forces without M v̇, along MuJoCo's velocities."""
        model, q, v = self.model, jnp.asarray(self.q), jnp.asarray(self.v)
        state = state_of(model, q, v, jnp.zeros(()))
        mass = np.zeros((model.layout.m,) * 2)
        for name, body in model.bodies.items():
            own = model.layout.velocity_slices[name]
            mass[own, own] = np.asarray(body.mass_matrix(state.poses[name]))
        force = np.asarray(velocity_forces(model, q, v))
        armature = np.zeros_like(mass)
        for one in model.forces.values():
            if isinstance(one, mbs.JointInertia):
                push = np.asarray(state.along(one.joint).push)
                armature += float(one.inertia) * np.outer(push, push)
            elif not self._is_constraint(one):
                if isinstance(one, AbstractStatefulForce) and one.states:
                    one = eqx.tree_at(lambda f: f.own, one, jnp.array(one.start), is_leaf=lambda x: x is None)
                force = force + np.asarray(one.generalized(state))
        by_rates = self.by_rates
        return by_rates.T @ (mass + armature) @ by_rates, by_rates.T @ (force - mass @ self.drift())

    @staticmethod
    def _is_constraint(force):
        """Return True for a stop or dry friction, which MuJoCo has as constraints."""
        law = getattr(getattr(force, "f", None), "f", None) or getattr(force, "f", None)
        stop = isinstance(law, BallTorque) and np.isfinite(law.limit)
        stop = stop or (isinstance(law, SiteTendon) and np.isfinite(law.law.limits[1]))
        return stop or isinstance(force, mbs.JointStop | mbs.JointFriction)

    def drift(self):
        """Return Ṙ qvel (m,) of the bodies with mass."""
        import mujoco

        m, d = self.source.m, self.source.d
        drift = np.zeros(self.model.layout.m)
        for k, name in enumerate(self.source.bodies):
            if name in self.model.bodies and k:
                rates = np.zeros((2, 3, m.nv))
                mujoco.mj_jacDot(m, d, *rates, d.xpos[k], k)
                linear, angular = rates @ d.qvel
                own = self.model.layout.velocity_slices[name]
                drift[own] = np.concatenate([linear, d.xmat[k].reshape(3, 3).T @ angular])
        return drift

    def errors(self):
        """Return relative errors of the mass matrix and of the accelerations, and the largest gap of the constraints."""
        import mujoco

        m, d = self.source.m, self.source.d
        if not m.nv:
            return 0.0, 0.0, max(self.constraint_gaps())
        reference = np.zeros((m.nv, m.nv))
        mujoco.mj_fullM(m, d, reference)
        mass, force = self.equations()
        a = np.linalg.solve(mass, force)
        scale = max(np.abs(d.qacc).max(), 1.0)
        masses = np.abs(mass - reference).max() / np.abs(reference).max()
        return masses, np.abs(a - d.qacc).max() / scale, max(self.constraint_gaps())
