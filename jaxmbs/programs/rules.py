"""How each JAX primitive acts on arrays of nodes."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np

from jaxmbs.programs.graph import INTEGER, REAL, TRUTH, Node, ProgramError
from jaxmbs.programs.trace import MOVEMENTS, RULES, TAKES_MEMORY, Memory, Tracer, array, elementwise, kind_of

# --- entry by entry ---------------------------------------------------------------------------------------------------

UNARY = (
    *("neg", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp"),
    *("log", "log1p", "expm1", "sqrt", "cbrt", "abs", "sign", "floor", "ceil"),
)
BINARY = ["add", "sub", "mul", "div", "max", "min", "rem", "atan2"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def _elementwise(op):
    return lambda tracer, eqn, *args: tracer.map(op, *args)


for _name in (*UNARY, *BINARY, *COMPARISONS):
    RULES[_name] = _elementwise(_name)
RULES["add_any"] = _elementwise("add")
for _name in ("le_to", "lt_to"):
    RULES[_name] = _elementwise(_name[:2])


def _logical(op):
    def rule(tracer, eqn, *args):
        if any(kind_of(x.aval.dtype) != TRUTH for x in eqn.invars):
            raise ProgramError("bitwise operations on integers have no straight-line form here")
        return tracer.map(op, *args)

    return rule


for _name in ("and", "or", "xor", "not"):
    RULES[_name] = _logical(_name)


def rule(*names: str, movement: bool = False):
    """Declare the rule of primitives; a movement takes arrays in memory as they are."""

    def declare(function):
        for name in names:
            RULES[name] = function
            if movement:
                MOVEMENTS.add(name)
                TAKES_MEMORY.add(name)
        return function

    return declare


@rule("copy", "copy_p", "optimization_barrier", "pvary", "stop_gradient", "reduce_precision", movement=True)
def _same(tracer, eqn, *args):
    return list(args)


@rule("square")
def _square(tracer, eqn, x):
    return tracer.map("mul", x, x)


@rule("integer_pow")
def _integer_pow(tracer, eqn, x):
    return elementwise(lambda a: tracer.graph.power(a, eqn.params["y"]), x)


@rule("pow")
def _pow(tracer, eqn, x, y):
    graph = tracer.graph

    def power(a: Node, b: Node) -> Node:
        if b.is_constant and float(b.payload).is_integer() and abs(b.payload) <= 16:
            return graph.power(a, int(b.payload))
        if b.is_constant and b.payload == 0.5:
            return graph.make("sqrt", a)
        return graph.make("pow", a, graph.make("real", b))

    return elementwise(power, x, y)


@rule("rsqrt")
def _rsqrt(tracer, eqn, x):
    return tracer.map("div", tracer.constants(1.0), tracer.map("sqrt", x))


@rule("exp2")
def _exp2(tracer, eqn, x):
    return tracer.map("exp", tracer.map("mul", tracer.constants(math.log(2.0)), x))


@rule("logistic")
def _logistic(tracer, eqn, x):
    one = tracer.constants(1.0)
    return tracer.map("div", one, tracer.map("add", one, tracer.map("exp", tracer.map("neg", x))))


@rule("round")
def _round(tracer, eqn, x):
    if int(eqn.params["rounding_method"]) == 1:  # to nearest, ties to even
        return tracer.map("round", x)
    size = tracer.map("abs", x)
    whole = tracer.map("floor", size)
    up = tracer.map("ge", tracer.map("sub", size, whole), tracer.constants(0.5))
    rounded = tracer.map("select", up, tracer.map("add", whole, tracer.constants(1.0)), whole)
    return tracer.map("mul", tracer.map("sign", x), rounded)


@rule("is_finite")
def _is_finite(tracer, eqn, x):
    return tracer.map("lt", tracer.map("abs", x), tracer.constants(math.inf))


@rule("select_n")
def _select_n(tracer, eqn, which, *cases):
    graph = tracer.graph
    if kind_of(eqn.invars[0].aval.dtype) == TRUTH:
        return elementwise(lambda c, no, yes: graph.select(c, yes, no), which, *cases)
    return elementwise(lambda k, *xs: graph.lookup(k, xs), which, *cases)


@rule("clamp")
def _clamp(tracer, eqn, low, x, high):
    return tracer.map("min", tracer.map("max", x, low), high)


@rule("convert_element_type")
def _convert(tracer, eqn, x):
    kind = kind_of(eqn.params["new_dtype"])
    graph = tracer.graph

    def convert(a: Node) -> Node:
        if a.kind == kind:
            return a
        if kind == TRUTH:
            return graph.truth(a)
        if a.kind == TRUTH:
            one, zero = (1.0, 0.0) if kind == REAL else (1, 0)
            return graph.select(a, graph.constant(one), graph.constant(zero))
        if kind == REAL or a.kind == INTEGER:
            return graph.make("real", a, kind=kind)
        limits = np.iinfo(eqn.params["new_dtype"])
        whole = graph.make("integer", a, kind=kind)
        if limits.bits == 64:
            return whole
        low, high = graph.constant(int(limits.min)), graph.constant(int(limits.max))
        return graph.make("min", graph.make("max", whole, low), high)

    return elementwise(convert, x)


@rule("nextafter", "erf", "erf_inv", "lgamma", "digamma")
def _no_form(tracer, eqn, *args):
    raise ProgramError("this function has no straight-line form here")


# --- movements --------------------------------------------------------------------------------------------------------


def _moved(move):
    """A rule that permutes, repeats or drops entries: of nodes, or of offsets into memory."""

    def apply(tracer, eqn, x, *rest):
        if isinstance(x, Memory):
            return x.moved(np.asarray(move(x.offsets, eqn.params)))
        x = tracer.nodes(x)
        result = move(x, eqn.params)
        return result if isinstance(result, np.ndarray) else array([result], ())

    return apply


def _broadcast(x, p):
    shape, where = p["shape"], p["broadcast_dimensions"]
    expanded = [1] * len(shape)
    for size, axis in zip(x.shape, where, strict=True):
        expanded[axis] = size
    return np.broadcast_to(x.reshape(expanded), shape)


def _slice(x, p):
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(slice(*s) for s in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]


for _name, _move in {
    "reshape": lambda x, p: x.reshape(p["new_sizes"]),
    "squeeze": lambda x, p: x.reshape(
        [s for k, s in enumerate(x.shape) if k not in {d % x.ndim for d in p["dimensions"]}]
    ),
    "expand_dims": lambda x, p: np.expand_dims(x, p["dimensions"]),
    "transpose": lambda x, p: x.transpose(p["permutation"]),
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "rev": lambda x, p: np.flip(x, p["dimensions"]),
    "tile": lambda x, p: np.tile(x, p["reps"]),
}.items():
    rule(_name, movement=True)(_moved(_move))


@rule("concatenate")
def _concatenate(tracer, eqn, *args):
    return np.concatenate(args, axis=eqn.params["dimension"])


@rule("split", movement=True)
def _split(tracer, eqn, x):
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    if isinstance(x, Memory):
        return [x.moved(part) for part in np.split(x.offsets, ends, axis=eqn.params["axis"])]
    return list(np.split(tracer.nodes(x), ends, axis=eqn.params["axis"]))


@rule("iota")
def _iota(tracer, eqn, *args):
    p = eqn.params
    shape, axis = p["shape"], p["dimension"]
    line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    values = np.broadcast_to(line, shape)
    return tracer.constants(values.astype(float) if kind_of(p["dtype"]) == REAL else values)


MOVEMENTS.update({"concatenate", "iota"})


@rule("pad")
def _pad(tracer, eqn, x, value):
    config = eqn.params["padding_config"]
    shape = [lo + hi + size + max(size - 1, 0) * inner for size, (lo, hi, inner) in zip(x.shape, config, strict=True)]
    result = array([value.item()] * math.prod(shape), shape)
    places = [lo + np.arange(size) * (inner + 1) for size, (lo, _, inner) in zip(x.shape, config, strict=True)]
    kept = [(at >= 0) & (at < size) for at, size in zip(places, shape, strict=True)]
    source = x[np.ix_(*[np.flatnonzero(k) for k in kept])] if x.ndim else x
    if x.ndim:
        result[np.ix_(*[at[k] for at, k in zip(places, kept, strict=True)])] = source
        return result
    return x


# --- sums and products ------------------------------------------------------------------------------------------------


def _reduction(combine, start):
    def rule_(tracer, eqn, x):
        axes = tuple(eqn.params["axes"])
        rest = [k for k in range(x.ndim) if k not in axes]
        rows = x.transpose([*rest, *axes]).reshape([x.shape[k] for k in rest] + [-1])
        flat = rows.reshape(-1, rows.shape[-1]) if rows.size else rows.reshape(math.prod(rows.shape[:-1]), 0)
        results = []
        for row in flat:
            if not len(row):
                results.append(tracer.graph.constant(start(eqn)))
                continue
            value = row[0]
            for node in row[1:]:
                value = tracer.graph.make(combine, value, node)
            results.append(value)
        return array(results, rows.shape[:-1])

    return rule_


def _zero(eqn):
    return 0.0 if kind_of(eqn.outvars[0].aval.dtype) == REAL else 0


def _one(eqn):
    return 1.0 if kind_of(eqn.outvars[0].aval.dtype) == REAL else 1


for _name, _op, _start in (
    ("reduce_sum", "add", _zero),
    ("reduce_prod", "mul", _one),
    ("reduce_max", "max", lambda eqn: -math.inf),
    ("reduce_min", "min", lambda eqn: math.inf),
    ("reduce_and", "and", lambda eqn: True),
    ("reduce_or", "or", lambda eqn: False),
):
    rule(_name)(_reduction(_op, _start))


def _cumulative(op):
    def rule_(tracer, eqn, x):
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        rows = np.moveaxis(x, axis, 0)
        order = range(rows.shape[0] - 1, -1, -1) if reverse else range(rows.shape[0])
        result = np.empty_like(rows)
        before = None
        for k in order:
            here = rows[k] if isinstance(rows[k], np.ndarray) else array([rows[k]], ())
            before = here if before is None else tracer.map(op, before, here)
            result[k] = before if rows.ndim > 1 else before.item()
        return np.moveaxis(result, 0, axis)

    return rule_


for _name, _op in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "max"), ("cummin", "min")):
    rule(_name)(_cumulative(_op))


def _extreme(better):
    def rule_(tracer, eqn, x):
        graph = tracer.graph
        (axis,) = eqn.params["axes"]
        rows = np.moveaxis(x, axis, -1)

        def first(row):
            best, place = row[0], graph.constant(0)
            for k, node in enumerate(row[1:], 1):
                wins = graph.make("or", graph.make(better, node, best), graph.make("ne", node, node))
                wins = graph.make("and", wins, graph.make("eq", best, best))
                best, place = graph.select(wins, node, best), graph.select(wins, graph.constant(k), place)
            return place

        flat = [first(row) for row in rows.reshape(-1, rows.shape[-1])]
        return array(flat, rows.shape[:-1])

    return rule_


rule("argmax")(_extreme("gt"))
rule("argmin")(_extreme("lt"))


@rule("dot_general")
def _dot_general(tracer, eqn, a, b):
    (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    a, shape_a, inner = _as_matrices(a, batch_a, contract_a, first=False)
    b, shape_b, _ = _as_matrices(b, batch_b, contract_b, first=True)
    batch = [eqn.invars[0].aval.shape[k] for k in batch_a]
    results = [product(tracer.graph, x, y, inner) for x, y in zip(a, b, strict=True)]
    flat = [node for matrix in results for row in matrix for node in row]
    return array(flat, (*batch, *shape_a, *shape_b))


def _as_matrices(x, batch, contract, first: bool):
    """x as (batch, free, contracted), or (batch, contracted, free)."""
    free = [k for k in range(x.ndim) if k not in batch and k not in contract]
    order = [*batch, *contract, *free] if first else [*batch, *free, *contract]
    inner = math.prod(x.shape[k] for k in contract)
    outer = math.prod(x.shape[k] for k in free)
    count = math.prod(x.shape[k] for k in batch)
    shape = (count, inner, outer) if first else (count, outer, inner)
    return x.transpose(order).reshape(shape), [x.shape[k] for k in free], inner


def product(graph, a, b, inner: int) -> list[list[Node]]:
    """A matrix product; terms that are known to vanish are not even looked at."""
    zero = graph.constant(0.0 if not a.size or a.flat[0].kind == REAL else 0)
    columns = [{k: b[k, j] for k in range(inner) if b[k, j] is not zero} for j in range(b.shape[1])]
    result = []
    for row in a:
        terms = [(k, x) for k, x in enumerate(row) if x is not zero]
        line = []
        for column in columns:
            products = [graph.mul(x, column[k]) for k, x in terms if k in column]
            line.append(graph.total(products, zero.kind))
        result.append(line)
    return result


# --- indexing ---------------------------------------------------------------------------------------------------------


def _clamped(graph, index: Node, most: int) -> Node:
    return graph.make("min", graph.make("max", index, graph.constant(0)), graph.constant(most))


def _window(
    tracer: Tracer, operand: np.ndarray, starts: dict[int, Node], within: tuple[int, ...], most: dict[int, int]
):
    """operand[start + within], some starts known only when the program runs; those are held within [0, most]."""
    graph = tracer.graph
    moving = [axis for axis, start in starts.items() if not start.is_constant]
    fixed = list(within)
    for axis, start in starts.items():
        if axis not in moving:
            fixed[axis] += min(max(start.payload, 0), most[axis])
    if not moving:
        return operand[tuple(fixed)]
    sizes = [most[axis] + 1 for axis in moving]
    table = []
    for places in itertools.product(*map(range, sizes)):
        at = list(fixed)
        for axis, place in zip(moving, places, strict=True):
            at[axis] += place
        table.append(operand[tuple(at)])
    index = graph.constant(0)
    for axis, size in zip(moving, sizes, strict=True):
        index = graph.add(graph.mul(index, graph.constant(size)), _clamped(graph, starts[axis], size - 1))
    return graph.lookup(index, table)


def _loop_row(tracer: Tracer, x: Memory, starts: list[Node], sizes) -> np.ndarray | None:
    """A row of an array in memory at the index of a loop: one load, no table."""
    moving = [k for k, start in enumerate(starts) if not start.is_constant]
    if moving != [0] or not starts[0].uniform or sizes[0] != 1:
        return None
    count = x.shape[0]
    rows = x.offsets.reshape(count, -1)
    stride = int(rows[1, 0] - rows[0, 0]) if count > 1 else 0
    if not (rows == rows[0] + stride * np.arange(count)[:, None]).all():
        return None
    index = _clamped(tracer.graph, starts[0], count - 1)
    parts = [slice(0, 1)]
    for k in range(1, len(starts)):
        begin = min(max(starts[k].payload, 0), x.shape[k] - sizes[k])
        parts.append(slice(begin, begin + sizes[k]))
    first = x.offsets[tuple(parts)]
    return array([tracer.load(x, int(k), index, stride) for k in first.ravel()], first.shape)


@rule("dynamic_slice", movement=True)
def _dynamic_slice(tracer, eqn, x, *starts):
    sizes = eqn.params["slice_sizes"]
    indices = [tracer.nodes(s).item() for s in starts]
    if isinstance(x, Memory):
        row = _loop_row(tracer, x, indices, sizes)
        if row is not None:
            return row
        if all(s.is_constant for s in indices):
            begins = [min(max(s.payload, 0), n - k) for s, n, k in zip(indices, x.shape, sizes, strict=True)]
            return x.moved(x.offsets[tuple(slice(b, b + k) for b, k in zip(begins, sizes, strict=True))])
    x = tracer.nodes(x)
    most = {axis: x.shape[axis] - size for axis, size in enumerate(sizes)}
    flat = [_window(tracer, x, dict(enumerate(indices)), at, most) for at in np.ndindex(*sizes)]
    return array(flat, sizes)


@rule("dynamic_update_slice")
def _dynamic_update_slice(tracer, eqn, x, update, *starts):
    graph = tracer.graph
    indices = [s.item() for s in starts]
    result = x.copy()
    most = [n - k for n, k in zip(x.shape, update.shape, strict=True)]
    ranges = [
        [min(max(s.payload, 0), m)] if s.is_constant else range(m + 1) for s, m in zip(indices, most, strict=True)
    ]
    held = [_clamped(graph, s, m) for s, m in zip(indices, most, strict=True)]
    for places in itertools.product(*ranges):
        here = graph.constant(True)
        for place, index in zip(places, held, strict=True):
            here = graph.make("and", here, graph.make("eq", index, graph.constant(place)))
        for at in np.ndindex(*update.shape):
            target = tuple(p + k for p, k in zip(places, at, strict=True))
            result[target] = graph.select(here, update[at], result[target])
    return result


def _mode(eqn) -> str:
    return str(eqn.params["mode"]).lower()


@rule("gather")
def _gather(tracer, eqn, operand, indices):
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    out = eqn.outvars[0].aval.shape
    offset_dims = numbers.offset_dims
    batch_dims = [k for k in range(len(out)) if k not in offset_dims]
    windowed = [
        k
        for k in range(operand.ndim)
        if k not in numbers.collapsed_slice_dims and k not in numbers.operand_batching_dims
    ]
    most = {k: operand.shape[k] - sizes[k] for k in range(operand.ndim)}
    fills = "fill" in _mode(eqn)
    missing = tracer.graph.constant(_missing(eqn))
    flat = []
    for at in np.ndindex(*out):
        batch = tuple(at[k] for k in batch_dims)
        row = indices[batch] if indices.ndim else indices
        starts = dict(zip(numbers.start_index_map, np.atleast_1d(row), strict=True))
        for axis, of_index in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
            starts[axis] = tracer.graph.constant(batch[of_index])
        within = [0] * operand.ndim
        for axis, place in zip(windowed, offset_dims, strict=True):
            within[axis] = at[place]
        value = _window(tracer, operand, starts, tuple(within), most)
        flat.append(tracer.graph.select(_inside(tracer, starts, most), value, missing) if fills else value)
    return array(flat, out)


def _missing(eqn):
    """What a gather gives for an index outside of its operand."""
    value = eqn.params.get("fill_value")
    kind = kind_of(eqn.outvars[0].aval.dtype)
    if value is not None:
        return {REAL: float, INTEGER: int, TRUTH: bool}[kind](value)
    return {REAL: math.nan, INTEGER: 0, TRUTH: True}[kind]


def _inside(tracer, starts: dict[int, Node], most: dict[int, int]) -> Node:
    graph = tracer.graph
    result = graph.constant(True)
    for axis, start in starts.items():
        low = graph.make("ge", start, graph.constant(0))
        high = graph.make("le", start, graph.constant(most[axis]))
        result = graph.make("and", result, graph.make("and", low, high))
    return result


def _scatter(combine):
    def rule_(tracer, eqn, operand, indices, updates):
        graph = tracer.graph
        numbers = eqn.params["dimension_numbers"]
        update_dims = numbers.update_window_dims
        batch_dims = [k for k in range(updates.ndim) if k not in update_dims]
        batching = numbers.operand_batching_dims
        windowed = [k for k in range(operand.ndim) if k not in numbers.inserted_window_dims and k not in batching]
        window = {axis: updates.shape[place] for axis, place in zip(windowed, update_dims, strict=True)}
        most = {k: operand.shape[k] - window.get(k, 1) for k in range(operand.ndim)}
        result = operand.copy()
        for at in np.ndindex(*updates.shape):
            batch = tuple(at[k] for k in batch_dims)
            row = indices[batch] if indices.ndim else indices
            starts = dict(zip(numbers.scatter_dims_to_operand_dims, np.atleast_1d(row), strict=True))
            for axis, of_index in zip(batching, numbers.scatter_indices_batching_dims, strict=True):
                starts[axis] = graph.constant(batch[of_index])
            if "clip" in _mode(eqn):
                starts = {axis: _clamped(graph, s, most[axis]) for axis, s in starts.items()}
            within = [0] * operand.ndim
            for axis, place in zip(windowed, update_dims, strict=True):
                within[axis] = at[place]
            _put(graph, result, starts, within, most, updates[at], combine)
        return result

    return rule_


def _put(graph, result, starts, within, most, update, combine):
    """Combine one number into the place that the starts say, if it exists."""
    ranges = []
    for axis, start in starts.items():
        if start.is_constant:
            if not 0 <= start.payload <= most[axis]:
                return
            ranges.append([start.payload])
        else:
            ranges.append(list(range(most[axis] + 1)))
    for places in itertools.product(*ranges):
        target, here = list(within), graph.constant(True)
        for (axis, start), place in zip(starts.items(), places, strict=True):
            target[axis] += place
            here = graph.make("and", here, graph.make("eq", start, graph.constant(place)))
        old = result[tuple(target)]
        result[tuple(target)] = graph.select(here, combine(graph, old, update), old)


rule("scatter")(_scatter(lambda graph, old, new: new))
rule("scatter-add", "scatter_add")(_scatter(lambda graph, old, new: graph.add(old, new)))
rule("scatter-mul", "scatter_mul")(_scatter(lambda graph, old, new: graph.mul(old, new)))
rule("scatter-min", "scatter_min")(_scatter(lambda graph, old, new: graph.make("min", old, new)))
rule("scatter-max", "scatter_max")(_scatter(lambda graph, old, new: graph.make("max", old, new)))


def _precedes(graph, keys, j: int, i: int) -> Node:
    """Whether entry j comes before entry i in a stable sort, NaN last."""

    def less(a, b):
        below = graph.make("lt", a, b)
        if a.kind != REAL:
            return below
        last = graph.make("and", graph.make("ne", b, b), graph.make("eq", a, a))
        return graph.make("or", below, last)

    return graph.make("not", less(keys[i], keys[j])) if j < i else less(keys[j], keys[i])


@rule("sort")
def _sort(tracer, eqn, *args):
    """A stable sort of short rows by the rank of each entry."""
    graph = tracer.graph
    if eqn.params["num_keys"] != 1:
        raise ProgramError("sorting by several keys has no straight-line form here")
    axis = eqn.params["dimension"]
    rows = [np.moveaxis(x, axis, -1) for x in args]
    count = rows[0].shape[-1]
    results = [np.empty_like(x) for x in rows]
    for at in np.ndindex(*rows[0].shape[:-1]):
        keys = rows[0][at]
        ranks = []
        for i in range(count):
            before = [_precedes(graph, keys, j, i) for j in range(count) if j != i]
            ones = [graph.select(b, graph.constant(1), graph.constant(0)) for b in before]
            ranks.append(graph.total(ones, INTEGER))
        for x, result in zip(rows, results, strict=True):
            for k in range(count):
                value = x[at][count - 1]
                for i in range(count - 1):
                    value = graph.select(graph.make("eq", ranks[i], graph.constant(k)), x[at][i], value)
                result[(*at, k)] = value
    return [np.moveaxis(x, -1, axis) for x in results]


@rule("stack")
def _stack(tracer, eqn, *args):
    return np.stack(args, axis=eqn.params["axis"])


MOVEMENTS.add("stack")


@rule("unstack", movement=True)
def _unstack(tracer, eqn, x):
    axis = eqn.params["axis"]
    if isinstance(x, Memory):
        return [x.moved(part) for part in np.moveaxis(x.offsets, axis, 0)]
    rows = np.moveaxis(tracer.nodes(x), axis, 0)
    return [row if isinstance(row, np.ndarray) else array([row], ()) for row in rows]


@rule("empty", "empty2")
def _empty(tracer, eqn, *args):
    """Memory that will be overwritten."""
    aval = eqn.outvars[0].aval
    return tracer.constants(np.zeros(aval.shape, aval.dtype))


@rule("platform_index")
def _platform_index(tracer, eqn):
    """Among the forms of a function for different platforms the general one, which comes last."""
    return tracer.constants(len(eqn.params["platforms"]) - 1)


# --- dense algebra ----------------------------------------------------------------------------------------------------


def _by_matrix(x: np.ndarray):
    return x.reshape(-1, *x.shape[-2:])


@rule("cholesky")
def _cholesky(tracer, eqn, x):
    graph = tracer.graph
    results = []
    for a in _by_matrix(x):
        n = a.shape[0]
        lower = tracer.constants(np.zeros((n, n)))
        for j in range(n):
            taken = graph.total([graph.mul(lower[j, k], lower[j, k]) for k in range(j)])
            pivot = lower[j, j] = graph.make("sqrt", graph.sub(a[j, j], taken))
            reciprocal = graph.make("div", graph.constant(1.0), pivot)
            for i in range(j + 1, n):
                taken = graph.total([graph.mul(lower[i, k], lower[j, k]) for k in range(j)])
                lower[i, j] = graph.mul(graph.sub(a[i, j], taken), reciprocal)
        results.append(lower)
    return np.stack(results).reshape(x.shape)


@rule("triangular_solve")
def _triangular_solve(tracer, eqn, a, b):
    p = eqn.params
    results = []
    for matrix, rhs in zip(_by_matrix(a), _by_matrix(b), strict=True):
        lower = p["lower"]
        if p["transpose_a"]:
            matrix, lower = matrix.T, not lower
        if not p["left_side"]:
            matrix, lower, rhs = matrix.T, not lower, rhs.T
        x = _substitute(tracer.graph, matrix, rhs, lower, p["unit_diagonal"])
        results.append(x if p["left_side"] else x.T)
    return np.stack(results).reshape(b.shape)


def _substitute(graph, matrix, rhs, lower: bool, unit: bool):
    n = matrix.shape[0]
    x = np.empty_like(rhs)
    for i in range(n) if lower else reversed(range(n)):
        done = range(i) if lower else range(i + 1, n)
        reciprocal = None if unit else graph.make("div", graph.constant(1.0), matrix[i, i])
        for k in range(rhs.shape[1]):
            value = rhs[i, k]
            for j in done:
                value = graph.sub(value, graph.mul(matrix[i, j], x[j, k]))
            x[i, k] = value if reciprocal is None else graph.mul(value, reciprocal)
    return x


@rule("lu")
def _lu(tracer, eqn, x):
    """Partial pivoting: rows are swapped by selection, unless only one entry of a column can be the pivot."""
    graph = tracer.graph
    factors, pivots, orders = [], [], []
    zero = graph.constant(0.0)
    for a in _by_matrix(x):
        a = a.copy()
        m, n = a.shape
        order = [graph.constant(i) for i in range(m)]
        swaps = []
        for j in range(min(m, n)):
            place, best = graph.constant(j), graph.make("abs", a[j, j])
            rivals = [i for i in range(j + 1, m) if a[i, j] is not zero]
            for i in rivals:
                size = graph.make("abs", a[i, j])
                better = graph.make("gt", size, best)
                place, best = graph.select(better, graph.constant(i), place), graph.select(better, size, best)
            for i in rivals:
                here = graph.make("eq", place, graph.constant(i))
                for row in (*(a[:, k] for k in range(n)), order):
                    row[i], row[j] = graph.select(here, row[j], row[i]), graph.select(here, row[i], row[j])
            swaps.append(place)
            reciprocal = graph.make("div", graph.constant(1.0), a[j, j])
            for i in range(j + 1, m):
                a[i, j] = graph.mul(a[i, j], reciprocal)
                for k in range(j + 1, n):
                    a[i, k] = graph.sub(a[i, k], graph.mul(a[i, j], a[j, k]))
        factors.append(a)
        pivots.append(swaps)
        orders.append(order)
    shapes = [v.aval.shape for v in eqn.outvars]
    return [
        np.stack(factors).reshape(shapes[0]),
        array([p for row in pivots for p in row], shapes[1]),
        array([p for row in orders for p in row], shapes[2]),
    ]


@rule("straight_line_program", movement=True)
def _program(tracer, eqn, *args):
    """A program within a program is taken apart again, so that both share what they have in common."""
    if not eqn.params["batch"]:
        return tracer.closed(eqn.params["program"].source, args)
    from jaxmbs.programs.primitive import as_array_code  # which knows this module

    shapes = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in eqn.invars]
    return tracer.closed(jax.make_jaxpr(as_array_code(eqn.params))(*shapes), args)
