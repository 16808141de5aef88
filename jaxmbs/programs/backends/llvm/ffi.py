"""XLA's C interface for foreign functions: the text of handlers in LLVM, and their registration.

It follows `xla/ffi/api/c_api.h` in `jax.ffi.include_dir()`; `layout` compares that header with the layout assumed here.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
import threading
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax

from jaxmbs.programs.backends.llvm import layout
from jaxmbs.programs.errors import PerformanceWarning


@functools.cache
def api_version() -> tuple[int, int]:
    """Return the major and minor version of XLA's interface for foreign functions in the installed JAX."""
    numbers = [
        int(x) for name in ("MAJOR", "MINOR") for x in re.findall(rf"#define XLA_FFI_API_{name} (\d+)", layout.header())
    ]
    if len(numbers) != 2:
        raise RuntimeError("XLA's interface for foreign functions has no version that is known here")
    return numbers[0], numbers[1]


@functools.cache
def is_known_interface() -> bool:
    """Return True if the installed XLA has the memory layout of the handlers; if not, warn with the differences."""
    try:
        api_version()
        different = layout.differences(layout.header())
    except (OSError, RuntimeError) as error:
        different = [str(error)]
    if different:
        more = f" and {len(different) - 1} more" if len(different) > 1 else ""
        warnings.warn(
            f"jaxlib {version('jaxlib')} calls foreign functions in a way that is unknown here ({different[0]}{more}): "
            "XLA compiles the programs instead, which takes longer and runs slower; install a supported version of JAX",
            PerformanceWarning,
            stacklevel=2,
        )
    return not different


@functools.cache
def available(module: str) -> bool:
    """Return True if llvmlite is installed and `supported()` of this module, which compiles programs, is True."""
    try:
        return is_known_interface() and importlib.import_module(module).supported()
    except (ImportError, OSError, RuntimeError):
        return False


@functools.cache
def api_field(name: str) -> int:
    """Return the offset in bytes of a function in the table `XLA_FFI_Api`."""
    return layout.structs(layout.header())["XLA_FFI_Api"].offsets[name]


# XLA's code of the error that memory is exhausted.
EXHAUSTED = 8
# XLA's code of internal errors, used for all errors but `EXHAUSTED`.
INTERNAL = 13

# LLVM code of `failure` and of the beginning of `handler`, see `handler_start`.
_BEGIN = """
define internal ptr @failure(ptr %api, ptr %message, i32 %code) #0 {{
{create_error}
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
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %context.at
  %args.at = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %args.at
  %rets.at = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %rets.at"""


def handler_start() -> str:
    """Return LLVM code: the beginning of `handler`, and `failure`, which makes an error of a message and a code.

    The handler answers the question for the version of the interface. If there is something to compute, it goes on with
    %api, %context, %args and %rets: the table of XLA's functions, their first argument, the operands and the results.
    """
    major, minor = api_version()
    create_error = api_call("XLA_FFI_Error_Create", "error", "ptr %message", "i32 %code")
    return _BEGIN.format(major=major, minor=minor, create_error=create_error)


def api_call(function: str, name: str, *values: str) -> str:
    """Return LLVM lines that call a function of the table %api, with the struct of its arguments on the stack.

    Args:
        function: a key of `layout.CALLED`.
        name: %name becomes the function's result, the address of an error or null; %name.field the address of a field
            of the struct.
        values: LLVM's types and values of the fields after `extension_start`.
    """
    fields = layout.CALLED[function]
    lines = [
        f"  %{name}.at = getelementptr i8, ptr %api, i64 {api_field(function)}",
        f"  %{name}.function = load ptr, ptr %{name}.at",
        f"  %{name}.args = alloca [{1 + len(fields)} x i64]",
        f"  store i64 {8 * (1 + len(fields))}, ptr %{name}.args",
    ]
    for place, (field, value) in enumerate(zip(fields, ("ptr null", *values), strict=True), 1):
        lines += [
            f"  %{name}.{field} = getelementptr i64, ptr %{name}.args, i64 {place}",
            f"  store {value}, ptr %{name}.{field}",
        ]
    return "\n".join([*lines, f"  %{name} = call ptr %{name}.function(ptr %{name}.args)"])


def addresses(inputs: int, outputs: int) -> str:
    """Return LLVM lines that make %data0, %data1, …: the addresses of all operands, then of all results."""
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


def capsule(address: int) -> object:
    """Return the PyCapsule in which XLA takes a handler with this address."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(address, b"xla._CUSTOM_CALL_TARGET", None)


class Registry:
    """Handlers by name, each compiled and registered with XLA once, whatever the number of threads that ask for it.

    Args:
        platform: XLA's name for `jax.ffi.register_ffi_target`.
    """

    def __init__(self, platform: str):
        self.platform = platform
        self._codes: dict[str, object] = {}
        self._lock = threading.RLock()

    def add(self, name: str, make: Callable[[], Any]) -> None:
        """Register make(), which has an `address`, unless there is a handler of this name; it stays registered."""
        with self._lock:
            if name not in self._codes:
                code = make()
                jax.ffi.register_ffi_target(name, capsule(code.address), platform=self.platform)
                self._codes[name] = code
