"""Pages whose examples run: troubleshooting, with an entry for each status, and "From your tool", whose names exist."""

import doctest
import re
from pathlib import Path

import pytest

import jaxmbs as mbs

ROOT = Path(__file__).parents[2]
PAGES = ("troubleshooting", "from_your_tool")
# Characters of a line of code that fit into a page of the site.
WIDTH_OF_CODE = 124


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_examples_give_what_is_written(name, tmp_path, monkeypatch):
    if name == "from_your_tool":
        pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    source = "\n".join(re.findall(r"^```pycon\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE))
    test = doctest.DocTestParser().get_doctest(source, {}, name, None, None)
    assert len(test.examples) > 10
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert not said, "".join(said)


def test_every_status_has_an_entry():
    entries = re.findall(r"^## ([A-Z_]{2,})\b", page("troubleshooting"), re.MULTILINE)
    assert set(mbs.Status.__members__) <= set(entries)


def test_code_fits_into_a_page():
    """The same for all pages as the look into the browser, without the site."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert len(pages) > 40
    long = [
        (path.name, line)
        for path in pages
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
        if len(line) > WIDTH_OF_CODE
    ]
    assert long == []


def resolved(name: str) -> bool:
    value = mbs
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value is not None


@pytest.mark.parametrize("name", [*PAGES, "support"])
def test_names_exist(name):
    """Every `mbs.…`, `planar.…` and `spatial.…` of a page."""
    text = re.sub(r"\b(planar|spatial)(?=\.[A-Z])", r"mbs.\1", re.sub(r"mbs\.(planar|spatial)", r"\1", page(name)))
    names = set(re.findall(r"\bmbs(?:\.\w+)+", text))
    assert {x for x in names if not resolved(x)} == set()


def test_links_of_messages_lead_to_the_page():
    """The docstring of `Status` names the page; the page, and every heading that is linked, exist."""
    assert "troubleshooting" in mbs.Status.__doc__
    headings = lambda text: {
        re.sub(r"[^\w\- ]", "", x.lower()).strip().replace(" ", "-")
        for x in re.findall(r"^#+ (.*)", text, re.MULTILINE)
    }
    for name in (*PAGES, "support"):
        for file, _, anchor in (x.partition("#") for x in re.findall(r"\]\(([\w./]+\.md(?:#[\w-]+)?)\)", page(name))):
            if not file.startswith(("elements/", "reference/", "gallery/")):
                assert not anchor or anchor in headings((ROOT / "docs" / file).read_text()), (file, anchor)


def test_paper():
    """Citations are in the bibliography, all of it is cited, figures exist, and its length is that of the journal."""
    text = (ROOT / "paper" / "paper.md").read_text("utf-8").split("---", 2)[2]
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"@(\w+)", text)) == set(entries)
    figures = re.findall(r"\]\(([^)]+)\)", text)
    assert len(figures) >= 3
    assert all((ROOT / "paper" / figure).exists() for figure in figures)
    assert 1000 < len(text.split()) < 1750
