"""Linkages as solids for CAD and 3D printing: an assembly of parts, as STEP and STL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxmbs.io.files import replace_file
from jaxmbs.io.results.case import MILLIMETRES
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.trajectory import Trajectory

# Suffixes of files of solids.
SUFFIXES = (".step", ".stp", ".stl")
# Largest distance of the triangles of an STL file from the true surface, divided by the width of links.
STL_TOLERANCE = 2e-3
# Command that installs the package for solids.
INSTALL = 'pip install ".[cad]"'


def solids(
    mech: Mechanism,
    motion: Trajectory | Coordinates,
    path: str | os.PathLike[str] | None = None,
    *,
    unit: str = "mm",
    sizes: Any = None,
    points: Sequence[tuple[str, Sequence[float]]] = (),
    name: str = "linkage",
) -> Any:
    """Make the parts of a linkage as solids, and write them as STEP or STL.

    In the plane each body is a plate. The layers are chosen such that plates, pins and spacers do not collide in any of
    at most 73 configurations; if no such order is found, a warning names the parts that collide. A `Revolute` is a pin
    through all of its plates, with spacers between them; a `Translational` is a slot with a block, a
    `RevoluteTranslational` a slot with a pin; gears are their pitch discs. The ground is the lowest plate.
    In space each body is made of bars; see the page on CAD.

    The solids have the names of bodies and joints, and the colours of pictures. Needs `pip install ".[cad]"`.

    Args:
        mech: the mechanism.
        motion: the motion, in which parts are kept apart; they are shown at its first time. Or one configuration.
        path: a file `.step` or `.stp`, which keeps parts, names and colours, or `.stl`, which has only triangles. None
            by default.
        unit: unit of length of the mechanism: mm, cm, m, in or ft. Solids and files are in millimetres.
        sizes: sizes of the parts, a `viz.PartSizes`; by default relative to the size of the mechanism.
        points: (body, point), …: points of bodies that get a hole, such as that for a pen.
        name: name of the assembly.

    Returns:
        the assembly, a `Compound` of build123d with a child for each part, in millimetres; the path if one is given.

    Raises:
        ValueError: an unknown suffix or unit, a motion that failed at all times, a batch of motions, or holes as wide as
            links.
        ImportError: build123d is not installed.

    Examples:
        >>> assembly = mbs.io.solids(mech, mbs.assemble(mech, guess), unit="cm")
        >>> [part.label for part in assembly.children][:4]
        ['ground', 'crank', 'rod', 'slider']
    """
    if unit not in MILLIMETRES:
        raise ValueError(f"unit must be one of {', '.join(MILLIMETRES)}, got {unit!r}")
    path = None if path is None else Path(path)
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"path: cannot write {path.name!r}: the name must end in one of {', '.join(SUFFIXES)}")
    try:
        import build123d as cad
    except ImportError as error:
        raise ImportError(f"solids are made by build123d: {INSTALL}") from error
    # These need build123d and matplotlib.
    from jaxmbs.io.results import planar_solids, spatial_solids
    from jaxmbs.viz import PartSizes
    from jaxmbs.viz.dimension import scene_of
    from jaxmbs.viz.mesh_scene import configurations, spread

    times, q = configurations(mech, motion)
    scene = scene_of(mech, q[spread(len(q))], times[0], marked=points, size=1.0, view=None)
    module = planar_solids if mech.layout.dimension == 2 else spatial_solids
    chosen = PartSizes() if sizes is None else sizes
    parts, width = module.solids_of(scene, chosen, tuple(points), MILLIMETRES[unit])
    assembly = cad.Compound(label=name, children=parts)
    if path is None:
        return assembly
    if path.suffix.lower() == ".stl":
        return replace_file(path, lambda part: cad.export_stl(assembly, part, tolerance=STL_TOLERANCE * width))
    return replace_file(path, lambda part: cad.export_step(assembly, part))
