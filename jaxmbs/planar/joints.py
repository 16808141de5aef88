"""Revolute and translational joints and their composite, Haug 3.3.2 and 3.3.3."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import LENGTH_FIELDS, Shared
from jaxmbs.mobility import Mobility
from jaxmbs.numerics.arrays import real
from jaxmbs.numerics.plane import perpendicular
from jaxmbs.planar.element import Points, length
from jaxmbs.planar.turning import HalfTurns, Turn


class Revolute(Points):
    """Pin joint that makes two points coincide: Φ = r_i + A_i s_i − r_j − A_j s_j; Haug (3.3.10).

    Args:
        i, j: names of the bodies.
        point_i, point_j: the pin in the two body frames.

    Examples:
        >>> pin = planar.Revolute("ground", "rod", (0, 0), (-1, 0))
        >>> mech = mbs.Mechanism({"rod": planar.Body()}, {"pin": pin})
        >>> print(mbs.constraints(mech, {"rod": (1.5, 0.25, 0)}))
        [-0.5  -0.25]
    """

    rows: ClassVar[int] = 2
    # Body j turns on body i.
    freedom: ClassVar[int] = 1

    @property
    def mobility(self):
        """Relative coordinate of body j on body i: the angle φ_j − φ_i."""
        return Mobility(self.point_i, self.point_j, turning=Turn())

    @property
    def shared(self):
        """The pin, as a point of both bodies. It implies all rows of Φ."""
        return Shared(points=((self.point_i, self.point_j),))

    def residual(self, i, j, t):
        """Return Φ (2,): the vector from the pin on j to the pin on i, in the ground frame."""
        return -self.separation(i, j)


class Translational(Points):
    """Two bodies slide along a common line without turning on each other: Φ = (v_i⊥ᵀ d_ij, v_i⊥ᵀ v_j); Haug (3.3.13).

    d_ij is the vector from point_i to point_j, v_i⊥ is v_i turned by 90°.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the line in each body frame.
        axis_i, axis_j: direction v of the line in each body frame; `axis_i` is x and `axis_j` is `axis_i` unless
            given. Their lengths scale Φ and do not change the joint.

    Examples:
        >>> guide = planar.Translational("ground", "slider", (0, 0), (0, 0), axis_i=(1, 0))
        >>> mech = mbs.Mechanism({"slider": planar.Body()}, {"guide": guide})
        >>> print(mbs.constraints(mech, {"slider": (3, 0.25, jnp.pi / 6)}))
        [0.25 0.5 ]
    """

    axis_i: Array = real((2,))
    axis_j: Array = real((2,))
    rows: ClassVar[int] = 2
    # Body j slides on body i.
    freedom: ClassVar[int] = 1

    def __init__(self, i, j, point_i, point_j, axis_i=(1.0, 0.0), axis_j=None):
        self.i, self.j, self.point_i, self.point_j = i, j, point_i, point_j
        self.axis_i = axis_i
        self.axis_j = axis_i if axis_j is None else axis_j

    @property
    def mobility(self):
        """Relative coordinate of body j on body i: the slide of point_j from point_i along v_i."""
        axis_i, axis_j = jnp.asarray(self.axis_i), jnp.asarray(self.axis_j)
        neutral = jnp.arctan2(perpendicular(axis_j) @ axis_i, axis_i @ axis_j)
        slide = (axis_i / length(axis_i))[:, None]
        return Mobility(self.point_i, self.point_j, slide, neutral=neutral, held=HalfTurns())

    @property
    def shared(self):
        """The unit vector of the line, in both bodies. It implies the second row of Φ."""
        # The vectors may also be opposite: the second equation of the joint holds for both.
        axes = tuple(jnp.asarray(axis) / length(axis) for axis in (self.axis_i, self.axis_j))
        return Shared(vectors=(axes,), rows=(0,))

    def residual(self, i, j, t):
        """Return Φ (2,): v_i⊥ᵀ d_ij and v_i⊥ᵀ v_j."""
        normal = perpendicular(i.direction(self.axis_i))
        d = self.separation(i, j)
        return jnp.stack([normal @ d, normal @ j.direction(self.axis_j)])


class RevoluteTranslational(Points):
    """A pin of body j keeps its distance from a line of body i: Φ = v_i⊥ᵀ d_ij / ‖v_i‖ − C; Haug (3.3.17).

    Args:
        i, j: names of the bodies. The line is on i, the pin on j.
        point_i, axis_i: a point and the direction v_i of the line in the frame of i.
        point_j: the pin in the frame of j.
        offset: C, the directed distance, positive to the left of the line seen along v_i.
        distance: another name for `offset`.

    Examples:
        >>> slot = planar.RevoluteTranslational("ground", "a", (0, 0), (0, 0), axis_i=(1, 0), offset=0.5)
        >>> mech = mbs.Mechanism({"a": planar.Body()}, {"slot": slot})
        >>> print(mbs.constraints(mech, {"a": (3, 2, 0)}))
        [1.5]
    """

    axis_i: Array = real((2,))
    offset: Array = real()
    length_fields: ClassVar[tuple[str, ...]] = (*LENGTH_FIELDS, "offset")
    rows: ClassVar[int] = 1
    # Body j slides and turns on body i.
    freedom: ClassVar[int] = 2

    def __init__(self, i, j, point_i, point_j, axis_i=(1.0, 0.0), offset=0.0, *, distance=None):
        self.i, self.j, self.point_i, self.point_j = i, j, point_i, point_j
        self.axis_i = axis_i
        self.offset = offset if distance is None else distance

    @property
    def mobility(self):
        """Relative coordinates of body j on body i: the slide of the pin along the line, then the angle φ_j − φ_i."""
        axis = jnp.asarray(self.axis_i) / length(self.axis_i)
        return Mobility(self.point_i + self.offset * perpendicular(axis), self.point_j, axis[:, None], Turn())

    def residual(self, i, j, t):
        """Return Φ (1,): the directed distance of the pin from the line of body i, minus C."""
        normal = perpendicular(i.direction(self.axis_i)) / length(self.axis_i)
        return (normal @ self.separation(i, j) - self.offset)[None]
