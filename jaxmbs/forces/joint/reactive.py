"""Forces whose size depends on accelerations and reactions, which in turn depend on these forces."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import State


class JointLoad(NamedTuple):
    """Force and torque of a joint on body j.

    Attributes:
        force: (d,), in the ground frame.
        torque: about point_j, in the ground frame; (1,) in the plane, (3,) in space.
    """

    force: Float[Array, " d"]
    torque: Float[Array, " s"]


class AbstractReactiveForce(AbstractForce):
    """A force with a size x = f(state, v̇, reaction) that depends on accelerations v̇ and reactions.

    Accelerations and reactions are affine functions of the sizes of all such forces, so all are computed together.
    `generalized` is linear in `size`; it raises `ValueError` before the size has been computed.

    Attributes:
        joint: name of the joint.
        size: x, a `computed_field`; None until it has been computed.
        of_reaction: True if the size depends on the reaction of `joint`, False if it depends on accelerations.
        affine: True if the size is an affine function of its inputs.

    Examples:
        >>> issubclass(mbs.JointFriction, mbs.forces.AbstractReactiveForce)
        True
    """

    joint: eqx.AbstractVar[str]
    size: eqx.AbstractVar[Array | None]
    of_reaction: ClassVar[bool] = True
    affine: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def reactive(self) -> bool:
        """True if its size depends on accelerations or reactions; else its size is not used."""

    @abc.abstractmethod
    def size_inputs(self, state: State, a: Float[Array, " m"], load: JointLoad | None) -> Float[Array, " k"]:
        """Return the numbers (k,) on which the size depends, affine in the accelerations a and the joint's `load`."""

    @abc.abstractmethod
    def size_from(self, state: State, inputs: Float[Array, " k"]) -> Float[Array, ""]:
        """Return the size of the force for the inputs (k,) of `size_inputs`."""
