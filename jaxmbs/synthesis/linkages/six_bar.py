"""Six-bar linkages with a crank: a four-bar, and two further links between two of its links."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.dyadic import AbstractDyadic, Dyad
from jaxmbs.synthesis.linkages.four_bar import FourBar

# Kind of six-bar ↦ links of the four-bar on which `link` and `arm` begin. The links with three joints are neighbours in
# Watt's chain, not in Stephenson's; inversions differ by the links that are ground and crank.
KINDS = {
    "Watt I": ("coupler", "rocker"),
    "Watt II": ("rocker", GROUND),
    "Stephenson I": ("crank", "rocker"),
    "Stephenson III": ("coupler", GROUND),
}


@dataclass(frozen=True)
class SixBar(AbstractDyadic):
    """A four-bar whose crank turns fully, and two links, `link` and `arm`, with a common pin.

    Each of them begins at a pin on another link of the four-bar; the point is on `link`.

    | kind | link from | arm from |
    |---|---|---|
    | "Watt I" | coupler | rocker |
    | "Watt II" | rocker | ground |
    | "Stephenson I" | crank | rocker |
    | "Stephenson III" | coupler | ground |

    A design has the entries of the four-bar except its `point`, and five more. `first` and `second` are the places
    where `link` and `arm` begin, in the frames of the links that carry them: from the pin nearer to the crank's pivot
    (for the rocker, from its pivot) with x along the link, for the ground along the line of the pivots. `link` and
    `arm` are lengths. `point` is on `link`, from its beginning with x towards the common pin. The branch has the sign of
    the four-bar and that of the two links: +1 if the common pin is to the left of the line from `first` to `second`.

    Args:
        kind: one of the four.

    Examples:
        >>> linkage = mbs.synthesis.SixBar("Watt I")
        >>> linkage.name, linkage.output, linkage.size
        ('Watt I', 'link', 16)
    """

    dyads: Any = field(init=False, repr=False, default=())
    kind: str = "Stephenson III"

    numbers: ClassVar[tuple[str, ...]] = (
        *("log", "log", "log", "pure"),
        *("length",) * 4,
        *("log", "log", "length", "length", "angle", "pivot", "pivot", "pure"),
    )

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")
        object.__setattr__(self, "dyads", (Dyad("crank", GROUND), Dyad(*KINDS[self.kind])))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the linkage, which is its kind."""
        return self.kind

    @staticmethod
    def design(u):
        """Return the design of free numbers u (16,): those of the four-bar, and of the two further links."""
        base = FourBar.design(jnp.concatenate([u[:4], u[10:16]]))
        return {**base, "first": u[4:6], "second": u[6:8], "link": jnp.exp(u[8]), "arm": jnp.exp(u[9])}

    @staticmethod
    def sample(rng, count):
        """Return free numbers (count, 16) of random linkages of about unit size."""
        base = FourBar.sample(rng, count)
        pins = 1.5 * rng.normal(size=(count, 4))
        lengths = rng.uniform(-0.5, 1.5, (count, 2))
        return np.column_stack([base[:, :4], pins, lengths, base[:, 4:]])
