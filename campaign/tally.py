"""The tally of a campaign: a file that is written after each round and can be continued; its tables."""

import dataclasses
import json
from pathlib import Path

from campaign.oracle import MAX_FINDS, Account

# Name of the file of a tally in the folder of a campaign.
FILE = "tally.json"


@dataclasses.dataclass
class Line:
    """Sum of the accounts of an oracle, with the number of rounds, their seconds, and those of the longest."""

    rounds: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    comparisons: int = 0
    unjudged: int = 0
    deviation: float = 0.0
    share: float = 0.0
    finds: int = 0

    def add(self, account: Account, seconds: float) -> None:
        """Add a round, which took this many seconds."""
        numbers = account.comparisons, account.unjudged, account.deviation, min(account.share, 1e300)
        self.join(Line(1, seconds, seconds, account.counts, *numbers, len(account.finds)))

    def join(self, other: "Line") -> None:
        """Add the rounds of another line."""
        for name in ("rounds", "seconds", "comparisons", "unjudged", "finds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("longest", "deviation", "share"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for unit, number in other.counts.items():
            self.counts[unit] = self.counts.get(unit, 0) + number


class Tally:
    """The sum of a campaign so far: lines by oracle, finds, and the running round.

    Args:
        folder: folder of the file; an existing file is continued.
        seed: seed of the campaign.
    """

    def __init__(self, folder: Path, seed: int):
        self.path, self.seed = folder / FILE, seed
        self.lines: dict[str, Line] = {}
        self.finds: list[dict] = []
        self.running: dict | None = None
        if self.path.exists():
            self._read(json.loads(self.path.read_text()))

    def _read(self, kept: dict) -> None:
        """Take lines and finds from the content of a file; a round left running is a find. Another seed is an error."""
        if kept["seed"] != self.seed:
            raise ValueError(f"{self.path} has seed {kept['seed']}: continue with that seed, or give another folder")
        self.lines = {name: Line(**line) for name, line in kept["oracles"].items()}
        self.finds = kept["finds"]
        if kept["running"]:
            # The last round did not end: its question ended the process, or the process was killed.
            name, seed = kept["running"]["oracle"], kept["running"]["seed"]
            self.add(name, seed, Account(finds=["the process ended in this round"]), 0.0)

    def begin(self, name: str, seed: int) -> None:
        """Record the round that begins, in case it ends the process."""
        self.running = {"oracle": name, "seed": seed}
        self.write()

    def forget_running(self) -> None:
        """Discard the running round, which was stopped from outside and is no find."""
        self.running = None
        self.write()

    def add(self, name: str, seed: int, account: Account, seconds: float) -> None:
        """Add a round that has ended."""
        self.running = None
        self.lines.setdefault(name, Line()).add(account, seconds)
        for find in account.finds[:MAX_FINDS]:
            self.finds.append({"oracle": name, "seed": seed, "what": find})
        self.write()

    def set_sum(self, others: "list[Tally]") -> None:
        """Replace this tally by the sum of tallies of parallel processes."""
        self.lines, self.finds = {}, [find for other in others for find in other.finds]
        for other in others:
            for name, line in other.lines.items():
                self.lines.setdefault(name, Line()).join(line)
        self.write()

    def write(self) -> None:
        """Write the file atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {
            "seed": self.seed,
            "oracles": {name: dataclasses.asdict(line) for name, line in self.lines.items()},
            "finds": self.finds,
            "running": self.running,
        }
        other = self.path.with_suffix(".part")
        other.write_text(json.dumps(kept, indent=1) + "\n")
        other.replace(self.path)

    def total(self) -> dict[str, int]:
        """Return the numbers of poses, steps, … in all."""
        total: dict[str, int] = {}
        for line in self.lines.values():
            for unit, number in line.counts.items():
                total[unit] = total.get(unit, 0) + number
        return total


# Head of the table of a campaign.
HEAD = ("oracle", "rounds", "computed", "comparisons", "largest deviation", "of its bound", "finds", "seconds")


def rows(lines: dict[str, Line]) -> list[tuple[str, ...]]:
    """Return a row of texts for each oracle, in the order of `HEAD`."""
    found = []
    for name, line in sorted(lines.items()):
        counts = ", ".join(f"{number:,} {unit}" for unit, number in line.counts.items())
        percent = 100 * line.share
        share = f"{percent:.2g} %" if percent < 99.5 else f"{percent:,.3g} %"
        size = [f"{line.deviation:.1e}" if line.deviation else "0", share if percent else "0"]
        begin, end = (f"{line.rounds:,}", counts, f"{line.comparisons:,}"), (f"{line.finds:,}", f"{line.seconds:.0f}")
        found.append((name, *begin, *size, *end))
    return found


def table(lines: dict[str, Line]) -> str:
    """Return the table as text for a terminal."""
    all_rows = [HEAD, *rows(lines)]
    widths = [max(map(len, column)) for column in zip(*all_rows, strict=True)]
    padded = ((word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in all_rows)
    return "\n".join("  ".join(words).rstrip() for words in padded)


# Text above the table of a campaign on its page.
ABOUT = """# The campaign

`make campaign` tests jaxmbs with random mechanisms, motions, files and commands. There are no stored results to compare
with: each class of tests, an *oracle*, checks a property that every right answer has. The table has a row for each
oracle, with the counts of one campaign.

The *deviation* is the difference from the right value, divided by the size of the compared number. Its *bound* is the
largest deviation that rounding and truncation can explain there, estimated from the conditioning of the problem. "Of
its bound" is the largest ratio of the two. Numbers so near to a singular position that they cannot be distinguished
from rounding are not judged. A *find* is an answer that violates the property. If it is an error of jaxmbs, it is
corrected and gets a test."""


def page(tally: Tally, about: dict[str, str]) -> str:
    """Return the page of the documentation with the table."""
    seconds = sum(line.seconds for line in tally.lines.values())
    unjudged = sum(line.unjudged for line in tally.lines.values())
    compared = sum(line.comparisons for line in tally.lines.values())
    total = ", ".join(f"{number:,} {unit}" for unit, number in tally.total().items())
    done = f"This campaign, with the seed {tally.seed}, took {seconds / 60:.0f} minutes.\nIt covered {total}."
    compared = f"It made {compared:,} comparisons; {unjudged:,} numbers were not judged."
    return f"{ABOUT}\n\n{done}\n{compared}\n\n{markdown(tally.lines, about)}"


def markdown(lines: dict[str, Line], about: dict[str, str]) -> str:
    """Return the table in Markdown; `about` has the description of each oracle."""
    head = (HEAD[0], "what must hold", *HEAD[1:])
    body = [(row[0], about.get(row[0], ""), *row[1:]) for row in rows(lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head), *body]) + "\n"
