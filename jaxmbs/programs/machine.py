"""From LLVM text to a function that XLA calls: compilation for this processor, and the handler of the foreign call.

The handler follows XLA's C interface for foreign functions (`xla/ffi/api/c_api.h` in `jax.ffi.include_dir()`). The places
of fields that depend on the version are read from that header.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from pathlib import Path

import jax
import numpy as np
from llvmlite import binding
from llvmlite import ir as llvm_ir

from jaxmbs.programs import vector_math
from jaxmbs.programs.llvm import Emitter
from jaxmbs.programs.program import Program

# Programs whose whole batch takes fewer scalar operations than this are run by the calling thread alone: waking another
# one takes some microseconds.
WORTH_A_THREAD = 100_000
# Parts into which a batch is divided for each thread: more even out the load, fewer cost less.
PARTS_PER_THREAD = 4

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


# Programs with a larger region than this keep one vector in flight instead of two: their values are more than the
# registers hold anyway, and compilation takes half the time.
LARGE_REGION = 1_500


def natural_lanes(program: Program) -> int:
    """Lanes of a kernel: two vectors of the host, so that one's latency hides behind the other's, or one."""
    one = host()[2] // np.dtype(program.dtype).itemsize
    return one if program.largest_region > LARGE_REGION else 2 * one


@functools.cache
def _header() -> str:
    return (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()


@functools.cache
def api_version() -> tuple[int, int]:
    """Major and minor version of XLA's interface."""
    numbers = [
        int(x) for name in ("MAJOR", "MINOR") for x in re.findall(rf"#define XLA_FFI_API_{name} (\d+)", _header())
    ]
    if len(numbers) != 2:
        raise RuntimeError("XLA's interface for foreign functions has no version that is known here")
    return numbers[0], numbers[1]


@functools.cache
def api_field(name: str) -> int:
    """Offset in bytes of a function in the table `XLA_FFI_Api`; the functions follow 48 bytes of other fields."""
    fields = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", _header())
    return 48 + 8 * fields.index(name)


HANDLER = """
declare i32 @sched_yield()
declare ptr @malloc(i64)

; next, chunk, total, done, references, failed: counters shared by the threads; then what the kernel gets.
%shared = type {{ i64, i64, i64, i64, i64, i64, ptr, ptr }}

define internal void @release(ptr %s) #0 {{
  %at = getelementptr %shared, ptr %s, i64 0, i32 4
  %before = atomicrmw sub ptr %at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %drop, label %end
drop:
  call void @free(ptr %s)
  br label %end
end:
  ret void
}}

define internal void @work(ptr %s) #0 {{
entry:
  %next.at = getelementptr %shared, ptr %s, i64 0, i32 0
  %chunk.at = getelementptr %shared, ptr %s, i64 0, i32 1
  %chunk = load i64, ptr %chunk.at
  %total.at = getelementptr %shared, ptr %s, i64 0, i32 2
  %total = load i64, ptr %total.at
  %done.at = getelementptr %shared, ptr %s, i64 0, i32 3
  %failed.at = getelementptr %shared, ptr %s, i64 0, i32 5
  br label %take
take:
  %first = atomicrmw add ptr %next.at, i64 %chunk acq_rel
  %over = icmp sge i64 %first, %total
  br i1 %over, label %end, label %run
run:
  %meta.at = getelementptr %shared, ptr %s, i64 0, i32 6
  %meta = load ptr, ptr %meta.at
  %buffers.at = getelementptr %shared, ptr %s, i64 0, i32 7
  %buffers = load ptr, ptr %buffers.at
  %far = add i64 %first, %chunk
  %last = call i64 @llvm.smin.i64(i64 %far, i64 %total)
  %code = call i32 @kernel(i64 %first, i64 %last, ptr %meta, ptr %buffers)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %note, label %count
note:
  store atomic i64 1, ptr %failed.at monotonic, align 8
  br label %count
count:
  %lanes = sub i64 %last, %first
  %d = atomicrmw add ptr %done.at, i64 %lanes acq_rel
  br label %take
end:
  ret void
}}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @task(ptr %s) #0 {{
  call void @work(ptr %s)
  call void @release(ptr %s)
  ret void
}}

define internal i64 @threads(ptr %frame) #0 {{
entry:
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %context.at
  %f.at = getelementptr i8, ptr %api, i64 {number_of_threads}
  %f = load ptr, ptr %f.at
  %n = alloca i64
  store i64 1, ptr %n
  %args = alloca [4 x i64]
  store i64 32, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %context, ptr %a2
  %a3 = getelementptr i8, ptr %args, i64 24
  store ptr %n, ptr %a3
  %error = call ptr %f(ptr %args)
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %good, label %bad
bad:
  call void @destroy(ptr %api, ptr %error)
  ret i64 1
good:
  %count = load i64, ptr %n
  ret i64 %count
}}

define internal void @destroy(ptr %api, ptr %error) #0 {{
  %f.at = getelementptr i8, ptr %api, i64 {destroy_error}
  %f = load ptr, ptr %f.at
  %args = alloca [3 x i64]
  store i64 24, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %error, ptr %a2
  call void %f(ptr %args)
  ret void
}}

@no_memory = private constant [47 x i8] c"no memory for the scratch space of the program\\00"

define internal ptr @failure(ptr %frame) #0 {{
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %f.at = getelementptr i8, ptr %api, i64 {create_error}
  %f = load ptr, ptr %f.at
  %args = alloca [4 x i64]
  store i64 32, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr @no_memory, ptr %a2
  %a3 = getelementptr i8, ptr %args, i64 24
  store i64 8, ptr %a3
  %error = call ptr %f(ptr %args)
  ret ptr %error
}}

define internal i32 @parallel(ptr %frame, i64 %total, i64 %threads, ptr %meta, ptr %buffers) #0 {{
entry:
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %context.at
  %f.at = getelementptr i8, ptr %api, i64 {schedule}
  %f = load ptr, ptr %f.at
  %parts = mul i64 %threads, {parts}
  %share = udiv i64 %total, %parts
  %groups = udiv i64 %share, {lanes}
  %some = call i64 @llvm.smax.i64(i64 %groups, i64 1)
  %chunk = mul i64 %some, {lanes}
  %s = call ptr @malloc(i64 64)
  %none = icmp eq ptr %s, null
  br i1 %none, label %alone, label %share.out
alone:
  %code = call i32 @kernel(i64 0, i64 %total, ptr %meta, ptr %buffers)
  ret i32 %code
share.out:
  store i64 0, ptr %s
  %s1 = getelementptr %shared, ptr %s, i64 0, i32 1
  store i64 %chunk, ptr %s1
  %s2 = getelementptr %shared, ptr %s, i64 0, i32 2
  store i64 %total, ptr %s2
  %s3 = getelementptr %shared, ptr %s, i64 0, i32 3
  store i64 0, ptr %s3
  %s4 = getelementptr %shared, ptr %s, i64 0, i32 4
  store i64 %threads, ptr %s4
  %s5 = getelementptr %shared, ptr %s, i64 0, i32 5
  store i64 0, ptr %s5
  %s6 = getelementptr %shared, ptr %s, i64 0, i32 6
  store ptr %meta, ptr %s6
  %s7 = getelementptr %shared, ptr %s, i64 0, i32 7
  store ptr %buffers, ptr %s7
  %args = alloca [5 x i64]
  store i64 40, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %context, ptr %a2
  %a3 = getelementptr i8, ptr %args, i64 24
  store ptr @task, ptr %a3
  %a4 = getelementptr i8, ptr %args, i64 32
  store ptr %s, ptr %a4
  br label %more
more:
  %k = phi i64 [ 1, %share.out ], [ %k1, %scheduled ]
  %enough = icmp sge i64 %k, %threads
  br i1 %enough, label %join, label %schedule
schedule:
  %error = call ptr %f(ptr %args)
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %scheduled, label %refused
refused:
  call void @destroy(ptr %api, ptr %error)
  %r = atomicrmw sub ptr %s4, i64 1 acq_rel
  br label %scheduled
scheduled:
  %k1 = add i64 %k, 1
  br label %more
join:
  call void @work(ptr %s)
  br label %wait
wait:
  %done = load atomic i64, ptr %s3 acquire, align 8
  %all = icmp sge i64 %done, %total
  br i1 %all, label %finished, label %yield
yield:
  %y = call i32 @sched_yield()
  br label %wait
finished:
  %failed = load atomic i64, ptr %s5 acquire, align 8
  %code2 = trunc i64 %failed to i32
  call void @release(ptr %s)
  ret i32 %code2
}}

define ptr @handler(ptr %frame) #0 {{
entry:
  %extension.at = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %extension.at
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %stage, label %metadata
metadata:
  %type.at = getelementptr i8, ptr %extension, i64 8
  %type = load i32, ptr %type.at
  %asked = icmp eq i32 %type, 1
  br i1 %asked, label %answer, label %stage
answer:
  %data.at = getelementptr i8, ptr %extension, i64 24
  %data = load ptr, ptr %data.at
  %major = getelementptr i8, ptr %data, i64 24
  store i32 {major}, ptr %major
  %minor = getelementptr i8, ptr %data, i64 28
  store i32 {minor}, ptr %minor
  %traits = getelementptr i8, ptr %data, i64 32
  store i32 0, ptr %traits
  ret ptr null
stage:
  %stage.at = getelementptr i8, ptr %frame, i64 32
  %now = load i32, ptr %stage.at
  %execute = icmp eq i32 %now, 3
  br i1 %execute, label %run, label %nothing
nothing:
  ret ptr null
run:
  %buffers = alloca [{count} x ptr]
  %args.at = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %args.at
  %rets.at = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %rets.at
{pointers}
  %total = load i64, ptr %meta
  %kernel.meta = getelementptr i64, ptr %meta, i64 1
  %effort = mul i64 %total, {effort}
  %large = icmp sgt i64 %effort, {worth}
  %groups = icmp sgt i64 %total, {lanes}
  %try = and i1 %large, %groups
  br i1 %try, label %ask, label %serial
ask:
  %threads = call i64 @threads(ptr %frame)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %share, label %serial
share:
  %c1 = call i32 @parallel(ptr %frame, i64 %total, i64 %threads, ptr %kernel.meta, ptr %buffers)
  br label %end
serial:
  %c2 = call i32 @kernel(i64 0, i64 %total, ptr %kernel.meta, ptr %buffers)
  br label %end
end:
  %c = phi i32 [ %c1, %share ], [ %c2, %serial ]
  %good = icmp eq i32 %c, 0
  br i1 %good, label %success, label %bad
success:
  ret ptr null
bad:
  %message = call ptr @failure(ptr %frame)
  ret ptr %message
}}
"""


def _pointers(inputs: int, outputs: int) -> str:
    """Lines that copy the addresses of all buffers; the first argument is the list of strides."""
    lines = []
    for k in range(1 + inputs + outputs):
        source, place = ("args", k) if k <= inputs else ("rets", k - 1 - inputs)
        lines += [
            f"  %p{k}.at = getelementptr ptr, ptr %{source}, i64 {place}",
            f"  %p{k} = load ptr, ptr %p{k}.at",
            f"  %p{k}.data = getelementptr i8, ptr %p{k}, i64 24",
        ]
        if k == 0:
            lines.append("  %meta = load ptr, ptr %p0.data")
        else:
            lines += [
                f"  %d{k} = load ptr, ptr %p{k}.data",
                f"  %b{k} = getelementptr ptr, ptr %buffers, i64 {k - 1}",
                f"  store ptr %d{k}, ptr %b{k}",
            ]
    return "\n".join(lines)


def module_text(program: Program, lanes: int) -> tuple[str, set]:
    """The whole module as text, and the elementary functions that it calls."""
    emitter = Emitter(program, lanes)
    kernel = emitter.emit()
    major, minor = api_version()
    inputs, outputs = len(program.inputs), len(program.outputs)
    handler = HANDLER.format(
        number_of_threads=api_field("XLA_FFI_ThreadPool_NumThreads"),
        schedule=api_field("XLA_FFI_ThreadPool_Schedule"),
        destroy_error=api_field("XLA_FFI_Error_Destroy"),
        create_error=api_field("XLA_FFI_Error_Create"),
        major=major,
        minor=minor,
        count=max(inputs + outputs, 1),
        pointers=_pointers(inputs, outputs),
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


class MachineCode:
    """A compiled program: the engine that owns it, and its handler for XLA."""

    def __init__(self, program: Program, lanes: int):
        text, elementary = module_text(program, lanes)
        self.text = text
        cpu, features, _ = host()
        module = binding.parse_assembly(text)
        if elementary:
            module.link_in(binding.parse_assembly(elementary_text(elementary, program.dtype)))
        target = binding.Target.from_default_triple()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=2)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        # Inlining only: a trace leaves nothing for the other passes, which would take a third of the time of all this.
        passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=0))
        passes.getModulePassManager().run(module, passes)
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.address = self.engine.get_function_address("handler")

    def capsule(self):
        """The handler as XLA takes it."""
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(self.address, b"xla._CUSTOM_CALL_TARGET", None)
