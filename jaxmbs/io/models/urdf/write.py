"""Writing of URDF: a tree of links and joints, and the loops that it cannot hold in a file beside it."""

from __future__ import annotations

import json
from functools import singledispatch
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from jaxtyping import Float

from jaxmbs import forces
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import BALL, HINGE, NO_LIMIT, SLIDE, LinkFrame, finite_range
from jaxmbs.io.models.mjcf.outgoing import (
    MujocoJoint,
    assembled_guess,
    in_space,
    motions_of,
    number,
    numbers,
    place_of,
)
from jaxmbs.io.models.mjcf.xml_document import inertia_matrix
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.system.topology import ROOT, Tree, spanning_tree

# Name of the root link, which is the ground.
WORLD = "world"
# An axis counts as parallel to another if the absolute cosine of their angle differs from 1 by less than this.
MAX_AXIS_ERROR = 1e-9
# Tags of URDF for primitive joints.
TYPES = {HINGE: "continuous", SLIDE: "prismatic"}


class WrittenJoint(NamedTuple):
    """A joint of URDF that stands for a hinge or a slide.

    Attributes:
        primitive: its motion, with the value of its coordinate at the zero of URDF.
        element: its XML.
    """

    primitive: MujocoJoint
    element: Element


class Document(NamedTuple):
    """The URDF document of a model.

    Attributes:
        model: the model.
        tree: its spanning tree.
        start: the configuration q, (n,), at which all joints of URDF are zero.
        places: frames of the bodies in this configuration, in the ground frame.
        links: frames of the links in this configuration, in the ground frame.
        root: XML of the robot.
        joints: the joints of URDF for each joint of the tree.
        loops: pairs of frames that coincide, each with "3d" for points or "6d" for points and axes.
    """

    model: Model
    tree: Tree
    start: Any
    places: dict[str, LinkFrame]
    links: dict[str, LinkFrame]
    root: Element
    joints: dict[str, list[WrittenJoint]]
    loops: list[tuple[str, str, str]]

    def parent(self, k: int) -> str:
        """Return the name of the parent of body k of the tree."""
        parent = self.tree.parents[k]
        return GROUND if parent == ROOT else self.tree.bodies[parent]

    def link_name(self, body: str) -> str:
        """Return the name of the link of a body."""
        return WORLD if body == GROUND else body

    def add_link(self, name: str, frame: LinkFrame) -> Element:
        """Add a link with a frame in the ground frame, and return its XML."""
        if name in self.links:
            raise ModelError(f"link {name!r}: two links of the URDF would have this name; rename the body or the joint")
        self.links[name] = frame
        return SubElement(self.root, "link", name=name)

    def add_joint(self, name: str, kind: str, parent: str, child: str) -> Element:
        """Add a joint between two links, with the origin that their frames have, and return its XML."""
        on, place = self.links[parent], self.links[child]
        element = SubElement(self.root, "joint", name=name, type=kind)
        SubElement(element, "parent", link=parent)
        SubElement(element, "child", link=child)
        angles = roll_pitch_yaw(on.a.T @ place.a)
        SubElement(element, "origin", xyz=numbers(on.local(place.r)), rpy=numbers(angles))
        return element

    def add_frame(self, name: str, body: str, frame: LinkFrame) -> None:
        """Add a link without mass that is fixed to a body; its frame is in the ground frame."""
        self.add_link(name, frame)
        self.add_joint(f"{name} fixed", "fixed", self.link_name(body), name)

    def single(self, joint: str, owner: str) -> WrittenJoint:
        """Return the only hinge or slide of a joint; raise `ModelError`, which names the owner, if there is none."""
        written = self.joints.get(joint, [])
        if len(written) != 1:
            raise ModelError(
                f"{owner}: URDF can describe this only for a joint of the tree that is a single hinge or slide; "
                f"{joint!r} is not one"
            )
        return written[0]


def write_urdf(model: Model) -> tuple[str, dict[str, str]]:
    """Return a model as the text of a URDF file, and the texts of files beside it by suffix.

    The links form `topology.spanning_tree`, with a root "world" that is the ground. Each body is a link, whose frame is
    that of the body, moved to a point of the joint to its parent. All joints are zero in the assembled guess, and limits
    are relative to it. Joints with several motions become rows of hinges and slides with links without mass between
    them, a ball three hinges about x, y and z.

    Cut joints become pairs of frames that coincide, in a file `.yaml` with the keys `closed_loop` and `type`: a ball or a
    planar pin one pair "3d", a spatial hinge two of them along its axis, a rigid joint a pair "6d".

    URDF has no gravity; each program has its own. Limits, damping and constant friction are those of single hinges and
    slides. Planar mechanisms lie in the plane xy; their bodies have equal moments of inertia about all axes.

    Raises:
        ModelError: drivers; constraints, forces and bodies that URDF does not have, by name; a guess that cannot be
            assembled.
    """
    for name in model.drivers:
        raise ModelError(f"driver {name!r}: URDF has no drivers")
    start = assembled_guess(model, "URDF")
    places = {name: place_of(name, pose) for name, pose in model.poses(start).items()}
    root = Element("robot", name=model.name or "mechanism")
    document = Document(model, spanning_tree(model), start, places, {}, root, {}, [])
    document.add_link(WORLD, places[GROUND])
    for k, body in enumerate(document.tree.bodies):
        _add_body(document, k, body)
    for name in document.tree.cut:
        _add_loop(document, name)
    for joint, ends in model.limits.items():
        _add_limits(document, joint, ends, f"limits of {joint!r}")
    for name, force in model.forces.items():
        _add_force(force, document, f"force {name!r} ({type(force).__name__})")
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode") + "\n"
    return text, {".yaml": _loops_text(document.loops)} if document.loops else {}


def _loops_text(loops: list[tuple[str, str, str]]) -> str:
    """Return the pairs of frames as the text of a YAML file; its lists are also JSON."""
    rows = {
        "closed_loop": [pair for *pair, _ in loops],
        "type": [kind for *_, kind in loops],
        "name_mot": [],
        "joint_name": [],
        "joint_type": [],
    }
    return "".join(f"{key}: {json.dumps(row, ensure_ascii=False)}\n" for key, row in rows.items())


def _add_body(document: Document, k: int, body: str) -> None:
    """Add the body with index k in the tree, with its joint."""
    place, joint = document.places[body], document.tree.joints[k]
    parent = document.link_name(document.parent(k))
    if joint is None:
        anchor, name, primitives = place.r, body, _floating(document, body)
    else:
        constraint, primitives = motions_of(
            document.model, document.start, "URDF", joint, reverse=document.tree.reversed[k]
        )
        anchor, name = document.places[constraint.j].point(in_space(constraint.point_j)), joint
    frame = LinkFrame(GROUND, anchor, place.a)
    moving = [turn for primitive in primitives for turn in _hinges_and_slides(primitive, place.a)]
    rows = []
    for number_of_joint, primitive in enumerate(moving):
        last = number_of_joint == len(moving) - 1
        joint_name = name if len(moving) == 1 else f"{name}.{primitive.name}"
        link = body if last else f"{body} after {joint_name}"
        element = document.add_link(link, frame)
        if last:
            _add_inertial(document, body, element, frame)
        row = document.add_joint(joint_name, TYPES[primitive.kind], parent, link)
        SubElement(row, "axis", xyz=numbers(place.a.T @ primitive.axis))
        if primitive.kind == SLIDE:
            _set_limit(row)
        rows.append(WrittenJoint(primitive, row))
        parent = link
    if not moving:
        _add_inertial(document, body, document.add_link(body, frame), frame)
        kind, joint_name = ("fixed", name) if joint is not None else ("floating", f"{body} on {WORLD}")
        document.add_joint(joint_name, kind, parent, body)
    if joint is not None:
        document.joints[joint] = rows
    for frame_name, own in getattr(document.model.bodies[body], "frames", {}).items():
        on_body = LinkFrame(GROUND, place.point(own.origin), place.a @ np.asarray(own.axes))
        document.add_frame(frame_name if frame_name not in document.links else f"{body} {frame_name}", body, on_body)


def _floating(document: Document, body: str) -> list[MujocoJoint]:
    """Return the motions of a body that floats: those of the plane; none in space, where URDF has a joint for them."""
    if document.model.bodies[body].dimension == 3:
        return []
    kinds = ((SLIDE, "x", 0), (SLIDE, "y", 1), (HINGE, "phi", 2))
    return [MujocoJoint(kind, name, np.eye(3)[axis], 0.0) for kind, name, axis in kinds]


def _hinges_and_slides(primitive: MujocoJoint, axes: Float[np.ndarray, "3 3"]) -> list[MujocoJoint]:
    """Return a hinge or a slide as it is, a ball as hinges about the axes of the body."""
    if primitive.kind != BALL:
        return [primitive]
    return [MujocoJoint(HINGE, name, axis, 0.0) for name, axis in zip("xyz", axes.T, strict=True)]


def _add_inertial(document: Document, body: str, link: Element, frame: LinkFrame) -> None:
    """Add mass, centre of mass and inertia of a body to its link; nothing for a body without mass."""
    own = document.model.bodies[body]
    mass, inertia = float(own.mass), inertia_matrix(own)
    if mass <= 0 and np.any(inertia):
        raise ModelError(f"body {body!r}: has an inertia, so URDF needs a mass")
    if mass <= 0:
        return
    element = SubElement(link, "inertial")
    com = frame.local(document.places[body].point(in_space(own.com)))
    SubElement(element, "origin", xyz=numbers(com), rpy="0 0 0")
    SubElement(element, "mass", value=number(mass))
    entries = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}
    SubElement(element, "inertia", {f"i{key}": number(inertia[index]) for key, index in entries.items()})


def _add_loop(document: Document, name: str) -> None:
    """Add a cut joint as pairs of frames that coincide."""
    constraint, primitives = motions_of(document.model, document.start, "URDF", name, reverse=False)
    kinds = [primitive.kind for primitive in primitives]
    if kinds not in ([], [BALL], [HINGE]):
        raise ModelError(
            f"constraint {name!r} ({type(constraint).__name__}): closes a loop; only balls, hinges, planar pins and rigid "
            "joints that close loops can be written"
        )
    points: dict[str, Any] = {"": np.zeros(3)}
    if kinds == [HINGE] and constraint.dimension == 3:
        points["_axis"] = primitives[0].axis
    for suffix, shift in points.items():
        pair = []
        for end, body, point in (("A", constraint.i, constraint.point_i), ("B", constraint.j, constraint.point_j)):
            place = document.places[body]
            # Both frames have the axes of body j, as a rigid joint asks for.
            frame = LinkFrame(GROUND, place.point(in_space(point)) + shift, document.places[constraint.j].a)
            pair.append(f"{name}{suffix}_{end}")
            document.add_frame(pair[-1], body, frame)
        document.loops.append((pair[0], pair[1], "3d" if kinds else "6d"))


def _set_limit(row: Element, lower: float | None = None, upper: float | None = None) -> None:
    """Set the range of a joint, None for no end. URDF also wants an effort and a velocity, which stay unlimited."""
    found = row.find("limit")
    limit = SubElement(row, "limit") if found is None else found
    limit.attrib |= dict(zip(("lower", "upper"), map(number, finite_range(lower, upper)), strict=True))
    limit.attrib |= {"effort": number(NO_LIMIT), "velocity": number(NO_LIMIT)}
    if row.get("type") == "continuous":
        row.set("type", "revolute")


def _add_limits(document: Document, joint: str, ends: tuple[Any, Any], owner: str) -> None:
    """Set the range of a single hinge or slide, relative to its coordinate at the zero of URDF; None is no end."""
    written = document.single(joint, owner)
    _set_limit(written.element, *(None if end is None else float(end) - written.primitive.value for end in ends))


@singledispatch
def _add_force(force, document: Document, owner: str) -> None:
    """Add a force, which messages call `owner`."""
    raise ModelError(f"{owner}: URDF has nothing like it")


@_add_force.register
def _(force: forces.Gravity, document, owner):
    """Leave gravity out: in URDF it is no part of a robot."""


@_add_force.register
def _(force: forces.JointStop, document, owner):
    """Write the range of a `JointStop`; URDF has no stiffness of limits."""
    _add_limits(document, force.joint, (force.lower, force.upper), owner)


@_add_force.register
def _(force: forces.JointFriction, document, owner):
    """Write a `JointFriction` of a given force or torque as the friction of its joint."""
    written = document.single(force.joint, owner)
    static, dynamic, preload = force.static, float(force.dynamic), force.preload
    if preload is None or (static is not None and float(static) != dynamic):
        raise ModelError(f"{owner}: URDF has friction of a given force or torque only")
    radius = 1.0 if force.radius is None else float(force.radius)
    _add_dynamics(written, "friction", dynamic * float(preload) * radius)
    _add_dynamics(written, "damping", float(force.viscous))


@_add_force.register
def _(force: forces.AbstractTorsionSpring, document, owner):
    """Write a torsion damper as damping of the hinge along its axis."""
    axis = np.array([0.0, 0.0, 1.0])
    if document.model.bodies[force.i if force.i != GROUND else force.j].dimension == 3:
        local = axis if force.axis_i is None else np.asarray(force.axis_i)
        axis = document.places[force.i].a @ local / np.linalg.norm(local)
    _add_damper(document, force, HINGE, axis, owner)


@_add_force.register
def _(force: forces.AxialSpring, document, owner):
    """Write an axial damper as damping of the slide along its axis."""
    axis = document.places[force.i].a @ in_space(force.axis_i)
    _add_damper(document, force, SLIDE, axis / np.linalg.norm(axis), owner)


def _add_damper(document: Document, force, kind: str, axis, owner: str) -> None:
    """Add a damper without a spring to the single hinge or slide of the tree along its axis."""
    only_damping = force.stiffness is None and not any(
        getattr(force, name, None) is not None for name in ("actuator", *forces.laws_of(force))
    )
    if not only_damping:
        raise ModelError(f"{owner}: URDF has linear dampers in joints, and no springs")
    for name, written in document.joints.items():
        joint: Any = document.model.constraints[name]
        if {joint.i, joint.j} == {force.i, force.j} and len(written) == 1 and written[0].primitive.kind == kind:
            own = written[0].primitive.axis
            if own is not None and abs(abs(float(own @ axis)) - 1) < MAX_AXIS_ERROR:
                _add_dynamics(written[0], "damping", float(force.damping))
                return
    raise ModelError(f"{owner}: URDF has dampers only in single hinges and slides of the tree, along their axis")


def _add_dynamics(written: WrittenJoint, key: str, value: float) -> None:
    """Add a value to the damping or the friction of a joint."""
    found = written.element.find("dynamics")
    dynamics = SubElement(written.element, "dynamics") if found is None else found
    dynamics.set(key, number(float(dynamics.get(key, "0")) + value))


def roll_pitch_yaw(a: Float[np.ndarray, "3 3"]) -> tuple[float, float, float]:
    """Return angles with A = R_z(yaw) R_y(pitch) R_x(roll), in radians, exact to rounding at a pitch of ±π/2 as well."""
    yaw = np.arctan2(a[1, 0], a[0, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    rest = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) @ a
    return float(np.arctan2(-rest[1, 2], rest[1, 1])), float(np.arctan2(-rest[2, 0], rest[0, 0])), float(yaw)
