"""FMUs in FMPy against `simulate` of the same mechanism, for both versions of FMI."""

import subprocess
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from c_library import STRICT, needs_gcc
from designed_four_bar import GUESS, PLAIN, SPEED, WEIGHT, four_bar
from jaxmbs import planar
from spatial_problems import slider_crank

fmpy = pytest.importorskip("fmpy")
fmu_module = pytest.importorskip("fmpy.validation")

# Communication points of the comparisons (s).
TIMES = np.linspace(0, 10, 201)
# Largest step of the comparisons (s).
STEP = 2e-3
# A point of the coupler of the four-bar.
TIP = {"tip": ("coupler", (0.1, 0.2))}
# The four-bar with other numbers: what changes in Python, and in the FMU.
CHANGED = {**PLAIN, "length": {**PLAIN["length"], "coupler": 0.3}, "com": {**PLAIN["com"], "rocker": (0.1, 0.03)}}
CHANGES = {"length.coupler": 0.3, "com.rocker[1]": 0.1, "com.rocker[2]": 0.03}


def free_four_bar(b):
    return four_bar(b, WEIGHT, {})


def motor_slider_crank(voltage=6.0, motor=True):
    """A slider-crank that a direct-current motor with inductance turns."""
    bodies = {name: planar.Body(0.5, 2e-3) for name in ("crank", "rod", "slider")}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (0.1, 0), (-0.15, 0)),
        "B": planar.Revolute("rod", "slider", (0.15, 0), (0, 0)),
        "guide": planar.Translational("ground", "slider", (0, 0), (0, 0)),
    }
    push = mbs.PointForce("slider", (0, 0), (0.5, 0.0))
    forces = {"motor": mbs.Motor("O", 0.05, 2.0, voltage, ratio=20.0, inductance=0.02), "push": push}
    return mbs.Mechanism(bodies, joints, forces=forces if motor else {"push": push})


def double_pendulum():
    bodies = {"upper": planar.Body(1.0, 0.05), "lower": planar.Body(0.8, 0.04)}
    joints = {
        "O": planar.Revolute("ground", "upper", (0, 0), (0, 0.5)),
        "A": planar.Revolute("upper", "lower", (0, -0.5), (0, 0.4)),
    }
    return mbs.Mechanism(bodies, joints, forces={"gravity": mbs.Gravity((0, -9.81))})


# Mechanism, guess, velocities and outputs by name.
MODELS = {
    "four_bar": lambda: (free_four_bar(PLAIN), GUESS, {"crank.phi": SPEED}),
    "slider_crank": lambda: (motor_slider_crank(), {"rod": (0.25, 0, 0), "slider": (0.4, 0, 0)}, None),
    "double_pendulum": lambda: (double_pendulum(), {"upper": (0.2, -0.45, 0.4), "lower": (0.5, -1.2, 0.3)}, None),
    "spatial_slider_crank": lambda: (*slider_crank(), {"crank.wx": 6.0}),
}


def simulated(mech, guess, velocities=None, times=TIMES, **options):
    options = {"step": STEP, "formulation": mbs.JointCoordinates(), "throw": True, **options}
    return mbs.simulate(mech, times, guess, velocities, **options)


def in_fmpy(file, outputs, times=TIMES, **options):
    """Return outputs of an FMU at times that are evenly spaced, by name."""
    options = {"fmi_type": "CoSimulation", "output_interval": times[1] - times[0], **options}
    found = fmpy.simulate_fmu(str(file), stop_time=times[-1], output=list(outputs), **options)
    np.testing.assert_allclose(found["time"], times, atol=1e-9)
    return found


def same(found, run, tolerance=1e-10):
    """Fail unless all coordinates and velocities of bodies are those of a trajectory."""
    for name in run.layout.coordinates:
        np.testing.assert_allclose(found[name], run.position(name), rtol=0, atol=tolerance)
    for name in run.layout.velocities:
        fmi_name = f"der({name})" if name in run.layout.coordinates else name
        size = max(1, np.abs(run.velocity(name)).max())
        np.testing.assert_allclose(found[fmi_name], run.velocity(name), rtol=0, atol=tolerance * size)


def names(run):
    layout = run.layout
    return [*layout.coordinates, *(f"der({x})" if x in layout.coordinates else x for x in layout.velocities)]


@needs_gcc
@pytest.mark.parametrize(
    ("model", "version"),
    [
        pytest.param(model, version, marks=() if (model, version) == ("slider_crank", "3.0") else pytest.mark.variant)
        for model in MODELS
        for version in ("2.0", "3.0")
    ],
)
def test_cosimulation_is_simulate(model, version, tmp_path):
    """Over 10 s, with the same steps; FMPy finds no fault in the description."""
    mech, guess, velocities = MODELS[model]()
    file = mbs.export_fmu(
        mech, tmp_path / f"{model}.fmu", version=version, guess=guess, velocities=velocities, step=STEP
    )
    assert fmu_module.validate_fmu(str(file)) == []
    run = simulated(mech, guess, velocities)
    current = ["states.motor.current"] if "motor" in mech.forces else []
    found = in_fmpy(file, [*names(run), *current])
    same(found, run)
    for name in current:
        np.testing.assert_allclose(found[name], run.state("motor.current"), atol=1e-9)
