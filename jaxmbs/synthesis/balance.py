"""Balancing: search for lengths, masses and springs that make the forces over a cycle small, in motion or at rest."""

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
from jaxmbs.dynamics.velocity_ratios import holding_efforts
from jaxmbs.numerics.results import Status
from jaxmbs.search import Design, ProgressCallback, Ranked, descent, positive_integer
from jaxmbs.synthesis.loads import SHARPNESS, CycleLoads, cycle_loads, peak, regularity, ripple, rms
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Key of quantities of the whole mechanism, in the place of the name of a driver or joint.
WHOLE_MECHANISM = ""
# Cost of a design that cannot complete the cycle, times the fraction that it misses. Designs that work cost about 1.
FAILED_CYCLE_COST = 1e6
# Quantities of the given design below this fraction of the largest are rounding errors: no cost is relative to them.
MIN_RELATIVE_QUANTITY = 1e-12


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
    progress: ProgressCallback | None = None,
    resume: str | os.PathLike | None = None,
) -> Ranked[Design]:
    """Find designs with small forces over a cycle: torque ripple, shaking force and moment, reactions, efforts at rest.

    The cost is Σ w (m / m₀)² over the named quantities m, m₀ being the value of the given design. The m are squared
    because a quantity that can reach zero, such as a shaking force, has a kink there. Gradients go through inverse
    dynamics and through the closing of loops, so lengths may change together with masses. The search is that of
    `minimise`.

    A position near a singular one adds max(0, c σ₀ / σ − 1)², where σ is the `regularity` of the position and σ₀ the
    least regularity of the given design. A position that cannot be reached adds a large constant.

    Args:
        build: a function written in JAX: design ↦ mechanism.
        design: a pytree of real numbers and arrays: the first start.
        minimise: weights w by name. "torque_ripple", "torque_rms" and "torque_peak" are those of the efforts of drivers,
            torques or forces; "reactions" is the `peak` of joint forces; each weight is a number for all drivers or
            joints, or a mapping by their names. "shaking_force" and "shaking_moment" are root mean squares. "static_rms"
            is that of the efforts that hold a driven mechanism still in the configurations of its motion: where it is
            zero, springs and weights balance statically, and the potential energy is constant.
        guess: a guess of the configuration for the given design, as for `kinematics`; or a function of the design.
        times: times of the cycle, at equal steps; None: (samples + 1) from 0 to `period`.
        period: duration of the cycle.
        samples: number of steps of the cycle.
        closed: whether the last time is the first of the next cycle.
        run: a function mechanism ↦ motion, such as a `simulate`, that replaces the kinematics of the drivers; c then has
            no effect.
        also: a function (design, motion, loads) ↦ cost to add, such as the squared error of a stroke.
        about: the point about which the shaking moment is taken.
        clearance: c, from 0 to below 1.
        sharpness: sharpness of the peaks.
        lower: as for `minimise`.
        upper: as for `minimise`.
        starts: as for `minimise`.
        seed: as for `minimise`.
        keep: as for `minimise`.
        steps: as for `minimise`.
        progress: as for `minimise`.
        resume: as for `minimise`.

    Returns:
        Designs ranked by `.value`; the value of the given design is the sum of the weights. `.checks` has all quantities
        that can be minimised, in their own units; those of the given design as "before"; "assembled": True if the
        design assembles at all times; and "clearance": the least σ / σ₀.

    Raises:
        ValueError: an unknown name or an unusable weight; a quantity that vanishes at the given design; a given design
            with undriven degrees of freedom, or that cannot be assembled or locks; and the errors of `minimise`.

    Examples:
        >>> settings = dict(guess=guess, period=2 * jnp.pi, samples=12, starts=2, steps=(5, 3))
        >>> found = mbs.synthesis.balance(
        ...     slider_crank, 2.0, minimise={"torque_rms": 1.0}, lower=1.5, upper=3.0, **settings
        ... )
        >>> bool(found.best.value < 0.9)
        True
    """
    samples = positive_integer("samples", samples)
    if not 0 <= clearance < 1:
        raise ValueError(f"clearance must be from 0 to below 1, got {clearance!r}")
    given = build(design)
    cycle = jnp.linspace(0, period, samples + 1) if times is None else jnp.asarray(times, float)
    if run is None:
        first_motion, motion_of = _motion_and_function(given, design, cycle, guess)
    else:
        first_motion, motion_of = run(given), lambda _, mech: run(mech)

    def evaluate(mech, motion):
        """Return loads, a mask of the times reached, the inverse regularity at each time (or None), and all quantities."""
        reached = motion.status == Status.CONVERGED
        loads = _zero_unless(reached, cycle_loads(mech, motion, about=about))
        static = holding_efforts(mech, motion) if run is None and "static_rms" in minimise else {}
        singularity = jnp.where(reached, 1 / regularity(mech, motion), 0) if run is None else None
        return loads, reached, singularity, _quantities(mech, loads, static, sharpness, closed)

    _, reached, first_singularity, before = eqx.filter_jit(evaluate)(given, first_motion)
    _check_motion(first_motion, np.asarray(reached))
    weights = _weights(minimise, before)

    def objective(design):
        """Return the cost of a design and its checks."""
        mech = build(design)
        motion = motion_of(design, mech)
        loads, reached, singularity, now = evaluate(mech, motion)
        value = sum(w * (now[key][name] / before[key][name]) ** 2 for (key, name), w in weights.items())
        value = value + FAILED_CYCLE_COST * jnp.mean(~reached)
        checks = {**_for_users(now), "before": _for_users(before), "assembled": jnp.all(reached)}
        if singularity is not None:
            unit = jnp.max(first_singularity)
            value = value + jnp.sum(jnp.maximum(clearance * singularity / unit - 1, 0) ** 2)
            checks["clearance"] = unit / jnp.max(singularity)
        return value if also is None else value + also(design, motion, loads), checks

    search: Any = {"starts": starts, "seed": seed, "keep": keep, "progress": progress, "resume": resume}
    return descent.minimise(objective, design, lower=lower, upper=upper, steps=steps, **search)


def _motion_and_function(mech: Mechanism, design, times: Array, guess) -> tuple[Trajectory, Callable]:
    """Return the driven motion of the given design, and the function (design, mechanism) ↦ motion of other designs."""
    first = guess(design) if callable(guess) else guess
    try:
        motion = kinematics(mech, times, first)
    except ValueError as error:
        _check_driven(mech, first, times, error)
        raise
    # All motions start from the configuration of the given design, unless the guess depends on the design.
    start = guess if callable(guess) else lambda design: motion.q[0]
    return motion, lambda design, mech: kinematics(mech, times, start(design))


def _check_driven(mech: Mechanism, guess, times, error: ValueError) -> None:
    """Raise ValueError from the `error` of `kinematics` if some degrees of freedom are not driven."""
    times = np.ravel(times)
    if not len(times):
        return
    diagnosis = diagnose(mech, assemble(mech, guess, float(times[0])).q, float(times[0]))
    if diagnosis.free:
        raise ValueError(
            f"build(design) has {diagnosis.dof} degree(s) of freedom, of which {diagnosis.free} are not driven: "
            "add drivers, or give `run`"
        ) from error


def _check_motion(motion: Trajectory, reached: np.ndarray) -> None:
    """Raise ValueError if the motion of the given design does not reach all times; `reached` is a mask of the times."""
    if not reached.all():
        k = int(np.argmin(reached))
        name = Status(int(motion.status[k])).name
        raise ValueError(f"the given design cannot run through the cycle: {name} at t = {float(motion.t[k]):.6g}")


def _zero_unless(reached, loads: CycleLoads) -> CycleLoads:
    """Return the loads with zeros at the times that the mask `reached` leaves out."""
    keep = lambda x: jnp.where(reached.reshape(reached.shape + (1,) * (x.ndim - 1)), x, jnp.zeros_like(x))
    return jax.tree.map(keep, loads)


def _quantities(
    mech: Mechanism, loads: CycleLoads, static: dict[str, Array], sharpness: float, closed: bool
) -> dict[str, dict[str, Array]]:
    """Return all quantities that `balance` can minimise: kind ↦ name of the driver or joint ↦ value.

    `static`: the holding efforts by driver; empty if the motion is not that of the drivers.
    """
    highest = partial(peak, sharpness=sharpness)
    efforts: dict[str, Callable] = {"torque_ripple": ripple, "torque_rms": rms, "torque_peak": highest}
    quantities = {
        key: {name: measure(effort, closed=closed) for name, effort in loads.driving.items()}
        for key, measure in efforts.items()
    }
    if static:
        quantities["static_rms"] = {name: rms(effort, closed=closed) for name, effort in static.items()}
    quantities["shaking_force"] = {WHOLE_MECHANISM: rms(loads.shaking_force, closed=closed)}
    quantities["shaking_moment"] = {WHOLE_MECHANISM: rms(loads.shaking_moment, closed=closed)}
    quantities["reactions"] = {name: highest(loads.reactions[name].force, closed=closed) for name in mech.constraints}
    return quantities


def _for_users(quantities: dict[str, dict[str, Array]]) -> dict[str, Any]:
    """Return the quantities by kind; those of the whole mechanism are numbers, not mappings with the key ""."""
    return {key: values.get(WHOLE_MECHANISM, values) for key, values in quantities.items()}


def _weights(minimise: Mapping[str, Any], before: dict[str, dict[str, Array]]) -> dict[tuple[str, str], float]:
    """Return the weights that are not zero, by (kind, name of the driver or joint) of the quantity.

    minimise: as for `balance`. before: the quantities of the given design, see `_quantities`.

    Raises:
        ValueError: an unknown name, an unusable weight, or a quantity that vanishes at the given design.
    """
    if not isinstance(minimise, Mapping):
        raise ValueError(f"minimise must be a mapping of names to weights, got {minimise!r}")
    weights = {}
    for key, given in minimise.items():
        if key not in before:
            raise ValueError(f"minimise has {key!r}, which is not one of {', '.join(before)}")
        names = before[key]
        by_name = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
        for name, weight in by_name.items():
            if name not in names or (isinstance(given, Mapping) and name == WHOLE_MECHANISM):
                known = ", ".join(filter(None, names))
                raise ValueError(f"minimise[{key!r}] has {name!r}, which is not one of {known}")
            if not isinstance(weight, (int, float)) or not 0 <= weight < np.inf:
                raise ValueError(f"minimise[{key!r}] must be weights, not negative, got {weight!r}")
            if weight:
                weights[key, name] = float(weight)
    if not weights:
        raise ValueError("minimise has no weight that is not zero")
    # The cost is relative to the quantities of the given design.
    largest = max(float(value) for values in before.values() for value in values.values())
    for key, name in weights:
        if not float(before[key][name]) > MIN_RELATIVE_QUANTITY * largest:
            of = f" of {name!r}" if name else ""
            raise ValueError(f"minimise: {key}{of} vanishes at the given design; leave it out, or begin elsewhere")
    return weights
