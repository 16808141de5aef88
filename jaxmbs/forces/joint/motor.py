"""Motors and servos at a coordinate of a joint."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import check_not_negative, check_positive, require
from jaxmbs.forces.joint.contact import AbstractContactForce, contact_energy, contact_force
from jaxmbs.forces.joint.effort import AbstractEffort
from jaxmbs.forces.joint.inertia import AbstractInertialEffort
from jaxmbs.forces.joint.stateful import AbstractStatefulForce
from jaxmbs.forces.values import check_value, computed_field, evaluate, value_field
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import is_concrete, real

# A current that is a state rises more and more slowly within this fraction of its limit below the limit.
SLOW_CURRENT_FRACTION = 0.05


class Motor(AbstractInertialEffort, AbstractStatefulForce, AbstractContactForce):
    """A direct-current motor with a gearbox at a coordinate x of a joint.

        L di/dt = u − R i − K n ẋ,  τ = n η K i − n² J ẍ,

    with the voltage u, the current i, the torque constant K, which is that of the back-EMF as well, and the ratio n.
    Without an inductance (L = 0), i follows from u and ẋ. With one, i is a state of the motor, "current", which starts
    at zero: `run.state("motor.current")`. The current is kept within ±i_max, the voltage within ±u_max; a current that
    is a state rises more slowly from 0.95 i_max on. When the joint drives the motor, the efficiency acts in the
    opposite direction: the torque is n K i / η. The rotor's inertia J acts as n² J at the joint, in all formulations,
    and its energy ½ n² J ẋ² is part of the kinetic energy; gyroscopic torques of the rotor are not counted, see
    `spatial.Rotor`. The bodies must have some inertia of their own at the joint.

    A steady voltage leads to the speed u / (n K) without load, with the time constant R (n² J + I) / (n K)² for a load
    of inertia I and η = 1.

    With a backlash the rotor has a degree of freedom of its own, with two states, both referred to the joint: "lead",
    s, the angle by which the rotor is ahead of the joint, and "rate", w, the speed of the rotor:

        ṡ = w − ẋ,  n² J ẇ = n η K i − τ.

    The effort τ that reaches the joint is that of a stop (as in `JointStop`, with exponent 1) at each end of the play,
    s = ±b/2. The rotor starts in the middle of the play, with the speed of the joint.

    Args:
        joint: name of the joint.
        torque_constant: K, in units of a torque divided by a current, or of a voltage divided by an angular velocity.
        resistance: R.
        voltage: u: a number, a motion or a function f(state) of a `State`; f(t, q, v) works too.
        ratio: n, turns of the motor for one of the joint, or the angle for a unit of its slide; negative where they turn
            in opposite senses.
        inertia: J, of the rotor.
        inductance: L; none unless given.
        efficiency: η of the gearbox, in (0, 1].
        current_limit: i_max.
        voltage_limit: u_max.
        backlash: b, the whole play of the gearbox, in units of the coordinate; none unless given. It needs an inertia.
        tooth_stiffness: k of the teeth beyond the play, referred to the joint; only with a backlash.
        tooth_damping: d of the teeth, as in `JointStop`.
        coordinate: name of one of several angles or slides of the joint.

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
    backlash: Array | None = real(optional=True, default=None, kw_only=True)
    tooth_stiffness: Array | None = real(optional=True, default=None, kw_only=True)
    tooth_damping: Array = real(default=0.0, kw_only=True)
    size: Array | None = computed_field()
    own: Array | None = computed_field((None,))
    step: Array | None = computed_field()

    @property
    def touching(self):
        """True with a backlash, whose teeth are contacts."""
        return self.backlash is not None

    @property
    def at_joint(self):
        """n² J; None without an inertia, or with a backlash, where the rotor has a rate of its own."""
        return None if self.inertia is None or self.backlash is not None else self.ratio**2 * self.inertia

    def effort(self, state, along):
        """Return the effort τ: that of the teeth with a backlash, else that of the drive and of the rotor's inertia."""
        if self.backlash is not None:
            return self._tooth_effort(along)
        drive = self._drive(state, along.rate)
        if not self.reactive:
            return drive
        require(
            self.size is not None, "its inertia needs accelerations, which are not known here; `force_elements` does"
        )
        return drive + self.size

    @property
    def states(self):
        """Names of the states: "current" with an inductance, then "lead" and "rate" with a backlash."""
        current = () if self.inductance is None else ("current",)
        return current if self.backlash is None else (*current, "lead", "rate")

    @property
    def start(self):
        """Zero for each state."""
        return (0.0,) * len(self.states)

    def at_start(self, state):
        """Return zeros (k,) for the states; the rate of the rotor is that of the joint."""
        start = super().at_start(state)
        return start if self.backlash is None else start.at[-1].set(self._along(state).rate)

    def rates(self, state):
        """Return the rates (k,) of the states: di/dt, then ṡ and ẇ with a backlash."""
        along, found = self._along(state), []
        rate = self._rate(along.rate)
        if self.inductance is not None:
            found.append(self._current_rate(state, rate))
        if self.backlash is not None and self.inertia is not None:
            inertia = self.ratio**2 * self.inertia
            found += [rate - along.rate, (self._drive(state, rate) - self._tooth_effort(along)) / inertia]
        return jnp.stack(found)

    def _rate(self, joint_rate):
        """Return the rate of the rotor, divided by the ratio n; without a backlash it is that of the joint."""
        return joint_rate if self.backlash is None else self.known[-1]

    def _current_rate(self, state, rate):
        """Return di/dt for the rotor's rate, reduced as the current comes near its limit."""
        drop = self.resistance * self.known[0] + self.torque_constant * self.ratio * rate
        found = (self._voltage(state) - drop) / self.inductance
        if self.current_limit is not None:
            left = 1 - jnp.sign(found) * self.known[0] / self.current_limit
            found = found * jnp.minimum(left / SLOW_CURRENT_FRACTION, 1)
        return found

    def _teeth(self):
        """Return (sign, δ) for both ends of the play: −1 or 1, and δ > 0 where the lead exceeds that end."""
        assert self.backlash is not None
        return [(sign, sign * self.known[-2] - self.backlash / 2) for sign in (-1, 1)]

    def _tooth_effort(self, along):
        """Return τ, the effort of the teeth on the joint, for value and rate `along` the joint."""
        faster, total = self.known[-1] - along.rate, jnp.zeros_like(along.rate)
        for sign, depth in self._teeth():
            law = self.tooth_stiffness, 1.0, self.tooth_damping
            total = total + sign * contact_force(depth, sign * faster, *law, step=self.step)
        return total

    def _voltage(self, state):
        """Return the voltage u, kept within ±u_max."""
        voltage = evaluate(self.voltage, state, (), "voltage")
        if self.voltage_limit is not None:
            voltage = jnp.clip(voltage, -self.voltage_limit, self.voltage_limit)
        return voltage

    def _current(self, state, rate):
        """Return the current i: the state with an inductance, else that of u and the rotor's rate, within ±i_max."""
        if self.inductance is not None:
            return self.known[0]
        voltage = self._voltage(state)
        current = (voltage - self.torque_constant * self.ratio * rate) / self.resistance
        return current if self.current_limit is None else jnp.clip(current, -self.current_limit, self.current_limit)

    def _drive(self, state, rate):
        """Return n η K i, the drive's effort at the joint, or n K i / η if the joint drives the motor."""
        torque = self.ratio * self.torque_constant * self._current(state, rate)
        if self.efficiency is None:
            return torque
        return torque * jnp.where(torque * rate < 0, 1 / self.efficiency, self.efficiency)

    def potential(self, state):
        """Return the elastic energy of the teeth; zero without a backlash."""
        total = jnp.zeros((), state.q.dtype)
        if self.backlash is not None:
            for _, depth in self._teeth():
                total = total + contact_energy(depth, self.tooth_stiffness, 1.0)
        return total

    def kinetic(self, state):
        """Return the kinetic energy ½ n² J times the squared rate of the rotor at the joint."""
        if self.backlash is None or self.inertia is None:
            return super().kinetic(state)
        return self.ratio**2 * self.inertia * self.known[-1] ** 2 / 2

    def measures(self, state):
        """Return effort, coordinate, rate, current and power; the power that the inertia takes up is not in it."""
        along = self._along(state)
        rate = self._rate(along.rate)
        drive = self._drive(state, rate)
        power, effort = drive * rate, drive
        if self.backlash is not None:
            effort = self._tooth_effort(along)
            power = power - effort * (rate - along.rate)
        return along.measures(effort) | {"current": self._current(state, rate), "power": power}

    def check(self, dimension):
        """Raise `ValueError` for numbers of a wrong sign, an efficiency above 1, or an incomplete backlash."""
        super().check(dimension)
        check_value(self.voltage, (), "voltage")
        check_positive(self, "resistance", "current_limit", "voltage_limit", "efficiency", "inductance")
        check_not_negative(self, "inertia", "backlash", "tooth_damping")
        more = self.efficiency is not None and is_concrete(self.efficiency) and self.efficiency > 1
        require(not more, f"efficiency must not be above 1, got {self.efficiency}")
        require(not is_concrete(self.ratio) or self.ratio != 0, "ratio must not be zero")
        if self.backlash is None:
            require(self.tooth_stiffness is None, "tooth_stiffness needs a backlash")
        else:
            require(
                self.inertia is not None and self.tooth_stiffness is not None,
                "backlash needs inertia and tooth_stiffness",
            )
            check_positive(self, "inertia", "tooth_stiffness")


class Servo(AbstractEffort):
    """A position servo at a coordinate x of a joint: τ = k_p (x_s − x) + k_v (ẋ_s − ẋ), kept within ±τ_max.

    ẋ_s is the rate of the target if it is a motion, else zero. An angle in space is counted so that it lies within half a
    turn of the target.

    Args:
        joint: name of the joint.
        target: x_s: a number, a motion or a function f(state) of a `State`; f(t, q, v) works too.
        position_gain: k_p.
        velocity_gain: k_v.
        limit: τ_max.
        coordinate: name of one of several angles or slides of the joint.

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
        """Return the torque or force τ = k_p (x_s − x) + k_v (ẋ_s − ẋ), kept within ±τ_max."""
        target = evaluate(self.target, state, (), "target")
        effort = self.position_gain * (target - along.near(target)) - self.velocity_gain * along.rate
        if isinstance(self.target, AbstractMotion):
            effort = effort + self.velocity_gain * jax.jvp(self.target, (state.t,), (jnp.ones_like(state.t),))[1]
        return effort if self.limit is None else jnp.clip(effort, -self.limit, self.limit)

    def check(self, dimension):
        """Raise `ValueError` for an unusable target, negative gains, or a limit that is not positive."""
        super().check(dimension)
        check_value(self.target, (), "target")
        check_not_negative(self, "position_gain", "velocity_gain")
        check_positive(self, "limit")
