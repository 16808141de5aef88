"""A mechanism in motion, as forces see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, unknown
from jaxmbs.relative_motion import BodyMotion, JointMotion, coordinates_of, measure_joint


class Along(NamedTuple):
    """One coordinate of a joint, as forces along it see it.

    Attributes:
        value: the angle in radians, or the slide.
        rate: its rate.
        push: (m,), the generalized force of an effort of one.
        angular: whether it is an angle.
        wraps: whether its turns are not known, as in space.

    Examples:
        >>> brake = mbs.UserForce(lambda state: state.along("pin").generalized(-0.5 * state.along("pin").rate))
        >>> braked = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"brake": brake})
        >>> print(mbs.generalized_force(braked, below, jnp.array([3.0, 0, 3])))
        [ 0.   0.  -1.5]
    """

    value: Float[Array, ""]
    rate: Float[Array, ""]
    push: Float[Array, " m"]
    angular: bool
    wraps: bool

    def generalized(self, effort) -> Float[Array, " m"]:
        """The generalized force (m,) of the mechanism from an effort along the coordinate."""
        return effort * self.push

    def near(self, middle) -> Float[Array, ""]:
        """The value, an angle whose turns are not known within half a turn from the middle."""
        if not (self.angular and self.wraps):
            return self.value
        beyond = self.value - middle
        return middle + jnp.arctan2(jnp.sin(beyond), jnp.cos(beyond))


class State(eqx.Module):
    """A mechanism in motion, as forces see it, with access by name for users' functions.

    `state["rod"].point((0.1, 0))`, `.velocity((0.1, 0))`, `.angle` in the plane, `.rotation`, `.angular_velocity`: see
    `BodyMotion`. `state.joint("pin").angle`, `.rate`, `.slide`, `.slide_rate`: see `JointMotion`.

    Attributes:
        bodies: the bodies by name.
        poses: their poses by name, with that of "ground".
        velocities: their velocities by name, with those of "ground".
        slices: entries of v for each body.
        t: time.
        q: coordinates of the whole mechanism, (n,).
        v: velocities of the whole mechanism, (m,).
        elements: its constraints and drivers by name.

    Examples:
        >>> def thrust(state):  # 4 along the x axis of the body, only below y = 0
        ...     return jnp.where(state["a"].point()[1] > 0, 0, 4) * state["a"].direction((1.0, 0.0))
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"thrust": mbs.PointForce("a", (0, 0), thrust)})
        >>> print(mbs.generalized_force(mech, {"a": (0, -1, jnp.pi / 2)}, jnp.zeros(3)).round(6))
        [0. 4. 0.]
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
        """Angle and slide of a joint, with their rates.

        Args:
            name: of the joint.
            coordinate: which of several angles or slides, as in `Trajectory.joint`.

        Raises:
            ValueError: an unknown name; or, when it is asked for, an angle or a slide that the joint does not have.
        """
        of = coordinates_of(self.elements, name, coordinate)
        joint, kind = self.elements[name], type(next(iter(self.bodies.values())))
        ends = [(kind.coordinates_of(self.poses[body]), self.velocities[body]) for body in (joint.i, joint.j)]
        values, rates = measure_joint(joint, kind, *ends)
        return JointMotion(of, values, rates)

    def along(self, joint: str, coordinate: str | None = None) -> Along:
        """Value and rate of one coordinate of a joint, and what an effort along it does to the bodies.

        Args:
            joint: its name.
            coordinate: which of several angles or slides, as in `Trajectory.joint`.

        Raises:
            ValueError: an unknown name; a joint without coordinates, or with several of which none is named.
        """
        of = coordinates_of(self.elements, joint, coordinate)
        k, element, kind = of.single_index(), self.elements[joint], type(next(iter(self.bodies.values())))
        ends = [kind.coordinates_of(self.poses[body]) for body in (element.i, element.j)]

        def moving(v_i, v_j):
            values, rates = measure_joint(element, kind, (ends[0], v_i), (ends[1], v_j))
            return rates[k], values[k]

        rate, back, value = jax.vjp(moving, self.velocities[element.i], self.velocities[element.j], has_aux=True)
        on_i, on_j = back(jnp.ones_like(rate))
        push = opposite(self, element.i, on_i, element.j, on_j)
        return Along(value, rate, push, k >= len(of.slides), of.wraps)

    def acceleration_along(self, joint: str, coordinate: str | None, a: Float[Array, " m"]) -> Float[Array, ""]:
        """The second rate of one coordinate of a joint, as of `along`, for accelerations of the mechanism.

        Args:
            joint, coordinate: as of `along`.
            a: accelerations (m,).
        """
        of = coordinates_of(self.elements, joint, coordinate)
        element, kind = self.elements[joint], type(next(iter(self.bodies.values())))
        rates = {GROUND: jnp.zeros_like(self.velocities[GROUND]), **{name: a[at] for name, at in self.slices.items()}}
        ends = [
            (kind.coordinates_of(self.poses[body]), self.velocities[body], rates[body])
            for body in (element.i, element.j)
        ]
        return measure_joint(element, kind, *ends)[2][of.single_index()]

    def generalized(self, loads: Mapping[str, Array]) -> Float[Array, " n"]:
        """The generalized force (m,) of the mechanism from those of single bodies, `loads` by name. Those on the ground
        are left out.
        """
        total = jnp.zeros_like(self.v)
        for body, load in loads.items():
            if body != GROUND:
                total = total.at[self.slices[body]].add(load)
        return total


def opposite(state: State, i: str, on_i: Any, j: str, on_j: Any) -> Float[Array, " n"]:
    """The generalized force (m,) of loads on two bodies.

    Args:
        state: the mechanism in motion.
        i, j: names of the bodies. What acts on the ground is left out.
        on_i, on_j: the generalized forces on them, conjugate to their velocities.

    Examples:
        >>> pull = lambda state: mbs.forces.opposite(
        ...     state, "ground", jnp.zeros(3), "a", state["a"].pose.force_at(jnp.zeros(2), jnp.array([2.0, 0.0]))
        ... )
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"pull": mbs.UserForce(pull)})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.zeros(3)))
        [2. 0. 0.]
    """
    return state.generalized({i: on_i}) + state.generalized({j: on_j})
