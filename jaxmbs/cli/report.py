"""Output of commands: a report as text or JSON, errors, and a progress bar."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

# Exit code of a command that succeeds.
OK = 0
# Exit code if the mechanism cannot do what was asked.
FAILED = 1
# Exit code of a command with bad input, such as an unknown option or a missing file.
BAD_INPUT = 2
# Exit code after an interrupt, as shells define it.
INTERRUPTED = 130
# A progress bar appears if a command takes longer than this many seconds.
PROGRESS_DELAY_SECONDS = 1.0
# Significant digits of numbers in reports printed as text.
DIGITS = 6
# Numbers smaller than this many rounding errors of the numbers they were computed from are reported as 0.
MAX_ROUNDING_ERRORS = 100


@dataclasses.dataclass
class Report:
    """The result of a command.

    Attributes:
        values: numbers, texts, lists and dicts of these, by name.
        code: exit code, `OK` or `FAILED`.
    """

    values: dict[str, Any]
    code: int = OK


def without_noise(values, scale: float):
    """Return an array with 0 in place of rounding errors of numbers of the size of `scale`."""
    values = np.asarray(values)
    return np.where(np.abs(values) <= MAX_ROUNDING_ERRORS * np.finfo(values.dtype).eps * scale, 0, values)


def show(report: Report, as_json: bool) -> None:
    """Print a report to the standard output."""
    from jaxmbs.io.files import json_value

    values = json_value(report.values)
    if as_json:
        print(json.dumps(values, allow_nan=False))
        return
    width = max((len(key) for key in values), default=0) + 2
    for key, value in values.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            print(f"{key}:")
            print_table(value)
        else:
            print(f"{key:<{width}}{text(value)}")


def print_table(rows: list[dict]) -> None:
    """Print rows with the same keys in columns."""
    cells = [list(rows[0]), *([text(row.get(key)) for key in rows[0]] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
    for line in cells:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def text(value) -> str:
    """Return a value as text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(x)}" for key, x in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(text(x) for x in value) or "none"
    return str(value)


@contextlib.contextmanager
def working(label: str) -> Iterator[None]:
    """Show a progress bar on the standard error after a second, if it is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task(label, total=None)
    later = threading.Timer(PROGRESS_DELAY_SECONDS, progress.start)
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        progress.stop()


def complain(message: str, as_json: bool, code: int) -> int:
    """Print the reason of a failure in one line, and return the exit code."""
    line = " ".join(message.split())
    print(f"jaxmbs: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": line, "code": code}))
    return code
