"""Inputs of linear equations: arguments of forces, and motions of drivers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxmbs.dynamics.quantities import AXES
from jaxmbs.element import errors_of, require, unknown
from jaxmbs.forces.values import OfState, as_value, evaluate
from jaxmbs.motion import AbstractMotion
from jaxmbs.numerics.arrays import with_fields
from jaxmbs.system.equations import state_of
from jaxmbs.system.mechanism import Mechanism


class Input(NamedTuple):
    """One scalar input of the linear equations.

    Attributes:
        owner: name of the force or driver.
        field: name of the argument of the force that is changed; empty for a driver, whose motion is changed.
        entry: index in the value of the argument; None if it is a single number.
    """

    owner: str
    field: str
    entry: int | None = None

    @property
    def name(self) -> str:
        """Name of the force or driver; with an axis if it is one entry of a vector, as in "push.x"."""
        return self.owner if self.entry is None else f"{self.owner}.{AXES[self.entry]}"


def with_inputs(mech: Mechanism, inputs: Sequence[Input], t, motions, rates, values) -> Mechanism:
    """Return the mechanism with changed inputs.

    Args:
        mech: the mechanism.
        inputs: the inputs.
        t: time.
        motions: C, one for each driver among the inputs.
        rates: Ċ, likewise.
        values: one for each input: C̈ of a driver, else the change of a force's argument.
    """
    shifts, drivers, forces = iter(zip(motions, rates, strict=True)), mech.drivers, mech.forces
    for one, value in zip(inputs, values, strict=True):
        if one.field:
            forces[one.owner] = _with_change(forces[one.owner], one, value)
        else:
            (motion,) = drivers[one.owner].motions
            drivers[one.owner] = drivers[one.owner].with_motions([ShiftedMotion(motion, t, *next(shifts), value)])
    return with_fields(Mechanism, mech, _forces=tuple(forces.values()), _drivers=tuple(drivers.values()))


class ShiftedMotion(AbstractMotion):
    """A motion C(t) with c + ċ τ + c̈ τ²/2 added; τ is the time that has passed since `begin`."""

    motion: AbstractMotion
    begin: Array
    shift: Array
    speed: Array
    acceleration: Array

    def __call__(self, t):
        """Return the changed motion at the time t."""
        passed = t - self.begin
        return self.motion(t) + self.shift + self.speed * passed + self.acceleration * passed**2 / 2


class ShiftedArgument(eqx.Module):
    """A force's argument plus a change of it, or of one of its entries, as a function of the state."""

    value: Any
    change: Array
    one: Input = eqx.field(static=True)

    def __call__(self, state):
        """Return the changed value in a state."""
        shape = _shape_of(self.value, state)
        now = evaluate(self.value, state, shape, self.one.field)
        return now + self.change if self.one.entry is None else now.at[self.one.entry].add(self.change)


def _with_change(force, one: Input, change):
    """Return a force with a change added to an argument, or to one of its entries."""
    value, zero = getattr(force, one.field), jnp.zeros_like(change)
    # A motion stays one: a `Servo` uses the rate of its target only if that is a motion.
    is_motion = isinstance(value, AbstractMotion)
    changed = (
        ShiftedMotion(value, zero, change, zero, zero) if is_motion else OfState(ShiftedArgument(value, change, one))
    )
    return with_fields(type(force), force, **{one.field: changed})


def _shape_of(value, state) -> tuple[int, ...]:
    """Return the shape of an argument of `value_field` in a state."""
    if isinstance(value, tuple):
        return (len(value),)
    if isinstance(value, OfState):
        return jnp.shape(value(state))
    if callable(value) and not isinstance(value, AbstractMotion):
        return jnp.shape(value(state.t, state.q, state.v))
    return () if callable(value) else jnp.shape(value)


def inputs_of(mech: Mechanism, names: Sequence[str], q, t) -> tuple[Input, ...]:
    """Return the `Input` of each name, and one for each entry of an argument that is a vector.

    Raises:
        ValueError: an unknown name or one that is given twice, a force without an argument that can change, or a driver
            with several motions.
    """
    require(not isinstance(names, str), f"inputs must be a tuple of names, such as ({names!r},)")
    found: list[Input] = []
    for name in names:
        owner, _, axis = name.rpartition(".")
        owner, axis = (name, "") if name in mech.forces or name in mech.drivers or not owner else (owner, axis)
        if owner in mech.forces:
            entries = _entries(mech, owner, q, t)
            chosen = entries if not axis else [one for one in entries if one.name == name]
            if not chosen:
                raise ValueError(unknown("input", name, [one.name for one in entries]))
            found += chosen
        elif owner in mech.drivers and not axis:
            if len(mech.drivers[owner].motions) != 1:
                raise ValueError(f"input {name!r}: the driver must have one motion, this one has several")
            found.append(Input(owner, ""))
        else:
            raise ValueError(unknown("input (force or driver)", name, [*mech.forces, *mech.drivers]))
    for one in found:
        require(found.count(one) == 1, f"input {one.name!r} is given twice")
    return tuple(found)


def _entries(mech: Mechanism, name: str, q, t) -> list[Input]:
    """Return the inputs of a force: the entries of the argument that may be a function of the state."""
    force = mech.forces[name]
    fields = [f.name for f in dataclasses.fields(force) if f.metadata.get("converter") is as_value]
    fields = [field for field in fields if getattr(force, field) is not None]
    if len(fields) != 1:
        raise ValueError(f"input {name!r}: {type(force).__name__} has no argument that can be an input")
    with errors_of(f"force {name!r}"):
        state = state_of(mech, q, jnp.zeros(mech.layout.m, q.dtype), t)
        shape = jax.eval_shape(lambda: jnp.zeros(_shape_of(getattr(force, fields[0]), state))).shape
    return [Input(name, fields[0], entry) for entry in (range(shape[0]) if shape else [None])]
