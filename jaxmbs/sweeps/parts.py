"""The files of a store: each holds a range of samples, and its name says which and what its checksum is.

A part is written beside its place, forced onto the disk and renamed, so it is there as a whole or not at all. It is never
changed. Ranges may be of any length: whoever goes on with a sweep looks which samples are missing.
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

NAME = re.compile(r"part-(\d{12,})-(\d{12,})-([0-9a-f]{8})\.parquet")
UNFINISHED = ".unfinished-"


class Part(NamedTuple):
    """A file with samples `first` to `stop` − 1, of which those from `start` on are in no part before it."""

    first: int
    stop: int
    checksum: str
    path: Path
    start: int


class DamagedPart(ValueError):
    """A part that is not what was written."""


def write_part(folder: Path, start: int, table) -> Path:
    """Store the samples from `start` on.

    Raises:
        OSError: the disk is full, or the folder cannot be written to; nothing is left of the part.
    """
    import pyarrow as pa
    from pyarrow import parquet

    name = f"part-{start:012d}-{start + table.num_rows:012d}"
    with _beside(folder / name) as path:
        # Mantissas of computed numbers do not compress; a status is mostly the same, and samples follow each other.
        encoding = {"use_dictionary": [STATUS], "column_encoding": {SAMPLE: "DELTA_BINARY_PACKED"}}
        with pa.OSFile(str(path), "wb") as file:
            parquet.write_table(table, file, compression="none", **encoding)
        with path.open("r+b") as file:
            os.fsync(file.fileno())
        placed = folder / f"{name}-{_checksum(_mapped(path))}.parquet"
        path.replace(placed)
    return placed


def written_whole(path: Path, content, exclusive: bool = False) -> None:
    """Write a file such that it is never seen, and survives no loss of power, as a part of itself.

    exclusive: raise `FileExistsError` if there is one.
    """
    with _beside(path) as beside:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not exclusive:
            beside.replace(path)
            return
        try:
            os.link(beside, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if path.exists():
                raise FileExistsError(path) from None
            beside.replace(path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name beside a path that nobody else uses; after all the folder is forced onto the disk, and nothing left there."""
    mine = f"{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"
    beside = path.with_name(f"{UNFINISHED}{path.name}.{mine}")
    try:
        yield beside
    finally:
        beside.unlink(missing_ok=True)
        _sync_folder(path.parent)


def parts_of(folder: Path) -> list[Part]:
    """All parts in the order of their samples; one whose samples are all in others is left out."""
    found = []
    for name in os.listdir(folder):
        match = NAME.fullmatch(name)
        if match:
            found.append((int(match[1]), -int(match[2]), match[3], folder / name))
    parts: list[Part] = []
    covered = 0
    for first, minus_stop, checksum, path in sorted(found):
        if -minus_stop > covered:
            parts.append(Part(first, -minus_stop, checksum, path, max(first, covered)))
            covered = -minus_stop
    return parts


def missing(parts: Sequence[Part], start: int, stop: int) -> list[tuple[int, int]]:
    """The ranges between two samples that are in no part."""
    gaps = []
    for part in parts:
        if start < part.start and start < stop:
            gaps.append((start, min(part.start, stop)))
        start = max(start, part.stop)
    return [*gaps, (start, stop)] if start < stop else gaps


def content_of(part: Part) -> Any:
    """The bytes of a part, which are what was written.

    Raises:
        DamagedPart: they are not.
    """
    content = _mapped(part.path)
    if _checksum(content) != part.checksum:
        raise DamagedPart(f"{part.path.name} is damaged; run the sweep again, and its samples are computed anew")
    return content


def read_part(part: Part, columns: Sequence[str] | None = None):
    """The table of a part, without the samples that are in parts before it."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(pa.BufferReader(content_of(part)), columns=None if columns is None else list(columns))
    return table.slice(part.start - part.first)


def _mapped(path: Path) -> Any:
    """The bytes of a file, which are read when they are looked at."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _checksum(content) -> str:
    return f"{zlib.crc32(content):08x}"


def _sync_folder(folder: Path) -> None:
    """Force onto the disk what files a folder has, where the system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
