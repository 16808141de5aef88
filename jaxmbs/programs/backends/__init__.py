"""From a graph of scalars to code for a platform.

A backend is an `AbstractBackend`, in a module or folder of its own that imports no other backend, and a place in
`EMISSIONS`. `llvm` writes LLVM's text for those that need it. `javascript` and `c` write programs as source code.
"""

import os

import jax

from jaxmbs.programs.backends.backend import AbstractBackend
from jaxmbs.programs.backends.cpu.backend import MachineCodeOnCPU
from jaxmbs.programs.backends.gpu.backend import KernelOnGPU, KernelOnHost
from jaxmbs.programs.backends.tpu.backend import KernelInterpreted, KernelOnTPU
from jaxmbs.programs.backends.xla import ElementwiseXLA
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.runtime.jax_compat import default_platform
from jaxmbs.programs.tracing.program import Program

# XLA's names of the platforms that backends distinguish; all others count as "other".
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
# Values of JAXMBS_EMISSION, and the backends of each: the first that takes a platform makes the code for it.
EMISSIONS: dict[str, tuple[AbstractBackend, ...]] = {
    "llvm": (MachineCodeOnCPU(), KernelOnGPU(), KernelOnTPU(), ElementwiseXLA()),
    "xla": (ElementwiseXLA(),),
    # The kernels of GPUs on this processor, for tests.
    "gpu-on-host": (KernelOnHost(), ElementwiseXLA()),
    # The kernels of TPUs on this processor, for tests.
    "tpu-on-host": (KernelInterpreted(), ElementwiseXLA()),
    # The function of arrays unchanged, by JAX alone.
    "array": (),
}
# Emission of programs that are compiled now, a key of `EMISSIONS`; a context variable that is part of the keys of JAX's
# compiled functions.
EMISSION = jax.make_user_context(os.environ.get("JAXMBS_EMISSION", "llvm"))


def backend_for(emission: str, platform: str, program: Program | None = None) -> AbstractBackend:
    """Return the first backend of an emission that takes a platform and, if one is given, the program.

    Raises:
        ValueError: an emission that does not exist, with those that do.
    """
    if emission not in EMISSIONS:
        raise ValueError(f"JAXMBS_EMISSION must be one of {', '.join(map(repr, EMISSIONS))}, got {emission!r}")
    taking = (backend for backend in EMISSIONS[emission] if backend.takes(platform))
    return next(backend for backend in taking if program is None or backend.refusal(program) is None)


def is_by_threads() -> bool:
    """Return True if programs that are traced now become kernels with a thread for each sample."""
    backends = EMISSIONS.get(EMISSION.value, ())
    return next((backend.by_threads for backend in backends if backend.takes(default_platform())), False)


def unrolling_pays(values: int) -> bool:
    """Return True if a short loop that carries this many values is faster written out, in programs traced now."""
    return values <= tuning.MAX_VALUES_UNROLLED and not is_by_threads()
