"""Couplings of a turn and an advance between bodies that other joints hold: rack and pinion, thread."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import MarkedConstraint, check_pressure_angle, require
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.spatial.body import Pose
from jaxmbs.spatial.element import ORIGIN, Frames
from jaxmbs.spatial.joints import angle_row


class TurnByAdvance(Frames, MarkedConstraint):
    """The turn φ of joint frame j relative to joint frame i about z follows an advance: φ = ψ + θ_i − θ_j.

    Φ = 2 sin((φ − ψ − θ_i + θ_j) / 2), with the angle in brackets taken within ±π. 1 equation, for any number of turns.
    Subclasses define ψ, the turn that belongs to the advance. θ_i and θ_j are the directions of the marks on the bodies.
    """

    angle_i: Array | None = real(optional=True)
    angle_j: Array | None = real(optional=True)
    rows: ClassVar[int] = 1

    @abc.abstractmethod
    def turn_of_advance(self, i: Pose, j: Pose) -> Float[Array, ""]:
        """Return ψ, the turn in radians that belongs to the advance of point_j from point_i."""

    def residual(self, i, j, t):
        """Return Φ (1,): 2 sin((φ − ψ − θ_i + θ_j) / 2)."""
        angle_i, angle_j = self.marks
        return angle_row(self.turn(i, j), self.turn_of_advance(i, j) + angle_i - angle_j)[None]

    def drawn_marks(self, i, j):
        """Return the marks [θ_i, θ_j] = [φ − ψ, 0] in radians for which Φ = 0, and the extra coordinates: none."""
        p = self.turn(i, j)
        angle = 2 * jnp.arctan2(p[3], p[0]) - self.turn_of_advance(i, j)
        return [angle, jnp.zeros_like(angle)], ()


class RackPinion(TurnByAdvance):
    """A pinion on body j rolls on a rack on body i: x + R_j (φ − θ_i + θ_j) = 0. 1 equation.

    x is the advance of point_j from point_i along the x axis of the joint frame on the rack; φ is the turn of the pinion
    relative to the rack about their common z axis. Φ = 2 sin((φ − θ_i + θ_j + x / R_j) / 2), with the angle in brackets
    taken within ±π. Other constraints must hold the axes parallel and the pinion's centre at the distance R_j from the
    pitch line of the rack.

    With a `pressure_angle` α and a `helix_angle` β, x has (y − R_j) tan α / cos β and −z tan β sgn R_j added, where y and z
    are the other components of the advance. The reaction is then the normal force of the teeth; see `Gear`.

    Args:
        i, j: names of the bodies. The rack is on i.
        point_i: a point of the rack in the frame of i, from which the advance is measured; or a `Frame`.
        point_j: centre of the pinion in the frame of j; or a `Frame`.
        axis_i, axis_j, frame_i, frame_j: the axis of the pinion in both bodies, as for `Revolute`. The x axis of
            frame_i is the direction of the rack.
        radius_j: R_j, pitch radius of the pinion, positive if its centre is on the side of the rack to which the y axis
            of frame_i points, else negative.
        angle_i, angle_j: θ in radians, from the x axes of the joint frames, of marks that have the same direction when
            x = 0. If neither is given, the pinion meshes as it is drawn in the guess; see `mbs.with_marks`. If one is
            given, the other is zero.
        pressure_angle: α in radians, in the section normal to the teeth, positive for the flanks whose force turns the
            pinion in the positive sense about its axis, negative for the other flanks; see `planar.Gear`.
        helix_angle: β in radians, positive if the teeth of the pinion are right-handed.

    Examples:
        >>> rolling = spatial.RackPinion("ground", "pinion", radius_j=0.5, angle_i=0.0)
        >>> mech = mbs.Mechanism({"pinion": spatial.Body()}, {"rolling": rolling})
        >>> rolled = spatial.coordinates((jnp.pi, 0.5, 0), rotated=(0, 0, -2 * jnp.pi + 0.1))
        >>> print(mbs.constraints(mech, {"pinion": rolled}).round(6))  # 2 sin(0.1 / 2), after one turn
        [0.099958]
    """

    radius_j: Array = real()
    pressure_angle: Array | None = real(optional=True, default=None)
    helix_angle: Array | None = real(optional=True, default=None)

    def __init__(
        self,
        i,
        j,
        point_i=ORIGIN,
        point_j=ORIGIN,
        axis_i=None,
        axis_j=None,
        radius_j=None,
        angle_i=None,
        angle_j=None,
        *,
        frame_i=None,
        frame_j=None,
        pressure_angle=None,
        helix_angle=None,
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        self.radius_j, self.angle_i, self.angle_j = radius_j, angle_i, angle_j
        self.pressure_angle, self.helix_angle = pressure_angle, helix_angle

    def turn_of_advance(self, i, j):
        """Return −x / R_j, the turn in radians of the pinion after the advance x along the rack."""
        turn = -(i.direction(self.axes_i[:, 0]) @ self.separation(i, j)) / self.radius_j
        helix = 0.0 if self.helix_angle is None else self.helix_angle
        if self.helix_angle is not None:
            turn = turn + jnp.tan(helix) * self.advance(i, j) / jnp.abs(self.radius_j)
        if self.pressure_angle is not None:
            apart = i.direction(self.axes_i[:, 1]) @ self.separation(i, j) / self.radius_j - 1
            turn = turn - jnp.tan(self.pressure_angle) / jnp.cos(helix) * apart
        return turn

    def push(self, i, j):
        """Return the unit vector in which the teeth force pinion and rack apart; None without a `pressure_angle`."""
        return None if self.pressure_angle is None else jnp.sign(self.radius_j) * i.direction(self.axes_i[:, 1])

    def check(self):
        """Raise `ValueError` for a radius that is missing or zero, or for wrong shapes and axes."""
        _check_not_zero(self, "radius_j")
        super().check()
        check_pressure_angle(self)


class Thread(TurnByAdvance):
    """Turn and advance of bodies on a common axis are in proportion: s = pitch (φ − θ_i + θ_j) / 2π. 1 equation.

    s is the advance of point_j from point_i along the z axis of joint frame i, φ the turn of joint frame j relative to it.
    Φ = 2 sin((φ − θ_i + θ_j − 2π s / pitch) / 2), with the angle in brackets taken within ±π. Other constraints must hold
    the bodies on the axis, such as a hinge of the screw and a slide of the nut. A `Screw` is a thread that holds the bodies
    on its axis itself.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the axis in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the axis and the zero of φ, as for `Revolute`.
        pitch: advance in a turn, positive for a right-handed thread.
        angle_i, angle_j: θ in radians, from the x axes of the joint frames, of marks that have the same direction when
            s = 0. If neither is given, the thread is in the position that is drawn in the guess; see `mbs.with_marks`.
            If one is given, the other is zero.

    Examples:
        >>> thread = spatial.Thread("screw", "nut", pitch=0.006, angle_i=0.0)
        >>> mech = mbs.Mechanism({"screw": spatial.Body(), "nut": spatial.Body()}, {"thread": thread})
        >>> turned = {"screw": spatial.coordinates(rotated=(0, 0, -1.0)), "nut": spatial.coordinates((0, 0, 0.006))}
        >>> print(mbs.constraints(mech, turned).round(6))  # 2 sin(1 / 2): a turn forward, and 1 rad more
        [0.958851]
    """

    pitch: Array = real()

    def __init__(
        self,
        i,
        j,
        point_i=ORIGIN,
        point_j=ORIGIN,
        axis_i=None,
        axis_j=None,
        pitch=None,
        angle_i=None,
        angle_j=None,
        *,
        frame_i=None,
        frame_j=None,
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        self.pitch, self.angle_i, self.angle_j = pitch, angle_i, angle_j

    def turn_of_advance(self, i, j):
        """Return 2π s / pitch, the turn in radians that belongs to the advance s."""
        return 2 * jnp.pi * self.advance(i, j) / self.pitch

    def check(self):
        """Raise `ValueError` for a pitch that is missing or zero, or for wrong shapes and axes."""
        _check_not_zero(self, "pitch")
        super().check()


def _check_not_zero(element: TurnByAdvance, name: str) -> None:
    """Raise `ValueError` if a number of an element is missing or zero."""
    value = getattr(element, name)
    require(value is not None, f"{name} is missing")
    require(not is_concrete(value) or jnp.ndim(value) != 0 or value != 0, f"{name} must not be zero")
