"""A graph, or what is needed of it, made again in another graph: with other inputs, in other loops, without its marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import REAL, Buffer, Carried, Loop, Memory, Node, Region, array, reached
from jaxmbs.programs.tracing.loops import close_loop, new_loop
from jaxmbs.programs.tracing.marks import mark
from jaxmbs.programs.tracing.trace import Deferred


class View:
    """What has become of an array in memory: pieces of other arrays, or nodes.

    pieces: (buffer, the node that fills it or None, for each old offset the new one or −1).
    nodes: for each old offset a node, instead.
    """

    __slots__ = ("nodes", "pieces")

    def __init__(
        self, pieces: Sequence[tuple[Buffer, Node | None, np.ndarray]] = (), nodes: Sequence[Node] | None = None
    ):
        self.pieces, self.nodes = list(pieces), nodes

    @classmethod
    def of(cls, memory: Memory) -> View:
        """An array in memory as it is."""
        return cls([(memory.buffer, memory.after, memory.offsets.ravel())])

    def at(self, graph: Graph, offset: int) -> Node:
        """The scalar at an offset."""
        if self.nodes is not None:
            return self.nodes[offset]
        for buffer, after, offsets in self.pieces:
            if offsets[offset] >= 0:
                return graph.load(buffer, after, int(offsets[offset]))
        raise AssertionError("no piece of memory has this scalar")

    def indexed(self, graph: Graph, offset: int, stride: int, index: Node, rows: int | None = None) -> Node:
        """The scalar at offset + stride·index, for an index below `rows`."""
        if index.is_constant:
            return self.at(graph, offset + stride * index.value)
        size = len(self.nodes) if self.nodes is not None else len(self.pieces[0][2])
        every = list(reached(size, offset, stride))[:rows]
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
    """table[index] by memory, for an index that is certainly within."""
    if all(x is table[0] for x in table):
        return table[0]
    stack = graph.stack(tuple(table), len(table))
    return graph.load(stack.buffer, stack, 0, index, 1)


class Place:
    """Where nodes of one region are copied to: what they have become, in the region or around it.

    values: serial number → node. memory: id(buffer) → view. finals: (id(loop), number of a carried value) → node.
    """

    __slots__ = ("around", "finals", "kept", "marks", "memory", "region", "values")

    def __init__(self, region: Region, around: Place | None = None):
        self.region, self.around = region, around
        self.values: dict[int, Node] = {}
        self.memory: dict[int, View] = {}
        self.finals: dict[tuple[int, int], Node] = {}
        self.kept: dict[int, list] = {}  # id(loop) → parts, see `segments`
        self.marks: dict[int, list[Node]] = {}  # id(group) → its marks

    def of(self, region: Region) -> Place:
        """The place of a region around this one."""
        place: Place | None = self
        while place is not None and place.region is not region:
            place = place.around
        assert place is not None
        return place


def root_of(place: Place) -> Region:
    """The outermost region around a place."""
    while place.around is not None:
        place = place.around
    return place.region


class Rounds(NamedTuple):
    """What a copied loop leaves: carried values, and rows by id(buffer).

    Of every round also the state before it, in groups of carried values, and known values in it. flipped: whether these lie
    in the order from the last round to the first.
    """

    finals: dict[int, Node]
    rows: dict[int, Memory]
    states: list[Memory]
    known: dict[int, Memory]
    flipped: bool

    def views(self, groups: Sequence[Sequence[int]]) -> tuple[dict[int, View], dict[int, View]]:
        """States by number of the carried value, and known values by serial number, both by round."""
        known = {serial: View.of(_in_order(memory, self.flipped)) for serial, memory in self.known.items()}
        return states_by_number(groups, self.states, self.flipped), known


def _in_order(memory: Memory, flipped: bool) -> Memory:
    return memory.moved(memory.offsets[::-1]) if flipped else memory


def states_by_number(groups, states: Sequence[Memory], flipped: bool) -> dict[int, View]:
    """Rows of groups of carried values as one view for each of these."""
    found = {}
    for group, memory in zip(groups, states, strict=True):
        rows = _in_order(memory, flipped)
        found.update({k: View.of(rows.moved(rows.offsets[:, j])) for j, k in enumerate(group)})
    return found


class Copy:
    """Copies of the needed nodes of one graph in another.

    need: what of the old graph is needed; decides which carried values and rows of a loop are copied.
    marking: whether the new graph is to be differentiated as well.
    on_loop: (node of a loop, place) ↦ whether it has copied the loop itself.
    """

    def __init__(
        self,
        graph: Graph,
        need: Liveness,
        *,
        marking: bool,
        depth: int = 0,
        on_loop: Callable[[Node, Place], bool] = lambda node, place: False,
    ):
        self.graph, self.need, self.marking, self.depth, self.on_loop = graph, need, marking, depth, on_loop

    def value(self, node: Node, place: Place) -> Node:
        """What a node has become; copied, with all that it needs, when first asked for."""
        if node.op == "const":
            return self.graph.constant(node.value)
        found = place.of(node.region).values.get(node.serial)
        return self._made(node, place) if found is None else found

    def values(self, nodes: Iterable[Node], place: Place) -> list[Node]:
        return [self.value(x, place) for x in nodes]

    def _made(self, node: Node, place: Place) -> Node:
        pending = [node]
        while pending:
            here = pending[-1]
            own = place.of(here.region)
            if here.serial in own.values:
                pending.pop()
                continue
            missing = [
                x for x in self._arguments(here, own) if x.op != "const" and x.serial not in place.of(x.region).values
            ]
            if missing:
                pending += missing
                continue
            pending.pop()
            own.values[here.serial] = self._copied(here, own)
        return place.of(node.region).values[node.serial]

    def _arguments(self, node: Node, place: Place) -> Iterable[Node]:
        if node.op == "mark":
            group = node.member.group
            return node.args if not self.marking or id(group) in place.marks else (*node.args, *group.nodes())
        if node.op == "loop":
            # Bodies ask for what they need.
            return [node.loop.inits[k] for k in self.need.params(node.loop)]
        if node.op == "out":
            return () if (id(node.args[0].loop), node.number) in place.finals else node.args
        if node.op == "load" and node.args and id(node.address.buffer) in place.of(node.args[0].region).memory:
            return node.args[1:] if node.args[0].op in ("loop", "stack") else node.args
        return node.args

    def _copied(self, node: Node, place: Place) -> Node:
        graph, op = self.graph, node.op
        get = lambda x: graph.constant(x.value) if x.op == "const" else place.of(x.region).values[x.serial]
        if op == "load":
            return self._loaded(node, place, get)
        if op == "stack":
            nodes = tuple(map(get, node.args))
            place.memory[id(node.buffer)] = View(nodes=nodes)
            return graph.zero
        if op == "loop":
            if not self.on_loop(node, place):
                self._loop(node, place)
            return graph.zero
        if op == "out":
            return place.finals[id(node.args[0].loop), node.number]
        if op in ("stop", "save"):
            return graph.held(get(node.args[0]), op) if self.marking else get(node.args[0])
        if op == "mark":
            return self._marked(node, place, get)
        return graph.make(op, *map(get, node.args), kind=node.kind)

    def _loaded(self, node: Node, place: Place, get: Callable) -> Node:
        buffer, offset, stride = node.address
        after = node.args[0] if node.args and node.args[0].op in ("loop", "stack") else None
        view = place.of(after.region if after is not None else root_of(place)).memory[id(buffer)]
        index = node.args[-1] if len(node.args) > (after is not None) else None
        return view.at(self.graph, offset) if index is None else view.indexed(self.graph, offset, stride, get(index))

    def _marked(self, node: Node, place: Place, get: Callable) -> Node:
        group, k = node.member
        if not self.marking:
            return get(node.args[0])
        if id(group) not in place.marks:
            every = lambda value: array([get(x) for x in value.ravel()], value.shape)
            inputs = [self.factors(x, get) if isinstance(x, Deferred) else every(x) for x in group.inputs]
            values = mark(self.graph, group.rule, inputs, [every(x) for x in group.values])
            pairs = zip(values, group.values, strict=True)
            flat = [pair for new, old in pairs for pair in zip(new.ravel(), old.ravel(), strict=True)]
            place.marks[id(group)] = [new for new, old in flat if old.kind == REAL]
        return place.marks[id(group)][k]

    def factors(self, value: Deferred, get: Callable) -> Deferred:
        """Factors of a matrix as those of its copy."""
        known = value.known.moved(self.graph, get)

        def entries():
            raise AssertionError("factors are used for solving only")

        return Deferred(entries, known)

    def _loop(self, node: Node, place: Place) -> None:
        """A loop as it is."""
        loop = node.loop
        inits = {k: self.value(loop.inits[k], place) for k in self.need.params(loop)}
        found = self.rounds(loop, place, inits, loop.length, lambda index: index)
        place.finals.update({(id(loop), k): x for k, x in found.finals.items()})
        place.memory.update({key: View.of(memory) for key, memory in found.rows.items()})

    def rounds(
        self,
        loop: Loop,
        place: Place,
        inits: dict[int, Node],
        length: int,
        number: Callable[[Node], Node],
        *,
        rows: bool = True,
        states: Sequence[Sequence[int]] = (),
        known: Sequence[Node] = (),
    ) -> Rounds:
        """Rounds of a loop from a state. number: own index ↦ which round of the whole loop it is.

        states, known: groups of carried values as they are before each round, and nodes of the body, that are left as rows.
        """
        new = self.opened(length, reverse=loop.reverse and rows)
        inner = Place(loop.body, place)
        inner.values[loop.index.serial] = number(new.index)
        carried = sorted(inits)
        for k in carried:
            inner.values[loop.params[k].serial] = self.parameter(new, inits[k])
        if loop.condition is not None:
            self.condition(loop, new, place, carried)
        written = self.need.rows(loop) if rows else []
        buffers: list[tuple[Buffer, list[Node]]] = []
        for buffer, row in written:
            made = self.values(row, inner)
            buffers.append((Buffer(None, buffer.kind, length, buffer.width), made))
        new.results = [self.value(loop.results[k], inner) for k in carried]
        for group in states:
            row = [new.params[carried.index(k)] for k in group]
            buffers.append((Buffer(None, row[0].kind, length, len(row)), row))
        for x in self.values(known, inner):
            buffers.append((Buffer(None, x.kind, length, 1), [x]))
        new.rows = buffers
        node = self.closed(new)
        memory = [Memory(b, np.arange(length * b.width).reshape(length, b.width), node) for b, _ in buffers]
        first, last = len(written), len(written) + len(states)
        return Rounds(
            {k: self.final(node, j) for j, k in enumerate(carried)},
            {id(b): m for (b, _), m in zip(written, memory, strict=False)},
            memory[first:last],
            {x.serial: m for x, m in zip(known, memory[last:], strict=True)},
            new.reverse,
        )

    def opened(self, length: int, reverse: bool = False) -> Loop:
        """A new loop, to be filled and closed."""
        self.depth += 1
        return new_loop(self.graph, self.depth, length, reverse)

    def parameter(self, loop: Loop, init: Node) -> Node:
        """A carried value of an open loop, which starts from a node."""
        node = self.graph.parameter(init.kind, loop.body, Carried(loop, len(loop.params)))
        loop.params.append(node)
        loop.inits.append(init)
        return node

    def closed(self, loop: Loop) -> Node:
        """The node of an open loop."""
        self.depth -= 1
        return close_loop(self.graph, loop)

    def final(self, node: Node, k: int) -> Node:
        """A carried value after a loop."""
        return self.graph.shared("out", (node,), node.loop.params[k].kind, k)

    def condition(self, loop: Loop, new: Loop, place: Place, carried: Sequence[int]) -> None:
        """The condition of a loop as that of its copy, whose first carried values are these."""
        assert loop.condition is not None
        assert loop.condition_region is not None
        new.condition_region, new.line = Region(self.depth), loop.line
        seen = Place(loop.condition_region, place)
        for p in new.params:
            new.condition_params.append(self.graph.parameter(p.kind, new.condition_region, p.origin))
        for k, p in zip(carried, new.condition_params, strict=False):
            seen.values[loop.condition_params[k].serial] = p
        new.condition = self.value(loop.condition, seen)
