"""The total joint, and the lower pairs that are special cases of it; after Masarati 2013.

All of them say that some components of the relative position and of the relative orientation vanish. The position is that
of point_j in the joint frame on i, less the prescribed one. The orientation is the Euler vector ε of R R₀ᵀ, the relative
rotation of the joint frames and the transposed prescribed one. What stands in Φ is 2 sin(‖ε‖/2) ε/‖ε‖, twice the vector
part of the Euler parameters of R R₀ᵀ: it has the same zeros as ε and the same derivative there, is a polynomial of the
bodies' Euler parameters, and, unlike ε, has no jump where the part of ε that is free passes π.
"""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import Shared, require
from jaxmbs.motion import AbstractMotion, as_motion
from jaxmbs.numerics import rotation
from jaxmbs.spatial.element import ORIGIN, Frames

FREE, FIXED = "free", "fixed"
ALL = (0, 1, 2)


def position_rows(joint: Frames, held, i, j) -> list:
    """The held components of the position of point_j in the joint frame on i; all three in the ground frame."""
    d = joint.separation(i, j)
    if held == ALL:
        return list(d)
    return [i.direction(joint.axes_i[:, k]) @ d for k in held]


def orientation_rows(held, p: Float[Array, "4"]) -> list:
    """2 e_k for the held components of the orientation with Euler parameters p."""
    if held == ALL:
        # p and −p are the same rotation: so multipliers are torques, whichever it is.
        p = jnp.where(p[0] < 0, -p, p)
    return [2 * p[1 + k] for k in held]


def _others(held) -> tuple[int, ...]:
    return tuple(k for k in ALL if k not in held)


class LowerPair(Frames):
    """A joint that holds components of the relative position and orientation in its frame; z is its axis.

    A subclass declares which: `position` and `orientation`, numbers of axes.
    """

    position: ClassVar[tuple[int, ...]]
    orientation: ClassVar[tuple[int, ...]]

    def residual(self, i, j, t):
        rows = position_rows(self, self.position, i, j)
        rows += orientation_rows(self.orientation, self.turn(i, j)) if self.orientation else []
        return jnp.stack(rows) if rows else jnp.zeros(0, i.r.dtype)

    @property
    def freedom(self):
        return 6 - self.rows

    @property
    def mobility(self):
        return self.mobility_along(_others(self.position), _others(self.orientation))

    @property
    def shared(self):
        pinned, aligned = self.position == ALL, self.orientation[:2] == (0, 1)
        count, rows = len(self.position), len(self.position) + len(self.orientation)
        implied = [*range(count * pinned), *range(count, count + 2 * aligned)]
        return Shared(
            points=((self.point_i, self.point_j),) if pinned else (),
            vectors=((self.axes_i[:, 2], self.axes_j[:, 2]),) if aligned else (),
            rows=tuple(k for k in range(rows) if k not in implied),
        )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "position" in vars(cls):
            cls.rows = len(cls.position) + len(cls.orientation)


class Revolute(LowerPair):
    """Hinge: point_i and point_j coincide, the bodies turn about the axis. 5 equations. Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = (0, 1)


class Prismatic(LowerPair):
    """The bodies slide along the axis without turning. 5 equations. Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = (0, 1)
    orientation: ClassVar[tuple[int, ...]] = ALL


class Cylindrical(LowerPair):
    """The bodies slide along the axis and turn about it. 4 equations. Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = (0, 1)
    orientation: ClassVar[tuple[int, ...]] = (0, 1)


class Spherical(LowerPair):
    """Ball and socket: point_i and point_j coincide. 3 equations. Arguments: see `Frames`; the axis has no effect."""

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = ()


class Planar(LowerPair):
    """point_j stays in the plane through point_i across the axis, and the bodies turn about the axis only. 3 equations.
    Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = (2,)
    orientation: ClassVar[tuple[int, ...]] = (0, 1)


class Rigid(LowerPair):
    """The joint frames on both bodies coincide. 6 equations. Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = ALL


class Free(LowerPair):
    """No constraint: it names the two bodies for formulations in relative coordinates. Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = ()
    orientation: ClassVar[tuple[int, ...]] = ()


class ConstantVelocity(LowerPair):
    """Homokinetic joint of two shafts along the axes: point_i and point_j coincide, and the Euler vector of the relative
    rotation has no component along the axis: both shafts turn with the same speed at every bend below π; Masarati and
    Morandini 2008. 4 equations. Arguments: see `Frames`."""

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = (2,)


class TotalJoint(Frames):
    """Each of the three components of the relative position and of the three of the relative orientation is free, fixed,
    or prescribed as a function of time; Masarati 2013.

    Φ = (the held components of F_iᵀA_iᵀ(r_j^P − r_i^P) − x₀(t), those of ε): ε is the Euler vector of R R₀ᵀ with R the
    rotation of the frame on j as seen from the frame on i and R₀ = exp θ₀(t); as it stands in Φ, see the head of this
    module. The multipliers are the components of the force on body j, and if all three orientations are held of the
    torque on it about point_j, in the joint frame on i.

    Args:
        i, j: names of the bodies.
        point_i, point_j: origins of the joint frames in the body frames; or `Frame`s.
        position: for each component "free", "fixed" (at zero) or a motion of it: position of point_j in the joint frame on
            i, from point_i.
        orientation: likewise for the Euler vector θ₀ of the frame on j as seen from the frame on i. A free component counts
            as zero in θ₀.
        frame_i, frame_j: 3×3, columns are the axes of the joint frames in the body frames; `frame_j` as `frame_i` unless
            given.
    """

    position: tuple[AbstractMotion | None, ...]
    orientation: tuple[AbstractMotion | None, ...]
    held: tuple[bool, ...] = eqx.field(static=True)
    given: tuple[str, ...] = eqx.field(static=True)

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
        named = [(name, x) for name, xs in (("position", position), ("orientation", orientation)) for x in tuple(xs)]
        self.given = tuple(name for name, _ in named)
        words = [x is None or isinstance(x, str) for _, x in named]
        # Other words are kept for the check to name them.
        self.given += tuple(
            str(x) for word, (_, x) in zip(words, named, strict=True) if word and x not in (FREE, FIXED)
        )
        self.held = tuple(not (word and x == FREE) for word, (_, x) in zip(words, named, strict=True))
        parts = [None if word else as_motion(x) for word, (_, x) in zip(words, named, strict=True)]
        count = self.given.count("position")
        self.position, self.orientation = tuple(parts[:count]), tuple(parts[count:])

    @property
    def rows(self) -> int:
        """The number of components that are not free."""
        return sum(self.held)

    @property
    def freedom(self):
        return None if self.motions else 6 - self.rows

    @property
    def mobility(self):
        free = [k for k in range(6) if not self.held[k]]
        return self.mobility_along(tuple(k for k in free if k < 3), tuple(k - 3 for k in free if k >= 3))

    def residual(self, i, j, t):
        rows = []
        if any(self.held[:3]):
            x = self.axes_i.T @ i.components(self.separation(i, j))
            rows += [x[k] - _value(self.position[k], t) for k in range(3) if self.held[k]]
        held = tuple(k for k in range(3) if self.held[3 + k])
        if held:
            rows += orientation_rows(held, self._error(self.turn(i, j), t))
        return jnp.stack(rows) if rows else jnp.zeros(0, i.r.dtype)

    def _error(self, p, t) -> Float[Array, "4"]:
        """Euler parameters of R R₀ᵀ."""
        driven = [k for k in range(3) if self.orientation[k] is not None]
        if not driven:
            return p
        if len(driven) == 1:
            prescribed = rotation.about(driven[0], self.orientation[driven[0]](t))
        else:
            prescribed = rotation.exp(jnp.stack([_value(motion, t) for motion in self.orientation]))
        return rotation.product(p, rotation.inverse(prescribed))

    def check(self):
        for name in ("position", "orientation"):
            require(self.given.count(name) == 3, f"{name} must have three components, got {self.given.count(name)}")
        wrong = [word for word in self.given if word not in ("position", "orientation")]
        require(not wrong, f"a component is {FREE!r}, {FIXED!r} or a motion, got {wrong[0]!r}" if wrong else "")
        super().check()


def _value(motion, t):
    return jnp.zeros_like(t) if motion is None else motion(t)


def euler_vector(joint: Frames, i, j) -> Float[Array, "3"]:
    """The Euler vector of the joint frame on j as seen from that on i, 0 ≤ φ ≤ π."""
    return rotation.log(joint.turn(i, j))
