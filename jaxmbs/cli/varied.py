"""The option `--vary bodies.rod.mass=0.5:1.5`: places of a model, and distributions of their numbers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Groups of elements in which a path to a number of a model may begin.
GROUPS = ("bodies", "constraints", "drivers", "forces")
# Forms of the text after the path to a number in `--vary` and similar options, for error messages.
VALUE_FORMS = "A:B (uniform), log:A:B, normal:MEAN,DEVIATION, A:B:N (N values of a grid), or A,B,C"

# Path to a number: fields of objects by name, items of tuples and arrays by index.
Steps = tuple[str | int, ...]


def place_of(model, path: str) -> Steps:
    """Return the steps to a number of a model from names and indices with dots, such as "constraints.A.point_i.0".

    Raises:
        ValueError: the model has no such number.
    """
    words, passed = path.split("."), "the model"
    steps: list[str | int] = []
    node: Any = {group: getattr(model, group) for group in GROUPS}
    while words and not _is_array(node):
        options = _named_parts(node)
        # Names of elements may contain dots.
        found = [n for n in range(len(words), 0, -1) if ".".join(words[:n]) in options]
        if not found:
            known = ", ".join(map(str, options)) or "none"
            raise ValueError(f"{path}: {passed} has no {words[0]!r}; it has {known}")
        passed, words = ".".join(words[: found[0]]), words[found[0] :]
        # A mechanism stores its elements in tuples, in fields with an underscore before the name.
        named = isinstance(node, Mapping) and len(steps) == 1
        steps.append(list(options).index(passed) if named else passed if steps else f"_{passed}")
        node = options[passed]
    shape = np.shape(node) if _is_array(node) else ()
    try:
        steps += [int(word) for word in words]
        single = np.zeros(shape)[tuple(int(word) for word in words)].ndim == 0
        if any(int(word) < 0 for word in words):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(f"{path}: {passed} has shape {shape} and no index {'.'.join(words)}") from None
    if not _is_array(node) or np.asarray(node).dtype.kind != "f":
        raise ValueError(f"{path}: must be a real number")
    if not single:
        raise ValueError(f"{path}: has shape {shape}; give an index, as in {path}.0")
    return tuple(steps)


def number_at(model, steps: Steps) -> float:
    """Return the number at a place."""
    node: Any = model
    for step in steps:
        inside = isinstance(node, Mapping) or isinstance(step, int)
        node = node[step] if inside else getattr(node, str(step))
    return float(node)


def with_number(node, steps: Steps, value):
    """Return the model with another number, which may be traced, at a place."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if _is_array(node):
        return jnp.asarray(node).at[steps].set(value)
    if isinstance(node, (tuple, list)):
        at = int(step)
        return type(node)([*node[:at], with_number(node[at], rest, value), *node[at + 1 :]])
    if isinstance(node, Mapping):
        return {**node, step: with_number(node[step], rest, value)}
    same = copy.copy(node)
    object.__setattr__(same, str(step), with_number(getattr(node, str(step)), rest, value))
    return same


def check_values(model, steps: Steps, values) -> None:
    """Raise `ValueError` if the model refuses one of these values at a place, such as a negative mass."""
    from jaxmbs.io.models.json_format.document import model_from, parse, write_json

    for value in values:
        try:
            model_from(parse(write_json(with_number(model, steps, np.asarray(value, float)))))
        except ValueError as error:
            raise ValueError(f"values such as {value:g} are not allowed: {error}") from None


def extremes(spec: Any, count: int) -> list[float]:
    """Return the smallest and largest of given values, or those to expect of `count` samples of a distribution."""
    from jaxmbs.sweeps.distributions import AbstractDistribution

    probabilities = np.array([0.5, count - 0.5]) / count
    values = spec.of(probabilities) if isinstance(spec, AbstractDistribution) else np.asarray(spec)
    return [float(np.min(values)), float(np.max(values))]


def distribution_of(text: str, grid: bool) -> Any:
    """Return the distribution that a text such as "0.5:1.5" describes, or the list of values of a grid if `grid`.

    Raises:
        ValueError: the text has none of the `VALUE_FORMS`, or not that of a grid.
    """
    from jaxmbs.sweeps import Choice, LogUniform, Normal, Uniform

    kind, _, rest = text.rpartition(":") if text.startswith("normal:") else ("", "", text)
    if text.startswith("log:"):
        kind, rest = "log", text.removeprefix("log:")
    try:
        numbers = [float(x) for x in rest.replace(",", ":").split(":")]
    except ValueError:
        numbers = []
    listed = "," in rest or len(numbers) == 1
    match kind, listed, numbers:
        case "normal", _, [mean, deviation] if not grid:
            return Normal(mean, deviation)
        case "log", False, [low, high] if not grid:
            return LogUniform(low, high)
        case "", False, [low, high] if not grid:
            return Uniform(low, high)
        case "", False, [low, high, count] if count >= 1 and count.is_integer():
            values = np.linspace(low, high, int(count)).tolist()
            return values if grid else Choice(values)
        case "", True, [_, *_]:
            return numbers if grid else Choice(numbers)
    grids = "A:B:N or A,B,C, for a grid" if grid else VALUE_FORMS
    raise ValueError(f"cannot read {text!r}: give {grids}")


def _is_array(node) -> bool:
    """Return True for arrays and numbers, which have no named parts but may have an index."""
    return isinstance(node, (np.ndarray, np.generic, float, jax.Array))


def _named_parts(node) -> Mapping[Any, Any]:
    """Return the parts of a node of a model by name, or by index for tuples."""
    if isinstance(node, Mapping):
        return node
    if isinstance(node, (tuple, list)):
        return {str(k): x for k, x in enumerate(node)}
    if dataclasses.is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in dataclasses.fields(node) if not f.name.startswith("_")}
    return {}
