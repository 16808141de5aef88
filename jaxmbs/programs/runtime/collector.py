"""Python's search for unreachable cycles, put off while something is traced: millions of objects, all of which stay."""

from __future__ import annotations

import contextlib
import gc


@contextlib.contextmanager
def without_garbage_collection():
    """Nothing within is interrupted by the collector, which else takes a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
