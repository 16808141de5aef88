"""Motions from formulas of the time, such as "2*pi*time". Python's parser reads a formula; nothing is executed."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from jaxmbs import motion
from jaxmbs.io.models.json_format.expressions import MAX_EXPRESSION_OPERATIONS, Expression
from jaxmbs.io.models.model import ModelError
from jaxmbs.numerics.arrays import default_float

# Longer formulas are refused.
MAX_FORMULA_CHARACTERS = 20_000
# Formulas with a power of the time above this one are no polynomials but lists of operations.
MAX_POLYNOMIAL_DEGREE = 9
# Functions of formulas by name: operation of an `Expression`, and the function of a number.
FUNCTIONS: dict[str, tuple[str, Callable[[float], float]]] = {
    "abs": ("abs", abs),
    "sin": ("sin", math.sin),
    "cos": ("cos", math.cos),
    "tan": ("tan", math.tan),
    "asin": ("asin", math.asin),
    "arcsin": ("asin", math.asin),
    "acos": ("acos", math.acos),
    "arccos": ("acos", math.acos),
    "atan": ("atan", math.atan),
    "arctan": ("atan", math.atan),
    "sqrt": ("sqrt", math.sqrt),
    "exp": ("exp", math.exp),
    "ln": ("log", math.log),
    "log": ("log", math.log),
}
# Operators of formulas: operation of an `Expression`, and the function of two numbers.
OPERATORS: dict[type[ast.operator], tuple[str, Callable[[float, float], float]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.Pow: ("pow", math.pow),
}

# Coefficients of a polynomial of the time in rising order, or the index of an operation.
Value = tuple[float, ...] | int


def motion_of(formula: str, owner: str) -> motion.AbstractMotion:
    """Return a formula of the time as a motion: a `Constant`, `Ramp`, `Polynomial`, or `Function` of operations.

    A formula has numbers ("2.0", "2.0d", "1e-3"), `time`, `pi`, + − * / ^, parentheses and the names of `FUNCTIONS`.
    Comments in double quotes and the marks <n> of line breaks are spaces. An empty formula is zero.

    Raises:
        ModelError: anything else; the message begins with the owner.
    """
    if len(formula) > MAX_FORMULA_CHARACTERS:
        raise ModelError(f"{owner}: formula has more than {MAX_FORMULA_CHARACTERS} characters")
    text = re.sub(r'"[^"]*"|<n>', " ", formula).replace("^", "**")
    text = re.sub(r"(\d+(?:\.\d*)?|\.\d+)([dD]?)", _plain_number, text)
    writer = _Writer()
    try:
        value = writer.value(ast.parse(text.strip() or "0", mode="eval").body)
        value = value if isinstance(value, int) else tuple(map(_finite, value))
    except ModelError as error:
        raise ModelError(f"{owner}: formula {_short(formula)!r}: {error}") from None
    except (SyntaxError, ValueError, ArithmeticError, MemoryError, RecursionError):
        raise ModelError(f"{owner}: formula {_short(formula)!r} cannot be evaluated") from None
    if isinstance(value, int):
        numbers = np.array(writer.numbers, default_float())
        return motion.Function(Expression(numbers, tuple(writer.rows), (value,), ()))
    if len(value) == 1:
        return motion.Constant(jnp.asarray(value[0], default_float()))
    if len(value) == 2:
        return motion.Ramp(*(jnp.asarray(x, default_float()) for x in value[::-1]))
    return motion.Polynomial(jnp.asarray(value, default_float()))


def number_of(formula: str, owner: str) -> float:
    """Return the value of a formula without the time; raise `ModelError`, which begins with the owner, for others."""
    found = motion_of(formula, owner)
    if not isinstance(found, motion.Constant):
        raise ModelError(f"{owner}: formula {_short(formula)!r} must be a number")
    return float(found.value)


def _plain_number(match: re.Match[str]) -> str:
    """Return a number without the suffix d, which becomes e if an exponent follows."""
    follows = match.string[match.end() : match.end() + 2].lstrip("+-")
    return match.group(1) + ("e" if match.group(2) and follows[:1].isdigit() else "")


def _short(formula: str) -> str:
    """Return the beginning of a formula for a message."""
    return formula if len(formula) <= 60 else formula[:57] + "..."


def _finite(x: float) -> float:
    """Return a number; raise `ModelError` if it is not finite."""
    if not math.isfinite(x):
        raise ModelError("is not finite")
    return x


class _Writer:
    """Operations of an expression of the time from the tree of a formula; polynomials need none.

    Attributes:
        numbers: the constants.
        rows: the operations.
    """

    def __init__(self):
        self.numbers: list[float] = []
        self.rows: list[tuple] = []

    def add(self, *row) -> int:
        """Append an operation and return its index."""
        if len(self.rows) >= MAX_EXPRESSION_OPERATIONS:
            raise ModelError(f"has more than {MAX_EXPRESSION_OPERATIONS} operations")
        self.rows.append(row)
        return len(self.rows) - 1

    def index(self, value: Value) -> int:
        """Return the index of the operation that computes a value; a polynomial is written by Horner's scheme."""
        if isinstance(value, int):
            return value
        found = self._number(value[-1])
        time = self.add("input", 0, 0) if len(value) > 1 else 0
        for coefficient in value[-2::-1]:
            found = self.add("mul", found, time)
            if coefficient:
                found = self.add("add", found, self._number(coefficient))
        return found

    def _number(self, x: float) -> int:
        """Return the index of the operation that gives a constant."""
        self.numbers.append(_finite(x))
        return self.add("number", len(self.numbers) - 1)

    def value(self, node: ast.AST) -> Value:
        """Return the value of a node of the formula's tree."""
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return (float(number),)
            case ast.Name(id="time"):
                return (0.0, 1.0)
            case ast.Name(id="pi"):
                return (math.pi,)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._binary(ast.Mult, (-1.0,), self.value(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return self._binary(type(op), self.value(left), self.value(right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                op_name, function = FUNCTIONS[name]
                value = self.value(argument)
                if isinstance(value, tuple) and len(value) == 1:
                    return (function(value[0]),)
                return self.add(op_name, self.index(value))
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
                raise ModelError(f"{name!r} is not known, or has a wrong number of arguments")
        raise ModelError(
            "may contain only numbers, time, pi, + - * / ^, parentheses and the functions "
            + ", ".join(sorted(FUNCTIONS))
        )

    def _binary(self, op: type[ast.operator], a: Value, b: Value) -> Value:
        """Return the value of an operator: a polynomial of polynomials if possible."""
        name, function = OPERATORS[op]
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) == len(b) == 1:
                return (function(a[0], b[0]),)
            result = _polynomial(op, np.array(a), np.array(b))
            if result is not None:
                return tuple(np.trim_zeros(result, "b").tolist()) or (0.0,)
        return self.add(name, self.index(a), self.index(b))


def _polynomial(op: type[ast.operator], a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return the polynomial that an operator makes of two, or None if it makes none of a low degree."""
    if op in (ast.Add, ast.Sub):
        size = max(len(a), len(b))
        a, b = (np.pad(x, (0, size - len(x))) for x in (a, b))
        return a + b if op is ast.Add else a - b
    if op is ast.Mult and len(a) + len(b) - 2 <= MAX_POLYNOMIAL_DEGREE:
        return np.convolve(a, b)
    if len(b) > 1:
        return None
    if op is ast.Div and b[0] != 0:
        return a / b[0]
    if op is ast.Pow and b[0] in range(MAX_POLYNOMIAL_DEGREE + 1) and (len(a) - 1) * b[0] <= MAX_POLYNOMIAL_DEGREE:
        return np.polynomial.polynomial.polypow(a, int(b[0]))
    return None
