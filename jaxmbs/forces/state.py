"""A mechanism in motion, as forces see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, unknown
from jaxmbs.relative_motion import BodyMotion, JointMotion, coordinates_of, measured


class State(eqx.Module):
    """A mechanism in motion, as forces see it, with access by name for the functions of users.

    `state["rod"].point((0.1, 0))`, `.velocity((0.1, 0))`, `.angle` in the plane, `.rotation`, `.angular_velocity`: see
    `BodyMotion`. `state.joint("pin").angle`, `.rate`, `.slide`, `.slide_rate`: see `JointMotion`.

    Attributes:
        bodies, poses, velocities: by name; the poses and velocities with those of "ground".
        slices: entries of v for each body.
        t, q, v: time, coordinates and velocities of the whole mechanism.
        elements: its constraints and drivers by name.
    """

    bodies: Mapping[str, Any]
    poses: Mapping[str, Any]
    velocities: Mapping[str, Array]
    slices: Mapping[str, slice] = eqx.field(static=True)
    t: Float[Array, ""]
    q: Float[Array, " n"]
    v: Float[Array, " m"]
    elements: Mapping[str, AbstractConstraint]

    def __getitem__(self, body: str) -> BodyMotion:
        """A body in motion, or "ground".

        Raises:
            ValueError: an unknown name.
        """
        if body not in self.poses:
            raise ValueError(unknown("body", body, self.bodies))
        return BodyMotion(self.poses[body], self.velocities[body])

    def joint(self, name: str, coordinate: str | None = None) -> JointMotion:
        """Angle and slide of a joint, with their rates; arguments as in `Trajectory.joint`.

        Raises:
            ValueError: an unknown name; or, when it is asked for, an angle or a slide that the joint does not have.
        """
        of = coordinates_of(self.elements, name, coordinate)
        joint, kind = self.elements[name], type(next(iter(self.bodies.values())))
        ends = [(kind.coordinates_of(self.poses[body]), self.velocities[body]) for body in (joint.i, joint.j)]
        values, rates = measured(joint, kind, *ends)
        return JointMotion(of, values, rates)

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
