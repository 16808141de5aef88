"""Programs as C99: a header and a source file without dependencies except math.h, for code that runs without Python.

Numbers are of the program's floating-point type, integers have 64 bits. Nothing is allocated, and there are no variables
outside of the function: arrays in memory are members of a struct that the caller provides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.programs.backends.source_text import AbstractSourceWriter
from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.nodes import INTEGER, TRUTH, Buffer, Memory, Node, Region, kind_of
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.tracing.program import Program

# Names that an exported function may have, unless they are taken; any other name raises ValueError.
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
# Functions that the operations call, and headers and macros of C that code includes.
LIBRARY = frozenset(re.findall(r"(\w+)@?\(", " ".join(entry.c or "" for entry in OPERATIONS.values()))) | {
    "main", "math", "stdint", "stdbool", "float", "time", "limits", "signal", "string", "gamma", "round", "lgamma",
    "tgamma", "hypot", "isnan", "NAN", "INFINITY", "HUGE_VAL", "I", "M_PI", "linux", "unix",
}  # fmt: skip
# Names of variables in the code.
VARIABLES = re.compile(r"[cimnpsv][0-9]+|(op|own)_.*|\w+_t|(in|out|memory|k)$")
# Words that C and C++ reserve.
KEYWORDS = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
    "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "restrict", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
    "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "wchar_t", "while", "xor", "xor_eq",
))  # fmt: skip
# C types of the kinds of nodes, except real numbers.
TYPES = {INTEGER: "int64_t", TRUTH: "bool"}


class StructMember(NamedTuple):
    """A member of a struct in C: its name, the kind of its numbers, its shape, and a label for the comment."""

    name: str
    kind: str
    shape: tuple[int, ...]
    label: str


class CSource(NamedTuple):
    """A function in C99.

    Attributes:
        name: name of the function and of its files.
        header: text of the header, with the structs of inputs, outputs and memory.
        source: text of the source file.
        inputs: members of the struct of inputs.
        outputs: members of the struct of outputs.
    """

    name: str
    header: str
    source: str
    inputs: tuple[StructMember, ...]
    outputs: tuple[StructMember, ...]

    def save(self, folder: str | Path) -> tuple[Path, Path]:
        """Write name.h and name.c into a folder, which is made if it does not exist, and return their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        header, source = folder / f"{self.name}.h", folder / f"{self.name}.c"
        header.write_text(self.header, encoding="utf-8")
        source.write_text(self.source, encoding="utf-8")
        return header, source


def source(
    program: Program,
    name: str,
    constants: Sequence[ArrayLike],
    arguments: Sequence[tuple[str, tuple[int, ...], np.dtype]],
    used: Sequence[bool],
    results: Sequence[str],
    about: str = "",
    elementary: str = "libm",
) -> CSource:
    """Return a program as a function `name` in C.

    Args:
        program: program to write.
        name: an identifier.
        constants: values of the first inputs of the program; they become part of the text.
        arguments: label, shape and dtype of each argument of the function.
        used: True for each argument that the program reads.
        results: labels of the outputs.
        about: lines of a comment in the header.
        elementary: "libm" for the elementary functions of math.h, "own" for those of programs on the CPU.

    Raises:
        ValueError: the name is not an identifier of C.
    """
    if not IDENTIFIER.fullmatch(name) or name in KEYWORDS | LIBRARY or VARIABLES.fullmatch(name):
        raise ValueError(
            "name= must be an identifier of C: a letter, then letters, digits and underscores, and neither a reserved word "
            f"nor a name that the code or math.h uses; got {name!r}"
        )
    inputs = _members("x", [(label, kind_of(dtype), shape) for label, shape, dtype in arguments])
    outputs = _members(
        "y", [(label, kind_of(x.dtype), x.shape) for label, x in zip(results, program.outputs, strict=True)]
    )
    writer = _Writer(program, len(constants), [f"in->{x.name}" for x in compress(inputs, used)], elementary == "own")
    body = writer.function(outputs)
    text = "\n".join(body)
    unused = [f"    (void){word};" for word in ("in", "out", "memory") if f"{word}->" not in text]
    real = writer.real
    structs = [
        _struct(f"{name}_in", "Inputs", inputs, real),
        _struct(f"{name}_out", "Outputs", outputs, real),
        _struct(f"{name}_memory", "Working memory; need not be initialised", writer.members, real),
    ]
    guard = f"{name.upper()}_H"
    header = "\n".join([
        f"/* {name}: {program.size} scalar operations, the body of a loop counts once.",
        *(f" * {_comment(line)}" for line in about.splitlines()), " */",
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *structs,
        "/* Compute all outputs. Any number of threads may call it, each with its own structs. */",
        f"void {name}(const {name}_in *in, {name}_out *out, {name}_memory *memory);", "",
        "#ifdef __cplusplus", "}", "#endif", "", "#endif", "",
    ])  # fmt: skip
    source = "\n".join([
        f'#include "{name}.h"', "", "#include <float.h>", "#include <math.h>", "",
        *(() if writer.suffix else ("#if DBL_MANT_DIG < 53", '#error "double has fewer than 64 bits"', "#endif", "")),
        *writer.own_functions(), *writer.helpers.values(),
        *(writer.constant_array(f"c{k}", value) for k, value in enumerate(constants) if re.search(rf"\bc{k}\[", text)),
        f"void {name}(const {name}_in *in, {name}_out *out, {name}_memory *memory) {{", *unused, *body, "}", "",
    ])  # fmt: skip
    return CSource(name, header, source, tuple(inputs), tuple(outputs))


class _Writer(AbstractSourceWriter):
    """Writes C."""

    language: ClassVar[str] = "C"

    def __init__(self, program: Program, constants: int, members: Sequence[str], own: bool):
        """Write a program whose first inputs are arrays of constants, and whose other inputs are members of a struct.

        With `own` it has the same bits as on the CPU: elementary functions, and products that are rounded with a sum.
        """
        super().__init__(program, [*(f"c{k}" for k in range(constants)), *members])
        self.constants, self.own = constants, own
        self.products = self.live.products if own else {}
        self.absorbed = {product.serial for product in self.products.values()}
        self.own_names: set[str] = set()
        self.pairs: dict[tuple[int, Region], str] = {}
        single = np.dtype(program.dtype) == np.float32
        self.real, self.suffix = ("float", "f") if single else ("double", "")
        self.members: list[StructMember] = []

    def function(self, outputs: Sequence[StructMember]) -> list[str]:
        """Return the lines of the body: operations, then the outputs."""
        self.region(self.program.root, 1)
        for member, result in zip(outputs, self.program.results, strict=True):
            size = math.prod(member.shape)
            if isinstance(result, Memory):
                place = self.element(result.buffer, "k")
                self.line(1, f"for (int64_t k = 0; k < {size}; k++) out->{member.name}[k] = {place};")
                continue
            for k, node in enumerate(result.ravel()):
                place = f"[{k}]" if member.shape else ""
                self.line(1, f"out->{member.name}{place} = {self.name(node)};")
        return self.lines

    def type_of(self, kind: str) -> str:
        """Return the C type of a kind of node."""
        return TYPES.get(kind, self.real)

    def constant(self, node: Node) -> str:
        return number_in_c(node.value, node.kind, self.suffix)

    def constant_array(self, name: str, values: ArrayLike) -> str:
        """Return the definition of an array of constants."""
        array = np.asarray(values)
        kind = kind_of(array.dtype)
        numbers = ", ".join(number_in_c(x, kind, self.suffix) for x in array.ravel().tolist())
        return f"static const {self.type_of(kind)} {name}[] = {{{numbers}}};\n"

    def declaration(self, kind: str, *, changes: bool = False) -> str:
        return f"{'' if changes else 'const '}{self.type_of(kind)} "

    def declare_buffer(self, name: str, buffer: Buffer) -> str:
        self.members.append(StructMember(name, buffer.kind, (buffer.length * buffer.width,), ""))
        return f"memory->{name}"

    def element(self, buffer: Buffer, where: str) -> str:
        is_member = buffer.source is not None and buffer.source >= self.constants
        if is_member and not self.program.inputs[buffer.source].shape:
            return self.buffer(buffer)
        return f"{self.buffer(buffer)}[{where}]"

    def loaded(self, node: Node, element: str) -> str:
        return element

    def own_functions(self) -> list[str]:
        """Return the definitions of the own functions that the lines call; none calls another, and types come first."""
        if not self.own_names:
            return []
        from jaxmbs.programs.backends.llvm.elementary_in_c import definition

        return [definition(name, self.suffix) for name in ("types", *sorted(self.own_names))]

    def special_expression(self, node: Node) -> str | None:
        return self._fused_product(node) or self._own_call(node)

    def _fused_product(self, node: Node) -> str | None:
        """Return a sum or difference with a product that is rounded together with it, None for other nodes."""
        product = self.products.get(node.serial)
        if product is None:
            return None
        a, b = (self.name(x) for x in product.args)
        is_first = node.args[0] is product
        other = self.name(node.args[1 if is_first else 0])
        if node.op == "sub":
            a, other = (a, _negative(other)) if is_first else (_negative(a), other)
        return f"fma{self.suffix}({a}, {b}, {other})"

    def _own_call(self, node: Node) -> str | None:
        """Return the call of an own elementary function, None for nodes without one."""
        if not self.own:
            return None
        from jaxmbs.programs.backends.llvm.elementary_in_c import EXPRESSIONS

        form = EXPRESSIONS.get(node.op)
        if form is None:
            return None
        self.own_names.update(re.findall(r"own_(\w+)", form))
        pair = self.pair(node) if "{pair}" in form else ""
        return form.replace("@", self.suffix).format(*(self.name(x) for x in node.args), pair=pair)

    def pair(self, node: Node) -> str:
        """Return the variable of sine and cosine of a node's argument, computed once in each region."""
        key = node.args[0].serial, node.region
        if key not in self.pairs:
            self.pairs[key] = f"s{len(self.pairs)}"
            self.own_names.add("sin_cos")
            self.line(self.depth, f"const own_pair {self.pairs[key]} = own_sin_cos({self.name(node.args[0])});")
        return self.pairs[key]

    def form(self, node: Node) -> tuple[str | None, str | None]:
        entry = OPERATIONS[node.op]
        if self.own and entry.formula is not None:
            return None, None
        of_integers = bool(node.args) and node.args[-1].kind == INTEGER and node.op != "select"
        template = entry.c_integer if of_integers else entry.c
        helper = None if of_integers or entry.c_helper is None else entry.c_helper
        if template is None and (of_integers or entry.formula is None):
            return None, None
        translate = lambda text: text and text.replace("@", self.suffix).replace("real_t", self.real)
        return translate(template), translate(helper)

    def formula_definition(self, node: Node, params: list[Node], steps: list[Node], result: Node) -> str:
        names = ", ".join(f"{self.type_of(x.kind)} {self.name(x)}" for x in params)
        lines = "".join(f"{self.declaration(x.kind)}{self.name(x)} = {self.expression(x)}; " for x in steps)
        return f"static {self.type_of(node.kind)} op_{node.op}({names}) {{ {lines}return {self.name(result)}; }}"


def _negative(text: str) -> str:
    """Return the negative of a variable or a number."""
    return f"-({text})" if text.startswith("-") else f"-{text}"


def number_in_c(value: float, kind: str, suffix: str = "") -> str:
    """Return a number of a kind of node as C writes it; with the suffix "f" in single precision.

    Raises:
        ProgramError: an integer does not fit into int64_t.
    """
    if kind == TRUTH:
        return ("false", "true")[bool(value)]
    if kind == INTEGER:
        smallest = -(2**63)
        if not smallest <= value < 2**63:
            raise ProgramError(f"the integer {value} does not fit into int64_t")
        return "INT64_MIN" if value == smallest else str(int(value))
    value = float(np.float32(value)) if suffix else float(value)
    if math.isfinite(value):
        return repr(value) + suffix
    return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"


def _members(letter: str, labelled: Sequence[tuple[str, str, tuple[int, ...]]]) -> list[StructMember]:
    """Return members of a struct whose names are made from labels (label, kind, shape).

    Names that would begin with a digit get a letter in front, reserved ones an underscore behind.

    Raises:
        ValueError: two labels make the same name.
    """
    found: dict[str, StructMember] = {}
    for label, kind, shape in labelled:
        name = re.sub(r"[^A-Za-z0-9]+", "_", label).strip("_")
        name = f"{letter}{name}" if name[:1].isdigit() or not name else name
        name = f"{name}_" if name in KEYWORDS | LIBRARY else name
        if name in found:
            raise ValueError(f"{found[name].label} and {label} would both be called {name} in C; rename one of them")
        found[name] = StructMember(name, kind, shape, label)
    return list(found.values())


def _struct(name: str, about: str, members: Sequence[StructMember], real: str) -> str:
    """Return the definition of a struct. C has no empty ones, so a struct without members gets one that is not used."""
    lines = []
    for member in members:
        size = math.prod(member.shape)
        if size:
            shape = f"[{size}]" if member.shape else ""
            kind = TYPES.get(member.kind, real)
            words = " × ".join(map(str, member.shape))
            comment = f" /* {_comment(member.label)}{f', {words}, row by row' if len(member.shape) > 1 else ''} */"
            lines.append(f"    {kind} {member.name}{shape};{comment if member.label else ''}")
    return "\n".join([f"/* {about}. */", "typedef struct {", *(lines or ["    char unused;"]), f"}} {name};", ""])


def _comment(text: str) -> str:
    """Return a text without the sequences that would begin or end a comment of C."""
    return text.replace("*/", "* /").replace("/*", "/ *")
