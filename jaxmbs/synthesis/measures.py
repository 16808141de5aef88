"""Measures that `fit` compares with its targets: a point, a pose, an output. Equal measures share compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from jaxmbs.numerics import rotation
from jaxmbs.synthesis.common import positive_number, rows_of_numbers, spread_of
from jaxmbs.system.mechanism import Mechanism


@dataclass(frozen=True)
class PointMeasure:
    """The place of a point of a body in the ground frame, as a measure for `fit`; `at` is as for `point`."""

    body: str
    at: Any

    def coordinates(self, design) -> Array:
        """Return the point's coordinates (d,) in the frame of the body."""
        if callable(self.at):
            return self.at(design)
        if not isinstance(self.at, str):
            return jnp.asarray(self.at)
        if not isinstance(design, Mapping) or self.at not in design:
            raise ValueError(f"point is {self.at!r}, but the design has no such entry")
        return design[self.at]

    def __call__(self, design, mech: Mechanism, q) -> Array:
        """Return the place (d,) of the point in the ground frame."""
        return mech.point(q, self.body, self.coordinates(design))


@dataclass(frozen=True)
class PoseMeasure:
    """The position and orientation of a body, as a measure for `fit`; see `pose`."""

    body: str
    angle_length: float | None

    def with_targets(self, poses) -> tuple[PoseMeasure, np.ndarray]:
        """Return the measure with a known angle length, and its values (K, d) at poses (K, 3), in space (K, 7)."""
        poses = rows_of_numbers("targets", poses, "poses: x, y, angle, shape (K, 3); in space (K, 7)", (3, 7))
        dimension = 2 if poses.shape[1] == 3 else 3
        places, turns = poses[:, :dimension], poses[:, dimension:]
        if self.angle_length is None:
            length = spread_of(places) or 1.0
        else:
            length = positive_number("angle_length", self.angle_length)
        if dimension == 2:
            axes = np.column_stack([np.cos(turns), np.sin(turns)])
        else:
            turns = turns / np.linalg.norm(turns, axis=1, keepdims=True)
            axes = np.array([np.asarray(rotation.matrix(p)).T.ravel() for p in turns]) / np.sqrt(2)
        return PoseMeasure(self.body, length), np.column_stack([places, length * axes])

    def __call__(self, design, mech: Mechanism, q) -> Array:
        """Return the values (4,), in space (12,): position of the body's origin, and its axes as for `pose`."""
        assert self.angle_length is not None
        body_pose, dimension = mech.layout.pose(self.body, q), mech.layout.dimension
        # For an angle φ the three axes change by 2√2 sin(φ/2) together, the one axis of the plane by 2 sin(φ/2).
        count, weight = (1, self.angle_length) if dimension == 2 else (3, self.angle_length / np.sqrt(2))
        axes = [weight * body_pose.direction(e) for e in jnp.eye(dimension)[:count]]
        return jnp.concatenate([body_pose.point(jnp.zeros(dimension)), *axes])


@dataclass(frozen=True)
class OutputMeasure:
    """A coordinate by name, or a function of (design, mechanism, configuration), as a measure for `fit`."""

    of: str | Callable

    def __post_init__(self):
        if not (isinstance(self.of, str) or callable(self.of)):
            raise ValueError(f"measure must be a function, or the name of a coordinate, got {self.of!r}")

    def __call__(self, design, mech: Mechanism, q) -> Array:
        """Return the coordinate as an array (1,), or the values (d,) of the function."""
        value = q[mech.layout.index(self.of)] if isinstance(self.of, str) else self.of(design, mech, q)
        return jnp.atleast_1d(value)


def point(body: str, at: ArrayLike | Sequence[float] | str | Callable[[Any], Array]) -> PointMeasure:
    """Return a measure for `fit`: the place of a point of a body, in the plane or in space.

    Args:
        body: name of the body.
        at: coordinates (d,) of the point in the frame of the body: numbers, the name of an entry of the design, or a
            function of the design.

    Returns:
        A function of (design, mechanism, q) that returns the place (d,) in the ground frame.

    Examples:
        >>> end = mbs.synthesis.point("rod", (1.5, 0))
        >>> print(end(None, mech, mech.coordinates(guess)))
        [2.5 0. ]
    """
    return PointMeasure(body, at if isinstance(at, str) or callable(at) else tuple(np.asarray(at, float).tolist()))


def pose(body: str, angle_length: float | None = None) -> PoseMeasure:
    """Return a measure for `fit`: the position of a body's origin and the orientation of the body.

    Targets are poses x, y, φ (K, 3), in space the position of the origin and Euler parameters (K, 7). The error is
    Σ ‖r_k − r*_k‖² + L² (2 sin(Δφ_k/2))², Δφ being the angle between pose and target. The values are x, y, L cos φ,
    L sin φ, in space x, y, z and the three axes of the body times L/√2.

    Args:
        body: name of the body.
        angle_length: L, positive; by default the root mean square distance of the target positions from their centre.

    Returns:
        A function of (design, mechanism, q) that returns the values, lengths: (4,) in the plane, (12,) in space.

    Examples:
        >>> print(mbs.synthesis.pose("rod", angle_length=2.0)(None, mech, mech.coordinates(guess)))
        [1. 0. 2. 0.]
    """
    return PoseMeasure(body, angle_length)
