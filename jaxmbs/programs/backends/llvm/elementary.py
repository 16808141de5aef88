"""Modules with the elementary functions that a program calls."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from llvmlite import binding, ir
from numpy.typing import DTypeLike

from jaxmbs.programs.backends.llvm import exponentials, vector_math

# Elementary functions by name: (builder, arguments) ↦ result, a pair for sine and cosine.
FUNCTIONS = {
    **{f.__name__: f for f in (vector_math.sin_cos, vector_math.exp, vector_math.log, vector_math.atan2)},
    **{f.__name__: f for f in (exponentials.expm1, exponentials.log1p, exponentials.cbrt, exponentials.pow)},
    **{f.__name__: f for f in (exponentials.sinh, exponentials.cosh, exponentials.tanh)},
    **{f.__name__: f for f in (exponentials.asinh, exponentials.acosh, exponentials.atanh)},
}


def declarations(functions: Iterable[tuple[str, int]], real: str) -> list[str]:
    """Return LLVM lines that declare functions.

    Args:
        functions: pairs of a name and a number of lanes.
        real: LLVM's type of real numbers.
    """
    lines = []
    for name, lanes in sorted(functions):
        kind = real if lanes == 1 else f"<{lanes} x {real}>"
        result = f"{{{kind}, {kind}}}" if name == "sin_cos" else kind
        lines.append(f"declare {result} @{name}.{lanes}({', '.join([kind] * _arity(name))})")
    return lines


def link(text: str, functions: Iterable[tuple[str, int]], dtype: DTypeLike, attributes: str = "") -> binding.ModuleRef:
    """Return the LLVM module of a text, as llvmlite's object, with the functions linked in that `definitions` defines."""
    module = binding.parse_assembly(text)
    if functions:
        module.link_in(binding.parse_assembly(definitions(functions, dtype, attributes)))
    return module


def definitions(functions: Iterable[tuple[str, int]], dtype: DTypeLike, attributes: str = "") -> str:
    """Return an LLVM module that defines these functions, each to be inlined where it is called.

    Args:
        functions: pairs of a name and a number of lanes.
        dtype: type of real numbers.
        attributes: those of the callers' target, without which functions would not be inlined.
    """
    module = ir.Module("elementary")
    for name, lanes in sorted(functions):
        scalar = ir.FloatType() if np.dtype(dtype) == np.float32 else ir.DoubleType()
        kind = scalar if lanes == 1 else ir.VectorType(scalar, lanes)
        result = ir.LiteralStructType([kind, kind]) if name == "sin_cos" else kind
        count = _arity(name)
        function = ir.Function(module, ir.FunctionType(result, [kind] * count), f"{name}.{lanes}")
        function.linkage = "linkonce_odr"
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        value = FUNCTIONS[name](builder, *function.args)
        if name == "sin_cos":
            pair = builder.insert_value(ir.Constant(result, ir.Undefined), value[0], 0)
            value = builder.insert_value(pair, value[1], 1)
        builder.ret(value)
    return str(module).replace("alwaysinline", f"alwaysinline {attributes}")


def _arity(name: str) -> int:
    """Return the number of arguments of a function."""
    return 2 if name in ("atan2", "pow") else 1
