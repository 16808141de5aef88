"""Velocities of a mechanism for a unit rate of one driver, and applied forces at rest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxmbs.analyses.balance import hold_motions
from jaxmbs.analyses.unknowns import constraints_without_spin
from jaxmbs.element import AbstractConstraint
from jaxmbs.formulations.reactive import reactive_forces, with_force_fields
from jaxmbs.formulations.stateful import states_along, with_states
from jaxmbs.motion import Constant
from jaxmbs.numerics.arrays import with_fields
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor, redundancy
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import Units
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import applied_forces, residual_of
from jaxmbs.system.idle import idle_spins, spin_velocities
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory


def moving_elements(mech: Mechanism) -> dict[str, AbstractConstraint]:
    """Return, by name, the drivers and constraints that prescribe motions."""
    elements = {**mech.constraints, **mech.drivers}
    return {name: element for name, element in elements.items() if element.motions}


def prescribed_values(element: AbstractConstraint, t) -> Float[Array, " motions"]:
    """Return the values C(t) of the motions of an element."""
    return jnp.stack([jnp.asarray(motion(t), t.dtype) for motion in element.motions])


def with_constant_motions(element: AbstractConstraint, values: Float[Array, " motions"]) -> AbstractConstraint:
    """Return the element with its motions replaced by constants."""
    return element.with_motions([Constant(value) for value in values])


def with_elements(mech: Mechanism, changed: dict[str, AbstractConstraint]) -> Mechanism:
    """Return the mechanism with the constraints and drivers named in `changed` replaced."""
    chosen = lambda elements: tuple(changed.get(name, element) for name, element in elements.items())
    return with_fields(Mechanism, mech, _constraints=chosen(mech.constraints), _drivers=chosen(mech.drivers))


def velocity_ratios(
    mech: Mechanism, names: Iterable[str], q, t, usable=True
) -> tuple[dict[str, Float[Array, "motions m"]], Bool[Array, ""]]:
    """Return, by element name, the velocities at a unit rate of each of its motions, with all other motions held.

    Args:
        mech: the mechanism, with all motions constant.
        names: names of elements that prescribe motions.
        q: (n,), with Φ = 0.
        t: time.
        usable: if False the velocities are zero.

    Returns:
        (motions, m) for each element; and True unless the configuration is not `usable`, or Φ_q is singular there, so that
        the velocities are zero.
    """
    phi, elements, found = constraints_without_spin(mech, q, t).phi, moving_elements(mech), {}
    matrix = jacobian(phi, mech.layout, q, t)
    rcond = factor(jax.lax.stop_gradient(matrix), determined=True).rcond
    regular = jnp.asarray(usable) & (rcond > redundancy(q.dtype))
    factors = factor(matrix, regular, determined=True)
    for name in names:
        element = elements[name]
        changed = partial(with_constant_motions, element)
        residual = lambda values, name=name, changed=changed: residual_of(mech, name, changed(values), q, t)
        own = jax.jacfwd(residual)(prescribed_values(element, t))
        right = jnp.zeros((factors.matrix.shape[0], own.shape[1]), q.dtype).at[mech.layout.row_slices[name]].set(-own)
        found[name] = factors.solve(right).T
    return found, regular


def holds_rods(mech: Mechanism, q, force: Float[Array, " m"]) -> Bool[Array, ""]:
    """Return False if a force turns a rod about the line through its two ball joints, so that no reactions balance it."""
    held, unit = jnp.asarray(True), Units(mech.layout.angular, mech.size(q)).vector
    for spin in spin_velocities(mech, q):
        limit = redundancy(q.dtype) ** 0.5 * jnp.max(jnp.abs(unit * force))
        held = held & (jnp.abs(spin @ force) <= limit)
    return held


def force_without_reactions(mech: Mechanism, q, v, t) -> Float[Array, " m"]:
    """Return the sum of all applied forces (m,); those that depend on reactions or accelerations count as zero."""
    none = dict.fromkeys(reactive_forces(mech), jnp.zeros((), q.dtype))
    return applied_forces(with_force_fields(mech, "size", none), q, v, t)


def holding_efforts(mech: Mechanism, motion: Trajectory) -> dict[str, Float[Array, "*T motions"]]:
    """Return, by name, the efforts of drivers that hold the mechanism still along a motion, without friction.

    Args:
        mech: the mechanism.
        motion: a motion that drivers determine.

    Returns:
        (T, motions) for each element that prescribes motions, after the axes of a batch; zero where the status is bad.
    """
    given = (motion.t, motion.q, motion.status == Status.CONVERGED, states_along(mech, motion))
    return vmap_axes(partial(ProgramWithFallback(_holding_efforts_at), mech), jnp.ndim(motion.t))(*given)


def _holding_efforts_at(mech: Mechanism, t, q, regular, states) -> dict[str, Float[Array, " motions"]]:
    """Return the holding efforts at one time."""
    held = hold_motions(measure_marks(with_states(mech, states), q)[0], t)
    force = force_without_reactions(held, q, jnp.zeros(mech.layout.m, q.dtype), t)
    return {name: -own @ force for name, own in velocity_ratios(held, moving_elements(held), q, t, regular)[0].items()}


def check_determined_by_drivers(mech: Mechanism, caller: str) -> None:
    """Check that there are as many equations as velocities.

    If constraints are redundant, drivers may be missing nevertheless; then `velocity_ratios` finds no regular Φ_q.

    Args:
        mech: the mechanism.
        caller: name of the public function, for the message.

    Raises:
        ValueError: there are fewer equations.
    """
    missing = mech.layout.m - len(mech.layout.row_owners) - len(idle_spins(mech))
    if missing > 0:
        raise ValueError(
            f"{caller} needs a motion that drivers determine; drivers for {missing} degree(s) of freedom are missing"
        )
