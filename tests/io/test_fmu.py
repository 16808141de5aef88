"""FMUs in FMPy against `simulate` of the same mechanism, for both versions of FMI."""

import ctypes
import re
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbs as mbs
from c_library import STRICT, needs_gcc
from designed_four_bar import GUESS, PLAIN, SPEED, WEIGHT, four_bar
from jaxmbs import planar, spatial
from jaxmbs.io.fmu.variables import leaf_names
from spatial_problems import slider_crank

fmpy = pytest.importorskip("fmpy")
fmu_module = pytest.importorskip("fmpy.validation")

# Versions of FMI; the older one is a variant.
VERSIONS = ["3.0", pytest.param("2.0", marks=pytest.mark.variant)]
# Communication points of the comparisons (s).
TIMES = np.linspace(0, 10, 201)
# Largest step of the comparisons (s).
STEP = 2e-3
# Status of a call that a solver may repeat with other values.
DISCARD = 2
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
        pytest.param(
            model, version, marks=() if (model, version) == ("double_pendulum", "2.0") else pytest.mark.variant
        )
        for model in MODELS
        for version in ("2.0", "3.0")
    ],
)
def test_cosimulation_is_simulate(model, version, tmp_path):
    """Over 10 s, with the same steps; FMPy finds no fault in the description."""
    mech, guess, velocities = MODELS[model]()
    file = mbs.export_fmu(mech, tmp_path / f"{model}.fmu", version=version, guess=guess, v0=velocities, step=STEP)
    assert fmu_module.validate_fmu(str(file)) == []
    run = simulated(mech, guess, velocities)
    current = ["states.motor.current"] if "motor" in mech.forces else []
    found = in_fmpy(file, [*names(run), *current])
    same(found, run)
    for name in current:
        np.testing.assert_allclose(found[name], run.state("motor.current"), atol=1e-9)


@pytest.fixture(scope="module")
def four_bars(tmp_path_factory):
    """A function that returns the FMU of the four-bar in a version, with its masses, lengths and centres as parameters."""
    folder = tmp_path_factory.mktemp("fmu")
    options = {"guess": GUESS, "v0": {"crank.phi": SPEED}, "parameters": PLAIN, "points": TIP, "step": STEP}

    @cache
    def file(version):
        return mbs.export_fmu(free_four_bar, folder / f"bars{version[0]}.fmu", version=version, **options)

    return file


class Opened:
    """An FMU in FMPy, unpacked and ready for initialisation; variables by name."""

    def __init__(self, file, kind, token=None):
        self.description = fmpy.read_model_description(str(file))
        self.messages = []
        self.folder = fmpy.extract(str(file), tempfile.mkdtemp(dir=Path(file).parent))
        self.references = {x.name: x.valueReference for x in self.description.modelVariables}
        if token is not None:
            self.description.guid = self.description.instantiationToken = token
        old = self.description.fmiVersion == "2.0"
        options = {"fmi_type": kind, "logger": None if old else self.log}
        self.fmu = fmpy.instantiate_fmu(self.folder, self.description, **options)
        if old:
            self.fmu.setupExperiment(startTime=0.0)

    def log(self, environment, status, category, message):
        self.messages.append(message.decode())

    def start(self, changes=None):
        self.fmu.enterInitializationMode()
        self.set(changes or {})
        self.fmu.exitInitializationMode()
        return self

    def set(self, values):
        put = getattr(self.fmu, "setFloat64", None) or self.fmu.setReal
        put([self.references[name] for name in values], list(values.values()))

    def get(self, *names):
        take = getattr(self.fmu, "getFloat64", None) or self.fmu.getReal
        return np.array(take([self.references[name] for name in names]))

    def step(self, t, length):
        self.fmu.doStep(currentCommunicationPoint=t, communicationStepSize=length)


@needs_gcc
@pytest.mark.parametrize("version", VERSIONS)
def test_changed_parameters_are_assembled(four_bars, version):
    """With other lengths and centres the FMU finds the configuration and the motion of the changed mechanism."""
    times = np.linspace(0, 1, 21)
    q = mbs.assemble(free_four_bar(PLAIN), GUESS).q
    run = simulated(free_four_bar(CHANGED), q, {"crank.phi": SPEED}, times)
    found = in_fmpy(four_bars(version), [*names(run), "tip.x", "der(tip.y)"], times, start_values=CHANGES)
    same(found, run)
    np.testing.assert_allclose(found["tip.x"], run.point(*TIP["tip"])[:, 0], atol=1e-10)
    np.testing.assert_allclose(found["der(tip.y)"], run.point_velocity(*TIP["tip"])[:, 1], atol=1e-9)
    assert fmu_module.validate_fmu(str(four_bars(version))) == []


@needs_gcc
@pytest.mark.parametrize("version", VERSIONS)
def test_states_go_back_and_errors_name_the_status(four_bars, version):
    """A step after a state was restored, also from bytes, is repeated to the last bit; a reset begins anew."""
    opened = Opened(four_bars(version), "CoSimulation").start({"start.velocity.crank.phi": 3.0})
    fmu, old = opened.fmu, version == "2.0"
    assert opened.get("der(crank.phi)") == pytest.approx(3)
    opened.step(0.0, 0.05)
    kept = (fmu.getFMUstate if old else fmu.getFMUState)()
    opened.step(0.05, 0.05)
    first = opened.get("rocker.phi", "der(rocker.phi)")
    (fmu.setFMUstate if old else fmu.setFMUState)(kept)
    opened.step(0.05, 0.05)
    assert opened.get("rocker.phi", "der(rocker.phi)").tolist() == first.tolist()
    data = (fmu.serializeFMUstate if old else fmu.serializeFMUState)(kept)
    again = (fmu.deSerializeFMUstate if old else fmu.deserializeFMUState)(data)
    (fmu.setFMUstate if old else fmu.setFMUState)(again)
    opened.step(0.05, 0.05)
    assert opened.get("rocker.phi", "der(rocker.phi)").tolist() == first.tolist()
    for wrong in ({"mass.rocker": 2.0}, {"rocker.phi": 0.0}, {"time": 1.0}):
        with pytest.raises(fmpy.fmi1.FMICallException):
            opened.set(wrong)
    fmu.reset()
    if old:
        fmu.setupExperiment(startTime=0.0)
    with pytest.raises(fmpy.fmi1.FMICallException):
        opened.start({"length.ground": 1.0})
    fmu.freeInstance()
    if not old:
        assert opened.messages == [
            "mass.rocker can be set before the end of initialisation only",
            "rocker.phi cannot be set",
            "time cannot be set",
            "assembly at t = 0: status 1, NOT_ASSEMBLED",
        ]


@needs_gcc
def test_the_token_of_another_fmu_is_refused(four_bars):
    with pytest.raises(Exception, match="instantiate"):
        Opened(four_bars("3.0"), "CoSimulation", "{00000000}")


@needs_gcc
@pytest.mark.parametrize("version", VERSIONS)
def test_model_exchange(four_bars, version):
    """Derivatives are those of the motion, also at states that are not closed; their derivatives are differences."""
    opened = Opened(four_bars(version), "ModelExchange")
    fmu, length = opened.fmu, opened.references["length.crank"]
    with pytest.raises(fmpy.fmi1.FMICallException):
        fmu.getDirectionalDerivative([opened.references["crank.phi"]], [length], [1.0])  # not before the assembly
    opened.start()
    fmu.enterContinuousTimeMode()
    states = [name for name in opened.references if name.startswith(("joints.", "rates."))]
    rates = [f"der({name})" for name in states]
    count = len(states)
    start = opened.get(*states)

    def derivatives(t, x):
        fmu.setTime(t)
        given, found = np.array(x, float), np.zeros(count)
        pointer = lambda array: array.ctypes.data_as(fmpy.fmi1.POINTER(fmpy.fmi1.c_double))
        fmu.setContinuousStates(pointer(given), count)
        get = fmu.getDerivatives if version == "2.0" else fmu.getContinuousStateDerivatives
        get(pointer(found), count)
        return found

    run = simulated(free_four_bar(PLAIN), GUESS, {"crank.phi": SPEED}, np.linspace(0, 1, 11), step=2e-4)
    found = solve_ivp(derivatives, (0, 1), start, method="DOP853", rtol=1e-11, atol=1e-11)
    derivatives(1.0, found.y[:, -1])
    near = opened.get("rocker.phi", "der(rocker.phi)")
    np.testing.assert_allclose(near, [run.position("rocker.phi")[-1], run.velocity("rocker.phi")[-1]], atol=1e-7)
    # Off the constraints, states and outputs are closed.
    derivatives(0.0, start + 1e-3)
    x = opened.get("crank.phi", "coupler.phi", "rocker.phi")
    lengths = [PLAIN["length"][name] for name in ("crank", "coupler", "rocker")]
    closing = np.array(lengths) * [1, 1, -1] @ np.array([np.cos(x), np.sin(x)]).T
    np.testing.assert_allclose(closing, [PLAIN["length"]["ground"], 0], atol=1e-12)
    h, identity = 1e-6, np.eye(count)
    differences = [(derivatives(0.0, start + h * e) - derivatives(0.0, start - h * e)) / (2 * h) for e in identity]
    derivatives(0.0, start)
    columns = []
    for state in states:
        given = [[opened.references[name] for name in rates], [opened.references[state]], [1.0]]
        columns.append(fmu.getDirectionalDerivative(*given))
    np.testing.assert_allclose(columns, differences, atol=1e-6 * np.abs(differences).max())
    # A trial state without a solution is discarded, not an error: the next one is as good as before.
    with pytest.raises(fmpy.fmi1.FMICallException) as caught:
        derivatives(0.0, np.nan * start)
    assert caught.value.status == DISCARD
    again = (derivatives(0.0, start + h * identity[0]) - derivatives(0.0, start - h * identity[0])) / (2 * h)
    np.testing.assert_array_equal(again, differences[0])


@needs_gcc
def test_inputs_replace_motions_and_forces(tmp_path):
    """A motion given by value, rate and acceleration is followed between communication points; a force may jump."""
    free = motor_slider_crank(motor=False)
    motor = planar.RevoluteDriver("ground", "crank", mbs.motion.Polynomial((0.2, 1.0, 4.0)))
    mech = mbs.Mechanism(free.bodies, free.constraints, {"the motor": motor}, free.forces)
    guess = {"crank": (0, 0, 0.2), "rod": (0.24, 0, 0), "slider": (0.4, 0, 0)}
    inputs = ("the motor", "push.x")
    file = mbs.export_fmu(mech, tmp_path / "driven.fmu", guess=guess, inputs=inputs, step=STEP, version="3.0")
    assert fmu_module.validate_fmu(str(file)) == []
    opened = Opened(file, "CoSimulation")
    motion = [f"'the motor'.{part}" for part in ("value", "rate", "acceleration")]
    assert opened.get(*motion, "push.x").tolist() == [0.2, 1.0, 8.0, 0.5]
    opened.start()
    opened.step(0.0, 0.1)
    angle = 0.2 + 0.1 + 4 * 0.1**2
    # Crank of 0.1, rod of 0.3.
    slope = -0.1 * np.sin(angle) * (1 + 0.1 * np.cos(angle) / np.sqrt(0.09 - 0.01 * np.sin(angle) ** 2))
    found = opened.get("crank.phi", "der(crank.phi)", "der(slider.x)")
    np.testing.assert_allclose(found, [angle, 1.8, 1.8 * slope], atol=1e-12)
    # By virtual work, the torque changes by the force times the slope.
    before = opened.get("'the motor'.effort")
    opened.set({"push.x": 4.0})
    np.testing.assert_allclose(opened.get("'the motor'.effort") - before, -3.5 * slope, atol=1e-12)
    # A new motion from here on.
    opened.set(dict(zip(motion, (angle, 0.0, -2.0), strict=True)))
    opened.step(0.1, 0.1)
    np.testing.assert_allclose(opened.get("crank.phi", "der(crank.phi)"), [angle - 0.01, -0.2], atol=1e-12)


@needs_gcc
@pytest.mark.parametrize("version", VERSIONS)
def test_the_interface_is_that_of_the_standard(four_bars, version, tmp_path):
    """The sources compile without a warning, also against the headers of the standard, and no function is missing."""
    with zipfile.ZipFile(four_bars(version)) as archive:
        archive.extractall(tmp_path)
    sources, headers, prefix = tmp_path / "sources", Path(fmpy.__file__).parent / "c-code", f"fmi{version[0]}"
    text = (sources / f"{prefix}.c").read_text()
    own_types = text[text.index("typedef") : text.index(f"static {prefix}Status result")]
    (sources / "standard.c").write_text(text.replace(own_types, f'#include "{prefix}Functions.h"\n'))
    for file, options in ((f"{prefix}.c", STRICT), ("standard.c", ["-std=c99", "-Werror", "-isystem", headers])):
        done = subprocess.run(["gcc", *options, "-fsyntax-only", sources / file], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    (library,) = tmp_path.glob("binaries/*/*.so")
    expected = re.findall(rf"({prefix}[A-Z]\w+)TYPE\b", (headers / f"{prefix}FunctionTypes.h").read_text())
    assert len(expected) > 40
    assert [name for name in expected if not hasattr(ctypes.CDLL(str(library)), name)] == []


def test_names_of_parameters():
    """Structured names of FMI: identifiers, dots and indices from 1; other names are quoted."""
    tree = {"b": [(0.0, 1.0), np.ones((1, 2))], "a c": {"d": 2}, "e": np.float64(1)}
    found = leaf_names(tree)
    assert found == ["'a c'.d", "b[1,1]", "b[1,2]", "b[2,1,1]", "b[2,1,2]", "e"]
    assert leaf_names(1.0) == ["parameters"]
    assert leaf_names([1.0]) == ["parameters[1]"]


def test_bad_input(tmp_path, monkeypatch):
    mech = double_pendulum()
    push = {"push": mbs.PointForce("lower", (0, 0), lambda state: jnp.array([state.t, 0.0]))}
    pushed = mbs.Mechanism(mech.bodies, mech.constraints, forces=push)
    guess = MODELS["double_pendulum"]()[1]
    file = tmp_path / "mech.fmu"
    slide = ("fixed", "fixed", mbs.motion.Ramp(rate=1.0))
    moved = spatial.RelativeJoint("ground", "plate", position=slide, orientation=("fixed", "fixed", "fixed"))
    table = mbs.Mechanism({"plate": spatial.Body(2.0, 0.3)}, {"table": moved})
    same_names = {"upper": ("lower", (0, 0))}
    cases = [
        (mech, tmp_path / "mech.zip", {}, "must end in .fmu"),
        (mech, tmp_path / "a b.fmu", {}, "must be an identifier of C, got 'a b'"),
        (mech, file, {"version": "1.0"}, "version must be one of '2.0', '3.0'"),
        (mech, file, {"inputs": "push"}, r"inputs must be a tuple of names"),
        (mech, file, {"inputs": ("pull",)}, "unknown input .* 'pull'"),
        (mech, file, {"inputs": ("gravity",)}, "input 'gravity': Gravity has no argument that can be an input"),
        (pushed, file, {"inputs": ("push.x",)}, "input 'push.x': the FMU replaces value, which must be a number"),
        (mech, file, {"points": {"tip": ("arm", (0, 0))}}, "point 'tip': unknown body 'arm'"),
        (mech, file, {"points": same_names}, "two variables of the FMU are called 'upper.x'"),
        (mech, file, {"parameters": 1.0}, "parameters need a function"),
        (lambda b: mech, file, {"parameters": {"on": True}}, "parameters: on must be a real number, got True"),
        (mech, file, {"unit": "km"}, "unit must be one of m, mm, .* got 'km'"),
        (table, file, {"guess": None}, "the motions determine all joint coordinates"),
        (mech, file, {"step": 0.0}, "step must be positive"),
        (mech, file, {"method": mbs.RK4}, "method must be an object"),
        (mech, file, {"formulation": mbs.Augmented()}, "formulation must be an object"),
        (mech, file, {"v0": {"upper.x": 1.0, "upper.phi": 0.0}}, "v0 contradicts the constraints"),
        (mech, file, {"guess": {"upper": (np.nan, 0, 0)}}, "NON_FINITE"),
    ]
    for given, target, options, message in cases:
        with pytest.raises(ValueError, match=message):
            mbs.export_fmu(given, target, **{"guess": guess, "binary": False, **options})
    with pytest.raises(ValueError, match="double precision"):
        mbs.export_fmu(mech.astype(jnp.float32), file, guess=guess, binary=False)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ValueError, match="there is no C compiler 'no-such-compiler'"):
        mbs.export_fmu(mech, file, guess=guess)
    assert not list(tmp_path.iterdir())
