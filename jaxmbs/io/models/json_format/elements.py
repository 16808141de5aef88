"""Elements as JSON: objects with the type and the arguments of the element."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np

from jaxmbs import forces, motion, planar, spatial
from jaxmbs.element import AbstractBody, AbstractConstraint, errors_of, unknown
from jaxmbs.forces import AbstractForce
from jaxmbs.forces.applied import OfCoordinates
from jaxmbs.io.models.json_format import expressions
from jaxmbs.io.models.json_format.expressions import Expression
from jaxmbs.io.models.model import ModelError
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import as_given, is_concrete
from jaxmbs.planar.outlines import AbstractOutline
from jaxmbs.planar.polylines import RoundedPolyline

# Modules with the elements of a file, by its "space".
SPACES = {"planar": planar, "spatial": spatial}
# Classes of objects that are arguments of elements.
VALUES = (AbstractMotion, AbstractOutline, RoundedPolyline, spatial.Frame)


@cache
def types_of(kind: str, space: str) -> dict[str, type]:
    """Return the classes by name that a file may have as "body", "constraint", "force" or "value"."""
    bases: dict[str, tuple[tuple[Any, ...], tuple[type, ...]]] = {
        "body": ((SPACES[space],), (AbstractBody,)),
        "constraint": ((SPACES[space],), (AbstractConstraint,)),
        "force": ((forces, SPACES[space]), (AbstractForce,)),
        "value": ((motion, SPACES[space]), VALUES),
    }
    modules, wanted = bases[kind]
    return {
        name: found
        for module in modules
        for name, found in sorted(vars(module).items())
        if isinstance(found, type) and issubclass(found, wanted) and not name.startswith("Abstract")
    }


@cache
def arguments_of(kind: Any) -> dict[str, inspect.Parameter]:
    """Return the arguments that a class of elements takes, by name; some are fields that `__init__` does not name."""
    taken = inspect.signature(kind).parameters
    named = {name: p for name, p in taken.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    if len(named) == len(taken):
        return named
    # Arguments in any order are fields, or points without effect.
    fields = [f.name.lstrip("_") for f in dataclasses.fields(kind) if not f.metadata.get("static") or f.name in "ij"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [name for name in fields if name not in named]
    return named | {name: inspect.Parameter(name, keyword, default=None) for name in more}


@dataclasses.dataclass(frozen=True)
class Scope:
    """Facts about the mechanism that its elements need.

    Attributes:
        space: "planar" or "spatial".
        n: number of coordinates.
        m: number of velocities.
        state_of: returns the state for forces from (t, q, v); None when a file is read.
    """

    space: str
    n: int
    m: int
    state_of: Callable | None = None

    def argument_shapes(self, owner: type, name: str) -> list[tuple[int, ...]]:
        """Return the shapes of the arguments of a function that is the argument `name` of the class `owner`."""
        q, v = (self.n,), (self.m,)
        if name in (laws := forces.laws_of(owner)):
            return [() for _ in laws[name]]
        if issubclass(owner, forces.UserForce):
            return [q, v, ()] if name == "f" else [q]
        return [(), q, v] if issubclass(owner, AbstractForce) else [()]

    def result_shape(self, owner: type, name: str) -> tuple[int, ...] | None:
        """Return the shape of the result of such a function, None if it may have any."""
        if name in forces.laws_of(owner):
            return ()
        if issubclass(owner, forces.UserForce):
            return (self.m,) if name == "f" else ()
        return None if issubclass(owner, AbstractForce) else ()


def is_truth_value(owner: Any, name: str) -> bool:
    """Return True if the argument `name` of the class `owner` is a truth value."""
    return any(field.name == name and field.type in ("bool", bool) for field in dataclasses.fields(owner))


def is_text(owner: Any, name: str) -> bool:
    """Return True if the argument `name` of the class `owner` is a text."""
    return any(field.name == name and str(field.type) in ("str", "str | None") for field in dataclasses.fields(owner))


def encode(element, kind: str, scope: Scope) -> dict:
    """Return an element as JSON; raise `ModelError` if it could not be read again as it is."""
    own = type(element)
    if types_of(kind, scope.space).get(own.__name__) is not own:
        raise ModelError(f"{own.__name__} is not a type of jaxmbs")
    data = _encoded_arguments(element, scope)
    if own.__name__ != "Body":
        data = {"type": own.__name__} | data
    if not _are_equal(decode(data, kind, scope), element):
        raise ModelError(f"{own.__name__} has fields that differ from those that its arguments give")
    return data


def _encoded_arguments(element, scope: Scope) -> dict:
    """Return the arguments of an element as JSON, without those that are None, empty, or a truth value by default."""
    fields = {field.name for field in dataclasses.fields(element)}
    given = element.arguments() if hasattr(element, "arguments") else {}
    data = {}
    own: Any = type(element)
    for name, parameter in arguments_of(own).items():
        if name in given:
            value = given[name]
        elif name in fields:
            value = as_given(element, name)
        elif f"_{name}" in fields:
            value = as_given(element, f"_{name}")
            if value is None and name == "inertia":
                # None is zero here. An inertia missing in a file would depend on the mass.
                value = 0.0
            elif value is None and parameter.default is not None:
                value = getattr(element, name)
        else:
            continue
        default = value is bool(parameter.default) if isinstance(value, bool) else isinstance(value, dict) and not value
        if value is not None and not default:
            data[name] = _encode_value(value, name, type(element), scope)
    return data


def _encode_value(value, name: str, owner: type, scope: Scope):
    """Return the value of the argument `name` of a class as JSON."""
    again = lambda x: _encode_value(x, name, owner, scope)
    if isinstance(value, forces.OfState) and isinstance(value.f, OfCoordinates):
        value = value.f.f
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, Mapping):
        return {key: again(x) for key, x in value.items()}
    if isinstance(value, tuple):
        return [again(x) for x in value]
    if isinstance(value, Expression):
        return value.encode()
    if isinstance(value, tuple(types_of("value", scope.space).values())):
        return encode(value, "value", scope)
    if type(value) is int:
        return value  # a plain zero is part of the structure
    if isinstance(value, (int, float, np.ndarray, np.generic, jax.Array)):
        if not is_concrete(value):
            raise ModelError(f"{name} is traced; only concrete numbers can be written")
        numbers = np.asarray(value)
        if not np.all(np.isfinite(numbers)):
            raise ModelError(f"{name} is not finite")
        return numbers.astype(float).tolist()
    if callable(value):
        with errors_of(name, ModelError):
            f = _function_of_numbers(value, owner, scope)
            return expressions.expression_of(f, scope.argument_shapes(owner, name)).encode()
    raise ModelError(f"{name}: {type(value).__name__} cannot be written")


def _function_of_numbers(f, owner: type, scope: Scope):
    """Return a function of the state as f(t, q, v), as f(q, v, t) for a `UserForce`; other functions unchanged."""
    if not isinstance(f, forces.OfState):
        return f
    state_of = scope.state_of
    assert state_of is not None  # every scope for writing has one
    if issubclass(owner, forces.UserForce):
        return lambda q, v, t: f(state_of(t, q, v))
    return lambda t, q, v: f(state_of(t, q, v))


def _are_equal(a, b) -> bool:
    """Return True if two elements are the same, number for number. Functions are not compared."""
    ours, theirs = (jax.tree.flatten(x, is_leaf=_is_function) for x in (a, b))
    return ours[1] == theirs[1] and all(  # type: ignore[operator]
        _is_function(x) or (np.shape(x) == np.shape(y) and np.array_equal(np.asarray(x), np.asarray(y)))
        for x, y in zip(ours[0], theirs[0], strict=True)
    )


def _is_function(x) -> bool:
    """Return True for functions and expressions, which are leaves when elements are compared."""
    known = (*VALUES, AbstractForce, AbstractConstraint, AbstractBody)
    return (callable(x) and not isinstance(x, known)) or isinstance(x, Expression)


def decode(data, kind: str, scope: Scope):
    """Return an element from JSON; raise `ModelError` for unknown or missing types and arguments."""
    if not isinstance(data, dict):
        raise ModelError(f"must be an object, got {_short(data)}")
    types = types_of(kind, scope.space)
    name = data.get("type", "Body" if kind == "body" else None)
    if name is None:
        raise ModelError("type is missing")
    if not isinstance(name, str) or name not in types:
        raise ModelError(unknown("type", _short(name), list(types)))
    own = types[name]
    arguments = arguments_of(own)
    values = {}
    for key, value in data.items():
        if key == "type":
            continue
        if key not in arguments:
            raise ModelError(f"{name}: {unknown('argument', key, list(arguments))}")
        with errors_of(f"{name}: {key}", ModelError):
            values[key] = _decode_value(value, key, own, scope)
        if own is forces.UserForce and isinstance(values[key], Expression) and key == "f":
            values[key] = forces.OfState(OfCoordinates(values[key]))
    for key, parameter in arguments.items():
        if parameter.default is inspect.Parameter.empty and key not in values:
            raise ModelError(f"{name}: {key} is missing")
    try:
        return own(**values)
    except TypeError as error:
        raise ModelError(f"{name}: {error}") from None


def _decode_value(value, name: str, owner: type, scope: Scope):
    """Return the value of the argument `name` of a class from JSON."""
    if isinstance(value, bool):
        if not is_truth_value(owner, name):
            raise ModelError(f"must be numbers, got {value}")
        return value
    if value is None:
        return value
    if isinstance(value, str):
        names = name == "bodies" or owner in types_of("constraint", scope.space).values()
        if not names and not is_text(owner, name):
            raise ModelError(f"must be numbers, got {value!r}")
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, list):
        if _is_numbers(value) or not value:
            return _with_floats(value)
        return tuple(_decode_value(x, name, owner, scope) for x in value)
    if "type" not in value:
        if any(not isinstance(x, dict) for x in value.values()):
            raise ModelError("type is missing")
        return {key: decode({"type": "Frame", **x}, "value", scope) for key, x in value.items()}
    if value["type"] == "expression":
        found = expressions.decode(value, scope.argument_shapes(owner, name))
        wanted = scope.result_shape(owner, name)
        if wanted is not None and found.shape != wanted:
            raise ModelError(f"expression: must give shape {list(wanted)}, got {list(found.shape)}")
        return found
    return decode(value, "value", scope)


def _is_numbers(value) -> bool:
    """Return True for numbers and nested lists of numbers."""
    if isinstance(value, list):
        return all(_is_numbers(x) for x in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _with_floats(value):
    """Return nested lists with numbers as NumPy floats, but integers unchanged: 0 is structure, 0.0 a parameter."""
    if isinstance(value, list):
        return [_with_floats(x) for x in value]
    return np.float64(value) if isinstance(value, float) else value


def _short(value) -> str:
    """Return a value as a text of 40 letters at most."""
    text = repr(value)
    return text if len(text) < 40 else f"{text[:37]}…"
