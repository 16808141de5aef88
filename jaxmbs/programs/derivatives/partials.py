"""The derivative of each scalar operation by its arguments, as nodes of the graph that it is in."""

from __future__ import annotations

from collections.abc import Callable

from jaxmbs.programs.tracing.graph import REAL, Graph, Node, ProgramError

# Operations whose derivative is zero wherever it exists.
STEADY = frozenset(
    {"const", "param", "index", "stop", "remember", "sign", "floor", "ceil", "round", "trunc", "real", "integer"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "idiv", "irem"}
)
# Steady operations that return their argument. In the rates of a rule they hand the cotangent on: there a rate is a value,
# linear in other rates. In forward mode rates of a rule are copied as values.
HANDED_ON = frozenset({"stop", "remember"})
# Those that `cotangent` and `tangent` know themselves.
DIRECT = frozenset({"add", "sub", "neg", "mul", "select", "load", "stack", "out", "loop", "mark"}) | HANDED_ON
# Operations that take as long as ten multiplications or more.
COSTLY = frozenset(
    {"div", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh"}
    | {"atanh", "exp", "log", "expm1", "log1p", "cbrt", "pow", "rem", "remember"}
)


def partials(graph: Graph, node: Node) -> list[tuple[Node, Node]]:
    """(argument, derivative by it) of an operation that is neither steady nor direct.

    Raises:
        ProgramError: an operation without a rule.
    """
    rule = PARTIALS.get(node.op)
    if rule is None:
        raise ProgramError(f"the operation {node.op!r} has no derivative here")
    slopes = rule(graph, node, *node.args)
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    return [(a, slope) for a, slope in zip(node.args, slopes, strict=True) if a.kind == REAL and not a.is_constant]


def carriers(node: Node) -> tuple[Node, ...]:
    """The arguments by which an active operation may have a derivative, memory and loops aside."""
    if node.op in HANDED_ON:
        return node.args
    if node.op in STEADY or node.op in ("load", "stack", "out", "loop", "mark"):
        return ()
    return node.args[1:] if node.op == "select" else node.args


def _inverse(graph: Graph, x: Node) -> Node:
    return graph.make("div", graph.constant(1.0), x)


def _square(graph: Graph, x: Node) -> Node:
    return graph.mul(x, x)


def _one_plus(graph: Graph, x: Node) -> Node:
    return graph.add(graph.constant(1.0), x)


def _one_minus(graph: Graph, x: Node) -> Node:
    return graph.sub(graph.constant(1.0), x)


def _by_root(inside: Callable) -> Callable:
    """1 / √inside(x²)."""
    return lambda g, y, x: _inverse(g, g.make("sqrt", inside(g, _square(g, x))))


def _divide(g: Graph, y: Node, a: Node, b: Node):
    inverse = y if a.is_constant and a.payload == 1 else _inverse(g, b)
    return inverse, g.make("neg", g.mul(y, inverse))


def _extreme(wins: str):
    """The derivative of the argument that is taken; half of each where they are equal."""

    def rule(g: Graph, y: Node, a: Node, b: Node):
        half, one, zero = g.constant(0.5), g.constant(1.0), g.constant(0.0)
        taken, same = g.make(wins, a, b), g.make("eq", a, b)
        by_a = g.select(taken, one, g.select(same, half, zero))
        return by_a, g.sub(one, by_a)

    return rule


def _power(g: Graph, y: Node, a: Node, b: Node):
    one, zero = g.constant(1.0), g.constant(0.0)
    by_a = g.mul(b, g.make("pow", a, g.sub(b, one)))
    # 0ᵇ does not change with b > 0.
    positive = g.make("gt", a, zero)
    return by_a, g.select(positive, g.mul(g.make("log", g.select(positive, a, one)), y), zero)


def _angle(g: Graph, y: Node, a: Node, b: Node):
    inverse = _inverse(g, g.add(_square(g, a), _square(g, b)))
    return g.mul(b, inverse), g.make("neg", g.mul(a, inverse))


def _remainder(g: Graph, y: Node, a: Node, b: Node):
    quotient = g.make("div", g.sub(a, y), b)
    return g.constant(1.0), g.make("neg", g.make("round", quotient))


PARTIALS: dict[str, Callable] = {
    "abs": lambda g, y, x: g.make("sign", x),
    "div": _divide,
    "min": _extreme("lt"),
    "max": _extreme("gt"),
    "rem": _remainder,
    "pow": _power,
    "atan2": _angle,
    "sqrt": lambda g, y, x: g.make("div", g.constant(0.5), y),
    "cbrt": lambda g, y, x: g.make("div", y, g.mul(g.constant(3.0), x)),
    "sin": lambda g, y, x: g.make("cos", x),
    "cos": lambda g, y, x: g.make("neg", g.make("sin", x)),
    "tan": lambda g, y, x: _one_plus(g, _square(g, y)),
    "asin": _by_root(_one_minus),
    "acos": lambda g, y, x: g.make("neg", _by_root(_one_minus)(g, y, x)),
    "atan": lambda g, y, x: _inverse(g, _one_plus(g, _square(g, x))),
    "sinh": lambda g, y, x: g.make("cosh", x),
    "cosh": lambda g, y, x: g.make("sinh", x),
    "tanh": lambda g, y, x: _one_minus(g, _square(g, y)),
    "asinh": _by_root(_one_plus),
    "acosh": lambda g, y, x: _inverse(g, g.make("sqrt", g.sub(_square(g, x), g.constant(1.0)))),
    "atanh": lambda g, y, x: _inverse(g, _one_minus(g, _square(g, x))),
    "exp": lambda g, y, x: y,
    "log": lambda g, y, x: _inverse(g, x),
    "expm1": lambda g, y, x: _one_plus(g, y),
    "log1p": lambda g, y, x: _inverse(g, _one_plus(g, x)),
}
