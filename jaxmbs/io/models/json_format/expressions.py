"""Functions of the user as data: the scalar operations that they consist of.

A function of time or of the state is traced as a program is. What stays in the file is a list of operations on numbered
values; reading one executes nothing but these operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.io.models.model import ModelError
from jaxmbs.numerics.arrays import as_real, default_float
from jaxmbs.programs import OPERATIONS, Node, ProgramError, scalar_nodes

# A function of more operations is an accident: a table or a loop written out.
MAX_EXPRESSION_OPERATIONS = 20_000
# Number of points at which an expression is compared with the function, and the relative tolerance.
COMPARED_POINTS, TOLERANCE = 3, 1e-4
# Operations of an expression, and how many values they take. Truth values come from comparisons.
BINARY = (
    "add", "sub", "mul", "div", "rem", "min", "max", "pow", "atan2",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor",
)  # fmt: skip
UNARY = (
    "neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "cbrt", "exp", "expm1", "log", "log1p", "not",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
# What JSON has no numbers for.
WORDS = {"true": True, "false": False, "infinity": np.inf, "nan": np.nan}
ARITY = dict.fromkeys(BINARY, 2) | dict.fromkeys(UNARY, 1) | {"select": 3} | dict.fromkeys(WORDS, 0)
TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "true", "false")
COMPUTE: dict[str, Callable] = {
    **{op: OPERATIONS[op].xla for op in (*BINARY, *UNARY)},
    "select": lambda condition, yes, no: jnp.where(condition, yes, no),
}


class Expression(eqx.Module):
    """A function of numbers and vectors that is a list of scalar operations.

    Each operation gives one value, with the number that it has in the list: ("input", k, m) entry m of argument k,
    ("number", m) entry m of `numbers`, or an operation of `ARITY` with the numbers of earlier values.

    Attributes:
        numbers (c,): its constants, leaves that can be differentiated and batched.
        operations: the list.
        result: numbers of the values that it returns. shape: of what it returns.
    """

    numbers: Any = eqx.field(converter=as_real)
    operations: tuple[tuple[Any, ...], ...] = eqx.field(static=True)
    result: tuple[int, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, *args):
        dtype = jnp.result_type(*args)
        inputs = [jnp.ravel(jnp.asarray(x)) for x in args]
        values: list = []
        for op, *which in self.operations:
            if op == "input":
                values.append(inputs[which[0]][which[1]])
            elif op == "number":
                values.append(jnp.asarray(self.numbers[which[0]], dtype))
            elif op in WORDS:
                values.append(jnp.asarray(WORDS[op], bool if op in TRUTHS else dtype))
            else:
                values.append(COMPUTE[op](*(values[k] for k in which)))
        return jnp.stack([values[k] for k in self.result]).reshape(self.shape)

    def encoded(self) -> dict:
        """As JSON."""
        numbers = np.asarray(self.numbers, float).tolist()
        rows = [["number", numbers[row[1]]] if row[0] == "number" else list(row) for row in self.operations]
        return {"type": "expression", "operations": rows, "result": list(self.result), "shape": list(self.shape)}


def expression_of(f: Callable, shapes: Sequence[tuple[int, ...]]) -> Expression:
    """A function of arrays of these shapes as an expression.

    Raises:
        ModelError: a function that needs loops, tables or integers, or cannot be traced.
    """
    if isinstance(f, Expression):
        return f
    dtype = default_float()
    args = [jnp.zeros(shape, dtype) for shape in shapes]
    try:
        # What the function closes over are constants of its jaxpr.
        jaxpr = jax.make_jaxpr(lambda *xs: jnp.asarray(f(*xs), dtype))(*args)
        if any(isinstance(x, jax.core.Tracer) for x in jaxpr.consts):
            raise ModelError("a function that closes over traced numbers; only known ones can be written")
        nodes, results = scalar_nodes(jaxpr)
    except ProgramError as error:
        raise ModelError(f"a function that cannot be written as scalar operations: {error}") from None
    except TypeError as error:
        line = str(error).partition("\n")[0]
        raise ModelError(f"a function that cannot be written as scalar operations: {line}") from None
    writer = _Writer()
    for node in nodes:
        writer.add(node)
    result = tuple(writer.where(node) for node in results)
    if len(writer.rows) > MAX_EXPRESSION_OPERATIONS:
        raise ModelError(f"a function of {len(writer.rows)} operations; a file takes {MAX_EXPRESSION_OPERATIONS}")
    numbers = np.array(writer.numbers, default_float())
    found = Expression(numbers, tuple(writer.rows), result, tuple(jaxpr.out_avals[0].shape))
    _check_values(f, found, shapes)
    return found


def _check_values(f: Callable, found: Expression, shapes) -> None:
    """Raise `ModelError` unless an expression gives what the function gives, at some places."""
    rng = np.random.default_rng(0)
    for _ in range(COMPARED_POINTS):
        args = [jnp.asarray(rng.normal(size=shape), default_float()) for shape in shapes]
        ours, theirs = np.asarray(f(*args), float), np.asarray(found(*args), float)
        size = np.abs(ours[np.isfinite(ours)]).max(initial=1)
        if not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True):
            raise ModelError("a function that does not give the same as its scalar operations")


class _Writer:
    """Operations of an expression from the nodes of a graph, constants where they are first needed."""

    def __init__(self):
        self.numbers: list[float] = []
        self.rows: list[tuple[Any, ...]] = []
        self.places: dict[int, int] = {}  # of nodes
        self.known: dict[str, int] = {}  # of constants

    def constant(self, value: float | bool) -> int:
        """The place of a constant."""
        key = repr(value)
        if key not in self.known:
            word = next((w for w, x in WORDS.items() if key == repr(x)), None)
            if word is None and not np.isfinite(value):
                self.rows.append(("neg", self.constant(-value)))
            elif word is None:
                self.rows.append(("number", len(self.numbers)))
                self.numbers.append(value)
            else:
                self.rows.append((word,))
            self.known[key] = len(self.rows) - 1
        return self.known[key]

    def where(self, node: Node) -> int:
        """The place of a value."""
        if node.op != "const":
            return self.places[node.serial]
        if node.is_integer:
            raise ModelError("a function with integers; only scalar operations on real numbers can be written")
        return self.constant(node.value)

    def add(self, node: Node) -> None:
        """Append an operation."""
        source = node.address.buffer.source if node.op == "load" and not node.args else None
        if source is not None:
            row: tuple[Any, ...] = ("input", int(source), int(node.address.offset))
        elif node.op == "real" and node.args[0].is_truth:
            row = ("select", self.where(node.args[0]), self.constant(1.0), self.constant(0.0))
        elif node.op in ARITY and not node.is_integer:
            row = (node.op, *(self.where(arg) for arg in node.args))
        else:
            raise ModelError(
                f"a function with {node.op!r} of integers or memory; only scalar operations on real numbers can be written"
            )
        self.rows.append(row)
        self.places[node.serial] = len(self.rows) - 1


def decoded(data: dict, shapes: Sequence[tuple[int, ...]]) -> Expression:
    """An expression of JSON, for arguments of these shapes.

    Raises:
        ModelError: what is none.
    """
    unknown = set(data) - {"type", "operations", "result", "shape"}
    if unknown:
        raise ModelError(f"expression: unknown key {min(unknown)!r}")
    operations = data.get("operations")
    if not isinstance(operations, list) or not 0 < len(operations) <= MAX_EXPRESSION_OPERATIONS:
        raise ModelError(f"expression: operations must be a list of 1 to {MAX_EXPRESSION_OPERATIONS}")
    numbers: list[float] = []
    rows: list[tuple] = []
    truths: set[int] = set()
    for k, row in enumerate(operations):
        if not isinstance(row, list) or not row or not isinstance(row[0], str):
            raise ModelError(f"expression: operation {k} must be a list that begins with its name")
        op, *args = row
        if op == "number":
            if len(args) != 1 or isinstance(args[0], bool) or not isinstance(args[0], (int, float)):
                raise ModelError(f"expression: operation {k}: number takes one number")
            rows.append(("number", len(numbers)))
            numbers.append(float(args[0]))
            continue
        if not all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in args):
            raise ModelError(f"expression: operation {k} ({op}) takes numbers of earlier values")
        if op == "input":
            if len(args) != 2 or args[0] >= len(shapes) or args[1] >= math.prod(shapes[args[0]]):
                raise ModelError(f"expression: operation {k}: there is no input {args}")
        elif op not in ARITY:
            raise ModelError(f"expression: operation {k}: unknown operation {op!r}")
        elif len(args) != ARITY[op] or any(x >= k for x in args):
            raise ModelError(f"expression: operation {k}: {op} takes {ARITY[op]} earlier values, got {args}")
        else:
            _check_kinds(k, op, [x in truths for x in args])
            if op in TRUTHS or (op == "select" and args[1] in truths):
                truths.add(k)
        rows.append((op, *args))
    result, shape = data.get("result"), data.get("shape", [])
    if not isinstance(result, list) or len(result) > MAX_EXPRESSION_OPERATIONS:
        raise ModelError(f"expression: result must be a list of at most {MAX_EXPRESSION_OPERATIONS}")
    if not all(type(x) is int and 0 <= x < len(rows) for x in result):
        raise ModelError("expression: result must be numbers of values")
    if not isinstance(shape, list) or not all(type(x) is int and x > 0 for x in shape):
        raise ModelError("expression: shape must be a list of sizes")
    if len(result) != math.prod(shape) or any(x in truths for x in result):
        raise ModelError("expression: result must be as many real values as shape says")
    return Expression(np.array(numbers, default_float()), tuple(rows), tuple(result), tuple(shape))


def _check_kinds(k: int, op: str, truths: list[bool]) -> None:
    """Real numbers and truth values where an operation takes them."""
    wanted = [True] * len(truths) if op in ("and", "or", "xor", "not") else [False] * len(truths)
    if op == "select":
        wanted = [True, truths[1], truths[1]]
    if truths != wanted:
        raise ModelError(f"expression: operation {k}: {op} takes {'truth values' if wanted[0] else 'numbers'}")
