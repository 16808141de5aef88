"""Programs as kernels of TPUs, which compute tiles of 1,024 samples."""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp

from jaxmbs.programs.backends.backend import AbstractBackend
from jaxmbs.programs.runtime import tuning

# Shape of a tile: sublanes and lanes of a vector register.
TILE = (8, 128)
# Samples of a tile.
SAMPLES_PER_TILE = 8 * 128


class AbstractTiles(AbstractBackend):
    """Backend that runs each program as one kernel, its loops inside, with a tile of samples for each scalar.

    Attributes:
        interpret: True to run the kernel as JAX operations, on any platform.
    """

    by_shard_map = True
    interpret: ClassVar[bool]

    def refusal(self, program):
        from jaxmbs.programs.backends.tpu import kernel

        if program.dtype != kernel.FLOAT:
            return f"TPUs have no {program.dtype}, so XLA computes it in software; use float32"
        if program.facts.size > tuning.MAX_OPERATIONS_TPU:
            return (
                f"{program.facts.size:,} operations, more than the {tuning.MAX_OPERATIONS_TPU:,} of a kernel for TPUs"
            )
        if (needed := kernel.memory_bytes(program)) > tuning.MAX_VECTOR_MEMORY_BYTES:
            limit = tuning.MAX_VECTOR_MEMORY_BYTES / 2**20
            return f"a tile of samples needs {needed / 2**20:.0f} MB of vector memory; a kernel has {limit:.0f} MB"
        return None

    def lower(self, program, batch, args, platform):
        from jaxmbs.programs.backends.tpu import kernel

        total = math.prod(batch)
        outputs = [jnp.zeros((*batch, *out.shape), out.dtype) for out in program.outputs]
        written = kernel.outputs_with_entries(program)
        if total == 0 or not written:
            return outputs
        tiles = -(-total // SAMPLES_PER_TILE)
        placed, shared, entries = [], [], 0
        for k in program.facts.loaded:
            x, own = args[k].astype(kernel.number_type(args[k].dtype)), program.inputs[k]
            same = math.prod(x.shape[: len(batch)]) == 1 and entries + own.size <= tuning.MAX_SHARED_ENTRIES
            entries += own.size if same else 0
            shared.append(same)
            placed.append(x.ravel() if same else in_tiles(x, batch, own, tiles))
        results = kernel.kernel(program, shared, tiles, self.interpret)(*placed)
        for k, x in zip(written, results, strict=True):
            outputs[k] = from_tiles(x, batch, program.outputs[k])
        return outputs


class KernelOnTPU(AbstractTiles):
    """Kernels on TPUs, by Pallas."""

    interpret = False
    by_other_compiler = True

    def takes(self, platform):
        return platform == "tpu"

    def explain(self):
        return "straight-line, one kernel on the TPU"


class KernelInterpreted(AbstractTiles):
    """The same kernels on this processor, by JAX operations, for tests."""

    interpret = True

    def takes(self, platform):
        return platform == "cpu"

    def explain(self):
        return "straight-line, one kernel for TPUs, interpreted"


def in_tiles(x, batch: tuple[int, ...], own, tiles: int):
    """Return an input as (entries, tiles, 8, 128); the last tile is filled up with copies of the last sample."""
    total, depth = math.prod(batch), len(batch)
    x = jnp.broadcast_to(x, (*batch, *own.shape)).reshape(*batch, own.size)
    x = x.transpose(depth, *order(batch)).reshape(own.size, total)
    x = jnp.pad(x, ((0, 0), (0, tiles * SAMPLES_PER_TILE - total)), mode="edge")
    return x.reshape(own.size, tiles, *TILE)


def from_tiles(x, batch: tuple[int, ...], out):
    """Return an output (entries, tiles, 8, 128) as an array with the batch in front."""
    axes = order(batch)
    x = x.reshape(out.size, -1)[:, : math.prod(batch)].reshape(out.size, *(batch[k] for k in axes))
    x = x.transpose(*(1 + axes.index(k) for k in range(len(batch))), 0)
    return x.reshape(*batch, *out.shape).astype(out.dtype)


def order(batch: tuple[int, ...]) -> list[int]:
    """Return the batch axes from the shortest to the longest.

    Neighbours along the longest axis become neighbours in a tile. XLA keeps them in neighbouring lanes, too, so nothing is
    moved from lane to lane.
    """
    return sorted(range(len(batch)), key=lambda k: batch[k])
