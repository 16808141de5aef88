"""A tree of numbers and small arrays as the columns of a table, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

# Columns that every store has.
SAMPLE, STATUS = "sample", "status"
DESIGN = "design"


class Column(NamedTuple):
    """A column: a number, or an array of them, in each row.

    Attributes:
        name: its path in the tree, with dots.
        dtype: of the numbers, as NumPy names it.
        shape: of the array in a row, () for a number.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of a row."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


def path_name(path: Sequence[Any]) -> str:
    """A place in a tree, such as "motion.status" or "loads.0"."""
    parts = []
    for step in path:
        found = [getattr(step, kind) for kind in ("key", "name", "idx") if hasattr(step, kind)]
        parts.append(str(found[0]) if found else str(step))
    return ".".join(parts)


def columns_of(tree: Any, what: str, alone: str, prefix: str = "") -> list[Column]:
    """The columns of a tree of arrays or shapes.

    Args:
        what: the tree is, for messages. alone: the name of a tree that is a single leaf. prefix: of all names.

    Raises:
        ValueError: something that is not real numbers, or two columns with the same name.
    """
    columns = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = ".".join(part for part in (prefix, path_name(path)) if part) or alone
        try:
            dtype = np.dtype(leaf.dtype)
        except TypeError:  # one of JAX's own, such as a key of random numbers
            raise ValueError(f"{what}: {name} must hold real numbers, got {leaf.dtype}") from None
        if dtype.kind not in "biuf":
            raise ValueError(f"{what}: {name} must hold real numbers, got {dtype}")
        columns.append(Column(name, dtype.name, tuple(leaf.shape)))
    names = [column.name for column in columns]
    twice = {name for name in names if names.count(name) > 1 or name == SAMPLE}
    if twice:
        raise ValueError(f"{what}: there must be one column named {min(twice)!r}")
    return columns


def schema(columns: Sequence[Column]):
    """The Arrow schema of some columns. Nothing is ever missing in a row, which makes writing three times as fast."""
    import pyarrow as pa

    def kind(column: Column):
        plain = pa.from_numpy_dtype(np.dtype(column.dtype))
        count = int(np.prod(column.shape))
        return plain if column.shape == () else pa.list_(pa.field("item", plain, nullable=False), count)

    return pa.schema([pa.field(column.name, kind(column), nullable=False) for column in columns])


def as_table(columns: Sequence[Column], arrays: Sequence[Sequence[np.ndarray]]):
    """An Arrow table of columns in pieces (rows, …), without a copy."""
    import pyarrow as pa

    fields = schema(columns)

    def whole(field, array):
        array = np.ascontiguousarray(array)
        if array.ndim == 1:
            return pa.array(array, field.type)
        return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1), field.type.value_type), type=field.type)

    chunked = lambda field, pieces: pa.chunked_array([whole(field, x) for x in pieces], field.type)
    return pa.Table.from_arrays([chunked(f, pieces) for f, pieces in zip(fields, arrays, strict=True)], schema=fields)


def as_array(column: Column, chunk) -> np.ndarray:
    """An Arrow column as an array (rows, …)."""
    if column.shape == ():
        return chunk.to_numpy()
    pieces = [piece.flatten().to_numpy(zero_copy_only=False) for piece in chunk.chunks]
    flat = np.concatenate(pieces) if pieces else np.zeros(0, column.dtype)
    return flat.reshape(-1, *column.shape)
