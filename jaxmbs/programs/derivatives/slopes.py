"""Derivatives of operations, as nodes of the graph that they are in."""

from __future__ import annotations

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import REAL, Node
from jaxmbs.programs.graph.operations import OPERATIONS

# Operations that return their argument and stop its derivative. In the rates of a rule they pass the cotangent on: a
# rate is linear in other rates. In forward mode rates of a rule are copied as values.
HANDED_ON = frozenset({"stop", "save"})
# Operations whose derivatives `tangent` and `cotangent` write out, so that they need no slope.
DIRECT = (
    frozenset({"load", "stack", "out", "loop", "mark"})
    | HANDED_ON
    | {name for name, operation in OPERATIONS.items() if operation.is_linear}
)
# Operations whose derivative is zero wherever it exists.
STEADY = (
    frozenset({"const", "param", "index"})
    | HANDED_ON
    | {name for name, operation in OPERATIONS.items() if operation.slope is None and not operation.is_linear}
)
# Operations that take as long as ten multiplications or more.
COSTLY = frozenset({"save"}) | {name for name, operation in OPERATIONS.items() if operation.is_costly}


def partials(graph: Graph, node: Node) -> list[tuple[Node, Node]]:
    """Return (argument, derivative by it) for the real arguments of an operation that is neither steady nor direct.

    Raises:
        ProgramError: the operation has no slope.
    """
    rule = OPERATIONS[node.op].slope if node.op in OPERATIONS else None
    if rule is None:
        raise ProgramError(f"the operation {node.op!r} has no derivative here")
    slopes = rule(graph, node, *node.args)
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    return [(a, slope) for a, slope in zip(node.args, slopes, strict=True) if a.kind == REAL and not a.is_constant]


def carriers(node: Node) -> tuple[Node, ...]:
    """Return the arguments by which an active node may have a derivative; none for memory and loops."""
    if node.op in HANDED_ON:
        return node.args
    if node.op in STEADY or node.op in ("load", "stack", "out", "loop", "mark"):
        return ()
    return node.args[1:] if node.op == "select" else node.args
