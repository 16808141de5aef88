"""Records of measured signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from jaxmbs.numerics.arrays import is_concrete


@dataclass(frozen=True, eq=False)
class Record:
    """Signals of one run, measured at the same times.

    Args:
        times: (T,), increasing; the run starts at the first.
        signals: name ↦ values (T,). Names are those of quantities, such as "rocker.phi", "velocity.crank.phi",
            "acceleration.slider.x", "point(rod,0.3,0).y", "motor.effort", "B.force", unless `measure` gives others.
        deviations: the standard deviation of the noise, one number for all signals or a mapping of their names; None: it
            is estimated from the residuals.
        start: the configuration at the start, as of `simulate`; or a function of the parameters that gives it.
        velocities: the velocities at the start, likewise.

    Raises:
        ValueError: times do not increase, a signal has another length, values are not finite numbers, or a deviation is not
            positive; the message names the signal.

    Examples:
        >>> run = mbs.Record([0.0, 0.1, 0.2], {"bob.phi": [1.57, 1.52, 1.38]}, 0.01, start={"bob": (1, 0, jnp.pi / 2)})
        >>> print(run.times.shape, sorted(run.signals))
        (3,) ['bob.phi']
    """

    times: Any
    signals: Mapping[str, ArrayLike]
    deviations: Any = None
    start: Any = None
    velocities: Any = None

    def __post_init__(self):
        if not isinstance(self.signals, Mapping):
            raise ValueError(f"signals must be a mapping of names to values, got {type(self.signals).__name__}")
        if not all(is_concrete(x) for x in (self.times, *self.signals.values())):
            raise ValueError("times and signals of a record must be known numbers, not values traced by JAX")
        times = np.asarray(self.times, float)
        if times.ndim != 1 or len(times) < 2 or not np.all(np.isfinite(times)) or not np.all(np.diff(times) > 0):
            raise ValueError("times of a record must be a row of at least two finite numbers that increase")
        if not self.signals:
            raise ValueError("a record needs at least one signal")
        signals = {name: _signal(name, values, len(times)) for name, values in self.signals.items()}
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "signals", signals)
        object.__setattr__(self, "deviations", _deviations(self.deviations, signals))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the signals."""
        return tuple(self.signals)

    @property
    def values(self) -> np.ndarray:
        """All signals (T, signals): one column for each, a scalar, in the order of `signals`."""
        return np.stack(list(self.signals.values()), axis=1)


def _signal(name: str, values, count: int) -> np.ndarray:
    """Return the values of a measured signal, checked to be `count` finite numbers, as an array (count,)."""
    try:
        signal = np.asarray(values, float)
    except (TypeError, ValueError):
        raise ValueError(f"signal {name!r} must be numbers, got {values!r}") from None
    if signal.shape != (count,):
        raise ValueError(f"signal {name!r} must have {count} values, one for each time, got shape {signal.shape}")
    not_finite = np.flatnonzero(~np.isfinite(signal))
    if not_finite.size:
        raise ValueError(f"signal {name!r} has no finite number at place {not_finite[0]}: leave such times out")
    return signal


def _deviations(given, signals: Mapping) -> dict[str, float] | None:
    """Return the standard deviation of each signal by name, from one number for all or a mapping; None if not given."""
    if given is None:
        return None
    deviations = dict(given) if isinstance(given, Mapping) else dict.fromkeys(signals, given)
    for name in deviations:
        if name not in signals:
            raise ValueError(f"deviations name {name!r}, which is not a signal; there are {', '.join(signals)}")
    for name in signals:
        if name not in deviations:
            raise ValueError(f"signal {name!r} has no deviation, but others have")
        value = deviations[name]
        if isinstance(value, str) or not (np.ndim(value) == 0 and np.isfinite(value) and value > 0):
            raise ValueError(f"the deviation of {name!r} must be a positive number, got {value!r}")
    return {name: float(deviations[name]) for name in signals}
