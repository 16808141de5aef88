"""Small dense linear systems, with their derivatives.

`primitives` are JAX's view of factorisation and solution, `array_code` computes them with arrays, `elimination` and `rules`
in graphs of scalars.
"""
