"""The lines of one LLVM function: operations on scalars or vectors, memory, loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxmbs.programs.backends.llvm.text import ALIGNMENT, storage, unsigned
from jaxmbs.programs.tracing.graph import INTEGER, REAL, TRUTH, Buffer, Loop, Node

if TYPE_CHECKING:
    from jaxmbs.programs.backends.llvm.emitter import Emitter

# Neighbours in memory that are moved at once: the float64 of an AVX-512 vector.
BLOCK = 8
INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc"}
FLOAT_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
INTEGER_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul"}
LIBRARY = frozenset(["sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "expm1", "log1p", "cbrt", "pow"])


class Code:
    """The lines of one function."""

    def __init__(self, emitter: Emitter, counter: Node | None = None):
        self.emitter, self.module, self.frame = emitter, emitter.module, emitter.frame
        self.lines: list[str] = []
        self.count = 0
        self.values: dict[int, str] = {}
        # Largest values of others whose sign bit is never set.
        self.unsigned: set[int] = set()
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
        if op == "max" and all(x.serial in self.unsigned or unsigned(x) for x in node.args):
            self.unsigned.add(node.serial)
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
