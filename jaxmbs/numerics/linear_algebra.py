"""Linear systems with the small dense matrices of mechanisms.

`jaxmbs.programs` factorises and solves: by an elimination ordered for the zeros and constants of the matrix in
straight-line programs, by array code elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from jaxmbs.numerics.roots import implicit_solution
from jaxmbs.programs import factorise, solve_factorised

# Exponent p of the rounding unit ε in the shift of a singular M: a `Support` with `angular` adds ε^2p times each
# diagonal entry, and ε^3p times the largest entry of coordinates of the same kind, because entries may be zero. ε^2p is
# far from rounding, and the error of the solution after one refinement, its square, is rounding.
SHIFT_EXPONENT = 1 / 4


class Factored(eqx.Module):
    """A matrix factored once for several right-hand sides; mostly its pseudo-inverse if it is not square, see `factor`.

    Attributes:
        matrix: A (m, n).
        sign: the sign of the determinant, −1, 0 or 1 (1 if the matrix is not square).
        rcond: a cheap estimate of 1 / condition number, after rows and columns are scaled to unit maximum, or by a unit.
        kept: 1 for each row that takes part, 0 for those left out of a semidefinite matrix.
        _factors: the factors from `factorise`, or the pseudo-inverse (n, m).
        _kind: "general", "in_units", "symmetric", "semidefinite" or "pseudo".
        _limit: the argument `limit` of `factorise`; for "pseudo" False if solutions are to be zero.
        _unit: (n,), by which solutions are multiplied; None for 1.
    """

    matrix: Float[Array, "rows n"]
    sign: Float[Array, ""]
    rcond: Float[Array, ""]
    kept: Float[Array, " rows"]
    _factors: Array
    _kind: str = eqx.field(static=True)
    _limit: Array
    _unit: Float[Array, " n"] | None = None

    def solve(self, rhs: Float[Array, "rows *k"]) -> Float[Array, "n *k"]:
        """Return x with A x = rhs, for rhs (m,) or (m, k); with a pseudo-inverse least squares of smallest norm.

        Differentiable: dx = A⁻¹ (d rhs − dA x), for every order and both modes.
        """
        if self._kind == "pseudo":
            return jnp.where(self._limit, self._factors @ rhs, 0)
        columns = rhs[:, None] if rhs.ndim == 1 else rhs
        x = solve_factorised(self.matrix, self._factors, self._limit, columns, self._kind)
        x = jnp.where(self._limit, x, 0) if self._kind in ("general", "in_units") else x
        x = x if self._unit is None else x * self._unit[:, None]
        return x[:, 0] if rhs.ndim == 1 else x


def factor(
    matrix: Float[Array, "rows n"],
    regular: Array | bool = True,
    *,
    determined: bool = False,
    unit: Float[Array, " n"] | None = None,
) -> Factored:
    """Return the factors of a matrix; if `regular` is False its solutions and their derivatives are zero.

    A matrix that is not square gets its pseudo-inverse, by singular values. If it has more rows than columns and is known
    to have full column rank (`determined`), the rows with the largest pivots are solved instead, and the others are assumed
    to agree with them.

    Rows and columns are scaled first, because a constraint may be a length or its square, and a coordinate a length or
    an angle: without that neither pivots nor the condition estimate mean anything.

    If `unit`, the unit of each column, is given, the rows must be in units already. Columns are then multiplied by it, and
    nothing else is scaled: a row that holds only rounding errors stays small, and `rcond` is zero if a row or a column is.
    A pseudo-inverse does not use `unit`.
    """
    rows, n = matrix.shape
    if rows < n or (rows > n and not determined):
        return _pseudo(matrix, regular)
    if unit is not None:
        factors = _factor(matrix * unit[None, :], regular, "in_units")
        return eqx.tree_at(lambda factors: factors._unit, factors, unit, is_leaf=lambda x: x is None)
    return _factor(matrix, regular, "general")


def factor_symmetric_positive(matrix: Float[Array, "n n"]) -> Factored:
    """Return the factors of a symmetric positive definite matrix, by Cholesky's method or as L D Lᵀ."""
    return _factor(matrix, True, "symmetric")


def factor_symmetric_semidefinite(
    matrix: Float[Array, "n n"], floor: Float[Array, " n"] | None = None, sizes: Float[Array, " n"] | None = None
) -> Factored:
    """Return the factors L D Lᵀ of a symmetric matrix without negative eigenvalues.

    Rows that depend on rows before them, to rounding, are left out: their part of a solution is zero, and the others
    solve the whole system if it is consistent. `rcond` is the smallest pivot in units of its diagonal entry.

    Args:
        matrix: the matrix.
        floor: a row whose pivot is below this fraction of its diagonal entry is left out; `pivot_floor` by default.
        sizes: diagonal entries as they would be if nothing cancelled in them. They count if they are larger: an entry that
            vanishes except for rounding is no measure of its own pivot.
    """
    part = pivot_floor(matrix.dtype) if floor is None else floor
    diagonal = jnp.diagonal(jax.lax.stop_gradient(matrix))
    limit = part * (diagonal if sizes is None else jnp.maximum(diagonal, sizes))
    return _factor(matrix, jax.lax.stop_gradient(limit), "semidefinite")


def pivot_floor(dtype: DTypeLike) -> float:
    """Return the fraction of a diagonal entry below which a pivot is left out, because it is only rounding.

    It is some tens of rounding errors. Near a singular position true pivots are as small as the square of the distance
    from it, and forces without them would be wrong altogether; a pivot of rounding that is taken for a true one changes
    multipliers in the null space only, which does no harm.
    """
    return 64 * float(jnp.finfo(dtype).eps)


def floors(kept: Array, *, revived: bool) -> Float[Array, " n"]:
    """Return the pivot floor of each row for a matrix similar to a factored one, whose mask of used rows is `kept`.

    These rows have the usual floor. The others are left out; if `revived`, they are used if their pivots are far from
    rounding.
    """
    # No pivot is above its diagonal entry, so twice that excludes a row.
    excluded = jnp.full_like(kept, redundancy(kept.dtype) if revived else 2.0)
    return jnp.where(kept > 0, pivot_floor(kept.dtype), excluded)


def redundancy(dtype: DTypeLike) -> float:
    """Return the `rcond` of a semidefinite matrix below which rows may depend on each other.

    It is ε^⅔, far from rounding and from the pivots of regular mechanisms.
    """
    return float(jnp.finfo(dtype).eps) ** (2 / 3)


def _factor(matrix: Array, limit: Array | bool, kind: str) -> Factored:
    """Return a matrix factored by `factorise`; `kind` and `limit` as there."""
    limit = jnp.asarray(limit)
    factors, sign, rcond, kept = factorise(matrix, limit, kind)
    return Factored(matrix, sign, rcond, kept, factors, kind, limit)


def diagonal(entries: Float[Array, " n"]) -> Callable[[Array], Array]:
    """Return the function x ↦ D x, D being the diagonal matrix of these entries, for x (n,) or (n, k)."""
    return lambda x: entries.reshape(-1, *[1] * (x.ndim - 1)) * x


class Support(NamedTuple):
    """Rows of J that make M regular: with M + Jᵀρ J and Q + Jᵀρ γ for M and Q the solution is the same.

    Attributes:
        rows: their indices.
        weights: ρ of each.
        angular: mask of the coordinates that are angles, if M may be singular even with these rows. Then a little is
            added to the diagonal, and refining the solution removes the error. None if it is not.
    """

    rows: np.ndarray
    weights: Float[Array, " k"]
    angular: np.ndarray | None = None

    def matrix(self, jacobian: Float[Array, "rows n"]) -> Float[Array, "n n"]:
        """Return Jᵀρ J, with a small addition to its diagonal if `angular` is given."""
        rows = jacobian[self.rows]
        found = rows.T @ (self.weights[:, None] * rows)
        if self.angular is None:
            return found
        diagonal, part = jax.lax.stop_gradient(jnp.diagonal(found)), jnp.finfo(found.dtype).eps ** SHIFT_EXPONENT
        largest = lambda alike: jnp.max(jnp.where(alike, diagonal, 0), initial=0)
        alike = jnp.where(self.angular, largest(self.angular), largest(~self.angular))
        return found + part**2 * jnp.diag(diagonal + part * alike)

    def pull(self, jacobian: Float[Array, "rows n"]) -> Float[Array, "n rows"]:
        """Return Jᵀρ (n, rows): the columns of Jᵀ that belong to `rows` times their weights ρ, zeros in others."""
        return jnp.zeros_like(jacobian.T).at[:, self.rows].set(jacobian[self.rows].T * self.weights[None, :])


def solve_saddle_point(
    mass: Array,
    jacobian: Array,
    force: Array,
    right: Array,
    floor: Array | None = None,
    sizes: Array | None = None,
    *,
    definite: bool = True,
    support: Support | None = None,
    refined: bool = False,
) -> tuple[Array, Array, Array]:
    """Solve M a = Q + Jᵀλ and J a = γ for accelerations and multipliers, by the Schur complement J M⁻¹ Jᵀ.

    Of rows of J that depend on each other some have a multiplier of zero; γ has to be consistent. Derivatives solve the
    same equations: M da − Jᵀdλ = dQ − dM a + dJᵀλ, J da = dγ − dJ a.

    Args:
        mass: M (n, n), symmetric positive definite.
        jacobian: J (m, n).
        force: Q (n,).
        right: γ (m,).
        floor: as for `factor_symmetric_semidefinite`.
        sizes: as for `factor_symmetric_semidefinite`.
        definite: False if coordinates may have neither inertia nor constraints; these do not accelerate.
        support: rows of J that make M regular.
        refined: True to refine the solution once, if entries of M differ much in size.

    Returns:
        (a (n,), λ (m,), kept (m,), 0 for rows that were left out).
    """
    floor = jnp.full(right.shape, pivot_floor(right.dtype), right.dtype) if floor is None else floor
    matrix, pull = mass, None
    if support is not None and support.rows.size:
        matrix, pull = mass + support.matrix(jacobian), support.pull(jacobian)
    inverse_mass = factor_symmetric_positive(matrix) if definite else factor_symmetric_semidefinite(matrix)
    schur = factor_symmetric_semidefinite(jacobian @ inverse_mass.solve(jacobian.T), floor, sizes)
    factors = mass, jacobian, inverse_mass, schur, pull
    # If there are more rows than columns, some are dependent. Pivots that are only rounding, but are taken for true ones,
    # cost digits, which one refinement recovers.
    refined = refined or jacobian.shape[0] > jacobian.shape[1]
    solve = _refined_saddle_point if refined else _eliminated_saddle_point
    x = solve(factors, jnp.concatenate([force, right]))
    x = implicit_solution(_saddle_point_gap, solve, (mass, jacobian, force, right), factors, x)
    n = force.shape[0]
    return x[:n], x[n:], jax.lax.stop_gradient(schur.kept)


def _refined_saddle_point(factors: tuple[Any, ...], right: Array) -> Array:
    """Return (a, λ) in one vector, improved by one step of iterative refinement; right is (Q, γ)."""
    mass, jacobian = factors[:2]
    x = _eliminated_saddle_point(factors, right)
    gap = _saddle_point_gap((mass, jacobian, *jnp.split(right, [jacobian.shape[1]])), x)
    return x - _eliminated_saddle_point(factors, gap)


def _eliminated_saddle_point(factors: tuple[Any, ...], right: Array) -> Array:
    """Return (a, λ) in one vector by the Schur complement J M⁻¹ Jᵀ; right is (Q, γ) in one vector."""
    _, jacobian, inverse_mass, schur, pull = factors
    force, right = jnp.split(right, [jacobian.shape[1]])
    free = inverse_mass.solve(force if pull is None else force + pull @ right)
    multipliers = schur.solve(right - jacobian @ free)
    return jnp.concatenate([free + inverse_mass.solve(jacobian.T @ multipliers), multipliers])


def _saddle_point_gap(given: tuple[Array, Array, Array, Array], x: Array) -> Array:
    """Return (M a − Jᵀλ − Q, J a − γ) in one vector, for x = (a, λ)."""
    mass, jacobian, force, right = given
    a, multipliers = jnp.split(x, [force.shape[0]])
    return jnp.concatenate([mass @ a - jacobian.T @ multipliers - force, jacobian @ a - right])


def dependent_columns(matrix: Float[Array, "rows n"], sizes: Float[Array, " rows"] | None = None) -> Bool[Array, " n"]:
    """Return a mask of columns that make a well-conditioned square matrix with the independent rows.

    Rows are eliminated one by one, with the largest entry of the rest of a row as its pivot.

    Args:
        matrix: the matrix.
        sizes: largest entry that each row would have if nothing cancelled in it; by default the one that it has. The
            entries of a row that cancels are rounding and make no pivot.
    """
    m, n = matrix.shape
    if not matrix.size:
        return jnp.zeros(n, bool)
    matrix, index = jax.lax.stop_gradient(matrix), jnp.arange(n)
    smallest = redundancy(matrix.dtype) * (jnp.max(jnp.abs(matrix), axis=1) if sizes is None else sizes)
    taken = jnp.zeros(n, bool)
    for k in range(m):
        row = jnp.where(taken, 0, matrix[k])
        here = (index == jnp.argmax(jnp.abs(row))) & (jnp.max(jnp.abs(row)) > smallest[k])
        taken = taken | here
        pivot = jnp.sum(jnp.where(here, row, 0))
        factors = jnp.sum(jnp.where(here[None, :], matrix[k + 1 :], 0), axis=1) / jnp.where(pivot == 0, 1, pivot)
        matrix = matrix.at[k + 1 :].add(-factors[:, None] * matrix[k][None, :])
    return taken


def _pseudo(matrix: Array, regular: Array | bool) -> Factored:
    """Return a matrix of any shape factored by its pseudo-inverse; `regular` as of `factor`."""
    m, n = matrix.shape
    one, kept = jnp.ones((), matrix.dtype), jnp.ones(m, matrix.dtype)
    if not matrix.size:
        return Factored(matrix, one, one, kept, jnp.zeros((n, m), matrix.dtype), "pseudo", jnp.asarray(regular))
    matrix = jnp.where(regular, matrix, jnp.eye(m, n, dtype=matrix.dtype))
    singular_values = jnp.linalg.svd(jax.lax.stop_gradient(matrix), compute_uv=False)
    rcond = singular_values[min(m, n) - 1] / jnp.maximum(singular_values[0], jnp.finfo(matrix.dtype).tiny)
    # Redundant rows leave singular values at rounding level; the cut lies between those and the smallest real one.
    pseudo = jnp.linalg.pinv(matrix, rtol=jnp.finfo(matrix.dtype).eps ** 0.75)
    return Factored(matrix, one, rcond, kept, pseudo, "pseudo", jnp.asarray(regular))
