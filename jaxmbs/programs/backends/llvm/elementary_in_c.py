"""The package's own elementary functions in C99, with which C gives the same bits as programs on the CPU.

The functions are written once, as LLVM's instructions in `llvm.elementary`. They have no branches, so that each instruction
becomes a line of C.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

import numpy as np

from jaxmbs.programs.backends.c import number_in_c
from jaxmbs.programs.backends.llvm.elementary import FUNCTIONS, definitions
from jaxmbs.programs.graph.nodes import REAL

# Operation ↦ its expression by own functions, for those whose bits may differ between math.h and the CPU backend. "@"
# stands for "f" in single precision, {pair} for sine and cosine of the argument.
EXPRESSIONS = {
    **{name: f"own_{name}({{0}})" for name in FUNCTIONS if name not in ("sin_cos", "atan2", "pow")},
    **{name: f"own_{name}({{0}}, {{1}})" for name in ("atan2", "pow")},
    "sin": "{pair}.sin",
    "cos": "{pair}.cos",
    "tan": "{pair}.sin / {pair}.cos",
    "asin": "own_atan2({0}, sqrt@((1 - {0}) * (1 + {0})))",
    "acos": "own_atan2(sqrt@((1 - {0}) * (1 + {0})), {0})",
    "atan": "own_atan2({0}, 1)",
    "rem": "own_rem({0}, {1})",
}
# The remainder x − y·trunc(x/y), corrected where the quotient was rounded across an integer.
_REMAINDER = """static inline real_t own_rem(real_t x, real_t y) {
    const real_t raw = fma@(-trunc@(x / y), y, x);
    const real_t low = raw * x < 0 ? raw + copysign@(y, x) : raw;
    const real_t rest = fabs@(low) >= fabs@(y) ? low - copysign@(y, x) : low;
    return isinf(y) && isfinite(x) ? x : rest;
}
"""
# A number and its bits, and the pair of sine and cosine.
_TYPES = """typedef union { real_t number; bits_t bits; } own_word;
static inline bits_t own_bits(real_t x) { own_word w; w.number = x; return w.bits; }
static inline real_t own_number(bits_t x) { own_word w; w.bits = x; return w.number; }
typedef struct { real_t sin, cos; } own_pair;
"""
# Instructions of LLVM ↦ expressions of their arguments in C.
_INSTRUCTIONS = {
    **{"fadd": "{} + {}", "fsub": "{} - {}", "fmul": "{} * {}", "fdiv": "{} / {}", "fneg": "-{}"},
    **{"add": "{} + {}", "sub": "{} - {}"},
    **{"shl": "{} << {}", "lshr": "{} >> {}", "select": "{} ? {} : {}"},
    **{"fcmp oeq": "{} == {}", "fcmp oge": "{} >= {}", "fcmp ogt": "{} > {}", "fcmp olt": "{} < {}"},
    # True for NaN: "ugt", but not "one".
    **{"fcmp one": "islessgreater({}, {})", "fcmp ugt": "!({} <= {})", "icmp ne": "{} != {}"},
    **{"icmp slt": "(signed_t){} < (signed_t){}"},
    **{"and i1": "{} && {}", "or i1": "{} || {}", "xor i1": "{} != {}"},
    **{"and i32": "{} & {}", "or i32": "{} | {}", "xor i32": "{} ^ {}"},
    **{"and i64": "{} & {}", "or i64": "{} | {}", "xor i64": "{} ^ {}"},
    **{"bitcast double": "own_bits({})", "bitcast float": "own_bits({})"},
    **{"bitcast i64": "own_number({})", "bitcast i32": "own_number({})"},
}
# Types of LLVM ↦ types of C.
_C_TYPES = {"double": "real_t", "float": "real_t", "i1": "bool", "i32": "bits_t", "i64": "bits_t"}
# An argument of an instruction: a variable, the bits of a real number, or an integer.
_ARGUMENT = re.compile(r'%"\.(\d+)"|0x([0-9a-f]+)|(?<![\w.])(-?\d+)(?![\w.])')


@lru_cache
def definition(name: str, suffix: str) -> str:
    """Return C code: the types that all functions share ("types"), the remainder ("rem"), or a function of `FUNCTIONS`.

    Args:
        name: name of the function.
        suffix: "f" for single precision, else "".
    """
    real, bits, signed = ("float", "uint32_t", "int32_t") if suffix else ("double", "uint64_t", "int64_t")
    text = {"types": _TYPES, "rem": _REMAINDER}.get(name) or _translation(name, suffix)
    for word, replacement in (("@", suffix), ("real_t", real), ("bits_t", bits), ("signed_t", signed)):
        text = text.replace(word, replacement)
    return text


def _translation(name: str, suffix: str) -> str:
    """Return the definition of a function of `FUNCTIONS`."""
    code = definitions([(name, 1)], np.float32 if suffix else np.float64)
    head, *lines = code[code.index("define") : code.rindex("\n}")].splitlines()
    params = ", ".join(f"real_t v{number}" for number in re.findall(r'%"\.(\d+)"', head))
    result = "own_pair" if name == "sin_cos" else "real_t"
    body = [_line(line.strip(), suffix) for line in lines if " = " in line or " ret " in line]
    return f"static inline {result} own_{name}({params}) {{\n" + "".join(f"    {x}\n" for x in body) + "}\n"


def _line(line: str, suffix: str) -> str:
    """Return an instruction of LLVM as a line of C."""
    left, _, right = line.rpartition(" = ")
    arguments = [_argument(found, suffix) for found in _ARGUMENT.finditer(right)]
    words = right.split()
    if words[0] == "ret":
        return f"return {arguments[0]};"
    variable = "".join(_argument(found, suffix) for found in _ARGUMENT.finditer(left))
    if words[0] == "insertvalue":
        # The sine is inserted into an undefined pair, the cosine into that.
        values = ", ".join([arguments[0], "0"] if len(arguments) == 2 else [f"{arguments[0]}.sin", arguments[1]])
        return f"const own_pair {variable} = {{{values}}};"
    kind = _C_TYPES[re.findall(r"\b(double|float|i1|i32|i64)\b", right)[-1]]
    if words[0] == "call":
        expression = f"{right.split('.')[1]}{suffix}({', '.join(arguments)})"
    else:
        form = _INSTRUCTIONS.get(words[0]) or _INSTRUCTIONS[f"{words[0]} {words[1]}"]
        expression = form.format(*arguments)
    return f"const {'bool' if words[0].endswith('cmp') else kind} {variable} = {expression};"


def _argument(found: re.Match[str], suffix: str) -> str:
    """Return an argument of an instruction in C."""
    variable, bits, integer = found.groups()
    if variable:
        return f"v{variable}"
    if integer:
        # In operations on truth values −1 stands for true; no function uses the integer −1.
        return "true" if integer == "-1" else f"{integer}U{'' if suffix else 'LL'}"
    (number,) = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))
    return number_in_c(number, REAL, suffix)
