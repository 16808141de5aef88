"""Straight-line programs: a graph with its inputs and results."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np

from jaxmbs.programs.errors import ProgramError, ProgramTooLarge
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.listing import listing
from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import Memory, Node, Region, place_argument
from jaxmbs.programs.linear import rules as linear_rules
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.runtime.collector import without_garbage_collection
from jaxmbs.programs.runtime.content import digest, digest_of_parts
from jaxmbs.programs.runtime.store import active_store, load_or_compute
from jaxmbs.programs.tracing import dense, indexing, loops, marks, rules
from jaxmbs.programs.tracing.trace import Tracer

# Modules that declare the rules of primitives when they are imported; the name keeps the imports in use.
RULE_MODULES = (rules, indexing, dense, loops, marks, linear_rules)
# Operations of nodes that are not counted: they cost nothing at run time, or are counted with others.
FREE = frozenset({"const", "param", "index", "out", "load", "loop", "stack", "real", "integer"})


@dataclasses.dataclass(frozen=True)
class Shape:
    """Shape and dtype of an input or output."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


class Facts(NamedTuple):
    """Facts about a program that are enough to run its machine code.

    Attributes:
        fingerprint: equal for programs that compute the same in the same way.
        size: number of scalar operations, the body of a loop counted once.
        work: the same with every iteration counted.
        regions: number of the program's regions.
        largest_region: operations of the largest region.
        crossing: number of values that go from one region to another.
        loaded: numbers of the inputs that results depend on.
    """

    fingerprint: str
    size: int
    work: int
    regions: int
    largest_region: int
    crossing: int
    loaded: list[int]


class TracedGraph(NamedTuple):
    """A graph with its inputs in memory, and its results: for each output its nodes, or the array in memory that it is."""

    graph: Graph
    inputs: list[Memory]
    results: list[np.ndarray | Memory]

    def __del__(self):
        # Marks are nodes that hold arrays of nodes, a cycle that Python's collector cannot find within NumPy's arrays.
        for group in self.graph.groups.values():
            group.forget()

    @property
    def root(self) -> Region:
        """The outermost region of the graph."""
        return self.graph.root

    def live(self, marking: bool) -> Liveness:
        """Return the part of the graph that the results depend on; if `marking` with the rules of their derivatives."""
        return Liveness(self.root, self.results, marking)

    @classmethod
    def of(cls, graph: Graph, inputs: list[Memory], values: Sequence, outputs: Sequence[Shape]) -> TracedGraph:
        """Return the graph with `values` as results, in memory if a loop can write them as the output."""
        tracer = Tracer(graph, np.float64)
        results = []
        for value, out in zip(values, outputs, strict=True):
            results.append(value if _is_whole(value, out, graph) else tracer.nodes(value))
        return cls(graph, inputs, results)


# Programs that have a graph, and its name, in the order in which the graphs were made.
_graphs: list[tuple[weakref.ref[Program], str]] = []


def release_graphs(made: Program) -> None:
    """Delete graphs that are not worth their memory, after the code of a program was made.

    These are its own if it is large, and the oldest of all programs if these are large together.
    """
    traced = made.__dict__.get("traced")
    if traced is not None and traced.graph.count > tuning.MAX_NODES_AFTER_COMPILING:
        made.release("traced")
    left: list[tuple[weakref.ref[Program], str]] = []
    visited, total = set(), 0
    known = len(_graphs)
    for reference, name in reversed(_graphs[:known]):
        program = reference()
        graph = None if program is None else program.__dict__.get(name)
        if program is None or graph is None or (id(program), name) in visited:
            continue
        visited.add((id(program), name))
        total += graph.graph.count
        if total > tuning.MAX_KEPT_NODES and len(left) >= tuning.MIN_KEPT_GRAPHS:
            program.release(name)
        else:
            left.append((reference, name))
    # Other threads may have added some meanwhile.
    _graphs[:known] = reversed(left)


class Program:
    """A graph of scalars made from a function of arrays; hashable by identity. The graph is made when first needed.

    Attributes:
        name: its name in listings.
        inputs: shapes of the inputs.
        outputs: shapes of the outputs.
        dtype: its floating-point type.
        source: the closed jaxpr that it comes from, None for derivatives.
        max_unoptimised_samples: largest batch for which it is compiled without optimisation.
        derived: programs for its derivatives, by their keys.
        savings: plans of the states to keep for reverse mode, deleted with the graph for differentiating.
    """

    def __init__(self, trace: Callable[[bool], TracedGraph], inputs, outputs, name: str = "program", key=None):
        self._trace, self.name, self._key = trace, name, key
        self.inputs, self.outputs = (
            tuple(Shape(tuple(x.shape), np.dtype(x.dtype)) for x in ends) for ends in (inputs, outputs)
        )
        self.dtype = floating_type(self.inputs + self.outputs)
        self.source = None
        self.max_unoptimised_samples: float = 0
        self.derived: dict = {}
        self.savings: list = []

    @classmethod
    def of(cls, source, limit: int | None = None, name: str = "program") -> Program:
        """Return the program of a closed jaxpr, which it keeps as its `source`."""

        def trace(marking: bool) -> TracedGraph:
            graph = Graph(None if marking else limit)
            tracer = Tracer(graph, program.dtype, marking)
            args = [place_argument(k, x.shape, x.dtype) for k, x in enumerate(program.inputs)]
            return TracedGraph.of(graph, args, tracer.run_closed(source, args), program.outputs)

        program = cls(trace, source.in_avals, source.out_avals, name)
        program.source = source
        return program

    @cached_property
    def key(self) -> bytes | None:
        """Key of the program in the store, known before its graph is made; None if nothing is kept."""
        return self._key if self.source is None or active_store() is None else digest(self.source)

    def key_of(self, *parts) -> bytes | None:
        """Return the key in the store of something derived from the program, told apart by `parts`, or None."""
        return None if self.key is None else digest_of_parts(self.key, *parts)

    @cached_property
    @without_garbage_collection()
    def traced(self) -> TracedGraph:
        """The graph for evaluating, made when first needed and deleted once the code is made."""
        return self._register("traced", self._trace(False))

    @cached_property
    @without_garbage_collection()
    def marked(self) -> TracedGraph:
        """The graph for differentiating: with marks around values that have a derivative of their own."""
        return self._register("marked", self._trace(True))

    def _register(self, name: str, traced: TracedGraph) -> TracedGraph:
        """Close a new graph, note it for `release_graphs`, and return it; `name` is "traced" or "marked"."""
        traced.graph.close()
        _graphs.append((weakref.ref(self), name))
        return traced

    def release(self, name: str) -> None:
        """Delete a graph, "traced" or "marked"; it is made again when needed."""
        self.__dict__.pop(name, None)
        if name == "traced":
            self.__dict__.pop("live", None)
        else:
            for saving in self.savings:
                saving.__dict__.pop("plan", None)

    @property
    def root(self) -> Region:
        """The outermost region of the graph for evaluating."""
        return self.traced.root

    @property
    def results(self) -> list[np.ndarray | Memory]:
        """For each output its nodes, or the array in memory that it is."""
        return self.traced.results

    @cached_property
    def live(self) -> Liveness:
        """The part of the graph for evaluating that the outputs depend on."""
        return self.traced.live(False)

    @cached_property
    def operations(self) -> Counter:
        """Number of scalar operations by name; the body of a loop counts once."""
        return Counter(
            node.op for region in self.live.regions for node in self.live.nodes(region) if node.op not in FREE
        )

    @cached_property
    def facts(self) -> Facts:
        """Facts about the program, from the store or computed."""
        return Facts(*load_or_compute("facts", self.key, self._facts))

    def _facts(self) -> Facts:
        """Return the facts, computed from the graph."""
        live, root = self.live, self.root
        own = [sum(node.op not in FREE for node in live.nodes(region)) for region in live.regions]
        fingerprint = hashlib.sha256(str(self).encode()).hexdigest()[:32]
        crossing = len(live.crossing) + sum(len(numbers) for numbers in live.carried.values())
        loads = (x.address.buffer.source for r in live.regions for x in live.nodes(r) if x.op == "load")
        loaded = sorted({number for number in loads if number is not None})
        return Facts(fingerprint, sum(own), self._work(root), len(own), max(own), crossing, loaded)

    @property
    def size(self) -> int:
        """Number of scalar operations; the body of a loop counts once."""
        return self.facts.size

    @property
    def work(self) -> int:
        """Estimated number of scalar operations of one run, every iteration of its loops counted."""
        return self.facts.work

    @property
    def largest_region(self) -> int:
        """Number of scalar operations of the largest loop body or, if that is larger, outside loops."""
        return self.facts.largest_region

    @property
    def fingerprint(self) -> str:
        """Hash of the listing: equal for programs that compute the same in the same way."""
        return self.facts.fingerprint

    def _work(self, region: Region) -> int:
        """Return the scalar operations of a region, with every iteration of its loops."""
        total = 0
        for node in self.live.nodes(region):
            if node.op == "loop":
                loop = node.loop
                if loop.condition_region is None:
                    total += loop.length * self._work(loop.body)
                else:
                    each = self._work(loop.body) + self._work(loop.condition_region)
                    total += math.ceil(loop.length / tuning.LIMIT_PER_ITERATION) * each
            else:
                total += node.op not in FREE
        return total

    def __str__(self) -> str:
        return listing(self.name, self.inputs, self.outputs, self.root, self.results, self.live)


def _is_whole(value, out: Shape, graph: Graph) -> bool:
    """Return True if an output is just the rows that a loop leaves, so that the loop can write them there."""
    if not isinstance(value, Memory) or value.after is None or value.after.op != "loop":
        return False
    if value.after.region is not graph.root or value.buffer.length * value.buffer.width != out.size:
        return False
    return bool((value.offsets.ravel() == np.arange(out.size)).all())


def checked_program(source, limit: int | None, name: str) -> Program:
    """Return the program of a closed jaxpr, traced at once; raise `ProgramTooLarge` if it is too large."""
    for x in (*source.in_avals, *source.out_avals):
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
            raise ProgramError(f"dtype {x.dtype}: programs take real numbers, integers and truth values")
    program = Program.of(source, limit, name)
    if limit is not None and program.size > limit:
        raise ProgramTooLarge(
            f"{program.size} scalar operations are more than a straight-line program should have ({limit}); "
            "use array code (jax.jit and jax.vmap), or loops (scan) over equal parts"
        )
    return program


def floating_type(shapes: Sequence[Shape]) -> np.dtype:
    """Return the one floating-point type among shapes; float32 if there is none."""
    found = sorted({x.dtype for x in shapes if x.dtype.kind == "f"}, key=lambda d: d.itemsize)
    for dtype in found:
        if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ProgramError(f"{dtype} is not supported: programs compute in float32 or float64")
    for x in shapes:
        if x.dtype.kind not in "fiub":
            raise ProgramError(f"dtype {x.dtype}: programs take real numbers, integers and truth values")
    if len(found) > 1:
        raise ProgramError("float32 and float64 arguments in one program: give all of them the same type")
    return found[0] if found else np.dtype(np.float32)


def scalar_nodes(jaxpr) -> tuple[list[Node], list[Node]]:
    """Trace a closed jaxpr with one output.

    Args:
        jaxpr: the function.

    Returns:
        Its scalar operations in order, without constants, and its results.

    Raises:
        ProgramError: it has no straight-line form, or a loop leaves its result in memory.
    """
    program = Program.of(jaxpr)
    if isinstance(program.results[0], Memory):
        raise ProgramError("its result comes from a loop")
    nodes = [node for node in program.live.nodes(program.root) if node.op != "const"]
    return nodes, list(program.results[0].ravel())
