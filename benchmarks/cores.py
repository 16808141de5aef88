"""The rollout of a large batch on a number of cores: `python benchmarks/cores.py 2` prints ns per system and step."""

import os
import sys

import timing

os.sched_setaffinity(0, set(range(int(sys.argv[1]))))

import jax  # noqa: E402
import models  # noqa: E402
import programs  # noqa: E402
from problem import four_bars  # noqa: E402

jax.config.update("jax_enable_x64", True)

if __name__ == "__main__":
    problem = four_bars(8192, steps=300)
    run, _ = timing.compile_function(
        jax.vmap(programs.rollout(models.four_bar, problem.steps, problem.h)), problem.designs, problem.q, problem.v
    )
    _, runs = timing.measure(run, problem.designs, problem.q, problem.v, repeats=9)
    print(timing.NS * runs.median / problem.count)
