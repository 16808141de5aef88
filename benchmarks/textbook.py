"""Plain JAX: the equations of the textbook with dense matrices and `jnp.linalg.solve`.

Φ is array code of this package; nothing here is a straight-line program.
"""

import jax
import jax.numpy as jnp
from peers import runge_kutta_step

import jaxmbs as mbs
from jaxmbs.system.equations import residuals


def jacobian(mech, q, t):
    """Return Φ_q of a mechanism by automatic differentiation."""
    return jax.jacfwd(lambda q: residuals(mech, q, t))(q)


def time_rate(mech, q, v, t):
    """Return Φ_q v + Φ_t."""
    return jax.jvp(lambda q, t: residuals(mech, q, t), (q, t), (v, jnp.ones_like(t)))[1]


def acceleration_rhs(mech, q, v, t):
    """Return γ = −d(Φ_q v + Φ_t)/dt with v constant."""
    t = jnp.asarray(t, q.dtype)
    return -jax.jvp(lambda q, t: time_rate(mech, q, v, t), (q, t), (v, jnp.ones_like(t)))[1]


def mass_matrix(mech, q):
    """Return M(q) (n, n), the second derivative of the kinetic energy by the velocities."""
    return jax.hessian(lambda v: mbs.energy(mech, q, v).kinetic)(jnp.zeros_like(q))


def acceleration(mech, q, v, t=0.0):
    """Return q̈ of [[M, Φ_qᵀ], [Φ_q, 0]] [q̈, λ] = [Q, γ] with Q = −∂V/∂q, for bodies with mass centres at their origins."""
    matrix = jacobian(mech, q, t)
    force = -jax.grad(lambda q: mbs.energy(mech, q, v).potential)(q)
    zero = jnp.zeros((matrix.shape[0], matrix.shape[0]), q.dtype)
    system = jnp.block([[mass_matrix(mech, q), matrix.T], [matrix, zero]])
    right = jnp.concatenate([force, acceleration_rhs(mech, q, v, t)])
    return jnp.linalg.solve(system, right)[: q.size]


def rollout(mech, q, v, h, steps):
    """Return q and v after `steps` classical Runge–Kutta steps of length h."""
    rates = lambda q, v: acceleration(mech, q, v)
    step = lambda state, _: (runge_kutta_step(rates, *state, h), None)
    return jax.lax.scan(step, (q, v), length=steps)[0]


def kinematics(mech, times, start):
    """Return q, v, a at all times: prediction, three Newton steps, v and a by `jnp.linalg.solve`, without checks."""

    def step(carry, t):
        """Advance to time t; the carry is q, v, a and the time before."""
        q, v, a, before = carry
        h = t - before
        q = q + h * v + h**2 / 2 * a
        for _ in range(3):
            q = q - jnp.linalg.solve(jacobian(mech, q, t), residuals(mech, q, t))
        matrix = jacobian(mech, q, t)
        v = jnp.linalg.solve(matrix, -time_rate(mech, q, 0 * q, t))
        a = jnp.linalg.solve(matrix, acceleration_rhs(mech, q, v, t))
        return (q, v, a, t), (q, v, a)

    zero = jnp.zeros_like(start)
    return jax.lax.scan(step, (start, zero, zero, times[0]), times)[1]
