"""Loops of robots in URDF: frames of onshape-to-robot, and YAML files beside the robot."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from jaxmbs.io.models.links.tree import BALL, HINGE, PrimitiveJoint
from jaxmbs.io.models.model import ModelError

# Beginning of the names closing_X_1 and closing_X_2 of the frames with which onshape-to-robot marks the loop closing_X.
CLOSING = "closing_"
# Larger YAML files are refused.
MAX_YAML_BYTES = 2**20
# Word of `KINDS` in `links.loops` for each type of a loop in YAML.
TYPES = {"3d": "ball", "6d": "rigid"}


@dataclasses.dataclass(frozen=True)
class ClosedLoops:
    """Loops and changed joints of the YAML file of a robot.

    Attributes:
        pairs: names of the two frames of each loop and the word of its joint.
        joint_types: new type of joints, by name.
    """

    pairs: tuple[tuple[str, str, str], ...] = ()
    joint_types: dict[str, str] = dataclasses.field(default_factory=dict)

    def loops(self, links: Collection[str]) -> list[tuple[str, tuple[str, str, str]]]:
        """Return names, frames and words of all loops; `links` are the names of all links of the robot."""
        found = []
        for name in links:
            other = f"{name[:-1]}2"
            if name.startswith(CLOSING) and name.endswith("_1") and other in links:
                hinge = f"{name}_z" in links and f"{other}_z" in links
                found.append((name[:-2], (name, other, "hinge" if hinge else "ball")))
        return found + [(f"{first} on {second}", (first, second, word)) for first, second, word in self.pairs]

    def primitives(self, joint: str, given: tuple[PrimitiveJoint, ...]) -> tuple[PrimitiveJoint, ...]:
        """Return the primitives of a joint, changed if the file gives it another type.

        "SPHERICAL" is a ball, "FIXED" no motion, and "UJOINT_XY" a hinge about x, then one about y of the joint's frame.

        Raises:
            ModelError: an unknown type.
        """
        word, zero = self.joint_types.get(joint), np.zeros(3)
        if word is None:
            return given
        if word == "FIXED":
            return ()
        if word == "SPHERICAL":
            return (PrimitiveJoint(BALL, joint, zero, np.eye(3)[0]),)
        axes = word.removeprefix("UJOINT_").lower()
        if not word.startswith("UJOINT_") or len(axes) != 2 or not set(axes) <= set("xyz"):
            raise ModelError(f"joint {joint!r}: joint_type {word!r} of the YAML file is not known")
        return tuple(PrimitiveJoint(HINGE, f"{joint}.{axis}", zero, np.eye(3)["xyz".index(axis)]) for axis in axes)


def closed_loops_of(path: Path) -> ClosedLoops:
    """Return the loops of the YAML file beside a robot: one with the same name, or "robot.yaml"; none without such a file.

    Raises:
        ModelError: the file is not YAML of this kind.
        ImportError: there is such a file, and the package `yaml` is not installed.
    """
    candidates = (path.with_suffix(".yaml"), path.with_suffix(".yml"), path.with_name("robot.yaml"))
    beside = next((file for file in candidates if file.is_file()), None)
    if beside is None or not beside.resolve().is_relative_to(path.parent.resolve()):
        return ClosedLoops()
    if beside.stat().st_size > MAX_YAML_BYTES:
        raise ModelError(f"{beside.name}: has more than {MAX_YAML_BYTES} bytes")
    text = beside.read_text(encoding="utf-8")
    if "closed_loop" not in text:
        return ClosedLoops()
    try:
        import yaml
    except ImportError:
        raise ImportError(f"{beside.name} needs the package pyyaml: pip install pyyaml") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ModelError(f"{beside.name}: malformed YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict) or "closed_loop" not in document:
        return ClosedLoops()
    pairs = document["closed_loop"] or []
    if not isinstance(pairs, list) or any(not _are_names(pair, 2) for pair in pairs):
        raise ModelError(f"{beside.name}: closed_loop must be a list of pairs of names")
    types = _names(beside, document, "type", ["6d"] * len(pairs), len(pairs))
    for word in types:
        if word.lower() not in TYPES:
            raise ModelError(f"{beside.name}: type {word!r} is not known; types are {', '.join(TYPES)}")
    joints = _names(beside, document, "joint_name", [])
    changed = _names(beside, document, "joint_type", [], len(joints))
    loops = tuple((*pair, TYPES[word.lower()]) for pair, word in zip(pairs, types, strict=True))
    return ClosedLoops(loops, dict(zip(joints, changed, strict=True)))


def _names(file: Path, document: dict, key: str, default: list[str], count: int | None = None) -> list[str]:
    """Return a list of texts in a YAML document, maybe with a given length."""
    found: Any = document.get(key, default)
    if not _are_names(found, count):
        size = "" if count is None else f"{count} "
        raise ModelError(f"{file.name}: {key} must be a list of {size}names")
    return found


def _are_names(value: Any, count: int | None) -> bool:
    """Return True for a list of texts, with a given length unless None."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and count in (None, len(value))
