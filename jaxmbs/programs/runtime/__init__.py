"""The connection of programs with JAX and with the disk.

`primitive` makes a program a JAX primitive with batches and derivatives, `sharding` divides batches among devices, `store`
keeps code and facts on disk, found by the digests of `content`, `tuning` holds all limits and thresholds, and `jax_compat`
everything that is assumed about JAX's internals.
"""
