"""Graphs of scalars: equal nodes are made once, constants are folded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxmbs.programs.errors import ProgramTooLarge
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Address, Buffer, Carried, Loop, Node, Region
from jaxmbs.programs.graph.operations import COMMUTATIVE, COMPARISONS, OF_TRUTHS, OPERATIONS
from jaxmbs.programs.runtime import tuning

# Operations of nodes that never count as uniform, the same in every lane.
IN_MEMORY = frozenset({"load", "stack", "loop", "out"})


class Graph:
    """A graph under construction: makes each node once, folds constants, and puts nodes into the outermost region possible.

    A zero that is known when the program is made stays zero whatever it is multiplied with, also by infinity.

    Attributes:
        root: the outermost region.
        limit: number of scalar operations, far above which making nodes fails; None for no limit.
        groups: groups of marks by rule and nodes, in graphs that are to be differentiated.
        rules: rules of equations by their id, in the same graphs.
        log: list to which new nodes are added, None if there is none.
        depth: number of open loops, in whose bodies new loops lie.
        zero: the constant 0.0.
    """

    def __init__(self, limit: int | None = None):
        self.root = Region(0)
        self.limit = limit
        self._known: dict[tuple[Any, ...], Node] = {}
        self._numbers: dict[type, dict[Any, Node]] = {float: {}, int: {}, bool: {}}
        self._serial = 0
        self.groups: dict[tuple[Any, ...], Any] = {}
        self.rules: dict[int, Any] = {}
        # Serial numbers of maxima of absolute values.
        self._sizes: set[int] = set()
        self.log: list[Node] | None = None
        self.depth = 0
        self.zero = self._constant(0.0)

    @property
    def count(self) -> int:
        """Number of nodes made so far."""
        return self._serial

    def close(self) -> None:
        """End the construction: delete the tables by which equal nodes are found, half of the memory."""
        self._known, self._numbers = {}, {float: {}, int: {}, bool: {}}

    def node(
        self,
        op: str,
        args: tuple[Node, ...],
        kind: str,
        detail: Any = None,
        region: Region | None = None,
        uniform: bool | None = None,
    ) -> Node:
        """Make a node, in the deepest region of its arguments and uniform as they are unless these are given."""
        node = Node()
        node.op, node.args, node.kind, node.detail = op, args, kind, detail
        if region is None:
            region = self.root
            for arg in args:
                if arg.region is not region and arg.region.depth > region.depth:
                    region = arg.region
        node.region = region
        if uniform is None:
            uniform = bool(args) and op not in IN_MEMORY
            for arg in args:
                uniform = uniform and arg.uniform
        node.uniform = uniform
        node.serial = self._serial
        self._serial += 1
        region.nodes.append(node)
        if self.log is not None:
            self.log.append(node)
        if self.limit is not None and self._serial > 12 * self.limit:
            raise ProgramTooLarge(
                f"the function has far more than {self.limit} scalar operations; use array code (jax.jit and jax.vmap), or "
                "loops (scan) over equal parts"
            )
        return node

    def unique(self, op: str, args: tuple[Node, ...], kind: str, detail: Any = None) -> Node:
        """Return the node with this operation, these arguments and this detail, made if there is none."""
        key = (op, args, detail)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.node(op, args, kind, detail)
        return found

    def constant(self, value: Any) -> Node:
        """Return a constant; its kind follows from the Python type of `value`: bool, int or float."""
        kind = value.__class__
        if kind is float and value == 0 and math.copysign(1, value) > 0:
            return self.zero
        numbers = self._numbers.get(kind)
        if numbers is None or (kind is float and not value):
            return self._constant(value)
        # NaN is never found, because it does not equal itself.
        found = numbers.get(value)
        if found is None:
            found = numbers[value] = self._constant(value)
        return found

    def _constant(self, value: Any) -> Node:
        """Return the node of a constant that is −0.0 or NaN, or was not used before."""
        kind = (
            TRUTH if isinstance(value, (bool, np.bool_)) else INTEGER if isinstance(value, (int, np.integer)) else REAL
        )
        value = {TRUTH: bool, INTEGER: int, REAL: float}[kind](value)
        # −0.0 equals 0.0, and NaN does not equal itself: the key is the text.
        key = ("const", kind, repr(value))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.node("const", (), kind, value, self.root, uniform=True)
        return found

    def parameter(self, kind: str, region: Region, detail: Any = None) -> Node:
        """Make a "param" node: a value that a region gets from outside."""
        return self.node("param", (), kind, detail, region, uniform=False)

    def make(self, op: str, *args: Node, kind: str | None = None) -> Node:
        """Return the result of an operation, simplified where possible; by default of the kind of its first argument."""
        if op in ("mul", "add"):
            a, b = args
            if a is self.zero:
                return a if op == "mul" else b
            if b is self.zero:
                return b if op == "mul" else a
        if args[0].kind != REAL:
            if args[0].kind == TRUTH and op in OF_TRUTHS:
                return OF_TRUTHS[op](self.make, *args)
            if args[0].kind == INTEGER and op in ("div", "rem"):
                op = "i" + op
        for arg in args:
            if arg.op != "const":
                break
        else:
            return self.constant(self._fold(op, [arg.value for arg in args], kind or args[0].kind))
        rule = SIMPLIFICATIONS.get(op)
        return self.plain(op, *args, kind=kind) if rule is None else rule(self, *args)

    def plain(self, op: str, *args: Node, kind: str | None = None) -> Node:
        """Return an operation as it is, without simplification; commutative arguments in the order of their making."""
        if op in COMMUTATIVE and args[0].serial > args[1].serial:
            args = args[::-1]
        # As `unique`, without a call.
        key = (op, args, None)
        found = self._known.get(key)
        if found is None:
            kind = TRUTH if op in COMPARISONS else kind or args[0].kind
            found = self._known[key] = self.node(op, args, kind)
        return found

    def _fold(self, op: str, values: list[Any], kind: str) -> Any:
        """Return the result of an operation with constant arguments as a Python number of a kind."""
        value = OPERATIONS[op].value(*values)
        if op in ("select", "integer"):
            return value
        if op in COMPARISONS or kind == TRUTH:
            return bool(value)
        # Integers wrap at 64 bits.
        return (int(value) + 2**63) % 2**64 - 2**63 if kind == INTEGER else float(value)

    def add(self, a: Node, b: Node) -> Node:
        """Return a + b."""
        return self.make("add", a, b)

    def sub(self, a: Node, b: Node) -> Node:
        """Return a − b."""
        return self.make("sub", a, b)

    def mul(self, a: Node, b: Node) -> Node:
        """Return a · b."""
        return self.make("mul", a, b)

    def select(self, condition: Node, yes: Node, no: Node) -> Node:
        """Return `yes` where the condition holds, else `no`."""
        return self.make("select", condition, yes, no)

    def total(self, terms: Sequence[Node], kind: str = REAL) -> Node:
        """Return the sum of the terms, added in their order; zero of this kind without terms."""
        if not terms:
            return self.constant(0 if kind == INTEGER else 0.0)
        result = terms[0]
        for term in terms[1:]:
            result = self.make("add", result, term)
        return result

    # Simplifications: each of these methods returns the operation of its name, simplified where possible.

    def _add(self, a: Node, b: Node) -> Node:
        if a.op == "const" and a.value == 0:
            return b
        if b.op == "const" and b.value == 0:
            return a
        if b.op == "neg":
            return self._sub(a, b.args[0])
        if a.op == "neg":
            return self._sub(b, a.args[0])
        return self.plain("add", a, b)

    def _sub(self, a: Node, b: Node) -> Node:
        if b.op == "const" and b.value == 0:
            return a
        if a.op == "const" and a.value == 0:
            return self._neg(b)
        if b.op == "neg":
            return self._add(a, b.args[0])
        if a.op == "neg":
            return self._neg(self._add(a.args[0], b))
        return self.plain("sub", a, b)

    def _neg(self, a: Node) -> Node:
        if a.op == "neg":
            return a.args[0]
        if a.op == "const":
            return self.constant(-a.value)
        if a.op == "sub":
            return self.plain("sub", a.args[1], a.args[0])
        return self.unique("neg", (a,), a.kind)

    def _mul(self, a: Node, b: Node) -> Node:
        if b.op == "const":
            a, b = b, a
        if a.op == "const":
            value = a.value
            if value == 0:
                return self.constant(0 if a.kind == INTEGER else 0.0)
            if value == 1:
                return b
            if value == -1:
                return self._neg(b)
            if value < 0:
                return self._neg(self._mul(self.constant(-value), b))
        if a.op == "neg":
            return self._mul(a.args[0], b.args[0]) if b.op == "neg" else self._neg(self._mul(a.args[0], b))
        if b.op == "neg":
            return self._neg(self._mul(a, b.args[0]))
        return self.plain("mul", a, b)

    def _div(self, a: Node, b: Node) -> Node:
        if a.op == "const" and a.value == 0:
            return self.constant(0.0)
        if b.op == "const":
            value = b.value
            # Only the reciprocal of a power of two is exact.
            if value != 0 and math.isfinite(value) and math.frexp(value)[0] in (0.5, -0.5):
                return self._mul(self.constant(1 / value), a)
        if a.op == "neg":
            return self._neg(self._div(a.args[0], b))
        if b.op == "neg":
            return self._neg(self._div(a, b.args[0]))
        return self.plain("div", a, b)

    def _abs(self, a: Node) -> Node:
        return self._abs(a.args[0]) if a.op == "neg" else a if a.op == "abs" else self.plain("abs", a)

    def _max(self, a: Node, b: Node) -> Node:
        # Most entries of a sparse matrix are zero.
        for x, y in ((a, b), (b, a)):
            if x is self.zero and self._is_size(y):
                return y
        larger = self.plain("max", a, b)
        if self._is_size(a) and self._is_size(b):
            self._sizes.add(larger.serial)
        return larger

    def _is_size(self, a: Node) -> bool:
        """Return True if a number is known not to be negative, NaN aside."""
        return a.op == "abs" or a.serial in self._sizes or (a.op == "const" and a.value >= 0)

    def _cos(self, a: Node) -> Node:
        return self._cos(a.args[0]) if a.op == "neg" else self.plain("cos", a)

    def _sin(self, a: Node) -> Node:
        return self._neg(self._sin(a.args[0])) if a.op == "neg" else self.plain("sin", a)

    def _select(self, condition: Node, yes: Node, no: Node) -> Node:
        if condition.op == "const":
            return yes if condition.value else no
        if yes is no:
            return yes
        # The derivative −0 of one branch and 0 of the other: a node here would make sparse matrices dense.
        if yes.op == no.op == "const" and yes.value == no.value == 0 and yes.kind == REAL:
            return self.constant(0.0)
        if condition.op == "not":
            return self._select(condition.args[0], no, yes)
        if yes.kind == TRUTH:
            if yes.op == "const":
                return (
                    self.make("or", condition, no) if yes.value else self.make("and", self.make("not", condition), no)
                )
            if no.op == "const":
                negated = self.make("not", condition)
                return self.make("or", negated, yes) if no.value else self.make("and", condition, yes)
        return self.unique("select", (condition, yes, no), yes.kind)

    def _not(self, a: Node) -> Node:
        return a.args[0] if a.op == "not" else self.plain("not", a)

    def _and(self, a: Node, b: Node) -> Node:
        for x, y in ((a, b), (b, a)):
            if x.op == "const":
                return y if x.value else x
        return a if a is b else self.plain("and", a, b)

    def _or(self, a: Node, b: Node) -> Node:
        for x, y in ((a, b), (b, a)):
            if x.op == "const":
                return x if x.value else y
        return a if a is b else self.plain("or", a, b)

    def _real(self, a: Node) -> Node:
        """Return a number as a real one."""
        return a if a.kind == REAL else self.plain("real", a, kind=REAL)

    def _integer(self, a: Node) -> Node:
        """Return a number as an integer."""
        return a if a.kind == INTEGER else self.plain("integer", a, kind=INTEGER)

    def hold(self, a: Node, op: str = "stop") -> Node:
        """Return a number without its derivative, in a graph to be differentiated; `op` "save" if it is costly."""
        if a.is_constant or a.op == op or (op == "stop" and a.kind != REAL):
            return a
        return self.unique(op, (a,), a.kind)

    def truth(self, a: Node) -> Node:
        """Return a number as a truth value: True if it is not zero."""
        return a if a.kind == TRUTH else self.make("ne", a, self.constant(0 if a.kind == INTEGER else 0.0))

    def power(self, a: Node, n: int) -> Node:
        """Return aⁿ for an integer n by repeated squaring."""
        if n < 0:
            return self.make("div", self.constant(1.0), self.power(a, -n))
        result, square = None, a
        while n:
            if n & 1:
                result = square if result is None else self.mul(result, square)
            n >>= 1
            if n:
                square = self.mul(square, square)
        return self.constant(1.0) if result is None else result

    def stack(self, values: tuple[Node, ...], length: int) -> Node:
        """Return the node that puts scalars into memory, in `length` rows, into its `buffer`."""
        key = ("stack", values, length)
        found = self._known.get(key)
        if found is None:
            buffer = Buffer(None, values[0].kind, length, len(values) // length)
            found = self._known[key] = self.node("stack", values, values[0].kind, buffer)
        return found

    def load(self, buffer: Buffer, after: Node | None, offset: int, index: Node | None = None, stride: int = 0) -> Node:
        """Return the scalar at offset + stride·index of a buffer, which `after` fills unless it is an input."""
        args = tuple(x for x in (after, index) if x is not None)
        return self.unique("load", args, buffer.kind, Address(buffer, offset, stride))

    def open_loop(self, length: int, reverse: bool = False) -> Loop:
        """Return a loop without carried values, one deeper than the open ones, to be filled and closed."""
        self.depth += 1
        region = Region(self.depth)
        index = self.node("index", (), INTEGER, None, region, uniform=True)
        return Loop(length, region, index, reverse)

    def carry(self, loop: Loop, init: Node) -> Node:
        """Add a carried value with this initial value to an open loop, and return it as the body sees it."""
        param = self.parameter(init.kind, loop.body, Carried(loop, len(loop.params)))
        loop.params.append(param)
        loop.inits.append(init)
        return param

    def open_condition(self, loop: Loop) -> Region:
        """Give an open loop a region for its condition, which sees all carried values, and return the region."""
        region = loop.condition_region = Region(self.depth)
        loop.condition_params = [self.parameter(p.kind, region, p.origin) for p in loop.params]
        return region

    def close_loop(self, loop: Loop) -> Node:
        """Close an open loop that is filled, and return its node, in the innermost region that it needs."""
        self.depth -= 1
        inside = [loop.body, *([loop.condition_region] if loop.condition_region else [])]
        uses = [x for region in inside for node in region.nodes for x in node.args]
        uses += [*loop.results, *(node for _, row in loop.rows for node in row)]
        uses += [] if loop.condition is None else [loop.condition]
        outer = dict.fromkeys(x for x in uses if x.region not in inside and x.op != "const")
        return self.node("loop", (*loop.inits, *outer), REAL, loop)

    def final(self, node: Node, k: int) -> Node:
        """Return the final value of carried value k of a closed loop, whose node is given."""
        return self.unique("out", (node,), node.loop.params[k].kind, k)

    def lookup(self, index: Node, table: Sequence[Node]) -> Node:
        """Return the node table[index]; an index outside is replaced by the nearest one, 0 or len(table) − 1."""
        if len(set(table)) == 1:
            return table[0]
        if index.is_constant:
            return table[min(max(int(index.value), 0), len(table) - 1)]
        if len(table) > tuning.MAX_COMPARED_ENTRIES:
            rows = self.stack(tuple(table), len(table))
            held = self.make("min", self.make("max", index, self.constant(0)), self.constant(len(table) - 1))
            return self.load(rows.buffer, rows, 0, held, 1)
        result = table[-1]
        for k in range(len(table) - 2, -1, -1):
            result = self.select(self.make("le", index, self.constant(k)), table[k], result)
        return result


# Simplifications by operation: the methods of `Graph` whose names begin with an underscore, `_add` for "add".
SIMPLIFICATIONS: dict[str, Callable[..., Node]] = {
    name[1:]: method for name, method in vars(Graph).items() if name.startswith("_")
}


def formula_nodes(node: Node, formula: Callable[..., Node]) -> tuple[list[Node], Node]:
    """Return the nodes of a formula for an operation, with parameters for its arguments, and its result.

    Their serial numbers are negative, and different for each node.
    """
    graph = Graph()
    params = [graph.node("param", (), x.kind, None, graph.root, node.uniform) for x in node.args]
    result = formula(graph, *params)
    for x in graph.root.nodes:
        x.serial -= MAX_FORMULA_NODES * (node.serial + 1)
    return graph.root.nodes, result


# Upper limit on the number of nodes of an operation's formula, so that their serial numbers do not overlap.
MAX_FORMULA_NODES = 1_000
