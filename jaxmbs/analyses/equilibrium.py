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
from jaxmbs.analyses.balance import balance_of_forces, equations_at_rest, force_at_rest, steady_motion
from jaxmbs.analyses.unknowns import check_formulation, euler_parameter_signs, structure
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.formulations.stateful import state_names
from jaxmbs.numerics.linear_algebra import (
    factor,
    factor_symmetric_positive,
    redundancy,
)
from jaxmbs.numerics.results import AnalysisError, Status, check_known
from jaxmbs.numerics.roots import root_near
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, max_norm
from jaxmbs.programs import ProgramWithFallback, as_variables
from jaxmbs.system.inputs import analysis_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.summary import batch, number, statuses

# Names of the methods of search.
Method = Literal["descent", "newton"]
METHODS: tuple[Method, ...] = ("descent", "newton")
# Largest number of steps of the search, rejected ones included.
MAX_STEPS = 200
# Largest length of a step, in radians and sizes of the mechanism.
MAX_STEP = 0.3
# Steps shorter than this, in radians and sizes of the mechanism, are taken without a test of the work that forces do.
TRUSTED_STEP = 1e-3
# Damping after the first rejected step, in units of the largest stiffness.
FIRST_DAMPING = 0.1
# Factor by which each further rejected step increases the damping.
DAMPING_GROWTH = 3
# Number of corrections that close the constraints after each step.
CLOSING_STEPS = 4
# A step is rejected if it leaves a gap larger than this fraction of its length.
MAX_GAP_PER_STEP = 0.001
# The search has converged after a step shorter than this power of the rounding unit (5e-7 in float64): as each step
# squares the error, the next one would change nothing.
CONVERGED_POWER = 0.4
# Number of solutions for a derivative, and of corrections of the result.
REFINEMENTS = 2
# Number of messages that an error names before it only counts.
MAX_SHOWN = 3
# Reasons for the statuses of an equilibrium, for error messages.
REASONS = {
    Status.NOT_ASSEMBLED: "the constraints have no common solution near the guess",
    Status.NOT_CONVERGED: "no configuration at rest was found, for example because nothing stops a body from falling",
    Status.SINGULAR: "the configuration is at rest, but so are others beside it: no force holds it in a free direction",
    Status.NON_FINITE: "a number of the mechanism, the guess or the time is not finite",
}


def stability_of(stiffness: Float[np.ndarray, "*batch m m"], good: Bool[np.ndarray, "*batch"]) -> np.ndarray:
    """Return `Equilibrium.stability` for each stiffness of a batch, "unknown" unless it is `good`."""
    good = good & np.all(np.isfinite(stiffness), axis=(-2, -1))
    values = np.linalg.eigvals(np.where(good[..., None, None], stiffness, 0.0)).real
    least, limit = values.min(axis=-1), redundancy(stiffness.dtype) * np.abs(values).max(axis=-1)
    names = np.where(least < -limit, "unstable", np.where(least <= limit, "neutral", "stable"))
    return np.where(good, names, "unknown")


class Equilibrium(eqx.Module):
    """A configuration in which all forces balance.

    Attributes:
        q: (n,), the configuration.
        status: CONVERGED; NOT_ASSEMBLED; NOT_CONVERGED if no equilibrium was found; SINGULAR if q is one of many that are
            infinitely near to each other; NON_FINITE.
        multipliers: (rows,), λ of the constraints, then of the drivers: Q + Φ_qᵀλ = 0, of smallest norm if constraints
            are redundant.
        residual: the largest force or torque that is not balanced in a direction which the constraints leave free.
        stiffness: (m, m), −∂(Q + Φ_qᵀλ)/∂q in the free directions, in units of work: displacements are in radians and
            in lengths divided by the size of the mechanism. Rows of velocities that depend on others hold a large
            number on the diagonal.
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
        """One of "stable", "unstable", "neutral", and "unknown" for a bad status; an array of them in a batch.

        Unstable: an eigenvalue of the stiffness is negative; neutral: one is zero to rounding, and none is negative.
        Without free directions it is "stable".

        Raises:
            ValueError: inside jit, vmap or grad.
        """
        if isinstance(self.stiffness, jax.core.Tracer):
            raise ValueError("stability is known outside jit, vmap and grad only; inside, read `.stiffness`")
        good = np.isin(np.asarray(self.status), (Status.CONVERGED, Status.SINGULAR))
        names = stability_of(np.asarray(self.stiffness), good)
        return str(names) if names.ndim == 0 else names

    def __repr__(self) -> str:
        shape = np.shape(self.q)
        parts = [*batch(shape[:-1]), f"{shape[-1]} coordinates", number("residual", self.residual)]
        known = [] if isinstance(self.status, jax.core.Tracer) or np.ndim(self.status) else [self.stability]
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

    The guess is assembled first. Then steps solve (K + μ W) p = Zᵀ Q in the directions Z that the constraints leave free,
    where K = −Zᵀ ∂(Q + Φ_qᵀλ)/∂q Z is the stiffness; after each step the constraints are closed. The damping μ grows
    until K + μ W is positive and the forces do work on the step, so the search goes downhill in potential energy, and
    for forces without a potential it follows the motion with strong damping. It ends in an unstable equilibrium only if
    it starts there. Near the end μ is 0, and the steps are those of Newton's method.

    Drivers and other prescribed motions have their values at t and do not move. Forces have no velocity: dry friction,
    which is smooth at zero velocity, holds nothing.

    The derivatives of q and λ by all numbers of the mechanism and by t are those of the equations above. By the guess
    they are zero.

    Args:
        mech: the mechanism.
        guess: a mapping of names to coordinates, or q (n,); see `Mechanism.coordinates`.
        t: time.
        method: "descent" by default. "newton": steps without damping, to an equilibrium near the guess, stable or not.
        steady: find a steady motion instead, in which drivers turn or move parts of the mechanism at the rates that they
            have at t, and all other joints of the spanning tree are at rest: M v̇ = Q + Φ_qᵀλ with constant joint
            coordinates, such as those of a governor. The stiffness contains centrifugal forces.
        formulation: chooses the unknowns, `JointCoordinates()` by default.
        tolerance: largest gap, as in `assemble`.
        throw: raise `AnalysisError` for a bad status; only outside jit, vmap and grad.

    Returns:
        An `Equilibrium`.

    Raises:
        ValueError: an unknown name or a wrong number of values in the guess; an unknown method; `Natural()` as the
            formulation; forces that have states, such as the current of a motor; `throw` inside jit, vmap or grad.
        AnalysisError: no equilibrium was found, and `throw` is set.

    Examples:
        >>> rest = mbs.equilibrium(pendulum, {"bob": (0.6, -0.8, 0.643501)})
        >>> print(rest.multipliers.round(6))  # the pin carries the weight
        [  0.   -19.62]
    """
    if method not in (None, *METHODS):
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if names := state_names(mech):
        raise ValueError(f"an equilibrium does not know the states {', '.join(names)} of forces")
    check_formulation(formulation)
    mech, q, t = analysis_inputs(mech, guess, t)
    options = _Options(method or METHODS[0], steady, _formulation(mech, formulation, steady), float(tolerance))
    result = _equilibrium(mech, q, t, options)
    if throw:
        check_known(result)
        _throw(result.status)
    return result


class _Options(NamedTuple):
    """Static arguments of `equilibrium`."""

    method: Method
    steady: bool
    formulation: AbstractFormulation
    tolerance: float


def _formulation(mech: Mechanism, formulation: AbstractFormulation | None, steady: bool) -> AbstractFormulation:
    """Return the formulation to use: joint coordinates unless given, or those of the bodies if no joint can move."""
    if steady and isinstance(formulation, Augmented):
        raise ValueError("steady motions need joint coordinates: those of the bodies change in them")
    formulation = formulation or JointCoordinates()
    return formulation if steady or structure(mech, formulation).space.m else Augmented()


def _throw(status: Array) -> None:
    """Raise `AnalysisError` with the reasons if any status is bad."""
    codes = np.atleast_1d(np.asarray(status))
    bad = np.argwhere(codes != Status.CONVERGED)
    if not bad.size:
        return
    lines = []
    for index in bad[:MAX_SHOWN]:
        code = Status(int(codes[tuple(index)]))
        sample = f"sample {', '.join(map(str, index))}: " if np.ndim(status) else ""
        lines.append(f"{sample}{code.name}: {REASONS.get(code, '')}")
    more = f"\n{len(bad) - MAX_SHOWN} more" if len(bad) > MAX_SHOWN else ""
    raise AnalysisError("equilibrium: " + "\n".join(lines) + more)


@eqx.filter_jit
def _equilibrium(mech: Mechanism, guess: Array, t: Array, options: _Options) -> Equilibrium:
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
    code = jnp.where(assembled, code, status)
    code = jnp.where(at.is_finite & jnp.isfinite(t), code, int(Status.NON_FINITE))
    return Equilibrium(at.q, code.astype(jnp.int32), multipliers, at.residual, at.stiffness, t)


class _SearchCarry(NamedTuple):
    """Coordinates x, damping in units of stiffness, number of steps, and True once the search has converged."""

    x: Float[Array, " n"]
    damping: Float[Array, ""]
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def _search(options: _Options, mech: Mechanism, q: Array, t: Array) -> tuple[Array, Array]:
    """Return the coordinates x of an equilibrium and True if it was found, from an assembled configuration q (n,)."""
    q, t = (jnp.where(jnp.isfinite(x), x, 0) for x in (q, t))
    equations, _ = equations_at_rest(mech, t, options.formulation, steady=options.steady)
    start = equations.coordinates(q, t)
    small, length = float(jnp.finfo(q.dtype).eps) ** CONVERGED_POWER, equations.mech.size(q)
    descends = options.method == "descent"

    def step(now: _SearchCarry) -> _SearchCarry:
        """Take one step, or reject it and increase the damping."""
        at = balance_of_forces(equations, now.x, t, length, options.steady)
        directions, unit = at.directions, at.directions.unit
        damped = at.reduced + now.damping * at.scale * directions.reduced(jnp.eye(unit.size, dtype=q.dtype))
        # The displacement that closes the constraints changes the forces, too.
        closing = at.closing(at.gap)
        free = at.free - directions.basis.T @ (at.stiffness @ closing)
        part = factor(damped).solve(free)
        least = at.least_stiffness * jnp.eye(unit.size, dtype=q.dtype)
        is_positive = lambda matrix: factor_symmetric_positive((matrix + matrix.T) / 2 - least).rcond > 0
        along = directions.basis @ part
        size = max_norm(along)
        shortening = 1 / jnp.maximum(1, size / MAX_STEP)
        along, part = shortening * along, shortening * part
        x = equations.space.retract(now.x, unit * (along + closing))
        spins = jnp.zeros(at.gap.size - directions.rows.size, q.dtype)
        gap_of = lambda x: jnp.append(equations.residual(x, t) / directions.rows, spins)
        for _ in range(CLOSING_STEPS):
            x = equations.space.retract(x, unit * at.closing(gap_of(x)))
        gap_left = jnp.max(jnp.abs(gap_of(x)), initial=0)
        closed = gap_left <= MAX_GAP_PER_STEP * jnp.maximum(shortening * size, small)
        force = force_at_rest(equations, x, t, directions, options.steady)
        work = part @ (at.free + directions.basis.T @ force)
        at_rest = at.balanced & (jnp.max(jnp.abs(at.gap), initial=0) <= small)
        better = closed & jnp.isfinite(size) & jnp.isfinite(work) & ~at_rest
        if descends:
            better = better & is_positive(damped) & ((work >= 0) | (size <= TRUSTED_STEP))
        less = jnp.where(is_positive(at.reduced), 0, now.damping / 2)
        damping = jnp.where(better, less, jnp.maximum(DAMPING_GROWTH * now.damping, FIRST_DAMPING))
        return _SearchCarry(
            x=jnp.where(better, x, now.x),
            damping=damping,
            steps=now.steps + 1,
            done=at_rest | (better & (now.damping == 0) & (size <= small)),
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
        regular: True if the stiffness is regular.
        is_finite: True if all numbers of the mechanism are finite.
    """

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    a: Float[Array, " m"]
    residual: Float[Array, ""]
    stiffness: Float[Array, "m m"]
    regular: Bool[Array, ""]
    is_finite: Bool[Array, ""]


def _at_rest(options: _Options, mech: Mechanism, near: Array, x: Array, t: Array, found: Array) -> _AtRest:
    """Return the equilibrium at the coordinates x that the search has found, as a differentiable function."""
    given, is_finite = equations_at_rest(mech, t, options.formulation, steady=options.steady)
    x = jax.lax.stop_gradient(x)
    constant, t_constant = jax.lax.stop_gradient((given, t))
    at = jax.lax.stop_gradient(balance_of_forces(constant, x, t_constant, constant.mech.size(near), options.steady))
    directions = at.directions
    unit, rows, phi_q, basis = directions.unit, directions.rows, directions.jacobian, directions.basis
    m, spins = unit.size, jnp.zeros(phi_q.shape[0] - rows.size, x.dtype)
    # Without rounding in place of zeros, a stiffness of zero is singular.
    stiffness = jnp.where(jnp.abs(at.reduced) > at.least_stiffness, at.reduced, 0)
    whole = factor(stiffness)
    softness = jnp.max(jnp.abs(whole.solve(np.eye(m, dtype=x.dtype))), initial=0)
    regular = found & (whole.sign != 0) & (softness * at.least_stiffness < 1)
    factors = factor(jnp.where(regular, at.reduced, jnp.eye(m, dtype=x.dtype)))

    def conditions(y: Array) -> Array:
        """Return the balance of forces (m,) and the gaps, in units, for a displacement and multipliers y."""
        d, multipliers = y[:m], y[m:]
        gap_at = lambda d: jnp.append(given.residual(given.space.retract(x, unit * d), t) / rows, spins)
        gap, pull = jax.vjp(gap_at, d)
        spin_force = phi_q[rows.size :].T @ multipliers[rows.size :]
        force = force_at_rest(given, given.space.retract(x, unit * d), t, directions, options.steady)
        gap = gap.at[rows.size :].set(phi_q[rows.size :] @ d)
        return jnp.concatenate([force + pull(multipliers)[0] + spin_force, gap])

    def solve(y: Array) -> Array:
        """Return the displacement and the multipliers that `conditions` change by y."""
        balance, gap = y[:m], y[m:]
        across = -at.closing(gap)
        part = -factors.solve(basis.T @ (balance + at.stiffness @ across))
        d = across + basis @ part
        return jnp.concatenate([d, at.gram.solve(phi_q @ (balance + at.stiffness @ d))])

    y = root_near(conditions, solve, jnp.concatenate([jnp.zeros(m, x.dtype), at.multipliers]), REFINEMENTS)
    d = jnp.where(regular, y[:m], jax.lax.stop_gradient(y[:m]))
    reached = given.space.retract(x, unit * d)
    still = given.zero_velocity(x)
    u, a = steady_motion(given, reached, t, directions) if options.steady else (still, still)
    q, v, a = given.to_bodies(reached, u, a, t)
    q = q * euler_parameter_signs(mech.layout, q, near)
    residual = jnp.max(jnp.abs(basis.T @ at.force / unit), initial=0)
    return _AtRest(q, v, a, residual, stiffness, regular, is_finite)


def _multipliers(options: _Options, mech: Mechanism, q: Array, v: Array, a: Array, t: Array) -> Float[Array, " rows"]:
    """Return λ of all constraints and drivers in the state (q, v, a) of the bodies, of smallest norm."""
    equations, _ = equations_at_rest(mech, t, Augmented(), steady=options.steady)
    equations = with_reactive_forces(equations, q, v, t)[0] if options.steady else equations
    return equations.balance_multipliers(q, v, a, t)
