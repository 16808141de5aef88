"""Emission for CPUs: LLVM vector code with one lane per sample of the batch.

Every region of a program (the program itself, the body or condition of a loop) becomes one function, not inlined, so
that compilation stays linear. Within it there is one SSA value per node. What crosses from one region to another lies
in a frame of one vector per value, which stays in the first-level cache.

A loop with a condition takes as many rounds as the slowest lane of its group. `patience` sets such lanes aside.
"""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.code import Code
from jaxmbs.programs.backends.llvm.patience import Patience
from jaxmbs.programs.backends.llvm.plan import Plan
from jaxmbs.programs.backends.llvm.text import ALIGNMENT, aligned, following, splat
from jaxmbs.programs.tracing.graph import INTEGER, TRUTH, Loop, Node
from jaxmbs.programs.tracing.program import Program
from jaxmbs.programs.tracing.trace import Memory


class Emitter:
    """Emits all functions of a program."""

    def __init__(self, program: Program, lanes: int):
        self.program, self.lanes = program, lanes
        self.plan = Plan(program, lanes)
        self.module, self.frame, self.live = self.plan.module, self.plan.frame, self.plan.live
        self.patience = Patience(self.plan)
        # Loops with a condition that are being emitted, from the outermost: who has left one takes no part in those inside.
        self.around: list[Loop] = []

    def emit(self) -> str:
        """The module: `kernel(first, last, meta, buffers)` and what it calls."""
        self._region("root", self.live.nodes(self.program.root), self._store_results)
        if self.patience.loops:
            self.module.functions.append(self.patience.decision())
        self.module.functions.append(self._kernel())
        return self.module.text()

    def _region(self, name: str, nodes: list[Node], finish, params: str = "", counter: Node | None = None) -> str:
        """The function of a region, and of a large one those that it calls for its first parts."""
        code = Code(self.plan, counter)
        if counter is not None and counter.serial in self.plan.crossing:
            code.save(counter.serial, INTEGER, "%index", uniform=True)
        *earlier, last = self.plan.parts(nodes)
        for k, part in enumerate(earlier):
            inner = Code(self.plan, counter)
            self._nodes(inner, part)
            inner.line("ret void")
            self._function(f"{name}.{k}", "void", params, inner)
            code.line(f"call fastcc void @{name}.{k}(ptr %frame{', i64 %index' if params else ''})")
        self._nodes(code, last)
        self._function(name, finish(code) or "void", params, code)
        return name

    def _nodes(self, code: Code, nodes: list[Node]) -> None:
        code.plan_blocks(nodes)
        for node in nodes:
            if node.op == "loop":
                self._loop(code, node.payload)
            else:
                code.node(node)

    def _function(self, name: str, result: str, params: str, code: Code) -> None:
        head = f"define internal fastcc {result} @{name}(ptr noalias nocapture %frame{params}) #0 {{"
        self.module.functions.append("\n".join([head, "entry:", *code.lines, "}"]))

    def _store_results(self, code: Code) -> None:
        first = len(self.program.inputs)
        for k, (result, out) in enumerate(zip(self.program.results, self.program.outputs, strict=True)):
            if not isinstance(result, Memory):
                for offset, node in enumerate(result.ravel()):
                    code.store_output(first + k, out.dtype, offset, node, None)
        code.line("ret void")

    def _loop(self, code: Code, loop: Loop) -> None:
        live = self.live
        label = self.plan.name("loop")
        body = self._body(loop)
        for k in live.params(loop):
            code.save(("carry", id(loop), k), loop.params[k].kind, code.wide(loop.inits[k]))
        if loop.condition is not None and self.lanes > 1:
            self.patience.begin(code, loop)
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
        """The function of one round of a loop."""
        name = self.plan.name("body")
        live = self.live

        def finish(code: Code) -> None:
            for buffer, row in live.rows(loop):
                code.store_row(loop, buffer, row)
            mask = code.reload(("mask", id(loop)), TRUTH) if loop.condition is not None else None
            finals = []
            for k in live.params(loop):
                new = code.wide(loop.results[k])
                if mask is not None:
                    kind = self.module.vector(loop.params[k].kind)
                    old = code.value(loop.params[k])
                    new = code.let(f"select {self.module.vector(TRUTH)} {mask}, {kind} {new}, {kind} {old}")
                finals.append((k, new))
            for k, new in finals:
                code.save(("carry", id(loop), k), loop.params[k].kind, new)
            code.line("ret void")

        nodes = [node for node in live.nodes(loop.body) if node.op not in ("param", "index")]
        around = [loop] if loop.condition is not None else []
        self.around += around
        region = self._region(name, nodes, finish, ", i64 %index", loop.index)
        del self.around[len(self.around) - len(around) :]
        return region

    def _condition(self, loop: Loop) -> str:
        """The function that says whether any lane goes on, and leaves which ones do in the frame."""
        name = self.plan.name("condition")
        assert loop.condition is not None
        assert loop.condition_region is not None
        condition = loop.condition
        around = self.around[-1] if self.around else None

        def finish(code: Code) -> str:
            mask = code.wide(condition)
            if around is not None:
                kind = self.module.vector(TRUTH)
                mask = code.let(f"and {kind} {mask}, {code.reload(('mask', id(around)), TRUTH)}")
            if self.lanes > 1:
                mask = self.patience.go_on(code, loop, mask)
            code.save(("mask", id(loop)), TRUTH, mask)
            if self.lanes == 1:
                code.line(f"ret i1 {mask}")
            else:
                kind = self.module.vector(TRUTH)
                reduce = self.module.declare("i1", f"llvm.vector.reduce.or.{self.module.suffix('i1')}", [kind])
                code.line(f"ret i1 {code.let(f'call i1 @{reduce}({kind} {mask})')}")
            return "i1"

        nodes = [node for node in self.live.nodes(loop.condition_region) if node.op != "param"]
        return self._region(name, nodes, finish)

    def _kernel(self) -> str:
        """All lanes from `first` to `last`, a group at a time; 1 if there is no memory.

        meta: number of the inner batch axis's samples, then for each input that is loaded, and each output, its strides
        along the outer and the inner axis, in scalars. The lanes of a last group that is not full repeat its last sample.
        """
        used = [k for k in range(len(self._shapes)) if ("buffer", k) in self.frame.places]
        choice, after = self.patience.groups() if self.patience.loops else self._groups()
        lines = [
            "define internal i32 @kernel(i64 %first, i64 %last, ptr %meta, ptr %buffers) #0 {",
            "entry:",
            *self._memory(),
            *(line for k in used for line in self._buffer(k)),
            "  br label %group",
            *choice,
            *self._lane_numbers(),
            *(line for k in used for line in self._addresses(k)),
            "  br label %run",
            "run:",
            "  call fastcc void @root(ptr %frame)",
            *after,
            "  br label %group",
            "done:",
            "  call void @free(ptr %frame)",
            "  ret i32 0",
            "}",
        ]
        return "\n".join(lines)

    def _groups(self) -> tuple[list[str], list[str]]:
        """Blocks that choose the samples of the next group, %l, and what follows when it is done: one after another."""
        choice = [
            "group:",
            "  %base = phi i64 [ %first, %start ], [ %next, %run ]",
            "  %more = icmp slt i64 %base, %last",
            "  br i1 %more, label %address, label %done",
            "address:",
            *following(self.module, "l"),
        ]
        return choice, [f"  %next = add i64 %base, {self.lanes}"]

    @property
    def _shapes(self):
        return [*self.program.inputs, *self.program.outputs]

    def _memory(self) -> list[str]:
        """The frame, and behind it the scratch memory; what all groups of lanes share."""
        frame_bytes = aligned(max(self.frame.bytes, 1))
        self.module.declare("ptr", "aligned_alloc", ["i64", "i64"])
        self.module.declare("void", "free", ["ptr"])
        lines = [
            f"  %frame = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {frame_bytes + aligned(self.plan.scratch_bytes)})",
            "  %missing = icmp eq ptr %frame, null",
            "  br i1 %missing, label %fail, label %start",
            "fail:",
            "  ret i32 1",
            "start:",
            f"  %scratch = getelementptr i8, ptr %frame, i64 {frame_bytes}",
            "  %inner = load i64, ptr %meta",
            "  %flat = icmp eq i64 %inner, 1",
            "  %most = sub i64 %last, 1",
        ]
        if self.patience.loops:
            lines += self.patience.memory()
        if "scratch" in self.frame.places:
            lines += [
                f"  %scratch.at = getelementptr i8, ptr %frame, i64 {self.frame.place('scratch')}",
                "  store ptr %scratch, ptr %scratch.at",
            ]
        return lines

    def _buffer(self, k: int) -> list[str]:
        """Where a buffer begins, and its strides along both batch axes."""
        first, loaded = len(self.program.inputs), self.program.facts.loaded
        place = len(loaded) + k - first if k >= first else loaded.index(k)
        return [
            f"  %buffer.at{k} = getelementptr ptr, ptr %buffers, i64 {place}",
            f"  %buffer{k} = load i64, ptr %buffer.at{k}",
            f"  %outer.at{k} = getelementptr i64, ptr %meta, i64 {1 + 2 * place}",
            f"  %outer{k} = load i64, ptr %outer.at{k}",
            f"  %inner.at{k} = getelementptr i64, ptr %meta, i64 {2 + 2 * place}",
            f"  %inner{k} = load i64, ptr %inner.at{k}",
        ]

    def _addresses(self, k: int) -> list[str]:
        """Where the samples of a group of lanes lie in a buffer, put into the frame."""
        integers = self.module.wide("i64")
        return [
            *splat(self.lanes, f"outer{k}", f"so{k}"),
            *splat(self.lanes, f"inner{k}", f"si{k}"),
            *splat(self.lanes, f"buffer{k}", f"sb{k}"),
            f"  %a{k} = mul {integers} %o, %so{k}",
            f"  %b{k} = mul {integers} %r, %si{k}",
            f"  %c{k} = add {integers} %a{k}, %b{k}",
            f"  %d{k} = mul {integers} %c{k}, {self._same(self._shapes[k].dtype.itemsize)}",
            f"  %e{k} = add {integers} %d{k}, %sb{k}",
            f"  %slot{k} = getelementptr i8, ptr %frame, i64 {self.frame.place(('buffer', k))}",
            f"  store {integers} %e{k}, ptr %slot{k}, align {8 if self.lanes == 1 else ALIGNMENT}",
        ]

    def _lane_numbers(self) -> list[str]:
        """%o and %r: the sample's place along the outer and the inner batch axis."""
        integers = self.module.wide("i64")
        return [
            "  br i1 %flat, label %joined, label %divide",
            "divide:",
            *splat(self.lanes, "inner", "inners"),
            f"  %q = sdiv {integers} %l, %inners",
            f"  %p = mul {integers} %q, %inners",
            f"  %rest = sub {integers} %l, %p",
            "  br label %joined",
            "joined:",
            f"  %o = phi {integers} [ %l, %address ], [ %q, %divide ]",
            f"  %r = phi {integers} [ {self._same(0)}, %address ], [ %rest, %divide ]",
        ]

    def _same(self, value: int) -> str:
        return str(value) if self.lanes == 1 else f"splat (i64 {value})"
