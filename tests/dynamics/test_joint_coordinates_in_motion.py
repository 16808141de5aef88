"""Motion in joint coordinates: orders, energy, momenta, published motions with loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynamic_problems as problems
import jaxmbs as mbs
import random_mechanisms as mechanisms
import spatial_problems
from jaxmbs import planar
from linkages import reference
from norms import size

GROUND = "ground"
JOINTS = mbs.JointCoordinates()
GRAVITY = mbs.Gravity((0, -9.81))


def gap(mech, run):
    """The largest |Φ| of a motion."""
    return size(jax.jit(jax.vmap(lambda q, t: mbs.constraints(mech, q, t)))(run.q, run.t))


def four_bar():
    b, start = problems.four_bar_design(), reference("planar_four_bar_dynamics")["initial_state"]
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    return problems.four_bar(b), problems.four_bar_start(b, angles)


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


def test_four_bar_under_a_constant_torque():
    """The reference's first 0.1 s at its gates, and the gap; all of it is in `verification`."""
    problem, b = reference("planar_four_bar_dynamics"), problems.four_bar_design()
    mech, start = four_bar()
    rows = np.array(problem["rows"])
    rows = dict(zip(problem["columns"], rows[rows[:, problem["columns"].index("time")] < 0.11].T, strict=True))
    times, rate = np.append(0.0, rows["time"]), {"crank.phi": problem["initial_state"]["omega2"]}
    run = mbs.simulate(mech, times, start, rate, step=5e-5, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    for name, body in (("2", "crank"), ("3", "coupler"), ("4", "rocker")):
        np.testing.assert_allclose(run.position(f"{body}.phi")[1:], rows[f"theta{name}"], rtol=0, atol=1e-8)
        np.testing.assert_allclose(run.velocity(f"{body}.phi")[1:], rows[f"omega{name}"], rtol=1e-7)
    np.testing.assert_allclose(run.acceleration("crank.phi")[1:], rows["alpha2"], rtol=1e-6)
    balance = run.energy.total - b["torque"] * run.position("crank.phi")
    np.testing.assert_allclose(balance[1:], rows["energy_minus_torque_times_theta2"], rtol=0, atol=1e-8)


def test_andrews():
    """The first 0.005 s of the squeezing mechanism: q to 1e-8; all of it is in `verification`."""
    problem = reference("andrews")
    length = problem["parameters"]["lengths_m"]
    mech = problems.andrews(length)
    rows = np.array(problem["trajectory"]["rows"])
    rows = rows[rows[:, 0] < 0.006]
    start = problems.andrews_start(length, problems.andrews_angles(problem["q_initial"]))
    run = mbs.simulate(mech, np.append(0.0, rows[:, 0]), start, step=1e-5, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    wanted = np.array([list(problems.andrews_angles(row[1:8]).values()) for row in rows])
    np.testing.assert_allclose(run.q[1:, 2::3], wanted, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_bricard():
    """IFToMM A04 for half a second, with a redundant equation in the cut joint: energy, gap, the motion in closed form."""
    mech, start = spatial_problems.bricard()
    times = np.array([0, 0.5])
    run = mbs.simulate(mech, times, start, step=2e-3, formulation=JOINTS)
    assert not run.status.any()
    assert gap(mech, run) < 1e-10
    assert size(run.energy.total - run.energy.total[0]) < 1e-9
    psi, _ = spatial_problems.bricard_model().motion(times, [3 * np.pi], [0.0])
    points = jax.vmap(lambda x: spatial_problems.bricard_hexagon(x[0]))(psi)
    for k, name in enumerate(spatial_problems.RODS):
        np.testing.assert_allclose(run.point(name, (0.5, 0, 0)), points[:, k + 1], rtol=0, atol=1e-9)
