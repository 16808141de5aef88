"""A tree of numbers and small arrays as the columns of a table, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

# Name of the column with the number of the sample.
SAMPLE = "sample"
# Name of the column with the status of the sample.
STATUS = "status"
# First part of the names of columns with leaves of the design.
DESIGN = "design"


class Column(NamedTuple):
    """A column with a number, or an array of numbers, in each row.

    Attributes:
        name: path in the tree, with dots.
        dtype: NumPy's name for the type of the numbers.
        shape: shape of the array in a row, () for a number.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of a row."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


def path_name(path: Sequence[Any]) -> str:
    """Return the name of a path in a tree, such as "motion.status" or "loads.0"."""
    parts = []
    for step in path:
        found = [getattr(step, kind) for kind in ("key", "name", "idx") if hasattr(step, kind)]
        parts.append(str(found[0]) if found else str(step))
    return ".".join(parts)


def columns_of(tree: Any, source: str, leaf_name: str, prefix: str = "") -> list[Column]:
    """Return a column for each leaf of a tree of arrays or shapes, called by its path after the prefix.

    The column of a tree that is a single leaf is called `leaf_name`. Messages call the tree `source`.

    Raises:
        ValueError: a leaf that does not hold real numbers, or two columns with the same name.
    """
    columns = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = ".".join(part for part in (prefix, path_name(path)) if part) or leaf_name
        try:
            dtype = np.dtype(leaf.dtype)
        except TypeError:  # a dtype of JAX, such as random keys
            raise ValueError(f"{source}: {name} must hold real numbers, got {leaf.dtype}") from None
        if dtype.kind not in "biuf":
            raise ValueError(f"{source}: {name} must hold real numbers, got {dtype}")
        columns.append(Column(name, dtype.name, tuple(leaf.shape)))
    names = [column.name for column in columns]
    twice = {name for name in names if names.count(name) > 1 or name == SAMPLE}
    if twice:
        raise ValueError(f"{source}: two columns are called {min(twice)!r}")
    return columns


def schema(columns: Sequence[Column]):
    """Return the Arrow schema of columns. No value is nullable, which makes writing three times as fast."""
    import pyarrow as pa

    def arrow_type(column: Column):
        """Return the Arrow type of a column: a number, or a list of fixed length for arrays."""
        plain = pa.from_numpy_dtype(np.dtype(column.dtype))
        count = int(np.prod(column.shape))
        return plain if column.shape == () else pa.list_(pa.field("item", plain, nullable=False), count)

    return pa.schema([pa.field(column.name, arrow_type(column), nullable=False) for column in columns])


def as_table(columns: Sequence[Column], arrays: Sequence[Sequence[np.ndarray]]):
    """Return an Arrow table of columns given as lists of arrays (rows, …), without a copy."""
    import pyarrow as pa

    fields = schema(columns)

    def arrow_array(field, array):
        """Return rows of numbers as an Arrow array of the type of `field`, without a copy."""
        array = np.ascontiguousarray(array)
        if array.ndim == 1:
            return pa.array(array, field.type)
        return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1), field.type.value_type), type=field.type)

    chunked = lambda field, pieces: pa.chunked_array([arrow_array(field, x) for x in pieces], field.type)
    return pa.Table.from_arrays([chunked(f, pieces) for f, pieces in zip(fields, arrays, strict=True)], schema=fields)


def as_array(column: Column, chunk) -> np.ndarray:
    """Return an Arrow column as an array (rows, …)."""
    if column.shape == ():
        return chunk.to_numpy()
    pieces = [piece.flatten().to_numpy(zero_copy_only=False) for piece in chunk.chunks]
    flat = np.concatenate(pieces) if pieces else np.zeros(0, column.dtype)
    return flat.reshape(-1, *column.shape)
