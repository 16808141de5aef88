"""Base classes of planar elements, the geometry of a pair of bodies, and checks of arguments."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, require
from jaxmbs.mobility import Mobility
from jaxmbs.motion import AbstractMotion, Shifted
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.planar.body import Pose
from jaxmbs.planar.turning import Turn

# Default of points in the frames of planar bodies.
ORIGIN = (0.0, 0.0)


class PlanarConstraint(AbstractConstraint):
    """A constraint between two bodies `i` and `j` of the plane."""

    dimension: ClassVar[int] = 2

    def relative(self, *, angles, swapped=False):
        """Return the mobility of j on i as if no joint connected them: x and y along the axes of i, then the angle."""
        del angles
        origin = np.zeros(2)
        points = (jnp.asarray(getattr(self, name, origin)) for name in ("point_i", "point_j"))
        first, second = reversed(list(points)) if swapped else points
        return Mobility(first, second, jnp.eye(2, dtype=first.dtype), Turn())


def angle_guide(
    mobility: Mobility, swapped: bool, motion: AbstractMotion, offset=0.0
) -> tuple[int, AbstractMotion] | None:
    """Return the index of a joint's angle and the motion prescribed for it by a driver φ_j − φ_i = C(t) + offset.

    None if the joint, with this mobility, has no angle. `swapped` is True if the driver's body i is the joint's body j.
    """
    if not isinstance(mobility.turning, Turn):
        return None
    neutral = 0.0 if mobility.neutral is None else mobility.neutral
    dtype = mobility.point_i.dtype
    sense = jnp.asarray(-1.0 if swapped else 1.0, dtype)
    return mobility.free_slides, Shifted(motion, sense, jnp.asarray(sense * offset - neutral, dtype))


class AbsoluteConstraint(PlanarConstraint):
    """A constraint between the ground, as body i, and one `body`, as body j."""

    body: str = eqx.field(static=True)

    @property
    def i(self) -> str:
        """Name of the ground, which is body i."""
        return GROUND

    @property
    def j(self) -> str:
        """Name of the constrained body, which is body j."""
        return self.body


class Points(PlanarConstraint):
    """A constraint between a point of one body and a point of another, often with an axis through a point.

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
    """

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array = real((2,))
    point_j: Array = real((2,))

    def separation(self, i: Pose, j: Pose) -> Float[Array, "2"]:
        """Return d_ij = r_j^P − r_i^P, the vector from point_i to point_j, in the ground frame; Haug (3.3.9)."""
        return j.point(self.point_j) - i.point(self.point_i)

    def check(self):
        """Raise `ValueError` for wrong shapes, or for an `axis_i` or `axis_j` without length."""
        super().check()
        for name in ("axis_i", "axis_j"):
            axis = getattr(self, name, None)
            known = axis is not None and is_concrete(axis)
            require(
                not known or np.any(np.asarray(axis) != 0),
                f"{name} has no length: the two points that define it coincide",
            )


def square(v: Array) -> Float[Array, ""]:
    """Return vᵀv, the squared length of a vector."""
    return v @ v


def as_tuple(value) -> tuple:
    """Return (value,), or () if the value is None."""
    return () if value is None else (value,)


def without_points(values) -> tuple:
    """Return the values that are no points: elements of angles accept points, like other elements, but ignore them."""
    return tuple(value for value in values if not is_vector(value))


def is_vector(value) -> bool:
    """Return True for a tuple, a list, or an array with one axis, of any length."""
    return isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1


def length(axis) -> Float[Array, ""]:
    """Return the length of a vector, which must not be zero: the derivative would be infinite."""
    return jnp.sqrt(square(jnp.asarray(axis)))
