"""Records of an assembly, which both formats of FreeCAD are read into."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxmbs.io.models.links.tree import LinkFrame, Matrix, Vector
from jaxmbs.io.models.model import ModelError

# Largest entry of AᵀA − I of a rotation matrix in a file; smaller errors are removed.
MAX_ROTATION_ERROR = 1e-4
# Most names of elements in a sentence on what is not represented.
MAX_LISTED = 3


class Part(NamedTuple):
    """A rigid part.

    Attributes:
        name: its name.
        r: its origin in the frame of the assembly, (3,).
        a: its axes there, (3, 3).
        mass: its mass.
        moments: principal moments of inertia, (3,), or the inertia matrix, (3, 3), about the centre of mass.
        com: its centre of mass in its frame, (3,).
        axes: the axes of `moments` in its frame, (3, 3); None for those of the part.
        velocity: of its origin, in the frame of the assembly, (3,).
        omega: its angular velocity in the frame of the assembly, (3,).
    """

    name: str
    r: Vector
    a: Matrix
    mass: float = 1.0
    moments: np.ndarray = np.ones(3)
    com: Vector = np.zeros(3)
    axes: Matrix | None = None
    velocity: Vector = np.zeros(3)
    omega: Vector = np.zeros(3)


class Joint(NamedTuple):
    """A joint between markers, which are frames of parts or of the ground.

    Attributes:
        name: its name.
        kind: kind of the solver's joint, such as "Revolute".
        i: marker on the first part.
        j: marker on the second part.
        size: distance, offset, angle in radians, pitch, or radius of a pinion or of the first gear.
        other_size: radius of the second gear.
    """

    name: str
    kind: str
    i: LinkFrame
    j: LinkFrame
    size: float = 0.0
    other_size: float = 0.0


class Motion(NamedTuple):
    """A prescribed motion between two markers.

    Attributes:
        name: its name.
        kind: "Rotational", "Translational" or "General".
        i: marker on the first part.
        j: marker on the second part.
        formulas: one formula, or for a general motion those of three positions and three angles.
        order: axes 1, 2, 3 of the three angles.
    """

    name: str
    kind: str
    i: LinkFrame
    j: LinkFrame
    formulas: tuple[str, ...]
    order: tuple[int, ...] = (1, 2, 3)


class Limit(NamedTuple):
    """A bound of the turn or the advance of a joint: `value` in radians or units of length, lower or upper."""

    joint: str
    kind: str
    value: float
    is_lower: bool


class Assembly(NamedTuple):
    """Parts and joints of an assembly; the ground is its frame.

    Attributes:
        name: its name.
        unit: its unit of length.
        parts: the parts by name.
        joints: the joints.
        motions: the motions.
        limits: the limits.
        gravity: acceleration of gravity, (3,).
        passed_over: names of elements that are not represented, by kind and reason.
    """

    name: str
    unit: str
    parts: dict[str, Part]
    joints: list[Joint]
    motions: list[Motion]
    limits: list[Limit]
    gravity: Vector
    passed_over: dict[tuple[str, str], list[str]]


def nearest_rotation(a: Matrix, owner: str) -> Matrix:
    """Return the rotation matrix nearest to a matrix; raise `ModelError` with the owner if it is far from one."""
    if np.abs(a.T @ a - np.eye(3)).max() > MAX_ROTATION_ERROR or np.linalg.det(a) < 0:
        raise ModelError(f"{owner}: the rotation matrix must have three right-handed orthonormal axes")
    u, _, v = np.linalg.svd(a)
    return u @ v


def compose(outer: LinkFrame, inner: LinkFrame) -> LinkFrame:
    """Return a frame that is given in another frame, in the body of that."""
    return LinkFrame(outer.body, outer.point(inner.r), outer.a @ inner.a)


def pass_over(assembly: Assembly, kind: str, name: str, strict: bool, why: str = "is not represented") -> None:
    """Note an element that is not represented; raise `ModelError` with its name in strict mode."""
    if strict:
        raise ModelError(f"{kind} {name!r}: {why}")
    assembly.passed_over.setdefault((kind, why), []).append(name)


def sentences(assembly: Assembly) -> list[str]:
    """Return a sentence for each kind of element that is not represented, with the first names."""
    found = []
    for (kind, why), names in assembly.passed_over.items():
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        found.append(f"{kind} {', '.join(map(repr, names[:MAX_LISTED]))}{more}: {why}")
    return found
