"""Kinematic analysis: position, velocity and acceleration on a time grid; Haug 3.6."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxmbs.analyses.assembly import frozen
from jaxmbs.analyses.diagnosis import check_driven
from jaxmbs.numerics.arrays import finite, is_concrete
from jaxmbs.numerics.implicit import differentiable_motion
from jaxmbs.numerics.march import follow_root
from jaxmbs.numerics.results import Status, check_known
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.numerics.search import find_root
from jaxmbs.programs.function import Straight
from jaxmbs.system.marks import as_drawn
from jaxmbs.system.mechanism import Coordinates, Mechanism, as_times, check_motions_at
from jaxmbs.system.trajectory import Trajectory


def kinematics(
    mech: Mechanism,
    times: ArrayLike | Sequence[float],
    guess: Coordinates | None = None,
    *,
    corrections: int = 4,
    max_steps: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    throw: bool = False,
) -> Trajectory:
    """q(t), q̇(t), q̈(t) of a mechanism whose drivers determine its motion.

    It assembles the mechanism at times[0] near the guess, then follows the motion. A step of length h predicts
    q + h q̇ + h²/2 q̈, Haug (3.6.13), and corrects this by up to `corrections` Newton steps and one last step, (3.6.7).
    Between two times it takes shorter steps where the motion needs them, so that it never jumps to another branch
    (another way to assemble the mechanism). It finds lock-ups, where the motion ends, and goes straight through
    bifurcations, where the motion may branch.

    q, q̇, q̈ are differentiable with respect to the mechanism and to `times`, in forward and reverse mode. The
    derivatives are the exact implicit ones, and the guess does not enter them. A sample that fails has a status other
    than 0, keeps its last good values (at a bifurcation the position is right), and has a zero gradient.

    Args:
        mech: the mechanism.
        times: (T,), in any order; the motion runs through them in the given order.
        guess: a mapping of names to coordinates, or q (n,); None: that of the model file, or zeros; see
            `Mechanism.coordinates`.
        corrections: largest number of Newton steps that correct a prediction, before the last one.
        max_steps: largest number of trial steps, 200 + 8 T by default.
        tolerance: largest gap that redundant constraints may keep, relative to the size of the mechanism; see `assemble`.
        throw: raise `AnalysisError` where a status is bad, with the text of `explain_failure`; only outside jit,
            vmap and grad.

    Returns:
        A `Trajectory`.

    Raises:
        ValueError: there are fewer drivers than degrees of freedom (the message says how many are missing), or some
            are redundant (it names them; found outside jit, vmap and grad only).

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2, jnp.pi]), guess)
        >>> print(motion.position("slider.x").round(6))  # 2 + 1, √(2² − 1), 2 − 1
        [3.       1.732051 1.      ]
        >>> print(motion.acceleration("slider.x").round(6))  # −1 − 1/2 at the outer dead centre
        [-1.5      0.57735  0.5    ]
    """
    q = mech.coordinates(guess)
    times = as_times(times, q.dtype)
    if times.ndim != 1 or times.shape[0] == 0:
        raise ValueError(f"times must be a row of at least one time, got shape {times.shape}")
    dtype = jnp.result_type(q, times)
    times = times.astype(dtype)
    check_motions_at(mech, times)
    mech, q = as_drawn(mech, q.astype(dtype))
    missing = mech.layout.m - len(mech.layout.row_owners)
    if missing > 0:
        raise ValueError(f"the motion is not determined: {missing} driver(s) missing")
    result = _kinematics(mech, times, q, Limits(corrections, max_steps, float(tolerance))).of(mech)
    leaves = [*jax.tree.leaves(mech), result.q]
    if all(is_concrete(leaf) for leaf in leaves) and result.q.ndim == 2:
        check_driven(mech, result)
    if throw:
        check_known(result)
        result.explain_failure().throw("kinematics")
    return result


class Limits(NamedTuple):
    """Arguments of `kinematics` that bound its iterations and gaps."""

    corrections: int = 4
    max_steps: int | None = None
    tolerance: float = DEFAULT_TOLERANCE


@eqx.filter_jit
def _kinematics(mech: Mechanism, times, guess, limits: Limits) -> Trajectory:
    clean_times = jnp.where(jnp.isfinite(times), times, 0)
    held = jax.lax.stop_gradient((mech, clean_times, guess))
    q, v, a, status, usable = Straight(partial(motion_without_derivatives, limits=limits))(*held)
    status = jnp.where(usable & jnp.all(jnp.isfinite(times)), status, int(Status.NON_FINITE)).astype(jnp.int32)
    phi, _, _ = frozen(mech, guess, times[0])
    q, v, a = jax.vmap(lambda q, v, a, t, ok: differentiable_motion(phi, mech.layout, q, v, a, t, ok))(
        q, v, a, clean_times, status == Status.CONVERGED
    )
    return Trajectory(times, q, v, a, status, mech.layout)


def motion_without_derivatives(mech: Mechanism, times, guess, limits: Limits) -> tuple[Array, ...]:
    """q, v, a and status without their derivatives: assembly at the first time, then step by step; and whether numbers and
    guess are finite, without which the status counts for nothing. Rows of all times are only passed on: a program would
    write out an operation for each."""
    _, phi, usable = frozen(mech, guess, times[0])
    usable = usable & jnp.all(jnp.isfinite(guess))
    guess = jnp.where(jnp.isfinite(guess), guess, 0)
    length, tolerance = finite(mech)[0].size(guess), limits.tolerance
    root = find_root(lambda q: phi(q, times[0]), mech.layout, guess, length, tolerance=tolerance)
    started = root.found & usable
    path = follow_root(phi, mech.layout, times, root.q, started, root.units, **limits._asdict())
    return path.q, path.v, path.a, path.status, usable
