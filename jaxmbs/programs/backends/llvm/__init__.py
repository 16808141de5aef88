"""Vector machine code for CPUs, one lane per sample.

`plan` lays out memory, `emitter` writes the code of a program, with `code` for one function, `instructions` for one line
and `text` for types; `vector_math` has the elementary functions, `machine` compiles, `handler` is what XLA calls, `backend`
what programs call.
"""
