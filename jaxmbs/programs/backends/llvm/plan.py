"""The plan of a module: which functions there are, the frame, and the memory of rows."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.text import ALIGNMENT, Frame, Text
from jaxmbs.programs.graph.liveness import LAST
from jaxmbs.programs.graph.nodes import Buffer, Memory, Node, Region
from jaxmbs.programs.graph.ordering import order_with_few_values
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.program import Program


class Plan:
    """The plan of a program that all its functions share.

    Attributes:
        program: the program.
        lanes: number of lanes of a vector.
        module: the module as text.
        frame: memory of values that cross regions.
        live: needed part of the graph.
        order: nodes of each region in an order with few values alive at once; empty if they keep their order.
        part: serial number ↦ function of its region, for large regions; the last one is `LAST`.
        crossing: serial numbers of nodes that functions other than their own use.
        written: buffer ↦ outputs that are this buffer.
        inner: buffer of those that are read inside the program.
        scratch: buffer ↦ offset in bytes in the scratch memory, of `scratch_bytes`.
        apart: numbers of the inputs, and after them the outputs, whose scalars do not lie side by side.
        products: serial number of a sum or difference ↦ the product in it that is rounded together with it. It is
            decided here, not by LLVM, so that results have the same bits in kernels of one lane and of many, optimised
            or not.
        absorbed: serial numbers of these products.
    """

    def __init__(self, program: Program, lanes: int, pointer: str = "ptr", ordered: bool = False):
        self.program, self.lanes = program, lanes
        self.module = Text(lanes, program.dtype, pointer)
        self.frame = Frame(lanes)
        self.live = program.live
        self.order = order_with_few_values(self.live) if ordered else {}
        self.products = self.live.products
        self.absorbed = {product.serial for product in self.products.values()}
        self.part = self._parts()
        self.crossing = self._crossing()
        self.written: dict[Buffer, list[int]] = {}
        self.inner: set[Buffer] = set()
        self.scratch: dict[Buffer, int] = {}
        self.scratch_bytes = 0
        self.apart: frozenset[int] = frozenset()
        self._names = 0
        self._plan_memory()

    def nodes(self, region: Region) -> list[Node]:
        """Return the needed nodes of a region in the order in which they are computed."""
        return self.order.get(region) or self.live.nodes(region)

    def parts(self, nodes: list[Node]) -> list[list[Node]]:
        """Return the nodes of a region in lists, one for each function that computes them; the last ends the region."""
        found: dict[int, list[Node]] = {}
        for node in nodes:
            if node.op not in ("const", "param", "index"):
                found.setdefault(self.part.get(node.serial, LAST), []).append(node)
        # A product that is rounded with a sum of a later function belongs there, so that the numbers may come out of order.
        return [*(found[k] for k in sorted(found) if k != LAST), found.get(LAST, [])]

    def _parts(self) -> dict[int, int]:
        """Return serial number ↦ number of the function, for the nodes of regions too large for one function."""
        found: dict[int, int] = {}
        for region in self.live.regions:
            nodes = [x for x in self.nodes(region) if x.op not in ("const", "param", "index")]
            count = -(-len(nodes) // tuning.MAX_FUNCTION_NODES)
            if count > 1:
                size = -(-len(nodes) // count)
                for k, node in enumerate(nodes):
                    found[node.serial] = k // size if k // size < count - 1 else LAST
        for serial, product in self.products.items():
            if serial in found:
                found[product.serial] = found[serial]
        return found

    def _crossing(self) -> set[int]:
        """Return the serial numbers of nodes that functions other than their own use."""
        if not self.part:
            return self.live.crossing
        # Results are stored at the end of the root.
        ends = {x.serial for result in self.program.results if not isinstance(result, Memory) for x in result.ravel()}
        earlier = {serial for serial in ends if self.part.get(serial, LAST) != LAST}
        return self.live.used_elsewhere(self.part) | earlier

    def new_name(self, prefix: str) -> str:
        """Return a name for a function or a label that is not used yet: the prefix and a number."""
        self._names += 1
        return f"{prefix}{self._names}"

    def _plan_memory(self) -> None:
        """Find the outputs that are rows of a loop, and places for the rows that the program reads itself."""
        for k, result in enumerate(self.program.results):
            if isinstance(result, Memory):
                self.written.setdefault(result.buffer, []).append(k)
        buffers: list[Buffer] = []
        for region in self.live.regions:
            for node in self.live.nodes(region):
                if node.op == "load" and node.address.buffer.source is None:
                    self.inner.add(node.address.buffer)
                elif node.op == "stack":
                    buffers.append(node.buffer)
                elif node.op == "loop":
                    buffers += [buffer for buffer, _ in self.live.rows(node.loop)]
        for buffer in buffers:
            if buffer in self.inner:
                self.scratch[buffer] = self.scratch_bytes
                self.scratch_bytes += buffer.length * buffer.width * self.lanes * 8 + ALIGNMENT
