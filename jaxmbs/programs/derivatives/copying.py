"""Copies of needed parts of a graph in another graph: with other inputs, in other loops, without its marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import REAL, Buffer, Loop, Memory, Node, Region, array, reached_offsets
from jaxmbs.programs.tracing.marks import MarkGroup, mark
from jaxmbs.programs.tracing.trace import DeferredArray


class View:
    """The copy of an array in memory: pieces of other arrays, or nodes.

    Attributes:
        pieces: (buffer, the node that fills it or None, new offset of each old one or −1).
        nodes: a node for each old offset, instead of pieces.
    """

    __slots__ = ("nodes", "pieces")

    def __init__(
        self, pieces: Sequence[tuple[Buffer, Node | None, np.ndarray]] = (), nodes: Sequence[Node] | None = None
    ):
        self.pieces, self.nodes = list(pieces), nodes

    @classmethod
    def of(cls, memory: Memory) -> View:
        """Return the view of an array in memory that is copied as it is."""
        return cls([(memory.buffer, memory.after, memory.offsets.ravel())])

    def at(self, graph: Graph, offset: int) -> Node:
        """Return the node of the scalar at an offset of the old array."""
        if self.nodes is not None:
            return self.nodes[offset]
        for buffer, after, offsets in self.pieces:
            if offsets[offset] >= 0:
                return graph.load(buffer, after, int(offsets[offset]))
        raise AssertionError("no piece of memory has this scalar")

    def at_index(self, graph: Graph, offset: int, stride: int, index: Node, rows: int | None = None) -> Node:
        """Return the node of the scalar at offset + stride·index of the old array, for an index below `rows`."""
        if index.is_constant:
            return self.at(graph, offset + stride * index.value)
        size = len(self.nodes) if self.nodes is not None else len(self.pieces[0][2])
        every = list(reached_offsets(size, offset, stride))[:rows]
        if len(every) == 1:
            return self.at(graph, offset)
        if len(self.pieces) == 1:
            buffer, after, offsets = self.pieces[0]
            found = offsets[every]
            step = int(found[1] - found[0])
            if found.min() >= 0 and (np.diff(found) == step).all():
                return graph.load(buffer, after, int(found[0]), index, step)
        return from_table(graph, [self.at(graph, k) for k in every], index)


def from_table(graph: Graph, table: Sequence[Node], index: Node) -> Node:
    """Return table[index] from memory, for an index within the table."""
    if all(x is table[0] for x in table):
        return table[0]
    stack = graph.stack(tuple(table), len(table))
    return graph.load(stack.buffer, stack, 0, index, 1)


class CopiedRegion:
    """The copy of one region: the nodes, arrays and loops that have been copied so far.

    Attributes:
        region: region of the old graph.
        outer: copy of the region around it.
        values: serial number ↦ new node.
        memory: buffer ↦ new array.
        finals: (loop, number of a carried value) ↦ new node of its final value.
        kept: loop ↦ states kept for reverse mode, see `segments`.
        marks: group ↦ its new marks.
    """

    __slots__ = ("finals", "kept", "marks", "memory", "outer", "region", "values")

    def __init__(self, region: Region, outer: CopiedRegion | None = None):
        self.region, self.outer = region, outer
        self.values: dict[int, Node] = {}
        self.memory: dict[Buffer, View] = {}
        self.finals: dict[tuple[Loop, int], Node] = {}
        self.kept: dict[Loop, list[Any]] = {}
        self.marks: dict[MarkGroup, list[Node]] = {}

    def of(self, region: Region) -> CopiedRegion:
        """Return the copy of a region that is this one or lies around it."""
        copied: CopiedRegion | None = self
        while copied is not None and copied.region is not region:
            copied = copied.outer
        assert copied is not None
        return copied


def root_of(copied: CopiedRegion) -> Region:
    """Return the outermost region, of the original graph, around a copied one."""
    while copied.outer is not None:
        copied = copied.outer
    return copied.region


class CopiedIterations(NamedTuple):
    """Results of the copied iterations of a loop.

    Attributes:
        finals: final values by the number of the carried value.
        rows: rows by buffer.
        states: carried values before each iteration, an array for each group of them.
        known: values of nodes in each iteration, by serial number.
        flipped: True if `states` and `known` lie in the order from the last iteration to the first.
    """

    finals: dict[int, Node]
    rows: dict[Buffer, Memory]
    states: list[Memory]
    known: dict[int, Memory]
    flipped: bool

    def views(self, groups: Sequence[Sequence[int]]) -> tuple[dict[int, View], dict[int, View]]:
        """Return the states by number of the carried value, and the known values by serial number, both by iteration."""
        known = {serial: View.of(_from_first_to_last(memory, self.flipped)) for serial, memory in self.known.items()}
        return states_by_number(groups, self.states, self.flipped), known


def _from_first_to_last(memory: Memory, flipped: bool) -> Memory:
    """Return rows in the order of the iterations; `flipped` says that they lie in the reverse order."""
    return memory.reorder(memory.offsets[::-1]) if flipped else memory


def states_by_number(groups: Sequence[Sequence[int]], states: Sequence[Memory], flipped: bool) -> dict[int, View]:
    """Return carried values by iteration from the rows of groups of them; `flipped`: the last row is first."""
    found = {}
    for group, memory in zip(groups, states, strict=True):
        rows = _from_first_to_last(memory, flipped)
        found.update({k: View.of(rows.reorder(rows.offsets[:, j])) for j, k in enumerate(group)})
    return found


class Copy:
    """Copies of the needed nodes of one graph in another.

    Attributes:
        graph: the new graph.
        need: needed part of the old graph; decides which carried values and rows of a loop are copied.
        marking: True if the new graph is to be differentiated as well.
        on_loop: (node of a loop, copied region) ↦ True if it has copied the loop itself.
    """

    def __init__(
        self,
        graph: Graph,
        need: Liveness,
        *,
        marking: bool,
        on_loop: Callable[[Node, CopiedRegion], bool] = lambda node, copied: False,
    ):
        self.graph, self.need, self.marking, self.on_loop = graph, need, marking, on_loop

    def value(self, node: Node, copied: CopiedRegion) -> Node:
        """Return the copy of a node, made with all that it needs when first asked for."""
        if node.op == "const":
            return self.graph.constant(node.value)
        found = copied.of(node.region).values.get(node.serial)
        return self._copy_with_arguments(node, copied) if found is None else found

    def values(self, nodes: Iterable[Node], copied: CopiedRegion) -> list[Node]:
        """Return the copies of some nodes in the new graph."""
        return [self.value(x, copied) for x in nodes]

    def _copy_with_arguments(self, node: Node, copied: CopiedRegion) -> Node:
        """Copy a node and the nodes that it needs, without recursion, and return the copy."""
        pending = [node]
        while pending:
            here = pending[-1]
            own = copied.of(here.region)
            if here.serial in own.values:
                pending.pop()
                continue
            missing = [
                x for x in self._arguments(here, own) if x.op != "const" and x.serial not in copied.of(x.region).values
            ]
            if missing:
                pending += missing
                continue
            pending.pop()
            own.values[here.serial] = self._copy_node(here, own)
        return copied.of(node.region).values[node.serial]

    def _arguments(self, node: Node, copied: CopiedRegion) -> Iterable[Node]:
        """Return the nodes that have to be copied before a node: its arguments, or all that its loop or group needs."""
        if node.op == "mark":
            group = node.member.group
            return node.args if not self.marking or group in copied.marks else (*node.args, *group.nodes())
        if node.op == "loop":
            # The other arguments of its body are copied with it.
            return [node.loop.inits[k] for k in self.need.params(node.loop)]
        if node.op == "out":
            return () if (node.args[0].loop, node.number) in copied.finals else node.args
        if node.op == "load" and node.filler and node.address.buffer in copied.of(node.filler.region).memory:
            return node.args[1:]
        return node.args

    def _copy_node(self, node: Node, copied: CopiedRegion) -> Node:
        """Return the copy of a node whose arguments are copied."""
        graph, op = self.graph, node.op
        get = lambda x: graph.constant(x.value) if x.op == "const" else copied.of(x.region).values[x.serial]
        if op == "load":
            return self._copy_load(node, copied, get)
        if op == "stack":
            nodes = tuple(map(get, node.args))
            copied.memory[node.buffer] = View(nodes=nodes)
            return graph.zero
        if op == "loop":
            if not self.on_loop(node, copied):
                self._copy_loop(node, copied)
            return graph.zero
        if op == "out":
            return copied.finals[node.args[0].loop, node.number]
        if op in ("stop", "save"):
            return graph.hold(get(node.args[0]), op) if self.marking else get(node.args[0])
        if op == "mark":
            return self._copy_mark(node, copied, get)
        return graph.make(op, *map(get, node.args), kind=node.kind)

    def _copy_load(self, node: Node, copied: CopiedRegion, get: Callable[[Node], Node]) -> Node:
        """Return a load of the same entry from the copied array; `get` returns the copy of its index."""
        buffer, offset, stride = node.address
        view = copied.of(node.filler.region if node.filler else root_of(copied)).memory[buffer]
        index = node.moving_index
        return view.at(self.graph, offset) if index is None else view.at_index(self.graph, offset, stride, get(index))

    def _copy_mark(self, node: Node, copied: CopiedRegion, get: Callable[[Node], Node]) -> Node:
        """Return the copy of a "mark" node, after copying all marks of its group."""
        group, k = node.member
        if not self.marking:
            return get(node.args[0])
        if group not in copied.marks:
            every = lambda value: array([get(x) for x in value.ravel()], value.shape)
            inputs = [self.factors(x, get) if isinstance(x, DeferredArray) else every(x) for x in group.inputs]
            values = mark(self.graph, group.rule, inputs, [every(x) for x in group.values])
            pairs = zip(values, group.values, strict=True)
            flat = [pair for new, old in pairs for pair in zip(new.ravel(), old.ravel(), strict=True)]
            copied.marks[group] = [new for new, old in flat if old.kind == REAL]
        return copied.marks[group][int(k)]

    def factors(self, value: DeferredArray, get: Callable[[Node], Node]) -> DeferredArray:
        """Return the copy of a matrix that is known by its factors; `get` returns the copy of a node."""
        known = value.factors.copy_into(self.graph, get)

        def entries() -> np.ndarray:
            raise AssertionError("factors are used for solving only")

        return DeferredArray(entries, known)

    def _copy_loop(self, node: Node, copied: CopiedRegion) -> None:
        """Copy a loop as it is, with all its iterations, and its final values and rows."""
        loop = node.loop
        inits = {k: self.value(loop.inits[k], copied) for k in self.need.params(loop)}
        found = self.iterations(loop, copied, inits, loop.length, lambda index: index)
        copied.finals.update({(loop, k): x for k, x in found.finals.items()})
        copied.memory.update({key: View.of(memory) for key, memory in found.rows.items()})

    def iterations(
        self,
        loop: Loop,
        copied: CopiedRegion,
        inits: dict[int, Node],
        length: int,
        number: Callable[[Node], Node],
        *,
        rows: bool = True,
        states: Sequence[Sequence[int]] = (),
        known: Sequence[Node] = (),
    ) -> CopiedIterations:
        """Copy some iterations of a loop, as a loop.

        Args:
            loop: loop of the old graph.
            copied: copy of the region in which it is.
            inits: new nodes of the carried values before the first of these iterations.
            length: number of iterations.
            number: (graph's own counter) ↦ number of the iteration in the whole loop.
            rows: True to write the needed rows of the loop.
            states: groups of carried values whose values before each iteration are written as rows.
            known: nodes of the body whose values are written as rows.

        Returns:
            Final values, and the rows.
        """
        graph = self.graph
        new = graph.open_loop(length, reverse=loop.reverse and rows)
        inner = CopiedRegion(loop.body, copied)
        inner.values[loop.index.serial] = number(new.index)
        carried = sorted(inits)
        for k in carried:
            inner.values[loop.params[k].serial] = graph.carry(new, inits[k])
        if loop.condition is not None:
            self.copy_condition(loop, new, copied, carried)
        written = self.need.rows(loop) if rows else []
        for _, row in written:
            new.write_row(self.values(row, inner))
        new.results = [self.value(loop.results[k], inner) for k in carried]
        for group in states:
            new.write_row([new.params[carried.index(k)] for k in group])
        for x in self.values(known, inner):
            new.write_row([x])
        node = graph.close_loop(new)
        memory = [buffer.whole(node) for buffer, _ in new.rows]
        first, last = len(written), len(written) + len(states)
        return CopiedIterations(
            {k: graph.final(node, j) for j, k in enumerate(carried)},
            {b: m for (b, _), m in zip(written, memory, strict=False)},
            memory[first:last],
            {x.serial: m for x, m in zip(known, memory[last:], strict=True)},
            new.reverse,
        )

    def copy_condition(self, loop: Loop, new: Loop, copied: CopiedRegion, carried: Sequence[int]) -> None:
        """Copy the condition of a loop to `new`, whose first carried values are those with the numbers `carried`."""
        assert loop.condition is not None
        assert loop.condition_region is not None
        self.graph.open_condition(new)
        new.line = loop.line
        inner = CopiedRegion(loop.condition_region, copied)
        for k, p in zip(carried, new.condition_params, strict=False):
            inner.values[loop.condition_params[k].serial] = p
        new.condition = self.value(loop.condition, inner)
