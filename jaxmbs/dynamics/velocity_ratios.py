"""Velocities of a mechanism for a unit rate of one driver, and applied forces at rest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.analyses.unknowns import constraints_without_spin
from jaxmbs.element import AbstractConstraint
from jaxmbs.formulations.reactive import reactive_forces, with_force_fields
from jaxmbs.formulations.stateful import states_along, with_states
from jaxmbs.motion import Constant
from jaxmbs.numerics.arrays import with_fields
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import applied_forces, residual_of
from jaxmbs.system.idle import idle_spins
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


def at_values(element: AbstractConstraint, values: Float[Array, " motions"]) -> AbstractConstraint:
    """Return the element with constants in the place of its motions."""
    return element.with_motions([Constant(value) for value in values])


def with_elements(mech: Mechanism, changed: dict[str, AbstractConstraint]) -> Mechanism:
    """Return the mechanism with other constraints and drivers in the place of those with the names of `changed`."""
    chosen = lambda elements: tuple(changed.get(name, element) for name, element in elements.items())
    return with_fields(Mechanism, mech, _constraints=chosen(mech.constraints), _drivers=chosen(mech.drivers))


def stopped(mech: Mechanism, t) -> Mechanism:
    """Return the mechanism with all prescribed motions held at their values at time t."""
    elements = moving_elements(mech).items()
    return with_elements(mech, {name: at_values(element, prescribed_values(element, t)) for name, element in elements})


def velocity_ratios(mech: Mechanism, names: Iterable[str], q, t, regular=True) -> dict[str, Float[Array, "motions m"]]:
    """Return, by element name, the velocities at a unit rate of each of its motions, with all other motions held.

    Args:
        mech: the mechanism, `stopped`.
        names: of elements that prescribe motions.
        q: (n,), with Φ = 0.
        t: time.
        regular: if False the velocities are zero.

    Returns:
        (motions, m) for each element.
    """
    phi, elements, found = constraints_without_spin(mech, q, t).phi, moving_elements(mech), {}
    factors = factor(jacobian(phi, mech.layout, q, t), regular, determined=True)
    for name in names:
        element = elements[name]
        residual = lambda values, name=name, element=element: residual_of(mech, name, at_values(element, values), q, t)
        own = jax.jacfwd(residual)(prescribed_values(element, t))
        right = jnp.zeros((factors.matrix.shape[0], own.shape[1]), q.dtype).at[mech.layout.row_slices[name]].set(-own)
        found[name] = factors.solve(right).T
    return found


def force_at_rest(mech: Mechanism, q, t) -> Float[Array, " m"]:
    """Return the sum of all applied forces (m,) at zero velocity. Friction from reactions is zero there."""
    none = dict.fromkeys(reactive_forces(mech), jnp.zeros((), q.dtype))
    return applied_forces(with_force_fields(mech, "size", none), q, jnp.zeros(mech.layout.m, q.dtype), t)


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
    held = stopped(measure_marks(with_states(mech, states), q)[0], t)
    force = force_at_rest(held, q, t)
    return {name: -own @ force for name, own in velocity_ratios(held, moving_elements(held), q, t, regular).items()}


def check_determined_by_drivers(mech: Mechanism, asker: str) -> None:
    """Raise `ValueError` in the name of the function `asker` if there are fewer drivers than degrees of freedom."""
    missing = mech.layout.m - len(mech.layout.row_owners) - len(idle_spins(mech))
    if missing > 0:
        raise ValueError(f"{asker} needs a motion that drivers determine: {missing} more driver(s) are missing")
