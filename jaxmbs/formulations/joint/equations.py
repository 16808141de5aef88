"""Equations of motion in joint coordinates, by the velocity transformation; Issa and Arczewski 1998."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND
from jaxmbs.formulations.augmented import AbstractFormulation, CartesianEquations
from jaxmbs.formulations.equations import AbstractEquations, Closed, Scales
from jaxmbs.formulations.joint import space as joint_space
from jaxmbs.formulations.joint.articulated import (
    Articulated,
    articulated,
    articulated_and_solved,
    carried_wrenches,
    efforts,
    generalized_of,
    symmetric,
    wrench_of,
)
from jaxmbs.formulations.joint.balance import Loop, momentum, tree_gap
from jaxmbs.formulations.joint.forms import FREED
from jaxmbs.formulations.joint.recursion import forward, gathered, scattered
from jaxmbs.formulations.joint.space import JointTree, mapped
from jaxmbs.formulations.joint.transformation import JointView
from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite
from jaxmbs.numerics.roots import implicit_solution, simplified_newton
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.system.equations import applied_forces, masses, residual_of, uniform_acceleration
from jaxmbs.system.mechanism import Mechanism


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
        space = joint_space.joint_space(mech, base=self.base, cut=self.cut, any_angle=True)
        return JointEquations(mech, joint_space.joint_tree(mech, space))

    def of(self, mech: Mechanism) -> JointView:
        """A mechanism in these coordinates: names, θ(q), θ̇(v), q(θ), R and Ṙ."""
        return JointView(mech, joint_space.joint_space(mech, base=self.base, cut=self.cut))


class JointEquations(AbstractEquations):
    """The equations of `JointCoordinates`."""

    mech: Mechanism
    tree: JointTree
    _pivots: Float[Array, " rows"] | None = None

    @property
    def space(self):
        return self.tree.space

    @property
    def _closing(self) -> dict:
        """The constraints that the tree does not satisfy by itself, then the drivers that prescribe none of its joints'
        coordinates."""
        mech, tree, forms = self.mech, self.space.tree, self.space.forms
        held = {joint for joint, form in zip(tree.joints, forms, strict=True) if form.kind not in FREED}
        held |= {name for form in forms for name in form.drivers}
        return {name: element for name, element in {**mech.constraints, **mech.drivers}.items() if name not in held}

    @property
    def _count(self) -> int:
        return sum(element.rows for element in self._closing.values())

    @property
    def _light(self) -> bool:
        return any(any(body.massless) for body in self.mech.bodies.values())

    @property
    def _by_elimination(self) -> bool:
        """Whether RᵀMR is factored body by body: not where coordinates without inertia get one from the constraints."""
        return not self.space.extra and not (self._light and self._count)

    def mass(self, q, t):
        transformation = joint_space.transformation(self.tree.at(t), q)
        matrix = transformation.T @ masses(self.mech, self._configuration(q, t)) @ transformation
        return symmetric(matrix)

    def force(self, q, v, t):
        return -self.imbalance(q, v, None, t)

    def imbalance(self, q, v, a, t):
        links, loads, extra = self._loaded(q, v, t)
        if a is not None:
            rates = zip(loads, self._inertial(links, joint_space.spread(self.tree, links, a)), strict=True)
            loads = [load - inertial for load, inertial in rates]
        return -efforts(self.space, links, loads, extra)

    def residual(self, q, t):
        poses = joint_space.poses(self.tree.at(t), q)
        return self._gaps(joint_space.coordinates_of(self.tree, poses, q), t, poses)

    def _gaps(self, q, t, poses=None):
        """The residuals of what closes the tree, of the coordinates of bodies."""
        poses = self.mech.poses(q) if poses is None else poses
        rows = [residual_of(self.mech, name, element, q, t, poses) for name, element in self._closing.items()]
        return jnp.concatenate(rows) if rows else jnp.zeros(0, q.dtype)

    def _configuration(self, q, t):
        return joint_space.configuration(self.tree.at(t), q)

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
        at, layout = self._configuration(q, t), self.mech.layout
        return unit_of_length(self._by_bodies(at, t), layout.extent(at), layout.angular)

    def scales(self, q, t):
        # Rows by bodies: what R leaves of one may be nothing, or nothing but rounding.
        length, at = self.length(q, t), self._configuration(q, t)
        rows = Units(self.mech.layout.angular, length).rows(self._by_bodies(at, t))
        return Scales(length, rows, self.pivots(q, t))

    def judged_by(self, scales):
        return JointEquations(self.mech, self.tree, scales.pivots)

    def pivots(self, q, t):
        if self._pivots is not None or not self._count:
            return self._pivots
        phi_q, vectors, layout = self.jacobian(q, t), self._vectors.astype(q.dtype), self.mech.layout
        by_bodies = self._by_bodies(self._configuration(q, t), t)
        transformation = joint_space.transformation(self.tree.at(t), q)
        # As if velocities that a joint gives to a body were parallel to those by which the body changes a row.
        uncancelled = jnp.sqrt(by_bodies**2 @ vectors) @ jnp.sqrt(vectors.T @ transformation**2)
        arm = jnp.max(jnp.abs(transformation[~layout.angular][:, self.angular]), initial=0)
        units = Units(self.angular, jnp.where(arm > 0, arm, 1)).vector
        whole, left = (jnp.max(jnp.abs(rows * units[None, :]), axis=1) for rows in (uncancelled, phi_q))
        # Of a row that vanishes not even the direction is known: any will do.
        vanishes = left <= jnp.finfo(q.dtype).eps ** 0.5 * whole
        rows = jnp.where(vanishes[:, None], whole[:, None] / units[None, :], phi_q)
        growth = jnp.where(vanishes, 1, whole / jnp.where(vanishes, 1, left))
        return growth**2 * jnp.sum(rows * self.metric(q, t)(rows.T).T, axis=1)

    @property
    def _vectors(self) -> np.ndarray:
        """(m, vectors) 1 where a component of the bodies' v belongs to a velocity, angular velocity, or extra rate."""
        layout = self.mech.layout
        owner = np.arange(layout.m)
        for name in self.mech.bodies:
            owner[layout.velocity_slices[name]] = layout.velocity_slices[name].start
        chosen = owner + layout.m * layout.angular
        return (chosen[:, None] == np.unique(chosen)).astype(int)

    def _by_bodies(self, q, t):
        """Φ_q by the coordinates of the bodies."""
        layout = self.mech.layout
        return jacobian(self._gaps, layout, q, t) if self._count else jnp.zeros((0, layout.m), q.dtype)

    @property
    def weight(self):
        return CartesianEquations(self.mech).weight

    def from_bodies(self, q, v, t):
        # Where joints of the tree are open their own measures are no more than a start.
        theta = joint_space.measured(self.tree.at(t), q)
        still = self.still(theta)
        links = self._links(theta, still, t)
        away = self.mech.layout.difference(self._bodies(links, theta, still)[0], q)
        # Where the coordinates are singular no rate is the nearest, and the start is not corrected.
        singular = self.singular(*jax.lax.stop_gradient((theta, still)), t, jnp.zeros_like(t))
        theta = self.space.retract(theta, jnp.where(singular, still, self._nearest(theta, links, away, t)))
        return theta, jnp.where(singular, still, self._nearest_rate(theta, v, t))

    def _nearest_rate(self, theta, v, t):
        """θ̇ such that bodies move as near to v as can be, in the sense of M."""
        links = self._links(theta, self.still(theta), t)
        return self._nearest(theta, links, v - self._bodies(links, theta, self.still(theta))[1], t)

    def _nearest(self, theta, links, v, t):
        """θ̇ with R θ̇ nearest to v in the sense of M: RᵀMR θ̇ = RᵀM v."""
        space = self.space
        if not (self._light or space.extra):
            momenta = mapped(space.runs, momentum, self.tree.edges, links, self._of_runs(v))
            return articulated_and_solved(self.tree, links, momenta)[1]
        # What has no inertia is given some: its velocities count as well.
        bodies = [massless for body in self.mech.bodies.values() for massless in body.massless]
        none = np.array(bodies + [True] * len(space.extra))
        mass = masses(self.mech, self._bodies(links, theta, self.still(theta))[0]) + jnp.diag(none * self.weight)
        transformation = joint_space.transformation(self.tree.at(t), theta)
        matrix = symmetric(transformation.T @ mass @ transformation)
        return factor_symmetric_positive(matrix).solve(transformation.T @ (mass @ v))

    def to_bodies(self, q, v, a, t):
        links = self._links(q, v, t)
        drifts = self._drifts(links)
        return (*self._bodies(links, q, v), drifts + joint_space.velocities(self.tree, links, a))

    def multipliers(self, q, v, t, a=None):
        a = self.accelerations(q, v, t)[0] if a is None else a
        if not self._count:
            return self._multipliers_of_tree(q, v, a, t)
        q, v, a = self.to_bodies(q, v, a, t)
        return CartesianEquations(self.mech).multipliers_of(q, v, a, t)

    def _multipliers_of_tree(self, q, v, a, t):
        """λ of the joints, each from the wrench that it passes on to all that it carries."""
        mech, space = self.mech, self.space
        links, loads, _ = self._loaded(q, v, t)
        inertial = self._inertial(links, joint_space.spread(self.tree, links, a))
        needed = carried_wrenches(space, links, [x - load for x, load in zip(inertial, loads, strict=True)])
        given = list(zip(self.tree.edges, links, needed, strict=True))
        ground = mech.layout.pose(GROUND, q)
        step = lambda parent, x: (x[1].motion.pose, _multipliers(*x, parent, t))
        found = forward(space.runs, step, ground, given, lambda y: y[0])
        each = scattered(space.runs, [multipliers for _, multipliers in found])
        names = [(joint, *form.drivers) for joint, form in zip(space.tree.joints, space.forms, strict=True)]
        named = {
            name: row
            for row_names, rows in zip(names, each, strict=True)
            for name, row in zip(row_names, rows, strict=True)
        }
        parts = [named[name] for name in (*mech.constraints, *mech.drivers) if name in named]
        return jnp.concatenate([*parts, jnp.zeros(0, q.dtype)])

    def _links(self, q, v, t) -> list:
        return joint_space.links(self.tree.at(t), q, v)

    def _bodies(self, links, q, v):
        """Coordinates and velocities of the bodies."""
        each = scattered(self.space.runs, [link.motion.pose for link in links])
        poses = dict(zip(self.space.tree.bodies, each, strict=True))
        speeds = mapped(self.space.runs, _speed, links)
        return joint_space.coordinates_of(self.tree, poses, q), joint_space.of_bodies(self.tree, speeds, v)

    def _drifts(self, links, gravity=None):
        """Ṙ θ̇; of links whose drifts count weight as inertia, gravity is added again."""
        still = jnp.zeros(self.space.m, links[0].axes.dtype)
        parts = mapped(self.space.runs, lambda link: joint_space.body_drift(link.motion, gravity), links)
        return joint_space.of_bodies(self.tree, parts, still)

    def singular(self, q, v, t, h):
        space, tree = self.space, self.tree.at(t)

        def near(edge, theta, rate):
            found = edge.mobility.singular(theta, rate, edge.given, h)
            return jnp.asarray(False) if found is None else found

        rates = joint_space.by_run(space, v, velocities=True)
        found = mapped(space.runs, near, tree.edges, joint_space.by_run(space, q), rates)
        return jnp.any(jnp.concatenate([x.reshape(-1) for x in found]))

    def _loaded(self, q, v, t):
        """Bodies in motion, Q − M Ṙ θ̇ as wrenches on them, and Q of the extra coordinates."""
        mech, space, extra = self.mech, self.space, jnp.zeros(len(self.space.extra), q.dtype)
        both = joint_space.links(self.tree.at(t), q, v, uniform_acceleration(mech), _load)
        links, loads = [link for link, _ in both], [load for _, load in both]
        if any(force.uniform is None for force in mech.forces.values()):
            applied = applied_forces(mech, *self._bodies(links, q, v), t, uniform=False)
            extra = applied[applied.shape[0] - extra.size :]
            forces = mapped(space.runs, wrench_of, links, self._of_runs(applied))
            loads = [load + force for load, force in zip(loads, forces, strict=True)]
        return links, loads, extra

    def _inertial(self, links, twists) -> list:
        """M times velocities or accelerations that are given as twists, as wrenches."""
        return mapped(self.space.runs, _inertial, self.tree.edges, links, twists)

    def _of_runs(self, v):
        """A vector like v as things of the runs."""
        slices = self.mech.layout.velocity_slices
        return gathered(self.space.runs, [v[slices[name]] for name in self.space.tree.bodies])

    def _along_joints(self, links, by_bodies):
        """Φ_q R from Φ_q by the coordinates of the bodies."""
        space = self.space

        def row(gradient):
            extra = gradient[gradient.shape[0] - len(space.extra) :]
            return efforts(space, links, mapped(space.runs, wrench_of, links, self._of_runs(gradient)), extra)

        return jax.vmap(row)(by_bodies)

    def jacobian(self, q, t):
        if not self._count:
            return jnp.zeros((0, self.space.m), q.dtype)
        links = self._links(q, self.still(q), t)
        return self._along_joints(links, self._by_bodies(self._bodies(links, q, self.still(q))[0], t))

    def velocity_gap(self, q, v, t):
        at, speeds = self._bodies(self._links(q, v, t), q, v)
        return rate(self._gaps, self.mech.layout, at, speeds, t)

    def accelerations(self, q, v, t, correction=0.0, floor=None):
        if not self._by_elimination:
            return super().accelerations(q, v, t, correction, floor)
        links, loads, _ = self._loaded(q, v, t)
        inertia, free = articulated_and_solved(self.tree, links, loads, definite=self.definite)
        if not self._count:
            a = implicit_solution(tree_gap, Articulated.solve, (self, links, loads, 0 * free), inertia, free)
            return a, jnp.zeros(0, q.dtype), jnp.ones(0, q.dtype)
        at, speeds = self._bodies(links, q, v)
        # γ with v̇ = R θ̈ + Ṙ θ̇.
        drifts = self._drifts(links, uniform_acceleration(self.mech))
        gamma = -second_rate(self._gaps, self.mech.layout, at, speeds, drifts, t) + correction
        loop = self._loop(links, self._by_bodies(at, t), inertia, floor, self.pivots(q, t))
        return *loop.solved(loads, free, gamma), jax.lax.stop_gradient(loop.schur.kept)

    def _loop(self, links, by_bodies, inertia: Articulated, floor, pivots) -> Loop:
        phi_q = self._along_joints(links, by_bodies)
        by_multipliers = inertia.solve(phi_q.T)
        schur = factor_symmetric_semidefinite(phi_q @ by_multipliers, floor, pivots)
        return Loop(self, links, by_bodies, inertia, phi_q, by_multipliers, schur)

    def metric(self, q, t):
        if not self._count:
            return lambda x: x  # nothing to close
        if not self._by_elimination:
            return super().metric(q, t)
        links = self._links(q, self.still(q), t)
        inertia = articulated(self.tree, links, definite=self.definite)

        def solve(x):
            if x.ndim > 1:
                return inertia.solve(x)
            return implicit_solution(tree_gap, Articulated.solve, (self, links, None, x), inertia, inertia.solve(x))

        return solve

    def close_velocity(self, q, v, t, floor=None):
        if not self._count:
            return v
        if not self._by_elimination:
            return super().close_velocity(q, v, t, floor)
        links = self._links(q, self.still(q), t)
        inertia = articulated(self.tree, links, definite=self.definite)
        by_bodies = self._by_bodies(self._bodies(links, q, self.still(q))[0], t)
        loop = self._loop(links, by_bodies, inertia, floor, self.pivots(q, t))
        return v + loop.solved(None, jnp.zeros_like(v), -self.velocity_gap(q, v, t))[0]

    def glide(self, motion, v, t, h, iterations):
        # As in the coordinates of the bodies, where M is constant if their origins are the centres of mass, and the step
        # therefore symplectic: the displacement of the bodies is to be h (v + h v̇) as seen along R, that is
        # Rᵀ M (q ⊖ q₀ − h (v + h v̇)) = 0.
        if not self._by_elimination:
            return super().glide(motion, v, t, h, iterations)
        n, layout = self.space.m, self.mech.layout
        links = self._links(motion.q, motion.v, t)
        at, speeds = self._bodies(links, motion.q, motion.v)
        # What is known moves as well, and is in the speeds.
        faster = joint_space.velocities(self.tree, links, v - motion.v)
        wanted = h * (speeds + faster + h * self._drifts(links))
        inertia = articulated(self.tree, links, definite=self.definite)
        by_bodies, pivots = self._by_bodies(at, t), self.pivots(motion.q, t)
        loop = self._loop(links, by_bodies, inertia, motion.floor, pivots)

        def missing(unknown):
            d, multipliers = unknown[:n], unknown[n:]
            q = self.space.retract(motion.q, d)
            away = layout.difference(at, self._configuration(q, t + h)) - wanted
            momenta = mapped(self.space.runs, momentum, self.tree.edges, links, self._of_runs(away))
            balance = efforts(self.space, links, momenta, away[:0]) - loop.phi_q.T @ multipliers
            return jnp.concatenate([balance, self.residual(q, t + h)])

        start = jax.lax.stop_gradient(jnp.concatenate([h * v, jnp.zeros(self._count, v.dtype)]))
        unknown, change, gap = simplified_newton(missing, loop.solve, start, iterations, iterations)
        q = self.space.retract(motion.q, unknown[:n])
        moved = layout.difference(at, self._configuration(q, t + h)) / h
        v = self._nearest_rate(q, moved, t + h)
        return Closed(q, unknown[:n], change[:n], gap[n:]), self.close_velocity(q, v, t + h, motion.revived)


def _speed(link):
    return joint_space.body_velocity(link.motion, link.motion.twist)


@jax.jit
def _load(edge, link):
    """−M Ṙ θ̇ and what else comes of velocities, as a wrench."""
    pose, body = link.motion.pose, edge.body
    load = body.velocity_force(pose, _speed(link)) - body.mass_matrix(pose) @ joint_space.body_drift(link.motion)
    return wrench_of(link, load)


@jax.jit
def _inertial(edge, link, twist):
    return momentum(edge, link, joint_space.body_velocity(link.motion, twist))


@jax.jit
def _multipliers(edge, link, wrench, parent, t):
    """λ of a joint, and of the drivers that prescribe its coordinates, that do a wrench to the body it carries: less what
    they let go, which is zero. A row of each."""
    kind, pose = type(edge.body), link.motion.pose
    joints = () if edge.joint is None else ((edge.joint, False),)
    elements = [*joints, *zip(edge.drivers, edge.swapped, strict=True)]
    if not elements:
        return [jnp.zeros(0, wrench.dtype)]
    q = kind.coordinates_of(pose)

    def residuals(d):
        moved = kind.pose(q + kind.manifold.rate(q, d))
        i, j = (moved, parent) if edge.reverse else (parent, moved)
        return [element.residual(*((j, i) if swapped else (i, j)), t) for element, swapped in elements]

    rows = jax.jacfwd(residuals)(jnp.zeros_like(wrench))
    phi_q = jnp.concatenate(rows)
    multipliers = factor_symmetric_positive(phi_q @ phi_q.T).solve(phi_q @ generalized_of(link, wrench))
    found = jnp.split(multipliers, np.cumsum([row.shape[0] for row in rows])[:-1])
    return found if joints else [jnp.zeros(0, wrench.dtype), *found]
