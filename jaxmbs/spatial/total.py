"""The total joint, with components that are free, fixed or prescribed; after Masarati 2013. For its Φ see `pairs`."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.mobility import Mobility
from jaxmbs.motion import AbstractMotion, as_motion
from jaxmbs.numerics import rotation
from jaxmbs.spatial.body import Pose
from jaxmbs.spatial.element import ORIGIN, Frames
from jaxmbs.spatial.pairs import ALL, FIXED, FREE, orientation_rows


class SixComponents(Frames):
    """A joint with six components of relative position and orientation, each free, fixed at zero, or prescribed in time.

    A subclass defines the components of the orientation, and their rows of Φ.

    Attributes:
        position: motions of the components; None for components that are free or fixed.
        orientation: the same for the orientation.
        words: for position and orientation, "free" or "fixed" for each component, "fixed" also for prescribed ones; any
            other word as given, for `check`.
    """

    position: tuple[AbstractMotion | None, ...]
    orientation: tuple[AbstractMotion | None, ...]
    words: tuple[tuple[str | None, ...], ...] = eqx.field(static=True)

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
    ):
        super().__init__(i, j, point_i, point_j, axis_i, axis_j, frame_i=frame_i, frame_j=frame_j)
        given = tuple(position), tuple(orientation)
        is_word = lambda x: x is None or isinstance(x, str)
        self.words = tuple(tuple(x if is_word(x) else FIXED for x in xs) for xs in given)
        self.position, self.orientation = (tuple(None if is_word(x) else as_motion(x) for x in xs) for xs in given)

    def arguments(self) -> dict[str, tuple]:
        """Return the arguments `position` and `orientation`: "free", "fixed" or a motion for each component."""
        choose = lambda words, motions: tuple(w if m is None else m for w, m in zip(words, motions, strict=True))
        position, orientation = self.words
        return {"position": choose(position, self.position), "orientation": choose(orientation, self.orientation)}

    @property
    def held(self) -> tuple[bool, ...]:
        """True for each of the six components that is fixed or prescribed."""
        return tuple(word != FREE for words in self.words for word in words)

    @property
    def given_frames(self):
        """Euler parameters of the joint frames in i and j, also if given by axes; None for a body's own frame."""
        # Components refer to the joint frames, also if these were given by axes.
        return self.frame_parameters

    @property
    def rows(self) -> int:
        """Number of components that are not free."""
        return sum(self.held)

    @property
    def free_turns(self) -> tuple[int, ...]:
        """Indices of the free components of the orientation."""
        return tuple(k for k in ALL if not self.held[3 + k])

    @property
    def driven_turns(self) -> tuple[int, ...]:
        """Indices of the prescribed components of the orientation."""
        return tuple(k for k in ALL if self.orientation[k] is not None)

    @property
    def sliding(self) -> tuple[int, ...]:
        """Indices of the components of the position that are free or prescribed."""
        return tuple(k for k in ALL if not self.held[k] or self.position[k] is not None)

    def residual(self, i, j, t):
        """Return Φ: the held components of the position minus their values, then the rows of `turn_rows`."""
        rows = []
        if any(self.held[:3]):
            x = self.axes_i.T @ i.components(self.separation(i, j))
            rows += [x[k] - held_value(self.position[k], t) for k in ALL if self.held[k]]
        if any(self.held[3:]):
            rows += self.turn_rows(self.turn(i, j), t)
        return jnp.stack(rows) if rows else jnp.zeros(0, i.r.dtype)

    @abc.abstractmethod
    def turn_rows(self, p: Float[Array, "4"], t) -> list:
        """Return the rows of Φ of the held orientations from the Euler parameters p of frame j relative to i."""

    def check(self):
        """Raise `ValueError` unless there are three components each of position and orientation, with valid values."""
        for name, words in zip(("position", "orientation"), self.words, strict=True):
            require(len(words) == 3, f"{name} must have three components, got {len(words)}")
            for k, word in enumerate(words):
                got = f"got {str(word)!r} as {name}[{k}]"
                require(word in (FREE, FIXED), f"a component is {FREE!r}, {FIXED!r} or a motion, {got}")
        super().check()


class TotalJoint(SixComponents):
    """A joint with six components of relative position and orientation, each free, fixed or prescribed; Masarati 2013.

    For angles in place of the Euler vector see `RelativeJoint`. Φ has the held components of
    F_iᵀA_iᵀ(r_j^P − r_i^P) − x₀(t), then those of 2 sin(‖ε‖/2) ε/‖ε‖. A component is held if it is fixed or prescribed.
    F_i is the joint frame on body i, A_i the rotation matrix of body i, x₀ the prescribed position. ε is the Euler vector
    (axis times angle) of R R₀ᵀ. R is the rotation of the frame on j relative to the frame on i, and R₀ = exp θ₀(t) the
    prescribed one.

    The multipliers are components in the joint frame on i: of the force on body j and, if all three orientations are
    held, of the torque on body j about point_j.

    Args:
        i, j: names of the bodies.
        point_i, point_j: origins of the joint frames in the body frames, or a `Frame` of each body, as for `Revolute`.
        position: of point_j from point_i, in the joint frame on i: for each component "free", "fixed" (at zero) or a
            motion.
        orientation: likewise for the Euler vector θ₀ of the frame on j relative to the frame on i. A free component is
            zero in θ₀.
        axis_i, axis_j, frame_i, frame_j: the joint frames, as for `Revolute`.

    Examples:
        >>> lift = spatial.TotalJoint("ground", "a", position=("fixed", "free", mbs.motion.Ramp(2.0)))
        >>> mech = mbs.Mechanism({"a": spatial.Body()}, drivers={"lift": lift})
        >>> print(mbs.constraints(mech, {"a": spatial.coordinates((0.5, 7, 3))}, t=1.0))
        [0.5 1. ]
    """

    @property
    def _turning(self) -> tuple[int, ...] | None:
        """Indices of the components of the orientation that change, all free or all prescribed; None for other cases.

        Three prescribed components, or prescribed and free ones together, cannot be coordinates in a tree.
        """
        driven, free = self.driven_turns, self.free_turns
        return None if driven and (free or len(driven) > 2) else free or driven

    @property
    def freedom(self):
        """Number of components that are not held; None for combinations that cannot be coordinates in a tree."""
        return None if self._turning is None else 6 - self.rows

    @property
    def mobility(self):
        """Relative coordinates: slides, then components of the Euler vector; prescribed ones have their motions."""
        turning = self._turning
        assert turning is not None  # as a joint of a tree
        mobility = self.mobility_along(self.sliding, turning)
        # Euler parameters, of a free rotation, are never prescribed.
        turns = [self.orientation[k] for k in turning] if len(turning) < 3 else []
        return with_motions(mobility, [*(self.position[k] for k in self.sliding), *turns])

    def turn_rows(self, p, t):
        """Return 2 e_k for the held components of the orientation, with e those of R R₀ᵀ and p those of R."""
        held = tuple(k for k in ALL if self.held[3 + k])
        return orientation_rows(held, self._relative_to_prescribed(p, t))

    def _relative_to_prescribed(self, p, t) -> Float[Array, "4"]:
        """Return Euler parameters of R R₀ᵀ: p are those of R, and R₀ is the prescribed rotation at the time t."""
        driven = self.driven_turns
        if not driven:
            return p
        if len(driven) == 1:
            prescribed = rotation.about(driven[0], self.orientation[driven[0]](t))
        else:
            prescribed = rotation.exp(jnp.stack([held_value(motion, t) for motion in self.orientation]))
        return rotation.product(p, rotation.inverse(prescribed))


def held_value(motion: AbstractMotion | None, t: Float[Array, ""]) -> Float[Array, ""]:
    """Return the value of a held component at the time t: that of its motion, or 0 if it is fixed and has no motion."""
    return jnp.zeros_like(t) if motion is None else motion(t)


def with_motions(mobility: Mobility, motions: Sequence[AbstractMotion | None]) -> Mobility:
    """Return a mobility with its coordinates prescribed by the motions that are not None."""
    for k, motion in enumerate(motions):
        if motion is not None:
            mobility = mobility.with_motion(k, motion)
    return mobility


def euler_vector(joint: Frames, i: Pose, j: Pose) -> Float[Array, "3"]:
    """Return the Euler vector of the joint frame on j relative to that on i, with an angle of 0 to π.

    Args:
        joint: a joint with frames, such as a `TotalJoint`.
        i: pose of the first body.
        j: pose of the second body.

    Returns:
        (3,), in radians, in the axes of either frame.

    Examples:
        >>> i, j = (spatial.Body.pose(spatial.coordinates(rotated=vector)) for vector in ((0, 0, 0), (0, 0.5, 0)))
        >>> print(spatial.euler_vector(spatial.TotalJoint("a", "b"), i, j).round(6))
        [0.  0.5 0. ]
    """
    return rotation.log(joint.turn(i, j))
