"""Programs as kernels with a thread for each sample, which XLA calls as foreign functions."""

from __future__ import annotations

import abc
import math
import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.programs.backends.backend import AbstractBackend, merge_batch_axes
from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.program import Program


class AbstractThreads(AbstractBackend):
    """Runs a program as one kernel, its loops inside, with a thread for each sample."""

    by_threads = True

    def lower(self, program: Program, batch: tuple[int, ...], args: Sequence[Array], platform: str) -> list[Array]:
        total = math.prod(batch)
        if total == 0 or not program.outputs:
            return [jnp.zeros((*batch, *out.shape), out.dtype) for out in program.outputs]
        from jaxmbs.programs.backends.gpu import ptx

        kernel = ptx.kernel(program, self.capability())
        blocks, block = grid(total, kernel.scratch)
        loaded, first = program.facts.loaded, len(program.inputs)
        args, inner, places = merge_batch_axes([args[k] for k in loaded], batch)
        meta, layouts = [total, inner], list[tuple[int, ...]]()
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

    def refusal(self, program: Program) -> str | None:
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

    def takes(self, platform: str) -> bool:
        return platform == "cuda" and ffi.available("jaxmbs.programs.backends.gpu.ptx")

    def explain(self) -> str:
        return "straight-line, one kernel on the GPU"

    def load(self, program: Program) -> str | None:
        from jaxmbs.programs.backends.gpu import driver, host, ptx

        # Without a GPU there is nothing to load: the code is for another machine.
        if not driver.devices():
            return None
        if driver.library() is None:
            return f"{driver.LIBRARY} is missing"
        name = self.name(program)
        if name not in _refusals:
            kernel = ptx.kernel(program, self.capability())
            launcher = lambda: host.launcher(program, bool(kernel.scratch), driver.load(kernel.text))
            try:
                _on_gpu.add(name, launcher)
            except driver.DriverError as error:
                _refusals[name] = str(error)
                why = f"XLA computes '{program.name}' on the GPU without a kernel of its own: {error}"
                warnings.warn(why, stacklevel=2)
        return _refusals.get(name)

    def capability(self) -> tuple[int, int]:
        from jaxmbs.programs.backends.gpu import driver

        return driver.capability()

    def name(self, program: Program) -> str:
        major, minor = self.capability()
        return f"jaxmbs_gpu_{major}{minor}_{program.fingerprint}"


class KernelOnHost(AbstractThreads):
    """The same kernels on this processor, one thread after the other, for tests."""

    def takes(self, platform: str) -> bool:
        return platform == "cpu" and ffi.available("jaxmbs.programs.backends.gpu.ptx")

    def explain(self) -> str:
        return "straight-line, one kernel, its threads one after the other on the host"

    def capability(self) -> tuple[int, int]:
        """Return the compute capability 8.0, whatever GPUs there are."""
        return 8, 0

    def load(self, program: Program) -> str | None:
        """Compile the kernel for this processor and register it with XLA; return None."""
        from jaxmbs.programs.backends.gpu import host

        _on_host.add(self.name(program), lambda: host.kernel(program))
        return None

    def name(self, program: Program) -> str:
        return f"jaxmbs_threads_{program.fingerprint}"


def grid(total: int, scratch: int) -> tuple[int, int]:
    """Return the number of blocks and of threads per block for `total` samples with `scratch` bytes of workspace."""
    block = tuning.WARP_THREADS if total <= tuning.MAX_SAMPLES_ONE_WARP else tuning.THREADS_PER_BLOCK
    blocks = -(-total // block)
    return min(blocks, tuning.MAX_WORKSPACE_BYTES // (scratch * block)) if scratch else blocks, block


# Kernels that XLA can call, on the host and on GPUs.
_on_host, _on_gpu = ffi.Registry("cpu"), ffi.Registry("CUDA")
# XLA's name of a kernel ↦ reason why the driver refuses it.
_refusals: dict[str, str] = {}
