"""Motion in joint coordinates: the same accelerations and reactions as in other coordinates, published motions, identities.

Issa and Arczewski 1998, (3.7): RᵀMR θ̈ = Rᵀ(Q − MṘθ̇), loops closed by cut joints.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynamic_problems as problems
import jaxmbs as mbs
import random_mechanisms as mechanisms
import spatial_problems
from jaxmbs import planar, spatial
from jaxmbs.formulations.joint import recursion
from jaxmbs.system.trajectory import Trajectory
from linkages import reference

GROUND = "ground"
JOINTS = mbs.JointCoordinates()
FORMULATIONS = {"natural": mbs.Natural(), "joints": JOINTS, "Kane": mbs.Kane()}
GRAVITY = mbs.Gravity((0, -9.81))


def size(x):
    """The largest absolute value."""
    return np.abs(np.asarray(x)).max(initial=0.0)


def gap(mech, run):
    """The largest |Φ| of a motion."""
    return size(jax.jit(jax.vmap(lambda q, t: mbs.constraints(mech, q, t)))(run.q, run.t))


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


# --- the same as in other coordinates -------------------------------------------------------------------------------------

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
    tree = mbs.joint_space(mech).tree
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


# --- a chain of seven revolutes -------------------------------------------------------------------------------------------


def chain_of_seven(problem, inertias, tau=None):
    """The chain of the reference; a body's frame is its joint's. With tau torques at the joints."""
    bodies, joints, forces = {}, {}, {"gravity": mbs.Gravity(problem["gravity_vector"])}
    for k, given in enumerate(problem["bodies"]):
        parent = GROUND if given["parent"] < 0 else f"b{given['parent']}"
        bodies[f"b{k}"] = spatial.Body(given["mass"], inertias[k], given["com"])
        axis = np.array(given["axis"])
        placed = Rotation.from_rotvec(given["placement_rotvec"]).as_matrix()
        # z of the joint's frame is the axis.
        frame = spatial_problems.frame(axis, np.eye(3)[np.argmin(np.abs(axis))])[:, [1, 2, 0]]
        ends = given["placement_p"], (0, 0, 0)
        joints[f"J{k}"] = spatial.Revolute(parent, f"b{k}", *ends, frame_i=placed @ frame, frame_j=frame)
        if tau is not None:
            forces[f"tau{k}"] = mbs.Torque(f"b{k}", tau[k] * axis, parent, follower=True)
    return mbs.Mechanism(bodies, joints, forces=forces)


def test_chain_of_seven_revolutes():
    """Pinocchio 4.1: accelerations, mass matrix RᵀMR, bias and energies to 1e-10, the last frame to 1e-12.

    Some inertia matrices of the reference are those of no body that could exist, so they are arguments of the program:
    what is not known when a mechanism is built is not checked.
    """
    problem = reference("tree_dynamics")
    theta, rate, inertias = (
        jnp.asarray(x) for x in (problem["q"], problem["qd"], [body["I_com"] for body in problem["bodies"]])
    )

    @mbs.program
    def everything(inertias, theta, rate):
        t, torques = jnp.zeros(()), np.array(problem["tau"])
        free, pulled = (JOINTS.equations(chain_of_seven(problem, inertias, x)) for x in (None, torques))
        q, v, _ = free.to_bodies(theta, rate, rate, t)
        last = free.mech.layout.pose("b6", q)
        return {
            "qdd": pulled.accelerations(theta, rate, t)[0],
            "qdd by the mass matrix": jnp.linalg.solve(free.mass(theta, t), pulled.force(theta, rate, t)),
            "mass_matrix": free.mass(theta, t),
            "bias": -free.force(theta, rate, t),
            "tau": pulled.force(theta, rate, t) - free.force(theta, rate, t),
            "kinetic_energy": mbs.energy(free.mech, q, v).kinetic,
            "potential_energy": mbs.energy(free.mech, q, v).potential,
            "q": mbs.joint_coordinates(free.mech, q),
            "qd": mbs.joint_velocities(free.mech, q, v),
            "state": jnp.concatenate(free.from_bodies(q, v, t)),
            "last_joint_frame_position_world": last.r,
            "last_joint_frame_rotation_to_world": last.a,
        }

    found = everything(inertias, theta, rate)
    wanted = {**problem, "qdd by the mass matrix": problem["qdd"], "state": problem["q"] + problem["qd"]}
    for key, value in found.items():
        relative, absolute = (1e-10, 0) if key.startswith("qdd") else (0, 1e-12 if "frame" in key else 1e-10)
        np.testing.assert_allclose(value, wanted[key], rtol=relative, atol=absolute, err_msg=key)


# --- special bodies, constraints and options ------------------------------------------------------------------------------


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
            "gear": planar.Gear(GROUND, "wheel", (0, 0), (0, 0), 0.2, 0.3),
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
            "gear": spatial.Gear("first", "second", (0, 0, 0), (0, 0, 0), z, x, 0.2, 0.3),
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


# --- long chains ----------------------------------------------------------------------------------------------------------


def branched(links, sides=()):
    """A chain of the plane that starts at the ground; on each link in `sides` hang two more links."""
    link = planar.Body(1.0, 0.1, (0.05, 0.02))
    parents = {"b0": (GROUND, (0, 0))} | {f"b{k}": (f"b{k - 1}", (0.25, 0)) for k in range(1, links)}
    for k in sides:
        parents |= {f"s{k}": (f"b{k}", (0.0, 0.1)), f"t{k}": (f"s{k}", (0.25, 0))}
    joints = {f"J {name}": planar.Revolute(i, name, at, (-0.25, 0)) for name, (i, at) in parents.items()}
    spring = mbs.SpringDamper("b1", f"b{links - 1}", (0, 0), (0.1, 0.1), 20.0, 1.0, 1.0)
    return mbs.Mechanism(dict.fromkeys(parents, link), joints, forces={"gravity": GRAVITY, "spring": spring})


@pytest.mark.parametrize(
    ("links", "sides"), [(18, (6, 13)), pytest.param(40, (), marks=pytest.mark.slow)], ids=["branched", "40 links"]
)
def test_long_chains(links, sides, monkeypatch):
    """Loops over the links of a run, written out link by link, and Cartesian coordinates: the same to 1e-10."""
    mech, rng = branched(links, sides), np.random.default_rng(7)
    space = mbs.joint_space(mech)
    theta, rate = (jnp.asarray(rng.uniform(-0.5, 0.5, space.n)) for _ in range(2))

    def motion(mech, theta, rate):
        equations, t = JOINTS.equations(mech), jnp.zeros(())
        a, *_ = equations.accelerations(theta, rate, t)
        q, v, a = equations.to_bodies(theta, rate, a, t)
        return q, v, a, equations.multipliers(theta, rate, t), *equations.from_bodies(q, v, t)

    # The first link hangs at the origin, whose zeros are structure: it is not like the others.
    assert [run.stop - run.start for run in space.runs] == [1, links - 1, *[1] * 2 * len(sides)]
    found = mbs.program(motion)(mech, theta, rate)
    q, v, a, multipliers, *again = found
    assert size(again[0] - theta) < 1e-11
    assert size(again[1] - rate) < 1e-10

    monkeypatch.setattr(recursion, "MIN_BODIES_IN_LOOP", 10**6)
    assert not any(run.loop for run in mbs.joint_space(mech).runs)
    for one, other in zip(found, mbs.program(motion)(mech, theta, rate), strict=True):
        assert size(one - other) < 1e-10 * max(1, size(other))

    force = mbs.program(lambda mech, q, v: mbs.Augmented().equations(mech).force(q, v, jnp.zeros(())))(mech, q, v)
    phi_q, mass = np.asarray(mbs.constraint_jacobian(mech, q)), np.asarray(mbs.mass_matrix(mech, q))
    rows, columns = phi_q.shape
    matrix = np.block([[mass, -phi_q.T], [phi_q, np.zeros((rows, rows))]])
    solution = np.linalg.solve(matrix, np.concatenate([force, mbs.acceleration_rhs(mech, q, v)]))
    assert size(a - solution[:columns]) < 1e-10 * size(solution[:columns])
    assert size(multipliers - solution[columns:]) < 1e-10 * size(solution[columns:])


# --- motion ---------------------------------------------------------------------------------------------------------------


def double_pendulum(lengths=(1.0, 0.8)):
    """Two rods of the plane."""
    first, second = lengths
    return mbs.Mechanism(
        {"first": problems.rod(first), "second": problems.rod(second)},
        {
            "O": planar.Revolute(GROUND, "first", (0, 0), jnp.stack([-first / 2, 0 * first])),
            "A": planar.Revolute(
                "first", "second", jnp.stack([first / 2, 0 * first]), jnp.stack([-second / 2, 0 * second])
            ),
        },
        forces={"gravity": GRAVITY},
    )


def hanging(lengths=(1.0, 0.8), angles=(0.4, -0.3)):
    first = lengths[0] * problems.unit(jnp.asarray(angles[0]))
    second = first + lengths[1] * problems.unit(jnp.asarray(angles[1]))
    return {"first": problems.bar(0 * first, first), "second": problems.bar(first, second)}


def test_order_of_convergence():
    """RK4 on an open chain: order 4 within 0.2; an adaptive method finds the same."""
    times, mech = np.linspace(0, 1, 3), double_pendulum()
    run = lambda **options: mbs.simulate(mech, times, hanging(), formulation=JOINTS, **options)
    exact = run(step=5e-4)
    errors = [size(run(step=h).q - exact.q) for h in (0.02, 0.01)]
    assert abs(np.log2(errors[0] / errors[1]) - 4) < 0.2
    adaptive = run(method=mbs.Adaptive(1e-10, 1e-12))
    assert not adaptive.status.any()
    assert size(adaptive.q - exact.q) < 1e-8
    assert gap(mech, exact) < 1e-14
    assert size(exact.energy.total - exact.energy.total[0]) < 1e-10
    cartesian = mbs.simulate(mech, times, hanging(), step=5e-4)
    assert size(exact.q - cartesian.q) < 1e-9


@pytest.mark.parametrize(
    "formulation",
    [
        mbs.Augmented(),
        JOINTS,
    ],
    ids=["Cartesian", "joints"],
)
def test_energy_by_semi_implicit_euler_is_bounded(formulation):
    """A double pendulum over 50 s: the energy swings in proportion to the step and does not drift."""
    mech, times = double_pendulum(), np.linspace(0, 50, 501)
    spreads = []
    for h in (2e-3, 1e-3):
        start = hanging(angles=(-1.2, -1.9))
        run = mbs.simulate(mech, times, start, step=h, method=mbs.SemiImplicitEuler(), formulation=formulation)
        assert not run.status.any()
        energy = np.asarray(run.energy.total) - float(run.energy.total[0])
        spreads.append(size(energy))
        assert size(energy[251:]) < 1.5 * size(energy[:251])
    assert 1.6 < spreads[0] / spreads[1] < 2.5


def test_generalized_alpha():
    """Against the same method in Cartesian coordinates: both converge with order 2 to the same motion."""
    mech, times = double_pendulum(), np.linspace(0, 1, 3)
    exact = mbs.simulate(mech, times, hanging(), step=5e-4, formulation=JOINTS)
    errors = []
    for h in (2e-3, 1e-3):
        both = [
            mbs.simulate(mech, times, hanging(), step=h, method=mbs.GeneralizedAlpha(0.9), formulation=formulation)
            for formulation in (JOINTS, mbs.Augmented())
        ]
        errors.append([size(run.q - exact.q) for run in both])
    orders = np.log2(np.divide(*errors))
    assert np.all(np.abs(orders - 2) < 0.2)
    assert np.max(errors[1]) < 1e-4


@pytest.mark.slow
def test_derivatives_by_a_length():
    """Of the last position, forward as reverse to 1e-10, central differences to 1e-6, in a batch of designs."""
    times = np.linspace(0, 0.5, 2)

    def tip(lengths):
        start = hanging(lengths)
        run = mbs.simulate(double_pendulum(lengths), times, start, step=5e-3, formulation=JOINTS)
        return run.q[-1, 3] + 2 * run.q[-1, 5]

    x = jnp.array([1.0, 0.8])
    forward = jax.jacfwd(tip)(x)
    reverse = jax.jacrev(tip)(x)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)
    h = 1e-5
    batch = jax.vmap(tip)(x + h * jnp.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
    differences = np.array([batch[0] - batch[1], batch[2] - batch[3]]) / (2 * h)
    np.testing.assert_allclose(forward, differences, rtol=1e-6)
    designs = jnp.stack([x, 1.1 * x])
    np.testing.assert_allclose(
        jax.vmap(jax.grad(tip))(designs), jnp.stack([reverse, jax.jacrev(tip)(1.1 * x)]), rtol=1e-10
    )


def momenta(mech, q, v):
    """Linear and angular momentum about the origin, in the ground frame."""
    linear, angular = jnp.zeros(3), jnp.zeros(3)
    for name, body in mech.bodies.items():
        pose = mech.layout.pose(name, q)
        momentum = body.mass_matrix(pose) @ v[mech.layout.velocity_slices[name]]
        linear += momentum[:3]
        angular += jnp.cross(pose.r, momentum[:3]) + pose.direction(momentum[3:])
    return jnp.concatenate([linear, angular])


def test_a_floating_tree_keeps_its_momenta():
    """Four bodies, a spring between two of them, no weight: linear and angular momentum to 1e-10 over 1 s, and energy."""
    rng = np.random.default_rng(11)
    structure = mechanisms.tree_structure(
        np.random.default_rng(1), 4, ("Revolute", "Spherical", "Cylindrical", "Universal"), floating=True, branching=0.7
    )
    drawn, q = mechanisms.draw(rng, structure)
    spring = mbs.Spring("body 0", "body 3", (0.2, 0, 0.1), (0, 0.3, 0), 5.0, 0.8)
    mech = mbs.Mechanism(drawn.bodies, drawn.constraints, forces={"spring": spring})
    v = mechanisms.random_velocity(rng, mech, q)
    run = mbs.simulate(mech, np.linspace(0, 1, 6), q, v, step=1e-3, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-13
    found = np.asarray(jax.jit(jax.vmap(lambda q, v: momenta(mech, q, v)))(run.q, run.v))
    for part in (found[:, :3], found[:, 3:]):
        assert np.linalg.norm(part[0]) > 0.1
        assert size(part - part[0]) < 1e-10 * np.linalg.norm(part[0])
    assert size(run.energy.total - run.energy.total[0]) < 1e-9 * size(run.energy.kinetic)
    assert size(run.q[-1] - q) > 0.1


# --- published motions with loops -----------------------------------------------------------------------------------------


def test_four_bar_under_a_constant_torque():
    """The reference's first 0.1 s at its gates, and the gap."""
    check_four_bar(0.11)


@pytest.mark.slow
def test_four_bar_under_a_constant_torque_in_full():
    """Crank angle to 1e-8 until 0.5 s, to 1e-7 until 1 s; energy less the torque's work is constant."""
    check_four_bar(2.0)


def check_four_bar(end):
    problem, b = reference("planar_four_bar_dynamics"), problems.four_bar_design()
    mech, start = four_bar()
    rows = np.array(problem["rows"])
    rows = dict(zip(problem["columns"], rows[rows[:, problem["columns"].index("time")] < end].T, strict=True))
    times, rate = np.append(0.0, rows["time"]), {"crank.phi": problem["initial_state"]["omega2"]}
    run = mbs.simulate(mech, times, start, rate, step=5e-5, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    early = rows["time"] <= 0.5
    for name, body in (("2", "crank"), ("3", "coupler"), ("4", "rocker")):
        error = np.abs(run.position(f"{body}.phi")[1:] - rows[f"theta{name}"])
        assert error[early].max() < 1e-8
        assert error.max() < 1e-7
        np.testing.assert_allclose(run.velocity(f"{body}.phi")[1:], rows[f"omega{name}"], rtol=1e-7)
    np.testing.assert_allclose(run.acceleration("crank.phi")[1:], rows["alpha2"], rtol=1e-6)
    balance = run.energy.total - b["torque"] * run.position("crank.phi")
    np.testing.assert_allclose(balance[1:], rows["energy_minus_torque_times_theta2"], rtol=0, atol=1e-8)


def test_andrews():
    """The first 0.005 s of the squeezing mechanism: q to 1e-8."""
    check_andrews(0.006)


@pytest.mark.slow
def test_andrews_in_full():
    """The squeezing mechanism at 0.03 s: q to 1e-8, velocities, accelerations and multipliers as good as the print."""
    check_andrews(1.0)


def check_andrews(end):
    problem = reference("andrews")
    length, printed = problem["parameters"]["lengths_m"], problem["reference_at_t_0.03"]
    mech = problems.andrews(length)
    rows = np.array(problem["trajectory"]["rows"])
    rows = rows[rows[:, 0] < end]
    start = problems.andrews_start(length, problems.andrews_angles(problem["q_initial"]))
    run = mbs.simulate(mech, np.append(0.0, rows[:, 0]), start, step=1e-5, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    wanted = np.array([list(problems.andrews_angles(row[1:8]).values()) for row in rows])
    np.testing.assert_allclose(run.q[1:, 2::3], wanted, rtol=0, atol=1e-8)
    if end > 0.03:
        for found, name, tolerance in ((run.q, "q", 1e-8), (run.v, "qd", 2e-7), (run.a, "qdd", 5e-6)):
            angles = np.array(list(problems.andrews_angles(printed[name]).values()))
            np.testing.assert_allclose(found[-1, 2::3], angles, rtol=0 if name == "q" else tolerance, atol=1e-8)
        found = mbs.reactions(mech, run, formulation=JOINTS)
        # The loops of the source close at E; its multipliers are the forces of FE on the others there.
        forces = np.concatenate([found[f"E {body}"].force[-1] for body in ("BDE", "EG", "EH")])
        np.testing.assert_allclose(forces, printed["multipliers"], rtol=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("end", [0.5, 10.0])
def test_bricard(end):
    """IFToMM A04, with a redundant equation in the cut joint: energy, gap, and P3 against the motion in closed form."""
    mech, start = spatial_problems.bricard()
    times = np.linspace(0, end, 2 if end < 1 else 101)
    run = mbs.simulate(mech, times, start, step=2e-3, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    assert size(run.energy.total - run.energy.total[0]) < 1e-9
    psi, _ = spatial_problems.bricard_model().motion(times, [3 * np.pi], [0.0])
    points = jax.vmap(lambda x: spatial_problems.bricard_hexagon(x[0]))(psi)
    for k, name in enumerate(spatial_problems.RODS):
        np.testing.assert_allclose(run.point(name, (0.5, 0, 0)), points[:, k + 1], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_spatial_slider_crank():
    """Haug 12.2 over 1 s: positions to 1e-9, velocities to 2e-9, energy to 1e-10."""
    rows = np.array(reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"])
    mech, start = spatial_problems.slider_crank()
    run = mbs.simulate(mech, rows[:, 0], start, {"crank.wx": rows[0, 4]}, step=2e-4, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    np.testing.assert_allclose(run.position("slider.x"), rows[:, 1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.velocity("slider.x"), rows[:, 2], rtol=0, atol=2e-9)
    np.testing.assert_allclose(run.velocity("crank.wx"), rows[:, 4], rtol=0, atol=2e-9)
    np.testing.assert_allclose(run.point("rod"), rows[:, 5:8], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.energy.total, rows[:, 11], rtol=0, atol=1e-10)


@pytest.mark.slow
def test_stiff_flyball_governor():
    """IFToMM A05 at full stiffness over 10 s, a tree: s(t) against a model with three coordinates, energy lost."""
    times = np.linspace(0, 10, 101)
    model, x, v = spatial_problems.governor_model()
    wanted, rates = model.motion(times, x, v, "Radau", rtol=1e-9, atol=1e-11)
    mech, start, spinning = spatial_problems.governor()
    run = mbs.simulate(mech, times, start, spinning, step=1e-4, method=mbs.GeneralizedAlpha(0.8), formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    np.testing.assert_allclose(run.position("slider.z"), wanted[:, 2], rtol=0, atol=5e-7)
    np.testing.assert_allclose(run.velocity("shaft.wz"), rates[:, 0], rtol=1e-6)
    assert np.all(np.diff(run.energy.total) < 0)
    lost = model.energy(wanted, rates) - model.energy(wanted, rates)[0]
    np.testing.assert_allclose(run.energy.total - run.energy.total[0], lost, rtol=0, atol=2e-6)
