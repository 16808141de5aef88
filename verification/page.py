"""The page "Published problems" and the pages with its tables, made from the results file."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from verification import ROOT
from verification.sources import SOURCES, TABLE_PAGES, Section, TablePage

# File of the page that sums up all comparisons.
SUMMARY = ROOT / "docs" / "verification.md"
# Folder of the pages with the tables.
TABLES = ROOT / "docs" / "verification"
# Number of characters of a line of text.
WIDTH = 120
# Upper limits of the tolerances that the summary counts together, with the kind of comparison.
TOLERANCE_GROUPS = (
    (0.0, "names, counts and statuses, which must be equal"),
    (1e-12, "closed forms and equations, with a tolerance up to 1e-12"),
    (1e-9, "accelerations, forces and accurate simulations, up to 1e-9"),
    (1e-6, "longer simulations and motions near singular positions, up to 1e-6"),
    (float("inf"), "values as printed, energies of stiff motions, errors of published linkages, above 1e-6"),
)


def pages(results: dict) -> dict[Path, str]:
    """Return the texts of the summary and of all pages of tables, by file."""
    return {SUMMARY: summary(results)} | {
        TABLES / f"{page.file}.md": table_page(page, results["cases"]) for page in TABLE_PAGES
    }


def summary(results: dict) -> str:
    """Return the text of the summary: verdict, deviations, sources, how to repeat, work and precision."""
    cases = results["cases"]
    parts = [
        "# Verification: published problems",
        _paragraph(
            "Problems with published numbers, closed forms or independent computations, each computed by the public "
            "functions of jaxmbs and compared with the source. A *case* is one problem in one formulation or by one "
            "analysis. A *comparison* is one quantity of a case. Its deviation is the largest difference over all times "
            "and components."
        ),
        _verdict(cases),
        "![Twelve of the mechanisms, with the paths of some of their points](images/verification_motions.png)",
        "## Deviations",
        _paragraph(
            "The unit of a deviation is that of the quantity: SI units, those of the source, or none for numbers and "
            "relative deviations. A value that is printed with four digits is compared to half a unit or one unit of its "
            "last digit. The error of a linkage found by synthesis may not exceed the published one, or a limit of ours if "
            "there is none."
        ),
        _deviations(cases),
        "## Sources",
        _paragraph(
            "Each source links to its tables. The largest share is the largest deviation of its comparisons, divided by "
            "the tolerance. It is near 100 % for values as printed and for limits, such as a number of links."
        ),
        _sources(cases),
        "## Repeat the checks",
        _paragraph(
            "`make verify` computes all cases, writes `verification/results.json` and these pages, and fails if a "
            "deviation exceeds its tolerance. The next command computes the cases with a word in their name and writes "
            "no files."
        ),
        "```\nmake verify\n.venv/bin/python -m verification --only pendulum\n```",
        _setting(results["setting"]),
        *_precision(results.get("precision", [])),
        "Random problems are on the page [The campaign](verification_campaign.md).",
    ]
    return "\n\n".join(parts) + "\n"


def table_page(page: TablePage, cases: list[dict]) -> str:
    """Return the text of a page of tables."""
    parts = [
        f"# {page.title}",
        _paragraph(
            "Comparisons of [published problems](../verification.md). The deviation is the largest one over all times and "
            "components. Comparisons marked *exact* are of names, counts or statuses, which must be equal. *Cartesian* "
            "coordinates are the poses of the bodies; simulations in them are called *Augmented*. The last column has the "
            "processor seconds of the case, most of them for compilation."
        ),
    ]
    for section in page.sections:
        source = SOURCES[section.source]
        parts += [f"## {section.heading}", _paragraph(f"{source.about} {source.citation}")]
        parts.append(_table(cases_of(section, cases)))
    return "\n\n".join(parts) + "\n"


def cases_of(section: Section, cases: list[dict]) -> list[dict]:
    """Return the cases that belong to a section of a page."""
    return [case for case in cases if case["source"] == section.source and re.search(section.pattern, case["problem"])]


def _paragraph(text: str) -> str:
    """Return a paragraph in lines of limited length."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _anchor(name: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")


def _lines(cases: Iterable[dict]) -> Iterator[dict]:
    """Yield the comparisons of cases."""
    for case in cases:
        yield from case["lines"]


def _verdict(cases: list[dict]) -> str:
    """Return the sentence with the number of cases, sources and comparisons, and with what failed."""
    bad = [case for case in cases if case["error"] or not all(line["holds"] for line in case["lines"])]
    sources = len({case["source"] for case in cases})
    verdict = "all within their tolerance" if not bad else f"{len(bad)} cases out of tolerance"
    return f"**{len(cases)} cases from {sources} sources, {len(list(_lines(cases)))} comparisons: {verdict}.**"


def _deviations(cases: list[dict]) -> str:
    """Return the table with the largest deviation of the comparisons of each group of tolerances."""
    rows, lower = ["| comparisons of | number | largest deviation |", "|---|--:|--:|"], -1.0
    for upper, kind in TOLERANCE_GROUPS:
        group = [line for line in _lines(cases) if lower < line["tolerance"] <= upper]
        largest = max((line["deviation"] for line in group), default=0.0)
        # The last group has limits of different kinds, whose amounts cannot be compared.
        shown = "in different units" if upper > 1 else _number(largest)
        if not upper:
            shown = "**different**" if largest else "exact"
        rows.append(f"| {kind} | {len(group)} | {shown} |")
        lower = upper
    return "\n".join(rows)


def _sources(cases: list[dict]) -> str:
    """Return the table of sources, with links to their tables and the largest share of a tolerance."""
    rows = ["| source | subject | cases | comparisons | largest share |", "|---|---|--:|--:|--:|"]
    for name, source in SOURCES.items():
        own = [case for case in cases if case["source"] == name]
        linked = "; ".join(
            f"[{section.heading}](verification/{page.file}.md#{_anchor(section.heading)})"
            for page in TABLE_PAGES
            for section in page.sections
            if section.source == name
        )
        shares = [line["deviation"] / line["tolerance"] for line in _lines(own) if line["tolerance"]]
        share = f"{_number(100 * max(shares, default=0.0))} %"
        rows.append(f"| {linked} | {source.about.rstrip('.')} | {len(own)} | {len(list(_lines(own)))} | {share} |")
    return "\n".join(rows)


def _setting(setting: dict) -> str:
    """Return the paragraph on time, machine and packages of the run."""
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in setting["packages"].items())
    return _paragraph(
        f"These results are of {setting['date']}, from {setting['minutes']} minutes of {setting['processes']} processes "
        f"on {setting['processor']}, {setting['cores']} cores, {setting['system']}; Python {setting['python']}, "
        f"{packages}; double precision."
    )


def _table(cases: Iterable[dict]) -> str:
    """Return a table with a row for each comparison; problem, method and time are only in the first row of a case."""
    rows = ["| problem | coordinates, method | quantity | deviation | tolerance | s |", "|---|---|---|--:|--:|--:|"]
    before = None
    for case in cases:
        problem = "" if case["problem"] == before else _cell(case["problem"])
        before = case["problem"]
        head = problem, _cell(f"{case['coordinates']}, {case['by']}"), f"{case['seconds']:.1f}"
        if case["error"]:
            rows.append(f"| {head[0]} | {head[1]} | **{_cell(case['error'])}** | | | {head[2]} |")
        for line in case["lines"]:
            problem, by, seconds = head
            cells = problem, by, _cell(line["quantity"]), _deviation(line), _tolerance(line), seconds
            rows.append(f"| {' | '.join(cells)} |")
            head = "", "", ""
    return "\n".join(rows)


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _number(x: float) -> str:
    """Return an amount with two digits."""
    if x and not 1e-3 <= abs(x) < 1e6:
        return f"{x:.1e}"
    return f"{x:.2g}" if x < 99.5 else f"{x:,.0f}"


def _deviation(line: dict) -> str:
    """Return the deviation of a comparison as text, bold if it is out of tolerance."""
    equality = line["unit"] == "the same"
    if line["holds"]:
        return "exact" if equality else _number(line["deviation"])
    return "**different**" if equality else f"**{_number(line['deviation'])}**"


def _tolerance(line: dict) -> str:
    """Return the tolerance of a comparison with its unit, a dash where only equality counts."""
    return "–" if line["unit"] == "the same" else f"{line['tolerance']:.3g} {line['unit']}".strip()


def _precision(problems: list[dict]) -> list[str]:
    """Return the section on work and precision of methods, and on tools and runs that are missing."""
    if not problems:
        return []
    parts = [
        "## Work and precision",
        _paragraph(
            "Error against processor time of one motion on one core, for each method and several steps. Compilation is "
            "not counted. In a batch a motion takes less time, because its samples share the vector units. MuJoCo and "
            "Pinocchio use joint coordinates; MuJoCo's loops are soft constraints, and the steps of Pinocchio are a loop "
            "in Python. Exudyn uses redundant coordinates."
        ),
        "![Error against processor time for two mechanisms and four tools](images/verification_precision.png)",
    ]
    missing = [
        f"- {problem['title']}: {curve['tool']} is missing: {curve['missing']}."
        for problem in problems
        for curve in problem["curves"]
        if curve["missing"]
    ]
    failed = [
        f"- {problem['title']}, {curve['tool']}, {curve['label']}: not drawn are the runs that [failed]"
        f"(dynamics.md#what-can-go-wrong): {'; '.join(left_out)}."
        for problem in problems
        for curve in problem["curves"]
        if (left_out := curve.get("failed"))
    ]
    return [*parts, "\n".join([*missing, *failed])] if missing or failed else parts


def diagram(problems: list[dict]) -> None:
    """Write the work-precision diagrams."""
    import matplotlib.pyplot as plt

    from jaxmbs.viz import style

    marks = {"jaxmbs": "o", "MuJoCo": "s", "Pinocchio": "^", "Exudyn": "D"}
    figure, axes = plt.subplots(1, len(problems), figsize=(6.4 * len(problems), 5.6), layout="constrained")
    for ax, problem in zip([axes] if len(problems) == 1 else axes, problems, strict=True):
        style.tidy(ax, equal=False)
        drawn = [curve for curve in problem["curves"] if curve["points"]]
        for k, curve in enumerate(drawn):
            own = curve["tool"] == "jaxmbs"
            points = [(1e3 * point["seconds"], point["error"]) for point in curve["points"]]
            ax.plot(
                *zip(*points, strict=True),
                marks[curve["tool"]] + ("-" if own else "--"),
                color=style.colour_of(k) if own else style.INK,
                linewidth=1.5,
                markersize=4.5,
                label=f"{curve['tool']}, {curve['label']}",
            )
        ax.set(
            xscale="log", yscale="log", xlabel="processor time of a motion (ms)", ylabel=f"error ({problem['unit']})"
        )
        ax.minorticks_off()
        ax.set_title(problem["title"], loc="left", fontsize=11, color=style.INK)
        ax.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    figure.savefig(ROOT / "docs" / "images" / "verification_precision.png", dpi=110, facecolor=style.PAPER)
    plt.close(figure)


def write(results: dict) -> None:
    """Write the summary and the pages of tables."""
    TABLES.mkdir(exist_ok=True)
    for file, text in pages(results).items():
        file.write_text(text)
