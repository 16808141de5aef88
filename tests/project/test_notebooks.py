"""The notebooks run from top to bottom; their cells check their own numbers."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


SHORT = ("four_bar_sensitivity",)


@pytest.mark.parametrize(
    "path", [pytest.param(x, id=x.stem, marks=[pytest.mark.slow] * (x.stem not in SHORT)) for x in NOTEBOOKS]
)
def test_notebook_runs(path, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("Agg")
    namespace: dict = {}
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), namespace)
    assert all(not cell["outputs"] for cell in cells), "notebooks are kept without outputs"
    plt.close("all")
