"""Assemblies of FreeCAD: `.asmt`, the text format of its solver, and the Assembly workbench in `.FCStd`."""

from jaxmbs.io.models.freecad.asmt import read_asmt as read_asmt
from jaxmbs.io.models.freecad.fcstd import read_fcstd as read_fcstd
