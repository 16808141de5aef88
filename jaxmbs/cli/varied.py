"""`--vary bodies.rod.mass=0.5:1.5`: places of a model, and how their numbers vary."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

GROUPS = ("bodies", "constraints", "drivers", "forces")
SPECS = "A:B (evenly), log:A:B, normal:MEAN,DEVIATION, A:B:N (N values of a grid), or A,B,C"


# Fields of objects by name, items of tuples and of arrays by number.
Steps = tuple[str | int, ...]


def place_of(model, path: str) -> Steps:
    """The way to a number of a model, from a path such as "constraints.A.point_i.0".

    Raises:
        ValueError: there is no such number, with the names that there are.
    """
    words, passed = path.split("."), "the model"
    steps: list[str | int] = []
    node: Any = {group: getattr(model, group) for group in GROUPS}
    while words and not _is_array(node):
        options = _options(node)
        # Names of elements may have dots in them.
        found = [n for n in range(len(words), 0, -1) if ".".join(words[:n]) in options]
        if not found:
            there = ", ".join(map(str, options)) or "none"
            raise ValueError(f"{path}: there is no {words[0]!r} in {passed}; there are {there}")
        passed, words = ".".join(words[: found[0]]), words[found[0] :]
        # Elements lie in tuples, under a name with a line before it.
        named = isinstance(node, Mapping) and len(steps) == 1
        steps.append(list(options).index(passed) if named else passed if steps else f"_{passed}")
        node = options[passed]
    shape = np.shape(node) if _is_array(node) else ()
    try:
        steps += [int(word) for word in words]
        single = np.zeros(shape)[tuple(int(word) for word in words)].ndim == 0
        if any(int(word) < 0 for word in words):
            raise IndexError
    except (ValueError, IndexError):
        raise ValueError(f"{path}: {passed} has shape {shape}, and no place {'.'.join(words)}") from None
    if not _is_array(node) or np.asarray(node).dtype.kind != "f":
        raise ValueError(f"{path}: is not a number that can vary")
    if not single:
        raise ValueError(f"{path}: has shape {shape}; say which one, as in {path}.0")
    return tuple(steps)


def number_at(model, steps: Steps) -> float:
    """The number at a place."""
    node: Any = model
    for step in steps:
        inside = isinstance(node, Mapping) or isinstance(step, int)
        node = node[step] if inside else getattr(node, str(step))
    return float(node)


def with_number(node, steps: Steps, value):
    """The model with another number at a place, which may be traced."""
    import jax.numpy as jnp

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
    """Raise `ValueError` for values that the model does not take, such as negative masses."""
    from jaxmbs.io.models.json_format.document import model_from, parse, write_json

    for value in values:
        try:
            model_from(parse(write_json(with_number(model, steps, np.asarray(value, float)))))
        except ValueError as error:
            raise ValueError(f"there are values such as {value:g}: {error}") from None


def extremes(how: Any, count: int) -> list[float]:
    """The least and the largest value that are likely among `count` samples."""
    from jaxmbs.sweeps.distributions import AbstractDistribution

    values = how.of(np.array([0.5, count - 0.5]) / count) if isinstance(how, AbstractDistribution) else np.asarray(how)
    return [float(np.min(values)), float(np.max(values))]


def distribution_of(text: str, grid: bool) -> Any:
    """How a number varies: a distribution, or the values of a grid.

    Raises:
        ValueError: a text that says nothing.
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
    grids = "A:B:N or A,B,C, for a grid" if grid else SPECS
    raise ValueError(f"cannot read {text!r}: give {grids}")


def _is_array(node) -> bool:
    return isinstance(node, (np.ndarray, np.generic, float, jax.Array))


def _options(node) -> Mapping[Any, Any]:
    if isinstance(node, Mapping):
        return node
    if isinstance(node, (tuple, list)):
        return {str(k): x for k, x in enumerate(node)}
    if dataclasses.is_dataclass(node):
        return {f.name: getattr(node, f.name) for f in dataclasses.fields(node) if not f.name.startswith("_")}
    return {}
