"""From a JAX function to a graph of scalars: a jaxpr is interpreted with arrays of nodes.

Arrays are NumPy arrays of nodes; moving data moves nodes and costs nothing. Arrays in memory (inputs, the rows of a
loop) stay there, as offsets into a buffer, until their scalars are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import Memory, Node, array, kind_of
from jaxmbs.programs.runtime import jax_compat, tuning


class DeferredArray:
    """An array that is computed when something needs its entries.

    Attributes:
        entries: () ↦ the array.
        factors: the factorisation that the array represents; None for other arrays.
        varies: True if a loop that carries the array has all its entries as variables, even constant ones.
    """

    __slots__ = ("entries", "factors", "varies")

    def __init__(self, entries: Callable[[], np.ndarray], factors: Any, *, varies: bool = False):
        self.entries, self.factors, self.varies = entries, factors, varies


def variable_array(x: np.ndarray) -> DeferredArray:
    """Wrap an array of nodes so that a loop that carries it has all its entries as variables."""
    return DeferredArray(lambda: x, None, varies=True)


class Tracer:
    """Interprets jaxprs into one graph.

    Attributes:
        graph: the graph.
        marking: True if it is to be differentiated, see `marks`.
        dtype: floating-point type of the program.
        varying: id of a loop's equation ↦ carried scalars that were found to vary.
        calls: results of called functions by the function and its arguments.
    """

    def __init__(self, graph: Graph, dtype, marking: bool = False):
        self.graph = graph
        self.marking = marking
        self.dtype = np.dtype(dtype)
        self.varying: dict[int, set[int]] = {}
        self.calls: dict[tuple, list] = {}

    def constants(self, values) -> np.ndarray:
        """Return an array of numbers as an array of constant nodes."""
        values = np.asarray(values)
        if values.dtype == jax.dtypes.float0:  # the tangent of an integer
            values = np.zeros(values.shape, bool)
        kind_of(values.dtype)
        flat = values.ravel()
        if flat.size <= tuning.MAX_ENTRIES_ONE_BY_ONE:
            return array([self.graph.constant(x) for x in flat.tolist()], values.shape)
        # Bits tell 0.0 from −0.0.
        bits = flat.view(f"i{flat.dtype.itemsize}") if flat.dtype.kind == "f" else flat
        _, first, place = np.unique(bits, return_index=True, return_inverse=True)
        different = array([self.graph.constant(x) for x in flat[first].tolist()], (len(first),))
        return different[place].reshape(values.shape)

    def literal(self, value) -> np.ndarray:
        """Return a literal of a jaxpr as an array of constant nodes."""
        if value.__class__ in (float, int, bool):
            return array([self.graph.constant(value)], ())
        return self.constants(value)

    def nodes(self, value) -> np.ndarray:
        """Return a value as an array of nodes: scalars in memory are loaded, deferred arrays are computed."""
        if isinstance(value, Memory):
            if value.offsets.size > tuning.MAX_ARRAY_ENTRIES:
                raise ProgramError(
                    f"an array of {value.offsets.size} numbers is too large to be taken apart into scalars"
                )
            flat = [self.load(value, int(k)) for k in value.offsets.ravel()]
            return array(flat, value.shape)
        if isinstance(value, DeferredArray):
            return value.entries()
        return value

    def load(self, memory: Memory, offset: int, index: Node | None = None, stride: int = 0) -> Node:
        """Return the node of the scalar at offset + stride·index of an array's buffer."""
        return self.graph.load(memory.buffer, memory.after, offset, index, stride)

    def stack(self, values: np.ndarray) -> Memory:
        """Put an array of nodes into memory, row by row, and return it there."""
        flat = values.ravel()
        after = self.graph.stack(tuple(flat), values.shape[0])
        return after.buffer.whole(after).reshape(values.shape)

    def run(self, jaxpr, consts: Sequence, args: Sequence) -> list:
        """Return the outputs of a jaxpr for these constants and arguments; an error gets the equation's name and line."""
        equations, dtypes = _equations_with_rules(jaxpr)
        checked = all(dtype.kind in "iub" or dtype == self.dtype for dtype in dtypes)
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        eqn = None
        try:
            for eqn, rule, takes_memory, atoms in equations:
                inputs = [values[x] if literal is None else self.literal(literal) for x, literal in atoms]
                if rule is None:
                    raise ProgramError(unknown_primitive(eqn.primitive.name))
                if not checked:
                    for var in eqn.outvars:
                        self.check_dtype(var.aval)
                if not takes_memory:
                    inputs = [x if x.__class__ is np.ndarray else self.nodes(x) for x in inputs]
                result = rule(self, eqn, *inputs)
                if result.__class__ is list:
                    values.update(zip(eqn.outvars, result, strict=True))
                else:
                    values[eqn.outvars[0]] = result
        except ProgramError as error:
            raise _with_line(error, eqn) from None
        return [self.constants(x.val) if hasattr(x, "val") else values[x] for x in jaxpr.outvars]

    def run_closed(self, closed_jaxpr, args: Sequence) -> list:
        """Return the outputs of a closed jaxpr, which holds its constants, for these arguments."""
        return self.run(closed_jaxpr.jaxpr, [self.constants(np.asarray(c)) for c in closed_jaxpr.consts], args)

    def check_dtype(self, aval) -> None:
        """Raise `ProgramError` for a type that programs do not have."""
        dtype = getattr(aval, "dtype", None)
        if dtype is None or dtype == jax.dtypes.float0:
            return
        kind = "?" if not isinstance(dtype, np.dtype) else dtype.kind
        if kind not in "fiub":
            raise ProgramError(f"dtype {dtype}: a program computes with real numbers, integers and truth values only")
        if kind == "f" and dtype != self.dtype:
            raise ProgramError(
                f"{dtype} in a program of {self.dtype}: give all arguments and constants the same floating-point type"
            )

    def map(self, op: str, *args: np.ndarray | float) -> np.ndarray:
        """Return the results of an operation on numbers and arrays of nodes, entry by entry."""
        arrays = [x if isinstance(x, np.ndarray) else self.constants(x) for x in args]
        return elementwise(partial(self.graph.make, op), *arrays)


def needed_equations(jaxpr) -> list:
    """Return the equations that the results of a jaxpr depend on."""
    needed = {x for x in jaxpr.outvars if not hasattr(x, "val")}
    found = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(x in needed for x in eqn.outvars):
            found.append(eqn)
            needed.update(x for x in eqn.invars if not hasattr(x, "val"))
    return found[::-1]


# Kept for jaxprs that are traced again and again, such as those of called functions.
@jax_compat.kept_with_jaxpr
def _equations_with_rules(
    jaxpr,
) -> tuple[list[tuple[Any, Callable | None, bool, list[tuple[Any, Any]]]], set[np.dtype]]:
    """Return the needed equations of a jaxpr, and the types of their results.

    With each equation come its rule, True if that takes arrays in memory, and for each input (variable, None) or
    (None, number or array).
    """
    equations: list = []
    dtypes: set = set()
    for eqn in needed_equations(jaxpr):
        name = eqn.primitive.name
        atoms = [(None, _number(x.val)) if hasattr(x, "val") else (x, None) for x in eqn.invars]
        equations.append((eqn, RULES.get(name), name in TAKES_MEMORY, atoms))
        dtypes.update(_dtype_of(var.aval) for var in eqn.outvars)
    return equations, dtypes - {None}


def _number(value) -> Any:
    """Return a literal as a Python number if that has its value and kind, else unchanged."""
    number = np.asarray(value)
    return value if number.ndim or number.dtype.kind not in "fiub" else number.item()


def _dtype_of(aval) -> np.dtype | None:
    """Return the type of an abstract value.

    None for tangents of integers and for values without a type; `object` for types that NumPy does not have.
    """
    dtype = getattr(aval, "dtype", None)
    if dtype is None or dtype == jax.dtypes.float0:
        return None
    return dtype if isinstance(dtype, np.dtype) else np.dtype(object)


def _with_line(error: ProgramError, eqn) -> ProgramError:
    """Add to an error the primitive and the source line of the innermost equation that has a line."""
    if getattr(error, "placed", False):
        return error
    # An equation within a function of JAX has no line of its own; the call of that function has.
    line = jax_compat.user_line(eqn)
    name = getattr(error, "primitive", eqn.primitive.name)
    if line is None:
        error.primitive = name  # type: ignore[attr-defined]
        return error
    placed = type(error)(f"{error} [{name}, at {line}]")
    placed.placed = True  # type: ignore[attr-defined]
    return placed


def elementwise(function: Callable, *args: np.ndarray) -> np.ndarray:
    """Return function(a, b, …) entry by entry, with broadcasting. Equal entries of large arrays are computed once."""
    shape = args[0].shape
    if shape == () and all(x.shape == () for x in args):
        result = np.empty((), object)
        result[()] = function(*(x.item() for x in args))
        return result
    if any(x.shape != shape for x in args[1:]):
        shape = max((x.shape for x in args), key=len)
        full = lambda x: array([x.item()] * math.prod(shape), shape) if x.shape == () else x
        args = np.broadcast_arrays(*map(full, args))
        shape = args[0].shape
    entries = list(zip(*(x.ravel().tolist() for x in args), strict=True))
    if len(entries) <= tuning.MAX_ENTRIES_ONE_BY_ONE:
        return array([function(*entry) for entry in entries], shape)
    known: dict[tuple, Any] = dict.fromkeys(entries)
    for entry in known:
        known[entry] = function(*entry)
    return array(list(map(known.__getitem__, entries)), shape)


def unknown_primitive(name: str) -> str:
    """Return the message for a primitive without a rule."""
    advice = {
        "eigh": "eigenvalues need iterations; compute them outside the program",
        "svd": "singular values need iterations; compute them outside the program",
        "qr": "use a Cholesky or LU factorisation, or compute it outside the program",
        "fft": "compute it outside the program",
        "ffi_call": "calls to foreign code have no scalars to look into",
        "pure_callback": "calls to Python have no scalars to look into",
    }.get(name, "compute it outside the program, or use array code")
    return f"the primitive {name!r} has no straight-line form; {advice}"


def call(key: str):
    """Return the rule of a primitive that calls the jaxpr in its parameter `key`; large results are kept for reuse."""

    def rule(tracer: Tracer, eqn, *args):
        inner = eqn.params[key]
        run = lambda: tracer.run_closed(inner, args) if hasattr(inner, "consts") else tracer.run(inner, [], args)
        if len(inner.eqns) < tuning.MIN_EQUATIONS_TO_KEEP_RESULTS:
            return run()
        place = (inner, *map(_argument_key, args))
        if place not in tracer.calls:
            tracer.calls[place] = run()
        return list(tracer.calls[place])

    return rule


def _argument_key(value):
    """Return a key of an argument that is equal for arrays of the same nodes."""
    if isinstance(value, Memory):
        return value.buffer, value.after, value.shape, value.offsets.tobytes()
    return (value.shape, *value.ravel().tolist()) if isinstance(value, np.ndarray) else value


def custom_linear_solve(tracer: Tracer, eqn, *args):
    """Trace the solution of a linear system by its own solver."""
    p = eqn.params
    lengths, jaxprs = p["const_lengths"], p["jaxprs"]
    counts = [lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve]
    begin = sum(counts[:2])
    return tracer.run_closed(jaxprs.solve, [*args[begin : begin + counts[2]], *args[sum(counts) :]])


# Rules of primitives, (tracer, equation, *arguments) ↦ results, by name.
RULES: dict[str, Callable] = {
    "jit": call("jaxpr"),
    "pjit": call("jaxpr"),
    "closed_call": call("call_jaxpr"),
    "core_call": call("call_jaxpr"),
    "custom_jvp_call": call("call_jaxpr"),
    "custom_vjp_call": call("call_jaxpr"),
    "custom_vjp_call_jaxpr": call("fun_jaxpr"),
    "checkpoint": call("jaxpr"),
    "remat2": call("jaxpr"),
    "remat": call("jaxpr"),
    "custom_linear_solve": custom_linear_solve,
}
# Names of the primitives whose rules take arrays in memory, and deferred ones, without loading them.
TAKES_MEMORY: set[str] = set(RULES)
# Names of the primitives that only move entries, without computing.
MOVEMENTS = {"concatenate", "iota", "stack"}
