"""Forces of a mechanism in motion over a cycle, and smooth measures of them."""

from __future__ import annotations

from collections.abc import Sequence
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
from jaxmbs.synthesis.closing import scaled
from jaxmbs.system.equations import residuals, state_of
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# p of `peak` unless given: of 72 values the smooth maximum is then at most 1.11 times the true one.
SHARPNESS = 40.0


class CycleLoads(NamedTuple):
    """What a motion takes, and what it does to the frame. T rows in every array, leading axes as in the motion.

    Attributes:
        driving: the effort of every driver by name, a force or torque (T,); of several motions of one element (T,
            motions).
        shaking_force: (T, d), the sum of all forces on the ground.
        shaking_moment: their moment about a point of the ground, with all torques on it: (T,) in the plane, (T, 3) in
            space.
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
    """Driving efforts, joint reactions, shaking force and moment along a motion: inverse dynamics.

    F = −Σ f over joints and drivers between the ground and a body, f on the body, and over springs, dampers and torques
    between them; M = −Σ (r − r₀) × f + τ. By Newton's and Euler's laws F = −d/dt Σ m ṙ_c + Σ F_e and M = −dL/dt + Σ
    M_e. Here L is the moment of momentum of all bodies about r₀, and F_e, M_e are weights and forces without a body
    that bears their opposite, `PointForce` and `UserForce`. For pressure between a piston and its cylinder take an
    actuator, whose opposite does act on the ground. The opposite of a force on a body is taken to act at the same
    place. R. S. Berkof & G. G. Lowen, A new method for completely force balancing simple linkages, Journal of
    Engineering for Industry 91, 1969.

    Args:
        mech: the mechanism.
        motion: of the same mechanism, by `kinematics` or `simulate`.
        about: r₀ (d,), a point of the ground; its origin unless given.

    Returns:
        `CycleLoads`.

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
    found = reactions(mech, motion)
    force, moment = _of_forces(mech, motion, about)
    for name, element in {**mech.constraints, **mech.drivers}.items():
        if GROUND not in (element.i, element.j):
            continue
        reaction, sign = found[name], -1 if element.i == GROUND else 1
        arm = reaction.place - jnp.broadcast_to(about, reaction.place.shape)
        force = force + sign * reaction.force
        moment = moment + sign * (reaction.torque + _cross(arm, reaction.force))
    efforts = {name: reaction.effort for name, reaction in found.items()}
    driving = {name: effort for name, effort in efforts.items() if effort is not None}
    return CycleLoads(driving, force, moment, found)


def _of_forces(mech: Mechanism, motion: Trajectory, about) -> tuple[Array, Array]:
    """What springs, dampers and torques between the ground and bodies do to the ground."""
    grounded = [force for force in mech.forces.values() if GROUND in force.acts_on]

    def at_one_time(t, q, v):
        state = state_of(mech, q, v, t)
        total = sum((force.generalized(state) for force in grounded), jnp.zeros_like(v))
        force, moment = 0.0, 0.0
        for name, where in mech.layout.velocity_slices.items():
            pose = state.poses[name]
            pull, turn = pose.load(total[where], jnp.zeros_like(about))
            force, moment = force - pull, moment - turn - _cross(pose.r - about, pull)
        return force, moment

    function = at_one_time
    for _ in range(motion.t.ndim):
        function = jax.vmap(function)
    return function(motion.t, motion.q, motion.v)


def _cross(arm, force):
    """arm × force: a number in the plane, a vector in space."""
    if force.shape[-1] == 2:
        return arm[..., 0] * force[..., 1] - arm[..., 1] * force[..., 0]
    return jnp.cross(arm, force)


def rms(values: ArrayLike | Sequence[float], *, closed: bool = True) -> Float[Array, ""]:
    """The root mean square over a cycle, √(mean ‖f‖²), at equal steps of time. Its slope is zero where all values are.

    Args:
        values: numbers (T,) or vectors (T, d).
        closed: whether the last time is the first one of the next cycle, and so does not count.

    Examples:
        >>> print(mbs.synthesis.rms(jnp.array([3.0, -3.0, 3.0])))
        3.0
    """
    return _root(jnp.mean(_squares(values, closed)))


def ripple(effort: ArrayLike | Sequence[float], *, closed: bool = True) -> Float[Array, ""]:
    """The root mean square about the mean, √(mean (τ − τ̄)²). Its square is what a flywheel has to even out.

    Args:
        effort: (T,), at equal steps of time.
        closed: whether the last time is the first one of the next cycle, and so does not count.

    Examples:
        >>> print(mbs.synthesis.ripple(jnp.array([5.0, 1.0, 5.0])))
        2.0
    """
    values = _cycle(effort, closed)
    return rms(values - jnp.mean(values, axis=0), closed=False)


def peak(values: ArrayLike | Sequence[float], *, sharpness: float = SHARPNESS, closed: bool = True) -> Float[Array, ""]:
    """A smooth largest size over a cycle, (Σ ‖f‖ᵖ)^(1/p): between max ‖f‖ and T^(1/p) max ‖f‖, in any units.

    For the largest deviation take it of the values less their mean.

    Args:
        values: numbers (T,) or vectors (T, d), at equal steps of time.
        sharpness: p, at least 2; the larger, the nearer to the maximum and the less smooth.
        closed: whether the last time is the first one of the next cycle, and so does not count.

    Raises:
        ValueError: a sharpness below 2.

    Examples:
        >>> print(mbs.synthesis.peak(jnp.array([1.0, -3.0, 2.0, 1.0]), sharpness=20).round(3))
        3.0
    """
    if not sharpness >= 2:
        raise ValueError(f"sharpness must be at least 2, got {sharpness!r}")
    values = jnp.asarray(values)
    # Powers of numbers up to 1 do not overflow. The result does not depend on the units, so neither do its slopes.
    unit = _unit(jnp.abs(values))
    squares = _squares(values / unit, closed)
    largest = _unit(squares)
    total = jnp.sum((squares / largest) ** (sharpness / 2))
    # A sum that is not zero has a term of 1.
    some = total > 0
    return jnp.where(some, unit * jnp.sqrt(largest) * jnp.where(some, total, 1) ** (1 / sharpness), 0)


def _unit(sizes):
    """The largest size as a constant, 1 where all vanish."""
    largest = jax.lax.stop_gradient(jnp.max(sizes))
    return jnp.where(largest > 0, largest, 1)


def _cycle(values, closed: bool):
    values = jnp.asarray(values)
    if values.ndim == 0 or len(values) < 1 + closed:
        raise ValueError(f"values must be a row of values over a cycle, got shape {values.shape}")
    return values[:-1] if closed else values


def _squares(values, closed: bool) -> Float[Array, " T"]:
    """‖f‖² at each time."""
    values = _cycle(values, closed)
    return jnp.sum(values.reshape(len(values), -1) ** 2, axis=1)


def _root(square):
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def regularity(mech: Mechanism, motion: Trajectory) -> Float[Array, "*batch T"]:
    """How far positions are from singular ones: (Σ 1/σ²)^(−½) of the singular values σ of Φ_q, its columns in units of
    the mechanism and its rows by what moves them most.

    Between σ_min / √m and σ_min, and smooth where singular values cross. Redundant constraints do no harm.

    Args:
        mech: the mechanism.
        motion: of the same mechanism, by `kinematics` or `simulate`.

    Returns:
        (T,).

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(mbs.synthesis.regularity(mech, motion).round(4))
        [0.2164 0.2357]
    """
    function = partial(ProgramWithFallback(_regularity), mech)
    for _ in range(motion.t.ndim):
        function = jax.vmap(function)
    return function(motion.q, motion.t)


def _regularity(mech: Mechanism, q, t) -> Float[Array, ""]:
    space = mech.layout
    phi_q = jacobian(partial(residuals, mech), space, q, t)
    units = Units(space.angular, unit_of_length(phi_q, space.extent(q), space.angular))
    matrix, _ = scaled(phi_q, units)
    # At a singular position the smallest number that is not lost in rounding, in place of nothing.
    least = jnp.finfo(q.dtype).eps * jnp.eye(space.m, dtype=q.dtype)
    return 1 / jnp.sqrt(
        jnp.trace(factor_symmetric_positive(matrix.T @ matrix + least).solve(jnp.eye(space.m, dtype=q.dtype)))
    )
