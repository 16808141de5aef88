"""The samples of a sweep shared out over the workers of an executor."""

from __future__ import annotations

import contextlib
import errno
import pickle
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxmbs.sweeps.batches import FIRST_BATCH, Stop
from jaxmbs.sweeps.task import Counts, Task

# The largest number of ranges; ranges under way for each worker, and in all where an executor does not say how many workers
# it has; how often a range is tried whose worker was lost.
MAX_RANGES, UNDER_WAY, UNDER_WAY_UNKNOWN, MAX_ATTEMPTS = 1000, 2, 64, 3
# Seconds between two looks at futures, and at whether to stop.
LOOKS = 0.2


class Range(NamedTuple):
    """Samples for a worker, and how many times they were given to one."""

    start: int
    stop: int
    attempt: int = 1


class Failed(NamedTuple):
    """An error of the measure or of the disk, which another worker would meet as well."""

    error: Exception


def by_workers(
    executor: Executor, task: Task, token: Path, gaps, batch: int | None, halt: Stop
) -> Generator[Counts, None, None]:
    """How many samples of each finished range ended how, as they come.

    Workers stop after a batch when `token` is gone.

    Raises:
        ValueError: the task cannot be sent to workers.
        RuntimeError: a worker was lost.
    """
    payload, exact = _pickled(task), bool(jax.config.read("jax_enable_x64"))
    workers = getattr(executor, "_max_workers", None)
    most = UNDER_WAY * workers if isinstance(workers, int) else UNDER_WAY_UNKNOWN
    waiting = _ranges(gaps, batch, most)[::-1]
    under_way: dict[Any, Range] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < most and not halt.is_set():
                one = waiting.pop()
                try:
                    future = executor.submit(work, payload, str(token.resolve()), one.start, one.stop, batch, exact)
                except Exception as error:  # executors raise anything
                    raise _lost(one, error) from error
                under_way[future] = one
            if not under_way:
                return
            if halt.is_set():
                token.unlink(missing_ok=True)
                for future in under_way:
                    future.cancel()
            for future in _done(under_way):
                one = under_way.pop(future)
                try:
                    found = future.result()
                except CancelledError:
                    continue
                except BrokenExecutor as error:
                    raise _lost(one, error) from error
                except Exception as error:
                    if one.attempt == MAX_ATTEMPTS:
                        raise _lost(one, error) from error
                    waiting.append(one._replace(attempt=one.attempt + 1))
                    continue
                if isinstance(found, Failed):
                    raise found.error
                yield found
    finally:
        # What still runs ends after its batch; nobody else may begin before.
        token.unlink(missing_ok=True)
        for future in under_way:
            future.cancel()
        for future in under_way:
            with contextlib.suppress(Exception):
                future.result()


def _ranges(gaps, batch: int | None, least: int) -> list[Range]:
    """Ranges, of whole batches where these are given."""
    total = sum(stop - start for start, stop in gaps)
    count = max(least, min(MAX_RANGES, total // (batch or FIRST_BATCH)))
    length = max(1, -(-total // count))
    length = -(-length // batch) * batch if batch else length
    return [Range(a, min(a + length, stop)) for start, stop in gaps for a in range(start, stop, length)]


def _done(under_way: dict[Any, Range]) -> list[Any]:
    """Futures that have ended since, perhaps none."""
    if all(isinstance(future, Future) for future in under_way):
        return list(wait(under_way, LOOKS, FIRST_COMPLETED).done)
    # Jobs of submitit can only be asked.
    done = [future for future in under_way if future.done()]
    if not done:
        time.sleep(LOOKS)
    return done


def _lost(one: Range, error: BaseException) -> RuntimeError:
    told = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    samples = f"samples {one.start} to {one.stop - 1}"
    return RuntimeError(f"a worker was lost with {samples}: {told}. What is stored stays; run the sweep again to go on")


def work(payload: bytes, token: str, start: int, stop: int, batch: int | None, exact: bool) -> Counts | Failed:
    """Compute a range and store it beside `token`, in whatever process this runs; returns how many ended how."""
    counts: Counter = Counter()
    with jax.enable_x64(exact):
        try:
            for found in _task(payload, exact).run(Path(token).parent, start, stop, batch, _Unwanted(Path(token))):
                counts.update(found)
        except Exception as error:
            if isinstance(error, OSError) and error.errno not in (
                errno.ENOSPC,
                errno.EDQUOT,
                errno.EACCES,
                errno.EROFS,
            ):
                raise
            return Failed(_sendable(error))
    return dict(counts)


class _Unwanted:
    """Whether nobody waits for a worker any more."""

    def __init__(self, token: Path):
        self.token = token

    def is_set(self) -> bool:
        """Whether the file is gone."""
        return not self.token.exists()


def _pickled(task: Task) -> bytes:
    try:
        return _pickler().dumps((task.measure, task.designs, task.traced, task.columns))
    except Exception as error:  # pickles raise anything
        raise ValueError(
            f"measure and designs must be such that they can be sent to workers: {' '.join(str(error).split())}"
        ) from error


def _pickler() -> Any:
    """cloudpickle, which knows functions that no module has, where it is installed."""
    try:
        import cloudpickle
    except ImportError:
        return pickle
    return cloudpickle


@lru_cache(maxsize=2)
def _task(payload: bytes, exact: bool) -> Task:
    """The task of a worker, which is compiled once for a precision."""
    del exact
    return Task(*pickle.loads(payload))


def _sendable(error: Exception) -> Exception:
    """The error, or its text where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
