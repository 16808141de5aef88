"""Machine code of this processor for kernels: what launches them on a GPU, and the kernels themselves, for tests."""

from __future__ import annotations

import ctypes

import jax
from llvmlite import binding

from jaxmbs.programs.backends.gpu import handler, ptx
from jaxmbs.programs.tracing.program import Program


class HostCode:
    """A module that is compiled, and its function `handler`."""

    def __init__(self, module, machine):
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


def _machine():
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=0, jit=True)


ATTRIBUTES = "attributes #0 = { nounwind }"


def launcher(program: Program, workspace: bool, function: int) -> HostCode:
    """What launches a kernel that the driver has loaded as `function`."""
    text = handler.on_gpu(program.name, len(program.facts.loaded), len(program.outputs), workspace, function)
    return HostCode(binding.parse_assembly(f"{text}\n{ATTRIBUTES}"), _machine())


_targets: dict[str, HostCode] = {}


def target(program: Program) -> str:
    """The name under which XLA finds the kernel of a program for this processor."""
    name = f"jaxmbs_threads_{program.fingerprint}"
    if name not in _targets:
        _targets[name] = _kernel(program)
        jax.ffi.register_ffi_target(name, _targets[name].capsule(), platform="cpu")
    return name


def _kernel(program: Program) -> HostCode:
    found = ptx.module_text(program)
    assert not isinstance(found, str)
    text, emitter = found
    # Regions stay functions: compiled so, a large program takes a second instead of a minute.
    text = text.replace("attributes #0 = { nounwind alwaysinline }", ATTRIBUTES)
    inputs, outputs = len(program.facts.loaded), len(program.outputs)
    kinds = [param.rsplit(" ", 1)[0] for param in emitter.params.split(", ")]
    text += handler.on_host(program.name, inputs, outputs, bool(emitter.plan.scratch_bytes), kinds)
    return HostCode(ptx.linked(text, emitter, program), _machine())
