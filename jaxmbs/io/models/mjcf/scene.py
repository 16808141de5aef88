"""What has been written of a model, and what that needs to know."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.inertias import Moves, Weight, inertias_seen
from jaxmbs.io.models.links.tree import HINGE, SLIDE, Place
from jaxmbs.io.models.mjcf.outgoing import Hinged, in_space, numbers, quaternion
from jaxmbs.io.models.model import Model, ModelError
from jaxmbs.system.topology import ROOT, Tree


class Carried(NamedTuple):
    """A joint of MuJoCo in the tree: how it moves, and what is written."""

    step: Hinged
    anchor: np.ndarray
    element: Element


class Scene(NamedTuple):
    """What has been written.

    Attributes:
        start: q. places: of the bodies there. elements: of the bodies. joints: of each joint of the tree. controls: of
            the actuators.
    """

    model: Model
    tree: Tree
    start: Any
    places: dict[str, Place]
    root: Element
    elements: dict[str, Element]
    joints: dict[str, list[Carried]]
    option: Element
    controls: list[float]

    def section(self, tag: str) -> Element:
        """A part of the file."""
        found = self.root.find(tag)
        return SubElement(self.root, tag) if found is None else found

    def add_site(self, body: str, name: str, point, axes=None) -> None:
        """Mark a point of a body, given in its frame."""
        turned: Any = {} if axes is None else {"quat": quaternion(axes)}
        SubElement(self.elements[body], "site", name=name, pos=numbers(point), **turned)

    def single(self, joint: str, called: str) -> Carried:
        """The only hinge or slide of a joint of the tree.

        Raises:
            ModelError: it is no such joint, for what is `called` so.
        """
        carried = self.joints.get(joint, [])
        if len(carried) != 1 or carried[0].step.kind not in (HINGE, SLIDE):
            raise ModelError(f"{called}: MJCF has it in single hinges and slides of the tree only")
        return carried[0]

    def inertia_seen(self, wanted: Carried) -> float:
        """What inertia a hinge or slide of the tree sees."""
        tree, found = self.tree, 0
        moves: list[Moves] = []
        path: dict[str, tuple[int, ...]] = {GROUND: ()}
        weights = []
        for k, name in enumerate(tree.bodies):
            joint, place, body = tree.joints[k], self.places[name], self.model.bodies[name]
            parent = GROUND if tree.parents[k] == ROOT else tree.bodies[tree.parents[k]]
            begin = len(moves)
            if joint is None:
                moves += _floating(place, body.dimension)
            else:
                for carried in self.joints[joint]:
                    found = len(moves) if carried is wanted else found
                    moves += _moves(carried)
            path[name] = path[parent] + tuple(range(begin, len(moves)))
            inertia = np.asarray(body.inertia, float)
            inertia = inertia * np.eye(3) if inertia.ndim == 0 else inertia
            com = place.point(in_space(body.com))
            weights.append(Weight(float(body.mass), com, place.a @ inertia @ place.a.T, path[name]))
        return float(inertias_seen(weights, moves)[found])


def _floating(place: Place, dimension: int) -> list[Moves]:
    zero, axes = np.zeros(3), np.eye(3)
    slides = [Moves(zero, axis, zero) for axis in axes[:dimension]]
    return slides + [Moves(axis, zero, place.r) for axis in (axes if dimension == 3 else axes[2:])]


def _moves(carried: Carried) -> list[Moves]:
    axis, zero = carried.step.axis, np.zeros(3)
    if axis is None:
        return [Moves(unit, zero, carried.anchor) for unit in np.eye(3)]
    turns = carried.step.kind == HINGE
    armature = float(carried.element.get("armature", "0"))
    return [Moves(axis if turns else zero, zero if turns else axis, carried.anchor, armature)]
