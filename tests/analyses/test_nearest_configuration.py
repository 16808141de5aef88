"""Assembled configurations are the nearest to the guess, and their derivatives are exact."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from random_mechanisms import random_closed, random_tree, stacked

SAMPLES = 25
STEP = 1e-5


def four_bar(b):
    rod = lambda length: planar.Body(mass=length, inertia=length**3 / 12)
    return mbs.Mechanism(
        {name: rod(b[name]) for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (-b["crank"] / 2, 0)),
            "A": planar.Revolute("crank", "coupler", (b["crank"] / 2, 0), (-b["coupler"] / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (b["coupler"] / 2, 0), (b["rocker"] / 2, 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (-b["rocker"] / 2, 0)),
        },
        forces={"gravity": mbs.Gravity((0, -9.81))},
    )


def ball_and_hinge(b):
    body = spatial.Body(mass=b["m"], inertia=jnp.diag(jnp.array([1.0, 2.0, 2.5])), com=(0.1, 0.2, 0.3))
    return mbs.Mechanism(
        {"arm": body, "hand": body},
        {
            "ball": spatial.Spherical("ground", "arm", (0, 0, b["height"]), (-b["arm"], 0, 0)),
            "hinge": spatial.Revolute("arm", "hand", (b["arm"], 0.1, 0), (0, -b["hand"], 0), axis_i=(0.3, 1, 0.2)),
        },
        forces={"gravity": mbs.Gravity((0, 0, -9.81))},
    )


LENGTHS = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}
ROUGH = np.array([0.5, 0, 0, 2, 1, 1, 3, 1, 2])
SPATIAL = {"height": 0.5, "arm": 1.0, "hand": 0.7, "m": 1.3}
ROUGH_SPATIAL = np.concatenate(
    [spatial.coordinates((0.3, 0.4, 0.9), (0.5, 0.2, -0.7)), spatial.coordinates((1.5, 1, 0.2), (0.1, 1, 0.8))]
)


def numbers(tree, of_number):
    return jax.tree.map(lambda x: of_number(x) if eqx.is_inexact_array(x) else x, tree)


@pytest.mark.parametrize(("dimension", "closed"), [(2, False), (2, True), (3, False), (3, True)])
def test_derivatives_from_rough_guesses_are_those_of_what_was_computed(dimension, closed):
    make, options = (random_closed, {"closures": ("Distance",)}) if closed else (random_tree, {})
    kinds = ("Revolute", "Translational") if dimension == 2 else ("Revolute", "Universal", "Spherical", "Prismatic")
    draw = lambda k: make(
        np.random.default_rng((dimension, closed, k)), 3, structure_seed=5, dimension=dimension, kinds=kinds, **options
    )
    mech, q = stacked([draw(k) for k in range(SAMPLES)])
    layout = draw(0)[0].layout
    rng = np.random.default_rng(1)
    guess = jax.vmap(layout.retract)(q, rng.uniform(-0.6, 0.6, (SAMPLES, layout.m)))
    change = numbers(mech, lambda x: rng.normal(size=x.shape)), rng.normal(size=(SAMPLES, layout.m))

    def along(h, mech, guess, change):
        moved = jax.tree.map(lambda x, dx: x + h * dx if eqx.is_inexact_array(x) else x, mech, change[0])
        assembly = mbs.assemble(moved, layout.retract(guess, h * change[1]), 0.1 + h)
        return assembly.q, assembly.status

    batched = lambda f: jax.jit(jax.vmap(f, in_axes=(None, 0, 0, 0)))
    value = batched(along)
    rate = batched(lambda h, *args: jax.jvp(lambda h: along(h, *args)[0], (h,), (1.0,))[1])
    at = lambda h: np.asarray(value(h, mech, guess, change)[0])
    coarse, fine = ((at(h) - at(-h)) / (2 * h) for h in (STEP, STEP / 2))
    assert not np.any(value(0.0, mech, guess, change)[1])
    expected = (4 * fine - coarse) / 3
    scale = 1 + np.abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_array_less(np.abs(rate(0.0, mech, guess, change) - expected) / scale, 1e-6)


def test_nearest_point_of_a_circle():
    bob = planar.Body()
    pendulum = mbs.Mechanism({"bob": bob}, {"rod": planar.Distance("ground", "bob", (0, 0), (0, 0), distance=2.0)})
    guess = jnp.array([3.0, 4.0, 0.5])
    found = lambda guess: mbs.assemble(pendulum, guess).q
    np.testing.assert_allclose(found(guess), [1.2, 1.6, 0.5], atol=1e-15)
    # Along the circle by 2/5 of the distance from the centre.
    along = np.array([-0.8, 0.6])
    np.testing.assert_allclose(
        jax.jacrev(found)(guess),
        [[*(0.4 * along[0] * along), 0], [*(0.4 * along[1] * along), 0], [0, 0, 1]],
        atol=1e-12,
    )
    assert mbs.assemble(pendulum, (0, 0, 0.5)).status == mbs.Status.SINGULAR


def test_second_derivatives():
    height = lambda b, guess: mbs.assemble(four_bar(b), guess).q @ jnp.arange(1.0, 10.0)
    slope = lambda crank: jax.grad(height)({**LENGTHS, "crank": crank}, ROUGH)["coupler"]
    h = 1e-4
    difference = (slope(1.0 + h) - slope(1.0 - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(slope)(1.0), difference, rtol=1e-6)


FORMULATIONS = (mbs.Augmented(), mbs.JointCoordinates(), mbs.Natural(), mbs.Kane())


@pytest.mark.parametrize(
    ("build", "design", "guess", "formulations"),
    [
        (four_bar, LENGTHS, ROUGH, FORMULATIONS),
        pytest.param(ball_and_hinge, SPATIAL, ROUGH_SPATIAL, FORMULATIONS, marks=pytest.mark.slow),
    ],
    ids=["plane", "space"],
)
def test_simulations_begin_at_the_same_place_and_their_derivatives_are_exact(build, design, guess, formulations):
    speed = np.random.default_rng(2).normal(size=build(design).layout.m)
    line = np.random.default_rng(3).normal(size=len(guess))
    starts, ends = [], []
    for formulation in formulations:

        def along(h, formulation=formulation):
            b = {name: x + h * (k + 1) for k, (name, x) in enumerate(design.items())}
            times = 0.1 + h + jnp.linspace(0, 0.2, 2)
            return mbs.simulate(build(b), times, guess + h * line, speed + h, formulation=formulation)

        rate = jax.jit(lambda h, f=along: jax.jvp(lambda h: f(h).q, (h,), (1.0,))[1])
        value = jax.jit(lambda h, f=along: (f(h).q, f(h).status))
        at = lambda h, f=value: np.asarray(f(h)[0])
        coarse, fine = ((at(h) - at(-h)) / (2 * h) for h in (STEP, STEP / 2))
        found, status = value(0.0)
        assert not np.any(status)
        expected = (4 * fine - coarse) / 3
        np.testing.assert_allclose(rate(0.0), expected, atol=1e-6 * np.abs(expected).max())
        starts.append(found[0])
        ends.append(found[-1])
    np.testing.assert_allclose(starts, [mbs.assemble(build(design), guess, 0.1).q] * len(starts), atol=1e-12)
    np.testing.assert_allclose(ends, [ends[0]] * len(ends), atol=1e-7)


def test_a_guess_that_is_assembled_stays_as_it_is():
    mech = four_bar(LENGTHS)
    q = mbs.assemble(mech, ROUGH).q
    np.testing.assert_array_equal(jax.jit(lambda q: mbs.assemble(mech, q).q)(q), q)
    np.testing.assert_array_equal(mbs.simulate(mech, (0.0, 0.1), q, step=0.05).q[0], q)


@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.JointCoordinates()])
def test_derivatives_from_a_start_that_newton_closes(formulation, monkeypatch):
    """The traced start of a large mechanism, here of a small one: gaps of 0.1, and derivatives of what was computed."""
    monkeypatch.setattr(sys.modules["jaxmbs.dynamics.simulate"], "MAX_SEARCHED_VELOCITIES", 0)
    near = mbs.assemble(four_bar(LENGTHS), ROUGH).q
    line = np.random.default_rng(3).uniform(-1, 1, near.size)

    @jax.jit
    def run(h):
        b = {name: x + h * (k + 1) for k, (name, x) in enumerate(LENGTHS.items())}
        result = mbs.simulate(four_bar(b), jnp.linspace(0, 0.2, 2), near + (0.1 + h) * line, formulation=formulation)
        return result.q, result.status

    assert not np.any(run(0.0)[1])
    rate = jax.jit(lambda h: jax.jvp(lambda h: run(h)[0], (h,), (1.0,))[1])(0.0)
    coarse, fine = ((run(h)[0] - run(-h)[0]) / (2 * h) for h in (1e-4, 5e-5))
    expected = (4 * fine - coarse) / 3
    np.testing.assert_allclose(rate, expected, atol=1e-6 * np.abs(expected).max())
