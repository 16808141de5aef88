"""The folder of a sweep: its manifest, and the locks of the processes that write to it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import secrets
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jaxmbs.sweeps.columns import Column
from jaxmbs.sweeps.parts import UNFINISHED, DamagedPart, Part, content_of, parts_of, write_atomically

# Name of the manifest. Readers of Parquet skip names that begin with "_" or ".".
MANIFEST = "_sweep.json"
# Prefix of the files by which writers lock a range of samples.
LOCK = ".lock-"
# Prefix of the files that exist while a sweep waits for its workers.
RUNNING = ".running-"
# Range of samples in the name of a file.
RANGE = re.compile(r"(\d+)-(\d+)")
# Name of the format of a manifest.
FORMAT = "jaxmbs sweep"
# Version of the format of a manifest.
VERSION = 1
# Packages whose versions the manifest records.
PACKAGES = ("jaxmbs", "jax", "jaxlib", "numpy", "scipy", "pyarrow")
# Keys of a manifest that must be equal for a sweep to continue, and the words of the message if they differ.
COMPARED_KEYS = {"columns": "other results", "designs": "other designs", "measure": "another measure"}


def manifest_of(measure: dict[str, Any], designs: dict[str, Any], columns: list[Column]) -> dict[str, Any]:
    """Return the manifest of a sweep: its description as JSON."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "measure": measure,
        "designs": designs,
        "columns": [{"name": x.name, "dtype": x.dtype, "shape": list(x.shape)} for x in columns],
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }


def stored_columns(folder: str | os.PathLike[str]) -> list[Column]:
    """Return the columns of a store, none if the folder has no store yet."""
    return Store(folder).columns if (Path(folder) / MANIFEST).exists() else []


class Store:
    """A folder with a manifest and parts.

    Attributes:
        folder: the folder.
        manifest: description of the sweep.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        path = self.folder / MANIFEST
        try:
            self.manifest = json.loads(path.read_text("utf-8"))
            stored_format = self.manifest["format"], self.manifest["version"]
            complete = all(key in self.manifest for key in (*COMPARED_KEYS, "versions"))
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(f"{self.folder} is not the store of a sweep: it has no readable {MANIFEST}") from None
        if stored_format != (FORMAT, VERSION) or not complete:
            name, number = stored_format
            raise ValueError(f"{self.folder} holds {name!r} of version {number}, not {FORMAT!r} of {VERSION}")

    @classmethod
    def open_or_create(cls, folder: str | os.PathLike[str], manifest: dict[str, Any]) -> Store:
        """Return the store of the sweep with this manifest, created if the folder is empty or does not exist.

        Raises:
            ValueError: the folder holds other files, another sweep, or a sweep of another version.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file: a store is a folder")
        if not (folder / MANIFEST).exists():
            folder.mkdir(parents=True, exist_ok=True)
            if any(not name.startswith((UNFINISHED, LOCK, RUNNING, MANIFEST)) for name in os.listdir(folder)):
                raise ValueError(f"{folder} has other files and is not the store of a sweep: give another folder")
            # If several processes begin at once, the first one creates it.
            with contextlib.suppress(FileExistsError):
                text = json.dumps(manifest, indent=1, ensure_ascii=False)
                write_atomically(folder / MANIFEST, text.encode(), exclusive=True)
        store = cls(folder)
        store.check(manifest)
        return store

    def check(self, manifest: dict[str, Any]) -> None:
        """Raise `ValueError` with the first difference if the store belongs to another sweep."""
        stored, given = self.manifest["versions"], manifest["versions"]
        if stored["jaxmbs"] != given["jaxmbs"]:
            versions = f"was begun with jaxmbs {stored['jaxmbs']}, this is {given['jaxmbs']}"
            raise ValueError(f"{self.folder} {versions}: give another folder")
        # Another version of JAX may trace the same function differently, so only names of measures are compared.
        other_versions = any(stored.get(package) != given[package] for package in ("python", "jax", "numpy"))
        for key, name in COMPARED_KEYS.items():
            stored, given = self.manifest[key], json.loads(json.dumps(manifest[key]))
            if key == "measure":
                known_by = "name" if other_versions else "digest"
                stored, given = stored[known_by], given[known_by]
            if stored != given:
                where = "" if key == "measure" else _first_difference(stored, given)
                raise ValueError(f"{self.folder} belongs to another sweep, with {name}{where}")

    @property
    def size(self) -> int:
        """Number of designs of the sweep."""
        return int(self.manifest["designs"]["size"])

    @property
    def columns(self) -> list[Column]:
        """Columns of all parts."""
        return [Column(x["name"], x["dtype"], tuple(x["shape"])) for x in self.manifest["columns"]]

    def parts(self) -> list[Part]:
        """Return the parts in the order of their samples."""
        return parts_of(self.folder)

    def damaged(self, start: int = 0, stop: int | None = None) -> list[Part]:
        """Read all parts with samples of a range and return those that are damaged."""
        found = []
        for part in self.parts():
            if part.start < (self.size if stop is None else stop) and part.stop > start:
                try:
                    content_of(part)
                except DamagedPart:
                    found.append(part)
        return found

    def remove_damaged(self, start: int, stop: int) -> None:
        """Delete damaged parts, with a warning for each, then check the parts that they overlapped."""
        while damaged := self.damaged(start, stop):
            for part in damaged:
                warnings.warn(f"{part.path} is damaged: its samples are computed again", stacklevel=4)
                part.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def write_lock(self, start: int, stop: int) -> Iterator[Path]:
        """Lock samples `start` to `stop` − 1 against other writers. The lock ends with the process, however that ends.

        Yields:
            the path of a file that exists as long as the lock. Workers stop when it is gone.

        Raises:
            ValueError: another process writes samples of this range.
        """
        with contextlib.ExitStack() as stack:
            own_lock = f"{LOCK}{start}-{stop}"
            # Take the own lock first: of two processes that begin at once, at least one sees the other.
            free = stack.enter_context(_file_lock(self.folder / own_lock))
            for name in self._files_in_range(LOCK, start, stop):
                if name != own_lock and free:
                    with _file_lock(self.folder / name) as free:
                        pass
            if not free:
                raise ValueError(f"another sweep is writing to {self.folder}")
            for prefix in (RUNNING, UNFINISHED):
                for name in self._files_in_range(prefix, start, stop):
                    (self.folder / name).unlink(missing_ok=True)
            token = self.folder / f"{RUNNING}{start}-{stop}-{secrets.token_hex(4)}"
            token.touch()
            stack.callback(token.unlink, missing_ok=True)
            yield token

    def _files_in_range(self, prefix: str, start: int, stop: int) -> list[str]:
        """Return the files with this prefix whose range of samples, given by their names, overlaps this one."""
        found = []
        for name in os.listdir(self.folder):
            match = RANGE.search(name)
            if name.startswith(prefix) and match and int(match[1]) < stop and int(match[2]) > start:
                found.append(name)
        return sorted(found)


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[bool]:
    """Try to lock a file without waiting; yield True if it is locked."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield True
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError:
            locked = False
        except OSError as error:  # a file system without locks
            warnings.warn(
                f"{path.parent} cannot be locked ({error.strerror}): let one sweep at a time write to it", stacklevel=5
            )
            locked = True
        yield locked


def _first_difference(stored: Any, given: Any) -> str:
    """Return the first difference of two values of JSON, as text."""
    if isinstance(stored, dict) and isinstance(given, dict):
        for key in [*stored, *given]:
            if stored.get(key) != given.get(key):
                return f": {key}{_first_difference(stored.get(key), given.get(key))}"
    if isinstance(stored, list) and isinstance(given, list) and len(stored) == len(given):
        return next(_first_difference(x, y) for x, y in zip(stored, given, strict=True) if x != y)
    short = lambda x: text if len(text := json.dumps(x, ensure_ascii=False)) <= 60 else f"{text[:57]}…"
    return f" is {short(stored)} in the store, {short(given)} in this call"
