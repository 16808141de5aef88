"""Dynamic balancing: lengths and masses for which forces over a cycle are small."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.analyses.assembly import assemble
from jaxmbs.analyses.diagnosis import diagnose
from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.numerics.results import Status
from jaxmbs.search import descent
from jaxmbs.search.descent import Design
from jaxmbs.search.multistart import Ranked, count_of
from jaxmbs.search.stages import Report
from jaxmbs.synthesis.loads import SHARPNESS, CycleLoads, cycle_loads, peak, regularity, ripple, rms
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# The name of what belongs to the whole mechanism.
WHOLE = ""
# What a design costs that cannot be assembled or locks, times the part of the cycle that is missing; others cost about 1.
LOST = 1e6
# A quantity that is no more than this part of the largest one is rounding, and nothing can be relative to it.
NOTHING = 1e-12


def balance(
    build: Callable[[Any], Mechanism],
    design: Any,
    *,
    minimise: Mapping[str, Any],
    guess: Any = None,
    times: ArrayLike | Sequence[float] | None = None,
    period: float = 1.0,
    samples: int = 72,
    closed: bool = True,
    run: Callable[[Mechanism], Trajectory] | None = None,
    also: Callable[[Any, Trajectory, CycleLoads], Any] | None = None,
    about: Any = None,
    clearance: float = 0.2,
    sharpness: float = SHARPNESS,
    lower: Any = None,
    upper: Any = None,
    starts: int = 16,
    seed: int = 0,
    keep: int = 10,
    steps: tuple[int, int] = (300, 60),
    progress: Report | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[Design]:
    """Designs whose mechanisms run with small forces over a cycle: torque ripple, shaking force and moment, reactions.

    Minimises Σ w (m / m₀)² over the quantities m that are named, m₀ being that of the given design. The m are squared,
    since a quantity that can reach zero, such as a shaking force, has a kink there. Gradients go through inverse
    dynamics and through the closing of loops, so lengths may change with the masses. The search is that of `minimise`.

    A position near a singular one adds max(0, c σ₀ / σ − 1)², where σ is the `regularity` of the position and σ₀ the
    least one of the given design. A position that cannot be reached adds a large constant.

    Args:
        build: design ↦ mechanism, in JAX.
        design: any tree of real numbers and arrays; the first start.
        minimise: weights w by name. "torque_ripple", "torque_rms", "torque_peak": of the effort of drivers, be it a
            torque or a force; "reactions": the `peak` of joint forces; each a number for all, or a mapping by name.
            "shaking_force", "shaking_moment": root mean square.
        guess: of the given design, as for `kinematics`; or a function of a design.
        times: of the cycle, at equal steps; (samples + 1) from 0 to `period` unless given.
        period: of the cycle.
        samples: number of steps of the cycle.
        closed: whether the last time is the first of the next cycle.
        run: mechanism ↦ motion, such as a `simulate`, in place of the kinematics of its drivers; c then has no effect.
        also: (design, motion, loads) ↦ what is added: say, by how much the stroke differs from what it should be.
        about: the point to which the shaking moment belongs.
        clearance: c.
        sharpness: of the peaks.
        lower, upper, starts, seed, keep, steps, progress, resume: as in `minimise`.

    Returns:
        Designs ranked by `.value`; that of the given design is the sum of the weights. `.checks` has all the quantities
        that can be minimised, in their own units, those of the given design as "before", "assembled" (at all times),
        and "clearance", the least σ / σ₀.

    Raises:
        ValueError: names or weights of no use; a quantity that vanishes at the given design; a given design that is not
            driven in all its degrees of freedom, cannot be assembled or locks; and those of `minimise`.

    Examples:
        >>> settings = dict(guess=guess, period=2 * jnp.pi, samples=12, starts=2, steps=(5, 3))
        >>> found = mbs.synthesis.balance(
        ...     slider_crank, 2.0, minimise={"torque_rms": 1.0}, lower=1.5, upper=3.0, **settings
        ... )
        >>> bool(found.best.value < 0.9)
        True
    """
    samples = count_of("samples", samples)
    if not 0 <= clearance < 1:
        raise ValueError(f"clearance must be from 0 to below 1, got {clearance!r}")
    given = build(design)
    cycle = jnp.linspace(0, period, samples + 1) if times is None else jnp.asarray(times, float)
    begun, motion_of = _motions(given, design, cycle, guess) if run is None else (run(given), lambda _, mech: run(mech))

    def evaluated(mech, motion):
        good = motion.status == Status.CONVERGED
        loads = _where(good, cycle_loads(mech, motion, about=about))
        near = jnp.where(good, 1 / regularity(mech, motion), 0) if run is None else None
        return loads, good, near, _measures(mech, loads, sharpness, closed)

    _, good, nearest, before = eqx.filter_jit(evaluated)(given, begun)
    _check_motion(begun, np.asarray(good))
    weights = _weights(minimise, before)

    def objective(design):
        mech = build(design)
        motion = motion_of(design, mech)
        loads, good, near, now = evaluated(mech, motion)
        value = sum(w * (now[key][name] / before[key][name]) ** 2 for (key, name), w in weights.items())
        value = value + LOST * jnp.mean(~good)
        checks = {**_plain(now), "before": _plain(before), "assembled": jnp.all(good)}
        if near is not None:
            least = jnp.max(nearest)
            value = value + jnp.sum(jnp.maximum(clearance * near / least - 1, 0) ** 2)
            checks["clearance"] = least / jnp.max(near)
        return value if also is None else value + also(design, motion, loads), checks

    search: Any = {"starts": starts, "seed": seed, "keep": keep, "steps": steps, "progress": progress, "resume": resume}
    return descent.minimise(objective, design, lower=lower, upper=upper, **search)


def _motions(mech: Mechanism, design, times: Array, guess) -> tuple[Trajectory, Callable]:
    """The motion of the given design by its drivers, and (design, mechanism) ↦ motion of others."""
    first = guess(design) if callable(guess) else guess
    try:
        begun = kinematics(mech, times, first)
    except ValueError as error:
        _check_driven(mech, first, times, error)
        raise
    # All begin where the given one does, unless the guess depends on the design.
    start = guess if callable(guess) else lambda design: begun.q[0]
    return begun, lambda design, mech: kinematics(mech, times, start(design))


def _check_driven(mech: Mechanism, guess, times, error: ValueError) -> None:
    """Say how many degrees of freedom have no driver, if that is what is wrong."""
    times = np.ravel(times)
    if not len(times):
        return
    found = diagnose(mech, assemble(mech, guess, float(times[0])).q, float(times[0]))
    if found.free:
        raise ValueError(
            f"build(design) has {found.dof} degree(s) of freedom, of which {found.free} are not driven: "
            "add drivers, or give `run`"
        ) from error


def _check_motion(motion: Trajectory, good: np.ndarray) -> None:
    if not good.all():
        k = int(np.argmin(good))
        name = Status(int(motion.status[k])).name
        raise ValueError(f"design has no motion to begin with: {name} at t = {float(motion.t[k]):.6g}")


def _where(good, loads: CycleLoads) -> CycleLoads:
    """The loads, none at times that have not been reached."""
    kept = lambda x: jnp.where(good.reshape(good.shape + (1,) * (x.ndim - 1)), x, jnp.zeros_like(x))
    return jax.tree.map(kept, loads)


def _measures(mech: Mechanism, loads: CycleLoads, sharpness: float, closed: bool) -> dict[str, dict[str, Array]]:
    """All quantities that can be made small, by their names, and those of drivers and joints by these."""
    highest = partial(peak, sharpness=sharpness)
    efforts: dict[str, Callable] = {"torque_ripple": ripple, "torque_rms": rms, "torque_peak": highest}
    found = {
        key: {name: measure(effort, closed=closed) for name, effort in loads.driving.items()}
        for key, measure in efforts.items()
    }
    found["shaking_force"] = {WHOLE: rms(loads.shaking_force, closed=closed)}
    found["shaking_moment"] = {WHOLE: rms(loads.shaking_moment, closed=closed)}
    found["reactions"] = {name: highest(loads.reactions[name].force, closed=closed) for name in mech.constraints}
    return found


def _plain(found: dict[str, dict[str, Array]]) -> dict[str, Any]:
    """The same for a reader: what belongs to the whole mechanism is not a mapping."""
    return {key: values.get(WHOLE, values) for key, values in found.items()}


def _weights(minimise: Mapping[str, Any], before: dict[str, dict[str, Array]]) -> dict[tuple[str, str], float]:
    """The weight of every quantity that has one."""
    if not isinstance(minimise, Mapping):
        raise ValueError(f"minimise must be a mapping of names to weights, got {minimise!r}")
    weights = {}
    for key, given in minimise.items():
        if key not in before:
            raise ValueError(f"minimise has {key!r}, which is none of {', '.join(before)}")
        names = before[key]
        by_name = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
        for name, weight in by_name.items():
            if name not in names or (isinstance(given, Mapping) and name == WHOLE):
                raise ValueError(f"minimise[{key!r}] has {name!r}, which is none of {', '.join(filter(None, names))}")
            if not isinstance(weight, (int, float)) or not 0 <= weight < np.inf:
                raise ValueError(f"minimise[{key!r}] must be weights, not negative, got {weight!r}")
            if weight:
                weights[key, name] = float(weight)
    if not weights:
        raise ValueError("minimise has no weight that is not zero")
    _check_something(weights, before)
    return weights


def _check_something(weights, before) -> None:
    """Nothing can be relative to what vanishes at the given design."""
    largest = max(float(value) for values in before.values() for value in values.values())
    for key, name in weights:
        if not float(before[key][name]) > NOTHING * largest:
            of = f" of {name!r}" if name else ""
            raise ValueError(f"minimise: {key}{of} vanishes at the given design; leave it out, or begin elsewhere")
