"""Motion of bodies and joints: points of a body with their velocities, angles and slides of a joint with their rates.

Angles and slides are the relative coordinates of the joint's own `mobility`, with its sign and its zero, measured between
the bodies: at one time for forces, and over time in trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from jaxmbs.element import AbstractConstraint, unknown


class BodyMotion(NamedTuple):
    """The motion of a body at one time; all vectors are in the ground frame.

    Attributes:
        pose: its pose.
        v: its velocities, its part of the v of the mechanism.
    """

    pose: Any
    v: Float[Array, " k"]

    def point(self, s: ArrayLike | Sequence[float] | None = None) -> Float[Array, " d"]:
        """Return the point with body coordinates s in the ground frame; the body's origin unless given."""
        return self.pose.point(self._point(s))

    def velocity(self, s: ArrayLike | Sequence[float] | None = None) -> Float[Array, " d"]:
        """Return the velocity of the point with body coordinates s, the origin unless given."""
        return self.pose.velocity(self._point(s), self.v)

    def direction(self, u: ArrayLike) -> Float[Array, " d"]:
        """Return the vector with body components u, in the ground frame."""
        return self.pose.direction(jnp.asarray(u, self.v.dtype))

    @property
    def rotation(self) -> Float[Array, "d d"]:
        """Rotation matrix, whose columns are the body's axes in the ground frame."""
        return self.pose.a

    @property
    def angle(self) -> Float[Array, ""]:
        """Angle φ in the plane, in radians. In space it raises `ValueError`."""
        if self.pose.dimension == 3:
            raise ValueError("a body of space has no angle: use .rotation, or the angle of a joint")
        return self.pose.phi

    @property
    def angular_velocity(self) -> Float[Array, "..."]:
        """Angular velocity: the number φ̇ in the plane; in space the vector ω in the ground frame."""
        spin = self.pose.to_ground(self.v)[self.pose.dimension :]
        return spin[0] if self.pose.spins == 1 else spin

    def _point(self, s: ArrayLike | Sequence[float] | None) -> Array:
        """Return s as an array; the body's origin for None."""
        return jnp.zeros_like(self.pose.r) if s is None else jnp.asarray(s, self.v.dtype)


class JointCoordinateNames(NamedTuple):
    """Names of the slides and angles of a joint.

    Attributes:
        joint: name and type of the joint, for messages.
        slides: names of the slides.
        angles: names of the angles.
        chosen: the one of these names that is meant where the joint has several; None if none was given.
        wraps: True if the angles do not count turns.
        spins: names of the components of the relative angular velocity, if it is not made of rates of angles.
    """

    joint: str
    slides: tuple[str, ...]
    angles: tuple[str, ...]
    chosen: str | None
    wraps: bool
    spins: tuple[str, ...] = ()

    @property
    def of_spin(self) -> bool:
        """True if the chosen name is that of a component of the angular velocity."""
        return self.chosen in self.spins

    @property
    def chosen_name(self) -> str:
        """The name that was chosen, or the only one; see `single_index`."""
        k = self.single_index()
        return self.spins[k] if self.of_spin else (self.slides + self.angles)[k]

    def index(self, kind: str) -> int:
        """Return the index of the chosen "slide" or "angle" among slides and angles.

        Raises:
            ValueError: there is none, or several of which none was named.
        """
        of_kind = {"slide": self.slides, "angle": self.angles}
        names = of_kind[kind]
        if not names:
            others = [f"the {other} {name!r}" for other, names in of_kind.items() for name in names]
            raise ValueError(f"{self.joint} has no {kind}; it has {' and '.join(others) or 'no slide either'}")
        if self.chosen not in names and len(names) > 1:
            known = ", ".join(map(repr, names))
            raise ValueError(f"{self.joint} has the {kind}s {known}: name one of them, as in .joint(…, {names[0]!r})")
        chosen = names.index(self.chosen) if self.chosen in names else 0
        return chosen + (len(self.slides) if kind == "angle" else 0)

    def single_index(self) -> int:
        """Return the index of the chosen coordinate, or of the only one, among slides and angles, or among `spins`.

        Raises:
            ValueError: there is none, or several of which none was named.
        """
        if self.of_spin:
            return self.spins.index(self.chosen)
        names = self.slides + self.angles
        if not names:
            known = f"; name one of {', '.join(map(repr, self.spins))}" if self.spins else ""
            raise ValueError(f"{self.joint} has no angle or slide{known}")
        if self.chosen is None and len(names) > 1:
            known = ", ".join(map(repr, names))
            raise ValueError(f"{self.joint} has {known}: name one of them, as in coordinate={names[-1]!r}")
        return 0 if self.chosen is None else names.index(self.chosen)


class JointMotion(eqx.Module):
    """Angle and slide of a joint with their derivatives: (*batch, T) in a trajectory, single numbers in a `State`.

    `angle`, `rate`, `acceleration` are those of the angle of body j against body i about the joint's axis; `slide`,
    `slide_rate`, `slide_acceleration` those of point_j from point_i along the axis. Zeros are those of
    `JointCoordinates`. In the plane the angle of a pin is φ_j − φ_i; in space it is zero if the two joint frames
    coincide. For a joint with several angles or slides name one: `run.joint("cross", "alpha")`. Of the three angles of a
    `RelativeJoint` the second one is in [−π/2, π/2]. Reading an angle or a slide that the joint does not have, or one of
    several without a name, raises `ValueError`.

    Attributes:
        of: names of the joint's slides and angles.
        values: (*batch, k), slides, then angles.
        rates: (*batch, k), their rates.
        accelerations: (*batch, k), their second rates; None in a `State`.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(motion.joint("A").angle.round(6))  # of the rod against the crank: −30° − 90°
        [ 0.       -2.094395]
        >>> print(motion.joint("guide").slide.round(6))
        [3.       1.732051]
    """

    of: JointCoordinateNames = eqx.field(static=True)
    values: Float[Array, "*batch k"]
    rates: Float[Array, "*batch k"]
    accelerations: Float[Array, "*batch k"] | None = None

    @property
    def angle(self) -> Float[Array, "*batch"]:
        """Angle in radians. Continuous in a trajectory; in a `State` with all turns in the plane, in (−π, π] in space."""
        return self.values[..., self.of.index("angle")]

    @property
    def rate(self) -> Float[Array, "*batch"]:
        """Rate of the angle, in radians per unit of time."""
        return self.rates[..., self.of.index("angle")]

    @property
    def acceleration(self) -> Float[Array, "*batch"]:
        """Second rate of the angle. In a `State` it raises `ValueError`."""
        return self._second[..., self.of.index("angle")]

    @property
    def slide(self) -> Float[Array, "*batch"]:
        """Slide of point_j from point_i, a length, positive along the joint's axis."""
        return self.values[..., self.of.index("slide")]

    @property
    def slide_rate(self) -> Float[Array, "*batch"]:
        """Rate of the slide, a velocity."""
        return self.rates[..., self.of.index("slide")]

    @property
    def slide_acceleration(self) -> Float[Array, "*batch"]:
        """Second rate of the slide. In a `State` it raises `ValueError`."""
        return self._second[..., self.of.index("slide")]

    @property
    def _second(self) -> Array:
        """Second rates of slides and angles, (*batch, k). In a `State`, which has none, it raises `ValueError`."""
        if self.accelerations is None:
            raise ValueError(f"{self.of.joint}: a force cannot use accelerations, because they depend on it")
        return self.accelerations


def coordinates_of(
    elements: Mapping[str, AbstractConstraint], name: str, chosen: str | None, *, spins: bool = False
) -> JointCoordinateNames:
    """Return the names of the slides and angles of a joint, with `spins` also those of its angular velocities.

    Raises:
        ValueError: an unknown name, what is not a joint, or a coordinate that the joint does not have.
    """
    known = isinstance(name, str) and name in elements
    if not known or elements[name].freedom is None:
        joints = [key for key, element in elements.items() if element.freedom is not None]
        if not known:
            raise ValueError(unknown("joint", name, joints))
        label = f"joint {name!r} ({type(elements[name]).__name__})"
        there = f"joints are {', '.join(map(repr, joints))}" if joints else "there are no joints"
        raise ValueError(f"{label} has no angle or slide of its own; {there}")
    label = f"joint {name!r} ({type(elements[name]).__name__})"
    leaves, structure = jax.tree.flatten(elements[name].anonymous())
    shapes = tuple(jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    slides, angles, turning, wraps = _names_of_coordinates(structure, shapes)
    turning = turning if spins else ()
    if chosen is not None and chosen not in slides + angles + turning:
        raise ValueError(f"{label}: {unknown('angle or slide', chosen, slides + angles + turning)}")
    return JointCoordinateNames(label, slides, angles, chosen, wraps, turning)


@cache
def _names_of_coordinates(structure: Any, shapes: tuple[Any, ...]) -> tuple[Any, Any, Any, bool]:
    """Return the names of slides, angles and spins of a joint with this structure, and True if turns are not counted."""
    mobility = eqx.filter_eval_shape(lambda joint: joint.mobility, jax.tree.unflatten(structure, shapes))
    return mobility.slide_names, mobility.angle_names, mobility.spin_names, mobility.wraps


def measure_joint(
    element: AbstractConstraint, kind: Any, i: tuple[Array, ...], j: tuple[Array, ...], *, spins: bool = False
) -> list[Float[Array, " k"]]:
    """Return the slides and angles (k,) of a joint, their rates, and second rates if accelerations are given.

    `kind` is the class of the bodies; `i` and `j` are coordinates, velocities and, if known, accelerations of the bodies.
    With `spins` the rates are the components of the relative angular velocity, of which there are no coordinates: zeros.
    """
    mobility = element.mobility
    value = lambda x_i, x_j: mobility.slides_and_angles(kind.pose(x_i), kind.pose(x_j))

    def value_and_rate(x_i: Array, x_j: Array, v_i: Array, v_j: Array) -> tuple[Array, Array]:
        """Return the slides and angles, and their rates, at coordinates x and velocities v of the two bodies."""
        if spins:
            rates = mobility.spins(kind.pose(x_i), kind.pose(x_j), v_i, v_j)
            return jnp.zeros_like(rates), rates
        return jax.jvp(value, (x_i, x_j), (kind.manifold.rate(x_i, v_i), kind.manifold.rate(x_j, v_j)))

    (x_i, v_i, *a_i), (x_j, v_j, *a_j) = i, j
    state = x_i, x_j, v_i, v_j
    if not a_i:
        return list(value_and_rate(*state))
    state_rates = kind.manifold.rate(x_i, v_i), kind.manifold.rate(x_j, v_j), *a_i, *a_j
    (values, rate), (_, second) = jax.jvp(value_and_rate, state, state_rates)
    return [values, rate, second]


def unwrap(
    angles: Float[Array, "*batch T k"],
    rates: Float[Array, "*batch T k"],
    t: Float[Array, "*batch T"],
    good: Bool[Array, "*batch T"],
) -> Float[Array, "*batch T k"]:
    """Return angles without jumps of 2π: full turns are added so that each change is nearest to the integral of the rate.

    The integral is that of the trapezoidal rule. No turns are added between states that are not `good`.
    """
    predicted = (rates[..., 1:, :] + rates[..., :-1, :]) / 2 * jnp.diff(t)[..., None]
    turns = jnp.round((predicted - jnp.diff(angles, axis=-2)) / (2 * jnp.pi))
    known = (good[..., 1:] & good[..., :-1])[..., None] & jnp.isfinite(turns)
    turns = jnp.cumsum(jax.lax.stop_gradient(jnp.where(known, turns, 0)), axis=-2)
    return angles + 2 * jnp.pi * jnp.concatenate([jnp.zeros_like(angles[..., :1, :]), turns], axis=-2)
