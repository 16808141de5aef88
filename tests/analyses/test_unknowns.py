"""Assembly and kinematics in joint coordinates have the results, statuses and derivatives of those of the bodies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from random_mechanisms import random_closed, stacked

BODIES = mbs.Augmented()
JOINTS = mbs.JointCoordinates()
TIMES = np.linspace(0, 2, 9)


def four_bar(crank=1.0, rate=1.5):
    """A driven four-bar; the motor's motion closes over its rate."""
    bodies = {name: planar.Body() for name in ("crank", "rod", "rocker")}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (crank, 0), (0, 0)),
        "B": planar.Revolute("rod", "rocker", (3.0, 0), (2.5, 0)),
        "C": planar.Revolute("ground", "rocker", (3.5, 0), (0, 0)),
    }
    motor = planar.RevoluteDriver("ground", "crank", mbs.motion.Function(lambda t: 0.4 + rate * t))
    return mbs.Mechanism(bodies, joints, {"motor": motor})


def space_crank(crank=1.0, rate=1.0):
    """A crank and a rocker about skew axes, with a rod between two balls, which may spin."""
    bodies = {name: spatial.Body() for name in ("crank", "rod", "rocker")}
    joints = {
        "O": spatial.Revolute("ground", "crank", axis_i=(0, 0, 1)),
        "A": spatial.Spherical("crank", "rod", (crank, 0, 0), (0, 0, 0)),
        "B": spatial.Spherical("rod", "rocker", (0, 3.0, 0), (0, 0, 2.0)),
        "C": spatial.Revolute("ground", "rocker", (0.5, 3, -1.5), (0, 0, 0), axis_i=(1, 0, 0)),
    }
    motor = spatial.RevoluteDriver("ground", "crank", axis_i=(0, 0, 1), motion=mbs.motion.Ramp(rate=rate, start=0.4))
    return mbs.Mechanism(bodies, joints, {"motor": motor})


PLANAR_GUESS = {"crank": (0, 0, 0.5), "rod": (1, 0.4, 0.9), "rocker": (3.5, 0, 1.8)}
SPATIAL_GUESS = {
    "crank": spatial.coordinates((0, 0, 0), (0, 0, 0.4)),
    "rod": spatial.coordinates((1, 0.3, 0), (0, 0, 0.1)),
    "rocker": spatial.coordinates((0.5, 3, -1.5), (0.1, 0, 0)),
}
CASES = {"plane": (four_bar, PLANAR_GUESS), "space": (space_crank, SPATIAL_GUESS)}


def results_without_spin(mech, run):
    """Return q, v and v̇ without the rotation of a rod that may spin."""
    spins = mech.layout.dimension == 3
    keep = lambda names: np.array([not (spins and name.startswith(("rod.e", "rod.w"))) for name in names])
    q, v = keep(mech.layout.coordinates), keep(mech.layout.velocities)
    return run.q[:, q], run.v[:, v], run.a[:, v]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "formulation", [JOINTS, mbs.JointCoordinates(cut="A"), mbs.Kane()], ids=["tree", "cut", "Kane"]
)
def test_motion_does_not_depend_on_the_formulation(case, formulation):
    make, guess = CASES[case]

    def motion(design, formulation):
        run = mbs.kinematics(make(*design), TIMES, guess, formulation=formulation)
        return results_without_spin(make(), run), run.status

    design = jnp.array([1.0, 1.2])
    (found, status), (expected, _) = (motion(design, f) for f in (formulation, BODIES))
    assert not np.any(status)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=2e-13 * np.abs(b).max()), found, expected)
    slope = lambda formulation: jax.jacrev(lambda b: sum(x.sum() for x in motion(b, formulation)[0]))(design)
    np.testing.assert_allclose(slope(formulation), slope(BODIES), rtol=1e-11)


@pytest.mark.parametrize("case", CASES)
def test_the_nearest_configuration_and_its_derivatives_are_the_same(case):
    make, guess = CASES[case]
    driven = make()
    free = mbs.Mechanism(driven.bodies, driven.constraints)
    start = free.layout.retract(free.coordinates(guess), 0.2 * np.sin(np.arange(free.layout.m)))

    def assembled(mech, start, formulation):
        found = mbs.assemble(mech, start, formulation=formulation)
        return found.q, found.status

    def with_derivatives(formulation):
        q, status = assembled(free, start, formulation)
        weights = jnp.arange(1.0, q.size + 1)
        slopes = jax.grad(lambda mech, start: assembled(mech, start, formulation)[0] @ weights, (0, 1))(free, start)
        return q, status, jax.tree.leaves(slopes)

    found, expected = (with_derivatives(f) for f in (JOINTS, BODIES))
    assert found[1] == expected[1] == mbs.Status.CONVERGED
    np.testing.assert_allclose(found[0], expected[0], atol=1e-13)
    for a, b in zip(found[2], expected[2], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_held_coordinates_are_kept_and_an_assembled_guess_is_returned():
    mech = four_bar()
    free = mbs.Mechanism(mech.bodies, mech.constraints)
    found = mbs.assemble(free, PLANAR_GUESS, hold=("rod.phi",), formulation=JOINTS)
    assert found.status == 0
    assert abs(found.q[5] - 0.9) < 1e-14
    again = mbs.assemble(free, found.q, formulation=JOINTS)
    np.testing.assert_allclose(again.q, found.q, atol=1e-15)


def test_statuses_of_a_batch():
    """A sample that locks up, one that cannot be assembled and one with NaN leave their neighbours alone."""
    cranks = np.array([1.0, 2.9, 9.0, np.nan, 1.1])
    runs = [
        jax.jit(jax.vmap(lambda b, f=f: mbs.kinematics(four_bar(b), TIMES, PLANAR_GUESS, formulation=f)))(cranks)
        for f in (JOINTS, BODIES)
    ]
    found, expected = runs
    np.testing.assert_array_equal(found.status, expected.status)
    kinds = [set(np.asarray(row).tolist()) for row in found.status]
    assert kinds == [
        {0},
        {0, int(mbs.Status.LOCKED_UP)},
        {int(mbs.Status.NOT_ASSEMBLED)},
        {int(mbs.Status.NON_FINITE)},
        {0},
    ]
    # After a lock-up the last good row is repeated, the driven crank included.
    for name in ("q", "v", "a"):
        a, b = (np.asarray(getattr(run, name))[[0, 1, 4]] for run in runs)
        np.testing.assert_allclose(a, b, atol=1e-12 * np.abs(b).max())
    total = lambda cranks: jnp.sum(
        jax.vmap(lambda b: mbs.kinematics(four_bar(b), TIMES, PLANAR_GUESS, formulation=JOINTS).q)(cranks)
    )
    slope = np.asarray(jax.grad(total)(cranks))
    assert np.all(np.isfinite(slope))
    assert np.all(slope[[2, 3]] == 0)
    assert np.all(slope[[0, 4]] != 0)


def test_a_branch_through_a_bifurcation():
    """A crank and a rod of the same length: folded, the slider may stay on the crank's axis or go on."""
    bodies = dict.fromkeys(("crank", "rod", "slider"), planar.Body())
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (1, 0), (0, 0)),
        "B": planar.Revolute("rod", "slider", (1, 0), (0, 0)),
        "guide": planar.Translational("ground", "slider", (0, 0), (0, 0), (1, 0), (1, 0)),
    }
    mech = mbs.Mechanism(bodies, joints, {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))})
    folded = mbs.find_singularities(mech, np.linspace(1, 2, 5), {"rod": (0.5, 0.8, -1)})
    times = np.append(folded.times, 2.0)
    for branch in folded.tangents[0]:
        found, expected = (
            mbs.kinematics(mech, times, folded.q[0], branch=branch, formulation=f) for f in (JOINTS, BODIES)
        )
        assert list(found.status) == list(expected.status) == [mbs.Status.SINGULAR, 0]
        np.testing.assert_allclose(found.q, expected.q, atol=1e-7)


def test_a_vanishing_derivative_is_singular():
    """A pendulum whose height is driven, at its lowest point: the only entry of Φ_θ is zero."""
    rod = planar.Revolute("ground", "rod", (0, 0), (0, 1))
    lift = planar.AbsoluteYDriver("rod", (0, 0), mbs.motion.Polynomial((-0.9, -0.1)))
    mech = mbs.Mechanism({"rod": planar.Body()}, {"pin": rod}, {"lift": lift})
    for formulation in (JOINTS, BODIES):
        run = mbs.kinematics(mech, np.linspace(0, 2, 9), {"rod": (0.4, -0.9, 0.4)}, formulation=formulation)
        assert run.status[0] == 0
        assert run.status[4] in (mbs.Status.SINGULAR, mbs.Status.LOCKED_UP)
        assert np.all(np.asarray(run.status)[5:] == mbs.Status.LOCKED_UP)


@pytest.mark.variant
def test_random_loops_in_space_agree():
    rng = np.random.default_rng(3)
    options = {"structure_seed": 4, "driver": True, "kinds": ("Revolute", "Universal", "Spherical", "Prismatic")}
    samples = [random_closed(rng, 3, **options) for _ in range(200)]
    mech, q = stacked(samples)
    guess = jax.vmap(samples[0][0].layout.retract)(q, rng.uniform(-0.01, 0.01, (200, samples[0][0].layout.m)))
    assemble = lambda formulation: jax.jit(jax.vmap(lambda mech, q: mbs.assemble(mech, q, formulation=formulation)))(
        mech, guess
    )
    found, expected = assemble(JOINTS), assemble(BODIES)
    assert not np.any(found.status)
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_allclose(found.q, expected.q, atol=1e-11)


def tower(count):
    """A chain of bodies on hinges, with a rod from the last one to the ground."""
    bodies = {f"link {k}": spatial.Body() for k in range(count)}
    names = ["ground", *bodies]
    hinges = {
        f"hinge {k}": spatial.Revolute(names[k], names[k + 1], (0, 0, 1.0), (0, 0, 0), axis_i=np.eye(3)[k % 3])
        for k in range(count)
    }
    stay = {"stay": spatial.Distance("ground", names[-1], (1.0, 0.5, 0), (0, 0, 0), distance=count - 0.5)}
    return mbs.Mechanism(bodies, hinges | stay)


@pytest.mark.variant
def test_large_mechanisms_get_joint_coordinates():
    explanation = mbs.explain(tower(8), {f"link {k}": spatial.coordinates((0, 0, k + 1)) for k in range(8)})
    assert explanation.unknowns == "coordinates of the joints, 8 velocities"
    assert explanation.unknowns in str(explanation)
    assert mbs.explain(four_bar(), PLANAR_GUESS, simulation=False).unknowns == "coordinates of the bodies, 9 velocities"


def test_bodies_that_are_fixed_leave_no_unknowns():
    mech = mbs.Mechanism({"plate": spatial.Body()}, {"weld": spatial.Rigid("ground", "plate", (1, 2, 3))})
    found = mbs.assemble(mech, {"plate": spatial.coordinates((1.1, 2, 3))}, formulation=JOINTS)
    assert found.status == 0
    np.testing.assert_allclose(found.q, [1, 2, 3, 1, 0, 0, 0], atol=1e-14)


def test_unsuitable_formulations_raise():
    for analysis in (
        lambda f: mbs.assemble(four_bar(), formulation=f),
        lambda f: mbs.kinematics(four_bar(), TIMES, formulation=f),
    ):
        with pytest.raises(ValueError, match=r"coordinates of mbs\.Natural\(\); give mbs\.Augmented\(\)"):
            analysis(mbs.Natural())
        with pytest.raises(ValueError, match=r"write formulation=mbs\.JointCoordinates\(\)"):
            analysis(mbs.JointCoordinates)
