"""Pictures of planar mechanisms: stills, coupler curves, animations. Needs matplotlib: `pip install "jaxmbs[viz]"`."""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError('jaxmbs.viz draws with matplotlib: pip install "jaxmbs[viz]"') from error

from jaxmbs.viz.animation import animate as animate
from jaxmbs.viz.pictures import draw as draw
from jaxmbs.viz.pictures import plot as plot
from jaxmbs.viz.pictures import trace as trace
from jaxmbs.viz.symbols import attachments as attachments
from jaxmbs.viz.symbols import symbol as symbol
