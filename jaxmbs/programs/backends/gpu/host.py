"""Machine code of this processor for kernels.

That is the function that launches them on a GPU, and the kernels themselves, for tests.
"""

from __future__ import annotations

from llvmlite import binding

from jaxmbs.programs.backends.gpu import handler, ptx
from jaxmbs.programs.backends.gpu.driver import LoadedKernel
from jaxmbs.programs.backends.llvm import elementary
from jaxmbs.programs.tracing.program import Program


class HostCode:
    """A compiled module, and its function `handler`."""

    def __init__(self, module: binding.ModuleRef, machine: binding.TargetMachine):
        passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=0))
        passes.getModulePassManager().run(module, passes)
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.address = self.engine.get_function_address("handler")


def _machine() -> binding.TargetMachine:
    """Return llvmlite's target machine for this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=0, jit=True)


# LLVM's attributes of all functions of a kernel that runs on the host.
ATTRIBUTES = "attributes #0 = { nounwind }"


def launcher(program: Program, workspace: bool, loaded: LoadedKernel) -> HostCode:
    """Return the compiled handler that launches a kernel which the driver has loaded."""
    text = handler.on_gpu(program, workspace, loaded)
    return HostCode(binding.parse_assembly(f"{text}\n{ATTRIBUTES}"), _machine())


def kernel(program: Program) -> HostCode:
    """Return the compiled kernel of a program for this processor. Its regions stay functions: that compiles faster."""
    found = ptx.module_text(program, ATTRIBUTES)
    assert not isinstance(found, str)
    text, emitter = found
    kinds = [param.rsplit(" ", 1)[0] for param in emitter.params.split(", ")]
    text += handler.on_host(program, bool(emitter.plan.scratch_bytes), kinds)
    return HostCode(elementary.link(text, emitter.module.elementary, program.dtype), _machine())
