"""The MJCF document of a model while it is written."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import BodyInertia, UnitMotion, inverse_masses, unit_motions
from jaxmbs.io.models.links.tree import FREE, HINGE, SLIDE, LinkFrame
from jaxmbs.io.models.mjcf.outgoing import MujocoJoint, in_space, numbers, quaternion
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.system.topology import ROOT, Tree

# Two axes count as parallel if the absolute cosine of their angle differs from 1 by less than this.
MAX_AXIS_ERROR = 1e-9
# Two points count as one if no coordinate differs by more than this, in units of length.
MAX_POINT_ERROR = 1e-9


class WrittenJoint(NamedTuple):
    """A joint of MuJoCo in the tree, or a fixed tendon in place of one.

    Attributes:
        primitive: its motion.
        anchor: its point in the ground frame, (3,).
        element: its XML.
        shift: MuJoCo's coordinate minus that of the model; zero except for tendons.
    """

    primitive: MujocoJoint
    anchor: np.ndarray
    element: Element
    shift: float = 0.0

    @property
    def is_tendon(self) -> bool:
        """True for a slide that stands for the length of a fixed tendon."""
        return self.element.tag == "fixed"


class Document(NamedTuple):
    """The MJCF document of a model.

    Attributes:
        model: the model.
        tree: its spanning tree.
        start: its configuration q, (n,).
        places: frames of the bodies in this configuration, in the ground frame.
        root: XML of the document.
        elements: XML of the bodies.
        joints: the joints of MuJoCo for each joint of the tree.
        option: XML of the options.
        controls: controls of the actuators.
        carriers: for bodies still to be added the indices of massless bodies that carry only them.
    """

    model: Model
    tree: Tree
    start: Any
    places: dict[str, LinkFrame]
    root: Element
    elements: dict[str, Element]
    joints: dict[str, list[WrittenJoint]]
    option: Element
    controls: list[float]
    carriers: dict[str, list[int]]

    def parent(self, k: int) -> str:
        """Return the name of the parent of body k of the tree."""
        parent = self.tree.parents[k]
        return GROUND if parent == ROOT else self.tree.bodies[parent]

    def section(self, tag: str) -> Element:
        """Return the section of the document with a tag."""
        found = self.root.find(tag)
        return SubElement(self.root, tag) if found is None else found

    def add_site(self, body: str, name: str, point, axes=None) -> None:
        """Add a site at a point of a body, given in its frame."""
        turned: Any = {} if axes is None else {"quat": quaternion(axes)}
        SubElement(self.elements[body], "site", name=name, pos=numbers(point), **turned)

    def single(self, joint: str, owner: str) -> WrittenJoint:
        """Return the only hinge or slide of a joint; raise `ModelError`, which names the owner, if there is none."""
        written = self.joints.get(joint, [])
        if len(written) != 1 or written[0].primitive.kind not in (HINGE, SLIDE):
            raise ModelError(
                f"{owner}: MJCF can describe this only for a joint of the tree that is a single hinge or slide; "
                f"{joint!r} is not one"
            )
        return written[0]

    def joint_along(self, ends: tuple[str, str], kind: str, axis, owner: str, point=None) -> tuple[WrittenJoint, float]:
        """Return the hinge or slide between two bodies along an axis, and ±1 for its sense.

        A force in a slide acts at `point` of the second body.

        Raises:
            ModelError: there is none; the message names the owner.
        """
        for k, name in enumerate(self.tree.joints):
            if name is None:
                continue
            joint: Any = self.model.constraints[name]
            if {joint.i, joint.j} != set(ends):
                continue
            written = self.joints[name]
            hinges = sum(c.primitive.kind != SLIDE for c in written)
            # With a hinge in the same joint only the displacement of the anchor is that of the slide.
            swung = point is not None and np.abs(point - written[0].anchor).max() > MAX_POINT_ERROR
            if hinges > 1 or (kind == SLIDE and hinges and (swung or joint.i != ends[0])):
                continue
            turned = -1 if self.tree.reversed[k] else 1
            for one in written:
                if one.primitive.kind == kind and one.primitive.axis is not None:
                    sense = turned * float(one.primitive.axis @ axis) * (1 if joint.i == ends[0] else -1)
                    if abs(abs(sense) - 1) < MAX_AXIS_ERROR:
                        return one, float(np.sign(sense))
        raise ModelError(f"{owner}: MJCF has this only for a {kind} of the tree along its axis")

    def inertia_at(self, joint_of_tree: WrittenJoint) -> float:
        """Return the inertia, or mass, at a hinge or slide of the tree, or along a fixed tendon."""
        tree, columns = self.tree, {}
        motions: list[UnitMotion] = []
        path: dict[str, tuple[int, ...]] = {GROUND: ()}
        bodies = []
        for k, name in enumerate(tree.bodies):
            joint, place, body = tree.joints[k], self.places[name], self.model.bodies[name]
            begin = len(motions)
            if joint is None:
                floating = unit_motions(FREE, place.r)
                motions += floating if body.dimension == 3 else [floating[i] for i in (0, 1, 5)]
            else:
                for written in self.joints[joint]:
                    columns[written.element.get("name", "")] = len(motions)
                    armature = float(written.element.get("armature", "0"))
                    motions += unit_motions(written.primitive.kind, written.anchor, written.primitive.axis, armature)
            path[name] = path[self.parent(k)] + tuple(range(begin, len(motions)))
            com, inertia = place.point(in_space(body.com)), inertia_matrix(body)
            bodies.append(BodyInertia(float(body.mass), com, place.a @ inertia @ place.a.T, path[name]))
        inverse = inverse_masses(bodies, motions)
        if not joint_of_tree.is_tendon:
            k = columns[joint_of_tree.element.get("name", "")]
            return float(1 / inverse[k, k])

        def along(tendon: Element) -> np.ndarray:
            """Return the rates of the length of a fixed tendon for unit motions."""
            found = np.zeros(len(motions))
            for part in tendon:
                found[columns[part.get("joint", "")]] += float(part.get("coef", "0"))
            return found

        for tendon in self.section("tendon").findall("fixed"):
            armature, moved = float(tendon.get("armature", "0")), inverse @ along(tendon)
            # Sherman-Morrison: the inverse of a matrix to which armature · along ⊗ along is added.
            inverse -= armature * np.outer(moved, moved) / (1 + armature * along(tendon) @ moved)
        rates = along(joint_of_tree.element)
        return float(1 / (rates @ inverse @ rates))


def inertia_matrix(body) -> np.ndarray:
    """Return the inertia of a planar or spatial body about its centre of mass as a matrix (3, 3)."""
    inertia = np.asarray(body.inertia, float)
    return inertia * np.eye(3) if inertia.ndim == 0 else inertia
