"""What `fit` compares with its targets: a point, a pose, an output. Equal measures are the same to compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from jaxmbs.numerics import rotation
from jaxmbs.synthesis.common import positive, spread_of, table
from jaxmbs.system.mechanism import Mechanism


@dataclass(frozen=True)
class Point:
    """Where a point of a body is; see `point`."""

    body: str
    at: Any

    def place(self, design) -> Array:
        """Its coordinates in the frame of the body."""
        if callable(self.at):
            return self.at(design)
        if not isinstance(self.at, str):
            return jnp.asarray(self.at)
        if not isinstance(design, Mapping) or self.at not in design:
            raise ValueError(f"point is {self.at!r} of the design, which has no such entry")
        return design[self.at]

    def __call__(self, design, mech: Mechanism, q) -> Array:
        return mech.point(q, self.body, self.place(design))


@dataclass(frozen=True)
class Pose:
    """Where a body is and how it is turned; see `pose`."""

    body: str
    angle_length: float | None

    def aimed_at(self, poses) -> tuple[Pose, np.ndarray]:
        """The measure with its length, and what it should be at poses (K, 3) of the plane or (K, 7) of space."""
        poses = table("targets", poses, "poses: x, y, angle, shape (K, 3); in space (K, 7)", (3, 7))
        dimension = 2 if poses.shape[1] == 3 else 3
        places, turns = poses[:, :dimension], poses[:, dimension:]
        length = spread_of(places) or 1.0 if self.angle_length is None else positive("angle_length", self.angle_length)
        if dimension == 2:
            axes = np.column_stack([np.cos(turns), np.sin(turns)])
        else:
            axes = np.array([np.asarray(rotation.matrix(p)).T.ravel() for p in turns / _norms(turns)]) / np.sqrt(2)
        return Pose(self.body, length), np.column_stack([places, length * axes])

    def __call__(self, design, mech: Mechanism, q) -> Array:
        assert self.angle_length is not None
        where, dimension = mech.layout.pose(self.body, q), mech.layout.dimension
        # Three axes turn by 2√2 sin(φ/2) together, in the plane two numbers by 2 sin(φ/2): the same weight for an angle.
        count, weight = (1, self.angle_length) if dimension == 2 else (3, self.angle_length / np.sqrt(2))
        axes = [weight * where.direction(e) for e in jnp.eye(dimension)[:count]]
        return jnp.concatenate([where.point(jnp.zeros(dimension)), *axes])


def _norms(rows) -> np.ndarray:
    return np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass(frozen=True)
class Output:
    """A number of the configuration: a coordinate by name, or a function of design, mechanism and configuration."""

    of: str | Callable

    def __post_init__(self):
        if not (isinstance(self.of, str) or callable(self.of)):
            raise ValueError(f"measure must be a function, or the name of a coordinate, got {self.of!r}")

    def __call__(self, design, mech: Mechanism, q) -> Array:
        value = q[mech.layout.index(self.of)] if isinstance(self.of, str) else self.of(design, mech, q)
        return jnp.atleast_1d(value)


def point(body: str, at: ArrayLike | Sequence[float] | str | Callable[[Any], Array]) -> Point:
    """A measure for `fit`: where a point of a body is, in the plane or in space.

    Args:
        body: name of the body.
        at: its coordinates (d,) in the frame of the body: numbers, the name of an entry of the design, or a function of
            the design.

    Examples:
        >>> end = mbs.synthesis.point("rod", (1.5, 0))
        >>> print(end(None, mech, mech.coordinates(guess)))
        [2.5 0. ]
    """
    return Point(body, at if isinstance(at, str) or callable(at) else tuple(np.asarray(at, float).tolist()))


def pose(body: str, angle_length: float | None = None) -> Pose:
    """A measure for `fit`: where the origin of a body is, and how the body is turned.

    Targets are poses x, y, φ (K, 3), in space the place of the origin and Euler parameters (K, 7). The error is
    Σ ‖r_k − r*_k‖² + L² (2 sin(Δφ_k/2))² with the angle Δφ between the two. The values are x, y, L cos φ, L sin φ, in space
    x, y, z and the three axes of the body times L/√2.

    Args:
        body: name of the body.
        angle_length: L, positive; by default the positions' root mean square distance from their centre.

    Examples:
        >>> print(mbs.synthesis.pose("rod", angle_length=2.0)(None, mech, mech.coordinates(guess)))
        [1. 0. 2. 0.]
    """
    return Pose(body, angle_length)
