"""Signals of a motion as functions of the parameters, in one piece or in segments that start from states of their own.

A run of many samples, or a chaotic one, says little about its parameters as a whole, because its end depends too
strongly on them. Segments, each with an unknown initial state, do not have this problem; that they fit together becomes
a condition (multiple shooting; Bock, Numerical treatment of inverse problems in chemical reaction kinetics, 1981).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbs.analyses.kinematics import kinematics
from jaxmbs.dynamics.quantities import MotionWithReactions, is_driven, quantity
from jaxmbs.dynamics.simulate import simulate_from
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.system.equations import constraint_jacobian, residuals
from jaxmbs.system.marks import with_marks
from jaxmbs.system.mechanism import Mechanism

# Number of Newton steps that close the constraints at the start of a later segment.
CLOSING_STEPS = 8
# Added to the diagonal of the normal matrix of a closing step, relative to its trace, because constraints may be
# redundant.
DIAGONAL_SHIFT = 1e-14


class SegmentModel(NamedTuple):
    """The part of an identification that determines its compiled programs. Equal models share them.

    Attributes:
        build: parameters ↦ mechanism.
        tree: structure of the pytree of parameters.
        shapes: shapes of their leaves.
        names: names of the signals.
        measure: (parameters, mechanism, motion) ↦ name ↦ values (T,); or None.
        start: function of the parameters for the initial configuration, or None if that is given as numbers.
        velocities: likewise for the initial velocities.
        times: output times, counted from the start of the segment.
        step: as of `simulate`.
        method: as of `simulate`.
        formulation: as of `simulate`.
    """

    build: Callable
    tree: Any
    shapes: tuple
    names: tuple[str, ...]
    measure: Callable | None
    start: Callable | None
    velocities: Callable | None
    times: tuple[float, ...]
    step: float | None
    method: Any
    formulation: Any

    def parameters(self, x):
        """Return the tree of parameters from their flat entries x (n,)."""
        leaves, at = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            leaves.append(jnp.reshape(x[at : at + size], shape))
            at += size
        return jax.tree.unflatten(self.tree, leaves)

    def motion(self, x, t_start, q, v):
        """Return parameters, mechanism, and the motion from the state (q, v, t_start)."""
        parameters = self.parameters(x)
        mech = self.build(parameters)
        if is_driven(mech):
            return parameters, mech, kinematics(mech, t_start + jnp.asarray(self.times), q)
        options = {"step": self.step, "method": self.method, "formulation": self.formulation}
        return parameters, mech, simulate_from(mech, t_start, np.asarray(self.times), q, v, **options)

    def signals(self, parameters, mech, motion):
        """Return the signals (T, s) of a motion, in the order of `names`."""
        if self.measure is not None:
            measured = self.measure(parameters, mech, motion)
            if not isinstance(measured, Mapping):
                raise ValueError(f"measure must return signals by name, in a mapping, got {type(measured).__name__}")
            for name in self.names:
                if name in measured and np.size(measured[name]) != len(self.times):
                    shape = np.shape(measured[name])
                    raise ValueError(f"measure returns {name!r} with shape {shape}, not one number for each time")
                if name not in measured:
                    raise ValueError(f"measure returns no signal {name!r}; it returns {', '.join(map(str, measured))}")
            return jnp.stack([jnp.reshape(measured[name], len(self.times)) for name in self.names], axis=1)
        recorded = MotionWithReactions(mech, motion)
        return jnp.stack([quantity(mech, name)(recorded) for name in self.names], axis=1)


class ReferenceState(NamedTuple):
    """A state (q*, v*) with local coordinates (a, b) about it: q = q* ⊕ (T a + N c), v = v* + T b, where c closes Φ.

    Attributes:
        q: (n,) configuration q*.
        v: (m,) velocity v*.
        basis: (m, f) T, an orthonormal basis of the directions that the constraints leave free at q*.
        complement: (m, m − f) N, an orthonormal basis of the other directions.
    """

    q: Any
    v: Any
    basis: Any
    complement: Any

    def coordinates(self, layout, q, v):
        """Return the local coordinates (a, b), (2f,), of a state."""
        return jnp.concatenate([self.basis.T @ layout.difference(q, self.q), self.basis.T @ (v - self.v)])

    def state(self, mech: Mechanism, coordinates, t):
        """Return q and v at local coordinates; q satisfies the constraints, v need not."""
        layout, (a, b) = mech.layout, jnp.split(coordinates, 2)
        mech = with_marks(mech, self.q)
        configuration = lambda c: layout.retract(self.q, self.basis @ a + self.complement @ c)

        def step(c, _):
            """Take one Newton step towards Φ = 0 in the coordinates c."""
            phi = residuals(mech, configuration(c), t)
            jacobian = jax.jacfwd(lambda c: residuals(mech, configuration(c), t))(c)
            square = jacobian.T @ jacobian
            square = square + DIAGONAL_SHIFT * jnp.trace(square) * jnp.eye(c.size)
            return c - factor_symmetric_positive(square).solve(jacobian.T @ phi), None

        c, _ = jax.lax.scan(step, jnp.zeros(self.complement.shape[1]), None, length=CLOSING_STEPS)
        return configuration(c), self.v + self.basis @ b


class SimulatedSegment(NamedTuple):
    """The motion of a segment, or of several in a batch.

    Attributes:
        signals: (T, s).
        first: (2f,) local coordinates of the initial state; empty for the first segment of a record.
        last: (2f,) local coordinates of the final state; empty if no segment follows.
        ends: initial and final state as pairs (q, v).
        status: (T,) `Status` at each time.
    """

    signals: Any
    first: Any
    last: Any
    ends: tuple
    status: Any


@lru_cache(maxsize=64)
def first_segment_function(model: SegmentModel) -> Callable:
    """Return the compiled function for the first segment of a record, which starts from the record's own state.

    It maps (x (S, n), t_start, q, v, reference state of the next segment or None) to the `SimulatedSegment`s of S starts
    and the derivatives of signals, first and last by x.
    """

    def one_start(x, t_start, q, v, next_reference):
        """Return the segment of one start from the record's own state."""
        parameters = model.parameters(x)
        q = model.start(parameters) if model.start is not None else q
        v = model.velocities(parameters) if model.velocities is not None else v
        return _simulate_segment(model, x, t_start, q, v, None, next_reference)

    return _with_jacobian(one_start, (0, None, None, None, 0))


@lru_cache(maxsize=64)
def later_segment_function(model: SegmentModel) -> Callable:
    """Return the compiled function for segments that start from local coordinates (a, b) about a reference state.

    It maps ((x, a, b) (K, n + 2f), t_start (K,), reference states (K, …), reference states of the next segments (K, …)) to
    the `SimulatedSegment`s and the derivatives of signals, first and last by (x, a, b).
    """

    def one_segment(z, t_start, reference, next_reference):
        """Return the segment from local coordinates; z holds (x, a, b)."""
        n = sum(int(np.prod(shape)) for shape in model.shapes)
        mech = model.build(model.parameters(z[:n]))
        q, v = reference.state(mech, z[n:], t_start)
        return _simulate_segment(model, z[:n], t_start, q, v, reference, next_reference)

    return _with_jacobian(one_segment, (0, 0, 0, 0))


def _with_jacobian(one_segment: Callable, axes: tuple) -> Callable:
    """Return the compiled batch of z, … ↦ `SimulatedSegment`, with the derivatives of its first three fields by z."""

    def value_and_jacobian(z, *rest):
        """Return a segment, and the derivatives of signals, first and last by z."""

        def differentiated(z):
            """Return the fields that are differentiated, and the whole segment beside them."""
            segment = one_segment(z, *rest)
            return segment[:3], segment

        jacobian, segment = jax.jacfwd(differentiated, has_aux=True)(z)
        return segment, jacobian

    return jax.jit(jax.vmap(value_and_jacobian, in_axes=axes))


def _simulate_segment(model: SegmentModel, x, t_start, q, v, reference, next_reference) -> SimulatedSegment:
    """Return the segment simulated from the state (q, v, t_start) with parameters x (n,).

    Local coordinates of its ends are about `reference` and `next_reference`, and empty for None.
    """
    parameters, mech, motion = model.motion(x, t_start, q, v)
    signals = model.signals(parameters, mech, motion)
    ends = (motion.q[0], motion.v[0]), (motion.q[-1], motion.v[-1])
    first, last = (
        jnp.zeros(0) if near is None else near.coordinates(mech.layout, *state)
        for near, state in zip((reference, next_reference), ends, strict=True)
    )
    return SimulatedSegment(signals, first, last, ends, motion.status)


@lru_cache(maxsize=64)
def constraint_jacobian_function(model: SegmentModel) -> Callable:
    """Return the compiled function of parameters x (S, n), configurations q (S, coordinates) and t: Φ_q (S, rows, m)."""
    one_start = lambda x, q, t: constraint_jacobian(model.build(model.parameters(x)), q, t)
    return jax.jit(jax.vmap(one_start, in_axes=(0, 0, None)))
