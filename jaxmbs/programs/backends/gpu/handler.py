"""The function that XLA calls to run a kernel, in LLVM's text: it passes the addresses of all buffers to the driver."""

from __future__ import annotations

from jaxmbs.programs.backends.gpu.driver import LoadedKernel
from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.tracing.program import Program

# The kernel gets `meta`, the workspace, the inputs and the outputs. XLA gives `meta` and the inputs as operands, and as
# results the outputs and behind them the workspace. The numbers of blocks and of threads in each are an attribute.
_HANDLER = """
{driver}
declare i32 @snprintf(ptr, i64, ptr, ...)
{unknown}
{format}
{begin}
{addresses}
  %params = alloca [{count} x ptr]
{params}
  %attributes.at = getelementptr i8, ptr %frame, i64 160
  %attributes = load ptr, ptr %attributes.at
  %attribute = load ptr, ptr %attributes
  %grid.at = getelementptr i8, ptr %attribute, i64 16
  %grid = load ptr, ptr %grid.at
  %blocks.long = load i64, ptr %grid
  %block.at = getelementptr i64, ptr %grid, i64 1
  %block.long = load i64, ptr %block.at
  %blocks = trunc i64 %blocks.long to i32
  %block = trunc i64 %block.long to i32
{stream}
  %function = inttoptr i64 {function} to ptr
  %code = call i32 {launch}(ptr %function, i32 %blocks, i32 1, i32 1, i32 %block, i32 1, i32 1, i32 0,
    ptr %stream, ptr %params, ptr null)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %success, label %bad
success:
  ret ptr null
bad:
  %why.at = alloca ptr
  store ptr @unknown, ptr %why.at
  %found = call i32 {explain}(i32 %code, ptr %why.at)
  %why = load ptr, ptr %why.at
  %message = alloca [512 x i8]
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %message, i64 512, ptr @format, i32 %blocks, i32 %block, ptr %why)
  %no.memory = icmp eq i32 %code, 2
  %kind = select i1 %no.memory, i32 {exhausted}, i32 {internal}
  %error = call ptr @failure(ptr %api, ptr %message, i32 %kind)
  ret ptr %error
}}
"""
# LLVM code of the handler that asks XLA for the CUDA stream on which the kernel runs.
_STREAM = """
{get_stream}
  %ready = icmp eq ptr %refused, null
  br i1 %ready, label %launch, label %stop
stop:
  ret ptr %refused
launch:
  %stream = load ptr, ptr %refused.stream"""
# LLVM code that takes the place of NVIDIA's driver on the host: it runs one thread of the kernel after the other.
_HOST_DRIVER = """
define internal i32 @explain(i32 %code, ptr %why) {{
  ret i32 0
}}

define internal i32 @launch(ptr %function, i32 %blocks, i32 %by, i32 %bz, i32 %block, i32 %ty, i32 %tz, i32 %shared,
    ptr %stream, ptr %params, ptr %extra) {{
entry:
{values}
  %all = mul i32 %blocks, %block
  %threads = zext i32 %all to i64
  br label %next
next:
  %thread = phi i64 [ 0, %entry ], [ %further, %run ]
  %more = icmp slt i64 %thread, %threads
  br i1 %more, label %run, label %done
run:
  call void @kernel(i64 %thread, i64 %threads, {arguments})
  %further = add i64 %thread, 1
  br label %next
done:
  ret i32 0
}}
"""


def on_gpu(program: Program, workspace: bool, loaded: LoadedKernel) -> str:
    """Return the LLVM code of the handler that launches a kernel which the driver has loaded.

    Args:
        program: the program that the kernel computes.
        workspace: True if the kernel has a workspace, a result of XLA's call after the outputs.
        loaded: the driver's handle and functions.
    """
    calls = {name: f"inttoptr (i64 {getattr(loaded, name)} to ptr)" for name in ("launch", "explain")}
    stream = _STREAM.format(get_stream=ffi.api_call("XLA_FFI_Stream_Get", "refused", "ptr %context", "ptr null"))
    return _handler(program, workspace, driver="", stream=stream, function=loaded.function, **calls)


def on_host(program: Program, workspace: bool, kinds: list[str]) -> str:
    """Return the LLVM code of the handler that runs a kernel of the same module in the calling thread.

    Args:
        program: the program that the kernel computes.
        workspace: True if the kernel has a workspace, a result of XLA's call after the outputs.
        kinds: LLVM's types of the kernel's parameters after the number of the thread and the number of threads.
    """
    values, arguments = [], []
    for k, kind in enumerate(kinds):
        values += [
            f"  %at{k} = getelementptr ptr, ptr %params, i64 {k}",
            f"  %place{k} = load ptr, ptr %at{k}",
            f"  %value{k} = load {kind}, ptr %place{k}",
        ]
        arguments.append(f"{kind} %value{k}")
    driver = _HOST_DRIVER.format(values="\n".join(values), arguments=", ".join(arguments))
    calls: dict[str, object] = {"launch": "@launch", "explain": "@explain", "function": 0}
    stream = "  %stream = inttoptr i64 0 to ptr"
    return _handler(program, workspace, driver=driver, stream=stream, **calls)


def _handler(program: Program, workspace: bool, **parts: object) -> str:
    """Return the LLVM code of a handler with these parts in the places of `_HANDLER`."""
    inputs, outputs = len(program.facts.loaded), len(program.outputs)
    results = outputs + workspace
    # The workspace comes second; without one its place stays empty.
    order = [0, inputs + results if workspace else None, *range(1, 1 + inputs + outputs)]
    params = []
    for place, source in enumerate(order):
        params += [
            f"  %value{place} = alloca ptr",
            f"  store ptr {'null' if source is None else f'%data{source}'}, ptr %value{place}",
            f"  %param{place} = getelementptr ptr, ptr %params, i64 {place}",
            f"  store ptr %value{place}, ptr %param{place}",
        ]
    name = "".join(x for x in program.name if x.isascii() and (x.isalnum() or x in "_ "))[:40]
    return _HANDLER.format(
        unknown=_constant("unknown", "unknown error"),
        format=_constant("format", f"CUDA cannot run %d blocks of %d threads of '{name}': %s"),
        begin=ffi.handler_start(),
        addresses=ffi.addresses(1 + inputs, results),
        count=len(order),
        params="\n".join(params),
        exhausted=ffi.EXHAUSTED,
        internal=ffi.INTERNAL,
        **parts,
    )


def _constant(name: str, text: str) -> str:
    """Return LLVM's definition of a constant text."""
    return f'@{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"'
