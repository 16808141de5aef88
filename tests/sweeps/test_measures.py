"""Values that a measure may return: shapes, types, statuses, errors."""

import subprocess
import sys
import threading
import warnings
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.sweeps import batches, results, task

X = {"x": np.arange(6.0) / 6}


def swept(measure, folder, designs=X, **options):
    return mbs.sweep(measure, designs, store=folder, **{"progress": False} | options)


class Pair(NamedTuple):
    small: object
    large: object


def test_trees_of_any_kind(tmp_path):
    def measure(design):
        x = design["x"]
        return {
            "pair": Pair(x > 0.5, (x * 7).astype(jnp.int16)),
            "row": [x, jnp.stack([x, x])],
            "none": jnp.zeros((0, 3)),
        }

    found = swept(measure, tmp_path)
    assert found.names == ["sample", "design.x", "pair.small", "pair.large", "row.0", "row.1", "status"]
    columns = found.numpy()
    np.testing.assert_array_equal(columns["pair.small"], X["x"] > 0.5)
    assert columns["pair.large"].dtype == np.int16
    assert columns["row.1"].shape == (6, 2)


def test_motions_and_mechanisms_themselves(tmp_path):
    """A free body has no multipliers, and arrays without entries have no columns."""
    mech = lambda mass: mbs.Mechanism({"a": planar.Body(mass=mass)}, forces={"weight": mbs.Gravity((0.0, -9.81))})
    measure = lambda design: mbs.simulate(mech(1 + design["x"]), [0.0, 0.1], {"a": (0, 1, 0)}, step=0.05)
    found = swept(measure, tmp_path / "motion")
    np.testing.assert_allclose(found.numpy("q")[:, 1, 1], 1 - 9.81 * 0.1**2 / 2, rtol=1e-12)
    assert found.statuses() == {"CONVERGED": 6}
    many = jax.vmap(mech)(jnp.arange(1.0, 4.0))
    found = swept(lambda mech: mech.bodies["a"].mass, tmp_path / "mechanisms", many)
    np.testing.assert_array_equal(found.numpy("value"), [1, 2, 3])


@pytest.mark.parametrize("traced", [True, False])
def test_statuses(tmp_path, traced):
    """The one that is furthest from 0 counts; a number that is not finite counts where all are 0."""
    given = np.array([[0, 0], [0, 3], [-1, 0], [0, 2**40], [0, -(2**31)], [0, 0]])
    value = np.array([1.0, np.nan, 1.0, 1.0, 1.0, np.inf])
    measure = lambda design: {"inner": {"status": design["s"]}, "y": design["y"]}
    found = swept(measure, tmp_path, {"s": given, "y": value}, traced=traced)
    ends = np.iinfo(np.int32)
    np.testing.assert_array_equal(found.numpy("status"), [0, 3, -1, ends.max, ends.min + 1, int(mbs.Status.NON_FINITE)])


def test_numbers_beyond_single_precision(tmp_path):
    """A measure that is called computes in whatever precision it wants."""
    with jax.enable_x64(False):
        found = swept(lambda design: 1e300 * (1 + float(design["x"])), tmp_path, traced=False)
    np.testing.assert_allclose(found.numpy("value"), 1e300 * (1 + X["x"]), rtol=1e-6)
    assert found.statuses() == {"CONVERGED": 6}


def test_designs_that_are_refused(tmp_path):
    def measure(design):
        if design["x"] < 0.4:
            raise ValueError("too small")
        return {"root": float(design["x"]) ** 0.5, "count": 3}

    with pytest.warns(UserWarning, match="measure refuses sample 0, and perhaps others: too small"):
        found = swept(measure, tmp_path / "a", traced=False)
    small = X["x"] < 0.4
    np.testing.assert_array_equal(found.numpy("status"), np.where(small, mbs.Status.REFUSED, 0))
    np.testing.assert_allclose(found.numpy("root"), np.where(small, np.nan, X["x"] ** 0.5))
    np.testing.assert_array_equal(found.numpy("count"), np.where(small, 0, 3))
    # If the first samples fail, the type of a result is taken from others, best from results already stored.
    late = {"x": np.append(np.zeros(200), 0.5)}
    with pytest.warns(UserWarning, match="measure refuses sample 0"):
        assert swept(measure, tmp_path / "b", late, traced=False).statuses() == {"CONVERGED": 1, "REFUSED": 200}
    calls = []
    swept(lambda design: calls.append(0) or measure(design), tmp_path / "c", {"x": np.array([0.5, 0.6])}, traced=False)
    assert len(calls) == 3
    with pytest.raises(ValueError, match="measure refuses all designs that were tried: too small"):
        swept(measure, tmp_path / "d", {"x": np.zeros(5)}, traced=False)


@pytest.mark.parametrize("other", [np.zeros(2), 0.5, {"a": 1}, (1, 2)], ids=["shape", "type", "name", "count"])
def test_results_that_change(tmp_path, other):
    """Results that were computed before are stored."""
    measure = lambda design: other if design["x"] > 0.6 else 1
    with pytest.raises(ValueError, match="for sample 4, and value int64 for others"):
        swept(measure, tmp_path, traced=False)
    np.testing.assert_array_equal(mbs.sweeps.Results(tmp_path).numpy("sample"), np.arange(4))


def scaled(factor, design):
    return factor * float(design["x"])


def test_other_code_is_another_measure(tmp_path):
    """Of measures that are called, the code, what it closes over and what is bound count."""
    swept(partial(scaled, 2.0), tmp_path, traced=False)
    swept(partial(scaled, 2.0), tmp_path, traced=False)
    for other in (partial(scaled, 3.0), lambda design: 2.0 * float(design["x"])):
        with pytest.raises(ValueError, match="another sweep, with another measure"):
            swept(other, tmp_path, traced=False)


class Model:
    def __init__(self, factor):
        self.factor, self.calls = factor, []

    def measure(self, x):
        self.calls.append(0)
        return self.factor * float(x)

    __call__ = measure


@pytest.mark.parametrize("of", [lambda model: model.measure, lambda model: model], ids=["method", "object"])
def test_numbers_of_objects_count_and_what_changes_does_not(tmp_path, of):
    designs = np.arange(4.0)
    model = Model(1.0)
    swept(of(model), tmp_path, designs, traced=False, shard=(1, 2))
    with pytest.raises(ValueError, match="another sweep, with another measure"):
        swept(of(Model(2.0)), tmp_path, designs, traced=False)
    assert len(swept(of(model), tmp_path, designs, traced=False)) == 4


def test_measures_are_known_in_other_processes(tmp_path):
    """Those of a script, and of the module that it is for another one; with keys, callbacks and rules of their own."""
    (tmp_path / "study.py").write_text(STUDY)
    run = lambda *words: subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    for command in (["study.py", "1"], ["-c", "import study; study.go(2)"]):
        done = run(*command)
        assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["4", "4"]


STUDY = """
import sys
import jax, jax.numpy as jnp, numpy as np
import jaxmbs as mbs
from scipy.optimize import least_squares

key = jax.random.key(0)

@jax.custom_jvp
def twice(x):
    return 2 * x

twice.defjvp(lambda x, dx: (twice(*x), 2 * dx[0]))
traced = lambda x: twice(x) + jax.random.normal(key)
called = lambda x: least_squares(lambda y: y - x, 0.0).x[0]

def go(k):
    for name, measure in (("traced", traced), ("called", called)):
        found = mbs.sweep(measure, np.arange(4.0), store=name, shard=(k, 2), traced=name == "traced", progress=False)
        print(len(found))

if __name__ == "__main__":
    go(int(sys.argv[1]))
"""


# Calls to Python have no straight-line form.
@pytest.mark.filterwarnings("ignore:.*runs as array code:jaxmbs.PerformanceWarning")
def test_a_callback_is_known_by_its_code(tmp_path):
    def called(factor):
        there = lambda x: np.asarray(factor * x)
        return lambda design: jax.pure_callback(
            there, jax.ShapeDtypeStruct((), float), design["x"], vmap_method="sequential"
        )

    swept(called(2.0), tmp_path)
    with pytest.raises(ValueError, match="another sweep, with another measure"):
        swept(called(3.0), tmp_path)


def test_whole_numbers_that_do_not_fit(tmp_path):
    with jax.enable_x64(False), pytest.raises(ValueError, match="whole numbers do not fit into int32"):
        swept(lambda n: n, tmp_path, mbs.sweeps.Grid([1, 2**40]))


def test_static_parts_of_designs_are_no_numbers():
    class Part(eqx.Module):
        k: jax.Array
        act: object = eqx.field(static=True)

    descriptions = [mbs.sweeps.designs.Arrays(Part(np.arange(3.0), lambda x: x)).description() for _ in range(2)]
    assert descriptions[0] == descriptions[1]


# Calls to Python have no straight-line form.
@pytest.mark.filterwarnings("ignore:.*runs as array code:jaxmbs.PerformanceWarning")
def test_an_interrupt_loses_no_finished_batch(tmp_path):
    calls = []

    def measure(design):
        calls.append(0)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return float(design["x"])

    with pytest.raises(KeyboardInterrupt):
        swept(measure, tmp_path, {"x": np.arange(20.0)}, traced=False)
    assert len(mbs.sweeps.Results(tmp_path)) == 6  # one call was a trial

    def slow(x):
        if calls:
            raise KeyboardInterrupt
        calls.append(0)
        return x

    calls.clear()
    delayed = lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct((), float), x, vmap_method="expand_dims")
    with pytest.raises(BaseException, match="KeyboardInterrupt"):
        swept(delayed, tmp_path / "traced", np.arange(64.0), batch=16)
    assert len(mbs.sweeps.Results(tmp_path / "traced")) == 16


BAD = [
    (3, {}, "measure must be a function"),
    (lambda design: float(design["x"]), {}, r"Write it in jax.numpy, or give traced=False"),
    (lambda design: jax.random.key(0), {}, r"value must hold real numbers, got key<fry>"),
    (lambda design: 1j * design["x"], {}, "value must hold real numbers, got complex"),
    (lambda design: {"design": design["x"]}, {}, "'design' is reserved for designs"),
    (lambda design: {"status": design["x"]}, {}, "'status' must hold whole numbers"),
    (lambda design: {"sample": design["x"]}, {}, "two columns are called 'sample'"),
    (lambda design: mbs.Mechanism({"a": planar.Body(mass=-1.0)}), {}, "measure: body 'a'.*mass must be positive"),
    (jnp.sin, {"batch": 0}, "batch must be a positive whole number, got 0"),
    (jnp.sin, {"batch": float("inf")}, "batch must be a positive whole number, got inf"),
    (jnp.sin, {"shard": (3, 2)}, r"shard must be \(k, n\)"),
    (jnp.sin, {"shard": 3}, r"shard must be \(k, n\)"),
    (jnp.sin, {"executor": "threads"}, "executor must be one such as"),
    (jnp.sin, {"progress": 1}, "progress must be True, False, or a function"),
]


@pytest.mark.parametrize(("measure", "options", "message"), BAD, ids=[message[:30] for *_, message in BAD])
def test_bad_arguments(tmp_path, measure, options, message):
    with pytest.raises(ValueError, match=message):
        swept(measure, tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_a_file_in_place_of_a_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file is a file: a store is a folder"):
        swept(lambda design: design["x"], tmp_path / "file")


def test_large_arrays_are_left_to_array_code(tmp_path):
    large = np.linspace(0, 1, 100_000)
    own = task.Task(lambda design: jnp.sum(large * design["x"]), mbs.sweeps.designs.Arrays(X))
    rows = own._designs(0, 6)
    assert "straight_line_program" not in str(jax.make_jaxpr(own._compute)(rows))
    np.testing.assert_allclose(own._compute(rows)[0][0], X["x"] * large.sum(), rtol=1e-12)


def test_batches_grow_while_that_is_faster(monkeypatch):
    """Four times of each size, of which the fastest after the first counts, until two are no faster; and no further than
    memory allows."""

    class Compiled:
        def __init__(self, rows):
            self.size = len(rows)

        def memory_analysis(self):
            return type("told", (), dict.fromkeys(("temp_size_in_bytes", "argument_size_in_bytes"), 0)
                        | {"output_size_in_bytes": 8 * self.size})  # fmt: skip

    def sizes(seconds, left=10**7):
        own = batches.Batches(Compiled, lambda a, b: np.zeros(b - a), 10**7)
        found = []
        for _ in range(24):
            size, timed = own.next(left, None)
            found.append(size)
            if timed:
                own.record_time(size, seconds(size))
        return found

    growing = sizes(lambda size: 1e-3 + 1e-8 * size)
    assert growing == [1024] * 4 + [4096] * 4 + [16384] * 4 + [65536] * 4 + [262144] * 4 + [1048576] * 4
    level = sizes(lambda size: 1e-6 * size)
    assert level == [1024] * 4 + [4096] * 4 + [16384] * 4 + [1024] * 12
    # A batch of which the next size would take longer than a user wants to wait for; and one that does so itself.
    assert sizes(lambda size: 1.3e-3 * size) == [1024] * 24
    assert sizes(lambda size: 0.02 * size) == [1024] * 2 + [250] * 22
    # The next power of two is compiled for what is left.
    assert sizes(lambda size: 1e-3, left=100) == [128] * 24
    monkeypatch.setattr(batches, "_free_memory", lambda: 8.0 * 70_000)
    assert sizes(lambda size: 1e-3) == [1024] * 4 + [4096] * 4 + [16384] * 16
    monkeypatch.setattr(batches, "_free_memory", lambda: 8.0 * 2000)
    assert sizes(lambda size: 1e-3) == [256] * 24


def test_errors_of_a_report_come_after_what_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(task, "PART_BYTES", 2000)

    def impatient(*_):
        raise KeyboardInterrupt

    designs = {"x": np.arange(1000.0)}
    with pytest.raises(KeyboardInterrupt):
        swept(lambda design: design["x"], tmp_path, designs, batch=100, progress=impatient)
    found = mbs.sweeps.Results(tmp_path)
    assert 200 <= len(found) < 1000
    assert len(swept(lambda design: design["x"], tmp_path, designs, batch=100)) == 1000


def test_precisions_do_not_mix(tmp_path):
    """A worker that stays computes in the precision of each sweep."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        for exact in (False, True):
            with jax.enable_x64(exact):
                found = swept(lambda design: design["x"] / 3, tmp_path / str(exact), executor=pool, batch=3)
            assert found.columns[2].dtype == ("float64" if exact else "float32")


def test_quantiles_of_few_and_of_extreme_numbers(tmp_path, monkeypatch):
    values = np.array([1e200, 3e200, 2e200, np.nan, np.nan, np.nan])
    found = swept(lambda design: design["y"], tmp_path / "a", {"y": values})
    told = found.quantiles("value")["value"]
    assert (told["least"], told["50%"], told["largest"]) == (1e200, 2e200, 3e200)
    assert told["mean"] == pytest.approx(2e200)
    monkeypatch.setattr(results, "MAX_SORTED_SAMPLES", 10)
    few = {"s": np.where(np.arange(5000) % 500, 3, 0), "y": np.arange(5000.0)}
    found = swept(lambda design: {"y": design["y"], "status": design["s"]}, tmp_path / "b", few)
    assert found.quantiles("y")["y"]["50%"] == pytest.approx(2250)
    none = swept(lambda design: {"y": design["x"], "status": 3}, tmp_path / "c")
    assert none.quantiles("y") == {"y": {}}


def test_empty_and_partial_stores(tmp_path):
    halt = threading.Event()
    halt.set()
    found = swept(lambda design: design["x"], tmp_path, halt=halt)
    assert (len(found), found.size, found.missing, found.statuses()) == (0, 6, [(0, 6)], {})
    assert found.numpy("value").shape == (0,)
    assert found.quantiles() == {"design.x": {}, "value": {}}
    assert found.dataset().count_rows() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(found.pandas()) == 0
    assert repr(found).endswith("0 of 6 samples)")
