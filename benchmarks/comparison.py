"""Tasks × tools: `python benchmarks/comparison.py [--only jaxmbs MuJoCo …] [--page]`, or `make comparison`.

Every tool in a process of its own on one core, compiled before it is timed; every answer is compared with one that none of
them has computed. Writes comparison.json beside this file, and the page docs/comparison.md with its picture. With --only
the other tools' results are kept; --page computes nothing.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import comparison_measures as measures
import comparison_page
import comparison_problem as problem
import comparison_tools as tools
import timing

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "comparison.json"
TASKS = ("turn", "fall", "chain", "slopes")
FIRST = "import sys; sys.path.insert(0, {!r}); import comparison_tools as t; print(t.TOOLS[{!r}].first())"
LIMIT = 1800.0  # seconds that a tool may take


def truths() -> dict:
    """What the answers are compared with; the chain's by Pinocchio, where it is installed."""
    import chains

    fall, angles = problem.Fall(), chains.angles_of(measures.LINKS, problem.BATCH)[: problem.CHECKED]
    found = chains.others_angles(2, measures.LINKS, angles)
    return {
        "one": fall(problem.NOMINAL),
        "batch": [fall(lengths) for lengths in problem.designs(problem.CHECKED)],
        "slopes": fall.slopes().tolist(),
        "chain": [[float("nan")] * measures.LINKS] * problem.CHECKED if found is None else found.tolist(),
    }


def done(name: str, wanted: dict) -> dict:
    """All tasks of a tool, each its result or the reason why there is none."""
    measures.WANTED.update(wanted)
    cannot = tools.TOOLS[name].cannot
    try:
        tool = tools.TOOLS[name]()
    except ImportError as error:
        return {task: {"missing": f"not installed: {error}"} for task in (*TASKS, "first")}
    found = {task: {"missing": cannot[task]} if task in cannot else getattr(tool, task)() for task in TASKS}
    return found | {"first": {"missing": cannot["first"]} if "first" in cannot else first(name)}


def first(name: str) -> dict:
    """Seconds of the processor of a fresh process that simulates one fall: the median of three, and ours with a cache."""
    if not hasattr(tools.TOOLS[name], "first"):
        return {"missing": tools.TOOLS[name].cannot["fall"]}
    result = {"s": sorted(fresh(name) for _ in range(3))[1]}
    if name == "jaxmbs":
        with tempfile.TemporaryDirectory() as folder:
            seconds = [fresh(name, JAXMBS_CACHE=folder) for _ in range(3)]
        result["s, from the cache on disk"] = min(seconds[1:])
    return result


def fresh(name: str, **environment: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", FIRST.format(str(FOLDER), name)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def path() -> list[dict]:
    """Eighteen timed points of a coupler: pylinkage's swarms, and ours with as small an error."""
    import synthesis

    rows = [synthesis.swarm_row("narrow bounds", way, *synthesis.budgets(way)[-1]) for way in synthesis.WAYS]
    return rows + [synthesis.same_error_row("narrow bounds", way) for way in synthesis.WAYS]


def alone(function, *args):
    """The result of a function in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, args).get(LIMIT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=(*tools.TOOLS, "path"), help="the others' results are kept")
    parser.add_argument("--page", action="store_true", help="write the page of the results that are there")
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"tools": {}}
    if not options.page:
        timing.use_one_core()
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        chosen = options.only or (*tools.TOOLS, "path")
        wanted = alone(truths)
        for name in chosen:
            print(name, flush=True)
            if name == "path":
                kept["path"] = alone(path)
            else:
                kept["tools"][name] = alone(done, name, wanted) | {"version": comparison_page.version(name)}
                print("  " + json.dumps(kept["tools"][name], ensure_ascii=False), flush=True)
            kept["tools"] = {name: kept["tools"][name] for name in tools.TOOLS if name in kept["tools"]}
            kept["setting"] = comparison_page.setting()
            RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    comparison_page.write(kept)


if __name__ == "__main__":
    main()
