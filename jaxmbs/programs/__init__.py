"""Straight-line programs: functions of small arrays as graphs of scalars, emitted as vector code for the platform.

`tracing` makes a graph of a JAX function, `derivatives` make another graph of it, `backends` code. `primitive` makes a
program a JAX primitive with batches and derivatives. `function` is the front door. `store` keeps what was made on disk.
`jax_compat` holds what has to be known of JAX's internals.
"""
