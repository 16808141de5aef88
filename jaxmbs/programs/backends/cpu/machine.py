"""From LLVM text to a function that XLA calls: compilation for this processor."""

from __future__ import annotations

import functools
import os
import platform

import numpy as np
from llvmlite import binding

from jaxmbs.programs.backends.cpu.handler import handler
from jaxmbs.programs.backends.cpu.vectors import VectorEmitter
from jaxmbs.programs.backends.llvm import elementary
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.runtime.collector import without_garbage_collection
from jaxmbs.programs.runtime.content import digest_of_parts
from jaxmbs.programs.runtime.store import active_store
from jaxmbs.programs.tracing.program import Program

# LLVM's attributes of all functions of a kernel. Without an aligned stack every second spill crosses a cache line,
# which halves the speed.
ATTRIBUTES = ["noinline", "nounwind", "alignstack=64", '"stackrealign"']


@functools.cache
def host() -> tuple[str, str, int]:
    """Return the name of the processor, its features, and the width of its vectors in bytes."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx2") and features.get("fma") else 16
    return binding.get_host_cpu_name(), features.flatten(), width


def supported() -> bool:
    """Return True on systems with POSIX's allocation and threads, and with a fused multiply-add in hardware."""
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return os.name == "posix" and (arm or bool(binding.get_host_cpu_features().get("fma")))


def natural_lanes(program: Program) -> int:
    """Return the number of lanes of a program's kernel: those of one vector of the host, or of two to hide latency."""
    one = host()[2] // np.dtype(program.dtype).itemsize
    facts = program.facts
    if facts.largest_region <= tuning.MAX_OPERATIONS_TWO_VECTORS:
        return 2 * one
    if facts.regions == 1 or facts.largest_region > tuning.MAX_OPERATIONS_TWO_VECTORS_IN_LOOPS:
        return one
    return 2 * one if facts.crossing <= tuning.MAX_CROSSING_VALUES else one


def module_text(program: Program, lanes: int, ordered: bool = True) -> tuple[str, set[tuple[str, int]]]:
    """Return the LLVM module of a program as text, and the elementary functions that it calls.

    Args:
        program: the program.
        lanes: number of lanes of a vector.
        ordered: True to order operations for few values alive at once.
    """
    emitter = VectorEmitter(program, lanes, ordered)
    kernel = emitter.emit()
    declared = {line.split("(")[0] for line in kernel.splitlines() if line.startswith("declare")}
    lines = handler(len(program.facts.loaded), len(program.outputs), program.work, lanes).splitlines()
    called = emitter.module.elementary
    text = [
        kernel,
        *(line for line in lines if line.split("(")[0] not in declared),
        f"attributes #0 = {{ {' '.join([*ATTRIBUTES, _target_attributes()])} }}",
        *elementary.declarations(called, emitter.module.real),
    ]
    return "\n".join(text), called


def _target_attributes() -> str:
    """Return the attributes of functions for this processor."""
    cpu, features, width = host()
    attributes = {"target-cpu": cpu, "target-features": features}
    attributes |= dict.fromkeys(("prefer-vector-width", "min-legal-vector-width"), str(8 * width))
    return " ".join(f'"{name}"="{value}"' for name, value in attributes.items())


@without_garbage_collection()
def object_code(program: Program, lanes: int, level: int) -> bytes:
    """Return a program compiled for this processor at LLVM's level of optimisation, as the bytes of an object file."""
    # Without optimisation all values lie in memory, whatever their order.
    text, called = module_text(program, lanes, ordered=level > 0)
    module = elementary.link(text, called, program.dtype, _target_attributes())
    machine = _machine(level)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    # Inlining only: other passes find nothing to do, and would take a third of the time.
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=0))
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def optimisation_level(program: Program, total: int) -> int:
    """Return LLVM's level of optimisation, 0 to 3, for a program that runs for `total` samples."""
    facts = program.facts
    if total <= program.max_unoptimised_samples:
        return 0
    if facts.regions == 1:
        return 0 if facts.size > tuning.MAX_OPTIMISED_OPERATIONS else tuning.OPTIMISATION_LEVEL
    # The time of optimising an operation grows with the size of its region.
    short = tuning.MIN_EVALUATIONS_TO_OPTIMISE * (1 + facts.largest_region / tuning.LARGE_REGION_OPERATIONS)
    return 0 if facts.work * total < short * facts.size else tuning.OPTIMISATION_LEVEL


def _machine(level: int) -> binding.TargetMachine:
    """Return llvmlite's target machine for this processor at LLVM's level of optimisation, 0 to 3."""
    cpu, features, _ = host()
    return binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=level, jit=True)


class MachineCode:
    """A compiled program, made or found in the store: the engine that owns it, and its handler for XLA."""

    def __init__(self, program: Program, lanes: int, level: int = tuning.OPTIMISATION_LEVEL):
        cpu, features, _ = host()
        key = digest_of_parts(program.fingerprint, lanes, level, cpu, features)
        place = active_store()
        code = None if place is None else place.get("object", key)
        if code is None:
            code = object_code(program, lanes, level)
            if place is not None:
                place.put("object", key, code)
        self.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(0))
        self.engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        self.address = self.engine.get_function_address("handler")
