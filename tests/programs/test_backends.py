"""Backends: which one runs a program, and that a new one needs no more than its class and its name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs.programs import backends
from jaxmbs.programs.backends.backend import AbstractBackend
from jaxmbs.programs.backends.xla import ElementwiseXLA
from jaxmbs.programs.runtime import primitive


class Counting(AbstractBackend):
    """XLA that remembers for which programs, batches and platforms it was asked."""

    def __init__(self):
        self.asked = []

    def takes(self, platform):
        return platform == "cpu"

    def lower(self, program, batch, args, platform):
        self.asked.append((program.name, batch, platform))
        return ElementwiseXLA().lower(program, batch, args, platform)

    def explain(self):
        return "counted"


def test_a_new_backend_runs_programs_and_their_derivatives(monkeypatch):
    counting = Counting()
    monkeypatch.setitem(backends.EMISSIONS, "counting", (counting, *backends.EMISSIONS["xla"]))
    f = lambda x: jnp.sin(x[0]) * x
    program = mbs.program(f)
    x = jnp.array([[0.3, 1.0], [0.5, -2.0], [0.7, 0.1]])
    with primitive.emission("counting"):
        values = jax.jit(jax.vmap(program))(x)
        jacobians = jax.jit(jax.vmap(jax.jacrev(program)))(x)
    np.testing.assert_allclose(values, jax.vmap(f)(x), rtol=1e-14)
    np.testing.assert_allclose(jacobians, jax.vmap(jax.jacrev(f))(x), rtol=1e-14)
    assert len(counting.asked) >= 2
    assert all(batch[0] == 3 and platform == "cpu" for _, batch, platform in counting.asked)


@pytest.mark.parametrize("platform", ["rocm", "other"])
def test_what_no_backend_of_its_own_takes_runs_by_xla(platform):
    assert backends.backend_for("llvm", platform).explain() == "straight-line, XLA"


@pytest.mark.parametrize("emission", ["xla", "tpu-on-host"])
def test_decisions_are_made_once(emission):
    """Fusions that compare rounded numbers, each for itself, would exchange rows in one place and not in another."""
    program = mbs.program(jnp.linalg.solve)
    matrix, rhs = np.ones((8, 4, 4), np.float32), np.ones((8, 4), np.float32)
    comparisons = program.trace(matrix[0], rhs[0]).operations["gt"]
    assert comparisons == 6
    with primitive.emission(emission):
        lower = jax.jit(jax.vmap(program)).trace(matrix, rhs).lower
        assert lower().compile().as_text().count("direction=GT") == comparisons
        if emission == "xla":
            elsewhere = lower(lowering_platforms=("rocm",)).as_text()
            assert elsewhere.count("optimization_barrier") == comparisons


def test_an_emission_that_does_not_exist_is_named():
    message = f"must be one of {', '.join(map(repr, backends.EMISSIONS))}, got 'cuda'"
    with pytest.raises(ValueError, match=message):
        backends.backend_for("cuda", "cpu")
    with (
        pytest.raises(ValueError, match=message),
        primitive.emission("cuda"),
    ):
        pass


def test_each_platform_has_one_foreign_call():
    """On a machine without a GPU, too: the text for CUDA has one call of a kernel, that for CPUs one of machine code."""
    f = jax.jit(jax.vmap(mbs.program(lambda x: jnp.sin(x) @ x)))
    lowered = lambda platform: f.trace(jnp.ones((4, 3))).lower(lowering_platforms=(platform,)).as_text()
    calls = {"cuda": "custom_call @jaxmbs_gpu_80_", "cpu": "custom_call @jaxmbs_"}
    with primitive.emission("llvm"):
        for platform, call in calls.items():
            assert lowered(platform).count(call) == lowered(platform).count("custom_call") == 1
        assert "custom_call" not in lowered("tpu")
