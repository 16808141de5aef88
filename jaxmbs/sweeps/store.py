"""The folder of a sweep: what is asked for, in a manifest; and who writes to it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jaxmbs.sweeps.columns import Column
from jaxmbs.sweeps.parts import UNFINISHED, DamagedPart, Part, content_of, parts_of, written_whole

MANIFEST, LOCK = "sweep.json", ".lock"
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
        "versions": {name: version(name) for name in PACKAGES},
    }


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
            known = self.manifest["format"] == FORMAT
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(f"{self.folder} is not the store of a sweep: it has no readable {MANIFEST}") from None
        if not known or self.manifest["version"] > VERSION:
            held = f"{self.manifest['format']!r} of version {self.manifest['version']}"
            raise ValueError(f"{self.folder} holds {held}, not {FORMAT!r} of {VERSION}")

    @classmethod
    def opened(cls, folder: str | os.PathLike[str], manifest: dict[str, Any]) -> Store:
        """The store of this sweep, made if it is not there.

        Raises:
            ValueError: the folder holds something else, another sweep, or that of another version.
        """
        folder = Path(folder)
        if not (folder / MANIFEST).exists():
            folder.mkdir(parents=True, exist_ok=True)
            if any(not name.startswith((UNFINISHED, LOCK, MANIFEST)) for name in os.listdir(folder)):
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
        others = any(self.manifest["versions"][name] != manifest["versions"][name] for name in ("jax", "numpy"))
        for key, name in SAME.items():
            held, given = self.manifest[key], json.loads(json.dumps(manifest[key]))
            if key == "measure":
                # What is known by its operations may have any name.
                told = "name" if others or None in (held["digest"], given["digest"]) else "digest"
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

    @contextlib.contextmanager
    def written_by(self, shard: tuple[int, int]) -> Iterator[None]:
        """Nobody else writes this shard, (k, n), while this lasts: the lock ends with the process, however that ends.

        Raises:
            ValueError: somebody does.
        """
        k, n = shard
        with contextlib.ExitStack() as held:
            locks = [(LOCK, n == 1)] + [(f"{LOCK}-{k}-of-{n}", True)] * (n > 1)
            for name, exclusive in locks:
                if not held.enter_context(_locked(self.folder / name, exclusive)):
                    raise ValueError(f"another sweep is writing to {self.folder}")
            if n == 1:
                for path in self.folder.glob(f"{UNFINISHED}*"):
                    path.unlink(missing_ok=True)
            yield


@contextlib.contextmanager
def _locked(path: Path, exclusive: bool) -> Iterator[bool]:
    """Whether a lock could be had at once, which is held then."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield True
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            got = True
        except BlockingIOError:
            got = False
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
