"""Functions of the user as lists of scalar operations.

A function of time or of the state is traced like a program. The file has a list of operations on numbered values. Reading
it executes only these operations.
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

# Functions with more operations are refused: they are unrolled loops or large tables.
MAX_EXPRESSION_OPERATIONS = 20_000
# Number of random points at which an expression that is to be written is compared with its function.
COMPARED_POINTS = 3
# Largest difference of an expression from its function at these points, relative to the values; beyond it writing
# fails.
TOLERANCE = 1e-4
# Operations of expressions on two values.
BINARY = (
    "add", "sub", "mul", "div", "rem", "min", "max", "pow", "atan2",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor",
)  # fmt: skip
# Operations of expressions on one value.
UNARY = (
    "neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "cbrt", "exp", "expm1", "log", "log1p", "not",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
# Values that JSON has no numbers for.
WORDS = {"true": True, "false": False, "infinity": np.inf, "nan": np.nan}
# Number of values that each operation of an expression takes.
ARITY = dict.fromkeys(BINARY, 2) | dict.fromkeys(UNARY, 1) | {"select": 3} | dict.fromkeys(WORDS, 0)
# Operations of expressions whose values are truth values.
TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "true", "false")
# JAX function that computes each operation of an expression.
COMPUTE: dict[str, Callable] = {op: OPERATIONS[op].xla for op in (*BINARY, *UNARY)} | {"select": jnp.where}


class Expression(eqx.Module):
    """A function of numbers and vectors as a list of scalar operations.

    Each operation gives one value, which later operations call by its index in the list: ("input", k, m) is entry m of
    argument k, ("number", m) is entry m of `numbers`, and the operations of `ARITY` take indices of earlier values.

    Attributes:
        numbers: constants (c,), leaves that can be differentiated and batched.
        operations: the list.
        result: indices of the values that it returns.
        shape: shape of the result.
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

    def encode(self) -> dict:
        """Return the expression as JSON."""
        numbers = np.asarray(self.numbers, float).tolist()
        rows = [["number", numbers[row[1]]] if row[0] == "number" else list(row) for row in self.operations]
        return {"type": "expression", "operations": rows, "result": list(self.result), "shape": list(self.shape)}


def expression_of(f: Callable, shapes: Sequence[tuple[int, ...]]) -> Expression:
    """Return a function of arrays with these shapes as an expression; raise `ModelError` if that is not possible."""
    if isinstance(f, Expression):
        return f
    dtype = default_float()
    args = [jnp.zeros(shape, dtype) for shape in shapes]
    try:
        # Arrays that the function closes over are constants of its jaxpr.
        jaxpr = jax.make_jaxpr(lambda *xs: jnp.asarray(f(*xs), dtype))(*args)
        if any(isinstance(x, jax.core.Tracer) for x in jaxpr.consts):
            raise ModelError("a function that closes over traced numbers; only concrete numbers can be written")
        nodes, results = scalar_nodes(jaxpr)
    except ProgramError as error:
        raise ModelError(f"a function that cannot be written as scalar operations: {error}") from None
    except TypeError as error:
        line = str(error).partition("\n")[0]
        raise ModelError(f"a function that cannot be written as scalar operations: {line}") from None
    writer = _ExpressionWriter()
    for node in nodes:
        writer.add(node)
    result = tuple(writer.index(node) for node in results)
    if len(writer.rows) > MAX_EXPRESSION_OPERATIONS:
        raise ModelError(f"a function of {len(writer.rows)} operations; a file has at most {MAX_EXPRESSION_OPERATIONS}")
    numbers = np.array(writer.numbers, default_float())
    found = Expression(numbers, tuple(writer.rows), result, tuple(jaxpr.out_avals[0].shape))
    _check_values(f, found, shapes)
    return found


def _check_values(f: Callable, found: Expression, shapes) -> None:
    """Raise `ModelError` unless an expression has the values of its function at some random points."""
    rng = np.random.default_rng(0)
    for _ in range(COMPARED_POINTS):
        args = [jnp.asarray(rng.normal(size=shape), default_float()) for shape in shapes]
        ours, theirs = np.asarray(f(*args), float), np.asarray(found(*args), float)
        size = np.abs(ours[np.isfinite(ours)]).max(initial=1)
        if not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True):
            raise ModelError("a function whose values differ from those of its scalar operations")


class _ExpressionWriter:
    """Operations of an expression from the nodes of a graph. Constants appear where they are first used.

    Attributes:
        numbers: the constants.
        rows: the operations.
        node_indices: index of the value of each node, by its serial number.
        constant_indices: index of the value of each constant, by its text.
    """

    def __init__(self):
        self.numbers: list[float] = []
        self.rows: list[tuple[Any, ...]] = []
        self.node_indices: dict[int, int] = {}
        self.constant_indices: dict[str, int] = {}

    def constant(self, value: float | bool) -> int:
        """Return the index of the value of a constant."""
        key = repr(value)
        if key not in self.constant_indices:
            word = next((w for w, x in WORDS.items() if key == repr(x)), None)
            if word is None and not np.isfinite(value):
                self.rows.append(("neg", self.constant(-value)))
            elif word is None:
                self.rows.append(("number", len(self.numbers)))
                self.numbers.append(value)
            else:
                self.rows.append((word,))
            self.constant_indices[key] = len(self.rows) - 1
        return self.constant_indices[key]

    def index(self, node: Node) -> int:
        """Return the index of the value of a node."""
        if node.op != "const":
            return self.node_indices[node.serial]
        if node.is_integer:
            raise ModelError("a function with integers; only scalar operations on real numbers can be written")
        return self.constant(node.value)

    def add(self, node: Node) -> None:
        """Append the operation of a node."""
        source = node.address.buffer.source if node.op == "load" and not node.args else None
        if source is not None:
            row: tuple[Any, ...] = ("input", int(source), int(node.address.offset))
        elif node.op == "real" and node.args[0].is_truth:
            row = ("select", self.index(node.args[0]), self.constant(1.0), self.constant(0.0))
        elif node.op in ARITY and not node.is_integer:
            row = (node.op, *(self.index(arg) for arg in node.args))
        else:
            raise ModelError(
                f"a function with {node.op!r} of integers or memory; only scalar operations on real numbers can be written"
            )
        self.rows.append(row)
        self.node_indices[node.serial] = len(self.rows) - 1


def decode(data: dict, shapes: Sequence[tuple[int, ...]]) -> Expression:
    """Return an expression from JSON, for arguments with these shapes; raise `ModelError` if it is not valid."""
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
    """Raise `ModelError` if operation k has numbers for truth values or the reverse; `truths` tells which it has."""
    wanted = [True] * len(truths) if op in ("and", "or", "xor", "not") else [False] * len(truths)
    if op == "select":
        wanted = [True, truths[1], truths[1]]
    if truths != wanted:
        raise ModelError(f"expression: operation {k}: {op} takes {'truth values' if wanted[0] else 'numbers'}")
