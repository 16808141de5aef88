"""The folder of a sweep: what is asked for, in a manifest; and who writes to it."""

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
from jaxmbs.sweeps.parts import UNFINISHED, DamagedPart, Part, content_of, parts_of, written_whole

# Readers of Parquet pass over names that begin like these.
MANIFEST, LOCK, RUNNING = "_sweep.json", ".lock-", ".running-"
RANGE = re.compile(r"(\d+)-(\d+)")
FORMAT, VERSION = "jaxmbs sweep", 1
# Whose versions are told; of another version of the first the same numbers are not expected.
PACKAGES = ("jaxmbs", "jax", "jaxlib", "numpy", "scipy", "pyarrow")
# What of a manifest must be the same, and how it is called.
SAME = {"columns": "other results", "designs": "other designs", "measure": "another measure"}


def manifest_of(measure: dict[str, Any], designs: dict[str, Any], columns: list[Column]) -> dict[str, Any]:
    """What a sweep is, as JSON."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "measure": measure,
        "designs": designs,
        "columns": [{"name": x.name, "dtype": x.dtype, "shape": list(x.shape)} for x in columns],
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }


def known_columns(folder: str | os.PathLike[str]) -> list[Column]:
    """The columns of a store, none where there is none yet."""
    return Store(folder).columns if (Path(folder) / MANIFEST).exists() else []


class Store:
    """A folder with a manifest and parts.

    Attributes:
        folder: the folder. manifest: what is in it.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        path = self.folder / MANIFEST
        try:
            self.manifest = json.loads(path.read_text("utf-8"))
            held = self.manifest["format"], self.manifest["version"]
            whole = all(key in self.manifest for key in (*SAME, "versions"))
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(f"{self.folder} is not the store of a sweep: it has no readable {MANIFEST}") from None
        if held != (FORMAT, VERSION) or not whole:
            raise ValueError(f"{self.folder} holds {held[0]!r} of version {held[1]}, not {FORMAT!r} of {VERSION}")

    @classmethod
    def opened(cls, folder: str | os.PathLike[str], manifest: dict[str, Any]) -> Store:
        """The store of this sweep, made if it is not there.

        Raises:
            ValueError: the folder holds something else, another sweep, or that of another version.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file: a store is a folder")
        if not (folder / MANIFEST).exists():
            folder.mkdir(parents=True, exist_ok=True)
            if any(not name.startswith((UNFINISHED, LOCK, RUNNING, MANIFEST)) for name in os.listdir(folder)):
                raise ValueError(f"{folder} is not the store of a sweep, and not empty: give another folder")
            # Of several that begin at once the first one makes it.
            with contextlib.suppress(FileExistsError):
                text = json.dumps(manifest, indent=1, ensure_ascii=False)
                written_whole(folder / MANIFEST, text.encode(), exclusive=True)
        store = cls(folder)
        store.check(manifest)
        return store

    def check(self, manifest: dict[str, Any]) -> None:
        """Raise `ValueError` if the store is of another sweep, saying what differs."""
        mine, theirs = (x["versions"]["jaxmbs"] for x in (self.manifest, manifest))
        if mine != theirs:
            raise ValueError(f"{self.folder} was begun with jaxmbs {mine}, this is {theirs}: give another folder")
        # Another version of JAX may trace the same function in another way.
        others = any(self.manifest["versions"].get(x) != manifest["versions"][x] for x in ("python", "jax", "numpy"))
        for key, name in SAME.items():
            held, given = self.manifest[key], json.loads(json.dumps(manifest[key]))
            if key == "measure":
                # What is known by its operations may have any name.
                told = "name" if others else "digest"
                held, given = held[told], given[told]
            if held != given:
                where = "" if key == "measure" else _where(held, given)
                raise ValueError(f"{self.folder} belongs to another sweep, with {name}{where}")

    @property
    def size(self) -> int:
        """How many samples were asked for."""
        return int(self.manifest["designs"]["size"])

    @property
    def columns(self) -> list[Column]:
        """The columns of all parts."""
        return [Column(x["name"], x["dtype"], tuple(x["shape"])) for x in self.manifest["columns"]]

    def parts(self) -> list[Part]:
        """The parts that are there."""
        return parts_of(self.folder)

    def damaged(self, start: int = 0, stop: int | None = None) -> list[Part]:
        """Parts with any of these samples that are not what was written: all of their bytes are read."""
        found = []
        for part in self.parts():
            if part.start < (self.size if stop is None else stop) and part.stop > start:
                try:
                    content_of(part)
                except DamagedPart:
                    found.append(part)
        return found

    def remove_damaged(self, start: int, stop: int) -> None:
        """Remove damaged parts, with a warning for each; what they hid is looked at as well."""
        while damaged := self.damaged(start, stop):
            for part in damaged:
                warnings.warn(f"{part.path} is damaged: its samples are computed again", stacklevel=4)
                part.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def written(self, start: int, stop: int) -> Iterator[Path]:
        """Nobody else writes these samples while this lasts: the lock ends with the process, however that ends.

        Returns the path of a file that is there as long: workers that find it gone have nobody who waits for them.

        Raises:
            ValueError: somebody does.
        """
        with contextlib.ExitStack() as held:
            mine = f"{LOCK}{start}-{stop}"
            # One's own first, so that of two that begin at once at least one sees the other.
            free = held.enter_context(_locked(self.folder / mine))
            for name in self._of_range(LOCK, start, stop):
                if name != mine and free:
                    with _locked(self.folder / name) as free:
                        pass
            if not free:
                raise ValueError(f"another sweep is writing to {self.folder}")
            for prefix in (RUNNING, UNFINISHED):
                for name in self._of_range(prefix, start, stop):
                    (self.folder / name).unlink(missing_ok=True)
            token = self.folder / f"{RUNNING}{start}-{stop}-{secrets.token_hex(4)}"
            token.touch()
            held.callback(token.unlink, missing_ok=True)
            yield token

    def _of_range(self, prefix: str, start: int, stop: int) -> list[str]:
        """Files whose name tells a range of samples that has some of these."""
        found = []
        for name in os.listdir(self.folder):
            match = RANGE.search(name)
            if name.startswith(prefix) and match and int(match[1]) < stop and int(match[2]) > start:
                found.append(name)
        return sorted(found)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether a lock could be had at once, which is held then."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield True
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            got = True
        except BlockingIOError:
            got = False
        except OSError as error:  # a file system without locks
            warnings.warn(
                f"{path.parent} cannot be locked ({error.strerror}): write to it once at a time", stacklevel=5
            )
            got = True
        yield got


def _where(held: Any, given: Any) -> str:
    """The first place at which two values of JSON differ."""
    if isinstance(held, dict) and isinstance(given, dict):
        for key in [*held, *given]:
            if held.get(key) != given.get(key):
                return f": {key}{_where(held.get(key), given.get(key))}"
    if isinstance(held, list) and isinstance(given, list) and len(held) == len(given):
        return next(_where(x, y) for x, y in zip(held, given, strict=True) if x != y)
    short = lambda x: text if len(text := json.dumps(x, ensure_ascii=False)) <= 60 else f"{text[:57]}…"
    return f" is {short(held)} there, {short(given)} here"
