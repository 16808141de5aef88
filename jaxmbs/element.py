"""Base classes of bodies and constraints, in the plane and in space."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import difflib
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from jaxmbs.mobility import Mobility
from jaxmbs.motion import AbstractMotion, Constant
from jaxmbs.numerics.arrays import Structured, check_fields, is_concrete
from jaxmbs.numerics.space import Flat, Manifold

# Name of the fixed frame, used wherever an element names a body.
GROUND = "ground"
# Fields of elements that hold points, each with the field that names the body of the point.
POINT_OWNERS = {"point_i": "i", "point_j": "j", "point": "body"}
# Default of `AbstractConstraint.length_fields`: names of fields that hold lengths or positions.
LENGTH_FIELDS = ("point", "point_i", "point_j", "centre", "distance", "radius_i", "radius_j")


class AbstractBody(Structured):
    """A rigid body. A subclass names its coordinates and velocities, and makes a pose from the coordinates.

    A pose gives points and directions in the ground frame, and converts forces at points and torques into generalized
    forces conjugate to the velocities v; see `planar.body.Pose`.

    Attributes:
        dimension: 2 or 3.
        coordinates: names of the coordinates.
        velocities: names of the velocities, those of the coordinates if the velocities are their rates.
        angular: True for each velocity that is the rate of an angle.
        manifold: the relation of coordinates and velocities.
        of_points: True if its inertia is that of mass points.
    """

    dimension: ClassVar[int]
    coordinates: ClassVar[tuple[str, ...]]
    velocities: ClassVar[tuple[str, ...]]
    angular: ClassVar[tuple[bool, ...]]
    manifold: ClassVar[type[Manifold]] = Flat
    of_points: ClassVar[bool] = True

    @staticmethod
    @abc.abstractmethod
    def pose(q: Float[Array, " k"]) -> Any:
        """Return the pose of a body with the coordinates q."""

    @staticmethod
    @abc.abstractmethod
    def ground(dtype: DTypeLike) -> Float[Array, " k"]:
        """Return the coordinates that a body has if its frame coincides with the ground frame."""

    @staticmethod
    @abc.abstractmethod
    def coordinates_of(pose: Any) -> Float[Array, " k"]:
        """Return the coordinates q of a body with this pose: the inverse of `pose`."""

    @staticmethod
    @abc.abstractmethod
    def floating(dtype: DTypeLike, *, angles: bool = False) -> Mobility:
        """Return the mobility of a body that no joint holds: its own coordinates and velocities, on the ground.

        With `angles`, orientation angles replace Euler parameters.
        """

    @abc.abstractmethod
    def centre_of_mass(self, pose: Any) -> Float[Array, " d"]:
        """Return the centre of mass in the ground frame."""

    @abc.abstractmethod
    def kinetic_energy(self, pose: Any, v: Float[Array, " k"]) -> Float[Array, ""]:
        """Return the kinetic energy of the body with this pose, at its velocities v."""

    @abc.abstractmethod
    def mass_matrix(self, pose: Any) -> Float[Array, "k k"]:
        """Return the mass matrix M (k, k) of the body, conjugate to its velocities: ½ vᵀM v is the kinetic energy."""

    @classmethod
    def rest(cls) -> np.ndarray:
        """Return the coordinates (k,) that a body has in a guess that does not name it: those of the ground frame."""
        return np.zeros(len(cls.coordinates))

    @abc.abstractmethod
    def velocity_force(self, pose: Any, v: Float[Array, " k"]) -> Float[Array, " k"]:
        """Return the inertial terms that are quadratic in v: M v̇ = Q + velocity_force, with the applied force Q."""

    @property
    def massless(self) -> tuple[bool, ...]:
        """True for each velocity about which the body has no inertia by its structure, as with a mass of a plain 0."""
        return (False,) * len(self.angular)

    @property
    def known_inertia(self) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Mass, moments of inertia and centre of mass; None for each of them that is traced."""
        return None, None, None

    def check(self) -> None:
        """Raise `ValueError` with the reason if numbers of the body have wrong shapes or are not finite."""
        check_fields(self)


class Shared(eqx.Module):
    """Points and unit vectors that two bodies share at a joint, for natural coordinates.

    Attributes:
        points: for each shared point its coordinates in the frames of i and j.
        vectors: for each shared unit vector its components in the frames of i and j.
        rows: indices of the rows of Φ that do not follow from these.
    """

    points: tuple[tuple[Array, ...], ...] = ()
    vectors: tuple[tuple[Array, ...], ...] = ()
    rows: tuple[int, ...] = eqx.field(static=True, default=())


class AbstractConstraint(Structured):
    """A constraint Φ = 0, with a residual Φ that is a function of the poses of two bodies and of time.

    A subclass declares `i` and `j` (names of bodies, or "ground") as fields or properties, and the class attributes
    below. Jacobian and right-hand sides follow by differentiation.

    Attributes:
        dimension: 2 in the plane, 3 in space.
        rows: length of Φ.
        extra: names of the extra coordinates of the constraint, all of them angles, such as those of a cam's contact.
        others: names of further bodies, whose poses `residual` takes after the time, as for couplings of joints and belts.
        length_fields: names of fields that hold lengths or positions. The size of the mechanism is computed from them;
            names that an element does not have are ignored.
    """

    dimension: ClassVar[int]
    rows: ClassVar[int]
    extra: ClassVar[tuple[str, ...]] = ()
    others: ClassVar[tuple[str, ...]] = ()
    length_fields: ClassVar[tuple[str, ...]] = LENGTH_FIELDS

    if TYPE_CHECKING:

        @property
        def i(self) -> str:
            """Name of body i, or "ground"."""

        @property
        def j(self) -> str:
            """Name of body j, or "ground"."""

    @property
    def lengths(self) -> list[Array]:
        """Lengths and positions in body frames, from which the size of the mechanism is computed."""
        given = (getattr(self, name, None) for name in self.length_fields)
        return [x for x in given if x is not None]

    @abc.abstractmethod
    def residual(self, i: Any, j: Any, t: Float[Array, ""], *extra: Float[Array, ""]) -> Float[Array, " rows"]:
        """Return Φ for the poses of bodies i and j, the time, poses of `others` if there are any, and extra coordinates."""

    def components(self, i: Any, force: Array, torque: Array) -> Float[Array, " c"]:
        """Return force and torque, given in the ground frame, in the frame of the joint, or of body i with pose `i`."""
        return i.wrench(force, torque)

    @property
    def freedom(self) -> int | None:
        """Number of relative velocities of a joint that may carry body j on body i in a tree; None if it is no joint."""
        return None

    def anonymous(self) -> AbstractConstraint:
        """Return the element without the names of its bodies, so that equal elements are the same code."""
        leaves, tree = jax.tree.flatten(self)
        copy = jax.tree.unflatten(tree, leaves)
        for field in dataclasses.fields(copy):
            if field.metadata.get("static") and isinstance(getattr(copy, field.name), str):
                object.__setattr__(copy, field.name, "")
        return copy

    @property
    def mobility(self) -> Mobility:
        """Relative coordinates of body j on body i that a joint leaves free; `TypeError` for other constraints."""
        raise TypeError(f"{type(self).__name__} is not a joint")

    @abc.abstractmethod
    def relative(self, *, angles: bool, swapped: bool = False) -> Mobility:
        """Return the mobility of body j on body i as if no joint connected them.

        Its coordinates are translations of point_j from point_i along the axes of the joint frame on i, or of body i,
        then the rotation. With `angles`, orientation angles replace Euler parameters; `swapped` gives that of i on j.
        """

    def guide(self, mobility: Mobility, swapped: bool) -> tuple[int, AbstractMotion] | None:
        """Return the index of the joint coordinate that a driver prescribes independently of the others, and its motion.

        The joint, with this mobility, is between the same bodies; `swapped` is True if the driver's i is the joint's j.
        None for constraints, and if the driver prescribes no coordinate.
        """
        del mobility, swapped
        return None

    @property
    def shared(self) -> Shared:
        """Points and unit vectors that the bodies share if Φ = 0, and the rows of Φ that do not follow from them.

        Their number is static. By default nothing is shared, and all rows remain.
        """
        return Shared(rows=tuple(range(self.rows)))

    def push(self, i: Any, j: Any, *extra: Float[Array, ""]) -> Float[Array, " d"] | None:
        """Return the direction, in the ground frame, in which body i can push body j in a one-sided contact.

        None for elements that can pull as well.
        """
        del i, j, extra
        return None

    def within(self, *extra: Float[Array, ""]) -> Bool[Array, ""] | None:
        """Return True if a contact is on the parts of its outlines that are meant to touch; None without such parts."""
        del extra
        return None

    @property
    def lacks_marks(self) -> bool:
        """True for a gear or belt whose marks are measured in the first configuration of an analysis; see `drawn_marks`."""
        return False

    def drawn_marks(self, i: Any, j: Any, *more: Any) -> tuple[list[Array], tuple[Array, ...]]:
        """Return the marks at these poses, such as [angle_i, angle_j] of gears that mesh, and extra coordinates there.

        After i and j come the poses of `others`, then extra coordinates. Those returned are nearest to the given ones, up
        to full turns.

        Raises:
            TypeError: the element has no marks.
        """
        raise TypeError(f"{type(self).__name__} has no marks")

    @property
    def motions(self) -> list[AbstractMotion]:
        """Motions in the fields of the element, in the order of the fields."""
        return [x for x in jax.tree.leaves(self, is_leaf=_is_motion) if _is_motion(x)]

    def with_motions(self, motions: Iterable[AbstractMotion]) -> AbstractConstraint:
        """Return the element with other motions, as many as in `motions` and in the same order."""
        leaves, tree = jax.tree.flatten(self, is_leaf=_is_motion)
        rest = list(motions)
        return jax.tree.unflatten(tree, [rest.pop(0) if _is_motion(x) else x for x in leaves])

    def check_at(self, times: Float[np.ndarray, " T"]) -> None:
        """Raise `ValueError` with the reason if a motion is impossible at one of these times; by default none is."""

    def check(self) -> None:
        """Raise `ValueError` with the reason if the element cannot be used, as for wrong shapes or numbers not finite."""
        check_fields(self)
        require(getattr(self, "motion", ()) is not None, "motion is missing")
        check_motions(self)


class MarkedConstraint(AbstractConstraint):
    """Gears, belts and ropes: constraints with numbers that depend on how the mechanism was put together, the marks.

    If no mark is given, they are measured in the first configuration of an analysis. The marks of gears are the directions
    angle_i and angle_j of two points, one on each body, that touch each other when they meet. If one is given, the other is
    zero.

    Attributes:
        mark_fields: names of the fields of the marks.
    """

    mark_fields: ClassVar[tuple[str, ...]] = ("angle_i", "angle_j")

    @property
    def lacks_marks(self) -> bool:
        """True if no mark has been given or measured."""
        return all(getattr(self, name) is None for name in self.mark_fields)

    @property
    def marks(self) -> tuple[Any, ...]:
        """The marks; 0 for those that are not given. If none is given, it raises `ValueError`."""
        require(
            not self.lacks_marks,
            f"the marks are not known: use mbs.with_marks(mech, guess), or give {' and '.join(self.mark_fields)}",
        )
        values = (getattr(self, name) for name in self.mark_fields)
        return tuple(0.0 if value is None else value for value in values)


class MeasuredConstraint(AbstractConstraint):
    """One quantity measured between two poses has a given value: Φ = measure − prescribed value.

    A joint with the value held and the driver of the same quantity share its `measure`.
    """

    rows: ClassVar[int] = 1

    @abc.abstractmethod
    def measure(self, i: Any, j: Any) -> Float[Array, ""]:
        """Return the measured quantity at the poses `i` and `j` of the two bodies."""

    @abc.abstractmethod
    def prescribed(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Return the value that `measure` must have at the time t."""

    def residual(self, i: Any, j: Any, t: Array) -> Array:
        """Return Φ (1,): the measured quantity minus its prescribed value at the time t."""
        return (self.measure(i, j) - self.prescribed(t))[None]


class DrivenDistance(MeasuredConstraint):
    """A squared distance that follows a motion C(t), which must stay positive. A subclass measures it."""

    if TYPE_CHECKING:

        @property
        def motion(self) -> AbstractMotion:
            """C(t), the prescribed distance."""

    def prescribed(self, t: Array) -> Array:
        """Return C², the prescribed squared distance; −C², which no configuration satisfies, if C is negative."""
        distance = self.motion(t)
        return distance * jnp.abs(distance)

    def check_at(self, times: np.ndarray) -> None:
        """Raise `ValueError` if the prescribed distance is zero or negative at one of these times; traced ones pass."""
        values = jax.vmap(self.motion)(jax.device_put(times))
        if not is_concrete(values):  # inside jit even constants are traced
            return
        k = int(np.argmax(np.asarray(values) <= 0))
        got = f"got {float(values[k]):.6g} at t = {float(times[k]):.6g}"
        require(values[k] > 0, f"the distance must stay positive, {got}")

    def check(self) -> None:
        """Raise `ValueError` if the element cannot be used, or if its distance is constant and not positive."""
        super().check()
        if isinstance(self.motion, Constant) and is_concrete(self.motion.value):
            self.check_at(np.zeros(1, self.motion.value.dtype))


def _is_motion(x: Any) -> bool:
    """Return True if x is an `AbstractMotion`."""
    return isinstance(x, AbstractMotion)


def require(condition: Any, reason: str) -> None:
    """Raise `ValueError(reason)` unless `condition` holds."""
    if not condition:
        raise ValueError(reason)


def check_positive(element: Any, *names: str) -> None:
    """Raise `ValueError` for a named field, a number or an array, that has a known entry that is not positive."""
    for name, value in _known(element, names):
        require(np.all(np.asarray(value) > 0), f"{name} must be positive, got {value}")


def check_mass(body: Any) -> None:
    """Raise `ValueError` if the mass of a body is known and not positive, unless a plain 0 was given to its constructor."""
    if not body.weightless:
        check_positive(body, "mass")


def check_not_negative(element: Any, *names: str) -> None:
    """Raise `ValueError` for a named field, a number or an array, that has a known negative entry."""
    for name, value in _known(element, names):
        require(np.all(np.asarray(value) >= 0), f"{name} must not be negative, got {value}")


def check_pressure_angle(element: Any) -> None:
    """Raise `ValueError` for a `pressure_angle` or `helix_angle` of a right angle or more, or a pressure angle of zero."""
    names = [name for name in ("pressure_angle", "helix_angle") if hasattr(element, name)]
    for name, value in _known(element, names):
        require(abs(value) < np.pi / 2, f"{name} must be less than a right angle, in radians, got {value}")
        zero = name == "pressure_angle" and value == 0
        require(not zero, "pressure_angle must not be zero: leave it out for a tangential force")


def check_sum_of_radii(element: Any) -> None:
    """Raise `ValueError` if the pitch radii of gears with involute teeth are known and their sum is zero."""
    radii = [value for _, value in _known(element, ("radius_i", "radius_j"))]
    require(
        len(radii) < 2 or sum(radii) != 0,
        "radius_i + radius_j must not be zero: involute teeth need a distance of the centres",
    )


def _known(element: Any, names: Iterable[str]) -> list[tuple[str, Any]]:
    """Return pairs of public name and value for those of the named fields that are not None and not traced."""
    values = ((name.removeprefix("_"), getattr(element, name)) for name in names)
    return [(name, value) for name, value in values if value is not None and is_concrete(value)]


@contextlib.contextmanager
def errors_of(name: str, error_type: type[ValueError] = ValueError) -> Iterator[None]:
    """Prefix every `ValueError` raised inside the `with` block with a name, and raise it as `error_type`."""
    try:
        yield
    except ValueError as error:
        raise error_type(f"{name}: {error}") from None


def check_motions(element: Any) -> None:
    """Raise `ValueError`, with the name of the field, if a motion in a field of an element cannot be used."""
    for name, value in vars(element).items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, AbstractMotion):
                with errors_of(name):
                    part.check()


# `warn_renamed` skips stack frames of these packages to find the user's line.
SKIPPED_PACKAGES = frozenset({"jaxmbs", "equinox", "jaxtyping", "beartype"})


def warn_renamed(old: str, new: str) -> None:
    """Warn that an argument or an attribute is used under its old name, in the user's line."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in SKIPPED_PACKAGES:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"{old} is deprecated: write {new}", DeprecationWarning, stacklevel=depth)


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Return a message for a name that does not exist, with the nearest one that does."""
    names = list(names)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names)) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"


def require_name(kind: str, name: Any, names: Collection[str]) -> None:
    """Raise `ValueError` with the nearest name unless `name` is one of `names`; it may be of any type."""
    if not isinstance(name, str) or name not in names:
        raise ValueError(unknown(kind, name, names))
