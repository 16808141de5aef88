"""Equations of motion in joint coordinates, by the velocity transformation; Issa and Arczewski 1998."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND
from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.augmented import AbstractFormulation, CartesianEquations, mean_mass
from jaxmbs.formulations.dense import Dense
from jaxmbs.formulations.joint import mechanics
from jaxmbs.formulations.joint import space as joint_space
from jaxmbs.formulations.joint.articulated import carried_sums, efforts, generalized_of, symmetric
from jaxmbs.formulations.joint.drives import inertial_efforts
from jaxmbs.formulations.joint.elimination import ClosedTree, OpenTree
from jaxmbs.formulations.joint.recursion import forward, unstack_runs
from jaxmbs.formulations.joint.space import JointSpace, JointTree, map_runs
from jaxmbs.formulations.reactive import load_of_wrench, loads_of, may_be_redundant, with_force_fields
from jaxmbs.formulations.view import AbstractUnknowns
from jaxmbs.numerics.implicit import rate
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.scaling import Units
from jaxmbs.system.equations import masses
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import Names


def tuple_of_names(names: Names | None) -> tuple[str, ...]:
    """Return one name, several names, or None as a tuple of names."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


class JointCoordinates(AbstractFormulation):
    """Joint coordinates θ of a spanning tree, with a multiplier for each equation of cut joints and drivers.

        RᵀMR θ̈ = Rᵀ(Q − MṘθ̇) + (Φ_q R)ᵀλ,  Φ(q(θ), t) = 0;  Issa and Arczewski (3.7).

    The bodies move with v = R θ̇. An open chain without drivers has no Φ: its motion is an ordinary differential
    equation. Joints of the tree can never open. Accelerations are computed by eliminating one body after another, so
    the cost is linear in the number of bodies, not cubic.

    Args:
        base: the floating base; see `topology.spanning_tree`.
        cut: names of joints to cut; by default those whose removal leaves a tree with the shortest paths from the
            ground to the bodies.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, formulation=mbs.JointCoordinates())
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
        >>> mbs.JointCoordinates(cut="guide").of(mech).names
        ('O.phi', 'A.phi', 'B.phi')
    """

    base: str | tuple[str, ...] | None = eqx.field(static=True, default=None)
    cut: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple_of_names)

    def equations(self, mech):
        """Return the equations in θ, with the angles at which joints hold bodies as further coordinates."""
        space = joint_space.joint_space(mech, base=self.base, cut=self.cut, any_angle=True)
        return JointEquations(joint_space.joint_tree(mech, space))

    def unknowns(self, mech):
        """Return the unknowns θ and θ̇ of the tree."""
        space = joint_space.joint_space(mech, base=self.base, cut=self.cut)
        return JointUnknowns(space, space.coordinates, space.velocities)


@dataclasses.dataclass(frozen=True)
class JointUnknowns(AbstractUnknowns):
    """Coordinates and velocities of a spanning tree, with their names in the order that users see."""

    space: JointSpace
    coordinate_names: tuple[str, ...]
    rate_names: tuple[str, ...]

    def names(self, mech):
        """Return the names of the coordinates, in the order that users see."""
        return self.coordinate_names

    def velocity_names(self, mech):
        """Return the names of the velocities, in the order that users see."""
        return self.rate_names

    def coordinates(self, mech, q, t):
        """Return θ of a configuration q of the bodies."""
        return joint_space.measure_coordinates(joint_space.joint_tree(mech, self.space).at(t), q)

    def velocities(self, mech, q, v, t):
        """Return θ̇ of velocities v of the bodies, by least squares if the joints do not allow v."""
        tree = joint_space.joint_tree(mech, joint_space.at_any_angle(mech, self.space)).at(t)
        return joint_space.rates_of(tree, joint_space.measure_coordinates(tree, q), v)

    def configuration(self, mech, x, t, near):
        """Return q of the bodies for θ = x; turns, senses and signs are those of `near`."""
        tree, theta = joint_space.tree_near(mech, self.space, x, near, t)
        return joint_space.configuration(tree.at(t), theta)

    def equations_at(self, mech, x, t, near):
        """Return the equations and their θ for x; turns, senses and signs are those of `near`."""
        tree, theta = joint_space.tree_near(mech, self.space, x, near, t)
        return JointEquations(tree), tree.space.normalised(theta)


class JointEquations(AbstractEquations):
    """The equations of `JointCoordinates`."""

    tree: JointTree
    _pivots: Float[Array, " rows"] | None = None
    own_coordinates: ClassVar[bool] = True

    @property
    def mech(self) -> Mechanism:
        """Mechanism of the tree."""
        return self.tree.mech

    @property
    def space(self):
        """Space of the joint coordinates θ."""
        return self.tree.space

    @property
    def solver(self):
        """Solver by elimination along the tree; with matrices if constraints must support light coordinates."""
        # Elimination along the tree cannot use the inertia that constraints give to coordinates without any.
        closed = mechanics.row_count(self.tree) > 0
        if self.space.extra or (self.mech.light and closed):
            return Dense(self)
        return (ClosedTree if closed else OpenTree)(self, self.tree)

    def mass(self, q, t):
        """Return RᵀMR + J, the mass matrix in joint coordinates q = θ, with the inertia J of drives at the joints."""
        transformation = joint_space.transformation(self.tree.at(t), q)
        of_bodies = symmetric(transformation.T @ masses(self.mech, self.configuration(q, t)) @ transformation)
        return of_bodies if self.tree.inertia is None else of_bodies + jnp.diag(self.tree.inertia)

    def force(self, q, v, t):
        """Return Rᵀ(Q − M Ṙ v) with the joint velocities v = θ̇ and the forces Q on the bodies."""
        links, loads, extra = mechanics.links_and_loads(self.tree, q, v, t)
        return efforts(self.space, links, loads, extra)

    def imbalance(self, q, v, a, t):
        """Return Rᵀ(M (R a + Ṙ v) − Q) + J a for joint velocities v and joint accelerations a."""
        links, loads, extra = mechanics.links_and_loads(self.tree, q, v, t)
        left = mechanics.net_wrenches(self.tree, links, joint_space.body_rates(self.tree, links, a), loads)
        found = efforts(self.space, links, left, -extra)
        return found if self.tree.inertia is None else found + self.tree.inertia * a

    def residual(self, q, t):
        """Return Φ of the cut joints, other constraints and drivers at the joint coordinates q."""
        poses = joint_space.poses(self.tree.at(t), q)
        return mechanics.gaps(self.tree, joint_space.coordinates_of(self.tree, poses, q), t, poses)

    def jacobian(self, q, t):
        """Return Φ_q R, with a column for each joint velocity."""
        if not mechanics.row_count(self.tree):
            return jnp.zeros((0, self.space.m), q.dtype)
        links, at, _ = mechanics.at_rest(self.tree, q, t)
        return mechanics.jacobian_by_joints(self.tree, links, mechanics.jacobian_by_bodies(self.tree, at, t))

    def velocity_gap(self, q, v, t):
        """Return Φ̇ of the elements outside the tree for joint velocities v, with the motion of prescribed joints."""
        at, speeds = mechanics.state_of_bodies(self.tree, joint_space.links(self.tree.at(t), q, v), q, v)
        return rate(partial(mechanics.gaps, self.tree), self.mech.layout, at, speeds, t)

    @property
    def supporting(self):
        """Indices of the rows with extra coordinates, or of all rows if some body is light, and the mean mass."""
        rows = [
            np.full(e.rows, bool(self.mech.light or e.extra)) for e in mechanics.closing_elements(self.tree).values()
        ]
        chosen = np.flatnonzero(np.concatenate(rows)) if rows else np.zeros(0, int)
        return chosen, mean_mass(self.mech)

    def scaling_rows(self, q, t):
        """Return Φ_q by the coordinates of the bodies, their extent (m,), and (m,) True for angles."""
        # Rows by the coordinates of the bodies: multiplied by R, a row may vanish, or be only rounding.
        at, layout = self.configuration(q, t), self.mech.layout
        return mechanics.jacobian_by_bodies(self.tree, at, t), layout.extent(at), layout.angular

    def with_scales(self, scales):
        """Return these equations with `pivots` that are taken from the scales."""
        return JointEquations(self.tree, scales.pivots)

    def pivots(self, q, t):
        """Return the diagonal of Φ_q M⁻¹ Φ_qᵀ if nothing cancelled in Φ_q R; None without rows."""
        if self._pivots is not None or not mechanics.row_count(self.tree):
            return self._pivots
        phi_q, vectors, layout = self.jacobian(q, t), self._vector_membership.astype(q.dtype), self.mech.layout
        by_bodies = mechanics.jacobian_by_bodies(self.tree, self.configuration(q, t), t)
        transformation = joint_space.transformation(self.tree.at(t), q)
        # The row if the velocities that a joint gives to a body were parallel to those by which the body changes the row.
        uncancelled = jnp.sqrt(by_bodies**2 @ vectors) @ jnp.sqrt(vectors.T @ transformation**2)
        arm = jnp.max(jnp.abs(transformation[~layout.angular][:, self.space.angular]), initial=0)
        units = Units(self.space.angular, jnp.where(arm > 0, arm, 1)).vector
        whole, left = (jnp.max(jnp.abs(rows * units[None, :]), axis=1) for rows in (uncancelled, phi_q))
        # The direction of a row that vanishes is not known: any will do.
        vanishes = left <= jnp.finfo(q.dtype).eps ** 0.5 * whole
        rows = jnp.where(vanishes[:, None], whole[:, None] / units[None, :], phi_q)
        growth = jnp.where(vanishes, 1, whole / jnp.where(vanishes, 1, left))
        return growth**2 * jnp.sum(rows * self.solver.metric(q, t)(rows.T).T, axis=1)

    @property
    def _vector_membership(self) -> np.ndarray:
        """(m, vectors), 1 if an entry of v belongs to a vector: a velocity or angular velocity, or an extra rate."""
        layout = self.mech.layout
        owner = np.arange(layout.m)
        for name in self.mech.bodies:
            owner[layout.velocity_slices[name]] = layout.velocity_slices[name].start
        chosen = owner + layout.m * layout.angular
        return (chosen[:, None] == np.unique(chosen)).astype(int)

    def singular(self, q, v, t, h):
        """Return True if some joint is singular at θ = q, or nearly, for rates v and steps h."""
        space, tree = self.space, self.tree.at(t)

        def near(edge, theta, rate):
            """Return True if the joint of an edge is singular, or nearly."""
            found = edge.mobility.singular(theta, rate, edge.given, h)
            return jnp.asarray(False) if found is None else found

        rates = joint_space.by_run(space, v, velocities=True)
        found = map_runs(space.runs, near, tree.edges, joint_space.by_run(space, q), rates)
        return jnp.any(jnp.concatenate([x.reshape(-1) for x in found]))

    def coordinates(self, q, t):
        """Return the joint coordinates that the joints measure at a configuration q of the bodies."""
        return joint_space.measure_coordinates(self.tree.at(t), q)

    def configuration(self, q, t):
        """Return the configuration of the bodies for joint coordinates q at the time t."""
        return joint_space.configuration(self.tree.at(t), q)

    def from_bodies(self, q, v, t):
        """Return joint coordinates and velocities nearest to q and v of the bodies in the metric M."""
        # If joints of the tree are open, the coordinates that they measure are only a start.
        theta = self.coordinates(q, t)
        still, (links, at, _) = self.zero_velocity(theta), mechanics.at_rest(self.tree, theta, t)
        away = self.mech.layout.difference(at, q)
        # If the coordinates are singular, there is no nearest rate, and the start is not corrected.
        singular = self.singular(*jax.lax.stop_gradient((theta, still)), t, jnp.zeros_like(t))
        shift = mechanics.nearest_free_rate(self.tree, theta, links, at, away, t)
        theta = self.space.retract(theta, jnp.where(singular, still, shift))
        return theta, jnp.where(singular, still, mechanics.nearest_rate(self.tree, theta, v, t))

    def to_bodies(self, q, v, a, t):
        """Return coordinates, velocities R v and accelerations R a + Ṙ v of the bodies for joint q, v and a."""
        links = joint_space.links(self.tree.at(t), q, v)
        rates = mechanics.drifts(self.tree, links) + joint_space.velocities(self.tree, links, a)
        return *mechanics.state_of_bodies(self.tree, links, q, v), rates

    @property
    def inertial_efforts(self):
        """Names of the forces whose inertia is in the mass matrix."""
        return tuple(inertial_efforts(self.mech, self.space.joints, self.space.forms))

    def with_inertial_efforts(self, a):
        """Return the equations with the efforts −J ẍ on the bodies for joint accelerations a; the others have zero."""
        places = inertial_efforts(self.mech, self.space.joints, self.space.forms)
        rates = {name: a[self.space.velocity_slices[number]][k] for name, (number, k) in places.items()}
        sizes = {name: -self.mech.forces[name].at_joint * rate for name, rate in rates.items()}
        return with_force_fields(self, "size", sizes)

    def multipliers(self, q, v, t, a=None):
        """Return λ of all constraints and drivers of the mechanism, those of the tree included."""
        a = self.accelerations(q, v, t)[0] if a is None else a
        given = self.with_inertial_efforts(a)
        if not mechanics.row_count(self.tree):
            return given._multipliers_of_tree(q, v, a, t)
        return CartesianEquations(given.mech).balance_multipliers(*self.to_bodies(q, v, a, t), t=t)

    def loads(self, joints, q, v, t, a, multipliers):
        """Return the loads of the named joints on their bodies j; in the tree, from the wrenches they pass on."""
        mech, space, closing = self.mech, self.space, mechanics.closing_elements(self.tree)
        driven = {joint for joint, form in zip(space.tree.joints, space.forms, strict=True) if form.drivers}
        if may_be_redundant(mech) or space.extra or driven & set(joints):
            at, speeds, _ = self.to_bodies(q, v, a, t)
            return loads_of(mech, joints, at, speeds, t, self.multipliers(q, v, t, a))
        links, loads, _ = mechanics.links_and_loads(self.with_inertial_efforts(a).tree, q, v, t)
        at, speeds = mechanics.state_of_bodies(self.tree, links, q, v)
        if closing:
            pull = mechanics.wrenches(self.tree, links, mechanics.jacobian_by_bodies(self.tree, at, t).T @ multipliers)
            loads = [load + more for load, more in zip(loads, pull, strict=True)]
        left = mechanics.net_wrenches(self.tree, links, joint_space.body_rates(self.tree, links, a), loads)
        carried = unstack_runs(space.runs, carried_sums(space, links, left))
        points = unstack_runs(space.runs, [link.motion.point for link in links])
        found = loads_of(mech, [name for name in joints if name in closing], at, speeds, t, multipliers, closing)
        for body, joint, wrench, point in zip(space.tree.bodies, space.tree.joints, carried, points, strict=True):
            if joint in joints and joint not in found:
                found[joint] = load_of_wrench(mech.constraints[joint], mech.poses(at), body, point, wrench)
        return found

    def _multipliers_of_tree(self, q, v, a, t):
        """Return λ of all joints and drivers of an open tree, from the wrench that each joint passes on."""
        mech, space = self.mech, self.space
        links, loads, _ = mechanics.links_and_loads(self.tree, q, v, t)
        left = mechanics.net_wrenches(self.tree, links, joint_space.body_rates(self.tree, links, a), loads)
        needed = carried_sums(space, links, left)
        given = list(zip(self.tree.edges, links, needed, strict=True))
        ground = mech.layout.pose(GROUND, q)
        step = lambda parent, x: (x[1].motion.pose, _multipliers(*x, parent, t))
        found = forward(space.runs, step, ground, given, lambda y: y[0])
        each = unstack_runs(space.runs, [multipliers for _, multipliers in found])
        names = [(joint, *form.drivers) for joint, form in zip(space.tree.joints, space.forms, strict=True)]
        named = {
            name: row
            for row_names, rows in zip(names, each, strict=True)
            for name, row in zip(row_names, rows, strict=True)
        }
        parts = [named[name] for name in (*mech.constraints, *mech.drivers) if name in named]
        return jnp.concatenate([*parts, jnp.zeros(0, q.dtype)])


@jax.jit
def _multipliers(edge, link, wrench, parent, t):
    """Return λ of a joint, and of the drivers that prescribe its coordinates, from the wrench on the body it carries.

    Components of the wrench that they leave free are zero to rounding. An array for each of them.
    """
    kind, pose = type(edge.body), link.motion.pose
    joints = () if edge.joint is None else ((edge.joint, False),)
    elements = [*joints, *zip(edge.drivers, edge.swapped, strict=True)]
    if not elements:
        return [jnp.zeros(0, wrench.dtype)]
    q = kind.coordinates_of(pose)

    def residuals(d):
        """Return the residuals of each element with the body displaced by d."""
        moved = kind.pose(q + kind.manifold.rate(q, d))
        i, j = (moved, parent) if edge.reverse else (parent, moved)
        return [element.residual(*((j, i) if swapped else (i, j)), t) for element, swapped in elements]

    rows = jax.jacfwd(residuals)(jnp.zeros_like(wrench))
    phi_q = jnp.concatenate(rows)
    multipliers = factor_symmetric_positive(phi_q @ phi_q.T).solve(phi_q @ generalized_of(link, wrench))
    found = jnp.split(multipliers, np.cumsum([row.shape[0] for row in rows])[:-1])
    return found if joints else [jnp.zeros(0, wrench.dtype), *found]
