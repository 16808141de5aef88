"""Settings of the compilers for tests: XLA without optimisation, and code for another processor on request."""

import os
from importlib.metadata import version
from importlib.util import find_spec

from llvmlite import binding

# XLA's flags in tests: programs run once, and compiling without optimisation takes a third of the time.
FLAGS = ["--xla_backend_optimization_level=0"]
# XLA ends the process for a flag that it does not know; this one exists in these versions only.
if version("jaxlib").startswith("0.10."):
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")


def choose() -> None:
    """Set these flags, before those of the environment; call it before JAX compiles anything.

    JAXMBS_TEST_PROCESSOR=haswell compiles for a processor without AVX-512, where rounding differs. With libtpu no flags are
    set: it ends the process for those of other platforms.
    """
    if find_spec("libtpu"):
        return
    processor = os.environ.get("JAXMBS_TEST_PROCESSOR")
    flags = [*FLAGS, "--xla_cpu_max_isa=AVX2"] if processor else FLAGS
    os.environ["XLA_FLAGS"] = " ".join([*flags, os.environ.get("XLA_FLAGS", "")])
    if processor:
        binding.initialize_native_target()
        own = binding.get_host_cpu_features()
        features = binding.FeatureMap({name: on and "512" not in name for name, on in own.items()})
        binding.get_host_cpu_features = lambda: features
        binding.get_host_cpu_name = lambda: processor
