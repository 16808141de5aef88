"""The part of a graph that a derivative goes through: nodes that change with its inputs and that its results depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from numpy.typing import DTypeLike

from jaxmbs.programs.derivatives.slopes import DIRECT, HANDED_ON, STEADY, carriers, partials
from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import REAL, Buffer, Carried, Loop, Memory, Node, Region, array, reached_offsets
from jaxmbs.programs.tracing.marks import MarkGroup, nodes_of
from jaxmbs.programs.tracing.program import TracedGraph
from jaxmbs.programs.tracing.trace import Tracer


class Dependence:
    """The part of a marked graph that carries the derivative of its real results by some of its inputs.

    A node carries if it is active, which means that it changes with these inputs, and useful, which means that a result
    changes with it. Rules of marks, and slopes of other operations, become nodes of the same graph as they are met.

    Attributes:
        useful: serial numbers of carrying nodes, and of loops and stacks that contain some.
        carried: loop ↦ numbers of its carried values that carry.
        slopes: serial number ↦ (argument, derivative by it) of an operation.
        need: the part of the graph that has to be computed for all that.
    """

    def __init__(
        self,
        traced: TracedGraph,
        dtype: DTypeLike,
        active_inputs: Sequence[bool],
        *,
        with_values: bool = False,
        forward: bool = False,
        marking: bool = False,
    ):
        self.forward = forward
        self.traced, self.graph = traced, traced.graph
        self.tracer = Tracer(self.graph, dtype, marking=True)
        self.active_inputs = list(active_inputs)
        self.active: set[int] = set()
        # Active nodes of rules, which change with the rates of their own group.
        self.inside: set[int] = set()
        self.owner: dict[int, MarkGroup] = {}
        self.useful: set[int] = set()
        self.carried: dict[Loop, set[int]] = {}
        self.slopes: dict[int, list[tuple[Node, Node]]] = {}
        self.masks: dict[MarkGroup, Any] = {}  # group → active inputs; None if the derivative goes through the values
        self._seeds: list[Node] = []
        live = traced.live(marking=True)
        self._activate(live.nodes(traced.root), live, self.active)
        self._find_useful()
        seeds = array(self._seeds, (len(self._seeds),))
        self.need = Liveness(traced.root, [*(traced.results if with_values else ()), seeds], marking)

    def carries(self, node: Node) -> bool:
        """Return True if a node is active and useful: part of what is differentiated."""
        return node.serial in self.useful and (node.serial in self.active or node.serial in self.inside)

    def follows(self, node: Node, argument: Node) -> bool:
        """Return True if the derivative goes on to an argument; from nodes of a rule it goes to nodes of rules only."""
        return argument.serial in self.useful and argument.serial in self._context(node)

    def _context(self, node: Node) -> set[int]:
        """Return the active nodes that count for a node: those of rules for nodes of a rule."""
        return self.inside if node.serial in self.inside else self.active

    def rates_of(self, group: MarkGroup) -> tuple[list[Any], list[Node]]:
        """Return the rates of a group's inputs, arrays of parameters or None, and those of its marks."""
        rates, results, _ = group.linear[self.masks[group]]
        return rates, results

    def nodes(self, region: Region) -> list[Node]:
        """Return the carrying nodes of a region, except those of rules, in the order in which they were made."""
        return [x for x in region.nodes if x.serial in self.useful and x.serial not in self.owner]

    def rule_nodes(self, group: MarkGroup) -> list[Node]:
        """Return the carrying nodes that the rule of a group made."""
        log = group.linear[self.masks[group]][2]
        return [x for x in log if self.owner.get(x.serial) is group and x.serial in self.useful]

    def _activate(self, nodes: Iterable[Node], live: Liveness | None, found: set[int]) -> None:
        """Add to `found` those of the nodes that change with the nodes in `found`."""
        for node in nodes:
            # A loop is visited again, because an iteration of a loop around it may have activated more of it.
            if (node.serial not in found or node.op == "loop") and self._is_active(node, live, found):
                found.add(node.serial)

    def _is_active(self, node: Node, live: Liveness | None, found: set[int]) -> bool:
        """Return True if a node changes with any of those in `found`."""
        op = node.op
        if op == "loop":
            return self._activate_loop(node.loop, live, found)
        if op == "out":
            loop = node.args[0].loop
            return node.kind == REAL and (loop.params[node.number].serial in found)
        if node.kind != REAL or (op in STEADY and not (op in HANDED_ON and found is self.inside)):
            return False
        if op == "load":
            buffer = node.address.buffer
            if buffer.source is not None:
                return found is self.active and self.active_inputs[buffer.source]
            filler = node.args[0]
            rows = [filler.args] if filler.op == "stack" else [row for own, row in filler.loop.rows if own is buffer]
            return any(x.serial in found for row in rows for x in row)
        if op == "mark":
            group = node.member.group
            return any(x.serial in found for x in group.marks) or any(group.mask(found))
        return any(x.serial in found for x in node.args)

    def _activate_loop(self, loop: Loop, live: Liveness | None, found: set[int]) -> bool:
        """Add a loop's nodes that change with those in `found`; return True if any carried value or row does."""
        nodes = live.nodes(loop.body) if live is not None else loop.body.nodes
        while True:
            before = len(found)
            for param, init, result in zip(loop.params, loop.inits, loop.results, strict=True):
                if param.kind == REAL and (init.serial in found or result.serial in found):
                    found.add(param.serial)
            self._activate(nodes, live, found)
            if len(found) == before:
                break
        return any(p.serial in found for p in loop.params) or any(
            x.serial in found for _, row in loop.rows for x in row
        )

    def _find_useful(self) -> None:
        """Find the active nodes that the results depend on."""
        pending: list[Node] = []
        for result in self.traced.results:
            if isinstance(result, Memory):
                self._reach_memory(result.buffer, result.after, result.offsets.ravel().tolist(), pending)
            else:
                pending += result.ravel().tolist()
        while pending:
            node = pending.pop()
            if node.serial in self.useful or node.kind != REAL:
                continue
            if node.serial not in self.inside and node.serial not in self.active:
                continue
            self.useful.add(node.serial)
            self._reach(node, pending)

    def _reach(self, node: Node, pending: list[Node]) -> None:
        """Add to `pending` the active nodes to which the derivative goes on from a useful node."""
        op = node.op
        if op == "param":
            if isinstance(node.origin, Carried):
                self._reach_carried(*node.origin, pending)
            elif node.origin is not None:
                pending.append(node.origin)  # the rate of an input of a rule
        elif op == "out":
            self.useful.add(node.args[0].serial)
            self._reach_carried(node.args[0].loop, node.number, pending)
        elif op == "load":
            buffer, offset, stride = node.address
            offsets: Iterable[int] = [offset]
            if node.moving_index is not None:
                self._seeds.append(node.moving_index)
                offsets = reached_offsets(buffer.length * buffer.width, offset, stride)
            self._reach_memory(buffer, node.filler, offsets, pending)
        elif op == "mark":
            self._reach_mark(node, pending)
        else:
            carrying = self._context(node)
            args = [x for x in carriers(node) if x.serial in carrying]
            pending += args
            self._note_slopes(node, args)

    def _reach_carried(self, loop: Loop, k: int, pending: list[Node]) -> None:
        """Add to `pending` the nodes from which carried value k of a loop comes."""
        carried = self.carried.setdefault(loop, set())
        if loop.condition is not None and not carried:
            self._seeds.append(loop.condition)
        if k not in carried:
            carried.add(k)
            pending += [loop.inits[k], loop.results[k], loop.params[k]]

    def _reach_memory(self, buffer: Buffer, after: Node | None, offsets: Iterable[int], pending: list[Node]) -> None:
        """Add to `pending` the nodes that are stored at these offsets of an array in memory."""
        if after is None:
            return
        self.useful.add(after.serial)
        if after.op == "stack":
            pending += [after.args[k] for k in offsets]
            return
        columns = {k % buffer.width for k in offsets}
        for own, row in after.loop.rows:
            if own is buffer:
                pending += [row[k] for k in columns]

    def _reach_mark(self, node: Node, pending: list[Node]) -> None:
        """Add to `pending` the inputs of a mark's group, or the nodes of its rule."""
        group, k = node.member
        carrying = self._context(node)
        if carrying is self.inside and not group.rule.is_linear(group.mask(carrying)):
            # A rate is linear in other rates, so the derivative goes through the operations that it consists of.
            self.masks[group] = None
            pending.append(node.args[0])
            return
        if group not in self.masks:
            mask = self.masks[group] = group.mask(carrying)
            if self.forward or self.is_direct(group):
                pending += [x for value in compress(group.inputs, mask) for x in value.ravel()]
            if self.is_direct(group):
                for on, value in zip(mask, group.inputs, strict=True):
                    if not on or not group.rule.is_linear(mask):
                        self._seeds += nodes_of(value)
            else:
                self._expand(group, mask)
        if self.forward:
            self._seeds.append(self.rates_of(group)[1][k])
        elif not self.is_direct(group):
            pending.append(self.rates_of(group)[1][k])

    def is_direct(self, group: MarkGroup) -> bool:
        """Return True if the rule of a group returns cotangents itself, so that its rates are not needed for them."""
        return not self.forward and group.rule.is_direct(self.masks[group])

    def _expand(self, group: MarkGroup, mask: tuple[bool, ...]) -> None:
        """Trace the rule of a group for some active inputs, unless that is done, and find the nodes that it consists of."""
        graph = self.graph
        if mask not in group.linear:
            region = group.region
            log: list[Node] = []
            graph.log = log
            depth, graph.depth = graph.depth, region.depth
            rates: list[Any] = []
            for on, value in zip(mask, group.inputs, strict=True):
                make = lambda x: graph.parameter(REAL, region, x) if _may_change(x) else graph.zero
                rates.append(array([make(x) for x in value.ravel()], value.shape) if on else None)
            try:
                found = group.rule.tangents(self.tracer, group.inputs, group.values_with_marks(), rates)
                results = [x for value in found for x in self.tracer.nodes(value).ravel()]
            finally:
                graph.log, graph.depth = None, depth
            group.linear[mask] = rates, results, log
        rates, _, log = group.linear[mask]
        self.inside.update(x.serial for value in rates if value is not None for x in value.ravel() if x.op == "param")
        self._activate(log, None, self.inside)
        self.owner.update({x.serial: group for x in log if x.region is group.region and x.serial in self.inside})

    def _note_slopes(self, node: Node, args: Sequence[Node]) -> None:
        """Note the nodes that the derivatives of an operation by these arguments consist of."""
        if node.op == "mul":
            a, b = node.args
            self._seeds += [other for x, other in ((a, b), (b, a)) if x in args]
        elif node.op == "select":
            self._seeds.append(node.args[0])
        elif node.op not in DIRECT:
            found = [(a, slope) for a, slope in partials(self.graph, node) if a in args]
            self.slopes[node.serial] = found
            self._seeds += [slope for _, slope in found]


def _may_change(node: Node) -> bool:
    """Return True if a node can have a derivative that is not zero, judged by its kind and operation alone."""
    return node.kind == REAL and not node.is_constant
