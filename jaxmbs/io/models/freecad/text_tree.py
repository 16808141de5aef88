"""The text of `.asmt` as a tree: a line is a child of the last line with one tab less."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jaxmbs.io.models.model import ModelError

# First lines of the text format of the solver.
HEADERS = ("OndselSolver", "freeCAD: 3D CAD with Motion Simulation  by  askoh.com")
# First line of the stored results, which are not read.
RESULTS = "TimeSeries"


@dataclasses.dataclass
class Node:
    """A line and the lines under it.

    Attributes:
        text: the line without white space at its ends.
        line: its number, from 1.
        owner: words for messages: kind and name of the element to which the line belongs.
        children: the lines under it.
    """

    text: str
    line: int
    owner: str = ""
    children: list[Node] = dataclasses.field(default_factory=list)

    def error(self, why: str) -> ModelError:
        """Return an error at this line."""
        return ModelError(f"{self.owner + ', ' if self.owner else ''}line {self.line}: {why}")

    def find(self, key: str) -> Node | None:
        """Return the first child with this text, None if there is none."""
        found = next((child for child in self.children if child.text == key), None)
        if found is not None and not found.owner:
            found.owner = self.owner
        return found

    def get(self, key: str) -> Node:
        """Return the first child with this text; raise `ModelError` if there is none."""
        found = self.find(key)
        if found is None:
            raise self.error(f"{key} is missing")
        return found

    def under(self, *keys: str) -> Iterator[Node]:
        """Yield the lines under the last of some nested keys; none if a key is missing."""
        node: Node | None = self
        for key in keys:
            node = node.find(key) if node is not None else None
        yield from node.children if node is not None else ()

    def word(self, key: str, default: str | None = None) -> str:
        """Return the line under a key, the default if the key is missing."""
        node = self.find(key) if default is not None else self.get(key)
        if node is None:
            return default or ""
        if len(node.children) > 1:
            raise node.error(f"{key} must have one line")
        return node.children[0].text if node.children else ""

    def numbers(self, key: str, count: int) -> np.ndarray:
        """Return the numbers of the line under a key, (count,); all lines under it count as one line."""
        node = self.get(key)
        text = " ".join(child.text for child in node.children)
        try:
            values = np.array([float(x) for x in text.split()])
        except ValueError:
            values = np.zeros(0)
        if values.shape != (count,) or not np.isfinite(values).all():
            raise node.error(f"{key} must be {count} finite number{'s' * (count > 1)}, got {text[:60]!r}")
        return values

    def number(self, key: str, default: float) -> float:
        """Return the number of the line under a key, the default if the key is missing."""
        return default if self.find(key) is None else float(self.numbers(key, 1)[0])


def parse(data: bytes) -> Node:
    """Return the assembly of a text of the solver as a tree; its stored results are left out.

    Raises:
        ModelError: it is not UTF-8, has another header, or an indentation without a line to belong to.
    """
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ModelError("is not UTF-8") from None
    if not lines or lines[0].strip() not in HEADERS:
        raise ModelError(f"the first line must be {HEADERS[0]!r}")
    root = Node("", 1)
    path = [root]
    for number, line in enumerate(lines[1:], start=2):
        text = line.strip()
        if text == RESULTS:
            break
        if not text:
            continue
        depth = len(line) - len(line.lstrip("\t"))
        if depth >= len(path):
            raise ModelError(f"line {number}: has {depth} tabs, at most {len(path) - 1} are possible here")
        node = Node(text, number)
        path[depth].children.append(node)
        path[depth + 1 :] = [node]
    return root.get("Assembly")
