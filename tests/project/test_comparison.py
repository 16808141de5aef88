"""The page "Beside other tools" shows the results of the stored run."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def page(monkeypatch):
    """The module that writes it; it imports its neighbours as scripts do."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import comparison_page

    return comparison_page


def test_page_is_that_of_the_run(page):
    kept = json.loads((ROOT / "benchmarks" / "comparison.json").read_text())
    assert page.PAGE.read_text() == page.text_of(kept)
    assert list(kept["tools"]) == list(page.tools.TOOLS)


def test_our_answers_hold(page):
    """No task is left out: positions to rounding, slopes to six digits, motions within all bounds."""
    ours = json.loads((ROOT / "benchmarks" / "comparison.json").read_text())["tools"]["jaxmbs"]
    assert not any("missing" in found for task, found in ours.items() if task != "version")
    assert ours["turn"]["error"] < 1e-13
    assert ours["slopes"]["error"] < 1e-6
    for points in ours["fall"].values():
        assert "not reached" not in "".join(page.cost(points, level) for level in page.LEVELS)


def test_every_ability_has_a_cell_for_each_tool(page):
    """The first table has the tools of the page as columns, the second one others, and both have the same rows."""
    tables = [part.splitlines() for part in page.ABILITIES.split("\n\n") if part.startswith("|")]
    measured, others = ([[cell.strip() for cell in line.split("|")[1:-1]] for line in lines] for lines in tables)
    assert measured[0] == ["", *page.tools.TOOLS]
    assert not set(others[0]) & set(page.tools.TOOLS)
    assert [row[0] for row in measured] == [row[0] for row in others]
    for rows in (measured, others):
        assert {len(row) for row in rows} == {len(rows[0])}
