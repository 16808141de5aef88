"""All cases, which are registered by the import."""

from verification.cases import (
    haug_drivers,
    haug_gears,
    haug_kinematics,
    haug_singular,
    iftomm,
    issa_arczewski,
    ivp,
    joints,
    kamman,
    linkages,
    masarati,
    released,
    shafts,
    synthesis,
)

__all__ = [
    "haug_drivers",
    "haug_gears",
    "haug_kinematics",
    "haug_singular",
    "iftomm",
    "issa_arczewski",
    "ivp",
    "joints",
    "kamman",
    "linkages",
    "masarati",
    "released",
    "shafts",
    "synthesis",
]
