"""The code of docs/learning.md runs as it stands."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_code_of_the_page_runs(block):
    if "Gymnasium" in BLOCKS[block]:
        pytest.importorskip("gymnasium")
    scope = {}
    exec(BLOCKS[block], scope)
    if "pendulum" in scope:
        # φ̈ = (T − m g l/2 cos φ) / (m l²/3), a step of 50 ms at rest at first.
        state, first = scope["state"], scope["state"].first
        angle = float(first.q[2])
        rate = 3 * (1.0 - 9.81 / 2 * np.cos(angle)) * 0.05
        np.testing.assert_allclose(state.v[2], rate, rtol=0.05)
    if "batch" in scope:
        assert jnp.all(scope["batch"].status == 0)
