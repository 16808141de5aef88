"""States that loops keep for reverse mode: before every iteration, or before each segment of iterations only.

If only the first state of a segment is kept, reverse mode computes the states of the segment again before it goes back
through it, and keeps values that take long to compute with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxmbs.programs.backends import is_by_threads
from jaxmbs.programs.derivatives.copying import CopiedIterations, CopiedRegion, Copy, View
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import Buffer, Loop, Memory, Node
from jaxmbs.programs.runtime import tuning


def settings() -> tuple[int, ...]:
    """Return the constants of `tuning` on which programs for reverse mode depend, for their keys in the store."""
    return (
        kept_bytes(),
        tuning.KEPT_STATE_BYTES_INNER_LOOP,
        tuning.MAX_ITERATIONS_KEEPING_NOTHING,
        tuning.MAX_ITERATIONS_KEEPING_COSTLY,
    )


def kept_bytes() -> int:
    """Return the limit on the bytes of states that a loop keeps from the forward run, in programs traced now."""
    return tuning.KEPT_STATE_BYTES_GPU if is_by_threads() else tuning.KEPT_STATE_BYTES


class Segments(NamedTuple):
    """Iterations of a loop from number `first` on: `segments` segments of `size` iterations each."""

    first: int
    segments: int
    size: int


class KeptStates(NamedTuple):
    """States and values that are kept of some segments of a loop.

    Attributes:
        part: the segments.
        states: carried values before each segment.
        known: values of nodes in each iteration, if segments have one iteration.
        rows: the states as they lie in memory, in groups of carried values.
        flipped: True if rows lie in the order from the last segment to the first.
    """

    part: Segments
    states: dict[int, View]
    known: dict[int, View]
    rows: list[Memory]
    flipped: bool


def parts_of(length: int, state_bytes: int, budget: float) -> list[Segments]:
    """Return a loop's segments: of one iteration if their states are within a budget of bytes, else of about √n iterations.

    All segments are equally long if there is such a size below 2 √n, because they are then compiled once; else the rest
    is one more segment.
    """
    if length * state_bytes <= budget:
        return [Segments(0, length, 1)]
    least = math.isqrt(length - 1) + 1
    size = next((size for size in range(least, 2 * least + 1) if length % size == 0), least)
    whole, rest = divmod(length, size)
    return [Segments(0, whole, size), *([Segments(whole * size, 1, rest)] if rest else [])]


def state_bytes(loop: Loop, carried: Sequence[int], size: int) -> int:
    """Return the bytes of one state, the carried values with these numbers, if real numbers have `size` bytes."""
    return sum({"f": size, "i": 8, "b": 1}[loop.params[k].kind] for k in carried)


def run_segments(
    copy: Copy,
    loop: Loop,
    copied: CopiedRegion,
    parts: Sequence[Segments],
    known: Sequence[Node],
    groups: Sequence[Sequence[int]],
) -> list[KeptStates]:
    """Copy a loop segment by segment, with its results, and return the states that it keeps.

    Args:
        copy: copy of the graph in which the loop is.
        loop: loop of the old graph.
        copied: copy of its region; gets the results.
        parts: its segments.
        known: nodes whose values are kept of every iteration.
        groups: carried values that lie side by side in memory.

    Returns:
        The states of each part.
    """
    graph = copy.graph
    carried = copy.need.params(loop)
    state = {k: copy.value(loop.inits[k], copied) for k in carried}
    kept, rows = [], []
    for part in parts:
        first, count, size = part
        if size == 1:
            number = lambda k, first=first: graph.add(graph.constant(first), k)
            found = copy.iterations(loop, copied, state, count, number, states=groups, known=known)
        else:
            found = _by_segments(copy, loop, copied, part, state, groups)
        state = found.finals
        rows.append(found.rows)
        kept.append(KeptStates(part, *found.views(groups), found.states, found.flipped))
    copied.finals.update({(loop, k): x for k, x in state.items()})
    for buffer, _ in copy.need.rows(loop):
        copied.memory[buffer] = _join_rows(loop, buffer, parts, [found[buffer] for found in rows])
    return kept


def _by_segments(
    copy: Copy,
    loop: Loop,
    copied: CopiedRegion,
    part: Segments,
    state: dict[int, Node],
    groups: Sequence[Sequence[int]],
) -> CopiedIterations:
    """Copy a part of a loop as a loop over its segments; keep the carried values before each segment.

    Args:
        copy: copy of the graph in which the loop is.
        loop: loop of the old graph.
        copied: copy of its region.
        part: the segments.
        state: copied node before the part, by number of the carried value.
        groups: numbers of carried values kept side by side in one array.

    Returns:
        The copied iterations; their `states` are those before each segment, an array for each group.
    """
    graph, count = copy.graph, part.segments
    outer = graph.open_loop(count, reverse=loop.reverse)
    begin = {k: graph.carry(outer, x) for k, x in state.items()}
    found = copy.iterations(loop, copied, begin, part.size, iteration_number(graph, part, outer.index))
    outer.results = [found.finals[k] for k in begin]
    for memory in found.rows.values():
        nodes = [View.of(memory).at(graph, k) for k in range(memory.offsets.size)]
        outer.write_row(nodes)
    for group in groups:
        outer.write_row([begin[k] for k in group])
    node = graph.close_loop(outer)
    laid = [buffer.whole(node) for buffer, _ in outer.rows]
    finals = {k: graph.final(node, j) for j, k in enumerate(begin)}
    split = len(found.rows)
    return CopiedIterations(finals, dict(zip(found.rows, laid, strict=False)), laid[split:], {}, outer.reverse)


def group_by_kind(loop: Loop, carried: Sequence[int]) -> list[list[int]]:
    """Return the numbers of carried values in groups of the same kind."""
    kinds: dict[str, list[int]] = {}
    for k in carried:
        kinds.setdefault(loop.params[k].kind, []).append(k)
    return list(kinds.values())


def iteration_number(graph: Graph, part: Segments, segment: Node) -> Callable[[Node], Node]:
    """Return the function (iteration within a segment) ↦ its number in the whole loop, for this `segment`."""
    start = graph.add(graph.constant(part.first), graph.mul(segment, graph.constant(part.size)))
    return lambda k: graph.add(start, k)


def _join_rows(loop: Loop, buffer: Buffer, parts: Sequence[Segments], found: Sequence[Memory]) -> View:
    """Return the rows of a loop from those of its parts, each of which wrote its own in the order of the loop."""
    width, pieces = buffer.width, []
    for part, memory in zip(parts, found, strict=True):
        iterations = part.segments * part.size
        first = loop.length - part.first - iterations if loop.reverse else part.first
        offsets = np.full(loop.length * width, -1)
        offsets[first * width : (first + iterations) * width] = memory.offsets.ravel()
        pieces.append((memory.buffer, memory.after, offsets))
    return View(pieces)
