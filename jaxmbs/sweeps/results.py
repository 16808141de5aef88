"""What a store holds: arrays, tables, counts, quantiles."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.results import Status
from jaxmbs.sweeps.columns import SAMPLE, STATUS, Column, as_array, schema
from jaxmbs.sweeps.designs import mixed
from jaxmbs.sweeps.parts import missing, read_part
from jaxmbs.sweeps.status import named
from jaxmbs.sweeps.store import Store

# Quantiles of larger results are those of about this many samples.
MAX_SORTED_SAMPLES = 4_000_000
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


class Results:
    """The store of a sweep, read when it is asked: opening it reads no numbers.

    There is a row for each sample that is stored, in the order of the designs. Columns are "sample", the number of the
    design; "design.…", what varies in it; the results by their path in what the measure gives, "value" where that is a
    single number; and "status", see `mbs.Status`. Any program that reads Parquet can open the files as well.

    Args:
        folder: the store.

    Raises:
        ValueError: the folder is not one.

    Examples:
        >>> designs = {"x": np.arange(6.0)}
        >>> _ = mbs.sweep(lambda design: design["x"] ** 2, designs, store="squares", progress=False)
        >>> found = mbs.sweeps.Results("squares")
        >>> len(found), found.names
        (6, ['sample', 'design.x', 'value', 'status'])
        >>> print(found.numpy("value"))
        [ 0.  1.  4.  9. 16. 25.]
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self._store = Store(folder)
        self._parts = self._store.parts()

    def __repr__(self):
        return f"Results('{self.folder}', {len(self)} of {self.size} samples)"

    def __len__(self):
        """How many samples are stored."""
        return sum(part.stop - part.start for part in self._parts)

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._store.folder

    @property
    def size(self) -> int:
        """How many samples were asked for."""
        return self._store.size

    @property
    def manifest(self) -> dict[str, Any]:
        """What the sweep is: measure, designs, columns, versions."""
        return self._store.manifest

    @property
    def columns(self) -> list[Column]:
        """Name, dtype and shape of each column."""
        return self._store.columns

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Ranges (start, stop) of samples that are not there yet."""
        return missing(self._parts, 0, self.size)

    def damaged(self) -> list[Path]:
        """Files that are not what was written; all of them are read. The sweep computes their samples again."""
        return [part.path for part in self._store.damaged()]

    def parts(self, *names: str) -> Iterator[dict[str, np.ndarray]]:
        """Columns by name, all unless some are named, part by part: the whole need not fit into memory.

        Raises:
            ValueError: an unknown name, or a part that is damaged.
        """
        chosen = self._chosen(names)
        for part in self._parts:
            table = read_part(part, [column.name for column in chosen])
            yield {column.name: as_array(column, table[column.name]) for column in chosen}

    def numpy(self, *names: str) -> Any:
        """The array of one column, or a dict of those that are named, of all if none is.

        Raises:
            ValueError: an unknown name, or a part that is damaged.
        """
        chosen = self._chosen(names)
        arrays = {x.name: np.empty((len(self), *x.shape), x.dtype) for x in chosen}
        at = 0
        for part in self.parts(*arrays):
            count = len(next(iter(part.values())))
            for name, array in part.items():
                arrays[name][at : at + count] = array
            at += count
        return arrays[names[0]] if len(names) == 1 else arrays

    def jax(self, *names: str) -> Any:
        """Like `numpy`, as arrays of JAX."""
        found = self.numpy(*names)
        return {k: jnp.asarray(x) for k, x in found.items()} if isinstance(found, dict) else jnp.asarray(found)

    def pandas(self, *names: str):
        """A `pandas.DataFrame`, indexed by the number of the sample."""
        import pandas as pd

        columns = {SAMPLE: self.numpy(SAMPLE)} | self.numpy(*(names or self.names[1:]), STATUS)
        plain = {name: x if x.ndim == 1 else list(x) for name, x in columns.items()}
        return pd.DataFrame(plain).set_index(SAMPLE)

    def dataset(self):
        """A `pyarrow.dataset` of all files, for filters and other engines; checksums are not looked at."""
        from pyarrow import dataset

        whole = [str(part.path) for part in self._parts if part.start == part.first]
        found = [dataset.dataset(whole, schema(self.columns), format="parquet")]
        # Of what overlaps, as after shares of different sizes, the rest.
        found += [dataset.dataset(read_part(part)) for part in self._parts if part.start > part.first]
        return dataset.dataset(found)

    def statuses(self) -> dict[str, int]:
        """How many samples ended how, by name."""
        counts: Counter = Counter()
        for part in self.parts(STATUS):
            codes, found = np.unique(part[STATUS], return_counts=True)
            counts.update(dict(zip(codes.tolist(), found.tolist(), strict=True)))
        return named(counts)

    def thinned(self, most: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Columns with one number each, and the status, of some `most` samples, chosen at random but always the same."""
        chosen = [x.name for x in self.columns if x.shape == () and x.name not in (SAMPLE, STATUS)]
        pieces: dict[str, list[np.ndarray]] = {name: [] for name in (*chosen, STATUS)}
        for part in self.parts(SAMPLE, *pieces):
            some = _some(part[SAMPLE], most / max(1, len(self)))
            for name, found in pieces.items():
                found.append(part[name][some])
        columns = {name: np.concatenate(x) if x else np.zeros(0) for name, x in pieces.items()}
        return columns, columns.pop(STATUS)

    def quantiles(self, *names: str) -> dict[str, dict[str, float]]:
        """Least, largest, mean, standard deviation and quantiles of columns of numbers, over the samples of status 0.

        The quantiles are those of some 4 million samples where there are more.

        Args:
            names: of columns; all that hold one number each unless given.
        """
        chosen = [x.name for x in self._chosen(names) if x.shape == () and x.name not in (SAMPLE, STATUS)]
        sums = {name: np.array([0.0, 0.0, 0.0, np.inf, -np.inf]) for name in chosen}
        picked: dict[str, list[np.ndarray]] = {name: [] for name in chosen}
        centre: dict[str, float] = {}
        well = self.statuses().get(Status.CONVERGED.name, 0)
        for part in self.parts(SAMPLE, *chosen, STATUS):
            good = part[STATUS] == 0
            some = _some(part[SAMPLE][good], MAX_SORTED_SAMPLES / max(1, well))
            for name in chosen:
                values = part[name][good].astype(float)
                if not values.size:
                    continue
                # Moments about a first value lose no digits where the spread is small.
                apart, now = values - centre.setdefault(name, float(values[0])), sums[name]
                with np.errstate(over="ignore"):
                    now[:3] += values.size, apart.sum(), (apart**2).sum()
                now[3:] = min(now[3], values.min()), max(now[4], values.max())
                picked[name].append(values[some])
        return {name: _described(sums[name], centre.get(name, np.nan), picked[name]) for name in chosen}

    def _chosen(self, names: tuple[str, ...]) -> list[Column]:
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                raise ValueError(f"no column is called {name!r}; there are {', '.join(known)}")
        return [known[name] for name in names] or list(known.values())


def _some(sample: np.ndarray, part: float) -> np.ndarray:
    """Which of some samples are taken, where a part of all is wanted. Every k-th one would follow the pattern of a grid or
    of Sobol's points."""
    if part >= 1:
        return np.ones(len(sample), bool)
    return mixed(sample.astype(np.uint64)) < np.uint64(part * 2.0**64)


def _described(sums: np.ndarray, centre: float, picked: list[np.ndarray]) -> dict[str, float]:
    count, first, second, least, largest = sums
    values = np.concatenate(picked) if picked else np.zeros(0)
    if not values.size:
        return {}
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variance = centre + first / count, second / count - (first / count) ** 2
    told = dict(zip((f"{100 * q:g}%" for q in QUANTILES), np.quantile(values, QUANTILES), strict=True))
    found = {"mean": mean, "deviation": np.sqrt(max(variance, 0.0)), "least": least, **told, "largest": largest}
    return {name: float(value) for name, value in found.items()}
