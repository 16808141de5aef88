"""Cost of a sweep beside its kernel: `python benchmarks/sweeps.py [samples poses]`, samples of a four-bar's kinematics.

Measures in turn, so that changes of the machine's speed affect both: samples by the compiled program alone, from one batch
of designs that is ready; and a sweep of as many, from Sobol's points to files on the disk. Without arguments both cases of
`CASES` are measured in a process each, and stored as the table "sweeps" of results.json.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import models
import numpy as np
import timing

import jaxmbs as mbs
from jaxmbs.sweeps import task

jax.config.update("jax_enable_x64", True)

# Number of parts of the samples; for each part the bare computation and then the sweep are timed.
TURNS = 10
# Samples and poses of each, for the stored results.
CASES = ((20_000_000, 1), (4_000_000, 12))
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


def report(samples, times, folder):
    """Return the row of a sweep with this number of samples, each of some poses: its parts, and the bare computation."""
    measure, designs = measure_of(times), designs_of(samples)
    own, share = task.Task(measure, designs), samples // TURNS

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
    return {
        "name": f"{times} poses",
        "kind": "jaxmbs",
        "samples": TURNS * share,
        "batch": batch,
        **{f"kernel, {name}": x for name, x in zip(names, alone.tolist(), strict=True)},
        **{f"sweep, {name}": x for name, x in zip(names, whole.tolist(), strict=True)},
        "added ns of CPU": timing.NS * (whole[1] - alone[1]) / (TURNS * share),
        "largest memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "store, bytes per sample": size / (TURNS * share),
    }


def main():
    """Run the command line: print the row of one sweep, or store those of all cases."""
    if sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(report(*map(int, sys.argv[1:]), Path(folder))))
        return
    rows = []
    for case in CASES:
        command = [sys.executable, __file__, *map(str, case)]
        rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(timing.line_of(rows[-1]))
    timing.save({"sweeps": rows}, None)


if __name__ == "__main__":
    main()
