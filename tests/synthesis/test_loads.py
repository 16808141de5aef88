"""Loads over a cycle, by a four-bar in complex numbers that knows nothing of this package."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxmbs as mbs
from designed_four_bar import GUESS, LENGTHS, MASSES, PLAIN, SPEED, TIMES, WEIGHT, G, four_bar, near
from jaxmbs import planar, synthesis


def bodies_by_hand(b, t):
    """(position of the first pin, direction) of each link in complex numbers, by the law of cosines."""
    r2, r3, r4, r1 = (b["length"][name] for name in LENGTHS)
    crank = np.exp(1j * SPEED * t)
    line = r1 - r2 * crank
    cosine = (r3**2 + np.abs(line) ** 2 - r4**2) / (2 * r3 * np.abs(line))
    coupler = line / np.abs(line) * np.exp(1j * np.arccos(cosine))
    return {
        "crank": (0 * crank, crank),
        "coupler": (r2 * crank, coupler),
        "rocker": (r1 + 0 * crank, (r2 * crank + r3 * coupler - r1) / r4),
    }


def rate(f, t, h=1e-3):
    """The derivative by differences of eighth order."""
    weights = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    return sum(w * (f(t + k * h) - f(t - k * h)) for k, w in enumerate(weights, 1)) / h


def centres_by_hand(b, t):
    return {name: pin + axis * complex(*b["com"][name]) for name, (pin, axis) in bodies_by_hand(b, t).items()}


def momentum(b, t):
    centres = lambda t: np.array([b["mass"][name] * z for name, z in centres_by_hand(b, t).items()])
    return rate(lambda t: centres(t).sum(axis=0), t)


def spins(b, t):
    axes = lambda t: np.array([axis for _, axis in bodies_by_hand(b, t).values()])
    return (rate(axes, t) / axes(t)).imag


def angular_momentum(b, t, about):
    centres = lambda t: np.array(list(centres_by_hand(b, t).values())) - complex(*about)
    mass, inertia = (np.array([b[key][name] for name in MASSES])[:, None] for key in ("mass", "inertia"))
    return (mass * (centres(t).conj() * rate(centres, t)).imag + inertia * spins(b, t)).sum(axis=0)


def energy(b, t):
    centres = lambda t: np.array(list(centres_by_hand(b, t).values()))
    mass, inertia = (np.array([b[key][name] for name in MASSES])[:, None] for key in ("mass", "inertia"))
    kinetic = mass * np.abs(rate(centres, t)) ** 2 / 2 + inertia * spins(b, t) ** 2 / 2
    return (kinetic + mass * G * centres(t).imag).sum(axis=0)


# All of these act on the ground and on a body: they change reactions, never what shakes the frame.
INNER = {
    "spring": mbs.Spring("ground", "rocker", (0.1, -0.2), (0.1, 0.05), 300.0, 0.1),
    "damper": mbs.Damper("coupler", "ground", (0.1, 0.0), (0.0, 0.3), 8.0),
    "torsion": mbs.TorsionSpring("ground", "rocker", 3.0, 0.2),
    "torque": mbs.Torque("crank", lambda t, q, v: jnp.sin(t)),
}


@pytest.mark.parametrize(
    ("forces", "about"),
    [({}, None), (WEIGHT, (0.07, -0.2)), ({**WEIGHT, **INNER}, (0.07, -0.2))],
    ids=["masses", "weight", "springs"],
)
def test_frame_bears_the_change_of_momentum(forces, about):
    mech = four_bar(PLAIN, forces)
    loads = synthesis.cycle_loads(mech, mbs.kinematics(mech, TIMES, GUESS, throw=True), about=about)
    about, mass = about or (0.0, 0.0), sum(MASSES.values())
    g = G if forces else 0.0
    force = -rate(partial(momentum, PLAIN), TIMES) - 1j * mass * g
    near(np.asarray(loads.shaking_force) @ [1, 1j], force, 1e-7)
    arms = sum(MASSES[name] * (z.real - about[0]) for name, z in centres_by_hand(PLAIN, TIMES).items())
    moment = -rate(lambda t: angular_momentum(PLAIN, t, about), TIMES) - arms * g
    near(loads.shaking_moment, moment, 1e-7)


def test_torque_is_the_change_of_energy():
    mech = four_bar(PLAIN, WEIGHT)
    loads = synthesis.cycle_loads(mech, mbs.kinematics(mech, TIMES, GUESS, throw=True))
    near(loads.driving["motor"] * SPEED, rate(partial(energy, PLAIN), TIMES), 1e-7)


@pytest.mark.slow
def test_forces_without_a_reaction_reach_the_frame():
    """A load from outside passes through the mechanism; what a driver of the ground's axes pushes is borne too."""
    block = mbs.Mechanism(
        {"block": planar.Body(2.0, 0.1)},
        {"flat": planar.AbsoluteY("block", (0, 0), 0.5), "upright": planar.AbsoluteAngle("block", 0.0)},
        {"push": planar.AbsoluteXDriver("block", (0, 0), mbs.motion.Polynomial((0, 0, 1.5)))},
        {"load": mbs.PointForce("block", (0.2, 0.0), (1.0, -7.0))},
    )
    loads = synthesis.cycle_loads(block, mbs.kinematics(block, [0.0, 1.0], {"block": (0, 0.5, 0)}))
    np.testing.assert_allclose(loads.shaking_force, [[1 - 2 * 3.0, -7.0]] * 2, atol=1e-12)
    # Its place at x = 1.5 t²: weightless, so only the load's arm, and the inertia's at the height of the block.
    np.testing.assert_allclose(loads.shaking_moment, -7.0 * (0.2 + np.array([0, 1.5])) - 0.5 * (1.0 - 6.0), atol=1e-12)
    np.testing.assert_allclose(loads.driving["push"], [2 * 3.0 - 1.0] * 2, atol=1e-12)


@pytest.mark.slow
def test_measures():
    turn = np.linspace(0, 2 * np.pi, 73)
    wave = 2.0 + 3.0 * np.sin(turn)
    np.testing.assert_allclose(synthesis.ripple(wave), 3 / np.sqrt(2), rtol=1e-14)
    np.testing.assert_allclose(synthesis.rms(wave), np.sqrt(4 + 4.5), rtol=1e-14)
    np.testing.assert_allclose(synthesis.ripple(wave[:-1], closed=False), 3 / np.sqrt(2), rtol=1e-14)
    circle = 1e-7 * np.stack([np.cos(turn), 2 * np.sin(turn)], axis=1)
    np.testing.assert_allclose(synthesis.rms(circle), 1e-7 * np.sqrt(2.5), rtol=1e-14)
    for sharpness in (2, 40, 300.0):
        for force, size in ((wave, 5.0), (1e200 * wave, 5e200), (circle, 2e-7)):
            ratio = float(synthesis.peak(force, sharpness=sharpness)) / size
            assert 1 - 1e-14 <= ratio <= 72 ** (1 / sharpness)
    for measure in (synthesis.rms, synthesis.ripple, synthesis.peak):
        assert not np.any(jax.grad(measure)(jnp.zeros(9)))
        check_grads(measure, (jnp.asarray(wave),), order=1, eps=1e-6)


def test_regularity_bounds_the_least_singular_value():
    mech = four_bar(PLAIN)
    motion = mbs.kinematics(mech, TIMES, GUESS)
    found = np.asarray(synthesis.regularity(mech, motion))
    # Columns in the largest lever or position, as the mechanism is at that time, rows by what moves them most.
    for q, value in zip(np.asarray(motion.q)[::6], found[::6], strict=True):
        matrix = np.asarray(mbs.constraint_jacobian(mech, q))
        angular = np.arange(9) % 3 == 2
        unit = max(np.abs(matrix[:8, angular]).max(), np.abs(q[~angular]).max(), 0.0)
        scaled = matrix * np.where(angular, 1, unit)
        scaled = scaled / np.abs(scaled).max(axis=1, keepdims=True)
        least = np.linalg.svd(scaled, compute_uv=False)[-1]
        assert least / 3 * (1 - 1e-9) <= value <= least * (1 + 1e-9)
    # Folded it is singular where crank and coupler lie in one line; near that the least value falls with the distance.
    folded = {**PLAIN, "length": {**LENGTHS, "ground": 0.4 - 1e-6}}
    motion = mbs.kinematics(four_bar(folded), TIMES, GUESS)
    assert np.asarray(synthesis.regularity(four_bar(folded), motion)).min() < 1e-2 * found.min()


def loaded(b, about):
    """Something of everything."""
    mech = four_bar(b, WEIGHT)
    motion = mbs.kinematics(mech, TIMES, GUESS)
    loads = synthesis.cycle_loads(mech, motion, about=about)
    return (
        synthesis.ripple(loads.driving["motor"])
        + synthesis.rms(loads.shaking_force)
        + synthesis.rms(loads.shaking_moment)
        + synthesis.peak(loads.reactions["B"].force)
        + synthesis.regularity(mech, motion).min()
    )


@pytest.mark.slow
def test_slopes_are_those_of_differences():
    about = jnp.array([0.1, 0.2])
    b = jax.tree.map(jnp.asarray, PLAIN)
    of_design = jax.jit(lambda b: loaded(b, about))
    slopes = jax.jit(jax.grad(lambda b: loaded(b, about)))(b)
    rng, h = np.random.default_rng(1), 1e-6
    for _ in range(3):
        way = jax.tree.map(lambda x: x * jnp.asarray(rng.normal(size=x.shape)), b)
        ahead, back = (of_design(jax.tree.map(lambda x, w, s=s: x + s * h * w, b, way)) for s in (1, -1))
        slope = sum(jnp.vdot(g, w) for g, w in zip(jax.tree.leaves(slopes), jax.tree.leaves(way), strict=True))
        np.testing.assert_allclose(slope, (ahead - back) / (2 * h), rtol=1e-6)
