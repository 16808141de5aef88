"""Linear systems with the small dense matrices of mechanisms.

Factoring and solving are JAX primitives with two forms: array code (`factorisation`), and in straight-line programs an
elimination ordered for the zeros and constants of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Bool, Float

from jaxmbs.numerics.factorisation import factor_array, solve_array
from jaxmbs.numerics.roots import implicit_solution
from jaxmbs.programs.primitive import zero_tangent
from jaxmbs.programs.tracing.elimination import Elimination, Factors, factor_symmetric
from jaxmbs.programs.tracing.marks import AbstractRule, marked
from jaxmbs.programs.tracing.rules import product
from jaxmbs.programs.tracing.trace import RULES, TAKES_MEMORY, Deferred, array

# A `Support` with `angular` adds this power of the rounding unit, squared, times each diagonal entry, and cubed, times the
# largest entry of coordinates of the same kind, because entries may be zero. Squared it is far from rounding; the error of
# the solution after one refinement is its square, which is rounding.
MORE_POWER = 1 / 4


class Factored(eqx.Module):
    """A matrix factored once for several right-hand sides; where it is not square, mostly its pseudo-inverse: see `factor`.

    Attributes:
        matrix: A (m, n).
        sign: the sign of the determinant, −1, 0 or 1 (1 where the matrix is not square).
        rcond: a cheap estimate of 1 / condition number, after rows and columns are scaled to unit maximum.
        kept: 1 for each row that takes part, 0 for those left out of a semidefinite matrix.
    """

    matrix: Float[Array, "rows n"]
    sign: Float[Array, ""]
    rcond: Float[Array, ""]
    kept: Float[Array, " rows"]
    _factors: Array
    _kind: str = eqx.field(static=True)
    _limit: Array

    def solve(self, rhs: Float[Array, "rows *k"]) -> Float[Array, "n *k"]:
        """x with A x = rhs, for rhs (m,) or (m, k); by the pseudo-inverse least squares of smallest norm.

        Differentiable: dx = A⁻¹ (d rhs − dA x), for every order and both modes.
        """
        if self._kind == "pseudo":
            return jnp.where(self._limit, self._factors @ rhs, 0)
        columns = rhs[:, None] if rhs.ndim == 1 else rhs
        x = solve_p.bind(self.matrix, self._factors, self._limit, columns, kind=self._kind, transposed=False)
        x = jnp.where(self._limit, x, 0) if self._kind == "general" else x
        return x[:, 0] if rhs.ndim == 1 else x


def factor(matrix: Float[Array, "rows n"], regular=True, *, determined: bool = False) -> Factored:
    """Factor a matrix; where `regular` is False its solutions are zero, and so are their derivatives.

    A matrix that is not square has its pseudo-inverse, which needs singular values, unless its rows are more than enough
    and known to leave nothing free (`determined`): then those with the largest pivots are solved, and the others are taken
    to agree.

    Rows and columns are scaled first, because a constraint may be a length or its square, and a coordinate a length or
    an angle: without it neither pivots nor the condition estimate mean anything.
    """
    rows, n = matrix.shape
    if rows < n or (rows > n and not determined):
        return _pseudo(matrix, regular)
    return _factor(matrix, regular, "general")


def factor_symmetric_positive(matrix: Float[Array, "n n"]) -> Factored:
    """Factor a symmetric positive definite matrix, by Cholesky's method or as L D Lᵀ."""
    return _factor(matrix, True, "symmetric")


def factor_symmetric_semidefinite(
    matrix: Float[Array, "n n"], floor: Float[Array, " n"] | None = None, sizes: Float[Array, " n"] | None = None
) -> Factored:
    """Factor a symmetric matrix without negative eigenvalues, as L D Lᵀ.

    Rows that depend on rows before them, to rounding, are left out: their part of a solution is zero, and the others solve
    the whole system if it is consistent. `rcond` is the smallest pivot in units of its diagonal entry.
    floor: a row with a pivot below this part of its diagonal entry is left out; `pivot_floor` unless given.
    sizes: diagonal entries as they would be if nothing cancelled in them, which count where they are the larger ones: an
        entry that vanishes but for rounding is not a measure of its own pivot.
    """
    part = pivot_floor(matrix.dtype) if floor is None else floor
    diagonal = jnp.diagonal(jax.lax.stop_gradient(matrix))
    limit = part * (diagonal if sizes is None else jnp.maximum(diagonal, sizes))
    return _factor(matrix, jax.lax.stop_gradient(limit), "semidefinite")


def pivot_floor(dtype) -> float:
    """A pivot below this part of its diagonal entry is left out: it has nothing but rounding in it.

    Some tens of roundings, no more. Near a singular position true pivots are as small as the square of the distance from
    it, and forces without them would be wrong altogether; a pivot of rounding that is taken for a true one changes
    multipliers in the null space only, which does no harm.
    """
    return 64 * float(jnp.finfo(dtype).eps)


def floors(kept, *, revived: bool) -> Float[Array, " n"]:
    """Pivot floors for a matrix similar to a factored one, of which the rows `kept` were used.

    These rows have the usual floor. The others are left out; if `revived`, they are used where their pivots are far from
    rounding.
    """
    # No pivot is above its diagonal entry, so twice that excludes a row.
    excluded = jnp.full_like(kept, redundancy(kept.dtype) if revived else 2.0)
    return jnp.where(kept > 0, pivot_floor(kept.dtype), excluded)


def redundancy(dtype) -> float:
    """`Factored.rcond` of a semidefinite matrix below this may mean that rows depend on each other: ε^⅔, far from rounding
    and from the pivots of regular mechanisms alike."""
    return float(jnp.finfo(dtype).eps) ** (2 / 3)


def _factor(matrix, limit, kind: str) -> Factored:
    limit = jnp.asarray(limit)
    factors, sign, rcond, kept = factor_p.bind(jax.lax.stop_gradient(matrix), limit, kind=kind)
    return Factored(matrix, sign, rcond, kept, factors, kind, limit)


def diagonal(entries: Float[Array, " n"]) -> Callable:
    """x ↦ D x with D the diagonal matrix of these entries, for x (n,) or (n, k)."""
    return lambda x: entries.reshape(-1, *[1] * (x.ndim - 1)) * x


def symmetric_solver(matrix: Float[Array, "n n"]) -> Callable:
    """rhs ↦ solution for a symmetric positive definite matrix."""
    return factor_symmetric_positive(matrix).solve


class Support(NamedTuple):
    """Rows of J that make M regular: with M + Jᵀρ J and Q + Jᵀρ γ in place of M and Q the solution is the same.

    Attributes:
        rows: their indices.
        weights: ρ of each.
        angular: mask of the coordinates that are angles, if M may be singular even with these rows. Then a little is added
            to the diagonal, and refining the solution removes the error. None if not.
    """

    rows: np.ndarray
    weights: Float[Array, " k"]
    angular: np.ndarray | None = None

    def matrix(self, jacobian: Float[Array, "rows n"]) -> Float[Array, "n n"]:
        """Jᵀρ J, with a small addition to its diagonal if `angular` is given."""
        rows = jacobian[self.rows]
        found = rows.T @ (self.weights[:, None] * rows)
        if self.angular is None:
            return found
        diagonal, part = jax.lax.stop_gradient(jnp.diagonal(found)), jnp.finfo(found.dtype).eps ** MORE_POWER
        largest = lambda alike: jnp.max(jnp.where(alike, diagonal, 0), initial=0)
        alike = jnp.where(self.angular, largest(self.angular), largest(~self.angular))
        return found + part**2 * jnp.diag(diagonal + part * alike)

    def pull(self, jacobian: Float[Array, "rows n"]) -> Float[Array, "n rows"]:
        """Jᵀρ, zero for the other rows."""
        return jnp.zeros_like(jacobian.T).at[:, self.rows].set(jacobian[self.rows].T * self.weights[None, :])


def solve_saddle_point(
    mass,
    jacobian,
    force,
    right,
    floor=None,
    sizes=None,
    *,
    definite: bool = True,
    support: Support | None = None,
    refined: bool = False,
):
    """(a, λ, kept) with M a = Q + Jᵀλ and J a = γ: accelerations and multipliers, by the Schur complement J M⁻¹ Jᵀ.

    mass: M (n, n), symmetric positive definite; jacobian: J (m, n); force: Q (n,); right: γ (m,). Of rows of J that depend
    on each other some have a multiplier of zero; γ has to be consistent. kept (m,) is 0 for those; floor and sizes as for
    `factor_symmetric_semidefinite`. Where M is not `definite`, coordinates with neither inertia nor constraints do
    not accelerate.
    With a `Support` M need not be regular. refined: True to refine the solution once, if entries of M differ much in size.
    Derivatives solve the same equations: M da − Jᵀdλ = dQ − dM a + dJᵀλ, J da = dγ − dJ a.
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


def _refined_saddle_point(factors, right):
    mass, jacobian = factors[:2]
    x = _eliminated_saddle_point(factors, right)
    gap = _saddle_point_gap((mass, jacobian, *jnp.split(right, [jacobian.shape[1]])), x)
    return x - _eliminated_saddle_point(factors, gap)


def _eliminated_saddle_point(factors, right):
    _, jacobian, inverse_mass, schur, pull = factors
    force, right = jnp.split(right, [jacobian.shape[1]])
    free = inverse_mass.solve(force if pull is None else force + pull @ right)
    multipliers = schur.solve(right - jacobian @ free)
    return jnp.concatenate([free + inverse_mass.solve(jacobian.T @ multipliers), multipliers])


def _saddle_point_gap(given, x):
    mass, jacobian, force, right = given
    a, multipliers = jnp.split(x, [force.shape[0]])
    return jnp.concatenate([mass @ a - jacobian.T @ multipliers - force, jacobian @ a - right])


def dependent_columns(matrix: Float[Array, "rows n"]) -> Bool[Array, " n"]:
    """Which columns make a well-conditioned square matrix with the independent rows: elimination row by row, the largest
    entry of what is left of a row as its pivot."""
    m, n = matrix.shape
    if not matrix.size:
        return jnp.zeros(n, bool)
    matrix, index = jax.lax.stop_gradient(matrix), jnp.arange(n)
    smallest = redundancy(matrix.dtype) * jnp.max(jnp.abs(matrix), axis=1)
    taken = jnp.zeros(n, bool)
    for k in range(m):
        row = jnp.where(taken, 0, matrix[k])
        here = (index == jnp.argmax(jnp.abs(row))) & (jnp.max(jnp.abs(row)) > smallest[k])
        taken = taken | here
        pivot = jnp.sum(jnp.where(here, row, 0))
        factors = jnp.sum(jnp.where(here[None, :], matrix[k + 1 :], 0), axis=1) / jnp.where(pivot == 0, 1, pivot)
        matrix = matrix.at[k + 1 :].add(-factors[:, None] * matrix[k][None, :])
    return taken


def _pseudo(matrix, regular) -> Factored:
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


# matrix, whether it is regular or, if semidefinite, the least pivot of each row ↦ factors, sign, rcond, kept
factor_p = Primitive("factor")
factor_p.multiple_results = True
# matrix, its factors, what else was given for factoring it, right sides (n, k) ↦ solutions (n, k)
solve_p = Primitive("solve_factored")


@factor_p.def_abstract_eval
def _factor_abstract(matrix, limit, *, kind):
    turned = (*matrix.shape[:-2], matrix.shape[-1], matrix.shape[-2])
    shapes = turned, matrix.shape[:-2], matrix.shape[:-2], matrix.shape[:-1]
    return [jax.core.ShapedArray(shape, matrix.dtype) for shape in shapes]


@solve_p.def_abstract_eval
def _solve_abstract(matrix, factors, limit, rhs, *, kind, transposed):
    size = factors.shape[-1 if transposed and kind == "general" else -2]
    return jax.core.ShapedArray((*rhs.shape[:-2], size, rhs.shape[-1]), rhs.dtype)


_jitted_factor = jax.jit(factor_array, static_argnames="kind")
_jitted_solve = jax.jit(solve_array, static_argnames=("kind", "transposed"))
factor_p.def_impl(_jitted_factor)
solve_p.def_impl(_jitted_solve)
mlir.register_lowering(factor_p, mlir.lower_fun(factor_array, multiple_results=True))
mlir.register_lowering(solve_p, mlir.lower_fun(solve_array, multiple_results=False))


def _batch_factor(args, dims, *, kind):
    return factor_p.bind(*_in_front(args, dims), kind=kind), [0, 0, 0, 0]


def _batch_solve(args, dims, **params):
    if any(d is not None for d in dims[:3]):
        return solve_p.bind(*_in_front(args, dims), **params), 0
    # One matrix for all: its right-hand sides become further columns.
    rhs = jnp.moveaxis(args[3], dims[3], -1)
    x = solve_p.bind(*args[:3], rhs.reshape(*rhs.shape[:-2], -1), **params)
    return x.reshape(*x.shape[:-1], *rhs.shape[-2:]), rhs.ndim - 1


def _in_front(args, dims) -> list:
    """All arguments with the batch axis in front."""
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    return [
        jnp.broadcast_to(x, (size, *jnp.shape(x))) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(args, dims, strict=True)
    ]


batching.primitive_batchers[factor_p] = _batch_factor
batching.primitive_batchers[solve_p] = _batch_solve


def _factor_jvp(primals, tangents, *, kind):
    """The factors are differentiated where they are used; the estimates have no derivative worth the name."""
    results = factor_p.bind(*primals, kind=kind)
    return results, [zero_tangent(x) for x in results]


def _solve_jvp(primals, tangents, *, kind, transposed):
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
    if type(cotangent) is ad.Zero:
        return None, None, None, None
    solution = solve_p.bind(matrix, factors, limit, cotangent, kind=kind, transposed=not transposed)
    return None, None, None, solution


ad.primitive_jvps[factor_p] = _factor_jvp
ad.primitive_jvps[solve_p] = _solve_jvp
ad.primitive_transposes[solve_p] = _solve_transpose


def _trace_factor(tracer, eqn, matrix, limit):
    graph = tracer.graph
    matrix, limit = tracer.nodes(matrix), tracer.nodes(limit)
    m, n = matrix.shape
    one, zero = graph.constant(1.0), graph.constant(0.0)
    identity = [[one if i == j else zero for i in range(m)] for j in range(m)]
    factors: Factors
    if eqn.params["kind"] == "general":
        elimination = Elimination(graph, matrix, limit.item())
        factors = elimination.factors
        column = factors.solve
        sign, rcond = (lambda: elimination.sign), (lambda: elimination.rcond)
        kept = lambda: array([one] * m, (m,))
    else:
        factors = symmetric = _symmetric(eqn.params["kind"], graph, matrix, limit)
        column = symmetric.half
        sign = lambda: one
        rcond = lambda: _smallest_pivot(graph, matrix, factors)
        taken = lambda step: graph.select(graph.make("ne", step.reciprocal, zero), one, zero)
        kept = lambda: array([taken(step) for step in sorted(factors.steps, key=lambda step: step.row)], (n,))
    made = lambda: array([x for e in identity for x in column(e)], (m, n)).T
    # Factors and estimates have no derivative.
    held = graph.held if tracer.marking else lambda x: x
    scalar = lambda value: Deferred(lambda: array([held(value())], ()), None)
    every = lambda: array([held(x) for x in kept()], (n,))
    return [Deferred(made, factors), scalar(sign), scalar(rcond), Deferred(every, None)]


class _Solution(AbstractRule):
    """A x = b: A ẋ = ḃ − Ȧ x."""

    def __init__(self, kind: str, transposed: bool):
        self.kind, self.transposed = kind, transposed
        self.key = "solution", kind, transposed

    def tangents(self, tracer, inputs, outputs, rates):
        matrix, factors, limit, _ = inputs
        by_matrix, _, _, change = rates
        if by_matrix is not None:
            turned = by_matrix.T if self.transposed else by_matrix
            shape = turned.shape[0], outputs[0].shape[1]
            moved = array([x for row in product(tracer.graph, turned, outputs[0]) for x in row], shape)
            change = tracer.map("neg", moved) if change is None else tracer.map("sub", change, moved)
        return self.solved(tracer, matrix, factors, limit, change)

    def cotangents(self, tracer, inputs, active, cotangents):
        return _Solution(self.kind, not self.transposed).solved(tracer, *inputs[:3], rhs=cotangents[0])

    def is_linear(self, active):
        return not active[0]

    is_direct = is_linear

    def solved(self, tracer, matrix, factors, limit, rhs):
        """The solution in a trace, marked as one."""
        graph = tracer.graph
        known = factors.known if isinstance(factors, Deferred) else None
        if known is None:
            matrix = tracer.nodes(matrix)
            general = self.kind == "general"
            limit = None if general else tracer.nodes(limit)
            known = Elimination(graph, matrix).factors if general else _symmetric(self.kind, graph, matrix, limit)
        solve = known.solve_transposed if self.transposed else known.solve
        columns = [solve(list(rhs[:, k])) for k in range(rhs.shape[1])]
        size = known.rows if self.transposed else len(known.steps)
        x = array([x for column in columns for x in column], (rhs.shape[1], size)).T
        return marked(tracer, self, [matrix, factors, limit, rhs], [x])


def _trace_solve(tracer, eqn, matrix, factors, limit, rhs):
    return _Solution(**eqn.params).solved(tracer, matrix, factors, limit, tracer.nodes(rhs))


def _symmetric(kind: str, graph, matrix, limit):
    return factor_symmetric(graph, matrix, list(limit) if kind == "semidefinite" else None)


def _smallest_pivot(graph, matrix, factors):
    smallest = graph.constant(1.0)
    for step in factors.steps:
        smallest = graph.make("min", smallest, graph.make("div", step.pivot, matrix[step.row, step.row]))
    return smallest


RULES["factor"] = _trace_factor
RULES["solve_factored"] = _trace_solve
TAKES_MEMORY.update({"factor", "solve_factored"})
