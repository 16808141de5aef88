"""Nodes of a graph of scalars, the regions and loops they lie in, and arrays in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from jaxmbs.programs.errors import ProgramError

# Kind of a node: a real number of the program's floating-point type.
REAL = "f"
# Kind of a node: an integer.
INTEGER = "i"
# Kind of a node: a truth value.
TRUTH = "b"


class Region:
    """A block of nodes that is executed together: the program itself, or the body or condition of a loop.

    Attributes:
        depth: number of loops around it.
        nodes: its nodes in the order in which they were made, which is one in which they can be computed.
    """

    __slots__ = ("depth", "nodes")

    def __init__(self, depth: int):
        self.depth = depth
        self.nodes: list[Node] = []


class Node:
    """One scalar; or a loop, or an array that is put into memory, on which others depend.

    `op` is one of the operations of the table (`operations`), or one of these:

    - "const": a number that is known when the program is made; `value`.
    - "load": a scalar in memory at `address`. Its arguments are the "loop" or "stack" that fills the memory, unless that is
      an input, and the index if there is one.
    - "stack": its arguments are put into memory, into `buffer`.
    - "loop": `loop`.
    - "out": the final value of carried value `number` of a loop, which is its argument.
    - "index": the counter of a loop, known in its body only.
    - "param": a value that a region is given; `origin`.
    - "mark": a value with a derivative of its own, in graphs that are to be differentiated; its argument is the value, and
      `member` its place in the group of values that were made together.
    - "stop", "save": the argument without its derivative, in the same graphs; "save" if reverse mode should keep it.

    Attributes:
        op: name of the operation.
        args: arguments, made before it.
        kind: REAL, INTEGER or TRUTH.
        region: region in which it is computed.
        serial: number in the order in which the nodes of a graph were made.
        uniform: True if the value is the same in every lane, because it comes from loop counters and constants alone.
        detail: the one thing that is not a node. It has a name for each `op`:
        value: of "const", a Python number.
        address: of "load".
        buffer: of "stack".
        loop: of "loop".
        number: of "out".
        origin: of "param": a `Carried` value of a loop; or the node of whose rate it is, in the rule of a mark; else None.
        member: of "mark", (group, number of the mark in it).
    """

    __slots__ = ("args", "detail", "kind", "op", "region", "serial", "uniform")

    op: str
    args: tuple[Node, ...]
    kind: str
    region: Region
    serial: int
    uniform: bool
    detail: Any
    value: Any
    address: Address
    buffer: Buffer
    loop: Loop
    number: int
    origin: Any
    member: Any

    def __repr__(self) -> str:
        return f"{self.op}#{self.serial}"

    @property
    def is_constant(self) -> bool:
        """True if the node is a number that is known when the program is made."""
        return self.op == "const"

    @property
    def filler(self) -> Node | None:
        """The loop or stack that fills the memory which a "load" reads, None if that is an input."""
        return self.args[0] if self.args and self.args[0].op in ("loop", "stack") else None

    @property
    def moving_index(self) -> Node | None:
        """The index by which a "load" reads, None if its offset is fixed."""
        return self.args[-1] if len(self.args) > (self.filler is not None) else None

    @property
    def is_integer(self) -> bool:
        """True if the node is an integer."""
        return self.kind == INTEGER

    @property
    def is_truth(self) -> bool:
        """True if the node is a truth value."""
        return self.kind == TRUTH


# Names of the one slot, which cost neither time nor memory.
for _name in ("value", "address", "buffer", "loop", "number", "origin", "member"):
    setattr(Node, _name, Node.detail)


class Address(NamedTuple):
    """The scalar at offset + stride·index of a buffer; the stride is 0 without an index."""

    buffer: Buffer
    offset: int
    stride: int


class Carried(NamedTuple):
    """The place of a carried value: its loop, and its number there."""

    loop: Loop
    number: int


class Buffer:
    """An array in memory, of rows of scalars of one kind.

    Attributes:
        source: number of the input of the program that it is; None if a loop or a "stack" fills it.
        kind: of its scalars.
        length: number of rows.
        width: number of scalars in a row.
    """

    __slots__ = ("kind", "length", "source", "width")

    def __init__(self, source: Any, kind: str, length: int, width: int):
        self.source, self.kind, self.length, self.width = source, kind, length, width

    def whole(self, after: Node | None = None) -> Memory:
        """Return the whole buffer, filled by `after`, as an array in memory of shape (length, width)."""
        return Memory(self, np.arange(self.length * self.width).reshape(self.length, self.width), after)


class Loop:
    """A counted loop, or one that ends earlier when its condition fails.

    Attributes:
        length: number of iterations; their upper limit if there is a condition.
        body: region that is executed in each.
        index: the counter, an integer node of `body`.
        reverse: True if rows are written from the last to the first.
        params: carried values as the body sees them.
        inits: carried values before the first iteration.
        results: carried values after an iteration.
        condition: truth value after which an iteration is executed, None in counted loops. A lane whose condition fails
            keeps its carried values; the loop ends when all lanes do.
        condition_params: carried values as the condition sees them.
        condition_region: region of the condition.
        rows: (buffer, nodes of a row) written in every iteration, row number `index`, or counted from the end if `reverse`.
        line: line of the user's code, for loops with a condition; None if it is not known.
    """

    def __init__(self, length: int, body: Region, index: Node, reverse: bool = False):
        self.length = length
        self.body = body
        self.index = index
        self.reverse = reverse
        self.params: list[Node] = []
        self.inits: list[Node] = []
        self.results: list[Node] = []
        self.condition: Node | None = None
        self.condition_params: list[Node] = []
        self.condition_region: Region | None = None
        self.rows: list[tuple[Buffer, list[Node]]] = []
        self.line: str | None = None

    def write_row(self, row: Sequence[Node]) -> Buffer:
        """Let every iteration write a row of nodes of one kind, and return the buffer of these rows."""
        buffer = Buffer(None, row[0].kind, self.length, len(row))
        self.rows.append((buffer, list(row)))
        return buffer


class Memory:
    """An array in memory: offsets into a buffer.

    Attributes:
        after: the loop or stack that fills the buffer, None for an input.
    """

    __slots__ = ("after", "buffer", "offsets")

    def __init__(self, buffer: Buffer, offsets: np.ndarray, after: Node | None = None):
        self.buffer, self.offsets, self.after = buffer, offsets, after

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.offsets.shape

    def row_stride(self) -> int | None:
        """Return the distance in the buffer from each row to the next, None if it is not the same for all entries."""
        rows = self.offsets.reshape(len(self.offsets), -1)
        stride = int(rows[1, 0] - rows[0, 0]) if len(rows) > 1 and rows.size else 0
        return stride if (rows == rows[0] + stride * np.arange(len(rows))[:, None]).all() else None

    def reorder(self, offsets: np.ndarray) -> Memory:
        """Return the array in memory with other offsets into the same buffer."""
        return Memory(self.buffer, offsets, self.after)

    def reshape(self, shape: tuple[int, ...]) -> Memory:
        """Return the array in memory in another shape."""
        return self.reorder(self.offsets.reshape(shape))


def reached_offsets(size: int, offset: int, stride: int) -> range:
    """Return the offsets offset + stride·index within a size, for an index from 0 on; one offset if the stride is 0."""
    if not stride:
        return range(offset, offset + 1)
    return range(offset, size if stride > 0 else -1, stride)


def kind_of(dtype: DTypeLike) -> str:
    """Return the kind of node, REAL, INTEGER or TRUTH, for numbers of a dtype."""
    kind = {"f": REAL, "i": INTEGER, "u": INTEGER, "b": TRUTH}.get(np.dtype(dtype).kind)
    if kind is None:
        raise ProgramError(f"dtype {dtype} is neither a real, an integer nor a truth value")
    return kind


def array(flat: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    """Return a flat list of nodes as a NumPy array of a shape."""
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(shape)


def place_argument(number: int, shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
    """Return input `number` of the program as an array in memory."""
    length = shape[0] if shape else 1
    buffer = Buffer(number, kind_of(dtype), length, math.prod(shape) // max(length, 1))
    return buffer.whole().reshape(shape)
