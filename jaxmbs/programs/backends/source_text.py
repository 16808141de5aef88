"""Programs as source code of a language with statements: a line for each operation and a loop for each loop."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import formula_nodes
from jaxmbs.programs.graph.nodes import Buffer, Loop, Node, Region
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.tracing.program import Program


class AbstractSourceWriter(abc.ABC):
    """Writes the lines of a program, and the functions that these call.

    Args:
        program: program to write.
        sources: expression, in the language, of each array that the program reads.

    Attributes:
        language: name of the language, for errors.
        lines: lines written so far.
        helpers: definitions of functions that the lines call, by name of the operation.
        absorbed: serial numbers of nodes that other nodes compute, and that get no line.
        depth: depth of the line that is written.
    """

    language: ClassVar[str]

    def __init__(self, program: Program, sources: Sequence[str]):
        self.program, self.live, self.sources = program, program.live, sources
        self.names: dict[int, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        self.absorbed: set[int] = set()
        self.depth = 0

    @abc.abstractmethod
    def constant(self, node: Node) -> str:
        """Return a node that is a constant, as it is written."""

    @abc.abstractmethod
    def declaration(self, kind: str, *, changes: bool = False) -> str:
        """Return the words in front of a new variable of a kind of node; it may be assigned again if it `changes`."""

    @abc.abstractmethod
    def declare_buffer(self, name: str, buffer: Buffer) -> str:
        """Declare an array in memory, and return its expression."""

    @abc.abstractmethod
    def form(self, node: Node) -> tuple[str | None, str | None]:
        """Return the expression of {0}, {1}, … for a node's operation, and the definition of what it calls; or None."""

    @abc.abstractmethod
    def special_expression(self, node: Node) -> str | None:
        """Return the expression of a node that does not have the form of its operation, None for all others."""

    @abc.abstractmethod
    def formula_definition(self, node: Node, params: list[Node], steps: list[Node], result: Node) -> str:
        """Return the definition of a function for an operation that consists of others."""

    @abc.abstractmethod
    def element(self, buffer: Buffer, where: str) -> str:
        """Return the expression of the number at a place in an array in memory."""

    @abc.abstractmethod
    def loaded(self, node: Node, element: str) -> str:
        """Return the expression of a node that reads an element of memory."""

    def line(self, depth: int, text: str) -> None:
        """Add a line of text, indented by its depth."""
        self.lines.append("    " * depth + text)

    def name(self, node: Node) -> str:
        """Return a constant as it is written, or the variable of a node."""
        if node.op == "const":
            return self.constant(node)
        if node.serial not in self.names:
            letter = {"index": "i", "param": "p"}.get(node.op, "v")
            self.names[node.serial] = f"{letter}{len(self.names)}"
        return self.names[node.serial]

    def buffer(self, buffer: Buffer) -> str:
        """Return the expression of an array in memory, declared on first use."""
        if buffer.source is not None:
            return self.sources[buffer.source]
        if buffer not in self.buffers:
            self.buffers[buffer] = self.declare_buffer(f"m{len(self.buffers)}", buffer)
        return self.buffers[buffer]

    def region(self, region: Region, depth: int) -> None:
        """Write the operations of a region."""
        for node in self.live.nodes(region):
            if node.op == "loop":
                self.loop(node.loop, depth)
            elif node.op == "out":
                self.names[node.serial] = self.name(node.args[0].loop.params[node.number])
            elif node.op == "stack":
                for k, x in enumerate(node.args):
                    self.line(depth, f"{self.element(node.buffer, str(k))} = {self.name(x)};")
            elif node.op not in ("const", "param", "index") and node.serial not in self.absorbed:
                self.depth = depth
                self.line(depth, f"{self.declaration(node.kind)}{self.name(node)} = {self.expression(node)};")

    def expression(self, node: Node) -> str:
        """Return the expression that computes a node."""
        special = self.special_expression(node)
        if special is not None:
            return special
        names = [self.name(x) for x in node.args if x.op not in ("loop", "stack")]
        if node.op == "load":
            buffer, offset, stride = node.address
            return self.loaded(
                node, self.element(buffer, f"{offset} + {stride} * {names[0]}" if names else f"{offset}")
            )
        template, helper = self.form(node)
        if template is None and OPERATIONS[node.op].formula is None:
            raise ProgramError(f"{self.program.name}: the operation {node.op!r} cannot be written in {self.language}")
        if node.op not in self.helpers and (helper or template is None):
            self.helpers[node.op] = helper or self.formula(node)
        if template is None:
            return f"op_{node.op}({', '.join(names)})"
        if node.op == "neg":
            names = [f"({x})" if x.startswith("-") else x for x in names]
        return template.format(*names)

    def formula(self, node: Node) -> str:
        """Return the definition of a function for an operation that consists of others (`Operation.formula`)."""
        formula = OPERATIONS[node.op].formula
        assert formula is not None
        nodes, result = formula_nodes(node, formula)
        params = [x for x in nodes if x.op == "param"]
        return self.formula_definition(node, params, [x for x in nodes if x.op not in ("param", "const")], result)

    def loop(self, loop: Loop, depth: int) -> None:
        """Write a loop."""
        carried = self.live.params(loop)
        for k in carried:
            param = loop.params[k]
            variable = f"{self.declaration(param.kind, changes=True)}{self.name(param)}"
            self.line(depth, f"{variable} = {self.name(loop.inits[k])};")
        index = self.name(loop.index)
        counter = f"{self.declaration(loop.index.kind, changes=True)}{index}"
        self.line(depth, f"for ({counter} = 0; {index} < {loop.length}; {index}++) {{")
        if loop.condition is not None and loop.condition_region is not None:
            for k in carried:
                self.names[loop.condition_params[k].serial] = self.name(loop.params[k])
            self.region(loop.condition_region, depth + 1)
            self.line(depth + 1, f"if (!{self.name(loop.condition)}) break;")
        self.region(loop.body, depth + 1)
        for buffer, row in self.live.rows(loop):
            number = f"({loop.length - 1} - {index})" if loop.reverse else index
            for k, node in enumerate(row):
                place = self.element(buffer, f"{k} + {buffer.width} * {number}")
                self.line(depth + 1, f"{place} = {self.name(node)};")
        self.carry(loop, carried, depth + 1)
        self.line(depth, "}")

    def carry(self, loop: Loop, carried: Sequence[int], depth: int) -> None:
        """Write the next iteration's carried values. If a new value is the old value of another one, copy it first."""
        params = {loop.params[k].serial for k in carried}
        new = {k: self.name(loop.results[k]) for k in carried if loop.results[k] is not loop.params[k]}
        for k in new:
            if loop.results[k].serial in params:
                self.line(depth, f"{self.declaration(loop.params[k].kind)}n{k} = {new[k]};")
                new[k] = f"n{k}"
        for k, value in new.items():
            self.line(depth, f"{self.name(loop.params[k])} = {value};")
