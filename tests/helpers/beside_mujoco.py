"""Masses, forces and accelerations of models from MJCF files beside those of MuJoCo."""

import mujoco
import numpy as np

from equations_by_rates import Equations, Motion, rate_in_time
from jaxmbs.io.models.links.passed_over import PassedOver
from jaxmbs.io.models.links.tree import from_quaternion
from jaxmbs.io.models.mjcf import initial_motion, read
from jaxmbs.io.models.mjcf.source import compile_file
from jaxmbs.io.models.mjcf.tendons import add_tendons, linear_tendon
from jaxmbs.io.models.options import ReadOptions

# Loops count as closed if no row of MuJoCo's equalities is larger.
MAX_GAP = 1e-13
# Largest number of Newton iterations that close loops.
MAX_ITERATIONS = 60
# Smallest share of the random displacement from which loops are closed.
MIN_SHARE = 1e-3
# Polynomials of springs and dampers, of which only the linear coefficients are read.
POLYNOMIALS = ("jnt_stiffnesspoly", "jnt_springyield", "dof_dampingpoly", "tendon_stiffnesspoly", "tendon_dampingpoly")


class Comparison:
    """A model in a random state of MuJoCo near the start, along MuJoCo's velocities.

    Contacts, stops, dry friction, fluids and all elements that `load` passes over are left out on both sides.

    Args:
        path: the file.
        model: the model that `load` makes of it.
        seed: of the state.
        reach: largest displacement of each joint from the start, in radians or units of length.
        closed: if True, equalities hold exactly on both sides; otherwise they are left out on both sides.

    Attributes:
        source: the compiled file, with its state.
        elements: elements of the tree.
        slides: names of the slides of fixed tendons, by index.
        model: the model.
        q, v: configuration and velocities.
        by_rates: R (m, nv), with v = R qvel.
    """

    def __init__(self, path, model, seed=0, reach=0.6, closed=False):
        self.model, self.source = model, compile_file(mujoco, path, ReadOptions(), PassedOver())
        m, d, rng = self.source.m, self.source.d, np.random.default_rng(seed)
        # This one reports what is passed over; the other one has the tree alone.
        read.elements_in(self.source)
        self.elements = read.tree_in(self.source)
        self.slides = add_tendons(self.source, read.tree_in(self.source), {}, {})
        self._leave_out(closed)
        displacement, start = rng.uniform(-reach, reach, m.nv), d.qpos.copy()
        mujoco.mj_integratePos(m, d.qpos, displacement, 1.0)
        d.qvel[:] = rng.normal(size=m.nv)
        if closed:
            self._close(start, displacement)
        mujoco.mj_forward(m, d)
        self.q, self.by_rates = self._configuration(), self._by_rates()
        self.v = self.by_rates @ d.qvel

    def errors(self):
        """Return relative errors of the mass matrix and of the accelerations, and the largest gap of the constraints."""
        m, d = self.source.m, self.source.d
        if not m.nv:
            return 0.0, 0.0, self.tree_gap()
        mass, force = self.equations()
        reference = self._mass()
        a = np.linalg.solve(mass, force)
        masses = np.abs(mass - reference).max() / np.abs(reference).max()
        return masses, np.abs(a - d.qacc).max() / max(np.abs(d.qacc).max(), 1.0), self.tree_gap()

    def closed_errors(self):
        """Return the differences of all equations, with loops closed exactly on both sides, as `Errors`."""
        drift = rate_in_time(lambda t: self._along(t, self._by_rates) @ self.source.d.qvel)
        return Motion(self.model, self.q, self.v, self.by_rates, drift).errors(self.reference())

    def reference(self):
        """Return MuJoCo's `Equations`; J̇ comes from differences along the motion."""
        d, (rows, _) = self.source.d, self._equalities()
        rates = rate_in_time(lambda t: self._along(t, self._equalities)[0])
        return Equations(self._mass(), np.array(d.qfrc_smooth), rows, -rates @ d.qvel)

    def equations(self):
        """Return M, with armatures, and the forces without M v̇, along MuJoCo's velocities."""
        return Motion(self.model, self.q, self.v, self.by_rates, self.drift()).masses_and_forces()

    def tree_gap(self):
        """Return the largest |Φ| of the tree's joints, or rate of Φ; loops are left out."""
        slices = self.model.layout.row_slices
        names = (*self.elements.constraints, *(n for n in self.model.constraints if n.endswith(" coupling")))
        rows = [k for name in names for k in range(slices[name].start, slices[name].stop)]
        motion = Motion(self.model, self.q, self.v, self.by_rates, np.zeros_like(self.v))
        return max(np.abs(rate[rows]).max(initial=0) for rate in motion.constraints(motion.drift)[:2])

    def drift(self):
        """Return Ṙ qvel (m,) of the bodies with mass."""
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

    def _leave_out(self, closed):
        """Take out of MuJoCo's model all forces that this one does not have."""
        m, bits = self.source.m, mujoco.mjtDisableBit
        features = ("CONTACT", "LIMIT", "FRICTIONLOSS") if closed else ("CONSTRAINT",)
        for name in features:
            m.opt.disableflags |= int(getattr(bits, f"mjDSBL_{name}"))
        m.opt.jacobian = int(mujoco.mjtJacobian.mjJAC_DENSE)
        m.opt.density = m.opt.viscosity = 0
        for field in POLYNOMIALS:
            getattr(m, field, np.zeros(1))[:] = 0
        found = self.source.passed_over._found.items()
        passed_over = {(tag, element) for (tag, _), elements in found for element, _ in elements}
        for k in range(len(m.actuator_trntype)):
            if ("actuator", repr(self.source.name("actuator", k))) in passed_over:
                m.actuator_gainprm[k] = m.actuator_biasprm[k] = 0
        for j, name in enumerate(self.source.joints):
            if ("armature", f"joint {name!r}") in passed_over:
                own = np.flatnonzero(m.dof_jntid == j)
                # Masses of bodies that turn about their centres of mass are computed beforehand.
                m.dof_M0[own] -= m.dof_armature[own]
                m.dof_armature[own] = 0
        for k in range(m.ntendon):
            if ("tendon", repr(self.source.name("tendon", k))) in passed_over:
                m.tendon_stiffness[k] = m.tendon_damping[k] = 0

    def _close(self, start, displacement):
        """Change the configuration and the velocities so that they satisfy the equalities."""
        m, d, share = self.source.m, self.source.d, 1.0
        while not self._is_closed():
            share /= 2
            if share < MIN_SHARE:
                raise AssertionError("the loops do not close")
            d.qpos[:] = start
            mujoco.mj_integratePos(m, d.qpos, share * displacement, 1.0)
        rows, _ = self._equalities()
        d.qvel[:] -= np.linalg.pinv(rows, 1e-9) @ (rows @ d.qvel)

    def _is_closed(self):
        """Close the loops by Newton's method from the present configuration; return False if that fails."""
        for _ in range(MAX_ITERATIONS):
            rows, gaps = self._equalities()
            if np.abs(gaps).max(initial=0) < MAX_GAP:
                return True
            step = -np.linalg.pinv(rows, 1e-9) @ gaps
            mujoco.mj_integratePos(self.source.m, self.source.d.qpos, step / max(1, np.abs(step).max()), 1.0)
        return False

    def _equalities(self):
        """Return the Jacobian (rows, nv) and the values (rows,) of the equalities in the present configuration."""
        m, d = self.source.m, self.source.d
        mujoco.mj_fwdPosition(m, d)
        rows = d.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        return d.efc_J.reshape(len(rows), m.nv)[rows].copy(), d.efc_pos[rows].copy()

    def _along(self, t, f):
        """Return f() after the time t, as if the velocities stayed as they are."""
        m, d, before = self.source.m, self.source.d, self.source.d.qpos.copy()
        mujoco.mj_integratePos(m, d.qpos, d.qvel, t)
        mujoco.mj_fwdPosition(m, d)
        found = f()
        d.qpos[:] = before
        mujoco.mj_fwdPosition(m, d)
        return found

    def _mass(self):
        """Return MuJoCo's mass matrix (nv, nv)."""
        m, d = self.source.m, self.source.d
        found = np.zeros((m.nv, m.nv))
        mujoco.mj_fullM(m, d, found)
        return found

    def _configuration(self):
        """Return q."""
        model = self.model
        guess, _ = initial_motion.initial_motion(self.source, self.elements)
        for name, joints in self._couplings():
            guess[name] = np.array([initial_motion.joint_state(self.source, j)[0] for j in joints])
        for tendon, body in self._tendons():
            x = [initial_motion.joint_state(self.source, self.source.joints.index(joint))[0] for joint in tendon.joints]
            guess[body] = np.array([0, 0, np.dot(tendon.ratios, x), 1, 0, 0, 0])
        return np.asarray(model.coordinates(guess))

    def _by_rates(self):
        """Return R, with Jacobians of MuJoCo for the bodies; carriers stop after their joint."""
        m, d, layout = self.source.m, self.source.d, self.model.layout
        found = np.zeros((layout.m, m.nv))
        guess, _ = initial_motion.initial_motion(self.source, self.elements)
        for name, joints in self._couplings():
            own = layout.entries(name, velocities=True)[0]
            for row, j in zip(range(own.start, own.stop), joints, strict=True):
                found[row, m.jnt_dofadr[j]] = 1
        for tendon, body in self._tendons():
            for joint, ratio in zip(tendon.joints, tendon.ratios, strict=True):
                found[layout.velocity_slices[body].start + 2, m.jnt_dofadr[self.source.joints.index(joint)]] = ratio
        chain = {link.name: link for link in self.elements.joints.values()}
        for name in self.elements.bodies:
            turned, count = np.zeros((2, 3, m.nv)), m.nv
            if name in self.source.bodies:
                k = self.source.bodies.index(name)
                mujoco.mj_jacBody(m, d, *turned, k)
                a = d.xmat[k].reshape(3, 3)
            else:
                j = self.source.joints.index(chain[name].primitives[0].name)
                k, count = int(m.jnt_bodyid[j]), int(m.jnt_dofadr[j] + np.count_nonzero(m.dof_jntid == j))
                a = from_quaternion(guess[name][3:])
                mujoco.mj_jac(m, d, *turned, guess[name][:3], k)
                own = slice(count, m.body_dofadr[k] + m.body_dofnum[k])
                turned[:, :, own] = 0
            found[layout.velocity_slices[name]] = np.concatenate([turned[0], a.T @ turned[1]])
        return found

    def _couplings(self):
        """Yield the name of each coupling of angles, and the indices of the joints of these."""
        for name, coupling in self.model.constraints.items():
            if coupling.extra:
                bodies, turns = (coupling.i, coupling.j, *coupling.others), enumerate(coupling.kinds)
                yield name, [self._joint_between(bodies[2 * k : 2 * k + 2]) for k, kind in turns if kind == "angle"]

    def _tendons(self):
        """Yield each fixed tendon with a slide of its own, and the name of the body of this slide."""
        for k, name in self.slides.items():
            yield linear_tendon(self.source, k), f"{name} length"

    def _joint_between(self, bodies):
        """Return the index of the joint of MuJoCo between two bodies of the model, the parent first."""
        for joint, link in self.elements.joints.items():
            if (link.parent, link.name) == tuple(bodies):
                return self.source.joints.index(joint)
        raise AssertionError(bodies)
