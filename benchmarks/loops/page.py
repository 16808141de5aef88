"""The page README.md of the benchmark of closed loops, written from its results."""

from pathlib import Path

# The page.
PAGE = Path(__file__).parent / "README.md"
# Text above the tables, with braces for numbers.
HEAD = """# Closed loops

`python benchmarks/loops/run.py --page` writes this page from results.json. Six passive mechanisms with one to seven loops
move under gravity from the same start in every tool. `models.py` has their dimensions, `files/` their MJCF files, which
jaxmbs writes, and their numbers as JSON.

Every tool doubles its number of steps until the places of all bodies at the end agree with a converged motion within
{error:g} of the size of the mechanism. Times are medians of several runs: processor seconds on one core, or seconds of wall
time on a GPU. The gap is the largest distance between two points that a joint holds
together at the end, divided by the size. The first call is the processor time of a fresh process up to the first result.
Memory is the peak of the process without derivatives. Gradients are by all points of all joints.

```
python benchmarks/loops/run.py
python benchmarks/loops/run.py --only jaxmbs MuJoCo --models walker --batches 1 64
python benchmarks/loops/run.py --wheels FOLDER
```

On a machine with a graphics card, install the tools (or give their wheels by `--wheels`, also in parts `name.whl.part0`, …)
and run the command with `--only` for the tools to measure there. Each row keeps the name of its machine. `MuJoCo Warp` and
`Newton, Kamino` have never been run by the authors: their classes in `tools_gpu.py` may need changes.
"""
# Columns of the tables besides batches: title and key.
COLUMNS = {
    "steps": "steps",
    "error": "error",
    "gap": "gap",
    "first call (s)": "first call s",
    "memory (MB)": "peak MB",
    "gradient (s)": "gradient s",
}


def cell(value) -> str:
    """Return a number for a table."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:,.0f}" if value >= 1000 else f"{value:.2g}"


def text_of(results: dict) -> str:
    """Return the page of results."""
    lines, settings, machines = [HEAD.format(error=results["wanted error"])], {}, {}
    found = [key for rows in results["rows"].values() for row in rows.values() for key in row]
    batches = sorted({int(key.rpartition(" ")[2]) for key in found if key.startswith("steps per s")})
    rates = {f"steps/s, batch {batch:,}": f"steps per s, batch {batch}" for batch in batches}
    columns = {**COLUMNS, **rates}
    for mechanism, rows in results["rows"].items():
        lines += [f"## {mechanism[0].upper()}{mechanism[1:]}\n", "| tool | " + " | ".join(columns) + " | remark |"]
        lines.append("|---" * (len(columns) + 2) + "|")
        for name, row in rows.items():
            cells = [cell(row.get(key)) for key in columns.values()]
            late = row.get("error") is None or row["error"] > results["wanted error"]
            remark = row.get("reason") or ("error not reached" if late else "")
            lines.append(f"| {name} | {' | '.join(cells)} | {remark.replace('|', '/')} |")
            if "settings" in row:
                settings[name] = f"{row['version']}: {row['settings']}"
            machine = row["machine"]
            text = f"{machine['processor']}, {machine['system']}, Python {machine['python']}, {machine['date']}"
            machines.setdefault(text, {})[name] = None
        lines.append("")
    lines.append("## Settings\n")
    lines += [f"- {name} {text}" for name, text in settings.items()]
    lines.append("\n## Machines\n")
    lines += [f"- {text}: {', '.join(names)}" for text, names in machines.items()]
    return "\n".join(lines) + "\n"


def write(results: dict) -> None:
    """Write the page."""
    PAGE.write_text(text_of(results))
