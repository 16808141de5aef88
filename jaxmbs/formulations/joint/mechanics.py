"""Mechanics of a tree: motion of its bodies, loads on them, and the constraints that close its loops.

Everything is a function of a `JointTree`. Links are its bodies in motion, see `space.links`; links, wrenches and rates of
bodies are lists by run, see `recursion`.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.formulations.augmented import mean_mass
from jaxmbs.formulations.joint import space as joint_space
from jaxmbs.formulations.joint.articulated import efforts, factor_and_solve, factor_articulated, symmetric, wrench_of
from jaxmbs.formulations.joint.forms import FREED
from jaxmbs.formulations.joint.recursion import stack_runs, unstack_runs
from jaxmbs.formulations.joint.space import JointTree, map_runs
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.system.equations import applied_forces, masses, residual_of, uniform_acceleration


def at_rest(tree: JointTree, theta, t):
    """Return links, q (n,) and v (m,) of the bodies with every free joint at rest; prescribed ones keep their rates."""
    still = jnp.zeros(tree.space.m, theta.dtype)
    links = joint_space.links(tree.at(t), theta, still)
    return links, *state_of_bodies(tree, links, theta, still)


def state_of_bodies(tree: JointTree, links: list, theta, rate):
    """Return q (n,) and v (m,) of the bodies from their links, with the extra coordinates of θ and θ̇ = `rate`."""
    each = unstack_runs(tree.space.runs, [link.motion.pose for link in links])
    poses = dict(zip(tree.space.tree.bodies, each, strict=True))
    speeds = map_runs(tree.space.runs, _body_velocity, links)
    return joint_space.coordinates_of(tree, poses, theta), joint_space.concatenate_bodies(tree, speeds, rate)


def drifts(tree: JointTree, links: list, gravity=None):
    """Return Ṙ θ̇ (m,), the v̇ with θ̈ = 0, plus `gravity` if the links were computed with weight as inertia."""
    still = jnp.zeros(tree.space.m, links[0].axes.dtype)
    parts = map_runs(tree.space.runs, lambda link: joint_space.body_drift(link.motion, gravity), links)
    return joint_space.concatenate_bodies(tree, parts, still)


def wrenches(tree: JointTree, links: list, v) -> list:
    """Return generalized forces v (m,) on the bodies as wrenches by run, about each body's own point of its joint."""
    return map_runs(tree.space.runs, wrench_of, links, stack_by_run(tree, v))


def stack_by_run(tree: JointTree, v) -> list:
    """Return the parts of a vector (m,) that belong to the bodies, by run; its entries are in the order of v."""
    slices = tree.layout.velocity_slices
    return stack_runs(tree.space.runs, [v[slices[name]] for name in tree.space.tree.bodies])


def _body_velocity(link):
    """Return the velocities of a link's body, its part of v."""
    return joint_space.body_velocity(link.motion, link.motion.twist)


def links_and_loads(tree: JointTree, theta, rate, t):
    """Return the links, Q − M Ṙ θ̇ as wrenches on them, and Q of the extra coordinates."""
    mech, extra = tree.mech, jnp.zeros(len(tree.space.extra), theta.dtype)
    both = joint_space.links(tree.at(t), theta, rate, uniform_acceleration(mech), _velocity_load)
    links, loads = [link for link, _ in both], [load for _, load in both]
    if any(force.uniform is None for force in mech.forces.values()):
        applied = applied_forces(mech, *state_of_bodies(tree, links, theta, rate), t, uniform=False)
        extra = applied[applied.shape[0] - extra.size :]
        loads = [load + force for load, force in zip(loads, wrenches(tree, links, applied), strict=True)]
    return links, loads, extra


@jax.jit
def _velocity_load(edge, link):
    """Return −M Ṙ θ̇ and the other forces that depend on velocities only, as a wrench."""
    pose, body = link.motion.pose, edge.body
    load = body.velocity_force(pose, _body_velocity(link)) - body.mass_matrix(pose) @ joint_space.body_drift(
        link.motion
    )
    return wrench_of(link, load)


@jax.jit
def _momentum(edge, link, velocity):
    """Return M times a velocity or acceleration of a body, as a wrench."""
    return wrench_of(link, edge.body.mass_matrix(link.motion.pose) @ velocity)


def net_wrenches(tree: JointTree, links: list, rates: list, loads: list | None) -> list:
    """Return M v̇ minus the loads as wrenches by run; `rates` are v̇ by run, loads of None are zero."""
    inertial = map_runs(tree.space.runs, _momentum, tree.edges, links, rates)
    return inertial if loads is None else [x - load for x, load in zip(inertial, loads, strict=True)]


def closing_elements(tree: JointTree) -> dict:
    """Return the elements that are rows of Φ, by name: cut constraints, then drivers that prescribe no joint coordinate."""
    mech, joints, forms = tree.mech, tree.space.tree.joints, tree.space.forms
    held = {joint for joint, form in zip(joints, forms, strict=True) if form.kind not in FREED}
    held |= {name for form in forms for name in form.drivers}
    return {name: element for name, element in {**mech.constraints, **mech.drivers}.items() if name not in held}


def row_count(tree: JointTree) -> int:
    """Return the number of rows of Φ of the elements that are not in the tree."""
    return sum(element.rows for element in closing_elements(tree).values())


def gaps(tree: JointTree, q, t, poses=None):
    """Return Φ (rows,) of the elements that are not in the tree, for coordinates q of the bodies."""
    poses = tree.mech.poses(q) if poses is None else poses
    rows = [residual_of(tree.mech, name, element, q, t, poses) for name, element in closing_elements(tree).items()]
    return jnp.concatenate(rows) if rows else jnp.zeros(0, q.dtype)


def jacobian_by_bodies(tree: JointTree, q, t):
    """Return Φ_q (rows, m) of the elements outside the tree, with a column for each velocity of the bodies."""
    layout = tree.layout
    return jacobian(partial(gaps, tree), layout, q, t) if row_count(tree) else jnp.zeros((0, layout.m), q.dtype)


def jacobian_by_joints(tree: JointTree, links: list, rows):
    """Return Φ_q R, with a column for each joint velocity, from `rows`, Φ_q by the velocities of the bodies."""

    def row(gradient):
        """Return Rᵀ times one row."""
        extra = gradient[gradient.shape[0] - len(tree.space.extra) :]
        return efforts(tree.space, links, wrenches(tree, links, gradient), extra)

    return jax.vmap(row)(rows)


def nearest_rate(tree: JointTree, theta, v, t, at_joints=None):
    """Return θ̇ for which the velocities of the bodies, prescribed motion included, are nearest to v in the metric M.

    If joint rates `at_joints` are given, it is also near to these in the metric of the inertia J at the joints.
    """
    links, q, known = at_rest(tree, theta, t)
    return nearest_free_rate(tree, theta, links, q, v - known, t, at_joints)


def nearest_free_rate(tree: JointTree, theta, links: list, q, v, t, at_joints=None):
    """Return the θ̇ (m,) for which R θ̇, without velocities from prescribed joints, is nearest to v in the metric M.

    `at_joints`: see `nearest_rate`.
    """
    mech, space = tree.mech, tree.space
    inertia = None if at_joints is None else tree.inertia
    push = 0.0 if inertia is None else inertia * at_joints
    if not (tree.massless or space.extra):
        wrenches_of_v = net_wrenches(tree, links, stack_by_run(tree, v), None)
        if inertia is None:
            return factor_and_solve(tree.without_inertia(), links, wrenches_of_v)[1]
        none = jnp.zeros(0, v.dtype)
        return factor_articulated(tree, links).solve(efforts(space, links, wrenches_of_v, none) + push)
    # Coordinates without inertia are given some, because their velocities matter as well.
    massless = [entry for body in mech.bodies.values() for entry in body.massless]
    lacking = np.array(massless + [True] * len(space.extra))
    mass = masses(mech, q) + jnp.diag(lacking * mean_mass(mech))
    transformation = joint_space.transformation(tree.at(t), theta)
    matrix = symmetric(transformation.T @ mass @ transformation)
    matrix = matrix if inertia is None else matrix + jnp.diag(inertia)
    return factor_symmetric_positive(matrix).solve(transformation.T @ (mass @ v) + push)
