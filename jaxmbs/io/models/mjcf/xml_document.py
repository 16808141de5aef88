"""The MJCF document of a model while it is written."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import BodyInertia, UnitMotion, motion_inertias, unit_motions
from jaxmbs.io.models.links.tree import FREE, HINGE, SLIDE, LinkFrame
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

    def inertia_at(self, joint_of_tree: WrittenJoint) -> float:
        """Return the inertia, or mass, at a hinge or slide of the tree."""
        tree, index = self.tree, 0
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
                    index = len(motions) if written is joint_of_tree else index
                    armature = float(written.element.get("armature", "0"))
                    motions += unit_motions(written.primitive.kind, written.anchor, written.primitive.axis, armature)
            path[name] = path[self.parent(k)] + tuple(range(begin, len(motions)))
            com, inertia = place.point(in_space(body.com)), inertia_matrix(body)
            bodies.append(BodyInertia(float(body.mass), com, place.a @ inertia @ place.a.T, path[name]))
        return float(motion_inertias(bodies, motions)[index])


def inertia_matrix(body) -> np.ndarray:
    """Return the inertia of a planar or spatial body about its centre of mass as a matrix (3, 3)."""
    inertia = np.asarray(body.inertia, float)
    return inertia * np.eye(3) if inertia.ndim == 0 else inertia
