"""Checks of an MJCF file and of all files that it refers to, before MuJoCo opens them: paths and sizes."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from jaxmbs.io.models.model import ModelError

# An MJCF model is refused if all its files together have more bytes.
MAX_TOTAL_BYTES = 256 * 2**20
# An MJCF model is refused if it refers to more files.
MAX_FILES = 1000
# An MJCF model is refused if `replicate`, `composite` and `flexcomp` would make more copies, or if a size of user data or
# a parameter of a mesh is larger.
MAX_COPIES = 10_000
# An MJCF model is refused if a height field or a texture has more elements.
MAX_ELEMENTS = 2**24
# An MJCF model is refused if a number has a larger absolute value: MuJoCo may hang on it.
MAX_NUMBER = 1e100
# Tags that the root of an MJCF file may have.
ROOTS = ("mujoco", "mujocoinclude")
# Attributes of MJCF whose words are names, so they are not checked as numbers.
NAMES = {
    "name", "class", "childclass", "joint", "body", "site", "geom", "mesh", "material", "texture", "tendon", "actuator",
    "file", "model", "target", "key", "prefix", "body1", "body2", "joint1", "joint2", "geom1", "geom2", "site1", "site2",
    "tendon1", "tendon2",
}  # fmt: skip
# Attributes of MJCF that name folders in which MuJoCo looks for files.
FOLDERS = ("meshdir", "texturedir", "assetdir")
# Tags of MJCF whose files are opened when the model is compiled, if at all; other files are opened when it is parsed.
ASSETS = ("mesh", "hfield", "texture", "skin")


def xml_root(data: bytes, name: str = "") -> ElementTree.Element:
    """Return the root of XML in UTF-8 without document type and entities; messages begin with `name`, if any."""
    of = f"{name}: " if name else ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError(f"{of}is not UTF-8") from None
    for word in ("<!DOCTYPE", "<!ENTITY"):
        if word in text.upper():
            raise ModelError(f"{of}{word}: document types and entities are refused")
    try:
        return ElementTree.fromstring(text.encode("utf-8"))
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise ModelError(f"{of}malformed XML: {error}") from None


class Reference(NamedTuple):
    """A file that a model refers to: tag and path as written, and the file in one of the folders where MuJoCo may look."""

    tag: str
    named: str
    file: Path


class Files:
    """Checks of the files of a model before they are opened.

    Args:
        path: the model.
        allow: folders outside that of the model, relative to it, in which files may be read.
    """

    def __init__(self, path: Path, allow: Iterable[str] = ()):
        self._main = path.resolve()
        folder = self._main.parent
        self._folders = [folder, *((folder / given).resolve() for given in allow)]
        self._checked: set[Path] = set()
        self._total = 0
        self._assets: list[Reference] = []

    def check_models(self) -> None:
        """Raise `ModelError` if the model, or one that it includes, is outside the folders, too large or malformed."""
        waiting, copies = [self._main], 1
        while waiting:
            file = waiting.pop()
            if file in self._checked:
                continue
            self._add(file)
            prefix = "" if file == self._main else f"{file.name}: "
            root = xml_root(file.read_bytes(), prefix.removesuffix(": "))
            if root.tag not in ROOTS:
                more = "; the name of a URDF ends in .urdf" if root.tag == "robot" else ""
                raise ModelError(f"{prefix}the root of an MJCF must be <mujoco>, got <{root.tag}>{more}")
            _check_numbers(root)
            copies *= _check_sizes(root)
            if copies > MAX_COPIES:
                raise ModelError(f"replicate, composite and flexcomp: more than {MAX_COPIES} copies")
            for reference in _references(root, self._folders[0], file.parent):
                if reference.tag in ASSETS and reference.file.suffix.lower() not in (".xml", ".mjcf"):
                    self._assets.append(reference)
                    continue
                self._check_place(reference)
                if reference.file.is_file():
                    waiting.append(reference.file)

    def check_assets(self, opened: Collection[str]) -> None:
        """Raise `ModelError` if an asset whose path is in `opened` is outside the folders, or all are too large."""
        for reference in self._assets:
            if reference.named in opened:
                self._check_place(reference)
                if reference.file.is_file() and reference.file not in self._checked:
                    self._add(reference.file)

    def _check_place(self, reference: Reference) -> None:
        """Raise `ModelError` if a file is outside the folder of the model and those that are allowed."""
        if not any(reference.file.is_relative_to(folder) for folder in self._folders):
            away = os.path.relpath(reference.file.parent, self._folders[0])
            raise ModelError(
                f"{reference.tag} {reference.named!r}: is outside the model's folder; to read it give allow=({away!r},)"
            )

    def _add(self, file: Path) -> None:
        """Count a file; raise `ModelError` if the files have too many bytes in total, or are too many."""
        self._checked.add(file)
        self._total += file.stat().st_size
        if self._total > MAX_TOTAL_BYTES or len(self._checked) > MAX_FILES:
            raise ModelError(
                f"has more than {MAX_TOTAL_BYTES} bytes or {MAX_FILES} files, counting those that it refers to"
            )


def _references(root, folder: Path, folder_of_file: Path) -> Iterator[Reference]:
    """Yield all references, in all folders in which MuJoCo may look."""
    folders = {""} | {element.get(name) for element in root.iter() for name in FOLDERS if element.get(name) is not None}
    for element in root.iter():
        for attribute, named in element.attrib.items():
            if attribute == "file" or (attribute.startswith("file") and element.tag == "texture"):
                for base in {folder, folder_of_file}:
                    for under in folders:
                        yield Reference(element.tag, named, _resolve(base, under, named))


def _resolve(base: Path, *parts: str) -> Path:
    """Return the file of a path, links followed. Backslashes count as slashes; a path with a colon is outside."""
    path = base
    for part in parts:
        if "\0" in part or ":" in part:
            return Path(os.sep)
        path = path / part.replace("\\", "/")
    return path.resolve()


def _check_numbers(root) -> None:
    """Raise `ModelError` for numbers that are not finite or too large: MuJoCo may hang on them."""
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute in NAMES:
                continue
            for number in filter(None, map(_number, value.split())):
                if not abs(number) <= MAX_NUMBER:
                    bound = f"be less than {MAX_NUMBER:g} in size" if math.isfinite(number) else "be finite"
                    raise ModelError(
                        f"{element.tag} {element.get('name', '')!r}: {attribute} must {bound}, got {value!r}"
                    )


def _number(word: str) -> float | None:
    """Return a word as a number, or None."""
    try:
        return float(word)
    except ValueError:
        return None


def _check_sizes(root) -> int:
    """Return the most copies that the macros of a file make; raise `ModelError` for sizes that are too large."""

    def numbers(element, attribute) -> list[float]:
        """Return an attribute of an element as numbers, with ∞ for those that are not finite."""
        try:
            found = [float(x) for x in element.get(attribute, "").split()]
        except ValueError:
            raise ModelError(f"{element.tag}: {attribute} must be numbers") from None
        return [x if math.isfinite(x) else math.inf for x in found]

    copies, waiting = 1, [(root, 1.0)]
    while waiting:
        element, above = waiting.pop()
        if element.tag in ("replicate", "composite", "flexcomp"):
            above *= math.prod(max(1.0, x) for x in numbers(element, "count"))
            copies = max(copies, int(min(above, 10.0 * MAX_COPIES)))
        waiting += [(child, above) for child in element]
        grid = [x for name in ("nrow", "ncol", "width", "height") for x in numbers(element, name)]
        if element.tag in ("hfield", "texture") and math.prod(max(1.0, abs(x)) for x in grid) > MAX_ELEMENTS:
            raise ModelError(f"{element.tag} {element.get('name', '')!r}: has more than {MAX_ELEMENTS} elements")
        if element.tag == "mesh" and any(abs(x) > MAX_COPIES for x in numbers(element, "params")):
            raise ModelError(f"mesh {element.get('name', '')!r}: params of more than {MAX_COPIES}")
        if element.tag == "size":
            for name, value in element.attrib.items():
                if name.startswith(("nuser", "nkey")) and max(numbers(element, name), default=0) > MAX_COPIES:
                    raise ModelError(f"size: {name} is {value}, more than {MAX_COPIES}")
    return copies
