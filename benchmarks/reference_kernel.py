"""The speed limit: the handwritten `four_bar.cpp`, compiled here and called through ctypes."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

# C++ source of the handwritten kernel.
SOURCE = Path(__file__).with_name("four_bar.cpp")
# Flags of the C++ compiler. Scheduling before register allocation is off by default and gains a fifth; it changes no
# value.
FLAGS = ("-O3", "-march=native", "-fschedule-insns", "-fsched-pressure")
# Names of the lengths of a four-bar.
LENGTHS = ("crank", "coupler", "rocker", "ground")


class NoCompiler(RuntimeError):
    """There is no C++ compiler, or it refuses the source."""


def shared_library(source, flags=FLAGS, after=()):
    """Compile a C++ source in a temporary folder and load it; `after` follows the source on the command line.

    Raises:
        NoCompiler: with the reason.
    """
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompiler("neither g++ nor clang++ is installed")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "library.so"
        command = [compiler, "-std=c++17", *flags, "-shared", "-fPIC", str(source), *after, "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NoCompiler(f"{Path(compiler).name}: {done.stderr.strip().splitlines()[0]}")
        return ctypes.CDLL(str(target))


def rollout_of(library):
    """Return the `rollout` of a library: a function of designs, q and v (batch, n), step and number of steps."""
    pointer = ctypes.POINTER(ctypes.c_double)
    library.rollout.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_double, pointer, pointer, pointer]
    library.rollout.restype = None

    def rollout(designs, q, v, h, steps):
        """Return final q and v (batch, n) of four-bars after `steps` steps of length h."""
        arrays = (np.stack([designs[name] for name in LENGTHS]), np.transpose(q), np.transpose(v))
        lengths, q, v = (np.array(array, dtype=np.float64, order="C") for array in arrays)
        library.rollout(q.shape[1], steps, h, *(array.ctypes.data_as(pointer) for array in (lengths, q, v)))
        return q.T, v.T

    return rollout


class Kernel:
    """The compiled kernel.

    Attributes:
        rollout: function that returns q and v (batch, 9) after `steps` steps; see `rollout_of`.
        per_evaluation, per_step: numbers of scalar operations, counted by running it on numbers that count them.
    """

    def __init__(self, *flags):
        library = shared_library(SOURCE, (*FLAGS, *flags))
        self.rollout = rollout_of(library)
        for name in ("per_evaluation", "per_step"):
            count = getattr(library, f"operations_{name}")
            count.restype = ctypes.c_long
            setattr(self, name, count())
