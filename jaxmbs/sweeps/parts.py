"""Parts: the files of a store. The name of a part gives its range of samples and its checksum.

A part is written under a temporary name, forced onto the disk and renamed, so it exists as a whole or not at all. It is
never changed. Ranges may be of any length: a sweep that is continued computes the samples that are in no part.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxmbs.sweeps.columns import SAMPLE, STATUS

# Name of a part: first sample, last sample + 1, checksum.
PART_NAME = re.compile(r"part-(\d{12,})-(\d{12,})-([0-9a-f]{8})\.parquet")
# Prefix of the temporary names of files that are being written.
UNFINISHED = ".unfinished-"


class Part(NamedTuple):
    """A file with samples `first` to `stop` − 1. Those before `start` are also in parts before it."""

    first: int
    stop: int
    checksum: str
    path: Path
    start: int


class DamagedPart(ValueError):
    """The bytes of a part do not have its checksum."""


def write_part(folder: Path, start: int, table) -> Path:
    """Store a table of samples, the first of which is `start`, and return the file. Errors leave nothing of the part."""
    import pyarrow as pa
    from pyarrow import parquet

    name = f"part-{start:012d}-{start + table.num_rows:012d}"
    with _temporary_path(folder / name) as path:
        # Mantissas of computed numbers do not compress. Statuses are mostly equal, numbers of samples consecutive.
        encoding = {"use_dictionary": [STATUS], "column_encoding": {SAMPLE: "DELTA_BINARY_PACKED"}}
        with pa.OSFile(str(path), "wb") as file:
            parquet.write_table(table, file, compression="none", **encoding)
        with path.open("r+b") as file:
            os.fsync(file.fileno())
        placed = folder / f"{name}-{_checksum(_memory_map(path))}.parquet"
        path.replace(placed)
    return placed


def write_atomically(path: Path, content, exclusive: bool = False) -> None:
    """Write bytes to a file that then exists as a whole or not at all, also after a loss of power.

    Raises:
        FileExistsError: the file exists and `exclusive` is set.
    """
    with _temporary_path(path) as temporary:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not exclusive:
            temporary.replace(path)
            return
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if path.exists():
                raise FileExistsError(path) from None
            temporary.replace(path)


@contextlib.contextmanager
def _temporary_path(path: Path) -> Iterator[Path]:
    """Yield an unused temporary name in the same folder; then delete it, and force the folder onto the disk."""
    mine = f"{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"
    temporary = path.with_name(f"{UNFINISHED}{path.name}.{mine}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)


def parts_of(folder: Path) -> list[Part]:
    """Return the parts in the order of their samples, without those whose samples are all in parts before them."""
    found = []
    for name in os.listdir(folder):
        match = PART_NAME.fullmatch(name)
        if match:
            found.append((int(match[1]), -int(match[2]), match[3], folder / name))
    parts: list[Part] = []
    covered = 0
    for first, minus_stop, checksum, path in sorted(found):
        if -minus_stop > covered:
            parts.append(Part(first, -minus_stop, checksum, path, max(first, covered)))
            covered = -minus_stop
    return parts


def missing_ranges(parts: Sequence[Part], start: int, stop: int) -> list[tuple[int, int]]:
    """Return the ranges (start, stop) between two samples that are in no part."""
    gaps = []
    for part in parts:
        if start < part.start and start < stop:
            gaps.append((start, min(part.start, stop)))
        start = max(start, part.stop)
    return [*gaps, (start, stop)] if start < stop else gaps


def content_of(part: Part) -> Any:
    """Return the bytes of a part as a buffer; raise `DamagedPart` if they do not have its checksum."""
    content = _memory_map(part.path)
    if _checksum(content) != part.checksum:
        raise DamagedPart(f"{part.path.name} is damaged: run the sweep again to compute its samples anew")
    return content


def read_part(part: Part, columns: Sequence[str] | None = None):
    """Return the table of a part without the samples that are in parts before it."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(pa.BufferReader(content_of(part)), columns=None if columns is None else list(columns))
    return table.slice(part.start - part.first)


def _memory_map(path: Path) -> Any:
    """Return a memory-mapped buffer of a file."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _checksum(content) -> str:
    """Return the CRC-32 of bytes as eight hexadecimal digits."""
    return f"{zlib.crc32(content):08x}"


def _sync_folder(folder: Path) -> None:
    """Force the entries of a folder onto the disk, on systems that can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
