"""Functions of a mechanism that an FMU calls: start, closing, step, and derivatives with outputs.

Their arguments are vectors: `values` has all known variables of the FMU, in the order of `KnownVariables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.dynamics.linear_inputs import Input
from jaxmbs.dynamics.methods.method import (
    AbstractFixedStep,
    InitialState,
    ScaledEquations,
    initial_motion,
    step_status,
)
from jaxmbs.dynamics.reactions import reactions
from jaxmbs.dynamics.simulate import simulate_from
from jaxmbs.formulations.abstract import AbstractEquations
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.stateful import equations_of, state_names, states_of
from jaxmbs.io.driven_motions import with_drive
from jaxmbs.numerics.arrays import finite, with_fields
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Mechanism, Velocities
from jaxmbs.system.trajectory import Trajectory


class VectorForm(NamedTuple):
    """The vector of all numbers of a pytree; a call returns the pytree of a vector.

    Attributes:
        tree: structure of the pytree.
        leaves: shape and type of each leaf.
    """

    tree: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, given: Any) -> VectorForm:
        """Return the form of a pytree of arrays or of shapes."""
        leaves, tree = jax.tree.flatten(given)
        return cls(tree, tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves))

    @property
    def size(self) -> int:
        """Number of entries of the vector."""
        return sum(math.prod(leaf.shape) for leaf in self.leaves)

    def __call__(self, vector: Array) -> Any:
        """Return the pytree whose numbers are in a vector."""
        ends = np.cumsum([math.prod(leaf.shape) for leaf in self.leaves])[:-1]
        parts = zip(jnp.split(vector, ends), self.leaves, strict=True) if self.leaves else ()
        return jax.tree.unflatten(self.tree, [x.reshape(leaf.shape).astype(leaf.dtype) for x, leaf in parts])


def vector_of(given: Any) -> Float[Array, " size"]:
    """Return all numbers of a pytree in a row."""
    return jnp.concatenate([x.reshape(-1).astype(float) for x in jax.tree.leaves(given)])


class FmuFunctions(NamedTuple):
    """The functions of a mechanism for an FMU.

    Attributes:
        build: the mechanism for parameters.
        parameters: form of the parameters.
        sizes: number of entries of each part of `values`; see `KnownVariables`.
        named: names of the velocities that the start keeps; empty if it has a vector of all, or none.
        motions: names of the motions that are inputs.
        forces: arguments of forces that are inputs.
        points: points of bodies that are outputs, by name.
        method: integrator.
        formulation: of the integrator.
        scales: form of the scales of the equations; None before it is known.
        carry: form of the carry of the integrator; None before it is known.
    """

    build: Callable[[Any], Mechanism]
    parameters: VectorForm
    sizes: tuple[int, ...]
    named: tuple[str, ...]
    motions: tuple[str, ...]
    forces: tuple[Input, ...]
    points: Mapping[str, tuple[str, Sequence[float]]]
    method: AbstractFixedStep
    formulation: JointCoordinates
    scales: VectorForm | None = None
    carry: VectorForm | None = None

    def with_forms(self, values: Float[Array, " known"]) -> FmuFunctions:
        """Return the functions with the forms of scales and carry."""
        form = VectorForm.of(jax.eval_shape(self._scales_at_guess, values))
        known, scales = self._replace(scales=form), jnp.zeros(form.size)
        carry = lambda values, length: known._carry(values, scales, length)[0]
        return known._replace(carry=VectorForm.of(jax.eval_shape(carry, values, jnp.zeros(()))))

    def parts(self, values: Float[Array, " known"]) -> tuple[Array, ...]:
        """Return the parts of `values`, those of `KnownVariables`."""
        return tuple(jnp.split(values, np.cumsum(self.sizes)[:-1]))

    def mechanism(self, values: Float[Array, " known"]) -> Mechanism:
        """Return the mechanism with its parameters and inputs."""
        time, parameters, configuration, _, motions, forces, _ = self.parts(values)
        mech = self.build(self.parameters(parameters)).weighed()
        mech = measure_marks(mech, mech.coordinates(configuration))[0]
        for one, value in zip(self.forces, forces, strict=True):
            force = mech.forces[one.owner]
            given = value if one.entry is None else jnp.asarray(getattr(force, one.field)).at[one.entry].set(value)
            changed = mech.forces | {one.owner: with_fields(type(force), force, **{one.field: given})}
            mech = with_fields(Mechanism, mech, _forces=tuple(changed.values()))
        return with_drive(mech, time[0], dict(zip(self.motions, motions.reshape(-1, 3), strict=True)))

    def start(self, values: Float[Array, " known"]) -> dict[str, Any]:
        """Return states and scales of the assembled mechanism, as at the start of `simulate`."""
        time, _, configuration, velocities, *_ = self.parts(values)
        mech, t = self.mechanism(values), time[0]
        v: Velocities = velocities if velocities.size else jnp.zeros(mech.layout.m)
        v = dict(zip(self.named, velocities, strict=True)) if self.named else v
        run = simulate_from(mech, t, (0.0,), configuration, v, method=self.method, formulation=self.formulation)
        equations = equations_of(self.formulation, finite(mech)[0])
        x, u = equations.from_bodies(run.q[0], run.v[0], t)
        scales = vector_of(equations.scales(x, t))
        return {"states": states_from(equations, x, u), "scales": scales, "status": run.status[0]}

    def close(self, values: Float[Array, " known"], scales: Array, length: Array) -> dict[str, Any]:
        """Return the carry of the integrator at closed states, for steps of a length."""
        carry, status = self._carry(values, scales, length)
        return {"carry": vector_of(carry), "status": status}

    def step(self, values: Float[Array, " known"], scales: Array, carry: Array, length: Array) -> dict[str, Any]:
        """Return the carry of the integrator and the states after a step."""
        assert self.carry is not None
        scaled, t, _ = self._at(values, scales)
        scaled = scaled.in_steps(length)
        new, closed = self.method.step(scaled, self.carry(carry), t, length)
        motion = self.method.motion(new)
        states = states_from(scaled.equations, motion.q, motion.v)
        status = step_status(scaled, motion, closed, t + length, length)
        return {"carry": vector_of(new), "states": states, "status": status}

    def evaluate(self, values: Float[Array, " known"], scales: Array) -> dict[str, Any]:
        """Return the derivatives of the states, and the outputs, at closed states."""
        scaled, t, state = self._at(values, scales)
        equations = scaled.equations
        motion, status = initial_motion(scaled, state, t)
        derivatives = states_from(equations, equations.space.rate(motion.q, motion.v), motion.a)
        q, v, a = equations.to_bodies(motion.q, motion.v, motion.a, t)
        outputs = self._outputs(equations, t, q, v, a, status, states_of(equations, motion.v))
        return {"unknowns": jnp.concatenate([derivatives, *outputs]), "status": status}

    def directional(self, values: Float[Array, " known"], scales: Array, seed: Array) -> dict[str, Any]:
        """Return the derivatives of what `evaluate` computes along the change `seed` of `values`."""

        def unknowns(values):
            """Return what is differentiated, and the status."""
            found = self.evaluate(values, scales)
            return found["unknowns"], found["status"]

        _, sensitivity, status = jax.jvp(unknowns, (values,), (seed,), has_aux=True)
        return {"sensitivity": sensitivity, "status": status}

    def _scales_at_guess(self, values: Float[Array, " known"]) -> Any:
        """Return scales of the form of those at the start."""
        mech, parts = self.mechanism(values), self.parts(values)
        equations, t = equations_of(self.formulation, mech), parts[0][0]
        return equations.scales(equations.from_bodies(parts[2], jnp.zeros(mech.layout.m), t)[0], t)

    def _carry(self, values: Float[Array, " known"], scales: Array, length: Array) -> tuple[Any, Array]:
        """Return the carry of the integrator at closed states, and the status."""
        scaled, t, state = self._at(values, scales)
        scaled = scaled.in_steps(length)
        motion, status = initial_motion(scaled, state, t)
        return self.method.start(scaled, motion, t), status

    def _at(self, values: Float[Array, " known"], scales: Array) -> tuple[ScaledEquations, Array, InitialState]:
        """Return the equations, the time, and the states, which need not be closed."""
        assert self.scales is not None
        equations = equations_of(self.formulation, finite(self.mechanism(values))[0])
        scaled = ScaledEquations.of(equations, self.scales(scales), DEFAULT_TOLERANCE)
        parts = self.parts(values)
        count = equations.space.m
        x, u = parts[-1][:-count], parts[-1][-count:]
        integrals = jnp.zeros(len(state_names(equations.mech)), x.dtype)
        return scaled, parts[0][0], InitialState(jnp.concatenate([x, integrals]), u, None, assembled=False)

    def _outputs(self, equations: AbstractEquations, t, q, v, a, status, states) -> list[Array]:
        """Return the outputs in the order of `unknown_variables`."""
        mech = equations.mech
        names = state_names(mech)
        row = lambda x: None if x is None else x[None]
        run = Trajectory(
            t[None], q[None], v[None], a[None], status[None], mech.layout, None, None, None, row(states), names
        )
        points = [x[0] for at in self.points.values() for x in (run.point(*at), run.point_velocity(*at))]
        elements = {**mech.drivers, **mech.constraints}
        driven = [name for name, element in elements.items() if element.motions]
        found = reactions(mech, run) if driven else {}
        return [q, v, *points, *(found[name].effort.reshape(-1) for name in driven)]


def states_from(equations: AbstractEquations, x: Array, u: Array) -> Float[Array, " states"]:
    """Return the states of an FMU, coordinates and velocities, without the integrals of states of forces."""
    return jnp.concatenate([x[: x.shape[0] - len(state_names(equations.mech))], u])
