"""The front door: a measure of very many designs, in a store that outlives the process."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from jaxmbs.numerics.results import Status
from jaxmbs.sweeps.batches import Stop
from jaxmbs.sweeps.designs import as_designs, count_of
from jaxmbs.sweeps.parts import missing
from jaxmbs.sweeps.results import Results
from jaxmbs.sweeps.status import named
from jaxmbs.sweeps.store import Store, known_columns, manifest_of
from jaxmbs.sweeps.task import Counts, Task
from jaxmbs.sweeps.workers import by_workers

# report(samples done, samples in all, how many ended how).
Report = Callable[[int, int, dict[str, int]], None]


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
    parts, files of a few seconds each. A sweep that was stopped resumes when it is called again: in another process,
    with other batches, on another machine. Samples that fail are rows with their status. See docs/sweeps.md.

    Args:
        measure: design ↦ tree of numbers and small arrays: a function in jax.numpy of one design, built from anything
            of this package. Arrays of whole numbers named "status" in it decide the status of the sample.
        designs: a tree of arrays (N, …), or a sampler: `Random`, `LatinHypercube`, `Sobol`, `Grid`, `table(file)` of
            `mbs.sweeps`.
        store: the folder, made if it is not there.
        batch: samples that are computed at once. By default it grows while that is faster.
        executor: what runs the workers, any `concurrent.futures.Executor`: of processes, Dask's
            `client.get_executor()`, one of submitit or mpi4py. Its workers have to see the folder. None: this process.
        shard: (k, n), the k-th of n equal parts of the designs, for job arrays; see `merge`.
        traced: False for a measure that needs the numbers of its design, such as `synthesis.path`; it is called for one
            design after the other. One for which it raises `ValueError` has the status REFUSED.
        progress: whether to show a bar; or a function, called after every part with samples done, samples in all, and
            counts by name of status.
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
    k, n = _shard(shard)
    batch = None if batch is None else count_of("batch", batch)
    if not (isinstance(progress, bool) or progress is None or callable(progress)):
        raise ValueError(f"progress must be True, False, or a function, got {progress!r}")
    if executor is not None and not hasattr(executor, "submit"):
        raise ValueError(f"executor must be one such as ProcessPoolExecutor(8), got {executor!r}")
    task = Task(measure, as_designs(designs), traced, () if traced else known_columns(store))
    size = task.designs.size
    opened = Store.opened(store, manifest_of(task.told, task.designs.told(), task.columns))
    start, stop = size * (k - 1) // n, size * k // n
    with opened.written(start, stop) as token, _shown(progress or False) as report, _disk_full_told(opened):
        opened.remove_damaged(start, stop)
        gaps = missing(opened.parts(), start, stop)
        done = stop - start - sum(b - a for a, b in gaps)
        counts: Counter = Counter()
        halts = _Halts(halt)
        if executor is None:
            share = _here(task, opened.folder, gaps, batch, halts)
        else:
            share = by_workers(executor, task, token, gaps, batch, halts)
        with contextlib.closing(share) as parts:
            for found in parts:
                counts.update(found)
                done += sum(found.values())
                # What is computed is stored before an error of the report, or an interrupt of it, is raised.
                with halts.first():
                    report(done, stop - start, named(counts))
        halts.raised()
    return Results(opened.folder)


def _here(task: Task, folder: Path, gaps, batch: int | None, halt: Stop) -> Generator[Counts, None, None]:
    """How many samples of each finished part ended how, as they come."""
    for start, stop in gaps:
        if not halt.is_set():
            yield from task.run(folder, start, stop, batch, halt)


class _Halts:
    """Whether to stop: the user says so, or something was raised that waits for its turn."""

    def __init__(self, halt: Stop | None):
        self.halt = halt
        self.error: BaseException | None = None

    def is_set(self) -> bool:
        """Whether."""
        return self.error is not None or (self.halt is not None and self.halt.is_set())

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Keep what is raised for later, the first time."""
        try:
            yield
        except BaseException as error:
            if self.error is not None:
                raise
            self.error = error

    def raised(self) -> None:
        """Raise it."""
        if self.error is not None:
            raise self.error


def _shard(given) -> tuple[int, int]:
    try:
        k, n = (count_of("shard", x) for x in given)
    except (TypeError, ValueError):
        k, n = 1, 0
    if k > n:
        raise ValueError(f"shard must be (k, n) with k from 1 to n, got {given!r}")
    return k, n


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
            total = sum(counts.values())
            failed = [f"{name} {count / total:.2%}" for name, count in counts.items() if name != Status.CONVERGED.name]
            return ", ".join([f"{total / (time.monotonic() - began):,.0f}/s", *(failed or ["all CONVERGED"])])

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
