"""Least squares with many blocks that share a few unknowns, by the method of Levenberg and Marquardt.

A curve that is to pass points is such a problem: all points share the design, and each has an unknown of its own, its
place along the curve. The unknowns of the blocks are eliminated one by one, so a step costs in proportion to the number
of blocks, and only a system as large as the shared unknowns is solved. All steps run in one compiled program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.numerics.linear_algebra import factor_symmetric_positive

# Marquardt's damping before the first step of `levenberg_marquardt`, relative to the diagonal of the normal matrix.
START_DAMPING = 1e-2
# Lower limit on Marquardt's damping in `levenberg_marquardt`.
MIN_DAMPING = 1e-12
# Upper limit on Marquardt's damping in `levenberg_marquardt`.
MAX_DAMPING = 1e8
# Factor on Marquardt's damping in `levenberg_marquardt` after a step that lowers the cost.
DAMPING_DECREASE = 1 / 3
# Factor on Marquardt's damping in `levenberg_marquardt` after a step that does not lower the cost.
DAMPING_INCREASE = 4.0
# Added to the diagonal of the normal matrix, relative to its largest entry, so that unknowns without effect leave the
# matrix regular.
DIAGONAL_SHIFT = 1e-12


class LeastSquaresResult(NamedTuple):
    """Unknowns and cost after the steps.

    Attributes:
        shared: (n,) the shared unknowns.
        own: (K, p) the unknowns of the blocks.
        carried: values that the blocks carry from step to step.
        cost: sum of squares.
        damping: Marquardt's damping, from which further steps can go on.
    """

    shared: Float[Array, " n"]
    own: Float[Array, "K p"]
    carried: Any
    cost: Float[Array, ""]
    damping: Float[Array, ""]


def levenberg_marquardt(
    residual: Callable[..., Any],
    prior: Callable[..., Any],
    shared: Float[Array, " n"],
    own: Float[Array, "K p"],
    carried: Any,
    data: Any,
    *,
    iterations: int,
    max_step: float,
    damping: Float[Array, ""] | float = START_DAMPING,
    reverse: bool = False,
) -> LeastSquaresResult:
    """Minimise Σ_k ‖r_k‖² + ‖r₀‖² over the shared unknowns and those of K blocks, with a fixed number of steps.

    Args:
        residual: (shared, own_k, carried_k, data_k) ↦ (r_k, carried_k): the residual of a block, and the values that it
            hands to the next step, such as a configuration from which the next one is found.
        prior: shared ↦ r₀, rows that belong to no block: penalties, bounds.
        shared: start of the shared unknowns.
        own: start of the blocks' unknowns; p is 0 or 1.
        carried: a tree with a leading axis of blocks.
        data: a tree with a leading axis of blocks, or a function of the shared unknowns that returns one, such as the
            points nearest to a curve. It counts as constant where rows are differentiated.
        iterations: number of steps.
        max_step: largest change of an unknown in one step.
        damping: Marquardt's damping at the start; that of a `LeastSquaresResult` continues it.
        reverse: differentiate rows in reverse mode, for blocks with few rows and many unknowns.

    Returns:
        The best unknowns reached.

    Raises:
        ValueError: more than one unknown in a block.
    """
    p = own.shape[1]
    if p > 1:
        raise ValueError(f"a block has at most one unknown of its own, got {p}")

    data_of = (lambda shared: jax.lax.stop_gradient(data(shared))) if callable(data) else (lambda shared: data)
    derivative = jax.jacrev if reverse else jax.jacfwd

    def evaluate(shared: Array, own: Array, carried: Any) -> tuple[Array, Any, Any]:
        """Return the sum of squares, the carried values, and the blocks' data if these depend on the unknowns."""
        rows, block_data = prior(shared), data_of(shared)

        def add(total: Array, block: tuple[Array, Any, Any]) -> tuple[Array, Any]:
            """Add the squared residual of a block to the sum; return also the values that it hands on."""
            r, handed_on = residual(shared, *block)
            return total + r @ r, handed_on

        cost, handed_on = jax.lax.scan(add, rows @ rows, (own, carried, block_data))
        return cost, handed_on, block_data if callable(data) else ()

    def step(carry: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], None]:
        """Take one damped step, or reject it; carry: shared, own, carried, block data, damping, cost."""
        shared, own, carried, current_data, mu, cost = carry
        blocks = own, carried, current_data if callable(data) else data
        matrix, gradient, (mixed, slope, inverse) = _normal_equations(residual, prior, shared, blocks, mu, derivative)
        change = -factor_symmetric_positive(matrix).solve(gradient)
        change = change / jnp.maximum(1, jnp.max(jnp.abs(change)) / max_step)
        own_change = jax.vmap(lambda mixed, slope, inverse: -inverse * (slope + mixed.T @ change))(
            mixed, slope, inverse
        )
        own_change = jnp.clip(own_change, -max_step, max_step)
        trial, own_trial = shared + change, own + own_change
        trial_cost, handed_on, trial_data = evaluate(trial, own_trial, carried)
        better = trial_cost < cost
        keep = lambda new, old: jax.tree.map(lambda x, y: jnp.where(better, x, y), new, old)
        mu = jnp.where(
            better, jnp.maximum(mu * DAMPING_DECREASE, MIN_DAMPING), jnp.minimum(mu * DAMPING_INCREASE, MAX_DAMPING)
        )
        kept = keep((trial, own_trial, handed_on), (shared, own, carried))
        current_data = jax.lax.map(lambda pair: keep(*pair), (trial_data, current_data)) if callable(data) else ()
        return (*kept, current_data, mu, jnp.where(better, trial_cost, cost)), None

    cost, carried, current_data = evaluate(shared, own, carried)
    start = shared, own, carried, current_data, jnp.asarray(damping, shared.dtype), cost
    (shared, own, carried, _, damping, cost), _ = jax.lax.scan(step, start, None, length=iterations)
    return LeastSquaresResult(shared, own, carried, cost, jnp.asarray(damping))


def _normal_equations(
    residual: Callable[..., Any],
    prior: Callable[..., Any],
    shared: Array,
    blocks: tuple[Array, Any, Any],
    mu: Array,
    derivative: Callable[..., Any],
) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """Return the damped normal matrix and gradient of the shared unknowns, and the blocks' parts for back-substitution.

    Those parts are, for each block, the mixed second derivatives (n, p), the gradient (p,) and the inverse diagonal (p,).
    """
    n = shared.shape[0]
    rows, by_shared = prior(shared), jax.jacfwd(prior)(shared)
    start = by_shared.T @ by_shared, by_shared.T @ rows, jnp.zeros((n, n)), jnp.zeros(n)

    def block_residual(shared: Array, own: Array, carried: Any, data: Any) -> Array:
        """Return the residual of a block without the values that it hands on."""
        return residual(shared, own, carried, data)[0]

    def add(sums: tuple[Array, ...], block: tuple[Array, Any, Any]) -> tuple[Any, tuple[Array, Array, Array]]:
        """Add the terms of a block, its own unknown eliminated, to the sums of the normal equations."""
        matrix, gradient, eliminated, shift = sums
        r = block_residual(shared, *block)
        by_shared, by_own = derivative(block_residual, (0, 1))(shared, *block)
        matrix, gradient = matrix + by_shared.T @ by_shared, gradient + by_shared.T @ r
        mixed, slope = by_shared.T @ by_own, by_own.T @ r
        square = by_own.T @ by_own
        # With at most one unknown the square is its own diagonal.
        inverse = 1 / (jnp.diagonal(square) * (1 + mu) + DIAGONAL_SHIFT)
        weighted = mixed * inverse[None, :]
        sums = matrix, gradient, eliminated + weighted @ mixed.T, shift + weighted @ slope
        return sums, (mixed, slope, inverse)

    (matrix, gradient, eliminated, shift), block_parts = jax.lax.scan(add, start, blocks)
    diagonal = jnp.diagonal(matrix)
    damped = matrix + jnp.diag(mu * diagonal + DIAGONAL_SHIFT * jnp.max(diagonal)) - eliminated
    return damped, gradient - shift, block_parts
