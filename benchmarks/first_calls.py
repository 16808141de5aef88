"""First calls of functions: CPU seconds with an empty cache folder, and in a second process with the filled one."""

import os
import resource
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

# Folder of the benchmarks.
FOLDER = Path(__file__).parent
# Program that each process runs first: it times the import of jaxmbs and defines the models. The code of a case, which
# defines `call`, follows it.
BEGIN = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, {folder!r})
import jax
begin = time.process_time()
import jaxmbs as mbs
imported = time.process_time() - begin
import jax.numpy as jnp
import models
mbs.enable_cache()
jax.config.update("jax_enable_x64", True)
times = jnp.linspace(0.0, 1.0, 11)
bars = jax.tree.map(jnp.asarray, models.FOUR_BAR)
start = models.four_bar_guess(models.FOUR_BAR)
driven = lambda b: models.four_bar(b, motor=True)
last = lambda run: jnp.sum(run.q[-1] ** 2)
turn = lambda b: mbs.kinematics(driven(b), times, start)
def swing(b, formulation=None):
    mech = models.four_bar(b)
    return mbs.simulate(mech, times, start, None, step=0.01, method=mbs.RK4(), formulation=formulation)
"""
# Program that times `call`, at the end of each process.
END = """
begin = time.process_time()
jax.block_until_ready(jax.tree.leaves(call()))
seconds = time.process_time() - begin
# `ru_maxrss` includes the memory of the parent at the fork; the file of the process does not.
own = Path("/proc/self/status")
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if own.exists():
    kilobytes = int(own.read_text().split("VmHWM:")[1].split()[0])
print(imported, seconds, kilobytes / 1024)
"""
# Code that defines `call`, for each case.
CASES = {
    "assemble, four-bar": "call = lambda: mbs.assemble(driven(bars), start)",
    "kinematics, four-bar": "call = lambda: turn(bars).q",
    "kinematics, four-bar, gradient": "call = lambda: jax.grad(lambda b: last(turn(b)))(bars)",
    "find_singularities, four-bar": "call = lambda: mbs.find_singularities(driven(bars), times, start).times",
    "simulate, four-bar": "call = lambda: swing(bars).q",
    "simulate, four-bar, gradient": "call = lambda: jax.grad(lambda b: last(swing(b)))(bars)",
    "simulate, four-bar, joint coordinates": "call = lambda: swing(bars, mbs.JointCoordinates()).q",
    "simulate, four-bar, joint coordinates, gradient": """
call = lambda: jax.grad(lambda b: last(swing(b, mbs.JointCoordinates())))(bars)""",
    "simulate, Andrews": """
mech, guess = models.squeezer(), models.andrews_guess(models.ANDREWS)
call = lambda: mbs.simulate(mech, 0.03 * times, guess, None, step=1e-3).q""",
    "simulate, Andrews, gradient by the start": """
mech, guess = models.squeezer(), models.andrews_guess(models.ANDREWS)
q = mech.coordinates(mbs.assemble(mech, guess).q)
call = lambda: jax.grad(lambda q: last(mbs.simulate(mech, 0.03 * times, q, None, step=1e-3)))(q)""",
    "reactions, Andrews": """
mech, guess = models.squeezer(), models.andrews_guess(models.ANDREWS)
run = mbs.simulate(mech, 0.03 * times, guess, None, step=1e-3)
call = lambda: mbs.reactions(mech, run)""",
    **{
        f"simulate, {n} windows": f"""
call = lambda: mbs.simulate(models.windows({n}), times, *models.windows_start({n}), step=0.01).q"""
        for n in (5, 10, 40)
    },
    **{
        f"simulate, spatial chain of {n}": f"""
import chains
mech = chains.chain(chains.lengths_of({n}), 3)
theta = chains.angles_of({n}, 1)[0]
call = lambda: mbs.simulate(mech, times, mbs.JointCoordinates().of(mech).configuration(theta), None, step=0.01,
                            formulation=mbs.JointCoordinates()).q"""
        for n in (32, 256)
    },
    **{
        f"simulate, Natural, spatial chain of {n}": f"""
import chains
mech = chains.chain(chains.lengths_of({n}), 3)
theta = chains.angles_of({n}, 1)[0]
start = mbs.JointCoordinates().of(mech).configuration(theta)
call = lambda: mbs.simulate(mech, times, start, None, step=0.01, formulation=mbs.Natural()).q"""
        for n in (1, 2, 4)
    },
}
# Folder of the model files that commands read.
MODELS = FOLDER.parent / "examples/models"
# Arguments of the commands of `jaxmbs` that are timed with their whole process.
COMMANDS = {
    "jaxmbs check": ("check", str(MODELS / "slider_crank.json")),
    "jaxmbs simulate": ("simulate", str(MODELS / "four_bar.xml")),
}


def environment(folder):
    """Return the environment of a timed process: a cache in `folder`, and Python's compiled modules are kept on disk."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"JAXMBS_CACHE": str(folder)}


@lru_cache
def compile_modules():
    """Run a process that imports what first calls import, so that no timed one compiles Python modules."""
    script = BEGIN.format(folder=str(FOLDER)) + CASES["simulate, four-bar, gradient"] + END
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", script], env=environment(folder), capture_output=True, check=True)


def command_row(name):
    """Return CPU seconds of a command with imports, the first and the second time."""
    compile_modules()
    arguments = [sys.executable, "-m", "jaxmbs.cli", *COMMANDS[name]]
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for _ in range(2):
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(arguments, env=environment(folder), capture_output=True, check=True)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
    cold, second = seconds
    return {
        "name": name,
        "kind": "jaxmbs",
        "first call s": cold,
        "second process s": second,
        "note": "the whole process",
    }


def first_call_row(name):
    """Return CPU seconds of a first call, and in a second process; and the memory of the first process."""
    compile_modules()
    command = [sys.executable, "-c", BEGIN.format(folder=str(FOLDER)) + CASES[name] + END]
    with tempfile.TemporaryDirectory() as folder:
        options = {"env": environment(folder), "capture_output": True, "text": True, "check": True}
        runs = [subprocess.run(command, **options) for _ in range(2)]
    (imported, cold, memory), (_, second, _) = (map(float, run.stdout.split()) for run in runs)
    return {
        "name": name,
        "kind": "jaxmbs",
        "first call s": cold,
        "second process s": second,
        "import s": imported,
        "MB": memory,
        "note": "CPU seconds, import jax and import jaxmbs not counted",
    }
