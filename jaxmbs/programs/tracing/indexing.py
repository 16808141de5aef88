"""Rules for indexing and sorting: with known indices nodes move, with others they are selected."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Memory, Node, array, kind_of
from jaxmbs.programs.tracing.rules import rule
from jaxmbs.programs.tracing.trace import Tracer


def _clamp(graph, index: Node, most: int) -> Node:
    """Return an index held within [0, most], as a node."""
    return graph.make("min", graph.make("max", index, graph.constant(0)), graph.constant(most))


def _window(
    graph: Graph, operand: np.ndarray, starts: dict[int, Node], within: dict[int, int], most: dict[int, int]
) -> Node:
    """Return the entry of `operand` at starts + within by axis, each start held within [0, most]."""
    moving = [axis for axis, start in starts.items() if not start.is_constant]
    fixed = [within.get(k, 0) for k in range(operand.ndim)]
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
    stride = x.row_stride()
    if stride is None:
        return None
    index = _clamp(tracer.graph, starts[0], x.shape[0] - 1)
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
    first = dict(enumerate(indices))
    flat = [_window(tracer.graph, x, first, dict(enumerate(at)), most) for at in np.ndindex(*sizes)]
    return array(flat, sizes)


@rule("dynamic_update_slice")
def _dynamic_update_slice(tracer, eqn, x, update, *starts):
    """Return an array with a slice replaced whose place is known only at run time."""
    graph, result = tracer.graph, x.copy()
    indices = [s.item() for s in starts]
    most = [n - k for n, k in zip(x.shape, update.shape, strict=True)]
    ranges = [[min(max(s.value, 0), m)] if s.is_constant else range(m + 1) for s, m in zip(indices, most, strict=True)]
    held = {axis: _clamp(graph, s, m) for axis, (s, m) in enumerate(zip(indices, most, strict=True))}
    for places in itertools.product(*ranges):
        here = _are_at(graph, held, places)
        for at in np.ndindex(*update.shape):
            target = tuple(p + k for p, k in zip(places, at, strict=True))
            result[target] = graph.select(here, update[at], result[target])
    return result


def _are_at(graph: Graph, starts: dict[int, Node], places: Sequence[int]) -> Node:
    """Return True, as a node, if the starts equal these places, one for each."""
    result = graph.constant(True)
    for start, place in zip(starts.values(), places, strict=True):
        result = graph.make("and", result, graph.make("eq", start, graph.constant(place)))
    return result


def _mode(eqn) -> str:
    """Return the name of JAX's mode for indices outside an operand, "clip" for example."""
    return str(eqn.params["mode"]).lower()


def _entries(graph: Graph, indices: np.ndarray, shape, window_dims, window_axes, index_axes, batching):
    """Yield the place of each entry in an array of windows, the start of its window, and its place in it.

    The array has a shape and windows along `window_dims`, which are `window_axes` of the operand. Starts and places in
    windows are by axis of the operand: `indices` has starts along `index_axes`, and along the first axis of each pair
    in `batching` the start is the place along the second.
    """
    batch_dims = [k for k in range(len(shape)) if k not in window_dims]
    for at in np.ndindex(*shape):
        batch = tuple(at[k] for k in batch_dims)
        starts = dict(zip(index_axes, np.atleast_1d(indices[batch] if indices.ndim else indices), strict=True))
        starts.update({axis: graph.constant(batch[k]) for axis, k in batching})
        yield at, starts, {axis: at[dim] for axis, dim in zip(window_axes, window_dims, strict=True)}


@rule("gather")
def _gather(tracer, eqn, operand, indices):
    """Return slices of an array at places that are known only at run time."""
    graph, numbers, sizes = tracer.graph, eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    out = eqn.outvars[0].aval.shape
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    window_axes = [k for k in range(operand.ndim) if k not in dropped]
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    most = {k: operand.shape[k] - sizes[k] for k in range(operand.ndim)}
    fills = "fill" in _mode(eqn)
    missing = graph.constant(_value_outside(eqn))
    flat = []
    entries = _entries(graph, indices, out, numbers.offset_dims, window_axes, numbers.start_index_map, batching)
    for _, starts, within in entries:
        value = _window(graph, operand, starts, within, most)
        flat.append(graph.select(_are_inside(graph, starts, most), value, missing) if fills else value)
    return array(flat, out)


def _value_outside(eqn):
    """Return the Python number that a gather gives for an index outside its operand."""
    value = eqn.params.get("fill_value")
    kind = kind_of(eqn.outvars[0].aval.dtype)
    if value is None:
        return {REAL: math.nan, INTEGER: 0, TRUTH: True}[kind]
    return {REAL: float, INTEGER: int, TRUTH: bool}[kind](value)


def _are_inside(graph: Graph, starts: dict[int, Node], most: dict[int, int]) -> Node:
    """Return True, as a node, if every start is within [0, most of its axis]."""
    result = graph.constant(True)
    for axis, start in starts.items():
        low = graph.make("ge", start, graph.constant(0))
        high = graph.make("le", start, graph.constant(most[axis]))
        result = graph.make("and", result, graph.make("and", low, high))
    return result


def _scatter(combine: Callable[[Graph, Node, Node], Node]):
    """Return the rule of a scatter; combine(graph, old, update) is the new value of an entry."""

    def rule_(tracer, eqn, operand, indices, updates):
        graph, numbers = tracer.graph, eqn.params["dimension_numbers"]
        window_dims = numbers.update_window_dims
        dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        window_axes = [k for k in range(operand.ndim) if k not in dropped]
        batching = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
        window = {axis: updates.shape[dim] for axis, dim in zip(window_axes, window_dims, strict=True)}
        most = {k: operand.shape[k] - window.get(k, 1) for k in range(operand.ndim)}
        result = operand.copy()
        index_axes = numbers.scatter_dims_to_operand_dims
        for at, starts, within in _entries(
            graph, indices, updates.shape, window_dims, window_axes, index_axes, batching
        ):
            if "clip" in _mode(eqn):
                starts = {axis: _clamp(graph, s, most[axis]) for axis, s in starts.items()}
            _put(graph, result, starts, within, most, updates[at], combine)
        return result

    return rule_


def _put(
    graph: Graph,
    result: np.ndarray,
    starts: dict[int, Node],
    within: dict[int, int],
    most: dict[int, int],
    update: Node,
    combine: Callable[[Graph, Node, Node], Node],
) -> None:
    """Combine `update` into the entry of `result` at starts + within by axis, unless a start is outside [0, most]."""
    ranges: list[Iterable[int]] = []
    for axis, start in starts.items():
        if not start.is_constant:
            ranges.append(range(most[axis] + 1))
        elif 0 <= start.value <= most[axis]:
            ranges.append([start.value])
        else:
            return
    for places in itertools.product(*ranges):
        first = dict(zip(starts, places, strict=True))
        target = tuple(first.get(k, 0) + within.get(k, 0) for k in range(result.ndim))
        old = result[target]
        result[target] = graph.select(_are_at(graph, starts, places), combine(graph, old, update), old)


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
