"""Joints of space that are not lower pairs: universal, distances, screw."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import MeasuredConstraint, Shared, check_positive, require
from jaxmbs.mobility import Mobility
from jaxmbs.numerics import rotation
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.spatial.element import ORIGIN, Frames, Points, unit
from jaxmbs.spatial.pairs import orientation_rows, position_rows
from jaxmbs.spatial.turning import TwoTurns

# Default of the arm of a universal joint's cross in the frame of body i.
X = (1.0, 0.0, 0.0)
# Default of the arm of a universal joint's cross in the frame of body j.
Y = (0.0, 1.0, 0.0)
# Arms of a cross count as parallel, in frames of parallel bodies, if the sine of the angle between them is below this.
MAX_PARALLEL_SINE = 1e-3


class Universal(Points):
    """Hooke's or Cardan joint: Φ = (d_ij, a_iᵀ a_j). 4 equations.

    The centres coincide, and the arms of the cross, one on each body, stay perpendicular. The joint does not transmit
    angular velocity evenly; see `ConstantVelocity`.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centre of the cross in the body frames.
        axis_i, axis_j: the arm of the cross in each body frame; x and y unless given.

    Examples:
        >>> mech = mbs.Mechanism({"shaft": spatial.Body()}, {"cross": spatial.Universal("ground", "shaft")})
        >>> shaft = spatial.coordinates((0.5, 0, 0), rotated=(0, 0, jnp.pi / 6))
        >>> print(mbs.constraints(mech, {"shaft": shaft}).round(6))
        [ 0.5  0.   0.  -0.5]
    """

    axis_i: Array = real((3,), default=X)
    axis_j: Array = real((3,), default=Y)
    rows: ClassVar[int] = 4
    # The bodies turn about both arms of the cross.
    freedom: ClassVar[int] = 2

    @property
    def mobility(self):
        """Relative coordinates: α about the arm on body i, then β about the other arm, which turns with α."""
        first, second = unit(self.axis_i), unit(self.axis_j)
        # With both angles zero, body j is as nearly parallel to body i as the arms allow.
        across = second - first * (first @ second)
        parallel = across @ across < MAX_PARALLEL_SINE**2
        across = unit(jnp.where(parallel, rotation.matrix(rotation.along(first))[:, 0], across))
        neutral = rotation.inverse(rotation.between(across, second))
        return Mobility(self.point_i, self.point_j, turning=TwoTurns(first, across), neutral=neutral)

    @property
    def shared(self):
        """The centre of the cross, as a point of both bodies. Row 3 of Φ, that of the arms, does not follow from it."""
        return Shared(points=((self.point_i, self.point_j),), rows=(3,))

    def residual(self, i, j, t):
        """Return Φ (4,): the vector d_ij in the ground frame, and the cosine of the angle between the arms."""
        cosine = i.direction(unit(self.axis_i)) @ j.direction(unit(self.axis_j))
        return jnp.append(self.separation(i, j), cosine)


class SquaredDistance(MeasuredConstraint, Points):
    """A measure: d_ijᵀ d_ij of two points, one on each body."""

    def measure(self, i, j):
        """Return d_ijᵀ d_ij, the squared distance from point_i to point_j."""
        d = self.separation(i, j)
        return d @ d


class Distance(SquaredDistance):
    """Two points keep their distance: Φ = d_ijᵀ d_ij − C². 1 equation.

    Args:
        i, j: names of the bodies.
        point_i, point_j: the points in their body frames.
        distance: C, positive. For points that coincide use a `Spherical`.

    Examples:
        >>> rod = spatial.Distance("ground", "a", (0, 0, 0), (0, 0, 0), distance=4.0)
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, {"rod": rod})
        >>> print(mbs.constraints(mech, {"a": spatial.coordinates((3, 4, 0))}))  # 5² − 4²
        [9.]
    """

    distance: Array = real(default=np.nan)

    def prescribed(self, t):
        """Return C², the squared distance."""
        return self.distance**2

    def check(self):
        """Raise `ValueError` for a distance that is missing, not finite or not positive, or for wrong shapes."""
        _require_distance(self)
        super().check()
        check_positive(self, "distance")


def _require_distance(element) -> None:
    """Raise `ValueError` if the distance of an element is missing or not finite."""
    value = element.distance
    unknown = is_concrete(value) and np.ndim(value) == 0 and np.isnan(value)
    require(not unknown, "distance is missing, or not finite")


class AxisDistance(Frames, MeasuredConstraint):
    """A point of body j keeps its distance from an axis of body i: Φ = d_x² + d_y² − C². 1 equation.

    d is the vector from point_i to point_j, with components in the joint frame on i, whose z axis is the axis. The point
    is on a cylinder.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the axis in the frame of i, and the point in the frame of j; or a `Frame` of each
            body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the axis on body i, as for `Revolute`; those of body j do not matter.
        distance: C, positive. For a point on the axis use a `TotalJoint`.

    Examples:
        >>> tube = spatial.AxisDistance("ground", "a", distance=4.0)
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, {"tube": tube})
        >>> print(mbs.constraints(mech, {"a": spatial.coordinates((3, 4, 7))}))  # 5² − 4²
        [9.]
    """

    distance: Array = real(default=np.nan)

    def __init__(
        self,
        i,
        j,
        point_i=ORIGIN,
        point_j=ORIGIN,
        axis_i=None,
        axis_j=None,
        distance=np.nan,
        *,
        frame_i=None,
        frame_j=None,
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        self.distance = distance

    def measure(self, i, j):
        """Return d_x² + d_y², the squared distance of point_j from the axis."""
        d = self.separation(i, j)
        x, y = (i.direction(self.axes_i[:, k]) @ d for k in (0, 1))
        return x**2 + y**2

    def prescribed(self, t):
        """Return C², the squared distance."""
        return self.distance**2

    def check(self):
        """Raise `ValueError` for a distance that is missing, not finite or not positive, or for wrong shapes and axes."""
        _require_distance(self)
        super().check()
        check_positive(self, "distance")


class Screw(Frames):
    """The bodies turn about an axis and advance along it in proportion. 5 equations.

    Φ is that of `Cylindrical` and 2 sin((φ − 2π s / pitch) / 2), with φ the joint's angle and s the advance of point_j
    from point_i along the axis. Any number of turns: the residual does not change when φ turns by 2π and s by the pitch.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the axis in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the axis and the zero of φ, as for `Revolute`.
        pitch: advance in a turn, positive for a right-handed screw.

    Examples:
        >>> nut = spatial.Screw("ground", "nut", axis_i=(0, 0, 1), pitch=0.006)
        >>> mech = mbs.Mechanism({"nut": spatial.Body()}, {"thread": nut})
        >>> half_a_turn = spatial.coordinates((0, 0, 0.003), rotated=(0, 0, jnp.pi))
        >>> print(mbs.constraints(mech, {"nut": half_a_turn}).round(6))
        [0. 0. 0. 0. 0.]
    """

    pitch: Array = real()
    rows: ClassVar[int] = 5
    # Turn and advance are in proportion.
    freedom: ClassVar[int] = 1

    def __init__(
        self, i, j, point_i=ORIGIN, point_j=ORIGIN, axis_i=None, axis_j=None, pitch=None, *, frame_i=None, frame_j=None
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        self.pitch = pitch

    @property
    def mobility(self):
        """Relative coordinate: the angle about the axis, with all turns; the advance is the pitch times the turns."""
        return self.mobility_along((2,), (2,), lead=self.pitch / (2 * jnp.pi))

    @property
    def shared(self):
        """The unit vector of the axis, in both bodies. It implies the two rows of Φ that align the axes."""
        return Shared(vectors=((self.axes_i[:, 2], self.axes_j[:, 2]),), rows=(0, 1, 4))

    def residual(self, i, j, t):
        """Return Φ (5,): two positions across the axis, two orientations, and 2 sin((φ − 2π s / pitch) / 2)."""
        p = self.turn(i, j)
        rows = [*position_rows(self, (0, 1), i, j), *orientation_rows((0, 1), p)]
        return jnp.stack([*rows, angle_row(p, 2 * jnp.pi * self.advance(i, j) / self.pitch)])

    def check(self):
        """Raise `ValueError` for a pitch that is missing or zero, or for wrong shapes and axes."""
        require(self.pitch is not None, "pitch is missing")
        super().check()
        require(not is_concrete(self.pitch) or self.pitch != 0, "pitch must not be zero: that is a Revolute")


def angle_row(p: Float[Array, "4"], angle: Float[Array, ""]) -> Float[Array, ""]:
    """Return 2 sin((φ − angle) / 2) for the rotation by φ about z with Euler parameters p: about φ − angle if small."""
    c, s = jnp.cos(angle / 2), jnp.sin(angle / 2)
    sign = jnp.where(p[0] * c + p[3] * s < 0, -1, 1)
    return 2 * sign * (p[3] * c - p[0] * s)
