"""Sizes of forces that depend on accelerations and reactions, computed together with these in any formulation.

Accelerations and reactions are affine in the sizes x of such forces, and so are the inputs s = s₀ + S x on which the sizes
depend. Newton's method finds the x with x = f(s₀ + S x), a system with one equation for each such force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.element import GROUND, AbstractConstraint
from jaxmbs.forces.joint.reactive import AbstractReactiveForce, JointLoad
from jaxmbs.numerics.roots import root_near
from jaxmbs.system.equations import residual_of, state_of
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import blocks

# Largest number of Newton steps for the sizes of reactive forces. Three or four are enough unless there is hardly any
# pressure in a joint.
MAX_NEWTON_STEPS = 20
# Newton's method for these sizes ends after a step smaller than this, relative to the largest size, in float64, or than
# its square root in float32: the next step would be rounding.
MAX_LAST_STEP = 1e-9


def reactive_forces(mech: Mechanism) -> dict[str, AbstractReactiveForce]:
    """Return, by name, forces that depend on accelerations or reactions and whose `size` is None: still unknown."""
    forces = mech.forces.items()
    return {n: f for n, f in forces if isinstance(f, AbstractReactiveForce) and f.reactive and f.size is None}


def may_be_redundant(mech: Mechanism, *, drivers: bool = True) -> bool:
    """Return True if reactions may not be unique, by Grübler's count of each part that is connected by more than one body.

    Constraints that are redundant only for special lengths are not found. Without the drivers, a part for which the count
    leaves no motion is taken for one that moves because constraints are redundant.
    """
    elements = {**mech.constraints, **(mech.drivers if drivers else {})}
    own = len(mech.layout.bodies[0][1].velocities)
    for names in blocks({name: (element.i, element.j) for name, element in elements.items()}):
        part = [elements[name] for name in names]
        bodies = {body for element in part for body in (element.i, element.j)}
        free = own * (len(bodies) - 1) + sum(len(element.extra) for element in part)
        if len(part) > 1 and sum(element.rows for element in part) >= free:
            return True
    return False


def loads_of(
    mech: Mechanism, joints: Iterable[str], q, v, t, multipliers, elements: dict[str, AbstractConstraint] | None = None
) -> dict[str, JointLoad]:
    """Return the `JointLoad` of each named joint on its body j, from λ (rows,) of all elements, or of `elements`."""
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


def load_of_wrench(element: AbstractConstraint, poses: Mapping[str, Any], body: str, point, wrench) -> JointLoad:
    """Return the `JointLoad` of a joint on its body j, from its wrench (F, T about `point`) on `body`, i or j."""
    pose, d = poses[element.j], point.shape[0]
    force, torque = wrench[:d], wrench[d:]
    place = pose.point(getattr(element, "point_j", 0 * point))
    torque = torque + jnp.reshape(pose.moment(point - place, force), -1)
    sign = 1 if body == element.j else -1
    return JointLoad(sign * force, sign * torque)


def with_force_fields(target: Any, field: str, values: Mapping[str, Array]) -> Any:
    """Return a mechanism, or equations, in which `field` of some forces has these values, given by force name."""
    if not values:
        return target
    mech_of = lambda target: target if isinstance(target, Mechanism) else target.mech
    fields = lambda target: [getattr(mech_of(target).forces[name], field) for name in values]
    return eqx.tree_at(fields, target, list(values.values()), is_leaf=lambda x: x is None)


def with_reactive_forces(equations, q, v, t, correction: Any = 0.0, floor=None) -> tuple[Any, Bool[Array, ""] | None]:
    """Return equations with the sizes of reactive forces at (q, v, t), and True if these have a common solution.

    Without such forces it is None instead of a bool. `correction` and `floor`: see `AbstractSolver.accelerations`.
    Forces −J ẍ whose inertia is in the mass matrix get the size zero.
    """
    forces = reactive_forces(equations.mech)
    in_mass = [name for name in equations.inertial_efforts if name in forces]
    equations = with_force_fields(equations, "size", dict.fromkeys(in_mass, jnp.zeros((), v.dtype)))
    forces = {name: force for name, force in forces.items() if name not in in_mass}
    if not forces:
        return equations, None
    q_bodies, v_bodies, _ = equations.to_bodies(q, v, jnp.zeros_like(v), t)
    state = state_of(equations.mech, q_bodies, v_bodies, t)
    with_sizes = lambda sizes: with_force_fields(equations, "size", dict(zip(forces, sizes, strict=True)))

    def size_inputs(sizes):
        """Return the inputs of each force's size, by name, for given sizes; twice, as result and as auxiliary value."""
        given = with_sizes(sizes)
        a, multipliers, _ = given.solver.accelerations(q, v, t, correction, floor)
        of_bodies = given.to_bodies(q, v, a, t)[2]
        joints = list(dict.fromkeys(force.joint for force in forces.values() if force.of_reaction))
        loads = given.loads(joints, q, v, t, a, multipliers) if joints else {}
        found = {name: force.size_inputs(state, of_bodies, loads.get(force.joint)) for name, force in forces.items()}
        return found, found

    none = jnp.zeros(len(forces), v.dtype)
    by_size, at_zero = jax.jacfwd(size_inputs, has_aux=True)(none)
    affine = lambda sizes: {name: at_zero[name] + by_size[name] @ sizes for name in forces}

    def gap(sizes):
        """Return sizes − f(s₀ + S sizes), (k,), zero in the solution."""
        inputs = affine(sizes)
        return sizes - jnp.stack([force.size_from(state, inputs[name]) for name, force in forces.items()])

    def factors(sizes):
        """Return the LU factors of the derivative of the gap at these sizes."""
        inputs = affine(sizes)
        slopes = [jax.grad(partial(f.size_from, state))(inputs[name]) @ by_size[name] for name, f in forces.items()]
        return _lu_factors(jax.lax.stop_gradient(jnp.eye(len(forces), dtype=v.dtype) - jnp.stack(slopes)))

    def is_unfinished(carry):
        """Return True while Newton's method has steps left and its last step was not small."""
        sizes, step, count = carry
        return (count < MAX_NEWTON_STEPS) & ~_is_last_step(step, sizes)

    def newton(carry):
        """Return (sizes of the forces, step, count of steps) after one Newton step."""
        sizes, _, count = carry
        step = _lu_solve(factors(sizes), gap(sizes))
        return sizes - step, step, count + 1

    def newton_twice(carry):
        """Return the same after two Newton steps with one matrix, counted as one step."""
        sizes, _, count = carry
        solve = partial(_lu_solve, factors(sizes))
        sizes = sizes - solve(gap(sizes))
        step = solve(gap(sizes))
        return sizes - step, step, count + 1

    # One Newton step solves a linear system. Otherwise the search starts from zero sizes, so that of several solutions it
    # finds the one that grows from zero, as friction does. Three steps are nearly always enough, and the loop ends at once.
    if all(force.affine for force in forces.values()):
        found, *_ = jax.lax.stop_gradient(newton((none, none, 0)))
        return with_sizes(root_near(gap, partial(_lu_solve, factors(none)), found, 1)), jnp.asarray(True)
    begun = newton_twice(newton((none, none, 0)))
    found, step, _ = jax.lax.stop_gradient(jax.lax.while_loop(is_unfinished, newton, begun))
    found = root_near(gap, partial(_lu_solve, factors(found)), found, 1)
    return with_sizes(found), jax.lax.stop_gradient(_is_last_step(step, found))


def _is_last_step(step, x) -> Bool[Array, ""]:
    """Return True if a step is so small, relative to x, that the next one would be rounding."""
    small = MAX_LAST_STEP if x.dtype == jnp.float64 else MAX_LAST_STEP**0.5
    return jnp.max(jnp.abs(step)) <= small * jnp.max(jnp.abs(x))


def _lu_factors(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return L and U in one matrix, with the reciprocals of U's diagonal: a division takes as long as ten products.

    There is no pivoting: the matrix is near the identity if there is a solution.
    """
    k = matrix.shape[0]
    for n in range(k):
        inverse = 1 / matrix[n, n]
        column = matrix[n + 1 :, n] * inverse
        rest = matrix[n + 1 :, n + 1 :] - column[:, None] * matrix[n, n + 1 :][None, :]
        below = jnp.concatenate([column[:, None], rest], axis=1)
        matrix = matrix.at[n, n].set(inverse).at[n + 1 :, n:].set(below)
    return matrix


def _lu_solve(factors: Float[Array, "k k"], y: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return x with L U x = y, for the result of `_lu_factors`."""
    k, x = y.shape[0], list(y)
    for n in range(k):
        x[n] = x[n] - sum((factors[n, m] * x[m] for m in range(n)), 0.0)
    for n in reversed(range(k)):
        x[n] = (x[n] - sum((factors[n, m] * x[m] for m in range(n + 1, k)), 0.0)) * factors[n, n]
    return jnp.stack(x)
