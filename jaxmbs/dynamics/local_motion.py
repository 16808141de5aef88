"""Derivatives of a motion at one time with respect to minimal coordinates, their rates, and inputs.

With the independent velocities w of a formulation, chosen by S, and a basis Z of the velocities that the constraints
allow, S Z = I, states near (x, u) are x ⊕ Z y and u + Z w, corrected so that Φ = 0 and Φ_q u + Φ_t = 0 to first order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.analyses.assembly import assembled_configuration, is_assembled
from jaxmbs.analyses.balance import hold_motions
from jaxmbs.dynamics.linear_inputs import Input, with_inputs
from jaxmbs.dynamics.simulate import simulate
from jaxmbs.element import require
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.free_directions import FreeDirections, free_directions
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.stateful import equations_of, state_names, states_along, states_of
from jaxmbs.numerics.arrays import finite, instance_of, is_concrete
from jaxmbs.numerics.linear_algebra import factor_symmetric_semidefinite, redundancy
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.roots import root_near
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, gap_limit
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.inputs import analysis_inputs
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Linear solves for the derivative of a closed configuration. The second one recovers the digits lost by forming Φ_qᵀΦ_q.
CLOSING_SOLVES = 2


class Choice(NamedTuple):
    """Static arguments of a linearisation.

    Attributes:
        formulation: chooses the coordinates.
        freedom: number of degrees of freedom.
        independent: indices of the independent velocities; None if they are chosen for each sample.
        inputs: the inputs.
    """

    formulation: AbstractFormulation
    freedom: int
    independent: tuple[int, ...] | None = None
    inputs: tuple[Input, ...] = ()

    @property
    def driver_inputs(self) -> tuple[Input, ...]:
        """Inputs that are motions of drivers."""
        return tuple(one for one in self.inputs if not one.field)


class LocalMotion(NamedTuple):
    """A motion at one time, and its derivatives by p = (y, w, z, C, Ċ, inputs).

    y are displacements of the independent coordinates, w changes of their rates, z those of states of forces, C and Ċ
    those of the motions of drivers that are inputs.

    Attributes:
        rate: (states,), the rates of y, w, z, C and Ċ in the motion itself; zero for y, which is measured from it.
        rate_derivatives: (states, p), derivatives of the rates of y, w, z, C and Ċ: the matrices A and B.
        motion: q, v and v̇ of the bodies, and the states z of forces, None without.
        motion_derivatives: their derivatives, each with the axis of p last.
        mass: (freedom, freedom), ZᵀM Z.
        status: CONVERGED; NOT_ASSEMBLED; SINGULAR if `freedom` is not the number of degrees of freedom, if the chosen
            velocities are not independent, or if masses do not determine the accelerations; NON_FINITE.
    """

    rate: Float[Array, " states"]
    rate_derivatives: Float[Array, "states p"]
    motion: tuple[Array, Array, Array, Array | None]
    motion_derivatives: tuple[Array, Array, Array, Array | None]
    mass: Float[Array, "freedom freedom"]
    status: Int[Array, ""]


class Start(NamedTuple):
    """A state about which the equations of motion are linearised.

    Attributes:
        mech: the mechanism; if it is at rest, with held motions.
        formulation: chooses the coordinates.
        q: (n,), the configuration, assembled if all numbers are known.
        v: (m,), velocities; None at rest.
        t: time.
        states: states of forces (k,); None stands for their initial values.
        status: of the assembly.
    """

    mech: Mechanism
    formulation: AbstractFormulation
    q: Float[Array, " n"]
    v: Float[Array, " m"] | None
    t: Float[Array, ""]
    states: Float[Array, " k"] | None
    status: Int[Array, ""]

    @property
    def is_known(self) -> bool:
        """True if no number of the mechanism, and of the configuration, is traced."""
        return all(map(is_concrete, jax.tree.leaves((self.mech, self.q, self.t))))

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the velocities of the formulation."""
        return eqx.filter_eval_shape(lambda mech: self.formulation.equations(mech).space.velocities, self.mech)

    @property
    def grubler_count(self) -> int:
        """Number of velocities of the formulation minus the number of its constraint equations."""

        def rows(mech, q, t):
            """Return Φ."""
            equations = self.formulation.equations(mech)
            return equations.residual(equations.coordinates(q, t), t)

        return len(self.velocity_names) - eqx.filter_eval_shape(rows, self.mech, self.q, self.t).size

    def independent(self) -> tuple[int, ...]:
        """Return the indices of velocities that make a well-conditioned basis. All numbers must be known.

        Raises:
            ValueError: there is none.
        """
        mask = ProgramWithFallback.of(_independent_velocities, self.formulation)(self.mech, self.q, self.t)
        found = tuple(np.flatnonzero(np.asarray(mask)).tolist())
        if not found:
            raise ValueError("the mechanism has no degree of freedom: constraints and drivers determine its motion")
        return found

    def local_motion(self, choice: Choice) -> LocalMotion:
        """Return the `LocalMotion` of this state, with the status of the assembly if that is bad."""
        local = ProgramWithFallback.of(local_motion, choice)(self.mech, self.q, self.v, self.t, self.states)
        return local._replace(status=jnp.where(self.status == Status.CONVERGED, local.status, self.status))


def start_of(mech: Mechanism, q, v, t, formulation: AbstractFormulation | None) -> Start:
    """Return the `Start` for the arguments of a linearisation; q may be one time of a `Trajectory`."""
    formulation = instance_of(AbstractFormulation, "formulation", formulation, JointCoordinates())
    mech, states = mech.weighed(), None
    if isinstance(q, Trajectory):
        require(jnp.ndim(q.t) == 0, "q is a whole motion; pick one time, jax.tree.map(lambda x: x[k], run)")
        v, t, states = q.v if v is None else v, q.t, states_along(mech, q) if state_names(mech) else None
    mech, q, t = analysis_inputs(mech, q, t)
    require(t.ndim == 0, f"t must be one time, got shape {t.shape}")
    status = jnp.asarray(np.int32(Status.CONVERGED))
    if all(map(is_concrete, jax.tree.leaves((mech, q, t)))) and not is_assembled(mech, q, t):
        q, status, _ = assembled_configuration(mech, q, t, (), DEFAULT_TOLERANCE)
    if v is None:
        mech = hold_motions(mech, t)
    else:
        # Named velocities keep their values, as in a simulation.
        v = simulate(mech, t[None], q, v).v[0] if isinstance(v, Mapping) else mech.velocities(v).astype(q.dtype)
    return Start(mech, formulation, q, v, t, states, status)


def _independent_velocities(formulation: AbstractFormulation, mech: Mechanism, q, t) -> Bool[Array, " m"]:
    """Return (m,), True for velocities of a formulation that are independent at a configuration q of the bodies."""
    mech, _ = finite(mech)
    equations = formulation.equations(mech)
    return free_directions(equations, equations.coordinates(q, t), t).independent


def local_motion(choice: Choice, mech: Mechanism, q, v, t, states) -> LocalMotion:
    """Return the motion at (q, v, t) and its derivatives. Runs as a program on one sample.

    Args:
        choice: static arguments.
        mech: the mechanism.
        q: configuration of the bodies (n,), which satisfies Φ = 0.
        v: velocities of the bodies (m,); None: at rest, for a mechanism by `hold_motions`.
        t: time.
        states: states of forces (k,); None stands for their initial values.
    """
    mech, usable = finite(mech)
    given = jnp.concatenate([q, jnp.zeros(0, q.dtype) if v is None else v, jnp.reshape(t, 1)])
    usable = usable & jnp.all(jnp.isfinite(given))
    q, t = jnp.where(usable, q, mech.layout.rest.astype(q.dtype)), jnp.where(usable, t, 0)
    equations = equations_of(choice.formulation, mech)
    x, u = own_state(choice.formulation, mech, q, v, t)
    free, select = _chosen_directions(choice, equations, x, t)
    gap = jnp.max(jnp.abs(jax.lax.stop_gradient(equations.residual(x, t) / free.rows)), initial=0)
    x = _with_closing_derivative(equations, free, x, t)
    if v is not None:
        u = equations.solver.close_velocity(x, u, t)
    if states is not None and states_of(equations, u) is not None:
        u = jnp.concatenate([u[: u.size - states.size], states])
    basis = (free.unit[:, None] * free.basis / free.unit[None, :]) @ select.T
    count, m, own = choice.freedom, select.shape[0], mech

    def near(p):
        """Return the rates of the state, and (q, v, a, z), for a change p."""
        y, w, motions, speeds, values = jnp.split(p, _ends(choice, m))
        mech, moved = own, equations
        if choice.inputs:
            mech = with_inputs(own, choice.inputs, t, motions, speeds, values)
            moved = equations_of(choice.formulation, mech)
        shift = basis[:, :count] @ y
        if choice.driver_inputs:
            shift = shift - free.solve(moved.residual(moved.space.retract(x, shift), t))
        near_x, near_u = moved.space.retract(x, shift), u + basis @ w
        if choice.driver_inputs or v is not None:
            near_u = near_u - free.solve(moved.velocity_gap(near_x, near_u, t))
        a, *_ = moved.accelerations(near_x, near_u, t)
        drift = near_u - u
        if v is not None:
            # ẏ in a frame that turns with u is δu + u × y; `chart_rate` has half of the product to first order.
            drift = drift + 2 * (moved.space.chart_rate(shift, u) - u)
        accelerations = [value for one, value in zip(choice.inputs, values, strict=True) if not one.field]
        rates = [(select @ drift)[:count], select @ a, speeds, *(jnp.reshape(x, 1) for x in accelerations)]
        return jnp.concatenate(rates), (*moved.to_bodies(near_x, near_u, a, t), states_of(moved, near_u))

    size = sum((count, m, 2 * len(choice.driver_inputs), len(choice.inputs)))
    still = jnp.zeros(size, q.dtype)
    column = lambda d: jax.jvp(near, (still,), (d,))[1]
    rate, motion = near(still)
    rates, changes = jax.vmap(column, out_axes=-1)(np.eye(size, dtype=q.dtype))
    regular = (free.freedom == m) & _is_basis(free) & ~equations.singular(x, 0 * u, t, 0 * t)
    mass_matrix, chosen = equations.mass(x, t), basis[:, :count]
    mass = chosen.T @ mass_matrix @ chosen
    # Diagonal entries as they would be if nothing cancelled, so that an inertia of zero is not taken for rounding.
    sizes = jnp.diagonal(jnp.abs(chosen).T @ jnp.abs(mass_matrix) @ jnp.abs(chosen))
    floor = jnp.full(count, redundancy(q.dtype), q.dtype)
    regular = regular & jnp.all(factor_symmetric_semidefinite(mass, floor, sizes).kept > 0)
    regular = regular & jnp.all(jnp.isfinite(rates)) & jnp.all(jnp.isfinite(mass))
    status = jnp.where(regular, int(Status.CONVERGED), int(Status.SINGULAR))
    status = jnp.where(gap <= gap_limit(q.dtype, DEFAULT_TOLERANCE), status, int(Status.NOT_ASSEMBLED))
    status = jnp.where(usable, status, int(Status.NON_FINITE))
    return LocalMotion(rate, rates, motion, changes, mass, status.astype(jnp.int32))


def _ends(choice: Choice, m: int) -> np.ndarray:
    """Return the indices at which p is split into y, w with z, C, Ċ, and inputs."""
    return np.cumsum([choice.freedom, m, len(choice.driver_inputs), len(choice.driver_inputs)])


def own_state(formulation: AbstractFormulation, mech: Mechanism, q, v, t) -> tuple[Array, Array]:
    """Return (x, u) of a formulation, with states of forces, for q and v of the bodies; v None stands for rest."""
    v = jnp.zeros(mech.layout.m, q.dtype) if v is None else v
    if not formulation.takes_any_velocity:
        bodies = Augmented().equations(mech)
        v = bodies.solver.close_velocity(q, v, t)
    return equations_of(formulation, mech).from_bodies(q, v, t)


def _chosen_directions(choice: Choice, equations, x, t) -> tuple[FreeDirections, Float[Array, "k m"]]:
    """Return the free directions, and the matrix S (k, m) that selects independent velocities and states of forces."""
    m, states = equations.space.m, len(state_names(equations.mech))
    if choice.independent is None:
        free = free_directions(equations, x, t)
        place = jnp.cumsum(free.independent) - 1
        rows = np.arange(choice.freedom + states)[:, None]
        return free, _one_if(free.independent[None, :] & (place[None, :] == rows), x.dtype)
    chosen = np.array([*choice.independent, *range(m - states, m)])
    select = np.eye(m)[chosen].astype(x.dtype)
    return free_directions(equations, x, t, jnp.asarray(select.any(axis=0))), select


def _is_basis(free: FreeDirections) -> Bool[Array, ""]:
    """Return True if the basis satisfies the constraints, which it does not if the chosen velocities are dependent."""
    basis, jacobian = jax.lax.stop_gradient((free.basis, free.jacobian))
    largest, small = jnp.max(jnp.abs(basis)), jnp.finfo(basis.dtype).eps ** 0.5
    return (largest * small < 1) & (jnp.max(jnp.abs(jacobian @ basis), initial=0) < small * largest)


def _with_closing_derivative(equations, free: FreeDirections, x, t):
    """Return x, with the derivative of the configuration with Φ = 0 whose independent coordinates are held."""
    chosen = _one_if(free.independent, x.dtype)

    def gap(d):
        """Return the gap of the constraints, and of the independent coordinates, for a displacement d in units."""
        rows = equations.residual(equations.space.retract(x, free.unit * d), t) / free.rows
        return jax.lax.stop_gradient(free.jacobian).T @ rows + chosen * d

    shift = root_near(gap, free.factors.solve, jnp.zeros(equations.space.m, x.dtype), CLOSING_SOLVES)
    return equations.space.retract(x, free.unit * shift)


def _one_if(condition, dtype):
    """Return 1 where a condition holds, else 0."""
    return jnp.where(condition, jnp.ones((), dtype), 0)
