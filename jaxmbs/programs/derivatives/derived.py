"""The derivatives of a program as programs: tangents, cotangents, and the run that keeps states for its way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np

from jaxmbs.programs.derivatives import segments
from jaxmbs.programs.derivatives.copying import Copy, Place, View, states_by_number
from jaxmbs.programs.derivatives.cotangent import Adjoints, Reverse
from jaxmbs.programs.derivatives.dependence import Dependence
from jaxmbs.programs.derivatives.tangent import Rates
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import INTEGER, REAL, Memory, Node, array, place_argument
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.runtime.collector import put_off
from jaxmbs.programs.runtime.store import load_or_compute
from jaxmbs.programs.tracing.program import Program, Shape, Traced


def tangent_program(program: Program, active: tuple[bool, ...]) -> Program:
    """(args, tangents of the active ones) ↦ tangents of the real outputs."""
    key = ("tangent", active)
    if key not in program.derived:
        rates = _some(program.inputs, active)
        real = _real(program.outputs)

        def trace(marking: bool) -> Traced:
            old = program.marked
            dependence = Dependence(old, program.dtype, active, forward=True, marking=marking)
            graph = Graph()
            args = _placed([*program.inputs, *rates])
            forward, place = Rates(graph, dependence, marking=marking), Place(old.root)
            forward.begin(place)
            given = iter(args[len(active) :])
            for memory, own, on in zip(old.inputs, args, active, strict=False):
                place.memory[id(memory.buffer)] = View.of(own)
                if on:
                    forward.memory[place][id(memory.buffer)] = View.of(next(given))
            forward.push(dependence.nodes(old.root), place)
            values = [
                _rate(forward, result, place)
                for result, out in zip(old.results, program.outputs, strict=True)
                if out.dtype.kind == "f"
            ]
            return Traced.of(graph, args, values, real)

        tangent = program.derived[key] = _program(program, trace, [*program.inputs, *rates], real, key)
        # What is linear in its tangents is gone back through by the reverse mode of what it came from.
        mask = (False,) * len(active) + (True,) * len(rates)
        tangent.derived["cotangent", mask] = _backward(program, active)
    return program.derived[key]


def cotangent_program(program: Program, linear: tuple[bool, ...]) -> Program:
    """(the other args, cotangents of the outputs) ↦ cotangents of the args in which the program is linear."""
    key = ("cotangent", linear)
    if key not in program.derived:
        others = _some(program.inputs, [not on for on in linear])
        shapes = [*others, *program.outputs]

        def trace(marking: bool) -> Traced:
            graph, args = Graph(), _placed(shapes)
            given = iter(args)
            # A linear function has the same derivative everywhere.
            nothing = lambda x: View(nodes=[graph.zero] * x.size)
            views = [nothing(x) if on else View.of(next(given)) for x, on in zip(program.inputs, linear, strict=True)]
            return _pulled_back(program, program.marked, linear, marking, graph, args, views, list(given))

        program.derived[key] = _program(program, trace, shapes, _some(program.inputs, linear), key)
    return program.derived[key]


def linearized_programs(program: Program, active: tuple[bool, ...]) -> tuple[Program, Program, int]:
    """The program with the kept states as further outputs, the tangent program with them as further inputs, and how many
    they are. The cotangent program of the latter runs back through them."""
    key = ("linearized", active, segments.kept_bytes())
    if key not in program.derived:
        saving = _Saving(program, active)
        program.savings.append(saving)
        found = load_or_compute("states", program.key_of(*key, *segments.settings()), lambda: saving.shapes)
        states = [Shape(tuple(shape), np.dtype(dtype)) for shape, dtype in found]
        keeping = _program(program, saving.run, program.inputs, [*program.outputs, *states], ("keeping", active))
        rates = _some(program.inputs, active)
        real = _real(program.outputs)

        def trace(marking: bool) -> Traced:
            raise AssertionError("tangents beside kept states are only gone back through")

        linear = _program(program, trace, [*program.inputs, *states, *rates], real, ("linear", active))
        mask = (False,) * (len(active) + len(states)) + (True,) * len(rates)
        linear.derived["cotangent", mask] = _backward(program, active, saving, states)
        program.derived[key] = keeping, linear, len(states)
    return program.derived[key]


def has_loops(program: Program) -> bool:
    """Whether a program has loops whose states are worth keeping."""
    found = lambda: any(_is_long(node) for node in program.root.nodes if node.op == "loop")
    return load_or_compute("loops", program.key_of("loops", *segments.settings()), found)


def _is_long(node: Node) -> bool:
    loop = node.loop
    return loop.length > tuning.MAX_ITERATIONS_KEEPING_NOTHING or any(x.op == "loop" for x in loop.body.nodes)


def _backward(program: Program, active, saving: _Saving | None = None, states: Sequence[Shape] = ()) -> Program:
    """(args, kept states, cotangents of the real outputs) ↦ cotangents of the active args."""
    shapes = [*program.inputs, *states, *_real(program.outputs)]

    def trace(marking: bool) -> Traced:
        graph, args = Graph(), _placed(shapes)
        count = len(program.inputs)
        kept = args[count : count + len(states)]
        views = list(map(View.of, args[:count]))
        old, restore = program.marked, None
        if saving is not None:
            plan = saving.plan
            old, restore = plan.old, lambda place: plan.restore(place, kept, graph)
        return _pulled_back(program, old, active, marking, graph, args, views, args[count + len(states) :], restore)

    key = ("backward", active, saving is not None)
    return _program(program, trace, shapes, _some(program.inputs, active), key)


def _pulled_back(
    program: Program,
    old: Traced,
    active,
    marking,
    graph,
    args,
    views,
    cotangents,
    restore: Callable[[Place], None] | None = None,
) -> Traced:
    dependence = Dependence(old, program.dtype, active, marking=marking)
    reverse = Reverse(graph, dependence, program.dtype, marking=marking)
    place, adjoints = Place(old.root), Adjoints(graph)
    for memory, view in zip(old.inputs, views, strict=True):
        place.memory[id(memory.buffer)] = view
    if restore is not None:
        restore(place)
    given = iter(cotangents)
    for result, out in zip(old.results, program.outputs, strict=True):
        if out.dtype.kind == "f":
            reverse.seed(result, next(given), adjoints)
    reverse.pull(dependence.nodes(old.root), place, adjoints, None)
    wanted = [memory for memory, on in zip(old.inputs, active, strict=True) if on]
    outputs = _some(program.inputs, active)
    values = [_gathered(graph, memory, adjoints, out) for memory, out in zip(wanted, outputs, strict=True)]
    return Traced.of(graph, args, values, outputs)


class _Saving:
    """What a program keeps for its way back: of each long loop states and results, in arrays by kind."""

    def __init__(self, program: Program, active: tuple[bool, ...]):
        self.program, self.active = program, active
        self.kept_bytes = segments.kept_bytes()

    @cached_property
    @put_off()
    def plan(self) -> _Plan:
        """Which loops keep what."""
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
            loops.append(_KeptLoop(node, parts if back else [], segments.grouped(loop, carried), finals))
        return _Plan(old, dependence, loops)

    @cached_property
    def shapes(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and types of the arrays."""
        types = {REAL: self.program.dtype, INTEGER: jax.dtypes.canonicalize_dtype(np.int64), "b": np.dtype(bool)}
        found: list[tuple[tuple[int, ...], str]] = []
        for node, parts, groups, finals in self.plan.loops:
            kind = lambda k, loop=node.loop: types[loop.params[k].kind].name
            for part in parts:
                found += [((part.segments, len(group)), kind(group[0])) for group in groups]
            found += [((len(group),), kind(group[0])) for group in segments.grouped(node.loop, finals)]
        return found

    def run(self, marking: bool) -> Traced:
        """The program with these arrays behind its outputs."""
        program, plan = self.program, self.plan
        old = plan.old
        graph, args = Graph(), _placed(program.inputs)
        copy, place = Copy(graph, plan.dependence.need, marking=marking), Place(old.root)
        for memory, own in zip(old.inputs, args, strict=True):
            place.memory[id(memory.buffer)] = View.of(own)
        kept: list = []
        for node, parts, groups, finals in plan.loops:
            loop = node.loop
            if parts:
                done = segments.run(copy, loop, place, parts, (), groups)
                place.values[node.serial] = graph.zero
                kept += [memory for part in done for memory in part.rows]
            else:
                copy.value(node, place)
            for group in segments.grouped(loop, finals):
                kept.append(array([place.finals[id(loop), k] for k in group], (len(group),)))
        results = [_copied(copy, result, place) for result in old.results]
        outputs = [*program.outputs, *(Shape(shape, np.dtype(dtype)) for shape, dtype in self.shapes)]
        return Traced.of(graph, args, [*results, *kept], outputs)


class _KeptLoop(NamedTuple):
    """A loop in the outermost region: the parts whose states are kept, its carried values by kind, and results kept."""

    node: Node
    parts: list[segments.Part]
    groups: list[list[int]]
    finals: list[int]


class _Plan(NamedTuple):
    """Which loops of a graph for differentiating keep what."""

    old: Traced
    dependence: Dependence
    loops: list[_KeptLoop]

    def restore(self, place: Place, arrays: Sequence[Memory], graph: Graph) -> None:
        """The arrays, in the backward run, as what the loops have kept and left."""
        arrays = list(arrays)
        for node, parts, groups, finals in self.loops:
            loop = node.loop
            flipped = loop.reverse
            kept = []
            for part in parts:
                rows = [arrays.pop(0) for _ in groups]
                kept.append(segments.Kept(part, states_by_number(groups, rows, flipped), {}, rows, flipped))
            if parts:
                place.kept[id(loop)] = kept
            for group in segments.grouped(loop, finals):
                view = View.of(arrays.pop(0))
                place.finals.update({(id(loop), k): view.at(graph, j) for j, k in enumerate(group)})


def instantiated(program: Program, tracer, args: Sequence) -> list:
    """The results of a program for other inputs, within a trace."""
    old = program.marked if tracer.marking else program.traced
    need = old.live(tracer.marking)
    copy, place = Copy(tracer.graph, need, marking=tracer.marking, depth=tracer.depth), Place(old.root)
    for memory, value in zip(old.inputs, args, strict=True):
        view = View.of(value) if isinstance(value, Memory) else View(nodes=list(tracer.nodes(value).ravel()))
        place.memory[id(memory.buffer)] = view
    pairs = zip(old.results, program.outputs, strict=True)
    return [_shaped(_copied(copy, result, place), out.shape) for result, out in pairs]


def _shaped(value, shape):
    return value.moved(value.offsets.reshape(shape)) if isinstance(value, Memory) else value.reshape(shape)


def _program(program: Program, trace, inputs, outputs, key: tuple) -> Program:
    what, *which = key
    name = f"{what}_of_{program.name}"
    derived = Program(trace, inputs, outputs, name, program.key_of(what, which, *segments.settings()))
    derived.max_unoptimised_samples = program.max_unoptimised_samples
    return derived


def _some(shapes: Sequence[Shape], which: Sequence[bool]) -> list[Shape]:
    return [x for x, on in zip(shapes, which, strict=True) if on]


def _real(shapes: Sequence[Shape]) -> list[Shape]:
    return [x for x in shapes if x.dtype.kind == "f"]


def _placed(shapes: Sequence[Shape]) -> list[Memory]:
    return [place_argument(k, x.shape, x.dtype) for k, x in enumerate(shapes)]


def _copied(copy: Copy, result, place: Place):
    """A result in the new graph; in memory if it lies there in one piece."""
    if not isinstance(result, Memory):
        return array(copy.values(result.ravel(), place), result.shape)
    if result.after is not None:
        copy.value(result.after, place)
    return _seen(copy.graph, place.memory[id(result.buffer)], result)


def _rate(forward: Rates, result, place: Place):
    if not isinstance(result, Memory):
        return array([forward.rate(x, place) for x in result.ravel()], result.shape)
    view = forward.memory[place].get(id(result.buffer))
    if view is None:
        return array([forward.graph.zero] * result.offsets.size, result.offsets.shape)
    return _seen(forward.graph, view, result)


def _seen(graph: Graph, view: View, result: Memory):
    offsets = result.offsets
    if len(view.pieces) == 1:
        buffer, after, where = view.pieces[0]
        return Memory(buffer, where[offsets], after)
    return array([view.at(graph, int(k)) for k in offsets.ravel()], offsets.shape)


def _gathered(graph: Graph, memory: Memory, adjoints: Adjoints, out: Shape):
    """The cotangents of an input: in memory if a loop left them all there, else node by node."""
    buffer = memory.buffer
    parts = adjoints.memory.get(id(buffer), ())
    if len(parts) == 1 and not any(key[0] == id(buffer) for key in adjoints.elements):
        offsets, laid = parts[0]
        if len(offsets) == out.size:
            where = np.empty(out.size, int)
            where[offsets] = laid.offsets.ravel()
            return Memory(laid.buffer, where.reshape(out.shape), laid.after)
    found = adjoints.take(buffer)
    return array([found.get(k, graph.zero) for k in range(out.size)], out.shape)
