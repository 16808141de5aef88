"""`jaxmbs schema`: print the JSON Schema of model files."""

from __future__ import annotations

import jaxmbs as mbs
from jaxmbs.cli.report import Report


def arguments(parser) -> None:
    """Add no arguments: `jaxmbs schema` has none."""
    del parser


def run(args) -> Report:
    """Report the JSON Schema of model files."""
    # A schema is always printed as JSON.
    args.json = True
    return Report(mbs.io.schema())
