"""A pytree that a result carries with it, such as its mechanism.

A result is sliced, stacked and batched leaf by leaf, so the numbers of this pytree need the leading axes of the result's
arrays too. They get them when the result is flattened, as by `jit` or `vmap`; until then nothing is copied.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.numerics.arrays import Same, is_concrete
from jaxmbs.numerics.repeated import vmap_axes

# Most entries of a leaf that gets the leading axes. A longer one stays unchanged if it is known, and is lost if traced.
MAX_TABLE_NUMBERS = 64


@dataclasses.dataclass(frozen=True)
class LeafSlice:
    """The position of the numbers of a leaf in a row of all numbers."""

    start: int
    shape: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        """Number of entries of the leaf."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class LostLeaf:
    """Placeholder for a leaf that was traced and is not known any more."""


@dataclasses.dataclass(frozen=True)
class Packing:
    """The structure of a pytree whose numbers are in a row: for each leaf its position, or the leaf if it is constant."""

    structure: Any
    leaves: tuple[LeafSlice | Same | LostLeaf, ...]

    @property
    def size(self) -> int:
        """Number of entries of the row of numbers."""
        return sum(leaf.size for leaf in self.leaves if isinstance(leaf, LeafSlice))

    def unpack(self, row: Float[Array, " k"] | Float[np.ndarray, " k"]) -> Any:
        """Return the pytree with its numbers taken from a row (k,)."""
        part = lambda leaf: row[leaf.start : leaf.start + leaf.size].reshape(leaf.shape)
        return self._map_slices(lambda leaf: part(leaf).astype(leaf.dtype))

    def slices(self) -> Any:
        """Return the pytree with a `LeafSlice` in place of each leaf of numbers."""
        return self._map_slices(lambda leaf: leaf)

    def _map_slices(self, from_slice: Callable[..., Any]) -> Any:
        """Return the pytree with a function's value in place of each `LeafSlice`, and constants unchanged."""

        def leaf(x: Any) -> Any:
            """Return the leaf for an entry of `leaves`; a `LostLeaf` stays as it is."""
            return from_slice(x) if isinstance(x, LeafSlice) else x.value if isinstance(x, Same) else x

        return jax.tree.unflatten(self.structure, [leaf(x) for x in self.leaves])


def pack(tree: Any) -> tuple[Packing, Any]:
    """Return the packing of a pytree, and its floating-point leaves as one row (k,)."""
    leaves, structure = jax.tree.flatten(tree)
    found: list[LeafSlice | Same | LostLeaf] = []
    parts: list[Any] = []
    start = 0
    for leaf in leaves:
        dtype = jnp.result_type(leaf) if isinstance(leaf, float) else getattr(leaf, "dtype", None)
        size = np.size(leaf)
        if dtype is not None and jnp.issubdtype(dtype, jnp.floating) and size <= MAX_TABLE_NUMBERS:
            found.append(LeafSlice(start, np.shape(leaf), jax.dtypes.canonicalize_dtype(dtype)))
            parts.append(leaf)
            start += size
        else:
            found.append(Same(leaf) if is_concrete(leaf) else LostLeaf())
    known = np if all(map(is_concrete, parts)) else jnp
    row = known.concatenate([known.ravel(part) for part in parts]) if parts else np.zeros(0)
    return Packing(structure, tuple(found)), row


@jax.tree_util.register_pytree_node_class
class BroadcastTree:
    """A pytree carried by a result with the leading axes `lead`; (*lead, k) numbers once the result has been flattened."""

    def __init__(self, tree: Any, lead: tuple[int, ...]) -> None:
        self._tree, self._lead = tree, lead
        self._packing: Packing | None = None
        self._numbers: Any = None

    def tree_flatten(self) -> tuple[tuple[Any], Packing]:
        """Return the row of numbers with the leading axes, (*lead, k), as the only leaf, and its packing."""
        if self._packing is not None:
            return (self._numbers,), self._packing
        packing, row = pack(self._tree)
        return ((np if is_concrete(row) else jnp).broadcast_to(row, (*self._lead, row.shape[0])),), packing

    @classmethod
    def tree_unflatten(cls, packing: Packing, numbers: tuple[Any]) -> BroadcastTree:
        """Return the `BroadcastTree` with this packing and this row of numbers."""
        tree = cls(None, ())
        tree._packing, (tree._numbers,) = packing, numbers
        return tree

    @property
    def structure(self) -> Any:
        """The pytree, with zeros for its numbers once it has been flattened."""
        return self._tree if self._packing is None else self._packing.unpack(np.zeros(self._packing.size))

    def at_index(self, index: tuple[int, ...]) -> Any:
        """Return the pytree at an index of the leading axes, of which it may have fewer than the index.

        None if leaves were lost in a transformation.
        """
        if self._packing is None:
            return self._tree
        if any(isinstance(leaf, LostLeaf) for leaf in self._packing.leaves):
            return None
        return self._packing.unpack(np.asarray(self._numbers)[index[: np.ndim(self._numbers) - 1]])

    def part(self, select: Callable[..., Any]) -> BroadcastTree:
        """Return a part of the pytree, `select(tree)`, with the same leading axes.

        Raises:
            ValueError: it has tables that were lost in a transformation.
        """
        if self._packing is None:
            return BroadcastTree(select(self._tree), self._lead)
        leaves, structure = jax.tree.flatten(select(self._packing.slices()))
        if any(isinstance(leaf, LostLeaf) for leaf in leaves):
            raise ValueError("its tables were traced and are not known any more outside the transformation")
        chosen: list[LeafSlice | Same | LostLeaf] = []
        columns: list[int] = []
        for leaf in leaves:
            if isinstance(leaf, LeafSlice):
                chosen.append(LeafSlice(len(columns), leaf.shape, leaf.dtype))
                columns += range(leaf.start, leaf.start + leaf.size)
            else:
                chosen.append(Same(leaf))
        return self.tree_unflatten(Packing(structure, tuple(chosen)), (self._numbers[..., np.array(columns, int)],))

    def vmap(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Return f(tree, *arrays) as a function of arrays that all have the leading axes."""
        (numbers,), packing = self.tree_flatten()
        batched = vmap_axes(lambda row, *xs: f(packing.unpack(row), *xs), jnp.ndim(numbers) - 1)
        return lambda *xs: batched(numbers, *xs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let `pickle`, which cannot write the structure of a pytree, write a pytree with slices instead of numbers."""
        if self._packing is None:
            return BroadcastTree, (self._tree, self._lead)
        return _unpickle, (self._packing.slices(), self._numbers)

    def __deepcopy__(self, memo: Any) -> BroadcastTree:
        return self

    def __repr__(self) -> str:
        return "BroadcastTree(…)"


def _unpickle(slices: Any, numbers: Any) -> BroadcastTree:
    """Restore a `BroadcastTree` from its pytree with slices instead of numbers."""
    leaves, structure = jax.tree.flatten(slices)
    found = tuple(leaf if isinstance(leaf, (LeafSlice, LostLeaf)) else Same(leaf) for leaf in leaves)
    return BroadcastTree.tree_unflatten(Packing(structure, found), (numbers,))
