"""Programs for vectors of samples, one lane each.

A loop with a condition takes as many iterations as the slowest lane of its group. `patience` sets such lanes aside.
"""

from __future__ import annotations

from jaxmbs.programs.backends.cpu.patience import Patience
from jaxmbs.programs.backends.cpu.vector_code import VectorCode, following_samples, splat
from jaxmbs.programs.backends.llvm.code import AbstractCode
from jaxmbs.programs.backends.llvm.emitter import AbstractEmitter
from jaxmbs.programs.backends.llvm.text import ALIGNMENT, align
from jaxmbs.programs.graph.nodes import Loop
from jaxmbs.programs.tracing.program import Program


class VectorEmitter(AbstractEmitter):
    """Writes `kernel(first, last, meta, buffers)`, which takes a group of lanes at a time. Regions are not inlined."""

    code = VectorCode

    def __init__(self, program: Program, lanes: int, ordered: bool = True):
        super().__init__(program, lanes, ordered=ordered)
        self.patience = Patience(self.plan)

    def before_loop(self, code: AbstractCode, loop: Loop) -> None:
        """Write lines that set up the account of a loop for setting lanes aside."""
        if self.lanes > 1:
            self.patience.before_loop(code, loop)

    def continuing_lanes(self, code: AbstractCode, loop: Loop, mask: str) -> str:
        """Return the mask of the lanes that take one more iteration, without those set aside."""
        return self.patience.continuing_lanes(code, loop, mask)

    def attributes(self, code: AbstractCode) -> str:
        """Return the attributes of a function: all have the same."""
        return "#0"

    def kernel(self) -> str:
        """Return the function for all lanes from `first` to `last`, a group at a time; it returns 1 if there is no memory.

        `meta` has the number of the inner batch axis's samples, then for each input that is loaded, and each output,
        its strides along the outer and the inner axis, in scalars. The lanes of a last group that is not full repeat
        its last sample.
        """
        used = self.used_buffers
        choice, after = self._groups()
        if self.patience.loops:
            self.module.functions.append(self.patience.decision())
            choice, after = self.patience.groups()
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
        """Return blocks that take the samples in order, %l being those of the next group, and lines after it."""
        choice = [
            "group:",
            "  %base = phi i64 [ %first, %start ], [ %next, %run ]",
            "  %more = icmp slt i64 %base, %last",
            "  br i1 %more, label %address, label %done",
            "address:",
            *following_samples(self.module, "l"),
        ]
        return choice, [f"  %next = add i64 %base, {self.lanes}"]

    def _memory(self) -> list[str]:
        """Return lines that allocate the frame and, behind it, the scratch memory that all groups use in turn."""
        frame_bytes = align(max(self.frame.bytes, 1))
        self.module.declare("ptr", "aligned_alloc", ["i64", "i64"])
        self.module.declare("void", "free", ["ptr"])
        lines = [
            f"  %frame = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {frame_bytes + align(self.plan.scratch_bytes)})",
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
        """Return lines that load the address of buffer k, and its strides along both batch axes."""
        place = self.kernel_argument(k)
        return [
            f"  %buffer.at{k} = getelementptr ptr, ptr %buffers, i64 {place}",
            f"  %buffer{k} = load i64, ptr %buffer.at{k}",
            f"  %outer.at{k} = getelementptr i64, ptr %meta, i64 {1 + 2 * place}",
            f"  %outer{k} = load i64, ptr %outer.at{k}",
            f"  %inner.at{k} = getelementptr i64, ptr %meta, i64 {2 + 2 * place}",
            f"  %inner{k} = load i64, ptr %inner.at{k}",
        ]

    def _addresses(self, k: int) -> list[str]:
        """Return lines that store the addresses of a group's samples in buffer k in the frame."""
        integers = self.module.wide("i64")
        return [
            *splat(self.lanes, f"outer{k}", f"so{k}"),
            *splat(self.lanes, f"inner{k}", f"si{k}"),
            *splat(self.lanes, f"buffer{k}", f"sb{k}"),
            f"  %a{k} = mul {integers} %o, %so{k}",
            f"  %b{k} = mul {integers} %r, %si{k}",
            f"  %c{k} = add {integers} %a{k}, %b{k}",
            f"  %d{k} = mul {integers} %c{k}, {self._constant_vector(self.shapes[k].dtype.itemsize)}",
            f"  %e{k} = add {integers} %d{k}, %sb{k}",
            f"  %slot{k} = getelementptr i8, ptr %frame, i64 {self.frame.place(('buffer', k))}",
            f"  store {integers} %e{k}, ptr %slot{k}, align {8 if self.lanes == 1 else ALIGNMENT}",
        ]

    def _lane_numbers(self) -> list[str]:
        """Return lines that make %o and %r, numbers of each lane's sample on outer and inner batch axis."""
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
            f"  %r = phi {integers} [ {self._constant_vector(0)}, %address ], [ %rest, %divide ]",
        ]

    def _constant_vector(self, value: int) -> str:
        """Return an LLVM constant vector with an integer in each lane."""
        return str(value) if self.lanes == 1 else f"splat (i64 {value})"
