"""Rotations of space as coordinates: about one axis, about two, of a homokinetic joint, of a ball."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.mobility import AbstractTurning
from jaxmbs.numerics import rotation
from jaxmbs.numerics.rotation import cross
from jaxmbs.numerics.space import Constants, Manifold

# Orientation angles count as singular if a body will be at cos θ₂ = 0 in at most this many steps at the present rates.
MAX_STEPS_AHEAD = 8
# Orientation angles also count as singular if a body passes beside cos θ₂ = 0 at a distance of at most this many steps.
# A body that passes farther away is resolved by its steps.
MAX_STEPS_BESIDE = 2


class Rotations(Manifold):
    """Euler parameters p with velocities ω in the frame that turns: ṗ = ½ p ∘ (0, ω)."""

    @staticmethod
    def rate(q, v):
        """Return ṗ = ½ p ∘ (0, ω) for the angular velocity ω in the frame that turns."""
        return rotation.rate(q, v)

    retract = staticmethod(rotation.turned)
    chart_rate = staticmethod(rotation.chart_rate)
    normalised = staticmethod(rotation.normalised)

    @staticmethod
    def difference(q, other):
        """Return the Euler vector (3,), in the frame that turns, from q to other: at most a half turn."""
        return rotation.log(rotation.product(rotation.inverse(q), other))

    @staticmethod
    def extent(q):
        """Return zeros (3,): rotations have no extent."""
        return jnp.zeros(3, q.dtype)


class SpatialTurning(AbstractTurning):
    """A rotation of space, by Euler parameters."""

    def of_either_sign(self):
        """Return this rotation with the sign of its Euler parameters as a further constant coordinate."""
        return Signed(self)

    def _with_sign(self, angles, p, index: int = 0):
        """Return angles that give p, from some that give p or −p: number `index` may get a full turn more."""
        opposite = self.rotation(angles) @ p < 0
        turn = jnp.where(opposite, jnp.where(angles[index] > 0, -2, 2) * jnp.pi, 0)
        return angles.at[index].add(turn.astype(angles.dtype))


class Turn(SpatialTurning):
    """A rotation by an angle φ about an axis of body i.

    Args:
        axis: (3,), unit vector.
    """

    axis: Array

    coordinates: ClassVar[tuple[str, ...]] = ("phi",)
    velocities: ClassVar[tuple[str, ...]] = coordinates
    wraps: ClassVar[bool] = True

    def rotation(self, rho):
        """Return Euler parameters of the rotation by φ about the axis."""
        return _about(self.axis, rho[0])

    def axes(self, rho):
        """Return the axis as the column of H (3, 1)."""
        return self.axis[:, None]

    def drift(self, rho, w):
        """Return Ḣ w = 0."""
        return jnp.zeros(3, w.dtype)

    def coordinates_of(self, rotation):
        """Return (φ,) in (−π, π], the angle about the axis; a rotation about other axes is left out."""
        along = rotation[1:] @ self.axis
        return jnp.arctan2(2 * along * rotation[0], rotation[0] ** 2 - along**2)[None]

    def signed_coordinates_of(self, rotation):
        """Return (φ,) in (−2π, 2π], different for Euler parameters p and −p."""
        return 2 * jnp.arctan2(rotation[1:] @ self.axis, rotation[0])[None]


class TwoTurns(SpatialTurning):
    """A rotation by α about an axis of body i, then by β about another axis, perpendicular to it, that turns with α.

    Args:
        first: (3,), unit vector of the first axis.
        second: (3,), unit vector of the second axis, for α = 0.
    """

    first: Array
    second: Array

    coordinates: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    velocities: ClassVar[tuple[str, ...]] = coordinates
    wraps: ClassVar[bool] = True

    def rotation(self, rho):
        """Return Euler parameters of the rotation by α about the first axis, then by β about the second."""
        return rotation.product(_about(self.first, rho[0]), _about(self.second, rho[1]))

    def axes(self, rho):
        """Return H (3, 2): the first axis, and the second one turned by α, in body i."""
        turned = jnp.cos(rho[0]) * self.second + jnp.sin(rho[0]) * cross(self.first, self.second)
        return jnp.stack([self.first, turned], axis=1)

    def coordinates_of(self, p):
        """Return (α, β), each in (−π, π], of Euler parameters p."""
        # The second axis after both turns, and the components of the first one in the turned frame.
        a, third = rotation.matrix(p), cross(self.first, self.second)
        second, first = a @ self.second, a.T @ self.first
        alpha = jnp.arctan2(third @ second, self.second @ second)
        return jnp.stack([alpha, jnp.arctan2(third @ first, self.first @ first)])

    def signed_coordinates_of(self, p):
        """Return the angles of Euler parameters p; α has a full turn more if they would give −p."""
        return self._with_sign(self.coordinates_of(p), p)


class Bend(SpatialTurning):
    """A rotation by an Euler vector with two components ρ = (θ_x, θ_y), along two axes of body i.

    Args:
        across: (3, 2), its columns are the unit vectors of the axes.
    """

    across: Array

    coordinates: ClassVar[tuple[str, ...]] = ("theta_x", "theta_y")
    velocities: ClassVar[tuple[str, ...]] = coordinates

    def rotation(self, rho):
        """Return Euler parameters of the rotation by the Euler vector with these two components."""
        return rotation.exp(self.across @ rho)

    def axes(self, rho):
        """Return H (3, 2): the relative angular velocity, in body i, by unit rates of the two components."""
        return rotation.gamma(self.across @ rho) @ self.across

    def coordinates_of(self, p):
        """Return the components of the Euler vector of p along the two axes `across`, without the third one."""
        return self.across.T @ rotation.log(p)


class Ball(AbstractTurning):
    """An arbitrary rotation by Euler parameters, with the relative angular velocity in the frame that turns."""

    coordinates: ClassVar[tuple[str, ...]] = ("e0", "e1", "e2", "e3")
    velocities: ClassVar[tuple[str, ...]] = ("wx", "wy", "wz")
    manifold: ClassVar[type[Manifold]] = Rotations
    replaceable: ClassVar[bool] = True

    def rotation(self, rho):
        """Return ρ, which are Euler parameters."""
        return rho

    def axes(self, rho):
        """Return H (3, 3), the rotation matrix: velocities are those in the frame that turns."""
        return rotation.matrix(rho)

    def drift(self, rho, w):
        """Return Ḣ w = ω × ω = 0."""
        return jnp.zeros(3, w.dtype)

    def coordinates_of(self, p):
        """Return the Euler parameters p unchanged."""
        return p

    @property
    def at_rest(self):
        """Euler parameters of no rotation."""
        return (1.0, 0.0, 0.0, 0.0)


class Angles(SpatialTurning):
    """A rotation by body-fixed angles 1-2-3 of a frame: about its x axis, then the new y, then the new z axis.

    They are singular if cos θ₂ = 0: axes one and three are parallel then.

    Args:
        frame: Euler parameters of the frame in body i; None for the axes of body i.
        signed: index of the angle that gets a full turn more if Euler parameters have the other sign.
        known: indices of prescribed angles.
    """

    frame: Array | None = None
    signed: int = eqx.field(static=True, default=0)
    known: tuple[int, ...] = eqx.field(static=True, default=())

    coordinates: ClassVar[tuple[str, ...]] = ("theta_1", "theta_2", "theta_3")
    velocities: ClassVar[tuple[str, ...]] = coordinates
    wraps: ClassVar[bool] = True

    def _in_frame(self, p):
        """Return Euler parameters p of a rotation, given in the axes of body i, in those of the frame."""
        if self.frame is None:
            return p
        return rotation.product(rotation.product(rotation.inverse(self.frame), p), self.frame)

    def rotation(self, rho):
        """Return Euler parameters of the rotation by the angles ρ, in the axes of body i."""
        if self.frame is None:
            return rotation.from_angles(rho)
        return rotation.product(rotation.product(self.frame, rotation.from_angles(rho)), rotation.inverse(self.frame))

    def axes(self, rho):
        """Return H (3, 3): the axes about which the three angles turn, in body i."""
        (s1, s2), (c1, c2) = jnp.sin(rho[:2]), jnp.cos(rho[:2])
        zero, one = jnp.zeros_like(s1), jnp.ones_like(s1)
        rows = (one, zero, s2), (zero, c1, -s1 * c2), (zero, s1, c1 * c2)
        in_frame = jnp.stack([jnp.stack(row) for row in rows])
        return in_frame if self.frame is None else rotation.matrix(self.frame) @ in_frame

    def coordinates_of(self, p):
        """Return the angles 1-2-3 of Euler parameters p, with |θ₂| ≤ π/2."""
        return rotation.to_angles(self._in_frame(p))

    def signed_coordinates_of(self, p):
        """Return the angles of Euler parameters p; one of them has a full turn more if they would give −p."""
        return self._with_sign(self.coordinates_of(p), p, self.signed)

    def with_sign_of(self, rho, p):
        """Return ρ with its angles that are not prescribed set so that it gives p, also for |θ₂| > π/2.

        ρ is returned unchanged if all angles are prescribed, or none.
        """
        free = [k for k in range(3) if k not in self.known]
        if len(free) in (0, 3):
            return rho
        rest = self._in_frame(p)
        for k in range(free[0]):
            rest = rotation.product(rotation.about(k, -rho[k]), rest)
        for k in reversed(range(free[-1] + 1, 3)):
            rest = rotation.product(rest, rotation.about(k, -rho[k]))
        if len(free) == 1:
            return rho.at[free[0]].set(2 * jnp.arctan2(rest[1 + free[0]], rest[0]))
        # The remaining rotation is R₂R₃, R₁R₂R₃ or R₁R₂.
        a = rotation.matrix(rest)
        if self.known == (0,):
            pair = jnp.arctan2(a[0, 2], a[2, 2]), jnp.arctan2(a[1, 0], a[1, 1])
        elif self.known == (2,):
            pair = jnp.arctan2(a[2, 1], a[1, 1]), jnp.arctan2(a[0, 2], a[0, 0])
        else:
            sign = jnp.where(jnp.cos(rho[1]) < 0, -1, 1).astype(a.dtype)
            pair = jnp.arctan2(-sign * a[1, 2], sign * a[2, 2]), jnp.arctan2(-sign * a[0, 1], sign * a[0, 0])
        return self._with_sign(rho.at[np.array(free)].set(jnp.stack(pair)), p, self.signed)

    def singular(self, rho, w, h):
        """Return True if cos θ₂ is zero, or so small that steps of length h may pass the singular position too fast."""
        # If one of the angles one and three is prescribed, the other one is unique.
        if {0, 2} & set(self.known):
            return None
        cosine = jnp.cos(rho[1])
        towards, beside = h * w[1], h * w[0] * cosine
        step = (MAX_STEPS_AHEAD * towards) ** 2 + (MAX_STEPS_BESIDE * beside) ** 2
        return cosine**2 <= step + jnp.finfo(rho.dtype).eps


class Signed(AbstractTurning):
    """A rotation by prescribed angles, with a constant sign of the Euler parameters as a further coordinate.

    Args:
        turning: the rotation.
    """

    turning: AbstractTurning

    manifold: ClassVar[type[Manifold]] = Constants

    @property
    def coordinates(self):
        """Names of the inner rotation's coordinates, and "e0" for the sign."""
        return (*self.turning.coordinates, "e0")

    @property
    def velocities(self):
        """Names of the inner rotation's velocities; the sign has none."""
        return self.turning.velocities

    def rotation(self, rho):
        """Return the Euler parameters of the inner rotation, multiplied by the sign."""
        return rho[-1] * self.turning.rotation(rho[:-1])

    def axes(self, rho):
        """Return H of the inner rotation."""
        return self.turning.axes(rho[:-1])

    def drift(self, rho, w):
        """Return Ḣ w of the inner rotation."""
        return self.turning.drift(rho[:-1], w)

    def coordinates_of(self, rotation):
        """Return the coordinates of the inner rotation, and the sign 1."""
        return jnp.append(self.turning.coordinates_of(rotation), jnp.ones((), rotation.dtype))

    def with_sign_of(self, rho, rotation):
        """Return ρ with its last entry, the sign, set to that of the given Euler parameters."""
        opposite = self.turning.rotation(rho[:-1]) @ rotation < 0
        return rho.at[-1].set(jnp.where(opposite, -1, 1).astype(rho.dtype))

    @property
    def at_rest(self):
        """Coordinates of no rotation, with the sign 1."""
        return (*self.turning.at_rest, 1.0)

    def singular(self, rho, w, h):
        """Return True if the inner rotation is singular, or nearly; None if it never is."""
        return self.turning.singular(rho[:-1], w, h)


class Sign(AbstractTurning):
    """No rotation, with a constant sign of the Euler parameters as the only coordinate."""

    coordinates: ClassVar[tuple[str, ...]] = ("e0",)
    velocities: ClassVar[tuple[str, ...]] = ()
    manifold: ClassVar[type[Manifold]] = Constants

    def rotation(self, rho):
        """Return the Euler parameters (±1, 0, 0, 0) of no rotation."""
        return jnp.append(rho, jnp.zeros(3, rho.dtype))

    def axes(self, rho):
        """Return H without columns (3, 0): there is no rotation."""
        return jnp.zeros((3, 0), rho.dtype)

    def drift(self, rho, w):
        """Return Ḣ w = 0."""
        return jnp.zeros(3, rho.dtype)

    def coordinates_of(self, p):
        """Return the sign of e0 of Euler parameters p, (1,)."""
        return jnp.where(p[:1] < 0, -1, 1).astype(p.dtype)

    @property
    def at_rest(self):
        """The sign 1."""
        return (1.0,)


def free_turning(axes, free: tuple[int, ...]) -> AbstractTurning | None:
    """Return the rotation by the free components of an Euler vector along the columns of `axes` (3, 3); None for none."""
    if len(free) == 1:
        return Turn(axes[:, free[0]])
    if len(free) == 2:
        return Bend(jnp.stack([axes[:, k] for k in free], axis=1))
    return Ball() if free else None


def _about(axis, angle):
    """Return Euler parameters of the rotation by an angle about a unit vector."""
    return jnp.append(jnp.cos(angle / 2), jnp.sin(angle / 2) * axis)
