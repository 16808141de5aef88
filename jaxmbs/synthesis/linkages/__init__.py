"""Linkages with a crank whose dimensions the syntheses search for."""

from jaxmbs.element import GROUND
from jaxmbs.synthesis.linkages.dyadic import AbstractDyadic as AbstractDyadic
from jaxmbs.synthesis.linkages.dyadic import Dyad as Dyad
from jaxmbs.synthesis.linkages.dyadic import Dyadic as Dyadic
from jaxmbs.synthesis.linkages.four_bar import FourBar as FourBar
from jaxmbs.synthesis.linkages.geared_five_bar import GearedFiveBar as GearedFiveBar
from jaxmbs.synthesis.linkages.linkage import Linkage as Linkage
from jaxmbs.synthesis.linkages.six_bar import KINDS
from jaxmbs.synthesis.linkages.six_bar import SixBar as SixBar
from jaxmbs.synthesis.linkages.slider_crank import SliderCrank as SliderCrank

# Linkages that `path` knows by name.
LINKAGES: dict[str, Linkage] = {
    linkage.name: linkage for linkage in (FourBar(), SliderCrank(), GearedFiveBar(), *map(SixBar, KINDS))
}
# Short names, for the inversions that are used most.
LINKAGES |= {
    "Watt": LINKAGES["Watt I"],
    "Stephenson": LINKAGES["Stephenson III"],
    "six-bar": LINKAGES["Stephenson III"],
    "Klann": LINKAGES["Stephenson III"],
    "Jansen": Dyadic((Dyad("crank", GROUND), Dyad("crank", GROUND), Dyad("arm", "rocker"))),
}


def linkage_of(mechanism: str | Linkage) -> Linkage:
    """Return a linkage by its name, in upper or lower case; a `Linkage` is returned unchanged."""
    if isinstance(mechanism, Linkage):
        return mechanism
    wanted = " ".join(str(mechanism).lower().replace("-", " ").replace("_", " ").split())
    for name, linkage in LINKAGES.items():
        if wanted in (plain := name.lower().replace("-", " "), f"{plain} six bar"):
            return linkage
    raise ValueError(f"mechanism must be one of {', '.join(map(repr, LINKAGES))}, or a builder, got {mechanism!r}")
