"""The velocity transformation R with v = R θ̇, and its rate; Issa and Arczewski 1998.

θ does not determine the sense in which a planar `Translational` is assembled, the number of turns of the body on it, and
the signs of Euler parameters. They are taken from `near`, a configuration q; without it axes are parallel. Components of
joints that are prescribed in time are not in θ: they have their values at the time t.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.formulations.joint import space as spaces
from jaxmbs.formulations.joint.space import JointSpace
from jaxmbs.formulations.natural.coordinates import NaturalCoordinates
from jaxmbs.formulations.natural.natural import Natural
from jaxmbs.formulations.natural.parts import JOINTS_ONLY, ChosenBasics
from jaxmbs.formulations.view import as_configuration, check_entries
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.topology import Names

# The basic points and vectors for each value of the argument `coordinates`; None for rows like v of the bodies.
BY_NAME = {"bodies": None, "natural": JOINTS_ONLY}


def velocity_transformation(
    mech: Mechanism,
    theta: ArrayLike,
    t: ArrayLike = 0.0,
    *,
    coordinates: str | Natural = "bodies",
    near: Coordinates | None = None,
    base: Names | None = None,
    cut: Names = (),
) -> Float[Array, "m l"]:
    """Return R(θ) with v = R θ̇; Issa and Arczewski (3.4).

    The block R_ij of body i and joint j is that of their Table 1 if joint j is on the path from the ground to body i, as
    in the secondary path matrix π*, else zero: (u × d, u) for a unit vector u of a revolute joint at the start of an arm
    d, (u, 0) for a prismatic one. Composite joints have the columns of the joints they consist of.

    Args:
        mech: the mechanism.
        theta: θ, in the order of `JointCoordinates(base=base, cut=cut).of(mech).names`.
        t: time, for joints that prescribe a motion.
        coordinates: "bodies" for rows like v, (ṙ, ω) of each body in the mechanism's order with ω in its own frame, so
            that Φ_q R = 0 for the constraints of the tree; "natural", or a formulation `Natural(…)` with points and
            vectors of your choice, for rows like the rates of natural coordinates, as in the paper: Ψ_q R = 0.
        near: a configuration q from which senses and signs that θ does not determine are taken.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Returns:
        (m, l), one column for each entry of θ̇; with natural coordinates one row for each of them.

    Raises:
        ValueError: θ of a wrong shape, an unknown name of coordinates, or a name in `base` or `cut` that cannot be
            used; see `topology.spanning_tree`.

    Examples:
        >>> print(mbs.velocity_transformation(pendulum, jnp.array([0.0])))  # ẋ, ẏ, φ̇
        [[1.]
         [0.]
         [1.]]
        >>> tip = mbs.Natural(points={"tip": ("bob", (0, -1))})  # 2 below the pin
        >>> print(mbs.velocity_transformation(pendulum, jnp.array([0.0]), coordinates=tip))
        [[2.]
         [0.]]
    """
    space = spaces.joint_space(mech, base=base, cut=cut)
    program = ProgramWithFallback.of(_transformation, space, _rows_of(coordinates))
    return program(mech, _as_array(mech, theta), as_configuration(mech, near), jnp.asarray(t, mech.dtype))


def velocity_transformation_rate(
    mech: Mechanism,
    theta: ArrayLike,
    theta_dot: ArrayLike,
    t: ArrayLike = 0.0,
    *,
    coordinates: str | Natural = "bodies",
    near: Coordinates | None = None,
    base: Names | None = None,
    cut: Names = (),
) -> Float[Array, "m l"]:
    """Return Ṙ(θ, θ̇), so that v̇ = R θ̈ + Ṙ θ̇; Issa and Arczewski (3.6).

    Args:
        mech: the mechanism.
        theta: θ, as for `velocity_transformation`.
        theta_dot: θ̇, in the order of `JointCoordinates(base=base, cut=cut).of(mech).velocity_names`.
        t: time, for joints that prescribe a motion.
        coordinates: rows, as for `velocity_transformation`.
        near: a configuration q from which senses and signs that θ does not determine are taken.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Returns:
        (m, l), rows as of R.

    Raises:
        ValueError: θ̇ of a wrong shape, or an error of `velocity_transformation`.

    Examples:
        >>> print(mbs.velocity_transformation_rate(pendulum, jnp.array([0.0]), jnp.array([3.0])))
        [[0.]
         [3.]
         [0.]]
    """
    space = spaces.joint_space(mech, base=base, cut=cut)
    program = ProgramWithFallback.of(_transformation_rate, space, _rows_of(coordinates))
    theta, theta_dot = _as_array(mech, theta), _as_array(mech, theta_dot)
    return program(mech, theta, theta_dot, as_configuration(mech, near), jnp.asarray(t, mech.dtype))


def _transformation(space: JointSpace, chosen: ChosenBasics | None, mech, theta, near, t):
    """Return R, or with `chosen` the rates of natural coordinates by θ̇, as array code."""
    check_entries("theta", theta, space.coordinates)
    tree, theta = spaces.tree_near(mech, space, theta, near, t)
    tree = tree.at(t)
    matrix = spaces.transformation(tree, theta)
    if chosen is None:
        return matrix
    natural, q = NaturalCoordinates(mech, chosen), spaces.configuration(tree, theta)
    return jax.vmap(lambda v: natural.rates_of_bodies(q, v), in_axes=1, out_axes=1)(matrix)


def _transformation_rate(space: JointSpace, chosen: ChosenBasics | None, mech, theta, theta_dot, near, t):
    """Return Ṙ, the time derivative of `_transformation`, as array code."""
    check_entries("theta", theta, space.coordinates)
    check_entries("theta_dot", theta_dot, space.velocities)
    matrix = lambda theta, t: _transformation(space, chosen, mech, theta, near, t)
    return jax.jvp(matrix, (theta, t), (space.rate(theta, theta_dot), jnp.ones_like(t)))[1]


def _as_array(mech: Mechanism, value) -> Array:
    """Return an array of the mechanism's floating-point type, or of a wider one that it has."""
    value = jnp.asarray(value)
    return value.astype(jnp.result_type(mech.dtype, value))


def _rows_of(coordinates: str | Natural) -> ChosenBasics | None:
    """Return the natural coordinates that the rows belong to; None for the velocities of the bodies."""
    if isinstance(coordinates, Natural):
        return coordinates.chosen
    if coordinates not in BY_NAME:
        raise ValueError(
            f"coordinates must be one of {', '.join(map(repr, BY_NAME))}, or a Natural(…), got {coordinates!r}"
        )
    return BY_NAME[coordinates]
