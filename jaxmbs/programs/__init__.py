"""Straight-line programs: functions of small arrays as graphs of scalars, emitted as vector code for the platform.

`graph` holds the scalars and folds constants, `trace` makes a graph of a JAX function, `elimination` factors small
matrices in it, `liveness` says what of it is used, `listing` prints it; `llvm` and `xla` emit it, `vector_math` has the
elementary functions, `handler` calls machine code from XLA; `primitive` makes a program a JAX primitive with batches and
derivatives, and `function` is the front door.
"""
