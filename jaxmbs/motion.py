"""Prescribed motions: scalar functions of time whose parameters are numbers that can be batched and differentiated.

A motion is called with the time and gives the value; its rate and acceleration come from differentiation, so a motion
should be twice continuously differentiable.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.numerics.arrays import as_pytree, check_fields, check_function, is_concrete, real, row
from jaxmbs.numerics.curves import cubic_spline


class AbstractMotion(eqx.Module):
    """A function of time C(t) with parameters, twice continuously differentiable. A subclass defines `__call__`.

    Examples:
        >>> class Square(mbs.motion.AbstractMotion):
        ...     def __call__(self, t):
        ...         return t**2
        >>> print(Square()(3.0))
        9.0
    """

    @abc.abstractmethod
    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Return C(t)."""

    def check(self) -> None:
        """Raise `ValueError` if the parameters have wrong shapes or are not finite."""
        check_fields(self)


class Constant(AbstractMotion):
    """A constant: C(t) = value.

    Args:
        value: a number; an angle in radians.

    Examples:
        >>> print(mbs.motion.Constant(0.3)(5.0))
        0.3
    """

    value: Array = real()

    def __call__(self, t: Array) -> Array:
        """Return the constant value, of the shape and type of t."""
        return self.value + 0 * t


class Ramp(AbstractMotion):
    """A ramp: C(t) = start + rate·t.

    Args:
        rate: Ċ, per unit of time.
        start: C(0).

    Examples:
        >>> print(mbs.motion.Ramp(rate=2.0, start=1.0)(0.5))
        2.0
    """

    rate: Array = real()
    start: Array = real(default=0.0)

    def __call__(self, t: Array) -> Array:
        """Return start + rate·t."""
        return self.start + self.rate * t


class Shifted(AbstractMotion):
    """Another motion, scaled and shifted: C(t) = scale·motion(t) + offset.

    Args:
        motion: another motion.
        scale: factor of the motion.
        offset: in units of C.

    Examples:
        >>> print(mbs.motion.Shifted(mbs.motion.Ramp(1.0), scale=-2.0, offset=1.0)(3.0))
        -5.0
    """

    motion: AbstractMotion
    scale: Array = real(default=1.0)
    offset: Array = real(default=0.0)

    def __call__(self, t: Array) -> Array:
        """Return scale·motion(t) + offset."""
        return self.scale * self.motion(t) + self.offset


class Polynomial(AbstractMotion):
    """A polynomial: C(t) = c₀ + c₁ t + c₂ t² + ….

    Args:
        coefficients: (n,), in rising order.

    Examples:
        >>> print(mbs.motion.Polynomial((1.0, 0.0, 3.0))(2.0))
        13.0
    """

    coefficients: Array = row()

    def __call__(self, t: Array) -> Array:
        """Return the polynomial at the time t, by Horner's scheme."""
        value = jnp.zeros_like(t)
        for k in reversed(range(self.coefficients.shape[0])):
            value = value * t + self.coefficients[k]
        return value


class Harmonic(AbstractMotion):
    """A harmonic motion: C(t) = offset + amplitude·sin(frequency·t + phase).

    Args:
        amplitude: largest distance from the offset.
        frequency: radians per unit of time.
        phase: radians.
        offset: mean value.

    Examples:
        >>> print(mbs.motion.Harmonic(amplitude=2.0, frequency=jnp.pi, offset=1.0)(0.5))
        3.0
    """

    amplitude: Array = real()
    frequency: Array = real()
    phase: Array = real(default=0.0)
    offset: Array = real(default=0.0)

    def __call__(self, t: Array) -> Array:
        """Return offset + amplitude·sin(frequency·t + phase)."""
        return self.offset + self.amplitude * jnp.sin(self.frequency * t + self.phase)


class Spline(AbstractMotion):
    """A motion through given values: C(t) is a C² cubic spline with not-a-knot ends.

    Args:
        times: (n,), increasing, at least two.
        values: (n,), C at these times.

    Examples:
        >>> rise = mbs.motion.Spline(times=(0.0, 1.0, 2.0, 3.0), values=(0.0, 1.0, 8.0, 27.0))
        >>> print(rise(1.5).round(6))
        3.375
    """

    times: Array = row()
    values: Array = row()

    def __call__(self, t: Array) -> Array:
        """Return the value of the spline at the time t."""
        return cubic_spline(jnp.asarray(self.times), jnp.asarray(self.values), t)

    def check(self) -> None:
        """Raise `ValueError` unless times and values have the same length, at least 2, and the times increase."""
        super().check()
        if self.times.shape != self.values.shape or self.times.shape[0] < 2:
            raise ValueError(
                f"times and values must have the same length of at least 2, got {self.times.shape[0]} "
                f"and {self.values.shape[0]}"
            )
        if is_concrete(self.times) and not (np.diff(self.times) > 0).all():
            raise ValueError("times must increase")


class Function(AbstractMotion):
    """A function of time, C(t) = f(t).

    Numbers and JAX arrays that `f` closes over are differentiated too; NumPy arrays are constants.

    Args:
        f: a function of time, written in jax.numpy.

    Examples:
        >>> print(mbs.motion.Function(lambda t: jnp.exp(-t))(0.0))
        1.0
    """

    f: Callable[..., Any] = eqx.field(converter=as_pytree)

    def __call__(self, t: Array) -> Array:
        """Return f(t), of the type of t."""
        return jnp.asarray(self.f(t), jnp.result_type(t))

    def check(self) -> None:
        """Raise `ValueError` unless f is a function that takes a time."""
        if not callable(self.f):
            raise ValueError(f"f must be a function of time, got {self.f!r}")
        super().check()
        check_function(self.f, "f", ())


def as_motion(x: Any) -> AbstractMotion | None:
    """Return an argument as a motion. None is returned unchanged; the element's check reports it.

    Args:
        x: a motion, which is returned unchanged; a number, which becomes a `Constant`; or a function of time, which
            becomes a `Function`.

    Returns:
        The motion, a function of time.

    Examples:
        >>> print(mbs.motion.as_motion(2.0)(10.0))
        2.0
    """
    if x is None or isinstance(x, AbstractMotion):
        return x
    return Function(x) if callable(x) else Constant(x)


def motion_field(**kwargs: Any) -> Any:
    """Return a dataclass field for a motion. Numbers and functions of time are converted by `as_motion`.

    Args:
        **kwargs: see `equinox.field`.

    Returns:
        The field.

    Examples:
        >>> class Stop(planar.AbsoluteX):
        ...     motion: mbs.motion.AbstractMotion = mbs.motion.motion_field(default=0.0)
        >>> type(Stop("a", (0, 0)).motion).__name__
        'Constant'
    """
    return eqx.field(converter=as_motion, **kwargs)
