"""The site has a page for every element."""

import importlib.util
from pathlib import Path

import pytest

from jaxmbs.io.models.json_format.elements import types_of

SITE = Path(__file__).parent.parent / "docs" / "site"


@pytest.mark.parametrize("space", ["planar", "spatial"])
def test_every_element_has_a_page(space):
    spec = importlib.util.spec_from_file_location("catalogue", SITE / "catalogue.py")
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    groups = {"planar": catalogue.PLANAR, "spatial": catalogue.SPATIAL}[space]
    shown = {name for entries in groups.values() for name in entries}
    assert shown == set(types_of("constraint", space))
    assert all(entry.code.startswith(f"{space}.{name}(") for e in groups.values() for name, entry in e.items())
