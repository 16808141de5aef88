"""A mechanism with one degree of freedom as a single body: reduced inertia and force at the coordinate of its driver."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxmbs.analyses.balance import hold_motions
from jaxmbs.dynamics.velocity_ratios import (
    check_determined_by_drivers,
    force_without_reactions,
    holds_rods,
    moving_elements,
    prescribed_values,
    velocity_ratios,
    with_constant_motions,
    with_elements,
)
from jaxmbs.element import require, require_name
from jaxmbs.formulations.stateful import states_along, with_states
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import energy
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory


class Equivalent(eqx.Module):
    """Reduced inertia and force along a motion: J φ̈ + ½ J′ φ̇² = F + F_d with the effort F_d of the driver.

    Arrays have an axis of time (T,), after those of a batch. Where the status is bad, ratios, inertia and force are zero.

    Attributes:
        coordinate: φ, the motion C(t) of the driver: an angle in radians, or a length.
        inertia: J(φ), twice the kinetic energy at φ̇ = 1: a moment of inertia, or a mass.
        inertia_rate: J′ = dJ/dφ.
        force: F(φ), the sum of all applied forces at rest, without damping and friction, as a torque or force along φ; its
            power is F φ̇.
        ratios: (T, m), velocities v/φ̇ of the bodies.
        status: (T,), that of the motion; SINGULAR where the driver does not determine the velocities, as in a dead centre,
            or where a force turns a rod about the line through its two ball joints.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> found = mbs.equivalent(mech, motion)
        >>> print(found.inertia.round(6), found.inertia_rate.round(6))
        [2.25 3.  ] [ 0.       -1.154701]
    """

    coordinate: Float[Array, "*T"]
    inertia: Float[Array, "*T"]
    inertia_rate: Float[Array, "*T"]
    force: Float[Array, "*T"]
    ratios: Float[Array, "*T m"]
    status: Int[Array, "*T"]


def equivalent(mech: Mechanism, motion: Trajectory, driver: str | None = None) -> Equivalent:
    """Return the reduced inertia and force of a mechanism at the coordinate φ of a driver, along a motion.

    The velocities follow from Φ_q (v/φ̇) = −∂Φ/∂φ. They depend on the configuration only, so they are defined at rest, too.
    dJ/dφ is exact, by differentiation of J along these velocities. Other drivers are held. The results are
    differentiable. For a batch use `jax.vmap`, or a `motion` with leading axes.

    Args:
        mech: the mechanism.
        motion: a `Trajectory` by `kinematics`; drivers determine the motion.
        driver: name of the driver, needed if there are several.

    Returns:
        φ, J, dJ/dφ, F and v/φ̇ along the motion; see `Equivalent`.

    Raises:
        ValueError: an unknown driver, or none is named and there are several; a driver of several motions; fewer drivers
            than degrees of freedom; or forces have states, such as the current of a motor, and `motion` does not.

    Examples:
        >>> heavy = mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {"gravity": mbs.Gravity((0, -9.81))})
        >>> found = mbs.equivalent(heavy, mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess))
        >>> print(found.force.round(6))  # the pin of the rod moves at 1, upwards
        [-9.81  0.  ]
    """
    elements = moving_elements(mech)
    if driver is None:
        require(bool(elements), "equivalent needs a driver; the mechanism has none")
        require(len(elements) == 1, f"name the driver: one of {', '.join(elements)}")
        (driver,) = elements
    require_name("driver", driver, elements)
    require(len(elements[driver].motions) == 1, f"driver {driver!r} prescribes several motions")
    check_determined_by_drivers(mech, "equivalent")
    return _equivalent(mech, driver, motion.t, motion.q, motion.status, states_along(mech, motion))


@eqx.filter_jit
def _equivalent(mech: Mechanism, driver: str, *motion) -> Equivalent:
    """Return the `Equivalent` along a motion."""
    at_one_time = lambda mech, *motion: _equivalent_at(mech, driver, *motion)
    return vmap_axes(partial(ProgramWithFallback(at_one_time), mech), jnp.ndim(motion[0]))(*motion)


def _equivalent_at(mech: Mechanism, driver: str, t, q, status, states) -> Equivalent:
    """Return the `Equivalent` at one time."""
    mech = hold_motions(measure_marks(with_states(mech, states), q)[0], t)
    (value,) = prescribed_values(moving_elements(mech)[driver], t)
    still = jnp.zeros(mech.layout.m, q.dtype)

    def inertia(q, value):
        """Return J; the velocities v/φ̇ with the driver at a value of φ, and True if they are determined."""
        moved = with_elements(mech, {driver: with_constant_motions(moving_elements(mech)[driver], value[None])})
        found, regular = velocity_ratios(moved, [driver], q, t, status == Status.CONVERGED)
        (ratios,) = found[driver]
        # States of forces, such as the rate of a rotor behind a backlash, have an energy of their own.
        return 2 * (energy(mech, q, ratios).kinetic - energy(mech, q, still).kinetic), (ratios, regular)

    ratios, regular = inertia(q, value)[1]
    along = (mech.layout.rate(q, ratios), jnp.ones_like(value))
    found, rate, _ = jax.jvp(inertia, (q, value), along, has_aux=True)
    force = force_without_reactions(mech, q, still, t)
    singular = (status == Status.CONVERGED) & ~(regular & holds_rods(mech, q, force))
    status = jnp.where(singular, jnp.asarray(int(Status.SINGULAR), status.dtype), status)
    return Equivalent(value, found, rate, force @ ratios, ratios, status)
