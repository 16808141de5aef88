"""What a force on the bodies of a mechanism is, in the plane and in space alike."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.element import require
from jaxmbs.forces.state import State
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import check_fields


class AbstractForce(eqx.Module):
    """A force on some of the bodies."""

    @abc.abstractmethod
    def generalized(self, state: State) -> Float[Array, " n"]:
        """Its part of the generalized force Q, conjugate to v."""

    def potential(self, state: State) -> Float[Array, ""]:
        """Potential energy; zero for a force that has none."""
        return jnp.zeros((), state.q.dtype)

    @property
    def uniform(self) -> Array | None:
        """The acceleration that it gives to every mass, wherever it is, if that is all that it does."""
        return None

    @property
    def acts_on(self) -> tuple[str, ...]:
        """Names of the bodies that it refers to."""
        return tuple(getattr(self, name) for name in ("i", "j", "body") if hasattr(self, name))

    def check(self, dimension: int) -> None:
        """Raise `ValueError` if the force cannot act in a space of `dimension`."""
        check_fields(self)
        same = self.acts_on[:1] if len(set(self.acts_on)) < len(self.acts_on) else ()
        require(not same, f"connects {same[0]!r} with itself" if same else "")
        for name, value in vars(self).items():
            if name.startswith("point") and value is not None:
                require(jnp.shape(value) == (dimension,), f"{name} must have shape ({dimension},)")
            if isinstance(value, AbstractMotion):
                try:
                    value.check()
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
