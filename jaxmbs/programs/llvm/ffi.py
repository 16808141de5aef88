"""XLA's C interface for foreign functions, in LLVM's text: the beginning of a handler, its buffers, its errors.

It follows `xla/ffi/api/c_api.h` in `jax.ffi.include_dir()`. The places of fields that depend on the version are read from
that header.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import jax


@functools.cache
def header() -> str:
    """XLA's C interface, as text."""
    return (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()


@functools.cache
def api_version() -> tuple[int, int]:
    """Major and minor version of XLA's interface."""
    numbers = [
        int(x) for name in ("MAJOR", "MINOR") for x in re.findall(rf"#define XLA_FFI_API_{name} (\d+)", header())
    ]
    if len(numbers) != 2:
        raise RuntimeError("XLA's interface for foreign functions has no version that is known here")
    return numbers[0], numbers[1]


@functools.cache
def api_field(name: str) -> int:
    """Offset in bytes of a function in the table `XLA_FFI_Api`; the functions follow 48 bytes of other fields."""
    fields = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", header())
    return 48 + 8 * fields.index(name)


_BEGIN = """
define internal ptr @failure(ptr %frame, ptr %message) #0 {{
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %f.at = getelementptr i8, ptr %api, i64 {create_error}
  %f = load ptr, ptr %f.at
  %args = alloca [4 x i64]
  store i64 32, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %message, ptr %a2
  %a3 = getelementptr i8, ptr %args, i64 24
  store i64 8, ptr %a3
  %error = call ptr %f(ptr %args)
  ret ptr %error
}}

define ptr @handler(ptr %frame) #0 {{
entry:
  %extension.at = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %extension.at
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %stage, label %metadata
metadata:
  %type.at = getelementptr i8, ptr %extension, i64 8
  %type = load i32, ptr %type.at
  %asked = icmp eq i32 %type, 1
  br i1 %asked, label %answer, label %stage
answer:
  %data.at = getelementptr i8, ptr %extension, i64 24
  %data = load ptr, ptr %data.at
  %major = getelementptr i8, ptr %data, i64 24
  store i32 {major}, ptr %major
  %minor = getelementptr i8, ptr %data, i64 28
  store i32 {minor}, ptr %minor
  %traits = getelementptr i8, ptr %data, i64 32
  store i32 0, ptr %traits
  ret ptr null
stage:
  %stage.at = getelementptr i8, ptr %frame, i64 32
  %now = load i32, ptr %stage.at
  %execute = icmp eq i32 %now, 3
  br i1 %execute, label %run, label %nothing
nothing:
  ret ptr null
run:
  %args.at = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %args.at
  %rets.at = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %rets.at"""


def begin() -> str:
    """The beginning of `handler`, which answers the question for the version of the interface and goes on where there is
    something to compute, with %args and %rets; and `failure`, which makes an error of a message."""
    major, minor = api_version()
    return _BEGIN.format(major=major, minor=minor, create_error=api_field("XLA_FFI_Error_Create"))


def addresses(inputs: int, outputs: int) -> str:
    """Lines that make %data0, %data1, …: where the operands lie, then the results."""
    lines = []
    for k in range(inputs + outputs):
        source, place = ("args", k) if k < inputs else ("rets", k - inputs)
        lines += [
            f"  %p{k}.at = getelementptr ptr, ptr %{source}, i64 {place}",
            f"  %p{k} = load ptr, ptr %p{k}.at",
            f"  %p{k}.data = getelementptr i8, ptr %p{k}, i64 24",
            f"  %data{k} = load ptr, ptr %p{k}.data",
        ]
    return "\n".join(lines)
