"""A bar on the screen for a long search."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressBar:
    """Called with the steps done, the steps in all, and what else there is to say; `close` ends it.

    It writes to the standard error. Where that is not a terminal there is one line at the end instead.
    """

    def __init__(self, label: str, unit: str = "steps", told: Callable[[Any], str] = lambda best: f"best {best:.2g}"):
        self.label, self.unit, self.told = label, unit, told
        self._console = Console(stderr=True)
        self._began = time.monotonic()
        self._last = ""
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int, more: Any) -> None:
        told = self.told(more)
        self._last = f"{done}/{total} {self.unit}, {told}"
        if not self._console.is_terminal:
            return
        if self._progress is None:
            self._progress = self._started()
        self._progress.update(self._progress.task_ids[0], completed=done, total=total, told=told)

    def close(self) -> None:
        """Leave the bar as it stands. A call after that begins a new one."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        elif self._last:
            print(f"{self.label}: {self._last}, {time.monotonic() - self._began:.1f} s", file=sys.stderr)
        self._last, self._began = "", time.monotonic()

    def _started(self) -> Progress:
        """Only now: a search that refuses its arguments never calls, and would leave a bar that nobody ends."""
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=self._console,
            get_time=time.monotonic,
        )
        task = progress.add_task(self.label, told="")
        # What came before the first report, compilation above all, is part of the time.
        progress.tasks[task].start_time = self._began
        progress.start()
        return progress


def progress_bar(label: str) -> ProgressBar:
    """A bar for `synthesis.path(…, progress=mbs.viz.progress_bar("path"))` and the like.

    It shows the steps, the time that has passed and is left, and the least error until now.

    Args:
        label: what stands before the bar.

    Examples:
        >>> bar = mbs.viz.progress_bar("path")
        >>> found = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20), progress=bar)
    """
    return ProgressBar(label)
