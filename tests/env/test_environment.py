"""Environments: gradients against differences, batches, ends of episodes, statuses, textbook accelerations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import env, planar

NAMES = tuple(env.ENVIRONMENTS)
LANES = 16


class Locking(env.Environment):
    """A four-bar whose crank is turned at a constant rate, the action, whether or not it can turn all round."""

    action_size = 1
    observation_bounds = (1.0, 1.0)

    @property
    def design(self):
        return {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}

    def build(self, params, action):
        ends = {"A": params["crank"], "B": params["coupler"], "C": params["rocker"]}
        rod = lambda name: planar.Body(mass=ends[name], inertia=ends[name] ** 3)
        return mbs.Mechanism(
            {"crank": rod("A"), "coupler": rod("B"), "rocker": rod("C")},
            {
                "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
                "A": planar.Revolute("crank", "coupler", (ends["A"], 0), (0, 0)),
                "B": planar.Revolute("coupler", "rocker", (ends["B"], 0), (ends["C"], 0)),
                "C": planar.Revolute("ground", "rocker", (params["ground"], 0), (0, 0)),
            },
            {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(2.0, 0.8))},
            {"brake": mbs.Torque("rocker", action[0])},
        )

    def start(self, params, task, key):
        return {"crank.phi": 0.8, "coupler": (0.7, 0.7, 0.7), "rocker": (3.5, 0, 1.9)}, None

    def observe(self, params, task, now):
        return jnp.stack([jnp.cos(now.position("crank.phi")), jnp.sin(now.position("crank.phi"))])

    def reward(self, params, task, now, action):
        return jnp.cos(now.position("rocker.phi"))


def started(environment, lanes=LANES, seed=0, params=None):
    """A batch of first states."""
    keys = jax.random.split(jax.random.key(seed), lanes)
    return jax.jit(jax.vmap(environment.reset, (0, None)))(keys, params)


def actions_of(environment, *shape, size=1.0):
    """Random actions, the same in every run."""
    return np.random.default_rng(3).uniform(-size, size, (*shape, environment.action_size))


def rolled(environment, states, actions, auto_reset=True):
    """The states after all steps, with the step as the leading axis."""

    def step(states, action):
        new = jax.vmap(lambda s, a: environment.step(s, a, auto_reset=auto_reset))(states, action)
        return new, new

    return jax.jit(lambda states, actions: jax.lax.scan(step, states, actions)[1])(states, actions)


def gap(environment, states):
    """The largest |Φ| of a batch of states."""
    one = lambda p, q, t: mbs.constraints(environment.build(p, jnp.zeros(environment.action_size)), q, t)
    each = jax.vmap(one)(states.params, states.q, states.steps * environment.control_step)
    return float(jnp.max(jnp.abs(each), initial=0))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_batch_is_its_samples_and_keeps_the_constraints(name):
    environment = env.make(name)
    states, actions = started(environment), actions_of(environment, 20, LANES, size=0.3)
    assert np.all(states.status == mbs.Status.CONVERGED)
    runs = rolled(environment, states, actions)
    one = jax.tree.map(lambda x: x[3:4], states)
    alone = rolled(environment, one, actions[:, 3:4])
    np.testing.assert_allclose(alone.observation[:, 0], runs.observation[:, 3], rtol=1e-9, atol=1e-9)
    assert gap(environment, jax.tree.map(lambda x: x[-1], runs)) < 1e-10
    assert np.all(np.isfinite(runs.reward))
    assert len(environment.observation_bounds) == runs.observation.shape[-1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [*NAMES[:2], *(pytest.param(x, marks=pytest.mark.slow) for x in NAMES[2:])])
def test_a_step_is_a_simulation_with_the_action_held(name):
    environment = env.make(name, substeps=3)
    state = environment.reset(jax.random.key(5))
    action = 0.5 * jnp.ones(environment.action_size)
    new = environment.step(state, action)
    mech = environment.build(state.params, action)
    times = np.array([0, environment.control_step])
    fine = mbs.simulate(mech, times, state.q, state.v, step=environment.control_step / 400)
    # The method is of first order: a third of the step, a third of the error, by Richardson's extrapolation.
    finer = dataclasses.replace(environment, substeps=9).step(state, action)
    errors = [np.abs(x.q - fine.q[-1]).max() for x in (new, finer)]
    assert errors[0] < 5e-3
    np.testing.assert_allclose(errors[1] / errors[0], 1 / 3, rtol=0.2)


def test_drift_after_a_thousand_steps():
    environment = env.make("five-bar", horizon=2000)
    states = started(environment, 4)
    last = jax.tree.map(lambda x: x[-1], rolled(environment, states, actions_of(environment, 1000, 4, size=0.1)))
    assert np.all(last.steps == 1000)
    assert gap(environment, last) < 1e-8


@pytest.mark.parametrize(
    "name", ["slider-crank", *(pytest.param(name, marks=pytest.mark.slow) for name in ("five-bar", "jansen-leg"))]
)
def test_gradient_of_a_return_by_actions_and_lengths(name):
    environment, steps = env.make(name, horizon=200), 100
    actions = jnp.asarray(actions_of(environment, steps, size=0.2))
    params = jax.tree.map(jnp.asarray, environment.design)
    direction = jnp.asarray(np.random.default_rng(1).standard_normal(actions.shape))

    @jax.jit
    def total(actions, params):
        step = lambda state, action: (environment.step(state, action),) * 2
        return jax.lax.scan(step, environment.reset(jax.random.key(0), params), actions)[1].reward.sum()

    by_action, by_length = jax.jit(jax.grad(total, (0, 1)))(actions, params)
    # Central differences of two steps, extrapolated: the fourth order.
    rise = lambda f, h: (f(h) - f(-h)) / (2 * h)
    slope = lambda f, h: (4 * rise(f, h / 2) - rise(f, h)) / 3
    np.testing.assert_allclose(
        jnp.vdot(by_action, direction), slope(lambda h: total(actions + h * direction, params), 1e-4), rtol=1e-5
    )
    for length in params:
        moved = lambda h, length=length: total(actions, {**params, length: params[length] + h})
        np.testing.assert_allclose(by_length[length], slope(moved, 1e-5), rtol=1e-5)


def test_accelerations_of_the_cart_by_lagrange():
    # Zhong & Röck 2001, for uniform bars: D(θ) θ̈ + C(θ, θ̇) θ̇ + G(θ) = H u with angles from the upright position,
    # positive to the right; signs of the angles here are the other way round.
    environment = env.make("cart-double-pendulum", control_step=1e-6, substeps=1)
    m0, g, (l1, l2) = 1.0, 9.81, (0.5, 0.5)
    m1, m2 = 0.5 * l1, 0.5 * l2
    rng = np.random.default_rng(2)
    for _ in range(3):
        (p1, p2), rates, u = rng.uniform(-1, 1, 2), rng.uniform(-2, 2, 3), rng.uniform(-1, 1)
        d1, d4 = m0 + m1 + m2, m1 * l1**2 / 3 + m2 * l1**2
        d2, d3, d5, d6 = (m1 / 2 + m2) * l1, m2 * l2 / 2, m2 * l1 * l2 / 2, m2 * l2**2 / 3
        c1, c2, c12, s12 = np.cos(p1), np.cos(p2), np.cos(p1 - p2), np.sin(p1 - p2)
        matrix = np.array([[d1, d2 * c1, d3 * c2], [d2 * c1, d4, d5 * c12], [d3 * c2, d5 * c12, d6]])
        _, w1, w2 = rates
        drift = np.array(
            [
                -d2 * np.sin(p1) * w1**2 - d3 * np.sin(p2) * w2**2,
                d5 * s12 * w2**2 - d2 * g * np.sin(p1),
                -d5 * s12 * w1**2 - d3 * g * np.sin(p2),
            ]
        )
        wanted = np.linalg.solve(matrix, np.array([20.0 * u, 0, 0]) - drift)
        mech = environment.build(environment.design, jnp.array([u]))
        joint = l1 * np.array([np.sin(p1), np.cos(p1)])
        q0 = mech.coordinates({"lower.phi": -p1, "upper": (*joint, -p2)})
        v0 = {"cart.x": rates[0], "lower.phi": -w1, "upper.phi": -w2}
        run = mbs.simulate(mech, np.zeros(1), q0, v0)
        found = [run.acceleration("cart.x")[0], -run.acceleration("lower.phi")[0], -run.acceleration("upper.phi")[0]]
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_work_of_the_motors_is_energy():
    environment = env.make("five-bar", control_step=2e-3, substeps=4, method=mbs.RK4())
    states, actions = started(environment, 2), actions_of(environment, 100, 2)
    runs = rolled(environment, states, actions, auto_reset=False)
    both = lambda first, rest: np.concatenate([first[None], rest])
    qs, vs = both(states.q, runs.q), both(states.v, runs.v)
    motors = environment.torque * np.sum(actions * np.diff(qs[..., [2, 5]], axis=0), axis=(0, 2))
    # The work of friction, by the trapezium rule.
    lost = 2e-3 * np.trapezoid(np.sum(vs[..., [2, 5]] ** 2, axis=-1), dx=environment.control_step, axis=0)
    mech = environment.build(environment.design, jnp.zeros(2))
    kinetic = [float(mbs.energy(mech, q, v).kinetic) for q, v in zip(runs.q[-1], runs.v[-1], strict=True)]
    np.testing.assert_allclose(kinetic, motors - lost, rtol=1e-3)


def test_bad_samples_are_done_and_spoil_no_others():
    # Of every four designs the second cannot turn all round, the third cannot be assembled, the fourth holds NaN.
    environment, lanes = Locking(), 1024
    kind = np.arange(lanes) % 4
    b = jax.tree.map(lambda x: jnp.full(lanes, x), environment.design)
    b["ground"] = jnp.array([3.5, 4.9, 9.0, np.nan])[kind]
    b["rocker"] = jnp.linspace(2.4, 2.6, lanes)
    states = jax.jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(0), lanes), b)
    np.testing.assert_array_equal(states.done, kind >= 2)
    np.testing.assert_array_equal(states.status[kind == 2], mbs.Status.NOT_ASSEMBLED)
    np.testing.assert_array_equal(states.status[kind == 3], mbs.Status.NON_FINITE)
    runs = rolled(environment, states, jnp.zeros((120, lanes, 1)), auto_reset=False)
    np.testing.assert_array_equal(runs.terminated[-1], kind >= 1)
    locked = (mbs.Status.NOT_CONVERGED, mbs.Status.LOCKED_UP, mbs.Status.SINGULAR)
    assert np.isin(runs.status[-1, kind == 1], locked).all()
    assert np.all(np.isfinite(runs.reward))
    np.testing.assert_array_equal(np.sum(runs.reward[:, kind == 1] == environment.failure, axis=0), 1)
    assert np.all(np.isfinite(runs.observation))
    good = jax.tree.map(lambda x: x[kind == 0], states)
    alone = rolled(environment, good, jnp.zeros((120, lanes // 4, 1)), auto_reset=False)
    np.testing.assert_allclose(alone.q, runs.q[:, kind == 0], rtol=1e-12, atol=1e-12)


def test_an_action_that_is_no_number_ends_the_episode():
    environment = env.make("slider-crank")
    state = environment.reset(jax.random.key(0))
    bad = environment.step(state, jnp.array([jnp.nan]), auto_reset=False)
    assert bad.status == mbs.Status.NON_FINITE
    assert bad.terminated
    assert bad.reward == environment.failure
    np.testing.assert_allclose(bad.q, state.q, rtol=0, atol=1e-12)


def test_time_ends_and_another_episode_begins():
    environment = env.make("five-bar", horizon=5)
    states, actions = started(environment, 3), np.zeros((12, 3, 2))
    runs = rolled(environment, states, actions)
    np.testing.assert_array_equal(runs.truncated[:, 0], [k in (4, 9) for k in range(12)])
    assert not np.any(runs.terminated)
    np.testing.assert_array_equal(runs.steps[:, 0], [1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2])
    np.testing.assert_allclose(runs.q[4], states.q)
    # The task is a new one, for each its own, and the observation that of the new episode.
    assert np.all(runs.task[4] != states.task)
    assert np.all(runs.task[9] != runs.task[4])
    assert np.abs(runs.observation[4] - runs.final_observation[4]).max() > 1e-3
    np.testing.assert_allclose(runs.observation[:4], runs.final_observation[:4])
    # Without it the state stays, and so does the sum of the rewards.
    still = rolled(environment, states, actions, auto_reset=False)
    assert np.all(still.done[4:])
    assert np.all(still.reward[5:] == 0)
    np.testing.assert_array_equal(still.q[-1], still.q[4])
    np.testing.assert_allclose(still.final_observation[4], runs.final_observation[4], rtol=1e-12)


def test_the_same_key_gives_the_same_episode():
    environment = env.make("five-bar")
    one, again, other = (environment.reset(jax.random.key(k)) for k in (7, 7, 8))
    np.testing.assert_array_equal(one.observation, again.observation)
    assert np.abs(one.observation - other.observation).max() > 1e-3


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="five-bar"):
        env.make("six-bar")
    with pytest.raises(ValueError, match="horizon"):
        env.make("five-bar", horizon=0)
    with pytest.raises(ValueError, match="path"):
        env.make("five-bar", path="circle")


def test_methods_are_compiled_as_they_are():
    environment = env.make("slider-crank")
    state = jax.jit(environment.step)(jax.jit(environment.reset)(jax.random.key(0)), jnp.zeros(1))
    assert float(state.reward) == float(environment.step(environment.reset(jax.random.key(0)), jnp.zeros(1)).reward)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("design", [{"crank": np.nan}, {"crank": 0.0}, {"rod": np.inf}])
def test_impossible_designs_have_finite_numbers_and_never_pay(design):
    environment = env.make("slider-crank")
    design = {name: jnp.asarray(value) for name, value in {**environment.design, **design}.items()}
    state = environment.reset(jax.random.key(0), design)
    rewards = []
    for auto_reset in (False, False, True):
        state = environment.step(state, jnp.zeros(1), auto_reset=auto_reset)
        rewards.append(float(state.reward))
        assert bool(state.terminated)
        assert int(state.status) != mbs.Status.CONVERGED
        for numbers in (state.observation, state.final_observation, state.q, state.x, state.metrics["distance"]):
            assert np.all(np.isfinite(numbers))
    assert rewards == [environment.failure] * 3


def test_actions_of_a_wrong_shape_and_bad_settings_are_refused():
    environment = env.make("slider-crank")
    state = environment.reset(jax.random.key(0))
    for action in (0.0, jnp.zeros(2), jnp.zeros((1, 1))):
        with pytest.raises(ValueError, match=r"an action must have shape \(1,\)"):
            environment.step(state, action)
    for settings in (
        {"substeps": 2.5},
        {"horizon": 0},
        {"failure": np.nan},
        {"method": "rk4"},
        {"method": mbs.Adaptive()},
    ):
        with pytest.raises(ValueError, match=next(iter(settings))):
            env.make("slider-crank", **settings)


def test_observations_take_angles_of_joints_by_name():
    class Seeing(Locking):
        def observe(self, params, task, now):
            return jnp.stack([now.joint("A").angle, now.joint("A").rate])

    environment = Seeing(substeps=1)
    state = environment.reset(jax.random.key(0))
    after = environment.step(state, jnp.zeros(1))
    for now in (state, after):
        expected = (now.q[5] - now.q[2], now.v[5] - now.v[2])
        np.testing.assert_allclose(now.observation, expected, atol=1e-12)


class Geared(Locking):
    """Two gears that mesh as the start has them."""

    @property
    def design(self):
        return {"radius": 2.0}

    def build(self, params, action):
        return mbs.Mechanism(
            {"crank": planar.Body(), "rocker": planar.Body()},
            {
                "A": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
                "B": planar.Revolute("ground", "rocker", (0, 3), (0, 0)),
                "mesh": planar.Gear("crank", "rocker", (0, 0), (0, 0), 1.0, params["radius"]),
            },
            forces={"torque": mbs.Torque("crank", 5 * action[0])},
        )

    def start(self, params, task, key):
        return {"crank.phi": 0.4, "rocker": (0, 3, 0.3)}, None


def test_gears_stay_in_mesh():
    """From step to step, each of which builds the mechanism anew: φ₂ − 0.3 = −(φ₁ − 0.4) / 2."""
    environment = Geared()
    state = jax.jit(environment.reset)(jax.random.key(0), None)
    step = jax.jit(environment.step)
    for _ in range(5):
        state = step(state, jnp.ones(1))
    turned = np.asarray(state.q)[[2, 5]] - [0.4, 0.3]
    assert turned[0] > 0.01
    assert turned[1] == pytest.approx(-turned[0] / 2, abs=1e-12)
