"""Factorisation and solution of small dense linear systems as JAX primitives.

Both have two forms: array code (`array_code`), and in straight-line programs an elimination (`rules`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxmbs.programs.linear.array_code import GENERAL_KINDS, factor_array, solve_array
from jaxmbs.programs.runtime.primitive import zero_tangent


def factorise(matrix, limit, kind: str) -> list:
    """Factorise a matrix; derivatives are taken where the factors are used, see `solve_factorised`.

    Args:
        matrix: A (m, n).
        limit: True if A is regular, for the kinds "general" and "in_units"; the least pivot of each row (n,), for
            "semidefinite".
        kind: "general", for m ≥ n; "in_units", the same for a matrix whose rows and columns have units of equal meaning,
            so that they are not scaled first; "symmetric", for positive definite matrices; "semidefinite".

    Returns:
        [factors, sign, rcond, kept]: factors for `solve_factorised`; the sign of the determinant; a cheap estimate of
        1 / condition number; 1 for each row that takes part, 0 for the others (m,).
    """
    return factorise_p.bind(jax.lax.stop_gradient(matrix), limit, kind=kind)


def solve_factorised(matrix, factors, limit, rhs, kind: str):
    """Return the solutions (n, k) for right-hand sides (m, k), differentiable by the matrix and the right-hand sides.

    Args:
        matrix: as given to `factorise`.
        factors: its first result.
        limit: as given to `factorise`.
        rhs: right-hand sides (m, k).
        kind: as given to `factorise`.
    """
    return solve_p.bind(matrix, factors, limit, rhs, kind=kind, transposed=False)


# Primitive of `factorise`.
factorise_p = Primitive("factorise")
factorise_p.multiple_results = True
# Primitive of `solve_factorised`.
solve_p = Primitive("solve_factored")


@factorise_p.def_abstract_eval
def _factor_abstract(matrix, limit, *, kind):
    """Return the shapes and types of factors, sign, rcond and kept rows."""
    turned = (*matrix.shape[:-2], matrix.shape[-1], matrix.shape[-2])
    shapes = turned, matrix.shape[:-2], matrix.shape[:-2], matrix.shape[:-1]
    return [jax.core.ShapedArray(shape, matrix.dtype) for shape in shapes]


@solve_p.def_abstract_eval
def _solve_abstract(matrix, factors, limit, rhs, *, kind, transposed):
    """Return the shape and type of the solutions."""
    size = factors.shape[-1 if transposed and kind in GENERAL_KINDS else -2]
    return jax.core.ShapedArray((*rhs.shape[:-2], size, rhs.shape[-1]), rhs.dtype)


factorise_p.def_impl(jax.jit(factor_array, static_argnames="kind"))
solve_p.def_impl(jax.jit(solve_array, static_argnames=("kind", "transposed")))
mlir.register_lowering(factorise_p, mlir.lower_fun(factor_array, multiple_results=True))
mlir.register_lowering(solve_p, mlir.lower_fun(solve_array, multiple_results=False))


def _batch_factor(args, dims, *, kind):
    """Factorise a batch of matrices, the batch axis in front."""
    return factorise_p.bind(*_in_front(args, dims), kind=kind), [0, 0, 0, 0]


def _batch_solve(args, dims, **params):
    """Solve for a batch."""
    if any(d is not None for d in dims[:3]):
        return solve_p.bind(*_in_front(args, dims), **params), 0
    # The same matrix for all samples: their right-hand sides become further columns.
    rhs = jnp.moveaxis(args[3], dims[3], -1)
    x = solve_p.bind(*args[:3], rhs.reshape(*rhs.shape[:-2], -1), **params)
    return x.reshape(*x.shape[:-1], *rhs.shape[-2:]), rhs.ndim - 1


def _in_front(args, dims) -> list:
    """Return all arguments with the batch axis in front."""
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    return [
        jnp.broadcast_to(x, (size, *jnp.shape(x))) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(args, dims, strict=True)
    ]


batching.primitive_batchers[factorise_p] = _batch_factor
batching.primitive_batchers[solve_p] = _batch_solve


def _factor_jvp(primals, tangents, *, kind):
    """Return factors and estimates with zero tangents: factors are differentiated where they are used."""
    results = factorise_p.bind(*primals, kind=kind)
    return results, [zero_tangent(x) for x in results]


def _solve_jvp(primals, tangents, *, kind, transposed):
    """Return x = A⁻¹ b and its tangent A⁻¹ (ḃ − Ȧ x)."""
    matrix, factors, limit, rhs = primals
    x = solve_p.bind(matrix, factors, limit, rhs, kind=kind, transposed=transposed)
    change = None if type(tangents[3]) is ad.Zero else tangents[3]
    if type(tangents[0]) is not ad.Zero:
        turned = jnp.swapaxes(tangents[0], -1, -2) if transposed else tangents[0]
        product = jnp.matmul(turned, x)
        change = -product if change is None else change - product
    if change is None:
        return x, zero_tangent(x)
    return x, solve_p.bind(matrix, factors, limit, change, kind=kind, transposed=transposed)


def _solve_transpose(cotangent, matrix, factors, limit, rhs, *, kind, transposed):
    """Return the cotangent A⁻ᵀ c of the right-hand sides, in which the solution is linear."""
    if type(cotangent) is ad.Zero:
        return None, None, None, None
    solution = solve_p.bind(matrix, factors, limit, cotangent, kind=kind, transposed=not transposed)
    return None, None, None, solution


ad.primitive_jvps[factorise_p] = _factor_jvp
ad.primitive_jvps[solve_p] = _solve_jvp
ad.primitive_transposes[solve_p] = _solve_transpose
