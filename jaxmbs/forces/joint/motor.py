"""Motors and servos at a coordinate of a joint."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import require
from jaxmbs.forces.joint.effort import AbstractEffort, check_not_negative, check_positive
from jaxmbs.forces.joint.inertia import AbstractInertialEffort
from jaxmbs.forces.joint.reactive import size_field
from jaxmbs.forces.joint.stateful import AbstractStatefulForce, own_field
from jaxmbs.forces.values import check_value, evaluate, value_field
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import is_concrete, real

# From this part below its limit on a current that is a state rises more slowly.
NEAR_LIMIT = 0.05


class Motor(AbstractInertialEffort, AbstractStatefulForce):
    """A direct-current motor with a gearbox at a coordinate x of a joint:

        L di/dt = u − R i − K n ẋ,  τ = n η K i − n² J ẍ,

    with the voltage u, the current i, the torque constant K, which is that of the back-EMF as well, and the ratio n.
    Without an inductance, L = 0, i follows from u; with one it is a state of the motor's own, "current", that begins with
    zero: `run.state("motor.current")`. The current is kept within ±i_max, the voltage within ±u_max; a current that is a
    state rises more slowly from 0.95 i_max on. Where the joint drives the motor, η counts the other way: the torque is
    n K i / η. The rotor's inertia J acts as n² J at the joint, in all formulations, and its energy ½ n² J ẋ² is part of
    the kinetic energy; gyroscopic torques of the rotor are not counted, see `spatial.Rotor`. The bodies must have some
    inertia of their own at the joint.

    A steady voltage leads to the speed u / (n K) without load, with the time constant R (n² J + I) / (n K)² for a load
    of inertia I and η = 1.

    Args:
        joint: name of the joint.
        torque_constant: K, in units of a torque by a current, or of a voltage by an angular velocity.
        resistance: R.
        voltage: u: a number, a motion or a function f(state) of a `State`; f(t, q, v) works too.
        ratio: n, turns of the motor for one of the joint, or the angle for a unit of its slide; negative where they turn
            in opposite senses.
        inertia: J, of the rotor.
        inductance: L; none unless given.
        efficiency: η of the gearbox, in (0, 1].
        current_limit, voltage_limit: i_max and u_max.
        coordinate: which of several angles or slides of the joint.

    Examples:
        >>> motor = mbs.Motor("pin", torque_constant=0.05, resistance=2.0, voltage=12.0, ratio=50.0)
        >>> driven = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={**pendulum.forces, "motor": motor})
        >>> run = mbs.simulate(driven, jnp.array([0.0, 0.1]), below, step=0.001)
        >>> element = mbs.force_elements(driven, run)["motor"]
        >>> print(element.current[0], element.torque[0])  # 12 / 2, 50 · 0.05 · 6
        6.0 15.0
    """

    torque_constant: Array = real()
    resistance: Array = real()
    voltage: Any = value_field()
    ratio: Array = real(default=1.0, kw_only=True)
    inertia: Array | None = real(optional=True, default=None, kw_only=True)
    inductance: Array | None = real(optional=True, default=None, kw_only=True)
    efficiency: Array | None = real(optional=True, default=None, kw_only=True)
    current_limit: Array | None = real(optional=True, default=None, kw_only=True)
    voltage_limit: Array | None = real(optional=True, default=None, kw_only=True)
    size: Array | None = size_field()
    own: Array | None = own_field()

    @property
    def at_joint(self):
        return None if self.inertia is None else self.ratio**2 * self.inertia

    def effort(self, state, along):
        drive = self._drive(state, along)
        if not self.reactive:
            return drive
        require(
            self.size is not None, "its inertia needs accelerations, which are not known here; `force_elements` does"
        )
        return drive + self.size

    @property
    def states(self):
        return () if self.inductance is None else ("current",)

    @property
    def start(self):
        return (0.0,) * len(self.states)

    def rates(self, state):
        along, (current,), inductance = self._along(state), self.known, self.inductance
        assert inductance is not None  # or there is no state
        drop = self.resistance * current + self.torque_constant * self.ratio * along.rate
        rate = (self._voltage(state) - drop) / inductance
        if self.current_limit is not None:
            left = 1 - jnp.sign(rate) * current / self.current_limit
            rate = rate * jnp.minimum(left / NEAR_LIMIT, 1)
        return rate[None]

    def _voltage(self, state):
        voltage = evaluate(self.voltage, state, (), "voltage")
        if self.voltage_limit is not None:
            voltage = jnp.clip(voltage, -self.voltage_limit, self.voltage_limit)
        return voltage

    def _current(self, state, along):
        if self.states:
            return self.known[0]
        voltage = self._voltage(state)
        current = (voltage - self.torque_constant * self.ratio * along.rate) / self.resistance
        return current if self.current_limit is None else jnp.clip(current, -self.current_limit, self.current_limit)

    def _drive(self, state, along):
        torque = self.ratio * self.torque_constant * self._current(state, along)
        if self.efficiency is None:
            return torque
        return torque * jnp.where(torque * along.rate < 0, 1 / self.efficiency, self.efficiency)

    def measures(self, state):
        along = self._along(state)
        drive, value = self._drive(state, along), "angle" if along.angular else "length"
        found = {"torque" if along.angular else "force": drive, value: along.value, "rate": along.rate}
        return {**found, "current": self._current(state, along), "power": drive * along.rate}

    def check(self, dimension):
        super().check(dimension)
        check_value(self.voltage, (), "voltage")
        check_positive(self, "resistance", "current_limit", "voltage_limit", "efficiency", "inductance")
        check_not_negative(self, "inertia")
        more = self.efficiency is not None and is_concrete(self.efficiency) and self.efficiency > 1
        require(not more, f"efficiency must not be above 1, got {self.efficiency}")
        require(not is_concrete(self.ratio) or self.ratio != 0, "ratio must not be zero")


class Servo(AbstractEffort):
    """A position servo at a coordinate x of a joint: τ = k_p (x_s − x) + k_v (ẋ_s − ẋ), kept within ±τ_max.

    ẋ_s is the rate of the target where it is a motion, else zero. An angle in space is taken within half a turn from the
    target.

    Args:
        joint: name of the joint.
        target: x_s: a number, a motion or a function f(state) of a `State`; f(t, q, v) works too.
        position_gain: k_p.
        velocity_gain: k_v.
        limit: τ_max.
        coordinate: which of several angles or slides of the joint.

    Examples:
        >>> servo = mbs.Servo("pin", mbs.motion.Ramp(rate=1.0), position_gain=100.0, velocity_gain=5.0)
        >>> led = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"servo": servo})
        >>> print(mbs.generalized_force(led, below, jnp.array([1.0, 0, 1]), t=0.1))  # 0.1 behind, as fast as it should be
        [ 0.  0. 10.]
    """

    target: Any = value_field()
    position_gain: Array = real()
    velocity_gain: Array = real(default=0.0)
    limit: Array | None = real(optional=True, default=None)

    def effort(self, state, along):
        target = evaluate(self.target, state, (), "target")
        effort = self.position_gain * (target - along.near(target)) - self.velocity_gain * along.rate
        if isinstance(self.target, AbstractMotion):
            effort = effort + self.velocity_gain * jax.jvp(self.target, (state.t,), (jnp.ones_like(state.t),))[1]
        return effort if self.limit is None else jnp.clip(effort, -self.limit, self.limit)

    def check(self, dimension):
        super().check(dimension)
        check_value(self.target, (), "target")
        check_not_negative(self, "position_gain", "velocity_gain")
        check_positive(self, "limit")
