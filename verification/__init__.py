"""The verification manual: published problems and closed forms, each computed by the front door and compared.

`make verify` runs all cases and writes the page; see docs/extending/verification_case.md. Models that tests also need are
in tests/helpers, published numbers in tests/references, clocks and other simulators in benchmarks.
"""

import sys
from pathlib import Path

import jax

# Before any array is made.
jax.config.update("jax_enable_x64", True)

# Folder of the repository.
ROOT = Path(__file__).parents[1]

for place in (ROOT / "tests" / "helpers", ROOT / "benchmarks"):
    if str(place) not in sys.path:
        sys.path.append(str(place))
