"""Files as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_text(path: Path, content: str) -> Path:
    """Write a text, and return the path. What was there stays until all of the new is; links are followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    real = path.resolve()
    part = real.with_name(f".{real.name}.{os.getpid()}.part")
    try:
        part.write_text(content, encoding="utf-8")
        part.replace(real)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)
    return path
