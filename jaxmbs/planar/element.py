"""Base classes of planar elements, the geometry of a pair of bodies, and checks of arguments."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, MeasuredConstraint, require
from jaxmbs.mobility import Mobility
from jaxmbs.motion import AbstractMotion, Shifted
from jaxmbs.numerics.arrays import is_concrete
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


def angle_guide(mobility: Mobility, swapped: bool, motion: AbstractMotion, offset=0.0):
    """Return `AbstractConstraint.guide` for a driver that prescribes φ_j − φ_i = C(t) + offset."""
    if not isinstance(mobility.turning, Turn):
        return None
    neutral = 0.0 if mobility.neutral is None else mobility.neutral
    dtype = mobility.point_i.dtype
    sense = jnp.asarray(-1.0 if swapped else 1.0, dtype)
    return mobility.free_slides, Shifted(motion, sense, jnp.asarray(sense * offset - neutral, dtype))


class AbsoluteConstraint(PlanarConstraint):
    """A constraint between the ground and one body; the ground takes the place of body i."""

    body: str = eqx.field(static=True)

    @property
    def i(self) -> str:
        """Name of the ground, which takes the place of body i."""
        return GROUND

    @property
    def j(self) -> str:
        """Name of the constrained body."""
        return self.body


class RelativeConstraint(MeasuredConstraint, PlanarConstraint):
    """A measure between two bodies."""

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)


def separation(i: Pose, j: Pose, point_i, point_j) -> Float[Array, "2"]:
    """Return d_ij = r_j^P − r_i^P: from point_i on body i to point_j on body j, in the ground frame; Haug (3.3.9)."""
    return j.point(point_j) - i.point(point_i)


def square(v: Array) -> Float[Array, ""]:
    """Return vᵀv, the squared length of a vector."""
    return v @ v


def as_tuple(value) -> tuple:
    """Return (value,), or () if the value is None."""
    return () if value is None else (value,)


def without_points(values) -> tuple:
    """Return the values that are not vectors. Elements of angles accept points, like others, but do not use them."""
    return tuple(value for value in values if not is_vector(value))


def is_vector(value) -> bool:
    """Return True for a tuple, a list, or an array with one axis, of any length."""
    return isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1


def check_axis(name: str, axis) -> None:
    """Raise `ValueError` for an axis of no length: the two points that would define it coincide."""
    known = is_concrete(axis)
    require(not known or np.any(np.asarray(axis) != 0), f"{name} has no length: the two points that define it coincide")


def length(axis) -> Float[Array, ""]:
    """Return the length of a vector that is known not to vanish: where it does, the derivative is infinite."""
    return jnp.sqrt(square(jnp.asarray(axis)))
