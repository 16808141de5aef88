"""Constraints between a body and the ground, Haug 3.2."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from jaxtyping import Array

from jaxmbs.element import LENGTH_FIELDS, MeasuredConstraint, check_positive, warn_renamed
from jaxmbs.numerics.arrays import as_real, real
from jaxmbs.planar.element import ORIGIN, AbsoluteConstraint, as_tuple, square, without_points


class PointCoordinate(MeasuredConstraint, AbsoluteConstraint):
    """A measure: x^P or y^P of a point of a body, in the ground frame.

    Attributes:
        component: 0 for x, 1 for y.
    """

    point: Array = real((2,))
    component: ClassVar[int]
    length_fields: ClassVar[tuple[str, ...]] = (*LENGTH_FIELDS, "value")

    def measure(self, i, j):
        """Return x or y of the point of body j in the ground frame; i is the ground."""
        return j.point(self.point)[self.component]


class Angle(MeasuredConstraint, AbsoluteConstraint):
    """A measure: φ of a body."""

    def measure(self, i, j):
        """Return the angle φ of body j, with all turns; i is the ground."""
        return j.phi


class KeptValue(MeasuredConstraint):
    """A measured quantity keeps its `value`."""

    value: Array = real(default=0.0)

    def prescribed(self, t):
        """Return the value that the quantity keeps."""
        return self.value


class AbsoluteX(KeptValue, PointCoordinate):
    """A point of a body keeps its x coordinate: Φ = x^P − C₁; Haug (3.2.3).

    Args:
        body: name of the body.
        point: P in the body frame.
        value: C₁ in the ground frame.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"wall": planar.AbsoluteX("a", (1, 0), 0.5)})
        >>> print(mbs.constraints(mech, {"a": (2, 0, 0)}))
        [2.5]
    """

    component: ClassVar[int] = 0


class AbsoluteY(KeptValue, PointCoordinate):
    """A point of a body keeps its y coordinate: Φ = y^P − C₂; Haug (3.2.4).

    Args:
        body: name of the body.
        point: P in the body frame.
        value: C₂ in the ground frame.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"floor": planar.AbsoluteY("a", (1, 0), 0.5)})
        >>> print(mbs.constraints(mech, {"a": (0, 2, jnp.pi / 2)}))
        [2.5]
    """

    component: ClassVar[int] = 1


class AbsoluteAngle(KeptValue, Angle):
    """A body keeps its angle: Φ = φ − C₃; Haug (3.2.6).

    Args:
        body: name of the body.
        value: C₃ in radians.
        point: has no effect; it is accepted, also before the value, as in `AbsoluteX`.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"level": planar.AbsoluteAngle("a", 0.25)})
        >>> print(mbs.constraints(mech, {"a": (0, 0, 1)}))
        [0.75]
    """

    def __init__(self, body, *point_and_value, point=ORIGIN, value=None):
        self.body = body
        # A point without a value is stored as the value, so that `check` refuses it.
        (self.value,) = without_points((*point_and_value, point, *as_tuple(value))) or point_and_value[-1:] or (0.0,)


class AbsoluteDistance(MeasuredConstraint, AbsoluteConstraint):
    """A point of a body stays on a circle: Φ = ‖r^P − C‖² − C₃²; Haug (3.2.1).

    Args:
        body: name of the body.
        point: P in the body frame.
        centre: C in the ground frame. If `distance` is missing: C₃, for a circle about the origin, or (C₁, C₂, C₃).
        distance: C₃, positive. With zero, Φ would replace two constraints, and its Jacobian would vanish.
        value: another name for `centre`.
        center: the old name of `centre`, which is deprecated.

    Examples:
        >>> rope = planar.AbsoluteDistance("a", (0, 0), (0, 3), 4.0)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"rope": rope})
        >>> print(mbs.constraints(mech, {"a": (4, 0, 0)}))  # 5² − 4²
        [9.]
    """

    point: Array = real((2,))
    centre: Array = real((2,))
    distance: Array = real()

    def __init__(self, body, point, centre=(0.0, 0.0), distance=None, *, value=None, center=None):
        if center is not None:
            warn_renamed("center", "centre")
            centre = center
        value = centre if value is None else value
        if distance is None:
            value = as_real(value)
            centre, distance = (value[:2], value[2]) if np.shape(value) == (3,) else ((0.0, 0.0), value)
        self.body, self.point, self.centre, self.distance = body, point, centre, distance

    @property
    def center(self) -> Array:
        """Deprecated name of `centre`."""
        warn_renamed("center", "centre")
        return self.centre

    def measure(self, i, j):
        """Return the squared distance of the point of body j from the centre."""
        return square(j.point(self.point) - self.centre)

    def prescribed(self, t):
        """Return C₃², the squared distance."""
        return self.distance**2

    def check(self):
        """Raise `ValueError` for wrong shapes, or a distance that is not positive."""
        super().check()
        check_positive(self, "distance")
