"""What an oracle is, and the account that it keeps of a round."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np

# Finds of one round that are kept with their words; the others are counted.
MAX_FINDS = 5


@dataclasses.dataclass
class Account:
    """What one round looked at, and what it found.

    Attributes:
        counts: how many poses, steps, files or commands.
        comparisons: numbers that were compared.
        unjudged: numbers too near to a singular position to be judged in this precision.
        deviation: the largest deviation, relative to the size of what was compared.
        share: the largest deviation, as a part of what rounding and truncation may do there. More than 1 is a find.
        finds: what did not hold, in words.
    """

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    comparisons: int = 0
    unjudged: int = 0
    deviation: float = 0.0
    share: float = 0.0
    finds: list[str] = dataclasses.field(default_factory=list)

    def count(self, unit: str, number) -> None:
        """So many more of these."""
        self.counts[unit] = self.counts.get(unit, 0) + int(number)

    def find(self, what: str) -> None:
        """Something that does not hold."""
        self.finds.append(what)

    def within(self, what: str, found, expected, bound, scale, judged=True) -> None:
        """|found − expected| ≤ bound wherever `judged`; all of them arrays that fit each other.

        Args:
            what: is compared, in words.
            found, expected: numbers.
            bound: on their difference.
            scale: the size of what is compared, for the relative deviation.
            judged: where the bound means something; elsewhere numbers are counted only.
        """
        found, expected, bound, scale = np.broadcast_arrays(found, expected, bound, scale)
        judged = np.broadcast_to(judged, found.shape)
        self.comparisons += int(judged.sum())
        self.unjudged += int(judged.size - judged.sum())
        if not judged.any():
            return
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            gap = np.abs(found - expected)
            # What is not a number is a find, however wide the bound.
            share = np.where(judged, np.where(np.isfinite(gap), gap / bound, np.inf), 0)
            relative = np.where(judged & np.isfinite(gap), gap / scale, 0)
        self.deviation = max(self.deviation, float(relative.max()))
        worst = np.unravel_index(np.argmax(share), share.shape)
        self.share = max(self.share, float(share[worst]))
        if share[worst] > 1:
            here = tuple(map(int, worst))
            self.find(
                f"{what}: {int((share > 1).sum())} of {int(judged.sum())} differ; at {here} found {found[worst]!r}, "
                f"expected {expected[worst]!r}, which may differ by {bound[worst]:.3g}"
            )

    def same(self, what: str, found, expected, judged=True) -> None:
        """The same bits, wherever `judged`; NaN is the same as NaN."""
        found, expected = np.broadcast_arrays(found, expected)
        judged = np.broadcast_to(judged, found.shape)
        self.comparisons += int(judged.sum())
        self.unjudged += int(judged.size - judged.sum())
        other = judged & ~((found == expected) | ((found != found) & (expected != expected)))
        if other.any():
            here = tuple(map(int, np.argwhere(other)[0]))
            self.share = np.inf
            self.find(
                f"{what}: {int(other.sum())} of {int(judged.sum())} are not the same; "
                f"at {here} found {found[here]!r}, expected {expected[here]!r}"
            )


class Oracle(abc.ABC):
    """A question with an answer that can be judged without a reference.

    Attributes:
        name: in tables, and of `ONLY=`.
        about: what is judged against what, in a few words.
        seconds: what its first round takes, compilation included; a round that does not fit is not begun.
        compiles_once: whether later rounds take less.
        share: of the time, where that of others is 1.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    seconds: ClassVar[float] = 20.0
    compiles_once: ClassVar[bool] = True
    share: ClassVar[float] = 1.0

    @abc.abstractmethod
    def question(self, seed: int):
        """What is asked in the round of this seed."""

    @abc.abstractmethod
    def answer(self, question):
        """What jaxmbs says."""

    @abc.abstractmethod
    def judge(self, account: Account, question, answer) -> None:
        """Compare the answer with what must hold."""

    def round(self, seed: int) -> Account:
        """One round."""
        account, question = Account(), self.question(seed)
        self.judge(account, question, self.answer(question))
        return account
