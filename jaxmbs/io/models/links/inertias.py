"""Inertias that joints see: 1 / (M⁻¹)ₖₖ of the mass matrix M in the coordinates of the joints, with loops left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import BALL, FREE, SLIDE, Link, Matrix, Vector, frames_at_zero
from jaxmbs.io.models.model import ModelError


class BodyInertia(NamedTuple):
    """The inertia of a body, and the motions that move it.

    Attributes:
        mass: its mass.
        com: its centre of mass in the ground frame, (3,).
        inertia: its inertia about the centre of mass in the ground frame, (3, 3).
        motions: indices of the motions that move it.
    """

    mass: float
    com: Vector
    inertia: Matrix
    motions: tuple[int, ...]


class UnitMotion(NamedTuple):
    """A motion of one degree of freedom at rate 1: ω and the velocity of a point, in the ground frame, each (3,)."""

    omega: Vector
    velocity: Vector
    point: Vector
    armature: float = 0.0


def inverse_masses(bodies: Sequence[BodyInertia], motions: Sequence[UnitMotion]) -> np.ndarray:
    """Return M⁻¹ (k, k) of k motions, with zeros for motions that move no mass.

    1 / (M⁻¹)ₖₖ is the inertia, or mass, that a force along motion k moves while all others are free.

    Raises:
        ModelError: masses, inertias and lengths are so large that it is not finite.
    """
    # Bodies whose motions begin with the same one are a tree of their own.
    trees: dict[int, list[BodyInertia]] = {}
    for body in bodies:
        if body.motions:
            trees.setdefault(body.motions[0], []).append(body)
    found = np.zeros((len(motions), len(motions)))
    for tree in trees.values():
        index = sorted({k for body in tree for k in body.motions})
        place = {k: row for row, k in enumerate(index)}
        matrix = np.diag([motions[k].armature for k in index]).astype(float)
        for body in tree:
            own, rows = [motions[k] for k in body.motions], [place[k] for k in body.motions]
            with np.errstate(over="ignore", invalid="ignore"):
                turning = np.stack([motion.omega for motion in own], axis=1)
                at_com = [motion.velocity + np.cross(motion.omega, body.com - motion.point) for motion in own]
                going = np.stack(at_com, axis=1)
                part = body.mass * going.T @ going + turning.T @ body.inertia @ turning
                matrix[np.ix_(rows, rows)] += part
        # With infinities LAPACK may not end.
        if not np.isfinite(matrix).all():
            raise ModelError("masses, inertias and lengths are too large: the inertia at a joint is not finite")
        found[np.ix_(index, index)] = np.linalg.pinv(matrix)
    return found


def joint_inertias(links: Sequence[Link]) -> dict[str, float]:
    """Return the inertia, or mass, at each joint of a tree, all at zero; parents come before children.

    That of a ball or a free joint is the one of its first unit motion.
    """
    frames = frames_at_zero(links)
    path: dict[str, tuple[int, ...]] = {GROUND: ()}
    motions: list[UnitMotion] = []
    indices: dict[str, int] = {}
    bodies = []
    for link in links:
        frame, a = frames[link.name], frames[link.name].a
        path[link.name] = path[link.parent]
        for primitive in link.primitives:
            indices[primitive.name] = len(motions)
            more = unit_motions(primitive.kind, frame.point(primitive.point), a @ primitive.axis, primitive.armature)
            path[link.name] += tuple(range(len(motions), len(motions) + len(more)))
            motions += more
        axes = a if link.principal is None else a @ link.principal
        inertia = np.asarray(link.inertia, float)
        inertia = np.diag(inertia) if inertia.ndim == 1 else inertia
        bodies.append(BodyInertia(link.mass, frame.point(link.com), axes @ inertia @ axes.T, path[link.name]))
    with np.errstate(divide="ignore"):
        inertias = 1 / np.diag(inverse_masses(bodies, motions))
    return {name: float(inertias[k]) for name, k in indices.items()}


def unit_motions(kind: str, point: Vector, axis: Vector = None, armature: float = 0.0) -> list[UnitMotion]:
    """Return the motions of a primitive joint from a point of it and its axis in the ground frame.

    A ball has the turns about x, y and z, a free joint the translations along them and then these turns.
    """
    zero = np.zeros(3)
    turns = [UnitMotion(unit, zero, point, armature) for unit in np.eye(3)]
    if kind == FREE:
        return [*(UnitMotion(zero, unit, point, armature) for unit in np.eye(3)), *turns]
    if kind == BALL:
        return turns
    omega, velocity = (zero, axis) if kind == SLIDE else (axis, zero)
    return [UnitMotion(omega, velocity, point, armature)]
