"""One step of a simulation, for callers that keep the state themselves."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxmbs.dynamics.determinacy import are_masses_known, status_by_masses
from jaxmbs.dynamics.local_motion import own_state
from jaxmbs.dynamics.methods.method import AbstractFixedStep, Motion, ScaledEquations, step_status
from jaxmbs.formulations.abstract import Scales
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.stateful import equations_of
from jaxmbs.numerics.arrays import finite
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.system.mechanism import Mechanism


def scales_of(
    mech: Mechanism, t: Float[Array, ""], q: Float[Array, " n"], v: Float[Array, " m"], formulation: AbstractFormulation
) -> Scales:
    """Return the scales of gaps and pivots at a state, for `single_step` from this state and similar ones."""
    equations = equations_of(formulation, finite(mech)[0])
    return equations.scales(own_state(formulation, mech, q, v, t)[0], t)


def single_step(
    mech: Mechanism,
    t: Float[Array, ""],
    q: Float[Array, " n"],
    v: Float[Array, " m"],
    step: float,
    method: AbstractFixedStep,
    formulation: AbstractFormulation,
    scales: Scales | None = None,
) -> tuple[Array, Array, Int[Array, ""]]:
    """Return q and v of the bodies after a step, and the status, from a state at t that nearly satisfies the constraints.

    It is a step of `simulate`, but the start is neither assembled nor tested. The method closes the constraints at the end.
    Without `scales`, those of this state are used; those of the start of a simulation give the steps of `simulate`.
    """
    are_known = are_masses_known(mech)
    mech, usable = finite(mech)
    equations, h = equations_of(formulation, mech), jnp.asarray(step, q.dtype)
    x, u = own_state(formulation, mech, q, v, t)
    scales = equations.scales(x, t) if scales is None else scales
    scaled = ScaledEquations.of(equations, scales, DEFAULT_TOLERANCE).in_steps(h)
    begin = Motion.of(scaled.equations, x, u, t)
    carry, closed = method.step(scaled, method.start(scaled, begin, t), t, h)
    # Accelerations at the end are not returned, so they need not be computed.
    end = method.motion(carry)._replace(a=jnp.zeros_like(u))
    q, v, _ = equations.to_bodies(end.q, end.v, end.a, t + h)
    status = step_status(scaled, end, closed, t + h, h)
    usable = usable & jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(v))
    status = jnp.where(usable, status, int(Status.NON_FINITE)).astype(jnp.int32)
    return q, v, status_by_masses(status, mech, q, t + h, masses_known=are_known)
