"""Vector machine code for CPUs, one lane per sample.

`emitter` writes LLVM code of a program, with `code` for one function, `instructions` for one line and `text` for types;
`vector_math` has the elementary functions, `machine` compiles, `handler` is what XLA calls, `backend` what programs call.
"""
