"""Entry point of `python -m jaxmbs.cli`."""

import sys

from jaxmbs.cli.main import console

sys.exit(console())
