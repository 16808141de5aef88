"""A mechanism in motion, as forces see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import GROUND


class State(eqx.Module):
    """A mechanism in motion, as forces see it.

    Attributes:
        bodies, poses, velocities: by name; the poses and velocities with those of "ground".
        slices: entries of q for each body.
        t, q, v: time, coordinates and velocities of the whole mechanism.
    """

    bodies: Mapping[str, Any]
    poses: Mapping[str, Any]
    velocities: Mapping[str, Array]
    slices: Mapping[str, slice] = eqx.field(static=True)
    t: Float[Array, ""]
    q: Float[Array, " n"]
    v: Float[Array, " n"]

    def generalized(self, loads: Mapping[str, Array]) -> Float[Array, " n"]:
        """Generalized forces of single bodies, by name, as one of the mechanism; what acts on the ground is left out."""
        total = jnp.zeros_like(self.v)
        for body, load in loads.items():
            if body != GROUND:
                total = total.at[self.slices[body]].add(load)
        return total


def opposite(state: State, i: str, on_i, j: str, on_j) -> Float[Array, " n"]:
    """The generalized force of loads on two bodies."""
    return state.generalized({i: on_i}) + state.generalized({j: on_j})
