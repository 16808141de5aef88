"""What a command says: for people on lines, for machines as JSON; and a sign of life while it works."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

# Exit statuses.
OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
# What takes longer, in seconds, shows that it is at work.
PATIENCE = 1.0
DIGITS = 6
# A number that is smaller than this many rounding errors of what it was computed from is shown as zero.
MAX_ROUNDING_ERRORS = 100


@dataclasses.dataclass
class Report:
    """The result of a command.

    Attributes:
        values: by name; numbers, texts, lists and dicts of these.
        code: the exit code: 0 all is well, 1 the mechanism cannot do what was asked.
    """

    values: dict[str, Any]
    code: int = OK


def without_noise(values, scale: float):
    """An array with 0 in place of what is rounding of numbers of the size of `scale`."""
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
    """Rows of the same keys, in columns."""
    cells = [list(rows[0]), *([text(row.get(key)) for key in rows[0]] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
    for line in cells:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def text(value) -> str:
    """A value for people."""
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
    """A moving bar on the standard error, if it is a terminal, from one second on."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task(label, total=None)
    later = threading.Timer(PATIENCE, progress.start)
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        progress.stop()


def complain(message: str, as_json: bool, code: int) -> int:
    """Say in one line why a command failed."""
    line = " ".join(message.split())
    print(f"jaxmbs: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": line, "code": code}))
    return code
