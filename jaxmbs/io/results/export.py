"""Export of results of synthesis: the suffix of the path chooses the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jaxmbs.io.results.case import MILLIMETRES, case_of
from jaxmbs.io.results.tables import write_csv, write_json

# Suffixes for which `export` writes a technical drawing.
DRAWINGS = (".svg", ".dxf")
# Function by which `export` writes a table, by suffix.
TABLES = {".json": write_json, ".csv": write_csv}
# Suffixes for which `export` writes an animation.
FILMS = (".gif", ".html", ".mp4", ".glb")
# Suffixes for which `export` writes solids.
SOLIDS = (".step", ".stp", ".stl")
# Default number of times in tables and drawings: one for each degree of the crank.
ROWS = 361
# Default number of frames in animations: a cycle takes four seconds.
FRAMES = 101


def export(
    solution: Any, path: str | os.PathLike, *, title: str | None = None, times: Any = None, unit: str = "mm"
) -> Path:
    """Write a result of synthesis to a file.

    - `.json`: all of its numbers; `read_solution` reads them.
    - `.csv`: its motion: time, crank angle in degrees, place of the traced point, status. For a function generator: x,
      crank angle, output and wanted output.
    - `.svg`: a drawing to scale with the dimensions, as the linkage stands at the first of the times.
    - `.dxf`: the same drawing in true size for CAD, with the layers LINKS, JOINTS, PATH, DIMENSIONS, SYMBOLS and SHEET.
      Needs ezdxf.
    - `.gif`, `.html`, `.mp4`, `.glb`: the motion, with the curve of the traced point; see `viz.animate`.
    - `.step`, `.stl`: solids for CAD and 3D printing, in millimetres; see `solids`. Needs build123d.

    Drawings, animations and solids need matplotlib.

    Args:
        solution: an object with a `mechanism` and a `guess`, its poses at time 0. Drawings need a planar mechanism. The
            traced point is `solution.point`, (body, coordinates), else that of the coupler of a four-bar.
        path: the file.
        title: heading of drawings and animations, name of the assembly of solids.
        times: times of the motion; by default one cycle of the motor, from 0 to 1.
        unit: unit of length in drawings and of solids: mm, cm, m, in or ft.

    Returns:
        the path.

    Raises:
        ValueError: an unknown suffix or unit; a drawing of a mechanism in space; a motion that fails at all times.

    Examples:
        >>> from types import SimpleNamespace
        >>> found = SimpleNamespace(mechanism=mech, guess=guess, point=("rod", (1.0, 0.0)))
        >>> path = mbs.io.export(found, "slider_crank.csv", times=jnp.array([0.0, 0.5]))
        >>> print(path.read_text().splitlines()[0])
        time,crank_angle_deg,x,y,status
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (*TABLES, *DRAWINGS, *FILMS, *SOLIDS):
        known = ", ".join((*TABLES, *DRAWINGS, *FILMS, *SOLIDS))
        raise ValueError(f"path: cannot write {path.name!r}: the name must end in one of {known}")
    if unit not in MILLIMETRES:
        raise ValueError(f"unit must be one of {', '.join(MILLIMETRES)}, got {unit!r}")
    if times is None:
        times = np.linspace(0, 1, FRAMES if suffix in FILMS else ROWS)
    case = case_of(solution, times, only_planar=suffix in DRAWINGS)
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix in DRAWINGS:
        # Drawings and films need matplotlib, which tables do without.
        from jaxmbs.io.results.drawing import drawing_of
        from jaxmbs.io.results.dxf import write_dxf
        from jaxmbs.io.results.svg import write_svg

        write = write_dxf if suffix == ".dxf" else write_svg
        write(drawing_of(case, title or "", unit), path)
    elif suffix in FILMS:
        from jaxmbs import viz

        traces = [] if case.point is None else [(case.point[0], tuple(case.point[1]))]
        viz.animate(case.mechanism, case.motion, path, traces=traces, title=title)
    elif suffix in SOLIDS:
        from jaxmbs.io.results.solids import solids

        points = [] if case.point is None else [(case.point[0], tuple(case.point[1]))]
        solids(case.mechanism, case.motion, path, unit=unit, points=points, name=title or "linkage")
    else:
        TABLES[suffix](case, path)
    return path
