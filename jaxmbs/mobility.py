"""The mobility of a joint: the relative coordinates of the body that it carries, in the plane and in space.

Every joint that can carry a body in a tree is given by its `mobility`. Positions, velocities and the blocks of the velocity
transformation in relative coordinates follow from it.

A twist is (v, ω): the velocity of a reference point and the angular velocity, both in the ground frame; in the plane
(v_x, v_y, ω). A wrench is (F, T), the torque about the same point.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.space import Flat, Manifold

# Names of the coordinates of slides, by the number of slides of a joint.
SLIDES = {0: (), 1: ("s",), 2: ("x", "y"), 3: ("x", "y", "z")}


class AbstractTurning(eqx.Module):
    """A rotation with coordinates ρ, of the axes of body j against those of body i.

    Attributes:
        coordinates: names of ρ.
        velocities: names of the velocities w.
        manifold: the relation of ρ and w.
        replaceable: True for arbitrary rotations by Euler parameters, which orientation angles can replace.
        wraps: True if ρ are angles, and `coordinates_of` does not count their turns.
    """

    coordinates: ClassVar[tuple[str, ...]]
    velocities: ClassVar[tuple[str, ...]]
    manifold: ClassVar[type[Manifold]] = Flat
    replaceable: ClassVar[bool] = False
    wraps: ClassVar[bool] = False

    @abc.abstractmethod
    def rotation(self, rho: Float[Array, " n"]) -> Any:
        """Return the rotation for `Pose.turned`: an angle in the plane, Euler parameters in space."""

    @abc.abstractmethod
    def axes(self, rho: Float[Array, " n"]) -> Float[Array, "s m"]:
        """Return H(ρ) (s, m): the angular velocity of body j relative to body i is H w, in the axes of body i."""

    def drift(self, rho: Array, w: Array) -> Float[Array, " s"]:
        """Return Ḣ w, the part of the relative angular acceleration without ẇ, in the axes of body i."""
        return jax.jvp(lambda rho: self.axes(rho) @ w, (rho,), (self.manifold.rate(rho, w),))[1]

    @abc.abstractmethod
    def coordinates_of(self, rotation: Any) -> Float[Array, " n"]:
        """Return the coordinates ρ of a rotation, given as by `rotation`; angles are in (−π, π] if they wrap."""

    def signed_coordinates_of(self, rotation: Any) -> Float[Array, " n"]:
        """Return ρ of a rotation; if possible it distinguishes Euler parameters p and −p, with angles in (−2π, 2π]."""
        return self.coordinates_of(rotation)

    @property
    def at_rest(self) -> tuple[float, ...]:
        """The coordinates ρ of no rotation."""
        return (0.0,) * len(self.coordinates)

    def of_either_sign(self) -> AbstractTurning:
        """Return this rotation with a further constant coordinate, 1 or −1, that tells Euler parameters p from −p.

        It is meant for prescribed ρ. Rotations of the plane are returned unchanged.
        """
        return self

    def with_sign_of(self, rho: Float[Array, " n"], rotation: Any) -> Float[Array, " n"]:
        """Return ρ with entries that are not prescribed set so that it gives `rotation`, with the sign of that."""
        del rotation
        return rho

    def singular(self, rho: Float[Array, " n"], w: Float[Array, " m"], h: Array) -> Bool[Array, ""] | None:
        """Return True if some angular velocities need infinite rates at ρ, or nearly, so that steps h are too long there.

        None for rotations that are never singular.
        """
        del rho, w, h
        return None


class PrescribedCoordinates(NamedTuple):
    """Relative coordinates that are prescribed, at some time: values, rates and second rates, each (k,)."""

    x: Float[Array, " k"]
    v: Float[Array, " k"]
    a: Float[Array, " k"]


class FrameMotion(NamedTuple):
    """The motion of a body, or of a frame on it.

    Attributes:
        pose: its pose.
        point: the reference point of its twists, in the ground frame.
        twist: its velocity (v, ω).
        drift: its acceleration (v̇, ω̇) without R θ̈, that is Ṙ θ̇.
    """

    pose: Any
    point: Float[Array, " d"]
    twist: Float[Array, " k"]
    drift: Float[Array, " k"]


class Mobility(eqx.Module):
    """The relative coordinates θ = (s, ρ) of a joint.

    Starting from point_i on body i, slides by s lead along axes of body i, then follows a rotation by ρ; body j has its
    point_j there.

    Args:
        point_i, point_j: in the body frames.
        slides: (d, k), its columns are the axes of the slides in body i.
        turning: the rotation, None if there is none.
        lead: advance along the one slide for a unit of ρ, if the slide has no coordinate of its own, as in a screw.
        neutral: the rotation of body j against body i if s and ρ vanish, as for `Pose.turned`; None for no rotation.
        held: a rotation without velocities, for a joint that holds body j at one of several angles.
        motions: for each coordinate the motion that prescribes it, None if it is unknown; () if all are unknown. Only
            slides and angles can be prescribed. They are not in θ, but in `PrescribedCoordinates`.
    """

    point_i: Array
    point_j: Array
    slides: Array | None = None
    turning: AbstractTurning | None = None
    lead: Array | None = None
    neutral: Array | None = None
    held: AbstractTurning | None = None
    motions: tuple[AbstractMotion | None, ...] = ()

    def at_any_angle(self) -> Mobility:
        """Return the mobility with the angle at which the joint holds body j as a coordinate without velocity."""
        if self.held is None:
            return self
        return dataclasses.replace(self, turning=self.held, held=None)

    def with_motion(self, index: int, motion: AbstractMotion) -> Mobility:
        """Return the mobility with one more coordinate prescribed, by its index among all coordinates."""
        motions = [*self.motions, *[None] * (index + 1 - len(self.motions))]
        motions[index] = motion
        return dataclasses.replace(self, motions=tuple(motions))

    def of_either_sign(self) -> Mobility:
        """Return the mobility with a sign as a coordinate if all of its rotation is prescribed; see `AbstractTurning`."""
        angles = () if self.turning is None else self.turning.coordinates
        prescribed = all(self.free_slides + k in self.known for k in range(len(angles)))
        if self.turning is None or not angles or not prescribed:
            return self
        return dataclasses.replace(self, turning=self.turning.of_either_sign())

    @property
    def free_slides(self) -> int:
        """Number of slides with a coordinate of their own: the index of the first angle among all coordinates (s, ρ)."""
        return 0 if self.slides is None or self.lead is not None else self.slides.shape[1]

    @property
    def lone_slide(self) -> bool:
        """True if the only velocity is that of a slide, and no coordinate is prescribed."""
        return self.free_slides == 1 and len(self._velocities) == 1 and not self.known

    @property
    def known(self) -> tuple[int, ...]:
        """Indices of the prescribed coordinates among all coordinates, free and prescribed."""
        return tuple(k for k, motion in enumerate(self.motions) if motion is not None)

    def _unknown(self, entries: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the entries, one for each of all coordinates or velocities, that are not prescribed."""
        return tuple(entry for k, entry in enumerate(entries) if k not in self.known)

    @property
    def _velocities(self) -> tuple[str, ...]:
        """Names of all velocities, slides first, including those of prescribed coordinates."""
        return SLIDES[self.free_slides] + (() if self.turning is None else self.turning.velocities)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates θ that are not prescribed, slides first."""
        return self._unknown(SLIDES[self.free_slides] + (() if self.turning is None else self.turning.coordinates))

    @property
    def velocities(self) -> tuple[str, ...]:
        """Names of the velocities θ̇ that are not prescribed; for angles and slides they are the names of θ."""
        return self._unknown(self._velocities)

    @property
    def angular(self) -> tuple[bool, ...]:
        """True for each velocity, of those not prescribed, that is the rate of an angle."""
        return self._unknown(tuple(k >= self.free_slides for k in range(len(self._velocities))))

    @property
    def manifold(self) -> type[Manifold]:
        """Manifold of ρ: the relation of its coordinates and velocities; the slides s are flat."""
        return Flat if self.turning is None else self.turning.manifold

    @property
    def at_rest(self) -> tuple[float, ...]:
        """The coordinates θ, without the prescribed ones, at zero displacement and rotation."""
        return self._unknown((0.0,) * self.free_slides + (() if self.turning is None else self.turning.at_rest))

    def given(self, t: Float[Array, ""]) -> PrescribedCoordinates | None:
        """Return values, rates and second rates of the prescribed coordinates at the time t; None if there are none."""
        if not self.known:
            return None
        values = lambda t: jnp.stack([self.motions[k](t) for k in self.known])
        rates = lambda t: jax.jvp(values, (t,), (jnp.ones_like(t),))
        (x, v), (_, a) = jax.jvp(rates, (t,), (jnp.ones_like(t),))
        return PrescribedCoordinates(x, v, a)

    def _whole(self, unknown: Array, known: Array) -> Array:
        """Return all coordinates, or all velocities, in order, from the unknown and the prescribed ones."""
        count = unknown.shape[0] + len(self.known)
        rest = [k for k in range(count) if k not in self.known]
        order = np.argsort([*rest, *self.known])
        return jnp.concatenate([unknown, known.astype(unknown.dtype)])[order]

    def singular(
        self, theta: Array, rate: Array, given: PrescribedCoordinates | None, h: Array
    ) -> Bool[Array, ""] | None:
        """Return True if the rotation is singular at θ, or nearly, for steps h; see `AbstractTurning.singular`."""
        if given is not None:
            theta, rate = self._whole(theta, given.x), self._whole(rate, given.v)
        turns = slice(self.free_slides, None)
        return None if self.turning is None else self.turning.singular(theta[turns], rate[turns], h)

    def _inner(self, pose: Any, theta: Array, reverse: bool) -> tuple[Any, Any, Array | None]:
        """Return the frame on body i at point_i, the rotation, and the displacement in the ground frame.

        `pose` is that of body i, or in `reverse` that of body j.
        """
        rotation = None if self.turning is None else self.turning.rotation(theta[self.free_slides :])
        if reverse:
            inner = pose.moved(pose.direction(self.point_j)).unturned(self.neutral).unturned(rotation)
        else:
            inner = pose.moved(pose.direction(self.point_i))
        shift = None if self.slides is None else inner.direction(self.slides @ self._advance(theta))
        if reverse and shift is not None:
            inner = inner.moved(-shift)
        return inner, rotation, shift

    def _advance(self, theta: Array) -> Array:
        """Return the displacements (k,) along the slides at coordinates theta; for a screw `lead` times its angle."""
        # In a screw the angle comes first; a sign that may follow it is not used.
        return theta[: self.free_slides] if self.lead is None else self.lead * theta[:1]

    def place(
        self, pose: Any, theta: Array, given: PrescribedCoordinates | None = None, *, reverse: bool = False
    ) -> Any:
        """Return the pose of body j on body i with this pose; in `reverse` that of body i on body j."""
        theta = theta if given is None else self._whole(theta, given.x)
        inner, rotation, shift = self._inner(pose, theta, reverse)
        if reverse:
            return inner.moved(-inner.direction(self.point_i))
        return self._outer(inner, rotation, shift)[0]

    def measure(
        self, i: Any, j: Any, given: PrescribedCoordinates | None = None, *, twice: bool = False
    ) -> Float[Array, " n"]:
        """Return θ of two poses, which need not satisfy the joint: displacements that it does not allow are left out.

        Angles are in (−π, π], or with `twice` those of `signed_coordinates_of`; the angle of a screw has all its turns.
        """
        theta, rotation = self._measure(i, j, twice)
        if not self.known:
            return theta
        rest = np.array([k for k in range(theta.shape[0]) if k not in self.known], int)
        if self.turning is not None and given is not None:
            s, rho = jnp.split(self._whole(theta[rest], given.x), [self.free_slides])
            theta = jnp.concatenate([s, self.turning.with_sign_of(rho, rotation)])
        return theta[rest]

    @property
    def slide_names(self) -> tuple[str, ...]:
        """Names of all slides, including that of a screw and prescribed ones."""
        return SLIDES[0 if self.slides is None else self.slides.shape[1]]

    @property
    def angle_names(self) -> tuple[str, ...]:
        """Names of all angles, including prescribed ones; () for Euler parameters, which are not angles."""
        return () if self.turning is None or self.turning.manifold is not Flat else self.turning.coordinates

    @property
    def spin_names(self) -> tuple[str, ...]:
        """Names of the velocities of a rotation without angles; () for one with angles."""
        return () if self.turning is None or self.turning.manifold is Flat else self.turning.velocities

    def spins(self, i: Any, j: Any, v_i: Array, v_j: Array) -> Float[Array, " s"]:
        """Return the angular velocity of body j relative to body i, in the frame of the joint on body j."""
        frame, d = j.unturned(self.neutral), j.dimension
        return frame.components(j.to_ground(v_j)[d:] - i.to_ground(v_i)[d:])

    @property
    def wraps(self) -> bool:
        """True if `slides_and_angles` does not count the turns of the angles."""
        return self.turning is not None and self.turning.wraps and self.lead is None

    def slides_and_angles(self, i: Any, j: Any) -> Float[Array, " n"]:
        """Return all slides and then all angles between two poses, also those that are prescribed."""
        theta, _ = self._measure(i, j, twice=False)
        slides = len(self.slide_names)
        s = theta[:slides] if self.lead is None else self.lead * theta[:slides]
        return jnp.concatenate([s, theta[self.free_slides :][: len(self.angle_names)]])

    def _measure(self, i: Any, j: Any, twice: bool) -> tuple[Array, Any]:
        """Return all coordinates of the poses i and j, prescribed ones too, and the rotation, None if there is none."""
        inner = i.moved(i.direction(self.point_i))
        shift = inner.components(j.point(self.point_j) - inner.r)
        s = jnp.zeros(0, shift.dtype) if self.slides is None else self.slides.T @ shift
        if self.turning is None:
            return s, None
        rotation = inner.rotation_to(j.unturned(self.neutral))
        if self.lead is not None:
            angle = self.turning.coordinates_of(rotation)
            turns = jnp.round((s / self.lead - angle) / (2 * jnp.pi))
            return angle + 2 * jnp.pi * jax.lax.stop_gradient(turns), rotation
        measured = self.turning.signed_coordinates_of if twice else self.turning.coordinates_of
        return jnp.concatenate([s, measured(rotation)]), rotation

    def carry(
        self,
        body: FrameMotion,
        theta: Array,
        rate: Array,
        given: PrescribedCoordinates | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[FrameMotion, Float[Array, "k m"]]:
        """Return the motion of body j on body i, or in `reverse` of i on j, and its twists (k, m) by unit rates θ̇.

        The drift includes second rates of prescribed coordinates. The reference point of the carried body is its own
        point of the joint. With δ the displacement by the slides, ν its rate in body i, and ω_r the relative angular
        velocity: v_j = v_i + ω_i × δ + ν, ω_j = ω_i + ω_r,
        v̇_j = v̇_i + ω̇_i × δ + ω_i × (ω_i × δ) + 2 ω_i × ν + …, ω̇_j = ω̇_i + ω_i × ω_r + ….
        """
        if given is None:
            return self._carry(body, theta, rate, reverse)
        motion, columns = self._carry(body, self._whole(theta, given.x), self._whole(rate, given.v), reverse)
        known = np.array(self.known)
        rest = np.array([k for k in range(columns.shape[1]) if k not in self.known], int)
        drift = motion.drift + columns[:, known] @ given.a.astype(columns.dtype)
        return motion._replace(drift=drift), columns[:, rest]

    def _carry(self, body: FrameMotion, theta: Array, rate: Array, reverse: bool) -> tuple[FrameMotion, Array]:
        """Return the motion and the columns of `carry`, with theta and rate of all coordinates, prescribed ones too."""
        pose = body.pose
        inner, rotation, shift = self._inner(pose, theta, reverse)
        linear, angular = self._relative_axes(inner, theta, rate.dtype)
        sliding, spin = linear @ rate, angular @ rate
        drift = self._spin_drift(inner, theta, rate)
        delta = jnp.zeros_like(sliding) if shift is None else shift

        # The point of the joint on the body that carries, with the motion of that body.
        arm = pose.direction(self.point_j if reverse else self.point_i) + (pose.r - body.point)
        d = sliding.shape[0]
        omega, omega_dot = body.twist[d:], body.drift[d:]
        v = body.twist[:d] + pose.lever(arm) @ omega
        v_dot = body.drift[:d] + pose.lever(arm) @ omega_dot + _centripetal(pose, omega, arm)
        if reverse:
            omega = omega - spin
            omega_dot = omega_dot - pose.spin_cross(omega, spin) - drift
            v = v - pose.lever(delta) @ omega - sliding
            v_dot = v_dot - pose.lever(delta) @ omega_dot - _centripetal(pose, omega, delta, sliding)
            placed, point = inner.moved(-inner.direction(self.point_i)), inner.r
            columns = jnp.concatenate([pose.lever(delta) @ angular - linear, -angular])
        else:
            v = v + pose.lever(delta) @ omega + sliding
            v_dot = v_dot + pose.lever(delta) @ omega_dot + _centripetal(pose, omega, delta, sliding)
            omega_dot = omega_dot + pose.spin_cross(omega, spin) + drift
            omega = omega + spin
            placed, point = self._outer(inner, rotation, shift)
            columns = jnp.concatenate([linear, angular])
        return FrameMotion(placed, point, jnp.concatenate([v, omega]), jnp.concatenate([v_dot, omega_dot])), columns

    def _outer(self, inner: Any, rotation: Any, shift: Array | None) -> tuple[Any, Array]:
        """Return the pose of body j, and its point of the joint in the ground frame, from the results of `_inner`."""
        outer = inner if shift is None else inner.moved(shift)
        body = outer.turned(rotation).turned(self.neutral)
        return body.moved(-body.direction(self.point_j)), outer.r

    def _relative_axes(self, inner: Any, theta: Array, dtype: DTypeLike) -> tuple[Array, Array]:
        """Return velocities (d, m) and angular velocities (s, m) relative to body i by unit rates, in the ground frame."""
        d, s, free = inner.dimension, inner.spins, self.free_slides
        slide = jnp.zeros((d, 0), dtype) if self.slides is None else inner.direction(self.slides)
        turn = jnp.zeros((s, 0), dtype)
        if self.turning is not None:
            turn = inner.spin_directions(self.turning.axes(theta[free:]))
        if self.lead is not None:
            return self.lead * slide, turn
        return (
            jnp.concatenate([slide, jnp.zeros((d, turn.shape[1]), dtype)], axis=1),
            jnp.concatenate([jnp.zeros((s, free), dtype), turn], axis=1),
        )

    def _spin_drift(self, inner: Any, theta: Array, rate: Array) -> Array:
        """Return Ḣ w, the part of the relative angular acceleration without ẇ, in the ground frame."""
        if self.turning is None:
            return jnp.zeros(inner.spins, rate.dtype)
        free = self.free_slides
        return inner.spin_directions(self.turning.drift(theta[free:], rate[free:])[:, None])[:, 0]


def _centripetal(pose: Any, omega: Array, arm: Array, rate: Array | float = 0.0) -> Array:
    """Return ω × (ω × arm) + 2 ω × rate: the centripetal and Coriolis acceleration at the end of an arm."""
    return pose.lever(pose.lever(arm) @ omega + 2 * rate) @ omega
