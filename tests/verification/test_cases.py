"""The verification manual: every case holds, every reference is in one, and the pages are those of the kept run."""

import numpy as np
import pytest

from linkages import REFERENCES
from verification import cases, page, run
from verification.case import CASES, below, close, near, same
from verification.sources import SOURCES, TABLE_PAGES

# Largest number of words of a page.
MAX_WORDS = 2500


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if case.quick else pytest.mark.slow) for n, case in CASES.items()]
)
def test_case(name):
    lines = CASES[name].comparisons()
    assert lines
    assert [line for line in lines if not line.holds] == []


def test_every_reference_is_in_a_case():
    used = {name for case in CASES.values() for name in case.references}
    assert used == {path.stem for path in REFERENCES.glob("*.json")}


def test_every_source_has_cases():
    assert {case.source for case in CASES.values()} == set(SOURCES)


def test_what_is_compared():
    """Deviations of arrays, and that what is not finite never holds."""
    assert close("x", [1.0, 2.5], [1.0, 2.0], 0.5) == ("x", 0.5, 0.5, "")
    assert near("x", [2.0, 4.4], [2.0, 4.0], 0.2).deviation == pytest.approx(0.1, rel=1e-12)
    assert below("x", [-3.0, 2.0], 2.5, "N") == ("x", 3.0, 2.5, "N")
    assert [line.holds for line in (close("x", 1.0, 1.0, 0.0), below("x", [-3.0], 2.5))] == [True, False]
    assert [same("x", *pair).holds for pair in (((1, "a"), (1, "a")), ((1, "a"), (1, "b")))] == [True, False]
    for bad in (np.nan, np.inf):
        assert not any(
            line.holds for line in (close("x", bad, 1.0, 1e9), near("x", bad, 1.0, 1e9), below("x", bad, 1e9))
        )


def test_an_error_is_a_result(monkeypatch):
    """A case that raises is out of tolerance, and so is one without a line."""
    name, case = next(iter(CASES.items()))
    for compute, error in ((lambda by: [][0], "IndexError: list index out of range"), (lambda by: iter(()), "")):
        changed = type(case)(case.source, case.problem, case.by, (), case.quick, compute)
        monkeypatch.setitem(CASES, name, changed)
        result = run.run(name)
        assert (result.holds, result.error) == (False, error)


def test_two_cases_of_one_name_are_refused():
    from verification.case import case

    first = next(iter(CASES.values()))
    with pytest.raises(ValueError, match="two verification cases are called 'Haug"):
        case(first.source, first.problem, first.by)(first.compute)


def test_pages_are_those_of_the_run():
    """The pages are made from the kept run, which has the cases that there are, all in tolerance."""
    kept = run.read()
    texts = page.pages(kept)
    assert {path: path.read_text() for path in texts} == texts
    assert set(page.TABLES.iterdir()) == set(texts) - {page.SUMMARY}
    assert [case["name"] for case in kept["cases"]] == list(CASES)
    assert not any(case["error"] for case in kept["cases"])
    assert all(line["holds"] for case in kept["cases"] for line in case["lines"])
    assert set(cases.__all__) == {case.compute.__module__.rpartition(".")[2] for case in CASES.values()}


def test_tables_have_each_case_once_on_pages_of_a_readable_length():
    kept = run.read()
    sections = [section for table_page in TABLE_PAGES for section in table_page.sections]
    shown = [case["name"] for section in sections for case in page.cases_of(section, kept["cases"])]
    assert sorted(shown) == sorted(CASES)
    assert max(len(text.split()) for text in page.pages(kept).values()) <= MAX_WORDS


def test_cases_out_of_tolerance_are_shown():
    kept = run.read()
    name, equal = ("four-bar over a turn", "Example 3.7.2: parallelogram, flat positions")
    for case in kept["cases"]:
        if case["problem"] in (name, equal):
            case["lines"][0] |= {"deviation": np.inf, "holds": False}
    texts = page.pages(kept)
    assert "2 cases out of tolerance" in texts[page.SUMMARY]
    assert "| **inf** |" in texts[page.TABLES / "textbooks.md"]
    assert "| **different** |" in texts[page.TABLES / "haug_singular.md"]
