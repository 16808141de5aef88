"""The function that XLA calls, in LLVM's text: it unpacks the buffers and divides a large batch among XLA's threads."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm import ffi
from jaxmbs.programs.runtime import tuning

# Fields of the struct %shared, in its order: the sample that the next thread begins with, the number of samples that a
# thread takes at once, the number of samples, the number of samples done, the number of threads that use the struct, 1 if a
# thread had no memory; then arguments of the kernel.
FIELDS = ("next", "chunk", "total", "done", "references", "failed", "meta", "buffers")
# LLVM code of the function that XLA calls for a program: it divides the samples among threads, which call the kernel.
HANDLER = """
declare i32 @sched_yield()
declare ptr @malloc(i64)

; Counters shared by the threads, then the kernel's arguments; see `FIELDS`.
%shared = type {{ i64, i64, i64, i64, i64, i64, ptr, ptr }}

define internal void @release(ptr %s) #0 {{
{fields}
  %before = atomicrmw sub ptr %references.at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %drop, label %end
drop:
  call void @free(ptr %s)
  br label %end
end:
  ret void
}}

define internal void @work(ptr %s) #0 {{
entry:
{fields}
  %chunk = load i64, ptr %chunk.at
  %total = load i64, ptr %total.at
  %meta = load ptr, ptr %meta.at
  %buffers = load ptr, ptr %buffers.at
  br label %take
take:
  %first = atomicrmw add ptr %next.at, i64 %chunk acq_rel
  %over = icmp sge i64 %first, %total
  br i1 %over, label %end, label %run
run:
  %far = add i64 %first, %chunk
  %last = call i64 @llvm.smin.i64(i64 %far, i64 %total)
  %code = call i32 @kernel(i64 %first, i64 %last, ptr %meta, ptr %buffers)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %note, label %count
note:
  store atomic i64 1, ptr %failed.at monotonic, align 8
  br label %count
count:
  %lanes = sub i64 %last, %first
  %d = atomicrmw add ptr %done.at, i64 %lanes acq_rel
  br label %take
end:
  ret void
}}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @task(ptr %s) #0 {{
  call void @work(ptr %s)
  call void @release(ptr %s)
  ret void
}}

define internal i64 @threads(ptr %api, ptr %context) #0 {{
entry:
  %n = alloca i64
  store i64 1, ptr %n
{number_of_threads}
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %good, label %bad
bad:
  call void @destroy(ptr %api, ptr %error)
  ret i64 1
good:
  %count = load i64, ptr %n
  ret i64 %count
}}

define internal void @destroy(ptr %api, ptr %error) #0 {{
{destroy}
  ret void
}}

define internal ptr @schedule(ptr %api, ptr %context, ptr %s) #0 {{
{schedule}
  ret ptr %error
}}

@no_memory = private constant [47 x i8] c"no memory for the scratch space of the program\\00"

define internal i32 @parallel(ptr %api, ptr %context, i64 %total, i64 %threads, ptr %meta, ptr %buffers) #0 {{
entry:
  %parts = mul i64 %threads, {parts}
  %share = udiv i64 %total, %parts
  %groups = udiv i64 %share, {lanes}
  %some = call i64 @llvm.smax.i64(i64 %groups, i64 1)
  %chunk = mul i64 %some, {lanes}
  %s = call ptr @malloc(i64 64)
  %none = icmp eq ptr %s, null
  br i1 %none, label %alone, label %share.out
alone:
  %code = call i32 @kernel(i64 0, i64 %total, ptr %meta, ptr %buffers)
  ret i32 %code
share.out:
{fields}
  store i64 0, ptr %next.at
  store i64 %chunk, ptr %chunk.at
  store i64 %total, ptr %total.at
  store i64 0, ptr %done.at
  store i64 %threads, ptr %references.at
  store i64 0, ptr %failed.at
  store ptr %meta, ptr %meta.at
  store ptr %buffers, ptr %buffers.at
  br label %more
more:
  %k = phi i64 [ 1, %share.out ], [ %k1, %scheduled ]
  %enough = icmp sge i64 %k, %threads
  br i1 %enough, label %join, label %schedule
schedule:
  %error = call ptr @schedule(ptr %api, ptr %context, ptr %s)
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %scheduled, label %refused
refused:
  call void @destroy(ptr %api, ptr %error)
  %r = atomicrmw sub ptr %references.at, i64 1 acq_rel
  br label %scheduled
scheduled:
  %k1 = add i64 %k, 1
  br label %more
join:
  call void @work(ptr %s)
  br label %wait
wait:
  %done = load atomic i64, ptr %done.at acquire, align 8
  %all = icmp sge i64 %done, %total
  br i1 %all, label %finished, label %yield
yield:
  %y = call i32 @sched_yield()
  br label %wait
finished:
  %failed = load atomic i64, ptr %failed.at acquire, align 8
  %code2 = trunc i64 %failed to i32
  call void @release(ptr %s)
  ret i32 %code2
}}

{begin}
  %buffers = alloca [{count} x ptr]
{buffers}
  %total = load i64, ptr %data0
  %kernel.meta = getelementptr i64, ptr %data0, i64 1
  %effort = mul i64 %total, {effort}
  %large = icmp sgt i64 %effort, {worth}
  %groups = icmp sgt i64 %total, {lanes}
  %try = and i1 %large, %groups
  br i1 %try, label %ask, label %serial
ask:
  %threads = call i64 @threads(ptr %api, ptr %context)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %share, label %serial
share:
  %c1 = call i32 @parallel(ptr %api, ptr %context, i64 %total, i64 %threads, ptr %kernel.meta, ptr %buffers)
  br label %end
serial:
  %c2 = call i32 @kernel(i64 0, i64 %total, ptr %kernel.meta, ptr %buffers)
  br label %end
end:
  %c = phi i32 [ %c1, %share ], [ %c2, %serial ]
  %good = icmp eq i32 %c, 0
  br i1 %good, label %success, label %bad
success:
  ret ptr null
bad:
  %error = call ptr @failure(ptr %api, ptr @no_memory, i32 {exhausted})
  ret ptr %error
}}
"""


def handler(inputs: int, outputs: int, work: int, lanes: int) -> str:
    """Return the LLVM code of the function `handler` that XLA calls, for a module that has the kernel.

    Args:
        inputs: number of inputs, without the first operand of the call, which has the number of samples and the strides.
        outputs: number of outputs.
        work: number of scalar operations of a sample.
        lanes: number of lanes of the kernel.
    """
    fields = [f"  %{name}.at = getelementptr %shared, ptr %s, i64 0, i32 {k}" for k, name in enumerate(FIELDS)]
    lines = [ffi.addresses(1 + inputs, outputs)]
    for k in range(inputs + outputs):
        lines += [
            f"  %b{k} = getelementptr ptr, ptr %buffers, i64 {k}",
            f"  store ptr %data{k + 1}, ptr %b{k}",
        ]
    return HANDLER.format(
        begin=ffi.handler_start(),
        fields="\n".join(fields),
        number_of_threads=ffi.api_call("XLA_FFI_ThreadPool_NumThreads", "error", "ptr %context", "ptr %n"),
        schedule=ffi.api_call("XLA_FFI_ThreadPool_Schedule", "error", "ptr %context", "ptr @task", "ptr %s"),
        destroy=ffi.api_call("XLA_FFI_Error_Destroy", "none", "ptr %error"),
        count=max(inputs + outputs, 1),
        buffers="\n".join(lines),
        effort=work,
        worth=tuning.MIN_OPERATIONS_FOR_THREADS,
        parts=tuning.PARTS_PER_THREAD,
        lanes=lanes,
        exhausted=ffi.EXHAUSTED,
    )
