"""The cost of a gradient through time, counted in scalar operations of the programs that run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

import jaxmbs as mbs
from dynamic_problems import four_bar, four_bar_design, four_bar_start
from jaxmbs.numerics.roots import simplified_newton
from jaxmbs.programs import save_for_reverse

STEPS = 1000
ROWS = {
    "RK4": {"method": mbs.RK4()},
    "Baumgarte": {"method": mbs.RK4(mbs.Baumgarte())},
    "semi-implicit Euler": {"method": mbs.SemiImplicitEuler()},
    "joint coordinates": {"formulation": mbs.JointCoordinates()},
}
IN_SHORT = ("RK4", "joint coordinates")


def work(function, *args) -> int:
    """Scalar operations of all programs that a function runs."""

    def of(jaxpr) -> int:
        total = 0
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "straight_line_program":
                total += eqn.params["program"].work * int(np.prod(eqn.params["batch"]))
            total += sum(of(getattr(x, "jaxpr", x)) for x in core.jaxprs_in_params(eqn.params))
        return total

    return of(jax.make_jaxpr(function)(*args).jaxpr)


@pytest.mark.parametrize("name", [pytest.param(x, marks=[] if x in IN_SHORT else pytest.mark.slow) for x in ROWS])
def test_gradient_of_simulate_costs_four_times_its_forward_run(name):
    """By lengths, masses and the start: at most 4 × the operations; in time less, see the table in docs/dynamics.md."""
    b = {key: jnp.asarray(x, float) for key, x in four_bar_design().items()}
    q = four_bar_start(b, np.array([1.0, 0.4, 1.2]))
    q = jnp.concatenate([jnp.asarray(x, float) for x in q.values()])

    def loss(b, q, v):
        run = mbs.simulate(four_bar(b), np.array([0.0, 1.0]), q, v, step=1 / STEPS, **ROWS[name])
        return jnp.sum(run.q[-1] ** 2) + jnp.sum(run.v[-1] ** 2)

    args = b, q, jnp.zeros_like(q)
    forward = work(loss, *args)
    assert forward > 1000 * STEPS
    assert work(jax.value_and_grad(loss, (0, 1, 2)), *args) <= 4 * forward


@pytest.mark.parametrize("kept", [100, 10**6])
@pytest.mark.parametrize("rounds", [(1, 60), (20, 23)])
def test_values_that_are_remembered_change_no_derivative(kept, rounds, monkeypatch):
    """Newton's root y of y³ + y = x in each round of a loop: reverse mode as without a program, in segments and nested."""
    monkeypatch.setattr("jaxmbs.programs.runtime.tuning.KEPT_STATE_BYTES", kept)

    def root(x, b):
        f = lambda y: y**3 + b * y - x
        slope = lax.stop_gradient(3 * (x / 2) ** 2 + b)
        return simplified_newton(f, lambda value: value / slope, x / 2, 40)[0]

    def function(x, b):
        step = lambda k, x: 0.9 * x + 0.1 * root(x, b) * (save_for_reverse(lax.stop_gradient(k)) % 3)
        inner = lambda k, x: lax.fori_loop(0, rounds[1], step, x)
        return jnp.sum(lax.fori_loop(0, rounds[0], inner, x))

    args = jnp.array([0.4, 0.9]), jnp.asarray(1.3)
    reverse = jax.jit(jax.grad(mbs.program(function), (0, 1)))(*args)
    forward = jax.jit(jax.jacfwd(function, (0, 1)))(*args)
    for got, wanted in zip(reverse, forward, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11)


def test_second_derivatives_of_implicit_solutions():
    """M(b) a = Q(b) + Jᵀλ, J a = γ through the accelerations of a mechanism: the Hessian is the difference of gradients."""
    b = {key: jnp.asarray(x, float) for key, x in four_bar_design().items()}
    q = jnp.concatenate([jnp.asarray(x, float) for x in four_bar_start(b, np.array([1.0, 0.4, 1.2])).values()])

    def acceleration(x):
        mech = four_bar({**b, "coupler": x[0], "torque": x[1]})
        return mbs.simulate(mech, jnp.zeros(1), q).a[0, 2]

    x, h = jnp.stack([b["coupler"], b["torque"]]), 1e-4
    hessian = jax.jit(jax.hessian(acceleration))(x)
    gradient = jax.jit(jax.grad(acceleration))
    for k, step in enumerate(h * np.eye(2)):
        difference = (
            8 * (gradient(x + step) - gradient(x - step)) - gradient(x + 2 * step) + gradient(x - 2 * step)
        ) / (12 * h)
        np.testing.assert_allclose(hessian[k], difference, rtol=1e-7, atol=1e-7 * np.max(np.abs(hessian)))
