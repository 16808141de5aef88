"""Emission for CPUs: LLVM vector code with one lane per sample of the batch.

Every region of a program (the program itself, the body or condition of a loop) becomes one function, not inlined, so
that compilation stays linear. Within it there is one SSA value per node. What crosses from one region to another lies
in a frame of one vector per value, which stays in the first-level cache.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from jaxmbs.programs.graph import INTEGER, REAL, TRUTH, Buffer, Loop, Node, Region
from jaxmbs.programs.program import Program
from jaxmbs.programs.trace import Memory

ALIGNMENT = 64
# Neighbours in memory that are moved at once: the float64 of an AVX-512 vector.
BLOCK = 8
INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc"}
FLOAT_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
INTEGER_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul"}
LIBRARY = frozenset(["sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "expm1", "log1p", "cbrt", "pow"])


class Text:
    """A module as text: functions, and declarations each once."""

    def __init__(self, lanes: int, dtype):
        self.lanes = lanes
        self.single = np.dtype(dtype) == np.float32
        self.real = "float" if self.single else "double"
        self.size = 4 if self.single else 8
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.elementary: set[tuple[str, int]] = set()

    def scalar(self, kind: str) -> str:
        return {REAL: self.real, INTEGER: "i64", TRUTH: "i1"}[kind]

    def vector(self, kind: str) -> str:
        return self.wide(self.scalar(kind))

    def wide(self, scalar: str) -> str:
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def suffix(self, scalar: str, uniform: bool = False) -> str:
        """The mangled type of an intrinsic."""
        name = {"double": "f64", "float": "f32", "ptr": "p0"}.get(scalar, scalar)
        return name if uniform or self.lanes == 1 else f"v{self.lanes}{name}"

    def declare(self, result: str, name: str, args: Sequence[str]) -> str:
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(args)})")
        return name

    def literal(self, node: Node) -> str:
        if node.kind == TRUTH:
            return "true" if node.payload else "false"
        if node.kind == INTEGER:
            return str(node.payload)
        return self.number(node.payload)

    def number(self, value: float) -> str:
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value)) if self.single else float(value)
        return f"0x{struct.unpack('>Q', struct.pack('>d', rounded))[0]:016X}"

    def text(self) -> str:
        return "\n".join([*self.declarations.values(), *self.functions])


class Frame:
    """Where values that cross regions lie."""

    def __init__(self, lanes: int):
        self.slot = max(ALIGNMENT, 8 * lanes) if lanes > 1 else 8
        self.places: dict[object, int] = {}

    def place(self, key: object) -> int:
        """The offset in bytes of a value, made on first use."""
        return self.slot * self.places.setdefault(key, len(self.places))

    @property
    def bytes(self) -> int:
        return self.slot * len(self.places)


class Emitter:
    """Emits all functions of a program."""

    def __init__(self, program: Program, lanes: int):
        self.program, self.lanes = program, lanes
        self.module = Text(lanes, program.dtype)
        self.frame = Frame(lanes)
        self.live = program.live
        self.crossing = self._crossing()
        self.written: dict[int, list[int]] = {}  # id(buffer) → outputs that are this buffer
        self.inner: set[int] = set()  # id(buffer) of those that are read inside of the program
        self.scratch: dict[int, int] = {}  # id(buffer) → offset in bytes in the scratch memory
        self.scratch_bytes = 0
        self.names = 0
        self._plan_memory()

    def _crossing(self) -> set[int]:
        """Nodes that a region other than their own uses."""
        crossing: set[int] = set()

        def use(node: Node, region: Region):
            if node.region is not region and node.op not in ("const", "param"):
                crossing.add(node.serial)

        for region in self.live.regions:
            for node in self.live.nodes(region):
                if node.op == "loop":
                    loop = node.payload
                    for k in self.live.params(loop):
                        use(loop.results[k], loop.body)
                        use(loop.inits[k], region)
                    for _, row in self.live.rows(loop):
                        for x in row:
                            use(x, loop.body)
                    if loop.condition is not None:
                        use(loop.condition, loop.condition_region)
                    continue
                for arg in node.args:
                    if arg.op not in ("loop", "stack"):
                        use(arg, region)
        return crossing

    def _plan_memory(self) -> None:
        for k, result in enumerate(self.program.results):
            if isinstance(result, Memory):
                self.written.setdefault(id(result.buffer), []).append(k)
        for region in self.live.regions:
            for node in self.live.nodes(region):
                if node.op == "load" and node.payload[0].source is None:
                    self.inner.add(id(node.payload[0]))
                buffers: list[Buffer] = []
                if node.op == "stack":
                    buffers = [node.payload]
                elif node.op == "loop":
                    buffers = [buffer for buffer, _ in self.live.rows(node.payload)]
                for buffer in buffers:
                    self.scratch[id(buffer)] = self.scratch_bytes
                    self.scratch_bytes += buffer.length * buffer.width * self.lanes * 8 + ALIGNMENT
        # Rows that only go to an output need no place of their own; what is planned for them is never touched.

    def emit(self) -> str:
        """The module: `kernel(first, last, meta, buffers)` and what it calls."""
        self._region("root", self.live.nodes(self.program.root), self._store_results)
        self.module.functions.append(self._kernel())
        return self.module.text()

    # --- functions ---

    def _region(self, name: str, nodes: list[Node], finish, params: str = "", counter: Node | None = None) -> str:
        code = Code(self, counter)
        if counter is not None and counter.serial in self.crossing:
            code.save(counter.serial, INTEGER, "%index", uniform=True)
        code.plan_blocks(nodes)
        for node in nodes:
            code.node(node)
        result = finish(code)
        head = f"define internal fastcc {result or 'void'} @{name}(ptr noalias nocapture %frame{params}) #0 {{"
        self.module.functions.append("\n".join([head, "entry:", *code.lines, "}"]))
        return name

    def _store_results(self, code: Code) -> None:
        first = len(self.program.inputs)
        for k, (result, out) in enumerate(zip(self.program.results, self.program.outputs, strict=True)):
            if not isinstance(result, Memory):
                for offset, node in enumerate(result.ravel()):
                    code.store_output(first + k, out.dtype, offset, node, None)
        code.line("ret void")

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def body(self, loop: Loop) -> str:
        """The function of one round of a loop."""
        name = self._name("body")
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
        return self._region(name, nodes, finish, ", i64 %index", loop.index)

    def condition(self, loop: Loop) -> str:
        """The function that says whether any lane goes on, and leaves which ones do in the frame."""
        name = self._name("condition")
        assert loop.condition is not None
        assert loop.condition_region is not None
        condition = loop.condition

        def finish(code: Code) -> str:
            mask = code.wide(condition)
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

    # --- the kernel ---

    def _kernel(self) -> str:
        """All lanes from `first` to `last`, a group at a time; 1 if there is no memory.

        meta: number of the inner batch axis's samples, then for each buffer its strides along the outer and the inner
        axis, in scalars. The lanes of a last group that is not full repeat its last sample.
        """
        module, lanes = self.module, self.lanes
        integers = module.wide("i64")
        shapes = [*self.program.inputs, *self.program.outputs]
        frame_bytes = aligned(max(self.frame.bytes, 1))
        # Addresses are placed while the regions are emitted; those that nothing uses get no slot.
        lines = [
            "define internal i32 @kernel(i64 %first, i64 %last, ptr %meta, ptr %buffers) #0 {",
            "entry:",
            f"  %frame = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {frame_bytes + aligned(self.scratch_bytes)})",
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
        module.declare("ptr", "aligned_alloc", ["i64", "i64"])
        module.declare("void", "free", ["ptr"])
        if "scratch" in self.frame.places:
            lines += [
                f"  %scratch.at = getelementptr i8, ptr %frame, i64 {self.frame.place('scratch')}",
                "  store ptr %scratch, ptr %scratch.at",
            ]
        used = [k for k in range(len(shapes)) if ("buffer", k) in self.frame.places]
        for k in used:
            lines += [
                f"  %buffer.at{k} = getelementptr ptr, ptr %buffers, i64 {k}",
                f"  %buffer{k} = load i64, ptr %buffer.at{k}",
                f"  %outer.at{k} = getelementptr i64, ptr %meta, i64 {1 + 2 * k}",
                f"  %outer{k} = load i64, ptr %outer.at{k}",
                f"  %inner.at{k} = getelementptr i64, ptr %meta, i64 {2 + 2 * k}",
                f"  %inner{k} = load i64, ptr %inner.at{k}",
            ]
        lines += [
            "  br label %group",
            "group:",
            "  %base = phi i64 [ %first, %start ], [ %next, %run ]",
            "  %more = icmp slt i64 %base, %last",
            "  br i1 %more, label %address, label %done",
            "address:",
        ]
        lines += self._lane_numbers(integers)
        for k in used:
            size = shapes[k].dtype.itemsize
            at = self.frame.place(("buffer", k))
            lines += [
                *self._splat(f"outer{k}", f"so{k}"),
                *self._splat(f"inner{k}", f"si{k}"),
                *self._splat(f"buffer{k}", f"sb{k}"),
                f"  %a{k} = mul {integers} %o, %so{k}",
                f"  %b{k} = mul {integers} %r, %si{k}",
                f"  %c{k} = add {integers} %a{k}, %b{k}",
                f"  %d{k} = mul {integers} %c{k}, {self._same(size)}",
                f"  %e{k} = add {integers} %d{k}, %sb{k}",
                f"  %slot{k} = getelementptr i8, ptr %frame, i64 {at}",
                f"  store {integers} %e{k}, ptr %slot{k}, align {8 if lanes == 1 else ALIGNMENT}",
            ]
        lines += [
            "  br label %run",
            "run:",
            "  call fastcc void @root(ptr %frame)",
            f"  %next = add i64 %base, {lanes}",
            "  br label %group",
            "done:",
            "  call void @free(ptr %frame)",
            "  ret i32 0",
            "}",
        ]
        return "\n".join(lines)

    def _lane_numbers(self, integers: str) -> list[str]:
        """%o and %r: the sample's place along the outer and the inner batch axis."""
        if self.lanes == 1:
            lines = ["  %l = add i64 %base, 0"]
        else:
            numbers = ", ".join(f"i64 {k}" for k in range(self.lanes))
            minimum = self.module.declare(integers, f"llvm.smin.{self.module.suffix('i64')}", [integers] * 2)
            lines = [
                *self._splat("base", "bases"),
                *self._splat("most", "mosts"),
                f"  %l0 = add {integers} %bases, <{numbers}>",
                f"  %l = call {integers} @{minimum}({integers} %l0, {integers} %mosts)",
            ]
        return [
            *lines,
            "  br i1 %flat, label %joined, label %divide",
            "divide:",
            *self._splat("inner", "inners"),
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

    def _splat(self, scalar: str, name: str) -> list[str]:
        if self.lanes == 1:
            return [f"  %{name} = add i64 %{scalar}, 0"]
        kind = f"<{self.lanes} x i64>"
        return [
            f"  %{name}.0 = insertelement {kind} poison, i64 %{scalar}, i64 0",
            f"  %{name} = shufflevector {kind} %{name}.0, {kind} poison, <{self.lanes} x i32> zeroinitializer",
        ]


class Code:
    """The lines of one function."""

    def __init__(self, emitter: Emitter, counter: Node | None = None):
        self.emitter, self.module, self.frame = emitter, emitter.module, emitter.frame
        self.lines: list[str] = []
        self.count = 0
        self.values: dict[int, str] = {}
        self.splats: dict[int, str] = {}
        self.addresses: dict[object, str] = {}
        self.blocks: dict[int, list[Node]] = {}
        if counter is not None:
            self.values[counter.serial] = "%index"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def let(self, expression: str) -> str:
        """A new SSA value."""
        self.count += 1
        name = f"%v{self.count}"
        self.line(f"{name} = {expression}")
        return name

    # --- values ---

    def value(self, node: Node) -> str:
        """The value of a node in this function: a scalar if it is uniform, else a vector."""
        if node.op == "const":
            return self.module.literal(node)
        found = self.values.get(node.serial)
        if found is None:
            key: object = node.serial
            if node.op == "param":
                loop, k = node.payload
                key = ("carry", id(loop), k)
            found = self.values[node.serial] = self.reload(key, node.kind, node.uniform)
        return found

    def wide(self, node: Node) -> str:
        """The value of a node as a vector."""
        if not node.uniform or self.module.lanes == 1:
            return self.value(node)
        if node.op == "const":
            return f"splat ({self.module.scalar(node.kind)} {self.module.literal(node)})"
        if node.serial not in self.splats:
            self.splats[node.serial] = self.splat(self.value(node), self.module.scalar(node.kind))
        return self.splats[node.serial]

    def splat(self, value: str, scalar: str) -> str:
        if self.module.lanes == 1:
            return value
        kind = self.module.wide(scalar)
        first = self.let(f"insertelement {kind} poison, {scalar} {value}, i64 0")
        zeros = f"<{self.module.lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector {kind} {first}, {kind} poison, {zeros}")

    def slot(self, key: object) -> str:
        if key not in self.addresses:
            self.addresses[key] = self.let(f"getelementptr i8, ptr %frame, i64 {self.frame.place(key)}")
        return self.addresses[key]

    def _held(self, kind: str, uniform: bool) -> tuple[str, str]:
        """Type in registers and in the frame, where truth values are bytes."""
        make = self.module.scalar if uniform else self.module.vector
        bits = "i8" if uniform else self.module.wide("i8")
        return make(kind), bits if kind == TRUTH else make(kind)

    def reload(self, key: object, kind: str, uniform: bool = False) -> str:
        inside, outside = self._held(kind, uniform)
        value = self.let(f"load {outside}, ptr {self.slot(key)}, align {self._alignment(uniform)}")
        return self.let(f"trunc {outside} {value} to {inside}") if kind == TRUTH else value

    def save(self, key: object, kind: str, value: str, uniform: bool = False) -> None:
        inside, outside = self._held(kind, uniform)
        if kind == TRUTH:
            value = self.let(f"zext {inside} {value} to {outside}")
        self.line(f"store {outside} {value}, ptr {self.slot(key)}, align {self._alignment(uniform)}")

    def _alignment(self, uniform: bool = False) -> int:
        return 8 if uniform or self.module.lanes == 1 else ALIGNMENT

    # --- nodes ---

    def node(self, node: Node) -> None:
        """Compute a node."""
        if node.op == "const":
            return
        if node.op == "loop":
            return self._loop(node.payload)
        if node.op == "stack":
            return self._stack(node)
        if node.serial in self.blocks:
            self._load_block(self.blocks[node.serial])
        if node.serial not in self.values:
            self.values[node.serial] = self._compute(node)
        if node.serial in self.emitter.crossing:
            self.save(node.serial, node.kind, self.values[node.serial], node.uniform)
        return None

    def _compute(self, node: Node) -> str:
        if node.op == "out":
            loop = node.args[0].payload
            return self.reload(("carry", id(loop), node.payload), node.kind)
        if node.op == "load":
            return self._load(node)
        args = [self.value(x) if node.uniform else self.wide(x) for x in node.args]
        return self._operation(node, args)

    def _operation(self, node: Node, args: list[str]) -> str:
        op, module, uniform = node.op, self.module, node.uniform
        kind = node.args[0].kind
        make = module.scalar if uniform else module.vector
        own = make(kind)
        if op == "select":
            value = make(node.kind)
            condition = make(TRUTH)
            return self.let(f"select {condition} {args[0]}, {value} {args[1]}, {value} {args[2]}")
        if op in FLOAT_COMPARISONS:
            word = f"fcmp {FLOAT_COMPARISONS[op]}" if kind == REAL else f"icmp {INTEGER_COMPARISONS[op]}"
            return self.let(f"{word} {own} {args[0]}, {args[1]}")
        if kind == TRUTH and op in ("and", "or", "xor"):
            return self.let(f"{op} {own} {args[0]}, {args[1]}")
        if op == "not":
            return self.let(f"xor {own} {args[0]}, {'true' if uniform or module.lanes == 1 else 'splat (i1 true)'}")
        if op == "real":
            return self.let(f"{'sitofp' if kind == INTEGER else 'uitofp'} {own} {args[0]} to {make(REAL)}")
        if op == "integer":
            return self._to_integer(own, args[0], make(INTEGER), uniform)
        if kind == INTEGER:
            return self._integer(node, own, args, uniform)
        return self._real(node, own, args, uniform)

    def _call(self, name: str, own: str, args: Sequence[str], uniform: bool) -> str:
        name = self.module.declare(
            own, f"llvm.{name}.{self.module.suffix(self.module.real, uniform)}", [own] * len(args)
        )
        return self.let(f"call {own} @{name}({', '.join(f'{own} {a}' for a in args)})")

    def _to_integer(self, own, value, result, uniform) -> str:
        ends = self.module.suffix("i64", uniform), self.module.suffix(self.module.real, uniform)
        name = self.module.declare(result, f"llvm.fptosi.sat.{ends[0]}.{ends[1]}", [own])
        return self.let(f"call {result} @{name}({own} {value})")

    def _integer(self, node: Node, own, args, uniform) -> str:
        op = node.op
        if op in INTEGER_ARITHMETIC:
            return self.let(f"{INTEGER_ARITHMETIC[op]} {own} {args[0]}, {args[1]}")
        same = lambda k: str(k) if uniform or self.module.lanes == 1 else f"splat (i64 {k})"
        bit = self.module.scalar(TRUTH) if uniform else self.module.vector(TRUTH)
        if op == "neg":
            return self.let(f"sub {own} {same(0)}, {args[0]}")
        if op in ("min", "max", "abs", "sign"):
            b = args[1] if len(args) > 1 else same(0)
            if op == "sign":
                low = self.let(f"icmp slt {own} {args[0]}, {b}")
                high = self.let(f"icmp sgt {own} {args[0]}, {b}")
                up = self.let(f"select {bit} {high}, {own} {same(1)}, {own} {same(0)}")
                return self.let(f"select {bit} {low}, {own} {same(-1)}, {own} {up}")
            test = self.let(f"icmp {'slt' if op == 'min' else 'sgt'} {own} {args[0]}, {b}")
            other = self.let(f"sub {own} {same(0)}, {args[0]}") if op == "abs" else b
            return self.let(f"select {bit} {test}, {own} {args[0]}, {own} {other}")
        if op in ("idiv", "irem"):
            # The processor traps on a division by zero, and on that of the smallest number by −1.
            zero = self.let(f"icmp eq {own} {args[1]}, {same(0)}")
            minus = self.let(f"icmp eq {own} {args[1]}, {same(-1)}")
            odd = self.let(f"or {bit} {zero}, {minus}")
            divisor = self.let(f"select {bit} {odd}, {own} {same(1)}, {own} {args[1]}")
            if op == "irem":
                rest = self.let(f"srem {own} {args[0]}, {divisor}")
                return self.let(f"select {bit} {zero}, {own} {args[0]}, {own} {rest}")
            quotient = self.let(f"sdiv {own} {args[0]}, {divisor}")
            opposite = self.let(f"sub {own} {same(0)}, {args[0]}")
            quotient = self.let(f"select {bit} {minus}, {own} {opposite}, {own} {quotient}")
            return self.let(f"select {bit} {zero}, {own} {same(-1)}, {own} {quotient}")
        raise NotImplementedError(op)

    def _real(self, node: Node, own, args, uniform) -> str:
        op = node.op
        if op in ARITHMETIC:
            return self.let(f"{ARITHMETIC[op]} contract {own} {args[0]}, {args[1]}")
        if op == "neg":
            return self.let(f"fneg {own} {args[0]}")
        if op in INTRINSICS:
            return self._call(INTRINSICS[op], own, args, uniform)
        if op == "max" and all(map(unsigned, node.args)):
            return self._largest(own, args, uniform)
        if op in ("min", "max"):
            # One instruction, which gives the second argument if either is NaN; two more for a NaN in the first.
            bit = self.module.scalar(TRUTH) if uniform else self.module.vector(TRUTH)
            test = self.let(f"fcmp {'olt' if op == 'min' else 'ogt'} {own} {args[0]}, {args[1]}")
            better = self.let(f"select {bit} {test}, {own} {args[0]}, {own} {args[1]}")
            if node.args[0].is_constant:
                return better
            missing = self.let(f"fcmp uno {own} {args[0]}, {args[0]}")
            return self.let(f"select {bit} {missing}, {own} {args[0]}, {own} {better}")
        one, zero = (self._number(x, uniform) for x in (1.0, 0.0))
        if op == "sign":
            bit = self.module.scalar(TRUTH) if uniform else self.module.vector(TRUTH)
            signed = self._call("copysign", own, [one, args[0]], uniform)
            other = self.let(f"fcmp one {own} {args[0]}, {zero}")
            return self.let(f"select {bit} {other}, {own} {signed}, {own} {args[0]}")
        if op == "rem":
            return self._remainder(own, args, uniform)
        if op in ("sin", "cos", "tan"):
            return self._sin_cos(node, own, args[0], uniform)
        if op in ("exp", "log"):
            return self._elementary(op, own, args, uniform)
        if op in ("atan2", "atan"):
            return self._elementary("atan2", own, [args[0], args[1] if op == "atan2" else one], uniform)
        if op in ("asin", "acos"):
            low = self.let(f"fsub {own} {one}, {args[0]}")
            high = self.let(f"fadd {own} {one}, {args[0]}")
            root = self._call("sqrt", own, [self.let(f"fmul {own} {low}, {high}")], uniform)
            return self._elementary("atan2", own, [args[0], root] if op == "asin" else [root, args[0]], uniform)
        if op in LIBRARY:
            return self._library(op, own, args, uniform)
        raise NotImplementedError(op)

    def _largest(self, own, args, uniform) -> str:
        """The larger of two numbers without a sign, by their bits: one instruction, and NaN is larger than any number."""
        bits = f"i{8 * self.module.size}"
        kind = bits if uniform else self.module.wide(bits)
        name = self.module.declare(kind, f"llvm.smax.{self.module.suffix(bits, uniform)}", [kind] * 2)
        a, b = (self.let(f"bitcast {own} {x} to {kind}") for x in args)
        return self.let(f"bitcast {kind} {self.let(f'call {kind} @{name}({kind} {a}, {kind} {b})')} to {own}")

    def _number(self, value: float, uniform: bool) -> str:
        text = self.module.number(value)
        return text if uniform or self.module.lanes == 1 else f"splat ({self.module.real} {text})"

    def _remainder(self, own, args, uniform) -> str:
        """x − y·trunc(x/y), put right where the quotient was rounded across an integer."""
        x, y = args
        bit = self.module.scalar(TRUTH) if uniform else self.module.vector(TRUTH)
        zero = self._number(0.0, uniform)
        quotient = self._call("trunc", own, [self.let(f"fdiv {own} {x}, {y}")], uniform)
        rest = self._call("fma", own, [self.let(f"fneg {own} {quotient}"), y, x], uniform)
        step = self._call("copysign", own, [y, x], uniform)
        product = self.let(f"fmul {own} {rest}, {x}")
        wrong = self.let(f"fcmp olt {own} {product}, {zero}")
        rest = self.let(f"select {bit} {wrong}, {own} {self.let(f'fadd {own} {rest}, {step}')}, {own} {rest}")
        sizes = [self._call("fabs", own, [z], uniform) for z in (rest, y)]
        over = self.let(f"fcmp oge {own} {sizes[0]}, {sizes[1]}")
        rest = self.let(f"select {bit} {over}, {own} {self.let(f'fsub {own} {rest}, {step}')}, {own} {rest}")
        endless = self.let(f"fcmp oeq {own} {sizes[1]}, {self._number(math.inf, uniform)}")
        finite = self.let(f"fcmp one {own} {self._call('fabs', own, [x], uniform)}, {self._number(math.inf, uniform)}")
        return self.let(f"select {bit} {self.let(f'and {bit} {endless}, {finite}')}, {own} {x}, {own} {rest}")

    def _sin_cos(self, node: Node, own, arg, uniform) -> str:
        key = ("sin_cos", node.args[0].serial)
        if key not in self.addresses:
            name = self._elementary_name("sin_cos", uniform)
            self.addresses[key] = self.let(f"call {{{own}, {own}}} @{name}({own} {arg})")
        pair = self.addresses[key]
        part = lambda k: self.let(f"extractvalue {{{own}, {own}}} {pair}, {k}")
        if node.op == "tan":
            sine, cosine = part(0), part(1)
            return self.let(f"fdiv {own} {sine}, {cosine}")
        return part(0 if node.op == "sin" else 1)

    def _elementary_name(self, name: str, uniform: bool) -> str:
        lanes = 1 if uniform else self.module.lanes
        self.module.elementary.add((name, lanes))
        return f"{name}.{lanes}"

    def _elementary(self, name: str, own, args, uniform) -> str:
        symbol = self._elementary_name(name, uniform)
        return self.let(f"call {own} @{symbol}({', '.join(f'{own} {a}' for a in args)})")

    def _library(self, op: str, own, args, uniform) -> str:
        """A function of the C library, lane by lane."""
        real, lanes = self.module.real, 1 if uniform else self.module.lanes
        name = self.module.declare(real, op + ("f" if self.module.single else ""), [real] * len(args))
        if lanes == 1:
            return self.let(f"call {real} @{name}({', '.join(f'{real} {a}' for a in args)})")
        result = "poison"
        for k in range(lanes):
            entries = [self.let(f"extractelement {own} {a}, i64 {k}") for a in args]
            value = self.let(f"call {real} @{name}({', '.join(f'{real} {e}' for e in entries)})")
            result = self.let(f"insertelement {own} {result}, {real} {value}, i64 {k}")
        return result

    # --- memory ---

    def _load(self, node: Node) -> str:
        buffer, offset, stride = node.payload
        index = node.args[-1] if node.args and node.args[-1].op not in ("loop", "stack") else None
        if buffer.source is not None:
            return self._load_input(buffer.source, offset, stride, index)
        return self._load_scratch(node, buffer, offset, stride, index)

    def _distance(self, offset: int, stride: int, index: Node | None, size: int) -> str:
        """offset + stride·index in bytes, as a vector."""
        if index is None:
            return str(offset * size) if self.module.lanes == 1 else f"splat (i64 {offset * size})"
        kind = "i64" if index.uniform else self.module.vector(INTEGER)
        same = lambda k: str(k) if index.uniform or self.module.lanes == 1 else f"splat (i64 {k})"
        scaled = self.let(f"mul {kind} {self.value(index)}, {same(stride * size)}")
        moved = self.let(f"add {kind} {scaled}, {same(offset * size)}")
        return self.splat(moved, "i64") if index.uniform else moved

    def _pointers(self, key: object, distance: str) -> str:
        """Addresses of all lanes: those of the buffer plus a distance in bytes."""
        integers = self.module.vector(INTEGER)
        name = ("addresses", key)
        if name not in self.addresses:
            self.addresses[name] = self.reload(key, INTEGER)
        moved = self.let(f"add {integers} {self.addresses[name]}, {distance}")
        return self.let(f"inttoptr {integers} {moved} to {self.module.wide('ptr')}")

    def _gather(self, pointers: str, scalar: str) -> str:
        module = self.module
        if module.lanes == 1:
            return self.let(f"load {scalar}, ptr {pointers}")
        kind, bits = module.wide(scalar), module.wide("i1")
        name = f"llvm.masked.gather.{module.suffix(scalar)}.{module.suffix('ptr')}"
        module.declare(kind, name, [module.wide("ptr"), "i32 immarg", bits, kind])
        size = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i8": 1}.get(scalar, 1)
        return self.let(
            f"call {kind} @{name}({module.wide('ptr')} {pointers}, i32 {size}, {bits} splat (i1 true), {kind} poison)"
        )

    def _load_input(self, number: int, offset: int, stride: int, index: Node | None) -> str:
        dtype = self.emitter.program.inputs[number].dtype
        stored, module = storage(dtype), self.module
        pointers = self._pointers(("buffer", number), self._distance(offset, stride, index, dtype.itemsize))
        value = self._gather(pointers, stored)
        kind = module.wide(stored)
        if dtype.kind == "b":
            return (
                self.let(f"icmp ne {kind} {value}, zeroinitializer")
                if module.lanes > 1
                else self.let(f"icmp ne i8 {value}, 0")
            )
        if dtype.kind in "iu" and dtype.itemsize < 8:
            return self.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {kind} {value} to {module.vector(INTEGER)}")
        return value

    def _scratch_base(self) -> str:
        if "scratch" not in self.addresses:
            self.addresses["scratch"] = self.let(f"load ptr, ptr {self.slot('scratch')}")
        return self.addresses["scratch"]

    def _scratch_pointer(self, buffer: Buffer, offset: int, stride: int, index: Node | None) -> str:
        """Where the vector of a scalar of a buffer begins; the index, if any, is the same in all lanes."""
        base, start = self._scratch_base(), self.emitter.scratch[id(buffer)]
        wide = 8 * self.module.lanes
        here = self.let(f"getelementptr i8, ptr {base}, i64 {start + offset * wide}")
        if index is None:
            return here
        moved = self.let(f"mul i64 {self.value(index)}, {stride * wide}")
        return self.let(f"getelementptr i8, ptr {here}, i64 {moved}")

    def _load_scratch(self, node: Node, buffer: Buffer, offset, stride, index: Node | None) -> str:
        inside, outside = self._held(buffer.kind, False)
        if index is None or index.uniform or self.module.lanes == 1:
            pointer = self._scratch_pointer(buffer, offset, stride, index)
            value = self.let(f"load {outside}, ptr {pointer}, align 8")
        else:
            start = self._scratch_pointer(buffer, offset, 0, None)
            address = self.splat(self.let(f"ptrtoint ptr {start} to i64"), "i64")
            integers = self.module.vector(INTEGER)
            size = 1 if buffer.kind == TRUTH else 8 if buffer.kind == INTEGER else self.module.size
            lanes = ", ".join(f"i64 {k * size}" for k in range(self.module.lanes))
            moved = self.let(f"mul {integers} {self.value(index)}, splat (i64 {stride * 8 * self.module.lanes})")
            moved = self.let(f"add {integers} {moved}, <{lanes}>")
            moved = self.let(f"add {integers} {moved}, {address}")
            pointers = self.let(f"inttoptr {integers} {moved} to {self.module.wide('ptr')}")
            value = self._gather(pointers, "i8" if buffer.kind == TRUTH else self.module.scalar(buffer.kind))
        return self.let(f"trunc {outside} {value} to {inside}") if buffer.kind == TRUTH else value

    def _store_scratch(self, pointer: str, kind: str, node: Node) -> None:
        inside, outside = self._held(kind, False)
        value = self.wide(node)
        if kind == TRUTH:
            value = self.let(f"zext {inside} {value} to {outside}")
        self.line(f"store {outside} {value}, ptr {pointer}, align 8")

    def _stack(self, node: Node) -> None:
        for offset, entry in enumerate(node.args):
            self._store_scratch(self._scratch_pointer(node.payload, offset, 0, None), node.kind, entry)

    def store_row(self, loop: Loop, buffer: Buffer, row: list[Node]) -> None:
        """A round's row of a buffer: into the scratch memory if the program reads it, and to the outputs that it is."""
        emitter = self.emitter
        index = loop.index
        number = "%index"
        if loop.reverse:
            number = self.let(f"sub i64 {loop.length - 1}, {self.values[index.serial]}")
        for k, node in enumerate(row):
            if id(buffer) in emitter.inner:
                start = self._scratch_pointer(buffer, k, 0, None)
                moved = self.let(f"mul i64 {number}, {buffer.width * 8 * self.module.lanes}")
                self._store_scratch(self.let(f"getelementptr i8, ptr {start}, i64 {moved}"), buffer.kind, node)
        for output in emitter.written.get(id(buffer), ()):
            self._store_row_out(output, row, number)

    def _store_row_out(self, output: int, row: list[Node], number: str) -> None:
        """A row of an output: eight numbers of a lane at once where possible, the others one by one."""
        program = self.emitter.program
        dtype, place = program.outputs[output].dtype, len(program.inputs) + output
        whole = len(row) // BLOCK * BLOCK if self.has_blocks(dtype) else 0
        for first in range(0, whole, BLOCK):
            moved = self.let(f"mul i64 {number}, {len(row) * dtype.itemsize}")
            distance = self.splat(self.let(f"add i64 {moved}, {first * dtype.itemsize}"), "i64")
            addresses = self._lane_addresses(("buffer", place), distance)
            values = [self.wide(node) for node in row[first : first + BLOCK]]
            for address, vector in zip(addresses, self._turned(values), strict=True):
                self.line(f"store <{BLOCK} x double> {vector}, ptr {address}, align 8")
        for k in range(whole, len(row)):
            self.store_output(place, dtype, k, row[k], (number, len(row)))

    # --- blocks: eight numbers of each of eight lanes ---

    def has_blocks(self, dtype) -> bool:
        """Whether eight neighbours in memory are moved at once: float64 on the lanes of whole AVX-512 vectors."""
        return self.module.lanes % BLOCK == 0 and dtype == np.float64

    def plan_blocks(self, nodes: list[Node]) -> None:
        """Find loads of eight neighbours of an input."""
        groups: dict[tuple, dict[int, Node]] = {}
        for node in nodes:
            if node.op == "load" and node.payload[0].source is not None:
                buffer, offset, stride = node.payload
                if self.has_blocks(self.emitter.program.inputs[buffer.source].dtype) and all(
                    x.uniform for x in node.args
                ):
                    groups.setdefault((buffer.source, stride, node.args), {})[offset] = node
        for found in groups.values():
            offsets = sorted(found)
            while len(offsets) >= BLOCK:
                if offsets[BLOCK - 1] == offsets[0] + BLOCK - 1:
                    block = [found[k] for k in offsets[:BLOCK]]
                    self.blocks.update({node.serial: block for node in block})
                    del offsets[:BLOCK]
                else:
                    del offsets[0]

    def _load_block(self, block: list[Node]) -> None:
        buffer, offset, stride = block[0].payload
        index = block[0].args[-1] if block[0].args else None
        distance = self._distance(offset, stride, index, 8)
        addresses = self._lane_addresses(("buffer", buffer.source), distance)
        vectors = [self.let(f"load <{BLOCK} x double>, ptr {address}, align 8") for address in addresses]
        for node, value in zip(block, self._turned(vectors), strict=True):
            self.values[node.serial] = value
            del self.blocks[node.serial]
            if node.serial in self.emitter.crossing:
                self.save(node.serial, node.kind, value)

    def _lane_addresses(self, key: object, distance: str) -> list[str]:
        """The pointer of every lane."""
        pointers = self._pointers(key, distance)
        kind = self.module.wide("ptr")
        return [self.let(f"extractelement {kind} {pointers}, i64 {k}") for k in range(self.module.lanes)]

    def _turned(self, vectors: list[str]) -> list[str]:
        """Eight vectors over all lanes as one vector of eight for every lane, or the other way round."""
        lanes, kind = self.module.lanes, f"<{BLOCK} x double>"
        pick = lambda a, b, where, of: self.let(
            f"shufflevector {of} {a}, {of} {b}, <{len(where)} x i32> <{', '.join(f'i32 {k}' for k in where)}>"
        )
        if len(vectors) == BLOCK and lanes > BLOCK:
            parts = [
                [pick(v, v, range(first, first + BLOCK), self.module.vector(REAL)) for v in vectors]
                for first in range(0, lanes, BLOCK)
            ]
            return [x for part in parts for x in self._transposed(part, pick, kind)]
        turned = [self._transposed(vectors[k : k + BLOCK], pick, kind) for k in range(0, len(vectors), BLOCK)]
        if len(turned) == 1:
            return turned[0]
        assert len(turned) == 2  # natural_lanes gives one or two vectors
        return [pick(a, b, range(2 * BLOCK), kind) for a, b in zip(*turned, strict=True)]

    def _transposed(self, rows: list[str], pick, kind: str) -> list[str]:
        """An 8 × 8 matrix of which these are the rows, by three rounds of exchanges."""
        for width in (1, 2, 4):
            low = [k for k in range(BLOCK) if not k & width]
            near = [k if not k & width else k - width + BLOCK for k in range(BLOCK)]
            far = [k + width if not k & width else k + BLOCK for k in range(BLOCK)]
            result = list(rows)
            for i in low:
                j = i + width
                result[i], result[j] = pick(rows[i], rows[j], near, kind), pick(rows[i], rows[j], far, kind)
            rows = result
        return rows

    def store_output(self, number: int, dtype, offset: int, node: Node, row: tuple[str, int] | None) -> None:
        """A scalar of an output; `row` is the number of the row and its length."""
        module = self.module
        distance = self._distance(offset, 0, None, dtype.itemsize)
        if row is not None:
            moved = self.let(f"mul i64 {row[0]}, {row[1] * dtype.itemsize}")
            distance = self.splat(self.let(f"add i64 {moved}, {offset * dtype.itemsize}"), "i64")
        pointers = self._pointers(("buffer", number), distance)
        stored, value = storage(dtype), self.wide(node)
        kind, inside = module.wide(stored), module.vector(node.kind)
        if dtype.kind == "b":
            value = self.let(f"zext {inside} {value} to {kind}")
        elif dtype.kind in "iu" and dtype.itemsize < 8:
            value = self.let(f"trunc {inside} {value} to {kind}")
        if module.lanes == 1:
            self.line(f"store {stored} {value}, ptr {pointers}")
            return
        bits = module.wide("i1")
        name = f"llvm.masked.scatter.{module.suffix(stored)}.{module.suffix('ptr')}"
        module.declare("void", name, [kind, module.wide("ptr"), "i32 immarg", bits])
        self.line(
            f"call void @{name}({kind} {value}, {module.wide('ptr')} {pointers}, i32 {dtype.itemsize}, "
            f"{bits} splat (i1 true))"
        )

    # --- loops ---

    def _loop(self, loop: Loop) -> None:
        live = self.emitter.live
        label = self.emitter._name("loop")
        body = self.emitter.body(loop)
        for k in live.params(loop):
            self.save(("carry", id(loop), k), loop.params[k].kind, self.wide(loop.inits[k]))
        before = self.let("add i64 0, 0")
        self.line(f"br label %{label}.before")
        self.lines.append(f"{label}.before:")
        self.line(f"br label %{label}")
        self.lines.append(f"{label}:")
        now, following = f"%{label}.index", f"%{label}.next"
        self.line(f"{now} = phi i64 [ {before}, %{label}.before ], [ {following}, %{label}.body ]")
        goes_on = self.let(f"icmp slt i64 {now}, {loop.length}")
        if loop.condition is not None:
            condition = self.emitter.condition(loop)
            self.line(f"br i1 {goes_on}, label %{label}.condition, label %{label}.end")
            self.lines.append(f"{label}.condition:")
            goes_on = self.let(f"call fastcc i1 @{condition}(ptr %frame)")
        self.line(f"br i1 {goes_on}, label %{label}.body, label %{label}.end")
        self.lines.append(f"{label}.body:")
        self.line(f"call fastcc void @{body}(ptr %frame, i64 {now})")
        self.line(f"{following} = add i64 {now}, 1")
        self.line(f"br label %{label}")
        self.lines.append(f"{label}.end:")


def unsigned(node: Node) -> bool:
    """Whether the sign bit of a value is never set, not even that of NaN."""
    if node.op == "const":
        return math.copysign(1.0, node.payload) > 0
    return node.op == "abs" or (node.op == "max" and all(map(unsigned, node.args)))


def aligned(size: int) -> int:
    """A size in bytes, filled up."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def storage(dtype) -> str:
    """How numbers of a dtype lie in memory."""
    if dtype.kind == "f":
        return "float" if dtype.itemsize == 4 else "double"
    return "i8" if dtype.kind == "b" else f"i{8 * dtype.itemsize}"
