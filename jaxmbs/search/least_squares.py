"""Least squares with many blocks that share a few unknowns, by the method of Levenberg and Marquardt.

A curve that is to pass points is such a problem: all points share the design, each has an unknown of its own that says
where on the curve it is to be found. The unknowns of the blocks are eliminated one by one: a step costs in proportion to
the number of blocks, and only a system as large as the shared unknowns is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.numerics.linear_algebra import factor_symmetric_positive

# Marquardt's damping: where it starts, its limits, and by how much it changes after a good and after a bad step.
START_DAMPING, MIN_DAMPING, MAX_DAMPING, BETTER, WORSE = 1e-2, 1e-12, 1e8, 1 / 3, 4.0
# What is added to the diagonal relative to it, so that directions that change nothing do not matter.
TINY = 1e-12


class Fit(NamedTuple):
    """What has been found.

    Attributes:
        shared: (n,) the shared unknowns. own: (K, p) those of the blocks. state: what the blocks carry along.
        cost: the sum of squares. damping: Marquardt's, for further steps.
    """

    shared: Float[Array, " n"]
    own: Float[Array, "K p"]
    state: Any
    cost: Float[Array, ""]
    damping: Float[Array, ""]


def levenberg_marquardt(
    residual: Callable,
    prior: Callable,
    shared: Float[Array, " n"],
    own: Float[Array, "K p"],
    state: Any,
    data: Any,
    *,
    iterations: int,
    longest: float,
    damping: Float[Array, ""] | float = START_DAMPING,
    reverse: bool = False,
) -> Fit:
    """Minimise Σ_k ‖r_k‖² + ‖r₀‖² over the shared unknowns and those of K blocks; a fixed number of steps.

    Args:
        residual: (shared, own_k, state_k, data_k) ↦ (r_k, state_k): what a block misses, and what it carries along to the
            next step, such as a configuration from which the next one is found.
        prior: shared ↦ r₀, rows that belong to no block: penalties, bounds.
        shared, own, state, data: where to start; own, state and data with a leading axis of blocks. p is 0 or 1. `data`
            may be a function of the shared unknowns, such as what lies nearest to a curve; it counts as constant where
            rows are differentiated.
        longest: no unknown changes more in a step.
        damping: where to start; that of a `Fit` to go on from it.
        reverse: differentiate rows in reverse mode, for blocks with few rows and many unknowns.

    Raises:
        ValueError: more than one unknown in a block.
    """
    p = own.shape[1]
    if p > 1:
        raise ValueError(f"a block has one unknown of its own, or none, got {p}")

    data_of = (lambda shared: jax.lax.stop_gradient(data(shared))) if callable(data) else (lambda shared: data)
    derivative = jax.jacrev if reverse else jax.jacfwd

    def evaluated(shared, own, state):
        """The sum of squares, what the blocks carry along, and their data where these depend on the unknowns."""
        rows, of_blocks = prior(shared), data_of(shared)

        def add(total, of_block):
            r, carried = residual(shared, *of_block)
            return total + r @ r, carried

        cost, carried = jax.lax.scan(add, rows @ rows, (own, state, of_blocks))
        return cost, carried, of_blocks if callable(data) else ()

    def step(carry, _):
        shared, own, state, found, mu, cost = carry
        blocks = own, state, found if callable(data) else data
        matrix, gradient, (mixed, slope, inverse) = _normal(residual, prior, shared, blocks, mu, derivative)
        change = -factor_symmetric_positive(matrix).solve(gradient)
        change = change / jnp.maximum(1, jnp.max(jnp.abs(change)) / longest)
        own_change = jax.vmap(lambda mixed, slope, inverse: -inverse * (slope + mixed.T @ change))(
            mixed, slope, inverse
        )
        own_change = jnp.clip(own_change, -longest, longest)
        moved, own_moved = shared + change, own + own_change
        now, carried, found_now = evaluated(moved, own_moved, state)
        better = now < cost
        keep = lambda new, old: jax.tree.map(lambda x, y: jnp.where(better, x, y), new, old)
        mu = jnp.where(better, jnp.maximum(mu * BETTER, MIN_DAMPING), jnp.minimum(mu * WORSE, MAX_DAMPING))
        kept = keep((moved, own_moved, carried), (shared, own, state))
        found = jax.lax.map(lambda of_block: keep(*of_block), (found_now, found)) if callable(data) else ()
        return (*kept, found, mu, jnp.where(better, now, cost)), None

    cost, state, found = evaluated(shared, own, state)
    start = shared, own, state, found, jnp.asarray(damping, shared.dtype), cost
    (shared, own, state, _, damping, cost), _ = jax.lax.scan(step, start, None, length=iterations)
    return Fit(shared, own, state, cost, jnp.asarray(damping))


def _normal(residual: Callable, prior: Callable, shared, blocks, mu, derivative):
    """The damped normal equations of the shared unknowns, and what gives the blocks their own."""
    n = shared.shape[0]
    rows, by_shared = prior(shared), jax.jacfwd(prior)(shared)
    start = by_shared.T @ by_shared, by_shared.T @ rows, jnp.zeros((n, n)), jnp.zeros(n)

    def block(shared, own, state, data):
        return residual(shared, own, state, data)[0]

    def add(sums, of_block):
        matrix, gradient, taken, shift = sums
        r, (by_shared, by_own) = block(shared, *of_block), derivative(block, (0, 1))(shared, *of_block)
        matrix, gradient = matrix + by_shared.T @ by_shared, gradient + by_shared.T @ r
        mixed, slope = by_shared.T @ by_own, by_own.T @ r
        square = by_own.T @ by_own
        # A block has one unknown of its own, or none.
        inverse = 1 / (jnp.diagonal(square) * (1 + mu) + TINY)
        weighted = mixed * inverse[None, :]
        return (matrix, gradient, taken + weighted @ mixed.T, shift + weighted @ slope), (mixed, slope, inverse)

    (matrix, gradient, taken, shift), of_blocks = jax.lax.scan(add, start, blocks)
    diagonal = jnp.diagonal(matrix)
    damped = matrix + jnp.diag(mu * diagonal + TINY * jnp.max(diagonal)) - taken
    return damped, gradient - shift, of_blocks
