"""Progress bars of long searches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressBar:
    """A progress bar on the standard error, or one line at the end if that is not a terminal.

    Call it with the steps done, the number of all steps, and an object that `describe` puts into words. `close` ends
    it.
    """

    def __init__(
        self, label: str, unit: str = "steps", describe: Callable[[Any], str] = lambda best: f"best {best:.2g}"
    ):
        self.label, self.unit, self.describe = label, unit, describe
        self._console = Console(stderr=True)
        self._began = time.monotonic()
        self._last = ""
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int, detail: Any) -> None:
        words = self.describe(detail)
        self._last = f"{done}/{total} {self.unit}, {words}"
        if not self._console.is_terminal:
            return
        if self._progress is None:
            self._progress = self._new_progress()
        self._progress.update(self._progress.task_ids[0], completed=done, total=total, words=words)

    def close(self) -> None:
        """End the bar and leave it on the screen. The next call begins a new one."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        elif self._last:
            print(f"{self.label}: {self._last}, {time.monotonic() - self._began:.1f} s", file=sys.stderr)
        self._last, self._began = "", time.monotonic()

    def _new_progress(self) -> Progress:
        """Start a bar at the first report: a search that refuses its arguments reports nothing and would not close it."""
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[words]}"),
            console=self._console,
            get_time=time.monotonic,
        )
        task = progress.add_task(self.label, words="")
        # The time includes the compilation, which ends before the first report.
        progress.tasks[task].start_time = self._began
        progress.start()
        return progress


def progress_bar(label: str) -> ProgressBar:
    """Return a progress bar for searches, as in `synthesis.path(…, progress=mbs.viz.progress_bar("path"))`.

    It shows the steps, the time passed and left, and the smallest error so far.

    Args:
        label: text before the bar.

    Returns:
        the bar, to be called with the steps done, the number of all steps, and the smallest error so far.

    Examples:
        >>> bar = mbs.viz.progress_bar("path")
        >>> found = mbs.synthesis.minimise(lambda b: (b - 3) ** 2, 0.0, starts=4, steps=(50, 20), progress=bar)
    """
    return ProgressBar(label)
