"""Block triangular form of the pattern of a matrix."""

from __future__ import annotations


def diagonal_blocks(pattern: dict[int, set[int]], columns: set[int]) -> list[tuple[list[int], list[int]]]:
    """Return rows and columns of the diagonal blocks of a block triangular form.

    It takes a matching of rows and columns, then the strongly connected parts of the graph in which a row leads to the
    rows that are matched to its columns. If the pattern has no full diagonal, as with more rows than columns, there is
    one block.

    Args:
        pattern: row ↦ columns in which it has entries.
        columns: all columns.
    """
    matched: dict[int, int] = {}  # column → row

    def augment(row: int, visited: set[int]) -> bool:
        """Match a row to a column, rematching other rows if necessary; return True if that is possible."""
        for column in sorted(pattern[row]):
            if column in visited:
                continue
            visited.add(column)
            if column not in matched or augment(matched[column], visited):
                matched[column] = row
                return True
        return False

    rows = sorted(pattern)
    if not rows:
        return []
    if not all(augment(row, set()) for row in rows):
        return [(rows, sorted(columns))]
    column_of = {row: column for column, row in matched.items()}
    parts = _strongly_connected({row: [matched[c] for c in sorted(pattern[row])] for row in rows})
    # Tarjan gives the parts that others lead to first; a pivot's column is then missing in the rows still to come only
    # if those that lead to it come earlier.
    return [(sorted(part), sorted(column_of[row] for row in part)) for part in reversed(parts)]


def _strongly_connected(graph: dict[int, list[int]]) -> list[list[int]]:
    """Return the strongly connected parts of a graph, given as node ↦ successors, by Tarjan's algorithm."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    parts: list[list[int]] = []

    def visit(v: int) -> None:
        """Number a node and those reachable from it, and collect the strongly connected parts that are complete."""
        number[v] = low[v] = len(number)
        stack.append(v)
        for w in graph[v]:
            if w not in number:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], number[w])
        if low[v] == number[v]:
            part = stack[stack.index(v) :]
            del stack[stack.index(v) :]
            parts.append(part)

    for v in graph:
        if v not in number:
            visit(v)
    return parts
