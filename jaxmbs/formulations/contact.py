"""Equations of motion whose contact forces are smoothed for the steps of an integration."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from jaxmbs.forces.joint.contact import AbstractContactForce
from jaxmbs.formulations.abstract import AbstractEquations


def with_step(equations: AbstractEquations, h: Float[Array, ""]) -> AbstractEquations:
    """Return the equations with contact forces smoothed for steps of length h; unchanged without contacts."""
    forces = equations.mech.forces.items()
    names = [name for name, force in forces if isinstance(force, AbstractContactForce) and force.touching]
    if not names:
        return equations
    steps = lambda equations: [equations.mech.forces[name].step for name in names]
    return eqx.tree_at(steps, equations, [h] * len(names), is_leaf=lambda x: x is None)
