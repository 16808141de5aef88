"""`jaxmbs identify`: a model and a table in, its numbers with their intervals out."""

import json

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.cli import main


@pytest.fixture
def files(tmp_path):
    """A cart of 2 kg on a spring, let go from 0.1; its true stiffness makes ω = 3."""
    cart = mbs.Mechanism(
        bodies={"cart": planar.Body(mass=2.0, inertia=1.0)},
        constraints={"rail": planar.Translational("ground", "cart", (0, 0), (0, 0), (1, 0))},
        forces={"spring": mbs.JointSpring("rail", 10.0)},
    )
    model, data = tmp_path / "cart.json", tmp_path / "run.csv"
    mbs.save(cart, model, guess={"cart": (0.1, 0, 0)})
    times, rng = np.linspace(0, 2, 41), np.random.default_rng(0)
    rows = [f"{t},{0.1 * np.cos(3 * t) + 1e-3 * rng.normal()},{0.4 + 0.1 * np.cos(3 * t)}" for t in times]
    data.write_text("\n".join(["t,cart.x,point(cart,0.4,0).x", *rows]) + "\n")
    return model, data, tmp_path / "found.json"


def test_a_stiffness_is_found_and_written(files, capsys):
    model, data, out = files
    command = ["identify", str(model), str(data), "--free", "forces.spring.stiffness=0:100", "--deviation", "1e-3"]
    assert main([*command, "--output", str(out), "--step", "0.01", "--starts", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["parameters"]
    assert row["low"] < 18 < row["high"]
    assert row["deviation"] < 0.1
    assert float(mbs.load(out).forces["spring"].stiffness) == pytest.approx(row["estimate"], rel=1e-12)


def test_what_cannot_be_told_apart_is_named(files, capsys):
    """Exit code 1: stiffness and mass."""
    model, data, _ = files
    free = ["--free", "forces.spring.stiffness", "--free", "bodies.cart.mass", "--step", "0.01", "--starts", "1"]
    assert main(["identify", str(model), str(data), *free, "--json"]) == 1
    (direction,) = json.loads(capsys.readouterr().out)["undetermined"]
    assert direction == "bodies.cart.mass +1 forces.spring.stiffness +1"


WRONG = {
    "spring has no 'stiffnes'": ["--free", "forces.spring.stiffnes"],
    "bounds must be two numbers": ["--free", "forces.spring.stiffness=1"],
    "give each place once": ["--free", "bodies.cart.mass", "--free", "bodies.cart.mass=0:3"],
    "no signal is called 'cart.y'": ["--free", "bodies.cart.mass", "--deviation", "cart.y=1"],
    "must be a number, or SIGNAL=number": ["--free", "bodies.cart.mass", "--deviation", "much"],
    "must end in .json": ["--free", "bodies.cart.mass", "--output", "found.csv"],
}


@pytest.mark.parametrize("message", WRONG)
def test_bad_arguments_are_named(files, capsys, message):
    model, data, _ = files
    assert main(["identify", str(model), str(data), *WRONG[message]]) == 2
    assert message in capsys.readouterr().err


TABLES = {
    "the first line must be 't'": "time,cart.x\n0,1\n",
    "line 3: must have 2 numbers, got 1": "t,cart.x\n0,1\n1\n",
    "could not convert": "t,cart.x\n0,1\n1,x\n",
    "no finite number at place 1": "t,cart.x\n0,1\n1,nan\n",
    "numbers that increase": "t,cart.x\n0,1\n0,2\n",
    "'cart.z' is not a quantity": "t,cart.z\n0,1\n1,2\n",
}


@pytest.mark.parametrize("message", TABLES)
def test_bad_tables_are_named(files, capsys, message):
    model, data, _ = files
    data.write_text(TABLES[message])
    assert main(["identify", str(model), str(data), "--free", "bodies.cart.mass"]) == 2
    assert message in capsys.readouterr().err
