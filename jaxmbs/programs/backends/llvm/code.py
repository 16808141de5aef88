"""The lines of one LLVM function: nodes, memory, loops."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

import numpy as np

from jaxmbs.programs.backends.llvm.instructions import Instructions
from jaxmbs.programs.backends.llvm.text import storage
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Buffer, Loop, Node

# Number of float64 neighbours in memory that are loaded or stored at once, an AVX-512 vector; used only if the number
# of lanes is a multiple of it. Other types are moved one by one.
BLOCK_VALUES = 8
# (a, b, places, type) ↦ the vector of these places of vectors a and b, one behind the other; all are names.
Pick = Callable[[str, str, Sequence[int], str], str]


class AbstractCode(Instructions):
    """Writes the nodes of one region, as the lines of one function. The layout of memory depends on the processor."""

    def write_node(self, node: Node) -> None:
        """Write the LLVM lines of a node that is not a loop; its value is saved in the frame if other functions use it."""
        if node.op == "const" or node.serial in self.plan.absorbed:
            return
        if node.op == "stack":
            return self._stack(node)
        if node.serial in self.blocks:
            self._load_block(self.blocks[node.serial])
        if node.serial not in self.values:
            self.values[node.serial] = self._compute(node)
        if node.serial in self.plan.crossing:
            self.save(node.serial, node.kind, self.values[node.serial], node.uniform)
        return None

    def _compute(self, node: Node) -> str:
        """Write the LLVM lines of a node that has one result, and return the name of the result."""
        if node.op == "out":
            loop = node.args[0].loop
            return self.reload(("carry", loop, node.number), node.kind)
        if node.op == "load":
            return self._load(node)
        of = self.value if node.uniform else self.wide
        product = self.plan.products.get(node.serial)
        if product is not None:
            return self.with_product(
                node, product, [of(x) for x in product.args], [of(x) for x in node.args if x is not product]
            )
        return self.operation(node, [of(x) for x in node.args])

    def _load(self, node: Node) -> str:
        """Write the load of a scalar of an input or of scratch memory, and return the name of the result."""
        buffer, offset, stride = node.address
        index = node.args[-1] if node.args and node.args[-1].op not in ("loop", "stack") else None
        if buffer.source is not None:
            return self._load_input(buffer.source, offset, stride, index)
        return self._load_scratch(node, buffer, offset, stride, index)

    def _distance(self, offset: int, stride: int, index: Node | None, size: int) -> str:
        """Return offset + stride·index, in bytes of numbers of this size, as an LLVM vector over the lanes."""
        if index is None:
            return str(offset * size) if self.module.lanes == 1 else f"splat (i64 {offset * size})"
        kind = "i64" if index.uniform else self.module.vector(INTEGER)
        same: Callable[[int], str] = lambda k: str(k) if index.uniform or self.module.lanes == 1 else f"splat (i64 {k})"
        scaled = self.let(f"mul {kind} {self.value(index)}, {same(stride * size)}")
        moved = self.let(f"add {kind} {scaled}, {same(offset * size)}")
        return self.splat(moved, "i64") if index.uniform else moved

    @abc.abstractmethod
    def _pointers(self, key: tuple[str, int], distance: str) -> str:
        """Return the addresses of all lanes: those of the buffer ("buffer", number) plus a distance in bytes."""

    @abc.abstractmethod
    def _gather(self, pointers: str, scalar: str) -> str:
        """Write the load of numbers of LLVM's type `scalar` at the addresses of all lanes; return the result's name."""

    def _load_input(self, number: int, offset: int, stride: int, index: Node | None) -> str:
        """Write a load of scalar offset + stride·index of an input, and return the name of the result."""
        dtype = self.plan.program.inputs[number].dtype
        stored, module = storage(dtype), self.module
        pointers = self._pointers(("buffer", number), self._distance(offset, stride, index, dtype.itemsize))
        value = self._gather(pointers, stored)
        kind = module.wide(stored)
        if dtype.kind == "b":
            return (
                self.let(f"icmp ne {kind} {value}, zeroinitializer")
                if module.lanes > 1
                else self.let(f"icmp ne i8 {value}, 0")
            )
        if dtype.kind in "iu" and dtype.itemsize < 8:
            return self.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {kind} {value} to {module.vector(INTEGER)}")
        return value

    def _scratch_base(self) -> str:
        """Return the address of the scratch memory, loaded once in each function."""
        if "scratch" not in self.addresses:
            self.addresses["scratch"] = self.let(f"load {self.module.pointer}, ptr {self.slot('scratch')}")
        return self.addresses["scratch"]

    @abc.abstractmethod
    def _scratch_pointer(self, buffer: Buffer, offset: int, stride: int = 0, number: str | None = None) -> str:
        """Return the address of the vector of the scalar offset + stride·number of a buffer."""

    def _load_scratch(self, node: Node, buffer: Buffer, offset: int, stride: int, index: Node | None) -> str:
        """Write a load of scalar offset + stride·index from scratch memory, and return the result's name."""
        inside, outside = self._types(buffer.kind, False)
        if index is None or index.uniform or self.module.lanes == 1:
            pointer = self._scratch_pointer(buffer, offset, stride, None if index is None else self.value(index))
            value = self.let(f"load {outside}, {self.module.pointer} {pointer}, align 8")
        else:
            start = self._scratch_pointer(buffer, offset)
            address = self.splat(self.let(f"ptrtoint ptr {start} to i64"), "i64")
            integers = self.module.vector(INTEGER)
            size = 1 if buffer.kind == TRUTH else 8 if buffer.kind == INTEGER else self.module.size
            lanes = ", ".join(f"i64 {k * size}" for k in range(self.module.lanes))
            moved = self.let(f"mul {integers} {self.value(index)}, splat (i64 {stride * 8 * self.module.lanes})")
            moved = self.let(f"add {integers} {moved}, <{lanes}>")
            moved = self.let(f"add {integers} {moved}, {address}")
            pointers = self.let(f"inttoptr {integers} {moved} to {self.module.wide('ptr')}")
            value = self._gather(pointers, "i8" if buffer.kind == TRUTH else self.module.scalar(buffer.kind))
        return self.let(f"trunc {outside} {value} to {inside}") if buffer.kind == TRUTH else value

    def _store_scratch(self, pointer: str, kind: str, node: Node) -> None:
        """Write the store of a node's value, a scalar of the kind of its buffer, at an address in scratch memory."""
        inside, outside = self._types(kind, False)
        value = self.wide(node)
        if kind == TRUTH:
            value = self.let(f"zext {inside} {value} to {outside}")
        self.line(f"store {outside} {value}, {self.module.pointer} {pointer}, align 8")

    def _stack(self, node: Node) -> None:
        """Write the arguments of a "stack" node into its buffer in scratch memory."""
        for offset, entry in enumerate(node.args):
            self._store_scratch(self._scratch_pointer(node.buffer, offset), node.kind, entry)

    def store_row(self, loop: Loop, buffer: Buffer, row: list[Node]) -> None:
        """Write an iteration's row of a buffer to scratch memory if the program reads it, and to the outputs that it is."""
        plan = self.plan
        index = loop.index
        number = "%index"
        if loop.reverse:
            number = self.let(f"sub i64 {loop.length - 1}, {self.values[index.serial]}")
        for k, node in enumerate(row):
            if buffer in plan.inner:
                self._store_scratch(self._scratch_pointer(buffer, k, buffer.width, number), buffer.kind, node)
        for output in plan.written.get(buffer, ()):
            self._store_row_out(output, row, number)

    def _store_row_out(self, output: int, row: list[Node], number: str) -> None:
        """Write a row of an output: eight numbers of a lane at once where possible, the others one by one."""
        program = self.plan.program
        dtype, place = program.outputs[output].dtype, len(program.inputs) + output
        whole = len(row) // BLOCK_VALUES * BLOCK_VALUES if self.has_blocks(dtype) else 0
        for first in range(0, whole, BLOCK_VALUES):
            moved = self.let(f"mul i64 {number}, {len(row) * dtype.itemsize}")
            distance = self.splat(self.let(f"add i64 {moved}, {first * dtype.itemsize}"), "i64")
            addresses = self._lane_addresses(("buffer", place), distance)
            values = [self.wide(node) for node in row[first : first + BLOCK_VALUES]]
            for address, vector in zip(addresses, self._exchange_lanes(values), strict=True):
                self.line(f"store <{BLOCK_VALUES} x double> {vector}, ptr {address}, align 8")
        for k in range(whole, len(row)):
            self.store_output(place, dtype, k, row[k], (number, len(row)))

    def has_blocks(self, dtype: np.dtype) -> bool:
        """Return True if eight neighbours in memory are moved at once: float64 on the lanes of whole AVX-512 vectors."""
        return self.module.lanes % BLOCK_VALUES == 0 and dtype == np.float64

    def plan_blocks(self, nodes: list[Node]) -> None:
        """Find groups of eight loads of neighbouring scalars of an input, and note them in `blocks`."""
        groups: dict[tuple[object, ...], dict[int, Node]] = {}
        for node in nodes:
            if node.op == "load" and node.address.buffer.source is not None:
                buffer, offset, stride = node.address
                if self.has_blocks(self.plan.program.inputs[buffer.source].dtype) and all(x.uniform for x in node.args):
                    groups.setdefault((buffer.source, stride, node.args), {})[offset] = node
        for found in groups.values():
            offsets = sorted(found)
            while len(offsets) >= BLOCK_VALUES:
                if offsets[BLOCK_VALUES - 1] == offsets[0] + BLOCK_VALUES - 1:
                    block = [found[k] for k in offsets[:BLOCK_VALUES]]
                    self.blocks.update({node.serial: block for node in block})
                    del offsets[:BLOCK_VALUES]
                else:
                    del offsets[0]

    def _load_block(self, block: list[Node]) -> None:
        """Write the loads of eight neighbouring scalars of an input at once, and note their names."""
        buffer, offset, stride = block[0].address
        index = block[0].args[-1] if block[0].args else None
        distance = self._distance(offset, stride, index, 8)
        addresses = self._lane_addresses(("buffer", buffer.source), distance)
        vectors = [self.let(f"load <{BLOCK_VALUES} x double>, ptr {address}, align 8") for address in addresses]
        for node, value in zip(block, self._exchange_lanes(vectors), strict=True):
            self.values[node.serial] = value
            del self.blocks[node.serial]
            if node.serial in self.plan.crossing:
                self.save(node.serial, node.kind, value)

    def _lane_addresses(self, key: tuple[str, int], distance: str) -> list[str]:
        """Return a list with the address of each lane's sample in a buffer, moved by a distance in bytes."""
        pointers = self._pointers(key, distance)
        kind = self.module.wide("ptr")
        return [self.let(f"extractelement {kind} {pointers}, i64 {k}") for k in range(self.module.lanes)]

    def _exchange_lanes(self, vectors: list[str]) -> list[str]:
        """Return eight vectors over all lanes as one vector of eight for every lane, or the other way round."""
        lanes, kind = self.module.lanes, f"<{BLOCK_VALUES} x double>"
        pick: Pick = lambda a, b, where, of: self.let(
            f"shufflevector {of} {a}, {of} {b}, <{len(where)} x i32> <{', '.join(f'i32 {k}' for k in where)}>"
        )
        if len(vectors) == BLOCK_VALUES and lanes > BLOCK_VALUES:
            parts = [
                [pick(v, v, range(first, first + BLOCK_VALUES), self.module.vector(REAL)) for v in vectors]
                for first in range(0, lanes, BLOCK_VALUES)
            ]
            return [x for part in parts for x in self._transpose_block(part, pick, kind)]
        turned = [
            self._transpose_block(vectors[k : k + BLOCK_VALUES], pick, kind)
            for k in range(0, len(vectors), BLOCK_VALUES)
        ]
        if len(turned) == 1:
            return turned[0]
        assert len(turned) == 2  # natural_lanes gives one or two vectors
        return [pick(a, b, range(2 * BLOCK_VALUES), kind) for a, b in zip(*turned, strict=True)]

    def _transpose_block(self, rows: list[str], pick: Pick, kind: str) -> list[str]:
        """Transpose an 8 × 8 matrix, given as vectors, by three rounds of exchanges.

        Args:
            rows: names of the eight vectors.
            pick: (a, b, places, type) ↦ name of the vector of these places of a and b, one behind the other.
            kind: LLVM's type of a vector.

        Returns:
            The names of the columns, eight vectors.
        """
        for width in (1, 2, 4):
            low = [k for k in range(BLOCK_VALUES) if not k & width]
            near = [k if not k & width else k - width + BLOCK_VALUES for k in range(BLOCK_VALUES)]
            far = [k + width if not k & width else k + BLOCK_VALUES for k in range(BLOCK_VALUES)]
            result = list(rows)
            for i in low:
                j = i + width
                result[i], result[j] = pick(rows[i], rows[j], near, kind), pick(rows[i], rows[j], far, kind)
            rows = result
        return rows

    def store_output(self, number: int, dtype: np.dtype, offset: int, node: Node, row: tuple[str, int] | None) -> None:
        """Store a node as scalar `offset` of an output; row: number of the row and its length, if there are rows."""
        module = self.module
        distance = self._distance(offset, 0, None, dtype.itemsize)
        if row is not None:
            moved = self.let(f"mul i64 {row[0]}, {row[1] * dtype.itemsize}")
            distance = self.splat(self.let(f"add i64 {moved}, {offset * dtype.itemsize}"), "i64")
        pointers = self._pointers(("buffer", number), distance)
        stored, value = storage(dtype), self.wide(node)
        kind, inside = module.wide(stored), module.vector(node.kind)
        if dtype.kind == "b":
            value = self.let(f"zext {inside} {value} to {kind}")
        elif dtype.kind in "iu" and dtype.itemsize < 8:
            value = self.let(f"trunc {inside} {value} to {kind}")
        if module.lanes == 1:
            self.line(f"store {stored} {value}, {module.pointer} {pointers}")
            return
        bits = module.wide("i1")
        name = f"llvm.masked.scatter.{module.suffix(stored)}.{module.suffix('ptr')}"
        module.declare("void", name, [kind, module.wide("ptr"), "i32 immarg", bits])
        self.line(
            f"call void @{name}({kind} {value}, {module.wide('ptr')} {pointers}, i32 {dtype.itemsize}, "
            f"{bits} splat (i1 true))"
        )
