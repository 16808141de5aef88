"""Integration methods on rotations in space: order, closure, derivatives, batches, the straight-line programs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.programs import EMISSIONS
from spatial_problems import bricard, governor

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
START = {"length": 1.1, "mass": 2.0, "moment": 0.3, "com": 0.2, "stiffness": 40.0, "spin": 4.0}


def tumbler(b):
    """A spinning body on a ball joint, tied to the ground by a rod and a spring: two freedoms, a closed loop."""
    one = jnp.ones_like(jnp.asarray(b["moment"]))
    inertia, com = jnp.stack([b["moment"], 0.25 * one, 0.2 * one]), jnp.stack([b["com"], 0.1 * one, 0 * one])
    body = spatial.Body(b["mass"], inertia, com)
    return mbs.Mechanism(
        {"b": body},
        {
            "ball": spatial.Spherical("ground", "b", (0, 0, 0), (-0.3, 0.1, 0.0)),
            "rod": spatial.Distance("ground", "b", (0.9, 0.2, -0.8), (0.3, 0.4, 0.1), b["length"]),
        },
        forces={
            "weight": mbs.Gravity((0, 0, -9.81)),
            "spring": mbs.SpringDamper("ground", "b", (0, 1.0, 1.0), (0.2, 0.3, 0.4), b["stiffness"], 0.3, 0.5),
        },
    )


GUESS = {"b": (0.2, -0.3, -0.2, 0.9, 0.1, -0.2, 0.3)}


def released(b, method, steps, end=0.1):
    """Moving at the start: the angular velocities are given, the others follow. The configuration is the nearest one to
    that of `START`."""
    mech, q = tumbler(b), assembled()
    return mbs.simulate(mech, np.array([0, end]), q, {"b.wx": b["spin"], "b.wy": -3.0}, step=end / steps, method=method)


@functools.cache
def assembled():
    return np.asarray(mbs.assemble(tumbler(START), GUESS, throw=True).q)


@pytest.fixture(autouse=True, scope="module")
def _assembled_outside_of_transformations():
    assembled()


@pytest.fixture(scope="module")
def exact():
    run = released(START, METHODS["RK4"], 3200)
    return np.concatenate([run.q[-1], run.v[-1]])


# The others take half a minute each.
QUICK = ("RK4",)


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK)) for x in METHODS])
def test_order(exact, name):
    """Halving the step divides the error by 2^order, within ±0.2 of the order."""
    errors = []
    for count in (80, 160) if METHODS[name].order == 1 else (20, 40):
        run = released(START, METHODS[name], count)
        assert not run.status.any()
        assert abs(np.linalg.norm(run.q[-1, 3:]) - 1) < 1e-15 * count
        if "Baumgarte" not in name:
            gap = mbs.constraints(tumbler(START), run.q[-1])
            assert np.abs(gap).max() < 1e-13
        errors.append(np.abs(np.concatenate([run.q[-1], run.v[-1]]) - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - METHODS[name].order) < 0.2


slow = lambda name: pytest.param(name, marks=pytest.mark.slow)
IN_SHORT = ("RK4",)


@pytest.mark.slow
@pytest.mark.parametrize("name", [x if x in IN_SHORT else slow(x) for x in METHODS])
def test_derivatives_against_models_built_anew(name):
    """Forward = reverse to 1e-10, and as central differences of re-assembled models to 1e-6."""
    method = mbs.Adaptive() if name == "adaptive" else METHODS[name]

    def loss(b):
        run = released(b, method, 20, 0.2)
        return jnp.sum(run.point("b", (0.3, 0.2, 0.1))[-1] ** 2) + jnp.sum(run.v[-1] ** 2) / 100

    b = {key: jnp.asarray(x) for key, x in START.items()}
    forward, reverse = jax.jit(jax.jacfwd(loss))(b), jax.jit(jax.grad(loss))(b)
    value = jax.jit(loss)
    size = max(abs(float(forward[key] * b[key])) for key in b)
    for key in b:
        assert abs(reverse[key] - forward[key]) * abs(b[key]) < 1e-10 * size, key
        h = 3e-4 * b[key]
        at = lambda k, key=key, h=h: value({**b, key: b[key] + k * h})
        difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
        assert abs(difference - reverse[key]) * abs(b[key]) < 1e-6 * size, key


@pytest.mark.slow
def test_one_bad_sample_leaves_the_others_alone():
    """A body that is not a number, a loop that cannot be closed, a spring that blows up: statuses; the rest bit for bit."""
    b = {key: jnp.full(6, x) for key, x in START.items()}
    run = lambda b: released(b, METHODS["RK4"], 50)
    good = jax.jit(jax.vmap(run))(b)
    bad = {**b, "moment": b["moment"].at[1].set(jnp.nan), "length": b["length"].at[3].set(9.0)}
    bad["stiffness"] = b["stiffness"].at[4].set(1e12)
    mixed = jax.jit(jax.vmap(run))(bad)
    assert not good.status.any()
    assert np.all(mixed.status[np.array([1, 3, 4]), -1] != 0)
    kept = np.array([0, 2, 5])
    assert not mixed.status[kept].any()
    np.testing.assert_array_equal(mixed.q[kept], good.q[kept])
    gradient = jax.jit(jax.grad(lambda b: jnp.sum(jax.vmap(lambda b: run(b).q[-1, 0])(b))))
    of_good, of_mixed = gradient(b), gradient(bad)
    for key in b:
        np.testing.assert_array_equal(of_mixed[key][kept], of_good[key][kept])
        assert np.all(np.isfinite(of_mixed[key][np.array([1, 3])]))


@pytest.mark.slow
def test_emissions_agree_in_space():
    """LLVM, XLA, a GPU's kernels and array code: equations and a short motion in a batch."""
    mech, v = tumbler(START), 0.3 * jnp.arange(18.0).reshape(3, 6)
    q = jnp.stack([jnp.asarray(assembled())] * 3)
    found = []
    for emission in EMISSIONS:
        with mbs.emission(emission):
            rows = jax.vmap(lambda q, v: (mbs.constraint_jacobian(mech, q), mbs.acceleration_rhs(mech, q, v)))(q, v)
            run = jax.vmap(lambda q, v: mbs.simulate(mech, np.array([0, 0.02]), q, v, step=5e-3))(q, v)
            assert not run.status.any()
            found.append(np.concatenate([np.ravel(x) for x in (*rows, run.q, run.v)]))
    np.testing.assert_allclose(found[1:], [found[0]] * (len(found) - 1), rtol=0, atol=1e-11)


def test_single_precision():
    """The same in float32: closed to its rounding."""
    start = assembled().astype(np.float32)
    jax.config.update("jax_enable_x64", False)
    mech = tumbler(START).astype(jnp.float32)
    run = mbs.simulate(mech, np.array([0, 0.1], np.float32), start, step=5e-3)
    assert run.q.dtype == np.float32
    assert not run.status.any()
    assert np.abs(mbs.constraints(mech, run.q[-1])).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RK4", slow("RK4 Baumgarte"), slow("partitioning")])
def test_redundant_constraints_at_long_steps(name):
    """Bricard's mechanism at 16 ms: off the constraints, at the stages of a step, its redundant row looks independent, and
    would stop it."""
    mech, start = bricard()
    run = mbs.simulate(mech, np.array([0, 1.0, 2.0]), start, step=1.6e-2, method=METHODS[name])
    assert not run.status.any()
    np.testing.assert_allclose(
        run.energy.total, run.energy.total[0], rtol=0, atol=1e-4 if "Baumgarte" in name else 1e-6
    )
    # It has moved all the while.
    assert np.linalg.norm(run.point("rod2", (0.5, 0, 0))[2] - run.point("rod2", (0.5, 0, 0))[0]) > 1


@pytest.mark.slow
def test_stiff_dampers_on_slender_bodies():
    """The flyball governor at its full stiffness and 1 ms: where inertia is small the tangent is not positive."""
    mech, start, rates = governor()
    run = mbs.simulate(mech, np.array([0, 0.01, 0.05]), start, rates, step=1e-3, method=mbs.GeneralizedAlpha(0.8))
    assert not run.status.any()
    assert np.all(np.diff(run.energy.total) < 0)


ROD = 2.0, (1 / 6, 1 / 6, 0.0), (0, 0, -0.5)


@pytest.mark.slow
def test_a_rod_without_inertia_about_itself():
    """On a hinge, by forces and by inverse dynamics; on a ball joint, where its spin has neither inertia nor torque."""
    hinge, weight = (
        {"hinge": spatial.Revolute("ground", "rod", axis_i=(0, 1, 0))},
        {"weight": mbs.Gravity((0, 0, -9.81))},
    )
    motor = {"motor": spatial.RevoluteDriver("ground", "rod", mbs.motion.Harmonic(1.0, 3.0), axis_i=(0, 1, 0))}
    times = np.linspace(0, 1, 5)
    driven = mbs.Mechanism({"rod": spatial.Body(*ROD)}, hinge, motor, weight)
    found = mbs.reactions(driven, mbs.kinematics(driven, times, throw=True))
    theta = np.sin(3 * times)
    torque = -9 * theta * (1 / 6 + 0.5) + 9.81 * np.sin(theta)
    np.testing.assert_allclose(found["motor"].effort, torque, rtol=0, atol=1e-12)
    start = {"rod": spatial.coordinates((0, 0, 0), (0, 0.5, 0))}
    slender, thick = (
        mbs.simulate(mbs.Mechanism({"rod": body}, hinge, forces=weight), times, start, step=5e-3)
        for body in (spatial.Body(*ROD), spatial.Body(2.0, (1 / 6, 1 / 6, 1e-3), (0, 0, -0.5)))
    )
    assert not slender.status.any()
    np.testing.assert_allclose(slender.q, thick.q, rtol=0, atol=1e-12)
    ball = mbs.Mechanism({"rod": spatial.Body(*ROD)}, {"ball": spatial.Spherical("ground", "rod")}, forces=weight)
    run = mbs.simulate(ball, times, start, {"rod.wx": 1.0}, step=5e-3)
    assert not run.status.any()
    assert np.ptp(run.energy.total) < 1e-6


@pytest.mark.parametrize("name", ["RK4", "generalized-alpha", "partitioning"])
def test_point_masses_on_strings(name):
    """A double spherical pendulum of point masses whose rotations nothing holds and nothing turns: as in the plane."""
    strings = {
        "one": spatial.Distance("ground", "a", distance=1.0),
        "two": spatial.Distance("a", "b", distance=0.7),
    }
    weight = mbs.Gravity((0, 0, -9.81))
    mech = mbs.Mechanism({"a": spatial.Body(1.0, 0), "b": spatial.Body(2.0, 0)}, strings, forces={"weight": weight})
    start = {"a": spatial.coordinates((1, 0, 0)), "b": spatial.coordinates((1, 0, -0.7))}
    times = np.linspace(0, 0.5, 3)
    run = mbs.simulate(mech, times, start, {"b.x": 0.5}, step=1e-3, method=METHODS[name])
    assert not run.status.any()
    flat = mbs.Mechanism(
        {"a": mbs.planar.Body(1.0, 0), "b": mbs.planar.Body(2.0, 0)},
        {
            "one": mbs.planar.Distance("ground", "a", (0, 0), (0, 0), 1.0),
            "two": mbs.planar.Distance("a", "b", (0, 0), (0, 0), 0.7),
            "no turn": mbs.planar.AbsoluteAngle("a", 0.0),
            "no turn of b": mbs.planar.AbsoluteAngle("b", 0.0),
        },
        forces={"weight": mbs.Gravity((0, -9.81))},
    )
    same = mbs.simulate(flat, times, {"a": (1, 0, 0), "b": (1, -0.7, 0)}, {"b.x": 0.5}, step=1e-3, method=METHODS[name])
    np.testing.assert_allclose(run.point("b")[:, [0, 2]], same.point("b"), rtol=0, atol=1e-9)
