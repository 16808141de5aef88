"""Masses from shapes and materials, and the geometry of faces and edges; they need the package build123d."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from jaxmbs.io.models.freecad.assembly import compose
from jaxmbs.io.models.freecad.components import CONTAINERS, GROUPS, Components
from jaxmbs.io.models.freecad.document import Item
from jaxmbs.io.models.links.tree import LinkFrame, Matrix, Vector

# Densities in kg/m³ of materials of FreeCAD's own library, by the identifier that documents store.
DENSITIES = {
    "90bbd8ef-8623-4d78-b3bf-e0bdb9b74dd3": 7900.0,  # steel
    "92589471-a6cb-4bbc-b748-d425a17dea7d": 7900.0,  # steel of CalculiX
    "1826c364-d26a-43fb-8f61-288281236836": 7874.0,  # iron
    "9bf060e9-1663-44a2-88e2-2ff6ee858efe": 2700.0,  # aluminium
    "68b152b2-fd5e-4f10-8db0-1a2df3fe0fda": 2700.0,  # aluminium 6061-T6
    "6c03899d-496e-4c60-a41b-3d66f2337fb9": 8960.0,  # copper
    "73371529-2983-47dd-b988-6739a2e20029": 1060.0,  # ABS
    "93861244-fbbe-41a9-a7e0-aeed53abd782": 1240.0,  # PLA
}
# Factors from units of densities, as documents write them, to kg/mm³.
DENSITY_UNITS = {"kg/m^3": 1e-9, "g/cm^3": 1e-6, "kg/mm^3": 1.0, "g/mm^3": 1e-3, "t/mm^3": 1e3, "kg/dm^3": 1e-6}
# The solver's joint of a Distance joint by the geometries of its two elements, the radii of which add to the distance.
DISTANCE_JOINTS = {
    ("Vertex", "Vertex"): "SphSph",
    ("Line", "Line"): "RevCyl",
    ("Line", "Circle"): "RevCyl",
    ("Circle", "Circle"): "RevCyl",
    ("Plane", "Plane"): "Planar",
    ("Plane", "Cylinder"): "LineInPlane",
    ("Plane", "Sphere"): "PointInPlane",
    ("Plane", "Torus"): "Planar",
    ("Cylinder", "Cylinder"): "RevCyl",
    ("Cylinder", "Sphere"): "CylSph",
    ("Cylinder", "Torus"): "RevCyl",
    ("Torus", "Torus"): "Planar",
    ("Torus", "Sphere"): "CylSph",
    ("Sphere", "Sphere"): "SphSph",
    ("Plane", "Vertex"): "PointInPlane",
    ("Cylinder", "Vertex"): "CylSph",
    ("Sphere", "Vertex"): "SphSph",
    ("Plane", "Line"): "LineInPlane",
    ("Line", "Vertex"): "CylSph",
    ("Circle", "Vertex"): "PointInPlane",
}
# Pairs of geometries of which no radius adds to the distance.
WITHOUT_RADIUS = (("Circle", "Vertex"), ("Plane", "Torus"), ("Torus", "Torus"))
# Geometries with a radius.
WITH_RADIUS = ("Circle", "Cylinder", "Sphere")
# Smallest volume of a solid. The mass of a part with a smaller solid counts as unknown.
MIN_VOLUME_MM3 = 1e-12


def mass_of(components: Components, part: Item) -> tuple[float, Vector, Matrix] | str:
    """Return the mass, centre of mass and inertia about it of a part, in its frame; or the reason why they are unknown."""
    total, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
    solids = _solids(part, LinkFrame("", np.zeros(3), np.eye(3)), ())
    if not solids:
        return "it has no solid"
    for item, place in solids:
        if not _shape_file(item):
            return f"{item.label!r} has no shape"
        density = _density(item) or _density(part)
        if density is None:
            return "its material has no density"
        found = _volume_integrals(item)
        if isinstance(found, str):
            return found
        volume, com, inertia = found
        mass, com = density * volume, place.point(com)
        total, first = total + mass, first + mass * com
        second = second + density * place.a @ inertia @ place.a.T + mass * _steiner(com)
    if total <= 0:
        return "its volume is zero"
    com = first / total
    inertia = second - total * _steiner(com)
    return total, com, (inertia + inertia.T) / 2


def _steiner(d: Vector) -> Matrix:
    """Return d² I − d dᵀ: the inertia of a unit mass at a distance d."""
    return (d @ d) * np.eye(3) - np.outer(d, d)


def _solids(item: Item, place: LinkFrame, above: tuple[Item, ...]) -> list[tuple[Item, LinkFrame]]:
    """Return the objects with a shape in a part, with their frames in the part; `place` is that of the item."""
    target = item.document.linked(item) or item
    if target in above:
        return []
    if target.type not in CONTAINERS:
        # A link to a document that is not there has a solid that cannot be read.
        return [(target, place)] if _shape_file(target) or _is_link(target) else []
    children = [
        child for child in target.links("Group") if child.type in CONTAINERS or _shape_file(child) or _is_link(child)
    ]
    used = {x for child in children for name in child.properties if name != "Group" for x in child.links(name)}
    found = []
    for child in children:
        if child not in used and not child.type.startswith(("Sketcher::", "PartDesign::Plane", "Part::Datum")):
            frame = place if child.type in GROUPS else compose(place, child.placement())
            found += _solids(child, frame, (*above, target))
    return found


def _is_link(item: Item) -> bool:
    """Return True for a link to another object."""
    return "LinkedObject" in item.properties


def _shape_file(item: Item) -> str:
    """Return the member of the archive with the shape of an object, "" if there is none."""
    found = item.properties["Shape"].find("Part") if "Shape" in item.properties else None
    return "" if found is None else found.get("file", "")


def _density(item: Item) -> float | None:
    """Return the density of the material of an object in kg/mm³; None if it has none, or an unknown one."""
    item = item.document.linked(item) or item
    if "ShapeMaterial" in item.properties:
        value = item.properties["ShapeMaterial"].find("PropertyMaterial")
        density = DENSITIES.get(value.get("uuid", "") if value is not None else "")
        if density is not None:
            return 1e-9 * density
    for material in item.links("Material"):
        for entry in material.properties["Material"].iter("Item") if "Material" in material.properties else ():
            if entry.get("key") == "Density":
                number, _, unit = entry.get("value", "").strip().partition(" ")
                try:
                    density = float(number) * DENSITY_UNITS[unit.strip().replace("³", "^3")]
                except (ValueError, KeyError):
                    return None
                return density if 0 < density < np.inf else None
    return None


def _read_shape(item: Item) -> Any:
    """Return the shape of an object in its own frame, or the reason why it cannot be read, as a text."""
    try:
        from OCP.BRep import BRep_Builder
        from OCP.BRepTools import BRepTools
        from OCP.Standard import Standard_Failure
        from OCP.TopLoc import TopLoc_Location
        from OCP.TopoDS import TopoDS_Shape
    except ImportError:
        return "needs the package build123d"
    name = _shape_file(item)
    if not name:
        return f"{item.label!r} has no shape"
    if not name.endswith(".brp"):
        return f"the shape of {item.label!r} is not stored as text"
    shape = TopoDS_Shape()
    unreadable = f"the shape of {item.label!r} cannot be read"
    data = item.document.member(name)
    try:
        BRepTools.Read_s(shape, io.BytesIO(data), BRep_Builder())
    except Standard_Failure:
        return unreadable
    if shape.IsNull():
        return unreadable
    # The placement of the object, which the document has as well.
    return shape.Located(TopLoc_Location())


def _volume_integrals(item: Item) -> tuple[float, Vector, Matrix] | str:
    """Return volume, centroid and inertia for the density 1 about the centroid of a shape; or why they are unknown."""
    shape = _read_shape(item)
    if isinstance(shape, str):
        return shape
    from OCP.BRepGProp import BRepGProp
    from OCP.GProp import GProp_GProps

    properties = GProp_GProps()
    BRepGProp.VolumeProperties_s(shape, properties)
    centre, matrix = properties.CentreOfMass(), properties.MatrixOfInertia()
    inertia = np.array([[matrix.Value(row, column) for column in (1, 2, 3)] for row in (1, 2, 3)])
    volume = properties.Mass()
    if not volume > MIN_VOLUME_MM3 or not np.isfinite(inertia).all():
        return f"the shape of {item.label!r} is no solid"
    return volume, np.array([centre.X(), centre.Y(), centre.Z()]), inertia


def distance_joint(components: Components, joint: Item) -> tuple[str, float, bool] | str:
    """Return the solver's joint of a Distance joint, its distance, and True if its markers are swapped.

    Instead the reason why it is not known, as a text.
    """
    found = []
    for k in (1, 2):
        element = components.element(joint, k)
        geometry = ("", 0.0) if element is None else _geometry(*element)
        if isinstance(geometry, str):
            return geometry
        found.append(geometry)
    (first, radius), (second, other) = found
    for pair, swapped in (((first, second), False), ((second, first), True)):
        if pair in DISTANCE_JOINTS:
            distance = joint.number("Distance") + (0.0 if pair in WITHOUT_RADIUS else radius + other)
            return DISTANCE_JOINTS[pair], distance, swapped
    return "Planar", joint.number("Distance"), False


def _geometry(item: Item, element: str) -> tuple[str, float] | str:
    """Return the geometry of an element such as "Face6", "Vertex" or a word of the table above, and its radius in mm."""
    word, number = element.rstrip("0123456789"), element[len(element.rstrip("0123456789")) :]
    if word == "Vertex":
        return "Vertex", 0.0
    if word not in ("Edge", "Face") or not number:
        return "", 0.0
    shape = _read_shape(item.document.linked(item) or item)
    if isinstance(shape, str):
        return shape
    from build123d.topology import downcast
    from OCP.BRepAdaptor import BRepAdaptor_Curve, BRepAdaptor_Surface
    from OCP.TopAbs import TopAbs_EDGE, TopAbs_FACE
    from OCP.TopExp import TopExp_Explorer

    # Elements are numbered in the order of the explorer; those that two others share count once.
    elements: list[Any] = []
    explorer = TopExp_Explorer(shape, TopAbs_EDGE if word == "Edge" else TopAbs_FACE)
    while explorer.More() and len(elements) < int(number):
        current = explorer.Current()
        if not any(current.IsSame(other) for other in elements):
            elements.append(current)
        explorer.Next()
    if not 0 < int(number) <= len(elements):
        return f"{item.label!r} has no {element}"
    found = downcast(elements[-1])
    adaptor = BRepAdaptor_Curve(found) if word == "Edge" else BRepAdaptor_Surface(found)
    kind = adaptor.GetType().name.removeprefix("GeomAbs_")
    return kind, float(getattr(adaptor, kind)().Radius()) if kind in WITH_RADIUS else 0.0
