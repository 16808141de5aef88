"""Numbers of pages, inserted from the files of results: `50<!-- ns("rollout", "jaxmbs, LLVM") -->`.

A marker is a comment with an expression. The word before it, back to a space, a bracket or a bar, is replaced by the
value. Values of several words stand between `<!-- text: expression -->` and `<!-- end -->`, tables between
`<!-- table: expression -->` and `<!-- end -->` on lines of their own. `python docs/site/number_markers.py`
rewrites pages, README, paper and the notebooks; the site inserts the values again when it is built, and shows no comments.

Expressions are Python with the functions of `Values`.
"""

import json
import math
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Folder of the repository.
ROOT = Path(__file__).parents[2]
# A marker: the text that it replaces, and its expression.
MARKER = re.compile(r"(?P<text>[^\s|()\[\]]+)<!-- (?P<expression>[a-z_]+\(.*?\)) -->")
# A text of several words, or a table, which is replaced as a whole.
BLOCK = re.compile(
    r"<!-- (?P<kind>text|table): (?P<expression>.*?) -->(?P<line>\n?)(?P<text>.*?)<!-- end -->", re.DOTALL
)
# A sum of squares below this is zero, apart from rounding.
ROUNDING = 1e-20
# Smaller errors are written with a power of ten.
SMALLEST_DECIMAL = 1e-3
# Digits of exponents.
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Place of a number in a file of results: table, name of the row, and field, which may be left out.
Place = tuple[str, ...]


class Values:
    """Functions that expressions use. Each returns text.

    Args:
        root: folder of the repository from which the files of results are read.
        scale: factor of each number, for tests.
    """

    def __init__(self, root: Path = ROOT, scale: float = 1.0):
        read = lambda path: json.loads((root / path).read_text("utf-8"))
        self.bench, self.peers = read("benchmarks/results.json"), read("benchmarks/comparison.json")
        self.verification = read("verification/results.json")
        self.published = read("benchmarks/published.json")
        self.robots = read("benchmarks/robots.json")
        self.gpu_page = (root / "benchmarks/gpu.md").read_text("utf-8")
        self.scale = scale

    def evaluate(self, expression: str) -> str:
        """Return the text of an expression. An unknown name, table or row raises the error of the lookup."""
        public = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        return eval(expression, {"__builtins__": {}, "min": min, "max": max}, public)

    def row(self, table: str, name: str) -> dict[str, Any]:
        """Return the first row of a table of the benchmarks with this name."""
        return next(row for row in self.bench["tables"][table] if row["name"] == name)

    def number(self, table: str, name: str, field: str = "ns") -> float:
        """Return a number of the benchmarks."""
        return self.scale * self.row(table, name)[field]

    def value(self, table: str, name: str, field: str = "ns", digits: int = 2) -> str:
        """Return a number of the benchmarks with some significant digits."""
        return rounded(self.number(table, name, field), digits)

    def ns(self, table: str, name: str, digits: int = 2) -> str:
        """Return nanoseconds of a row."""
        return rounded(self.number(table, name), digits)

    def us(self, table: str, name: str, digits: int = 2) -> str:
        """Return the nanoseconds of a row as microseconds."""
        return rounded(self.number(table, name) / 1e3, digits)

    def rate(self, table: str, name: str, digits: int = 2) -> str:
        """Return the million evaluations per second of a row in nanoseconds."""
        return rounded(1e3 / self.number(table, name), digits)

    def ratio(self, over: Place, under: Place, digits: int = 2) -> str:
        """Return the quotient of two numbers of the benchmarks."""
        return rounded(self.scale * self.number(*over) / self.number(*under), digits)

    def range_of(self, places: Iterable[Place], digits: int = 2) -> str:
        """Return the smallest and the largest of numbers, "3.0–3.9"."""
        numbers = [self.number(*place) for place in places]
        return f"{rounded(min(numbers), digits)}–{rounded(max(numbers), digits)}"

    def setting(self) -> str:
        """Return batch, steps, precision and machine of the benchmarks."""
        at = self.bench["setting"]
        machine = at.get("machine", at["processor"])
        return f"{at['batch']:,} samples, {at['steps']} steps, {at['dtype']}, one core of {machine}"

    def machine(self) -> str:
        """Return the name of the processor of the benchmarks."""
        at = self.bench["setting"]
        return at.get("machine", at["processor"])

    def gpu(self, case: str, dtype: str, samples: str, digits: int = 2, code: str = "kernel") -> str:
        """Return the steps per second of a case on the GPU, as "5.4·10⁹"; `samples` is a column, as "2^20"."""
        return power_of_ten(self._gpu(case, dtype, samples, code), digits)

    def gpu_billions(self, case: str, dtype: str, samples: str, digits: int = 2) -> str:
        """Return the billion steps per second of a case on the GPU."""
        return rounded(self._gpu(case, dtype, samples, "kernel") / 1e9, digits)

    def gpu_ratio(self, over: Place, under: Place, digits: int = 2) -> str:
        """Return the quotient of two rates on the GPU; each place is case, type, samples, and the code if no kernel."""
        rates = [self._gpu(*(*place, "kernel")[:4]) for place in (over, under)]
        return rounded(self.scale * rates[0] / rates[1], digits)

    def gpu_step_us(self, case: str, dtype: str, samples: str) -> str:
        """Return the microseconds in which each sample of a batch takes a step, all side by side."""
        count = 2 ** int(samples.partition("^")[2])
        return rounded(1e6 * self.scale**2 * count / self._gpu(case, dtype, samples, "kernel"), 2)

    def gpu_step_over_cpu(self, case: str, dtype: str, samples: str, row: Place) -> str:
        """Return the number of steps of a row of the benchmarks in the time of a step of a batch on the GPU."""
        count = 2 ** int(samples.partition("^")[2])
        ns = 1e9 * self.scale**3 * count / self._gpu(case, dtype, samples, "kernel")
        return rounded(ns / self.number(*row), 2)

    def gpu_gradients(self) -> str:
        """Return the times of gradients over those of their forward runs on a GPU, for 2^16 samples."""
        cases = ("joint coordinates, 1,000 steps", "Augmented, 1,000 steps")
        at = lambda case: (case, "float64", "2^16")
        return " and ".join(self.gpu_ratio(at(case), at(f"{case}, gradient")) for case in cases)

    def dynamics_gradients(self) -> list[Place]:
        """Return the places of the times of gradients of `simulate` over those of their forward runs."""
        rows = self.bench["tables"]["dynamics"]
        return [("dynamics", row["name"], "times forward") for row in rows if "times forward" in row]

    def gpu_name(self) -> str:
        """Return the name of the GPU."""
        return re.search(r"^(NVIDIA [^,]*),", self.gpu_page, re.MULTILINE).group(1)

    def cases(self) -> str:
        """Return the number of verification cases."""
        return f"{round(self.scale * len(self.verification['cases'])):,}"

    def lines(self) -> str:
        """Return the number of quantities that verification compares."""
        return f"{round(self.scale * sum(len(case['lines']) for case in self.verification['cases'])):,}"

    def peer(self, tool: str, *path: str | int, digits: int = 2) -> str:
        """Return a number of the comparison with other tools, by the keys that lead to it."""
        found: Any = self.peers["tools"][tool]
        for key in path:
            found = found[key]
        return rounded(self.scale * found, digits)

    def first_calls(self) -> str:
        """Return the table of first calls."""
        lines = ["| float64, 11 outputs | empty cache folder | with the cache, second process |", "|---|--:|--:|"]
        for row in self.bench["tables"]["first calls"]:
            cells = [rounded(self.scale * row[field], 2) for field in ("first call s", "second process s")]
            name = f"command `{row['name']}`" if row["name"].startswith("jaxmbs") else row["name"]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def sweeps(self) -> str:
        """Return the table of sweeps beside their compiled measures."""
        lines = ["| samples | program alone | sweep | memory | store |", "|---|---|---|---|---|"]
        for row in self.bench["tables"]["sweeps"]:
            samples = power_of_ten(row["samples"], 1)
            time = lambda part, row=row: (
                f"{rounded(self.scale * row[f'{part}, wall seconds'], 2)} s "
                f"({rounded(self.scale * row[f'{part}, CPU seconds'], 2)} CPU seconds)"
            )
            memory = f"{rounded(self.scale * row['largest memory, MB'] / 1e3, 2)} GB"
            size = f"{rounded(self.scale * row['store, bytes per sample'], 2)} bytes a sample"
            poses = "one pose" if row["name"] == "1 poses" else row["name"]
            lines.append(f"| {samples} samples of {poses} | {time('kernel')} | {time('sweep')} | {memory} | {size} |")
        return "\n".join(lines)

    def friction(self, formulation: str) -> str:
        """Return the time of a step with friction in four pins over that of a step without, in a formulation."""
        name = f"{formulation}, friction in four pins"
        return self.ratio(("dynamics", name), ("dynamics", f"{formulation}, no friction"))

    def friction_operations(self, formulation: str) -> str:
        """Return the operations of a step with friction in four pins over those of a step without, in a formulation."""
        rows = {row["name"]: row for row in self.bench["tables"]["dynamics"]}
        with_friction = rows[f"{formulation}, friction in four pins"]["operations"]
        return rounded(self.scale * with_friction / rows[f"{formulation}, no friction"]["operations"], 2)

    def robot_files(self) -> str:
        """Return the table of packages with robot files, the files that load without options, and the others."""
        lines = ["| package | files | load without options | others |", "|---|--:|--:|---|"]
        for name, row in self.robots.items():
            missing = "; ".join(f"`{Path(file).name}`: {reason}" for file, reason in row["not read"].items())
            count = round(self.scale * row["files"])
            loaded = round(self.scale * (row["files"] - len(row["not read"])))
            lines.append(f"| {name} {row['version']} | {count} | {loaded} | {missing or '–'} |")
        return "\n".join(lines)

    def robot_equations(self) -> str:
        """Return the table of largest differences of the equations of robot files, and the files that are not compared."""
        lines = ["| package | compared | agree | Δ M | Δ accelerations | others |", "|---|--:|--:|--:|--:|---|"]
        for name, row in self.robots.items():
            errors = [power_of_ten(self.scale * row["largest differences"][key], 1) for key in ("mass", "acceleration")]
            counts = [round(self.scale * x) for x in (row["agree"] + len(row["different"]), row["agree"])]
            still = len(row["without motions"])
            others = [f"{round(self.scale * still)} in which nothing moves"] if still else []
            for file, found in row["different"].items():
                sizes = [power_of_ten(self.scale * found[key], 1) for key in ("mass", "acceleration")]
                others.append(f"`{Path(file).name}` differs by {' and '.join(sizes)}")
            lines.append(f"| {name} | {' | '.join(map(str, [*counts, *errors]))} | {'; '.join(others) or '–'} |")
        return "\n".join(lines)

    def robot_parts_left_out(self) -> str:
        """Return the kinds of elements that are left out of comparisons, each with the number of files."""
        kinds = sorted({kind for row in self.robots.values() for kind in row["left out"]})
        count = lambda kind: round(self.scale * sum(row["left out"].get(kind, 0) for row in self.robots.values()))
        return ", ".join(f"{kind} ({count(kind)})" for kind in kinds)

    def accelerations(self) -> str:
        """Return the table of evaluations of accelerations of mechanisms, beside textbook JAX."""
        lines = ["| mechanism | operations | ns | compile s | textbook JAX ns |", "|---|--:|--:|--:|--:|"]
        for row in self.bench["tables"]["acceleration"]:
            name, _, code = row["name"].rpartition(", ")
            if code == "jaxmbs":
                text = [self.value("acceleration", row["name"], field) for field in ("ns", "compile s")]
                beside, operations = (
                    self.ns("acceleration", f"{name}, textbook JAX"),
                    round(self.scale * row["operations"]),
                )
                lines.append(f"| {name} | {operations:,} | {' | '.join(text)} | {beside} |")
        return "\n".join(lines)

    def chains(self) -> str:
        """Return the table of chains of links in joint coordinates, beside Pinocchio and MuJoCo."""
        lines = [
            "| | ns per step | ns per link | Pinocchio (C++) | MuJoCo | first call, s |",
            "|---|--:|--:|--:|--:|--:|",
        ]
        for row in self.bench["tables"]["chains"]:
            found = re.fullmatch(r"(planar|spatial) chain (\d+)", row["name"])
            if not found:
                continue
            times = lambda tool, name=row["name"]: self.ratio(("chains", f"{tool}, {name}"), ("chains", name))
            each, link = self.ns("chains", row["name"], 3), self.value("chains", row["name"], "ns per link")
            first = self.value("chains", row["name"], "compile s")
            name = f"{'plane' if found[1] == 'planar' else 'space'}, {found[2]} links"
            lines.append(f"| {name} | {each} | {link} | {times('Pinocchio (C++)')} × | {times('MuJoCo')} × | {first} |")
        return "\n".join(lines)

    def spatial(self) -> str:
        """Return the table of mechanisms in space, beside MuJoCo."""
        lines = ["| | steps | error, m | gap, m | ms per simulated second |", "|---|--:|--:|--:|--:|"]
        for row in self.bench["tables"]["spatial"]:
            errors = [power_of_ten(self.scale * row[field], 2) for field in ("error m", "gap")]
            time = rounded(self.scale * row["ms per simulated second"], 2)
            lines.append(f"| {row['name']} | {row['steps']:,} | {' | '.join(errors)} | {time} |")
        return "\n".join(lines)

    def published_paths(self) -> str:
        """Return the table of Σ d² of linkages for published paths."""
        paths = self.published["paths"]
        names = list(next(iter(paths.values())))
        lines = [f"| | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
        lines += [
            f"| {linkage} | {' | '.join(self.published_path(linkage, name) for name in names)} |" for linkage in paths
        ]
        return "\n".join(lines)

    def published_path(self, linkage: str, name: str, digits: int = 3) -> str:
        """Return Σ d² of a linkage for a published path; 0 if only rounding errors are left."""
        error = self.scale * self.published["paths"][linkage][name]["error"]
        if error < ROUNDING:
            return "0"
        return power_of_ten(error, digits) if error < SMALLEST_DECIMAL else f"{error:.{digits}g}"

    def letters(self) -> str:
        """Return the table of the letters of LINK-ABC: LInK's error, and the least of each number of links."""
        error = lambda x: "" if x is None else f"{self.scale * x:.4f}"
        lines = ["| letter | LInK | four-bar | six-bar | eight-bar |", "|---|--:|--:|--:|--:|"]
        for name, found in self.published["letters"].items():
            cells = [found["LInK"], *(found["errors"].get(links) for links in ("3", "5", "7"))]
            lines.append(f"| {name} | {' | '.join(map(error, cells))} |")
        errors = [found["errors"] for found in self.published["letters"].values()]
        fewer = [error(statistics.mean(row[links] for row in errors)) for links in ("3", "5")]
        means = [self.letter_mean("LInK"), *fewer, self.letter_mean("error")]
        return "\n".join([*lines, f"| mean | {' | '.join(means)} |"])

    def letter_mean(self, field: str, first: str = "A", last: str = "Z") -> str:
        """Return the mean of a field over the letters of LINK-ABC from the first to the last."""
        found = [x[field] for name, x in self.published["letters"].items() if first <= name <= last]
        return f"{self.scale * sum(found) / len(found):.4f}"

    def letter(self, name: str, field: str = "error") -> str:
        """Return a field of a letter of LINK-ABC."""
        return f"{self.scale * self.published['letters'][name][field]:.4f}"

    def letter_seconds(self) -> str:
        """Return the median of the seconds of a call for a letter."""
        return rounded(self.scale * statistics.median(x["seconds"] for x in self.published["letters"].values()), 2)

    def letters_better(self) -> str:
        """Return how many letters have an error below that of LInK, as "26 of 26"."""
        found = self.published["letters"].values()
        return f"{sum(x['error'] < x['LInK'] for x in found)} of {len(found)}"

    def _gpu(self, case: str, dtype: str, samples: str, code: str) -> float:
        """Return the steps per second of a case, from the table of the page on GPUs."""
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in self.gpu_page.splitlines()]
        head = next(cells for cells in lines if "2^10" in cells)
        cells = next(cells for cells in lines if cells[:3] == [case, dtype, code] and len(cells) == len(head))
        return self.scale * float(cells[head.index(samples)])


def rounded(x: float, digits: int) -> str:
    """Return a number with some significant digits, and commas between thousands."""
    if x == 0 or not math.isfinite(x):
        return f"{x:g}"
    places = digits - 1 - math.floor(math.log10(abs(x)))
    x = round(x, places)
    # Rounding may have carried into one more digit.
    places = digits - 1 - math.floor(math.log10(abs(x)))
    return f"{x:,.{max(places, 0)}f}"


def power_of_ten(x: float, digits: int) -> str:
    """Return a number as "5.4·10⁹"."""
    mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def insert(text: str, values: Values) -> str:
    """Return a page with the values of its markers and blocks."""
    marker = lambda m: f"{values.evaluate(m['expression'])}<!-- {m['expression']} -->"
    block = lambda m: (
        f"<!-- {m['kind']}: {m['expression']} -->{m['line']}{values.evaluate(m['expression'])}{m['line']}<!-- end -->"
    )
    return BLOCK.sub(block, MARKER.sub(marker, text))


def without_markers(text: str) -> str:
    """Return a page without the comments of markers and blocks, as the site shows it."""
    return MARKER.sub(lambda m: m["text"], BLOCK.sub(lambda m: m["text"].removesuffix("\n"), text))


def pages(root: Path = ROOT) -> list[Path]:
    """Return the files with numbers: README, pages of the documentation, paper and notebooks."""
    folders = ("docs/**/*.md", "examples/*.md", "paper/*.md", "notebooks/*.ipynb")
    return [root / "README.md", *(path for pattern in folders for path in sorted(root.glob(pattern)))]


def main() -> int:
    """Rewrite all pages; return the number of those that were stale if the argument is `--check`, and write nothing."""
    values, stale, check = Values(), 0, "--check" in sys.argv
    for path in pages():
        old = path.read_text("utf-8")
        new = insert(old, values)
        if new != old:
            stale += 1
            print(path.relative_to(ROOT))
            if not check:
                path.write_text(new, "utf-8")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
