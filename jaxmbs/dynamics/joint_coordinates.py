"""Equations of motion in joint coordinates, by the velocity transformation; Issa and Arczewski 1998."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.dynamics.equations import AbstractEquations
from jaxmbs.dynamics.formulations import AbstractFormulation, CartesianEquations
from jaxmbs.element import GROUND
from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite
from jaxmbs.numerics.scaling import unit_of_length
from jaxmbs.system import joint_space
from jaxmbs.system.articulated import (
    Articulated,
    articulated,
    carried_wrenches,
    efforts,
    generalized_of,
    symmetric,
    wrench_of,
)
from jaxmbs.system.equations import applied_forces, masses, residual_of, uniform_acceleration
from jaxmbs.system.joint_space import JointSpace
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.recursion import forward, gathered, scattered


class JointCoordinates(AbstractFormulation):
    """Joint coordinates θ of a spanning tree, with a multiplier for each equation of the joints that are cut and of the
    drivers: RᵀMR θ̈ = Rᵀ(Q − MṘθ̇) + (Φ_q R)ᵀλ, Φ(q(θ), t) = 0; Issa and Arczewski (3.7).

    An open chain has no Φ: an ordinary differential equation, without gaps. Joints of the tree never open. Accelerations
    come by elimination of body after body, so the cost grows with the number of bodies, not with its cube.

    Args:
        base: see `topology.spanning_tree`. cut: names of joints to cut; by default those that leave the shortest paths.
    """

    base: str | tuple[str, ...] | None = eqx.field(static=True, default=None)
    cut: tuple[str, ...] = eqx.field(
        static=True, default=(), converter=lambda x: (x,) if isinstance(x, str) else tuple(x)
    )

    def equations(self, mech):
        return JointEquations(mech, joint_space.joint_space(mech, base=self.base, cut=self.cut, any_angle=True))


class JointEquations(AbstractEquations):
    """The equations of `JointCoordinates`."""

    mech: Mechanism
    joints: JointSpace = eqx.field(static=True)

    @property
    def space(self):
        return self.joints

    @property
    def _closing(self) -> dict:
        """The constraints that the tree does not satisfy by itself, then the drivers."""
        mech = self.mech
        return {**{name: mech.constraints[name] for name in self.joints.tree.cut}, **mech.drivers}

    @property
    def _count(self) -> int:
        return sum(element.rows for element in self._closing.values())

    @property
    def _light(self) -> bool:
        return any(any(body.massless) for body in self.mech.bodies.values())

    @property
    def _by_elimination(self) -> bool:
        """Whether RᵀMR is factored body by body: not where coordinates without inertia get one from the constraints."""
        return not self.joints.extra and not (self._light and self._count)

    # --- M, Q, Φ ---

    def mass(self, q):
        transformation = joint_space.transformation(self.mech, self.joints, q)
        matrix = transformation.T @ masses(self.mech, self._configuration(q)) @ transformation
        return symmetric(matrix)

    def force(self, q, v, t):
        return -self.imbalance(q, v, None, t)

    def imbalance(self, q, v, a, t):
        links = self._links(q, v, weight=True)
        twists = None if a is None else joint_space.spread(self.joints, links, a)
        load, extra = self._loads(links, q, v, t, twists)
        return -efforts(self.joints, links, load, extra)

    def residual(self, q, t):
        poses = joint_space.poses(self.mech, self.joints, q)
        return self._gaps(joint_space.coordinates_of(self.mech, self.joints, poses, q), t, poses)

    def _gaps(self, q, t, poses=None):
        """The residuals of what closes the tree, of the coordinates of bodies."""
        poses = self.mech.poses(q) if poses is None else poses
        rows = [residual_of(self.mech, name, element, q, t, poses) for name, element in self._closing.items()]
        return jnp.concatenate(rows) if rows else jnp.zeros(0, q.dtype)

    def _configuration(self, q):
        return joint_space.configuration(self.mech, self.joints, q)

    @property
    def supporting(self):
        sizes = [(element.rows, self._light or bool(element.extra)) for element in self._closing.values()]
        ends = np.cumsum([0, *(rows for rows, _ in sizes)])
        chosen = [np.arange(a, a + rows) for a, (rows, needed) in zip(ends, sizes, strict=False) if needed]
        return np.concatenate([*chosen, np.zeros(0, int)]).astype(int)

    @property
    def definite(self):
        return not self._light

    def length(self, q, t):
        at, layout = self._configuration(q), self.mech.layout
        return unit_of_length(jacobian(self._gaps, layout, at, t), layout.extent(at), layout.angular)

    @property
    def weight(self):
        return CartesianEquations(self.mech).weight

    # --- the state of the bodies ---

    def from_bodies(self, q, v):
        mech, space = self.mech, self.joints
        theta = joint_space.measured(mech, space, q)
        links = self._links(theta, self.still(theta))
        extra = v[v.shape[0] - len(space.extra) :]
        momentum = self._momenta(links, v)
        if self._by_elimination:
            return theta, self._articulated(links).solve(momentum)
        # What has no inertia takes no part, but extra coordinates keep their velocities.
        mass, rates = self.mass(theta), efforts(space, links, momentum, extra)
        mass = mass.at[space.m - len(space.extra) :, space.m - len(space.extra) :].add(jnp.eye(len(space.extra)))
        return theta, factor_symmetric_semidefinite(mass).solve(rates)

    def to_bodies(self, q, v, a):
        links = self._links(q, v)
        return (*self._bodies(links, q, v), self._drifts(links) + self._velocities(links, a))

    def multipliers(self, q, v, t):
        a = self.accelerations(q, v, t)[0]
        if not self._count:
            return self._multipliers_of_tree(q, v, a, t)
        q, v, a = self.to_bodies(q, v, a)
        return CartesianEquations(self.mech).multipliers_of(q, v, a, t)

    def _multipliers_of_tree(self, q, v, a, t):
        """λ of the joints, each from the wrench that it passes on to all that it carries."""
        mech, space = self.mech, self.joints
        links = self._links(q, v, weight=True)
        loads, _ = self._loads(links, q, v, t, joint_space.spread(space, links, a))
        wrenches = carried_wrenches(space, links, loads)
        given = list(zip(joint_space.gathered_edges(mech, space), links, wrenches, strict=True))
        ground = mech.layout.pose(GROUND, q)
        step = lambda parent, x: (x[1].motion.pose, _multipliers(*x, parent, t))
        found = forward(space.runs, step, ground, given, lambda y: y[0])
        each = scattered(space.runs, [multipliers for _, multipliers in found])
        named = dict(zip(space.tree.joints, each, strict=True))
        return jnp.concatenate([*(named[name] for name in mech.constraints if name in named), jnp.zeros(0, q.dtype)])

    def _links(self, q, v, *, weight: bool = False) -> list:
        gravity = uniform_acceleration(self.mech) if weight else None
        return joint_space.links(self.mech, self.joints, q, v, gravity)

    def _bodies(self, links, q, v):
        """Coordinates and velocities of the bodies."""
        each = scattered(self.joints.runs, links)
        poses = {body: link.motion.pose for body, link in zip(self.joints.tree.bodies, each, strict=True)}
        speeds = [joint_space.body_velocity(link.motion, link.motion.twist) for link in each]
        at = joint_space.coordinates_of(self.mech, self.joints, poses, q)
        return at, joint_space.of_bodies(self.mech, self.joints, speeds, v)

    def _drifts(self, links):
        """Ṙ θ̇."""
        each = scattered(self.joints.runs, links)
        parts = [joint_space.body_drift(link.motion) for link in each]
        return joint_space.of_bodies(self.mech, self.joints, parts, jnp.zeros(self.joints.m, parts[0].dtype))

    def _velocities(self, links, rates):
        return joint_space.velocities(self.mech, self.joints, links, rates)

    # --- body by body ---

    def _articulated(self, links) -> Articulated:
        return articulated(self.mech, self.joints, links, definite=not self._light)

    def _loads(self, links, q, v, t, twists=None):
        """Q − M (Ṙ θ̇ + what is given as twists) as wrenches, and Q of the extra coordinates."""
        mech, space, extra = self.mech, self.joints, jnp.zeros(len(self.joints.extra), q.dtype)
        forces = [None] * len(space.runs)
        if any(force.uniform is None for force in mech.forces.values()):
            applied = applied_forces(mech, *self._bodies(links, q, v), t, uniform=False)
            extra, forces = applied[applied.shape[0] - extra.size :], self._of_runs(applied)
        twists = [None] * len(space.runs) if twists is None else twists
        given = zip(space.runs, joint_space.gathered_edges(mech, space), links, forces, twists, strict=True)
        return [(jax.vmap(_load) if run.loop else _load)(*x) for run, *x in given], extra

    def _momenta(self, links, v):
        """M v as wrenches."""
        edges = joint_space.gathered_edges(self.mech, self.joints)
        given = zip(self.joints.runs, edges, links, self._of_runs(v), strict=True)
        return [(jax.vmap(_momentum) if run.loop else _momentum)(*x) for run, *x in given]

    def _of_runs(self, v):
        """A vector like v as things of the runs."""
        slices = self.mech.layout.velocity_slices
        return gathered(self.joints.runs, [v[slices[name]] for name in self.joints.tree.bodies])

    def _jacobian(self, links, q, t):
        """Φ_q R, from the coordinates of the bodies."""
        space = self.joints
        by_bodies = jacobian(self._gaps, self.mech.layout, q, t)

        def row(gradient):
            extra = gradient[gradient.shape[0] - len(space.extra) :]
            loads = zip(space.runs, links, self._of_runs(gradient), strict=True)
            return efforts(space, links, [_wrenches(run, *x) for run, *x in loads], extra)

        return jax.vmap(row)(by_bodies) if self._count else jnp.zeros((0, space.m), q.dtype)

    def jacobian(self, q, t):
        return self._jacobian(self._links(q, self.still(q)), self._configuration(q), t)

    def velocity_gap(self, q, v, t):
        at, speeds = self._bodies(self._links(q, v), q, v)
        return rate(self._gaps, self.mech.layout, at, speeds, t)

    def accelerations(self, q, v, t, correction=0.0, floor=None):
        if not self._by_elimination:
            return super().accelerations(q, v, t, correction, floor)
        links = self._links(q, v, weight=True)
        inertia = self._articulated(links)
        free = inertia.solve(self._loads(links, q, v, t)[0])
        if not self._count:
            return free, jnp.zeros(0, q.dtype), jnp.ones(0, q.dtype)
        at, speeds = self._bodies(links, q, v)
        # γ with v̇ = R θ̈ + Ṙ θ̇.
        drifts = self._drifts(self._links(q, v))
        gamma = -second_rate(self._gaps, self.mech.layout, at, speeds, drifts, t) + correction
        phi_q = self._jacobian(links, at, t)
        by_multipliers = inertia.solve(forces=phi_q.T)
        schur = factor_symmetric_semidefinite(phi_q @ by_multipliers, floor)
        multipliers = schur.solve(gamma - phi_q @ free)
        return free + by_multipliers @ multipliers, multipliers, schur.kept

    def metric(self, q, t):
        if not self._by_elimination:
            return super().metric(q, t)
        inertia = self._articulated(self._links(q, self.still(q)))
        return lambda x: inertia.solve(forces=x)

    def close_velocity(self, q, v, t, floor=None):
        if not self._count:
            return v
        if not self._by_elimination:
            return super().close_velocity(q, v, t, floor)
        return self.close_velocity_along(q, v, t, self.metric(q, t), floor)


@jax.jit
def _load(edge, link, force, twist):
    """Q − M v̇ with what comes of velocities, as a wrench; v̇ is Ṙ θ̇, and the rest is given as a twist."""
    motion, body = link.motion, edge.body
    acceleration = joint_space.body_drift(motion)
    if twist is not None:
        acceleration = acceleration + joint_space.body_velocity(motion, twist)
    speed = joint_space.body_velocity(motion, motion.twist)
    load = body.velocity_force(motion.pose, speed) - body.mass_matrix(motion.pose) @ acceleration
    return wrench_of(link, load if force is None else load + force)


@jax.jit
def _momentum(edge, link, velocity):
    return wrench_of(link, edge.body.mass_matrix(link.motion.pose) @ velocity)


@jax.jit
def _multipliers(edge, link, wrench, parent, t):
    """λ of a joint that does a wrench to the body it carries: less what the joint lets go, which is zero."""
    kind, pose, joint = type(edge.body), link.motion.pose, edge.joint
    if isinstance(joint, joint_space.Floating):
        return jnp.zeros(0, wrench.dtype)
    q = kind.coordinates_of(pose)

    def residual(d):
        moved = kind.pose(q + kind.manifold.rate(q, d))
        return joint.residual(*((moved, parent) if edge.reverse else (parent, moved)), t)

    phi_q = jax.jacfwd(residual)(jnp.zeros_like(wrench))
    return factor_symmetric_positive(phi_q @ phi_q.T).solve(phi_q @ generalized_of(link, -wrench))


def _wrenches(run, link, generalized):
    return jax.vmap(wrench_of)(link, generalized) if run.loop else wrench_of(link, generalized)
