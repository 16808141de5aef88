"""A program with each kind of loop, for kernels."""

import jax.numpy as jnp
from jax import lax

import jaxmbs as mbs


def rows(x, matrix):
    """Rows that a loop writes and another reads backwards, a loop that ends early, a solution, elementary functions."""
    z = jnp.linalg.solve(matrix, jnp.sin(x))
    z, states = lax.scan(lambda c, u: (0.9 * c + u * jnp.tanh(c), c), z, jnp.arange(40, dtype=x.dtype) * 0.01)
    back, sums = lax.scan(lambda c, s: (c + s @ s, c), jnp.zeros((), x.dtype), states, reverse=True)
    count, size = lax.while_loop(lambda s: (s[0] < 20) & (s[1] > 0.1), lambda s: (s[0] + 1, 0.7 * s[1]), (0, abs(z[0])))
    return jnp.where(z > x, z, x), states, sums, back, count, size, jnp.argmax(z), z[0] > 0


ROWS = mbs.program(rows)
