"""Rules for indexing and sorting: with known indices nodes move, with others they are selected."""

from __future__ import annotations

import itertools
import math

import numpy as np

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Memory, Node, array, kind_of
from jaxmbs.programs.tracing.rules import rule
from jaxmbs.programs.tracing.trace import Tracer


def _clamp(graph, index: Node, most: int) -> Node:
    """Return an index held within [0, most], as a node."""
    return graph.make("min", graph.make("max", index, graph.constant(0)), graph.constant(most))


def _window(
    tracer: Tracer, operand: np.ndarray, starts: dict[int, Node], within: tuple[int, ...], most: dict[int, int]
):
    """Return operand[start + within]; starts that are only known when the program runs are held within [0, most]."""
    graph = tracer.graph
    moving = [axis for axis, start in starts.items() if not start.is_constant]
    fixed = list(within)
    for axis, start in starts.items():
        if axis not in moving:
            fixed[axis] += min(max(start.value, 0), most[axis])
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
        index = graph.add(graph.mul(index, graph.constant(size)), _clamp(graph, starts[axis], size - 1))
    return graph.lookup(index, table)


def _loop_row(tracer: Tracer, x: Memory, starts: list[Node], sizes) -> np.ndarray | None:
    """Return a row of an array in memory at the index of a loop, by a load per entry; None if that is impossible."""
    moving = [k for k, start in enumerate(starts) if not start.is_constant]
    if moving != [0] or not starts[0].uniform or sizes[0] != 1:
        return None
    count = x.shape[0]
    rows = x.offsets.reshape(count, -1)
    stride = int(rows[1, 0] - rows[0, 0]) if count > 1 else 0
    if not (rows == rows[0] + stride * np.arange(count)[:, None]).all():
        return None
    index = _clamp(tracer.graph, starts[0], count - 1)
    parts = [slice(0, 1)]
    for k in range(1, len(starts)):
        begin = min(max(starts[k].value, 0), x.shape[k] - sizes[k])
        parts.append(slice(begin, begin + sizes[k]))
    first = x.offsets[tuple(parts)]
    return array([tracer.load(x, int(k), index, stride) for k in first.ravel()], first.shape)


@rule("dynamic_slice", movement=True)
def _dynamic_slice(tracer, eqn, x, *starts):
    """Return a slice whose place is known only at run time; it is moved inside the operand if necessary."""
    sizes = eqn.params["slice_sizes"]
    indices = [tracer.nodes(s).item() for s in starts]
    if isinstance(x, Memory):
        row = _loop_row(tracer, x, indices, sizes)
        if row is not None:
            return row
        if all(s.is_constant for s in indices):
            begins = [min(max(s.value, 0), n - k) for s, n, k in zip(indices, x.shape, sizes, strict=True)]
            return x.reorder(x.offsets[tuple(slice(b, b + k) for b, k in zip(begins, sizes, strict=True))])
    x = tracer.nodes(x)
    most = {axis: x.shape[axis] - size for axis, size in enumerate(sizes)}
    flat = [_window(tracer, x, dict(enumerate(indices)), at, most) for at in np.ndindex(*sizes)]
    return array(flat, sizes)


@rule("dynamic_update_slice")
def _dynamic_update_slice(tracer, eqn, x, update, *starts):
    """Return an array with a slice replaced whose place is known only at run time."""
    graph = tracer.graph
    indices = [s.item() for s in starts]
    result = x.copy()
    most = [n - k for n, k in zip(x.shape, update.shape, strict=True)]
    ranges = [[min(max(s.value, 0), m)] if s.is_constant else range(m + 1) for s, m in zip(indices, most, strict=True)]
    held = [_clamp(graph, s, m) for s, m in zip(indices, most, strict=True)]
    for places in itertools.product(*ranges):
        here = graph.constant(True)
        for place, index in zip(places, held, strict=True):
            here = graph.make("and", here, graph.make("eq", index, graph.constant(place)))
        for at in np.ndindex(*update.shape):
            target = tuple(p + k for p, k in zip(places, at, strict=True))
            result[target] = graph.select(here, update[at], result[target])
    return result


def _mode(eqn) -> str:
    """Return the name of JAX's mode for indices outside an operand, "clip" for example."""
    return str(eqn.params["mode"]).lower()


@rule("gather")
def _gather(tracer, eqn, operand, indices):
    """Return slices of an array at places that are known only at run time."""
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
    missing = tracer.graph.constant(_value_outside(eqn))
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
        flat.append(tracer.graph.select(_are_inside(tracer, starts, most), value, missing) if fills else value)
    return array(flat, out)


def _value_outside(eqn):
    """Return the value that a gather gives for an index outside its operand."""
    value = eqn.params.get("fill_value")
    kind = kind_of(eqn.outvars[0].aval.dtype)
    if value is not None:
        return {REAL: float, INTEGER: int, TRUTH: bool}[kind](value)
    return {REAL: math.nan, INTEGER: 0, TRUTH: True}[kind]


def _are_inside(tracer, starts: dict[int, Node], most: dict[int, int]) -> Node:
    """Return True, as a node, if every start is within [0, most of its axis]."""
    graph = tracer.graph
    result = graph.constant(True)
    for axis, start in starts.items():
        low = graph.make("ge", start, graph.constant(0))
        high = graph.make("le", start, graph.constant(most[axis]))
        result = graph.make("and", result, graph.make("and", low, high))
    return result


def _scatter(combine):
    """Return the rule of a scatter that combines updates by an operation."""

    def rule_(tracer, eqn, operand, indices, updates):
        """Return the operand with updates combined into it at places that are known only at run time."""
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
                starts = {axis: _clamp(graph, s, most[axis]) for axis, s in starts.items()}
            within = [0] * operand.ndim
            for axis, place in zip(windowed, update_dims, strict=True):
                within[axis] = at[place]
            _put(graph, result, starts, within, most, updates[at], combine)
        return result

    return rule_


def _put(graph, result, starts, within, most, update, combine):
    """Combine the number `update` into `result` at the place that the starts give, unless that is outside."""
    ranges = []
    for axis, start in starts.items():
        if start.is_constant:
            if not 0 <= start.value <= most[axis]:
                return
            ranges.append([start.value])
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
    """Return True, as a node, if entry j comes before entry i in a stable sort by `keys`, NaN last."""

    def less(a, b):
        """Return True, as a node, if a < b, NaN being larger than all numbers."""
        below = graph.make("lt", a, b)
        if a.kind != REAL:
            return below
        last = graph.make("and", graph.make("ne", b, b), graph.make("eq", a, a))
        return graph.make("or", below, last)

    return graph.make("not", less(keys[i], keys[j])) if j < i else less(keys[j], keys[i])


@rule("sort")
def _sort(tracer, eqn, *args):
    """Sort short rows stably, by the rank of each entry."""
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
