"""Analyses under the settings with which JAX helps to check code: the results are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

TIMES = np.linspace(0, 0.2, 3)


def slider_crank(length):
    return mbs.Mechanism(
        {name: planar.Body() for name in ("crank", "rod", "slider")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "rod", (length, 0), (0, 0)),
            "B": planar.Revolute("rod", "slider", (2, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, 0), (0, 0), (1, 0), (1, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Function(lambda t: length * t))},
    )


def pendulum(length):
    hinge = spatial.Revolute("ground", "bob", (0, 0, 0), (0, 0, length), axis_i=(0, 1, 0))
    return mbs.Mechanism({"bob": spatial.Body()}, {"hinge": hinge}, forces={"weight": mbs.Gravity((1, 0, -9.81))})


def simulated(length):
    run = mbs.simulate(pendulum(length), TIMES, {"bob.z": -1.0}, step=0.1)
    return run.joint("hinge").angle + mbs.reactions(pendulum(length), run)["hinge"].force[:, 2]


ANALYSES = {
    "assemble": lambda length: mbs.assemble(slider_crank(length), {"slider": (3, 0, 0)}, 0.3).q,
    "kinematics": lambda length: mbs.kinematics(slider_crank(length), TIMES, {"slider": (3, 0, 0)}).v,
    "simulate": simulated,
}


@pytest.mark.parametrize("setting", ["disable_jit", "strict promotion"])
@pytest.mark.parametrize("name", ANALYSES)
def test_settings(name, setting):
    analysis = ANALYSES[name]
    results = lambda: (analysis(1.0), jax.grad(lambda length: jnp.sum(analysis(length)))(1.0))
    expected = results()
    with jax.disable_jit() if setting == "disable_jit" else jax.numpy_dtype_promotion("strict"):
        found = results()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), found, expected)
