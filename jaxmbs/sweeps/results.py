"""Results of a sweep as arrays, tables, counts and quantiles."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmbs.numerics.results import Status
from jaxmbs.sweeps.columns import SAMPLE, STATUS, Column, as_array, schema
from jaxmbs.sweeps.designs import mix_bits
from jaxmbs.sweeps.parts import missing_ranges, read_part
from jaxmbs.sweeps.store import Store

# Quantiles of larger results are taken from about this many samples, chosen at random.
MAX_SORTED_SAMPLES = 4_000_000
# Levels of the quantiles that `Results.quantiles` returns.
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


class Results:
    """The results of a sweep, read from its store on request: opening a store reads no numbers.

    There is a row for each sample that is stored, in the order of the designs. Columns are "sample", the number of the
    design; "design.…", the leaves that vary in it; the results by their path in the tree that the measure returns, or
    "value" for a single number; and "status", see `mbs.Status`. Any program that reads Parquet can open the files too.

    Args:
        folder: the store.

    Raises:
        ValueError: the folder is no store.

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
        """Number of samples that are stored."""
        return sum(part.stop - part.start for part in self._parts)

    @property
    def folder(self) -> Path:
        """Folder of the store."""
        return self._store.folder

    @property
    def size(self) -> int:
        """Number of designs of the sweep."""
        return self._store.size

    @property
    def manifest(self) -> dict[str, Any]:
        """Description of the sweep: measure, designs, columns, versions."""
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
        """Ranges (start, stop) of samples that are not stored yet."""
        return missing_ranges(self._parts, 0, self.size)

    def damaged(self) -> list[Path]:
        """Read all files and return those that are damaged. The sweep computes their samples again."""
        return [part.path for part in self._store.damaged()]

    def parts(self, *names: str) -> Iterator[dict[str, np.ndarray]]:
        """Yield dicts of columns, part by part, so that the whole need not fit into memory. No names mean all columns."""
        chosen = self._columns_named(names)
        for part in self._parts:
            table = read_part(part, [column.name for column in chosen])
            yield {column.name: as_array(column, table[column.name]) for column in chosen}

    def numpy(self, *names: str) -> Any:
        """Return the array of one column, or a dict of several columns, of all without names."""
        chosen = self._columns_named(names)
        arrays = {x.name: np.empty((len(self), *x.shape), x.dtype) for x in chosen}
        at = 0
        for part in self.parts(*arrays):
            count = len(next(iter(part.values())))
            for name, array in part.items():
                arrays[name][at : at + count] = array
            at += count
        return arrays[names[0]] if len(names) == 1 else arrays

    def jax(self, *names: str) -> Any:
        """Like `numpy`, with arrays of JAX."""
        found = self.numpy(*names)
        return {k: jnp.asarray(x) for k, x in found.items()} if isinstance(found, dict) else jnp.asarray(found)

    def pandas(self, *names: str):
        """Return a `pandas.DataFrame`, indexed by the number of the sample."""
        import pandas as pd

        columns = {SAMPLE: self.numpy(SAMPLE)} | self.numpy(*(names or self.names[1:]), STATUS)
        plain = {name: x if x.ndim == 1 else list(x) for name, x in columns.items()}
        return pd.DataFrame(plain).set_index(SAMPLE)

    def dataset(self):
        """Return a `pyarrow.dataset` of all files, for filters and other engines. Checksums are not verified."""
        from pyarrow import dataset

        whole = [str(part.path) for part in self._parts if part.start == part.first]
        found = [dataset.dataset(whole, schema(self.columns), format="parquet")]
        # Parts overlap after shards of different sizes. Of these only the rest is taken.
        found += [dataset.dataset(read_part(part)) for part in self._parts if part.start > part.first]
        return dataset.dataset(found)

    def statuses(self) -> dict[str, int]:
        """Return the number of samples of each status, by its name."""
        counts: Counter = Counter()
        for part in self.parts(STATUS):
            codes, found = np.unique(part[STATUS], return_counts=True)
            counts.update(dict(zip(codes.tolist(), found.tolist(), strict=True)))
        return counts_by_name(counts)

    def thinned(self, most: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return scalar columns, and the status, of about `most` samples chosen at random, always the same ones."""
        chosen = [x.name for x in self.columns if x.shape == () and x.name not in (SAMPLE, STATUS)]
        pieces: dict[str, list[np.ndarray]] = {name: [] for name in (*chosen, STATUS)}
        for part in self.parts(SAMPLE, *pieces):
            some = _subset_mask(part[SAMPLE], most / max(1, len(self)))
            for name, found in pieces.items():
                found.append(part[name][some])
        columns = {name: np.concatenate(x) if x else np.zeros(0) for name, x in pieces.items()}
        return columns, columns.pop(STATUS)

    def quantiles(self, *names: str) -> dict[str, dict[str, float]]:
        """Return extremes, mean, standard deviation and quantiles of scalar columns, over the samples of status 0.

        Quantiles of more than 4 million samples are taken from 4 million of them.

        Args:
            names: names of columns; by default all that hold one number in each row.

        Returns:
            for each column a dict of its statistics.
        """
        chosen = [x.name for x in self._columns_named(names) if x.shape == () and x.name not in (SAMPLE, STATUS)]
        sums = {name: np.array([0.0, 0.0, 0.0, np.inf, -np.inf]) for name in chosen}
        picked: dict[str, list[np.ndarray]] = {name: [] for name in chosen}
        centre: dict[str, float] = {}
        well = self.statuses().get(Status.CONVERGED.name, 0)
        for part in self.parts(SAMPLE, *chosen, STATUS):
            good = part[STATUS] == 0
            some = _subset_mask(part[SAMPLE][good], MAX_SORTED_SAMPLES / max(1, well))
            for name in chosen:
                values = part[name][good].astype(float)
                if not values.size:
                    continue
                # Moments about the first value lose no digits if the values differ little.
                apart, now = values - centre.setdefault(name, float(values[0])), sums[name]
                with np.errstate(over="ignore"):
                    now[:3] += values.size, apart.sum(), (apart**2).sum()
                now[3:] = min(now[3], values.min()), max(now[4], values.max())
                picked[name].append(values[some])
        return {name: _summary(sums[name], centre.get(name, np.nan), picked[name]) for name in chosen}

    def _columns_named(self, names: tuple[str, ...]) -> list[Column]:
        """Return the columns with these names, all without names."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                raise ValueError(f"no column is called {name!r}; the columns are {', '.join(known)}")
        return [known[name] for name in names] or list(known.values())


def counts_by_name(counts: Mapping[int, int]) -> dict[str, int]:
    """Return the number of samples of each status by its name instead of its value, successful ones first."""
    known = {int(x): x.name for x in Status}
    return {known.get(code, str(code)): counts[code] for code in sorted(counts)}


def _subset_mask(samples: np.ndarray, fraction: float) -> np.ndarray:
    """Return True for about this fraction of samples, given by their numbers (n,), always for the same ones."""
    if fraction >= 1:
        return np.ones(len(samples), bool)
    # Pseudo-random: every k-th sample would follow the pattern of a grid or of Sobol's points.
    return mix_bits(samples.astype(np.uint64)) < np.uint64(fraction * 2.0**64)


def _summary(sums: np.ndarray, centre: float, picked: list[np.ndarray]) -> dict[str, float]:
    """Return the statistics of a column from its count, moments about `centre`, extremes and some of its values."""
    count, first, second, least, largest = sums
    values = np.concatenate(picked) if picked else np.zeros(0)
    if not values.size:
        return {}
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variance = centre + first / count, second / count - (first / count) ** 2
    quantiles = dict(zip((f"{100 * q:g}%" for q in QUANTILES), np.quantile(values, QUANTILES), strict=True))
    found = {"mean": mean, "deviation": np.sqrt(max(variance, 0.0)), "least": least, **quantiles, "largest": largest}
    return {name: float(value) for name, value in found.items()}
