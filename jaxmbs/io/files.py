"""Writing of text files as a whole or not at all, and of Python objects as JSON."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def replace_file(path: Path, write: Callable[[Path], Any]) -> Path:
    """Let `write` write a file that then takes the place of `path`, so that no partial file is left; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()  # links are followed
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        write(part)
        part.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)
    return path


def write_text(path: Path, content: str) -> Path:
    """Write a text as a whole or not at all, and return the path."""
    return replace_file(path, lambda part: part.write_text(content, encoding="utf-8"))


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a named tuple or of a dataclass by name, None for other values."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def json_value(value, name: str = ""):
    """Return a tree of arrays as JSON, with null for numbers that are not finite; messages call it `name`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    fields = fields_of(value)
    value = value if fields is None else fields
    if isinstance(value, Mapping):
        return {str(key): json_value(part, f"{name}.{key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part, f"{name}[{k}]") for k, part in enumerate(value)]
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: a {type(value).__name__} cannot be written as JSON")
    return json_value(array.tolist(), name)
