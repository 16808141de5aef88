"""Ten thousand random four-bars: every status is the one that the closed form gives, and gradients stay finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from linkages import four_bar, four_bar_guess

START = 0.4


def random_designs(count, seed):
    lengths = np.random.default_rng(seed).uniform(0.2, 3.0, (4, count))
    return {name: jnp.asarray(row) for name, row in zip(("crank", "coupler", "rocker", "ground"), lengths, strict=True)}


def reachable(b, angles):
    """Angles that the crank can reach from angles[0]: A and O4 must stay between |b − c| and b + c apart all the way."""
    a, b, c, d = (np.asarray(b[name])[:, None] for name in ("crank", "coupler", "rocker", "ground"))
    turned, start = angles[None, :], angles[0]
    nearest, farthest = np.maximum(np.cos(start), np.cos(turned)), np.minimum(np.cos(start), np.cos(turned))
    nearest = np.where(turned >= 2 * np.pi, 1.0, nearest)
    farthest = np.where(turned >= np.pi, -1.0, farthest)
    closest = a**2 + d**2 - 2 * a * d * nearest
    widest = a**2 + d**2 - 2 * a * d * farthest
    return (closest >= (b - c) ** 2) & (widest <= (b + c) ** 2)


def turn(b, angles):
    motion = mbs.kinematics(four_bar(b), angles, four_bar_guess(b, START))
    return motion.q, motion.v, motion.a, motion.status


@pytest.mark.parametrize(
    ("count", "steps", "seed"),
    [(1000, 25, 1), pytest.param(10_000, 73, 0, marks=pytest.mark.slow)],
)
def test_statuses_agree_with_grashof_and_circuit(count, steps, seed):
    designs = random_designs(count, seed)
    angles = START + np.linspace(0, 2 * np.pi, steps)
    possible = reachable(designs, angles)
    assert 0.1 < possible[:, -1].mean() < 0.4
    q, v, a, status = jax.jit(jax.vmap(lambda b: turn(b, jnp.asarray(angles))))(designs)
    status = np.asarray(status)

    np.testing.assert_array_equal(status == mbs.Status.CONVERGED, possible)
    assembled = possible[:, 0]
    assert np.all(status[~assembled] == mbs.Status.NOT_ASSEMBLED)
    assert np.all(status[assembled][~possible[assembled]] == mbs.Status.LOCKED_UP)
    for values in (q, v, a):
        assert np.all(np.isfinite(values))
    # One circuit, one branch: the side of the coupler on which the rocker is never changes.
    side = np.sign(np.sin(q[:, :, 5] - q[:, :, 8]))
    assert np.all((side == side[:, :1]) | ~possible)
    # A locked sample keeps the last good configuration.
    last = np.maximum(possible.sum(axis=1) - 1, 0)
    held = q[np.arange(count), last]
    np.testing.assert_array_equal(np.asarray(q[:, -1])[assembled], np.asarray(held)[assembled])


def test_gradient_of_the_assembled_ones_is_finite_and_zero_for_the_others():
    designs = random_designs(1000, 1)
    angles = START + np.linspace(0, 2 * np.pi, 25)
    possible = reachable(designs, angles)

    def mean_error(b):
        q, _, _, status = jax.vmap(lambda b: turn(b, jnp.asarray(angles)))(b)
        good = status == mbs.Status.CONVERGED
        tip = q[:, :, 3:5] - 1
        return jnp.sum(jnp.where(good[..., None], tip**2, 0)) / jnp.sum(good)

    gradient = jax.jit(jax.grad(mean_error))(designs)
    for of_length in gradient.values():
        assert np.all(np.isfinite(of_length))
        assert np.all(of_length[~possible[:, 0]] == 0)
        assert np.all(of_length[possible[:, -1]] != 0)
