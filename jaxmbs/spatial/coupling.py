"""Coordinates of several joints that depend on each other: gearboxes, mimicking joints, tendons."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.numerics import rotation
from jaxmbs.numerics.arrays import real
from jaxmbs.spatial.element import SpatialConstraint
from jaxmbs.spatial.frame import check_frame
from jaxmbs.spatial.joints import angle_row

# Kind of a coordinate that is the angle of a hinge.
ANGLE = "angle"
# Kind of a coordinate that is the displacement of a slide.
SLIDE = "slide"


class JointCoupling(SpatialConstraint):
    """Coordinates x_k of joints, which need not have bodies in common, satisfy Σ_k p_k(x_k) = 0 with polynomials p_k.

    Φ has 2 sin((φ_k − x_k) / 2) for each angle φ_k, whose x_k is an extra coordinate "phi_k" so that any number of turns
    counts, then Σ_k p_k(x_k), where x_k of a slide is the advance of its point_j from its point_i. The coupling does not
    hold the bodies on their joints: other constraints must do that.

    Args:
        i, j: names of the bodies of the first joint.
        others: names of the bodies of the further joints: i and j of the second one, then of the third one, and so on.
        kinds: "angle" or "slide" for each joint.
        coefficients: (joints, powers), the coefficients of p_k by ascending powers, from the constant on.
        frames_i, frames_j: (joints, 3, 3), the joint frames in the bodies, as `frame_i` and `frame_j` of `Revolute`: the
            third column is the axis.
        points_i, points_j: (joints, 3), points of the joints in the bodies; only those of slides count. The origins
            unless given.

    Examples:
        >>> half = spatial.JointCoupling("ground", "a", ("ground", "b"), ("angle", "slide"), ((0, 1), (0, -2)))
        >>> mech = mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, {"half": half})
        >>> q = {"a": spatial.coordinates(rotated=(0, 0, 0.5)), "b": spatial.coordinates((0, 0, 0.2)), "half": 0.5}
        >>> print(mbs.constraints(mech, q).round(6))  # the second one is 0.5 − 2 · 0.2
        [-0.   0.1]
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    others: tuple[str, ...] = eqx.field(static=True)  # type: ignore[misc]
    kinds: tuple[str, ...] = eqx.field(static=True)
    coefficients: Array = real((None, None))
    frames_i: Array = real((None, 3, 3))
    frames_j: Array = real((None, 3, 3))
    points_i: Array = real((None, 3))
    points_j: Array = real((None, 3))
    length_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, i, j, others, kinds, coefficients, frames_i=None, frames_j=None, points_i=None, points_j=None):
        self.i, self.j, self.others, self.kinds = i, j, tuple(others), tuple(kinds)
        self.coefficients = coefficients
        axes: Any = np.tile(np.eye(3), (len(self.kinds), 1, 1))
        origins: Any = np.zeros((len(self.kinds), 3))
        self.frames_i = axes if frames_i is None else frames_i
        self.frames_j = axes if frames_j is None else frames_j
        self.points_i = origins if points_i is None else points_i
        self.points_j = origins if points_j is None else points_j

    @property
    def rows(self) -> int:  # type: ignore[override]
        """Length of Φ: one row for each angle, and one for the sum."""
        return len(self.extra) + 1

    @property
    def extra(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the extra coordinates: "phi_1" for the angle of the first joint."""
        return tuple(f"phi_{k + 1}" for k, kind in enumerate(self.kinds) if kind == ANGLE)

    def residual(self, i, j, t, *poses_and_angles) -> Float[Array, " rows"]:
        """Return Φ: the equation of each angle, then Σ_k p_k(x_k), for the poses of all bodies and extra coordinates."""
        del t
        count = len(self.others)
        poses, angles = (i, j, *poses_and_angles[:count]), iter(poses_and_angles[count:])
        rows, total = [], jnp.zeros((), i.r.dtype)
        for k, kind in enumerate(self.kinds):
            on, of, a, b = poses[2 * k], poses[2 * k + 1], self.frames_i[k], self.frames_j[k]
            if kind == ANGLE:
                x = next(angles)
                rows.append(angle_row(on.relative(of, rotation.from_matrix(a), rotation.from_matrix(b)), x))
            else:
                x = on.direction(a[:, 2]) @ (of.point(self.points_j[k]) - on.point(self.points_i[k]))
            value = jnp.zeros((), i.r.dtype)
            for power in reversed(range(self.coefficients.shape[1])):
                value = value * x + self.coefficients[k, power]
            total = total + value
        return jnp.stack([*rows, total])

    def check(self):
        """Raise `ValueError` for kinds, bodies or numbers that do not fit each other, or frames that are no rotations."""
        super().check()
        joints = len(self.kinds)
        require(joints > 0 and set(self.kinds) <= {ANGLE, SLIDE}, 'kinds must be "angle" or "slide" for each joint')
        require(
            len(self.others) == 2 * joints - 2,
            f"others must have {2 * joints - 2} bodies, two for each joint after the first, got {len(self.others)}",
        )
        for name in ("coefficients", "frames_i", "frames_j", "points_i", "points_j"):
            given = len(getattr(self, name))
            require(given == joints, f"{name} must have a row for each of the {joints} joints, got {given}")
        for k in range(joints):
            check_frame(f"frames_i of joint {k + 1}", self.frames_i[k])
            check_frame(f"frames_j of joint {k + 1}", self.frames_j[k])
