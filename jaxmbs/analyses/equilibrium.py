"""Equilibrium: configurations at rest, in which all forces balance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from jaxmbs.analyses.assembly import assembled_configuration
from jaxmbs.analyses.balance import (
    Balance,
    balance_of_forces,
    constraint_force,
    equations_at_rest,
    force_at_rest,
    steady_motion,
)
from jaxmbs.analyses.unknowns import check_formulation, euler_parameter_signs, structure
from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.free_directions import free_directions
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.formulations.stateful import state_names
from jaxmbs.numerics.linear_algebra import (
    factor,
    factor_symmetric_positive,
    redundancy,
)
from jaxmbs.numerics.results import AnalysisError, Status, check_known, check_outside
from jaxmbs.numerics.roots import root_near
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, max_norm
from jaxmbs.programs import ProgramWithFallback, as_variables
from jaxmbs.system.inputs import analysis_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.summary import batch, number, statuses

# Values of the argument `method`.
Method = Literal["descent", "newton"]
METHODS: tuple[Method, ...] = ("descent", "newton")
# Largest number of steps of the search, rejected ones included.
MAX_STEPS = 200
# Largest component of a step, in radians and sizes of the mechanism.
MAX_STEP = 0.3
# Steps whose components are below this, in radians and sizes of the mechanism, are taken without a test of the work that
# forces do.
MAX_UNTESTED_STEP = 1e-3
# Damping after the first rejected step, in units of the largest stiffness.
FIRST_DAMPING = 0.1
# Factor by which each further rejected step increases the damping.
DAMPING_GROWTH = 3
# Number of corrections that close the constraints after each step.
CLOSING_CORRECTIONS = 4
# A step is rejected if it leaves a gap larger than this fraction of its length.
MAX_GAP_PER_STEP = 0.001
# The search has converged after a step shorter than this power of the rounding unit (5e-7 in float64); the error that is
# left is about its square.
CONVERGED_POWER = 0.4
# A motion is steady if forces and gaps stay below this while it turns by one radian, relative to the largest force or
# stiffness and to the size of the mechanism.
MAX_CHANGE_IN_STEADY_MOTION = 1e-6
# Number of solutions for a derivative: with two, first and second derivatives are exact.
LINEAR_SOLVES = 2
# Number of failed samples that an error describes; the others are only counted.
MAX_SAMPLES_SHOWN = 3
# Reasons for the statuses of an equilibrium, for error messages.
REASONS = {
    Status.NOT_ASSEMBLED: "the constraints have no common solution near the guess",
    Status.NOT_CONVERGED: "no equilibrium was found, for example because nothing stops a body from falling; or a motion "
    "with steady=True is not steady",
    Status.SINGULAR: "the configuration is at rest, but so are others beside it: nothing holds the mechanism in some free "
    "direction",
    Status.NON_FINITE: "a number of the mechanism, the guess or the time is not finite",
}


def stability_of(stiffness: Float[np.ndarray, "*batch m m"], status: Int[np.ndarray, "*batch"]) -> np.ndarray:
    """Return `Equilibrium.stability` for each stiffness and status of a batch."""
    good = np.isin(status, (Status.CONVERGED, Status.SINGULAR)) & np.all(np.isfinite(stiffness), axis=(-2, -1))
    values = np.linalg.eigvals(np.where(good[..., None, None], stiffness, 1.0)).real
    limit = redundancy(stiffness.dtype) * np.abs(values).max(axis=-1, initial=0)
    least = values.min(axis=-1, initial=np.inf)
    names = np.where(least < np.where(status == Status.CONVERGED, 0, -limit), "unstable", "stable")
    names = np.where((status == Status.SINGULAR) & (names == "stable"), "neutral", names)
    return np.where(good, names, "unknown")


class Equilibrium(eqx.Module):
    """A configuration in which all forces balance.

    Attributes:
        q: (n,), the configuration.
        status: CONVERGED; NOT_ASSEMBLED; NOT_CONVERGED if no equilibrium was found; SINGULAR if q is not isolated;
            NON_FINITE.
        multipliers: (rows,), λ of the constraints, then of the drivers: Q + Φ_qᵀλ = 0, or M v̇ in a steady motion; of
            smallest norm if constraints are redundant.
        residual: the largest force or torque that is not balanced in a direction which the constraints leave free; a
            constant in differentiation.
        stiffness: (m, m), −∂(Q + Φ_qᵀλ)/∂q in the free directions, where m is the number of velocities of the
            formulation, in units of work: displacements are in radians and in lengths divided by the size of the
            mechanism. Velocities that depend on others have the largest stiffness on the diagonal. Entries that are
            rounding are zero. A constant in differentiation; frequencies of `modes` are not.
        t: time.

    Examples:
        >>> rest = mbs.equilibrium(pendulum, {"bob": (0.6, -0.8, 0.643501)})
        >>> print(rest.q.round(6) + 0.0, rest.stability)
        [ 0. -1.  0.] stable
    """

    q: Float[Array, " n"]
    status: Int[Array, ""]
    multipliers: Float[Array, " rows"]
    residual: Float[Array, ""]
    stiffness: Float[Array, "m m"]
    t: Float[Array, ""]

    @property
    def stability(self) -> str | np.ndarray:
        """One of "stable", "unstable", "neutral" and "unknown"; an array of them in a batch.

        Unstable: an eigenvalue of the stiffness has a negative real part; neutral: the status is SINGULAR, and none has.
        Without free directions it is "stable"; unless the status is CONVERGED or SINGULAR, "unknown". Damping and
        gyroscopic forces do not count here, but they do in `modes`.

        Raises:
            ValueError: inside jit, vmap or grad.
        """
        check_outside("stability", "inside, read `.stiffness`", self.stiffness, self.status)
        names = stability_of(np.asarray(self.stiffness), np.asarray(self.status))
        return str(names) if names.ndim == 0 else names

    def __repr__(self) -> str:
        shape = np.shape(self.q)
        parts = [*batch(shape[:-1]), f"{shape[-1]} coordinates", number("residual", self.residual)]
        traced = any(isinstance(x, jax.core.Tracer) for x in (self.status, self.stiffness))
        known = [] if traced or np.ndim(self.status) else [str(self.stability)]
        return f"Equilibrium({'; '.join([*parts, *known, statuses(self.status)])})"


def equilibrium(
    mech: Mechanism,
    guess: Coordinates | None = None,
    t: ArrayLike = 0.0,
    *,
    method: Method | None = None,
    steady: bool = False,
    formulation: AbstractFormulation | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    throw: bool = False,
) -> Equilibrium:
    """Find a configuration at rest: Q(q, 0, t) + Φ_qᵀλ = 0 with Φ(q, t) = 0.

    The guess is assembled first. Then steps solve (K + μ ZᵀZ) p = ZᵀQ, where Z is a basis of the velocities with Φ_q v = 0
    and K = −Zᵀ ∂(Q + Φ_qᵀλ)/∂q Z is the stiffness; after each step the constraints are closed. The damping μ grows until
    the matrix is positive definite, the forces do work on the step, and the constraints can be closed. So the search goes
    downhill in potential energy, and with forces that have no potential it follows the motion with strong damping. It ends
    in an unstable equilibrium only if it starts there, or if the forces lead straight to it, for example from a symmetric
    configuration. Where K is positive definite μ is 0, and the steps are those of Newton's method.

    Drivers and other prescribed motions have their values at t and do not move. Forces are evaluated at zero velocity: dry
    friction is a smooth function of the velocity and holds nothing. A rod may spin between two ball joints as long as no
    force turns it; this makes no equilibrium singular.

    First and second derivatives of q and λ with respect to all numbers of the mechanism and to t are exact; they follow
    from the equations above. Derivatives with respect to the guess are zero.

    Args:
        mech: the mechanism.
        guess: a mapping of names to coordinates, or q (n,); see `Mechanism.coordinates`.
        t: time.
        method: "descent" by default. "newton": to an equilibrium near the guess, stable or not, by steps that are damped
            only if they leave a gap.
        steady: find a steady motion instead, as of a governor. Drivers move with the rates that they have at t, and the
            independent coordinates of joints are constant: M v̇ = Q + Φ_qᵀλ. The stiffness contains centrifugal forces. The
            status is NOT_CONVERGED if the forces change in this motion, as those of a crank-driven linkage do.
        formulation: chooses the unknowns, `JointCoordinates()` by default.
        tolerance: largest gap of redundant constraints that contradict each other, as in `assemble`.
        throw: raise `AnalysisError` for a bad status; only outside jit, vmap and grad.

    Returns:
        An `Equilibrium`.

    Raises:
        ValueError: an unknown name or a wrong number of values in the guess; an unknown method; `Natural()` as the
            formulation; forces that have states, such as the current of a motor; `throw` inside jit, vmap or grad.
        AnalysisError: the status is not CONVERGED, and `throw` is set.

    Examples:
        >>> rest = mbs.equilibrium(pendulum, {"bob": (0.6, -0.8, 0.643501)})
        >>> print(rest.multipliers.round(6))  # the pin carries the weight
        [  0.   -19.62]
    """
    if method not in (None, *METHODS):
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if names := state_names(mech):
        raise ValueError(f"equilibrium does not support forces with states; these are {', '.join(names)}")
    check_formulation(formulation)
    mech, q, t = analysis_inputs(mech, guess, t)
    options = Options(
        method or METHODS[0], steady, formulation_for_equilibrium(mech, formulation, steady), float(tolerance)
    )
    result = _equilibrium(mech, q, t, options)
    if throw:
        check_known(result)
        _throw(result.status)
    return result


class Options(NamedTuple):
    """Static arguments of `equilibrium`."""

    method: Method
    steady: bool
    formulation: AbstractFormulation
    tolerance: float


def formulation_for_equilibrium(
    mech: Mechanism, formulation: AbstractFormulation | None, steady: bool
) -> AbstractFormulation:
    """Return the given formulation, `JointCoordinates` by default, and `Augmented` in any case if no joint can move.

    Raises:
        ValueError: a steady motion is asked for in `Augmented`.
    """
    if steady and isinstance(formulation, Augmented):
        raise ValueError(
            "steady=True needs joint coordinates, because those of the bodies change; give mbs.JointCoordinates()"
        )
    formulation = formulation or JointCoordinates()
    return formulation if structure(mech, formulation).space.m else Augmented()


def _throw(status: Array) -> None:
    """Raise `AnalysisError` with the reasons if any status is bad."""
    codes = np.atleast_1d(np.asarray(status))
    bad = np.argwhere(codes != Status.CONVERGED)
    if not bad.size:
        return
    lines = []
    for index in bad[:MAX_SAMPLES_SHOWN]:
        code = Status(int(codes[tuple(index)]))
        sample = f"sample {', '.join(map(str, index))}: " if np.ndim(status) else ""
        lines.append(f"{sample}{code.name}: {REASONS.get(code, '')}")
    more = f"\n{len(bad) - MAX_SAMPLES_SHOWN} more" if len(bad) > MAX_SAMPLES_SHOWN else ""
    raise AnalysisError("equilibrium: " + "\n".join(lines) + more)


@eqx.filter_jit
def _equilibrium(mech: Mechanism, guess: Array, t: Array, options: Options) -> Equilibrium:
    """Return the `Equilibrium` near an unassembled guess (n,); differentiable."""
    start, status, _ = assembled_configuration(mech, guess, t, (), options.tolerance, None)
    constants = jax.lax.stop_gradient((mech, start, t))
    x, found = ProgramWithFallback.of(_search, options)(*constants)
    assembled = (status == Status.CONVERGED) | (status == Status.SINGULAR)
    near = jax.lax.stop_gradient(jnp.where(jnp.isfinite(start), start, 0))
    t_finite = jnp.where(jnp.isfinite(t), t, 0)
    at = ProgramWithFallback.of(_at_rest, options)(mech, near, x, t_finite, found & assembled)
    multipliers = ProgramWithFallback.of(_multipliers, options)(mech, at.q, at.v, at.a, t_finite)
    code = jnp.where(
        found, jnp.where(at.regular, int(Status.CONVERGED), int(Status.SINGULAR)), int(Status.NOT_CONVERGED)
    )
    code = jnp.where(at.steady, code, int(Status.NOT_CONVERGED))
    code = jnp.where(assembled, code, status)
    code = jnp.where(at.is_finite & jnp.isfinite(t), code, int(Status.NON_FINITE))
    return Equilibrium(at.q, code.astype(jnp.int32), multipliers, at.residual, at.stiffness, t)


class _SearchCarry(NamedTuple):
    """Coordinates x, damping in units of stiffness, number of steps, and True once the search has converged."""

    x: Float[Array, " n"]
    damping: Float[Array, ""]
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def _search(options: Options, mech: Mechanism, q: Array, t: Array) -> tuple[Array, Array]:
    """Return the coordinates x of an equilibrium and True if it was found, from an assembled configuration q (n,)."""
    q, t = (jnp.where(jnp.isfinite(x), x, 0) for x in (q, t))
    equations, _ = equations_at_rest(mech, t, options.formulation, steady=options.steady)
    start = equations.coordinates(q, t)
    converged_step, length = float(jnp.finfo(q.dtype).eps) ** CONVERGED_POWER, equations.mech.size(q)
    descends = options.method == "descent"

    def step(now: _SearchCarry) -> _SearchCarry:
        """Take one step, or reject it and increase the damping."""
        at = balance_of_forces(equations, now.x, t, length, options.steady, options.tolerance)
        directions, unit = at.directions, at.directions.unit
        damped = at.reduced + now.damping * at.scale * directions.restrict(jnp.eye(unit.size, dtype=q.dtype))
        # The displacement that closes the constraints changes the forces, too.
        closing = at.closing(at.gap)
        free = at.free - directions.basis.T @ (at.stiffness @ closing)
        independent_step = factor(damped).solve(free)
        least = at.least_stiffness * jnp.eye(unit.size, dtype=q.dtype)
        is_positive = lambda matrix: factor_symmetric_positive((matrix + matrix.T) / 2 - least).rcond > 0
        along = directions.basis @ independent_step
        length_of_step = max_norm(along)
        shortening = 1 / jnp.maximum(1, length_of_step / MAX_STEP)
        along, independent_step = shortening * along, shortening * independent_step
        x = equations.space.retract(now.x, unit * (along + closing))
        gap_of = lambda x: at.gram.kept * equations.residual(x, t) / directions.rows
        for _ in range(CLOSING_CORRECTIONS):
            x = equations.space.retract(x, unit * at.closing(gap_of(x)))
        gap_left = jnp.max(jnp.abs(gap_of(x)), initial=0)
        closed = gap_left <= MAX_GAP_PER_STEP * jnp.maximum(shortening * length_of_step, converged_step)
        force = force_at_rest(equations, x, t, directions, options.steady)
        force = force + constraint_force(equations, x, t, directions, at.multipliers)[0]
        work = independent_step @ (at.free + directions.basis.T @ force)
        at_rest = at.balanced & (jnp.max(jnp.abs(at.gap), initial=0) <= converged_step)
        better = closed & jnp.isfinite(length_of_step) & jnp.isfinite(work) & ~at_rest
        if descends:
            better = better & is_positive(damped) & ((work >= 0) | (length_of_step <= MAX_UNTESTED_STEP))
        less = jnp.where(is_positive(at.reduced), 0, now.damping / 2)
        damping = jnp.where(better, less, jnp.maximum(DAMPING_GROWTH * now.damping, FIRST_DAMPING))
        return _SearchCarry(
            x=jnp.where(better, x, now.x),
            damping=damping,
            steps=now.steps + 1,
            done=at_rest | (better & (now.damping == 0) & (length_of_step <= converged_step)),
        )

    undamped = as_variables(jnp.zeros((), q.dtype))
    now = _SearchCarry(start, undamped, jnp.zeros((), int), jnp.asarray(False))
    now = jax.lax.while_loop(lambda now: (now.steps < MAX_STEPS) & ~now.done, step, now)
    return now.x, now.done


class _AtRest(NamedTuple):
    """The equilibrium that a search has found.

    Attributes:
        q: as in `Equilibrium`.
        v: velocities of the bodies, zero unless the motion is steady.
        a: accelerations of the bodies.
        residual: as in `Equilibrium`.
        stiffness: as in `Equilibrium`.
        regular: True if an equilibrium was found and its stiffness is regular.
        steady: False if forces change in a motion that should be steady.
        is_finite: True if all numbers of the mechanism are finite.
    """

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    a: Float[Array, " m"]
    residual: Float[Array, ""]
    stiffness: Float[Array, "m m"]
    regular: Bool[Array, ""]
    steady: Bool[Array, ""]
    is_finite: Bool[Array, ""]


def _at_rest(options: Options, mech: Mechanism, near: Array, x: Array, t: Array, found: Array) -> _AtRest:
    """Return the equilibrium at the coordinates x that the search has found, as a differentiable function."""
    given, is_finite = equations_at_rest(mech, t, options.formulation, steady=options.steady)
    x = jax.lax.stop_gradient(x)
    constant, t_constant = jax.lax.stop_gradient((given, t))
    size = constant.mech.size(near)
    at = jax.lax.stop_gradient(balance_of_forces(constant, x, t_constant, size, options.steady, options.tolerance))
    directions = at.directions
    unit, basis, m = directions.unit, directions.basis, directions.unit.size
    # Set entries at rounding level to zero, so that a zero stiffness has a zero determinant.
    stiffness = jnp.where(jnp.abs(at.reduced) > at.least_stiffness, at.reduced, 0)
    factors_of_stiffness = factor(stiffness)
    compliance = jnp.max(jnp.abs(factors_of_stiffness.solve(jnp.eye(m, dtype=x.dtype))), initial=0)
    regular = found & (factors_of_stiffness.sign != 0) & (compliance * at.least_stiffness < 1)
    factors = factor(jnp.where(regular, at.reduced, jnp.eye(m, dtype=x.dtype)))

    def conditions(y: Array) -> Array:
        """Return the balance of forces (m,) and the gaps, in units, for a displacement and multipliers y."""
        moved = given.space.retract(x, unit * y[:m])
        pull, gap = constraint_force(given, moved, t, directions, y[m:])
        return jnp.concatenate([force_at_rest(given, moved, t, directions, options.steady) + pull, at.gram.kept * gap])

    def solve(y: Array) -> Array:
        """Return the displacement and the multipliers that `conditions` change by y."""
        balance, gap = y[:m], y[m:]
        across = -at.closing(gap)
        d = across - basis @ factors.solve(basis.T @ (balance + at.stiffness @ across))
        return jnp.concatenate([d, at.gram.solve(directions.jacobian @ (balance + at.stiffness @ d))])

    y = root_near(conditions, solve, jnp.concatenate([jnp.zeros(m, x.dtype), at.multipliers]), LINEAR_SOLVES)
    reached = given.space.retract(x, unit * jnp.where(regular, y[:m], jax.lax.stop_gradient(y[:m])))
    still, steady = given.zero_velocity(x), jnp.asarray(True)
    u, a = still, still
    if options.steady:
        u, a = steady_motion(given, reached, t, directions)
        steady = _is_steady(constant, x, t_constant, at)
    q, v, a = given.to_bodies(reached, u, a, t)
    q = q * euler_parameter_signs(mech.layout, q, near)
    residual = jnp.max(jnp.abs(basis.T @ at.force / unit), initial=0)
    return _AtRest(q, v, a, residual, stiffness, regular, steady, is_finite)


def _is_steady(equations: AbstractEquations, x: Array, t: Array, at: Balance) -> Bool[Array, ""]:
    """Return True if loops stay closed and forces balanced while all joints move on at their rates, by one radian."""
    directions = at.directions
    u = steady_motion(equations, x, t, directions)[0]
    speed = jnp.max(jnp.abs(u / directions.unit), initial=0)
    later = 1 / jnp.where(speed > 0, speed, 1)
    moved = equations.space.retract(x, later * u)
    basis = free_directions(equations, moved, t + later, directions.independent, directions.length).basis
    free = basis.T @ force_at_rest(equations, moved, t + later, directions, True)
    gap = at.gram.kept * equations.residual(moved, t + later) / directions.rows
    change = jnp.maximum(
        jnp.max(jnp.abs(free), initial=0) / jnp.maximum(at.magnitude, at.scale), jnp.max(jnp.abs(gap), initial=0)
    )
    return change <= MAX_CHANGE_IN_STEADY_MOTION


def _multipliers(options: Options, mech: Mechanism, q: Array, v: Array, a: Array, t: Array) -> Float[Array, " rows"]:
    """Return λ of all constraints and drivers in the state (q, v, a) of the bodies, of smallest norm."""
    mech = equations_at_rest(mech, t, Augmented(), steady=options.steady)[0].mech
    equations = Augmented().equations(mech)
    if options.steady:
        mech = with_reactive_forces(equations, q, v, t)[0].mech
    return Augmented().equations(mech).balance_multipliers(q, v, a, t)
