"""Pictures of mechanisms, in the plane and in space: stills, curves of points, animations, a live view.

Needs matplotlib: `pip install matplotlib`. The functions serve the plane and space; `planar` and `spatial` have the
shapes and the symbols of each.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("jaxmbs.viz draws with matplotlib: pip install matplotlib") from error

from jaxmbs.viz import planar as planar
from jaxmbs.viz import spatial as spatial
from jaxmbs.viz.animation import animate as animate
from jaxmbs.viz.attachments import attachments as attachments
from jaxmbs.viz.part_sizes import PartSizes as PartSizes
from jaxmbs.viz.pictures import draw as draw
from jaxmbs.viz.pictures import plot as plot
from jaxmbs.viz.pictures import trace as trace
from jaxmbs.viz.planar.symbols import symbol as symbol
from jaxmbs.viz.progress import progress_bar as progress_bar
from jaxmbs.viz.studies import MAX_POINTS as MAX_POINTS
from jaxmbs.viz.studies import scatter_matrix as scatter_matrix
from jaxmbs.viz.viewer import Viewer as Viewer
from jaxmbs.viz.viewer import show as show
