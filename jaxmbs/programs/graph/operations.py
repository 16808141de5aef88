"""The table of scalar operations: everything that tracing, derivatives and backends know of each.

A new operation is one entry here. If a platform has no such function, `formula` says how to compute it from others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class Operation:
    """A scalar operation.

    Attributes:
        value: the result for Python numbers, by which constants are folded.
        xla: the same for JAX arrays.
        llvm: (code, node, args) ↦ name of the result for real arguments, or those of its only kind. `code` is an
            `Instructions`, args are names of values; None if `formula` serves.
        llvm_integer: the same for integer arguments, None if it takes none.
        javascript: an expression of {0}, {1}, …; None if `formula` serves.
        javascript_helper: a line that defines what the expression calls.
        formula: (graph, *arguments) ↦ the result from other operations, for platforms without this one.
        slope: (graph, result, *arguments) ↦ derivative by the argument, or a tuple of those by each; None if it is zero
            wherever it exists.
        is_linear: True if the derivatives are written out in `derivatives`, which need no slope then.
        is_costly: True if it takes as long as ten multiplications or more.
        is_commutative: True if the order of the arguments does not matter.
        is_comparison: True if it makes a truth value of numbers.
        of_truths: (make, a, b) ↦ the operation on truth values, false before true, by logic alone.
        primitives: JAX primitives that are this operation, entry by entry.
        sign: infix or prefix in listings, None if they show a call.
    """

    value: Callable
    xla: Callable
    llvm: Callable | None = None
    llvm_integer: Callable | None = None
    javascript: str | None = None
    javascript_helper: str | None = None
    formula: Callable | None = None
    slope: Callable | None = None
    is_linear: bool = False
    is_costly: bool = False
    is_commutative: bool = False
    is_comparison: bool = False
    of_truths: Callable | None = None
    primitives: tuple[str, ...] = ()
    sign: str | None = None


# Values of constants.


def _numpy(name: str) -> Callable:
    """Return NumPy's function with this name, for Python numbers and without warnings."""
    function = getattr(np, name)

    def fold(*args):
        """Return the function of Python numbers."""
        with np.errstate(all="ignore"):
            return float(function(*(np.float64(a) for a in args)))

    return fold


def _sign(a: float) -> float:
    """Return the sign of a number; zeros and NaN unchanged."""
    return a if a != a or a == 0 else math.copysign(1.0, a)


def _remainder(a: float, b: float) -> float:
    """Return the remainder of a / b with the sign of a."""
    with np.errstate(all="ignore"):
        return float(np.fmod(a, b))


def _minimum(a: float, b: float) -> float:
    """Return the smaller number, NaN if either is NaN."""
    return a if a != a else b if b != b else min(a, b)


def _maximum(a: float, b: float) -> float:
    """Return the larger number, NaN if either is NaN."""
    return a if a != a else b if b != b else max(a, b)


def _integer_divide(a: int, b: int) -> int:
    """Return the quotient rounded towards zero, −1 for b = 0."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1


def _integer_remainder(a: int, b: int) -> int:
    """Return the remainder with the sign of a, a for b = 0."""
    return a - b * _integer_divide(a, b) if b else a


def _truncate(value: float) -> int:
    """Return a real number rounded towards zero, held within 64 bits, 0 for NaN."""
    largest = 2**63 - 1
    value = value if value == value else 0
    return math.trunc(value) if abs(value) < largest else int(math.copysign(1, value)) * largest


# LLVM.


def _instruction(word: str) -> Callable:
    """Return a function that writes LLVM's instruction `word` of two arguments and a result of one type."""
    return lambda code, node, args: code.instruction(node, word, args)


def _intrinsic(name: str) -> Callable:
    """Return a function that writes a call of LLVM's intrinsic function `name` of real numbers."""
    return lambda code, node, args: code.intrinsic(node, name, args)


def _elementary(name: str) -> Callable:
    """Return a function that writes a call of the function `name` of `vector_math` or `exponentials`."""
    return lambda code, node, args: code.elementary(node, name, args)


def _method(name: str) -> Callable:
    """Return a function that calls the method `name` of `Instructions`."""
    return lambda code, node, args: getattr(code, name)(node, args)


# Slopes.


def _inverse(g: Any, x: Any):
    """Return 1 / x, as a node of the graph."""
    return g.make("div", g.constant(1.0), x)


def _square(g: Any, x: Any):
    """Return x², as a node of the graph."""
    return g.mul(x, x)


def _one_plus(g: Any, x: Any):
    """Return 1 + x, as a node of the graph."""
    return g.add(g.constant(1.0), x)


def _one_minus(g: Any, x: Any):
    """Return 1 − x, as a node of the graph."""
    return g.sub(g.constant(1.0), x)


def _by_root(inside: Callable) -> Callable:
    """Return the function that gives the slope 1 / √inside(x²)."""
    return lambda g, y, x: _inverse(g, g.make("sqrt", inside(g, _square(g, x))))


def _divide_slope(g: Any, y: Any, a: Any, b: Any):
    """Return the derivatives of y = a / b by a and b."""
    inverse = y if a.is_constant and a.value == 1 else _inverse(g, b)
    return inverse, g.make("neg", g.mul(y, inverse))


def _extreme_slope(wins: str) -> Callable:
    """Return the slopes of min or max: 1 for the argument that is taken, ½ for both where they are equal."""

    def slope(g: Any, y: Any, a: Any, b: Any):
        """Return the derivatives of min or max by a and b."""
        half, one, zero = g.constant(0.5), g.constant(1.0), g.constant(0.0)
        taken, same = g.make(wins, a, b), g.make("eq", a, b)
        by_a = g.select(taken, one, g.select(same, half, zero))
        return by_a, g.sub(one, by_a)

    return slope


def _power_slope(g: Any, y: Any, a: Any, b: Any):
    """Return the derivatives of y = aᵇ by a and b."""
    one, zero = g.constant(1.0), g.constant(0.0)
    by_a = g.mul(b, g.make("pow", a, g.sub(b, one)))
    # 0ᵇ does not change with b > 0.
    positive = g.make("gt", a, zero)
    return by_a, g.select(positive, g.mul(g.make("log", g.select(positive, a, one)), y), zero)


def _angle_slope(g: Any, y: Any, a: Any, b: Any):
    """Return the derivatives of atan2(a, b) by a and b."""
    inverse = _inverse(g, g.add(_square(g, a), _square(g, b)))
    return g.mul(b, inverse), g.make("neg", g.mul(a, inverse))


def _remainder_slope(g: Any, y: Any, a: Any, b: Any):
    """Return the derivatives of the remainder of a / b by a and b."""
    quotient = g.make("div", g.sub(a, y), b)
    return g.constant(1.0), g.make("neg", g.make("round", quotient))


# Formulas.

# Coefficients of erf(x) / x in x², near-minimax for |x| ≤ 1.
_ERF_INNER = (
    *(1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145),
    *(-0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06),
    *(-1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11),
)
# Coefficients of exp(x²) (1 − erf(x)) in (x − 2) / (x + 2), near-minimax for 1 ≤ x ≤ 6.
_ERF_OUTER = (
    *(0.25539567631050575, -0.4271858474139579, 0.24165819424246987, -0.07897858101585253, 0.00373289240349224),
    *(0.006997461747753573, -0.0008471431980760424, -0.0009819773208131022, 4.3554202452705896e-05),
    *(0.00017436697232946864, 2.754312818566672e-05, -2.7647305443610053e-05, -1.4067532694582058e-05),
    *(1.820143195975009e-06, 3.917059299925389e-06),
)


def _horner(g: Any, x: Any, coefficients: Sequence[float]):
    """Return a polynomial, its coefficients from the constant term up."""
    total = g.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = g.add(g.mul(total, x), g.constant(coefficient))
    return total


def _erf_formula(g: Any, x: Any):
    """Return erf(x) within 3 units in the last place; from 6 on it is 1 to rounding."""
    size = g.make("min", g.make("abs", x), g.constant(6.0))
    square = g.mul(size, size)
    inner = g.mul(size, _horner(g, square, _ERF_INNER))
    two = g.constant(2.0)
    place = g.make("div", g.sub(size, two), g.add(size, two))
    outer = _one_minus(g, g.mul(g.make("exp", g.make("neg", square)), _horner(g, place, _ERF_OUTER)))
    value = g.select(g.make("lt", size, g.constant(1.0)), inner, outer)
    return g.select(g.make("lt", x, g.constant(0.0)), g.make("neg", value), value)


# Groups of similar operations.


def _function(value: str, xla: Callable, llvm: Callable, slope: Callable, primitive: str, **more: Any) -> Operation:
    """Return a costly function of one real number, which JavaScript's `Math` and JAX call by the same name."""
    return Operation(
        value=_numpy(value),
        xla=xla,
        llvm=llvm,
        javascript=f"Math.{primitive}({{0}})",
        slope=slope,
        is_costly=True,
        primitives=(primitive,),
        **more,
    )


def _comparison(
    value: Callable, xla: Callable, real: str, integer: str, javascript: str, sign: str, of_truths: Callable
):
    """Return a comparison, with the condition codes of LLVM for real and integer arguments."""
    return Operation(
        value=value,
        xla=xla,
        llvm=lambda code, node, args: code.instruction(node, f"fcmp {real}", args),
        llvm_integer=lambda code, node, args: code.instruction(node, f"icmp {integer}", args),
        javascript=f"{{0}} {javascript} {{1}}",
        is_comparison=True,
        is_commutative=sign in ("==", "!="),
        of_truths=of_truths,
        sign=sign,
    )


# JavaScript: the nearest integer, ties to even.
_EVEN = "const even = (x) => { const r = Math.round(x); return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r; };"
# JavaScript: x to the power of y with C's values for x = ±1.
_POWER = "const power = (x, y) => x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y;"
# JavaScript: the integer part of a number, held within 64 bits, 0 for NaN.
_WHOLE = "const whole = (x) => Math.max(-(2 ** 63), Math.min(2 ** 63, Math.trunc(Number(x)))) || 0;"

# All scalar operations by name. Arguments are real numbers unless the entry says otherwise.
OPERATIONS: dict[str, Operation] = {
    # Arithmetic.
    "add": Operation(
        value=lambda a, b: a + b,
        xla=lax.add,
        llvm=_instruction("fadd"),
        llvm_integer=_instruction("add"),
        javascript="{0} + {1}",
        is_linear=True,
        is_commutative=True,
        of_truths=lambda make, a, b: make("or", a, b),
        primitives=("add", "add_any"),
        sign="+",
    ),
    "sub": Operation(
        value=lambda a, b: a - b,
        xla=lax.sub,
        llvm=_instruction("fsub"),
        llvm_integer=_instruction("sub"),
        javascript="{0} - {1}",
        is_linear=True,
        primitives=("sub",),
        sign="-",
    ),
    "mul": Operation(
        value=lambda a, b: a * b,
        xla=lax.mul,
        llvm=_instruction("fmul"),
        llvm_integer=_instruction("mul"),
        javascript="{0} * {1}",
        is_linear=True,
        is_commutative=True,
        of_truths=lambda make, a, b: make("and", a, b),
        primitives=("mul",),
        sign="*",
    ),
    "div": Operation(
        value=_numpy("divide"),
        xla=lax.div,
        llvm=_instruction("fdiv"),
        javascript="{0} / {1}",
        slope=_divide_slope,
        is_costly=True,
        primitives=("div",),
        sign="/",
    ),
    "rem": Operation(
        value=_remainder,
        xla=lax.rem,
        llvm=_method("remainder"),
        javascript="{0} % {1}",
        slope=_remainder_slope,
        is_costly=True,
        primitives=("rem",),
    ),
    "neg": Operation(
        value=lambda a: -a,
        xla=lax.neg,
        llvm=lambda code, node, args: code.let(f"fneg {code.type_of(node)} {args[0]}"),
        llvm_integer=lambda code, node, args: code.instruction(node, "sub", [code.integer(0, node), args[0]]),
        javascript="-{0}",
        is_linear=True,
        primitives=("neg",),
        sign="-",
    ),
    "abs": Operation(
        value=abs,
        xla=lax.abs,
        llvm=_intrinsic("fabs"),
        llvm_integer=_method("integer_extreme"),
        javascript="Math.abs({0})",
        slope=lambda g, y, x: g.make("sign", x),
        primitives=("abs",),
    ),
    "sign": Operation(
        value=_sign,
        xla=lax.sign,
        llvm=_method("sign"),
        llvm_integer=_method("integer_sign"),
        javascript="Math.sign({0})",
        primitives=("sign",),
    ),
    "min": Operation(
        value=_minimum,
        xla=lax.min,
        llvm=_method("extreme"),
        llvm_integer=_method("integer_extreme"),
        javascript="Math.min({0}, {1})",
        slope=_extreme_slope("lt"),
        is_commutative=True,
        of_truths=lambda make, a, b: make("and", a, b),
        primitives=("min",),
    ),
    "max": Operation(
        value=_maximum,
        xla=lax.max,
        llvm=_method("extreme"),
        llvm_integer=_method("integer_extreme"),
        javascript="Math.max({0}, {1})",
        slope=_extreme_slope("gt"),
        is_commutative=True,
        of_truths=lambda make, a, b: make("or", a, b),
        primitives=("max",),
    ),
    # Rounding.
    "floor": Operation(
        value=_numpy("floor"),
        xla=lax.floor,
        llvm=_intrinsic("floor"),
        javascript="Math.floor({0})",
        primitives=("floor",),
    ),
    "ceil": Operation(
        value=_numpy("ceil"),
        xla=lax.ceil,
        llvm=_intrinsic("ceil"),
        javascript="Math.ceil({0})",
        primitives=("ceil",),
    ),
    "round": Operation(
        value=_numpy("rint"),
        xla=partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN),
        llvm=_intrinsic("rint"),
        javascript="even({0})",
        javascript_helper=_EVEN,
    ),
    "trunc": Operation(value=_numpy("trunc"), xla=jnp.trunc, llvm=_intrinsic("trunc"), javascript="Math.trunc({0})"),
    # Roots, powers and elementary functions.
    "sqrt": _function(
        "sqrt", lax.sqrt, _intrinsic("sqrt"), lambda g, y, x: g.make("div", g.constant(0.5), y), primitive="sqrt"
    ),
    "cbrt": _function(
        "cbrt",
        lax.cbrt,
        _elementary("cbrt"),
        lambda g, y, x: g.make("div", y, g.mul(g.constant(3.0), x)),
        primitive="cbrt",
    ),
    "pow": Operation(
        value=_numpy("power"),
        xla=lax.pow,
        llvm=_elementary("pow"),
        javascript="power({0}, {1})",
        javascript_helper=_POWER,
        slope=_power_slope,
        is_costly=True,
    ),
    "sin": _function("sin", lax.sin, _method("sin_cos"), lambda g, y, x: g.make("cos", x), primitive="sin"),
    "cos": _function(
        "cos", lax.cos, _method("sin_cos"), lambda g, y, x: g.make("neg", g.make("sin", x)), primitive="cos"
    ),
    "tan": _function("tan", lax.tan, _method("sin_cos"), lambda g, y, x: _one_plus(g, _square(g, y)), primitive="tan"),
    "asin": _function("arcsin", lax.asin, _method("inverse_sin_cos"), _by_root(_one_minus), primitive="asin"),
    "acos": _function(
        "arccos",
        lax.acos,
        _method("inverse_sin_cos"),
        lambda g, y, x: g.make("neg", _by_root(_one_minus)(g, y, x)),
        primitive="acos",
    ),
    "atan": _function(
        "arctan",
        lax.atan,
        lambda code, node, args: code.elementary(node, "atan2", [args[0], code.real(1.0, node)]),
        lambda g, y, x: _inverse(g, _one_plus(g, _square(g, x))),
        primitive="atan",
    ),
    "atan2": Operation(
        value=_numpy("arctan2"),
        xla=lax.atan2,
        llvm=_elementary("atan2"),
        javascript="Math.atan2({0}, {1})",
        slope=_angle_slope,
        is_costly=True,
        primitives=("atan2",),
    ),
    "sinh": _function("sinh", lax.sinh, _elementary("sinh"), lambda g, y, x: g.make("cosh", x), primitive="sinh"),
    "cosh": _function("cosh", lax.cosh, _elementary("cosh"), lambda g, y, x: g.make("sinh", x), primitive="cosh"),
    "tanh": _function(
        "tanh", lax.tanh, _elementary("tanh"), lambda g, y, x: _one_minus(g, _square(g, y)), primitive="tanh"
    ),
    "asinh": _function("arcsinh", lax.asinh, _elementary("asinh"), _by_root(_one_plus), primitive="asinh"),
    "acosh": _function(
        "arccosh",
        lax.acosh,
        _elementary("acosh"),
        lambda g, y, x: _inverse(g, g.make("sqrt", g.sub(_square(g, x), g.constant(1.0)))),
        primitive="acosh",
    ),
    "atanh": _function(
        "arctanh",
        lax.atanh,
        _elementary("atanh"),
        lambda g, y, x: _inverse(g, _one_minus(g, _square(g, x))),
        primitive="atanh",
    ),
    "exp": _function("exp", lax.exp, _elementary("exp"), lambda g, y, x: y, primitive="exp"),
    "log": _function("log", lax.log, _elementary("log"), lambda g, y, x: _inverse(g, x), primitive="log"),
    "expm1": _function("expm1", lax.expm1, _elementary("expm1"), lambda g, y, x: _one_plus(g, y), primitive="expm1"),
    "log1p": _function(
        "log1p", lax.log1p, _elementary("log1p"), lambda g, y, x: _inverse(g, _one_plus(g, x)), primitive="log1p"
    ),
    "erf": Operation(
        value=math.erf,
        xla=lax.erf,
        formula=_erf_formula,
        slope=lambda g, y, x: g.mul(g.constant(2 / math.sqrt(math.pi)), g.make("exp", g.make("neg", _square(g, x)))),
        is_costly=True,
        primitives=("erf",),
    ),
    # Comparisons: of real numbers and integers.
    "eq": _comparison(
        lambda a, b: a == b, lax.eq, "oeq", "eq", "===", "==", lambda make, a, b: make("not", make("xor", a, b))
    ),
    "ne": _comparison(lambda a, b: a != b, lax.ne, "une", "ne", "!==", "!=", lambda make, a, b: make("xor", a, b)),
    "lt": _comparison(
        lambda a, b: a < b, lax.lt, "olt", "slt", "<", "<", lambda make, a, b: make("and", make("not", a), b)
    ),
    "le": _comparison(
        lambda a, b: a <= b, lax.le, "ole", "sle", "<=", "<=", lambda make, a, b: make("or", make("not", a), b)
    ),
    "gt": _comparison(
        lambda a, b: a > b, lax.gt, "ogt", "sgt", ">", ">", lambda make, a, b: make("and", a, make("not", b))
    ),
    "ge": _comparison(
        lambda a, b: a >= b, lax.ge, "oge", "sge", ">=", ">=", lambda make, a, b: make("or", a, make("not", b))
    ),
    # Logic: of truth values.
    "and": Operation(
        value=lambda a, b: a and b,
        xla=lax.bitwise_and,
        llvm=_instruction("and"),
        javascript="{0} && {1}",
        is_commutative=True,
        sign="&",
    ),
    "or": Operation(
        value=lambda a, b: a or b,
        xla=lax.bitwise_or,
        llvm=_instruction("or"),
        javascript="{0} || {1}",
        is_commutative=True,
        sign="|",
    ),
    "xor": Operation(
        value=lambda a, b: a != b,
        xla=lax.bitwise_xor,
        llvm=_instruction("xor"),
        javascript="{0} !== {1}",
        is_commutative=True,
        sign="^",
    ),
    "not": Operation(value=lambda a: not a, xla=lax.bitwise_not, llvm=_method("negation"), javascript="!{0}", sign="~"),
    # A truth value, then two values of any kind.
    "select": Operation(
        value=lambda condition, yes, no: yes if condition else no,
        xla=lax.select,
        llvm=_method("selection"),
        javascript="{0} ? {1} : {2}",
        is_linear=True,
    ),
    # Integers.
    "idiv": Operation(
        value=_integer_divide,
        xla=lax.div,
        llvm_integer=_method("integer_division"),
        javascript="{1} === 0 ? -1 : Math.trunc({0} / {1})",
        sign="//",
    ),
    "irem": Operation(
        value=_integer_remainder,
        xla=lax.rem,
        llvm_integer=_method("integer_division"),
        javascript="{1} === 0 ? {0} : {0} % {1}",
        sign="%",
    ),
    # Conversions: to a real number from an integer or a truth value, and to an integer from a real number.
    "real": Operation(
        value=float,
        xla=lambda x: x.astype(jnp.result_type(float)),
        llvm=lambda code, node, args: code.conversion(node, "uitofp", args),
        llvm_integer=lambda code, node, args: code.conversion(node, "sitofp", args),
        javascript="Number({0}) + 0",
    ),
    "integer": Operation(
        value=_truncate,
        xla=lambda x: x.astype(jnp.result_type(int)),
        llvm=_method("to_integer"),
        javascript="whole({0})",
        javascript_helper=_WHOLE,
    ),
}

# Operations whose arguments may be exchanged.
COMMUTATIVE = frozenset(name for name, operation in OPERATIONS.items() if operation.is_commutative)
# Operations that make truth values of numbers.
COMPARISONS = frozenset(name for name, operation in OPERATIONS.items() if operation.is_comparison)
# Operations that are also defined for truth values.
OF_TRUTHS = {name: operation.of_truths for name, operation in OPERATIONS.items() if operation.of_truths is not None}
