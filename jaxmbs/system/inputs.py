"""Arguments of an analysis, checked and converted once."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from jaxmbs.element import AbstractConstraint, errors_of
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Coordinates, Mechanism


def analysis_inputs(
    mech: Mechanism, guess: Coordinates | None, times: ArrayLike | Sequence[float]
) -> tuple[Mechanism, Float[Array, " n"], Float[Array, "*T"]]:
    """Return a mechanism with the marks of its gears measured in the guess, the guess as q, and the times.

    The last two are arrays of one floating-point type. An unknown name, a wrong shape, or a motion that is impossible at
    one of the times raises `ValueError`.
    """
    q = mech.coordinates(guess)
    times = as_times(times, q.dtype)
    dtype = jnp.result_type(q, times)
    times = times.astype(dtype)
    check_motions_at(mech, times)
    return *measure_marks(mech, q.astype(dtype)), times


def motion_inputs(
    mech: Mechanism, guess: Coordinates | None, times: ArrayLike | Sequence[float]
) -> tuple[Mechanism, Float[Array, " n"], Float[Array, " T"]]:
    """Return the results of `analysis_inputs` for an analysis over time.

    Raises:
        ValueError: also for times of another shape than (T,) with T ≥ 1.
    """
    times = jnp.asarray(times)
    if times.ndim != 1 or times.shape[0] == 0:
        raise ValueError(f"times must be a row of at least one time, got shape {times.shape}")
    return analysis_inputs(mech, guess, times)


def as_times(times: ArrayLike | Sequence[float], dtype: DTypeLike) -> Float[Array, "*T"]:
    """Return times as an array of the mechanism's floating-point type `dtype`, or of a wider one that they have."""
    times = jnp.asarray(times)
    if not jnp.issubdtype(times.dtype, jnp.floating):
        return times.astype(dtype)
    return times.astype(jnp.result_type(dtype, times)) if times.dtype != np.dtype(dtype) else times


def check_motions_at(mech: Mechanism, times: Float[Array, "*T"]) -> None:
    """Raise `ValueError` for an element whose motion is impossible at one of these times.

    Elements and times that are traced are not checked.
    """
    if not is_concrete(times):
        return
    for kind, group in (("constraint", mech.constraints), ("driver", mech.drivers)):
        for name, element in group.items():
            if type(element).check_at is not AbstractConstraint.check_at and all(
                map(is_concrete, jax.tree.leaves(element))
            ):
                with errors_of(f"{kind} {name!r} ({type(element).__name__})"):
                    element.check_at(np.atleast_1d(np.asarray(times)))
