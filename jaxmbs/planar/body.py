"""The rigid body of the plane and its pose."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import AbstractBody, check_mass, check_not_negative, check_positive
from jaxmbs.mobility import Mobility
from jaxmbs.numerics.arrays import as_real, check_fields, is_plain_zero, known, real
from jaxmbs.numerics.plane import perpendicular, rotation_matrix
from jaxmbs.planar.turning import Turn


class Pose(NamedTuple):
    """Position and angle of a body in the plane. A point s of the body is at r + A(φ) s in the ground frame.

    Its velocities are v = (ẋ, ẏ, φ̇), its generalized forces (F_x, F_y, torque about the origin).

    Attributes:
        r: (2,), position of its origin in the ground frame.
        phi: its angle in radians.
        turn: (2, 2), the rotation matrix A(φ) if it has been computed already.

    Examples:
        >>> pose = planar.Pose(jnp.array([1.0, 2.0]), jnp.array(jnp.pi / 2))
        >>> print(pose.point((0.5, 0.25)).round(6))
        [0.75 2.5 ]
    """

    r: Float[Array, "2"]
    phi: Float[Array, ""]
    turn: Float[Array, "2 2"] | None = None

    @property
    def a(self) -> Float[Array, "2 2"]:
        """A(φ), whose columns are the body's axes in the ground frame."""
        return rotation_matrix(self.phi) if self.turn is None else self.turn

    def point(self, s: Float[Array, "2"] | tuple) -> Float[Array, "2"]:
        """Return r + A s: the point with body coordinates `s`, in the ground frame; Haug (2.4.8)."""
        return self.r + self.direction(s)

    def direction(self, v: Float[Array, "2 *m"] | tuple) -> Float[Array, "2 *m"]:
        """Return A v: the vector with body components `v`, or those in its columns, in the ground frame."""
        return self.a @ jnp.asarray(v)

    def components(self, w: Float[Array, "2"]) -> Float[Array, "2"]:
        """Return Aᵀ w: the body components of a vector of the ground frame."""
        return self.a.T @ jnp.asarray(w)

    @jax.jit
    def velocity(self, s: Float[Array, "2"] | tuple, v: Float[Array, "3"]) -> Float[Array, "2"]:
        """Return ṙ + φ̇ (A s)⊥: the velocity of the point `s`; Haug (2.5.6)."""
        return v[:2] + v[2] * perpendicular(self.direction(s))

    @jax.jit
    def force_at(self, s: Float[Array, "2"] | tuple, force: Float[Array, "2"]) -> Float[Array, "3"]:
        """Return (F, (A s)⊥ᵀ F): the generalized force of a force F, in the ground frame, at the point `s`."""
        return jnp.append(force, perpendicular(self.direction(s)) @ force)

    def torque(self, value: Float[Array, ""]) -> Float[Array, "3"]:
        """Return (0, 0, T): the generalized force of a torque T = `value`."""
        return jnp.stack([jnp.zeros_like(value), jnp.zeros_like(value), value])

    @staticmethod
    def moment(arm: Float[Array, "2"], force: Float[Array, "2"]) -> Float[Array, ""]:
        """Return arm × force, the moment of a force at the end of an arm about its beginning."""
        return perpendicular(arm) @ force

    @jax.jit
    def load(self, generalized: Float[Array, "3"], s) -> tuple[Float[Array, "2"], Float[Array, ""]]:
        """Return force, in the ground frame, and torque about the body's point s, of a generalized force."""
        force = generalized[:2]
        return force, generalized[2] - perpendicular(self.direction(s)) @ force

    def wrench(self, force: Float[Array, "2"], torque: Float[Array, ""]) -> Float[Array, "3"]:
        """Return (Aᵀ F, T): force and torque in the frame of the body."""
        return jnp.append(self.components(force), torque)

    @property
    def dimension(self) -> int:
        """Number of dimensions, 2."""
        return 2

    @property
    def spins(self) -> int:
        """Number of components of an angular velocity, 1."""
        return 1

    @staticmethod
    def to_ground(x: Float[Array, "3"]) -> Float[Array, "3"]:
        """Return velocities as a twist about the origin, or a generalized force as a wrench; both are unchanged."""
        return x

    @staticmethod
    def to_body(x: Float[Array, "3"]) -> Float[Array, "3"]:
        """Return velocities of a twist, or the generalized force of a wrench: the inverse of `to_ground`."""
        return x

    def moved(self, by: Float[Array, "2"]) -> Pose:
        """Return the pose with its origin moved by a vector of the ground frame."""
        return Pose(self.r + by, self.phi, self.turn)

    def turned(self, angle) -> Pose:
        """Return the pose turned by an angle about its origin; unchanged for None."""
        return self if angle is None else _pose(self.r, self.phi + angle)

    def unturned(self, angle) -> Pose:
        """Return the pose turned back by an angle about its origin; unchanged for None."""
        return self if angle is None else _pose(self.r, self.phi - angle)

    def rotation_to(self, other: Pose) -> Float[Array, ""]:
        """Return the angle with `turned(angle)` parallel to another pose."""
        return other.phi - self.phi

    @staticmethod
    def spin_directions(axes: Float[Array, "1 m"]) -> Float[Array, "1 m"]:
        """Return angular velocities (s, m) in the ground frame, from those in the frame of the body."""
        return axes

    @staticmethod
    def spin_cross(a: Float[Array, "1"], b: Float[Array, "1"]) -> Float[Array, "1"]:
        """Return the cross product of two angular velocities, which is zero in the plane."""
        return jnp.zeros_like(a)

    @staticmethod
    def lever(arm: Float[Array, "2"]) -> Float[Array, "2 1"]:
        """Return L with L ω = ω × arm, the velocity of the end of the arm."""
        return perpendicular(arm)[:, None]

    def axis(self, axis_i=None) -> float:
        """Return 1, which stands for the axis of all rotations: torques in the plane are numbers."""
        return 1.0

    def angle_to(self, other: Pose, axis_i=None, axis_j=None) -> Float[Array, ""]:
        """Return the angle by which another body is turned from this one, with all turns."""
        return other.phi - self.phi

    def spin_to(self, other: Pose, v_i, v_j, axis_i=None) -> Float[Array, ""]:
        """Return φ̇_j − φ̇_i, the angular velocity of the other body (v_j) relative to this one (v_i)."""
        return v_j[2] - v_i[2]


@jax.jit
def _pose(r, phi) -> Pose:
    """Return the pose with origin r and angle phi, with its rotation matrix computed."""
    return Pose(r, phi, rotation_matrix(phi))


class Body(AbstractBody):
    """A rigid body with coordinates (x, y, φ) of its frame and kinetic energy T = ½ m ṙ_cᵀṙ_c + ½ J φ̇².

    Args:
        mass: m, positive; 1 unless given. A plain 0 makes a massless body, such as a rod or a jack, whose motion
            constraints and other bodies determine.
        inertia: J, about the centre of mass, not negative; 1 unless given, or 0 if the mass is a plain 0. A plain 0 makes
            a point mass. Zeros of both are part of the structure, not numbers that can be changed or differentiated.
        com: (2,), centre of mass in the body frame; the origin unless given.

    Examples:
        >>> mech = mbs.Mechanism({"a": planar.Body(mass=2.0, inertia=0.5, com=(0.1, 0))})
        >>> print(mbs.Augmented().of(mech).mass_matrix(jnp.zeros(3)).round(6))
        [[2.   0.   0.  ]
         [0.   2.   0.2 ]
         [0.   0.2  0.52]]
    """

    mass: Array = real()
    _inertia: Array | None = real(optional=True)
    _com: Array | None = real((2,), optional=True)
    # True if the mass is a plain 0.
    weightless: bool = eqx.field(static=True)

    dimension: ClassVar[int] = 2
    coordinates: ClassVar[tuple[str, ...]] = ("x", "y", "phi")
    velocities: ClassVar[tuple[str, ...]] = coordinates
    angular: ClassVar[tuple[bool, ...]] = (False, False, True)

    def __init__(self, mass=1.0, inertia=None, com=None):
        self.mass, self.weightless = mass, is_plain_zero(mass)
        # None stands for zero, and costs nothing in the programs made from the equations.
        inertia = as_real(float(not self.weightless) if inertia is None else inertia)
        self._inertia = None if is_plain_zero(inertia) else inertia
        self._com = com

    @property
    def inertia(self) -> Array:
        """Moment of inertia about the centre of mass."""
        return jnp.zeros_like(self.mass) if self._inertia is None else self._inertia

    @property
    def com(self) -> Array:
        """Centre of mass in the body frame, (2,)."""
        return jnp.zeros(2, self.mass.dtype) if self._com is None else self._com

    @property
    def massless(self) -> tuple[bool, ...]:
        """True for each velocity without inertia: ẋ and ẏ if the mass is a plain 0, φ̇ if the inertia is a plain 0."""
        return (self.weightless, self.weightless, self._inertia is None)

    @property
    def known_inertia(self):
        """Mass, inertia and centre of mass as given; None for each that is traced or stands for a plain zero."""
        return known(self.mass), known(self._inertia), known(self._com)

    @staticmethod
    def pose(q: Float[Array, "3 *batch"]) -> Pose:
        """Return the pose with coordinates q = (x, y, φ)."""
        return _pose(q[:2], q[2])

    @staticmethod
    def coordinates_of(pose: Pose) -> Float[Array, "3"]:
        """Return q = (x, y, φ) of a pose."""
        return jnp.append(pose.r, pose.phi)

    @staticmethod
    def floating(dtype, *, angles=False):
        """Return the mobility of a body that no joint holds: x, y and φ on the ground."""
        del angles
        origin = jnp.zeros(2, dtype)
        return Mobility(origin, origin, jnp.eye(2, dtype=dtype), Turn())

    @staticmethod
    def ground(dtype) -> Float[Array, "3"]:
        """Return the coordinates of the ground frame."""
        return jnp.zeros(3, dtype)

    def centre_of_mass(self, pose: Pose) -> Float[Array, "2"]:
        """Return the centre of mass in the ground frame."""
        return pose.r if self._com is None else pose.point(self._com)

    @jax.jit
    def mass_matrix(self, pose: Pose) -> Float[Array, "3 3"]:
        """Return M = [[m I, m b], [m bᵀ, J + m bᵀb]] with b = (A s)⊥ for the centre of mass s in the body frame."""
        mass, inertia = jnp.asarray(self.mass), jnp.asarray(self.inertia)
        if self._com is None:
            return jnp.diag(jnp.stack([mass, mass, inertia]))
        arm = perpendicular(pose.direction(self.com))
        first = mass * jnp.eye(2, dtype=mass.dtype)
        coupling = mass * arm
        last = jnp.append(coupling, inertia + coupling @ arm)
        return jnp.concatenate([jnp.concatenate([first, coupling[:, None]], axis=1), last[None]])

    @jax.jit
    def velocity_force(self, pose: Pose, v: Float[Array, "3"]) -> Float[Array, "3"]:
        """Return (m φ̇² A s, 0), the centrifugal force with the centre of mass s: M v̇ = Q + velocity_force."""
        if self._com is None:
            return jnp.zeros_like(v)
        return jnp.append(self.mass * v[2] ** 2 * pose.direction(self.com), 0)

    @jax.jit
    def kinetic_energy(self, pose: Pose, v: Float[Array, "3"]) -> Float[Array, ""]:
        """Return ½ m ṙ_cᵀṙ_c + ½ J φ̇² with v = (ẋ, ẏ, φ̇) and the velocity ṙ_c of the centre of mass."""
        velocity = v[:2] if self._com is None else pose.velocity(self.com, v)
        return (self.mass * velocity @ velocity + self.inertia * v[2] ** 2) / 2

    def check(self) -> None:
        """Raise `ValueError` for wrong shapes, a mass that is not positive nor a plain 0, a negative inertia."""
        check_fields(self)
        check_mass(self)
        check_not_negative(self, "_inertia")


class Rotor(Body):
    """A moment of inertia without mass: T = ½ J φ̇² with the angle φ of the rotor in the ground frame.

    It stands for a motor, a flywheel or a gear that is pinned to a carrier or the ground. Its mass belongs to the
    carrier.

    Args:
        inertia: J, positive.

    Examples:
        >>> pin = planar.Revolute("ground", "rotor", (0, 0), (0, 0))
        >>> mech = mbs.Mechanism({"rotor": planar.Rotor(0.02)}, {"pin": pin})
        >>> print(mbs.energy(mech, {"rotor": (0, 0, 0)}, mech.velocities({"rotor.phi": 10.0})).kinetic)
        1.0
    """

    def __init__(self, inertia=1.0):
        super().__init__(0.0, inertia)

    def check(self) -> None:
        """Raise `ValueError` for wrong shapes, or an inertia that is not positive."""
        check_fields(self)
        check_positive(self, "inertia")
