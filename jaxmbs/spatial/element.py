"""Base classes of spatial elements, joint frames on two bodies, and checks of arguments."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import AbstractConstraint, require
from jaxmbs.mobility import Mobility
from jaxmbs.numerics import rotation
from jaxmbs.numerics.arrays import as_given, is_concrete, real
from jaxmbs.spatial.body import Pose
from jaxmbs.spatial.frame import Frame, check_frame
from jaxmbs.spatial.turning import Angles, Ball, Sign, free_turning

# Default of points in the frames of spatial bodies.
ORIGIN = (0.0, 0.0, 0.0)
# Default of joint axes in the frames of spatial bodies.
Z = (0.0, 0.0, 1.0)


class SpatialConstraint(AbstractConstraint):
    """A constraint between two bodies `i` and `j` of space."""

    dimension: ClassVar[int] = 3

    @property
    def given_frames(self) -> tuple[Float[Array, "4"] | None, Float[Array, "4"] | None]:
        """Euler parameters of the joint frames in i and j; None for each that is not given as a frame."""
        return None, None

    def relative(self, *, angles, swapped=False):
        """Return the mobility of j on i as if no joint connected them: translations, then the rotation."""
        points = [jnp.asarray(getattr(self, name, ORIGIN)) for name in ("point_i", "point_j")]
        lower, upper = self.given_frames
        if swapped:
            points, (lower, upper) = points[::-1], (upper, lower)
        dtype = points[0].dtype
        slides = jnp.eye(3, dtype=dtype) if lower is None else rotation.matrix(lower)
        if not angles:
            return Mobility(points[0], points[1], slides, Ball())
        neutral = None
        if lower is not upper:
            own = [rotation.identity(dtype) if frame is None else frame for frame in (lower, upper)]
            neutral = rotation.product(own[0], rotation.inverse(own[1]))
        return Mobility(points[0], points[1], slides, Angles(lower), neutral=neutral)


class Points(SpatialConstraint):
    """A constraint between a point of one body and a point of another."""

    i: str = eqx.field(static=True)
    j: str = eqx.field(static=True)
    point_i: Array = real((3,), default=ORIGIN)
    point_j: Array = real((3,), default=ORIGIN)

    def separation(self, i: Pose, j: Pose) -> Float[Array, "3"]:
        """Return the vector from point_i to point_j in the ground frame."""
        return j.point(self.point_j) - i.point(self.point_i)

    def check(self):
        """Raise `ValueError` for wrong shapes, or for an `axis_i` or `axis_j` without length."""
        super().check()
        for name in ("axis_i", "axis_j"):
            check_axis(name, getattr(self, name, None))


class Frames(Points):
    """A constraint between two joint frames, one on each body.

    Args:
        i, j: names of the bodies.
        point_i, point_j: origins of the joint frames in the body frames; or `Frame`s of the bodies, origin and axes.
        axis_i, axis_j: the z axes of the joint frames in the body frames; `axis_j` as `axis_i` unless given. Joint
            frame j is joint frame i turned by the shortest rotation that takes axis_i to axis_j. The joint angle is
            zero if the two frames coincide: with equal axes, if the bodies are parallel. The x and y axes are those of
            the body, turned by the shortest rotation from its z axis to the axis.
        frame_i, frame_j: in place of the axes: 3×3, columns are the axes of the joint frames in the body frames;
            `frame_j` as `frame_i` unless given.
    """

    axis_i: Array | None = real((3,), optional=True)
    axis_j: Array | None = real((3,), optional=True)
    frame_i: Array | None = real((3, 3), optional=True)
    frame_j: Array | None = real((3, 3), optional=True)

    def __init__(self, i, j, point_i=ORIGIN, point_j=ORIGIN, axis_i=None, axis_j=None, *, frame_i=None, frame_j=None):
        self.i, self.j = i, j
        self.point_i, frame_i = _origin_and_axes(point_i, frame_i)
        self.point_j, frame_j = _origin_and_axes(point_j, frame_j)
        self.axis_i, self.axis_j, self.frame_i, self.frame_j = axis_i, axis_j, frame_i, frame_j

    @property
    def frame_parameters(self) -> tuple[Float[Array, "4"] | None, Float[Array, "4"] | None]:
        """Euler parameters of the joint frames in the bodies; None for a body's own frame."""
        if self.frame_i is not None or self.frame_j is not None:
            on_i, on_j = (None if f is None else rotation.from_matrix(f) for f in (self.frame_i, self.frame_j))
            return on_i, on_i if self.frame_j is None else on_j
        if self.axis_i is None and self.axis_j is None:
            return None, None
        axis_i = jnp.array(Z, self.point_i.dtype) if self.axis_i is None else self.axis_i
        on_i = rotation.along(axis_i)
        if self.axis_j is None:
            return on_i, on_i
        return on_i, rotation.product(rotation.between(axis_i, self.axis_j), on_i)

    @property
    def given_frames(self):
        """Euler parameters of the joint frames in both bodies if they were given as frames, (None, None) if by axes."""
        return (None, None) if self.frame_i is None and self.frame_j is None else self.frame_parameters

    @property
    def axes_i(self) -> Float[Array, "3 3"]:
        """Axes of the joint frame in body i, as columns."""
        return self._axes(self.frame_parameters[0])

    @property
    def axes_j(self) -> Float[Array, "3 3"]:
        """Axes of the joint frame in body j, as columns."""
        return self._axes(self.frame_parameters[1])

    def _axes(self, parameters):
        """Return the columns of the axes of a frame with these Euler parameters; those of the body for None."""
        return jnp.eye(3, dtype=self.point_i.dtype) if parameters is None else rotation.matrix(parameters)

    def advance(self, i: Pose, j: Pose) -> Float[Array, ""]:
        """Return the directed distance of point_j from point_i along the z axis of the joint frame on i."""
        return i.direction(self.axes_i[:, 2]) @ self.separation(i, j)

    def turn(self, i: Pose, j: Pose) -> Float[Array, "4"]:
        """Return Euler parameters (4,) of the joint frame on j relative to that on i."""
        return i.relative(j, *self.frame_parameters)

    def mobility_along(self, slides: tuple[int, ...], free: tuple[int, ...], **given) -> Mobility:
        """Return the mobility of a joint with slides along some axes of its frame, and free components of the Euler vector.

        The axes and the components are given by their indices, further fields of `Mobility` by name.
        """
        (frame_i, frame_j), axes = self.frame_parameters, self.axes_i
        same = frame_i is frame_j
        parts = [rotation.identity(axes.dtype) if p is None else p for p in (frame_i, frame_j)]
        return Mobility(
            self.point_i,
            self.point_j,
            jnp.stack([axes[:, k] for k in slides], axis=1) if slides else None,
            free_turning(axes, free),
            neutral=None if same else rotation.product(parts[0], rotation.inverse(parts[1])),
            held=None if free else Sign(),
            **given,
        )

    def components(self, i, force, torque):
        """Return one vector (6,): force and torque, from the ground frame to the joint's frame on body i."""
        axes = self.axes_i
        return jnp.concatenate([axes.T @ i.components(force), axes.T @ i.components(torque)])

    def check(self):
        """Raise `ValueError` for axes without length, frames that are not rotations, or axes and frames together."""
        super().check()
        for name in ("i", "j"):
            axis, frame = getattr(self, f"axis_{name}"), getattr(self, f"frame_{name}")
            both = (
                f"axis_{name} and frame_{name} exclude each other: the third column of frame_{name} is the axis already"
            )
            require(axis is None or frame is None, f"{both}; a Frame as point_{name} has frame_{name} in it")
            check_frame(f"frame_{name}", frame)
        mixed = self.axis_i is not None and self.frame_j is not None
        mixed = mixed or (self.frame_i is not None and self.axis_j is not None)
        both = "give axes or frames, not an axis on one body and a frame on the other"
        require(not mixed, f"{both}: the angle between their x axes is left open")


def _origin_and_axes(point, frame):
    """Return the origin and the axes of a joint frame from a point or a `Frame`, and a matrix or None."""
    if isinstance(point, Frame):
        return as_given(point, "origin"), as_given(point, "axes") if frame is None else frame
    return point, frame


def check_axis(name: str, axis) -> None:
    """Raise `ValueError` for a known axis of no length."""
    known = axis is not None and is_concrete(axis)
    require(not known or np.any(np.asarray(axis) != 0), f"{name} has no length")


def unit(axis) -> Float[Array, "3"]:
    """Return an axis scaled to length 1; NaN for zero."""
    axis = jnp.asarray(axis)
    return axis / jnp.sqrt(axis @ axis)
