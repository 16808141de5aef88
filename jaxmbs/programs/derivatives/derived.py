"""The derivatives of a program as programs: tangents, cotangents, and the run that keeps states for reverse mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import jax
import numpy as np

from jaxmbs.programs.derivatives import segments
from jaxmbs.programs.derivatives.copying import CopiedRegion, Copy, View, states_by_number
from jaxmbs.programs.derivatives.cotangent import Adjoints, Reverse
from jaxmbs.programs.derivatives.dependence import Dependence
from jaxmbs.programs.derivatives.tangent import Forward
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import INTEGER, REAL, Memory, Node, array, place_argument
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.runtime.collector import without_garbage_collection
from jaxmbs.programs.runtime.store import load_or_compute
from jaxmbs.programs.tracing.program import Program, Shape, TracedGraph


def tangent_program(program: Program, active: tuple[bool, ...]) -> Program:
    """Return the program (args, tangents of the active ones) ↦ tangents of the real outputs."""
    key = ("tangent", active)
    if key not in program.derived:
        rates = list(compress(program.inputs, active))
        real = _real_shapes(program.outputs)

        def trace(marking: bool) -> TracedGraph:
            old = program.marked
            dependence = Dependence(old, program.dtype, active, forward=True, marking=marking)
            graph = Graph()
            args = _place_inputs([*program.inputs, *rates])
            copied = _copied_root(old, map(View.of, args[: len(active)]))
            forward = Forward(graph, dependence, marking=marking)
            forward.begin(copied)
            for memory, rate in zip(compress(old.inputs, active), args[len(active) :], strict=True):
                forward.memory[copied][memory.buffer] = View.of(rate)
            forward.push(dependence.nodes(old.root), copied)
            values = [
                _result_rate(forward, result, copied)
                for result, out in zip(old.results, program.outputs, strict=True)
                if out.dtype.kind == "f"
            ]
            return TracedGraph.of(graph, args, values, real)

        tangent = program.derived[key] = _derived_program(program, trace, [*program.inputs, *rates], real, key)
        # It is linear in its tangents, so its cotangents are those of the program itself.
        mask = (False,) * len(active) + (True,) * len(rates)
        tangent.derived["cotangent", mask] = _backward_program(program, active)
    return program.derived[key]


def cotangent_program(program: Program, linear: tuple[bool, ...]) -> Program:
    """Return the program (other args, cotangents of the outputs) ↦ cotangents of the args in which `program` is linear."""
    key = ("cotangent", linear)
    if key not in program.derived:
        others = list(compress(program.inputs, [not on for on in linear]))
        shapes = [*others, *program.outputs]

        def trace(marking: bool) -> TracedGraph:
            graph, args = Graph(), _place_inputs(shapes)
            given = iter(args)
            # A linear function has the same derivative everywhere.
            nothing = lambda x: View(nodes=[graph.zero] * x.size)
            views = [nothing(x) if on else View.of(next(given)) for x, on in zip(program.inputs, linear, strict=True)]
            old = program.marked
            return _reverse_graph(program, old, linear, marking, graph, args, _copied_root(old, views), list(given))

        program.derived[key] = _derived_program(program, trace, shapes, list(compress(program.inputs, linear)), key)
    return program.derived[key]


def linearized_programs(program: Program, active: tuple[bool, ...]) -> tuple[Program, Program, int]:
    """Return the two programs of reverse mode, and the number of states that they share.

    Args:
        program: program to differentiate.
        active: True for each input that is differentiated by.

    Returns:
        The program with the kept states as further outputs; the tangent program with them as further inputs, whose
        cotangent program goes back through them; the number of these states.
    """
    key = ("linearized", active, segments.kept_bytes())
    if key not in program.derived:
        saving = _StateKeeping(program, active)
        program.savings.append(saving)
        found = load_or_compute("states", program.key_of(*key, *segments.settings()), lambda: saving.shapes)
        states = [Shape(tuple(shape), np.dtype(dtype)) for shape, dtype in found]
        keeping = _derived_program(
            program, saving.run, program.inputs, [*program.outputs, *states], ("keeping", active)
        )
        rates = list(compress(program.inputs, active))
        real = _real_shapes(program.outputs)

        def trace(marking: bool) -> TracedGraph:
            raise AssertionError("tangents beside kept states are only gone back through")

        linear = _derived_program(program, trace, [*program.inputs, *states, *rates], real, ("linear", active))
        mask = (False,) * (len(active) + len(states)) + (True,) * len(rates)
        linear.derived["cotangent", mask] = _backward_program(program, active, saving, states)
        program.derived[key] = keeping, linear, len(states)
    return program.derived[key]


def has_loops(program: Program) -> bool:
    """Return True if a program has loops that keep states for reverse mode."""
    found = lambda: any(_is_long(node) for node in program.root.nodes if node.op == "loop")
    return load_or_compute("loops", program.key_of("loops", *segments.settings()), found)


def _is_long(node: Node) -> bool:
    """Return True if a node is a loop with more iterations than those that keep nothing, or with loops inside."""
    loop = node.loop
    return loop.length > tuning.MAX_ITERATIONS_KEEPING_NOTHING or any(x.op == "loop" for x in loop.body.nodes)


def _backward_program(
    program: Program, active: tuple[bool, ...], saving: _StateKeeping | None = None, states: Sequence[Shape] = ()
) -> Program:
    """Return the program (args, kept states, cotangents of the real outputs) ↦ cotangents of the active args."""
    shapes = [*program.inputs, *states, *_real_shapes(program.outputs)]

    def trace(marking: bool) -> TracedGraph:
        graph, args = Graph(), _place_inputs(shapes)
        count = len(program.inputs)
        plan = None if saving is None else saving.plan
        # The states belong to this graph; the program may have let go of it meanwhile.
        old = program.marked if plan is None else plan.old
        copied = _copied_root(old, map(View.of, args[:count]))
        if plan is not None:
            plan.restore(copied, args[count : count + len(states)], graph)
        return _reverse_graph(program, old, active, marking, graph, args, copied, args[count + len(states) :])

    key = ("backward", active, saving is not None)
    return _derived_program(program, trace, shapes, list(compress(program.inputs, active)), key)


def _reverse_graph(
    program: Program,
    old: TracedGraph,
    active: Sequence[bool],
    marking: bool,
    graph: Graph,
    args: list[Memory],
    copied: CopiedRegion,
    cotangents: list[Memory],
) -> TracedGraph:
    """Build the graph of cotangents.

    Args:
        program: program to differentiate.
        old: its marked graph.
        active: True for each input that is differentiated by.
        marking: True if the new graph is to be differentiated as well.
        graph: the new graph, empty.
        args: all its inputs.
        copied: copy of the outermost region of `old`, with its inputs and kept states.
        cotangents: those of the real outputs, in memory.

    Returns:
        The new graph with its results.
    """
    dependence = Dependence(old, program.dtype, active, marking=marking)
    reverse = Reverse(graph, dependence, program.dtype, marking=marking)
    adjoints = Adjoints(graph, copied)
    given = iter(cotangents)
    for result, out in zip(old.results, program.outputs, strict=True):
        if out.dtype.kind == "f":
            reverse.seed(result, next(given), adjoints)
    reverse.pull(dependence.nodes(old.root), adjoints)
    outputs = list(compress(program.inputs, active))
    values = [
        _input_cotangents(graph, memory, adjoints, out)
        for memory, out in zip(compress(old.inputs, active), outputs, strict=True)
    ]
    return TracedGraph.of(graph, args, values, outputs)


class _StateKeeping:
    """States and results of long loops that a program keeps for reverse mode, in arrays by kind."""

    def __init__(self, program: Program, active: tuple[bool, ...]):
        self.program, self.active = program, active
        self.kept_bytes = segments.kept_bytes()

    @cached_property
    @without_garbage_collection()
    def plan(self) -> _KeptLoops:
        """States and results that the loops keep."""
        program = self.program
        old = program.marked
        dependence = Dependence(old, program.dtype, self.active, with_values=True, marking=True)
        need, loops = dependence.need, []
        found = [node for node in need.nodes(old.root) if node.op == "loop" and _is_long(node)]
        budget = self.kept_bytes / max(1, sum(node.serial in dependence.useful for node in found))
        size = program.dtype.itemsize
        for node in found:
            loop = node.loop
            carried = need.params(loop)
            back = node.serial in dependence.useful and loop.condition is None
            parts = segments.parts_of(loop.length, segments.state_bytes(loop, carried, size), budget)
            finals = sorted({x.number for x in need.nodes(old.root) if x.op == "out" and x.args[0] is node})
            loops.append(_KeptLoop(node, parts if back else [], segments.group_by_kind(loop, carried), finals))
        return _KeptLoops(old, dependence, loops)

    @cached_property
    def shapes(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the arrays in which states and results are kept."""
        types = {REAL: self.program.dtype, INTEGER: jax.dtypes.canonicalize_dtype(np.int64), "b": np.dtype(bool)}
        found: list[tuple[tuple[int, ...], str]] = []
        for node, parts, groups, finals in self.plan.loops:
            kind = lambda k, loop=node.loop: types[loop.params[k].kind].name
            for part in parts:
                found += [((part.segments, len(group)), kind(group[0])) for group in groups]
            found += [((len(group),), kind(group[0])) for group in segments.group_by_kind(node.loop, finals)]
        return found

    def run(self, marking: bool) -> TracedGraph:
        """Return the graph of the program with these arrays after its outputs."""
        program, plan = self.program, self.plan
        old = plan.old
        graph, args = Graph(), _place_inputs(program.inputs)
        copy, copied = Copy(graph, plan.dependence.need, marking=marking), _copied_root(old, map(View.of, args))
        kept: list = []
        for node, parts, groups, finals in plan.loops:
            loop = node.loop
            if parts:
                done = segments.run_segments(copy, loop, copied, parts, (), groups)
                copied.values[node.serial] = graph.zero
                kept += [memory for part in done for memory in part.rows]
            else:
                copy.value(node, copied)
            for group in segments.group_by_kind(loop, finals):
                kept.append(array([copied.finals[loop, k] for k in group], (len(group),)))
        results = [_copy_result(copy, result, copied) for result in old.results]
        outputs = [*program.outputs, *(Shape(shape, np.dtype(dtype)) for shape, dtype in self.shapes)]
        return TracedGraph.of(graph, args, [*results, *kept], outputs)


class _KeptLoop(NamedTuple):
    """A loop in the outermost region, with the states and results that it keeps.

    Attributes:
        node: its node.
        parts: segments whose states are kept.
        groups: carried values by kind.
        finals: numbers of the carried values whose final values are kept.
    """

    node: Node
    parts: list[segments.Segments]
    groups: list[list[int]]
    finals: list[int]


class _KeptLoops(NamedTuple):
    """States and results that the loops of a marked graph keep."""

    old: TracedGraph
    dependence: Dependence
    loops: list[_KeptLoop]

    def restore(self, copied: CopiedRegion, arrays: Sequence[Memory], graph: Graph) -> None:
        """Put the arrays, in the backward run, into the copied region as states and final values of its loops."""
        arrays = list(arrays)
        for node, parts, groups, finals in self.loops:
            loop = node.loop
            flipped = loop.reverse
            kept = []
            for part in parts:
                rows = [arrays.pop(0) for _ in groups]
                kept.append(segments.KeptStates(part, states_by_number(groups, rows, flipped), {}, rows, flipped))
            if parts:
                copied.kept[loop] = kept
            for group in segments.group_by_kind(loop, finals):
                view = View.of(arrays.pop(0))
                copied.finals.update({(loop, k): view.at(graph, j) for j, k in enumerate(group)})


def instantiate(program: Program, tracer, args: Sequence) -> list:
    """Copy the graph of a program into that of a tracer, with `args` as inputs, and return the results."""
    old = program.marked if tracer.marking else program.traced
    need = old.live(tracer.marking)
    view = lambda x: View.of(x) if isinstance(x, Memory) else View(nodes=list(tracer.nodes(x).ravel()))
    copy, copied = Copy(tracer.graph, need, marking=tracer.marking), _copied_root(old, map(view, args))
    pairs = zip(old.results, program.outputs, strict=True)
    return [_copy_result(copy, result, copied).reshape(out.shape) for result, out in pairs]


def _derived_program(program: Program, trace, inputs, outputs, key: tuple) -> Program:
    """Return a new program derived from another; the key tells it apart from others, in its name and in the store."""
    what, *which = key
    name = f"{what}_of_{program.name}"
    derived = Program(trace, inputs, outputs, name, program.key_of(what, which, *segments.settings()))
    derived.max_unoptimised_samples = program.max_unoptimised_samples
    return derived


def _real_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes that have a floating-point dtype."""
    return [x for x in shapes if x.dtype.kind == "f"]


def _copied_root(old: TracedGraph, views: Iterable[View]) -> CopiedRegion:
    """Return an empty copy of the outermost region of a graph, with these views as the graph's inputs."""
    copied = CopiedRegion(old.root)
    for memory, view in zip(old.inputs, views, strict=True):
        copied.memory[memory.buffer] = view
    return copied


def _place_inputs(shapes: Sequence[Shape]) -> list[Memory]:
    """Return inputs of these shapes, numbered from 0, as arrays in memory."""
    return [place_argument(k, x.shape, x.dtype) for k, x in enumerate(shapes)]


def _copy_result(copy: Copy, result, copied: CopiedRegion):
    """Return a result in the new graph, in memory if it lies there in one piece."""
    if not isinstance(result, Memory):
        return array(copy.values(result.ravel(), copied), result.shape)
    if result.after is not None:
        copy.value(result.after, copied)
    return _result_in_view(copy.graph, copied.memory[result.buffer], result)


def _result_rate(forward: Forward, result, copied: CopiedRegion):
    """Return the rate of a result of the old graph, as nodes or as an array in memory."""
    if not isinstance(result, Memory):
        return array([forward.rate(x, copied) for x in result.ravel()], result.shape)
    view = forward.memory[copied].get(result.buffer)
    if view is None:
        return array([forward.graph.zero] * result.offsets.size, result.offsets.shape)
    return _result_in_view(forward.graph, view, result)


def _result_in_view(graph: Graph, view: View, result: Memory):
    """Return a result from the copy of its memory, in memory if it lies there in one piece."""
    offsets = result.offsets
    if len(view.pieces) == 1:
        buffer, after, where = view.pieces[0]
        return Memory(buffer, where[offsets], after)
    return array([view.at(graph, int(k)) for k in offsets.ravel()], offsets.shape)


def _input_cotangents(graph: Graph, memory: Memory, adjoints: Adjoints, out: Shape):
    """Return the cotangents of an input, in memory if a loop left them all there, else node by node."""
    buffer = memory.buffer
    parts = adjoints.memory.get(buffer, ())
    if len(parts) == 1 and not any(key[0] == buffer for key in adjoints.elements):
        offsets, laid = parts[0]
        if len(offsets) == out.size:
            where = np.empty(out.size, int)
            where[offsets] = laid.offsets.ravel()
            return Memory(laid.buffer, where.reshape(out.shape), laid.after)
    found = adjoints.take(buffer)
    return array([found.get(k, graph.zero) for k in range(out.size)], out.shape)
