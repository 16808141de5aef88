"""Factorisations of JAX in a trace: Cholesky, LU with partial pivoting, triangular systems."""

from __future__ import annotations

import numpy as np

from jaxmbs.programs.graph.nodes import array
from jaxmbs.programs.tracing.rules import rule


def _by_matrix(x: np.ndarray):
    """Return a batch of matrices (…, m, n) as (batch, m, n)."""
    return x.reshape(-1, *x.shape[-2:])


@rule("cholesky")
def _cholesky(tracer, eqn, x):
    """Return the lower triangular factors L of matrices A = L Lᵀ."""
    graph = tracer.graph
    results = []
    for a in _by_matrix(x):
        n = a.shape[0]
        lower = tracer.constants(np.zeros((n, n)))
        for j in range(n):
            taken = graph.total([graph.mul(lower[j, k], lower[j, k]) for k in range(j)])
            pivot = lower[j, j] = graph.make("sqrt", graph.sub(a[j, j], taken))
            reciprocal = graph.make("div", graph.constant(1.0), pivot)
            for i in range(j + 1, n):
                taken = graph.total([graph.mul(lower[i, k], lower[j, k]) for k in range(j)])
                lower[i, j] = graph.mul(graph.sub(a[i, j], taken), reciprocal)
        results.append(lower)
    return np.stack(results).reshape(x.shape)


@rule("triangular_solve")
def _triangular_solve(tracer, eqn, a, b):
    """Return the solutions of triangular systems, by substitution."""
    p = eqn.params
    results = []
    for matrix, rhs in zip(_by_matrix(a), _by_matrix(b), strict=True):
        lower = p["lower"]
        if p["transpose_a"]:
            matrix, lower = matrix.T, not lower
        if not p["left_side"]:
            matrix, lower, rhs = matrix.T, not lower, rhs.T
        x = _substitute(tracer.graph, matrix, rhs, lower, p["unit_diagonal"])
        results.append(x if p["left_side"] else x.T)
    return np.stack(results).reshape(b.shape)


def _substitute(graph, matrix, rhs, lower: bool, unit: bool):
    """Return the solution of a triangular system by substitution; `unit`: the diagonal counts as ones."""
    n = matrix.shape[0]
    x = np.empty_like(rhs)
    for i in range(n) if lower else reversed(range(n)):
        done = range(i) if lower else range(i + 1, n)
        reciprocal = None if unit else graph.make("div", graph.constant(1.0), matrix[i, i])
        for k in range(rhs.shape[1]):
            value = rhs[i, k]
            for j in done:
                value = graph.sub(value, graph.mul(matrix[i, j], x[j, k]))
            x[i, k] = value if reciprocal is None else graph.mul(value, reciprocal)
    return x


@rule("lu")
def _lu(tracer, eqn, x):
    """Return L and U in one matrix, the pivot rows and the row order, with rows swapped by selection."""
    graph = tracer.graph
    factors, pivots, orders = [], [], []
    zero = graph.constant(0.0)
    for a in _by_matrix(x):
        a = a.copy()
        m, n = a.shape
        order = [graph.constant(i) for i in range(m)]
        swaps = []
        for j in range(min(m, n)):
            place, best = graph.constant(j), graph.make("abs", a[j, j])
            rivals = [i for i in range(j + 1, m) if a[i, j] is not zero]
            for i in rivals:
                size = graph.make("abs", a[i, j])
                better = graph.make("gt", size, best)
                place, best = graph.select(better, graph.constant(i), place), graph.select(better, size, best)
            for i in rivals:
                here = graph.make("eq", place, graph.constant(i))
                for row in (*(a[:, k] for k in range(n)), order):
                    row[i], row[j] = graph.select(here, row[j], row[i]), graph.select(here, row[i], row[j])
            swaps.append(place)
            reciprocal = graph.make("div", graph.constant(1.0), a[j, j])
            for i in range(j + 1, m):
                a[i, j] = graph.mul(a[i, j], reciprocal)
                for k in range(j + 1, n):
                    a[i, k] = graph.sub(a[i, k], graph.mul(a[i, j], a[j, k]))
        factors.append(a)
        pivots.append(swaps)
        orders.append(order)
    shapes = [v.aval.shape for v in eqn.outvars]
    return [
        np.stack(factors).reshape(shapes[0]),
        array([p for row in pivots for p in row], shapes[1]),
        array([p for row in orders for p in row], shapes[2]),
    ]
