"""Forces in slow motions: reactions and driving efforts without inertia, mechanical advantage, efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.analyses.balance import hold_motions
from jaxmbs.dynamics.reactions import Reactions, named_reactions, reactions_at
from jaxmbs.dynamics.velocity_ratios import (
    check_determined_by_drivers,
    force_without_reactions,
    holds_rods,
    moving_elements,
    velocity_ratios,
)
from jaxmbs.element import require, require_name
from jaxmbs.forces import AbstractBodyContact, JointFriction
from jaxmbs.formulations.augmented import Augmented
from jaxmbs.formulations.reactive import reactive_forces
from jaxmbs.formulations.stateful import states_along, with_states
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import Units, max_norm
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import map_forces, state_of
from jaxmbs.system.layout import Layout
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Forces with dry friction whose field `velocity` is the sliding velocity at which friction sets in.
DRY_FRICTION_TYPES = (JointFriction, AbstractBodyContact)


class Statics(eqx.Module):
    """Forces in a slow motion. Arrays have an axis of time (T,), after those of a batch.

    Attributes:
        reactions: of joints and drivers; see `Reactions`.
        status: (T,), that of the motion; JAMMED where friction and reactions have no common solution; SINGULAR where
            drivers do not determine the velocities, as in a dead centre of the driver, or where a force turns a rod about
            the line through its two ball joints. Other fields mean nothing where the status is bad.
        q: (T, n), the configurations.
        efforts: by the names of drivers, the force or torque that each needs; for an element that prescribes several
            motions (T, motions).
        ideal_efforts: the same without friction.
        rates: the time derivative Ċ of each driver's motion C(t).
        ratios: velocities (T, m) of the bodies at a unit rate of each driver, with all other drivers held; for an element
            that prescribes several motions (T, motions, m).
        loads: by the names of forces, the size of the force or torque of each force element that has one, except those that
            depend on reactions or accelerations.
        layout: names and indices of the coordinates.

    Examples:
        >>> load = {"load": mbs.PointForce("slider", (0, 0), (-10.0, 0))}
        >>> press = mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, load)
        >>> motion = mbs.kinematics(press, jnp.array([-jnp.pi / 2, -0.1]), guess)
        >>> found = mbs.statics(press, motion)
        >>> print(found.efforts["motor"].round(4), found.advantage("motor", "load").round(4))
        [10.      1.4956] [1.     6.6862]
    """

    reactions: Reactions
    status: Int[Array, "*T"]
    q: Float[Array, "*T n"]
    efforts: dict[str, Float[Array, "*T"] | Float[Array, "*T motions"]]
    ideal_efforts: dict[str, Float[Array, "*T"] | Float[Array, "*T motions"]]
    rates: dict[str, Float[Array, "*T"] | Float[Array, "*T motions"]]
    ratios: dict[str, Float[Array, "*T m"] | Float[Array, "*T motions m"]]
    loads: dict[str, Float[Array, "*T"]]
    layout: Layout = eqx.field(static=True)

    @property
    def efficiency(self) -> Float[Array, "*T"]:
        """Power that the drivers would need without friction, divided by the power that they need, (T,).

        Where the loads drive the mechanism and the drivers brake, it is the power that arrives at the drivers, divided by
        that without friction; it is negative if friction alone holds the loads (self-locking). It is 1 where friction
        takes no power.
        """
        power, ideal = self._power(self.efforts), self._power(self.ideal_efforts)
        useful, given = jnp.where(ideal < 0, power, ideal), jnp.where(ideal < 0, ideal, power)
        loses = given != useful
        return jnp.where(loses, useful / jnp.where(loses, given, 1), 1)

    def _power(self, efforts: dict[str, Array]) -> Float[Array, "*T"]:
        """Return the power of the drivers with these efforts, (T,)."""
        powers = [efforts[name] * rate for name, rate in self.rates.items()]
        return sum(
            (power if power.ndim == self.status.ndim else jnp.sum(power, axis=-1) for power in powers),
            jnp.zeros_like(self.q[..., 0]),
        )

    def advantage(
        self, driver: str, load: str | tuple[str, ArrayLike | Sequence[float], ArrayLike | Sequence[float]]
    ) -> Float[Array, "*T"]:
        """Return the mechanical advantage (T,) of a driver over a load.

        For a force of the mechanism it is the size of this force or torque, divided by that of the driver's effort, with
        friction and all other forces. For a point of a body and a direction it is the ideal advantage, the rate of the
        driver divided by the velocity of the point in this direction; it depends on the geometry only, and is infinite
        in a dead centre.

        Args:
            driver: name of the driver.
            load: name of a force, or (body, point, direction) with the point in the frame of the body and the direction
                in the ground frame.

        Returns:
            (T,), in units of the load divided by units of the driver's effort.

        Raises:
            ValueError: an unknown name, a driver of several motions, a force without a size, or a point or direction of
                another shape.

        Examples:
            >>> found = mbs.statics(mech, mbs.kinematics(mech, jnp.array([1.0]), guess))
            >>> print(found.advantage("motor", ("slider", (0, 0), (-1, 0))).round(6))  # −1 / (dx/dφ)
            [0.913793]
        """
        require_name("driver", driver, self.rates)
        require(self.rates[driver].ndim == self.status.ndim, f"driver {driver!r} prescribes several motions")
        if isinstance(load, str):
            require_name("force with a force or torque", load, self.loads)
            return self.loads[load] / jnp.abs(self.efforts[driver])
        body, point, direction = load
        shape = (self.layout.dimension,)
        direction = jnp.asarray(direction, self.q.dtype)
        require(direction.shape == shape, f"direction must have shape {shape}, got {direction.shape}")

        def ideal_advantage(q, ratios):
            """Return the ideal advantage in one configuration."""
            position = lambda q: self.layout.point(body, point, q)
            velocity = jax.jvp(position, (q,), (self.layout.rate(q, ratios),))[1]
            return jnp.sqrt(direction @ direction) / (direction @ velocity)

        return vmap_axes(ideal_advantage, self.status.ndim)(self.q, self.ratios[driver])


def statics(mech: Mechanism, motion: Trajectory) -> Statics:
    """Return forces in a slow motion: reactions, driving efforts, mechanical advantage and efficiency.

    Solves Q + Φ_qᵀλ = 0 in the configurations of a motion. A slow motion has no inertia forces and no viscous damping. Dry
    friction does not depend on the speed: `JointFriction`, and the friction in contacts, are those of
    sliding (μ_d) in the direction of the velocities of `motion`, and zero where nothing slides. All other forces are
    evaluated at a velocity near zero, in the direction of the motion: losses in the gearbox of a motor count as forces. If
    constraints are redundant, reactions are chosen as in `reactions`: λ of smallest norm. The result is differentiable. For
    a batch use `jax.vmap`, or a `motion` with leading axes.

    Args:
        mech: the mechanism.
        motion: a `Trajectory` by `kinematics`; drivers determine the motion.

    Returns:
        Reactions, efforts with and without friction, and efficiency along the motion; see `Statics`.

    Raises:
        ValueError: there are fewer drivers than degrees of freedom; or forces have states, such as the current of a
            motor, and `motion` does not.

    Examples:
        >>> heavy = {"gravity": mbs.Gravity((0, -9.81))}
        >>> arm = mbs.Mechanism(pendulum.bodies, pendulum.constraints, {"hand": planar.RevoluteDriver(
        ...     "ground", "bob", mbs.motion.Ramp(rate=3.0))}, heavy)
        >>> held = mbs.statics(arm, mbs.kinematics(arm, jnp.array([0.0, jnp.pi / 6]), below))
        >>> print(held.efforts["hand"].round(6), held.reactions["pin"].force[1].round(6))
        [ 0.   19.62] [ 0.   19.62]
    """
    check_determined_by_drivers(mech, "statics")
    mech = mech.weighed()
    found, solved, regular, fields = _statics(
        mech, motion.t, motion.q, motion.v, motion.status, states_along(mech, motion)
    )
    status = motion.status
    singular = (status == Status.CONVERGED) & ~regular
    status = jnp.where(singular, jnp.asarray(int(Status.SINGULAR), status.dtype), status)
    if solved is not None:
        status = jnp.where(
            (status == Status.CONVERGED) & ~solved, jnp.asarray(int(Status.JAMMED), status.dtype), status
        )
    reactions = named_reactions(mech, found, motion.q)
    efforts = {name: reactions[name].effort for name in moving_elements(mech)}
    if not _friction_velocities(mech):
        # Computed twice they would differ by rounding, and the efficiency in a dead centre would be a quotient of rounding
        # errors.
        fields["ideal_efforts"] = efforts
    return Statics(reactions, status, motion.q, efforts, layout=mech.layout, **fields)


@eqx.filter_jit
def _statics(mech: Mechanism, *motion):
    """Return the results of `_statics_at` along a motion."""
    return vmap_axes(partial(ProgramWithFallback(_statics_at), mech), jnp.ndim(motion[0]))(*motion)


def _statics_at(
    mech: Mechanism, t, q, v, status, states
) -> tuple[dict[str, dict], Array | None, Bool[Array, ""], dict[str, dict]]:
    """Return the results of `reactions_at`, True unless SINGULAR, and the remaining fields of `Statics`, at one time."""
    mech = measure_marks(with_states(mech, states), q)[0]
    held, elements = hold_motions(mech, t), moving_elements(mech)
    rates = {
        name: jnp.stack([jax.jvp(motion, (t,), (jnp.ones_like(t),))[1] for motion in element.motions])
        for name, element in elements.items()
    }
    ratios, regular = velocity_ratios(held, elements, q, t, status == Status.CONVERGED)
    # Velocities are so small that viscous forces are rounding errors: ε for the fastest body, in units of the mechanism.
    # Dry friction sets in at ε^1.5. So everything that moves slides, and velocities that are only rounding, ε², do not.
    eps, size = float(jnp.finfo(v.dtype).eps), mech.size(q)
    speed = jax.lax.stop_gradient(max_norm(v / Units(mech.layout.angular, size).vector))
    v = eps * v / jnp.where(speed > 0, speed, 1)
    onset = eps**1.5 * jnp.minimum(1, jax.lax.stop_gradient(size))
    slow, frictionless = (_with_onset(held, velocity) for velocity in (onset, 1 / onset))
    ideal = force_without_reactions(frictionless, q, v, t)
    fields = {"rates": rates, "ratios": ratios, "ideal_efforts": {name: -own @ ideal for name, own in ratios.items()}}
    # As in `Reaction.effort`, the only motion of an element has no axis.
    single = {name for name, element in elements.items() if hasattr(element, "motion")}
    fields = {
        key: {name: x[0] if name in single else x for name, x in by_name.items()} for key, by_name in fields.items()
    }
    found, solved = reactions_at(slow, Augmented(), t, q, v, jnp.zeros_like(v), states)
    unknown_forces = reactive_forces(slow)
    sized = {name: force for name, force in slow.forces.items() if name not in unknown_forces}
    measures = map_forces(lambda force: force.measures(state_of(slow, q, v, t)), sized)
    loads = {name: measured.get("force", measured.get("torque")) for name, measured in measures.items()}
    fields["loads"] = {name: _size(load) for name, load in loads.items() if load is not None}
    return found, solved, (regular & holds_rods(mech, q, ideal)) | (status != Status.CONVERGED), fields


def _size(load: Float[Array, "*d"]) -> Float[Array, ""]:
    """Return the absolute value of a number or the length of a vector; its derivative is zero at zero."""
    square = jnp.sum(load * load)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _friction_velocities(mech: Mechanism) -> list[Array]:
    """Return the sliding velocities at which the dry friction of each force sets in."""
    dry = [force for force in mech.forces.values() if isinstance(force, DRY_FRICTION_TYPES)]
    return [force.velocity for force in dry if force.velocity is not None]


def _with_onset(mech: Mechanism, velocity: Array) -> Mechanism:
    """Return the mechanism with a sliding velocity at which the dry friction of each force sets in."""
    onsets = [jnp.broadcast_to(velocity, jnp.shape(given)) for given in _friction_velocities(mech)]
    return eqx.tree_at(_friction_velocities, mech, onsets) if onsets else mech
