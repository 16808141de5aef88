"""Batches, jit and float32: a batch is its samples, a bad sample stays alone, numbers can change without a new trace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from planar_catalogue import CATALOGUE, TIMES, quick_jit

ENTRY = CATALOGUE["Distance"]
START = tuple(ENTRY.start()["first"]) + tuple(ENTRY.start()["second"])
DESIGNS = {
    "point_i": jnp.array([[0.6, 0.3], [0.5, 0.3], [0.6, 0.2], [0.7, 0.4]]),
    "point_j": jnp.array([[-0.5, 0.2], [-0.4, 0.2], [-0.5, 0.1], [-0.6, 0.0]]),
    "distance": jnp.array([1.4, 1.5, 1.3, 1.6]),
}
COUNT = 4


def design(k):
    return jax.tree.map(lambda x: x[k], DESIGNS)


def motion(b, times=TIMES, guess=START):
    """(q, v, a) stacked, and the status."""
    result = mbs.kinematics(ENTRY.build(b), times, jnp.asarray(guess))
    return jnp.stack([result.q, result.v, result.a]), result.status


@pytest.fixture(scope="module")
def one_by_one():
    """Every design on its own."""
    single = quick_jit(motion)
    samples = [single(design(k)) for k in range(COUNT)]
    states, status = (np.stack([np.asarray(sample[part]) for sample in samples]) for part in (0, 1))
    assert np.all(status == mbs.Status.CONVERGED)
    assert np.ptp(states[:, 0, 0, 4]) > 0.1, "the designs should differ"
    return states


def assert_same(got, expected):
    """Equal up to rounding: the compiler orders the operations of a batch in its own way."""
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13 * np.max(np.abs(expected)))


def test_batch_is_its_samples(one_by_one):
    states, status = quick_jit(jax.vmap(motion))(DESIGNS)
    assert_same(states, one_by_one)
    assert np.all(status == mbs.Status.CONVERGED)
    assert status.shape == (COUNT, len(TIMES))


def test_batch_of_one_is_no_batch(one_by_one):
    states, status = quick_jit(jax.vmap(motion))(jax.tree.map(lambda x: x[2:3], DESIGNS))
    assert status.shape == (1, len(TIMES))
    assert_same(states[0], one_by_one[2])


def test_batch_along_the_second_axis(one_by_one):
    axes = {"point_i": 1, "point_j": 1, "distance": 0}
    designs = {name: jnp.moveaxis(x, 0, axes[name]) for name, x in DESIGNS.items()}
    states, _ = quick_jit(jax.vmap(motion, in_axes=(axes,), out_axes=1))(designs)
    assert_same(jnp.moveaxis(states, 1, 0), one_by_one)


def test_nested_batches(one_by_one):
    # Lengths vary in the inner batch, points in the outer one.
    inner = jax.vmap(motion, in_axes=({"point_i": None, "point_j": None, "distance": 0},))
    states, _ = quick_jit(jax.vmap(inner, in_axes=({"point_i": 0, "point_j": 0, "distance": None},)))(DESIGNS)
    assert states.shape == (COUNT, COUNT, *one_by_one.shape[1:])
    assert_same(states[np.arange(COUNT), np.arange(COUNT)], one_by_one)
    assert not np.allclose(states[0, 1], states[1, 0])


def test_batch_of_mechanisms(one_by_one):
    # A mechanism is a pytree: a batch of them can be built first, and everything mapped over it.
    mechanisms = jax.vmap(ENTRY.build)(DESIGNS)
    assert mechanisms.constraints["element"].point_i.shape == (COUNT, 2)

    @quick_jit
    @jax.vmap
    def run(mech):
        result = mbs.kinematics(mech, TIMES, START)
        tip = result.point("second", (0.5, 0.0))
        return jnp.stack([result.q, result.v, result.a]), tip, result

    states, tip, trajectory = run(mechanisms)
    assert_same(states, one_by_one)
    # The batched trajectory has one axis more everywhere.
    assert_same(trajectory.point("second", (0.5, 0.0)), tip)
    assert trajectory.position("second.phi").shape == (COUNT, len(TIMES))


def test_without_jit(one_by_one):
    states, status = motion(design(1))
    assert_same(states, one_by_one[1])
    assert np.all(status == mbs.Status.CONVERGED)


def test_functions_of_a_configuration_are_the_same_with_and_without_jit():
    mech = ENTRY.build(design(0))
    q, v, t = jnp.asarray(START), jnp.linspace(-1, 1, len(START)), 0.2

    def values(mech, q, v, t):
        return {
            "constraints": mbs.constraints(mech, q, t),
            "velocity_rhs": mbs.velocity_rhs(mech, q, t),
            "energy": mbs.energy(mech, q, v),
            "assemble": mbs.assemble(mech, q, t),
            "point": mech.point(q, "second", (0.3, 0.1)),
        }

    compiled, plain = jax.tree.leaves(quick_jit(values)(mech, q, v, t)), jax.tree.leaves(values(mech, q, v, t))
    assert len(compiled) == len(plain) == 10
    for got, expected in zip(compiled, plain, strict=True):
        assert got.shape == expected.shape
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13 * max(1.0, np.max(np.abs(expected))))


GOOD, BAD_POINT, APART, BAD_TIME, BAD_GUESS, LAST = range(6)
EXPECTED_STATUS = [
    mbs.Status.CONVERGED,
    mbs.Status.NON_FINITE,
    mbs.Status.NOT_ASSEMBLED,
    mbs.Status.NON_FINITE,
    mbs.Status.NON_FINITE,
    mbs.Status.CONVERGED,
]


def six_samples(spoilt):
    """(designs, times, guesses) of six samples; four of them cannot be computed if `spoilt`."""
    points_i, points_j = np.tile([0.6, 0.3], (6, 1)), np.tile([-0.5, 0.2], (6, 1))
    distances, times, guesses = np.linspace(1.3, 1.6, 6), np.tile(TIMES, (6, 1)), np.tile(START, (6, 1))
    if spoilt:
        points_i[BAD_POINT, 0] = np.nan
        distances[APART] = 0.1
        times[BAD_TIME, 1] = np.nan
        guesses[BAD_GUESS, 3] = np.inf
    return {"point_i": points_i, "point_j": points_j, "distance": distances}, times, guesses


def loss(designs, times, guesses):
    """A sum over all samples, with what it is the sum of."""

    def of_sample(b, times, guess):
        states, status = motion(b, times, guess)
        assembly = mbs.assemble(ENTRY.build(b), guess, times[0])
        return jnp.sum(states**2) + jnp.sum(assembly.q), (states, status, assembly)

    values, outcome = jax.vmap(of_sample)(designs, times, guesses)
    return jnp.sum(values), outcome


@pytest.fixture(scope="module")
def with_bad_samples():
    """Gradient, states, status and assembly of the samples, first all good, then with four spoilt."""
    run = quick_jit(jax.grad(loss, argnums=(0, 1), has_aux=True))
    return [jax.tree.map(np.asarray, run(*six_samples(spoilt))) for spoilt in (False, True)]


def test_each_sample_has_its_own_status(with_bad_samples):
    (_, (_, healthy, _)), (_, (_, status, assembly)) = with_bad_samples
    assert np.all(healthy == mbs.Status.CONVERGED)
    np.testing.assert_array_equal(status, np.array(EXPECTED_STATUS)[:, None] * np.ones(len(TIMES), int))
    # The assembly uses the first time only, which is good everywhere.
    expected = np.array(EXPECTED_STATUS)
    expected[BAD_TIME] = mbs.Status.CONVERGED
    np.testing.assert_array_equal(assembly.status, expected)
    assert assembly.residual[APART] > 1e-3
    assert assembly.residual[GOOD] < 1e-12


def test_bad_samples_leave_their_neighbours_alone(with_bad_samples):
    healthy, spoilt = with_bad_samples
    # All outcomes, values and gradients, bit for bit.
    for before, after in zip(jax.tree.leaves(healthy), jax.tree.leaves(spoilt), strict=True):
        for k in (GOOD, LAST):
            np.testing.assert_array_equal(before[k], after[k])


def test_bad_samples_have_finite_values_and_no_gradient(with_bad_samples):
    gradient, (states, _, assembly) = with_bad_samples[1]
    assert np.all(np.isfinite(states))
    assert np.all(np.isfinite(assembly.q))
    for of_number in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(of_number))
        np.testing.assert_array_equal(of_number[[BAD_POINT, APART, BAD_GUESS]], 0.0)
        assert np.all(np.any(of_number[[GOOD, LAST]] != 0, axis=-1))


def dtypes(tree):
    return {leaf.dtype for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)}


def test_float32_mechanism_gives_float32(one_by_one):
    mech = ENTRY.build(design(0)).astype(jnp.float32)
    times, guess = np.asarray(TIMES, np.float32), np.asarray(START, np.float32)
    result = quick_jit(mbs.kinematics)(mech, times, guess)
    assert dtypes(mech) == dtypes(result) == {jnp.dtype(jnp.float32)}
    assert np.all(result.status == mbs.Status.CONVERGED)
    states = np.stack([result.q, result.v, result.a])
    np.testing.assert_allclose(states, one_by_one[0], rtol=0, atol=100 * 2.0**-24 * np.max(np.abs(one_by_one[0])))


def test_without_x64_all_is_float32(one_by_one):
    with jax.enable_x64(False):
        b = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), design(0))

        def positions(b):
            result = mbs.kinematics(ENTRY.build(b), TIMES, START)
            return result.q, result

        gradient, result = quick_jit(jax.jacrev(positions, has_aux=True))(b)
    assert dtypes(b) == dtypes((gradient, result)) == {jnp.dtype(jnp.float32)}
    assert np.all(np.asarray(result.status) == mbs.Status.CONVERGED)
    size = np.max(np.abs(one_by_one[0]))
    np.testing.assert_allclose(result.q, one_by_one[0, 0], rtol=0, atol=100 * 2.0**-24 * size)
    exact = quick_jit(jax.jacrev(lambda b: motion(b)[0][0]))(design(0))
    for got, expected in zip(jax.tree.leaves(gradient), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1000 * 2.0**-24 * np.max(np.abs(expected)))


def test_new_numbers_do_not_trace_again():
    traces = []

    def lift(amplitude, t):
        traces.append(1)
        return amplitude * jnp.sin(t)

    def mechanism(height, amplitude):
        return mbs.Mechanism(
            {"slider": planar.Body(mass=height)},
            {
                "guide": planar.RelativeX("ground", "slider", (0, height), (0, 0)),
                "flat": planar.RelativeAngle("ground", "slider"),
            },
            {"lift": planar.AbsoluteYDriver("slider", (0, height), mbs.motion.Function(tree(lift, amplitude)))},
        )

    tree = jax.tree_util.Partial
    heights = []
    for height, amplitude, start in ((0.1, 0.5, 0.0), (0.2, 0.7, 0.3), (0.3, 0.1, 1.0)):
        mech = mechanism(height, jnp.asarray(amplitude))
        times = start + np.arange(3) / 10
        heights.append(mbs.kinematics(mech, times).q[:, 1])
        heights.append(mbs.assemble(mech, {"slider.phi": start / 10}, start).q[1])
        np.testing.assert_allclose(heights[-2], amplitude * np.sin(times) - height, atol=1e-14)
        np.testing.assert_allclose(heights[-1], amplitude * np.sin(start) - height, atol=1e-14)
        if start == 0.0:
            count = len(traces)
    assert count > 0
    assert len(traces) == count
