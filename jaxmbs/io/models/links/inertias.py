"""What inertia a joint sees: 1 / (M⁻¹)ₖₖ of the mass matrix in the coordinates of the joints, loops left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.io.models.links.tree import BALL, FREE, SLIDE, Link, Matrix, Step, Vector
from jaxmbs.io.models.model import ModelError


class Weight(NamedTuple):
    """A body and what moves it.

    Attributes:
        mass, com, inertia: the centre of mass, and the matrix about it, in the frame of the ground.
        moves: numbers of the motions that move it.
    """

    mass: float
    com: Vector
    inertia: Matrix
    moves: tuple[int, ...]


class Moves(NamedTuple):
    """A motion of one degree of freedom: ω (3,), and the velocity (3,) of a point (3,), in the frame of the ground."""

    omega: Vector
    velocity: Vector
    point: Vector
    armature: float = 0.0


def inertias_seen(weights: Sequence[Weight], moves: Sequence[Moves]) -> np.ndarray:
    """What inertia each of the motions sees where all others are free: J, or a mass. Shape (k,)."""
    matrix = np.diag([move.armature for move in moves]).astype(float)
    for weight in weights:
        own = [moves[k] for k in weight.moves]
        if own:
            with np.errstate(over="ignore", invalid="ignore"):
                turning = np.stack([move.omega for move in own], axis=1)
                at_com = [move.velocity + np.cross(move.omega, weight.com - move.point) for move in own]
                going = np.stack(at_com, axis=1)
                part = weight.mass * going.T @ going + turning.T @ weight.inertia @ turning
                matrix[np.ix_(weight.moves, weight.moves)] += part
    # Of infinities LAPACK may look for singular values without end.
    if not np.isfinite(matrix).all():
        raise ModelError("masses, inertias and lengths are too large: the inertia that a joint sees is not finite")
    return 1 / np.diag(np.linalg.pinv(matrix))


def of_links(links: Sequence[Link]) -> dict[str, float]:
    """What inertia each hinge and slide of a tree sees with all of them at zero; parents come before their children."""
    places = {GROUND: (np.zeros(3), np.eye(3))}
    path: dict[str, tuple[int, ...]] = {GROUND: ()}
    moves: list[Moves] = []
    numbers: dict[str, int] = {}
    weights = []
    for link in links:
        r, a = places[link.parent]
        r, a = r + a @ link.r, a @ link.a
        places[link.name], path[link.name] = (r, a), path[link.parent]
        for step in link.steps:
            numbers[step.name] = len(moves)
            more = _moves(step, r, a)
            path[link.name] += tuple(range(len(moves), len(moves) + len(more)))
            moves += more
        axes = a if link.principal is None else a @ link.principal
        inertia = np.asarray(link.inertia, float)
        inertia = np.diag(inertia) if inertia.ndim == 1 else inertia
        weights.append(Weight(link.mass, r + a @ link.com, axes @ inertia @ axes.T, path[link.name]))
    seen = inertias_seen(weights, moves)
    return {name: float(seen[k]) for name, k in numbers.items()}


def _moves(step: Step, r: Vector, a: Matrix) -> list[Moves]:
    point, zero = r + a @ step.point, np.zeros(3)
    turns = [Moves(axis, zero, point) for axis in np.eye(3)]
    if step.kind == FREE:
        return [*(Moves(zero, axis, r) for axis in np.eye(3)), *turns]
    if step.kind == BALL:
        return turns
    axis = a @ step.axis
    omega, velocity = (zero, axis) if step.kind == SLIDE else (axis, zero)
    return [Moves(omega, velocity, point, step.armature)]
