"""Facts about programs and their machine code on disk, from one process to the next.

A file is named by the content that it was made from, and begins with a digest of its own, so that one that is damaged
or half written counts as missing. Files are numbers, text as JSON, and machine code; nothing in them is run by Python.
They are read only from a folder that nobody else may write to.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import stat
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

# Environment variable with the folder of the cache, or with one of `OFF`.
VARIABLE = "JAXMBS_CACHE"
# Values of JAXMBS_CACHE that turn the cache off.
OFF = ("off", "0", "false", "no")
# Default upper limit on the size of the cache's folder, in megabytes; beyond it the least recently used files are
# deleted.
MAX_MB = 1024
# Fraction of the limit on the folder's size down to which the least recently used files are deleted.
KEPT_FRACTION = 0.75
# Bytes that a disk must have free for the cache to be written to it.
MIN_FREE_BYTES = 2**20
# Number of files that a process writes to the cache before it checks the size of the folder again.
FILES_PER_TRIM = 64
# First bytes of every file of the cache; a file with others counts as missing.
MAGIC = b"jaxmbs 1"
# Number of bytes, after `MAGIC`, of the digest of a file's content.
DIGEST_BYTES = hashlib.sha256().digest_size
# Packages on which programs or their machine code depend; their versions are part of every key.
PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "llvmlite")


class Store:
    """A folder of files by key.

    If something goes wrong with it, a value counts as missing and is computed again; one warning says why.

    Args:
        folder: created for this user only, if it does not exist.
        limit: bytes that the files may take.

    Attributes:
        usable: True if files are read from the folder: nobody else may write to it.
        writable: True if files are also written to it.
    """

    def __init__(self, folder: Path, limit: int = MAX_MB * 2**20):
        self.folder, self.limit = folder, limit
        self._written = 0
        reason = _reason_not_to_use(folder)
        self.usable = self.writable = reason is None
        if reason is not None:
            _warn(folder, f"is not used: {reason}")
            return
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(MIN_FREE_BYTES))
        except OSError as error:
            self._stop_writing(error)

    def get(self, kind: str, key: bytes) -> bytes | None:
        """Return the value under a key, None if there is none, or if it is damaged or not to be trusted."""
        if not self.usable:
            return None
        path = self._path(kind, key)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                if not _is_private(os.fstat(file.fileno())):
                    return None
                data = file.read()
        except OSError:
            return None
        start = len(MAGIC) + DIGEST_BYTES
        content = data[start:]
        if data[:start] != MAGIC + hashlib.sha256(content).digest():
            self._forget(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, kind: str, key: bytes, content: bytes) -> None:
        """Keep a value: written to another file and moved, so that no process sees a part of it."""
        if not self.writable:
            return
        if self._written % FILES_PER_TRIM == 0:
            self.trim()
        self._written += 1
        temporary = None
        try:
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix="new-", delete=False) as file:
                temporary = Path(file.name)
                file.write(MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(temporary, self._path(kind, key))
        except OSError as error:
            self._stop_writing(error)
            if temporary is not None:
                self._forget(temporary)

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """Return path and status of all files in the folder, the least recently used first."""
        found = []
        for path in self.folder.rglob("*"):
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append((path, status))
        return sorted(found, key=lambda file: max(file[1].st_mtime, file[1].st_atime))

    def trim(self) -> None:
        """Delete the least recently used files down to `KEPT_FRACTION` of the limit, if the folder is above it."""
        files = self.files()
        size = sum(status.st_size for _, status in files)
        if size <= self.limit:
            return
        for path, status in files:
            if size <= KEPT_FRACTION * self.limit:
                return
            self._forget(path)
            size -= status.st_size

    def clear(self) -> int:
        """Delete all files of the cache, and return their number."""
        files = self.files()
        for path, _ in files:
            self._forget(path)
        return len(files)

    def _path(self, kind: str, key: bytes) -> Path:
        """Return the path of the file with the value of a kind under a key."""
        return self.folder / f"{hashlib.sha256(environment() + key).hexdigest()[:40]}.{kind}"

    def _stop_writing(self, error: OSError) -> None:
        """Write nothing from now on, because of an error of writing, with one warning."""
        if self.writable:
            self.writable = False
            _warn(self.folder, f"is not written to: it cannot be written: {error.strerror or error}")

    @staticmethod
    def _forget(path: Path) -> None:
        """Delete a file, if it exists."""
        with contextlib.suppress(OSError):
            path.unlink()


def _is_private(status: os.stat_result) -> bool:
    """Return True if this user owns a file, and nobody else may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _reason_not_to_use(folder: Path) -> str | None:
    """Create a folder that is this user's alone; return the reason why the cache must not use it, or None."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _reason_not_to_trust(folder.resolve())
    except OSError as error:
        return f"it cannot be made: {error.strerror or error}"


def _warn(folder: Path, effect: str) -> None:
    """Warn that a folder is not used as a cache, or not written to, and why."""
    warnings.warn(f"the cache folder {folder} {effect}", stacklevel=3)


def _reason_not_to_trust(folder: Path) -> str | None:
    """Return the reason why machine code must not be loaded from a folder, or None if it may be."""
    if not hasattr(os, "geteuid"):
        return "this system does not tell who may write to it"
    if not _is_private(folder.stat()):
        return "another user owns it or may write to it; its mode should be 700"
    for parent in folder.parents:
        status = parent.stat()
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        if shared or status.st_uid not in (0, os.geteuid()):
            return f"another user may replace {parent}, in which it lies"
    return None


_store: Store | None = None


def active_store() -> Store | None:
    """Return the store of this process, None if nothing is kept on disk."""
    return _store if _store is not None and _store.usable else None


def enable_cache(folder: str | os.PathLike[str] | None = None, *, megabytes: float = MAX_MB) -> Path | None:
    """Keep compiled programs on disk, so that the next process need not make them again.

    It keeps the result of tracing a program, its machine code, and what XLA compiles (by JAX's own compilation cache,
    unless you have set that up yourself). A program is found again by its content: the operations, the rules of
    derivatives, the versions of the packages, the files of this package, the processor. Damaged files are treated as
    missing; several processes may use one folder.

    Args:
        folder: where programs are kept. If it is not given: $JAXMBS_CACHE or, if that is not set, `jaxmbs` in the
            user's cache folder ($XDG_CACHE_HOME or ~/.cache). It is created if it does not exist. JAXMBS_CACHE=off
            turns the cache off, whatever `folder` is.
        megabytes: how much the folder may hold; the files that were used longest ago are deleted first.

    Returns:
        The folder; None if the cache is off, or if the folder cannot be used; then a warning says why, and everything
        works as without a cache.

    Raises:
        ValueError: a size that is not positive.

    Examples:
        >>> mbs.enable_cache(megabytes=200)  # doctest: +SKIP
        PosixPath('/home/me/.cache/jaxmbs')
    """
    global _store
    if not megabytes > 0:
        raise ValueError(f"megabytes must be positive, got {megabytes!r}")
    place = default_folder()
    if place is not None and folder is not None:
        place = Path(folder).expanduser().absolute()
    _store = None if place is None else Store(place, int(megabytes * 2**20))
    kept = active_store()
    if place is None or kept is None:
        return None
    if kept.writable and not jax.config.values.get("jax_compilation_cache_dir"):
        # XLA's code is for this processor.
        own = place / f"xla-{hashlib.sha256(environment() + processor().encode()).hexdigest()[:12]}"
        trouble = _reason_not_to_use(own)
        if trouble is not None:
            _warn(own, f"is not used: {trouble}")
            return place
        jax.config.update("jax_compilation_cache_dir", str(own))
        # If the disk fills later, our own warning is enough; JAX has one for each program.
        warnings.filterwarnings("ignore", message="Error writing persistent compilation cache entry")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        # XLA for GPUs keeps choices of its own there, too, and believes damaged ones.
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
        # A process that has compiled something already would not look at the folder.
        compilation_cache.reset_cache()
    return place


def disable_cache() -> None:
    """Keep nothing on disk from now on. JAX's own compilation cache is left unchanged.

    Examples:
        >>> mbs.disable_cache()  # doctest: +SKIP
    """
    global _store
    _store = None


def default_folder() -> Path | None:
    """Return the folder of the environment: $JAXMBS_CACHE, else in the user's cache folder; None if the cache is off."""
    said = os.environ.get(VARIABLE, "")
    if said.lower() in OFF:
        return None
    if said:
        return Path(said).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser().absolute() / "jaxmbs"


def load_or_compute(kind: str, key: bytes | None, compute: Callable[[], Any]) -> Any:
    """Return the JSON value of a kind stored under a key; compute and store it if there is none. No key: compute it."""
    place = active_store()
    if place is None or key is None:
        return compute()
    found = place.get(kind, key)
    if found is not None:
        return json.loads(found)
    value = compute()
    place.put(kind, key, json.dumps(value).encode())
    return value


def processor() -> str:
    """Return a description of this machine's processor, as far as machine code depends on it."""
    try:
        from llvmlite import binding

        return str(binding.get_host_cpu_name()) + str(binding.get_host_cpu_features().flatten())
    except (ImportError, RuntimeError):
        return platform.processor()


@functools.cache
def environment() -> bytes:
    """Return a digest of the code that makes programs: this package, the packages it needs, Python and the system."""
    package = Path(__file__).parents[2]
    parts = [platform.python_version(), platform.platform(), platform.machine()]
    for name in PACKAGES:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"{name} missing")
    for path in sorted(package.rglob("*.py")):
        status = path.stat()
        parts.append(f"{path.relative_to(package)} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).digest()
