"""The part of a graph that results need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from jaxmbs.programs.graph.nodes import REAL, Buffer, Carried, Loop, Memory, Node, Region

# Index of the last part of a region that is computed in several parts; the others count from 0.
LAST = -1


class Liveness:
    """The nodes, carried values and rows that some results need.

    Attributes:
        marking: True if the rules of marks count as well.
        needed: serial numbers of the nodes.
        carried: loop ↦ numbers of its carried values.
        buffers: buffer of the arrays that are read.
        regions: all regions, each after the one around it.
        results: the results.
    """

    def __init__(self, root: Region, results: Sequence[np.ndarray | Memory], marking: bool = False):
        self.marking = marking
        self.needed: set[int] = set()
        self.carried: dict[Loop, set[int]] = {}
        self.buffers: set[Buffer] = set()
        self._groups: set[Any] = set()
        self._pending: list[Node] = []
        self.results = results
        for result in results:
            if isinstance(result, Memory):
                self._need_memory(result.after, result.buffer)
            else:
                self._pending += result.ravel().tolist()
        while self._pending:
            self._visit(self._pending.pop())
        self.regions = [root]
        for region in self.regions:
            for node in self.nodes(region):
                if node.op == "loop":
                    loop = node.loop
                    self.regions += [loop.body, *([loop.condition_region] if loop.condition_region else [])]

    def nodes(self, region: Region) -> list[Node]:
        """Return the needed nodes of a region in an order in which they can be computed."""
        return [node for node in region.nodes if node.serial in self.needed]

    def params(self, loop: Loop) -> list[int]:
        """Return the numbers of the carried values of a loop that are needed."""
        return sorted(self.carried.get(loop, ()))

    def rows(self, loop: Loop) -> list[tuple[Buffer, list[Node]]]:
        """Return the rows of a loop that have to be written."""
        return [(buffer, row) for buffer, row in loop.rows if buffer in self.buffers]

    @cached_property
    def uses(self) -> Counter[int]:
        """Number of uses of each node, by serial number."""
        found: Counter[int] = Counter()
        count = lambda nodes: found.update(x.serial for x in nodes)
        for result in self.results:
            if not isinstance(result, Memory):
                count(result.ravel())
        for region in self.regions:
            for node in self.nodes(region):
                count(node.args)
                if node.op == "loop":
                    loop = node.loop
                    count(loop.results[k] for k in self.params(loop))
                    for _, row in self.rows(loop):
                        count(row)
                    count([loop.condition] if loop.condition is not None else [])
        return found

    @cached_property
    def products(self) -> dict[int, Node]:
        """Sum or difference ↦ product of the same region that nothing else uses, the first of two.

        Backends round them together. This is decided here and not by a compiler, so that results have the same bits in
        kernels of one lane and of many, optimised or not, and in C.
        """
        found: dict[int, Node] = {}
        for region in self.regions:
            for node in self.nodes(region):
                if node.op in ("add", "sub") and node.kind == REAL:
                    for x in node.args:
                        if (
                            x.op == "mul"
                            and self.uses[x.serial] == 1
                            and x.uniform == node.uniform
                            and x.region is region
                        ):
                            found[node.serial] = x
                            break
        return found

    @cached_property
    def crossing(self) -> set[int]:
        """Serial numbers of nodes that a region other than their own uses."""
        return self.used_elsewhere({})

    def used_elsewhere(self, part: dict[int, int]) -> set[int]:
        """Return the serial numbers of nodes that another region, or another part of their own, uses.

        Args:
            part: serial number ↦ part of its region, 0 by default. The results of a region are used in its last part,
                number −1.
        """
        found: set[int] = set()

        def use(node: Node, region: Region, here: int) -> None:
            """Note a node that is used in part `here` of a region if it comes from another part or region."""
            if node.op in ("const", "param"):
                return
            # The counter is known in all parts of its own region.
            if node.region is not region or (node.op != "index" and part.get(node.serial, 0) != here):
                found.add(node.serial)

        for region in self.regions:
            for node in self.nodes(region):
                here = part.get(node.serial, 0)
                if node.op == "loop":
                    self._use_loop(node, region, here, use, part)
                    continue
                for arg in node.args:
                    if arg.op not in ("loop", "stack"):
                        use(arg, region, here)
        return found

    def _use_loop(self, node: Node, region: Region, here: int, use: Callable[..., None], part: dict[int, int]) -> None:
        """Note the nodes that a loop in part `here` of a region uses: initial values, results, condition and rows."""
        loop = node.loop
        end = lambda region: LAST if any(part.get(x.serial, 0) == LAST for x in region.nodes) else 0
        body = end(loop.body)
        for k in self.params(loop):
            use(loop.results[k], loop.body, body)
            use(loop.inits[k], region, here)
        for _, row in self.rows(loop):
            for x in row:
                use(x, loop.body, body)
        if loop.condition is not None:
            use(loop.condition, loop.condition_region, end(loop.condition_region))

    def _visit(self, node: Node) -> None:
        """Note as needed the nodes on which a needed node depends directly."""
        if node.serial in self.needed:
            return
        self.needed.add(node.serial)
        if node.op == "param":
            if isinstance(node.origin, Carried):
                self._need_carried(*node.origin)
        elif node.op == "out":
            self._pending.append(node.args[0])
            self._need_carried(node.args[0].loop, node.number)
        elif node.op == "loop":
            if node.loop.condition is not None:
                self._pending.append(node.loop.condition)
        else:
            self._pending += node.args
            if node.op == "load" and node.filler is not None:
                self._need_memory(node.filler, node.address.buffer)
            elif node.op == "mark" and self.marking and node.member.group not in self._groups:
                self._groups.add(node.member.group)
                self._pending += node.member.group.nodes()

    def _need_memory(self, after: Node | None, buffer: Buffer) -> None:
        """Note as needed the nodes that fill a buffer, all by `after`."""
        self.buffers.add(buffer)
        if after is None:
            return
        self._pending.append(after)
        if after.op == "loop":
            for own, row in after.loop.rows:
                if own is buffer:
                    self._pending += row

    def _need_carried(self, loop: Loop, k: int) -> None:
        """Note as needed carried value k of a loop, and the nodes that it comes from."""
        carried = self.carried.setdefault(loop, set())
        if k not in carried:
            carried.add(k)
            self._pending += [loop.inits[k], loop.results[k]]
