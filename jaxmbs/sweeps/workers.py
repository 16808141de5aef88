"""Distribution of the samples of a sweep over the workers of an executor."""

from __future__ import annotations

import contextlib
import errno
import importlib
import pickle
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxmbs.sweeps.batches import FIRST_BATCH, StopSignal
from jaxmbs.sweeps.task import Counts, Task

# Samples are divided into at most this many ranges, or as many as are submitted at a time if that is more.
MAX_RANGES = 1000
# Ranges submitted at a time for each worker.
RANGES_PER_WORKER = 2
# Ranges submitted at a time if the executor does not tell its number of workers.
RANGES_UNKNOWN_WORKERS = 64
# A range whose worker was lost is tried at most this many times.
MAX_ATTEMPTS = 3
# Numbers of the errors of a disk that any other worker would meet too: full, over the quota, or not writable.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)
# Seconds between two checks of futures and of the stop signal.
POLL_SECONDS = 0.2


class Range(NamedTuple):
    """Range of samples for a worker, and the number of attempts to compute it."""

    start: int
    stop: int
    attempt: int = 1


class Failure(NamedTuple):
    """Error of the measure or of the disk, which any other worker would raise too."""

    error: Exception


def run_on_workers(
    executor: Executor, task: Task, token: Path, gaps, batch: int | None, halt: StopSignal
) -> Generator[Counts, None, None]:
    """Compute ranges of samples on the workers of an executor and yield counts by status of each finished range."""
    payload, x64 = _pickle_task(task), bool(jax.config.read("jax_enable_x64"))
    workers = getattr(executor, "_max_workers", None)
    max_submitted = RANGES_PER_WORKER * workers if isinstance(workers, int) else RANGES_UNKNOWN_WORKERS
    waiting = _divide_gaps(gaps, batch, max_submitted)[::-1]
    under_way: dict[Any, Range] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < max_submitted and not halt.is_set():
                chunk = waiting.pop()
                try:
                    future = executor.submit(
                        run_range, payload, str(token.resolve()), chunk.start, chunk.stop, batch, x64
                    )
                except Exception as error:  # executors raise anything
                    raise _lost_worker_error(chunk, error) from error
                under_way[future] = chunk
            if not under_way:
                return
            if halt.is_set():
                token.unlink(missing_ok=True)
                for future in under_way:
                    future.cancel()
            for future in _finished_futures(under_way):
                chunk = under_way.pop(future)
                try:
                    found = future.result()
                except CancelledError:
                    continue
                except BrokenExecutor as error:
                    raise _lost_worker_error(chunk, error) from error
                except Exception as error:
                    if chunk.attempt == MAX_ATTEMPTS:
                        raise _lost_worker_error(chunk, error) from error
                    waiting.append(chunk._replace(attempt=chunk.attempt + 1))
                    continue
                if isinstance(found, Failure):
                    raise found.error
                yield found
    finally:
        # Running workers end after their batch. No other sweep may begin before that.
        token.unlink(missing_ok=True)
        for future in under_way:
            future.cancel()
        for future in under_way:
            with contextlib.suppress(Exception):
                future.result()


def _divide_gaps(gaps, batch: int | None, min_count: int) -> list[Range]:
    """Divide gaps, ranges of missing samples, into `min_count` ranges or more, of whole batches if `batch` is given."""
    total = sum(stop - start for start, stop in gaps)
    count = max(min_count, min(MAX_RANGES, total // (batch or FIRST_BATCH)))
    length = max(1, -(-total // count))
    length = -(-length // batch) * batch if batch else length
    return [Range(a, min(a + length, stop)) for start, stop in gaps for a in range(start, stop, length)]


def _finished_futures(under_way: dict[Any, Range]) -> list[Any]:
    """Wait a moment and return the futures that have ended, perhaps none."""
    if all(isinstance(future, Future) for future in under_way):
        return list(wait(under_way, POLL_SECONDS, FIRST_COMPLETED).done)
    # Jobs of submitit can only be polled.
    done = [future for future in under_way if future.done()]
    if not done:
        time.sleep(POLL_SECONDS)
    return done


def _lost_worker_error(chunk: Range, error: BaseException) -> RuntimeError:
    """Return the error to raise for a lost worker."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    samples = f"samples {chunk.start} to {chunk.stop - 1}"
    return RuntimeError(
        f"a worker was lost with {samples}: {reason}. Stored samples are kept; run the sweep again to continue"
    )


def run_range(payload: bytes, token: str, start: int, stop: int, batch: int | None, x64: bool) -> Counts | Failure:
    """Return the counts by status of a range of samples after computing and storing it, in a worker.

    `payload` is the pickled task. `token` is a file in the folder of the store; the worker stops once it is gone. `x64` is
    True if JAX computes in double precision.
    """
    counts: Counter = Counter()
    with jax.enable_x64(x64):
        try:
            for found in _task(payload, x64).run(Path(token).parent, start, stop, batch, _TokenGone(Path(token))):
                counts.update(found)
        except Exception as error:
            if isinstance(error, OSError) and error.errno not in DISK_ERRORS:
                raise
            return Failure(_picklable_error(error))
    return dict(counts)


class _TokenGone:
    """Stop signal of a worker: the file of its sweep is gone."""

    def __init__(self, token: Path):
        self.token = token

    def is_set(self) -> bool:
        """Return True once the file is gone."""
        return not self.token.exists()


def _pickle_task(task: Task) -> bytes:
    """Return the pickled arguments of a task, or raise `ValueError`."""
    pickler: Any = pickle
    with contextlib.suppress(ImportError):  # cloudpickle also pickles functions that are defined in no module
        pickler = importlib.import_module("cloudpickle")
    try:
        return pickler.dumps((task.measure, task.designs, task.traced, task.columns))
    except Exception as error:  # pickles raise anything
        raise ValueError(
            f"measure and designs must be picklable to be sent to workers: {' '.join(str(error).split())}"
        ) from error


@lru_cache(maxsize=2)
def _task(payload: bytes, x64: bool) -> Task:
    """Return the task of a worker from its pickled arguments, the same object again for the same precision."""
    del x64
    return Task(*pickle.loads(payload))


def _picklable_error(error: Exception) -> Exception:
    """Return the error, or one with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
