"""Reactions and accelerations do not depend on mass ratios; bodies without mass move as their constraints require."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

FORMULATIONS = {
    "augmented": mbs.Augmented(),
    "natural": mbs.Natural(),
    "joint": mbs.JointCoordinates(),
    "kane": mbs.Kane(),
}
HEAVY = 100.0
MOTION = mbs.motion.Polynomial((0.5, 2.0))
Z = (0, 0, 1)


def planar_links(mass):
    def link(length):
        return planar.Body(mass=0) if mass is None else planar.Body(mass, mass * length**2 / 12, (length / 2, 0))

    return mbs.Mechanism(
        {"crank": link(1.0), "rod": link(3.0), "slider": planar.Body(mass=HEAVY)},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (1.0, 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (3.0, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, 0), (0, 0), axis_i=(1, 0), axis_j=(1, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", MOTION)},
        {"gravity": mbs.Gravity((3.0, -9.81))},
    )


def spatial_links(mass):
    def link(length):
        if mass is None:
            return spatial.Body(mass=0)
        moment = mass * length**2 / 12
        return spatial.Body(mass, (moment / 10, moment, moment), (length / 2, 0, 0))

    return mbs.Mechanism(
        {"crank": link(1.0), "rod": link(3.0), "slider": spatial.Body(mass=HEAVY)},
        {
            "O": spatial.Revolute("ground", "crank", axis_i=Z, axis_j=Z),
            "A": spatial.Spherical("crank", "rod", (1.0, 0, 0), (0, 0, 0)),
            "B": spatial.Universal("rod", "slider", (3.0, 0, 0), (0, 0, 0), axis_i=(0, 1, 0), axis_j=Z),
            "guide": spatial.Prismatic(
                "ground", "slider", (0, 0.2, 0.1), (0, 0, 0), axis_i=(1, 0, 0), axis_j=(1, 0, 0)
            ),
        },
        {"motor": spatial.RevoluteDriver("ground", "crank", MOTION, axis_i=Z, axis_j=Z)},
        {"gravity": mbs.Gravity((3.0, -9.81, 1.0))},
    )


PLACES = [(0, 0, 0.5), (np.cos(0.5), np.sin(0.5), -0.16), (3.83, 0, 0)]
TURNED = [((0, 0, 0), 0.5), ((np.cos(0.5), np.sin(0.5), 0), -0.1), ((3.8, 0.2, 0.1), 0.0)]
NAMES = ("crank", "rod", "slider")
LINKS = {
    2: (planar_links, dict(zip(NAMES, PLACES, strict=True))),
    3: (spatial_links, {n: spatial.coordinates(r, (0, 0, phi)) for n, (r, phi) in zip(NAMES, TURNED, strict=True)}),
}


def balance(mech, q, v, t):
    """M, Φ_q, γ and all forces, as arrays of NumPy."""
    equations = mbs.Augmented().of(mech)
    given = equations.mass_matrix(q), equations.constraint_jacobian(q, t), equations.acceleration_rhs(q, v, t)
    return [np.asarray(x) for x in (*given, equations.force(q, v, t))]


def close(found, expected, tolerance=1e-9):
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


CASES = [(2, name) for name in FORMULATIONS] + [
    pytest.param(3, name, marks=[] if name == "augmented" else pytest.mark.slow) for name in FORMULATIONS
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("dimension", "formulation"), CASES)
def test_reactions_of_driven_links_for_any_mass(dimension, formulation):
    make, guess = LINKS[dimension]
    for mass in (HEAVY, 1e-9, 1e-30, None):
        mech = make(mass)
        motion = mbs.kinematics(mech, jnp.array([0.0, 0.4]), guess)
        found = mbs.reactions(mech, motion, formulation=FORMULATIONS[formulation])
        m, phi_q, _, force = balance(mech, motion.q[1], motion.v[1], motion.t[1])
        expected = np.linalg.solve(phi_q.T, m @ motion.a[1] - force)
        close(np.concatenate([reaction.multipliers[1] for reaction in found.values()]), expected)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("dimension", "formulation"), CASES)
def test_free_links_move_alike_for_any_mass(dimension, formulation):
    make, guess = LINKS[dimension]
    start, times = mbs.assemble(make(HEAVY), guess), np.array([0.0, 0.1])
    for mass in (1e-12, None):
        driven = make(mass)
        mech = mbs.Mechanism(driven.bodies, driven.constraints, forces=driven.forces)
        run = mbs.simulate(mech, times, start, step=0.02, formulation=FORMULATIONS[formulation], throw=True)
        m, phi_q, gamma, force = balance(mech, run.q[1], run.v[1], run.t[1])
        rows = phi_q.shape[0]
        matrix = np.block([[m, -phi_q.T], [phi_q, np.zeros((rows, rows))]])
        expected = np.linalg.solve(matrix, np.concatenate([force, gamma]))
        close(run.a[1], expected[:-rows])
        close(run.multipliers[1], expected[-rows:])


def test_masses_that_are_traced():
    make, guess = LINKS[2]

    @jax.jit
    def effort(mass):
        mech = make(mass)
        return mbs.reactions(mech, mbs.kinematics(mech, np.array([0.0, 0.4]), guess))["motor"].effort[1]

    close(effort(1e-12), effort(1e-6), 1e-7)
    run = jax.jit(lambda mass: mbs.simulate(make(mass), np.array([0.0, 0.1]), guess, step=0.1).status)
    assert run(1.0).tolist() == [0, 0]
    assert run(1e-9).tolist() == [mbs.Status.SINGULAR] * 2


def test_single_precision():
    make, guess = LINKS[2]
    mech = make(1e-6).astype(jnp.float32)
    motion = mbs.kinematics(make(1e-6), jnp.array([0.0, 0.4]), guess)
    single = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, motion)
    found = mbs.reactions(mech, single, formulation=FORMULATIONS["joint"])["motor"].effort
    close(found, mbs.reactions(make(1e-6), motion)["motor"].effort, 1e-5)


def test_masses_changed_since_the_mechanism_was_made():
    mech = planar_links(HEAVY)
    light = jax.tree.map(lambda x: x, mech)
    bodies = {**mech.bodies, "rod": planar_links(1e-9).bodies["rod"]}
    object.__setattr__(light, "_bodies", tuple(bodies.values()))
    assert mech.light == light.light == set()
    assert light.weighed().light == {"rod"}
    assert light.weighed().weighed().light == {"rod"}
    assert mech.weighed() is mech


# A bob on a rod without mass is the same pendulum as a bob with a lever arm.
BOB = planar.Body(mass=2.0, inertia=0.5)
PIN = planar.Revolute("ground", "rod", (0, 0), (0, 0))
GRAVITY = {"gravity": mbs.Gravity((0, -9.81))}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_massless_rod_of_a_pendulum(formulation):
    joints = {"pin": PIN, "end": planar.Revolute("rod", "bob", (1.0, 0), (0, 0))}
    mech = mbs.Mechanism({"rod": planar.Body(mass=0), "bob": BOB}, joints, forces=GRAVITY)
    alone = mbs.Mechanism(
        {"bob": planar.Body(mass=2.0, inertia=0)},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (-1, 0))},
        forces=GRAVITY,
    )
    times, start = jnp.linspace(0, 0.5, 3), {"bob": (1.0, 0, 0)}
    run = mbs.simulate(mech, times, start, step=0.005, formulation=FORMULATIONS[formulation])
    other = mbs.simulate(alone, times, start, step=0.005)
    assert np.abs(run.position("bob.y") - other.position("bob.y")).max() < 1e-7
    np.testing.assert_allclose(
        mbs.reactions(mech, run)["pin"].force, mbs.reactions(alone, other)["pin"].force, atol=1e-5
    )


def test_rod_between_two_balls_may_spin():
    end, bob = np.array([0.36, 0.48, 0.8]), spatial.Body(mass=2.0)
    pin = spatial.Spherical("ground", "bob", end + np.array([0, 0, 1]), (0, 0, 1))
    gravity = {"gravity": mbs.Gravity((0, -9.81, 0))}
    balls = {
        "pin": pin,
        "O": spatial.Spherical("ground", "rod", (0, 0, 0), (0, 0, 0)),
        "A": spatial.Spherical("rod", "bob", end, (0, 0, 0)),
    }
    rod = mbs.Mechanism({"rod": spatial.Body(mass=0), "bob": bob}, balls, forces=gravity)
    joints = {"pin": pin, "rod": spatial.Distance("ground", "bob", (0, 0, 0), (0, 0, 0), 1.0)}
    alone = mbs.Mechanism({"bob": bob}, joints, forces=gravity)
    start = {"bob": spatial.coordinates(end)}
    expected = mbs.simulate(alone, np.array([0.0, 1.0]), start, step=0.02).position("bob.y")
    for formulation in (FORMULATIONS["augmented"], FORMULATIONS["joint"]):
        run = mbs.simulate(rod, np.array([0.0, 1.0]), start, step=0.02, formulation=formulation, throw=True)
        assert np.abs(run.position("bob.y") - expected).max() < 1e-5


@pytest.mark.parametrize(
    "joints",
    [
        {"pin": planar.Revolute("ground", "bob", (0, 0), (-1, 0))},
        {
            "pin": planar.Revolute("ground", "bob", (0, 0), (-1, 0)),
            "end": planar.Revolute("rod", "bob", (1.0, 0), (0, 0)),
        },
    ],
    ids=["loose", "dangling"],
)
def test_motion_that_is_not_determined(joints):
    mech = mbs.Mechanism({"rod": planar.Body(mass=0), "bob": BOB}, joints, forces=GRAVITY)
    run = lambda q: mbs.simulate(mech, np.array([0.0, 0.1]), q, step=0.1)
    with pytest.raises(ValueError, match=r"body 'rod'.* mass"):
        run({"bob": (1.0, 0, 0)})
    q = mech.coordinates({"bob": (1.0, 0, 0)})
    assert jax.jit(run)(q).status.tolist() == [mbs.Status.SINGULAR] * 2


def test_inertia_of_a_massless_body_is_zero_unless_given():
    assert planar.Body(mass=0).massless == (True,) * 3
    assert spatial.Body(mass=0).massless == (True,) * 6
    assert planar.Body(mass=0, inertia=0.1).massless == (True, True, False)
    assert planar.Body().inertia == 1
    assert spatial.Body().inertia[2, 2] == 1
