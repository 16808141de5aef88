"""Functions as functions of the values that they close over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jaxmbs.programs.runtime import jax_compat


def open_closure(f: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return (g, values) with f(*args) = g(values, *args): `values` is everything that `f` closes over.

    `f` returns one array. `g` keeps none of the values, so functions that compute the same have the same `g` in a trace.
    """
    closed = jax.make_jaxpr(f)(*args)
    inner = closed.jaxpr
    opened = jax_compat.closed_jaxpr(inner, invars=[*inner.constvars, *inner.invars]).jaxpr
    return lambda values, *args: jax.core.eval_jaxpr(opened, [], *values, *args)[0], list(closed.consts)


def convert_closure(f: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return `jax.closure_convert(f, *args)`: f as a function of its captured values, traced with default settings.

    These leave out the axes of a `shard_map`.
    """
    with jax_compat.default_settings():
        return jax.closure_convert(f, *args)
