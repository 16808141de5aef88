"""Schedule of a campaign: choose the next oracle, run its rounds within time limits, and report finds."""

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from campaign.oracle import Account, Oracle
from campaign.tally import Line, Tally

# A round is stopped after this wall time in seconds, and counts as a find.
MAX_ROUND_SECONDS = 900


class Hangs(BaseException):
    """A round takes too long. Derived from `BaseException`, so that no `except Exception` catches it."""


# Timer and signal of alarms by wall time.
WALL = (signal.ITIMER_REAL, signal.SIGALRM)
# Timer and signal of alarms by the processor time of this process, which other processes do not use up.
PROCESSOR = (signal.ITIMER_PROF, signal.SIGPROF)


@contextlib.contextmanager
def alarm(seconds: float, clock=PROCESSOR) -> Iterator[None]:
    """Raise `Hangs` after this many seconds; each clock has one alarm at a time."""
    timer, number = clock

    def ring(*_):
        """Raise `Hangs` in the main thread."""
        raise Hangs(f"no end after {seconds} s")

    before = signal.signal(number, ring)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def run(oracles: Sequence[Oracle], tally: Tally, seconds: float, say: Callable[[str], None] = print) -> None:
    """Run rounds until the time is up. The oracle with the least time relative to its share is next, if it fits.

    Round k of an oracle has the seed of the campaign plus k: a campaign with the seed of a find repeats it in its first
    round.
    """
    end, durations = time.monotonic() + seconds, {one.name: [] for one in oracles}
    try:
        while True:
            fits = [one for one in oracles if _expected_seconds(one, durations[one.name]) < end - time.monotonic()]
            if not fits:
                return
            oracle = min(fits, key=lambda one: tally.lines.get(one.name, Line()).seconds / one.share)
            durations[oracle.name].append(_round(oracle, tally, say))
    finally:
        tally.forget_running()


def once(oracles: Sequence[Oracle], tally: Tally, say: Callable[[str], None] = print) -> None:
    """Run one round of each oracle, without a limit on time."""
    try:
        for oracle in oracles:
            _round(oracle, tally, say)
    finally:
        tally.forget_running()


def _round(oracle: Oracle, tally: Tally, say: Callable[[str], None]) -> float:
    """Run the next round of an oracle, add it to the tally, and return the seconds it took."""
    seed = tally.seed + tally.lines.get(oracle.name, Line()).rounds
    tally.begin(oracle.name, seed)
    began = time.monotonic()
    account = account_of(oracle, seed)
    seconds = time.monotonic() - began
    tally.add(oracle.name, seed, account, seconds)
    for find in account.finds:
        say(f"FIND  make campaign SEED={seed} ONLY={oracle.name}: {find}")
    return seconds


def account_of(oracle: Oracle, seed: int) -> Account:
    """Run one round; unexpected errors and timeouts are finds."""
    try:
        with alarm(MAX_ROUND_SECONDS, WALL):
            return oracle.round(seed)
    except Hangs as end:
        return Account(finds=[str(end)])
    except Exception:
        return Account(finds=["an error: " + traceback.format_exc(limit=-6)])


def _expected_seconds(oracle: Oracle, durations: list[float]) -> float:
    """Return the expected time of the next round in seconds."""
    if not durations:
        return oracle.seconds
    if oracle.compiles_once:
        return max(durations[1:], default=durations[0])
    return max(oracle.seconds, *durations)
