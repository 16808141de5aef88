"""Recursions over the bodies of a tree: from the ground to the leaves, and back.

A branch is a sequence of bodies, each carried by the one before it. If all its bodies have the same structure, or repeat a
pattern of up to `MAX_PATTERN_BODIES` structures, the recursion is a loop, so that a chain costs as much to compile with
64 links as with 256. A run has the bodies at one position of the pattern. If there are too few for a loop, each body is
a run of its own, and is written out.

Values "by run" are lists with an entry for each run: a pytree of arrays, stacked along a leading axis if it has several
bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxmbs.numerics.repeated import MIN_IN_LOOP

# Largest number of bodies in a repeated pattern that becomes a loop, such as 2 in link, rod, link, rod, …
MAX_PATTERN_BODIES = 8
# A pattern of bodies becomes a loop only if it occurs at least this many times in a row.
MIN_PATTERN_REPEATS = 4


class Run(NamedTuple):
    """The bodies start, start + turns, … below stop, which have the same structure.

    Attributes:
        start: index of the first body.
        stop: end of the range of indices.
        turns: number of runs that alternate in the loop; they follow each other.
        first: index of the first body of the first of these runs.
        parent: index of the body that carries body `start`, −1 for the ground.
        side: (position in the run, run) of the runs carried by a body of this run that is not the last of the loop.
        end: runs carried by the last body of the loop, for the run that has this body.
    """

    start: int
    stop: int
    turns: int
    first: int
    parent: int
    side: tuple[tuple[int, int], ...]
    end: tuple[int, ...]

    @property
    def bodies(self) -> range:
        """Indices of the bodies of this run."""
        return range(self.start, self.stop, self.turns)

    @property
    def loop(self) -> bool:
        """True if the run has more than one body, so that it is part of a loop."""
        return len(self.bodies) > 1


def runs_of(parents: Sequence[int], alike: Sequence[Any], long: int | None = None) -> tuple[Run, ...]:
    """Return the runs of a tree whose bodies are numbered depth first.

    `alike` has a key for each body; only bodies with the same key are in the same run. Loops have at least `long` bodies.
    """
    spans = list(_spans(parents, alike, MIN_IN_LOOP if long is None else long))
    bodies = [(range(a + turn, b, turns), a, b, turns) for a, b, turns in spans for turn in range(turns)]
    place = {k: (n, row) for n, (numbers, *_) in enumerate(bodies) for row, k in enumerate(numbers)}
    side: list[list[tuple[int, int]]] = [[] for _ in bodies]
    end: list[list[int]] = [[] for _ in bodies]
    for number, (numbers, first, _, _) in enumerate(bodies):
        parent = parents[first]
        if numbers.start == first and parent >= 0:
            n, row = place[parent]
            if parent == bodies[n][2] - 1:
                end[n].append(number)
            else:
                side[n].append((row, number))
    return tuple(
        Run(numbers.start, b, turns, a, parents[numbers.start], tuple(side[n]), tuple(end[n]))
        for n, (numbers, a, b, turns) in enumerate(bodies)
    )


def _spans(parents: Sequence[int], alike: Sequence[Any], long: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, stop, turns) of each loop, whose pattern has `turns` bodies, and of each body in no loop."""
    start = 0
    while start < len(parents):
        stop, chosen = start + 1, 1
        for turns in range(1, MAX_PATTERN_BODIES + 1):
            k = start + 1
            while k < len(parents) and parents[k] == k - 1 and (k < start + turns or alike[k] == alike[k - turns]):
                k += 1
            k -= (k - start) % turns
            if k > stop and k - start >= max(long, MIN_PATTERN_REPEATS * turns):
                stop, chosen = k, turns
        yield start, stop, chosen
        start = stop


def _loop_groups(runs: Sequence[Run]) -> list[range]:
    """Return the indices of the runs as ranges: one for the runs that alternate in a loop, one for each other run."""
    return [range(n, n + run.turns) for n, run in enumerate(runs) if run.start == run.first]


def stack_runs(runs: Sequence[Run], each: Sequence[Any]) -> list:
    """Return a list with one entry per run from a list with one per body: its value, or the values of a loop, stacked."""
    stack = lambda *leaves: jnp.stack(leaves)
    return [jax.tree.map(stack, *(each[k] for k in run.bodies)) if run.loop else each[run.start] for run in runs]


def unstack_runs(runs: Sequence[Run], by_run: Sequence[Any]) -> list:
    """Return a value for each body from values by run: the inverse of `stack_runs`."""
    out: dict[int, Any] = {}
    for run, value in zip(runs, by_run, strict=True):
        if not run.loop:
            out[run.start] = value
            continue
        leaves, tree = jax.tree.flatten(value)
        rows = zip(*map(jnp.unstack, leaves), strict=True)
        out |= {k: jax.tree.unflatten(tree, row) for k, row in zip(run.bodies, rows, strict=True)}
    return [out[k] for k in range(len(out))]


def split_runs(runs: Sequence[Run], x, slices: Sequence[slice]) -> list:
    """Return the parts of a vector, or of columns, by run; `slices` are the entries of each body."""
    out = []
    for run in runs:
        here = slices[run.start]
        if not run.loop:
            out.append(x[here])
            continue
        begin = slices[run.first].start
        rounds = x[begin : slices[run.stop - 1].stop].reshape(len(run.bodies), -1, *x.shape[1:])
        out.append(rounds[:, here.start - begin : here.stop - begin])
    return out


def concatenate_runs(runs: Sequence[Run], parts: Sequence[Any]) -> list:
    """Return vectors by run as a list of vectors to be concatenated: the inverse of `split_runs`."""
    out = []
    for numbers in _loop_groups(runs):
        some = [parts[n] for n in numbers]
        rounds = [x.reshape(len(runs[n].bodies), -1) for n, x in zip(numbers, some, strict=True)]
        out.append((jnp.concatenate(rounds, axis=1) if len(rounds) > 1 else rounds[0]).reshape(-1))
    return out


def forward(runs: Sequence[Run], step: Callable, ground: Any, given: Sequence[Any], passed: Callable) -> list:
    """Return y_k = step(passed(y_parent), x_k) of all bodies, by run; `ground` is the value that the ground passes on."""
    out: list = []
    where = {k: (n, row) for n, run in enumerate(runs) for row, k in enumerate(run.bodies)}

    def loop(carry, xs):
        """Return the value passed on by the last body of a round, and y of its bodies."""
        ys = []
        for x in xs:
            ys.append(step(carry, x))
            carry = passed(ys[-1])
        return carry, ys

    for numbers in _loop_groups(runs):
        run, parent = runs[numbers[0]], ground
        if run.parent >= 0:
            n, k = where[run.parent]
            parent = passed(out[n])
            parent = jax.tree.map(lambda leaf, k=k: leaf[k], parent) if runs[n].loop else parent
        xs = [given[n] for n in numbers]
        out += jax.lax.scan(loop, parent, xs)[1] if run.loop else [step(parent, xs[0])]
    return out


def backward(runs: Sequence[Run], step: Callable, given: Sequence[Any], nothing: Any) -> tuple[list, Any]:
    """Return y of all bodies by run, and Σ c of those that the ground carries: (y_k, c_k) = step(Σ c of children, x_k).

    A body without children gets `nothing` as its sum.
    """
    out, passed = [None] * len(runs), [None] * len(runs)

    def loop(carry, row):
        """Return the sum that the first body of a round passes on, and y of its bodies."""
        ys = []
        for x, more in reversed(list(zip(*row, strict=True))):
            y, carry = step(carry if more is None else jax.tree.map(jnp.add, carry, more), x)
            ys.append(y)
        return carry, ys[::-1]

    total = lambda parts: jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *parts) if parts else nothing
    for numbers in reversed(_loop_groups(runs)):
        n, last = numbers[0], numbers[-1]
        received = total([passed[r] for r in runs[last].end])
        if not runs[n].loop:
            out[n], passed[n] = step(received, given[n])
            continue
        beside = [
            _sum_into_rows(len(runs[k].bodies), nothing, [(row, passed[r]) for row, r in runs[k].side]) for k in numbers
        ]
        xs = [given[k] for k in numbers]
        passed[n], out[n : last + 1] = jax.lax.scan(loop, received, (xs, beside), reverse=True)
    return out, total([passed[n] for n, run in enumerate(runs) if run.parent < 0])


def _sum_into_rows(length: int, nothing, given: list):
    """Return an array with a row for each of `length` bodies, the sum of pairs (row, value); None without pairs."""
    if not given:
        return None
    rows = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), nothing)
    for k, value in given:
        rows = jax.tree.map(lambda row, c, k=k: row.at[k].add(c), rows, value)
    return rows
