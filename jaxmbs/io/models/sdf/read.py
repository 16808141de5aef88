"""Reading of SDF: links of all models of a file, gravity, loops."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import jax.numpy as jnp
import numpy as np

from jaxmbs import forces, spatial
from jaxmbs.element import GROUND
from jaxmbs.io.models.links.couplings import couple
from jaxmbs.io.models.links.elements import Elements, elements_of
from jaxmbs.io.models.links.loops import add_loop_joint, add_loops, close_at_frames
from jaxmbs.io.models.links.tree import FREE, Link, LinkFrame, PrimitiveJoint, frames_at_zero
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.io.models.notes import Notes
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.io.models.possible_inertia import possible_inertia
from jaxmbs.io.models.sdf.joints import SdfJoint, gear_of, joint_of_element, tree_of
from jaxmbs.io.models.sdf.poses import HERE, WORLD, Frames, Place, number_of, own_place, text_of, vector_of, version_of
from jaxmbs.io.models.urdf.parts import NO_INERTIA
from jaxmbs.io.models.xml_lines import parse_xml

# Words that `ignore` of `load` may name: these elements are left out; with "inertia" impossible inertias are replaced by
# the nearest possible ones without mention.
IGNORABLE = ("collision", "damping", "friction", "inertia", "limit")
# Tags of SDF that are read or say nothing about the mechanism, by tag of their parent; all others are reported as passed
# over.
KNOWN = {
    "sdf": {"world", "model"},
    "world": {
        "model", "gravity", "light", "scene", "physics", "gui", "atmosphere", "spherical_coordinates", "magnetic_field",
        "audio",
    },
    "model": {
        "link", "joint", "frame", "pose", "static", "self_collide", "allow_auto_disable", "enable_wind", "sensor",
    },
    "link": {
        "pose", "inertial", "visual", "self_collide", "enable_wind", "sensor", "light", "must_be_base_link", "contact",
        "gravity",
    },
    "joint": {
        "pose", "parent", "child", "axis", "axis2", "physics", "sensor", "gearbox_ratio", "gearbox_reference_body",
        "thread_pitch", "screw_thread_pitch",
    },
}  # fmt: skip
# Reasons for tags that are passed over and mean something to a mechanism.
REASONS = {
    "collision": "contacts are not simulated",
    "include": "other files are not read",
    "kinematic": "links move as forces and joints determine",
    "model": "models within models are not read",
    "plugin": "plugins are not run",
    "state": "the model starts in the poses of its links",
    "velocity_decay": "links have no damping of their own",
    "wind": "there is no medium",
}
# Settings that change nothing while they are zero, false or left out.
OFF_BY_DEFAULT = ("kinematic", "velocity_decay", "wind")
# Zero as a number of XML.
ZERO = r"[+-]?0*\.?0*(e[+-]?\d+)?"
# Acceleration of gravity in m/s² where a file has no tag `gravity`; the default of SDF.
GRAVITY = "0 0 -9.8"


def read_sdf(path: Path, options: ReadOptions) -> Model:
    """Return the model of an SDF file with all its models, at rest in the poses of the file; see `load`.

    - A link becomes a `spatial.Body` with the frame of the link. revolute, prismatic, ball, universal, fixed and screw
      become `Revolute`, `Prismatic`, `Spherical`, `Universal`, `Rigid` and `Screw`; a gearbox couples two hinges.
    - Joints may form loops: those that lead to a link that is carried already are constraints like the others, but
      without stops.
    - A link without a joint to a parent floats; those of static models are the ground. base="fixed" fixes the
      first link that no joint carries, in each model without a joint to the world; base="free" leaves out joints to the
      world.
    - A link without mass that is fixed to another becomes a frame of it, as do the frames of the file that are attached to
      links.
    - If there are several models, names are those of the model and of the part, "arm::hand".
    - Limits, springs, dampers and dry friction are those of URDF. Effort and velocity limits are left out.

    Raises:
        ModelError: malformed elements, all in one message, with their lines.
    """
    root = parse_xml(Path(path).read_bytes())
    if root.tag != "sdf":
        raise ModelError(f"the root of an SDF must be <sdf>, got <{root.tag}>")
    notes = Notes(options)
    notes.check_ignore(root, IGNORABLE)
    world = root.find("world")
    scene = root if world is None else world
    _pass_over_unknown(root, scene, notes)
    models = scene.findall("model")
    named = [_SdfModel(model, len(models) > 1, version_of(root), notes, options) for model in models]
    with notes.errors_of(root):
        gravity = vector_of(scene, "gravity", GRAVITY, "gravity")
    notes.check()
    links = [link for model in named for link in model.links]
    elements = elements_of(
        links, range_tag="limit", ignore=options.ignore, passed_over=notes.passed_over, keep_moving=True
    )
    if not elements.bodies:
        raise ModelError("sdf: is scenery without a moving body: no link has a mass or moves")
    for model in named:
        model.close(elements, notes)
    add_loops(elements, options.loops, {})
    sentences = notes.check()
    if np.any(gravity):
        elements.forces[elements.unused_name("gravity")] = forces.Gravity(jnp.array(gravity))
    places = frames_at_zero(links)
    at_zero = {name: np.asarray(spatial.coordinates(places[name].r, places[name].a)) for name in elements.bodies}
    more = {name: frame for model in named for name, frame in model.frames(elements).items()}
    title = models[0].get("name", "") if len(models) == 1 else scene.get("name", "")
    return Model(
        elements.bodies,
        elements.constraints,
        elements.drivers,
        elements.forces,
        guess=elements.guess | at_zero,
        name=title,
        limits=elements.limits,
        passed_over=sentences,
        frames=more | elements.ground_frames,
    )


def _pass_over_unknown(root: Element, scene: Element, notes: Notes) -> None:
    """Record the tags that are not read."""
    parents = [*dict.fromkeys((root, scene)), *scene.findall("model")]
    parents += [part for model in scene.findall("model") for part in (*model.findall("link"), *model.findall("joint"))]
    for parent in parents:
        for child in parent:
            if child.tag not in KNOWN[parent.tag] and not _is_off(child):
                reason = REASONS.get(child.tag, "not mechanics, or not part of SDF")
                owner = f"{parent.tag} {parent.get('name', '')!r}"
                own = child.get("name") and child.tag != "collision"
                notes.pass_over(child.tag, repr(child.get("name")) if own else owner, child, reason)


def _is_off(element: Element) -> bool:
    """Return True for a setting whose default is off, if all its values are zero, false or left out."""
    words = [word for part in element.iter() for word in (part.text or "").lower().split()]
    return element.tag in OFF_BY_DEFAULT and all(word == "false" or re.fullmatch(ZERO, word) for word in words)


class _SdfModel:
    """A model of a file.

    Attributes:
        links: its links, parents before their children.
    """

    def __init__(self, model: Element, qualified: bool, version: tuple[int, ...], notes: Notes, options: ReadOptions):
        self._prefix = f"{model.get('name', '')}::" if qualified else ""
        self._model, self._frames = model, Frames(model)
        self._joints: dict[str, SdfJoint] = {}
        self._place = HERE
        self._options, self._notes = options, notes
        self._parts: dict[str, tuple[Place, float, Any, Any]] = {}
        with notes.errors_of(model):
            self._place = own_place(model, f"model {model.get('name', '')!r}")
        for element in model.findall("link"):
            with notes.errors_of(element):
                self._add_link(element)
        for element in model.findall("joint"):
            with notes.errors_of(element):
                self._add_joint(element, version)
        self.links: list[Link] = []
        notes.check()
        self._tree = tree_of(list(self._parts), list(self._joints.values()))
        static = text_of(model, "static").lower() in ("1", "true")
        for name, joint in self._tree.items():
            self.links.append(self._link(name, joint, static))

    def _name(self, name: str) -> str:
        """Return the name in the mechanism of a link."""
        return f"{self._prefix}{name}" if name != GROUND else f"{self._prefix}{GROUND}_"

    def _add_link(self, element: Element) -> None:
        """Read a link."""
        name = element.get("name", "")
        where = f"link {name!r}"
        if not name or name in self._parts:
            raise ModelError(f"{where}: two have this name" if name else "link: a name is missing")
        if text_of(element, "gravity").lower() in ("0", "false"):
            self._notes.pass_over("gravity", where, element.find("gravity"), "gravity acts on all bodies")
        inertial, place = element.find("inertial"), self._frames.place(name, where)
        self._parts[name] = place, 0.0, np.zeros(3), np.zeros((3, 3))
        if inertial is not None and inertial.get("auto", "false") not in ("0", "false"):
            raise ModelError(f"{where}: inertial auto: masses are not computed from shapes; give mass and inertia")
        at = own_place(inertial, where)
        mass = number_of(inertial, "mass", 1.0, where)
        if mass < 0:
            raise ModelError(f"{where}: mass must not be negative, got {mass}")
        given = None if inertial is None else inertial.find("inertia")
        keys = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        xx, yy, zz, xy, xz, yz = (number_of(given, key, float(key in keys[:3]), where) for key in keys)
        inertia = at.a @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ at.a.T
        anyway = "inertia" in self._options.ignore
        possible = possible_inertia((inertia + inertia.T) / 2, mass, where, at_any_cost=anyway)
        if possible.change:
            self._notes.pass_over("inertia", where, given, possible.reason)
        self._parts[name] = place, mass, at.r, possible.inertia

    def _add_joint(self, element: Element, version: tuple[int, ...]) -> None:
        """Read a joint, unless it is one to the world and the base is to be free."""
        name = element.get("name", "")
        if not name or name in self._joints:
            raise ModelError(f"joint {name!r}: two have this name" if name else "joint: a name is missing")
        full = f"{self._prefix}{name}"
        joint = joint_of_element(element, full, self._frames, version, self._notes, self._options.ignore)
        if joint.parent == joint.child:
            raise ModelError(f"joint {name!r}: connects {joint.child or WORLD!r} with itself")
        if self._options.base != "free" or (joint.parent and joint.child):
            self._joints[name] = joint

    def _link(self, name: str, joint: SdfJoint | None, static: bool) -> Link:
        """Return a link on its parent in the tree; a root floats unless it is fixed."""
        place, *inertial = self._parts[name]
        if static:
            return Link(self._name(name), GROUND, *self._place.of(place), (), *NO_INERTIA)
        if joint is not None:
            at = place.seen_from(self._parent_place(joint))
            parent = self._name(joint.parent) if joint.parent else GROUND
            return Link(self._name(name), parent, *at, joint.primitives, *inertial)
        held = self._options.base == "fixed" and not self.links
        free = () if held else (PrimitiveJoint(FREE, f"{self._name(name)} free", np.zeros(3), np.eye(3)[0]),)
        return Link(self._name(name), GROUND, *self._place.of(place), free, *inertial)

    def _parent_place(self, joint: SdfJoint) -> Place:
        """Return the place of the parent of a joint in the frame of the model."""
        return self._parts[joint.parent][0] if joint.parent else HERE.seen_from(self._place)

    def close(self, elements: Elements, notes: Notes) -> None:
        """Add the joints that close loops, and turn those with a pitch into screws; couple gears."""
        carrying = {joint.name for joint in self._tree.values() if joint is not None}
        for joint in self._joints.values():
            with notes.errors_of(joint.element):
                if joint.kind == "gearbox":
                    continue
                if joint.name not in carrying:
                    self._close(elements, joint, notes)
                if joint.kind == "screw":
                    self._make_screw(elements, joint)
        for joint in self._joints.values():
            if joint.kind == "gearbox":
                with notes.errors_of(joint.element):
                    self._couple(elements, joint)

    def _close(self, elements: Elements, joint: SdfJoint, notes: Notes) -> None:
        """Add a joint that closes a loop."""
        world = HERE.seen_from(self._place)
        places = [self._parts[end][0] if end else world for end in (joint.parent, joint.child)]
        ends = [self._name(end) if end else GROUND for end in (joint.parent, joint.child)]
        at = places[1].seen_from(places[0])
        for primitive in joint.primitives:
            if primitive.limits is not None:
                reason = "a joint that closes a loop has no stops"
                notes.pass_over("limit", f"joint {joint.name!r}", joint.element, reason)
        if joint.primitives:
            add_loop_joint(elements, Link(ends[1], ends[0], *at, joint.primitives, *NO_INERTIA))
            return
        above, own = (elements.place(end, f"joint {joint.name!r}") for end in ends)
        first = LinkFrame(above.body, above.point(at.r), above.a @ at.a)
        close_at_frames(elements, joint.name, first, own, "rigid")

    def _make_screw(self, elements: Elements, joint: SdfJoint) -> None:
        """Replace a cylindrical joint by a screw."""
        for name in (joint.name, "+".join(primitive.name for primitive in joint.primitives)):
            found = elements.constraints.get(name)
            if isinstance(found, spatial.Cylindrical):
                given = {key: getattr(found, key) for key in ("i", "j", "point_i", "point_j", "axis_i", "axis_j")}
                frames = {key: getattr(found, key) for key in ("frame_i", "frame_j")}
                changed = {
                    (joint.name if key == name else key): (
                        spatial.Screw(**given, **frames, pitch=joint.pitch) if key == name else value
                    )
                    for key, value in elements.constraints.items()
                }
                elements.constraints.clear()
                elements.constraints.update(changed)
                return

    def _couple(self, elements: Elements, joint: SdfJoint) -> None:
        """Couple the two hinges of a gearbox: θ₂ = −ratio θ₁."""
        where = f"joint {joint.name!r}"
        reference = text_of(joint.element, "gearbox_reference_body")
        body = self._frames.link_of(reference, where)
        ratio = number_of(joint.element, "gearbox_ratio", 1.0, where)
        first, second = gear_of(joint, self._joints, body, where)
        signs = [1 if hinge.parent == body else -1 for hinge in (first, second)]
        along = [
            np.sign(self._axis(joint, tag) @ self._axis(h, "axis")) for h, tag in ((first, "axis"), (second, "axis2"))
        ]
        sign = signs[0] * signs[1] * (along[0] or 1) * (along[1] or 1)
        couple(elements, joint.name, second.name, first.name, 0.0, -ratio * sign)

    def _axis(self, joint: SdfJoint, tag: str) -> np.ndarray:
        """Return an axis of a joint as it is written."""
        axis = joint.element.find(tag) if joint.element.find(tag) is not None else joint.element.find("axis")
        return vector_of(axis, "xyz", "0 0 1", f"joint {joint.name!r}")

    def frames(self, elements: Elements) -> dict[str, tuple[str, Any, Any]]:
        """Return the frames of the file that are attached to links: body, origin and axes by name."""
        found = {}
        for element in self._model.findall("frame"):
            name, where = element.get("name", ""), f"frame {element.get('name', '')!r}"
            try:
                link = self._frames.link_of(name, where)
                at = self._frames.place(name, where).seen_from(self._parts[link][0])
            except (ModelError, KeyError):
                continue
            place = elements.place(self._name(link), where)
            found[f"{self._prefix}{name}"] = (place.body, place.point(at.r), place.a @ at.a)
        return found
