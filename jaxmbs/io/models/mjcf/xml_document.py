"""The MJCF document of a model while it is written."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import BodyInertia, UnitMotion, motion_inertias
from jaxmbs.io.models.links.tree import HINGE, SLIDE, LinkFrame
from jaxmbs.io.models.mjcf.outgoing import MujocoJoint, in_space, numbers, quaternion
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.system.topology import ROOT, Tree


class WrittenJoint(NamedTuple):
    """A joint of MuJoCo in the tree.

    Attributes:
        primitive: its motion.
        anchor: its point in the ground frame, (3,).
        element: its XML.
    """

    primitive: MujocoJoint
    anchor: np.ndarray
    element: Element


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
            raise ModelError(f"{owner}: MJCF has it in single hinges and slides of the tree only")
        return written[0]

    def inertia_at(self, joint_of_tree: WrittenJoint) -> float:
        """Return the inertia, or mass, at a hinge or slide of the tree."""
        tree, index = self.tree, 0
        motions: list[UnitMotion] = []
        path: dict[str, tuple[int, ...]] = {GROUND: ()}
        bodies = []
        for k, name in enumerate(tree.bodies):
            joint, place, body = tree.joints[k], self.places[name], self.model.bodies[name]
            parent = GROUND if tree.parents[k] == ROOT else tree.bodies[tree.parents[k]]
            begin = len(motions)
            if joint is None:
                motions += _floating(place, body.dimension)
            else:
                for written in self.joints[joint]:
                    index = len(motions) if written is joint_of_tree else index
                    motions += _motions(written)
            path[name] = path[parent] + tuple(range(begin, len(motions)))
            inertia = np.asarray(body.inertia, float)
            inertia = inertia * np.eye(3) if inertia.ndim == 0 else inertia
            com = place.point(in_space(body.com))
            bodies.append(BodyInertia(float(body.mass), com, place.a @ inertia @ place.a.T, path[name]))
        return float(motion_inertias(bodies, motions)[index])


def _floating(place: LinkFrame, dimension: int) -> list[UnitMotion]:
    """Return the motions of a body that floats."""
    zero, axes = np.zeros(3), np.eye(3)
    slides = [UnitMotion(zero, axis, zero) for axis in axes[:dimension]]
    return slides + [UnitMotion(axis, zero, place.r) for axis in (axes if dimension == 3 else axes[2:])]


def _motions(joint: WrittenJoint) -> list[UnitMotion]:
    """Return the motions of a joint of MuJoCo."""
    axis, zero = joint.primitive.axis, np.zeros(3)
    if axis is None:
        return [UnitMotion(unit, zero, joint.anchor) for unit in np.eye(3)]
    turns = joint.primitive.kind == HINGE
    armature = float(joint.element.get("armature", "0"))
    return [UnitMotion(axis if turns else zero, zero if turns else axis, joint.anchor, armature)]
