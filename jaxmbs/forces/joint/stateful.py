"""Forces with states, such as the current of a motor: ż = f(state, z)."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.forces.force import AbstractForce
from jaxmbs.forces.state import State


class AbstractStatefulForce(AbstractForce):
    """A force with states z, additional coordinates of first order that every method integrates with the motion.

    Attributes:
        own: z (k,) in `generalized` and `rates`, a `computed_field`; None elsewhere, where the states are not known.

    Examples:
        >>> issubclass(mbs.Motor, mbs.forces.AbstractStatefulForce)
        True
    """

    own: eqx.AbstractVar[Array | None]

    @property
    @abc.abstractmethod
    def states(self) -> tuple[str, ...]:
        """Names of the states; empty if it has none."""

    @property
    @abc.abstractmethod
    def start(self) -> tuple:
        """Initial values of the states, one number for each."""

    def at_start(self, state: State) -> Float[Array, " k"]:
        """Return the initial values (k,) of the states, which may depend on the initial state of the mechanism."""
        return jnp.stack([jnp.asarray(x, state.q.dtype) for x in self.start])

    @property
    def known(self) -> Float[Array, " k"]:
        """The states z (k,). If they are not known, it raises `ValueError`."""
        require(self.own is not None, f"its {', '.join(self.states)} is a state, which is not known here")
        assert self.own is not None
        return self.own

    @abc.abstractmethod
    def rates(self, state: State) -> Float[Array, " k"]:
        """Return ż (k,), the rates of the states."""
