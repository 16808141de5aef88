"""The same dynamics as straight-line programs: Schur complement, L D Lᵀ, and the time loop inside of the program."""

import jax
import jax.numpy as jnp

import jaxmbs as mbs
from jaxmbs.numerics.linear_algebra import solve_saddle_point


def acceleration(mech, q, v, t=0.0):
    """q̈ = M⁻¹(Q + Φ_qᵀλ) with Φ_q M⁻¹ Φ_qᵀ λ = γ − Φ_q M⁻¹ Q; for bodies with their masses at their origins."""
    matrix, gamma = mbs.constraint_jacobian(mech, q, t), mbs.acceleration_rhs(mech, q, v, t)
    # M is diagonal and constant: what it makes of a vector of ones is its diagonal.
    mass = jnp.diag(jax.grad(lambda v: mbs.energy(mech, q, v).kinetic)(jnp.ones_like(q)))
    force = -jax.grad(lambda q: mbs.energy(mech, q, v).potential)(q)
    return solve_saddle_point(mass, matrix, force, gamma)[0]


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
