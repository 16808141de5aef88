"""Simulation: motion under forces from a given state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from jaxmbs.analyses.assembly import assembled_configuration, is_assembled
from jaxmbs.dynamics.determinacy import are_masses_known, check_determined, status_by_masses
from jaxmbs.dynamics.methods.explicit import RK4
from jaxmbs.dynamics.methods.method import (
    AbstractFixedStep,
    AbstractMethod,
    Grid,
    InitialState,
    ScaledEquations,
    Setup,
    initial_motion,
)
from jaxmbs.dynamics.named_velocities import contradiction
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.formulations.stateful import equations_of, state_names, states_of, with_states
from jaxmbs.numerics.arrays import finite, instance_of, is_concrete
from jaxmbs.numerics.results import Status, check_known
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import Energy, energy
from jaxmbs.system.inputs import motion_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities
from jaxmbs.system.trajectory import Trajectory

# Without a given step, intervals between outputs are divided so that the whole simulation takes at least this many
# steps.
MIN_DEFAULT_STEPS = 4000
# With at least this many steps per output, outputs are compiled as if computed once, since their cost no longer
# matters.
MIN_STEPS_PER_RARE_OUTPUT = 8
# A traced start is assembled in mechanisms with at most this many velocities, ten bodies in space: compiling the search
# for more takes ten seconds and longer. With more velocities Newton's method closes the start.
MAX_SEARCHED_VELOCITIES = 60
# For uneven output times, the grid of steps has at most this many boundaries per output time on the average.
MAX_BOUNDARIES_PER_OUTPUT = 8
# An interval may exceed a whole number of steps by this fraction of its length without getting one more step.
TIME_ROUNDING = 1e-9


def simulate(
    mech: Mechanism,
    times: ArrayLike | Sequence[float],
    q0: Coordinates | None = None,
    v0: Velocities | None = None,
    *,
    step: float | None = None,
    method: AbstractMethod | None = None,
    formulation: AbstractFormulation | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    throw: bool = False,
) -> Trajectory:
    """Simulate the motion of a mechanism under its forces and drivers, from the state (q0, v0) at times[0].

    First, q0 moves to the nearest configuration with Φ = 0, as by `assemble`, and v0, if it is a vector, to the nearest
    velocities with Φ_q v = ν, measured with the mass matrix. This does not depend on the formulation. Results are given
    at `times` only; the steps in between are not kept. Inside jit, vmap and grad the start of a mechanism with more than
    60 velocities is closed by Newton's method instead, along the normals of the constraints at q0: it should be nearly
    assembled, or the status is NOT_ASSEMBLED. It differs from the nearest configuration by the square of the gaps, and
    derivatives are those of this start.

    Results are differentiable in forward and reverse mode with respect to everything: lengths, masses, stiffnesses,
    the initial state, times, and the variables that force functions close over. The derivative is that of the
    computed steps; where Newton's method solves something within a step, it is differentiated implicitly, not through
    the iterations. Reverse mode stores all states if they need at most 8 kB (512 kB on a GPU). Otherwise it stores the
    states of about √n of the n steps, and recomputes the rest.

    A sample that fails keeps its last good state from then on, with a status other than 0, and does not affect its
    neighbours.

    Args:
        mech: the mechanism.
        times: (T,), increasing or decreasing, not repeated; the first is the start.
        q0: q (n,), an `Assembly`, or a mapping of names to coordinates; a rough guess is enough.
        v0: v (m,), conjugate to the generalized forces: Qᵀv is their power. A v that the constraints do not allow is
            replaced by the nearest one that they do allow, measured with the mass matrix. Or a mapping such as
            {"crank.phi": 5.0}: named velocities keep their values, and the others follow from the constraints; if the
            constraints leave some free, the smallest ones that fit are taken. Named velocities that the constraints do
            not allow raise an error; inside jit, vmap and grad they give the status NOT_ASSEMBLED. None: at rest,
            except for what drivers move.
        step: the largest length of an inner step. If it is not given, every interval between two outputs is divided
            into the same number of equal steps (one or more), so that the whole run has 4,000 or more; `Adaptive`
            chooses its own. To make sure that the step is small enough, compare with a run at half the step.
        method: `RK4()` by default; `SemiImplicitEuler()`, `GeneralizedAlpha(rho)`, `HHT(alpha)`,
            `CoordinatePartitioning()`, `Adaptive(rtol, atol)`.
        formulation: `Augmented()` by default; `Natural()`, `JointCoordinates()`, `Kane()`.
        tolerance: largest gap that redundant constraints may keep, relative to the size of the mechanism; see `assemble`.
        throw: raise `AnalysisError` where a status is bad, with the text of `explain_failure`; only outside jit,
            vmap and grad.

    Returns:
        q (T, n), v and a (T, m), multipliers (T, rows), energies and the status (T,) at `times`; see `Trajectory`.

    Raises:
        ValueError: wrong shapes or names; times that neither increase nor decrease; a `step` that is not positive, or
            together with times that are traced by jit, grad or vmap, so that the number of steps is not known; a class
            in place of a method or formulation; a body without mass whose motion is not determined; named velocities
            that contradict the constraints; `throw` inside jit, vmap or grad.
        AnalysisError: a status is bad, and `throw` is set.

    Examples:
        >>> run = mbs.simulate(pendulum, jnp.linspace(0, 1, 3), {"bob": (1, 0, jnp.pi / 2)}, step=0.01)
        >>> print(run.position("bob.phi").round(3))  # let go from the horizontal
        [ 1.571  0.402 -1.405]
        >>> print(jnp.abs(run.energy.total).max() < 1e-6)
        True
    """
    mech, start, assembly_status, result = _simulation(mech, times, times, q0, v0, step, method, formulation, tolerance)
    status = np.asarray(result.status)[0] if is_concrete(result.status) else None
    if status == Status.SINGULAR:
        check_determined(mech, result.q[0], result.t[0])
    if status == Status.NOT_ASSEMBLED and start.named is not None:
        _check_named(mech, result.t[0], start, assembly_status, float(tolerance))
    if throw:
        check_known(result)
        result.explain_failure().throw("simulation")
    return result


def simulate_from(
    mech: Mechanism,
    begin: ArrayLike,
    after: ArrayLike | Sequence[float],
    q0: Coordinates | None = None,
    v0: Velocities | None = None,
    *,
    step: float | None = None,
    method: AbstractMethod | None = None,
    formulation: AbstractFormulation | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Trajectory:
    """Simulate as `simulate` does, at the times begin + after, where `begin` may be traced.

    Use it if the time is part of a carry, for example in a `scan` over the intervals of a controller: with a `step`,
    `simulate` does not accept traced times.

    Args:
        mech: the mechanism.
        begin: the time to which `after` is added.
        after: (T,), known numbers, increasing or decreasing; the start q0, v0 is at the time begin + after[0].
        q0: as for `simulate`.
        v0: as for `simulate`.
        step: as for `simulate`.
        method: as for `simulate`.
        formulation: as for `simulate`.
        tolerance: as for `simulate`.

    Returns:
        q (T, n), v and a (T, m), multipliers (T, rows), energies and the status (T,) at begin + after; see `Trajectory`.

    Raises:
        ValueError: as for `simulate`, except for errors that depend on the status.

    Examples:
        >>> def interval(state, _):
        ...     run = mbs.simulate_from(pendulum, state[0], (0.0, 0.1), *state[1:], step=0.01)
        ...     return (run.t[-1], run.q[-1], run.v[-1]), run.position("bob.phi")[-1]
        >>> start = (jnp.array(0.0), pendulum.coordinates({"bob": (1, 0, jnp.pi / 2)}), jnp.zeros(3))
        >>> print(jax.lax.scan(interval, start, length=10)[1][jnp.array([4, 9])].round(3))  # at 0.5 and at 1
        [ 0.402 -1.405]
    """
    times = begin + jnp.asarray(after)
    return _simulation(mech, times, after, q0, v0, step, method, formulation, tolerance)[-1]


def _simulation(
    mech: Mechanism, times, grid_times, q0, v0, step, method, formulation, tolerance
) -> tuple[Mechanism, InitialState, Int[Array, ""], Trajectory]:
    """Return the mechanism that was simulated, its initial state, the status of the assembly, and the motion.

    The lengths of the steps are chosen for `grid_times`.
    """
    method = instance_of(AbstractMethod, "method", method, RK4())
    formulation = instance_of(AbstractFormulation, "formulation", formulation, Augmented())
    mech, q, times = motion_inputs(mech.weighed(), q0, times)
    start, status = _initial_state(mech, q, v0, times, tolerance)
    times = times.astype(start.q.dtype)
    options: Any = {"tolerance": float(tolerance), "masses_known": are_masses_known(mech)}
    grid = _grid(grid_times, step, method)
    run = _simulate(mech, times, start, status, grid, method, formulation, **options).of(mech)
    return mech, start, status, run


def _initial_state(mech: Mechanism, q, v0, times, tolerance: float) -> tuple[InitialState, Int[Array, ""]]:
    """Return q of the bodies assembled at the first time, v from v0, and the status of the assembly.

    A q that is assembled already, or traced in a large mechanism, is unchanged.
    """
    v, named = mech.velocities(v0), mech.named_velocities(v0)
    dtype = jnp.result_type(q, v)
    # NumPy takes known numbers: JAX would compile an operation for each.
    t = jnp.asarray((np.asarray(times) if is_concrete(times) else times)[0], dtype)
    q, v, converged = q.astype(dtype), v.astype(dtype), jnp.asarray(np.int32(Status.CONVERGED))
    known = all(map(is_concrete, jax.tree.leaves((mech, q, t))))
    if known and is_assembled(mech, q, t):
        return InitialState(q, v, named), converged
    if not known and mech.layout.m > MAX_SEARCHED_VELOCITIES:
        return InitialState(q, v, named, assembled=False), converged
    # Numbers that are not finite give the status NON_FINITE, and no derivative.
    q, status, _ = assembled_configuration(mech, q, t, (), float(tolerance))
    return InitialState(q, v, named), status


def _check_named(mech: Mechanism, t, start: InitialState, assembly_status, tolerance: float) -> None:
    """Raise `ValueError` for named velocities that contradict the constraints, if the mechanism can start without them."""
    at_rest, grid = start._replace(v=jnp.zeros_like(start.v), named=None), _grid(t[None], None, RK4())
    options: Any = {"tolerance": tolerance, "masses_known": True}
    run = _simulate(mech, t[None], at_rest, assembly_status, grid, RK4(), Augmented(), **options)
    if run.status[0] == Status.CONVERGED:
        assert start.named is not None
        reason = contradiction(mech, run.q[0], t, start.v, start.named)
        if reason is not None:
            raise ValueError(reason)


def _grid(times, step, method) -> Grid:
    """Return the `Grid` for output times, with steps no longer than `step`; None for `MIN_DEFAULT_STEPS` in all."""
    known = all(map(is_concrete, jax.tree.leaves(times)))
    count = np.shape(times)[0] if known else jnp.shape(jnp.asarray(times))[0]
    if known and np.all(np.isfinite(times)):
        apart = np.diff(np.asarray(times, float))
        if not (np.all(apart > 0) or np.all(apart < 0)):
            raise ValueError("times must increase, or decrease, without repetition")
    outputs = Grid(1, tuple(range(count)), (0.0,) * count, tuple(range(count)))
    if count == 1:
        return outputs
    if step is None:
        even = outputs._replace(steps=max(1, -(-MIN_DEFAULT_STEPS // (count - 1))))
        return even if isinstance(method, AbstractFixedStep) else outputs
    if not is_concrete(step) or isinstance(step, str) or np.ndim(step) != 0 or not step > 0:
        raise ValueError(f"step must be a positive number that is known when the simulation is built, got {step}")
    if not known:
        raise ValueError(
            "with a step the times must be known when the simulation is built: make them with numpy, or outside jit"
        )
    # Times in float32 that mean one step may be further apart than it, by their rounding.
    numbers = np.asarray(times)
    rounding = np.finfo(numbers.dtype).eps * np.max(np.abs(numbers)) if numbers.dtype.kind == "f" else 0
    apart = np.abs(np.diff(numbers.astype(float))) - rounding
    needed = apart / float(step) * (1 - TIME_ROUNDING)
    return _uneven_grid(np.ceil(needed).astype(int).clip(1))


def _uneven_grid(needed: np.ndarray) -> Grid:
    """Return a grid for intervals that need these numbers of steps.

    Intervals are cut into parts with the same number of steps each, so that as few steps as possible are wasted.
    """
    best = None
    candidates = {int(-(-n // k)) for n in set(needed.tolist()) for k in range(1, MAX_BOUNDARIES_PER_OUTPUT + 1)}
    for steps in sorted(candidates):
        parts = -(-needed // steps)
        cost = int(parts.sum()) * steps, int(parts.sum())
        if parts.sum() <= MAX_BOUNDARIES_PER_OUTPUT * len(needed) and (best is None or cost < best[0]):
            best = cost, steps, parts
    assert best is not None  # the largest number of steps makes one part of each interval
    _, steps, parts = best
    ends = np.cumsum(parts)
    interval = np.append(np.repeat(np.arange(len(needed)), parts), len(needed))
    part = np.append(np.concatenate([np.arange(k) / k for k in parts]), 0.0)
    return Grid(steps, tuple(interval.tolist()), tuple(part.tolist()), (0, *ends.tolist()))


@eqx.filter_jit
def _simulate(
    mech: Mechanism,
    times,
    start: InitialState,
    assembly_status,
    grid: Grid,
    method,
    formulation,
    *,
    tolerance: float,
    masses_known: bool,
) -> Trajectory:
    """Return the motion without its mechanism: initial state, steps, and outputs are a program each."""
    clean_times, in_time = jnp.where(jnp.isfinite(times), times, 0), jnp.all(jnp.isfinite(times))

    # Programs check for themselves that inputs and outputs are finite. Checks between programs would take XLA as much time
    # as everything else.
    def initial_state(mech, t, q, v, status, in_time):
        """Return x, u and status in the formulation's coordinates, scales, and the initial values without derivatives."""
        mech, usable = finite(mech)
        usable = usable & in_time & jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(v))
        q, v = (jnp.where(jnp.isfinite(x), x, 0) for x in (q, v))
        initial, equations = (q, v), equations_of(formulation, mech)
        if start.named is not None and equations.own_coordinates:
            # Named velocities are velocities of bodies.
            bodies = equations_of(Augmented(), mech)
            x, u = bodies.from_bodies(q, v, t)
            scaled = ScaledEquations.of(bodies, bodies.scales(x, t), tolerance)
            named = (*start.named, *[True] * (u.size - v.size))
            (x, u, *_), found = initial_motion(scaled, InitialState(x, u, named, start.assembled), t)
            status = jnp.where(status == Status.CONVERGED, found, status)
            q, v, _ = bodies.to_bodies(x, u, jnp.zeros_like(u), t)
        elif not formulation.takes_any_velocity:
            bodies = equations_of(Augmented(), mech)
            x, u = bodies.from_bodies(q, v, t)
            v = bodies.to_bodies(x, bodies.solver.close_velocity(x, u, t), jnp.zeros_like(u), t)[1]
        x, u = equations.from_bodies(q, v, t)
        constant, x_0, t_0 = jax.lax.stop_gradient((equations, x, t))
        scales = constant.scales(x_0, t_0)
        is_open = ~ScaledEquations.of(constant, scales, tolerance).is_within_tolerance(x_0, constant.residual(x_0, t_0))
        status = jnp.where(start.assembled & is_open & (status == Status.CONVERGED), int(Status.NOT_ASSEMBLED), status)
        status = jnp.where(usable, status, int(Status.NON_FINITE)).astype(jnp.int32)
        return x, u, status, scales, jax.lax.stop_gradient(initial)

    def output(setup, t, x, u, status, initial_status, initial):
        """Return q, v, v̇, status, λ, energies and states of forces at one time."""
        equations = setup.scaled_equations.equations
        mech, equations = equations.mech, with_reactive_forces(equations, x, u, t)[0]
        rates, *_ = equations.accelerations(x, u, t)
        q, v, a = equations.to_bodies(x, u, rates, t)
        states = states_of(equations, u)
        energies = tuple(energy(mech if states is None else with_states(mech, states), q, v))
        multipliers = equations.multipliers(x, u, t, rates)
        started_well = initial_status == Status.CONVERGED
        status = jnp.where(started_well, status, initial_status)
        # Coordinates that are prescribed in time are not part of the state that the method has checked.
        is_finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(v))
        status = jnp.where(is_finite, status, int(Status.NON_FINITE)).astype(jnp.int32)
        q, v = (jnp.where(started_well & is_finite, x, x_0) for x, x_0 in zip((q, v), initial, strict=True))
        good = status == Status.CONVERGED
        v, a, multipliers, *parts = (jnp.where(good | jnp.isfinite(x), x, 0) for x in (v, a, multipliers, *energies))
        return q, v, a, status, multipliers, parts, states

    x, u, initial_status, scales, initial = ProgramWithFallback(initial_state, runs="once")(
        mech, clean_times[0], start.q, start.v, assembly_status, in_time
    )
    setup = Setup(formulation, mech, scales, tolerance)
    named = None if equations_of(formulation, mech).own_coordinates else start.named
    x, u, status = method.run(setup, clean_times, grid, InitialState(x, u, named, start.assembled))
    output_program = ProgramWithFallback(output, runs="once" if grid.steps >= MIN_STEPS_PER_RARE_OUTPUT else "seldom")
    at_each_time = jax.vmap(lambda *now: output_program(setup, *now, initial_status, initial))
    q, v, a, status, multipliers, energies, states = at_each_time(clean_times, x, u, status)
    status = status_by_masses(status, finite(mech)[0], q[0], clean_times[0], masses_known=masses_known)
    names = state_names(mech) if states is not None else ()
    return Trajectory(times, q, v, a, status, mech.layout, multipliers, Energy(*energies), None, states, names)
