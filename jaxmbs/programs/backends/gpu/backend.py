"""Programs as kernels with a thread for each sample, which XLA calls as foreign functions."""

from __future__ import annotations

import abc
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.programs.backends.backend import AbstractBackend, two_axes
from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.program import Program


class AbstractThreads(AbstractBackend):
    """Runs a program as one kernel, its loops inside, with a thread for each sample."""

    by_threads = True

    def lower(self, program, batch, args, platform):
        """Return the outputs of a launch of the program's kernel for the whole batch."""
        total = math.prod(batch)
        if total == 0 or not program.outputs:
            return [jnp.zeros((*batch, *out.shape), out.dtype) for out in program.outputs]
        from jaxmbs.programs.backends.gpu import ptx

        kernel = ptx.kernel(program, self.capability())
        blocks, block = grid(total, kernel.scratch)
        loaded, first = program.facts.loaded, len(program.inputs)
        args, inner, places = two_axes([args[k] for k in loaded], batch)
        meta, layouts = [total, inner], []
        buffers = [*loaded, *range(first, first + len(program.outputs))]
        shapes = [*program.inputs, *program.outputs]
        samples = [math.prod(x.shape[: len(batch)]) for x in args] + [total] * len(program.outputs)
        for k, count, place in zip(buffers, samples, [*places, *[(inner, 1)] * len(program.outputs)], strict=True):
            is_apart = k in kernel.apart
            size = 1 if is_apart else shapes[k].size
            meta += [place[0] * size, place[1] * size, count if is_apart else 1]
            axes = tuple(range(len(batch) + len(shapes[k].shape)))
            layouts.append((*axes[len(batch) :], *axes[: len(batch)]) if is_apart else axes)
        outputs = [jax.ShapeDtypeStruct((*batch, *out.shape), out.dtype) for out in program.outputs]
        if kernel.scratch:
            outputs.append(jax.ShapeDtypeStruct((blocks * block * kernel.scratch,), np.int8))
            layouts.append((0,))
        call = jax.ffi.ffi_call(
            self.name(program),
            outputs,
            input_layouts=[(0,), *layouts[: len(args)]],
            output_layouts=layouts[len(args) :],
        )
        results = call(
            np.array(meta, dtype=np.int64).view(np.int32),
            *args,
            grid=np.array([blocks, block], dtype=np.int64),
        )
        return list(results[: len(program.outputs)])

    def refusal(self, program):
        """Return the reason why there is no kernel, or too large a workspace; None if the kernel can run."""
        from jaxmbs.programs.backends.gpu import ptx

        kernel = ptx.kernel(program, self.capability())
        if not kernel.refused and kernel.scratch * tuning.MIN_THREADS > tuning.MAX_WORKSPACE_BYTES:
            return f"a sample needs {kernel.scratch / 2**20:.1f} MB of workspace, too much for many samples at once"
        return kernel.refused or self.load(program)

    @abc.abstractmethod
    def load(self, program: Program) -> str | None:
        """Make the kernel known to XLA under `name`; return None, or the reason why that is impossible."""

    @abc.abstractmethod
    def capability(self) -> tuple[int, int]:
        """Return the compute capability that kernels are made for."""

    @abc.abstractmethod
    def name(self, program: Program) -> str:
        """Return the name under which XLA finds the kernel of a program."""


class KernelOnGPU(AbstractThreads):
    """Kernels on NVIDIA's GPUs. Imports llvmlite when it is needed."""

    def takes(self, platform):
        """Return True on CUDA devices if LLVM can write PTX here."""
        return platform == "cuda" and ffi.available("jaxmbs.programs.backends.gpu.ptx")

    def explain(self):
        """Return the kind of code in words."""
        return "straight-line, one kernel on the GPU"

    def load(self, program):
        """Load the kernel by NVIDIA's driver; return None, or the reason why the driver refuses it."""
        return _load_on_gpu(program)

    def capability(self):
        """Return the lowest compute capability of the GPUs of this process."""
        from jaxmbs.programs.backends.gpu import driver

        return driver.capability()

    def name(self, program):
        """Return the name under which XLA finds the kernel of a program for the GPUs of this process."""
        return _name(program, self.capability())


class KernelOnHost(AbstractThreads):
    """The same kernels on this processor, one thread after the other, for tests."""

    def takes(self, platform):
        """Return True on CPUs if LLVM can write PTX here."""
        return platform == "cpu" and ffi.available("jaxmbs.programs.backends.gpu.ptx")

    def explain(self):
        """Return the kind of code in words."""
        return "straight-line, one kernel, its threads one after the other on the host"

    def capability(self):
        """Return the compute capability 8.0, whatever GPUs there are."""
        return 8, 0

    def load(self, program):
        """Compile the kernel for this processor and register it with XLA; return None."""
        from jaxmbs.programs.backends.gpu import host

        _on_host.add(self.name(program), lambda: host.kernel(program))
        return None

    def name(self, program):
        """Return the name under which XLA finds the kernel of a program for this processor."""
        return f"jaxmbs_threads_{program.fingerprint}"


def grid(total: int, scratch: int) -> tuple[int, int]:
    """Return the number of blocks and of threads per block for `total` samples with `scratch` bytes of workspace."""
    block = tuning.WARP_THREADS if total <= tuning.MAX_SAMPLES_ONE_WARP else tuning.THREADS_PER_BLOCK
    blocks = -(-total // block)
    return min(blocks, tuning.MAX_WORKSPACE_BYTES // (scratch * block)) if scratch else blocks, block


def _name(program: Program, capability: tuple[int, int]) -> str:
    """Return XLA's name of the kernel of a program for a compute capability."""
    return f"jaxmbs_gpu_{capability[0]}{capability[1]}_{program.fingerprint}"


_on_host, _on_gpu = ffi.Registry("cpu"), ffi.Registry("CUDA")
_refusals: dict[str, str] = {}


def _load_on_gpu(program: Program) -> str | None:
    """Return why the driver refuses the kernel of a program, with one warning; else load and register it, and return None.

    If JAX has no GPU there is nothing to load: the code is for another machine.
    """
    from jaxmbs.programs.backends.gpu import driver, host, ptx

    if not driver.devices():
        return None
    if driver.library() is None:
        return f"{driver.LIBRARY} is missing"
    capability = driver.capability()
    name = _name(program, capability)
    if name not in _refusals:
        kernel = ptx.kernel(program, capability)
        launcher = lambda: host.launcher(program, bool(kernel.scratch), driver.load(kernel.text))
        try:
            _on_gpu.add(name, launcher)
        except driver.DriverError as error:
            _refusals[name] = str(error)
            why = f"XLA computes '{program.name}' on the GPU without a kernel of its own: {error}"
            warnings.warn(why, stacklevel=2)
    return _refusals.get(name)
