"""The public interface of the equations of motion, in the coordinates of any formulation."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.numerics.implicit import second_rate
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.inputs import as_times
from jaxmbs.system.marks import elements_without_marks, measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities


@dataclasses.dataclass(frozen=True)
class AbstractUnknowns(abc.ABC):
    """The coordinates x and velocities u that users of a formulation see; without numbers of the mechanism.

    Attributes:
        order: for each entry of x, and of u, its index in the coordinates of the equations; empty if the order is the
            same.
    """

    order: tuple[int, ...] = dataclasses.field(default=(), kw_only=True)

    @abc.abstractmethod
    def names(self, mech: Mechanism) -> tuple[str, ...]:
        """Return names of the coordinates x, in the order that users see, not that of the equations; see `order`."""

    @abc.abstractmethod
    def velocity_names(self, mech: Mechanism) -> tuple[str, ...]:
        """Return names of the velocities u, in the order that users see, not that of the equations; see `order`."""

    @abc.abstractmethod
    def coordinates(self, mech: Mechanism, q, t) -> Float[Array, " k"]:
        """Return x of a configuration q of the bodies at the time t, in the order of the equations."""

    @abc.abstractmethod
    def velocities(self, mech: Mechanism, q, v, t) -> Float[Array, " l"]:
        """Return u of velocities v of the bodies, in the order of the equations."""

    @abc.abstractmethod
    def configuration(self, mech: Mechanism, x, t, near) -> Float[Array, " n"]:
        """Return the configuration of the bodies for x; `near` as for `equations_at`."""

    @abc.abstractmethod
    def equations_at(self, mech: Mechanism, x, t, near) -> tuple[AbstractEquations, Float[Array, " n"]]:
        """Return the equations, and their coordinates for x, both in the order of the equations.

        If x does not determine a configuration, for example the turns of bodies, it is chosen nearest to `near`, a
        configuration of the bodies or None.
        """


class EquationsOfMotion(eqx.Module):
    """The equations of motion of a mechanism in the coordinates of a formulation, `mbs.Augmented().of(mech)`.

        M(x, t) u̇ = Q(x, u, t) + Φ_xᵀλ,  Φ(x, t) = 0,  Φ_x u = ν,  Φ_x u̇ = γ,  ẋ = N(x) u.

    Q is the sum of all forces except constraint forces: applied forces, −ω × Jω, the centrifugal terms of an offset centre
    of mass, and the terms that come from the choice of coordinates.

    - `Augmented`: x and u are q and v, the poses and velocities of the bodies; Φ are all constraints, then the drivers.
    - `Natural`: basic points and unit vectors, and their rates; Ψ, see `jaxmbs.formulations.natural.coordinates`.
    - `JointCoordinates`: θ and θ̇ of a spanning tree; the joints that are cut, other constraints, and drivers.
    - `Kane`: 6N relative coordinates, 3N in the plane, as if no joint held any body, and their rates; all constraints,
      then the drivers.

    θ holds, for each joint in the order of the tree, its slides (s; x, y; x, y, z) and then its rotation: the angle
    phi, alpha and beta of a universal joint, theta_x and theta_y of a homokinetic one, Euler parameters of a ball. θ̇
    are their rates, and for a ball the relative angular velocity in the frame that turns. A floating base has its own
    coordinates and velocities. Extra coordinates of gears and cams are last. Components of joints that are prescribed
    in time are not in θ: they have their values at the time t.

    The order of Kane's coordinates is that of Kamman (1): all angles, three of each body in the order of the mechanism,
    then all translations, then extra coordinates. Joints only define the points and frames from which they are measured.

    x does not always determine the configuration of the bodies. The rest is taken from `near`, a configuration q: the
    number of turns of bodies in the plane (`Natural`); the sense of a planar `Translational`, the number of turns of
    the body on it, and the sign of Euler parameters (`JointCoordinates`). Without `near`, axes are parallel and turns
    are not counted.

    Small equations are straight-line programs. All methods work under `jit`, `vmap` and derivatives, and raise
    `ValueError` for coordinates or velocities of a wrong shape.

    Attributes:
        mech: the mechanism.
        unknowns: the coordinates.

    Examples:
        >>> natural = mbs.Natural().of(mech)
        >>> natural.names  # points at the pins A and B; O is at rest
        ('A.x', 'A.y', 'B.x', 'B.y')
        >>> view = mbs.JointCoordinates().of(pendulum)
        >>> theta, rate = jnp.array([jnp.pi / 2]), jnp.zeros(1)
        >>> print(view.names, view.mass_matrix(theta), view.force(theta, rate))  # θ̈ = −9.81
        ('pin.phi',) [[2.]] [-19.62]
    """

    mech: Mechanism
    unknowns: AbstractUnknowns = eqx.field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of x, such as "crank.x", "A.phi", "A.axis.x", "boom.theta_1"."""
        return self.unknowns.names(self.mech)

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of u. They are those of x, except for rotations in space, for which u has angular velocities."""
        return self.unknowns.velocity_names(self.mech)

    def coordinates(self, q: Coordinates, t: ArrayLike = 0.0) -> Float[Array, " k"]:
        """Return x of a configuration of the bodies.

        If the configuration is not assembled, x has the components of relative motion that joints of the tree leave free.
        Angles of joints are in (−π, π]; angles in the plane count all turns. For Kane's angles, |θ₂| ≤ π/2.

        Args:
            q: configuration (n,), or a mapping of names to coordinates; see `Mechanism.coordinates`.
            t: time.

        Returns:
            (k,), in the order of `names`; angles in radians.

        Raises:
            ValueError: an unknown name in q, or a wrong number of values.
        """
        return self._program(_coordinates)(self.mech, *self._state(self.mech.coordinates(q), t))

    def velocities(self, q: Coordinates, v: Velocities, t: ArrayLike = 0.0) -> Float[Array, " l"]:
        """Return u of the velocities of the bodies; affine in v.

        If v does not satisfy the joints of the tree, u is a least-squares fit. Kane's have no meaning where cos θ₂ = 0.

        Args:
            q: configuration, as for `coordinates`.
            v: velocities (m,), or a mapping of names to velocities; see `Mechanism.velocities`.
            t: time.

        Returns:
            (l,), in the order of `velocity_names`; rates of angles in radians per unit of time.

        Raises:
            ValueError: an unknown name in q or v, or a wrong number of values.
        """
        q, t = self._state(self.mech.coordinates(q), t)
        return self._program(_velocities)(self.mech, q, self.mech.velocities(v).astype(q.dtype), t)

    def configuration(self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None) -> Float[Array, " n"]:
        """Return the configuration of the bodies. Joints that are rows of Φ need not be closed.

        Args:
            x: coordinates (k,).
            t: time.
            near: a configuration from which everything that x does not determine is taken; see `EquationsOfMotion`.

        Returns:
            q (n,), as in `Mechanism.coordinates`.

        Raises:
            ValueError: x of a wrong shape.
        """
        return self._program(_configuration)(self.mech, *self._state(x, t), as_configuration(self.mech, near))

    def to_bodies(
        self,
        x: ArrayLike,
        u: ArrayLike,
        a: ArrayLike | None = None,
        t: ArrayLike = 0.0,
        *,
        near: Coordinates | None = None,
    ) -> tuple[Float[Array, " n"], Float[Array, " m"], Float[Array, " m"]]:
        """Return configuration, velocities and accelerations of the bodies.

        Args:
            x: coordinates (k,).
            u: velocities (l,).
            a: accelerations u̇ (l,); zero unless given.
            t: time.
            near: as for `configuration`.

        Returns:
            q (n,), v (m,) and v̇ (m,).

        Raises:
            ValueError: x, u or a of a wrong shape.
        """
        x, t = self._state(x, t)
        u = jnp.asarray(u, x.dtype)
        a = jnp.zeros_like(u) if a is None else jnp.asarray(a, x.dtype)
        return self._program(_to_bodies)(self.mech, x, u, a, t, as_configuration(self.mech, near))

    def rate(self, x: ArrayLike, u: ArrayLike) -> Float[Array, " k"]:
        """Return ẋ = N(x) u (k,) for `x` (k,) and `u` (l,)."""
        x, t = self._state(x, 0.0)
        return self._program(_rate)(self.mech, x, jnp.asarray(u, x.dtype), t)

    def mass_matrix(self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None) -> Float[Array, "l l"]:
        """Return the mass matrix M: ½ uᵀM u is the kinetic energy if no joint prescribes a motion.

        Args:
            x: coordinates (k,).
            t: time.
            near: as for `configuration`.

        Returns:
            (l, l), symmetric; rows and columns in the order of `velocity_names`.

        Raises:
            ValueError: x of a wrong shape.
        """
        return self._program(_mass_matrix)(self.mech, *self._state(x, t), as_configuration(self.mech, near))

    def force(
        self, x: ArrayLike, u: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, " l"]:
        """Return Q: all forces except the constraint forces.

        Friction that depends on reactions, and inertia in joints, are those of the actual accelerations in this state.

        Args:
            x: coordinates (k,).
            u: velocities (l,).
            t: time.
            near: as for `configuration`.

        Returns:
            (l,), conjugate to u: a force for each velocity, a torque for each angular velocity.

        Raises:
            ValueError: x or u of a wrong shape; or a force with states, such as the current of a motor, which are not
                known here.
        """
        x, t = self._state(x, t)
        return self._program(_force)(self.mech, x, jnp.asarray(u, x.dtype), t, as_configuration(self.mech, near))

    def constraints(
        self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, " rows"]:
        """Return Φ (rows,) at `x` (k,) and the time `t`; `near` as for `configuration`."""
        return self._program(_constraints)(self.mech, *self._state(x, t), as_configuration(self.mech, near))

    def constraint_jacobian(
        self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, "rows l"]:
        """Return Φ_x (rows, l) at `x` (k,) and the time `t`, with Φ_x u = ν; `near` as for `configuration`."""
        return self._program(_constraint_jacobian)(self.mech, *self._state(x, t), as_configuration(self.mech, near))

    def velocity_rhs(
        self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, " rows"]:
        """Return ν = −Φ_t (rows,) at `x` (k,) and the time `t`, with Φ_x u = ν; `near` as for `configuration`."""
        return self._program(_velocity_rhs)(self.mech, *self._state(x, t), as_configuration(self.mech, near))

    def acceleration_rhs(
        self, x: ArrayLike, u: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, " rows"]:
        """Return γ = −(Φ_x u)_x ẋ − 2 Φ_xt u − Φ_tt, the right side of Φ_x u̇ = γ.

        Args:
            x: coordinates (k,).
            u: velocities (l,).
            t: time.
            near: as for `configuration`.

        Returns:
            (rows,), rows as in Φ.

        Raises:
            ValueError: x or u of a wrong shape.
        """
        x, t = self._state(x, t)
        return self._program(_acceleration_rhs)(
            self.mech, x, jnp.asarray(u, x.dtype), t, as_configuration(self.mech, near)
        )

    def _program(self, f: Callable) -> ProgramWithFallback:
        """Return f(unknowns, …) as a program for these unknowns, compiled once."""
        return ProgramWithFallback.of(f, self.unknowns)

    def _state(self, x, t) -> tuple[Array, Array]:
        """Return x, or a configuration, and t as arrays of one floating-point type."""
        x = jnp.asarray(x)
        dtype = jnp.result_type(self.mech.dtype, x, as_times(t, self.mech.dtype))
        return x.astype(dtype), jnp.asarray(t, dtype)


def as_configuration(mech: Mechanism, near: Coordinates | None) -> Float[Array, " n"] | None:
    """Return a configuration `near` of the bodies as a vector; None unchanged."""
    return None if near is None else mech.coordinates(near)


def check_entries(name: str, value: Array, names: tuple[str, ...]) -> None:
    """Raise `ValueError` unless a vector has one number for each of these names."""
    if value.shape != (len(names),):
        raise ValueError(f"{name} must have shape ({len(names)},), got {value.shape}; its entries are {names}")


def _order(unknowns: AbstractUnknowns) -> np.ndarray | slice:
    """Return the indices that bring coordinates of the equations into the order that users see."""
    return np.array(unknowns.order) if unknowns.order else slice(None)


def _inverse_order(unknowns: AbstractUnknowns) -> np.ndarray | slice:
    """Return the indices that bring coordinates of users into the order of the equations."""
    return np.argsort(unknowns.order) if unknowns.order else slice(None)


def _equations_at(unknowns: AbstractUnknowns, mech, x, t, near):
    """Return the equations, and their coordinates for a user's x; marks of gears are measured at `near`, or at x."""
    check_entries("x", x, unknowns.names(mech))
    x = x[_inverse_order(unknowns)]
    if elements_without_marks(mech):
        mech, _ = measure_marks(mech, unknowns.configuration(mech, x, t, near) if near is None else near)
    return unknowns.equations_at(mech, x, t, near)


def _equation_velocities(unknowns: AbstractUnknowns, mech, u):
    """Return u or u̇ of a user, brought from the order of users into that of the equations."""
    check_entries("u", u, unknowns.velocity_names(mech))
    return u[_inverse_order(unknowns)]


# Array code of the methods of `EquationsOfMotion`.


def _coordinates(unknowns, mech, q, t):
    """Return x of a configuration q of the bodies, in the order that users see."""
    return unknowns.coordinates(mech, q, t)[_order(unknowns)]


def _velocities(unknowns, mech, q, v, t):
    """Return u of velocities v of the bodies, in the order that users see."""
    return unknowns.velocities(mech, q, v, t)[_order(unknowns)]


def _to_bodies(unknowns, mech, x, u, a, t, near):
    """Return q, v and v̇ of the bodies for x, u and u̇ = a."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    return equations.to_bodies(q, _equation_velocities(unknowns, mech, u), _equation_velocities(unknowns, mech, a), t)


def _configuration(unknowns, mech, x, t, near):
    """Return q of the bodies for x."""
    check_entries("x", x, unknowns.names(mech))
    return unknowns.configuration(mech, x[_inverse_order(unknowns)], t, near)


def _rate(unknowns, mech, x, u, t):
    """Return ẋ at x and u, in the order that users see."""
    equations, q = _equations_at(unknowns, mech, x, t, None)
    return equations.space.rate(q, _equation_velocities(unknowns, mech, u))[: x.size][_order(unknowns)]


def _mass_matrix(unknowns, mech, x, t, near):
    """Return M(x, t), rows and columns in the order that users see."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    return equations.mass(q, t)[_order(unknowns)][:, _order(unknowns)]


def _force(unknowns, mech, x, u, t, near):
    """Return Q(x, u, t), in the order that users see."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    u = _equation_velocities(unknowns, mech, u)
    return with_reactive_forces(equations, q, u, t)[0].force(q, u, t)[_order(unknowns)]


def mass_and_force(unknowns: AbstractUnknowns, mech: Mechanism, x, u, t) -> tuple[Array, Array]:
    """Return M(x, t) and Q(x, u, t) as array code, in the order that users see."""
    return _mass_matrix(unknowns, mech, x, t, None), _force(unknowns, mech, x, u, t, None)


def _constraints(unknowns, mech, x, t, near):
    """Return Φ(x, t)."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    return equations.residual(q, t)


def _constraint_jacobian(unknowns, mech, x, t, near):
    """Return Φ_x, columns in the order that users see."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    return equations.jacobian(q, t)[:, _order(unknowns)]


def _velocity_rhs(unknowns, mech, x, t, near):
    """Return ν = −Φ_t."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    return -equations.velocity_gap(q, equations.zero_velocity(q), t)


def _acceleration_rhs(unknowns, mech, x, u, t, near):
    """Return γ, the right side of Φ_x u̇ = γ."""
    equations, q = _equations_at(unknowns, mech, x, t, near)
    return -second_rate(
        equations.residual, equations.space, q, _equation_velocities(unknowns, mech, u), equations.zero_velocity(q), t
    )
