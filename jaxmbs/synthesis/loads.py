"""Forces of a mechanism in motion over a cycle, and smooth measures of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.dynamics.reactions import Reactions, reactions
from jaxmbs.element import GROUND
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.numerics.scaling import Units, unit_of_length
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.synthesis.closing import scaled_jacobian
from jaxmbs.system.equations import residuals, state_of
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# Default of `sharpness` in `peak`, the exponent p. The peak of 72 values is then at most 1.11 times their maximum.
SHARPNESS = 40.0


class CycleLoads(NamedTuple):
    """Driving efforts of a motion, and its loads on the frame. All arrays have T rows after the axes of the motion.

    Attributes:
        driving: the effort of every driver by name, a force or torque (T,); (T, motions) if one element prescribes
            several motions.
        shaking_force: (T, d), the sum of all forces on the ground.
        shaking_moment: the sum of all torques on the ground and of the moments of all forces on it about a point: (T,) in
            the plane, (T, 3) in space.
        reactions: of every joint and driver; see `Reaction`.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> loads = mbs.synthesis.cycle_loads(mech, motion)
        >>> print(loads.driving["motor"].round(6), loads.shaking_moment.round(6))
        [ 0.      -0.57735] [ 0.      -0.57735]
    """

    driving: dict[str, Float[Array, "*batch T"] | Float[Array, "*batch T 3"]]
    shaking_force: Float[Array, "*batch T d"]
    shaking_moment: Float[Array, "*batch T"] | Float[Array, "*batch T 3"]
    reactions: Reactions


def cycle_loads(mech: Mechanism, motion: Trajectory, *, about: ArrayLike | Sequence[float] | None = None) -> CycleLoads:
    """Compute driving efforts, joint reactions, shaking force and shaking moment along a motion by inverse dynamics.

    The shaking force is F = −Σ f, the sum over joints, drivers, springs, dampers and torques between the ground and a
    body, with f on the body; the shaking moment is M = −Σ (r − r₀) × f + τ. By Newton's and Euler's laws F = −d/dt Σ m ṙ_c
    + Σ F_e and M = −dL/dt + Σ M_e. Here L is the moment of momentum of all bodies about r₀, and F_e, M_e are weights and
    forces without a reaction on a body, `PointForce` and `UserForce`. For pressure between a piston and its cylinder use
    an actuator, which has a reaction on the ground. The reaction to a force on a body is taken to act at the same place.
    R. S. Berkof & G. G. Lowen, A new method for completely force balancing simple linkages, Journal of Engineering for
    Industry 91, 1969.

    Args:
        mech: the mechanism.
        motion: a motion of the mechanism, from `kinematics` or `simulate`.
        about: r₀ (d,), a point of the ground; None: its origin.

    Returns:
        Driving efforts (T,), shaking force (T, d), shaking moment, (T,) in the plane and (T, 3) in space, and reactions;
        see `CycleLoads`.

    Raises:
        ValueError: `about` has a wrong shape.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(mbs.synthesis.cycle_loads(mech, motion).shaking_force.round(6))
        [[ 2.5      0.     ]
         [-0.57735  1.     ]]
    """
    dimension = mech.layout.bodies[0][1].dimension
    about = jnp.zeros(dimension, motion.q.dtype) if about is None else jnp.asarray(about, motion.q.dtype)
    if about.shape != (dimension,):
        raise ValueError(f"about must be a point of shape ({dimension},), got shape {about.shape}")
    by_name = reactions(mech, motion)
    force, moment = _loads_of_forces(mech, motion, about)
    for name, element in {**mech.constraints, **mech.drivers}.items():
        if GROUND not in (element.i, element.j):
            continue
        reaction, sign = by_name[name], -1 if element.i == GROUND else 1
        arm = reaction.place - jnp.broadcast_to(about, reaction.place.shape)
        force = force + sign * reaction.force
        moment = moment + sign * (reaction.torque + _cross(arm, reaction.force))
    efforts = {name: reaction.effort for name, reaction in by_name.items()}
    driving = {name: effort for name, effort in efforts.items() if effort is not None}
    return CycleLoads(driving, force, moment, by_name)


def _loads_of_forces(mech: Mechanism, motion: Trajectory, about) -> tuple[Array, Array]:
    """Return force and moment about a point (d,) that springs, dampers and torques exert on the ground at all times."""
    grounded = [force for force in mech.forces.values() if GROUND in force.acts_on]

    def at_one_time(t, q, v):
        """Return force and moment on the ground at one time."""
        state = state_of(mech, q, v, t)
        total = sum((force.generalized(state) for force in grounded), jnp.zeros_like(v))
        force, moment = 0.0, 0.0
        for name, rows in mech.layout.velocity_slices.items():
            pose = state.poses[name]
            body_force, torque = pose.load(total[rows], jnp.zeros_like(about))
            force = force - body_force
            moment = moment - torque - _cross(pose.r - about, body_force)
        return force, moment

    return _at_each_time(at_one_time, motion)(motion.t, motion.q, motion.v)


def _at_each_time(function: Callable, motion: Trajectory) -> Callable:
    """Return a function of one time as a function of all times of a motion, which may be a batch."""
    for _ in range(motion.t.ndim):
        function = jax.vmap(function)
    return function


def _cross(arm, force):
    """Return arm × force (…, d): numbers (…) in the plane, vectors (…, 3) in space."""
    if force.shape[-1] == 2:
        return arm[..., 0] * force[..., 1] - arm[..., 1] * force[..., 0]
    return jnp.cross(arm, force)


def rms(values: ArrayLike | Sequence[float], *, closed: bool = True) -> Float[Array, ""]:
    """Return the root mean square √(mean ‖f‖²) over a cycle. Its derivative is zero where all values are zero.

    Args:
        values: numbers (T,) or vectors (T, d), at equal steps of time.
        closed: whether the last value is the first one of the next cycle; it is then ignored.

    Returns:
        The root mean square, in the unit of the values.

    Raises:
        ValueError: no values.

    Examples:
        >>> print(mbs.synthesis.rms(jnp.array([3.0, -3.0, 3.0])))
        3.0
    """
    square = jnp.mean(_squares(values, closed))
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def ripple(effort: ArrayLike | Sequence[float], *, closed: bool = True) -> Float[Array, ""]:
    """Return the root mean square about the mean, √(mean (τ − τ̄)²): the variation that a flywheel has to smooth.

    Args:
        effort: (T,), at equal steps of time.
        closed: whether the last value is the first one of the next cycle; it is then ignored.

    Returns:
        The ripple, in the unit of the effort.

    Raises:
        ValueError: no values.

    Examples:
        >>> print(mbs.synthesis.ripple(jnp.array([5.0, 1.0, 5.0])))
        2.0
    """
    values = _cycle(effort, closed)
    return rms(values - jnp.mean(values, axis=0), closed=False)


def peak(values: ArrayLike | Sequence[float], *, sharpness: float = SHARPNESS, closed: bool = True) -> Float[Array, ""]:
    """Return a smooth maximum of the size over a cycle, (Σ ‖f‖ᵖ)^(1/p): between max ‖f‖ and T^(1/p) max ‖f‖.

    For the largest deviation subtract the mean from the values first.

    Args:
        values: numbers (T,) or vectors (T, d), at equal steps of time.
        sharpness: p, at least 2; the larger, the nearer to the maximum and the less smooth.
        closed: whether the last value is the first one of the next cycle; it is then ignored.

    Returns:
        The peak, in the unit of the values.

    Raises:
        ValueError: a sharpness below 2, or no values.

    Examples:
        >>> print(mbs.synthesis.peak(jnp.array([1.0, -3.0, 2.0, 1.0]), sharpness=20).round(3))
        3.0
    """
    if not sharpness >= 2:
        raise ValueError(f"sharpness must be at least 2, got {sharpness!r}")
    values = jnp.asarray(values)
    # Powers of numbers up to 1 do not overflow. The result is independent of these units, so they count as constant.
    unit = _constant_maximum(jnp.abs(values))
    squares = _squares(values / unit, closed)
    largest = _constant_maximum(squares)
    total = jnp.sum((squares / largest) ** (sharpness / 2))
    positive = total > 0
    return jnp.where(positive, unit * jnp.sqrt(largest) * jnp.where(positive, total, 1) ** (1 / sharpness), 0)


def _constant_maximum(sizes):
    """Return the largest of the sizes, 1 if all are zero; it counts as constant in derivatives."""
    largest = jax.lax.stop_gradient(jnp.max(sizes))
    return jnp.where(largest > 0, largest, 1)


def _cycle(values, closed: bool):
    """Return the values of one cycle: if `closed`, without the last one, which begins the next cycle."""
    values = jnp.asarray(values)
    if values.ndim == 0 or len(values) < 1 + closed:
        raise ValueError(f"values must have one row for each time of a cycle, got shape {values.shape}")
    return values[:-1] if closed else values


def _squares(values, closed: bool) -> Float[Array, " T"]:
    """Return ‖f‖² at each time of one cycle, see `_cycle`."""
    values = _cycle(values, closed)
    return jnp.sum(values.reshape(len(values), -1) ** 2, axis=1)


def regularity(mech: Mechanism, motion: Trajectory) -> Float[Array, "*batch T"]:
    """Return the distance of positions from singular ones, (Σ 1/σ²)^(−½) with the singular values σ of Φ_q.

    The columns of Φ_q are in radians and lengths of the mechanism, and each row is divided by its largest entry. The result
    lies between σ_min / √m and σ_min, and is smooth where singular values cross. Redundant constraints do not disturb it.

    Args:
        mech: the mechanism.
        motion: a motion of the mechanism, from `kinematics` or `simulate`.

    Returns:
        The regularity (T,), without a unit.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(mbs.synthesis.regularity(mech, motion).round(4))
        [0.2164 0.2357]
    """
    return _at_each_time(partial(ProgramWithFallback(_regularity), mech), motion)(motion.q, motion.t)


def _regularity(mech: Mechanism, q, t) -> Float[Array, ""]:
    """Return the `regularity` of one configuration q at time t."""
    space = mech.layout
    phi_q = jacobian(partial(residuals, mech), space, q, t)
    units = Units(space.angular, unit_of_length(phi_q, space.extent(q), space.angular))
    matrix, _ = scaled_jacobian(phi_q, units)
    identity = jnp.eye(space.m, dtype=q.dtype)
    # Keeps the matrix regular at singular positions.
    least = jnp.finfo(q.dtype).eps * identity
    return 1 / jnp.sqrt(jnp.trace(factor_symmetric_positive(matrix.T @ matrix + least).solve(identity)))
