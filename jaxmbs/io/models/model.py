"""Mechanisms with the other data of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float

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
        jaxmbs.io.models.model.ModelError: arm.step: the name of a model must end in .json, .xml, .mjcf or .urdf
    """


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
    )


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
