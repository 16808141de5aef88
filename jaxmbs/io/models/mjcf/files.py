"""Checks of an MJCF file and of all files that it refers to, before MuJoCo opens them: paths, sizes, plugins."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
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
# Tags of MJCF whose files are MJCF too, and are checked like the first file.
MODELS = ("include", "model")


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


def check_files(path: Path) -> None:
    """Raise `ModelError` if a model or its files are outside its folder or too large, or if it has plugins."""
    folder = path.parent.resolve()
    waiting, checked, total, copies = [path.resolve()], set(), 0, 1

    def add(file: Path) -> None:
        """Count a file; raise `ModelError` if the files have too many bytes in total, or are too many."""
        nonlocal total
        checked.add(file)
        total += file.stat().st_size
        if total > MAX_TOTAL_BYTES or len(checked) > MAX_FILES:
            raise ModelError(
                f"has more than {MAX_TOTAL_BYTES} bytes or {MAX_FILES} files, counting those that it refers to"
            )

    while waiting:
        file = waiting.pop()
        if file in checked:
            continue
        add(file)
        root = xml_root(file.read_bytes(), "" if file == path.resolve() else file.name)
        if root.tag not in ROOTS:
            prefix = "" if file == path.resolve() else f"{file.name}: "
            more = "; the name of a URDF ends in .urdf" if root.tag == "robot" else ""
            raise ModelError(f"{prefix}the root of an MJCF must be <mujoco>, got <{root.tag}>{more}")
        _check_numbers(root)
        copies *= _check_sizes(root)
        if copies > MAX_COPIES:
            raise ModelError(f"replicate, composite and flexcomp: more than {MAX_COPIES} copies")
        for tag, named, found in _references(root, folder, file.parent):
            if not found.is_relative_to(folder):
                raise ModelError(f"{tag} {named!r}: is outside the model's folder")
            if not found.is_file():
                continue
            if tag in MODELS or found.suffix.lower() in (".xml", ".mjcf"):
                waiting.append(found)
            elif found not in checked:
                add(found)


def _references(root, folder: Path, folder_of_file: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield tag, path as written, and file for all references, in all folders in which MuJoCo may look."""
    folders = {""}
    for element in root.iter():
        if element.tag in ("plugin", "extension"):
            raise ModelError(f"{element.tag}: plugins are refused")
        for attribute in FOLDERS:
            named = element.get(attribute)
            if named is not None:
                folders.add(named)
                yield attribute, named, _resolve(folder, named)
    for element in root.iter():
        for attribute, named in element.attrib.items():
            if attribute == "file" or (attribute.startswith("file") and element.tag == "texture"):
                for base in {folder, folder_of_file}:
                    for under in folders:
                        yield element.tag, named, _resolve(base, under, named)


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
