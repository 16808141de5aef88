"""Inertia at a coordinate of a joint."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.element import check_not_negative, require
from jaxmbs.forces.joint.effort import AbstractEffort
from jaxmbs.forces.joint.reactive import AbstractReactiveForce
from jaxmbs.forces.values import computed_field
from jaxmbs.numerics.arrays import real


class AbstractInertialEffort(AbstractEffort, AbstractReactiveForce):
    """An effort along a coordinate x of a joint that includes −J ẍ."""

    of_reaction, affine = False, True

    @property
    @abc.abstractmethod
    def at_joint(self) -> Array | None:
        """J, the inertia at the joint; None without inertia."""

    @property
    def reactive(self):
        """True if there is an inertia, whose effort depends on accelerations."""
        return self.at_joint is not None

    def size_inputs(self, state, a, load):
        """Return the second rate ẍ (1,) of the coordinate for accelerations a (m,) of the mechanism."""
        del load
        return state.acceleration_along(self.joint, self.coordinate, a)[None]

    def size_from(self, state, inputs):
        """Return the effort −J ẍ."""
        del state
        inertia = self.at_joint
        assert inertia is not None  # or it is not reactive
        return -inertia * inputs[0]

    def kinetic(self, state):
        """Return ½ J ẋ²; zero without inertia."""
        inertia = self.at_joint
        return jnp.zeros((), state.q.dtype) if inertia is None else inertia * self._along(state).rate ** 2 / 2


class JointInertia(AbstractInertialEffort):
    """Inertia at a coordinate x of a joint without a body, such as that of rotor and gears of a drive: τ = −J ẍ.

    Its energy ½ J ẋ² is part of the kinetic energy; its weight and gyroscopic torques are not counted. The bodies must
    have some inertia of their own at the joint.

    Args:
        joint: name of the joint.
        inertia: J, at the joint: n² times that of a rotor behind a gearbox of ratio n.
        coordinate: name of one of several angles or slides of the joint; of a spherical or free joint "wx", "wy" or
            "wz", the components of the angular velocity of body j relative to body i in the joint frame on body j.

    Examples:
        >>> heavy = mbs.Mechanism(
        ...     pendulum.bodies, pendulum.constraints, forces={**pendulum.forces, "rotor": mbs.JointInertia("pin", 2.0)}
        ... )
        >>> run = mbs.simulate(heavy, jnp.array([0.0, 0.1]), {"bob": (1, 0, jnp.pi / 2)}, step=0.01)
        >>> print(run.acceleration("bob.phi")[0])  # −m g l / (m l² + J)
        -4.905
    """

    inertia: Array = real()
    size: Array | None = computed_field()
    needs_value: ClassVar[bool] = False

    @property
    def at_joint(self):
        """J, the given inertia."""
        return self.inertia

    def effort(self, state, along):
        """Return the torque or force −J ẍ, or raise `ValueError` before accelerations are known."""
        require(self.size is not None, "needs accelerations, which are not known here; `force_elements` finds them")
        return self.size

    def measures(self, state):
        """Return effort, coordinate and rate, and zero power: its energy is part of the kinetic energy."""
        along = self._along(state)
        return along.measures(self.effort(state, along)) | {"power": jnp.zeros_like(along.rate)}

    def check(self, dimension):
        """Raise `ValueError` for wrong shapes, or a negative inertia."""
        super().check(dimension)
        check_not_negative(self, "inertia")
