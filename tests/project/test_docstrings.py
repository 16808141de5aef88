"""Docstrings of public names: they describe every argument, and their examples run."""

import ast
import copy
import doctest
import importlib
import inspect
import re
import textwrap
import types

import matplotlib.pyplot as plt
import pytest

import jaxmbs

MODULES = [
    "jaxmbs", "jaxmbs.planar", "jaxmbs.spatial", "jaxmbs.motion", "jaxmbs.numerics.rotation", "jaxmbs.forces",
    "jaxmbs.synthesis", "jaxmbs.identification", "jaxmbs.sweeps", "jaxmbs.system.topology", "jaxmbs.io", "jaxmbs.env",
    "jaxmbs.viz",
]  # fmt: skip


def public() -> dict[str, object]:
    """Classes and functions of these modules, each under its first name."""
    found: dict[str, object] = {}
    for module in map(importlib.import_module, MODULES):
        for name in [*dir(module), *getattr(module, "_RESULTS", ())]:  # jaxmbs.io imports some when they are asked for
            value = getattr(module, name)
            own = getattr(value, "__module__", None) or ""
            # A module of its own imports names that are not its own; a package exports them.
            ours = own == module.__name__ or (own.startswith("jaxmbs") and hasattr(module, "__path__"))
            if callable(value) and ours and not name.startswith("_") and not any(value is x for x in found.values()):
                found[f"{module.__name__}.{name}"] = value
    return found


PUBLIC = public()
# Classes whose methods users call, rather than the package.
HANDLED = [
    "Mechanism", "Trajectory", "Assembly", "Reaction", "Reactions", "State", "EquationsOfMotion",
    "JointCoordinates", "Kane", "Natural",
]  # fmt: skip


def documented(doc: str) -> set[str]:
    """Names with an entry of their own: `name: text` under Attributes, under Args also `one, two: text`."""
    names: set[str] = set()
    for title, entry in (("Args", r"\w[\w, ]*"), ("Attributes", r"\w+")):
        sections = re.findall(rf"^{title}:\n((?: .*\n|\n)+)", doc + "\n", re.MULTILINE)
        found = re.findall(rf"^    ({entry}):", "".join(sections), re.MULTILINE)
        names |= {name.strip() for names_of_one in found for name in names_of_one.split(",")}
    return names


def undocumented(value) -> set[str]:
    """Arguments without an entry, and "Raises" where a function raises and does not say so."""
    kinds = inspect.Parameter
    doc = inspect.cleandoc((vars(value).get("__doc__") if isinstance(value, type) else value.__doc__) or "")
    plain = isinstance(value, type) and issubclass(value, Exception | jaxmbs.Status)
    parameters = {} if plain else inspect.signature(value).parameters
    several = (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    missing = {name for name, own in parameters.items() if own.kind not in several} - documented(doc)
    if inspect.isfunction(inspect.unwrap(value)) and "Raises:" not in doc:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value))))
        missing |= {"Raises" for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    return missing


def missing_sections(value) -> set[str]:
    """Sections that a function should have: its arguments, what it returns, and examples."""
    doc, signature = inspect.getdoc(value) or "", inspect.signature(value)
    wanted = {"Examples": True, "Args": bool(signature.parameters), "Returns": returns(value)}
    return {title for title, needed in wanted.items() if needed and f"{title}:\n" not in doc}


def returns(function) -> bool:
    """True unless the annotation of a function says that it returns nothing."""
    return inspect.signature(function).return_annotation not in (None, "None")


def methods(kind: type) -> dict[str, types.FunctionType]:
    """Methods that a class defines itself, by name; no properties and no private ones."""
    own = {name: getattr(value, "__func__", value) for name, value in vars(kind).items() if not name.startswith("_")}
    own = {name: inspect.unwrap(value) for name, value in own.items() if callable(value)}
    return {name: value for name, value in own.items() if inspect.isfunction(value) and value.__name__ == name}


def examples(name: str, value) -> list[doctest.Example]:
    """The lines of its docstring that begin with >>>, and what they give."""
    return doctest.DocTestParser().get_examples(inspect.getdoc(value) or "", name)


def presumed() -> dict[str, object]:
    """Names that all examples may use: those that the docstring of the package defines."""
    names: dict[str, object] = {}
    assert failures("jaxmbs", jaxmbs, names) == ""
    return names


class Checker(doctest.OutputChecker):
    """Zeros have no sign, and blanks after a bracket do not count: both depend on the last bit of a number."""

    def check_output(self, want, got, optionflags):
        plain = lambda text: re.sub(r"\[\s+", "[", re.sub(r"-(0\.0?)(?!\d)", r" \1", text))
        return super().check_output(plain(want), plain(got), optionflags)


def failures(name: str, value, names: dict[str, object]) -> str:
    """Return the examples whose results differ from those written; they add to `names`."""
    test = doctest.DocTest(examples(name, value), {}, name, None, None, None)
    test.globs = names
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(Checker(), optionflags=flags).run(test, out=said.append, clear_globs=False)
    return "".join(said)


@pytest.fixture(scope="module")
def names():
    plt.switch_backend("Agg")
    yield presumed()
    plt.close("all")


def test_all_are_found():
    assert len(PUBLIC) > 180


@pytest.mark.parametrize("name", PUBLIC)
def test_arguments(name):
    assert undocumented(PUBLIC[name]) == set()


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if not isinstance(value, type)])
def test_sections(name):
    assert missing_sections(PUBLIC[name]) == set()


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if isinstance(value, type)])
def test_sections_of_methods(name):
    """A docstring of one line says what the method returns. A longer one has a section for that."""
    for method, function in methods(PUBLIC[name]).items():
        doc = inspect.cleandoc(function.__doc__ or "")
        if len(doc.splitlines()) > 1 and returns(function):
            assert re.search("^(Returns|Yields):$", doc, re.MULTILINE), method


@pytest.mark.parametrize("name", HANDLED)
def test_methods(name):
    """Each has a docstring that mentions all of its arguments."""
    own = getattr(jaxmbs, name)
    for method, function in inspect.getmembers(own, inspect.isfunction):
        if (
            not method.startswith("_")
            and function.__module__.startswith("jaxmbs")
            and method not in ("equations", "unknowns")
        ):
            words = set(re.findall(r"\w+", function.__doc__ or ""))
            assert {*inspect.signature(function).parameters} - {"self"} <= words, method


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PUBLIC)
def test_example(name, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    value = PUBLIC[name]
    assert examples(name, value), f"{name} has no example"
    assert failures(name, value, copy.copy(names)) == ""
