"""Velocities of a mechanism for a unit rate of one driver, and applied forces at rest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.analyses.idle import idle_spins
from jaxmbs.element import AbstractConstraint
from jaxmbs.formulations.reactive import reactive_forces, with_force_fields
from jaxmbs.motion import Constant
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.system.equations import applied_forces, residual_of, residuals
from jaxmbs.system.mechanism import Mechanism


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


def stopped(mech: Mechanism, t) -> Mechanism:
    """Return the mechanism with all prescribed motions held at their values at time t."""
    held = {name: at_values(element, prescribed_values(element, t)) for name, element in moving_elements(mech).items()}
    places = lambda mech: [{**mech.constraints, **mech.drivers}[name] for name in held]
    return eqx.tree_at(places, mech, list(held.values())) if held else mech


def velocity_ratios(mech: Mechanism, names: Iterable[str], q, t, regular=True) -> dict[str, Float[Array, "motions m"]]:
    """Return, by element name, the velocities at a unit rate of each of its motions, with all other motions held.

    Args:
        mech: the mechanism, `stopped`.
        names: of elements that prescribe motions.
        q: (n,), with Φ = 0.
        t: time.
        regular: if False the velocities are zero.
    """
    elements, count = moving_elements(mech), len(mech.layout.row_owners)
    factors = factor(jacobian(partial(residuals, mech), mech.layout, q, t), regular, determined=True)
    found = {}
    for name in names:
        element = elements[name]
        residual = lambda values, name=name, element=element: residual_of(mech, name, at_values(element, values), q, t)
        own = jax.jacfwd(residual)(prescribed_values(element, t))
        right = jnp.zeros((count, own.shape[1]), q.dtype).at[mech.layout.row_slices[name]].set(-own)
        found[name] = factors.solve(right).T
    return found


def force_at_rest(mech: Mechanism, q, t) -> Float[Array, " m"]:
    """Return the sum of all applied forces (m,) at zero velocity. Friction from reactions is zero there."""
    none = dict.fromkeys(reactive_forces(mech), jnp.zeros((), q.dtype))
    return applied_forces(with_force_fields(mech, "size", none), q, jnp.zeros(mech.layout.m, q.dtype), t)


def check_determined_by_drivers(mech: Mechanism, asker: str) -> None:
    """Raise `ValueError` in the name of the function `asker` if there are fewer drivers than degrees of freedom."""
    missing = mech.layout.m - len(mech.layout.row_owners) - len(idle_spins(mech))
    if missing > 0:
        raise ValueError(f"{asker} needs a motion that drivers determine: {missing} more driver(s) are missing")
