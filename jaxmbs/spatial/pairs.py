"""Lower pairs, special cases of the total joint; after Masarati 2013.

In all of them some components of the relative position and of the relative orientation vanish. The position is that of
point_j in the joint frame on i, minus the prescribed one. The orientation is the Euler vector ε of R R₀ᵀ, the relative
rotation of the joint frames times the transpose of the prescribed one. Φ has 2 sin(‖ε‖/2) ε/‖ε‖, twice the vector part of
the Euler parameters of R R₀ᵀ: it has the same zeros as ε and the same derivative there, is a polynomial of the Euler
parameters of the bodies, and, unlike ε, has no jump if the free part of ε passes π.
"""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import Shared, require
from jaxmbs.spatial.element import Frames

# Argument of a joint's component that is free.
FREE = "free"
# Argument of a joint's component that is fixed at zero.
FIXED = "fixed"
# Indices of the three components of a position or an orientation.
ALL = (0, 1, 2)


def position_rows(joint: Frames, held, i, j) -> list:
    """Return the `held` components of d_ij in the joint frame on i; if all are held, those in the ground frame."""
    d = joint.separation(i, j)
    if held == ALL:
        return list(d)
    return [i.direction(joint.axes_i[:, k]) @ d for k in held]


def orientation_rows(held, p: Float[Array, "4"]) -> list:
    """Return 2 e_k for each index k in `held`, with e the vector part of the Euler parameters p."""
    if held == ALL:
        # p and −p are the same rotation: with this choice multipliers are torques for both.
        p = jnp.where(p[0] < 0, -p, p)
    return [2 * p[1 + k] for k in held]


def _free_components(held) -> tuple[int, ...]:
    """Return the indices 0, 1, 2 that are not in `held`."""
    return tuple(k for k in ALL if k not in held)


class LowerPair(Frames):
    """A joint that holds components of the relative position and orientation in its frame; z is its axis.

    Attributes:
        position: indices of the held components of the position.
        orientation: indices of the held components of the orientation.
    """

    position: ClassVar[tuple[int, ...]]
    orientation: ClassVar[tuple[int, ...]]

    def residual(self, i, j, t):
        """Return Φ: the held components of the position, then 2 e_k for the held components of the orientation."""
        rows = position_rows(self, self.position, i, j)
        rows += orientation_rows(self.orientation, self.turn(i, j)) if self.orientation else []
        return jnp.stack(rows) if rows else jnp.zeros(0, i.r.dtype)

    @property
    def freedom(self):
        """Number of relative velocities: of the six components those that are not held."""
        return 6 - self.rows

    @property
    def mobility(self):
        """Relative coordinates: slides along, and rotations about, axes of the joint frame on i that are not held."""
        return self.mobility_along(_free_components(self.position), _free_components(self.orientation))

    @property
    def shared(self):
        """The point if all positions are held, the unit vector of the axis if rotations about x and y are held."""
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
    """Hinge: Φ = (d_ij, 2 e_x, 2 e_y) with the Euler parameters e of frame j relative to frame i. 5 equations.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the axis in each body frame, the origins unless given; or a `Frame` of each body,
            which has origin and axes.
        axis_i, axis_j: the axis in the body frames, z unless given; `axis_j` as `axis_i` unless given. Joint frame j is
            joint frame i turned by the shortest rotation that takes axis_i to axis_j. The joint angle is zero if the two
            frames coincide: with equal axes, if the bodies are parallel. The x and y axes of joint frame i are those of
            body i, turned by the shortest rotation that takes its z axis to axis_i.
        frame_i, frame_j: instead of the axes: 3×3 matrices, whose columns are the axes of the joint frames in the body
            frames; the third is the axis of the joint; `frame_j` as `frame_i` unless given.

    Examples:
        >>> hinge = spatial.Revolute("ground", "door", (0, 0, 0), (0, 0, 0), axis_i=(0, 0, 1))
        >>> mech = mbs.Mechanism({"door": spatial.Body()}, {"hinge": hinge})
        >>> door = spatial.coordinates((0.1, 0.2, 0.3), rotated=(jnp.pi / 3, 0, 0))
        >>> print(mbs.constraints(mech, {"door": door}).round(6))  # lifted by 0.3, and turned about x: 2 sin 30°
        [0.1 0.2 0.3 1.  0. ]
    """

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = (0, 1)


class Prismatic(LowerPair):
    """The bodies slide along the axis without turning: Φ = (d_x, d_y, 2 e) in the joint frame on i. 5 equations.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the axis in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the axis along which the bodies slide, as for `Revolute`.

    Examples:
        >>> guide = spatial.Prismatic("ground", "slider", axis_i=(0, 0, 1))
        >>> mech = mbs.Mechanism({"slider": spatial.Body()}, {"guide": guide})
        >>> print(mbs.constraints(mech, {"slider": spatial.coordinates((0.1, 0.2, 5))}).round(6))
        [0.1 0.2 0.  0.  0. ]
    """

    position: ClassVar[tuple[int, ...]] = (0, 1)
    orientation: ClassVar[tuple[int, ...]] = ALL


class Cylindrical(LowerPair):
    """The bodies slide along an axis and turn about it: Φ = (d_x, d_y, 2 e_x, 2 e_y). 4 equations.

    The components are those in the joint frame on i.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the axis in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the axis and the zero of the joint angle, as for `Revolute`.

    Examples:
        >>> guide = spatial.Cylindrical("ground", "rod", axis_i=(0, 0, 1))
        >>> mech = mbs.Mechanism({"rod": spatial.Body()}, {"guide": guide})
        >>> rod = spatial.coordinates((0.1, 0.2, 5), rotated=(0, 0, 1))
        >>> print(mbs.constraints(mech, {"rod": rod}).round(6))
        [0.1 0.2 0.  0. ]
    """

    position: ClassVar[tuple[int, ...]] = (0, 1)
    orientation: ClassVar[tuple[int, ...]] = (0, 1)


class Spherical(LowerPair):
    """Ball and socket, two points coincide: Φ = d_ij. 3 equations.

    Axes and frames only change the directions of `Reaction.components`, and the zero of the rotation in joint
    coordinates.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centre of the ball in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the joint frames, as for `Revolute`.

    Examples:
        >>> ball = spatial.Spherical("ground", "arm", (0, 0, 0), (-1, 0, 0))
        >>> mech = mbs.Mechanism({"arm": spatial.Body()}, {"ball": ball})
        >>> print(mbs.constraints(mech, {"arm": spatial.coordinates((1.5, 0.25, 0))}))
        [0.5  0.25 0.  ]
    """

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = ()


class Planar(LowerPair):
    """A body slides on a plane of the other and turns about its normal: Φ = (d_z, 2 e_x, 2 e_y). 3 equations.

    The components are those in the joint frame on i; point_j stays in the plane through point_i across the axis.

    Args:
        i, j: names of the bodies.
        point_i, point_j: a point of the plane in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the normal of the plane and the zero of the joint angle, as for `Revolute`.

    Examples:
        >>> mech = mbs.Mechanism({"puck": spatial.Body()}, {"table": spatial.Planar("ground", "puck")})
        >>> puck = spatial.coordinates((3, 4, 0.25), rotated=(0, 0, 1))
        >>> print(mbs.constraints(mech, {"puck": puck}).round(6))
        [0.25 0.   0.  ]
    """

    position: ClassVar[tuple[int, ...]] = (2,)
    orientation: ClassVar[tuple[int, ...]] = (0, 1)


class Rigid(LowerPair):
    """The joint frames on both bodies coincide: Φ = (d_ij, 2 e). 6 equations.

    Args:
        i, j: names of the bodies.
        point_i, point_j: origins of the joint frames in the body frames, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the joint frames, as for `Revolute`.

    Examples:
        >>> mech = mbs.Mechanism({"base": spatial.Body()}, {"weld": spatial.Rigid("ground", "base", (1, 0, 0))})
        >>> print(mbs.constraints(mech, {"base": spatial.coordinates((1.5, 0, 0))}).round(6))
        [0.5 0.  0.  0.  0.  0. ]
    """

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = ALL


class Free(LowerPair):
    """A joint without constraints, which names two bodies for formulations in relative coordinates. Φ is empty.

    Its joint coordinates x, y, z are those of point_j from point_i along the axes of body i, or along those of
    `frame_i`. There is no axis to turn about or to slide along, so an axis is refused.

    Args:
        i, j: names of the bodies.
        point_i, point_j: origins of the joint frames in the body frames; or `Frame`s of the bodies, origin and axes.
        axis_i, axis_j: not allowed.
        frame_i, frame_j: 3×3, columns are the axes of the joint frames in the body frames; those of the bodies unless
            given.

    Examples:
        >>> mech = mbs.Mechanism({"ship": spatial.Body()}, {"sea": spatial.Free("ground", "ship", (1, 0, 0))})
        >>> theta = mbs.JointCoordinates().of(mech).coordinates({"ship": spatial.coordinates((3, 0, 0))})
        >>> print(theta)  # x, y, z, then Euler parameters
        [2. 0. 0. 1. 0. 0. 0.]
    """

    position: ClassVar[tuple[int, ...]] = ()
    orientation: ClassVar[tuple[int, ...]] = ()

    def check(self):
        """Raise `ValueError` for an axis, which the joint does not have, or for wrong shapes."""
        for name in ("axis_i", "axis_j"):
            require(
                getattr(self, name) is None,
                f"{name} has no place in a Free, which has no axis; for x, y, z along other directions than those of body "
                "i give frame_i",
            )
        super().check()


class ConstantVelocity(LowerPair):
    """Homokinetic joint of two shafts: Φ = (d_ij, 2 e_z); Masarati and Morandini 2008. 4 equations.

    The Euler vector of the relative rotation has no component along the axis, so both shafts turn with the same speed
    at every bend below π.

    Args:
        i, j: names of the bodies.
        point_i, point_j: centre of the joint in each body frame, or a `Frame` of each body, as for `Revolute`.
        axis_i, axis_j, frame_i, frame_j: the shafts, as for `Revolute`.

    Examples:
        >>> joint = spatial.ConstantVelocity("ground", "shaft")
        >>> mech = mbs.Mechanism({"shaft": spatial.Body()}, {"joint": joint})
        >>> bent, turned = (spatial.coordinates(rotated=vector) for vector in ((1, 0, 0), (0, 0, jnp.pi / 3)))
        >>> print(mbs.constraints(mech, {"shaft": bent}).round(6), mbs.constraints(mech, {"shaft": turned}).round(6))
        [0. 0. 0. 0.] [0. 0. 0. 1.]
    """

    position: ClassVar[tuple[int, ...]] = ALL
    orientation: ClassVar[tuple[int, ...]] = (2,)
