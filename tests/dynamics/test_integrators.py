"""Promises of the integration methods: order, closure, energy, stability, agreement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from dynamic_problems import DOWN, four_bar, four_bar_design, four_bar_start, rod, windows, windows_start
from jaxmbs import planar
from linkages import reference

METHODS = {
    "RK4": mbs.RK4(),
    "RK4 Baumgarte": mbs.RK4(mbs.Baumgarte()),
    "semi-implicit": mbs.SemiImplicitEuler(),
    "semi-implicit Baumgarte": mbs.SemiImplicitEuler(mbs.Baumgarte()),
    "generalized-alpha": mbs.GeneralizedAlpha(0.8),
    "HHT": mbs.HHT(-0.1),
    "partitioning": mbs.CoordinatePartitioning(),
    "adaptive": mbs.Adaptive(rtol=1e3, atol=1e3),
}
HARD = [name for name in METHODS if "Baumgarte" not in name]


@pytest.fixture(scope="module")
def problem():
    """The four-bar under a constant torque: mechanism, start, and a function that runs it."""
    b, start = four_bar_design(), reference("planar_four_bar_dynamics")["initial_state"]
    mech = four_bar(b)
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    q = mech.coordinates(four_bar_start(b, angles))

    def run(name, steps, end=0.1):
        return mbs.simulate(mech, np.array([0, end]), q, {"crank.phi": 5.0}, step=end / steps, method=METHODS[name])

    return mech, run


@pytest.fixture(scope="module")
def exact(problem):
    """The state at the end, by the default method with steps of 1/64."""
    run = problem[1]("RK4", 6400)
    return np.concatenate([run.q[-1], run.v[-1]])


@pytest.mark.parametrize("name", METHODS)
def test_order(problem, exact, name):
    """Halving the step divides the error by 2^order, within ±0.2 of the order, on a closed loop."""
    errors = []
    # Fewer where the error would be rounding.
    steps = {1: (160, 320), 5: (20, 40)}.get(METHODS[name].order, (40, 80))
    for count in steps:
        run = problem[1](name, count)
        assert not run.status.any()
        errors.append(np.abs(np.concatenate([run.q[-1], run.v[-1]]) - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - METHODS[name].order) < 0.2


@pytest.mark.parametrize("name", HARD)
def test_positions_and_velocities_are_closed(problem, name):
    """Gaps of position at rounding, and at outputs of velocity too, whatever the step."""
    mech, run = problem
    motion = run(name, 40)
    for q, v in zip(motion.q, motion.v, strict=True):
        assert np.abs(mbs.constraints(mech, q)).max() < 1e-12
        assert np.abs(mbs.constraint_jacobian(mech, q) @ v).max() < 1e-11


def test_outputs_between_adaptive_steps_are_closed(problem):
    """At a tolerance of 1e-4 too, where the interpolated state has gaps of this order."""
    mech, run = problem
    start = run("RK4", 1).q[0]
    method = mbs.Adaptive(1e-4, 1e-4)
    motion = mbs.simulate(mech, np.linspace(0, 0.5, 6), start, {"crank.phi": 5.0}, method=method, throw=True)
    for q, v in zip(motion.q, motion.v, strict=True):
        assert np.abs(mbs.constraints(mech, q)).max() < 1e-12
        assert np.abs(mbs.constraint_jacobian(mech, q) @ v).max() < 1e-11


def test_baumgarte_keeps_gaps_small_but_not_closed(problem):
    mech, run = problem
    gap = np.abs(mbs.constraints(mech, run("RK4 Baumgarte", 80).q[-1])).max()
    assert 1e-14 < gap < 1e-6


@pytest.fixture(scope="module")
def swing():
    """A double pendulum and a four-bar under gravity alone, with their starts."""
    pins = {
        "O": planar.Revolute("ground", "a", (0, 0), (-0.5, 0)),
        "A": planar.Revolute("a", "b", (0.5, 0), (-0.5, 0)),
    }
    double = mbs.Mechanism({"a": rod(1.0), "b": rod(1.0)}, pins, forces=DOWN)
    b = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5, "density": 1.0, "torque": 0.0, "g": 9.81}
    closed = four_bar(b)
    start = mbs.assemble(
        closed, {"crank": (0.3, 0.4, 1.0), "coupler": (1.9, 1.6, 0.5), "rocker": (2.9, 1.2, 1.9)}, throw=True
    )
    return {
        "double pendulum": (double, {"a": (0.5, 0, 0), "b": (1.5, 0, 0)}),
        "four-bar": (closed, start),
        "windows": (windows(1), windows_start(1, 1.0)[0]),
    }


@pytest.mark.parametrize("name", ["double pendulum", "four-bar"])
def test_energy_drift_of_the_default_method(swing, name):
    """Below 1e-8 of the energy scale over 10 s at 1 ms, with gaps below 1e-10 m."""
    mech, start = swing[name]
    run = mbs.simulate(mech, np.linspace(0, 10, 101), start, step=1e-3)
    assert not run.status.any()
    total = np.asarray(run.energy.total)
    assert np.abs(total - total[0]).max() < 1e-8 * np.asarray(run.energy.kinetic).max()
    assert max(np.abs(mbs.constraints(mech, q)).max() for q in run.q[::10]) < 1e-10


def test_semi_implicit_energy_swings_but_does_not_drift(swing):
    """Symplectic: over a hundred swings of a four-bar the mean of the energy error stays that of the first ten."""
    mech, start = swing["four-bar"]
    run = mbs.simulate(mech, np.linspace(0, 100, 2001), start, step=5e-3, method=mbs.SemiImplicitEuler())
    assert not run.status.any()
    error = np.asarray(run.energy.total - run.energy.total[0])
    first, last = error[:200], error[-200:]
    assert abs(last.mean() - first.mean()) < 0.25 * np.abs(first).max()


def test_stiff_springs_and_dampers():
    """A spring–damper with rates of −1e5 and −10 per second, steps of 10 ms: implicit methods give the slow motion."""
    stiffness, damping, mass = 1e6, 1e5 + 10.0, 1.0
    guide = planar.Translational("ground", "a", (0, 0), (0, 0), (1, 0))
    spring = mbs.SpringDamper("ground", "a", (-1, 0), (0, 0), stiffness, damping, 1.0)
    mech = mbs.Mechanism({"a": planar.Body(mass, 1.0)}, {"guide": guide}, forces={"spring": spring})
    slow = (-damping + np.sqrt(damping**2 - 4 * stiffness * mass)) / (2 * mass)
    times = np.linspace(0, 0.2, 5)
    for method in (mbs.GeneralizedAlpha(0.5), mbs.HHT(-0.2)):
        run = mbs.simulate(mech, times, {"a": (0.1, 0, 0)}, {"a.x": 0.1 * slow}, step=0.01, method=method)
        assert not run.status.any()
        np.testing.assert_allclose(run.position("a.x"), 0.1 * np.exp(slow * times), rtol=0, atol=1e-4)
    explicit = mbs.simulate(mech, times, {"a": (0.1, 0, 0)}, {"a.x": 0.1 * slow}, step=0.01)
    assert explicit.status[-1] == mbs.Status.NON_FINITE


def test_numerical_damping_of_the_alpha_methods():
    """ρ∞ is what is left of an oscillation much faster than the step, per step (Chung & Hulbert 1993)."""
    pin, spring = planar.Revolute("ground", "a", (0, 0), (0, 0)), mbs.TorsionSpring("ground", "a", 1e12)
    mech = mbs.Mechanism({"a": planar.Body(1.0, 1.0)}, {"pin": pin}, forces={"spring": spring})
    for rho in (0.8, 0.3):
        method = mbs.GeneralizedAlpha(rho)
        run = mbs.simulate(mech, 0.01 * np.arange(31), {"a.phi": 1e-7}, step=0.01, method=method)
        # The root is a triple one: after n steps n² ρⁿ of the start is left.
        size, n = np.abs(np.asarray(run.position("a.phi"))), np.arange(25, 31)
        np.testing.assert_allclose(size[n] / size[n - 1] / (n / (n - 1)) ** 2, rho, rtol=0, atol=0.02)


def test_drivers_in_dynamics_follow_their_motion(swing):
    """A driven mechanism simulated is the kinematic analysis, velocities and accelerations included."""
    mech, start = swing["four-bar"]
    driven = mbs.Mechanism(
        mech.bodies,
        mech.constraints,
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Harmonic(2.0, 3.0, 0.0, start.q[2]))},
        DOWN,
    )
    times = np.linspace(0, 1, 6)
    run, motion = mbs.simulate(driven, times, start), mbs.kinematics(driven, times, start)
    for name in ("q", "v", "a"):
        np.testing.assert_allclose(getattr(run, name), getattr(motion, name), rtol=0, atol=1e-9, err_msg=name)


def test_start_is_brought_to_the_constraints(swing):
    """q0 off by 1e-3 and any v0: the nearest consistent ones in the metric of M; named velocities are kept."""
    mech, start = swing["four-bar"]
    rng = np.random.default_rng(0)
    v = rng.normal(size=9)
    run = mbs.simulate(mech, np.array([0.0]), start.q + 1e-3 * rng.normal(size=9), v)
    q, jacobian = run.q[0], np.asarray(mbs.constraint_jacobian(mech, run.q[0]))
    assert np.abs(mbs.constraints(mech, q)).max() < 1e-15
    assert np.abs(jacobian @ run.v[0]).max() < 1e-14
    # The difference is a constraint impulse: M δv is in the row space of Φ_q.
    taken = np.asarray(mbs.Augmented().of(mech).mass_matrix(q)) @ (np.asarray(run.v[0]) - v)
    assert np.abs(taken - jacobian.T @ np.linalg.lstsq(jacobian.T, taken, rcond=None)[0]).max() < 1e-12
    kept = mbs.simulate(mech, np.array([0.0]), start, {"rocker.phi": -0.7})
    assert abs(kept.velocity("rocker.phi")[0] + 0.7) < 1e-14


def test_output_times_change_nothing(swing):
    """Uneven outputs with the same inner step: the same motion, and only the asked-for rows."""
    mech, start = swing["double pendulum"]
    uneven = np.array([0, 0.1, 0.15, 0.9, 1.0])
    run = mbs.simulate(mech, uneven, start, step=1e-3)
    fine = mbs.simulate(mech, np.linspace(0, 1, 21), start, step=1e-3)
    assert run.q.shape == (5, 6)
    np.testing.assert_allclose(run.q, fine.q[np.array([0, 2, 3, 18, 20])], rtol=0, atol=1e-9)


def test_backwards_in_time(swing):
    """Simulated to the end and back again, a conservative mechanism is where it was."""
    mech, start = swing["four-bar"]
    there = mbs.simulate(mech, np.array([0.0, 1.0]), start, step=1e-3)
    back = mbs.simulate(mech, np.array([1.0, 0.0]), there.q[-1], there.v[-1], step=1e-3)
    np.testing.assert_allclose(back.q[-1], there.q[0], rtol=0, atol=1e-9)


def test_a_cam_in_motion():
    """Contact angles have no inertia: a disc with an eccentric pin lifts a flat-faced follower against gravity.

    The circle's centre is e from the pin, so the follower's height is e sin θ + r, and one equation of motion is left:
    (J + m e² cos²θ) θ̈ = m e² sin θ cos θ θ̇² − m g e cos θ, for a massless offset of the disc.
    """
    e, r, inertia, m, g = 0.1, 0.3, 0.05, 2.0, 9.81
    outline = planar.FunctionOutline(lambda a: e * jnp.cos(a) + jnp.sqrt(r**2 - (e * jnp.sin(a)) ** 2))
    mech = mbs.Mechanism(
        {"cam": planar.Body(1.0, inertia), "follower": planar.Body(m, 1.0)},
        {
            "pin": planar.Revolute("ground", "cam", (0, 0), (0, 0)),
            "guide": planar.Translational("ground", "follower", (0, 0), (0, 0), (0, 1)),
            "contact": planar.CamFlatFollower("cam", "follower", (0, 0), (0, 0), outline, (1, 0)),
        },
        forces={"gravity": mbs.Gravity((0, -g))},
    )
    theta = 0.4
    guess = {"cam": (0, 0, theta), "follower": (0, r + e * np.sin(theta), 0), "contact": (np.pi / 2 - theta - 0.2,)}
    held = mbs.Mechanism(mech.bodies, mech.constraints, {"hold": planar.AbsoluteAngleDriver("cam", theta)})
    start = mbs.assemble(held, guess, throw=True)
    times = np.linspace(0, 0.5, 6)
    run = mbs.simulate(mech, times, start.q, {"cam.phi": 12.0}, step=1e-3)
    assert not run.status.any()

    def rates(state):
        s, c = jnp.sin(state[0]), jnp.cos(state[0])
        a = (m * e**2 * s * c * state[1] ** 2 - m * g * e * c) / (inertia + m * e**2 * c**2)
        return jnp.stack([state[1], a])

    def step(state, _):
        h = 1e-4
        k_1 = rates(state)
        k_2 = rates(state + h / 2 * k_1)
        k_3 = rates(state + h / 2 * k_2)
        k_4 = rates(state + h * k_3)
        return state + h / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4), state

    _, path = jax.lax.scan(step, jnp.array([theta, 12.0]), length=5001)
    np.testing.assert_allclose(run.position("cam.phi"), path[::1000, 0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.position("follower.y"), r + e * np.sin(path[::1000, 0]), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", [mbs.RK4(), mbs.Adaptive()], ids=["RK4", "adaptive"])
def test_fast_rotation_is_no_failure(method):
    """A rotor at 2,000 rad/s, and at one time only."""
    rotor = mbs.Mechanism({"a": planar.Body(1.0, 1.0)}, {"pin": planar.Revolute("ground", "a", (0, 0), (0, 0))})
    for times in (np.array([0.0, 0.01]), np.array([0.0])):
        run = mbs.simulate(rotor, times, None, {"a.phi": 2000.0}, method=method)
        assert not run.status.any()
        np.testing.assert_allclose(run.position("a.phi"), 2000 * times, rtol=1e-9, atol=1e-12)


def test_end_time_in_a_list_may_be_traced(swing):
    """The derivative by the end is the velocity there."""
    mech, start = swing["double pendulum"]
    last = lambda end: mbs.simulate(mech, [0.0, end], start)
    rate = jax.jacfwd(lambda end: last(end).q[-1])(0.3)
    np.testing.assert_allclose(rate, last(0.3).v[-1], rtol=0, atol=1e-8)


def test_bad_arguments(swing):
    mech, start = swing["double pendulum"]
    for arguments, words in (
        ({"step": 0.0}, "step must be a positive number"),
        ({"v0": np.zeros(3)}, "velocities have shape"),
        ({"v0": {"a.fi": 1.0}}, "did you mean 'a.phi'"),
    ):
        with pytest.raises(ValueError, match=words):
            mbs.simulate(mech, np.array([0.0, 1.0]), start, **arguments)
    with pytest.raises(ValueError, match="rho"):
        mbs.GeneralizedAlpha(1.5)
    with pytest.raises(ValueError, match="alpha"):
        mbs.HHT(0.2)
    with pytest.raises(ValueError, match="times must be known"):
        jax.jit(lambda t: mbs.simulate(mech, t, start, step=0.1).q)(jnp.array([0.0, 1.0]))


@pytest.mark.parametrize("count", [2, 501])
def test_times_in_single_precision_cost_no_step(count):
    """Free fall by semi-implicit Euler steps: −g h² n(n + 1)/2 after n steps of length h."""
    times = np.linspace(0, 0.05 * (count - 1), count, dtype=np.float32)
    ball = mbs.Mechanism({"ball": planar.Body(1.0, 0.1)}, forces=DOWN).astype(np.float32)
    run = mbs.simulate(ball, times, {"ball": (0, 0, 0)}, step=0.01, method=mbs.SemiImplicitEuler())
    n = 5 * (count - 1)
    assert run.q.dtype == np.float32
    np.testing.assert_allclose(run.q[-1, 1], -9.81 * 0.01**2 * n * (n + 1) / 2, rtol=3e-4)
