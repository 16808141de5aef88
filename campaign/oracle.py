"""Base class of oracles, and the account of a round."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np

# Largest number of finds of a round that are kept as text; further ones are only counted.
MAX_FINDS = 5


@dataclasses.dataclass
class Account:
    """Counts, deviations and finds of one round.

    Attributes:
        counts: number of poses, steps, files or commands, by unit.
        comparisons: number of compared values.
        unjudged: number of values too near to a singular position to be judged in this precision.
        deviation: largest deviation, relative to the size of the compared value.
        share: largest deviation, divided by its bound from rounding and truncation. More than 1 is a find.
        finds: descriptions of all that did not hold.
    """

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    comparisons: int = 0
    unjudged: int = 0
    deviation: float = 0.0
    share: float = 0.0
    finds: list[str] = dataclasses.field(default_factory=list)

    def count(self, unit: str, number) -> None:
        """Add a number to the count of a unit, such as "steps" or "poses"."""
        self.counts[unit] = self.counts.get(unit, 0) + int(number)

    def find(self, description: str) -> None:
        """Record a find, the description of a result that fails a check."""
        self.finds.append(description)

    def within(self, name: str, found, expected, bound, scale, judged=True) -> None:
        """Check |found − expected| ≤ bound for all values with `judged`. The arrays are broadcast.

        Args:
            name: name of the values in a find.
            found, expected: the values.
            bound: bound on their difference.
            scale: size of the values, for the relative deviation.
            judged: True for values to check; others are only counted.
        """
        found, expected, bound, scale = np.broadcast_arrays(found, expected, bound, scale)
        judged = np.broadcast_to(judged, found.shape)
        self.comparisons += int(judged.sum())
        self.unjudged += int(judged.size - judged.sum())
        if not judged.any():
            return
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            gap = np.abs(found - expected)
            # A value that is not finite is a find for any bound.
            share = np.where(judged, np.where(np.isfinite(gap), gap / bound, np.inf), 0)
            relative = np.where(judged & np.isfinite(gap), gap / scale, 0)
        self.deviation = max(self.deviation, float(relative.max()))
        worst = np.unravel_index(np.argmax(share), share.shape)
        self.share = max(self.share, float(share[worst]))
        if share[worst] > 1:
            here = tuple(map(int, worst))
            self.find(
                f"{name}: {int((share > 1).sum())} of {int(judged.sum())} differ; at {here} found {found[worst]!r}, "
                f"expected {expected[worst]!r}, which may differ by {bound[worst]:.3g}"
            )

    def derivative(self, name: str, found, coarse, fine, jump, judged) -> None:
        """Check derivatives (samples, n) of a result against its differences, where it is smooth.

        A search may end in another result for changed numbers. Then there is no derivative, or the differences are wrong
        by about as much as they differ from each other.

        Args:
            name: name of the derivatives in a find.
            found: the derivatives.
            coarse: central differences with a step.
            fine: central differences with half of this step.
            jump: (samples,), True where the results of the four changed numbers are not near that of the unchanged ones.
            judged: (samples,), True for samples to check.
        """
        difference = (4 * fine - coarse) / 3
        scale = 1 + np.abs(difference).max(axis=1, keepdims=True)
        spread = np.abs(coarse - fine).max(axis=1, keepdims=True)
        smooth = (spread < 1e-4 * scale) & ~jump[:, None]
        self.within(name, found, difference, 1e-6 * scale + 2 * spread, scale, judged[:, None] & smooth)

    def same(self, name: str, found, expected, judged=True) -> None:
        """Check that the values with `judged` are equal to the bit; NaN equals NaN."""
        found, expected = np.broadcast_arrays(found, expected)
        judged = np.broadcast_to(judged, found.shape)
        self.comparisons += int(judged.sum())
        self.unjudged += int(judged.size - judged.sum())
        other = judged & ~((found == expected) | ((found != found) & (expected != expected)))
        if other.any():
            here = tuple(map(int, np.argwhere(other)[0]))
            self.share = np.inf
            self.find(
                f"{name}: {int(other.sum())} of {int(judged.sum())} are not the same; "
                f"at {here} found {found[here]!r}, expected {expected[here]!r}"
            )


class Oracle(abc.ABC):
    """A kind of random test whose results can be judged without a published reference.

    Attributes:
        name: name in tables and for `ONLY=`.
        about: what is compared with what, in a few words.
        seconds: time of the first round, with compilation; a round that does not fit into the time left is not begun.
        compiles_once: True if later rounds take less time.
        share: share of the time, relative to that of other oracles.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    seconds: ClassVar[float] = 20.0
    compiles_once: ClassVar[bool] = True
    share: ClassVar[float] = 1.0

    @abc.abstractmethod
    def question(self, seed: int):
        """Return the random inputs of the round with this seed, in a form of the oracle's own."""

    @abc.abstractmethod
    def answer(self, question):
        """Return the results of jaxmbs for these inputs."""

    @abc.abstractmethod
    def judge(self, account: Account, question, answer) -> None:
        """Check the properties that the results must have, and record finds in the account."""

    def round(self, seed: int) -> Account:
        """Run one round and return its account."""
        account, question = Account(), self.question(seed)
        self.judge(account, question, self.answer(question))
        return account
