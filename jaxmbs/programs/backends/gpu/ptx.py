"""From a program to PTX, which the driver of a GPU compiles for its processor; or to the same kernel for this processor."""

from __future__ import annotations

import functools
from typing import NamedTuple

from llvmlite import binding

from jaxmbs.programs.backends.gpu.threads import ThreadEmitter
from jaxmbs.programs.backends.llvm import elementary
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.runtime.content import digest_of_parts
from jaxmbs.programs.runtime.store import load_or_compute
from jaxmbs.programs.tracing.program import Program

# LLVM's target triple of NVIDIA's GPUs.
TRIPLE = "nvptx64-nvidia-cuda"
# Versions of PTX by the compute capabilities that code is made for. Newer GPUs run code for older ones.
ARCHITECTURES = {(7, 0): 60, (7, 5): 63, (8, 0): 70, (8, 6): 71, (8, 9): 78, (9, 0): 78, (10, 0): 86, (12, 0): 87}
# LLVM's attributes of a kernel on a GPU, and of the functions that are inlined into it.
ATTRIBUTES = "attributes #0 = { nounwind alwaysinline }"


class Kernel(NamedTuple):
    """A compiled program.

    Attributes:
        text: PTX.
        frame: bytes for each thread in its own memory.
        scratch: bytes for each thread in the workspace.
        apart: numbers of the inputs, and after them of the outputs, whose scalars lie apart; see `threads`.
        refused: reason why there is no kernel, empty if there is one.
    """

    text: str
    frame: int
    scratch: int
    apart: list[int]
    refused: str = ""


@functools.cache
def supported() -> bool:
    """Return True if llvmlite is installed and can compile for NVIDIA's GPUs."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        binding.Target.from_triple(TRIPLE)
    except RuntimeError:
        return False
    return True


def architecture(capability: tuple[int, int]) -> tuple[int, int]:
    """Return the newest of `ARCHITECTURES` that a GPU of a compute capability runs; the oldest for older ones."""
    return max((x for x in ARCHITECTURES if x <= capability), default=min(ARCHITECTURES))


def kernel(program: Program, capability: tuple[int, int]) -> Kernel:
    """Return the kernel of a program for GPUs from a compute capability (major, minor) on; made, or found in the store."""
    chosen = architecture(capability)
    found: Kernel | None = program.derived.get(("kernel", chosen))
    if found is None:
        key = None if program.key is None else digest_of_parts(program.key, *chosen)
        found = program.derived["kernel", chosen] = Kernel(
            *load_or_compute("ptx", key, lambda: _kernel(program, chosen))
        )
    return found


def _kernel(program: Program, chosen: tuple[int, int]) -> Kernel:
    """Return a program compiled for an architecture, a key of `ARCHITECTURES`."""
    supported()  # makes the target known
    found = module_text(program, ATTRIBUTES)
    if isinstance(found, str):
        return Kernel("", 0, 0, [], found)
    text, emitter = found
    target = binding.Target.from_triple(TRIPLE)
    major, minor = chosen
    machine = target.create_target_machine(
        cpu=f"sm_{major}{minor}",
        features=f"+ptx{ARCHITECTURES[chosen]}",
        opt=2 if program.size <= tuning.MAX_OPTIMISED_OPERATIONS_GPU else 0,
    )
    # Ahead of the text, so that loads and stores are as aligned as GPUs want them.
    heading = f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"'
    module = elementary.link(
        "\n".join([heading, text, ENTRY.format(params=emitter.params)]), emitter.module.elementary, program.dtype
    )
    optimise(module, machine)
    return Kernel(
        machine.emit_assembly(module), emitter.frame.bytes, emitter.plan.scratch_bytes, sorted(emitter.plan.apart)
    )


def module_text(program: Program, attributes: str) -> tuple[str, ThreadEmitter] | str:
    """Return the functions of a program for a thread and their emitter, or the reason why there are none.

    Args:
        program: program to write.
        attributes: definition of #0, the attributes of the kernel and of functions that may be inlined; #1, those of
            the others, is fixed.
    """
    buffers = len(program.facts.loaded) + len(program.outputs)
    if buffers > tuning.MAX_BUFFERS:
        return f"{buffers} arrays are more than a kernel takes ({tuning.MAX_BUFFERS})"
    emitter = ThreadEmitter(program)
    text = emitter.emit()
    if emitter.frame.bytes > tuning.MAX_FRAME_BYTES:
        return (
            f"{emitter.frame.bytes} bytes for each thread are more than a GPU should reserve ({tuning.MAX_FRAME_BYTES})"
        )
    lines = [
        text,
        attributes,
        "attributes #1 = { nounwind noinline }",
        "!0 = !{}",
        *elementary.declarations(emitter.module.elementary, emitter.module.real),
    ]
    return "\n".join(lines), emitter


def optimise(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    """Inline all functions of an LLVM module, and put the values of the frame into registers."""
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=0))
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)


# LLVM code of the kernel's entry, which computes the number of the thread and the number of threads.
ENTRY = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()

define ptx_kernel void @entry({params}) #2 {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %within = zext i32 %t to i64
  %size = zext i32 %n to i64
  %block = zext i32 %b to i64
  %blocks = zext i32 %g to i64
  %before = mul i64 %block, %size
  %thread = add i64 %before, %within
  %threads = mul i64 %blocks, %size
  call void @kernel(i64 %thread, i64 %threads, {params})
  ret void
}}
attributes #2 = {{ nounwind }}
"""
