"""Functions whose programs hold all operations, decisions, loops and a mechanism, for tests of programs as source code."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxmbs as mbs
from jaxmbs.programs import OPERATIONS
from linkages import slider_crank

# Values of a table, which `loops` interpolates.
TABLE = np.linspace(-3.0, 3.0, 23) ** 3


def elementary(x, y):
    """All operations of the table on one and two real numbers, each where it is defined and where not."""
    logic = {"and", "or", "xor", "not", "select", "idiv", "irem", "real", "integer"}
    real = {name: f.xla for name, f in OPERATIONS.items() if name not in logic}
    count = {name: OPERATIONS[name].javascript and "{1}" in OPERATIONS[name].javascript for name in real}
    found = [f(x, y) if count[name] else f(x) for name, f in real.items()]
    found += [jnp.remainder(x, y), 3 - x, x - 3, x * y - y, x**-3 + 2.5 * y]
    return jnp.stack([jnp.asarray(z, x.dtype) for z in found])


def decisions(x, y):
    """Steps, comparisons, logic, integers."""
    a, b = jnp.trunc(5 * x).astype(int), jnp.round(y).astype(int)
    truths = [
        x < y,
        x <= y,
        x > y,
        x >= y,
        x == y,
        x != y,
        (x > 0) & (y > 0),
        (x > 0) | (y > 0),
        (x > 0) ^ (y > 0),
        ~(x > 1),
    ]
    whole = [
        a + b,
        a - b,
        a * b,
        -a,
        jnp.abs(a),
        jnp.where(b == 0, a, a // b),
        lax.rem(a, 7 * b + 1),
        lax.div(a, 7 * b + 1),
    ]
    steps = [
        jnp.floor(x),
        jnp.ceil(x),
        jnp.round(x),
        jnp.round(jnp.floor(x) + 0.5),
        jnp.where(x > y, x, 2 * y),
        1 / (a + 0.5),
    ]
    return jnp.stack(truths), jnp.stack(whole), jnp.stack(steps)


def loops(x, y):
    """Rows both ways, a loop in a loop and its derivative, values that change places, early ends, tables, a solution."""
    z = jnp.stack([x, y, x * y])
    z = jnp.linalg.solve(jnp.outer(z, z) + jnp.diag(2 + jnp.abs(z)), jnp.sin(z))
    z, rows = lax.scan(lambda c, u: (0.9 * c + u * jnp.cos(c), (c.sum(), c > 0)), z, jnp.arange(40) * 0.01)
    back = lax.scan(lambda c, row: (0.5 * c + row, c), 0.0, rows[0], reverse=True)
    swapped = lax.fori_loop(0, 21, lambda k, s: (s[1], s[0], s[2] + k * s[0]), (x, y, 0.0))
    count, size = lax.while_loop(
        lambda s: (s[0] < 30) & (s[1] > 0.1), lambda s: (s[0] + 1, 0.7 * s[1]), (0, jnp.abs(x))
    )
    inner = lambda k, s: lax.scan(lambda c, u: (jnp.sin(c + u), c), s, jnp.arange(20) * 0.1)[1][k % 20]
    nested = lambda x: lax.fori_loop(0, 25, inner, x)
    table = jnp.interp(x, TABLE, TABLE**2)
    return rows, back, swapped, count, size, nested(x), jax.jacfwd(nested)(x), table, jnp.argmax(z)


def turned(crank, rod, offset):
    """A slider-crank over a turn by Newton's method, with its statuses: of random ones many lock up or do not close."""
    mech = slider_crank({"crank": crank, "rod": rod, "offset": offset})
    guess = {"crank": (0, 0, 0), "rod": (crank, 0, 0), "slider": (crank + rod, offset, 0)}
    motion = mbs.kinematics(mech, ANGLES, guess)
    return {"q": motion.q, "v": motion.v, "status": motion.status}


# Crank angles of `turned` in radians.
ANGLES = np.linspace(0.0, 2 * np.pi, 25)
