"""Factors of small dense matrices as array code, which is vector code in a batch on every platform."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Largest number of rows with which symmetric matrices are eliminated row by row; larger ones are split into halves.
MAX_BLOCK_ROWS = 16

# Factors, sign, rcond and kept rows; see `primitives.factorise`.
Factorisation = tuple[Array, Array, Array, Array]


# Kinds of `primitives.factorise` for matrices without symmetry.
GENERAL_KINDS = ("general", "in_units")


# GPUs and TPUs multiply matrices in fewer digits unless they are told not to.
@jax.default_matmul_precision("highest")
def factor_array(matrix: Array, limit: Array, *, kind: str) -> Factorisation:
    """Return factors, sign, rcond and kept rows, for any leading batch axes; see `primitives.factorise`."""
    if kind == "symmetric":
        limit = jnp.zeros(matrix.shape[:-1], matrix.dtype)
    invert = partial(_invert, scale=kind == "general")
    one: Callable[[Array, Array], Factorisation] = invert if kind in GENERAL_KINDS else _symmetric_root
    for _ in range(matrix.ndim - 2):
        one = jax.vmap(one)
    return one(matrix, limit)


@jax.default_matmul_precision("highest")
def solve_array(matrix: Array, factors: Array, limit: Array, rhs: Array, *, kind: str, transposed: bool) -> Array:
    """Return the solutions for right-hand sides (…, m, k), for any leading batch axes, by the factors alone."""
    turned = jnp.swapaxes(factors, -1, -2)
    if kind in GENERAL_KINDS:
        return jnp.matmul(turned if transposed else factors, rhs)
    return jnp.matmul(turned, jnp.matmul(factors, rhs))


def _symmetric_root(matrix: Array, floor: Array) -> Factorisation:
    """Factor a positive definite or semidefinite matrix A.

    LAPACK's Cholesky factors are avoided, because XLA's threads sometimes deadlock in programs that call LAPACK several
    times.

    Args:
        matrix: A (n, n).
        floor: least pivot of each row (n,).

    Returns:
        (G with GᵀG an inverse for the rows whose pivots are above `floor`, zero in the others; 1; smallest pivot / diagonal
        entry; 1 for these rows, 0 for the others).
    """
    # G instead of the inverse: a pivot that is only rounding, but above the floor, makes the inverse so large that the
    # rounding of its entries spoils solutions. In G it affects one row, whose part of a solution lies in the null space.
    root, pivots = _root_by_blocks(matrix, floor)
    diagonal = jnp.diagonal(matrix)
    rcond = jnp.min(pivots / jnp.where(diagonal > 0, diagonal, 1), initial=1)
    return root, jnp.ones((), matrix.dtype), rcond, (pivots > floor).astype(matrix.dtype)


def _root_by_blocks(matrix: Array, floor: Array) -> tuple[Array, Array]:
    """Return D^(−½) L⁻¹ and the pivots of L D Lᵀ, by halves and the Schur complement of one."""
    n = matrix.shape[0]
    if n == 0:
        return matrix, jnp.diagonal(matrix)
    if n <= MAX_BLOCK_ROWS:
        return _root_by_rows(matrix, floor)
    k = n // 2
    coupling = matrix[:k, k:]
    first, first_pivots = _root_by_blocks(matrix[:k, :k], floor[:k])
    turned = first @ coupling
    second, second_pivots = _root_by_blocks(matrix[k:, k:] - turned.T @ turned, floor[k:])
    rows = [
        jnp.concatenate([first, jnp.zeros_like(coupling)], axis=1),
        jnp.concatenate([-second @ turned.T @ first, second], axis=1),
    ]
    return jnp.concatenate(rows), jnp.concatenate([first_pivots, second_pivots])


def _root_by_rows(matrix: Array, floor: Array) -> tuple[Array, Array]:
    """Return D^(−½) L⁻¹ and the pivots of L D Lᵀ, row by row."""
    index = jnp.arange(matrix.shape[0])

    def eliminate(k: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Eliminate row k; carry: the rest of the matrix, L⁻¹, reciprocals of pivots (zero below the floor)."""
        rest, lower, reciprocals = carry
        pivot = rest[k, k]
        reciprocal = jnp.where(pivot > floor[k], 1 / pivot, 0)
        factors = jnp.where(index > k, rest[:, k] * reciprocal, 0)
        rest = rest - factors[:, None] * rest[k][None, :]
        lower = lower - factors[:, None] * lower[k][None, :]
        return rest, lower, reciprocals.at[k].set(reciprocal)

    start = matrix, jnp.eye(index.size, dtype=matrix.dtype), jnp.zeros(index.size, matrix.dtype)
    rest, lower, reciprocals = jax.lax.fori_loop(0, index.size, eliminate, start)
    return jnp.sqrt(reciprocals)[:, None] * lower, jnp.diagonal(rest)


def _invert(matrix: Array, regular: Array, scale: bool) -> Factorisation:
    """Return (inverse or left inverse, sign of the determinant, rcond, ones); the inverse is zero if not regular."""
    rows, columns = (jnp.ones(size, matrix.dtype) for size in matrix.shape)
    if scale:
        rows = _largest_sizes(matrix, 1)
    scaled = matrix / rows[:, None]
    if scale:
        columns = _largest_sizes(scaled, 0)
    eliminated = _gauss_jordan if matrix.shape[0] == matrix.shape[1] else _left_inverse
    inverse, sign, rcond = eliminated(scaled / columns[None, :])
    inverse = jnp.where(regular, inverse / columns[:, None] / rows[None, :], 0)
    if not scale:
        # Relative to the units, even if all entries are small.
        rcond = jnp.minimum(rcond, rcond * jnp.max(jnp.abs(matrix)))
    return inverse, sign, rcond, jnp.ones(matrix.shape[0], matrix.dtype)


def _left_inverse(matrix: Float[Array, "rows n"]) -> tuple[Array, Array, Array]:
    """Return `_gauss_jordan` for more rows than columns: the inverse of the rows that become pivots, zeros elsewhere."""
    m, n = matrix.shape
    index = jnp.arange(m)

    def eliminate(k: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Eliminate column k; carry: rows after row exchanges, smallest and largest pivot."""
        rest, smallest, largest = carry
        pivot_row = jnp.argmax(jnp.where(index >= k, jnp.abs(rest[:, k]), -1))
        rest = rest[jnp.where(index == k, pivot_row, jnp.where(index == pivot_row, k, index))]
        size = jnp.abs(rest[k, k])
        row = rest[k] / rest[k, k]
        rest = jnp.where((index == k)[:, None], row[None, :], rest - rest[:, k][:, None] * row[None, :])
        return rest, jnp.minimum(smallest, size), jnp.maximum(largest, size)

    one = jnp.ones((), matrix.dtype)
    start = jnp.concatenate([matrix, jnp.eye(m, dtype=matrix.dtype)], axis=1), jnp.inf * one, 0 * one
    rest, smallest, largest = jax.lax.fori_loop(0, n, eliminate, start)
    return rest[:n, n:], one, smallest / largest


def _largest_sizes(values: Array, axis: int) -> Array:
    """Return the largest absolute values along an axis, with 1 in place of 0."""
    largest = jnp.max(jnp.abs(values), axis=axis)
    return jnp.where(largest > 0, largest, 1)


def _gauss_jordan(matrix: Float[Array, "n n"]) -> tuple[Array, Array, Array]:
    """Invert by elimination with partial pivoting.

    It is a counted loop of elementwise operations: with a batch axis vector code on every platform, and faster than the
    libraries' batched LU up to a dozen rows or so.

    Returns:
        (inverse, sign of the determinant, smallest pivot / largest pivot).
    """
    n = matrix.shape[0]
    index = jnp.arange(n)

    def eliminate(k: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        """Eliminate column k; carry: rows, their order, sign of the order, smallest and largest pivot."""
        rest, order, sign, smallest, largest = carry
        pivot_row = jnp.argmax(jnp.where(index >= k, jnp.abs(rest[:, k]), -1))
        swapped = jnp.where(index == k, pivot_row, jnp.where(index == pivot_row, k, index))
        rest, order = rest[swapped], order[swapped]
        pivot = rest[k, k]
        here = index == k
        row = jnp.where(here, 1, rest[k]) / pivot
        factors = jnp.where(here, 0, rest[:, k])
        rest = jnp.where(here[None, :], 0, rest) - factors[:, None] * row[None, :]
        rest = jnp.where(here[:, None], row[None, :], rest)
        sign = sign * jnp.sign(pivot) * jnp.where(pivot_row == k, 1, -1)
        size = jnp.abs(pivot)
        return rest, order, sign, jnp.minimum(smallest, size), jnp.maximum(largest, size)

    one = jnp.ones((), matrix.dtype)
    start = (matrix, index, one, jnp.inf * one, 0 * one)
    rest, order, sign, smallest, largest = jax.lax.fori_loop(0, n, eliminate, start)
    # The columns belong to the rows in the order in which they became pivots.
    return rest @ (order[:, None] == index[None, :]).astype(matrix.dtype), sign, smallest / largest
