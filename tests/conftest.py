"""Settings of all tests: checked shapes, quick compilation, float64, a compilation cache that outlives the run."""

import collections
import contextlib
import ctypes
import gc
import os
import time
from pathlib import Path

import quick_compilation

quick_compilation.choose()

import jax
import numpy as np
import pytest
from jaxtyping import install_import_hook

# The slow tests run as a user's program does, without checks of every call.
STRICT = os.environ.get("JAXMBS_TEST_SHAPES") != "off"
# Scalar graphs have no shapes, and are long.
PACKAGE = Path(__file__).parent.parent / "jaxmbs"
if STRICT:
    install_import_hook(
        [f"jaxmbs.{place.stem}" for place in PACKAGE.iterdir() if place.stem != "programs"], "shapes.checked"
    )

import jaxmbs as mbs
from browser import Browser
from jaxmbs.programs import function, primitive, store
from jaxmbs.programs.backends import EMISSIONS

CACHE = Path(os.environ.get("JAXMBS_TEST_CACHE", Path(__file__).parent.parent / ".cache"))
# Commands keep their programs in the same place as the tests.
os.environ["JAXMBS_CACHE"] = str(CACHE / "programs")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise" if STRICT else "allow")
jax.config.update("jax_compilation_cache_dir", str(CACHE / "xla"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
mbs.enable_cache()


# Seconds after which no further test is begun: those that are left fail, so that no run is green without them.
BUDGET = float(os.environ.get("JAXMBS_TEST_SECONDS", "inf"))
BEGAN = time.monotonic()


# Number of cases collected of each parametrized test.
_cases = collections.Counter()


def pytest_itemcollected(item):
    """Mark as variants all cases but one in n of a test that is marked `one_in(n)`."""
    mark = item.get_closest_marker("one_in")
    if mark:
        test = item.nodeid.partition("[")[0]
        if _cases[test] % mark.args[0]:
            item.add_marker(pytest.mark.variant)
        _cases[test] += 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keep one share of the tests, if JAXMBS_TEST_SHARE is k/n: every n-th one, beginning with number k."""
    share, shares = map(int, os.environ.get("JAXMBS_TEST_SHARE", "0/1").split("/"))
    chosen = items[share::shares]
    config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % shares != share])
    items[:] = chosen


def pytest_runtest_setup(item):
    if time.monotonic() - BEGAN > BUDGET:
        pytest.fail(f"not run: the {BUDGET:.0f} s for this step are over", pytrace=False)


@pytest.fixture(autouse=True)
def _same_precision_after_each_test():
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True)
def _every_function_warns_of_array_code_again():
    """A warning is an error here; which test meets it must not depend on those before."""
    function.warned.clear()


@pytest.fixture(autouse=True)
def _nothing_kept_where_the_engine_is_the_subject(request, monkeypatch):
    if "programs" in request.path.parts:
        monkeypatch.setattr(store, "_store", None)


# Bytes of memory from which on a worker lets go of what it can after a test.
MAX_BYTES_BETWEEN_TESTS = 1.4e9
# Bytes by which a worker may grow after it has let go of all it can, before it tries again: each time takes seconds.
MIN_GROWTH_BYTES = 3e8
_memory_limit = MAX_BYTES_BETWEEN_TESTS
# Gives freed memory back to the system, which glibc does only at the end of its heap; what compilers free lies below that.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda kept: None)
_STATM = Path("/proc/self/statm")


def resident_bytes() -> float:
    """Memory of this process, 0 where the system does not say."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _STATM.exists() else 0


def let_go():
    """Free compiled programs."""
    jax.clear_caches()
    function.ProgramWithFallback.of.cache_clear()
    gc.collect()
    _trim(0)


@pytest.fixture(autouse=True, scope="module")
def _little_memory_between_files():
    """Compiled programs of a file are of no use to the next; together they would take gigabytes."""
    yield
    let_go()


@pytest.fixture(autouse=True)
def _bounded_memory():
    global _memory_limit
    yield
    if resident_bytes() > _memory_limit:
        _trim(0)
    if resident_bytes() > _memory_limit:
        let_go()
        _memory_limit = max(MAX_BYTES_BETWEEN_TESTS, resident_bytes() + MIN_GROWTH_BYTES)


@pytest.fixture(params=EMISSIONS)
def emission(request):
    """The test in every emission."""
    with primitive.emission(request.param):
        yield request.param


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser that all tests of a process share."""
    with contextlib.closing(Browser(tmp_path_factory.mktemp("profile"))) as browser:
        yield browser


@pytest.fixture(scope="session")
def agree():
    """agree(found, expected, tolerance): the same shapes and dtypes, the same values relative to the largest one."""

    def check(found, expected, tolerance=1e-12):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            finite = np.abs(b[np.isfinite(b)]).max(initial=0.0) if b.dtype.kind == "f" else 0.0
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * finite)

    return check
