"""Derivatives through time: against closed forms, against differences of models built anew, forward against reverse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from dynamic_problems import (
    andrews,
    andrews_angles,
    andrews_start,
    four_bar,
    four_bar_design,
    four_bar_start,
    pendulum,
    pendulum_start,
)
from jaxmbs import planar
from linkages import reference

METHODS = {
    "RK4": mbs.RK4(),
    "RK4 Baumgarte": mbs.RK4(mbs.Baumgarte()),
    "semi-implicit": mbs.SemiImplicitEuler(),
    "generalized-alpha": mbs.GeneralizedAlpha(0.8),
    "HHT": mbs.HHT(-0.1),
    "partitioning": mbs.CoordinatePartitioning(),
    "adaptive": mbs.Adaptive(1e-8, 1e-10),
}


def four_bar_loss(method, step):
    """A loss by lengths, masses, torque, stiffness and the start; the loop is assembled anew for every design."""
    start, times = reference("planar_four_bar_dynamics")["initial_state"], np.linspace(0, 0.1, 3)
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    rough = four_bar_start(four_bar_design(), angles)

    def loss(b):
        mech = four_bar(b)
        spring = mbs.SpringDamper("ground", "rocker", (0.1, 0.3), (0.05, 0.0), b["stiffness"], 2.0, 0.2)
        held = {"hold": planar.AbsoluteAngleDriver("crank", b["angle"])}
        q = mbs.assemble(mbs.Mechanism(mech.bodies, mech.constraints, held), rough).q
        mech = mbs.Mechanism(mech.bodies, mech.constraints, forces={**mech.forces, "spring": spring})
        run = mbs.simulate(mech, times, q, {"crank.phi": b["speed"]}, step=step, method=method)
        return run.position("crank.phi")[-1] + jnp.sum(run.velocity("rocker.phi")) / 100

    return loss


IN_SHORT = ("RK4", "generalized-alpha")


@pytest.mark.parametrize("name", [pytest.param(x, marks=[] if x in IN_SHORT else pytest.mark.slow) for x in METHODS])
def test_four_bar_against_models_built_anew(name):
    """Every method: forward = reverse to 1e-10, and both as central differences of re-assembled models to 1e-6."""
    loss = four_bar_loss(METHODS[name], None if name == "adaptive" else 1e-3)
    b = four_bar_design() | {"angle": np.deg2rad(60), "speed": 5.0, "stiffness": 30.0}
    b = {key: jnp.asarray(x, float) for key, x in b.items()}
    forward, reverse = jax.jit(jax.jacfwd(loss))(b), jax.jit(jax.grad(loss))(b)
    size = max(abs(float(forward[key] * b[key])) for key in b)
    value = jax.jit(loss)
    for key in b:
        assert abs(reverse[key] - forward[key]) * abs(b[key]) < 1e-10 * size, key
    for key in ("crank", "rocker", "density", "stiffness", "speed", "angle"):
        h = 3e-4 * b[key]
        at = lambda k, key=key, h=h: value({**b, key: b[key] + k * h})
        difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
        assert abs(difference - reverse[key]) * abs(b[key]) < 1e-6 * size, key


@pytest.mark.slow
def test_andrews_against_models_built_anew():
    """dβ/d(lengths, torque, stiffness) after two turns of the crank: differences of re-assembled models, 1e-6."""
    problem = reference("andrews")
    p = problem["parameters"]
    angles = andrews_angles(problem["q_initial"])

    def loss(b):
        length = p["lengths_m"] | {"rr": b["rr"], "zt": b["zt"]}
        mech = andrews(length, b["torque"], b["stiffness"])
        hold = {"hold": planar.AbsoluteAngleDriver("OF", problem["q_initial"][0])}
        rough = andrews_start(p["lengths_m"], angles)
        q = mbs.assemble(mbs.Mechanism(mech.bodies, mech.constraints, hold), rough).q
        return mbs.simulate(mech, np.array([0, 0.01]), q, step=2e-5).position("OF.phi")[-1]

    b = {"rr": 0.007, "zt": 0.04, "torque": 0.033, "stiffness": 4530.0}
    b = {key: jnp.asarray(x) for key, x in b.items()}
    forward, reverse = jax.jit(jax.jacfwd(loss))(b), jax.jit(jax.grad(loss))(b)
    value = jax.jit(loss)
    for key in b:
        assert abs(reverse[key] / forward[key] - 1) < 1e-10
        h = 1e-4 * b[key]
        at = lambda k, key=key, h=h: value({**b, key: b[key] + k * h})
        difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
        assert abs(difference / reverse[key] - 1) < 1e-6, key


def test_controls():
    """A torque given by numbers in time, as a policy would: the gradient by each equals its finite difference."""
    b = {"mass": 1.0, "length": 1.0, "g": 9.81}
    mech, times = pendulum(b), np.linspace(0, 1, 11)

    def loss(u):
        control = mbs.Torque("bob", lambda t, q, v: jnp.sum(u * jnp.exp(-(((t - times) / 0.1) ** 2))) - 0.1 * v[2])
        driven = mbs.Mechanism(mech.bodies, mech.constraints, forces={**mech.forces, "control": control})
        run = mbs.simulate(driven, times, pendulum_start(b, 0.0), step=1e-2)
        return jnp.sum((run.position("bob.phi") - 1) ** 2) + 1e-3 * u @ u

    u = 0.5 * jnp.cos(jnp.arange(11.0))
    gradient = jax.grad(loss)(u)
    differences = [(loss(u.at[k].add(1e-5)) - loss(u.at[k].add(-1e-5))) / 2e-5 for k in (0, 4, 9)]
    np.testing.assert_allclose(gradient[jnp.array([0, 4, 9])], differences, rtol=1e-7)
    np.testing.assert_allclose(jax.jacfwd(loss)(u), gradient, rtol=1e-10)


@pytest.mark.slow
def test_many_steps_in_bounded_memory():
    """Reverse through 200,000 steps keeps some hundred states, not all: the same as forward mode."""
    b = {"mass": 1.0, "g": 9.81}
    last = lambda x: mbs.simulate(
        pendulum({**b, "length": x}), np.array([0.0, 20.0]), pendulum_start({"length": x}, 1.0), step=1e-4
    ).position("bob.phi")[-1]
    np.testing.assert_allclose(jax.grad(last)(1.0), jax.jvp(last, (1.0,), (1.0,))[1], rtol=1e-9)


def test_time_of_a_switch():
    """A force a that ends at t₁, by two runs: x = a t₁ (T − t₁/2), dx/dt₁ = a (T − t₁)."""
    body, pushed = {"a": planar.Body()}, {"push": mbs.PointForce("a", (0, 0), (2.0, 0.0))}

    def place(t_1):
        first = mbs.simulate(mbs.Mechanism(body, forces=pushed), jnp.stack([0.0, t_1]), {"a": (0, 0, 0)})
        rest = mbs.simulate(mbs.Mechanism(body), jnp.stack([t_1, 1.0]), first.q[-1], first.v[-1])
        return rest.position("a.x")[-1]

    value, slope = jax.jit(jax.value_and_grad(place))(0.3)
    np.testing.assert_allclose([value, slope], [2.0 * 0.3 * 0.85, 2.0 * 0.7], rtol=1e-9)
