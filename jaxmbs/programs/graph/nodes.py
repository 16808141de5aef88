"""Nodes of a graph of scalars, the regions and loops they lie in, and arrays in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmbs.programs.errors import ProgramError

# Kind of a scalar: a real number of the program's floating-point type.
REAL = "f"
# Kind of a scalar: an integer.
INTEGER = "i"
# Kind of a scalar: a truth value.
TRUTH = "b"


class Region:
    """A block of nodes that is executed together: the program itself, or the body or condition of a loop."""

    __slots__ = ("depth", "nodes")

    def __init__(self, depth: int):
        self.depth = depth
        self.nodes: list[Node] = []


class Node:
    """One scalar, or a loop (`op` "loop") or an array in memory (`op` "stack") that others depend on.

    `payload` is what is not a node: a constant's value, a place in memory, a loop. `uniform` says that the value is
    the same in every lane, because it comes from loop counters and constants alone.
    """

    __slots__ = ("args", "kind", "op", "payload", "region", "serial", "uniform")

    op: str
    args: tuple[Node, ...]
    kind: str
    payload: Any
    region: Region
    serial: int
    uniform: bool

    def __repr__(self):
        return f"{self.op}#{self.serial}"

    @property
    def is_constant(self) -> bool:
        return self.op == "const"

    @property
    def is_integer(self) -> bool:
        return self.kind == INTEGER

    @property
    def is_truth(self) -> bool:
        return self.kind == TRUTH


class Buffer:
    """An array in memory: an input (`source` its number), or the rows that a loop or a list of nodes leaves behind."""

    __slots__ = ("kind", "length", "source", "width")

    def __init__(self, source, kind: str, length: int, width: int):
        self.source = source  # number of the input, or None
        self.kind = kind
        self.length = length  # rows
        self.width = width  # scalars in a row


class Loop:
    """A counted loop, or one that ends earlier when its condition fails.

    Attributes:
        length: number of rounds (at most, where there is a condition).
        index: the counter, an integer node of `body`.
        params, inits, results: carried values: as the body sees them, at the start, after a round.
        condition, condition_params, condition_region: of a loop with a condition, else None. A lane whose condition
            fails keeps its carried values; the loop ends when all lanes do.
        rows: (buffer, nodes of a row) written in every round, row number `index`, or backwards if `reverse`.
        line: where it comes from in the user's code, of a loop with a condition; None if that is not known.
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


class Memory:
    """An array in memory: offsets into a buffer, `after` the loop or stack that fills it."""

    __slots__ = ("after", "buffer", "offsets")

    def __init__(self, buffer: Buffer, offsets: np.ndarray, after: Node | None = None):
        self.buffer, self.offsets, self.after = buffer, offsets, after

    @property
    def shape(self):
        return self.offsets.shape

    def moved(self, offsets: np.ndarray) -> Memory:
        """The same memory seen in another order."""
        return Memory(self.buffer, offsets, self.after)


def reached(size: int, offset: int, stride: int) -> range:
    """The offsets offset + stride·index of memory of a size, for an index from 0 on; one if the stride is 0."""
    if not stride:
        return range(offset, offset + 1)
    return range(offset, size if stride > 0 else -1, stride)


def kind_of(dtype) -> str:
    """The kind of scalars of a dtype."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return REAL
    if kind in "iu":
        return INTEGER
    if kind == "b":
        return TRUTH
    raise ProgramError(f"dtype {dtype} is neither a real, an integer nor a truth value")


def array(flat: Sequence, shape) -> np.ndarray:
    """A list of nodes as an array of this shape."""
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(shape)


def place_argument(number: int, shape, dtype) -> Memory:
    """An input of the program."""
    size = math.prod(shape)
    length = shape[0] if shape else 1
    buffer = Buffer(number, kind_of(dtype), length, size // max(length, 1))
    return Memory(buffer, np.arange(size).reshape(shape))
