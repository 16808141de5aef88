"""The mechanism: bodies, constraints, drivers and forces, by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractBody, AbstractConstraint, errors_of, require_name
from jaxmbs.forces import AbstractForce
from jaxmbs.numerics.arrays import check_precision, default_float, is_concrete, with_fields
from jaxmbs.system.layout import Layout
from jaxmbs.system.light import light_bodies
from jaxmbs.system.summary import elements

# Elements by name, as a mapping or as pairs (name, element).
Named = Mapping[str, Any] | Iterable[tuple[str, Any]]


class DefaultGuess(NamedTuple):
    """Initial values that are used where the caller gives none.

    Attributes:
        q: (n,), coordinates.
        v: (m,), velocities.
        named: (m,), True for each velocity that keeps its value; None if v is a vector without names.
    """

    q: tuple[float, ...]
    v: tuple[float, ...]
    named: tuple[bool, ...] | None


class HasCoordinates(Protocol):
    """An object with a configuration `q`, such as an `Assembly`."""

    @property
    def q(self) -> Array:
        """The configuration, (n,)."""


Coordinates = ArrayLike | Sequence[float] | Mapping[str, Any] | HasCoordinates
"""A configuration: q (n,), an object with `q`, or names and coordinates; see `Mechanism.coordinates`."""
Velocities = ArrayLike | Sequence[float] | Mapping[str, Any]
"""Velocities: v (m,), or names and velocities; see `Mechanism.velocities`."""


class Mechanism(eqx.Module):
    """Bodies joined by constraints, moved by drivers and forces: Φ(q, t) = 0, M v̇ = Q + Φ_qᵀλ.

    Φ holds the equations of constraints and drivers, λ their multipliers; M is the mass matrix, Q the generalized force.

    A mechanism is a pytree. Every number in it (lengths, masses, axes, knots, …) is a leaf that can be traced, batched
    and differentiated; names, types and connectivity are static. It holds no state. A configuration is a vector q (n,):
    the coordinates of the bodies in their order, then extra coordinates of constraints, such as contact angles of cams.
    The vector of velocities v (m,) has the same order.

    Args:
        bodies, constraints, drivers, forces: elements by name, as a mapping or as pairs (name, element). "ground" is
            the fixed frame.

    Raises:
        ValueError: an element cannot be used; the message has its name and the reason.

    Examples:
        >>> pendulum = mbs.Mechanism(
        ...     bodies={"bob": planar.Body(mass=2.0)},
        ...     constraints={"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        ...     forces={"gravity": mbs.Gravity((0, -9.81))},
        ... )
        >>> q = pendulum.coordinates({"bob": (3, -1, 0)})
        >>> print(pendulum.point(q, "bob", (0, 1)))
        [3. 0.]
    """

    _bodies: tuple[Any, ...]
    _constraints: tuple[Any, ...]
    _drivers: tuple[Any, ...]
    _forces: tuple[Any, ...]
    _force_names: tuple[str, ...] = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    _default_guess: DefaultGuess | None = eqx.field(static=True, default=None)
    _light: tuple[str, ...] = eqx.field(static=True, default=())

    def __init__(self, bodies: Named, constraints: Named = (), drivers: Named = (), forces: Named = ()):
        given = {"body": bodies, "constraint": constraints, "driver": drivers, "force": forces}
        groups = {kind: _pairs(kind, named) for kind, named in given.items()}
        _check_names(groups)
        _check_elements(groups)
        self._bodies, self._constraints, self._drivers, self._forces = (
            tuple(element for _, element in pairs) for pairs in groups.values()
        )
        self._force_names = tuple(name for name, _ in groups["force"])
        self.layout = Layout(
            tuple((name, type(body)) for name, body in groups["body"]),
            *(
                tuple((name, element.rows, element.extra) for name, element in groups[kind])
                for kind in ("constraint", "driver")
            ),
        )
        self._light = self._light_bodies()

    @property
    def bodies(self) -> dict[str, Any]:
        """Bodies by name, in their order."""
        return {name: body for (name, _), body in zip(self.layout.bodies, self._bodies, strict=True)}

    @property
    def constraints(self) -> dict[str, AbstractConstraint]:
        """Constraints by name, in their order, without the drivers."""
        return {name: c for (name, *_), c in zip(self.layout.constraints, self._constraints, strict=True)}

    @property
    def drivers(self) -> dict[str, AbstractConstraint]:
        """Drivers by name, in their order."""
        return {name: d for (name, *_), d in zip(self.layout.drivers, self._drivers, strict=True)}

    @property
    def forces(self) -> dict[str, AbstractForce]:
        """Forces by name, in their order."""
        return dict(zip(self._force_names, self._forces, strict=True))

    @property
    def geometry(self) -> Mechanism:
        """The mechanism without the data of its bodies and forces: only the numbers that Φ depends on."""
        return with_fields(Mechanism, self, _bodies=(), _forces=(), _force_names=(), _default_guess=None, _light=())

    @property
    def light(self) -> frozenset[str]:
        """Names of the bodies without inertia for some velocity, or with very little compared with other bodies.

        The equations of such mechanisms are solved in a more expensive way. `weighed` updates the set.
        """
        return frozenset(self._light) | {name for name, body in self.bodies.items() if any(body.massless)}

    def weighed(self) -> Mechanism:
        """Return the mechanism with `light` computed again, from masses that may have changed since it was made."""
        found = self._light_bodies()
        if not all(map(is_concrete, jax.tree.leaves((self._bodies, self._constraints, self._drivers)))):
            # If numbers are traced, bodies found earlier stay light.
            found = tuple(name for name in self.layout.body_types if name in {*found, *self._light})
        return self if found == self._light else with_fields(Mechanism, self, _light=found)

    def _light_bodies(self) -> tuple[str, ...]:
        """Return the names of the light bodies by the numbers known now; () for a `geometry`, which has no bodies."""
        return light_bodies(self.bodies, (*self._constraints, *self._drivers), self.dtype) if self._bodies else ()

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of the numbers in the mechanism, the widest if they differ."""
        types = {leaf.dtype for leaf in jax.tree.leaves(self) if eqx.is_inexact_array(leaf)}
        dtype = jnp.result_type(*types) if types else default_float()
        check_precision(dtype)
        return dtype

    def astype(self, dtype: DTypeLike) -> Mechanism:
        """Return the mechanism with all of its numbers in the floating-point type `dtype`: float32 or float64."""
        check_precision(jnp.dtype(dtype))
        convert = lambda x: jnp.asarray(x, dtype) if eqx.is_inexact_array(x) else x
        return jax.tree.map(convert, self).weighed()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'; '.join(elements(self.layout, self._force_names))})"

    def __hash__(self) -> int:
        """A mechanism has no hash, because its numbers may be traced.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a mechanism has no hash, because its numbers may be traced: pass it to jit as an ordinary argument, not as a "
            "static one, and find it in a dict by a name of yours"
        )

    def __deepcopy__(self, memo: Any) -> Mechanism:
        """Copy the numbers; everything else is immutable."""
        return jax.tree.map(lambda x: copy.deepcopy(x, memo), self)

    def poses(self, q: Float[Array, " n"]) -> dict[str, Any]:
        """Return the poses of all bodies and of "ground" in a configuration `q`, by name."""
        return {name: self.layout.pose(name, q) for name in (GROUND, *self.layout.body_types)}

    @property
    def own_length(self) -> Float[Array, ""]:
        """√(Σ s²) over the lengths s in constraints and drivers; zero if there are none.

        They are coordinates of points in the body frames, distances, offsets and radii, also those of outlines.
        """
        return own_length_as(self, self.dtype)

    def size(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        """Return the length relative to which gaps are judged and angles are compared with distances.

        Args:
            q: configuration (n,).

        Returns:
            `own_length`; if that is zero √(Σ s²) of the positions in q, or 1 if these are zero, too.
        """
        own, places = own_length_as(self, q.dtype), jnp.where(self.layout.angular, 0, self.layout.extent(q))
        square = places @ places
        return jnp.where(own > 0, own, jnp.sqrt(jnp.where(square > 0, square, 1)))

    def point(self, q: Float[Array, " n"], body: str, s: ArrayLike | Sequence[float] | None) -> Float[Array, " d"]:
        """Return a point in the ground frame, from its coordinates `s` in the frame of `body`, in a configuration `q`."""
        return self.layout.point(body, s, q)

    def coordinates(self, guess: Coordinates | None = None) -> Float[Array, " n"]:
        """Return a configuration vector from a guess.

        A mapping gives coordinates of bodies, `{"crank": (x, y, phi)}`, extra coordinates of constraints,
        `{"cam": (alpha_i, alpha_j)}`, or single ones, `{"crank.phi": 0.3}`; what is missing is zero, and Euler
        parameters are those of no rotation. Euler parameters are brought to unit length.

        Args:
            guess: q (n,), an `Assembly`, or a mapping of names to numbers. None: that of the model file, else zeros.

        Returns:
            q (n,): lengths, angles in radians, and Euler parameters.

        Raises:
            ValueError: an unknown name, or a wrong number of values.
        """
        if guess is None and self._default_guess is not None:
            return jnp.asarray(self._default_guess.q, self.dtype)
        if isinstance(guess, Mapping) or guess is None:
            return self._normalised(self._from_names(guess or {}, self.layout.rest))
        q = jnp.asarray(getattr(guess, "q", guess))
        if q.shape != (self.layout.n,):
            raise ValueError(f"a configuration has shape ({self.layout.n},), got {q.shape}")
        q = q.astype(jnp.result_type(self.dtype, q) if jnp.issubdtype(q.dtype, jnp.floating) else self.dtype)
        return self._normalised(q)

    def _normalised(self, q: Array) -> Array:
        """Return a configuration with Euler parameters of unit length."""
        # A configuration without rotations in space is one already.
        return q if self.layout.n == self.layout.m else _normalised(self.layout, q)

    def velocities(self, guess: Velocities | None = None) -> Float[Array, " m"]:
        """Return a vector of velocities from a guess.

        Args:
            guess: v (m,), or a mapping such as `{"crank.phi": 5.0}`; what is missing is zero.

        Returns:
            v (m,): velocities of origins, and angular velocities in radians per unit of time.

        Raises:
            ValueError: an unknown name, or a wrong number of values.
        """
        if guess is None and self._default_guess is not None:
            return jnp.asarray(self._default_guess.v, self.dtype)
        if isinstance(guess, Mapping) or guess is None:
            return self._from_names(guess or {}, np.zeros(self.layout.m), velocities=True)
        v = jnp.asarray(getattr(guess, "v", guess))
        if v.shape != (self.layout.m,):
            raise ValueError(f"velocities have shape ({self.layout.m},), got {v.shape}")
        return v.astype(jnp.result_type(self.dtype, v) if jnp.issubdtype(v.dtype, jnp.floating) else self.dtype)

    def named_velocities(self, guess: Velocities | None = None) -> tuple[bool, ...] | None:
        """Return True for each velocity that the mapping `guess` names; None for a vector of velocities, or for None."""
        if not isinstance(guess, Mapping):
            return self._default_guess.named if guess is None and self._default_guess is not None else None
        named = np.zeros(self.layout.m, bool)
        for name in guess:
            named[self.layout.entries(name, velocities=True)[0]] = True
        return tuple(named.tolist())

    def _from_names(self, guess: Mapping[str, Any], start: np.ndarray, *, velocities: bool = False) -> Array:
        """Return a vector q, or v, with the values of a mapping and those of `start` elsewhere."""
        # Known numbers are put together by NumPy: in JAX each operation is compiled when it is first met.
        known, dtype = all(map(is_concrete, jax.tree.leaves(list(guess.values())))), self.dtype
        values: Any = np.array(start, dtype) if known else jnp.asarray(start, dtype)
        for name, value in guess.items():
            entries, shape = self.layout.entries(name, velocities=velocities)
            value = np.asarray(value) if known else jnp.asarray(value)
            if value.shape != shape and not (shape == (1,) and value.shape == ()):
                kind = "velocities" if velocities else "guess"
                raise ValueError(f"{kind} for {name!r} must have shape {shape}, got {value.shape}")
            if known:
                values[entries] = value.astype(dtype)
            else:
                values = values.at[entries].set(value.astype(dtype))
        return jnp.asarray(values)


# Compiled as one function: operation by operation, the first call would compile a dozen.
_normalised = jax.jit(Layout.normalised, static_argnums=0)


def _pairs(kind: str, named: Named) -> list[tuple[str, Any]]:
    """Return elements, given as a mapping or as pairs, as a list of pairs (name, element), or raise `ValueError`."""
    pairs = list(named.items()) if isinstance(named, Mapping) else list(named)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str) or not pair[0]:
            raise ValueError(f"each {kind} needs a name and an element, got {pair!r}")
    return pairs


def _check_names(groups: dict[str, list[tuple[str, Any]]]) -> None:
    """Raise `ValueError` unless names are unique among bodies, and among constraints, drivers and forces together."""
    if not groups["body"]:
        raise ValueError("a mechanism needs at least one body")
    for kinds in (("body",), ("constraint", "driver", "force")):
        kind_of: dict[str, str] = {}
        for kind in kinds:
            for name, _ in groups[kind]:
                if name == GROUND:
                    raise ValueError(f"{kind} {name!r}: this name is kept for the fixed frame")
                if name in kind_of:
                    raise ValueError(f"duplicate name {name!r}: used for a {kind_of[name]} and for a {kind}")
                kind_of[name] = kind
    both = {name for name, _ in groups["body"]} & {
        name for kind in ("constraint", "driver") for name, element in groups[kind] if getattr(element, "extra", ())
    }
    if both:
        raise ValueError(f"duplicate name {min(both)!r}: a body and a constraint with coordinates of its own")


def _check_elements(groups: dict[str, list[tuple[str, Any]]]) -> None:
    """Raise `ValueError` unless every element is of its kind, names bodies that exist, and passes its own check."""
    dimension = getattr(groups["body"][0][1], "dimension", 0)
    known = dict.fromkeys([GROUND, *(name for name, _ in groups["body"])])
    joints = dict([*groups["constraint"], *groups["driver"]])

    def check(kind: str, element: Any) -> None:
        """Raise `ValueError` with the reason if an element of this kind cannot be used in the mechanism."""
        if kind == "force":
            if not isinstance(element, AbstractForce):
                raise ValueError(f"{type(element).__name__} is not a force")
            for body in element.acts_on:
                require_name("body", body, known)
            element.check(dimension)
            return element.check_joints(joints)
        if kind == "body" and not isinstance(element, AbstractBody):
            raise ValueError(f"{type(element).__name__} is not a body")
        if kind != "body" and not isinstance(element, AbstractConstraint):
            raise ValueError(f"{type(element).__name__} is not a constraint")
        if element.dimension != dimension:
            raise ValueError("planar and spatial elements cannot be mixed")
        if kind != "body":
            for body in (element.i, element.j, *element.others):
                require_name("body", body, known)
            if len({element.i, element.j, *element.others}) == 1:
                raise ValueError(f"connects {element.i!r} with itself")
        return element.check()

    for kind, pairs in groups.items():
        for name, element in pairs:
            with errors_of(f"{kind} {name!r} ({type(element).__name__})"):
                check(kind, element)


def own_length_as(mech: Mechanism, dtype: DTypeLike) -> Float[Array, ""]:
    """Return `Mechanism.own_length` in the floating-point type `dtype`, that of q, also for a mechanism without numbers."""
    elements = (*mech._constraints, *mech._drivers)
    given = (x for element in elements for x in element.lengths)
    square = sum((jnp.sum(jnp.square(jnp.asarray(x, dtype))) for x in given), jnp.zeros((), dtype))
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
