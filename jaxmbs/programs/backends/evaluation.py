"""A program as JAX operations, one for each scalar operation: the walk over its graph that XLA and TPU code share."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import jax
from jax import Array
from jax.experimental.xla_metadata import set_xla_metadata

from jaxmbs.programs.graph.nodes import REAL, Loop, Node, Region
from jaxmbs.programs.tracing.program import Program

# Operations of nodes that need no computation: constants, and values that a loop provides.
GIVEN = frozenset({"const", "param", "index", "out"})

# Values of nodes by serial number.
Values = dict[int, Array]


class AbstractEvaluation(abc.ABC):
    """The evaluation of a program, whose values are JAX arrays.

    Attributes:
        program: program to run.
        live: nodes of the program on which results depend.
    """

    def __init__(self, program: Program):
        self.program, self.live = program, program.live

    @abc.abstractmethod
    def constant(self, node: Node) -> Array:
        """Return a constant."""

    @abc.abstractmethod
    def compute(self, node: Node, values: Values) -> Array:
        """Return the result of a scalar operation, or a number from memory, its arguments being in `values`."""

    @abc.abstractmethod
    def once(self, node: Node, x: Array) -> Array:
        """Return the result x of a node so that compilers do not compute it a second time where that would matter.

        Decisions matter: computed again in another place, where rounding is different, they may come out differently.
        """

    @abc.abstractmethod
    def stack(self, node: Node, values: Values) -> None:
        """Put the arguments of a "stack" node into memory."""

    @abc.abstractmethod
    def iterate(self, loop: Loop, carried: Sequence[int], inits: Sequence[Array], values: Values) -> Sequence[Array]:
        """Run a counted loop, whose rows go to memory, and return the final carried values.

        Args:
            loop: the loop.
            carried: numbers of the carried values that are needed.
            inits: those values before the first iteration.
            values: values outside the loop.
        """

    @abc.abstractmethod
    def iterate_while(
        self, loop: Loop, carried: Sequence[int], inits: Sequence[Array], values: Values
    ) -> Sequence[Array]:
        """Run a loop with a condition and return the final carried values; arguments as those of `iterate`."""

    def value(self, node: Node, values: Values) -> Array:
        """Return the value of a node: one of `values`, or a constant."""
        return self.constant(node) if node.op == "const" else values[node.serial]

    def region(self, region: Region, values: Values) -> None:
        """Compute the nodes of a region, and add them to `values`."""
        for node in self.live.nodes(region):
            if node.op == "loop":
                self.loop(node, values)
            elif node.op == "stack":
                self.stack(node, values)
            elif node.op not in GIVEN:
                self.operation(node, values)

    def operation(self, node: Node, values: Values) -> None:
        """Compute a scalar operation of a region, and add its result to `values`."""
        values[node.serial] = self.once(node, self.compute(node, values))

    def loop(self, node: Node, values: Values) -> None:
        """Compute a loop, and add its final values to `values`."""
        loop = node.loop
        carried = self.live.params(loop)
        inits = tuple(self.value(loop.inits[k], values) for k in carried)
        run = self.iterate if loop.condition is None else self.iterate_while
        of_number = dict(zip(carried, run(loop, carried, inits, values), strict=True))
        for other in self.live.nodes(node.region):
            if other.op == "out" and other.args[0] is node:
                values[other.serial] = of_number[other.number]

    def in_body(self, loop: Loop, carried: Sequence[int], index: Array, old: Sequence[Array], outer: Values) -> Values:
        """Return the values in an iteration of a loop, those of its body included.

        Args:
            loop: the loop.
            carried: numbers of the carried values that are needed.
            index: number of the iteration.
            old: carried values before it.
            outer: values outside the loop.
        """
        values = dict(outer)
        values.update((loop.params[k].serial, x) for k, x in zip(carried, old, strict=True))
        values[loop.index.serial] = index
        self.region(loop.body, values)
        return values

    def goes_on(self, loop: Loop, carried: Sequence[int], state: Sequence[Array], outer: Values) -> Array:
        """Return the condition of a loop for carried values, one for each number in `carried`; `outer` as in `in_body`."""
        condition, region = loop.condition, loop.condition_region
        assert condition is not None
        assert region is not None
        values = dict(outer)
        values.update((loop.condition_params[k].serial, x) for k, x in zip(carried, state, strict=True))
        self.region(region, values)
        return self.value(condition, values)


def is_decision(node: Node) -> bool:
    """Return True for a truth value or an integer that is made from real numbers, whose rounding may change it."""
    return node.kind != REAL and any(x.kind == REAL for x in node.args)


def computed_once(x: Array) -> Array:
    """Return x, which XLA's CPU compiler would otherwise compute again in each fusion that uses it.

    That compiler removes `optimization_barrier` before it fuses, but keeps a function that it may not inline.
    """
    with set_xla_metadata(inlineable="false"):
        return jax.jit(_same)(x)


def _same(x):
    """Return x."""
    return x
