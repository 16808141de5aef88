"""The lines of one function for a vector of samples, and lines that several of its lanes share."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.code import AbstractCode
from jaxmbs.programs.backends.llvm.text import Text, has_no_sign
from jaxmbs.programs.graph.nodes import INTEGER, Buffer, Node


class VectorCode(AbstractCode):
    """Writes a function whose values are vectors with a lane for each sample, or scalars for a single sample."""

    def is_unsigned(self, node: Node) -> bool:
        return node.serial in self.unsigned or has_no_sign(node)

    def _pointers(self, key: tuple[str, int], distance: str) -> str:
        integers = self.module.vector(INTEGER)
        name = ("addresses", key)
        if name not in self.addresses:
            self.addresses[name] = self.reload(key, INTEGER)
        moved = self.let(f"add {integers} {self.addresses[name]}, {distance}")
        return self.let(f"inttoptr {integers} {moved} to {self.module.wide(self.module.pointer)}")

    def _gather(self, pointers: str, scalar: str) -> str:
        module = self.module
        if module.lanes == 1:
            return self.let(f"load {scalar}, {module.pointer} {pointers}")
        kind, bits = module.wide(scalar), module.wide("i1")
        name = f"llvm.masked.gather.{module.suffix(scalar)}.{module.suffix('ptr')}"
        module.declare(kind, name, [module.wide("ptr"), "i32 immarg", bits, kind])
        size = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i8": 1}.get(scalar, 1)
        return self.let(
            f"call {kind} @{name}({module.wide('ptr')} {pointers}, i32 {size}, {bits} splat (i1 true), {kind} poison)"
        )

    def _scratch_pointer(self, buffer: Buffer, offset: int, stride: int = 0, number: str | None = None) -> str:
        pointer, base, start = self.module.pointer, self._scratch_base(), self.plan.scratch[buffer]
        wide = 8 * self.module.lanes
        here = self.let(f"getelementptr i8, {pointer} {base}, i64 {start + offset * wide}")
        if number is None:
            return here
        moved = self.let(f"mul i64 {number}, {stride * wide}")
        return self.let(f"getelementptr i8, {pointer} {here}, i64 {moved}")


def splat(lanes: int, scalar: str, name: str) -> list[str]:
    """Return LLVM code that makes %name: a vector with the integer %scalar in every lane."""
    if lanes == 1:
        return [f"  %{name} = add i64 %{scalar}, 0"]
    kind = f"<{lanes} x i64>"
    return [
        f"  %{name}.0 = insertelement {kind} poison, i64 %{scalar}, i64 0",
        f"  %{name} = shufflevector {kind} %{name}.0, {kind} poison, <{lanes} x i32> zeroinitializer",
    ]


def following_samples(module: Text, name: str) -> list[str]:
    """Return LLVM code that makes %name: sample numbers %base, %base + 1, …, at most %most, one in each lane."""
    if module.lanes == 1:
        return [f"  %{name} = add i64 %base, 0"]
    integers = module.wide("i64")
    minimum = module.declare(integers, f"llvm.smin.{module.suffix('i64')}", [integers] * 2)
    return [
        *splat(module.lanes, "base", "bases"),
        *splat(module.lanes, "most", "mosts"),
        f"  %{name}.0 = add {integers} %bases, <{lane_numbers(module.lanes)}>",
        f"  %{name} = call {integers} @{minimum}({integers} %{name}.0, {integers} %mosts)",
    ]


def lane_numbers(lanes: int) -> str:
    """Return the lane numbers 0, 1, … as the text of an LLVM vector constant."""
    return ", ".join(f"i64 {k}" for k in range(lanes))
