"""Programs as vector machine code, which XLA calls as a foreign function."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.backends.backend import AbstractBackend
from jaxmbs.programs.tracing.program import Program


class MachineCodeOnCPU(AbstractBackend):
    """One kernel for a program, with its loops inside and a lane for each sample. Imports llvmlite when it is needed."""

    def takes(self, platform):
        return platform == "cpu" and _available()

    def lower(self, program, batch, args, platform):
        total = math.prod(batch)
        name = target(program, total)
        # What no result depends on is not handed over: a mechanism has many numbers.
        args, inner, strides = _strides([args[k] for k in program.facts.loaded], batch, program)
        meta = jnp.asarray(np.array([total, inner, *strides], dtype=np.int64).view(np.int32))
        outputs = [jax.ShapeDtypeStruct((*batch, *out.shape), out.dtype) for out in program.outputs]
        if total == 0 or not outputs:
            return [jnp.zeros(out.shape, out.dtype) for out in outputs]
        return jax.ffi.ffi_call(name, outputs)(meta, *args)

    def explain(self):
        return "straight-line, LLVM"


@functools.cache
def _available() -> bool:
    """Whether programs can become machine code here."""
    try:
        from jaxmbs.programs.backends.llvm import handler, machine

        handler.api_version()
        return machine.supported()
    except (ImportError, OSError, RuntimeError):
        return False


def _strides(args, batch, program: Program):
    """Batch axes as an outer and an inner one, and the strides of every buffer along both.

    Neighbouring axes on which all operands agree become one; if more than two are left, operands are spread out.
    """
    depends = [tuple(x.shape[k] == size for x in args) for k, size in enumerate(batch)]
    merged: list[tuple[int, tuple[bool, ...]]] = []
    for size, pattern in zip(batch, depends, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == pattern:
            merged[-1] = (merged[-1][0] * size, pattern)
        else:
            merged.append((size, pattern))
    if len(merged) > 2:
        args = tuple(jnp.broadcast_to(x, (*batch, *x.shape[len(batch) :])) for x in args)
        merged = [(math.prod(batch), (True,) * len(args))]
    while len(merged) < 2:
        merged.append((1, (False,) * len(args)))
    (_, by_outer), (inner, by_inner) = merged
    strides = []
    for number, a, b in zip(program.facts.loaded, by_outer, by_inner, strict=True):
        size = program.inputs[number].size
        strides += [size * (inner if b else 1) if a else 0, size if b else 0]
    for out in program.outputs:
        strides += [out.size * inner, out.size]
    return args, inner, strides


_targets: dict[tuple[str, int, bool], object] = {}


def target(program: Program, total: int) -> str:
    """The name under which XLA finds the machine code for a batch of this size; compiled when first asked for."""
    from jaxmbs.programs.backends.llvm import machine

    lanes = 1 if total == 1 else machine.natural_lanes(program)
    key = (program.fingerprint, lanes, program.once)
    name = f"jaxmbs_{program.fingerprint}_{lanes}" + "_once" * program.once
    if key not in _targets:
        code = machine.MachineCode(program, lanes)
        jax.ffi.register_ffi_target(name, code.capsule(), platform="cpu")
        _targets[key] = code
    return name
