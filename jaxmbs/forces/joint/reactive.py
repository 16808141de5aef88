"""Forces whose size depends on accelerations and on the reactions that these bring about."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import State
from jaxmbs.numerics.arrays import real


class Load(NamedTuple):
    """What a joint does to body j.

    Attributes:
        force: in the ground frame. torque: about point_j, in the ground frame; one number in the plane.
    """

    force: Float[Array, " d"]
    torque: Float[Array, " s"]


class AbstractReactiveForce(AbstractForce):
    """A force of which one number x, its size, is known only together with accelerations v̇ and reactions: these are affine
    functions of the sizes of all such forces, and x = f(state, v̇, reaction) for each of them.

    `generalized` is linear in the size, which stands in `size` once it has been found; before that it raises
    `ValueError`.

    Attributes:
        joint: name of the joint.
        size: x, None until it is found.
        of_reaction: whether `size_inputs` looks at the reaction of `joint`, else at accelerations.

    Examples:
        >>> issubclass(mbs.JointFriction, mbs.forces.AbstractReactiveForce)
        True
    """

    joint: eqx.AbstractVar[str]
    size: eqx.AbstractVar[Array | None]
    of_reaction: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def reactive(self) -> bool:
        """Whether its size has to be found so; if not, it is an ordinary force."""

    @abc.abstractmethod
    def size_inputs(self, state: State, a: Float[Array, " m"], load: Load | None) -> Float[Array, " k"]:
        """The numbers on which the size depends, affine in the accelerations and in the reaction."""

    @abc.abstractmethod
    def size_from(self, state: State, inputs: Float[Array, " k"]) -> Float[Array, ""]:
        """The size that belongs to them."""


def size_field():
    """A dataclass field for the size of a force."""
    return real(optional=True, default=None, init=False)
