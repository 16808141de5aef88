"""The public interface is that of docs/api.txt: a name that comes, goes or changes is seen in a change of that file."""

import difflib
import importlib.util
import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def listing():
    spec = importlib.util.spec_from_file_location("interface", ROOT / "docs" / "site" / "interface.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_change_is_unannounced(listing):
    if importlib.util.find_spec("gymnasium") is None:
        pytest.skip("the adapters of mbs.env are listed with gymnasium installed")
    changes = [
        line
        for line in difflib.unified_diff(listing.FILE.read_text().splitlines(), listing.interface(), lineterm="", n=0)
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert not changes, (
        "the public interface has changed:\n" + "\n".join(changes) + "\nIf this is meant: run "
        "`python docs/site/interface.py`, and say it in CHANGELOG.md. A stable name that goes is deprecated first: "
        "docs/support.md"
    )


def test_marks_are_of_names_that_exist(listing):
    names = [re.split(r"[(:=]", line.split(maxsplit=1)[1])[0].strip() for line in listing.FILE.read_text().splitlines()]
    for pattern in listing.EXPERIMENTAL:
        assert any(fnmatchcase(name, pattern) for name in names), pattern
    support = (ROOT / "docs" / "support.md").read_text()
    for old, new in listing.DEPRECATED.items():
        assert re.findall(r"\w+", old)[-1] in support, old
        assert f"`{new.removeprefix('mbs.')}`" in support, new


def test_modules_are_those_whose_docstrings_are_tested(listing, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "project")
    assert set(listing.MODULES) == set(importlib.import_module("test_docstrings").MODULES)


def test_one_version():
    """In the package, its citation and the changelog."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"]
    assert [x["name"] for x in citation["authors"]] == [x["name"] for x in project["authors"]]
    assert citation["license"] == project["license"]
    assert f"\n## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
