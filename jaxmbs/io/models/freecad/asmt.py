"""Reading of `.asmt`, the text format of FreeCAD's solver."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.freecad.assembly import Assembly, Joint, Limit, Motion, Part, compose, nearest_rotation, pass_over
from jaxmbs.io.models.freecad.build import model_of_assembly
from jaxmbs.io.models.freecad.formula import number_of
from jaxmbs.io.models.freecad.joints import JOINT_KINDS
from jaxmbs.io.models.freecad.text_tree import Node, parse
from jaxmbs.io.models.links.tree import LinkFrame
from jaxmbs.io.models.model import Model
from jaxmbs.io.models.options import ReadOptions

# Name that FreeCAD gives to the assemblies that it exports. Their unit of length is mm.
EXPORTED_NAME = "OndselAssembly"
# Keys of the numbers of joints in the text format, by kind of the joint: size and other size.
SIZES = {
    "Angle": ("theIzJz",),
    "Planar": ("offset",),
    "PointInPlane": ("offset",),
    "LineInPlane": ("offset",),
    "SphSph": ("distanceIJ",),
    "CylSph": ("distanceIJ",),
    "RevCyl": ("distanceIJ",),
    "RevRev": ("distanceIJ",),
    "RackPinion": ("pitchRadius",),
    "Screw": ("pitch",),
    "Gear": ("radiusI", "radiusJ"),
}
# Keys of the formulas of a general motion in the text format: positions, then angles.
GENERAL_KEYS = ("rIJI1", "rIJI2", "rIJI3", "angIJJ1", "angIJJ2", "angIJJ3")
# Key of the formula of each other kind of motion in the text format.
MOTION_KEYS = {"Rotational": "RotationZ", "Translational": "TranslationZ"}
# Kinds of limits in the text format.
LIMIT_KINDS = ("Rotation", "Translation")


def read_asmt(path: Path, options: ReadOptions) -> Model:
    """Return the model of an assembly in the text format of FreeCAD's solver, in the stored placements; see `load`.

    - A part becomes a `spatial.Body` in the frame of the part; markers of the assembly are points of the ground.
    - Joints and motions become constraints and drivers with their names; limits become `.limits`.
    - Velocities are read if there are no motions, because motions determine them.
    - Shapes, stored results and the times of the simulation are not read.
    - Contacts, springs and unknown joints are passed over, or errors in strict mode.

    Raises:
        ModelError: malformed input, a missing marker, or a formula that cannot be read, with the name of the element.
    """
    options.refuse_loops_and_base("in FreeCAD add a joint to the assembly")
    tree = parse(Path(path).read_bytes())
    return model_of_assembly(_assembly(tree, options), options)


def _assembly(tree: Node, options: ReadOptions) -> Assembly:
    """Return the records of the tree of an assembly."""
    name = tree.word("Name")
    tree.owner = f"assembly {name!r}"
    ground = _frame(tree, GROUND)
    markers = _markers(tree, f"/{name}", ground)
    parts: dict[str, Part] = {}
    for node in tree.under("Parts"):
        part = _part(node)
        if part.name in parts:
            raise node.error("two parts have this name")
        parts[part.name] = part
        markers |= _markers(node, f"/{name}/{part.name}", LinkFrame(part.name, np.zeros(3), np.eye(3)))
    unit = "mm" if name == EXPORTED_NAME else "m"
    assembly = Assembly(name, unit, parts, [], [], [], tree.numbers("ConstantGravity", 3), {})
    ends: dict[str, tuple[LinkFrame, LinkFrame]] = {}
    for node in tree.under("ConstraintSets", "Joints"):
        kind = _kind(node, "Joint")
        if node.text in options.ignore:
            continue
        if kind not in JOINT_KINDS:
            pass_over(assembly, node.text, node.word("Name", ""), options.strict)
            continue
        keys = SIZES.get(kind, ())
        joint = Joint(node.word("Name"), kind, *_ends(node, markers), *(node.number(key, 0.0) for key in keys))
        assembly.joints.append(joint)
        ends[f"/{name}/{joint.name}"] = joint.i, joint.j
    for node in tree.under("ConstraintSets", "Motions"):
        kind = _kind(node, "Motion")
        if node.text not in options.ignore:
            _add_motion(assembly, node, kind, ends, markers, options.strict)
    for node in tree.under("ConstraintSets", "Limits"):
        kind = _kind(node, "Limit")
        if node.text not in options.ignore:
            _add_limit(assembly, node, kind, ends, markers, options.strict)
    for key in ("ForceTorques", "KinematicIJs"):
        for node in tree.under(key):
            _kind(node, "")
            if node.text not in options.ignore:
                pass_over(assembly, node.text, node.word("Name", ""), options.strict)
    return assembly


def _kind(node: Node, suffix: str) -> str:
    """Return the kind of an element without a suffix, and set the words for messages about it."""
    node.owner = f"{node.text} {node.word('Name', '')!r}"
    return node.text.removesuffix(suffix)


def _frame(node: Node, body: str) -> LinkFrame:
    """Return position and rotation of a node as a frame of a body."""
    a = nearest_rotation(node.numbers("RotationMatrix", 9).reshape(3, 3), node.owner)
    return LinkFrame(body, node.numbers("Position3D", 3), a)


def _part(node: Node) -> Part:
    """Return a part."""
    name = node.word("Name")
    node.owner = f"part {name!r}"
    if node.text != "Part":
        raise node.error(f"must be a Part, got {node.text!r}")
    if name in ("", GROUND):
        raise node.error(f"must have a name, other than {GROUND!r}")
    place, mass = _frame(node, GROUND), node.get("PrincipalMassMarker")
    at_mass = _frame(mass, name)
    moments = mass.numbers("MomentOfInertias", 3)
    velocity, omega = node.numbers("Velocity3D", 3), node.numbers("Omega3D", 3)
    return Part(
        name, place.r, place.a, mass.number("Mass", 1.0), moments, at_mass.r, at_mass.a, velocity=velocity, omega=omega
    )


def _markers(node: Node, path: str, place: LinkFrame) -> dict[str, LinkFrame]:
    """Return the markers of a part or of the assembly by their paths."""
    found: dict[str, LinkFrame] = {}
    mass = node.find("PrincipalMassMarker")
    if mass is not None:
        found[f"{path}/{mass.word('Name', 'MassMarker')}"] = compose(place, _frame(mass, place.body))
    for key in ("RefPoints", "RefCurves", "RefSurfaces"):
        for ref in node.under(key):
            ref.owner = node.owner
            if ref.find("Markers") is None:
                continue
            origin = compose(place, _frame(ref, place.body))
            for marker in ref.under("Markers"):
                name = marker.word("Name")
                marker.owner = f"marker {name!r} of {node.owner}"
                found.setdefault(f"{path}/{name}", compose(origin, _frame(marker, place.body)))
    return found


def _ends(node: Node, markers: dict[str, LinkFrame]) -> tuple[LinkFrame, LinkFrame]:
    """Return the markers i and j of an element."""
    found = []
    for key in ("MarkerI", "MarkerJ"):
        path = node.word(key)
        if path not in markers:
            raise node.error(f"{key} {path!r} does not exist")
        found.append(markers[path])
    return found[0], found[1]


def _driven_ends(node: Node, ends, markers) -> tuple[LinkFrame, LinkFrame]:
    """Return the markers of a motion or limit: its own, or those of its joint."""
    joint = node.word("MotionJoint", "")
    if not joint:
        return _ends(node, markers)
    if joint not in ends:
        raise node.error(f"MotionJoint {joint!r} does not exist, or is not represented")
    return ends[joint]


def _add_motion(assembly: Assembly, node: Node, kind: str, ends, markers, strict: bool) -> None:
    """Add a motion."""
    if kind not in ("General", *MOTION_KEYS):
        pass_over(assembly, node.text, node.word("Name", ""), strict)
        return
    keys = GENERAL_KEYS if kind == "General" else (MOTION_KEYS[kind],)
    formulas = tuple(node.word(key, "0") for key in keys)
    order = tuple(int(k) for k in node.numbers("RotationOrder", 3)) if kind == "General" else (1, 2, 3)
    name = node.word("Name")
    assembly.motions.append(Motion(name, kind, *_driven_ends(node, ends, markers), formulas, order))


def _add_limit(assembly: Assembly, node: Node, kind: str, ends, markers, strict: bool) -> None:
    """Add a limit of the joint between its markers."""
    sign = node.word("Type")
    if kind not in LIMIT_KINDS or sign not in ("=<", "=>"):
        raise node.error(f"must be a RotationLimit or TranslationLimit of the type =< or =>, got {sign!r}")
    i, j = _driven_ends(node, ends, markers)
    value = number_of(node.word("Limit"), node.owner)
    of = next((joint.name for joint in assembly.joints if joint.i is i and joint.j is j), None)
    if of is None:
        pass_over(assembly, node.text, node.word("Name", ""), strict, "no joint has its markers")
        return
    assembly.limits.append(Limit(of, kind, value, sign == "=>"))
