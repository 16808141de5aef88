"""The choice between pictures of the plane and of space.

`jaxmbs.viz.planar` and `jaxmbs.viz.spatial` have the same names: `Scene`, a mechanism as a list of shapes; `axes` and
`equal_scales`, for matplotlib; `still`, which draws a scene; `Film`, its frames; `Player`, the page that plays it.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz import planar, spatial
from jaxmbs.viz.attachments import Marked

# The modules that draw mechanisms, by dimension.
KITS: dict[int, ModuleType] = {2: planar, 3: spatial}


def kit(layout: Layout) -> ModuleType:
    """Return the module that draws mechanisms with this layout: `planar` or `spatial`."""
    return KITS[layout.bodies[0][1].dimension]


def scene_of(mech: Mechanism, q, t: float, *, marked: Marked, size: float, view: tuple[float, float] | None):
    """Return the scene of a mechanism in configurations q (F, n), the first of them at time t."""
    if view is not None and kit(mech.layout) is not spatial:
        raise ValueError("view: a planar mechanism has one view only; leave it out")
    camera = {} if view is None else {"view": view}
    return kit(mech.layout).Scene(mech, np.asarray(q), t, marked=marked, size=size, **camera)
