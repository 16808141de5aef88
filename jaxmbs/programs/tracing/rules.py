"""Rules of JAX's primitives on arrays of nodes."""

from __future__ import annotations

import math

import numpy as np

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Memory, Node, array, kind_of
from jaxmbs.programs.graph.operations import COMPARISONS, OPERATIONS
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.trace import MOVEMENTS, RULES, TAKES_MEMORY, elementwise, variable_array


def _elementwise(formula):
    """Return the rule of a primitive that is formula(do, *arguments), where do(operation, …) works entry by entry."""
    return lambda tracer, eqn, *args: formula(tracer.map, *args)


def _operation(op):
    """Return the rule of a primitive that is the operation `op`, entry by entry."""
    return lambda tracer, eqn, *args: tracer.map(op, *args)


for _name, _entry in OPERATIONS.items():
    RULES.update(dict.fromkeys(_entry.primitives, _operation(_name)))


def _comparison(op):
    """Return the rule of a comparison by the operation `op`."""

    def rule(tracer, eqn, a, b):
        # Large matrices of indices become masks, such as the identity: compare them at once.
        if a.size > tuning.MAX_ENTRIES_ONE_BY_ONE and all(
            x.op == "const" and x.kind == INTEGER for y in (a, b) for x in y.flat
        ):
            numbers = [np.array([x.value for x in y.flat]).reshape(y.shape) for y in (a, b)]
            return tracer.constants(OPERATIONS[op].value(*numbers))
        return tracer.map(op, a, b)

    return rule


for _name in COMPARISONS:
    RULES[_name] = _comparison(_name)
for _name in ("le_to", "lt_to"):
    RULES[_name] = _comparison(_name[:2])


def _logical(op):
    """Return the rule of the operation `op` on truth values; it refuses bitwise operations on integers."""

    def rule(tracer, eqn, *args):
        if any(kind_of(x.aval.dtype) != TRUTH for x in eqn.invars):
            raise ProgramError("bitwise operations on integers have no straight-line form here")
        return tracer.map(op, *args)

    return rule


for _name in ("and", "or", "xor", "not"):
    RULES[_name] = _logical(_name)


def rule(*names: str, movement: bool = False):
    """Declare the rule of primitives; a `movement` only moves entries, those of arrays in memory without a load."""

    def declare(function):
        for name in names:
            RULES[name] = function
            if movement:
                MOVEMENTS.add(name)
                TAKES_MEMORY.add(name)
        return function

    return declare


@rule("copy", "copy_p", "pvary", "reshard", "reduce_precision", movement=True)
def _same(tracer, eqn, *args):
    """Return the arguments unchanged."""
    return list(args)


# Primitives that are a formula of operations, entry by entry; `do` is `Tracer.map`.
for _name, _formula in {
    "square": lambda do, x: do("mul", x, x),
    "rsqrt": lambda do, x: do("div", 1.0, do("sqrt", x)),
    "exp2": lambda do, x: do("exp", do("mul", math.log(2.0), x)),
    "log2": lambda do, x: do("mul", 1 / math.log(2.0), do("log", x)),
    "logistic": lambda do, x: do("div", 1.0, do("add", 1.0, do("exp", do("neg", x)))),
    "one_minus_square": lambda do, x: do("mul", do("add", 1.0, x), do("sub", 1.0, x)),  # exact near 1
    "is_finite": lambda do, x: do("lt", do("abs", x), math.inf),
    "clamp": lambda do, low, x, high: do("min", do("max", x, low), high),
}.items():
    RULES[_name] = _elementwise(_formula)


@rule("optimization_barrier", movement=True)
def _variable(tracer, eqn, *args):
    """Return the arguments, whose entries are variables in every loop that carries them; arrays in memory always are."""
    return [x if isinstance(x, Memory) else variable_array(tracer.nodes(x)) for x in args]


def _without_derivative(op: str):
    """Return the rule of a primitive that stops the derivative of its argument."""

    def rule_(tracer, eqn, x):
        if not tracer.marking:
            return x
        return elementwise(lambda a: tracer.graph.hold(a, op), tracer.nodes(x))

    return rule_


for _name, _op in (("stop_gradient", "stop"), ("save_for_reverse", "save")):
    rule(_name, movement=True)(_without_derivative(_op))


@rule("integer_pow")
def _integer_pow(tracer, eqn, x):
    """Return xⁿ for a constant integer n."""
    return elementwise(lambda a: tracer.graph.power(a, eqn.params["y"]), x)


@rule("pow")
def _pow(tracer, eqn, x, y):
    """Return x to the power of y; small constant integers and ½ by products and roots."""
    graph = tracer.graph

    def power(a: Node, b: Node) -> Node:
        if b.is_constant and float(b.value).is_integer() and abs(b.value) <= 16:
            return graph.power(a, int(b.value))
        if b.is_constant and b.value == 0.5:
            return graph.make("sqrt", a)
        return graph.make("pow", a, graph.make("real", b))

    return elementwise(power, x, y)


@rule("polynomial")
def _polynomial(tracer, eqn, x, *coefficients):
    """Return c₀ + c₁ x + c₂ x² + … by Horner's rule."""
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = tracer.map("add", tracer.map("mul", total, x), coefficient)
    return total


@rule("round")
def _round(tracer, eqn, x):
    """Return x rounded to an integer, ties to even or away from zero."""
    if int(eqn.params["rounding_method"]) == 1:  # to nearest, ties to even
        return tracer.map("round", x)
    size = tracer.map("abs", x)
    whole = tracer.map("floor", size)
    up = tracer.map("ge", tracer.map("sub", size, whole), 0.5)
    rounded = tracer.map("select", up, tracer.map("add", whole, 1.0), whole)
    return tracer.map("mul", tracer.map("sign", x), rounded)


@rule("select_n")
def _select_n(tracer, eqn, index, *cases):
    """Select one of several cases, entry by entry."""
    graph = tracer.graph
    if kind_of(eqn.invars[0].aval.dtype) == TRUTH:
        return elementwise(lambda c, no, yes: graph.select(c, yes, no), index, *cases)
    return elementwise(lambda k, *xs: graph.lookup(k, xs), index, *cases)


@rule("convert_element_type")
def _convert(tracer, eqn, x):
    """Return x converted to another type."""
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


@rule("nextafter", "erf_inv", "lgamma", "digamma")
def _no_form(tracer, eqn, *args):
    """Raise `ProgramError`: the primitive has no straight-line form."""
    raise ProgramError("this function has no straight-line form here")


def _movement(move):
    """Return the rule of a primitive that permutes, repeats or drops entries: of nodes, or of offsets into memory."""

    def apply(tracer, eqn, x, *rest):
        if isinstance(x, Memory):
            return x.reorder(np.asarray(move(x.offsets, eqn.params)))
        x = tracer.nodes(x)
        result = move(x, eqn.params)
        return result if isinstance(result, np.ndarray) else array([result], ())

    return apply


def _broadcast(x, p):
    """Return x repeated along new or longer axes."""
    shape, where = p["shape"], p["broadcast_dimensions"]
    expanded = [1] * len(shape)
    for size, axis in zip(x.shape, where, strict=True):
        expanded[axis] = size
    return np.broadcast_to(x.reshape(expanded), shape)


def _slice(x, p):
    """Return a slice of x with constant limits and strides."""
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
    rule(_name, movement=True)(_movement(_move))


@rule("concatenate")
def _concatenate(tracer, eqn, *args):
    """Return arrays joined along an axis."""
    return np.concatenate(args, axis=eqn.params["dimension"])


@rule("split", movement=True)
def _split(tracer, eqn, x):
    """Return the parts of an array along an axis."""
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    if isinstance(x, Memory):
        return [x.reorder(part) for part in np.split(x.offsets, ends, axis=eqn.params["axis"])]
    return list(np.split(tracer.nodes(x), ends, axis=eqn.params["axis"]))


@rule("iota")
def _iota(tracer, eqn, *args):
    """Return the numbers 0, 1, … along an axis."""
    p = eqn.params
    shape, axis = p["shape"], p["dimension"]
    line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    values = np.broadcast_to(line, shape)
    return tracer.constants(values.astype(float) if kind_of(p["dtype"]) == REAL else values)


@rule("pad")
def _pad(tracer, eqn, x, value):
    """Pad or crop, also between entries."""
    config = eqn.params["padding_config"]
    shape = [lo + hi + size + max(size - 1, 0) * inner for size, (lo, hi, inner) in zip(x.shape, config, strict=True)]
    result = array([value.item()] * math.prod(shape), shape)
    places = [lo + np.arange(size) * (inner + 1) for size, (lo, _, inner) in zip(x.shape, config, strict=True)]
    kept = [(at >= 0) & (at < size) for at, size in zip(places, shape, strict=True)]
    if not x.ndim:
        return x
    source = x[np.ix_(*[np.flatnonzero(k) for k in kept])]
    result[np.ix_(*[at[k] for at, k in zip(places, kept, strict=True)])] = source
    return result


# Operations with f(x, x) = x, of which equal arguments are combined once.
IDEMPOTENT = frozenset({"max", "min", "and", "or"})


def _result_kind(eqn) -> str:
    """Return the kind of the nodes of an equation's first result."""
    return kind_of(eqn.outvars[0].aval.dtype)


def _reduction(combine, start):
    """Return the rule of a reduction by the operation `combine`, which gives `start` for no entries."""

    def rule_(tracer, eqn, x):
        axes = tuple(eqn.params["axes"])
        rest = [k for k in range(x.ndim) if k not in axes]
        size = math.prod(x.shape[k] for k in axes)
        rows = x.transpose([*rest, *axes]).reshape([*(x.shape[k] for k in rest), size])
        flat = rows.reshape(-1, rows.shape[-1]) if rows.size else rows.reshape(math.prod(rows.shape[:-1]), 0)
        results = []
        for row in flat:
            if not len(row):
                results.append(tracer.graph.constant(float(start) if _result_kind(eqn) == REAL else start))
                continue
            # Equal entries change a sum or a product, but no extreme.
            value, *others = dict.fromkeys(row) if combine in IDEMPOTENT else row
            for node in others:
                value = tracer.graph.make(combine, value, node)
            results.append(value)
        return array(results, rows.shape[:-1])

    return rule_


for _name, _op, _start in (
    ("reduce_sum", "add", 0),
    ("reduce_prod", "mul", 1),
    ("reduce_max", "max", -math.inf),
    ("reduce_min", "min", math.inf),
    ("reduce_and", "and", True),
    ("reduce_or", "or", False),
):
    rule(_name)(_reduction(_op, _start))


def _cumulative(op):
    """Return the rule of a cumulative sum, product or extreme, by the operation `op`."""

    def rule_(tracer, eqn, x):
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        rows = np.moveaxis(x, axis, 0)
        order = range(rows.shape[0] - 1, -1, -1) if reverse else range(rows.shape[0])
        result = np.empty_like(rows)
        before = None
        for k in order:
            before = rows[k, ...] if before is None else tracer.map(op, before, rows[k, ...])
            result[k, ...] = before
        return np.moveaxis(result, 0, axis)

    return rule_


for _name, _op in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "max"), ("cummin", "min")):
    rule(_name)(_cumulative(_op))


def _index_of_extreme(better):
    """Return the rule of argmax or argmin; `better` is the comparison that a new best entry wins."""

    def rule_(tracer, eqn, x):
        graph = tracer.graph
        (axis,) = eqn.params["axes"]
        rows = np.moveaxis(x, axis, -1)

        def first(row):
            """Return the index of the first best entry of a row; NaN is better than any number."""
            best, place = row[0], graph.constant(0)
            for k, node in enumerate(row[1:], 1):
                wins = graph.make("or", graph.make(better, node, best), graph.make("ne", node, node))
                wins = graph.make("and", wins, graph.make("eq", best, best))
                best, place = graph.select(wins, node, best), graph.select(wins, graph.constant(k), place)
            return place

        flat = [first(row) for row in rows.reshape(-1, rows.shape[-1])]
        return array(flat, rows.shape[:-1])

    return rule_


rule("argmax")(_index_of_extreme("gt"))
rule("argmin")(_index_of_extreme("lt"))


@rule("dot_general")
def _dot_general(tracer, eqn, a, b):
    """Return a product of batches of matrices."""
    (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    a, shape_a = _as_matrices(a, batch_a, contract_a, first=False)
    b, shape_b = _as_matrices(b, batch_b, contract_b, first=True)
    batch = [eqn.invars[0].aval.shape[k] for k in batch_a]
    results = [product(tracer.graph, x, y) for x, y in zip(a, b, strict=True)]
    flat = [node for matrix in results for row in matrix for node in row]
    return array(flat, (*batch, *shape_a, *shape_b))


def _as_matrices(x, batch, contract, first: bool):
    """Return x as matrices (batch, free, contracted), or (batch, contracted, free) if `first`, and its free shape."""
    free = [k for k in range(x.ndim) if k not in batch and k not in contract]
    order = [*batch, *contract, *free] if first else [*batch, *free, *contract]
    inner = math.prod(x.shape[k] for k in contract)
    outer = math.prod(x.shape[k] for k in free)
    count = math.prod(x.shape[k] for k in batch)
    shape = (count, inner, outer) if first else (count, outer, inner)
    return x.transpose(order).reshape(shape), [x.shape[k] for k in free]


def product(graph, a, b) -> list[list[Node]]:
    """Return the rows of the product of two matrices. Terms that are known to vanish are skipped."""
    zero, negative = graph.constant(0.0 if not a.size or a.flat[0].kind == REAL else 0), graph.constant(-0.0)
    present = lambda row: [(k, x) for k, x in enumerate(row) if x is not zero and x is not negative]
    rows = [present(row) for row in b.tolist()]
    # Most rows of a large matrix are equal: zeros.
    known: dict[tuple, list[Node]] = {}
    for row in (rows_of_a := list(map(tuple, a.tolist()))):
        if row in known:
            continue
        terms: dict[int, list[Node]] = {}
        for k, x in present(row):
            for j, y in rows[k]:
                terms.setdefault(j, []).append(graph.mul(x, y))
        sums = known[row] = [zero] * b.shape[1]
        for j, some in terms.items():
            sums[j] = graph.total(some, zero.kind)
    return [known[row] for row in rows_of_a]


@rule("stack")
def _stack(tracer, eqn, *args):
    """Return arrays stacked along a new axis."""
    return np.stack(args, axis=eqn.params["axis"])


@rule("unstack", movement=True)
def _unstack(tracer, eqn, x):
    """Return the slices of an array along an axis."""
    axis = eqn.params["axis"]
    if isinstance(x, Memory):
        return [x.reorder(part) for part in np.moveaxis(x.offsets, axis, 0)]
    rows = np.moveaxis(tracer.nodes(x), axis, 0)
    return [rows[k, ...] for k in range(len(rows))]


@rule("empty", "empty2")
def _empty(tracer, eqn, *args):
    """Return zeros for memory that will be overwritten."""
    aval = eqn.outvars[0].aval
    return tracer.constants(np.zeros(aval.shape, aval.dtype))


@rule("platform_index")
def _platform_index(tracer, eqn):
    """Choose the general form of a function that has several for different platforms; it comes last."""
    return tracer.constants(len(eqn.params["platforms"]) - 1)
