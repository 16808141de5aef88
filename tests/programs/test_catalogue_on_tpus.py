"""Every element by the kernel of a TPU, interpreted on this processor: float32 beside float64, statuses equal.

The bound of each result is some roundings of its size, and what rounding the numbers of the problem does to it.
"""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs.programs.runtime import primitive
from planar_catalogue import CATALOGUE
from random_mechanisms import KINDS, random_tree

EPS = float(np.finfo(np.float32).eps)
ROUNDINGS = 10
SAMPLES = 7
TIMES = np.array([0.2, 0.3])


def assert_within_roundings(f, numbers):
    """f(numbers, dtype) → real results and a status: in float32 by a kernel as in float64, for a batch of numbers."""
    rng = np.random.default_rng(1)
    exact = jax.jit(jax.vmap(lambda numbers: f(numbers, np.float64)))
    numbers = jax.tree.map(lambda x: np.asarray(x, np.float32).astype(float), numbers)
    rounded = jax.tree.map(lambda x: x * (1 + EPS * rng.choice([-1, 1], x.shape)), numbers)
    (expected, status), (moved, _) = jax.tree.map(np.asarray, (exact(numbers), exact(rounded)))
    with primitive.emission("tpu-on-host"):
        single = jax.tree.map(np.float32, numbers)
        found, found_status = jax.jit(jax.vmap(lambda numbers: f(numbers, np.float32)))(single)
    np.testing.assert_array_equal(found_status, status)
    for a, b, c in zip(found, expected, moved, strict=True):
        assert a.dtype == np.float32
        # If all terms cancel, they still have a size of about 1.
        bound = ROUNDINGS * (EPS * np.abs(b).max(initial=1) + np.abs(c - b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=0, atol=bound)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CATALOGUE)
def test_kinematics_of_planar_elements(name):
    """Positions, velocities and accelerations for elements whose numbers differ by 1 %."""
    entry = CATALOGUE[name]
    rng = np.random.default_rng(1)

    def motion(b, dtype):
        run = mbs.kinematics(entry.build(b).astype(dtype), TIMES.astype(dtype), entry.start())
        return (run.q, run.v, run.a), run.status

    vary = lambda x: np.asarray(x) * (1 + 0.01 * rng.uniform(-1, 1, (SAMPLES, *np.shape(x))))
    assert_within_roundings(motion, jax.tree.map(vary, entry.b))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", KINDS[3])
def test_equations_of_spatial_elements(kind):
    """Two bodies that hang on joints of one kind, with different velocities: Φ, Φ_q, γ and the sum of all forces."""
    mech, q = random_tree(np.random.default_rng(zlib.crc32(kind.encode())), 2, kinds=(kind,))

    def equations(state, dtype):
        given, (q, v) = mech.astype(dtype), state
        at_rest = mbs.constraints(given, q), mbs.constraint_jacobian(given, q)
        return (*at_rest, mbs.acceleration_rhs(given, q, v), mbs.generalized_force(given, q, v)), jnp.zeros((), int)

    v = np.random.default_rng(2).normal(size=(SAMPLES, mech.layout.m))
    assert_within_roundings(equations, (np.repeat(np.asarray(q)[None], SAMPLES, 0), v))
