"""Places that list joints, forces, integrators, formulations and backends, as docs/extending asks for."""

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import jaxmbs as mbs
from jaxmbs import forces, planar, spatial
from jaxmbs.cli import options
from jaxmbs.dynamics.methods.method import AbstractMethod
from jaxmbs.element import AbstractConstraint
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.programs import backends
from jaxmbs.programs.backends import EMISSIONS

ROOT = Path(__file__).parents[2]


def public(module, kind) -> set[str]:
    """Names of the concrete classes of a kind that a module exports."""
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, kind) and not name.startswith("Abstract") and value is not kind
    }


def named(page: str) -> set[str]:
    """The names in code spans and code blocks of a page."""
    text = (ROOT / page).read_text()
    return set(re.findall(r"\w+", " ".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))))


def made_in(folder: str) -> set[str]:
    """The classes of `mbs` that the tests of a folder make."""
    return {name for path in (ROOT / folder).rglob("*.py") for name in re.findall(r"mbs\.(\w+)\(", path.read_text())}


def cases(module: str, table: str) -> set[str]:
    """The classes of the values of a table of a test module."""
    return {type(value).__name__ for value in getattr(importlib.import_module(module), table).values()}


@pytest.mark.parametrize("space", [planar, spatial], ids=["planar", "spatial"])
def test_joints_and_drivers(space):
    """In the overview; pages, symbols, schema and Jacobians by hand have tests of their own beside what they list."""
    assert public(space, AbstractConstraint) - named("docs/overview.md") == set()


def test_forces():
    """At the front door, in the overview, and in the tests of forces."""
    classes = public(forces, forces.AbstractForce)
    assert {"Gravity", "Spring", "UserForce"} <= classes
    assert classes <= set(vars(mbs))
    assert classes - named("docs/overview.md") == set()
    assert classes - named("docs/dynamics.md") == set()
    assert classes - made_in("tests/dynamics") == set()
    assert classes - made_in("tests/io") == set()


def test_integrators(monkeypatch):
    """In two pages and the command line, with a convergence order and with gradients in the tests."""
    classes = public(mbs, AbstractMethod)
    assert classes == set(options.METHODS)
    assert {"RK4", "HHT", "Adaptive"} <= classes
    assert classes <= named("docs/overview.md") & named("docs/dynamics.md")
    assert {name for name in classes if name not in mbs.simulate.__doc__} == set()
    assert classes - named("docs/spatial.md") == set()
    monkeypatch.syspath_prepend(ROOT / "tests" / "dynamics")
    monkeypatch.syspath_prepend(ROOT / "tests" / "spatial")
    for module in ("test_integrators", "test_gradients_in_time", "test_spatial_integrators"):
        assert classes == cases(module, "METHODS")


def test_formulations():
    """In two pages and the command line; what is not Cartesian has a view of its coordinates."""
    classes = public(mbs, AbstractFormulation)
    assert classes == set(options.FORMULATIONS.values())
    assert {"Augmented", "JointCoordinates"} <= classes
    assert classes <= named("docs/overview.md") & named("docs/formulations.md")
    assert {name for name in classes if name not in mbs.simulate.__doc__} == set()
    assert all(hasattr(getattr(mbs, name), "of") for name in classes - {"Augmented"})


def test_backends():
    """Every emission is in docs/programs.md, every module in the contract that keeps them apart."""
    assert set(EMISSIONS) - set(re.findall(r"`([\w-]+)`", (ROOT / "docs/programs.md").read_text())) == set()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    apart = next(x["modules"] for x in contracts if x["name"] == "a backend knows no other")
    modules = {f"jaxmbs.programs.backends.{x.name}" for x in pkgutil.iter_modules(backends.__path__)}
    assert set(apart) == modules - {
        f"jaxmbs.programs.backends.{x}" for x in ("backend", "c", "evaluation", "javascript", "llvm", "source_text")
    }


def test_places_that_contributing_names_exist():
    """Every file and folder of CONTRIBUTING and of the recipes, and every make target."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = "".join(path.read_text() for path in (ROOT / "docs" / "extending").glob("*.md"))
    spans = set(re.findall(r"`([\w./]+)`", text + recipes)) | set(re.findall(r"\]\(([\w./]+)\)", text))
    places = {span for span in spans if "/" in span and not span.startswith("jaxmbs.")}
    assert len(places) > 60
    assert {place for place in places if not (ROOT / place).exists()} == set()
    targets = set(re.findall(r"^make (\S+)", text, re.MULTILINE))
    assert targets <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
