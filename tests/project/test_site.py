"""The site has a page for every element, and says how to install what there is."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from jaxmbs.io.models.json_format.elements import types_of

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"


@pytest.mark.parametrize("space", ["planar", "spatial"])
def test_every_element_has_a_page(space):
    spec = importlib.util.spec_from_file_location("catalogue", SITE / "catalogue.py")
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    groups = {"planar": catalogue.PLANAR, "spatial": catalogue.SPATIAL}[space]
    shown = {name for entries in groups.values() for name in entries}
    assert shown == set(types_of("constraint", space))
    assert all(entry.code.startswith(f"{space}.{name}(") for e in groups.values() for name, entry in e.items())


def test_what_is_told_to_install_can_be_installed():
    """A checkout with extras that exist, or packages that the extras list; no package index, as the package is in none."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {re.split(r"[\[<>=]", need)[0] for needs in extras.values() for need in needs}
    pages = [ROOT / "README.md", ROOT / "examples" / "README.md"]
    pages += [*(ROOT / "docs").glob("*.md"), *(ROOT / "jaxmbs").rglob("*.py")]
    command = re.compile(r'pip install (?:-e )?"?([\w.-]+)(?:\[(\w+)\])?')
    told = [found for page in pages for found in command.findall(page.read_text())]
    assert len(told) > 8
    for name, extra in told:
        assert name == "." or name in packages - {"jaxmbs"}
        assert not extra or extra in extras
