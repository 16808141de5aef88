"""Sizes of forces that depend on accelerations and reactions: found together with these, in any formulation.

Accelerations and reactions are affine in the sizes x of such forces: what the forces see of them is s = s₀ + S x. Newton's
method finds the x with x = f(s₀ + S x), a system as small as there are such forces.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.element import GROUND
from jaxmbs.forces.joint.reactive import AbstractReactiveForce, Load
from jaxmbs.numerics.roots import root_near
from jaxmbs.system.equations import residual_of, state_of
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import blocks

# Newton's steps at most, where three or four are enough unless a joint is all but free of pressure; and the last one, as a
# part of the largest size, after which there is nothing but rounding.
MAX_NEWTON_STEPS, LAST_STEP = 20, 1e-9


def reactive_forces(mech: Mechanism) -> dict[str, AbstractReactiveForce]:
    """The forces whose sizes are still to be found."""
    forces = mech.forces.items()
    return {n: f for n, f in forces if isinstance(f, AbstractReactiveForce) and f.reactive and f.size is None}


def may_be_redundant(mech: Mechanism) -> bool:
    """Whether reactions may not be unique, by Grübler's count of each part that hangs together by more than one body, as
    loops do; what is redundant only for special lengths is not seen."""
    elements = {**mech.constraints, **mech.drivers}
    own = len(mech.layout.bodies[0][1].velocities)
    for names in blocks({name: (element.i, element.j) for name, element in elements.items()}):
        part = [elements[name] for name in names]
        bodies = {body for element in part for body in (element.i, element.j)}
        free = own * (len(bodies) - 1) + sum(len(element.extra) for element in part)
        if len(part) > 1 and sum(element.rows for element in part) >= free:
            return True
    return False


def loads_of(mech: Mechanism, joints, q, v, t, multipliers, elements=None) -> dict[str, Load]:
    """What joints do to their bodies j, from the multipliers of the mechanism, or of some elements of it."""
    elements = {**mech.constraints, **mech.drivers} if elements is None else elements
    ends = np.cumsum([element.rows for element in elements.values()])
    rows = {name: multipliers[end - elements[name].rows : end] for name, end in zip(elements, ends, strict=True)}
    state, found = state_of(mech, q, v, t), {}
    for name in joints:
        element = elements[name]
        moved = lambda d, n=name, e=element: residual_of(mech, n, e, mech.layout.retract(q, d), t)
        pull = jax.vjp(moved, jnp.zeros_like(v))[1](rows[name])[0]
        body = element.i if element.j == GROUND else element.j
        pose = state.poses[body]
        force, torque = pose.load(pull[state.slices[body]], 0 * pose.r)
        wrench = jnp.concatenate([force, jnp.reshape(torque, -1)])
        found[name] = load_of_wrench(element, state.poses, body, pose.r, wrench)
    return found


def load_of_wrench(element, poses, body: str, point, wrench) -> Load:
    """The load on body j of a joint, from the wrench (F, T about a point) that it does to one of its bodies."""
    pose, d = poses[element.j], point.shape[0]
    force, torque = wrench[:d], wrench[d:]
    place = pose.point(getattr(element, "point_j", 0 * point))
    torque = torque + jnp.reshape(pose.moment(point - place, force), -1)
    sign = 1 if body == element.j else -1
    return Load(sign * force, sign * torque)


def with_sizes(equations, names: list[str], sizes: Float[Array, " k"]):
    """Equations in which the forces of these names have these sizes."""
    where = lambda equations: [equations.mech.forces[name].size for name in names]
    return eqx.tree_at(where, equations, list(sizes), is_leaf=lambda x: x is None)


def with_reactive_forces(equations, q, v, t, correction: Any = 0.0, floor=None) -> tuple[Any, Bool[Array, ""] | None]:
    """See `AbstractEquations.with_reactive_forces`."""
    forces = reactive_forces(equations.mech)
    if not forces:
        return equations, None
    names = list(forces)
    at, moving, _ = equations.to_bodies(q, v, jnp.zeros_like(v), t)
    state = state_of(equations.mech, at, moving, t)

    def seen(sizes):
        """What each of the forces sees, for these sizes."""
        given = with_sizes(equations, names, sizes)
        a, multipliers, _ = given.solver.accelerations(q, v, t, correction, floor)
        of_bodies = given.to_bodies(q, v, a, t)[2]
        joints = list(dict.fromkeys(force.joint for force in forces.values() if force.of_reaction))
        loads = given.loads(joints, q, v, t, a, multipliers) if joints else {}
        found = {name: force.size_inputs(state, of_bodies, loads.get(force.joint)) for name, force in forces.items()}
        return found, found

    none = jnp.zeros(len(names), v.dtype)
    by_size, at_zero = jax.jacfwd(seen, has_aux=True)(none)
    affine = lambda sizes: {name: at_zero[name] + by_size[name] @ sizes for name in names}

    def gap(sizes):
        at = affine(sizes)
        return sizes - jnp.stack([force.size_from(state, at[name]) for name, force in forces.items()])

    def factors(sizes):
        """Of the derivative of the gap."""
        at = affine(sizes)
        slopes = [jax.grad(partial(f.size_from, state))(at[name]) @ by_size[name] for name, f in forces.items()]
        return _factors(jax.lax.stop_gradient(jnp.eye(len(names), dtype=v.dtype) - jnp.stack(slopes)))

    def goes_on(carry):
        sizes, step, count = carry
        return (count < MAX_NEWTON_STEPS) & ~_vanishes(step, sizes)

    def newton(carry):
        sizes, _, count = carry
        step = _solved(factors(sizes), gap(sizes))
        return sizes - step, step, count + 1

    def twice(carry):
        """A step of Newton's, and one more with its matrix."""
        sizes, _, count = carry
        solve = partial(_solved, factors(sizes))
        sizes = sizes - solve(gap(sizes))
        step = solve(gap(sizes))
        return sizes - step, step, count + 1

    # From no size at all: of several solutions the one that grows out of it, as friction does out of none. Nearly always
    # that is all there is to do, without a loop.
    begun = twice(newton((none, none, 0)))
    found, step, _ = jax.lax.stop_gradient(jax.lax.while_loop(goes_on, newton, begun))
    found = root_near(gap, partial(_solved, factors(found)), found, 1)
    return with_sizes(equations, names, found), jax.lax.stop_gradient(_vanishes(step, found))


def _vanishes(step, x) -> Bool[Array, ""]:
    small = LAST_STEP if x.dtype == jnp.float64 else LAST_STEP**0.5
    return jnp.max(jnp.abs(step)) <= small * jnp.max(jnp.abs(x))


def _factors(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """L and U in one matrix, with the reciprocals of U's diagonal: a division takes as long as ten products. Without
    pivoting, as the matrix is near the identity but where there is no solution."""
    k = matrix.shape[0]
    for n in range(k):
        inverse = 1 / matrix[n, n]
        column = matrix[n + 1 :, n] * inverse
        rest = matrix[n + 1 :, n + 1 :] - column[:, None] * matrix[n, n + 1 :][None, :]
        below = jnp.concatenate([column[:, None], rest], axis=1)
        matrix = matrix.at[n, n].set(inverse).at[n + 1 :, n:].set(below)
    return matrix


def _solved(factors: Float[Array, "k k"], y: Float[Array, " k"]) -> Float[Array, " k"]:
    k, x = y.shape[0], list(y)
    for n in range(k):
        x[n] = x[n] - sum((factors[n, m] * x[m] for m in range(n)), 0.0)
    for n in reversed(range(k)):
        x[n] = (x[n] - sum((factors[n, m] * x[m] for m in range(n + 1, k)), 0.0)) * factors[n, n]
    return jnp.stack(x)
