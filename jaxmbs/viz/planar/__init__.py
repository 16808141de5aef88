"""Pictures of planar mechanisms: outlines in the plane, drawn by matplotlib or as SVG in a page."""

from jaxmbs.viz.planar.picture import Film as Film
from jaxmbs.viz.planar.picture import axes as axes
from jaxmbs.viz.planar.picture import equal_scales as equal_scales
from jaxmbs.viz.planar.picture import still as still
from jaxmbs.viz.planar.player import Player as Player
from jaxmbs.viz.planar.scene import Scene as Scene
from jaxmbs.viz.planar.symbols import symbol as symbol
