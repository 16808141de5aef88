"""What a jaxpr computes twice is computed once, before it is differentiated.

The graph of scalars merges equal nodes by itself. Derivatives are made of jaxprs, though, and in reverse mode each copy of
an equation gets a backward run of its own.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.extend import core

from jaxmbs.programs import jax_compat

# Calls that are opened: what they compute is shared with what is around them.
INLINED = frozenset({"jit", "pjit", "closed_call", "core_call"})


def called(eqn):
    """The closed jaxpr of a call."""
    return eqn.params["jaxpr"] if "jaxpr" in eqn.params else eqn.params["call_jaxpr"]


def shared(closed):
    """A closed jaxpr that computes the same, with calls opened and equal equations merged, inside of loops as well."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in closed.in_avals]
    return jax.make_jaxpr(lambda *args: _Evaluation().run(closed, args))(*shapes)


class _Evaluation:
    """Evaluates jaxprs, equal equations once."""

    def __init__(self):
        self.known: dict[tuple, list] = {}
        self.alive: list = []  # what is named by its id must not be collected
        self.bodies: dict[int, Any] = {}

    def run(self, closed, args) -> list:
        jaxpr = closed.jaxpr
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        read = lambda x: x.val if hasattr(x, "val") else values[x]
        for eqn in jaxpr.eqns:
            values.update(zip(eqn.outvars, self.apply(eqn, [read(x) for x in eqn.invars]), strict=True))
        return [read(x) for x in jaxpr.outvars]

    def apply(self, eqn, args) -> list:
        if eqn.primitive.name in INLINED:
            return self.run(called(eqn), args)
        params = self.params(eqn)
        key = None
        if not eqn.effects:
            key = (
                eqn.primitive,
                tuple(map(self.name, args)),
                tuple((k, self.name(v)) for k, v in sorted(params.items())),
            )
            if key in self.known:
                return self.known[key]
        results = jax_compat.bind_again(eqn, args, params)
        if key is not None:
            self.known[key] = results
        return results

    def params(self, eqn):
        if eqn.primitive.name != "scan":
            return eqn.params
        body = eqn.params["jaxpr"]
        if id(body) not in self.bodies:
            self.alive.append(body)
            self.bodies[id(body)] = shared(body)
        return {**eqn.params, "jaxpr": self.bodies[id(body)]}

    def name(self, x):
        """The same for values that are known to be equal."""
        if isinstance(x, (bool, int, str, type(None))):
            return type(x), x
        if isinstance(x, float):
            return float, x.hex()  # 0.0 is not −0.0
        if isinstance(x, np.ndarray | np.generic) and np.size(x) <= 16:
            return x.dtype, x.shape, x.tobytes()
        if isinstance(x, tuple):
            return tuple(map(self.name, x))
        try:
            if not isinstance(x, jax.Array) and not isinstance(x, core.ClosedJaxpr):
                return hash(x), x
        except TypeError:
            pass
        self.alive.append(x)
        return "id", id(x)
