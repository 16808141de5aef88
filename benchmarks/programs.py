"""The same dynamics as straight-line programs: Schur complement, L D Lᵀ, and the time loop inside of the program."""

import jax
import jax.numpy as jnp

import jaxmbs as mbs
from jaxmbs.numerics.linear_algebra import symmetric_solver


def acceleration(mech, q, v, t=0.0):
    """q̈ = M⁻¹(Q + Φ_qᵀλ) with Φ_q M⁻¹ Φ_qᵀ λ = γ − Φ_q M⁻¹ Q; for bodies with their masses at their origins."""
    matrix = mbs.constraint_jacobian(mech, q, t)
    # M is diagonal and constant: what it makes of a vector of ones is its diagonal.
    inverse_mass = 1 / jax.grad(lambda v: mbs.energy(mech, q, v).kinetic)(jnp.ones_like(q))
    free = -inverse_mass * jax.grad(lambda q: mbs.energy(mech, q, v).potential)(q)
    solve = symmetric_solver((matrix * inverse_mass) @ matrix.T)
    multipliers = solve(mbs.acceleration_rhs(mech, q, v, t) - matrix @ free)
    return free + inverse_mass * (matrix.T @ multipliers)


def rollout(build, steps, h):
    """(design, q, v) ↦ (q, v) after so many steps of the classical Runge–Kutta method, as one program."""

    @jax.jit
    def rates(b, q, v):
        return acceleration(build(b), q, v)

    def step(b, q, v):
        a_1 = rates(b, q, v)
        v_2 = v + h / 2 * a_1
        a_2 = rates(b, q + h / 2 * v, v_2)
        v_3 = v + h / 2 * a_2
        a_3 = rates(b, q + h / 2 * v_2, v_3)
        v_4 = v + h * a_3
        a_4 = rates(b, q + h * v_3, v_4)
        return q + h / 6 * (v + 2 * v_2 + 2 * v_3 + v_4), v + h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4)

    return mbs.program(lambda b, q, v: jax.lax.fori_loop(0, steps, lambda _, s: step(b, *s), (q, v)))
