"""Rules of JAX's primitives on arrays of nodes."""

from __future__ import annotations

import math

import numpy as np

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Memory, Node, array, kind_of
from jaxmbs.programs.graph.operations import COMPARISONS, OPERATIONS
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.trace import MOVEMENTS, RULES, TAKES_MEMORY, elementwise


def _elementwise(op):
    """Return the rule of a primitive that is the operation `op` entry by entry."""
    return lambda tracer, eqn, *args: tracer.map(op, *args)


for _name, _operation in OPERATIONS.items():
    RULES.update(dict.fromkeys(_operation.primitives, _elementwise(_name)))


def _comparison(op):
    """Return the rule of a comparison by the operation `op`."""

    def rule(tracer, eqn, a, b):
        """Compare entry by entry; two large arrays of known integers at once."""
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
    """Return the rule of the operation `op` on truth values."""

    def rule(tracer, eqn, *args):
        """Combine truth values entry by entry; refuse bitwise operations on integers."""
        if any(kind_of(x.aval.dtype) != TRUTH for x in eqn.invars):
            raise ProgramError("bitwise operations on integers have no straight-line form here")
        return tracer.map(op, *args)

    return rule


for _name in ("and", "or", "xor", "not"):
    RULES[_name] = _logical(_name)


def rule(*names: str, movement: bool = False):
    """Declare the rule of primitives; a `movement` takes arrays in memory without loading them."""

    def declare(function):
        """Register a function as the rule of these primitives."""
        for name in names:
            RULES[name] = function
            if movement:
                MOVEMENTS.add(name)
                TAKES_MEMORY.add(name)
        return function

    return declare


@rule("copy", "copy_p", "optimization_barrier", "pvary", "reshard", "reduce_precision", movement=True)
def _same(tracer, eqn, *args):
    """Return the arguments unchanged."""
    return list(args)


def _without_derivative(op: str):
    """Return the rule of a primitive that stops the derivative of its argument."""

    def rule_(tracer, eqn, x):
        """Return the argument, its derivative stopped in a graph that is to be differentiated."""
        if not tracer.marking:
            return x
        return elementwise(lambda a: tracer.graph.hold(a, op), tracer.nodes(x))

    return rule_


for _name, _op in (("stop_gradient", "stop"), ("save_for_reverse", "save")):
    rule(_name, movement=True)(_without_derivative(_op))


@rule("square")
def _square(tracer, eqn, x):
    """Return x²."""
    return tracer.map("mul", x, x)


@rule("integer_pow")
def _integer_pow(tracer, eqn, x):
    """Return xⁿ for a constant integer n."""
    return elementwise(lambda a: tracer.graph.power(a, eqn.params["y"]), x)


@rule("pow")
def _pow(tracer, eqn, x, y):
    """Return x to the power of y; small constant integers and ½ by products and roots."""
    graph = tracer.graph

    def power(a: Node, b: Node) -> Node:
        """Return a to the power of b for one entry."""
        if b.is_constant and float(b.value).is_integer() and abs(b.value) <= 16:
            return graph.power(a, int(b.value))
        if b.is_constant and b.value == 0.5:
            return graph.make("sqrt", a)
        return graph.make("pow", a, graph.make("real", b))

    return elementwise(power, x, y)


@rule("rsqrt")
def _rsqrt(tracer, eqn, x):
    """Return 1 / √x."""
    return tracer.map("div", tracer.constants(1.0), tracer.map("sqrt", x))


@rule("exp2")
def _exp2(tracer, eqn, x):
    """Return 2 to the power of x."""
    return tracer.map("exp", tracer.map("mul", tracer.constants(math.log(2.0)), x))


@rule("log2")
def _log2(tracer, eqn, x):
    """Return the logarithm of x to the base 2."""
    return tracer.map("mul", tracer.constants(1 / math.log(2.0)), tracer.map("log", x))


@rule("one_minus_square")
def _one_minus_square(tracer, eqn, x):
    """Return (1 + x)(1 − x), which is exact where x is close to 1."""
    one = tracer.constants(1.0)
    return tracer.map("mul", tracer.map("add", one, x), tracer.map("sub", one, x))


@rule("polynomial")
def _polynomial(tracer, eqn, x, *coefficients):
    """Return c₀ + c₁ x + c₂ x² + … by Horner's rule."""
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = tracer.map("add", tracer.map("mul", total, x), coefficient)
    return total


@rule("logistic")
def _logistic(tracer, eqn, x):
    """Return 1 / (1 + exp(−x))."""
    one = tracer.constants(1.0)
    return tracer.map("div", one, tracer.map("add", one, tracer.map("exp", tracer.map("neg", x))))


@rule("round")
def _round(tracer, eqn, x):
    """Return x rounded to an integer, ties to even or away from zero."""
    if int(eqn.params["rounding_method"]) == 1:  # to nearest, ties to even
        return tracer.map("round", x)
    size = tracer.map("abs", x)
    whole = tracer.map("floor", size)
    up = tracer.map("ge", tracer.map("sub", size, whole), tracer.constants(0.5))
    rounded = tracer.map("select", up, tracer.map("add", whole, tracer.constants(1.0)), whole)
    return tracer.map("mul", tracer.map("sign", x), rounded)


@rule("is_finite")
def _is_finite(tracer, eqn, x):
    """Return True where x is neither infinite nor NaN."""
    return tracer.map("lt", tracer.map("abs", x), tracer.constants(math.inf))


@rule("select_n")
def _select_n(tracer, eqn, index, *cases):
    """Select one of several cases, entry by entry."""
    graph = tracer.graph
    if kind_of(eqn.invars[0].aval.dtype) == TRUTH:
        return elementwise(lambda c, no, yes: graph.select(c, yes, no), index, *cases)
    return elementwise(lambda k, *xs: graph.lookup(k, xs), index, *cases)


@rule("clamp")
def _clamp(tracer, eqn, low, x, high):
    """Return x held within [low, high]."""
    return tracer.map("min", tracer.map("max", x, low), high)


@rule("convert_element_type")
def _convert(tracer, eqn, x):
    """Return x converted to another type."""
    kind = kind_of(eqn.params["new_dtype"])
    graph = tracer.graph

    def convert(a: Node) -> Node:
        """Convert one entry."""
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
        """Move the entries of x, as nodes or as offsets into memory."""
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


MOVEMENTS.update({"concatenate", "iota"})


@rule("pad")
def _pad(tracer, eqn, x, value):
    """Pad or crop, also between entries."""
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


# Operations with f(x, x) = x, of which equal arguments are combined once.
IDEMPOTENT = frozenset({"max", "min", "and", "or"})


def _reduction(combine, start):
    """Return the rule of a reduction by the operation `combine`, which gives start(equation) for no entries."""

    def rule_(tracer, eqn, x):
        """Return the reduction along the equation's axes."""
        axes = tuple(eqn.params["axes"])
        rest = [k for k in range(x.ndim) if k not in axes]
        size = math.prod(x.shape[k] for k in axes)
        rows = x.transpose([*rest, *axes]).reshape([*(x.shape[k] for k in rest), size])
        flat = rows.reshape(-1, rows.shape[-1]) if rows.size else rows.reshape(math.prod(rows.shape[:-1]), 0)
        results = []
        for row in flat:
            if not len(row):
                results.append(tracer.graph.constant(start(eqn)))
                continue
            # Equal entries change a sum or a product, but no extreme.
            value, *others = dict.fromkeys(row) if combine in IDEMPOTENT else row
            for node in others:
                value = tracer.graph.make(combine, value, node)
            results.append(value)
        return array(results, rows.shape[:-1])

    return rule_


def _zero(eqn):
    """Return the sum of no entries: 0 in the type of the equation's result."""
    return 0.0 if kind_of(eqn.outvars[0].aval.dtype) == REAL else 0


def _one(eqn):
    """Return the product of no entries: 1 in the type of the equation's result."""
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
    """Return the rule of a cumulative sum, product or extreme, by the operation `op`."""

    def rule_(tracer, eqn, x):
        """Return the partial results along the equation's axis."""
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
    """Return the rule of argmax or argmin; `better` is the comparison that a new best entry wins."""

    def rule_(tracer, eqn, x):
        """Return the index of the largest or smallest entry along the equation's axis."""
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


rule("argmax")(_extreme("gt"))
rule("argmin")(_extreme("lt"))


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
    """Return the product of two matrices. Terms that are known to vanish are skipped."""
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


MOVEMENTS.add("stack")


@rule("unstack", movement=True)
def _unstack(tracer, eqn, x):
    """Return the slices of an array along an axis."""
    axis = eqn.params["axis"]
    if isinstance(x, Memory):
        return [x.reorder(part) for part in np.moveaxis(x.offsets, axis, 0)]
    rows = np.moveaxis(tracer.nodes(x), axis, 0)
    return [row if isinstance(row, np.ndarray) else array([row], ()) for row in rows]


@rule("empty", "empty2")
def _empty(tracer, eqn, *args):
    """Return zeros for memory that will be overwritten."""
    aval = eqn.outvars[0].aval
    return tracer.constants(np.zeros(aval.shape, aval.dtype))


@rule("platform_index")
def _platform_index(tracer, eqn):
    """Choose the general form of a function that has several for different platforms; it comes last."""
    return tracer.constants(len(eqn.params["platforms"]) - 1)
