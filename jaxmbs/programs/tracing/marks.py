"""Values with a derivative of their own: roots, solutions of linear systems, results of functions with a custom rule.

A graph that is to be differentiated has a `mark` node around each of them. Derivatives of a mark follow its rule,
whatever the value was computed from. Graphs that are only evaluated have no marks.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import jax
import numpy as np

from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import Graph
from jaxmbs.programs.graph.nodes import REAL, Node, Region, array
from jaxmbs.programs.runtime import jax_compat
from jaxmbs.programs.tracing.trace import RULES, TAKES_MEMORY, DeferredArray, Tracer


class AbstractRule(abc.ABC):
    """The derivative of some values by the inputs that they were made from.

    Attributes:
        key: equal for rules that do the same.
    """

    key: object

    @abc.abstractmethod
    def tangents(self, tracer: Tracer, inputs: Sequence, outputs: Sequence, rates: Sequence) -> list:
        """Return an array of nodes for each real output, from the rates of the inputs, None for unchanging ones."""

    @abc.abstractmethod
    def cotangents(self, tracer: Tracer, inputs: Sequence, active: Sequence[bool], cotangents: Sequence) -> list:
        """Return an array of nodes for each active input; only for rules that are direct."""

    @abc.abstractmethod
    def is_linear(self, active: Sequence[bool]) -> bool:
        """Return True if the outputs are linear in these inputs, and have direct cotangents."""

    @abc.abstractmethod
    def is_direct(self, active: Sequence[bool]) -> bool:
        """Return True if there are direct cotangents by these inputs."""


class MarkGroup:
    """Values that were made together, and their marks.

    Attributes:
        rule: their derivative.
        inputs: arrays of nodes, or matrices with factors.
        values: arrays of nodes.
        marks: a mark for each real node of the values.
        region: the innermost of all these nodes, in which the marks are.
        linear: (which inputs are active) ↦ (rates of the inputs, rates of the marks, nodes made for them).
    """

    __slots__ = ("_reals", "inputs", "linear", "marks", "region", "rule", "values")

    def __init__(self, rule: AbstractRule, inputs: list, values: list):
        self.rule, self.inputs, self.values = rule, inputs, values
        self.marks: list[Node] = []
        self.linear: dict = {}
        real = lambda value: frozenset(x.serial for x in value.ravel().tolist() if x.kind == REAL and x.op != "const")
        self._reals = [frozenset() if isinstance(x, DeferredArray) else real(x) for x in inputs]
        everything = self.nodes()
        self.region: Region = max((x.region for x in everything), key=lambda region: region.depth)

    def nodes(self) -> list[Node]:
        """Return all nodes that the rule may need: those of the inputs and of the values."""
        found = [x for value in self.inputs for x in nodes_of(value)]
        return found + [x for value in self.values for x in value.ravel()]

    def values_with_marks(self) -> list[np.ndarray]:
        """Return the values with the marks in the places of the real ones."""
        marks = iter(self.marks)
        places = lambda value: [next(marks) if x.kind == REAL else x for x in value.ravel()]
        return [array(places(value), value.shape) for value in self.values]

    def forget(self) -> None:
        """Delete the arrays of the group, once nothing needs the graph any more."""
        self.inputs, self.values, self.linear = [], [], {}

    def mask(self, found: set[int]) -> tuple[bool, ...]:
        """Return for each input True if one of its real entries is among these serial numbers."""
        return tuple(not found.isdisjoint(serials) for serials in self._reals)


class MarkMember(NamedTuple):
    """The place of a mark: its group, and its number there."""

    group: MarkGroup
    number: int


def nodes_of(value) -> list[Node]:
    """Return the nodes of an array, or those of the factors of a matrix."""
    return value.factors.nodes() if isinstance(value, DeferredArray) else list(value.ravel())


def with_marks(tracer: Tracer, rule: AbstractRule, inputs: Sequence, outputs: Sequence) -> list:
    """Return the outputs, with marks around them in a graph that is to be differentiated."""
    if not tracer.marking:
        return list(outputs)
    held = [x if isinstance(x, DeferredArray) and x.factors is not None else tracer.nodes(x) for x in inputs]
    return mark(tracer.graph, rule, held, [tracer.nodes(x) for x in outputs])


def mark(graph: Graph, rule: AbstractRule, inputs: list, values: list) -> list:
    """Return the values (arrays of nodes) with marks on their real nodes, at which derivatives use `rule` and `inputs`.

    A repeated call with the same rule and nodes gives the same marks. Values are returned unchanged if all real nodes,
    of inputs and values, are constant.
    """
    everything = [x for value in (*inputs, *values) for x in nodes_of(value)]
    if not any(x.kind == REAL and not x.is_constant for x in everything):
        return list(values)
    key = (rule.key, *(x.serial for x in everything))
    group = graph.groups.get(key)
    if group is None:
        group = graph.groups[key] = MarkGroup(rule, list(inputs), list(values))
        for value in values:
            for node in value.ravel():
                if node.kind == REAL:
                    group.marks.append(
                        graph.node("mark", (node,), REAL, MarkMember(group, len(group.marks)), group.region)
                    )
    return group.values_with_marks()


class EquationRule(AbstractRule):
    """The rule that an equation of a jaxpr has in JAX: that of a custom function, or of a linear system."""

    def __init__(self, eqn):
        self.eqn, self.key = eqn, id(eqn)
        self._jaxprs: dict = {}

    def tangents(self, tracer, inputs, outputs, rates):
        """Return the rates of the real outputs, by the equation's own rule."""
        if self.eqn.primitive.name == "custom_vjp_call":
            raise ProgramError(f"{self._name()}: a function with a custom_vjp has no derivative in forward mode")
        active = tuple(x is not None for x in rates)
        return self._run(tracer, "tangents", active, [*inputs, *(x for x in rates if x is not None)])

    def cotangents(self, tracer, inputs, active, cotangents):
        """Return the cotangents of the active inputs, by the equation's own rule."""
        return self._run(tracer, "cotangents", active, [*inputs, *cotangents])

    def is_linear(self, active):
        """Return True for a linear system, differentiated by its right-hand side alone."""
        if self.eqn.primitive.name != "custom_linear_solve":
            return False
        lengths = self.eqn.params["const_lengths"]
        return not any(active[: lengths.matvec + lengths.vecmat + lengths.solve + lengths.transpose_solve])

    def is_direct(self, active):
        """Return True also for a function with a rule for reverse mode only."""
        return self.eqn.primitive.name == "custom_vjp_call" or self.is_linear(active)

    def _run(self, tracer, mode: str, active, args):
        """Trace the jaxpr of a mode of differentiation for these active inputs."""
        jaxpr = self._jaxprs.get((mode, active))
        if jaxpr is None:
            jaxpr = self._jaxprs[mode, active] = getattr(self, "_" + mode)(active)
        return tracer.run_closed(jaxpr, args)

    def _name(self) -> str:
        """Return the name of the equation's primitive with the line of the user's code."""
        line = jax_compat.user_line(self.eqn)
        return self.eqn.primitive.name if line is None else f"{self.eqn.primitive.name}, at {line}"

    def _shapes(self, variables):
        """Return the shapes and dtypes of a jaxpr's variables."""
        return [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in variables]

    def _of_active(self, args, active):
        """Return the function active arguments ↦ real results, the other arguments being those in `args`."""

        def function(*some):
            given = iter(some)
            full = [next(given) if on else x for on, x in zip(active, args, strict=True)]
            results = jax_compat.bind_again(self.eqn, full, self.eqn.params)
            return [y for y in results if np.dtype(y.dtype).kind == "f"]

        return function

    def _tangents(self, active):
        """Return the jaxpr (all arguments, tangents of the active ones) ↦ tangents of the real results."""
        count = len(active)

        def tangents(*args):
            primals = list(compress(args, active))
            return jax.jvp(self._of_active(args[:count], active), primals, list(args[count:]))[1]

        shapes = self._shapes(self.eqn.invars)
        return jax.make_jaxpr(tangents)(*shapes, *compress(shapes, active))

    def _cotangents(self, active):
        """Return the jaxpr (all arguments, cotangents of the real results) ↦ cotangents of the active arguments."""
        count = len(active)

        def cotangents(*args):
            primals = list(compress(args, active))
            return jax.vjp(self._of_active(args[:count], active), *primals)[1](list(args[count:]))

        results = [x for x in self._shapes(self.eqn.outvars) if np.dtype(x.dtype).kind == "f"]
        return jax.make_jaxpr(cotangents)(*self._shapes(self.eqn.invars), *results)


def _with_rule(plain):
    """Return the rule `plain` with marks around the results, in a graph that is to be differentiated."""

    def rule(tracer: Tracer, eqn, *args):
        outputs = plain(tracer, eqn, *args)
        if not tracer.marking:
            return outputs
        rules = tracer.graph.rules
        if id(eqn) not in rules:
            rules[id(eqn)] = EquationRule(eqn)
        return with_marks(tracer, rules[id(eqn)], args, outputs)

    return rule


RULES["call_hi_primitive"] = lambda tracer, eqn, *args: tracer.run_closed(jax_compat.expand(eqn), args)
TAKES_MEMORY.add("call_hi_primitive")
# JAX primitives whose derivative is a rule of their own, which marks keep.
OWN_RULES = ("custom_jvp_call", "custom_vjp_call", "custom_linear_solve", "call_hi_primitive")
RULES.update({name: _with_rule(RULES[name]) for name in OWN_RULES})
