"""How many samples are computed at once: as many as make it faster and fit into the memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jax

from jaxmbs.programs import shard_over_devices

# Batches grow until two larger ones in a row are not faster by more than this part, or the next one would take more than
# that of the memory. Of the runs with each size the first one does not count, and the fastest of the others does.
FIRST_BATCH, GROWTH, MAX_BATCH = 1024, 4, 2**20
WORTH_IT, MEMORY_PART, RUNS, MAX_FLAT = 0.05, 0.25, 4, 2
# Seconds that a batch may take: an interrupt waits for it.
MAX_BATCH_SECONDS = 5.0


class Stop(Protocol):
    """Something that says whether to stop, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Whether."""


class Batches:
    """Sizes of batches, found while samples are computed, and the programs for them.

    Args:
        compiled: designs ↦ the program for as many. designs: (start, stop) ↦ designs. size: how many there are.
    """

    def __init__(self, compiled: Callable[[Any], Any], designs: Callable[[int, int], Any], size: int):
        self._compiled, self._designs, self._count = compiled, designs, size
        self._programs: dict[int, Any] = {}
        self._fits: set[int] = set()
        self._size, self._best, self._rate, self._grows = FIRST_BATCH, FIRST_BATCH, 0.0, True
        self._seconds: list[float] = []
        self._flat = 0

    def next(self, left: int, asked: int | None) -> tuple[int, bool]:
        """The size of the next batch when `left` samples remain, and whether to say how long it took.

        asked: a size that is given.
        """
        size = self._size if asked is None else asked
        if left < size:
            # What is compiled already may be larger than what is left.
            size = min((one for one in self._programs if one >= left), default=min(size, 1 << (left - 1).bit_length()))
        size = self._rounded(size)
        while asked is None and size > self._rounded(1) and size not in self._fits:
            if self._takes(size) <= MEMORY_PART * _memory():
                self._fits.add(size)
                break
            del self._programs[size]
            size = self._rounded(size // GROWTH)
            self._size = self._best = size
            self._grows = False
        return size, asked is None and self._grows and size == self._rounded(self._size) and left >= size

    def took(self, size: int, seconds: float) -> None:
        """A batch of the size of now took so long."""
        self._seconds.append(seconds)
        if seconds > 2 * MAX_BATCH_SECONDS and len(self._seconds) > 1:
            self._size = self._best = max(1, int(size * MAX_BATCH_SECONDS / seconds))
            self._grows = False
            return
        if len(self._seconds) < RUNS:
            return
        rate = size / max(min(self._seconds[1:]), 1e-9)
        if rate > (1 + WORTH_IT) * self._rate:
            self._best, self._rate, self._flat = self._size, rate, 0
        else:
            self._flat += 1
        following = self._size * GROWTH
        fits = following <= MAX_BATCH and GROWTH * self._takes(size) <= MEMORY_PART * _memory()
        soon = GROWTH * min(self._seconds[1:]) <= MAX_BATCH_SECONDS
        self._grows = fits and soon and self._flat < MAX_FLAT
        self._size, self._seconds = following if self._grows else self._best, []

    def program(self, size: int) -> Any:
        """The program for batches of a size, compiled once."""
        if size not in self._programs:
            # Any designs will do; where there are fewer, the first one again and again.
            rows = self._designs(0, min(size, self._count))
            if size > self._count:
                rows = jax.tree.map(lambda x: x[[0] * size], rows)
            self._programs[size] = self._compiled(shard_over_devices(rows))
        return self._programs[size]

    def _takes(self, size: int) -> int:
        """Bytes of memory that a batch takes, as far as XLA says."""
        with contextlib.suppress(Exception):
            told = self.program(size).memory_analysis()
            return told.temp_size_in_bytes + told.argument_size_in_bytes + told.output_size_in_bytes
        return 0

    @staticmethod
    def _rounded(size: int) -> int:
        """A size that all devices share evenly, two for each at least: for one XLA has other code, with other rounding."""
        devices = len(jax.local_devices())
        return -(-max(size, 2 * devices) // devices) * devices


def _memory() -> float:
    """Bytes that are free on the devices together, or on the host where it is one of them."""
    told = [device.memory_stats() for device in jax.local_devices()]
    if all(told):
        return float(sum(x["bytes_limit"] - x["bytes_in_use"] for x in told))
    with contextlib.suppress(ValueError, OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")
