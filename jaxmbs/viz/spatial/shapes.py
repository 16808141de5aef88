"""Shapes of spatial pictures: solids fixed in a body, and solids stretched between points of two bodies.

Their points are in body frames. Stills, animations and web pages apply the poses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from jaxmbs.viz.spatial.meshes import Mesh

# Origins (F, 3) and rotation matrices (F, 3, 3) of bodies by name, in F configurations.
Poses = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Solid:
    """A surface with its points in the frame of a body."""

    body: str
    mesh: Mesh
    colour: str
    opacity: float = 1.0

    def world(self, poses: Poses) -> np.ndarray:
        """Return the points in the ground frame, (F, k, 3)."""
        return place(poses, self.body, self.mesh.points)


@dataclasses.dataclass(frozen=True)
class Span:
    """A surface between two points P and Q of two bodies.

    Attributes:
        ends: (body, point) for P and for Q.
        mesh: the surface, with points (a, b, λ) for the places P + λ (Q − P) + a e₁ + b e₂. The shortest rotation from z
            to the direction from P to Q takes x and y to e₁ and e₂.
    """

    ends: tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]
    mesh: Mesh
    colour: str
    opacity: float = 1.0

    def world(self, poses: Poses) -> np.ndarray:
        """Return the points in the ground frame, (F, k, 3)."""
        start, end = (place(poses, body, np.reshape(point, (1, 3))) for body, point in self.ends)
        line = end - start
        length = np.linalg.norm(line, axis=-1, keepdims=True)
        along = np.where(length > 0, line / np.where(length > 0, length, 1), [0.0, 0, 1])
        x, y, z = np.moveaxis(along[:, 0], -1, 0)
        bent = 1 / np.where(z > -1 + 1e-9, 1 + z, 1)
        first = np.stack([1 - x * x * bent, -x * y * bent, -x], axis=-1)
        second = np.stack([-x * y * bent, 1 - y * y * bent, -y], axis=-1)
        # Opposite to z the shortest rotation is not unique: half a turn about x.
        down = (z <= -1 + 1e-9)[:, None]
        first, second = np.where(down, [1.0, 0, 0], first), np.where(down, [0.0, -1, 0], second)
        a, b, part = (self.mesh.points[:, k, None] for k in range(3))
        return start + part * line + a * first[:, None] + b * second[:, None]


def place(poses: Poses, body: str, points) -> np.ndarray:
    """Return points (k, 3) of a body in the ground frame, (F, k, 3)."""
    origin, axes = poses[body]
    return origin[:, None] + np.einsum("fab,kb->fka", axes, np.asarray(points, float))
