"""What every worker of a sweep does: compute the samples of a range, and store them in parts."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
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
from jaxmbs.sweeps.batches import Batches, Stop
from jaxmbs.sweeps.columns import DESIGN, SAMPLE, STATUS, Column, as_table, columns_of
from jaxmbs.sweeps.designs import AbstractDesigns
from jaxmbs.sweeps.identity import identity
from jaxmbs.sweeps.parts import missing, parts_of, write_part

# A part is stored when it has this size or has taken this long: what a break costs at most.
PART_BYTES, PART_SECONDS = 48 * 2**20, 20.0
# A measure with larger arrays than a straight-line program should have is computed by array code.
MAX_SCALARS = 50_000
# A measure that Python calls shows its columns in its first result: designs that are tried for one.
TRIES = 100

Counts = dict[int, int]


class Rows(NamedTuple):
    """Samples of one batch as arrays (rows, …): the varied leaves of the designs, the results, the status. The first
    `filled` rows count."""

    designs: list[Any]
    results: list[Any]
    status: Any
    filled: int

    def cut(self, rows: slice) -> Rows:
        """Some of the rows, as arrays of NumPy: XLA would compile something for each number of them."""
        some = lambda x: np.asarray(x)[: self.filled][rows]
        status = some(self.status)
        return Rows([some(x) for x in self.designs], [some(x) for x in self.results], status, len(status))

    @property
    def arrays(self) -> list[Any]:
        """All columns but the number of the sample."""
        return [*self.designs, *self.results, self.status]


class Task:
    """A measure and its designs.

    Args:
        measure: design ↦ tree of results. designs: all of them. traced: whether it is compiled, for a batch at once.
        known: the columns of a store that is there, of which those of results are taken where the measure is called.
    """

    def __init__(self, measure: Callable, designs: AbstractDesigns, traced: bool = True, known: Sequence[Column] = ()):
        if not callable(measure):
            raise ValueError(f"measure must be a function of a design, got {measure!r}")
        self.measure, self.designs, self.traced, self._known = measure, designs, traced, tuple(known)
        self._refused = False
        self.batches = Batches(self._compiled, self._designs, designs.size) if traced else None

    @cached_property
    def columns(self) -> list[Column]:
        """Sample, what varies in the design, results, status."""
        design = jax.tree.map(lambda x: x[0], self._designs(0, 1))
        of_designs = [
            x for x, kept in zip(columns_of(design, "designs", DESIGN, DESIGN), self._varied, strict=True) if kept
        ]
        return [Column(SAMPLE, "int64", ()), *of_designs, *self._stored, Column(STATUS, "int32", ())]

    @cached_property
    def _varied(self) -> list[bool]:
        """Which leaves of a design have a column. An array without entries has none."""
        leaves = jax.tree.leaves(self._designs(0, 1))
        return [varied and x.size > 0 for varied, x in zip(self.designs.varied(), leaves, strict=True)]

    @cached_property
    def _stored(self) -> list[Column]:
        """The columns of results."""
        if self._known:
            return [x for x in self._known if x.name not in (SAMPLE, STATUS) and x.name.split(".")[0] != DESIGN]
        return [x for x in (self._given if self.traced else self._first_given()) if _has_column(x)]

    @cached_property
    def _given(self) -> list[Column]:
        """What the measure gives, a "status" of the sample itself among it."""
        return _checked(columns_of(self._traced[1], "measure", "value"))

    def _first_given(self) -> list[Column]:
        """What a measure gives that is called: for the first of some designs that it does not refuse."""
        refused: Exception | None = None
        for k in np.unique(np.linspace(0, self.designs.size - 1, TRIES).astype(int)).tolist():
            try:
                return _checked(columns_of(self._called(self._designs(k, k + 1), 0), "measure", "value"))
            except _Refused as error:
                refused = error
        raise ValueError(f"measure refuses each of the designs that were tried: {refused}")

    @property
    def told(self) -> dict[str, Any]:
        """What the measure is, as JSON: its name, and a digest of its operations, or of its code where it is called."""
        inner = getattr(self.measure, "func", self.measure)  # of a partial function
        name = getattr(inner, "__qualname__", type(inner).__qualname__)
        digest = digest_of_values(self._traced[0], identity).hex() if self.traced else identity(self.measure)
        return {"name": name, "digest": digest}

    def _designs(self, start: int, stop: int) -> Any:
        """Designs in the precision in which JAX computes."""
        return jax.tree.map(_exact, self.designs.rows(start, stop))

    @cached_property
    def _traced(self) -> tuple[Any, Any]:
        """The operations of the measure of one design, and the shapes of its results."""
        design = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self._designs(0, 1))
        try:
            return jax.make_jaxpr(_of_arrays(self.measure), return_shape=True)(design)
        except NOT_TRACEABLE as error:
            raise ValueError(
                "measure needs the numbers of its design, so it cannot be compiled for many at once. Write it in "
                "jax.numpy, or give traced=False, and it is called for one design after the other: "
                f"{str(error).splitlines()[0]}"
            ) from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"measure: {' '.join(str(error).split())}") from error

    def _compiled(self, design: Any) -> Any:
        """The program for batches of this size: designs ↦ results, and the status of each."""
        return self._compute.lower(design).compile()

    @cached_property
    def _compute(self) -> Any:
        columns, closed = self._given, self._traced[0]
        function = jax.extend.core.jaxpr_as_fun(closed)

        def of_one(*leaves):
            results = function(*leaves)
            kept = [x for column, x in zip(columns, results, strict=True) if _has_column(column)]
            return kept, combined_status(columns, results, jnp)

        program = (
            ProgramWithFallback(of_one) if estimate_operations(closed.jaxpr, loops=False) <= MAX_SCALARS else of_one
        )
        return jax.jit(jax.vmap(lambda design: program(*jax.tree.leaves(design))))

    def _begin(self, start: int, stop: int, batch: int) -> Rows:
        """Samples that are being computed: the devices may still be at work."""
        design = self._designs(start, stop)
        kept = [x for x, varied in zip(jax.tree.leaves(design), self._varied, strict=True) if varied]
        if self.batches is None:
            results, status = self._one_by_one(design, start)
        else:
            filled = np.minimum(np.arange(batch), stop - start - 1)
            design = jax.tree.map(lambda x: x[filled], design) if batch > stop - start else design
            results, status = self.batches.program(batch)(shard_over_devices(design))
        return Rows(kept, results, status, stop - start)

    def _called(self, designs: Any, k: int) -> Any:
        """The results of one design."""
        try:
            return jax.tree.map(np.asarray, self.measure(jax.tree.map(lambda x: x[k], designs)))
        except ValueError as error:
            raise _Refused(*error.args) from error

    def _one_by_one(self, designs: Any, start: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Results and status of each design; one that is refused has NaN, and 0 where there is none."""
        columns, rows = self._stored, []
        for k in range(len(jax.tree.leaves(designs)[0])):
            try:
                given = self._called(designs, k)
            except _Refused as error:
                if not self._refused:
                    self._refused = True
                    warnings.warn(f"sample {start + k} is refused, as others may be: {error}", stacklevel=2)
                empty = [np.full(x.shape, np.nan if np.dtype(x.dtype).kind == "f" else 0, x.dtype) for x in columns]
                rows.append((empty, int(Status.REFUSED)))
                continue
            own, results = _checked(columns_of(given, "measure", "value")), jax.tree.leaves(given)
            kept = [k for k, column in enumerate(own) if _has_column(column)]
            self._check_same([own[k] for k in kept], start + k)
            rows.append(([results[k] for k in kept], int(combined_status(own, results, np))))
        stacked = [np.array([row[0][j] for row in rows], x.dtype) for j, x in enumerate(columns)]
        return stacked, np.array([row[1] for row in rows], np.int32)

    def _check_same(self, given: Sequence[Column], sample: int) -> None:
        """Raise `ValueError` for results that do not fit into the columns of others."""
        told = lambda columns: ", ".join(f"{x.name} {x.dtype}{list(x.shape) or ''}" for x in columns) or "nothing"
        fits = len(given) == len(self._stored) and all(
            x.name == y.name and x.shape == y.shape and np.can_cast(x.dtype, y.dtype, "same_kind")
            for x, y in zip(given, self._stored, strict=True)
        )
        if not fits:
            raise ValueError(f"measure gives {told(given)} for sample {sample}, and {told(self._stored)} for others")

    def run(
        self, folder: Path, start: int, stop: int, batch: int | None = None, halt: Stop | None = None
    ) -> Iterator[Counts]:
        """Compute what of these samples is in no part, and store it; after each part how many samples ended how.

        While one part is written the next one is computed. An error, an interrupt, and `halt`, end it with what has been
        computed until then stored.
        """
        with ThreadPoolExecutor(1) as writer:
            waiting: Future | None = None
            for begin, end in missing(parts_of(folder), start, stop):
                for first, arrays in self._in_parts(begin, end, batch, halt):
                    write = partial(_stored, folder, first, self.columns, arrays)
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

    def _in_parts(
        self, start: int, stop: int, batch: int | None, halt: Stop | None
    ) -> Iterator[tuple[int, list[list[np.ndarray]]]]:
        """Pieces of all columns, part by part, each with its first sample."""
        most = max(1, PART_BYTES // sum(x.bytes for x in self.columns))
        held, began = _Held(start, min(most, stop - start)), time.monotonic()
        try:
            for rows in self._batches(start, stop, batch, halt):
                left: Rows | None = rows
                while left is not None:
                    left = held.take(left)
                    if held.full or time.monotonic() - began > PART_SECONDS:
                        yield held.first, held.arrays()
                        first = held.first + held.filled
                        held, began = _Held(first, min(most, stop - first)), time.monotonic()
        except GeneratorExit:
            raise
        except BaseException:
            if held.filled:
                yield held.first, held.arrays()
            raise
        if held.filled:
            yield held.first, held.arrays()

    def _batches(self, start: int, stop: int, batch: int | None, halt: Stop | None) -> Iterator[Rows]:
        """One batch after the other; the next one is begun before one is handed on."""
        begun: list[Rows] = []
        try:
            while start < stop and not (halt is not None and halt.is_set()):
                size, timed = (1, False) if self.batches is None else self.batches.next(stop - start, batch)
                began, end = time.perf_counter(), min(start + size, stop)
                begun.append(self._begin(start, end, size))
                if self.batches is not None and timed:
                    jax.block_until_ready(begun[-1].results)
                    self.batches.took(size, time.perf_counter() - began)
                start = end
                if len(begun) > (self.batches is not None):
                    yield begun.pop(0)
        except GeneratorExit:
            raise
        except BaseException:
            yield from begun
            raise
        yield from begun


class _Refused(ValueError):
    """A `ValueError` of the measure itself."""


class _Held:
    """Rows of a part that is not complete yet, from a first sample on; nothing is copied."""

    def __init__(self, first: int, most: int):
        self.first, self.most, self.filled = first, most, 0
        self.pieces: list[Rows] = []

    @property
    def full(self) -> bool:
        """Whether no row has room any more."""
        return self.filled == self.most

    def take(self, rows: Rows) -> Rows | None:
        """Take as many rows as there is room for; returns the others."""
        count = min(self.most - self.filled, rows.filled)
        self.pieces.append(rows.cut(slice(count)))
        self.filled += count
        return rows.cut(slice(count, None)) if count < rows.filled else None

    def arrays(self) -> list[list[np.ndarray]]:
        """The pieces of each column."""
        ends = np.cumsum([self.first, *(rows.filled for rows in self.pieces)])
        samples = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
        return [samples, *map(list, zip(*(rows.arrays for rows in self.pieces), strict=True))]


def combined_status(columns: Sequence[Column], results: Sequence[Any], xp: Any) -> Any:
    """The status of a sample: that of its results which is furthest from 0, or NON_FINITE where all are 0 and one is not.

    xp: NumPy or `jax.numpy`.
    """
    worst, finite = xp.asarray(0), xp.asarray(True)
    for column, value in zip(columns, results, strict=True):
        if _is_status(column) and column.bytes:
            ends = np.iinfo(np.int32)
            least, most = (xp.clip(f(value), ends.min + 1, ends.max).astype(np.int32) for f in (xp.min, xp.max))
            own = xp.where(most >= -least, most, least)
            worst = xp.where(abs(own) > abs(worst), own, worst)
        elif np.dtype(column.dtype).kind == "f":
            finite = finite & xp.all(xp.isfinite(value))
    return xp.where((worst == 0) & ~finite, int(Status.NON_FINITE), worst).astype(np.int32)


def _exact(x: np.ndarray) -> np.ndarray:
    """Designs as JAX takes them; whole numbers that do not fit are refused."""
    kind = jax.dtypes.canonicalize_dtype(x.dtype)
    if kind != x.dtype and kind.kind in "iu" and x.size:
        ends = np.iinfo(kind)
        if x.min() < ends.min or x.max() > ends.max:
            raise ValueError(
                f"designs: there are whole numbers beyond {kind}; enable x64, or give them as real numbers"
            )
    return np.asarray(x, kind)


def _has_column(result: Column) -> bool:
    """Whether it is stored as it is: the status of the sample is stored with others; an array without entries is not."""
    return result.name != STATUS and result.bytes > 0


def _is_status(column: Column) -> bool:
    return column.name.split(".")[-1] == STATUS and np.dtype(column.dtype).kind in "iu"


def _checked(columns: list[Column]) -> list[Column]:
    """Columns of results, with names that are free."""
    for column in columns:
        if column.name.split(".")[0] == DESIGN:
            raise ValueError(f"measure: {column.name!r} is kept for designs; give it another name")
        if column.name == STATUS and not _is_status(column):
            raise ValueError(f"measure: {STATUS!r} must hold whole numbers such as those of mbs.Status")
    return columns


def _of_arrays(measure: Callable) -> Callable:
    """The measure with results that are arrays."""
    return lambda design: jax.tree.map(jnp.asarray, measure(design))


def _stored(folder: Path, first: int, columns: Sequence[Column], arrays: list[list[np.ndarray]]) -> Counts:
    write_part(folder, first, as_table(columns, arrays))
    codes, counts = np.unique(np.concatenate(arrays[-1]), return_counts=True)
    return dict(zip(codes.tolist(), counts.tolist(), strict=True))
