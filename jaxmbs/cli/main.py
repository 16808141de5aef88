"""Parser of all commands, exit codes of errors, and interrupts."""

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

# One-line summary of each command of `jaxmbs`. The module of a command has the same name.
COMMANDS = {
    "check": "degrees of freedom, redundant constraints, singularities, the code that runs",
    "simulate": "motion under forces, as a table",
    "kinematics": "motion that drivers determine, as a table",
    "equilibrium": "a configuration at rest, its stability and its reactions",
    "modes": "frequencies and damping of small motions about an equilibrium, and a film of a mode",
    "animate": "motion as a film: GIF, HTML or MP4",
    "synthesize": "find a linkage for a path, a curve, a function or a set of poses",
    "testspeed": "steps per second against batch size, seconds of compilation, device",
    "identify": "parameters of a model from measurements of its motion",
    "sweep": "quantities of the motion of very many variants, kept in a folder",
    "convert": "write a model in another format",
    "export": "write functions of a model as C code, or the model as an FMU or a web page",
    "schema": "the JSON Schema of model files",
    "cache": "list or clear the compiled programs on disk",
}
# Text below the help of every command.
EPILOG = """exit codes: 0 success; 1 the mechanism cannot do what was asked (it does not assemble, it locks up, …);
2 bad input, nothing was written; 130 interrupted"""


class UsageError(ValueError):
    """Invalid arguments of a command."""


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors."""

    def error(self, message):
        """Raise `UsageError` in place of ending the process, as argparse does."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = Parser(prog="jaxmbs", description="Multibody simulation of mechanisms.", epilog=EPILOG)
    top.add_argument("--version", action="version", version=f"jaxmbs {version('jaxmbs')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about, epilog=EPILOG)
        command.add_argument("--json", action="store_true", help="print the result as one line of JSON")
        command.add_argument("--float32", action="store_true", help="compute in single precision")
        importlib.import_module(f"jaxmbs.cli.{name}").arguments(command)
    return top


def console() -> int:
    """Run `main` such that Ctrl-C ends it at any time, also in compiled code; return the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # The number of a signal is written to the pipe at once; a handler in Python would wait for compiled code.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, lambda *_: None)
        threading.Thread(target=_wait_for_interrupt, args=(reader,), daemon=True).start()
    return main()


# Events that the first interrupt sets, for commands that then end by themselves.
_halts: list[threading.Event] = []


@contextlib.contextmanager
def halt_on_interrupt(halt: threading.Event) -> Iterator[None]:
    """Let the first interrupt only set `halt`; the second one ends the process."""
    _halts.append(halt)
    try:
        yield
    finally:
        _halts.remove(halt)


def _wait_for_interrupt(reader: int) -> None:
    """Read signals from a pipe; end the process at an interrupt that no command handles."""
    while True:
        if os.read(reader, 1) == bytes([signal.SIGINT]):
            first = [halt for halt in _halts if not halt.is_set()]
            if not first:
                break
            print("\njaxmbs: interrupted: storing the results so far; press again to end at once", file=sys.stderr)
            for halt in first:
                halt.set()
    complain("interrupted", "--json" in sys.argv, INTERRUPTED)
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    if hasattr(sys.stdout, "reconfigure"):
        # Characters that the terminal cannot show must not raise.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        args = parser().parse_args(words)
        return _run(args)
    except KeyboardInterrupt:
        return complain("interrupted", as_json, INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        from jaxmbs.numerics.results import AnalysisError

        code = FAILED if isinstance(error, AnalysisError | RuntimeError) else BAD_INPUT
        return complain(str(error) or type(error).__name__, as_json, code)


def _run(args) -> int:
    """Run a command whose arguments are parsed, print its report, and return the exit code."""
    import jax

    from jaxmbs.programs import enable_cache

    jax.config.update("jax_enable_x64", not args.float32)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        enable_cache()
        report = importlib.import_module(f"jaxmbs.cli.{args.command}").run(args)
    show(report, args.json)
    sys.stdout.flush()
    return report.code


def _show_warning(message, *_, **__) -> None:
    """Print a warning in one line."""
    print(f"jaxmbs: warning: {' '.join(str(message).split())}", file=sys.stderr)
