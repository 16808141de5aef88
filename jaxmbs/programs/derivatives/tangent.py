"""Forward mode on a graph: from rates of the inputs of a program to rates of its results."""

from __future__ import annotations

from collections.abc import Iterable

from jaxmbs.programs.derivatives.copying import CopiedRegion, Copy, View, root_of
from jaxmbs.programs.derivatives.dependence import Dependence
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import Buffer, Loop, Node


class Forward:
    """Forward mode: builds a new graph with a copy of the nodes that it needs and the rates of the carrying ones.

    Attributes:
        copy: the copied nodes.
        rates: rates by copied region and serial number.
        memory: rates of arrays in memory by copied region and buffer.
        finals: rates of final values by copied region, loop and number of the carried value.
    """

    def __init__(self, graph: Graph, dependence: Dependence, *, marking: bool):
        self.copy = Copy(graph, dependence.need, marking=marking)
        self.graph, self.dependence = graph, dependence
        self.rates: dict[CopiedRegion, dict[int, Node]] = {}
        self.memory: dict[CopiedRegion, dict[Buffer, View]] = {}
        self.finals: dict[CopiedRegion, dict[tuple[Loop, int], Node]] = {}

    def rate(self, node: Node, copied: CopiedRegion) -> Node:
        """Return the rate of a node, zero if it has none."""
        if not self.dependence.carries(node):
            return self.graph.zero
        return self.rates[copied.of(node.region)].get(node.serial, self.graph.zero)

    def begin(self, copied: CopiedRegion) -> None:
        """Make empty tables for the rates of a region."""
        self.rates[copied], self.memory[copied], self.finals[copied] = {}, {}, {}

    def push(self, nodes: Iterable[Node], copied: CopiedRegion) -> None:
        """Make the rates of some nodes of a region, in the order in which these were made."""
        own = self.rates[copied]
        for node in nodes:
            if node.op == "loop":
                self._push_loop(node, copied)
            elif node.op == "stack":
                self.memory[copied][node.buffer] = View(nodes=[self.rate(x, copied) for x in node.args])
            elif node.op != "param" and self.dependence.carries(node):
                own[node.serial] = self._carrying_rate(node, copied)

    def _carrying_rate(self, node: Node, copied: CopiedRegion) -> Node:
        """Return the rate of a node that carries, by the rule of its operation."""
        graph, op, args = self.graph, node.op, node.args
        rate = lambda x: self.rate(x, copied)
        value = lambda x: self.copy.value(x, copied)
        if op in ("add", "sub", "neg"):
            return graph.make(op, *map(rate, args))
        if op == "mul":
            a, b = args
            terms = [graph.mul(rate(x), value(y)) for x, y in ((a, b), (b, a)) if self.dependence.carries(x)]
            return graph.total(terms)
        if op == "select":
            return graph.select(value(args[0]), rate(args[1]), rate(args[2]))
        if op == "out":
            return self.finals[copied.of(args[0].region)].get((args[0].loop, node.number), graph.zero)
        if op == "load":
            return self._loaded_rate(node, copied)
        if op == "mark":
            return self._mark_rate(node, copied)
        return graph.total([graph.mul(rate(x), value(slope)) for x, slope in self.dependence.slopes[node.serial]])

    def _mark_rate(self, node: Node, copied: CopiedRegion) -> Node:
        """Return the rate of a mark, by the rule of its group."""
        group, k = node.member
        rates, results = self.dependence.rates_of(group)
        own = copied.of(group.region).values
        for value in rates:
            for x in value.ravel() if value is not None else ():
                if x.op == "param":
                    own[x.serial] = self.rate(x.origin, copied)
        return self.copy.value(results[k], copied)

    def _loaded_rate(self, node: Node, copied: CopiedRegion) -> Node:
        """Return the rate of a scalar in memory that a "load" node reads."""
        buffer, offset, stride = node.address
        where = copied.of(node.filler.region if node.filler else root_of(copied))
        view = self.memory[where].get(buffer)
        if view is None:
            return self.graph.zero
        if node.moving_index is None:
            return view.at(self.graph, offset)
        return view.at_index(self.graph, offset, stride, self.copy.value(node.moving_index, copied))

    def _push_loop(self, node: Node, copied: CopiedRegion) -> None:
        """Copy a loop, with the rates of its carried values beside them."""
        loop, graph = node.loop, self.graph
        carries = self.dependence.carries
        carried = self.dependence.need.params(loop)
        moving = sorted(k for k in self.dependence.carried.get(loop, ()) if carries(loop.params[k]))
        new = graph.open_loop(loop.length, reverse=loop.reverse)
        inner = CopiedRegion(loop.body, copied)
        self.begin(inner)
        inner.values[loop.index.serial] = new.index
        for k in carried:
            inner.values[loop.params[k].serial] = graph.carry(new, self.copy.value(loop.inits[k], copied))
        for k in moving:
            self.rates[inner][loop.params[k].serial] = graph.carry(new, self.rate(loop.inits[k], copied))
        if loop.condition is not None:
            self.copy.copy_condition(loop, new, copied, carried)
        self.push(self.dependence.nodes(loop.body), inner)
        written = [(b, self.copy.values(row, inner)) for b, row in self.dependence.need.rows(loop)]
        changing = [(b, [self.rate(x, inner) for x in row]) for b, row in loop.rows if any(map(carries, row))]
        for _, row in (*written, *changing):
            new.write_row(row)
        new.results = [self.copy.value(loop.results[k], inner) for k in carried]
        new.results += [self.rate(loop.results[k], inner) for k in moving]
        closed = graph.close_loop(new)
        views = [View.of(b.whole(closed)) for b, _ in new.rows]
        copied.memory.update({b: view for (b, _), view in zip(written, views, strict=False)})
        self.memory[copied].update({b: v for (b, _), v in zip(changing, views[len(written) :], strict=True)})
        copied.finals.update({(loop, k): graph.final(closed, j) for j, k in enumerate(carried)})
        copied.values[node.serial] = graph.zero
        self.finals[copied].update({(loop, k): graph.final(closed, len(carried) + j) for j, k in enumerate(moving)})
