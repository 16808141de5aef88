"""Programs as JavaScript: the text of an ES module with one function of arrays, for a page that needs no Python.

It has a line for each operation and a loop for each loop, as listings. JavaScript has one kind of number, float64;
integers are exact up to 2⁵³ in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.programs.backends.source_text import AbstractSourceWriter
from jaxmbs.programs.graph.nodes import TRUTH, Buffer, Memory, Node
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


class _Writer(AbstractSourceWriter):
    """Writes JavaScript. All numbers in memory are float64."""

    language: ClassVar[str] = "JavaScript"

    def __init__(self, program: Program, sources: Sequence[str]):
        super().__init__(program, sources)
        self.declared: list[str] = []

    def function(self) -> list[str]:
        """Return the body: memory, operations, and the results y0, y1, …."""
        self.region(self.program.root, 1)
        for k, result in enumerate(self.program.results):
            if isinstance(result, Memory):
                self.line(1, f"const y{k} = {self.buffer(result.buffer)};")
            else:
                self.line(1, f"const y{k} = Float64Array.of({', '.join(self.name(x) for x in result.ravel())});")
        return self.declared + self.lines

    def constant(self, node: Node) -> str:
        return ("false", "true")[bool(node.value)] if node.kind == TRUTH else _number(node.value)

    def declaration(self, kind: str, *, changes: bool = False) -> str:
        return "let " if changes else "const "

    def declare_buffer(self, name: str, buffer: Buffer) -> str:
        self.declared.append(f"    const {name} = new Float64Array({buffer.length * buffer.width});")
        return name

    def element(self, buffer: Buffer, where: str) -> str:
        return f"{self.buffer(buffer)}[{where}]"

    def loaded(self, node: Node, element: str) -> str:
        return f"{element} !== 0" if node.kind == TRUTH else element

    def special_expression(self, node: Node) -> None:
        """JavaScript has none."""

    def form(self, node: Node) -> tuple[str | None, str | None]:
        entry = OPERATIONS[node.op]
        return entry.javascript, entry.javascript_helper

    def formula_definition(self, node: Node, params: list[Node], steps: list[Node], result: Node) -> str:
        names = ", ".join(self.name(x) for x in params)
        lines = "".join(f"const {self.name(x)} = {self.expression(x)}; " for x in steps)
        return f"const op_{node.op} = ({names}) => {{ {lines}return {self.name(result)}; }};"


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
