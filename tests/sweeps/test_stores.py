"""A store loses nothing and holds nothing twice, whatever ends the sweep."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pandas
import pytest

import jaxmbs as mbs
from jaxmbs.sweeps import parts, store, task

DESIGNS = mbs.sweeps.Random({"x": mbs.sweeps.Uniform(0.0, 1.0), "y": mbs.sweeps.Normal([0.0, 1.0], 0.1)}, 20_000)


def measure(design):
    x, y = design["x"], design["y"]
    return {"sine": jnp.sin(x) * y[0], "both": y * x, "status": jnp.where(x > 0.9, mbs.Status.LOCKED_UP, 0)}


def run(folder, **options):
    return mbs.sweep(measure, DESIGNS, store=folder, **{"batch": 500, "progress": False} | options)


def same(found, expected):
    assert found.names == expected.names
    for name, array in expected.numpy().items():
        np.testing.assert_array_equal(found.numpy(name), array, strict=True)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(task, "PART_BYTES", 100_000)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "PART_BYTES", 100_000)
        return run(tmp_path_factory.mktemp("whole") / "store")


def test_what_a_store_holds(expected):
    x, y = (np.asarray(DESIGNS.rows(0, 20_000)[name]) for name in "xy")
    found = expected.numpy()
    assert expected.names == ["sample", "design.x", "design.y", "both", "sine", "status"]
    np.testing.assert_array_equal(found["sample"], np.arange(20_000))
    np.testing.assert_array_equal(found["design.y"], y)
    np.testing.assert_allclose(found["sine"], np.sin(x) * y[:, 0], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(found["both"], y * x[:, None], rtol=1e-15)
    np.testing.assert_array_equal(found["status"], np.where(x > 0.9, 3, 0))
    assert expected.statuses() == {"CONVERGED": int((x <= 0.9).sum()), "LOCKED_UP": int((x > 0.9).sum())}
    assert len(expected._parts) > 5


@pytest.mark.parametrize("batch", [1, 77, 20_000, None])
def test_other_batches(tmp_path, expected, batch):
    if batch == 1:  # some of them
        halt, done = threading.Event(), []
        run(tmp_path, batch=1, halt=halt, progress=lambda n, *_: (done.append(n), halt.set()))
        assert 0 < done[0] < 20_000
    same(run(tmp_path, batch=batch if batch != 1 else 999), expected)


SCRIPT = """
import itertools, os, random, signal, stat, sys
from pathlib import Path
import jax
import test_stores
from jaxmbs.sweeps import task
from jaxmbs.sweeps.parts import parts_of

jax.config.update("jax_enable_x64", True)
folder = Path(sys.argv[1])
task.PART_BYTES = 10_000
dice, kills, done = random.Random(1), 0, []
sync, replace = os.fsync, os.replace


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def run_until(last, cut):
    # Files are synchronised, then placed; the process dies in the last of these calls: with half of the file there, before
    # or behind the call.
    calls = itertools.count(1)

    def synchronised(file):
        is_last = next(calls) == last
        if is_last and cut:
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.ftruncate(file, os.fstat(file).st_size // 2)
            die()
        sync(file)
        if is_last:
            die()

    def replaced(*paths):
        is_last = next(calls) == last
        if is_last and cut:
            die()
        replace(*paths)
        if is_last:
            die()

    os.fsync, os.replace = synchronised, replaced
    test_stores.run(folder)


while kills < 20:
    last, cut = dice.randrange(1, 20), dice.random() < 0.5
    child = os.fork()
    if child == 0:
        run_until(last, cut)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    kills += 1
    done.append(sum(p.stop - p.start for p in parts_of(folder)) if folder.is_dir() else 0)
print(kills, done)
"""


@pytest.mark.variant
def test_killed_at_twenty_moments(tmp_path, expected):
    """The result is that of a sweep that nothing interrupted, to the bit, and no piece of a file is left."""
    folder = tmp_path / "store"
    here = os.path.dirname(__file__)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder)],
        capture_output=True, text=True, timeout=600, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    kills, counts = done.stdout.split(" ", 1)
    counts = json.loads(counts)
    assert int(kills) == 20
    assert counts == sorted(counts)
    assert 0 < counts[-1] < 20_000
    same(run(folder), expected)
    assert not list(folder.glob(f"{parts.UNFINISHED}*"))


def test_damaged_parts_are_computed_again(tmp_path, expected):
    found = run(tmp_path)
    files = [part.path for part in found._parts]
    content = [path.read_bytes() for path in files]
    dice = np.random.default_rng(0)
    for path in files[1:4]:
        data = bytearray(path.read_bytes())
        data[dice.integers(len(data))] ^= 1 << dice.integers(8)
        path.write_bytes(data)
    files[5].write_bytes(content[5][:-100])
    files[6].write_bytes(b"")
    broken = [files[k] for k in (1, 2, 3, 5, 6)]
    assert mbs.sweeps.Results(tmp_path).damaged() == broken
    with pytest.raises(ValueError, match=f"{files[1].name} is damaged"):
        found.numpy("sine")
    with pytest.warns(UserWarning, match="is damaged: its samples are computed again"):
        again = run(tmp_path)
    same(again, expected)
    assert again.damaged() == []
    assert files[0].read_bytes() == content[0]


def test_a_full_disk(tmp_path, expected, monkeypatch):
    written = []

    def full(file, real=os.fsync):
        written.append(file)
        if len(written) > 9:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    monkeypatch.setattr(parts.os, "fsync", full)
    with pytest.raises(OSError, match=r"the disk is full with \d+ of 20000 samples stored; make room") as caught:
        run(tmp_path)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    monkeypatch.setattr(task, "PART_BYTES", 100_000)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("part-*")}
    assert 0 < len(kept) < len(expected._parts)
    assert not list(tmp_path.glob(f"{parts.UNFINISHED}*"))
    same(run(tmp_path), expected)
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())


def test_two_writers(tmp_path):
    first = threading.Event()

    def second(*_):
        if not first.is_set():
            first.set()
            with pytest.raises(ValueError, match="another sweep is writing to"):
                run(tmp_path)
            with pytest.raises(ValueError, match="another sweep is writing to"):
                run(tmp_path, shard=(1, 2))

    run(tmp_path, progress=second)
    assert first.is_set()


def test_shards_and_merging(tmp_path, expected):
    for k in (1, 2, 3):
        found = run(tmp_path / f"shard-{k}", shard=(k, 3), batch=(500, 64, 333)[k - 1])
        assert len(found) == 20_000 * k // 3 - 20_000 * (k - 1) // 3
    merged = mbs.sweeps.merge([tmp_path / "shard-3", tmp_path / "shard-1"], tmp_path / "all")
    assert merged.missing == [(6666, 13333)]
    next((tmp_path / "all").glob("part-*")).write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="is damaged"):
        merged = mbs.sweeps.merge([tmp_path / f"shard-{k}" for k in (1, 2, 3)], tmp_path / "all")
    assert merged.missing == []
    same(merged, expected)
    mbs.sweep(jnp.sin, np.arange(3.0), store=tmp_path / "other", progress=False)
    with pytest.raises(ValueError, match="belongs to another sweep"):
        mbs.sweeps.merge([tmp_path / "shard-1", tmp_path / "other"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    # Into one folder at the same time.
    threads = [threading.Thread(target=run, args=(tmp_path / "one",), kwargs={"shard": (k, 2)}) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(mbs.sweeps.Results(tmp_path / "one"), expected)


def test_shards_that_overlap_wait_for_each_other(tmp_path):
    tried = []

    def other(*_):
        if not tried:
            tried.append(True)
            with pytest.raises(ValueError, match="another sweep is writing to"):
                run(tmp_path, shard=(1, 3))
            run(tmp_path, shard=(3, 3))  # another part

    run(tmp_path, shard=(1, 2), progress=other)
    assert mbs.sweeps.Results(tmp_path).missing == [(10_000, 13_333)]


def test_locks_of_the_past_hold_nobody_up(tmp_path):
    """A sweep that was broken off goes on as shards, at the same time."""
    halt = threading.Event()
    halt.set()
    run(tmp_path, halt=halt)
    during = []
    run(tmp_path, shard=(1, 2), progress=lambda *_: during or during.append(run(tmp_path, shard=(2, 2))))
    assert mbs.sweeps.Results(tmp_path).missing == []


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.warns(UserWarning, match="cannot be locked"):
        assert len(run(tmp_path, shard=(1, 10))) == 2000


def test_overlapping_parts_count_once(tmp_path, expected):
    """As from two machines with other shares of the same sweep."""
    run(tmp_path / "a", shard=(1, 2))
    run(tmp_path / "b", shard=(2, 3), batch=300)
    run(tmp_path / "c", shard=(3, 3), batch=300)
    for folder in "bc":
        for path in (tmp_path / folder).glob("part-*"):
            shutil.copy(path, tmp_path / "a")
    found = mbs.sweeps.Results(tmp_path / "a")
    same(found, expected)
    table = found.dataset().to_table(columns=["sample"])
    np.testing.assert_array_equal(np.sort(table["sample"].to_numpy()), np.arange(20_000))
    # Parts that a damaged one overlapped are checked as well.
    for path in [next((tmp_path / "a").glob("part-000000000000-*")), *(tmp_path / "a").glob("part-00000000666*")]:
        path.write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="is damaged"):
        again = run(tmp_path / "a")
    same(again, expected)
    assert again.damaged() == []


def test_stores_of_something_else(tmp_path, expected):
    shutil.copytree(expected.folder, tmp_path / "store")
    folder = tmp_path / "store"

    def refused(message, what=measure, designs=DESIGNS):
        with pytest.raises(ValueError, match=message):
            mbs.sweep(what, designs, store=folder, progress=False)

    refused("another sweep, with another measure", lambda design: measure(design) | {"sine": jnp.cos(design["x"])})
    refused("another sweep, with other results", lambda design: {"sine": design["x"]})
    other = mbs.sweeps.Random({"x": mbs.sweeps.Uniform(0.0, 1.0), "y": mbs.sweeps.Normal([0.0, 1.0], 0.2)}, 20_000)
    refused("other designs: design: y: deviation is 0.1 in the store, 0.2 in this call", designs=other)
    # The same operations under another name are the same measure.
    assert len(mbs.sweep(lambda design: measure(design), DESIGNS, store=folder, progress=False)) == 20_000
    manifest = json.loads((folder / store.MANIFEST).read_text())
    manifest["versions"]["jaxmbs"] = "0.0.1"
    (folder / store.MANIFEST).write_text(json.dumps(manifest))
    refused("was begun with jaxmbs 0.0.1")
    for text in ("{", "[]", "3", '{"format": "jaxmbs sweep"}'):
        (folder / store.MANIFEST).write_text(text)
        refused("is not the store of a sweep")
    (folder / store.MANIFEST).write_text('{"format": "jaxmbs sweep", "version": 1}')
    refused("holds 'jaxmbs sweep' of version 1")
    (folder / store.MANIFEST).unlink()
    refused("has other files and is not the store of a sweep")
    with pytest.raises(ValueError, match="is not the store of a sweep"):
        mbs.sweeps.Results(tmp_path)


def test_reading(expected):
    frame = expected.pandas("sine", "design.x")
    assert list(frame.columns) == ["sine", "design.x", "status"]
    assert frame.index.name == "sample"
    good = frame[frame.status == 0]
    told = expected.quantiles("sine")["sine"]
    assert told["least"] == good.sine.min()
    assert told["largest"] == good.sine.max()
    assert told["50%"] == pytest.approx(good.sine.median(), rel=1e-12)
    assert told["mean"] == pytest.approx(good.sine.mean(), rel=1e-12)
    assert told["deviation"] == pytest.approx(good.sine.std(ddof=0), rel=1e-12)
    table = expected.dataset().to_table(columns=["sample", "sine"])
    assert table.num_rows == 20_000
    assert len(pandas.read_parquet(expected.folder)) == 20_000  # as any other reader
    assert expected.jax("both").shape == (20_000, 2)
    assert sum(len(part["both"]) for part in expected.parts("both")) == 20_000
    with pytest.raises(ValueError, match="no column is called 'cosine'"):
        expected.numpy("cosine")


def test_thinning_follows_no_pattern(tmp_path, monkeypatch):
    """Every fourth of Sobol's points lies in a part of the range."""
    designs = mbs.sweeps.Sobol(mbs.sweeps.Uniform(0.0, 1.0), 4096)
    found = mbs.sweep(lambda x: x, designs, store=tmp_path, progress=False)
    columns, status = found.thinned(1024)
    assert len(status) == pytest.approx(1024, abs=4 * 32)
    assert np.quantile(columns["value"], [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.05)
