"""Joint coordinates: the same accelerations and reactions as in other coordinates.

Issa and Arczewski 1998, (3.7): RᵀMR θ̈ = Rᵀ(Q − MṘθ̇), loops closed by cut joints.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynamic_problems as problems
import jaxmbs as mbs
import random_mechanisms as mechanisms
from jaxmbs import planar, spatial
from jaxmbs.formulations.joint import recursion
from jaxmbs.formulations.joint.space import joint_space
from jaxmbs.system.trajectory import Trajectory
from linkages import reference
from norms import size

GROUND = "ground"
JOINTS = mbs.JointCoordinates()
FORMULATIONS = {"natural": mbs.Natural(), "joints": JOINTS, "Kane": mbs.Kane()}
GRAVITY = mbs.Gravity((0, -9.81))


def in_motion(formulation, mech, q, v, t=0.0):
    """Velocities and accelerations of the bodies, and the generalized force of each constraint and driver, a row each."""
    equations, t = formulation.equations(mech), jnp.asarray(t, q.dtype)
    x, u = equations.from_bodies(q, v, t)
    a, *_ = equations.accelerations(x, u, t)
    at, v, a = equations.to_bodies(x, u, a, t)
    # At the same configuration, with those Euler parameters that these multipliers belong to.
    phi_q, multipliers = mbs.constraint_jacobian(mech, at, t), equations.multipliers(x, u, t)
    owned = mech.layout.row_slices.values()
    forces = [phi_q[rows].T @ multipliers[rows] for rows in owned]
    return mech.layout.difference(q, at), v, a, jnp.stack(forces) if forces else jnp.zeros((0, mech.layout.m))


def check_same(found, expected, tolerance=1e-9):
    """Of `in_motion`: states to 1e-11, accelerations and forces to 1e-9, each relative to the largest."""
    for got, wanted, limit in zip(found, expected, (1e-11, 1e-11, tolerance, tolerance), strict=True):
        assert size(got - wanted) < limit * max(1, size(wanted))


# Dimension, bodies, loops and options; the first few always run.
CASES = {
    "plane, open": (2, 4, 0, {}),
    "plane, closed and driven": (2, 4, 1, {"driver": True}),
    "plane, floating": (2, 3, 0, {"floating": True}),
    "space, open": (3, 2, 0, {"kinds": ("Revolute", "Spherical", "Screw", "Cylindrical")}),
    "space, driven": (3, 2, 0, {"kinds": ("Revolute", "Spherical"), "driver": True}),
}
SLOW = {
    f"{'plane' if k % 3 == 0 else 'space'} {k}": (
        2 if k % 3 == 0 else 3,
        3 + k % 3,
        k % 4 if k % 3 == 0 else k % 3,
        {"floating": k % 5 == 0, "branching": (0.2, 0.7)[k % 2], "shuffled": k % 2 == 1},
    )
    for k in range(20)
}


def structure_of(seed, dimension, bodies, loops, options):
    rng = np.random.default_rng(seed)
    if loops or "driver" in options:
        return mechanisms.closed_structure(rng, bodies, loops=loops, dimension=dimension, **options)
    return mechanisms.tree_structure(rng, bodies, dimension=dimension, **options)


def formulations(mech):
    """All but the augmented one; Kane's also with angles, and with Euler parameters, wherever there can be such."""
    found = dict(FORMULATIONS)
    tree = mbs.topology.spanning_tree(mech)
    names = [body if joint is None else joint for body, joint in zip(tree.bodies, tree.joints, strict=True)]
    round_ones = [
        name for name in names if type(mech.constraints.get(name)).__name__ in ("Spherical", "Free", "NoneType")
    ]
    if isinstance(mech.bodies[tree.bodies[0]], spatial.Body):
        others = [name for name in names[1::3] if name not in round_ones]
        found["Kane by angles"] = mbs.Kane(angles=round_ones, euler_parameters=others)
    return found


def compare(case, seed, samples):
    """Random mechanisms of one structure in all formulations."""
    structure, rng = structure_of(seed, *case), np.random.default_rng(seed)
    states = []
    for _ in range(samples):
        mech, q = mechanisms.draw(rng, structure)
        states.append((mech, jnp.asarray(q), jnp.asarray(mechanisms.random_velocity(rng, mech, q))))
    batch = mechanisms.stacked(states)

    def run(formulation):
        function = mbs.program(lambda mech, q, v: in_motion(formulation, mech, q, v), limit=10**6)
        return jax.jit(jax.vmap(function))(*batch)

    expected = run(mbs.Augmented())
    for name, formulation in formulations(mech).items():
        found = run(formulation)
        for k in range(samples):
            one = jax.tree.map(lambda x, k=k: np.asarray(x[k]), (found, expected))
            try:
                check_same(*one)
            except AssertionError as error:
                gaps = [size(a - b) / max(1, size(b)) for a, b in zip(*one, strict=True)]
                raise AssertionError(f"{name}, sample {k}: relative differences of q, v, v̇, forces {gaps}") from error


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "space, open")) for name in CASES]
)
def test_accelerations_and_reactions_of_random_mechanisms(name):
    """Augmented, Natural, JointCoordinates and Kane: v̇ and the force of every joint and driver to 1e-9."""
    compare(CASES[name], 1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_accelerations_and_reactions_of_many_random_mechanisms(seed):
    """The same of 200 mechanisms, 10 of each structure."""
    compare(list(SLOW.values())[seed], 100 + seed, 10)


def rod(k=0):
    return planar.Body(1.0 + 0.1 * k, 0.1, (0.02 * k, 0.03))


def antiparallel():
    """A slide assembled with opposite axes, and more that it carries."""
    return mbs.Mechanism(
        {"a": rod(), "b": rod(1), "c": rod(2)},
        {
            "O": planar.Revolute(GROUND, "a", (0, 0), (-0.5, 0.1)),
            "rail": planar.Translational("b", "a", (0, 0.3), (0.2, 0.1), (-1, -2), (1, 2)),
            "P": planar.Revolute("b", "c", (0.3, 0.1), (-0.2, 0)),
        },
        forces={"gravity": GRAVITY, "spring": mbs.TorsionSpring("a", "c", 3.0, 0.2)},
    ), {"a": (0.5, -0.1, 0.3), "b": (0.9, 0.3, 0.3 + 4 * np.pi), "c": (1.2, 0.5, 1.0)}


def wheels():
    """A wheel on an arm, rolling on a wheel in the ground, and a driven arm: a gear closes no loop by a joint."""
    return mbs.Mechanism(
        {"arm": rod(), "wheel": rod(1), "bob": planar.Body(0.7, 0)},
        {
            "O": planar.Revolute(GROUND, "arm", (0, 0), (0, 0)),
            "P": planar.Revolute("arm", "wheel", (0.5, 0), (0, 0)),
            "gear": planar.Gear(GROUND, "wheel", (0, 0), (0, 0), 0.2, 0.3, 0.0, 0.0),
            "Q": planar.Revolute("wheel", "bob", (0.1, 0.2), (0, 0.4)),
        },
        {"motor": planar.RevoluteDriver(GROUND, "arm", mbs.motion.Polynomial((0.3, 2.0, 1.0)))},
        {"gravity": GRAVITY},
    ), {"arm": (0, 0, 0.3), "wheel": (0.48, 0.15, 0.8), "bob": (0.5, 0.0, 0.5)}


def cams():
    """A cam and a flat follower: an extra coordinate."""
    outline = planar.SplineOutline(np.array([0.5, 0.55, 0.6, 0.55, 0.5, 0.45, 0.42, 0.45]))
    return mbs.Mechanism(
        {"cam": rod(), "follower": rod(1)},
        {
            "O": planar.Revolute(GROUND, "cam", (0, 0), (0, 0)),
            "guide": planar.Translational(GROUND, "follower", (0, 0), (0, 0), (0, 1)),
            "contact": planar.CamFlatFollower("cam", "follower", (0, 0), (0, 0), outline, axis_j=(1, 0)),
        },
        forces={"gravity": GRAVITY},
    ), {"cam": (0, 0, 0.2), "follower": (0, 0.55, 0), "contact": (1.3,)}


def bevel():
    """Skew gears in space on an arm: extra coordinates."""
    x, z = (1.0, 0, 0), (0, 0, 1.0)
    body = spatial.Body(1.0, np.diag([0.3, 0.4, 0.5]) + 0.05, (0.1, -0.05, 0.1))
    return mbs.Mechanism(
        {"first": body, "second": body},
        {
            "bearing": spatial.Revolute(GROUND, "first", (0, 0, 0.3), (0, 0, 0), z),
            "other": spatial.Revolute(GROUND, "second", (0.2, 0, 0), (0, 0, 0), x),
            "gear": spatial.Gear("first", "second", (0, 0, 0), (0, 0, 0), z, x, 0.2, 0.3, 0.0, 0.0),
        },
        forces={"gravity": mbs.Gravity((1.0, -2, -9.81))},
    ), {}


def slider_crank():
    """That with a point mass for a slider: the slider's angle has no inertia."""
    p = reference("slider_crank_dynamics")["parameters"]
    return problems.slider_crank(p), problems.slider_crank_start(p, 0.4)


def four_bar():
    b, start = problems.four_bar_design(), reference("planar_four_bar_dynamics")["initial_state"]
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    return problems.four_bar(b), problems.four_bar_start(b, angles)


SPECIAL = {
    "antiparallel slide": (antiparallel, {}),
    "gear, driver and point mass": (wheels, {}),
    "cam": (cams, {}),
    "bevel gears": (bevel, {}),
    "slider-crank with a point mass": (slider_crank, {}),
    "slider-crank cut elsewhere": (slider_crank, {"cut": ("O",)}),
    "slider-crank with a base": (slider_crank, {"cut": ("O", "guide"), "base": "rod"}),
    "four-bar cut at a pin": (four_bar, {"cut": "O"}),
    "four-bar with a base": (four_bar, {"cut": ("O", "C"), "base": "coupler"}),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "bevel gears")) for name in SPECIAL]
)
def test_special_mechanisms(name):
    """Opposite axes, gears, drivers, point masses, other trees: v̇ and the force of every joint as in Cartesian ones."""
    build, options = SPECIAL[name]
    mech, guess = build()
    start = mbs.assemble(mech, guess)
    assert int(start.status) == 0
    v = jnp.asarray(mechanisms.random_velocity(np.random.default_rng(4), mech, start.q))
    formulations = mbs.JointCoordinates(**options), mbs.Augmented()
    both = mbs.program(lambda mech, q, v: tuple(in_motion(f, mech, q, v) for f in formulations))
    found, expected = both(mech, start.q, v)
    check_same(found, expected)
    if not options:
        # Of bodies of the plane the turns are kept too.
        assert size(found[0]) < 1e-12


def massless_turn():
    """A slider-crank whose rod is a point mass at its pin: its angle has no inertia. In motion."""
    mech = mbs.Mechanism(
        {"crank": planar.Body(1.0, 0.1), "rod": planar.Body(1.0, 0, (-0.5, 0)), "slider": planar.Body(2.0, 0.3)},
        {
            "O": planar.Revolute(GROUND, "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (0.3, 0), (-0.5, 0)),
            "B": planar.Revolute("rod", "slider", (0.5, 0), (0, 0)),
            "guide": planar.Translational(GROUND, "slider", (0, 0), (0, 0), (1, 0)),
        },
        forces={"gravity": GRAVITY},
    )
    angle = 0.7
    pin, tilt = 0.3 * np.array([np.cos(angle), np.sin(angle)]), -np.arcsin(0.3 * np.sin(angle))
    end = pin[0] + np.cos(tilt)
    q = np.array([0, 0, angle, (pin[0] + end) / 2, pin[1] / 2, tilt, end, 0, 0])
    return mech, q, mechanisms.random_velocity(np.random.default_rng(0), mech, q)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_reactions_with_a_coordinate_without_inertia(name):
    """`mbs.reactions` of a state in motion as in Cartesian coordinates."""
    mech, q, v = massless_turn()
    assert size(mbs.constraints(mech, q)) < 1e-15
    row = lambda x: jnp.asarray(x, float)[None]
    state = Trajectory(row(0.0), row(q), row(v), row(0 * v), jnp.zeros(1, int), mech.layout)
    found, expected = (mbs.reactions(mech, state, formulation=f) for f in (FORMULATIONS[name], mbs.Augmented()))
    for joint in mech.constraints:
        np.testing.assert_allclose(found[joint].force, expected[joint].force, rtol=0, atol=1e-9, err_msg=joint)
        np.testing.assert_allclose(found[joint].torque, expected[joint].torque, rtol=0, atol=1e-9, err_msg=joint)


def branched(links, sides=(), turns=1):
    """A chain of the plane that starts at the ground, of several kinds of link by turns; on each link in `sides` hang two
    more links."""
    kinds = [planar.Body(1.0, 0.1, com) for com in ((0.05, 0.02), (0.05, 0), (0, 0.02))[:turns]]
    parents = {"b0": (GROUND, (0, 0))} | {f"b{k}": (f"b{k - 1}", (0.25, 0)) for k in range(1, links)}
    for k in sides:
        parents |= {f"s{k}": (f"b{k}", (0.0, 0.1)), f"t{k}": (f"s{k}", (0.25, 0))}
    joints = {f"J {name}": planar.Revolute(i, name, at, (-0.25, 0)) for name, (i, at) in parents.items()}
    spring = mbs.SpringDamper("b1", f"b{links - 1}", (0, 0), (0.1, 0.1), 20.0, 1.0, 1.0)
    bodies = {name: kinds[int(name[1:]) % turns] for name in parents}
    return mbs.Mechanism(bodies, joints, forces={"gravity": GRAVITY, "spring": spring})


@pytest.mark.variant
@pytest.mark.parametrize(
    ("links", "sides", "turns", "runs"),
    [
        pytest.param(18, (6, 13), 1, [1, 17, 1, 1, 1, 1], marks=pytest.mark.slow),
        # The last link is one too many for the turns.
        (20, (6, 13, 18), 3, [1, 6, 6, 6, *[1] * 7]),
        pytest.param(40, (), 1, [1, 39], marks=pytest.mark.slow),
    ],
    ids=["branched", "by turns", "40 links"],
)
def test_long_chains(links, sides, turns, runs, monkeypatch):
    """Loops over the links of a run, written out link by link, and Cartesian coordinates: the same to 1e-10."""
    mech, rng = branched(links, sides, turns), np.random.default_rng(7)
    space = joint_space(mech)
    theta, rate = (jnp.asarray(rng.uniform(-0.5, 0.5, space.n)) for _ in range(2))

    def motion(mech, theta, rate):
        equations, t = JOINTS.equations(mech), jnp.zeros(())
        a, *_ = equations.accelerations(theta, rate, t)
        q, v, a = equations.to_bodies(theta, rate, a, t)
        return q, v, a, equations.multipliers(theta, rate, t), *equations.from_bodies(q, v, t)

    # The first link hangs at the origin, whose zeros are structure: it is not like the others.
    assert [len(run.bodies) for run in space.runs] == runs
    found = mbs.program(motion)(mech, theta, rate)
    q, v, a, multipliers, *again = found
    assert size(again[0] - theta) < 1e-11
    assert size(again[1] - rate) < 1e-10

    monkeypatch.setattr(recursion, "MIN_IN_LOOP", 10**6)
    assert not any(run.loop for run in joint_space(mech).runs)
    for one, other in zip(found, mbs.program(motion)(mech, theta, rate), strict=True):
        assert size(one - other) < 1e-10 * max(1, size(other))

    force = mbs.program(lambda mech, q, v: mbs.Augmented().equations(mech).force(q, v, jnp.zeros(())))(mech, q, v)
    phi_q, mass = np.asarray(mbs.constraint_jacobian(mech, q)), np.asarray(mbs.Augmented().of(mech).mass_matrix(q))
    rows, columns = phi_q.shape
    matrix = np.block([[mass, -phi_q.T], [phi_q, np.zeros((rows, rows))]])
    solution = np.linalg.solve(matrix, np.concatenate([force, mbs.acceleration_rhs(mech, q, v)]))
    assert size(a - solution[:columns]) < 1e-10 * size(solution[:columns])
    assert size(multipliers - solution[columns:]) < 1e-10 * size(solution[columns:])
