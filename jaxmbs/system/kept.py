"""Something that travels with a result whose arrays all have the same leading axes.

A result is sliced, stacked and batched leaf by leaf, so the numbers that it keeps beside its arrays need their leading axes
too. They get them when the result is taken apart, as on the way through `jit` or `vmap`; until then nothing is copied.
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

# A longer table does not get the leading axes: it stays as it is if it is known, and is lost if it is traced.
MAX_TABLE_ROWS = 64


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the numbers of a leaf stand in a row."""

    start: int
    shape: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        """How many there are."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Lost:
    """In place of a leaf that is not known any more."""


@dataclasses.dataclass(frozen=True)
class Packing:
    """How a pytree is made of a row of numbers: for each leaf its place, or the leaf itself where it never changes."""

    structure: Any
    leaves: tuple[Place | Same | Lost, ...]

    @property
    def size(self) -> int:
        """Numbers in a row."""
        return sum(leaf.size for leaf in self.leaves if isinstance(leaf, Place))

    def unpacked(self, row: Float[Array, " k"] | Float[np.ndarray, " k"]) -> Any:
        """The pytree of a row."""
        part = lambda place: row[place.start : place.start + place.size].reshape(place.shape)
        return self._with(lambda place: part(place).astype(place.dtype))

    def places(self) -> Any:
        """The pytree with places in place of numbers."""
        return self._with(lambda place: place)

    def _with(self, of_place: Callable) -> Any:
        def leaf(x):
            return of_place(x) if isinstance(x, Place) else x.value if isinstance(x, Same) else x

        return jax.tree.unflatten(self.structure, [leaf(x) for x in self.leaves])


def packed(tree) -> tuple[Packing, Any]:
    """A pytree as its packing and a row of numbers."""
    leaves, structure = jax.tree.flatten(tree)
    found: list[Place | Same | Lost] = []
    parts: list = []
    start = 0
    for leaf in leaves:
        dtype = jnp.result_type(leaf) if isinstance(leaf, float) else getattr(leaf, "dtype", None)
        size = np.size(leaf)
        if dtype is not None and jnp.issubdtype(dtype, jnp.floating) and size <= MAX_TABLE_ROWS:
            found.append(Place(start, np.shape(leaf), jax.dtypes.canonicalize_dtype(dtype)))
            parts.append(leaf)
            start += size
        else:
            found.append(Same(leaf) if is_concrete(leaf) else Lost())
    known = np if all(map(is_concrete, parts)) else jnp
    row = known.concatenate([known.ravel(part) for part in parts]) if parts else np.zeros(0)
    return Packing(structure, tuple(found)), row


@jax.tree_util.register_pytree_node_class
class Kept:
    """A pytree kept by a result with the leading axes `lead`; (*lead, k) numbers once the result has been taken apart."""

    def __init__(self, tree, lead: tuple[int, ...]):
        self._tree, self._lead = tree, lead
        self._packing: Packing | None = None
        self._numbers: Any = None

    def tree_flatten(self):
        """The numbers, and how they are packed."""
        if self._packing is not None:
            return (self._numbers,), self._packing
        packing, row = packed(self._tree)
        return ((np if is_concrete(row) else jnp).broadcast_to(row, (*self._lead, row.shape[0])),), packing

    @classmethod
    def tree_unflatten(cls, packing, numbers):
        """What was packed."""
        kept = cls(None, ())
        kept._packing, (kept._numbers,) = packing, numbers
        return kept

    @property
    def structure(self) -> Any:
        """The pytree, of which only the structure is of use."""
        return self._tree if self._packing is None else self._packing.unpacked(np.zeros(self._packing.size))

    def known(self, index: tuple[int, ...]) -> Any:
        """The pytree that belongs to a place on the leading axes, of which it may have fewer; None if tables were lost in
        a transformation."""
        if self._packing is None:
            return self._tree
        if any(isinstance(leaf, Lost) for leaf in self._packing.leaves):
            return None
        return self._packing.unpacked(np.asarray(self._numbers)[index[: np.ndim(self._numbers) - 1]])

    def part(self, select: Callable) -> Kept:
        """A part of the pytree, kept as well.

        Raises:
            ValueError: it has tables that were lost in a transformation.
        """
        if self._packing is None:
            return Kept(select(self._tree), self._lead)
        leaves, structure = jax.tree.flatten(select(self._packing.places()))
        if any(isinstance(leaf, Lost) for leaf in leaves):
            raise ValueError("its tables were traced and are not known any more outside the transformation")
        chosen: list[Place | Same | Lost] = []
        columns: list[int] = []
        for leaf in leaves:
            if isinstance(leaf, Place):
                chosen.append(Place(len(columns), leaf.shape, leaf.dtype))
                columns += range(leaf.start, leaf.start + leaf.size)
            else:
                chosen.append(Same(leaf))
        return self.tree_unflatten(Packing(structure, tuple(chosen)), (self._numbers[..., np.array(columns, int)],))

    def over(self, f: Callable) -> Callable:
        """f(tree, *arrays) as a function of arrays that all have the leading axes."""
        (numbers,), packing = self.tree_flatten()
        every = lambda row, *xs: f(packing.unpacked(row), *xs)
        for _ in range(jnp.ndim(numbers) - 1):
            every = jax.vmap(every)
        return lambda *xs: every(numbers, *xs)

    def __reduce__(self):
        """For `pickle`, which cannot write the structure of a pytree: write a pytree with places instead of numbers."""
        if self._packing is None:
            return Kept, (self._tree, self._lead)
        return _repacked, (self._packing.places(), self._numbers)

    def __deepcopy__(self, memo):
        return self

    def __repr__(self) -> str:
        return "Kept(…)"


def _repacked(places, numbers) -> Kept:
    """Restore a `Kept` from its pytree with places instead of numbers."""
    leaves, structure = jax.tree.flatten(places)
    found = tuple(leaf if isinstance(leaf, (Place, Lost)) else Same(leaf) for leaf in leaves)
    return Kept.tree_unflatten(Packing(structure, found), (numbers,))
