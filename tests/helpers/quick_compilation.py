"""XLA's flags for programs that run once: compiling without optimisation takes a third of the time."""

import os
from importlib.metadata import version

FLAGS = ["--xla_backend_optimization_level=0"]
# XLA ends the process for a flag that it does not know; this one exists in these versions only.
if version("jaxlib").startswith("0.10."):
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")


def choose() -> None:
    """Take these flags, before those that are given; to be called before JAX compiles anything."""
    os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")])
