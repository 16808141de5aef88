"""The verification manual: published problems and closed forms, each computed by the front door and compared.

`make verify` runs all cases and writes the page; see "How to add a verification case" in CONTRIBUTING.md. Models that tests
need as well are in tests/helpers, published numbers in tests/references, clocks and rivals' models in benchmarks.
"""

import sys
from pathlib import Path

import jax

# Before any number of a model is made.
jax.config.update("jax_enable_x64", True)

ROOT = Path(__file__).parents[1]

for place in (ROOT / "tests" / "helpers", ROOT / "benchmarks"):
    if str(place) not in sys.path:
        sys.path.append(str(place))
