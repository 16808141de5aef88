"""Orders of operations: results keep their bits, and few values are alive at once."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxmbs as mbs
from jaxmbs.programs.backends.cpu import machine
from jaxmbs.programs.graph.ordering import KNOWN_AT_START, order_with_few_values
from jaxmbs.programs.runtime import tuning

# Number of leaves of the tree of sums.
LEAVES = 256


def sum_of_sines(x):
    """Σ sin xₖ as a balanced tree, level by level."""
    sums = jnp.sin(x)
    while sums.size > 1:
        sums = sums[::2] + sums[1::2]
    return sums[0]


def most_alive(nodes, results):
    """Return the largest number of values that are alive after any node."""
    last = {x: k for k, node in enumerate(nodes) for x in node.args} | dict.fromkeys(results, len(nodes))
    alive, most = set(), 0
    for k, node in enumerate(nodes):
        alive = {x for x in [*alive, node] if last[x] > k and x.op not in KNOWN_AT_START}
        most = max(most, len(alive))
    return most


def test_a_tree_needs_as_many_registers_as_it_has_levels():
    """A balanced tree of 2ᵏ leaves needs k + 1 registers (Sethi and Ullman, J. ACM 17 (1970), 715), one less while an
    operation may overwrite an argument; level by level it needs 2ᵏ."""
    program = mbs.program(sum_of_sines).trace(jnp.ones(LEAVES))
    results = [node for result in program.results for node in result.ravel()]
    assert most_alive(program.live.nodes(program.root), results) >= LEAVES
    ordered = order_with_few_values(program.live)[program.root]
    assert sorted(x.serial for x in ordered) == sorted(x.serial for x in program.live.nodes(program.root))
    assert most_alive(ordered, results) <= np.log2(LEAVES) + 1


def test_a_loop_comes_after_the_values_that_it_uses_inside(monkeypatch):
    """Loops within loops use values of all regions around them. Results are equal to the bit with both orders."""

    def nested(x):
        """Two loops in a row, one inside, which all use sums from outside."""
        first = jnp.sin(x) * jnp.cos(x[::-1])
        inner = lambda a, k: lax.fori_loop(0, 3, lambda i, b: 0.5 * b + 0.1 * first[:40] * a[0] + k, a)
        body = lambda k, a: jnp.sin(inner(a, k) + first[40:80]) + 0.1 * jnp.tanh(jnp.sum(a * first[80:120]))
        second = lax.fori_loop(0, 4, body, first[:40])
        return lax.fori_loop(0, 2, lambda k, a: jnp.cos(a + second), first[120:160]) + jnp.exp(second)

    x = np.random.default_rng(3).normal(size=(8, 160))
    found = []
    for level in (0, 1):
        monkeypatch.setattr(machine, "optimisation_level", lambda program, total, level=level: level)
        found.append(jax.jit(jax.vmap(mbs.program(lambda x, level=level: nested(x))))(x))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], jax.vmap(nested)(x), rtol=1e-12)


def test_functions_of_a_large_region_run_one_after_the_other(monkeypatch):
    """Products at the beginning of a region are rounded with sums in functions near its end."""
    monkeypatch.setattr(tuning, "MAX_FUNCTION_NODES", 50)

    def late_sums(x):
        """Products of entries, and sums with values that take many steps."""
        products, last = x[:40] * x[40:], x[0]
        sums = []
        for k in range(40):
            last = jnp.sin(last + x[k] * x[79 - k])
            sums.append(products[39 - k] + jnp.cos(last))
        return jnp.stack(sums)

    x = np.random.default_rng(4).normal(size=(8, 80))
    found = []
    for level in (0, 1):
        monkeypatch.setattr(machine, "optimisation_level", lambda program, total, level=level: level)
        found.append(jax.jit(jax.vmap(mbs.program(lambda x, level=level: late_sums(x))))(x))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], jax.vmap(late_sums)(x), rtol=0, atol=1e-13)
