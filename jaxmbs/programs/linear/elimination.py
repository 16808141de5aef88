"""Elimination in small matrices of nodes, ordered when the program is made: little fill, few operations.

Known zeros are skipped. Rows and columns without a choice, and those with a constant as pivot, are eliminated first;
the blocks that remain are eliminated with partial pivoting, rows swapped by selection in every lane for itself.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import Node
from jaxmbs.programs.linear.block_triangular import diagonal_blocks

# Smallest and largest absolute value of constants that serve as pivots without comparison: those of a mechanism's
# equations are ±1 and small integers.
PIVOT_CONSTANTS = (0.125, 8.0)


@dataclasses.dataclass
class PivotStep:
    """The elimination of one row and column.

    Attributes:
        row: row of the pivot.
        column: column of the pivot.
        pivot: the pivot.
        reciprocal: 1 / pivot, zero if the row is left out.
        swaps: (condition, row, row) that are swapped before.
        factors: multiples of the row that are subtracted from other rows, by row.
        rest: the other entries of the row, by column.
    """

    row: int
    column: int
    pivot: Node
    reciprocal: Node
    swaps: list[tuple[Node, int, int]]
    factors: dict[int, Node]
    rest: dict[int, Node]

    def nodes(self) -> list[Node]:
        """Return all nodes of the step, which are those that have to be copied with it."""
        conditions = [swap[0] for swap in self.swaps]
        return [self.pivot, self.reciprocal, *conditions, *self.factors.values(), *self.rest.values()]

    def copy_with(self, of: Callable[[Node], Node]) -> PivotStep:
        """Return the step with of(node) in the place of each node."""
        swaps = [(of(condition), a, b) for condition, a, b in self.swaps]
        every: Callable[[dict[int, Node]], dict[int, Node]] = lambda some: {k: of(x) for k, x in some.items()}
        return PivotStep(
            self.row, self.column, of(self.pivot), of(self.reciprocal), swaps, every(self.factors), every(self.rest)
        )


class Factors(abc.ABC):
    """Triangular factors of a matrix, as the steps of its elimination."""

    def __init__(self, graph: Graph, steps: list[PivotStep], rows: int):
        self.graph, self.steps, self.rows = graph, steps, rows

    def nodes(self) -> list[Node]:
        """Return all nodes of the factors, which are those that have to be copied with them."""
        return [x for step in self.steps for x in step.nodes()]

    def copy_into(self, graph: Graph, of: Callable[[Node], Node]) -> Factors:
        """Return the factors in another graph; `of` maps the nodes of this one."""
        return type(self)(graph, [step.copy_with(of) for step in self.steps], self.rows)

    @abc.abstractmethod
    def solve(self, rhs: Sequence[Node]) -> list[Node]:
        """Return x with A x = rhs."""

    @abc.abstractmethod
    def solve_transposed(self, rhs: Sequence[Node]) -> list[Node]:
        """Return x with Aᵀ x = rhs."""


class GeneralFactors(Factors):
    """Factors L U with rows exchanged. If a matrix has more rows than columns, rows without a pivot take no part."""

    def solve(self, rhs: Sequence[Node]) -> list[Node]:
        g, y = self.graph, list(rhs)
        for step in self.steps:
            for condition, first, other in step.swaps:
                _swap_where(g, condition, y, first, other)
            for row, factor in step.factors.items():
                y[row] = g.sub(y[row], g.mul(factor, y[step.row]))
        x: list[Any] = [None] * len(self.steps)
        for step in reversed(self.steps):
            value = y[step.row]
            for column, entry in step.rest.items():
                value = g.sub(value, g.mul(entry, x[column]))
            x[step.column] = g.mul(value, step.reciprocal)
        return x

    def solve_transposed(self, rhs: Sequence[Node]) -> list[Node]:
        g, b = self.graph, list(rhs)
        x: list[Node] = [g.constant(0.0)] * self.rows
        for step in self.steps:
            x[step.row] = value = g.mul(b[step.column], step.reciprocal)
            for column, entry in step.rest.items():
                b[column] = g.sub(b[column], g.mul(entry, value))
        for step in reversed(self.steps):
            for row, factor in step.factors.items():
                x[step.row] = g.sub(x[step.row], g.mul(factor, x[row]))
            for condition, first, other in reversed(step.swaps):
                _swap_where(g, condition, x, first, other)
        return x


class SymmetricFactors(Factors):
    """Factors L D Lᵀ of a symmetric matrix, positive definite or semidefinite."""

    def solve(self, rhs: Sequence[Node]) -> list[Node]:
        g, y = self.graph, self._forward(rhs)
        for step in reversed(self.steps):
            value = g.mul(y[step.row], step.reciprocal)
            for row, factor in step.factors.items():
                value = g.sub(value, g.mul(factor, y[row]))
            y[step.row] = value
        return y

    solve_transposed = solve

    def half(self, rhs: Sequence[Node]) -> list[Node]:
        """Return G b with GᵀG the inverse: D^(−½) L⁻¹ b."""
        g, y = self.graph, self._forward(rhs)
        for step in self.steps:
            y[step.row] = g.mul(g.make("sqrt", step.reciprocal), y[step.row])
        return y

    def _forward(self, rhs: Sequence[Node]) -> list[Node]:
        """Return L⁻¹ b, the forward substitution, for the right-hand side b."""
        g, y = self.graph, list(rhs)
        for step in self.steps:
            for row, factor in step.factors.items():
                y[row] = g.sub(y[row], g.mul(factor, y[step.row]))
        return y


def factor_symmetric(graph: Graph, matrix: np.ndarray, floor: list[Node] | None = None) -> SymmetricFactors:
    """Return the factors L D Lᵀ of a symmetric matrix, the row with the fewest neighbours first; one triangle is read.

    Args:
        graph: the graph.
        matrix: positive definite, or semidefinite if there is a floor.
        floor: least pivot of each row; rows with lower ones depend on rows before them, and are left out.
    """
    n = matrix.shape[0]
    zero = graph.constant(0.0)
    entries = {(i, j): matrix[i, j] for i in range(n) for j in range(i + 1) if i == j or not is_zero(matrix[i, j])}
    neighbours: dict[int, set[int]] = {i: set() for i in range(n)}
    for i, j in entries:
        if i != j:
            neighbours[i].add(j)
            neighbours[j].add(i)
    at: Callable[[int, int], tuple[int, int]] = lambda i, j: (max(i, j), min(i, j))
    steps = []
    # Length of the chain of pivots that a row depends on. Of rows with equally few neighbours the one with the shortest is
    # next: chains are eliminated from both ends, which halves the latency.
    waits = dict.fromkeys(neighbours, 0)
    while neighbours:
        k = min(neighbours, key=lambda i: (len(neighbours[i]), waits[i], i))
        around = sorted(neighbours.pop(k))
        pivot = entries[k, k]
        reciprocal = _reciprocal(graph, pivot)
        if floor is not None and not pivot.is_constant:
            independent = graph.make("gt", pivot, floor[k])
            reciprocal = graph.select(independent, reciprocal, zero)
        factors = {i: graph.mul(entries[at(i, k)], reciprocal) for i in around}
        for a, i in enumerate(around):
            neighbours[i].discard(k)
            waits[i] = max(waits[i], waits[k] + 1)
            for j in around[: a + 1]:
                taken = graph.mul(factors[i], entries[at(j, k)])
                entries[at(i, j)] = graph.sub(entries.get(at(i, j), zero), taken)
                if i != j:
                    neighbours[i].add(j)
                    neighbours[j].add(i)
        steps.append(PivotStep(k, k, pivot, reciprocal, [], factors, {}))
    return SymmetricFactors(graph, steps, n)


class Elimination:
    """Elimination of a matrix with at least as many rows as columns, the order chosen from its zeros and constants.

    If `regular` is false, or a pivot is known to be zero, the reciprocals of pivots are zero: solutions are
    meaningless, but finite.

    Args:
        graph: the graph.
        matrix: nodes of the matrix.
        regular: truth value, False where the matrix is known not to be regular; None if it always is.
        scaled: True if rows and columns have units of equal meaning already, so that they are not scaled.

    Attributes:
        factors: for solving.
        sign: sign of the determinant, 1 if there is none.
        rcond: smallest / largest pivot when rows, then columns, are scaled to a largest entry of 1; with `scaled`, the
            smallest pivot, divided by the largest if that is larger than 1.
    """

    def __init__(self, graph: Graph, matrix: np.ndarray, regular: Node | None = None, *, scaled: bool = False):
        self.graph, self.scaled = graph, scaled
        self.regular = graph.constant(True) if regular is None else regular
        self.n, columns = matrix.shape
        self.more_rows = self.n > columns
        self.zero = graph.constant(0.0)
        self.original = matrix
        self.entries: list[dict[int, Node]] = [{j: x for j, x in enumerate(row) if not is_zero(x)} for row in matrix]
        self.rows, self.columns = set(range(self.n)), set(range(columns))
        self.steps: list[PivotStep] = []
        self._eliminate_without_choice()
        for rows, columns in diagonal_blocks({i: set(self.entries[i]) & self.columns for i in self.rows}, self.columns):
            self._eliminate_block(rows, columns)
        self.factors = GeneralFactors(graph, self.steps, self.n)

    def _eliminate_without_choice(self) -> None:
        """Eliminate while there are pivots without a choice: the only entry of a row or column, or a constant."""
        while self.columns:
            counts = dict.fromkeys(self.columns, 0)
            for i in self.rows:
                for j in self.entries[i]:
                    counts[j] += 1
            best = None
            for i in sorted(self.rows):
                length = len(self.entries[i])
                for j, x in self.entries[i].items():
                    # A row with a single entry has to be a pivot only if no row is left over.
                    alone = counts[j] == 1 or (length == 1 and not self.more_rows)
                    low, high = PIVOT_CONSTANTS
                    if not alone and not (x.is_constant and low <= abs(x.value) <= high):
                        continue
                    cost = ((length - 1) * (counts[j] - 1), not x.is_constant, i, j)
                    if best is None or cost < best:
                        best = cost
            if best is None:
                return
            self._eliminate(best[2], best[3], [])

    def _eliminate_block(self, rows: list[int], columns: list[int]) -> None:
        """Eliminate a block with partial pivoting, entries relative to the largest of their row at the start."""
        g = self.graph
        if len(rows) == len(columns) == 1:
            return self._eliminate(rows[0], columns[0], [])
        weights = {i: g.make("div", g.constant(1.0), self.row_size(i)) for i in rows if not self.scaled}
        rows, columns = list(rows), list(columns)
        while columns:
            column = min(columns, key=lambda j: (sum(j in self.entries[i] for i in rows), j))
            candidates = [i for i in rows if column in self.entries[i]] or rows
            first = candidates[0]
            swaps = []
            merit = {i: g.make("abs", self._entry(i, column)) for i in candidates}
            if not self.scaled:
                merit = {i: g.mul(x, weights[i]) for i, x in merit.items()}
            for other in candidates[1:]:
                swap = g.make("gt", merit[other], merit[first])
                swaps.append((swap, first, other))
                for values in (merit, weights) if weights else (merit,):
                    _swap_where(g, swap, values, first, other)
                self._swap_rows(swap, first, other)
            self._eliminate(first, column, swaps)
            rows.remove(first)
            columns.remove(column)
        return None

    def _entry(self, i: int, j: int) -> Node:
        """Return entry (i, j) of the partly eliminated matrix."""
        return self.entries[i].get(j, self.zero)

    def _swap_rows(self, swap: Node, first: int, other: int) -> None:
        """Swap rows `first` and `other` in every lane where the condition `swap` holds."""
        a, b, select = self.entries[first], self.entries[other], self.graph.select
        for j in sorted(set(a) | set(b)):
            x, y = a.get(j, self.zero), b.get(j, self.zero)
            a[j], b[j] = select(swap, y, x), select(swap, x, y)

    def _eliminate(self, i: int, j: int, swaps: list[tuple[Node, int, int]]) -> None:
        """Subtract multiples of row i from the remaining rows so that their entries in column j vanish."""
        g = self.graph
        pivot = self.entries[i].pop(j, self.zero)
        reciprocal = _reciprocal(g, pivot)
        if not pivot.is_constant:
            reciprocal = g.select(self.regular, reciprocal, self.zero)
        factors = {}
        for k in sorted(self.rows - {i}):
            if j not in self.entries[k]:
                continue
            factor = factors[k] = g.mul(self.entries[k].pop(j), reciprocal)
            for column, entry in self.entries[i].items():
                value = g.sub(self._entry(k, column), g.mul(factor, entry))
                if is_zero(value):
                    self.entries[k].pop(column, None)
                else:
                    self.entries[k][column] = value
        self.steps.append(PivotStep(i, j, pivot, reciprocal, swaps, factors, dict(self.entries[i])))
        self.rows.discard(i)
        self.columns.discard(j)

    def _largest_size(self, values: Sequence[Node]) -> Node:
        """Return the largest absolute value, 1 if all are zero."""
        g = self.graph
        largest = self.zero
        for x in values:
            largest = g.make("abs", x) if largest is self.zero else g.make("max", largest, g.make("abs", x))
        if all(x.is_constant for x in values) or any(x.is_constant and x.value != 0 for x in values):
            return g.constant(1.0) if largest is self.zero else largest
        return g.select(g.make("gt", largest, self.zero), largest, g.constant(1.0))

    def row_size(self, i: int) -> Node:
        """Return the largest absolute value of row i of the matrix, 1 if all are zero."""
        return self._largest_size([x for x in self.original[i] if not is_zero(x)])

    @property
    def sign(self) -> Node:
        """Sign of the determinant, 1 if there is none."""
        g = self.graph
        if self.more_rows:
            return g.constant(1.0)
        order = [step.row for step in self.steps], [step.column for step in self.steps]
        value = g.constant(float(parity(order[0]) * parity(order[1])))
        for step in self.steps:
            value = g.mul(value, g.make("sign", step.pivot))
            for swap, _, _ in step.swaps:
                value = g.select(swap, g.make("neg", value), value)
        return value

    @property
    def rcond(self) -> Node:
        """Smallest / largest pivot of the scaled matrix.

        Rows that were swapped are measured by the size of the row that came to the pivot's place. Constant pivots count as
        1.
        """
        g, one = self.graph, self.graph.constant(1.0)
        if any(is_zero(step.pivot) for step in self.steps):
            return self.zero
        if all(step.pivot.is_constant for step in self.steps):
            return one
        if self.scaled:
            sizes = [g.make("abs", step.pivot) for step in self.steps]
            return g.make("div", reduce(partial(g.make, "min"), sizes, one), reduce(partial(g.make, "max"), sizes, one))
        weights = [g.make("div", one, self.row_size(i)) for i in range(self.n)]
        moved = list(weights)
        smallest, largest = one, one
        for step in self.steps:
            for swap, a, b in step.swaps:
                _swap_where(g, swap, moved, a, b)
            if step.pivot.is_constant:
                continue
            column = [(self.original[i, step.column], weights[i]) for i in range(self.n)]
            scaled = [g.mul(x, w) for x, w in column if not is_zero(x)]
            size = g.mul(step.pivot, moved[step.row])
            size = g.make("abs", g.make("div", size, self._largest_size(scaled)))
            smallest, largest = g.make("min", smallest, size), g.make("max", largest, size)
        return g.make("div", smallest, largest)


def _swap_where(graph: Graph, condition: Node, values: Any, a: int, b: int) -> None:
    """Swap entries a and b of a list or dictionary of nodes, in every lane where the condition holds."""
    x, y = values[a], values[b]
    values[a], values[b] = graph.select(condition, y, x), graph.select(condition, x, y)


def _reciprocal(graph: Graph, pivot: Node) -> Node:
    """Return 1 / pivot; zero for a pivot that is known to be zero, because its row depends on others."""
    return graph.constant(0.0) if is_zero(pivot) else graph.make("div", graph.constant(1.0), pivot)


def is_zero(x: Node) -> bool:
    """Return True if a node is known to be zero, of either sign."""
    return x.is_constant and x.value == 0


def parity(order: Sequence[int]) -> int:
    """Return the sign of a permutation of 0, 1, …: 1 or −1."""
    order, sign = list(order), 1
    for k in range(len(order)):
        while order[k] != k:
            other = order[k]
            order[k], order[other] = order[other], order[k]
            sign = -sign
    return sign
