"""Explanations of a mechanism: the sizes of its equations, and the code that runs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.analyses.assembly import assemble
from jaxmbs.analyses.diagnosis import diagnose
from jaxmbs.analyses.kinematics import Limits, kinematics, motion_without_derivatives
from jaxmbs.analyses.unknowns import choose_formulation, structure
from jaxmbs.dynamics.methods.explicit import RK4
from jaxmbs.dynamics.methods.method import AbstractFixedStep, AbstractMethod, Motion, ScaledEquations
from jaxmbs.dynamics.reactions import reactions
from jaxmbs.dynamics.simulate import simulate
from jaxmbs.element import AbstractConstraint
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.reactive import reactive_forces
from jaxmbs.formulations.stateful import equations_of, stateful_forces
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.programs import Program, ProgramWithFallback, explain_programs
from jaxmbs.system import equations
from jaxmbs.system.inputs import as_times
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism

# Names of the functions of `equations.PROGRAMS` with arguments (mech, q, v, t); the others have (mech, q, t).
WITH_VELOCITIES = ("acceleration_rhs", "generalized_force")


class Explanation(NamedTuple):
    """The result of `explain`; print it.

    Attributes:
        path: the code that runs: "straight-line, LLVM", "straight-line, one kernel on the GPU", "straight-line, XLA", or
            "array code for …: …", with names of functions and the reason; or straight-line code for some functions and
            array code for others.
        operations: scalar operations of one evaluation of each function that is a straight-line program; loop bodies
            count once. First come Φ, Φ_q, …; then the functions that `simulate` runs: "acceleration" and "step of RK4",
            or of another method; last "kinematics", if there are at least as many equations as velocities. RK4's four
            stages are written out for CPUs and are a loop on GPUs.
        coordinates: number of coordinates.
        constraints: number of equations, with those of the drivers.
        rank: rank of Φ_q in the assembled configuration.
        dof: degrees of freedom without the drivers.
        pulling: names of cam contacts that would have to pull in the assembled configuration, so that a real follower
            would lift off; at the speed of the drivers, or at rest if these do not determine it.
        outside: names of contacts that are outside of the `part` of their outlines in this configuration, such as a pin
            that has left its slot.
        unknowns: the coordinates that `assemble` and `kinematics` choose, and their number of velocities, such as
            "coordinates of the bodies, 9 velocities".

    Examples:
        >>> list(mbs.explain(mech, guess).operations)[:3]
        ['constraints', 'constraint_jacobian', 'velocity_rhs']
    """

    path: str
    operations: dict[str, int]
    coordinates: int
    constraints: int
    rank: int
    dof: int
    pulling: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    unknowns: str = ""

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self.operations.items())
        lines = [
            f"path: {self.path}",
            f"scalar operations: {counts or 'none counted'}",
            f"coordinates {self.coordinates}, constraints {self.constraints}, rank {self.rank}, "
            f"degrees of freedom {self.dof}",
            f"unknowns of assembly and kinematics: {self.unknowns}",
        ]
        contacts = {"would have to pull": self.pulling, "outside of the part of an outline": self.outside}
        lines += [f"{fault}: {', '.join(map(repr, names))}" for fault, names in contacts.items() if names]
        return "\n".join(lines)


def explain(
    mech: Mechanism,
    guess: Coordinates | None = None,
    t: ArrayLike = 0.0,
    *,
    method: AbstractMethod | None = None,
    formulation: AbstractFormulation | None = None,
    simulation: bool = True,
) -> Explanation:
    """Explain how the equations of a mechanism are computed, their sizes, and its degrees of freedom. Print the result.

    Args:
        mech: the mechanism.
        guess: the mechanism is assembled near it; rank (with drivers) and degrees of freedom (without) are computed
            there.
        t: time.
        method: as for `simulate`.
        formulation: as for `simulate`; `unknowns` do not depend on it.
        simulation: count the operations of `simulate` as well.

    Returns:
        The way in which the equations are computed, numbers of scalar operations by function, of coordinates and of
        constraints, rank, degrees of freedom, and contacts that would have to pull; see `Explanation`.

    Raises:
        ValueError: a call inside jit, vmap or grad; an unknown name in `guess`, or a wrong number of values; a class in
            place of a method or formulation; numbers of Φ or Φ_q that are not finite.

    Examples:
        >>> explanation = mbs.explain(mech, guess)
        >>> explanation.coordinates, explanation.constraints, explanation.rank, explanation.dof
        (9, 9, 9, 1)
    """
    method = instance_of(AbstractMethod, "method", method, RK4())
    formulation = instance_of(AbstractFormulation, "formulation", formulation, Augmented())
    mech, near = measure_marks(mech, mech.coordinates(guess))
    start = assemble(mech, near, t)
    q = start.q
    time = as_times(t, q.dtype)
    # NumPy makes the arrays, because JAX would compile a function for each shape.
    zero_v = jax.device_put(np.zeros(mech.layout.m, q.dtype))
    report = diagnose(mech, q, t)
    functions: dict[str, tuple[ProgramWithFallback, tuple[Any, ...]]] = {
        name: (function, (mech, q, zero_v, time) if name in WITH_VELOCITIES else (mech, q, time))
        for name, function in equations.PROGRAMS.items()
    }
    if reactive_forces(mech) or stateful_forces(mech):
        # They are forces only in the equations of a formulation.
        del functions["generalized_force"]
    if simulation:
        functions |= _simulation(mech, q, zero_v, time, method, formulation)
    layout = mech.layout
    chosen = choose_formulation(mech, None)
    of = "bodies" if isinstance(chosen, Augmented) else "joints"
    unknowns = f"coordinates of the {of}, {structure(mech, chosen).space.m} velocities"
    if layout.m <= len(layout.row_owners):
        march = ProgramWithFallback(partial(motion_without_derivatives, limits=Limits(), formulation=chosen))
        functions["kinematics"] = (march, (mech, jax.device_put(np.asarray(time) + np.arange(2, dtype=q.dtype)), q))
    pulling, outside = _contacts(mech, q, time)
    programs, refusals = {}, {}
    for name, (function, args) in functions.items():
        refusal = function.refusal(*args)
        if refusal is None:
            programs[name] = function.program.trace(*args)
        else:
            refusals[name] = refusal
    return Explanation(
        path=_path(refusals, programs),
        operations={name: program.size for name, program in programs.items()},
        coordinates=layout.n,
        constraints=len(layout.row_owners),
        rank=report.rank,
        dof=report.dof,
        pulling=pulling,
        outside=outside,
        unknowns=unknowns,
    )


def _contacts(mech: Mechanism, q: Array, t: Array) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of cam contacts that would have to pull at q and t, and of those outside an outline's `part`."""
    elements = {**mech.constraints, **mech.drivers}.values()
    if all(type(x).push is AbstractConstraint.push and type(x).within is AbstractConstraint.within for x in elements):
        return (), ()
    determined = mech.layout.m <= len(mech.layout.row_owners)
    run = (kinematics if determined else simulate)(mech, t[None], q)
    if run.status[0] != Status.CONVERGED:
        return (), ()
    found = reactions(mech, run).items()
    pulling = tuple(name for name, r in found if r.pulls is not None and r.pulls[0])
    return pulling, tuple(name for name, r in found if r.outside is not None and r.outside[0])


def _simulation(
    mech: Mechanism, q: Array, v: Array, t: Array, method: AbstractMethod, formulation: AbstractFormulation
) -> dict[str, tuple[ProgramWithFallback, tuple[Any, ...]]]:
    """Return the programs that `simulate` runs, "acceleration" and "step of …", each with arguments to trace it."""
    equations = equations_of(formulation, mech)
    x, u = _zeros(equations.from_bodies, q, v, t)
    scaled = ScaledEquations.of(equations, _zeros(equations.scales, x, t), DEFAULT_TOLERANCE)
    equations = scaled.equations
    acceleration = ProgramWithFallback(lambda equations, x, u, t: equations.accelerations(x, u, t)[0])
    found: dict[str, tuple[ProgramWithFallback, tuple[Any, ...]]] = {
        "acceleration": (acceleration, (equations, x, u, t))
    }
    if isinstance(method, AbstractFixedStep):
        carry = _zeros(method.start, scaled, Motion(x, u, u, scaled.rows), t)
        step = ProgramWithFallback(lambda scaled, carry, t, h: method.step(scaled, carry, t, h)[0])
        found[f"step of {type(method).__name__}"] = step, (scaled, carry, t, jax.device_put(np.ones((), q.dtype)))
    return found


def _zeros(f: Callable[..., Any], *args: Any) -> Any:
    """Return zeros with the shapes and types of f(*args), without computing f."""
    return jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype)), jax.eval_shape(f, *args))


def _path(refusals: dict[str, str], programs: dict[str, Program]) -> str:
    """Return the text of `Explanation.path`; `refusals` are reasons for array code, by name of the function."""
    if refusals:
        name, reason = next(iter(refusals.items()))
        return f"array code for {', '.join(refusals)}: {reason} [{name}]"
    return explain_programs(programs)
