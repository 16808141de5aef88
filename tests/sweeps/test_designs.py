"""Designs from their numbers: any part of them can be made alone, and they are spread as they should be."""

import itertools
import operator

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

import jaxmbs as mbs
from jaxmbs.sweeps.designs import Arrays, permutation

CUBE = {"a": mbs.sweeps.Uniform(2.0, 3.0), "b": {"c": mbs.sweeps.Normal([0.0, 5.0], 0.5), "d": 7.0}}
ALL = [
    mbs.sweeps.Random(CUBE, 1000, seed=3),
    mbs.sweeps.LatinHypercube(CUBE, 1000, seed=3),
    mbs.sweeps.Sobol(CUBE, 1000, seed=3),
    mbs.sweeps.Grid({"a": np.linspace(0, 1, 10), "b": list(range(100)), "c": 2.0}),
    Arrays({"a": np.random.default_rng(0).random((1000, 2)), "b": np.arange(1000)}),
]


@pytest.mark.parametrize("designs", ALL, ids=lambda x: type(x).__name__)
def test_any_part_can_be_made_alone(designs):
    whole = designs.rows(0, 1000)
    # Backwards as well: engines that only go forward begin again.
    for start, stop in [(400, 777), (0, 1), (999, 1000), (3, 400)]:
        expected = jax.tree.map(operator.itemgetter(slice(start, stop)), whole)
        jax.tree.map(np.testing.assert_array_equal, designs.rows(start, stop), expected)


@pytest.mark.parametrize("designs", ALL[:3], ids=lambda x: type(x).__name__)
def test_distributions(designs):
    rows = designs.rows(0, 1000)
    assert rows["b"]["c"].shape == (1000, 2)
    assert np.all(rows["b"]["d"] == 7)
    samples = [(rows["a"], stats.uniform(2, 1)), (rows["b"]["c"][:, 1], stats.norm(5, 0.5))]
    for values, distribution in samples:
        assert stats.kstest(values, distribution.cdf).pvalue > 0.01
    # Independent of each other, and of their number.
    others = np.column_stack([rows["a"], rows["b"]["c"], np.arange(1000)])
    assert np.abs(np.corrcoef(others.T) - np.eye(4)).max() < 0.1
    assert not np.array_equal(rows["a"], type(designs)(CUBE, 1000, seed=4).rows(0, 1000)["a"])


def test_other_distributions():
    design = {"x": mbs.sweeps.LogUniform(1.0, 100.0), "y": mbs.sweeps.Choice([1, 2, 5])}
    rows = mbs.sweeps.Random(design, 30_000).rows(0, 30_000)
    assert stats.kstest(rows["x"], stats.loguniform(1, 100).cdf).pvalue > 0.01
    assert stats.chisquare(np.unique(rows["y"], return_counts=True)[1]).pvalue > 0.01


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000, 4097])
def test_latin_hypercube_has_one_design_in_each_interval(size):
    rows = mbs.sweeps.LatinHypercube([mbs.sweeps.Uniform(0, size)] * 3, size).rows(0, size)
    for values in rows:
        np.testing.assert_array_equal(np.sort(np.floor(values)), np.arange(size))


def test_permutations_look_random():
    """Fixed points of random permutations are distributed like Poisson's law with mean 1, and neighbours go apart."""
    keys = np.random.default_rng(0).integers(0, 2**63, (200, 4), dtype=np.uint64)
    found = np.array([permutation(np.arange(500, dtype=np.uint64), 500, key) for key in keys]).astype(int)
    fixed = (found == np.arange(500)).sum(axis=1)
    assert abs(fixed.mean() - 1) < 4 / np.sqrt(200)
    steps = np.abs(np.diff(found, axis=1))
    assert abs(steps.mean() - 501 / 3) < 2
    # Each place gets each number as often, as far as 200 permutations can show that.
    assert stats.kstest(found[:, 17], stats.uniform(0, 499).cdf).pvalue > 0.001


def test_sobol_is_that_of_scipy():
    rows = mbs.sweeps.Sobol([mbs.sweeps.Uniform(0, 1)] * 5, 256, seed=9).rows(0, 256)
    # The middles of its cells.
    expected = qmc.Sobol(5, rng=np.random.default_rng(9)).random(256) + 2.0**-31
    np.testing.assert_array_equal(np.stack(rows, axis=1), expected)


def test_grid_is_the_product():
    axes = {"a": [1.0, 2.0], "b": np.array([3.0, 4.0, 5.0]), "c": 6.0}
    grid = mbs.sweeps.Grid(axes)
    assert grid.size == 6
    rows = grid.rows(0, 6)
    assert list(zip(rows["a"], rows["b"], rows["c"], strict=True)) == list(
        itertools.product(axes["a"], axes["b"], [6.0])
    )


def test_tables(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"rod": [1.0, 2.5, 3.0], "teeth": [12, 13, 14]}
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("rod,teeth\n1.0,12\n2.5,13\n3.0,14\n")
    for name in ("x.csv", "x.parquet"):
        designs = mbs.sweeps.table(tmp_path / name)
        assert designs.size == 3
        assert {k: v.tolist() for k, v in designs.rows(1, 3).items()} == {"rod": [2.5, 3.0], "teeth": [13, 14]}


def _words(tmp_path):
    (tmp_path / "x.csv").write_text("rod,colour\n1.0,red\n")
    return mbs.sweeps.table(tmp_path / "x.csv")


BAD = [
    (lambda _: mbs.sweeps.Uniform(2, 1), "lower must not be above upper"),
    (lambda _: mbs.sweeps.Uniform(float("nan"), 1), "lower must be numbers"),
    (lambda _: mbs.sweeps.LogUniform(0, 1), "must be positive"),
    (lambda _: mbs.sweeps.Normal(0, -1), "must not be negative"),
    (lambda _: mbs.sweeps.Choice([]), "values must be a row of numbers"),
    (lambda _: mbs.sweeps.Random({"a": 1.0}, 10), "nothing varies"),
    (lambda _: mbs.sweeps.Random({"a": "b", "c": mbs.sweeps.Uniform(0, 1)}, 10), "design a: must be"),
    (lambda _: mbs.sweeps.Random(mbs.sweeps.Uniform(0, 1), 0), "positive whole number"),
    (lambda _: mbs.sweeps.Random(mbs.sweeps.Uniform(0, 1), float("inf")), "positive whole number, got inf"),
    (lambda _: mbs.sweeps.Random(mbs.sweeps.Uniform(0, 1), "ten"), "positive whole number, got 'ten'"),
    (lambda _: mbs.sweeps.Random(mbs.sweeps.Uniform(0, 1), 5, seed=-1), "seed must be a whole number from 0 on"),
    (lambda _: mbs.sweeps.Sobol(mbs.sweeps.Uniform(0, 1), 2**31), "at most 2"),
    (lambda _: mbs.sweeps.Grid({"a": np.zeros((2, 2))}), "must be a row of numbers, got"),
    (lambda _: Arrays({"a": np.zeros(3), "b": np.zeros(4)}), "same number of rows"),
    (lambda _: Arrays(np.array(["a"])), "must be numbers"),
    (_words, "column 'colour' must hold numbers"),
    (lambda path: mbs.sweeps.table(path / "x.json"), "must end in"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_designs(make, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make(tmp_path)
