"""Prescribed motions: scalar functions of time whose parameters are numbers that can be batched and differentiated.

A motion is called with the time and gives the value; its rate and acceleration come from differentiation, so a motion
should be twice continuously differentiable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.numerics.arrays import as_pytree, check_fields, check_function, is_concrete, real, row
from jaxmbs.numerics.curves import cubic_spline


class AbstractMotion(eqx.Module):
    """A function C(t) with parameters."""

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        raise NotImplementedError

    def check(self) -> None:
        """Raise `ValueError` if the parameters are unusable."""
        check_fields(self)


class Constant(AbstractMotion):
    """C(t) = value."""

    value: Array = real()

    def __call__(self, t):
        return self.value + 0 * t


class Ramp(AbstractMotion):
    """C(t) = start + rate·t."""

    rate: Array = real()
    start: Array = real(default=0.0)

    def __call__(self, t):
        return self.start + self.rate * t


class Shifted(AbstractMotion):
    """C(t) = scale·motion(t) + offset, for another motion."""

    motion: AbstractMotion
    scale: Array = real(default=1.0)
    offset: Array = real(default=0.0)

    def __call__(self, t):
        return self.scale * self.motion(t) + self.offset


class Polynomial(AbstractMotion):
    """C(t) = c₀ + c₁ t + c₂ t² + …, `coefficients` in rising order."""

    coefficients: Array = row()

    def __call__(self, t):
        value = jnp.zeros_like(t)
        for k in reversed(range(self.coefficients.shape[0])):
            value = value * t + self.coefficients[k]
        return value


class Harmonic(AbstractMotion):
    """C(t) = offset + amplitude·sin(frequency·t + phase); `frequency` in radians per unit of time, `phase` in radians."""

    amplitude: Array = real()
    frequency: Array = real()
    phase: Array = real(default=0.0)
    offset: Array = real(default=0.0)

    def __call__(self, t):
        return self.offset + self.amplitude * jnp.sin(self.frequency * t + self.phase)


class Spline(AbstractMotion):
    """C(t) through `values` at increasing `times`: a C² cubic spline with not-a-knot ends."""

    times: Array = row()
    values: Array = row()

    def __call__(self, t):
        return cubic_spline(jnp.asarray(self.times), jnp.asarray(self.values), t)

    def check(self):
        check_fields(self)
        if self.times.shape != self.values.shape or self.times.shape[0] < 2:
            raise ValueError(
                f"times and values must have the same length of at least 2, got {self.times.shape[0]} "
                f"and {self.values.shape[0]}"
            )
        if is_concrete(self.times) and not (np.diff(self.times) > 0).all():
            raise ValueError("times must increase")


class Function(AbstractMotion):
    """C(t) = f(t) for any function written in jax.numpy. Numbers and arrays of JAX that `f` closes over are differentiated
    too, arrays of NumPy are constants."""

    f: Callable = eqx.field(converter=as_pytree)

    def __call__(self, t):
        return jnp.asarray(self.f(t), jnp.result_type(t))

    def check(self):
        if not callable(self.f):
            raise ValueError(f"f must be a function of time, got {self.f!r}")
        check_function(self.f, "f", ())


def as_motion(x: Any) -> AbstractMotion | None:
    """A motion as it is, a number as `Constant`, a function of time as `Function`; None stays, for a check to name it."""
    if x is None or isinstance(x, AbstractMotion):
        return x
    return Function(x) if callable(x) else Constant(x)


def motion_field(**kwargs: Any) -> Any:
    """A field of an element that holds a motion; numbers and functions of time become one."""
    return eqx.field(converter=as_motion, **kwargs)
