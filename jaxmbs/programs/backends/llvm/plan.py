"""What a module is planned to hold before its functions are written: the frame, and the memory of rows."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.text import ALIGNMENT, Frame, Text
from jaxmbs.programs.tracing.graph import Buffer
from jaxmbs.programs.tracing.program import Program
from jaxmbs.programs.tracing.trace import Memory


class Plan:
    """What all functions of a program share.

    Attributes:
        written: id(buffer) → outputs that are this buffer.
        inner: id(buffer) of those that are read inside of the program.
        scratch: id(buffer) → offset in bytes in the scratch memory, of `scratch_bytes`.
    """

    def __init__(self, program: Program, lanes: int):
        self.program, self.lanes = program, lanes
        self.module = Text(lanes, program.dtype)
        self.frame = Frame(lanes)
        self.live = program.live
        self.crossing = self.live.crossing
        self.written: dict[int, list[int]] = {}
        self.inner: set[int] = set()
        self.scratch: dict[int, int] = {}
        self.scratch_bytes = 0
        self._names = 0
        self._plan_memory()

    def name(self, kind: str) -> str:
        """A new name for a function or a label."""
        self._names += 1
        return f"{kind}{self._names}"

    def _plan_memory(self) -> None:
        """Outputs that are a loop's rows, and places for the rows that the program itself reads."""
        for k, result in enumerate(self.program.results):
            if isinstance(result, Memory):
                self.written.setdefault(id(result.buffer), []).append(k)
        buffers: list[Buffer] = []
        for region in self.live.regions:
            for node in self.live.nodes(region):
                if node.op == "load" and node.payload[0].source is None:
                    self.inner.add(id(node.payload[0]))
                elif node.op == "stack":
                    buffers.append(node.payload)
                elif node.op == "loop":
                    buffers += [buffer for buffer, _ in self.live.rows(node.payload)]
        for buffer in buffers:
            if id(buffer) in self.inner:
                self.scratch[id(buffer)] = self.scratch_bytes
                self.scratch_bytes += buffer.length * buffer.width * self.lanes * 8 + ALIGNMENT
