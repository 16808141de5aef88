"""The notebooks are a course of thirteen lessons; they run from top to bottom, and their cells check their own numbers."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def module_of_site(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lessons = module_of_site("lessons")
lesson_pages = module_of_site("lesson_pages")
SHORT = ("01_four_bar",)


@pytest.mark.parametrize(
    "path", [pytest.param(x, id=x.stem, marks=[pytest.mark.slow] * (x.stem not in SHORT)) for x in lessons.NOTEBOOKS]
)
def test_notebook_runs(path, monkeypatch):
    """It runs without errors and warnings, or has done so since the last change; the site shows what this run prints."""
    monkeypatch.delenv("JAXMBS_LESSONS", raising=False)
    assert any(cell.outputs for cell in lesson_pages.code_cells(lesson_pages.executed(path)))
    cells = [cell for cell in lessons.cells(path) if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells), "notebooks are kept without outputs"


def test_there_are_thirteen_in_order():
    assert [path.stem[:3] for path in lessons.NOTEBOOKS] == [f"{k:02}_" for k in range(1, 14)]
    assert [lessons.title(path).split(".")[0] for path in lessons.NOTEBOOKS] == [str(k) for k in range(1, 14)]


@pytest.mark.parametrize("path", lessons.NOTEBOOKS, ids=lambda x: x.stem)
def test_form_of_a_lesson(path):
    """Head and installation as `python docs/site/lessons.py` writes them, a solution for each exercise, no dead links."""
    cells = lessons.cells(path)
    texts = [lessons.text(cell) for cell in cells]
    assert texts[0] == lessons.head(path)
    assert texts[1] == lessons.install(path)
    assert texts[-1].startswith("## What you can now do\n")
    (exercises,) = [text for text in texts if text.startswith("## Exercises")]
    asked, hints = exercises.split("<details>")
    numbers = re.findall(r"^(\d)\. \*\*", asked, re.MULTILINE)
    assert numbers == re.findall(r"^(\d)\. ", hints, re.MULTILINE)
    assert 2 <= len(numbers) <= 3
    solutions = [
        text for cell, text in zip(cells, texts, strict=True) if "solution" in cell["metadata"].get("tags", ())
    ]
    assert [text.split(":")[0] for text in solutions] == [f"# @title Solution {k}" for k in numbers]
    assert all("assert" in text for text in solutions)
    for link in re.findall(r"\]\(([^)#]*)\)", "".join(texts)):
        assert link.startswith("https://") or (path.parent / link).exists(), link


def test_page_lists_all():
    assert lessons.table() in lessons.PAGE.read_text()
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert all(f"lessons/{path.stem}.md\n" in navigation for path in lessons.NOTEBOOKS)
