"""Documents of FreeCAD: zip archives with an XML list of objects and their properties, and files of shapes."""

from __future__ import annotations

import dataclasses
import math
import zipfile
import zlib
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import LinkFrame, Matrix
from jaxmbs.io.models.mjcf.files import xml_root
from jaxmbs.io.models.model import ModelError

# A member of an archive with more bytes, unpacked, is refused.
MAX_MEMBER_BYTES = 64 * 2**20
# All members of all archives of a model together may have this many bytes, unpacked.
MAX_TOTAL_BYTES = 512 * 2**20
# Member of the archive with the objects.
CONTENT = "Document.xml"
# Errors of reading a member of a damaged, encrypted or unusual archive.
ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, KeyError, OSError)


@dataclasses.dataclass(eq=False)
class Item:
    """An object of a document.

    Attributes:
        document: its document.
        name: its unique name.
        type: its type, such as "App::Part".
        properties: XML of its properties by name.
    """

    document: Document
    name: str
    type: str
    properties: dict[str, Element]

    @property
    def label(self) -> str:
        """The name that users see; the unique name if it is empty."""
        return self._attribute("Label", "String", "value") or self.name

    @property
    def owner(self) -> str:
        """Words for messages on the object."""
        return f"object {self.label!r}"

    def _attribute(self, name: str, tag: str, attribute: str) -> str:
        """Return an attribute of the value of a property, "" if there is none."""
        value = self.properties[name].find(tag) if name in self.properties else None
        return "" if value is None else value.get(attribute, "")

    def flag(self, name: str) -> bool:
        """Return the truth value of a property; False if there is none."""
        return self._attribute(name, "Bool", "value") == "true"

    def text(self, name: str) -> str:
        """Return the text of a property; "" if there is none."""
        return self._attribute(name, "String", "value")

    def number(self, name: str) -> float:
        """Return the number of a property, 0 if there is none; raise `ModelError` if it is not finite."""
        text = self._attribute(name, "Float", "value")
        return _finite(text, f"{self.owner}: {name}") if text else 0.0

    def choice(self, name: str) -> str:
        """Return the chosen word of an enumeration, "" if there is none."""
        found = self.properties.get(name)
        index = self._attribute(name, "Integer", "value")
        if found is None or not index:
            return ""
        words = [word.get("value", "") for word in found.iter("Enum")]
        if not index.isdecimal() or int(index) >= len(words):
            raise ModelError(f"{self.owner}: {name} has no choice {index[:20]!r}")
        return words[int(index)]

    def placement(self, name: str = "Placement") -> LinkFrame:
        """Return a placement as a frame of the ground; the ground's own if there is none."""
        found = self.properties.get(name)
        value = None if found is None else found.find("PropertyPlacement")
        if value is None:
            return LinkFrame(GROUND, np.zeros(3), np.eye(3))
        keys = ("Px", "Py", "Pz", "Q0", "Q1", "Q2", "Q3")
        numbers = np.array([_finite(value.get(key, ""), f"{self.owner}: {key} of {name}") for key in keys])
        length = np.linalg.norm(numbers[3:])
        if not 0 < length < math.inf:
            raise ModelError(f"{self.owner}: the quaternion of {name} must not be zero")
        return LinkFrame(GROUND, numbers[:3], rotation_matrix(numbers[3:] / length))

    def links(self, name: str) -> list[Item]:
        """Return the objects of this document that a property names."""
        found = self.properties.get(name)
        named = [] if found is None else [link.get("value", "") for link in found.iter("Link")]
        return [self.document.items[x] for x in named if x in self.document.items]

    def reference(self, name: str) -> tuple[str, str, str]:
        """Return file, name of an object, and path below it, of a property that is a link; "" for each missing one."""
        found = self.properties.get(name)
        link = None if found is None else found.find("XLink")
        if link is None:
            return "", self._attribute(name, "Link", "value"), ""
        below = link.get("sub") or next((sub.get("value", "") for sub in link.iter("Sub")), "")
        return link.get("file", ""), link.get("name", ""), below


def rotation_matrix(quaternion: np.ndarray) -> Matrix:
    """Return the rotation matrix of a unit quaternion (x, y, z, w)."""
    v, w = quaternion[:3], quaternion[3]
    x, y, z = v
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


class Document:
    """A document: its objects by name, in the order of the file.

    Attributes:
        path: its file.
        archives: all documents of the model.
        items: the objects.
    """

    def __init__(self, path: Path, archives: Archives):
        """Read the objects of a file."""
        self.path, self.archives = path, archives
        self.items: dict[str, Item] = {}
        root = xml_root(self.member(CONTENT))
        if root.tag != "Document":
            raise ModelError(f"{CONTENT}: the root must be <Document>, got <{root.tag}>")
        types = {item.get("name", ""): item.get("type", "") for item in root.iterfind("Objects/Object")}
        for data in root.iterfind("ObjectData/Object"):
            name = data.get("name", "")
            if name not in types or name in self.items:
                raise ModelError(f"{CONTENT}: object {name!r} is not declared, or appears twice")
            properties = {p.get("name", ""): p for p in data.iterfind("Properties/Property")}
            self.items[name] = Item(self, name, types[name], properties)

    def member(self, name: str) -> bytes:
        """Return the bytes of a member of the archive; raise `ModelError` if they cannot be read or are too many."""
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                data = file.read(MAX_MEMBER_BYTES + 1)
        except ARCHIVE_ERRORS as error:
            line = " ".join(str(error).split())[:200]
            raise ModelError(f"{name!r} cannot be read from the archive: {line}") from None
        self.archives.count(len(data), name)
        return data

    def linked(self, item: Item, name: str = "LinkedObject") -> Item | None:
        """Return the object to which an object links; None if it is no link, or its document is not there."""
        file, target, _ = item.reference(name)
        document = self.archives.open(file, item) if file else self
        return None if document is None else document.items.get(target)


class Archives:
    """The documents of a model.

    Attributes:
        folders: folders in which files may be read.
        documents: documents by path; None for files that are not there.
        total: unpacked bytes that were read.
    """

    def __init__(self, path: Path, allow: tuple[str, ...]):
        """Take the path of the first document, and folders outside its own in which linked ones may be."""
        folder = path.resolve().parent
        self.folders = [folder, *((folder / other).resolve() for other in allow)]
        self.documents: dict[Path, Document | None] = {}
        self.total = 0
        self.first = Document(path.resolve(), self)
        self.documents[path.resolve()] = self.first

    def count(self, size: int, name: str) -> None:
        """Count the bytes of a member; raise `ModelError` if it has too many, or all have."""
        self.total += size
        if size > MAX_MEMBER_BYTES or self.total > MAX_TOTAL_BYTES:
            raise ModelError(f"{name!r} has too many bytes unpacked; at most {MAX_MEMBER_BYTES} are read")

    def open(self, file: str, item: Item) -> Document | None:
        """Return the document of a path relative to that of an object, None if it is not there or not allowed."""
        if "\0" in file:
            raise ModelError(f"{item.owner}: links to an impossible path")
        path = (item.document.path.parent / file.replace("\\", "/")).resolve()
        if path not in self.documents:
            inside = any(path.is_relative_to(folder) for folder in self.folders)
            self.documents[path] = Document(path, self) if inside and path.is_file() else None
        return self.documents[path]


def _finite(text: str, owner: str) -> float:
    """Return a text as a finite number; messages begin with the owner."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ModelError(f"{owner} must be a finite number, got {text[:40]!r}")
    return value
