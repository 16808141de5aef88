"""Tasks × tools: `python benchmarks/comparison.py [--only jaxmbs MuJoCo …] [--page]`, or `make comparison`.

Every tool runs in its own process on one core, compiled before it is timed; answers are compared with independent ones.
Writes comparison.json beside this file, and the page docs/comparison.md with its picture. With --only the results of other
tools are kept; --page computes nothing.
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

# Folder of the benchmarks.
FOLDER = Path(__file__).parent
# File of the results of the comparison of tools, from which its page is written.
RESULTS = FOLDER / "comparison.json"
# Tasks of the comparison, names of methods of the tools.
TASKS = ("turn", "fall", "chain", "slopes")
# Program of a fresh process that computes the first result of a tool; the braces are its folder and the tool's name.
FIRST = "import sys; sys.path.insert(0, {!r}); import comparison_tools as t; print(t.TOOLS[{!r}].first())"
# A tool is stopped after this many seconds of wall time and counts as failed.
MAX_TOOL_SECONDS = 1800.0


def reference_answers() -> dict:
    """Return the answers to compare with; that of the chain is by Pinocchio, if installed."""
    import chains

    fall, angles = problem.Fall(), chains.angles_of(measures.LINKS, problem.BATCH)[: problem.CHECKED]
    found = chains.pinocchio_angles(2, measures.LINKS, angles)
    return {
        "one": fall(problem.NOMINAL),
        "batch": [fall(lengths) for lengths in problem.designs(problem.CHECKED)],
        "slopes": fall.slopes().tolist(),
        "chain": [[float("nan")] * measures.LINKS] * problem.CHECKED if found is None else found.tolist(),
    }


def results_of(name: str, wanted: dict) -> dict:
    """Return for each task of a tool its result, or the reason why there is none."""
    measures.WANTED.update(wanted)
    cannot = tools.TOOLS[name].cannot
    try:
        tool = tools.TOOLS[name]()
    except ImportError as error:
        return {task: {"missing": f"not installed: {error}"} for task in (*TASKS, "first")}
    found = {task: {"missing": cannot[task]} if task in cannot else getattr(tool, task)() for task in TASKS}
    return found | {"first": {"missing": cannot["first"]} if "first" in cannot else first(name)}


def first(name: str) -> dict:
    """Return processor seconds of a fresh process with one fall, median of three; for jaxmbs also with a cache."""
    if not hasattr(tools.TOOLS[name], "first"):
        return {"missing": tools.TOOLS[name].cannot["fall"]}
    result = {"s": sorted(process_seconds(name) for _ in range(3))[1]}
    if name == "jaxmbs":
        with tempfile.TemporaryDirectory() as folder:
            seconds = [process_seconds(name, JAXMBS_CACHE=folder) for _ in range(3)]
        result["s, from the cache on disk"] = min(seconds[1:])
    return result


def process_seconds(name: str, **environment: str) -> float:
    """Return processor seconds of a fresh process with the first result of a tool."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", FIRST.format(str(FOLDER), name)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def path() -> list[dict]:
    """Return the rows of path synthesis: pylinkage's swarms, and jaxmbs with as small an error."""
    import synthesis

    rows = [synthesis.swarm_row("narrow bounds", way, *synthesis.budgets(way)[-1]) for way in synthesis.WAYS]
    return rows + [synthesis.same_error_row("narrow bounds", way) for way in synthesis.WAYS]


def in_own_process(function, *args):
    """Return the result of a function in its own process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, args).get(MAX_TOOL_SECONDS)


def main():
    """Run the command line: measure tools, and write the results file and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=(*tools.TOOLS, "path"), help="tools to measure")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"tools": {}}
    if not options.page:
        timing.use_one_core()
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        chosen = options.only or (*tools.TOOLS, "path")
        wanted = in_own_process(reference_answers)
        for name in chosen:
            print(name, flush=True)
            if name == "path":
                results["path"] = in_own_process(path)
            else:
                found = in_own_process(results_of, name, wanted)
                results["tools"][name] = found | {"version": comparison_page.version(name)}
                print("  " + json.dumps(results["tools"][name], ensure_ascii=False), flush=True)
            results["tools"] = {name: results["tools"][name] for name in tools.TOOLS if name in results["tools"]}
            results["setting"] = comparison_page.setting()
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    comparison_page.write(results)


if __name__ == "__main__":
    main()
