"""Solvers in joint coordinates, at a cost linear in the number of bodies: they eliminate the bodies first, loops last."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.formulations.abstract import AbstractEquations, AbstractSolver, Closed
from jaxmbs.formulations.joint import mechanics
from jaxmbs.formulations.joint import space as joint_space
from jaxmbs.formulations.joint.articulated import Articulated, efforts, factor_and_solve, factor_articulated
from jaxmbs.formulations.joint.space import JointTree
from jaxmbs.numerics.implicit import second_rate
from jaxmbs.numerics.linear_algebra import Factored, factor_symmetric_semidefinite
from jaxmbs.numerics.roots import implicit_solution, simplified_newton
from jaxmbs.system.equations import uniform_acceleration


class AbstractElimination(AbstractSolver):
    """Solver by elimination along the tree of the equations."""

    equations: AbstractEquations
    tree: JointTree

    def glide(self, motion, v, t, h, iterations):
        """Return the closed configuration and velocity after a step of length h, with M taken at its start."""
        # As in the coordinates of the bodies, where M is constant if their origins are the centres of mass, and the step
        # therefore symplectic: the displacement of the bodies is to be h (v + h v̇) as seen along R, that is
        # Rᵀ M (q ⊖ q₀ − h (v + h v̇)) = 0.
        tree, space, layout = self.tree, self.tree.space, self.tree.layout
        links = joint_space.links(tree.at(t), motion.q, motion.v)
        at, speeds = mechanics.state_of_bodies(tree, links, motion.q, motion.v)
        # `speeds` include the motion that is prescribed in time.
        faster = joint_space.velocities(tree, links, v - motion.v)
        aim = h * (speeds + faster + h * mechanics.drifts(tree, links))
        loop = self._loop(factor_articulated(tree, links), motion.q, at, t, motion.floor)
        moved = lambda q: layout.difference(at, joint_space.configuration(tree.at(t + h), q))

        def missing(unknown):
            """Return Rᵀ M (displacement − aim) − (Φ_q R)ᵀ multipliers, and Φ, for the unknowns (d, multipliers)."""
            d, multipliers = unknown[: space.m], unknown[space.m :]
            q = space.retract(motion.q, d)
            away = moved(q) - aim
            inertial = _balance(tree, links, mechanics.stack_by_run(tree, away), None, d - h * v)
            balance = inertial - loop.phi_q.T @ multipliers
            return jnp.concatenate([balance, self.equations.residual(q, t + h)])

        rows = loop.phi_q.shape[0]
        start = jax.lax.stop_gradient(jnp.concatenate([h * v, jnp.zeros(rows, v.dtype)]))
        unknown, change, gap = simplified_newton(missing, loop.solve, start, iterations)
        d = unknown[: space.m]
        q = space.retract(motion.q, d)
        v = mechanics.nearest_rate(tree, q, moved(q) / h, t + h, d / h)
        return Closed(q, d, change[: space.m], gap[space.m :]), self.close_velocity(q, v, t + h, motion.end_floor)

    def _loop(self, inertia: Articulated, q, at, t, floor) -> Loop:
        """Return the factored equations of the loops at q = θ, with `at` the coordinates of the bodies."""
        by_bodies = mechanics.jacobian_by_bodies(self.tree, at, t)
        phi_q = mechanics.jacobian_by_joints(self.tree, inertia.links, by_bodies)
        by_multipliers = inertia.solve(phi_q.T)
        schur = factor_symmetric_semidefinite(phi_q @ by_multipliers, floor, self.equations.pivots(q, t))
        return Loop(self.tree, by_bodies, inertia, phi_q, by_multipliers, schur)


class OpenTree(AbstractElimination):
    """Solver for a tree without loops: an ordinary differential equation, with nothing to close."""

    def accelerations(self, q, v, t, correction, floor):
        """Return θ̈, and empty λ and kept: there are no constraints."""
        links, loads, _ = mechanics.links_and_loads(self.tree, q, v, t)
        inertia, free = factor_and_solve(self.tree, links, loads)
        a = implicit_solution(_tree_gap, Articulated.solve, (self.tree, links, loads, 0 * free), inertia, free)
        return a, jnp.zeros(0, q.dtype), jnp.ones(0, q.dtype)

    def metric(self, q, t):
        """Return the identity: there is nothing to close."""
        return lambda x: x

    def close_velocity(self, q, v, t, floor=None):
        """Return v unchanged: there are no constraints."""
        return v


class ClosedTree(AbstractElimination):
    """Solver for a tree with loops, whose multipliers are computed when the bodies have been eliminated."""

    def accelerations(self, q, v, t, correction, floor):
        """Return θ̈, λ and kept, with `correction` added to γ of the loops."""
        tree = self.tree
        links, loads, _ = mechanics.links_and_loads(tree, q, v, t)
        inertia, free = factor_and_solve(tree, links, loads)
        at, speeds = mechanics.state_of_bodies(tree, links, q, v)
        # γ with v̇ = R θ̈ + Ṙ θ̇.
        drifts = mechanics.drifts(tree, links, uniform_acceleration(tree.mech))
        gamma = -second_rate(partial(mechanics.gaps, tree), tree.layout, at, speeds, drifts, t) + correction
        loop = self._loop(inertia, q, at, t, floor)
        return *loop.solve_implicitly(loads, free, gamma), jax.lax.stop_gradient(loop.schur.kept)

    def metric(self, q, t):
        """Return the function x ↦ H⁻¹ x with H = RᵀMR."""
        links, *_ = mechanics.at_rest(self.tree, q, t)
        inertia = factor_articulated(self.tree, links)

        def solve(x):
            """Return H⁻¹ x for a vector or columns; differentiable for a vector."""
            if x.ndim > 1:
                return inertia.solve(x)
            return implicit_solution(
                _tree_gap, Articulated.solve, (self.tree, links, None, x), inertia, inertia.solve(x)
            )

        return solve

    def close_velocity(self, q, v, t, floor=None):
        """Return the θ̇ that satisfies the loops and is nearest to v in the metric H."""
        links, at, _ = mechanics.at_rest(self.tree, q, t)
        loop = self._loop(factor_articulated(self.tree, links), q, at, t, floor)
        return v + loop.solve_implicitly(None, jnp.zeros_like(v), -self.equations.velocity_gap(q, v, t))[0]


class Loop(eqx.Module):
    """Factored H = RᵀMR and Φ_q R H⁻¹ (Φ_q R)ᵀ, to solve H θ̈ − (Φ_q R)ᵀλ = τ and Φ_q R θ̈ = γ.

    Attributes:
        tree: the tree.
        by_bodies: Φ_q of the loops by the velocities of the bodies.
        inertia: factored H.
        phi_q: Φ_q R, by the joint velocities.
        by_multipliers: H⁻¹ (Φ_q R)ᵀ, θ̈ by unit multipliers.
        schur: factored Φ_q R H⁻¹ (Φ_q R)ᵀ.
    """

    tree: JointTree
    by_bodies: Float[Array, "rows k"]
    inertia: Articulated
    phi_q: Float[Array, "rows m"]
    by_multipliers: Float[Array, "m rows"]
    schur: Factored

    def solve_implicitly(self, loads, free, right):
        """Return θ̈ and λ for τ = Rᵀ loads, zero if loads is None, γ = `right` and `free` = H⁻¹ τ; differentiable."""
        given = self.tree, self.inertia.links, self.by_bodies, loads, right
        x = implicit_solution(_loop_gap, Loop.solve, given, self, self._with_multipliers(free, right))
        return x[: free.size], x[free.size :]

    def solve(self, right):
        """Return (θ̈, λ), one after the other, for right sides (τ, γ)."""
        m = self.phi_q.shape[1]
        return self._with_multipliers(self.inertia.solve(right[:m]), right[m:])

    def _with_multipliers(self, free, right):
        """Return (θ̈, λ) from `free`, the θ̈ that would result without λ, and γ = `right`."""
        multipliers = self.schur.solve(right - self.phi_q @ free)
        return jnp.concatenate([free + self.by_multipliers @ multipliers, multipliers])


def _tree_gap(given, rates):
    """Return H θ̈ − Rᵀ loads − τ, (m,), for θ̈ = `rates` and given = (tree, links, loads, τ); zero in the solution."""
    tree, links, loads, force = given
    return _balance(tree, links, joint_space.body_rates(tree, links, rates), loads, rates) - force


def _loop_gap(given, x):
    """Return H θ̈ − Rᵀ loads − (Φ_q R)ᵀλ, then Φ_q R θ̈ − γ, for x = (θ̈, λ); zero in the solution."""
    tree, links, by_bodies, loads, right = given
    rates, multipliers = jnp.split(x, [tree.space.m])
    rates_of_bodies = joint_space.body_rates(tree, links, rates)
    pull = mechanics.wrenches(tree, links, by_bodies.T @ multipliers)
    loads = pull if loads is None else [load + more for load, more in zip(loads, pull, strict=True)]
    closing = by_bodies @ joint_space.concatenate_bodies(tree, rates_of_bodies, rates) - right
    return jnp.concatenate([_balance(tree, links, rates_of_bodies, loads, rates), closing])


def _balance(tree: JointTree, links: list, rates: list, loads, at_joints):
    """Return Rᵀ(M v̇ − loads) + J θ̈, (m,), with v̇ = `rates` by run and θ̈ = `at_joints`; loads of None are zero."""
    left = mechanics.net_wrenches(tree, links, rates, loads)
    found = efforts(tree.space, links, left, jnp.zeros(0, links[0].axes.dtype))
    return found if tree.inertia is None else found + tree.inertia * at_joints
