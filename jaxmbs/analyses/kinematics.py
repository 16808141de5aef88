"""Kinematic analysis: position, velocity and acceleration on a time grid; Haug 3.6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from jaxmbs.analyses.diagnosis import check_driven, missing_drivers
from jaxmbs.analyses.unknowns import (
    ConstraintFunctions,
    check_formulation,
    choose_formulation,
    constraints_without_spin,
    motion_of_bodies,
)
from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.numerics.arrays import is_concrete, where_tree
from jaxmbs.numerics.implicit import differentiable_motion, jacobian
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.numerics.march import SINGULAR_POWER, correct_root, follow_root
from jaxmbs.numerics.results import Status, check_known
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, gap_limit
from jaxmbs.numerics.search import Root, find_root
from jaxmbs.numerics.space import Space
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.idle import idle_spins
from jaxmbs.system.inputs import motion_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory

# A motion that begins in a singular position is also assembled this fraction of the first interval later, and followed
# from there in both directions.
SINGULAR_START_DELAY = 0.1
# A start counts as singular if the reciprocal condition number of Φ_q is at most this many times the square root of the
# rounding limit of gaps: at a distance x from a singular position the residual is of the order of x², the reciprocal
# condition number of the order of x, and the search stops once the residual is within that limit.
SINGULAR_RCOND_PER_ROOT_GAP = 8.0
# Largest reciprocal condition number of Φ_q at which a start counts as singular, whatever the precision.
MAX_SINGULAR_RCOND = 0.05


def kinematics(
    mech: Mechanism,
    times: ArrayLike | Sequence[float],
    guess: Coordinates | None = None,
    *,
    branch: ArrayLike | None = None,
    formulation: AbstractFormulation | None = None,
    corrections: int = 4,
    max_steps: int | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    throw: bool = False,
) -> Trajectory:
    """Compute q(t), q̇(t), q̈(t) of a mechanism whose drivers determine its motion.

    It assembles the mechanism at times[0] near the guess, then follows the motion. A step of length h predicts
    q + h q̇ + h²/2 q̈, Haug (3.6.13), and corrects this by up to `corrections` Newton steps and one last step, (3.6.7).
    Between two times it takes shorter steps where the motion needs them, so that it never jumps to another branch
    (another way to assemble the mechanism). It finds lock-ups, where the motion ends, and goes straight through
    bifurcations, where the motion may branch. A motion that begins at a bifurcation has the status SINGULAR there,
    whatever the rounding of the guess. It follows the slowest branch: the one that is nearest to the first position
    after a tenth of the first interval.

    `branch` chooses another branch, at the start or in the middle of a motion. It is the velocity with which the motion
    leaves the first of the `times` at which Φ_q is singular. `find_singularities` returns these times, which you add to
    `times`, and the velocities of all branches, `tangents`.

    A body that only two ball joints hold, such as a rod of a platform, may spin about the line through them, which moves
    nothing else. The spin needs no driver: it is set to zero, ωᵀu = 0. Derivatives of the angle about this line have no
    meaning; all others are exact.

    q, q̇, q̈ are differentiable with respect to the mechanism and to `times`, in forward and reverse mode. The
    derivatives are the exact implicit ones, and the guess does not enter them. A sample that fails has a status other
    than 0, keeps its last good values (at a bifurcation the position is right), and has a zero gradient.

    Args:
        mech: the mechanism.
        times: (T,), in any order; the motion runs through them in the given order.
        guess: a mapping of names to coordinates, or q (n,); None: that of the model file, or zeros; see
            `Mechanism.coordinates`.
        branch: (m,), one of the tangents at the first singular time. None: the slowest branch if the motion begins there,
            straight on if it arrives there.
        formulation: chooses the unknowns, see `assemble`. From the same start it does not change the motion, except the
            spin of a body between two ball joints.
        corrections: largest number of Newton steps that correct a prediction, before the last one.
        max_steps: largest number of trial steps, 200 + 8 T by default.
        tolerance: largest gap that redundant constraints may keep, relative to the size of the mechanism; see `assemble`.
        throw: raise `AnalysisError` where a status is bad, with the text of `explain_failure`; only outside jit,
            vmap and grad.

    Returns:
        q (T, n), its rates v and a (T, m), and the status (T,) at `times`; see `Trajectory`.

    Raises:
        ValueError: there are fewer drivers than degrees of freedom (the message says how many are missing and, outside
            jit, vmap and grad, which bodies can move); or some are redundant (the message names them); or `branch` has
            the wrong shape, or is given although none of the times is singular; or the formulation is `Natural()`.
            Redundant drivers and a needless `branch` are found outside jit, vmap and grad only.
        AnalysisError: a status is bad, and `throw` is set.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2, jnp.pi]), guess)
        >>> print(motion.position("slider.x").round(6))  # 2 + 1, √(2² − 1), 2 − 1
        [3.       1.732051 1.      ]
        >>> print(motion.acceleration("slider.x").round(6))  # −1 − 1/2 at the outer dead centre
        [-1.5      0.57735  0.5    ]

        A rod as long as the crank, upright, where the slider may stay on the crank's axis or go on:

        >>> folded = mbs.find_singularities(slider_crank(rod=1.0), jnp.linspace(1, 2, 5), {"rod": (0.5, 0.8, -1)})
        >>> slow, fast = folded.tangents[0]
        >>> times = jnp.append(folded.times, 2.0)
        >>> motion = mbs.kinematics(slider_crank(rod=1.0), times, folded.q[0], branch=fast)
        >>> print(motion.status, motion.position("slider.x")[1].round(6))  # 2 cos 2; 0 along the slow one
        [4 0] -0.832294
    """
    mech, q, times = motion_inputs(mech, guess, times)
    if branch is not None:
        branch = jnp.asarray(branch, q.dtype)
        if branch.shape != (mech.layout.m,):
            raise ValueError(f"branch must be a velocity of shape ({mech.layout.m},), got {branch.shape}")
    check_formulation(formulation)
    limits = Limits(corrections, max_steps, float(tolerance))
    result = driven_motion(mech, times, q, branch, limits, formulation)
    if throw:
        check_known(result)
        result.explain_failure().throw("kinematics")
    return result


class Limits(NamedTuple):
    """Arguments of `kinematics` that bound its iterations and gaps.

    `search` is False to begin with Newton's method at the guess, for one time; see `motion_near`.
    """

    corrections: int = 4
    max_steps: int | None = None
    tolerance: float = DEFAULT_TOLERANCE
    search: bool = True


def driven_motion(
    mech: Mechanism,
    times: Array,
    guess: Array,
    branch: Array | None,
    limits: Limits,
    formulation: AbstractFormulation | None = None,
) -> Trajectory:
    """Return the trajectory of `kinematics` for the results of `motion_inputs`.

    Raises:
        ValueError: missing or redundant drivers, or a `branch` that none of the times needs.
    """
    missing = mech.layout.m - len(mech.layout.row_owners) - len(idle_spins(mech))
    if missing > 0:
        raise ValueError(f"the motion is not determined: {missing_drivers(mech, missing, guess, times[0])}")
    result = _kinematics(mech, times, guess, branch, limits, formulation).of(mech)
    if all(map(is_concrete, (*jax.tree.leaves(mech), result.q))) and result.q.ndim == 2:
        check_driven(mech, result, limits.tolerance)
        if branch is not None and not np.any(np.asarray(result.status) == Status.SINGULAR):
            raise ValueError("branch is given, but none of the times is singular: add one from `find_singularities`")
    return result


def motion_near(mech: Mechanism, t: Array, estimate: Array) -> Trajectory:
    """Return the motion at the time t alone, as `kinematics`, by a few Newton steps from a close estimate of q.

    It takes much less time than the search from a rough guess, and does not test whether the estimate is close: from a
    rough one it may find another branch, or none, with the status NOT_ASSEMBLED. Drivers are not checked.
    """
    return _kinematics(mech, t[None], estimate, None, Limits(search=False), None).of(mech)


@eqx.filter_jit
def _kinematics(
    mech: Mechanism,
    times: Array,
    guess: Array,
    branch: Array | None,
    limits: Limits,
    formulation: AbstractFormulation | None,
) -> Trajectory:
    """Return the trajectory, differentiable, without its mechanism. Numbers that are not finite give NON_FINITE."""
    formulation = choose_formulation(mech, formulation)
    clean_times = jnp.where(jnp.isfinite(times), times, 0)
    constants = jax.lax.stop_gradient((mech, clean_times, guess, branch))
    motion = ProgramWithFallback(partial(motion_without_derivatives, limits=limits, formulation=formulation))
    x, u, a, status, usable, units = motion(*constants)
    status = jnp.where(usable & jnp.all(jnp.isfinite(times)), status, int(Status.NON_FINITE)).astype(jnp.int32)
    converged = status == Status.CONVERGED
    guess = jnp.where(jnp.isfinite(guess), guess, 0)
    given = constraints_without_spin(mech, guess, times[0], formulation, (x[0], units))
    equations = given.structure
    unit = None if units is None else Units(equations.space.angular, given.mech.size(guess)).vector
    x, u, a = jax.vmap(lambda x, u, a, t, ok: differentiable_motion(given.phi, equations.space, x, u, a, t, ok, unit))(
        x, u, a, clean_times, converged
    )
    if equations.own_coordinates:
        x, u, a = _of_bodies(given, x, u, a, clean_times, status, guess)
    return Trajectory(times, x, u, a, status, mech.layout)


def _of_bodies(
    given: ConstraintFunctions, x: Array, u: Array, a: Array, times: Array, status: Array, guess: Array
) -> tuple[Array, Array, Array]:
    """Return q (T, n), v and v̇ (T, m) of the bodies along a path of unknowns; without derivatives where it has failed."""
    good = (status == Status.CONVERGED) | (status == Status.SINGULAR)
    # After its end, a path repeats its last good row.
    last = jax.lax.cummax(jnp.where(good, jnp.arange(times.shape[0]), -1))
    found = motion_of_bodies(given, x, u, a, times[jnp.maximum(last, 0)], guess)
    begun, converged = (last >= 0)[:, None], (status == Status.CONVERGED)[:, None]
    q, v, a = (jnp.where(converged, y, jax.lax.stop_gradient(y)) for y in found)
    return q, jnp.where(begun, v, 0), jnp.where(begun, a, 0)


def motion_without_derivatives(
    mech: Mechanism,
    times: Array,
    guess: Array,
    branch: Array | None = None,
    *,
    limits: Limits,
    formulation: AbstractFormulation,
) -> tuple[Array | None, ...]:
    """Return the path of the unknowns without derivatives: x, u, a and status, `usable` and the units of the rows.

    `usable` is True if the numbers and the guess are finite; if not, the status has no meaning. The mechanism is assembled
    at the first time and then followed step by step. Arrays over all times are only passed on here: a program would have
    an operation for each of their entries.
    """
    usable = jnp.all(jnp.isfinite(guess))
    guess = jnp.where(jnp.isfinite(guess), guess, 0)
    given = constraints_without_spin(mech, guess, times[0], formulation)
    phi, equations, usable = given.constant_phi, formulation.equations(given.mech), given.is_finite & usable
    space, length, tolerance = equations.space, given.mech.size(guess), limits.tolerance
    scaled = given.units is not None
    if not limits.search:
        near, units = equations.coordinates(guess, times[0]), Units(space.angular, length)
        *motion, status = correct_root(phi, space, times[0], near, units, tolerance=tolerance, scaled=scaled)
        return *(x[None] for x in (*motion, status)), usable, given.units
    find = lambda t, near: find_root(lambda x: phi(x, t), space, near, length, tolerance, scaled=scaled)
    leave = None if branch is None else lambda x, t: _own_velocity(equations, x, branch, t)
    start = _regular_start(
        phi, find, space, times, equations.coordinates(guess, times[0]), leave, usable, length, scaled
    )
    options: Any = {"start_time": start.t, "branch": leave, "scaled": scaled, "tolerance": tolerance}
    options |= {"corrections": limits.corrections, "max_steps": limits.max_steps}
    path = follow_root(phi, space, times, start.q, start.found, Units(space.angular, length), **options)
    return path.q, path.v, path.a, path.status, usable, given.units


def _own_velocity(equations: AbstractEquations, x: Array, v: Array, t: Array) -> Array:
    """Return the velocity in the coordinates of the equations, at x, for a velocity v of the bodies."""
    if not equations.own_coordinates:
        return v
    x, v, t = jax.lax.stop_gradient((x, v, t))
    return equations.from_bodies(equations.configuration(x, t), v, t)[1]


class _StartProgress(NamedTuple):
    """A root q of Φ(q, t) = 0 from which a motion is followed, and the time and guess of the next search for one."""

    t: Float[Array, ""]
    q: Float[Array, " n"]
    found: Bool[Array, ""]
    next_t: Float[Array, ""]
    guess: Float[Array, " n"]
    searching: Bool[Array, ""]


def _regular_start(
    phi: Callable[[Array, Array], Array],
    find: Callable[[Array, Array], Root],
    space: Space,
    times: Array,
    guess: Array,
    branch: Callable[[Array, Array], Array] | None,
    usable: Array,
    length: Array,
    scaled: bool,
) -> _StartProgress:
    """Return a root at times[0], or a little later if Φ_q is singular at times[0]; the motion is followed back from there.

    `find`: (t, guess) ↦ `Root` of phi(q, t); `branch`: (q, t) ↦ velocity; `usable`: False if no search can succeed,
    because numbers are not finite; `length` and `scaled`: as for `find_root`.
    In a singular position the search finds only half of the digits of q, and velocities are not unique. A little later
    the branches lie apart. The second search begins at the first assembly, moved along `branch` if it is given.
    """
    dtype, first = guess.dtype, times[0]
    unit = Units(space.angular, length).vector if scaled else None
    later = times[min(1, times.shape[0] - 1)]
    near_singular = min(SINGULAR_RCOND_PER_ROOT_GAP * gap_limit(dtype, 0.0) ** 0.5, MAX_SINGULAR_RCOND)
    always_singular = float(jnp.finfo(dtype).eps) ** SINGULAR_POWER
    later = first + SINGULAR_START_DELAY * (later - first)

    def is_unfinished(carry: tuple[int, _StartProgress]) -> Array:
        """Return True before the second search, if the first one found a singular position."""
        searches, start = carry
        return (searches < 2) & start.searching

    def search(carry: tuple[int, _StartProgress]) -> tuple[int, _StartProgress]:
        """Return the carry after one more search for a root, at the next time of the progress."""
        searches, start = carry
        t, is_first = start.next_t, start.next_t == first
        root = find(t, start.guess)
        factors = factor(jacobian(phi, space, root.q, t), determined=True, unit=unit)
        least = jnp.where(is_first, jnp.asarray(near_singular, dtype), jnp.asarray(always_singular, dtype))
        singular = root.found & ~(factors.rcond > least)
        found_t, q, found = where_tree(
            is_first | (root.found & ~singular),
            (t, root.q, root.found),
            (start.t, start.q, start.found),
        )
        moved = root.q if branch is None else space.retract(root.q, (later - first) * branch(root.q, t))
        return searches + 1, _StartProgress(found_t, q, found, later, moved, is_first & singular & (later != first))

    start = _StartProgress(first, guess, usable, first, guess, usable)
    return jax.lax.while_loop(is_unfinished, search, (0, start))[1]
