"""Idle spins: the turning of a rod about the line through its two ball joints, which moves nothing else."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.analyses.assembly import frozen
from jaxmbs.numerics.arrays import finite
from jaxmbs.numerics.rotation import angular_velocity
from jaxmbs.system.mechanism import Mechanism


def idle_spins(mech: Mechanism) -> tuple[str, ...]:
    """Names of the bodies that can spin without moving others: only two ball joints, to two other bodies, hold them."""
    if mech.layout.dimension == 2:
        return ()
    at: dict[str, list] = {}
    for element in (*mech.constraints.values(), *mech.drivers.values()):
        ball = element.rows == 3 and not element.extra and _is_ball(element.shared)
        for body, other in ((element.i, element.j), (element.j, element.i)):
            at.setdefault(body, []).append(other if ball else None)
    held_by_balls = lambda ends: None not in ends and len(ends) == len(set(ends)) == 2
    return tuple(body for body in mech.bodies if held_by_balls(at.get(body, ())))


def _is_ball(shared) -> bool:
    return len(shared.points) == 1 and not shared.vectors and not shared.rows


def determined(mech: Mechanism, q, t) -> tuple[Callable, Callable, Array]:
    """As `frozen`, with an additional row for each idle spin that keeps the rod from spinning: uᵀω = 0, u along the rod.

    The row prescribes a rate and no angle. As a function of q it is 2 uᵀ vec(p̄₀ p), where p are the Euler parameters and
    p₀ is their present value as a constant. It is always zero; its first time derivative is uᵀω, its second uᵀω̇.
    """
    phi, still, usable = frozen(mech, q, t)
    rods = idle_spins(mech)
    if not rods:
        return phi, still, usable
    known, _ = finite(mech)

    def extended(q, t):
        return jnp.concatenate([phi(q, t), jnp.stack([_spin(known, body, q) for body in rods])])

    closed, numbers = jax.closure_convert(extended, q, t)
    numbers = jax.lax.stop_gradient(numbers)
    return extended, lambda q, t: closed(q, t, *numbers), usable


def _spin(mech: Mechanism, body: str, q) -> Float[Array, ""]:
    """The value of the row of one rod, always zero."""
    elements = [*mech.constraints.values(), *mech.drivers.values()]
    ends = [
        jnp.asarray(element.shared.points[0][element.j == body], q.dtype)
        for element in elements
        if body in (element.i, element.j)
    ]
    p = q[mech.layout.body_slices[body]][3:]
    return (ends[1] - ends[0]) @ angular_velocity(jax.lax.stop_gradient(p), p)
