"""Natural coordinates: counts of the textbook, constant mass matrix, equivalence to Cartesian coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynamic_problems as problems
import jaxmbs as mbs
import spatial_problems
from jaxmbs import planar, spatial
from jaxmbs.formulations.augmented import CartesianEquations
from jaxmbs.formulations.natural.natural import NaturalEquations
from jaxmbs.programs import ProgramWithFallback
from linkages import reference
from norms import size

DOWN = {2: mbs.Gravity((0, -9.81)), 3: mbs.Gravity((1.0, 2.0, -9.81))}


def four_bar():
    b = problems.four_bar_design()
    start = reference("planar_four_bar_dynamics")["initial_state"]
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    return problems.four_bar(b), problems.four_bar_start(b, angles)


def planar_body(k):
    return planar.Body(1.0 + k, 0.5 - 0.1 * k, (0.1 * k, 0.2))


def driven_crank():
    """A crank with a driver that counts turns, a rod with a third pin, a slider on a moving rail."""
    return mbs.Mechanism(
        {name: planar_body(k) for k, name in enumerate(("crank", "rod", "slider", "rail", "bob"))},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (-0.5, 0.1)),
            "A": planar.Revolute("crank", "rod", (0.5, 0.2), (-1, 0)),
            "A, too": planar.Revolute("bob", "rod", (0.3, 0.2), (-1, 0)),
            "B": planar.Revolute("rod", "slider", (1, 0.1), (0.1, 0)),
            "guide": planar.Translational("rail", "slider", (0, 0.1), (0, -0.1), (1, 2), (2, 1)),
            "R": planar.Revolute("ground", "rail", (1, 0.2), (-0.5, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(3.0, 7.0))},
        {"gravity": DOWN[2], "spring": mbs.TorsionSpring("rod", "slider", 2.0, 0.3)},
    ), {"crank": (0, 0, 7.0), "rod": (1, 1, 0.3), "slider": (2, 1, 2.0), "rail": (1.5, 1.0, 1.3), "bob": (0.5, 0, 0.2)}


def planetary():
    """A wheel on an arm that rolls on a fixed one: extra coordinates."""
    return mbs.Mechanism(
        {"arm": planar_body(0), "wheel": planar_body(1)},
        {
            "O": planar.Revolute("ground", "arm", (0, 0), (0, 0)),
            "P": planar.Revolute("arm", "wheel", (0.5, 0), (0, 0)),
            "gear": planar.Gear("ground", "wheel", (0, 0), (0, 0), 0.2, 0.3, 0.0, 0.0),
        },
        forces={"gravity": DOWN[2]},
    ), {"wheel": (0.5, 0, 0)}


def opposite():
    """A translational joint assembled with opposite axes."""
    return mbs.Mechanism(
        {"a": planar_body(0), "b": planar_body(1)},
        {
            "O": planar.Revolute("ground", "a", (0, 0), (-0.5, 0.1)),
            "rail": planar.Translational("a", "b", (0.2, 0.1), (0, 0.3), (1, 2)),
        },
        forces={"gravity": DOWN[2]},
    ), {"a": (0.5, 0, 0.3), "b": (0.8, 0.5, 0.3 + np.pi)}


def spatial_body(k):
    return spatial.Body(1.0 + k, np.diag([0.3, 0.4, 0.5]) + 0.05, (0.1, -0.2, 0.3))


def open_chain():
    """Joints that share an axis, a point, both or nothing; bodies with two axes."""
    axes = {"axis_i": (1.0, 2.0, 0.5), "axis_j": (0.3, -0.2, 0.8)}
    names = ("carrier", "arm", "screw", "end")
    return mbs.Mechanism(
        {name: spatial_body(k) for k, name in enumerate(names)},
        {
            "base": spatial.Cylindrical("ground", "carrier", (0, 0, 1), (0.2, 0.1, 0.3)),
            "hinge": spatial.Revolute("carrier", "arm", (0.3, 0.2, -0.1), (0.5, 0, 0.2), **axes),
            "thread": spatial.Screw("arm", "screw", (0, 0.2, -0.1), (0.5, 0.4, 0.2), (0, 1, 1), pitch=0.3),
            "cross": spatial.Universal("screw", "end", (1, 0, 0), (0, 0, 0)),
        },
        forces={"gravity": DOWN[3], "pull": mbs.PointForce("end", (0.1, 0.2, 0.3), (1.0, 2.0, 3.0))},
    ), {name: spatial.coordinates((0.3 * k, 0.1, 0.8), jnp.array((0.1, 0.2, 0.3 * k))) for k, name in enumerate(names)}


# Mechanism and start, the numbers of natural coordinates and of rows of Ψ, and of rows that say what others say.
CASES = {
    "four-bar": (four_bar, 4, 3, 0),
    "driven crank": (driven_crank, 10, 8, 0),
    "planetary": (planetary, 4, 3, 0),
    "opposite": (opposite, 4, 2, 0),
    "spatial slider-crank": (lambda: spatial_problems.slider_crank()[:2], 27, 26, 0),
    "open chain": (open_chain, 39, 33, 0),
    "Bricard": (spatial_problems.bricard, 54, 54, 1),
}


def state(mech, guess):
    """An assembled configuration and velocities that fit, some at random."""
    start = mbs.assemble(mech, guess)
    assert int(start.status) == 0
    v = jnp.asarray(np.random.default_rng(5).normal(size=mech.layout.m))
    close = lambda mech, q, v: CartesianEquations(mech).solver.close_velocity(q, v, jnp.zeros(()))
    return start.q, ProgramWithFallback(close)(mech, start.q, v)


def with_slow(*slow):
    """The names of all cases, those marked that take long."""
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in slow)) for name in CASES]
    )


@pytest.mark.one_in(3)
@with_slow("open chain", "Bricard", "spatial slider-crank")
def test_constraints(name):
    """Counts; Ψ = 0 and Ψ̇ = 0 follow from Φ = 0 and Φ̇ = 0; the kinetic energy is ½ ẋᵀM ẋ."""
    build, columns, rows, redundant = CASES[name]
    mech, guess = build()
    q, v = state(mech, guess)
    view = mbs.Natural().of(mech)
    x, u = view.coordinates(q), view.velocities(q, v)
    jacobian = np.asarray(view.constraint_jacobian(x, near=q))
    rank = np.linalg.matrix_rank(jacobian, 1e-9)
    assert jacobian.shape == (rows, columns)
    assert len(view.names) == columns
    assert rank == rows - redundant
    assert columns - rank == mbs.diagnose(mech, q).free
    assert size(view.constraints(x, near=q)) < 1e-12
    by_time = lambda t: view.constraints(x, t, near=q)
    assert size(jacobian @ u + jax.jvp(by_time, (0.0,), (1.0,))[1]) < 1e-11 * max(1, size(u))

    mass = np.asarray(view.mass_matrix(x, near=q))
    np.testing.assert_allclose(u @ mass @ u / 2, mbs.energy(mech, q, v).kinetic, rtol=1e-12)


def described(mech, q, v):
    """There and back, accelerations and multipliers, and what they should be."""
    equations, expected, t = NaturalEquations(mech), CartesianEquations(mech), jnp.zeros((), q.dtype)
    x, u = equations.from_bodies(q, v, t)
    a, *_ = equations.accelerations(x, u, t)
    found = (*equations.to_bodies(x, u, a, t), equations.multipliers(x, u, t))
    return found, (q, v, expected.accelerations(q, v, t)[0], expected.multipliers(q, v, t))


@with_slow("spatial slider-crank", "open chain", "Bricard")
def test_accelerations_and_multipliers(name):
    """Those of Cartesian coordinates, to 1e-9, multipliers where they are unique."""
    mech, guess = CASES[name][0]()
    found, expected = ProgramWithFallback(described)(mech, *state(mech, guess))
    compared = list(zip(found, expected, (1e-12, 1e-11, 1e-9, 1e-9), strict=True))
    for got, wanted, tolerance in compared[: 3 if CASES[name][3] else 4]:
        assert size(got - wanted) < tolerance * max(1, size(wanted))


def test_coordinates_of_the_four_bar():
    """The two moving pins, and three lengths: García de Jalón and Bayo, section 2.1."""
    mech, guess = four_bar()
    q, b = mbs.assemble(mech, guess).q, problems.four_bar_design()
    view = mbs.Natural().of(mech)
    assert view.names == ("A.x", "A.y", "B.x", "B.y")
    a, pin = np.split(np.asarray(view.coordinates(q)), 2)
    np.testing.assert_allclose(a, mech.point(q, "crank", (b["crank"] / 2, 0)), atol=1e-14)
    np.testing.assert_allclose(pin, mech.point(q, "rocker", (b["rocker"] / 2, 0)), atol=1e-12)
    a, pin = a + 0.1, pin - 0.2
    bars = a, pin - a, pin - np.array([b["ground"], 0])
    gaps = [bar @ bar - b[name] ** 2 for bar, name in zip(bars, ("crank", "coupler", "rocker"), strict=True)]
    np.testing.assert_allclose(sorted(view.constraints(np.append(a, pin))), sorted(gaps), atol=1e-14)


@pytest.mark.parametrize("build", [driven_crank, open_chain])
def test_the_mass_matrix_is_constant(build):
    mech, guess = build()
    rng, space = np.random.default_rng(1), NaturalEquations(mech).space
    mass = jax.jit(lambda mech, q, d: NaturalEquations(mech).mass(space.retract(q, d), 0.0))
    q = mech.coordinates(guess)
    x = space.with_attitudes(space.of_bodies(q), q)
    masses = [mass(mech, x, jnp.asarray(0.1 * rng.normal(size=space.m))) for _ in range(2)]
    np.testing.assert_allclose(*masses, rtol=1e-13, atol=1e-14)


METHODS = {"RK4": (mbs.RK4(), 4), "generalized-alpha": (mbs.GeneralizedAlpha(0.9), 2)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
def test_motion_of_a_four_bar(method):
    """Errors against small steps in Cartesian coordinates fall at least with the order; turns of the crank count."""
    mech, guess = four_bar()
    q, times, (method, order) = mbs.assemble(mech, guess).q, np.linspace(0, 1.0, 5), METHODS[method]
    run = lambda step, *args: mbs.simulate(
        mech, times, q, {"crank.phi": 15.0}, step=step, method=args[0], formulation=args[1]
    )
    exact = run(5e-5, mbs.RK4(), mbs.Augmented())
    errors = []
    for step in (5e-4, 2.5e-4):
        found = run(step, method, mbs.Natural())
        assert not found.status.any()
        errors.append(size(found.q - exact.q))
    assert size(exact.position("crank.phi")) > 3 * np.pi
    assert np.log2(errors[0] / errors[1]) > order - 0.1


@pytest.mark.slow
def test_spatial_slider_crank():
    """Haug 12.2 over 0.2 s: positions to 1e-9, velocities to 2e-9, energy to 1e-10; reactions as Cartesian ones."""
    rows = np.array(reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"])[:3]
    mech, start = spatial_problems.slider_crank()
    given, natural = {"crank.wx": rows[0, 4]}, mbs.Natural()
    run = mbs.simulate(mech, rows[:, 0], start, given, step=2e-4, formulation=natural)
    assert not run.status.any()
    np.testing.assert_allclose(run.position("slider.x"), rows[:, 1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.velocity("slider.x"), rows[:, 2], rtol=0, atol=2e-9)
    np.testing.assert_allclose(run.velocity("crank.wx"), rows[:, 4], rtol=0, atol=2e-9)
    np.testing.assert_allclose(run.point("rod"), rows[:, 5:8], rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.energy.total, rows[:, 11], rtol=0, atol=1e-10)
    forces = [mbs.reactions(mech, run, formulation=f) for f in (natural, mbs.Augmented())]
    for name in mech.constraints:
        for part in ("force", "torque", "multipliers"):
            found, expected = (getattr(by[name], part) for by in forces)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * size(forces[1][name].force))


@pytest.mark.slow
def test_spatial_slider_crank_by_generalized_alpha():
    """Order 2 against the table."""
    rows = np.array(reference("spatial_slider_crank")["rows_centre_of_mass_at_pivot"])[:3]
    mech, start = spatial_problems.slider_crank()
    errors = []
    for step in (2e-3, 1e-3):
        method = mbs.GeneralizedAlpha(0.9)
        run = mbs.simulate(
            mech, rows[:, 0], start, {"crank.wx": rows[0, 4]}, step=step, method=method, formulation=mbs.Natural()
        )
        assert not run.status.any()
        errors.append(size(run.position("slider.x") - rows[:, 1]))
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.2


@pytest.mark.slow
def test_derivatives():
    """Of the last angle by a length and a mass: forward as reverse, and as in Cartesian coordinates to 1e-8; in a batch."""
    b, times = problems.four_bar_design(), np.linspace(0, 0.1, 2)
    guess = four_bar()[1]

    def angle(x, formulation):
        mech = problems.four_bar({**b, "coupler": b["coupler"] * x[0], "density": b["density"] * x[1]})
        start = mbs.assemble(mech, guess)
        return mbs.simulate(mech, times, start, step=2e-4, formulation=formulation).q[-1, 2]

    x = jnp.ones(2)
    forward = jax.jacfwd(angle)(x, mbs.Natural())
    batch = jax.vmap(jax.grad(lambda x: angle(x, mbs.Natural())))(jnp.stack([x, 1.01 * x]))
    np.testing.assert_allclose(batch[0], forward, rtol=1e-9)
    np.testing.assert_allclose(forward, jax.jacfwd(angle)(x, mbs.Augmented()), rtol=1e-8)
    assert size(batch[1] - batch[0]) > 1e-6


@pytest.mark.variant
def test_pins_that_coincide():
    """A body of the plane whose two pins are one point, with a vector of its own; without it the status tells."""
    bar = planar.Body(1.0, 0.1)
    mech = mbs.Mechanism(
        dict.fromkeys(("swing", "middle", "other"), bar),
        {
            "O": planar.Revolute("ground", "swing", (0, 0), (-0.5, 0)),
            "P": planar.Revolute("swing", "middle", (0.5, 0), (0.2, 0)),
            "Q": planar.Revolute("middle", "other", (0.2, 0), (-0.5, 0)),
        },
        forces={"gravity": DOWN[2]},
    )
    start = {"swing": (0.5, 0, 0), "middle": (0.8, 0, 0), "other": (1.5, 0, 0)}
    run = lambda formulation: mbs.simulate(mech, np.linspace(0, 0.2, 2), start, step=2e-3, formulation=formulation)
    own = run(mbs.Natural(own_vectors=("middle",)))
    assert not own.status.any()
    np.testing.assert_allclose(own.q, run(mbs.Augmented()).q, atol=1e-8)
    assert run(mbs.Natural()).status.all()


@pytest.mark.variant
def test_velocities_that_joints_do_not_allow():
    """They become the nearest ones that they do, in the metric of the kinetic energy, whatever the coordinates."""
    mech, q = four_bar()
    q, v = mech.coordinates(q), np.random.default_rng(0).normal(size=mech.layout.m)
    begun = lambda formulation: mbs.simulate(mech, np.zeros(1), q, v, formulation=formulation).v[0]
    mass, phi_q = mbs.Augmented().of(mech).mass_matrix(q), mbs.constraint_jacobian(mech, q)
    across = np.linalg.solve(mass, phi_q.T)
    nearest = v - across @ np.linalg.solve(phi_q @ across, phi_q @ v)
    for formulation in (mbs.Augmented(), mbs.Natural(), mbs.JointCoordinates(), mbs.Kane()):
        np.testing.assert_allclose(begun(formulation), nearest, rtol=0, atol=1e-12)
