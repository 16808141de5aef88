"""`explain` counts what `simulate` runs, and the documentation says the same."""

import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jaxmbs as mbs
from jaxmbs.programs import emission

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def models():
    """The mechanisms of the benchmarks."""
    spec = importlib.util.spec_from_file_location("benchmark_models", ROOT / "benchmarks" / "models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counted(mech, formulation=None):
    """Operations of the acceleration, of a program made here."""
    formulation = formulation or mbs.Augmented()
    program = mbs.program(lambda mech, q, v, t: formulation.equations(mech).accelerations(q, v, t)[0], limit=None)
    return program.trace(mech, mech.coordinates(), jnp.zeros(mech.layout.m), 0.0).size


def documented(page, pattern):
    """A number in a page."""
    found = re.search(pattern, (ROOT / "docs" / page).read_text())
    assert found, (page, pattern)
    return int(found[1].replace(",", ""))


def test_what_a_simulation_runs(models):
    """The acceleration is that of the equations of motion, a step of RK4 evaluates it four times and closes."""
    mech, guess = models.four_bar(models.FOUR_BAR), models.four_bar_guess(models.FOUR_BAR, 1.0)
    found = mbs.explain(mech, guess).operations
    assert found["acceleration"] == counted(mech)
    assert 3 * found["acceleration"] < found["step of RK4"] < 6 * found["acceleration"]
    other = mbs.explain(mech, guess, method=mbs.GeneralizedAlpha(0.9), formulation=mbs.JointCoordinates()).operations
    assert 0 < other["acceleration"] < found["acceleration"]
    assert other["step of GeneralizedAlpha"] > other["acceleration"]
    # The page shows what a CPU runs: its stages are written out, a GPU's are a loop.
    with emission("llvm"), jax.default_device(jax.devices("cpu")[0]):
        found = mbs.explain(mech, guess).operations
    for name in ("acceleration", "step of RK4"):
        assert documented("speed.md", rf"{name} ([\d,]+)") == pytest.approx(found[name], rel=0.05)
