"""Constraints between the coordinates of points on two bodies, Haug 3.3.1."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array

from jaxmbs.element import LENGTH_FIELDS, MeasuredConstraint, check_positive
from jaxmbs.numerics.arrays import real
from jaxmbs.planar.element import ORIGIN, PlanarConstraint, Points, as_tuple, square, without_points


class Separation(MeasuredConstraint, Points):
    """A measure: x_j^P − x_i^P or y_j^P − y_i^P of two points, in the ground frame.

    Attributes:
        component: 0 for x, 1 for y.
    """

    component: ClassVar[int]
    length_fields: ClassVar[tuple[str, ...]] = (*LENGTH_FIELDS, "offset")

    def measure(self, i, j):
        """Return x or y of the vector from point_i to point_j in the ground frame."""
        return self.separation(i, j)[self.component]


class SquaredDistance(MeasuredConstraint, Points):
    """A measure: d_ijᵀ d_ij, the squared distance of two points."""

    def measure(self, i, j):
        """Return d_ijᵀ d_ij, the squared distance from point_i to point_j."""
        return square(self.separation(i, j))


class AngleBetween(MeasuredConstraint, PlanarConstraint):
    """A measure: φ_j − φ_i."""

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)

    def measure(self, i, j):
        """Return φ_j − φ_i, with all turns."""
        return j.phi - i.phi


class KeptOffset(MeasuredConstraint):
    """A measured quantity keeps the value `offset`."""

    offset: Array = real(default=0.0)

    def prescribed(self, t):
        """Return the value that the quantity keeps."""
        return self.offset


class RelativeX(KeptOffset, Separation):
    """Two points keep their difference in x: Φ = x_j^P − x_i^P − C₁; Haug (3.3.1).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames; the origins unless given.
        offset: C₁, in the ground frame.

    Examples:
        >>> bodies = {"a": planar.Body(), "b": planar.Body()}
        >>> mech = mbs.Mechanism(bodies, {"gap": planar.RelativeX("a", "b", (1, 0), (0, 0), offset=0.5)})
        >>> print(mbs.constraints(mech, {"a": (0, 0, 0), "b": (3, 1, 0)}))
        [1.5]
    """

    point_i: Array = real((2,), default=ORIGIN)
    point_j: Array = real((2,), default=ORIGIN)
    component: ClassVar[int] = 0


class RelativeY(KeptOffset, Separation):
    """Two points keep their difference in y: Φ = y_j^P − y_i^P − C₂; Haug (3.3.3).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames; the origins unless given.
        offset: C₂, in the ground frame.

    Examples:
        >>> bodies = {"a": planar.Body(), "b": planar.Body()}
        >>> mech = mbs.Mechanism(bodies, {"gap": planar.RelativeY("a", "b", (1, 0), (0, 0), offset=0.5)})
        >>> print(mbs.constraints(mech, {"a": (0, 0, 0), "b": (3, 1, 0)}))
        [0.5]
    """

    point_i: Array = real((2,), default=ORIGIN)
    point_j: Array = real((2,), default=ORIGIN)
    component: ClassVar[int] = 1


class RelativeAngle(KeptOffset, AngleBetween):
    """Two bodies keep their relative angle: Φ = φ_j − φ_i − C₃; Haug (3.3.5).

    Args:
        i, j: names of the bodies. Points may follow, as in other elements; this one does not use them.
        offset: C₃ in radians.

    Examples:
        >>> bodies = {"a": planar.Body(), "b": planar.Body()}
        >>> mech = mbs.Mechanism(bodies, {"weld": planar.RelativeAngle("a", "b", 0.25)})
        >>> print(mbs.constraints(mech, {"a": (0, 0, 0.5), "b": (0, 0, 1)}))
        [0.25]
    """

    def __init__(self, i, j, *points_and_offset, offset=None):
        self.i, self.j = i, j
        # Points without an offset are stored as the offset, so that `check` refuses them.
        (self.offset,) = without_points((*points_and_offset, *as_tuple(offset))) or points_and_offset[-1:] or (0.0,)


class Distance(SquaredDistance):
    """Two points keep their distance: Φ = d_ijᵀ d_ij − C²; Haug (3.3.7), also the revolute–revolute coupler (3.3.15).

    d_ij is the vector from point_i to point_j.

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        distance: C, positive. For points that coincide use a `Revolute`.

    Examples:
        >>> rod = planar.Distance("ground", "a", (0, 0), (0, 0), distance=4.0)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"rod": rod})
        >>> print(mbs.constraints(mech, {"a": (3, 4, 0)}))  # 5² − 4²
        [9.]
    """

    distance: Array = real()

    def prescribed(self, t):
        """Return C², the squared distance."""
        return self.distance**2

    def check(self):
        """Raise `ValueError` for wrong shapes, or a distance that is not positive."""
        super().check()
        check_positive(self, "distance")
