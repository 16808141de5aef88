"""Kernels for GPUs without a GPU: `python benchmarks/kernels.py` compiles those of all cases and writes a table in gpu.md.

The registers are those that NVIDIA's assembler reports: `ptxas` of CUDA, or of the wheel `nvidia-cuda-nvcc`, which
`pip install -e ".[test]"` brings.
"""

import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from gpu_cases import CASES
from page import write

from jaxmbs.programs.backends.gpu import ptx

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
from ptxas import PTXAS, assembled, programs_of

# Compute capability for which the kernels are assembled.
CAPABILITY = (9, 0)
# Float64 instructions that an H100 or H200 (SXM) starts in a second: 33.5 TFLOP/s without tensor cores (NVIDIA's data
# sheets), two operations each.
INSTRUCTIONS_PER_SECOND = 33.5e12 / 2
# Head of the table of kernels.
HEAD = (
    "| case | kernel | type | operations | registers | spilled, B | frame, B | to PTX, CPU s | ptxas, CPU s |"
    " steps/s at most |"
)
# Kernels with fewer scalar operations are left out of the table.
MIN_OPERATIONS = 300


def rows(name, case, dtype, known):
    """Yield cells for each kernel of a case whose fingerprint is not `known`."""
    jax.config.update("jax_enable_x64", dtype == np.float64)
    function, batch = case.make(dtype)
    sample = jax.tree.map(lambda x: x[0], batch(2))
    found = {
        program.fingerprint: program for program in programs_of(function, *sample) if program.size > MIN_OPERATIONS
    }
    for number, (fingerprint, program) in enumerate(found.items()):
        if fingerprint not in known:
            known.add(fingerprint)
            yield [name, str(number + 1), np.dtype(dtype).name, f"{program.size:,}", *_kernel_cells(program, case)]


def _kernel_cells(program, case):
    """Return registers, memory, times and highest speed of a kernel."""
    begin = time.process_time()
    kernel = ptx.kernel(program, CAPABILITY)
    to_ptx = time.process_time() - begin
    if kernel.refused:
        return ["", "", "", f"{to_ptx:.1f}", "", kernel.refused]
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        found = assembled(kernel.text, CAPABILITY, Path(folder))
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    per_step = program.work / case.steps
    counted = case.counted and program.dtype == np.float64 and program.work > program.size * case.steps / 2
    ceiling = f"{INSTRUCTIONS_PER_SECOND / per_step:.1e} ({per_step:,.0f} operations)" if counted else ""
    return [
        str(found.registers), f"{found.spilled:,}", f"{kernel.frame:,}", f"{to_ptx:.1f}", f"{seconds:.1f}", ceiling
    ]  # fmt: skip


def table():
    """Return the lines of the table."""
    lines, known = [HEAD, re.sub(r"[^|]+", "---", HEAD)], set()
    for name, case in CASES.items():
        for dtype in (np.float64, np.float32) if case.single else (np.float64,):
            for cells in rows(name, case, dtype, known):
                print(" | ".join(cells), flush=True)
                lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    assert PTXAS, "ptxas is needed: pip install nvidia-cuda-nvcc"
    explained = (
        f"The kernels of each case with more than {MIN_OPERATIONS} operations, for compute capability 9.0. A thread has at "
        "most 255 registers of 32 bits; values beyond that are spilled into local memory, which the caches hold. *Steps/s "
        "at most*: the float64 instructions that an H100 or H200 (SXM) starts in a second over the operations of a step, "
        "none of them fused. It is an estimate on paper, not a measurement."
    )
    write("Kernels", [explained, "", *table()])
