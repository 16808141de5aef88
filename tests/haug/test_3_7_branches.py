"""Haug 3.7: motions that begin at a bifurcation or change branches there; tangents by (3.7.8) to (3.7.10)."""

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from haug_singular import parallelogram, slider_crank
from jaxmbs import spatial

TIMES = np.linspace(0, 1, 6)
FLAT = parallelogram()
# Rates of crank, coupler and rocker of the flat parallelogram, with x and y: (φ₃ − φ₁) (b (φ₃ + φ₁) + a (φ₁ − φ₃)) = 0 to
# second order, a = 1, b = 2.
PARALLEL = np.array([0, 0, 1, 0, 1, 0, 0, 0, 1])
CROSSED = np.array([0, 0, 1, 0, 1, -2, 0, 0, -3])
SINGULAR_FIRST = [mbs.Status.SINGULAR] + [mbs.Status.CONVERGED] * (len(TIMES) - 1)


def perturbed_starts(flat, pattern):
    """20 guesses: the exact one, and others off by 1e-6 to 0.2 where the pattern has 1."""
    random = np.random.default_rng(3)
    sizes = np.append(0, np.geomspace(1e-6, 0.2, 19))[:, None]
    return np.asarray(flat) + sizes * random.uniform(-1, 1, (20, len(flat))) * pattern


def jitted(mech, **options):
    return jax.jit(lambda guess: mbs.kinematics(mech, TIMES, guess, **options))


@pytest.fixture(scope="module")
def starts():
    return perturbed_starts(FLAT.coordinates({"coupler": (1, 0, 0), "rocker": (2, 0, 0)}), [0, 0, 0, 0, 0, 1, 0, 0, 1])


def test_parallelogram_begins_flat_from_any_guess(starts):
    follow = jitted(FLAT)
    batch = jax.jit(jax.vmap(follow))(starts)
    for k, guess in enumerate(starts):
        runs = mbs.kinematics(FLAT, TIMES, guess), follow(guess), jax.tree.map(lambda x, k=k: x[k], batch)
        for run in runs:
            assert run.status.tolist() == SINGULAR_FIRST
            np.testing.assert_allclose(run.q[0], starts[0], atol=1e-9)
            np.testing.assert_allclose(run.v[0], PARALLEL, atol=1e-5)
            np.testing.assert_allclose(run.position("rocker.phi"), TIMES, atol=1e-9)


def test_singularities_from_any_guess(starts):
    for guess in starts:
        found = mbs.find_singularities(FLAT, TIMES, guess)
        assert found.kinds == ("bifurcation",)
        np.testing.assert_allclose(found.times, 0, atol=1e-9)
        np.testing.assert_allclose(found.tangents[0], [PARALLEL, CROSSED], atol=1e-7)


def test_crossed_branch_from_any_guess(starts):
    run = jax.jit(jax.vmap(jitted(FLAT, branch=CROSSED)))(starts)
    np.testing.assert_array_equal(run.status, [SINGULAR_FIRST] * len(starts))
    np.testing.assert_allclose(run.v[:, 0], np.tile(CROSSED, (len(starts), 1)), atol=1e-5)
    # Antiparallel: the triangles of crank, rocker and half of coupler and ground are mirror images.
    angle = run.position("rocker.phi")[:, 1:]
    assert np.all(angle < -0.1)
    pin = np.stack([np.cos(TIMES[1:]), np.sin(TIMES[1:])])
    reach = np.hypot(2 + np.cos(angle) - pin[0], np.sin(angle) - pin[1])
    np.testing.assert_allclose(reach, 2, atol=1e-12)


def test_another_branch_in_the_middle_of_a_motion():
    grid = np.linspace(0.5, 5.5, 15)
    guess = {"crank": (0, 0, 0.5), "coupler": (np.cos(0.5), np.sin(0.5), 0), "rocker": (2, 0, 0.5)}
    found = mbs.find_singularities(FLAT, grid, guess)
    crossed, parallel = found.tangents[0]
    np.testing.assert_allclose(parallel, [0, 0, 1, 0, -1, 0, 0, 0, 1], atol=1e-7)
    np.testing.assert_allclose(crossed[[5, 8]], [2 / 3, -1 / 3], atol=1e-7)
    times = np.sort(np.append(grid, found.times))
    along, through = (mbs.kinematics(FLAT, times, guess, branch=w) for w in (crossed, parallel))
    for run in (along, through):
        assert np.flatnonzero(run.status).tolist() == [8]
    np.testing.assert_allclose(through.position("rocker.phi"), times, atol=1e-9)
    np.testing.assert_allclose(along.position("rocker.phi")[:9], times[:9], atol=1e-7)
    assert along.position("rocker.phi")[-1] < np.pi
    with pytest.raises(ValueError, match="none of the times is singular"):
        mbs.kinematics(FLAT, grid, guess, branch=crossed)


def test_slider_crank_stays_on_the_axis_or_goes_on():
    mech, start = slider_crank(1.0), np.pi / 2
    upright = perturbed_starts(mech.coordinates({"crank": (0, 0, start)}), [0, 0, 0, 1, 0, 1])
    report = mbs.diagnose(mech, mbs.assemble(mech, upright[12], start).q, start)
    assert (report.rank, report.free) == (5, 1)
    np.testing.assert_allclose(report.tangents, [[0, 0, 1, 0, 0, 1], [0, 0, 1, -2, 0, -1]], atol=1e-7)
    times = start + TIMES
    follow = jax.jit(jax.vmap(lambda guess, tangent: mbs.kinematics(mech, times, guess, branch=tangent), (0, None)))
    for tangent, slope in zip((None, *report.tangents), (0, 0, 2), strict=True):
        run = follow(upright, tangent)
        np.testing.assert_array_equal(run.status, [SINGULAR_FIRST] * len(upright))
        x = np.tile(slope * np.cos(times), (len(upright), 1))
        np.testing.assert_allclose(run.position("coupler.x"), x, atol=1e-9)


@pytest.mark.slow
def test_parallelogram_in_space_with_a_redundant_row():
    hinge = lambda i, j, p, s: spatial.Revolute(i, j, (p, 0, 0), (s, 0, 0), axis_i=(0, 0, 1))
    mech = mbs.Mechanism(
        {name: spatial.Body() for name in ("crank", "coupler", "rocker")},
        {
            "O": hinge("ground", "crank", 0, 0),
            "A": hinge("crank", "coupler", 1, 0),
            "B": spatial.Spherical("coupler", "rocker", (2, 0, 0), (1, 0, 0)),
            "C": hinge("ground", "rocker", 2, 0),
        },
        {"motor": spatial.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0), axis_i=(0, 0, 1))},
    )
    at = {"coupler": spatial.coordinates((1, 0, 0)), "rocker": spatial.coordinates((2, 0, 0))}
    flat = perturbed_starts(mech.coordinates(at), np.tile([0, 0, 0, 0, 1, 1, 1], 3))
    tangents = mbs.diagnose(mech, flat[0]).tangents
    places = [mech.layout.velocity_index(name) for name in ("crank.wz", "coupler.y", "coupler.wz", "rocker.wz")]
    np.testing.assert_allclose(tangents[:, places], [[1, 1, 0, 1], [1, 1, -2, -3]], atol=1e-6)
    for guess in flat[::3]:
        run = mbs.kinematics(mech, TIMES, guess)
        assert run.status.tolist() == SINGULAR_FIRST
        np.testing.assert_allclose(run.velocity("rocker.wz")[0], 1, atol=1e-5)
    run = mbs.kinematics(mech, TIMES, flat[7], branch=tangents[1])
    assert run.status.tolist() == SINGULAR_FIRST
    np.testing.assert_allclose(run.velocity("rocker.wz")[0], -3, atol=1e-5)
