"""Code for all platforms that have no better one: elementwise XLA operations on one array per scalar."""

from __future__ import annotations

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmbs.programs.backends.backend import AbstractBackend, over_batch
from jaxmbs.programs.backends.evaluation import AbstractEvaluation, computed_once, is_decision
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Buffer, Memory, Node
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.tracing.program import Program


class ElementwiseXLA(AbstractBackend):
    """Backend that runs one XLA operation over the whole batch for each scalar operation. Loops are XLA's loops."""

    by_shard_map = True

    def takes(self, platform):
        return True

    def lower(self, program, batch, args, platform):
        return over_batch(lambda *xs: evaluate(program, *xs, separate=platform == "cpu"), batch, args)

    def explain(self):
        return "straight-line, XLA"


def evaluate(program: Program, *args, separate: bool = False):
    """Return the outputs of a program for one sample; `jax.vmap` makes every scalar an array over the batch.

    Args:
        program: program to run.
        args: its inputs.
        separate: True to let XLA's CPU compiler compute every value once that is used more than once, or in another region;
            False to let other compilers do so for decisions only.
    """
    return _Evaluation(program, args, separate).outputs()


class _Evaluation(AbstractEvaluation):
    """The evaluation of a program for one sample, which `jax.vmap` extends to a batch.

    Attributes:
        separate: see `evaluate`.
        integer: type of integers inside the program.
        inputs: flat inputs.
        memory: buffer ↦ flat array.
    """

    def __init__(self, program: Program, args, separate: bool):
        super().__init__(program)
        self.separate = separate
        self.integer = np.dtype(jnp.zeros((), int).dtype)
        self.inputs = [self._widen(jnp.ravel(x)) for x in args]
        self.memory: dict[Buffer, jax.Array] = {}

    def _widen(self, x):
        """Return an input with integers of the type that the program computes with, others unchanged."""
        return x.astype(self.integer) if x.dtype.kind in "iu" else x

    def dtype(self, kind: str):
        """Return the dtype of a kind of node."""
        return {REAL: self.program.dtype, INTEGER: self.integer, TRUTH: np.dtype(bool)}[kind]

    def outputs(self) -> list:
        """Return the outputs of the program as arrays."""
        values: dict[int, jax.Array] = {}
        self.region(self.program.root, values)
        results = []
        for result, out in zip(self.program.results, self.program.outputs, strict=True):
            if isinstance(result, Memory):
                results.append(self.memory[result.buffer].reshape(out.shape).astype(out.dtype))
            else:
                scalars = [self.value(node, values) for node in result.ravel()]
                stacked = jnp.stack(scalars) if scalars else jnp.zeros(0, out.dtype)
                results.append(stacked.reshape(out.shape).astype(out.dtype))
        return results

    def constant(self, node):
        return jnp.asarray(node.value, self.dtype(node.kind))

    def stack(self, node, values):
        self.memory[node.buffer] = jnp.stack([self.value(x, values) for x in node.args])

    def once(self, node, x):
        if self.separate:
            return computed_once(x) if node.op != "load" and node.serial in self.shared else x
        return lax.optimization_barrier(x) if is_decision(node) else x

    @cached_property
    def shared(self) -> set[int]:
        """Serial numbers of the nodes that are used more than once, or outside the expressions of their own region."""
        ends: list[Node] = [
            x for result in self.program.results if not isinstance(result, Memory) for x in result.ravel()
        ]
        for region in self.live.regions:
            for node in self.live.nodes(region):
                if node.op in ("loop", "stack", "load"):
                    ends += node.args
                if node.op == "loop":
                    loop = node.loop
                    ends += [*loop.results, *loop.inits, *(x for _, row in loop.rows for x in row)]
                    ends += [loop.condition] if loop.condition else []
        several = {serial for serial, uses in self.live.uses.items() if uses > 1}
        return several | self.live.crossing | {x.serial for x in ends}

    def compute(self, node, values):
        if node.op == "load":
            return self.load(node, values)
        args = [self.value(x, values) for x in node.args]
        if node.op == "real":
            return args[0].astype(self.program.dtype)
        if node.op == "integer":
            return args[0].astype(self.integer)
        return OPERATIONS[node.op].xla(*args)

    def load(self, node: Node, values):
        """Return the scalar in memory that a "load" node reads."""
        buffer, offset, stride = node.address
        array = self.inputs[buffer.source] if buffer.source is not None else self.memory[buffer]
        index = node.moving_index
        if index is None:
            return array[offset]
        return lax.dynamic_index_in_dim(array, offset + stride * self.value(index, values), keepdims=False)

    def iterate(self, loop, carried, inits, values):

        def step(old, index):
            """Return the new carried values and the rows of one iteration."""
            # Arrays that are filled in the body are not visible outside it.
            held = dict(self.memory)
            inner = self.in_body(loop, carried, index, old, values)
            self.memory = held
            rows = [[self.value(x, inner) for x in row] for _, row in self.live.rows(loop)]
            return tuple(self.value(loop.results[k], inner) for k in carried), rows

        finals, rows = lax.scan(step, inits, jnp.arange(loop.length, dtype=self.integer))
        for (buffer, _), columns in zip(self.live.rows(loop), rows, strict=True):
            table = jnp.stack(columns, axis=1)
            self.memory[buffer] = jnp.ravel(table[::-1] if loop.reverse else table)
        return finals

    def iterate_while(self, loop, carried, inits, values):

        def goes_on(counted):
            """Return True if iterations are left and the condition holds; `counted`: (iterations done, *carried values)."""
            return (counted[0] < loop.length) & self.goes_on(loop, carried, counted[1:], values)

        def step(counted):
            """Return the number of the next iteration, and the carried values."""
            held = dict(self.memory)
            inner = self.in_body(loop, carried, counted[0], counted[1:], values)
            self.memory = held
            return (counted[0] + 1, *(self.value(loop.results[k], inner) for k in carried))

        return lax.while_loop(goes_on, step, (jnp.zeros((), self.integer), *inits))[1:]
