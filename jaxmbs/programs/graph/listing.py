"""Programs as text for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import Buffer, Loop, Memory, Node, Region
from jaxmbs.programs.graph.operations import OPERATIONS


def listing(
    name: str,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    root: Region,
    results: Sequence[np.ndarray | Memory],
    live: Liveness,
) -> str:
    """Return a program as text, one line per operation and loops indented. Equal programs have equal listings."""
    lines = _Listing(live)
    arguments = ", ".join(f"x{k}: {_type(x)}" for k, x in enumerate(inputs))
    lines.line(0, f"{name}({arguments}):")
    lines.region(root, 1)
    for k, (result, out) in enumerate(zip(results, outputs, strict=True)):
        if isinstance(result, Memory):
            lines.line(1, f"y{k}: {_type(out)} = {lines.buffer(result.buffer)}")
        else:
            values = ", ".join(lines.name(node) for node in result.ravel())
            lines.line(1, f"y{k}: {_type(out)} = [{values}]")
    return "\n".join(lines.lines)


class _Listing:
    """The lines of a program, and the names of its nodes and buffers."""

    def __init__(self, live: Liveness):
        self.live = live
        self.names: dict[int, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.lines: list[str] = []

    def line(self, depth: int, text: str) -> None:
        """Add a line of text, indented by its depth."""
        self.lines.append("    " * depth + text)

    def name(self, node: Node) -> str:
        """Return a constant as it is written, or the name of a node, given on first use."""
        if node.op == "const":
            return repr(node.value)
        if node.serial not in self.names:
            letter = {"index": "i", "param": "p", "out": "o"}.get(node.op, "v")
            self.names[node.serial] = f"{letter}{len(self.names)}"
        return self.names[node.serial]

    def buffer(self, buffer: Buffer) -> str:
        """Return the name of an input or an array in memory, given on first use."""
        if buffer.source is not None:
            return f"x{buffer.source}"
        return self.buffers.setdefault(buffer, f"m{len(self.buffers)}")

    def region(self, region: Region, depth: int) -> None:
        """Write the operations of a region."""
        for node in self.live.nodes(region):
            if node.op == "loop":
                self.loop(node.loop, depth)
            elif node.op not in ("const", "param", "index"):
                self.line(depth, f"{self.name(node)} = {self.expression(node)}")

    def expression(self, node: Node) -> str:
        """Return the right side of a node's line in the listing, with the names of its arguments, such as 'v0 + v1'."""
        names = [self.name(arg) for arg in node.args if arg.op not in ("loop", "stack")]
        sign = OPERATIONS[node.op].sign if node.op in OPERATIONS else None
        if sign is not None:
            return f"{names[0]} {sign} {names[1]}" if len(names) == 2 else sign + names[0]
        if node.op == "load":
            buffer, offset, stride = node.address
            where = f"{offset} + {stride}*{names[0]}" if names else f"{offset}"
            return f"{self.buffer(buffer)}[{where}]"
        if node.op == "out":
            return self.name(node.args[0].loop.params[node.number])
        if node.op == "stack":
            return f"{self.buffer(node.buffer)} := [{', '.join(names)}]"
        return f"{node.op}({', '.join(names)})"

    def loop(self, loop: Loop, depth: int) -> None:
        """Write a loop with its operations, indented."""
        live = self.live
        carried = live.params(loop)
        for k in carried:
            self.line(depth, f"{self.name(loop.params[k])} = {self.name(loop.inits[k])}")
        order = f"reversed(range({loop.length}))" if loop.reverse else f"range({loop.length})"
        self.line(depth, f"for {self.name(loop.index)} in {order}:")
        if loop.condition is not None and loop.condition_region is not None:
            for k in carried:
                self.names[loop.condition_params[k].serial] = self.name(loop.params[k])
            self.region(loop.condition_region, depth + 1)
            self.line(depth + 1, f"stop unless {self.name(loop.condition)}")
        self.region(loop.body, depth + 1)
        for buffer, row in live.rows(loop):
            row_text = ", ".join(self.name(node) for node in row)
            self.line(depth + 1, f"{self.buffer(buffer)}[{self.name(loop.index)}] = [{row_text}]")
        if carried:
            left = ", ".join(self.name(loop.params[k]) for k in carried)
            right = ", ".join(self.name(loop.results[k]) for k in carried)
            self.line(depth + 1, f"{left} = {right}")


def _type(x: Any) -> str:
    """Return dtype and shape of an input or output as text."""
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"
