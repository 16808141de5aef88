"""The rigid body of space and its pose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.element import AbstractBody, check_mass, require
from jaxmbs.mobility import Mobility
from jaxmbs.numerics import arrays, rotation
from jaxmbs.numerics.arrays import as_real, check_fields, is_concrete, real, with_known_zeros
from jaxmbs.numerics.rotation import cross, skew
from jaxmbs.numerics.space import Manifold
from jaxmbs.spatial.frame import Frame, check_frame, check_frames
from jaxmbs.spatial.turning import Angles, Ball, Rotations

# Rounding of moments of inertia, relative to the largest: how far one may be negative or exceed the sum of the others.
INERTIA_ROUNDING = 1e-6


class Pose(NamedTuple):
    """Position and rotation of a body in space. A point s of the body is at r + A(p) s in the ground frame.

    Its velocities are v = (ṙ, ω) with ω in the frame of the body, its generalized forces (F, torque about the origin in
    the frame of the body).

    Attributes:
        r: (3,), position of its origin in the ground frame.
        p: (4,), its Euler parameters.
        a: (3, 3), the rotation matrix A(p), whose columns are the body's axes in the ground frame.

    Examples:
        >>> pose = spatial.Body.pose(spatial.coordinates((1, 2, 3), rotated=(0, 0, jnp.pi / 2)))
        >>> print(pose.point((0.5, 0, 0)).round(6))
        [1.  2.5 3. ]
    """

    r: Float[Array, "3"]
    p: Float[Array, "4"]
    a: Float[Array, "3 3"]

    def point(self, s: Float[Array, "3"] | tuple) -> Float[Array, "3"]:
        """Return r + A s: the point with body coordinates `s`, in the ground frame."""
        return self.r + self.direction(s)

    def direction(self, v: Float[Array, "3 *m"] | tuple) -> Float[Array, "3 *m"]:
        """Return A v: the vector with body components `v`, or those in its columns, in the ground frame."""
        return self.a @ jnp.asarray(v)

    def components(self, w: Float[Array, "3"]) -> Float[Array, "3"]:
        """Return Aᵀ w: the body components of a vector of the ground frame."""
        return self.a.T @ jnp.asarray(w)

    @jax.jit
    def velocity(self, s: Float[Array, "3"] | tuple, v: Float[Array, "6"]) -> Float[Array, "3"]:
        """Return ṙ + A (ω × s): the velocity of the point `s`."""
        return v[:3] + self.direction(cross(v[3:], jnp.asarray(s)))

    @jax.jit
    def force_at(self, s: Float[Array, "3"] | tuple, force: Float[Array, "3"]) -> Float[Array, "6"]:
        """Return (F, s × Aᵀ F): the generalized force of a force F, in the ground frame, at the point `s`."""
        return jnp.concatenate([force, cross(jnp.asarray(s), self.components(force))])

    def torque(self, value: Float[Array, "3"]) -> Float[Array, "6"]:
        """Return (0, Aᵀ T): the generalized force of a torque in the ground frame."""
        return jnp.concatenate([jnp.zeros_like(value), self.components(value)])

    @staticmethod
    def moment(arm: Float[Array, "3"], force: Float[Array, "3"]) -> Float[Array, "3"]:
        """Return arm × force, the moment of a force at the end of an arm about its beginning."""
        return cross(arm, force)

    @jax.jit
    def load(self, generalized: Float[Array, "6"], s) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Return force, and torque about the body's point s, of a generalized force, both in the ground frame."""
        force = generalized[:3]
        return force, self.direction(generalized[3:]) - cross(self.direction(s), force)

    def wrench(self, force: Float[Array, "3"], torque: Float[Array, "3"]) -> Float[Array, "6"]:
        """Return (Aᵀ F, Aᵀ T): force and torque in the frame of the body."""
        return jnp.concatenate([self.components(force), self.components(torque)])

    def relative(self, other: Pose, frame_i=None, frame_j=None) -> Float[Array, "4"]:
        """Return the orientation of a frame on another body relative to a frame on this one.

        Args:
            other: pose of the other body.
            frame_i: Euler parameters (4,) of the frame in this body; None for the body's own frame.
            frame_j: Euler parameters (4,) of the frame in the other body; None for the body's own frame.

        Returns:
            (4,), Euler parameters.
        """
        on_i = self.p if frame_i is None else rotation.product(self.p, frame_i)
        on_j = other.p if frame_j is None else rotation.product(other.p, frame_j)
        return rotation.product(rotation.inverse(on_i), on_j)

    @property
    def dimension(self) -> int:
        """Number of dimensions, 3."""
        return 3

    @property
    def spins(self) -> int:
        """Number of components of an angular velocity, 3."""
        return 3

    def to_ground(self, x: Float[Array, "6"]) -> Float[Array, "6"]:
        """Return velocities as a twist about the origin, or a generalized force as a wrench, in the ground frame."""
        return jnp.concatenate([x[:3], self.a @ x[3:]])

    def to_body(self, x: Float[Array, "6"]) -> Float[Array, "6"]:
        """Return velocities of a twist, or the generalized force of a wrench: the inverse of `to_ground`."""
        return jnp.concatenate([x[:3], self.a.T @ x[3:]])

    def moved(self, by: Float[Array, "3"]) -> Pose:
        """Return the pose with its origin moved by a vector of the ground frame."""
        return Pose(self.r + by, self.p, self.a)

    def turned(self, p: Float[Array, "4"] | None) -> Pose:
        """Return the pose turned about its origin by Euler parameters in its own frame, unchanged for None."""
        if p is None:
            return self
        product = rotation.product(self.p, p)
        return Pose(self.r, product, rotation.matrix(product))

    def unturned(self, p: Float[Array, "4"] | None) -> Pose:
        """Return the pose turned back by Euler parameters, so that `turned` undoes it; unchanged for None."""
        return self if p is None else self.turned(rotation.inverse(p))

    def rotation_to(self, other: Pose) -> Float[Array, "4"]:
        """Return the Euler parameters p with `turned(p)` parallel to another pose."""
        return self.relative(other)

    def spin_directions(self, axes: Float[Array, "3 m"]) -> Float[Array, "3 m"]:
        """Return angular velocities (3, m) in the ground frame, from those in the frame of the body."""
        return self.a @ axes

    @staticmethod
    def spin_cross(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
        """Return the cross product of two angular velocities."""
        return cross(a, b)

    @staticmethod
    def lever(arm: Float[Array, "3"]) -> Float[Array, "3 3"]:
        """Return L with L ω = ω × arm, the velocity of the end of the arm."""
        return skew(-arm)

    def axis(self, axis_i) -> Float[Array, "3"]:
        """Return the unit vector along axis_i, which is given in this body, in the ground frame."""
        return self.direction(axis_i / jnp.sqrt(axis_i @ axis_i))

    def angle_to(self, other: Pose, axis_i, axis_j) -> Float[Array, ""]:
        """Return the angle by which another body is turned from this one about their common axis.

        It is zero if the other body is turned from this one by the shortest rotation that takes axis_j to axis_i: with
        equal axes, if the bodies are parallel.

        Args:
            other: pose of the other body.
            axis_i: (3,), the axis in this body, of any length.
            axis_j: (3,), the axis in the other body; None if both bodies have the same axis.

        Returns:
            The angle in radians, in (−π, π].
        """
        bent = None if axis_j is None else rotation.between(axis_i, axis_j)
        p = self.relative(other, None, bent)
        along = p[1:] @ axis_i / jnp.sqrt(axis_i @ axis_i)
        return jnp.arctan2(2 * along * p[0], p[0] ** 2 - along**2)

    def spin_to(self, other: Pose, v_i, v_j, axis_i) -> Float[Array, ""]:
        """Return the angular velocity of another body relative to this one about an axis of this one."""
        return self.axis(axis_i) @ (other.direction(v_j[3:]) - self.direction(v_i[3:]))


class Poses(Manifold):
    """Coordinates (r, p) with velocities (ṙ, ω); p as in `Rotations`."""

    @staticmethod
    def rate(q, v):
        """Return (ṙ, ṗ) for v = (ṙ, ω)."""
        return jnp.concatenate([v[:3], Rotations.rate(q[3:], v[3:])])

    @staticmethod
    def retract(q, d):
        """Return (r, p) moved by d (6,): a displacement of r, then an Euler vector in the frame of the body."""
        return jnp.concatenate([q[:3] + d[:3], Rotations.retract(q[3:], d[3:])])

    @staticmethod
    def difference(q, other):
        """Return d (6,), q ⊕ d = other: displacement in ground axes, then the Euler vector in the body's, |θ| ≤ π."""
        return jnp.concatenate([other[:3] - q[:3], Rotations.difference(q[3:], other[3:])])

    @staticmethod
    def chart_rate(d, v):
        """Return ḋ (6,) if q ⊕ d moves with the velocity v = (ṙ, ω)."""
        return jnp.concatenate([v[:3], Rotations.chart_rate(d[3:], v[3:])])

    @staticmethod
    def extent(q):
        """Return r followed by three zeros: rotations have no extent."""
        return jnp.concatenate([q[:3], Rotations.extent(q[3:])])

    @staticmethod
    def normalised(q):
        """Return (r, p) with p of unit length."""
        return jnp.concatenate([q[:3], Rotations.normalised(q[3:])])


class Body(AbstractBody):
    """A rigid body with kinetic energy T = ½ m ṙ_cᵀṙ_c + ½ ωᵀJ ω.

    Its coordinates are (x, y, z, e0, e1, e2, e3), the position and the Euler parameters of its frame, its velocities
    (ẋ, ẏ, ż, ω) with ω in the body frame.

    Args:
        mass: m, positive; 1 unless given. A plain 0 makes a massless body, such as a rod or a jack, whose motion
            constraints and other bodies determine.
        inertia: J about the centre of mass: three principal moments, the 3×3 matrix, or one number if all are equal; 1
            unless given, or 0 if the mass is a plain 0. A plain 0 makes a point mass. This zero, like any principal
            moment given as a plain 0, is part of the structure: about such an axis only constraints can accelerate the
            body.
        com: (3,), centre of mass in the body frame; the origin unless given.
        inertia_frame: 3×3 matrix; its columns are the axes to which `inertia` refers, in the body frame; the axes of
            the body unless given.
        frames: further frames by name, for joints; see `Frame`.

    Examples:
        >>> mech = mbs.Mechanism({"a": spatial.Body(mass=2.0, inertia=(1.0, 2.0, 2.5))})
        >>> print(jnp.diag(mbs.Augmented().of(mech).mass_matrix(spatial.coordinates())))
        [2.  2.  2.  1.  2.  2.5]
    """

    mass: Array = real()
    _inertia: Array | None = eqx.field(converter=with_known_zeros)
    _com: Array | None = real((3,), optional=True)
    inertia_frame: Array | None = real((3, 3), optional=True)
    frames: Mapping[str, Frame]
    # True if a principal moment of inertia is zero.
    slender: bool = eqx.field(static=True)
    # True if the mass is a plain 0.
    weightless: bool = eqx.field(static=True)

    dimension: ClassVar[int] = 3
    coordinates: ClassVar[tuple[str, ...]] = ("x", "y", "z", "e0", "e1", "e2", "e3")
    velocities: ClassVar[tuple[str, ...]] = ("x", "y", "z", "wx", "wy", "wz")
    angular: ClassVar[tuple[bool, ...]] = (False,) * 3 + (True,) * 3
    manifold: ClassVar[type[Manifold]] = Poses

    def __init__(self, mass=1.0, inertia=None, com=None, *, inertia_frame=None, frames=None):
        self.mass, self.weightless = mass, arrays.is_plain_zero(mass)
        inertia = float(not self.weightless) if inertia is None else inertia
        # None stands for zero, and costs nothing in the programs made from the equations.
        given, inertia = inertia, as_real(inertia)
        number = getattr(inertia, "ndim", None) == 0 and inertia.dtype.kind == "f"
        nothing = number and is_concrete(inertia) and inertia == 0
        self.slender = bool(nothing) or _is_singular(inertia)
        self._inertia = None if nothing else inertia * np.ones(3, inertia.dtype) if number else given
        self._com = com
        self.inertia_frame = inertia_frame
        self.frames = dict(frames or {})

    @property
    def inertia(self) -> Float[Array, "3 3"]:
        """Inertia matrix about the centre of mass, in the body frame."""
        if self._inertia is None:
            return jnp.zeros((3, 3), self.mass.dtype)
        inertia = jnp.asarray(self._inertia)
        inertia = jnp.diag(inertia) if inertia.ndim == 1 else inertia
        if self.inertia_frame is None:
            return inertia
        axes = jnp.asarray(self.inertia_frame)
        return axes @ inertia @ axes.T

    @property
    def com(self) -> Float[Array, "3"]:
        """Centre of mass in the body frame, (3,)."""
        return jnp.zeros(3, self.mass.dtype) if self._com is None else self._com

    @property
    def massless(self) -> tuple[bool, ...]:
        """True for each velocity without inertia: ṙ if the mass is a plain 0, all of ω if a moment is zero."""
        return (self.weightless,) * 3 + (self.slender,) * 3

    @property
    def known_inertia(self):
        """Mass, inertia and centre of mass as given; None for each that is traced or stands for a plain zero."""
        return arrays.known(self.mass), arrays.known(self._inertia), arrays.known(self._com)

    @staticmethod
    def pose(q: Float[Array, "7 *batch"]) -> Pose:
        """Return the pose with coordinates q = (r, p)."""
        return Pose(q[:3], q[3:], rotation.matrix(q[3:]))

    @staticmethod
    def coordinates_of(pose: Pose) -> Float[Array, "7"]:
        """Return q = (r, p) of a pose."""
        return jnp.concatenate([pose.r, pose.p])

    @staticmethod
    def floating(dtype, *, angles=False):
        """Return the mobility with (r, p) and (ṙ, ω); or with r and body-fixed angles 1-2-3 and their rates."""
        origin = jnp.zeros(3, dtype)
        return Mobility(origin, origin, jnp.eye(3, dtype=dtype), Angles() if angles else Ball())

    @classmethod
    def rest(cls):
        """Return the coordinates (7,) of a body that a guess does not name: those of the ground frame."""
        return np.array([0.0, 0, 0, 1, 0, 0, 0])

    @staticmethod
    def ground(dtype) -> Float[Array, "7"]:
        """Return the coordinates of the ground frame as an array of JAX."""
        return jnp.array([0.0, 0, 0, 1, 0, 0, 0], dtype)

    def centre_of_mass(self, pose: Pose) -> Float[Array, "3"]:
        """Return the centre of mass in the ground frame."""
        return pose.r if self._com is None else pose.point(self._com)

    def _inertia_about_origin(self):
        """Return the inertia matrix about the origin of the body, in the body frame."""
        if self._com is None:
            return self.inertia
        arm = skew(jnp.asarray(self.com))
        return self.inertia - self.mass * arm @ arm

    @jax.jit
    def mass_matrix(self, pose: Pose) -> Float[Array, "6 6"]:
        """Return M = [[m I, −m A s̃], [m s̃ Aᵀ, J − m s̃ s̃]] with the centre of mass s; ½ vᵀM v is the kinetic energy."""
        mass = jnp.asarray(self.mass)
        first = mass * jnp.eye(3, dtype=mass.dtype)
        zero = jnp.zeros((3, 3), mass.dtype)
        coupling = zero if self._com is None else -mass * pose.a @ skew(jnp.asarray(self.com))
        upper = jnp.concatenate([first, coupling], axis=1)
        return jnp.concatenate([upper, jnp.concatenate([coupling.T, self._inertia_about_origin()], axis=1)])

    @jax.jit
    def velocity_force(self, pose: Pose, v: Float[Array, "6"]) -> Float[Array, "6"]:
        """Return (−m A (ω × (ω × s)), −ω × J_O ω), centrifugal and gyroscopic: M v̇ = Q + velocity_force."""
        omega = v[3:]
        gyroscopic = -cross(omega, self._inertia_about_origin() @ omega)
        if self._com is None:
            return jnp.concatenate([jnp.zeros_like(omega), gyroscopic])
        centrifugal = -self.mass * pose.direction(cross(omega, cross(omega, jnp.asarray(self.com))))
        return jnp.concatenate([centrifugal, gyroscopic])

    @jax.jit
    def kinetic_energy(self, pose: Pose, v: Float[Array, "6"]) -> Float[Array, ""]:
        """Return ½ m ṙ_cᵀṙ_c + ½ ωᵀJ ω."""
        velocity = v[:3] if self._com is None else pose.velocity(self.com, v)
        return (self.mass * velocity @ velocity + v[3:] @ self.inertia @ v[3:]) / 2

    def check(self) -> None:
        """Raise `ValueError` for wrong shapes, a mass that is not positive nor a plain 0, an impossible inertia."""
        check_fields(self)
        check_mass(self)
        check_frame("inertia_frame", self.inertia_frame)
        check_frames(self.frames)
        if self._inertia is not None:
            check_inertia(self._inertia)


def _is_singular(inertia) -> bool:
    """Return True for known moments, or a known matrix, with a smallest moment of zero to rounding."""
    if not is_concrete(inertia) or np.shape(inertia) not in ((3,), (3, 3)) or inertia.dtype.kind != "f":
        return False
    values = np.asarray(inertia, float)
    moments = values if values.ndim == 1 else np.linalg.eigvalsh((values + values.T) / 2)
    return bool(np.min(moments) <= np.finfo(inertia.dtype).eps * np.max(np.abs(values)))


def check_inertia(inertia) -> None:
    """Raise `ValueError` unless these are three moments, or a symmetric matrix, that a rigid body can have."""
    shape = getattr(inertia, "shape", None)
    require(
        shape in ((3,), (3, 3)) and inertia.dtype.kind == "f",
        f"inertia must be a number, three moments, or a 3×3 matrix, got {'shape ' + str(shape) if shape else inertia!r}",
    )
    if not is_concrete(inertia):
        return
    values = np.asarray(inertia, float)
    require(np.all(np.isfinite(values)), f"inertia must be finite, got {values}")
    full = np.diag(values) if values.ndim == 1 else values
    require(np.allclose(full, full.T, rtol=1e-6, atol=1e-9 * np.abs(full).max()), "inertia must be symmetric")
    moments = np.linalg.eigvalsh(full)
    require(moments[0] >= -INERTIA_ROUNDING * moments[2], f"moments of inertia must not be negative, got {moments}")
    require(
        moments[1] > INERTIA_ROUNDING * moments[2] or moments[2] <= 0,
        f"no body has inertia about one axis only, got {moments}: for a motor or a flywheel, use a spatial.Rotor",
    )
    require(
        moments[2] <= (moments[0] + moments[1]) * (1 + INERTIA_ROUNDING),
        f"the largest moment of inertia must not exceed the sum of the others, got {moments}",
    )


def coordinates(
    r: ArrayLike | Sequence[float] = (0.0, 0.0, 0.0), rotated: ArrayLike | Sequence[Any] | None = None
) -> Float[Array, "7"]:
    """Return the coordinates (r, p) of a body in space.

    Args:
        r: (3,), position of its origin in the ground frame.
        rotated: Euler parameters (4,), a rotation matrix (3, 3) whose columns are the body's axes, or an Euler vector
            (3,); not rotated unless given.

    Returns:
        (7,), a position and Euler parameters.

    Raises:
        ValueError: `rotated` has another shape.

    Examples:
        >>> print(spatial.coordinates((1, 2, 3), rotated=(0, 0, jnp.pi / 3)).round(6))
        [1.       2.       3.       0.866025 0.       0.       0.5     ]
    """
    r = jnp.asarray(as_real(r))
    if rotated is None:
        return jnp.concatenate([r, rotation.identity(r.dtype)])
    rotated = jnp.asarray(as_real(rotated))
    make = {(4,): rotation.normalised, (3, 3): rotation.from_matrix, (3,): rotation.exp}
    if rotated.shape not in make:
        raise ValueError(f"rotated must have shape (4,), (3, 3) or (3,), got {rotated.shape}")
    return jnp.concatenate([r, make[rotated.shape](rotated)])
