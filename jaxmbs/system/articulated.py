"""RᵀMR x = Rᵀ f in O(N): the bodies of a tree are eliminated one by one, from the leaves to the ground.

What a body and all that it carries put up against its motion is its articulated inertia; Featherstone 1983. Inertias and
twists are about each body's own end of its joint, in the axes of the ground, so that passing them on is a shift.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite
from jaxmbs.system.joint_space import Edge, JointSpace, Link, by_run, gathered_edges, moved
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.recursion import backward, forward


class Pivot(eqx.Module):
    """A body that has been eliminated.

    Attributes:
        by_rates: (k, m) U = I S, the wrench by unit rates of its joint, with its articulated inertia I and axes S.
        inverse: (m, m) (SᵀU)⁻¹.
    """

    by_rates: Float[Array, "k m"]
    inverse: Float[Array, "m m"]


class Articulated(eqx.Module):
    """H = RᵀMR, factored.

    Attributes:
        links, pivots: as things of the runs.
    """

    space: JointSpace = eqx.field(static=True)
    links: list
    pivots: list

    def solve(self, wrenches: list | None = None, forces=None) -> Float[Array, " m"]:
        """θ̈ with H θ̈ = Rᵀ f + τ.

        wrenches: f, for each body about its own end of its joint, as things of the runs. forces: τ (m,), or columns
        (m, c) of it.
        """
        runs, space = self.space.runs, self.space
        columns = forces is not None and forces.ndim == 2
        if columns:
            solve = jax.vmap(lambda tau: self.solve(None, tau), in_axes=1, out_axes=1)
            return solve(forces) if forces.shape[1] else forces
        size = self.links[0].axes.shape[-2]
        dtype = self.links[0].axes.dtype
        none = jnp.zeros(size, dtype)
        tau = [None] * len(runs) if forces is None else by_run(space, forces, velocities=True)
        f = [None] * len(runs) if wrenches is None else wrenches

        efforts, _ = backward(runs, _pass_wrench, list(zip(self.links, self.pivots, f, tau, strict=True)), none)
        given = list(zip(self.links, self.pivots, efforts, strict=True))
        found = forward(runs, _accelerate, none, given, lambda x: x[0])
        parts = [rates.reshape(-1) for _, rates in found]
        return jnp.concatenate([*parts, jnp.zeros(len(space.extra), dtype)])


@jax.jit
def _pass_wrench(received, x):
    """The joint force of a body, and the wrench that it passes on."""
    link, pivot, wrench, tau = x
    total = received if wrench is None else received + wrench
    effort = link.axes.T @ total
    effort = effort if tau is None else effort + tau
    return effort, taken_back(link, total - pivot.by_rates @ (pivot.inverse @ effort))


@jax.jit
def _accelerate(parent, x):
    """The twist and the joint rates of a body."""
    link, pivot, effort = x
    twist = moved(link.motion.pose, parent, link.arm)
    rates = pivot.inverse @ (effort - pivot.by_rates.T @ twist)
    return twist + link.axes @ rates, rates


def taken_back(link: Link, wrench):
    """A wrench, or columns of them, about the reference point of the body that carries the link."""
    pose, d = link.motion.pose, link.motion.pose.dimension
    return jnp.concatenate([wrench[:d], wrench[d:] + pose.lever(link.arm).T @ wrench[:d]])


def articulated(mech: Mechanism, space: JointSpace, links: list, *, definite: bool = True) -> Articulated:
    """Factor H at a configuration. Where it is not `definite`, what has no inertia does not move."""
    size = links[0].axes.shape[-2]
    nothing = jnp.zeros((size, size), links[0].axes.dtype)
    eliminate = partial(_eliminate, definite=definite)
    pivots, _ = backward(space.runs, eliminate, list(zip(links, gathered_edges(mech, space), strict=True)), nothing)
    return Articulated(space, links, pivots)


@partial(jax.jit, static_argnames="definite")
def _eliminate(received, x, *, definite):
    """What `Articulated` keeps of a body, and the inertia that it passes on."""
    link, edge = x
    inertia = inertia_of(edge, link) + received
    by_rates = inertia @ link.axes
    inverse = _inverse(link.axes.T @ by_rates, definite)
    by_columns = taken_back(link, inertia - by_rates @ inverse @ by_rates.T)
    return Pivot(by_rates, inverse), symmetric(taken_back(link, by_columns.T))


def _inverse(matrix, definite: bool):
    m = matrix.shape[0]
    if m == 0:
        return matrix
    if m == 1 and definite:
        return 1 / matrix
    factor = factor_symmetric_positive if definite else factor_symmetric_semidefinite
    return factor(matrix).solve(jnp.eye(m, dtype=matrix.dtype))


def inertia_of(edge: Edge, link: Link) -> Float[Array, "k k"]:
    """The inertia of a body about its own end of its joint, in the axes of the ground."""
    pose = link.motion.pose
    columns = jax.vmap(pose.to_ground, in_axes=1, out_axes=1)
    about_origin = columns(columns(edge.body.mass_matrix(pose)).T)
    return symmetric(_shifted(pose, about_origin, pose.r - link.motion.point))


def _shifted(pose, inertia, arm):
    """Yᵀ I Y with Y the twist about the origin by that at the start of the arm to it."""
    d, lever = pose.dimension, pose.lever(arm)
    half = jnp.concatenate([inertia[:, :d], inertia[:, :d] @ lever + inertia[:, d:]], axis=1)
    return jnp.concatenate([half[:d], lever.T @ half[:d] + half[d:]])


def symmetric(matrix):
    """A matrix that is symmetric but for rounding, exactly so: only its upper half is computed."""
    return jnp.triu(matrix) + jnp.triu(matrix, 1).T


def wrench_of(link: Link, generalized) -> Float[Array, " k"]:
    """A generalized force on a body, conjugate to its velocities as in v, as a wrench about its own end of its joint."""
    pose, d = link.motion.pose, link.motion.pose.dimension
    wrench = pose.to_ground(generalized)
    return jnp.concatenate([wrench[:d], wrench[d:] + pose.lever(pose.r - link.motion.point).T @ wrench[:d]])


def generalized_of(link: Link, wrench) -> Float[Array, " k"]:
    """The inverse of `wrench_of`."""
    pose, d = link.motion.pose, link.motion.pose.dimension
    arm = pose.r - link.motion.point
    return pose.to_body(jnp.concatenate([wrench[:d], wrench[d:] - pose.lever(arm).T @ wrench[:d]]))


def carried_wrenches(space: JointSpace, links: list, wrenches: list) -> list:
    """For each body the sum of the wrenches on it and on all that it carries, about its own end of its joint."""

    def step(received, x):
        total = received + x[1]
        return total, taken_back(x[0], total)

    none = jnp.zeros(links[0].axes.shape[-2], links[0].axes.dtype)
    return backward(space.runs, step, list(zip(links, wrenches, strict=True)), none)[0]


def efforts(space: JointSpace, links: list, wrenches: list, extra) -> Float[Array, " m"]:
    """Rᵀ f: the force or torque at each joint coordinate by wrenches on the bodies, and those at the extra coordinates."""
    totals = carried_wrenches(space, links, wrenches)
    parts = [jnp.sum(link.axes * total[..., None], axis=-2) for link, total in zip(links, totals, strict=True)]
    return jnp.concatenate([*(x.reshape(-1) for x in parts), extra])
