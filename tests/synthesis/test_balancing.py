"""Designs that lower loads: counterweights of linkages and rotors, lengths, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from designed_four_bar import GUESS, LENGTHS, PLAIN, SPEED, TIMES, WEIGHT, G, four_bar, near
from jaxmbs import planar, spatial, synthesis


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


BAD_BALANCES = {
    "minimise has 'noise', which is not one of reactions, shaking": {"minimise": {"noise": 1.0}},
    r"minimise\['reactions'\] has 'D', which is not one of A, B, C, O": {"minimise": {"reactions": {"D": 1.0}}},
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


@pytest.mark.variant
def test_spring_that_carries_an_arm():
    """With free length zero, from p to the point s of the arm: k s p̄ = −i m g c in complex numbers."""

    def arm(b):
        return mbs.Mechanism(
            {"arm": planar.Body(2.0, 0.1, (0.3, 0.0))},
            {"pin": planar.Revolute("ground", "arm", (0, 0), (0, 0))},
            {"hand": planar.RevoluteDriver("ground", "arm", mbs.motion.Ramp(2.0, -1.0))},
            {
                "gravity": mbs.Gravity((0, -G)),
                "spring": mbs.Spring("ground", "arm", b["foot"], b["end"], b["stiffness"]),
            },
        )

    start = {"foot": np.array([0.05, 0.2]), "end": np.array([0.1, 0.1]), "stiffness": 200.0}
    settings = {"samples": 9, "closed": False, "starts": 2, "steps": (5, 40)}
    found = synthesis.balance(arm, start, minimise={"static_rms": 1.0}, guess={"arm": (0, 0, -1)}, **settings).best
    foot, end = (complex(*found.design[name]) for name in ("foot", "end"))
    np.testing.assert_allclose(found.design["stiffness"] * end * foot.conjugate(), -1j * 2 * G * 0.3, atol=1e-9)
    assert found.checks["static_rms"]["hand"] < 1e-9 * found.checks["before"]["static_rms"]["hand"]
    motion = mbs.kinematics(arm(found.design), np.linspace(0, 1, 9), {"arm": (0, 0, -1)})
    assert np.ptp(mbs.energy(arm(found.design), motion.q, motion.v).potential) < 1e-9
