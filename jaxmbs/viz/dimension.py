"""The one place where pictures tell the plane from space.

`jaxmbs.viz.planar` and `jaxmbs.viz.spatial` have the same names in them: `Scene`, a mechanism taken apart into shapes;
`axes` and `one_scale`, for matplotlib; `still`, which draws a scene; `Film`, its frames; `Player`, the page that
plays it.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.viz import planar, spatial
from jaxmbs.viz.attachments import Marked

KITS: dict[int, ModuleType] = {2: planar, 3: spatial}


def kit(layout: Layout) -> ModuleType:
    """The module that draws the bodies of a mechanism."""
    return KITS[layout.bodies[0][1].dimension]


def scene_of(mech: Mechanism, q, t: float, *, marked: Marked, size: float, view: tuple[float, float] | None):
    """The scene of a mechanism in configurations q (F, n), the first of them at the time t."""
    if view is not None and kit(mech.layout) is not spatial:
        raise ValueError("a planar mechanism is seen from one side only: leave `view` out")
    camera = {} if view is None else {"view": view}
    return kit(mech.layout).Scene(mech, np.asarray(q), t, marked=marked, size=size, **camera)
