"""The parser, and what becomes of errors."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version

from jaxmbs.cli.report import BAD_INPUT, FAILED, INTERRUPTED, complain, show

# Commands, and what they do. The modules are of the same names.
COMMANDS = {
    "check": "degrees of freedom, redundant constraints, singularities, the code that runs",
    "simulate": "motion under forces, as a table",
    "kinematics": "motion that drivers determine, as a table",
    "animate": "motion as a film: GIF, HTML or MP4",
    "synthesize": "find a linkage for a path, a function or a set of poses",
    "testspeed": "steps per second against batch size, seconds of compilation, device",
    "convert": "read a model in one format and write it in another",
    "schema": "the JSON Schema of model files",
}
EPILOG = """exit codes: 0 all is well; 1 the mechanism cannot do what was asked (it does not assemble, it locks up, …);
2 bad input, nothing was written; 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(prog="jaxmbs", description="Multibody simulation of mechanisms.", epilog=EPILOG)
    top.add_argument("--version", action="version", version=f"jaxmbs {version('jaxmbs')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for name, about in COMMANDS.items():
        one = commands.add_parser(name, help=about, description=about, epilog=EPILOG)
        one.add_argument("--json", action="store_true", help="print the result as one line of JSON")
        one.add_argument("--float32", action="store_true", help="compute in single precision")
        importlib.import_module(f"jaxmbs.cli.{name}").arguments(one)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    args = parser().parse_args(argv)
    try:
        import jax

        jax.config.update("jax_enable_x64", not args.float32)
        with warnings.catch_warnings():
            warnings.showwarning = _on_one_line
            report = importlib.import_module(f"jaxmbs.cli.{args.command}").run(args)
        show(report, args.json)
        return report.code
    except KeyboardInterrupt:
        return complain("interrupted", args.json, INTERRUPTED)
    except BrokenPipeError:
        # The reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ValueError, OSError, ImportError) as error:
        from jaxmbs.numerics.results import AnalysisError

        return complain(str(error), args.json, FAILED if isinstance(error, AnalysisError) else BAD_INPUT)


def _on_one_line(message, *_, **__) -> None:
    print(f"jaxmbs: warning: {' '.join(str(message).split())}", file=sys.stderr)
