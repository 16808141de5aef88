"""A program as a JAX primitive: lanes for batches, programs for derivatives, machine code or XLA for the platform.

The primitive's operands have the batch axes in front, as many for all of them; an operand that does not depend on an
axis has size 1 there.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from jaxmbs.programs.backends import EMISSION, EMISSIONS, PLATFORMS, backend_for
from jaxmbs.programs.derivatives.derived import (
    cotangent_program,
    has_loops,
    instantiate,
    linearized_programs,
    tangent_program,
)
from jaxmbs.programs.errors import PerformanceWarning
from jaxmbs.programs.runtime import jax_compat
from jaxmbs.programs.runtime.collector import without_garbage_collection
from jaxmbs.programs.runtime.sharding import by_shard_map, by_shards
from jaxmbs.programs.tracing.program import Program, release_graphs
from jaxmbs.programs.tracing.rules import rule

run_p = core.Primitive("straight_line_program")
run_p.multiple_results = True


def emission(name: str) -> AbstractContextManager[Any]:
    """Return a context in which functions are compiled into the given kind of code, whatever JAXMBS_EMISSION says.

    Use it to export a function with `jax.export`: machine code and kernels are made for one processor, but XLA operations
    run on all of them.

    Args:
        name: "llvm", machine code on CPUs and one kernel on NVIDIA GPUs and TPUs, the default; "xla", elementwise XLA
            operations; "array", JAX's array operations as they were written; "gpu-on-host" and "tpu-on-host", a GPU's or
            a TPU's kernel on a CPU, for tests.

    Returns:
        The context manager.

    Raises:
        ValueError: another name.

    Examples:
        >>> lengths = jax.ShapeDtypeStruct((2,), jnp.result_type(float))
        >>> area = jax.jit(mbs.program(lambda x: x[0] * x[1]))
        >>> with mbs.emission("xla"):
        ...     exported = jax.export.export(area)(lengths)
        >>> print(exported.call(jnp.array([2.0, 3.0])))
        6.0
    """
    if name not in EMISSIONS:
        raise ValueError(f"emission must be one of {', '.join(map(repr, EMISSIONS))}, got {name!r}")
    return EMISSION(name)


def run(program: Program, *args) -> list:
    """Return the outputs of a program for one sample; under `vmap` for a batch."""
    if EMISSIONS.get(EMISSION.value) == ():
        jax_compat.check_array_code(args, f"the emission is {EMISSION.value!r}")
        return core.jaxpr_as_fun(program.source)(*args)
    return _bind(*args, program=program, batch=(), emission=EMISSION.value)


def _bind(*args, **params) -> list:
    """Bind the primitive and return its outputs; its operands may vary over different axes of a `shard_map`."""
    return run_p.bind(*jax_compat.varying_alike(args), **params)


def zero_tangent(x):
    """Return the zero tangent of a value, which has dtype float0 unless the value is real."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


# x ↦ x, without derivative; see `save_for_reverse`.
save_p = core.Primitive("save_for_reverse")
save_p.def_impl(lambda x: x)
save_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(save_p, lambda context, x: [x])
batching.primitive_batchers[save_p] = lambda args, dims: (save_p.bind(*args), dims[0])
ad.primitive_jvps[save_p] = lambda primals, _: (save_p.bind(*primals), zero_tangent(*primals))
ad.primitive_transposes[save_p] = lambda cotangent, _: [cotangent]


def save_for_reverse(x):
    """Return x, a value without derivative that takes long to compute.

    Reverse mode computes the iterations of a loop again, but takes this value from the forward run.
    """
    return save_p.bind(jnp.asarray(x))


def as_variables(start):
    """Return a pytree of arrays marked as start values of a loop that change in it.

    A program traces values that are constant at the start of a loop as constants, so that zeros of a matrix cost nothing,
    and traces the body again with those that change. Values marked here are variables from the first time.
    """
    return jax.tree.map(jax.lax.optimization_barrier, start)


@run_p.def_impl
def _impl(*args, **params):
    """Run a program outside `jit`, by a compiled function."""
    # A program is compiled even under `jax.disable_jit`, which runs everything else operation by operation.
    with jax.disable_jit(False):
        return _jitted_bind(**params)(*args)


@functools.lru_cache(maxsize=256)
def _jitted_bind(**params):
    """Return the compiled function that binds the primitive."""
    return jax.jit(lambda *args: run_p.bind(*args, **params))


@run_p.def_abstract_eval
def _abstract(*args, program: Program, batch, emission):
    """Return the shapes and types of the outputs of a batch."""
    return jax_compat.shaped_like([((*batch, *out.shape), out.dtype) for out in program.outputs], args)


def _batch(args, dims, *, program, batch, emission):
    """Return the outputs of a batch, the new axis in front of all others, and its places there."""
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    moved = [x[None] if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
    results = _bind(*moved, program=program, batch=(size, *batch), emission=emission)
    return results, [0] * len(results)


batching.primitive_batchers[run_p] = _batch


def _real_tangents(tangents, active) -> list:
    """Return the tangents of the active inputs as arrays, symbolic zeros written out."""
    return [ad.instantiate_zeros(t) for t, is_active in zip(tangents, active, strict=True) if is_active]


def _all_tangents(program: Program, outputs, rates) -> list:
    """Return the tangents of all outputs: `rates`, those of the real ones, and zero tangents of the others."""
    rates = iter(rates)
    return [
        next(rates) if shape.dtype.kind == "f" else zero_tangent(x)
        for x, shape in zip(outputs, program.outputs, strict=True)
    ]


def _jvp(primals, tangents, *, program: Program, batch, emission):
    """Return the outputs and their tangents, by the tangent program of the active inputs."""
    out = _bind(*primals, program=program, batch=batch, emission=emission)
    active = tuple(
        type(t) is not ad.Zero and x.dtype.kind == "f" for t, x in zip(tangents, program.inputs, strict=True)
    )
    if not any(active):
        return out, [zero_tangent(x) for x in out]
    given = _real_tangents(tangents, active)
    rates = _bind(*primals, *given, program=tangent_program(program, active), batch=batch, emission=emission)
    return out, _all_tangents(program, out, rates)


ad.primitive_jvps[run_p] = _jvp


def _linearize(is_vjp, nonzeros, *primals, program: Program, batch, emission):
    """Linearize a program with loops for reverse mode in two runs, the first of which keeps states; others by `_jvp`."""
    params = {"batch": batch, "emission": emission}
    active = tuple(bool(nz) and x.dtype.kind == "f" for nz, x in zip(nonzeros, program.inputs, strict=True))
    if not (is_vjp and any(active) and has_loops(program)):
        return jax_compat.linearize_by_jvp(run_p, is_vjp, nonzeros, *primals, program=program, **params)
    keep, linear, kept = linearized_programs(program, active)
    results = _bind(*primals, program=keep, **params)
    split = len(results) - kept
    outputs, states = results[:split], results[split:]

    def tangents_of_outputs(residuals, *tangents):
        """Return the tangents of the outputs from the kept states, by the linear program."""
        rates = _bind(*residuals, *_real_tangents(tangents, active), program=linear, **params)
        return _all_tangents(program, outputs, rates)

    nonzero = [shape.dtype.kind == "f" for shape in program.outputs]
    return outputs, nonzero, [*primals, *states], tangents_of_outputs


jax_compat.define_linearization(run_p, _linearize)


def _transpose(cotangents, *args, program: Program, batch, emission):
    """Return the cotangents of the linear inputs, by the cotangent program; None for the others."""
    linear = tuple(ad.is_undefined_primal(x) for x in args)
    cotangents = [ad.instantiate_zeros(ct) for ct in cotangents]
    others = [x for x, lin in zip(args, linear, strict=True) if not lin]
    results = _bind(*others, *cotangents, program=cotangent_program(program, linear), batch=batch, emission=emission)

    def summed(x, value):
        """Return the cotangent of an operand: one that does not depend on a batch axis collects from all of it."""
        axes = tuple(k for k, size in enumerate(batch) if x.aval.shape[k] != size)
        return jnp.sum(value, axis=axes, keepdims=True) if axes else value

    values = iter(results)
    return [summed(x, next(values)) if lin else None for x, lin in zip(args, linear, strict=True)]


ad.primitive_transposes[run_p] = _transpose


# Held while a program becomes code and graphs are deleted.
_lowering = threading.RLock()


def _lowering_rule(platform: str):
    """Return the rule by which XLA lowers a program on a platform, "cpu" for example."""

    def lower(*args, program: Program, batch, emission):
        """Lower a program by the backend of the platform, then delete graphs that are not worth their memory."""
        with _lowering, without_garbage_collection():
            results = backend_for(emission, platform, program).lower(program, batch, args, platform)
            release_graphs(program)
        return results

    def lower_by_shards(*args, batch, **params):
        """Lower a program whose batch XLA may divide among devices."""
        # XLA asks for the shards when it compiles, or not at all if it finds the result in JAX's cache.
        backend_for(params["emission"], platform, params["program"])
        whole = functools.partial(run_p.bind, batch=batch, **params)
        return by_shards(whole, lambda batch, *args: lower(*args, batch=batch, **params), batch, args)

    def lower_on_devices(*args, batch, devices, **params):
        """Lower a program whose batch is divided among these devices."""
        return by_shard_map(lambda batch, *args: lower(*args, batch=batch, **params), devices, batch, args)

    def lower_in(context, *args, **params):
        """Lower a program by shards if it is partitioned, else as a whole."""
        function: Callable[..., list] = lower
        batch = params["batch"]
        if batch and 0 not in batch and params["program"].outputs and jax_compat.is_partitioned(context):
            function = lower_by_shards
            if backend_for(params["emission"], platform, params["program"]).by_shard_map:
                function, params = lower_on_devices, params | {"devices": jax_compat.devices(context)}
        context, unchecked = jax_compat.without_varying_axes(context)
        with unchecked:
            return mlir.lower_fun(function, multiple_results=True)(context, *args, **params)

    def lower_or_fall_back(context, *args, **params):
        """Lower a program, by XLA if the compiler of its backend refuses it."""
        try:
            return lower_in(context, *args, **params)
        except Exception as error:
            program = params["program"]
            if not backend_for(params["emission"], platform, program).by_other_compiler:
                raise
            reason = (str(error).strip() or "no message").splitlines()[0]
            warnings.warn(
                f"the program {program.name} has no kernel on this {platform.upper()} and runs as elementwise XLA, which "
                f"is slow: JAX's compiler of kernels raises {type(error).__name__}: {reason}",
                PerformanceWarning,
                stacklevel=1,
            )
            return lower_in(context, *args, **params | {"emission": "xla"})

    return lower_or_fall_back


jax_compat.define_partition(run_p)
mlir.register_lowering(run_p, _lowering_rule("other"))
for _platform in PLATFORMS:
    mlir.register_lowering(run_p, _lowering_rule(_platform), platform=_platform)


@rule("straight_line_program", movement=True)
def _trace_nested_program(tracer, eqn, *args):
    """Trace a program within a program: it is taken apart, so that both share their common operations."""
    program, batch = eqn.params["program"], eqn.params["batch"]
    if batch:
        shapes = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in eqn.invars]
        return tracer.run_closed(jax.make_jaxpr(functools.partial(_row_by_row, program, batch))(*shapes), args)
    return instantiate(program, tracer, args) if program.source is None else tracer.run_closed(program.source, args)


def _row_by_row(program: Program, batch, *args):
    """Return the results of a program for each row of a batch, in a loop: inside a program a batch has no lanes."""
    if not batch:
        return _bind(*args, program=program, batch=(), emission=EMISSION.value)
    mapped = [x.shape[0] == batch[0] for x in args]

    def one(_, rows):
        """Return the results for one row of the operands that have rows."""
        rows = iter(rows)
        full = [next(rows) if m else x[0] for m, x in zip(mapped, args, strict=True)]
        return None, _row_by_row(program, batch[1:], *full)

    rows = [x for m, x in zip(mapped, args, strict=True) if m]
    return jax.lax.scan(one, None, rows, length=batch[0])[1]
