"""Efforts along a coordinate of a joint: torques at angles, forces at slides."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.joint.contact import AbstractContactForce, check_contact, contact_energy, contact_force
from jaxmbs.forces.state import Along, State
from jaxmbs.forces.values import computed_field, law_field
from jaxmbs.numerics.arrays import is_concrete, real
from jaxmbs.relative_motion import coordinates_of


class AbstractEffort(AbstractForce):
    """An effort along one coordinate of a joint: a torque at an angle, a force at a slide.

    A positive effort makes the coordinate grow. Q = (∂ẋ/∂v)ᵀ τ for the coordinate x, so the power is τ ẋ in any joint.

    Args:
        joint: name of the joint.
        coordinate: name of one of several angles or slides, as in `Trajectory.joint`; only needed if there are several.

    Attributes:
        needs_value: False if the effort depends on rates only, so that it may act along components of an angular velocity.

    Examples:
        >>> class Brake(mbs.forces.AbstractEffort):
        ...     def effort(self, state, along):
        ...         return -0.5 * along.rate
        >>> braked = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"brake": Brake("pin")})
        >>> print(mbs.generalized_force(braked, below, jnp.array([3.0, 0, 3])))
        [ 0.   0.  -1.5]
    """

    joint: str = eqx.field(static=True)
    coordinate: str | None = eqx.field(static=True, default=None, kw_only=True)
    needs_value: ClassVar[bool] = True

    @abc.abstractmethod
    def effort(self, state: State, along: Along) -> Float[Array, ""]:
        """Return the torque or force in a `state`; `along` has value and rate of the joint's coordinate."""

    def generalized(self, state):
        """Return the generalized force (m,) of the effort along the coordinate."""
        along = self._along(state)
        return along.generalized(self.effort(state, along))

    def measures(self, state):
        """Return the effort as torque or force, the coordinate as angle or length, and its rate."""
        along = self._along(state)
        return along.measures(self.effort(state, along))

    def _along(self, state) -> Along:
        """Return value and rate of the joint's coordinate in a state, and its generalized direction."""
        return state.along(self.joint, self.coordinate)

    def check_joints(self, elements):
        """Raise `ValueError` if there is no such joint, or its coordinate has to be named."""
        coordinates_of(elements, self.joint, self.coordinate, spins=not self.needs_value).single_index()


class JointSpring(AbstractEffort):
    """A spring and a damper in a joint: τ = −k (x − x₀) − c ẋ + τ_n(x, ẋ), for an angle or a slide x of the joint.

    V = ½ k (x − x₀)²; τ_n is not in it. An angle in space is counted so that it lies in (x₀ − π, x₀ + π].

    Args:
        joint: name of the joint.
        stiffness: k.
        free: x₀, an angle in radians or a length.
        damping: c.
        effort_law: τ_n, any function of the coordinate and its rate, written in jax.numpy. For measured values, make
            `spline = mbs.motion.Spline(x, torques)` and give `lambda x, rate: spline(x)`.
        coordinate: name of one of several angles or slides of the joint.

    Examples:
        >>> spring = mbs.JointSpring("pin", stiffness=10.0, free=0.5)
        >>> sprung = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"spring": spring})
        >>> print(mbs.generalized_force(sprung, below, jnp.zeros(3)))  # at the angle 0
        [0. 0. 5.]
    """

    stiffness: Array | None = real(optional=True, default=None)
    free: Array = real(default=0.0)
    damping: Array | None = real(optional=True, default=None)
    effort_law: Any = law_field("coordinate", "rate")
    needed = ("stiffness", "damping", "effort_law")

    def effort(self, state, along):
        """Return the torque or force τ = −k (x − x₀) − c ẋ + τ_n(x, ẋ)."""
        x, total = along.near(self.free), jnp.zeros_like(along.rate)
        if self.stiffness is not None:
            total = total - self.stiffness * (x - self.free)
        if self.damping is not None:
            total = total - self.damping * along.rate
        return total if self.effort_law is None else total + self.effort_law(x, along.rate)

    def potential(self, state):
        """Return the potential energy ½ k (x − x₀)²; zero without a stiffness."""
        if self.stiffness is None:
            return jnp.zeros((), state.q.dtype)
        return self.stiffness * (self._along(state).near(self.free) - self.free) ** 2 / 2


class JointStop(AbstractEffort, AbstractContactForce):
    """Stops at the ends of a joint's travel, after Hunt and Crossley 1975.

    If a coordinate x exceeds a limit by δ, the effort k δⁿ (1 + d δ̇) + c δ̇ pushes it back; it never pulls.

    With c = 0, an impact at speed v₀ rebounds at a speed v₁ that does not depend on k, n or the mass: d v₀ − ln(1 + d
    v₀) = −d v₁ − ln(1 − d v₁). For small d v₀ the coefficient of restitution is 1 − ⅔ d v₀. With d = 0 and n = 1 the
    stop is a linear spring with a damper, whose effort jumps to c v₀ at first contact; for c ≥ 2 √(k m) nothing
    rebounds. An angle in space is counted so that it lies within half a turn of the middle between the limits.

    In a simulation with steps of a fixed length h, the effort sets in and ends over about six steps: δ is averaged with a
    spline whose knots are |δ̇| h apart. For h → 0 this becomes the law above. V = k δⁿ⁺¹ / (n + 1).

    Args:
        joint: name of the joint.
        lower, upper: limits of the coordinate, in radians or a length; one of them may be absent.
        stiffness: k, in units of an effort divided by a coordinate to the power n.
        damping: d, in units of time divided by units of the coordinate; not negative.
        exponent: n, at least 1; 3/2 for two spheres, as Hertz has found.
        viscous: c, not negative.
        coordinate: name of one of several angles or slides of the joint.

    Examples:
        >>> stop = mbs.JointStop("pin", upper=0.5, stiffness=100.0, exponent=1.0)
        >>> stopped = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"stop": stop})
        >>> turned = {"bob": (0.6442, -0.7648, 0.7)}  # 0.2 beyond the limit
        >>> print(mbs.generalized_force(stopped, turned, jnp.zeros(3)).round(6))
        [  0.   0. -20.]
    """

    lower: Array | None = real(optional=True, default=None)
    upper: Array | None = real(optional=True, default=None)
    stiffness: Array = real(default=None, kw_only=True)
    damping: Array = real(default=0.0, kw_only=True)
    exponent: Array = real(default=1.5, kw_only=True)
    viscous: Array | None = real(optional=True, default=None, kw_only=True)
    step: Array | None = computed_field()
    touching = True
    needed = ("lower", "upper")

    def effort(self, state, along):
        """Return the torque or force of the limit that is exceeded, towards the allowed range; zero within it."""
        total = jnp.zeros_like(along.rate)
        for sign, depth in self._depths(along):
            rate = sign * along.rate
            law = self.stiffness, self.exponent, self.damping, self.viscous
            total = total - sign * contact_force(depth, rate, *law, self.step)
        return total

    def potential(self, state):
        """Return the potential energy k δⁿ⁺¹ / (n + 1) for an excess δ over a limit; zero within the limits."""
        total = jnp.zeros((), state.q.dtype)
        for _, depth in self._depths(self._along(state)):
            total = total + contact_energy(depth, self.stiffness, self.exponent)
        return total

    def _depths(self, along):
        """Return (sign, δ) for each limit: −1 for the lower, 1 for the upper one, and δ > 0 where it is exceeded."""
        limits = [limit for limit in (self.lower, self.upper) if limit is not None]
        x = along.near(sum(limits[1:], limits[0]) / len(limits))
        return [(sign, sign * (x - limit)) for sign, limit in ((-1, self.lower), (1, self.upper)) if limit is not None]

    def check(self, dimension):
        """Raise `ValueError` for a stiffness that is missing, numbers of a wrong sign, or limits in the wrong order."""
        require(self.stiffness is not None, "stiffness is missing")
        super().check(dimension)
        check_contact(self)
        check_not_negative(self, "viscous")
        lower, upper = self.lower, self.upper
        if lower is not None and upper is not None and is_concrete(lower) and is_concrete(upper):
            require(lower < upper, f"lower must be below upper, got {lower} and {upper}")


class OneWayClutch(AbstractEffort):
    """A clutch that lets a joint turn one way only: τ = T tanh(c w / T), with the reverse speed w = max(−ẋ, 0).

    Under a reverse load the joint creeps back at w ≈ τ / c, as with viscous drag. Torques beyond T make the clutch
    slip.

    Args:
        joint: name of the joint.
        damping: c, large.
        capacity: T, the largest effort. If it is None, the effort is not limited: τ = c w.
        reverse: True if it lets the coordinate shrink, not grow.
        coordinate: name of one of several angles or slides of the joint.

    Examples:
        >>> clutched = mbs.Mechanism(
        ...     pendulum.bodies, pendulum.constraints, forces={"clutch": mbs.OneWayClutch("pin", damping=100.0)}
        ... )
        >>> back, forth = (mbs.generalized_force(clutched, below, jnp.array([w, 0, w])) for w in (-0.1, 0.1))
        >>> print(back, forth)
        [ 0.  0. 10.] [0. 0. 0.]
    """

    damping: Array = real()
    capacity: Array | None = real(optional=True, default=None)
    reverse: bool = eqx.field(static=True, default=False, kw_only=True)

    def effort(self, state, along):
        """Return the torque or force τ = T tanh(c w / T) against the blocked direction; zero while the joint runs free."""
        sign = -1 if self.reverse else 1
        drag = self.damping * jnp.maximum(-sign * along.rate, 0)
        return sign * (drag if self.capacity is None else self.capacity * jnp.tanh(drag / self.capacity))

    def check(self, dimension):
        """Raise `ValueError` unless damping and capacity are positive."""
        super().check(dimension)
        check_positive(self, "damping", "capacity")
