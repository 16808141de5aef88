"""Reading of assemblies of the Assembly workbench of FreeCAD, `.FCStd`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.freecad.assembly import Assembly, Joint, Limit, Motion, Part, compose, pass_over
from jaxmbs.io.models.freecad.build import model_of_assembly
from jaxmbs.io.models.freecad.components import Components
from jaxmbs.io.models.freecad.document import Archives, Item
from jaxmbs.io.models.freecad.joints import MIN_SINE
from jaxmbs.io.models.freecad.shapes import distance_joint, mass_of
from jaxmbs.io.models.links.tree import LinkFrame, unit
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.options import ReadOptions

# Kinds of the solver's joints by the types of joints of the workbench that have one, whatever their references.
KINDS = {
    "Fixed": "Fixed",
    "Revolute": "Revolute",
    "Cylindrical": "Cylindrical",
    "Slider": "Translational",
    "Ball": "Spherical",
    "Parallel": "ParallelAxes",
    "Perpendicular": "Perpendicular",
    "Angle": "Angle",
    "RackPinion": "RackPinion",
    "Screw": "Screw",
    "Gears": "Gear",
    "Belt": "Gear",
}
# Kinds of motions by the words of the workbench.
MOTION_KINDS = {"Angular": "Rotational", "Linear": "Translational"}
# Kinds of limits by the words in their properties, and the factor from their unit.
LIMIT_WORDS = {"Length": ("Translation", 1.0), "Angle": ("Rotation", np.pi / 180)}


def read_fcstd(path: Path, options: ReadOptions) -> Model:
    """Return the model of the assembly in a document of FreeCAD, in the stored placements; see `load`.

    - Parts that joints or grounds name become a `spatial.Body` each, in the frame of the part; the assembly's frame is the
      ground. Lengths are in mm, masses in kg, angles in radians. There is no gravity.
    - Joints become constraints with their labels; motions of the first simulation become drivers; limits become `.limits`.
    - Masses and inertias follow from shapes and materials, with the package build123d. Other parts have mass 1 and
      inertia 1, as in FreeCAD's solver.
    - Linked documents are read if they are in the folder of the file or in one of `allow`.

    Raises:
        ModelError: a damaged archive, no assembly, or a joint or formula that cannot be read, by name.
    """
    options.refuse_loops_and_base("in FreeCAD add a joint to the assembly")
    components = Components(Archives(Path(path), options.allow).first)
    return model_of_assembly(_assembly(components, options), options)


def _assembly(components: Components, options: ReadOptions) -> Assembly:
    """Return the records of an assembly."""
    root = components.root
    assembly = Assembly(root.label, "mm", {}, [], [], [], np.zeros(3), {})
    joints = [item for item in components.inside if item.choice("JointType")]
    names = _unique_labels(joints)
    sliders = [item for item in joints if item.choice("JointType") == "Slider" and not _is_off(item)]
    ends: dict[str, Joint] = {}
    for item in joints:
        kind = item.choice("JointType")
        if _is_off(item) or kind in options.ignore:
            continue
        joint = _joint(components, item, names[item.name], sliders)
        if isinstance(joint, str):
            pass_over(assembly, f"{kind} joint", names[item.name], options.strict, joint)
            continue
        assembly.joints.append(joint)
        ends[item.name] = joint
        assembly.limits.extend(_limits(item, joint))
    for item in components.inside:
        for part in item.links("ObjectToGround"):
            place = components.frame_of(part)
            marker = LinkFrame(components.name_of(part), np.zeros(3), np.eye(3))
            assembly.joints.append(Joint(item.label, "Fixed", place, marker))
    _add_motions(assembly, components, ends, options)
    _add_parts(assembly, components, options)
    return assembly


def _is_off(item: Item) -> bool:
    """Return True for a joint that is suppressed or, in older documents, not activated."""
    return item.flag("Suppressed") or ("Activated" in item.properties and not item.flag("Activated"))


def _unique_labels(items: list[Item]) -> dict[str, str]:
    """Return the labels of objects by name; the name itself if two have the same label."""
    labels = [item.label for item in items]
    return {item.name: item.label if labels.count(item.label) == 1 else item.name for item in items}


def _joint(components: Components, item: Item, name: str, sliders: list[Item]) -> Joint | str:
    """Return a joint, or the reason why it is not represented."""
    markers = [components.marker(item, k) for k in (1, 2)]
    if None in markers:
        return "a reference is missing"
    i, j = (marker for marker in markers if marker is not None)
    kind, size, other = item.choice("JointType"), item.number("Distance"), item.number("Distance2")
    if kind == "Distance":
        found = distance_joint(components, item)
        if isinstance(found, str):
            return found
        solver_kind, size, swapped = found
        return Joint(name, solver_kind, *((j, i) if swapped else (i, j)), size)
    if kind not in KINDS:
        return "is not represented"
    if kind == "Angle":
        # Older documents keep the angle as the distance.
        size = abs(np.deg2rad(item.number("Angle") if "Angle" in item.properties else size))
        return Joint(name, "ParallelAxes" if abs(np.sin(size)) < MIN_SINE else "Angle", i, j, size)
    if kind in ("RackPinion", "Screw"):
        end = components.end_on_slider(item, sliders)
        if end is None:
            return "neither of its parts has a Slider joint"
        i, j = (j, i) if end == 2 else (i, j)
        i = _rack(components, i, j) if kind == "RackPinion" else i
    keep = kind in ("RackPinion", "Screw", "Gears", "Belt")
    return Joint(name, KINDS[kind], i, j, size if keep else 0.0, -other if kind == "Belt" else other)


def _rack(components: Components, rack: LinkFrame, pinion: LinkFrame) -> LinkFrame:
    """Return the marker of a rack: z along the axis of the pinion, x along the z axis of the given marker."""
    place = components.places[rack.body]
    given, axis = compose(place, rack).a[:, 2], compose(components.places[pinion.body], pinion).a[:, 2]
    along = given - axis * (axis @ given)
    if np.linalg.norm(along) < MIN_SINE:
        raise ModelError(
            f"rack {rack.body!r}: its direction must not be parallel to the axis of the pinion {pinion.body!r}"
        )
    x = unit(along)
    return LinkFrame(rack.body, rack.r, place.a.T @ np.stack([x, np.cross(axis, x), axis], axis=1))


def _limits(item: Item, joint: Joint) -> list[Limit]:
    """Return the limits of a joint that are enabled."""
    found = []
    for word, (kind, factor) in LIMIT_WORDS.items():
        for end in ("Min", "Max"):
            if item.flag(f"Enable{word}{end}"):
                found.append(Limit(joint.name, kind, factor * item.number(f"{word}{end}"), end == "Min"))
    return found


def _add_motions(assembly: Assembly, components: Components, ends: dict[str, Joint], options: ReadOptions) -> None:
    """Add the motions of the first simulation, or all motions if there is no simulation."""
    items = components.items.values()
    simulation = next((item for item in items if "bTimeEnd" in item.properties), None)
    motions = [item for item in items if "Formula" in item.properties and "MotionType" in item.properties]
    for item in motions:
        if simulation is not None and item not in simulation.links("Group"):
            pass_over(assembly, "motion", item.label, options.strict, "belongs to another simulation")
            continue
        joint = ends.get(item.reference("Joint")[1])
        kind = MOTION_KINDS.get(item.choice("MotionType"))
        if joint is None or kind is None:
            pass_over(assembly, "motion", item.label, options.strict, "its joint is not represented")
        elif item.text("Formula").strip() and item.choice("MotionType") not in options.ignore:
            assembly.motions.append(Motion(item.label, kind, joint.i, joint.j, (item.text("Formula"),)))


def _add_parts(assembly: Assembly, components: Components, options: ReadOptions) -> None:
    """Add the parts that joints name."""
    used = {end.body for joint in assembly.joints for end in (joint.i, joint.j)} - {GROUND}
    for name, item in components.parts.items():
        if name not in used:
            pass_over(assembly, "part", name, options.strict, "no joint names it")
            continue
        place, found = components.places[name], mass_of(components, item)
        if isinstance(found, str):
            pass_over(assembly, "mass of part", name, False, f"{found}; mass 1 and inertia 1 are used")
            assembly.parts[name] = Part(name, place.r, place.a)
        else:
            mass, com, inertia = found
            assembly.parts[name] = Part(name, place.r, place.a, mass, inertia, com)
