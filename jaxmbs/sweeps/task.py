"""What every worker of a sweep does: compute the samples of a range, and store them in parts."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.results import Status
from jaxmbs.programs import content
from jaxmbs.programs.function import Straight
from jaxmbs.programs.sharding import over_devices
from jaxmbs.sweeps.columns import DESIGN, SAMPLE, STATUS, Column, as_table, columns_of
from jaxmbs.sweeps.designs import AbstractDesigns
from jaxmbs.sweeps.parts import missing, parts_of, write_part

# A part is stored when it has so many bytes or has taken so long: what a break costs at most.
PART_BYTES, PART_SECONDS = 48 * 2**20, 20.0
# Batches that are tried, while a larger one is faster by more than this part and takes no more of the memory than that.
FIRST_BATCH, GROWTH, LARGEST_BATCH = 4096, 4, 2**20
WORTH_IT, MEMORY_PART = 0.05, 0.25
# A measure that is called from Python is told from its results: so many designs are tried until one has some.
TRIES = 100

Counts = dict[int, int]


class Stop(Protocol):
    """Something that says whether to stop, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Whether."""


class Rows(NamedTuple):
    """Samples of one batch as arrays (rows, …): the varied leaves of the designs, the results, the status."""

    designs: list[Any]
    results: list[Any]
    status: Any


class Task:
    """A measure and its designs.

    Args:
        measure: design ↦ tree of results. designs: all of them. traced: whether it is compiled, for a batch at once.
    """

    def __init__(self, measure: Callable[[Any], Any], designs: AbstractDesigns, traced: bool = True):
        if not callable(measure):
            raise ValueError(f"measure must be a function of a design, got {measure!r}")
        self.measure, self.designs, self.traced = measure, designs, traced
        self._refused = False
        self._programs: dict[int, Callable] = {}

    # --- what comes out ----------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> list[Column]:
        """Sample, varied parts of the design, results, status."""
        design = self._rows_of_designs(0, 1)
        of_designs = columns_of(jax.tree.map(lambda x: x[0], design), "designs", DESIGN, DESIGN)
        of_designs = [x for x, varied in zip(of_designs, self.designs.varied(), strict=True) if varied]
        results = [x for x in self._results if x.name != STATUS]
        taken = {x.name for x in of_designs} & {x.name for x in results}
        if taken:
            raise ValueError(f"measure: {min(taken)!r} is the name of a part of the design as well")
        ends = Column(SAMPLE, "int64", ()), Column(STATUS, "int32", ())
        return [ends[0], *of_designs, *results, ends[1]]

    @cached_property
    def _results(self) -> list[Column]:
        """The columns of what the measure gives, its own "status" among them."""
        given = self._traced[1] if self.traced else self._first_result
        columns = columns_of(given, "measure", "value")
        for column in columns:
            if column.name.split(".")[0] == DESIGN:
                raise ValueError(f"measure: {column.name!r} is kept for designs; give it another name")
            if column.name == STATUS and not _is_status(column):
                raise ValueError(f"measure: {STATUS!r} must hold whole numbers such as those of mbs.Status")
        return columns

    @property
    def told(self) -> dict[str, Any]:
        """What the measure is, as JSON: its name, and a digest of the operations that it consists of where it is traced."""
        name = getattr(self.measure, "__qualname__", type(self.measure).__qualname__)
        digest = content.digest_of_values(self._traced[0]).hex() if self.traced else None
        return {"name": f"{self.measure.__module__}.{name}", "digest": digest}

    def _rows_of_designs(self, start: int, stop: int) -> Any:
        """Designs in the precision in which JAX computes."""
        exact = lambda x: np.asarray(x, jax.dtypes.canonicalize_dtype(np.asarray(x).dtype))
        return jax.tree.map(exact, self.designs.rows(start, stop))

    # --- a measure that is compiled ----------------------------------------------------------------------------------

    @cached_property
    def _traced(self) -> tuple[Any, Any]:
        """The operations of the measure of one design, and the shapes of its results."""
        design = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self._rows_of_designs(0, 1))
        try:
            return jax.make_jaxpr(_of_arrays(self.measure), return_shape=True)(design)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise ValueError(
                "measure needs the numbers of its design, and cannot be compiled for many at once; give traced=False, and "
                f"it is called for each: {str(error).splitlines()[0]}"
            ) from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"measure: {' '.join(str(error).split())}") from error

    @cached_property
    def _compute(self) -> Any:
        """Designs (rows, …) ↦ results, and the status of each."""
        columns, function = self._results, jax.extend.core.jaxpr_as_fun(self._traced[0])

        def of_one(*leaves):
            results = function(*leaves)
            return results, combined_status(columns, results)

        program = Straight(of_one)
        return jax.jit(jax.vmap(lambda design: program(*jax.tree.leaves(design))))

    def _compiled(self, design: Any) -> Callable[[Any], tuple[list[Any], Any]]:
        """The program for batches of this size, compiled once."""
        rows = len(jax.tree.leaves(design)[0])
        if rows not in self._programs:
            self._programs[rows] = self._compute.lower(design).compile()
        return self._programs[rows]

    def _begin(self, start: int, stop: int, batch: int) -> Rows:
        """Samples that are being computed: the devices may still be at work."""
        design = self._rows_of_designs(start, stop)
        leaves = jax.tree.leaves(design)
        kept = [x for x, varied in zip(leaves, self.designs.varied(), strict=True) if varied]
        if not self.traced:
            return Rows(kept, *self._one_by_one(design, start))
        filled = stop - start
        if filled < batch:
            design = jax.tree.map(lambda x: x[np.minimum(np.arange(batch), filled - 1)], design)
        design = over_devices(design)
        results, status = self._compiled(design)(design)
        return Rows(kept, [x[:filled] for x in results], status[:filled])

    # --- a measure that is called ------------------------------------------------------------------------------------

    @cached_property
    def _first_result(self) -> Any:
        """Results of the first design that has some, as arrays."""
        for k in range(min(TRIES, self.designs.size)):
            try:
                return jax.tree.map(np.asarray, self.measure(self._design(self._rows_of_designs(k, k + 1), 0)))
            except ValueError as error:
                refused = error
        raise ValueError(f"measure: refuses each of the first designs: {refused}")

    @staticmethod
    def _design(designs: Any, k: int) -> Any:
        return jax.tree.map(lambda x: x[k], designs)

    def _one_by_one(self, designs: Any, start: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Results and status of each design; one that is refused has NaN, and 0 where there is none."""
        columns, rows = self._results, []
        expected: Any = jax.tree.structure(self._first_result)
        for k in range(len(jax.tree.leaves(designs)[0])):
            try:
                given = self.measure(self._design(designs, k))
            except ValueError as error:
                if not self._refused:
                    self._refused = True
                    warnings.warn(
                        f"sample {start + k} is refused: {error}; others that are have this status", stacklevel=2
                    )
                empty = [np.full(x.shape, np.nan if np.dtype(x.dtype).kind == "f" else 0, x.dtype) for x in columns]
                rows.append((empty, int(Status.REFUSED)))
                continue
            results = [np.asarray(x) for x in jax.tree.leaves(given)]
            if jax.tree.structure(given) != expected or [x.shape for x in results] != [x.shape for x in columns]:
                told = ", ".join(str(x.shape) for x in results)
                raise ValueError(f"measure gives another shape for sample {start + k} than for others: {told}")
            rows.append((results, int(combined_status(columns, results))))
        stacked = [np.array([row[0][j] for row in rows], x.dtype) for j, x in enumerate(columns)]
        return stacked, np.array([row[1] for row in rows], np.int32)

    # --- parts -------------------------------------------------------------------------------------------------------

    def run(self, folder: Path, start: int, stop: int, batch: int, halt: Stop | None = None) -> Iterator[Counts]:
        """Compute what of these samples is in no part, and store it; after each part how many samples ended how.

        While one part is written the next one is computed. An interrupt, and `halt`, end it with what has been computed
        until then stored.
        """
        with ThreadPoolExecutor(1) as writer:
            waiting: Future | None = None
            for begin, end in missing(parts_of(folder), start, stop):
                for first, arrays in self._in_parts(begin, end, batch, halt):
                    if waiting is not None:
                        yield waiting.result()
                    waiting = writer.submit(_stored, folder, first, self.columns, arrays)
            if waiting is not None:
                yield waiting.result()

    def _in_parts(self, start: int, stop: int, batch: int, halt: Stop | None) -> Iterator[tuple[int, list[np.ndarray]]]:
        """Arrays of all columns, part by part, each with its first sample."""
        most = max(1, PART_BYTES // sum(x.bytes for x in self.columns))
        first, held, began = start, _Held(self, min(most, stop - start)), time.monotonic()
        try:
            for rows in self._batches(start, stop, batch, halt):
                while rows.designs or rows.results:
                    rows = held.take(rows)
                    if held.full or (rows is _NOTHING and time.monotonic() - began > PART_SECONDS):
                        yield first, held.arrays(first)
                        first += held.filled
                        held, began = _Held(self, min(most, stop - first)), time.monotonic()
        except KeyboardInterrupt:
            if held.filled:
                yield first, held.arrays(first)
            raise
        if held.filled:
            yield first, held.arrays(first)

    def _batches(self, start: int, stop: int, batch: int, halt: Stop | None) -> Iterator[Rows]:
        """One batch after the other; the next one is begun before one is handed on."""
        begun: Rows | None = None
        for at in range(start, stop, batch):
            if halt is not None and halt.is_set():
                break
            following = self._begin(at, min(at + batch, stop), batch)
            if begun is not None:
                yield begun
            begun = following
        if begun is not None:
            yield begun

    def best_batch(self) -> int:
        """The batch that is fastest, as far as a few trials tell, and fits into the memory."""
        devices = len(jax.local_devices())
        size, rounded = self.designs.size, lambda n: -(-n // devices) * devices
        if not self.traced:
            return 1
        if size <= FIRST_BATCH:
            return rounded(size)
        batch, best, rate = rounded(FIRST_BATCH), rounded(FIRST_BATCH), 0.0
        while batch <= min(size, LARGEST_BATCH):
            design = over_devices(self._rows_of_designs(0, batch))
            compiled = self._compiled(design)
            if best < batch and _bytes_of(compiled) > MEMORY_PART * _memory():
                break
            # The first run is not measured: it makes the memory of the process grow.
            seconds = [_seconds(compiled, design) for _ in range(3)]
            if batch / min(seconds[1:]) < (1 + WORTH_IT) * rate:
                break
            best, rate = batch, batch / min(seconds[1:])
            batch *= GROWTH
        return best


_NOTHING = Rows([], [], None)


class _Held:
    """Rows of a part that is not complete yet."""

    def __init__(self, task: Task, most: int):
        self.designs = [i for i, x in enumerate(task.columns) if x.name.split(".")[0] == DESIGN]
        self.kept = [j for j, x in enumerate(task._results) if x.name != STATUS]
        self.most, self.filled = most, 0
        self.columns = [np.empty((most, *x.shape), x.dtype) for x in task.columns[1:]]

    @property
    def full(self) -> bool:
        """Whether no row has room any more."""
        return self.filled == self.most

    def take(self, rows: Rows) -> Rows:
        """Copy as many rows as there is room for; returns the others."""
        arrays = [*rows.designs, *(rows.results[j] for j in self.kept), rows.status]
        count = min(self.most - self.filled, len(rows.status))
        for column, array in zip(self.columns, arrays, strict=True):
            column[self.filled : self.filled + count] = np.asarray(array)[:count]
        self.filled += count
        if count == len(rows.status):
            return _NOTHING
        return Rows([x[count:] for x in rows.designs], [x[count:] for x in rows.results], rows.status[count:])

    def arrays(self, first: int) -> list[np.ndarray]:
        """All columns."""
        return [np.arange(first, first + self.filled), *(column[: self.filled] for column in self.columns)]


def combined_status(columns: list[Column], results: list[Any]) -> Any:
    """The status of a sample: the largest of those that its results have; where these are all 0 and a result is not finite,
    that."""
    worst = jnp.asarray(0, jnp.int32)
    finite = jnp.asarray(True)
    for column, value in zip(columns, results, strict=True):
        if _is_status(column):
            worst = jnp.maximum(worst, jnp.max(jnp.asarray(value), initial=0).astype(jnp.int32))
        elif np.dtype(column.dtype).kind == "f":
            finite = finite & jnp.all(jnp.isfinite(jnp.asarray(value)))
    return jnp.where((worst == 0) & ~finite, int(Status.NON_FINITE), worst)


def _is_status(column: Column) -> bool:
    return column.name.split(".")[-1] == STATUS and np.dtype(column.dtype).kind in "iu"


def _of_arrays(measure: Callable) -> Callable:
    """The measure with results that are arrays."""
    return lambda design: jax.tree.map(jnp.asarray, measure(design))


def _stored(folder: Path, first: int, columns: list[Column], arrays: list[np.ndarray]) -> Counts:
    write_part(folder, first, as_table(columns, arrays))
    codes, counts = np.unique(arrays[-1], return_counts=True)
    return dict(zip(codes.tolist(), counts.tolist(), strict=True))


def _seconds(compiled, design) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(compiled(design))
    return time.perf_counter() - begin


def _bytes_of(compiled) -> int:
    """Memory that a call takes, as far as XLA says."""
    with contextlib.suppress(Exception):
        told = compiled.memory_analysis()
        return told.temp_size_in_bytes + told.argument_size_in_bytes + told.output_size_in_bytes
    return 0


def _memory() -> float:
    """Bytes that are free on the devices together, or on the host where it is one of them."""
    devices = jax.local_devices()
    told = [device.memory_stats() for device in devices]
    if all(told):
        return float(sum(x["bytes_limit"] - x["bytes_in_use"] for x in told))
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")
