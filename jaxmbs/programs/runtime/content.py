"""Digests of functions of arrays: equal for jaxprs that compute the same in the same way.

Derivative rules, which are Python functions, count as well: those of packages whose versions are part of every key by
their name and closure, others by their code.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jaxmbs.programs.runtime import jax_compat

# Packages whose functions are identified by their names, because versions of these packages are part of every key.
KNOWN_PACKAGES = frozenset({"jax", "jaxlib", "jaxmbs", "equinox", "numpy", "builtins", "functools", "operator", "math"})
# Names of JAX's classes whose `repr` differs for different values, so that it can stand for them.
SHOWN_IN_FULL = frozenset(
    {"PyTreeDef", "Mesh", "AbstractMesh", "NamedSharding", "SingleDeviceSharding", "UnspecifiedValue", "PartitionSpec"}
    | {"FTTuple", "FTDict", "FTPyTree", "FTSingleton", "FTStatic"}
)
# Upper limit on the nesting of functions that derivative rules close over; deeper ones have no digest.
MAX_DEPTH = 40


class NoDigest(ValueError):
    """Raised if a value, or something in it, has no digest, so that nothing made from it is kept on disk."""


def digest(closed: core.ClosedJaxpr) -> bytes | None:
    """Return the digest of a closed jaxpr with its derivative rules; None if something in it has no digest."""
    try:
        return _Content().of(closed)
    except NoDigest:
        return None


def digest_of_values(closed: core.ClosedJaxpr, of_function: Callable[[Any], Any]) -> bytes:
    """Return the digest of a closed jaxpr; values without a digest count by their name.

    Args:
        closed: the jaxpr.
        of_function: (function) ↦ its identity, for those in the jaxpr, such as callbacks.
    """
    return _Content(of_function).of(closed)


def digest_of_parts(*parts) -> bytes:
    """Return the digest of several parts: digests, numbers and names."""
    return hashlib.sha256(repr(parts).encode()).digest()


class _Content:
    """Digests of values; those of jaxprs and functions are kept, because they occur in many places.

    Attributes:
        of_function: (function) ↦ its identity. None: functions have digests, and values without one raise `NoDigest`.
        strict: True if values without a digest raise `NoDigest`; else they count by their type.
        known: id of a jaxpr or function ↦ its digest.
        alive: objects that are identified by their id, and must not be deleted.
        types: type of a variable ↦ its text.
        depth: number of functions around the current one.
        marks: id of a mark of a transformation ↦ its number.
    """

    def __init__(self, of_function: Callable[[Any], Any] | None = None):
        self.of_function, self.strict = of_function, of_function is None
        self.known: dict[int, bytes] = {}
        self.alive: list = []
        self.types: dict[Any, str] = {}
        self.depth = 0
        self.marks: dict[int, int] = {}

    def of(self, x) -> bytes:
        """Return the digest of a value."""
        return hashlib.sha256(repr(self.text(x)).encode()).digest()

    def text(self, x):
        """Return a value as something whose `repr` differs for different values; raise `NoDigest` if there is none."""
        if x is None or isinstance(x, (bool, int, float, str, bytes, complex)):
            return (type(x).__name__, x) if type(x).__module__ == "builtins" else (type(x).__qualname__, repr(x))
        if isinstance(x, (tuple, list)):
            return type(x).__qualname__, [self.text(y) for y in x]
        if isinstance(x, dict):
            return "dict", [(self.text(k), self.text(v)) for k, v in x.items()]
        if isinstance(x, (core.ClosedJaxpr, core.Jaxpr)):
            return self.once(x)
        if isinstance(x, np.dtype):
            return "dtype", x.name
        if isinstance(x, (np.ndarray, np.generic)) or (isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)):
            is_key = isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
            value = np.asarray(jax.random.key_data(x) if is_key else x)  # type: ignore[arg-type]
            if value.dtype.hasobject:
                raise NoDigest("an array of objects")
            return "array", value.shape, value.dtype.name, hashlib.sha256(value.tobytes()).digest()
        if isinstance(x, jax_compat.MEMORIES):
            return "memory"
        if type(x).__qualname__ in SHOWN_IN_FULL:
            return self._representation(x)
        if type(x) is object or type(x).__qualname__ == "TraceTag":
            # Marks of a transformation of a rule: only which of them are the same counts.
            self.alive.append(x)
            return "mark", self.marks.setdefault(id(x), len(self.marks))
        if isinstance(x, jax_compat.STATIC_ARGUMENTS):
            return "static", self.text(x.val)
        if isinstance(x, (set, frozenset)):
            return "set", sorted(repr(self.text(y)) for y in x)
        if isinstance(x, enum.Enum):
            return type(x).__qualname__, x.name
        if callable(x) or jax_compat.rule_within(x) is not None:
            return self.once(x) if self.of_function is None else self.of_function(x)
        if isinstance(x, types.ModuleType) and x.__name__.split(".")[0] in KNOWN_PACKAGES:
            return "module", x.__name__
        if dataclasses.is_dataclass(x):
            return self.name(type(x)), self.fields(x)
        if hasattr(x, "key") and hasattr(x, "derived"):  # a program within a program
            # Programs have keys if they are kept on disk.
            key = x.key if self.strict or x.source is None else self.once(x.source)
            if key is None and self.strict:
                raise NoDigest("a program without a key")
            return "program", key
        return self._representation(x)

    def _representation(self, x):
        """Return the `repr` of a value, or its type if that does not tell values apart."""
        text = repr(x)
        if type(x).__qualname__ not in SHOWN_IN_FULL or " at 0x" in text:
            if not self.strict:
                return type(x).__qualname__
            raise NoDigest(text)
        return type(x).__qualname__, text

    def fields(self, x) -> list[tuple]:
        """Return the names and texts of the fields of a dataclass."""
        return [(field.name, self.text(getattr(x, field.name, None))) for field in dataclasses.fields(x)]

    def once(self, x) -> bytes:
        """Return the digest of a jaxpr or function, computed once for each object."""
        found = self.known.get(id(x))
        if found is None:
            self.alive.append(x)
            # A function that refers to itself.
            self.known[id(x)] = b"itself"
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise NoDigest("nested too deep")
            if isinstance(x, core.ClosedJaxpr):
                parts: Any = [self.text(c) for c in x.consts], self.once(x.jaxpr) if x.jaxpr is not x else self.jaxpr(x)
            elif isinstance(x, core.Jaxpr):
                parts = self.jaxpr(x)
            else:
                parts = self.function(x)
            self.depth -= 1
            found = self.known[id(x)] = hashlib.sha256(repr(parts).encode()).digest()
        return found

    def jaxpr(self, jaxpr):
        """Return the parts of a jaxpr that make its content, its variables numbered as they occur."""
        numbers: dict[Any, int] = {}

        def named(var):
            """Return a constant by its type and text, a variable by its number."""
            if hasattr(var, "val"):
                return self.type(var.aval), self.text(var.val)
            return numbers.setdefault(var, len(numbers))

        typed = lambda variables: [(named(v), self.type(v.aval)) for v in variables]
        lines: list = [typed(jaxpr.constvars), typed(jaxpr.invars)]
        for eqn in jaxpr.eqns:
            params = [(k, self.text(v)) for k, v in sorted(eqn.params.items())]
            lines.append((eqn.primitive.name, params, [named(x) for x in eqn.invars], typed(eqn.outvars)))
        return [*lines, [named(x) for x in jaxpr.outvars]]

    def type(self, aval) -> str:
        """Return the text of a variable's type: shape, dtype and weak type."""
        found = self.types.get(aval)
        if found is None:
            found = self.types[aval] = repr((type(aval).__name__, str(aval), getattr(aval, "weak_type", None)))
        return found

    def function(self, f):
        """Return the parts of a function that make its content: code or name, closure, defaults and globals."""
        rule = jax_compat.rule_within(f)
        if rule is not None:
            return "rule", [self.text(part) for part in rule]
        if isinstance(f, functools.partial):
            return "partial", self.text(f.func), self.text(f.args), self.text(f.keywords)
        if isinstance(f, types.MethodType):
            return "method", self.text(f.__func__), self.text(f.__self__)
        if isinstance(f, (type, types.BuiltinFunctionType)):
            return self.name(f)
        if not isinstance(f, types.FunctionType):
            inner = getattr(f, "__wrapped__", None)
            if inner is not None and self.package(f) in KNOWN_PACKAGES:
                return "wrapped", self.name(type(f)), self.text(inner)
            if dataclasses.is_dataclass(f):
                return self.name(type(f)), self.fields(f)
            if hasattr(f, "__dict__") and self.package(type(f)) in KNOWN_PACKAGES:
                return self.name(type(f)), self.text(vars(f))
            return self._representation(f)
        values, variables = referenced_values(f)
        cells = [self.text(x) for x in values]
        bound = self.text(f.__defaults__), self.text(f.__kwdefaults__), cells
        if self.package(f) in KNOWN_PACKAGES:
            return self.name(f), f.__code__.co_firstlineno, bound
        return self.name(f), self.code(f.__code__), bound, [(name, self.text(x)) for name, x in variables]

    def code(self, code: types.CodeType):
        """Return the parts of a code object that make its content."""
        constants = [self.code(c) if isinstance(c, types.CodeType) else self.text(c) for c in code.co_consts]
        return code.co_code, code.co_names, code.co_varnames, constants

    def name(self, x) -> str:
        """Return the qualified name of a function or class."""
        if self.strict and self.package(x) not in KNOWN_PACKAGES and isinstance(x, type):
            raise NoDigest(f"the class {x.__qualname__}, whose code is not known by version")
        return f"{x.__module__}.{x.__qualname__}"

    @staticmethod
    def package(x) -> str:
        """Return the name of the package in which something is defined."""
        return str(getattr(x, "__module__", None)).split(".")[0]


def referenced_values(f: types.FunctionType) -> tuple[list, list[tuple[str, Any]]]:
    """Return the values of a function's closure, None for those not filled yet, and its global variables by name."""
    cells = [_cell_content(cell) for cell in f.__closure__ or ()]
    return cells, [(name, f.__globals__[name]) for name in _names_in(f.__code__) if name in f.__globals__]


def _names_in(code: types.CodeType) -> list[str]:
    """Return the names that a function and the functions inside it look up, sorted."""
    inside = [name for c in code.co_consts if isinstance(c, types.CodeType) for name in _names_in(c)]
    return sorted({*code.co_names, *inside})


def _cell_content(cell: types.CellType) -> Any:
    """Return the content of a cell of a closure, None before it is filled."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
