"""Models in the JSON format of jaxmbs, version 1; `schema.py` has its schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxmbs.element import errors_of, unknown
from jaxmbs.io.models.json_format.elements import SPACES, Scope, decode, encode, types_of
from jaxmbs.io.models.model import LENGTH_UNITS, Model, ModelError
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.system.equations import state_of

# Name of the format, the value of "format" in a model file.
FORMAT = "jaxmbs"
# Version of the format of model files; the reader refuses others.
VERSION = 1
# Keys at the top of a model file, in the order in which they are written.
KEYS = (
    "format", "version", "name", "description", "units", "space", "bodies", "constraints", "drivers", "forces",
    "guess", "velocities", "limits",
)  # fmt: skip
# Kind of the elements under each of these keys; the schema and the reader look up classes by kind.
GROUPS = {"bodies": "body", "constraints": "constraint", "drivers": "constraint", "forces": "force"}
# Integers of a model file with more digits are refused: they may be too large for a float.
MAX_DIGITS = 300
# Lists and objects within a model file are written on one line if their text and its indentation, without their key,
# have at most this many characters.
MAX_LINE_LETTERS = 100


def write_json(model: Model) -> str:
    """Return a model as text; see `save`."""
    space = "planar" if next(iter(model.bodies.values())).dimension == 2 else "spatial"
    layout = model.layout
    mech = model.mechanism
    scope = Scope(space, layout.n, layout.m, lambda t, q, v: state_of(mech, q, v, t))
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if model.name:
        document["name"] = model.name
    document |= {"units": {"length": model.unit}, "space": space}
    document["bodies"] = _convert_group(encode, "bodies", model.bodies, scope)
    for key in ("constraints", "drivers", "forces"):
        if elements := getattr(model, key):
            document[key] = _convert_group(encode, key, elements, scope)
    document["guess"] = _coordinates_by_owner(model.guess, {**layout.body_slices, **layout.extra_slices})
    if model.velocity_by_name:
        slices = {**layout.velocity_slices, **layout.extra_velocity_slices}
        document["velocities"] = _grouped_velocities(model.velocity_by_name, slices, layout.velocities)
    if model.limits:
        limits = model.limits.items()
        document["limits"] = {name: [x if math.isfinite(x) else None for x in pair] for name, pair in limits}
    return pretty(document) + "\n"


def _convert_group(convert: Callable, key: str, elements: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return the elements under a key of a file, each converted by `encode` or `decode`, with its name in errors."""
    converted, word = {}, "body" if key == "bodies" else key.removesuffix("s")
    for name, element in elements.items():
        with errors_of(f"{word} {name!r}", ModelError):
            converted[name] = convert(element, GROUPS[key], scope)
    return converted


def _coordinates_by_owner(values, slices: Mapping[str, slice]) -> dict:
    """Return coordinates (n,) as lists by the bodies and constraints to whose `slices` they belong."""
    values = np.asarray(values, float)
    if not np.all(np.isfinite(values)):
        raise ModelError("guess: must be finite")
    return {name: values[where].tolist() for name, where in slices.items()}


def _grouped_velocities(values: Mapping[str, float], slices: Mapping[str, slice], names: Sequence[str]) -> dict:
    """Return velocities by name, those of a body as one list if all of them are given."""
    if not np.all(np.isfinite(list(values.values()))):
        raise ModelError("velocities: must be finite")
    rows = {owner: names[where] for owner, where in slices.items()}
    whole = {owner: row for owner, row in rows.items() if row and all(name in values for name in row)}
    done = {name for row in whole.values() for name in row}
    single = {name: value for name, value in values.items() if name not in done}
    return {owner: [values[name] for name in row] for owner, row in whole.items()} | single


def pretty(value, indent: str = "") -> str:
    """Return JSON text with short lists and objects on one line."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, (dict, list)) or not value or (indent and len(indent) + len(line) <= MAX_LINE_LETTERS):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {pretty(x, deeper)}" for key, x in value.items()]
    else:
        parts = [pretty(x, deeper) for x in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{end}"


def read_json(path: Path, options: ReadOptions) -> Model:
    """Read a model from a file; see `load`."""
    given = [name for name, value in options._asdict().items() if value]
    if given:
        raise ModelError(f"{', '.join(given)}: not for .json; leave it out")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError("is not text in UTF-8") from None
    return model_from(parse(text))


def parse(text: str) -> Any:
    """Return the data of a JSON text. Repeated names in an object and numbers that are not finite are errors."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except json.JSONDecodeError as error:
        raise ModelError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ModelError("is nested too deeply") from None


def _without_repeats(pairs):
    """Return pairs as a dict; raise `ModelError` for names that appear twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ModelError(f"{key!r} appears twice")
        found[key] = value
    return found


def _refuse_constant(word: str):
    """Raise `ModelError` for NaN and Infinity."""
    raise ModelError(f"{word}: numbers of a model must be finite")


def _finite(text: str) -> float:
    """Return a number; raise `ModelError` if it is not finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ModelError(f"{text} is too large")
    return value


def _whole(text: str) -> int:
    """Return an integer; raise `ModelError` if it may be too large for a float."""
    if len(text) > MAX_DIGITS:
        raise ModelError(f"{text[:12]}… is too large")
    return int(text)


def model_from(document) -> Model:
    """Return the model of parsed JSON."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelError(f'is not a model: "format" must be "{FORMAT}"')
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise ModelError(
            f"version {document.get('version')!r} of the format is not known; this reads version {VERSION}"
        )
    for key in document:
        if key not in KEYS:
            raise ModelError(unknown("key", key, list(KEYS)))
    if not isinstance(document.get("space"), str) or document["space"] not in SPACES:
        raise ModelError(f'"space" must be one of {", ".join(SPACES)}, got {document.get("space")!r}')
    texts = {key: _checked_type(document.get(key, ""), str, key) for key in ("name", "description")}
    unit = _length_unit(document.get("units", {}))
    listed = _checked_type(document.get("bodies"), dict, "bodies")
    bodies = _convert_group(decode, "bodies", listed, Scope(document["space"], 0, 0))
    # Functions in elements have arguments of the sizes of q and v.
    scope = Scope(document["space"], *_counts(bodies, document))
    groups = {
        key: _convert_group(decode, key, _checked_type(document.get(key, {}), dict, key), scope)
        for key in ("constraints", "drivers", "forces")
    }
    keys = ("guess", "velocities", "limits")
    numbers: dict[str, Any] = {key: _checked_type(document.get(key, {}), dict, key) for key in keys}
    numbers["limits"] = {name: _bounds(pair) for name, pair in numbers["limits"].items()}
    for key, values in numbers.items():
        for name, value in values.items():
            if not _is_number_or_row(value):
                raise ModelError(f"{key}: {name!r} must have numbers, got {value!r}")
    for name, pair in numbers["limits"].items():
        if np.shape(pair) != (2,):
            raise ModelError(f"limits: {name!r} must be [lower, upper]")
    given: dict[str, Any] = {**groups, **numbers}
    return Model(bodies, **given, name=texts["name"], unit=unit)


def _bounds(pair: Any) -> Any:
    """Return a pair of limits with null, for no limit, as an infinity; other values unchanged."""
    if not isinstance(pair, list) or len(pair) != 2:
        return pair
    return [infinity if x is None else x for x, infinity in zip(pair, (-math.inf, math.inf), strict=True)]


def _counts(bodies: dict, document: dict) -> tuple[int, int]:
    """Return how many coordinates and velocities a file has, with the extra ones of constraints."""
    known = types_of("constraint", document["space"])
    extra = 0
    for key in ("constraints", "drivers"):
        group = document.get(key)
        for data in group.values() if isinstance(group, dict) else ():
            own = known.get(str(data.get("type"))) if isinstance(data, dict) else None
            names = getattr(own, "extra", ())
            if isinstance(names, property):
                # A coupling has one for each angle.
                kinds = data.get("kinds")
                extra += kinds.count("angle") if isinstance(kinds, list) else 0
            else:
                extra += len(names)
    size: Callable = lambda field: sum(len(getattr(type(body), field)) for body in bodies.values()) + extra
    return size("coordinates"), size("angular")


def _checked_type(value, kind: type, key: str) -> Any:
    """Return the value of a key; raise `ModelError` unless it has this type."""
    if not isinstance(value, kind):
        word = "an object" if kind is dict else "a text"
        raise ModelError(f"{key} must be {word}" if value is not None else f"{key} is missing")
    return value


def _is_number_or_row(value) -> bool:
    """Return True for a number or a list of numbers."""
    row = value if isinstance(value, list) else [value]
    return all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in row)


def _length_unit(units) -> str:
    """Return the unit of length of a file after a check of its "units"; "m" if it names none."""
    units = _checked_type(units, dict, "units")
    for key, value in units.items():
        if key not in ("length", "angle"):
            raise ModelError(f"units: {unknown('unit', key, ['length', 'angle'])}")
        allowed = LENGTH_UNITS if key == "length" else ("rad",)
        if not isinstance(value, str) or value not in allowed:
            raise ModelError(f"units: {key} must be one of {', '.join(allowed)}, got {value!r}")
    return units.get("length", "m")
