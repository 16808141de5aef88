"""Single LLVM instructions of one function: values, the frame, operations on scalars or vectors."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence

from jaxmbs.programs.llvm.plan import Plan
from jaxmbs.programs.llvm.text import ALIGNMENT
from jaxmbs.programs.tracing.graph import INTEGER, REAL, TRUTH, Node

INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc"}
FLOAT_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
INTEGER_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul"}
EXPONENTIALS = frozenset(
    ["exp", "log", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "expm1", "log1p", "cbrt", "pow"]
)

# Values of a block. Choosing the instructions of a block takes LLVM a time that grows faster than its length; where it
# optimises, it joins such blocks first.
MAX_BLOCK_VALUES = 256


class Instructions(abc.ABC):
    """The lines of one function, written one instruction at a time."""

    def __init__(self, plan: Plan, counter: Node | None = None):
        self.plan, self.module, self.frame = plan, plan.module, plan.frame
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
        if self.count % MAX_BLOCK_VALUES == 0:
            self.line(f"br label %after{self.count}")
            self.lines.append(f"after{self.count}:")
        self.line(f"{name} = {expression}")
        return name

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

    def operation(self, node: Node, args: list[str]) -> str:
        """The result of a scalar operation."""
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

    def with_product(self, node: Node, product: Node, factors: list[str], other: list[str]) -> str:
        """A sum or difference of a product and another value, rounded once."""
        own = (self.module.scalar if node.uniform else self.module.vector)(REAL)
        (a, b), (c,) = factors, other
        if node.op == "sub":
            is_first = node.args[0] is product
            a, c = (a, self.let(f"fneg {own} {c}")) if is_first else (self.let(f"fneg {own} {a}"), c)
        return self._call("fma", own, [a, b, c], node.uniform)

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
            return self.let(f"{ARITHMETIC[op]} {own} {args[0]}, {args[1]}")
        if op == "neg":
            return self.let(f"fneg {own} {args[0]}")
        if op in INTRINSICS:
            return self._call(INTRINSICS[op], own, args, uniform)
        if op == "max" and all(self.is_unsigned(x) for x in node.args):
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
        if op in EXPONENTIALS:
            return self._elementary(op, own, args, uniform)
        if op in ("atan2", "atan"):
            return self._elementary("atan2", own, [args[0], args[1] if op == "atan2" else one], uniform)
        if op in ("asin", "acos"):
            low = self.let(f"fsub {own} {one}, {args[0]}")
            high = self.let(f"fadd {own} {one}, {args[0]}")
            root = self._call("sqrt", own, [self.let(f"fmul {own} {low}, {high}")], uniform)
            return self._elementary("atan2", own, [args[0], root] if op == "asin" else [root, args[0]], uniform)
        raise NotImplementedError(op)

    @abc.abstractmethod
    def is_unsigned(self, node: Node) -> bool:
        """Whether the sign bit of a value is never set, not even that of NaN, as far as can be told."""

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
