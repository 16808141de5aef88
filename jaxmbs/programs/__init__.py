"""Straight-line programs: functions of small arrays as graphs of scalars, emitted as vector code for the platform.

`graph` holds the scalars and folds constants (`folding`); `trace` makes a graph of a JAX function, by the `rules` of its
primitives (and those in `indexing`, `dense` and `loops`); `elimination` factors small matrices in it; `program` says what
of it is used, `listing` prints it. `llvm` (with `llvm_text` and `llvm_code`) and `xla` emit it, `vector_math` has the
elementary functions, `machine` compiles, `handler` is what XLA calls. `primitive` makes a program a JAX primitive with
batches and derivatives, for which `sharing` merges equal equations and `reverse` goes back through loops. `function` is
the front door.
"""
