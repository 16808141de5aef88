"""Formulations: which coordinates and equations describe the motion of a mechanism."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.formulations.equations import AbstractEquations
from jaxmbs.system.equations import applied_forces, masses, residuals, velocity_forces
from jaxmbs.system.mechanism import Mechanism

# Traced once for all the places where equations of motion need it.
_residuals = jax.jit(residuals)


class AbstractFormulation(eqx.Module):
    """Makes equations of motion of a mechanism."""

    @abc.abstractmethod
    def equations(self, mech: Mechanism) -> AbstractEquations:
        """The equations."""


class Augmented(AbstractFormulation):
    """Cartesian coordinates of all bodies and a multiplier for each constraint: M v̇ = Q + Φ_qᵀλ, Φ_q v̇ = γ; Haug.

    Drivers are constraints that depend on time; their multipliers are the driving forces and torques.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, formulation=mbs.Augmented())
        >>> print(run.position("bob.phi").round(3), run.multipliers.shape)
        [1.571 0.402] (2, 2)
    """

    def equations(self, mech):
        return CartesianEquations(mech)


class CartesianEquations(AbstractEquations):
    """The equations of `Augmented`."""

    mech: Mechanism
    own_coordinates: ClassVar[bool] = False

    def mass(self, q, t):
        return masses(self.mech, q)

    def force(self, q, v, t):
        return applied_forces(self.mech, q, v, t) + velocity_forces(self.mech, q, v)

    def residual(self, q, t):
        return _residuals(self.mech, q, t)

    @property
    def space(self):
        return self.mech.layout

    @property
    def _light(self):
        return {name for name, body in self.mech.bodies.items() if any(body.massless)}

    @property
    def definite(self):
        return not self._light

    @property
    def supporting(self):
        mech, light = self.mech, self._light
        elements = {**mech.constraints, **mech.drivers}
        chosen = [name for name, e in elements.items() if e.extra or e.i in light or e.j in light]
        slices = mech.layout.row_slices
        return np.array([k for name in chosen for k in range(slices[name].start, slices[name].stop)], int)

    @property
    def weight(self):
        bodies = list(self.mech.bodies.values())
        # Of rotors without any mass around them the inertia, at a length of one.
        sizes = [jnp.asarray(body.mass) for body in bodies if not body.massless[0]]
        sizes = sizes or [jnp.trace(jnp.atleast_2d(body.inertia)) for body in bodies]
        return sum(sizes) / len(sizes)
