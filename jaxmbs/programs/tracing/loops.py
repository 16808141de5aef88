"""Rules of loops and branches: short loops are unrolled, the others become regions of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np
from jax.extend import core

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.nodes import INTEGER, TRUTH, Loop, Memory, Node, array
from jaxmbs.programs.runtime import jax_compat, tuning
from jaxmbs.programs.tracing.trace import MOVEMENTS, RULES, TAKES_MEMORY, Tracer, elementwise, variable_array


def scan(tracer: Tracer, eqn, *args):
    """Trace a counted loop: unrolled if it is short, else a `Loop`."""
    p, graph = eqn.params, tracer.graph
    body, length, reverse = p["jaxpr"], p["length"], p["reverse"]
    n_consts, n_carry = jax_compat.scan_counts(p)
    consts, carry, xs = args[:n_consts], list(args[n_consts : n_consts + n_carry]), args[n_consts + n_carry :]
    body_consts = [tracer.constants(np.asarray(c)) for c in body.consts]
    step = lambda values: tracer.run(body.jaxpr, body_consts, [*consts, *values])
    if length <= 1 or length * estimate_operations(body.jaxpr) <= tuning.MAX_UNROLLED_SCALARS:
        return _unroll(tracer, body, step, carry, xs, length, reverse)

    def attempt(varying: set[int]):
        loop = graph.open_loop(length, reverse)
        bound = _bind_carry(tracer, loop, body.jaxpr, n_consts, carry, varying)
        results = step([*(values for values, _ in bound), *(_row_of(tracer, loop, x) for x in xs)])
        new = [None if known is not None else r for (_, known), r in zip(bound, results, strict=False)]
        return loop, bound, new, results[n_carry:]

    loop, bound, _, ys = _trace_until_steady(tracer, eqn, attempt, carry)
    node = graph.close_loop(loop)
    finals = [known if known is not None else _final(tracer, loop, node, values) for values, known in bound]
    rows: list = []
    for y in ys:
        y = tracer.nodes(y)
        if y.size == 0:
            rows.append(array([], (length, *y.shape)))
            continue
        rows.append(loop.write_row(y.ravel()).whole(node).reshape((length, *y.shape)))
    return [*finals, *rows]


def _trace_until_steady(tracer: Tracer, eqn, attempt: Callable, carry):
    """Trace the body of a loop until it is known which of the carried scalars vary.

    Scalars that are constant at the start are first traced as constants, so that zeros of a matrix cost nothing. If the
    body changes one of them, it becomes a variable, and the body is traced again. Arrays of `variable_array` are variables
    from the first time.

    Args:
        tracer: the tracer.
        eqn: equation of the loop.
        attempt: (indices of the varying scalars) ↦ (loop, carried values in its body, carried results, …).
        carry: carried values at the start.

    Returns:
        The last result of `attempt`.
    """
    inits = [tracer.nodes(x).ravel() for x in carry]
    starts = np.cumsum([0, *(len(x) for x in inits)])
    varying = {
        int(start + k)
        for start, x, carried in zip(starts, inits, carry, strict=False)
        for k, node in enumerate(x)
        if not node.is_constant or getattr(carried, "varies", False)
    }
    # A loop within a loop is traced again with it. Values that varied before are not tried again.
    varying |= tracer.varying.get(id(eqn), set())
    while True:
        outcome = attempt(varying)
        loop, results = outcome[0], outcome[2]
        changed = set()
        for start, init, result in zip(starts, inits, results, strict=False):
            if result is None:
                continue
            for k, (old, new) in enumerate(zip(init, tracer.nodes(result).ravel(), strict=True)):
                if start + k in varying:
                    loop.results.append(new)
                elif new is not old:
                    changed.add(int(start + k))
        if not changed:
            tracer.varying[id(eqn)] = varying
            return outcome
        varying |= changed
        tracer.graph.depth -= 1


@jax_compat.kept_with_jaxpr
def estimate_operations(jaxpr, loops: bool = True) -> int:
    """Return a rough number of scalars that a jaxpr computes, with all iterations if `loops`, else with one."""
    total = 0
    for eqn in jaxpr.eqns:
        inner = [x for x in jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_jaxpr) if _is_jaxpr(x)]
        if inner:
            iterations = eqn.params.get("length", 1) if loops else 1
            total += iterations * sum(estimate_operations(getattr(x, "jaxpr", x), loops) for x in inner)
        elif "program" in eqn.params:
            program, iterations = eqn.params["program"], math.prod(eqn.params["batch"]) if loops else 1
            total += iterations * (
                program.size if program.source is None else estimate_operations(program.source.jaxpr, loops)
            )
        elif eqn.primitive.name not in MOVEMENTS:
            total += sum(math.prod(v.aval.shape) for v in eqn.outvars)
    return total


def _is_jaxpr(x) -> bool:
    """Return True for an open or closed jaxpr."""
    return isinstance(x, (core.ClosedJaxpr, core.Jaxpr))


def _unroll(tracer, body, step, carry, xs, length, reverse):
    """Return the results of a loop by tracing one iteration after the other; `step`: (carry, row) ↦ their results."""
    n_carry = len(carry)
    collected: list[list] = []
    for k in reversed(range(length)) if reverse else range(length):
        rows = [x.reorder(x.offsets[k]) if isinstance(x, Memory) else tracer.nodes(x)[k, ...] for x in xs]
        results = step([*carry, *rows])
        carry = results[:n_carry]
        collected.append([tracer.nodes(y) for y in results[n_carry:]])
    if reverse:
        collected.reverse()
    ys = []
    for k, var in enumerate(body.jaxpr.outvars[n_carry:]):
        shape = (length, *var.aval.shape)
        ys.append(array([node for row in collected for node in row[k].ravel()], shape))
    return [*carry, *ys]


def _bind_carry(
    tracer: Tracer, loop: Loop, jaxpr, n_consts: int, carry, varying: set[int]
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Bind the carried values of a loop.

    Returns:
        For each the value in the body, and the final value or None. A value that never changes stays itself, a counter
        follows from the index of the loop; their final values are known.
    """
    graph = tracer.graph
    bound: list[tuple[np.ndarray, np.ndarray | None]] = []
    start = 0
    for var, out, init in zip(jaxpr.invars[n_consts:], jaxpr.outvars, carry, strict=False):
        init = tracer.nodes(init)
        increment = _increment(jaxpr, var, out)
        if out is var:
            bound.append((init, init))
        elif increment is not None and init.shape == ():
            now = graph.add(init.item(), graph.make("mul", loop.index, graph.constant(increment)))
            end = graph.add(init.item(), graph.constant(increment * loop.length))
            bound.append((array([now], ()), array([end], ())))
        else:
            bound.append((_parameters(tracer, loop, init, start, varying), None))
        start += init.size
    return bound


def _parameters(tracer: Tracer, loop: Loop, init: np.ndarray, start: int, varying: set[int]) -> np.ndarray:
    """Return a carried array in the body: a parameter for each scalar that varies, else the constant at the start.

    Its first scalar is number `start` of all carried ones; `varying` has the numbers of those that vary.
    """
    flat = []
    for k, node in enumerate(init.ravel()):
        flat.append(tracer.graph.carry(loop, node) if start + k in varying else node)
    return array(flat, init.shape)


def _increment(jaxpr, var, out) -> int | None:
    """Return the constant integer by which a carried value grows in every iteration, None if it does not."""
    for eqn in jaxpr.eqns:
        if eqn.outvars and eqn.outvars[0] is out and eqn.primitive.name == "add":
            a, b = eqn.invars
            if hasattr(a, "val"):
                a, b = b, a
            if a is var and hasattr(b, "val") and np.dtype(var.aval.dtype).kind in "iu" and np.ndim(b.val) == 0:
                return int(b.val)
    return None


def _row_of(tracer: Tracer, loop: Loop, x) -> np.ndarray:
    """Return the row of a scanned array for the current iteration."""
    index = loop.index
    if loop.reverse:
        index = tracer.graph.sub(tracer.graph.constant(loop.length - 1), index)
    if not isinstance(x, Memory):
        x = tracer.nodes(x)
        if x.size == 0:
            return x[0]
        steady = _steady_rows(tracer, x, index)
        if steady is not None:
            return steady
        x = tracer.stack(x)
    stride = x.row_stride()
    if stride is None:
        x = tracer.stack(tracer.nodes(x))
        stride = x.buffer.width
    return array([tracer.load(x, int(k), index, stride) for k in x.offsets[0].ravel()], x.shape[1:])


def _steady_rows(tracer: Tracer, x: np.ndarray, index: Node) -> np.ndarray | None:
    """Return the current row if all rows are equal, or are integers that grow evenly: it needs no memory. Else None."""
    rows = x.reshape(x.shape[0], -1)
    if all(node is first for row in rows for node, first in zip(row, rows[0], strict=True)):
        return x[0, ...]
    if x.ndim == 1 and x[0].kind == INTEGER and all(node.is_constant for node in x):
        values = np.array([node.value for node in x])
        step = int(values[1] - values[0])
        if (np.diff(values) == step).all():
            graph = tracer.graph
            value = graph.add(graph.constant(int(values[0])), graph.make("mul", graph.constant(step), index))
            return array([value], ())
    return None


def _final(tracer: Tracer, loop: Loop, node: Node, params: np.ndarray) -> np.ndarray:
    """Return "out" nodes, the final values of the carried values `params` of a loop."""
    final = lambda p: tracer.graph.final(node, p.origin.number) if _is_carried(p, loop) else p
    return array([final(p) for p in params.ravel()], params.shape)


def _is_carried(node: Node, loop: Loop) -> bool:
    """Return True if a node is a carried value of a loop, as its body sees it."""
    return node.op == "param" and node.origin.loop is loop


def while_loop(tracer: Tracer, eqn, *args):
    """Trace a loop that ends when its condition fails, and at the latest after a constant count."""
    p, graph = eqn.params, tracer.graph
    condition, body = p["cond_jaxpr"], p["body_jaxpr"]
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, carry = args[:n_cond], args[n_cond : n_cond + n_body], args[n_cond + n_body :]
    bound_and_counter = _iteration_bound(condition.jaxpr, body.jaxpr, n_cond, n_body, carry)
    if bound_and_counter is None:
        raise ProgramError(
            "a loop without a constant bound: use fori_loop with constant bounds or scan, or count the iterations and make "
            "`(count < limit) & condition` the condition"
        )

    bound, counter = bound_and_counter
    carried = [variable_array(x) if k == counter else x for k, x in enumerate(carry)]

    def attempt(varying: set[int]):
        loop = graph.open_loop(bound)
        loop.line = jax_compat.user_line(eqn)
        body_carry, start = [], 0
        for init in carried:
            body_carry.append(_parameters(tracer, loop, tracer.nodes(init), start, varying))
            start += body_carry[-1].size
        graph.open_condition(loop)
        seen = lambda p: loop.condition_params[p.origin.number] if _is_carried(p, loop) else p
        condition_carry = [array([seen(p) for p in params.ravel()], params.shape) for params in body_carry]
        (goes_on,) = tracer.run_closed(condition, [*cond_consts, *condition_carry])
        loop.condition = tracer.nodes(goes_on).item()
        results = tracer.run_closed(body, [*body_consts, *body_carry])
        return loop, body_carry, results

    loop, body_carry, _ = _trace_until_steady(tracer, eqn, attempt, carried)
    node = graph.close_loop(loop)
    return [_final(tracer, loop, node, params) for params in body_carry]


def _iteration_bound(condition, body, n_cond, n_body, carry) -> tuple[int, int] | None:
    """Return (largest number of iterations, index of the counter in `carry`) of a loop that counts up to a constant.

    None for other loops.
    """
    carried = {var: k for k, var in enumerate(condition.invars[n_cond:])}
    made = {eqn.outvars[0]: eqn for eqn in condition.eqns}
    pending = [condition.outvars[0]]
    while pending:
        eqn = made.get(pending.pop()) if pending else None
        if eqn is None:
            continue
        if eqn.primitive.name in ("and", "convert_element_type"):
            pending += [x for x in eqn.invars if not hasattr(x, "val")]
        if eqn.primitive.name == "lt":
            counter, limit = eqn.invars
            if hasattr(limit, "val") and counter in carried and np.ndim(limit.val) == 0:
                k = carried[counter]
                step = _increment(body, body.invars[n_body + k], body.outvars[k])
                start = carry[k]
                if step and step > 0 and isinstance(start, np.ndarray) and start.item().is_constant:
                    return max(0, math.ceil((int(limit.val) - start.item().value) / step)), k
    return None


def cond(tracer: Tracer, eqn, index, *operands):
    """Trace a branch: all branches are computed, and the results of one are selected."""
    branches = eqn.params["branches"]
    chosen = tracer.nodes(index).item()
    if chosen.is_constant:
        return tracer.run_closed(branches[min(max(int(chosen.value), 0), len(branches) - 1)], operands)
    if chosen.kind == TRUTH:
        chosen = tracer.graph.select(chosen, tracer.graph.constant(1), tracer.graph.constant(0))
    results = [[tracer.nodes(x) for x in tracer.run_closed(branch, operands)] for branch in branches]
    return [
        elementwise(lambda *xs: tracer.graph.lookup(chosen, xs), *same) if same[0].size else same[0]
        for same in zip(*results, strict=True)
    ]


RULES.update({"scan": scan, "while": while_loop, "cond": cond})
TAKES_MEMORY.update({"scan", "while", "cond"})
