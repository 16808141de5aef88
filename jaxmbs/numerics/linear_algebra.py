"""Linear systems with the small dense matrices of mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float


class Inverse(NamedTuple):
    """The inverse of a small matrix, or its pseudo-inverse where it is not square.

    Attributes:
        matrix: K (n, m).
        sign: the sign of the determinant, −1, 0 or 1 (1 where the matrix is not square).
        rcond: a cheap estimate of 1 / condition number, after rows and columns are scaled to unit maximum.
    """

    matrix: Float[Array, "n m"]
    sign: Float[Array, ""]
    rcond: Float[Array, ""]


def inverse(matrix: Float[Array, "m n"]) -> Inverse:
    """Invert a matrix once for several right-hand sides; the pseudo-inverse gives least-squares, minimum-norm solutions.

    Rows and columns are scaled first, because a constraint may be a length or its square, and a coordinate a length or
    an angle: without it neither pivots nor the condition estimate mean anything.
    """
    m, n = matrix.shape
    if m != n:
        return _pseudo_inverse(matrix)
    rows = _largest(matrix, 1)
    scaled = matrix / rows[:, None]
    columns = _largest(scaled, 0)
    lu, pivots, permutation = jax.lax.linalg.lu(scaled / columns)
    identity = jnp.eye(n, dtype=matrix.dtype)[permutation]
    lower = jax.lax.linalg.triangular_solve(lu, identity, left_side=True, lower=True, unit_diagonal=True)
    scaled_inverse = jax.lax.linalg.triangular_solve(lu, lower, left_side=True, lower=False)
    diagonal = jnp.diagonal(lu)
    swaps = jnp.sum(pivots != jnp.arange(n))
    sign = jnp.prod(jnp.sign(diagonal)) * jnp.where(swaps % 2 == 0, 1, -1)
    magnitude = jnp.abs(diagonal)
    return Inverse(scaled_inverse / columns[:, None] / rows, sign, jnp.min(magnitude) / jnp.max(magnitude))


def _pseudo_inverse(matrix) -> Inverse:
    m, n = matrix.shape
    singular_values = jnp.linalg.svd(jax.lax.stop_gradient(matrix), compute_uv=False)
    rcond = singular_values[min(m, n) - 1] / jnp.maximum(singular_values[0], jnp.finfo(matrix.dtype).tiny)
    # Redundant rows leave singular values at rounding level; the cut lies between those and the smallest real one.
    pseudo = jnp.linalg.pinv(matrix, rtol=jnp.finfo(matrix.dtype).eps ** 0.75)
    return Inverse(pseudo, jnp.ones((), matrix.dtype), rcond)


def _largest(values, axis):
    """Largest absolute values along an axis, 1 where they are all zero; a scale, not to be differentiated."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(values), axis=axis))
    return jnp.where(largest > 0, largest, 1)


def symmetric_solver(matrix: Float[Array, "n n"]) -> Callable:
    """rhs ↦ solution for a symmetric positive definite matrix, factored once by Cholesky's method."""
    cholesky = jsl.cho_factor(matrix)
    return lambda rhs: jsl.cho_solve(cholesky, rhs)
