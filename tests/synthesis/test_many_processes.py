"""Processes of `jax.distributed` share samples and starts, and each gets the result of one process alone."""

import json
import os
import socket
import subprocess
import sys

import numpy as np

SCRIPT = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
import jaxmbs as mbs
from jaxmbs import planar

count, number, port = map(int, sys.argv[1:])
jax.config.update("jax_enable_x64", True)
if count > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", count, number)

def crank(length, rod):
    bodies = {name: planar.Body() for name in ("crank", "rod", "slider")}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (length, 0), (0, 0)),
        "B": planar.Revolute("rod", "slider", (rod, 0), (0, 0)),
        "guide": planar.Translational("ground", "slider", (0, 0), (0, 0)),
    }
    return mbs.Mechanism(bodies, joints, {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))})

def cost(design, wear):
    guess = {"rod": (1, 0, 0), "slider": (3, 0, 0)}
    mech = crank(design["crank"] + wear["crank"], design["rod"] - wear["rod"])
    motion = mbs.kinematics(mech, np.linspace(0, 2, 5), guess)
    return jnp.mean((motion.position("slider.x") - 2.0) ** 2), {"all": jnp.mean(motion.status == 0)}

dice = np.random.default_rng(0)
wear = {"crank": 0.05 * dice.random(7), "rod": 0.05 * dice.random(7)}
design, options = {"crank": 1.0, "rod": 2.0}, {"steps": (2, 2), "keep": 4}
by_samples = mbs.synthesis.minimise(cost, design, samples=wear, starts=3, **options)
none = {"crank": 0.0, "rod": 0.0}
by_starts = mbs.synthesis.minimise(lambda design: cost(design, none), design, starts=5, **options)
turn = np.linspace(0, 5, 6)
path = mbs.synthesis.path(np.stack([1 + 0.4 * np.cos(turn), np.sin(turn)], axis=1), starts=32).best
found = [[one.value, one.checks["slope"], *one.design.values()] for one in (*by_samples.all, *by_starts.all)]
print(json.dumps([*found, [path.design["crank"], path.design["coupler"]], [len(jax.devices())]]))
"""


def test_two_processes_find_what_one_finds():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def started(count):
        command = lambda number: [sys.executable, "-c", SCRIPT, str(count), str(number), str(port)]
        running = [
            subprocess.Popen(command(k), env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for k in range(count)
        ]
        ends = [process.communicate(timeout=300) for process in running]
        assert [process.returncode for process in running] == [0] * count, ends[0][1][-3000:]
        return [json.loads(out.splitlines()[-1]) for out, _ in ends]

    (alone,) = started(1)
    first, second = started(2)
    assert first == second
    assert alone.pop() == [1]
    assert first.pop() == [2]
    assert len(alone) > 5
    for one, two in zip(alone, first, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-12)
