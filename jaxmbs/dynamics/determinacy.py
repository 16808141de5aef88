"""Bodies without mass whose motion neither constraints nor other bodies determine."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.formulations.augmented import CartesianEquations, null_part
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.numerics.results import Status
from jaxmbs.system.light import holding_elements
from jaxmbs.system.mechanism import Mechanism

# A motion is undetermined if the share of a massless body in the directions without inertia, vectors of unit length, is
# larger than this.
MIN_FREE_SHARE = 1e-2
# A message names massless bodies whose share is larger than this fraction of the largest share.
MIN_SHARE_RATIO = 0.3
# A massless body held by at least this many elements, such as a rod between two balls, may spin about its own axis.
MIN_ELEMENTS_ON_SPINNING_BODY = 2
# Such a body spins only if its own elements leave it fewer free directions than this, so one at most.
MAX_FREE_DIRECTIONS_OF_SPIN = 1.5
# A body of little mass can only be light if at least this many elements act on it, as in `light_bodies`.
MIN_ELEMENTS_ON_LIGHT_BODY = 2
# A free direction of a massless body, of unit length, is a spin if its rotations contribute more than this.
MIN_SPIN_SHARE = 1e-3
# With traced masses the status is SINGULAR if one is below the largest times the rounding unit to this power: results
# would not be accurate.
TRACED_MASS_POWER = 1 / 2


def weightless_bodies(mech: Mechanism) -> list[str]:
    """Return the names of the bodies whose mass is a plain 0."""
    return [name for name, body in mech.bodies.items() if body.massless[0]]


@jax.jit
def free_shares(mech: Mechanism, q, t) -> Float[Array, " bodies"]:
    """Return for each of `weightless_bodies` its share of the directions x with M x = 0 and Φ_q x = 0.

    The share is the sum of its squared entries in an orthonormal basis of these directions, in units of the mechanism.
    The spin of a body about its own axis, such as that of a rod between two balls, does not count.
    """
    slices, holding = mech.layout.velocity_slices, holding_elements(mech)
    matrix = _inertia_and_constraints(mech, q, t)
    free = null_part(matrix, jnp.eye(matrix.shape[0], dtype=matrix.dtype))
    found = []
    for name in weightless_bodies(mech):
        own = slices[name]
        part = jnp.trace(free[own, own])
        if holding[name] >= MIN_ELEMENTS_ON_SPINNING_BODY:
            alone = null_part(matrix[own, own], jnp.eye(own.stop - own.start, dtype=matrix.dtype))
            turning = jnp.trace(alone[mech.layout.angular[own]][:, mech.layout.angular[own]])
            spins = (jnp.trace(alone) < MAX_FREE_DIRECTIONS_OF_SPIN) & (turning > MIN_SPIN_SHARE)
            part = part - jnp.where(spins, jnp.trace(alone), 0)
        found.append(part)
    return jnp.stack(found)


def _inertia_and_constraints(mech: Mechanism, q, t):
    """Return M + Φ_qᵀΦ_q (m, m) in units of the mechanism, the block of M of each body divided by its largest entry."""
    equations = CartesianEquations(mech)
    units, _, rows = equations.jacobian_in_units(q, t)
    mass = equations.mass(q, t) * units[:, None] * units[None, :]
    for own in mech.layout.velocity_slices.values():
        largest = jnp.max(jnp.abs(mass[own, own]))
        mass = mass.at[own, own].multiply(1 / jnp.where(largest > 0, largest, 1))
    return mass + rows.T @ rows


@jax.jit
def has_unknown_light_body(mech: Mechanism) -> Bool[Array, ""]:
    """Return True if a body is so light that it should be in `Mechanism.light`, but is not, as its mass was traced."""
    holding, light = holding_elements(mech), mech.light
    masses = {name: jnp.asarray(body.mass) for name, body in mech.bodies.items() if not body.massless[0]}
    others = [
        mass for name, mass in masses.items() if holding[name] >= MIN_ELEMENTS_ON_LIGHT_BODY and name not in light
    ]
    if not others:
        return jnp.asarray(False)
    limit = jnp.finfo(mech.dtype).eps ** TRACED_MASS_POWER * jnp.max(jnp.stack(list(masses.values())))
    return jnp.min(jnp.stack(others)) < limit


def status_by_masses(status, mech: Mechanism, q, t, *, masses_known: bool):
    """Return `status`, or SINGULAR if masses do not determine the motion, or differ so much that rounding spoils it."""
    singular = jnp.asarray(int(Status.SINGULAR), status.dtype)
    if weightless_bodies(mech):
        free = jnp.any(free_shares(mech, q, t) > MIN_FREE_SHARE)
        status = jnp.where(free & (status == Status.CONVERGED), singular, status)
    if not masses_known:
        # Rounding may already have given such a motion another bad status.
        status = jnp.where(has_unknown_light_body(mech) & (status != Status.NON_FINITE), singular, status)
    return status


def are_masses_known(mech: Mechanism) -> bool:
    """Return True if no body has a traced mass, so that `Mechanism.light` is right."""
    return all(is_concrete(body.mass) for body in mech.bodies.values())


def check_determined(mech: Mechanism, q, t) -> None:
    """Raise `ValueError` with the names of bodies without mass whose motion is not determined at a configuration."""
    names = weightless_bodies(mech)
    shares = np.asarray(free_shares(mech, q, t)) if names else np.zeros(0)
    least = max(MIN_FREE_SHARE, MIN_SHARE_RATIO * shares.max(initial=0))
    found = [name for name, share in zip(names, shares, strict=True) if share > least]
    if found:
        bodies = ", ".join(map(repr, found))
        raise ValueError(
            f"body {bodies}: the mass is 0, and neither constraints nor other bodies determine the motion; "
            "give it a mass, or add constraints"
        )
