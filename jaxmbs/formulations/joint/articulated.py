"""RᵀMR x = Rᵀ f in O(N): the bodies of a tree are eliminated one by one, from the leaves to the ground.

The articulated inertia of a body is the inertia of the body and all bodies that it carries, which are free to move on it;
Featherstone 1983. Inertias and twists are about each body's own point of its joint, in the axes of the ground, so that
passing them on is a shift. Lists of links, pivots and wrenches are stacked by run, see `recursion`.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.formulations.joint.recursion import backward, concatenate_runs, forward
from jaxmbs.formulations.joint.space import Edge, JointSpace, JointTree, Link, by_run, shift_twist
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite


class Pivot(eqx.Module):
    """A body that has been eliminated.

    Attributes:
        by_rates: (k, m), U = I S, the wrench by unit rates of its joint, with its articulated inertia I and axes S.
        inverse: (m, m), (SᵀU + J)⁻¹ with the inertia J that forces give to the coordinates of the joint.
    """

    by_rates: Float[Array, "k m"]
    inverse: Float[Array, "m m"]


class Articulated(eqx.Module):
    """The factored matrix H = RᵀMR + J, with the inertia J that forces give to the joint coordinates.

    Attributes:
        space: the joint coordinates.
        links: bodies in motion, by run.
        pivots: eliminated bodies, by run.
    """

    space: JointSpace = eqx.field(static=True)
    links: list
    pivots: list

    def solve(self, forces) -> Float[Array, "m *columns"]:
        """Return θ̈ with H θ̈ = `forces`, the forces (m,) at the joint coordinates, or columns (m, c) of them."""
        if forces.ndim == 2:
            return jax.vmap(self.solve, in_axes=1, out_axes=1)(forces) if forces.shape[1] else forces
        given = zip(self.links, self.pivots, by_run(self.space, forces, velocities=True), strict=True)
        efforts, _ = backward(self.space.runs, _pass_force, list(given), self._zeros)
        return self.rates(efforts)

    def rates(self, efforts: list) -> Float[Array, " m"]:
        """Return θ̈ (m,) from the forces that remain at the joints when bodies have been eliminated, by run."""
        given = list(zip(self.links, self.pivots, efforts, strict=True))
        found = forward(self.space.runs, _accelerate, self._zeros, given, lambda x: x[0])
        extra = jnp.zeros(len(self.space.extra), self._zeros.dtype)
        return jnp.concatenate([*concatenate_runs(self.space.runs, [rates for _, rates in found]), extra])

    @property
    def _zeros(self):
        """A wrench, or a twist, of zeros (k,)."""
        axes = self.links[0].axes
        return jnp.zeros(axes.shape[-2], axes.dtype)


@jax.jit
def _pass_force(received, x):
    """Return the effort that remains at a body's joint, and the wrench passed on; x = (link, pivot, effort)."""
    link, pivot, tau = x
    effort = link.axes.T @ received + tau
    return effort, shift_wrench(link, received - pivot.by_rates @ (pivot.inverse @ effort))


@jax.jit
def _accelerate(parent, x):
    """Return a body's twist and joint rates from its parent's twist; x = (link, pivot, effort)."""
    link, pivot, effort = x
    twist = shift_twist(link.motion.pose, parent, link.arm)
    rates = pivot.inverse @ (effort - pivot.by_rates.T @ twist)
    return twist + link.axes @ rates, rates


def shift_wrench(link: Link, wrench):
    """Return a wrench, or columns of them, about the reference point of the body that carries the link."""
    pose, d = link.motion.pose, link.motion.pose.dimension
    return jnp.concatenate([wrench[:d], wrench[d:] + pose.lever(link.arm).T @ wrench[:d]])


def factor_articulated(tree: JointTree, links: list) -> Articulated:
    """Return the factored H at a configuration. With massless bodies, coordinates without inertia do not move."""
    step = lambda received, x: _eliminate(received, *x, definite=not tree.massless)
    pivots, _ = backward(tree.space.runs, step, list(zip(tree.edges, links, strict=True)), _no_inertia(links))
    return Articulated(tree.space, links, pivots)


def factor_and_solve(tree: JointTree, links: list, wrenches: list):
    """Return the factored H, and θ̈ with H θ̈ = Rᵀ f for wrenches f by run, about the bodies' own points of joints."""

    def step(received, x):
        """Return (pivot, effort) of a body, and the inertia and the wrench that it passes on to its parent."""
        edge, link, wrench = x
        pivot, inertia = _eliminate(received[0], edge, link, definite=not tree.massless)
        total = received[1] + wrench
        effort = link.axes.T @ total
        passed = shift_wrench(link, total - pivot.by_rates @ (pivot.inverse @ effort))
        return (pivot, effort), (inertia, passed)

    nothing = _no_inertia(links)
    given = list(zip(tree.edges, links, wrenches, strict=True))
    found, _ = backward(tree.space.runs, step, given, (nothing, nothing[0]))
    factored = Articulated(tree.space, links, [pivot for pivot, _ in found])
    return factored, factored.rates([effort for _, effort in found])


def _no_inertia(links: list):
    """Return an articulated inertia of zeros (k, k), that of a body that carries nothing."""
    axes = links[0].axes
    return jnp.zeros((axes.shape[-2], axes.shape[-2]), axes.dtype)


@partial(jax.jit, static_argnames="definite")
def _eliminate(received, edge: Edge, link: Link, *, definite: bool):
    """Return the pivot of a body, and the inertia passed on; `received` is that of the bodies it carries."""
    inertia = inertia_of(edge, link) + received
    by_rates = inertia @ link.axes
    at_joint = link.axes.T @ by_rates
    inverse = _inverse(at_joint if edge.inertia is None else at_joint + jnp.diag(edge.inertia), definite)
    by_columns = shift_wrench(link, inertia - by_rates @ inverse @ by_rates.T)
    return Pivot(by_rates, inverse), symmetric(shift_wrench(link, by_columns.T))


def _inverse(matrix, definite: bool):
    """Return the inverse of a symmetric matrix; if it is semidefinite, zero for coordinates without inertia."""
    m = matrix.shape[0]
    if m == 0:
        return matrix
    if m == 1 and definite:
        return 1 / matrix
    factor = factor_symmetric_positive if definite else factor_symmetric_semidefinite
    return factor(matrix).solve(jnp.eye(m, dtype=matrix.dtype))


def inertia_of(edge: Edge, link: Link) -> Float[Array, "k k"]:
    """Return the inertia of a body about its own point of its joint, in the axes of the ground."""
    pose = link.motion.pose
    columns = jax.vmap(pose.to_ground, in_axes=1, out_axes=1)
    about_origin = columns(columns(edge.body.mass_matrix(pose)).T)
    return symmetric(_shifted(pose, about_origin, pose.r - link.motion.point))


def _shifted(pose, inertia, arm):
    """Return an inertia about the start of an arm, from that about its end: Yᵀ I Y, with Y the shift of twists."""
    d, lever = pose.dimension, pose.lever(arm)
    half = jnp.concatenate([inertia[:, :d], inertia[:, :d] @ lever + inertia[:, d:]], axis=1)
    return jnp.concatenate([half[:d], lever.T @ half[:d] + half[d:]])


def symmetric(matrix):
    """Return a matrix with its upper half mirrored, so that it is exactly symmetric and only this half is computed."""
    return jnp.triu(matrix) + jnp.triu(matrix, 1).T


def wrench_of(link: Link, generalized) -> Float[Array, " k"]:
    """Return a generalized force on a body, conjugate to its part of v, as a wrench about its own point of its joint."""
    pose, d = link.motion.pose, link.motion.pose.dimension
    wrench = pose.to_ground(generalized)
    return jnp.concatenate([wrench[:d], wrench[d:] + pose.lever(pose.r - link.motion.point).T @ wrench[:d]])


def generalized_of(link: Link, wrench) -> Float[Array, " k"]:
    """Return the generalized force (k,) on a body, conjugate to its v, of a wrench: the inverse of `wrench_of`."""
    pose, d = link.motion.pose, link.motion.pose.dimension
    arm = pose.r - link.motion.point
    return pose.to_body(jnp.concatenate([wrench[:d], wrench[d:] - pose.lever(arm).T @ wrench[:d]]))


def carried_sums(space: JointSpace, links: list, wrenches: list) -> list:
    """Return for each body the sum of the wrenches on it and on all that it carries, about its own point of its joint."""

    def step(received, x):
        """Return the sum of wrenches at a body, and the same sum about the reference point of its parent."""
        total = received + x[1]
        return total, shift_wrench(x[0], total)

    none = jnp.zeros(links[0].axes.shape[-2], links[0].axes.dtype)
    return backward(space.runs, step, list(zip(links, wrenches, strict=True)), none)[0]


def efforts(space: JointSpace, links: list, wrenches: list, extra) -> Float[Array, " m"]:
    """Return Rᵀ f (m,): the force or torque at each joint coordinate by wrenches on the bodies, then those in `extra`."""
    totals = carried_sums(space, links, wrenches)
    parts = [jnp.sum(link.axes * total[..., None], axis=-2) for link, total in zip(links, totals, strict=True)]
    return jnp.concatenate([*concatenate_runs(space.runs, parts), extra])
