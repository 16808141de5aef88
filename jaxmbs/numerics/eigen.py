"""Eigenvalues and eigenvectors with derivatives that stay finite where other eigenvalues cluster.

Derivatives are those of simple eigenvalues: dλ = lᴴ dA r / lᴴ r with the left and right eigenvectors l and r. In a cluster,
derivatives of eigenvectors leave out their parts along each other.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

# Eigenvalues whose difference is at most this many rounding units of the largest one are a cluster.
CLUSTER_ROUNDINGS = 64
# Eigenvalues, and eigenvectors as columns.
Pair = tuple[Array, Array]
# Eigenvalues, and left and right eigenvectors as columns.
Triple = tuple[Array, Array, Array]


@jax.custom_jvp
def symmetric_eigen(matrix: Float[Array, "k k"]) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """Return the eigenvalues of a symmetric matrix, ascending, and its orthonormal eigenvectors as columns."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


@symmetric_eigen.defjvp
def _symmetric_eigen_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Pair, Pair]:
    """Return eigenvalues and eigenvectors, and their tangents."""
    values, vectors = symmetric_eigen(*primals)
    by = vectors.T @ tangents[0] @ vectors
    return (values, vectors), (jnp.diagonal(by), vectors @ (by * _reciprocal_differences(values)))


@jax.custom_jvp
def general_eigen(
    matrix: Float[Array, "k k"],
) -> tuple[Complex[Array, " k"], Complex[Array, "k k"], Complex[Array, "k k"]]:
    """Return the eigenvalues of a square matrix, its left and its right eigenvectors as columns. On CPUs only."""
    values, left, right = jax.lax.linalg.eig(matrix)
    return values, left, right


@general_eigen.defjvp
def _general_eigen_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Triple, Triple]:
    """Return eigenvalues and eigenvectors, and their tangents."""
    values, left, right = general_eigen(*primals)
    by, product = jnp.conj(left.T) @ tangents[0].astype(values.dtype) @ right, jnp.sum(jnp.conj(left) * right, axis=0)
    product = jnp.where(product == 0, 1, product)
    apart = by * _reciprocal_differences(values)
    left_dot = left @ jnp.conj(-apart / product[None, :]).T
    return (values, left, right), (jnp.diagonal(by) / product, left_dot, right @ (apart / product[:, None]))


def _reciprocal_differences(values: Array) -> Array:
    """Return 1 / (λ_j − λ_i), (k, k), with zeros for pairs of the same cluster."""
    apart = values[None, :] - values[:, None]
    small = CLUSTER_ROUNDINGS * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values), initial=0)
    close = jnp.abs(apart) <= small
    return jnp.where(close, 0, 1 / jnp.where(close, 1, apart))
