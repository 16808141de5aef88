"""Forces with states of their own, such as the current of a motor: ż = f(state, z)."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import State
from jaxmbs.numerics.arrays import real


class AbstractStatefulForce(AbstractForce):
    """A force with states z of its own, additional coordinates of first order that every method integrates with the
    motion. In `generalized` and `rates` they stand in `own`.

    Attributes:
        own: z (k,), None where it is not known.

    Examples:
        >>> issubclass(mbs.Motor, mbs.forces.AbstractStatefulForce)
        True
    """

    own: eqx.AbstractVar[Array | None]

    @property
    @abc.abstractmethod
    def states(self) -> tuple[str, ...]:
        """Names of the states; none where it does without."""

    @property
    @abc.abstractmethod
    def start(self) -> tuple:
        """Their values where a simulation starts."""

    def at_start(self, state: State) -> Float[Array, " k"]:
        """Their values in the state in which a simulation starts; those of `start` unless they depend on it."""
        return jnp.stack([jnp.asarray(x, state.q.dtype) for x in self.start])

    @property
    def known(self) -> Float[Array, " k"]:
        """z, where it is known.

        Raises:
            ValueError: it is not.
        """
        require(self.own is not None, f"its {', '.join(self.states)} is a state, which is not known here")
        assert self.own is not None
        return self.own

    @abc.abstractmethod
    def rates(self, state: State) -> Float[Array, " k"]:
        """ż."""


def own_field():
    """A dataclass field for the states of a force."""
    return real((None,), optional=True, default=None, init=False)
