"""The kernel of a program: each scalar is a tile of samples in registers, arrays lie in the vector memory of a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from jaxmbs.programs.backends.evaluation import AbstractEvaluation, Values, computed_once, is_decision
from jaxmbs.programs.backends.tpu.backend import SAMPLES_PER_TILE, TILE
from jaxmbs.programs.graph.graph import formula_nodes
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Buffer, Memory, Node, reached_offsets
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.program import Program

# Bytes of a tile of 32-bit numbers.
TILE_BYTES = 4 * SAMPLES_PER_TILE

# Type of real numbers in a kernel.
FLOAT = np.dtype(np.float32)
# Type of integers in a kernel; truth values are stored in it, in memory and between iterations.
INT = np.dtype(np.int32)

# Operations on integers that a core's scalar unit has; such integers are indices of memory.
SCALAR_INTEGER_OPERATIONS = frozenset({"add", "sub", "mul", "neg", "min", "max", "idiv", "irem"})


def number_type(dtype) -> np.dtype:
    """Return the type in which a kernel keeps numbers of a dtype."""
    return FLOAT if np.dtype(dtype).kind == "f" else INT


class Input(NamedTuple):
    """An input of a kernel in memory.

    Attributes:
        ref: (entries, 8, 128), or (entries,) if it is shared.
        shared: True if all samples have the same numbers, which then lie in the scalar memory.
    """

    ref: Any
    shared: bool


class Tiles(AbstractEvaluation):
    """The evaluation of a program for a tile of samples.

    Constant integers, numbers of iterations, integers that all samples share, and what `SCALAR_INTEGER_OPERATIONS` make of
    them are scalars; all other values are tiles.

    Args:
        program: program to run.
        inputs: number of an input ↦ its place in memory.
        memory: buffer that the program fills ↦ its place in memory, (entries, 8, 128).
    """

    def __init__(self, program: Program, inputs: Mapping[int, Input], memory: Mapping[Buffer, Any]):
        super().__init__(program)
        self.inputs, self.memory = inputs, memory
        # Zeros that Mosaic, the compiler of Pallas for TPUs, does not recognise as constant.
        places = lax.broadcasted_iota(INT, TILE, 0) + lax.broadcasted_iota(INT, TILE, 1)
        self._zero = lax.shift_right_logical(places, lax.full(TILE, 31, INT))

    def constant(self, node):
        if node.kind == INTEGER:
            return jnp.asarray(node.value, INT)
        return lax.full(TILE, node.value, FLOAT) if node.kind == REAL else lax.full(TILE, int(node.value), INT) != 0

    def tile(self, node: Node, values: Values):
        """Return the value of a node as a tile."""
        return as_tile(self.value(node, values))

    def kept(self, node: Node, values: Values):
        """Return the value of a node as a tile of numbers, a truth value as 0 or 1."""
        x = self.tile(node, values)
        return to_integer(x) if node.kind == TRUTH else x

    def start(self, inits: Sequence, kinds: Sequence[str]) -> tuple:
        """Return the values before the first iteration as tiles of numbers.

        Mosaic stores a constant tile as one number, and fails if a selection by samples changes it in a loop. Subtracting
        zero keeps −0.0.
        """
        numbers = [
            to_integer(as_tile(x)) if kind == TRUTH else as_tile(x) for x, kind in zip(inits, kinds, strict=True)
        ]
        return tuple(x - self._zero.astype(x.dtype) for x in numbers)

    def once(self, node, x):
        # For kernels that are interpreted on a CPU; Mosaic computes every value once.
        return computed_once(x) if is_decision(node) else x

    def stack(self, node, values):
        for k, x in enumerate(node.args):
            self.memory[node.buffer][k] = self.kept(x, values)

    def compute(self, node, values):
        if node.op == "load":
            return as_kind(self.load(node, values), node.kind)
        entry = OPERATIONS[node.op]
        args = [self.value(x, values) for x in node.args]
        if node.op in SCALAR_INTEGER_OPERATIONS and node.kind == INTEGER and all(x.ndim == 0 for x in args):
            return entry.xla(*args)
        args = [as_tile(x) for x in args]
        if node.op in ("real", "integer"):
            kind = FLOAT if node.op == "real" else INT
            return to_integer(args[0]).astype(kind) if node.args[0].kind == TRUTH else args[0].astype(kind)
        return entry.xla(*args) if entry.tpu_formula is None else self.formula(node, entry.tpu_formula, args)

    def formula(self, node: Node, formula: Callable[..., Node], args: Sequence):
        """Return the result of an operation that is computed from others."""
        nodes, result = formula_nodes(node, formula)
        values = dict(zip((x.serial for x in nodes if x.op == "param"), args, strict=True))
        for x in nodes:
            if x.op not in ("param", "const"):
                self.operation(x, values)
        return self.tile(result, values)

    def load(self, node: Node, values: Values):
        """Return the number in memory that a "load" node reads, a truth value as an integer."""
        buffer, offset, stride = node.address
        ref, shared = (self.memory[buffer], False) if buffer.source is None else self.inputs[buffer.source]
        read = (lambda k: as_number(ref[k], buffer.kind)) if shared else (lambda k: ref[k])
        if node.moving_index is None:
            return read(offset)
        index = self.value(node.moving_index, values)
        if index.ndim == 0:
            return read(offset + stride * index)
        # Samples have different indices: all entries are read, and each sample selects the one that it asks for.
        count = len(reached_offsets(buffer.length * buffer.width, offset, stride))
        index = jnp.clip(index, 0, count - 1)

        def choose(k, found):
            """Return the numbers found so far, with entry k where it is wanted."""
            return jnp.where(index == k, as_tile(read(offset + stride * k)), found)

        return lax.fori_loop(np.int32(1), np.int32(count), choose, as_tile(read(offset)))

    def iterate(self, loop, carried, inits, values):
        kinds = [loop.params[k].kind for k in carried]

        def step(index, old):
            """Return the carried values after an iteration, whose rows go to memory."""
            inner = self.in_body(loop, carried, index, as_kinds(old, kinds), values)
            for buffer, row in self.live.rows(loop):
                at = (loop.length - 1 - index if loop.reverse else index) * buffer.width
                for k, x in enumerate(row):
                    self.memory[buffer][at + k] = self.kept(x, inner)
            return tuple(self.kept(loop.results[k], inner) for k in carried)

        finals = lax.fori_loop(np.int32(0), np.int32(loop.length), step, self.start(inits, kinds))
        return as_kinds(finals, kinds)

    def iterate_while(self, loop, carried, inits, values):
        kinds = [loop.params[k].kind for k in carried]
        goes_on = lambda state: to_number(as_tile(self.goes_on(loop, carried, as_kinds(state, kinds), values)))

        def is_unfinished(counted):
            """Return True while the condition holds for some sample and iterations are left."""
            count, running, *_ = counted
            return (count < loop.length) & (jnp.max(running) > 0)

        def step(counted):
            """Return the state after an iteration; samples whose condition fails keep theirs."""
            count, running, *old = counted
            inner = self.in_body(loop, carried, count, as_kinds(old, kinds), values)
            new = [self.kept(loop.results[k], inner) for k in carried]
            state = [jnp.where(running > 0, x, y) for x, y in zip(new, old, strict=True)]
            return count + 1, running * goes_on(state), *state

        start = self.start(inits, kinds)
        finals = lax.while_loop(is_unfinished, step, (jnp.zeros((), INT), goes_on(start), *start))[2:]
        return as_kinds(finals, kinds)


def as_tile(x):
    """Return a scalar as a tile, and a tile unchanged."""
    return x if x.ndim else lax.broadcast(x, TILE)


def as_number(x, kind: str):
    """Return a number of the scalar memory: integers as they are, others as a tile."""
    return x if kind == INTEGER else as_tile(x)


def to_integer(x):
    """Return truth values as the integers 0 and 1."""
    return x.astype(INT)


def to_number(x):
    """Return truth values as the real numbers 0 and 1."""
    return x.astype(INT).astype(FLOAT)


def as_kind(x, kind: str):
    """Return a number as a value of a kind of node: for TRUTH, True where it is not 0."""
    return as_tile(x) != 0 if kind == TRUTH else x


def as_kinds(values: Sequence, kinds: Sequence[str]) -> list:
    """Return numbers between iterations as values of kinds of nodes."""
    return [as_kind(x, kind) for x, kind in zip(values, kinds, strict=True)]


class Places(NamedTuple):
    """Places of the arrays of a program in the vector memory.

    Attributes:
        outputs: buffer ↦ number of the output whose memory it uses.
        scratch: the other buffers that loops and stacks fill.
    """

    outputs: dict[Buffer, int]
    scratch: list[Buffer]

    @classmethod
    def of(cls, program: Program) -> Places:
        """Return the places of the arrays of a program."""
        filled = [x for x in program.live.buffers if x.source is None and x.length * x.width]
        outputs: dict[Buffer, int] = {}
        for k, result in enumerate(program.results):
            if isinstance(result, Memory) and result.buffer in filled:
                outputs.setdefault(result.buffer, k)
        return cls(outputs, [buffer for buffer in filled if buffer not in outputs])


def outputs_with_entries(program: Program) -> list[int]:
    """Return the numbers of the outputs that have entries; a tree without loops has no multipliers."""
    return [k for k, x in enumerate(program.outputs) if x.size]


def memory_bytes(program: Program) -> int:
    """Return the largest number of bytes of vector memory that a tile of samples needs.

    Inputs and outputs count twice, because they are double-buffered; inputs that all samples share count as tiles.
    """
    moving = sum(program.inputs[k].size for k in program.facts.loaded) + sum(x.size for x in program.outputs)
    return TILE_BYTES * (2 * moving + sum(buffer.length * buffer.width for buffer in Places.of(program).scratch))


def kernel(program: Program, shared: Sequence[bool], tiles: int, interpret: bool) -> Callable[..., list]:
    """Return the kernel of a program as a function of the inputs that it loads.

    Args:
        program: program to run.
        shared: for each of those inputs, True if all samples have the same numbers: (entries,). The others are (entries,
            tiles, 8, 128).
        tiles: number of tiles.
        interpret: True to run it as JAX operations on any platform.

    Returns:
        The function, whose results are (entries, tiles, 8, 128), one for each output of the program that has entries.
    """
    places, loaded, written = Places.of(program), program.facts.loaded, outputs_with_entries(program)

    def body(*refs):
        """Compute a tile of the outputs."""
        inputs = {k: Input(ref, same) for k, ref, same in zip(loaded, refs, shared, strict=False)}
        outputs = dict(zip(written, refs[len(loaded) :], strict=False))
        memory = {buffer: outputs[k] for buffer, k in places.outputs.items()}
        memory |= zip(places.scratch, refs[len(loaded) + len(outputs) :], strict=True)
        evaluation, values = Tiles(program, inputs, memory), dict[int, jax.Array]()
        evaluation.region(program.root, values)
        for k, ref in outputs.items():
            result = program.results[k]
            if not isinstance(result, Memory):
                for entry, node in enumerate(result.ravel()):
                    ref[entry] = evaluation.kept(node, values)
            elif places.outputs.get(result.buffer) != k:
                _copy(memory[result.buffer] if result.buffer.source is None else inputs[result.buffer.source].ref, ref)

    block = lambda x: pl.BlockSpec((x.size, None, *TILE), lambda tile: (0, tile, 0, 0))
    of_input = lambda k, same: pl.BlockSpec(memory_space=pltpu.SMEM) if same else block(program.inputs[k])
    shape = lambda x: jax.ShapeDtypeStruct((x.size, tiles, *TILE), number_type(x.dtype))
    call = pl.pallas_call(
        body,
        grid=(tiles,),
        in_specs=[of_input(k, same) for k, same in zip(loaded, shared, strict=True)],
        out_specs=[block(program.outputs[k]) for k in written],
        out_shape=[shape(program.outputs[k]) for k in written],
        scratch_shapes=[
            pltpu.VMEM((buffer.length * buffer.width, *TILE), FLOAT if buffer.kind == REAL else INT)
            for buffer in places.scratch
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=memory_bytes(program) + tuning.SPILL_MEMORY_BYTES,
        ),
        interpret=interpret,
        name="".join(x if x.isalnum() else "_" for x in program.name),
    )

    def run(*args):
        """Return the outputs; loops of the kernel count in 32 bits whatever `jax_enable_x64` says."""
        with jax.enable_x64(False):
            return list(call(*args))

    return run


def _copy(source, target) -> None:
    """Copy all entries of an array in the vector memory, or in the scalar memory, to another one."""

    def entry(k, _):
        target[k] = as_tile(source[k])
        return _

    lax.fori_loop(np.int32(0), np.int32(target.shape[0]), entry, np.int32(0))
