"""Components of an assembly of the Assembly workbench, and the markers that joints have on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.freecad.assembly import compose
from jaxmbs.io.models.freecad.document import Document, Item
from jaxmbs.io.models.links.tree import LinkFrame
from jaxmbs.io.models.model import ModelError

# Type of assemblies of the workbench.
ASSEMBLY = "Assembly::AssemblyObject"
# Type of links to assemblies; their parts move if they are not rigid.
ASSEMBLY_LINK = "Assembly::AssemblyLink"
# Types of groups, which have no placement.
GROUPS = ("App::DocumentObjectGroup", "App::DocumentObjectGroupPython")
# Types of groups of an assembly that have no parts.
OTHER_GROUPS = ("Assembly::JointGroup", "Assembly::ViewGroup", "Assembly::BomGroup", "Assembly::SimulationGroup")
# Types of origins, planes, lines and points, which are fixed in an assembly that has them.
DATUMS = (
    "App::Origin", "App::Plane", "App::Line", "App::Point", "App::LocalCoordinateSystem",
    "Part::LocalCoordinateSystem", "Part::DatumPlane", "Part::DatumLine", "Part::DatumPoint",
)  # fmt: skip
# Types of objects that contain others with placements of their own.
CONTAINERS = ("App::Part", ASSEMBLY, ASSEMBLY_LINK, *GROUPS)
# The document's origin and axes.
AT_ORIGIN = LinkFrame(GROUND, np.zeros(3), np.eye(3))
# An assembly with more objects in it is refused.
MAX_OBJECTS = 100_000
# The axis of a joint counts as parallel to that of a slider if the absolute cosine of their angle differs from 1 by less.
MAX_AXIS_ERROR = 1e-6


class Components:
    """The parts of the assembly of a document.

    Attributes:
        items: all objects of the document.
        root: the assembly that is in no other one, the first if there are several.
        inside: objects in the assembly and in its groups and flexible subassemblies.
        parts: the parts by the names of their bodies.
        places: frames of the parts and of the ground in the frame of the assembly, by body.
    """

    def __init__(self, document: Document):
        """Find the parts of the assembly of a document."""
        self.items = document.items
        assemblies = [item for item in self.items.values() if item.type == ASSEMBLY]
        contained = {child.name for item in assemblies for child in item.links("Group")}
        top = [item for item in assemblies if item.name not in contained]
        if not top:
            raise ModelError("has no assembly of the Assembly workbench")
        self.root = next((item for item in top if self._has_joints(item)), top[0])
        self.inside: list[Item] = []
        self.parts: dict[str, Item] = {}
        self.places = {GROUND: AT_ORIGIN}
        self._body_of: dict[str, str] = {}
        found = list(self._parts_in(self.root, AT_ORIGIN, ()))
        labels = [item.label for item, _ in found]
        for item, place in found:
            body = item.label if labels.count(item.label) == 1 and item.label != GROUND else item.name
            self.parts[body], self._body_of[item.name] = item, body
            self.places[body] = place

    @staticmethod
    def _has_joints(item: Item) -> bool:
        """Return True if an assembly has joints."""
        return any(group.links("Group") for group in item.links("Group") if group.type == "Assembly::JointGroup")

    def _parts_in(self, container: Item, place: LinkFrame, above: tuple[str, ...]) -> Iterator[tuple[Item, LinkFrame]]:
        """Yield the parts in a container with their frames, and note all its objects; `above` are its containers."""
        if container.name in above:
            raise ModelError(f"{container.owner}: contains itself")
        above = (*above, container.name)
        for child in container.links("Group"):
            self.inside.append(child)
            if len(self.inside) > MAX_OBJECTS:
                raise ModelError(f"has more than {MAX_OBJECTS} objects")
            if child.type in OTHER_GROUPS:
                self.inside += child.links("Group")
            elif child.type in GROUPS:
                yield from self._parts_in(child, place, above)
            elif _is_flexible(child):
                yield from self._parts_in(child, compose(place, child.placement()), above)
            elif child.type not in DATUMS and "Placement" in child.properties:
                yield child, compose(place, child.placement())

    def name_of(self, part: Item) -> str:
        """Return the name of the body of a part; raise `ModelError` if it is not in the assembly."""
        if part.name not in self._body_of:
            raise ModelError(f"{part.owner}: is not a part of the assembly {self.root.label!r}")
        return self._body_of[part.name]

    def frame_of(self, part: Item) -> LinkFrame:
        """Return the frame of a part on the ground."""
        return self.places[self.name_of(part)]

    def chain(self, joint: Item, k: int) -> tuple[list[Item], str] | None:
        """Return the objects along the path of reference k (1 or 2) of a joint, and the name of the element.

        They begin with the part or datum; the list is empty if the path has none. None if the reference is missing.

        Raises:
            ModelError: the path goes into a document that cannot be read.
        """
        _, root, below = joint.reference(f"Reference{k}")
        if not root or root not in self.items:
            return None
        document, found, words = joint.document, [], [root, *below.split(".")]
        while words and words[0] in document.items:
            item = document.items[words.pop(0)]
            found.append(item)
            target = document.linked(item)
            if target is None and item.reference("LinkedObject")[0] and len(words) > 1:
                file = item.reference("LinkedObject")[0]
                raise ModelError(
                    f"{joint.owner}: needs {file!r}, which is neither in the folder of the model nor in allow"
                )
            document = document if target is None else target.document
        if self.root in found:
            found = found[found.index(self.root) + 1 :]
        is_part = [item.type in DATUMS or item.name in self._body_of for item in found]
        return (found[is_part.index(True) :] if True in is_part else []), (words[0] if words else "")

    def marker(self, joint: Item, k: int) -> LinkFrame | None:
        """Return the marker of a joint's reference k on the body of its part; None if the reference is missing."""
        chain = self.chain(joint, k)
        if chain is None:
            return None
        items = chain[0]
        if not items:
            return None
        part, below = items[0], items[1:]
        if part.type in DATUMS:
            frame = AT_ORIGIN
            for item in items:
                frame = compose(frame, item.placement())
            return compose(frame, joint.placement(f"Placement{k}"))
        frame = LinkFrame(self.name_of(part), np.zeros(3), np.eye(3))
        for item in _objects_to(part, below):
            frame = compose(frame, item.placement())
        return compose(frame, joint.placement(f"Placement{k}"))

    def element(self, joint: Item, k: int) -> tuple[Item, str] | None:
        """Return the object with the shape that a joint's reference k names, and the element; None without an element."""
        chain = self.chain(joint, k)
        if chain is None or not chain[0]:
            return None
        items, name = chain
        below = _objects_to(items[0], items[1:])
        return (below[-1] if below else items[0]), name

    def end_on_slider(self, joint: Item, sliders: list[Item]) -> int | None:
        """Return 1 or 2 for the reference of a joint whose part is on one of the sliders, None if neither is."""
        ends = [self.marker(joint, k) for k in (1, 2)]
        for slider in sliders:
            on = [self.marker(slider, k) for k in (1, 2)]
            for k, end in enumerate(ends, start=1):
                for other in on:
                    if end is None or other is None or end.body != other.body:
                        continue
                    if abs(end.a[:, 2] @ other.a[:, 2]) > 1 - MAX_AXIS_ERROR:
                        return k
        return None


def _is_flexible(item: Item) -> bool:
    """Return True for a subassembly whose parts move."""
    return item.type == ASSEMBLY_LINK and "Rigid" in item.properties and not item.flag("Rigid")


def _objects_to(part: Item, below: list[Item]) -> list[Item]:
    """Return the objects below a part along a path, up to the one in whose frame the placement of a joint is.

    That is the first body or feature, or a datum in a body.
    """
    found, item = [], part
    for following in below:
        target = item.document.linked(item) or item
        if target.type not in CONTAINERS and following.type not in DATUMS:
            break
        if following.type not in GROUPS:
            found.append(following)
        item = following
    return found
