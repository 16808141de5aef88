"""What operations make of constants."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def _divide(a, b):
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def _sign(a):
    return a if a != a or a == 0 else math.copysign(1.0, a)


def _remainder(a, b):
    with np.errstate(all="ignore"):
        return float(np.fmod(a, b))


def _numpy(name) -> Callable:
    function = getattr(np, name)

    def fold(*args):
        with np.errstate(all="ignore"):
            return float(function(*(np.float64(a) for a in args)))

    return fold


def _integer_divide(a, b):
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1


def _integer_remainder(a, b):
    return a - b * _integer_divide(a, b) if b else a


# How constants are folded. Real operations not listed here have the NumPy function of the same name.
FOLD: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": _sign,
    "rem": _remainder,
    "floor": _numpy("floor"),
    "ceil": _numpy("ceil"),
    "round": _numpy("rint"),
    "trunc": _numpy("trunc"),
    "sqrt": _numpy("sqrt"),
    "min": lambda a, b: a if a != a else b if b != b else min(a, b),
    "max": lambda a, b: a if a != a else b if b != b else max(a, b),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": lambda a: not a,
    "real": float,
    "idiv": _integer_divide,
    "irem": _integer_remainder,
    **{
        name: _numpy(numpy_name)
        for name, numpy_name in {
            "sin": "sin",
            "cos": "cos",
            "tan": "tan",
            "asin": "arcsin",
            "acos": "arccos",
            "atan": "arctan",
            "atan2": "arctan2",
            "sinh": "sinh",
            "cosh": "cosh",
            "tanh": "tanh",
            "asinh": "arcsinh",
            "acosh": "arccosh",
            "atanh": "arctanh",
            "exp": "exp",
            "log": "log",
            "expm1": "expm1",
            "log1p": "log1p",
            "cbrt": "cbrt",
            "pow": "power",
        }.items()
    },
}

# Comparisons of whole arrays of constants.
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

# Comparisons of truth values, false before true, by logic alone.
TRUTHS: dict[str, Callable] = {
    "lt": lambda make, a, b: make("and", make("not", a), b),
    "gt": lambda make, a, b: make("and", a, make("not", b)),
    "le": lambda make, a, b: make("or", make("not", a), b),
    "ge": lambda make, a, b: make("or", a, make("not", b)),
    "eq": lambda make, a, b: make("not", make("xor", a, b)),
    "ne": lambda make, a, b: make("xor", a, b),
    "min": lambda make, a, b: make("and", a, b),
    "max": lambda make, a, b: make("or", a, b),
    "mul": lambda make, a, b: make("and", a, b),
    "add": lambda make, a, b: make("or", a, b),
}
