"""What a body and a constraint are, in the plane and in space alike."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxmbs.mobility import Mobility
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import Structured, check_fields, is_concrete
from jaxmbs.numerics.space import Flat, Manifold

GROUND = "ground"
# Names of constraint fields that hold a length or a position, whatever the element.
LENGTHS = ("point", "point_i", "point_j", "centre", "distance", "radius_i", "radius_j")


class AbstractBody(Structured):
    """A rigid body. A subclass names the coordinates of its pose and its velocities, says which of these are rates of
    angles, and how a pose is made from the coordinates. A pose places points and directions, and turns forces at points
    and torques into generalized forces conjugate to the velocities v; see `planar.body.Pose`.

    Attributes:
        manifold: how coordinates and velocities belong together. velocities: names, those of the coordinates where the
            velocities are their rates. angular: for each velocity. of_points: whether its inertia is that of masses at
            points.
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
        """The pose with these coordinates."""

    @staticmethod
    @abc.abstractmethod
    def ground(dtype) -> Float[Array, " k"]:
        """The coordinates of the ground frame."""

    @staticmethod
    @abc.abstractmethod
    def coordinates_of(pose) -> Float[Array, " k"]:
        """The coordinates of a pose."""

    @staticmethod
    @abc.abstractmethod
    def floating(dtype, *, angles: bool = False) -> Mobility:
        """The relative coordinates of a body that no joint holds: its own, and its own velocities, on the ground. With
        `angles` orientation angles in place of Euler parameters, where it has these."""

    @abc.abstractmethod
    def centre_of_mass(self, pose) -> Float[Array, " d"]:
        """The centre of mass in the ground frame."""

    @abc.abstractmethod
    def kinetic_energy(self, pose, v: Float[Array, " k"]) -> Float[Array, ""]:
        """Kinetic energy at the velocity v."""

    @abc.abstractmethod
    def mass_matrix(self, pose) -> Float[Array, "k k"]:
        """M with ½ vᵀM v the kinetic energy."""

    @classmethod
    def rest(cls) -> np.ndarray:
        """The coordinates of a body that nothing is known about: at the ground frame."""
        return np.zeros(len(cls.coordinates))

    @abc.abstractmethod
    def velocity_force(self, pose, v: Float[Array, " k"]) -> Float[Array, " k"]:
        """What stands beside the applied force Q because M changes with the pose: M v̇ = Q + this."""

    @property
    def massless(self) -> tuple[bool, ...]:
        """For each velocity whether it has no inertia, whatever the numbers are."""
        return (False,) * len(self.angular)

    @property
    def known_inertia(self) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Mass, moments of inertia and centre of mass; None for each of them that is not a known number."""
        return None, None, None

    def check(self) -> None:
        """Raise `ValueError` with the reason if the body cannot be used."""
        check_fields(self)


class Shared(eqx.Module):
    """What two bodies have in common at a joint: basic points and unit vectors of natural coordinates.

    Attributes:
        points: for each common point its coordinates in the frame of i and in that of j.
        vectors: for each common unit vector its components in both.
        rows: the rows of Φ that do not follow from these.
    """

    points: tuple = ()
    vectors: tuple = ()
    rows: tuple[int, ...] = eqx.field(static=True, default=())


class AbstractConstraint(Structured):
    """One residual function Φ of the poses of two bodies and of time; Φ = 0 is the constraint.

    A subclass declares `i` and `j` (names of bodies, or "ground") as fields or properties, and the class attributes
    `dimension` (2 plane, 3 space), `rows` (length of Φ) and `extra` (names of the coordinates it brings along, all of
    them angles, such as those of a cam's contact). Jacobian and right-hand sides follow by differentiation.

    Attributes:
        length_fields: names of fields that hold lengths or positions. The size of the mechanism is computed from them;
            names that an element does not have are ignored.
    """

    dimension: ClassVar[int]
    rows: ClassVar[int]
    extra: ClassVar[tuple[str, ...]] = ()
    length_fields: ClassVar[tuple[str, ...]] = LENGTHS

    if TYPE_CHECKING:

        @property
        def i(self) -> str: ...

        @property
        def j(self) -> str: ...

    @abc.abstractmethod
    def residual(self, i, j, t: Float[Array, ""], *extra: Float[Array, ""]) -> Float[Array, " rows"]:
        """Φ for the pose `i` of the first body, the pose `j` of the second, the time, and the extra coordinates."""

    def components(self, i, force, torque) -> Float[Array, " c"]:
        """Force and torque of the ground frame as numbers in the frame of the joint, or else of body i; `i` is its pose."""
        return i.wrench(force, torque)

    @property
    def freedom(self) -> int | None:
        """For a joint that may carry body j on body i in a tree the number of its relative velocities; None for what
        merely constrains two bodies."""
        return None

    def anonymous(self) -> AbstractConstraint:
        """The same without the names of its bodies: elements that are alike are then the same code."""
        leaves, tree = jax.tree.flatten(self)
        same = jax.tree.unflatten(tree, leaves)
        for field in dataclasses.fields(same):
            if field.metadata.get("static") and isinstance(getattr(same, field.name), str):
                object.__setattr__(same, field.name, "")
        return same

    @property
    def mobility(self) -> Mobility:
        """The relative coordinates of a joint."""
        raise TypeError(f"{type(self).__name__} is not a joint")

    @abc.abstractmethod
    def relative(self, *, angles: bool, swapped: bool = False) -> Mobility:
        """The coordinates of body j relative to body i at the places of a joint, as if it held nothing: translations of
        point_j from point_i along the axes of the joint frame on i, or of body i, then the rotation.

        angles: by orientation angles, or else Euler parameters, where there are such. swapped: of body i relative to j.
        """

    def guide(self, mobility: Mobility, swapped: bool) -> tuple[int, AbstractMotion] | None:
        """Which of the coordinates of a joint between the same bodies follows from the motion of a driver, whatever the
        others are, and how it moves; None for no driver, or for none of them. swapped: whether its i is the joint's j."""
        del mobility, swapped
        return None

    @property
    def shared(self) -> Shared:
        """Points and unit vectors that the bodies have in common wherever Φ = 0, and the rows of Φ that remain; how many,
        and which, is structure. Nothing and all rows, unless a joint says so."""
        return Shared(rows=tuple(range(self.rows)))

    def push(self, i, j, *extra: Float[Array, ""]) -> Float[Array, " d"] | None:
        """The direction, in the ground frame, in which body i can push body j in a one-sided contact.

        None for elements that can pull as well.
        """
        del i, j, extra
        return None

    def within(self, *extra: Float[Array, ""]) -> Bool[Array, ""] | None:
        """True where a contact is on the parts of its outlines that are meant to touch; None if they have no such parts."""
        del extra
        return None

    @property
    def lacks_marks(self) -> bool:
        """True for a gear whose marks are measured in the first configuration of an analysis; see `drawn_marks`."""
        return False

    def drawn_marks(self, i, j, *extra: Float[Array, ""]) -> tuple[list[Array], tuple[Array, ...]]:
        """Return angle_i and angle_j of a gear that meshes at the poses i and j, and its extra coordinates there.

        Extra coordinates are chosen near those given.
        """
        raise TypeError(f"{type(self).__name__} has no marks")

    @property
    def motions(self) -> list[AbstractMotion]:
        """The motions that it prescribes, in order."""
        return [x for x in jax.tree.leaves(self, is_leaf=_is_motion) if _is_motion(x)]

    def with_motions(self, motions) -> AbstractConstraint:
        """The same with other motions."""
        leaves, tree = jax.tree.flatten(self, is_leaf=_is_motion)
        rest = list(motions)
        return jax.tree.unflatten(tree, [rest.pop(0) if _is_motion(x) else x for x in leaves])

    def check_at(self, times: Float[np.ndarray, " T"]) -> None:
        """Raise `ValueError` with the reason if a motion asks for something impossible at one of these times."""

    def check(self) -> None:
        """Raise `ValueError` with the reason if the element cannot be used: wrong shapes, numbers not finite, …"""
        check_fields(self)
        require(getattr(self, "motion", ()) is not None, "motion is missing")
        check_motions(self)


class MarkedConstraint(AbstractConstraint):
    """Gears: bodies that roll on each other. Marks at angle_i on body i and angle_j on body j touch in some position.

    If neither angle is given, the marks are measured in the first configuration of an analysis: there the gears mesh. If
    one is given, the other is zero.
    """

    if TYPE_CHECKING:

        @property
        def angle_i(self) -> Array | None: ...

        @property
        def angle_j(self) -> Array | None: ...

    @property
    def lacks_marks(self):
        return self.angle_i is None and self.angle_j is None

    @property
    def marks(self) -> tuple[Any, Any]:
        """angle_i and angle_j.

        Raises:
            ValueError: the marks have not been given or measured.
        """
        require(
            not self.lacks_marks,
            "the marks of a gear are not known: give angle_i and angle_j, or use mbs.with_marks(mech, guess)",
        )
        angle_i, angle_j = (0.0 if angle is None else angle for angle in (self.angle_i, self.angle_j))
        return angle_i, angle_j


class MeasuredConstraint(AbstractConstraint):
    """One quantity measured between two poses has a given value: Φ = measure − prescribed value.

    A joint with the value held and the driver of the same quantity share its `measure`.
    """

    rows: ClassVar[int] = 1

    @abc.abstractmethod
    def measure(self, i, j) -> Float[Array, ""]:
        """The quantity for the poses of the two bodies."""

    @abc.abstractmethod
    def prescribed(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Its value at a time."""

    def residual(self, i, j, t):
        return (self.measure(i, j) - self.prescribed(t))[None]


def _is_motion(x) -> bool:
    return isinstance(x, AbstractMotion)


def require(condition, reason: str) -> None:
    """Raise `ValueError(reason)` unless `condition` holds."""
    if not condition:
        raise ValueError(reason)


def check_positive(element, *names: str) -> None:
    """Raise `ValueError` for a field, a number or an array, that is known and not positive."""
    for name, value in _known(element, names):
        require(np.all(np.asarray(value) > 0), f"{name} must be positive, got {value}")


def check_stays_positive(motion: AbstractMotion, times: Float[np.ndarray, " T"]) -> None:
    """Raise `ValueError` for a driven distance that is zero or negative at one of these times."""
    values = jax.vmap(motion)(jax.device_put(times))
    if not is_concrete(values):  # inside jit even constants are traced
        return
    k = int(np.argmax(np.asarray(values) <= 0))
    require(values[k] > 0, f"the distance must stay positive, got {float(values[k]):.6g} at t = {float(times[k]):.6g}")


def distance_squared(distance: Float[Array, ""]) -> Float[Array, ""]:
    """C |C| of a driven distance C: C², but negative where C is, so that no configuration satisfies it."""
    return distance * jnp.abs(distance)


def check_mass(body) -> None:
    """Raise `ValueError` if the mass of a body is known and not positive, unless a plain 0 was given to its constructor."""
    if not body.weightless:
        check_positive(body, "mass")


def check_not_negative(element, *names: str) -> None:
    """Raise `ValueError` for a field, a number or an array, that is known and negative."""
    for name, value in _known(element, names):
        require(np.all(np.asarray(value) >= 0), f"{name} must not be negative, got {value}")


def _known(element, names: Iterable[str]) -> list[tuple[str, Any]]:
    """Names of fields as a user writes them, and their values, where these are known numbers."""
    values = ((name.removeprefix("_"), getattr(element, name)) for name in names)
    return [(name, value) for name, value in values if value is not None and is_concrete(value)]


@contextlib.contextmanager
def errors_of(what: str, kind: type[ValueError] = ValueError) -> Iterator[None]:
    """What raises `ValueError` inside says what it is of, as an error of some kind."""
    try:
        yield
    except ValueError as error:
        raise kind(f"{what}: {error}") from None


def check_motions(element) -> None:
    """Raise `ValueError` for a motion in a field of an element that cannot be used."""
    for name, value in vars(element).items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, AbstractMotion):
                with errors_of(name):
                    part.check()


# Packages whose frames lie between the user's line and a constructor.
BETWEEN = frozenset({"jaxmbs", "equinox", "jaxtyping", "beartype"})


def renamed(old: str, new: str) -> None:
    """Warn that an argument or an attribute is used under its old name, in the user's line."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in BETWEEN:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"{old} is deprecated: write {new}", DeprecationWarning, stacklevel=depth)


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """A message for a name that does not exist, with the nearest one that does."""
    names = list(names)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names)) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"
