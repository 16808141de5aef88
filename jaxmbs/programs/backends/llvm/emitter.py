"""The functions of a program in LLVM's text.

Every region of a program (the program itself, the body or condition of a loop) becomes one function, so that
compilation time stays linear. Within it there is one SSA value per node. Values that cross from one region to another
lie in a frame, which has a place for each: a vector with one lane per sample, or a scalar if a kernel has one sample
only.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

from jaxmbs.programs.backends.llvm.code import AbstractCode
from jaxmbs.programs.backends.llvm.plan import Plan
from jaxmbs.programs.graph.nodes import INTEGER, TRUTH, Loop, Memory, Node
from jaxmbs.programs.tracing.program import Program, Shape


class AbstractEmitter(abc.ABC):
    """Writes all LLVM functions of a program; `kernel`, which runs them for a batch, depends on the processor.

    Attributes:
        code: class that writes the lines of a function.
    """

    code: type[AbstractCode]

    def __init__(self, program: Program, lanes: int, pointer: str = "ptr", ordered: bool = False):
        self.program, self.lanes = program, lanes
        self.plan = Plan(program, lanes, pointer, ordered)
        self.module, self.frame, self.live = self.plan.module, self.plan.frame, self.plan.live
        # Loops with a condition around the current line, the outermost first: a lane that has left one takes no part
        # inside.
        self.around: list[Loop] = []

    def emit(self) -> str:
        """Return the module: `kernel` and the functions that it calls."""
        self._region("root", self.plan.nodes(self.program.root), self._store_results)
        self.module.functions.append(self.kernel())
        return self.module.text()

    @abc.abstractmethod
    def kernel(self) -> str:
        """Return the function that runs `root` for samples of a batch."""

    @abc.abstractmethod
    def before_loop(self, code: AbstractCode, loop: Loop) -> None:
        """Write lines that stand before a loop with a condition."""

    @abc.abstractmethod
    def continuing_lanes(self, code: AbstractCode, loop: Loop, mask: str) -> str:
        """Return the mask of the lanes that take one more iteration, of those in `mask`, whose condition holds."""

    @abc.abstractmethod
    def attributes(self, code: AbstractCode) -> str:
        """Return the LLVM attributes of a function, "#0" for example, defined at the end of the module."""

    @property
    def used_buffers(self) -> list[int]:
        """Numbers of the buffers that the program uses: inputs, then outputs."""
        return [k for k in range(len(self.shapes)) if ("buffer", k) in self.frame.places]

    @property
    def shapes(self) -> list[Shape]:
        """Shapes of the buffers: inputs, then outputs."""
        return [*self.program.inputs, *self.program.outputs]

    def kernel_argument(self, k: int) -> int:
        """Return the place of buffer k among those that a kernel gets: the inputs that are loaded, then the outputs."""
        first, loaded = len(self.program.inputs), self.program.facts.loaded
        return len(loaded) + k - first if k >= first else loaded.index(k)

    def _region(
        self,
        name: str,
        nodes: list[Node],
        finish: Callable[[AbstractCode], str | None],
        params: str = "",
        counter: Node | None = None,
    ) -> str:
        """Write the function of a region, and for a large one those that it calls for its first parts.

        Args:
            name: name of the function.
            nodes: nodes of the region.
            finish: (code) ↦ the type of the function's result, None for "void"; it writes the last lines.
            params: text of the parameters after the frame.
            counter: the node that is the parameter %index.

        Returns:
            The name of the function.
        """
        code = self.code(self.plan, counter)
        if counter is not None and counter.serial in self.plan.crossing:
            code.save(counter.serial, INTEGER, "%index", uniform=True)
        *earlier, last = self.plan.parts(nodes)
        for k, part in enumerate(earlier):
            inner = self.code(self.plan, counter)
            self._nodes(inner, part)
            inner.line("ret void")
            self._function(f"{name}.{k}", "void", params, inner)
            code.line(f"call fastcc void @{name}.{k}(ptr %frame{', i64 %index' if params else ''})")
        self._nodes(code, last)
        self._function(name, finish(code) or "void", params, code)
        return name

    def _nodes(self, code: AbstractCode, nodes: list[Node]) -> None:
        """Write the LLVM lines of some nodes, loops included."""
        code.plan_blocks(nodes)
        for node in nodes:
            if node.op == "loop":
                self._loop(code, node.loop)
            else:
                code.write_node(node)

    def _function(self, name: str, result: str, params: str, code: AbstractCode) -> None:
        """Add a function to the module."""
        head = (
            f"define internal fastcc {result} @{name}(ptr noalias nocapture %frame{params}) {self.attributes(code)} {{"
        )
        self.module.functions.append("\n".join([head, "entry:", *code.lines, "}"]))

    def _store_results(self, code: AbstractCode) -> None:
        """Write the outputs, except those that loops write as their rows."""
        first = len(self.program.inputs)
        for k, (result, out) in enumerate(zip(self.program.results, self.program.outputs, strict=True)):
            if not isinstance(result, Memory):
                for offset, node in enumerate(result.ravel()):
                    code.store_output(first + k, out.dtype, offset, node, None)
        code.line("ret void")

    def _loop(self, code: AbstractCode, loop: Loop) -> None:
        """Write the LLVM lines that run a loop, and the functions of its body and condition."""
        live = self.live
        label = self.plan.new_name("loop")
        body = self._body(loop)
        for k in live.params(loop):
            code.save(("carry", loop, k), loop.params[k].kind, code.wide(loop.inits[k]))
        if loop.condition is not None:
            self.before_loop(code, loop)
        before = code.let("add i64 0, 0")
        code.line(f"br label %{label}.before")
        code.lines.append(f"{label}.before:")
        code.line(f"br label %{label}")
        code.lines.append(f"{label}:")
        now, then = f"%{label}.index", f"%{label}.next"
        code.line(f"{now} = phi i64 [ {before}, %{label}.before ], [ {then}, %{label}.body ]")
        goes_on = code.let(f"icmp slt i64 {now}, {loop.length}")
        if loop.condition is not None:
            condition = self._condition(loop)
            code.line(f"br i1 {goes_on}, label %{label}.condition, label %{label}.end")
            code.lines.append(f"{label}.condition:")
            goes_on = code.let(f"call fastcc i1 @{condition}(ptr %frame)")
        code.line(f"br i1 {goes_on}, label %{label}.body, label %{label}.end")
        code.lines.append(f"{label}.body:")
        code.line(f"call fastcc void @{body}(ptr %frame, i64 {now})")
        code.line(f"{then} = add i64 {now}, 1")
        code.line(f"br label %{label}")
        code.lines.append(f"{label}.end:")

    def _body(self, loop: Loop) -> str:
        """Write the function of one iteration of a loop, and return its name."""
        name = self.plan.new_name("body")
        live = self.live

        def finish(code: AbstractCode) -> None:
            """Write rows and carried values at the end of an iteration; return the type of the function's result."""
            for buffer, row in live.rows(loop):
                code.store_row(loop, buffer, row)
            masked = loop.condition is not None and self.lanes > 1
            mask = code.reload(("mask", loop), TRUTH) if masked else None
            finals = []
            for k in live.params(loop):
                new = code.wide(loop.results[k])
                if mask is not None:
                    kind = self.module.vector(loop.params[k].kind)
                    old = code.value(loop.params[k])
                    new = code.let(f"select {self.module.vector(TRUTH)} {mask}, {kind} {new}, {kind} {old}")
                finals.append((k, new))
            for k, new in finals:
                code.save(("carry", loop, k), loop.params[k].kind, new)
            code.line("ret void")

        nodes = [node for node in self.plan.nodes(loop.body) if node.op not in ("param", "index")]
        around = [loop] if loop.condition is not None else []
        self.around += around
        region = self._region(name, nodes, finish, ", i64 %index", loop.index)
        del self.around[len(self.around) - len(around) :]
        return region

    def _condition(self, loop: Loop) -> str:
        """Write the function that returns True if any lane continues, and marks those in the frame; return its name."""
        name = self.plan.new_name("condition")
        assert loop.condition is not None
        assert loop.condition_region is not None
        condition = loop.condition
        around = self.around[-1] if self.around else None

        def finish(code: AbstractCode) -> str:
            """Write the mask of the lanes that go on, and return the type of the function's result."""
            mask = code.wide(condition)
            if self.lanes == 1:
                code.line(f"ret i1 {mask}")
                return "i1"
            kind = self.module.vector(TRUTH)
            if around is not None:
                mask = code.let(f"and {kind} {mask}, {code.reload(('mask', around), TRUTH)}")
            mask = self.continuing_lanes(code, loop, mask)
            code.save(("mask", loop), TRUTH, mask)
            reduce = self.module.declare("i1", f"llvm.vector.reduce.or.{self.module.suffix('i1')}", [kind])
            code.line(f"ret i1 {code.let(f'call i1 @{reduce}({kind} {mask})')}")
            return "i1"

        nodes = [node for node in self.plan.nodes(loop.condition_region) if node.op != "param"]
        return self._region(name, nodes, finish)
