"""Programs for one thread per sample, with all their loops in one kernel.

A thread leaves a loop when its own sample is done. If there are more samples than threads, each thread continues with
the sample that is as many numbers further as there are threads.

The scalars of arrays that loops read or write row by row lie apart, those of neighbouring samples side by side, so that
neighbouring threads use neighbouring addresses. So does the workspace, which holds the rows that the program reads
itself.
"""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.code import AbstractCode
from jaxmbs.programs.backends.llvm.emitter import AbstractEmitter
from jaxmbs.programs.backends.llvm.text import has_no_sign
from jaxmbs.programs.graph.nodes import Buffer, Loop, Memory, Node
from jaxmbs.programs.runtime import tuning
from jaxmbs.programs.tracing.program import Program

# LLVM's type of an address in the memory of the whole GPU.
GLOBAL = "ptr addrspace(1)"


def buffers_by_rows(program: Program) -> frozenset[int]:
    """Return the numbers of the inputs, and after them of the outputs, that loops read or write row by row."""
    first, live = len(program.inputs), program.live
    read = {
        node.address.buffer.source
        for region in live.regions
        for node in live.nodes(region)
        if node.op == "load" and node.address.buffer.source is not None and node.args
    }
    written = {first + k for k, result in enumerate(program.results) if isinstance(result, Memory)}
    return frozenset(read | written)


class ThreadCode(AbstractCode):
    """Writes the lines of one function of a thread."""

    def is_unsigned(self, node: Node) -> bool:
        """Return True for a constant whose sign bit is not set; that of other values is not known."""
        # `abs.f64` of a GPU leaves NaN unchanged, and the usual NaN has its sign set.
        return node.op == "const" and has_no_sign(node)

    def _pointers(self, key: tuple[str, int], distance: str) -> str:
        """Return the address of the thread's sample in a buffer, a distance in bytes further."""
        if key[1] in self.plan.apart:
            distance = self.let(f"mul i64 {distance}, {self._load_kept(('apart', key[1]))}")
        return self.let(f"inttoptr i64 {self.let(f'add i64 {self._load_kept(key)}, {distance}')} to {GLOBAL}")

    def _gather(self, pointers: str, scalar: str) -> str:
        """Return the scalar at an address that the kernel only reads."""
        return self.let(f"load {scalar}, {GLOBAL} {pointers}, !invariant.load !0")

    def _scratch_pointer(self, buffer: Buffer, offset: int, stride: int = 0, number: str | None = None) -> str:
        """Return the address of scalar offset + stride·number of a buffer in the workspace."""
        place = str(self.plan.scratch[buffer] // 8 + offset)
        if number is not None:
            place = self.let(f"add i64 {self.let(f'mul i64 {number}, {stride}')}, {place}")
        moved = self.let(f"mul i64 {place}, {self._load_kept('row')}")
        return self.let(f"getelementptr i8, {GLOBAL} {self._scratch_base()}, i64 {moved}")

    def _load_kept(self, key: object) -> str:
        """Return the LLVM name of an integer that `ThreadEmitter._keep` has put into the frame under a key."""
        name = ("kept", key)
        if name not in self.addresses:
            self.addresses[name] = self.let(f"load i64, ptr {self.slot(key)}")
        return self.addresses[name]


class ThreadEmitter(AbstractEmitter):
    """Writes `kernel(thread, threads, meta, workspace, buffers…)`."""

    code = ThreadCode

    def __init__(self, program: Program):
        super().__init__(program, 1, GLOBAL, ordered=True)
        self.plan.apart = buffers_by_rows(program)

    def before_loop(self, code: AbstractCode, loop: Loop) -> None:
        """Do nothing: a thread has one lane, and no lane is set aside."""

    def continuing_lanes(self, code: AbstractCode, loop: Loop, mask: str) -> str:
        """Return the mask unchanged."""
        return mask

    def attributes(self, code: AbstractCode) -> str:
        """Return #0 for functions that are inlined, #1 for those that are too long for that."""
        return "#0" if len(code.lines) <= tuning.MAX_INLINED_LINES else "#1"

    @property
    def params(self) -> str:
        """Parameters of the kernel after the number of the thread and the number of threads."""
        count = len(self.program.facts.loaded) + len(self.program.outputs)
        return ", ".join([f"{GLOBAL} %meta", f"{GLOBAL} %workspace", *(f"i64 %operand{k}" for k in range(count))])

    def kernel(self) -> str:
        """Return the function for all samples of a thread.

        `meta` has the number of samples, and of those along the inner batch axis; then for each input that is loaded,
        and each output, its strides along the outer and the inner axis, and between its scalars, in scalars.
        """
        used = self.used_buffers
        buffers = [line for k in used for line in self._buffer(k)]
        workspace = self._workspace()
        addresses = [line for k in used for line in self._address(k)]
        return "\n".join(
            [
                f"define internal void @kernel(i64 %thread, i64 %threads, {self.params}) #0 {{",
                "entry:",
                f"  %frame = alloca [{max(self.frame.bytes, 8)} x i8], align 8",
                f"  %total = load i64, {GLOBAL} %meta",
                f"  %inner.at = getelementptr i64, {GLOBAL} %meta, i64 1",
                f"  %inner = load i64, {GLOBAL} %inner.at",
                *buffers,
                *workspace,
                "  br label %next",
                "next:",
                "  %sample = phi i64 [ %thread, %entry ], [ %further, %run ]",
                "  %more = icmp slt i64 %sample, %total",
                "  br i1 %more, label %run, label %done",
                "run:",
                "  %outer = sdiv i64 %sample, %inner",
                "  %before = mul i64 %outer, %inner",
                "  %rest = sub i64 %sample, %before",
                *addresses,
                "  call fastcc void @root(ptr %frame)",
                "  %further = add i64 %sample, %threads",
                "  br label %next",
                "done:",
                "  ret void",
                "}",
            ]
        )

    def _buffer(self, k: int) -> list[str]:
        """Return lines that load the strides of a buffer; the one between its scalars goes into the frame."""
        place = self.kernel_argument(k)
        lines = []
        for number, name in enumerate(["outer", "inner", "apart"]):
            lines += [
                f"  %{name}.at{k} = getelementptr i64, {GLOBAL} %meta, i64 {2 + 3 * place + number}",
                f"  %{name}{k} = load i64, {GLOBAL} %{name}.at{k}",
            ]
        return [*lines, *(self._keep(f"apart{k}", ("apart", k)) if k in self.plan.apart else [])]

    def _address(self, k: int) -> list[str]:
        """Return lines that put the address of a sample in a buffer into the frame."""
        return [
            f"  %a{k} = mul i64 %outer, %outer{k}",
            f"  %b{k} = mul i64 %rest, %inner{k}",
            f"  %c{k} = add i64 %a{k}, %b{k}",
            f"  %d{k} = mul i64 %c{k}, {self.shapes[k].dtype.itemsize}",
            f"  %e{k} = add i64 %d{k}, %operand{self.kernel_argument(k)}",
            *self._keep(f"e{k}", ("buffer", k)),
        ]

    def _workspace(self) -> list[str]:
        """Return lines that find a thread's part of the workspace, and the distance between its scalars there."""
        if "scratch" not in self.frame.places:
            return []
        return [
            f"  %own = getelementptr i64, {GLOBAL} %workspace, i64 %thread",
            *self._keep("own", "scratch", GLOBAL),
            "  %row = mul i64 %threads, 8",
            *self._keep("row", "row"),
        ]

    def _keep(self, name: str, key: object, kind: str = "i64") -> list[str]:
        """Return lines that store %name, of LLVM's type `kind`, in the frame under a key."""
        return [
            f"  %keep.{name} = getelementptr i8, ptr %frame, i64 {self.frame.place(key)}",
            f"  store {kind} %{name}, ptr %keep.{name}, align 8",
        ]
