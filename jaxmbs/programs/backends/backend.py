"""The interface of backends, and batches as two axes."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.programs.tracing.program import Program


class AbstractBackend(abc.ABC):
    """Runs programs on some platforms.

    The operands of a program have the batch axes in front, as many for all of them; an operand that does not depend on
    an axis has size 1 there.

    Attributes:
        by_threads: True if each sample has a thread of its own, as on GPUs.
        by_shard_map: True if a batch is divided among devices by `jax.shard_map`, which all platforms support; custom
            partitioning, which also keeps shards along several axes, fails on TPUs.
        by_other_compiler: True if a compiler of JAX makes the code while XLA's operations are lowered. If it refuses a
            program, XLA computes it, with a `PerformanceWarning`.
    """

    by_threads: ClassVar[bool] = False
    by_shard_map: ClassVar[bool] = False
    by_other_compiler: ClassVar[bool] = False

    @abc.abstractmethod
    def takes(self, platform: str) -> bool:
        """Return True if this backend makes code for a platform of XLA, "cpu" or "cuda", on this machine."""

    def refusal(self, program: Program) -> str | None:
        """Return the reason why this backend cannot run a program, None if it can; the next backend gets it."""
        return None

    @abc.abstractmethod
    def lower(self, program: Program, batch: tuple[int, ...], args: Sequence[Array], platform: str) -> list[Array]:
        """Return the outputs for a batch, as traced values of JAX operations that XLA has.

        Args:
            program: program to run.
            batch: sizes of the batch axes.
            args: operands, traced.
            platform: one that this backend takes.
        """

    @abc.abstractmethod
    def explain(self) -> str:
        """Return the kind of code that programs run as, for `mbs.explain`."""


def merge_batch_axes(args: Sequence[Array], batch: tuple[int, ...]) -> tuple[list[Array], int, list[tuple[int, int]]]:
    """Merge the batch axes into an outer and an inner one.

    Neighbouring axes on which all operands agree become one; if more than two are left, operands are broadcast.

    Args:
        args: operands with the batch axes in front.
        batch: their sizes.

    Returns:
        The operands; the number of samples along the inner axis; for each operand the distances between neighbours along
        the outer and the inner axis, in samples of the operand, 0 along an axis on which it does not depend.
    """
    depends = [tuple(x.shape[k] == size for x in args) for k, size in enumerate(batch)]
    merged: list[tuple[int, tuple[bool, ...]]] = []
    for size, pattern in zip(batch, depends, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == pattern:
            merged[-1] = (merged[-1][0] * size, pattern)
        else:
            merged.append((size, pattern))
    if len(merged) > 2:
        args = [jnp.broadcast_to(x, (*batch, *x.shape[len(batch) :])) for x in args]
        merged = [(math.prod(batch), (True,) * len(args))]
    while len(merged) < 2:
        merged.append((1, (False,) * len(args)))
    (_, by_outer), (inner, by_inner) = merged
    places = [((inner if b else 1) * a, int(b)) for a, b in zip(by_outer, by_inner, strict=True)]
    return list(args), inner, places


def over_batch(function: Callable[..., list[Array]], batch: tuple[int, ...], args: Sequence[Array]) -> list[Array]:
    """Return function(*args) for a whole batch, by nested vmaps over its axes, of a function of one sample."""
    for axis in reversed(range(len(batch))):
        axes = tuple(0 if x.shape[axis] == batch[axis] else None for x in args)
        if all(a is None for a in axes):
            axes = (0,) * len(args)
        function = jax.vmap(function, in_axes=axes, axis_size=batch[axis])
    # Axes of size 1 that are not mapped over are removed.
    unused: Callable[[Array], tuple[int, ...]] = lambda x: tuple(
        k for k, size in enumerate(batch) if x.shape[k] != size
    )
    return function(*(jnp.squeeze(x, unused(x)) for x in args))
