"""LLVM's text: types, literals, declarations, and the frame in which values that cross regions lie."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Node

# Alignment of vectors in the frame, in bytes: that of an AVX-512 vector.
ALIGNMENT = 64


class Text:
    """An LLVM module as text: functions, and declarations each once.

    Attributes:
        lanes: number of lanes of a vector.
        pointer: type of an address in a buffer; the frame has plain `ptr`.
        real: type of real numbers.
        single: True if real numbers are float32.
        size: bytes of a real number.
        functions: texts of the functions.
        declarations: name ↦ declaration of a function that is not in the module.
        elementary: (name, lanes) of the elementary functions that are called.
    """

    def __init__(self, lanes: int, dtype: DTypeLike, pointer: str = "ptr"):
        self.lanes, self.pointer = lanes, pointer
        self.single = np.dtype(dtype) == np.float32
        self.real = "float" if self.single else "double"
        self.size = 4 if self.single else 8
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.elementary: set[tuple[str, int]] = set()

    def scalar(self, kind: str) -> str:
        """Return LLVM's type of a scalar of a kind."""
        return {REAL: self.real, INTEGER: "i64", TRUTH: "i1"}[kind]

    def vector(self, kind: str) -> str:
        """Return LLVM's type of a vector over the lanes, of a kind."""
        return self.wide(self.scalar(kind))

    def wide(self, scalar: str) -> str:
        """Return LLVM's type of a vector over the lanes, of a scalar type."""
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def suffix(self, scalar: str, uniform: bool = False) -> str:
        """Return the type as it stands in an intrinsic's name, such as "v8f64"; that of a scalar if `uniform`."""
        name = {"double": "f64", "float": "f32", "ptr": "p0"}.get(scalar, scalar)
        return name if uniform or self.lanes == 1 else f"v{self.lanes}{name}"

    def declare(self, result: str, name: str, args: Sequence[str]) -> str:
        """Declare a function, and return its name."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(args)})")
        return name

    def literal(self, node: Node) -> str:
        """Return a constant node as LLVM writes it."""
        if node.kind == TRUTH:
            return "true" if node.value else "false"
        if node.kind == INTEGER:
            return str(node.value)
        return self.number(node.value)

    def number(self, value: float) -> str:
        """Return a real number as LLVM writes it, by its bits."""
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value)) if self.single else float(value)
        return f"0x{struct.unpack('>Q', struct.pack('>d', rounded))[0]:016X}"

    def text(self) -> str:
        """Return the whole module as text."""
        return "\n".join([*self.declarations.values(), *self.functions])


class Frame:
    """Memory for values that cross from one region to another.

    Attributes:
        slot: bytes of each value.
        places: key of a value ↦ its number.
    """

    def __init__(self, lanes: int):
        self.slot = max(ALIGNMENT, 8 * lanes) if lanes > 1 else 8
        self.places: dict[object, int] = {}

    def place(self, key: object) -> int:
        """Return the offset in bytes of a value, assigned on first use."""
        return self.slot * self.places.setdefault(key, len(self.places))

    @property
    def bytes(self) -> int:
        """Size of the frame in bytes."""
        return self.slot * len(self.places)


def has_no_sign(node: Node) -> bool:
    """Return True if the operation of a value never sets its sign bit, not even that of NaN."""
    return math.copysign(1.0, node.value) > 0 if node.op == "const" else node.op == "abs"


def align(size: int) -> int:
    """Return a size in bytes, rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def storage(dtype: np.dtype) -> str:
    """Return LLVM's type of numbers of a dtype in memory."""
    if dtype.kind == "f":
        return "float" if dtype.itemsize == 4 else "double"
    return "i8" if dtype.kind == "b" else f"i{8 * dtype.itemsize}"
