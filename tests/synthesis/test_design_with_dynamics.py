"""Loads over a cycle, by a four-bar in complex numbers that knows nothing of this package; designs that lower them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxmbs as mbs
from jaxmbs import planar, spatial, synthesis

LENGTHS = {"crank": 0.10, "coupler": 0.28, "rocker": 0.22, "ground": 0.30}
MASSES = {"crank": 0.5, "coupler": 1.1, "rocker": 0.8}
INERTIAS = {"crank": 1e-3, "coupler": 9e-3, "rocker": 5e-3}
# The coupler's centre of mass is off its line, so that counterweights must be off theirs.
CENTRES = {"crank": (0.04, 0.01), "coupler": (0.13, 0.04), "rocker": (0.09, -0.02)}
PLAIN = {"length": LENGTHS, "mass": MASSES, "inertia": INERTIAS, "com": CENTRES}
GUESS = {"coupler": (0.1, 0, 0.9), "rocker": (0.3, 0, 1.5)}
SPEED, G = 2 * np.pi, 9.81
TIMES = np.linspace(0, 1, 37)


def four_bar(b, forces=(), drivers=None):
    """Frames of the bodies at their first pins, x axes along the links."""
    length = b["length"]
    motor = {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(SPEED))}
    return mbs.Mechanism(
        {name: planar.Body(b["mass"][name], b["inertia"][name], b["com"][name]) for name in MASSES},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (length["crank"], 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (length["coupler"], 0), (length["rocker"], 0)),
            "C": planar.Revolute("rocker", "ground", (0, 0), (length["ground"], 0)),
        },
        motor if drivers is None else drivers,
        forces,
    )


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


def near(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


# --- loads ------------------------------------------------------------------------------------------------------------

WEIGHT = {"gravity": mbs.Gravity((0, -G))}
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


# --- balancing --------------------------------------------------------------------------------------------------------


def weighted(discs, b=PLAIN):
    """The four-bar with point masses on crank and rocker, each a mass and a place."""
    mass, com, inertia = dict(b["mass"]), dict(b["com"]), dict(b["inertia"])
    for name, disc in discs.items():
        own, place, m = jnp.asarray(com[name]), jnp.asarray(disc["place"]), disc["mass"]
        mass[name] = b["mass"][name] + m
        com[name] = (b["mass"][name] * own + m * place) / mass[name]
        inertia[name] = b["inertia"][name] + b["mass"][name] * m / mass[name] * (place - own) @ (place - own)
    return {**b, "mass": mass, "com": com, "inertia": inertia}


def berkof_lowen(b):
    """What stands before e^{iφ} of crank and rocker in Σ m r_c, the coupler's put away by the loop; both must vanish.

    R. S. Berkof and G. G. Lowen, A new method for completely force balancing simple linkages, 1969: linearly independent
    vectors.
    """
    z = {name: complex(*np.asarray(b["com"][name])) for name in MASSES}
    m, length = b["mass"], b["length"]
    part = z["coupler"] / length["coupler"]
    crank = m["crank"] * z["crank"] + m["coupler"] * length["crank"] * (1 - part)
    rocker = m["rocker"] * z["rocker"] + m["coupler"] * length["rocker"] * part
    return np.abs([crank, rocker])


DISCS = {name: {"mass": 1.0, "place": np.array([-0.05, 0.0])} for name in ("crank", "rocker")}
LEAST = {name: {"mass": 0.1, "place": -0.3} for name in DISCS}
MOST = {name: {"mass": 10.0, "place": [0.3, 0.3]} for name in DISCS}


def test_shaking_force_vanishes_as_berkof_and_lowen_say():
    found = synthesis.balance(
        lambda discs: four_bar(weighted(discs)),
        DISCS,
        minimise={"shaking_force": 1.0},
        guess=GUESS,
        samples=36,
        lower=LEAST,
        upper=MOST,
        starts=4,
        steps=(60, 40),
    )
    best, mech = found.best, four_bar(PLAIN)
    before = synthesis.rms(synthesis.cycle_loads(mech, mbs.kinematics(mech, TIMES, GUESS)).shaking_force)
    assert best.checks["shaking_force"] < 1e-6 * before
    assert np.all(berkof_lowen(weighted(best.design)) < 1e-6 * MASSES["coupler"] * LENGTHS["crank"])
    assert np.all(berkof_lowen(PLAIN) > 0.1 * MASSES["coupler"] * LENGTHS["crank"])
    assert best.checks["assembled"]
    np.testing.assert_allclose(best.checks["clearance"], 1, rtol=1e-9)  # masses change no position
    # A force that vanishes makes a moment that is the same about every point.
    mech = four_bar(weighted(best.design))
    motion = mbs.kinematics(mech, TIMES, GUESS)
    here, there = (synthesis.cycle_loads(mech, motion, about=p).shaking_moment for p in ((0, 0), (5.0, -3.0)))
    near(there, here, 1e-5)


def rotor(b):
    """A shaft along z that is out of balance, with masses in two planes: one body."""
    mass = jnp.array([5.0, 0.7, 0.2, 0.2])
    planes = jnp.column_stack([b["places"], jnp.array([0.1, 0.4])])
    places = jnp.concatenate([jnp.array([[0.0, 0, 0], [0.03, 0.01, 0.15]]), planes])
    centre = mass @ places / mass.sum()
    arms = places - centre
    inertia = jnp.einsum("k,kij->ij", mass, jax.vmap(lambda r: r @ r * jnp.eye(3) - jnp.outer(r, r))(arms))
    return mbs.Mechanism(
        {"shaft": spatial.Body(mass.sum(), inertia + jnp.diag(jnp.array([0.2, 0.2, 0.05])), centre)},
        {"bearing": spatial.Revolute("ground", "shaft", (0, 0, 0), (0, 0, 0), (0, 0, 1))},
        {"motor": spatial.RevoluteDriver("ground", "shaft", axis_i=(0, 0, 1), motion=mbs.motion.Ramp(3.0))},
    )


UNBALANCED = {"places": np.array([[0.1, -0.1], [0.1, 0.0]])}


@pytest.mark.slow
def test_rotor_shakes_its_bearing():
    """F = ω² Σ m r, and a moment of ω² Σ m r z about the axis across."""
    start, mech = UNBALANCED, rotor(UNBALANCED)
    loads = synthesis.cycle_loads(mech, mbs.kinematics(mech, np.linspace(0, 1, 3)))
    unbalance = 0.7 * np.array([0.03, 0.01]) + 0.2 * start["places"].sum(axis=0)
    near(loads.shaking_force[0], np.append(9.0 * unbalance, 0), 1e-12)
    leaning = 0.7 * 0.15 * np.array([0.03, 0.01]) + 0.2 * np.array([0.1, 0.4]) @ start["places"]
    near(loads.shaking_moment[0], 9.0 * np.array([-leaning[1], leaning[0], 0]), 1e-12)


@pytest.mark.slow
def test_rotor_is_balanced_in_two_planes():
    """Two planes take any unbalance: Σ m r = 0 and Σ m r z = 0, two linear equations for each component of r."""
    turn = {"period": 2 * np.pi / 3, "samples": 8}
    wanted = {"shaking_force": 1.0, "shaking_moment": 1.0}
    found = synthesis.balance(rotor, UNBALANCED, minimise=wanted, **turn, starts=2, steps=(20, 30)).best
    matrix, right = 0.2 * np.array([[1, 1], [0.1, 0.4]]), -0.7 * np.outer([1, 0.15], [0.03, 0.01])
    np.testing.assert_allclose(found.design["places"], np.linalg.solve(matrix, right), atol=1e-7)
    assert found.value < 1e-12


def rssr(b):
    """Crank and rocker on skew axes, a rod with a ball at one end and a universal joint at the other."""
    return mbs.Mechanism(
        {
            "crank": spatial.Body(1.0, (0.01, 0.02, 0.02), (0.1, 0.02, 0.01)),
            "rod": spatial.Body(0.7, (0.01, 0.05, 0.05), (0.5, 0, 0)),
            "rocker": spatial.Body(1.5, (0.03, 0.02, 0.03), (0.2, -0.1, 0.03)),
        },
        {
            "O": spatial.Revolute("ground", "crank", (0, 0, 0), (0, 0, 0), (0, 0, 1)),
            "A": spatial.Universal("crank", "rod", (b["crank"], 0, 0), (0, 0, 0), (0, 0, 1), (0, 1, 0)),
            "B": spatial.Spherical("rod", "rocker", (1.0, 0, 0), (0.6, 0, 0)),
            "C": spatial.Revolute("ground", "rocker", (0.9, 0.1, 0.3), (0, 0, 0), (0, 1, 0)),
        },
        {"motor": spatial.RevoluteDriver("ground", "crank", axis_i=(0, 0, 1), motion=mbs.motion.Ramp(SPEED))},
        {"gravity": mbs.Gravity((0, 0, -G))},
    )


SPATIAL_GUESS = {"rod": (0.2, 0, 0, 1, 0, 0, 0), "rocker": (0.9, 0.1, 0.3, 0.8, 0, -0.6, 0)}


@pytest.mark.slow
def test_spatial_mechanism_obeys_newton():
    mech, h = rssr({"crank": 0.2}), 1e-3
    times = (np.linspace(0, 1, 9)[:, None] + h * np.arange(-4, 5)).ravel()
    motion = mbs.kinematics(mech, times, SPATIAL_GUESS, throw=True)
    weights = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]) / h**2
    moments = sum(body.mass * np.asarray(motion.point(name, body.com)) for name, body in mech.bodies.items())
    needed = -np.einsum("k,tkd->td", weights, moments.reshape(9, 9, 3)) - 3.2 * G * np.eye(3)[2]
    loads = synthesis.cycle_loads(mech, motion)
    near(np.asarray(loads.shaking_force).reshape(9, 9, 3)[:, 4], needed, 1e-6)
    power = np.gradient(np.asarray(mbs.energy(mech, motion.q, motion.v).total).reshape(9, 9), h, axis=1)[:, 4]
    near(np.asarray(loads.driving["motor"]).reshape(9, 9)[:, 4] * SPEED, power, 1e-3)


# --- the search -------------------------------------------------------------------------------------------------------


def valley(x):
    """Rosenbrock's function."""
    x = jnp.concatenate([x["a"], x["b"][None]])
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), {"sum": x.sum()}


START = {"a": np.array([-0.5, 0.4]), "b": 0.4}


def test_minimum_of_a_valley():
    found = synthesis.minimise(valley, START, lower=-2, upper=2, starts=8, steps=(100, 60))
    np.testing.assert_allclose(found.best.design["a"], 1, atol=1e-9)
    assert isinstance(found.best.design["b"], float)
    assert found.best.value < 1e-20
    np.testing.assert_allclose(found.best.checks["sum"], 3, atol=1e-9)
    assert found.best.checks["slope"] < 1e-9
    assert [x.value for x in found.all] == sorted(x.value for x in found.all)


def test_bounds_are_kept_and_reached():
    design = {"between": np.array([0.3, 2.0]), "above": 3.0, "below": (-4.0, 1.0), "free": 0.0, "fixed": 7.0}
    lower = {"between": [0.1, -1.0], "above": 2.0, "fixed": 7.0}
    upper = {"between": 5.0, "below": (-3.5, None), "fixed": 7.0}

    def downhill(x):
        value = x["between"][0] - x["between"][1] + x["above"] ** 2 - x["below"][0] + (x["below"][1] - 2) ** 2
        return value + (x["free"] + 1.5) ** 2 + x["fixed"] ** 2

    found = synthesis.minimise(downhill, design, lower=lower, upper=upper, starts=8, steps=(100, 60))
    expected = {"between": np.array([0.1, 5.0]), "above": 2.0, "below": (-3.5, 2.0), "free": -1.5, "fixed": 7.0}
    assert jax.tree.structure(found.best.design) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(found.best.design), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    for other in found.all:
        assert np.all(other.design["between"] >= [0.1, -1])
        assert np.all(other.design["between"] <= 5)
        assert other.design["above"] >= 2
        assert other.design["below"][0] <= -3.5
        assert other.design["fixed"] == 7


def same(one, other):
    assert len(one.all) == len(other.all)
    for x, y in zip(one.all, other.all, strict=True):
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
            np.testing.assert_array_equal(a, b)


class Broken(Exception):
    pass


@pytest.mark.parametrize("after", [1, 3, 5], ids=["in the first stage", "at the end of Adam", "in BFGS"])
def test_search_goes_on_where_it_broke(tmp_path, after):
    task = {"lower": -2, "upper": 2, "starts": 4, "steps": (60, 30), "seed": 3}
    whole, file, told = synthesis.minimise(valley, START, **task), tmp_path / "search.npz", []

    def breaks(*stage):
        told.append(stage)
        if len(told) == after:
            raise Broken

    with pytest.raises(Broken):
        synthesis.minimise(valley, START, **task, progress=breaks, resume=file)
    resumed = synthesis.minimise(valley, START, **task, progress=lambda *stage: told.append(stage), resume=file)
    same(resumed, whole)
    assert [done for done, *_ in told] == [25, 50, 60, 70, 80, 90]
    assert {of for _, of, _ in told} == {90}
    with pytest.raises(ValueError, match="other arguments"):
        synthesis.minimise(valley, START, **{**task, "upper": 3}, resume=file)
    with pytest.raises(ValueError, match="other arguments"):
        synthesis.minimise(lambda x: 2 * valley(x)[0], START, **task, resume=file)


def test_seed_says_what_is_found():
    task = {"lower": -2, "upper": 2, "starts": 4, "steps": (10, 0)}
    one, again, other = (synthesis.minimise(valley, START, **task, seed=seed) for seed in (0, 0, 1))
    same(one, again)
    assert one.best.value != other.best.value


def test_start_without_a_value_leaves_the_others_alone():
    """Bit for bit: the starts that are lost lie beyond a wall that the others never meet."""
    bowl = lambda x: jnp.sum((x["a"] + 1) ** 2)
    walled = lambda x: jnp.where(x["a"][0] > 0.5, jnp.nan, 1.0) * bowl(x)
    task = {"lower": -2, "upper": 2, "starts": 16, "steps": (40, 20)}
    same(*(synthesis.minimise(f, {"a": np.zeros(2)}, **task, keep=1) for f in (bowl, walled)))
    with pytest.raises(ValueError, match="none of the starts"):
        synthesis.minimise(lambda x: jnp.log(x["a"][0]), {"a": np.array([-1.0])}, starts=3)


# --- the front door ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_designs_that_lock_are_turned_down():
    """Lengths between bounds that let most random designs lock: the best one turns, and is better than the given one."""
    build = lambda length: four_bar({**PLAIN, "length": length}, WEIGHT)
    found = synthesis.balance(
        build,
        LENGTHS,
        minimise={"torque_ripple": 1.0, "reactions": {"A": 1.0, "B": 0.5}},
        also=lambda length, motion, loads: 1e3 * (length["crank"] - 0.1) ** 2,
        guess=GUESS,
        samples=36,
        lower=0.05,
        upper=0.4,
        starts=16,
        steps=(60, 20),
        keep=16,
    )
    best, checks = found.best, found.best.checks
    assert best.value < 0.75 * 2.5
    assert checks["assembled"]
    assert checks["clearance"] > 0.1
    assert any(not other.checks["assembled"] for other in found.all)
    motion = mbs.kinematics(build(best.design), TIMES, GUESS, throw=True)
    loads = synthesis.cycle_loads(build(best.design), motion)
    np.testing.assert_allclose(checks["torque_ripple"]["motor"], synthesis.ripple(loads.driving["motor"]), rtol=1e-9)
    np.testing.assert_allclose(checks["reactions"]["B"], synthesis.peak(loads.reactions["B"].force), rtol=1e-9)
    relative = [checks[key][name] / checks["before"][key][name] for key, name in PARTS]
    shift = 1e3 * (best.design["crank"] - 0.1) ** 2
    barrier = best.value - np.array([1.0, 1.0, 0.5]) @ np.square(relative) - shift
    assert -1e-9 < barrier < 0.5


PARTS = (("torque_ripple", "motor"), ("reactions", "A"), ("reactions", "B"))


@pytest.mark.slow
def test_design_through_a_simulation():
    """A pendulum released level: the pin bears 3 m g at the bottom, so the bob is made as light as it may be."""
    pendulum = lambda b: mbs.Mechanism(
        {"bob": planar.Body(b["mass"], 1e-3)},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (-b["length"], 0))},
        forces=WEIGHT,
    )
    swing = lambda mech: mbs.simulate(mech, np.linspace(0, 0.8, 41), {"bob": (0.5, 0, 0)}, step=0.02)
    found = synthesis.balance(
        pendulum,
        {"mass": 2.0, "length": 0.5},
        minimise={"reactions": 1.0},
        run=swing,
        closed=False,
        lower={"mass": 0.5, "length": 0.5},
        upper={"mass": 4.0, "length": 0.5},
        starts=2,
        steps=(20, 20),
        sharpness=400,
    ).best
    np.testing.assert_allclose(found.design["mass"], 0.5, rtol=1e-9)
    np.testing.assert_allclose(found.checks["before"]["reactions"]["pin"], 3 * 2.0 * G, rtol=0.02)
    with pytest.raises(ValueError, match=r"1 degree\(s\) of freedom, of which 1 are not driven.*`run`"):
        synthesis.balance(
            pendulum, {"mass": 2.0, "length": 0.5}, minimise={"reactions": 1.0}, guess={"bob": (0.5, 0, 0)}
        )


BAD_SEARCHES = {
    "design holds no numbers": {"design": {}},
    r"design\['a'\] must be real numbers": {"design": {"a": "long"}},
    r"design\['a'\]\[1\] must be finite": {"design": {"a": (1.0, np.nan)}},
    r"lower\['b'\] bounds nothing": {"lower": {"b": 1.0}},
    r"upper\['a'\] must be numbers of shape \(2,\)": {"upper": {"a": [1.0, 2.0, 3.0]}},
    r"lower\['a'\] must be numbers, got": {"lower": np.nan},
    r"lower\['a'\] is above upper": {"lower": 2.0, "upper": 1.0},
    r"design\['a'\] is not within its bounds": {"lower": 3.0},
    "starts must be a positive integer": {"starts": 0},
    "keep must be a positive integer": {"keep": 1.5},
    "steps must be two numbers": {"steps": 300},
    "steps must be two numbers of": {"steps": (1, -1)},
    "objective must be a function": {"objective": 3.0},
    r"objective must give a real number, got shape \(2,\)": {"objective": lambda x: x["a"]},
    r"or \(number, dict\)": {"objective": lambda x: (x["a"][0], 2.0)},
}


@pytest.mark.parametrize("message", BAD_SEARCHES)
def test_bad_searches(message):
    given = {"objective": lambda x: jnp.sum(x["a"]), "design": {"a": np.ones(2)}, "starts": 2, "steps": (1, 1)}
    with pytest.raises(ValueError, match=message):
        synthesis.minimise(**{**given, **BAD_SEARCHES[message]})


BAD_BALANCES = {
    "minimise has 'noise', which is none of reactions, shaking": {"minimise": {"noise": 1.0}},
    r"minimise\['reactions'\] has 'D', which is none of A, B, C, O": {"minimise": {"reactions": {"D": 1.0}}},
    r"minimise\['shaking_force'\] must be weights": {"minimise": {"shaking_force": -1.0}},
    "minimise has no weight": {"minimise": {"shaking_force": 0.0}},
    "minimise must be a mapping": {"minimise": "shaking_force"},
    "samples must be a positive integer": {"samples": 0},
    "clearance must be from 0": {"clearance": 1.0},
    "sharpness must be at least 2": {"sharpness": 1.0},
    r"about must be a point of shape \(2,\)": {"about": (0, 0, 0)},
    "NOT_ASSEMBLED at t = 0": {"design": {**LENGTHS, "ground": 1.0}},
    "LOCKED_UP at t = 0": {"design": {**LENGTHS, "ground": 0.45}},
    "1 degree": {"build": lambda b: four_bar(PLAIN, drivers={}), "guess": GUESS, "design": LENGTHS},
}


@pytest.mark.parametrize("message", BAD_BALANCES)
def test_bad_balances(message):
    build = lambda length: four_bar({**PLAIN, "length": length})
    given = {"build": build, "design": LENGTHS, "minimise": {"shaking_force": 1.0}, "guess": GUESS, "samples": 8}
    with pytest.raises(ValueError, match=message):
        synthesis.balance(**{**given, **BAD_BALANCES[message]})


def test_nothing_is_relative_to_what_vanishes():
    still = lambda b: mbs.Mechanism(
        {"wheel": planar.Body(b["mass"], 0.1)},
        {"pin": planar.Revolute("ground", "wheel", (0, 0), (0, 0))},
        {"motor": planar.RevoluteDriver("ground", "wheel", mbs.motion.Ramp(1.0))},
        WEIGHT,
    )
    with pytest.raises(ValueError, match="torque_ripple of 'motor' vanishes"):
        synthesis.balance(still, {"mass": 1.0}, minimise={"torque_ripple": 1.0}, samples=4)
