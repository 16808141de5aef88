"""Reverse mode through time loops: the forward run keeps the carried state, the backward run computes a step again.

JAX's own reverse mode of a loop keeps every intermediate result of every step. Here only the state is kept, at every
step while that is small, else at the beginning of every segment of steps. The backward run computes the states of a segment
again, and goes back through it with each step computed once more; what is `remembered` of a step is computed once only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from jaxmbs.programs import jax_compat
from jaxmbs.programs.tracing.sharing import INLINED, called

# Bytes of states of a loop up to which all of them are kept from the forward run to the backward run. Of larger ones only
# the first state of each segment of √n rounds is: writing all to memory and reading them again takes longer than computing
# most of them again, which for 1,000 steps of nine coordinates are 288 kB.
KEPT_BYTES = 8 * 1024
# The same for loops inside of loops, whose states stay in the processor's caches.
REMEMBERED_BYTES = 256 * 1024
# Loops of no more rounds, without loops inside, keep nothing in the forward run.
SHORT = 8
# In the backward run loops of more rounds than this keep their states while the round around them is pulled back. JAX's
# own reverse mode would keep every intermediate result.
INSIDE = 2


def settings() -> tuple:
    """What decides how a program is gone back through, beside the program."""
    return KEPT_BYTES, REMEMBERED_BYTES, SHORT, INSIDE


def zero_tangent(x):
    """The tangent of a value that does not depend on what is differentiated."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


# x ↦ x, without derivative.
remember_p = core.Primitive("remember")
remember_p.def_impl(lambda x: x)
remember_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(remember_p, lambda context, x: [x])
batching.primitive_batchers[remember_p] = lambda args, dims: (remember_p.bind(*args), dims[0])
ad.primitive_jvps[remember_p] = lambda primals, _: (remember_p.bind(*primals), zero_tangent(*primals))
ad.primitive_transposes[remember_p] = lambda cotangent, _: [cotangent]


def has_loops(jaxpr, beyond: int = SHORT) -> bool:
    """Whether a jaxpr has counted loops of more rounds, not counting those inside of other primitives' rules."""
    return any(_leads_to_loop(eqn, beyond) for eqn in jaxpr.eqns)


def evaluate(closed, args, on_loop: Callable, beyond: int = SHORT, on_mark: Callable = lambda x: x) -> list:
    """Evaluate a closed jaxpr: counted loops of more rounds than `beyond` by `on_loop(parameters, args)`, values marked by
    `remembered` by `on_mark(value)`."""
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    read = lambda x: x.val if hasattr(x, "val") else values[x]
    special = lambda eqn: _is_mark(eqn) or _leads_to_loop(eqn, beyond)
    for apart, eqns in itertools.groupby(jaxpr.eqns, special):
        if not apart:
            _evaluate_plain(jaxpr, list(eqns), values)
            continue
        for eqn in eqns:
            operands = [read(x) for x in eqn.invars]
            if _is_mark(eqn):
                results = [on_mark(operands[0])]
            elif eqn.primitive.name != "scan":
                results = evaluate(called(eqn), operands, on_loop, beyond, on_mark)
            elif eqn.params["length"] == 1:
                constants, carried = jax_compat.scan_counts(eqn.params)
                state = constants + carried
                once = [*operands[:state], *(x[0] for x in operands[state:])]
                results = evaluate(eqn.params["jaxpr"], once, on_loop, beyond, on_mark)
                results = [*results[:carried], *(y[None] for y in results[carried:])]
            else:
                results = on_loop(eqn.params, operands)
            values.update(zip(eqn.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def remembered(x):
    """x, a value without derivative that costs much: where a round of a loop is computed twice in reverse mode, the second
    time it is taken from the first."""
    return remember_p.bind(jnp.asarray(x))


def _is_mark(eqn) -> bool:
    return eqn.primitive is remember_p


def _leads_to_loop(eqn, beyond: int) -> bool:
    name = eqn.primitive.name
    if name == "scan":
        return eqn.params["length"] > beyond or has_loops(eqn.params["jaxpr"].jaxpr, beyond)
    return name in INLINED and has_loops(called(eqn).jaxpr, beyond)


def _evaluate_plain(jaxpr, eqns, values: dict) -> None:
    """Equations without loops, as JAX evaluates them."""
    made = {var for eqn in eqns for var in eqn.outvars}
    needed = {x: None for eqn in eqns for x in eqn.invars if not hasattr(x, "val") and x not in made}
    outs = [var for var in made if type(var).__name__ != "DropVar"]
    function = core.jaxpr_as_fun(jax_compat.closed_jaxpr(jaxpr, invars=list(needed), outvars=outs, eqns=eqns))
    values.update(zip(outs, function(*[values[x] for x in needed]), strict=True))


class Scan:
    """A counted loop by its parameters: constants, carried state, rows in and out. Where its states are more than `budget`
    bytes only that of the first of `segment` rounds is kept."""

    def __init__(self, params, budget: float):
        self.jaxpr = params["jaxpr"]
        self.length, self.reverse = params["length"], params["reverse"]
        self.n_consts, self.n_carry = jax_compat.scan_counts(params)
        self.n_rows_out = len(self.jaxpr.out_avals) - self.n_carry
        state = self.jaxpr.in_avals[self.n_consts : self.n_consts + self.n_carry]
        size = sum(math.prod(x.shape) * x.dtype.itemsize for x in state)
        self.segment = 1 if self.length * size <= budget else _segment(self.length)

    def split(self, operands: Sequence):
        """Constants, state at the start, rows in the order of the rounds."""
        consts, state = operands[: self.n_consts], operands[self.n_consts : self.n_consts + self.n_carry]
        rows = operands[self.n_consts + self.n_carry :]
        return list(consts), list(state), [self._in_order(x) for x in rows]

    def _in_order(self, rows):
        return jnp.flip(rows, 0) if self.reverse else rows

    def step(self, consts, state, row):
        """New state and row out."""
        return self._parted(core.jaxpr_as_fun(self.jaxpr)(*consts, *state, *row))

    def marking(self, consts, state, row):
        """The same, and the values that are to be remembered."""
        marks: list = []

        def on_mark(x):
            marks.append(x)
            return x

        as_it_is = lambda params, operands: jax.lax.scan_p.bind(*operands, **params)
        results = evaluate(self.jaxpr, [*consts, *state, *row], as_it_is, on_mark=on_mark)
        return *self._parted(results), marks

    def differentiable(self, consts, state, row, marks):
        """As `step`, with values that are known; in reverse mode the loops inside keep their states for as long as the
        round lasts."""
        known = list(marks)
        on_mark = lambda x: known.pop(0) if marks else x
        return self._parted(evaluate(self.jaxpr, [*consts, *state, *row], _remembered, INSIDE, on_mark))

    def _parted(self, results):
        return list(results[: self.n_carry]), list(results[self.n_carry :])

    def parts(self) -> list[tuple[int, int, int]]:
        """(first round, segments, rounds in a segment): whole segments, then the rest as one more."""
        whole = self.length // self.segment
        rest = self.length - whole * self.segment
        return [(0, whole, self.segment), *([(whole * self.segment, 1, rest)] if rest else [])]

    def keep(self, operands, *, marks: bool):
        """Results of the loop; and for each part the states at the beginning of all segments and, where every round is one,
        the values to be remembered if asked for."""
        consts, state, rows = self.split(operands)
        kept, outputs = [], []
        for first, count, size in self.parts():
            here = [_segments(x, first, count, size) for x in rows]

            def segment(state, rows, size=size):
                new, out = jax.lax.scan(lambda s, row: self.step(consts, s, row), state, rows, length=size)
                return new, (state, [], out)

            def round_(state, rows):
                new, out, values = self.marking(consts, state, [x[0] for x in rows])
                return new, (state, values if marks else [], [y[None] for y in out])

            state, (states, values, out) = jax.lax.scan(round_ if size == 1 else segment, state, here, length=count)
            kept.append((states, values))
            outputs.append([y.reshape(count * size, *y.shape[2:]) for y in out])
        ys = [self._in_order(jnp.concatenate(p) if len(p) > 1 else p[0]) for p in zip(*outputs, strict=True)]
        return [*state, *ys], (kept, state)

    def replay(self, operands, kept):
        """The same results from what was kept, with a backward run of its own."""
        consts, state, rows = self.split(operands)
        outputs = []
        parts, last = kept
        for (first, count, size), own, following in zip(self.parts(), parts, [*parts[1:], None], strict=True):
            here = [_segments(x, first, count, size) for x in rows]
            final = last if following is None else [s[0] for s in following[0]]
            state, out = _replayed(self, count, size)(own, final, consts, list(state), here)
            outputs.append([y.reshape(count * size, *y.shape[2:]) for y in out])
        ys = [self._in_order(jnp.concatenate(p) if len(p) > 1 else p[0]) for p in zip(*outputs, strict=True)]
        return [*state, *ys]


def _segment(length: int) -> int:
    """Some √n rounds; if it can be so that all segments are equally long, which are then compiled once."""
    least = math.isqrt(length - 1) + 1
    return next((size for size in range(least, 2 * least + 1) if length % size == 0), least)


def _count_loops(jaxpr) -> int:
    """Loops that keep states, side by side."""
    inside = lambda eqn: _count_loops(called(eqn).jaxpr)
    single = lambda eqn: eqn.primitive.name == "scan" and eqn.params["length"] > 1
    return sum(1 if single(eqn) else inside(eqn) for eqn in jaxpr.eqns if _leads_to_loop(eqn, SHORT))


def _remembered(params, operands) -> list:
    """The results of a loop inside of another; in reverse mode its states are kept for as long as the round lasts."""
    scan = Scan(params, REMEMBERED_BYTES)

    def plain(*operands):
        consts, state, rows = scan.split(operands)
        final, out = jax.lax.scan(lambda s, row: scan.step(consts, s, row), state, rows, length=scan.length)
        return [*final, *[scan._in_order(y) for y in out]]

    def run_forward(*operands):
        results, kept = scan.keep(operands, marks=True)
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
    """(what was kept, state at the end, constants, state at the start, rows) ↦ state at the end, rows out."""

    def forward(consts, state, rows):
        """Rows out of one segment, and the states of its rounds with the values that are remembered there."""

        def round_(state, row):
            new, out, marks = scan.marking(consts, state, row)
            return new, (state, marks, out)

        before, marks, out = jax.lax.scan(round_, state, rows, length=size)[1]
        return out, (before, marks)

    def plain(kept, final, consts, state, rows):
        if not scan.n_rows_out:
            return final, []
        return final, jax.lax.scan(lambda _, x: (None, forward(consts, *x)[0]), None, (kept[0], rows), length=count)[1]

    def run_forward(kept, final, consts, state, rows):
        return plain(kept, final, consts, state, rows), (kept, consts, rows)

    def run_backward(residuals, cotangents):
        (states, marks), consts, rows = residuals
        final, out = cotangents
        real = lambda xs: [x for x in xs if _is_real(x)]
        accumulated = [jnp.zeros_like(x) for x in real(consts)]
        ends = [_zero_unless_real(ct, s[0]) for ct, s in zip(final, states, strict=True)]

        def back(carry, row):
            ends, sums = carry
            ends, by_consts, by_row = _pull_back(scan, consts, ends, *row)
            return (ends, [a + b for a, b in zip(sums, by_consts, strict=True)]), by_row

        def segment(carry, item):
            state, marks, inputs, outs = item
            if size == 1:
                carry, by_row = back(carry, (state, marks, [x[0] for x in inputs], [y[0] for y in outs]))
                return carry, [x[None] for x in by_row]
            return jax.lax.scan(
                back, carry, (*forward(consts, state, inputs)[1], inputs, outs), length=size, reverse=True
            )

        reals = [ct for ct in ends if ct is not None]
        outs = [ct for ct in out if _is_real(ct)]
        (reals, sums), by_rows = jax.lax.scan(
            segment, (reals, accumulated), (states, marks, rows, outs), length=count, reverse=True
        )
        return (
            jax.tree.map(lambda x: None, (states, marks)),
            [None] * len(states),
            _filled(consts, sums),
            _filled([s[0] for s in states], reals),
            _filled(rows, by_rows),
        )

    run = jax.custom_vjp(plain)
    run.defvjp(run_forward, run_backward)
    return run


def _pull_back(scan: Scan, consts, ends, state, marks, row, outs):
    """Cotangents of the real ones among state, constants and row of a round."""
    groups = (consts, state, row)
    reals = [[x for x in group if _is_real(x)] for group in groups]

    def of_reals(*parts):
        consts, state, row = (_filled(group, part, group) for group, part in zip(groups, parts, strict=True))
        new, out = scan.differentiable(consts, state, row, marks)
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
    budget = KEPT_BYTES / max(1, _count_loops(source.jaxpr))
    tree = None

    def keep(*args):
        nonlocal tree
        kept: list = []

        def on_loop(params, operands):
            results, states = Scan(params, budget).keep(operands, marks=False)
            kept.append(states)
            return results

        results = evaluate(source, args, on_loop)
        states, tree = jax.tree.flatten(kept)
        return [*results, *states]

    def pull_back(args, kept, cotangents, active: Sequence[bool]):
        assert tree is not None  # `keep` has been traced

        def replayed(*reals):
            states, given = jax.tree.unflatten(tree, kept), list(reals)
            full = [given.pop(0) if on else x for on, x in zip(active, args, strict=True)]
            on_loop = lambda params, operands: Scan(params, budget).replay(operands, states.pop(0))
            return [y for y in evaluate(source, full, on_loop) if _is_real(y)]

        reals = [x for on, x in zip(active, args, strict=True) if on]
        return jax.vjp(replayed, *reals)[1](list(cotangents))

    return keep, pull_back
