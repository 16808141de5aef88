"""Workers of several kinds, and eight devices: the same store as from one process on one device."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs

SIZE = 6000
DESIGNS = mbs.sweeps.LatinHypercube({"x": mbs.sweeps.Uniform(0.0, 1.0)}, SIZE)


def measure(design):
    return {"y": jnp.exp(design["x"]), "status": jnp.where(design["x"] > 0.5, 1, 0)}


def check(found):
    x = np.asarray(DESIGNS.rows(0, SIZE)["x"])
    assert found.missing == []
    np.testing.assert_array_equal(found.numpy("design.x"), x)
    np.testing.assert_allclose(found.numpy("y"), np.exp(x), rtol=1e-14)
    np.testing.assert_array_equal(found.numpy("sample"), np.arange(SIZE))


class Losing(Executor):
    """An executor each of whose workers is lost with its first task, as one that a cluster takes away."""

    def __init__(self, lost: int, error: Exception | None = None):
        self.lost, self.error = lost, error or RuntimeError("the node went away")
        self.tried: list[tuple] = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        self.tried.append(args[2:4])
        if len([x for x in self.tried if x == args[2:4]]) <= self.lost:
            future.set_exception(self.error)
        else:
            future.set_result(fn(*args, **kwargs))
        return future


class Jobs:
    """An executor whose jobs are not futures, as those of submitit."""

    class Job:
        def __init__(self, call):
            self.call, self.asked = call, 0

        def done(self):
            self.asked += 1
            return self.asked > 1

        def result(self):
            return self.call()

        def cancel(self):
            pass

    def submit(self, fn, /, *args):
        return self.Job(lambda: fn(*args))


def test_jobs_that_are_no_futures(tmp_path):
    check(mbs.sweep(measure, DESIGNS, store=tmp_path, batch=3000, executor=Jobs(), progress=False))


def test_each_worker_has_something_to_do(tmp_path):
    losing = Losing(lost=0)
    losing._max_workers = 4
    check(mbs.sweep(measure, DESIGNS, store=tmp_path, executor=losing, progress=False))
    assert len(losing.tried) == 8


def test_workers_stop_when_they_are_told_to(tmp_path):
    """Once the first range of samples is there, workers end within theirs."""
    halt = threading.Event()
    slowly = lambda x: time.sleep(0.02) or float(x)
    told = lambda done, total, counts: halt.set()
    with ThreadPoolExecutor(2) as pool:
        options = {"traced": False, "executor": pool, "halt": halt, "progress": told}
        found = mbs.sweep(slowly, np.arange(400.0), store=tmp_path, **options)
    assert 100 <= len(found) < 300  # four ranges of 100, two at a time


def test_errors_of_the_measure_are_not_those_of_a_worker(tmp_path):
    def wrong(design):
        if design["x"] > 0.5:
            raise TypeError("this is not a number")
        return 1.0

    losing = Losing(lost=0)
    with pytest.raises(TypeError, match="this is not a number"):
        mbs.sweep(wrong, {"x": np.arange(10) / 10}, store=tmp_path, traced=False, executor=losing, progress=False)
    assert len(mbs.sweeps.Results(tmp_path)) == 6  # before the first that fails


def test_lost_workers(tmp_path):
    """A range is tried three times; after that what is stored stays."""
    losing = Losing(lost=2)
    check(mbs.sweep(measure, DESIGNS, store=tmp_path / "a", batch=1000, executor=losing, progress=False))
    assert len(losing.tried) == 18
    cut = Losing(lost=1, error=ConnectionResetError("cut"))
    check(mbs.sweep(measure, DESIGNS, store=tmp_path / "c", batch=1000, executor=cut, progress=False))
    with pytest.raises(
        RuntimeError, match=r"a worker was lost with samples \d+ to \d+: the node went away. Stored samples"
    ):
        mbs.sweep(measure, DESIGNS, store=tmp_path / "b", batch=1000, executor=Losing(lost=3), progress=False)


class Deadly:
    """As a measure that a process can be sent."""

    def __init__(self, mark):
        self.mark, self.here = mark, os.getpid()

    def __call__(self, design):
        if os.getpid() != self.here and not os.path.exists(self.mark):
            with open(self.mark, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return measure(design)


def test_processes(tmp_path):
    """A pool whose process dies is broken, which is told; the next sweep goes on."""
    deadly = Deadly(str(tmp_path / "mark"))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool, pytest.raises(RuntimeError, match="a worker was lost"):
        mbs.sweep(deadly, DESIGNS, store=tmp_path / "a", batch=2000, executor=pool, progress=False)
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        check(mbs.sweep(deadly, DESIGNS, store=tmp_path / "a", batch=2000, executor=pool, progress=False))


def test_what_cannot_be_sent(tmp_path):
    lock = multiprocessing.Lock()

    def locked(design):
        assert lock
        return measure(design)

    with pytest.raises(ValueError, match="measure and designs must be picklable"):
        mbs.sweep(locked, DESIGNS, store=tmp_path, batch=1000, executor=Losing(0), progress=False)


# Dask warns of ports that are taken and of what its own dependencies deprecate.
@pytest.mark.filterwarnings("ignore")
def test_dask_with_a_worker_killed_in_flight(tmp_path):
    """Two worker processes, one of which is killed while it computes: its samples are computed by the other."""
    from distributed import Client, LocalCluster

    def slowly(design):
        time.sleep(0.001)
        return {"y": np.exp(design["x"]), "status": int(design["x"] > 0.5)}

    # The settings of the tests' own process are not those of the workers.
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
    with cluster, Client(cluster) as client:
        pids, killed = client.run(os.getpid), []

        def kill(done, total, counts):
            if not killed and done < total:
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        executor = client.get_executor()
        # One design after the other takes long enough to be killed within.
        options = {"traced": False, "batch": 100, "executor": executor, "progress": kill}
        found = mbs.sweep(slowly, DESIGNS, store=tmp_path, **options)
        assert killed
        check(found)


SCRIPT = """
import re, sys
import jax, jax.numpy as jnp, numpy as np
import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.sweeps import task

jax.config.update("jax_enable_x64", True)
assert len(jax.devices()) == 8

def crank(length):
    bodies = {name: planar.Body() for name in ("crank", "rod", "rocker")}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (length, 0), (0, 0)),
        "B": planar.Revolute("rod", "rocker", (3.0, 0), (2.5, 0)),
        "C": planar.Revolute("ground", "rocker", (3.5, 0), (0, 0)),
    }
    return mbs.Mechanism(bodies, joints, {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))})

guess = {"rod": (1.0, 0.0, 0.9), "rocker": (3.5, 0.0, 1.8)}
times = np.linspace(0.0, 1.0, 12)

def measure(length):
    motion = mbs.kinematics(crank(length), times, guess)
    return {"swing": jnp.ptp(motion.position("rocker.phi")), "status": motion.status}

designs = mbs.sweeps.Sobol(mbs.sweeps.Uniform(0.9, 1.1), 40_000)

def swept(name):
    return mbs.sweep(measure, designs, store=sys.argv[1] + "/" + name, batch=8000, progress=False)

many = task.Task(measure, designs)
rows = task.shard_over_devices(many._designs(0, 8000))
text = many._compute.lower(rows).compile().as_text()
assert "num_partitions=8" in text and not any(x in text for x in ("all-gather", "all-reduce", "all-to-all", "collective"))
# Code of one device has arrays of its 1000 samples, and none of all 8000.
sizes = re.findall(r"\\d+", " ".join(re.findall(r"\\[[\\d,]+\\]", text)))
assert "1000" in sizes and "8000" not in sizes, sizes
found = swept("many")
jax.local_devices = lambda: [jax.devices()[0]]
expected = swept("one")
for name, array in expected.numpy().items():
    np.testing.assert_array_equal(found.numpy(name), array)
assert found.statuses() == {"CONVERGED": 40_000}
"""


def test_eight_devices(tmp_path):
    """Batches are shared out: nothing is communicated, and no device computes the samples of another."""
    flags = "--xla_force_host_platform_device_count=8 --xla_cpu_multi_thread_eigen=false"
    environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
