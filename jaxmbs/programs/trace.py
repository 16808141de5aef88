"""From a JAX function to a graph of scalars: a jaxpr is interpreted with arrays of nodes.

Arrays are NumPy arrays of nodes; moving data moves nodes and costs nothing. Arrays in memory (inputs, the rows of a
loop) stay there, as offsets into a buffer, until their scalars are needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import source_info_util
from jax.extend import core

from jaxmbs.programs.graph import INTEGER, REAL, TRUTH, Buffer, Graph, Loop, Node, ProgramError, Region

# Loops whose bodies would make no more than this many scalars in all are unrolled.
UNROLLED = 256
# Without a condition on loops, larger arrays are not taken apart into scalars.
LARGEST_ARRAY = 100_000


class Memory:
    """An array in memory: offsets into a buffer, `after` the loop or stack that fills it."""

    __slots__ = ("after", "buffer", "offsets")

    def __init__(self, buffer: Buffer, offsets: np.ndarray, after: Node | None = None):
        self.buffer, self.offsets, self.after = buffer, offsets, after

    @property
    def shape(self):
        return self.offsets.shape

    def moved(self, offsets: np.ndarray) -> Memory:
        """The same memory seen in another order."""
        return Memory(self.buffer, offsets, self.after)


class Deferred:
    """An array that is only computed when something needs its entries."""

    __slots__ = ("entries", "known")

    def __init__(self, entries: Callable[[], np.ndarray], known: Any):
        self.entries, self.known = entries, known


def kind_of(dtype) -> str:
    """The kind of scalars of a dtype."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return REAL
    if kind in "iu":
        return INTEGER
    if kind == "b":
        return TRUTH
    raise ProgramError(f"dtype {dtype} is neither a real, an integer nor a truth value")


class Tracer:
    """Interprets jaxprs into one graph."""

    def __init__(self, graph: Graph, dtype):
        self.graph = graph
        self.dtype = np.dtype(dtype)
        self.depth = 0
        self.varying: dict[int, set[int]] = {}  # id of a loop's equation → carried scalars found to vary
        self.rules: dict[str, Callable] = RULES

    # --- arrays ---

    def constants(self, values) -> np.ndarray:
        """An array of constant nodes."""
        values = np.asarray(values)
        if values.dtype == jax.dtypes.float0:  # the tangent of an integer
            values = np.zeros(values.shape, bool)
        kind_of(values.dtype)
        flat = [self.graph.constant(x) for x in values.ravel().tolist()]
        return array(flat, values.shape)

    def nodes(self, value) -> np.ndarray:
        """A value as an array of nodes: what is in memory is loaded, what was put off is computed."""
        if isinstance(value, Memory):
            if value.offsets.size > LARGEST_ARRAY:
                raise ProgramError(
                    f"an array of {value.offsets.size} numbers is too large to be taken apart into scalars"
                )
            flat = [self.load(value, int(k)) for k in value.offsets.ravel()]
            return array(flat, value.shape)
        if isinstance(value, Deferred):
            return value.entries()
        return value

    def load(self, memory: Memory, offset: int, index: Node | None = None, stride: int = 0) -> Node:
        """The scalar at offset + stride·index of a buffer."""
        args = tuple(x for x in (memory.after, index) if x is not None)
        return self.graph.shared("load", args, memory.buffer.kind, (memory.buffer, offset, stride))

    def stack(self, values: np.ndarray) -> Memory:
        """Nodes put into memory, row by row."""
        flat = values.ravel()
        after = self.graph.stack(tuple(flat), values.shape[0])
        return Memory(after.payload, np.arange(len(flat)).reshape(values.shape), after)

    # --- interpretation ---

    def run(self, jaxpr, consts: Sequence, args: Sequence) -> list:
        """The outputs of a jaxpr for these constants and arguments."""
        values: dict[Any, Any] = {}
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            values[var] = value
        for var, value in zip(jaxpr.invars, args, strict=True):
            values[var] = value

        def read(atom):
            if hasattr(atom, "val"):
                return self.constants(atom.val)
            return values[atom]

        for eqn in jaxpr.eqns:
            for var, value in zip(eqn.outvars, self.apply(eqn, [read(x) for x in eqn.invars]), strict=True):
                values[var] = value
        return [read(x) for x in jaxpr.outvars]

    def closed(self, closed_jaxpr, args: Sequence) -> list:
        """The outputs of a closed jaxpr."""
        return self.run(closed_jaxpr.jaxpr, [self.constants(np.asarray(c)) for c in closed_jaxpr.consts], args)

    def apply(self, eqn, args: list) -> list:
        """One equation; an error in it gets its name and its line."""
        name = eqn.primitive.name
        rule = self.rules.get(name)
        try:
            if rule is None:
                raise ProgramError(unknown_primitive(name))
            for var in eqn.outvars:
                self.check_dtype(var.aval)
            if name not in TAKES_MEMORY:
                args = [self.nodes(x) for x in args]
            result = rule(self, eqn, *args)
        except ProgramError as error:
            if getattr(error, "placed", False):
                raise
            # An equation within a function of JAX has no line of its own; the call of that function has.
            frame = source_info_util.user_frame(eqn.source_info.traceback)
            name = getattr(error, "primitive", name)
            if frame is None:
                error.primitive = name  # type: ignore[attr-defined]
                raise
            placed = type(error)(f"{error} [{name}, at {source_info_util.summarize(eqn.source_info)}]")
            placed.placed = True  # type: ignore[attr-defined]
            raise placed from None
        return result if isinstance(result, list) else [result]

    def check_dtype(self, aval) -> None:
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

    def map(self, op: str, *args: np.ndarray, kind: str | None = None) -> np.ndarray:
        """An operation entry by entry."""
        make = self.graph.make
        function = lambda *xs: make(op, *xs, kind=kind)
        return elementwise(function, *args)


def array(flat: Sequence, shape) -> np.ndarray:
    """A list of nodes as an array of this shape."""
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(shape)


def elementwise(function: Callable, *args: np.ndarray) -> np.ndarray:
    """function(a, b, …) entry by entry, with broadcasting."""
    with np.errstate(all="ignore"):
        result = np.frompyfunc(function, len(args), 1)(*args)
    if not isinstance(result, np.ndarray):
        result = array([result], ())
    return result


def unknown_primitive(name: str) -> str:
    advice = {
        "while": "write it as a counted loop (fori_loop with constant bounds, scan), or stop at a constant count",
        "eigh": "eigenvalues need iterations; compute them outside of the program",
        "svd": "singular values need iterations; compute them outside of the program",
        "qr": "use a Cholesky or LU factorisation, or compute it outside of the program",
        "fft": "compute it outside of the program",
        "sort": "compare and select instead",
        "ffi_call": "calls to foreign code have no scalars to look into",
        "pure_callback": "calls to Python have no scalars to look into",
    }.get(name, "compute it outside of the program, or use array code")
    return f"the primitive {name!r} has no straight-line form; {advice}"


def place_argument(tracer: Tracer, number: int, shape, dtype) -> Memory:
    """An input of the program."""
    size = math.prod(shape)
    length = shape[0] if shape else 1
    buffer = Buffer(number, kind_of(dtype), length, size // max(length, 1))
    return Memory(buffer, np.arange(size).reshape(shape))


# --- loops ------------------------------------------------------------------------------------------------------------


def scan(tracer: Tracer, eqn, *args):
    """A counted loop: unrolled if it is short, else a `Loop`."""
    p = eqn.params
    body, length, reverse = p["jaxpr"], p["length"], p["reverse"]
    n_consts, n_carry = p["num_consts"], p["num_carry"]
    consts, carry, xs = args[:n_consts], list(args[n_consts : n_consts + n_carry]), args[n_consts + n_carry :]
    body_consts = [tracer.constants(np.asarray(c)) for c in body.consts]
    step = lambda values: tracer.run(body.jaxpr, body_consts, [*consts, *values])
    if length <= 1 or length * work(body.jaxpr) <= UNROLLED:
        return _unrolled(tracer, body, step, carry, xs, length, reverse)

    def attempt(varying: set[int]):
        loop = _new_loop(tracer, length, reverse)
        bound = _bind_carry(tracer, loop, body.jaxpr, n_consts, carry, varying)
        results = step([*(values for values, _ in bound), *(_row_of(tracer, loop, x) for x in xs)])
        tracer.depth -= 1
        new = [None if known is not None else r for (_, known), r in zip(bound, results, strict=False)]
        return loop, bound, new, results[n_carry:]

    loop, bound, _, ys = _settle(tracer, eqn, attempt, carry)
    node = _close_loop(tracer, loop)
    finals = [known if known is not None else _final(tracer, loop, node, values) for values, known in bound]
    rows: list = []
    for y in ys:
        y = tracer.nodes(y)
        if y.size == 0:
            rows.append(array([], (length, *y.shape)))
            continue
        buffer = Buffer(None, y.ravel()[0].kind, length, y.size)
        loop.rows.append((buffer, list(y.ravel())))
        rows.append(Memory(buffer, np.arange(length * y.size).reshape(length, *y.shape), node))
    return [*finals, *rows]


def _settle(tracer: Tracer, eqn, attempt: Callable, carry):
    """Trace the body of a loop with carried values that are constants at the start taken to stay so; again, with those
    that do not, until nothing changes. So zeros stay zeros through loops.

    attempt: (numbers of scalars that vary) ↦ loop, what its body saw, carried results, …
    """
    inits = [tracer.nodes(x).ravel() for x in carry]
    starts = np.cumsum([0, *(len(x) for x in inits)])
    varying = {int(start + k) for start, x in zip(starts, inits, strict=False) for k, node in enumerate(x)
               if not node.is_constant}  # fmt: skip
    # A loop within a loop is traced again with it; what varied before is not tried again.
    varying |= tracer.varying.get(id(eqn), set())
    while True:
        outcome = attempt(varying)
        loop, results = outcome[0], outcome[2]
        changed = set()
        for start, init, result in zip(starts, inits, results, strict=False):
            if result is None:
                continue
            for k, (old, new) in enumerate(zip(init, tracer.nodes(result).ravel(), strict=True)):
                if start + k in varying:
                    loop.results.append(new)
                elif new is not old:
                    changed.add(int(start + k))
        if not changed:
            tracer.varying[id(eqn)] = varying
            return outcome
        varying |= changed


def work(jaxpr) -> int:
    """A rough count of the scalars that a jaxpr makes."""
    total = 0
    for eqn in jaxpr.eqns:
        inner = [x for x in jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_jaxpr) if _is_jaxpr(x)]
        if inner:
            rounds = eqn.params.get("length", 1)
            total += rounds * sum(work(getattr(x, "jaxpr", x)) for x in inner)
        elif eqn.primitive.name not in MOVEMENTS:
            total += sum(math.prod(v.aval.shape) for v in eqn.outvars)
    return total


def _is_jaxpr(x) -> bool:
    return isinstance(x, (core.ClosedJaxpr, core.Jaxpr))


def _unrolled(tracer, body, step, carry, xs, length, reverse):
    n_carry = len(carry)
    collected: list[list] = []
    for k in reversed(range(length)) if reverse else range(length):
        rows = [x.moved(x.offsets[k]) if isinstance(x, Memory) else tracer.nodes(x)[k] for x in xs]
        rows = [r if isinstance(r, (Memory, np.ndarray)) else array([r], ()) for r in rows]
        results = step([*carry, *rows])
        carry = results[:n_carry]
        collected.append([tracer.nodes(y) for y in results[n_carry:]])
    if reverse:
        collected.reverse()
    ys = []
    for k, var in enumerate(body.jaxpr.outvars[n_carry:]):
        shape = (length, *var.aval.shape)
        ys.append(array([node for row in collected for node in row[k].ravel()], shape))
    return [*carry, *ys]


def _new_loop(tracer: Tracer, length: int, reverse: bool = False) -> Loop:
    tracer.depth += 1
    region = Region(tracer.depth)
    index = tracer.graph.node("index", (), INTEGER, None, region, uniform=True)
    return Loop(length, region, index, reverse)


def _bind_carry(
    tracer: Tracer, loop: Loop, jaxpr, skip: int, carry, varying: set[int]
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """What the body sees for the carried values, and what they are after the loop where that is known already: one that
    never changes stays what it is, a counter follows from the index of the loop."""
    graph = tracer.graph
    bound: list[tuple[np.ndarray, np.ndarray | None]] = []
    start = 0
    for var, out, init in zip(jaxpr.invars[skip:], jaxpr.outvars, carry, strict=False):
        init = tracer.nodes(init)
        increment = _increment(jaxpr, var, out)
        if out is var:
            bound.append((init, init))
        elif increment is not None and init.shape == ():
            now = graph.add(init.item(), graph.make("mul", loop.index, graph.constant(increment)))
            end = graph.add(init.item(), graph.constant(increment * loop.length))
            bound.append((array([now], ()), array([end], ())))
        else:
            bound.append((_parameters(tracer, loop, init, start, varying), None))
        start += init.size
    return bound


def _parameters(tracer: Tracer, loop: Loop, init: np.ndarray, start: int, varying: set[int]) -> np.ndarray:
    """A parameter for each carried scalar that varies; the others are the constants that they are at the start."""
    flat = []
    for k, node in enumerate(init.ravel()):
        if start + k in varying:
            flat.append(tracer.graph.parameter(node.kind, loop.body, (loop, len(loop.params))))
            loop.params.append(flat[-1])
            loop.inits.append(node)
        else:
            flat.append(node)
    return array(flat, init.shape)


def _increment(jaxpr, var, out) -> int | None:
    """The constant integer that a carried value grows by in every round, if it does."""
    for eqn in jaxpr.eqns:
        if eqn.outvars[0] is out and eqn.primitive.name == "add":
            a, b = eqn.invars
            if hasattr(a, "val"):
                a, b = b, a
            if a is var and hasattr(b, "val") and np.dtype(var.aval.dtype).kind in "iu" and np.ndim(b.val) == 0:
                return int(b.val)
    return None


def _row_of(tracer: Tracer, loop: Loop, x) -> np.ndarray:
    """The row of a scanned array that belongs to this round."""
    count = x.shape[0]
    index = loop.index
    if loop.reverse:
        index = tracer.graph.sub(tracer.graph.constant(count - 1), index)
    if not isinstance(x, Memory):
        x = tracer.nodes(x)
        if x.size == 0:
            return x[0]
        steady = _steady_rows(tracer, x, index)
        if steady is not None:
            return steady
        x = tracer.stack(x)
    offsets = x.offsets.reshape(count, -1)
    stride = int(offsets[1, 0] - offsets[0, 0]) if offsets.shape[1] else 0
    if not (offsets == offsets[0] + stride * np.arange(count)[:, None]).all():
        x = tracer.stack(tracer.nodes(x))
        offsets = x.offsets.reshape(count, -1)
        stride = offsets.shape[1]
    return array([tracer.load(x, int(k), index, stride) for k in offsets[0]], x.shape[1:])


def _steady_rows(tracer: Tracer, x: np.ndarray, index: Node) -> np.ndarray | None:
    """Rows that are all alike, or integers that grow evenly, need no memory."""
    rows = x.reshape(x.shape[0], -1)
    if all(node is first for row in rows for node, first in zip(row, rows[0], strict=True)):
        return x[0] if x.ndim > 1 else array([x[0]], ())
    if x.ndim == 1 and x[0].kind == INTEGER and all(node.is_constant for node in x):
        values = np.array([node.payload for node in x])
        step = int(values[1] - values[0])
        if (np.diff(values) == step).all():
            graph = tracer.graph
            value = graph.add(graph.constant(int(values[0])), graph.make("mul", graph.constant(step), index))
            return array([value], ())
    return None


def _close_loop(tracer: Tracer, loop: Loop) -> Node:
    """The loop as a node of the region around it."""
    region = tracer.graph.root
    outer = [*loop.inits, *_live_ins(loop)]
    for node in outer:
        if node.region.depth > region.depth:
            region = node.region
    return tracer.graph.node("loop", tuple(outer), REAL, loop, region, uniform=False)


def _live_ins(loop: Loop) -> list[Node]:
    """Nodes of outer regions that the loop's own nodes use."""
    inside = {id(loop.body), id(loop.condition_region)}
    found: dict[int, Node] = {}
    regions = [loop.body, *([loop.condition_region] if loop.condition_region else [])]
    for region in regions:
        for node in region.nodes:
            for arg in node.args:
                if id(arg.region) not in inside and arg.op != "const":
                    found.setdefault(arg.serial, arg)
    ends = [*loop.results, *(node for _, row in loop.rows for node in row)]
    if loop.condition is not None:
        ends.append(loop.condition)
    for node in ends:
        if id(node.region) not in inside and node.op != "const":
            found.setdefault(node.serial, node)
    return list(found.values())


def _final(tracer: Tracer, loop: Loop, node: Node, params: np.ndarray) -> np.ndarray:
    """What carried values are after the loop."""
    own = lambda p: p.op == "param" and p.payload[0] is loop
    out = lambda p: tracer.graph.shared("out", (node,), p.kind, p.payload[1]) if own(p) else p
    return array([out(p) for p in params.ravel()], params.shape)


def while_loop(tracer: Tracer, eqn, *args):
    """A loop that ends when its condition fails, and certainly after a constant count."""
    p = eqn.params
    condition, body = p["cond_jaxpr"], p["body_jaxpr"]
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, carry = args[:n_cond], args[n_cond : n_cond + n_body], args[n_cond + n_body :]
    bound = _bound(condition.jaxpr, body.jaxpr, n_cond, n_body, carry)
    if bound is None:
        raise ProgramError(
            "a loop without a constant bound: use fori_loop with constant bounds or scan, or count the rounds and make "
            "`(count < limit) & condition` the condition"
        )

    def attempt(varying: set[int]):
        loop = _new_loop(tracer, bound)
        loop.condition_region = Region(tracer.depth)
        seen, seen_by_condition, start = [], [], 0
        for init in carry:
            params = _parameters(tracer, loop, tracer.nodes(init), start, varying)
            start += params.size
            seen.append(params)
            flat = []
            for p in params.ravel():
                if p.op == "param" and p.payload[0] is loop:
                    p = tracer.graph.parameter(p.kind, loop.condition_region, p.payload)
                    loop.condition_params.append(p)
                flat.append(p)
            seen_by_condition.append(array(flat, params.shape))
        (goes_on,) = tracer.closed(condition, [*cond_consts, *seen_by_condition])
        loop.condition = tracer.nodes(goes_on).item()
        results = tracer.closed(body, [*body_consts, *seen])
        tracer.depth -= 1
        return loop, seen, results

    loop, seen, _ = _settle(tracer, eqn, attempt, carry)
    node = _close_loop(tracer, loop)
    return [_final(tracer, loop, node, params) for params in seen]


def _bound(condition, body, n_cond, n_body, carry) -> int | None:
    """The constant limit of a counter that the condition of a loop compares and its body increments."""
    carried = {var: k for k, var in enumerate(condition.invars[n_cond:])}
    made = {eqn.outvars[0]: eqn for eqn in condition.eqns}
    pending = [condition.outvars[0]]
    while pending:
        eqn = made.get(pending.pop()) if pending else None
        if eqn is None:
            continue
        if eqn.primitive.name in ("and", "convert_element_type"):
            pending += [x for x in eqn.invars if not hasattr(x, "val")]
        if eqn.primitive.name == "lt":
            counter, limit = eqn.invars
            if hasattr(limit, "val") and counter in carried and np.ndim(limit.val) == 0:
                k = carried[counter]
                step = _increment(body, body.invars[n_body + k], body.outvars[k])
                start = carry[k]
                if step and step > 0 and isinstance(start, np.ndarray) and start.item().is_constant:
                    return max(0, math.ceil((int(limit.val) - start.item().payload) / step))
    return None


def cond(tracer: Tracer, eqn, index, *operands):
    """Every branch is computed, and one selected."""
    branches = eqn.params["branches"]
    chosen = tracer.nodes(index).item()
    if chosen.is_constant:
        return tracer.closed(branches[min(max(int(chosen.payload), 0), len(branches) - 1)], operands)
    if chosen.kind == TRUTH:
        chosen = tracer.graph.select(chosen, tracer.graph.constant(1), tracer.graph.constant(0))
    results = [[tracer.nodes(x) for x in tracer.closed(branch, operands)] for branch in branches]
    return [
        elementwise(lambda *xs: tracer.graph.lookup(chosen, xs), *same) if same[0].size else same[0]
        for same in zip(*results, strict=True)
    ]


# --- calls ------------------------------------------------------------------------------------------------------------


def call(key: str):
    def rule(tracer: Tracer, eqn, *args):
        inner = eqn.params[key]
        if hasattr(inner, "consts"):
            return tracer.closed(inner, args)
        return tracer.run(inner, [], args)

    return rule


def custom_linear_solve(tracer: Tracer, eqn, *args):
    p = eqn.params
    lengths, jaxprs = p["const_lengths"], p["jaxprs"]
    counts = [lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve]
    begin = sum(counts[:2])
    return tracer.closed(jaxprs.solve, [*args[begin : begin + counts[2]], *args[sum(counts) :]])


RULES: dict[str, Callable] = {
    "scan": scan,
    "while": while_loop,
    "cond": cond,
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
# Rules that take arrays in memory, or deferred ones, as they are.
TAKES_MEMORY: set[str] = set(RULES)
# Primitives that move data only.
MOVEMENTS: set[str] = set()
