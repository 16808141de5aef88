"""A change of variables that keeps a design within its bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

# Largest distance of a random start's entry from the given one if it has no bounds, in units of the entry's size.
START_SPREAD = 0.5
# Distance by which a start on a bound is moved inside, as a fraction of the width between its bounds, or of the entry's
# size if there is one bound only. On the bound itself the change of variables has no slope.
START_MARGIN = 1e-3


class Variables(NamedTuple):
    """The entries x of a design as functions of free numbers u, one for each entry, such that lower ≤ x ≤ upper.

    In y = ln x where the lower bound is positive, else in y = x, and with a size s of the entry:

        y = (a + b)/2 + (b − a)/2 sin u between two bounds a and b,
        y = a + s (√(1 + u²) − 1) above a lower one, y = b − s (√(1 + u²) − 1) below an upper one, y = s u without.

    Attributes:
        start: (n,) the given design.
        lower: (n,) lower bounds, −∞ where there are none.
        upper: (n,) upper bounds, ∞ where there are none.
        logarithmic: (n,) True where y = ln x.
        size: (n,) s.
        unravel: flat entries ↦ a tree of arrays.
        leaves: the leaves of the given design.
    """

    start: Float[np.ndarray, " n"]
    lower: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    logarithmic: np.ndarray
    size: Float[np.ndarray, " n"]
    unravel: Callable[[Array], Any]
    leaves: list[Any]

    @classmethod
    def from_design(cls, design: Any, lower: Any, upper: Any, name: str = "design") -> Variables:
        """Check a design and its bounds, as `minimise` takes them; errors call it `name`.

        Returns:
            The variables.

        Raises:
            ValueError: with the place in the design.
        """
        entries = jax.tree_util.tree_flatten_with_path(design)[0]
        if not entries:
            raise ValueError(f"{name} holds no numbers")
        leaves = [_numbers(f"{name}{_place(path)}", leaf) for path, leaf in entries]
        sizes = [np.where(x != 0, np.abs(x), np.abs(x).max(initial=0) or 1.0) for x in leaves]
        flat = lambda parts: np.concatenate([np.ravel(x) for x in parts])
        paths = [path for path, _ in entries]
        low = _bounds("lower", lower, paths, leaves, -np.inf)
        high = _bounds("upper", upper, paths, leaves, np.inf)
        for path, x, a, b in zip(paths, leaves, low, high, strict=True):
            if np.any(a > b):
                raise ValueError(f"lower{_place(path)} is above upper{_place(path)}: {a} > {b}")
            if np.any(x < a) or np.any(x > b):
                raise ValueError(f"{name}{_place(path)} is not within its bounds: {x} is not from {a} to {b}")
        start, least = flat(leaves), flat(low)
        logarithmic = (least > 0) & np.isfinite(least)
        size = np.where(logarithmic, 1.0, flat(sizes))
        dtype = jnp.result_type(float)
        tree = jax.tree.unflatten(jax.tree.structure(design), [jnp.asarray(x, dtype) for x in leaves])
        given = [leaf for _, leaf in entries]
        return cls(start, least, flat(high), logarithmic, size, ravel_pytree(tree)[1], given)

    def entries(self, u: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return the entries x (n,) of the design with free numbers u."""
        a, b, both, above, below = self._scaled_bounds()
        away = self.size * (jnp.sqrt(1 + u**2) - 1)
        y = jnp.where(above, a + away, jnp.where(below, b - away, self.size * u))
        y = jnp.where(both, (a + b) / 2 + (b - a) / 2 * jnp.sin(u), y)
        x = jnp.where(self.logarithmic, jnp.exp(jnp.where(self.logarithmic, y, 0)), y)
        # Rounding may lead beyond a bound.
        return jnp.clip(x, self.lower, self.upper)

    def design(self, u: Float[Array, " n"]) -> Any:
        """Return the design of free numbers u as a tree of arrays."""
        return self.unravel(self.entries(u))

    def result(self, u: np.ndarray) -> Any:
        """Return the design of free numbers u with numpy arrays, and floats where the given design has single numbers."""
        design = self.design(jnp.asarray(u))
        leaves = [
            float(x) if isinstance(given, (int, float)) else np.asarray(x)
            for x, given in zip(jax.tree.leaves(design), self.leaves, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(design), leaves)

    def starts(self, rng: np.random.Generator, count: int) -> Array:
        """Return free numbers (count, n) of the given design, which comes first, and of random ones."""
        a, b, *_ = self._scaled_bounds()
        y = self._log_scaled(self.start)
        least = np.where(np.isfinite(self.lower), a, y - START_SPREAD * self.size)
        most = np.where(np.isfinite(self.upper), b, np.maximum(y, least) + START_SPREAD * self.size)
        # With one bound only, no further from the given entry than without any.
        least = np.where(np.isfinite(self.upper), least, np.maximum(least, y - START_SPREAD * self.size))
        most = np.where(np.isfinite(self.lower), most, np.minimum(most, y + START_SPREAD * self.size))
        random = least + (most - least) * rng.random((count - 1, len(y)))
        return jax.vmap(self.free_numbers)(jnp.asarray(np.concatenate([y[None], random])))

    def free_numbers(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return the free numbers u of y; values on a bound are moved inside."""
        a, b, both, above, below = self._scaled_bounds()
        width = jnp.where(both & (b > a), b - a, 1)
        sine = jnp.clip(jnp.where(both, 2 * (y - a) / width - 1, 0), 2 * START_MARGIN - 1, 1 - 2 * START_MARGIN)
        away = jnp.maximum(jnp.where(above, y - a, b - y) / self.size, START_MARGIN)
        return jnp.where(both, jnp.arcsin(sine), jnp.where(above | below, jnp.sqrt((1 + away) ** 2 - 1), y / self.size))

    def features(self, u: np.ndarray) -> np.ndarray:
        """Return y (n,) in units of the way between the bounds, or of the size: the features by which designs differ."""
        a, b, both, *_ = self._scaled_bounds()
        width = np.where(both & (b > a), b - a, self.size)
        return self._log_scaled(np.asarray(self.entries(jnp.asarray(u)))) / width

    def _log_scaled(self, x: np.ndarray) -> np.ndarray:
        """Return y: ln x for the entries whose lower bound is positive, x for the others."""
        return np.where(self.logarithmic, np.log(np.where(self.logarithmic, x, 1)), x)

    def _scaled_bounds(self) -> tuple[np.ndarray, ...]:
        """Return the bounds of y, zero where there are none, and masks: both, only a lower, only an upper bound."""
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        a, b = (np.where(there, self._log_scaled(x), 0) for there, x in ((low, self.lower), (high, self.upper)))
        return a, b, low & high, low & ~high, high & ~low


def _place(path: tuple[Any, ...]) -> str:
    """Return the place in a tree as text, such as "['crank'][0]"."""
    return jax.tree_util.keystr(path)


def _numbers(name: str, leaf: Any) -> np.ndarray:
    """Return an entry as an array of finite real numbers; `name` is for errors."""
    array = np.asarray(leaf)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be real numbers, got {leaf!r}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {leaf!r}")
    return array.astype(float)


def _bounds(name: str, given: Any, paths: list[Any], leaves: list[np.ndarray], default: float) -> list[np.ndarray]:
    """Return the bound of each entry of a design; parts of the tree `given` that are None or missing get the default."""
    known = [[_place((key,)) for key in path] for path in paths]
    for path, _ in jax.tree_util.tree_flatten_with_path(given)[0]:
        keys = [_place((key,)) for key in path]
        # A list of bounds for an array of the design has a longer path than the array.
        if not any(all(x == y for x, y in zip(keys, other, strict=False)) for other in known):
            raise ValueError(f"{name}{''.join(keys)} bounds nothing: design has no such entry")
    out = []
    for path, leaf in zip(paths, leaves, strict=True):
        bound = given
        for key in path:
            # A number, an array or None holds for the whole subtree.
            if jax.tree_util.treedef_is_leaf(jax.tree.structure(bound)):
                break
            bound = _subtree_at(bound, key)
        try:
            value = np.broadcast_to(np.asarray(bound if jax.tree.leaves(bound) else default, float), leaf.shape)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}{_place(path)} must be numbers of shape {leaf.shape}, got {bound!r}") from error
        if np.any(np.isnan(value)):
            raise ValueError(f"{name}{_place(path)} must be numbers, got {bound!r}")
        out.append(value)
    return out


def _subtree_at(tree: Any, key: Any) -> Any:
    """Return the subtree of a tree of bounds at a key of the design, or None if it has none."""
    if isinstance(tree, Mapping):
        return tree.get(key.key)
    if isinstance(key, jax.tree_util.GetAttrKey):
        return getattr(tree, key.name)
    return tree[key.idx]
