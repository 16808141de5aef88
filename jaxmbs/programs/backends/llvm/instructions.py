"""Single LLVM instructions of one function: values, the frame, operations on scalars or vectors."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence

from jaxmbs.programs.backends.llvm.plan import Plan
from jaxmbs.programs.backends.llvm.text import ALIGNMENT
from jaxmbs.programs.errors import ProgramError
from jaxmbs.programs.graph.graph import formula_nodes
from jaxmbs.programs.graph.nodes import INTEGER, REAL, TRUTH, Node
from jaxmbs.programs.graph.operations import OPERATIONS
from jaxmbs.programs.runtime import tuning


class Instructions(abc.ABC):
    """Writes the lines of one function, one instruction at a time.

    Attributes:
        plan: the plan of the module.
        lines: the lines so far.
        count: number of values so far, the last of which is called %v{count}.
        values: serial number ↦ name of the value in this function.
        unsigned: serial numbers of maxima whose sign bit is never set.
        splats: serial number ↦ name of the uniform value as a vector.
        addresses: key ↦ name of an address, or of another value that is computed once in this function.
        blocks: serial number ↦ nodes that are loaded together.
    """

    def __init__(self, plan: Plan, counter: Node | None = None):
        self.plan, self.module, self.frame = plan, plan.module, plan.frame
        self.lines: list[str] = []
        self.count = 0
        self.values: dict[int, str] = {}
        self.unsigned: set[int] = set()
        self.splats: dict[int, str] = {}
        self.addresses: dict[object, str] = {}
        self.blocks: dict[int, list[Node]] = {}
        if counter is not None:
            self.values[counter.serial] = "%index"

    def line(self, text: str) -> None:
        """Add a line of text, indented."""
        self.lines.append("  " + text)

    def let(self, expression: str) -> str:
        """Write an instruction, and return the name of its result."""
        self.count += 1
        name = f"%v{self.count}"
        if self.count % tuning.MAX_BLOCK_VALUES == 0:
            self.line(f"br label %after{self.count}")
            self.lines.append(f"after{self.count}:")
        self.line(f"{name} = {expression}")
        return name

    def value(self, node: Node) -> str:
        """Return the name of a node's value in this function: a scalar if it is uniform, else a vector."""
        if node.op == "const":
            return self.module.literal(node)
        found = self.values.get(node.serial)
        if found is None:
            key: object = node.serial
            if node.op == "param":
                key = ("carry", node.origin.loop, node.origin.number)
            found = self.values[node.serial] = self.reload(key, node.kind, node.uniform)
        return found

    def wide(self, node: Node) -> str:
        """Return the name of a node's value as a vector, also if it is uniform."""
        if not node.uniform or self.module.lanes == 1:
            return self.value(node)
        if node.op == "const":
            return f"splat ({self.module.scalar(node.kind)} {self.module.literal(node)})"
        if node.serial not in self.splats:
            self.splats[node.serial] = self.splat(self.value(node), self.module.scalar(node.kind))
        return self.splats[node.serial]

    def splat(self, value: str, scalar: str) -> str:
        """Return the name of a vector with the value called `value`, of LLVM's type `scalar`, in each lane."""
        if self.module.lanes == 1:
            return value
        kind = self.module.wide(scalar)
        first = self.let(f"insertelement {kind} poison, {scalar} {value}, i64 0")
        zeros = f"<{self.module.lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector {kind} {first}, {kind} poison, {zeros}")

    def slot(self, key: object) -> str:
        """Return the address of the value with this key in the frame."""
        if key not in self.addresses:
            self.addresses[key] = self.let(f"getelementptr i8, ptr %frame, i64 {self.frame.place(key)}")
        return self.addresses[key]

    def _types(self, kind: str, uniform: bool) -> tuple[str, str]:
        """Return LLVM's type of a value in registers, and its type in the frame, where truth values are bytes."""
        make = self.module.scalar if uniform else self.module.vector
        bits = "i8" if uniform else self.module.wide("i8")
        return make(kind), bits if kind == TRUTH else make(kind)

    def reload(self, key: object, kind: str, uniform: bool = False) -> str:
        """Load the value with this key from the frame, and return its name."""
        inside, outside = self._types(kind, uniform)
        value = self.let(f"load {outside}, ptr {self.slot(key)}, align {self._alignment(uniform)}")
        return self.let(f"trunc {outside} {value} to {inside}") if kind == TRUTH else value

    def save(self, key: object, kind: str, value: str, uniform: bool = False) -> None:
        """Store a value in the frame under a key."""
        inside, outside = self._types(kind, uniform)
        if kind == TRUTH:
            value = self.let(f"zext {inside} {value} to {outside}")
        self.line(f"store {outside} {value}, ptr {self.slot(key)}, align {self._alignment(uniform)}")

    def _alignment(self, uniform: bool = False) -> int:
        """Return the alignment of a value in the frame, in bytes."""
        return 8 if uniform or self.module.lanes == 1 else ALIGNMENT

    def operation(self, node: Node, args: list[str]) -> str:
        """Write a scalar operation, and return the name of its result; `ProgramError` if it has no form for its numbers."""
        entry = OPERATIONS[node.op]
        form = entry.llvm_integer if node.args[0].kind == INTEGER else entry.llvm
        if form is not None:
            return str(form(self, node, args))
        if entry.formula is None or node.kind != REAL:
            number = "integers" if node.args[0].kind == INTEGER else "truth values"
            raise ProgramError(f"operation '{node.op}' has no form for {number} in LLVM; see its entry in OPERATIONS")
        return self._formula(node, args)

    def _formula(self, node: Node, args: list[str]) -> str:
        """Write an operation that is defined by others (`Operation.formula`); return the name of its result."""
        formula = OPERATIONS[node.op].formula
        assert formula is not None
        nodes, result = formula_nodes(node, formula)
        values = dict(zip((x.serial for x in nodes if x.op == "param"), args, strict=True))
        of = self.value if node.uniform else self.wide
        for x in nodes:
            if x.op == "const":
                values[x.serial] = of(x)
            elif x.op != "param":
                values[x.serial] = self.operation(x, [values[arg.serial] for arg in x.args])
        return values[result.serial]

    # The forms of operations in the table: each writes the code of a node whose arguments are called `args` in this
    # function, and returns the name of its result.

    def type_of(self, node: Node, kind: str | None = None) -> str:
        """Return LLVM's type of the first argument of a node, or of another kind with as many lanes."""
        return (self.module.scalar if node.uniform else self.module.vector)(kind or node.args[0].kind)

    def real(self, value: float, node: Node) -> str:
        """Return a real constant as LLVM text: a number for a uniform node or one lane, else a splat over all lanes."""
        text = self.module.number(value)
        return text if node.uniform or self.module.lanes == 1 else f"splat ({self.module.real} {text})"

    def integer(self, value: int, node: Node) -> str:
        """Return an i64 constant as LLVM text: a number for a uniform node or one lane, else a splat over all lanes."""
        return str(value) if node.uniform or self.module.lanes == 1 else f"splat (i64 {value})"

    def instruction(self, node: Node, word: str, args: Sequence[str]) -> str:
        """Write the LLVM instruction `word` with two arguments, such as "fadd"."""
        return self.let(f"{word} {self.type_of(node)} {args[0]}, {args[1]}")

    def intrinsic(self, node: Node, name: str, args: Sequence[str]) -> str:
        """Write a call of LLVM's intrinsic function `name` of real numbers, such as "fma"."""
        own = self.type_of(node, REAL)
        name = self.module.declare(
            own, f"llvm.{name}.{self.module.suffix(self.module.real, node.uniform)}", [own] * len(args)
        )
        return self.let(f"call {own} @{name}({', '.join(f'{own} {a}' for a in args)})")

    def elementary(self, node: Node, name: str, args: Sequence[str]) -> str:
        """Write a call of a function of `elementary.FUNCTIONS`."""
        own = self.type_of(node)
        symbol = self._elementary_name(name, node.uniform)
        return self.let(f"call {own} @{symbol}({', '.join(f'{own} {a}' for a in args)})")

    def conversion(self, node: Node, word: str, args: Sequence[str]) -> str:
        """Write the LLVM instruction `word` that converts to a real number, such as "sitofp"."""
        return self.let(f"{word} {self.type_of(node)} {args[0]} to {self.type_of(node, REAL)}")

    def selection(self, node: Node, args: Sequence[str]) -> str:
        """Write the choice between two values by a truth value; args are condition, value if True, value if False."""
        value = self.type_of(node, node.kind)
        return self.let(f"select {self.type_of(node, TRUTH)} {args[0]}, {value} {args[1]}, {value} {args[2]}")

    def negation(self, node: Node, args: Sequence[str]) -> str:
        """Write the opposite of a truth value."""
        yes = "true" if node.uniform or self.module.lanes == 1 else "splat (i1 true)"
        return self.let(f"xor {self.type_of(node)} {args[0]}, {yes}")

    def to_integer(self, node: Node, args: Sequence[str]) -> str:
        """Write a real number rounded towards zero."""
        own, result = self.type_of(node), self.type_of(node, INTEGER)
        to, of = (self.module.suffix(x, node.uniform) for x in ("i64", self.module.real))
        name = self.module.declare(result, f"llvm.fptosi.sat.{to}.{of}", [own])
        return self.let(f"call {result} @{name}({own} {args[0]})")

    def integer_sign(self, node: Node, args: Sequence[str]) -> str:
        """Write the sign of an integer."""
        own, bit, zero = self.type_of(node), self.type_of(node, TRUTH), self.integer(0, node)
        low = self.let(f"icmp slt {own} {args[0]}, {zero}")
        high = self.let(f"icmp sgt {own} {args[0]}, {zero}")
        up = self.let(f"select {bit} {high}, {own} {self.integer(1, node)}, {own} {zero}")
        return self.let(f"select {bit} {low}, {own} {self.integer(-1, node)}, {own} {up}")

    def integer_extreme(self, node: Node, args: Sequence[str]) -> str:
        """Write min, max or abs of integers."""
        own, bit, zero = self.type_of(node), self.type_of(node, TRUTH), self.integer(0, node)
        b = args[1] if len(args) > 1 else zero
        test = self.let(f"icmp {'slt' if node.op == 'min' else 'sgt'} {own} {args[0]}, {b}")
        other = self.let(f"sub {own} {zero}, {args[0]}") if node.op == "abs" else b
        return self.let(f"select {bit} {test}, {own} {args[0]}, {own} {other}")

    def integer_division(self, node: Node, args: Sequence[str]) -> str:
        """Write quotient or remainder of integers."""
        # The processor traps on a division by zero, and on that of the smallest number by −1.
        own, bit = self.type_of(node), self.type_of(node, TRUTH)
        same: Callable[[int], str] = lambda k: self.integer(k, node)
        zero = self.let(f"icmp eq {own} {args[1]}, {same(0)}")
        minus = self.let(f"icmp eq {own} {args[1]}, {same(-1)}")
        odd = self.let(f"or {bit} {zero}, {minus}")
        divisor = self.let(f"select {bit} {odd}, {own} {same(1)}, {own} {args[1]}")
        if node.op == "irem":
            rest = self.let(f"srem {own} {args[0]}, {divisor}")
            return self.let(f"select {bit} {zero}, {own} {args[0]}, {own} {rest}")
        quotient = self.let(f"sdiv {own} {args[0]}, {divisor}")
        opposite = self.let(f"sub {own} {same(0)}, {args[0]}")
        quotient = self.let(f"select {bit} {minus}, {own} {opposite}, {own} {quotient}")
        return self.let(f"select {bit} {zero}, {own} {same(-1)}, {own} {quotient}")

    def extreme(self, node: Node, args: Sequence[str]) -> str:
        """Write min or max of two real numbers: NaN if either is NaN."""
        if node.op == "max" and all(self.is_unsigned(x) for x in node.args):
            self.unsigned.add(node.serial)
            return self._largest(node, args)
        # One instruction, which gives the second argument if either is NaN; two more for a NaN in the first.
        own, bit = self.type_of(node), self.type_of(node, TRUTH)
        test = self.let(f"fcmp {'olt' if node.op == 'min' else 'ogt'} {own} {args[0]}, {args[1]}")
        better = self.let(f"select {bit} {test}, {own} {args[0]}, {own} {args[1]}")
        if node.args[0].is_constant:
            return better
        missing = self.let(f"fcmp uno {own} {args[0]}, {args[0]}")
        return self.let(f"select {bit} {missing}, {own} {args[0]}, {own} {better}")

    def sign(self, node: Node, args: Sequence[str]) -> str:
        """Write the sign of a real number; zeros and NaN stay."""
        own, bit = self.type_of(node), self.type_of(node, TRUTH)
        signed = self.intrinsic(node, "copysign", [self.real(1.0, node), args[0]])
        other = self.let(f"fcmp one {own} {args[0]}, {self.real(0.0, node)}")
        return self.let(f"select {bit} {other}, {own} {signed}, {own} {args[0]}")

    def inverse_sin_cos(self, node: Node, args: Sequence[str]) -> str:
        """Write asin or acos by atan2."""
        own, one = self.type_of(node), self.real(1.0, node)
        low = self.let(f"fsub {own} {one}, {args[0]}")
        high = self.let(f"fadd {own} {one}, {args[0]}")
        root = self.intrinsic(node, "sqrt", [self.let(f"fmul {own} {low}, {high}")])
        return self.elementary(node, "atan2", [args[0], root] if node.op == "asin" else [root, args[0]])

    def sin_cos(self, node: Node, args: Sequence[str]) -> str:
        """Write sin, cos or tan; those of one argument share a call."""
        own, key = self.type_of(node), ("sin_cos", node.args[0].serial)
        if key not in self.addresses:
            name = self._elementary_name("sin_cos", node.uniform)
            self.addresses[key] = self.let(f"call {{{own}, {own}}} @{name}({own} {args[0]})")
        pair = self.addresses[key]
        part: Callable[[int], str] = lambda k: self.let(f"extractvalue {{{own}, {own}}} {pair}, {k}")
        if node.op == "tan":
            sine, cosine = part(0), part(1)
            return self.let(f"fdiv {own} {sine}, {cosine}")
        return part(0 if node.op == "sin" else 1)

    def remainder(self, node: Node, args: Sequence[str]) -> str:
        """Write x − y·trunc(x/y), corrected where the quotient was rounded across an integer."""
        x, y = args
        own, bit = self.type_of(node), self.type_of(node, TRUTH)
        zero, infinity = self.real(0.0, node), self.real(math.inf, node)
        quotient = self.intrinsic(node, "trunc", [self.let(f"fdiv {own} {x}, {y}")])
        rest = self.intrinsic(node, "fma", [self.let(f"fneg {own} {quotient}"), y, x])
        step = self.intrinsic(node, "copysign", [y, x])
        product = self.let(f"fmul {own} {rest}, {x}")
        wrong = self.let(f"fcmp olt {own} {product}, {zero}")
        rest = self.let(f"select {bit} {wrong}, {own} {self.let(f'fadd {own} {rest}, {step}')}, {own} {rest}")
        sizes = [self.intrinsic(node, "fabs", [z]) for z in (rest, y)]
        over = self.let(f"fcmp oge {own} {sizes[0]}, {sizes[1]}")
        rest = self.let(f"select {bit} {over}, {own} {self.let(f'fsub {own} {rest}, {step}')}, {own} {rest}")
        endless = self.let(f"fcmp oeq {own} {sizes[1]}, {infinity}")
        finite = self.let(f"fcmp one {own} {self.intrinsic(node, 'fabs', [x])}, {infinity}")
        return self.let(f"select {bit} {self.let(f'and {bit} {endless}, {finite}')}, {own} {x}, {own} {rest}")

    def with_product(self, node: Node, product: Node, factors: list[str], other: list[str]) -> str:
        """Write `product` + or − another value by a fused operation, rounded once; `node` is the sum or difference."""
        own = self.type_of(node, REAL)
        (a, b), (c,) = factors, other
        if node.op == "sub":
            is_first = node.args[0] is product
            a, c = (a, self.let(f"fneg {own} {c}")) if is_first else (self.let(f"fneg {own} {a}"), c)
        return self.intrinsic(node, "fma", [a, b, c])

    @abc.abstractmethod
    def is_unsigned(self, node: Node) -> bool:
        """Return True if the sign bit of a value is never set, not even that of NaN, as far as is known."""

    def _largest(self, node: Node, args: Sequence[str]) -> str:
        """Write the larger of two numbers whose sign bits are not set, by comparing them as integers."""
        # Compared by their bits, which is one instruction, NaN is larger than any number.
        own, bits = self.type_of(node), f"i{8 * self.module.size}"
        kind = bits if node.uniform else self.module.wide(bits)
        name = self.module.declare(kind, f"llvm.smax.{self.module.suffix(bits, node.uniform)}", [kind] * 2)
        a, b = (self.let(f"bitcast {own} {x} to {kind}") for x in args)
        return self.let(f"bitcast {kind} {self.let(f'call {kind} @{name}({kind} {a}, {kind} {b})')} to {own}")

    def _elementary_name(self, name: str, uniform: bool) -> str:
        """Note that an elementary function is called; return its name for one lane if `uniform`, else for all."""
        lanes = 1 if uniform else self.module.lanes
        self.module.elementary.add((name, lanes))
        return f"{name}.{lanes}"
