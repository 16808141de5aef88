"""Equations with further coordinates of first order, the states z of forces.

z is appended to the velocities, and its integral, on which nothing depends, to the coordinates: so every method integrates
it, in every formulation. ż is the acceleration, its mass is one, and it is in no constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.forces.joint.stateful import AbstractStatefulForce
from jaxmbs.formulations.abstract import AbstractEquations, AbstractSolver
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.reactive import with_force_fields
from jaxmbs.numerics.space import Flat, PartwiseSpace, Space
from jaxmbs.system.equations import state_of
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory


def stateful_forces(mech: Mechanism) -> dict[str, AbstractStatefulForce]:
    """Return the forces that have states, by name."""
    return {name: f for name, f in mech.forces.items() if isinstance(f, AbstractStatefulForce) and f.states}


def state_names(mech: Mechanism) -> tuple[str, ...]:
    """Return the names of all states of forces, such as "motor.current"."""
    return tuple(f"{name}.{state}" for name, force in stateful_forces(mech).items() for state in force.states)


def start_states(
    mech: Mechanism, q: Float[Array, " n"], v: Float[Array, " m"], t: Float[Array, ""]
) -> Float[Array, " k"] | None:
    """Return the initial states of forces for q and v of the bodies; None if there are no such forces."""
    forces = stateful_forces(mech)
    if not forces:
        return None
    state = state_of(mech, q, v, t)
    return jnp.concatenate([force.at_start(state) for force in forces.values()])


def with_states(target: Any, states: Float[Array, " k"]):
    """Return a mechanism, or equations, with the `states` (k,) of all forces set; unchanged if no force has states."""
    forces = stateful_forces(target if isinstance(target, Mechanism) else target.mech)
    parts = jnp.split(states, np.cumsum([len(force.states) for force in forces.values()])[:-1]) if forces else []
    return with_force_fields(target, "own", dict(zip(forces, parts, strict=True)))


def states_along(mech: Mechanism, run: Trajectory) -> Float[Array, "*T k"]:
    """Return the states of forces along a motion.

    Raises:
        ValueError: the motion is not one of `simulate`, and does not have them.
    """
    names = state_names(mech)
    if not names:
        return jnp.zeros((*jnp.shape(run.t), 0), run.q.dtype)
    if run.states is None or run.state_names != names:
        states = ", ".join(names)
        raise ValueError(f"this motion does not know the states {states}, as those of `simulate` do")
    return run.states


def equations_of(formulation: AbstractFormulation, mech: Mechanism) -> AbstractEquations:
    """Return the equations of a mechanism in a formulation, with the states of its forces."""
    equations = formulation.equations(mech)
    return StatefulEquations(equations) if stateful_forces(mech) else equations


@dataclass(frozen=True)
class StatefulSpace(PartwiseSpace):
    """Configurations of another space, followed by `count` real numbers."""

    inner: Space
    count: int

    @property
    def m(self):
        """Number of velocities, the states included."""
        return self.inner.m + self.count

    @property
    def angular(self):
        """(m,), True for angles and for states, which have no unit of length."""
        return np.concatenate([self.inner.angular, np.full(self.count, True)])

    def _by_part(self, function, *args):
        """Apply a method of `Manifold` to the inner coordinates and to the integrals of the states."""
        parts = [(x[: x.shape[0] - self.count], x[x.shape[0] - self.count :]) for x, _ in args]
        inner = getattr(self.inner, function)(*(x for x, _ in parts))
        return jnp.concatenate([inner, getattr(Flat, function)(*(z for _, z in parts))])


class StatefulEquations(AbstractEquations):
    """Equations of another formulation, with the states of forces appended to their velocities."""

    inner: AbstractEquations
    own_coordinates: ClassVar[bool] = True

    @property
    def mech(self):
        """Mechanism of the inner equations."""
        return self.inner.mech

    @property
    def count(self) -> int:
        """Number of states of all forces."""
        return sum(len(force.states) for force in stateful_forces(self.mech).values())

    def split(self, x):
        """Split a vector of q, v or v̇ into the part of the inner equations and that of the states."""
        cut = x.shape[0] - self.count
        return x[:cut], x[cut:]

    def inner_with_states(self, v) -> AbstractEquations:
        """Return the inner equations with the states of forces set to those at the end of v."""
        return with_states(self.inner, self.split(v)[1])

    def with_rates(self, a, q, v, t) -> Float[Array, " m"]:
        """Append ż at (q, v, t) to accelerations `a` of the inner equations, or to another vector of that size."""
        given, (x, _), (u, _) = self.inner_with_states(v), self.split(q), self.split(v)
        q_bodies, v_bodies, _ = given.to_bodies(x, u, jnp.zeros_like(u), t)
        state = state_of(given.mech, q_bodies, v_bodies, t)
        rates = [force.rates(state) for force in stateful_forces(given.mech).values()]
        return jnp.concatenate([a, *rates])

    @property
    def inertial_efforts(self):
        """Names of the forces whose inertia is in the inner M."""
        return self.inner.inertial_efforts

    @property
    def solver(self):
        """Solver of the inner equations, with states without constraints."""
        return StatefulSolver(self)

    def mass(self, q, t):
        """Return the inner M, with ones on the diagonal for the states."""
        inner = self.inner.mass(self.split(q)[0], t)
        m = inner.shape[0]
        return jnp.eye(m + self.count, dtype=inner.dtype).at[:m, :m].set(inner)

    def force(self, q, v, t):
        """Return the inner Q, then ż."""
        return self.with_rates(self.inner_with_states(v).force(self.split(q)[0], self.split(v)[0], t), q, v, t)

    def imbalance(self, q, v, a, t):
        """Return M v̇ − Q of the inner equations, then the part of a for the states minus ż."""
        (x, _), (u, _), (b, z_dot) = map(self.split, (q, v, a))
        left = self.inner_with_states(v).imbalance(x, u, b, t)
        return jnp.concatenate([left, z_dot - self.split(self.with_rates(b, q, v, t))[1]])

    def residual(self, q, t):
        """Return Φ of the inner equations."""
        return self.inner.residual(self.split(q)[0], t)

    def jacobian(self, q, t):
        """Return Φ_q of the inner equations, with zero columns for the states."""
        rows = self.inner.jacobian(self.split(q)[0], t)
        return jnp.concatenate([rows, jnp.zeros((rows.shape[0], self.count), rows.dtype)], axis=1)

    def velocity_gap(self, q, v, t):
        """Return Φ_q v + Φ_t of the inner equations."""
        return self.inner.velocity_gap(self.split(q)[0], self.split(v)[0], t)

    @property
    def space(self):
        """Space of the inner configurations, followed by the integrals of the states."""
        return StatefulSpace(self.inner.space, self.count)

    @property
    def supporting(self):
        """Indices of the supporting rows of the inner equations, and their weight."""
        return self.inner.supporting

    def coordinates(self, q, t):
        """Return inner coordinates of a configuration of the bodies, with zeros for the integrals of the states."""
        return jnp.concatenate([self.inner.coordinates(q, t), jnp.zeros(self.count, q.dtype)])

    def configuration(self, q, t):
        """Return the configuration of the bodies for the inner coordinates."""
        return self.inner.configuration(self.split(q)[0], t)

    def from_bodies(self, q, v, t):
        """Return inner coordinates and velocities of the bodies, with zeros and the initial states appended."""
        x, u = self.inner.from_bodies(q, v, t)
        start = jnp.asarray(start_states(self.mech, q, v, t), u.dtype)
        return jnp.concatenate([x, 0 * start]), jnp.concatenate([u, start])

    def to_bodies(self, q, v, a, t):
        """Return q, v and v̇ of the bodies; states are left out."""
        (x, _), (u, _), (b, _) = map(self.split, (q, v, a))
        return self.inner.to_bodies(x, u, b, t)

    def loads(self, joints, q, v, t, a, multipliers):
        """Return the loads of the named joints by the inner equations, with the states in v."""
        (x, _), (u, _), (b, _) = map(self.split, (q, v, a))
        return self.inner_with_states(v).loads(joints, x, u, t, b, multipliers)

    def multipliers(self, q, v, t, a=None):
        """Return λ of the inner equations, with the states in v."""
        a = None if a is None else self.split(a)[0]
        return self.inner_with_states(v).multipliers(self.split(q)[0], self.split(v)[0], t, a)

    def singular(self, q, v, t, h):
        """Return True if the inner coordinates are singular, or nearly, for steps h."""
        return self.inner.singular(self.split(q)[0], self.split(v)[0], t, h)

    def scaling_rows(self, q, t):
        """Return the scaling rows of the inner equations, without columns for the states."""
        return self.inner.scaling_rows(self.split(q)[0], t)

    def pivots(self, q, t):
        """Return the pivots of the inner equations."""
        return self.inner.pivots(self.split(q)[0], t)

    def with_scales(self, scales):
        """Return these equations with inner ones that use the scales."""
        return StatefulEquations(self.inner.with_scales(scales))


def states_of(equations: AbstractEquations, v: Float[Array, " m"]) -> Float[Array, " k"] | None:
    """Return the states of forces in the velocities of equations; None if there are none."""
    return equations.split(v)[1] if isinstance(equations, StatefulEquations) else None


class StatefulSolver(AbstractSolver):
    """Solver of `StatefulEquations`: that of the inner equations, and states without constraints."""

    equations: StatefulEquations

    def accelerations(self, q, v, t, correction, floor):
        """Return v̇ followed by ż, λ and kept."""
        given = self.equations
        a, multipliers, kept = given.inner_with_states(v).solver.accelerations(
            given.split(q)[0], given.split(v)[0], t, correction, floor
        )
        return given.with_rates(a, q, v, t), multipliers, kept

    def metric(self, q, t):
        """Return the function that applies the inner M⁻¹ and leaves the states unchanged."""
        given = self.equations
        inner = given.inner.solver.metric(given.split(q)[0], t)

        def solve(x):
            """Return M⁻¹ times the inner part of x, then its states."""
            u, z = given.split(x)
            return jnp.concatenate([inner(u), z])

        return solve

    def close_velocity(self, q, v, t, floor=None):
        """Return the nearest inner velocity that satisfies the constraints, then the states unchanged."""
        given = self.equations
        (x, _), (u, z) = given.split(q), given.split(v)
        return jnp.concatenate([given.inner.solver.close_velocity(x, u, t, floor), z])

    def glide(self, motion, v, t, h, iterations):
        """Return the inner result of a step h, with h z added to the integrals of the states z."""
        given = self.equations
        (x, s), (u, z) = given.split(motion.q), given.split(v)
        parts = {name: given.split(getattr(motion, name))[0] for name in ("v", "a")}
        closed, u = given.inner_with_states(v).solver.glide(motion._replace(q=x, **parts), u, t, h, iterations)
        still = 0 * z
        closed = closed._replace(
            q=jnp.concatenate([closed.q, s + h * z]),
            shift=jnp.concatenate([closed.shift, h * z]),
            change=jnp.concatenate([closed.change, still]),
        )
        return closed, jnp.concatenate([u, z])
