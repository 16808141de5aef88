"""Which oracle is asked next, for how long, and what becomes of its rounds."""

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from campaign.oracle import Account, Oracle
from campaign.tally import Line, Tally

# A round that takes longer hangs.
MAX_ROUND_SECONDS = 900


class Hangs(BaseException):
    """A round has taken too long; no `except Exception` may swallow it."""


# The clocks of alarms: that on the wall, and the processors' time of this process, which a busy machine does not shorten.
WALL, PROCESSOR = (signal.ITIMER_REAL, signal.SIGALRM), (signal.ITIMER_PROF, signal.SIGPROF)


@contextlib.contextmanager
def alarm(seconds: float, clock=PROCESSOR) -> Iterator[None]:
    """Raise `Hangs` after this many seconds; one alarm at a time for each clock."""
    timer, number = clock

    def ring(*_):
        raise Hangs(f"no end after {seconds} s")

    before = signal.signal(number, ring)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def run(oracles: Sequence[Oracle], tally: Tally, seconds: float, say: Callable[[str], None] = print) -> None:
    """Rounds until the time is up. The oracle that has had the least of its share is next, if its round fits.

    Round k of an oracle has the seed of the campaign plus k: the seed of a find, given as that of a campaign, asks the
    same in its first round.
    """
    end, durations = time.monotonic() + seconds, {one.name: [] for one in oracles}
    with contextlib.ExitStack() as stack:
        stack.callback(tally.interrupted)
        while True:
            fits = [one for one in oracles if _expected(one, durations[one.name]) < end - time.monotonic()]
            if not fits:
                return
            oracle = min(fits, key=lambda one: tally.lines.get(one.name, Line()).seconds / one.share)
            durations[oracle.name].append(_round(oracle, tally, say))


def once(oracles: Sequence[Oracle], tally: Tally, say: Callable[[str], None] = print) -> None:
    """Run one round of each oracle, without a limit on time."""
    with contextlib.ExitStack() as stack:
        stack.callback(tally.interrupted)
        for oracle in oracles:
            _round(oracle, tally, say)


def _round(oracle: Oracle, tally: Tally, say: Callable[[str], None]) -> float:
    """Run the next round of an oracle, add it to the tally, and return the seconds it took."""
    seed = tally.seed + tally.lines.get(oracle.name, Line()).rounds
    tally.begin(oracle.name, seed)
    began = time.monotonic()
    account = judged(oracle, seed)
    seconds = time.monotonic() - began
    tally.add(oracle.name, seed, account, seconds)
    for what in account.finds:
        say(f"FIND  make campaign SEED={seed} ONLY={oracle.name}: {what}")
    return seconds


def judged(oracle: Oracle, seed: int) -> Account:
    """One round; an error that nobody expects, or no end, is a find."""
    try:
        with alarm(MAX_ROUND_SECONDS, WALL):
            return oracle.round(seed)
    except Hangs as end:
        return Account(finds=[str(end)])
    except Exception:
        return Account(finds=["an error: " + traceback.format_exc(limit=-6)])


def _expected(oracle: Oracle, durations: list[float]) -> float:
    """How long its next round may take."""
    if not durations:
        return oracle.seconds
    if oracle.compiles_once:
        return max(durations[1:], default=durations[0])
    return max(oracle.seconds, *durations)
