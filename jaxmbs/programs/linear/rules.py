"""Factorisation and solution of linear systems in a trace, by an elimination of nodes."""

from __future__ import annotations

from jaxmbs.programs.graph.nodes import array
from jaxmbs.programs.linear.array_code import GENERAL_KINDS
from jaxmbs.programs.linear.elimination import Elimination, Factors, factor_symmetric
from jaxmbs.programs.tracing.marks import AbstractRule, with_marks
from jaxmbs.programs.tracing.rules import product
from jaxmbs.programs.tracing.trace import RULES, TAKES_MEMORY, DeferredArray


def _trace_factorise(tracer, eqn, matrix, limit):
    """Trace a factorisation; factors and estimates are computed when something needs them, without derivatives."""
    graph = tracer.graph
    matrix, limit = tracer.nodes(matrix), tracer.nodes(limit)
    m, n = matrix.shape
    one, zero = graph.constant(1.0), graph.constant(0.0)
    identity = [[one if i == j else zero for i in range(m)] for j in range(m)]
    factors: Factors
    kind = eqn.params["kind"]
    if kind in GENERAL_KINDS:
        elimination = Elimination(graph, matrix, limit.item(), scaled=kind == "in_units")
        factors = elimination.factors
        column = factors.solve
        sign, rcond = (lambda: elimination.sign), (lambda: elimination.rcond)
        kept = lambda: array([one] * m, (m,))
    else:
        factors = symmetric = _symmetric(kind, graph, matrix, limit)
        column = symmetric.half
        sign = lambda: one
        rcond = lambda: _smallest_pivot(graph, matrix, factors)
        taken = lambda step: graph.select(graph.make("ne", step.reciprocal, zero), one, zero)
        kept = lambda: array([taken(step) for step in sorted(factors.steps, key=lambda step: step.row)], (n,))
    made = lambda: array([x for e in identity for x in column(e)], (m, n)).T
    # Factors and estimates have no derivative.
    held = graph.hold if tracer.marking else lambda x: x
    scalar = lambda value: DeferredArray(lambda: array([held(value())], ()), None)
    every = lambda: array([held(x) for x in kept()], (n,))
    return [DeferredArray(made, factors), scalar(sign), scalar(rcond), DeferredArray(every, None)]


class _Solution(AbstractRule):
    """The derivative of a solution: from A x = b follows A ẋ = ḃ − Ȧ x."""

    def __init__(self, kind: str, transposed: bool):
        self.kind, self.transposed = kind, transposed
        self.key = "solution", kind, transposed

    def tangents(self, tracer, inputs, outputs, rates):
        """Return ẋ = A⁻¹ (ḃ − Ȧ x)."""
        matrix, factors, limit, _ = inputs
        by_matrix, _, _, change = rates
        if by_matrix is not None:
            turned = by_matrix.T if self.transposed else by_matrix
            shape = turned.shape[0], outputs[0].shape[1]
            moved = array([x for row in product(tracer.graph, turned, outputs[0]) for x in row], shape)
            change = tracer.map("neg", moved) if change is None else tracer.map("sub", change, moved)
        return self.solve(tracer, matrix, factors, limit, change)

    def cotangents(self, tracer, inputs, active, cotangents):
        """Return the cotangent A⁻ᵀ c of the right-hand sides."""
        return _Solution(self.kind, not self.transposed).solve(tracer, *inputs[:3], rhs=cotangents[0])

    def is_linear(self, active):
        """Return True if the matrix does not change: x is linear in the right-hand sides."""
        return not active[0]

    is_direct = is_linear

    def solve(self, tracer, matrix, factors, limit, rhs):
        """Return the solution for these right-hand sides in a trace, marked with this rule."""
        graph = tracer.graph
        known_factors = factors.factors if isinstance(factors, DeferredArray) else None
        if known_factors is None:
            matrix = tracer.nodes(matrix)
            if self.kind in GENERAL_KINDS:
                known_factors = Elimination(graph, matrix, scaled=self.kind == "in_units").factors
            else:
                known_factors = _symmetric(self.kind, graph, matrix, tracer.nodes(limit))
        solve = known_factors.solve_transposed if self.transposed else known_factors.solve
        columns = [solve(list(rhs[:, k])) for k in range(rhs.shape[1])]
        size = known_factors.rows if self.transposed else len(known_factors.steps)
        x = array([x for column in columns for x in column], (rhs.shape[1], size)).T
        return with_marks(tracer, self, [matrix, factors, limit, rhs], [x])


def _trace_solve(tracer, eqn, matrix, factors, limit, rhs):
    """Trace a `solve` primitive: return the solution, marked with the rule of its derivative."""
    return _Solution(**eqn.params).solve(tracer, matrix, factors, limit, tracer.nodes(rhs))


def _symmetric(kind: str, graph, matrix, limit):
    """Return the factors L D Lᵀ of a symmetric matrix; `limit` has the least pivots if the kind is "semidefinite"."""
    return factor_symmetric(graph, matrix, list(limit) if kind == "semidefinite" else None)


def _smallest_pivot(graph, matrix, factors):
    """Return the smallest quotient of a pivot and its diagonal entry, at most 1; negative pivots are not divided."""
    smallest, zero = graph.constant(1.0), graph.constant(0.0)
    for step in factors.steps:
        entry = matrix[step.row, step.row]
        quotient = graph.make("div", step.pivot, entry)
        quotient = graph.select(graph.make("gt", entry, zero), quotient, step.pivot)
        smallest = graph.make("min", smallest, quotient)
    return smallest


RULES["factorise"] = _trace_factorise
RULES["solve_factored"] = _trace_solve
TAKES_MEMORY.update({"factorise", "solve_factored"})
