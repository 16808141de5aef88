"""Reverse mode on a graph: from cotangents of the results of a program to cotangents of its inputs.

Each operation is visited once, from the last to the first, with its slope as a factor. A loop is a loop backwards, from
states that were kept or are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from jaxmbs.programs.derivatives import segments
from jaxmbs.programs.derivatives.copying import CopiedRegion, Copy, View, from_table
from jaxmbs.programs.derivatives.dependence import Dependence
from jaxmbs.programs.derivatives.slopes import COSTLY, HANDED_ON
from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import REAL, Buffer, Loop, Memory, Node, array, reached_offsets
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.marks import MarkGroup
from jaxmbs.programs.tracing.trace import DeferredArray, Tracer

# Cotangents of a buffer that the iterations of a loop add: (buffer, offset by iteration, cotangent).
_Row = tuple[Buffer, np.ndarray, Node]
# Cotangents by the key under which `Adjoints` accumulates them.
_Sums = dict[Any, Node]


class Adjoints:
    """Accumulated cotangents of the nodes of a region and of those around it.

    Attributes:
        copied: the copy of the region in the graph of the cotangents.
        loop: the loop whose body the region is, None outside loops.
        rows: cotangents that each iteration of `loop` adds to arrays outside: (buffer, offset by iteration, cotangent).
        values: cotangents of nodes by serial number.
        elements: cotangents of scalars in memory by (buffer, offset).
        finals: cotangents of final values by (loop, number of the carried value).
        memory: cotangents of parts of arrays in memory by buffer, as pairs (offsets there, array of cotangents).
    """

    def __init__(self, graph: Graph, copied: CopiedRegion, loop: Loop | None = None):
        self.graph, self.copied, self.loop = graph, copied, loop
        self.rows: list[_Row] = []
        self.values: dict[int, Node] = {}
        self.elements: dict[tuple[Buffer, int], Node] = {}
        self.finals: dict[tuple[Loop, int], Node] = {}
        self.memory: dict[Buffer, list[tuple[np.ndarray, Memory]]] = {}

    def add(self, cotangents: _Sums, key: Any, term: Node) -> None:
        """Add `term` to cotangents[key], which may be new; `cotangents` is one of the dictionaries of nodes here."""
        if term is not self.graph.zero:
            cotangents[key] = self.graph.add(cotangents[key], term) if key in cotangents else term

    def add_memory(self, buffer: Buffer, offsets: np.ndarray, memory: Memory) -> None:
        """Add an array in memory to the cotangents at these offsets of a buffer."""
        self.memory.setdefault(buffer, []).append((offsets.ravel(), memory))

    def take(self, buffer: Buffer) -> dict[int, Node]:
        """Remove and return the cotangents of an array in memory, by offset."""
        found: dict[int, Node] = {}
        for key in [key for key in self.elements if key[0] == buffer]:
            self.add(found, key[1], self.elements.pop(key))
        for offsets, memory in self.memory.pop(buffer, ()):
            view = View.of(memory)
            for k, offset in enumerate(offsets.tolist()):
                self.add(found, offset, view.at(self.graph, k))
        return found

    def sum_over_iterations(self, new: Loop, outside: Adjoints) -> Callable[[Node], None]:
        """Turn cotangents of values outside the loop `new`, those of one iteration, into sums that the loop carries.

        Returns:
            A function that adds these sums to the cotangents `outside`, to call with the node of the closed loop.
        """
        graph = self.graph
        for key in list(self.memory):
            for offsets, memory in self.memory.pop(key):
                view = View.of(memory)
                for k, offset in enumerate(offsets.tolist()):
                    self.add(self.elements, (key, offset), view.at(graph, k))
        sums: list[tuple[_Sums, Any, int]] = []
        pairs: list[tuple[_Sums, _Sums]] = [(self.values, outside.values), (self.elements, outside.elements)]
        for own, others in pairs:
            for key, term in own.items():
                p = graph.carry(new, others.pop(key, graph.zero))
                new.results.append(graph.add(p, term))
                sums.append((others, key, len(new.params) - 1))

        def add_sums(node: Node) -> None:
            for others, key, k in sums:
                outside.add(others, key, graph.final(node, k))

        return add_sums


class Reverse:
    """Reverse mode: builds a new graph with a copy of the forward nodes it needs and the cotangents."""

    def __init__(self, graph: Graph, dependence: Dependence, dtype: DTypeLike, *, marking: bool):
        self.copy = Copy(graph, dependence.need, marking=marking, on_loop=self._copy_keeping_states)
        self.graph, self.dependence, self.dtype = graph, dependence, np.dtype(dtype)

    def _copy_keeping_states(self, node: Node, copied: CopiedRegion) -> bool:
        """Copy a loop that is differentiated, keep its states, and return True; return False for others."""
        loop = node.loop
        if node.serial not in self.dependence.useful or loop in copied.kept:
            return False
        if loop.condition is not None:
            where = "" if loop.line is None else f" [while, at {loop.line}]"
            raise ProgramError(
                "a loop with a condition has no derivative in reverse mode: use a counted loop, or give its result a "
                f"derivative of its own{where}"
            )
        carried = self.copy.need.params(loop)
        size = segments.state_bytes(loop, carried, self.dtype.itemsize)
        parts = segments.parts_of(loop.length, size, tuning.KEPT_STATE_BYTES_INNER_LOOP)
        known = self._worth_keeping(loop, loop.length) if parts[0].size == 1 else []
        copied.kept[loop] = segments.run_segments(self.copy, loop, copied, parts, known, [[k] for k in carried])
        return True

    def seed(self, result: np.ndarray | Memory, cotangents: Memory, adjoints: Adjoints) -> None:
        """Add the cotangents of a result to `adjoints`, before the graph is gone through backwards."""
        if isinstance(result, Memory):
            adjoints.add_memory(result.buffer, result.offsets, cotangents)
            return
        view = View.of(cotangents)
        for k, node in enumerate(result.ravel()):
            if self.dependence.carries(node):
                self.give(node, node, view.at(self.graph, k), adjoints)

    def pull(self, nodes: Sequence[Node], adjoints: Adjoints) -> None:
        """Add to `adjoints` the cotangents of the arguments of some nodes, which are in the order of making."""
        done: set[MarkGroup] = set()
        for node in reversed(nodes):
            if node.op == "loop":
                self._pull_loop(node, adjoints)
            elif node.op == "stack":
                for k, term in adjoints.take(node.buffer).items():
                    self.give(node, node.args[k], term, adjoints)
            elif node.op == "mark" and self.dependence.masks[node.member.group] is not None:
                group = node.member.group
                if group not in done:
                    done.add(group)
                    self._pull_group(group, adjoints)
            elif node.op != "param" and node.serial in adjoints.values:
                self._pull_node(node, adjoints.values.pop(node.serial), adjoints)

    def give(self, node: Node, argument: Node, term: Node, adjoints: Adjoints) -> None:
        """Add a term to the cotangent of an argument of a node, unless no derivative goes on to that argument."""
        if self.dependence.follows(node, argument):
            adjoints.add(adjoints.values, argument.serial, term)

    def _pull_node(self, node: Node, ct: Node, adjoints: Adjoints) -> None:
        """Add the cotangents of the arguments of a node with cotangent `ct`."""
        graph, op, args = self.graph, node.op, node.args
        value = lambda x: self.copy.value(x, adjoints.copied)
        give = lambda x, term: self.give(node, x, term, adjoints)
        if op in ("add", "mark") or op in HANDED_ON:
            for x in args:
                give(x, ct)
        elif op == "sub":
            give(args[0], ct)
            give(args[1], graph.make("neg", ct))
        elif op == "neg":
            give(args[0], graph.make("neg", ct))
        elif op == "mul":
            for x, other in (args, args[::-1]):
                if self.dependence.follows(node, x):
                    give(x, graph.mul(ct, value(other)))
        elif op == "select":
            which = value(args[0])
            give(args[1], graph.select(which, ct, graph.zero))
            give(args[2], graph.select(which, graph.zero, ct))
        elif op == "out":
            adjoints.add(adjoints.finals, (args[0].loop, node.number), ct)
        elif op == "load":
            self._pull_load(node, ct, adjoints)
        else:
            for x, slope in self.dependence.slopes[node.serial]:
                give(x, graph.mul(ct, value(slope)))

    def _pull_load(self, node: Node, ct: Node, adjoints: Adjoints) -> None:
        """Add the cotangent of a scalar that was loaded to that of the memory."""
        graph = self.graph
        buffer, offset, stride = node.address
        add = lambda offset, term: adjoints.add(adjoints.elements, (buffer, offset), term)
        index = node.moving_index
        if index is None or not stride:
            add(offset, ct)
            return
        iterations = None if adjoints.loop is None else _index_by_iteration(index, adjoints.loop)
        if iterations is not None and len(set(iterations.tolist())) == len(iterations):
            adjoints.rows.append((buffer, offset + stride * iterations, ct))
            return
        now = self.copy.value(index, adjoints.copied)
        possible = range(len(reached_offsets(buffer.length * buffer.width, offset, stride)))
        for k in possible if iterations is None else sorted(set(iterations.tolist())):
            here = graph.make("eq", now, graph.constant(int(k)))
            add(offset + stride * int(k), graph.select(here, ct, graph.zero))

    def _pull_group(self, group: MarkGroup, adjoints: Adjoints) -> None:
        """Add the cotangents of the inputs of a group, by its rule."""
        cts = [adjoints.values.pop(mark.serial, self.graph.zero) for mark in group.marks]
        if all(ct is self.graph.zero for ct in cts):
            return
        if self.dependence.is_direct(group):
            self._pull_directly(group, cts, adjoints)
            return
        rates, results = self.dependence.rates_of(group)
        for result, ct in zip(results, cts, strict=True):
            self.give(result, result, ct, adjoints)
        self.pull(self.dependence.rule_nodes(group), adjoints)
        for value in rates:
            for x in value.ravel() if value is not None else ():
                if x.serial in adjoints.values:
                    self.give(group.marks[0], x.origin, adjoints.values.pop(x.serial), adjoints)

    def _pull_directly(self, group: MarkGroup, cts: list[Node], adjoints: Adjoints) -> None:
        """Add the cotangents of the inputs of a group from `cts`, those of its marks, by a direct rule."""
        graph, mask, copied = self.graph, self.dependence.masks[group], adjoints.copied
        linear = group.rule.is_linear(mask)
        inputs: list[Any] = []
        for on, value in zip(mask, group.inputs, strict=True):
            if isinstance(value, DeferredArray):
                inputs.append(self.copy.factors(value, lambda x: self.copy.value(x, copied)))
            else:
                nodes = [graph.zero] * value.size if on and linear else self.copy.values(value.ravel(), copied)
                inputs.append(array(nodes, value.shape))
        cts, given = list(cts), []
        for value in group.values:
            if value.size and value.ravel()[0].kind == REAL:
                given.append(array([cts.pop(0) for _ in range(value.size)], value.shape))
        tracer = Tracer(graph, self.dtype, self.copy.marking)
        found = group.rule.cotangents(tracer, inputs, mask, given)
        for value, terms in zip(compress(group.inputs, mask), found, strict=True):
            for x, term in zip(value.ravel(), tracer.nodes(terms).ravel(), strict=True):
                self.give(group.marks[0], x, term, adjoints)

    def _worth_keeping(self, loop: Loop, iterations: int) -> list[Node]:
        """Return the costly nodes of a loop's body whose values are kept if it has this many iterations."""
        if iterations > tuning.MAX_ITERATIONS_KEEPING_COSTLY:
            return []
        return [x for x in self.copy.need.nodes(loop.body) if x.op in COSTLY and not x.uniform]

    def _pull_loop(self, node: Node, adjoints: Adjoints) -> None:
        """Add the cotangents of all values that a loop depends on, by a loop that goes through it backwards."""
        graph, loop, copied = self.graph, node.loop, adjoints.copied
        carried = sorted(k for k in self.dependence.carried.get(loop, ()) if self.dependence.carries(loop.params[k]))
        cts = {k: adjoints.finals.pop((loop, k), graph.zero) for k in carried}
        sources = _RowCotangents(graph, loop, adjoints, self.dependence.carries)
        if not sources.columns and all(ct is graph.zero for ct in cts.values()):
            return
        if loop not in copied.kept:
            self.copy.value(node, copied)
        for kept in reversed(copied.kept[loop]):
            cts = self._back_through(kept, adjoints, cts, sources)
        for k in carried:
            self.give(loop.params[k], loop.inits[k], cts[k], adjoints)

    def _back_through(
        self, kept: segments.KeptStates, adjoints: Adjoints, cts: dict[int, Node], sources: _RowCotangents
    ) -> dict[int, Node]:
        """Return the cotangents of carried values before some segments, from those after them and those of rows."""
        graph, loop = self.graph, sources.loop
        first, count, size = part = kept.part
        if size == 1:
            number = lambda k: graph.add(graph.constant(first), k)
            back = _ReverseIterations(self, loop, count, number, kept.states, kept.known)
            cts, spread = back.run(cts, sources, adjoints)
            for buffer, offsets, memory in spread:
                adjoints.add_memory(buffer, offsets[first : first + count], memory)
            return cts
        outer = graph.open_loop(count, reverse=True)
        segment = graph.sub(graph.constant(count - 1), outer.index)
        states = {k: view.at_index(graph, 0, 1, segment, count) for k, view in kept.states.items()}
        known = self._worth_keeping(loop, size)
        number = segments.iteration_number(graph, part, segment)
        groups = [[k] for k in states]
        again = self.copy.iterations(
            loop, adjoints.copied, states, size, number, rows=False, states=groups, known=known
        )
        back = _ReverseIterations(self, loop, size, number, *again.views(groups))
        inside = Adjoints(graph, adjoints.copied)
        begin = {k: graph.carry(outer, ct) for k, ct in cts.items()}
        results, spread = back.run(begin, sources, inside)
        outer.results = [results[k] for k in begin]
        add_sums = inside.sum_over_iterations(outer, adjoints)
        for _, _, memory in spread:
            nodes = [View.of(memory).at(graph, k) for k in range(memory.offsets.size)]
            outer.write_row(nodes)
        node = graph.close_loop(outer)
        add_sums(node)
        for (buffer, offsets, _), (rows, _) in zip(spread, outer.rows, strict=True):
            # The loop is reversed: its rows lie in the order of the segments.
            adjoints.add_memory(buffer, offsets[first : first + count * size], rows.whole(node))
        return {k: graph.final(node, j) for j, k in enumerate(begin)}


class _ReverseIterations(NamedTuple):
    """Some iterations of a loop, from the last to the first.

    Attributes:
        length: number of these iterations.
        number: (number among these iterations) ↦ number in the whole loop, as nodes.
        states: carried values by iteration, by their numbers.
        known: values of nodes by iteration, by serial number.
    """

    reverse: Reverse
    loop: Loop
    length: int
    number: Callable[[Node], Node]
    states: dict[int, View]
    known: dict[int, View]

    def run(
        self, cts: dict[int, Node], sources: _RowCotangents, adjoints: Adjoints
    ) -> tuple[dict[int, Node], list[tuple[Buffer, np.ndarray, Memory]]]:
        """Go through the iterations, with the cotangents `cts` of the carried values after them.

        Returns:
            The cotangents of the carried values before them; and what they add to arrays outside, as (buffer, offsets
            by iteration and column, cotangents).
        """
        reverse, loop, graph = self.reverse, self.loop, self.reverse.graph
        new = graph.open_loop(self.length, reverse=True)
        here = graph.sub(graph.constant(self.length - 1), new.index)
        number = self.number(here)
        inner = CopiedRegion(loop.body, adjoints.copied)
        inner.values[loop.index.serial] = number
        for k, view in self.states.items():
            inner.values[loop.params[k].serial] = view.at_index(graph, 0, 1, here, self.length)
        for serial, view in self.known.items():
            inner.values[serial] = view.at_index(graph, 0, 1, here, self.length)
        own = Adjoints(graph, inner, loop)
        params = {k: graph.carry(new, ct) for k, ct in cts.items()}
        for k, p in params.items():
            reverse.give(loop.params[k], loop.results[k], p, own)
        for node, ct in sources.at(number):
            reverse.give(node, node, ct, own)
        reverse.pull(reverse.dependence.nodes(loop.body), own)
        new.results = [own.values.pop(loop.params[k].serial, graph.zero) for k in params]
        add_sums = own.sum_over_iterations(new, adjoints)
        spread = []
        for rows in _disjoint(own.rows):
            rows.sort(key=lambda row: row[1][0])
            new.write_row([ct for _, _, ct in rows])
            spread.append((rows[0][0], np.stack([offsets for _, offsets, _ in rows], axis=1)))
        node = graph.close_loop(new)
        add_sums(node)
        laid = [(*places, rows.whole(node)) for places, (rows, _) in zip(spread, new.rows, strict=True)]
        return {k: graph.final(node, j) for j, k in enumerate(params)}, laid


def _disjoint(rows: list[_Row]) -> list[list[_Row]]:
    """Group rows (buffer, offset by iteration, cotangent) so that a group adds once to each place of a buffer."""
    groups: list[tuple[Buffer, set[int], list[_Row]]] = []
    for row in rows:
        offsets = set(row[1].tolist())
        for key, taken, group in groups:
            if key == row[0] and not taken & offsets:
                taken |= offsets
                group.append(row)
                break
        else:
            groups.append((row[0], offsets, [row]))
    return [group for _, _, group in groups]


class _RowCotangents:
    """Cotangents of the rows that a loop writes, by iteration.

    Attributes:
        columns: (node of a row, parts of its cotangents as (array, offset for each iteration or −1), single ones by
            iteration).
    """

    def __init__(self, graph: Graph, loop: Loop, adjoints: Adjoints, carries: Callable[[Node], bool]):
        self.graph, self.loop = graph, loop
        self.columns: list[tuple[Node, list[tuple[Memory, np.ndarray]], dict[int, Node]]] = []
        for buffer, row in loop.rows:
            width, size = buffer.width, buffer.length * buffer.width
            elements = {key[1]: adjoints.elements.pop(key) for key in list(adjoints.elements) if key[0] == buffer}
            parts = []
            for offsets, memory in adjoints.memory.pop(buffer, ()):
                full = np.full(size, -1)
                full[offsets] = np.arange(len(offsets))
                by_row = full.reshape(-1, width)
                parts.append((memory, by_row[::-1] if loop.reverse else by_row))
            for c, node in enumerate(row):
                if not carries(node):
                    continue
                iteration = lambda row: loop.length - 1 - row if loop.reverse else row
                scalars = {iteration(k // width): x for k, x in elements.items() if k % width == c}
                mine = [(memory, full[:, c]) for memory, full in parts if (full[:, c] >= 0).any()]
                if scalars or mine:
                    self.columns.append((node, mine, scalars))

    def at(self, number: Node) -> list[tuple[Node, Node]]:
        """Return pairs (node of a row, its cotangent) for the iteration `number`."""
        return [(node, self._sum(parts, scalars, number)) for node, parts, scalars in self.columns]

    def _sum(self, parts: list[tuple[Memory, np.ndarray]], scalars: dict[int, Node], number: Node) -> Node:
        """Return the cotangent of one node of a row in the iteration `number`, the sum of its parts."""
        graph, total = self.graph, self.graph.zero
        some: dict[int, Node] = dict(scalars)
        for memory, places in parts:
            view = View.of(memory)
            if places.min() >= 0:
                total = graph.add(total, View([(memory.buffer, memory.after, memory.offsets.ravel()[places])]).at_index(
                    graph, 0, 1, number))  # fmt: skip
                continue
            for k in np.flatnonzero(places >= 0).tolist():
                x = view.at(graph, int(places[k]))
                some[k] = graph.add(some[k], x) if k in some else x
        if len(some) > tuning.MAX_COMPARED_COTANGENT_ROWS:
            return graph.add(
                total, from_table(graph, [some.get(k, graph.zero) for k in range(self.loop.length)], number)
            )
        for k, x in some.items():
            here = graph.make("eq", number, graph.constant(k))
            total = graph.add(total, graph.select(here, x, graph.zero))
        return total


# NumPy functions of the operations by which `_index_by_iteration` computes indices for all iterations at once.
INDEX_OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "neg": np.negative,
    "idiv": lambda a, b: np.trunc(a / b).astype(int), "irem": np.fmod,
}  # fmt: skip


def _index_by_iteration(index: Node, loop: Loop) -> np.ndarray | None:
    """Return an integer node's value in every iteration; None unless it follows from the loop's counter alone."""
    if index is loop.index:
        return np.arange(loop.length)
    if index.is_constant:
        return np.full(loop.length, index.value)
    function = INDEX_OPERATIONS.get(index.op)
    if function is None or index.kind != "i":
        return None
    args = [_index_by_iteration(x, loop) for x in index.args]
    if any(x is None for x in args):
        return None
    return function(*args)
