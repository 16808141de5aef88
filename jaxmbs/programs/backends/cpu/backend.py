"""Programs as vector machine code, which XLA calls as a foreign function."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.programs.backends.backend import AbstractBackend, merge_batch_axes
from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.tracing.program import Program


class MachineCodeOnCPU(AbstractBackend):
    """Runs a program as one kernel of machine code, its loops inside, with a lane for each sample. Needs llvmlite."""

    def takes(self, platform: str) -> bool:
        return platform == "cpu" and ffi.available("jaxmbs.programs.backends.cpu.machine")

    def lower(self, program: Program, batch: tuple[int, ...], args: Sequence[Array], platform: str) -> list[Array]:
        total = math.prod(batch)
        name = registered_name(program, total)
        # Inputs that no result depends on are not passed: a mechanism has many numbers.
        loaded = program.facts.loaded
        args, inner, places = merge_batch_axes([args[k] for k in loaded], batch)
        sizes = [program.inputs[k].size for k in loaded] + [out.size for out in program.outputs]
        places += [(inner, 1)] * len(program.outputs)
        strides = [size * step for size, steps in zip(sizes, places, strict=True) for step in steps]
        meta = jnp.asarray(np.array([total, inner, *strides], dtype=np.int64).view(np.int32))
        outputs = [jax.ShapeDtypeStruct((*batch, *out.shape), out.dtype) for out in program.outputs]
        if total == 0 or not outputs:
            return [jnp.zeros(out.shape, out.dtype) for out in outputs]
        return list(jax.ffi.ffi_call(name, outputs)(meta, *args))

    def explain(self) -> str:
        return "straight-line, LLVM"


_registry = ffi.Registry("cpu")


def registered_name(program: Program, total: int) -> str:
    """Return XLA's name of the machine code for a batch of `total` samples, compiled and registered on first use."""
    from jaxmbs.programs.backends.cpu import machine

    lanes = 1 if total == 1 else machine.natural_lanes(program)
    level = machine.optimisation_level(program, total)
    name = f"jaxmbs_{program.fingerprint}_{lanes}_{level}"
    _registry.add(name, lambda: machine.MachineCode(program, lanes, level))
    return name
