"""Joint coordinates for users: θ(q) and q(θ), the velocity transformation R with q̇ = R θ̇, and its rate.

`JointView` has them as methods. The functions take `base` and `cut`, which choose the spanning tree; see
`topology.spanning_tree`. Everything is a straight-line program where it is small enough, and works under `jit`, `vmap` and
derivatives.

θ does not say in which of its two senses a planar `Translational` is assembled, how often the body on it has turned, and
which of two signs Euler parameters have. Where that matters `near`, a configuration q, tells; without it axes are parallel.
Components of joints that are prescribed in time are known, and none of θ: they are as they are at the time t.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.formulations.joint import space as spaces
from jaxmbs.formulations.joint.space import JointSpace
from jaxmbs.formulations.natural.view import natural_rates
from jaxmbs.programs.function import Straight
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities
from jaxmbs.system.topology import Names

COORDINATES = ("bodies", "natural")


class JointView(eqx.Module):
    """A mechanism in the joint coordinates θ of a spanning tree: `mbs.JointCoordinates(base=…, cut=…).of(mech)`.

    θ holds, for each joint in the order of the tree, its slides (s; x, y; x, y, z) and then its rotation: the angle
    phi, alpha and beta of a universal joint, theta_x and theta_y of a homokinetic one, Euler parameters of a ball. θ̇
    are their rates, and for a ball the relative angular velocity in the frame that turns. A floating base has its own
    coordinates and velocities. Extra coordinates of gears and cams are last.

    Attributes:
        mech: the mechanism.
        space: its joint coordinates, with the spanning tree `space.tree`.

    Examples:
        >>> view = mbs.JointCoordinates().of(mech)
        >>> view.names, view.coordinates(mech.coordinates(guess)).tolist()
        (('O.phi', 'A.phi', 'guide.s'), [0.0, 0.0, 3.0])
        >>> print(view.transformation(jnp.array([0.0, 0.0, 3.0]))[4])  # ẏ of the rod at pin A
        [1. 0. 0.]
    """

    mech: Mechanism
    space: JointSpace = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of θ, such as "A.phi"."""
        return self.space.coordinates

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """The names of θ̇. Only balls and floating bases in space have other ones than θ."""
        return self.space.velocities

    def coordinates(self, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, " k"]:
        """θ of a configuration `q` at the time `t`. Angles are in (−π, π]; where they are coordinates in the plane, all
        turns count.
        """
        mech = self.mech
        return Straight.of(_measured, self.space)(mech, mech.coordinates(q), _time(mech, t))

    def velocities(self, q: Coordinates, v: Velocities, t: ArrayLike = 0.0) -> Float[Array, " l"]:
        """θ̇ of the velocities `v` of the bodies in a configuration `q` at the time `t`: the solution of R θ̇ = v.

        It is of least squares where v does not satisfy the joints of the tree. Where these prescribe a motion it solves
        R θ̇ = v − ν, with ν the velocities by that motion alone.
        """
        mech = self.mech
        space = spaces.space_of(mech, self.space.tree, any_angle=True)
        return Straight.of(_rates, space)(mech, mech.coordinates(q), mech.velocities(v), _time(mech, t))

    def configuration(
        self, theta: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, " n"]:
        """q of `theta` at the time `t`, as in `Mechanism.coordinates`. It need not close the joints that are cut.
        `near` is a configuration that tells senses and signs which θ does not.
        """
        mech, theta = self.mech, self._checked(theta, self.space.n)
        return Straight.of(_configuration, self.space)(mech, theta, _near(mech, near), _time(mech, t))

    def transformation(
        self, theta: ArrayLike, t: ArrayLike = 0.0, *, coordinates: str = "bodies", near: Coordinates | None = None
    ) -> Float[Array, "m l"]:
        """R(θ) with v = R θ̇; Issa and Arczewski (3.4).

        The block R_ij of body i and joint j is that of their Table 1 where joint j is on the path from the ground to body
        i, as the secondary path matrix π* says, and zero elsewhere: (u × d, u) for a unit vector u of a revolute joint at
        the start of an arm d, (u, 0) for a prismatic one; composite joints have the columns of those that they are made of.

        Args:
            theta: θ, in the order of `names`.
            t: the time, for joints that prescribe a motion.
            coordinates: "bodies" for rows like v, (ṙ, ω) of each body in the mechanism's order with ω in its own frame, so
                that Φ_q R = 0 for the constraints of the tree; "natural" for rows like the rates of natural coordinates,
                basic points and unit vectors, as in the paper: Ψ_q R = 0.
            near: a configuration q that tells senses and signs which θ does not.

        Raises:
            ValueError: θ of a wrong shape, or unknown coordinates.
        """
        program = Straight.of(_transformation, self.space, _known(coordinates))
        mech, theta = self.mech, self._checked(theta, self.space.n)
        return program(mech, theta, _near(mech, near), _time(mech, t))

    def transformation_rate(
        self,
        theta: ArrayLike,
        theta_dot: ArrayLike,
        t: ArrayLike = 0.0,
        *,
        coordinates: str = "bodies",
        near: Coordinates | None = None,
    ) -> Float[Array, "m l"]:
        """Ṙ(θ, θ̇), so that v̇ = R θ̈ + Ṙ θ̇; Issa and Arczewski (3.6).

        Args:
            theta, theta_dot: θ and θ̇, in the order of `names` and `velocity_names`.
            t, coordinates, near: as for `transformation`.
        """
        program = Straight.of(_transformation_rate, self.space, _known(coordinates))
        mech, theta = self.mech, self._checked(theta, self.space.n)
        theta_dot = self._checked(theta_dot, self.space.m, "theta_dot")
        return program(mech, theta, theta_dot, _near(mech, near), _time(mech, t))

    def _checked(self, value, size: int, name: str = "theta") -> Array:
        value = jnp.asarray(value)
        if value.shape != (size,):
            raise ValueError(f"{name} must have shape ({size},), got {value.shape}; its entries are {self.names}")
        return value.astype(jnp.result_type(self.mech.dtype, value))


def _view(mech: Mechanism, base, cut) -> JointView:
    return JointView(mech, spaces.joint_space(mech, base=base, cut=cut))


def joint_space(mech: Mechanism, *, base: Names | None = None, cut: Names = ()) -> JointSpace:
    """The joint coordinates of a mechanism: their names `.coordinates` and `.velocities`, such as "A.phi", and the
    `.tree`. See `JointView` for what they are.

    Args:
        mech: the mechanism.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Examples:
        >>> mbs.joint_space(mech, cut="guide").coordinates
        ('O.phi', 'A.phi', 'B.phi')
    """
    return spaces.joint_space(mech, base=base, cut=cut)


def joint_coordinates(
    mech: Mechanism, q: Coordinates, t: ArrayLike = 0.0, *, base: Names | None = None, cut: Names = ()
) -> Float[Array, " k"]:
    """θ(q), as `JointView.coordinates`.

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        t: time, for joints that prescribe a motion.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Examples:
        >>> print(mbs.joint_coordinates(mech, guess))  # O.phi, A.phi, guide.s
        [0. 0. 3.]
    """
    return _view(mech, base, cut).coordinates(q, t)


def joint_velocities(
    mech: Mechanism, q: Coordinates, v: Velocities, t: ArrayLike = 0.0, *, base: Names | None = None, cut: Names = ()
) -> Float[Array, " l"]:
    """θ̇ of the velocities v of the bodies, as `JointView.velocities`.

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        v: (m,), velocities.
        t: time, for joints that prescribe a motion.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Examples:
        >>> print(mbs.joint_velocities(pendulum, below, jnp.array([3.0, 0, 3])).round(6))
        [3.]
    """
    return _view(mech, base, cut).velocities(q, v, t)


def configuration(
    mech: Mechanism,
    theta: ArrayLike,
    t: ArrayLike = 0.0,
    *,
    near: Coordinates | None = None,
    base: Names | None = None,
    cut: Names = (),
) -> Float[Array, " n"]:
    """q(θ), as `JointView.configuration`.

    Args:
        mech: the mechanism.
        theta: θ, in the order of the names of `joint_space`.
        t: time, for joints that prescribe a motion.
        near: a configuration that tells senses and signs which θ does not.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Examples:
        >>> print(mbs.configuration(pendulum, jnp.array([jnp.pi / 2])).round(6))
        [1.       0.       1.570796]
    """
    return _view(mech, base, cut).configuration(theta, t, near=near)


def velocity_transformation(
    mech: Mechanism,
    theta: ArrayLike,
    t: ArrayLike = 0.0,
    *,
    coordinates: str = "bodies",
    near: Coordinates | None = None,
    base: Names | None = None,
    cut: Names = (),
) -> Float[Array, "m l"]:
    """R(θ) with v = R θ̇, as `JointView.transformation`.

    Args:
        mech: the mechanism.
        theta: θ, in the order of the names of `joint_space`.
        t: time, for joints that prescribe a motion.
        coordinates: "bodies" for rows like v, "natural" for rows like the rates of natural coordinates.
        near: a configuration that tells senses and signs which θ does not.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Examples:
        >>> print(mbs.velocity_transformation(pendulum, jnp.array([0.0])))  # ẋ, ẏ, φ̇
        [[1.]
         [0.]
         [1.]]
    """
    return _view(mech, base, cut).transformation(theta, t, coordinates=coordinates, near=near)


def velocity_transformation_rate(
    mech: Mechanism,
    theta: ArrayLike,
    theta_dot: ArrayLike,
    t: ArrayLike = 0.0,
    *,
    coordinates: str = "bodies",
    near: Coordinates | None = None,
    base: Names | None = None,
    cut: Names = (),
) -> Float[Array, "m l"]:
    """Ṙ(θ, θ̇), as `JointView.transformation_rate`.

    Args:
        mech: the mechanism.
        theta: θ, in the order of the names of `joint_space`.
        theta_dot: θ̇.
        t: time, for joints that prescribe a motion.
        coordinates: "bodies" or "natural", as for `velocity_transformation`.
        near: a configuration that tells senses and signs which θ does not.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Examples:
        >>> print(mbs.velocity_transformation_rate(pendulum, jnp.array([0.0]), jnp.array([3.0])))
        [[0.]
         [3.]
         [0.]]
    """
    return _view(mech, base, cut).transformation_rate(theta, theta_dot, t, coordinates=coordinates, near=near)


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
