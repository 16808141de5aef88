"""The unknowns of assembly and kinematics: coordinates of the bodies, or those of another formulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.augmented import AbstractFormulation, Augmented
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.numerics.arrays import finite, instance_of
from jaxmbs.numerics.scaling import Units
from jaxmbs.programs import ProgramWithFallback, convert_closure
from jaxmbs.system.idle import idle_spins, spin_rows
from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import spanning_tree

# Joint coordinates are chosen for mechanisms with at least this many velocities of the bodies, eight bodies in space. In
# smaller ones the search in coordinates of the bodies is as quick.
MIN_BODY_VELOCITIES = 48
# Joint coordinates are chosen up to this number of joint velocities, divided by the number of velocities of the bodies.
MAX_JOINT_VELOCITIES_PER_BODY_VELOCITY = 0.5


def check_formulation(formulation: AbstractFormulation | None) -> None:
    """Raise `ValueError` unless `assemble` and `kinematics` can use the coordinates of a formulation; None passes."""
    given = instance_of(AbstractFormulation, "formulation", formulation, JointCoordinates())
    if not given.takes_kinematics:
        name = type(given).__name__
        raise ValueError(
            f"formulation: assembly and kinematics cannot use the coordinates of mbs.{name}(); give mbs.Augmented(), "
            "mbs.JointCoordinates(), mbs.Kane() or None"
        )


def choose_formulation(mech: Mechanism, formulation: AbstractFormulation | None) -> AbstractFormulation:
    """Return the given formulation, or choose one if it is None: joint coordinates for large mechanisms with few of them.

    If a formulation leaves no unknowns, for example because all bodies are fixed, `Augmented()` is returned.
    """
    if formulation is None:
        large = mech.layout.m >= MIN_BODY_VELOCITIES
        fewer = large and count_joint_velocities(mech) <= MAX_JOINT_VELOCITIES_PER_BODY_VELOCITY * mech.layout.m
        formulation = JointCoordinates() if fewer else Augmented()
    if isinstance(formulation, Augmented) or not structure(mech, formulation).space.m:
        return Augmented()
    return formulation


def structure(mech: Mechanism, formulation: AbstractFormulation) -> AbstractEquations:
    """Return the equations of a formulation with shapes in place of arrays, for `space` and `own_coordinates`."""
    return eqx.filter_eval_shape(lambda mech: formulation.equations(mech), mech)


def count_joint_velocities(mech: Mechanism) -> int:
    """Return the number of joint velocities of the spanning tree; joints that are driven count like free ones."""
    tree, layout = spanning_tree(mech), mech.layout
    of_bodies = sum(part.stop - part.start for part in layout.velocity_slices.values())
    free = of_bodies // len(layout.bodies)
    joints = [free if name is None else mech.constraints[name].freedom or 0 for name in tree.joints]
    return sum(joints) + layout.m - of_bodies


class ConstraintFunctions(NamedTuple):
    """The constraints of a mechanism as functions of (x, t), where x are the coordinates of a formulation.

    Attributes:
        phi: Φ(x, t), (rows,): constraints, drivers and additional rows; differentiable with respect to x, t and the
            numbers of the mechanism; divided by `units` if these are given.
        example: unknowns and time (x, t), for the shapes of the arguments of Φ.
        mech: the mechanism with 1 in place of numbers that are not finite, so that they spoil neither values nor
            derivatives. Φ uses it.
        formulation: chooses the coordinates.
        is_finite: True if all numbers of the mechanism are finite.
        units: (rows,), the unit of each row, by which Φ is divided; None in coordinates of the bodies, where Φ is not
            divided and gaps are scaled by Φ_q.
    """

    phi: Callable[[Array, Array], Array]
    example: tuple[Array, Array]
    mech: Mechanism
    formulation: AbstractFormulation
    is_finite: Bool[Array, ""]
    units: Float[Array, " rows"] | None

    @property
    def constant_phi(self) -> Callable[[Array, Array], Array]:
        """Φ with the numbers of the mechanism as constants. Each use of this attribute traces Φ."""
        return with_constants(self.phi, *self.example)

    @property
    def structure(self) -> AbstractEquations:
        """The equations with shapes in place of arrays; see `structure`."""
        return structure(self.mech, self.formulation)


def constraint_functions(
    mech: Mechanism,
    q: Array,
    t: Array,
    held: tuple[int, ...] = (),
    formulation: AbstractFormulation | None = None,
    reuse: tuple[Array, Array | None] | None = None,
) -> ConstraintFunctions:
    """Return the constraints as functions in the coordinates of a formulation, `Augmented()` unless given.

    Args:
        mech: the mechanism.
        q: configuration of the bodies (n,), from which units are measured and held coordinates are taken.
        t: time.
        held: indices in q; each gives a row of Φ that keeps this coordinate as in q.
        formulation: chooses the coordinates.
        reuse: (x, units) from an earlier call inside a program, so that they are not computed again: x gives the number
            of unknowns only, `units` are those of the rows.
    """
    indices, guess = np.array(held, int), q

    def rows_of(mech: Mechanism, equations: AbstractEquations, x: Array, t: Array) -> Array:
        """Return Φ(x, t), followed by the difference of each held coordinate from its value in q."""
        rows = equations.residual(x, t)
        if not held:
            return rows
        at = equations.configuration(x, t)
        if equations.own_coordinates:
            at = at * euler_parameter_signs(mech.layout, at, guess)
        return jnp.append(rows, at[indices] - guess[indices])

    return scaled_functions(rows_of, mech, formulation, q, t, reuse)


def scaled_functions(
    rows_of: Callable[[Mechanism, AbstractEquations, Array, Array], Array],
    mech: Mechanism,
    formulation: AbstractFormulation | None,
    q: Array,
    t: Array,
    reuse: tuple[Array, Array | None] | None,
) -> ConstraintFunctions:
    """Return `ConstraintFunctions` for given rows: those of the equations, then additional ones, whose unit is the size.

    `rows_of` is the function (mechanism, equations, x, t) ↦ (rows,); the other arguments are those of
    `constraint_functions`.
    """
    mech, is_finite = finite(mech)
    formulation = formulation or Augmented()
    if reuse is None:
        equations = formulation.equations(mech)
        plain = lambda x, t: rows_of(mech, equations, x, t)
        x, units = equations.coordinates(q, t), None
    else:
        # This call is outside of a program. The equations are made inside the function, to be part of the programs that
        # are made of it.
        plain = lambda x, t: rows_of(mech, formulation.equations(mech), x, t)
        x, units = reuse
    if isinstance(formulation, Augmented):
        return ConstraintFunctions(plain, (x, t), mech, formulation, is_finite, None)
    if units is None:
        units = _gap_units(equations, q, x, t, jax.eval_shape(plain, x, t).shape[0])
    units = jax.lax.stop_gradient(units)
    scaled = lambda x, t: plain(x, t) / units
    return ConstraintFunctions(scaled, (x, t), mech, formulation, is_finite, units)


def _gap_units(equations: AbstractEquations, q: Array, x: Array, t: Array, count: int) -> Float[Array, " rows"]:
    """Return the unit of each of `count` rows: of the equations at coordinates x, and the size of the mechanism at q."""
    length = equations.mech.size(q)
    matrix, _, angular = equations.scaling_rows(x, t)
    own = Units(angular, length).gap_units(matrix)
    return jnp.append(own, jnp.full(count - own.shape[0], length))


def constraints_without_spin(
    mech: Mechanism,
    q: Array,
    t: Array,
    formulation: AbstractFormulation | None = None,
    reuse: tuple[Array, Array | None] | None = None,
) -> ConstraintFunctions:
    """Return `constraint_functions` with one additional row for each idle spin, uᵀω = 0, which sets its rate to zero.

    u points along the rod, in its frame as ω. The rows are those of `spin_rows`: their values are zero in every
    configuration, and their time derivatives are uᵀω and uᵀω̇.
    """
    if not idle_spins(mech):
        return constraint_functions(mech, q, t, (), formulation, reuse)

    def rows_of(mech: Mechanism, equations: AbstractEquations, x: Array, t: Array) -> Array:
        """Return Φ(x, t), then the row of each idle spin."""
        at = equations.configuration(x, t)
        return jnp.concatenate([equations.residual(x, t), spin_rows(mech, at)])

    return scaled_functions(rows_of, mech, formulation, q, t, reuse)


def with_constants(f: Callable[..., Array], *args: Array) -> Callable[..., Array]:
    """Return a function of arrays such as `args` with everything that it closes over as constants of differentiation.

    Functions inside motions and outlines may close over traced numbers as well: `closure_convert` finds those too.
    """
    converted, numbers = jax.closure_convert(f, *args)
    numbers = jax.lax.stop_gradient(numbers)
    return lambda *args: converted(*args, *numbers)


def configuration_of_bodies(given: ConstraintFunctions, x: Array, t: Array, near: Array) -> Float[Array, " n"]:
    """Return the configuration of the bodies for unknowns x, computed by a program; differentiable by all it depends on.

    Of the two sets ±p of Euler parameters of a body, it has the one nearer to that in `near`, a configuration.
    """
    configuration = lambda x, t: given.formulation.equations(given.mech).configuration(x, t)
    function, constants = convert_closure(configuration, x, t)
    q = ProgramWithFallback(function)(x, t, *constants)
    return q * euler_parameter_signs(given.mech.layout, q, near)


def motion_of_bodies(
    given: ConstraintFunctions, x: Array, u: Array, a: Array, t: Array, near: Array
) -> tuple[Float[Array, "T n"], Float[Array, "T m"], Float[Array, "T m"]]:
    """Return q, v and v̇ of the bodies at times t (T,), for unknowns x, velocities u and accelerations a, with T rows.

    Signs of Euler parameters are chosen at the first time as by `configuration_of_bodies`, and kept.
    """
    of_bodies = lambda x, u, a, t: given.formulation.equations(given.mech).to_bodies(x, u, a, t)
    function, constants = convert_closure(of_bodies, x[0], u[0], a[0], t[0])
    to_bodies = ProgramWithFallback(function)
    q, v, a = jax.vmap(lambda x, u, a, t: to_bodies(x, u, a, t, *constants))(x, u, a, t)
    return q * euler_parameter_signs(given.mech.layout, q[0], near)[None, :], v, a


def euler_parameter_signs(layout: Layout, q: Array, near: Array) -> Float[Array, " n"]:
    """Return 1 or −1 for each entry of q, by which Euler parameters get the signs of those of `near`."""
    signs = jnp.ones(layout.n, q.dtype)
    for name, kind in layout.bodies:
        if len(kind.coordinates) > len(kind.velocities):
            end = layout.body_slices[name].stop
            turn = slice(end - 4, end)
            signs = signs.at[turn].set(jnp.where(q[turn] @ near[turn] < 0, -1, 1))
    return jax.lax.stop_gradient(signs)
