"""Joint coordinates for users: θ(q) and q(θ), the velocity transformation R with q̇ = R θ̇, and its rate.

All take `base` and `cut`, which choose the spanning tree; see `topology.spanning_tree`. Everything is a straight-line
program where it is small enough, and works under `jit`, `vmap` and derivatives.

θ does not say in which of its two senses a planar `Translational` is assembled, how often the body on it has turned, and
which of two signs Euler parameters have. Where that matters `near`, a configuration q, tells; without it axes are parallel.
Components of joints that are prescribed in time are known, and none of θ: they are as they are at the time t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.formulations.joint import space as spaces
from jaxmbs.formulations.joint.space import JointSpace
from jaxmbs.formulations.natural.coordinates import natural_rates
from jaxmbs.programs.function import Straight
from jaxmbs.system.mechanism import Mechanism

COORDINATES = ("bodies", "natural")


def joint_space(mech: Mechanism, *, base=None, cut: str | Iterable[str] = ()) -> JointSpace:
    """The joint coordinates of a mechanism: `.coordinates` and `.velocities`, their names such as "A.phi"; `.tree`.

    θ holds, for each joint in the order of the tree, its slides (s; x, y; x, y, z) and then its angle phi, or alpha and
    beta of a universal joint, theta_x and theta_y of a homokinetic one, Euler parameters of a ball; θ̇ their rates, and for
    a ball the relative angular velocity in the frame that turns. A floating base has its own coordinates and velocities.
    Extra coordinates of gears and cams are last.
    """
    return spaces.joint_space(mech, base=base, cut=cut)


def joint_coordinates(mech: Mechanism, q, t=0.0, *, base=None, cut=()) -> Float[Array, " k"]:
    """θ(q) of a configuration. Angles in (−π, π]; in the plane, where they have coordinates, with all their turns."""
    space = joint_space(mech, base=base, cut=cut)
    return _program(_measured, space)(mech, mech.coordinates(q), _time(mech, t))


def joint_velocities(mech: Mechanism, q, v, t=0.0, *, base=None, cut=()) -> Float[Array, " l"]:
    """θ̇ of the velocities v of the bodies: the solution of R θ̇ = v, of least squares where v does not satisfy the joints of
    the tree; of R θ̇ = v − ν where these prescribe a motion, with ν the velocities by it alone."""
    space = spaces.joint_space(mech, base=base, cut=cut, any_angle=True)
    return _program(_rates, space)(mech, mech.coordinates(q), mech.velocities(v), _time(mech, t))


def configuration(mech: Mechanism, theta, t=0.0, *, near=None, base=None, cut=()) -> Float[Array, " n"]:
    """q(θ), a configuration as in `Mechanism.coordinates`. Joints that are cut need not be closed by it."""
    space = joint_space(mech, base=base, cut=cut)
    program = _program(_configuration, space)
    return program(mech, _checked(mech, space.n, theta), _near(mech, near), _time(mech, t))


def velocity_transformation(
    mech: Mechanism, theta, t=0.0, *, coordinates: str = "bodies", near=None, base=None, cut=()
) -> Float[Array, "m l"]:
    """R(θ) with v = R θ̇; Issa and Arczewski (3.4).

    The block R_ij of body i and joint j is that of their Table 1 where joint j is on the path from the ground to body i, as
    the secondary path matrix π* says, and zero elsewhere: (u × d, u) for a unit vector u of a revolute joint at the start
    of an arm d, (u, 0) for a prismatic one; composite joints have the columns of those that they are made of.

    Args:
        theta: θ, see `joint_space`.
        coordinates: "bodies" for rows like v, (ṙ, ω) of each body in the mechanism's order with ω in its own frame, so that
            Φ_q R = 0 for the constraints of the tree; "natural" for rows like the rates of `natural_coordinates`, basic
            points and unit vectors, as in the paper: Ψ_q R = 0.

    Raises:
        ValueError: θ of a wrong shape, or unknown coordinates.
    """
    space = joint_space(mech, base=base, cut=cut)
    program = _program(_transformation, space, _known(coordinates))
    return program(mech, _checked(mech, space.n, theta), _near(mech, near), _time(mech, t))


def velocity_transformation_rate(
    mech: Mechanism, theta, theta_dot, t=0.0, *, coordinates: str = "bodies", near=None, base=None, cut=()
) -> Float[Array, "m l"]:
    """Ṙ(θ, θ̇), so that v̇ = R θ̈ + Ṙ θ̇; Issa and Arczewski (3.6). Arguments as for `velocity_transformation`."""
    space = joint_space(mech, base=base, cut=cut)
    theta, theta_dot = _checked(mech, space.n, theta), _checked(mech, space.m, theta_dot, "theta_dot")
    program = _program(_transformation_rate, space, _known(coordinates))
    return program(mech, theta, theta_dot, _near(mech, near), _time(mech, t))


# --- the programs ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _program(f: Callable, *static) -> Straight:
    """The program of a function for a space; made once."""
    return Straight(partial(f, *static))


def _measured(space: JointSpace, mech, q, t):
    return spaces.measured(spaces.joint_tree(mech, space).at(t), q)


def _rates(space: JointSpace, mech, q, v, t):
    tree = spaces.joint_tree(mech, space).at(t)
    return spaces.rates_of(tree, spaces.measured(tree, q), v)


def _placed(space: JointSpace, mech, theta, near, t):
    """A tree, and its θ: with what `near` tells, where it is given."""
    if near is None:
        return spaces.joint_tree(mech, space).at(t), theta
    tree = spaces.joint_tree(mech, spaces.space_of(mech, space.tree, any_angle=True)).at(t)
    known, parts = spaces.measured(tree, near), []
    for own, all_of_them in zip(space.slices, tree.space.slices, strict=True):
        parts += [theta[own], known[all_of_them][own.stop - own.start :]]
    return tree, jnp.concatenate([*parts, theta[space.n - len(space.extra) :]])


def _configuration(space: JointSpace, mech, theta, near, t):
    return spaces.configuration(*_placed(space, mech, theta, near, t))


def _transformation(space: JointSpace, coordinates: str, mech, theta, near, t):
    tree, theta = _placed(space, mech, theta, near, t)
    of_bodies = spaces.transformation(tree, theta)
    if coordinates == "bodies":
        return of_bodies
    q = spaces.configuration(tree, theta)
    return jax.vmap(lambda v: natural_rates(mech, q, v), in_axes=1, out_axes=1)(of_bodies)


def _transformation_rate(space: JointSpace, coordinates: str, mech, theta, theta_dot, near, t):
    matrix = lambda theta, t: _transformation(space, coordinates, mech, theta, near, t)
    return jax.jvp(matrix, (theta, t), (space.rate(theta, theta_dot), jnp.ones_like(t)))[1]


def _time(mech: Mechanism, t):
    return jnp.asarray(t, mech.dtype)


def _near(mech: Mechanism, near):
    return None if near is None else mech.coordinates(near)


def _known(coordinates: str) -> str:
    if coordinates not in COORDINATES:
        raise ValueError(f"coordinates must be one of {', '.join(map(repr, COORDINATES))}, got {coordinates!r}")
    return coordinates


def _checked(mech: Mechanism, size: int, value, name: str = "theta") -> Array:
    value = jnp.asarray(value)
    if value.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {value.shape}; see `joint_space` for the names")
    return value.astype(jnp.result_type(mech.dtype, value))
