"""The joint of relative coordinates: orientation angles and translations, free, fixed or prescribed; after Kamman."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import Shared, warn_renamed
from jaxmbs.mobility import AbstractTurning
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics import rotation
from jaxmbs.spatial.element import ORIGIN
from jaxmbs.spatial.pairs import ALL, FREE, orientation_rows
from jaxmbs.spatial.total import SixComponents, held_value, with_motions
from jaxmbs.spatial.turning import Angles, Ball, Turn, TwoTurns


class Zero(AbstractMotion):
    """The motion C(t) = 0, for a fixed component among prescribed ones."""

    def __call__(self, t):
        """Return zero."""
        return jnp.zeros_like(t)


class RelativeJoint(SixComponents):
    """A joint with six relative coordinates, translations and orientation angles, each free, fixed or prescribed in time.

    Kamman, Equations of Motion for Multibody Systems with Inter-Body Joint Constraints. This covers hinges about any
    axis of the frame; universal joints, in which any two of the three angles are free and the third is held at any
    value; and sliding, cylindrical, spherical, rigid and free joints. The angles give the rotation of the joint frame
    on j relative to that on i: R = R₁(θ₁) R₂(θ₂) R₃(θ₃), first about x, then about the new y, then about the new z.

    Φ has F_iᵀA_iᵀ(r_j^P − r_i^P) − x₀(t) for the held translations, then for the held angles with values c(t):

    - all held: twice the vector part of the Euler parameters of R (R₁R₂R₃)ᵀ at c;
    - all except θ_k: if Φ = 0, P₋ᵀ R P₊ᵀ is a rotation about axis k. The equations are twice the vector part of its
      Euler parameters, of which only the two components perpendicular to axis k are taken. P₋ and P₊ are the products
      of the known rotations before and after it;
    - one held: sin(θ₁ − c₁) cos θ₂ if it is θ₁, sin θ₂ − sin c₂ if it is θ₂, cos θ₂ sin(θ₃ − c₃) if it is θ₃.

    The free angles may turn without limit. The only singular case is a joint whose single held angle is θ₂, with
    cos c₂ = 0: axes one and three are then parallel. The multipliers of translations are the components of the force on
    body j in the joint frame on i. Those of three held angles are the components of the torque about point_j. That of
    one held angle is its generalized torque, the torque about its axis, divided by cos θ₂. For a prescribed component
    `Reaction.effort` is the generalized force or torque itself.

    Args:
        i, j: names of the bodies.
        point_i, point_j: origins of the joint frames in the body frames, or a `Frame` of each body, as for `Revolute`.
        position: for each component "free", "fixed" (at zero) or a motion: position of point_j in the joint frame
            on i, from point_i.
        orientation: likewise for the angles θ₁, θ₂, θ₃, in radians.
        axis_i, axis_j, frame_i, frame_j: the joint frames, as for `Revolute`.
        translations, angles: deprecated names of position and orientation.

    Examples:
        >>> lift = spatial.RelativeJoint("ground", "a", position=("fixed", "free", mbs.motion.Ramp(2.0)))
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, drivers={"lift": lift})
        >>> print(mbs.constraints(mech, {"a": spatial.coordinates((0.5, 7, 3))}, t=1.0))
        [0.5 1. ]
    """

    def __init__(
        self,
        i,
        j,
        point_i=ORIGIN,
        point_j=ORIGIN,
        position=(FREE,) * 3,
        orientation=(FREE,) * 3,
        *,
        axis_i=None,
        axis_j=None,
        frame_i=None,
        frame_j=None,
        translations=None,
        angles=None,
    ):
        if translations is not None:
            warn_renamed("translations", "position")
            position = translations
        if angles is not None:
            warn_renamed("angles", "orientation")
            orientation = angles
        frames = {"axis_i": axis_i, "axis_j": axis_j, "frame_i": frame_i, "frame_j": frame_j}
        super().__init__(i, j, point_i, point_j, position, orientation, **frames)

    @property
    def translations(self) -> tuple[AbstractMotion | None, ...]:
        """Deprecated name of `position`."""
        warn_renamed("translations", "position")
        return self.position

    @property
    def angles(self) -> tuple[AbstractMotion | None, ...]:
        """Deprecated name of `orientation`."""
        warn_renamed("angles", "orientation")
        return self.orientation

    def turn_rows(self, p, t):
        """Return the rows of Φ for the held angles; p are the Euler parameters of frame j relative to i."""
        free = self.free_turns
        held = tuple(k for k in ALL if k not in free)
        if not free:
            return orientation_rows(ALL, rotation.product(p, rotation.inverse(self._held_rotation(ALL, t, p.dtype))))
        before, after = ALL[: free[0]], ALL[free[-1] + 1 :]
        if self._any_driven(before):
            p = rotation.product(rotation.inverse(self._held_rotation(before, t, p.dtype)), p)
        if self._any_driven(after):
            p = rotation.product(p, rotation.inverse(self._held_rotation(after, t, p.dtype)))
        if len(free) == 1:
            return orientation_rows(held, p)
        # The remaining rotation is R₂R₃, R₁R₂R₃ or R₁R₂.
        (k,), a = held, rotation.matrix(p)
        if k == 1:
            return [a[0, 2] - jnp.sin(held_value(self.orientation[1], t))]
        return [-a[1, 2] if k == 0 else -a[0, 1]]

    def _any_driven(self, angles) -> bool:
        """Return True if one of the angles with these indices is prescribed."""
        return any(self.orientation[k] is not None for k in angles)

    def _held_rotation(self, angles, t, dtype) -> Float[Array, "4"]:
        """Return Euler parameters of the product of the rotations by the prescribed ones of some angles."""
        p = rotation.identity(dtype)
        for k in angles:
            if self.orientation[k] is not None:
                p = rotation.product(p, rotation.about(k, self.orientation[k](t)))
        return p

    @property
    def freedom(self):
        """Number of components that are free; prescribed ones do not count."""
        return 6 - self.rows

    @property
    def mobility(self):
        """Relative coordinates: slides, then angles or Euler parameters; prescribed ones have their motions."""
        turning, motions = self._turning
        mobility = self.mobility_along(self.sliding, ())
        if turning is not None:
            mobility = dataclasses.replace(mobility, turning=turning, held=None)
        return with_motions(mobility, [*(self.position[k] for k in self.sliding), *motions])

    @property
    def _turning(self) -> tuple[AbstractTurning | None, list[AbstractMotion | None]]:
        """The rotation by angles that are not fixed, None if all are, and their motions, None for free ones."""
        free, driven, axes = self.free_turns, self.driven_turns, self.axes_i
        turns = free + driven
        if not turns:
            return None, []
        if len(turns) == 1:
            return Turn(axes[:, turns[0]]), [self.orientation[turns[0]]]
        if driven:
            known = tuple(k for k in ALL if k not in free)
            motions = [self.orientation[k] if k in driven else Zero() if k in known else None for k in ALL]
            return Angles(self.frame_parameters[0], signed=free[0] if free else 0, known=known), motions
        return (TwoTurns(axes[:, free[0]], axes[:, free[1]]) if len(free) == 2 else Ball()), []

    @property
    def shared(self):
        """The point, if no component of the position changes, and an axis, if at most one angle changes and is free."""
        pinned = all(self.held[:3]) and not self.sliding
        free = self.free_turns
        # Bodies that turn about one axis share it; bodies that do not turn share every axis.
        aligned = len(free) < 2 and not self.driven_turns
        axis, start = free[0] if free else 2, sum(self.held[:3])
        implied = [*range(start * pinned), *range(start, start + 2 * aligned)]
        return Shared(
            points=((self.point_i, self.point_j),) if pinned else (),
            vectors=((self.axes_i[:, axis], self.axes_j[:, axis]),) if aligned else (),
            rows=tuple(k for k in range(self.rows) if k not in implied),
        )
