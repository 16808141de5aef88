"""Cost of a sweep beside its kernel: `python benchmarks/sweeps.py 100000000`, samples of a four-bar's kinematics.

Measures in turn, so that changes of the machine's speed affect both: samples by the compiled program alone, from one batch
of designs that is ready; and a sweep of as many, from Sobol's points to files on the disk.
"""

import argparse
import json
import resource
import shutil
import tempfile
import time
from pathlib import Path

import jax
import models
import numpy as np

import jaxmbs as mbs
from jaxmbs.sweeps import task

jax.config.update("jax_enable_x64", True)

# Number of parts of the samples; for each part the bare computation and then the sweep are timed.
TURNS = 10
# Closed configuration of the nominal four-bar.
GUESS = models.four_bar_guess(models.FOUR_BAR)


def measure_of(times):
    """Return the measure of the largest height of a coupler point over a number of times of a turn."""
    angles = np.linspace(0, 2 * np.pi, times, endpoint=False)

    def measure(b):
        """Return the largest height of the coupler point, and the status."""
        motion = mbs.kinematics(models.four_bar(b, motor=True), angles, GUESS)
        return {"top": motion.point("coupler", (0.0, 1.0))[:, 1].max(), "status": motion.status}

    return measure


def designs_of(size):
    """Return Sobol's designs within 1 % of the nominal four-bar."""
    spread = {name: mbs.sweeps.Uniform(0.99 * x, 1.01 * x) for name, x in models.FOUR_BAR.items()}
    return mbs.sweeps.Sobol(spread, size)


def seconds(function):
    """Return wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return np.array([time.perf_counter() - wall, time.process_time() - cpu])


def main():
    """Run the command line: time a sweep, its parts, and the bare computation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=int, nargs="?", default=4_000_000)
    parser.add_argument("--times", type=int, default=1, help="poses of each sample")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    measure, designs = measure_of(options.times), designs_of(options.samples)
    own, share = task.Task(measure, designs), options.samples // TURNS

    def sweep_part(k):
        """Compute and store one of the parts of the sweep."""
        for _ in own.run(folder, k * share, (k + 1) * share):
            pass

    with tempfile.TemporaryDirectory() as warm:  # compiles, and tunes the batch
        for _ in own.run(Path(warm), 0, min(share, 2_000_000)):
            pass
    batch, _ = own.batches.next(share, None)
    rows, program = own._designs(0, batch), own.batches.program(batch)

    def bare():
        """Compute the same samples without storing anything."""
        for _ in range(-(-share // batch)):
            result = program(rows)
        jax.block_until_ready(result)

    alone, whole = np.zeros(2), np.zeros(2)
    for k in range(TURNS):
        alone += seconds(bare)
        whole += seconds(lambda k=k: sweep_part(k))
    alone *= share / (batch * -(-share // batch))
    size = sum(path.stat().st_size for path in folder.iterdir())
    names = ("wall seconds", "CPU seconds")
    report = {
        "samples": TURNS * share,
        "poses of each": options.times,
        "batch": batch,
        **{f"kernel, {name}": x for name, x in zip(names, alone.tolist(), strict=True)},
        **{f"sweep, {name}": x for name, x in zip(names, whole.tolist(), strict=True)},
        "sweep over kernel, wall and CPU": (whole / alone).tolist(),
        "largest memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "store, bytes per sample": size / (TURNS * share),
    }
    print(json.dumps(report, indent=1))
    if options.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
