"""The command line: it prints the results of the library; errors say why, and leave no files behind."""

import csv
import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.cli import main
from jaxmbs.cli.main import COMMANDS, parser
from jaxmbs.programs.runtime import store

MODELS = Path(__file__).parent.parent.parent / "examples" / "models"
SLIDER = str(MODELS / "slider_crank.json")
PENDULUM = str(MODELS / "double_pendulum.json")


def test_check_says_what_the_mechanism_is(run):
    code, found, _ = run("check", SLIDER, "--until", 0.3, "--times", 11)
    assert code == 0
    assert found["bodies"] == ["crank", "rod", "piston"]
    assert (found["degrees of freedom"], found["free with drivers"], found["rank"]) == (1, 0, 9)
    assert (found["status"], found["redundant"], found["singularities"]) == ("CONVERGED", [], [])
    assert found["residual"] < 1e-12
    # A simulation that nobody asked for is not looked at.
    assert not {"acceleration", "step of RK4"} & set(found["operations"])
    found = run("check", PENDULUM, "--formulation", "joint")[1]
    cartesian = run("check", PENDULUM, "--formulation", "augmented")[1]
    assert found["operations"]["step of RK4"] < cartesian["operations"]["step of RK4"]


def test_equilibrium_and_modes(run, tmp_path):
    """Two uniform rods of length 1 hang, with ω² = 3 (1 ± 2 / √7) g / l; upside down they are unstable."""
    code, found, _ = run("equilibrium", PENDULUM)
    assert (code, found["stability"], found["status"]) == (0, "stable", {"CONVERGED": 1})
    np.testing.assert_allclose(
        [found["configuration"][name] for name in ("upper.y", "lower.y")], [-0.5, -1.5], atol=1e-9
    )
    code, found, _ = run("modes", PENDULUM, "--film", tmp_path / "second.gif", "--mode", 2)
    assert code == 0
    expected = np.sqrt(3 * (1 + np.array([-2, 2]) / 7**0.5) * 9.81) / (2 * np.pi)
    np.testing.assert_allclose(found["frequencies"], expected, rtol=1e-9)
    assert found["damping ratios"] == [0, 0]
    with Image.open(tmp_path / "second.gif") as film:
        assert film.n_frames > 1
    over = changed(tmp_path / "over.json", PENDULUM, guess={"upper": [0, 0.5, 3.14], "lower": [0, 1.5, 3.14]})
    assert run("equilibrium", over, "--method", "newton")[1]["stability"] == "unstable"
    code, _, error = run("modes", PENDULUM, "--film", tmp_path / "third.gif", "--mode", 3)
    assert (code, "there are 2 modes" in error) == (2, True)


def changed(path, source=SLIDER, **parts):
    model = json.loads(Path(source).read_text())
    for key, value in parts.items():
        model[key] = model.get(key, {}) | value if isinstance(value, dict) else value
    path.write_text(json.dumps(model))
    return path


@pytest.mark.variant
def test_check_finds_what_is_wrong(run, tmp_path):
    pin = {"type": "Revolute", "i": "ground", "j": "crank", "point_i": [0, 0], "point_j": [0, 0]}
    twice = changed(tmp_path / "twice.json", constraints={"again": pin})
    code, found, _ = run("check", twice)
    assert (code, found["redundant"], found["consistent"]) == (0, ["again"], True)
    apart = changed(tmp_path / "apart.json", constraints={"again": {**pin, "point_i": [0.01, 0]}})
    code, found, _ = run("check", apart)
    assert (code, found["status"]) == (1, "NOT_ASSEMBLED")
    # A crank that is longer than the rod cannot turn round.
    long = {"type": "Revolute", "i": "crank", "j": "rod", "point_i": [0.7, 0], "point_j": [0, 0]}
    short = changed(tmp_path / "short.json", constraints={"A": long}, guess={"piston.x": 1.3, "rod": [0.7, 0, 0]})
    code, found, _ = run("check", short, "--until", 0.3, "--times", 21)
    (lock,) = found["singularities"]
    assert (code, lock["kind"]) == (0, "lock-up")
    np.testing.assert_allclose(lock["time"], np.arcsin(0.6 / 0.7) / 10, rtol=1e-4)
    code, found, _ = run("kinematics", short, "--until", 0.3, "--times", 21)
    assert code == 1
    assert found["status"]["LOCKED_UP"] > 0


def test_kinematics_writes_the_motion(run, tmp_path):
    code, found, _ = run("kinematics", SLIDER, "--until", 0.5, "--times", 6, "--output", "out/motion.csv")
    assert (code, found["status"], found["written"]) == (0, {"CONVERGED": 6}, "out/motion.csv")
    assert found["largest gap"] < 1e-12
    rows = list(csv.DictReader((tmp_path / "out" / "motion.csv").read_text().splitlines()))
    t = np.array([float(row["t"]) for row in rows])
    x = np.array([float(row["piston.x"]) for row in rows])
    rate = np.array([float(row["velocity.piston.x"]) for row in rows])
    rod = np.sqrt(0.36 - (0.2 * np.sin(10 * t)) ** 2)
    np.testing.assert_allclose(x, 0.2 * np.cos(10 * t) + rod, rtol=1e-12)
    np.testing.assert_allclose(rate, -2 * np.sin(10 * t) * (1 + 0.2 * np.cos(10 * t) / rod), atol=1e-10)
    assert {row["status"] for row in rows} == {"0"}


def test_simulate_keeps_the_energy(run, tmp_path):
    words = ("simulate", PENDULUM, "--until", 1, "--times", 11, "--step", 1e-3, "--formulation", "joint")
    code, found, _ = run(*words, "--output", "run.json")
    assert code == 0
    # At rest, both rods level: no kinetic energy, and none of position. RK4 keeps the rest to h⁴.
    assert abs(found["energy"]["first"]) < 1e-12
    assert abs(found["energy"]["last"]) < 1e-6
    columns = json.loads((tmp_path / "run.json").read_text())
    assert columns["lower.phi"][-1] == pytest.approx(found["last"]["lower.phi"], rel=1e-12)
    assert len(columns["t"]) == 11


def test_rounding_is_shown_as_zero(run, tmp_path):
    """A rod that hangs has its middle below the pin, not 3e-17 m beside it; small numbers that mean something stay."""
    pin = planar.Revolute("ground", "rod", (0, 0), (-0.5, 0))
    mech = mbs.Mechanism({"rod": planar.Body(1.0, 0.1)}, {"pin": pin}, forces={"weight": mbs.Gravity((0, -9.81))})
    for turned in (0.0, 1e-9):
        mbs.save(mech, tmp_path / "rod.json", guess={"rod": (turned / 2, -0.5, turned - np.pi / 2)})
        code, found, _ = run("simulate", "rod.json", "--until", 1e-4, "--times", 2)
        assert code == 0
        assert found["last"]["rod.x"] == pytest.approx(turned / 2, rel=1e-5, abs=0)
        assert found["last"]["rod.y"] == pytest.approx(-0.5)


def test_single_precision_is_asked_for(run):
    code, found, _ = run("testspeed", PENDULUM, "--batch", 4, "--steps", 20, "--float32", "--formulation", "joint")
    assert (code, found["precision"]) == (0, "float32")
    (row,) = found["speed"]
    assert row["steps per second"] == pytest.approx(1e9 / row["ns per step"])
    assert (row["batch"], row["failed"]) == (4, 0)
    assert row["compile seconds"] > 0


def test_animate_makes_a_film(run, tmp_path):
    words = ("animate", SLIDER, "film.gif", "--until", 0.6, "--times", 4, "--trace", "rod", 0.3, 0)
    code, found, _ = run(*words)
    assert (code, found["motion"], found["status"]) == (0, "kinematics", {"CONVERGED": 4})
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4


def test_synthesize_finds_and_writes(run, tmp_path):
    words = ("synthesize", "path", MODELS / "path.csv", "--upper", 50, "--starts", 256)
    code, found, _ = run(*words, "--output", "best.svg", "--output", "best.model.json")
    assert code == 0
    assert found["error"] < 0.02
    assert found["checks"]["assembled"]
    assert [row["rank"] for row in found["all"]] == list(range(1, len(found["all"]) + 1))
    assert (tmp_path / "best.svg").read_text().startswith("<svg")
    code, model, _ = run("kinematics", "best.model.json", "--until", 1, "--times", 19)
    assert (code, model["status"]) == (0, {"CONVERGED": 19})


def test_a_curve_from_a_drawing(run, tmp_path):
    """A half ellipse, with axes of 30 and 15."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 60">'
    (tmp_path / "arc.svg").write_text(f'{head}<path d="M 20 40 A 30 15 0 0 1 80 40"/></svg>')
    words = ("synthesize", "curve", "arc.svg", "--links", 3, "--ratio", 6, "--transmission-angle", 15, "--starts", 64)
    code, found, _ = run(*words, "--output", "best.json", "--output", "best.svg", "--output", "best.model.json")
    assert code == 0
    assert found["error"] < 0.05
    assert (found["links"], found["topology"]) == (3, "crank-ground")
    assert found["front"] == [{key: found[key] for key in ("links", "error", "ordered error", "topology")}]
    best = mbs.io.read_solution("best.json")
    away = (best["points"] - [50, 20]) / [30, 15]
    np.testing.assert_allclose(np.hypot(*away.T), 1, atol=0.1)
    assert np.ptp(away[:, 0]) == pytest.approx(2, abs=0.2)
    assert (tmp_path / "best.svg").read_text().startswith("<svg")
    # The motor draws it once in a unit of time.
    model = mbs.load("best.model.json")
    motion = mbs.kinematics(model.mechanism, np.linspace(0, 1, 721), model.guess)
    np.testing.assert_allclose(motion.point("coupler", best["point"][1]), best["points"], atol=1e-6)


def test_a_function_from_a_table(run, tmp_path):
    x = np.linspace(1, 2, 21)
    np.savetxt(tmp_path / "log.csv", np.column_stack([x, np.log10(x)]), delimiter=",")
    words = ("synthesize", "function", "log.csv", "--output-span", 60, "--input-span", 60, "--starts", 128)
    code, found, _ = run(*words)
    assert code == 0
    assert found["error"] < 1e-3


def test_export_writes_c_code(run, tmp_path):
    code, found, _ = run("export", SLIDER, "--c", "code", "--name", "engine")
    assert code == 0
    assert [Path(file).name for file in found["written"]] == [
        *("engine_kinematics.h", "engine_kinematics.c", "CMakeLists.txt", "engine_test.c")
    ]
    assert "void engine_kinematics(" in (tmp_path / "code" / "engine_kinematics.h").read_text()


def test_export_writes_an_fmu(run, tmp_path):
    code, found, _ = run("export", PENDULUM, "--fmu", "two.fmu", "--parameters", "bodies.upper.mass", "--no-binary")
    assert (code, found["written"]) == (0, ["two.fmu"])
    with zipfile.ZipFile(tmp_path / "two.fmu") as archive:
        assert "sources/fmi2.c" in archive.namelist()
        variables = ElementTree.fromstring(archive.read("modelDescription.xml")).find("ModelVariables")
    starts = {x.get("name"): x.find("Real").get("start") for x in variables}
    assert float(starts["bodies.upper.mass"]) == mbs.load(PENDULUM).bodies["upper"].mass


def test_convert_keeps_the_numbers(run, tmp_path):
    code, found, _ = run("convert", SLIDER, "copy.json")
    assert (code, found["constraints"]) == (0, 4)
    first, second = mbs.load(SLIDER), mbs.load(tmp_path / "copy.json")
    np.testing.assert_array_equal(first.guess, second.guess)
    assert mbs.save(first, tmp_path / "again.json").read_text() == (tmp_path / "copy.json").read_text()


def test_schema_is_printed(run):
    code, found, _ = run("schema")
    assert (code, found) == (0, mbs.io.schema())


BAD = {
    "no file": ("check", "nothing.json"),
    "no format": ("check", "model.txt"),
    "malformed": ("check", "malformed.json"),
    "wrong version": ("simulate", "version.json", "--output", "run.csv"),
    "unknown element": ("kinematics", "unknown.json", "--output", "run.csv"),
    "NaN": ("animate", "nan.json", "film.gif"),
    "wrong table": ("kinematics", SLIDER, "--output", "run.xlsx"),
    "wrong film": ("animate", SLIDER, "film.avi"),
    "no such body": ("animate", SLIDER, "film.gif", "--trace", "rd"),
    "point of another space": ("animate", SLIDER, "film.gif", "--trace", "rod", 1, 2, 3),
    "drivers missing": ("kinematics", PENDULUM, "--output", "run.csv"),
    "number that is not there": ("export", SLIDER, "--fmu", "mech.fmu", "--parameters", "bodies.rod.length"),
    "wrong output of a model": ("convert", SLIDER, "model.urdf"),
    "no such table": ("synthesize", "path", "nothing.csv"),
    "words in a table": ("synthesize", "path", "words.csv"),
    "ragged table": ("synthesize", "path", "ragged.csv"),
    "unknown linkage": ("synthesize", "path", MODELS / "path.csv", "--mechanism", "seven-bar"),
    "foreign option": ("synthesize", "path", MODELS / "path.csv", "--output-span", 3),
    "option of a curve": ("synthesize", "path", MODELS / "path.csv", "--sliders"),
    "option of a path": ("synthesize", "curve", "points.csv", "--upper", 3),
    "links of a linkage": ("synthesize", "curve", "points.csv", "--links", 5, "--mechanism", "four-bar"),
    "too many links": ("synthesize", "curve", "points.csv", "--links", 99),
    "no such drawing": ("synthesize", "curve", "nothing.svg"),
    "no such image": ("synthesize", "curve", "nothing.png"),
    "drawing without a path": ("synthesize", "curve", "bare.svg"),
    "image that is none": ("synthesize", "curve", "junk.png"),
    "curve of another format": ("synthesize", "curve", "nan.json"),
    "output of synthesis": ("synthesize", "path", MODELS / "path.csv", "--output", "best.docx"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, run, tmp_path):
    (tmp_path / "malformed.json").write_text("{")
    changed(tmp_path / "version.json", version=99)
    changed(tmp_path / "unknown.json", constraints={"X": {"type": "Glue"}})
    (tmp_path / "nan.json").write_text(Path(SLIDER).read_text().replace('"mass": 1,', '"mass": NaN,'))
    (tmp_path / "words.csv").write_text("x,y\n1,2\nthree,4\n")
    (tmp_path / "ragged.csv").write_text("1,2\n3,4,5\n")
    (tmp_path / "points.csv").write_text("0,0\n1,2\n3,1\n")
    (tmp_path / "bare.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "junk.png").write_bytes(b"no image")
    before = sorted(tmp_path.iterdir())
    code, found, complaint = run(*BAD[case])
    assert code == 2
    assert found["code"] == 2
    assert complaint == f"jaxmbs: {found['error']}\n"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        ["simulate"],
        ["fly", "x"],
        ["simulate", SLIDER, "--until", "-1"],
        ["simulate", SLIDER, "--until", "nan"],
        ["kinematics", SLIDER, "--times", "100000000000"],
        ["check", SLIDER, "--at", "soon"],
        ["testspeed", SLIDER, "--batch", "0"],
    ],
)
def test_arguments_that_are_none_end_with_2(words, run):
    code, found, complaint = run(*words)
    assert (code, found["code"]) == (2, 2)
    assert complaint == f"jaxmbs: {found['error']}\n"


def test_an_interrupt_ends_quietly(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxmbs.cli.check.read_model", interrupted)
    assert main(["check", SLIDER]) == 130
    assert capsys.readouterr().err == "jaxmbs: interrupted\n"


def test_a_film_of_nothing_is_not_made(run, tmp_path):
    pin = {"type": "Revolute", "i": "ground", "j": "crank", "point_i": [0.01, 0], "point_j": [0, 0]}
    code, found, _ = run("animate", changed(tmp_path / "apart.json", constraints={"again": pin}), "new/film.gif")
    assert (code, found["written"]) == (1, None)
    assert not (tmp_path / "new").exists()


# Interrupted three seconds after the last program was compiled, as a user's Ctrl-C does it.
INTERRUPTED = """
import os, signal, sys, threading
from jaxmbs import cli
from jaxmbs.programs.backends.cpu.machine import MachineCode

whole, timers = MachineCode.__init__, []


def compiled(code, *args):
    whole(code, *args)
    for timer in timers:
        timer.cancel()
    timers.append(threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)))
    timers[-1].daemon = True
    timers[-1].start()


MachineCode.__init__ = compiled
sys.exit(cli.console())
"""


@pytest.mark.slow
def test_compiled_code_is_interrupted():
    words = ["simulate", PENDULUM, "--until", "1000", "--step", "1e-6", "--json"]
    # Shells start what runs in the background with the signal ignored.
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-c", INTERRUPTED, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        out, _ = process.communicate(timeout=800)
    finally:
        process.kill()
    assert process.returncode == 130
    assert json.loads(out) == {"error": "interrupted", "code": 130}


def test_people_get_lines(capsys):
    assert main(["convert", SLIDER, "/dev/null/x.json"]) == 2
    capsys.readouterr()
    assert main(["check", PENDULUM, "--times", "3"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("bodies"))
    assert lines == {"bodies": "upper, lower"}


def test_every_command_has_help_and_starts_without_jax():
    # The parser answers at once: JAX is imported when a command runs.
    code = "import sys; from jaxmbs.cli.main import parser; parser(); sys.exit('jaxmbs.io' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    text = parser().format_help()
    assert all(name in text for name in COMMANDS)


def test_cache_is_shown_and_emptied(run, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    monkeypatch.setattr(store, "_store", None)
    monkeypatch.setenv("JAXMBS_CACHE", str(folder))
    assert run("cache")[1] == {"folder": str(folder), "files": 0, "megabytes": 0, "of which": {}}
    for kind in ("facts", "object"):
        store.active_store().put(kind, b"key", bytes(2**20))
    code, found, _ = run("cache")
    assert (code, found["files"], set(found["of which"])) == (0, 2, {"facts", "object"})
    assert found["megabytes"] == pytest.approx(2, rel=1e-3)
    assert run("cache", "--clear")[1]["removed"] == 2
    assert run("cache")[1]["files"] == 0
    monkeypatch.setenv("JAXMBS_CACHE", "off")
    assert run("cache")[1] == {"folder": None}


@pytest.mark.filterwarnings("default:robot.urdf. passed over:UserWarning")
def test_bases_and_strictness_of_robots(tmp_path, capsys):
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    robot, copy = tmp_path / "robot.urdf", tmp_path / "robot.json"
    robot.write_text(f'<robot name="r"><link name="trunk">{inertial}<contact/></link></robot>')
    assert main(["convert", str(robot), str(copy)]) == 0
    assert "passed over: contact: link 'trunk' (line 1)" in capsys.readouterr().err
    assert '"trunk on ground"' in copy.read_text()
    assert main(["convert", str(robot), str(copy), "--base", "free", "--ignore", "contact"]) == 0
    assert capsys.readouterr().err == ""
    assert '"trunk on ground"' not in copy.read_text()
    assert main(["convert", str(robot), str(copy), "--strict"]) == 2
    assert "contact" in capsys.readouterr().err
