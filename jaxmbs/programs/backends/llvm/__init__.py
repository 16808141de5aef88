"""Programs as LLVM's text, for whatever processor: what the backends that compile by LLVM have in common.

`plan` lays out memory, `emitter` writes the functions of a program, with `code` for one function, `instructions` for one
line and `text` for types; `vector_math` and `elementary` have the elementary functions, `ffi` XLA's interface, whose
layout in memory `layout` reads from its header.
"""
