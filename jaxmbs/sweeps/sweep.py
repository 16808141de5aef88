"""`sweep`: evaluate a measure for very many designs and keep the results in a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

from jaxmbs.numerics.results import Status
from jaxmbs.sweeps.batches import StopSignal
from jaxmbs.sweeps.designs import AbstractDesigns, Arrays, check_count
from jaxmbs.sweeps.parts import missing_ranges
from jaxmbs.sweeps.results import Results, counts_by_name
from jaxmbs.sweeps.store import Store, manifest_of, stored_columns
from jaxmbs.sweeps.task import Task
from jaxmbs.sweeps.workers import run_on_workers

# Function report(samples done, samples in all, number of samples by name of status), called after each stored part.
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
    halt: StopSignal | None = None,
) -> Results:
    """Evaluate measure(design) for very many designs and keep the results in a folder.

    All samples of a batch are computed at once by one program, on all devices of this host. Results go to the store in
    parts, files of a few seconds each. The same call continues a sweep that was stopped, also in another process, with
    other batches, or on another machine. Samples that fail are rows with their status. See docs/sweeps.md.

    Args:
        measure: function in jax.numpy of one design, built from anything in this package. It returns a tree of numbers
            and small arrays. Arrays of whole numbers named "status" in it decide the status of the sample.
        designs: a tree of arrays (N, …), or a sampler: `Random`, `LatinHypercube`, `Sobol`, `Grid`, `table(file)` of
            `mbs.sweeps`.
        store: the folder, created if it does not exist.
        batch: number of samples that are computed at once. By default it grows while that is faster.
        executor: any `concurrent.futures.Executor` for the workers: a pool of processes, Dask's
            `client.get_executor()`, one of submitit or mpi4py. Its workers must see the folder. None: this process.
        shard: (k, n), the k-th of n equal parts of the designs, for job arrays; see `merge`.
        traced: False for a measure that needs the numbers of its design, such as `synthesis.path`; it is called for one
            design after the other. Designs for which it raises `ValueError` have the status REFUSED.
        progress: True for a progress bar; or a function, called after every part with samples done, samples in all, and
            counts by name of status.
        halt: an object whose `is_set()` ends the sweep early, such as `threading.Event`.

    Returns:
        the `Results` in the store. They stay there if the disk is full (`OSError`) or workers die (`RuntimeError`).

    Raises:
        ValueError: a measure or designs that cannot be used; a store of another sweep, or one that another sweep
            writes to.
        ImportError: the package `pyarrow` is not installed.

    Examples:
        >>> designs = mbs.sweeps.Sobol({"rod": mbs.sweeps.Uniform(0.9, 2.5)}, size=256)
        >>> def measure(design):
        ...     motion = mbs.kinematics(slider_crank(**design), np.linspace(0.0, 2 * np.pi, 25), guess)
        ...     return {"stroke": jnp.ptp(motion.position("slider.x")), "status": motion.status}
        >>> found = mbs.sweep(measure, designs, store="strokes", progress=False)
        >>> print(found.statuses())  # a rod shorter than 1 does not turn fully
        {'CONVERGED': 240, 'LOCKED_UP': 16}
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("sweeps need pyarrow: pip install pyarrow") from error
    k, n = _check_shard(shard)
    batch = None if batch is None else check_count("batch", batch)
    if not (isinstance(progress, bool) or progress is None or callable(progress)):
        raise ValueError(f"progress must be True, False, or a function, got {progress!r}")
    if executor is not None and not hasattr(executor, "submit"):
        raise ValueError(f"executor must be one such as ProcessPoolExecutor(8), got {executor!r}")
    designs = designs if isinstance(designs, AbstractDesigns) else Arrays(designs)
    task = Task(measure, designs, traced, () if traced else stored_columns(store))
    size = designs.size
    opened = Store.open_or_create(store, manifest_of(task.description, designs.description(), task.columns))
    start, stop = size * (k - 1) // n, size * k // n
    with (
        opened.write_lock(start, stop) as token,
        _progress_report(progress or False) as report,
        _explain_full_disk(opened),
    ):
        opened.remove_damaged(start, stop)
        gaps = missing_ranges(opened.parts(), start, stop)
        done = stop - start - sum(b - a for a, b in gaps)
        counts: Counter = Counter()
        stop_control = _StopControl(halt)
        if executor is None:
            finished = task.run(opened.folder, start, stop, batch, stop_control)
        else:
            finished = run_on_workers(executor, task, token, gaps, batch, stop_control)
        with contextlib.closing(finished) as parts:
            for found in parts:
                counts.update(found)
                done += sum(found.values())
                # Store the computed samples before an error or interrupt of the report is raised.
                with stop_control.deferred_error():
                    report(done, stop - start, counts_by_name(counts))
        if stop_control.error is not None:
            raise stop_control.error
    return Results(opened.folder)


class _StopControl:
    """Stop signal that is set by the user, or by an error that is raised later."""

    def __init__(self, halt: StopSignal | None):
        self.halt = halt
        self.error: BaseException | None = None

    def is_set(self) -> bool:
        """Return True once the sweep should stop: the user's signal is set, or an error waits to be raised."""
        return self.error is not None or (self.halt is not None and self.halt.is_set())

    @contextlib.contextmanager
    def deferred_error(self) -> Iterator[None]:
        """Keep the first exception raised inside; raise any later one."""
        try:
            yield
        except BaseException as error:
            if self.error is not None:
                raise
            self.error = error


def _check_shard(given) -> tuple[int, int]:
    """Return (k, n) as ints with 1 ≤ k ≤ n, or raise `ValueError`."""
    try:
        k, n = (check_count("shard", x) for x in given)
    except (TypeError, ValueError):
        k, n = 1, 0
    if k > n:
        raise ValueError(f"shard must be (k, n) with k from 1 to n, got {given!r}")
    return k, n


@contextlib.contextmanager
def _explain_full_disk(store: Store) -> Iterator[None]:
    """Add to errors of a full disk the number of samples that are stored."""
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
def _progress_report(progress: bool | Report) -> Iterator[Report]:
    """Yield the function to call after each part: the user's, that of a progress bar, or one that does nothing."""
    if not isinstance(progress, bool):
        yield progress
    elif not progress:
        yield lambda done, total, counts: None
    else:
        from jaxmbs.viz.progress import ProgressBar

        began = time.monotonic()

        def caption(counts: dict[str, int]) -> str:
            """Return the text beside the progress bar: samples per second and the fraction of each failed status."""
            total = sum(counts.values())
            failed = [f"{name} {count / total:.2%}" for name, count in counts.items() if name != Status.CONVERGED.name]
            return ", ".join([f"{total / (time.monotonic() - began):,.0f}/s", *(failed or ["all CONVERGED"])])

        with contextlib.closing(ProgressBar("sweep", "samples", caption)) as bar:
            yield bar
