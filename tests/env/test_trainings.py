"""The trainings of the examples reach what docs/learning.md says, from their fixed seeds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def trained(name, folder):
    """The numbers that a whole example writes."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--output", str(folder)]
    run = subprocess.run(command, env=os.environ | {"MPLBACKEND": "Agg"}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.slow
def test_gradients_teach_the_five_bar(tmp_path):
    numbers = trained("13_five_bar_policy", tmp_path)
    assert numbers["return at first"] < 0
    assert numbers["return of 64 other episodes"] > 135
    assert numbers["distance from the target in the last two seconds, root mean square (mm)"] < 1
    assert numbers["gap of the loop (m)"] < 1e-12
    assert numbers["statuses all good"]


@pytest.mark.slow
def test_another_library_teaches_the_five_bar(tmp_path):
    pytest.importorskip("skrl")
    numbers = trained("14_five_bar_ppo", tmp_path)
    assert numbers["return at first"] < 0
    assert numbers["return of 64 other episodes"] > 125
    assert numbers["distance from the target in the last two seconds, root mean square (mm)"] < 8


@pytest.mark.slow
def test_lengths_learned_with_the_policy_are_better(tmp_path):
    numbers = trained("15_five_bar_codesign", tmp_path)
    alone, together = numbers["lengths as they are"], numbers["lengths and policy"]
    assert together["return of 64 other episodes"] > alone["return of 64 other episodes"] + 30
    assert together["torque, root mean square (N m)"] < 0.8 * alone["torque, root mean square (N m)"]
    assert alone["statuses all good"]
    assert together["statuses all good"]
