"""Equations and motions of mechanisms: the same as machine code, as elementwise XLA and as array code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.programs.backends import EMISSIONS
from jaxmbs.programs.runtime import primitive
from jaxmbs.system.equations import residuals
from linkages import bar_linkage, four_bar, four_bar_guess, slider_crank
from planar_catalogue import CATALOGUE, quick_jit

SAMPLES, T = 3, 0.3


def by_programs(mech, q, v):
    """Φ, Φ_q, ν and γ."""
    return (
        mbs.constraints(mech, q, T),
        mbs.constraint_jacobian(mech, q, T),
        mbs.velocity_rhs(mech, q, T),
        mbs.acceleration_rhs(mech, q, v, T),
    )


def by_jax(mech, q, v):
    """The same from the residuals and derivatives of them, Haug (3.1.4) to (3.1.10)."""
    phi = lambda q, t: residuals(mech, q, t)
    rate = lambda q, t, v: jax.jvp(phi, (q, t), (v, jnp.ones_like(t)))[1]
    t = jnp.asarray(T, q.dtype)
    gamma = -jax.jvp(lambda q, t: rate(q, t, v), (q, t), (v, jnp.ones_like(t)))[1]
    return phi(q, t), jax.jacfwd(phi)(q, t), -jax.jacfwd(phi, 1)(q, t), gamma


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CATALOGUE)
def test_equations_of_every_element(name, agree):
    """At random configurations and velocities, in all emissions and without programs."""
    entry = CATALOGUE[name]
    mech = entry.build(entry.b)
    q, v = np.random.default_rng(7).normal(size=(2, SAMPLES, mech.layout.n))
    over = lambda f: quick_jit(jax.vmap(lambda q, v: f(mech, q, v)))(q, v)
    expected = over(by_jax)
    # Array code runs the functions as they are written: a few elements are enough.
    for emission in (
        "llvm",
        "xla",
        "gpu-on-host",
        *(["array"] if name in ("Revolute", "CamFollower", "RevoluteDriver") else []),
    ):
        with primitive.emission(emission):
            agree(over(by_programs), expected)


BARS = {"crank": 1.0, "coupler": 2.9, "rocker": 3.0, "ground": 3.5}
FOUR_BAR = {
    "bars": {
        "crank": {"O": (0, 0), "A": (1.0, 0)},
        "coupler": {"A": (0, 0), "B": (2.9, 0)},
        "rocker": {"C": (0, 0), "B": (3.0, 0)},
    },
    "joints": {
        "O": [("ground", (0, 0)), "crank"],
        "A": ["crank", "coupler"],
        "B": ["coupler", "rocker"],
        "C": [("ground", (3.5, 0)), "rocker"],
    },
    "driven": "crank",
}
LINKAGES = {
    "four-bar": lambda: (four_bar(BARS), four_bar_guess(jax.tree.map(jnp.asarray, BARS), 0.0)),
    "slider-crank": lambda: (
        slider_crank({"crank": 1.0, "rod": 3.0, "offset": 0.2}),
        {"crank": (0, 0, 0.0), "rod": (1.0, 0, 0.07), "slider": (4.0, 0.2, 0.0)},
    ),
    "bars": lambda: (
        bar_linkage(**FOUR_BAR),
        {"crank": (0, 0, 0.0), "coupler": (1.0, 0, 1.1), "rocker": (3.5, 0, 1.9)},
    ),
}
TIMES = jnp.linspace(0.0, 0.4, 4)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", LINKAGES)
def test_kinematics(name, agree):
    """Positions, velocities and accelerations are the same in all emissions."""
    mech, guess = LINKAGES[name]()
    found = {}
    for emission in EMISSIONS:
        with primitive.emission(emission):
            motion = quick_jit(mbs.kinematics)(mech, TIMES, guess)
            assert np.all(motion.status == mbs.Status.CONVERGED)
            found[emission] = motion.q, motion.v, motion.a
    for values in found.values():
        agree(values, found["array"], 1e-11)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("emission_", ["llvm", "xla", "gpu-on-host"])
def test_single_precision(emission_):
    """In float32 a motion is as exact as that."""
    mech, guess = LINKAGES["four-bar"]()
    exact = quick_jit(mbs.kinematics)(mech, TIMES, guess)
    with primitive.emission(emission_):
        single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (mech, TIMES, guess))
        motion = quick_jit(mbs.kinematics)(*single)
        assert np.all(motion.status == mbs.Status.CONVERGED)
        for a, b in ((motion.q, exact.q), (motion.v, exact.v), (motion.a, exact.a)):
            assert a.dtype == np.float32
            np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("emission_", ["tpu-on-host", "xla", "gpu-on-host"])
def test_door_on_two_hinges(emission_, dtype):
    """Half of its ten equations depend on the others; rounding must not decide differently in two places which these are.

    It falls as a pendulum about the axis of both hinges.
    """
    mass, inertia, arm, angles = 2.0, 0.3, 0.4, np.linspace(0.1, 6, 7)
    axis = np.array([2.0, -1.0, 0.0]) / np.sqrt(5)
    hinge = lambda x: spatial.Revolute("ground", "door", x * axis, x * axis + [0, 0, arm], axis_i=axis, axis_j=axis)
    mech = mbs.Mechanism(
        {"door": spatial.Body(mass, inertia)},
        {"lower": hinge(-0.7), "upper": hinge(0.3)},
        forces={"weight": mbs.Gravity((0, 0, -9.81))},
    )
    equations = mbs.Augmented().equations(mech.astype(dtype))

    @mbs.program
    def fall(angle):
        x, y = map(float, axis[:2])
        sine, half = jnp.sin(angle), jnp.sin(angle / 2)
        centre = [-arm * y * sine, arm * x * sine, -arm * jnp.cos(angle)]
        q = jnp.stack([*centre, jnp.cos(angle / 2), x * half, y * half, 0 * half])
        return equations.accelerations(q, jnp.zeros(6, dtype), jnp.zeros((), dtype))[0][3:]

    with primitive.emission(emission_):
        found = jax.jit(jax.vmap(fall))(jnp.asarray(angles, dtype))
    assert found.dtype == dtype
    expected = np.outer(-mass * 9.81 * arm * np.sin(angles) / (inertia + mass * arm**2), axis)
    np.testing.assert_allclose(found, expected, rtol=0, atol=100 * np.finfo(dtype).eps * np.abs(expected).max())


SINGLE = {
    "assembly": lambda mech, times, guess: mbs.assemble(mech, guess),
    "kinematics": lambda mech, times, guess: mbs.kinematics(mech, times, guess),
    "reactions": lambda mech, times, guess: mbs.reactions(mech, mbs.simulate(mech, times, guess, step=0.1)),
    "joint coordinates": lambda mech, times, guess: mbs.simulate(
        mech, times, guess, step=0.1, formulation=mbs.JointCoordinates()
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_needs_no_array_code(name):
    """No number of Python or NumPy makes a value in float64, with which a program would not be one. Traced only: there is
    no warning of array code, which would be an error."""
    mech, guess = LINKAGES["slider-crank"]()
    mech, times, guess = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (mech, TIMES, guess))
    jax.eval_shape(lambda mech, guess: SINGLE[name](mech, times, guess), mech, guess)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("emission", "path"),
    [
        ("llvm", "straight-line, "),
        ("xla", "straight-line, XLA"),
        ("gpu-on-host", "straight-line, one kernel"),
        ("array", "array code: chosen by JAXMBS_EMISSION"),
    ],
)
def test_explanation_of_a_driven_four_bar(emission, path):
    """Number of samples, number of operations, and degrees of freedom without the driver."""
    with primitive.emission(emission), jax.default_device(jax.devices("cpu")[0]):
        mech, guess = LINKAGES["four-bar"]()
        explained = mbs.explain(mech, guess)
        assert explained.path.startswith(path)
        assert list(explained.operations) == [
            "constraints",
            "constraint_jacobian",
            "velocity_rhs",
            "acceleration_rhs",
            "mass_matrix",
            "generalized_force",
            "acceleration",
            "step of RK4",
            "kinematics",
        ]
        assert 0 < explained.operations["constraints"] < 100 < explained.operations["kinematics"]
        assert (explained.coordinates, explained.constraints, explained.rank, explained.dof) == (9, 9, 9, 1)
        assert f"path: {explained.path}" in str(explained)
        assert "degrees of freedom 1" in str(explained)
