"""`python -m verification`: compute all cases, print the table, write results.json, the pages and the pictures."""

import argparse
import json
import sys
import time

from verification import motions, page, precision, run
from verification.case import CASES, Result


def lines_of(result: Result) -> str:
    """Return a case and its comparisons as text."""
    mark = lambda holds: "  " if holds else "!!"
    rows = [f"{mark(result.holds)} {result.name} ({result.seconds:.1f} s)"]
    rows += [f"      !! {result.error}"] * bool(result.error)
    for line in result.comparisons:
        amount = f"{line.deviation:8.1e}  of {line.tolerance:8.1e} {line.unit}"
        rows.append(f"      {mark(line.holds)} {line.quantity:55} {'' if line.unit == 'the same' else amount}".rstrip())
    return "\n".join(rows)


def work_and_precision(jobs: int) -> list[dict]:
    """Measure all curves, draw the diagram, and return the curves for the results file."""
    curves = {}
    for task, curve in run.in_processes(precision.curve, precision.tasks(), jobs):
        curves[task] = curve
        numbers = ", ".join(f"{point.error:.1e} in {1e3 * point.seconds:.3g} ms" for point in curve.points)
        print(
            f"   {task[0]}, {curve.tool}, {curve.label}: {curve.missing or numbers} {'; '.join(curve.failed)}",
            flush=True,
        )
    problems = precision.as_json(curves)
    page.diagram(problems)
    return problems


def main() -> int:
    """Run the command line: compute cases and write results and page; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m verification", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", nargs="*", help="words in the names of cases; writes no files")
    parser.add_argument("--missing", action="store_true", help="only cases that the last run lacks")
    parser.add_argument("--table-only", action="store_true", help="keep pictures and diagrams of the last run")
    options = parser.parse_args()
    begin, before = time.perf_counter(), run.read()
    known = [case for case in before.get("cases", []) if options.missing and case["name"] in CASES]
    wanted = lambda name: not options.only or any(word in name for word in options.only)
    names = [name for name in CASES if wanted(name) and name not in {case["name"] for case in known}]
    results = []
    for result in run.results_of(names, options.jobs):
        results.append(result)
        print(lines_of(result), flush=True)
    if not options.only:
        measured = before.get("precision", [])
        if not (options.table_only or options.missing):
            motions.draw_sheet()
            measured = work_and_precision(options.jobs)
        wall = time.perf_counter() - begin + (60 * before["setting"]["minutes"] if known else 0)
        content = run.as_json(known, results, options.jobs, wall) | {"precision": measured}
        run.RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        page.write(content)
    bad = [result.name for result in results if not result.holds]
    lines = sum(len(result.comparisons) for result in results)
    minutes = (time.perf_counter() - begin) / 60
    print(
        f"\n{len(results)} cases, {lines} lines, {len(bad)} cases out of tolerance, {minutes:.1f} min", *bad, sep="\n  "
    )
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())
