"""Python's search for unreachable cycles, suspended while something is traced.

Tracing makes millions of objects, most of which stay; looking through them takes a tenth of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Return a context in which Python's garbage collector is switched off; new objects count as old ones afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # Moves all objects to the oldest generation without looking at them; objects that others froze stay frozen.
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
