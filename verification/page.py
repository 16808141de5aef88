"""The page "Verification", made from the results file."""

from collections.abc import Iterable

from verification import ROOT
from verification.sources import SOURCES

# File of the page on verification.
PAGE = ROOT / "docs" / "verification.md"


def text_of(results: dict) -> str:
    """Return the text of the page on verification: setting, a table per source, work and precision, motions."""
    lines = sum(len(case["lines"]) for case in results["cases"])
    bad = [case for case in results["cases"] if case["error"] or not all(line["holds"] for line in case["lines"])]
    parts = [
        "# Verification",
        "Published problems and closed forms, each computed with the functions that every user calls, and compared. "
        "A line is one quantity: its largest deviation over all times and components, and its tolerance. "
        "`make verify` computes all lines, writes this page, and fails if one is out of tolerance.",
        _setting(results["setting"], len(results["cases"]), lines, bad),
        "![Twelve of the mechanisms, with the paths of some of their points](images/verification_motions.png)",
        "\n".join(f"- [{name}](#{_anchor(name)}): {source.about}" for name, source in SOURCES.items()),
    ]
    for name, source in SOURCES.items():
        cases = [case for case in results["cases"] if case["source"] == name]
        parts += [f"## {name}", f"{source.about} {source.citation}", _table(cases)]
    parts += _precision(results.get("precision", []))
    parts.append("Random problems: [the campaign](verification_campaign.md).")
    return "\n\n".join(parts) + "\n"


def _anchor(name: str) -> str:
    """Return the anchor of a heading."""
    return name.lower().replace(" ", "-")


def _setting(setting: dict, cases: int, lines: int, bad: list[dict]) -> str:
    """Return the paragraph on counts, machine and packages."""
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in setting["packages"].items())
    verdict = "All lines hold." if not bad else f"**{len(bad)} cases are out of tolerance.**"
    return (
        f"**{lines} lines of {cases} cases. {verdict}** "
        f"Run on {setting['date']} in {setting['minutes']} minutes by {setting['processes']} processes; "
        f"{setting['processor']}, {setting['cores']} cores, {setting['system']}; Python {setting['python']}, {packages}. "
        "Double precision. Times are processor seconds, most of them for compilation."
    )


def _table(cases: Iterable[dict]) -> str:
    """Return a table with a row for each line; problem, method and time are only in the first row of a case."""
    rows = ["| problem | coordinates, method | compared | deviation | tolerance | s |", "|---|---|---|--:|--:|--:|"]
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


def _deviation(line: dict) -> str:
    """Return the deviation of a comparison as text, bold if it is out of tolerance."""
    found = "none" if line["unit"] == "the same" else f"{line['deviation']:.1e}" if line["deviation"] else "0"
    return found if line["holds"] else f"**{found if line['unit'] != 'the same' else 'not the same'}**"


def _tolerance(line: dict) -> str:
    """Return the tolerance of a comparison with its unit."""
    if line["unit"] == "the same":
        return "none"
    return f"{line['tolerance']:.3g} {line['unit']}".strip()


def _precision(problems: list[dict]) -> list[str]:
    """Return the paragraphs on work and precision of methods, and on the tools that took no part."""
    if not problems:
        return []
    parts = [
        "## Work and precision",
        "Error against seconds of the processor, for one motion on one core, by method and step; compilation is not "
        "counted. A batch costs less per motion: its samples share the vector units. MuJoCo and Pinocchio have joint "
        "coordinates; MuJoCo's loops are soft constraints, and Pinocchio's steps are a loop in Python. Exudyn has "
        "redundant coordinates.",
        "![Error against processor time for two mechanisms and four tools](images/verification_precision.png)",
    ]
    missing = [
        f"- {problem['title']}: {curve['tool']} took no part: {curve['missing']}."
        for problem in problems
        for curve in problem["curves"]
        if curve["missing"]
    ]
    failed = [
        f"- {problem['title']}, {curve['tool']}, {curve['label']}: left out, as the status is bad: {'; '.join(left_out)}."
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
    """Write the page on verification."""
    PAGE.write_text(text_of(results))
