"""The JSON Schema of model files, made from the classes of the elements."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from jaxmbs.io.models.json_format.document import FORMAT, VERSION
from jaxmbs.io.models.json_format.elements import SPACES, arguments_of, is_text, is_truth_value, types_of
from jaxmbs.io.models.json_format.expressions import ARITY
from jaxmbs.io.models.model import LENGTH_UNITS

# JSON schema of a number.
NUMBER: dict[str, Any] = {"type": "number"}
# JSON schema of a list of numbers.
NUMBERS: dict[str, Any] = {"type": "array", "items": NUMBER}
# JSON schema of a number or a list of numbers.
ROW: dict[str, Any] = {"anyOf": [NUMBER, NUMBERS]}


def schema() -> dict:
    """Return the JSON Schema (draft 2020-12) of version 1 of the format.

    It has all elements of `jaxmbs.planar` and `jaxmbs.spatial`, all forces and motions, with their arguments.

    Returns:
        the schema as a dict.

    Examples:
        >>> "planar Revolute" in mbs.io.schema()["$defs"]
        True
    """
    definitions: dict[str, Any] = {"expression": _schema_of_expression()}
    for space in SPACES:
        for kind in ("body", "constraint", "force", "value"):
            choices = [{"$ref": f"#/$defs/{space} {name}"} for name in types_of(kind, space)]
            definitions[f"{space} {kind}"] = {"anyOf": choices}
            for name, own in types_of(kind, space).items():
                definitions[f"{space} {name}"] = _schema_of_class(name, own, kind, space)
        definitions[f"{space} argument"] = _schema_of_any_argument(space)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A mechanism of jaxmbs, version {VERSION}",
        "type": "object",
        "required": ["format", "version", "space", "bodies"],
        "properties": _schemas_of_common_keys(),
        "oneOf": [_schema_of_model(space) for space in SPACES],
        "$defs": dict(sorted(definitions.items())),
    }


def _schemas_of_common_keys() -> dict:
    """Return the schemas of the keys that planar and spatial models have in common."""
    text = {"type": "string"}
    rows = {"type": "object", "additionalProperties": ROW}
    pair = {"type": "array", "items": {"anyOf": [NUMBER, {"type": "null"}]}, "minItems": 2, "maxItems": 2}
    return {
        "format": {"const": FORMAT},
        "version": {"const": VERSION},
        "name": text,
        "description": text,
        "units": {
            "description": "Unit of length. Masses, times and forces are in consistent units, angles in radians.",
            "type": "object",
            "properties": {"length": {"enum": list(LENGTH_UNITS)}, "angle": {"const": "rad"}},
            "additionalProperties": False,
        },
        "space": {"enum": list(SPACES)},
        "guess": {"description": "Coordinates by body, extra ones by constraint, or single ones by name.", **rows},
        "velocities": {"description": "Velocities at the guess, likewise.", **rows},
        "limits": {
            "description": "Ranges of joints, for other tools; null is no limit. A JointStop stops a joint.",
            "type": "object",
            "additionalProperties": pair,
        },
    }


def _schema_of_model(space: str) -> dict:
    """Return the schema of a planar or a spatial model."""

    def group(kind: str) -> dict[str, Any]:
        """Return the schema of a group of elements of a kind: an object with one element per name."""
        return {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{space} {kind}"}}

    own = {"bodies": group("body") | {"minProperties": 1}}
    own |= {"constraints": group("constraint"), "drivers": group("constraint"), "forces": group("force")}
    known = dict.fromkeys(_schemas_of_common_keys(), True)
    return {"properties": known | {"space": {"const": space}} | own, "additionalProperties": False}


def _schema_of_class(name: str, element_class: type, kind: str, space: str) -> dict:
    """Return the schema of a class of elements."""
    fields = {field.name.lstrip("_"): field for field in dataclasses.fields(element_class)}
    properties: dict[str, Any] = {"type": {"const": name}}
    required = [] if name == "Body" else ["type"]
    for argument, parameter in arguments_of(element_class).items():
        field = fields.get(argument)
        properties[argument] = _schema_of_argument(element_class, argument, field, space)
        has_default = field is not None and field.default is not dataclasses.MISSING
        if parameter.default is inspect.Parameter.empty and not has_default:
            required.append(argument)
    about = (inspect.getdoc(element_class) or "").split("\n\n")[0].replace("\n", " ")
    return {
        "description": about,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema_of_argument(element_class: type, name: str, field, space: str) -> dict:
    """Return the schema of an argument of a class, by its field if it has one."""
    if is_text(element_class, name):
        return {"type": "string"}
    if name == "bodies" or (field is not None and str(field.type) == "tuple[str, ...]"):
        return {"type": "array", "items": {"type": "string"}}
    if name == "frames":
        return {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{space} Frame"}}
    if field is not None and is_truth_value(element_class, field.name):
        return {"type": "boolean"}
    if field is not None and "takes" in field.metadata:
        return {"$ref": "#/$defs/expression"}
    if field is None or "shape" not in field.metadata:
        return {"$ref": f"#/$defs/{space} argument"}
    shape = field.metadata["shape"]
    found = NUMBER
    for size in reversed(shape):
        found = {"type": "array", "items": found}
        if size is not None:
            found |= {"minItems": size, "maxItems": size}
    return found


def _schema_of_any_argument(space: str) -> dict:
    """Return the schema of an argument whose shape is not known."""
    own = {"$ref": f"#/$defs/{space} argument"}
    words = {"enum": ["free", "fixed"]}
    parts = [NUMBER, words, {"$ref": f"#/$defs/{space} value"}, {"$ref": "#/$defs/expression"}]
    return {"anyOf": [*parts, {"type": "array", "items": own}]}


def _schema_of_expression() -> dict:
    """Return the schema of a function as a list of scalar operations."""
    index = {"type": "integer", "minimum": 0}
    row = lambda names, *rest: {
        "type": "array",
        "prefixItems": [{"enum": list(names)}, *rest],
        "minItems": 1 + len(rest),
        "maxItems": 1 + len(rest),
    }
    operations = [row([op for op in ARITY if ARITY[op] == n], *[index] * n) for n in (0, 1, 2, 3)]
    return {
        "description": (
            "A function as a list of scalar operations. Each gives one value, with its number in the list: "
            '["input", k, m] is entry m of argument k, ["number", x] a number, the others take numbers of earlier values. '
            "`result` lists the values that are returned, in the shape `shape`."
        ),
        "type": "object",
        "properties": {
            "type": {"const": "expression"},
            "operations": {
                "type": "array",
                "items": {"anyOf": [row(["input"], index, index), row(["number"], NUMBER), *operations]},
            },
            "result": {"type": "array", "items": index},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
        "required": ["type", "operations", "result"],
        "additionalProperties": False,
    }
