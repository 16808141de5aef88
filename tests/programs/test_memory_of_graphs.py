"""Graphs are let go of when they are too large in all, and are made again where they are needed again."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import JaxprEqn

import jaxmbs as mbs
from jaxmbs.programs.graph.nodes import Node
from jaxmbs.programs.runtime import tuning


def swing(weight):
    """A function with a loop whose states are kept for the way back, and a linear system in each round."""

    def f(x):
        def step(_, y):
            matrix = jnp.outer(y, y) + weight * jnp.eye(3)
            return y + 0.1 * jnp.linalg.solve(matrix, jnp.sin(y) + x)

        return jnp.sum(jax.lax.fori_loop(0, 20, step, x) ** 2)

    return f


def alive(kind: type = Node) -> int:
    # A first search frees what was kept by objects with a finalizer only.
    gc.collect()
    gc.collect()
    return sum(isinstance(x, kind) for x in gc.get_objects())


def test_old_graphs_go(monkeypatch):
    """Ten functions and their gradients have no more nodes than one or two; marks hold arrays, which hide from Python."""
    x, before = jnp.array([0.3, -0.2, 0.5]), alive()
    value_and_grad = lambda weight: jax.value_and_grad(mbs.program(swing(weight)))(x)
    kept = [value_and_grad(1.0)]
    one = alive() - before
    assert one > 100
    monkeypatch.setattr(tuning, "MAX_KEPT_NODES", one)
    monkeypatch.setattr(tuning, "MIN_KEPT_GRAPHS", 3)
    kept += [value_and_grad(1.0 + k / 10) for k in range(1, 10)]
    assert alive() - before < 2 * one
    for k, (value, slope) in enumerate(kept):
        expected = jax.value_and_grad(swing(1.0 + k / 10))(x)
        np.testing.assert_allclose(value, expected[0], rtol=1e-13)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-12)


def test_nothing_is_left_of_a_function_that_is_gone():
    """JAX forgets what it has traced; the program kept no equation of it."""
    jax.clear_caches()
    x, before = jnp.array([0.3, -0.2, 0.5]), alive(JaxprEqn)
    slope = jax.jit(jax.grad(mbs.program(swing(3.0))))
    jax.block_until_ready(slope(x))
    assert alive(JaxprEqn) > before + 50
    del slope
    jax.clear_caches()
    assert alive(JaxprEqn) <= before


@pytest.mark.parametrize("order", [(jax.grad, jax.jacfwd, jax.hessian), (jax.hessian, jax.jacfwd, jax.grad)])
def test_graphs_are_made_again(monkeypatch, order):
    """Nothing is kept beside its code: every derivative, one after the other, is right."""
    for name in ("MAX_NODES_AFTER_COMPILING", "MAX_KEPT_NODES", "MIN_KEPT_GRAPHS"):
        monkeypatch.setattr(tuning, name, 0)
    x, f = jnp.array([0.3, -0.2, 0.5]), swing(2.0)
    g = mbs.program(f)
    for derivative in order:
        np.testing.assert_allclose(derivative(g)(x), derivative(f)(x), rtol=1e-11, atol=1e-12)
        several = jnp.stack([x, 2 * x])
        found = jax.jit(jax.vmap(derivative(g)))(several)
        np.testing.assert_allclose(found, jax.vmap(derivative(f))(several), rtol=1e-11, atol=1e-12)
