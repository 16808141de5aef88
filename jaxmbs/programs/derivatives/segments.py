"""What a loop keeps for its way back: the carried state before every round, or before each segment of rounds only.

Where only the first state of a segment is kept, the way back computes the states of the segment again before it goes
through it. What is remembered, and what takes long to compute, is then kept for the segment as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxmbs.programs.backends import is_by_threads
from jaxmbs.programs.derivatives.copying import Copy, Place, Rounds, View
from jaxmbs.programs.graph.nodes import Buffer, Loop, Memory, Node
from jaxmbs.programs.runtime import tuning


def settings() -> tuple:
    """What decides how a program is gone back through, beside the program."""
    return (
        kept_bytes(),
        tuning.KEPT_STATE_BYTES_INNER_LOOP,
        tuning.MAX_ITERATIONS_KEEPING_NOTHING,
        tuning.MAX_ITERATIONS_KEEPING_COSTLY,
    )


def kept_bytes() -> int:
    """Bytes of states that loops keep from the forward run, in programs that are traced now."""
    return tuning.KEPT_STATE_BYTES_GPU if is_by_threads() else tuning.KEPT_STATE_BYTES


class Part(NamedTuple):
    """Rounds of a loop from the `first`: a number of segments of equal size."""

    first: int
    segments: int
    size: int


class Kept(NamedTuple):
    """Of a part of a loop: the states before its segments, and what is known of its rounds where each is a segment.

    rows: the states as they lie in memory, in groups of carried values; flipped, from the last segment to the first.
    """

    part: Part
    states: dict[int, View]
    known: dict[int, View]
    rows: list[Memory]
    flipped: bool


def parts_of(length: int, state_bytes: int, budget: float) -> list[Part]:
    """Every round for itself if their states are within the budget, else segments of some √n rounds.

    If it can be so that all segments are equally long, which are then compiled once; else the rest is one more.
    """
    if length * state_bytes <= budget:
        return [Part(0, length, 1)]
    least = math.isqrt(length - 1) + 1
    size = next((size for size in range(least, 2 * least + 1) if length % size == 0), least)
    whole, rest = divmod(length, size)
    return [Part(0, whole, size), *([Part(whole * size, 1, rest)] if rest else [])]


def state_bytes(loop: Loop, carried: Sequence[int], size: int) -> int:
    """Bytes of the carried values of a loop, with reals of a size."""
    return sum({"f": size, "i": 8, "b": 1}[loop.params[k].kind] for k in carried)


def run(
    copy: Copy, loop: Loop, place: Place, parts: Sequence[Part], known: Sequence[Node], groups: Sequence[Sequence[int]]
) -> list[Kept]:
    """A loop, part by part: leaves its results in `place`, and gives what it keeps.

    known: nodes to keep of every round; groups: carried values that lie side by side.
    """
    graph = copy.graph
    carried = copy.need.params(loop)
    state = {k: copy.value(loop.inits[k], place) for k in carried}
    kept, rows = [], []
    for part in parts:
        first, count, size = part
        if size == 1:
            number = lambda k, first=first: graph.add(graph.constant(first), k)
            found = copy.rounds(loop, place, state, count, number, states=groups, known=known)
        else:
            found = _by_segments(copy, loop, place, part, state, groups)
        state = found.finals
        rows.append(found.rows)
        kept.append(Kept(part, *found.views(groups), found.states, found.flipped))
    place.finals.update({(id(loop), k): x for k, x in state.items()})
    for buffer, _ in copy.need.rows(loop):
        place.memory[id(buffer)] = _joined(loop, buffer, parts, [found[id(buffer)] for found in rows])
    return kept


def _by_segments(copy: Copy, loop: Loop, place: Place, part: Part, state: dict[int, Node], groups) -> Rounds:
    """A loop over segments, each a loop over its rounds; states are those before each segment."""
    graph, count = copy.graph, part.segments
    outer = copy.opened(count, reverse=loop.reverse)
    begin = {k: copy.parameter(outer, x) for k, x in state.items()}
    found = copy.rounds(loop, place, begin, part.size, numbering(graph, part, outer.index))
    outer.results = [found.finals[k] for k in begin]
    for memory in found.rows.values():
        nodes = [View.of(memory).at(graph, k) for k in range(memory.offsets.size)]
        outer.rows.append((Buffer(None, memory.buffer.kind, count, len(nodes)), nodes))
    for group in groups:
        row = [begin[k] for k in group]
        outer.rows.append((Buffer(None, row[0].kind, count, len(row)), row))
    node = copy.closed(outer)
    laid = [Memory(b, np.arange(count * b.width).reshape(count, -1), node) for b, _ in outer.rows]
    finals = {k: copy.final(node, j) for j, k in enumerate(begin)}
    split = len(found.rows)
    return Rounds(finals, dict(zip(found.rows, laid, strict=False)), laid[split:], {}, outer.reverse)


def grouped(loop: Loop, carried: Sequence[int]) -> list[list[int]]:
    """Carried values by their kind."""
    kinds: dict[str, list[int]] = {}
    for k in carried:
        kinds.setdefault(loop.params[k].kind, []).append(k)
    return list(kinds.values())


def numbering(graph, part: Part, segment: Node):
    """Round of a segment ↦ round of the whole loop."""
    start = graph.add(graph.constant(part.first), graph.mul(segment, graph.constant(part.size)))
    return lambda k: graph.add(start, k)


def _joined(loop: Loop, buffer: Buffer, parts: Sequence[Part], found: Sequence[Memory]) -> View:
    """The rows of a loop from those of its parts; each wrote its own in the order of the loop."""
    width, pieces = buffer.width, []
    for part, memory in zip(parts, found, strict=True):
        rounds = part.segments * part.size
        first = loop.length - part.first - rounds if loop.reverse else part.first
        offsets = np.full(loop.length * width, -1)
        offsets[first * width : (first + rounds) * width] = memory.offsets.ravel()
        pieces.append((memory.buffer, memory.after, offsets))
    return View(pieces)
