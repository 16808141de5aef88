"""Functions that consist of exponentials and logarithms, in LLVM's IR: for scalars and vectors, without branches.

Errors are given in units in the last place, for float64 and float32. Zeros keep their sign, NaN stays NaN, and infinities
give the limit. The tests compare all of them with long double.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from jaxmbs.programs.backends.llvm.vector_math import (
    bits_type,
    constant,
    exp,
    fma,
    format_of,
    horner,
    intrinsic,
    log,
    parts_of_log,
    powers_of_two,
)

# Infinity, as a result or a limit of the functions.
INF = float("inf")
# Not a number, the result of the functions outside their domain.
NAN = float("nan")


def expm1(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return exp(x) − 1 within 2.1 units.

    x = n ln 2 + r, and exp(x) − 1 = 2ᵇ (2ᵃ (exp(r) − 1) + 2ᵃ − 2⁻ᵇ) with a + b = n: nothing cancels or overflows early.
    """
    kind, form = x.type, format_of(x.type)
    r, half, rest = powers_of_two(builder, x)
    start = builder.fmul(r, r)
    small = fma(builder, start, horner(builder, r, form.exp), r)
    bits = builder.sub(constant(bits_type(kind), 2 * form.bias), rest)
    factor, last, inverse = (_two_to(builder, kind, e) for e in (half, rest, bits))
    value = builder.fmul(fma(builder, factor, small, builder.fsub(factor, inverse)), last)
    return _unless_zero(builder, x, value)


def log1p(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return log(1 + x) within 2 units: log(u) + c/u with c the rounding error of u = 1 + x. −∞ at −1, NaN below."""
    kind, form = x.type, format_of(x.type)
    one = constant(kind, 1.0)
    u = builder.fadd(one, x)
    above = builder.fsub(one, builder.fsub(u, x))
    below = builder.fsub(x, builder.fsub(u, one))
    lost = builder.select(builder.fcmp_ordered(">", x, one), above, below)
    share = builder.fdiv(lost, u)
    # Nothing to add where u is zero, or x so large that 1 is lost in it.
    known = builder.and_(
        builder.fcmp_ordered(">", u, constant(kind, 0.0)),
        builder.fcmp_ordered("<", x, constant(kind, 2.0 ** (form.mantissa + 2))),
    )
    share = builder.select(known, share, constant(kind, 0.0))
    return _unless_zero(builder, x, builder.fadd(log(builder, u), share))


def sinh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the hyperbolic sine within 3 units: with e = exp|x| − 1 it is (e + e/(e + 1))/2."""
    size = intrinsic(builder, "fabs", x)
    e = expm1(builder, size)
    one, half = constant(x.type, 1.0), constant(x.type, 0.5)
    value = builder.fmul(half, builder.fadd(e, builder.fdiv(e, builder.fadd(e, one))))
    return intrinsic(builder, "copysign", _half_exp_if_large(builder, size, value), x)


def cosh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the hyperbolic cosine within 3 units."""
    size, half = intrinsic(builder, "fabs", x), constant(x.type, 0.5)
    e = exp(builder, size)
    return _half_exp_if_large(builder, size, builder.fadd(builder.fmul(half, e), builder.fdiv(half, e)))


def tanh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the hyperbolic tangent within 3 units: with e = exp(−2|x|) − 1 it is −e/(e + 2)."""
    size = intrinsic(builder, "fabs", x)
    e = expm1(builder, builder.fmul(constant(x.type, -2.0), size))
    value = builder.fdiv(e, builder.fadd(e, constant(x.type, 2.0)))
    return intrinsic(builder, "copysign", value, x)


def asinh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the inverse hyperbolic sine within 3 units: log1p(a + a²/(1 + √(1 + a²))) with a = |x|."""
    a, one = intrinsic(builder, "fabs", x), constant(x.type, 1.0)
    square = builder.fmul(a, a)
    root = intrinsic(builder, "sqrt", builder.fadd(one, square))
    value = log1p(builder, builder.fadd(a, builder.fdiv(square, builder.fadd(one, root))))
    return intrinsic(builder, "copysign", _log_of_double_if_large(builder, a, value), x)


def acosh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the inverse hyperbolic cosine within 3 units: log1p(t + √(2t + t²)) with t = x − 1. NaN below 1."""
    one = constant(x.type, 1.0)
    t = builder.fsub(x, one)
    root = intrinsic(builder, "sqrt", fma(builder, t, t, builder.fadd(t, t)))
    value = _log_of_double_if_large(builder, x, log1p(builder, builder.fadd(t, root)))
    return builder.select(builder.fcmp_ordered(">=", x, one), value, constant(x.type, NAN))


def atanh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the inverse hyperbolic tangent within 3 units: log1p(2a + 2a·a/(1 − a))/2, a = |x|. NaN beyond ±1."""
    a, one = intrinsic(builder, "fabs", x), constant(x.type, 1.0)
    double = builder.fadd(a, a)
    more = builder.fdiv(builder.fmul(double, a), builder.fsub(one, a))
    value = builder.fmul(constant(x.type, 0.5), log1p(builder, builder.fadd(double, more)))
    return intrinsic(builder, "copysign", value, x)


def cbrt(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the cube root within 2 units: exp(log|x|/3) and a Newton step. Small numbers are scaled up by a cube."""
    kind, form = x.type, format_of(x.type)
    size = intrinsic(builder, "fabs", x)
    small = builder.fcmp_ordered("<", size, constant(kind, 2.0 ** (2 * form.mantissa - form.bias)))
    lift = 3 * form.mantissa
    a = builder.select(small, builder.fmul(size, constant(kind, 2.0**lift)), size)
    y = exp(builder, builder.fmul(log(builder, a), constant(kind, 1 / 3)))
    square = builder.fmul(y, y)
    gap = fma(builder, square, y, builder.fneg(a))
    y = builder.fsub(y, builder.fdiv(gap, builder.fmul(constant(kind, 3.0), square)))
    y = builder.select(small, builder.fmul(y, constant(kind, 2.0 ** (-lift // 3))), y)
    ordinary = builder.and_(
        builder.fcmp_ordered(">", size, constant(kind, 0.0)), builder.fcmp_ordered("<", size, constant(kind, INF))
    )
    return builder.select(ordinary, intrinsic(builder, "copysign", y, x), x)


def pow(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x to the power of y, within 2 units and an eighth of a unit for each unit of |y log x|.

    exp(y log|x|), with the logarithm and the product in two parts each. Sign and special values are C's: 1 for y = 0 and
    for x = 1, even where the other is NaN; NaN where x is negative and y is not an integer.
    """
    kind = x.type
    zero, one, infinity = (constant(kind, value) for value in (0.0, 1.0, INF))
    size = intrinsic(builder, "fabs", x)
    high, low = parts_of_log(builder, size)
    product = builder.fmul(y, high)
    rest = fma(builder, y, low, fma(builder, y, high, builder.fneg(product)))
    value = exp(builder, product)
    # If one part is infinite there is no rest; NaN is not less than infinity either.
    finite: Callable[[ir.Value], ir.Value] = lambda z: builder.fcmp_ordered(
        "<", intrinsic(builder, "fabs", z), infinity
    )
    precise = builder.and_(builder.and_(finite(rest), finite(value)), finite(product))
    value = builder.select(precise, fma(builder, value, builder.select(precise, rest, zero), value), value)

    whole = builder.fcmp_ordered("==", intrinsic(builder, "floor", y), y)
    half = builder.fmul(y, constant(kind, 0.5))
    odd = builder.and_(whole, builder.fcmp_ordered("!=", intrinsic(builder, "floor", half), half))
    negative = builder.fcmp_ordered("<", intrinsic(builder, "copysign", one, x), zero)
    value = builder.select(builder.and_(negative, odd), builder.fneg(value), value)
    below = builder.and_(builder.fcmp_ordered("<", x, zero), finite(x))
    value = builder.select(builder.and_(below, builder.not_(whole)), constant(kind, NAN), value)
    # ±1 to the power of ±infinity.
    both = builder.and_(
        builder.fcmp_ordered("==", size, one), builder.fcmp_ordered("==", intrinsic(builder, "fabs", y), infinity)
    )
    is_one = builder.or_(builder.fcmp_ordered("==", x, one), builder.fcmp_ordered("==", y, zero))
    return builder.select(builder.or_(is_one, both), one, value)


def _two_to(builder: ir.IRBuilder, kind: ir.Type, exponent: ir.Value) -> ir.Value:
    """Return 2 to the power of n, for the biased exponent n + bias."""
    return builder.bitcast(builder.shl(exponent, constant(bits_type(kind), format_of(kind).mantissa)), kind)


def _unless_zero(builder: ir.IRBuilder, x: ir.Value, value: ir.Value) -> ir.Value:
    """Return `value` where x is not zero; x itself, with its sign, where it is zero."""
    return builder.select(builder.fcmp_ordered("==", x, constant(x.type, 0.0)), x, value)


def _half_exp_if_large(builder: ir.IRBuilder, size: ir.Value, value: ir.Value) -> ir.Value:
    """Return exp(size)/2 where exp(−size) is negligible, without early overflow; else `value`."""
    root = exp(builder, builder.fmul(constant(size.type, 0.5), size))
    limit = constant(size.type, 0.35 * (format_of(size.type).mantissa + 4))
    large = builder.fmul(builder.fmul(constant(size.type, 0.5), root), root)
    return builder.select(builder.fcmp_ordered(">", size, limit), large, value)


def _log_of_double_if_large(builder: ir.IRBuilder, a: ir.Value, value: ir.Value) -> ir.Value:
    """Return log(2a) where a is so large that the other terms are negligible; else `value`."""
    form = format_of(a.type)
    large = builder.fadd(log(builder, a), constant(a.type, form.ln2[0]))
    return builder.select(builder.fcmp_ordered(">", a, constant(a.type, 2.0 ** (form.mantissa // 2 + 2))), large, value)
