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

from jaxmbs.formulations.joint.recursion import backward, forward, joined
from jaxmbs.formulations.joint.space import Edge, JointSpace, JointTree, Link, by_run, moved
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive, factor_symmetric_semidefinite


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

    def solve(self, forces) -> Float[Array, "m *columns"]:
        """θ̈ with H θ̈ = τ, for forces τ (m,) at the joint coordinates, or columns (m, c) of them."""
        if forces.ndim == 2:
            return jax.vmap(self.solve, in_axes=1, out_axes=1)(forces) if forces.shape[1] else forces
        given = zip(self.links, self.pivots, by_run(self.space, forces, velocities=True), strict=True)
        efforts, _ = backward(self.space.runs, _pass_force, list(given), self._none)
        return self.rates(efforts)

    def rates(self, efforts: list) -> Float[Array, " m"]:
        """θ̈ by the forces that are left at the joints when bodies have been eliminated."""
        given = list(zip(self.links, self.pivots, efforts, strict=True))
        found = forward(self.space.runs, _accelerate, self._none, given, lambda x: x[0])
        extra = jnp.zeros(len(self.space.extra), self._none.dtype)
        return jnp.concatenate([*joined(self.space.runs, [rates for _, rates in found]), extra])

    @property
    def _none(self):
        axes = self.links[0].axes
        return jnp.zeros(axes.shape[-2], axes.dtype)


@jax.jit
def _pass_force(received, x):
    """What is left of the force at the joint of a body, and the wrench that the body passes on."""
    link, pivot, tau = x
    effort = link.axes.T @ received + tau
    return effort, taken_back(link, received - pivot.by_rates @ (pivot.inverse @ effort))


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


def articulated(tree: JointTree, links: list) -> Articulated:
    """Factor H at a configuration. Coordinates without inertia do not move."""
    step = lambda received, x: _eliminate(received, *x, definite=not tree.massless)
    pivots, _ = backward(tree.space.runs, step, list(zip(tree.edges, links, strict=True)), _no_inertia(links))
    return Articulated(tree.space, links, pivots)


def articulated_and_solved(tree: JointTree, links: list, wrenches: list):
    """The same, and θ̈ with H θ̈ = Rᵀ f for wrenches f on the bodies, about their own ends of the joints, as things of the
    runs."""

    def step(received, x):
        edge, link, wrench = x
        pivot, inertia = _eliminate(received[0], edge, link, definite=not tree.massless)
        total = received[1] + wrench
        effort = link.axes.T @ total
        passed = taken_back(link, total - pivot.by_rates @ (pivot.inverse @ effort))
        return (pivot, effort), (inertia, passed)

    nothing = _no_inertia(links)
    given = list(zip(tree.edges, links, wrenches, strict=True))
    found, _ = backward(tree.space.runs, step, given, (nothing, nothing[0]))
    factored = Articulated(tree.space, links, [pivot for pivot, _ in found])
    return factored, factored.rates([effort for _, effort in found])


def _no_inertia(links: list):
    axes = links[0].axes
    return jnp.zeros((axes.shape[-2], axes.shape[-2]), axes.dtype)


@partial(jax.jit, static_argnames="definite")
def _eliminate(received, edge: Edge, link: Link, *, definite: bool):
    """What `Articulated` keeps of a body, and the inertia that it passes on."""
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
    return jnp.concatenate([*joined(space.runs, parts), extra])
