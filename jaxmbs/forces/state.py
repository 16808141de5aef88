"""The state of a mechanism, from which forces are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, AbstractConstraint, require_name
from jaxmbs.relative_motion import BodyMotion, JointMotion, coordinates_of, measure_joint


class Along(NamedTuple):
    """One coordinate of a joint, for forces along it.

    Attributes:
        value: the angle in radians, or the slide; None for a component of an angular velocity.
        rate: its rate.
        push: (m,), the generalized force of an effort of one.
        angular: True for an angle.
        wraps: True for an angle whose turns are not counted, as in space.

    Examples:
        >>> brake = mbs.UserForce(lambda state: state.along("pin").generalized(-0.5 * state.along("pin").rate))
        >>> braked = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"brake": brake})
        >>> print(mbs.generalized_force(braked, below, jnp.array([3.0, 0, 3])))
        [ 0.   0.  -1.5]
    """

    value: Float[Array, ""] | None
    rate: Float[Array, ""]
    push: Float[Array, " m"]
    angular: bool
    wraps: bool

    def generalized(self, effort: Array | float) -> Float[Array, " m"]:
        """Return the generalized force (m,) of an effort (torque or force) along the coordinate."""
        return effort * self.push

    def measures(self, effort: Array) -> dict[str, Array]:
        """Return an effort as torque or force, the value as angle or length, and the rate, as in `ForceElement`."""
        names = ("torque", "angle") if self.angular else ("force", "length")
        measures = {names[0]: effort, names[1]: self.value, "rate": self.rate}
        return {name: measure for name, measure in measures.items() if measure is not None}

    def near(self, middle) -> Float[Array, ""]:
        """Return the value; an angle whose turns are not counted is within half a turn of `middle`."""
        assert self.value is not None
        return near_angle(self.value, middle) if self.angular and self.wraps else self.value


def near_angle(angle: Float[Array, ""], middle: Float[Array, ""]) -> Float[Array, ""]:
    """Return an angle plus the number of full turns that brings it within half a turn of `middle`."""
    beyond = angle - middle
    return middle + jnp.arctan2(jnp.sin(beyond), jnp.cos(beyond))


class State(eqx.Module):
    """The state of a mechanism, from which forces are computed, with access by name for users' functions.

    `state["rod"].point((0.1, 0))`, `.velocity((0.1, 0))`, `.angle` in the plane, `.rotation`, `.angular_velocity`: see
    `BodyMotion`. `state.joint("pin").angle`, `.rate`, `.slide`, `.slide_rate`: see `JointMotion`.

    Attributes:
        bodies: the bodies by name.
        poses: their poses by name, with that of "ground".
        velocities: their velocities by name, with those of "ground".
        slices: entries of v of each body.
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
        """Return the motion of a body, or of "ground".

        Raises:
            ValueError: an unknown name.
        """
        require_name("body", body, self.poses)
        return BodyMotion(self.poses[body], self.velocities[body])

    def joint(self, name: str, coordinate: str | None = None) -> JointMotion:
        """Return the angle and slide of a joint, with their rates.

        Args:
            name: name of the joint.
            coordinate: name of one of several angles or slides, as in `Trajectory.joint`.

        Returns:
            The angle in radians, the slide as a length, and their rates; see `JointMotion`. An angle or a slide that the
            joint does not have raises `ValueError` when it is read.

        Raises:
            ValueError: an unknown name, or an element without an angle or slide of its own.
        """
        of = coordinates_of(self.elements, name, coordinate)
        joint, kind = self.elements[name], type(next(iter(self.bodies.values())))
        i, j = ((kind.coordinates_of(self.poses[body]), self.velocities[body]) for body in (joint.i, joint.j))
        values, rates = measure_joint(joint, kind, i, j)
        return JointMotion(of, values, rates)

    def along(self, joint: str, coordinate: str | None = None) -> Along:
        """Return value and rate of one coordinate of a joint, and the generalized force of an effort along it.

        Args:
            joint: its name.
            coordinate: name of one of several angles or slides, as in `Trajectory.joint`; of a rotation without angles
                "wx", "wy" or "wz", a component of its angular velocity in the joint frame on body j.

        Returns:
            The value, in radians or a length, its rate, and the generalized force (m,) of a unit effort; see `Along`.

        Raises:
            ValueError: an unknown name, a joint without coordinates, or one with several of which none is named.
        """
        of = coordinates_of(self.elements, joint, coordinate, spins=True)
        k, element, kind = of.single_index(), self.elements[joint], type(next(iter(self.bodies.values())))
        x_i, x_j = (kind.coordinates_of(self.poses[body]) for body in (element.i, element.j))

        def rate_and_value(v_i, v_j):
            """Return rate and value of the chosen coordinate for velocities of the two bodies."""
            values, rates = measure_joint(element, kind, (x_i, v_i), (x_j, v_j), spins=of.of_spin)
            return rates[k], values[k]

        velocities = self.velocities[element.i], self.velocities[element.j]
        rate, transpose, value = jax.vjp(rate_and_value, *velocities, has_aux=True)
        on_i, on_j = transpose(jnp.ones_like(rate))
        push = opposite(self, element.i, on_i, element.j, on_j)
        return Along(None if of.of_spin else value, rate, push, of.of_spin or k >= len(of.slides), of.wraps)

    def acceleration_along(self, joint: str, coordinate: str | None, a: Float[Array, " m"]) -> Float[Array, ""]:
        """Return the second rate of one coordinate of a joint, as of `along`, for accelerations of the mechanism.

        Args:
            joint: its name.
            coordinate: as for `along`.
            a: accelerations (m,).

        Returns:
            ẍ, in radians or lengths per squared unit of time.

        Raises:
            ValueError: as for `along`.
        """
        of = coordinates_of(self.elements, joint, coordinate, spins=True)
        element, kind = self.elements[joint], type(next(iter(self.bodies.values())))
        rates = {GROUND: jnp.zeros_like(self.velocities[GROUND]), **{name: a[own] for name, own in self.slices.items()}}
        i, j = (
            (kind.coordinates_of(self.poses[body]), self.velocities[body], rates[body])
            for body in (element.i, element.j)
        )
        return measure_joint(element, kind, i, j, spins=of.of_spin)[2][of.single_index()]

    def generalized(self, loads: Mapping[str, Array]) -> Float[Array, " m"]:
        """Return the generalized force of the mechanism from those on single bodies.

        Args:
            loads: generalized forces by name of the body; those on the ground are left out.

        Returns:
            (m,), zero for all other bodies.
        """
        total = jnp.zeros_like(self.v)
        for body, load in loads.items():
            if body != GROUND:
                total = total.at[self.slices[body]].add(load)
        return total


def opposite(state: State, i: str, on_i: Any, j: str, on_j: Any) -> Float[Array, " m"]:
    """Return the generalized force (m,) of loads on two bodies. A load on the ground is left out.

    Args:
        state: the state of the mechanism.
        i: name of the first body.
        on_i: generalized force on it, conjugate to its velocities.
        j: name of the second body.
        on_j: generalized force on it.

    Returns:
        (m,), forces for translations and torques for rotations.

    Examples:
        >>> pull = lambda state: mbs.forces.opposite(
        ...     state, "ground", jnp.zeros(3), "a", state["a"].pose.force_at(jnp.zeros(2), jnp.array([2.0, 0.0]))
        ... )
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"pull": mbs.UserForce(pull)})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.zeros(3)))
        [2. 0. 0.]
    """
    return state.generalized({i: on_i}) + state.generalized({j: on_j})
