"""Samples that take many more rounds than their neighbours: the same results, and no vector that waits for them."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs

LOOPS = 6


def rounds_of_loops(x, counts):
    """Loops one after another and within each other, each with a count of rounds of its own."""
    total = jnp.zeros((), x.dtype)
    for k in range(LOOPS):

        def inner(carry, k=k):
            i, y = carry
            return i + 1, jnp.cos(y) + x / (2 + k)

        def outer(carry, inner=inner, k=k):
            i, y = carry
            y = jax.lax.while_loop(lambda c: (c[0] < 300) & (c[0] < counts[k]), inner, (0, y))[1]
            return i + 1, y / 2

        y = jax.lax.while_loop(lambda c, k=k: (c[0] < 40) & (c[0] * 30 < counts[k]), outer, (0, x + k))[1]
        total += y
    return total


def expected(x, counts):
    """The same in NumPy, sample by sample, in its order of operations."""
    total = np.zeros((), x.dtype)
    for k in range(LOOPS):
        y, i = x + x.dtype.type(k), 0
        while i < 40 and i * 30 < counts[k]:
            for _ in range(min(300, counts[k])):
                y = np.cos(y) + x / x.dtype.type(2 + k)
            y, i = y / 2, i + 1
        total = total + y
    return total


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_sample_has_its_own_result(dtype):
    """For batches of any length, whoever is slow, and whatever order they come in: to the bit."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 6, (150, LOOPS)) * np.where(rng.random((150, LOOPS)) < 0.1, 60, 1)
    x = rng.uniform(0.1, 1.0, 150).astype(dtype)
    run = jax.jit(jax.vmap(mbs.program(rounds_of_loops)))
    whole = np.asarray(run(x, counts))
    wanted = np.array([expected(a, n) for a, n in zip(x, counts, strict=True)])
    np.testing.assert_allclose(whole, wanted, rtol=50 * np.finfo(dtype).eps)
    for size in (2, 3, 8, 13, 37):
        np.testing.assert_array_equal(np.asarray(run(x[:size], counts[:size])), whole[:size])
    order = rng.permutation(150)
    np.testing.assert_array_equal(np.asarray(run(x[order], counts[order])), whole[order])


def flat(x, count):
    """So many rounds."""
    step = lambda c: (c[0] + 1, jnp.sin(c[1]) + jnp.cos(x * c[1]) / jnp.sqrt(1 + c[1] ** 2))
    return jax.lax.while_loop(lambda c: (c[0] < 300) & (c[0] < count), step, (0, x))[1]


def nested(x, count):
    """So many rounds, in each of them six of a loop inside."""
    inner = lambda c: (c[0] + 1, jnp.sin(c[1]) + jnp.cos(x * c[1]) / jnp.sqrt(1 + c[1] ** 2))
    step = lambda c: (c[0] + 1, jax.lax.while_loop(lambda c: (c[0] < 6) & (c[1] < 1e9), inner, (0, c[1]))[1])
    return jax.lax.while_loop(lambda c: (c[0] < 300) & (c[0] < count), step, (0, x))[1]


@pytest.mark.parametrize("function", [flat, nested])
def test_few_slow_samples_do_not_hold_the_others(function):
    """One sample in eight takes 300 rounds, the others 3: mixed they take no more than twice the time of sorted ones."""
    rng = np.random.default_rng(0)
    counts = np.where(np.arange(8192) % 8 == 0, 300, 3)
    x = rng.uniform(size=counts.size)
    run = jax.jit(jax.vmap(mbs.program(function)))

    def seconds(counts):
        begin = time.process_time()
        jax.block_until_ready(run(x, counts))
        return time.process_time() - begin

    seconds(counts)
    # Other processes of the machine only add time: the least of several runs is that of the program.
    mixed, together = zip(*((seconds(counts), seconds(np.sort(counts))) for _ in range(7)), strict=True)
    assert min(mixed) < 2 * min(together)  # without setting them aside it is 7
