"""Python's search for unreachable cycles, suspended while something is traced.

Tracing makes millions of objects, all of which stay; looking through them takes a tenth of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Return a context in which Python's garbage collector is switched off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
