"""Pictures of spatial mechanisms: solids in space, drawn by matplotlib or by three.js in a page."""

from jaxmbs.viz.spatial.picture import Film as Film
from jaxmbs.viz.spatial.picture import axes as axes
from jaxmbs.viz.spatial.picture import equal_scales as equal_scales
from jaxmbs.viz.spatial.picture import still as still
from jaxmbs.viz.spatial.player import Player as Player
from jaxmbs.viz.spatial.scene import Scene as Scene
from jaxmbs.viz.spatial.symbols import symbol as symbol
