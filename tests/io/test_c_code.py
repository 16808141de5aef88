"""Functions of a mechanism in C against the package's own analyses, closed forms and differences."""

import re
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from c_library import STRICT, Compiled, needs_gcc
from designed_four_bar import GUESS, PLAIN, SPEED, WEIGHT, four_bar
from jaxmbs import planar, spatial
from jaxmbs.io.c_code import MechanismFunctions, export_c
from jaxmbs.programs import CSource

TIP = (0.1, 0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of all functions of the four-bar with its masses and lengths as parameters."""
    folder = tmp_path_factory.mktemp("four_bar")
    what = ("kinematics", "inverse_dynamics", "jacobian", "step")
    points = {"tip": ("coupler", TIP)}
    options = {"guess": GUESS, "parameters": PLAIN, "points": points, "step": 2e-3, "method": mbs.SemiImplicitEuler()}
    files = export_c(four_bar, folder, what, **options, name="bars")
    assert [file.name for file in files[-2:]] == ["CMakeLists.txt", "bars_test.c"]
    assert all(file.exists() for file in files)
    return folder


def compiled(folder, function, tmp_path):
    """Return a function of keyword arguments, which stand for the members of the struct of inputs."""
    texts = [(folder / f"bars_{function}.{suffix}").read_text() for suffix in ("h", "c")]
    run = Compiled(CSource(f"bars_{function}", *texts, (), ()), tmp_path, ["-O1"])
    inputs, outputs = ([name for name, _ in struct._fields_] for struct in run.structs[:2])
    start = dict(zip(inputs, jax.tree.leaves(PLAIN), strict=False))

    def call(**given):
        values = start | given
        return dict(zip(outputs, run(*(values[name] for name in inputs)), strict=True))

    return call


@pytest.fixture(scope="module")
def motion():
    """The four-bar's motion, and its mechanism."""
    mech = four_bar(PLAIN)
    return mech, mbs.kinematics(mech, np.linspace(0, 0.8, 9), GUESS, throw=True)


def drive(t):
    return np.array([SPEED * t, SPEED, 0.0])


@needs_gcc
def test_kinematics_and_efforts_follow_a_motion(folder, motion, tmp_path):
    """Pose by pose from the last one, with the efforts of the motor; what cannot be assembled and NaN have a bad status."""
    mech, run = motion
    kinematics, efforts = (compiled(folder, name, tmp_path) for name in ("kinematics", "inverse_dynamics"))
    effort = mbs.reactions(mech, run)["motor"].effort
    q = run.q[0]
    for k, t in enumerate(run.t):
        found = kinematics(q=q, drive_motor=drive(t), t=t)
        q = found["q"]
        assert found["status"] == 0
        for name in ("q", "v", "a"):
            expected = getattr(run, name)[k]
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_allclose(found["points_tip"], run.point("coupler", TIP)[k], atol=1e-13)
        torque = efforts(q=q, drive_motor=drive(t), t=t)
        np.testing.assert_allclose(torque["effort_motor"], effort[k], rtol=1e-10)
    short = kinematics(q=q, drive_motor=drive(0.5), t=0.5, parameters_length_coupler=0.05)
    assert short["status"] == mbs.Status.NOT_ASSEMBLED
    assert kinematics(q=q, drive_motor=np.array([np.nan, 0, 0]), t=0.0)["status"] == mbs.Status.NON_FINITE


@needs_gcc
def test_jacobian_is_the_derivative(folder, motion, tmp_path):
    """By the angle of the motor: q̇ / φ̇, because the motor turns at a constant rate."""
    _, run = motion
    jacobian = compiled(folder, "jacobian", tmp_path)
    for k in (0, 3, 7):
        found = jacobian(q=run.q[k], drive_motor=drive(run.t[k]), t=run.t[k])
        assert found["status"] == 0
        np.testing.assert_allclose(found["q_motor"], run.v[k] / SPEED, atol=1e-11)
        np.testing.assert_allclose(found["points_tip_motor"], run.point_velocity("coupler", TIP)[k] / SPEED, atol=1e-11)


@needs_gcc
def test_steps_are_those_of_simulate(folder, tmp_path):
    """A hundred steps with other masses: those of `simulate`, with the motor's angle given for each step."""
    step = compiled(folder, "step", tmp_path)
    design = {**PLAIN, "mass": {**PLAIN["mass"], "rocker": 1.5}}
    times = np.linspace(0, 0.2, 101)
    options = {"method": mbs.SemiImplicitEuler(), "formulation": mbs.JointCoordinates()}
    run = mbs.simulate(four_bar(design), times, GUESS, {"crank.phi": SPEED}, step=2e-3, throw=True, **options)
    q, v = run.q[0], run.v[0]
    for t in times[:-1]:
        found = step(q=q, v=v, t=t, drive_motor=drive(t), parameters_mass_rocker=1.5)
        q, v = found["q"], found["v"]
        assert found["status"] == 0
    np.testing.assert_allclose(q, run.q[-1], atol=1e-11)
    np.testing.assert_allclose(v, run.v[-1], atol=1e-9)


@needs_gcc
def test_linearisation_is_that_of_python(tmp_path):
    """About a motion, with another mass; the free four-bar has one coordinate, which the header names."""
    options = {"guess": GUESS, "points": {"tip": ("coupler", TIP)}, "linear_inputs": ("push",)}
    free = lambda mass: four_bar(
        {**PLAIN, "mass": {**PLAIN["mass"], "crank": mass}}, WEIGHT | {"push": mbs.Torque("crank", 0.0)}, {}
    )
    export_c(free, tmp_path, ("linearisation",), parameters=0.5, name="bars", **options)
    header, source = ((tmp_path / f"bars_linearisation.{suffix}").read_text() for suffix in ("h", "c"))
    run = mbs.simulate(free(0.7), np.linspace(0, 0.1, 3), GUESS, {"crank.phi": 3.0}, step=1e-3, throw=True)
    q, v = run.q[-1], run.v[-1]
    linear = mbs.linearise(free(0.7), q, v, inputs=("push",), outputs=(("coupler", TIP),), coordinates=("A.phi",))
    assert f"States of A and B: {', '.join(linear.state_names)}. Inputs of B: push." in header
    function = Compiled(CSource("bars_linearisation", header, source, (), ()), tmp_path, ["-O1"])
    *matrices, status = function(0.7, q, v, 0.0)
    assert status == 0
    for found, expected in zip(matrices, (linear.A, linear.B, linear.C, linear.D), strict=True):
        np.testing.assert_allclose(found, np.ravel(expected), rtol=0, atol=1e-12 * np.abs(linear.A).max())
    assert function(0.7, q + 0.1, v, 0.0)[-1] == mbs.Status.NOT_ASSEMBLED


@needs_gcc
def test_the_program_with_the_test_runs(folder):
    sources = sorted(folder.glob("*.c"))
    test = folder / "test"
    # The addresses of all reads and writes are checked as well.
    command = ["gcc", *STRICT, "-O1", "-fsanitize=address,undefined", *sources, "-o", test, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = subprocess.run([test], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("largest deviation") == 4


@needs_gcc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_builds_it(folder, tmp_path):
    subprocess.run(["cmake", "-S", folder, "-B", tmp_path], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    subprocess.run(["ctest", "--test-dir", tmp_path], check=True, capture_output=True)


@needs_gcc
def test_motions_of_joints_have_numbers(tmp_path):
    """A joint in space with a prescribed slide and angle; the numbers of the mechanism are constants."""
    joint = spatial.RelativeJoint(
        *("ground", "plate"),
        position=("fixed", "fixed", mbs.motion.Ramp(rate=1.0)),
        orientation=("fixed", "fixed", mbs.motion.Ramp(rate=1.0)),
    )
    mech = mbs.Mechanism({"plate": spatial.Body(2.0, 0.3)}, {"table": joint})
    header, source, *_ = export_c(mech, tmp_path, name="table")
    code = CSource("table_kinematics", header.read_text(), source.read_text(), (), ())
    run = Compiled(code, tmp_path, ["-O1"])
    assert [name for name, _ in run.structs[0]._fields_] == ["q", "drive_table_0", "drive_table_1", "t"]
    values = run(mech.coordinates(), np.array([0.2, 3, 0]), np.array([0.5, 2, 1]), 0.0)
    found = dict(zip([name for name, _ in run.structs[1]._fields_], values, strict=True))
    assert found["status"] == 0
    np.testing.assert_allclose(found["q"], [0, 0, 0.2, np.cos(0.25), 0, 0, np.sin(0.25)], atol=1e-12)
    np.testing.assert_allclose(found["v"], [0, 0, 3, 0, 0, 2], atol=1e-12)
    np.testing.assert_allclose(found["a"], [0, 0, 0, 0, 0, 1], atol=1e-12)


@needs_gcc
def test_the_robot_of_the_page(tmp_path, monkeypatch):
    """The loop in C finds the torques of `reactions` along the same motion."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs/c_code.md").read_text("utf-8")
    python, c = (re.findall(rf"```{word}\n(.*?)```", text, re.DOTALL)[-1] for word in ("python", "c"))
    scope = {}
    exec(python, scope)
    start = ", ".join(map(repr, np.asarray(scope["pose"].q).tolist()))
    Path("loop.c").write_text(c.replace("START", f"{{{start}}}"))
    sources = ["loop.c", *(f"robot/{name}.c" for name in ("tip/tip_kinematics", "motors/motors_inverse_dynamics"))]
    subprocess.run(["gcc", *STRICT, "-O1", "-Irobot/tip", "-Irobot/motors", *sources, "-o", "loop", "-lm"], check=True)
    largest = float(subprocess.run(["./loop"], check=True, capture_output=True, text=True).stdout)
    rate, times = 2 * np.pi, np.arange(1000) * 1e-3
    circle = {
        "x": planar.AbsoluteXDriver("left rod", (0.15, 0), mbs.motion.Harmonic(0.04, rate)),
        "y": planar.AbsoluteYDriver("left rod", (0.15, 0), mbs.motion.Harmonic(0.04, rate, -np.pi / 2, 0.39)),
    }
    mech = scope["robot"](circle)
    run = mbs.kinematics(mech, times, scope["pose"].q, throw=True)
    forces = mbs.reactions(mech, run)
    # Virtual work: the torque of the left motor is that of the driving forces for the angle of the left arm alone.
    by_angles = jax.vmap(lambda q: _tip_by_angles(scope["robot"], q))(run.q)
    expected = by_angles[:, 0, 0] * forces["x"].effort + by_angles[:, 1, 0] * forces["y"].effort
    np.testing.assert_allclose(largest, np.abs(expected).max(), rtol=1e-7)


def _tip_by_angles(robot, q):
    """Return the derivatives (2, 2) of P with respect to the angles of both arms."""
    joints = robot({})
    jacobian = mbs.constraint_jacobian(joints, q)
    angles = np.array([2, 5])
    others = np.array([k for k in range(12) if k not in angles])
    motion = jnp.zeros((12, 2)).at[angles, jnp.arange(2)].set(1.0)
    motion = motion.at[others].set(jnp.linalg.lstsq(jacobian[:, others], -jacobian[:, angles])[0])
    tip = lambda q: joints.point(q, "left rod", (0.15, 0))
    return jax.jacfwd(tip)(q) @ motion


@needs_gcc
def test_single_precision_and_odd_parameters(tmp_path):
    """Numbers of float32; truth values, infinite and empty parameters in the test program; whole numbers are lengths."""
    jax.config.update("jax_enable_x64", False)

    def crank(b):
        slider = planar.Revolute("ground", "a", (0, 0), (-b["length"], 0))
        turn = planar.RevoluteDriver("ground", "a", mbs.motion.Constant(0.2))
        mass = jnp.where(b["loaded"], 2.0, 1.0) + jnp.where(b["limit"] > 1, 0.0, 1.0) + b["loads"].sum()
        return mbs.Mechanism({"a": planar.Body(mass, 0.1)}, {"pin": slider}, {"turn": turn})

    parameters = {"length": 1, "loaded": True, "limit": np.float32(np.inf), "loads": np.zeros(0, np.float32)}
    files = export_c(
        crank, tmp_path, ("kinematics", "inverse_dynamics"), parameters=parameters, guess={"a": (1, 0.1, 0)}
    )
    text = "".join(file.read_text() for file in files if file.suffix in (".h", ".c") and "_test" not in file.name)
    assert "double " not in text
    assert "float parameters_length;" in text
    test = tmp_path / "test"
    subprocess.run(["gcc", *STRICT, "-O1", *tmp_path.glob("*.c"), "-o", test, "-lm"], check=True)
    subprocess.run([test], check=True)


def test_gears_stay_in_mesh(tmp_path):
    """The phase of a gear pair without marks is that of the assembled guess, also from a pose that is 0.1 rad off."""
    pins = {name: planar.Revolute("ground", name, (x, 0), (0, 0)) for name, x in (("a", 0), ("b", 3))}
    gear = planar.Gear("a", "b", (0, 0), (0, 0), 1.0, 2.0)
    turn = planar.RevoluteDriver("ground", "a", mbs.motion.Constant(0.0))
    mech = mbs.Mechanism(dict.fromkeys("ab", planar.Body()), {**pins, "gear": gear}, {"turn": turn})
    inputs = {"q": mech.coordinates({"a": (0, 0, 0.4), "b": (3, 0, -0.1)}), "drive": {"turn": jnp.array([0.4, 0, 0])}}
    functions = MechanismFunctions(lambda _: mech, {}, (), 1e-3, mbs.RK4(), mbs.JointCoordinates())
    functions, _ = functions.with_test_inputs(None, {"b": (3, 0, 0)})
    found = functions.kinematics(inputs | {"t": jnp.zeros(())})
    np.testing.assert_allclose(found["q"][5], -0.2, atol=1e-12)


def test_bad_input(tmp_path):
    free = mbs.Mechanism({"a": planar.Body()}, {"pin": planar.Revolute("ground", "a", (0, 0), (1, 0))})
    motor = {"motor": mbs.Motor("pin", 0.05, 2.0, 12.0, inductance=0.01)}
    driver = planar.RevoluteDriver("ground", "a", mbs.motion.Constant(0.0))
    driven = mbs.Mechanism(free.bodies, free.constraints, {"turn": driver}, motor)
    twice = mbs.Mechanism(free.bodies, free.constraints, {"x+": driver, "x-": driver})
    cases = [
        (free, ("kinematic",), {}, "unknown function 'kinematic'; did you mean 'kinematics'"),
        (free, "step", {}, r"what must be a tuple of names, such as \('step',\)"),
        (free, (), {}, "what must name a function"),
        (free, ("jacobian",), {}, "jacobian: the mechanism has no drivers"),
        (free, ("kinematics",), {}, "1 driver.* missing"),
        (twice, ("kinematics",), {}, "redundant"),
        (twice, ("step",), {}, r"drive\['x\+'\] and drive\['x-'\] would both be called drive_x in C"),
        (driven, ("step",), {}, "step: the force 'motor' has states"),
        (driven, ("inverse_dynamics",), {}, "inverse_dynamics: the force 'motor' has states"),
        (free, ("step",), {"points": {"tip": ("b", (0, 0))}}, "point 'tip': unknown body 'b'"),
        (free, ("step",), {"name": "a b"}, "name= must be an identifier of C.*got 'a b_step'"),
        (free, ("step",), {"method": mbs.GeneralizedAlpha()}, "method must be"),
        (free, ("step",), {"method": mbs.RK4}, "method"),
        (free, ("step",), {"step": 0.0}, "step must be positive"),
        (free, ("step",), {"parameters": 1.0}, "parameters need a function"),
    ]
    for mech, what, options, message in cases:
        with pytest.raises(ValueError, match=message):
            export_c(mech, tmp_path, what, **options)
    assert not list(tmp_path.iterdir())
    (tmp_path / "CMakeLists.txt").write_text("project(firmware C)")
    with pytest.raises(ValueError, match="was not written by export_c"):
        export_c(free, tmp_path, ("step",))


def test_a_function_that_calls_python_is_refused(tmp_path):
    call = lambda angle, rate: jax.pure_callback(
        np.sin, jax.ShapeDtypeStruct((), jnp.float64), angle, vmap_method="sequential"
    )
    pin = planar.Revolute("ground", "a", (0, 0), (1, 0))
    forces = {"law": mbs.TorsionSpring("ground", "a", torque=call)}
    mech = mbs.Mechanism({"a": planar.Body(1.0, 0.1)}, {"pin": pin}, forces=forces)
    with pytest.raises(mbs.ProgramError, match="pure_callback"):
        export_c(mech, tmp_path, ("step",), guess={"a": (-1, 0, 0)})
