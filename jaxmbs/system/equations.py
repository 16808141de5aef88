"""The equations of a whole mechanism: Φ, Φ_q, ν, γ; M, applied forces, and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.element import GROUND
from jaxmbs.forces import AbstractForce, State
from jaxmbs.numerics.arrays import IN_JAX, NOT_TRACEABLE
from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.numerics.repeated import total
from jaxmbs.programs import ProgramError, ProgramWithFallback
from jaxmbs.system.marks import as_drawn
from jaxmbs.system.mechanism import Coordinates, Mechanism, as_times


def constraints(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, " rows"]:
    """Φ(q, t): the residuals of all constraints in their order, then those of the drivers; Haug (3.1.4).

    Args:
        mech: the mechanism.
        q: configuration (n,), or a mapping of names to coordinates; see `Mechanism.coordinates`.
        t: time.

    Returns:
        One number for each equation: a length, the square of one, or an angle, as the element's page says.

    Examples:
        >>> print(mbs.constraints(mech, {"crank": (0, 0, 0), "rod": (1, 0.5, 0), "slider": (3, 0, 0)}))
        [ 0.   0.   0.  -0.5  0.   0.5  0.   0.   0. ]
    """
    return PROGRAMS["constraints"](*_drawn(mech, q, t))


def constraint_jacobian(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, "rows m"]:
    """The Jacobian Φ_q of the constraints, with one column for each velocity: Φ_q v = ν; Haug (3.6.4).

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        t: time.

    Returns:
        (rows, m), rows as in Φ.

    Examples:
        >>> print(mbs.constraint_jacobian(pendulum, below))
        [[-1.  0.  1.]
         [ 0. -1.  0.]]
    """
    return PROGRAMS["constraint_jacobian"](*_drawn(mech, q, t))


def velocity_rhs(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, " rows"]:
    """ν = −Φ_t, the right side of Φ_q v = ν; Haug (3.1.9).

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        t: time.

    Returns:
        (rows,), zero but for drivers.

    Examples:
        >>> print(mbs.velocity_rhs(mech, guess))  # the motor turns with 1 rad per unit of time
        [0. 0. 0. 0. 0. 0. 0. 0. 1.]
    """
    return PROGRAMS["velocity_rhs"](*_drawn(mech, q, t))


def acceleration_rhs(mech: Mechanism, q: Coordinates, v: ArrayLike, t: ArrayLike = 0.0) -> Float[Array, " rows"]:
    """γ = −(Φ_q v)_q q̇ − 2 Φ_qt v − Φ_tt, the right side of Φ_q v̇ = γ; Haug (3.1.10).

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        v: velocities (m,): (ẋ, ẏ, φ̇) of each body in the plane, (ṙ, ω) in space.
        t: time.

    Returns:
        (rows,), rows as in Φ.

    Examples:
        >>> print(mbs.acceleration_rhs(pendulum, below, jnp.array([3.0, 0, 3])))  # a swing with φ̇ = 3
        [ 0. -9.]
    """
    mech, at, t = _drawn(mech, q, t)
    return PROGRAMS["acceleration_rhs"](mech, at, jnp.asarray(v, at.dtype), t)


def residuals(mech: Mechanism, q, t) -> Float[Array, " rows"]:
    """Φ as array code, for functions that become programs themselves."""
    poses = mech.poses(q)
    elements = {**mech.constraints, **mech.drivers}
    rows = [residual_of(mech, name, element, q, t, poses) for name, element in elements.items()]
    return jnp.concatenate(rows) if rows else jnp.zeros(0, q.dtype)


def residual_of(mech: Mechanism, name: str, element, q, t, poses=None) -> Float[Array, " rows"]:
    """The rows of Φ of one element, or of another in its place."""
    pose = (lambda body: mech.layout.pose(body, q)) if poses is None else poses.get
    extra = q[mech.layout.extra_slices[name]] if element.extra else ()
    return element.residual(pose(element.i), pose(element.j), t, *extra)


def _of(mech):
    return lambda q, t: residuals(mech, q, t)


def _still(mech, q):
    return jnp.zeros(mech.layout.m, q.dtype)


PROGRAMS: dict[str, ProgramWithFallback] = {
    "constraints": ProgramWithFallback(residuals),
    "constraint_jacobian": ProgramWithFallback(lambda mech, q, t: jacobian(_of(mech), mech.layout, q, t)),
    "velocity_rhs": ProgramWithFallback(lambda mech, q, t: -rate(_of(mech), mech.layout, q, _still(mech, q), t)),
    "acceleration_rhs": ProgramWithFallback(
        lambda mech, q, v, t: -second_rate(_of(mech), mech.layout, q, v, _still(mech, q), t)
    ),
}


def _state(mech: Mechanism, q, t):
    q = mech.coordinates(q)
    dtype = jnp.result_type(q, as_times(t, q.dtype))
    return q.astype(dtype), jnp.asarray(t, dtype)


def _drawn(mech: Mechanism, q, t):
    """The mechanism with the marks of its gears measured in q; q and t as arrays."""
    q, t = _state(mech, q, t)
    return as_drawn(mech, q)[0], q, t


class Energy(NamedTuple):
    """Kinetic and potential energy."""

    kinetic: Float[Array, "*batch"]
    potential: Float[Array, "*batch"]

    @property
    def total(self) -> Float[Array, "*batch"]:
        """Kinetic plus potential energy."""
        return self.kinetic + self.potential


def energy(mech: Mechanism, q: Coordinates, v: ArrayLike) -> Energy:
    """Kinetic energy T = ½ vᵀM v of all bodies, with that of motors' rotors, and potential energy of all forces that have
    one.

    Args:
        mech: the mechanism.
        q: configuration (n,), as for `constraints`; or several along leading axes, such as those of a trajectory.
        v: velocities (m,), with the same leading axes.

    Returns:
        `.kinetic`, `.potential` and `.total`.

    Examples:
        >>> energy = mbs.energy(pendulum, below, jnp.array([3.0, 0, 3]))
        >>> print(energy.kinetic, energy.potential)
        9.0 -19.62
    """
    if not isinstance(q, Mapping) and jnp.asarray(getattr(q, "q", q)).ndim > 1:
        kinetic, potential = jnp.vectorize(lambda q, v: tuple(energy(mech, q, v)), signature="(n),(m)->(),()")(q, v)
        return Energy(kinetic, potential)
    at, t = _state(mech, q, 0.0)
    state = state_of(mech, at, jnp.asarray(v, at.dtype), t)
    kinetic = total(
        lambda body, q, v: body.kinetic_energy(body.pose(q), v),
        [(body, mech.layout.coordinates_of(name, at), state.velocities[name]) for name, body in mech.bodies.items()],
    )
    kinetic = sum((force.kinetic(state) for force in mech.forces.values()), kinetic)
    potential = sum((force.potential(state) for force in mech.forces.values()), jnp.zeros_like(t))
    return Energy(kinetic, potential)


def generalized_force(mech: Mechanism, q: Coordinates, v: ArrayLike, t: ArrayLike = 0.0) -> Float[Array, " m"]:
    """The applied forces: those of all force elements, conjugate to v.

    Q in M v̇ = Q + Φ_qᵀλ also contains −ω × Jω and the centrifugal terms of offset centres of mass: it is
    `Augmented().of(mech).force(q, v, t)`.

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        v: velocities (m,).
        t: time.

    Returns:
        (m,).

    Examples:
        >>> print(mbs.generalized_force(pendulum, below, jnp.zeros(3)))
        [  0.   -19.62   0.  ]
    """
    at, t = _state(mech, q, t)
    return PROGRAMS["generalized_force"](mech, at, jnp.asarray(v, at.dtype), t)


def state_of(mech: Mechanism, q, v, t) -> State:
    """A state of motion as forces see it."""
    slices = mech.layout.velocity_slices
    velocities = {name: v[where] for name, where in slices.items()}
    ground = jnp.zeros(len(mech.layout.bodies[0][1].velocities), v.dtype)
    elements = {**mech.constraints, **mech.drivers}
    return State(mech.bodies, mech.poses(q), {**velocities, GROUND: ground}, slices, t, q, v, elements)


def masses(mech: Mechanism, q) -> Float[Array, "m m"]:
    """M(q) as array code."""
    m = mech.layout.m
    poses, matrix = mech.poses(q), jnp.zeros((m, m), q.dtype)
    for name, where in mech.layout.velocity_slices.items():
        matrix = matrix.at[where, where].set(mech.bodies[name].mass_matrix(poses[name]).astype(q.dtype))
    return matrix


def applied_forces(mech: Mechanism, q, v, t, *, uniform: bool = True) -> Float[Array, " m"]:
    """The applied forces as array code; with `uniform=False` without the forces that are uniform.

    Raises:
        ValueError: a value of another shape than it should have, with the name of its force.
    """
    state = state_of(mech, q, v, t)
    acting = {name: force for name, force in mech.forces.items() if uniform or force.uniform is None}
    return sum(of_forces(acting, lambda force: force.generalized(state)).values(), jnp.zeros_like(v))


def of_forces(forces: Mapping[str, AbstractForce], what: Callable[[AbstractForce], Any]) -> dict[str, Any]:
    """Something of each force, by name.

    Raises:
        ValueError: what it raises, with the name of the force.
    """
    found = {}
    for name, force in forces.items():
        try:
            found[name] = what(force)
        except ValueError as error:
            raise ValueError(f"force {name!r} ({type(force).__name__}): {error}") from None
        except NOT_TRACEABLE as error:
            raise ProgramError(f"force {name!r} ({type(force).__name__}): its function {IN_JAX}") from error
    return found


def uniform_acceleration(mech: Mechanism) -> Float[Array, " d"] | None:
    """The sum of the accelerations that `uniform` forces give to every mass; None if there is none."""
    given = [force.uniform for force in mech.forces.values() if force.uniform is not None]
    return sum(given[1:], jnp.asarray(given[0])) if given else None


def velocity_forces(mech: Mechanism, q, v) -> Float[Array, " m"]:
    """−ω × Jω and the centrifugal terms of offset centres of mass, as array code: M v̇ = applied forces + this + Φ_qᵀλ."""
    poses, total = mech.poses(q), jnp.zeros_like(v)
    for name, where in mech.layout.velocity_slices.items():
        total = total.at[where].set(mech.bodies[name].velocity_force(poses[name], v[where]))
    return total


PROGRAMS |= {
    "mass_matrix": ProgramWithFallback(lambda mech, q, t: masses(mech, q)),
    "generalized_force": ProgramWithFallback(applied_forces),
}
