"""Dry friction that sticks: bristles that bend before they slide."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.joint.effort import AbstractEffort
from jaxmbs.forces.joint.stateful import AbstractStatefulForce
from jaxmbs.forces.values import computed_field
from jaxmbs.numerics.arrays import is_concrete, real


class BristleFriction(AbstractEffort, AbstractStatefulForce):
    """Dry and viscous friction along a coordinate x of a joint, with bristles between its surfaces (the LuGre model).

    The bristles have the deflection z, a state of the force, "deflection", which begins with zero:

        ż = ẋ − σ₀ |ẋ| z / g(ẋ),  g = F_d + (F_s − F_d) exp(−(ẋ/v_s)²),  τ = −(σ₀ z + σ₁ ż + c ẋ).

    Below the break-away effort F_s a joint sticks: it moves like a spring of stiffness σ₀ and comes to rest, where
    `JointFriction` creeps. In steady sliding τ = −(g(ẋ) sgn ẋ + c ẋ). F_d and F_s are given numbers; for
    friction from the reaction of the joint use `JointFriction`. Steps h must resolve the vibration of the bristles,
    h √(σ₀/m) ≪ 1, and their bending in sliding, h σ₀ |ẋ| < 2.8 g with `RK4`.

    Canudas de Wit, Olsson, Åström and Lischinsky, A new model for control of systems with friction, IEEE Trans. Autom.
    Control 40 (1995) 419.

    Args:
        joint: name of the joint.
        dynamic: F_d, the effort of sliding.
        static: F_s, the effort of break-away; F_d unless given.
        velocity: v_s, at which friction has fallen most of the way, positive; only needed with `static`.
        stiffness: σ₀, of the bristles.
        damping: σ₁, of the bristles; √(σ₀ m) makes them come to rest soon.
        viscous: c.
        coordinate: name of one of several angles or slides of the joint.

    Examples:
        >>> held = {"rub": mbs.BristleFriction("pin", dynamic=40.0, stiffness=1e4, damping=100.0)}
        >>> stuck = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={**pendulum.forces, **held})
        >>> run = mbs.simulate(stuck, jnp.array([0.0, 1.0]), {"bob": (1, 0, jnp.pi / 2)}, step=0.001)
        >>> print(run.state("rub.deflection").round(6), abs(run.velocity("bob.phi")[1]) < 1e-9)  # m g l / σ₀
        [ 0.       -0.001962] True
    """

    dynamic: Array = real()
    static: Array | None = real(optional=True, default=None)
    velocity: Array | None = real(optional=True, default=None, kw_only=True)
    stiffness: Array = real(default=None, kw_only=True)
    damping: Array = real(default=0.0, kw_only=True)
    viscous: Array = real(default=0.0, kw_only=True)
    own: Array | None = computed_field((None,))

    @property
    def states(self):
        """("deflection",), that of the bristles."""
        return ("deflection",)

    @property
    def start(self):
        """Deflection of the bristles at the start, zero."""
        return (0.0,)

    def rates(self, state):
        """Return ż (1,), the rate of the deflection."""
        return self._bending(self._along(state).rate)[None]

    def _bending(self, rate):
        """Return ż, the rate of the deflection, if the joint's coordinate has this rate."""
        limit = self.dynamic
        if self.static is not None:
            limit = limit + (self.static - self.dynamic) * jnp.exp(-((rate / self.velocity) ** 2))
        return rate - self.stiffness * jnp.abs(rate) * self.known[0] / limit

    def effort(self, state, along):
        """Return the torque or force τ = −(σ₀ z + σ₁ ż + c ẋ)."""
        return -(self.stiffness * self.known[0] + self.damping * self._bending(along.rate) + self.viscous * along.rate)

    def check(self, dimension):
        """Raise `ValueError` for numbers of a wrong sign, `static` below `dynamic` or without a velocity."""
        super().check(dimension)
        require(self.static is None or self.velocity is not None, "velocity is missing: that of Stribeck's curve")
        check_positive(self, "dynamic", "velocity", "stiffness")
        check_not_negative(self, "damping", "viscous")
        static = self.dynamic if self.static is None else self.static
        less = is_concrete(static) and is_concrete(self.dynamic) and static < self.dynamic
        require(not less, f"static must not be below dynamic, got {self.static}")
