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
    scaled_inverse, sign, rcond = _gauss_jordan(scaled / columns)
    return Inverse(scaled_inverse / columns[:, None] / rows, sign, rcond)


@jax.custom_jvp
def _gauss_jordan(matrix: Float[Array, "n n"]):
    """(K, sign of the determinant, smallest pivot / largest pivot) by elimination with partial pivoting.

    A counted loop of elementwise operations: with a batch axis it is vector code on every platform, and beats the
    libraries' batched LU up to a dozen rows or so.
    """
    n = matrix.shape[0]
    index = jnp.arange(n)

    def eliminate(k, carry):
        rest, order, sign, smallest, largest = carry
        pivot_row = jnp.argmax(jnp.where(index >= k, jnp.abs(rest[:, k]), -1))
        swapped = jnp.where(index == k, pivot_row, jnp.where(index == pivot_row, k, index))
        rest, order = rest[swapped], order[swapped]
        pivot = rest[k, k]
        here = index == k
        row = jnp.where(here, 1, rest[k]) / pivot
        factors = jnp.where(here, 0, rest[:, k])
        rest = jnp.where(here[None, :], 0, rest) - factors[:, None] * row[None, :]
        rest = jnp.where(here[:, None], row, rest)
        sign = sign * jnp.sign(pivot) * jnp.where(pivot_row == k, 1, -1)
        size = jnp.abs(pivot)
        return rest, order, sign, jnp.minimum(smallest, size), jnp.maximum(largest, size)

    one = jnp.ones((), matrix.dtype)
    start = (matrix, index, one, jnp.inf * one, 0 * one)
    rest, order, sign, smallest, largest = jax.lax.fori_loop(0, n, eliminate, start)
    # The columns belong to the rows in the order in which they became pivots.
    return rest @ (order[:, None] == index).astype(matrix.dtype), sign, smallest / largest


@_gauss_jordan.defjvp
def _gauss_jordan_jvp(primals, tangents):
    """dK = −K dA K; the estimates have no derivative worth the name."""
    inverted, sign, rcond = _gauss_jordan(*primals)
    change = -inverted @ tangents[0] @ inverted
    return (inverted, sign, rcond), (change, jnp.zeros_like(sign), jnp.zeros_like(rcond))


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
