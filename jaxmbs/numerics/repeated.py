"""A function of many arguments: written out for a few; a loop for many, so that the program does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

# Smallest number of arguments from which on `total` evaluates its function in a loop; fewer are written out one by one.
MIN_IN_LOOP = 17


def vmap_axes(f: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """Return f as a function of arrays with this number of leading axes."""
    for _ in range(axes):
        f = jax.vmap(f)
    return f


def map_rows(f: Callable[..., Any], *rows: Any) -> Any:
    """Return f(row of each array) for all rows, stacked; the arrays have the same number of rows."""
    if len(jax.tree.leaves(rows)[0]) < MIN_IN_LOOP:
        return jax.vmap(f)(*rows)
    return jax.lax.map(lambda row: f(*row), rows)


def total(f: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Array:
    """Return Σ f(*args) over tuples of arguments, which may differ in structure and shape."""
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for args in arguments:
        leaves, tree = jax.tree.flatten(args)
        groups.setdefault((tree, *map(jnp.shape, leaves)), []).append(args)
    parts = []
    for group in groups.values():
        if len(group) < MIN_IN_LOOP:
            parts += [f(*args) for args in group]
        else:
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *group)
            parts.append(jnp.sum(map_rows(lambda args: f(*args), stacked)))
    return sum(parts[1:], parts[0])
