"""Six-bar linkages with a crank: a four-bar, and two further links between two of its links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmbs import planar
from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.four_bar import FourBar
from jaxmbs.synthesis.linkages.linkage import Linkage, along, dyad, from_line, placed_on
from jaxmbs.system.mechanism import Mechanism

# Between which links the further two are. Those with three joints are neighbours in Watt's chain, not in Stephenson's;
# which link is the ground, and which the crank, tells the inversions apart.
KINDS = {
    "Watt I": ("coupler", "rocker"),
    "Watt II": ("rocker", GROUND),
    "Stephenson I": ("crank", "rocker"),
    "Stephenson III": ("coupler", GROUND),
}


@dataclass(frozen=True)
class SixBar(Linkage):
    """A four-bar with a crank that turns all round, and two links `link` and `arm` with a common pin. Each of them
    begins at a pin on another link of the four-bar; the point is on `link`.

    | kind | link from | arm from |
    |---|---|---|
    | "Watt I" | coupler | rocker |
    | "Watt II" | rocker | ground |
    | "Stephenson I" | crank | rocker |
    | "Stephenson III" | coupler | ground |

    A design has the entries of the four-bar except its `point`, and five more. `first` and `second` are the places
    where `link` and `arm` begin, in the frames of those links: from the pin that is nearer to the crank's pivot (for
    the rocker, from its pivot) in axes of which x points along the link, for the ground along the line of the pivots.
    `link` and `arm` are the lengths. `point` is that of `link`, from its beginning in axes of which x points to the
    common pin. The branch is that of the four-bar and that of the two links: +1 where the common pin is to the left of
    the line from `first` to `second`.

    Args:
        kind: one of the four.

    Examples:
        >>> linkage = mbs.synthesis.SixBar("Watt I")
        >>> linkage.name, linkage.output, linkage.size
        ('Watt I', 'link', 15)
    """

    kind: str = "Stephenson III"

    entries: ClassVar[tuple[str, ...]] = (
        *("ground", "crank", "coupler", "rocker"),
        *("first", "second", "link", "arm", "point", "angle", "pivot"),
    )
    numbers: ClassVar[tuple[str, ...]] = (
        *("log", "log", "log", "pure"),
        *("length",) * 4,
        *("log", "log", "length", "length", "angle", "pivot", "pivot"),
    )
    signs: ClassVar[int] = 2
    output: ClassVar[str] = "link"

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.kind

    @staticmethod
    def design(u):
        base = FourBar.design(jnp.concatenate([u[:4], u[10:15]]))
        return {**base, "first": u[4:6], "second": u[6:8], "link": jnp.exp(u[8]), "arm": jnp.exp(u[9])}

    @staticmethod
    def sample(rng, count):
        base = FourBar.sample(rng, count)
        pins = 1.5 * rng.normal(size=(count, 4))
        lengths = rng.uniform(-0.5, 1.5, (count, 2))
        return np.column_stack([base[:, :4], pins, lengths, base[:, 4:]])

    def frames(self, b, angle, signs):
        frames, cosine = FourBar().frames(b, angle, signs[:1])
        frames[GROUND] = (jnp.zeros(2), along(jnp.ones_like(b["ground"])))
        (r, e), (s, f) = (frames[link] for link in KINDS[self.kind])
        begin, end = placed_on(r, e, b["first"]), placed_on(s, f, b["second"])
        line = end - begin
        e, other = dyad(line, b["link"], b["arm"], signs[1])
        frames |= {"link": (begin, e), "arm": (end, (b["link"] * e - line) / b["arm"])}
        return frames, jnp.stack([cosine[0], other])

    def mechanism(self, b, start=0.0, turn=1.0) -> Mechanism:
        """The four-bar's mechanism with the bodies "link" and "arm", their origins where they begin and x along them."""
        base, origin = FourBar.mechanism(b, start, turn), jnp.zeros(2)
        on = [
            (link, from_line(b, b[key]) if link == GROUND else b[key])
            for link, key in zip(KINDS[self.kind], ("first", "second"), strict=True)
        ]
        further = {
            "D": planar.Revolute(on[0][0], "link", on[0][1], origin),
            "E": planar.Revolute(on[1][0], "arm", on[1][1], origin),
            "F": planar.Revolute("link", "arm", along(b["link"]), along(b["arm"])),
        }
        bodies = {**base.bodies, "link": planar.Body(), "arm": planar.Body()}
        return Mechanism(bodies=bodies, constraints={**base.constraints, **further}, drivers=base.drivers)

    def pivots(self, b):
        both = [b["pivot"], from_line(b, along(b["ground"]))]
        return [*both, from_line(b, b["second"])] if KINDS[self.kind][1] == GROUND else both
