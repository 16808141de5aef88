"""The task of every worker of a sweep: compute a range of samples and store them in parts."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.arrays import NOT_TRACEABLE
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback, digest_of_values, estimate_operations, shard_over_devices
from jaxmbs.sweeps.batches import Batches, StopSignal
from jaxmbs.sweeps.columns import DESIGN, SAMPLE, STATUS, Column, as_table, columns_of
from jaxmbs.sweeps.designs import AbstractDesigns
from jaxmbs.sweeps.identity import identity
from jaxmbs.sweeps.parts import missing_ranges, parts_of, write_part

# A part is stored once it has this many bytes: an interruption loses at most one part.
PART_BYTES = 48 * 2**20
# A part is stored after this many seconds even if it is smaller than `PART_BYTES`.
PART_SECONDS = 20.0
# Measures with more scalar operations run as array code instead of a straight-line program.
MAX_SCALARS = 50_000
# Most designs that are tried to learn the columns of a measure that is not traced; if it refuses all of them the sweep
# fails.
MAX_TRIALS = 100

# Number of samples by the value of their status.
Counts = dict[int, int]


class Rows(NamedTuple):
    """Samples of one batch as arrays (rows, …): varied leaves of the designs, results, status.

    Only the first `filled` rows are samples; the others pad the batch.
    """

    designs: list[Any]
    results: list[Any]
    status: Any
    filled: int

    def cut(self, rows: slice) -> Rows:
        """Return some of the rows as NumPy arrays: JAX would compile a program for each number of rows."""
        some = lambda x: np.asarray(x)[: self.filled][rows]
        status = some(self.status)
        return Rows([some(x) for x in self.designs], [some(x) for x in self.results], status, len(status))

    @property
    def arrays(self) -> list[Any]:
        """All columns except the number of the sample."""
        return [*self.designs, *self.results, self.status]


class Task:
    """A measure and its designs.

    Args:
        measure: function from a design to a tree of results.
        designs: all designs of the sweep.
        traced: True to trace the measure and compile it for a batch; False to call it for each design.
        stored_columns: the columns of an existing store, which save a first call of a measure that is not traced.
    """

    def __init__(
        self, measure: Callable, designs: AbstractDesigns, traced: bool = True, stored_columns: Sequence[Column] = ()
    ):
        if not callable(measure):
            raise ValueError(f"measure must be a function of a design, got {measure!r}")
        self.measure, self.designs, self.traced, self._stored_columns = measure, designs, traced, tuple(stored_columns)
        self._refusal_reported = False
        compiled = lambda design: self._compute.lower(design).compile()
        self.batches = Batches(compiled, self._designs, designs.size) if traced else None

    @cached_property
    def columns(self) -> list[Column]:
        """Columns of the store: sample, varied leaves of the design, results, status."""
        design = jax.tree.map(lambda x: x[0], self._designs(0, 1))
        all_of_design = columns_of(design, "designs", DESIGN, DESIGN)
        of_designs = [x for x, kept in zip(all_of_design, self._has_column_of_design, strict=True) if kept]
        return [Column(SAMPLE, "int64", ()), *of_designs, *self._result_columns, Column(STATUS, "int32", ())]

    @cached_property
    def _has_column_of_design(self) -> list[bool]:
        """True for each leaf of a design that has a column: it varies and is not empty."""
        leaves = jax.tree.leaves(self._designs(0, 1))
        return [varied and x.size > 0 for varied, x in zip(self.designs.varied(), leaves, strict=True)]

    @cached_property
    def _result_columns(self) -> list[Column]:
        """Columns of the results, without the status of the sample."""
        if self._stored_columns:
            return [
                x for x in self._stored_columns if x.name not in (SAMPLE, STATUS) and x.name.split(".")[0] != DESIGN
            ]
        return [x for x in (self._measured_columns if self.traced else self._columns_by_trial()) if _has_column(x)]

    @cached_property
    def _measured_columns(self) -> list[Column]:
        """Columns of all leaves that the traced measure returns, with its own "status" if there is one."""
        return _check_names(columns_of(self._jaxpr_and_shapes[1], "measure", "value"))

    def _columns_by_trial(self) -> list[Column]:
        """Return the columns of a measure that is not traced, from the first design that it does not refuse."""
        refused: Exception | None = None
        for k in np.unique(np.linspace(0, self.designs.size - 1, MAX_TRIALS).astype(int)).tolist():
            try:
                return _check_names(columns_of(self._call(self._designs(k, k + 1), 0), "measure", "value"))
            except _RefusedByMeasure as error:
                refused = error
        raise ValueError(f"measure refuses all designs that were tried: {refused}")

    @property
    def description(self) -> dict[str, Any]:
        """Name of the measure, and a digest of its operations, or of its code if it is not traced; as JSON."""
        inner = getattr(self.measure, "func", self.measure)  # of a partial function
        name = getattr(inner, "__qualname__", type(inner).__qualname__)
        digest = digest_of_values(self._jaxpr_and_shapes[0], identity).hex() if self.traced else identity(self.measure)
        return {"name": name, "digest": digest}

    def _designs(self, start: int, stop: int) -> Any:
        """Return designs `start` to `stop` − 1 in the precision of JAX."""
        return jax.tree.map(_in_jax_precision, self.designs.rows(start, stop))

    @cached_property
    def _jaxpr_and_shapes(self) -> tuple[Any, Any]:
        """Jaxpr of the measure of one design, and the shapes of its results."""
        design = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self._designs(0, 1))
        try:
            with_arrays = lambda design: jax.tree.map(jnp.asarray, self.measure(design))
            return jax.make_jaxpr(with_arrays, return_shape=True)(design)
        except NOT_TRACEABLE as error:
            raise ValueError(
                "measure needs the numbers of its design, so it cannot be traced. Write it in jax.numpy, "
                "or give traced=False to call it for one design after the other: "
                f"{str(error).splitlines()[0]}"
            ) from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"measure: {' '.join(str(error).split())}") from error

    @cached_property
    def _compute(self) -> Any:
        """Jitted function from a batch of designs to their results and statuses."""
        columns, closed = self._measured_columns, self._jaxpr_and_shapes[0]
        function = jax.extend.core.jaxpr_as_fun(closed)

        def of_one(*leaves):
            """Return results with a column of their own, and the status, of one design given by its leaves."""
            results = function(*leaves)
            kept = [x for column, x in zip(columns, results, strict=True) if _has_column(column)]
            return kept, combined_status(columns, results, jnp)

        is_small = estimate_operations(closed.jaxpr, loops=False) <= MAX_SCALARS
        program = ProgramWithFallback(of_one) if is_small else of_one
        return jax.jit(jax.vmap(lambda design: program(*jax.tree.leaves(design))))

    def _launch(self, start: int, stop: int, batch: int) -> Rows:
        """Start to compute samples `start` to `stop` − 1, padded to `batch`; the arrays may still be in computation."""
        design = self._designs(start, stop)
        kept = [x for x, varied in zip(jax.tree.leaves(design), self._has_column_of_design, strict=True) if varied]
        if self.batches is None:
            results, status = self._compute_one_by_one(design, start)
        else:
            padded = np.minimum(np.arange(batch), stop - start - 1)
            design = jax.tree.map(lambda x: x[padded], design) if batch > stop - start else design
            results, status = self.batches.program(batch)(shard_over_devices(design))
        return Rows(kept, results, status, stop - start)

    def _call(self, designs: Any, k: int) -> Any:
        """Call the untraced measure with design k of a batch; its `ValueError` is raised as `_RefusedByMeasure`."""
        try:
            return jax.tree.map(np.asarray, self.measure(jax.tree.map(lambda x: x[k], designs)))
        except ValueError as error:
            raise _RefusedByMeasure(*error.args) from error

    def _compute_one_by_one(self, designs: Any, start: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Return results and statuses of designs, the first of which is sample `start`, by one call of the measure each.

        Results of designs that the measure refuses are NaN, or 0 in columns of integers.
        """
        columns, rows = self._result_columns, []
        for k in range(len(jax.tree.leaves(designs)[0])):
            try:
                given = self._call(designs, k)
            except _RefusedByMeasure as error:
                if not self._refusal_reported:
                    self._refusal_reported = True
                    warnings.warn(f"measure refuses sample {start + k}, and perhaps others: {error}", stacklevel=2)
                empty = [np.full(x.shape, np.nan if np.dtype(x.dtype).kind == "f" else 0, x.dtype) for x in columns]
                rows.append((empty, int(Status.REFUSED)))
                continue
            own, results = _check_names(columns_of(given, "measure", "value")), jax.tree.leaves(given)
            kept = [k for k, column in enumerate(own) if _has_column(column)]
            self._check_columns([own[k] for k in kept], start + k)
            rows.append(([results[k] for k in kept], int(combined_status(own, results, np))))
        stacked = [np.array([row[0][j] for row in rows], x.dtype) for j, x in enumerate(columns)]
        return stacked, np.array([row[1] for row in rows], np.int32)

    def _check_columns(self, given: Sequence[Column], sample: int) -> None:
        """Raise `ValueError` if the results of a sample do not fit into the columns."""
        listed = lambda columns: ", ".join(f"{x.name} {x.dtype}{list(x.shape) or ''}" for x in columns) or "nothing"
        fits = len(given) == len(self._result_columns) and all(
            x.name == y.name and x.shape == y.shape and np.can_cast(x.dtype, y.dtype, "same_kind")
            for x, y in zip(given, self._result_columns, strict=True)
        )
        if not fits:
            raise ValueError(
                f"measure returns {listed(given)} for sample {sample}, and {listed(self._result_columns)} for others"
            )

    def run(
        self, folder: Path, start: int, stop: int, batch: int | None = None, halt: StopSignal | None = None
    ) -> Generator[Counts, None, None]:
        """Compute the samples `start` to `stop` − 1 that are in no part of a folder, and store them there.

        One part is written while the next one is computed. After an error, an interrupt or `halt` the samples computed
        so far are stored.

        Args:
            folder: folder of the store.
            start: first sample.
            stop: last sample + 1.
            batch: number of samples computed at once; None to tune it.
            halt: signal to stop after the current batch.

        Yields:
            the number of samples of each status, for each finished part.

        Raises:
            KeyboardInterrupt: after the part in progress is stored.
        """
        with ThreadPoolExecutor(1) as writer:
            waiting: Future | None = None
            for begin, end in missing_ranges(parts_of(folder), start, stop):
                for first, arrays in self._compute_parts(begin, end, batch, halt):
                    write = partial(_write_columns, folder, first, self.columns, arrays)
                    try:
                        counts = None if waiting is None else waiting.result()
                    except KeyboardInterrupt:
                        writer.submit(write)
                        raise
                    waiting = writer.submit(write)
                    if counts is not None:
                        yield counts
            if waiting is not None:
                yield waiting.result()

    def _compute_parts(
        self, start: int, stop: int, batch: int | None, halt: StopSignal | None
    ) -> Iterator[tuple[int, list[list[np.ndarray]]]]:
        """Yield the first sample of each part, and its columns as lists of arrays."""
        max_rows = max(1, PART_BYTES // sum(x.bytes for x in self.columns))
        part, began = _OpenPart(start, min(max_rows, stop - start)), time.monotonic()
        try:
            for rows in self._compute_batches(start, stop, batch, halt):
                remaining: Rows | None = rows
                while remaining is not None:
                    remaining = part.take(remaining)
                    if part.full or time.monotonic() - began > PART_SECONDS:
                        yield part.first, part.arrays()
                        first = part.first + part.filled
                        part, began = _OpenPart(first, min(max_rows, stop - first)), time.monotonic()
        except GeneratorExit:
            raise
        except BaseException:
            if part.filled:
                yield part.first, part.arrays()
            raise
        if part.filled:
            yield part.first, part.arrays()

    def _compute_batches(self, start: int, stop: int, batch: int | None, halt: StopSignal | None) -> Iterator[Rows]:
        """Yield one batch after the other; the next one is started before a batch is yielded."""
        launched: list[Rows] = []
        try:
            while start < stop and not (halt is not None and halt.is_set()):
                size, timed = (1, False) if self.batches is None else self.batches.next(stop - start, batch)
                began, end = time.perf_counter(), min(start + size, stop)
                launched.append(self._launch(start, end, size))
                if self.batches is not None and timed:
                    jax.block_until_ready(launched[-1].results)
                    self.batches.record_time(size, time.perf_counter() - began)
                start = end
                if len(launched) > (self.batches is not None):
                    yield launched.pop(0)
        except GeneratorExit:
            raise
        except BaseException:
            yield from launched
            raise
        yield from launched


class _RefusedByMeasure(ValueError):
    """`ValueError` raised by the measure itself."""


class _OpenPart:
    """Rows of a part that is not complete yet; nothing is copied."""

    def __init__(self, first: int, max_rows: int):
        self.first, self.max_rows, self.filled = first, max_rows, 0
        self.pieces: list[Rows] = []

    @property
    def full(self) -> bool:
        """True once the part has its largest number of rows."""
        return self.filled == self.max_rows

    def take(self, rows: Rows) -> Rows | None:
        """Add as many rows as fit and return the others, or None."""
        count = min(self.max_rows - self.filled, rows.filled)
        self.pieces.append(rows.cut(slice(count)))
        self.filled += count
        return rows.cut(slice(count, None)) if count < rows.filled else None

    def arrays(self) -> list[list[np.ndarray]]:
        """Return each column as a list of arrays."""
        ends = np.cumsum([self.first, *(rows.filled for rows in self.pieces)])
        samples = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
        return [samples, *map(list, zip(*(rows.arrays for rows in self.pieces), strict=True))]


def combined_status(columns: Sequence[Column], results: Sequence[Any], xp: Any) -> Any:
    """Return the status of a sample as int32: the status among its results, one per column, that is furthest from 0.

    If all of them are 0 and a number is not finite it is NON_FINITE. `xp` is NumPy or `jax.numpy`.
    """
    worst, finite = xp.asarray(0), xp.asarray(True)
    for column, value in zip(columns, results, strict=True):
        if _is_status(column) and column.bytes:
            bounds = np.iinfo(np.int32)
            least, most = (xp.clip(f(value), bounds.min + 1, bounds.max).astype(np.int32) for f in (xp.min, xp.max))
            own = xp.where(most >= -least, most, least)
            worst = xp.where(abs(own) > abs(worst), own, worst)
        elif np.dtype(column.dtype).kind == "f":
            finite = finite & xp.all(xp.isfinite(value))
    return xp.where((worst == 0) & ~finite, int(Status.NON_FINITE), worst).astype(np.int32)


def _in_jax_precision(x: np.ndarray) -> np.ndarray:
    """Return an array with the dtype that JAX uses; raise `ValueError` for whole numbers that do not fit."""
    kind = jax.dtypes.canonicalize_dtype(x.dtype)
    if kind != x.dtype and kind.kind in "iu" and x.size:
        bounds = np.iinfo(kind)
        if x.min() < bounds.min or x.max() > bounds.max:
            raise ValueError(f"designs: whole numbers do not fit into {kind}; enable x64, or give them as real numbers")
    return np.asarray(x, kind)


def _has_column(result: Column) -> bool:
    """Return True unless a result is empty, or is the status of the sample, which has its own column."""
    return result.name != STATUS and result.bytes > 0


def _is_status(column: Column) -> bool:
    """Return True for a column of whole numbers whose last name is "status"."""
    return column.name.split(".")[-1] == STATUS and np.dtype(column.dtype).kind in "iu"


def _check_names(columns: list[Column]) -> list[Column]:
    """Return columns of results after a check that no name is reserved."""
    for column in columns:
        if column.name.split(".")[0] == DESIGN:
            raise ValueError(f"measure: the name {column.name!r} is reserved for designs; choose another name")
        if column.name == STATUS and not _is_status(column):
            raise ValueError(f"measure: {STATUS!r} must hold whole numbers such as those of mbs.Status")
    return columns


def _write_columns(folder: Path, first: int, columns: Sequence[Column], arrays: list[list[np.ndarray]]) -> Counts:
    """Write a part and return the number of its samples of each status."""
    write_part(folder, first, as_table(columns, arrays))
    codes, counts = np.unique(np.concatenate(arrays[-1]), return_counts=True)
    return dict(zip(codes.tolist(), counts.tolist(), strict=True))
