"""Dynamics as straight-line programs: Schur complement, L D Lᵀ, and the time loop inside the program."""

import jax
import jax.numpy as jnp
from peers import runge_kutta_step

import jaxmbs as mbs
from jaxmbs.numerics.linear_algebra import solve_saddle_point


def acceleration(mech, q, v, t=0.0):
    """Return q̈ = M⁻¹(Q + Φ_qᵀλ) with Φ_q M⁻¹ Φ_qᵀ λ = γ − Φ_q M⁻¹ Q for bodies with mass centres at their origins."""
    matrix, gamma = mbs.constraint_jacobian(mech, q, t), mbs.acceleration_rhs(mech, q, v, t)
    # M is diagonal and constant: its product with ones is its diagonal.
    mass = jnp.diag(jax.grad(lambda v: mbs.energy(mech, q, v).kinetic)(jnp.ones_like(q)))
    force = -jax.grad(lambda q: mbs.energy(mech, q, v).potential)(q)
    return solve_saddle_point(mass, matrix, force, gamma)[0]


def rollout(build, steps, h):
    """Return the function (design, q, v) ↦ (q, v) after `steps` classical Runge–Kutta steps, as one program."""

    @jax.jit
    def rates(b, q, v):
        """Return q̈ of a design."""
        return acceleration(build(b), q, v)

    def step(b, q, v):
        """Return q and v after one Runge–Kutta step."""
        return runge_kutta_step(lambda q, v: rates(b, q, v), q, v, h)

    return mbs.program(lambda b, q, v: jax.lax.fori_loop(0, steps, lambda _, s: step(b, *s), (q, v)))
