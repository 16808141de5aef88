"""Reading of URDF, the robot description format of ROS."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND, AbstractConstraint
from jaxmbs.io.models.links.couplings import couple
from jaxmbs.io.models.links.elements import Elements, elements_of
from jaxmbs.io.models.links.tree import FREE, HINGE, SLIDE, Link, PrimitiveJoint, along_z, frames_at_zero
from jaxmbs.io.models.mjcf.files import xml_root
from jaxmbs.io.models.mjcf.unsupported import check_ignore
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.options import ReadOptions

# Tags of URDF that `ignore` of `load` may name, to be left out.
IGNORABLE = ("collision", "damping", "friction", "gazebo", "limit", "mimic", "sensor", "transmission")
# Tags of URDF that are read or have no meaning in mechanics, by tag of their parent; others are refused.
KNOWN = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual", "collision"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic", "calibration", "safety_controller"},
}
# Mass, centre of mass and inertia of a link of URDF without the tag `inertial`.
NO_INERTIA = 0.0, np.zeros(3), np.zeros(3)
# Acceleration of gravity in m/s² of every mechanism read from URDF, which has none.
STANDARD_GRAVITY = (0.0, 0.0, -9.81)


def read_urdf(path: Path, options: ReadOptions) -> Model:
    """Return the model of a URDF file, at rest with all joints at zero, under a gravity of 9.81 along −z; see `load`.

    - A link becomes a `spatial.Body` with the frame of the link, which is that of the joint to its parent. revolute and
      continuous become `Revolute`; prismatic, fixed and planar `Prismatic`, `Rigid` and `Planar`, with their names;
      floating `Free`, or nothing between a link and the ground.
    - The root is `Rigid` on the ground. If it is called "world" or "ground", or has no mass, it is the ground; a robot
      that floats has a floating joint from such a root.
    - A link without mass that is fixed to another becomes a frame of it; the joint of a moving one becomes part of
      the joint of its child.
    - Limits become `.limits` and a `JointStop` each, with a time constant of 20 ms. Effort and velocity limits,
      calibration and safety controllers are left out.
    - `mimic` becomes a `Gear` of two hinges on the same link.
    - No mesh is opened.

    Raises:
        ModelError: an element that cannot be represented, by name; joints that form no tree; malformed input.
    """
    ignore, loops = options.ignore, options.loops
    check_ignore(ignore, IGNORABLE)
    root = xml_root(Path(path).read_bytes())
    if root.tag != "robot":
        raise ModelError(f"the root of a URDF must be <robot>, got <{root.tag}>")
    _check_tags(root, ignore)
    links = _links(root, ignore)
    elements = elements_of(links, range_tag="limit", ignore=ignore)
    if not elements.bodies:
        raise ModelError("robot: must have a link with mass besides the ground")
    _add_mimics(root, elements, ignore)
    _add_loops(elements, loops)
    elements.forces[elements.unused_name("gravity")] = forces.Gravity(jnp.array(STANDARD_GRAVITY))
    return Model(
        elements.bodies,
        elements.constraints,
        elements.drivers,
        elements.forces,
        guess=elements.guess | _at_zero(links, elements),
        name=root.get("name", ""),
        limits=elements.limits,
    )


def _check_tags(root: Element, ignore) -> None:
    """Raise `ModelError` for unknown tags of the robot, its links and joints, unless in `ignore`; warn of collisions."""
    collision = None
    for parent in (root, *root.findall("link"), *root.findall("joint"), *root.findall("link/inertial")):
        of = "" if parent is root else f" of {parent.tag} {parent.get('name', '')!r}"
        for child in parent:
            if child.tag == "collision":
                collision = collision or parent.get("name") or ""
            elif child.tag not in KNOWN[parent.tag] and child.tag not in ignore:
                leave = f"; leave it out with ignore=({child.tag!r},)" if child.tag in IGNORABLE else ""
                raise ModelError(f"{child.tag}{of}: cannot be represented{leave}")
    if collision is not None and "collision" not in ignore:
        warnings.warn(f"collision of link {collision!r} and others: contacts are not simulated", stacklevel=4)


def _numbers(element: Element | None, attribute: str, default: str, count: int, where: str) -> np.ndarray:
    """Return an attribute as numbers (count,); messages begin with `where`."""
    text = default if element is None else element.attrib.get(attribute, default)
    try:
        values = np.array([float(x) for x in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != (count,) or not np.all(np.isfinite(values)):
        raise ModelError(f"{where}: {attribute} must be {count} finite number{'s' * (count > 1)}, got {text!r}")
    return values


def _number(element: Element | None, attribute: str, default: str, where: str) -> float:
    """Return an attribute as a number; messages begin with `where`."""
    return float(_numbers(element, attribute, default, 1, where)[0])


def _origin(element: Element | None, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return r and A = R_z(yaw) R_y(pitch) R_x(roll) of an origin: rotations about fixed x, then y, then z."""
    origin = None if element is None else element.find("origin")
    r = _numbers(origin, "xyz", "0 0 0", 3, where)
    (cr, cp, cy), (sr, sp, sy) = (f(_numbers(origin, "rpy", "0 0 0", 3, where)) for f in (np.cos, np.sin))
    roll = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    pitch = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    yaw = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return r, yaw @ pitch @ roll


def _elements_by_name(root: Element, tag: str) -> dict[str, Element]:
    """Return the elements with a tag by name."""
    found: dict[str, Element] = {}
    for element in root.findall(tag):
        name = element.get("name", "")
        if not name:
            raise ModelError(f"{tag}: a name is missing")
        if name in found:
            raise ModelError(f"{tag} {name!r}: two have this name")
        found[name] = element
    return found


def _ends(name: str, joint: Element, links) -> tuple[str, str]:
    """Return the names of the parent and of the child of a joint."""
    found = []
    for tag in ("parent", "child"):
        end = joint.find(tag)
        link = "" if end is None else end.get("link", "")
        if link not in links:
            raise ModelError(f"joint {name!r}: {tag} {link!r} is not a link")
        found.append(link)
    return found[0], found[1]


def _links(root: Element, ignore) -> list[Link]:
    """Return all links, parents before their children."""
    links, joints = _elements_by_name(root, "link"), _elements_by_name(root, "joint")
    leading: dict[str, str] = {}
    below: dict[str, list[str]] = {name: [] for name in links}
    for name, joint in joints.items():
        parent, child = _ends(name, joint, links)
        if child in leading:
            raise ModelError(
                f"joints {leading[child]!r} and {name!r} both lead to link {child!r}: they form a loop, and URDF describes "
                "trees only; take one out and give it as loops={name: constraint}"
            )
        leading[child] = name
        below[parent].append(child)
    roots = [name for name in links if name not in leading]
    if len(roots) > 1:
        raise ModelError(f"links {roots[0]!r} and {roots[1]!r}: no joint leads to either; there must be one root")
    done: list[Link] = []
    waiting = roots[:]
    while waiting:
        name = waiting.pop()
        waiting += below[name][::-1]
        if name in leading:
            joint = joints[leading[name]]
            parent, _ = _ends(leading[name], joint, links)
            done.append(_link(name, links[name], parent, leading[name], joint, ignore))
        elif name != GROUND:
            # A root called "world" is the ground.
            inertial = NO_INERTIA if name == "world" else _inertial(name, links[name])
            done.append(Link(name, GROUND, np.zeros(3), np.eye(3), (), *inertial))
    reached = {GROUND, *(link.name for link in done)}
    circling = [leading[name] for name in links if name not in reached]
    if circling:
        raise ModelError(f"joints {', '.join(map(repr, circling))}: form a loop without a root")
    return done


def _link(name: str, element: Element, parent: str, leading: str, joint: Element, ignore) -> Link:
    """Return a link; `leading` is the name of the joint to its parent."""
    if name == GROUND:
        raise ModelError("link 'ground': only the root may have this name")
    r, a = _origin(joint, f"joint {leading!r}")
    return Link(name, parent, r, a, _primitives(leading, joint, ignore), *_inertial(name, element))


def _inertial(name: str, link: Element) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the mass, the centre of mass (3,), and the inertia about it (3, 3) in the frame of the link."""
    found, where = link.find("inertial"), f"link {name!r}"
    if found is None:
        return NO_INERTIA
    for parent, tag, many in ((link, "inertial", 1), (found, "mass", 1), (found, "inertia", 1), (found, "origin", 0)):
        count = len(parent.findall(tag))
        if count > 1 or count < many:
            raise ModelError(f"{where}: {tag} {'appears twice' if count > 1 else 'is missing'}")
    r, a = _origin(found, where)
    mass = _number(found.find("mass"), "value", "", where)
    entries = [_number(found.find("inertia"), key, "0", where) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")]
    xx, yy, zz, xy, xz, yz = entries
    inertia = a @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ a.T
    if mass < 0 or (mass == 0 and np.any(inertia)):
        raise ModelError(f"{where}: mass must be positive, got {mass}")
    return mass, r, (inertia + inertia.T) / 2


def _primitives(name: str, joint: Element, ignore) -> tuple[PrimitiveJoint, ...]:
    """Return the primitives of a joint: none if it is fixed, three if it is planar."""
    where, kind = f"joint {name!r}", joint.get("type", "")
    axis = _numbers(joint.find("axis"), "xyz", "1 0 0", 3, where)
    dynamics = joint.find("dynamics")
    damping = 0.0 if "damping" in ignore else _number(dynamics, "damping", "0", where)
    friction = 0.0 if "friction" in ignore else _number(dynamics, "friction", "0", where)
    if kind in ("revolute", "continuous", "prismatic", "planar"):
        if not np.any(axis):
            raise ModelError(f"{where}: axis must not be zero")
        axis = axis / np.linalg.norm(axis)
    if kind in ("fixed", "floating", "planar"):
        for value, what in ((damping, "damping"), (friction, "friction")):
            if value:
                raise ModelError(f"{where}: {what} of a {kind} joint cannot be represented")
        if kind == "fixed":
            return ()
    origin = np.zeros(3)
    if kind == "floating":
        return (PrimitiveJoint(FREE, name, origin, axis),)
    if kind == "planar":
        x, y, z = along_z(axis).T
        return tuple(
            PrimitiveJoint(primitive, f"{name}.{what}", origin, u)
            for primitive, what, u in ((SLIDE, "x", x), (SLIDE, "y", y), (HINGE, "phi", z))
        )
    if kind not in ("revolute", "continuous", "prismatic"):
        raise ModelError(f"{where}: type {kind!r} is not known")
    limit = joint.find("limit")
    limited = limit is not None and kind != "continuous" and ("lower" in limit.attrib or "upper" in limit.attrib)
    limits = (_number(limit, "lower", "0", where), _number(limit, "upper", "0", where)) if limited else None
    if limits is not None and limits[0] > limits[1]:
        raise ModelError(f"{where}: limit: lower is above upper, got {limits[0]} and {limits[1]}")
    one = SLIDE if kind == "prismatic" else HINGE
    return (PrimitiveJoint(one, name, origin, axis, damping=damping, limits=limits, friction=friction),)


def _add_mimics(root: Element, elements: Elements, ignore) -> None:
    """Add a gear for each mimic."""
    for name, joint in _elements_by_name(root, "joint").items():
        mimic = joint.find("mimic")
        if mimic is not None and "mimic" not in ignore:
            offset, ratio = (_number(mimic, *key, f"joint {name!r}") for key in (("offset", "0"), ("multiplier", "1")))
            couple(elements, f"{name} mimic", name, mimic.get("joint", ""), offset, ratio)


def _add_loops(elements: Elements, loops) -> None:
    """Add the constraints of the user. Those on links that are frames of a body are refused."""
    pairs = loops.items() if isinstance(loops, Mapping) else loops
    if isinstance(pairs, str) or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise ModelError("loops must be a mapping, or pairs, of names and constraints")
    for name, element in pairs:
        if not isinstance(element, AbstractConstraint):
            raise ModelError(f"loop {name!r}: {element!r} is not a constraint")
        for body in (element.i, element.j):
            if body not in elements.bodies and body != GROUND:
                place = elements.place(body, f"loop {name!r}")
                raise ModelError(
                    f"loop {name!r}: link {body!r} is part of {place.body!r}: name that, with points in its frame"
                )
        if elements.unused_name(name) != name:
            raise ModelError(f"loop {name!r}: another element has this name; choose another")
        elements.constraints[name] = element


def _at_zero(links: Sequence[Link], elements: Elements) -> dict[str, np.ndarray]:
    """Return the coordinates of all bodies with all joints at zero."""
    frames = frames_at_zero(links)
    return {name: np.asarray(spatial.coordinates(frames[name].r, frames[name].a)) for name in elements.bodies}
