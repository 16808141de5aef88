"""Frames of an SDF model: poses that are relative to each other, by name."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from jaxmbs.io.models.model import ModelError
from jaxmbs.io.models.xml_lines import numbers_in, roll_pitch_yaw

# Name of the frame of a model in SDF.
MODEL = "__model__"
# Name of the fixed frame in SDF.
WORLD = "world"


class Place(NamedTuple):
    """Origin r (3,) and axes A (3, 3), as columns, of a frame in another."""

    r: np.ndarray
    a: np.ndarray

    def of(self, inner: Place) -> Place:
        """Return the place of a frame that has the place `inner` in this frame."""
        return Place(self.r + self.a @ inner.r, self.a @ inner.a)

    def seen_from(self, other: Place) -> Place:
        """Return the place in another frame, both given in a third one."""
        return Place(other.a.T @ (self.r - other.r), other.a.T @ self.a)


# Place of a frame in itself.
HERE = Place(np.zeros(3), np.eye(3))


def version_of(root: Element) -> tuple[int, ...]:
    """Return the version of a file, such as (1, 7)."""
    return tuple(int(word) for word in re.findall(r"\d+", root.get("version", "1.7")))[:2] or (1, 7)


def text_of(element: Element | None, tag: str, default: str = "") -> str:
    """Return the text of a child without blanks around it."""
    child = None if element is None else element.find(tag)
    return default if child is None or child.text is None or not child.text.strip() else child.text.strip()


def number_of(element: Element | None, tag: str, default: float, where: str) -> float:
    """Return the number in a child; messages begin with `where`. Infinite numbers are allowed."""
    text = text_of(element, tag)
    if text.lstrip("+-").lower() in ("inf", "infinity"):
        return float(text)
    return float(numbers_in(text, 1, where, tag)[0]) if text else default


def vector_of(element: Element | None, tag: str, default: str, where: str) -> np.ndarray:
    """Return the three numbers in a child; messages begin with `where`."""
    return numbers_in(text_of(element, tag, default), 3, where, tag)


def own_place(element: Element | None, where: str) -> Place:
    """Return the place that the `pose` of an element gives: x, y, z, roll, pitch, yaw, or a quaternion x, y, z, w."""
    pose = None if element is None else element.find("pose")
    if pose is None or not (pose.text or "").strip():
        return HERE
    text = pose.text or ""
    if pose.get("rotation_format", "euler_rpy") == "quat_xyzw":
        values = numbers_in(text, 7, where, "pose")
        x, y, z, w = values[3:] / np.linalg.norm(values[3:])
        v = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        return Place(values[:3], np.eye(3) + 2 * w * v + 2 * v @ v)
    values = numbers_in(text, 6, where, "pose")
    angles = np.radians(values[3:]) if pose.get("degrees", "false").strip().lower() in ("true", "1") else values[3:]
    return Place(values[:3], roll_pitch_yaw(angles))


class Frames:
    """Frames of a model in the frame of the model.

    Args:
        model: the element of the model.

    Raises:
        ModelError: a frame that is not known, or poses that are relative to each other in a circle.
    """

    def __init__(self, model: Element):
        self._elements: dict[str, Element] = {}
        self._found: dict[str, Place] = {MODEL: HERE}
        self._open: list[str] = []
        # Joints come last: their frames may have the name of a link in old files.
        for tag in ("link", "frame", "joint"):
            for element in model.findall(tag):
                self._elements.setdefault(element.get("name", ""), element)

    def place(self, name: str, where: str) -> Place:
        """Return the place of a frame in the frame of the model; messages begin with `where`."""
        if name in self._found:
            return self._found[name]
        if name not in self._elements:
            raise ModelError(f"{where}: no frame is called {name!r}")
        if name in self._open:
            raise ModelError(f"{where}: the poses of {', '.join(map(repr, self._open))} are relative to each other")
        self._open.append(name)
        self._found[name] = self.of_element(self._elements[name])
        self._open.remove(name)
        return self._found[name]

    def of_element(self, element: Element) -> Place:
        """Return the place of a link, joint or frame in the frame of the model."""
        where = f"{element.tag} {element.get('name', '')!r}"
        pose = element.find("pose")
        base = "" if pose is None else pose.get("relative_to", pose.get("frame", ""))
        if not base:
            base = {"joint": text_of(element, "child"), "frame": element.get("attached_to", "")}.get(element.tag, "")
        own = own_place(element, where)
        return self.place(base, where).of(own) if base and base != WORLD else own

    def link_of(self, name: str, where: str) -> str:
        """Return the link to which a frame is attached, "" for the world."""
        seen = []
        while name not in ("", WORLD):
            element = self._elements.get(name)
            if element is None or name in seen:
                raise ModelError(f"{where}: {name!r} is not a link")
            if element.tag == "link":
                return name
            seen.append(name)
            name = text_of(element, "child") if element.tag == "joint" else element.get("attached_to", "")
            if name in ("", MODEL):
                raise ModelError(f"{where}: frame {seen[-1]!r} is not attached to a link")
        return ""
