"""Mutilated command lines: each ends with an exit code and, if it is bad, one line with the reason."""

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

import jax
import numpy as np

from campaign.oracle import Oracle
from campaign.schedule import Hangs, alarm
from jaxmbs.cli import main

# Folder of the models that the commands of the campaign read.
MODELS = Path(__file__).parents[1] / "examples" / "models"
# A command that takes more processor time than this, in seconds, is a find.
MAX_COMMAND_SECONDS = 120
# Number of commands that a round tries.
BATCH = 15
# Valid commands, which are then mutilated.
VALID_COMMANDS = (
    ("check", "slider_crank.json", "--until", "0.3", "--times", "3"),
    ("kinematics", "slider_crank.json", "--until", "0.5", "--times", "6", "--output", "motion.csv"),
    ("convert", "slider_crank.json", "copy.json"),
    ("convert", "four_bar.xml", "copy.json"),
    ("schema",),
    ("check", "double_pendulum.json"),
    ("simulate", "double_pendulum.json", "--until", "0.01", "--times", "2", "--step", "0.001"),
    ("synthesize", "path", "path.csv", "--upper", "50", "--starts", "1", "--mechanism", "none"),
    ("sweep", "slider_crank.json", "--samples", "1"),
    ("identify", "slider_crank.json"),
    ("animate", "slider_crank.json", "film.avi"),
    ("testspeed", "double_pendulum.json", "--batch", "0"),
)
# Words that are inserted into commands or replace others.
WORDS = (
    "", "-", "--", "-1", "0", "nan", "inf", "1e999", "ä", "--json", "--float32", "--until", "--times", "--output", "--help",
    "--version", "--ignore", "--unknown", "nothing.json", "slider_crank.json", "path.csv", "copy.urdf", "copy.xml",
    "x" * 300, "\x00", ".", "{}", "--formulation", "kane", "cache", "check", "damaged.json", "--at", "\ud800",
)  # fmt: skip


class Commands(Oracle):
    """Mutilated command lines end with an exit code and one line of complaint, never with a traceback or a hang."""

    name = "mutilated commands"
    about = "exit code 0, 1 or 2, with a message of one line unless it is 0; no traceback, no endless run"
    seconds = 25.0

    def question(self, seed):
        """Return valid commands with some words changed, for the round with this seed."""
        rng = np.random.default_rng(seed)
        valid = lambda: list(VALID_COMMANDS[int(rng.integers(len(VALID_COMMANDS)))])
        return [_mutilated_words(rng, valid()) for _ in range(BATCH)]

    def answer(self, question):
        """Return exit code, output and complaint of each command, or its error."""
        before, answers = Path.cwd(), []
        for words in question:
            with tempfile.TemporaryDirectory() as folder:
                for path in MODELS.iterdir():
                    (Path(folder) / path.name).symlink_to(path)
                (Path(folder) / "damaged.json").write_text("{")
                try:
                    os.chdir(folder)
                    answers.append(_run_command(words))
                finally:
                    os.chdir(before)
                    jax.config.update("jax_enable_x64", True)
        return answers

    def judge(self, account, question, answer):
        """Count the commands and record a find for each outcome with a fault."""
        for words, outcome in zip(question, answer, strict=True):
            account.count("commands", 1)
            account.comparisons += 1
            wrong = _fault_of(words, outcome)
            if wrong:
                account.find(f"jaxmbs {words}: {wrong}")


def _mutilated_words(rng, words: list[str]) -> list[str]:
    """Delete, insert, replace or shorten up to three words."""
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(words) + 1))
        change = rng.integers(4)
        if change == 0 and len(words) > 1:
            del words[k - 1]
        elif change == 1:
            words.insert(k, WORDS[int(rng.integers(len(WORDS)))])
        elif change == 2 and k < len(words):
            words[k] = WORDS[int(rng.integers(len(WORDS)))]
        elif change == 3 and k < len(words) and words[k]:
            cut = int(rng.integers(len(words[k])))
            words[k] = words[k][:cut] + words[k][cut + 1 :]
    return words


def _run_command(words):
    """Return exit code, output and complaint of a command, or its error."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), alarm(MAX_COMMAND_SECONDS):
            code = main(words)
    except SystemExit as end:
        # argparse exits after --help and --version.
        code = end.code
    except (Exception, Hangs) as error:
        return error
    return code, out.getvalue(), err.getvalue()


def _fault_of(words, outcome) -> str | None:
    """Return the fault of the outcome of a command, or None."""
    if isinstance(outcome, BaseException):
        return f"{type(outcome).__name__}: {outcome}"
    code, out, err = outcome
    if code not in (0, 1, 2):
        return f"exit code {code}"
    lines = [line for line in err.splitlines() if not line.startswith("jaxmbs: warning")]
    complaints = [line for line in lines if line.startswith("jaxmbs: ")]
    if "Traceback" in err or "Traceback" in out:
        return "a traceback"
    if code == 2 and len(complaints) != 1:
        return f"exit code 2 and the complaint {err!r}"
    if "--json" in words and out.strip() and "--help" not in words and "--version" not in words:
        try:
            json.loads(out)
        except ValueError:
            return f"this is not JSON: {out[:200]!r}"
    return None
