"""XML whose elements know their line, for messages."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from jaxmbs.io.models.model import ModelError


class LineElement(ElementTree.Element):
    """An XML element with the number of its line in the file, from 1."""

    line: int = 0


def line_of(element: ElementTree.Element | None) -> int:
    """Return the number of the line of an element, 0 if it is not known."""
    return getattr(element, "line", 0)


def parse_xml(data: bytes) -> ElementTree.Element:
    """Return the root of XML in UTF-8 without document type and entities.

    Unlike the standard this allows blanks and comments before the XML declaration, as ROS does.

    Raises:
        ModelError: not UTF-8, a document type or an entity, or malformed XML.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError("is not UTF-8") from None
    for word in ("<!DOCTYPE", "<!ENTITY"):
        if word in text.upper():
            raise ModelError(f"{word}: document types and entities are refused")
    # The declaration has nothing but the encoding, which is known.
    text = re.sub(r"<\?xml\s[^>]*\?>", "", text, count=1)
    builder = ElementTree.TreeBuilder(element_factory=LineElement)
    parser = expat.ParserCreate("utf-8")

    def start(tag: str, attributes: dict[str, str]) -> None:
        """Begin an element at the current line."""
        builder.start(tag, attributes).line = parser.CurrentLineNumber  # type: ignore[attr-defined]

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text.encode(), True)
        return builder.close()
    except (expat.ExpatError, ValueError) as error:
        raise ModelError(f"malformed XML: {error}") from None


def numbers_in(text: str, count: int, where: str, what: str) -> np.ndarray:
    """Return a text as finite numbers (count,); messages begin with `where` and name `what`."""
    try:
        values = np.array([float(x) for x in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != (count,) or not np.all(np.isfinite(values)):
        raise ModelError(f"{where}: {what} must be {count} finite number{'s' * (count > 1)}, got {text!r}")
    return values


def roll_pitch_yaw(angles) -> np.ndarray:
    """Return A = R_z(yaw) R_y(pitch) R_x(roll): rotations about fixed x, then y, then z, in radians."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(angles), np.sin(angles)
    roll = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    pitch = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    yaw = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return yaw @ pitch @ roll
