"""The constraint equations of a whole mechanism: Φ, Φ_q, ν, γ, and its energy."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.programs.function import Straight
from jaxmbs.system.mechanism import Mechanism, as_times


def constraints(mech: Mechanism, q: Float[Array, " n"], t=0.0) -> Float[Array, " m"]:
    """Φ(q, t): the residuals of all constraints in their order, then those of the drivers; Haug (3.1.4)."""
    return PROGRAMS["constraints"](mech, *_state(mech, q, t))


def constraint_jacobian(mech: Mechanism, q: Float[Array, " n"], t=0.0) -> Float[Array, "m n"]:
    """Φ_q; Haug (3.6.4)."""
    return PROGRAMS["constraint_jacobian"](mech, *_state(mech, q, t))


def velocity_rhs(mech: Mechanism, q: Float[Array, " n"], t=0.0) -> Float[Array, " m"]:
    """ν = −Φ_t, the right side of Φ_q q̇ = ν; Haug (3.1.9)."""
    return PROGRAMS["velocity_rhs"](mech, *_state(mech, q, t))


def acceleration_rhs(mech: Mechanism, q: Float[Array, " n"], v: Float[Array, " n"], t=0.0) -> Float[Array, " m"]:
    """γ = −(Φ_q q̇)_q q̇ − 2 Φ_qt q̇ − Φ_tt, the right side of Φ_q q̈ = γ; Haug (3.1.10)."""
    q, t = _state(mech, q, t)
    return PROGRAMS["acceleration_rhs"](mech, q, jnp.asarray(v, q.dtype), t)


def residuals(mech: Mechanism, q, t) -> Float[Array, " m"]:
    """Φ as array code, for functions that become programs themselves."""
    poses = mech.poses(q)
    rows = []
    for name, element in {**mech.constraints, **mech.drivers}.items():
        extra = q[mech.layout.extra_slices[name]] if element.extra else ()
        rows.append(element.residual(poses[element.i], poses[element.j], t, *extra))
    return jnp.concatenate(rows) if rows else jnp.zeros(0, q.dtype)


def _of(mech):
    return lambda q, t: residuals(mech, q, t)


PROGRAMS = {
    "constraints": Straight(residuals),
    "constraint_jacobian": Straight(lambda mech, q, t: jacobian(_of(mech), q, t)),
    "velocity_rhs": Straight(lambda mech, q, t: -rate(_of(mech), q, jnp.zeros_like(q), t)),
    "acceleration_rhs": Straight(lambda mech, q, v, t: -second_rate(_of(mech), q, v, jnp.zeros_like(q), t)),
}


def _state(mech: Mechanism, q, t):
    q = mech.coordinates(q)
    dtype = jnp.result_type(q, as_times(t, q.dtype))
    return q.astype(dtype), jnp.asarray(t, dtype)


class Energy(NamedTuple):
    """Kinetic and potential energy."""

    kinetic: Float[Array, ""]
    potential: Float[Array, ""]

    @property
    def total(self) -> Float[Array, ""]:
        """Kinetic plus potential energy."""
        return self.kinetic + self.potential


def energy(mech: Mechanism, q: Float[Array, " n"], v: Float[Array, " n"]) -> Energy:
    """Kinetic energy of all bodies at the velocities v, and potential energy of all forces that have one."""
    q = mech.coordinates(q)
    poses, slices = mech.poses(q), mech.layout.body_slices
    kinetic = sum(body.kinetic_energy(poses[name], jnp.asarray(v)[slices[name]]) for name, body in mech.bodies.items())
    potential = sum((force.potential(mech.bodies, poses) for force in mech.forces.values()), jnp.zeros((), q.dtype))
    return Energy(kinetic, potential)
