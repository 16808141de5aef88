"""Size of batches: grown while larger batches are faster and fit into memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jax

from jaxmbs.programs import shard_over_devices

# Number of samples in the first batch of a sweep, before the size is tuned.
FIRST_BATCH = 1024
# Factor from one batch size that is tried to the next.
BATCH_GROWTH = 4
# Largest number of samples in a batch, whatever its speed.
MAX_BATCH = 2**20
# Smallest relative gain in samples per second that counts as faster.
MIN_RATE_GAIN = 0.05
# Growth stops after this many sizes in a row that are not faster.
MAX_SIZES_WITHOUT_GAIN = 2
# Largest fraction of the free memory that a batch may take.
MAX_MEMORY_FRACTION = 0.25
# Timed batches of each size. The first one is not counted, and the fastest of the others is.
TIMED_BATCHES = 4
# Time of a batch in seconds up to which its size grows; a batch of more than twice this time makes the next ones
# smaller. An interrupt takes effect between batches.
MAX_BATCH_SECONDS = 5.0


class StopSignal(Protocol):
    """A request to stop, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Return True once the sweep should stop."""


class Batches:
    """Batch sizes, tuned while samples are computed, and the compiled program of each size.

    Args:
        compiled: function that compiles a program for a batch of designs.
        designs: function from (start, stop) to a batch of designs.
        size: number of designs.
    """

    def __init__(self, compiled: Callable[[Any], Any], designs: Callable[[int, int], Any], size: int):
        self._compiled, self._designs, self._count = compiled, designs, size
        self._programs: dict[int, Any] = {}
        self._sizes_that_fit: set[int] = set()
        self._size, self._best, self._rate, self._grows = FIRST_BATCH, FIRST_BATCH, 0.0, True
        self._seconds: list[float] = []
        self._sizes_without_gain = 0

    def next(self, left: int, asked: int | None) -> tuple[int, bool]:
        """Return the size of the next batch, and True if its time is to be passed to `record_time`.

        Args:
            left: number of samples that remain.
            asked: the size that the user fixed, or None.
        """
        size = self._size if asked is None else asked
        if left < size:
            # Prefer the smallest program that is already compiled and large enough.
            size = min((one for one in self._programs if one >= left), default=min(size, 1 << (left - 1).bit_length()))
        size = self._round_up(size)
        while asked is None and size > self._round_up(1) and size not in self._sizes_that_fit:
            if self._memory_bytes(size) <= MAX_MEMORY_FRACTION * _free_memory():
                self._sizes_that_fit.add(size)
                break
            del self._programs[size]
            size = self._round_up(size // BATCH_GROWTH)
            self._size = self._best = size
            self._grows = False
        return size, asked is None and self._grows and size == self._round_up(self._size) and left >= size

    def record_time(self, size: int, seconds: float) -> None:
        """Record the time of a batch of the current size, in seconds, and choose the next size."""
        self._seconds.append(seconds)
        if seconds > 2 * MAX_BATCH_SECONDS and len(self._seconds) > 1:
            self._size = self._best = max(1, int(size * MAX_BATCH_SECONDS / seconds))
            self._grows = False
            return
        if len(self._seconds) < TIMED_BATCHES:
            return
        rate = size / max(min(self._seconds[1:]), 1e-9)
        if rate > (1 + MIN_RATE_GAIN) * self._rate:
            self._best, self._rate, self._sizes_without_gain = self._size, rate, 0
        else:
            self._sizes_without_gain += 1
        following = self._size * BATCH_GROWTH
        fits = (
            following <= MAX_BATCH and BATCH_GROWTH * self._memory_bytes(size) <= MAX_MEMORY_FRACTION * _free_memory()
        )
        soon = BATCH_GROWTH * min(self._seconds[1:]) <= MAX_BATCH_SECONDS
        self._grows = fits and soon and self._sizes_without_gain < MAX_SIZES_WITHOUT_GAIN
        self._size, self._seconds = following if self._grows else self._best, []

    def program(self, size: int) -> Any:
        """Return the program for batches of a size, compiled once."""
        if size not in self._programs:
            # Only the shapes matter. If there are fewer designs, repeat the first one.
            rows = self._designs(0, min(size, self._count))
            if size > self._count:
                rows = jax.tree.map(lambda x: x[[0] * size], rows)
            self._programs[size] = self._compiled(shard_over_devices(rows))
        return self._programs[size]

    def _memory_bytes(self, size: int) -> int:
        """Return the bytes of memory that a batch takes, or 0 if XLA does not report it."""
        with contextlib.suppress(Exception):
            report = self.program(size).memory_analysis()
            return report.temp_size_in_bytes + report.argument_size_in_bytes + report.output_size_in_bytes
        return 0

    @staticmethod
    def _round_up(size: int) -> int:
        """Round a size up to a multiple of the number of devices, at least two samples for each."""
        # XLA emits different code, which rounds differently, for a single sample.
        devices = len(jax.local_devices())
        return -(-max(size, 2 * devices) // devices) * devices


def _free_memory() -> float:
    """Return the free bytes of all devices together, or of the host if a device does not report them."""
    report = [device.memory_stats() for device in jax.local_devices()]
    if all(report):
        return float(sum(x["bytes_limit"] - x["bytes_in_use"] for x in report))
    with contextlib.suppress(ValueError, OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")
