"""Natural coordinates for users: x(q), ẋ(v), the constraints Ψ and their Jacobian.

See `jaxmbs.formulations.natural.coordinates` for what the coordinates are and for the order of the rows of Ψ.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxmbs.formulations.natural.coordinates import NaturalCoordinates
from jaxmbs.numerics.implicit import jacobian
from jaxmbs.programs.function import Straight
from jaxmbs.system.marks import as_drawn
from jaxmbs.system.mechanism import Coordinates, Mechanism, as_times


class NaturalView(eqx.Module):
    """A mechanism in natural coordinates x, basic points and unit vectors: `mbs.Natural().of(mech)`.

    Attributes:
        mech: the mechanism.
        own_vectors: see `Natural`.

    Examples:
        >>> view = mbs.Natural().of(mech)
        >>> view.names  # points at the pins A and B; O is at rest
        ('A.x', 'A.y', 'B.x', 'B.y')
    """

    mech: Mechanism
    own_vectors: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of x: "A.x" of the point at joint A, "A.axis.x" of the unit vector there, "rod.origin.x" and "rod.x.x", …
        of a body's own, then extra coordinates as in `Mechanism.coordinates`."""
        return NaturalCoordinates(self.mech, self.own_vectors).names

    def coordinates(self, q: Coordinates) -> Float[Array, " k"]:
        """x: points and unit vectors in a configuration `q`; a shared one as it is on the first body of its joint."""
        return self._program(_at)(self.mech, self.mech.coordinates(q))

    def rates(self, q: Coordinates, v: ArrayLike) -> Float[Array, " k"]:
        """ẋ in a configuration `q` at the velocities `v` of the bodies: ṗ = ṙ + ω × d of points, u̇ = ω × u of unit
        vectors. Linear in v.
        """
        at = self.mech.coordinates(q)
        return self._program(_rates)(self.mech, at, jnp.asarray(v, at.dtype))

    def constraints(
        self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
    ) -> Float[Array, " rows"]:
        """Ψ(x, t).

        Args:
            x: in the order of `names`.
            t: the time, for drivers.
            near: a configuration q (n,) that tells how often bodies of the plane have turned, for constraints that count
                it, and where gears without marks mesh.
        """
        return self._program(_residual)(*self._arguments(x, t, near))

    def jacobian(self, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None) -> Float[Array, "rows k"]:
        """Ψ_x; `x`, `t` and `near` as for `constraints`."""
        return self._program(_jacobian)(*self._arguments(x, t, near))

    def _program(self, f: Callable) -> Straight:
        return Straight.of(f, self.own_vectors)

    def _arguments(self, x, t, near):
        x = jnp.asarray(x)
        dtype = jnp.result_type(x, as_times(t, x.dtype))
        near = None if near is None else self.mech.coordinates(near).astype(dtype)
        mech = self.mech if near is None else as_drawn(self.mech, near)[0]
        return mech, x.astype(dtype), jnp.asarray(t, dtype), near


def natural_names(mech: Mechanism) -> tuple[str, ...]:
    """Names of the natural coordinates, as `NaturalView.names`.

    Args:
        mech: the mechanism.

    Examples:
        >>> mbs.natural_names(mech)
        ('A.x', 'A.y', 'B.x', 'B.y')
    """
    return NaturalView(mech).names


def natural_coordinates(mech: Mechanism, q: Coordinates) -> Float[Array, " k"]:
    """x(q), as `NaturalView.coordinates`.

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.

    Examples:
        >>> print(mbs.natural_coordinates(mech, mech.coordinates(guess)))
        [1. 0. 3. 0.]
    """
    return NaturalView(mech).coordinates(q)


def natural_rates(mech: Mechanism, q: Coordinates, v: ArrayLike) -> Float[Array, " k"]:
    """ẋ at the velocities v of the bodies, as `NaturalView.rates`.

    Args:
        mech: the mechanism.
        q: configuration, as for `constraints`.
        v: (m,), velocities.

    Examples:
        >>> v = mech.velocities({"crank.phi": 2.0, "rod.y": 2.0, "rod.phi": -1.0})
        >>> print(mbs.natural_rates(mech, mech.coordinates(guess), v))
        [0. 2. 0. 0.]
    """
    return NaturalView(mech).rates(q, v)


def natural_constraints(
    mech: Mechanism, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
) -> Float[Array, " rows"]:
    """Ψ(x, t), as `NaturalView.constraints`.

    Args:
        mech: the mechanism.
        x: natural coordinates, in the order of `natural_names`.
        t: time, for drivers.
        near: a configuration q (n,) that tells how often bodies of the plane have turned, for constraints that count
            it.

    Examples:
        >>> x = mbs.natural_coordinates(mech, mech.coordinates(guess))
        >>> print(jnp.abs(mbs.natural_constraints(mech, x)).max() < 1e-12)
        True
    """
    return NaturalView(mech).constraints(x, t, near=near)


def natural_jacobian(
    mech: Mechanism, x: ArrayLike, t: ArrayLike = 0.0, *, near: Coordinates | None = None
) -> Float[Array, "rows k"]:
    """Ψ_x, as `NaturalView.jacobian`.

    Args:
        mech: the mechanism.
        x: natural coordinates, in the order of `natural_names`.
        t: time, for drivers.
        near: a configuration, as for `natural_constraints`.

    Examples:
        >>> x = mbs.natural_coordinates(mech, mech.coordinates(guess))
        >>> mbs.natural_jacobian(mech, x).shape
        (4, 4)
    """
    return NaturalView(mech).jacobian(x, t, near=near)


def _at(own_vectors, mech, q):
    return NaturalCoordinates(mech, own_vectors).at(q)


def _rates(own_vectors, mech, q, v):
    return NaturalCoordinates(mech, own_vectors).rates(q, v)


def _residual(own_vectors, mech, x, t, near):
    natural = NaturalCoordinates(mech, own_vectors)
    return natural.residual(natural.with_attitudes(x, near), t)


def _jacobian(own_vectors, mech, x, t, near):
    natural = NaturalCoordinates(mech, own_vectors)
    return jacobian(natural.residual, natural, natural.with_attitudes(x, near), t)
