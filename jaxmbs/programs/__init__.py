"""Straight-line programs: functions of small arrays as graphs of scalars, emitted as vector code for the platform.

`tracing` makes a graph of a JAX function, `backends` make code of it. `primitive` makes a program a JAX primitive with
batches and derivatives, for which `reverse` goes back through loops. `function` is the front door. `jax_compat` holds what
has to be known of JAX's internals.
"""
