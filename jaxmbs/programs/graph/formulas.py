"""Formulas of the table of operations: values of constants, slopes as nodes, and functions by other operations.

A slope is called with the graph g, the result y of the operation and its arguments. It returns the derivative by the
argument or, if there are several, a tuple of those by each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxmbs.programs.graph.graph import Graph
    from jaxmbs.programs.graph.nodes import Node

# Values for Python numbers, by which constants are folded.


def numpy_value(name: str) -> Callable[..., float]:
    """Return NumPy's function with this name, for Python numbers and without warnings."""
    function = getattr(np, name)

    def fold(*args: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*(np.float64(a) for a in args)))

    return fold


def sign(a: float) -> float:
    """Return the sign of a number; zeros and NaN unchanged."""
    return a if a != a or a == 0 else math.copysign(1.0, a)


def remainder(a: float, b: float) -> float:
    """Return the remainder of a / b with the sign of a."""
    with np.errstate(all="ignore"):
        return float(np.fmod(a, b))


def minimum(a: float, b: float) -> float:
    """Return the smaller number, NaN if either is NaN."""
    return a if a != a else b if b != b else min(a, b)


def maximum(a: float, b: float) -> float:
    """Return the larger number, NaN if either is NaN."""
    return a if a != a else b if b != b else max(a, b)


def integer_divide(a: int, b: int) -> int:
    """Return the quotient rounded towards zero, −1 for b = 0."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1


def integer_remainder(a: int, b: int) -> int:
    """Return the remainder with the sign of a, a for b = 0."""
    return a - b * integer_divide(a, b) if b else a


def truncate(value: float) -> int:
    """Return a real number rounded towards zero, held within 64 bits, 0 for NaN."""
    largest = 2**63 - 1
    value = value if value == value else 0
    return math.trunc(value) if abs(value) < largest else int(math.copysign(1, value)) * largest


# Slopes.


def inverse(g: Graph, x: Node) -> Node:
    """Return 1 / x, as a node of the graph."""
    return g.make("div", g.constant(1.0), x)


def square(g: Graph, x: Node) -> Node:
    """Return x², as a node of the graph."""
    return g.mul(x, x)


def one_plus(g: Graph, x: Node) -> Node:
    """Return 1 + x, as a node of the graph."""
    return g.add(g.constant(1.0), x)


def one_minus(g: Graph, x: Node) -> Node:
    """Return 1 − x, as a node of the graph."""
    return g.sub(g.constant(1.0), x)


def slope_by_root(inside: Callable[[Graph, Node], Node]) -> Callable[[Graph, Node, Node], Node]:
    """Return the slope (g, y, x) ↦ 1 / √inside(g, x²)."""
    return lambda g, y, x: inverse(g, g.make("sqrt", inside(g, square(g, x))))


def divide_slope(g: Graph, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Return the derivatives of y = a / b by a and b."""
    by_a = y if a.is_constant and a.value == 1 else inverse(g, b)
    return by_a, g.make("neg", g.mul(y, by_a))


def extreme_slope(wins: str) -> Callable[[Graph, Node, Node, Node], tuple[Node, Node]]:
    """Return the slope of min or max: 1 by the argument that is taken, ½ by both where they are equal.

    Args:
        wins: the comparison of the two arguments, "lt" or "gt", by which the first one is taken.
    """

    def slope(g: Graph, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        half, one, zero = g.constant(0.5), g.constant(1.0), g.constant(0.0)
        taken, same = g.make(wins, a, b), g.make("eq", a, b)
        by_a = g.select(taken, one, g.select(same, half, zero))
        return by_a, g.sub(one, by_a)

    return slope


def power_slope(g: Graph, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Return the derivatives of y = aᵇ by a and b."""
    one, zero = g.constant(1.0), g.constant(0.0)
    by_a = g.mul(b, g.make("pow", a, g.sub(b, one)))
    # 0ᵇ does not change with b > 0.
    positive = g.make("gt", a, zero)
    return by_a, g.select(positive, g.mul(g.make("log", g.select(positive, a, one)), y), zero)


def angle_slope(g: Graph, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Return the derivatives of atan2(a, b) by a and b."""
    factor = inverse(g, g.add(square(g, a), square(g, b)))
    return g.mul(b, factor), g.make("neg", g.mul(a, factor))


def remainder_slope(g: Graph, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Return the derivatives of the remainder of a / b by a and b."""
    quotient = g.make("div", g.sub(a, y), b)
    return g.constant(1.0), g.make("neg", g.make("round", quotient))


# erf.

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


def _horner(g: Graph, x: Node, coefficients: Sequence[float]) -> Node:
    """Return a polynomial in x, with its coefficients from the constant term up."""
    total = g.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = g.add(g.mul(total, x), g.constant(coefficient))
    return total


def erf_formula(g: Graph, x: Node) -> Node:
    """Return erf(x) within 3 units in the last place; from 6 on it is 1 to rounding."""
    size = g.make("min", g.make("abs", x), g.constant(6.0))
    squared = square(g, size)
    inner = g.mul(size, _horner(g, squared, _ERF_INNER))
    two = g.constant(2.0)
    place = g.make("div", g.sub(size, two), g.add(size, two))
    outer = one_minus(g, g.mul(g.make("exp", g.make("neg", squared)), _horner(g, place, _ERF_OUTER)))
    value = g.select(g.make("lt", size, g.constant(1.0)), inner, outer)
    return g.select(g.make("lt", x, g.constant(0.0)), g.make("neg", value), value)


# Sine and cosine in single precision, for platforms without fused multiply-add.

# Parts of π/2 of 8, 11 and 24 bits: whole numbers below 2¹³ times the first two are exact in single precision.
_HALF_PI_SINGLE = (1.5703125, 0.0004837512969970703, 7.549790126404332e-08)
# Coefficients of (sin r / r − 1) / z in z = r², near-minimax for |r| ≤ π/4.
_SIN_SINGLE = (-0.16666653752326965, 0.008332095108926296, -0.0001950554142240435)
# Coefficients of (cos r − 1 + z/2) / z² in z = r², near-minimax for |r| ≤ π/4.
_COS_SINGLE = (0.04166664183139801, -0.0013887130189687014, 2.4412085622316226e-05)


def _turned(g: Graph, x: Node, quarters: float) -> Node:
    """Return sin(x + quarters·π/2) in single precision, for 0 or 1 quarter; its error is below 1e-7 for |x| < 10⁴."""
    n = g.make("round", g.mul(g.constant(2 / math.pi), x))
    r = x
    for part in _HALF_PI_SINGLE:
        r = g.sub(r, g.mul(n, g.constant(part)))
    z = square(g, r)
    sine = g.add(r, g.mul(g.mul(r, z), _horner(g, z, _SIN_SINGLE)))
    half = g.mul(g.constant(0.5), z)
    cosine = g.add(one_minus(g, half), g.mul(square(g, z), _horner(g, z, _COS_SINGLE)))
    # The quadrant is n modulo 4: the cosine if it is odd, with the other sign in 2 and 3.
    n = g.add(n, g.constant(quarters))
    half_turns = g.make("floor", g.mul(g.constant(0.5), n))
    is_odd = g.make("gt", g.sub(n, g.mul(g.constant(2.0), half_turns)), g.constant(0.5))
    rest = g.sub(half_turns, g.mul(g.constant(2.0), g.make("floor", g.mul(g.constant(0.5), half_turns))))
    value = g.select(is_odd, cosine, sine)
    return g.select(g.make("gt", rest, g.constant(0.5)), g.make("neg", value), value)


def sin_formula(g: Graph, x: Node) -> Node:
    """Return sin(x) in single precision."""
    return _turned(g, x, 0.0)


def cos_formula(g: Graph, x: Node) -> Node:
    """Return cos(x) in single precision."""
    return _turned(g, x, 1.0)


def tan_formula(g: Graph, x: Node) -> Node:
    """Return tan(x) in single precision."""
    return g.make("div", sin_formula(g, x), cos_formula(g, x))


# Other functions.


def sign_formula(g: Graph, x: Node) -> Node:
    """Return the sign of a real number or an integer x; zeros and NaN unchanged."""
    zero, one = (g.constant(0), g.constant(1)) if x.is_integer else (g.constant(0.0), g.constant(1.0))
    return g.select(g.make("gt", x, zero), one, g.select(g.make("lt", x, zero), g.make("neg", one), x))


def trunc_formula(g: Graph, x: Node) -> Node:
    """Return x rounded towards zero."""
    return g.select(g.make("lt", x, g.constant(0.0)), g.make("ceil", x), g.make("floor", x))


def _odd(g: Graph, x: Node, of_size: Callable[[Node], Node]) -> Node:
    """Return an odd function of x from its values `of_size` at |x|."""
    value = of_size(g.make("abs", x))
    return g.select(g.make("lt", x, g.constant(0.0)), g.make("neg", value), value)


def _beside_arc(g: Graph, x: Node) -> Node:
    """Return √(1 − x²), exact near ±1."""
    return g.make("sqrt", g.mul(one_minus(g, x), one_plus(g, x)))


def asin_formula(g: Graph, x: Node) -> Node:
    """Return asin(x) by atan2."""
    return g.make("atan2", x, _beside_arc(g, x))


def acos_formula(g: Graph, x: Node) -> Node:
    """Return acos(x) by atan2."""
    return g.make("atan2", _beside_arc(g, x), x)


def atan_formula(g: Graph, x: Node) -> Node:
    """Return atan(x) by atan2."""
    return g.make("atan2", x, g.constant(1.0))


def expm1_formula(g: Graph, x: Node) -> Node:
    """Return exp(x) − 1 = tanh(x/2) (exp(x) + 1)."""
    return g.mul(g.make("tanh", g.mul(g.constant(0.5), x)), one_plus(g, g.make("exp", x)))


def sinh_formula(g: Graph, x: Node) -> Node:
    """Return sinh(x) = (e + 1 − 1 / (e + 1)) / 2 with e = exp(x) − 1, of |x|, for e > 1; e (1 + 1 / (e + 1)) / 2 below."""

    def of_size(size: Node) -> Node:
        """Return sinh of a number that is not negative."""
        e = expm1_formula(g, size)
        rest = inverse(g, one_plus(g, e))
        large, small = g.add(e, one_minus(g, rest)), g.mul(e, one_plus(g, rest))
        return g.mul(g.constant(0.5), g.select(g.make("gt", e, g.constant(1.0)), large, small))

    return _odd(g, x, of_size)


def cosh_formula(g: Graph, x: Node) -> Node:
    """Return cosh(x) = (exp(x) + 1 / exp(x)) / 2."""
    e = g.make("exp", g.make("abs", x))
    return g.mul(g.constant(0.5), g.add(e, inverse(g, e)))


def asinh_formula(g: Graph, x: Node) -> Node:
    """Return asinh(x) = log(1 + x + x² / (1 + √(1 + x²))), of |x|; log(2 x) where x² is beyond 10¹⁶."""

    def of_size(size: Node) -> Node:
        """Return asinh of a number that is not negative."""
        far = g.make("gt", size, g.constant(1e8))
        near = g.select(far, g.constant(1.0), size)
        root = g.make("sqrt", one_plus(g, square(g, near)))
        by_log1p = g.make("log1p", g.add(near, g.make("div", square(g, near), one_plus(g, root))))
        return g.select(far, g.add(g.make("log", size), g.constant(math.log(2))), by_log1p)

    return _odd(g, x, of_size)


def acosh_formula(g: Graph, x: Node) -> Node:
    """Return acosh(x) = log(1 + s + √(s (x + 1))) with s = x − 1; log(2 x) where x is beyond 10⁸."""
    far = g.make("gt", x, g.constant(1e8))
    near = g.select(far, g.constant(1.0), x)
    beyond = g.sub(near, g.constant(1.0))
    by_log1p = g.make("log1p", g.add(beyond, g.make("sqrt", g.mul(beyond, one_plus(g, near)))))
    return g.select(far, g.add(g.make("log", x), g.constant(math.log(2))), by_log1p)


def atanh_formula(g: Graph, x: Node) -> Node:
    """Return atanh(x) = log(1 + 2 x / (1 − x)) / 2, of |x|."""
    half, two = g.constant(0.5), g.constant(2.0)
    return _odd(g, x, lambda size: g.mul(half, g.make("log1p", g.make("div", g.mul(two, size), one_minus(g, size)))))


def cbrt_formula(g: Graph, x: Node) -> Node:
    """Return the cube root y of x by logarithm and exponential, and one Newton step of y³ = x."""

    def of_size(size: Node) -> Node:
        """Return the cube root of a number that is not negative."""
        regular = g.make("and", g.make("gt", size, g.constant(0.0)), g.make("lt", size, g.constant(math.inf)))
        inner = g.select(regular, size, g.constant(1.0))
        y = g.make("exp", g.mul(g.constant(1 / 3), g.make("log", inner)))
        better = g.sub(y, g.mul(g.constant(1 / 3), g.sub(y, g.make("div", inner, square(g, y)))))
        return g.select(regular, better, size)

    return _odd(g, x, of_size)
