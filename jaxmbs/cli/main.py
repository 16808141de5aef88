"""The parser, and what becomes of errors."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from jaxmbs.cli.report import BAD_INPUT, FAILED, INTERRUPTED, complain, show

# Commands, and what they do. The modules are of the same names.
COMMANDS = {
    "check": "degrees of freedom, redundant constraints, singularities, the code that runs",
    "simulate": "motion under forces, as a table",
    "kinematics": "motion that drivers determine, as a table",
    "animate": "motion as a film: GIF, HTML or MP4",
    "synthesize": "find a linkage for a path, a curve, a function or a set of poses",
    "testspeed": "steps per second against batch size, seconds of compilation, device",
    "identify": "numbers of a model from measurements of its motion",
    "sweep": "numbers of the motion of very many variants, kept in a folder",
    "convert": "read a model in one format and write it in another",
    "schema": "the JSON Schema of model files",
    "cache": "what is kept on disk of compiled programs",
}
EPILOG = """exit codes: 0 all is well; 1 the mechanism cannot do what was asked (it does not assemble, it locks up, …);
2 bad input, nothing was written; 130 interrupted"""


class UsageError(ValueError):
    """Arguments that a command does not take."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are raised."""

    def error(self, message):
        raise UsageError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(prog="jaxmbs", description="Multibody simulation of mechanisms.", epilog=EPILOG)
    top.add_argument("--version", action="version", version=f"jaxmbs {version('jaxmbs')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for name, about in COMMANDS.items():
        one = commands.add_parser(name, help=about, description=about, epilog=EPILOG)
        one.add_argument("--json", action="store_true", help="print the result as one line of JSON")
        one.add_argument("--float32", action="store_true", help="compute in single precision")
        importlib.import_module(f"jaxmbs.cli.{name}").arguments(one)
    return top


def console() -> int:
    """The command itself: `main`, and an end at Ctrl-C at any time, also while compiled code runs."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A signal's number comes through the pipe at once; a handler in Python would wait for the compiled code.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, lambda *_: None)
        threading.Thread(target=_wait_for_interrupt, args=(reader,), daemon=True).start()
    return main()


# What the first interrupt sets, where a command ends by itself then.
_halts: list[threading.Event] = []


@contextlib.contextmanager
def patient(halt: threading.Event) -> Iterator[None]:
    """The first interrupt only sets `halt`; a second one ends the process."""
    _halts.append(halt)
    try:
        yield
    finally:
        _halts.remove(halt)


def _wait_for_interrupt(reader: int) -> None:
    while True:
        if os.read(reader, 1) == bytes([signal.SIGINT]):
            first = [halt for halt in _halts if not halt.is_set()]
            if not first:
                break
            print("\njaxmbs: interrupted: storing what is computed; once more ends at once", file=sys.stderr)
            for halt in first:
                halt.set()
    complain("interrupted", "--json" in sys.argv, INTERRUPTED)
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    if hasattr(sys.stdout, "reconfigure"):
        # A name that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        args = parser().parse_args(words)
        return _run(args)
    except KeyboardInterrupt:
        return complain("interrupted", as_json, INTERRUPTED)
    except BrokenPipeError:
        # The reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        from jaxmbs.numerics.results import AnalysisError

        code = FAILED if isinstance(error, AnalysisError | RuntimeError) else BAD_INPUT
        return complain(str(error) or type(error).__name__, as_json, code)


def _run(args) -> int:
    import jax

    from jaxmbs.programs import enable_cache

    jax.config.update("jax_enable_x64", not args.float32)
    with warnings.catch_warnings():
        warnings.showwarning = _on_one_line
        enable_cache()
        report = importlib.import_module(f"jaxmbs.cli.{args.command}").run(args)
    show(report, args.json)
    sys.stdout.flush()
    return report.code


def _on_one_line(message, *_, **__) -> None:
    print(f"jaxmbs: warning: {' '.join(str(message).split())}", file=sys.stderr)
