"""The equations that accelerations in joint coordinates solve, for a tree and with loops, and what solves the latter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.formulations.joint import space as joint_space
from jaxmbs.formulations.joint.articulated import Articulated, efforts, wrench_of
from jaxmbs.formulations.joint.space import mapped
from jaxmbs.numerics.linear_algebra import Factored
from jaxmbs.numerics.roots import implicit_solution

if TYPE_CHECKING:
    from jaxmbs.formulations.joint.equations import JointEquations


class Loop(eqx.Module):
    """What solves H θ̈ − (Φ_q R)ᵀλ = τ and Φ_q R θ̈ = γ: H = RᵀMR and Φ_q R H⁻¹ (Φ_q R)ᵀ factored."""

    equations: JointEquations
    links: list
    by_bodies: Float[Array, "rows k"]
    inertia: Articulated
    phi_q: Float[Array, "rows m"]
    by_multipliers: Float[Array, "m rows"]
    schur: Factored

    def solved(self, loads, free, right):
        """θ̈ and λ, for τ = Rᵀ loads, if there are any, and `free` = H⁻¹ τ."""
        multipliers = self.schur.solve(right - self.phi_q @ free)
        x = jnp.concatenate([free + self.by_multipliers @ multipliers, multipliers])
        given = self.equations, self.links, self.by_bodies, loads, right
        x = implicit_solution(loop_gap, Loop.solve, given, self, x)
        return x[: free.size], x[free.size :]

    def solve(self, right):
        """(θ̈, λ) for right sides (τ, γ)."""
        free = self.inertia.solve(right[: self.phi_q.shape[1]])
        multipliers = self.schur.solve(right[self.phi_q.shape[1] :] - self.phi_q @ free)
        return jnp.concatenate([free + self.by_multipliers @ multipliers, multipliers])


def tree_gap(given, rates):
    """H θ̈ − Rᵀ loads − τ."""
    equations, links, loads, force = given
    return balance(equations, links, rates_of_bodies(equations, links, rates), loads) - force


def loop_gap(given, x):
    """H θ̈ − Rᵀ loads − (Φ_q R)ᵀλ and Φ_q R θ̈ − γ."""
    equations, links, by_bodies, loads, right = given
    theta_rates, multipliers = jnp.split(x, [equations.space.m])
    rates = rates_of_bodies(equations, links, theta_rates)
    pull = mapped(equations.space.runs, wrench_of, links, equations._of_runs(by_bodies.T @ multipliers))
    loads = pull if loads is None else [load + more for load, more in zip(loads, pull, strict=True)]
    of_bodies = joint_space.of_bodies(equations.tree, rates, theta_rates)
    return jnp.concatenate([balance(equations, links, rates, loads), by_bodies @ of_bodies - right])


def rates_of_bodies(equations, links, rates) -> list:
    """R θ̇, as things of the runs."""
    twists = joint_space.spread(equations.tree, links, rates)
    return mapped(
        equations.space.runs, lambda link, twist: joint_space.body_velocity(link.motion, twist), links, twists
    )


def balance(equations, links, rates, loads):
    """Rᵀ(M v̇ − loads)."""
    wrenches = mapped(equations.space.runs, momentum, equations.tree.edges, links, rates)
    if loads is not None:
        wrenches = [x - load for x, load in zip(wrenches, loads, strict=True)]
    return efforts(equations.space, links, wrenches, jnp.zeros(0, links[0].axes.dtype))


@jax.jit
def momentum(edge, link, velocity):
    """M v of a body as a wrench."""
    return wrench_of(link, edge.body.mass_matrix(link.motion.pose) @ velocity)
