"""Derivatives of assembled mechanisms by all numbers of every planar element: forward, reverse, and by differences.

The differences come from mechanisms that are built and assembled anew with changed numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxmbs as mbs
from jaxmbs import planar
from planar_catalogue import CATALOGUE, TIMES, quick_jit

T = len(TIMES)
# Central differences of the sixth order: f′ h = Σ weight · f(x + offset h).
OFFSETS = np.array([-3, -2, -1, 1, 2, 3])
WEIGHTS = np.array([-1, 9, -45, 45, -9, 1]) / 60
STEP = 2e-3


class Derivatives(NamedTuple):
    """q, v and a of an element's mechanism as rows (T, 3n), and their Jacobians (T, 3n, p + T) by the p design
    parameters and the times; Φ_b and dq/db at the first time from three sources."""

    motion: np.ndarray
    status: np.ndarray
    forward: np.ndarray
    reverse: np.ndarray
    differences: np.ndarray
    constraint_jacobian: np.ndarray
    design_jacobian: np.ndarray
    design_jacobian_by_differences: np.ndarray
    design_sensitivity: np.ndarray
    assembly: np.ndarray


def stencil(x):
    """x + offset · h · e_k for all k and offsets, (p · 6, p)."""
    shifts = STEP * OFFSETS[None, :, None] * np.eye(x.size)[:, None, :]
    return (x + shifts).reshape(-1, x.size)


def differences(values):
    """Derivatives from the values on the stencil, with the parameters as the last axis."""
    values = values.reshape(-1, OFFSETS.size, *values.shape[1:])
    return np.moveaxis(np.tensordot(WEIGHTS / STEP, values, axes=(0, 1)), 0, -1)


def flat(tree):
    """A pytree of Jacobians (m, …) as one matrix (m, p)."""
    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(tree)], axis=1)


def derivatives_of(entry) -> Derivatives:
    """All of it for one entry of the catalogue, in one compiled program."""
    b, unravel = ravel_pytree(jax.tree.map(lambda x: jnp.asarray(x, float), entry.b))
    b, p = np.asarray(b), b.size
    guess = entry.start()

    def motion(x):
        result = mbs.kinematics(entry.build(unravel(x[:p])), x[p:], guess)
        return jnp.concatenate([result.q, result.v, result.a], axis=1), result.status

    def value_and_products(arguments):
        # The linear map is what jvp evaluates and its transpose is what vjp evaluates; compiled together.
        x, tangent, cotangent = arguments
        y, pushforward, status = jax.linearize(motion, x, has_aux=True)
        return y, pushforward(tangent), jax.linear_transpose(pushforward, x)(cotangent)[0], status

    x = np.concatenate([b, TIMES])
    shape = jax.eval_shape(motion, x)[0].shape
    m = int(np.prod(shape))
    # One program does all: the value on the stencil, all columns forward at x, all rows in reverse at x.
    count = max(x.size, m)
    xs = np.concatenate([stencil(x), np.broadcast_to(x, (count, x.size))])
    tangents, cotangents = np.zeros_like(xs), np.zeros((len(xs), *shape))
    tangents[len(xs) - count :][: x.size] = np.eye(x.size)
    cotangents[len(xs) - count :][:m] = np.eye(m).reshape(m, *shape)

    @quick_jit
    def run(xs, tangents, cotangents):
        y, columns, rows, status = jax.lax.map(value_and_products, (xs, tangents, cotangents))
        q, design = y[-1, 0, : shape[1] // 3], unravel(b)
        phi = lambda b: mbs.constraints(entry.build(unravel(b)), q, TIMES[0])
        of_design = (
            mbs.constraint_jacobian(entry.build(design), q, TIMES[0]),
            flat(mbs.design_jacobian(entry.build, design, q, TIMES[0])),
            jax.vmap(phi)(stencil(b)),
            flat(mbs.design_sensitivity(entry.build, design, q, TIMES[0])),
            # From q itself, so that both are in the same configuration to the last digit.
            jax.jacrev(lambda b: mbs.assemble(entry.build(unravel(b)), q, TIMES[0]).q)(b),
        )
        return y, columns, rows, status, of_design

    y, columns, rows, status, of_design = jax.tree.map(np.asarray, run(xs, tangents, cotangents))
    jacobian, by_design, phis, sensitivity, assembly = of_design
    here = len(xs) - count
    return Derivatives(
        motion=y[-1],
        status=status,
        forward=np.moveaxis(columns[here:][: x.size], 0, -1),
        reverse=rows[here:][:m].reshape(*shape, x.size),
        differences=differences(y[:here]),
        constraint_jacobian=jacobian,
        design_jacobian=by_design,
        design_jacobian_by_differences=differences(phis),
        design_sensitivity=sensitivity,
        assembly=assembly,
    )


def parts(rows):
    """q, v and a of rows (T, 3n, …)."""
    return np.split(rows, 3, axis=1)


def assert_close(got, expected, tolerance):
    """Agreement relative to the largest entry, or to 1 if that is smaller."""
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected))))


def check_all_configurations_are_assembled(derivatives):
    assert np.all(derivatives.status == mbs.Status.CONVERGED)
    assert np.all(np.isfinite(derivatives.forward))


def check_forward_is_reverse(derivatives):
    for forward, reverse in zip(parts(derivatives.forward), parts(derivatives.reverse), strict=True):
        assert_close(forward, reverse, 1e-12)


def check_derivatives_are_differences_with_reassembly(derivatives):
    for forward, expected in zip(parts(derivatives.forward), parts(derivatives.differences), strict=True):
        assert_close(forward, expected, 1e-7)


def check_derivatives_by_time_are_velocity_and_acceleration(derivatives):
    _, v, a = parts(derivatives.motion)
    by_times = parts(derivatives.forward[..., -T:])
    here = np.eye(T)[:, None, :]
    assert_close(by_times[0], here * v[..., None], 1e-12)
    assert_close(by_times[1], here * a[..., None], 1e-12)


def check_every_number_matters(derivatives):
    # No parameter is forgotten: each has an effect on some position, velocity or acceleration.
    assert np.all(np.max(np.abs(derivatives.forward), axis=(0, 1)) > 1e-3)


def check_design_jacobian(derivatives):
    assert_close(derivatives.design_jacobian, derivatives.design_jacobian_by_differences, 1e-9)


def check_design_sensitivity(derivatives):
    n = derivatives.constraint_jacobian.shape[1]
    expected = -np.linalg.solve(derivatives.constraint_jacobian, derivatives.design_jacobian)
    assert_close(derivatives.design_sensitivity, expected, 1e-12)
    assert_close(derivatives.assembly, expected, 1e-12)
    assert_close(derivatives.forward[0, :n, :-T], expected, 1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CATALOGUE)
def test_derivatives(name):
    # One test for each element, not one for each check, because all checks share one compilation.
    derivatives = derivatives_of(CATALOGUE[name])
    check_all_configurations_are_assembled(derivatives)
    check_forward_is_reverse(derivatives)
    check_derivatives_are_differences_with_reassembly(derivatives)
    check_derivatives_by_time_are_velocity_and_acceleration(derivatives)
    check_every_number_matters(derivatives)
    check_design_jacobian(derivatives)
    check_design_sensitivity(derivatives)


def four_bar(b):
    """Crank and rocker on the ground with the coupler as a distance, Haug example 3.3.2; b: ground, crank, coupler,
    rocker and the crank's start and rate."""
    ground, crank, coupler, rocker, start, rate = b
    return mbs.Mechanism(
        bodies={"crank": planar.Body(), "rocker": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "C": planar.Revolute("ground", "rocker", jnp.stack([ground, 0 * ground]), (0, 0)),
            "coupler": planar.Distance(
                "crank", "rocker", jnp.stack([crank, 0 * crank]), jnp.stack([rocker, 0 * rocker]), coupler
            ),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate, start))},
    )


def rocker_angle(b, t):
    """In closed form: the coupler's ends are on a circle about the crank pin and on one about the rocker's pivot."""
    ground, crank, coupler, rocker, start, rate = b
    crank_angle = start + rate * t
    pin = crank * jnp.stack([jnp.cos(crank_angle), jnp.sin(crank_angle)])
    to_pin = pin - jnp.stack([ground, 0 * ground])
    diagonal = jnp.sqrt(to_pin @ to_pin)
    inner = jnp.arccos((diagonal**2 + rocker**2 - coupler**2) / (2 * diagonal * rocker))
    return jnp.arctan2(to_pin[1], to_pin[0]) - inner


@pytest.mark.variant
def test_second_derivatives_of_a_four_bar():
    b, times = jnp.array([3.0, 1.0, 2.6, 2.2, 0.9, 1.3]), jnp.asarray(TIMES)

    def solved(b):
        motion = mbs.kinematics(four_bar(b), times, {"crank.phi": 0.9, "rocker": (3.0, 0.0, 1.5)})
        return jnp.stack([motion.q[:, 5], motion.v[:, 5], motion.a[:, 5]])

    def closed_form(b):
        angle = lambda t: rocker_angle(b, t)
        rate = jax.grad(angle)
        return jnp.stack([jax.vmap(f)(times) for f in (angle, rate, jax.grad(rate))])

    def up_to_second(f):
        # jax.hessian, with the value and the Jacobian that it computes on its way.
        def first(b):
            jacobian, value = jax.jacrev(lambda b: (f(b),) * 2, has_aux=True)(b)
            return jacobian, (value, jacobian)

        return jax.jacfwd(first, has_aux=True)

    solutions = (jax.tree.leaves(quick_jit(up_to_second(f))(b)) for f in (solved, closed_form))
    for got, expected in zip(*solutions, strict=True):
        assert np.max(np.abs(expected)) > 0.1
        assert_close(got, expected, 1e-11)


def test_second_derivatives_are_differences_of_gradients():
    b = jnp.array([3.0, 1.0, 2.6, 2.2, 0.9, 1.3])

    def coupler_height(b):
        crank, rocker = mbs.assemble(four_bar(b), {"crank.phi": 0.9, "rocker": (3.0, 0.0, 1.5)}, 0.2).q[2::3]
        return b[1] * jnp.sin(crank) + b[3] * jnp.sin(rocker)

    points = stencil(np.asarray(b))

    @quick_jit
    def hessian_and_gradients(b):
        return jax.hessian(coupler_height)(b), jax.lax.map(jax.grad(coupler_height), points)

    hessian, gradients = hessian_and_gradients(b)
    assert_close(hessian, differences(np.asarray(gradients)), 1e-8)
    assert_close(hessian, np.transpose(hessian), 1e-12)


def test_derivatives_by_what_a_motion_closes_over():
    def last_height(rate, motion):
        mech = mbs.Mechanism(
            {"slider": planar.Body()},
            {"guide": planar.RelativeX("ground", "slider"), "flat": planar.RelativeAngle("ground", "slider")},
            {"lift": planar.AbsoluteYDriver("slider", (0, 0), motion(rate))},
        )
        return mbs.kinematics(mech, TIMES).a[-1, 1]

    closure = lambda rate: mbs.motion.Function(lambda t: jnp.sin(rate * t))
    rate, t = 1.7, TIMES[-1]
    expected = -2 * rate * np.sin(rate * t) - rate**2 * t * np.cos(rate * t)
    for derivative in (jax.grad, jax.jacfwd):
        got = quick_jit(derivative(last_height), static_argnums=1)(rate, closure)
        np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_derivatives_by_what_an_outline_closes_over():
    def contact(c, outline):
        mech = mbs.Mechanism(
            {"pin": planar.Body()},
            {
                "slot": planar.PointFollower("pin", "ground", (0, 0), (0, 0), outline(c)),
                "flat": planar.RelativeAngle("ground", "pin"),
                "x": planar.AbsoluteX("pin", (0, 0), 0.3),
            },
        )
        return mbs.assemble(mech, {"pin": (0.3, 0.5, 0), "slot": 1.0}).q

    closure = lambda c: planar.FunctionOutline(lambda alpha: c + 0 * alpha)
    # On a circle of radius c at x = 0.3: y = √(c² − x²), cos α = x / c.
    c, x = 0.5, 0.3
    y = np.sqrt(c**2 - x**2)
    expected = [0, c / y, 0, x / (c * y)]
    cases = [(jax.jacrev, closure), (jax.jacfwd, closure), (jax.jacrev, planar.FunctionOutline)]
    for derivative, outline in cases:
        got = quick_jit(derivative(contact), static_argnums=1)(c, outline)
        np.testing.assert_allclose(got, expected, atol=1e-13)
