"""Mechanisms with the other data of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxmbs.element import GROUND
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.system.mechanism import DefaultGuess, Mechanism, Named

# Ranges (lower, upper) of joints by name, in radians or units of length.
Limits = Mapping[str, tuple[float, float]]


# Units of length that a model may declare. Masses, times and forces are in any units consistent with it.
LENGTH_UNITS = ("m", "mm", "cm", "in", "ft")
# Euler parameters stay unchanged if normalising them would change them by less, in units of the last place.
MAX_ROUNDING_ULP = 8


class ModelError(ValueError):
    """A file cannot be read or written as a model. The message is one line.

    Examples:
        >>> mbs.load("arm.step")
        Traceback (most recent call last):
        jaxmbs.io.models.model.ModelError: arm.step: the name of a model must end in .json, .xml, .mjcf,
        .urdf, .sdf, .asmt or .FCStd
    """


class BodyFrame(NamedTuple):
    """A frame of a spatial body, or of the ground.

    Attributes:
        body: name of the body, or "ground".
        origin: (3,), in the frame of the body.
        axes: 3×3, columns are the axes of the frame in the frame of the body.
    """

    body: str
    origin: Any
    axes: Any


class Model(Mechanism):
    """A mechanism together with the other data of its file.

    It is used like any other mechanism and has the same leaves; the other data are static. `guess` is the default guess
    of all functions that take one.

    Args:
        bodies: bodies by name; see `Mechanism`.
        constraints: constraints by name.
        drivers: drivers by name.
        forces: forces by name.
        guess: a configuration (n,), or a mapping of names to coordinates; see `Mechanism.coordinates`.
        velocities: velocities (m,) at that configuration, or a mapping. `simulate` keeps them.
        name: name of the model.
        limits: ranges of joints by name: (lower, upper) in radians or in units of length. They are only stored and
            written; the force that stops a joint is a `JointStop`.
        unit: unit of length, one of "m", "mm", "cm", "in", "ft". Numbers are never converted.
        passed_over: elements of a file that the model does not represent, a sentence for each kind.
        frames: frames by name that no body has, such as those of links that are part of the ground: a `BodyFrame` each,
            or body, origin and axes.

    Raises:
        ValueError: an element that cannot be used; a limit without a constraint of this name; a guess of the wrong size,
            or one that is traced.

    Examples:
        >>> model = mbs.Model(mech.bodies, mech.constraints, mech.drivers, guess=guess, name="engine", unit="mm")
        >>> print(mbs.assemble(model).q[6].round(6))  # from the guess of the model
        3.0
    """

    _default_guess: DefaultGuess = eqx.field(static=True)
    name: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    passed_over: tuple[str, ...] = eqx.field(static=True)
    _limits: tuple[tuple[str, float, float], ...] = eqx.field(static=True)
    # Names, bodies, origins and axes.
    _frames: tuple[tuple[str, str, tuple, tuple], ...] = eqx.field(static=True)

    def __init__(
        self,
        bodies: Named,
        constraints: Named = (),
        drivers: Named = (),
        forces: Named = (),
        *,
        guess=None,
        velocities=None,
        name: str = "",
        limits: Limits | None = None,
        unit: str = "m",
        passed_over: Sequence[str] = (),
        frames: Mapping[str, tuple[str, Any, Any]] | None = None,
    ):
        super().__init__(bodies, constraints, drivers, forces)
        single = {*self.layout.coordinates, *self.layout.velocities}
        clash = [body for body in (*self.bodies, *self.constraints) if body in single]
        if clash:
            raise ValueError(f"name {clash[0]!r}: is also the name of a coordinate; choose another")
        for joint, (low, high) in (limits or {}).items():
            if joint not in self.constraints:
                raise ValueError(f"limits: no constraint is called {joint!r}")
            if not low <= high:
                raise ValueError(f"limits: those of {joint!r} must be (lower, upper), got {low} and {high}")
        for frame, (body, _, _) in (frames or {}).items():
            if body != GROUND and body not in self.bodies:
                raise ValueError(f"frames: {frame!r} is on {body!r}, but no body has this name")
        if unit not in LENGTH_UNITS:
            raise ValueError(f"unit must be one of {', '.join(LENGTH_UNITS)}, got {unit!r}")
        q = _concrete("guess", _as_given(self.layout, self.coordinates(guess), guess))
        v = _concrete("velocities", self.velocities(velocities))
        moving = any(v) and not isinstance(velocities, Mapping)
        self._default_guess = DefaultGuess(
            q, v, (True,) * self.layout.m if moving else self.named_velocities(velocities)
        )
        self.name, self.unit, self.passed_over = name, unit, tuple(passed_over)
        self._limits = tuple((joint, float(low), float(high)) for joint, (low, high) in (limits or {}).items())
        self._frames = tuple(
            (frame, body, _numbers(origin, (3,)), _numbers(axes, (3, 3)))
            for frame, (body, origin, axes) in (frames or {}).items()
        )

    @property
    def guess(self) -> Float[np.ndarray, " n"]:
        """The configuration to start from, (n,)."""
        return np.array(self._default_guess.q, self.dtype)

    @property
    def velocity(self) -> Float[np.ndarray, " m"]:
        """The velocities at this configuration, (m,)."""
        return np.array(self._default_guess.v, self.dtype)

    @property
    def velocity_by_name(self) -> dict[str, float]:
        """The given velocities by name."""
        names = zip(self.layout.velocities, self._default_guess.v, self._default_guess.named or (), strict=False)
        return {name: value for name, value, named in names if named}

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Ranges (lower, upper) of joints by name, in radians or units of length."""
        return {joint: (low, high) for joint, low, high in self._limits}

    @property
    def frames(self) -> dict[str, BodyFrame]:
        """Frames by name: those of the bodies, such as links that are part of another, and those on the ground.

        Examples:
            >>> from jaxmbs import spatial
            >>> arm = spatial.Body(frames={"tip": spatial.Frame((0.5, 0, 0))})
            >>> model = mbs.Model({"arm": arm}, {"hip": spatial.Revolute("ground", "arm")})
            >>> print(model.frames["tip"].body, model.points["tip"][1])
            arm [0.5 0.  0. ]
        """
        on_bodies = {
            name: BodyFrame(body, frame.origin, frame.axes)
            for body, element in self.bodies.items()
            for name, frame in getattr(element, "frames", {}).items()
        }
        return self.given_frames | on_bodies

    @property
    def given_frames(self) -> dict[str, BodyFrame]:
        """Frames by name that were given to the model, without those of its bodies."""
        return {
            name: BodyFrame(body, np.array(origin, self.dtype), np.array(axes, self.dtype))
            for name, body, origin, axes in self._frames
        }

    @property
    def points(self) -> dict[str, tuple[str, Any]]:
        """Origins of the frames by name: the body and the point (3,) in its frame, as elements take them."""
        return {name: (frame.body, frame.origin) for name, frame in self.frames.items()}

    def drive(self, name: str, motion) -> Model:
        """Return the model with a joint that follows a motion.

        The driver is called "hip drive" for a joint "hip". It replaces all other drivers between the two bodies of
        the joint, and actuators, motors, servos and stops of this joint; springs, dampers and friction stay, and the
        driver acts against them.

        Args:
            name: a hinge, a slide or a screw; or a joint whose position follows three motions, such as that of a mocap
                body of MJCF.
            motion: its coordinate, in radians or units of length: a motion, a number or a function of time. Three of
                them for x, y and z of a mocap body.

        Returns:
            a `Model` with the same data.

        Raises:
            ValueError: no such joint, or one that is not a hinge, slide or screw.

        Examples:
            >>> model = mbs.Model(pendulum.bodies, pendulum.constraints, forces=pendulum.forces, guess=below)
            >>> driven = model.drive("pin", mbs.motion.Ramp(rate=2.0))
            >>> list(driven.drivers), list(driven.release("pin").drivers)
            (['pin drive'], [])
        """
        from jaxmbs.io.models.changes import drive

        return drive(self, name, motion)

    def release(self, name: str) -> Model:
        """Return the model without a driver, or without all drivers between the two bodies of a joint.

        Args:
            name: a driver, or a joint that drivers move.

        Returns:
            a `Model` with the same data.

        Raises:
            ValueError: no such driver, and no driver between the bodies of a joint of this name.

        Examples:
            >>> model = mbs.Model(mech.bodies, mech.constraints, mech.drivers, mech.forces, guess=guess)
            >>> list(model.release("motor").drivers)
            []
        """
        from jaxmbs.io.models.changes import release

        return release(self, name)

    def without(self, *names: str) -> Model:
        """Return the model without elements, and without those that need them.

        Without a joint, its stops, actuators and other forces are left out; without a body, everything that is connected
        to it.

        Args:
            names: bodies, constraints, drivers or forces.

        Returns:
            a `Model` with the data that apply to the rest.

        Raises:
            ValueError: no element has such a name, or no body is left.

        Examples:
            >>> model = mbs.Model(pendulum.bodies, pendulum.constraints, forces=pendulum.forces, guess=below)
            >>> list(model.without("pin").constraints)
            []
        """
        from jaxmbs.io.models.changes import without

        return without(self, names)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism without the other data."""
        return Mechanism(self.bodies, self.constraints, self.drivers, self.forces)


def model_of(mech: Mechanism, guess=None, velocities=None, name: str | None = None) -> Model:
    """Return a mechanism as a model. A guess, velocities or a name replace those of a `Model`."""
    elements = mech.bodies, mech.constraints, mech.drivers, mech.forces
    if not isinstance(mech, Model):
        return Model(*elements, guess=guess, velocities=velocities, name=name or "")
    return Model(
        *elements,
        guess=mech.guess if guess is None else guess,
        velocities=mech.velocity_by_name if velocities is None else velocities,
        name=mech.name if name is None else name,
        limits=mech.limits,
        unit=mech.unit,
        passed_over=mech.passed_over,
        frames=mech.given_frames,
    )


def _numbers(values, shape: tuple[int, ...]) -> tuple:
    """Return an array as nested tuples; raise `ValueError` if it has another shape."""
    values = np.asarray(values, float)
    if values.shape != shape:
        raise ValueError(f"frames: origins have shape (3,) and axes (3, 3), got {values.shape}")
    return tuple(map(tuple, values.tolist())) if len(shape) == 2 else tuple(values.tolist())


def _concrete(name: str, values) -> tuple[float, ...]:
    """Return values as a tuple of floats; raise `ValueError` if they are traced."""
    if not is_concrete(values):
        raise ValueError(f"{name} of a model must be concrete numbers, not traced")
    return tuple(np.asarray(values, float).tolist())


def _as_given(layout, q, guess):
    """Return the given coordinates if `q` differs from them only by the rounding of normalised Euler parameters, else q.

    So a model that is written and read again does not change.
    """
    if isinstance(guess, Mapping):
        given = np.array(layout.rest, float)
        for name, value in guess.items():
            if not is_concrete(value):
                return q
            given[layout.entries(name)[0]] = np.asarray(value)
    else:
        given = getattr(guess, "q", guess)
    if given is None or not is_concrete(given) or not is_concrete(q):
        return q
    given, q = np.asarray(given).astype(q.dtype), np.asarray(q)
    near = np.abs(given - q) <= MAX_ROUNDING_ULP * np.finfo(q.dtype).eps
    return given if given.shape == q.shape and np.all(near) else q
