"""Lines of LLVM for all lanes of a group."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.text import Text


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
