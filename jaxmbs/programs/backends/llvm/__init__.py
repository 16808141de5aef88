"""LLVM's text of programs, for the backends that compile by LLVM.

`emitter` writes the functions of a program, line by line by `code` and `instructions`, as `plan` has planned them;
`text` knows LLVM's syntax; `elementary`, `vector_math` and `exponentials` are a mathematical library for vectors; `ffi`
and `layout` know XLA's interface for foreign functions.
"""
