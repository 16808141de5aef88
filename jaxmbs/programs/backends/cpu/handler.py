"""The function that XLA calls, in LLVM's text: it unpacks the buffers and divides a large batch among XLA's threads."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm import ffi

# LLVM code of the function that XLA calls for a program: it divides the samples among threads, which call the kernel.
HANDLER = """
declare i32 @sched_yield()
declare ptr @malloc(i64)

; next, chunk, total, done, references, failed: counters shared by the threads; then what the kernel gets.
%shared = type {{ i64, i64, i64, i64, i64, i64, ptr, ptr }}

define internal void @release(ptr %s) #0 {{
  %at = getelementptr %shared, ptr %s, i64 0, i32 4
  %before = atomicrmw sub ptr %at, i64 1 acq_rel
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
  %next.at = getelementptr %shared, ptr %s, i64 0, i32 0
  %chunk.at = getelementptr %shared, ptr %s, i64 0, i32 1
  %chunk = load i64, ptr %chunk.at
  %total.at = getelementptr %shared, ptr %s, i64 0, i32 2
  %total = load i64, ptr %total.at
  %done.at = getelementptr %shared, ptr %s, i64 0, i32 3
  %failed.at = getelementptr %shared, ptr %s, i64 0, i32 5
  br label %take
take:
  %first = atomicrmw add ptr %next.at, i64 %chunk acq_rel
  %over = icmp sge i64 %first, %total
  br i1 %over, label %end, label %run
run:
  %meta.at = getelementptr %shared, ptr %s, i64 0, i32 6
  %meta = load ptr, ptr %meta.at
  %buffers.at = getelementptr %shared, ptr %s, i64 0, i32 7
  %buffers = load ptr, ptr %buffers.at
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

define internal i64 @threads(ptr %frame) #0 {{
entry:
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %context.at
  %f.at = getelementptr i8, ptr %api, i64 {number_of_threads}
  %f = load ptr, ptr %f.at
  %n = alloca i64
  store i64 1, ptr %n
  %args = alloca [4 x i64]
  store i64 32, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %context, ptr %a2
  %a3 = getelementptr i8, ptr %args, i64 24
  store ptr %n, ptr %a3
  %error = call ptr %f(ptr %args)
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
  %f.at = getelementptr i8, ptr %api, i64 {destroy_error}
  %f = load ptr, ptr %f.at
  %args = alloca [3 x i64]
  store i64 24, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %error, ptr %a2
  call void %f(ptr %args)
  ret void
}}

@no_memory = private constant [47 x i8] c"no memory for the scratch space of the program\\00"

define internal i32 @parallel(ptr %frame, i64 %total, i64 %threads, ptr %meta, ptr %buffers) #0 {{
entry:
  %api.at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api.at
  %context.at = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %context.at
  %f.at = getelementptr i8, ptr %api, i64 {schedule}
  %f = load ptr, ptr %f.at
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
  store i64 0, ptr %s
  %s1 = getelementptr %shared, ptr %s, i64 0, i32 1
  store i64 %chunk, ptr %s1
  %s2 = getelementptr %shared, ptr %s, i64 0, i32 2
  store i64 %total, ptr %s2
  %s3 = getelementptr %shared, ptr %s, i64 0, i32 3
  store i64 0, ptr %s3
  %s4 = getelementptr %shared, ptr %s, i64 0, i32 4
  store i64 %threads, ptr %s4
  %s5 = getelementptr %shared, ptr %s, i64 0, i32 5
  store i64 0, ptr %s5
  %s6 = getelementptr %shared, ptr %s, i64 0, i32 6
  store ptr %meta, ptr %s6
  %s7 = getelementptr %shared, ptr %s, i64 0, i32 7
  store ptr %buffers, ptr %s7
  %args = alloca [5 x i64]
  store i64 40, ptr %args
  %a1 = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %a1
  %a2 = getelementptr i8, ptr %args, i64 16
  store ptr %context, ptr %a2
  %a3 = getelementptr i8, ptr %args, i64 24
  store ptr @task, ptr %a3
  %a4 = getelementptr i8, ptr %args, i64 32
  store ptr %s, ptr %a4
  br label %more
more:
  %k = phi i64 [ 1, %share.out ], [ %k1, %scheduled ]
  %enough = icmp sge i64 %k, %threads
  br i1 %enough, label %join, label %schedule
schedule:
  %error = call ptr %f(ptr %args)
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %scheduled, label %refused
refused:
  call void @destroy(ptr %api, ptr %error)
  %r = atomicrmw sub ptr %s4, i64 1 acq_rel
  br label %scheduled
scheduled:
  %k1 = add i64 %k, 1
  br label %more
join:
  call void @work(ptr %s)
  br label %wait
wait:
  %done = load atomic i64, ptr %s3 acquire, align 8
  %all = icmp sge i64 %done, %total
  br i1 %all, label %finished, label %yield
yield:
  %y = call i32 @sched_yield()
  br label %wait
finished:
  %failed = load atomic i64, ptr %s5 acquire, align 8
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
  %threads = call i64 @threads(ptr %frame)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %share, label %serial
share:
  %c1 = call i32 @parallel(ptr %frame, i64 %total, i64 %threads, ptr %kernel.meta, ptr %buffers)
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
  %error = call ptr @failure(ptr %frame, ptr @no_memory, i32 {exhausted})
  ret ptr %error
}}
"""


def buffers(inputs: int, outputs: int) -> str:
    """Return LLVM code that stores the addresses of all buffers in %buffers, without the first operand, the strides."""
    lines = [ffi.addresses(1 + inputs, outputs)]
    for k in range(inputs + outputs):
        lines += [
            f"  %b{k} = getelementptr ptr, ptr %buffers, i64 {k}",
            f"  store ptr %data{k + 1}, ptr %b{k}",
        ]
    return "\n".join(lines)
