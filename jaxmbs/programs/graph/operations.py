"""The table of scalar operations: everything that tracing, derivatives and backends know of each.

A new operation is one entry here. If a platform has no such function, `formula` says how to compute it from others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from jaxmbs.programs.graph import formulas
from jaxmbs.programs.graph.formulas import inverse, one_minus, one_plus, square

if TYPE_CHECKING:
    from jaxmbs.programs.graph.nodes import Node


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
        c: the same in C for real arguments, or those of its only kind; "@" stands for "f" in single precision.
        c_integer: the same for integer arguments, None if it takes none. Integers have 64 bits and wrap around.
        c_helper: a line that defines what `c` calls; `real_t` stands for the type of real numbers.
        formula: (graph, *arguments) ↦ the result from other operations, for platforms without this one.
        tpu_formula: the same for kernels on TPUs, in single precision; None if they have it as in `xla`.
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

    value: Callable[..., Any]
    xla: Callable[..., Any]
    llvm: Callable[..., Any] | None = None
    llvm_integer: Callable[..., Any] | None = None
    javascript: str | None = None
    javascript_helper: str | None = None
    c: str | None = None
    c_integer: str | None = None
    c_helper: str | None = None
    formula: Callable[..., Node] | None = None
    tpu_formula: Callable[..., Node] | None = None
    slope: Callable[..., Any] | None = None
    is_linear: bool = False
    is_costly: bool = False
    is_commutative: bool = False
    is_comparison: bool = False
    of_truths: Callable[..., Node] | None = None
    primitives: tuple[str, ...] = ()
    sign: str | None = None


# Groups of similar operations.


def _llvm(method: str, *more: str) -> Callable[..., str]:
    """Return (code, node, args) ↦ code.method(node, *more, args), which writes LLVM code for a node.

    code: `Instructions`. args: list of names of the arguments. more: fixed texts, such as the name of an instruction.
    """
    return lambda code, node, args: getattr(code, method)(node, *more, args)


def _function(name: str, llvm: Callable[..., str], slope: Callable[..., Any] | None = None) -> Operation:
    """Return a function of one real number, called alike in JAX, JavaScript, C and NumPy; costly if it has a slope.

    If `formulas` has a formula of this name, kernels on TPUs compute it by that.
    """
    # NumPy 1 writes "arc" for the inverse functions.
    return Operation(
        value=formulas.numpy_value("arc" + name[1:] if name.startswith("a") else name),
        xla=getattr(lax, name),
        llvm=llvm,
        javascript=f"Math.{name}({{0}})",
        c=f"{name}@({{0}})",
        tpu_formula=getattr(formulas, f"{name}_formula", None),
        slope=slope,
        is_costly=slope is not None,
        primitives=(name,),
    )


def _comparison(name: str, real: str, integer: str, javascript: str, of_truths: Callable[..., Node]) -> Operation:
    """Return a comparison that JAX calls `name`; `real` and `integer` are LLVM's condition codes for such arguments."""
    sign = {"===": "==", "!==": "!="}.get(javascript, javascript)
    return Operation(
        value=getattr(operator, name),
        xla=getattr(lax, name),
        llvm=_llvm("instruction", f"fcmp {real}"),
        llvm_integer=_llvm("instruction", f"icmp {integer}"),
        javascript=f"{{0}} {javascript} {{1}}",
        c=f"{{0}} {sign} {{1}}",
        c_integer=f"{{0}} {sign} {{1}}",
        is_comparison=True,
        is_commutative=name in ("eq", "ne"),
        of_truths=of_truths,
        sign=sign,
    )


def _logic(name: str, value: Callable[[bool, bool], bool], javascript: str, sign: str) -> Operation:
    """Return an operation on two truth values, which LLVM calls `name`."""
    return Operation(
        value=value,
        xla=getattr(lax, f"bitwise_{name}"),
        llvm=_llvm("instruction", name),
        javascript=f"{{0}} {javascript} {{1}}",
        c=f"{{0}} {javascript.replace('!==', '!=')} {{1}}",
        is_commutative=True,
        sign=sign,
    )


# JavaScript: the nearest integer, ties to even.
_EVEN = "const even = (x) => { const r = Math.round(x); return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r; };"
# JavaScript: x to the power of y with C's values for x = ±1.
_POWER = "const power = (x, y) => x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y;"
# JavaScript: the integer part of a number, held within 64 bits, 0 for NaN.
_WHOLE = "const whole = (x) => Math.max(-(2 ** 63), Math.min(2 ** 63, Math.trunc(Number(x)))) || 0;"
# C: the sign of a number, itself if it is zero or NaN.
_C_SIGN = "static real_t op_sign(real_t x) { return x > 0 ? 1 : x < 0 ? -1 : x; }"
# C: the smaller and the larger of two numbers, NaN if one of them is.
_C_MIN = "static real_t op_min(real_t a, real_t b) { return isnan(a) || a < b ? a : b; }"
_C_MAX = "static real_t op_max(real_t a, real_t b) { return isnan(a) || a > b ? a : b; }"
# C: the integer part of a number, held within 64 bits, 0 for NaN.
_C_INTEGER = (
    "static int64_t op_integer(real_t x) { return isnan(x) ? 0 : x >= 0x1p63@ ? INT64_MAX : x <= -0x1p63@ ? INT64_MIN"
    " : (int64_t)x; }"
)

# All scalar operations by name. Arguments are real numbers unless the entry says otherwise.
OPERATIONS: dict[str, Operation] = {
    # Arithmetic.
    "add": Operation(
        value=operator.add,
        xla=lax.add,
        llvm=_llvm("instruction", "fadd"),
        llvm_integer=_llvm("instruction", "add"),
        javascript="{0} + {1}",
        c="{0} + {1}",
        c_integer="(int64_t)((uint64_t){0} + (uint64_t){1})",
        is_linear=True,
        is_commutative=True,
        of_truths=lambda make, a, b: make("or", a, b),
        primitives=("add", "add_any"),
        sign="+",
    ),
    "sub": Operation(
        value=operator.sub,
        xla=lax.sub,
        llvm=_llvm("instruction", "fsub"),
        llvm_integer=_llvm("instruction", "sub"),
        javascript="{0} - {1}",
        c="{0} - {1}",
        c_integer="(int64_t)((uint64_t){0} - (uint64_t){1})",
        is_linear=True,
        primitives=("sub",),
        sign="-",
    ),
    "mul": Operation(
        value=operator.mul,
        xla=lax.mul,
        llvm=_llvm("instruction", "fmul"),
        llvm_integer=_llvm("instruction", "mul"),
        javascript="{0} * {1}",
        c="{0} * {1}",
        c_integer="(int64_t)((uint64_t){0} * (uint64_t){1})",
        is_linear=True,
        is_commutative=True,
        of_truths=lambda make, a, b: make("and", a, b),
        primitives=("mul",),
        sign="*",
    ),
    "div": Operation(
        value=formulas.numpy_value("divide"),
        xla=lax.div,
        llvm=_llvm("instruction", "fdiv"),
        javascript="{0} / {1}",
        c="{0} / {1}",
        slope=formulas.divide_slope,
        is_costly=True,
        primitives=("div",),
        sign="/",
    ),
    "rem": Operation(
        value=formulas.remainder,
        xla=lax.rem,
        llvm=_llvm("remainder"),
        javascript="{0} % {1}",
        c="fmod@({0}, {1})",
        slope=formulas.remainder_slope,
        is_costly=True,
        primitives=("rem",),
    ),
    "neg": Operation(
        value=operator.neg,
        xla=lax.neg,
        llvm=lambda code, node, args: code.let(f"fneg {code.type_of(node)} {args[0]}"),
        llvm_integer=lambda code, node, args: code.instruction(node, "sub", [code.integer(0, node), args[0]]),
        javascript="-{0}",
        c="-{0}",
        c_integer="(int64_t)(0U - (uint64_t){0})",
        is_linear=True,
        primitives=("neg",),
        sign="-",
    ),
    "abs": Operation(
        value=abs,
        xla=lax.abs,
        llvm=_llvm("intrinsic", "fabs"),
        llvm_integer=_llvm("integer_extreme"),
        javascript="Math.abs({0})",
        c="fabs@({0})",
        c_integer="{0} < 0 ? (int64_t)(0U - (uint64_t){0}) : {0}",
        slope=lambda g, y, x: g.make("sign", x),
        primitives=("abs",),
    ),
    "sign": Operation(
        value=formulas.sign,
        xla=lax.sign,
        llvm=_llvm("sign"),
        llvm_integer=_llvm("integer_sign"),
        javascript="Math.sign({0})",
        c="op_sign({0})",
        c_integer="({0} > 0) - ({0} < 0)",
        c_helper=_C_SIGN,
        tpu_formula=formulas.sign_formula,
        primitives=("sign",),
    ),
    "min": Operation(
        value=formulas.minimum,
        xla=lax.min,
        llvm=_llvm("extreme"),
        llvm_integer=_llvm("integer_extreme"),
        javascript="Math.min({0}, {1})",
        c="op_min({0}, {1})",
        c_integer="{0} < {1} ? {0} : {1}",
        c_helper=_C_MIN,
        slope=formulas.extreme_slope("lt"),
        is_commutative=True,
        of_truths=lambda make, a, b: make("and", a, b),
        primitives=("min",),
    ),
    "max": Operation(
        value=formulas.maximum,
        xla=lax.max,
        llvm=_llvm("extreme"),
        llvm_integer=_llvm("integer_extreme"),
        javascript="Math.max({0}, {1})",
        c="op_max({0}, {1})",
        c_integer="{0} > {1} ? {0} : {1}",
        c_helper=_C_MAX,
        slope=formulas.extreme_slope("gt"),
        is_commutative=True,
        of_truths=lambda make, a, b: make("or", a, b),
        primitives=("max",),
    ),
    # Rounding.
    "floor": _function("floor", _llvm("intrinsic", "floor")),
    "ceil": _function("ceil", _llvm("intrinsic", "ceil")),
    "round": Operation(
        value=formulas.numpy_value("rint"),
        xla=partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN),
        llvm=_llvm("intrinsic", "rint"),
        javascript="even({0})",
        javascript_helper=_EVEN,
        c="rint@({0})",
    ),
    "trunc": Operation(
        value=formulas.numpy_value("trunc"),
        xla=jnp.trunc,
        llvm=_llvm("intrinsic", "trunc"),
        javascript="Math.trunc({0})",
        c="trunc@({0})",
        tpu_formula=formulas.trunc_formula,
    ),
    # Powers, roots and elementary functions.
    "pow": Operation(
        value=formulas.numpy_value("power"),
        xla=lax.pow,
        llvm=_llvm("elementary", "pow"),
        javascript="power({0}, {1})",
        javascript_helper=_POWER,
        c="pow@({0}, {1})",
        slope=formulas.power_slope,
        is_costly=True,
    ),
    "sqrt": _function("sqrt", _llvm("intrinsic", "sqrt"), lambda g, y, x: g.make("div", g.constant(0.5), y)),
    "cbrt": _function("cbrt", _llvm("elementary", "cbrt"), lambda g, y, x: g.make("div", y, g.mul(g.constant(3.0), x))),
    "sin": _function("sin", _llvm("sin_cos"), lambda g, y, x: g.make("cos", x)),
    "cos": _function("cos", _llvm("sin_cos"), lambda g, y, x: g.make("neg", g.make("sin", x))),
    "tan": _function("tan", _llvm("sin_cos"), lambda g, y, x: one_plus(g, square(g, y))),
    "asin": _function("asin", _llvm("inverse_sin_cos"), formulas.slope_by_root(one_minus)),
    "acos": _function(
        "acos", _llvm("inverse_sin_cos"), lambda g, y, x: g.make("neg", formulas.slope_by_root(one_minus)(g, y, x))
    ),
    "atan": _function(
        "atan",
        lambda code, node, args: code.elementary(node, "atan2", [args[0], code.real(1.0, node)]),
        lambda g, y, x: inverse(g, one_plus(g, square(g, x))),
    ),
    "atan2": Operation(
        value=formulas.numpy_value("arctan2"),
        xla=lax.atan2,
        llvm=_llvm("elementary", "atan2"),
        javascript="Math.atan2({0}, {1})",
        c="atan2@({0}, {1})",
        slope=formulas.angle_slope,
        is_costly=True,
        primitives=("atan2",),
    ),
    "sinh": _function("sinh", _llvm("elementary", "sinh"), lambda g, y, x: g.make("cosh", x)),
    "cosh": _function("cosh", _llvm("elementary", "cosh"), lambda g, y, x: g.make("sinh", x)),
    "tanh": _function("tanh", _llvm("elementary", "tanh"), lambda g, y, x: one_minus(g, square(g, y))),
    "asinh": _function("asinh", _llvm("elementary", "asinh"), formulas.slope_by_root(one_plus)),
    "acosh": _function(
        "acosh",
        _llvm("elementary", "acosh"),
        lambda g, y, x: inverse(g, g.make("sqrt", g.sub(square(g, x), g.constant(1.0)))),
    ),
    "atanh": _function("atanh", _llvm("elementary", "atanh"), lambda g, y, x: inverse(g, one_minus(g, square(g, x)))),
    "exp": _function("exp", _llvm("elementary", "exp"), lambda g, y, x: y),
    "log": _function("log", _llvm("elementary", "log"), lambda g, y, x: inverse(g, x)),
    "expm1": _function("expm1", _llvm("elementary", "expm1"), lambda g, y, x: one_plus(g, y)),
    "log1p": _function("log1p", _llvm("elementary", "log1p"), lambda g, y, x: inverse(g, one_plus(g, x))),
    "erf": Operation(
        value=math.erf,
        xla=lax.erf,
        c="erf@({0})",
        formula=formulas.erf_formula,
        slope=lambda g, y, x: g.mul(g.constant(2 / math.sqrt(math.pi)), g.make("exp", g.make("neg", square(g, x)))),
        is_costly=True,
        primitives=("erf",),
    ),
    # Comparisons: of real numbers and integers.
    "eq": _comparison("eq", "oeq", "eq", "===", lambda make, a, b: make("not", make("xor", a, b))),
    "ne": _comparison("ne", "une", "ne", "!==", lambda make, a, b: make("xor", a, b)),
    "lt": _comparison("lt", "olt", "slt", "<", lambda make, a, b: make("and", make("not", a), b)),
    "le": _comparison("le", "ole", "sle", "<=", lambda make, a, b: make("or", make("not", a), b)),
    "gt": _comparison("gt", "ogt", "sgt", ">", lambda make, a, b: make("and", a, make("not", b))),
    "ge": _comparison("ge", "oge", "sge", ">=", lambda make, a, b: make("or", a, make("not", b))),
    # Logic: of truth values.
    "and": _logic("and", operator.and_, "&&", "&"),
    "or": _logic("or", operator.or_, "||", "|"),
    "xor": _logic("xor", operator.xor, "!==", "^"),
    "not": Operation(
        value=operator.not_, xla=lax.bitwise_not, llvm=_llvm("negation"), javascript="!{0}", c="!{0}", sign="~"
    ),
    # A truth value, then two values of any kind.
    "select": Operation(
        value=lambda condition, yes, no: yes if condition else no,
        xla=lax.select,
        llvm=_llvm("selection"),
        javascript="{0} ? {1} : {2}",
        c="{0} ? {1} : {2}",
        is_linear=True,
    ),
    # Integers.
    "idiv": Operation(
        value=formulas.integer_divide,
        xla=lax.div,
        llvm_integer=_llvm("integer_division"),
        javascript="{1} === 0 ? -1 : Math.trunc({0} / {1})",
        c_integer="{1} == 0 ? -1 : {1} == -1 ? (int64_t)(0U - (uint64_t){0}) : {0} / {1}",
        sign="//",
    ),
    "irem": Operation(
        value=formulas.integer_remainder,
        xla=lax.rem,
        llvm_integer=_llvm("integer_division"),
        javascript="{1} === 0 ? {0} : {0} % {1}",
        c_integer="{1} == 0 ? {0} : {1} == -1 ? 0 : {0} % {1}",
        sign="%",
    ),
    # Conversions: to a real number from an integer or a truth value, and to an integer from a real number.
    "real": Operation(
        value=float,
        xla=lambda x: x.astype(jnp.result_type(float)),
        llvm=lambda code, node, args: code.conversion(node, "uitofp", args),
        llvm_integer=lambda code, node, args: code.conversion(node, "sitofp", args),
        javascript="Number({0}) + 0",
        c="(real_t){0}",
        c_integer="(real_t){0}",
    ),
    "integer": Operation(
        value=formulas.truncate,
        xla=lambda x: x.astype(jnp.result_type(int)),
        llvm=_llvm("to_integer"),
        javascript="whole({0})",
        javascript_helper=_WHOLE,
        c="op_integer({0})",
        c_helper=_C_INTEGER,
    ),
}

# Operations whose arguments may be exchanged.
COMMUTATIVE = frozenset(name for name, operation in OPERATIONS.items() if operation.is_commutative)
# Operations that make truth values of numbers.
COMPARISONS = frozenset(name for name, operation in OPERATIONS.items() if operation.is_comparison)
# Operations that are also defined for truth values.
OF_TRUTHS: dict[str, Callable[..., Node]] = {
    name: operation.of_truths for name, operation in OPERATIONS.items() if operation.of_truths is not None
}
