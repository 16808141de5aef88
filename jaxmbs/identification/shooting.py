"""The signals of a run as functions of the parameters, in one piece or in segments that begin where they like.

A run of many samples, or a chaotic one, tells little about its parameters as a whole: its end depends too strongly on them.
In segments, each with a state of its own at its beginning, it does; that segments fit to each other is a condition then
(multiple shooting; Bock, Numerical treatment of inverse problems in chemical reaction kinetics, 1981).
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
from jaxmbs.identification.records import of_parameters
from jaxmbs.numerics.linear_algebra import factor_symmetric_positive
from jaxmbs.system.equations import constraint_jacobian, residuals
from jaxmbs.system.marks import with_marks
from jaxmbs.system.mechanism import Mechanism

# Newton steps that close a segment's beginning, and what keeps them solvable where constraints are redundant.
CLOSING, TINY = 8, 1e-14


class Model(NamedTuple):
    """What of an identification shapes its programs. Equal ones are compiled once.

    Attributes:
        build: parameters ↦ mechanism. tree, shapes: of the parameters.
        names: of the signals. measure: (parameters, mechanism, motion) ↦ name ↦ values (T,), or None.
        start, velocities: functions of the parameters, or None where they are given as numbers.
        after: times after the first. step, method, formulation: as of `simulate`.
    """

    build: Callable
    tree: Any
    shapes: tuple
    names: tuple[str, ...]
    measure: Callable | None
    start: Callable | None
    velocities: Callable | None
    after: tuple[float, ...]
    step: float | None
    method: Any
    formulation: Any

    def parameters(self, x):
        """The tree of parameters, from their entries."""
        leaves, at = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            leaves.append(jnp.reshape(x[at : at + size], shape))
            at += size
        return jax.tree.unflatten(self.tree, leaves)

    def motion(self, x, begin, q, v):
        """Parameters, mechanism and motion."""
        parameters = self.parameters(x)
        mech = self.build(parameters)
        if is_driven(mech):
            return parameters, mech, kinematics(mech, begin + jnp.asarray(self.after), q)
        options = {"step": self.step, "method": self.method, "formulation": self.formulation}
        return parameters, mech, simulate_from(mech, begin, np.asarray(self.after), q, v, **options)

    def signals(self, parameters, mech, motion):
        """(T, signals)."""
        if self.measure is not None:
            found = self.measure(parameters, mech, motion)
            if not isinstance(found, Mapping):
                raise ValueError(f"measure must give signals by name, in a mapping, got {type(found).__name__}")
            for name in self.names:
                if name in found and np.size(found[name]) != len(self.after):
                    shape = np.shape(found[name])
                    raise ValueError(f"measure gives {name!r} with shape {shape}, not one number for each time")
                if name not in found:
                    raise ValueError(f"measure gives no signal {name!r}; it gives {', '.join(map(str, found))}")
            return jnp.stack([jnp.reshape(found[name], len(self.after)) for name in self.names], axis=1)
        seen = MotionWithReactions(mech, motion)
        return jnp.stack([quantity(mech, name)(seen) for name in self.names], axis=1)


class Around(NamedTuple):
    """A state q* (n,), v* (m,), with a basis T (m, f) of the directions that constraints leave free there and one, N, of
    the others. (a, b) are the coordinates of the state q* ⊕ (T a + N c), v* + T b, where c closes the constraints."""

    q: Any
    v: Any
    basis: Any
    others: Any

    def coordinates(self, layout, q, v):
        """(2f,), of a state."""
        return jnp.concatenate([self.basis.T @ layout.difference(q, self.q), self.basis.T @ (v - self.v)])

    def state(self, mech: Mechanism, coordinates, t):
        """q and v of the coordinates; v may lie off the constraints."""
        layout, (a, b) = mech.layout, jnp.split(coordinates, 2)
        mech = with_marks(mech, self.q)
        place = lambda c: layout.retract(self.q, self.basis @ a + self.others @ c)

        def step(c, _):
            phi, by = residuals(mech, place(c), t), jax.jacfwd(lambda c: residuals(mech, place(c), t))(c)
            square = by.T @ by
            square = square + TINY * jnp.trace(square) * jnp.eye(c.size)
            return c - factor_symmetric_positive(square).solve(by.T @ phi), None

        c, _ = jax.lax.scan(step, jnp.zeros(self.others.shape[1]), None, length=CLOSING)
        return place(c), self.v + self.basis @ b


class Shot(NamedTuple):
    """A segment, or many: signals (T, signals), coordinates (2f,) of both ends around given states, the ends
    themselves, (q, v) each, and the status (T,)."""

    signals: Any
    first: Any
    last: Any
    ends: tuple
    status: Any


@lru_cache(maxsize=64)
def whole(model: Model) -> Callable:
    """(x (S, n), begin, q, v) ↦ a `Shot` of each start with its derivatives by x, for the first segment of a run or a run
    in one piece. Its end is around a state that follows."""

    def of_one(x, begin, q, v, end):
        parameters = model.parameters(x)
        q = of_parameters(model.start, parameters) if model.start is not None else q
        v = of_parameters(model.velocities, parameters) if model.velocities is not None else v
        return _shot(model, x, begin, q, v, None, end)

    return _with_slopes(of_one, (0, None, None, None, 0))


@lru_cache(maxsize=64)
def segment(model: Model) -> Callable:
    """((x, a, b) (K, n + 2f), begin (K,), around begin and end (K, …)) ↦ the same of segments, from where (a, b) lie."""

    def of_one(z, begin, around, end):
        n = sum(int(np.prod(shape)) for shape in model.shapes)
        mech = model.build(model.parameters(z[:n]))
        q, v = around.state(mech, z[n:], begin)
        return _shot(model, z[:n], begin, q, v, around, end)

    return _with_slopes(of_one, (0, 0, 0, 0))


def _with_slopes(of_one: Callable, axes: tuple) -> Callable:
    def both(z, *rest):
        def parted(z):
            shot = of_one(z, *rest)
            return shot[:3], shot

        slopes, shot = jax.jacfwd(parted, has_aux=True)(z)
        return shot, slopes

    return jax.jit(jax.vmap(both, in_axes=axes))


def _shot(model: Model, x, begin, q, v, around, end) -> Shot:
    parameters, mech, motion = model.motion(x, begin, q, v)
    signals = model.signals(parameters, mech, motion)
    ends = (motion.q[0], motion.v[0]), (motion.q[-1], motion.v[-1])
    first, last = (
        jnp.zeros(0) if near is None else near.coordinates(mech.layout, *state)
        for near, state in zip((around, end), ends, strict=True)
    )
    return Shot(signals, first, last, ends, motion.status)


@lru_cache(maxsize=64)
def jacobians(model: Model) -> Callable:
    """(x (S, n), q (S, n), t) ↦ Φ_q (S, rows, m)."""
    of_one = lambda x, q, t: constraint_jacobian(model.build(model.parameters(x)), q, t)
    return jax.jit(jax.vmap(of_one, in_axes=(0, 0, None)))
