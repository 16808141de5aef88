"""Programs as JavaScript: the text of an ES module with one function of arrays, for a page that needs no Python.

It has a line for each operation and a loop for each loop, as listings. JavaScript has one kind of number, float64;
integers are exact up to 2⁵³ in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import formula_nodes
from jaxmbs.programs.graph.nodes import TRUTH, Buffer, Loop, Memory, Node, Region
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.tracing.program import Program

# Names that an exported function may have; any other name raises ValueError.
IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def module(
    program: Program,
    name: str,
    constants: Sequence[ArrayLike],
    arguments: Sequence[tuple[str, tuple[int, ...]]],
    used: Sequence[bool],
    results: Sequence[str],
) -> str:
    """Return a JavaScript module whose function `name` takes arrays x0, x1, … and returns [y0, y1, …], all flat.

    Args:
        program: program to write.
        name: an identifier.
        constants: values of the first inputs of the program; they become part of the text.
        arguments: label, for the comment, and shape of each argument of the function.
        used: True for the arguments that are the other inputs of the program.
        results: labels of the outputs, for the comment only.

    Raises:
        ValueError: the name is not an identifier.
    """
    if not IDENTIFIER.fullmatch(name):
        raise ValueError(f"name= must be an identifier of JavaScript, got {name!r}")
    arguments = [(_comment(label), shape) for label, shape in arguments]
    numbers = [k for k, is_used in enumerate(used) if is_used]
    sources = [f"c{k}" for k in range(len(constants))] + [f"x{k}" for k in numbers]
    writer = _Writer(program, sources)
    lines = writer.function()
    parameters = ", ".join(f"x{k}" for k in range(len(arguments)))
    checks = [
        f"    if (x{k}.length !== {size}) throw new RangeError(`{name}: x{k} has length {size}, got ${{x{k}.length}}`);"
        for k, (_, shape) in enumerate(arguments)
        for size in [math.prod(shape)]
    ]  # fmt: skip
    about = [f" * x{k}: {label}, {_shape(shape)}" for k, (label, shape) in enumerate(arguments)]
    about += [
        f" * y{k}: {label}, {_shape(x.shape)}"
        for k, (label, x) in enumerate(zip(map(_comment, results), program.outputs, strict=True))
    ]
    returned = ", ".join(f"y{k}" for k in range(len(program.outputs)))
    return "\n".join([
        *sorted(writer.helpers.values()),
        *(f"const c{k} = {_array(value)};" for k, value in enumerate(constants)),
        "/** Arrays of numbers, row by row; a single number is an array of length 1.", *about, " */",
        f"export function {name}({parameters}) {{", *checks, *lines, f"    return [{returned}];", "}", "",
    ])  # fmt: skip


class _Writer:
    """Writes the lines of a program, and the functions that these call."""

    def __init__(self, program: Program, sources: Sequence[str]):
        self.program, self.live, self.sources = program, program.live, sources
        self.names: dict[int, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.declared: list[str] = []
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}

    def function(self) -> list[str]:
        """Return the body: memory, operations, and the results y0, y1, …."""
        self.region(self.program.root, 1)
        for k, result in enumerate(self.program.results):
            if isinstance(result, Memory):
                self.line(1, f"const y{k} = {self.buffer(result.buffer)};")
            else:
                self.line(1, f"const y{k} = Float64Array.of({', '.join(self.name(x) for x in result.ravel())});")
        return self.declared + self.lines

    def line(self, depth: int, text: str) -> None:
        """Add a line of text, indented by its depth."""
        self.lines.append("    " * depth + text)

    def name(self, node: Node) -> str:
        """Return a constant as it is written, or the variable of a node."""
        if node.op == "const":
            return ("false", "true")[bool(node.value)] if node.kind == TRUTH else _number(node.value)
        if node.serial not in self.names:
            letter = {"index": "i", "param": "p"}.get(node.op, "v")
            self.names[node.serial] = f"{letter}{len(self.names)}"
        return self.names[node.serial]

    def buffer(self, buffer: Buffer) -> str:
        """Return the variable of an array in memory, declared on first use."""
        if buffer.source is not None:
            return str(self.sources[buffer.source])
        if buffer not in self.buffers:
            name = self.buffers[buffer] = f"m{len(self.buffers)}"
            self.declared.append(f"    const {name} = new Float64Array({buffer.length * buffer.width});")
        return self.buffers[buffer]

    def region(self, region: Region, depth: int) -> None:
        """Write the operations of a region."""
        for node in self.live.nodes(region):
            if node.op == "loop":
                self.loop(node.loop, depth)
            elif node.op == "out":
                self.names[node.serial] = self.name(node.args[0].loop.params[node.number])
            elif node.op == "stack":
                name = self.buffer(node.buffer)
                for k, x in enumerate(node.args):
                    self.line(depth, f"{name}[{k}] = {self.name(x)};")
            elif node.op not in ("const", "param", "index"):
                self.line(depth, f"const {self.name(node)} = {self.expression(node)};")

    def expression(self, node: Node) -> str:
        """Return the JavaScript expression that computes a node."""
        names = [self.name(x) for x in node.args if x.op not in ("loop", "stack")]
        if node.op == "load":
            buffer, offset, stride = node.address
            where = f"{offset} + {stride} * {names[0]}" if names else f"{offset}"
            truth = " !== 0" if node.kind == TRUTH else ""
            return f"{self.buffer(buffer)}[{where}]{truth}"
        entry = OPERATIONS[node.op]
        if entry.javascript is None and entry.formula is None:
            raise ProgramError(f"{self.program.name}: the operation {node.op!r} has no form in JavaScript")
        if node.op not in self.helpers and (entry.javascript_helper or entry.javascript is None):
            self.helpers[node.op] = entry.javascript_helper or self.formula(node)
        if entry.javascript is None:
            return f"{node.op}({', '.join(names)})"
        if node.op == "neg":
            names = [f"({x})" if x.startswith("-") else x for x in names]
        return str(entry.javascript.format(*names))

    def formula(self, node: Node) -> str:
        """Return the JavaScript expression of an operation that is defined by others (`Operation.formula`)."""
        formula = OPERATIONS[node.op].formula
        assert formula is not None
        nodes, result = formula_nodes(node, formula)
        params = ", ".join(self.name(x) for x in nodes if x.op == "param")
        steps = [x for x in nodes if x.op not in ("param", "const")]
        lines = "".join(f"const {self.name(x)} = {self.expression(x)}; " for x in steps)
        return f"const {node.op} = ({params}) => {{ {lines}return {self.name(result)}; }};"

    def loop(self, loop: Loop, depth: int) -> None:
        """Write a loop."""
        carried = self.live.params(loop)
        for k in carried:
            self.line(depth, f"let {self.name(loop.params[k])} = {self.name(loop.inits[k])};")
        index = self.name(loop.index)
        self.line(depth, f"for (let {index} = 0; {index} < {loop.length}; {index}++) {{")
        if loop.condition is not None and loop.condition_region is not None:
            for k in carried:
                self.names[loop.condition_params[k].serial] = self.name(loop.params[k])
            self.region(loop.condition_region, depth + 1)
            self.line(depth + 1, f"if (!{self.name(loop.condition)}) break;")
        self.region(loop.body, depth + 1)
        for buffer, row in self.live.rows(loop):
            number = f"({loop.length - 1} - {index})" if loop.reverse else index
            for k, node in enumerate(row):
                self.line(depth + 1, f"{self.buffer(buffer)}[{k} + {buffer.width} * {number}] = {self.name(node)};")
        self.carry(loop, carried, depth + 1)
        self.line(depth, "}")

    def carry(self, loop: Loop, carried: Sequence[int], depth: int) -> None:
        """Write the next iteration's carried values; a new value that is another carried value is copied first."""
        params = {loop.params[k].serial for k in carried}
        new = {k: self.name(loop.results[k]) for k in carried if loop.results[k] is not loop.params[k]}
        for k in new:
            if loop.results[k].serial in params:
                self.line(depth, f"const n{k} = {new[k]};")
                new[k] = f"n{k}"
        for k, value in new.items():
            self.line(depth, f"{self.name(loop.params[k])} = {value};")


def _number(value: float) -> str:
    """Return a number as JavaScript writes it."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _array(values: ArrayLike) -> str:
    """Return an array as JavaScript writes it."""
    return f"Float64Array.of({', '.join(_number(x) for x in np.asarray(values).ravel().tolist())})"


def _comment(text: str) -> str:
    """Return a text without the sequence that would end a JavaScript comment."""
    return text.replace("*/", "* /")


def _shape(shape: Sequence[int]) -> str:
    """Return a shape in words, for the comment on the function."""
    return f"{' × '.join(map(str, shape))} numbers" if shape else "one number"
