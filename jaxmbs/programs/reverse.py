"""Reverse mode through time loops: the forward run keeps the carried state, the backward run computes a step again.

JAX's own reverse mode of a loop keeps every intermediate result of every step. Here only the state is kept, at every
step while that is small, else at the beginning of every segment of steps; what is missing is computed again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

# Bytes of state that one sample may keep; 1,000 steps of a mechanism of nine coordinates take 144 kB in float64.
KEPT_BYTES = 256 * 1024
# Loops of no more rounds than this, without loops inside, are left to JAX: what it keeps of them is little, and computing
# it again would cost more.
SHORT = 8
INLINED = frozenset({"jit", "pjit", "closed_call", "core_call"})


def has_loops(jaxpr) -> bool:
    """Whether a jaxpr has counted loops, not counting those inside of other primitives' rules."""
    return any(map(_leads_to_loop, jaxpr.eqns))


def _inner(eqn):
    return eqn.params["jaxpr"] if "jaxpr" in eqn.params else eqn.params["call_jaxpr"]


def evaluate(jaxpr, consts, args, on_loop: Callable) -> list:
    """Evaluate a jaxpr, its counted loops by `on_loop(Scan, args)`."""
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    read = lambda x: x.val if hasattr(x, "val") else values[x]
    for special, eqns in itertools.groupby(jaxpr.eqns, _leads_to_loop):
        if not special:
            _evaluate_plain(jaxpr, list(eqns), values)
            continue
        for eqn in eqns:
            operands = [read(x) for x in eqn.invars]
            if eqn.primitive.name == "scan":
                results = on_loop(Scan(eqn.params), operands)
            else:
                inner = _inner(eqn)
                results = evaluate(inner.jaxpr, inner.consts, operands, on_loop)
            values.update(zip(eqn.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _leads_to_loop(eqn) -> bool:
    name = eqn.primitive.name
    if name == "scan":
        return eqn.params["length"] > SHORT or has_loops(eqn.params["jaxpr"].jaxpr)
    return name in INLINED and has_loops(_inner(eqn).jaxpr)


def _evaluate_plain(jaxpr, eqns, values: dict) -> None:
    """Equations without loops, as JAX evaluates them."""
    made = {var for eqn in eqns for var in eqn.outvars}
    needed = {x: None for eqn in eqns for x in eqn.invars if not hasattr(x, "val") and x not in made}
    outs = [var for var in made if type(var).__name__ != "DropVar"]
    debug = jaxpr.debug_info.with_unknown_names()
    part = jaxpr.replace(constvars=[], invars=list(needed), outvars=outs, eqns=eqns, debug_info=debug)
    function = core.jaxpr_as_fun(core.ClosedJaxpr(part, []))
    values.update(zip(outs, function(*[values[x] for x in needed]), strict=True))


class Scan:
    """A counted loop by its parameters: constants, carried state, rows in and out."""

    def __init__(self, params):
        self.body = _with_loops_remembered(params["jaxpr"])
        self.length, self.reverse = params["length"], params["reverse"]
        self.n_consts, self.n_carry = params["num_consts"], params["num_carry"]
        state = params["jaxpr"].in_avals[self.n_consts : self.n_consts + self.n_carry]
        size = sum(math.prod(x.shape) * x.dtype.itemsize for x in state)
        self.segment = min(max(1, math.ceil(self.length * size / KEPT_BYTES)), self.length)

    def split(self, operands: Sequence):
        """Constants, state at the start, rows in the order of the rounds."""
        consts, state = operands[: self.n_consts], operands[self.n_consts : self.n_consts + self.n_carry]
        rows = operands[self.n_consts + self.n_carry :]
        return list(consts), list(state), [self._in_order(x) for x in rows]

    def _in_order(self, rows):
        return jnp.flip(rows, 0) if self.reverse else rows

    def step(self, consts, state, row):
        """New state and row out."""
        results = self.body(*consts, *state, *row)
        return list(results[: self.n_carry]), list(results[self.n_carry :])

    def parts(self) -> list[tuple[int, int, int]]:
        """(first round, segments, rounds in a segment): whole segments, then the rest as one more."""
        whole = self.length // self.segment
        rest = self.length - whole * self.segment
        return [(0, whole, self.segment), *([(whole * self.segment, 1, rest)] if rest else [])]

    def keep(self, operands):
        """Results of the loop, and the states at the beginning of all segments."""
        consts, state, rows = self.split(operands)
        kept, outputs = [], []
        for first, count, size in self.parts():
            here = [_segments(x, first, count, size) for x in rows]

            def segment(state, rows, size=size):
                new, out = jax.lax.scan(lambda s, row: self.step(consts, s, row), state, rows, length=size)
                return new, (state, out)

            def round_(state, rows):
                new, out = self.step(consts, state, [x[0] for x in rows])
                return new, (state, [y[None] for y in out])

            state, (states, out) = jax.lax.scan(round_ if size == 1 else segment, state, here, length=count)
            kept += states
            outputs.append([y.reshape(count * size, *y.shape[2:]) for y in out])
        ys = [self._in_order(jnp.concatenate(p) if len(p) > 1 else p[0]) for p in zip(*outputs, strict=True)]
        return [*state, *ys], kept

    def replay(self, operands, kept: list):
        """The same results from the states that were kept, with a backward run of its own."""
        consts, state, rows = self.split(operands)
        del state
        parts = self.parts()
        outputs = []
        start = operands[self.n_consts : self.n_consts + self.n_carry]
        for number, (first, count, size) in enumerate(parts):
            states = kept[number * self.n_carry : (number + 1) * self.n_carry]
            here = [_segments(x, first, count, size) for x in rows]
            start, out = _replayed(self, count, size)(states, consts, list(start), here)
            outputs.append([y.reshape(count * size, *y.shape[2:]) for y in out])
        ys = [self._in_order(jnp.concatenate(p) if len(p) > 1 else p[0]) for p in zip(*outputs, strict=True)]
        return [*start, *ys]


def _with_loops_remembered(closed) -> Callable:
    """A jaxpr as a function whose own loops keep their states in reverse mode as well."""
    if not has_loops(closed.jaxpr):
        return core.jaxpr_as_fun(closed)
    return lambda *args: evaluate(closed.jaxpr, closed.consts, args, _remembered)


def _remembered(scan: Scan, operands) -> list:
    """The results of a loop inside of another; in reverse mode its states are kept for as long as the round lasts."""

    def plain(*operands):
        return scan.keep(operands)[0]

    def run_forward(*operands):
        results, kept = scan.keep(operands)
        return results, (operands, kept)

    def run_backward(residuals, cotangents):
        operands, kept = residuals

        def replayed(*reals):
            return [y for y in scan.replay(_filled(operands, reals, operands), kept) if _is_real(y)]

        reals = [x for x in operands if _is_real(x)]
        given = [ct for ct in cotangents if ct.dtype != jax.dtypes.float0]
        return tuple(_filled(operands, jax.vjp(replayed, *reals)[1](given)))

    run = jax.custom_vjp(plain)
    run.defvjp(run_forward, run_backward)
    return run(*operands)


def _segments(x, first: int, count: int, size: int):
    """Rows as (segments, rounds, …)."""
    return x[first : first + count * size].reshape(count, size, *x.shape[1:])


def _replayed(scan: Scan, count: int, size: int):
    """(kept states, constants, state at the start, rows) ↦ state at the end, rows out."""

    def forward(consts, state, rows):
        """One segment, its states kept."""

        def round_(state, row):
            new, out = scan.step(consts, state, row)
            return new, (state, out)

        if size == 1:
            new, (before, out) = round_(state, [x[0] for x in rows])
            return new, [x[None] for x in before], [y[None] for y in out]
        new, (before, out) = jax.lax.scan(round_, state, rows, length=size)
        return new, before, out

    def plain(kept, consts, state, rows):
        final, _, last = forward(consts, [s[-1] for s in kept], [x[-1] for x in rows])
        if not last:
            return final, []
        return final, jax.lax.scan(lambda _, k: (None, forward(consts, *k)[2]), None, (kept, rows), length=count)[1]

    def run_forward(kept, consts, state, rows):
        return plain(kept, consts, state, rows), (kept, consts, rows)

    def run_backward(residuals, cotangents):
        kept, consts, rows = residuals
        final, out = cotangents
        real = lambda xs: [x for x in xs if _is_real(x)]
        accumulated = [jnp.zeros_like(x) for x in real(consts)]
        ends = [_zero_unless_real(ct, s[0]) for ct, s in zip(final, kept, strict=True)]

        def back(carry, row):
            state, inputs, outs = row
            ends, sums = carry
            ends, by_consts, by_row = _pull_back(scan, consts, state, inputs, ends, outs)
            return (ends, [a + b for a, b in zip(sums, by_consts, strict=True)]), by_row

        def segment(carry, item):
            state, inputs, outs = item
            if size == 1:
                carry, by_row = back(carry, (state, [x[0] for x in inputs], [y[0] for y in outs]))
                return carry, [x[None] for x in by_row]
            before = forward(consts, state, inputs)[1]
            return jax.lax.scan(back, carry, (before, inputs, outs), length=size, reverse=True)

        reals = [ct for ct in ends if ct is not None]
        outs = [ct for ct in out if _is_real(ct)]
        (reals, sums), by_rows = jax.lax.scan(
            segment, (reals, accumulated), (kept, rows, outs), length=count, reverse=True
        )
        return (
            [None] * len(kept),
            _filled(consts, sums),
            _filled([s[0] for s in kept], reals),
            _filled(rows, by_rows),
        )

    run = jax.custom_vjp(plain)
    run.defvjp(run_forward, run_backward)
    return run


def _pull_back(scan: Scan, consts, state, row, ends, outs):
    """Cotangents of the real ones among state, constants and row of a round."""
    groups = (consts, state, row)
    reals = [[x for x in group if _is_real(x)] for group in groups]

    def of_reals(*parts):
        full = [_filled(group, part, group) for group, part in zip(groups, parts, strict=True)]
        new, out = scan.step(*full)
        return [x for x in new if _is_real(x)], [y for y in out if _is_real(y)]

    by_consts, by_state, by_row = jax.vjp(of_reals, *reals)[1]((list(ends), list(outs)))
    return by_state, by_consts, by_row


def _is_real(x) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.floating)


def _zero_unless_real(ct, like):
    return ct if _is_real(like) else None


def _filled(like, reals, others=None):
    """`reals` in the places of the real ones of `like`; elsewhere `others`, or None."""
    reals = list(reals)
    others = [None] * len(like) if others is None else others
    return [reals.pop(0) if _is_real(x) else y for x, y in zip(like, others, strict=True)]


def saving(source) -> tuple[Callable, Callable]:
    """Two functions for a closed jaxpr: args ↦ [*results, *kept states], and

    (args, kept, cotangents of the real results, which args) ↦ cotangents of those args.
    """

    def keep(*args):
        kept: list = []

        def on_loop(scan: Scan, operands):
            results, states = scan.keep(operands)
            kept.extend(states)
            return results

        return [*evaluate(source.jaxpr, source.consts, args, on_loop), *kept]

    def pull_back(args, kept, cotangents, active: Sequence[bool]):
        def replayed(*reals):
            states, given = list(kept), list(reals)
            full = [given.pop(0) if on else x for on, x in zip(active, args, strict=True)]

            def on_loop(scan: Scan, operands):
                count = len(scan.parts()) * scan.n_carry
                mine = [states.pop(0) for _ in range(count)]
                return scan.replay(operands, mine)

            return [y for y in evaluate(source.jaxpr, source.consts, full, on_loop) if _is_real(y)]

        reals = [x for on, x in zip(active, args, strict=True) if on]
        return jax.vjp(replayed, *reals)[1](list(cotangents))

    return keep, pull_back
