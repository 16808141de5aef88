"""Recursions over the bodies of a tree: from the ground to the leaves, and back.

Bodies of a branch that are all made alike, one carried by the one before it, make a run. A short run is written out, body
by body; a long one is a loop, so that a chain costs as much to compile with 64 links as with 256.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# From this number of bodies on, a run is a loop.
MIN_BODIES_IN_LOOP = 17


class Run(NamedTuple):
    """Bodies start, …, stop − 1, each the parent of the next, and the parent of the first.

    Attributes:
        loop: whether it is a loop; else it has one body.
        parent: the number of the body that carries the first, −1 for the ground.
        side: (number in the run, run) of the runs that are carried by a body of this one, but for its last.
        end: the runs that are carried by its last body.
    """

    start: int
    stop: int
    parent: int
    side: tuple[tuple[int, int], ...]
    end: tuple[int, ...]

    @property
    def loop(self) -> bool:
        """Whether it has more than one body."""
        return self.stop - self.start > 1


def runs_of(parents: Sequence[int], alike: Sequence[Any], long: int | None = None) -> tuple[Run, ...]:
    """The runs of a tree whose bodies are numbered depth first.

    alike: for each body a key; only bodies with the same one are in the same run.
    """
    long = MIN_BODIES_IN_LOOP if long is None else long
    cuts, start = [0], 0
    for k in range(1, len(parents) + 1):
        if k == len(parents) or parents[k] != k - 1 or alike[k] != alike[k - 1]:
            cuts.extend([k] if k - start >= long else range(start + 1, k + 1))
            start = k
    spans = list(pairwise(cuts))
    carried: list[list[tuple[int, int]]] = [[] for _ in spans]
    owner = np.repeat(np.arange(len(spans)), [b - a for a, b in spans])
    for number, (a, _) in enumerate(spans):
        if parents[a] >= 0:
            run = int(owner[parents[a]])
            carried[run].append((parents[a] - spans[run][0], number))
    return tuple(
        Run(
            a,
            b,
            parents[a],
            tuple((k, r) for k, r in carried[n] if k != b - a - 1),
            tuple(r for k, r in carried[n] if k == b - a - 1),
        )
        for n, (a, b) in enumerate(spans)
    )


def gathered(runs: Sequence[Run], each: Sequence[Any]) -> list:
    """Things of the bodies, one by one, as things of the runs: stacked where these are loops."""
    stack = lambda *leaves: jnp.stack(leaves)
    return [jax.tree.map(stack, *each[run.start : run.stop]) if run.loop else each[run.start] for run in runs]


def scattered(runs: Sequence[Run], by_run: Sequence[Any]) -> list:
    """The inverse of `gathered`."""
    out: list = []
    for run, value in zip(runs, by_run, strict=True):
        if not run.loop:
            out.append(value)
            continue
        # Leaf by leaf: one slice for each.
        leaves, tree = jax.tree.flatten(value)
        out += [jax.tree.unflatten(tree, [leaf[k] for leaf in leaves]) for k in range(run.stop - run.start)]
    return out


def forward(runs: Sequence[Run], step: Callable, ground: Any, given: Sequence[Any], passed: Callable) -> list:
    """y_k = step(passed(y_parent), x_k) for all bodies, as things of the runs; what the ground passes on is given."""
    out: list = []
    where = {k: (n, k - run.start) for n, run in enumerate(runs) for k in range(run.start, run.stop)}

    def loop(carry, x):
        y = step(carry, x)
        return passed(y), y

    for run, x in zip(runs, given, strict=True):
        parent = ground
        if run.parent >= 0:
            n, k = where[run.parent]
            parent = passed(out[n])
            parent = jax.tree.map(lambda leaf, k=k: leaf[k], parent) if runs[n].loop else parent
        out.append(jax.lax.scan(loop, parent, x)[1] if run.loop else step(parent, x))
    return out


def backward(runs: Sequence[Run], step: Callable, given: Sequence[Any], nothing: Any) -> tuple[list, Any]:
    """(y_k, c_k) = step(Σ c of the children of k, x_k) for all bodies: the y as things of the runs, and the sum of the c of
    those that the ground carries. A body without children gets `nothing`."""
    out, passed = [None] * len(runs), [None] * len(runs)

    def loop(carry, row):
        x, more = row
        y, c = step(carry if more is None else jax.tree.map(jnp.add, carry, more), x)
        return c, y

    total = lambda parts: jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *parts) if parts else nothing
    for n in reversed(range(len(runs))):
        run, x = runs[n], given[n]
        received = total([passed[r] for r in run.end])
        if not run.loop:
            out[n], passed[n] = step(received, x)
            continue
        beside = _rows(run.stop - run.start, nothing, [(k, passed[r]) for k, r in run.side])
        passed[n], out[n] = jax.lax.scan(loop, received, (x, beside), reverse=True)
    return out, total([passed[n] for n, run in enumerate(runs) if run.parent < 0])


def _rows(length: int, nothing, given: list):
    """Rows with things added to some; None if there are none."""
    if not given:
        return None
    rows = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), nothing)
    for k, thing in given:
        rows = jax.tree.map(lambda row, c, k=k: row.at[k].add(c), rows, thing)
    return rows
