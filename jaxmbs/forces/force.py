"""Base class of forces on the bodies of a mechanism, in the plane and in space."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import AbstractConstraint, check_motions, require
from jaxmbs.forces.state import State
from jaxmbs.forces.values import check_law, laws_of
from jaxmbs.numerics.arrays import Structured, check_fields, is_concrete


class ForceElement(eqx.Module):
    """Force, length, power, … of a force element in a state, or along a motion.

    Along a motion every number has an axis of time, and those of a batch. Attributes that a force does not have are None.

    Attributes:
        power: Q·v, its power into the mechanism; negative for a spring that is being stretched.
        potential: its potential energy; zero for a force that has none.
        force: a number between two points, positive where it pulls them together; for an `AxialSpring` the force along
            the axis, on body j; for a `PointForce` the vector in the ground frame.
        torque: on body j, a number about the common axis of two bodies; for a `Torque` on its body, in space a vector
            in the ground frame.
        length: distance of the two points, or the slide along the axis.
        angle: of body j relative to body i, in radians.
        rate: of the length or angle.
        current: of a motor.

    Examples:
        >>> spring = mbs.Spring("ground", "a", (0, 0), (0, 0), stiffness=10.0, free_length=1.0)
        >>> push = planar.AbsoluteXDriver("a", (0, 0), mbs.motion.Ramp(rate=0.5, start=3.0))
        >>> rest = {"y": planar.AbsoluteY("a", (0, 0)), "phi": planar.AbsoluteAngle("a", 0.0)}
        >>> mech = mbs.Mechanism({"a": planar.Body()}, rest, {"push": push}, {"spring": spring})
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, 1.0]), {"a": (3, 0, 0)})
        >>> element = mbs.force_elements(mech, motion)["spring"]
        >>> print(element.force.round(6), element.power.round(6))
        [20. 25.] [-10.  -12.5]
    """

    power: Float[Array, "*batch"]
    potential: Float[Array, "*batch"]
    force: Float[Array, "..."] | None = None
    torque: Float[Array, "..."] | None = None
    length: Float[Array, "*batch"] | None = None
    angle: Float[Array, "*batch"] | None = None
    rate: Float[Array, "*batch"] | None = None
    current: Float[Array, "*batch"] | None = None


class AbstractForce(Structured):
    """A force on some of the bodies. A subclass defines `generalized`, and `potential` and `measures` if it has them.

    Attributes:
        needed: names of arguments of which at least one has to be given, if there are any.

    Examples:
        >>> class Lift(mbs.forces.AbstractForce):
        ...     def generalized(self, state):
        ...         return state.generalized({"a": state["a"].pose.force_at(jnp.zeros(2), jnp.array([0.0, 4.0]))})
        >>> mech = mbs.Mechanism({"a": planar.Body()}, forces={"lift": Lift()})
        >>> print(mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.zeros(3)))
        [0. 4. 0.]
    """

    needed: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def generalized(self, state: State) -> Float[Array, " m"]:
        """Return its part of the generalized force Q (m,), conjugate to v, in a `state`."""

    def potential(self, state: State) -> Float[Array, ""]:
        """Return the potential energy in a `state`; zero for a force that has none."""
        return jnp.zeros((), state.q.dtype)

    def kinetic(self, state: State) -> Float[Array, ""]:
        """Return the kinetic energy of parts of the force that are not bodies, such as a motor's rotor."""
        return jnp.zeros((), state.q.dtype)

    def measures(self, state: State) -> dict[str, Array]:
        """Return force, torque, length, angle and rate in a `state`, as far as it has them; see `ForceElement`."""
        del state
        return {}

    def report(self, state: State) -> ForceElement:
        """Return power, potential energy and all `measures` of the force in a `state`."""
        given = {"power": self.generalized(state) @ state.v, **self.measures(state)}
        return ForceElement(potential=self.potential(state), **given)

    @property
    def uniform(self) -> Array | None:
        """Acceleration (d,) that it gives to every mass; None for forces with any other effect."""
        return None

    @property
    def acts_on(self) -> tuple[str, ...]:
        """Names of the bodies that the force is given with, "ground" included."""
        return tuple(getattr(self, name) for name in ("i", "j", "body", "reaction") if hasattr(self, name))

    def check_joints(self, elements: Mapping[str, AbstractConstraint]) -> None:
        """Raise `ValueError` unless the joints that the force needs are among these elements."""
        del elements

    def check(self, dimension: int) -> None:
        """Raise `ValueError` if arguments are missing or unusable, or their shapes do not fit the dimension, 2 or 3."""
        missing = self.needed and all(getattr(self, name) is None for name in self.needed)
        require(not missing, f"{' or '.join(', '.join(self.needed).rsplit(', ', 1))} is missing")
        check_fields(self)
        same = self.acts_on[:1] if len(set(self.acts_on)) < len(self.acts_on) else ()
        require(not same, f"connects {same[0]!r} with itself" if same else "")
        for name, takes in laws_of(self).items():
            if getattr(self, name) is not None:
                check_law(getattr(self, name), takes, name)
        for name in vars(self):
            value = getattr(self, name)
            if name.startswith("point") and value is not None:
                require(jnp.shape(value) == (dimension,), f"{name} must have shape ({dimension},)")
            if name in ("axis_i", "axis_j") and value is not None and is_concrete(value):
                require(np.any(np.asarray(value) != 0), f"{name} has no length")
        check_motions(self)
