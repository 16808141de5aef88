"""The same function of many things: written out for a few; a loop for many, so that a program does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

# From this number of things on.
MIN_IN_LOOP = 17


def over_rows(f: Callable, *rows):
    """f of each row of these."""
    if len(jax.tree.leaves(rows)[0]) < MIN_IN_LOOP:
        return jax.vmap(f)(*rows)
    return jax.lax.map(lambda row: f(*row), rows)


def total(f: Callable, things: Sequence[tuple]):
    """Σ f(*thing) of things that may differ in kind."""
    kinds: dict = {}
    for thing in things:
        leaves, tree = jax.tree.flatten(thing)
        kinds.setdefault((tree, *map(jnp.shape, leaves)), []).append(thing)
    parts = []
    for alike in kinds.values():
        if len(alike) < MIN_IN_LOOP:
            parts += [f(*thing) for thing in alike]
        else:
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alike)
            parts.append(jnp.sum(over_rows(lambda thing: f(*thing), stacked)))
    return sum(parts[1:], parts[0])
