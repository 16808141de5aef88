"""From LLVM text to a function that XLA calls: compilation for this processor."""

from __future__ import annotations

import ctypes
import functools
import os
import platform

import numpy as np
from llvmlite import binding
from llvmlite import ir as llvm_ir

from jaxmbs.programs.backends.llvm import vector_math
from jaxmbs.programs.backends.llvm.emitter import Emitter
from jaxmbs.programs.backends.llvm.handler import HANDLER, api_field, api_version, pointers
from jaxmbs.programs.content import joined
from jaxmbs.programs.store import store
from jaxmbs.programs.tracing.program import Program

# Programs whose whole batch takes fewer scalar operations than this are run by the calling thread alone: waking another
# one takes some microseconds.
WORTH_A_THREAD = 100_000
# Parts into which a batch is divided for each thread: more even out the load, fewer cost less.
PARTS_PER_THREAD = 4
# How much LLVM does for the choice of instructions and registers. Twice as much makes code that runs no faster and takes
# twice as long to make; nothing, code that is made five times quicker and is 2.5 times slower. That is for what runs once
# for a sample, and is large: programs without loops from so many scalar operations on.
EFFORT = 1
LARGEST_OPTIMISED = 20_000

# Without an aligned stack every second spill crosses a cache line, which halves the speed.
ATTRIBUTES = ["noinline", "nounwind", "alignstack=64", '"stackrealign"']


@functools.cache
def host() -> tuple[str, str, int]:
    """Name of the processor, its features, and the width of its vectors in bytes."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx2") and features.get("fma") else 16
    return binding.get_host_cpu_name(), features.flatten(), width


def supported() -> bool:
    """Whether machine code may be made: on systems with POSIX's allocation and threads, with fused multiplication and
    addition in hardware."""
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return os.name == "posix" and (arm or bool(binding.get_host_cpu_features().get("fma")))


# Regions up to this many scalar operations keep two vectors of each value in flight. In larger ones the values are more
# than the registers hold anyway, and compilation takes half the time with one.
LARGE_REGION = 1_800
# In loops larger regions keep two as well, if what crosses from one region to another leaves room for them in a first-level
# cache.
LARGE_LOOP, FEW_CROSSING = 4_000, 192


def natural_lanes(program: Program) -> int:
    """Lanes of a kernel: two vectors of the host, so that one's latency hides behind the other's, or one."""
    one = host()[2] // np.dtype(program.dtype).itemsize
    facts = program.facts
    if facts.largest_region <= LARGE_REGION:
        return 2 * one
    if facts.regions == 1 or facts.largest_region > LARGE_LOOP:
        return one
    return 2 * one if facts.crossing <= FEW_CROSSING else one


def module_text(program: Program, lanes: int) -> tuple[str, set]:
    """The whole module as text, and the elementary functions that it calls."""
    emitter = Emitter(program, lanes)
    kernel = emitter.emit()
    major, minor = api_version()
    inputs, outputs = len(program.facts.loaded), len(program.outputs)
    handler = HANDLER.format(
        number_of_threads=api_field("XLA_FFI_ThreadPool_NumThreads"),
        schedule=api_field("XLA_FFI_ThreadPool_Schedule"),
        destroy_error=api_field("XLA_FFI_Error_Destroy"),
        create_error=api_field("XLA_FFI_Error_Create"),
        major=major,
        minor=minor,
        count=max(inputs + outputs, 1),
        pointers=pointers(inputs, outputs),
        effort=program.work,
        worth=WORTH_A_THREAD,
        parts=PARTS_PER_THREAD,
        lanes=lanes,
    )
    cpu, features, width = host()
    attributes = [f'"target-cpu"="{cpu}"', f'"target-features"="{features}"']
    attributes += [f'"{name}"="{8 * width}"' for name in ("prefer-vector-width", "min-legal-vector-width")]
    declared = _declared(kernel)
    lines = [line for line in handler.splitlines() if line.split("(")[0] not in declared]
    text = "\n".join([kernel, *lines, f"attributes #0 = {{ {' '.join(ATTRIBUTES + attributes)} }}"])
    real = emitter.module.real
    for name, count in sorted(emitter.module.elementary):
        kind = real if count == 1 else f"<{count} x {real}>"
        result = f"{{{kind}, {kind}}}" if name == "sin_cos" else kind
        text += f"\ndeclare {result} @{name}.{count}({', '.join([kind] * (_arity(name)))})"
    return text, emitter.module.elementary


def _arity(name: str) -> int:
    return 2 if name == "atan2" else 1


def _declared(text: str) -> set[str]:
    return {line.split("(")[0] for line in text.splitlines() if line.startswith("declare")}


def elementary_text(functions, dtype) -> str:
    """A module with these elementary functions, each to be inlined where it is called."""
    module = llvm_ir.Module("elementary")
    for name, lanes in sorted(functions):
        scalar = llvm_ir.FloatType() if np.dtype(dtype) == np.float32 else llvm_ir.DoubleType()
        kind = scalar if lanes == 1 else llvm_ir.VectorType(scalar, lanes)
        result = llvm_ir.LiteralStructType([kind, kind]) if name == "sin_cos" else kind
        count = _arity(name)
        function = llvm_ir.Function(module, llvm_ir.FunctionType(result, [kind] * count), f"{name}.{lanes}")
        function.linkage = "linkonce_odr"
        function.attributes.add("alwaysinline")
        builder = llvm_ir.IRBuilder(function.append_basic_block())
        value = getattr(vector_math, name)(builder, *function.args)
        if name == "sin_cos":
            pair = builder.insert_value(llvm_ir.Constant(result, llvm_ir.Undefined), value[0], 0)
            value = builder.insert_value(pair, value[1], 1)
        builder.ret(value)
    cpu, features, width = host()
    text = str(module)
    # The same target as the callers', or they would not be inlined.
    attributes = f'"target-cpu"="{cpu}" "target-features"="{features}" "min-legal-vector-width"="{8 * width}"'
    return text.replace("alwaysinline", f"alwaysinline {attributes}")


def object_code(program: Program, lanes: int) -> bytes:
    """A program compiled for this processor, as an object file."""
    text, elementary = module_text(program, lanes)
    module = binding.parse_assembly(text)
    if elementary:
        module.link_in(binding.parse_assembly(elementary_text(elementary, program.dtype)))
    machine = _machine(_effort(program))
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    # Inlining only: a trace leaves nothing for the other passes, which would take a third of the time of all this.
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=0))
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


def _effort(program: Program) -> int:
    facts = program.facts
    return 0 if program.once or (facts.regions == 1 and facts.size > LARGEST_OPTIMISED) else EFFORT


def _machine(effort: int):
    cpu, features, _ = host()
    return binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=effort, jit=True)


class MachineCode:
    """A compiled program, made or found in the store: the engine that owns it, and its handler for XLA."""

    def __init__(self, program: Program, lanes: int):
        cpu, features, _ = host()
        key = joined(program.fingerprint, lanes, program.once, cpu, features)
        place = store()
        code = None if place is None else place.get("object", key)
        if code is None:
            code = object_code(program, lanes)
            if place is not None:
                place.put("object", key, code)
        self.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(0))
        self.engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        self.address = self.engine.get_function_address("handler")

    def capsule(self):
        """The handler as XLA takes it."""
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(self.address, b"xla._CUSTOM_CALL_TARGET", None)
