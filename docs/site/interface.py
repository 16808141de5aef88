"""The public interface: every name and signature, and every option of the command line, with its mark.

`python docs/site/interface.py` writes `docs/api.txt`. A test compares the two, so that a change of a name
appears as a change of that file. docs/support.md defines the marks.
"""

from __future__ import annotations

import argparse
import enum
import fnmatch
import importlib
import inspect
import numbers
import textwrap
from collections.abc import Iterator
from pathlib import Path

from jaxmbs.cli.main import parser
from jaxmbs.dynamics.closure import AbstractClosure
from jaxmbs.dynamics.methods.method import AbstractMethod
from jaxmbs.element import AbstractBody, AbstractConstraint
from jaxmbs.env import Environment
from jaxmbs.forces import AbstractForce
from jaxmbs.motion import AbstractMotion
from jaxmbs.planar.outlines import AbstractOutline
from jaxmbs.synthesis import Linkage
from jaxmbs.system.mechanism import Mechanism

# File with the listing of the public interface.
FILE = Path(__file__).parent.parent / "api.txt"
# Longest line of the listing on its page, in characters.
LINE_WIDTH = 110
# Modules of the public interface, and their names in user code.
MODULES = {
    "jaxmbs": "mbs", "jaxmbs.planar": "mbs.planar", "jaxmbs.spatial": "mbs.spatial", "jaxmbs.motion": "mbs.motion",
    "jaxmbs.forces": "mbs.forces", "jaxmbs.synthesis": "mbs.synthesis", "jaxmbs.identification": "mbs.identification",
    "jaxmbs.system.topology": "mbs.topology", "jaxmbs.numerics.rotation": "mbs.rotation", "jaxmbs.io": "mbs.io",
    "jaxmbs.env": "mbs.env", "jaxmbs.sweeps": "mbs.sweeps", "jaxmbs.viz": "mbs.viz",
}  # fmt: skip
# Patterns of public names that may change in a minor version: new ones, and those for authors of new elements.
EXPERIMENTAL = (
    "mbs.program", "mbs.ProgramError", "mbs.PerformanceWarning", "mbs.explain", "mbs.Explanation*", "mbs.identif*",
    "mbs.Identified*", "mbs.Record*", "mbs.lineari*", "mbs.Lineari*", "mbs.modes", "mbs.Modes*",
    "mbs.sweep", "mbs.sweeps.*", "mbs.env.*", "mbs.BristleFriction", "mbs.ClearanceRevolute", "mbs.GearMesh", "mbs.Bushing",
    "mbs.planar.OutlineContact", "mbs.planar.FlatContact", "mbs.planar.RoundedPolyline", "mbs.planar.GenevaDrive",
    "mbs.planar.ElasticBelt",
    "mbs.statics", "mbs.Statics*", "mbs.equivalent", "mbs.Equivalent*",
    "mbs.forces.*", "mbs.synthesis.curve", "mbs.synthesis.Curve*", "mbs.synthesis.Front*", "mbs.synthesis.Dyad*",
    "mbs.synthesis.topologies", "mbs.synthesis.Linkage*", "mbs.io.read_curve", "mbs.viz.attachments", "mbs.viz.symbol",
    "mbs.viz.MAX_POINTS", "mbs.show", "mbs.viz.show", "mbs.viz.Viewer*", "mbs.viz.PartSizes*", "mbs.io.solids",
    "mbs.planar.Pose*", "mbs.spatial.Pose*", "mbs.spatial.euler_vector", "mbs.motion.*_*",
    "mbs.motion.AbstractMotion", "mbs.equilibri*", "mbs.Equilibrium*", "mbs.linearise", "mbs.Linearisation*", "mbs.modes",
    "mbs.Modes*", "jaxmbs identify*", "jaxmbs sweep*", "jaxmbs equilibrium*", "jaxmbs modes*",
)  # fmt: skip
# Old public names that still work, with the new ones; see docs/support.md.
DEPRECATED = {
    "mbs.planar.AbsoluteDistance(center=)": "centre",
    "mbs.planar.AbsoluteDistance.center": "centre",
    "mbs.spatial.RelativeJoint(translations=)": "position",
    "mbs.spatial.RelativeJoint(angles=)": "orientation",
    "mbs.spatial.RelativeJoint.translations": "position",
    "mbs.spatial.RelativeJoint.angles": "orientation",
    "mbs.UserForce(f=<f(q, v, t)>)": "f(state)",
    "mbs.synthesis.path(mechanism=<a builder>)": "mbs.synthesis.fit",
    "mbs.synthesis.function(mechanism=<a builder>)": "mbs.synthesis.fit",
    "mbs.synthesis.motion(mechanism=<a builder>)": "mbs.synthesis.fit",
}
# Base classes whose arguments are listed, but not their methods, which only the package calls.
ARGUMENTS_ONLY = (
    AbstractBody, AbstractConstraint, AbstractForce, AbstractMotion, AbstractOutline, AbstractMethod, AbstractClosure,
    Linkage,
)  # fmt: skip
# Base classes whose members are not repeated in derived classes.
BASES = (Mechanism, Environment)


def interface() -> list[str]:
    """Return the lines of the listing, in the order of the modules."""
    lines, first_names = [], {}
    for module, written in MODULES.items():
        for name, value in public(importlib.import_module(module)):
            full = f"{written}.{name}"
            first = first_names.setdefault(id(value), full) if callable(value) else full
            lines += lines_of(full, value) if first == full else [f"{full} = {first}"]
    lines += options("jaxmbs", parser())
    marked = [f"{mark(line)} {line}" for line in lines]
    return marked + [f"deprecated   {old}: write {new}" for old, new in DEPRECATED.items()]


def mark(line: str) -> str:
    """Return the mark of a line."""
    name = line.split("(")[0].split(" = ")[-1].split(":")[0]
    young = any(fnmatch.fnmatchcase(name, pattern) for pattern in EXPERIMENTAL)
    return f"{'experimental' if young else 'stable':12}"


def public(module) -> Iterator[tuple[str, object]]:
    """Yield the public names of a module with their values: its own, and those that a package exports."""
    package = hasattr(module, "__path__")
    late = [name for place in ("_RESULTS", "_ADAPTERS") for name in getattr(module, place, ())]
    for name in sorted({*dir(module), *late}):
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        ours = home == module.__name__ or (package and home.startswith("jaxmbs"))
        constant = name.isupper() and package
        if not name.startswith("_") and not inspect.ismodule(value) and (constant or (callable(value) and ours)):
            yield name, value


def lines_of(name: str, value) -> Iterator[str]:
    """Yield the line of a function, or those of a class with its public members."""
    if not callable(value):
        yield f"{name}: {type(value).__name__}"
    elif not isinstance(value, type):
        yield f"{name}{signature(value)}"
    elif issubclass(value, enum.Enum):
        yield from (f"{name}.{x.name}" for x in value)
    elif issubclass(value, Exception):
        yield f"{name}: an error, a kind of {value.__base__.__name__}"
    else:
        yield f"{name}{signature(value)}"
        if not issubclass(value, ARGUMENTS_ONLY) and not name.split(".")[-1].startswith("Abstract"):
            yield from members(name, value)


def members(name: str, kind: type) -> Iterator[str]:
    """Yield public methods and properties of a class of this package, except those inherited from `BASES`."""
    inherited = {x for base in BASES if issubclass(kind, base) and kind is not base for x in dir(base)}
    for member in sorted({*dir(kind)} - inherited - {"equations", "unknowns", "chosen"}):
        own = inspect.getattr_static(kind, member)
        function = own.fget if isinstance(own, property) else getattr(own, "func", getattr(kind, member))
        if member.startswith("_") or not getattr(function, "__module__", "").startswith("jaxmbs"):
            continue
        called = inspect.isfunction(inspect.unwrap(function)) and not isinstance(own, property)
        yield f"{name}.{member}{signature(getattr(kind, member)) if called and callable(getattr(kind, member)) else ''}"


def signature(value) -> str:
    """Return names of arguments and their defaults, without types."""
    found = inspect.signature(value)
    bare = [
        x.replace(annotation=x.empty, default=x.empty if x.default is x.empty else DefaultValue(x.default))
        for name, x in found.parameters.items()
        if name != "self"
    ]
    return str(found.replace(parameters=bare, return_annotation=found.empty))


class DefaultValue:
    """A default value as text: numbers and strings unchanged, other objects by their class."""

    def __init__(self, value):
        plain = value is None or isinstance(value, numbers.Number | str | tuple)
        named = type(value).__name__ if type(value).__module__.startswith("jaxmbs") else ""
        self.text = repr(value) if plain else f"{named}(…)"

    def __repr__(self) -> str:
        return self.text


def options(name: str, of: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a line for each option and argument of a parser and its subcommands, except help, after the command's name."""
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                yield from options(f"{name} {command}", below)
        elif action.dest != "help":
            shown = ", ".join(action.option_strings) or action.metavar or action.dest
            yield f"{name} {shown if isinstance(shown, str) else ' '.join(shown)}"


def page(text: str) -> str:
    """Return the listing as a page of the reference."""
    rows = [line.split(maxsplit=1) for line in text.splitlines()]
    parts = ["# Interface", "Every public name, and what may be [relied on](../support.md#what-is-stable)."]
    for kind in ("deprecated", "experimental", "stable"):
        names = "\n".join(wrap(line) for own, line in rows if own == kind)
        parts.append(f"## {kind.capitalize()}\n\n```text\n{names}\n```")
    return "\n\n".join(parts) + "\n"


def wrap(line: str) -> str:
    """Wrap a line at `LINE_WIDTH`."""
    return textwrap.fill(line, LINE_WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    FILE.write_text("\n".join(interface()) + "\n", encoding="utf-8")
