"""Settings of all tests: float64, strict promotion, a compilation cache that outlives the run."""

import os
from pathlib import Path

import jax
import pytest

CACHE = Path(os.environ.get("JAXMBS_TEST_CACHE", Path(__file__).parent.parent / ".cache" / "xla"))

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


@pytest.fixture(autouse=True)
def _same_precision_after_each_test():
    yield
    jax.config.update("jax_enable_x64", True)
