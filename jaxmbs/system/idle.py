"""Idle spins: the turning of a rod about the line through its two ball joints, which moves nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import Shared
from jaxmbs.numerics.rotation import angular_velocity
from jaxmbs.system.mechanism import Mechanism


def idle_spins(mech: Mechanism) -> tuple[str, ...]:
    """Return the names of the bodies that can spin freely: their only joints are two ball joints to two other bodies."""
    if mech.layout.dimension == 2:
        return ()
    at: dict[str, list[str | None]] = {}
    for element in (*mech.constraints.values(), *mech.drivers.values()):
        ball = element.rows == 3 and not element.extra and _is_ball(element.shared)
        for body, other in ((element.i, element.j), (element.j, element.i)):
            at.setdefault(body, []).append(other if ball else None)
    held_by_two_balls = lambda others: None not in others and len(others) == len(set(others)) == 2
    return tuple(body for body in mech.bodies if held_by_two_balls(at.get(body, ())))


def _is_ball(shared: Shared) -> bool:
    """Return True if all that two bodies share at a joint is one point."""
    return len(shared.points) == 1 and not shared.vectors and not shared.rows


def spin_rows(mech: Mechanism, q: Array) -> Float[Array, " rods"]:
    """Return 2 uᵀ vec(p̄₀ p) for each rod that can spin: zero in every configuration, with the rate uᵀω.

    u points along the rod, in its frame as ω, from one ball to the other. vec is the vector part of the product of two
    quaternions: the Euler parameters p in q, and the conjugate of p₀, which equals p but counts as a constant in
    differentiation.
    """
    rows = [_spin_row(mech, rod, q) for rod in idle_spins(mech)]
    return jnp.stack(rows) if rows else jnp.zeros(0, q.dtype)


def _spin_row(mech: Mechanism, rod: str, q: Array) -> Float[Array, ""]:
    """Return 2 uᵀ vec(p̄₀ p) for a rod, where u is the vector between its balls: zero, with the rate uᵀω in q."""
    elements = [*mech.constraints.values(), *mech.drivers.values()]
    balls = [
        jnp.asarray(element.shared.points[0][element.j == rod], q.dtype)
        for element in elements
        if rod in (element.i, element.j)
    ]
    p = q[mech.layout.body_slices[rod]][3:]
    return (balls[1] - balls[0]) @ angular_velocity(jax.lax.stop_gradient(p), p)
