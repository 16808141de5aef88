"""Actuators of robot file formats: an effort that is affine in a control."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxmbs.element import check_positive, require
from jaxmbs.forces.joint.effort import AbstractEffort
from jaxmbs.forces.joint.stateful import AbstractStatefulForce
from jaxmbs.forces.values import check_value, computed_field, evaluate, value_field
from jaxmbs.numerics.arrays import is_concrete, real


class Actuator(AbstractEffort, AbstractStatefulForce):
    """An effort along a coordinate x of a joint that is affine in a control u, like MuJoCo's general actuator.

        τ = (g₀ + g₁ x + g₂ ẋ) w + b₀ + b₁ x + b₂ ẋ

    The activation w is u, or a state of the force, "activation": T ẇ = u − w with a time constant, ẇ = u if the control is
    integrated. A pure force has g = (1, 0, 0); a position servo of gain k has g = (k, 0, 0) and b = (0, −k, 0); a velocity
    servo has g = (k, 0, 0) and b = (0, 0, −k). An angle in space is counted so that it lies within half a turn of
    `middle`.

    Args:
        joint: name of the joint.
        control: u: a number, a motion or a function f(state) of a `State`; f(t, q, v) works too.
        gain: g (3,), of the activation.
        bias: b (3,), without a control.
        control_range: (2,), least and greatest u; unlimited unless given.
        activation_range: (2,), least and greatest w; unlimited unless given.
        effort_range: (2,), least and greatest τ; unlimited unless given.
        time_constant: T, a time; none unless given.
        integrates: True if the activation is the integral of the control.
        initial: the activation at the start.
        middle: middle of the angles that occur, in space; 0 unless given.
        coordinate: name of one of several angles or slides of the joint.

    Examples:
        >>> held = mbs.Actuator("pin", 0.3, gain=(50, 0, 0), bias=(0, -50, -5), effort_range=(-8.0, 8.0))
        >>> led = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"held": held})
        >>> print(mbs.generalized_force(led, below, jnp.zeros(3)))  # 50 · 0.3 is more than it can do
        [0. 0. 8.]
    """

    control: Any = value_field(default=0.0)
    gain: Array = real((3,), default=(1.0, 0, 0), kw_only=True)
    bias: Array = real((3,), default=(0, 0, 0), kw_only=True)
    control_range: Array | None = real((2,), optional=True, default=None, kw_only=True)
    activation_range: Array | None = real((2,), optional=True, default=None, kw_only=True)
    effort_range: Array | None = real((2,), optional=True, default=None, kw_only=True)
    time_constant: Array | None = real(optional=True, default=None, kw_only=True)
    integrates: bool = eqx.field(static=True, default=False, kw_only=True)
    initial: Array = real(default=0.0, kw_only=True)
    middle: Array | None = real(optional=True, default=None, kw_only=True)
    own: Array | None = computed_field((None,))

    @property
    def states(self):
        """("activation",) with a time constant or an integrated control; else empty."""
        return () if self.time_constant is None and not self.integrates else ("activation",)

    @property
    def start(self):
        """Initial activation, if it is a state."""
        return (self.initial,) if self.states else ()

    def rates(self, state):
        """Return ẇ (1,); zero at an end of the activation's range if it would leave the range."""
        control, activation = self._control(state), self.known[0]
        rate = control if self.time_constant is None else (control - activation) / self.time_constant
        if self.activation_range is not None:
            lower, upper = self.activation_range
            outward = ((activation <= lower) & (rate < 0)) | ((activation >= upper) & (rate > 0))
            rate = jnp.where(outward, 0, rate)
        return rate[None]

    def effort(self, state, along):
        """Return the torque or force τ in a state, within `effort_range`; `along` has the joint coordinate and its rate."""
        activation = _clip(self.known[0], self.activation_range) if self.states else self._control(state)
        (g, g_x, g_v), (b, b_x, b_v) = self.gain, self.bias
        x, rate = along.value if self.middle is None else along.near(self.middle), along.rate
        effort = (g + g_x * x + g_v * rate) * activation + b + b_x * x + b_v * rate
        return _clip(effort, self.effort_range)

    def _control(self, state):
        """Return the control u, kept within `control_range`."""
        return _clip(evaluate(self.control, state, (), "control"), self.control_range)

    def check(self, dimension):
        """Raise `ValueError` for a control, a range or a time constant that cannot be used."""
        super().check(dimension)
        check_value(self.control, (), "control")
        check_positive(self, "time_constant")
        require(self.time_constant is None or not self.integrates, "time_constant and integrates exclude each other")
        for name in ("control_range", "activation_range", "effort_range"):
            limits = getattr(self, name)
            wrong = limits is not None and is_concrete(limits) and not np.asarray(limits)[0] < np.asarray(limits)[1]
            require(not wrong, f"{name}: the lower end must be below the upper one, got {limits}")


def _clip(x, limits):
    """Return x kept within limits (lower, upper); x itself if limits is None."""
    return x if limits is None else jnp.clip(x, limits[0], limits[1])
