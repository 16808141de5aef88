"""The equations of a whole mechanism: Φ, Φ_q, ν, γ; M, applied forces, and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, errors_of
from jaxmbs.forces import AbstractForce, State
from jaxmbs.numerics.arrays import NOT_TRACEABLE, NOT_TRACEABLE_REASON
from jaxmbs.numerics.implicit import jacobian, rate, second_rate
from jaxmbs.numerics.repeated import total
from jaxmbs.programs import ProgramError, ProgramWithFallback
from jaxmbs.system.inputs import as_times
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism


def constraints(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, " rows"]:
    """Return Φ(q, t): the residuals of all constraints in their order, then those of the drivers; Haug (3.1.4).

    Args:
        mech: the mechanism.
        q: configuration (n,), or a mapping of names to coordinates; see `Mechanism.coordinates`.
        t: time.

    Returns:
        (rows,), a length, the square of one, or an angle, as the page of each element says.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> print(mbs.constraints(mech, {"crank": (0, 0, 0), "rod": (1, 0.5, 0), "slider": (3, 0, 0)}))
        [ 0.   0.   0.  -0.5  0.   0.5  0.   0.   0. ]
    """
    return PROGRAMS["constraints"](*_with_marks(mech, q, t))


def constraint_jacobian(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, "rows m"]:
    """Return the Jacobian Φ_q of the constraints, with one column for each velocity: Φ_q v = ν; Haug (3.6.4).

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        t: time.

    Returns:
        (rows, m), rows as in Φ.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> print(mbs.constraint_jacobian(pendulum, below))
        [[-1.  0.  1.]
         [ 0. -1.  0.]]
    """
    return PROGRAMS["constraint_jacobian"](*_with_marks(mech, q, t))


def velocity_rhs(mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, " rows"]:
    """Return ν = −Φ_t, the right side of Φ_q v = ν; Haug (3.1.9).

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        t: time.

    Returns:
        (rows,), rows as in Φ; zero except for drivers.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> print(mbs.velocity_rhs(mech, guess))  # the motor turns with 1 rad per unit of time
        [0. 0. 0. 0. 0. 0. 0. 0. 1.]
    """
    return PROGRAMS["velocity_rhs"](*_with_marks(mech, q, t))


def acceleration_rhs(mech: Mechanism, q: Coordinates, v: ArrayLike, t: ArrayLike = 0.0) -> Float[Array, " rows"]:
    """Return γ = −(Φ_q v)_q q̇ − 2 Φ_qt v − Φ_tt, the right side of Φ_q v̇ = γ; Haug (3.1.10).

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        v: velocities (m,): (ẋ, ẏ, φ̇) of each body in the plane, (ṙ, ω) in space.
        t: time.

    Returns:
        (rows,), rows as in Φ.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> print(mbs.acceleration_rhs(pendulum, below, jnp.array([3.0, 0, 3])))  # a swing with φ̇ = 3
        [ 0. -9.]
    """
    mech, q_array, t = _with_marks(mech, q, t)
    return PROGRAMS["acceleration_rhs"](mech, q_array, _velocities(mech, v, q_array), t)


def residuals(mech: Mechanism, q: Array, t: ArrayLike) -> Float[Array, " rows"]:
    """Return Φ (rows,) as array code, for functions that become programs themselves."""
    poses = mech.poses(q)
    elements = {**mech.constraints, **mech.drivers}
    rows = [residual_of(mech, name, element, q, t, poses) for name, element in elements.items()]
    return jnp.concatenate(rows) if rows else jnp.zeros(0, q.dtype)


def residual_of(
    mech: Mechanism,
    name: str,
    element: AbstractConstraint,
    q: Array,
    t: Any,
    poses: Mapping[str, Any] | None = None,
) -> Float[Array, " rows"]:
    """Return the rows of Φ of the element `name`, computed with `element`, which may be a changed copy of it.

    `poses` are those of the bodies by name, if they are known already.
    """
    pose = (lambda body: mech.layout.pose(body, q)) if poses is None else poses.get
    extra = q[mech.layout.extra_slices[name]] if element.extra else ()
    return element.residual(pose(element.i), pose(element.j), t, *map(pose, element.others), *extra)


def _as_arrays(mech: Mechanism, q: Coordinates, t: ArrayLike) -> tuple[Array, Array]:
    """Return a configuration given by q, as an array (n,), and t, in one floating-point type."""
    q = mech.coordinates(q)
    dtype = jnp.result_type(q, as_times(t, q.dtype))
    return q.astype(dtype), jnp.asarray(t, dtype)


def _velocities(mech: Mechanism, v: ArrayLike, q: Array) -> Float[Array, " m"]:
    """Return velocities as an array of the type of q, or raise `ValueError` if their number is wrong."""
    v = jnp.asarray(v, q.dtype)
    if v.shape != (mech.layout.m,):
        raise ValueError(f"velocities have shape ({mech.layout.m},), got {v.shape}")
    return v


def _with_marks(mech: Mechanism, q: Coordinates, t: ArrayLike) -> tuple[Mechanism, Array, Array]:
    """Return the mechanism with the marks of its gears measured in q; q and t as arrays."""
    q, t = _as_arrays(mech, q, t)
    return measure_marks(mech, q)[0], q, t


class Energy(NamedTuple):
    """Kinetic and potential energy."""

    kinetic: Float[Array, "*batch"]
    potential: Float[Array, "*batch"]

    @property
    def total(self) -> Float[Array, "*batch"]:
        """The sum of kinetic and potential energy."""
        return self.kinetic + self.potential


def energy(mech: Mechanism, q: Coordinates, v: ArrayLike) -> Energy:
    """Return the kinetic energy T = ½ vᵀM v of bodies and motor rotors, and the potential energy of all forces.

    Forces without a potential count as zero.

    Args:
        mech: the mechanism.
        q: configuration (n,), as for `constraints`; or several along leading axes, such as those of a trajectory.
        v: velocities (m,), with the same leading axes.

    Returns:
        `.kinetic`, `.potential` and `.total`: numbers, or arrays with the leading axes of q.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values.

    Examples:
        >>> energy = mbs.energy(pendulum, below, jnp.array([3.0, 0, 3]))
        >>> print(energy.kinetic, energy.potential)
        9.0 -19.62
    """
    if not isinstance(q, Mapping) and jnp.asarray(getattr(q, "q", q)).ndim > 1:
        kinetic, potential = jnp.vectorize(lambda q, v: tuple(energy(mech, q, v)), signature="(n),(m)->(),()")(q, v)
        return Energy(kinetic, potential)
    q_array, t = _as_arrays(mech, q, 0.0)
    state = state_of(mech, q_array, _velocities(mech, v, q_array), t)
    coordinates = {name: mech.layout.coordinates_of(name, q_array) for name in mech.bodies}
    kinetic = total(
        lambda body, q, v: body.kinetic_energy(body.pose(q), v),
        [(body, coordinates[name], state.velocities[name]) for name, body in mech.bodies.items()],
    )
    kinetic = sum((force.kinetic(state) for force in mech.forces.values()), kinetic)
    potential = sum((force.potential(state) for force in mech.forces.values()), jnp.zeros_like(t))
    return Energy(kinetic, potential)


def generalized_force(mech: Mechanism, q: Coordinates, v: ArrayLike, t: ArrayLike = 0.0) -> Float[Array, " m"]:
    """Return the applied forces: the sum of all force elements, conjugate to v.

    Q in M v̇ = Q + Φ_qᵀλ also contains −ω × Jω and the centrifugal terms of offset centres of mass: it is
    `Augmented().of(mech).force(q, v, t)`.

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        v: velocities (m,).
        t: time.

    Returns:
        (m,), forces for translations and torques for rotations.

    Raises:
        ValueError: an unknown name in q, or a wrong number of values; or a force that depends on reactions,
            accelerations or states of its own: `force_elements` evaluates it.

    Examples:
        >>> print(mbs.generalized_force(pendulum, below, jnp.zeros(3)))
        [  0.   -19.62   0.  ]
    """
    q_array, t = _as_arrays(mech, q, t)
    return PROGRAMS["generalized_force"](mech, q_array, _velocities(mech, v, q_array), t)


def state_of(mech: Mechanism, q: Array, v: Array, t: Array) -> State:
    """Return the `State` at q, v and t that force elements get as their argument."""
    slices = mech.layout.velocity_slices
    velocities = {name: v[own] for name, own in slices.items()}
    ground = jnp.zeros(len(mech.layout.bodies[0][1].velocities), v.dtype)
    elements = {**mech.constraints, **mech.drivers}
    return State(mech.bodies, mech.poses(q), {**velocities, GROUND: ground}, slices, t, q, v, elements)


def masses(mech: Mechanism, q: Array) -> Float[Array, "m m"]:
    """Return the mass matrix M(q) of all bodies, (m, m), as array code."""
    m = mech.layout.m
    poses, matrix = mech.poses(q), jnp.zeros((m, m), q.dtype)
    for name, own in mech.layout.velocity_slices.items():
        matrix = matrix.at[own, own].set(mech.bodies[name].mass_matrix(poses[name]).astype(q.dtype))
    return matrix


def applied_forces(mech: Mechanism, q: Array, v: Array, t: Array, *, uniform: bool = True) -> Float[Array, " m"]:
    """Return the sum of all applied forces (m,) as array code; without uniform ones (gravity) if `uniform=False`."""
    state = state_of(mech, q, v, t)
    acting = {name: force for name, force in mech.forces.items() if uniform or force.uniform is None}
    return sum(map_forces(lambda force: force.generalized(state), acting).values(), jnp.zeros_like(v))


def map_forces(function: Callable[[AbstractForce], Any], forces: Mapping[str, AbstractForce]) -> dict[str, Any]:
    """Return the values of a function of each force, by name; its `ValueError` gets the name of the force.

    Raises:
        ProgramError: a user's function asks for the number of a traced value.
    """
    found = {}
    for name, force in forces.items():
        label = f"force {name!r} ({type(force).__name__})"
        try:
            with errors_of(label):
                found[name] = function(force)
        except NOT_TRACEABLE as error:
            raise ProgramError(f"{label}: its function {NOT_TRACEABLE_REASON}") from error
    return found


def uniform_acceleration(mech: Mechanism) -> Float[Array, " d"] | None:
    """Return the sum of the accelerations that uniform forces give to every mass; None if there are no such forces."""
    given = [force.uniform for force in mech.forces.values() if force.uniform is not None]
    return sum(given[1:], jnp.asarray(given[0])) if given else None


def velocity_forces(mech: Mechanism, q: Array, v: Array) -> Float[Array, " m"]:
    """Return −ω × Jω and the centrifugal terms of offset centres of mass, (m,), as array code.

    M v̇ = applied forces + this + Φ_qᵀλ.
    """
    poses, total = mech.poses(q), jnp.zeros_like(v)
    for name, own in mech.layout.velocity_slices.items():
        total = total.at[own].set(mech.bodies[name].velocity_force(poses[name], v[own]))
    return total


def _zero_velocity(mech: Mechanism, q: Array) -> Array:
    """Return zeros (m,) for v or v̇."""
    return jnp.zeros(mech.layout.m, q.dtype)


# The equations as programs, by the names of the public functions; `explain` counts their operations.
PROGRAMS: dict[str, ProgramWithFallback] = {
    "constraints": ProgramWithFallback(residuals),
    "constraint_jacobian": ProgramWithFallback(
        lambda mech, q, t: jacobian(partial(residuals, mech), mech.layout, q, t)
    ),
    "velocity_rhs": ProgramWithFallback(
        lambda mech, q, t: -rate(partial(residuals, mech), mech.layout, q, _zero_velocity(mech, q), t)
    ),
    "acceleration_rhs": ProgramWithFallback(
        lambda mech, q, v, t: -second_rate(partial(residuals, mech), mech.layout, q, v, _zero_velocity(mech, q), t)
    ),
    "mass_matrix": ProgramWithFallback(lambda mech, q, t: masses(mech, q)),
    "generalized_force": ProgramWithFallback(applied_forces),
}
