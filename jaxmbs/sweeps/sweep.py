"""The front door: a measure of very many designs, in a store that outlives the process."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax

from jaxmbs.sweeps.designs import as_designs
from jaxmbs.sweeps.parts import missing
from jaxmbs.sweeps.results import Results
from jaxmbs.sweeps.status import named
from jaxmbs.sweeps.store import Store, manifest_of
from jaxmbs.sweeps.task import Counts, Stop, Task

# report(samples done, samples in all, how many ended how).
Report = Callable[[int, int, dict[str, int]], None]
# A range for a worker is a thousandth of all, of whole batches. So many are under way for each worker, and so many where
# an executor does not say how many it has. A range whose worker was lost is given to another one so many times.
RANGES, UNDER_WAY, UNDER_WAY_UNKNOWN, MAX_ATTEMPTS = 1000, 2, 256, 3


def sweep(
    measure: Callable[[Any], Any],
    designs: Any,
    *,
    store: str | os.PathLike[str],
    batch: int | None = None,
    executor: Executor | None = None,
    shard: tuple[int, int] = (1, 1),
    traced: bool = True,
    progress: bool | Report = True,
    halt: Stop | None = None,
) -> Results:
    """measure(design) for each of very many designs, kept in a folder: what is stored is never computed again.

    All samples of a batch are computed at once by one program, on all devices of this host. Results go to the store in
    parts, files of a few seconds each. A sweep that was stopped, by whatever it was, goes on where it was when it is
    called again: in another process, with other batches, on another machine. Samples that fail are rows with their
    status. See docs/sweeps.md.

    Args:
        measure: design ↦ tree of numbers and small arrays: a function in jax.numpy of one design, built from anything
            of this package. Arrays of whole numbers named "status" in it decide the status of the sample.
        designs: a tree of arrays (N, …), or a sampler: `Random`, `LatinHypercube`, `Sobol`, `Grid`, `table(file)` of
            `mbs.sweeps`.
        store: the folder, made if it is not there.
        batch: samples that are computed at once. Found by a few trials unless given.
        executor: who computes, any `concurrent.futures.Executor`: of processes, Dask's `client.get_executor()`, one of
            submitit, mpi4py or Ray. Its workers have to see the folder. None: this process.
        shard: (k, n), the k-th of n equal parts of the designs, for job arrays; see `merge`.
        traced: False for a measure that needs the numbers of its design, such as `synthesis.path`; it is called for one
            design after the other. One for which it raises `ValueError` has the status REFUSED.
        progress: whether to show a bar; or a function, called after every part with samples done, samples in all, and
            how many ended how, by name.
        halt: something whose `is_set()` ends the sweep early, such as `threading.Event`.

    Returns:
        `Results`: what is in the store.

    Raises:
        ValueError: a measure or designs that cannot be used; a store that holds something else, or that another sweep
            is writing to.
        OSError: the disk is full or cannot be written to. What is stored stays.
        RuntimeError: a worker died, again and again. What is stored stays.

    Examples:
        >>> designs = mbs.sweeps.Sobol({"rod": mbs.sweeps.Uniform(0.9, 2.5)}, size=256)
        >>> def measure(design):
        ...     motion = mbs.kinematics(slider_crank(**design), np.linspace(0.0, 2 * np.pi, 25), guess)
        ...     return {"stroke": jnp.ptp(motion.position("slider.x")), "status": motion.status}
        >>> found = mbs.sweep(measure, designs, store="strokes", progress=False)
        >>> print(found.statuses())  # a rod of less than 1 does not go round
        {'CONVERGED': 240, 'LOCKED_UP': 16}
    """
    _need_pyarrow()
    k, n = shard
    if not (isinstance(k, int) and isinstance(n, int) and 1 <= k <= n):
        raise ValueError(f"shard must be (k, n) with k from 1 to n, got {shard}")
    if batch is not None and (isinstance(batch, bool) or int(batch) != batch or batch < 1):
        raise ValueError(f"batch must be a positive whole number, got {batch!r}")
    task = Task(measure, as_designs(designs), traced)
    size = task.designs.size
    opened = Store.opened(store, manifest_of(task.told, task.designs.told(), task.columns))
    start, stop = size * (k - 1) // n, size * k // n
    with opened.written_by(shard), _shown(progress) as report:
        _remove_damaged(opened, start, stop)
        gaps = missing(opened.parts(), start, stop)
        done = stop - start - sum(b - a for a, b in gaps)
        counts: Counter = Counter()
        if gaps:
            batch = task.best_batch() if batch is None else batch
            share = _share(task, opened.folder, gaps, batch, executor, halt)
            with _disk_full_told(opened), contextlib.closing(share) as parts:
                for found in parts:
                    counts.update(found)
                    done += sum(found.values())
                    report(done, stop - start, named(counts))
    return Results(opened.folder)


def _share(
    task: Task, folder: Path, gaps, batch: int, executor: Executor | None, halt: Stop | None
) -> Generator[Counts, None, None]:
    """How many samples of each finished part ended how, as they come."""
    if executor is not None:
        yield from _by_workers(executor, task, folder, gaps, batch, halt)
        return
    for start, stop in gaps:
        if halt is None or not halt.is_set():
            yield from task.run(folder, start, stop, batch, halt)


# --- workers ----------------------------------------------------------------------------------------------------------


def _by_workers(executor: Executor, task: Task, folder: Path, gaps, batch: int, halt: Stop | None) -> Iterator[Counts]:
    """Ranges by an executor's workers; one whose worker was lost is tried again."""
    payload = _pickled(task)
    length = batch * max(1, -(-sum(b - a for a, b in gaps) // (RANGES * batch)))
    waiting = [(a, min(a + length, stop), 1) for start, stop in gaps for a in range(start, stop, length)][::-1]
    workers = getattr(executor, "_max_workers", None)
    most = UNDER_WAY * workers if isinstance(workers, int) else UNDER_WAY_UNKNOWN
    under_way: dict[Future, tuple[int, int, int]] = {}
    exact = bool(jax.config.read("jax_enable_x64"))
    try:
        while waiting or under_way:
            while waiting and len(under_way) < most and (halt is None or not halt.is_set()):
                a, b, attempt = waiting.pop()
                under_way[_submit(executor, payload, str(folder.resolve()), a, b, batch, exact)] = a, b, attempt
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                a, b, attempt = under_way.pop(future)
                error = future.exception()
                if error is None:
                    yield future.result()
                elif isinstance(error, (ValueError, OSError)):
                    raise error
                elif isinstance(error, BrokenExecutor) or attempt == MAX_ATTEMPTS:
                    raise _lost(a, b, error) from error
                else:
                    waiting.append((a, b, attempt + 1))
    finally:
        for future in under_way:
            future.cancel()


def _submit(executor: Executor, payload: bytes, folder: str, a: int, b: int, batch: int, exact: bool) -> Future:
    try:
        return executor.submit(work, payload, folder, a, b, batch, exact)
    except (BrokenExecutor, RuntimeError) as error:
        raise _lost(a, b, error) from error


def _lost(start: int, stop: int, error: BaseException) -> RuntimeError:
    told = " ".join(str(error).split()) or type(error).__name__
    return RuntimeError(
        f"a worker was lost with samples {start} to {stop - 1}: {told}. What is stored stays; run the sweep again to go on"
    )


def work(payload: bytes, folder: str, start: int, stop: int, batch: int, exact: bool) -> Counts:
    """Compute a range and store it, in whatever process this runs; returns how many samples ended how."""
    counts: Counter = Counter()
    with jax.enable_x64(exact):
        for found in _unpickled(payload).run(Path(folder), start, stop, batch):
            counts.update(found)
    return dict(counts)


def _pickled(task: Task) -> bytes:
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    try:
        return pickler.dumps((task.measure, task.designs, task.traced))
    except Exception as error:  # pickles raise anything
        raise ValueError(
            f"measure and designs must be such that they can be sent to workers: {' '.join(str(error).split())}"
        ) from error


@lru_cache(maxsize=2)
def _unpickled(payload: bytes) -> Task:
    """The task of a worker, which is compiled once."""
    return Task(*pickle.loads(payload))


# --- around it --------------------------------------------------------------------------------------------------------


def _remove_damaged(store: Store, start: int, stop: int) -> None:
    for part in store.damaged(start, stop):
        warnings.warn(f"{part.path} is damaged: its samples are computed again", stacklevel=3)
        part.path.unlink(missing_ok=True)


@contextlib.contextmanager
def _disk_full_told(store: Store) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        done = sum(part.stop - part.start for part in store.parts())
        raise OSError(
            error.errno,
            f"the disk is full with {done} of {store.size} samples stored; make room and run the sweep again to go on",
            str(store.folder),
        ) from None


@contextlib.contextmanager
def _shown(progress: bool | Report) -> Iterator[Report]:
    if not isinstance(progress, bool):
        yield progress
    elif not progress:
        yield lambda done, total, counts: None
    else:
        from jaxmbs.viz.progress import ProgressBar

        began = time.monotonic()

        def told(counts: dict[str, int]) -> str:
            rate = sum(counts.values()) / (time.monotonic() - began)
            return ", ".join([f"{rate:.3g} per second", *(f"{name} {count}" for name, count in counts.items())])

        bar = ProgressBar("sweep", "samples", told)
        try:
            yield bar
        finally:
            bar.close()


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("sweeps need pyarrow: pip install pyarrow") from error
