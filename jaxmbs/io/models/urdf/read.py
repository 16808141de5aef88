"""Reading of URDF: the tree of links, and its base."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND, AbstractConstraint
from jaxmbs.io.models.links.couplings import couple
from jaxmbs.io.models.links.elements import Elements, elements_of
from jaxmbs.io.models.links.loops import add_loops, loop_pairs
from jaxmbs.io.models.links.tree import FREE, Link, PrimitiveJoint, frames_at_zero
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.notes import Notes
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.io.models.urdf.loops import ClosedLoops, closed_loops_of
from jaxmbs.io.models.urdf.parts import NO_INERTIA, inertial_of, number, origin_of, primitives_of
from jaxmbs.io.models.xml_lines import parse_xml

# Words that `ignore` of `load` may name: these elements are left out; with "inertia" impossible inertias are replaced by
# the nearest possible ones without mention.
IGNORABLE = ("collision", "damping", "friction", "inertia", "limit", "mimic")
# Tags of URDF that are read or have no meaning in mechanics, by tag of their parent; others are passed over.
KNOWN = {
    "robot": {"link", "joint", "material"},
    "link": {"inertial", "visual", "self_collision_checking"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"parent", "child", "origin", "axis", "limit", "dynamics", "mimic", "calibration", "safety_controller"},
}
# Names of roots that are the ground, whatever their mass.
FIXED_ROOTS = ("world", f"{GROUND}_")
# Acceleration of gravity in m/s² of every mechanism read from URDF, which has none.
STANDARD_GRAVITY = (0.0, 0.0, -9.81)


def read_urdf(path: Path, options: ReadOptions) -> Model:
    """Return the model of a URDF file, at rest with all joints at zero, under a gravity of 9.81 along −z; see `load`.

    - A link becomes a `spatial.Body` with the frame of the link, which is that of the joint to its parent. revolute and
      continuous become `Revolute`; prismatic, fixed and planar `Prismatic`, `Rigid` and `Planar`, with their names;
      floating `Free`, or nothing between a link and the ground; Bullet's spherical becomes `Spherical`.
    - The root is `Rigid` on the ground. If it is called "world" or "ground", or has no mass, it is the ground. A robot
      that floats has a floating joint from such a root, or is read with base="free". A link "ground" becomes "ground_".
    - A link without mass that is fixed to another becomes a frame of it. One that moves becomes a body without mass; if
      it carries nothing with mass and closes no loop, it is fixed at zero.
    - Limits become `.limits` and a `JointStop` each, with a time constant of 20 ms. Effort and velocity limits,
      calibration and safety controllers are left out.
    - `mimic` couples two hinges or slides.
    - Links "closing_a_1" and "closing_a_2" of onshape-to-robot are connected by a ball "closing_a", or by a hinge if
      there are "closing_a_1_z" and "closing_a_2_z" too. `closed_loop` of a YAML file with the name of the robot file, or
      "robot.yaml", has pairs of links or joints, `type` "3d" for a ball and "6d" for a rigid joint, and `joint_name`
      and `joint_type` change joints of the robot.
    - No mesh is opened.

    Raises:
        ModelError: joints that form no tree, and malformed elements, all in one message, with their lines.
    """
    root = parse_xml(Path(path).read_bytes())
    if root.tag != "robot":
        raise ModelError(f"the root of a URDF must be <robot>, got <{root.tag}>")
    notes = Notes(options)
    notes.check_ignore(root, IGNORABLE)
    _pass_over_unknown(root, notes)
    _rename_ground(root)
    closed = closed_loops_of(Path(path))
    robot = _Robot(root, notes, options, closed)
    notes.check()
    links = _on_base(robot.tree(), options.base)
    loops = [*closed.loops(robot.links), *loop_pairs(options.loops)]
    links, idle = _fix_idle(links, robot, {end for _, given in loops for end in _ends_of(given)}, notes)
    elements = elements_of(
        links, range_tag="limit", ignore=options.ignore, passed_over=notes.passed_over, keep_moving=True
    )
    if not elements.bodies:
        raise ModelError("robot: is scenery without a moving body: no link has a mass or moves")
    add_loops(elements, loops, robot.child_of)
    for name, joint in robot.joints.items():
        mimic = joint.find("mimic")
        if mimic is None or "mimic" in options.ignore or name in idle:
            continue
        if joint.get("type") == "fixed":
            notes.pass_over("mimic", f"joint {name!r}", mimic, "fixed joints do not move")
            continue
        with notes.errors_of(mimic):
            offset = number(mimic, "offset", "0", f"joint {name!r}")
            other = mimic.get("joint", "")
            if other not in robot.joints:
                notes.pass_over("mimic", f"joint {name!r}", mimic, "the joint that it names is not in the file")
                continue
            still = other in idle or (other in robot.joints and robot.joints[other].get("type") == "fixed")
            ratio = 0.0 if still else number(mimic, "multiplier", "1", f"joint {name!r}")
            couple(elements, f"{name} mimic", name, other, offset, ratio)
    sentences = notes.check()
    elements.forces[elements.unused_name("gravity")] = forces.Gravity(jnp.array(STANDARD_GRAVITY))
    return Model(
        elements.bodies,
        elements.constraints,
        elements.drivers,
        elements.forces,
        guess=elements.guess | _at_zero(links, elements),
        name=root.get("name", ""),
        limits=elements.limits,
        passed_over=sentences,
        frames=elements.ground_frames,
    )


def _ends_of(given) -> tuple[str, ...]:
    """Return the names of the links, or joints, that a loop connects."""
    if isinstance(given, AbstractConstraint):
        return given.i, given.j
    return tuple(given[:2]) if isinstance(given, tuple | list) else ()


def _pass_over_unknown(root: Element, notes: Notes) -> None:
    """Record the tags of the robot, its links and joints that are not read, and collisions."""
    for parent in (root, *root.findall("link"), *root.findall("joint"), *root.findall("link/inertial")):
        for child in parent:
            if child.tag == "collision":
                reason = "contacts are not simulated"
            elif child.tag not in KNOWN[parent.tag]:
                reason = "not mechanics, or not part of URDF"
            else:
                continue
            own = repr(child.get("name")) if child.get("name") else ""
            owner = own if parent is root else f"{parent.tag} {parent.get('name', '')!r}"
            notes.pass_over(child.tag, owner, child, reason)


def _rename_ground(root: Element) -> None:
    """Rename a link "ground", which is the name of the fixed frame, to "ground_"."""
    for path, attribute in (("link", "name"), ("joint/parent", "link"), ("joint/child", "link")):
        for element in root.findall(path):
            if element.get(attribute) == GROUND:
                element.set(attribute, f"{GROUND}_")


def _by_name(root: Element, tag: str, notes: Notes) -> dict[str, Element]:
    """Return the elements with a tag by name."""
    found: dict[str, Element] = {}
    for element in root.findall(tag):
        name = element.get("name", "")
        with notes.errors_of(element):
            if not name:
                raise ModelError(f"{tag}: a name is missing")
            if name in found:
                raise ModelError(f"{tag} {name!r}: two have this name")
            found[name] = element
    return found


class _Robot:
    """The links and joints of a robot.

    Attributes:
        links: elements of the links by name.
        joints: elements of the joints by name.
        parent_of: name of the parent of each joint.
        child_of: name of the child of each joint.
        leading: name of the joint that leads to each link, except roots.
    """

    def __init__(self, root: Element, notes: Notes, options: ReadOptions, closed: ClosedLoops):
        self.links, self.joints = _by_name(root, "link", notes), _by_name(root, "joint", notes)
        self.parent_of: dict[str, str] = {}
        self.child_of: dict[str, str] = {}
        self.leading: dict[str, str] = {}
        self._base = options.base
        self._parts: dict[str, tuple] = {}
        self._primitives: dict[str, tuple[PrimitiveJoint, ...]] = {}
        self._origins: dict[str, tuple] = {}
        for name, joint in self.joints.items():
            with notes.errors_of(joint):
                self._connect(name, joint)
                self._origins[name] = origin_of(joint, f"joint {name!r}")
                self._primitives[name] = closed.primitives(name, primitives_of(name, joint, notes, options.ignore))
        for name, link in self.links.items():
            with notes.errors_of(link):
                # A root called "world" is the ground, unless it is to move.
                fixed = name in FIXED_ROOTS and name not in self.leading and options.base != "free"
                self._parts[name] = NO_INERTIA if fixed else inertial_of(name, link, notes, options.ignore)
        if notes.has_errors:
            # Joints that could not be read would be missed again.
            return
        roots = [name for name in self.links if name not in self.leading]
        if len(roots) > 1:
            with notes.errors_of(self.links[roots[1]]):
                raise ModelError(
                    f"links {roots[0]!r} and {roots[1]!r}: no joint leads to either; there must be one root"
                )
        elif not roots and self.links:
            with notes.errors_of(root):
                names = ", ".join(map(repr, self.leading.values()))
                raise ModelError(f"joints {names}: form a loop without a root")

    def _connect(self, name: str, joint: Element) -> None:
        """Record the two links of a joint."""
        ends = []
        for tag in ("parent", "child"):
            end = joint.find(tag)
            link = "" if end is None else end.get("link", "")
            if link not in self.links:
                raise ModelError(f"joint {name!r}: {tag} {link!r} is not a link")
            ends.append(link)
        parent, child = ends
        if child in self.leading:
            raise ModelError(
                f"joints {self.leading[child]!r} and {name!r} both lead to link {child!r}: they form a loop, and URDF "
                "describes trees only; take one out and give it as loops={name: constraint}"
            )
        self.parent_of[name], self.child_of[name], self.leading[child] = parent, child, name

    def tree(self) -> list[Link]:
        """Return all links, parents before their children."""
        below: dict[str, list[str]] = {name: [] for name in self.links}
        for child, joint in self.leading.items():
            below[self.parent_of[joint]].append(child)
        done: list[Link] = []
        waiting = [name for name in self.links if name not in self.leading]
        while waiting:
            name = waiting.pop()
            waiting += below[name][::-1]
            joint = self.leading.get(name, "")
            if joint:
                r, a = self._origins[joint]
                done.append(Link(name, self.parent_of[joint], r, a, self._primitives[joint], *self._parts[name]))
            else:
                # A fixed root without mass is the ground: its inertia has no effect.
                parts = self._parts[name] if self._parts[name][0] or self._base == "free" else NO_INERTIA
                done.append(Link(name, GROUND, np.zeros(3), np.eye(3), (), *parts))
        reached = {link.name for link in done}
        circling = [self.leading[name] for name in self.links if name not in reached]
        if circling:
            raise ModelError(f"joints {', '.join(map(repr, circling))}: form a loop without a root")
        return done


def _on_base(links: list[Link], base: str | None) -> list[Link]:
    """Return the tree with its root free, or with the root and links that float on it fixed."""
    if base is None or not links:
        return links
    if base == "free":
        root = PrimitiveJoint(FREE, f"{links[0].name} free", np.zeros(3), np.eye(3)[0])
        return [dataclasses.replace(link, primitives=(root,)) if link is links[0] else link for link in links]
    at_root = {GROUND, links[0].name}

    def floats(link: Link) -> bool:
        """Return True for a link with a free joint to the ground or to the root."""
        return link.parent in at_root and any(joint.kind == FREE for joint in link.primitives)

    return [dataclasses.replace(link, primitives=()) if floats(link) else link for link in links]


def _fix_idle(links: list[Link], robot: _Robot, used: Collection[str], notes: Notes) -> tuple[list[Link], set[str]]:
    """Return the tree with moving links fixed that have no mass, carry none and close no loop; and their joints.

    A robot without any mass is left as it is: its kinematics may be of use.
    """
    if all(link.massless for link in links):
        return links, set()
    busy = {robot.child_of.get(name, name) for name in used}
    for link in reversed(links):
        if not link.massless or link.name in busy:
            busy |= {link.name, link.parent}
    idle = {link.name for link in links if link.name not in busy and link.primitives and link.name in robot.leading}
    for name in sorted(idle, key=list(robot.links).index):
        joint = robot.leading[name]
        notes.pass_over(
            "joint", repr(joint), robot.joints[joint], "it moves nothing that has a mass, and is held at zero"
        )
    fixed = [dataclasses.replace(link, primitives=()) if link.name in idle else link for link in links]
    return fixed, {robot.leading[name] for name in idle}


def _at_zero(links: Sequence[Link], elements: Elements) -> dict[str, np.ndarray]:
    """Return the coordinates of all bodies with all joints at zero."""
    frames = frames_at_zero(links)
    return {name: np.asarray(spatial.coordinates(frames[name].r, frames[name].a)) for name in elements.bodies}
