"""What runs the programs that are traced: some are written differently for the threads of a GPU."""

from __future__ import annotations

import os

import jax

from jaxmbs.programs.jax_compat import default_platform

# Which emission new programs run by. It is a part of what JAX finds compiled functions by.
EMISSION = jax.make_user_context(os.environ.get("JAXMBS_EMISSION", "llvm"))
ON_HOST = "gpu-on-host"


def is_for_gpu() -> bool:
    """Whether programs become kernels with a thread for each sample: where JAX computes on a GPU of NVIDIA's, or the host
    runs what a GPU would."""
    return EMISSION.value == ON_HOST or (EMISSION.value == "llvm" and default_platform() == "cuda")
