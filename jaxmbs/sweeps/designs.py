"""Designs of a sweep. The k-th one depends on k and a seed alone, so any machine can make any range of them."""

from __future__ import annotations

import abc
import hashlib
import math
import threading
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, UInt

from jaxmbs.sweeps.columns import path_name
from jaxmbs.sweeps.distributions import AbstractDistribution

# Bits of a coordinate of Sobol's points. There are at most 2**SOBOL_BITS points.
SOBOL_BITS = 30
# Rounds of the Feistel network that permutes the intervals of a Latin hypercube.
FEISTEL_ROUNDS = 4
# Designs that are made at once: a block stays in the cache of the processor.
DESIGNS_PER_BLOCK = 8192


class AbstractDesigns(abc.ABC):
    """N designs, each made from its number."""

    size: int

    @abc.abstractmethod
    def rows(self, start: int, stop: int) -> Any:
        """Return designs `start` to `stop` − 1 as a tree of arrays with a leading axis."""

    @abc.abstractmethod
    def varied(self) -> list[bool]:
        """Return for each leaf of a design True if it differs between designs; only these leaves are stored."""

    @abc.abstractmethod
    def description(self) -> dict[str, Any]:
        """Return a description of the designs as JSON; designs with equal descriptions are the same."""


class Arrays(AbstractDesigns):
    """Designs given as a tree of arrays (N, …)."""

    def __init__(self, tree: Any):
        places = jax.tree_util.tree_flatten_with_path(tree)[0]
        try:
            leaves = [np.asarray(x) for _, x in places]
        except TypeError as error:  # keys of random numbers
            raise ValueError(f"designs must be numbers: {error}") from None
        self.names = [path_name(path) for path, _ in places]
        if not leaves or any(x.ndim == 0 for x in leaves) or len({len(x) for x in leaves}) != 1:
            shapes = ", ".join(str(x.shape) for x in leaves) or "none"
            raise ValueError(f"designs must be arrays with the same number of rows, got shapes {shapes}")
        wrong = [x.dtype for x in leaves if x.dtype.kind not in "biuf"]
        if wrong:
            raise ValueError(f"designs must be numbers, got an array of {wrong[0]}")
        self.tree = jax.tree.unflatten(jax.tree.structure(tree), leaves)
        self.size = check_count("the number of designs", len(leaves[0]))

    def rows(self, start, stop):
        """Return designs `start` to `stop` − 1, slices of the arrays given."""
        return jax.tree.map(lambda x: x[start:stop], self.tree)

    def varied(self):
        """Return True for each leaf: all arrays given count as varied."""
        return [True] * len(jax.tree.leaves(self.tree))

    def description(self):
        """Return shapes, dtypes and a digest of the arrays, by which a store recognises its designs."""
        digest = hashlib.sha256(repr(self.names).encode())
        for leaf in jax.tree.leaves(self.tree):
            digest.update(f"{leaf.shape}{leaf.dtype}".encode())
            digest.update(np.ascontiguousarray(leaf).data)
        return {"kind": "arrays", "size": self.size, "digest": digest.hexdigest()}


class AbstractSampler(AbstractDesigns):
    """Designs made from points u of the unit cube by distributions."""

    def __init__(self, design: Any, size: int, seed: int = 0):
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"seed must be a whole number from 0 on, got {seed!r}")
        self.size, self.seed = check_count("size", size), int(seed)
        self.places, self.structure = jax.tree_util.tree_flatten_with_path(design)
        self.dimensions = sum(int(np.prod(x.shape)) for _, x in self.places if isinstance(x, AbstractDistribution))
        if not self.dimensions:
            raise ValueError(
                "nothing varies: put a distribution, such as mbs.sweeps.Uniform(0.9, 1.1), into the design"
            )
        for path, x in self.places:
            if not isinstance(x, AbstractDistribution) and np.asarray(x).dtype.kind not in "biuf":
                raise ValueError(f"design {path_name(path)}: must be a distribution or a number, got {x!r}")

    @abc.abstractmethod
    def unit(self, start: int, stop: int) -> Float[np.ndarray, "rows dimensions"]:
        """Return the points u of designs `start` to `stop` − 1."""

    def rows(self, start, stop):
        """Return designs `start` to `stop` − 1: each varied leaf by its distribution from its own columns of u."""
        varied = lambda x: isinstance(x, AbstractDistribution)
        leaves = [
            np.empty((stop - start, *x.shape)) if varied(x) else np.broadcast_to(x, (stop - start, *np.shape(x)))
            for _, x in self.places
        ]
        for first in range(start, stop, DESIGNS_PER_BLOCK):
            here, at = slice(first - start, min(first + DESIGNS_PER_BLOCK, stop) - start), 0
            u = np.ascontiguousarray(self.unit(first, min(first + DESIGNS_PER_BLOCK, stop)).T)
            for leaf, (_, x) in zip(leaves, self.places, strict=True):
                if varied(x):
                    width = int(np.prod(x.shape))
                    leaf[here] = x.of(u[at : at + width].T.reshape(len(leaf[here]), *x.shape))
                    at += width
        return jax.tree.unflatten(self.structure, leaves)

    def varied(self):
        """Return a list with True for each leaf of the design that is a distribution, False for each constant."""
        return [isinstance(x, AbstractDistribution) for _, x in self.places]

    def description(self):
        """Return kind of sampler, size, seed and distributions, by which a store recognises its designs."""
        describe = lambda x: x.description() if isinstance(x, AbstractDistribution) else np.asarray(x).tolist()
        design = {path_name(path): describe(x) for path, x in self.places}
        return {"kind": type(self).__name__, "size": self.size, "seed": self.seed, "design": design}


class Random(AbstractSampler):
    """Independent random designs.

    Args:
        design: a tree with a distribution, such as `Uniform` or `Normal`, at each place that varies, and numbers
            elsewhere.
        size: number of designs.
        seed: of the random numbers.

    Examples:
        >>> designs = mbs.sweeps.Random({"rod": mbs.sweeps.Normal(2.0, 0.01), "ground": 3.0}, size=1000)
        >>> print(designs.rows(998, 1000)["rod"].round(4), designs.rows(998, 1000)["ground"])
        [2.0022 2.0068] [3. 3.]
    """

    def unit(self, start, stop):
        """Return rows `start` to `stop` − 1 of a table of random numbers in [0, 1)."""
        return _random(self.seed, start, stop, self.dimensions)


class LatinHypercube(AbstractSampler):
    """A Latin hypercube: in every variable each of N equal intervals holds one of the N designs.

    The order of the intervals is a pseudo-random permutation by a Feistel network, so the k-th design is known
    without the others. M. D. McKay, R. J. Beckman & W. J. Conover, Technometrics 21, 1979; J. Black & P. Rogaway,
    Ciphers with arbitrary finite domains, 2002.

    Args:
        design: a tree with distributions and numbers, see `Random`.
        size: number of designs.
        seed: of the random numbers.

    Examples:
        >>> designs = mbs.sweeps.LatinHypercube(mbs.sweeps.Uniform(0.0, 5.0), size=5)
        >>> print(np.sort(np.floor(designs.rows(0, 5))))
        [0. 1. 2. 3. 4.]
    """

    def unit(self, start, stop):
        """Return points `start` to `stop` − 1: in each variable a random place in an interval by a permutation."""
        inside = _random(self.seed, start, stop, self.dimensions)
        k = np.arange(start, stop, dtype=np.uint64)
        keys = np.random.SeedSequence([self.seed, 1]).generate_state(self.dimensions * FEISTEL_ROUNDS, np.uint64)
        strata = [permutation(k, self.size, row) for row in keys.reshape(self.dimensions, -1)]
        return (np.stack(strata, axis=1) + inside) / self.size


class Sobol(AbstractSampler):
    """Scrambled Sobol points, which fill the space more evenly than random ones, best if N is a power of two.

    The points are those of `scipy.stats.qmc.Sobol`. I. M. Sobol', USSR Comput. Math. Math. Phys. 7, 1967.

    Args:
        design: a tree with distributions and numbers, see `Random`.
        size: number of designs, at most 2³⁰.
        seed: of the scrambling.

    Examples:
        >>> designs = mbs.sweeps.Sobol({"x": mbs.sweeps.Uniform(0.0, 4.0)}, size=4)
        >>> print(np.sort(np.floor(designs.rows(0, 4)["x"])))
        [0. 1. 2. 3.]
    """

    def __init__(self, design: Any, size: int, seed: int = 0):
        super().__init__(design, size, seed)
        if self.size > 2**SOBOL_BITS:
            raise ValueError(f"Sobol: there are at most 2^{SOBOL_BITS} points, got size={size}")

    def unit(self, start, stop):
        """Return Sobol's points `start` to `stop` − 1, scrambled."""
        if start == stop:
            return np.zeros((0, self.dimensions))
        engine = _sobol(self.dimensions, self.seed, start)
        if start > engine.num_generated:
            engine.fast_forward(start - engine.num_generated)
        # A single point first: SciPy warns if the first call asks for a number that is no power of two.
        points = [engine.random(1), *([engine.random(stop - start - 1)] if stop - start > 1 else [])]
        # SciPy returns the lower ends of cells. Their middles are neither 0 nor 1.
        return np.concatenate(points) + 0.5 ** (SOBOL_BITS + 1)


class Grid(AbstractDesigns):
    """All combinations of values; the last leaf of the tree changes fastest.

    Args:
        values: a tree with a row of values at each place that varies, a list, tuple or array of numbers, and single
            numbers elsewhere.

    Examples:
        >>> designs = mbs.sweeps.Grid({"crank": [1.0, 2.0], "rod": [3.0, 4.0, 5.0]})
        >>> print(designs.size, designs.rows(2, 4))
        6 {'crank': array([1., 2.]), 'rod': array([5., 3.])}
    """

    def __init__(self, values: Any):
        is_row = lambda x: isinstance(x, (list, tuple)) and all(np.ndim(y) == 0 for y in x)
        self.places, self.structure = jax.tree_util.tree_flatten_with_path(values, is_leaf=is_row)
        self.axes = [np.asarray(x) for _, x in self.places]
        for (path, _), axis in zip(self.places, self.axes, strict=True):
            if axis.ndim > 1 or not axis.size or axis.dtype.kind not in "biuf":
                raise ValueError(f"Grid {path_name(path)}: must be a row of numbers, got shape {axis.shape}")
        self.counts = tuple(x.size for x in self.axes)
        self.size = check_count("the number of designs", math.prod(self.counts))

    def rows(self, start, stop):
        """Return designs `start` to `stop` − 1, counted with the last leaf fastest."""
        at = np.unravel_index(np.arange(start, stop), self.counts)
        leaves = [np.atleast_1d(axis)[k] for axis, k in zip(self.axes, at, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)

    def varied(self):
        """Return True for each leaf with several values."""
        return [axis.ndim > 0 for axis in self.axes]

    def description(self):
        """Return size and values of the grid, by which a store recognises its designs."""
        values = {path_name(path): axis.tolist() for (path, _), axis in zip(self.places, self.axes, strict=True)}
        return {"kind": "Grid", "size": self.size, "design": values}


def table(path: str | PathLike[str]) -> Arrays:
    r"""Return the designs of a file: one for each row, a mapping from names of columns to numbers.

    Args:
        path: a CSV file with a line of names, or a Parquet file.

    Returns:
        the designs, for `mbs.sweep`.

    Raises:
        ValueError: not such a file, or a column that does not hold numbers.

    Examples:
        >>> with open("designs.csv", "w") as file:
        ...     _ = file.write("crank,rod\n1.0,2.0\n1.5,2.5\n")
        >>> print(mbs.sweeps.table("designs.csv").rows(0, 2))
        {'crank': array([1. , 1.5]), 'rod': array([2. , 2.5])}
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    path = Path(path)
    readers = {".csv": csv.read_csv, ".parquet": parquet.read_table}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path.name}: the name of a table of designs must end in {' or '.join(readers)}")
    try:
        read = readers[path.suffix.lower()](str(path))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name}: {' '.join(str(error).split())}") from None
    twice = {name for name in read.column_names if read.column_names.count(name) > 1}
    if twice:
        raise ValueError(f"{path.name}: two columns are called {min(twice)!r}")
    columns = {name: read[name].to_numpy() for name in read.column_names}
    if not read.num_rows:
        raise ValueError(f"{path.name}: has no rows")
    for name, column in columns.items():
        if read[name].null_count:
            raise ValueError(f"{path.name}: column {name!r} has empty cells")
        if column.dtype.kind not in "biuf":
            raise ValueError(f"{path.name}: column {name!r} must hold numbers")
    return Arrays(columns)


def permutation(k: UInt[np.ndarray, " rows"], size: int, keys) -> UInt[np.ndarray, " rows"]:
    """Return π(k) of numbers k below `size`, for a pseudo-random permutation π of 0 … size − 1.

    π is a Feistel network with a round for each of `keys`, over the next even number of bits, applied again to results
    that are not below the size.
    """
    half = np.uint64(max(1, -(-(size - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)

    def network(x):
        """Return x after one pass through the Feistel network, a permutation of 0 … 4^half − 1."""
        left, right = x >> half, x & mask
        for key in keys:
            left, right = right, left ^ (mix_bits(right ^ key) & mask)
        return (left << half) | right

    x = network(k)
    beyond = np.nonzero(x >= size)[0]
    while beyond.size:
        x[beyond] = network(x[beyond])
        beyond = beyond[x[beyond] >= size]
    return x


def mix_bits(x: np.ndarray) -> np.ndarray:
    """Mix the bits of each number by the last steps of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _random(seed: int, start: int, stop: int, dimensions: int) -> np.ndarray:
    """Return rows `start` to `stop` − 1 of an endless table of random numbers in [0, 1), one step of the generator each."""
    bits = np.random.PCG64DXSM(seed)
    bits.advance(start * dimensions)
    return np.random.Generator(bits).random((stop - start, dimensions))


# The last Sobol engine of each thread.
_engines = threading.local()


def _sobol(dimensions: int, seed: int, start: int):
    """Return an engine of SciPy at point `start` or before it, the last one used if possible: skipping takes time."""
    from scipy.stats import qmc

    known = getattr(_engines, "last", None)
    if known is None or known[0] != (dimensions, seed) or known[1].num_generated > start:
        engine = qmc.Sobol(dimensions, bits=SOBOL_BITS, rng=np.random.default_rng(seed))
        known = _engines.last = ((dimensions, seed), engine)
    return known[1]


def check_count(name: str, value) -> int:
    """Return a positive whole number as an int; raise `ValueError`, in which it is called `name`, for other values."""
    try:
        count = 0 if isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        count = 0
    if count < 1 or count != value:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}")
    return count
