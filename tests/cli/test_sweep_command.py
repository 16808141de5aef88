"""`jaxmbs sweep`: many variants of a model file are stored, continued, merged and summed up."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import jaxmbs as mbs

MODELS = Path(__file__).parent.parent.parent / "examples" / "models"
SLIDER = str(MODELS / "slider_crank.json")
PENDULUM = str(MODELS / "double_pendulum.json")
CRANK = 0.2
ROD = "constraints.B.point_i.0"


def sweep(run, *words, output="store", until=0.628, times=21):
    return run("sweep", SLIDER, "--until", until, "--times", times, "--output", output, *words)


def test_numbers_are_those_of_the_motion(run, tmp_path):
    words = ["--vary", f"{ROD}=0.5:0.7", "--vary", "drivers.motor.motion.rate=normal:10,1", "--size", 200]
    words += ["--vary", "constraints.slide.point_i.1=-0.01:0.01"]  # a zero of the model
    records = [
        "max piston.x",
        "first velocity.piston.x",
        "rms motor.effort",
        "peak B.force",
        "last point(rod,0.6,0.1).y",
    ]
    for record in records:
        words += ["--record", record]
    code, found, _ = sweep(run, *words, "--sampler", "latin")
    assert (code, found["stored"], found["status"]) == (0, 200, {"CONVERGED": 200})
    columns = mbs.sweeps.Results("store").numpy()
    length, offset = columns[f"design.{ROD}"], columns["design.constraints.slide.point_i.1"]
    # From the outstretched crank on; an offset of the guide changes the reach by a second-order term.
    reach = np.sqrt((CRANK + length) ** 2 - offset**2)
    np.testing.assert_allclose(columns["max piston.x"], reach, rtol=1e-3)
    # One of them by itself, from its own file.
    k = 7
    model = json.loads(Path(SLIDER).read_text())
    model["constraints"]["B"]["point_i"][0] = length[k]
    model["constraints"]["slide"]["point_i"][1] = offset[k]
    model["drivers"]["motor"]["motion"]["rate"] = columns["design.drivers.motor.motion.rate"][k]
    Path("one.json").write_text(json.dumps(model))
    mech = mbs.load("one.json")
    motion = mbs.kinematics(mech, np.linspace(0, 0.628, 21), throw=True)
    reactions = mbs.reactions(mech, motion)
    expected = [
        motion.position("piston.x").max(),
        motion.velocity("piston.x")[0],
        np.sqrt(np.mean(reactions["motor"].effort ** 2)),
        np.linalg.norm(reactions["B"].force, axis=1).max(),
        motion.point("rod", (0.6, 0.1))[-1, 1],
    ]
    np.testing.assert_allclose([columns[name][k] for name in records], expected, rtol=1e-9, atol=1e-12)


def test_a_simulation(run):
    words = ["--vary", "bodies.lower.mass=0.5,1,2", "--vary", "bodies.upper.mass=1:2:2", "--sampler", "grid"]
    words += [
        "--record",
        "range energy.total",
        "--record",
        "first energy.kinetic",
        "--until",
        0.1,
        "--times",
        3,
        "--step",
        0.01,
    ]
    code, found, _ = run("sweep", PENDULUM, *words, "--output", "store")
    assert (code, found["samples"]) == (0, 6)
    columns = mbs.sweeps.Results("store").numpy()
    np.testing.assert_array_equal(columns["design.bodies.lower.mass"], [0.5, 0.5, 1, 1, 2, 2])
    np.testing.assert_array_equal(columns["design.bodies.upper.mass"], [1, 2] * 3)
    assert np.all(columns["range energy.total"] < 1e-4)


def test_samples_that_fail_are_rows(run):
    """A rod that is shorter than the crank locks up."""
    code, found, _ = sweep(
        run, "--vary", f"{ROD}=0.1:0.3", "--record", "max piston.x", "--size", 64, "--sampler", "sobol"
    )
    assert code == 0
    assert found["status"] == {"CONVERGED": 32, "LOCKED_UP": 32}
    columns = mbs.sweeps.Results("store").numpy()
    np.testing.assert_array_equal(columns["status"] == 0, columns[f"design.{ROD}"] > CRANK)


def test_shards_and_a_summary(run):
    words = ["--vary", f"{ROD}=0.5:0.7", "--record", "max piston.x", "--size", 100]
    for k in (1, 2, 3):
        code, found, _ = sweep(run, *words, "--shard", f"{k}/3", output=f"shard-{k}")
        assert (code, found["shard"]["stored"], found["shard"]["of"]) == (0, found["stored"], found["stored"])
    code, found, _ = run("sweep", "--merge", "shard-1", "shard-3", "--output", "all")
    assert (code, found["missing"]) == (1, ["33 to 65"])
    code, found, _ = run("sweep", "--merge", "shard-1", "shard-2", "shard-3", "--output", "all")
    assert (code, found["missing"]) == (0, [])
    code, found, _ = sweep(run, *words, output="all")  # nothing is left to do
    assert (code, found["stored"]) == (0, 100)
    code, found, _ = run("sweep", "--summary", "all")
    assert code == 0
    assert [row["column"] for row in found["quantiles"]] == [f"design.{ROD}", "max piston.x"]
    assert found["quantiles"][1]["largest"] == pytest.approx(CRANK + 0.7, abs=0.01)
    with Image.open("all.png") as picture:
        assert min(picture.size) > 200


def test_designs_of_a_table(run):
    Path("designs.csv").write_text(f"{ROD},bodies.rod.mass\n0.5,1\n0.6,2\n")
    code, found, _ = sweep(run, "--designs", "designs.csv", "--record", "max piston.x")
    assert (code, found["stored"]) == (0, 2)
    np.testing.assert_allclose(mbs.sweeps.Results("store").numpy("max piston.x"), [0.7, 0.8], rtol=1e-6)


MASS = ["--vary", "bodies.rod.mass=0.5:1.5"]
RECORD = ["--record", "max piston.x"]
BAD = [
    (
        ["--vary", "bodies.rodd.mass=1:2", *RECORD],
        "--vary: bodies.rodd.mass: bodies has no 'rodd'; it has crank, rod",
    ),
    (["--vary", "body.rod.mass=1:2", *RECORD], "the model has no 'body'; it has bodies, constraints"),
    (["--vary", "constraints.B.point_i=1:2", *RECORD], "give an index, as in constraints.B.point_i.0"),
    (["--vary", "constraints.B.point_i.2=1:2", *RECORD], "has shape (2,) and no index 2"),
    (["--vary", "constraints.B.i=1:2", *RECORD], "must be a real number"),
    (["--vary", "bodies.rod=1:2", *RECORD], "must be a real number"),
    (["--vary", "bodies.rod.mass=cheap", *RECORD], "cannot read 'cheap': give A:B"),
    (["--vary", "bodies.rod.mass=2:1", *RECORD], "lower must not be above upper"),
    (
        ["--vary", "bodies.rod.mass=-1:2", *RECORD],
        "values such as -0.9985 are not allowed: body 'rod' (Body): mass must be positive",
    ),
    (["--vary", "bodies.rod.mass=normal:1,0.5", *RECORD], "mass must be positive, got -0.64"),
    (["--vary", "constraints.B.point_i.-1=1:2", *RECORD], "and no index -1"),
    (["--vary", "bodies.rod.mass=1:2:inf", *RECORD], "cannot read '1:2:inf'"),
    (["--vary", "bodies.rod.mass=normal:1", *RECORD], "cannot read 'normal:1'"),
    (["--vary", "bodies.rod.mass", *RECORD], "give each place once"),
    ([*MASS, "--sampler", "grid", *RECORD], "cannot read '0.5:1.5': give A:B:N"),
    ([*MASS], "--record is missing"),
    ([*MASS, "--record", "piston.x"], "begin with one of max, min"),
    ([*MASS, "--record", "max pistn.x"], "'pistn.x' is not a quantity of this model"),
    ([*MASS, "--record", "max energy.total"], "energy is recorded only in simulations"),
    ([*MASS, "--record", "max point(rod,1).x"], "points of 'rod' have 2 coordinates"),
    ([*MASS, "--record", "max point(arm,1,0).x"], "there is no body 'arm'"),
    ([*RECORD], "give either --vary"),
    ([*MASS, *RECORD, "--shard", "4/3"], "must be K/N with K from 1 to N"),
    ([*MASS, *RECORD, "--size", "0"], "must be a whole number from 1"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_input(run, tmp_path, words, message):
    code, found, _ = sweep(run, *words)
    assert code == 2
    assert message in found["error"]
    assert not (tmp_path / "store").exists()


def test_other_bad_input(run, tmp_path):
    assert sweep(run, *MASS, *RECORD, "--size", 5)[0] == 0
    code, found, _ = sweep(run, *MASS, *RECORD, "--size", 6)
    assert code == 2
    assert "another sweep, with other designs: size is 5 in the store, 6 in this call" in found["error"]
    code, found, _ = sweep(run, *MASS, *RECORD, "--size", 5, until=0.5)
    assert code == 2
    assert "another sweep, with another measure" in found["error"]
    for words, message in [
        (["--summary", "nothing"], "nothing is not the store of a sweep"),
        (["--merge", "store"], "--output is missing"),
        (["--summary", "store", "--merge", "store"], "reads existing stores"),
        (["--summary", "store", "--picture", "x.doc"], "a picture must end in .png"),
        (["--output", "store"], "MODEL is missing"),
    ]:
        code, found, _ = run("sweep", *words)
        assert (code, message in found["error"]) == (2, True)
    (tmp_path / "file").write_text("")
    assert sweep(run, *MASS, *RECORD, output="file")[0] == 2


@pytest.mark.slow
def test_an_interrupt_stores_what_is_computed(tmp_path):
    words = ["sweep", SLIDER, *MASS, *RECORD, "--size", "1000000000", "--output", str(tmp_path / "store"), "--json"]
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    stored = []
    for _ in range(2):
        parts = list((tmp_path / "store").glob("part-*.parquet"))
        command = [sys.executable, "-m", "jaxmbs.cli", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed)
        try:
            while len(list((tmp_path / "store").glob("part-*.parquet"))) <= len(parts):
                assert process.poll() is None
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=800)
        finally:
            process.kill()
        found = json.loads(out)
        assert (process.returncode, found["stopped"]) == (130, "run the same command again to continue")
        stored.append(found["stored"])
    assert 0 < stored[0] < stored[1] < 10**9
    found = mbs.sweeps.Results(tmp_path / "store")
    np.testing.assert_array_equal(found.numpy("sample"), np.arange(stored[1]))
