"""Motions of drivers and joints by name, and their replacement by values from outside."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.dynamics.linear_inputs import ShiftedMotion
from jaxmbs.element import AbstractConstraint, require
from jaxmbs.motion import AbstractMotion, Constant
from jaxmbs.numerics.arrays import with_fields
from jaxmbs.system.mechanism import Mechanism


def with_drive(mech: Mechanism, t: Array, drive: Mapping[str, Array]) -> Mechanism:
    """Return the mechanism whose named motions have the value, rate and acceleration of `drive` at the time t."""
    zero = Constant(jnp.zeros_like(t))

    def with_values(name: str, element: AbstractConstraint) -> AbstractConstraint:
        """Return an element with those of its motions replaced that `drive` names."""
        given = zip(names_of_motions(name, element), element.motions, strict=True)
        motions = [ShiftedMotion(zero, t, *drive[each]) if each in drive else motion for each, motion in given]
        return element.with_motions(motions)

    change = lambda group: tuple(with_values(name, element) for name, element in group.items())
    return with_fields(Mechanism, mech, _drivers=change(mech.drivers), _constraints=change(mech.constraints))


def names_of_motions(name: str, element: AbstractConstraint) -> list[str]:
    """Return names of the motions of an element: its own if it has one motion, else with numbers."""
    count = len(element.motions)
    return [name] if count == 1 else [f"{name}_{k}" for k in range(count)]


def motions_of(mech: Mechanism) -> dict[str, AbstractMotion]:
    """Return all motions of drivers and joints, by the names that `names_of_motions` gives them."""
    found: dict[str, AbstractMotion] = {}
    for name, element in {**mech.drivers, **mech.constraints}.items():
        for each, motion in zip(names_of_motions(name, element), element.motions, strict=True):
            require(each not in found, f"two motions are called {each!r}; rename the driver or joint {name!r}")
            found[each] = motion
    return found
